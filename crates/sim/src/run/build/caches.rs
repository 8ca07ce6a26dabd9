//! Page caches: one for each node whose jobs read through it.

use std::collections::BTreeMap;

use forebay_engine::fluid::{Capacity, LinkId, Use};
use forebay_model::cache::Cache;
use forebay_model::law::CachePolicy;
use forebay_model::random::{Purpose, Streams};
use forebay_report::{Direction, LocalReads, Part, Resource};
use forebay_scenario::{CacheUnit, Dataset, Job, Layout, ReadCpu, Replicas, Scenario, TierCache};

use super::Builder;
use super::cores::OnCores;
use super::job::JobCopy;
use super::mount::{StorageModel, whole};
use super::sync::LinkPlace;
use crate::ids::{CacheId, HoldersId, PageCacheId};
use crate::run::resource::Member;
use crate::storage::{CacheUse, CacheWays, Decoded, Holders, Mount, PageCache, Tiers, Units};

/// The scenario's data sets, as caches and readers see them.
pub(in crate::run) struct DataSets {
    /// Division of each data set into units of a page cache, and the total number of units.
    pub(in crate::run) units: (Vec<Units>, u32),
    /// Division of each data set into units of a cache of whole files, and the total number of units.
    pub(in crate::run) files: (Vec<Units>, u32),
    /// Mean bytes of a request, for each data set; computed once, because a table of sizes is long.
    pub(in crate::run) requests: Vec<f64>,
    /// Lists that record the node that keeps each unit, by storage and by first node of the job copy.
    lists: BTreeMap<(usize, u32), HoldersId>,
}

impl DataSets {
    pub(in crate::run) fn new(scenario: &Scenario) -> DataSets {
        let (datasets, cached) = (&scenario.datasets, scenario.cached_datasets());
        DataSets {
            units: units(datasets, &cached, Units::new),
            files: units(datasets, &cached, Units::whole),
            requests: datasets.iter().map(Dataset::mean_request).collect(),
            lists: BTreeMap::new(),
        }
    }

    /// Returns the division of each data set into units of a cache, and the total number of units; units are `whole` files, or
    /// units of a page cache.
    pub(in crate::run) fn division(&self, whole: bool) -> &(Vec<Units>, u32) {
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
    pub(in crate::run) fn cached(&mut self, job: &Job) -> Option<Box<CacheUse>> {
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
        let number = self.parts.loaders.storages.caches.next_id().number();
        let policy = described.policy.unwrap_or(match self.scenario.datasets[job.dataset].layout {
            Layout::FilePerSample | Layout::OneFile { .. } => CachePolicy::Random,
            Layout::Shards { .. } | Layout::RowGroups(_) => CachePolicy::Lru,
        });
        let streams = Streams::new(self.scenario.run.seed, self.replication);
        let generator = streams.at(Purpose::Eviction, number.into(), 0, 0);
        let link = self.page_cache_link();
        let way = link.map(|link| self.group(&[link], f64::INFINITY));
        let kept = Cache::new(policy, capacity, self.data.units.1, generator);
        Some(self.parts.loaders.storages.caches.push(PageCache { kept, way }))
    }

    /// Returns the link of the bytes that the page cache of the node being built serves; `None` if nothing limits their rate.
    pub(in crate::run) fn page_cache_link(&mut self) -> Option<LinkId> {
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

impl Builder<'_> {
    /// Returns the tiers that a loader of `job` uses on the node being built, with threads on `cores`; the node is number
    /// `rank` of the job copy. Returns `None` if the loader uses no tier.
    pub(in crate::run) fn tiers(
        &mut self,
        job: &Job,
        rank: u32,
        cores: &OnCores,
    ) -> Option<Box<Tiers>> {
        let storage = job.reads_from();
        let cache = self.scenario.storage[storage].cache;
        if cache.is_none() && !job.reads_parts() {
            return None;
        }
        let first = self.node - rank;
        let asks = job.nodes > 1 && cache.is_none_or(|cache| cache.peers);
        let of_nodes = cache.map_or(storage, |cache| cache.on);
        let peers = (0..if asks { job.nodes } else { 0 })
            .map(|other| (other != rank).then(|| self.peer(of_nodes, first + other)))
            .collect();
        let cache = cache.map(|cache| {
            let nodes = if asks { first..first + job.nodes } else { self.node..self.node + 1 };
            self.cache_ways(job, cache, nodes, cores)
        });
        let parts = job.parts().unwrap_or(Replicas::EVERYWHERE);
        let read = LocalReads::default();
        Some(Box::new(Tiers { rank, peers, cache, parts, read, requests: Vec::new() }))
    }

    /// Returns how a loader of `job` uses the `cache` of its node, and also the caches of the other `nodes` if there are several.
    fn cache_ways(
        &mut self,
        job: &Job,
        cache: TierCache,
        nodes: std::ops::Range<u32>,
        cores: &OnCores,
    ) -> CacheWays {
        let model = StorageModel::new(&self.scenario.storage[cache.on].path);
        let write = self.disk(cache.on, &model).write;
        let is_whole = cache.unit == CacheUnit::File;
        let request = self.data.requests[job.dataset];
        let several = nodes.len() > 1;
        let units = self.data.division(is_whole);
        CacheWays {
            units: units.0[job.dataset],
            whole: is_whole,
            holders: several.then(|| self.holders(job.reads_from(), nodes.start)),
            cache: self.node_cache(job.reads_from(), cache),
            of_nodes: nodes
                .map(|node| self.at_node(node, |on| on.node_cache(job.reads_from(), cache)))
                .collect(),
            tier: self.loader_mount(cache.on, request, None, cores),
            filling: self
                .loader_mount(job.reads_from(), request, write, cores)
                .after(self.files_before(job.dataset)),
        }
    }

    /// Returns how a loader of a job copy uses the cache of decoded samples on the node being built, if there is one.
    pub(in crate::run) fn decoded(&mut self, copy: &JobCopy) -> Option<Box<Decoded>> {
        let described = copy.job.decoded_cache?;
        let dataset = &self.scenario.datasets[copy.job.dataset];
        let samples = u32::try_from(dataset.samples).unwrap_or(u32::MAX);
        let known = self.on_nodes.get(&self.node).and_then(|on| on.decoded.get(&copy.number));
        let cache = match known {
            Some(known) => *known,
            None => self.new_cache(described.policy, described.capacity, samples),
        };
        self.on_nodes.entry(self.node).or_default().decoded.insert(copy.number, cache);
        let bytes = dataset.decoded_size.unwrap_or_else(|| dataset.mean_size());
        Some(Box::new(Decoded { cache, bytes, requests: Vec::new() }))
    }

    /// Returns the cache on the node being built for data of storage `index`; adds the cache at the first call.
    fn node_cache(&mut self, index: usize, described: TierCache) -> CacheId {
        let known = self.on_nodes.get(&self.node).and_then(|node| node.node_caches.get(&index));
        if let Some(known) = known {
            return *known;
        }
        let whole = described.unit == CacheUnit::File;
        let units = self.data.division(whole).1;
        let number = self.new_cache(described.policy, described.capacity, units);
        self.on_nodes.entry(self.node).or_default().node_caches.insert(index, number);
        number
    }

    /// Adds a cache for `units` units.
    fn new_cache(&mut self, policy: CachePolicy, capacity: f64, units: u32) -> CacheId {
        let number = self.parts.loaders.storages.node_caches.next_id().number();
        let streams = Streams::new(self.scenario.run.seed, self.replication);
        let generator = streams.at(Purpose::TierEviction, number.into(), 0, 0);
        self.parts.loaders.storages.node_caches.push(Cache::new(policy, capacity, units, generator))
    }

    /// Returns the list that records which node keeps each unit of storage `index`, for the job copy whose nodes begin at
    /// `first`; adds the list at the first call.
    fn holders(&mut self, index: usize, first: u32) -> HoldersId {
        let number = self.parts.loaders.storages.holders.next_id();
        let known = *self.data.lists.entry((index, first)).or_insert(number);
        if known == number {
            let whole = self.scenario.storage[index].cache.map(|cache| cache.unit);
            let whole = whole == Some(CacheUnit::File);
            let units = self.data.division(whole).1;
            self.parts.loaders.storages.holders.push(Holders::filled(0, units));
        }
        known
    }

    /// Returns the links between the racks of two nodes, if storage data pass over them.
    fn between_racks(&mut self, from: u32, to: u32) -> Vec<LinkId> {
        let cluster = &self.scenario.cluster;
        let Some(racks) = cluster.racks.filter(|_| cluster.storage_nic.is_none()) else {
            return Vec::new();
        };
        let (from, to) = (from / racks.nodes, to / racks.nodes);
        if from == to || !racks.uplink.is_finite() {
            return Vec::new();
        }
        let place = |direction, of| LinkPlace { what: Resource::uplink(direction), index: 0, of };
        let ways = [place(Direction::Out, from), place(Direction::In, to)];
        ways.map(|way| self.link_at(way, racks.uplink)).into()
    }

    /// Returns the mount through which the node being built reads storage `index` of another `node`: over the NICs of both
    /// nodes.
    fn peer(&mut self, index: usize, node: u32) -> Mount {
        let mut model = StorageModel::new(&self.scenario.storage[index].path);
        let there = self.at_node(node, |on| on.disk(index, &model));
        let mut route: Vec<Use> = there.link.into_iter().map(whole).collect();
        let out = self.at_node(node, |on| on.data_nic(true));
        let between = self.between_racks(node, self.node);
        route.extend(out.into_iter().chain(between).chain(self.data_nic(false)).map(whole));
        model.remote = true;
        let limited = !route.is_empty() || model.per_stream.is_finite();
        Mount {
            routes: None,
            limiter: None,
            // A request that the NICs slow does not keep others from the disk.
            service: there.service.without_turns(),
            station: there.station,
            latency: self.latency(&model, 0.0),
            group: limited.then(|| self.way(route, model.per_stream)),
            cpu: ReadCpu::default(),
            alone: 0.0,
        }
    }

    /// Calls `build` as if `node` were the node being built, and returns its result.
    fn at_node<T>(&mut self, node: u32, build: impl FnOnce(&mut Self) -> T) -> T {
        let back = std::mem::replace(&mut self.node, node);
        let built = build(self);
        self.node = back;
        built
    }
}
