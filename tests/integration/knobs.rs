//! Settings change results in the right direction and by the amount of a calculation by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forebay::report::{Outcome, summarise};
use forebay::sim::{Options, run};

use super::base::{changed, outcome};
use super::runs::steady;

/// Time per sample in the base scenario: a thread needs 20 µs to open a file, 500 + 2·10 µs to the first byte,
/// 250 µs for the bytes and 500 µs to decode; four threads make a batch of 16.
const SAMPLE: f64 = 1.29e-3;
const STARVED: f64 = 4.0 * SAMPLE;

/// Returns the mean step time after the first 20 steps [s].
fn step(changes: &[(&str, &str)]) -> f64 {
    steady(&outcome(changes), 20).step
}

fn assert_near(what: &str, value: f64, expected: f64, tolerance: f64) {
    let error = value / expected - 1.0;
    assert!(error.abs() <= tolerance, "{what}: {value} instead of {expected} ({error:+.4})");
}

/// A storage in memory, which is never the bottleneck.
const MEMORY: (&str, &str) = ("storage.s", "{ memory = {} }");
const IDLE_DECODE: (&str, &str) = ("job.loader.tf-queue.decode", "\"0 s\"");
const SERVER: &str = "storage.s.file-server";

#[test]
fn step_time_of_an_input_bound_job_follows_closed_forms_when_a_setting_changes() {
    // System: the base scenario, starved, with one key changed. Expectation: one thread's time per sample × 16
    // ÷ threads, or 16 samples at the rate of the new bottleneck.
    let cases: [(&str, &str, &str, f64); 13] = [
        ("as it is", "run.steps", "60", STARVED),
        ("threads", "job.loader.tf-queue.threads", "2", 8.0 * SAMPLE),
        ("a longer queue alone", "job.loader.tf-queue.capacity", "\"6400 samples\"", STARVED),
        ("decode", "job.loader.tf-queue.decode", "\"1 ms\"", 4.0 * (SAMPLE + 0.5e-3)),
        ("network latency", "cluster.network.latency", "\"1 ms\"", 4.0 * (SAMPLE + 1.98e-3)),
        (
            "per_stream",
            "storage.s.file-server.per_stream",
            "\"100 MB/s\"",
            4.0 * (SAMPLE + 0.75e-3),
        ),
        ("latency", "storage.s.file-server.latency", "\"2 ms\"", 4.0 * (SAMPLE + 1.5e-3)),
        ("operations", "storage.s.file-server.operations", "\"1000 /s\"", 16.0 * 1e-3),
        ("sample_size", "dataset.d.sample_size", "\"200 kB\"", 4.0 * (SAMPLE + 0.25e-3)),
        ("batch", "job.batch", "32", 2.0 * STARVED),
        ("model copies", "job.parallel.data.copies_per_node", "2", 2.0 * STARVED),
        ("nodes, each with its loader", "job.nodes", "2", STARVED),
        ("batch_interval", "job.batch_interval", "4", STARVED / 4.0),
    ];
    for (what, key, value, expected) in cases {
        // Threads that start together contend for operations at first; they soon drift apart.
        assert_near(what, step(&[(key, value)]), expected, 0.01);
    }
    // One core, always busy: in FIFO slots, because threads in lockstep on shared cores would leave it idle.
    let one = [("cluster.node.cores", "1"), ("cluster.node.scheduling", "\"fifo\"")];
    assert_near("cores", step(&one), 16.0 * 0.5e-3, 0.01);
    // 100 MB/s, always busy because 16 threads with random latency do not read in lockstep.
    for key in ["cluster.network.nic", "storage.s.file-server.bandwidth"] {
        let latency = ("storage.s.file-server.latency", "{ exponential = { mean = \"500 us\" } }");
        let threads = ("job.loader.tf-queue.threads", "16");
        assert_near(key, step(&[latency, threads, (key, "\"100 MB/s\"")]), 16e-3, 0.01);
    }
}

#[test]
fn step_time_of_a_job_that_never_waits_for_data_is_its_compute_time() {
    // System: data in memory. Expectation: fixed + batch · per_sample, divided by the speed of the GPU.
    let cases = [
        ("job.model.step", "{ fixed = \"2 ms\", per_sample = \"100 us\" }", 3.6e-3),
        ("job.model.step", "{ per_sample = \"100 us\" }", 1.6e-3),
        ("cluster.node.gpu_speed", "4", 0.25e-3),
        ("job.parallel.data.copies_per_node", "4", 1e-3),
    ];
    for (key, value, expected) in cases {
        let value = step(&[MEMORY, IDLE_DECODE, (key, value)]);
        assert_near(key, value, expected, 1e-9);
    }
    // Jitter has mean 1 and the configured coefficient of variation.
    let jitter = ("job.model.jitter", "{ lognormal = { cv = 0.5 } }");
    let job = outcome(&[MEMORY, IDLE_DECODE, jitter, ("run.steps", "20000")]).jobs.remove(0);
    let n = job.steps.len() as f64;
    let mean = job.steps.iter().map(|step| step.compute).sum::<f64>() / n;
    let square = job.steps.iter().map(|step| (step.compute - mean).powi(2)).sum::<f64>() / n;
    assert_near("mean with jitter", mean, 1e-3, 0.02);
    assert_near("spread of jitter", square.sqrt(), 0.5e-3, 0.05);
}

#[test]
fn entry_n_of_a_bandwidth_table_applies_to_n_concurrent_transfers() {
    // System: n threads that only read from memory. Expectation: 1.6 MB a step at the bandwidth of the table's
    // n-th entry, or of its last one.
    for table in [[100.0, 150.0, 180.0], [200.0, 150.0, 100.0]] {
        let list: Vec<String> = table.iter().map(|mb| format!("\"{mb} MB/s\"")).collect();
        let memory = format!("{{ memory = {{ bandwidth = [{}] }} }}", list.join(", "));
        for threads in [1, 2, 4, 8] {
            let text = threads.to_string();
            let changes = [
                ("storage.s", memory.as_str()),
                IDLE_DECODE,
                ("job.loader.tf-queue.threads", text.as_str()),
            ];
            let expected = 1.6 / table[threads.min(3) - 1];
            assert_near("by transfers", step(&changes), expected, 0.01);
        }
    }
}

#[test]
fn core_scheduling_changes_the_longest_step_time_but_not_the_mean() {
    // System: 8 threads on 2 cores, 1 ms of decoding each, a batch of 1. Expectation: 0.5 ms a step in both
    // cases; shared cores finish all eight samples every 4 ms, slots two every 1 ms.
    let run = |scheduling| {
        let changes = [
            MEMORY,
            ("job.loader.tf-queue", r#"{ threads = 8, capacity = "1 samples", decode = "1 ms" }"#),
            ("cluster.node.cores", "2"),
            ("cluster.node.scheduling", scheduling),
            ("job.batch", "1"),
            ("job.model.step", "\"1 us\""),
            ("run.steps", "400"),
        ];
        let job = outcome(&changes).jobs.remove(0);
        let longest =
            job.steps.windows(2).skip(20).map(|w| w[1].end - w[0].end).fold(0.0, f64::max);
        (job.steps[399].end / 400.0, longest)
    };
    let (shared, fifo) = (run("\"shared\""), run("\"fifo\""));
    assert_near("shared", shared.0, 0.5e-3, 0.01);
    assert_near("fifo", fifo.0, 0.5e-3, 0.01);
    assert_near("longest step, shared", shared.1, 4e-3, 0.01);
    assert_near("longest step, fifo", fifo.1, 1e-3, 0.01);
}

#[test]
fn each_shard_is_opened_once_and_each_request_to_a_shard_adds_latency() {
    // System: shards of 100 samples (10 MB), no shared bottleneck. Expectation per sample: 0.2 µs of opening,
    // the latency divided by the samples in a request, bytes and decoding.
    let server = |request: &'static str| {
        let layout = format!("{{ shards = {{ samples = 100, request = \"{request}\" }} }}");
        let changes = [
            ("dataset.d.layout", layout.as_str()),
            ("cluster.network.nic", "\"100 GB/s\""),
            ("storage.s.file-server.bandwidth", "\"100 GB/s\""),
            ("run.steps", "500"),
        ];
        outcome(&changes)
    };
    for (request, latency) in [("1 MB", 0.052e-3), ("100 kB", 0.52e-3), ("10 MB", 0.0052e-3)] {
        let outcome = server(request);
        let expected = 4.0 * (0.2e-6 + latency + 0.25e-3 + 0.5e-3);
        assert_near(request, outcome.makespan / 500.0, expected, 0.02);
        let opens = outcome.resources.iter().find(|r| r.name == "s.operations").expect("there");
        assert!((80.0..=84.0).contains(&opens.served), "8000 samples: {} opened", opens.served);
    }
}

#[test]
fn shuffling_changes_the_order_but_not_the_samples_of_an_epoch() {
    // System: one epoch of samples of different sizes. Expectation: the same bytes in total, but different
    // steps.
    let run = |order| {
        outcome(&[
            ("run", "{ epochs = 1, replications = 1 }"),
            ("dataset.d.samples", "960"),
            ("dataset.d.sample_size", "{ exponential = { mean = \"100 kB\" } }"),
            ("dataset.d.order", order),
        ])
    };
    let (shuffled, sequential) = (run("\"shuffled\""), run("\"sequential\""));
    assert_ne!(shuffled.jobs[0].steps, sequential.jobs[0].steps);
    let bytes = |outcome: &Outcome| {
        outcome.resources.iter().find(|r| r.name == "node.nic").expect("there").served
    };
    assert_near("bytes of an epoch", bytes(&shuffled), bytes(&sequential), 1e-9);
}

#[test]
fn copies_to_the_device_move_decoded_bytes() {
    // System: 1 MB a sample decoded, 100 MB/s to the device. Expectation: 10 ms a sample; 1 ms as stored; two
    // model copies on two GPUs copy at once, in the same time.
    let loader = r#"{ stages = [
        { name = "read", workers = 2, per_sample = ["read"], buffer = 4 },
        { name = "copy", workers = 2, per_item = ["copy"], buffer = 2 }] }"#;
    let changes = [
        MEMORY,
        ("job.loader", loader),
        ("cluster.node.pcie", "\"100 MB/s\""),
        ("job.batch", "1"),
        ("job.model.step", "\"1 us\""),
    ];
    let with = |more: &[(&'static str, &'static str)]| step(&[&changes[..], more].concat());
    let decoded = ("dataset.d.decoded_size", "\"1 MB\"");
    assert_near("as stored", with(&[]), 1e-3, 0.01);
    assert_near("decoded", with(&[decoded]), 10e-3, 0.01);
    let two = ("job.parallel.data.copies_per_node", "2");
    assert_near("two GPUs", with(&[decoded, two]), 10e-3, 0.01);
    // A batch is copied as a whole: 4 MB.
    let batches = r#"{ stages = [
        { name = "read", workers = 2, per_sample = ["read"], buffer = 8 },
        { name = "copy", workers = 1, unit = "batch", per_item = ["copy"], buffer = 2 }] }"#;
    let four = with(&[decoded, ("job.batch", "4"), ("job.loader", batches)]);
    assert_near("batches", four, 40e-3, 0.01);
}

#[test]
fn step_time_matches_closed_forms_when_batches_are_trained_on_repeatedly() {
    // Expectation for an interval of 1.5: two batches in three steps, each step takes 1/1.5 of a starved one.
    let half = outcome(&[("job.batch_interval", "1.5")]);
    let fresh: u64 = half.jobs[0].steps.iter().map(|step| step.fresh).sum();
    assert_eq!(fresh, 40 * 16);
    assert_near("interval 1.5", steady(&half, 20).step, STARVED / 1.5, 0.02);
    // Expectation for an adaptive interval: starved, the maximum number of steps per batch; with data in
    // memory, one step per batch.
    let adaptive = r#"{ adaptive = { level = "32 samples", max = 4 } }"#;
    let adaptive = ("job.batch_interval", adaptive);
    assert_near("adaptive, starved", step(&[adaptive]), STARVED / 4.0, 0.02);
    let fed = outcome(&[adaptive, MEMORY, IDLE_DECODE]);
    assert!(fed.jobs[0].steps.iter().all(|step| step.fresh == 16));
    let more = r#"{ adaptive = { level = "32 samples", max = 3 } }"#;
    assert_near("max", step(&[("job.batch_interval", more)]), STARVED / 3.0, 0.02);
}

#[test]
fn a_one_epoch_run_with_a_fractional_number_of_steps_per_batch_terminates() {
    // System: 170 batches of 1.1 steps, a product that rounds up to 188, beside an endless background load.
    // Expectation: 187 steps, because the next would need a batch that is not read; the run ends by itself,
    // before the watchdog sets its flag.
    let background =
        r#"[{ name = "b", storage = "s", requests = { rate = "10 /s", size = "1 B" } }]"#;
    let scenario = changed(&[
        ("run", "{ epochs = 1, replications = 1 }"),
        ("dataset.d.samples", "2720"),
        ("job.batch_interval", "1.1"),
        ("background", background),
    ]);
    let flag = Arc::new(AtomicBool::new(false));
    let clock = Arc::clone(&flag);
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(10));
        clock.store(true, Ordering::Relaxed);
    });
    let outcome = run(&scenario, 0, &Options { stop: Some(&flag), ..Options::default() });
    assert!(!flag.load(Ordering::Relaxed), "the run ends by itself");
    assert_eq!(outcome.jobs[0].steps.len(), 187);
}

#[test]
fn a_circular_queue_repeats_samples_at_the_consumption_to_production_ratio() {
    // System: the trainer reads 16 samples each 1 ms, four threads overwrite 64 slots at 4 ÷ 1.29 ms.
    // Expectation: a sample is read consumption ÷ production = 5.16 times; its age when read is uniform over
    // the time until it is overwritten, 64 ÷ production, so half of that on average.
    let job = outcome(&[("job.queue", "\"circular\""), ("run.steps", "4000")]).jobs.remove(0);
    let production = 4.0 / SAMPLE;
    let total: u64 = job.queue.reuse.iter().sum();
    let reads: f64 = job.queue.reuse.iter().enumerate().map(|(i, n)| i as f64 * *n as f64).sum();
    assert_near("reads of a sample", reads / total as f64, 16e3 / production, 0.01);
    let count: u64 = job.queue.ages.iter().map(|(_, n)| n).sum();
    let ages: f64 = job.queue.ages.iter().map(|(age, n)| age * *n as f64).sum();
    assert_near("age when read", ages / count as f64, 32.0 / production, 0.03);
    let fresh: u64 = job.steps.iter().map(|step| step.fresh).sum();
    assert_near("fresh", fresh as f64 / job.steps[3999].end, production, 0.01);
    assert_near("step", job.steps[3999].end / 4000.0, 1e-3, 0.01);
}

#[test]
fn prefilled_queues_feed_first_steps_and_staggered_job_copies_start_in_turn() {
    let full = outcome(&[("job.prefill", "\"full\"")]).jobs.remove(0);
    assert_near("four batches at once", full.steps[3].end, 4e-3, 1e-9);
    assert!(outcome(&[]).jobs[0].steps[0].end > STARVED, "an empty queue starts starved");
    let late = [("job.copies", "3"), ("job.start", "\"1 s\""), ("job.stagger", "\"2 s\"")];
    let starts: Vec<f64> = outcome(&late).jobs.iter().map(|job| job.start).collect();
    assert_eq!(starts, [1.0, 3.0, 5.0]);
    // Two jobs share the server: each has half of it.
    let server = ("storage.s.file-server.bandwidth", "\"100 MB/s\"");
    assert_near("two jobs", step(&[("job.copies", "2"), server]), 32e-3, 0.01);
    // Disks in nodes are not shared.
    let disk = ("storage.s", r#"{ local-disk = { bandwidth = "100 MB/s" } }"#);
    assert_near("own disks", step(&[("job.copies", "2"), disk, IDLE_DECODE]), 16e-3, 0.01);
}

#[test]
fn background_load_leaves_a_job_only_the_rest_of_the_storage_server_capacity() {
    // System: a server of 100 MB/s, threads that only transfer. Expectation: five streams of 10 MB/s, or 500
    // requests of 100 kB per second, leave 50 MB/s, and so do four endless streams without a cap beside the
    // job's four threads.
    let server = (SERVER, r#"{ bandwidth = "100 MB/s" }"#);
    let with = |load: &str, steps| {
        let text = format!("[{{ name = \"b\", storage = \"s\", {load} }}]");
        step(&[server, IDLE_DECODE, ("background", text.as_str()), ("run.steps", steps)])
    };
    assert_near("streams", with("streams = { streams = 5, cap = \"10 MB/s\" }", "60"), 32e-3, 0.01);
    let requests = "requests = { rate = \"500 /s\", size = \"100 kB\" }";
    assert_near("requests", with(requests, "600"), 32e-3, 0.05);
    let greedy = with("streams = { streams = 4 }", "60");
    assert_near("greedy streams", greedy, 32e-3, 0.01);
    let operations = step(&[(SERVER, r#"{ bandwidth = "1 GB/s", operations = "1000 /s" }"#)]);
    let text = r#"[{ name = "b", storage = "s", requests = { rate = "500 /s", size = "1 B" } }]"#;
    let server = (SERVER, r#"{ bandwidth = "1 GB/s", operations = "1000 /s" }"#);
    let slower = step(&[server, ("background", text), ("run.steps", "600")]);
    assert_near("operations left", slower, 2.0 * operations, 0.05);
}

#[test]
fn throughput_of_a_loader_stage_depends_on_workers_but_not_on_buffer_size() {
    // System: a stage with 1 ms of core time per sample is the slowest. Expectation: 16 ms ÷ workers a step,
    // whatever the buffers; a stage of batches pays `per_item` once for each batch.
    let loader = |workers: u32, buffer: u32, unit: &str, work: &str| {
        format!(
            r#"{{ stages = [{{ name = "read", workers = 2, per_sample = ["read"], buffer = {buffer} }},
            {{ name = "work", workers = {workers}, unit = "{unit}", {work} = [{{ compute = "1 ms" }}],
            buffer = {buffer} }}] }}"#
        )
    };
    let with = |text: String| {
        step(&[MEMORY, ("job.loader", text.as_str()), ("job.model.step", "\"1 us\"")])
    };
    assert_near("1 worker", with(loader(1, 16, "sample", "per_item")), 16e-3, 0.001);
    assert_near("4 workers", with(loader(4, 16, "sample", "per_item")), 4e-3, 0.001);
    assert_near("a long buffer", with(loader(4, 160, "sample", "per_item")), 4e-3, 0.001);
    assert_near("once a batch", with(loader(1, 16, "batch", "per_item")), 1e-3, 0.002);
    assert_near("each of a batch", with(loader(1, 16, "batch", "per_sample")), 16e-3, 0.001);
}

#[test]
fn confidence_intervals_narrow_with_replications_and_results_vary_with_seed() {
    let tail =
        ("storage.s.file-server.latency", r#"{ lognormal = { median = "1 ms", p99 = "9 ms" } }"#);
    let scenario = changed(&[tail, ("run.warm_up", "10")]);
    let outcomes: Vec<Outcome> = (0..32).map(|r| run(&scenario, r, &Options::default())).collect();
    let width = |n: usize| {
        let report = summarise(&scenario, &outcomes[..n], 0.0);
        let figure = report.jobs[0].figures.step_time;
        let [low, high] = figure.ci95.expect("an interval");
        let mean = figure.mean.expect("steps");
        assert!(low < mean && mean < high);
        high - low
    };
    let (few, many) = (width(8), width(32));
    // Four times as many replications halve the interval; more, because Student's quantile shrinks too.
    assert!(many < 0.75 * few, "{few} with 8, {many} with 32");
    let report = summarise(&scenario, &outcomes, 0.0);
    assert_eq!(report.jobs[0].warm_up_steps, 10.0);
    // The measured steps end where buffers hold as much as at their start.
    let steps = report.jobs[0].figures.steps.mean.expect("steps");
    assert!((47.5..=50.0).contains(&steps), "{steps}");
    let other = changed(&[tail, ("run.warm_up", "10"), ("run.seed", "2")]);
    assert_ne!(run(&other, 0, &Options::default()), outcomes[0]);
}

#[test]
fn activations_between_stages_cross_the_link_between_gpus() {
    // System: two stages of 0.5 ms one after the other, 100 kB between them over 1 GB/s and 20 µs. Expectation:
    // a step of 1 ms + 20 µs + 100 µs, and the transfer counts as communication.
    let way = |bandwidth: &str, latency: &str| {
        let intra = format!("{{ bandwidth = \"{bandwidth}\", latency = \"{latency}\" }}");
        let split = "{ stages = 2, overlap = false, activations = \"100 kB\" }";
        let changes = [
            MEMORY,
            IDLE_DECODE,
            ("job.parallel.pipeline", split),
            ("cluster.node.intra", intra.as_str()),
        ];
        let outcome = outcome(&changes);
        let waits = outcome.jobs[0].stalls.iter();
        let ways = waits.filter(|stall| stall.cause.to_string() == "communication");
        let share = ways.map(|stall| stall.seconds).sum::<f64>() / outcome.makespan;
        (steady(&outcome, 20).step, share)
    };
    let (slow, share) = way("1 GB/s", "20 us");
    assert_near("step", slow, 1.12e-3, 1e-6);
    assert_near("communication of the second of two devices", share, 0.06 / 1.12, 1e-3);
    assert_near("half the bandwidth", way("500 MB/s", "20 us").0, 1.22e-3, 1e-6);
    assert_near("no latency", way("1 GB/s", "0 s").0, 1.1e-3, 1e-6);
}

#[test]
#[should_panic(expected = "no time has passed")]
fn overwriting_a_circular_queue_endlessly_in_zero_simulated_time_panics() {
    // No scenario file gives this: circular queues are refused where nothing slows their workers.
    let mut scenario = changed(&[MEMORY, ("job.queue", "\"circular\"")]);
    scenario.jobs[0].loader.stages[0].per_sample.truncate(1);
    run(&scenario, 0, &Options::default());
}
