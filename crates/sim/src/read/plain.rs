//! The usual read: a file of its own in one request, straight from the storage.
//!
//! It is what the steps of `read` come to where a loader is plain, with nothing else to ask about.

use crate::env::Env;
use crate::event::ActivityId;
use crate::index::WorkerId;
use crate::loaders::Loaders;
use crate::worker::Phase;
use forebay_report::Cause;

/// What comes first of an operation, a delay and a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    Operation,
    Latency,
    Transfer,
}

impl Loaders {
    /// Asks for the worker's current sample; true if it is there already.
    #[inline(always)]
    pub(super) fn fetch_plain(&mut self, env: &mut Env, w: WorkerId, first: First) -> bool {
        let worker = &mut self.workers[w];
        worker.request = worker.size;
        match (first, self.loaders[worker.loader].mount.station) {
            (First::Transfer, _) => self.transfer_plain(env, w),
            (First::Operation, Some(station)) => self.open(env, w, station),
            _ => self.wait_for_first_byte(env, w),
        }
    }

    /// The sample's bytes begin to come; true if they all have.
    #[inline(always)]
    pub(super) fn transfer_plain(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let worker = &self.workers[w];
        let (bytes, way) = (worker.request, self.loaders[worker.loader].mount.group);
        let Some(group) = way else { return self.file_read(w) };
        self.enter(env, w, Phase::File, Cause::Transfer);
        env.network.start(env.now, group, bytes, ActivityId::Worker(w));
        false
    }
}
