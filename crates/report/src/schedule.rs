//! Faults that begin or end at times which the scenario sets.
//!
//! Step times then change by schedule. In a single run, the spread of their means says nothing about chance, so figures have no
//! confidence intervals. Intervals over replications stay: in each of them the schedule is the same.

use super::JobOutcome;
use super::measured::Measured;
use forebay_scenario::{Fault, Faulty, FaultyLink, Scenario, Stop};

/// Returns why the figures of a job, whose measured steps are given by replication, have no interval because of faults; otherwise
/// `None`.
pub(super) fn no_interval(
    scenario: &Scenario,
    job: usize,
    replications: &[Vec<(&JobOutcome, Measured)>],
) -> Option<String> {
    let [copies] = replications else { return None };
    // A run until the throughput is known goes on until the fault is a small part of it.
    if matches!(scenario.stop_of(&scenario.jobs[job]), Stop::Known { .. }) {
        return None;
    }
    let during = |time: f64, (copy, measured): &(&JobOutcome, Measured)| {
        let (first, last) = (measured.steps.start, measured.steps.end.checked_sub(1)?);
        let start = first.checked_sub(1).map_or(copy.start, |before| copy.steps[before].end);
        Some(start < time && time < copy.steps[last].end)
    };
    let changes = |fault: &Fault| {
        let times = [fault.from, fault.until];
        let of = |copy| times.iter().any(|time| during(*time, copy).unwrap_or(false));
        concerns(fault, scenario, job) && copies.iter().any(of)
    };
    scenario.faults.iter().any(changes).then(|| {
        "a fault begins or ends during its measured steps, which is not chance: write `run.replications = 5`"
            .to_owned()
    })
}

/// Returns whether a fault affects a storage or nodes that a job uses. Any uplink counts.
fn concerns(fault: &Fault, scenario: &Scenario, job: usize) -> bool {
    match fault.what {
        Faulty::Storage(storage) => scenario.uses(&scenario.jobs[job], storage).any(),
        Faulty::Link(FaultyLink::Uplink) => true,
        Faulty::Link(FaultyLink::Nic | FaultyLink::Intra | FaultyLink::Pcie)
        | Faulty::Cores
        | Faulty::Gpus => {
            let nodes = scenario.nodes_of(job);
            fault.nodes.is_empty() || fault.nodes.iter().any(|node| nodes.contains(node))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{outcome, scenario};
    use crate::summary::summarise;
    use forebay_scenario::{Fault, Faulty};

    #[test]
    fn a_single_run_has_no_intervals_if_a_fault_of_its_storage_ends_during_measured_steps() {
        // System: 40 steps in about 5 s. Expectation: a fault of the job's storage that ends during these steps takes the intervals of a
        // single run away, with a warning, and leaves those over replications; one that ends after the run, or is on a node that
        // no job uses, changes nothing.
        let interval = |what, nodes: &[u32], until, replications| {
            let mut scenario = scenario();
            scenario.faults = vec![Fault {
                what,
                nodes: nodes.to_vec(),
                gpus: Vec::new(),
                factor: 0.5,
                from: 0.0,
                until,
            }];
            let times = [[0.1, 0.1], [0.11, 0.11], [0.105, 0.105]];
            let outcomes: Vec<_> = times.into_iter().take(replications).map(outcome).collect();
            let report = summarise(&scenario, &outcomes, 0.0);
            let warned = report.warnings.iter().any(|of| of.contains("a fault begins or ends"));
            let known = report.jobs[0].figures.step_time.ci95.is_some();
            assert!(warned != known, "{:?}", report.warnings);
            known
        };
        let end = outcome([0.1, 0.1]).jobs[0].steps.last().expect("steps").end;
        assert!(!interval(Faulty::Storage(0), &[], end / 2.0, 1));
        assert!(interval(Faulty::Storage(0), &[], end / 2.0, 3));
        assert!(interval(Faulty::Storage(0), &[], f64::INFINITY, 1));
        assert!(!interval(Faulty::Gpus, &[0], end / 2.0, 1));
        assert!(interval(Faulty::Gpus, &[900], end / 2.0, 1));
    }
}
