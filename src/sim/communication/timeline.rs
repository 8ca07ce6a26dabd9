//! What a timeline shows of gradients: each collective, and how many wait for theirs.

use crate::engine::Time;
use crate::sim::index::CommunicatorId;
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
    /// The timeline says how many bytes of communicator `c` wait for their collective.
    pub(in crate::sim) fn trace_gradients(&mut self, now: Time, c: CommunicatorId) {
        let communicator = &self.communicators[c];
        if let (Some(recorder), Some(tracks)) = (&mut self.recorder, communicator.tracks) {
            recorder.count(tracks.waiting, now, communicator.waiting() as f64);
        }
    }

    /// The timeline says from now on which collective of communicator `c` is at hand.
    pub(in crate::sim) fn trace_collective(&mut self, now: Time, c: CommunicatorId) {
        let communicator = &self.communicators[c];
        if let (Some(recorder), Some(tracks)) = (&mut self.recorder, communicator.tracks) {
            match communicator.at_work() {
                Some(name) => recorder.begin(tracks.reduction, now, name),
                None => recorder.close(tracks.reduction, now),
            }
        }
    }
}
