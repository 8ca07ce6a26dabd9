//! Sums over a range of the steps of one job copy.

use super::{Cause, JobOutcome, QueueTotals, StallCause, StepOutcome};
use std::ops::Range;

/// Sums over a range of the steps of one job copy; figures are ratios of these sums.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Window {
    /// Time from the start of the first step to the end of the last step [s].
    pub(super) elapsed: f64,
    /// Number of steps.
    pub(super) steps: f64,
    /// Samples trained on.
    pub(super) samples: f64,
    /// Samples that were trained on for the first time in their epoch.
    pub(super) fresh: f64,
    /// Time that accelerators computed [s].
    pub(super) compute: f64,
    /// Time that accelerators waited, by cause [s], in no particular order.
    pub(super) stalls: Vec<(StallCause, f64)>,
    /// Integral over time of the number of samples in the queue [sample·s].
    pub(super) level_seconds: f64,
    /// Time in which a trainer waited for the queue [s].
    pub(super) empty_seconds: f64,
    /// Samples that the copy's loaders began to read.
    pub(super) started: f64,
    /// Samples put into the queue.
    pub(super) enqueued: f64,
    /// Samples taken out of the queue.
    pub(super) dequeued: f64,
    /// Time that a worker was held up by a full queue, mean over workers [s].
    pub(super) blocked: f64,
    /// Time that samples had spent in the queue, summed over the samples taken out [sample·s].
    pub(super) residence_seconds: f64,
    /// Number of exhaustions of the queue that began within these steps.
    pub(super) exhaustions: f64,
}

impl Window {
    /// Returns the sums over `steps` of a copy; `None` if there is no step.
    pub(super) fn new(copy: &JobOutcome, steps: Range<usize>) -> Option<Window> {
        let inside = copy.steps.get(steps.clone()).filter(|inside| !inside.is_empty())?;
        let (start, before) = state_before(copy, steps.start);
        let last = inside.last()?;
        let sum = |of: fn(&StepOutcome) -> f64| inside.iter().map(of).sum();
        let now = last.queue;
        // Exhaustions are sorted by their start.
        let exhausted = |at: f64| copy.queue.exhaustions.partition_point(|of| of.start < at);
        Some(Window {
            elapsed: last.end - start,
            steps: inside.len() as f64,
            samples: sum(|step| step.samples as f64),
            fresh: sum(|step| step.fresh as f64),
            compute: sum(|step| step.compute),
            stalls: stalls(copy, &steps),
            level_seconds: now.level_seconds - before.level_seconds,
            empty_seconds: now.empty_seconds - before.empty_seconds,
            started: now.started.saturating_sub(before.started) as f64,
            enqueued: now.enqueued.saturating_sub(before.enqueued) as f64,
            dequeued: now.dequeued.saturating_sub(before.dequeued) as f64,
            blocked: (now.blocked_seconds - before.blocked_seconds)
                / copy.queue.workers.max(1) as f64,
            residence_seconds: now.residence_seconds - before.residence_seconds,
            exhaustions: exhausted(last.end).saturating_sub(exhausted(start)) as f64,
        })
    }

    /// Returns the time waited for one cause [s].
    pub(super) fn stalled(&self, cause: StallCause) -> f64 {
        self.stalls.iter().find(|(of, _)| *of == cause).map_or(0.0, |(_, seconds)| *seconds)
    }

    /// Returns the time waited for input [s].
    pub(super) fn waited_for_input(&self) -> f64 {
        let for_input = self.stalls.iter().filter(|(of, _)| of.cause.is_input());
        for_input.map(|(_, seconds)| seconds).sum()
    }

    /// Returns the samples put into the queue, per second in which workers were not held up [samples/s].
    pub(super) fn unblocked_enqueue_rate(&self) -> Option<f64> {
        unblocked_rate(self.enqueued, self.elapsed, self.blocked)
    }

    /// Returns the samples taken out of the queue, per second in which no trainer waited for input [samples/s]. `several` says
    /// that the copy has several loaders, each with its own queue. If one of these queues is empty, all trainers wait until
    /// the trainer of this queue has received a batch and computed the step.
    pub(super) fn unstalled_dequeue_rate(&self, several: bool) -> Option<f64> {
        let for_input =
            |of: &StallCause| of.cause.is_input() || *of == StallCause::peer(Cause::Compute);
        let waited = if several {
            self.stalls.iter().filter(|(of, _)| for_input(of)).map(|(_, seconds)| seconds).sum()
        } else {
            self.empty_seconds
        };
        unblocked_rate(self.dequeued, self.elapsed, waited)
    }
}

/// Returns `amount` ÷ (`elapsed` − `blocked`); `None` if all of the time was blocked (to 1e-9).
pub(super) fn unblocked_rate(amount: f64, elapsed: f64, blocked: f64) -> Option<f64> {
    let free = elapsed - blocked;
    (free > 1e-9 * elapsed).then(|| amount / free)
}

/// Returns `a ÷ b`; `None` unless `b` is positive.
pub(super) fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

/// Returns `part ÷ whole`, clamped to 0 to 1, because `part` is a sum over steps and `whole` a difference of times, which are
/// rounded differently.
pub(super) fn share(part: f64, whole: f64) -> Option<f64> {
    // A sum of nothing is −0.
    ratio(part, whole).map(|share| share.clamp(0.0, 1.0) + 0.0)
}

/// Returns the start of a step of a copy [s], and the queue's totals at that time.
fn state_before(copy: &JobOutcome, step: usize) -> (f64, QueueTotals) {
    let before = step.checked_sub(1).and_then(|before| copy.steps.get(before));
    before.map_or((copy.start, QueueTotals::default()), |before| (before.end, before.queue))
}

/// Returns the waits within a range of steps, summed by cause.
fn stalls(copy: &JobOutcome, steps: &Range<usize>) -> Vec<(StallCause, f64)> {
    let first = copy.stalls.partition_point(|stall| (stall.step as usize) < steps.start);
    let end = copy.stalls.partition_point(|stall| (stall.step as usize) < steps.end);
    let mut sums: Vec<(StallCause, f64)> = Vec::new();
    for stall in &copy.stalls[first..end] {
        match sums.iter_mut().find(|(cause, _)| *cause == stall.cause) {
            Some((_, seconds)) => *seconds += stall.seconds,
            None => sums.push((stall.cause, stall.seconds)),
        }
    }
    sums
}

/// Returns the durations of all steps of a copy [s].
pub(super) fn durations(copy: &JobOutcome) -> Vec<f64> {
    let starts = std::iter::once(copy.start).chain(copy.steps.iter().map(|step| step.end));
    starts.zip(&copy.steps).map(|(start, step)| step.end - start).collect()
}

/// Returns the number of steps until a copy has trained on its data set once; all of its steps if it never has.
pub(super) fn first_epoch(copy: &JobOutcome, samples: u64) -> usize {
    let mut fresh = 0;
    let last = copy.steps.iter().position(|step| {
        fresh += step.fresh;
        fresh >= samples
    });
    last.map_or(copy.steps.len(), |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_shares_stay_between_0_and_1_despite_rounding() {
        assert_eq!(share(1.0 + 1e-15, 1.0), Some(1.0));
        let nothing: f64 = share([0.0; 0].iter().sum(), 1.0).unwrap_or(f64::NAN);
        assert!(nothing == 0.0 && nothing.is_sign_positive(), "{nothing}");
        assert_eq!(share(0.25, 0.5), Some(0.5));
        assert_eq!(share(0.0, 0.0), None);
    }
}
