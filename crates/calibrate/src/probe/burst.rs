//! The probe `burst`: reads without a pause until the throughput has fallen or the time is up, lets the storage rest, and reads
//! again. Storages with a token bucket (credits of block devices, traffic shapers) show its size and refill. Because the probe
//! drains the bucket, what is read afterwards shows the sustained bandwidth.

use super::read::{Access, Set, impossible, read_units, records};
use super::{Bytes, Cell, Context, Count, Probe, ProbeError, Rules, Seconds, Share, Trial};
use schemars::JsonSchema;
use serde::Deserialize;
use std::thread;
use std::time::{Duration, Instant};

/// The table `[burst]` of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BurstSettings {
    /// Size of a read request.
    pub size: Bytes,
    /// Number of threads that read at the same time.
    pub readers: Count,
    /// Size of the file that is read, past the page cache.
    pub disk: Bytes,
    /// Time after which a throughput that has not fallen counts as sustained (default: "12 s").
    pub steady: Option<Seconds>,
    /// Time limit for this probe (default: an equal share of the plan's remaining budget).
    pub budget: Option<Seconds>,
}

/// Default of `steady` [s].
const STEADY: f64 = 12.0;
/// Length of a trial.
const PART: Duration = Duration::from_millis(250);
/// Number of trials after the throughput has fallen.
const AFTER: usize = 8;
/// Share of the first trials' throughput below which it has fallen.
const FALLEN: f64 = 0.8;
/// Time between two looks at whether the user has interrupted a rest.
const LOOK: Duration = Duration::from_millis(100);
/// Largest number of trials: more than ten minutes have.
const MOST: usize = 3_000;
/// Number of first trials that show the throughput before a fall.
const FIRST: usize = 3;

/// A trial of a stage.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// Throughput [1/s].
    rate: f64,
    /// Time from the trial's begin to its end [s].
    seconds: f64,
}

/// The probe `burst`: each operation is one read request.
#[derive(Debug)]
pub struct BurstProbe {
    settings: BurstSettings,
    set: Option<Set>,
    /// Trials since the probe began, or since the storage rested.
    parts: Vec<Part>,
    /// Throughput below which the bucket is empty, once it has been drained [1/s].
    fallen: Option<f64>,
}

impl BurstProbe {
    /// Returns a probe with these settings.
    #[must_use]
    pub fn new(settings: &BurstSettings) -> BurstProbe {
        BurstProbe { settings: settings.clone(), set: None, parts: Vec::new(), fallen: None }
    }

    /// Returns the throughput below which the bucket is empty [1/s]; `None` until the first trials have shown that before.
    fn limit(&self) -> Option<f64> {
        self.fallen.or_else(|| Some(FALLEN * mean_rate(self.parts.get(..FIRST)?)))
    }

    /// Returns how long the storage rests before the next trial; `None` if the probe reads on.
    ///
    /// # Errors
    ///
    /// The probe has nothing more to measure.
    fn rest(&self, context: &Context<'_>) -> Result<Option<Duration>, ProbeError> {
        let Some(limit) = self.limit() else { return Ok(None) };
        let slow = self.parts.iter().rev().take_while(|part| part.rate < limit).count();
        let seconds: f64 = self.parts.iter().map(|part| part.seconds).sum();
        let steady = self.settings.steady.map_or(STEADY, |time| time.0);
        match (slow >= AFTER, self.fallen) {
            (true, None) => Ok(Some(self.rest_after(slow, context))),
            (true, Some(_)) => Err(ProbeError::Time),
            // A fall may have begun just before the time was up.
            (false, _) if seconds < steady || slow > 0 => Ok(None),
            (false, _) => Err(ProbeError::Time),
        }
    }

    /// Returns half the time that refills the bucket, but at most a quarter of the time that is left; the last `slow` trials came after
    /// the bucket was empty.
    fn rest_after(&self, slow: usize, context: &Context<'_>) -> Duration {
        let (fast, slow) = self.parts.split_at(self.parts.len() - slow);
        let drained: f64 = fast.iter().map(|part| part.seconds).sum();
        let refill = drained * (mean_rate(fast) / mean_rate(slow) - 1.0);
        let left = context.deadline.saturating_duration_since(Instant::now());
        Duration::from_secs_f64((refill / 2.0).clamp(0.5, 60.0)).min(left / 4)
    }
}

/// Returns the mean throughput of trials [1/s].
fn mean_rate(parts: &[Part]) -> f64 {
    parts.iter().map(|part| part.rate).sum::<f64>() / parts.len().max(1) as f64
}

impl Probe for BurstProbe {
    fn name(&self) -> &'static str {
        "burst"
    }

    fn cells(&self) -> Vec<Cell> {
        let numbers =
            [("size", self.settings.size.0 as f64), ("readers", self.settings.readers.0 as f64)];
        vec![Cell::new(&[("access", Access::Direct.label())], &numbers)]
    }

    fn disk(&self) -> u64 {
        self.settings.disk.0
    }

    fn budget(&self) -> Option<Duration> {
        self.settings.budget.map(Seconds::duration)
    }

    fn rules(&self, rules: Rules) -> Rules {
        // Once begun, trials go on until the throughput has told what it can. What an earlier run of the program has begun is not
        // repeated, because it drained the bucket.
        let (least, precision) = if self.set.is_some() { (MOST, 0.0) } else { (AFTER, 1.0) };
        let (at_least, precision) = (Count(least), Share(precision));
        Rules { warm_up: 0, at_least, at_most: Count(MOST), precision, ..rules }
    }

    fn prepare(&mut self, context: &Context<'_>) -> Result<Vec<String>, ProbeError> {
        let sizes = std::iter::once(self.settings.size.0);
        let set = records(context, self.settings.disk.0, sizes)?.pop();
        let why = set.as_ref().map(impossible).transpose()?.unwrap_or_default();
        let why: Vec<String> = why
            .into_iter()
            .filter(|(access, _)| *access == Access::Direct)
            .map(|(_, why)| format!("not measured: {why}"))
            .collect();
        self.set = set.filter(|_| why.is_empty());
        Ok(why)
    }

    fn trial(&mut self, _: &Cell, context: &Context<'_>) -> Result<Trial, ProbeError> {
        let rest = self.rest(context)?;
        if let Some(rest) = rest {
            self.fallen = self.limit();
            self.parts.clear();
            let end = Instant::now() + rest;
            while Instant::now() < end {
                context.go_on()?;
                thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
            }
        }
        let Some(set) = &self.set else { return Err(ProbeError::Time) };
        let begun = Instant::now();
        let context = Context { length: PART, longest: PART, ..*context };
        let readers = self.settings.readers.0;
        let reads = read_units(set, Access::Direct, readers, &context)?;
        let seconds = begun.elapsed().as_secs_f64();
        self.parts.push(Part { rate: reads.rate, seconds });
        let mut trial = reads.trial(readers);
        trial.observed.insert("length".to_owned(), seconds);
        trial.observed.insert("rested".to_owned(), rest.map_or(0.0, |rest| rest.as_secs_f64()));
        Ok(trial)
    }
}
