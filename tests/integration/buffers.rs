//! Shuffle buffers, chained queues, and what tf.data tunes while a job runs.

use super::conformance::worlds;
use super::on_request::text;
use super::runs::{simulate, steady, written};
use forebay::report::JobOutcome;
use forebay::scenario::{Scenario, ScenarioFile, Stop};

/// Returns a scenario with batches of 4 out of 1000 samples; each read waits for 1 ms and each step takes
/// `step`.
fn of(step: &str, loader: &str, changes: &[(&str, &str)]) -> Scenario {
    let text = text(4, "\"1 ms\"", &format!("model.step = \"{step}\""), loader);
    written(&text, changes)
}

/// Returns when the first step ended, after the job's start [s]; it takes 1 µs.
fn first_step(job: &JobOutcome) -> f64 {
    job.steps.first().expect("steps").end - job.start
}

#[test]
fn a_shuffle_queue_hands_out_samples_only_above_min_after_dequeue() {
    // System: one thread, reads of 1 ms, room for 30 samples, of which 10 must stay. Expectation: the first
    // batch of 4 is taken when 14 samples are in the queue; while the trainer computes, all 30 places fill.
    let loader =
        "tf-queue = { threads = 1, capacity = \"30 samples\", min_after_dequeue = \"10 samples\" }";
    let first = |loader: &str| {
        let [simulated, live] = worlds(&of("1 us", loader, &[])).map(|(_, job)| first_step(&job));
        assert!(live > simulated, "{live} before {simulated}");
        simulated
    };
    assert!((first(loader) - 14.001e-3).abs() < 1e-6, "{}", first(loader));
    let plain = "tf-queue = { threads = 1, capacity = \"30 samples\" }";
    assert!((first(plain) - 4.001e-3).abs() < 1e-6, "{}", first(plain));
    let mut pausing = of("100 s", loader, &[]);
    pausing.run.stop = Stop::Duration(0.25);
    for (world, job) in worlds(&pausing) {
        assert_eq!(job.samples.left, 30, "{world}: what is left of 34 after a batch");
    }
}

#[test]
fn shuffle_buffers_are_drained_at_the_end_of_the_data() {
    // System: one epoch of 1000 samples, and runs of 20 steps. Expectation: at the end of the data all samples
    // come out; a run of 20 steps ends before and leaves the kept samples in the queue.
    let loaders = [
        "tf-queue = { threads = 2, capacity = \"300 samples\", min_after_dequeue = \"200 samples\" }",
        "tf-data = { parallel_reads = 4, parallel_calls = 3, shuffle = \"200 samples\" }",
        "tf-queue = { threads = 2, capacity = \"8 samples\", \
         examples = { readers = 2, capacity = \"300 samples\", min_after_dequeue = \"200 samples\" } }",
    ];
    for loader in loaders {
        let text = text(4, "\"10 us\"", "model.step = \"1 us\"", loader);
        let epoch = written(&text.replace("steps = 20", "epochs = 1"), &[]);
        for (world, job) in worlds(&epoch) {
            assert_eq!((job.steps.len(), job.samples.dequeued), (250, 1000), "{world}: {loader}");
            assert_eq!((job.samples.left, job.samples.in_progress), (0, 0), "{world}: {loader}");
        }
        for (world, job) in worlds(&written(&text, &[])) {
            assert_eq!(job.samples.dequeued, 80, "{world}: {loader}");
            let inside = job.samples.started - 80;
            assert!(inside >= 199, "{world}: {inside} inside, {loader}");
        }
    }
}

#[test]
fn a_shuffle_buffer_is_full_before_the_first_sample_leaves_it() {
    // System: one reader, 1 ms a sample, batches of 4. Expectation: the fourth sample leaves the buffer of
    // 50 when 53 have been read; the steady rate is the reader's, whatever the buffer.
    let step = |keys: &str| {
        let loader = format!("tf-data = {{ parallel_calls = 1{keys} }}");
        let outcome = simulate(&of("1 us", &loader, &[("run.steps", "40")]));
        (first_step(&outcome.jobs[0]), steady(&outcome, 20).step)
    };
    let (first, then) = step(", shuffle = \"50 samples\"");
    assert!((first - 53.001e-3).abs() < 1e-6, "{first}");
    assert!((then - 4e-3).abs() < 1e-6, "{then}");
    let (first, then) = step("");
    assert!((first - 4.001e-3).abs() < 1e-6 && (then - 4e-3).abs() < 1e-6, "{first} {then}");
}

#[test]
fn throughput_of_chained_queues_is_set_by_the_slower_group_of_threads() {
    // System: readers of 1 ms a sample, then threads that decode for 3 ms each, on two cores.
    // Expectation: the slower of readers ÷ 1 ms and threads ÷ 3 ms; neither capacity matters.
    let step = |readers: u32, threads: u32, capacity: u32| {
        let loader = format!(
            "tf-queue = {{ threads = {threads}, capacity = \"{capacity} samples\", decode = \"3 ms\", \
             examples = {{ readers = {readers}, capacity = \"{capacity} samples\" }} }}"
        );
        steady(&simulate(&of("1 us", &loader, &[("run.steps", "60")])), 20).step
    };
    let near = |found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 0.01, "{found}, not {expected}");
    };
    near(step(1, 2, 16), 6e-3);
    near(step(1, 1, 16), 12e-3);
    near(step(1, 1, 160), 12e-3);
    let text = text(
        4,
        "\"1 ms\"",
        "model.step = \"1 us\"",
        "tf-queue = { threads = 8, capacity = \"16 samples\", \
         decode = \"1 ms\", examples = { readers = 2, capacity = \"16 samples\" } }",
    );
    let text = text.replace("cores = 2", "cores = 8").replace("steps = 20", "steps = 60");
    near(steady(&simulate(&written(&text, &[])), 20).step, 2e-3);
}

#[test]
fn an_auto_tuned_prefetch_grows_only_if_the_loader_is_sometimes_too_slow() {
    // System: prefetch "auto". Expectation: with a loader that is always faster than the trainer it stays at
    // one batch; with a loader that is always slower it grows to two, since the second batch is never ready;
    // with a loader that is faster on average only, it grows, and the trainer waits less than with one batch.
    let job = |latency: &str, step: &str, prefetch: &str| {
        let loader = format!("tf-data = {{ parallel_calls = 1, prefetch = {prefetch} }}");
        let text = text(4, latency, &format!("model.step = \"{step}\""), &loader);
        simulate(&written(&text.replace("steps = 20", "steps = 3000"), &[])).jobs.remove(0)
    };
    let batches = |job: &JobOutcome| job.queue.capacity / 4;
    assert_eq!(batches(&job("\"1 ms\"", "10 ms", "\"auto\"")), 1);
    assert_eq!(batches(&job("\"1 ms\"", "1 ms", "\"auto\"")), 2);
    let bursts = "{ lognormal = { median = \"1 ms\", p99 = \"20 ms\" } }";
    let (tuned, one) = (job(bursts, "9 ms", "\"auto\""), job(bursts, "9 ms", "1"));
    assert!(batches(&tuned) >= 8, "{}", batches(&tuned));
    let end = |job: &JobOutcome| job.steps.last().expect("steps").end;
    assert!(end(&tuned) < 0.97 * end(&one), "{} {}", end(&tuned), end(&one));
    // Memory checks do not count the size to which the prefetch may grow.
    let loader = "tf-data = { parallel_calls = 1, prefetch = \"auto\" }";
    of("1 us", loader, &[("cluster.node.memory", "\"1 MB\"")]);
    for (world, job) in worlds(&of("1 us", loader, &[])) {
        assert!(
            batches(&job).is_power_of_two() && batches(&job) >= 2,
            "{world}: {}",
            batches(&job)
        );
    }
}

#[test]
fn auto_tuned_parallelism_is_as_fast_as_the_explicit_optimum() {
    // System: sixteen cores, reads of 1 ms, calls of 8 ms of a core, batches of 4. Expectation: 36 ms of work
    // for a batch on 16 cores are 2.25 ms, for which about 15 calls and some reads are enough; "auto" is as
    // fast as explicit numbers; both worlds report the tuned numbers.
    let of = |steps: &str, parallelism: &str, cores: &str| {
        let loader = format!("tf-data = {{ {parallelism}, decode = \"8 ms\", prefetch = 4 }}");
        let text = text(4, "\"1 ms\"", "model.step = \"1 us\"", &loader);
        written(&text.replace("cores = 2", cores).replace("steps = 20", steps), &[])
    };
    let run = |parallelism: &str, cores: &str| of("steps = 400", parallelism, cores);
    let auto = "parallel_reads = \"auto\", parallel_calls = \"auto\"";
    let tuned = simulate(&run(auto, "cores = 16"));
    let [reads, calls] = &tuned.jobs[0].tuned[..] else { panic!("{:?}", tuned.jobs[0].tuned) };
    assert_eq!((&reads.stage[..], &calls.stage[..]), ("interleave", "map"));
    assert!(
        (14..=16).contains(&calls.workers) && reads.workers >= 2,
        "{tuned:?}",
        tuned = tuned.jobs[0].tuned
    );
    let step = |scenario: &Scenario| steady(&simulate(scenario), 200).step;
    let written_out = step(&run("parallel_reads = 16, parallel_calls = 16", "cores = 16"));
    assert!((step(&run(auto, "cores = 16")) / written_out - 1.0).abs() < 0.1, "{written_out}");
    // One more call helps until the reads are the bottleneck: with reads by one thread, few calls are enough.
    let one = simulate(&run("parallel_reads = 1, parallel_calls = \"auto\"", "cores = 64"));
    assert_eq!(one.jobs[0].tuned.len(), 1, "only what is tuned is told");
    // A hundred steps keep two real cores busy for 1.6 s.
    let live = of("steps = 100", auto, "cores = 2");
    for (world, job) in worlds(&live) {
        assert_eq!(job.tuned.len(), 2, "{world}");
        assert!(
            job.tuned.iter().all(|of| (1..=2).contains(&of.workers)),
            "{world}: {:?}",
            job.tuned
        );
    }
}

#[test]
fn invalid_buffer_settings_are_refused() {
    let refused = |job: &str, loader: &str| {
        let text = text(4, "\"1 ms\"", job, loader);
        let file = ScenarioFile::parse("x.toml", text).and_then(|file| file.resolve(&[]));
        file.expect_err("refused").to_string()
    };
    let step = "model.step = \"1 ms\"";
    let kept =
        "tf-queue = { threads = 1, capacity = \"12 samples\", min_after_dequeue = \"10 samples\" }";
    let found = refused(step, kept);
    assert!(found.contains("of which 10 stay in it") && found.contains("14 samples"), "{found}");
    let circular = kept.replace("12", "20");
    let found = refused(&format!("queue = \"circular\"\n{step}"), &circular);
    assert!(found.contains("keeps no samples back"), "{found}");
    let examples = "tf-queue = { threads = 1, capacity = \"12 samples\", \
                    examples = { readers = 1, capacity = \"9 samples\", min_after_dequeue = \"9 samples\" } }";
    let found = refused(step, examples);
    assert!(found.contains("none can be taken"), "{found}");
    let found = refused(step, "tf-data = { parallel_calls = \"fast\" }");
    assert!(found.contains("a number or \"auto\""), "{found}");
    let found = refused(
        &format!("prefill = \"full\"\n{step}"),
        "tf-data = { parallel_calls = 1, prefetch = \"auto\" }",
    );
    assert!(found.contains("begins empty"), "{found}");
    let stages = "stages = [{ name = \"read\", workers = 1, per_sample = [\"read\"], buffer = 8, kept = 5 }, \
                  { name = \"batch\", workers = 1, unit = \"batch\", buffer = 2 }]";
    let found = refused(step, stages);
    assert!(found.contains("8 samples, of which 5 stay in it: less than the 4"), "{found}");
    let text =
        text(4, "\"1 ms\"", step, "tf-data = { parallel_calls = 1, shuffle = \"5000 samples\" }");
    let remarks = written(&text, &[]).remarks.join("\n");
    assert!(
        remarks.contains("larger than the data set: the buffer holds all 1000 samples"),
        "{remarks}"
    );
}
