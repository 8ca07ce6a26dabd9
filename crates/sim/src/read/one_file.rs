//! A data set in one file that holds all samples: each sample is one request at its position in the file.

use forebay_scenario::Layout;

use crate::env::Env;
use crate::ids::WorkerId;
use crate::invariant::broken;
use crate::loaders::Loaders;

impl Loaders {
    /// Requests the current sample of worker `w` at its position in the file; returns true if the sample is complete at once.
    pub(super) fn fetch_place(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let worker = &mut self.workers[w];
        let loader = &self.loaders[worker.loader];
        let Layout::OneFile { record, opened } = loader.source.layout else {
            broken("only data in one file are read by place");
            return true;
        };
        worker.request = record.around(worker.sample.size);
        let (routed, cached) = (loader.mount.routes.is_some(), loader.caches.page_cache.is_some());
        let epoch = loader.source.order.epoch();
        let cursor = &mut self.shards[w];
        let open = opened && !(cursor.opened && cursor.epoch == epoch);
        (cursor.opened, cursor.epoch) = (true, epoch);
        if cached && self.look_up(env, w, epoch) {
            return self.first_byte(env, w);
        }
        if routed {
            self.choose_route(w, 0);
        }
        self.issue(env, w, open)
    }
}
