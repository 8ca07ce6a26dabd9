//! Failures of jobs whose workers have files of their own, or whose smaller last batches overtake others: each
//! worker goes on with those of its own samples that were not trained on.

use std::collections::BTreeMap;

use forebay::report::{JobOutcome, TrainedSample};
use forebay::sim::{Options, run};

use super::base::changed;
use super::recovery::{assert_near, assert_whole, end};

type Changes<'a> = &'a [(&'a str, &'a str)];

/// Returns the outcome of the base job with these changes, with each sample recorded.
fn recorded(changes: Changes<'_>) -> JobOutcome {
    let options = Options { trace: true, ..Options::default() };
    let outcome = run(&changed(changes), 0, &options);
    let job = outcome.whole().unwrap_or_else(|e| panic!("{e}: {changes:?}")).jobs.remove(0);
    assert_whole(&job);
    job
}

#[test]
fn workers_with_files_of_their_own_go_on_with_what_is_left_of_them() {
    // System: two epochs of ten files of one sample, five for each of two workers, batches of 4: steps on 4, 4,
    // 1 and 1 samples, which take 10 ms and 100 ms for each sample; 1 ms to decode a sample; a checkpoint in no
    // time after each step. A failure 50 ms after the begin of step k, a restart of 20 ms. Expectation: the run
    // takes 50 ms and 20 ms longer, and the time to decode the batch of step k again, which is of the same size.
    let sizes = [4, 4, 1, 1, 4, 4, 1, 1];
    let of = |failures: &str| {
        recorded(&[
            ("run", "{ epochs = 2, warm_up = \"off\" }"),
            ("storage.s", "{ memory = {} }"),
            ("storage.c", "{ file-server = { bandwidth = \"1 TB/s\" } }"),
            ("cluster.network.nic", "\"1 TB/s\""),
            ("dataset.d.samples", "10"),
            ("job.batch", "4"),
            ("job.loader", "{ pytorch = { workers = 2, iterable = true, decode = \"1 ms\" } }"),
            ("job.model.step", "{ fixed = \"10 ms\", per_sample = \"100 ms\" }"),
            ("job.checkpoint", r#"{ steps = 1, bytes = "1 B", storage = "c" }"#),
            ("job.failures", failures),
        ])
    };
    let plain = of(r#"{ at = ["1000 s"], restart = "20 ms" }"#);
    let mut begin = 0.004;
    for (step, size) in sizes.into_iter().enumerate() {
        let at = 1e3 * begin + 50.0;
        let job = of(&format!("{{ at = [\"{at} ms\"], restart = \"20 ms\" }}"));
        let longer = 0.05 + 0.02 + 0.001 * f64::from(size);
        assert_near(end(&job), end(&plain) + longer, 1e-9);
        let found: Vec<u32> = job.steps.iter().map(|step| step.samples as u32).collect();
        assert_eq!(found, sizes, "a failure in step {step}");
        let epoch = if step == 3 { 0.004 } else { 0.0 };
        begin += 0.01 + 0.1 * f64::from(size) + epoch;
    }
    assert_near(end(&plain), begin, 1e-9);
}

#[test]
fn each_sample_is_trained_on_once_where_batches_of_unequal_size_overtake_each_other() {
    // System: two epochs of 990 samples in files of one sample or in shards of 37, whose batches are not all of
    // the same size; workers that take any batch or have files of their own, in order or not, on one or two
    // nodes, or shared by two model copies that are not in step; four failures. Expectation: as many different
    // samples as without failures, all of the first two epochs where workers do not read shards ahead, each of
    // them once, in as many steps; with `resume = "epoch"`, some come again.
    let decode = r#"decode = { gamma = { mean = "500 us", cv = 2 } }"#;
    let layouts =
        [r#"{ file-per-sample = {} }"#, r#"{ shards = { samples = 37, request = "1 MB" } }"#];
    let servers = r#"{ parameters = "100 kB", consistency = "asynchronous" }"#;
    let copies: [Changes<'_>; 3] = [
        &[],
        &[("job.nodes", "2"), ("dataset.d.samples", "1980")],
        &[
            ("job.parallel.data.copies_per_node", "2"),
            ("job.sync.parameter-server", servers),
            ("job.model.jitter", "{ gamma = { cv = 0.5 } }"),
        ],
    ];
    let loaders = ["iterable = true", "iterable = true, in_order = false", "in_order = false", ""];
    for ((loader, layout), copies) in loaders
        .iter()
        .flat_map(|loader| layouts.map(|layout| (loader, layout)))
        .flat_map(|of| copies.map(|copies| (of, copies)))
    {
        let loader =
            format!("{{ pytorch = {{ workers = 3, {loader}, {decode} }} }}").replace(", ,", ",");
        for seed in ["1", "2", "3"] {
            let of = |failures: &str| {
                let more = [
                    ("run", "{ epochs = 2, warm_up = \"off\" }"),
                    ("run.seed", seed),
                    ("storage.c", "{ file-server = { bandwidth = \"100 MB/s\" } }"),
                    ("dataset.d.samples", "990"),
                    ("dataset.d.layout", layout),
                    ("dataset.d.order", "\"shuffled\""),
                    ("job.loader", &loader),
                    ("job.checkpoint", r#"{ steps = 3, bytes = "10 kB", storage = "c" }"#),
                    ("job.failures", failures),
                ];
                recorded(&[&more[..], copies].concat())
            };
            let at = r#"at = ["23 ms", "101 ms", "173 ms", "250 ms"], restart = "20 ms""#;
            let what = format!("{loader}, {layout}, {copies:?}, {seed}");
            let never = of(r#"{ at = ["1000 s"], restart = "20 ms" }"#);
            for resume in ["position", "epoch"] {
                let job = of(&format!("{{ {at}, resume = \"{resume}\" }}"));
                let mut counts: BTreeMap<TrainedSample, u32> = BTreeMap::new();
                job.trained.iter().for_each(|sample| *counts.entry(*sample).or_default() += 1);
                let recovery = job.recovery.as_ref().expect("it fails");
                assert!(recovery.failures >= 3 && recovery.lost_seconds > 0.0, "{what}");
                assert_eq!(counts.len(), never.trained.len(), "{what}: {resume}");
                let again = counts.values().filter(|times| **times > 1).count();
                assert!(resume == "epoch" || again == 0, "{what}: {again} come again");
                let same = job.steps.len() == never.steps.len();
                assert!(resume == "epoch" || same, "{what}: {} steps", job.steps.len());
                let whole = counts.keys().all(|sample| sample.epoch < 2);
                assert!(whole || layout.contains("shards"), "{what}: a third epoch");
            }
        }
    }
}
