//! The usual read: each sample is a file of its own, read in one request, straight from the storage.
//!
//! These functions serve loaders with plain reads. They do the same as the general functions of `read`, but without the
//! checks for special cases.

use forebay_report::Cause;

use crate::env::Env;
use crate::event::ActivityId;
use crate::ids::WorkerId;
use crate::loaders::Loaders;
use crate::worker::Phase;

/// The first step of a plain read, which consists of an operation, a latency and a transfer, or fewer of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    Operation,
    Latency,
    Transfer,
}

impl Loaders {
    /// Requests the current sample of worker `w`; returns true if the sample is complete at once.
    #[inline(always)]
    pub(super) fn fetch_plain(&mut self, env: &mut Env, w: WorkerId, first: First) -> bool {
        let worker = &mut self.workers[w];
        worker.request = worker.sample.size;
        match (first, self.loaders[worker.loader].mount.station) {
            (First::Transfer, _) => self.transfer_plain(env, w),
            (First::Operation, Some(station)) => self.open(env, w, station),
            _ => self.wait_for_first_byte(env, w),
        }
    }

    /// Begins the transfer of the sample of worker `w`; returns true if the transfer takes no time.
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
