//! A storage as one node sees it.

use crate::event::Delay;
use crate::index::{ArmId, LimiterId, StationId, TableId, WorkerId};
use crate::loaders::Loaders;
use forebay_engine::fluid::GroupId;
use forebay_model::random::Sampler;
use forebay_scenario::{Layout, ReadCpu, Targets};

use super::plain::First;

/// A storage as one node sees it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Mount {
    /// The bytes' way; `None` where nothing limits them.
    pub(crate) group: Option<GroupId>,
    /// Operation station, where operations are limited.
    pub(crate) station: Option<StationId>,
    pub(crate) latency: RequestLatency,
    /// The bytes' ways where files are striped over targets; then `group` is none of them.
    pub(crate) striped: Option<Box<Striped>>,
    /// What lets requests through, where they are limited.
    pub(crate) limiter: Option<LimiterId>,
    /// What serves requests in a way of its own; their bytes go over `group` at the same time.
    pub(crate) own: Own,
    /// What a request costs the node's cores, beside the latency and the bytes' way.
    pub(crate) cpu: ReadCpu,
    /// Where the bytes' way is over the node's cores too: time per byte of a request that has it to
    /// itself [s/B]; otherwise 0.
    pub(crate) alone: f64,
}

/// What serves the requests to a storage in a way of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// Nothing.
    None,
    /// What was measured.
    Table(TableId),
    /// A disk's arm.
    Arm(ArmId),
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
        let plain = self.striped.is_none()
            && self.limiter.is_none()
            && self.own == Own::None
            && !self.costs_cpu();
        plain.then_some(first)
    }

    /// With files that were made after so many others.
    pub(crate) fn after(mut self, files: u64) -> Mount {
        self.striped.iter_mut().for_each(|striped| striped.before = files);
        self
    }

    /// Whether bytes that have come cost time of a core.
    #[inline]
    pub(super) fn costs_cpu(&self) -> bool {
        self.cpu != ReadCpu::default() || self.alone != 0.0
    }

    /// The bytes' way; number `way` of those to targets.
    #[inline]
    pub(crate) fn way(&self, way: u32) -> Option<GroupId> {
        match &self.striped {
            Some(striped) => Some(striped.ways[way as usize]),
            None => self.group,
        }
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
        let Some(striped) = &loader.mount.striped else { return 0 };
        match loader.source.layout {
            Layout::OneFile { .. } => {
                striped.way_at(0, worker.file as f64 * worker.request + offset, bytes)
            }
            _ => striped.way_at(worker.file, offset, bytes),
        }
    }
}
