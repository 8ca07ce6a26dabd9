//! Caches in which loaders look before they read from a storage: a node's page cache, tiers (each node's own storage, and data
//! that other nodes hold), and caches of decoded samples.

use forebay_engine::fluid::GroupId;
use forebay_model::cache::Cache;
use forebay_model::random::Streams;
use forebay_report::{CacheRequests, LocalReads, TierRequests};
use forebay_scenario::{Dataset, Framing, Layout, Replicas};

use super::Storages;
use super::mount::Mount;
use super::sizes::Sizes;
use crate::ids::{CacheId, DatasetId, HoldersId, IdVec, PageCacheId, UnitId};

/// The page cache of a node.
#[derive(Debug)]
pub(crate) struct PageCache {
    pub(crate) kept: Cache,
    /// Route of the bytes that the page cache serves; `None` if nothing limits their rate.
    pub(crate) way: Option<GroupId>,
}

/// A loader's use of its node's page cache.
#[derive(Debug)]
pub(crate) struct CacheUse {
    /// Id of the page cache in the world's table.
    pub(crate) cache: PageCacheId,
    pub(crate) units: Units,
    /// Hits and misses in each pass (epoch) over the data set.
    pub(crate) requests: Vec<CacheRequests>,
}

/// The division of a data set's files into units of a cache, and the number of the first unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Units {
    first: u32,
    /// Number of units for each file.
    per_file: u32,
    /// Bytes of a unit, if units are requests instead of samples or files [B].
    request: Option<f64>,
    /// Framing around each sample, if units are samples or files.
    record: Framing,
    /// Samples in one unit: 1, or all samples of a file if units are whole files.
    samples: u64,
    /// Number of samples in the data set.
    all: u64,
}

impl Units {
    /// Returns the units of a data set whose first unit has number `first`, and the number of its units.
    pub(crate) fn new(dataset: &Dataset, first: u64) -> (Units, u64) {
        let request = match dataset.layout {
            Layout::FilePerSample | Layout::OneFile { .. } => None,
            Layout::Shards { request, .. } => Some(request),
            Layout::RowGroups(_) => Some(dataset.mean_request()),
        };
        let (record, all) = (dataset.layout.record(), dataset.samples);
        let per_file = dataset.units_per_place();
        let (first, per) = (first as u32, per_file as u32);
        let units = Units { first, per_file: per, request, record, samples: 1, all };
        (units, dataset.places().saturating_mul(per_file))
    }

    /// Returns the units of a data set if each file is one unit, and the number of its units; its first unit has number
    /// `first`.
    pub(crate) fn whole(dataset: &Dataset, first: u64) -> (Units, u64) {
        let (record, all) = (dataset.layout.record(), dataset.samples);
        let samples = dataset.samples_per_file();
        let first = first as u32;
        let units = Units { first, per_file: 1, request: None, record, samples, all };
        (units, dataset.files())
    }

    /// Returns the unit of request number `request` of `file`. Requests beyond the file's last unit count as that last unit.
    pub(crate) fn of(self, file: u64, request: u32) -> u32 {
        self.first + file as u32 * self.per_file + request.min(self.per_file - 1)
    }

    /// Returns the bytes of a unit.
    fn bytes(self, unit: u32, sizes: &mut Sizes, streams: &Streams) -> f64 {
        if let Some(request) = self.request {
            return request;
        }
        let first = u64::from(unit - self.first).saturating_mul(self.samples);
        if self.samples == 1 {
            return self.record.around(sizes.of_sample(first, streams));
        }
        let end = first.saturating_add(self.samples).min(self.all);
        sizes.sum(0, 0, first..end, self.record, streams)
    }
}

/// Returns the bytes of the cache unit `unit`. Units are numbered across all data sets; `all` has the units of each one.
pub(crate) fn bytes_of(
    all: &[Units],
    sizes: &mut IdVec<DatasetId, Sizes>,
    streams: &Streams,
    unit: u32,
) -> f64 {
    let dataset = all.partition_point(|units| units.first <= unit) - 1;
    all[dataset].bytes(unit, &mut sizes[DatasetId::new(dataset as u32)], streams)
}

impl Storages {
    /// Inserts `unit` into a page cache.
    pub(crate) fn keep(&mut self, streams: &Streams, cache: PageCacheId, unit: u32) {
        let (all, sizes) = (&self.units, &mut self.sizes);
        let mut bytes_of = |unit: u32| bytes_of(all, sizes, streams, unit);
        let bytes = bytes_of(unit);
        self.caches[cache].kept.insert(unit, bytes, bytes_of);
    }
}

/// The source of the bytes of a worker's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Origin {
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
    pub(crate) fn is_storage(self) -> bool {
        matches!(self, Origin::Storage | Origin::Filling)
    }
}

/// A loader's use of tiers.
#[derive(Debug)]
pub(crate) struct Tiers {
    /// Rank of the loader's node within its job.
    pub(crate) rank: u32,
    /// For each node of the job, the mount of its tier, if nodes read from each other; `None` for the loader's own node.
    pub(crate) peers: Vec<Option<Mount>>,
    /// The node's cache on a tier; `None` if each node holds a fixed part of the data set instead.
    pub(crate) cache: Option<CacheWays>,
    /// The assignment of files to nodes, if each node holds a fixed part of the data set.
    pub(crate) parts: Replicas,
    /// Bytes read from the own node and from peers, if each node holds a fixed part of the data set.
    pub(crate) read: LocalReads,
    /// Hits, peer reads and misses in each pass (epoch) over the data set.
    pub(crate) requests: Vec<TierRequests>,
}

/// How a loader uses the cache of its node.
#[derive(Debug)]
pub(crate) struct CacheWays {
    /// Id of the cache in the world's table.
    pub(crate) cache: CacheId,
    /// Ids of the caches of all the job's nodes if nodes read from each other; otherwise only the id of this node's cache.
    pub(crate) of_nodes: Vec<CacheId>,
    /// Id of the list that records which node keeps each unit, if nodes read from each other.
    pub(crate) holders: Option<HoldersId>,
    pub(crate) units: Units,
    /// Whether cache units are whole files; otherwise files are cut into units as for page caches.
    pub(crate) whole: bool,
    /// Mount for reading from the tier.
    pub(crate) tier: Mount,
    /// Mount for reading from the storage and writing to the tier.
    pub(crate) filling: Mount,
}

/// For each unit of a cache, the rank of the node that keeps the unit, plus 1; 0 if no node keeps it.
pub(crate) type Holders = IdVec<UnitId, u32>;

/// The place where a request finds its bytes: the source, and the route or node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) origin: Origin,
    pub(crate) way: u32,
}

impl Tiers {
    /// Returns the mount for bytes from `origin`; `None` if they come from the storage alone, the page cache, or the cache of
    /// decoded samples.
    #[cold]
    pub(crate) fn mount(&self, origin: Origin, way: u32) -> Option<&Mount> {
        match origin {
            Origin::Tier => Some(&self.cache.as_ref()?.tier),
            Origin::Filling => Some(&self.cache.as_ref()?.filling),
            Origin::Peer => self.peers.get(way as usize)?.as_ref(),
            Origin::Storage | Origin::PageCache | Origin::Decoded => None,
        }
    }

    /// Returns the node whose fixed part of the data set holds `file`, and counts `bytes` bytes as read from this node or from a
    /// peer.
    pub(crate) fn part_with(&mut self, file: u64, bytes: f64) -> Found {
        let way = self.parts.source(self.rank.into(), file) as u32;
        let own = way == self.rank;
        *(if own { &mut self.read.own } else { &mut self.read.peers }) += bytes;
        Found { origin: if own { Origin::Storage } else { Origin::Peer }, way }
    }

    pub(crate) fn count(&mut self, epoch: usize, origin: Origin) {
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
    pub(crate) fn bring(
        &self,
        (storages, streams): (&mut Storages, &Streams),
        rank: u32,
        (file, number): (u64, u32),
    ) {
        let unit = self.unit(file, number);
        // Whether the unit fits is tested when it is inserted.
        let found = self.look_up(&mut storages.node_caches, &storages.holders, unit, 0.0);
        if found.origin.is_storage() {
            self.insert((storages, streams), rank, unit);
        }
    }

    /// Inserts `unit` into the cache of the node with rank `rank`.
    pub(crate) fn insert(
        &self,
        (storages, streams): (&mut Storages, &Streams),
        rank: u32,
        unit: u32,
    ) {
        let all = if self.whole { &storages.files } else { &storages.units };
        let sizes = &mut storages.sizes;
        let mut bytes = |unit: u32| bytes_of(all, sizes, streams, unit);
        let size = bytes(unit);
        storages.node_caches[self.cache].insert(unit, size, bytes);
        if let Some(holders) = self.holders {
            storages.holders[holders][UnitId::new(unit)] = rank + 1;
        }
    }

    /// Returns the unit of request number `number` of `file`.
    pub(crate) fn unit(&self, file: u64, number: u32) -> u32 {
        self.units.of(file, if self.whole { 0 } else { number })
    }

    /// Returns the source of `unit`, which has `bytes` bytes: this node's cache, the cache of another node, or the storage.
    pub(crate) fn look_up(
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

/// A loader's use of its node's cache of decoded samples.
#[derive(Debug)]
pub(crate) struct Decoded {
    /// Id of the cache in the world's table of node caches.
    pub(crate) cache: CacheId,
    /// Bytes of a decoded sample [B].
    pub(crate) bytes: f64,
    /// Hits and misses in each pass (epoch) over the data set.
    pub(crate) requests: Vec<CacheRequests>,
}
