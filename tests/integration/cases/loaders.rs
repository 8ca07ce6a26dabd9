//! Cases about loaders: what a loader's keys count for, and how far a loader gets ahead.

use super::super::conformance::worlds;
use super::super::runs::{simulate, steady, written};
use super::{case, judged, report_of};
use crate::runs::Case;
use crate::verdicts::{self, find, limit};
use forebay::report::Report;
use forebay::scenario::{Scenario, Stop};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

fn step_of(report: &Report) -> f64 {
    report.jobs[0].figures.step_time.mean.expect("steps")
}

#[test]
fn dali_keeps_eight_gpus_busy_with_a_pipeline_for_each() {
    // System: 8 · 256 samples of 3 ms for each step of 190 ms, and 64 cores. Expectation: 96 ms of decoding on all cores are hidden, whereas
    // one pipeline of two batches for eight GPUs gives 236 ms; a remark says that DALI has no such pipeline.
    let step = |changes: &[(&str, &str)]| {
        let scenario = case("turn3/f7-dali", changes);
        (step_of(&report_of(&scenario)), scenario.remarks)
    };
    let (usual, remarks) = step(&[]);
    assert!((usual - 0.19).abs() < 1e-3 && remarks.is_empty(), "{usual} {remarks:?}");
    let (one, remarks) = step(&[("job.parallel.data.loaders", "per-node")]);
    assert!(one > 0.23, "{one}");
    assert!(remarks[0].contains("each of DALI's pipelines belongs to one GPU"), "{remarks:?}");
}

#[test]
fn dali_pipelines_read_later_epochs_at_the_speed_of_the_gpus() {
    // System: a data set that the page cache holds after the first epoch, over 1 Gbit/s. Expectation: the link bounds the first epoch, at
    // 8 · 256 · 110 kB a step; later epochs take 190 ms, and no workers are asked for.
    let few = [("dataset.imagenet.samples", "81920")];
    let (report, verdict) = judged("turn3/dali-1415", &few);
    let of = |epochs: &Option<forebay::report::JobFigures>| {
        epochs.as_ref().and_then(|of| of.step_time.mean).expect("epochs")
    };
    let (first, later) = (of(&report.jobs[0].first_epoch), of(&report.jobs[0].later_epochs));
    assert!((first / (8.0 * 256.0 * 110e3 / 125e6) - 1.0).abs() < 0.05, "{first}");
    assert!((later / 0.19 - 1.0).abs() < 0.01, "{later}");
    let workers = ["dali.readers", "dali.threads"].iter().find_map(|key| find(&verdict, key));
    assert!(workers.is_none(), "{}", verdict.text);
}

#[test]
fn a_queue_that_leaves_keras_workers_idle_is_the_named_limit() {
    // System: twenty workers and a queue with room for ten batches. Expectation: `max_queue_size` is named: 20 give 40 ms, and no change
    // gives less.
    let (_, verdict) = judged("turn3/kq4", &[("run.replications", "1")]);
    let queue = limit(&verdict, "keras.max_queue_size");
    assert!((queue.after / 0.04 - 1.0).abs() < 0.01, "{}", verdict.text);
    assert!(queue.gain > verdict.limits[0].gain - 0.01, "{}", verdict.text);
}

/// Four GPUs with DALI on data in memory.
const DALI: &str = r#"
name = "dali"
storage.disk.local-disk = { bandwidth = "1 TB/s" }
dataset.d = { samples = 2_000_000, sample_size = "100 B" }
[cluster]
nodes = 1
node = { gpus = 4, cores = 32, page_cache = "none" }
[[job]]
name = "j"
dataset = "d"
storage = "disk"
batch = 4
loader.dali = { threads = 2, prefetch_queue_depth = 1, decode = { gamma = { mean = "6 ms", cv = 2 } } }
model.step = "15 ms"
parallel.data.copies_per_node = 4
"#;

#[test]
fn the_depth_of_dali_pipelines_is_tried_where_it_is_the_limit() {
    // System: batches of four samples whose decoding takes 12 ms on average, and varies much, in front of steps of 15 ms. Expectation:
    // twice the depth evens out more.
    let (_, verdict) = verdicts::judged(&Case::written(DALI, &[]));
    let depth = limit(&verdict, "prefetch_queue_depth");
    let deeper = written(DALI, &[("job.loader.dali.prefetch_queue_depth", "2")]);
    let found = step_of(&report_of(&deeper));
    assert!((found / depth.after - 1.0).abs() < 0.02, "{found}: {}", verdict.text);
}

#[test]
fn dali_pipelines_take_the_slowest_of_reading_decoding_and_computing() {
    // System: 1 to 4 GPUs; readers, threads and times of any ratio. Expectation: a pipeline of `r` readers and `t` threads makes a batch of
    // `b` samples in max(b · read ÷ r, b · decode ÷ t), or n · b · decode ÷ cores if there are fewer cores than threads of n pipelines; a step
    // takes that or the time to compute.
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    for _ in 0..220 {
        let gpus = random.random_range(1..=4);
        let (readers, threads) = (random.random_range(1..=3), random.random_range(1..=4));
        // Batches of whole rounds of readers and of threads: each batch then takes the same time.
        let batch = readers * threads * random.random_range(1..=2);
        let cores = random.random_range(1..=16);
        let [read, decode, step] = std::array::from_fn(|_| random.random_range(100..=4000));
        let depth = random.random_range(1..=3);
        let changes = [
            ("run.steps", "60".to_owned()),
            ("run.warm_up", "\"off\"".to_owned()),
            ("cluster.node.cores", cores.to_string()),
            ("storage.disk.local-disk.latency", format!("\"{read} us\"")),
            ("job.batch", batch.to_string()),
            ("job.parallel.data.copies_per_node", gpus.to_string()),
            ("job.model.step", format!("\"{step} us\"")),
            (
                "job.loader.dali",
                format!(
                    "{{ readers = {readers}, threads = {threads}, prefetch_queue_depth = {depth}, decode = \"{decode} us\" }}"
                ),
            ),
        ];
        let changes: Vec<(&str, &str)> = changes.iter().map(|(key, to)| (*key, &**to)).collect();
        let found = steady(&simulate(&written(DALI, &changes)), 30).step;
        let [gpus, readers, threads, batch, cores] =
            [gpus, readers, threads, batch, cores].map(f64::from);
        let [read, decode, step] = [read, decode, step].map(|us| f64::from(us) * 1e-6);
        let own = (cores / gpus).min(threads);
        let expected = step.max(batch * read / readers).max(batch * decode / own);
        assert!((found / expected - 1.0).abs() < 1e-3, "{found}, not {expected}: {changes:?}");
    }
}

#[test]
fn dali_has_a_loader_for_each_rank_by_default_in_both_worlds() {
    // System: two model copies, batches of 4, a depth of 3. Expectation: two queues of 12 samples, whether `loaders` says so or not; the
    // scenario names DALI as the source of the default.
    let text = DALI.replace("copies_per_node = 4", "copies_per_node = 2");
    let loader = "{ threads = 2, prefetch_queue_depth = 3, decode = \"100 us\" }";
    let quick = [("job.loader.dali", loader), ("job.model.step", "\"200 us\"")];
    let mut default = written(&text, &quick);
    default.run.stop = Stop::Steps(20);
    for (world, job) in worlds(&default) {
        assert_eq!(job.queue.capacity, 24, "{world}");
        assert_eq!(job.steps.len(), 20, "{world}");
        assert!(job.steps.iter().all(|step| step.fresh == 8), "{world}");
    }
    let explicit = [&quick[..], &[("job.parallel.data.loaders", "per-rank")]].concat();
    assert_eq!(written(&text, &explicit).jobs, default.jobs);
    let source = |scenario: &Scenario| {
        let all = scenario.origins.assumed();
        let found = all.iter().find(|of| of.key == "job.j.parallel.data.loaders");
        found.map(|of| (of.value.clone(), of.source.clone())).expect("assumed")
    };
    let (value, why) = source(&default);
    assert!(value == "\"per-rank\"" && why.contains("Pipeline"), "{value}: {why}");
    let other = [("job.loader", "{ tf-data = { parallel_calls = 2, prefetch = 2 } }")];
    let (value, why) = source(&written(&text, &other));
    assert!(value == "\"per-node\"" && why.contains("tf.distribute"), "{value}: {why}");
}

#[test]
fn reports_say_that_keys_of_a_pytorch_loader_count_for_the_node() {
    // System: PyTorch on four GPUs. Expectation: unless `loaders` is written, a note says that DDP's `num_workers` are a rank's; other
    // loaders, and a single GPU, have no such note.
    let pytorch = ("job.loader", "{ pytorch = { workers = 2 } }");
    let notes = |changes: &[(&str, &str)]| {
        let short = [("run.steps", "5"), ("run.warm_up", "0"), ("run.replications", "1")];
        report_of(&written(DALI, &[changes, &short].concat())).notes.join("\n")
    };
    let said = notes(&[pytorch]);
    assert!(said.contains("4 model copies of `j`") && said.contains("num_workers"), "{said}");
    for loaders in ["per-node", "per-rank"] {
        assert_eq!(notes(&[pytorch, ("job.parallel.data.loaders", loaders)]), "", "{loaders}");
    }
    assert_eq!(notes(&[]), "");
    assert_eq!(notes(&[pytorch, ("job.parallel.data.copies_per_node", "1")]), "");
    let keras = ("job.loader", "{ keras = { workers = 2 } }");
    assert_eq!(notes(&[keras]), "");
}
