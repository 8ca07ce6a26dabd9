//! First batches of epochs and work beside computing, compared with closed forms, and in both worlds.

use super::conformance::worlds;
use super::runs::{Case, written};
use super::verdicts::judged;
use forebay::report::{Cause, JobReport, StallCause, summarise};
use forebay::scenario::Scenario;
use forebay::sim;

fn near(what: &str, found: f64, expected: f64, tolerance: f64) {
    let error = found / expected - 1.0;
    assert!(error.abs() <= tolerance, "{what}: {found} instead of {expected} ({error:+.4})");
}

fn reported(scenario: &Scenario) -> JobReport {
    let outcome = sim::run(scenario, 0, &sim::Options::default());
    summarise(scenario, &[outcome], 0.0).jobs.remove(0)
}

/// Two nodes of two ranks with four workers each, which read batches of eight samples of 1 MB from 200 MB/s; three epochs of ten steps that
/// take longer than their reads.
fn ranks(job: &str) -> String {
    format!(
        r#"
        name = "starts"
        run = {{ epochs = 3, warm_up = "off", replications = 1 }}
        cluster = {{ nodes = 2, node = {{ cores = 32, gpus = 2 }} }}
        storage.s.file-server.bandwidth = "200 MB/s"
        dataset.d = {{ samples = 320, sample_size = "1 MB" }}
        [[job]]
        name = "j"
        nodes = 2
        dataset = "d"
        storage = "s"
        batch = 8
        loader.pytorch = {{ workers = 4, prefetch_factor = 1, drop_last = true {job} }}
        model.step = "400 ms"
        parallel.data = {{ copies_per_node = 2, loaders = "per-rank" }}
        "#
    )
}

#[test]
fn first_batches_take_as_long_as_those_of_all_workers() {
    // System: four ranks, whose sixteen workers each make a batch of 8 MB at once. Expectation: 16 × 8 MB ÷ 200 MB/s for the first batch of
    // each epoch, for all ranks, and no wait of later steps; the wait is charged to the first batch alone.
    for (keys, started) in [("", 0.0), (", persistent_workers = true, start = \"100 ms\"", 0.4)] {
        let job = reported(&written(&ranks(keys), &[]));
        let starts = job.epoch_starts.as_ref().expect("first batches");
        let expected = 16.0 * 8e6 / 200e6;
        assert_eq!(starts.epochs.len(), 3);
        for of in &starts.epochs {
            let started = if of.epoch == 0 { started } else { 0.0 };
            near(keys, of.median, started + expected, 1e-6);
            near(keys, of.slowest, started + expected, 1e-6);
            near(keys, of.first_step.expect("a step"), started + expected + 0.4, 1e-6);
        }
        let share = |cause| job.figures.stall.share(StallCause::own(cause));
        let whole = 3.0 * (expected + 10.0 * 0.4) + started;
        near("first batch", share(Cause::FirstBatch), 3.0 * expected / whole, 1e-6);
        assert!(
            (share(Cause::Restart) - started / whole).abs() < 1e-9,
            "{}",
            share(Cause::Restart)
        );
        near(
            "all stalls",
            job.figures.stall.total.mean.expect("steps"),
            (whole - 12.0) / whole,
            1e-6,
        );
        // MLPerf Storage v1.0: a rank's own first step is left out of utilisation, and samples per second count it.
        let v1 = [&starts.mlperf_v1_utilisation, &starts.mlperf_v1_samples_per_second];
        let [utilisation, samples] = v1.map(|of| of.mean.expect("epochs"));
        near("utilisation", utilisation, 1.0, 1e-6);
        let epoch = |started: f64| 320.0 / (started + expected + 4.0);
        near("samples", samples, (epoch(started) + 2.0 * epoch(0.0)) / 3.0, 1e-6);
    }
}

/// Two nodes whose pipelines each feed two GPUs, three epochs of ten steps. A batch of eight samples takes 8 ms to read and 80 ms to decode,
/// a step 400 ms.
fn pipelines(loader: &str) -> String {
    format!(
        r#"
        name = "pipelines"
        run = {{ epochs = 3, warm_up = "off", replications = 1 }}
        cluster = {{ nodes = 2, node = {{ cores = 32, gpus = 2 }} }}
        storage.s.local-disk = {{ bandwidth = "1 GB/s", access = "direct" }}
        dataset.d = {{ samples = 320, sample_size = "1 MB" }}
        [[job]]
        name = "j"
        nodes = 2
        dataset = "d"
        storage = "s"
        batch = 8
        loader.tf-data = {{ parallel_calls = 1, prefetch = 8, decode = "10 ms" {loader} }}
        model.step = "400 ms"
        parallel.data.copies_per_node = 2
        "#
    )
}

#[test]
fn a_pipeline_that_each_epoch_builds_anew_makes_each_first_batch_wait() {
    // System: pipelines that read and decode one sample after the other; the reads of later samples are hidden behind decoding. Expectation:
    // the first of the node's two GPUs waits for the start, one read and eight decodings, the second for eight more; later batches are
    // ready. With a time for each of the 320 files the start is longer by it. A pipeline that reads on waits once. A shuffle buffer of five
    // samples is filled by five reads, and drains at the end of each epoch.
    let (read, decode) = (1e-3, 10e-3);
    for (loader, start, shuffled, begins) in [
        ("", 0.0, 0.0, 1),
        (", start = \"0 s\"", 0.0, 0.0, 3),
        (", start = \"500 ms\"", 0.5, 0.0, 3),
        (", start = \"500 ms\", start_per_file = \"1 ms\"", 0.82, 0.0, 3),
        (", start = \"500 ms\", shuffle = \"5 samples\"", 0.5, 4.0 * read, 3),
    ] {
        let scenario = written(&pipelines(loader), &[]);
        let outcome = sim::run(&scenario, 0, &sim::Options::default());
        let ended = outcome.jobs[0].steps.last().expect("a step").end;
        let job = reported(&scenario);
        let starts = job.epoch_starts.as_ref().expect("first batches");
        assert_eq!(starts.epochs.len(), begins, "{loader}");
        let first = start + shuffled + read + 8.0 * decode;
        for of in &starts.epochs {
            near(loader, of.slowest, first + 8.0 * decode, 1e-6);
            near(loader, of.median, first + 4.0 * decode, 1e-6);
        }
        // Steps of the two GPUs end together.
        let whole = 30.0 * 0.4 + begins as f64 * (first + 8.0 * decode);
        near(loader, ended, whole, 1e-6);
        let share = |cause| job.figures.stall.share(StallCause::own(cause));
        near(loader, 1.0 + share(Cause::Restart), 1.0 + begins as f64 * start / whole, 1e-6);
    }
}

/// A pipeline of a GPU that decodes for 10 ms a sample and takes 20 ms for a step of eight, with the keys of the loader.
fn tuned(samples: u32, run: &str, loader: &str) -> String {
    format!(
        r#"
        name = "tuned"
        run = {{ {run}, warm_up = "off", replications = 1 }}
        cluster = {{ nodes = 1, node = {{ cores = 16, gpus = 1 }} }}
        storage.s.local-disk = {{ bandwidth = "10 GB/s", access = "direct" }}
        dataset.d = {{ samples = {samples}, sample_size = "1 MB" }}
        [[job]]
        name = "j"
        dataset = "d"
        storage = "s"
        batch = 8
        loader.tf-data = {{ decode = "10 ms", {loader} }}
        model.step = "20 ms"
        "#
    )
}

#[test]
fn automatic_tuning_does_not_take_the_start_of_a_pipeline_for_reading() {
    // Expectation: as many threads decode with a start of 5 s as with none, and no step waits for them after the first.
    let auto = "parallel_calls = \"auto\", parallel_reads = \"auto\", prefetch = 2";
    let of = |start: &str| {
        reported(&written(
            &tuned(3200, "steps = 2000", &format!("{auto}, start = \"{start}\"")),
            &[],
        ))
    };
    let threads = |job: &JobReport| job.tuned.iter().map(|of| of.workers).collect::<Vec<_>>();
    let (usual, late) = (of("0 s"), of("5 s"));
    let [usual, late_threads] = [&usual, &late].map(threads);
    assert_eq!(usual, late_threads);
    assert!(late.figures.stall.share(StallCause::own(Cause::Decode)) < 0.01);
}

#[test]
fn an_automatic_prefetch_begins_anew_with_each_pipeline() {
    // System: epochs of 40 batches, each of which finds the queue empty at its end. Expectation: the queue stays as short as that of a single
    // epoch needs it; it does not double with each epoch.
    let auto = "parallel_calls = 16, parallel_reads = 4, prefetch = \"auto\", start = \"100 ms\"";
    let of = |steps: u32| {
        let text = tuned(320, &format!("steps = {steps}"), auto);
        let outcome = sim::run(&written(&text, &[]), 0, &sim::Options::default());
        outcome.jobs[0].queue.capacity
    };
    assert_eq!(of(1200), of(40));
}

#[test]
fn epochs_of_a_run_are_those_of_its_pipelines() {
    // System: ten samples in batches of eight: one batch an epoch, and what does not fill one is dropped. Expectation: ten epochs begin ten
    // times and take ten steps.
    let text = tuned(10, "epochs = 10", "parallel_calls = 4, start = \"100 ms\"");
    let scenario = written(&text, &[]);
    let outcome = sim::run(&scenario, 0, &sim::Options::default());
    assert_eq!(outcome.jobs[0].steps.len(), 10);
    assert_eq!(reported(&scenario).epoch_starts.expect("first batches").epochs.len(), 10);
    let prefilled = text.replace("model.step", "prefill = \"full\"\nmodel.step");
    let file = forebay::scenario::ScenarioFile::parse("prefilled.toml", prefilled).expect("TOML");
    let refused = file.resolve(&[]).expect_err("a prefilled pipeline").to_string();
    assert!(refused.contains("builds anew") && refused.contains("remove `prefill`"), "{refused}");
}

#[test]
fn the_verdict_names_the_start_of_pipelines_where_it_costs_most() {
    let text = tuned(160, "epochs = 10", "parallel_calls = 16, prefetch = 8, start = \"2 s\"");
    let (_, verdict) = judged(&Case::written(&text, &[]));
    assert!(verdict.limits[0].key.ends_with("tf-data.start"), "{:?}", verdict.limits[0]);
    assert!(verdict.text.contains("the start of the pipeline"), "{}", verdict.text);
}

#[test]
fn more_workers_and_less_bandwidth_make_first_batches_later() {
    let first = |changes: &[(&str, &str)]| {
        let job = reported(&written(&ranks(""), changes));
        job.epoch_starts.expect("first batches").first_batch.mean.expect("epochs")
    };
    let usual = first(&[]);
    near("workers", first(&[("job.loader.pytorch.workers", "2")]), usual / 2.0, 1e-6);
    near(
        "bandwidth",
        first(&[("storage.s.file-server.bandwidth", "\"100 MB/s\"")]),
        2.0 * usual,
        1e-6,
    );
    near("ranks", first(&[("job.nodes", "1")]), usual / 2.0, 1e-6);
}

/// `nodes` nodes of `ranks` ranks each that compute 10 ms and launch as the keys say, on data in memory.
fn launches(nodes: u32, ranks: u32, launch: &str) -> f64 {
    launches_on(64, (nodes, ranks), launch)
}

/// The same on nodes of `cores` cores.
fn launches_on(cores: u32, (nodes, ranks): (u32, u32), launch: &str) -> f64 {
    let text = format!(
        r#"
        name = "launches"
        run = {{ steps = 4000, warm_up = 10, replications = 1 }}
        cluster = {{ nodes = {nodes}, node = {{ cores = {cores}, gpus = {ranks} }} }}
        storage.s.memory = {{}}
        dataset.d = {{ samples = 1000000, sample_size = "1 B" }}
        [[job]]
        name = "j"
        nodes = {nodes}
        dataset = "d"
        storage = "s"
        batch = 1
        loader.in-memory = {{}}
        model = {{ step = "10 ms", launch = {{ work = "1 ms", overlap = false, {launch} }} }}
        parallel.data = {{ copies_per_node = {ranks}, loaders = "per-rank" }}
        "#
    );
    reported(&written(&text, &[])).figures.step_time.mean.expect("steps")
}

#[test]
fn a_barrier_takes_the_longest_of_n_varying_times() {
    // Expectation: the mean of the largest of n exponential times is their mean times the n-th harmonic number.
    for n in [1, 2, 8, 32] {
        let harmonic: f64 = (1..=n).map(|k| 1.0 / f64::from(k)).sum();
        let found = launches(1, n, "varying = { exponential = { mean = \"2 ms\" } }");
        near(&format!("{n} ranks"), found, 11e-3 + 2e-3 * harmonic, 0.02);
    }
    for n in [1, 8] {
        near("equal ranks", launches(1, n, "threads = 1"), 11e-3, 1e-9);
    }
    // Four ranks on one core work one after the other, and wait without it.
    near("one core", launches_on(1, (1, 4), "varying = \"30 ms\""), 44e-3, 1e-9);
}

#[test]
fn the_ranks_of_a_node_take_turns_and_those_of_other_nodes_do_not_wait() {
    for (nodes, ranks) in [(1, 1), (1, 8), (2, 4), (8, 1)] {
        let found = launches(nodes, ranks, "serial = \"500 us\"");
        near(&format!("{nodes} × {ranks}"), found, 11e-3 + 0.5e-3 * f64::from(ranks), 1e-9);
    }
}

#[test]
fn waiting_for_a_turn_is_charged_to_the_launch() {
    let text = r#"
        name = "turns"
        run = { steps = 50, warm_up = "off", replications = 1 }
        cluster = { nodes = 1, node = { cores = 8, gpus = 4 } }
        storage.s.memory = {}
        dataset.d = { samples = 10000, sample_size = "1 B" }
        [[job]]
        name = "j"
        dataset = "d"
        storage = "s"
        batch = 1
        loader.in-memory = {}
        model = { step = "10 ms", launch = { work = "1 ms", serial = "2 ms", overlap = false } }
        parallel.data = { copies_per_node = 4, loaders = "per-rank" }
    "#;
    for (world, job) in worlds(&written(text, &[])) {
        let of = |cause| {
            let own = job.stalls.iter().filter(|of| of.cause == StallCause::own(cause));
            own.map(|stall| stall.seconds).sum::<f64>() / 50.0
        };
        // Turns end after 2, 4, 6 and 8 ms, each after 1 ms of work: 6 ms in the mean.
        // On a busy machine the threads wait for cores too.
        let waited = of(Cause::Launch) + if world == "live" { of(Cause::CpuWait) } else { 0.0 };
        assert!(waited >= 6e-3 - 1e-6, "{world}: {waited}");
        if world == "simulated" {
            near(world, waited, 6e-3, 1e-6);
        }
        assert!(job.steps[49].end >= 50.0 * 19e-3 - 1e-6, "{world}: {}", job.steps[49].end);
    }
}

#[test]
fn live_pipelines_are_built_anew_as_simulated_ones() {
    // System: a pipeline that takes 100 ms to build and reads from memory; three epochs of two steps of 200 ms. Expectation: each epoch's
    // first batch waits for 100 ms in both worlds; a busy machine may take longer.
    let text = r#"
        name = "live-pipeline"
        run = { epochs = 3, warm_up = "off", replications = 1 }
        cluster = { nodes = 1, node = { cores = 2, gpus = 1 } }
        storage.s.memory = {}
        dataset.d = { samples = 8, sample_size = "100 kB" }
        [[job]]
        name = "j"
        dataset = "d"
        storage = "s"
        batch = 4
        loader.tf-data = { parallel_calls = 2, shuffle = "4 samples", start = "100 ms" }
        model.step = "200 ms"
    "#;
    for (world, job) in worlds(&written(text, &[])) {
        let waits: Vec<f64> = job.first_batches.iter().map(|of| of.seconds).collect();
        assert_eq!(waits.len(), 3, "{world}");
        assert!(waits.iter().all(|wait| (0.0999..0.19).contains(wait)), "{world}: {waits:?}");
        let restarts = job.stalls.iter().filter(|of| of.cause == StallCause::own(Cause::Restart));
        let restarts: f64 = restarts.map(|of| of.seconds).sum();
        assert!((0.29..0.5).contains(&restarts), "{world}: {restarts}");
    }
}

#[test]
fn live_first_batches_wait_as_long_as_simulated_ones() {
    // System: two workers that each make a batch of four samples, 50 ms for a sample. Expectation: 200 ms in both worlds; a busy machine
    // may take longer.
    let text = r#"
        name = "live-start"
        run = { steps = 6, warm_up = "off", replications = 1 }
        cluster = { nodes = 1, node = { cores = 2, gpus = 1 } }
        storage.s.memory = {}
        dataset.d = { samples = 400, sample_size = "100 kB" }
        [[job]]
        name = "j"
        dataset = "d"
        storage = "s"
        batch = 4
        loader.pytorch = { workers = 2, prefetch_factor = 1, delay = "50 ms" }
        model.step = "1 s"
    "#;
    let [simulated, live] = worlds(&written(text, &[])).map(|(_, job)| job);
    let first = |job: &forebay::report::JobOutcome| {
        job.first_batches.first().map(|of| of.seconds).expect("a batch")
    };
    near("simulated", first(&simulated), 0.2, 1e-3);
    assert!(first(&live) >= 0.199, "{}", first(&live));
    let charged = live.stalls.iter().filter(|of| of.cause == StallCause::own(Cause::FirstBatch));
    let charged: f64 = charged.map(|of| of.seconds).sum();
    assert!(charged >= 0.19, "{charged}");
}
