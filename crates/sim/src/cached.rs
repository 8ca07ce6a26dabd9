//! The page cache of a node, as its loaders use it.

use forebay_engine::fluid::GroupId;
use forebay_model::cache::Cache;
use forebay_model::random::Streams;
use forebay_report::CacheRequests;
use forebay_scenario::{Dataset, Framing, Layout};

use super::env::Env;
use super::ids::{DatasetId, IdVec, PageCacheId, WorkerId};
use super::invariant::broken;
use super::loaders::Loaders;
use super::sizes::Sizes;
use super::tiers::Origin;

/// The page cache of a node.
#[derive(Debug)]
pub(super) struct PageCache {
    pub(super) kept: Cache,
    /// Route of the bytes that the page cache serves; `None` if nothing limits their rate.
    pub(super) way: Option<GroupId>,
}

/// A loader's use of its node's page cache.
#[derive(Debug)]
pub(super) struct CacheUse {
    /// Id of the page cache in the world's table.
    pub(super) cache: PageCacheId,
    pub(super) units: Units,
    /// Hits and misses in each pass (epoch) over the data set.
    pub(super) requests: Vec<CacheRequests>,
}

/// The division of a data set's files into units of a cache, and the number of the first unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Units {
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

    /// Returns the units of a data set if each file is one unit, and the number of its units; its first unit has number
    /// `first`.
    pub(super) fn whole(dataset: &Dataset, first: u64) -> (Units, u64) {
        let (record, all) = (dataset.layout.record(), dataset.samples);
        let samples = dataset.samples_per_file();
        let first = first as u32;
        let units = Units { first, per_file: 1, request: None, record, samples, all };
        (units, dataset.files())
    }

    /// Returns the unit of request number `request` of `file`. Requests beyond the file's last unit count as that last unit.
    pub(super) fn of(self, file: u64, request: u32) -> u32 {
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

/// Returns the bytes of `unit`; `all` holds the units of each data set, numbered through all data sets.
pub(super) fn bytes_of(
    all: &[Units],
    sizes: &mut IdVec<DatasetId, Sizes>,
    streams: &Streams,
    unit: u32,
) -> f64 {
    let dataset = all.partition_point(|units| units.first <= unit) - 1;
    all[dataset].bytes(unit, &mut sizes[DatasetId::new(dataset as u32)], streams)
}

/// Inserts `unit` into a page cache.
pub(super) fn insert(env: &mut Env, cache: PageCacheId, unit: u32) {
    let (all, sizes, streams) = (&env.storages.units, &mut env.storages.sizes, &env.streams);
    let mut bytes_of = |unit: u32| bytes_of(all, sizes, streams, unit);
    let bytes = bytes_of(unit);
    env.storages.caches[cache].kept.insert(unit, bytes, bytes_of);
}

impl Loaders {
    /// Looks up the data that worker `w` requests in `epoch` in the loader's page cache; counts the hit or miss, and returns true
    /// for a hit.
    pub(super) fn look_up(&mut self, env: &mut Env, w: WorkerId, epoch: u64) -> bool {
        let worker = &mut self.workers[w];
        let loader = &mut self.loaders[worker.loader];
        let Some(used) = &mut loader.caches.page_cache else {
            broken("only loaders behind a page cache look there");
            return false;
        };
        let hit = env.storages.caches[used.cache].kept.look_up(worker.location.unit);
        worker.origin = if hit { Origin::PageCache } else { Origin::Storage };
        let epoch = epoch as usize;
        if used.requests.len() <= epoch {
            used.requests.resize(epoch + 1, CacheRequests::default());
        }
        let found = &mut used.requests[epoch];
        *(if hit { &mut found.hits } else { &mut found.misses }) += 1;
        hit
    }

    /// Inserts the unit that worker `w` has read into the page cache.
    pub(super) fn keep(&mut self, env: &mut Env, w: WorkerId) {
        let worker = &self.workers[w];
        let unit = worker.location.unit;
        if worker.origin == Origin::PageCache {
            return;
        }
        let Some(used) = &self.loaders[worker.loader].caches.page_cache else {
            return broken("only loaders behind a page cache keep data there");
        };
        insert(env, used.cache, unit);
    }

    /// Returns the route of the bytes that worker `w` reads from the page cache.
    #[cold]
    pub(super) fn way_in_cache(&self, env: &Env, w: WorkerId) -> Option<GroupId> {
        let loader = &self.loaders[self.workers[w].loader];
        let used = loader.caches.page_cache.as_ref()?;
        env.storages.caches[used.cache].way
    }
}
