//! Page caches: one for each node whose jobs read through it.

use forebay_engine::fluid::{Capacity, LinkId};
use forebay_model::cache::Cache;
use forebay_model::law::CachePolicy;
use forebay_model::random::{Purpose, Streams};
use forebay_report::{Part, Resource};
use forebay_scenario::{Dataset, Job, Layout, Scenario};

use super::Builder;
use crate::cached::{CacheUse, PageCache, Units};
use crate::ids::PageCacheId;
use crate::resource::Member;

/// The scenario's data sets, as caches and readers see them.
pub(super) struct DataSets {
    /// Division of each data set into units of a page cache, and the total number of units.
    pub(super) units: (Vec<Units>, u32),
    /// Division of each data set into units of a cache of whole files, and the total number of units.
    pub(super) files: (Vec<Units>, u32),
    /// Mean bytes of a request, for each data set; computed once, because a table of sizes is long.
    pub(super) requests: Vec<f64>,
}

impl DataSets {
    pub(super) fn new(scenario: &Scenario) -> DataSets {
        let (datasets, cached) = (&scenario.datasets, scenario.cached_datasets());
        DataSets {
            units: units(datasets, &cached, Units::new),
            files: units(datasets, &cached, Units::whole),
            requests: datasets.iter().map(Dataset::mean_request).collect(),
        }
    }

    /// Returns the division of each data set into units of a cache, and the total number of units; units are `whole` files, or
    /// units of a page cache.
    pub(super) fn division(&self, whole: bool) -> &(Vec<Units>, u32) {
        if whole { &self.files } else { &self.units }
    }
}

/// Divides each data set that is `cached` into cache units with `cut`, and numbers the units of all data sets consecutively. A data
/// set that is not cached has no units. Returns the units of each data set and the total number of units.
fn units(
    datasets: &[Dataset],
    cached: &[bool],
    cut: fn(&Dataset, u64) -> (Units, u64),
) -> (Vec<Units>, u32) {
    let mut all = 0;
    let units = datasets.iter().zip(cached).map(|(dataset, cached)| {
        let (units, number) = cut(dataset, all);
        all = u64::saturating_add(all, if *cached { number } else { 0 });
        units
    });
    (units.collect(), u32::try_from(all).unwrap_or(u32::MAX))
}

impl Builder<'_> {
    /// Returns how the loader of `job` uses the page cache of the node being built; `None` if the node has no page cache, or none
    /// of the job's reads go through it.
    pub(super) fn cached(&mut self, job: &Job) -> Option<Box<CacheUse>> {
        if !self.scenario.keeps_pages(job, self.here()) {
            return None;
        }
        let known = self.on_nodes.get(&self.node).and_then(|node| node.cache);
        let cache = known.or_else(|| self.page_cache(job))?;
        self.on_nodes.entry(self.node).or_default().cache = Some(cache);
        let units = self.data.units.0[job.dataset];
        Some(Box::new(CacheUse { cache, units, requests: Vec::new() }))
    }

    /// Adds a page cache to the node being built; `job` is the first to use it.
    fn page_cache(&mut self, job: &Job) -> Option<PageCacheId> {
        let described = self.here().page_cache.as_ref()?;
        let capacity = self.scenario.page_cache(job, self.here())?;
        let number = self.env.storages.caches.next_id().number();
        let policy = described.policy.unwrap_or(match self.scenario.datasets[job.dataset].layout {
            Layout::FilePerSample | Layout::OneFile { .. } => CachePolicy::Random,
            Layout::Shards { .. } | Layout::RowGroups(_) => CachePolicy::Lru,
        });
        let streams = Streams::new(self.scenario.run.seed, self.replication);
        let generator = streams.at(Purpose::Eviction, number.into(), 0, 0);
        let link = self.page_cache_link();
        let way = link.map(|link| self.group(&[link], f64::INFINITY));
        let kept = Cache::new(policy, capacity, self.data.units.1, generator);
        Some(self.env.storages.caches.push(PageCache { kept, way }))
    }

    /// Returns the link of the bytes that the page cache of the node being built serves; `None` if nothing limits their rate.
    pub(super) fn page_cache_link(&mut self) -> Option<LinkId> {
        let known = self.on_nodes.get(&self.node).and_then(|node| node.page_cache_link);
        let bandwidth = self.here().page_cache.as_ref()?.bandwidth;
        if known.is_some() || bandwidth.is_infinite() {
            return known;
        }
        let link = self.env.network.link(Capacity::Fixed(bandwidth));
        self.resource(Resource::node(Part::PageCache), "B/s", bandwidth, Member::Link(link));
        self.on_nodes.entry(self.node).or_default().page_cache_link = Some(link);
        Some(link)
    }
}
