//! A loader for each model copy of a node: each has its own workers, buffers and share of the samples, and all
//! model copies train in step, in both worlds.

use super::conformance::worlds;
use super::on_request::text;
use super::runs::{repository, written};
use forebay::live::{CopyOutcome, CopyTask, monotonic, run_copy};
use forebay::report::{Cause, JobOutcome, StallCause};
use forebay::scenario::{Scenario, Stop};
use std::sync::atomic::AtomicBool;

/// Returns two model copies on one node, with a loader for each or for both.
fn of(loaders: &str, batch: u32, latency: &str, model: &str, loader: &str) -> String {
    let data = format!("{{ data = {{ copies_per_node = 2, loaders = \"{loaders}\" }} }}");
    text(batch, latency, &format!("model = {{ {model} }}\nparallel = {data}"), loader)
}

fn per_rank(batch: u32, latency: &str, model: &str, loader: &str) -> Scenario {
    written(&of("per-rank", batch, latency, model, loader), &[])
}

fn live(scenario: &Scenario) -> CopyOutcome {
    let ready = || Some(monotonic());
    run_copy(scenario, &CopyTask::default(), &AtomicBool::new(false), ready).expect("a live run")
}

#[test]
fn each_rank_s_loader_prefetches_its_own_batches() {
    // System: each trainer has one batch and computes. Expectation: every loader has prefetched as many batches
    // as in PyTorch and Keras, independently; the report has the batches of the first loader.
    for (loader, made) in [
        ("pytorch = { workers = 2, prefetch_factor = 2 }", 5),
        ("pytorch = { workers = 3, prefetch_factor = 4 }", 13),
        ("keras = { workers = 2, max_queue_size = 3 }", 5),
    ] {
        let mut scenario = per_rank(4, "\"100 us\"", "step = \"100 s\"", loader);
        scenario.run.stop = Stop::Duration(0.25);
        for (world, job) in worlds(&scenario) {
            assert_eq!(job.samples.enqueued, 2 * 4 * made, "{world}: {loader}");
            assert_eq!(job.samples.dequeued, 2 * 4, "{world}: {loader}");
            assert_eq!(job.deliveries.len() as u64, made, "{world}: {loader}");
        }
    }
}

#[test]
fn every_loader_kind_runs_one_instance_per_rank() {
    // System: loaders whose workers, stages and tuned parallelism are per rank. Expectation: twice the capacity
    // and the workers of one loader; all samples read are trained on, and each step takes a batch for each
    // rank.
    let model = "step = \"100 us\"";
    for (loader, capacity, workers) in [
        ("tf-queue = { threads = 3, capacity = \"12 samples\" }", 24, 6),
        ("tf-data = { parallel_calls = 2, prefetch = 3 }", 24, 2),
        ("tf-data = { parallel_calls = \"auto\", prefetch = 3 }", 24, 2),
        ("dali = { threads = 2, readers = 2, prefetch_queue_depth = 3 }", 24, 2),
        ("pytorch = { workers = 2, pin_memory = \"100 us\" }", 32, 4),
    ] {
        let mut scenario = per_rank(4, "\"1 ms\"", model, loader);
        scenario.run.stop = Stop::Epochs(0.16);
        for (world, job) in worlds(&scenario) {
            let room = (job.queue.capacity, job.queue.workers);
            assert_eq!(room, (capacity, workers), "{world}: {loader}");
            assert_eq!(job.steps.len(), 20, "{world}: {loader}");
            assert!(job.steps.iter().all(|step| step.fresh == 8), "{world}: {loader}");
            assert_eq!((job.samples.started, job.samples.left), (160, 0), "{world}: {loader}");
            assert_eq!(job.tuned.is_empty(), !loader.contains("auto"), "{world}: {loader}");
        }
    }
}

#[test]
fn ranks_split_an_epoch_without_overlap() {
    // System: samples of varying sizes, with each layout and sampler. Expectation: in an epoch the ranks
    // together read every byte once, as one loader for both does.
    let sizes = "sample_size = { lognormal = { median = \"100 B\", p99 = \"2 kB\" } }";
    let bytes = |loaders: &str, layout: &str, sampler: &str| {
        let text = of(loaders, 4, "\"1 us\"", "step = \"1 us\"", "pytorch = { workers = 2 }")
            .replace("samples = 1000", "samples = 800")
            .replace("sample_size = \"100 B\"", &format!("{sizes}\n{layout}"))
            .replace("batch = 4", &format!("batch = 4\n{sampler}"));
        let mut scenario = written(&text, &[]);
        scenario.run.stop = Stop::Epochs(1.0);
        let part = live(&scenario);
        assert_eq!((part.job.steps.len(), part.job.samples.started), (100, 800), "{loaders}");
        part.bytes
    };
    let (files, shards) = ("", "layout.shards = { samples = 20 }");
    let contiguous = "sampler = \"contiguous\"";
    let all = bytes("per-node", files, "");
    assert_eq!(all, bytes("per-node", shards, ""));
    for (layout, sampler) in [
        (files, ""),
        (files, contiguous),
        (shards, ""),
        (shards, contiguous),
        (shards, "sampler = \"shard-split\""),
    ] {
        assert_eq!(bytes("per-rank", layout, sampler), all, "{layout}: {sampler}");
    }
}

#[test]
fn ranks_split_the_smaller_last_batches_of_an_epoch() {
    // System: 45 samples for two ranks, batches of 4, an epoch and a half. Expectation: batch sizes in every
    // step are equal in both worlds, and the last batches of an epoch are smaller.
    let loader = "pytorch = { workers = 2, drop_last = false }";
    let text = of("per-rank", 4, "\"100 us\"", "step = \"100 us\"", loader);
    let mut scenario = written(&text.replace("samples = 1000", "samples = 45"), &[]);
    scenario.run.stop = Stop::Epochs(1.5);
    let sizes = worlds(&scenario)
        .map(|(_, job)| job.steps.iter().map(|step| step.samples).collect::<Vec<u64>>());
    assert_eq!(sizes[0], sizes[1]);
    assert!(sizes[0].iter().any(|samples| *samples < 8), "{sizes:?}");
}

/// Returns the steps that took more than a quarter of a second.
fn slow(job: &JobOutcome) -> Vec<usize> {
    let starts = [job.start].into_iter().chain(job.steps.iter().map(|step| step.end));
    let took = job.steps.iter().zip(starts).map(|(step, start)| step.end - start);
    took.enumerate().filter(|(_, took)| *took > 0.25).map(|(index, _)| index).collect()
}

#[test]
fn every_step_waits_for_the_slowest_rank() {
    // System: one sample in each batch, of 5 ms, or in one of ten cases of 500 ms, with independent random
    // numbers for each rank. Expectation: a step is as slow as its slowest rank; both worlds use the same
    // random numbers, so that the same steps are slow, and the other rank's stall has the slow rank's cause.
    let file = repository("tests/data/one-slow-in-ten.csv");
    let latency = format!("{{ empirical = {{ file = \"{}\" }} }}", file.display());
    let [(_, simulated), (_, live)] =
        worlds(&per_rank(1, &latency, "step = \"1 us\"", "pytorch = { workers = 1 }"));
    assert_eq!(slow(&simulated), slow(&live));
    assert!(slow(&simulated).len() > 1, "{:?}", slow(&simulated));
    for job in [simulated, live] {
        for step in slow(&job) {
            let peers = StallCause::peer(Cause::Latency);
            let of = job.stalls.iter().filter(|of| of.step as usize == step && of.cause == peers);
            let waited: f64 = of.map(|stall| stall.seconds).sum();
            assert!(waited > 0.2, "step {step}: {waited}");
        }
    }
}

#[test]
fn a_batch_is_copied_to_the_device_of_its_rank() {
    // System: batches of 400 kB that take 20 ms over a link of 20 MB/s to each device. Expectation: each loader
    // has the link to its own device, so that a step takes 20 ms; one loader for both ranks uses both links in
    // turn.
    let machine = [("cluster.node.pcie", "\"20 MB/s\""), ("dataset.d.decoded_size", "\"100 kB\"")];
    let loader = "pytorch = { workers = 2, pin_memory = \"10 us\", to_device = true }";
    for loaders in ["per-rank", "per-node"] {
        let text = of(loaders, 4, "\"1 us\"", "step = \"10 us\"", loader);
        for (world, job) in worlds(&written(&text, &machine)) {
            let last = job.steps[19].end - job.start;
            assert!(last >= 0.399, "{world}: {loaders}: {last}");
            assert!(last < 0.75, "{world}: {loaders}: two links, not one: {last}");
        }
    }
}
