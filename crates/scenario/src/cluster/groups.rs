//! Nodes of several kinds: those of a group are like the others but for what the group says.

use super::{Cluster, Node, NodeSettings, Scheduling};
use crate::Device;
use crate::check::Check;
use crate::document::NodeId;
use crate::field::{Field, Named};
use crate::number::{Count, Positive};
use forebay_model::catalogue::Precision;
use forebay_model::units::Bandwidth;
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::Range;

/// Most groups.
const MOST_GROUPS: usize = 100;

/// Nodes of another kind, which come after those before.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// How many.
    pub nodes: u32,
    /// What each is made of.
    pub node: Node,
    /// Bandwidth of each NIC in each direction [B/s]; may be infinite.
    pub nic: f64,
}

impl Cluster {
    /// The group of node number `node`, from 0; none of the first nodes.
    fn group_of(&self, node: u32) -> Option<&Group> {
        let mut first = self.nodes;
        self.groups.iter().rev().find(|group| {
            first = first.saturating_sub(group.nodes);
            node >= first
        })
    }

    /// What node number `node` is made of, from 0.
    #[must_use]
    pub fn node_at(&self, node: u32) -> &Node {
        self.group_of(node).map_or(&self.node, |group| &group.node)
    }

    /// Bandwidth of each of its NICs in each direction [B/s]; may be infinite.
    #[must_use]
    pub fn nic_at(&self, node: u32) -> f64 {
        self.group_of(node).map_or(self.nic, |group| group.nic)
    }

    /// Bandwidth by which data from storage come in to node number `node` [B/s]; may be infinite.
    #[must_use]
    pub fn data_nic_at(&self, node: u32) -> f64 {
        self.storage_nic.unwrap_or_else(|| self.nic_at(node))
    }

    /// Neighbours of one kind among some nodes, in order.
    #[must_use]
    pub fn alike(&self, nodes: Range<u32>) -> Vec<Range<u32>> {
        let mut all = Vec::new();
        let mut at = nodes.start;
        while at < nodes.end {
            let kind = |node: u32| self.group_of(node).map(|group| &group.name);
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

    /// Where it is written that cores of some nodes are in "fifo" order, if they are.
    pub(crate) fn fifo(&self, check: Check<'_>, nodes: Range<u32>) -> Option<NodeId> {
        let kinds = self.alike(nodes).into_iter().map(|alike| alike.start);
        let mut fifo = kinds.filter(|node| self.node_at(*node).scheduling == Scheduling::Fifo);
        let keys = ["node", "scheduling"];
        let own =
            |group: &Group| check.find(&[&["cluster", "group", &group.name], &keys[..]].concat());
        let of_group = self.group_of(fifo.next()?).and_then(own);
        of_group.or_else(|| check.find(&[&["cluster"], &keys[..]].concat()))
    }

    /// Clusters of one kind of node each: the kinds of some nodes.
    #[must_use]
    pub fn kinds(&self, nodes: Range<u32>) -> Vec<Cluster> {
        let kind = |nodes: Range<u32>| {
            let (node, nic) = (self.node_at(nodes.start).clone(), self.nic_at(nodes.start));
            Cluster { node, nic, groups: Vec::new(), ..self.clone() }
        };
        self.alike(nodes).into_iter().map(kind).collect()
    }

    /// How much longer than on the cluster's first nodes a step takes on a `node` of it; of step times that were
    /// found from the `peak` of their GPUs by that too.
    #[must_use]
    pub fn slowness(&self, node: &Node, peak: Option<Precision>) -> f64 {
        let of = |node: &Node| node.gpu?.peak(peak?);
        let by_peak = match (of(&self.node), of(node)) {
            (Some(first), Some(own)) => first / own,
            _ => 1.0,
        };
        by_peak * (self.node.gpu_speed / node.gpu_speed)
    }

    /// The same of the slowest of some nodes.
    #[must_use]
    pub fn slowest(&self, nodes: Range<u32>, peak: Option<Precision>) -> f64 {
        let kinds = self.kinds(nodes);
        kinds.iter().map(|kind| self.slowness(&kind.node, peak)).fold(0.0, f64::max)
    }

    /// What the time of a step on a `device` is multiplied by on the slowest of some nodes; cores are as fast
    /// everywhere.
    #[must_use]
    pub fn step_factor(&self, nodes: Range<u32>, device: Device, peak: Option<Precision>) -> f64 {
        match device {
            Device::Accelerator => self.slowest(nodes, peak) / self.node.gpu_speed,
            Device::Cpu { .. } => 1.0,
        }
    }

    /// A cluster of one kind of node, which is in each respect as weak as the weakest of some nodes.
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

/// Nodes that differ from `cluster.node`, and come after the nodes before.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupSettings {
    /// How many.
    #[schemars(required)]
    nodes: Field<Count<1, 1_000_000>>,
    /// What each is made of, where that is not as in `cluster.node` (default: as that).
    node: Field<NodeSettings>,
    /// Bandwidth of a node's NIC in each direction (default: `cluster.network.nic`).
    nic: Field<Positive<Bandwidth>>,
}

impl GroupSettings {
    /// How many nodes; 0 where that is wrong.
    pub(super) fn nodes(&self) -> u64 {
        self.nodes.get().map_or(0, |nodes| nodes.0)
    }

    /// Where its page cache is written, if one is.
    pub(super) fn page_cache(&self) -> Option<NodeId> {
        self.node.get()?.page_cache.at
    }

    /// The checked group of the table at node `at`, in a cluster of nodes like `base` with such NICs.
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

/// The checked groups, beside nodes like `base` with such NICs; `None` where one is wrong.
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
        check.wrong(at, what, format!("write at most {MOST_GROUPS}: a group has `nodes`"));
        return None;
    }
    let all = groups.iter().map(|(name, group)| {
        let (at, group) = group.given()?;
        group.resolve(check, (at, name), base, nic)
    });
    // All of them, so that all problems are told.
    all.collect::<Vec<_>>().into_iter().collect()
}
