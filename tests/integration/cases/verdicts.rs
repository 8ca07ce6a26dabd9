//! Cases about verdicts: the limits that a report names.

use super::{case, report_of};
use crate::verdicts::judged;

/// Files striped over all ten targets of a parallel file system.
const STRIPED: (&str, &str) = (
    "storage.s",
    "{ parallel-fs = { targets = 10, target_bandwidth = \"100 MB/s\", stripe_count = 10, stripe_size = \"100 kB\" } }",
);

/// Names of a storage and of a job: without and with dots, and names of owners of other resources.
const NAMES: [(&str, &str); 5] = [
    ("nas", "train"),
    ("my.nfs", "res.net"),
    ("node", "node"),
    ("rack", "server"),
    ("node.nic", "node.cores"),
];

#[test]
fn the_reported_bottleneck_is_saturated_storage_targets_not_workers() {
    // System: requests over ten targets of 100 MB/s, which are 99 % used. Expectation: the targets are the
    // named limit, and more workers are not advised.
    let (_, verdict) = judged(&case("w", &[STRIPED]));
    assert_eq!(verdict.limits[0].resource, "s.target", "{}", verdict.text);
    assert!(!verdict.limits.iter().any(|limit| limit.lever == "workers"), "{}", verdict.text);
}

#[test]
fn the_reported_bottleneck_is_saturated_server_operations_not_decoding() {
    // System: 40 jobs at 96 % of a server's operations. Expectation: twice the operations give 225 ms a step,
    // and half of the decoding work gives no improvement.
    let (_, verdict) = judged(&case("t5", &[("job.copies", "40"), ("run.steps", "400")]));
    let first = &verdict.limits[0];
    assert_eq!(first.resource, "nfs.operations", "{}", verdict.text);
    assert!((first.after / 0.225 - 1.0).abs() < 0.03, "{}", verdict.text);
    assert!(!verdict.limits.iter().any(|limit| limit.lever == "decode"), "{}", verdict.text);
}

#[test]
fn reports_on_draining_buffers_predict_the_long_run_step_time() {
    // System: steps that take samples read before from full buffers. Expectation: the report says that the run
    // is too short, and the verdict gives the rate at 40 k operations a second: 40 · 256 samples each 256 ms.
    let scenario = case("t5", &[("job.copies", "40")]);
    let (report, (_, verdict)) = (report_of(&scenario), judged(&scenario));
    assert!(!report.jobs[0].length.enough, "{:?}", report.jobs[0].length);
    let long = verdict.long_run.expect("known");
    assert!((long.step_time / 0.256 - 1.0).abs() < 0.02, "{}", verdict.text);
    assert!((long.accelerator_utilisation - 0.82).abs() < 0.02, "{}", verdict.text);
    assert!(verdict.text.contains("operations of `nfs`"), "{}", verdict.text);
}

#[test]
fn draining_buffers_do_not_hide_the_saturated_server() {
    // System: 64 ranks that train from buffers of 48 batches each, which a server of 40 k operations a second
    // fills. Expectation: 64 · 256 samples each 410 ms, and the server is named.
    let (_, verdict) = judged(&case("t2", &[("job.loader.pytorch.workers", "24")]));
    let long = verdict.long_run.expect("known");
    assert!((long.step_time / 0.4096 - 1.0).abs() < 0.05, "{}", verdict.text);
    assert!(verdict.text.contains("operations of `nfs`"), "{}", verdict.text);
    assert!(!verdict.text.contains("communication"), "{}", verdict.text);
}

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
