//! Storages with a service model in addition to links: a table of measured throughput, or a disk head.

use forebay_report::Cause;

use super::mount::{Mount, ServiceModel};
use crate::env::Env;
use crate::event::ActivityId;
use crate::ids::WorkerId;
use crate::loaders::Loaders;
use crate::worker::Phase;

impl Loaders {
    /// Sends the current request of worker `w` to the storage's service model. The request ends when it has been served and its
    /// bytes have arrived over the network. Returns true if the sample is complete.
    pub(super) fn ask_service(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let Mount { service, group, .. } = *self.mount_of(w);
        let worker = &mut self.workers[w];
        let bytes = worker.request;
        worker.parts = 1 + u8::from(group.is_some());
        self.enter(env, w, Phase::Served, Cause::Transfer);
        if let Some(group) = group {
            env.network.start(env.now, group, bytes, ActivityId::Worker(w));
        }
        let activity = ActivityId::Worker(w);
        match service {
            ServiceModel::None => {}
            ServiceModel::Table(table) => self.ask_table(env, table, bytes, activity),
            ServiceModel::DiskHead(arm) => {
                self.ask_disk_head(env, arm, bytes, (activity, self.spot(w)))
            }
        }
        false
    }

    /// Ends one part of the request of worker `w`; returns true if the sample is complete.
    pub(crate) fn part_done(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let worker = &mut self.workers[w];
        worker.parts = worker.parts.saturating_sub(1);
        worker.parts == 0 && self.transferred(env, w)
    }
}
