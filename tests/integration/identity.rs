//! The identity of each sample that steps trained on in jobs with failures, as the run recorded them.

use std::collections::BTreeMap;

use forebay::report::{JobOutcome, TrainedSample};
use forebay::sim::{Options, run};

use super::base::changed;

type Changes<'a> = &'a [(&'a str, &'a str)];

/// Two epochs of 992 samples, shuffled anew in each, with checkpoints and three failures.
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

/// Returns how often each sample was trained on.
fn counts(job: &JobOutcome) -> BTreeMap<TrainedSample, u32> {
    let mut counts = BTreeMap::new();
    job.trained.iter().for_each(|sample| *counts.entry(*sample).or_default() += 1);
    counts
}

/// Decode time with a larger variance than read time, so that samples overtake each other.
const DECODE: &str = r#"decode = { gamma = { mean = "500 us", cv = 2 } }"#;

/// Returns loaders that deliver in order or not, gather batches, share queues, or read ahead of their steps.
fn loaders() -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    let loader = |text: &str| ("job.loader", text.replace("DECODE", DECODE));
    let key = |key, text: &str| (key, text.to_owned());
    // Slow steps, so that batches wait while several steps are in progress.
    let slow = key("job.model.step", "\"4 ms\"");
    let pytorch = "{ pytorch = { workers = 2, DECODE } }";
    let queue = r#"{ tf-queue = { threads = 5, capacity = "64 samples", DECODE } }"#;
    let pipeline = r#"{ pipeline = { stages = 3 } }"#;
    let followed = r#"{ pipeline = { stages = 3, schedule = "1f1b", micro_batches = 4 } }"#;
    let gathers = r#"{ stages = [
        { name = "read", workers = 5, per_sample = ["read", { DECODE }], buffer = 32 },
        { name = "batch", workers = 2, unit = "batch", per_item = [{ compute = "300 us" }], buffer = 2 }] }"#;
    let apart = r#"{ stages = [
        { name = "read", workers = 3, per_sample = ["read"], buffer = 32 },
        { name = "decode", workers = 5, per_sample = [{ DECODE }], buffer = 64 }] }"#;
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
        ("samples of a file that overtake each other", vec![loader(apart)]),
        (
            "two nodes with two model copies each",
            vec![
                loader(queue),
                key("job.nodes", "2"),
                key("job.parallel.data.copies_per_node", "2"),
            ],
        ),
        ("each batch twice", vec![loader(queue), key("job.batch_interval", "2")]),
        ("stages that overlap", vec![loader(queue), key("job.parallel", pipeline), slow.clone()]),
        (
            "stages that overlap, on request",
            vec![loader(pytorch), key("job.parallel", pipeline), slow.clone()],
        ),
        ("micro-batches", vec![loader(queue), key("job.parallel", followed)]),
        ("micro-batches on request", vec![loader(pytorch), key("job.parallel", followed)]),
    ]
}

/// Returns model copies that are out of step, or resume further back than at the last step.
fn loose() -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    let key = |key, text: &str| (key, text.to_owned());
    let queue = format!(r#"{{ tf-queue = {{ threads = 5, capacity = "64 samples", {DECODE} }} }}"#);
    let with = |more: &[(&'static str, &str)]| {
        let common = [
            ("job.loader", queue.as_str()),
            ("job.nodes", "2"),
            ("job.model.jitter", "{ gamma = { cv = 0.5 } }"),
        ];
        common.iter().chain(more).map(|(of, text)| key(*of, text)).collect::<Vec<_>>()
    };
    let asynchronous = r#"{ parameters = "5 MB", consistency = "asynchronous" }"#;
    let two = ("job.parallel.data.copies_per_node", "2");
    let learners = [("job.parallel.data.learners", "2"), ("job.model.occupancy", "0.5")];
    let averaging = ("job.sync.model-averaging", r#"{ parameters = "5 MB", period = 3 }"#);
    let sums = ("job.sync.allreduce", r#"{ gradients = "5 MB" }"#);
    vec![
        (
            "local SGD",
            with(&[("job.sync.allreduce", r#"{ gradients = "5 MB", period = 4 }"#), two]),
        ),
        (
            "asynchronous servers of three",
            with(&[("job.sync.parameter-server", asynchronous), ("job.nodes", "3")]),
        ),
        (
            "asynchronous servers, copies that share loaders",
            with(&[("job.sync.parameter-server", asynchronous), two]),
        ),
        (
            "asynchronous servers, copies that share loaders on request",
            [
                with(&[("job.sync.parameter-server", asynchronous), two]),
                vec![key("job.loader", "{ pytorch = { workers = 2, decode = \"500 us\" } }")],
            ]
            .concat(),
        ),
        (
            "learners that are averaged, on request",
            [
                with(&[&learners[..], &[averaging]].concat()),
                vec![key("job.loader", "{ pytorch = { workers = 2, decode = \"500 us\" } }")],
            ]
            .concat(),
        ),
        ("learners that are averaged", with(&[&learners[..], &[averaging]].concat())),
        ("learners that add their gradients up", with(&[&learners[..], &[sums]].concat())),
    ]
}

#[test]
fn every_sample_of_an_epoch_is_trained_on_once_despite_failures() {
    // System: loaders and model copies of all kinds, three failures each. Expectation: each sample of both
    // epochs is trained on once, by its number; where nodes advance at different speeds, the faster node is in
    // a third epoch at the end, and no sample comes twice.
    for (name, changes) in loaders().into_iter().chain(loose()) {
        let changes: Vec<_> = changes.iter().map(|(key, text)| (*key, text.as_str())).collect();
        for seed in 1..4 {
            let job = recorded(&changes, seed);
            let recovery = job.recovery.expect("it fails");
            assert!(recovery.failures == 3 && recovery.lost_seconds > 0.0, "{name}: {recovery:?}");
            let epochs = (0..2).flat_map(|epoch| (0..992).map(move |sample| (epoch, sample)));
            let expected = epochs.map(|(epoch, sample)| (TrainedSample { epoch, sample }, 1));
            let (found, expected) = (counts(&job), expected.collect::<BTreeMap<_, _>>());
            if name.starts_with("asynchronous") {
                let twice: Vec<_> = found.iter().filter(|(_, times)| **times > 1).collect();
                // Three nodes split 992 samples, and one sample comes twice in each epoch so that all nodes
                // have equally many.
                let per_epoch =
                    (0..3).map(|epoch| twice.iter().filter(|(of, _)| of.epoch == epoch).count());
                assert!(per_epoch.into_iter().all(|twice| twice <= 1), "{name}, {seed}: {twice:?}");
                assert!(twice.iter().all(|(_, times)| **times == 2), "{name}, {seed}: {twice:?}");
                let steps: u64 = job.steps.iter().map(|step| step.fresh).sum();
                assert_eq!((found.len() + twice.len()) as u64, steps, "{name}, {seed}");
                continue;
            }
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

/// Returns the outcome of a job of this kind with these failures and the changes `more`.
fn failing(
    kind: &[(&'static str, String)],
    failures: &str,
    more: Changes<'_>,
    seed: u32,
) -> JobOutcome {
    let kind = kind.iter().map(|(key, text)| (*key, text.as_str()));
    let failures = [("job.failures", failures)];
    recorded(&kind.chain(failures).chain(more.iter().copied()).collect::<Vec<_>>(), seed)
}

#[test]
fn resuming_at_an_epoch_start_repeats_exactly_the_samples_trained_before() {
    // System: a failure in the third step after a checkpoint, with `resume = "epoch"`: in the first epoch, at
    // the start of the second, or in its middle. Expectation: each sample of both epochs once, and once more
    // the samples of the resumed epoch that a run without failures trains on up to the checkpoint; where these
    // are no whole batches, the last step has less than a batch of a third epoch.
    for (name, kind) in loaders().into_iter().filter(|(_, kind)| kind.len() == 1) {
        let boundary = (1..6).map(|seed| (63, 1, seed));
        for (saved, again, seed) in boundary.chain([(21_usize, 0, 1), (84, 1, 1)]) {
            let never = r#"{ at = ["1000 s"], restart = "20 ms" }"#;
            let plain = failing(&kind, never, &[], seed);
            let at = 1e3 * plain.steps[saved + 2].end;
            let failures =
                format!("{{ at = [\"{at} ms\"], restart = \"20 ms\", resume = \"epoch\" }}");
            let found = counts(&failing(&kind, &failures, &[], seed));
            let until = 1e3 * plain.steps[saved - 1].end + 0.1;
            let run =
                format!("{{ duration = \"{until} ms\", warm_up = \"off\", replications = 1 }}");
            let before =
                counts(&failing(&kind, never, &[("run", &run), ("job.epochs", "2")], seed));
            let twice = |of: &TrainedSample| of.epoch == again && before.contains_key(of);
            for epoch in 0..2 {
                for of in (0..992).map(|sample| TrainedSample { epoch, sample }) {
                    let expected = 1 + u32::from(twice(&of));
                    assert_eq!(found.get(&of), Some(&expected), "{name}, {saved} steps: {of:?}");
                }
            }
            let third: Vec<_> = found.iter().filter(|(of, _)| of.epoch > 1).collect();
            assert!(third.len() < 16 && third.iter().all(|(_, n)| **n == 1), "{name}: {third:?}");
            assert!(before.keys().any(twice), "{name}, {saved}: something comes again");
        }
    }
}

#[test]
fn samples_of_files_read_by_several_workers_are_trained_on_once() {
    // System: three epochs of ten files of up to 100 samples, or of as many Parquet files with row groups,
    // several of which are read at once, by one node or two. Expectation: no sample is trained on twice, and
    // all samples of the first two epochs once; at the end of the run, files of a next epoch may have been
    // begun.
    let shards = r#"{ shards = { samples = 100, request = "100 kB" } }"#;
    let groups = r#"{ parquet = { row_group = 7, row_groups = 3, columns = 2 } }"#;
    let epochs = ("run", "{ epochs = 3, warm_up = \"off\", replications = 1 }");
    let failures =
        r#"{ at = ["47 ms", "101 ms", "173 ms", "240 ms", "305 ms"], restart = "20 ms" }"#;
    for (name, kind) in
        loaders().into_iter().filter(|(name, kind)| kind.len() == 1 && !name.contains("in order"))
    {
        for (layout, nodes) in [(shards, "1"), (groups, "1"), (groups, "2")] {
            let more = [epochs, ("dataset.d.layout", layout), ("job.nodes", nodes)];
            let job = failing(&kind, failures, &more, 1);
            let what = format!("{name}, {layout}, {nodes}");
            let found = counts(&job);
            let recovery = job.recovery.expect("it fails");
            assert!(recovery.failures >= 3 && recovery.lost_seconds > 0.0, "{what}: {recovery:?}");
            let twice: Vec<_> = found.iter().filter(|(_, times)| **times > 1).collect();
            assert!(twice.is_empty(), "{what}: {twice:?}");
            for epoch in 0..2 {
                let number = found.keys().filter(|of| of.epoch == epoch).count();
                assert_eq!(number, 992, "{what}: epoch {epoch}");
            }
            let steps: u64 = job.steps.iter().map(|step| step.fresh).sum();
            assert_eq!(job.trained.len() as u64, steps, "{what}");
        }
    }
}

#[test]
fn samples_of_unfinished_steps_are_not_recorded() {
    // System: runs that end in the middle of a step, or while the job is down. Expectation: as many samples are
    // recorded as the counted steps have.
    let kind = [(
        "job.loader",
        format!(r#"{{ tf-queue = {{ threads = 5, capacity = "64 samples", {DECODE} }} }}"#),
    )];
    let pipeline = "{ pipeline = { stages = 3 } }";
    for duration in ["90 ms", "107 ms", "112.4 ms", "130.9 ms"] {
        let run = format!("{{ duration = \"{duration}\", warm_up = \"off\", replications = 1 }}");
        for (parallel, step) in [("{}", "\"1 ms\""), ("{}", "\"4 ms\""), (pipeline, "\"4 ms\"")] {
            let failures = r#"{ at = ["47 ms", "101 ms"], restart = "20 ms" }"#;
            let more =
                [("run", run.as_str()), ("job.parallel", parallel), ("job.model.step", step)];
            let job = failing(&kind, failures, &more, 1);
            let steps: u64 = job.steps.iter().map(|step| step.samples).sum();
            assert!(job.trained.len() as u64 == steps && steps > 0, "{duration}: {steps}");
        }
    }
}

#[test]
fn prefilled_samples_lost_in_a_failure_are_read_from_the_data_set() {
    // System: a queue prefilled with 64 samples that do not come from the data set, of which 24 have been used
    // at the first failure; 40 steps of 8 samples with repeated failures. Expectation: 24 of the 320 samples
    // are not in the data set, all others come once.
    let loader =
        format!(r#"{{ tf-queue = {{ threads = 2, capacity = "64 samples", {DECODE} }} }}"#);
    let kind = [("job.loader", loader)];
    let more = [
        ("run", "{ steps = 40, warm_up = \"off\", replications = 1 }"),
        ("job.batch", "8"),
        ("job.model.step", "\"4 ms\""),
        ("job.prefill", "\"64 samples\""),
        ("job.checkpoint", r#"{ steps = 3, bytes = "1 kB", storage = "c" }"#),
    ];
    for at in ["[\"15 ms\"]", "[\"15 ms\", \"60 ms\", \"85 ms\", \"170 ms\"]"] {
        let failures = format!("{{ at = {at}, restart = \"20 ms\" }}");
        let job = failing(&kind, &failures, &more, 1);
        let found = counts(&job);
        assert!(found.values().all(|times| *times == 1), "{at}: {found:?}");
        assert_eq!((job.steps.len(), found.len()), (40, 320 - 24), "{at}");
    }
}

#[test]
fn samples_of_partial_batches_and_one_sample_shards_are_trained_on_once() {
    // System: epochs of 150 samples in batches of 16, the last one of 6, in files or shards of one sample each;
    // with a batch interval, and with `resume = "epoch"`. Expectation: as many samples in all steps as without
    // failures, and each sample of both epochs, once unless the epoch is resumed at its start.
    let run = "{ epochs = 2, warm_up = \"off\", replications = 1 }";
    let small = [("run", run), ("dataset.d.samples", "150")];
    let apart = ("job.loader", "{ pytorch = { workers = 3, in_order = false, DECODE } }");
    let keras = ("job.loader", "{ keras = { workers = 3, DECODE } }");
    let shards = ("dataset.d.layout", r#"{ shards = { samples = 1, request = "100 kB" } }"#);
    let interval = ("job.batch_interval", "3");
    for (kind, more) in [
        (apart, vec![]),
        (keras, vec![]),
        (keras, vec![interval]),
        (apart, vec![interval]),
        (keras, vec![shards, ("dataset.d.samples", "160")]),
    ] {
        let loader = [(kind.0, kind.1.replace("DECODE", DECODE))];
        let more = [&small[..], &more].concat();
        let never = failing(&loader, r#"{ at = ["1000 s"], restart = "1 ms" }"#, &more, 1);
        let all = |job: &JobOutcome| job.steps.iter().map(|step| step.samples).sum::<u64>();
        for at in (10..60).step_by(3) {
            let failures = format!("{{ at = [\"{at} ms\"], restart = \"1 ms\"");
            let job = failing(&loader, &format!("{failures} }}"), &more, 1);
            let found = counts(&job);
            assert_eq!((all(&job), &found), (all(&never), &counts(&never)), "{more:?}, {at} ms");
            let again = failing(&loader, &format!("{failures}, resume = \"epoch\" }}"), &more, 1);
            let again = counts(&again);
            assert!(found.keys().all(|of| again.contains_key(of)), "{more:?}, {at} ms: again");
        }
    }
}

#[test]
fn a_failure_with_model_copies_in_different_epochs_loses_and_repeats_no_sample() {
    // System: two model copies, out of step, ask one loader for batches; one fails about when the first of them
    // begins the second epoch. Expectation: each sample of both epochs, once.
    let kind = [
        ("job.loader", "{ pytorch = { workers = 2 } }".to_owned()),
        ("job.parallel.data.copies_per_node", "2".to_owned()),
        ("job.model.step", "\"2 ms\"".to_owned()),
        ("job.model.jitter", "{ gamma = { cv = 0.5 } }".to_owned()),
        (
            "job.sync.parameter-server",
            r#"{ parameters = "100 kB", consistency = "asynchronous" }"#.to_owned(),
        ),
    ];
    let more = [
        ("job.checkpoint", r#"{ steps = 1, bytes = "1 B", storage = "c" }"#),
        ("storage.s", "{ memory = {} }"),
    ];
    let never = failing(&kind, r#"{ at = ["1000 s"], restart = "1 ms" }"#, &more, 1);
    let middle = 1e3 * never.steps[never.steps.len() / 2].end;
    for late in -10..10 {
        let at = middle + 0.5 * f64::from(late);
        let failures = format!("{{ at = [\"{at} ms\"], restart = \"1 ms\" }}");
        let job = failing(&kind, &failures, &more, 1);
        let found = counts(&job);
        assert!(found.len() == 1984 && found.values().all(|times| *times == 1), "{at} ms");
        assert_eq!(job.steps.len(), never.steps.len(), "{at} ms");
    }
}
