//! What official results of MLPerf Storage show beside computing and reading, as the import writes it: the work of a rank of DLIO in each step
//! (hand-over by the loader, bookkeeping, logs, the barrier's own time), which bounds the accelerator utilisation on an infinitely fast storage;
//! and the beginning of epochs, for which PyTorch starts workers and TensorFlow lists files.
//!
//! The constants are fitted to results of v1.0 and v3.0 in `calibrate/published/mlperf.toml`: all results of a workload whose storage's
//! bandwidth is known from elsewhere, or does not limit them. `forebay published` fits them again without the submitter that it predicts.

/// Work beside computing of a rank in each step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Beside {
    /// Core time of each of `threads` threads [s], before the step.
    pub work: f64,
    /// Number of these threads; threads of all ranks share the host's cores.
    pub threads: u32,
    /// Mean of an exponentially distributed time of each rank, of which a barrier takes the longest [s].
    pub varying: f64,
    /// Time that the ranks of a host spend one after the other [s].
    pub serial: f64,
}

/// The constants of a workload.
struct Known {
    /// Beginning of the workload's name.
    name: &'static str,
    /// Steps up to this time have these constants: those of the accelerators of later rounds [s].
    shorter_than: f64,
    beside: Beside,
    source: &'static str,
}

const NONE: Beside = Beside { work: 0.0, threads: 1, varying: 0.0, serial: 0.0 };

const KNOWN: [Known; 5] = [
    Known {
        name: "unet3d",
        shorter_than: 0.2,
        beside: Beside { varying: 1.8e-3, ..NONE },
        source: "7 official results of MLPerf Storage v3.0",
    },
    Known {
        name: "unet3d",
        shorter_than: f64::INFINITY,
        beside: Beside { varying: 6.87e-3, serial: 1.42e-3, ..NONE },
        source: "16 official results of MLPerf Storage v1.0",
    },
    Known {
        name: "resnet50",
        shorter_than: f64::INFINITY,
        beside: Beside { work: 2.51e-3, threads: 8, varying: 2.0e-3, ..NONE },
        source: "18 official results of MLPerf Storage v1.0",
    },
    Known {
        name: "cosmoflow",
        shorter_than: f64::INFINITY,
        beside: Beside { work: 0.551e-3, threads: 8, varying: 0.196e-3, ..NONE },
        source: "21 official results of MLPerf Storage v1.0",
    },
    Known {
        name: "retinanet",
        shorter_than: f64::INFINITY,
        beside: Beside { varying: 1.02e-3, ..NONE },
        source: "2 official results of MLPerf Storage v3.0",
    },
];

/// Returns the work beside computing of a workload whose steps take `step` [s], and where the constants come from; `None` for a workload
/// of which no official results were read.
#[must_use]
pub fn beside(name: &str, step: f64) -> Option<(Beside, &'static str)> {
    let lower = name.to_lowercase();
    let known = KNOWN.iter().find(|of| lower.starts_with(of.name) && step < of.shorter_than)?;
    Some((known.beside, known.source))
}

impl Beside {
    /// Returns the value of `job.model.launch` in the notation of scenarios.
    #[must_use]
    pub fn launch(&self) -> String {
        let Beside { work, threads, varying, serial } = *self;
        let mut keys = vec![format!("work = \"{} us\"", micro(work))];
        if threads > 1 {
            keys.push(format!("threads = {threads}"));
        }
        if varying > 0.0 {
            keys.push(format!(
                "varying = {{ exponential = {{ mean = \"{} us\" }} }}",
                micro(varying)
            ));
        }
        if serial > 0.0 {
            keys.push(format!("serial = \"{} us\"", micro(serial)));
        }
        keys.push("overlap = false".to_owned());
        format!("{{ {} }}", keys.join(", "))
    }

    /// Returns the same work with all times multiplied by `factor`.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Beside {
        let Beside { work, threads, varying, serial } = self;
        Beside { work: work * factor, threads, varying: varying * factor, serial: serial * factor }
    }

    /// Returns the time that the slowest of `ranks` ranks on `hosts` equal hosts of `cores` cores spends in a step, in the mean [s].
    #[must_use]
    pub fn slowest(&self, ranks: u32, hosts: u32, cores: u32) -> f64 {
        let each = f64::from(ranks) / f64::from(hosts.max(1));
        let share = f64::from(self.threads) * each / f64::from(cores.max(1));
        let longest: f64 = (1..=ranks).map(|rank| 1.0 / f64::from(rank)).sum();
        self.work * share.max(1.0) + self.varying * longest + self.serial * each
    }
}

/// Returns a time in microseconds, rounded to 0.01 µs.
fn micro(seconds: f64) -> f64 {
    (1e8 * seconds).round() / 100.0
}

/// Time to start a worker of PyTorch [s]: by how much the first epoch's first batch comes later than those of the other epochs, in 36 results
/// of U-Net3D. Medians of eleven submitters' results go from -0.09 to 1.3 s.
pub const START_OF_WORKER: f64 = 0.1;

/// Time for each file of the data set to begin an epoch of TensorFlow [s]: first batches of 23 results of CosmoFlow, whose files hold one
/// sample. Medians of six submitters' results go from 0.5 to 1.2 µs.
pub const START_PER_FILE: f64 = 0.73e-6;

/// Time to begin an epoch of ResNet-50 on TensorFlow, whose files are few [s]: first batches of 22 results beyond their bytes.
pub const START_OF_RESNET50: f64 = 0.19;

/// Returns the lines that set how long a `tf-data` loader takes to begin an epoch: `measured` [s], or what official results of the workload
/// `name` show.
#[must_use]
pub fn tensorflow_start(name: &str, measured: Option<f64>) -> String {
    if let Some(seconds) = measured {
        return format!("start = \"{} ms\" # in each epoch: from these results\n", milli(seconds));
    }
    let start = if name.to_lowercase().starts_with("resnet50") { START_OF_RESNET50 } else { 0.0 };
    format!(
        "start = \"{} ms\" # in each epoch: from official results\nstart_per_file = \"{} us\" # the list of files: from official results of CosmoFlow\n",
        milli(start),
        1e6 * START_PER_FILE
    )
}

/// Returns the line that sets how long a `pytorch` loader takes to start a worker: `measured` [s], or what official results show.
#[must_use]
pub fn pytorch_start(measured: Option<f64>) -> String {
    let (seconds, source) = match measured {
        Some(seconds) => (seconds, "these results"),
        None => (START_OF_WORKER, "official results of U-Net3D"),
    };
    format!(
        "start = \"{} ms\" # of each worker, before the first epoch: from {source}\n",
        milli(seconds)
    )
}

/// Returns a time in milliseconds, rounded to 0.1 ms.
fn milli(seconds: f64) -> f64 {
    (1e4 * seconds).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_of_n_ranks_takes_the_harmonic_sum_its_share_of_cores_and_all_turns() {
        let of = Beside { work: 1.0, threads: 4, varying: 6.0, serial: 0.5 };
        // Two hosts of four cores with three ranks each: twelve threads on four cores.
        let longest = 6.0 * (1.0 + 0.5 + 1.0 / 3.0 + 0.25 + 0.2 + 1.0 / 6.0);
        assert!((of.slowest(6, 2, 4) - (3.0 + longest + 1.5)).abs() < 1e-12);
        assert!((of.slowest(1, 1, 64) - (1.0 + 6.0 + 0.5)).abs() < 1e-12);
    }

    #[test]
    fn each_workload_has_its_own_constants_and_others_have_none() {
        let step = |name, step| beside(name, step).map(|(of, _)| of.slowest(1, 1, 64));
        assert!(step("unet3d", 0.323) > step("unet3d_b200", 0.162));
        assert!(step("cosmoflow", 3.5e-3).is_some_and(|of| of < 1e-3));
        assert_eq!(step("flux", 0.3), None);
        let (of, _) = beside("cosmoflow", 3.5e-3).expect("constants");
        assert_eq!(
            of.launch(),
            "{ work = \"551 us\", threads = 8, varying = { exponential = { mean = \"196 us\" } }, overlap = false }"
        );
    }
}
