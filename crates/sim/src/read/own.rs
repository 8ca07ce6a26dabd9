//! Storages that serve requests in a way of their own: by what was measured, or with an arm.

use crate::env::Env;
use crate::event::Customer;
use crate::index::WorkerId;
use crate::loaders::Loaders;
use crate::worker::Phase;
use forebay_report::Cause;

use super::mount::{Mount, Own};

impl Loaders {
    /// Asks a storage that serves in a way of its own: the request is over when it has been served and
    /// its bytes have come over the network.
    pub(super) fn ask_own(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let Mount { own, group, .. } = *self.mount_of(w);
        let worker = &mut self.workers[w];
        let bytes = worker.request;
        worker.parts = 1 + u8::from(group.is_some());
        self.enter(env, w, Phase::Served, Cause::Transfer);
        if let Some(group) = group {
            env.network.start(env.now, group, bytes, Customer::Worker(w));
        }
        let customer = Customer::Worker(w);
        match own {
            Own::None => {}
            Own::Table(table) => self.ask_table(env, table, bytes, customer),
            Own::Arm(arm) => self.ask_arm(env, arm, bytes, (customer, self.spot(w))),
        }
        false
    }

    /// A part of a request has been done; true if the sample is complete.
    pub(crate) fn part_done(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let worker = &mut self.workers[w];
        worker.parts = worker.parts.saturating_sub(1);
        worker.parts == 0 && self.transferred(env, w)
    }
}
