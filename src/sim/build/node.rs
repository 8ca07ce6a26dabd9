//! What a node has: cores, a NIC, the ways between and to its GPUs; and what loaders share of it.

use std::collections::BTreeMap;

use crate::fluid::{Capacity, Demand, GroupId, LinkId, Use};
use crate::scenario::{Device as Processor, Job, Node, Scheduling};
use crate::sim::event::Delay;
use crate::sim::gpus::Gpu;
use crate::sim::station::Station;
use crate::sim::workers::Cores;
use crate::sim::world::{Member, Service};

use super::Builder;
use super::medium::Coupled;
use super::mount::Backend;

/// What loaders on a node share.
#[derive(Debug, Default)]
pub(super) struct OnNode {
    cores: Option<(Cores, Option<LinkId>)>,
    nic: Option<LinkId>,
    nic_out: Option<LinkId>,
    /// Place among the world's page caches.
    pub(super) cache: Option<u32>,
    /// By storage, place among the caches on tiers.
    pub(super) node_caches: BTreeMap<usize, u32>,
    /// By job copy, place of its decoded samples among them.
    pub(super) decoded: BTreeMap<u32, u32>,
    /// Disks and memory, by storage.
    pub(super) disks: BTreeMap<usize, Backend>,
}

impl Builder<'_, '_> {
    /// The cores of one more node, for so many threads, and the link that they are where bytes on
    /// their way use them too. As long as each thread can have a core of its own, sharing and slots
    /// are the same, and slots are had without solving for rates; not so where busy cores slow each
    /// other.
    pub(super) fn cores(&mut self, threads: u32, coupled: bool) -> (Cores, Option<LinkId>) {
        if let Some(known) = self.on_nodes.entry(self.node).or_default().cores {
            return known;
        }
        // Others may come.
        let threads = if self.scenario.cluster.share_nodes { u32::MAX } else { threads };
        let made = self.new_cores(threads, coupled);
        self.on_nodes.entry(self.node).or_default().cores = Some(made);
        made
    }

    fn new_cores(&mut self, threads: u32, coupled: bool) -> (Cores, Option<LinkId>) {
        let node = &self.scenario.cluster.node;
        let slowed = node.core_speed.iter().any(|speed| *speed != 1.0);
        if node.scheduling == Scheduling::Fifo || threads <= node.cores && !slowed && !coupled {
            return (self.core_slots(node), None);
        }
        let link = self.core_link(node, slowed);
        (Cores::Shared(self.group(&[link], 1.0)), Some(link))
    }

    /// Cores that are taken one by one.
    fn core_slots(&mut self, node: &Node) -> Cores {
        // Each visit brings its own service time.
        let service = Delay::once(0.0);
        let station = self.station(Service { queue: Station::new(node.cores), service });
        self.resource("node.cores", "cores", f64::from(node.cores), Member::Station(station));
        Cores::Fifo(station)
    }

    /// Cores that all threads share, and that `slowed` ones do not get in full.
    fn core_link(&mut self, node: &Node, slowed: bool) -> LinkId {
        let by_threads: Box<[f64]> = if slowed {
            (1..=node.cores).map(|busy| f64::from(busy) * speed_of(node, busy)).collect()
        } else {
            Box::new([f64::from(node.cores)])
        };
        let capacity = by_threads.iter().copied().fold(0.0, f64::max);
        let link = self.network.link(match &by_threads[..] {
            [one] => Capacity::Fixed(*one),
            _ => Capacity::ByFlows(by_threads),
        });
        self.resource("node.cores", "cores", capacity, Member::Link(link));
        link
    }

    /// The way of bytes that use the cores `link` too, where their threads count as others do: alike
    /// by the share of a core.
    pub(super) fn coupled(&mut self, route: Vec<Use>, link: LinkId, coupled: Coupled) -> GroupId {
        let Coupled { cpu, alone } = coupled;
        let route = route.into_iter().chain([Use { link, per_unit: cpu }]).collect();
        self.network.group(Demand { route, weight: 1.0 / cpu, cap: 1.0 / alone })
    }

    /// The NIC of the node being built.
    pub(super) fn nic(&mut self, bandwidth: f64) -> LinkId {
        if let Some(known) = self.on_nodes.get(&self.node).and_then(|node| node.nic) {
            return known;
        }
        let link = self.own_link("node.nic", bandwidth);
        self.on_nodes.entry(self.node).or_default().nic = Some(link);
        link
    }

    /// The same in the other direction.
    pub(super) fn nic_out(&mut self, bandwidth: f64) -> LinkId {
        if let Some(known) = self.on_nodes.get(&self.node).and_then(|node| node.nic_out) {
            return known;
        }
        let link = self.own_link("node.nic.out", bandwidth);
        self.on_nodes.entry(self.node).or_default().nic_out = Some(link);
        link
    }

    /// The way between the GPUs of one more node, where anything goes that way.
    pub(super) fn intra(&mut self, job: &Job) -> Option<GroupId> {
        let bandwidth = self.scenario.cluster.node.intra.bandwidth;
        let used = job.pipeline.as_ref().is_some_and(|pipeline| pipeline.activations > 0.0);
        (used && bandwidth.is_finite()).then(|| {
            let link = self.own_link("node.intra", bandwidth);
            self.group(&[link], f64::INFINITY)
        })
    }

    /// The way to the first GPU of each model copy of one more loader.
    pub(super) fn pcie(&mut self, job: &Job) -> Vec<GroupId> {
        let bandwidth = self.scenario.cluster.node.pcie;
        if !job.copies_to_devices() || bandwidth.is_infinite() {
            return Vec::new();
        }
        let mut way = || {
            let link = self.own_link("node.pcie", bandwidth);
            self.group(&[link], f64::INFINITY)
        };
        (0..job.copies_per_loader()).map(|_| way()).collect()
    }

    /// The GPU of each model copy of one more loader that uses them.
    pub(super) fn gpus(&mut self, job: &Job) -> Vec<Gpu> {
        let Some(kernel) = job.kernel() else { return Vec::new() };
        let mut gpu = || {
            let link = self.network.link(Capacity::Fixed(1.0));
            self.resource("node.gpu", "GPUs", 1.0, Member::Link(link));
            let (steps, kernels) =
                (self.group(&[link], 1.0), self.group(&[link], kernel.occupancy));
            Gpu { steps, kernels }
        };
        (0..job.copies_per_loader()).map(|_| gpu()).collect()
    }

    /// A link [B/s] that is one of a node's resource `name`.
    fn own_link(&mut self, name: &str, bandwidth: f64) -> LinkId {
        let link = self.network.link(Capacity::Fixed(bandwidth));
        self.resource(name, "B/s", bandwidth, Member::Link(link));
        link
    }
}

/// Speed of each core while so many are busy.
fn speed_of(node: &Node, busy: u32) -> f64 {
    let at = busy.saturating_sub(1) as usize;
    node.core_speed.get(at).or(node.core_speed.last()).copied().unwrap_or(1.0)
}

/// Speed of each of so many threads that have the cores to themselves.
pub(super) fn speed_alone(node: &Node, threads: u32) -> f64 {
    let busy = threads.min(node.cores);
    let capacity = f64::from(busy) * speed_of(node, busy);
    (capacity / f64::from(threads)).min(1.0)
}

/// Threads of a job's loaders and trainers on one node.
pub(super) fn threads_of(job: &Job) -> u32 {
    let workers: u32 = job.loader.stages.iter().map(|stage| stage.workers).sum();
    let workers = workers.saturating_mul(job.loaders_per_node());
    match job.device {
        Processor::Accelerator => workers,
        Processor::Cpu { threads } => {
            workers.saturating_add(threads.saturating_mul(job.copies_per_node))
        }
    }
}
