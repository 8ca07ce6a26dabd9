//! Tiers in which nodes look for data before they read from the storage: each node's cache, and data that other nodes hold.

use forebay_model::cache::Cache;
use forebay_report::{LocalReads, TierRequests};
use forebay_scenario::Replicas;

use super::cached::{Units, bytes_of};
use super::env::Env;
use super::ids::{CacheId, HoldersId, IdVec, UnitId, WorkerId};
use super::invariant::broken;
use super::loaders::Loaders;
use super::read::Mount;

/// The source of the bytes of a worker's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Origin {
    /// The bytes come from the storage that the loader reads.
    #[default]
    Storage,
    /// The bytes come from the node's page cache.
    PageCache,
    /// The bytes come from the node's cache on a tier.
    Tier,
    /// The bytes come from the tier of another node; the worker's `way` is the rank of that node.
    Peer,
    /// The bytes come from the storage, and are also written to the node's cache.
    Filling,
    /// No bytes are read: the sample is in the cache of decoded samples.
    Decoded,
}

impl Origin {
    /// Returns whether the bytes come from the storage, whether or not they are also written to a cache.
    pub(super) fn is_storage(self) -> bool {
        matches!(self, Origin::Storage | Origin::Filling)
    }
}

/// A loader's use of tiers.
#[derive(Debug)]
pub(super) struct Tiers {
    /// Rank of the loader's node within its job.
    pub(super) rank: u32,
    /// For each node of the job, the mount of its tier, if nodes read from each other; `None` for the loader's own node.
    pub(super) peers: Vec<Option<Mount>>,
    /// The node's cache on a tier; `None` if each node holds a fixed part of the data set instead.
    pub(super) cache: Option<CacheWays>,
    /// The assignment of files to nodes, if each node holds a fixed part of the data set.
    pub(super) parts: Replicas,
    /// Bytes read from the own node and from peers, if each node holds a fixed part of the data set.
    pub(super) read: LocalReads,
    /// Hits, peer reads and misses in each pass (epoch) over the data set.
    pub(super) requests: Vec<TierRequests>,
}

/// How a loader uses the cache of its node.
#[derive(Debug)]
pub(super) struct CacheWays {
    /// Id of the cache in the world's table.
    pub(super) cache: CacheId,
    /// Ids of the caches of all the job's nodes if nodes read from each other; otherwise only the id of this node's cache.
    pub(super) of_nodes: Vec<CacheId>,
    /// Id of the list that records which node keeps each unit, if nodes read from each other.
    pub(super) holders: Option<HoldersId>,
    pub(super) units: Units,
    /// Whether cache units are whole files; otherwise files are cut into units as for page caches.
    pub(super) whole: bool,
    /// Mount for reading from the tier.
    pub(super) tier: Mount,
    /// Mount for reading from the storage and writing to the tier.
    pub(super) filling: Mount,
}

/// For each unit of a cache, the rank of the node that keeps the unit, plus 1; 0 if no node keeps it.
pub(super) type Holders = IdVec<UnitId, u32>;

/// The place where a request finds its bytes: the source, and the route or node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    origin: Origin,
    way: u32,
}

impl Loaders {
    /// Returns the mount of the storage or tier that the request of worker `w` goes to.
    #[inline]
    pub(super) fn mount_of(&self, w: WorkerId) -> &Mount {
        let worker = &self.workers[w];
        let loader = &self.loaders[worker.loader];
        match worker.origin {
            Origin::Storage | Origin::PageCache => &loader.mount,
            origin => {
                let tiers = loader.caches.tiers.as_ref();
                tiers
                    .and_then(|tiers| tiers.mount(origin, worker.location.way))
                    .unwrap_or(&loader.mount)
            }
        }
    }

    /// Determines the source of the file that worker `w` requests.
    #[cold]
    pub(super) fn find_file(&mut self, env: &mut Env, w: WorkerId) {
        let worker = &self.workers[w];
        let (file, bytes) = (worker.location.file, worker.request);
        let epoch = self.loaders[worker.loader].source.order.epoch();
        let found = self.find(env, w, epoch, file, 0, bytes);
        self.take_from(w, found);
    }

    /// Determines the source of request number `number` of the shard that worker `w` reads. If nodes keep whole shards, only
    /// the first request of a shard is looked up; later requests have the same source, and a first request that misses brings
    /// the whole shard.
    #[cold]
    pub(super) fn find_request(&mut self, env: &mut Env, w: WorkerId, number: u32) {
        let shard = &self.shards[w];
        let (file, epoch, unread) = (shard.file, shard.epoch, shard.unread);
        let worker = &self.workers[w];
        let (request, loader) = (worker.request, &self.loaders[worker.loader]);
        let cache = loader.caches.tiers.as_ref().and_then(|tiers| tiers.cache.as_ref());
        let whole = cache.is_none_or(|cache| cache.whole);
        let kept = cache.filter(|cache| cache.whole).map(|cache| cache.unit(file, 0));
        let found = match shard.found.filter(|_| whole) {
            Some(found) => found,
            None => {
                let (files, sizes, streams) =
                    (&env.storages.files, &mut env.storages.sizes, &env.streams);
                let all = |unit| bytes_of(files, sizes, streams, unit).max(unread);
                // The whole file is fetched, whatever part of it the page cache holds.
                let bytes = kept.map_or(request, all);
                let found = self.find(env, w, epoch, file, number, bytes);
                if found.origin == Origin::Filling {
                    self.workers[w].request = bytes;
                }
                found
            }
        };
        self.shards[w].found = Some(found);
        self.take_from(w, found);
    }

    fn take_from(&mut self, w: WorkerId, found: Found) {
        let worker = &mut self.workers[w];
        (worker.origin, worker.location.way) = (found.origin, found.way);
    }

    /// Returns the source of request number `number` of `file`, which asks for `bytes` bytes, and counts the request as hit,
    /// peer read or miss.
    fn find(
        &mut self,
        env: &mut Env,
        w: WorkerId,
        epoch: u64,
        file: u64,
        number: u32,
        bytes: f64,
    ) -> Found {
        let loader = &mut self.loaders[self.workers[w].loader];
        let Some(tiers) = &mut loader.caches.tiers else {
            return Found { origin: Origin::Storage, way: 0 };
        };
        let found = match &tiers.cache {
            None => tiers.part_with(file, bytes),
            Some(ways) => ways.look_up(
                &mut env.storages.node_caches,
                &env.storages.holders,
                ways.unit(file, number),
                bytes,
            ),
        };
        tiers.count(epoch as usize, found.origin);
        found
    }

    /// Inserts the data that worker `w` has read into its node's cache on a tier, if the data were missing there.
    #[cold]
    pub(super) fn fill(&mut self, env: &mut Env, w: WorkerId) {
        let worker = &self.workers[w];
        if worker.origin != Origin::Filling {
            return;
        }
        let loader = &self.loaders[worker.loader];
        let Some(tiers) = &loader.caches.tiers else {
            return broken("a read that fills a cache has one");
        };
        let Some(ways) = &tiers.cache else {
            return broken("a read that fills a cache has one");
        };
        let shard = &self.shards[w];
        let unit = match shard.requests.checked_sub(1) {
            None => ways.unit(worker.location.file, 0),
            Some(number) => ways.unit(shard.file, number),
        };
        ways.insert(env, tiers.rank, unit);
    }
}

impl Tiers {
    /// Returns the mount for bytes from `origin`; `None` if they come from the storage alone, the page cache, or the cache of
    /// decoded samples.
    #[cold]
    fn mount(&self, origin: Origin, way: u32) -> Option<&Mount> {
        match origin {
            Origin::Tier => Some(&self.cache.as_ref()?.tier),
            Origin::Filling => Some(&self.cache.as_ref()?.filling),
            Origin::Peer => self.peers.get(way as usize)?.as_ref(),
            Origin::Storage | Origin::PageCache | Origin::Decoded => None,
        }
    }

    /// Returns the node that serves `bytes` bytes of `file`, in a job in which each node holds a fixed part of the data set;
    /// counts the bytes.
    fn part_with(&mut self, file: u64, bytes: f64) -> Found {
        let way = self.parts.source(self.rank.into(), file) as u32;
        let own = way == self.rank;
        *(if own { &mut self.read.own } else { &mut self.read.peers }) += bytes;
        Found { origin: if own { Origin::Storage } else { Origin::Peer }, way }
    }

    fn count(&mut self, epoch: usize, origin: Origin) {
        if self.requests.len() <= epoch {
            self.requests.resize(epoch + 1, TierRequests::default());
        }
        let counts = &mut self.requests[epoch];
        let misses = self.cache.is_some() && origin.is_storage();
        *match origin {
            _ if misses => &mut counts.misses,
            Origin::Peer => &mut counts.peers,
            _ => &mut counts.hits,
        } += 1;
    }
}

impl CacheWays {
    /// Does to the cache what a read of unit number `number` of `file` does, on the node with rank `rank`.
    pub(super) fn bring(&self, env: &mut Env, rank: u32, file: u64, number: u32) {
        let unit = self.unit(file, number);
        // Whether the unit fits is tested when it is inserted.
        let found = self.look_up(&mut env.storages.node_caches, &env.storages.holders, unit, 0.0);
        if found.origin.is_storage() {
            self.insert(env, rank, unit);
        }
    }

    /// Inserts `unit` into the cache of the node with rank `rank`.
    fn insert(&self, env: &mut Env, rank: u32, unit: u32) {
        let all = if self.whole { &env.storages.files } else { &env.storages.units };
        let (sizes, streams) = (&mut env.storages.sizes, &env.streams);
        let mut bytes = |unit: u32| bytes_of(all, sizes, streams, unit);
        let size = bytes(unit);
        env.storages.node_caches[self.cache].insert(unit, size, bytes);
        if let Some(holders) = self.holders {
            env.storages.holders[holders][UnitId::new(unit)] = rank + 1;
        }
    }

    /// Returns the unit of request number `number` of `file`.
    fn unit(&self, file: u64, number: u32) -> u32 {
        self.units.of(file, if self.whole { 0 } else { number })
    }

    /// Returns the source of `unit`, which has `bytes` bytes: this node's cache, the cache of another node, or the storage.
    fn look_up(
        &self,
        caches: &mut IdVec<CacheId, Cache>,
        holders: &IdVec<HoldersId, Holders>,
        unit: u32,
        bytes: f64,
    ) -> Found {
        let found = |origin, way| Found { origin, way };
        if caches[self.cache].look_up(unit) {
            return found(Origin::Tier, 0);
        }
        let holder = self.holders.map(|list| holders[list][UnitId::new(unit)]);
        if let Some(rank) = holder.and_then(|holder| holder.checked_sub(1))
            && let Some(other) = self.of_nodes.get(rank as usize).filter(|of| **of != self.cache)
            && caches[*other].look_up(unit)
        {
            return found(Origin::Peer, rank);
        }
        let takes = caches[self.cache].takes(bytes);
        found(if takes { Origin::Filling } else { Origin::Storage }, 0)
    }
}
