//! A storage as one node sees it.

use crate::event::Delay;
use crate::index::{DiskHeadId, LimiterId, StationId, TableId, WorkerId};
use crate::loaders::Loaders;
use forebay_engine::fluid::GroupId;
use forebay_model::random::Sampler;
use forebay_scenario::{Layout, ReadCpu, Targets};

use super::plain::First;
use super::queue::IoQueues;

/// A storage as one node sees it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Mount {
    /// The bytes' way; `None` where nothing limits them.
    pub(crate) group: Option<GroupId>,
    /// Operation station, where operations are limited.
    pub(crate) station: Option<StationId>,
    pub(crate) latency: RequestLatency,
    /// Where requests have several routes to choose from; then `group` is none of them.
    pub(crate) routes: Option<Box<Routes>>,
    /// What lets requests through, where they are limited.
    pub(crate) limiter: Option<LimiterId>,
    /// What serves requests beside links; their bytes pass `group` at the same time.
    pub(crate) service: ServiceModel,
    /// What a request costs the node's cores, beside the latency and the bytes' way.
    pub(crate) cpu: ReadCpu,
    /// Where the bytes' way is over the node's cores too: time per byte of a request that has it to
    /// itself [s/B]; otherwise 0.
    pub(crate) alone: f64,
}

/// What serves the requests to a storage beside links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceModel {
    /// Nothing.
    None,
    /// What was measured.
    Table(TableId),
    /// A disk's arm.
    DiskHead(DiskHeadId),
}

/// Routes that a request's bytes choose from.
#[derive(Debug)]
pub(crate) enum Routes {
    /// By the targets that serve it.
    Striped(Striped),
    /// By the I/O queue of its worker.
    Queues(IoQueues),
}

/// The ways of a node to the targets of a parallel file system.
#[derive(Debug)]
pub(crate) struct Striped {
    pub(crate) targets: Targets,
    /// Files that were made before those that are read or written.
    pub(crate) before: u64,
    /// By first target, then by how many serve together.
    pub(crate) ways: Vec<GroupId>,
}

impl Mount {
    /// What a request begins with, if it is an operation, a delay and a transfer at most.
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

    /// Its I/O queues, if it has any.
    #[inline]
    pub(crate) fn queues(&self) -> Option<&IoQueues> {
        match self.routes.as_deref() {
            Some(Routes::Queues(queues)) => Some(queues),
            Some(Routes::Striped(_)) | None => None,
        }
    }

    /// With files that were made after so many others.
    pub(crate) fn after(mut self, files: u64) -> Mount {
        if let Some(Routes::Striped(striped)) = self.routes.as_deref_mut() {
            striped.before = files;
        }
        self
    }

    /// Whether bytes that have come cost time of a core.
    #[inline]
    pub(super) fn costs_cpu(&self) -> bool {
        self.cpu != ReadCpu::default() || self.alone != 0.0
    }

    /// The bytes' way; number `way` of those to targets, or through I/O queues.
    #[inline]
    pub(crate) fn way(&self, way: u32) -> Option<GroupId> {
        match self.routes.as_deref() {
            Some(Routes::Striped(striped)) => Some(striped.ways[way as usize]),
            Some(Routes::Queues(queues)) => queues.routes[way as usize],
            None => self.group,
        }
    }

    /// The bytes' way of a `file` of so many bytes that is copied or written as a whole.
    pub(crate) fn way_of_file(&self, file: u64, bytes: f64) -> Option<GroupId> {
        self.way(match self.routes.as_deref() {
            Some(Routes::Striped(striped)) => striped.way(file, 0, bytes),
            Some(Routes::Queues(queues)) => queues.of(file),
            None => 0,
        })
    }
}

impl Striped {
    /// Which way request number `request` of `file` goes, for so many bytes.
    pub(crate) fn way(&self, file: u64, request: u32, bytes: f64) -> u32 {
        let serving = self.targets.serving(bytes);
        self.way_from(file, u64::from(request) * u64::from(serving), bytes)
    }

    /// Which way `bytes` at `offset` of `file` go [B].
    pub(super) fn way_at(&self, file: u64, offset: f64, bytes: f64) -> u32 {
        // Floats saturate.
        self.way_from(file, (offset / self.targets.stripe_size) as u64, bytes)
    }

    /// Which way `bytes` of `file` go that begin at a stripe.
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

impl Loaders {
    /// The way of `bytes` at `offset` of what worker `w` reads, where files are striped.
    pub(crate) fn way_of_range(&self, w: WorkerId, offset: f64, bytes: f64) -> u32 {
        let worker = &self.workers[w];
        let loader = &self.loaders[worker.loader];
        let Some(Routes::Striped(striped)) = loader.mount.routes.as_deref() else {
            return self.queue_of(w);
        };
        match loader.source.layout {
            Layout::OneFile { .. } => {
                striped.way_at(0, worker.file as f64 * worker.request + offset, bytes)
            }
            _ => striped.way_at(worker.file, offset, bytes),
        }
    }
}
