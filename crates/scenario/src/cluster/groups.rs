//! Groups of nodes: their hardware is that of the cluster's first nodes, except for the keys that a group sets.

use super::{Cluster, Node, NodeSettings};
use crate::Device;
use crate::check::Check;
use crate::document::NodeId;
use crate::field::{Field, Named};
use crate::number::{Count, Positive};
use crate::role::Role;
use forebay_model::catalogue::Precision;
use forebay_model::units::Bandwidth;
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::Range;

/// Maximum number of groups.
const MOST_GROUPS: usize = 100;

/// A group of nodes whose hardware differs from that of the cluster's first nodes. Node numbers continue from group
/// to group.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// Number of nodes.
    pub nodes: u32,
    /// Hardware of each node.
    pub node: Node,
    /// Bandwidth of each NIC in each direction [B/s]; may be infinite.
    pub nic: f64,
}

impl Cluster {
    /// Returns the index of the group of node number `node`, counted from 0; `None` for the first nodes, which are in no group.
    #[must_use]
    pub fn group_index(&self, node: u32) -> Option<usize> {
        let mut first = self.nodes;
        self.groups.iter().rposition(|group| {
            first = first.saturating_sub(group.nodes);
            node >= first
        })
    }

    /// Returns the group of node number `node`, counted from 0; `None` for the first nodes, which are in no group.
    #[must_use]
    pub fn group_of(&self, node: u32) -> Option<&Group> {
        self.group_index(node).map(|index| &self.groups[index])
    }

    /// Returns the hardware of node number `node`, counted from 0.
    #[must_use]
    pub fn node_at(&self, node: u32) -> &Node {
        self.group_of(node).map_or(&self.node, |group| &group.node)
    }

    /// Returns the bandwidth of each NIC of node number `node` in each direction [B/s]; may be infinite.
    #[must_use]
    pub fn nic_at(&self, node: u32) -> f64 {
        self.group_of(node).map_or(self.nic, |group| group.nic)
    }

    /// Returns the bandwidth at which node number `node` receives data from storage [B/s]; may be infinite.
    #[must_use]
    pub fn data_nic_at(&self, node: u32) -> f64 {
        self.storage_nic.unwrap_or_else(|| self.nic_at(node))
    }

    /// Splits `nodes` into ranges of consecutive nodes with the same hardware, in order.
    #[must_use]
    pub fn alike(&self, nodes: Range<u32>) -> Vec<Range<u32>> {
        let mut all = Vec::new();
        let mut at = nodes.start;
        while at < nodes.end {
            let kind = |node: u32| self.group_index(node);
            let (mut last, mut end) = (at, nodes.end);
            while last + 1 < end {
                let middle = last + (end - last) / 2;
                if kind(middle) == kind(at) { last = middle } else { end = middle }
            }
            all.push(at..end);
            at = end;
        }
        all
    }

    /// Returns, for each kind of hardware among `nodes`, a homogeneous cluster of this hardware.
    #[must_use]
    pub fn kinds(&self, nodes: Range<u32>) -> Vec<Cluster> {
        let kind = |nodes: Range<u32>| {
            let (node, nic) = (self.node_at(nodes.start).clone(), self.nic_at(nodes.start));
            Cluster { node, nic, groups: Vec::new(), ..self.clone() }
        };
        self.alike(nodes).into_iter().map(kind).collect()
    }

    /// Returns the step time on `node` divided by the step time on the cluster's first nodes. If step times are
    /// derived from the GPUs' peak FLOP/s, `peak` is the precision of these peaks, and the result includes the ratio
    /// of the peaks in addition to the ratio of the GPUs' speeds.
    #[must_use]
    pub fn slowness(&self, node: &Node, peak: Option<Precision>) -> f64 {
        let of = |node: &Node| node.gpu?.peak(peak?);
        let by_peak = match (of(&self.node), of(node)) {
            (Some(first), Some(own)) => first / own,
            _ => 1.0,
        };
        by_peak * (self.node.gpu_speed / node.gpu_speed)
    }

    /// Returns the largest [`Cluster::slowness`] among `nodes`.
    #[must_use]
    pub fn slowest(&self, nodes: Range<u32>, peak: Option<Precision>) -> f64 {
        let kinds = self.kinds(nodes);
        kinds.iter().map(|kind| self.slowness(&kind.node, peak)).fold(0.0, f64::max)
    }

    /// Returns the factor by which the given step time on a `device` is multiplied to get the step time on the
    /// slowest of `nodes`. It is 1 on CPUs, whose cores are equally fast on all nodes.
    #[must_use]
    pub fn step_factor(&self, nodes: Range<u32>, device: Device, peak: Option<Precision>) -> f64 {
        match device {
            Device::Accelerator => self.slowest(nodes, peak) / self.node.gpu_speed,
            Device::Cpu { .. } => 1.0,
        }
    }

    /// Returns a homogeneous cluster in which each quantity has the weakest value found among `nodes`.
    #[must_use]
    pub fn weakest(&self, nodes: Range<u32>) -> Cluster {
        let kinds = self.kinds(nodes);
        let mut weakest = kinds.first().unwrap_or(self).clone();
        for kind in &kinds {
            let (node, of) = (&mut weakest.node, &kind.node);
            node.cores = node.cores.min(of.cores);
            node.usable_cores = node.usable_cores.min(of.usable_cores);
            node.gpus = node.gpus.min(of.gpus);
            node.gpu_speed = node.gpu_speed.min(of.gpu_speed);
            node.gpu_memory = node.gpu_memory.min(of.gpu_memory);
            node.gpu_memory_bandwidth = node.gpu_memory_bandwidth.min(of.gpu_memory_bandwidth);
            node.memory = node.memory.min(of.memory);
            node.memory_bandwidth = node.memory_bandwidth.min(of.memory_bandwidth);
            node.pcie = node.pcie.min(of.pcie);
            node.intra.bandwidth = node.intra.bandwidth.min(of.intra.bandwidth);
            node.intra.latency = node.intra.latency.max(of.intra.latency);
            node.intra.tree.switch = node.intra.tree.switch.min(of.intra.tree.switch);
            node.intra.tree.uplink = node.intra.tree.uplink.min(of.intra.tree.uplink);
            node.intra.tree.root = node.intra.tree.root.min(of.intra.tree.root);
            node.nics = node.nics.min(of.nics);
            weakest.nic = weakest.nic.min(kind.nic);
        }
        weakest
    }
}

/// A group of nodes whose hardware differs from `cluster.node`. Node numbers continue from group to group.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupSettings {
    /// Number of nodes in the group.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    nodes: Field<Count<1, 1_000_000>>,
    /// Hardware of each node: only the keys that differ from `cluster.node` (default: as `cluster.node`).
    #[schemars(extend("x-role" = Role::Identity))]
    node: Field<NodeSettings>,
    /// Bandwidth of a node's NIC in each direction (default: `cluster.network.nic`).
    #[schemars(extend("x-role" = Role::Limit))]
    nic: Field<Positive<Bandwidth>>,
}

impl GroupSettings {
    /// Returns the number of nodes; 0 if the number is invalid or missing.
    pub(super) fn nodes(&self) -> u64 {
        self.nodes.get().map_or(0, |nodes| nodes.0)
    }

    /// Returns the document node that sets the group's page cache; `None` if the group does not set one.
    pub(super) fn page_cache(&self) -> Option<NodeId> {
        self.node.get()?.page_cache.at
    }

    /// Checks the table at document node `at` and returns its group; `None` if the table is invalid. Keys that the
    /// group does not set are taken from `base` for the nodes, and from `nic` for the NICs.
    fn resolve(
        &self,
        check: Check<'_>,
        (at, name): (NodeId, &str),
        base: &NodeSettings,
        nic: f64,
    ) -> Option<Group> {
        check.name(at, name);
        let nodes = check.required(at, &self.nodes, "nodes", "write `nodes = 2`");
        let node = match self.node.given() {
            Some((at, node)) => node.over(base).resolve(check, at),
            None if self.node.is_written() => None,
            None => base.resolve(check, at),
        };
        let nic = self.nic.get().map_or(nic, |nic| nic.0);
        Some(Group { name: name.to_owned(), nodes: nodes?.small(), node: node?, nic })
    }
}

/// Checks and returns all groups; `None` if a group is invalid. Keys that a group does not set are taken from `base`
/// for the nodes, and from `nic` for the NICs.
pub(super) fn resolve(
    groups: &Field<Named<GroupSettings>>,
    check: Check<'_>,
    base: &NodeSettings,
    nic: f64,
) -> Option<Vec<Group>> {
    let Some((at, Named(groups))) = groups.given() else {
        return (!groups.is_written()).then(Vec::new);
    };
    if groups.len() > MOST_GROUPS {
        let what = format!("there are {} groups", groups.len());
        check.wrong(
            at,
            what,
            format!("write at most {MOST_GROUPS} groups: each can have several `nodes`"),
        );
        return None;
    }
    let all = groups.iter().map(|(name, group)| {
        let (at, group) = group.given()?;
        group.resolve(check, (at, name), base, nic)
    });
    // All groups are checked before an invalid one ends the collection, so that all problems are reported.
    all.collect::<Vec<_>>().into_iter().collect()
}
