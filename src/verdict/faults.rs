//! Faults as limits: what they slow, and the levers that remove them.
//!
//! A lever removes all faults of one part of the cluster, such as NICs or one storage; one more lever removes the faults of all
//! parts, if there are several.

use crate::report::{Cause, ResourceReport};
use crate::scenario::{Fault, Faulty, FaultyLink, Scenario};

use super::candidates::Subject;
use super::lever::{Kind, Lever};

/// Maximum number of nodes that are named.
const MOST_NAMED: usize = 4;

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
            let one = all.iter().all(|fault| fault.gpus.len() == 1 && fault.gpus == all[0].gpus);
            let part = match named(scenario, *part) {
                _ if one => "GPU".to_owned(),
                name => name,
            } + &places(*part, &all);
            format!("{fault} of {part}")
        }
        None => {
            let names: Vec<String> = parts.iter().map(|part| named(scenario, *part)).collect();
            format!("the faults of {}", names.join(" and "))
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

/// Returns which nodes or racks, and which of their GPUs, the faults slow; empty if they slow all.
fn places(part: Faulty, faults: &[&Fault]) -> String {
    let list = |all: Vec<u32>| {
        let mut numbers: Vec<u32> = all;
        numbers.sort_unstable();
        numbers.dedup();
        let some = numbers.len().min(MOST_NAMED);
        let more = if numbers.len() > some { ", …" } else { "" };
        let shown: Vec<String> = numbers[..some].iter().map(u32::to_string).collect();
        (numbers.len(), shown.join(", ") + more)
    };
    let all = |of: fn(&Fault) -> &[u32]| -> Option<(usize, String)> {
        let some = faults.iter().all(|fault| !of(fault).is_empty());
        some.then(|| list(faults.iter().flat_map(|fault| of(fault)).copied().collect()))
    };
    let node = match part {
        Faulty::Link(FaultyLink::Uplink) => "rack",
        _ => "node",
    };
    let gpus = all(|fault| &fault.gpus).map(|(_, list)| format!(" {list}"));
    let nodes = all(|fault| &fault.nodes)
        .map(|(number, list)| format!(" of {node}{} {list}", if number == 1 { "" } else { "s" }));
    gpus.unwrap_or_default() + &nodes.unwrap_or_default()
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
    /// Returns the levers that remove faults which may cause stalls of this kind.
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
        all.retain(|lever| removed(scenario, lever.at).iter().any(behind));
        // The faults of one part that alone may be the limit come before those of all parts.
        if all.len() == 2 {
            all.pop();
        }
        all
    }

    /// Returns the share of a resource's capacity that faults leave for the whole run, on the nodes where they leave least.
    pub(super) fn left(&self, resource: &ResourceReport) -> f64 {
        let scenario = self.scenario;
        let slow = scenario.faults.iter().filter(|fault| {
            is_lasting(fault) && fault.what.slows(&resource.name, &scenario.storage)
        });
        slow.map(|fault| fault.factor).product()
    }
}
