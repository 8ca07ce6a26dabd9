//! Rare stalls: intervals that allow for stalls that a short run did not see.

use super::measured::without_places;
use super::sample::{Ratio, Stretch};
use super::window::durations;
use forebay_engine::stats::{quantile, rare_sum_interval};

/// A step counts as held up if its wait exceeds the median wait by more than this share of the mean step time.
const NEGLIGIBLE: f64 = 0.02;

/// Stalls are rare if at most one in this many steps is held up.
const FEW: usize = 8;

/// Number of events from which on the usual intervals are valid without widening.
const MANY: usize = 30;

/// Number of events from which on the interval over several replications is valid without widening.
const SEEN: usize = 2;

/// Rare stalls. Steps that were held up soon after each other count as one event: a stall leaves buffers empty, so that another
/// one is likely to follow.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rare {
    /// Number of events observed.
    pub(super) events: usize,
    /// Number of steps observed.
    pub(super) steps: usize,
    /// Ends of the 95 % interval of the expected total wait in all events, given as the difference from the observed total wait,
    /// ÷ the elapsed time. The lower end is at most 0, the upper end above 0.
    change: [f64; 2],
    /// Ends of the 95 % interval of the expected total wait in all events, given as a multiple of the observed total wait;
    /// `None` if no wait was observed.
    factors: Option<[f64; 2]>,
}

impl Rare {
    /// Finds the rare stalls within these ranges of steps; `None` if stalls are frequent, or there is no step. If the ranges hold
    /// are whole periods, stalls that recur in each are not rare: what counts is by how much a wait differs from those at the same
    /// place of other periods.
    pub(super) fn from_stretches(stretches: &[Vec<Stretch>]) -> Option<Rare> {
        let waits: Vec<Vec<(f64, f64)>> = stretches.iter().flatten().map(waits).collect();
        let mut all: Vec<f64> = waits.iter().flatten().map(|(wait, _)| *wait).collect();
        all.sort_unstable_by(f64::total_cmp);
        let usual = quantile(&all, 0.5)?;
        let elapsed: f64 = waits.iter().flatten().map(|(_, duration)| duration).sum();
        if elapsed <= 0.0 {
            return None;
        }
        let mean = elapsed / all.len() as f64;
        let beyond = |wait: f64| (wait - usual).max(0.0);
        let late = |wait: f64| beyond(wait) > NEGLIGIBLE * mean;
        let number = all.iter().filter(|wait| late(**wait)).count();
        let held_up = |copy: &Vec<(f64, f64)>| -> Vec<(usize, f64)> {
            let steps = copy.iter().enumerate().filter(|(_, (wait, _))| late(*wait));
            steps.map(|(step, (wait, _))| (step, beyond(*wait))).collect()
        };
        let events = clusters(&waits.iter().map(held_up).collect::<Vec<_>>());
        let seen: f64 = events.iter().sum();
        // Of waits with an exponential tail, the next that is longer than any before exceeds the longest by their mean. If no event
        // was seen, its duration is unknown: assume the mean duration of a step.
        let longest = events.iter().copied().reduce(f64::max);
        let largest = longest.map_or(mean, |longest| longest + seen / events.len() as f64);
        let limits = rare_sum_interval(&events, largest);
        (events.len() < MANY && number * FEW <= all.len()).then(|| Rare {
            events: events.len(),
            steps: all.len(),
            change: limits.map(|limit| (limit - seen) / elapsed),
            factors: (seen > 0.0).then(|| limits.map(|limit| limit / seen)),
        })
    }

    /// Returns the upper limit of events ÷ steps in the long run: the 97.5 % limit for a Poisson count of events.
    pub(super) fn most(&self) -> f64 {
        let [_, most] = rare_sum_interval(&vec![1.0; self.events], 1.0);
        (most / self.steps as f64).min(1.0)
    }

    /// Whether the usual interval of a run with this number of replications is too narrow. The differences between replications
    /// show how much rare stalls vary as soon as [`SEEN`] are seen; batches of one replication do not, because most contain no
    /// stall.
    pub(super) fn needs_widening(&self, replications: usize) -> bool {
        replications == 1 || self.events < SEEN
    }

    /// Returns the interval of a ratio with this mean, widened for rare stalls and at least as wide as `found`.
    pub(super) fn widened(
        &self,
        kind: Ratio,
        mean: f64,
        found: Option<[f64; 2]>,
    ) -> Option<[f64; 2]> {
        let [less, more] = self.change;
        let own = match kind {
            Ratio::Time => Some([mean * (1.0 + less), mean * (1.0 + more)]),
            Ratio::Rate | Ratio::Busy => Some([mean / (1.0 + more), mean / (1.0 + less)]),
            Ratio::Waiting => Some([less, more].map(|change| (mean + change) / (1.0 + change))),
            // A cause that was never seen cannot be scaled by a factor.
            Ratio::Share if mean == 0.0 => return None,
            Ratio::Share => {
                self.factors.map(|factors| factors.map(|factor| (mean * factor).min(1.0)))
            }
            Ratio::Amount => None,
        };
        let Some([low, high]) = own else { return found };
        let [found_low, found_high] = found.unwrap_or([low, high]);
        let (low, high) = (low.min(found_low).max(0.0), high.max(found_high));
        Some([low, if kind.is_share() { high.min(1.0) } else { high }])
    }
}

/// Returns the sums of the waits in each cluster of held-up steps, given the held-up steps of each copy and their waits. The share
/// of held-up steps that begin a cluster is estimated from the distances between them (the intervals estimator of Ferro and
/// Segers, *Inference for clusters of extreme values*, J. R. Statist. Soc. B 65, 2003): held-up steps that come independently of
/// each other have exponential distances, and short distances beyond those are within clusters.
fn clusters(held_up: &[Vec<(usize, f64)>]) -> Vec<f64> {
    let apart = |copy: &Vec<(usize, f64)>| -> Vec<usize> {
        copy.windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
    };
    let mut distances: Vec<usize> = held_up.iter().flat_map(apart).collect();
    let share = beginning(&distances);
    distances.sort_unstable_by(|a, b| b.cmp(a));
    // The largest distances are those between clusters.
    let between = (share * distances.len() as f64) as usize;
    let within = distances.get(between).copied().unwrap_or(0).max(1);
    let sums = |copy: &Vec<(usize, f64)>| -> Vec<f64> {
        let parts = copy.chunk_by(|a, b| b.0 - a.0 <= within);
        parts.map(|part| part.iter().map(|(_, wait)| wait).sum()).collect()
    };
    held_up.iter().flat_map(sums).collect()
}

/// Returns the share of distances between held-up steps that separate clusters, above 0 and at most 1.
fn beginning(distances: &[usize]) -> f64 {
    let sum = |of: &dyn Fn(f64) -> f64| distances.iter().map(|&d| of(d as f64)).sum::<f64>();
    let count = distances.len() as f64;
    let (first, second) = if distances.iter().all(|&d| d <= 2) {
        (sum(&|d| d), sum(&|d| d * d))
    } else {
        (sum(&|d| d - 1.0), sum(&|d| (d - 1.0) * (d - 2.0)))
    };
    if second > 0.0 { (2.0 * first * first / (count * second)).min(1.0) } else { 1.0 }
}

/// Returns the wait and the duration of each step [s]. In whole periods that are even, it is the wait beyond the mean at the same
/// place of all periods. A wait in one of n periods that is longer than the others raises their mean by the n-th part of what it is
/// longer by, which is corrected.
fn waits(stretch: &Stretch) -> Vec<(f64, f64)> {
    let (copy, steps) = (stretch.copy, &stretch.steps);
    let all = durations(copy);
    let of = |i: usize| Some(((all.get(i)? - copy.steps.get(i)?.compute).max(0.0), *all.get(i)?));
    let waits: Vec<(f64, f64)> = steps.clone().filter_map(of).collect();
    let Some(ends) = stretch.even_periods() else { return waits };
    let ends: Vec<usize> = ends.iter().map(|end| end - steps.start).collect();
    let periods = (ends.len() - 1) as f64;
    let bare: Vec<f64> = waits.iter().map(|(wait, _)| *wait).collect();
    let rest = without_places(&bare, &ends).into_iter();
    rest.zip(waits).map(|(rest, (_, time))| (rest * periods / (periods - 1.0), time)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::copy;
    use super::super::sample::{Nature, Sample, Stretch};
    use super::*;

    /// Returns a copy of 400 steps that compute for 20 ms each. Only the given steps wait as well, for 10 ms each.
    fn held_up(steps: &[usize]) -> crate::JobOutcome {
        let mut copy = copy(400, 0.02);
        let mut end = 1.0;
        for (i, step) in copy.steps.iter_mut().enumerate() {
            end += if steps.contains(&i) { 0.03 } else { 0.02 };
            step.end = end;
        }
        copy
    }

    #[test]
    fn stall_free_random_simulations_have_intervals_that_allow_rare_stalls() {
        // System: 400 steps without a wait. Expectation: at a confidence of 97.5 % up to 3.69 of 400 steps may be held up.
        let copy = held_up(&[]);
        let rare = Rare::from_stretches(&[vec![Stretch::new(&copy, 0..400)]]).expect("rare");
        assert_eq!((rare.events, rare.steps), (0, 400));
        assert!((rare.most() - 3.689 / 400.0).abs() < 1e-5, "{}", rare.most());
        let sample =
            Sample::new(&[vec![Stretch::new(&copy, 0..400)]], Nature { chance: true, round: 0 });
        let [low, high] = sample.figures(1000).step_time.ci95.expect("an interval");
        assert!((low - 0.02).abs() < 1e-9 && high > 0.0201, "{low} {high}");
        let certain =
            Sample::new(&[vec![Stretch::new(&copy, 0..400)]], Nature { chance: false, round: 0 })
                .figures(1000)
                .step_time
                .ci95;
        let [low, high] = certain.expect("an interval");
        assert!(high - low < 1e-9, "{low} {high}");
    }

    #[test]
    fn consecutive_stalled_steps_are_one_event_and_frequent_stalls_are_not_rare() {
        let copy = held_up(&[50, 51, 52, 300]);
        assert_eq!(
            Rare::from_stretches(&[vec![Stretch::new(&copy, 0..400)]]).map(|rare| rare.events),
            Some(2)
        );
        let often: Vec<usize> = (0..400).step_by(9).collect();
        assert_eq!(Rare::from_stretches(&[vec![Stretch::new(&held_up(&often), 0..400)]]), None);
    }
}
