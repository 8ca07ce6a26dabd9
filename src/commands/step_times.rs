//! Step times over the course of a run, for its figure.

use super::run_figure::POINTS;
use crate::plot::{Point, Series};
use crate::report::{JobOutcome, JobReport, Outcome};
use crate::stats::quantile;

/// Quantiles of the step times between which most of them lie.
const MOST: [f64; 2] = [0.1, 0.9];

/// The step times of a job.
pub(super) struct Curve {
    pub(super) series: Series,
    /// Number of successive steps for each point.
    steps: usize,
}

/// Returns a curve for each job: the step times of its first copy. If they are too many to be drawn, each point is the median of
/// equally many steps, with the interval in which most of them lie.
pub(super) fn curves(jobs: &[JobReport], outcome: &Outcome) -> Vec<Curve> {
    let curve = |(index, job): (usize, &JobReport)| {
        let first = outcome.jobs.iter().find(|copy| copy.job == index);
        let times = first.map(step_times).unwrap_or_default();
        // If a point covered part of a period, the curve would show a slow wave that the step times do not have.
        let steps = times.len().div_ceil(POINTS).max(1);
        let steps = if steps > 1 { steps.next_multiple_of(period(&times)) } else { 1 };
        let points = times.chunks(steps).map(point).collect();
        Curve {
            series: Series { name: job.name.clone(), points, index, ..Series::default() },
            steps,
        }
    };
    jobs.iter().enumerate().map(curve).collect()
}

/// Returns a sentence on what the points are; `None` if each is a step.
pub(super) fn note(curves: &[Curve]) -> Option<String> {
    let most = curves.iter().map(|curve| curve.steps).max().filter(|steps| *steps > 1)?;
    let up_to = if curves.iter().all(|curve| curve.steps == most) { "" } else { "up to " };
    Some(format!("step times: median of {up_to}{most} steps, and where 80 % of them lie"))
}

/// Returns the end of each step and its duration [s].
fn step_times(copy: &JobOutcome) -> Vec<(f64, f64)> {
    let mut before = copy.start;
    let time = |end: f64| (end, end - std::mem::replace(&mut before, end));
    copy.steps.iter().map(|step| step.end).map(time).collect()
}

/// Longest period of step times that is looked for [steps].
const LONGEST: usize = 256;
/// Number of pairs of steps that are compared for each period.
const COMPARED: usize = 2048;

/// Differences of step times below this share of the mean are rounding errors.
const ROUNDING: f64 = 1e-9;

/// Returns the number of steps after which step times repeat, as with gradient accumulation; 1 if they do not.
fn period(times: &[(f64, f64)]) -> usize {
    let apart = |lag: usize| {
        let pairs = times.iter().zip(&times[lag..]).take(COMPARED);
        let count = pairs.len().max(1) as f64;
        pairs.map(|((_, a), (_, b))| (a - b).abs()).sum::<f64>() / count
    };
    let mean = times.iter().map(|(_, time)| time).sum::<f64>() / times.len().max(1) as f64;
    let (mut best, mut least) = (1, f64::INFINITY);
    for lag in 1..=LONGEST.min(times.len() / 4) {
        let found = apart(lag);
        // Multiples of a period repeat no better, and lags of random times hardly differ. Steps that are alike but for rounding have
        // no period.
        if found < least / 2.0 && least > ROUNDING * mean {
            (best, least) = (lag, found);
        }
    }
    best
}

/// Returns the point of successive steps: in the middle of their ends, at the median of their durations.
fn point(steps: &[(f64, f64)]) -> Point {
    let mut times: Vec<f64> = steps.iter().map(|(_, time)| *time).collect();
    times.sort_unstable_by(f64::total_cmp);
    let (first, last) =
        (steps.first().map_or(0.0, |step| step.0), steps.last().map_or(0.0, |step| step.0));
    let [low, high] = MOST.map(|share| quantile(&times, share));
    let band = low.zip(high).filter(|_| times.len() > 1).map(|(low, high)| [low, high]);
    Point { x: (first + last) / 2.0, y: quantile(&times, 0.5), band, ..Point::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_of_several_steps_has_their_median_and_the_interval_of_eighty_per_cent() {
        let steps: Vec<(f64, f64)> = (0..11).map(|n| (f64::from(n), f64::from(n * n))).collect();
        let found = point(&steps);
        assert_eq!((found.x, found.y), (5.0, Some(25.0)));
        assert_eq!(found.band, Some([1.0, 81.0]));
        assert_eq!(point(&steps[3..4]), Point { x: 3.0, y: Some(9.0), ..Point::default() });
    }

    #[test]
    fn points_of_periodic_step_times_cover_whole_periods() {
        // System: 1,000 steps, each fourth of which takes longer, so that nine steps would have two or three of them. Expectation:
        // groups of whole periods, all with the same median.
        let step = |end: f64| crate::report::StepOutcome { end, ..Default::default() };
        let ends = (0..1000).scan(0.0, |end, n| {
            *end += [8.0, 1.0, 3.0, 1.0][n % 4];
            Some(*end)
        });
        let copy = JobOutcome { steps: ends.map(step).collect(), ..Default::default() };
        let times = step_times(&copy);
        assert_eq!(period(&times), 4);
        let steps = times.len().div_ceil(POINTS).next_multiple_of(4);
        let medians: Vec<_> = times.chunks_exact(steps).map(|steps| point(steps).y).collect();
        assert!(medians.iter().all(|median| *median == medians[0]), "{medians:?}");
        let random = |n: u64| {
            let spread = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (spread ^ (spread >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
            (0.0, (mixed >> 40) as f64)
        };
        assert_eq!(period(&(0..1000).map(random).collect::<Vec<_>>()), 1);
        let rounded = |n: usize| (0.0, 0.1 + [1e-17, -2e-17, 2e-17, 0.0][n % 4]);
        assert_eq!(period(&(0..1000).map(rounded).collect::<Vec<_>>()), 1);
    }

    #[test]
    fn durations_of_steps_count_from_the_start_of_the_copy() {
        let step = |end: f64| crate::report::StepOutcome { end, ..Default::default() };
        let copy =
            JobOutcome { start: 1.0, steps: vec![step(3.0), step(3.5)], ..Default::default() };
        assert_eq!(step_times(&copy), [(3.0, 2.0), (3.5, 0.5)]);
    }
}
