//! Loaders that decode on the GPU take GPU time from training.

use super::on_request::text;
use super::runs::{simulate, steady, written};
use forebay::live::{CopyTask, monotonic, run_copy};
use forebay::scenario::{Scenario, ScenarioFile};

/// Returns a scenario with batches of 4 samples of 100 B, read in no time, and steps of 10 ms.
fn of(loader: &str, changes: &[(&str, &str)]) -> Scenario {
    let text = text(4, "\"1 us\"", "model.step = \"10 ms\"", &format!("dali = {{ {loader} }}"));
    written(&text.replace("steps = 20", "steps = 400"), changes)
}

fn step(loader: &str, changes: &[(&str, &str)]) -> f64 {
    steady(&simulate(&of(loader, changes)), 20).step
}

fn near(found: f64, expected: f64) {
    // The last batches are decoded before the last steps.
    assert!((found / expected - 1.0).abs() < 3e-3, "{found}, not {expected}");
}

#[test]
fn decoding_and_training_share_the_gpu() {
    // System: steps of 10 ms, decoding of 1 ms of GPU time per sample. Expectation: 14 ms of GPU work in every
    // step, in either order; 16 ms where decoding can use only a quarter of the GPU, since decoding a batch
    // then takes that long; half of both on a GPU twice as fast.
    near(step("threads = 1, gpu = { decode = \"1 ms\" }", &[]), 14e-3);
    near(step("threads = 1, gpu = { decode = \"1 ms\", occupancy = 0.25 }", &[]), 16e-3);
    near(
        step("threads = 1, gpu = { decode = \"1 ms\" }", &[("cluster.node.gpu_speed", "2")]),
        7e-3,
    );
    near(step("threads = 1, gpu = { decode = \"1 us\" }", &[]), 10.004e-3);
    let outcome = simulate(&of("threads = 1, gpu = { decode = \"1 ms\" }", &[]));
    let gpu = outcome.resources.iter().find(|of| of.name == "node.gpu").expect("a resource");
    assert!(gpu.utilisation > 0.99, "{gpu:?}");
    // Two learners that occupy next to nothing leave the whole GPU to the decoding of their two batches.
    let learners = [
        ("job.parallel.data.learners", "2"),
        ("job.model.occupancy", "{ half = \"4000 samples\" }"),
    ];
    near(step("threads = 1, gpu = { decode = \"8 ms\" }", &learners), 64e-3);
    // Two model copies on two GPUs: each GPU decodes the batches of its own pipeline.
    let both = [("job.parallel.data.copies_per_node", "2")];
    near(step("threads = 1, gpu = { decode = \"1 ms\" }", &both), 14e-3);
}

#[test]
fn dali_without_a_gpu_decodes_in_host_threads() {
    // System: decoding of 8 ms of core time per sample by one or two threads. Expectation: 32 ms a batch, or 16
    // ms.
    near(step("threads = 1, decode = \"8 ms\"", &[]), 32e-3);
    near(step("threads = 2, decode = \"8 ms\"", &[]), 16e-3);
    near(step("threads = 2, decode = \"8 ms\", prefetch_queue_depth = 8", &[]), 16e-3);
    // Work on the GPU is added to work on the host; it does not replace it.
    near(step("threads = 1, decode = \"8 ms\", gpu = { decode = \"1 ms\" }", &[]), 32e-3);
    // Reads of 8 ms a sample by one reader, or by two.
    let slow = [("storage.disk.local-disk.latency", "\"8 ms\"")];
    near(step("threads = 1", &slow), 32e-3);
    near(step("threads = 1, readers = 2", &slow), 16e-3);
    let capacity = |depth: &str| simulate(&of(depth, &[])).jobs[0].queue.capacity;
    assert_eq!(capacity("threads = 1, prefetch_queue_depth = 5"), 20);
}

#[test]
fn samples_for_gpu_decoding_are_copied_to_the_gpu_in_their_encoded_size() {
    // System: 400 B a batch as stored, 40 kB decoded, over 1 MB/s. Expectation: 40 ms a batch decoded on the
    // host, 0.4 ms decoded on the GPU.
    let pcie = [("cluster.node.pcie", "\"1 MB/s\""), ("dataset.d.decoded_size", "\"10 kB\"")];
    near(step("threads = 1", &pcie), 40e-3);
    near(step("threads = 1, gpu = { decode = \"1 us\" }", &pcie), 10.004e-3);
}

#[test]
fn gpu_decoding_without_a_gpu_is_refused() {
    let gpu = "dali = { threads = 1, gpu = { decode = \"1 ms\" } }";
    let cores = "model = { device.cpu = { threads = 1 }, step = \"1 ms\" }";
    let refused = |job: &str, loader: &str| {
        let file = ScenarioFile::parse("x.toml", text(4, "\"1 us\"", job, loader));
        file.and_then(|file| file.resolve(&[])).expect_err("refused").to_string()
    };
    let found = refused(cores, gpu);
    assert!(found.contains("the loader decodes on a GPU"), "{found}");
    let found =
        refused("model.step = \"1 ms\"", &gpu.replace("\"1 ms\" }", "\"1 ms\", occupancy = 2 }"));
    assert!(found.contains("more than a whole GPU"), "{found}");
    let found = refused("model.step = \"1 ms\"", "dali = { threads = 1, gpu = {} }");
    assert!(found.contains("decode"), "{found}");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let scenario = of("threads = 1", &[]);
    run_copy(&scenario, &CopyTask::default(), &stop, || Some(monotonic()))
        .expect("on the host it runs");
}
