//! Faults as limits: what they slow, and the levers that remove them.
//!
//! A lever removes all faults of one part of the cluster, such as NICs or one storage; one more lever removes the faults of all
//! parts, if there are several.

use crate::report::{Cause, ResourceReport};
use crate::scenario::{Fault, Faulty, FaultyLink, Scenario};

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::candidates::Subject;
use super::lever::{Kind, Lever};

/// Maximum number of nodes, of GPUs, and of parts that are named.
const MOST_NAMED: usize = 4;
/// Maximum ratio of the utilisation of the most used resource to that of a slow one which is used like it.
const SAME: f64 = 1.05;

/// Returns the levers that remove faults: one for each part that has faults, and one for all parts if there are several.
pub(super) fn levers(scenario: &Scenario) -> Vec<Lever> {
    let parts = parts(scenario).len();
    let all = if parts > 1 { parts + 1 } else { parts };
    (0..all).map(|at| Lever { kind: Kind::Faults, at }).collect()
}

/// Removes the faults that lever number `at` removes.
pub(super) fn remove(scenario: &mut Scenario, at: usize) {
    let parts = parts(scenario);
    match parts.get(at) {
        Some(part) => scenario.faults.retain(|fault| fault.what != *part),
        None if parts.len() > 1 && at == parts.len() => scenario.faults.clear(),
        None => {}
    }
}

/// Returns the faults that lever number `at` removes.
fn removed(scenario: &Scenario, at: usize) -> Vec<&Fault> {
    let part = parts(scenario).get(at).copied();
    scenario.faults.iter().filter(|fault| part.is_none_or(|part| fault.what == part)).collect()
}

/// Returns whether the faults that lever number `at` removes begin or end during the run, so that only a long run shows them.
pub(super) fn are_temporary(scenario: &Scenario, at: usize) -> bool {
    removed(scenario, at).iter().any(|fault| !is_lasting(fault))
}

/// Returns whether a fault lasts for the whole run.
fn is_lasting(fault: &Fault) -> bool {
    fault.from <= 0.0 && fault.until.is_infinite()
}

/// Returns the parts of the cluster that have faults, each once, in the order of the scenario.
fn parts(scenario: &Scenario) -> Vec<Faulty> {
    let mut parts: Vec<Faulty> = Vec::new();
    for fault in &scenario.faults {
        if !parts.contains(&fault.what) {
            parts.push(fault.what);
        }
    }
    parts
}

/// Returns the faults of lever number `at` in words: what is slow, and where.
pub(super) fn words(scenario: &Scenario, at: usize) -> String {
    let parts = parts(scenario);
    match parts.get(at) {
        Some(part) => {
            let all = removed(scenario, at);
            let fault = if all.len() == 1 { "the fault" } else { "the faults" };
            format!("{fault} of {}", slow(scenario, *part, &all))
        }
        None => {
            let mut names: Vec<String> = parts.iter().map(|part| named(scenario, *part)).collect();
            // Behind "links between GPUs", another name would read as one end of the links.
            names.sort_by_key(|name| name.contains(" between "));
            format!("the faults of {}", listed(&names, " and of "))
        }
    }
}

fn named(scenario: &Scenario, part: Faulty) -> String {
    match part {
        Faulty::Storage(index) => match scenario.storage.get(index) {
            Some(storage) => format!("`{}`", storage.name),
            None => "storage".to_owned(),
        },
        Faulty::Link(FaultyLink::Nic) => "NICs".to_owned(),
        Faulty::Link(FaultyLink::Intra) => "links between GPUs".to_owned(),
        Faulty::Link(FaultyLink::Pcie) => "host-to-device links".to_owned(),
        Faulty::Link(FaultyLink::Uplink) => "rack uplinks".to_owned(),
        Faulty::Cores => "cores".to_owned(),
        Faulty::Gpus => "GPUs".to_owned(),
    }
}

/// Returns the part that `faults` slow, with the numbers of the nodes or racks, and of their GPUs, unless all are slow.
fn slow(scenario: &Scenario, part: Faulty, faults: &[&Fault]) -> String {
    // The nodes on which the same GPUs are slow; none for all nodes.
    let mut by_gpus = BTreeMap::<BTreeSet<u32>, Option<BTreeSet<u32>>>::new();
    for fault in faults {
        let nodes = by_gpus.entry(fault.gpus.iter().copied().collect());
        let nodes = nodes.or_insert_with(|| Some(BTreeSet::new()));
        match nodes {
            Some(nodes) if !fault.nodes.is_empty() => nodes.extend(&fault.nodes),
            _ => *nodes = None,
        }
    }
    if by_gpus.get(&BTreeSet::new()).is_some_and(Option::is_none) {
        return named(scenario, part);
    }
    let node = match part {
        Faulty::Link(FaultyLink::Uplink) => "rack",
        _ => "node",
    };
    let each = by_gpus.iter().map(|(gpus, nodes)| {
        let part = match gpus.is_empty() {
            true => named(scenario, part),
            false => numbered("GPU", gpus),
        };
        let nodes = nodes.as_ref().map(|nodes| format!(" of {}", numbered(node, nodes)));
        part + &nodes.unwrap_or_default()
    });
    listed(&each.collect::<Vec<_>>(), " and ")
}

/// Writes the numbers of things that are called `one`: `node 2`, `nodes 0, 3`.
fn numbered(one: &str, numbers: &BTreeSet<u32>) -> String {
    let plural = if numbers.len() == 1 { "" } else { "s" };
    let more = if numbers.len() > MOST_NAMED { ", …" } else { "" };
    let shown: Vec<String> = numbers.iter().take(MOST_NAMED).map(u32::to_string).collect();
    format!("{one}{plural} {}{more}", shown.join(", "))
}

/// Joins names by `last`.
fn listed(names: &[String], last: &str) -> String {
    let more = if names.len() > MOST_NAMED { ", …" } else { "" };
    names[..names.len().min(MOST_NAMED)].join(last) + more
}

/// Returns the name of the resource that the faults of lever number `at` slow, as limits are told apart.
pub(super) fn resource(scenario: &Scenario, at: usize) -> String {
    match parts(scenario).get(at) {
        Some(Faulty::Storage(index)) => {
            let storage = scenario.storage.get(*index).map_or("", |storage| storage.name.as_str());
            format!("faults.{storage}")
        }
        Some(Faulty::Link(FaultyLink::Nic)) => "faults.node.nic".to_owned(),
        Some(Faulty::Link(FaultyLink::Intra)) => "faults.node.intra".to_owned(),
        Some(Faulty::Link(FaultyLink::Pcie)) => "faults.node.pcie".to_owned(),
        Some(Faulty::Link(FaultyLink::Uplink)) => "faults.rack.uplink".to_owned(),
        Some(Faulty::Cores) => "faults.node.cores".to_owned(),
        Some(Faulty::Gpus) => "faults.node.gpus".to_owned(),
        None => "faults".to_owned(),
    }
}

impl Subject<'_> {
    /// Returns the levers that remove faults which slow the job and may cause stalls of this kind.
    pub(super) fn faults_behind(&self, cause: Cause) -> Vec<Lever> {
        let (scenario, job) = (self.scenario, self.described());
        let behind = |fault: &&Fault| match fault.what {
            Faulty::Storage(index) => {
                let uses = scenario.uses(job, index);
                match cause {
                    Cause::Checkpoint | Cause::Fault => uses.checkpoints,
                    Cause::Open | Cause::Transfer | Cause::Order => uses.reads || uses.caches,
                    _ => false,
                }
            }
            Faulty::Link(FaultyLink::Nic | FaultyLink::Uplink) => matches!(
                cause,
                Cause::Transfer
                    | Cause::Order
                    | Cause::Communication
                    | Cause::Bubble
                    | Cause::Checkpoint
                    | Cause::Fault
            ),
            Faulty::Link(FaultyLink::Intra) => {
                matches!(cause, Cause::Communication | Cause::Bubble)
            }
            Faulty::Link(FaultyLink::Pcie) => {
                matches!(cause, Cause::Copy | Cause::Communication | Cause::Swap)
            }
            Faulty::Cores => matches!(
                cause,
                Cause::CpuWait
                    | Cause::Decode
                    | Cause::Order
                    | Cause::Launch
                    | Cause::Communication
                    | Cause::Compute
            ),
            Faulty::Gpus => matches!(
                cause,
                Cause::Decode
                    | Cause::Order
                    | Cause::Communication
                    | Cause::Bubble
                    | Cause::Compute
            ),
        };
        let mut all = levers(scenario);
        all.retain(|lever| {
            removed(scenario, lever.at)
                .iter()
                .any(|fault| behind(fault) && self.is_slowed_by(fault))
        });
        // The faults of one part that alone may be the limit come before those of all parts.
        if all.len() == 2 {
            all.pop();
        }
        all
    }

    /// Returns the numbers of the places of a part that the job is on, as faults count them: its nodes, or their racks.
    fn places(&self, part: Faulty) -> Range<u32> {
        let nodes = self.scenario.nodes_of(self.job);
        match (part, self.scenario.cluster.racks) {
            (Faulty::Link(FaultyLink::Uplink), Some(racks)) => {
                nodes.start / racks.nodes..nodes.end.div_ceil(racks.nodes)
            }
            _ => nodes,
        }
    }

    /// Returns whether a fault slows a part of the nodes, racks or GPUs that the job is on.
    fn is_slowed_by(&self, fault: &Fault) -> bool {
        let (job, places) = (self.described(), self.places(fault.what));
        // On shared nodes, it depends on other jobs which GPUs a job has.
        let has = |node: u32, gpu: u32| {
            let own = job.gpus_on((node - places.start) % job.nodes);
            self.scenario.cluster.share_nodes || u64::from(gpu) < own
        };
        let is_on = |place: u32| {
            places.contains(&place)
                && (fault.gpus.is_empty() || fault.gpus.iter().any(|gpu| has(place, *gpu)))
        };
        match (&fault.nodes[..], &fault.gpus[..]) {
            ([], []) => true,
            ([], _) => places.clone().any(is_on),
            (some, _) => some.iter().any(|place| is_on(*place)),
        }
    }

    /// Returns the shares of a resource's capacity that faults leave for the whole run on the job's nodes, each once, the smallest
    /// first.
    fn shares_left(&self, resource: &ResourceReport) -> Vec<f64> {
        let slows = |fault: &&Fault| is_lasting(fault) && resource.of.is_slowed_by(fault.what);
        let faults: Vec<&Fault> = self.scenario.faults.iter().filter(slows).collect();
        let Some(first) = faults.first() else { return vec![1.0] };
        let places = self.places(first.what);
        let named: BTreeSet<u32> = faults.iter().flat_map(|fault| &fault.nodes).copied().collect();
        let named: Vec<u32> = named.into_iter().filter(|place| places.contains(place)).collect();
        let left = |place: Option<u32>| -> f64 {
            let is_there = |fault: &&&Fault| {
                fault.nodes.is_empty() || place.is_some_and(|place| fault.nodes.contains(&place))
            };
            faults.iter().filter(is_there).map(|fault| fault.factor).product()
        };
        let mut all: Vec<f64> = named.iter().map(|place| left(Some(*place))).collect();
        if named.len() < places.len() {
            all.push(left(None));
        }
        all.sort_by(f64::total_cmp);
        all.dedup();
        all
    }

    /// Returns the share of a resource's capacity that faults leave for the whole run, on the job's nodes where they leave least.
    pub(super) fn left(&self, resource: &ResourceReport) -> f64 {
        self.shares_left(resource).first().copied().unwrap_or(1.0)
    }

    /// Returns the utilisation of the most used resource of this kind, as a share of the capacity that faults leave there for the whole
    /// run.
    pub(super) fn used_of_left(&self, resource: &ResourceReport) -> f64 {
        let used = resource.utilisation_max.mean.unwrap_or(0.0);
        // The busiest resource cannot have served more than its faults leave: take the smallest share that allows its utilisation.
        let is_served = |left: &f64| used <= SAME * left;
        used / self.shares_left(resource).into_iter().find(is_served).unwrap_or(1.0)
    }
}
