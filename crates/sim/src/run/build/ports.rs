//! The links of ranks: inside their nodes, to other nodes, to other racks.

use forebay_engine::fluid::LinkId;
use forebay_report::{Direction, IntraLink, Part, Resource};
use forebay_scenario::{Intra, IntraKind, Job, NicsAt, ServerPlace, Servers, Transport};

use super::Builder;
use super::job::JobCopy;
use super::sync::LinkPlace;
use crate::communication::{LinkUsers, RankLinks, RankRoutes};
use crate::ids::{CommunicatorId, Ids};
use crate::job::JobRun;

// The links in both directions: out, in.
const INTRA: [Resource; 2] = intra([IntraLink::Out, IntraLink::In]);

const ABOVE: [Resource; 2] = intra([IntraLink::Up, IntraLink::Down]);

const ROOT: Resource = Resource::node(Part::Intra(IntraLink::Root));

const PCIE: [Resource; 2] =
    [Resource::node(Part::Pcie(Direction::Out)), Resource::node(Part::Pcie(Direction::In))];

const NIC: [Resource; 2] =
    [Resource::node(Part::Nic(Direction::Out)), Resource::node(Part::Nic(Direction::In))];

const UPLINK: [Resource; 2] = [Resource::uplink(Direction::Out), Resource::uplink(Direction::In)];

const fn intra([out, into]: [IntraLink; 2]) -> [Resource; 2] {
    [Resource::node(Part::Intra(out)), Resource::node(Part::Intra(into))]
}

/// The links made so far for ranks, each with its capacity [B/s].
struct Links<'b, 's> {
    builder: &'b mut Builder<'s>,
    capacities: Vec<(LinkId, f64)>,
}

/// Properties that all ranks have in common.
#[derive(Debug, Clone, Copy)]
struct Rank {
    /// Number of GPUs of a rank, the first of which sends and receives.
    gpus: u64,
    /// Whether messages to other nodes go through the node's memory.
    via_host: bool,
    /// Whether a server in the node's memory holds a part of the parameters.
    beside_servers: bool,
}

impl Links<'_, '_> {
    /// Returns a list with link number `index` of this sort at node or rack number `of`; the list is empty if the link's
    /// bandwidth is unlimited.
    fn at(&mut self, what: Resource, index: u32, of: u32, bandwidth: f64) -> Vec<LinkId> {
        let place = LinkPlace { what, index, of };
        let link = bandwidth.is_finite().then(|| self.builder.link_at(place, bandwidth));
        self.capacities.extend(link.map(|link| (link, bandwidth)));
        link.into_iter().collect()
    }

    /// Returns two links at the same place, one for each direction (out, in).
    fn both(&mut self, ways: [Resource; 2], index: u32, of: u32, rate: f64) -> [Vec<LinkId>; 2] {
        ways.map(|what| self.at(what, index, of, rate))
    }

    /// Returns the links over which GPU number `gpu` of a node exchanges data with other GPUs of the node.
    fn inside(&mut self, intra: &Intra, gpu: u32, node: u32) -> [Vec<LinkId>; 2] {
        match intra.kind {
            IntraKind::Shared => [self.at(INTRA[0], 0, node, intra.bandwidth), Vec::new()],
            _ => self.both(INTRA, gpu, node, intra.bandwidth),
        }
    }

    /// Returns the links between switch number `switch` of a node and the other switches, over the root.
    fn above(&mut self, intra: &Intra, switch: u32, node: u32) -> [Vec<LinkId>; 2] {
        let [mut up, down] = self.both(ABOVE, switch, node, intra.tree.uplink);
        up.extend(self.at(ROOT, 0, node, intra.tree.root));
        [up, down]
    }

    /// Returns the links of GPU number `own` of a node towards other nodes. The NIC follows from `gpu`, the number of the rank
    /// on its node.
    fn outside(&mut self, host: bool, own: u32, gpu: u32, node: u32) -> [Vec<LinkId>; 2] {
        let cluster = &self.builder.scenario.cluster;
        let (of, nic) = (cluster.node_at(node), cluster.nic_at(node));
        let pcie = if host { of.pcie } else { f64::INFINITY };
        let mut outside = self.both(PCIE, own, node, pcie);
        let wires = self.both(NIC, gpu % of.nics, node, nic);
        let tree = self.towards_nics(&of.intra, own, node);
        let more = tree.into_iter().zip(wires);
        outside.iter_mut().zip(more).for_each(|(links, (tree, wire))| {
            links.extend(tree);
            links.extend(wire);
        });
        outside
    }

    /// Returns the links of a node's PCIe tree between GPU number `own` and the NICs, out and in.
    fn towards_nics(&mut self, intra: &Intra, own: u32, node: u32) -> [Vec<LinkId>; 2] {
        if intra.tree.nics == NicsAt::Apart {
            return Default::default();
        }
        let mut ways = self.inside(intra, own, node);
        if intra.tree.nics == NicsAt::Root {
            let [up, mut down] = self.above(intra, own / intra.tree.switch, node);
            // Traffic in both directions crosses the root.
            down.extend(self.at(ROOT, 0, node, intra.tree.root));
            ways.iter_mut().zip([up, down]).for_each(|(links, above)| links.extend(above));
        }
        ways
    }

    /// Returns the links between GPU number `own` of a node and servers in the node's memory; empty if the job has no such
    /// servers.
    fn host(&mut self, rank: Rank, own: u32, node: u32) -> [Vec<LinkId>; 2] {
        if !rank.beside_servers {
            return [const { Vec::new() }; 2];
        }
        let pcie = self.builder.scenario.cluster.node_at(node).pcie;
        self.both(PCIE, own, node, pcie)
    }

    /// Returns the links of parameter server number `number` of `job`, whose nodes begin at `first`.
    fn server(&mut self, (job, of): (&Job, &Servers), number: u32, first: u32) -> RankLinks {
        let none = RankLinks { server: true, ..RankLinks::default() };
        match of.place {
            ServerPlace::Own { nic, .. } => {
                self.builder.node = first;
                let ways = NIC.map(|of| Resource::server(of.part));
                let mut new = |what| self.builder.own_link(what, nic);
                let outside = ways.map(|what| nic.is_finite().then(|| new(what)));
                let outside = outside.map(|link| link.into_iter().collect());
                // The server is on the switch that connects all racks.
                RankLinks { node: u32::MAX - number, rack: u32::MAX, outside, ..none }
            }
            ServerPlace::WithWorkers => {
                let node = first + number % job.nodes;
                let cluster = &self.builder.scenario.cluster;
                let (nic, racks) = (cluster.nic_at(node), cluster.racks);
                let nics = cluster.node_at(node).nics;
                let rack = racks.map_or(0, |racks| node / racks.nodes);
                let rate = racks.map_or(f64::INFINITY, |racks| racks.uplink);
                let nic_of = number / job.nodes % nics;
                let outside = self.both(NIC, nic_of, node, nic);
                let uplink = self.both(UPLINK, 0, rack, rate);
                RankLinks { node, rack, outside, uplink, ..none }
            }
        }
    }

    /// Returns the links of the `ranks` ranks on one node.
    fn ports(&mut self, rank: Rank, node: u32, ranks: u32) -> impl Iterator<Item = RankLinks> {
        let cluster = &self.builder.scenario.cluster;
        let (intra, racks) = (cluster.node_at(node).intra, cluster.racks);
        let rack = racks.map_or(0, |racks| node / racks.nodes);
        let rate = racks.map_or(f64::INFINITY, |racks| racks.uplink);
        self.builder.node = node;
        (0..ranks).map(move |gpu| {
            let own = self.builder.gpu_at(node, u64::from(gpu) * rank.gpus);
            let switch = own / intra.tree.switch;
            let inside = self.inside(&intra, own, node);
            let above = self.above(&intra, switch, node);
            let outside = self.outside(rank.via_host, own, gpu, node);
            let uplink = self.both(UPLINK, 0, rack, rate);
            let ring = intra.kind == IntraKind::Ring;
            let host = self.host(rank, own, node);
            let server = false;
            RankLinks {
                node,
                rack,
                gpu,
                ranks,
                ring,
                switch,
                inside,
                above,
                outside,
                uplink,
                host,
                server,
            }
        })
    }
}

impl Builder<'_> {
    /// Returns the routes between the ranks of a job copy on nodes from `first` on: between its model copies, or between all
    /// GPUs of model copies that are spread over GPUs, and its parameter servers.
    pub(in crate::run) fn ways(
        &mut self,
        of: &JobCopy,
        transport: Transport,
        first: u32,
    ) -> RankRoutes {
        let job = of.job;
        let latency = [transport.latency_inside, transport.latency];
        let latency = latency.map(|seconds| self.recurring(seconds));
        let mut links = Links { builder: self, capacities: Vec::new() };
        let beside = |servers: &Servers| servers.place == ServerPlace::WithWorkers;
        let rank = Rank {
            gpus: if job.parallelism.is_some() { 1 } else { job.gpus_per_copy() },
            via_host: transport.via_host,
            beside_servers: job.servers().is_some_and(beside),
        };
        let mut ports = Vec::new();
        for (node, ranks) in (first..).zip(job.ranks_by_node()) {
            ports.extend(links.ports(rank, node, ranks));
        }
        if let Some(servers) = job.servers() {
            let server = |number| links.server((job, servers), number, first);
            ports.extend((0..servers.number()).map(server));
        }
        let capacities = links.capacities;
        let overhead = self.overhead(of, first);
        RankRoutes::new(ports, transport, latency, capacities, overhead)
    }
}

impl Builder<'_> {
    /// Marks the communicators whose links nothing else uses; to be called when everything is built.
    pub(in crate::run) fn own_links(&mut self) {
        let mut users = LinkUsers::new(&self.env.network);
        self.share_changing(&mut users);
        for (job, ways) in self.parts.jobs.iter().zip(self.parts.communicators.ways()) {
            // The links of collectives of a sample of nodes are not simulated.
            let Some(ways) = ways.as_ref().filter(|_| job.sampled.is_none()) else { continue };
            if !job.parts.servers.is_empty() {
                ways.all_links().for_each(|link| users.share(link));
            }
            share_sends(job, ways, &mut users);
            self.claim_links(job.parts.communicators, ways, &mut users);
        }
        self.tell_alone(&users);
    }

    /// Marks the links that faults slow as shared, because their capacity changes.
    fn share_changing(&self, users: &mut LinkUsers) {
        for fault in self.faults() {
            fault.links.iter().for_each(|(link, _)| users.share(*link));
        }
    }

    /// Registers each communicator as a user of the links of its collectives.
    fn claim_links(
        &self,
        communicators: Ids<CommunicatorId>,
        ways: &RankRoutes,
        users: &mut LinkUsers,
    ) {
        for c in communicators {
            match ways.links_among(&self.parts.communicators[c].members()) {
                Some(links) => links.iter().for_each(|link| users.claim(*link, c)),
                None => ways.all_links().for_each(|link| users.share(link)),
            }
        }
    }

    fn tell_alone(&mut self, users: &LinkUsers) {
        for job in &self.parts.jobs {
            self.parts.communicators.keep_own_links(job.parts.communicators, users);
        }
    }
}

/// Marks as shared the links over which stages send each other activations.
fn share_sends(job: &JobRun, ways: &RankRoutes, users: &mut LinkUsers) {
    for (from, to) in job.spread.sends(job.stages() as usize) {
        ways.links_between(from, to).into_iter().for_each(|link| users.share(link));
    }
}
