//! Samples that a job keeps after decoding.

use forebay_report::CacheRequests;

use super::env::Env;
use super::index::{CacheId, WorkerId};
use super::loaders::Loaders;
use super::tiers::Origin;

/// A loader's use of the decoded samples that its node keeps.
#[derive(Debug)]
pub(super) struct Decoded {
    /// Which of the world's caches of nodes.
    pub(super) cache: CacheId,
    /// Bytes of a sample.
    pub(super) bytes: f64,
    /// By epoch of the reading.
    pub(super) requests: Vec<CacheRequests>,
}

impl Loaders {
    /// Whether the sample that worker `w` is to read is there, decoded.
    #[cold]
    pub(super) fn is_decoded(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let worker = &mut self.workers[w];
        let loader = &mut self.loaders[worker.loader];
        let Some(decoded) = &mut loader.decoded else { return false };
        let hit = env.storages.node_caches[decoded.cache].look_up(worker.file as u32);
        let epoch = loader.source.order.epoch() as usize;
        if decoded.requests.len() <= epoch {
            decoded.requests.resize(epoch + 1, CacheRequests::default());
        }
        let found = &mut decoded.requests[epoch];
        *(if hit { &mut found.hits } else { &mut found.misses }) += 1;
        worker.origin = if hit { Origin::Decoded } else { Origin::Storage };
        if hit {
            worker.item.bytes += worker.size;
        }
        hit
    }

    /// The sample that worker `w` has read will be there, decoded.
    #[cold]
    pub(super) fn keep_decoded(&mut self, env: &mut Env, w: WorkerId) {
        let worker = &self.workers[w];
        let Some(decoded) = &self.loaders[worker.loader].decoded else { return };
        let bytes = decoded.bytes;
        env.storages.node_caches[decoded.cache].insert(worker.file as u32, bytes, |_| bytes);
    }
}
