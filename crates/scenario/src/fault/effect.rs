//! Checks of faults that cannot be simulated, and remarks on faults without effect.

use super::{FaultSettings, Faulty, FaultyLink};
use crate::check::Check;
use crate::document::NodeId;
use crate::storage::Bandwidth;
use crate::tiers::Parts;
use crate::{Cluster, Device, Fidelity, Job, Storage};

impl FaultyLink {
    /// Returns whether any node or rack has a link of this type with a finite bandwidth.
    fn is_limited(self, cluster: &Cluster) -> bool {
        let least = |kind: &Cluster| match self {
            Self::Nic => kind.nic.min(kind.data_nic()),
            Self::Intra => kind.node.intra.least(),
            Self::Pcie => kind.node.pcie,
            Self::Uplink => kind.racks.map_or(f64::INFINITY, |racks| racks.uplink),
        };
        cluster.kinds(0..cluster.nodes).iter().any(|kind| least(kind).is_finite())
    }
}

impl FaultSettings {
    /// Checks, if `nodes` is set, that the part can be slowed down on single nodes.
    pub(super) fn check_possible(
        &self,
        check: Check<'_>,
        at: NodeId,
        what: Faulty,
        parts: Parts<'_>,
    ) {
        if let Faulty::Storage(index) = what
            && is_shared(index, parts)
            && self.nodes.is_written()
        {
            let what = "all nodes share this storage";
            check.wrong(self.nodes.at.unwrap_or(at), what, "leave out `nodes`");
        }
    }

    /// Remarks that a fault has no effect, because the part's speed is not limited or no job uses the part.
    pub(super) fn check_effect(&self, check: Check<'_>, what: Faulty, parts: Parts<'_>) {
        let jobs = || parts.jobs.iter().flatten();
        let unlimited = |index| {
            let storage = parts.storage.get(index).and_then(Option::as_ref);
            storage.is_some_and(is_unlimited)
        };
        match what {
            Faulty::Storage(index) if !parts.uses(index).any() => {
                check.no_effect(self.storage.at, "no job uses this storage");
            }
            Faulty::Storage(index) if is_only_read_warm(index, parts) => {
                let why = "page caches hold all files of this storage";
                check.no_effect(self.storage.at, why);
            }
            Faulty::Storage(index) if unlimited(index) => {
                let why = "the storage has no limit of total bandwidth or `operations`";
                check.no_effect(self.storage.at, why);
            }
            Faulty::Link(link) if parts.cluster.is_some_and(|on| !link.is_limited(on)) => {
                check.no_effect(self.link.at, "these links have no bandwidth limit");
            }
            Faulty::Link(link) => self.remark_analytic(check, link, jobs()),
            Faulty::Gpus if jobs().all(|job| job.device != Device::Accelerator) => {
                check.no_effect(self.node.at, "all jobs train on cores");
            }
            _ => {}
        }
    }

    /// Remarks that a fault of some `gpus` of `nodes` has no effect, because no job uses them: jobs take the first free GPUs of
    /// their nodes.
    pub(super) fn remark_idle_gpus(
        &self,
        check: Check<'_>,
        parts: Parts<'_>,
        nodes: &[u32],
        gpus: &[u32],
    ) {
        let (Some(cluster), Some(least)) = (parts.cluster, gpus.iter().min()) else { return };
        let mut nodes = match nodes {
            [] => (0..cluster.nodes).collect(),
            some => some.to_vec(),
        };
        nodes.sort_unstable();
        let mut used = vec![0_u64; nodes.len()];
        let mut first = 0_u32;
        for job in parts.jobs.iter().flatten() {
            // Jobs that share nodes all begin at the first node, with all their copies.
            let (apart, together) = match cluster.share_nodes {
                true => (1, job.copies),
                false => (job.copies, 1),
            };
            let end = first.saturating_add(apart.saturating_mul(job.nodes));
            if job.device == Device::Accelerator {
                let here = [first, end].map(|number| nodes.partition_point(|node| *node < number));
                for at in here[0]..here[1] {
                    let each = job.gpus_on((nodes[at] - first) % job.nodes);
                    used[at] += each.saturating_mul(together.into());
                }
            }
            first = if cluster.share_nodes { 0 } else { end };
        }
        if used.into_iter().max().unwrap_or(0) <= u64::from(*least) {
            check.no_effect(self.gpus.at, "no job uses these GPUs");
        }
    }

    /// Remarks that a slow link has no effect on the gradients of jobs whose collectives are modelled analytically:
    /// they take as long as without faults.
    fn remark_analytic<'j>(
        &self,
        check: Check<'_>,
        link: FaultyLink,
        jobs: impl Iterator<Item = &'j Job>,
    ) {
        let path = self.link.at.map(|at| check.document.path(at)).unwrap_or_default();
        for job in jobs.filter(|job| job.ranks() > 1) {
            let sync = job.sync.as_ref().filter(|sync| sync.fidelity == Fidelity::Analytic);
            if sync.is_some_and(|sync| link != FaultyLink::Pcie || sync.transport.via_host) {
                check.remark(format!(
                    "`{path}` has no effect on the gradients of `{}`: `fidelity = \"analytic\"` ignores faults.",
                    job.name
                ));
            }
        }
    }
}

/// Returns whether all nodes share storage number `index`.
fn is_shared(index: usize, parts: Parts<'_>) -> bool {
    let storage = parts.storage.get(index).and_then(Option::as_ref);
    storage.is_some_and(|of| of.path.is_remote() && of.path.measured().is_none())
}

/// Returns whether all reads of storage number `index` come from page caches, and nothing is written to it.
fn is_only_read_warm(index: usize, parts: Parts<'_>) -> bool {
    let storage = parts.storage.get(index).and_then(Option::as_ref);
    storage.is_some_and(|of| of.warm.is_some()) && !parts.uses(index).writes()
}

/// Returns whether a storage has no limit that requests share: no limit of bandwidth, operations, targets or writes.
fn is_unlimited(storage: &Storage) -> bool {
    let path = &storage.path;
    path.bandwidth == Bandwidth::Fixed(f64::INFINITY)
        && path.operations.is_infinite()
        && path.targets.is_none()
        && path.measured().is_none()
        && storage.tier.is_none_or(|tier| tier.write.is_none())
}
