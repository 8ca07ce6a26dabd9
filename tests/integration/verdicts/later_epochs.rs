//! Verdicts on jobs whose first epoch fills caches.

use super::{first, judged, thoroughly_judged};
use crate::cases::report_of;
use crate::runs::{Case, written};
use forebay::sim;

/// A job of one worker that reads files of 100 kB from a disk of 50 MB/s, through a page cache for 60 % of them.
const HALF_CACHED: &str = r#"
name = "half-cached"
[run]
epochs = 3
replications = 1
[cluster]
nodes = 1
[cluster.node]
cores = 8
page_cache = { capacity = "240 MB", policy = "minio" }
[storage.disk.local-disk]
bandwidth = "50 MB/s"
access = "cold"
[dataset.d]
samples = 4000
sample_size = "100 kB"
[[job]]
name = "j"
dataset = "d"
storage = "disk"
batch = 20
model.step = "1 ms"
loader.pytorch = { workers = 1, decode = "500 us" }
"#;

/// Two jobs on servers of their own; the first one fills a cache on disks of 150 MB/s in its first epoch.
const CACHED_ON_DISK: &str = r#"
name = "two"
[run]
epochs = 3
replications = 1
[cluster]
nodes = 2
node = { cores = 16, gpus = 1 }
network.nic = "10 GB/s"
[storage.s.file-server]
bandwidth = "100 MB/s"
cache = { on = "nvme", capacity = "600 MB" }
[storage.t.file-server]
bandwidth = "2 GB/s"
[storage.nvme.local-disk]
bandwidth = "150 MB/s"
write_bandwidth = "1 GB/s"
[dataset.d]
samples = 4000
sample_size = "100 kB"
[[job]]
name = "cached"
dataset = "d"
storage = "s"
batch = 20
model.step = "1 ms"
loader.pytorch = { workers = 2, decode = { gamma = { mean = "500 us", cv = 0.2 } } }
[[job]]
name = "plain"
dataset = "d"
storage = "t"
batch = 20
model.step = "1 ms"
epochs = 20
loader.pytorch = { workers = 2, decode = { gamma = { mean = "500 us", cv = 0.2 } } }
"#;

/// Changes by which the second job copies its data to another disk before it trains.
const COPIED: [(&str, &str); 2] = [
    (
        "storage.scratch.local-disk",
        "{ bandwidth = \"1 GB/s\", write_bandwidth = \"150 MB/s\", capacity = \"1 TB\" }",
    ),
    ("job.plain.copy", "{ to = \"scratch\" }"),
];

/// Checks that the verdict on the first job of [`CACHED_ON_DISK`] with `changes` names the disk of its cache, with the step times of later
/// epochs before and after.
#[track_caller]
fn the_disk_of_the_cache_is_named(changes: &[(&str, &str)]) {
    let case = Case::written(CACHED_ON_DISK, changes);
    let verdict = thoroughly_judged(&case);
    let first = verdict.limits.first().unwrap_or_else(|| panic!("{}", verdict.text));
    assert_eq!((&*verdict.job, &*first.resource), ("cached", "nvme.bandwidth"), "{}", verdict.text);
    let later = |case: &Case| {
        let report = report_of(&case.scenario);
        report.jobs[0].later_epochs.as_ref().and_then(|of| of.step_time.mean).expect("epochs")
    };
    let (before, after) = (later(&case), later(&case.followed(&first.changes)));
    assert!((first.before / before - 1.0).abs() < 0.02, "{before}: {}", verdict.text);
    assert!((first.after / after - 1.0).abs() < 0.02, "{after}: {}", verdict.text);
}

#[test]
fn the_disk_of_a_cache_is_named_if_it_is_full_in_later_epochs_only() {
    // System: a server of 100 MB/s fills a cache on a disk of 150 MB/s, from which two workers read batches of 2 MB each in later epochs.
    // The other job goes on for longer. Expectation: the disk is named, with the step times of later epochs.
    the_disk_of_the_cache_is_named(&[]);
}

#[test]
fn a_cache_that_would_hold_all_data_is_judged_by_what_it_holds_in_later_epochs() {
    // System: in later epochs a sample takes 0.4 · 2 ms to read and 0.5 ms to decode, 26 ms for a batch. Expectation: with twice the
    // cache nothing is read, and a step takes 10 ms: the first limit, ahead of the disk (18 ms).
    let (_, verdict) = judged(&Case::written(HALF_CACHED, &[]));
    let first = first(&verdict, "page_cache.capacity");
    assert!((first.before / 26e-3 - 1.0).abs() < 0.02, "{}", verdict.text);
    assert!((first.after / 10e-3 - 1.0).abs() < 0.02, "{}", verdict.text);
}

#[test]
fn a_run_of_few_steps_in_later_epochs_has_a_verdict_on_them() {
    // System: two epochs of 20 batches, made by 8 workers on 8 cores that decode a sample in 12 ms; all files fit in the page cache.
    // Expectation: a batch takes 64 · 12 ms ÷ 8 = 96 ms, and half of that if samples are decoded in 6 ms.
    let changes = [
        ("run.epochs", "2"),
        ("dataset.d.samples", "1280"),
        ("storage.disk.local-disk.bandwidth", "\"2 GB/s\""),
        ("job.batch", "64"),
        ("job.loader.pytorch", "{ workers = 8, decode = \"12 ms\" }"),
        ("cluster.node.page_cache", "{ capacity = \"200 MB\", policy = \"minio\" }"),
    ];
    let (_, verdict) = judged(&Case::written(HALF_CACHED, &changes));
    let first = first(&verdict, "pytorch.decode");
    assert!((first.gain - 0.5).abs() < 0.02, "{}", verdict.text);
}

#[test]
fn a_limit_of_later_epochs_is_named_although_another_job_copies_its_data_first() {
    // System: the other job copies its data to a second disk at 150 MB/s, 2.7 s, before it trains. Expectation: the same limit and step
    // time as without the copy.
    the_disk_of_the_cache_is_named(&COPIED);
}

#[test]
fn a_run_that_begins_in_later_epochs_does_not_copy_its_data_first() {
    // System: 400 MB are copied to a disk of 150 MB/s before the first step. Expectation: a run from the start trains from 2.67 s on; a run
    // that begins after an epoch trains at once and copies nothing.
    let scenario = written(CACHED_ON_DISK, &COPIED);
    let plain = |epochs_before: &[f64]| {
        let options = sim::Options { epochs_before, ..sim::Options::default() };
        let job = sim::run(&scenario, 0, &options).jobs.swap_remove(1);
        (job.start, job.staging.len())
    };
    let (start, copies) = plain(&[]);
    assert!((start - 400.0 / 150.0).abs() < 0.01 && copies == 1, "{start}, {copies} copies");
    assert_eq!(plain(&[1.0, 1.0]), (0.0, 0));
}

#[test]
fn a_limit_of_later_epochs_is_named_although_the_job_writes_checkpoints() {
    // System: the job with the cache writes a checkpoint of 20 MB to a server of 2 GB/s every 40 steps, 10 ms, in which its workers make
    // batches ahead. Expectation: the same limit and step time as without checkpoints.
    let checkpoint = "{ steps = 40, bytes = \"20 MB\", storage = \"t\" }";
    the_disk_of_the_cache_is_named(&[("job.cached.checkpoint", checkpoint)]);
}

#[test]
fn checkpoints_are_named_if_training_waits_for_them_in_later_epochs() {
    // System: steps of 30 ms, and a checkpoint of 50 MB at 200 MB/s, 250 ms, every 25 steps: 40 ms a step once the page cache holds all
    // files. Expectation: asynchronous checkpoints save a quarter of the step time.
    let changes = [
        ("cluster.node.page_cache", "{ capacity = \"480 MB\" }"),
        ("storage.ck.file-server", "{ bandwidth = \"200 MB/s\" }"),
        ("job.checkpoint", "{ steps = 25, bytes = \"50 MB\", storage = \"ck\" }"),
        ("job.model.step", "\"30 ms\""),
    ];
    let (_, verdict) = judged(&Case::written(HALF_CACHED, &changes));
    let first = first(&verdict, "checkpoint.asynchronous");
    assert!((first.gain - 0.25).abs() < 0.03, "{}", verdict.text);
}
