//! The machines.

use super::check::Check;
use super::document::NodeId;
use super::field::Field;
use super::number::{Amount, Count, Factor, Positive};
use crate::units::{Bandwidth, Size, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Identical nodes on one switch.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// Number of nodes.
    pub nodes: u32,
    /// What each is made of.
    pub node: Node,
    /// NIC bandwidth in each direction [B/s]; infinite where not given.
    pub nic: f64,
    /// One-way network latency [s], paid twice by every request to a storage that is not on the
    /// node.
    pub latency: f64,
}

/// What a node is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// CPU cores.
    pub cores: u32,
    /// How threads get cores.
    pub scheduling: Scheduling,
    /// Accelerators.
    pub gpus: u32,
    /// Speed of an accelerator against the one that step times were given for.
    pub gpu_speed: f64,
    /// Main memory [B]; infinite where not given.
    pub memory: f64,
    /// Host-to-device bandwidth of each GPU [B/s]; infinite where not given.
    pub pcie: f64,
    /// Link between the GPUs of a node.
    pub intra: Intra,
}

/// Link between the GPUs of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Intra {
    /// Bandwidth [B/s]; infinite where not given.
    pub bandwidth: f64,
    /// Latency [s].
    pub latency: f64,
}

/// How threads get cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// All runnable threads share the cores evenly, none faster than one core (an operating
    /// system's scheduler).
    Shared,
    /// Each piece of work holds one core from start to end; others queue in order of arrival.
    Fifo,
}

/// The machines.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClusterSettings {
    /// Number of nodes.
    #[schemars(required)]
    nodes: Field<Count<1, 1_000_000>>,
    /// What each is made of.
    #[schemars(required)]
    node: Field<NodeSettings>,
    /// What connects them (default: infinitely fast).
    network: Field<NetworkSettings>,
}

/// What a node is made of.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NodeSettings {
    /// CPU cores.
    #[schemars(required)]
    cores: Field<Count<1, 100_000>>,
    /// How threads get cores (default: "shared").
    scheduling: Field<Scheduling>,
    /// Accelerators (default: 1).
    gpus: Field<Count<1, 10_000>>,
    /// Speed of an accelerator against the one that step times are given for (default: 1).
    gpu_speed: Field<Factor>,
    /// Main memory (default: infinite).
    memory: Field<Positive<Size>>,
    /// Host-to-device bandwidth of each GPU (default: infinite).
    pcie: Field<Positive<Bandwidth>>,
    /// Link between the GPUs of a node (default: infinitely fast).
    intra: Field<IntraSettings>,
}

/// Link between the GPUs of a node.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct IntraSettings {
    /// Bandwidth (default: infinite).
    bandwidth: Field<Positive<Bandwidth>>,
    /// Latency (default: 0 s).
    latency: Field<Amount<Time>>,
}

/// What connects the nodes with each other and with the storage.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NetworkSettings {
    /// Bandwidth of a node's NIC in each direction (default: infinite).
    nic: Field<Positive<Bandwidth>>,
    /// One-way latency (default: 0 s).
    latency: Field<Amount<Time>>,
}

impl ClusterSettings {
    /// The checked cluster of the table at node `at`.
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Cluster> {
        let nodes = check.required(at, &self.nodes, "nodes", "write `nodes = 16`");
        let remedy = "write `[cluster.node]` with `cores = 20` and `gpus = 4`";
        check.required(at, &self.node, "node", remedy);
        let node = self.node.given().and_then(|(at, node)| node.resolve(check, at));
        let network = self.network.get();
        Some(Cluster {
            nodes: nodes?.small(),
            node: node?,
            nic: network.map_or(f64::INFINITY, |network| or_infinite(&network.nic)),
            latency: network.map_or(0.0, |network| or_zero(&network.latency)),
        })
    }

    /// The number of nodes, where it is written.
    pub(super) fn nodes(&self) -> Option<(NodeId, u64)> {
        self.nodes.given().map(|(at, nodes)| (at, nodes.0))
    }
}

impl NodeSettings {
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Node> {
        let cores = check.required(at, &self.cores, "cores", "write `cores = 20`")?;
        let intra = self.intra.get();
        Some(Node {
            cores: cores.small(),
            scheduling: self.scheduling.get().copied().unwrap_or(Scheduling::Shared),
            gpus: self.gpus.get().map_or(1, |gpus| gpus.small()),
            gpu_speed: self.gpu_speed.get().map_or(1.0, |speed| speed.0),
            memory: or_infinite(&self.memory),
            pcie: or_infinite(&self.pcie),
            intra: Intra {
                bandwidth: intra.map_or(f64::INFINITY, |intra| or_infinite(&intra.bandwidth)),
                latency: intra.map_or(0.0, |intra| or_zero(&intra.latency)),
            },
        })
    }
}

fn or_infinite<D>(field: &Field<Positive<D>>) -> f64 {
    field.get().map_or(f64::INFINITY, |given| given.0)
}

fn or_zero<D>(field: &Field<Amount<D>>) -> f64 {
    field.get().map_or(0.0, |given| given.0)
}
