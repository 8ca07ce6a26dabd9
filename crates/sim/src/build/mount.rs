//! Storage, as a node or a background load sees it.

use std::sync::Arc;

use crate::arm::Arm;
use crate::index::{ArmId, LimiterId, StationId, TableId};
use crate::limiter::Limiter;
use crate::read::{Mount, Own, RequestLatency, Striped};
use crate::resource::Member;
use crate::station::Service;
use crate::station::Station;
use crate::table::Table;
use forebay_engine::fluid::{Capacity, LinkId, Use};
use forebay_model::law::Throughput;
use forebay_model::random::Sampler;
use forebay_scenario::storage::Bandwidth;
use forebay_scenario::{Distribution, RequestLimit, Targets};

use super::Builder;
use super::medium::{Medium, Rest};

/// Where a storage's requests and bytes go.
#[derive(Debug, Clone)]
pub(super) struct Backend {
    pub(super) station: Option<StationId>,
    pub(super) link: Option<LinkId>,
    /// What a byte that is written to it uses.
    pub(super) write: Option<Use>,
    /// By storage target.
    targets: Vec<LinkId>,
    limiter: Option<LimiterId>,
    pub(super) own: Own,
}

/// Who uses a storage.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Client {
    /// A node, over its NIC where the storage is remote, with requests of this mean size [B].
    Node(f64),
    /// A node that copies it to a tier of its own, over its NIC likewise.
    Copy,
    /// A node that writes to it, over its NIC the other way.
    Writer,
    /// A server on a node of its own that writes to it, over this NIC, if that is limited.
    Server(Option<LinkId>),
    /// A background load, from elsewhere.
    Background,
}

impl Builder<'_> {
    /// Storage `index` as one more client sees it, what its bytes use on their way, which goes on
    /// over `beyond`, and what is left of its times.
    pub(super) fn mount(
        &mut self,
        index: usize,
        client: Client,
        beyond: Option<Use>,
    ) -> (Mount, Vec<Use>, Rest) {
        let mut medium = Medium::of(&self.scenario.storage[index].kind);
        let rest = match client {
            Client::Node(request) => medium.take_cpu(request),
            Client::Copy | Client::Writer | Client::Server(_) | Client::Background => {
                Rest::default()
            }
        };
        let backend = if medium.remote || client == Client::Background {
            self.server(index, &medium)
        } else {
            self.disk(index, &medium)
        };
        let writes = matches!(client, Client::Writer | Client::Server(_));
        let used = if writes { backend.write } else { backend.link.map(whole) };
        let mut route: Vec<Use> = used.into_iter().collect();
        if let Client::Server(nic) = client {
            route.extend(nic.map(whole));
        } else if medium.remote && client != Client::Background {
            route.extend(self.data_nic(writes).map(whole));
        }
        route.extend(beyond);
        let limited = !route.is_empty() || medium.per_stream.is_finite();
        let striped = medium
            .targets
            .map(|of| Box::new(self.striped(of, &route, &backend.targets, medium.per_stream)));
        let mount = Mount {
            striped,
            limiter: backend.limiter,
            own: backend.own,
            station: backend.station,
            latency: self.latency(&medium, rest.latency),
            group: limited.then(|| self.way(route.clone(), medium.per_stream)),
            cpu: rest.cpu,
            alone: 0.0,
        };
        (mount, route, rest)
    }

    /// The ways of files that are striped over `links`, beside the way `shared` by all.
    fn striped(&mut self, targets: Targets, shared: &[Use], links: &[LinkId], cap: f64) -> Striped {
        let mut ways = Vec::new();
        for first in 0..links.len() {
            for serving in 1..=targets.stripe_count as usize {
                let stripe = |i: usize| Use {
                    link: links[(first + i) % links.len()],
                    per_unit: 1.0 / serving as f64,
                };
                let route = shared.iter().copied().chain((0..serving).map(stripe)).collect();
                ways.push(self.way(route, cap));
            }
        }
        Striped { targets, before: 0, ways }
    }

    /// The storage that all nodes share.
    fn server(&mut self, index: usize, medium: &Medium) -> Backend {
        if let Some(known) = &self.shared[index] {
            return known.clone();
        }
        let made = self.backend(index, medium);
        self.shared[index] = Some(made.clone());
        made
    }

    /// The storage of the node being built.
    pub(super) fn disk(&mut self, index: usize, medium: &Medium) -> Backend {
        let known = self.on_nodes.get(&self.node).and_then(|node| node.disks.get(&index));
        if let Some(known) = known {
            return known.clone();
        }
        let made = self.backend(index, medium);
        let node = self.on_nodes.entry(self.node).or_default();
        node.disks.insert(index, made.clone());
        made
    }

    /// Latency with what comes on top of what the storage's kind says, which may be less than 0.
    pub(super) fn latency(&mut self, medium: &Medium, more: f64) -> RequestLatency {
        // What was measured was so behind the network.
        let behind = medium.remote && medium.table.is_none();
        let round_trip = if behind { 2.0 * self.scenario.cluster.latency } else { 0.0 };
        let round_trip = round_trip + more;
        let sampler = Sampler::new(medium.latency.unwrap_or(&Distribution::Constant(0.0)));
        match sampler.is_constant().map(|latency| latency + round_trip) {
            None => RequestLatency::Drawn(Box::new(sampler), round_trip),
            Some(seconds) if seconds <= 0.0 => RequestLatency::None,
            Some(seconds) => RequestLatency::Constant(self.recurring(seconds)),
        }
    }

    /// The storage's own station and link.
    fn backend(&mut self, index: usize, medium: &Medium) -> Backend {
        let name = &self.scenario.storage[index].name;
        let station = medium.operations.is_finite().then(|| {
            let service = self.recurring(1.0 / medium.operations);
            self.station(Service { queue: Station::new(1), service })
        });
        if let Some(station) = station {
            let name = format!("{name}.operations");
            self.resource(&name, "1/s", medium.operations, Member::Station(station));
        }
        let most = medium.most();
        let link = most.is_finite().then(|| {
            self.env.network.link(match medium.bandwidth {
                Bandwidth::Fixed(rate) => Capacity::Fixed(*rate),
                Bandwidth::ByTransfers(table) => Capacity::ByFlows(table.clone()),
            })
        });
        if let Some(link) = link {
            self.resource(&format!("{name}.bandwidth"), "B/s", most, Member::Link(link));
        }
        let write = self.written(index, link, most);
        let targets = medium.targets.map_or(Vec::new(), |of| self.targets(name, of));
        let limiter = medium.limit.map(|limit| self.limiter(name, limit));
        let own = match (medium.table, medium.arm) {
            (Some(of), _) => Own::Table(self.table(name, of)),
            (_, Some((seek, rate))) => Own::Arm(self.arm(name, seek, rate)),
            _ => Own::None,
        };
        Backend { station, link, write, targets, limiter, own }
    }

    /// The arm of a disk.
    fn arm(&mut self, storage: &str, seek: f64, rate: f64) -> ArmId {
        let number = self.env.storages.arms.push(Arm::new(seek, rate));
        self.resource(&format!("{storage}.arm"), "arms", 1.0, Member::Arm(number));
        number
    }

    /// What serves requests as was measured.
    fn table(&mut self, storage: &str, of: &Arc<Throughput>) -> TableId {
        let number = self.env.storages.tables.push(Table::new(of.clone()));
        self.resource(&format!("{storage}.measured"), "B/s", of.most(), Member::Table(number));
        number
    }

    /// What a byte that is written to storage `index` uses: of the link of its reads, which carries
    /// `most`, as much as keeps it busy for as long as the write takes.
    fn written(&mut self, index: usize, link: Option<LinkId>, most: f64) -> Option<Use> {
        let storage = &self.scenario.storage[index];
        let rate = storage.tier.and_then(|tier| tier.write);
        match (link, rate) {
            (Some(link), rate) => Some(Use { link, per_unit: most / rate.unwrap_or(most) }),
            (None, Some(rate)) => {
                let link = self.env.network.link(Capacity::Fixed(rate));
                let name = format!("{}.write_bandwidth", storage.name);
                self.resource(&name, "B/s", rate, Member::Link(link));
                Some(whole(link))
            }
            (None, None) => None,
        }
    }

    /// What lets requests to an object store through.
    fn limiter(&mut self, storage: &str, limit: RequestLimit) -> LimiterId {
        let number = self.env.storages.limiters.push(Limiter::new(limit));
        let name = format!("{storage}.requests");
        self.resource(&name, "1/s", limit.rate, Member::Limiter(number));
        number
    }

    /// The targets of a parallel file system.
    fn targets(&mut self, storage: &str, of: Targets) -> Vec<LinkId> {
        let mut one = || {
            let link = self.env.network.link(Capacity::Fixed(of.bandwidth));
            let name = format!("{storage}.target");
            self.resource(&name, "B/s", of.bandwidth, Member::Link(link));
            link
        };
        (0..of.number).map(|_| one()).collect()
    }
}

/// A link that every byte passes once.
pub(super) fn whole(link: LinkId) -> Use {
    Use { link, per_unit: 1.0 }
}
