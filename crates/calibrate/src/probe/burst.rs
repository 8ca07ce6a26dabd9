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
/// Length of a trial: part of the reading whose throughput is told apart.
const PART: Duration = Duration::from_millis(250);
/// Number of trials after a fall, and share of the first trials' throughput that counts as fallen.
const AFTER: usize = 8;
const FALLEN: f64 = 0.8;
/// Largest number of trials: more than ten minutes have.
const MOST: usize = 3_000;
/// Number of first trials that show the throughput before a fall.
const FIRST: usize = 3;

/// What the probe does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Reads for the first time.
    Drain,
    /// Reads after a rest.
    Again,
}

/// The probe `burst`: each operation is one read request.
#[derive(Debug)]
pub struct BurstProbe {
    settings: BurstSettings,
    set: Option<Set>,
    stage: Stage,
    /// Throughput of the trials of this stage [1/s].
    rates: Vec<f64>,
    begun: Option<Instant>,
}

impl BurstProbe {
    /// Returns a probe with these settings.
    #[must_use]
    pub fn new(settings: &BurstSettings) -> BurstProbe {
        let settings = settings.clone();
        BurstProbe { settings, set: None, stage: Stage::Drain, rates: Vec::new(), begun: None }
    }

    /// Returns the number of trials of this stage before the throughput fell; `None` if it has not fallen for good.
    fn before_fall(&self) -> Option<usize> {
        let first = mean(self.rates.get(..FIRST)?);
        let after = self.rates.iter().rev().take_while(|rate| **rate < FALLEN * first).count();
        (after >= AFTER).then(|| self.rates.len() - after)
    }

    /// Returns how long the storage rests before the next trial, if the stage has shown what it can: half as long as refills the
    /// bucket, but at most a quarter of the time that is left. `None`: the stage goes on.
    ///
    /// # Errors
    ///
    /// The probe has nothing more to measure.
    fn rest(&self, context: &Context<'_>) -> Result<Option<Duration>, ProbeError> {
        let steady = self.settings.steady.map_or(STEADY, |time| time.0);
        let goes_on = self.begun.is_none_or(|begun| begun.elapsed().as_secs_f64() < steady);
        match (self.before_fall(), self.stage) {
            (Some(before), Stage::Drain) => {
                let [high, low] = [&self.rates[..before], &self.rates[before..]].map(mean);
                let refill = before as f64 * PART.as_secs_f64() * (high / low - 1.0);
                let left = context.deadline.saturating_duration_since(Instant::now());
                Ok(Some(Duration::from_secs_f64((refill / 2.0).clamp(0.5, 60.0)).min(left / 4)))
            }
            (Some(_), Stage::Again) => Err(ProbeError::Time),
            // A fall within the first trials may have begun before the time was up.
            (None, _) if goes_on || !self.is_steady() => Ok(None),
            (None, _) => Err(ProbeError::Time),
        }
    }

    /// Returns whether the last trial was as fast as the first ones.
    fn is_steady(&self) -> bool {
        let first = self.rates.get(..FIRST).map(mean);
        self.rates.last().zip(first).is_none_or(|(last, first)| *last >= FALLEN * first)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
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
        let Some(set) = &self.set else { return Err(ProbeError::Time) };
        let rest = self.rest(context)?;
        if let Some(rest) = rest {
            thread::sleep(rest);
            (self.stage, self.begun) = (Stage::Again, None);
            self.rates.clear();
        }
        let begun = Instant::now();
        self.begun.get_or_insert(begun);
        let context = Context { length: PART, longest: PART, ..*context };
        let readers = self.settings.readers.0;
        let reads = read_units(set, Access::Direct, readers, &context)?;
        self.rates.push(reads.rate);
        let mut observed = reads.observed();
        observed.insert("length".to_owned(), begun.elapsed().as_secs_f64());
        observed.insert("rested".to_owned(), rest.map_or(0.0, |rest| rest.as_secs_f64()));
        Ok(Trial {
            operations: reads.operations(),
            seconds: reads.seconds(),
            core_seconds: reads.core_seconds,
            threads: readers,
            waited: reads.waited,
            observed,
            excluded: None,
        })
    }
}
