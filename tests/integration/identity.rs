//! Which samples steps trained on, one by one, where a job fails: as the run recorded them.

use std::collections::BTreeMap;

use forebay::report::{JobOutcome, TrainedSample};
use forebay::sim::{Options, run};

use super::base::changed;

type Changes<'a> = &'a [(&'a str, &'a str)];

/// Two epochs of 992 samples in another order each, saved now and then, that fail three times.
const EPOCHS: [(&str, &str); 6] = [
    ("run", "{ epochs = 2, warm_up = \"off\", replications = 1 }"),
    ("storage.c", "{ file-server = { bandwidth = \"100 MB/s\" } }"),
    ("dataset.d.samples", "992"),
    ("dataset.d.order", "\"shuffled\""),
    ("job.checkpoint", r#"{ steps = 7, bytes = "100 kB", storage = "c" }"#),
    ("job.failures", r#"{ at = ["47 ms", "101 ms", "173 ms"], restart = "20 ms" }"#),
];

fn recorded(changes: Changes<'_>, seed: u32) -> JobOutcome {
    let seed = seed.to_string();
    let scenario = changed(&[&EPOCHS[..], changes, &[("run.seed", &seed)]].concat());
    let options = Options { trace: true, ..Options::default() };
    let mut outcome = run(&scenario, 0, &options).whole().unwrap_or_else(|e| panic!("{e}"));
    outcome.jobs.remove(0)
}

/// How often each sample was trained on.
fn counts(job: &JobOutcome) -> BTreeMap<TrainedSample, u32> {
    let mut counts = BTreeMap::new();
    job.trained.iter().for_each(|sample| *counts.entry(*sample).or_default() += 1);
    counts
}

/// Time to decode that varies more than that to read: samples overtake each other.
const DECODE: &str = r#"decode = { gamma = { mean = "500 us", cv = 2 } }"#;

/// Loaders that bring samples in order or not, gather them, share queues, or read ahead of their steps.
fn loaders() -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    let loader = |text: &str| ("job.loader", text.replace("DECODE", DECODE));
    let key = |key, text: &str| (key, text.to_owned());
    let pytorch = "{ pytorch = { workers = 2, DECODE } }";
    let queue = r#"{ tf-queue = { threads = 5, capacity = "64 samples", DECODE } }"#;
    let pipeline = r#"{ pipeline = { stages = 3 } }"#;
    let followed = r#"{ pipeline = { stages = 3, schedule = "1f1b", micro_batches = 4 } }"#;
    let gathers = r#"{ stages = [
        { name = "read", workers = 5, per_sample = ["read", { DECODE }], buffer = 32 },
        { name = "batch", workers = 2, unit = "batch", per_item = [{ compute = "300 us" }], buffer = 2 }] }"#;
    vec![
        ("pytorch", vec![loader(pytorch)]),
        (
            "pytorch, as they come",
            vec![loader("{ pytorch = { workers = 3, in_order = false, DECODE } }")],
        ),
        ("keras", vec![loader("{ keras = { workers = 3, DECODE } }")]),
        ("tf-queue", vec![loader(queue)]),
        (
            "a shuffle queue",
            vec![loader(
                r#"{ tf-queue = { threads = 5, capacity = "200 samples", min_after_dequeue = "100 samples", DECODE } }"#,
            )],
        ),
        (
            "tf-data",
            vec![loader("{ tf-data = { parallel_reads = 4, parallel_calls = 3, DECODE } }")],
        ),
        ("samples that are gathered", vec![loader(gathers)]),
        (
            "two nodes with two model copies each",
            vec![
                loader(queue),
                key("job.nodes", "2"),
                key("job.parallel.data.copies_per_node", "2"),
            ],
        ),
        ("each batch twice", vec![loader(queue), key("job.batch_interval", "2")]),
        ("stages that overlap", vec![loader(queue), key("job.parallel", pipeline)]),
        ("stages that overlap, on request", vec![loader(pytorch), key("job.parallel", pipeline)]),
        ("micro-batches", vec![loader(queue), key("job.parallel", followed)]),
        ("micro-batches on request", vec![loader(pytorch), key("job.parallel", followed)]),
    ]
}

#[test]
fn every_sample_of_an_epoch_is_trained_on_once_whatever_fails() {
    // System: loaders of all kinds, three failures each. Expectation: of each of the two epochs each of the samples once,
    // by its number.
    for (name, changes) in loaders() {
        let changes: Vec<_> = changes.iter().map(|(key, text)| (*key, text.as_str())).collect();
        for seed in 1..4 {
            let job = recorded(&changes, seed);
            let recovery = job.recovery.expect("it fails");
            assert!(recovery.failures == 3 && recovery.lost_seconds > 0.0, "{name}: {recovery:?}");
            let epochs = (0..2).flat_map(|epoch| (0..992).map(move |sample| (epoch, sample)));
            let expected = epochs.map(|(epoch, sample)| (TrainedSample { epoch, sample }, 1));
            let (found, expected) = (counts(&job), expected.collect::<BTreeMap<_, _>>());
            let differ = found.iter().filter(|of| expected.get(of.0) != Some(of.1));
            let lacks: Vec<_> = expected.keys().filter(|of| !found.contains_key(of)).collect();
            let differ: Vec<_> = differ.collect();
            assert!(
                differ.is_empty() && lacks.is_empty(),
                "{name}, {seed}: {differ:?}; without {lacks:?}"
            );
        }
    }
}
