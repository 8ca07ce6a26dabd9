//! Waits of a device that may explain stalls of other devices.

use forebay_engine::Time;
use forebay_metrics::Segment;
use forebay_report::{Cause, StallCause};

/// Waits of a device for input, each with its step, in order of time. The causes of one wait follow each other without a gap, and
/// there are hundreds of them where a worker makes a whole batch, so only their ends are kept.
#[derive(Debug, Default)]
pub(crate) struct PastWaits {
    runs: Vec<Run>,
    /// Ends and causes of the pieces of all runs.
    ends: Vec<Time>,
    causes: Vec<Cause>,
}

/// Pieces of waits in one step that follow each other without a gap.
#[derive(Debug)]
struct Run {
    step: u64,
    start: Time,
    /// Index of the first piece.
    first: usize,
}

impl PastWaits {
    /// Adds a wait, or a piece of one, in `step`.
    pub(super) fn add(&mut self, step: u64, wait: Segment) {
        let follows = self.ends.last() == Some(&wait.start);
        if !(follows && self.runs.last().is_some_and(|run| run.step == step)) {
            self.runs.push(Run { step, start: wait.start, first: self.ends.len() });
        }
        self.ends.push(wait.end);
        self.causes.push(wait.cause.cause);
    }

    /// Forgets all waits except those for which `keep` holds.
    pub(super) fn retain(&mut self, keep: impl Fn(u64, &Segment) -> bool) {
        if !self.iter().all(|(step, wait)| keep(step, &wait)) {
            let all = std::mem::take(self);
            let kept = all.iter().filter(|(step, wait)| keep(*step, wait));
            kept.for_each(|(step, wait)| self.add(step, wait));
        }
    }

    /// Iterates over the waits with their steps, in order of time. What a wait was for does not matter here: each is the device's own.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Segment)> {
        let firsts = self.runs.iter().map(|run| run.first).skip(1).chain([self.ends.len()]);
        self.runs.iter().zip(firsts).flat_map(|(run, next)| {
            let mut start = run.start;
            let ends = self.ends[run.first..next].iter();
            ends.zip(&self.causes[run.first..next]).map(move |(end, cause)| {
                let start = std::mem::replace(&mut start, *end);
                (run.step, Segment { start, end: *end, cause: StallCause::own(*cause) })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_kept_with_their_steps_causes_and_times() {
        // System: three waits, two of them in pieces, in two steps; the last one follows the second without a gap. Expectation: all come
        // back, also after the first two are forgotten.
        let wait = |start: u64, end: u64, cause| {
            let cause = StallCause::own(cause);
            Segment { start: Time(start), end: Time(end), cause }
        };
        let all = [
            (1, wait(5, 9, Cause::Open)),
            (1, wait(9, 12, Cause::Latency)),
            (1, wait(20, 30, Cause::Decode)),
            (2, wait(30, 31, Cause::Open)),
            (2, wait(31, 40, Cause::Transfer)),
        ];
        let mut waits = PastWaits::default();
        all.iter().for_each(|(step, wait)| waits.add(*step, *wait));
        assert_eq!(waits.iter().collect::<Vec<_>>(), all);
        waits.retain(|_, wait| wait.end > Time(12));
        assert_eq!(waits.iter().collect::<Vec<_>>(), all[2..]);
    }
}
