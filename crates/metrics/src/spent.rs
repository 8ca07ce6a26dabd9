//! What a worker did since a wait began, where nobody will ask when.

use forebay_engine::{Span, Time};
use forebay_report::Cause;

use super::timeline::{Activity, Segment, add};

/// Causes that what a worker does may be: the first so many.
const CAUSES: usize = Cause::Copy as usize + 1;

/// How long a worker was at what since a wait began. What is common comes first.
#[derive(Debug, Clone)]
#[repr(C)]
pub struct Spent {
    /// Since when what it is at is not in the sums: since it began, or the wait.
    open: Time,
    /// What it is at.
    cause: Cause,
    /// Whether the wait began later than that.
    cut: bool,
    /// By cause.
    sums: [Span; CAUSES],
    /// When what it is at began, if the wait did later.
    start: Time,
}

impl Default for Spent {
    /// Of a worker that is not there yet: what waits for it waits for its start.
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

    /// Since when it is at what it is at.
    pub(super) fn start(&self) -> Time {
        if self.cut { self.start } else { self.open }
    }

    /// What it is at was `first` up to `then`, which is past, and since then has been `second`.
    pub(super) fn split(&mut self, first: Cause, then: Time, second: Cause) {
        self.sums[first as usize].0 += then.since(self.open).0;
        self.cut = self.open > then;
        (self.start, self.open, self.cause) = (then, self.open.max(then), second);
    }

    /// A wait begins, and none is going on.
    pub(super) fn begin_wait(&mut self, now: Time) {
        self.start = self.start();
        (self.open, self.cut) = (now, true);
        self.sums = [Span(0); CAUSES];
    }

    /// The causes of the wait from `from` to `to`, in the order of the enum; appended latest first.
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

/// What time counts as that is spent with `activity`; idleness and blocking, which nobody answers for
/// where there is but one stage, as [`Cause::Order`].
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
    use crate::{NOBODY, Timeline, blame};

    /// How long the wait from `from` to `to` was for what, by cause.
    fn causes(timeline: &Timeline, from: u64, to: u64) -> Vec<(Cause, u64)> {
        let mut segments = vec![];
        blame(|_| timeline, 0, Time(from), Time(to), &mut segments);
        assert_eq!(segments.last().map(|s| s.start), Some(Time(from)));
        assert_eq!(segments.first().map(|s| s.end), Some(Time(to)));
        assert!(segments.windows(2).all(|two| two[0].start == two[1].end), "no gap, no overlap");
        let of = |cause| segments.iter().filter(move |s| s.cause.cause == cause);
        let sum = |cause| of(cause).map(|s| s.end.since(s.start).0).sum();
        Cause::ALL.into_iter().map(|c| (c, sum(c))).filter(|(_, sum)| *sum > 0).collect()
    }

    #[test]
    fn sums_are_those_of_the_entries() {
        let mut both = [Timeline::default(), Timeline::summed()];
        let mut each = |does: &dyn Fn(&mut Timeline)| both.iter_mut().for_each(does);
        use Activity::{Blocked, Doing, Idle};
        each(&|t| t.push(Time(3), Doing(Cause::Transfer)));
        each(&|t| t.begin_wait(Time(5)));
        each(&|t| t.push(Time(9), Doing(Cause::Decode)));
        each(&|t| t.push(Time(11), Doing(Cause::Transfer)));
        each(&|t| t.push(Time(18), Blocked(NOBODY)));
        each(&|t| t.push(Time(20), Idle(NOBODY)));
        each(&|t| t.push(Time(23), Doing(Cause::CpuWait)));
        let expected = [
            (Cause::Transfer, 4 + 7),
            (Cause::Decode, 2),
            (Cause::CpuWait, 7),
            (Cause::Order, 2 + 3),
        ];
        for timeline in &both {
            assert_eq!(causes(timeline, 5, 30), expected);
        }
        both.iter_mut().for_each(|t| t.begin_wait(Time(31)));
        for timeline in &both {
            assert_eq!(causes(timeline, 31, 33), [(Cause::CpuWait, 2)], "of the new wait alone");
        }
    }

    #[test]
    fn what_was_done_is_split_where_it_was_before_the_wait_or_in_it() {
        for (then, waited, decoded) in [(4, 0, 12), (14, 6, 6)] {
            for mut timeline in [Timeline::default(), Timeline::summed()] {
                timeline.push(Time(2), Activity::Doing(Cause::Decode));
                timeline.begin_wait(Time(8));
                assert_eq!(timeline.last_start(), Some(Time(2)));
                timeline.split(Cause::CpuWait, Time(then), Cause::Decode);
                assert_eq!(timeline.last_start(), Some(Time(then)));
                timeline.push(Time(20), Activity::Doing(Cause::Transfer));
                let mut expected =
                    vec![(Cause::Transfer, 1), (Cause::Decode, decoded), (Cause::CpuWait, waited)];
                expected.retain(|(_, sum)| *sum > 0);
                assert_eq!(causes(&timeline, 8, 21), expected, "split at {then}");
            }
        }
    }

    #[test]
    fn a_worker_that_is_not_there_yet_is_waited_for() {
        let mut timeline = Timeline::summed();
        timeline.push(Time(5), Activity::Doing(Cause::Latency));
        assert_eq!(causes(&timeline, 0, 7), [(Cause::Latency, 2), (Cause::Restart, 5)]);
    }
}
