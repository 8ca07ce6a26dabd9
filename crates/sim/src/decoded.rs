//! Samples that a job keeps after they have been decoded.

use forebay_report::CacheRequests;

use super::env::Env;
use super::ids::{CacheId, WorkerId};
use super::invariant::broken;
use super::loaders::Loaders;
use super::tiers::Origin;

/// A loader's use of its node's cache of decoded samples.
#[derive(Debug)]
pub(super) struct Decoded {
    /// Id of the cache in the world's table of node caches.
    pub(super) cache: CacheId,
    /// Bytes of a decoded sample [B].
    pub(super) bytes: f64,
    /// Hits and misses in each pass (epoch) over the data set.
    pub(super) requests: Vec<CacheRequests>,
}

impl Loaders {
    /// Looks up the next sample of worker `w` in the cache of decoded samples; counts the hit or miss, and returns true for a
    /// hit.
    #[cold]
    pub(super) fn is_decoded(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let worker = &mut self.workers[w];
        let loader = &mut self.loaders[worker.loader];
        let Some(decoded) = &mut loader.caches.decoded else {
            broken("only loaders with a cache of decoded samples look there");
            return false;
        };
        let hit = env.storages.node_caches[decoded.cache].look_up(worker.location.file as u32);
        let epoch = loader.source.order.epoch() as usize;
        if decoded.requests.len() <= epoch {
            decoded.requests.resize(epoch + 1, CacheRequests::default());
        }
        let found = &mut decoded.requests[epoch];
        *(if hit { &mut found.hits } else { &mut found.misses }) += 1;
        worker.origin = if hit { Origin::Decoded } else { Origin::Storage };
        if hit {
            worker.item.bytes += worker.sample.size;
        }
        hit
    }

    /// Inserts the sample that worker `w` has read into the cache of decoded samples.
    #[cold]
    pub(super) fn keep_decoded(&mut self, env: &mut Env, w: WorkerId) {
        let worker = &self.workers[w];
        let Some(decoded) = &self.loaders[worker.loader].caches.decoded else {
            return broken("only loaders with a cache of decoded samples keep samples there");
        };
        let bytes = decoded.bytes;
        env.storages.node_caches[decoded.cache]
            .insert(worker.location.file as u32, bytes, |_| bytes);
    }
}
