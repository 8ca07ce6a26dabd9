//! A storage as one node sees it.

use crate::fluid::GroupId;
use crate::random::Sampler;
use crate::scenario::{Layout, ReadCpu, Targets};
use crate::sim::event::Delay;
use crate::sim::index::{ArmId, LimiterId, StationId, TableId, WorkerId};
use crate::sim::loaders::Loaders;

use super::plain::First;

/// A storage as one node sees it.
#[derive(Debug)]
#[repr(C)]
pub(in crate::sim) struct Mount {
    /// The bytes' way; `None` where nothing limits them.
    pub(in crate::sim) group: Option<GroupId>,
    /// Operation station, where operations are limited.
    pub(in crate::sim) station: Option<StationId>,
    pub(in crate::sim) latency: RequestLatency,
    /// The bytes' ways where files are striped over targets; then `group` is none of them.
    pub(in crate::sim) striped: Option<Box<Striped>>,
    /// What lets requests through, where they are limited.
    pub(in crate::sim) limiter: Option<LimiterId>,
    /// What serves requests in a way of its own; their bytes go over `group` at the same time.
    pub(in crate::sim) own: Own,
    /// What a request costs the node's cores, beside the latency and the bytes' way.
    pub(in crate::sim) cpu: ReadCpu,
    /// Where the bytes' way is over the node's cores too: time per byte of a request that has it to
    /// itself [s/B]; otherwise 0.
    pub(in crate::sim) alone: f64,
}

/// What serves the requests to a storage in a way of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sim) enum Own {
    /// Nothing.
    None,
    /// What was measured.
    Table(TableId),
    /// A disk's arm.
    Arm(ArmId),
}

/// The ways of a node to the targets of a parallel file system.
#[derive(Debug)]
pub(in crate::sim) struct Striped {
    pub(in crate::sim) targets: Targets,
    /// Files that were made before those that are read or written.
    pub(in crate::sim) before: u64,
    /// By first target, then by how many serve together.
    pub(in crate::sim) ways: Vec<GroupId>,
}

impl Mount {
    /// What a request begins with, if it is an operation, a delay and a transfer at most.
    pub(in crate::sim) fn plain(&self) -> Option<First> {
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
    pub(in crate::sim) fn after(mut self, files: u64) -> Mount {
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
    pub(in crate::sim) fn way(&self, way: u32) -> Option<GroupId> {
        match &self.striped {
            Some(striped) => Some(striped.ways[way as usize]),
            None => self.group,
        }
    }
}

impl Striped {
    /// Which way request number `request` of `file` goes, for so many bytes.
    pub(in crate::sim) fn way(&self, file: u64, request: u32, bytes: f64) -> u32 {
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
pub(in crate::sim) enum RequestLatency {
    None,
    Constant(Delay),
    Drawn(Box<Sampler>, f64),
}

impl Loaders {
    /// The way of `bytes` at `offset` of what worker `w` reads, where files are striped.
    pub(in crate::sim) fn way_of_range(&self, w: WorkerId, offset: f64, bytes: f64) -> u32 {
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
