//! What model copies do with their gradients: the ways between them, and how each bucket is reduced.

use std::collections::BTreeMap;

use crate::collective::Cost;
use crate::engine::Span;
use crate::fluid::LinkId;
use crate::scenario::{IntraKind, Job, Node, Sync};
use crate::sim::communication::{Plan, Port, SyncRun, SyncTracks, Ways};

use super::Builder;
use super::job::JobCopy;
use super::pieces;

/// Where a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    name: &'static str,
    /// Which of that name.
    index: u32,
    /// Which node or rack.
    of: u32,
}

impl Place {
    /// The one of its name on a node.
    pub(super) fn of_node(name: &'static str, node: u32) -> Place {
        Place { name, index: 0, of: node }
    }

    /// The one of its name of a GPU of a node.
    pub(super) fn of_gpu(name: &'static str, node: u32, gpu: u32) -> Place {
        Place { name, index: gpu, of: node }
    }
}

impl Builder<'_, '_> {
    /// What the model copies of copy number `copy` of a job, on nodes from `node` on, do with their gradients.
    pub(super) fn sync(&mut self, of: &JobCopy, copy: u32, node: u32) -> Option<Box<SyncRun>> {
        let job = of.job;
        let sync = job.sync.as_ref()?;
        if job.ranks() < 2 {
            return None;
        }
        let ways = self.ways(of, sync, node);
        let step = job.step.seconds(job.batch as f64) / self.scenario.cluster.node.gpu_speed;
        let [inside, across, shared] = self.costs(job, sync);
        let plan = Plan {
            reduction: sync.reduction,
            broadcast: sync.root.as_ref().map_or(sync.reduction, |root| root.broadcast),
            measured: sync.measured.clone(),
            fidelity: sync.fidelity,
            fabric: job.fabric(&self.scenario.cluster),
            inside,
            across,
            shared,
            uniform: self.is_uniform(job, sync),
            known: BTreeMap::new(),
        };
        let (pieces, buckets) = (pieces::pieces(sync), pieces::buckets(sync, step));
        let update = Span::from_seconds(sync.root.as_ref().map_or(0.0, |root| root.update));
        let mut run = SyncRun::new(of.number, pieces, buckets, update, sync.buffer, plan, ways);
        run.tracks = self.sync_tracks(&format!("{}[{copy}] gradients", job.name));
        Some(Box::new(run))
    }

    /// Tracks of what is done with gradients, and of those that wait for that, where a timeline is recorded.
    fn sync_tracks(&mut self, process: &str) -> Option<SyncTracks> {
        let process = self.parts.recorder.as_mut()?.process(process.to_owned());
        let reduction = self.track(Some(process), || "collectives".to_owned())?;
        let waiting = self.track(Some(process), || "waiting [B]".to_owned())?;
        Some(SyncTracks { reduction, waiting })
    }

    /// Whether each rank has links of its own, but for NICs that all are shared by as many.
    fn is_uniform(&self, job: &Job, sync: &Sync) -> bool {
        let cluster = &self.scenario.cluster;
        let host = sync.transport.through_host && cluster.node.pcie.is_finite();
        let even =
            job.copies_per_node.is_multiple_of(cluster.node.nics) || job.copies_per_node == 1;
        let own_cores = sync.transport.cpu.is_none() || has_cores(&cluster.node, job);
        let apart = cluster.node.intra.kind == IntraKind::Switch || job.copies_per_node == 1;
        apart && cluster.racks.is_none() && own_cores && !host && even
    }

    /// What a transfer costs inside a node, across by itself, and across with all of its node.
    fn costs(&self, job: &Job, sync: &Sync) -> [Cost; 3] {
        let (cluster, transport) = (&self.scenario.cluster, &sync.transport);
        let (gamma, cpu) = (1.0 / transport.sum, transport.cpu);
        // Both ends pay, one after the other.
        let cost = |latency: f64, rate: f64| Cost {
            alpha: latency + 2.0 * cpu.per_message,
            beta: 1.0 / rate + 2.0 * cpu.per_byte,
            gamma,
        };
        let wire = cluster.nic * transport.efficiency;
        let on_nic = f64::from(job.copies_per_node.div_ceil(cluster.node.nics));
        [
            cost(
                transport.latency_inside,
                cluster.node.intra.bandwidth.min(transport.per_stream_inside),
            ),
            cost(transport.latency, wire.min(transport.per_stream)),
            cost(transport.latency, (wire / on_nic).min(transport.per_stream)),
        ]
    }

    /// The links of the ranks of `job` on nodes from `first` on.
    fn ways(&mut self, of: &JobCopy, sync: &Sync, first: u32) -> Ways {
        let job = of.job;
        let mut capacities = BTreeMap::new();
        let mut ports = Vec::new();
        for node in first..first + job.nodes {
            ports.extend(self.ports(job, sync, node, &mut capacities));
        }
        let latency = [sync.transport.latency_inside, sync.transport.latency];
        let latency = latency.map(|seconds| self.recurring(seconds));
        let overhead = self.overhead(job, of.number, first);
        let (kind, gpus) = (self.scenario.cluster.node.intra.kind, job.copies_per_node);
        Ways::new(ports, kind, gpus, sync.transport, latency, capacities, overhead)
    }

    /// The links of the ranks on one node.
    fn ports(
        &mut self,
        job: &Job,
        sync: &Sync,
        node: u32,
        capacities: &mut BTreeMap<LinkId, f64>,
    ) -> Vec<Port> {
        let cluster = &self.scenario.cluster;
        let (intra, nic, pcie) = (cluster.node.intra, cluster.nic, cluster.node.pcie);
        let (nics, racks) = (cluster.node.nics, cluster.racks);
        let through = if sync.transport.through_host { pcie } else { f64::INFINITY };
        self.node = node;
        let first = self.first_gpu();
        let rack = racks.map_or(0, |racks| node / racks.nodes);
        let uplink = racks.map_or(f64::INFINITY, |racks| racks.uplink);
        let mut link = |place: Place, bandwidth: f64| -> Vec<LinkId> {
            let finite = bandwidth.is_finite();
            let link = finite.then(|| self.link_at(place, bandwidth));
            capacities.extend(link.map(|link| (link, bandwidth)));
            link.into_iter().collect()
        };
        let port = |gpu: u32| {
            let shared = intra.kind == IntraKind::Shared;
            let at = |name, index| Place::of_gpu(name, node, index);
            let inside = match shared {
                true => [link(at("node.intra", 0), intra.bandwidth), Vec::new()],
                false => ["node.intra", "node.intra.in"]
                    .map(|name| link(at(name, first + gpu), intra.bandwidth)),
            };
            let mut outside =
                ["node.pcie.out", "node.pcie"].map(|name| link(at(name, first + gpu), through));
            let wires = ["node.nic.out", "node.nic"].map(|name| link(at(name, gpu % nics), nic));
            outside.iter_mut().zip(wires).for_each(|(links, wire)| links.extend(wire));
            let of_rack = |name| Place { name, index: 0, of: rack };
            let uplink = ["rack.uplink", "rack.downlink"].map(|name| link(of_rack(name), uplink));
            Port { node, rack, gpu, inside, outside, uplink }
        };
        (0..job.copies_per_node).map(port).collect()
    }

    /// The link of a name on a node or rack, which all jobs there share.
    pub(super) fn link_at(&mut self, place: Place, bandwidth: f64) -> LinkId {
        self.node = place.of;
        match place {
            Place { name: "node.nic", index: 0, .. } => return self.nic(bandwidth),
            Place { name: "node.nic.out", index: 0, .. } => return self.nic_out(bandwidth),
            _ => {}
        }
        if let Some(known) = self.links.get(&place) {
            return *known;
        }
        let link = self.own_link(place.name, bandwidth);
        self.links.insert(place, link);
        link
    }
}

/// Whether each rank of a node that sends one message and gets another has a core for both.
fn has_cores(node: &Node, job: &Job) -> bool {
    let messages = 2 * u64::from(job.copies_per_node);
    let alike = node.most_threads() == 1 && job.cpu.quota >= messages as f64;
    alike && messages <= u64::from(node.cores)
}
