//! What a timeline shows of gradients: each collective, and how many wait for theirs.

use crate::engine::Time;
use crate::sim::world::World;

/// Tracks of a job copy's gradients.
#[derive(Debug, Clone, Copy)]
pub(in crate::sim) struct SyncTracks {
    /// What is done with the bucket at hand.
    pub(in crate::sim) reduction: u32,
    /// Those that are made and not begun to be reduced [B].
    pub(in crate::sim) waiting: u32,
}

impl World<'_> {
    /// The timeline says how many gradients of job copy `j` wait.
    pub(in crate::sim) fn trace_gradients(&mut self, now: Time, j: u32) {
        let Some(sync) = &self.jobs[j as usize].sync else { return };
        if let (Some(recorder), Some(tracks)) = (&mut self.recorder, sync.tracks) {
            recorder.count(tracks.waiting, now, sync.waiting() as f64);
        }
    }

    /// The timeline says what is done with the bucket at hand of job copy `j` from now on.
    pub(in crate::sim) fn trace_reduction(&mut self, now: Time, j: u32) {
        let Some(sync) = &self.jobs[j as usize].sync else { return };
        if let (Some(recorder), Some(tracks)) = (&mut self.recorder, sync.tracks) {
            match sync.at_work() {
                Some(name) => recorder.begin(tracks.reduction, now, name),
                None => recorder.close(tracks.reduction, now),
            }
        }
    }
}
