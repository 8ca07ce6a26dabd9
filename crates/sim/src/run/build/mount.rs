//! Storages as nodes and background loads see them.

use std::sync::Arc;

use forebay_engine::fluid::{Capacity, LinkId, Use};
use forebay_model::law::Throughput;
use forebay_model::random::Sampler;
use forebay_report::{Owner, Part, Resource};
use forebay_scenario::storage::Bandwidth;
use forebay_scenario::{Queues, ReadCpu, RequestLimit, RequestPath, Sharing, Targets};

use super::Builder;
use super::sync::LinkPlace;
use crate::env::{Service, Station, TokenBucket};
use crate::ids::{DiskHeadId, IdVec, LimiterId, StationId, TableId};
use crate::run::resource::Member;
use crate::storage::{
    DiskHead, IoQueues, Limiter, Mount, RequestLatency, Routes, ServiceModel, Striped, Table, Turns,
};

/// The components that serve a storage's requests and bytes.
#[derive(Debug, Clone)]
pub(in crate::run) struct Backend {
    pub(in crate::run) station: Option<StationId>,
    pub(in crate::run) link: Option<LinkId>,
    /// Link use of each byte written to the storage; `None` if writing is not limited.
    pub(in crate::run) write: Option<Use>,
    /// The links of the storage targets, one for each target.
    targets: Vec<LinkId>,
    limiter: Option<LimiterId>,
    pub(in crate::run) service: ServiceModel,
}

/// The user of a storage, which determines the route of the bytes.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::run) enum Client {
    /// A node that reads over its NIC if the storage is remote, with requests of the given mean size [B].
    Node(f64),
    /// A node that copies from the storage to a tier of its own, over its NIC if the storage is remote.
    Copy,
    /// A node that reads back what it has written, over its NIC if the storage is remote. Its page cache holds none of it.
    ReadBack,
    /// A node that writes to the storage, over the outgoing direction of its NIC; each of its writers at most at the rate `most`
    /// [B/s]. It is `alone` if no other node does the same.
    Writer { most: f64, alone: bool },
    /// A parameter server on a node of its own that writes to the storage, or reads from it, over the given direction of its NIC;
    /// `None` if the NIC is not limited. It writes at most at the rate `most` [B/s].
    Server { nic: Option<LinkId>, writes: bool, most: f64 },
    /// A background load from outside the cluster.
    Background,
}

impl Builder<'_> {
    /// Returns three things for one more client of storage `index`: the mount; the route of the bytes; and the latency and core
    /// use that remain after a request's core-seconds have been taken out of its time. If `beyond` is set, it is the last link
    /// use of the route.
    pub(in crate::run) fn mount(
        &mut self,
        index: usize,
        client: Client,
        beyond: Option<Use>,
    ) -> (Mount, Vec<Use>, Rest) {
        let storage = &self.scenario.storage[index];
        let reads_data = matches!(client, Client::Node(_) | Client::Copy);
        let warm = storage.warm.as_ref().filter(|_| reads_data);
        let mut model = StorageModel::new(warm.unwrap_or(&storage.path));
        let rest = match client {
            Client::Node(request) => model.take_cpu(request),
            Client::Copy
            | Client::ReadBack
            | Client::Writer { .. }
            | Client::Server { .. }
            | Client::Background => Rest::default(),
        };
        let backend = if warm.is_some() {
            self.warm(index, &model)
        } else if model.remote || client == Client::Background {
            self.server(index, &model)
        } else {
            self.disk(index, &model)
        };
        let writer = match client {
            Client::Writer { most, .. } | Client::Server { writes: true, most, .. } => Some(most),
            _ => None,
        };
        let writes = writer.is_some();
        if let Some(most) = writer {
            model.per_stream = storage.writes.per_stream.unwrap_or(model.per_stream).min(most);
        }
        let apart = storage.writes.per_client.filter(|_| writes);
        if let Client::Server { .. } = client {
            // A server is a client of one stream.
            model.per_stream = model.per_stream.min(apart.unwrap_or(storage.path.per_client));
        }
        let used = if writes { backend.write } else { backend.link.map(whole) };
        let share = if model.remote { self.share_of(client) } else { 1.0 };
        let used = used.map(|used| Use { per_unit: share * used.per_unit, ..used });
        let mut route: Vec<Use> = used.into_iter().collect();
        if let Client::Server { nic, .. } = client {
            route.extend(nic.map(whole));
        } else if model.remote && client != Client::Background {
            let link = match apart {
                Some(most) => self.client_link((index, Part::ClientWrites), most),
                None => self.client_link((index, Part::Client), model.path.per_client),
            };
            route.extend(link.map(whole));
            route.extend(self.data_nic(writes).map(whole));
        }
        route.extend(warm.and_then(|_| self.page_cache_link()).map(whole));
        route.extend(beyond);
        let limited = !route.is_empty() || model.per_stream.is_finite();
        let queues = match client {
            Client::Node(_) | Client::Copy | Client::ReadBack | Client::Writer { .. } => {
                model.path.queues
            }
            Client::Server { .. } | Client::Background => None,
        };
        let routes = match (model.path.targets, queues) {
            (Some(of), _) => {
                let (shared, links) = (route.clone(), backend.targets);
                let links = links.into_iter().map(|link| Use { per_unit: share, ..whole(link) });
                Some(Routes::Striped(Striped::new(of, shared, links.collect(), model.per_stream)))
            }
            (None, Some(of)) => Some(Routes::Queues(self.io_queues(index, of, &route, &model))),
            (None, None) => None,
        };
        let mount = Mount {
            routes: routes.map(Box::new),
            limiter: backend.limiter,
            service: backend.service,
            station: backend.station,
            latency: self.latency(&model, rest.latency),
            group: limited.then(|| self.way(route.clone(), model.per_stream)),
            cpu: rest.cpu,
            alone: 0.0,
        };
        (mount, route, rest)
    }

    /// Returns the part of a shared storage's capacity that a byte of `client` takes. A storage that serves a sample of nodes has the
    /// capacity of their share, of which a client that no node is like takes no more than of the whole.
    fn share_of(&self, client: Client) -> f64 {
        match client {
            Client::Writer { alone: true, .. } => self.sampled_share(),
            _ => 1.0,
        }
    }

    /// Returns the share of the nodes that are simulated.
    pub(in crate::run) fn sampled_share(&self) -> f64 {
        self.sample.map_or(1.0, |sample| sample.share)
    }

    /// Returns the link for a `part` of what storage `index` gives the node being built, at most `bandwidth` [B/s]; `None` if that is
    /// infinite.
    fn client_link(&mut self, (index, part): (usize, Part), bandwidth: f64) -> Option<LinkId> {
        let place = LinkPlace { what: Resource::storage(index, part), index: 0, of: self.node };
        bandwidth.is_finite().then(|| self.link_at(place, bandwidth))
    }

    /// Returns the I/O queues of the node being built to storage `index`; the route of each queue consists of `route` and the
    /// queue's own link.
    fn io_queues(
        &mut self,
        index: usize,
        of: Queues,
        route: &[Use],
        model: &StorageModel<'_>,
    ) -> IoQueues {
        let queues = self.queues_of_node(index, of);
        let mut routes = IdVec::default();
        for link in &queues.links {
            let route: Vec<Use> = route.iter().copied().chain(link.map(whole)).collect();
            let limited = !route.is_empty() || model.per_stream.is_finite();
            routes.push(limited.then(|| self.way(route, model.per_stream)));
        }
        IoQueues {
            slots: queues.slots.into_iter().collect(),
            links: queues.links,
            routes,
            first: 0,
        }
    }

    /// Returns the components of a storage that all nodes share, and adds them at the first call.
    fn server(&mut self, index: usize, model: &StorageModel) -> Backend {
        if let Some(known) = &self.shared[index] {
            return known.clone();
        }
        let made = self.backend(index, model, Owner::Storage(index));
        self.shared[index] = Some(made.clone());
        made
    }

    /// Returns the components of a storage that each node has for itself (a local disk), for the node being built; adds them at
    /// the first call.
    pub(in crate::run) fn disk(&mut self, index: usize, model: &StorageModel) -> Backend {
        let known = self.on_nodes.get(&self.node).and_then(|node| node.disks.get(&index));
        if let Some(known) = known {
            return known.clone();
        }
        let made = self.backend(index, model, Owner::Storage(index));
        let node = self.on_nodes.entry(self.node).or_default();
        node.disks.insert(index, made.clone());
        made
    }

    /// Returns the components that serve the files of a storage that the page cache of the node being built holds from the start;
    /// adds them at the first call.
    fn warm(&mut self, index: usize, model: &StorageModel) -> Backend {
        let known = self.on_nodes.get(&self.node).and_then(|node| node.warm.get(&index));
        if let Some(known) = known {
            return known.clone();
        }
        let made = self.backend(index, model, Owner::WarmFiles(index));
        self.on_nodes.entry(self.node).or_default().warm.insert(index, made.clone());
        made
    }

    /// Returns the latency of the storage's request path plus `more` [s], which may be negative.
    pub(in crate::run) fn latency(&mut self, model: &StorageModel, more: f64) -> RequestLatency {
        // A measured latency already includes the network.
        let behind = model.remote && model.path.measured().is_none();
        let round_trip = if behind { 2.0 * self.scenario.cluster.latency } else { 0.0 };
        let round_trip = round_trip + more;
        let sampler = Sampler::new(&model.path.latency);
        match sampler.is_constant().map(|latency| latency + round_trip) {
            None => RequestLatency::Drawn(Box::new(sampler), round_trip),
            Some(seconds) if seconds <= 0.0 => RequestLatency::None,
            Some(seconds) => RequestLatency::Constant(self.recurring(seconds)),
        }
    }

    /// Adds the components that serve requests to storage `index`, such as its station and link; they belong to `owner`.
    fn backend(&mut self, index: usize, model: &StorageModel, owner: Owner) -> Backend {
        let of = |part| Resource { owner, part };
        let station = model.path.operations.is_finite().then(|| {
            let service = self.recurring(1.0 / model.path.operations);
            self.station(
                Service::new(Station::new(1), service).with_tokens(model.path.operation_burst),
            )
        });
        if let Some(station) = station {
            let operations = of(Part::Operations);
            self.resource(operations, "1/s", model.path.operations, Member::Station(station));
        }
        let most = model.most();
        let link = most.is_finite().then(|| {
            self.env.network.link(match model.bandwidth() {
                Bandwidth::Fixed(rate) => Capacity::Fixed(*rate),
                Bandwidth::ByTransfers(table) => Capacity::ByFlows(table.clone()),
            })
        });
        if let Some(link) = link {
            self.resource(of(Part::Bandwidth), "B/s", most, Member::Link(link));
            if let Some(burst) = model.path.burst {
                self.env.buckets.push(TokenBucket::new(link, most, burst));
            }
        }
        let write = self.written(index, link, most);
        let targets = model.path.targets.map_or(Vec::new(), |all| self.targets(owner, all));
        let limiter = model.path.limit.map(|limit| self.limiter(owner, limit));
        let service = match (model.path.measured(), model.disk_head()) {
            (Some(table), _) => ServiceModel::Table(self.table(owner, table)),
            (None, Some((seek, rate))) => ServiceModel::DiskHead(self.disk_head(owner, seek, rate)),
            (None, None) => self.turns(model),
        };
        Backend { station, link, write, targets, limiter, service }
    }

    /// Adds the turns of a storage where requests wait for them, or of each of its targets; returns no model of service for others.
    fn turns(&mut self, model: &StorageModel) -> ServiceModel {
        let number = match model.path.targets {
            Some(targets) => targets.number,
            None => u32::from(model.most().is_finite()),
        };
        let in_flight = model.path.in_flight(self.scenario.cluster.data_nic());
        let Some(in_flight) = in_flight.filter(|_| number > 0) else {
            return ServiceModel::None;
        };
        let turns = &mut self.parts.loaders.storages.turns;
        let first = turns.next_id();
        for _ in 0..number {
            let (piece, id) = (model.path.sharing.piece(), turns.next_id());
            turns.push(Turns::new(in_flight, piece).with_overhead(id, model.path.overhead));
        }
        ServiceModel::Turns(first)
    }

    /// Adds a disk head.
    fn disk_head(&mut self, owner: Owner, seek: f64, rate: f64) -> DiskHeadId {
        let number = self.parts.loaders.storages.disk_heads.push(DiskHead::new(seek, rate));
        let arm = Resource { owner, part: Part::Arm };
        self.resource(arm, "arms", 1.0, Member::DiskHead(number));
        number
    }

    /// Adds a table of measured throughput.
    fn table(&mut self, owner: Owner, of: &Arc<Throughput>) -> TableId {
        let number = self.parts.loaders.storages.tables.push(Table::new(of.clone()));
        let measured = Resource { owner, part: Part::Measured };
        self.resource(measured, "B/s", of.most(), Member::Table(number));
        number
    }

    /// Returns the link use of each byte written to storage `index`; `None` if writes are not limited. If reads and writes
    /// share a link, of bandwidth `most`, a write occupies the link for as long as the write takes at its own bandwidth.
    fn written(&mut self, index: usize, link: Option<LinkId>, most: f64) -> Option<Use> {
        let storage = &self.scenario.storage[index];
        let rate = storage.tier.and_then(|tier| tier.write);
        match (link, rate) {
            (Some(link), rate) => Some(Use { link, per_unit: most / rate.unwrap_or(most) }),
            (None, Some(rate)) => {
                let link = self.env.network.link(Capacity::Fixed(rate));
                let written = Resource::storage(index, Part::WriteBandwidth);
                self.resource(written, "B/s", rate, Member::Link(link));
                Some(whole(link))
            }
            (None, None) => None,
        }
    }

    /// Adds a limiter of requests to an object store.
    fn limiter(&mut self, owner: Owner, limit: RequestLimit) -> LimiterId {
        let number = self.parts.loaders.storages.limiters.push(Limiter::new(limit));
        let requests = Resource { owner, part: Part::Requests };
        self.resource(requests, "1/s", limit.rate, Member::Limiter(number));
        number
    }

    /// Adds the targets of a parallel file system.
    fn targets(&mut self, owner: Owner, of: Targets) -> Vec<LinkId> {
        let mut one = || {
            let link = self.env.network.link(Capacity::Fixed(of.bandwidth));
            let target = Resource { owner, part: Part::Target };
            self.resource(target, "B/s", of.bandwidth, Member::Link(link));
            link
        };
        (0..of.number).map(|_| one()).collect()
    }
}

/// Returns the use of a link that every byte passes once.
pub(in crate::run) fn whole(link: LinkId) -> Use {
    Use { link, per_unit: 1.0 }
}

/// A bandwidth that does not limit transfers.
const UNLIMITED: &Bandwidth = &Bandwidth::Fixed(f64::INFINITY);

/// A storage's request path, from which the components for one client are built.
pub(in crate::run) struct StorageModel<'s> {
    pub(in crate::run) path: &'s RequestPath,
    /// Maximum throughput of a single transfer over links [B/s].
    pub(in crate::run) per_stream: f64,
    /// Whether the storage is reached over the network.
    pub(in crate::run) remote: bool,
}

/// The result of taking a request's core-seconds out of a storage's times: a correction of the latency, and the way in which
/// the core-seconds are spent.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::run) struct Rest {
    /// Correction of the latency [s]; may be negative.
    pub(in crate::run) latency: f64,
    /// Core-seconds that are spent apart from the transfer.
    pub(in crate::run) cpu: ReadCpu,
    /// Core use during the transfer of bytes, if the transfer keeps a core busy.
    pub(in crate::run) coupled: Option<Coupled>,
}

/// Use of a core during the transfer of bytes.
#[derive(Debug, Clone, Copy)]
pub(in crate::run) struct Coupled {
    /// Core-seconds for each byte [s/B].
    pub(in crate::run) cpu: f64,
    /// Time per byte of a request that has the storage to itself [s/B].
    pub(in crate::run) alone: f64,
}

impl<'s> StorageModel<'s> {
    /// Returns the model of a storage with this request path.
    pub(in crate::run) fn new(path: &'s RequestPath) -> StorageModel<'s> {
        let on_links = path.seek().is_none();
        StorageModel {
            path,
            per_stream: if on_links { path.per_stream } else { f64::INFINITY },
            remote: path.is_remote(),
        }
    }

    /// Returns the bandwidth of the link that all transfers share [B/s].
    pub(in crate::run) fn bandwidth(&self) -> &'s Bandwidth {
        if self.path.seek().is_some() { UNLIMITED } else { &self.path.bandwidth }
    }

    /// Returns a disk head's seek time [s] and the throughput after the seek [B/s]; `None` if the storage is not modelled with
    /// a disk head.
    pub(in crate::run) fn disk_head(&self) -> Option<(f64, f64)> {
        let alone = self.path.bandwidth.alone().min(self.path.per_stream);
        self.path.seek().map(|seek| (seek, alone))
    }
}

impl StorageModel<'_> {
    /// Takes a request's core-seconds, which its measured time includes, out of the latency and the time per byte. If the
    /// core-seconds exceed one of these two, the other one is reduced instead, for requests of `size` bytes.
    ///
    /// Links may be so slow that the time per byte cannot be reduced by the whole core time per byte. Then the latency is
    /// reduced by the missing part. But if the latency is too short for that, or if the core time is more than half of the time
    /// per byte, the transfer keeps a core busy while it lasts instead. If one reader fills a storage where requests wait for their
    /// turn, only the second of these counts: the storage does not wait for cores between requests.
    pub(in crate::run) fn take_cpu(&mut self, size: f64) -> Rest {
        let cpu = self.path.cpu;
        if cpu == ReadCpu::default() {
            return Rest::default();
        }
        let latency = self.path.latency.mean();
        let (mut fixed, mut per_byte) = (latency - cpu.fixed, 1.0 / self.per_stream);
        if fixed < 0.0 {
            per_byte += fixed / size;
            fixed = 0.0;
        }
        let least = 1.0 / self.peak();
        let waits_in_turn = self.path.sharing != Sharing::Fair && per_byte <= least;
        // `missing` is the part of a core's time per byte that cannot be taken out of the transfer time, because the links are
        // too slow for that.
        let (alone, missing) = (per_byte.max(least), least - (per_byte.max(least) - cpu.per_byte));
        let mostly =
            cpu.per_byte > alone.max(least) / 2.0 || missing * size > fixed && !waits_in_turn;
        if mostly && cpu.per_byte > 0.0 && missing > 0.0 {
            let coupled = Some(self.couple(per_byte, least));
            let cpu = ReadCpu { per_byte: 0.0, ..cpu };
            return Rest { latency: fixed - latency, cpu, coupled };
        }
        if missing > 0.0 {
            fixed -= missing * size;
        }
        fixed += self.keep_apart(per_byte) * size;
        Rest { latency: fixed.max(0.0) - latency, cpu, coupled: None }
    }

    /// Lets a transfer keep a core busy while it lasts. A transfer that is alone takes `per_byte` by its measured time, and at
    /// least `least` over the links [s/B].
    fn couple(&mut self, per_byte: f64, least: f64) -> Coupled {
        let alone = per_byte.max(self.path.cpu.per_byte);
        self.per_stream = 1.0 / alone;
        Coupled { cpu: self.path.cpu.per_byte, alone: alone.max(least) }
    }

    /// Takes the core time per byte out of `per_byte` [s/B], since the core works after the bytes have arrived. Returns the
    /// excess as a negative number if the core time per byte is larger than `per_byte`, otherwise 0.
    fn keep_apart(&mut self, per_byte: f64) -> f64 {
        let per_byte = per_byte - self.path.cpu.per_byte;
        // With no time left per byte, a stream has no cap.
        self.per_stream = if per_byte > 0.0 { 1.0 / per_byte } else { f64::INFINITY };
        per_byte.min(0.0)
    }

    /// Returns the maximum throughput of all transfers together at any time, bursts included [B/s].
    fn peak(&self) -> f64 {
        if self.path.seek().is_some() { f64::INFINITY } else { self.path.peak() }
    }

    /// Returns the maximum throughput of all transfers together [B/s].
    pub(in crate::run) fn most(&self) -> f64 {
        self.bandwidth().most()
    }
}
