//! How the GPUs of a node are joined.

use super::{or_infinite, or_zero};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Amount, Count, Positive};
use forebay_model::units::{Bandwidth, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Link between the GPUs of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Intra {
    /// What is like that.
    pub kind: IntraKind,
    /// Bandwidth [B/s]; infinite where not given.
    pub bandwidth: f64,
    /// Latency [s].
    pub latency: f64,
    /// What is above the GPUs' own links, of [`IntraKind::Tree`].
    pub tree: Tree,
}

/// PCIe switches below a root.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tree {
    /// GPUs below each switch: as many in order of their numbers, the last one may have fewer.
    pub switch: u32,
    /// Bandwidth between a switch and the root in each direction [B/s]; may be infinite.
    pub uplink: f64,
    /// What the root carries, all together [B/s]; may be infinite.
    pub root: f64,
    /// Where the NICs are.
    pub nics: NicsAt,
}

/// Where the NICs of a node are whose GPUs are joined by a tree: what gradients pass on their way there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NicsAt {
    /// Beside the tree: nothing of it is on the way.
    Apart,
    /// At each switch: a GPU's own port.
    Switches,
    /// At the root: its port, its switch's uplink, and the root.
    Root,
}

impl Tree {
    /// None, where GPUs are joined otherwise.
    pub const NONE: Tree =
        Tree { switch: u32::MAX, uplink: f64::INFINITY, root: f64::INFINITY, nics: NicsAt::Apart };
}

/// How the GPUs of a node are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IntraKind {
    /// All share one link: PCIe below one root.
    Shared,
    /// Each has a port of this bandwidth in each direction: NVSwitch.
    Switch,
    /// Each has a link of this bandwidth to the next one, and one back: NVLink without a switch.
    Ring,
    /// Each has a port of this bandwidth at one of several switches, which meet at a root: PCIe.
    Tree,
}

impl Intra {
    /// What a transfer between any two GPUs gets by itself at least [B/s].
    #[must_use]
    pub fn least(&self) -> f64 {
        self.bandwidth.min(self.tree.uplink).min(self.tree.root)
    }
}

/// Link between the GPUs of a node.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct IntraSettings {
    /// For gradients, "shared": one link for all GPUs; "switch": each has a port of this bandwidth in each
    /// direction; "ring": each has such a link to the next; "tree": each has such a port at one of several
    /// switches below a root (default: "shared", as activations always do).
    kind: Field<IntraKind>,
    /// Bandwidth (default: infinite).
    bandwidth: Field<Positive<Bandwidth>>,
    /// Latency (default: 0 s).
    latency: Field<Amount<Time>>,
    /// Of "tree", GPUs below each switch, in order of their numbers.
    switch: Field<Count<1, 10_000>>,
    /// Of "tree", bandwidth from a switch to the root in each direction (default: `bandwidth`).
    uplink: Field<Positive<Bandwidth>>,
    /// Of "tree", what the root carries, all together (default: infinite).
    root: Field<Positive<Bandwidth>>,
    /// Of "tree", where NICs are: "root", "switches", one at each, or "apart", so that gradients for other nodes
    /// do not pass the tree (default: "apart").
    nics: Field<NicsAt>,
}

impl IntraSettings {
    /// These keys, and those of `base` where they are not written.
    pub(super) fn over(&self, base: &IntraSettings) -> IntraSettings {
        // What is above the links of a tree belongs to it.
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

    /// The checked link of the table at node `at`.
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
            check.no_effect(&self.switch, why);
            check.no_effect(&self.uplink, why);
            check.no_effect(&self.root, why);
            check.no_effect(&self.nics, why);
            return Some(Tree::NONE);
        }
        let remedy = "write `switch = 2`: GPUs below each switch";
        let switch = check.required(at, &self.switch, "switch", remedy)?;
        let uplink = self.uplink.get().map_or(each, |uplink| uplink.0);
        let nics = self.nics.get().copied().unwrap_or(NicsAt::Apart);
        Some(Tree { switch: switch.small(), uplink, root: or_infinite(&self.root), nics })
    }
}
