//! Computes figures from the windows of copies and replications.

use super::figures::{Figure, JobFigures, StallReport};
use super::measured::Measured;
use super::periods::are_even;
use super::rare::Rare;
use super::sampling::SamplingError;
use super::window::{Window, ratio, share};
use super::{Cause, JobOutcome, StallCause};
use forebay_engine::stats::{
    Batch, FEWEST_BATCHES, MOST_BATCHES, independent_values, mean, quantile, ratio_half_width,
    t_interval, without_phase_means,
};
use std::ops::Range;

/// Causes that reports always show.
const USUAL: [Cause; 8] = [
    Cause::Open,
    Cause::Latency,
    Cause::Transfer,
    Cause::Decode,
    Cause::CpuWait,
    Cause::Order,
    Cause::Copy,
    Cause::Bubble,
];

/// Sums over the same range of steps, for all copies of a job in all replications.
pub(super) struct Sample {
    /// Windows by replication and copy; copies without a step are missing.
    pub(super) windows: Vec<Vec<Window>>,
    /// Windows for batch means: by group of consecutive steps, then by copy. Empty if there are several replications, or too
    /// few independent groups.
    batches: Vec<Vec<Window>>,
    /// Number of successive groups that make a period; 1 if the steps are not known to have whole periods.
    phases: usize,
    /// By how much the mean step time may be wrong because the steps hold parts of periods, as a share.
    edges: f64,
    /// Rare stalls; `None` if stalls are frequent, or if no step can be held up by chance.
    rare: Option<Rare>,
    /// Durations of all steps [s], ascending.
    durations: Vec<f64>,
    /// Whether figures have no intervals, because there are too few steps for any.
    without_intervals: bool,
    /// How far figures may be from those of all nodes, if a sample of nodes was simulated.
    sampling: SamplingError,
}

/// A job copy and the range of its steps from which figures are computed.
#[derive(Debug, Clone)]
pub(super) struct Stretch<'a> {
    pub(super) copy: &'a JobOutcome,
    pub(super) steps: Range<usize>,
    /// If the steps are whole periods, the start of the first and the end of each; otherwise empty.
    ends: &'a [usize],
    /// By how much the mean step time may be wrong because the steps hold parts of periods, as a share.
    edges: f64,
}

impl<'a> Stretch<'a> {
    /// Returns a range of steps that is not known to be whole periods.
    pub(super) fn new(copy: &'a JobOutcome, steps: Range<usize>) -> Stretch<'a> {
        Stretch { copy, steps, ends: &[], edges: 0.0 }
    }

    /// Returns the measured steps of a copy.
    pub(super) fn measured(copy: &'a JobOutcome, measured: &'a Measured) -> Stretch<'a> {
        Stretch { copy, steps: measured.steps.clone(), ends: &measured.ends, edges: measured.edges }
    }

    /// Returns the start of the first period and the end of each, if there are two at least and they have the same number of steps.
    pub(super) fn even_periods(&self) -> Option<&'a [usize]> {
        (self.ends.len() > 2 && are_even(self.ends)).then_some(self.ends)
    }
}

/// How the durations of a job's steps may vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Nature {
    /// Whether a step may be held up by chance.
    pub(super) chance: bool,
    /// Number of samples in one round of the loader, in which each worker makes one whole batch; 0 if workers do not make whole
    /// batches.
    pub(super) round: u64,
}

/// Kind of a ratio of sums over steps, which decides where its interval may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ratio {
    /// Elapsed time per unit, such as per step.
    Time,
    /// An amount per second of elapsed time.
    Rate,
    /// Share of the elapsed time in which accelerators compute.
    Busy,
    /// Share of the elapsed time in which accelerators wait.
    Waiting,
    /// Another share, from 0 to 1.
    Share,
    /// Any other amount that is not below 0.
    Amount,
}

impl Sample {
    /// Creates a sample from ranges of steps, given by replication and copy.
    pub(super) fn new(stretches: &[Vec<Stretch>], nature: Nature) -> Sample {
        let whole = |copies: &Vec<Stretch>| {
            copies.iter().filter_map(|of| Window::new(of.copy, of.steps.clone())).collect()
        };
        let mut durations: Vec<f64> = Vec::new();
        for of in stretches.iter().flatten() {
            let all = super::window::durations(of.copy);
            durations.extend(all.get(of.steps.clone()).unwrap_or_default());
        }
        durations.sort_unstable_by(f64::total_cmp);
        let (batches, phases) = match stretches {
            [single] => batches(single, nature.round),
            _ => (Vec::new(), 1),
        };
        let rare = Rare::from_stretches(stretches).filter(|_| nature.chance);
        let windows = stretches.iter().map(whole).collect();
        let edges: Vec<f64> = stretches.iter().flatten().map(|of| of.edges).collect();
        let edges = mean(&edges).unwrap_or(0.0);
        let sampling = SamplingError::default();
        Sample {
            windows,
            batches,
            phases,
            edges,
            rare,
            durations,
            without_intervals: false,
            sampling,
        }
    }

    /// Returns the sample with the error of sampling nodes in its intervals.
    pub(super) fn of_nodes(self, sampling: SamplingError) -> Sample {
        Sample { sampling, ..self }
    }

    /// Returns the sample with intervals turned off: its figures have none.
    pub(super) fn without_intervals(self) -> Sample {
        Sample { without_intervals: true, ..self }
    }

    /// Whether there is no step at all.
    pub(super) fn is_empty(&self) -> bool {
        self.durations.is_empty()
    }

    /// Whether a single replication allows no confidence interval, because it is too short or its steps are correlated over too
    /// many steps.
    pub(super) fn lacks_batches(&self) -> bool {
        self.windows.len() == 1 && self.batches.is_empty() && !self.is_empty()
    }

    /// Returns the rare stalls, if stalls are rare.
    pub(super) fn rare(&self) -> Option<&Rare> {
        self.rare.as_ref()
    }

    /// Returns the figure of the values that `of` gives for each copy.
    pub(super) fn figure(&self, of: impl Fn(&Window) -> Option<f64>) -> Figure {
        let figure = over_replications(&over_copies(&self.windows, &of));
        if self.without_intervals {
            return Figure { ci95: None, ..figure };
        }
        let (Some(mean), [_]) = (figure.mean, self.windows.as_slice()) else {
            return figure;
        };
        // The mean of a ratio over groups is not quite the ratio of the sums, so only the width of the interval is kept.
        let interval = t_interval(&over_copies(&self.batches, &of));
        let around = |[low, high]: [f64; 2]| [mean - (high - low) / 2.0, mean + (high - low) / 2.0];
        Figure { ci95: interval.map(around), ..figure }
    }

    /// Returns the figure of the ratio of two sums that `of` gives for each copy.
    pub(super) fn ratio(&self, kind: Ratio, of: impl Fn(&Window) -> Option<(f64, f64)>) -> Figure {
        let divided = |(a, b)| if kind.is_share() { share(a, b) } else { ratio(a, b) };
        let value = |w: &Window| of(w).and_then(divided);
        let values = over_copies(&self.windows, &value);
        let Some(mean) = mean(&values) else { return Figure::default() };
        if self.without_intervals {
            return Figure { mean: Some(mean), ..Figure::default() };
        }
        let relative = match self.windows.as_slice() {
            [_] => self.relative_by_batches(kind, &of),
            _ => t_interval(&values)
                .map(|[low, high]| self.with_common_error(relative_to(mean, (high - low) / 2.0))),
        };
        let of_nodes = match kind.is_share() {
            true => relative_to(mean, self.sampling.share),
            false => self.sampling.time,
        };
        let relative = relative.map(|half| half.hypot(of_nodes));
        let found = relative.and_then(|half| kind.around(mean, half + self.edges));
        let ci95 = match (found, &self.rare) {
            (found, Some(rare)) if rare.needs_widening(self.windows.len()) => {
                rare.widened(kind, mean, found)
            }
            (found, _) => found,
        };
        Figure { mean: Some(mean), ci95, ..Figure::default() }
    }

    /// Returns the relative half-width `half` of an interval over replications, plus their common error: all replications begin in
    /// the same state, so that what is left of it after the warm-up does not average out. It is taken as a quarter of a step's time in
    /// the measured steps. Replications that hardly differ have no random state that they could share, so it is at most a quarter of
    /// `half`.
    fn with_common_error(&self, half: f64) -> f64 {
        let steps = over_copies(&self.windows, &|window: &Window| Some(window.steps));
        let common = mean(&steps).filter(|steps| *steps > 0.0).map_or(0.0, |steps| 0.25 / steps);
        half + common.min(half / 4.0)
    }

    /// Returns the half-width of a ratio's interval, found from batch means, relative to the ratio. For a rate it is the relative
    /// half-width of the reciprocal, the time per unit.
    fn relative_by_batches(
        &self,
        kind: Ratio,
        of: &impl Fn(&Window) -> Option<(f64, f64)>,
    ) -> Option<f64> {
        let sum = |copies: &Vec<Window>| {
            let each = copies.iter().filter_map(of);
            let (a, b) = each.fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
            let (a, b) = if kind == Ratio::Rate { (b, a) } else { (a, b) };
            Batch {
                a,
                b,
                change: copies.iter().map(|window| window.started - window.dequeued).sum(),
            }
        };
        let batches: Vec<Batch> = self.batches.iter().map(sum).collect();
        let total = |of: fn(&Batch) -> f64| batches.iter().map(of).sum::<f64>();
        let mean = total(|batch| batch.a) / total(|batch| batch.b);
        Some(relative_to(mean, ratio_half_width(&batches, self.phases)?))
    }

    /// Returns the core figures of a job whose data set has `dataset` samples.
    pub(super) fn figures(&self, dataset: u64) -> JobFigures {
        let step_time = self.ratio(Ratio::Time, |w| Some((w.elapsed, w.steps)));
        let steps = self.figure(|w| Some(w.steps));
        JobFigures {
            samples_per_second: self.ratio(Ratio::Rate, |w| Some((w.samples, w.elapsed))),
            fresh_samples_per_second: self.ratio(Ratio::Rate, |w| Some((w.fresh, w.elapsed))),
            step_time: with_quantiles(step_time, &self.durations),
            // Groups for batch means have only a part of the steps, so their spread says nothing about the number of steps.
            steps: if self.batches.is_empty() { steps } else { Figure { ci95: None, ..steps } },
            epoch_time: self.ratio(Ratio::Time, |w| Some((dataset as f64 * w.elapsed, w.fresh))),
            accelerator_utilisation: self.ratio(Ratio::Busy, |w| Some((w.compute, w.elapsed))),
            stall: self.stall(),
        }
    }

    fn stall(&self) -> StallReport {
        let total = |w: &Window| -> f64 { w.stalls.iter().map(|(_, seconds)| seconds).sum() };
        let own = Cause::ALL.map(StallCause::own).into_iter();
        let all = own.chain(Cause::ALL.map(StallCause::peer));
        let occurs =
            |of: StallCause| self.windows.iter().flatten().any(|window| window.stalled(of) > 0.0);
        let shown = all.filter(|&of| (!of.peer && USUAL.contains(&of.cause)) || occurs(of));
        StallReport {
            total: self.ratio(Ratio::Waiting, |w| Some((total(w), w.elapsed))),
            causes: shown
                .map(|of| (of, self.ratio(Ratio::Share, |w| Some((w.stalled(of), w.elapsed)))))
                .collect(),
        }
    }
}

impl Ratio {
    /// Whether ratios of this kind lie between 0 and 1.
    pub(super) fn is_share(self) -> bool {
        match self {
            Ratio::Busy | Ratio::Waiting | Ratio::Share => true,
            Ratio::Time | Ratio::Rate | Ratio::Amount => false,
        }
    }

    /// Returns the interval around `mean` whose half-width, relative to `mean`, is `half`; `None` if an end is infinite.
    fn around(self, mean: f64, half: f64) -> Option<[f64; 2]> {
        let linear = [mean * (1.0 - half), mean * (1.0 + half)];
        let found = match self {
            // Reciprocals of the ends of the interval of the time per unit.
            Ratio::Rate => {
                [mean / (1.0 + half), if half < 1.0 { mean / (1.0 - half) } else { f64::INFINITY }]
            }
            // The lower end would not be above 0: take the interval on a logarithmic scale.
            Ratio::Time if half >= 1.0 => [mean * (-half).exp(), linear[1]],
            Ratio::Busy | Ratio::Waiting | Ratio::Share => linear.map(|end| end.clamp(0.0, 1.0)),
            Ratio::Time | Ratio::Amount => linear.map(|end| end.max(0.0)),
        };
        found.iter().all(|end| end.is_finite()).then_some(found)
    }
}

/// Returns a half-width relative to a mean. It is 0 if the mean is 0: the values are never negative, so all of them are 0 and
/// do not vary.
fn relative_to(mean: f64, half: f64) -> f64 {
    if mean > 0.0 { half / mean } else { 0.0 }
}

/// Returns, for each replication or group of steps, the mean over copies of the values that `of` gives.
fn over_copies(groups: &[Vec<Window>], of: &impl Fn(&Window) -> Option<f64>) -> Vec<f64> {
    let each = |copies: &Vec<Window>| mean(&copies.iter().filter_map(of).collect::<Vec<f64>>());
    groups.iter().filter_map(each).collect()
}

/// Divides the steps of one replication into groups for batch means, and returns them with the number of groups in a period. The
/// effective number of independent groups is at least ten; if that is impossible, returns an empty list. Steps that do not fill a
/// group are left out at the beginning.
///
/// In one round of `round` samples, each worker delivers one data batch. A late data batch is followed by data batches that other
/// workers finished meanwhile: one part of the round takes too long, the next part too short. An interval found from parts of
/// rounds would therefore be too wide. So a group consists of whole rounds if there are enough rounds.
///
/// If the steps are whole periods, a group has several of them, or a part of one that begins at the same place of each.
fn batches(copies: &[Stretch], round: u64) -> (Vec<Vec<Window>>, usize) {
    let shortest = copies.iter().map(|of| of.steps.len()).filter(|steps| *steps > 0).min();
    let taken = copies.iter().flat_map(|of| &of.copy.steps[of.steps.clone()]);
    let round = round.div_ceil(taken.map(|step| step.fresh).max().unwrap_or(0).max(1)).max(1);
    let round = usize::try_from(round).unwrap_or(usize::MAX);
    let periods = copies.iter().map(|of| of.ends.len().saturating_sub(1)).min().unwrap_or(0);
    let even = copies.iter().all(|of| of.even_periods().is_some());
    let shape = |unit: usize| match (periods, even) {
        (2.., true) => Shape::of_periods(periods, shortest? / periods, unit),
        // Where they are not alike, there have to be enough of them.
        (FEWEST_BATCHES.., false) => {
            Some(Shape { together: periods.div_ceil(MOST_BATCHES), ..Shape::WHOLE })
        }
        _ => None,
    };
    let of_periods = |unit: usize| {
        let shape = shape(unit)?;
        let groups = |of: &Stretch| shape.groups(&of.ends[of.ends.len() - 1 - periods..]);
        Some((windows(copies, groups), shape.starts.len().max(1)))
    };
    let of_rounds = |unit: usize| {
        let (length, count) = round_groups(shortest?, unit)?;
        let groups = |of: &Stretch| -> Vec<Range<usize>> {
            let own = (of.steps.len() / count / unit * unit).max(length);
            let first = of.steps.end - count * own;
            (0..count).map(|i| first + i * own..first + (i + 1) * own).collect()
        };
        Some((windows(copies, groups), 1))
    };
    let is_enough = |(groups, phases): &(Vec<Vec<Window>>, usize)| {
        let times = over_copies(groups, &|window| ratio(window.elapsed, window.steps));
        let centre = mean(&times).unwrap_or(0.0);
        let rest = without_phase_means(&times, *phases).into_iter();
        // Around the mean, so that rounding is seen to be negligible.
        let values: Vec<f64> = rest.map(|rest| centre + rest).collect();
        independent_values(&values) >= FEWEST_BATCHES as f64
    };
    let units = || [round, 1].into_iter();
    let plans = units().filter_map(of_periods).chain(units().filter_map(of_rounds));
    plans.into_iter().find(is_enough).unwrap_or((Vec::new(), 1))
}

/// Returns the windows of groups of steps, by group, then by copy.
fn windows(copies: &[Stretch], groups: impl Fn(&Stretch) -> Vec<Range<usize>>) -> Vec<Vec<Window>> {
    let mut all: Vec<Vec<Window>> = Vec::new();
    for of in copies.iter().filter(|of| !of.steps.is_empty()) {
        for (group, steps) in groups(of).into_iter().enumerate() {
            all.resize_with(all.len().max(group + 1), Vec::new);
            all[group].extend(Window::new(of.copy, steps));
        }
    }
    all
}

/// Returns the length and the number of groups of `steps` steps; each is of whole `unit`s. `None` if there is not one.
fn round_groups(steps: usize, unit: usize) -> Option<(usize, usize)> {
    let least = steps / steps.clamp(1, MOST_BATCHES);
    let length = least.div_ceil(unit).checked_mul(unit).filter(|of| (1..=steps).contains(of))?;
    Some((length, (steps / length).min(MOST_BATCHES)))
}

/// How periods are divided into groups.
struct Shape {
    /// Number of periods that count as one.
    together: usize,
    /// Place in a period at which each of its groups begins.
    starts: Vec<usize>,
}

impl Shape {
    /// Whole periods as groups.
    const WHOLE: Shape = Shape { together: 1, starts: Vec::new() };

    /// Divides periods of about `length` steps into up to [`MOST_BATCHES`] groups of whole `unit`s.
    fn of_periods(periods: usize, length: usize, unit: usize) -> Option<Shape> {
        let groups = (MOST_BATCHES / periods).clamp(1, length.max(1));
        let each = (length / groups).max(1).div_ceil(unit).checked_mul(unit)?;
        let starts = (0..(length / each).max(1)).map(|group| group * each).collect();
        Some(Shape { together: periods.div_ceil(MOST_BATCHES), starts })
    }

    /// Returns the groups of the periods with these ends.
    fn groups(&self, ends: &[usize]) -> Vec<Range<usize>> {
        let ends: Vec<usize> = ends.iter().rev().copied().step_by(self.together).collect();
        let periods = ends.windows(2).rev().map(|pair| pair[1]..pair[0]);
        let parts = |period: Range<usize>| -> Vec<Range<usize>> {
            let starts = self.starts.iter().map(|start| period.start + start);
            let mut bounds: Vec<usize> = starts.chain([period.end]).collect();
            if self.starts.is_empty() {
                bounds.insert(0, period.start);
            }
            bounds.windows(2).map(|pair| pair[0]..pair[1]).collect()
        };
        periods.flat_map(parts).collect()
    }
}

/// Returns the mean and interval of one value per replication.
pub(super) fn over_replications(values: &[f64]) -> Figure {
    Figure { mean: mean(values), ci95: t_interval(values), ..Figure::default() }
}

/// Adds to a figure the quantiles of its single observations, given in ascending order.
pub(super) fn with_quantiles(figure: Figure, sorted: &[f64]) -> Figure {
    let at = |q| quantile(sorted, q);
    Figure { p50: at(0.5), p95: at(0.95), p99: at(0.99), ..figure }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::copy;
    use super::*;
    use forebay_engine::stats::sd;
    use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
    use rand_distr::StandardNormal;

    #[test]
    fn confidence_intervals_use_step_groups_of_whole_loader_worker_rounds() {
        // System: four workers whose batches come together, once in about 0.4 s. Expectation: the interval is that of the
        // rounds, which are independent, though steps within a round differ.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut job = copy(160, 0.1);
        let (mut end, mut rounds) = (1.0, Vec::new());
        for round in job.steps.chunks_mut(4) {
            let time = 0.4 + 0.04 * random.sample::<f64, _>(StandardNormal);
            rounds.push(time);
            for (i, step) in round.iter_mut().enumerate() {
                end += if i == 0 { time - 0.06 } else { 0.02 };
                step.end = end;
            }
        }
        let half = |round: u64| {
            let sample =
                Sample::new(&[vec![Stretch::new(&job, 0..160)]], Nature { chance: false, round });
            let [low, high] = sample.figures(1000).step_time.ci95.expect("an interval");
            (high - low) / 2.0
        };
        let expected = 2.0 * sd(&rounds).expect("many") / 4.0 / 40.0_f64.sqrt();
        // Four batches of ten samples.
        let found = half(40);
        assert!((0.5..1.7).contains(&(found / expected)), "{found} and not {expected}");
        assert!(half(0) > 2.0 * expected, "{} and {expected}", half(0));
        // Rounds so long that the run has fewer than ten of them are not used as batches.
        assert_eq!(half(10 * 155), half(0));
    }
}
