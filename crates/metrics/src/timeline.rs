//! Timelines of the activities of each worker, which determine the cause of each instant of a stall.
//!
//! The rule: every instant of a wait has exactly one cause. The cause is what the work that ended the wait was doing, or was
//! queueing for, at that instant; if other work blocked it then, the cause is what the other work was doing. A worker does one
//! thing at a time, so its timeline gives the cause for all work that queued for it. Where the worker was idle, the timeline of
//! the worker that ended its idleness gives the cause; where it was blocked, the timeline of the worker that made room. Work
//! that was finished but held back by order is [`Cause::Order`].
//!
//! Timelines are only needed as long as a trainer waits. If there are few timelines, their entries before a wait are forgotten
//! when the wait begins; a full timeline forgets the entries before the oldest wait. If only one device ever waits and no
//! instants are asked for, the time of its workers is summed by cause at once.

use forebay_engine::{Time, prefetch};
use forebay_report::{Cause, StallCause};

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
pub struct Entry {
    pub start: Time,
    pub activity: Activity,
}

/// The recent past of one worker.
#[derive(Debug, Clone)]
pub enum Timeline {
    /// Activities of the worker, in order of time.
    Entries(Vec<Entry>),
    /// Time by cause since the wait began.
    Spent(Spent),
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline::Entries(Vec::new())
    }
}

impl Timeline {
    /// Number of entries for which a new timeline has room.
    const LEAST: usize = 16;

    /// Creates a timeline that keeps only sums of time by cause. It suffices for a worker to which no other worker's entries
    /// link, if only one device ever waits and asks for the causes of [its own wait](Timeline::begin_wait).
    pub fn summed() -> Timeline {
        Timeline::Spent(Spent::default())
    }

    /// Begins `activity` at `start`, which is not before the last entry.
    #[inline]
    pub fn push(&mut self, start: Time, activity: Activity) {
        if !self.try_push(start, activity)
            && let Timeline::Entries(entries) = self
        {
            entries.push(Entry { start, activity });
        }
    }

    /// Begins `activity` at `start` if the timeline needs no more memory for it; returns whether the activity was begun.
    #[inline]
    pub fn try_push(&mut self, start: Time, activity: Activity) -> bool {
        match self {
            Timeline::Spent(spent) => spent.push(start, activity),
            Timeline::Entries(entries) => {
                debug_assert!(entries.last().is_none_or(|e| e.start <= start), "time runs forward");
                if entries.len() == entries.capacity() {
                    return false;
                }
                entries.push(Entry { start, activity });
            }
        }
        true
    }

    /// Returns the entries; none if only sums are kept.
    #[inline]
    fn entries(&self) -> &[Entry] {
        match self {
            Timeline::Entries(entries) => entries,
            Timeline::Spent(_) => &[],
        }
    }

    /// Prefetches the last entry, because an entry will be pushed soon. Does nothing if only sums are kept, because these lie
    /// in the worker itself.
    #[inline]
    pub fn prefetch(&self) {
        if let Some(last) = self.entries().last() {
            prefetch(last);
        }
    }

    /// Forgets all entries; sums are kept.
    #[inline]
    pub fn clear(&mut self) {
        if let Timeline::Entries(entries) = self {
            entries.clear();
        }
    }

    /// Begins a wait, while no other is going on: forgets all activities but the current one.
    pub fn begin_wait(&mut self, now: Time) {
        match self {
            Timeline::Spent(spent) => spent.begin_wait(now),
            Timeline::Entries(entries) => {
                if let Some(&last) = entries.last() {
                    entries[0] = last;
                    entries.truncate(1);
                }
            }
        }
    }

    /// Forgets the activities that ended before `since`; reserves more memory if at least half of the room is still in use.
    #[cold]
    pub fn forget_before(&mut self, since: Time) {
        let Timeline::Entries(entries) = self else { return };
        let kept = entries.partition_point(|e| e.start <= since).saturating_sub(1);
        entries.drain(..kept);
        if 2 * entries.len() >= entries.capacity() {
            entries.reserve(entries.len().max(Self::LEAST));
        }
    }

    /// Records that worker `by` ended the idle or blocked period of the last entry, unless a worker is already recorded.
    pub fn link(&mut self, by: u32) {
        debug_assert!(
            by == NOBODY || matches!(self, Timeline::Entries(_)),
            "it answers for itself"
        );
        if let Timeline::Entries(entries) = self
            && let Some(Entry { activity: Activity::Idle(link) | Activity::Blocked(link), .. }) =
                entries.last_mut()
            && *link == NOBODY
        {
            *link = by;
        }
    }

    /// Returns the start of the current activity.
    pub fn last_start(&self) -> Option<Time> {
        match self {
            Timeline::Spent(spent) => Some(spent.start()),
            Timeline::Entries(entries) => entries.last().map(|last| last.start),
        }
    }

    /// Splits the current activity at `then`, which is in the past: `first` was the activity's cause until `then`, and `second`
    /// has been its cause since.
    pub fn split(&mut self, first: Cause, then: Time, second: Cause) {
        match self {
            Timeline::Spent(spent) => spent.split(first, then, second),
            Timeline::Entries(entries) => {
                if let Some(last) = entries.last_mut() {
                    last.activity = Activity::Doing(first);
                    entries.push(Entry { start: then, activity: Activity::Doing(second) });
                }
            }
        }
    }
}

/// Returns the number of entries that begin before `end`.
fn before(entries: &[Entry], end: Time) -> usize {
    entries.partition_point(|e| e.start < end)
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
    timeline: impl Fn(u32) -> &'t Timeline,
    worker: u32,
    from: Time,
    to: Time,
    segments: &mut Vec<Segment>,
) {
    if let Timeline::Spent(spent) = timeline(worker) {
        return spent.blame(from, to, segments);
    }
    let (mut at, mut end, mut jumps) = (worker, to, 0);
    let mut entries = timeline(at).entries();
    let mut index = before(entries, end);
    while end > from {
        // No work queued for a worker that had not started yet: the wait is for its start.
        let Some(entry) = index.checked_sub(1).map(|i| entries[i]) else {
            add(segments, from, end, Cause::Restart);
            return;
        };
        let other = match entry.activity {
            Activity::Doing(_) => NOBODY,
            Activity::Idle(other) | Activity::Blocked(other) => other,
        };
        if other != NOBODY && jumps < MOST_JUMPS {
            (at, jumps) = (other, jumps + 1);
            entries = timeline(at).entries();
            index = before(entries, end);
            continue;
        }
        let start = entry.start.max(from);
        let cause = match entry.activity {
            Activity::Doing(cause) => cause,
            Activity::Idle(_) | Activity::Blocked(_) => Cause::Order,
        };
        add(segments, start, end, cause);
        (end, jumps, index) = (start, 0, index - 1);
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

    fn lines(entries: &[&[(u64, Activity)]]) -> Vec<Timeline> {
        entries
            .iter()
            .map(|line| {
                let mut timeline = Timeline::default();
                line.iter().for_each(|(t, a)| timeline.push(Time(*t), *a));
                timeline
            })
            .collect()
    }

    fn causes(lines: &[Timeline], worker: u32, from: u64, to: u64) -> Vec<(u64, u64, Cause)> {
        let mut segments = vec![];
        blame(|w| &lines[w as usize], worker, Time(from), Time(to), &mut segments);
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
    fn a_timeline_at_capacity_can_drop_entries_that_no_wait_needs() {
        let mut timeline = Timeline::default();
        for t in 0..100 {
            let activity = Doing(if t % 2 == 0 { Latency } else { Transfer });
            if !timeline.try_push(Time(t), activity) {
                timeline.forget_before(Time(90.min(t)));
                timeline.push(Time(t), activity);
            }
        }
        let Timeline::Entries(entries) = &timeline else { panic!("not summed up") };
        assert!(entries.capacity() <= 64, "{}", entries.capacity());
        let found = causes(&[timeline], 0, 90, 93);
        assert_eq!(found, [(90, 91, Latency), (91, 92, Transfer), (92, 93, Latency)]);
    }

    #[test]
    fn beginning_a_wait_clears_the_timeline_except_for_the_current_activity() {
        let mut timeline = Timeline::default();
        timeline.begin_wait(Time(0));
        for t in 0..10 {
            timeline.push(Time(t), Doing(if t % 2 == 0 { Latency } else { Transfer }));
        }
        timeline.begin_wait(Time(11));
        timeline.push(Time(14), Doing(Decode));
        let Timeline::Entries(entries) = &timeline else { panic!("not summed up") };
        assert_eq!(entries.len(), 2);
        assert_eq!(causes(&[timeline], 0, 11, 16), [(11, 14, Transfer), (14, 16, Decode)]);
    }

    #[test]
    fn waiting_time_before_the_first_worker_activity_counts_as_restart() {
        let lines = lines(&[&[(5, Doing(Latency))]]);
        assert_eq!(causes(&lines, 0, 0, 7), [(0, 5, Cause::Restart), (5, 7, Latency)]);
    }
}
