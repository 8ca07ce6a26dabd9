//! What a timeline shows of gradients: each collective, and how many wait for theirs.

use super::Communicators;
use crate::env::Env;
use crate::index::CommunicatorId;

/// Tracks of a job copy's gradients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SyncTracks {
    /// What is done with the bucket at hand.
    pub(crate) reduction: u32,
    /// Those that are made and not begun to be reduced [B].
    pub(crate) waiting: u32,
}

impl Communicators {
    /// The timeline says how many bytes of communicator `c` wait for their collective.
    pub(crate) fn trace_gradients(&mut self, env: &mut Env, c: CommunicatorId) {
        let communicator = &self.all[c];
        if let (Some(recorder), Some(tracks)) = (&mut env.recorder, communicator.tracks) {
            recorder.count(tracks.waiting, env.now, communicator.waiting() as f64);
        }
    }

    /// The timeline says from env.now on which collective of communicator `c` is at hand.
    pub(crate) fn trace_collective(&mut self, env: &mut Env, c: CommunicatorId) {
        let communicator = &self.all[c];
        if let (Some(recorder), Some(tracks)) = (&mut env.recorder, communicator.tracks) {
            match communicator.at_work() {
                Some(name) => recorder.begin(tracks.reduction, env.now, name),
                None => recorder.close(tracks.reduction, env.now),
            }
        }
    }
}
