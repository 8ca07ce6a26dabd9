//! Who did what when, and from it the one cause of each instant of a stall.
//!
//! The rule: every instant of a wait has exactly one cause, namely what the work that ends the wait
//! was doing, or was queueing for, at that instant, followed back through whatever blocked it. A
//! worker does one thing at a time, so its timeline answers for all work that queued for it; where
//! it was idle, the worker that ended its idleness answers, and where it was blocked, the one that
//! made room. Work that was finished but held back by order is [`Cause::Order`].
//!
//! Timelines are only needed as long as a trainer waits: where there are few, what lies before a wait is
//! forgotten when it begins, and of a full one, what lies before the oldest wait.

use crate::engine::{Time, prefetch};
use crate::report::{Cause, StallCause};

/// No worker: the link of an idleness that has not ended.
pub(crate) const NOBODY: u32 = u32::MAX;

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Work that is a cause.
    Doing(Cause),
    /// Waiting for input, which came from this worker.
    Idle(u32),
    /// Waiting for room, which this worker made.
    Blocked(u32),
}

impl Activity {
    /// Name on a trace.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Activity::Doing(cause) => cause.name(),
            Activity::Idle(_) => "idle",
            Activity::Blocked(_) => "blocked",
        }
    }
}

/// An activity from an instant until the next entry's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) start: Time,
    pub(crate) activity: Activity,
}

/// The recent past of one worker.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timeline(Vec<Entry>);

impl Timeline {
    /// Entries that a new timeline has room for.
    const LEAST: usize = 16;

    /// `activity` begins at `start`, which is not before the last entry.
    #[inline]
    pub(crate) fn push(&mut self, start: Time, activity: Activity) {
        debug_assert!(self.0.last().is_none_or(|e| e.start <= start), "time runs forward");
        self.0.push(Entry { start, activity });
    }

    /// The same as long as that needs no more memory; whether it did not.
    #[inline]
    pub(crate) fn try_push(&mut self, start: Time, activity: Activity) -> bool {
        let has_room = self.0.len() < self.0.capacity();
        if has_room {
            self.push(start, activity);
        }
        has_room
    }

    /// An entry will be pushed soon.
    #[inline]
    pub(crate) fn prefetch(&self) {
        if let Some(last) = self.0.last() {
            prefetch(last);
        }
    }

    /// Forgets everything.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Forgets all but what is being done.
    pub(crate) fn forget_past(&mut self) {
        if let Some(&last) = self.0.last() {
            self.0[0] = last;
            self.0.truncate(1);
        }
    }

    /// Forgets what ended before `since`; takes more memory if that is not much.
    #[cold]
    pub(crate) fn forget_before(&mut self, since: Time) {
        let kept = self.0.partition_point(|e| e.start <= since).saturating_sub(1);
        self.0.drain(..kept);
        if 2 * self.0.len() >= self.0.capacity() {
            self.0.reserve(self.0.len().max(Self::LEAST));
        }
    }

    /// Worker `by` has ended the idleness or blocking at the end, unless that is known.
    pub(crate) fn link(&mut self, by: u32) {
        if let Some(Entry { activity: Activity::Idle(link) | Activity::Blocked(link), .. }) =
            self.0.last_mut()
            && *link == NOBODY
        {
            *link = by;
        }
    }

    /// The latest entry.
    pub(crate) fn last_mut(&mut self) -> Option<&mut Entry> {
        self.0.last_mut()
    }

    fn before(&self, end: Time) -> usize {
        self.0.partition_point(|e| e.start < end)
    }
}

/// Part of a wait with one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) start: Time,
    pub(crate) end: Time,
    pub(crate) cause: StallCause,
}

/// The causes of a wait `[from, to)` that `worker` ended, latest first, appended to `segments`.
pub(crate) fn blame<'t>(
    timeline: impl Fn(u32) -> &'t Timeline,
    worker: u32,
    from: Time,
    to: Time,
    segments: &mut Vec<Segment>,
) {
    let (mut at, mut end, mut jumps) = (worker, to, 0);
    let mut entries = timeline(at);
    let mut index = entries.before(end);
    while end > from {
        // A worker that was not there yet was queued for by nothing: the wait is for its start.
        let Some(entry) = index.checked_sub(1).map(|i| entries.0[i]) else {
            add(segments, from, end, Cause::Restart);
            return;
        };
        let other = match entry.activity {
            Activity::Doing(_) => NOBODY,
            Activity::Idle(other) | Activity::Blocked(other) => other,
        };
        if other != NOBODY && jumps < MOST_JUMPS {
            (at, jumps) = (other, jumps + 1);
            entries = timeline(at);
            index = entries.before(end);
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

/// More hand-overs than stages at one instant would be a circle.
const MOST_JUMPS: u32 = 64;

fn add(segments: &mut Vec<Segment>, start: Time, end: Time, cause: Cause) {
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
    fn a_worker_answers_for_what_it_did_before_the_last_item() {
        let lines = lines(&[&[(0, Doing(Latency)), (4, Doing(Transfer)), (9, Doing(Latency))]]);
        assert_eq!(causes(&lines, 0, 2, 12), [(2, 4, Latency), (4, 9, Transfer), (9, 12, Latency)]);
    }

    #[test]
    fn idleness_is_the_upstream_workers() {
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
    fn blocking_is_the_downstream_workers() {
        let lines = lines(&[
            &[(0, Doing(Latency)), (2, Blocked(1)), (6, Doing(Transfer))],
            &[(0, Doing(Decode)), (6, Doing(Decode))],
        ]);
        assert_eq!(causes(&lines, 0, 0, 8), [(0, 6, Decode), (6, 8, Transfer)]);
    }

    #[test]
    fn a_full_timeline_forgets_what_no_wait_needs() {
        let mut timeline = Timeline::default();
        for t in 0..100 {
            let activity = Doing(if t % 2 == 0 { Latency } else { Transfer });
            if !timeline.try_push(Time(t), activity) {
                timeline.forget_before(Time(90.min(t)));
                timeline.push(Time(t), activity);
            }
        }
        assert!(timeline.0.capacity() <= 64, "{}", timeline.0.capacity());
        let found = causes(&[timeline], 0, 90, 93);
        assert_eq!(found, [(90, 91, Latency), (91, 92, Transfer), (92, 93, Latency)]);
    }

    #[test]
    fn what_was_done_when_a_wait_begins_is_known_though_all_before_is_forgotten() {
        let mut timeline = Timeline::default();
        timeline.forget_past();
        for t in 0..10 {
            timeline.push(Time(t), Doing(if t % 2 == 0 { Latency } else { Transfer }));
        }
        timeline.forget_past();
        timeline.push(Time(14), Doing(Decode));
        assert_eq!(timeline.0.len(), 2);
        assert_eq!(causes(&[timeline], 0, 11, 16), [(11, 14, Transfer), (14, 16, Decode)]);
    }

    #[test]
    fn before_the_first_entry_the_loader_was_starting() {
        let lines = lines(&[&[(5, Doing(Latency))]]);
        assert_eq!(causes(&lines, 0, 0, 7), [(0, 5, Cause::Restart), (5, 7, Latency)]);
    }
}
