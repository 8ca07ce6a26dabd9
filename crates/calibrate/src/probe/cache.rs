//! The probe `cache`: measures which share of a working set's reads hit the page cache when the set is read a
//! second time.

use super::read::{Access, Buffer, DataFile, drop_from_cache, open, write};
use super::{Bytes, Cell, Context, Count, Probe, ProbeError, Rules, Seconds, Trial, team};
use forebay_engine::stats::quantile;
use forebay_model::random::{Purpose, Streams};
use rand::seq::SliceRandom;
use rustix::fs::Advice;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Size of one read [B]: large enough that reads from memory and from disk differ in time, small enough that
/// the page cache evicts it as a whole.
const UNIT: u64 = 64 << 10;

/// The table `[cache]` of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheSettings {
    /// Size of the largest working set; the other working sets have a half, a quarter and an eighth of this
    /// size.
    pub disk: Bytes,
    /// Time limit for this probe (default: an equal share of the plan's remaining budget).
    pub budget: Option<Seconds>,
}

/// The probe `cache`: reads a working set twice. Its operations are the reads of the second pass; `hits` is the
/// share of these reads that the page cache served.
#[derive(Debug)]
pub struct CacheProbe {
    settings: CacheSettings,
    file: Option<DataFile>,
    /// Time above which a read is taken to have come from the disk [s]; `None` before `prepare`, or if reads
    /// from memory and from disk take nearly the same time.
    threshold: Option<f64>,
    prepared: bool,
}

impl CacheProbe {
    /// Returns a probe with these settings.
    #[must_use]
    pub fn new(settings: &CacheSettings) -> CacheProbe {
        CacheProbe { settings: settings.clone(), file: None, threshold: None, prepared: false }
    }
}

impl Probe for CacheProbe {
    fn name(&self) -> &'static str {
        "cache"
    }

    fn cells(&self) -> Vec<Cell> {
        if self.prepared && self.threshold.is_none() {
            return Vec::new();
        }
        let mut cells = Vec::new();
        for part in [8, 4, 2, 1] {
            let bytes = (self.settings.disk.0 / part / UNIT).max(1) * UNIT;
            for order in ["cyclic", "shuffled"] {
                cells.push(Cell::new(&[("order", order)], &[("bytes", bytes as f64)]));
            }
        }
        cells
    }

    fn disk(&self) -> u64 {
        self.settings.disk.0.max(8 * UNIT)
    }

    fn budget(&self) -> Option<Duration> {
        self.settings.budget.map(Seconds::duration)
    }

    /// Returns rules with two or three trials and no warm-up, because each trial drops the cache itself and
    /// takes long.
    fn rules(&self, rules: Rules) -> Rules {
        Rules { warm_up: 0, at_least: Count(2), at_most: Count(3), ..rules }
    }

    fn prepare(&mut self, context: &Context<'_>) -> Result<Vec<String>, ProbeError> {
        self.prepared = true;
        let path = context.directory.join("set");
        let length = self.disk() / UNIT * UNIT;
        let written = write(context, &path, length, 0)?;
        written.sync_data().map_err(ProbeError::file("write", &path))?;
        let file = DataFile { path, length };
        let [memory, disk] = calibrate(&file)?;
        self.file = Some(file);
        if disk < 3.0 * memory {
            return Ok(vec![
                "page cache not measured: reads from memory and from disk take about as long here; name another --directory"
                    .to_owned(),
            ]);
        }
        self.threshold = Some((memory * disk).sqrt());
        Ok(Vec::new())
    }

    fn trial(&mut self, cell: &Cell, context: &Context<'_>) -> Result<Trial, ProbeError> {
        let (Some(file), Some(threshold)) = (&self.file, self.threshold) else {
            return Ok(Trial::default());
        };
        drop_from_cache(std::slice::from_ref(file))?;
        let mut order: Vec<u64> = (0..cell.count("bytes") as u64 / UNIT).collect();
        let mut generator = Streams::new(context.seed, 0).at(Purpose::Trial, 1, 0, 0);
        order.shuffle(&mut generator);
        let opened = open(&file.path, Access::Cold)?;
        // Read-ahead by the kernel would turn misses into hits.
        rustix::fs::fadvise(&opened, 0, None, Advice::Random).ok();
        let mut second = order.clone();
        if cell.label("order") == "shuffled" {
            second.shuffle(&mut generator);
        }
        let team = team(1, |_| -> Result<Vec<f64>, ProbeError> {
            pass(&opened, file, &order, context)?;
            pass(&opened, file, &second, context)
        })?;
        let (waited, core_seconds) = (team.waited(), team.core_seconds() / 2.0);
        let times = team.members.into_iter().next().map_or(Ok(vec![]), |member| member.value)?;
        let hits = times.iter().filter(|&&time| time < threshold).count();
        let observed = [
            ("hits".to_owned(), hits as f64 / times.len() as f64),
            ("threshold".to_owned(), threshold),
        ];
        Ok(Trial {
            operations: times.len() as u64,
            seconds: times.iter().sum(),
            core_seconds,
            threads: 1,
            waited,
            observed: observed.into(),
            ..Trial::default()
        })
    }
}

/// Returns the median time of a read from memory and of a read from the disk [s].
fn calibrate(file: &DataFile) -> Result<[f64; 2], ProbeError> {
    let units = (file.length / UNIT).min(64);
    let opened = open(&file.path, Access::Cold)?;
    rustix::fs::fadvise(&opened, 0, None, Advice::Random).ok();
    let mut buffer = Buffer::new(UNIT);
    let mut time = |warm: bool| -> Result<f64, ProbeError> {
        if warm {
            for unit in 0..units {
                timed_read(&opened, file, unit, &mut buffer)?;
            }
        } else {
            drop_from_cache(std::slice::from_ref(file))?;
        }
        let read = |unit| timed_read(&opened, file, unit, &mut buffer);
        let mut times = (0..units).rev().map(read).collect::<Result<Vec<f64>, ProbeError>>()?;
        times.sort_by(f64::total_cmp);
        Ok(quantile(&times, 0.5).unwrap_or(0.0))
    };
    Ok([time(true)?, time(false)?])
}

/// Reads the units in `order`; returns the time of each read [s].
fn pass(
    opened: &File,
    file: &DataFile,
    order: &[u64],
    context: &Context<'_>,
) -> Result<Vec<f64>, ProbeError> {
    let (mut times, mut buffer) = (Vec::with_capacity(order.len()), Buffer::new(UNIT));
    for &unit in order {
        context.go_on()?;
        times.push(timed_read(opened, file, unit, &mut buffer)?);
    }
    Ok(times)
}

/// Reads one unit; returns how long the read took [s].
fn timed_read(
    opened: &File,
    file: &DataFile,
    unit: u64,
    buffer: &mut Buffer,
) -> Result<f64, ProbeError> {
    let start = Instant::now();
    let read = opened.read_exact_at(&mut buffer.bytes()[..UNIT as usize], unit * UNIT);
    let seconds = start.elapsed().as_secs_f64();
    read.map_err(ProbeError::file("read", &file.path))?;
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn working_set_sizes_are_doubled_until_the_disk_limit_is_reached() {
        let probe = CacheProbe::new(&CacheSettings { disk: Bytes(16 << 20), budget: None });
        let sizes: Vec<usize> =
            probe.cells().iter().map(|cell| cell.count("bytes") >> 20).collect();
        assert_eq!(sizes, [2, 2, 4, 4, 8, 8, 16, 16]);
        assert_eq!(probe.disk(), 16 << 20);
    }

    #[test]
    fn a_trial_ends_with_an_error_at_the_deadline() {
        use crate::probe::Ruler;
        use std::sync::atomic::AtomicBool;
        let (stop, place) = (AtomicBool::new(false), tempfile::tempdir().expect("a directory"));
        let mut context = Context {
            directory: place.path(),
            length: Duration::from_millis(1),
            longest: Duration::from_millis(1),
            noise: 1.0,
            ruler: Ruler::default(),
            deadline: Instant::now() + Duration::from_secs(60),
            stop: &stop,
            seed: 0,
        };
        let mut probe = CacheProbe::new(&CacheSettings { disk: Bytes(1 << 20), budget: None });
        probe.prepare(&context).expect("room for a megabyte");
        probe.threshold = Some(1.0);
        let cell = probe.cells().remove(0);
        let trial = probe.trial(&cell, &context).expect("a trial");
        assert_eq!((trial.operations, trial.observed["hits"]), (2, 1.0));
        context.deadline = Instant::now();
        assert!(matches!(probe.trial(&cell, &context), Err(ProbeError::Time)));
    }
}
