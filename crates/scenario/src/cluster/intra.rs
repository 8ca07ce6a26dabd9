//! How the GPUs of a node are connected.

use super::{or_infinite, or_zero};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Amount, Count, Positive};
use crate::role::Role;
use forebay_model::units::{Bandwidth, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Link between the GPUs of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Intra {
    /// Topology of the link.
    pub kind: IntraKind,
    /// Bandwidth of the shared link, or of each GPU's own link [B/s]; infinite where not given.
    pub bandwidth: f64,
    /// Latency of the link [s].
    pub latency: f64,
    /// Switches and root above the GPUs' own links, for [`IntraKind::Tree`].
    pub tree: Tree,
}

/// PCIe switches, each with some of the GPUs, below one root.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tree {
    /// Number of GPUs below each switch; GPUs are assigned to switches in order of their numbers, and the last switch
    /// may have fewer.
    pub switch: u32,
    /// Bandwidth between a switch and the root in each direction [B/s]; may be infinite.
    pub uplink: f64,
    /// Bandwidth of the root for all traffic together [B/s]; may be infinite.
    pub root: f64,
    /// Where NICs are attached.
    pub nics: NicsAt,
}

/// Where NICs are attached to a tree of PCIe switches. This decides which parts of the tree gradients pass on their
/// way to a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NicsAt {
    /// NICs are beside the tree: gradients for other nodes pass no part of the tree.
    Apart,
    /// Each switch has a NIC: gradients for other nodes pass only the GPU's own port.
    Switches,
    /// NICs are at the root: gradients for other nodes pass the GPU's own port, the uplink of its switch, and the
    /// root.
    Root,
}

impl Tree {
    /// Placeholder for GPUs that are not connected by a tree; it limits nothing.
    pub const NONE: Tree =
        Tree { switch: u32::MAX, uplink: f64::INFINITY, root: f64::INFINITY, nics: NicsAt::Apart };
}

/// How the GPUs of a node are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IntraKind {
    /// All GPUs share one link: PCIe below one root.
    Shared,
    /// Each GPU has a port of the given bandwidth in each direction, as with NVSwitch.
    Switch,
    /// Each GPU has a link of the given bandwidth to the next GPU, and one back, as with NVLink without a switch.
    Ring,
    /// Each GPU has a port of the given bandwidth at one of several PCIe switches below one root.
    Tree,
}

impl Intra {
    /// Returns the lowest bandwidth that a transfer between two GPUs can get without other traffic [B/s].
    #[must_use]
    pub fn least(&self) -> f64 {
        self.bandwidth.min(self.tree.uplink).min(self.tree.root)
    }
}

/// Link between the GPUs of a node.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct IntraSettings {
    /// Topology of the link for gradients: "shared": one link for all GPUs; "switch": each GPU has a port of this
    /// bandwidth in each direction; "ring": each GPU has a link of this bandwidth to the next GPU, and one back;
    /// "tree": each GPU has a port of this bandwidth at one of several switches below a root (default: "shared",
    /// which activations always use).
    #[schemars(extend("x-role" = Role::Identity))]
    kind: Field<IntraKind>,
    /// Bandwidth of the shared link, or of each GPU's own link (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    bandwidth: Field<Positive<Bandwidth>>,
    /// Latency of the link (default: 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    latency: Field<Amount<Time>>,
    /// Number of GPUs below each switch of a "tree"; GPUs are assigned to switches in order of their numbers.
    #[schemars(extend("x-role" = Role::Identity))]
    switch: Field<Count<1, 10_000>>,
    /// Bandwidth from a switch of a "tree" to the root in each direction (default: `bandwidth`).
    #[schemars(extend("x-role" = Role::Limit))]
    uplink: Field<Positive<Bandwidth>>,
    /// Bandwidth of the root of a "tree" for all traffic together (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    root: Field<Positive<Bandwidth>>,
    /// Where NICs are attached to a "tree": "root": at the root; "switches": one at each switch; "apart": beside
    /// the tree, so that gradients for other nodes do not pass it (default: "apart").
    #[schemars(extend("x-role" = Role::Identity))]
    nics: Field<NicsAt>,
}

impl IntraSettings {
    /// Returns these settings, with the keys that are not set taken from `base`.
    pub(super) fn over(&self, base: &IntraSettings) -> IntraSettings {
        // Switches and root belong to a tree: other kinds do not take them from `base`.
        let none = IntraSettings::default();
        let other = self.kind.get().is_some_and(|kind| *kind != IntraKind::Tree);
        let tree = if other { &none } else { base };
        IntraSettings {
            kind: self.kind.or(&base.kind),
            bandwidth: self.bandwidth.or(&base.bandwidth),
            latency: self.latency.or(&base.latency),
            switch: self.switch.or(&tree.switch),
            uplink: self.uplink.or(&tree.uplink),
            root: self.root.or(&tree.root),
            nics: self.nics.or(&tree.nics),
        }
    }

    /// Checks the table at document node `at` and returns its link; `None` if the table is invalid.
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Intra> {
        let kind = self.kind.get().map_or(IntraKind::Shared, |kind| *kind);
        let bandwidth = or_infinite(&self.bandwidth);
        Some(Intra {
            kind,
            bandwidth,
            latency: or_zero(&self.latency),
            tree: self.tree(check, at, kind, bandwidth)?,
        })
    }

    fn tree(&self, check: Check<'_>, at: NodeId, kind: IntraKind, each: f64) -> Option<Tree> {
        if kind != IntraKind::Tree {
            let why = "`kind` is not \"tree\"";
            check.no_effect(self.switch.at, why);
            check.no_effect(self.uplink.at, why);
            check.no_effect(self.root.at, why);
            check.no_effect(self.nics.at, why);
            return Some(Tree::NONE);
        }
        let remedy = "write `switch = 2`: GPUs below each switch";
        let switch = check.required(at, &self.switch, "switch", remedy)?;
        let uplink = self.uplink.get().map_or(each, |uplink| uplink.0);
        let nics = self.nics.get().copied().unwrap_or(NicsAt::Apart);
        Some(Tree { switch: switch.small(), uplink, root: or_infinite(&self.root), nics })
    }
}
