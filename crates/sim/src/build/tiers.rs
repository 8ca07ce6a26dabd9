//! Tiers of nodes, in which reads look for data before they go to the storage.

use forebay_engine::fluid::{LinkId, Use};
use forebay_model::cache::Cache;
use forebay_model::law::CachePolicy;
use forebay_model::random::{Purpose, Streams};
use forebay_report::{Direction, LocalReads, Resource};
use forebay_scenario::{CacheUnit, Job, ReadCpu, Replicas, TierCache};

use super::Builder;
use super::cores::OnCores;
use super::job::JobCopy;
use super::mount::whole;
use super::storage_model::StorageModel;
use super::sync::LinkPlace;
use crate::decoded::Decoded;
use crate::ids::{CacheId, HoldersId};
use crate::read::Mount;
use crate::tiers::{CacheWays, Holders, Tiers};

impl Builder<'_> {
    /// Returns the tiers that a loader of `job` uses on the node being built, with threads on `cores`; the node is number
    /// `rank` of the job copy. Returns `None` if the loader uses no tier.
    pub(super) fn tiers(&mut self, job: &Job, rank: u32, cores: &OnCores) -> Option<Box<Tiers>> {
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
    pub(super) fn decoded(&mut self, copy: &JobCopy) -> Option<Box<Decoded>> {
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
        let number = self.env.storages.node_caches.next_id().number();
        let streams = Streams::new(self.scenario.run.seed, self.replication);
        let generator = streams.at(Purpose::TierEviction, number.into(), 0, 0);
        self.env.storages.node_caches.push(Cache::new(policy, capacity, units, generator))
    }

    /// Returns the list that records which node keeps each unit of storage `index`, for the job copy whose nodes begin at
    /// `first`; adds the list at the first call.
    fn holders(&mut self, index: usize, first: u32) -> HoldersId {
        let number = self.env.storages.holders.next_id();
        let known = *self.lists.entry((index, first)).or_insert(number);
        if known == number {
            let whole = self.scenario.storage[index].cache.map(|cache| cache.unit);
            let whole = whole == Some(CacheUnit::File);
            let units = self.data.division(whole).1;
            self.env.storages.holders.push(Holders::filled(0, units));
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
            service: there.service,
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
