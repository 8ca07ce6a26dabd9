//! The page cache of a node, as its loaders use it.

use forebay_engine::fluid::GroupId;
use forebay_model::cache::Cache;
use forebay_model::random::Streams;
use forebay_report::CacheRequests;
use forebay_scenario::{Dataset, Framing, Layout};

use super::env::Env;
use super::index::{DatasetId, IdVec, PageCacheId, WorkerId};
use super::loaders::Loaders;
use super::sizes::Sizes;
use super::tiers::Origin;

/// The page cache of a node.
#[derive(Debug)]
pub(super) struct PageCache {
    pub(super) kept: Cache,
    /// The way of what it holds; `None` where nothing limits it.
    pub(super) way: Option<GroupId>,
}

/// A loader's use of its node's page cache.
#[derive(Debug)]
pub(super) struct CacheUse {
    /// Which of the world's.
    pub(super) cache: PageCacheId,
    pub(super) units: Units,
    /// By epoch of the reading.
    pub(super) requests: Vec<CacheRequests>,
}

/// How a data set's files are cut into a cache's units, and where these begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Units {
    first: u32,
    /// Units of one file.
    per_file: u32,
    /// Bytes of one request, where these are not samples.
    request: Option<f64>,
    /// What surrounds a sample where they are.
    record: Framing,
    /// Samples of one unit, where these are whole files.
    samples: u64,
    /// Those of the data set.
    all: u64,
}

impl Units {
    /// The units of a data set behind `first` others; and how many there are.
    pub(super) fn new(dataset: &Dataset, first: u64) -> (Units, u64) {
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

    /// The same, where each file is a unit.
    pub(super) fn whole(dataset: &Dataset, first: u64) -> (Units, u64) {
        let (record, all) = (dataset.layout.record(), dataset.samples);
        let samples = dataset.samples_per_file();
        let first = first as u32;
        let units = Units { first, per_file: 1, request: None, record, samples, all };
        (units, dataset.files())
    }

    /// The unit that request number `request` of a file is for, of a size of its own.
    pub(super) fn of(self, file: u64, request: u32) -> u32 {
        self.first + file as u32 * self.per_file + request.min(self.per_file - 1)
    }

    /// Bytes of a unit.
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

/// Bytes of a unit of any of the data sets, which lie one behind the other.
pub(super) fn bytes_of(
    all: &[Units],
    sizes: &mut IdVec<Sizes>,
    streams: &Streams,
    unit: u32,
) -> f64 {
    let dataset = all.partition_point(|units| units.first <= unit) - 1;
    all[dataset].bytes(unit, &mut sizes[DatasetId::new(dataset as u32)], streams)
}

impl Loaders {
    /// Whether what worker `w` asks for in `epoch` is in the page cache that its loader has.
    pub(super) fn look_up(&mut self, env: &mut Env, w: WorkerId, epoch: u64) -> bool {
        let worker = &mut self.workers[w];
        let loader = &mut self.loaders[worker.loader];
        let Some(used) = &mut loader.cached else { return false };
        let hit = env.storages.caches[used.cache].kept.look_up(worker.unit);
        worker.origin = if hit { Origin::PageCache } else { Origin::Storage };
        let epoch = epoch as usize;
        if used.requests.len() <= epoch {
            used.requests.resize(epoch + 1, CacheRequests::default());
        }
        let found = &mut used.requests[epoch];
        *(if hit { &mut found.hits } else { &mut found.misses }) += 1;
        hit
    }

    /// The bytes of a request of worker `w` have come, and stay in the page cache.
    pub(super) fn keep(&mut self, env: &mut Env, w: WorkerId) {
        let worker = &self.workers[w];
        let unit = worker.unit;
        if worker.origin == Origin::PageCache {
            return;
        }
        let Some(used) = &self.loaders[worker.loader].cached else { return };
        let (all, sizes, streams) = (&env.storages.units, &mut env.storages.sizes, &env.streams);
        let mut bytes_of = |unit: u32| bytes_of(all, sizes, streams, unit);
        let bytes = bytes_of(unit);
        env.storages.caches[used.cache].kept.insert(unit, bytes, bytes_of);
    }

    /// The way of what worker `w` finds in the page cache.
    #[cold]
    pub(super) fn way_in_cache(&self, env: &Env, w: WorkerId) -> Option<GroupId> {
        let loader = &self.loaders[self.workers[w].loader];
        let used = loader.cached.as_ref()?;
        env.storages.caches[used.cache].way
    }
}
