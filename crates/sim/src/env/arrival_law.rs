//! When nodes that are alike arrive where all nodes meet: the distribution of the times since they have set out together.
//!
//! Times vary from step to step, for all nodes together, and from node to node within a step. How much of each there is follows from an
//! analysis of variance. Steps are told apart by the median of their times: where batches are ready all nodes arrive together, and where
//! loaders are behind, some much later than others.

use std::collections::VecDeque;

use forebay_engine::stats::Tail;
use forebay_report::Cause;

/// Number of arrivals from which a distribution is taken: those of the latest steps.
const ARRIVALS: usize = 16_384;

/// Number of arrivals from which on steps are told apart by their medians.
const ENOUGH: usize = 600;

/// A distribution is computed anew after this part of its arrivals has come.
const RENEWED: usize = 16;

/// A time since nodes have set out [s], and what the node that arrives had waited for.
pub(super) type Arrived = (f64, Cause);

/// The distribution of the arrivals of nodes that are alike, at one kind of meeting.
#[derive(Debug, Default)]
pub(super) struct ArrivalLaw {
    /// The latest steps, oldest first.
    steps: VecDeque<Step>,
    /// Number of arrivals in `steps`, and of those since `known` was computed.
    arrivals: usize,
    new: usize,
    /// What is known of steps by their median, up to a limit [s], in ascending order.
    known: Vec<(f64, Known)>,
}

/// The arrivals in a step.
#[derive(Debug)]
struct Step {
    times: Vec<Arrived>,
    median: f64,
    mean: f64,
    variance: f64,
}

/// What earlier steps say.
#[derive(Debug)]
struct Known {
    mean: f64,
    /// Part of a step's deviation from `mean` that is the step's own, and not chance among few nodes.
    own: f64,
    deviations: Tail,
    /// Deviations in ascending order, with what these nodes waited for.
    causes: Vec<Arrived>,
}

impl ArrivalLaw {
    /// Adds the arrivals in a step; returns the time that a further node exceeds with `probability` in this step [s], and what such a
    /// node waits for.
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
        let last = self.known.len() - 1;
        let at = self.known.partition_point(|(limit, _)| *limit < median).min(last);
        self.known[at].1.exceeded_with(probability, mean)
    }

    /// Computes anew what is known.
    fn renew(&mut self) {
        self.new = 0;
        self.known.clear();
        let all: Vec<&Step> = self.steps.iter().collect();
        let whole = Known::new(&all);
        // Where steps differ by chance only, telling them apart would select among equals.
        if self.arrivals < ENOUGH || whole.own < 0.5 {
            return self.known.push((f64::INFINITY, whole));
        }
        let mut medians: Vec<f64> = all.iter().map(|step| step.median).collect();
        medians.sort_by(f64::total_cmp);
        let mut from = f64::NEG_INFINITY;
        for limit in [medians[medians.len() / 3], medians[2 * medians.len() / 3], f64::INFINITY] {
            let of = |step: &&&Step| from < step.median && step.median <= limit;
            let steps: Vec<&Step> = all.iter().filter(of).copied().collect();
            if !steps.is_empty() {
                self.known.push((limit, Known::new(&steps)));
                from = limit;
            }
        }
    }
}

impl Step {
    fn new(mut times: Vec<Arrived>) -> Step {
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let n = times.len().max(1) as f64;
        let median = times.get(times.len() / 2).map_or(0.0, |(time, _)| *time);
        let mean = times.iter().map(|(time, _)| time).sum::<f64>() / n;
        let squares = times.iter().map(|(time, _)| (time - mean).powi(2)).sum::<f64>();
        Step { times, median, mean, variance: squares / (n - 1.0).max(1.0) }
    }
}

impl Known {
    /// Returns what `steps` say, in each of which equally many nodes arrive.
    fn new(steps: &[&Step]) -> Known {
        let (number, n) = (steps.len() as f64, steps[0].times.len().max(1) as f64);
        let mean = steps.iter().map(|step| step.mean).sum::<f64>() / number;
        let within = steps.iter().map(|step| step.variance).sum::<f64>() / number;
        let squares = steps.iter().map(|step| (step.mean - mean).powi(2)).sum::<f64>();
        let chance = within / n;
        let between = (squares / (number - 1.0).max(1.0) - chance).max(0.0);
        // Of a single step nothing is known but its own level.
        let alone = number < 2.0 || chance == 0.0;
        let own = if alone { 1.0 } else { between / (between + chance) };
        // Deviations from a level that follows the step's own arrivals are too small, and those of further nodes include the error of
        // the level.
        let (seen, further) = match alone {
            true => (within * (1.0 - 1.0 / n), within * (1.0 + 1.0 / n)),
            false => {
                let seen = between * (1.0 - own).powi(2) + within * (1.0 - (2.0 - own) * own / n);
                (seen, between * (1.0 - own) + within)
            }
        };
        let scale = if seen > 0.0 { (further / seen).sqrt() } else { 1.0 };
        let of_step = |step: &&Step| {
            let level = mean + own * (step.mean - mean);
            let scaled = |(time, cause): &Arrived| (scale * (time - level), *cause);
            step.times.iter().map(scaled).collect::<Vec<Arrived>>()
        };
        let mut causes: Vec<Arrived> = steps.iter().flat_map(of_step).collect();
        causes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let deviations = Tail::new(causes.iter().map(|(deviation, _)| *deviation).collect());
        Known { mean, own, deviations, causes }
    }

    /// Returns the time that a further node exceeds with `probability` in a step whose arrivals have this `mean`, and what such a node
    /// waits for.
    fn exceeded_with(&self, probability: f64, mean: f64) -> Arrived {
        let level = self.mean + self.own * (mean - self.mean);
        let deviation = self.deviations.exceeded_with(probability);
        let last = self.causes.len().saturating_sub(1);
        let at = self.causes.partition_point(|(of, _)| *of < deviation).min(last);
        (level + deviation, self.causes.get(at).map_or(Cause::Compute, |(_, cause)| *cause))
    }
}
