//! Timelines of what workers and devices did.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A timeline for viewers such as Perfetto.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Trace {
    /// Names of processes, by the process's index; a process is a node of a job copy.
    pub processes: Vec<String>,
    /// Process and name of each track, by the track's index.
    pub tracks: Vec<(u32, String)>,
    /// Spans on tracks.
    pub spans: Vec<TraceSpan>,
    /// Values of counters over time.
    pub counters: Vec<TraceCounter>,
    /// Spans and counter values left out because there were too many.
    pub dropped: u64,
}

impl Trace {
    /// Appends another timeline; its processes and tracks are added as new ones.
    pub fn append(&mut self, other: Trace) {
        let (processes, tracks) = (self.processes.len() as u32, self.tracks.len() as u32);
        self.processes.extend(other.processes);
        self.tracks
            .extend(other.tracks.into_iter().map(|(process, name)| (process + processes, name)));
        let moved = |span: TraceSpan| TraceSpan { track: span.track + tracks, ..span };
        self.spans.extend(other.spans.into_iter().map(moved));
        let moved = |value: TraceCounter| TraceCounter { track: value.track + tracks, ..value };
        self.counters.extend(other.counters.into_iter().map(moved));
        self.dropped += other.dropped;
    }
}

/// Name of an activity: a cause, what an idle worker or device does, or a collective.
pub type ActivityName = Cow<'static, str>;

/// An activity on a track, from its start for its duration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceSpan {
    /// Index into [`Trace::tracks`].
    pub track: u32,
    /// Name of the activity.
    pub name: ActivityName,
    /// Start of the activity [s].
    pub start: f64,
    /// Duration of the activity [s].
    pub duration: f64,
}

/// Value that a counter takes at an instant and keeps until its next value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TraceCounter {
    /// Index into [`Trace::tracks`].
    pub track: u32,
    /// Instant at which the value changes [s].
    pub time: f64,
    /// New value.
    pub value: f64,
}
