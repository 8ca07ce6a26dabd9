//! What a node has: a NIC, the ways between and to its GPUs; and what loaders share of it.

use std::collections::BTreeMap;

use crate::fluid::{Capacity, GroupId, LinkId};
use crate::scenario::Job;
use crate::sim::gpus::Gpu;
use crate::sim::workers::Cores;
use crate::sim::world::Member;

use super::Builder;
use super::mount::Backend;
use super::sync::Place;

/// What loaders on a node share.
#[derive(Debug, Default)]
pub(super) struct OnNode {
    /// How threads get its cores, and the link that these are.
    pub(super) cores: Option<(Cores, Option<LinkId>)>,
    pub(super) memory: Option<LinkId>,
    /// By job copy, where its use of cores is limited.
    pub(super) quotas: BTreeMap<u32, LinkId>,
    /// Model copies of the job copies before, each on a GPU of its own.
    gpus: u32,
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
    /// The NIC of the node being built.
    pub(super) fn nic(&mut self, bandwidth: f64) -> LinkId {
        if let Some(known) = self.on_nodes.get(&self.node).and_then(|node| node.nic) {
            return known;
        }
        let link = self.own_link("node.nic", bandwidth);
        self.on_nodes.entry(self.node).or_default().nic = Some(link);
        link
    }

    /// What data from storage come in by to the node being built, or to it `out`, if it is limited.
    pub(super) fn data_nic(&mut self, out: bool) -> Option<LinkId> {
        let cluster = &self.scenario.cluster;
        let bandwidth = cluster.data_nic_at(self.node);
        let (own, limited) = (cluster.storage_nic.is_some(), bandwidth.is_finite());
        limited.then(|| match (own, out) {
            (true, false) => self.link_at(Place::of_node("node.storage-nic", self.node), bandwidth),
            (true, true) => {
                self.link_at(Place::of_node("node.storage-nic.out", self.node), bandwidth)
            }
            (false, false) => self.nic(bandwidth),
            (false, true) => self.nic_out(bandwidth),
        })
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
        let bandwidth = self.here().intra.bandwidth;
        let used = job.pipeline.as_ref().is_some_and(|pipeline| pipeline.activations > 0.0);
        (used && bandwidth.is_finite()).then(|| {
            let link = self.own_link("node.intra", bandwidth);
            self.group(&[link], f64::INFINITY)
        })
    }

    /// The way to the first GPU of each model copy of loader number `rank`, on node number `node` of its job copy,
    /// which what comes there through the host's memory from other ranks takes too.
    pub(super) fn pcie(&mut self, job: &Job, rank: u32, node: u32) -> Vec<GroupId> {
        let bandwidth = self.here().pcie;
        if !job.copies_to_devices() || bandwidth.is_infinite() {
            return Vec::new();
        }
        let memory = self.memory();
        let copies = job.copies_per_loader();
        let first = self.first_gpu() + job.loader_on_node(rank, node) * copies;
        let mut way = |gpu| {
            let link = self.link_at(Place::of_gpu("node.pcie", self.node, gpu), bandwidth);
            let route: Vec<LinkId> = [link].into_iter().chain(memory).collect();
            self.group(&route, f64::INFINITY)
        };
        (first..first + copies).map(&mut way).collect()
    }

    /// The first GPU of the node being built that no job copy before uses.
    pub(super) fn first_gpu(&self) -> u32 {
        self.on_nodes.get(&self.node).map_or(0, |node| node.gpus)
    }

    /// The model copies of a job copy on nodes from `first` on have GPUs of their own.
    pub(super) fn take_gpus(&mut self, job: &Job, first: u32) {
        for (node, copies) in (first..).zip(job.copies_by_node()) {
            self.on_nodes.entry(node).or_default().gpus += copies;
        }
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
    pub(super) fn own_link(&mut self, name: &str, bandwidth: f64) -> LinkId {
        let link = self.network.link(Capacity::Fixed(bandwidth));
        self.resource(name, "B/s", bandwidth, Member::Link(link));
        link
    }
}
