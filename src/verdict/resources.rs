//! The resources of a report, and the levers that enlarge them.

use crate::report::ResourceReport;

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
        let enlarged = all.iter().filter(|of| self.of_resource(of).contains(&lever));
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
    pub(super) fn of_resource(&self, resource: &ResourceReport) -> Vec<Lever> {
        let name = resource.name.as_str();
        let here = |kind| vec![Lever { kind, at: self.job }];
        let parts = name.split('.').next().zip(name.rsplit('.').next());
        match name {
            "node.cores" => return here(Kind::Cores),
            "node.gpu.memory" => return here(Kind::GpuMemory),
            "node.memory-bandwidth" => return here(Kind::MemoryBandwidth),
            "node.page-cache" => return here(Kind::PageCacheRate),
            "server.cores" => return here(Kind::ServerCores),
            _ if name.starts_with("node.nic") => return here(Kind::Nic),
            _ if name.starts_with("node.storage-nic") => return here(Kind::StorageNic),
            _ if name.starts_with("node.intra") => return here(Kind::Intra),
            _ if name.starts_with("node.pcie") => return here(Kind::Pcie),
            _ if name.starts_with("rack.") => return here(Kind::Uplink),
            _ if name.starts_with("server.nic") => return here(Kind::ServerNic),
            _ => {}
        }
        let Some((owner, part)) = parts else { return Vec::new() };
        // What a profile measured of reads from memory is no key of the storage.
        if name.contains(".page-cache.") {
            return Vec::new();
        }
        if owner == self.described().name {
            return match part {
                "gil" => here(Kind::Lock),
                "cpu-quota" => here(Kind::Quota),
                _ => Vec::new(),
            };
        }
        let storage = self.scenario.storage.iter().position(|storage| storage.name == owner);
        let Some(at) = storage.filter(|at| self.uses(*at)) else { return Vec::new() };
        let kinds: &[Kind] = match part {
            "operations" => &[Kind::Operations],
            "bandwidth" => &[Kind::Bandwidth],
            "target" => &[Kind::Targets, Kind::Stripes],
            "requests" => &[Kind::Requests],
            "queue" => &[Kind::QueueBandwidth, Kind::Queues],
            "queue-slots" => &[Kind::QueueDepth, Kind::Queues],
            "arm" => &[Kind::Seek, Kind::Bandwidth],
            "measured" => &[Kind::Measured],
            "write_bandwidth" => &[Kind::TierWrite],
            _ => &[],
        };
        kinds.iter().map(|&kind| Lever { kind, at }).collect()
    }

    /// Returns whether the job reads from a storage, or writes to it.
    fn uses(&self, storage: usize) -> bool {
        let uses = self.scenario.uses(self.described(), storage);
        uses.reads || uses.writes()
    }
}
