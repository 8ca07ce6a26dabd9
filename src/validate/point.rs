//! A configuration with its prediction and its measurements.

use super::measure::{noise, rates};
use super::{Bound, Naive, Observed, Pace, Use};
use crate::stats::quantile;
use serde::Serialize;

/// A configuration with its prediction and its live runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Name of the point in the plan.
    pub name: String,
    /// Predicted bottleneck.
    pub bound: Bound,
    /// Whether the point is held out from all fits.
    pub held_out: bool,
    /// Prediction of the simulation.
    pub predicted: Prediction,
    /// Live runs, in the order in which they were made.
    pub runs: Vec<Observed>,
    /// Medians of earlier attempts, whose runs differed too much [samples/s].
    pub before: Vec<f64>,
    /// Pace of the cores during the runs, estimated from fit points.
    pub pace: Pace,
    /// Prediction of the naive model, if it is applicable.
    pub naive: Option<Naive>,
    /// Maximum relative standard deviation of throughput at which the point counts in the summary of errors.
    pub noise_floor: f64,
}

/// Prediction for one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// Medians over the simulations.
    pub median: Observed,
    /// Interval that should contain 90 % of runs [samples/s].
    pub interval: [f64; 2],
}

impl Prediction {
    /// Returns the prediction from simulations: medians over `simulated`, and the interval over `runs`, which are the same
    /// simulations with run-to-run noise. `None` if there are no simulations.
    #[must_use]
    pub fn from_runs(simulated: &[Observed], runs: &[Observed]) -> Option<Prediction> {
        let rates = sorted(runs, |run| run.samples_per_second);
        let interval = [quantile(&rates, 0.05)?, quantile(&rates, 0.95)?];
        Some(Prediction { median: median(simulated)?, interval })
    }
}

impl Point {
    /// Returns a point without runs.
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

    /// Returns the medians over the live runs; `None` if there are none.
    #[must_use]
    pub fn measured(&self) -> Option<Observed> {
        median(&self.runs)
    }

    /// Returns the relative standard deviation of throughput between runs, or between the medians of all attempts if that is
    /// larger, because a few runs may agree by chance. `None` for fewer than two runs.
    #[must_use]
    pub fn noise(&self) -> Option<f64> {
        let within = noise(&rates(&self.runs))?;
        let medians: Vec<f64> =
            self.before.iter().copied().chain(median_rate(&self.runs)).collect();
        Some(within.max(noise(&medians).unwrap_or(0.0)))
    }

    /// Returns whether the point counts in the summary of errors: it is held out and was measured, and its runs agree or their noise
    /// cannot be known.
    #[must_use]
    pub fn counts(&self) -> bool {
        let unknown = self.noise_floor.is_infinite();
        self.held_out
            && !self.runs.is_empty()
            && self.noise().map_or(unknown, |noise| noise <= self.noise_floor)
    }

    /// Returns whether the point was measured, and its runs differ too much for it to count.
    #[must_use]
    pub fn is_too_noisy(&self) -> bool {
        self.held_out && !self.runs.is_empty() && !self.counts()
    }

    /// Returns the relative error of a figure, (predicted − measured) ÷ measured; `None` without runs or if the measured value
    /// is zero.
    #[must_use]
    pub fn error(&self, of: impl Fn(&Observed) -> f64) -> Option<f64> {
        relative(of(&self.predicted.median), of(&self.measured()?))
    }

    /// Returns the absolute relative error of throughput.
    #[must_use]
    pub fn rate_error(&self) -> Option<f64> {
        Some(self.error(|run| run.samples_per_second)?.abs())
    }

    /// Returns the relative error of the naive model's throughput.
    #[must_use]
    pub fn naive_error(&self) -> Option<f64> {
        relative(self.naive.as_ref()?.samples_per_second(), self.measured()?.samples_per_second)
    }

    /// Returns the number of runs inside the predicted interval.
    #[must_use]
    pub fn inside(&self) -> usize {
        let [low, high] = self.predicted.interval;
        self.runs.iter().filter(|run| (low..=high).contains(&run.samples_per_second)).count()
    }

    /// Returns half the width of the predicted interval, relative to the predicted median.
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

/// Returns the median samples per second; `None` without runs.
pub(super) fn median_rate(runs: &[Observed]) -> Option<f64> {
    quantile(&sorted(runs, |run| run.samples_per_second), 0.5)
}

/// Returns the median of every figure; `None` without runs.
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
