//! Arrivals of nodes with the same hardware at a barrier: the distribution of the times from the start of the step.
//!
//! These times vary from step to step, for all nodes together, and from node to node within a step. An analysis of variance separates
//! the two. Steps are divided into three classes by their median time: where batches are ready, all nodes arrive together, and where
//! loaders are behind, some nodes arrive much later than others.

use std::collections::VecDeque;

use forebay_engine::stats::{Tail, mean, sd};
use forebay_report::Cause;

/// Largest number of arrivals, those of the latest steps, that a distribution is estimated from.
const ARRIVALS: usize = 16_384;

/// Least number of arrivals for which steps are divided into classes by their medians.
const ENOUGH: usize = 600;

/// A distribution is estimated again once one in this many of its arrivals is new.
const RENEWED: usize = 16;

/// Arrival of a node: the time since the start of the step [s], and what the node waited for.
pub(super) type Arrived = (f64, Cause);

/// The distribution of the arrivals of nodes with the same hardware at one kind of barrier.
#[derive(Debug, Default)]
pub(super) struct ArrivalLaw {
    /// The latest steps, oldest first.
    steps: VecDeque<Step>,
    /// Number of arrivals in `steps`, and number of those since `classes` was estimated.
    arrivals: usize,
    new: usize,
    /// The classes of steps, each with its largest median [s], in ascending order.
    classes: Vec<(f64, StepClass)>,
}

/// The arrivals in a step.
#[derive(Debug)]
struct Step {
    times: Vec<Arrived>,
    median: f64,
    mean: f64,
    variance: f64,
}

/// The distribution of arrivals in a class of steps, as a mean per step plus deviations of nodes from it.
#[derive(Debug)]
struct StepClass {
    mean: f64,
    /// Reliability of a step's observed mean: the share of its variance that is due to the step, and not to the few nodes observed.
    reliability: f64,
    deviations: Tail,
    /// The deviations in ascending order, with what these nodes waited for.
    causes: Vec<Arrived>,
}

impl ArrivalLaw {
    /// Adds the arrivals of the simulated nodes in a step; returns the arrival that a node which is not simulated exceeds with
    /// `probability` in this step.
    pub(super) fn further(&mut self, times: Vec<Arrived>, probability: f64) -> Arrived {
        let number = times.len();
        let step = Step::new(times);
        let (median, mean) = (step.median, step.mean);
        self.steps.push_back(step);
        self.arrivals += number;
        while self.arrivals > ARRIVALS.max(number)
            && let Some(oldest) = self.steps.pop_front()
        {
            self.arrivals -= oldest.times.len();
        }
        self.new += number;
        if self.new * RENEWED >= self.arrivals {
            self.renew();
        }
        let last = self.classes.len() - 1;
        let at = self.classes.partition_point(|(limit, _)| *limit < median).min(last);
        self.classes[at].1.exceeded_with(probability, mean)
    }

    /// Estimates the classes again.
    fn renew(&mut self) {
        self.new = 0;
        self.classes.clear();
        let all: Vec<&Step> = self.steps.iter().collect();
        let whole = StepClass::new(&all);
        // Where steps differ by chance only, their medians say nothing about them.
        if self.arrivals < ENOUGH || whole.reliability < 0.5 {
            return self.classes.push((f64::INFINITY, whole));
        }
        let mut medians: Vec<f64> = all.iter().map(|step| step.median).collect();
        medians.sort_by(f64::total_cmp);
        let mut from = f64::NEG_INFINITY;
        for limit in [medians[medians.len() / 3], medians[2 * medians.len() / 3], f64::INFINITY] {
            let of = |step: &&&Step| from < step.median && step.median <= limit;
            let steps: Vec<&Step> = all.iter().filter(of).copied().collect();
            if !steps.is_empty() {
                self.classes.push((limit, StepClass::new(&steps)));
                from = limit;
            }
        }
    }
}

impl Step {
    fn new(mut times: Vec<Arrived>) -> Step {
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let seconds: Vec<f64> = times.iter().map(|(seconds, _)| *seconds).collect();
        let median = seconds.get(seconds.len() / 2).copied().unwrap_or(0.0);
        let (mean, variance) = mean_and_variance(&seconds);
        Step { times, median, mean, variance }
    }
}

/// Returns the mean and the variance of a sample; 0 if they are not known.
fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    (mean(values).unwrap_or(0.0), sd(values).unwrap_or(0.0).powi(2))
}

impl StepClass {
    /// Estimates the distribution from `steps`, in each of which equally many nodes arrive.
    fn new(steps: &[&Step]) -> StepClass {
        let (number, n) = (steps.len() as f64, steps[0].times.len().max(1) as f64);
        let means: Vec<f64> = steps.iter().map(|step| step.mean).collect();
        let (mean, variance) = mean_and_variance(&means);
        let within = steps.iter().map(|step| step.variance).sum::<f64>() / number;
        let chance = within / n;
        let between = (variance - chance).max(0.0);
        // With a single step, its observed mean is all that is known.
        let alone = number < 2.0 || chance == 0.0;
        let reliability = if alone { 1.0 } else { between / (between + chance) };
        // The level is estimated from the same arrivals, so observed deviations are too small; those of nodes that are not simulated
        // also contain the error of the level.
        let (seen, further) = match alone {
            true => (within * (1.0 - 1.0 / n), within * (1.0 + 1.0 / n)),
            false => {
                let seen = between * (1.0 - reliability).powi(2)
                    + within * (1.0 - (2.0 - reliability) * reliability / n);
                (seen, between * (1.0 - reliability) + within)
            }
        };
        let scale = if seen > 0.0 { (further / seen).sqrt() } else { 1.0 };
        let of_step = |step: &&Step| {
            let level = mean + reliability * (step.mean - mean);
            let scaled = |(time, cause): &Arrived| (scale * (time - level), *cause);
            step.times.iter().map(scaled).collect::<Vec<Arrived>>()
        };
        let mut causes: Vec<Arrived> = steps.iter().flat_map(of_step).collect();
        causes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let deviations = Tail::new(causes.iter().map(|(deviation, _)| *deviation).collect());
        StepClass { mean, reliability, deviations, causes }
    }

    /// Returns the arrival that a node which is not simulated exceeds with `probability` in a step whose observed arrivals have this
    /// `mean`.
    fn exceeded_with(&self, probability: f64, mean: f64) -> Arrived {
        let level = self.mean + self.reliability * (mean - self.mean);
        let deviation = self.deviations.exceeded_with(probability);
        let last = self.causes.len().saturating_sub(1);
        let at = self.causes.partition_point(|(of, _)| *of < deviation).min(last);
        (level + deviation, self.causes.get(at).map_or(Cause::Compute, |(_, cause)| *cause))
    }
}
