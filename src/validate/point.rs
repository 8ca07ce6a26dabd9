//! One configuration: what was predicted and what was measured.

use super::measure::{noise, rates};
use super::{Bound, Naive, Observed, Pace, Use};
use crate::stats::quantile;
use serde::Serialize;

/// One configuration in both worlds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Its name in the plan.
    pub name: String,
    /// What it is bound by, as predicted.
    pub bound: Bound,
    /// Whether no fit has seen it.
    pub held_out: bool,
    /// Simulated.
    pub predicted: Prediction,
    /// Live runs, in the order in which they were made.
    pub runs: Vec<Observed>,
    /// Median samples per second of earlier attempts, whose runs differed too much.
    pub before: Vec<f64>,
    /// How fast the cores were meanwhile, as fit points told.
    pub pace: Pace,
    /// What the naive model says.
    pub naive: Option<Naive>,
    /// Relative standard deviation of samples per second up to which the runs count.
    pub noise_floor: f64,
}

/// What the simulated world expects of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// Medians over the simulations.
    pub median: Observed,
    /// 90 % of runs are expected to lie in here [samples/s].
    pub interval: [f64; 2],
}

impl Prediction {
    /// Of simulations, and of the same with chance between equal runs, that each stand for one run;
    /// `None` of none.
    #[must_use]
    pub fn of(simulated: &[Observed], runs: &[Observed]) -> Option<Prediction> {
        let rates = sorted(runs, |run| run.samples_per_second);
        let interval = [quantile(&rates, 0.05)?, quantile(&rates, 0.95)?];
        Some(Prediction { median: median(simulated)?, interval })
    }
}

impl Point {
    /// A point without runs yet.
    #[must_use]
    pub fn new(name: &str, used: Use, predicted: Prediction, noise_floor: f64) -> Point {
        let (name, held_out) = (name.to_owned(), used == Use::HeldOut);
        let bound = Bound::from_run(&predicted.median);
        Point {
            name,
            bound,
            held_out,
            predicted,
            runs: Vec::new(),
            before: Vec::new(),
            pace: Pace::default(),
            naive: None,
            noise_floor,
        }
    }

    /// Medians over the live runs.
    #[must_use]
    pub fn measured(&self) -> Option<Observed> {
        median(&self.runs)
    }

    /// Relative standard deviation of samples per second between runs, or between the medians of all
    /// attempts where that is more: five runs may agree by luck. Of fewer than two runs unknown.
    #[must_use]
    pub fn noise(&self) -> Option<f64> {
        let within = noise(&rates(&self.runs))?;
        let medians: Vec<f64> =
            self.before.iter().copied().chain(median_rate(&self.runs)).collect();
        Some(within.max(noise(&medians).unwrap_or(0.0)))
    }

    /// Whether it counts: no fit has seen it, and its runs agree.
    #[must_use]
    pub fn counts(&self) -> bool {
        let unknown = self.noise_floor.is_infinite();
        self.held_out && self.noise().map_or(unknown, |noise| noise <= self.noise_floor)
    }

    /// (predicted − measured) ÷ measured of a figure; `None` where nothing but zero was measured.
    #[must_use]
    pub fn error(&self, of: impl Fn(&Observed) -> f64) -> Option<f64> {
        relative(of(&self.predicted.median), of(&self.measured()?))
    }

    /// |error| of samples per second.
    #[must_use]
    pub fn rate_error(&self) -> Option<f64> {
        Some(self.error(|run| run.samples_per_second)?.abs())
    }

    /// The same of the naive model's samples per second.
    #[must_use]
    pub fn naive_error(&self) -> Option<f64> {
        relative(self.naive.as_ref()?.samples_per_second(), self.measured()?.samples_per_second)
    }

    /// Runs inside the predicted interval.
    #[must_use]
    pub fn inside(&self) -> usize {
        let [low, high] = self.predicted.interval;
        self.runs.iter().filter(|run| (low..=high).contains(&run.samples_per_second)).count()
    }

    /// Half of the predicted interval's width, relative to the prediction.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        let [low, high] = self.predicted.interval;
        (high - low) / 2.0 / self.predicted.median.samples_per_second
    }
}

fn relative(predicted: f64, measured: f64) -> Option<f64> {
    let error = (predicted - measured) / measured;
    error.is_finite().then_some(error)
}

fn sorted(runs: &[Observed], of: impl Fn(&Observed) -> f64) -> Vec<f64> {
    let mut values: Vec<f64> = runs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Median samples per second; of nothing none.
pub(super) fn median_rate(runs: &[Observed]) -> Option<f64> {
    quantile(&sorted(runs, |run| run.samples_per_second), 0.5)
}

/// Median of every figure; `None` of nothing.
fn median(runs: &[Observed]) -> Option<Observed> {
    let of = |figure: &dyn Fn(&Observed) -> f64| quantile(&sorted(runs, figure), 0.5);
    let names = runs.iter().flat_map(|run| run.causes.keys().cloned());
    let names: std::collections::BTreeSet<String> = names.collect();
    let cause = |name: String| {
        let share = of(&|run| run.causes.get(&name).copied().unwrap_or(0.0))?;
        Some((name, share))
    };
    Some(Observed {
        samples_per_second: of(&|run| run.samples_per_second)?,
        step_time: of(&|run| run.step_time)?,
        stall: of(&|run| run.stall)?,
        causes: names.into_iter().filter_map(cause).collect(),
        occupancy: of(&|run| run.occupancy)?,
        unblocked_rate: of(&|run| run.unblocked_rate)?,
        unstalled_rate: of(&|run| run.unstalled_rate)?,
    })
}
