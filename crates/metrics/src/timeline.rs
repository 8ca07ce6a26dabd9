//! Timelines of the activities of each worker, which determine the cause of each instant of a stall.
//!
//! The rule: every instant of a wait has exactly one cause. The cause is what the work that ended the wait was doing, or was
//! queueing for, at that instant; if other work blocked it then, the cause is what the other work was doing. A worker does one
//! thing at a time, so its timeline gives the cause for all work that queued for it. Where the worker was idle, the timeline of
//! the worker that ended its idleness gives the cause; where it was blocked, the timeline of the worker that made room. Work
//! that was finished but held back by order is [`Cause::Order`].
//!
//! Timelines are only needed as long as a trainer waits. If there are few timelines, their entries before a wait are forgotten
//! when the wait begins; a timeline that needs another page forgets the entries before the oldest wait. If only one device ever waits and no
//! instants are asked for, the time of its workers is summed by cause at once.

use forebay_engine::Time;
use forebay_report::{Cause, StallCause};

use super::pages::{Entries, Pages};
use super::spent::Spent;

/// Stands for no worker: in an idle or blocked period that has not ended, no worker has ended it.
pub const NOBODY: u32 = u32::MAX;

/// Activity of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// The worker works; a wait for this work has the given cause.
    Doing(Cause),
    /// Waiting for input. The number is the worker that delivered it; [`NOBODY`] as long as none has.
    Idle(u32),
    /// Waiting for room. The number is the worker that made room; [`NOBODY`] as long as none has.
    Blocked(u32),
}

impl Activity {
    /// Returns the name of the activity in a trace.
    pub fn name(self) -> &'static str {
        match self {
            Activity::Doing(cause) => cause.name(),
            Activity::Idle(_) => "idle",
            Activity::Blocked(_) => "blocked",
        }
    }
}

/// An activity from `start` until the start of the next entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) start: Time,
    pub(super) activity: Activity,
}

/// The recent past of one worker.
#[derive(Debug)]
pub enum Timeline {
    /// Activities of the worker, in order of time.
    Entries(Entries),
    /// Time by cause since the wait began.
    Spent(Spent),
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline::Entries(Entries::default())
    }
}

impl Timeline {
    /// Creates a timeline that keeps only sums of time by cause. It suffices for a worker to which no other worker's entries
    /// link, if only one device ever waits and asks for the causes of [its own wait](Timeline::begin_wait).
    pub fn summed() -> Timeline {
        Timeline::Spent(Spent::default())
    }

    /// Begins `activity` at `start`, which is not before the last entry.
    #[inline]
    pub fn push(&mut self, pages: &mut Pages, start: Time, activity: Activity) {
        if !self.try_push(pages, start, activity)
            && let Timeline::Entries(entries) = self
        {
            entries.add_page(pages, start, activity);
        }
    }

    /// Begins `activity` at `start` if the timeline needs no further page for it; returns whether the activity was begun.
    #[inline]
    pub fn try_push(&mut self, pages: &mut Pages, start: Time, activity: Activity) -> bool {
        match self {
            Timeline::Spent(spent) => {
                spent.push(start, activity);
                true
            }
            Timeline::Entries(entries) => entries.try_push(pages, start, activity),
        }
    }

    /// Returns the entries that begin before `end`, latest first; none if only sums are kept.
    fn before<'p>(&self, pages: &'p Pages, end: Time) -> impl Iterator<Item = Entry> + use<'p> {
        let entries = match self {
            Timeline::Entries(entries) => entries.backwards(pages),
            Timeline::Spent(_) => Entries::default().backwards(pages),
        };
        entries.skip_while(move |entry| entry.start >= end)
    }

    /// Prefetches the last page, because an entry will be pushed soon. Does nothing if only sums are kept, because these lie
    /// in the worker itself.
    #[inline]
    pub fn prefetch(&self, pages: &Pages) {
        if let Timeline::Entries(entries) = self {
            entries.prefetch(pages);
        }
    }

    /// Forgets all entries; sums are kept.
    #[inline]
    pub fn clear(&mut self, pages: &mut Pages) {
        if let Timeline::Entries(entries) = self {
            entries.clear(pages);
        }
    }

    /// Begins a wait, while no other is going on: forgets activities that ended before.
    pub fn begin_wait(&mut self, pages: &mut Pages, now: Time) {
        match self {
            Timeline::Spent(spent) => spent.begin_wait(now),
            Timeline::Entries(entries) => entries.keep_last_page(pages),
        }
    }

    /// Whether it may be time to [forget](Timeline::forget_before) activities.
    pub fn may_forget(&self) -> bool {
        matches!(self, Timeline::Entries(entries) if entries.may_forget())
    }

    /// Forgets activities that ended before `since`.
    #[cold]
    pub fn forget_before(&mut self, pages: &mut Pages, since: Time) {
        if let Timeline::Entries(entries) = self {
            entries.forget_before(pages, since);
        }
    }

    /// Records that worker `by` ended the idle or blocked period of the last entry, unless a worker is already recorded.
    pub fn link(&mut self, pages: &mut Pages, by: u32) {
        debug_assert!(
            by == NOBODY || matches!(self, Timeline::Entries(_)),
            "it answers for itself"
        );
        if let Timeline::Entries(entries) = self {
            entries.link(pages, by);
        }
    }

    /// Returns the start of the current activity.
    pub fn last_start(&self, pages: &Pages) -> Option<Time> {
        match self {
            Timeline::Spent(spent) => Some(spent.start()),
            Timeline::Entries(entries) => entries.backwards(pages).next().map(|last| last.start),
        }
    }

    /// Splits the current activity at `then`, which is in the past: `first` was the activity's cause until `then`, and `second`
    /// has been its cause since.
    pub fn split(&mut self, pages: &mut Pages, first: Cause, then: Time, second: Cause) {
        match self {
            Timeline::Spent(spent) => return spent.split(first, then, second),
            Timeline::Entries(entries) if entries.is_empty() => return,
            Timeline::Entries(entries) => entries.set_cause(pages, first),
        }
        self.push(pages, then, Activity::Doing(second));
    }
}

/// Part of a wait with one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Start of the segment.
    pub start: Time,
    /// End of the segment.
    pub end: Time,
    /// Cause of the wait.
    pub cause: StallCause,
}

/// Appends to `segments` the causes of the wait `[from, to)` that `worker` ended, latest first.
pub fn blame<'t>(
    timelines: (&Pages, impl Fn(u32) -> &'t Timeline),
    worker: u32,
    from: Time,
    to: Time,
    segments: &mut Vec<Segment>,
) {
    let (pages, timeline) = timelines;
    if let Timeline::Spent(spent) = timeline(worker) {
        return spent.blame(from, to, segments);
    }
    let (mut end, mut jumps) = (to, 0);
    let mut entries = timeline(worker).before(pages, end);
    while end > from {
        // No work queued for a worker that had not started yet: the wait is for its start.
        let Some(entry) = entries.next() else {
            add(segments, from, end, Cause::Restart);
            return;
        };
        let other = match entry.activity {
            Activity::Doing(_) => NOBODY,
            Activity::Idle(other) | Activity::Blocked(other) => other,
        };
        if other != NOBODY && jumps < MOST_JUMPS {
            jumps += 1;
            entries = timeline(other).before(pages, end);
            continue;
        }
        let start = entry.start.max(from);
        let cause = match entry.activity {
            Activity::Doing(cause) => cause,
            Activity::Idle(_) | Activity::Blocked(_) => Cause::Order,
        };
        add(segments, start, end, cause);
        (end, jumps) = (start, 0);
    }
}

/// Maximum number of links between workers that are followed at one instant. A longer chain of links would
/// be a cycle, because a loader has fewer stages.
const MOST_JUMPS: u32 = 64;

pub(super) fn add(segments: &mut Vec<Segment>, start: Time, end: Time, cause: Cause) {
    let cause = StallCause::own(cause);
    if start == end {
        return;
    }
    match segments.last_mut() {
        Some(later) if later.cause == cause && later.start == end => later.start = start,
        _ => segments.push(Segment { start, end, cause }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(entries: &[&[(u64, Activity)]]) -> (Pages, Vec<Timeline>) {
        let mut pages = Pages::default();
        let mut line = |line: &&[(u64, Activity)]| {
            let mut timeline = Timeline::default();
            line.iter().for_each(|(t, a)| timeline.push(&mut pages, Time(*t), *a));
            timeline
        };
        let lines = entries.iter().map(&mut line).collect();
        (pages, lines)
    }

    fn causes(
        (pages, lines): &(Pages, Vec<Timeline>),
        worker: u32,
        from: u64,
        to: u64,
    ) -> Vec<(u64, u64, Cause)> {
        let mut segments = vec![];
        let timelines = (pages, |w: u32| &lines[w as usize]);
        blame(timelines, worker, Time(from), Time(to), &mut segments);
        segments.iter().rev().map(|s| (s.start.0, s.end.0, s.cause.cause)).collect()
    }

    use Activity::{Blocked, Doing, Idle};
    use Cause::{Decode, Latency, Transfer};

    #[test]
    fn a_wait_is_divided_among_the_causes_of_the_workers_activities() {
        let lines = lines(&[&[(0, Doing(Latency)), (4, Doing(Transfer)), (9, Doing(Latency))]]);
        assert_eq!(causes(&lines, 0, 2, 12), [(2, 4, Latency), (4, 9, Transfer), (9, 12, Latency)]);
    }

    #[test]
    fn idle_time_is_attributed_to_the_activity_of_the_upstream_worker() {
        // Worker 1 decodes, is idle 3..8, and gets an item from worker 0 at 8.
        let lines = lines(&[
            &[(0, Doing(Latency)), (5, Doing(Transfer)), (8, Doing(Latency))],
            &[(0, Doing(Decode)), (3, Idle(0)), (8, Doing(Decode))],
        ]);
        assert_eq!(
            causes(&lines, 1, 1, 10),
            [(1, 5, Latency), (5, 8, Transfer), (8, 10, Decode)],
            "worker 0 answers from 8 back to its own past, not worker 1's before its idleness"
        );
    }

    #[test]
    fn blocked_time_is_attributed_to_the_activity_of_the_downstream_worker() {
        let lines = lines(&[
            &[(0, Doing(Latency)), (2, Blocked(1)), (6, Doing(Transfer))],
            &[(0, Doing(Decode)), (6, Doing(Decode))],
        ]);
        assert_eq!(causes(&lines, 0, 0, 8), [(0, 6, Decode), (6, 8, Transfer)]);
    }

    #[test]
    fn a_full_page_can_drop_entries_that_no_wait_needs() {
        let (mut pages, mut timeline) = (Pages::default(), Timeline::default());
        for t in 0..100 {
            let activity = Doing(if t % 2 == 0 { Latency } else { Transfer });
            if !timeline.try_push(&mut pages, Time(t), activity) {
                timeline.forget_before(&mut pages, Time(90.min(t)));
                timeline.push(&mut pages, Time(t), activity);
            }
        }
        let kept = timeline.before(&pages, Time(100)).count();
        assert!(kept < 32, "{kept}");
        let found = causes(&(pages, vec![timeline]), 0, 90, 93);
        assert_eq!(found, [(90, 91, Latency), (91, 92, Transfer), (92, 93, Latency)]);
    }

    #[test]
    fn beginning_a_wait_keeps_the_current_activity() {
        let (mut pages, mut timeline) = (Pages::default(), Timeline::default());
        timeline.begin_wait(&mut pages, Time(0));
        for t in 0..30 {
            let activity = Doing(if t % 2 == 0 { Latency } else { Transfer });
            timeline.push(&mut pages, Time(t), activity);
        }
        timeline.begin_wait(&mut pages, Time(31));
        timeline.push(&mut pages, Time(34), Doing(Decode));
        assert!(timeline.before(&pages, Time(40)).count() < 10, "the others are forgotten");
        let found = causes(&(pages, vec![timeline]), 0, 31, 36);
        assert_eq!(found, [(31, 34, Transfer), (34, 36, Decode)]);
    }

    #[test]
    fn waiting_time_before_the_first_worker_activity_counts_as_restart() {
        let lines = lines(&[&[(5, Doing(Latency))]]);
        assert_eq!(causes(&lines, 0, 0, 7), [(0, 5, Cause::Restart), (5, 7, Latency)]);
    }
}
