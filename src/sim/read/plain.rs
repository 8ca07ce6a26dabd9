//! The usual read: a file of its own in one request, straight from the storage.
//!
//! It is what the steps of `read` come to where a loader is plain, with nothing else to ask about.

use crate::report::Cause;
use crate::sim::event::{Clock, Customer};
use crate::sim::workers::Phase;
use crate::sim::world::World;

use super::RequestLatency;

impl World<'_> {
    /// Asks for the worker's current sample; true if it is there already.
    #[inline(always)]
    pub(super) fn fetch_plain(&mut self, clock: &mut Clock, w: u32) -> bool {
        let worker = &mut self.workers[w as usize];
        worker.request = worker.size;
        let mount = &self.loaders[worker.loader as usize].mount;
        match (mount.station, &mount.latency) {
            (Some(station), _) => self.open(clock, w, station),
            (None, RequestLatency::None) => self.transfer_plain(clock, w),
            (None, _) => self.wait_for_first_byte(clock, w),
        }
    }

    /// The sample's bytes begin to come; true if they all have.
    #[inline(always)]
    pub(super) fn transfer_plain(&mut self, clock: &mut Clock, w: u32) -> bool {
        let worker = &self.workers[w as usize];
        let (bytes, way) = (worker.request, self.loaders[worker.loader as usize].mount.group);
        let Some(group) = way else { return self.file_read(w) };
        self.enter(clock.now, w, Phase::Transfer, Cause::Transfer);
        self.network.start(clock.now, group, bytes, Customer::Worker(w));
        false
    }
}
