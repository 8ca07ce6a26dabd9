//! Predictions of official results by simulation.

use super::law::{fit, start, steady_step};
use super::{StorageResult, StorageResults, StorageRole, System, target};
use crate::import::dlio::Beside;
use crate::published::PublishedError;
use crate::report::{JobReport, summarise};
use crate::scenario::ScenarioFile;
use crate::sim::{self, Options};
use crate::stats::quantile;
use rayon::prelude::*;
use std::fmt::Write as _;

/// Steps that are simulated at least, and for each worker of a loader.
const STEPS: u32 = 100;
const STEPS_OF_WORKER: u32 = 4;
/// Samples up to which a whole epoch is simulated: on a storage that is nearly fast enough, batches that workers made at its start last
/// long.
const MOST_SAMPLES: u64 = 3_000_000;

/// An official result beside its prediction.
#[derive(Debug, Clone)]
pub struct StorageCompared<'p> {
    /// The system.
    pub system: &'p System,
    /// The result.
    pub result: &'p StorageResult,
    /// What the result is used for: as an input of predictions, or to judge them.
    pub role: StorageRole,
    /// Bandwidth that was simulated [B/s].
    pub bandwidth: f64,
    /// Work beside computing that was simulated.
    pub beside: Beside,
    /// Predicted samples per second, by the round's definition.
    pub samples_per_second: f64,
    /// Interval of samples per second in which nine of ten results should lie, by the errors of other submitters' results of the workload;
    /// `None` if there are none. Those errors are of predictions whose fits use results of this submitter.
    pub interval90: Option<[f64; 2]>,
    /// Predicted accelerator utilisation, by the round's definition.
    pub utilisation: f64,
    /// Predicted mean time until a rank's first batch in later epochs [s]: at the bandwidth at which first batches of the system's other
    /// results came, where they show it.
    pub first_batch: f64,
    /// Whether the official time of first batches is in none of the inputs of its prediction.
    pub judges_first_batch: bool,
    /// Samples per second at the median share of the fastest possible rate that other submitters reach with the workload.
    pub constant: f64,
    /// Samples per second that the bandwidth alone allows.
    pub bandwidth_only: f64,
    /// Largest number of accelerators that reach the target of utilisation, in closed form.
    pub accelerators: u32,
}

impl StorageCompared<'_> {
    /// Returns whether the result judges the prediction: its own samples per second are in none of its inputs.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        matches!(self.role, StorageRole::Held | StorageRole::PriceList)
    }

    /// Returns the relative error of the predicted samples per second.
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        self.samples_per_second / self.result.samples_per_second - 1.0
    }
}

/// Returns all results with their predictions, in the order of the file. What ranks do beside computing is fitted without the systems of
/// the result's submitter.
///
/// # Errors
/// If a result cannot be simulated; the error names its line, and calls the file `name`.
pub fn compare<'p>(
    name: &str,
    all: &'p StorageResults,
) -> Result<Vec<StorageCompared<'p>>, PublishedError> {
    let rows = all.systems.iter().flat_map(|system| {
        let (bandwidth, roles) = system.bandwidth();
        system.results.iter().zip(roles).map(move |(of, role)| (system, of, role, bandwidth))
    });
    let rows: Vec<_> = rows.collect();
    let compared = rows.par_iter().map(|(system, of, role, bandwidth)| {
        let law = fit(all, &system.round, &of.workload, Some(&system.submitter));
        let beside = law.map_or_else(Beside::default, |law| law.beside);
        let start = start(all, system, of);
        let simulated = simulate(system, of, *bandwidth, &beside, start)
            .map_err(|what| PublishedError { file: name.to_owned(), line: of.line, what })?;
        let shown = system.bandwidth_of_first_batches(of);
        Ok(StorageCompared {
            system,
            result: of,
            role: *role,
            bandwidth: *bandwidth,
            beside,
            samples_per_second: simulated.samples_per_second,
            interval90: None,
            utilisation: simulated.utilisation,
            first_batch: match (shown, of.is_pytorch()) {
                // The time in which all first batches are read is in proportion to 1 / bandwidth.
                (Some(shown), _) => (simulated.first_batch - start) * bandwidth / shown,
                (None, true) => simulated.first_batch - start,
                (None, false) => simulated.first_batch,
            },
            judges_first_batch: shown.is_some()
                || matches!(role, StorageRole::Held | StorageRole::PriceList),
            constant: usual_share(all, system, &of.workload) * of.fastest(),
            bandwidth_only: of.fastest().min(bandwidth / of.sample_size),
            accelerators: most_accelerators(of, &beside, *bandwidth),
        })
    });
    let mut compared: Vec<StorageCompared<'_>> = compared.collect::<Result<_, _>>()?;
    let intervals: Vec<_> = compared.iter().map(|one| interval(one, &compared)).collect();
    compared.iter_mut().zip(intervals).for_each(|(one, interval)| one.interval90 = interval);
    Ok(compared)
}

/// Returns the median of the shares of the fastest possible rate that results of a workload reach in rounds like that of `system`, without
/// those of its submitter; 1 if there are none.
fn usual_share(all: &StorageResults, system: &System, workload: &str) -> f64 {
    let others = all.systems.iter().filter(|other| {
        other.submitter != system.submitter
            && StorageResult::counts_first(&other.round)
                == StorageResult::counts_first(&system.round)
    });
    let of = others.flat_map(|other| &other.results).filter(|of| of.workload == workload);
    let mut shares: Vec<f64> = of.map(|of| of.samples_per_second / of.fastest()).collect();
    shares.sort_by(f64::total_cmp);
    quantile(&shares, 0.5).unwrap_or(1.0)
}

/// Returns the 90 % interval of a prediction: nine of ten errors of other submitters' results of its workload are smaller than its half
/// width. Errors come from rounds with the same definitions, or from all rounds if there are none.
fn interval(of: &StorageCompared<'_>, all: &[StorageCompared<'_>]) -> Option<[f64; 2]> {
    let errors = |alike: bool| {
        let counts_first =
            |one: &StorageCompared<'_>| StorageResult::counts_first(&one.system.round);
        let others = all.iter().filter(|one| one.is_judged());
        let others = others.filter(|one| one.system.submitter != of.system.submitter);
        let others = others.filter(|one| one.result.workload == of.result.workload);
        let others = others.filter(|one| !alike || counts_first(one) == counts_first(of));
        let mut errors: Vec<f64> = others.map(|one| one.relative_error().abs()).collect();
        errors.sort_by(f64::total_cmp);
        errors
    };
    let alike = errors(true);
    let errors = if alike.is_empty() { errors(false) } else { alike };
    let most = quantile(&errors, 0.9)?;
    // An error of 1 and more leaves the result open above.
    let high = match most < 1.0 {
        true => (of.samples_per_second / (1.0 - most)).min(of.result.fastest()),
        false => of.result.fastest(),
    };
    Some([of.samples_per_second / (1.0 + most), high])
}

/// Returns the largest number of accelerators that reach the target of utilisation on as many ranks a host as the result has, or more.
fn most_accelerators(of: &StorageResult, beside: &Beside, bandwidth: f64) -> u32 {
    let reaches = |ranks: u32| {
        let more = StorageResult { ranks, hosts: of.hosts.min(ranks), ..of.clone() };
        of.step >= target(&of.workload) * steady_step(&more, beside, bandwidth)
    };
    let (mut low, mut high) = (0, of.ranks.max(8).saturating_mul(8));
    while low < high {
        let middle = (low + high).div_ceil(2);
        if reaches(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

/// A simulated result, by its round's definitions.
struct Simulated {
    samples_per_second: f64,
    utilisation: f64,
    first_batch: f64,
}

/// Simulates the beginning of an epoch and its steady state, and puts them together for as many steps as the epoch has.
fn simulate(
    system: &System,
    of: &StorageResult,
    bandwidth: f64,
    beside: &Beside,
    start: f64,
) -> Result<Simulated, String> {
    let text = scenario(system, of, bandwidth, beside, start);
    let parsed = ScenarioFile::parse(&system.name, text).and_then(|file| file.resolve(&[]));
    let scenario = parsed.map_err(|problems| {
        format!("the result cannot be simulated: {problems}; correct its numbers")
    })?;
    let outcome = sim::run(&scenario, 0, &Options::default());
    let report = summarise(&scenario, &[outcome], 0.0);
    let known = report.jobs.first().and_then(|JobReport { figures, epoch_starts, .. }| {
        let starts = epoch_starts.as_ref()?;
        Some((figures.step_time.mean?, starts.first_batch.mean?, starts.first_step.mean?))
    });
    let Some((step, first_batch, first_step)) = known else {
        return Err("the result cannot be simulated: no step ends; correct its numbers".to_owned());
    };
    let later = f64::from(of.steps) - 1.0;
    let whole = first_step + later * step;
    let samples = f64::from(of.ranks) * f64::from(of.batch);
    let counts_first = StorageResult::counts_first(&system.round);
    Ok(Simulated {
        samples_per_second: match counts_first {
            true => samples * f64::from(of.steps) / whole,
            false => samples / step,
        },
        utilisation: match counts_first {
            true => later * of.step / (whole - first_batch - of.step),
            false => of.step / step,
        },
        first_batch,
    })
}

/// Returns the scenario with which a result is predicted; its epochs begin with `start` [s] beside reading, in the mean. A batch of TensorFlow's record files is one sample: they are read in a stream, and
/// how many records it has does not matter.
#[must_use]
pub fn scenario(
    system: &System,
    of: &StorageResult,
    bandwidth: f64,
    beside: &Beside,
    start: f64,
) -> String {
    let pytorch = of.is_pytorch();
    let (batch, size) = match pytorch {
        true => (of.batch, of.sample_size),
        false => (1, of.sample_size * f64::from(of.batch)),
    };
    let deviation = if of.workload == "unet3d" { 48.3e6 / 146.6e6 } else { 0.0 };
    let size = match deviation > 0.0 {
        true => {
            format!("{{ normal = {{ mean = \"{size} B\", sd = \"{} B\" }} }}", deviation * size)
        }
        false => format!("\"{size} B\""),
    };
    let loader = match pytorch {
        true => format!(
            "[job.loader.pytorch]\nworkers = {}\nprefetch_factor = {}\npersistent_workers = true\ndrop_last = true\nstart = \"{} s\" # in the mean over epochs\n",
            of.workers,
            2_u32.div_ceil(of.workers),
            start / f64::from(of.workers)
        ),
        false => format!(
            "[job.loader.tf-data]\nparallel_reads = 1 # together {} make each batch\nparallel_calls = 1\nprefetch = 2\nstart = \"{start} s\"\n",
            of.workers
        ),
    };
    let (each, more) = (of.ranks / of.hosts, of.ranks % of.hosts);
    let copies = match more {
        0 => each.to_string(),
        _ => {
            let of_host = |host: u32| (each + u32::from(host < more)).to_string();
            format!("[{}]", (0..of.hosts).map(of_host).collect::<Vec<_>>().join(", "))
        }
    };
    let steps = steps(of, batch);
    let warm_up = if steps == of.steps { 1 } else { steps / 2 };
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "# {} of {}: {} {} for {}.\n# Official: {} samples per second, utilisation {:.1} %, by the rules of {}.\nname = \"mlperf\"\n\n\
         [run]\nsteps = {steps}\nwarm_up = {}\nreplications = 1\nseed = 123\n\n\
         [cluster]\nnodes = {}\nnode = {{ cores = {}, gpus = {} }}\n\n\
         [storage.data.file-server]\nbandwidth = \"{bandwidth} B/s\"\n\n\
         [dataset.train]\nsamples = {}\nsample_size = {size}\n\n\
         [[job]]\nname = \"mlperf\"\nnodes = {}\ndataset = \"train\"\nstorage = \"data\"\nbatch = {batch}\n\n{loader}\n\
         [job.parallel.data]\ncopies_per_node = {copies}\nloaders = \"per-rank\"\n\n\
         [job.model]\nstep = \"{} s\"\nlaunch = {}\n",
        one_line(&system.name),
        one_line(&system.submitter),
        of.ranks,
        one_line(&of.accelerator),
        one_line(&of.workload),
        of.samples_per_second,
        100.0 * of.utilisation,
        one_line(&system.round),
        warm_up,
        of.hosts,
        of.cores,
        of.ranks.div_ceil(of.hosts),
        u64::from(of.steps.max(steps)).saturating_mul(of.ranks.into()).saturating_mul(batch.into()),
        of.hosts,
        of.step,
        beside.launch(),
    );
    text
}

/// Returns the number of steps to simulate, of batches of `batch` samples: all of an epoch, if they are not too many.
fn steps(of: &StorageResult, batch: u32) -> u32 {
    let samples =
        u64::from(of.ranks).saturating_mul(u64::from(batch)).saturating_mul(of.steps.into());
    if samples <= MOST_SAMPLES { of.steps.max(3) } else { STEPS.max(STEPS_OF_WORKER * of.workers) }
}

/// Returns a name without characters that would end a comment.
fn one_line(name: &str) -> String {
    name.replace(char::is_control, " ")
}
