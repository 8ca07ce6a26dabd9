//! Learners that average their models: the cost of averaging, and the training that continues meanwhile.

use super::base::{base, changed, outcome};
use super::runs::{near, simulate, step};
use forebay::report::{Cause, JobOutcome, Outcome, Report, StallCause, summarise, text};
use forebay::scenario::ScenarioFile;

/// Four GPUs of a node, models of 10 MB, data without stalls, and steps of 1 ms that fill a tenth of a GPU.
const BASE: [(&str, &str); 7] = [
    ("storage.s", "{ memory = {} }"),
    ("job.loader.tf-queue.decode", "\"0 s\""),
    ("job.loader.tf-queue.capacity", "\"100000 samples\""),
    ("job.parallel.data.copies_per_node", "4"),
    ("job.model.occupancy", "0.1"),
    ("job.sync.model-averaging.parameters", "\"10 MB\""),
    ("job.sync.model-averaging.algorithm", "\"ring\""),
];
const NUMBER: &str = "job.parallel.data.learners";
const PERIOD: &str = "job.sync.model-averaging.period";
const LATENCY: &str = "job.sync.model-averaging.latency";
const OVERLAP: &str = "job.sync.model-averaging.overlap";
const MEMORY: &str = "cluster.node.gpu_memory_bandwidth";
const INTRA: &str = "cluster.node.intra";

fn run(changes: &[(&str, &str)]) -> Outcome {
    outcome(&[&BASE[..], changes].concat())
}

/// Returns the mean step time after the first averagings [s].
fn time(changes: &[(&str, &str)]) -> f64 {
    let steps = &run(changes).jobs[0].steps;
    (steps[steps.len() - 1].end - steps[9].end) / (steps.len() - 10) as f64
}

/// Returns the stalls for a cause, summed over all steps [s].
fn waited(job: &JobOutcome, cause: StallCause) -> f64 {
    job.stalls.iter().filter(|of| of.cause == cause).map(|of| of.seconds).sum()
}

#[test]
fn bytes_of_averaging_between_gpus_do_not_depend_on_the_number_of_learners() {
    // System: a ring of 4 GPUs at 10 GB/s. Expectation: 2·(4 − 1)/4 of a model leaves each GPU for each
    // averaging, and 59 of 60 averagings are over when the last step ends.
    let served = |changes: &[(&str, &str)]| {
        let intra = (INTRA, "{ bandwidth = \"10 GB/s\", kind = \"switch\" }");
        let outcome = run(&[&[intra], changes].concat());
        let links = outcome.resources.iter().filter(|of| of.name == "node.intra");
        links.map(|of| of.served).sum::<f64>()
    };
    let each = 4.0 * 1.5 * 10e6;
    for number in ["1", "2", "4", "8"] {
        let averagings = served(&[(NUMBER, number)]) / each;
        assert!((58.0..=60.0).contains(&averagings), "{number}: {averagings}");
        let fewer = served(&[(NUMBER, number), (PERIOD, "10")]) / each;
        assert!((5.0..=6.0).contains(&fewer), "{number}: {fewer}");
    }
}

#[test]
fn learners_continue_training_while_models_are_averaged() {
    // System: one learner for each GPU, 1 ms steps, 0.9 ms for the ring. Expectation: no GPU waits; at a tenth
    // of the bandwidth the ring itself sets the pace, since averagings follow one another.
    let at =
        |rate: &str| time(&[(INTRA, &format!("{{ kind = \"switch\", bandwidth = \"{rate}\" }}"))]);
    let ring = |rate: f64| 1.5 * 10e6 / rate;
    near(at("20 GB/s"), 1e-3, "hidden");
    assert!(ring(20e9) > 0.7e-3);
    near(at("2 GB/s"), ring(2e9), "exposed");
}

#[test]
fn correcting_learners_towards_the_reference_takes_gpu_memory_bandwidth() {
    // System: k learners, GPU memory of 100 GB/s. Expectation: 5 passes over 10 MB for each learner, one after
    // the other or together.
    for (k, number) in [(1.0, "1"), (2.0, "2"), (4.0, "4")] {
        let found = time(&[(NUMBER, number), (MEMORY, "\"100 GB/s\"")]);
        near(found, 1e-3 + k * 5.0 * 10e6 / 100e9, number);
    }
    // With averaging every tenth step, a tenth of this time.
    let seldom = run(&[(NUMBER, "2"), (MEMORY, "\"100 GB/s\""), (PERIOD, "10")]);
    let end = seldom.jobs[0].steps.last().expect("a step").end;
    near(end, 60.0 * 1e-3 + 5.0 * 2.0 * 0.5e-3, "59 steps before the last averaging");
}

#[test]
fn averages_follow_updates_where_learners_accumulate_gradients() {
    // System: two learners whose corrections take 0.5 ms each, gradients of a steps added up for an update, and averaging every p
    // updates. Expectation: an averaging every a · p steps.
    let total = |accumulation: &str, period: &str| {
        let changes = [
            (NUMBER, "2"),
            (MEMORY, "\"100 GB/s\""),
            (PERIOD, period),
            ("job.accumulation", accumulation),
        ];
        run(&changes).jobs[0].steps.last().expect("a step").end
    };
    near(total("2", "5"), total("1", "10"), "ten steps");
    near(total("10", "1"), total("1", "10"), "ten steps");
    assert!(total("2", "1") < total("1", "1") - 0.02);
}

#[test]
fn the_latency_of_averaging_delays_each_learner_once_for_each_learner_of_its_gpu() {
    // System: k learners, steps of 1 ms, a latency of 2 ms for each learner, averaging every p steps. Expectation: a mean step
    // time of 1 ms + k · 2 ms ÷ p, also if models then move in GPU memory; the stall is communication.
    let latency = (LATENCY, "\"2 ms\"");
    let all =
        [("1", 1.0, "1", 1.0), ("2", 2.0, "1", 1.0), ("4", 4.0, "1", 1.0), ("2", 2.0, "5", 5.0)];
    for (number, k, period, p) in all {
        let changes = [(NUMBER, number), (PERIOD, period), latency];
        near(time(&changes), 1e-3 + k * 2e-3 / p, &format!("{number}, {period}"));
        let outcome = run(&changes);
        let job = &outcome.jobs[0];
        let stalls: f64 = job.stalls.iter().map(|of| of.seconds).sum();
        near(waited(job, StallCause::own(Cause::Communication)), stalls, "the only cause");
    }
    let memory = time(&[(NUMBER, "2"), latency, (MEMORY, "\"100 GB/s\"")]);
    near(memory, 1e-3 + 2.0 * 2e-3 + 2.0 * 5.0 * 10e6 / 100e9, "moves too");
}

#[test]
fn learners_without_overlap_wait_for_the_average_that_follows_their_correction() {
    // System: two learners for each GPU, 1 ms steps, 0.25 ms for each learner's correction, 1.5 ms for the ring, averaging every p
    // steps. Expectation: with overlap the ring runs beside the step and hides its 1 ms, without it the ring is added to each p-th
    // step.
    let intra = (INTRA, "{ kind = \"switch\", bandwidth = \"10 GB/s\" }");
    let latency = (LATENCY, "\"250 us\"");
    let apart = (OVERLAP, "false");
    let each =
        |changes: &[(&str, &str)]| time(&[&[(NUMBER, "2"), intra, latency][..], changes].concat());
    near(each(&[]), 1.5e-3 + 0.5e-3, "the ring and the correction set the pace");
    near(each(&[apart]), 1e-3 + 0.5e-3 + 1.5e-3, "one after the other");
    near(each(&[apart, (PERIOD, "5")]), 1e-3 + (0.5e-3 + 1.5e-3) / 5.0, "every fifth step");
    // Learners that differ in speed wait for the slower one: the mean of the longer of two steps of 0.5 to 1.5 ms is 1.167 ms.
    let unequal = ("job.model.jitter", "{ uniform = { cv = 0.28868 } }");
    let one_gpu = ("job.parallel.data.copies_per_node", "1");
    let together = each(&[apart, unequal, one_gpu]);
    assert!((together / (1e-3 * (1.0 + 1.0 / 6.0) + 0.5e-3) - 1.0).abs() < 0.05, "{together}");
    assert!(each(&[unequal, one_gpu]) < 0.97 * together);
    let stalls = &run(&[apart, unequal, one_gpu, (NUMBER, "2")]).jobs[0];
    assert!(waited(stalls, StallCause::peer(Cause::Compute)) > 0.0);
    // Learners that wait for one that starves on decoding wait for decoding.
    let starving = [
        apart,
        one_gpu,
        (NUMBER, "4"),
        ("job.loader.tf-queue.decode", "\"2 ms\""),
        ("job.loader.tf-queue.capacity", "\"64 samples\""),
    ];
    let job = &run(&starving).jobs[0];
    let [decode, compute] =
        [Cause::Decode, Cause::Compute].map(|cause| waited(job, StallCause::peer(cause)));
    assert!(decode > 3.0 * compute, "{decode} {compute}");
}

#[test]
fn the_average_is_updated_before_the_next_correction_of_learners() {
    // System: GPU memory of 10 GB/s, one learner: 5 ms to correct it towards the reference, 4 ms to update the
    // average beside the next step of 1 ms. Expectation: 9 ms from one correction to the next.
    near(time(&[(MEMORY, "\"10 GB/s\"")]), 9e-3, "in turn");
    let job = &run(&[(MEMORY, "\"10 GB/s\"")]).jobs[0];
    let (compute, all) = (job.steps.iter().map(|of| of.compute).sum::<f64>(), job.steps[59].end);
    near(waited(job, StallCause::own(Cause::Communication)) + compute, all, "no other waits");
}

#[test]
fn compute_and_stalls_add_up_to_step_time_when_averaging_overlaps_steps() {
    let job = &run(&[
        (NUMBER, "3"),
        (MEMORY, "\"50 GB/s\""),
        (PERIOD, "3"),
        (INTRA, "{ bandwidth = \"4 GB/s\" }"),
        ("job.model.jitter", "{ lognormal = { cv = 0.5 } }"),
        ("run.steps", "200"),
    ])
    .jobs[0];
    let stalls: f64 = job.stalls.iter().map(|of| of.seconds).sum();
    let compute: f64 = job.steps.iter().map(|of| of.compute).sum();
    near(stalls + compute, job.steps[199].end - job.start, "all of the time");
    let mut before = job.start;
    for (index, step) in job.steps.iter().enumerate() {
        let own = job.stalls.iter().filter(|of| of.step as usize == index);
        let sum = step.compute + own.map(|of| of.seconds).sum::<f64>();
        assert!((sum - (step.end - before)).abs() < 1e-9, "step {index}");
        before = step.end;
    }
    assert!(waited(job, StallCause::peer(Cause::Compute)) > 0.0, "someone waits for the slowest");
    assert_eq!(job.samples.dequeued, 200 * 12 * 16);
}

#[test]
fn a_longer_averaging_period_absorbs_step_jitter() {
    // System: 8 learners whose steps vary. Expectation: without averaging all learners keep in step, so that
    // the slowest sets the pace of every step; the longer the averaging period, the less it does.
    let jitter = ("job.model.jitter", "{ lognormal = { cv = 0.5 } }");
    let steps = ("run.steps", "400");
    let of = |period| time(&[(NUMBER, "2"), jitter, steps, (PERIOD, period)]);
    let (one, four, many) = (of("1"), of("4"), of("40"));
    assert!(one > 1.05 * four && four > 1.03 * many, "{one}, {four}, {many}");
    let apart: Vec<(&str, &str)> = BASE[..5].to_vec();
    let in_step = step(&outcome(&[&apart[..], &[(NUMBER, "2"), jitter, steps]].concat()).jobs[0]);
    assert!(in_step > one, "{in_step}, {one}");
}

#[test]
fn exposed_averaging_time_depends_on_algorithm_bandwidth_and_latency() {
    let intra = |rate: &str| format!("{{ kind = \"switch\", bandwidth = \"{rate}\" }}");
    let (slow, fast) = (intra("1 GB/s"), intra("2 GB/s"));
    let at = |changes: &[(&str, &str)]| time(changes);
    near(at(&[(INTRA, &slow)]), 2.0 * at(&[(INTRA, &fast)]), "bandwidth");
    let tree = [(INTRA, slow.as_str()), BASE[6]];
    let tree = [tree[0], ("job.sync.model-averaging.algorithm", "\"flat\"")];
    assert!(at(&tree) > 1.5 * at(&[(INTRA, &slow)]), "all to one and back");
    let analytic = [(INTRA, slow.as_str()), ("job.sync.model-averaging.fidelity", "\"analytic\"")];
    near(at(&analytic), at(&[(INTRA, &slow)]), "alone on the links");
    let latency = [(INTRA, slow.as_str()), ("job.sync.model-averaging.transport", "{ nccl = {} }")];
    assert!(at(&latency) >= at(&[(INTRA, &slow)]), "latency");
    // A model of the catalogue provides the size of its parameters.
    let lenet = ("job.model.catalogue", "\"lenet5\"");
    let scenario =
        changed(&[&BASE[..5], &[lenet, ("job.sync.model-averaging.period", "2")]].concat());
    let bytes = scenario.jobs[0].sync.as_ref().expect("sync").buckets[0].bytes;
    assert!((100_000..2_000_000).contains(&bytes), "{bytes}");
}

#[test]
fn epochs_to_accuracy_grow_by_the_averaging_factor_not_the_number_of_models() {
    let accuracy = ("job.accuracy", "{ least_epochs = 10, critical_batch = 16 }");
    let epochs = |changes: &[(&str, &str)]| {
        let scenario = changed(&[&BASE[..], &[accuracy], changes].concat());
        let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
        report.jobs[0].time_to_accuracy.clone().expect("accuracy")
    };
    // Models are averaged, so the batch of one model counts.
    assert_eq!((epochs(&[]).epochs, epochs(&[]).batch), (20.0, 16));
    assert_eq!(epochs(&[(NUMBER, "4")]).epochs, 20.0);
    // The global batch counts if the scenario says so: 4 GPUs × 4 learners.
    let global = ("job.accuracy.batch", "\"global\"");
    assert_eq!(epochs(&[(NUMBER, "4"), global]).batch, 256);
    near(epochs(&[(NUMBER, "4"), ("job.accuracy.per_learner", "0.01")]).epochs, 23.0, "15 others");
    near(epochs(&[(PERIOD, "5"), ("job.accuracy.per_step", "0.05")]).epochs, 24.0, "4 steps more");
    let said = epochs(&[(PERIOD, "5"), ("job.accuracy.per_step", "0.05")]).assumed;
    assert!(said.contains("× 1.2 for 4 models that are averaged"), "{said}");
}

#[test]
fn a_fast_learner_waits_for_slow_peers_and_does_not_end_the_epoch_early() {
    // System: GPUs of two speeds, whose learners are averaged every ten steps, one epoch of data, and a tuning
    // policy that never acts. Expectation: the epoch is trained on to its last whole step, as with averaging in
    // each step; the fast learners' stalls are due to computation of their slow peers.
    let run = |period: &str| {
        run(&[
            ("cluster.nodes", "1"),
            ("cluster.group.slow", "{ nodes = 1, node = { gpu_speed = 0.25 } }"),
            ("job.nodes", "2"),
            ("dataset.d.samples", "5000"),
            ("run.epochs", "1"),
            (NUMBER, "{ auto = { window = 100000 } }"),
            (PERIOD, period),
        ])
    };
    let trained = |outcome: &Outcome| -> u64 {
        let job = &outcome.jobs[0];
        assert_eq!(waited(job, StallCause::own(Cause::Bubble)), 0.0);
        let fresh: u64 = job.steps.iter().map(|step| step.fresh).sum();
        let samples: u64 = job.steps.iter().map(|step| step.samples).sum();
        assert_eq!(fresh, samples);
        samples
    };
    let (often, seldom) = (run("1"), run("10"));
    assert_eq!(trained(&often), trained(&seldom));
    assert!(waited(&seldom.jobs[0], StallCause::peer(Cause::Compute)) > 0.0);
}

/// Returns the report of the base scenario with these changes.
fn report(changes: &[(&str, &str)]) -> Report {
    let scenario = changed(&[&BASE[..], changes].concat());
    summarise(&scenario, &[simulate(&scenario)], 0.0)
}

#[test]
fn reports_state_the_averaging_period_and_the_number_of_models() {
    let of = |changes: &[(&str, &str)]| report(changes);
    let seldom = of(&[(NUMBER, "2"), (PERIOD, "3")]);
    let sync = seldom.jobs[0].sync.clone().expect("averages");
    assert_eq!((sync.steps_per_exchange, sync.bytes_per_exchange), (3, 10_000_000));
    let says = "a step is one batch of each of 8 model copies; after every 3 of its own steps a GPU exchanges 10 MB";
    let page = text::render(&seldom, 400, false);
    assert!(sync.text.starts_with(says) && page.contains(says), "{}", sync.text);
    let policy = of(&[("job.parallel.data.learners.auto", "{ most = 2 }")]);
    let sync = policy.jobs[0].sync.clone().expect("averages");
    assert!(sync.text.contains("each of at most 8 model copies"), "{}", sync.text);
    // With one GPU, nothing is exchanged between GPUs.
    let one = of(&[(NUMBER, "2"), ("job.parallel.data.copies_per_node", "1")]);
    assert_eq!(one.jobs[0].sync, None);
}

#[test]
fn the_bottleneck_of_slow_averaging_is_gpu_memory_or_network_or_its_latency() {
    // System: models that move slowly in GPU memory, on one GPU and on four; then slowly between GPUs; then averagings whose latency
    // is longer than a step, on one GPU and on four, beside fast memory. Expectation: the bottleneck is GPU memory, then the network,
    // then the averaging itself.
    for copies in ["1", "4"] {
        let copies = ("job.parallel.data.copies_per_node", copies);
        let slow = [copies, (NUMBER, "2"), (LATENCY, "\"2 ms\""), (MEMORY, "\"1000 GB/s\"")];
        let found = report(&slow).bottleneck.expect("one");
        assert_eq!(found.resource, "averaging", "{}", found.text);
        assert!(found.text.contains("a longer `period`, fewer learners"), "{}", found.text);
    }
    let memory = [(NUMBER, "2"), (MEMORY, "\"1 GB/s\"")];
    let one = ("job.parallel.data.copies_per_node", "1");
    for changes in [&memory[..], &[memory[0], memory[1], one][..]] {
        let found = report(changes).bottleneck.expect("one");
        assert_eq!(found.resource, "node.gpu.memory", "{}", found.text);
        assert!(found.text.contains("more `gpu_memory_bandwidth`"), "{}", found.text);
    }
    let slow = (INTRA, "{ kind = \"switch\", bandwidth = \"100 MB/s\" }");
    for changes in [&[slow][..], &[slow, (NUMBER, "2"), (MEMORY, "\"100 GB/s\"")][..]] {
        let found = report(changes).bottleneck.expect("one");
        assert_eq!(found.resource, "network", "{}", found.text);
        assert!(found.text.contains("a longer `period` or a faster network"), "{}", found.text);
    }
}

#[test]
fn settings_of_the_averaging_collective_on_one_gpu_are_reported_as_ineffective() {
    let one = [(NUMBER, "2"), ("job.parallel.data.copies_per_node", "1")];
    let keys = [
        ("algorithm", "\"hierarchical\""),
        ("inner", "\"ring\""),
        ("outer", "\"ring\""),
        ("library", "\"mpich\""),
        ("chunk", "\"1 MB\""),
        ("transport", "{ tcp = { latency = \"1 ms\" } }"),
        ("fidelity", "\"analytic\""),
    ];
    let without = [&BASE[..6], &one].concat();
    let scenario = changed(&without);
    let said = |remarks: &[String]| {
        let of = "models on one GPU are averaged in its memory";
        remarks.iter().filter(|remark| remark.contains(of)).count()
    };
    assert_eq!(said(&scenario.remarks), 0);
    let steps = simulate(&scenario).jobs[0].steps.clone();
    for (key, value) in keys {
        let key = format!("job.sync.model-averaging.{key}");
        let scenario = changed(&[&without[..], &[(&key, value)]].concat());
        assert_eq!(said(&scenario.remarks), 1, "{key}: {:?}", scenario.remarks);
        assert_eq!(simulate(&scenario).jobs[0].steps, steps, "{key}");
    }
}

#[test]
fn unsupported_model_averaging_is_refused_with_a_remedy() {
    let file = ScenarioFile::parse("test.toml", base()).expect("a scenario");
    let refusal = |changes: &[(&str, &str)]| {
        let all = [&BASE[..], changes].concat();
        let set = all.iter().map(|(key, value)| format!("{key}={value}").parse().expect("one"));
        file.resolve(&set.collect::<Vec<_>>()).expect_err("refused").to_string()
    };
    let whole = refusal(&[("job.parallel", "{ pipeline = { stages = 2 } }")]);
    assert!(whole.contains("write `schedule = \"1f1b\"`"), "{whole}");
    let large = refusal(&[("job.sync.model-averaging.parameters", "\"1e18 B\"")]);
    assert!(large.contains("is too large") && large.contains("write fewer bytes"), "{large}");
    assert!(!large.contains("algorithm = \"ring\""), "{large}");
    let sparse =
        r#"{ allreduce = { gradients = "9e15 B", compression = { sparse = { ratio = 1.0 } } } }"#;
    let sparse = refusal(&[("job.sync", sparse)]);
    assert!(sparse.contains("or a smaller `ratio`"), "{sparse}");
}
