//! Cases about names that look like a part of a resource's name.

use super::case;
use crate::verdicts::judged;

/// Names of a storage and of a job: without and with dots, and names of owners of other resources.
const NAMES: [(&str, &str); 5] = [
    ("nas", "train"),
    ("my.nfs", "res.net"),
    ("node", "node"),
    ("rack", "server"),
    ("node.nic", "node.cores"),
];

#[test]
fn a_name_with_a_dot_does_not_hide_the_bandwidth_that_a_job_needs() {
    // System: four GPUs take 12,800 samples of 110 kB each second, 1.408 GB/s, from a server of 200 MB/s called `my.nfs`.
    // Expectation: the server's bandwidth is named beside the NIC's.
    let (_, verdict) = judged(&case("turn3/names", &[("run.replications", "1")]));
    let need = verdict.needs.iter().find(|need| need.resource == "my.nfs.bandwidth");
    let need = need.unwrap_or_else(|| panic!("{}", verdict.text));
    assert!((need.needed / 1.408e9 - 1.0).abs() < 0.01, "{}", need.needed);
    assert_eq!(need.capacity, 200e6);
    assert_eq!(need.name, "bandwidth of `my.nfs`");
    assert!(verdict.needs.iter().any(|need| need.resource == "node.nic"), "{}", verdict.text);
}

#[test]
fn needs_and_limits_are_the_same_whatever_a_storage_and_a_job_are_called() {
    // System: the same with five pairs of names. Expectation: the same figures.
    let found = NAMES.map(|(storage, job)| {
        let mut scenario = case("turn3/names", &[("run.steps", "100"), ("run.replications", "1")]);
        scenario.storage[0].name = storage.to_owned();
        scenario.jobs[0].name = job.to_owned();
        let (_, verdict) = judged(&scenario);
        let needs = verdict.needs.iter().map(|need| (need.needed, need.capacity));
        let limits = verdict.limits.iter().map(|limit| (limit.lever.clone(), limit.after_interval));
        (needs.collect::<Vec<_>>(), limits.collect::<Vec<_>>(), verdict.events)
    });
    for of in &found {
        assert_eq!(*of, found[0]);
    }
}
