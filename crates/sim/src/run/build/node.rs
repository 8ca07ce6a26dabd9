//! The components of a node: NICs, routes between and to its GPUs, and what its loaders share.

use std::collections::{BTreeMap, BTreeSet};

use forebay_engine::Span;
use forebay_engine::fluid::{Capacity, GroupId, LinkId};
use forebay_model::law::Sharing;
use forebay_report::{Direction, IntraLink, Part, Resource};
use forebay_scenario::{Job, Kernels, Queues};

use super::Builder;
use super::mount::Backend;
use super::sync::LinkPlace;
use crate::device::{Gpu, GpuMemory, Occupied, Sort};
use crate::env::{Cores, Delay, Service, Station};
use crate::ids::{CacheId, GpuId, IdVec, JobId, PageCacheId, StationId, TokenBucketId};
use crate::run::resource::Member;

/// The components of a node that its loaders share.
#[derive(Debug, Default)]
pub(in crate::run) struct OnNode {
    /// How threads get the node's cores; and the link that models the cores, if threads share them.
    pub(in crate::run) cores: Option<(Cores, Option<LinkId>)>,
    pub(in crate::run) memory: Option<LinkId>,
    /// Station at which trainers take turns after their work for a step.
    pub(in crate::run) turns: Option<StationId>,
    /// Link of the CPU quota of each job copy that has one, and its token bucket if it has periods.
    pub(in crate::run) quotas: BTreeMap<JobId, (LinkId, Option<TokenBucketId>)>,
    /// GPUs of the node that the job copies built so far have taken, the current one included.
    gpus: Vec<Taken>,
    /// First GPU of the job copy being built, and number of GPUs on the node, after which GPU numbers wrap around to 0.
    own_gpus: (u64, u64),
    /// Links of the node's NIC: what comes in, and what goes out.
    nic: [Option<LinkId>; 2],
    /// Id of the node's page cache.
    pub(in crate::run) cache: Option<PageCacheId>,
    pub(in crate::run) page_cache_link: Option<LinkId>,
    /// Ids of the node's caches on tiers, by storage.
    pub(in crate::run) node_caches: BTreeMap<usize, CacheId>,
    /// Ids of the node's caches of decoded samples, by job copy.
    pub(in crate::run) decoded: BTreeMap<JobId, CacheId>,
    /// Components of the node's own storages (disks, memory), by storage.
    pub(in crate::run) disks: BTreeMap<usize, Backend>,
    /// Components that serve the files that the node's page cache holds from the start, by storage.
    pub(in crate::run) warm: BTreeMap<usize, Backend>,
    /// I/O queues of the node to a shared target, by storage.
    queues: BTreeMap<usize, NodeQueues>,
    /// Number of workers that read from storage, over the loaders built so far on the node.
    readers: u32,
}

/// The I/O queues of a node to one storage.
#[derive(Debug, Clone)]
pub(in crate::run) struct NodeQueues {
    /// For each queue, the station whose servers are its slots.
    pub(in crate::run) slots: Vec<StationId>,
    /// For each queue, its own link, if its bandwidth is limited.
    pub(in crate::run) links: Vec<Option<LinkId>>,
}

/// GPUs of a node that copies of a job have taken: `number` GPUs from `first` on; GPU numbers wrap around after the node's last
/// GPU.
#[derive(Debug, Clone, Copy)]
struct Taken {
    job: usize,
    first: u64,
    number: u64,
}

impl Taken {
    /// Returns the taken GPUs on a node of `all` GPUs, as at most two ranges (begin, end); the second range may be empty.
    fn spans(self, all: u64) -> [(u64, u64); 2] {
        let end = self.first + self.number;
        [(self.first, end.min(all)), (0, end.saturating_sub(all).min(all))]
    }
}

impl Builder<'_> {
    /// Returns the I/O queues of the node being built to storage `index`.
    pub(in crate::run) fn queues_of_node(&mut self, index: usize, of: Queues) -> NodeQueues {
        let known = self.on_nodes.get(&self.node).and_then(|node| node.queues.get(&index));
        if let Some(known) = known {
            return known.clone();
        }
        let [slots_of, queue_of] =
            [Part::QueueSlots, Part::Queue].map(|part| Resource::storage(index, part));
        let service = Delay { span: Span::ZERO, lane: None };
        let mut made = NodeQueues { slots: Vec::new(), links: Vec::new() };
        for _ in 0..of.number {
            let slots = self.station(Service::new(Station::new(of.depth), service));
            self.resource(slots_of, "slots", f64::from(of.depth), Member::Station(slots));
            let link = of.bandwidth.is_finite().then(|| {
                let link = self.env.network.link(Capacity::Fixed(of.bandwidth));
                self.resource(queue_of, "B/s", of.bandwidth, Member::Link(link));
                link
            });
            made.slots.push(slots);
            made.links.push(link);
        }
        self.on_nodes.entry(self.node).or_default().queues.insert(index, made.clone());
        made
    }

    /// Returns the number of reading workers in the loaders built before on this node; then adds the `readers` of the loader
    /// being built to this number.
    pub(in crate::run) fn readers_before(&mut self, readers: u32) -> u32 {
        let node = self.on_nodes.entry(self.node).or_default();
        let before = node.readers;
        node.readers = before.wrapping_add(readers);
        before
    }

    /// Returns the link of the incoming direction of the NIC of the node being built.
    pub(in crate::run) fn nic(&mut self, bandwidth: f64) -> LinkId {
        if let Some(known) = self.on_nodes.get(&self.node).and_then(|node| node.nic[0]) {
            return known;
        }
        let link = self.own_link(Resource::node(Part::Nic(Direction::In)), bandwidth);
        self.on_nodes.entry(self.node).or_default().nic[0] = Some(link);
        link
    }

    /// Returns the NIC's link for storage data that come into the node being built, or leave the node if `out` is set; `None`
    /// if it is not limited.
    pub(in crate::run) fn data_nic(&mut self, out: bool) -> Option<LinkId> {
        let cluster = &self.scenario.cluster;
        let bandwidth = cluster.data_nic_at(self.node);
        let (own, limited) = (cluster.storage_nic.is_some(), bandwidth.is_finite());
        let direction = if out { Direction::Out } else { Direction::In };
        limited.then(|| match (own, out) {
            (true, _) => {
                let part = Part::StorageNic(direction);
                self.link_at(LinkPlace::of_node(part, self.node), bandwidth)
            }
            (false, false) => self.nic(bandwidth),
            (false, true) => self.nic_out(bandwidth),
        })
    }

    /// Returns the link of the outgoing direction of the NIC of the node being built.
    pub(in crate::run) fn nic_out(&mut self, bandwidth: f64) -> LinkId {
        if let Some(known) = self.on_nodes.get(&self.node).and_then(|node| node.nic[1]) {
            return known;
        }
        let link = self.own_link(Resource::node(Part::Nic(Direction::Out)), bandwidth);
        self.on_nodes.entry(self.node).or_default().nic[1] = Some(link);
        link
    }

    /// Returns the route between the GPUs of the node being built, if activations use it and its bandwidth is limited.
    pub(in crate::run) fn intra(&mut self, job: &Job) -> Option<GroupId> {
        let bandwidth = self.here().intra.bandwidth;
        let whole = job.pipeline.as_ref().filter(|_| job.parallelism.is_none());
        let used = whole.is_some_and(|pipeline| pipeline.activations > 0.0);
        (used && bandwidth.is_finite()).then(|| {
            let link = self.own_link(Resource::node(Part::Intra(IntraLink::Out)), bandwidth);
            self.group(&[link], f64::INFINITY)
        })
    }

    /// Returns the route to the first GPU of each model copy of loader number `rank`, on node number `node` of its job copy.
    /// Data from other ranks that pass through the host's memory use these links too.
    pub(in crate::run) fn pcie(
        &mut self,
        job: &Job,
        rank: u32,
        node: u32,
    ) -> IdVec<GpuId, GroupId> {
        let bandwidth = self.here().pcie;
        if !job.copies_to_devices() || bandwidth.is_infinite() {
            return IdVec::default();
        }
        let memory = self.memory();
        let copies = job.copies_per_loader();
        let first = job.loader_on_node(rank, node) * copies;
        let mut way = |copy| {
            let (gpu, part) = (self.gpu_of(job, copy), Part::Pcie(Direction::In));
            let link = self.link_at(LinkPlace::of_gpu(part, self.node, gpu), bandwidth);
            let route: Vec<LinkId> = [link].into_iter().chain(memory).collect();
            self.group(&route, f64::INFINITY)
        };
        (first..first + copies).map(&mut way).collect()
    }

    /// Returns the first GPU of model copy number `copy` of the job copy being built, on the node being built.
    pub(in crate::run) fn gpu_of(&self, job: &Job, copy: u32) -> u32 {
        self.gpu_at(self.node, u64::from(copy) * job.gpus_per_copy())
    }

    /// Returns GPU number `place` of the job copy being built, on node `node`.
    pub(in crate::run) fn gpu_at(&self, node: u32, place: u64) -> u32 {
        let (first, all) = self.on_nodes.get(&node).map_or((0, 1), |node| node.own_gpus);
        ((first + place) % all.max(1)) as u32
    }

    /// Assigns GPUs to the model copies (with all their stages) of one copy of job `index`, on nodes from `first` on, of which
    /// those with the numbers `nodes` are simulated. The job copy takes the first free GPUs. A GPU is free if no job that may run
    /// at the same time uses it. If too few GPUs are free, GPU numbers wrap around to 0, and jobs share GPUs.
    pub(in crate::run) fn take_gpus(&mut self, index: usize, first: u32, nodes: &[u32]) {
        let job = &self.scenario.jobs[index];
        let over = self.over_before(job);
        for place in nodes.iter().copied() {
            let (node, number) = (first + place, job.gpus_on(place));
            let all = u64::from(self.scenario.cluster.node_at(node).gpus).max(number);
            let on_node = self.on_nodes.entry(node).or_default();
            let beside = on_node.gpus.iter().filter(|taken| !over.contains(&taken.job));
            let first = first_free(beside.copied().collect(), number, all);
            on_node.own_gpus = (first, all);
            match on_node.gpus.last_mut() {
                Some(last) if last.job == index && (last.first + last.number) % all == first => {
                    last.number += number;
                }
                _ => on_node.gpus.push(Taken { job: index, first, number }),
            }
        }
    }

    /// Returns the jobs that have ended when `job` begins, because it waits for them, directly or indirectly.
    fn over_before(&self, job: &Job) -> BTreeSet<usize> {
        let (mut found, mut next) = (BTreeSet::new(), job.after.clone());
        while let Some(job) = next.pop() {
            if found.insert(job) {
                next.extend(&self.scenario.jobs[job].after);
            }
        }
        found
    }

    /// Adds a GPU for each stage of each model copy of the loader being built, and returns these GPUs; empty if GPUs are not
    /// simulated as shared.
    pub(in crate::run) fn gpus(&mut self, job: &Job) -> IdVec<GpuId, Gpu> {
        if job.kernel().is_none() && job.kernels.is_empty() && job.averaging().is_none() {
            return IdVec::default();
        }
        let (node, stages) = (self.node, job.shares().len() as u32);
        let places = (0..job.copies_per_loader()).flat_map(|_| 0..stages);
        let gpus = places.map(|stage| {
            self.node = node + job.node_of_stage(stage);
            self.one_gpu(job)
        });
        let gpus = gpus.collect();
        self.node = node;
        gpus
    }

    fn one_gpu(&mut self, job: &Job) -> Gpu {
        let whole =
            [Kernels { share: 1.0, occupancy: 1.0, sharing: Sharing::UntilFull, added: false }];
        let kernels = if job.kernels.is_empty() { &whole[..] } else { &job.kernels[..] };
        // The GPUs that work on a stage together are one link, and kernels fill the same part of each of them.
        let gpus = f64::from(job.ranks_of_stage());
        let link = self.env.network.link(Capacity::Fixed(gpus));
        self.resource(Resource::node(Part::Gpu), "GPUs", gpus, Member::Link(link));
        // Learners that slow each other down share a link of their own too, so that kernels of the loader do not count as
        // learners.
        let mutual = mutual_capacity(kernels, job.learners.most, gpus);
        let own = mutual.map(|capacity| self.env.network.link(capacity));
        let route: Vec<LinkId> = own.into_iter().chain([link]).collect();
        let mut sort = |of: &Kernels| {
            let used = of.occupancy * gpus;
            Sort { share: of.share, used, group: self.group(&route, used) }
        };
        let steps = kernels.iter().map(&mut sort).collect();
        let of_loader = job.kernel().map_or(1.0, |kernel| kernel.occupancy);
        let loader = (self.group(&[link], of_loader * gpus), gpus);
        Gpu::new(steps, loader, self.gpu_memory(job), Occupied::new(kernels, of_loader))
    }

    /// Returns a GPU's memory, in which learners move models or gradients; `None` if its bandwidth is unlimited or unused.
    fn gpu_memory(&mut self, job: &Job) -> Option<GpuMemory> {
        let bandwidth = self.here().gpu_memory_bandwidth;
        let used = job.uses_gpu_memory() && bandwidth.is_finite();
        used.then(|| {
            let link = self.own_link(Resource::node(Part::GpuMemory), bandwidth);
            GpuMemory { group: self.group(&[link], f64::INFINITY), link, bandwidth }
        })
    }

    /// Adds a link [B/s] to the resource `of`.
    pub(in crate::run) fn own_link(&mut self, of: Resource, bandwidth: f64) -> LinkId {
        let link = self.env.network.link(Capacity::Fixed(bandwidth));
        self.resource(of, "B/s", bandwidth, Member::Link(link));
        link
    }
}

/// Returns the first of `number` consecutive free GPUs on a node of `all` GPUs. If there is no such range, returns the total
/// number of taken GPUs, modulo `all`.
fn first_free(taken: Vec<Taken>, number: u64, all: u64) -> u64 {
    let sum: u64 = taken.iter().map(|taken| taken.number).sum();
    let mut spans: Vec<(u64, u64)> = taken.into_iter().flat_map(|taken| taken.spans(all)).collect();
    spans.sort_unstable();
    let mut free = 0;
    for (from, until) in spans.into_iter().filter(|(from, until)| from < until) {
        if from >= free + number {
            break;
        }
        free = free.max(until);
    }
    if free + number <= all { free } else { sum % all }
}

/// Returns the part of `gpus` GPUs that up to `learners` learners can use together, by their number, if they slow each other down
/// before the GPUs are full; `None` otherwise.
fn mutual_capacity(kernels: &[Kernels], learners: u32, gpus: f64) -> Option<Capacity> {
    let [Kernels { occupancy, sharing: Sharing::Mutual, .. }] = kernels else { return None };
    let used = |n: u32| gpus * occupancy * Sharing::Mutual.gain(f64::from(n), *occupancy);
    (learners > 1).then(|| Capacity::ByFlows((1..=learners).map(used).collect()))
}
