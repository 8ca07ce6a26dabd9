//! Cases about verdicts: the limits that a report names.

use super::{judged, kept, report_of};
use crate::runs::{Case, repository};
use crate::verdicts::{self, find, first};

/// Files striped over all ten targets of a parallel file system.
const STRIPED: (&str, &str) = (
    "storage.s",
    "{ parallel-fs = { targets = 10, target_bandwidth = \"100 MB/s\", stripe_count = 10, stripe_size = \"100 kB\" } }",
);

/// Jobs of `t5` on a server with 1000 operations a second: a tenth of the jobs, with a quarter of the samples in each step.
const FEW: [(&str, &str); 7] = [
    // Later epochs would not read.
    ("cluster.node.page_cache", "\"none\""),
    ("job.copies", "4"),
    ("job.batch", "64"),
    ("job.loader.pytorch.workers", "4"),
    ("job.loader.pytorch.prefetch_factor", "8"),
    ("storage.nfs.file-server.operations", "\"1000 /s\""),
    ("storage.nfs.file-server.bandwidth", "\"125 MB/s\""),
];

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
    let changes = [STRIPED, ("job.model.step", "\"6 ms\""), ("run.replications", "1")];
    let (_, verdict) = judged("w", &changes);
    assert_eq!(verdict.limits[0].resource, "s.target", "{}", verdict.text);
    assert!(find(&verdict, "workers").is_none(), "{}", verdict.text);
}

#[test]
fn the_reported_bottleneck_is_saturated_server_operations_not_decoding() {
    // System: jobs at 96 % of a server's operations. Expectation: twice the operations give the step time that a run with them shows,
    // and half of the decoding work gives no improvement.
    let case = kept("t5", &[&FEW[..], &[("run.steps", "200")]].concat());
    let (_, verdict) = verdicts::judged(&case);
    let first = first(&verdict, "operations");
    let shown = report_of(&case.followed(&first.changes).scenario);
    let shown = shown.jobs[0].figures.step_time.mean.expect("steps");
    assert!((first.after / shown - 1.0).abs() < 0.03, "{shown}: {}", verdict.text);
    assert!(find(&verdict, "decode").is_none(), "{}", verdict.text);
}

#[test]
fn reports_on_draining_buffers_predict_the_long_run_step_time() {
    // System: steps that take samples read before from full buffers. Expectation: the report says that the run
    // is too short, and the verdict gives the rate at 1000 operations a second: 4 · 64 samples each 256 ms.
    let (report, verdict) = judged("t5", &FEW);
    assert!(!report.jobs[0].length.enough, "{:?}", report.jobs[0].length);
    let long = verdict.long_run.expect("known");
    assert!((long.step_time / 0.256 - 1.0).abs() < 0.02, "{long:?} {}", verdict.text);
    assert!((long.accelerator_utilisation - 0.82).abs() < 0.02, "{long:?} {}", verdict.text);
    first(&verdict, "operations");
}

#[test]
fn a_name_with_a_dot_does_not_hide_the_bandwidth_that_a_job_needs() {
    // System: four GPUs take 12,800 samples of 110 kB each second, 1.408 GB/s, from a server of 200 MB/s called `my.nfs`.
    // Expectation: the server's bandwidth is named beside the NIC's, in steps of a fifth.
    let verdict = verdicts::thoroughly_judged(&kept("turn3/names", &[("run.replications", "1")]));
    let need = verdict.needs.iter().find(|need| need.resource == "my.nfs.bandwidth");
    let need = need.unwrap_or_else(|| panic!("{}", verdict.text));
    assert!((0.95..1.25).contains(&(need.needed / 1.408e9)), "{}", need.needed);
    assert_eq!(need.capacity, 200e6);
    assert_eq!(need.name, "bandwidth of `my.nfs`");
    assert!(verdict.needs.iter().any(|need| need.resource == "node.nic"), "{}", verdict.text);
}

#[test]
fn needs_and_limits_are_the_same_whatever_a_storage_and_a_job_are_called() {
    // System: the same with five pairs of names. Expectation: the same figures.
    let text = std::fs::read_to_string(repository("tests/data/cases/turn3/names.toml"));
    let text = text.expect("a scenario");
    let found = NAMES.map(|(storage, job)| {
        let renamed = text
            .replace("\"my.nfs\"", &format!("\"{storage}\""))
            .replace("\"res.net\"", &format!("\"{job}\""));
        let few = [("run.steps", "100"), ("run.replications", "1")];
        let (_, verdict) = verdicts::judged(&Case::written(&renamed, &few));
        assert_eq!(verdict.job, job);
        let needs = verdict.needs.iter().map(|need| (need.needed, need.capacity));
        let limits = verdict.limits.iter().map(|limit| (limit.lever.clone(), limit.after_interval));
        (needs.collect::<Vec<_>>(), limits.collect::<Vec<_>>(), verdict.events)
    });
    for of in &found {
        assert_eq!(*of, found[0]);
    }
}
