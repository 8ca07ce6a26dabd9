//! The links between the ranks of a job copy.

use std::collections::BTreeMap;

use crate::event::{ActivityId, Delay};
use crate::index::IdVec;
use crate::station::Service;
use crate::worker::Cores;
use forebay_engine::fluid::{Capacity, Demand, GroupId, LinkId, Network, Use};
use forebay_scenario::{Members, Transport};

use super::measured::Pace;
use super::message::{Message, Stage};
use super::overhead::Overhead;

/// Where a rank is, and its links: out of it, and into it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RankLinks {
    pub(crate) node: u32,
    pub(crate) rack: u32,
    /// Which GPU of its node, of how many that are ranks; these may be joined to a ring.
    pub(crate) gpu: u32,
    pub(crate) ranks: u32,
    pub(crate) ring: bool,
    /// Which switch of its node it is at.
    pub(crate) switch: u32,
    /// Towards ranks of its node.
    pub(crate) inside: [Vec<LinkId>; 2],
    /// Towards those at other switches of it, beside.
    pub(crate) above: [Vec<LinkId>; 2],
    /// Towards ranks of others.
    pub(crate) outside: [Vec<LinkId>; 2],
    /// Towards ranks of other racks, beside.
    pub(crate) uplink: [Vec<LinkId>; 2],
    /// Towards servers in the memory of its node; whether it is one of these itself.
    pub(crate) host: [Vec<LinkId>; 2],
    pub(crate) server: bool,
}

impl RankLinks {
    /// All its links.
    fn links(&self) -> impl Iterator<Item = &LinkId> {
        let all = [&self.inside, &self.above, &self.outside, &self.uplink, &self.host];
        all.into_iter().flatten().flatten()
    }

    /// The same on other links.
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

/// Sender, receiver, and the bits of the pace's cap.
type Pair = (u32, u32, u64);

/// How transfers go from one rank to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RankRoute {
    pair: Pair,
    pub(crate) latency: Delay,
    /// What their flows use; `None` where nothing limits them.
    pub(crate) group: Option<GroupId>,
}

/// Nobody sends to itself.
const NO_PAIR: Pair = (0, 0, 0);

/// How ranks reach each other. Flows between two of them have one demand, made when it is first needed.
#[derive(Debug)]
pub(crate) struct RankRoutes {
    ports: Vec<RankLinks>,
    transport: Transport,
    latency: [Delay; 2],
    /// By sender, receiver and pace.
    groups: BTreeMap<Pair, Option<GroupId>>,
    /// By sender, what it used last: most send to the same one again and again.
    latest: Vec<RankRoute>,
    /// How transfers go now, where not as the transport says.
    pace: Option<Pace>,
    /// What its links carry [B/s]; those of several ranks are named by each.
    capacities: Vec<(LinkId, f64)>,
    /// What messages cost cores, if anything.
    overhead: Option<Overhead>,
}

impl RankRoutes {
    /// Between `ports`, by rank; `latency` inside a node and across.
    pub(crate) fn new(
        ports: Vec<RankLinks>,
        transport: Transport,
        latency: [Delay; 2],
        capacities: Vec<(LinkId, f64)>,
        overhead: Option<Overhead>,
    ) -> RankRoutes {
        let none = RankRoute { pair: NO_PAIR, latency: latency[0], group: None };
        let (groups, pace, latest) = (BTreeMap::new(), None, vec![none; ports.len()]);
        RankRoutes { ports, transport, latency, groups, latest, pace, capacities, overhead }
    }

    /// Where a rank is.
    pub(crate) fn port(&self, rank: u32) -> &RankLinks {
        &self.ports[rank as usize]
    }

    /// The same between ranks that have `network` and the cores of their nodes for themselves.
    pub(super) fn alone(
        &self,
        network: &mut Network<ActivityId>,
        stations: &mut IdVec<Service>,
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

    /// Between `members` alone, from 0 on, with links like those of `network` in `own`; which of these is which.
    pub(super) fn among(
        &self,
        members: &Members,
        network: &Network<ActivityId>,
        own: &mut Network<ActivityId>,
    ) -> (RankRoutes, BTreeMap<LinkId, LinkId>) {
        let ports: Vec<&RankLinks> = self.ports_of(members).collect();
        let all = ports.iter().flat_map(|port| port.links());
        let mut links: BTreeMap<LinkId, LinkId> = all.map(|link| (*link, *link)).collect();
        for (link, copy) in &mut links {
            *copy = own.link(network.capacity(*link).clone());
        }
        let ports = ports.into_iter().map(|port| port.on(&links)).collect();
        let latency = self.latency.map(|delay| Delay { lane: None, ..delay });
        (RankRoutes::new(ports, self.transport, latency, Vec::new(), None), links)
    }

    fn ports_of(&self, members: &Members) -> impl Iterator<Item = &RankLinks> {
        members.gpus().map(|gpu| &self.ports[gpu as usize])
    }

    /// Links that transfers among `members` may use, or `None` where their time depends on more than these: on cores,
    /// or on GPUs between them on a ring.
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

    /// All links of its ranks.
    pub(crate) fn all_links(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.ports.iter().flat_map(RankLinks::links).copied()
    }

    /// Links of the way from one rank to another.
    pub(crate) fn links_between(&self, from: u32, to: u32) -> Vec<LinkId> {
        self.route(from, to)
    }

    /// From now on transfers go at this pace, or as the transport says.
    pub(crate) fn keep(&mut self, pace: Option<Pace>) {
        if self.pace != pace {
            // Latencies are another's now.
            self.latest.iter_mut().for_each(|way| way.pair = NO_PAIR);
        }
        self.pace = pace;
    }

    /// How a message gets a core at the end where it is, and for how long [core-s]; `None` if it needs none.
    pub(super) fn core_seconds(&self, message: &Message) -> Option<(Cores, f64)> {
        let gets = message.stage != Stage::Sending;
        let rank = if gets { message.to } else { message.from };
        self.overhead.as_ref()?.of(rank, message.bytes, gets)
    }

    /// Time to add so many bytes up [s].
    pub(super) fn sum(&self, bytes: u64) -> f64 {
        bytes as f64 / self.transport.sum
    }

    /// Latency of a transfer.
    fn latency(&self, from: u32, to: u32) -> Delay {
        match self.pace {
            Some(pace) => pace.latency,
            None => self.latency[usize::from(self.across(from, to))],
        }
    }

    /// Whether two ranks are on different nodes. A switch is on the node of whom it talks to.
    fn across(&self, from: u32, to: u32) -> bool {
        match (self.ports.get(from as usize), self.ports.get(to as usize)) {
            (Some(from), Some(to)) => from.node != to.node,
            _ => false,
        }
    }

    /// How transfers go from one rank to another.
    pub(crate) fn way(
        &mut self,
        network: &mut Network<ActivityId>,
        from: u32,
        to: u32,
    ) -> RankRoute {
        let pair = (from, to, self.pace.map_or(0, |pace| pace.cap.to_bits()));
        let latest = self.latest.get(from as usize);
        if let Some(way) = latest.filter(|way| way.pair == pair) {
            return *way;
        }
        let way =
            RankRoute { pair, latency: self.latency(from, to), group: self.group(network, pair) };
        if let Some(latest) = self.latest.get_mut(from as usize) {
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
        let (out, into) = (self.ports.get(from as usize), self.ports.get(to as usize));
        let (Some(out), Some(into)) = (out, into) else {
            // By the node's switch, each way through the rank's own port.
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

    /// Links from GPU to GPU the shorter way round: each has one to the next, and one to that before.
    fn around_ring(&self, rank: u32, from: u32, to: u32, gpus: u32) -> Vec<LinkId> {
        let ahead = (to + gpus - from) % gpus;
        let first = rank - from;
        let at = |gpu: u32| &self.ports[(first + gpu) as usize];
        if ahead <= gpus - ahead {
            (0..ahead).flat_map(|i| at((from + i) % gpus).inside[0].clone()).collect()
        } else {
            let back = (0..gpus - ahead).map(|i| (from + gpus - i) % gpus);
            back.flat_map(|gpu| at(gpu).inside[1].clone()).collect()
        }
    }
}
