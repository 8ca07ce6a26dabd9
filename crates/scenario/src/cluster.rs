//! The cluster: its nodes, their hardware, and the network between them.

mod gpu;
mod groups;
mod intra;
mod named;
mod node;
mod page_cache;
mod power;
mod smt;

use super::check::Check;
use super::document::NodeId;
use super::field::{Field, Named};
use super::number::{Amount, Count, Positive};
use crate::role::Role;
use forebay_model::units::{Bandwidth, Time};
use groups::GroupSettings;
use named::{NamedNodes, NodesSettings};
use node::NodeSettings;
use schemars::JsonSchema;
use serde::Deserialize;

pub use groups::Group;
pub use intra::{Intra, IntraKind, NicsAt, Tree};
pub use node::{Node, Scheduling};
pub use page_cache::PageCache;
pub use power::Power;
pub use smt::Smt;

/// Maximum number of threads of all nodes together, if the speed of cores depends on the number of threads.
const MOST_THREADS: u64 = 100_000_000;

/// A cluster of nodes on one switch, or in racks.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// Number of nodes, those of groups included.
    pub nodes: u32,
    /// Whether all job copies run on the same nodes, beginning with the first node; otherwise each copy has its own
    /// nodes.
    pub share_nodes: bool,
    /// Hardware of the first nodes, which belong to no group.
    pub node: Node,
    /// Groups of nodes with other hardware, which come after the first nodes.
    pub groups: Vec<Group>,
    /// Bandwidth of each NIC of the first nodes in each direction [B/s]; infinite where not given.
    pub nic: f64,
    /// Bandwidth of a node's NIC to a separate network for storage [B/s]; `None`: storage and collectives share a
    /// node's first NIC.
    pub storage_nic: Option<f64>,
    /// Racks of nodes; `None`: one switch for all.
    pub racks: Option<Racks>,
    /// One-way network latency [s], paid twice by every request to a storage that is not on the
    /// node.
    pub latency: f64,
}

impl Cluster {
    /// Returns the bandwidth at which a node receives data from storage [B/s]; may be infinite.
    #[must_use]
    pub fn data_nic(&self) -> f64 {
        self.storage_nic.unwrap_or(self.nic)
    }
}

/// Racks: the nodes of each rack have a switch of their own, and a spine connects the switches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Racks {
    /// Nodes of each rack; the last rack may have fewer.
    pub nodes: u32,
    /// Bandwidth from a rack to the spine in each direction [B/s].
    pub uplink: f64,
}

/// The cluster: its nodes and the network between them.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClusterSettings {
    /// Number of nodes with the hardware `node`, or the names of nodes that the profile has: those that are unlike the others then get
    /// cores, core speed and NIC of their own, unless these are written. Nodes of groups come in addition.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    nodes: Field<NodesSettings>,
    /// Whether all job copies run on the same nodes, beginning with the first node (default: false, each copy has its
    /// own).
    #[schemars(extend("x-role" = Role::Choice))]
    share_nodes: Field<bool>,
    /// Hardware of each node (default: as the profile says).
    #[schemars(extend("x-role" = Role::Identity))]
    node: Field<NodeSettings>,
    /// Groups of further nodes with other hardware, by name: `[cluster.group.old]` with `nodes = 2` and the keys of
    /// `node` that differ (default: none).
    #[schemars(extend("x-role" = Role::Identity))]
    group: Field<Named<GroupSettings>>,
    /// Network that connects the nodes with each other and with the storage (default: infinitely fast).
    #[schemars(extend("x-role" = Role::Identity))]
    network: Field<NetworkSettings>,
}

/// Network that connects the nodes with each other and with the storage.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NetworkSettings {
    /// Bandwidth of a node's NIC in each direction (default: as the profile of a cluster says, or infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    nic: Field<Positive<Bandwidth>>,
    /// Bandwidth of a node's NIC to a separate network for storage (default: as the profile of a cluster says, or storage shares the first
    /// NIC).
    #[schemars(extend("x-role" = Role::Limit))]
    storage_nic: Field<Positive<Bandwidth>>,
    /// Racks of nodes, each with an uplink: `{ nodes = 8, uplink = "400 Gbit/s" }` (default: as the profile of a cluster says, or one
    /// switch).
    #[schemars(extend("x-role" = Role::Limit))]
    racks: Field<RackSettings>,
    /// One-way latency (default: as the profile of a cluster says, or 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    latency: Field<Amount<Time>>,
}

/// Racks: the nodes of each rack have a switch of their own.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RackSettings {
    /// Nodes of each rack.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    nodes: Field<Count<1, 1_000_000>>,
    /// Bandwidth from a rack to the spine, in each direction.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    uplink: Field<Positive<Bandwidth>>,
}

impl RackSettings {
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Racks> {
        let nodes = check.required(at, &self.nodes, "nodes", "write `nodes = 8`");
        let uplink = check.required(at, &self.uplink, "uplink", "write `uplink = \"400 Gbit/s\"`");
        Some(Racks { nodes: nodes?.small(), uplink: uplink?.0 })
    }
}

impl ClusterSettings {
    /// Checks the table at document node `at` and returns its cluster; `None` if the table is invalid.
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Cluster> {
        let nodes = check.required(at, &self.nodes, "nodes", "write `nodes = 16`");
        let remedy = "write `[cluster.node]` with `cores = 20` and `gpus = 4`";
        // A profile may contain all keys that a node requires.
        let needed = check.profile.is_none() && !check.lenient;
        if needed {
            check.required(at, &self.node, "node", remedy);
        }
        let none = NodeSettings::default();
        let base = self.node.get().unwrap_or(&none);
        let node: Option<Node> = match self.node.given() {
            Some((at, node)) => node.resolve(check, at),
            None if needed || self.node.is_written() => None,
            None => base.resolve(check, at),
        };
        let network = self.network.get();
        // A live run has the network of its machine.
        let profile = check.profile.filter(|_| !check.lenient);
        let measured = |part: &str, name: &str| profile?.network_value(part, name);
        let written = network.and_then(|network| network.nic.get()).map(|nic| nic.0);
        let nic = written.or_else(|| measured("nic", "bandwidth")).unwrap_or(f64::INFINITY);
        let groups = groups::resolve(&self.group, check, base, nic);
        let named = self.named(check, base, written);
        let (node, groups) = (node?, groups?);
        self.check_threads(check, nodes, &node, &groups);
        let of_groups = groups.iter().map(|group| group.nodes).sum::<u32>();
        let storage_nic = network.and_then(|network| network.storage_nic.get()).map(|nic| nic.0);
        let latency = network.and_then(|network| network.latency.get()).map(|time| time.0);
        let mut cluster = Cluster {
            nodes: nodes?.count() + of_groups,
            share_nodes: self.share_nodes(),
            node,
            groups,
            nic,
            storage_nic: storage_nic.or_else(|| measured("storage", "bandwidth")),
            racks: match network.and_then(|network| network.racks.given()) {
                Some((at, racks)) => Some(racks.resolve(check, at)?),
                None => measured("uplink", "bandwidth")
                    .zip(measured("uplink", "nodes"))
                    .map(|(uplink, nodes)| Racks { nodes: nodes as u32, uplink }),
            },
            latency: latency.or_else(|| measured("nic", "latency")).unwrap_or(0.0),
        };
        named?.apply(&mut cluster);
        Some(cluster)
    }

    /// Returns how the nodes that are named differ from each other; nothing if a number of nodes is given, or `None` if the profile does
    /// not have a name.
    fn named(&self, check: Check<'_>, base: &NodeSettings, nic: Option<f64>) -> Option<NamedNodes> {
        match self.nodes.given() {
            Some((at, NodesSettings::Names(names))) => {
                NamedNodes::find(check, at, names, base, nic)
            }
            _ => Some(NamedNodes::default()),
        }
    }

    /// Checks that all nodes together do not run too many threads: the simulator tabulates the capacity of each
    /// node's cores by number of threads.
    fn check_threads(
        &self,
        check: Check<'_>,
        nodes: Option<&NodesSettings>,
        node: &Node,
        groups: &[Group],
    ) {
        let (Some(at), Some(nodes)) = (self.nodes.at, nodes) else { return };
        let of_groups = groups.iter().map(|group| (u64::from(group.nodes), &group.node));
        let all = of_groups
            .chain([(u64::from(nodes.count()), node)])
            .filter(|(_, node)| node.most_threads() > 1);
        let all = all.map(|(nodes, node)| nodes.saturating_mul(node.most_threads().into()));
        let all = all.fold(0, u64::saturating_add);
        if all > MOST_THREADS {
            let what = format!(
                "the cores of all nodes run {all} threads that slow each other: too many to simulate"
            );
            let remedy = format!("write fewer nodes or cores: at most {MOST_THREADS} threads");
            check.wrong(at, what, remedy);
        }
    }

    /// Returns whether job copies share nodes.
    pub(super) fn share_nodes(&self) -> bool {
        self.share_nodes.get().copied().unwrap_or(false)
    }

    /// Returns the document node that sets a page cache, for the first nodes or for a group; `None` if none is set.
    pub(super) fn page_cache(&self) -> Option<NodeId> {
        let first = self.node.get().and_then(|node| node.page_cache.at);
        first.or_else(|| self.groups().find_map(GroupSettings::page_cache))
    }

    /// Returns the document node of the key `nodes` (the number of the first nodes), and the number of all nodes,
    /// groups included; `None` if the key is missing or invalid.
    pub(super) fn nodes(&self) -> Option<(NodeId, u64)> {
        let of_groups = self.groups().map(GroupSettings::nodes).fold(0, u64::saturating_add);
        self.nodes
            .given()
            .map(|(at, nodes)| (at, u64::from(nodes.count()).saturating_add(of_groups)))
    }

    fn groups(&self) -> impl Iterator<Item = &GroupSettings> {
        let groups = self.group.get().map_or(&[][..], |groups| &groups.0);
        groups.iter().filter_map(|(_, group)| group.get())
    }
}

fn or_infinite<D>(field: &Field<Positive<D>>) -> f64 {
    field.get().map_or(f64::INFINITY, |given| given.0)
}

fn or_zero<D>(field: &Field<Amount<D>>) -> f64 {
    field.get().map_or(0.0, |given| given.0)
}
