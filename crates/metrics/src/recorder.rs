//! Records that go beyond the totals of an outcome: a queue's totals over time, and the trace.

use super::timeline::Segment;
use forebay_engine::{Span, Time};
use forebay_report::{
    ActivityName, Bin, QueueTotals, Series, StepOutcome, Trace, TraceCounter, TraceSpan,
};

/// Snapshots of a queue's totals at equal intervals of time. If there are too many, every second
/// one is dropped and the interval doubles.
#[derive(Debug)]
pub struct Snapshots {
    width: Span,
    next: Time,
    totals: Vec<QueueTotals>,
}

impl Snapshots {
    const MOST: usize = 512;
    const FIRST_WIDTH: f64 = 1e-3;
    /// Number of snapshots for which memory is reserved at first; small, because there are
    /// thousands of queues.
    const FIRST: usize = 64;

    /// Returns no snapshots yet. The intervals of a history that lasts at least `least` seconds are at first as long as they would
    /// be at a quarter of that time.
    pub fn new(start: Time, least: f64) -> Snapshots {
        let mut width = Self::FIRST_WIDTH;
        while 4.0 * width * Self::MOST as f64 <= least {
            width *= 2.0;
        }
        let width = Span::from_seconds(width);
        Snapshots { width, next: start + width, totals: Vec::new() }
    }

    /// Returns the instant of the next snapshot.
    pub fn next(&self) -> Time {
        self.next
    }

    pub fn take(&mut self, totals: QueueTotals) {
        if self.totals.is_empty() {
            self.totals.reserve(Self::FIRST);
        }
        self.totals.push(totals);
        if self.totals.len() == Self::MOST {
            let mut index = 0;
            self.totals.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            self.width = self.width + self.width;
        }
        self.next += self.width;
    }

    /// Adds this queue's history to `series`. The last bin ends at the end of the run.
    pub fn add_to(&self, last: QueueTotals, series: &mut Series) {
        series.width = self.width.seconds();
        series.bins.resize(series.bins.len().max(self.totals.len() + 1), Bin::default());
        let mut before = QueueTotals::default();
        for (bin, after) in series.bins.iter_mut().zip(self.totals.iter().chain([&last])) {
            bin.level_seconds += after.level_seconds - before.level_seconds;
            bin.enqueued += after.enqueued - before.enqueued;
            bin.dequeued += after.dequeued - before.dequeued;
            bin.blocked_seconds += after.blocked_seconds - before.blocked_seconds;
            before = *after;
        }
    }
}

/// Adds the steps of a job that started at `start` [s] to the bins of its series.
pub fn add_steps(steps: &[StepOutcome], start: f64, series: &mut Series) {
    let mut before = start;
    for step in steps {
        let bin = ((step.end - start) / series.width) as usize;
        let last = series.bins.len().saturating_sub(1);
        if let Some(bin) = series.bins.get_mut(bin.min(last)) {
            bin.steps += 1;
            bin.step_seconds += step.end - before;
        }
        before = step.end;
    }
}

/// The trace being recorded.
#[derive(Debug, Default)]
pub struct Recorder {
    trace: Trace,
    open: Vec<Option<(Time, ActivityName)>>,
}

impl Recorder {
    /// Maximum number of spans and counter values kept: about 200 MB of JSON.
    const MOST: usize = 2_000_000;

    /// Adds a process, which is a group of tracks, and returns its number.
    pub fn process(&mut self, name: String) -> u32 {
        self.trace.processes.push(name);
        self.trace.processes.len() as u32 - 1
    }

    /// Adds a track to a process and returns its number.
    pub fn track(&mut self, process: u32, name: String) -> u32 {
        self.trace.tracks.push((process, name));
        self.open.push(None);
        self.trace.tracks.len() as u32 - 1
    }

    /// Begins the activity `name` on `track` at `start`, and ends the activity before it.
    pub fn begin(&mut self, track: u32, start: Time, name: impl Into<ActivityName>) {
        self.close(track, start);
        self.open[track as usize] = Some((start, name.into()));
    }

    /// Ends the activity on `track` at `end`.
    pub fn close(&mut self, track: u32, end: Time) {
        let Some((start, name)) = self.open[track as usize].take() else { return };
        if start >= end || !self.has_room() {
            return;
        }
        let (start, duration) = (start.seconds(), end.since(start).seconds());
        self.trace.spans.push(TraceSpan { track, name, start, duration });
    }

    /// Adds to `track` one span for each cause of a wait; these spans lie within the span of the
    /// wait itself.
    pub fn causes(&mut self, track: u32, segments: &[Segment]) {
        for segment in segments.iter().filter(|segment| segment.start < segment.end) {
            if self.has_room() {
                let (start, duration) =
                    (segment.start.seconds(), segment.end.since(segment.start).seconds());
                let name = segment.cause.cause.name().into();
                self.trace.spans.push(TraceSpan { track, name, start, duration });
            }
        }
    }

    /// Records that the counter `track` has `value` from `now` on.
    pub fn count(&mut self, track: u32, now: Time, value: f64) {
        if self.has_room() {
            self.trace.counters.push(TraceCounter { track, time: now.seconds(), value });
        }
    }

    fn has_room(&mut self) -> bool {
        let room = self.trace.spans.len() + self.trace.counters.len() < Self::MOST;
        self.trace.dropped += u64::from(!room);
        room
    }

    /// Ends all activities at `end` and returns the trace.
    pub fn finish(mut self, end: Time) -> Trace {
        (0..self.open.len() as u32).for_each(|track| self.close(track, end));
        // A span comes before the spans within it.
        let order = |a: &TraceSpan, b: &TraceSpan| {
            a.start.total_cmp(&b.start).then(b.duration.total_cmp(&a.duration))
        };
        self.trace.spans.sort_by(order);
        self.trace
    }
}
