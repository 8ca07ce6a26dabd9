//! The probe `service`: one reader of small requests beside several of large ones, all past the page cache. How many requests each
//! gets tells in which order the storage serves them.

use super::read::{Access, Buffer, Set, impossible, open, records};
use super::{
    Bytes, Cell, Context, Count, List, Probe, ProbeError, Rules, Seconds, Share, Trial, team,
};
use forebay_model::random::{Purpose, Streams};
use rand::seq::SliceRandom;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The table `[service]` of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceSettings {
    /// Size of a small request (default: "32 KiB").
    pub small: Option<Bytes>,
    /// Size of a large request (default: "400 KiB").
    pub large: Option<Bytes>,
    /// Numbers of threads that read large requests beside the one that reads small ones (default: [1, 3, 6]).
    pub readers: Option<List<Count>>,
    /// Size of the file that is read, past the page cache.
    pub disk: Bytes,
    /// Time limit for this probe (default: an equal share of the plan's remaining budget).
    pub budget: Option<Seconds>,
}

/// Default sizes [B].
const SMALL: u64 = 32 << 10;
const LARGE: u64 = 400 << 10;
/// Default numbers of readers of large requests.
const READERS: [usize; 3] = [1, 3, 6];
/// Time of a trial before requests count: a throttle lets a period's worth of requests pass at once to whoever begins.
const BEFORE: Duration = Duration::from_millis(200);
/// Time in which requests count.
const COUNTED: Duration = Duration::from_millis(800);
/// Number of trials of each cell.
const TRIALS: usize = 4;

/// The probe `service`: each operation is a small request.
#[derive(Debug)]
pub struct ServiceProbe {
    settings: ServiceSettings,
    /// Small and large requests of the same file.
    sets: Option<[Set; 2]>,
}

impl ServiceProbe {
    /// Returns a probe with these settings.
    #[must_use]
    pub fn new(settings: &ServiceSettings) -> ServiceProbe {
        ServiceProbe { settings: settings.clone(), sets: None }
    }
}

impl ServiceSettings {
    /// Returns the sizes of a small and a large request [B].
    fn sizes(&self) -> [u64; 2] {
        [self.small.map_or(SMALL, |size| size.0), self.large.map_or(LARGE, |size| size.0)]
    }

    /// Returns the numbers of readers of large requests.
    fn readers(&self) -> Vec<usize> {
        let given = self.readers.as_ref();
        given.map_or(READERS.to_vec(), |list| list.iter().map(|readers| readers.0).collect())
    }

    /// Returns why the settings contradict each other, with a remedy; `None` if they do not.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let ([small, large], readers) = (self.sizes(), self.readers().into_iter().max()?);
        if small.saturating_mul(2) > large {
            return Some(format!(
                "service.small: requests of {small} B tell nothing beside others of {large} B; write at most half of `large`"
            ));
        }
        let needed = large.saturating_mul(readers as u64);
        (self.disk.0 < needed).then(|| {
            format!(
                "service.disk: {} B are too few for a large request of each of {readers} readers; write at least \"{needed} B\"",
                self.disk.0
            )
        })
    }
}

impl Probe for ServiceProbe {
    fn name(&self) -> &'static str {
        "service"
    }

    fn cells(&self) -> Vec<Cell> {
        let [small, large] = self.settings.sizes().map(|size| size as f64);
        let cell = |readers: usize| {
            let numbers = [("size", small), ("large", large), ("readers", readers as f64)];
            Cell::new(&[("access", Access::Direct.label())], &numbers)
        };
        self.settings.readers().into_iter().map(cell).collect()
    }

    fn disk(&self) -> u64 {
        self.settings.disk.0
    }

    fn budget(&self) -> Option<Duration> {
        self.settings.budget.map(Seconds::duration)
    }

    fn rules(&self, rules: Rules) -> Rules {
        // Trials have a time of their own that does not count.
        let trials = Count(TRIALS);
        Rules { warm_up: 0, at_least: trials, at_most: trials, precision: Share(0.0), ..rules }
    }

    fn prepare(&mut self, context: &Context<'_>) -> Result<Vec<String>, ProbeError> {
        let sets = records(context, self.settings.disk.0, self.settings.sizes().into_iter())?;
        self.sets = sets.try_into().ok();
        let Some([_, large]) = &self.sets else { return Ok(Vec::new()) };
        let why: Vec<String> = impossible(large)?
            .into_iter()
            .filter(|(access, _)| *access == Access::Direct)
            .map(|(_, why)| format!("not measured: {why}"))
            .collect();
        self.sets.take_if(|_| !why.is_empty());
        Ok(why)
    }

    fn trial(&mut self, cell: &Cell, context: &Context<'_>) -> Result<Trial, ProbeError> {
        let Some([small, large]) = &self.sets else { return Err(ProbeError::Time) };
        let readers = cell.count("readers");
        let origin = Instant::now();
        let team = team(readers + 1, |member| match member {
            0 => completions(small, (0, 1), origin, context),
            _ => completions(large, (member - 1, readers), origin, context),
        })?;
        let (core_seconds, waited) = (team.core_seconds(), team.waited());
        let all = team.members.into_iter().map(|member| member.value);
        let rates: Vec<f64> =
            all.map(|done| Ok(rate(&done?))).collect::<Result<_, ProbeError>>()?;
        let operations = (rates[0] * COUNTED.as_secs_f64()).round() as u64;
        let observed = [("small", rates[0]), ("large", rates[1..].iter().sum())];
        Ok(Trial {
            operations,
            seconds: operations as f64 / rates[0].max(f64::MIN_POSITIVE),
            core_seconds,
            threads: readers + 1,
            waited,
            observed: observed.map(|(name, value)| (name.to_owned(), value)).into(),
            ..Trial::default()
        })
    }
}

/// Reads requests of `set` one after another until the trial is over. Readers share them: this one is number `of.0` of `of.1`. Returns the
/// times of the completions since `origin` [s].
fn completions(
    set: &Set,
    of: (usize, usize),
    origin: Instant,
    context: &Context<'_>,
) -> Result<Vec<f64>, ProbeError> {
    let mut order: Vec<usize> = (0..set.units.len()).collect();
    let address = Streams::new(context.seed, 0).at(Purpose::Trial, 0, 0, 1);
    order.shuffle(&mut { address });
    let files: Vec<File> =
        set.files.iter().map(|file| open(&file.path, Access::Direct)).collect::<Result<_, _>>()?;
    let mut buffer = Buffer::new(set.size);
    let mut done = Vec::new();
    for &unit in order.iter().cycle().skip(of.0 % order.len().max(1)).step_by(of.1) {
        let unit = &set.units[unit];
        files[unit.file]
            .read_exact_at(buffer.bytes(), unit.offset)
            .map_err(ProbeError::file("read", &set.files[unit.file].path))?;
        done.push(origin.elapsed().as_secs_f64());
        if origin.elapsed() > BEFORE + COUNTED || context.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(done)
}

/// Returns the requests per second between the first and the last completion that count; 0 if there are fewer than two.
fn rate(done: &[f64]) -> f64 {
    let counts = BEFORE.as_secs_f64()..=(BEFORE + COUNTED).as_secs_f64();
    let counted: Vec<f64> = done.iter().filter(|at| counts.contains(at)).copied().collect();
    match counted[..] {
        [first, .., last] => (counted.len() - 1) as f64 / (last - first),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Ruler;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_trial_times_the_small_reader_beside_all_large_ones() {
        // Expectation: three cells for one, three and six readers; in a trial, requests of both sizes, where files can be read past the cache.
        let (stop, place) = (AtomicBool::new(false), tempfile::tempdir().expect("a directory"));
        let context = Context {
            directory: place.path(),
            length: Duration::from_millis(1),
            longest: Duration::from_millis(1),
            noise: 1.0,
            ruler: Ruler::default(),
            deadline: Instant::now() + Duration::from_secs(60),
            stop: &stop,
            seed: 3,
        };
        let disk = Bytes(4 << 20);
        let settings =
            ServiceSettings { small: None, large: None, readers: None, disk, budget: None };
        let mut probe = ServiceProbe::new(&settings);
        let cells = probe.cells();
        assert_eq!(cells.iter().map(|cell| cell.count("readers")).collect::<Vec<_>>(), READERS);
        if !probe.prepare(&context).expect("room for the file").is_empty() {
            return;
        }
        let trial = probe.trial(&cells[1], &context).expect("a trial");
        assert_eq!(trial.threads, 4);
        assert!(trial.operations > 0 && trial.observed["large"] > 0.0, "{trial:?}");
        let each = trial.seconds / trial.operations as f64;
        assert!((each * trial.observed["small"] - 1.0).abs() < 1e-9, "{trial:?}");
    }

    #[test]
    fn rates_count_the_intervals_between_completions_after_the_first_part() {
        // System: a completion every 50 ms, and a burst at the beginning. Expectation: 20 per second.
        let mut done = vec![0.01, 0.02, 0.03];
        done.extend((1..=20).map(|n| 0.05 * f64::from(n) + 0.013));
        assert!((rate(&done) - 20.0).abs() < 1e-9, "{}", rate(&done));
        assert_eq!(rate(&[0.5]), 0.0);
    }
}
