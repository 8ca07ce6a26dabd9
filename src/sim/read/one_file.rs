//! One file that holds all samples: each is a request at its place.

use crate::scenario::Layout;
use crate::sim::event::Clock;
use crate::sim::index::WorkerId;
use crate::sim::world::World;

impl World<'_> {
    /// Asks for the current sample at its place in the file; true if it is there at once.
    pub(super) fn fetch_place(&mut self, clock: &mut Clock, w: WorkerId) -> bool {
        let worker = &mut self.workers[w];
        let loader = &self.loaders[worker.loader];
        let Layout::OneFile { record, opened } = loader.source.layout else { return true };
        worker.request = record.around(worker.size);
        if let Some(striped) = &loader.mount.striped {
            let offset = worker.file as f64 * worker.request;
            worker.way = striped.way_at(0, offset, worker.request);
        }
        let epoch = loader.source.order.epoch();
        let cursor = &mut self.shards[w];
        let open = opened && !(cursor.opened && cursor.epoch == epoch);
        (cursor.opened, cursor.epoch) = (true, epoch);
        let station = loader.mount.station.filter(|_| open);
        if loader.cached.is_some() && self.look_up(w, epoch) {
            return self.first_byte(clock, w);
        }
        match station {
            Some(station) => self.open(clock, w, station),
            None => self.ask_again(clock, w),
        }
    }
}
