//! Summary of the errors of predictions over all points.

use super::{Bound, Point};
use crate::stats::{mean, quantile};
use serde::Serialize;

/// Summary of errors over the points that count: held-out points whose runs agree ([`Point::counts`]).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Number of held-out points that the verdict is computed from.
    pub points: usize,
    /// Number of held-out points that were too noisy to count.
    pub too_noisy: usize,
    /// Mean of |error| of samples per second.
    pub mean_error: f64,
    /// Name of the point with the largest |error| of samples per second, and the error at this point.
    pub worst: (String, f64),
    /// Stall cause whose share is mispredicted most at the point `worst`: name, predicted share, measured share.
    pub worst_cause: Option<(String, f64, f64)>,
    /// Mean of |error| of the naive model on the same points.
    pub naive_mean_error: Option<f64>,
    /// Mean of |error| of step times.
    pub step_time_error: f64,
    /// Mean of |predicted − measured| of the share of time that accelerators wait.
    pub stall_difference: f64,
    /// Share of runs whose throughput is inside the predicted interval of their point.
    pub coverage: f64,
    /// Half the width of the predicted interval, relative to the prediction: median over points.
    pub half_width: f64,
    /// Errors for each bottleneck.
    pub classes: [Class; 4],
}

/// Errors of the points with the same predicted bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Class {
    /// Predicted bottleneck of the points.
    pub bound: Bound,
    /// Number of these points that count.
    pub points: usize,
    /// Mean of |error| of samples per second.
    pub mean_error: Option<f64>,
    /// Largest |error| of samples per second.
    pub worst: Option<f64>,
    /// Mean of |error| of the naive model.
    pub naive_mean_error: Option<f64>,
}

impl Class {
    fn new(bound: Bound, counting: &[&Point]) -> Class {
        let mine: Vec<&&Point> = counting.iter().filter(|point| point.bound == bound).collect();
        let errors: Vec<f64> = mine.iter().filter_map(|point| point.rate_error()).collect();
        let naive: Vec<f64> =
            mine.iter().filter_map(|point| Some(point.naive_error()?.abs())).collect();
        Class {
            bound,
            points: mine.len(),
            mean_error: mean(&errors),
            worst: errors.into_iter().reduce(f64::max),
            naive_mean_error: mean(&naive),
        }
    }

    /// Returns which share of all points should have this bottleneck, in words, and whether the points have that share; `None` if
    /// any share will do.
    #[must_use]
    pub fn share(&self, all: usize) -> Option<(&'static str, bool)> {
        match self.bound {
            Bound::Storage => Some(("at least a third", 3 * self.points >= all)),
            Bound::Cores => None,
            Bound::Crossover => Some(("at least a quarter", 4 * self.points >= all)),
            Bound::Compute => Some(("at most a third", 3 * self.points <= all)),
        }
    }
}

impl Verdict {
    /// Returns the verdict over `points`; `None` if no point counts.
    #[must_use]
    pub fn from_points(points: &[Point]) -> Option<Verdict> {
        let counting: Vec<&Point> = points.iter().filter(|point| point.counts()).collect();
        let rate = |point: &&Point| point.rate_error();
        let errors: Vec<f64> = counting.iter().filter_map(rate).collect();
        let worst = counting
            .iter()
            .max_by(|a, b| rate(a).unwrap_or(0.0).total_cmp(&rate(b).unwrap_or(0.0)))?;
        let absolute = |of: &dyn Fn(&Point) -> Option<f64>| -> Vec<f64> {
            counting.iter().filter_map(|point| Some(of(point)?.abs())).collect()
        };
        let measured = worst.measured()?;
        // Rows that were measured elsewhere have no causes of stalls.
        let known = !measured.causes.is_empty();
        let cause = worst.predicted.median.most_different(&measured).filter(|_| known);
        let runs: usize = counting.iter().map(|point| point.runs.len()).sum();
        let inside: usize = counting.iter().map(|point| point.inside()).sum();
        let mut widths = absolute(&|point| Some(point.half_width()));
        widths.sort_by(f64::total_cmp);
        let stall = |p: &Point| Some(p.predicted.median.stall - p.measured()?.stall);
        Some(Verdict {
            points: counting.len(),
            too_noisy: points.iter().filter(|p| p.is_too_noisy()).count(),
            mean_error: mean(&errors)?,
            worst: (worst.name.clone(), rate(worst)?),
            worst_cause: cause.map(|(name, ours, theirs)| (name.to_owned(), ours, theirs)),
            naive_mean_error: mean(&absolute(&Point::naive_error)),
            step_time_error: mean(&absolute(&|p| p.error(|run| run.step_time)))?,
            stall_difference: mean(&absolute(&stall))?,
            coverage: inside as f64 / runs as f64,
            half_width: quantile(&widths, 0.5)?,
            classes: Bound::ALL.map(|bound| Class::new(bound, &counting)),
        })
    }
}
