//! Helpers of several test modules: scenarios, runs, comparisons, random numbers, and steady figures.

use std::path::{Path, PathBuf};

use forebay::report::{JobOutcome, Outcome};
use forebay::scenario::{Override, OverrideText, Reading, Scenario, ScenarioFile};
use forebay::{sim, verdict};

/// Returns the path of a file of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A scenario file with overrides, and the scenario that they make: what a verdict needs, which changes keys of the file.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) file: ScenarioFile,
    pub(crate) overrides: Vec<Override>,
    pub(crate) scenario: Scenario,
}

impl Case {
    /// Returns a file with some keys changed, as by `--set`.
    pub(crate) fn new(file: ScenarioFile, changes: &[(&str, &str)]) -> Case {
        Case::of(file, overrides(changes))
    }

    fn of(file: ScenarioFile, overrides: Vec<Override>) -> Case {
        let scenario = file.resolve(&overrides).unwrap_or_else(|problems| panic!("{problems}"));
        Case { file, overrides, scenario }
    }

    /// Returns a shipped scenario with some keys changed, as by `--set`.
    pub(crate) fn shipped(name: &str, changes: &[(&str, &str)]) -> Case {
        Case::new(opened(&format!("scenarios/{name}.toml")), changes)
    }

    /// Returns a scenario written in a test, with some keys changed, as by `--set`.
    pub(crate) fn written(text: &str, changes: &[(&str, &str)]) -> Case {
        Case::new(parsed(text), changes)
    }

    /// Returns the case with more keys changed, as by `--set`.
    pub(crate) fn with(&self, changes: &[(&str, &str)]) -> Case {
        Case::of(self.file.clone(), [self.overrides.clone(), overrides(changes)].concat())
    }

    /// Returns what a user gets who pastes the changes that a verdict prints behind the command of the run.
    pub(crate) fn followed(&self, changes: &[OverrideText]) -> Case {
        let changes = changes.iter().map(|text| text.parse().expect("an override"));
        let all = self.overrides.iter().cloned().chain(changes).collect();
        Case::of(self.file.clone(), all)
    }

    /// Returns what a verdict is found from.
    pub(crate) fn source(&self) -> verdict::Source<'_> {
        verdict::Source {
            file: &self.file,
            overrides: &self.overrides,
            reading: Reading::default(),
        }
    }
}

/// Returns a shipped scenario with some keys changed, as by `--set`.
pub(crate) fn shipped(name: &str, changes: &[(&str, &str)]) -> Scenario {
    Case::shipped(name, changes).scenario
}

/// Returns a scenario written in a test, with some keys changed.
pub(crate) fn written(text: &str, changes: &[(&str, &str)]) -> Scenario {
    Case::written(text, changes).scenario
}

/// Returns a scenario file of the repository.
pub(crate) fn opened(path: &str) -> ScenarioFile {
    ScenarioFile::open(&repository(path)).unwrap_or_else(|problems| panic!("{problems}"))
}

fn parsed(text: &str) -> ScenarioFile {
    ScenarioFile::parse("test.toml", text.to_owned())
        .unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns the overrides that `--set` makes of keys with values.
pub(crate) fn overrides(changes: &[(&str, &str)]) -> Vec<Override> {
    let each = changes.iter().map(|(key, value)| format!("{key}={value}").parse());
    each.map(|change| change.expect("an override")).collect()
}

/// Returns the outcome of one replication.
pub(crate) fn simulate(scenario: &Scenario) -> Outcome {
    sim::run(scenario, 0, &sim::Options::default())
}

/// Returns the outcome of the first job of a scenario written in a test.
pub(crate) fn run(text: &str) -> JobOutcome {
    simulate(&written(text, &[])).jobs.remove(0)
}

/// Returns the mean step time after the first step [s].
pub(crate) fn step(job: &JobOutcome) -> f64 {
    let steps = &job.steps;
    (steps[steps.len() - 1].end - steps[0].end) / (steps.len() - 1) as f64
}

/// Checks that two values are equal except for rounding.
#[track_caller]
pub(crate) fn near(found: f64, expected: f64, what: &str) {
    within(found, expected, 1e-6, what);
}

/// Checks that a value differs by at most this part from an expected one, or from zero by at most a thousandth of this part.
#[track_caller]
pub(crate) fn within(found: f64, expected: f64, tolerance: f64, what: &str) {
    let most = tolerance * expected.abs().max(1e-3);
    assert!((found - expected).abs() <= most, "{what}: {found}, not {expected}");
}

/// Random numbers that depend only on the seed (G. Steele et al., *Fast Splittable Pseudorandom Number Generators*, 2014).
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a whole number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }

    /// Returns a whole number from `low` to `high`.
    pub(crate) fn whole(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(u64::from(high - low + 1)) as u32
    }

    pub(crate) fn whether(&mut self) -> bool {
        self.below(2) == 0
    }

    pub(crate) fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }

    /// Returns a number between these, uniformly.
    pub(crate) fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.share()
    }

    /// Returns a number between these, whose logarithm is uniform.
    pub(crate) fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.share())
    }

    fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Figures over the steps after the first `skip`, averaged over all job copies.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Steady {
    /// Mean step time [s].
    pub(crate) step: f64,
    /// Fresh samples per second of one job copy.
    pub(crate) fresh: f64,
    /// Samples put into the queue per second while its workers were not blocked.
    pub(crate) unblocked_enqueue: f64,
    /// Samples taken out per second while no trainer waited.
    pub(crate) unstalled_dequeue: f64,
    /// Share of time stalled.
    pub(crate) stall: f64,
}

/// Returns the figures of `outcome` after the first `skip` steps.
pub(crate) fn steady(outcome: &Outcome, skip: usize) -> Steady {
    let mut sum = Steady::default();
    let n = outcome.jobs.len() as f64;
    for job in &outcome.jobs {
        let (first, last) = (&job.steps[skip - 1], &job.steps[job.steps.len() - 1]);
        let elapsed = last.end - first.end;
        let steps = &job.steps[skip..];
        let per = |a: u64, b: u64| (b - a) as f64;
        let workers = job.queue.workers as f64;
        let blocked = (last.queue.blocked_seconds - first.queue.blocked_seconds) / workers;
        let empty = last.queue.empty_seconds - first.queue.empty_seconds;
        sum.step += elapsed / steps.len() as f64 / n;
        sum.fresh += steps.iter().map(|s| s.fresh).sum::<u64>() as f64 / elapsed / n;
        sum.unblocked_enqueue +=
            per(first.queue.enqueued, last.queue.enqueued) / (elapsed - blocked) / n;
        sum.unstalled_dequeue +=
            per(first.queue.dequeued, last.queue.dequeued) / (elapsed - empty) / n;
        sum.stall += 1.0 - steps.iter().map(|s| s.compute).sum::<f64>() / elapsed / n;
    }
    sum
}
