//! Row groups: all column chunks that a worker reads from a row group are fetched and decompressed before the first sample of the
//! row group is used.

use forebay_scenario::RowGroups;

use super::source::ShardCursor;
use crate::env::Env;
use crate::event::Delay;
use crate::ids::WorkerId;
use crate::loaders::Loaders;
use crate::worker::Phase;

impl ShardCursor {
    /// Moves on to the next row group of the file in a data set of `samples` samples; returns false if the file has no more.
    pub(super) fn next_group(&mut self, groups: RowGroups, samples: u64) -> bool {
        let of_file = groups.samples_per_file();
        let end = self.file.saturating_mul(of_file).saturating_add(of_file).min(samples);
        if !self.opened || self.next >= end {
            return false;
        }
        self.end = self.next.saturating_add(groups.samples).min(end);
        self.missing = groups.columns;
        true
    }
}

impl Loaders {
    /// Requests the next column chunk of the row group that worker `w` reads; returns true if the sample is complete.
    pub(super) fn fetch_chunk(&mut self, env: &mut Env, w: WorkerId, groups: RowGroups) -> bool {
        let shard = &mut self.shards[w];
        if shard.missing == 0 {
            return self.file_read(w);
        }
        let worker = &mut self.workers[w];
        worker.request = shard.unread * groups.read / f64::from(groups.columns);
        let open = !std::mem::replace(&mut shard.opened, true);
        let (number, epoch) = (shard.requests, shard.epoch);
        shard.requests += 1;
        let loader = &self.loaders[worker.loader];
        let routed = loader.mount.routes.is_some();
        if let Some(used) = &loader.caches.page_cache {
            worker.location.unit = used.units.of(shard.file, number);
            if self.look_up(env, w, epoch) {
                return self.first_byte(env, w);
            }
        }
        if routed {
            self.choose_route(w, number);
        }
        self.issue(env, w, open)
    }

    /// Handles the arrival of a column chunk; returns true if the row group is complete and needs no decompression.
    pub(super) fn chunk_read(&mut self, env: &mut Env, w: WorkerId, groups: RowGroups) -> bool {
        let shard = &mut self.shards[w];
        shard.missing -= 1;
        if shard.missing > 0 {
            return self.fetch_chunk(env, w, groups);
        }
        let seconds = groups.decompress * groups.read * shard.unread;
        if seconds <= 0.0 {
            return self.file_read(w);
        }
        let cores = self.stages[self.workers[w].stage].cores;
        self.begin_compute(env, w, cores, seconds, Delay::once(seconds), Phase::Unpacking)
    }
}
