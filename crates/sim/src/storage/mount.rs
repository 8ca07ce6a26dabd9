//! A storage as one node sees it: the routes of its bytes, and what a request passes.

use std::cell::RefCell;
use std::collections::BTreeMap;

use forebay_engine::fluid::{Demand, GroupId, LinkId, Network, Use};
use forebay_model::random::Sampler;
use forebay_scenario::{ReadCpu, Targets};

use crate::env::{ActivityId, Delay};
use crate::ids::{DiskHeadId, IdVec, LimiterId, RouteId, StationId, TableId, TurnsId};

/// A storage as one node sees it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Mount {
    /// Route of the bytes; `None` if nothing limits them.
    pub(crate) group: Option<GroupId>,
    /// Queueing station that limits the storage's operations; `None` if they are not limited.
    pub(crate) station: Option<StationId>,
    pub(crate) latency: RequestLatency,
    /// Alternative routes, if there are several; each request takes one of them instead of `group`.
    pub(crate) routes: Option<Box<Routes>>,
    /// Limiter of requests, if their rate is limited.
    pub(crate) limiter: Option<LimiterId>,
    /// Model of the storage's service in addition to links. While the storage serves a request, the bytes also pass the route
    /// `group`.
    pub(crate) service: ServiceModel,
    /// Core time of a request, in addition to its latency and transfer.
    pub(crate) cpu: ReadCpu,
    /// Time per byte of a request that is alone on its route [s/B], if the route includes the node's cores and is not much slower
    /// than a core; otherwise 0.
    pub(crate) alone: f64,
}

/// Model of how a storage serves requests, in addition to links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceModel {
    /// The storage consists of links only.
    None,
    /// The storage is modelled by a table of measured throughput.
    Table(TableId),
    /// The storage is modelled by a disk head.
    DiskHead(DiskHeadId),
    /// The storage consists of links only, and requests wait for their turn. With storage targets, this is the queue of the first one, and
    /// those of the others follow.
    Turns(TurnsId),
}

impl ServiceModel {
    /// Returns the model for requests that something else may slow: they take no turns.
    pub(crate) fn without_turns(self) -> ServiceModel {
        match self {
            ServiceModel::Turns(_) => ServiceModel::None,
            other => other,
        }
    }

    /// Returns the number of parts of a request that end by themselves: its transfer, if it is over a route, and its service.
    pub(crate) fn parts(self, has_route: bool) -> u8 {
        let by_itself = !matches!(self, ServiceModel::None | ServiceModel::Turns(_));
        u8::from(has_route) + u8::from(by_itself)
    }
}

/// Alternative routes of a storage's bytes; each request takes one of them.
#[derive(Debug)]
pub(crate) enum Routes {
    /// The route depends on the storage targets that serve the request.
    Striped(Striped),
    /// The route depends on the I/O queue of the worker.
    Queues(IoQueues),
}

/// The routes from a node to the targets of a parallel file system.
#[derive(Debug)]
pub(crate) struct Striped {
    targets: Targets,
    /// Number of files that were created before the files that this mount reads or writes.
    before: u64,
    /// The links of the targets.
    links: Vec<Use>,
    /// Link uses that all routes have in common.
    shared: Vec<Use>,
    /// Maximum rate of a request on a route [B/s].
    cap: f64,
    /// Routes by number. Each is made when it is first taken, because there are as many as targets times the stripe count.
    made: RefCell<BTreeMap<u32, GroupId>>,
}

impl Mount {
    /// Returns the first step of a request, if a request consists only of an operation, a latency and a transfer (or fewer of
    /// these); `None` otherwise.
    pub(crate) fn plain(&self) -> Option<First> {
        let first = match (self.station, &self.latency) {
            (Some(_), _) => First::Operation,
            (None, RequestLatency::None) => First::Transfer,
            (None, _) => First::Latency,
        };
        let plain = self.routes.is_none()
            && self.limiter.is_none()
            && self.service == ServiceModel::None
            && !self.costs_cpu();
        plain.then_some(first)
    }

    /// Returns the storage's I/O queues, if it has any.
    #[inline]
    pub(crate) fn queues(&self) -> Option<&IoQueues> {
        match self.routes.as_deref() {
            Some(Routes::Queues(queues)) => Some(queues),
            Some(Routes::Striped(_)) | None => None,
        }
    }

    /// Returns the mount for files that were created after `files` other files.
    pub(crate) fn after(mut self, files: u64) -> Mount {
        if let Some(Routes::Striped(striped)) = self.routes.as_deref_mut() {
            striped.before = files;
        }
        self
    }

    /// Returns whether receiving bytes takes core time.
    #[inline]
    pub(crate) fn costs_cpu(&self) -> bool {
        self.cpu != ReadCpu::default() || self.alone != 0.0
    }

    /// Returns the model of service of a request on route number `way`.
    #[inline]
    pub(crate) fn service_on(&self, way: u32) -> ServiceModel {
        match (self.service, self.routes.as_deref()) {
            (ServiceModel::Turns(of), Some(Routes::Striped(striped))) => {
                ServiceModel::Turns(of + striped.first_target(way))
            }
            (service, _) => service,
        }
    }

    /// Returns the route of the bytes; if there are several routes, the one with number `way`.
    #[inline]
    pub(crate) fn way(&self, network: &mut Network<ActivityId>, way: u32) -> Option<GroupId> {
        match self.routes.as_deref() {
            Some(Routes::Striped(striped)) => Some(striped.route(network, way)),
            Some(Routes::Queues(queues)) => queues.routes[RouteId::new(way)],
            None => self.group,
        }
    }

    /// Returns the route of a `file` of `bytes` bytes that is copied or written as a whole.
    pub(crate) fn way_of_file(
        &self,
        network: &mut Network<ActivityId>,
        file: u64,
        bytes: f64,
    ) -> Option<GroupId> {
        let way = match self.routes.as_deref() {
            Some(Routes::Striped(striped)) => striped.way(file, 0, bytes),
            Some(Routes::Queues(queues)) => queues.of(file),
            None => 0,
        };
        self.way(network, way)
    }
}

impl Striped {
    /// Returns the routes of files that are striped over `links`; all routes also use `shared`, and no request on them is faster than
    /// `cap` [B/s].
    pub(crate) fn new(targets: Targets, shared: Vec<Use>, links: Vec<Use>, cap: f64) -> Striped {
        Striped { targets, before: 0, links, shared, cap, made: RefCell::default() }
    }

    fn route(&self, network: &mut Network<ActivityId>, way: u32) -> GroupId {
        let make = || {
            let (first, serving) = (self.first_target(way), way % self.targets.stripe_count + 1);
            let stripe = |i: u32| {
                let target = self.links[(first + i) as usize % self.links.len()];
                Use { per_unit: target.per_unit / f64::from(serving), ..target }
            };
            let route = self.shared.iter().copied().chain((0..serving).map(stripe)).collect();
            network.group(Demand { route, weight: 1.0, cap: self.cap })
        };
        *self.made.borrow_mut().entry(way).or_insert_with(make)
    }

    /// Returns the number of the first target on route number `way`.
    fn first_target(&self, way: u32) -> u32 {
        way / self.targets.stripe_count
    }

    /// Returns the number of the route that request number `request` of `file` takes, for `bytes` bytes.
    pub(crate) fn way(&self, file: u64, request: u32, bytes: f64) -> u32 {
        let serving = self.targets.serving(bytes);
        self.way_from(file, u64::from(request) * u64::from(serving), bytes)
    }

    /// Returns the number of the route that a request for `bytes` bytes at position `offset` [B] of `file` takes.
    pub(crate) fn way_at(&self, file: u64, offset: f64, bytes: f64) -> u32 {
        // Float-to-integer casts saturate.
        self.way_from(file, (offset / self.targets.stripe_size) as u64, bytes)
    }

    /// Returns the number of the route of a request for `bytes` bytes of `file` that begins at stripe number `stripe`.
    fn way_from(&self, file: u64, stripe: u64, bytes: f64) -> u32 {
        let Targets { number, stripe_count, .. } = self.targets;
        let serving = self.targets.serving(bytes);
        let offset = stripe % u64::from(stripe_count);
        let first =
            (self.targets.first(self.before.wrapping_add(file)) + offset) % u64::from(number);
        first as u32 * stripe_count + serving - 1
    }
}

/// Time from request to first byte, network round trip included.
#[derive(Debug)]
pub(crate) enum RequestLatency {
    None,
    Constant(Delay),
    Drawn(Box<Sampler>, f64),
}

impl RequestLatency {
    /// Returns whether every request has the same latency.
    pub(crate) fn is_constant(&self) -> bool {
        !matches!(self, RequestLatency::Drawn(..))
    }
}

/// The first step of a plain read, which consists of an operation, a latency and a transfer, or fewer of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    Operation,
    Latency,
    Transfer,
}

/// The I/O queues of a node, as one loader uses them.
#[derive(Debug)]
pub(crate) struct IoQueues {
    /// For each queue, a station whose servers are the queue's slots.
    pub(crate) slots: IdVec<RouteId, StationId>,
    /// For each queue, its own link, if its bandwidth is limited.
    pub(crate) links: Vec<Option<LinkId>>,
    /// For each queue, the route of its bytes; `None` if nothing limits them.
    pub(crate) routes: IdVec<RouteId, Option<GroupId>>,
    /// Number of the queue that the loader's first worker uses.
    pub(crate) first: u32,
}

impl IoQueues {
    /// Returns the number of the queue of the loader's worker number `worker`. For files that no worker reads, `worker` is the
    /// number of the file.
    pub(crate) fn of(&self, worker: u64) -> u32 {
        ((u64::from(self.first) + worker) % self.slots.len() as u64) as u32
    }
}
