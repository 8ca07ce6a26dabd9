//! The resources of a report, and the levers that enlarge them.

use crate::report::{Owner, Part, Resource, ResourceReport};

use super::candidates::Subject;
use super::lever::{Kind, Lever};

/// Utilisation below which a resource is taken not to be the limit.
const IDLE: f64 = 0.1;

impl Subject<'_> {
    /// Returns whether the lever enlarges resources of which not even the most used one is used much.
    pub(super) fn is_idle(&self, lever: Lever) -> bool {
        self.used(&self.report.resources, lever).is_some_and(|most| most < IDLE)
    }

    /// Returns the utilisation of the most used resource in `all` that the lever enlarges; `None` if there is no such resource, or if its
    /// use is not counted.
    pub(super) fn used(&self, all: &[ResourceReport], lever: Lever) -> Option<f64> {
        let enlarged = all.iter().filter(|of| self.of_resource(of.of).contains(&lever));
        let used = enlarged.filter_map(|of| of.utilisation_max.mean);
        used.reduce(f64::max).filter(|_| self.is_counted(lever))
    }

    /// Returns whether the report counts all traffic on the resources that the lever enlarges. Collectives whose time is computed add no
    /// traffic to links.
    fn is_counted(&self, lever: Lever) -> bool {
        let links = [Kind::Nic, Kind::Uplink, Kind::Intra, Kind::Pcie];
        !links.contains(&lever.kind) || !self.described().has_analytic_collectives()
    }

    /// Returns the levers that enlarge a resource, if the job uses it.
    pub(super) fn of_resource(&self, resource: Resource) -> Vec<Lever> {
        let at = match resource.owner {
            Owner::Node | Owner::Group(_) | Owner::Rack | Owner::Server => self.job,
            Owner::Job(job) if job == self.job => job,
            Owner::Storage(index) if self.uses(index) => index,
            // What a profile measured of reads from memory is no key of the storage.
            Owner::Job(_) | Owner::Storage(_) | Owner::WarmFiles(_) => return Vec::new(),
        };
        let of_server = resource.owner == Owner::Server;
        let kinds: &[Kind] = match resource.part {
            Part::Cores if of_server => &[Kind::ServerCores],
            Part::Cores => &[Kind::Cores],
            Part::Gpu => &[],
            Part::GpuMemory => &[Kind::GpuMemory],
            Part::MemoryBandwidth => &[Kind::MemoryBandwidth],
            Part::PageCache => &[Kind::PageCacheRate],
            Part::Nic(_) if of_server => &[Kind::ServerNic],
            Part::Nic(_) => &[Kind::Nic],
            Part::StorageNic(_) => &[Kind::StorageNic],
            Part::Intra(_) => &[Kind::Intra],
            Part::Pcie(_) => &[Kind::Pcie],
            Part::Uplink(_) => &[Kind::Uplink],
            Part::Operations => &[Kind::Operations],
            Part::Bandwidth => &[Kind::Bandwidth],
            Part::Target => &[Kind::Targets, Kind::Stripes],
            Part::Requests => &[Kind::Requests],
            Part::Queue => &[Kind::QueueBandwidth, Kind::Queues],
            Part::QueueSlots => &[Kind::QueueDepth, Kind::Queues],
            Part::Arm => &[Kind::Seek, Kind::Bandwidth],
            Part::Measured => &[Kind::Measured],
            Part::WriteBandwidth => &[Kind::TierWrite],
            Part::Gil => &[Kind::Lock],
            Part::CpuQuota => &[Kind::Quota],
        };
        kinds.iter().map(|&kind| Lever { kind, at }).collect()
    }

    /// Returns whether the job reads from a storage, or writes to it.
    fn uses(&self, storage: usize) -> bool {
        let uses = self.scenario.uses(self.described(), storage);
        uses.reads || uses.writes()
    }
}

impl Kind {
    /// Returns whether levers of this kind belong to a storage, whose index they have.
    pub(super) fn is_of_storage(self) -> bool {
        matches!(
            self,
            Self::Operations
                | Self::Bandwidth
                | Self::PerStream
                | Self::Latency
                | Self::Targets
                | Self::Stripes
                | Self::Requests
                | Self::Queues
                | Self::QueueDepth
                | Self::QueueBandwidth
                | Self::Seek
                | Self::Measured
                | Self::TierWrite
                | Self::TierCache
                | Self::Background
        )
    }
}
