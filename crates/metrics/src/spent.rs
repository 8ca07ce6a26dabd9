//! Time that a worker spent on each cause since a wait began, for runs that need only these sums and not the instants of each
//! activity.

use forebay_engine::{Span, Time};
use forebay_report::Cause;

use super::timeline::{Activity, Segment, add};

/// Number of causes that a worker's activities can have: the first variants of [`Cause`].
const CAUSES: usize = Cause::Copy as usize + 1;

/// Time that a worker spent on each cause since a wait began. The fields in common use come first.
#[derive(Debug, Clone)]
#[repr(C)]
pub struct Spent {
    /// Start of the time that `sums` does not include yet: the start of the current activity, or the start of the wait if that is
    /// later.
    open: Time,
    /// Cause of the current activity.
    cause: Cause,
    /// Whether the wait began later than the current activity.
    cut: bool,
    /// Time spent, by cause.
    sums: [Span; CAUSES],
    /// Start of the current activity, if the wait began later.
    start: Time,
}

impl Default for Spent {
    /// Returns the state of a worker that has not started yet; a wait for this worker has the cause [`Cause::Restart`].
    fn default() -> Spent {
        let (zero, sums) = (Time::ZERO, [Span(0); CAUSES]);
        Spent { open: zero, cause: Cause::Restart, cut: false, sums, start: zero }
    }
}

impl Spent {
    #[inline(always)]
    pub(super) fn push(&mut self, start: Time, activity: Activity) {
        self.sums[self.cause as usize].0 += start.0 - self.open.0;
        (self.open, self.cause, self.cut) = (start, cause_of(activity), false);
    }

    /// Returns the start of the current activity.
    pub(super) fn start(&self) -> Time {
        if self.cut { self.start } else { self.open }
    }

    /// Splits the current activity at `then`, which is in the past: `first` was the activity's cause until `then`, and `second`
    /// has been its cause since.
    pub(super) fn split(&mut self, first: Cause, then: Time, second: Cause) {
        self.sums[first as usize].0 += then.since(self.open).0;
        self.cut = self.open > then;
        (self.start, self.open, self.cause) = (then, self.open.max(then), second);
    }

    /// Begins a wait; no other wait may be going on.
    pub(super) fn begin_wait(&mut self, now: Time) {
        self.start = self.start();
        (self.open, self.cut) = (now, true);
        self.sums = [Span(0); CAUSES];
    }

    /// Appends the causes of the wait from `from` to `to` to `segments`, latest first. Only the sums are known, so the causes
    /// are placed in time in the order of the enum.
    pub(super) fn blame(&self, from: Time, to: Time, segments: &mut Vec<Segment>) {
        let mut sums = self.sums;
        sums[self.cause as usize].0 += to.0 - self.open.0;
        let mut end = to;
        for (sum, cause) in sums.iter().zip(Cause::ALL).rev() {
            let start = Time(end.0 - sum.0);
            add(segments, start, end, cause);
            end = start;
        }
        debug_assert_eq!(end, from, "each instant since the wait began has its cause");
    }
}

/// Returns the cause to which time spent with `activity` is attributed. Idleness and blocking are attributed to [`Cause::Order`]:
/// with only one stage no other worker can be blamed for them.
#[inline(always)]
fn cause_of(activity: Activity) -> Cause {
    match activity {
        Activity::Doing(cause) => cause,
        Activity::Idle(_) | Activity::Blocked(_) => Cause::Order,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NOBODY, Pages, Timeline, blame};

    /// Returns the time of the wait from `from` to `to`, by cause.
    fn causes((pages, timeline): (&Pages, &Timeline), from: u64, to: u64) -> Vec<(Cause, u64)> {
        let mut segments = vec![];
        blame((pages, |_| timeline), 0, Time(from), Time(to), &mut segments);
        assert_eq!(segments.last().map(|s| s.start), Some(Time(from)));
        assert_eq!(segments.first().map(|s| s.end), Some(Time(to)));
        assert!(segments.windows(2).all(|two| two[0].start == two[1].end), "no gap, no overlap");
        let of = |cause| segments.iter().filter(move |s| s.cause.cause == cause);
        let sum = |cause| of(cause).map(|s| s.end.since(s.start).0).sum();
        Cause::ALL.into_iter().map(|c| (c, sum(c))).filter(|(_, sum)| *sum > 0).collect()
    }

    #[test]
    fn summed_and_full_worker_timelines_give_equal_waits_for_each_cause() {
        let mut both = [Timeline::default(), Timeline::summed()];
        let mut pages = Pages::default();
        use Activity::{Blocked, Doing, Idle};
        both.iter_mut().for_each(|t| t.push(&mut pages, Time(3), Doing(Cause::Transfer)));
        both.iter_mut().for_each(|t| t.begin_wait(&mut pages, Time(5)));
        both.iter_mut().for_each(|t| t.push(&mut pages, Time(9), Doing(Cause::Decode)));
        both.iter_mut().for_each(|t| t.push(&mut pages, Time(11), Doing(Cause::Transfer)));
        both.iter_mut().for_each(|t| t.push(&mut pages, Time(18), Blocked(NOBODY)));
        both.iter_mut().for_each(|t| t.push(&mut pages, Time(20), Idle(NOBODY)));
        both.iter_mut().for_each(|t| t.push(&mut pages, Time(23), Doing(Cause::CpuWait)));
        let expected = [
            (Cause::Transfer, 4 + 7),
            (Cause::Decode, 2),
            (Cause::CpuWait, 7),
            (Cause::Order, 2 + 3),
        ];
        for timeline in &both {
            assert_eq!(causes((&pages, timeline), 5, 30), expected);
        }
        both.iter_mut().for_each(|t| t.begin_wait(&mut pages, Time(31)));
        for timeline in &both {
            assert_eq!(
                causes((&pages, timeline), 31, 33),
                [(Cause::CpuWait, 2)],
                "of the new wait alone"
            );
        }
    }

    #[test]
    fn a_worker_activity_can_be_split_between_two_causes_of_a_wait() {
        for (then, waited, decoded) in [(4, 0, 12), (14, 6, 6)] {
            for mut timeline in [Timeline::default(), Timeline::summed()] {
                let mut pages = Pages::default();
                timeline.push(&mut pages, Time(2), Activity::Doing(Cause::Decode));
                timeline.begin_wait(&mut pages, Time(8));
                assert_eq!(timeline.last_start(&pages), Some(Time(2)));
                timeline.split(&mut pages, Cause::CpuWait, Time(then), Cause::Decode);
                assert_eq!(timeline.last_start(&pages), Some(Time(then)));
                timeline.push(&mut pages, Time(20), Activity::Doing(Cause::Transfer));
                let mut expected =
                    vec![(Cause::Transfer, 1), (Cause::Decode, decoded), (Cause::CpuWait, waited)];
                expected.retain(|(_, sum)| *sum > 0);
                assert_eq!(causes((&pages, &timeline), 8, 21), expected, "split at {then}");
            }
        }
    }

    #[test]
    fn a_wait_for_a_worker_that_has_not_started_counts_as_restart_time() {
        let (mut pages, mut timeline) = (Pages::default(), Timeline::summed());
        timeline.push(&mut pages, Time(5), Activity::Doing(Cause::Latency));
        assert_eq!(causes((&pages, &timeline), 0, 7), [(Cause::Latency, 2), (Cause::Restart, 5)]);
    }
}
