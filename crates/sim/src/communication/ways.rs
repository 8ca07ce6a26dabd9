//! The routes between the ranks of a job copy.

use std::collections::{BTreeMap, BTreeSet};

use forebay_engine::fluid::{Capacity, Demand, GroupId, LinkId, Network, Use};
use forebay_scenario::{Members, MessageCpu, Transport};

use super::exchange::{Message, Stage};
use super::plan::Pace;
use crate::env::{ActivityId, Cores, Delay, Service, Station};
use crate::ids::{IdVec, RankId, StationId};

/// The place of a rank in the cluster, and the rank's links. Each pair of lists holds first the outgoing links, then the incoming
/// links.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RankLinks {
    pub(crate) node: u32,
    pub(crate) rack: u32,
    /// Index of the rank's GPU among the GPUs of its node that have a rank. `ranks` is the number of these GPUs, and `ring` says
    /// whether they form a ring.
    pub(crate) gpu: u32,
    pub(crate) ranks: u32,
    pub(crate) ring: bool,
    /// Number of the rank's switch within its node.
    pub(crate) switch: u32,
    /// Links towards other ranks of the same node.
    pub(crate) inside: [Vec<LinkId>; 2],
    /// Additional links towards ranks at other switches of the same node.
    pub(crate) above: [Vec<LinkId>; 2],
    /// Links towards ranks of other nodes.
    pub(crate) outside: [Vec<LinkId>; 2],
    /// Additional links towards ranks of other racks.
    pub(crate) uplink: [Vec<LinkId>; 2],
    /// Links towards servers in the memory of the rank's node; `server` says whether the rank itself is such a server.
    pub(crate) host: [Vec<LinkId>; 2],
    pub(crate) server: bool,
}

impl RankLinks {
    /// Returns all links of the rank.
    fn links(&self) -> impl Iterator<Item = &LinkId> {
        let all = [&self.inside, &self.above, &self.outside, &self.uplink, &self.host];
        all.into_iter().flatten().flatten()
    }

    /// Returns a copy of the rank's links in which each link is replaced by the one that `others` maps it to.
    fn on(&self, others: &BTreeMap<LinkId, LinkId>) -> RankLinks {
        let of = |links: &[Vec<LinkId>; 2]| {
            links.each_ref().map(|links| links.iter().map(|link| others[link]).collect::<Vec<_>>())
        };
        RankLinks {
            inside: of(&self.inside),
            above: of(&self.above),
            outside: of(&self.outside),
            uplink: of(&self.uplink),
            host: of(&self.host),
            ..*self
        }
    }
}

/// A group of ranks and the links between them, apart from the rest of the network. Ranks, links, nodes and racks are numbered
/// from 0, so groups that differ only in where they are in the cluster have equal topologies.
#[derive(Debug, PartialEq)]
pub(super) struct Topology {
    ports: Vec<RankLinks>,
    capacities: Vec<Capacity>,
    transport: Transport,
    latency: [Delay; 2],
}

impl Topology {
    /// Returns the routes between the ranks on the links of `network`, which has no links yet.
    pub(super) fn routes(&self, network: &mut Network<ActivityId>) -> RankRoutes {
        for capacity in &self.capacities {
            network.link(capacity.clone());
        }
        RankRoutes::new(self.ports.clone(), self.transport, self.latency, Vec::new(), None)
    }

    /// Returns the links in their order.
    pub(super) fn links(&self) -> impl Iterator<Item = LinkId> {
        (0..self.capacities.len()).map(LinkId::new)
    }
}

/// Numbers in the order in which they are first asked for.
#[derive(Debug, Default)]
struct Numbers(BTreeMap<u32, u32>);

impl Numbers {
    fn of(&mut self, number: u32) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(number).or_insert(next)
    }
}

/// Key of a route: sender, receiver, and the bits of the throughput cap.
type Pair = (u32, u32, u64);

/// The route of transfers from one rank to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RankRoute {
    pair: Pair,
    pub(crate) latency: Delay,
    /// Group of the transfers' flows; `None` if nothing limits them.
    pub(crate) group: Option<GroupId>,
}

impl RankRoute {
    /// Returns a route with this latency and group of flows, for ranks of one node that have a link of their own.
    pub(crate) fn inside(latency: Delay, group: Option<GroupId>) -> RankRoute {
        RankRoute { pair: NO_PAIR, latency, group }
    }
}

/// A key that no route has, since no rank sends to itself.
const NO_PAIR: Pair = (0, 0, 0);

/// The routes between ranks. The group of flows from one rank to another is made when it is first needed.
#[derive(Debug)]
pub(crate) struct RankRoutes {
    ports: IdVec<RankId, RankLinks>,
    transport: Transport,
    latency: [Delay; 2],
    /// Groups of flows, by sender, receiver and pace.
    groups: BTreeMap<Pair, Option<GroupId>>,
    /// For each sender, the route that it used last, since most ranks send to the same receiver again and again.
    latest: IdVec<RankId, RankRoute>,
    /// Current pace of transfers, if it differs from the transport's.
    pace: Option<Pace>,
    /// Capacity of each link [B/s]; a link that several ranks use occurs several times.
    capacities: Vec<(LinkId, f64)>,
    /// Core time of messages, if they take any.
    overhead: Option<Overhead>,
}

impl RankRoutes {
    /// Returns the routes between `ports`, which are in the order of ranks; `latency` holds the latency inside a node and the
    /// latency between nodes.
    pub(crate) fn new(
        ports: Vec<RankLinks>,
        transport: Transport,
        latency: [Delay; 2],
        capacities: Vec<(LinkId, f64)>,
        overhead: Option<Overhead>,
    ) -> RankRoutes {
        let none = RankRoute { pair: NO_PAIR, latency: latency[0], group: None };
        let ports: IdVec<RankId, RankLinks> = ports.into_iter().collect();
        let latest = ports.iter().map(|_| none).collect();
        let (groups, pace) = (BTreeMap::new(), None);
        RankRoutes { ports, transport, latency, groups, latest, pace, capacities, overhead }
    }

    /// Returns the place and the links of a rank.
    pub(crate) fn port(&self, rank: u32) -> &RankLinks {
        &self.ports[RankId::new(rank)]
    }

    /// Returns these routes on copies of their links and cores. The copies are added to `network` and `stations`, and nothing
    /// else uses them.
    pub(super) fn alone(
        &self,
        network: &mut Network<ActivityId>,
        stations: &mut IdVec<StationId, Service>,
    ) -> RankRoutes {
        let own: BTreeMap<LinkId, f64> = self.capacities.iter().copied().collect();
        let own: BTreeMap<LinkId, LinkId> = own
            .into_iter()
            .map(|(link, bandwidth)| (link, network.link(Capacity::Fixed(bandwidth))))
            .collect();
        let ports = self.ports.iter().map(|port| port.on(&own)).collect();
        let latency = self.latency.map(|delay| Delay { lane: None, ..delay });
        let overhead = self.overhead.as_ref().map(|own| own.alone(network, stations));
        RankRoutes::new(ports, self.transport, latency, Vec::new(), overhead)
    }

    /// Returns the topology of the ranks `members`, and the links of `network` in the order in which the topology numbers them.
    pub(super) fn topology(
        &self,
        members: &Members,
        network: &Network<ActivityId>,
    ) -> (Topology, Vec<LinkId>) {
        let ports: Vec<&RankLinks> = self.ports_of(members).collect();
        let all: BTreeSet<LinkId> = ports.iter().flat_map(|port| port.links()).copied().collect();
        let all: Vec<LinkId> = all.into_iter().collect();
        let copies = all.iter().enumerate().map(|(at, link)| (*link, LinkId::new(at))).collect();
        let (mut nodes, mut racks) = (Numbers::default(), Numbers::default());
        let moved = |port: &RankLinks| RankLinks {
            node: nodes.of(port.node),
            rack: racks.of(port.rack),
            ..port.on(&copies)
        };
        let topology = Topology {
            ports: ports.into_iter().map(moved).collect(),
            capacities: all.iter().map(|link| network.capacity(*link).clone()).collect(),
            transport: self.transport,
            latency: self.latency.map(|delay| Delay { lane: None, ..delay }),
        };
        (topology, all)
    }

    fn ports_of(&self, members: &Members) -> impl Iterator<Item = &RankLinks> {
        members.gpus().map(|gpu| &self.ports[RankId::new(gpu)])
    }

    /// Returns the links that transfers among `members` may use; `None` if the time of these transfers also depends on cores, or
    /// if they may pass through GPUs on a ring that are not members.
    pub(crate) fn links_among(&self, members: &Members) -> Option<Vec<LinkId>> {
        let ports: Vec<&RankLinks> = self.ports_of(members).collect();
        let (first, last) = (ports.first()?, ports.last()?);
        let whole = members.stride == 1 && first.gpu == 0 && last.gpu + 1 == last.ranks;
        if self.overhead.is_some() || (first.ring && !whole) {
            return None;
        }
        let mut nodes: BTreeMap<u32, u32> = BTreeMap::new();
        ports.iter().for_each(|port| *nodes.entry(port.node).or_default() += 1);
        let several = nodes.len() > 1;
        let racks = ports.iter().any(|port| port.rack != first.rack);
        let mut links = Vec::new();
        for port in ports {
            let beside = nodes.get(&port.node).is_some_and(|number| *number > 1);
            let used = [
                (beside, [&port.inside, &port.above]),
                (several, [&port.outside, if racks { &port.uplink } else { &port.outside }]),
            ];
            let used = used.into_iter().filter(|(is, _)| *is).flat_map(|(_, both)| both);
            links.extend(used.flatten().flatten().copied());
        }
        Some(links)
    }

    /// Returns all links of all ranks; a link of several ranks occurs several times.
    pub(crate) fn all_links(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.ports.iter().flat_map(RankLinks::links).copied()
    }

    /// Returns the links of the route from one rank to another.
    pub(crate) fn links_between(&self, from: u32, to: u32) -> Vec<LinkId> {
        self.route(from, to)
    }

    /// Sets the pace of all transfers that begin from now on; `None` means the transport's pace.
    pub(super) fn keep(&mut self, pace: Option<Pace>) {
        if self.pace != pace {
            // The latest routes have the latency of another pace.
            self.latest.iter_mut().for_each(|way| way.pair = NO_PAIR);
        }
        self.pace = pace;
    }

    /// Returns the cores that a message uses at its current end (sender or receiver), and for how long [core-s]; `None` if it
    /// needs no core time.
    pub(super) fn core_seconds(&self, message: &Message) -> Option<(Cores, f64)> {
        let gets = message.stage != Stage::Sending;
        let rank = if gets { message.to } else { message.from };
        self.overhead.as_ref()?.of(rank, message.bytes, gets)
    }

    /// Returns the time to add `bytes` bytes to a receiver's own data [s].
    pub(super) fn sum(&self, bytes: u64) -> f64 {
        bytes as f64 / self.transport.sum
    }

    /// Returns the latency of a transfer.
    fn latency(&self, from: u32, to: u32) -> Delay {
        match self.pace {
            Some(pace) => pace.latency,
            None => self.latency[usize::from(self.across(from, to))],
        }
    }

    /// Returns whether two ranks are on different nodes. A switch counts as being on the same node as the rank at the other
    /// end.
    fn across(&self, from: u32, to: u32) -> bool {
        match (self.ports.get(RankId::new(from)), self.ports.get(RankId::new(to))) {
            (Some(from), Some(to)) => from.node != to.node,
            _ => false,
        }
    }

    /// Returns the route of transfers from one rank to another.
    pub(super) fn way(
        &mut self,
        network: &mut Network<ActivityId>,
        from: u32,
        to: u32,
    ) -> RankRoute {
        let pair = (from, to, self.pace.map_or(0, |pace| pace.cap.to_bits()));
        let latest = self.latest.get(RankId::new(from));
        if let Some(way) = latest.filter(|way| way.pair == pair) {
            return *way;
        }
        let way =
            RankRoute { pair, latency: self.latency(from, to), group: self.group(network, pair) };
        if let Some(latest) = self.latest.get_mut(RankId::new(from)) {
            *latest = way;
        }
        way
    }

    fn group(&mut self, network: &mut Network<ActivityId>, pair: Pair) -> Option<GroupId> {
        if let Some(known) = self.groups.get(&pair) {
            return *known;
        }
        let (from, to, _) = pair;
        let (cap, efficiency) = match (self.pace, self.across(from, to)) {
            (Some(pace), _) => (pace.cap, 1.0),
            (None, true) => (self.transport.per_stream, self.transport.efficiency),
            (None, false) => (self.transport.per_stream_inside, 1.0),
        };
        let links = self.route(from, to);
        let group = (!links.is_empty() || cap.is_finite()).then(|| {
            let per_unit = 1.0 / efficiency;
            let route = links.into_iter().map(|link| Use { link, per_unit }).collect();
            network.group(Demand { route, weight: 1.0, cap })
        });
        self.groups.insert(pair, group);
        group
    }

    fn route(&self, from: u32, to: u32) -> Vec<LinkId> {
        let (out, into) = (self.ports.get(RankId::new(from)), self.ports.get(RankId::new(to)));
        let (Some(out), Some(into)) = (out, into) else {
            // To or from the node's switch, over the rank's own port.
            let ports = out.map(|port| &port.inside[0]).or(into.map(|port| &port.inside[1]));
            return ports.cloned().unwrap_or_default();
        };
        if out.node != into.node {
            let mut route = [&out.outside[0][..], &into.outside[1][..]].concat();
            if out.rack != into.rack {
                route.extend(out.uplink[0].iter().chain(&into.uplink[1]));
            }
            return route;
        }
        if out.server || into.server {
            return [&out.host[0][..], &into.host[1][..]].concat();
        }
        match out.ring {
            false if out.switch != into.switch => {
                [&out.inside[0][..], &out.above[0], &into.above[1], &into.inside[1]].concat()
            }
            false => [&out.inside[0][..], &into.inside[1][..]].concat(),
            true => self.around_ring(from, out.gpu, into.gpu, out.ranks),
        }
    }

    /// Returns the links from GPU to GPU along the shorter way around a ring. Each GPU has a link to the next one and a link
    /// to the one before.
    fn around_ring(&self, rank: u32, from: u32, to: u32, gpus: u32) -> Vec<LinkId> {
        let ahead = (to + gpus - from) % gpus;
        let first = rank - from;
        let at = |gpu: u32| &self.ports[RankId::new(first + gpu)];
        if ahead <= gpus - ahead {
            (0..ahead).flat_map(|i| at((from + i) % gpus).inside[0].clone()).collect()
        } else {
            let back = (0..gpus - ahead).map(|i| (from + gpus - i) % gpus);
            back.flat_map(|gpu| at(gpu).inside[1].clone()).collect()
        }
    }
}

/// Core-seconds of messages, and the cores that spend them.
#[derive(Debug, Clone)]
pub(crate) struct Overhead {
    pub(crate) cost: MessageCpu,
    /// Core-seconds that a server spends for each byte that it receives [core-s/B]; `servers` is the number of the first rank
    /// that is a server.
    pub(crate) update: f64,
    pub(crate) servers: u32,
    /// The cores of each rank's node, if messages from and to the rank use any.
    pub(crate) cores: Vec<Option<Cores>>,
    /// For each different entry of `cores`, a description from which an unshared copy of these cores can be made.
    pub(crate) idle: BTreeMap<Cores, IdleCores>,
}

/// The cores of a node while nothing else uses them.
#[derive(Debug, Clone)]
pub(crate) enum IdleCores {
    /// Number of cores that are used one by one, as servers of a FIFO station, up to a CPU quota [cores], which may be infinite.
    Slots { cores: u32, quota: f64 },
    /// Cores that threads share, up to a CPU quota [cores], which may be infinite.
    Shared { cores: Capacity, quota: f64 },
}

impl Overhead {
    /// Returns the cores that a message of `bytes` bytes uses at `rank`, and for how long [core-s]; `gets` is true at the
    /// receiver, false at the sender. `None` if the message needs no core time. Switches need no cores.
    pub(super) fn of(&self, rank: u32, bytes: u64, gets: bool) -> Option<(Cores, f64)> {
        let adds = gets && rank >= self.servers;
        let update = if adds { self.update * bytes as f64 } else { 0.0 };
        let seconds = self.cost.seconds(bytes as f64) + update;
        let cores = self.cores.get(rank as usize).copied().flatten()?;
        (seconds > 0.0).then_some((cores, seconds))
    }

    /// Returns the same overhead on copies of the cores. The copies are added to `network` and `stations`, and nothing else
    /// uses them.
    pub(super) fn alone(
        &self,
        network: &mut Network<ActivityId>,
        stations: &mut IdVec<StationId, Service>,
    ) -> Overhead {
        let idle = self.idle.iter().map(|(cores, idle)| (*cores, idle.make(network, stations)));
        let idle: BTreeMap<Cores, Cores> = idle.collect();
        let cores = self.cores.iter().map(|cores| idle.get(cores.as_ref()?).copied()).collect();
        Overhead { cores, idle: BTreeMap::new(), ..*self }
    }
}

impl IdleCores {
    fn make(
        &self,
        network: &mut Network<ActivityId>,
        stations: &mut IdVec<StationId, Service>,
    ) -> Cores {
        match self {
            IdleCores::Slots { cores, quota } => {
                let service = Delay::once(0.0);
                let station = stations.push(Service::new(Station::new(*cores), service));
                let limit = quota.is_finite().then_some(Capacity::Fixed(*quota));
                match limit {
                    None => Cores::Fifo(station),
                    Some(limit) => Cores::Paced(station, group([limit], network)),
                }
            }
            IdleCores::Shared { cores, quota } => {
                let quota = quota.is_finite().then_some(Capacity::Fixed(*quota));
                Cores::Shared(group([Some(cores.clone()), quota].into_iter().flatten(), network))
            }
        }
    }
}

/// Returns a group of flows over new links with these capacities.
fn group(
    capacities: impl IntoIterator<Item = Capacity>,
    network: &mut Network<ActivityId>,
) -> GroupId {
    let links = capacities.into_iter();
    let route = links.map(|cores| Use { link: network.link(cores), per_unit: 1.0 }).collect();
    network.group(Demand { route, weight: 1.0, cap: 1.0 })
}
