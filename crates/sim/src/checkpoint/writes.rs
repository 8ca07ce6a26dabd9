//! States of job copies while they are being written, and the last one that is written.

use std::collections::BTreeMap;

use forebay_engine::fluid::GroupId;
use forebay_engine::{Span, Time};
use forebay_metrics::Segment;
use forebay_report::{Cause, StallCause};

use crate::env::Env;
use crate::event::ActivityId;
use crate::ids::{CheckpointId, WriteId};
use crate::job_state::JobState;
use crate::recovery::Recoveries;

/// The state from which a job copy would restart.
#[derive(Debug, Clone, Default)]
pub(crate) struct Saved {
    pub(crate) state: JobState,
    /// Time when the job copy was in this state; `ready` is the time when training went on from there.
    pub(crate) begun: Time,
    pub(crate) ready: Time,
}

impl Saved {
    /// Returns a saved state that needs no writing: the state at `now`.
    pub(crate) fn new(state: JobState, now: Time) -> Saved {
        Saved { state, begun: now, ready: now }
    }

    /// Returns the stalls of a device that restarts from this state at `now`: they cover the time from the `end` of its last
    /// step on. A state whose copy had to wait may contain steps that ended after it was due.
    pub(crate) fn waits(&self, end: Time, now: Time) -> [Segment; 3] {
        let wait = |start, end, cause| Segment { start, end, cause: StallCause::own(cause) };
        [
            wait(end, self.begun, Cause::Fault),
            wait(self.begun.max(end), self.ready, Cause::Checkpoint),
            wait(self.ready, now, Cause::Fault),
        ]
    }
}

/// The part of each checkpoint that a node writes, or that it reads after a failure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatePart {
    /// Number of the node in its job copy; nodes of parameter servers come after the others.
    pub(crate) node: u32,
    pub(crate) bytes: f64,
    /// Route of the bytes between the node and the storage; `None` if nothing limits their rate.
    pub(crate) way: Option<GroupId>,
}

impl StatePart {
    /// Begins to move `parts`; returns the number of transfers in progress.
    pub(crate) fn move_all(parts: &[StatePart], env: &mut Env, activity: ActivityId) -> u32 {
        let ways = parts.iter().filter_map(|part| Some((part.way?, part.bytes)));
        let flows = ways.map(|(way, bytes)| env.network.start(env.now, way, bytes, activity));
        flows.count() as u32
    }

    /// Returns the bytes of the node with the most [B].
    pub(super) fn most_on_a_node(parts: &[StatePart]) -> f64 {
        let mut nodes = BTreeMap::<u32, f64>::new();
        parts.iter().for_each(|part| *nodes.entry(part.node).or_default() += part.bytes);
        nodes.into_values().fold(0.0, f64::max)
    }
}

/// A checkpoint whose state is kept until it is written.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) checkpoint: CheckpointId,
    pub(super) saved: Saved,
    /// Time when its state began to be copied aside or, without a pause, to be written.
    pub(super) since: Time,
    /// Number of its transfers in progress; 0 while it waits for its turn.
    pub(super) left: u32,
}

/// A storage that checkpoints are written to: one that all nodes share, or one inside node `node`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WritePlace {
    pub(crate) storage: usize,
    pub(crate) node: Option<u32>,
}

/// The number of job copies that transfer checkpoints to one place, and how long two or more did so at once.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WriteOverlap {
    copies: u32,
    /// Time until `since` in which two or more did so.
    together: Span,
    since: Time,
}

impl WriteOverlap {
    /// Returns the time until `now` in which two or more job copies transferred checkpoints.
    fn together(&self, now: Time) -> Span {
        let more = if self.copies >= 2 { now.since(self.since) } else { Span::ZERO };
        self.together + more
    }

    /// Changes the number of job copies at `now`.
    fn change(&mut self, now: Time, by: i32) {
        let (copies, together) = (self.copies.saturating_add_signed(by), self.together(now));
        *self = WriteOverlap { copies, together, since: now };
    }
}

impl Recoveries {
    /// Records that a job copy transfers checkpoints `c` from `now` on, unless it does so already.
    pub(super) fn begin_writing(&mut self, now: Time, c: CheckpointId) {
        let checkpoint = &mut self.checkpoints[c];
        if checkpoint.transfers.is_some() {
            return;
        }
        let together = checkpoint.settings.shared.iter().map(|place| {
            let overlap = self.overlaps.entry(*place).or_default();
            overlap.change(now, 1);
            overlap.together(now)
        });
        checkpoint.transfers = Some((now, together.collect()));
    }

    /// Records that a job copy does not transfer checkpoints `c` any more, if it did.
    pub(crate) fn end_writing(&mut self, now: Time, c: CheckpointId) {
        let checkpoint = &mut self.checkpoints[c];
        let Some((since, together)) = checkpoint.transfers.take() else { return };
        if checkpoint.settings.shared.is_empty() {
            return;
        }
        let books = &mut self.all[checkpoint.recovery].books;
        books.transfer_seconds += now.since(since).seconds();
        let mut longest = 0.0_f64;
        for (place, before) in checkpoint.settings.shared.iter().zip(together) {
            let overlap = self.overlaps.entry(*place).or_default();
            longest = longest.max(overlap.together(now).seconds() - before.seconds());
            overlap.change(now, -1);
        }
        books.overlap_seconds += longest;
    }

    /// Counts the transfers that are in progress when the run ends.
    pub(crate) fn end_transfers(&mut self, now: Time) {
        for c in self.checkpoints.ids() {
            self.end_writing(now, c);
        }
    }

    /// Makes the written state `w` the state from which its job copy would restart, unless a newer one is.
    pub(super) fn saved(&mut self, now: Time, w: WriteId) {
        let Write { checkpoint: c, ref mut saved, since, .. } = self.writes[w];
        let saved = std::mem::take(saved);
        self.writes.remove(w);
        let checkpoint = &mut self.checkpoints[c];
        checkpoint.pending.retain(|pending| *pending != w);
        if checkpoint.pending.is_empty() {
            self.end_writing(now, c);
        }
        let checkpoint = &self.checkpoints[c];
        let of = checkpoint.recovery;
        let recovery = &mut self.all[of];
        recovery.books.checkpoints += 1;
        recovery.books.written +=
            checkpoint.settings.writers.iter().map(|of| of.bytes).sum::<f64>();
        recovery.books.writing_seconds += now.since(since).seconds();
        if saved.state.steps >= recovery.saved.state.steps {
            recovery.saved = saved;
        }
        self.record_progress(of);
    }
}
