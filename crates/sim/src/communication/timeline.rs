//! Gradients in the timeline: each collective, and the bytes of gradients that wait for a collective.

use super::communicators::Communicators;
use crate::env::Env;
use crate::ids::CommunicatorId;

/// Tracks of a job copy's gradients in the timeline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SyncTracks {
    /// Track that shows the current collective.
    pub(crate) reduction: u32,
    /// Track that shows the bytes of buckets that are ready and whose collectives have not begun [B].
    pub(crate) waiting: u32,
}

impl Communicators {
    /// Records in the timeline how many bytes of communicator `c` wait for their collective.
    pub(crate) fn trace_gradients(&mut self, env: &mut Env, c: CommunicatorId) {
        let communicator = &self.all[c];
        if let (Some(recorder), Some(tracks)) = (&mut env.recorder, communicator.tracks) {
            recorder.count(tracks.waiting, env.now, communicator.waiting() as f64);
        }
    }

    /// Records in the timeline which collective of communicator `c` is in progress from `env.now` on.
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
