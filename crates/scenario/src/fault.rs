//! Settings of `[[fault]]`: parts of the cluster that are slower than they should be, for a while.

mod effect;

use super::check::Check;
use super::document::NodeId;
use super::field::{Field, List};
use super::number::{Amount, Count, Share};
use super::storage::Service;
use super::tiers::Parts;
use super::{Cluster, Storage};
use crate::role::Role;
use forebay_model::units::Time;
use schemars::JsonSchema;
use serde::Deserialize;

/// Minimum share of its speed that a part must keep during a fault if it serves requests one after the other. Such a part
/// serves a whole request at the speed that it has when the service begins, even if the fault ends meanwhile.
const LEAST: f64 = 1e-3;

/// A part of the cluster that is slower than it should be, for a while. If several faults of a part overlap, their factors are
/// multiplied.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Part that is slower.
    pub what: Faulty,
    /// Nodes that the fault affects (racks for [`FaultyLink::Uplink`]); empty for all.
    pub nodes: Vec<u32>,
    /// GPUs of these nodes that the fault affects, for [`Faulty::Gpus`]; empty for all.
    pub gpus: Vec<u32>,
    /// Share of the part's speed that is left, from 0 to 1.
    pub factor: f64,
    /// Start of the fault [s].
    pub from: f64,
    /// End of the fault [s]; infinite if it lasts to the end of the run.
    pub until: f64,
}

/// A part of the cluster that a fault may slow down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Faulty {
    /// A storage, by index: its bandwidth, its targets and its operations are slower.
    Storage(usize),
    /// Links of nodes or racks.
    Link(FaultyLink),
    /// Cores of nodes: other programs use the rest of the cores.
    Cores,
    /// GPUs of nodes, or some of their GPUs: steps, kernels of loaders, sums of gradients and averages of learners that begin
    /// during the fault run at the reduced speed. GPUs that work on a part of a model together are as fast as the slowest.
    Gpus,
}

/// Links of nodes or racks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultyLink {
    /// The NICs of nodes, in both directions, including separate NICs for storage.
    Nic,
    /// Links between the GPUs of a node.
    Intra,
    /// Links from the host to devices and back.
    Pcie,
    /// Uplinks and downlinks of racks.
    Uplink,
}

/// Part of a node that is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum NodePart {
    /// Cores of nodes: other programs use the rest of the cores.
    Cores,
    /// The node's GPUs.
    Gpus,
}

/// A part of the cluster that is slower than it should be, for a while: write one of `storage`, `link` and `node`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultSettings {
    /// Name of the slow storage: its bandwidth and its operations are slower.
    #[schemars(extend("x-role" = Role::Identity))]
    storage: Field<String>,
    /// Links that are slow or down: "nic", "intra", "pcie" or "uplink".
    #[schemars(extend("x-role" = Role::Identity))]
    link: Field<FaultyLink>,
    /// Part of the nodes that is slow: "gpus", or "cores" if other programs use the rest of the cores.
    #[schemars(extend("x-role" = Role::Identity))]
    node: Field<NodePart>,
    /// Nodes that are affected, counted from 0 in the order of the jobs; racks if `link` is "uplink" (default: all).
    #[schemars(extend("x-role" = Role::Identity))]
    nodes: Field<List<Count<0, 999_999>>>,
    /// With `node = "gpus"`, which GPUs of each of these nodes are affected, counted from 0; jobs take the first free GPUs of a
    /// node (default: all).
    #[schemars(extend("x-role" = Role::Identity))]
    gpus: Field<List<Count<0, 999_999>>>,
    /// Share of the part's speed that is left, from 0 to 1.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    factor: Field<Share>,
    /// Time at which the fault begins (default: 0 s).
    #[schemars(extend("x-role" = Role::Identity))]
    from: Field<Amount<Time>>,
    /// Time at which the fault ends (default: to the end of the run).
    #[schemars(extend("x-role" = Role::Identity))]
    until: Field<Amount<Time>>,
}

impl FaultSettings {
    /// Checks the table at document node `at` and returns its fault; `None` if the table is invalid.
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        names: &[&str],
        parts: Parts<'_>,
    ) -> Option<Fault> {
        let factor = check.required(at, &self.factor, "factor", "write `factor = 0.1`");
        let choices =
            [("storage", self.storage.at), ("link", self.link.at), ("node", self.node.at)];
        let remedy = "write `storage = \"nas\"`, `link = \"nic\"` or `node = \"gpus\"`";
        let what = match check.one_of(at, &choices, remedy)? {
            0 => self.of_storage(check, names, parts.storage)?,
            1 => Faulty::Link(*self.link.get()?),
            _ => match self.node.get()? {
                NodePart::Cores => Faulty::Cores,
                NodePart::Gpus => Faulty::Gpus,
            },
        };
        let (factor, from) = (factor?.0, self.from.get().map_or(0.0, |from| from.0));
        let until = self.until.get().map_or(f64::INFINITY, |until| until.0);
        self.check_factor(check, what, factor);
        let nodes = self.places(check, parts.cluster, what);
        let gpus = self.gpus(check, parts.cluster, what, nodes.as_deref().unwrap_or_default());
        self.check_possible(check, at, what, parts);
        self.check_effect(check, what, parts);
        if until <= from {
            let at = check.blame(&[self.until.at, self.from.at], at);
            let what = format!("the fault ends at {until} s, but begins at {from} s");
            check.wrong(at, what, "write an `until` after `from`");
        }
        if let (Some(nodes), Some(gpus)) = (&nodes, &gpus) {
            self.remark_idle_gpus(check, parts, nodes, gpus);
        }
        Some(Fault { what, nodes: nodes?, gpus: gpus?, factor, from, until })
    }

    fn of_storage(
        &self,
        check: Check<'_>,
        names: &[&str],
        storage: &[Option<Storage>],
    ) -> Option<Faulty> {
        let index = check.reference(&self.storage, "storage", names)?;
        let of = storage.get(index).and_then(Option::as_ref);
        if of.is_some_and(|of| of.path.service != Service::Link) {
            let what = "faults of a measured storage or of a disk with `seek` are not simulated";
            let remedy = "name another storage, or describe it by `bandwidth` alone";
            check.wrong(self.storage.at?, what, remedy);
        }
        Some(Faulty::Storage(index))
    }

    /// Checks that no part except links is (nearly) down: parts that serve requests one after the other must keep at least
    /// [`LEAST`] of their speed.
    fn check_factor(&self, check: Check<'_>, what: Faulty, factor: f64) {
        let (Some(at), false) = (self.factor.at, matches!(what, Faulty::Link(_))) else {
            return self.check_end(check, factor);
        };
        if factor < LEAST {
            let remedy = format!("write at least {LEAST}, or name a `link` that is down");
            check.wrong(
                at,
                format!("at {factor} of the normal speed, practically nothing gets done"),
                remedy,
            );
        }
    }

    /// Checks that a fault with a link down has an end: otherwise no job would end.
    fn check_end(&self, check: Check<'_>, factor: f64) {
        if let (Some(at), true, false) = (self.factor.at, factor < LEAST, self.until.is_written()) {
            check.wrong(
                at,
                "no job can end while a link stays down for ever",
                "write `until = \"2 min\"`",
            );
        }
    }

    /// Returns the numbers of the affected GPUs within their nodes; empty for all. Reports a problem if there are no such GPUs.
    fn gpus(
        &self,
        check: Check<'_>,
        cluster: Option<&Cluster>,
        what: Faulty,
        nodes: &[u32],
    ) -> Option<Vec<u32>> {
        let Some((at, list)) = self.gpus.given() else { return Some(Vec::new()) };
        if what != Faulty::Gpus {
            let remedy = "write `node = \"gpus\"`, or leave out `gpus`";
            check.wrong(at, "`gpus` applies only to faults of GPUs", remedy);
            return None;
        }
        if list.0.is_empty() {
            let remedy = "write `gpus = [0]`, or leave out the list to include all GPUs";
            check.wrong(at, "the list is empty", remedy);
            return None;
        }
        let gpus: Option<Vec<u32>> = list.0.iter().map(|n| n.get().map(|n| n.small())).collect();
        let (gpus, cluster) = (gpus?, cluster?);
        // Without a list of nodes, nodes with fewer GPUs are not affected.
        let fewest = match nodes {
            [] => cluster.kinds(0..cluster.nodes).iter().map(|kind| kind.node.gpus).max(),
            some => some.iter().map(|node| cluster.node_at(*node).gpus).min(),
        };
        let number = fewest.unwrap_or(0);
        if let Some(beyond) = gpus.iter().find(|gpu| **gpu >= number) {
            let what = match number {
                0 => format!("there is no GPU {beyond}: the nodes have none"),
                _ => format!("there is no GPU {beyond}: numbers go from 0 to {}", number - 1),
            };
            check.wrong(at, what, "write other GPU numbers, or increase `cluster.node.gpus`");
            return None;
        }
        Some(gpus)
    }

    fn places(
        &self,
        check: Check<'_>,
        cluster: Option<&Cluster>,
        what: Faulty,
    ) -> Option<Vec<u32>> {
        let Some((at, list)) = self.nodes.given() else { return Some(Vec::new()) };
        let number = cluster.map_or(u32::MAX, |cluster| match (what, cluster.racks) {
            (Faulty::Link(FaultyLink::Uplink), Some(racks)) => cluster.nodes.div_ceil(racks.nodes),
            _ => cluster.nodes,
        });
        if list.0.is_empty() {
            check.wrong(
                at,
                "the list is empty",
                "write `nodes = [0]`, or leave out the list to include all nodes",
            );
            return None;
        }
        let places: Option<Vec<u32>> = list.0.iter().map(|n| n.get().map(|n| n.small())).collect();
        let places = places?;
        if let Some(beyond) = places.iter().find(|place| **place >= number) {
            let what =
                format!("there is no node or rack {beyond}: numbers go from 0 to {}", number - 1);
            check.wrong(at, what, "write other node numbers, or increase `cluster.nodes`");
        }
        Some(places)
    }
}
