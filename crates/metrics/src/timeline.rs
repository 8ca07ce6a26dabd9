//! Who did what when, and from it the one cause of each instant of a stall.
//!
//! The rule: every instant of a wait has exactly one cause, namely what the work that ends the wait
//! was doing, or was queueing for, at that instant, followed back through whatever blocked it. A
//! worker does one thing at a time, so its timeline answers for all work that queued for it; where
//! it was idle, the worker that ended its idleness answers, and where it was blocked, the one that
//! made room. Work that was finished but held back by order is [`Cause::Order`].
//!
//! Timelines are only needed as long as a trainer waits: where there are few, what lies before a wait is
//! forgotten when it begins, and of a full one, what lies before the oldest wait. Where only one device
//! ever waits and nobody asks for instants, what its workers did is summed up at once.

use forebay_engine::{Time, prefetch};
use forebay_report::{Cause, StallCause};

use super::spent::Spent;

/// No worker: the link of an idleness that has not ended.
pub const NOBODY: u32 = u32::MAX;

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Work that is a cause.
    Doing(Cause),
    /// Waiting for input, which came from this worker.
    Idle(u32),
    /// Waiting for room, which this worker made.
    Blocked(u32),
}

impl Activity {
    /// Name on a trace.
    pub fn name(self) -> &'static str {
        match self {
            Activity::Doing(cause) => cause.name(),
            Activity::Idle(_) => "idle",
            Activity::Blocked(_) => "blocked",
        }
    }
}

/// An activity from an instant until the next entry's.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub start: Time,
    pub activity: Activity,
}

/// The recent past of one worker.
#[derive(Debug, Clone)]
pub enum Timeline {
    /// What it did when.
    Entries(Vec<Entry>),
    /// For how long since the wait began.
    Spent(Spent),
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline::Entries(Vec::new())
    }
}

impl Timeline {
    /// Entries that a new timeline has room for.
    const LEAST: usize = 16;

    /// Of a worker, only whose time by cause is asked for, each time by the one device that waits for
    /// [its wait](Timeline::begin_wait), and who is linked to nobody.
    pub fn summed() -> Timeline {
        Timeline::Spent(Spent::default())
    }

    /// `activity` begins at `start`, which is not before the last entry.
    #[inline]
    pub fn push(&mut self, start: Time, activity: Activity) {
        if !self.try_push(start, activity)
            && let Timeline::Entries(entries) = self
        {
            entries.push(Entry { start, activity });
        }
    }

    /// The same as long as that needs no more memory; whether it did not.
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

    /// None where they are summed up.
    #[inline]
    fn entries(&self) -> &[Entry] {
        match self {
            Timeline::Entries(entries) => entries,
            Timeline::Spent(_) => &[],
        }
    }

    /// An entry will be pushed soon. What is summed up lies in the worker itself.
    #[inline]
    pub fn prefetch(&self) {
        if let Some(last) = self.entries().last() {
            prefetch(last);
        }
    }

    /// Forgets everything, unless it is summed up.
    #[inline]
    pub fn clear(&mut self) {
        if let Timeline::Entries(entries) = self {
            entries.clear();
        }
    }

    /// A wait begins, and none is going on: forgets all but what is being done.
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

    /// Forgets what ended before `since`; takes more memory if that is not much.
    #[cold]
    pub fn forget_before(&mut self, since: Time) {
        let Timeline::Entries(entries) = self else { return };
        let kept = entries.partition_point(|e| e.start <= since).saturating_sub(1);
        entries.drain(..kept);
        if 2 * entries.len() >= entries.capacity() {
            entries.reserve(entries.len().max(Self::LEAST));
        }
    }

    /// Worker `by` has ended the idleness or blocking at the end, unless that is known.
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

    /// Since when what is being done has been done.
    pub fn last_start(&self) -> Option<Time> {
        match self {
            Timeline::Spent(spent) => Some(spent.start()),
            Timeline::Entries(entries) => entries.last().map(|last| last.start),
        }
    }

    /// What is being done was `first` up to `then`, which is past, and since then has been `second`.
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

/// How many entries begin before `end`.
fn before(entries: &[Entry], end: Time) -> usize {
    entries.partition_point(|e| e.start < end)
}

/// Part of a wait with one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// When it begins.
    pub start: Time,
    /// When it ends.
    pub end: Time,
    /// What is waited for.
    pub cause: StallCause,
}

/// The causes of a wait `[from, to)` that `worker` ended, latest first, appended to `segments`.
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
        // A worker that was not there yet was queued for by nothing: the wait is for its start.
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

/// More hand-overs than stages at one instant would be a circle.
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
        let Timeline::Entries(entries) = &timeline else { panic!("not summed up") };
        assert!(entries.capacity() <= 64, "{}", entries.capacity());
        let found = causes(&[timeline], 0, 90, 93);
        assert_eq!(found, [(90, 91, Latency), (91, 92, Transfer), (92, 93, Latency)]);
    }

    #[test]
    fn what_was_done_when_a_wait_begins_is_known_though_all_before_is_forgotten() {
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
    fn before_the_first_entry_the_loader_was_starting() {
        let lines = lines(&[&[(5, Doing(Latency))]]);
        assert_eq!(causes(&lines, 0, 0, 7), [(0, 5, Cause::Restart), (5, 7, Latency)]);
    }
}
