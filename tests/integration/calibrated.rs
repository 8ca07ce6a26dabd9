//! Scenarios with the costs of a calibration profile: cores that train, read and decode, compared with closed
//! forms.

use forebay::profile::{Fit, Parameter, Profile};
use forebay::report::{Cause, Outcome, StallCause, json, summarise};
use forebay::scenario::{Override, ScenarioFile};
use forebay::validate::{figures, resolve};

use super::base::one_job;
use super::runs::{repository, simulate, steady, written};

/// A machine with two cores.
const CORES: &str = r#"# How does training share cores with its loader?
name = "cores"
[run]
steps = 200
warm_up = "off"
replications = 1
seed = 1
[cluster]
nodes = 1
[cluster.node]
cores = 2
[storage.s.memory]
"#;

/// Two threads that decode samples from memory for 1 ms each, and steps of 4 ms on a core.
const WORK: &str = r#"decode = "1 ms"
[job.model]
step = "4 ms"
device.cpu = { threads = 1 }
"#;

type Changes<'a> = [(&'a str, &'a str)];

fn outcome(changes: &Changes) -> Outcome {
    simulate(&written(&one_job(CORES, 100_000, 2, WORK), changes))
}

/// Returns the mean step time [s] after the first 50 steps, and the share of it that is computation.
fn step(changes: &Changes) -> (f64, f64) {
    let steady = steady(&outcome(changes), 50);
    (steady.step, 1.0 - steady.stall)
}

#[track_caller]
fn assert_near(value: f64, expected: f64, tolerance: f64) {
    let error = value / expected - 1.0;
    assert!(error.abs() <= tolerance, "{value} instead of {expected} ({error:+.5})");
}

const IDLE: (&str, &str) = ("job.loader.tf-queue.decode", "\"0 s\"");

#[test]
fn a_cpu_training_step_without_competing_load_takes_its_calibrated_time() {
    // System: a loader that takes no time, training threads on two cores, also more threads than cores and
    // cores that slow each other. Expectation: the law `fixed + per_sample · batch`, which was measured under
    // these conditions, or the floor if the law is below it.
    let law = "{ fixed = \"1 ms\", per_sample = \"0.1 ms\", floor = \"1.5 ms\" }";
    for threads in ["1", "2", "4"] {
        for speed in ["[1.0]", "[1.0, 0.8]", "[0.9, 0.7]"] {
            for (batch, expected) in [("16", 2.6e-3), ("4", 1.5e-3)] {
                let changes = [
                    IDLE,
                    ("job.model.device.cpu.threads", threads),
                    ("cluster.node.core_speed", speed),
                    ("job.model.step", law),
                    ("job.batch", batch),
                ];
                let (time, busy) = step(&changes);
                assert_near(time, expected, 1e-8);
                assert_near(busy, 1.0, 1e-8);
            }
        }
    }
    // Of two cores at 95 %, one thread uses a little more than half.
    let outcome = outcome(&[IDLE]);
    assert_near(outcome.resources[0].utilisation, 0.5, 0.01);
}

#[test]
fn a_step_competes_with_the_loader_for_cores() {
    // System: 16 samples of 1 ms and a step of 4 ms on two cores. Expectation from processor sharing: one
    // thread decodes beside the step without sharing a core, 16 ms; two threads keep both cores busy, (16 + 4)
    // ÷ 2 ms, of which the step takes 4 · 3/2 ms; four threads also take 10 ms, and since 5 threads share two
    // cores, the step takes all of it.
    let cases = [("1", 16e-3, 4.0 / 16.0), ("2", 10e-3, 0.6), ("4", 10e-3, 1.0)];
    for (threads, time, busy) in cases {
        let (found, computed) = step(&[("job.loader.tf-queue.threads", threads)]);
        assert_near(found, time, 0.005);
        assert_near(computed, busy, 0.01);
    }
    // A step on an accelerator does not use the cores, as if every thread had a core of its own.
    let (time, busy) = step(&[("job.model.device", "\"accelerator\"")]);
    assert_near(time, 8e-3, 0.005);
    assert_near(busy, 0.5, 0.005);
    // Two threads in a step: 4 threads on two cores, so that a step of 4 ms takes 8 ms; (16 + 8) ÷ 2 ms in
    // total.
    let (time, busy) = step(&[("job.model.device.cpu.threads", "2")]);
    assert_near(time, 12e-3, 0.005);
    assert_near(busy, 8.0 / 12.0, 0.01);
}

#[test]
fn a_core_slowdown_at_four_threads_does_not_slow_steps_with_three_threads() {
    // System: three threads in total. Expectation: 3 cores in slots give the same steps as 4 shared cores,
    // whose core speed falls only with a fourth thread, which does not exist; core utilisation adds up.
    let slots = outcome(&[("cluster.node.cores", "3")]);
    let changes = [("cluster.node.cores", "4"), ("cluster.node.core_speed", "[1, 1, 1, 0.5]")];
    let shared = outcome(&changes);
    assert_eq!(slots.jobs[0].steps.len(), shared.jobs[0].steps.len());
    for (a, b) in slots.jobs[0].steps.iter().zip(&shared.jobs[0].steps) {
        assert!((a.end - b.end).abs() < 1e-9, "{} {}", a.end, b.end);
        assert!((a.compute - b.compute).abs() < 1e-9);
    }
    assert!(shared.flows > 0 && slots.flows == 0, "one with flows, one without");
    // Loaders use 16 core-ms and the step 4 core-ms of each 8 ms.
    assert_near(slots.resources[0].served / slots.makespan, 20.0 / 8.0, 0.01);
    assert_near(shared.resources[0].served, slots.resources[0].served, 1e-3);
}

#[test]
fn core_speed_falls_with_the_number_of_busy_cores() {
    // System: decoding only, as many threads as cores, each core at 80 % while both are busy. Expectation: 10
    // ms a step with both cores, 16 ms with one.
    let accelerator = ("job.model.device", "\"accelerator\"");
    let speed = ("cluster.node.core_speed", "[1.0, 0.8]");
    assert_near(step(&[accelerator, speed]).0, 10e-3, 0.005);
    let one = ("job.loader.tf-queue.threads", "1");
    assert_near(step(&[accelerator, speed, one]).0, 16e-3, 1e-6);
}

#[test]
fn core_speed_falls_with_the_number_of_threads_that_wait_for_cores() {
    // System: decoding only, four threads on two cores, each core at half speed while four threads want it. Expectation: twice the
    // time of a step with two threads.
    let accelerator = ("job.model.device", "\"accelerator\"");
    let speed = ("cluster.node.core_speed", "[1.0, 1.0, 1.0, 0.5]");
    let threads = |number| ("job.loader.tf-queue.threads", number);
    let two = step(&[accelerator, speed, threads("2")]).0;
    assert_near(step(&[accelerator, speed, threads("4")]).0 / two, 2.0, 0.01);
}

#[test]
fn handing_a_sample_to_the_queue_costs_core_seconds() {
    // System: 0.25 ms to hand on a sample that took 1 ms to decode; steps on an accelerator. Expectation: 10 ms
    // a step.
    let accelerator = ("job.model.device", "\"accelerator\"");
    let hand_off = ("job.hand_off", "\"250 us\"");
    assert_near(step(&[accelerator, hand_off]).0, 10e-3, 0.005);
}

/// Returns the time per sample of 1 MB [s] from a disk with these keys, read by `threads` threads and not
/// decoded, and the outcome.
fn reads(disk: &str, threads: &str) -> (f64, Outcome) {
    reads_of("\"1 MB\"", disk, threads)
}

fn reads_of(size: &str, disk: &str, threads: &str) -> (f64, Outcome) {
    let storage = format!("{{ local-disk = {{ {disk} }} }}");
    let changes = [
        IDLE,
        ("storage.s", storage.as_str()),
        ("dataset.d.sample_size", size),
        ("job.loader.tf-queue.threads", threads),
        ("job.model", "{ step = \"1 us\" }"),
    ];
    let outcome = outcome(&changes);
    (steady(&outcome, 50).step / 16.0, outcome)
}

#[test]
fn cpu_time_of_a_read_overlaps_its_storage_time() {
    // System: 1 MB after 50 µs at 4 GB/s: 300 µs, during a part of which a core is busy. Expectation: one
    // thread takes 300 µs, or the core-seconds if they are more.
    let disk = "bandwidth = \"8 GB/s\", per_stream = \"4 GB/s\", latency = \"50 us\"";
    let costs = [
        ("0 s", "0 s", 300e-6),
        ("20 us", "0.1 ns", 300e-6),
        ("50 us", "0.2 ns", 300e-6),
        ("50 us", "0.25 ns", 300e-6),
        ("80 us", "0.1 ns", 300e-6),
        ("0 s", "0.3 ns", 350e-6),
        ("80 us", "0.5 ns", 580e-6),
    ];
    for (fixed, per_byte, expected) in costs {
        let cpu = format!("{disk}, cpu = {{ fixed = \"{fixed}\", per_byte = \"{per_byte}\" }}");
        assert_near(reads(&cpu, "1").0, expected, 1e-6);
    }
}

#[test]
fn throughput_of_warm_reads_is_limited_by_cores_or_storage_bandwidth() {
    // System: 5 µs and 0.25 ns for each byte on a core for 1 MB, which is the whole time of a read; two cores.
    // Expectation: with 8 threads, 2 reads in 255 µs; with fewer core-seconds for each byte on a slower disk,
    // the rate of the disk.
    let warm = "access = \"emulated\", per_stream = \"4 GB/s\", latency = \"5 us\", bandwidth";
    let cpu = "cpu = { fixed = \"5 us\", per_byte = \"0.25 ns\" }";
    for bandwidth in ["8.5 GB/s", "100 GB/s"] {
        let (each, outcome) = reads(&format!("{warm} = \"{bandwidth}\", {cpu}"), "8");
        assert_near(each, 255e-6 / 2.0, 0.005);
        let cores = outcome.resources.iter().find(|r| r.name == "node.cores").expect("cores");
        assert_near(cores.utilisation, 1.0, 0.01);
    }
    // With constant sizes, all threads would leave the disk idle at the same time.
    let vary = "{ gamma = { mean = \"1 MB\", cv = 0.5 } }";
    let half = "cpu = { fixed = \"5 us\", per_byte = \"0.1 ns\" }";
    assert_near(reads_of(vary, &format!("{warm} = \"5 GB/s\", {cpu}"), "8").0, 200e-6, 0.03);
    assert_near(reads_of(vary, &format!("{warm} = \"8 GB/s\", {half}"), "8").0, 125e-6, 0.03);
}

/// Reads of 100 kB that are neither decoded nor trained on.
const ONLY_READS: &str = r#"
name = "reads"
run = { steps = 400, warm_up = 50, replications = 1 }
cluster = { nodes = 1, node = { cores = 16, page_cache = "none" } }
storage.s.local-disk = { access = "direct" }
dataset.d = { samples = 100000, sample_size = "100 kB" }
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 8
loader.tf-queue = { threads = 1, capacity = "64 samples" }
model.step = "1 us"
"#;

#[test]
fn a_disk_with_an_overhead_serves_one_request_after_the_other() {
    // System: a profile with a latency of 200 us, an overhead of 80 us and 1 GB/s: a request of 100 kB occupies the disk for 180 us.
    // Expectation: one thread reads one in 300 us, eight one in 180 us. Two at once each occupy it for twice as
    // long: the same. Where requests have no turns, or the scenario writes `operations`, the limits are apart: 100 us.
    let parameter =
        |value: f64, unit: &str| Parameter { value, unit: unit.to_owned(), ..Parameter::default() };
    let fit = |latency: f64| Fit {
        parameters: [
            ("latency".to_owned(), parameter(latency, "s")),
            ("bandwidth".to_owned(), parameter(1e9, "B/s")),
            ("overhead".to_owned(), parameter(80e-6, "s")),
        ]
        .into(),
        samples: 9,
        ..Fit::default()
    };
    let profile =
        Profile { read: [("direct".to_owned(), fit(200e-6))].into(), ..Profile::default() };
    let file = ScenarioFile::parse("reads.toml", ONLY_READS.to_owned()).expect("TOML");
    let each = |set: &[&str]| {
        let set: Vec<Override> = set.iter().map(|text| text.parse().expect("a key")).collect();
        let scenario = resolve(&file, &set, &profile).expect("a scenario");
        1.0 / figures(&scenario).expect("a short run").expect("steps").samples_per_second
    };
    let threads = "job.loader.tf-queue.threads=8";
    assert_near(each(&[]), 300e-6, 0.01);
    assert_near(each(&[threads]), 180e-6, 0.01);
    assert_near(each(&[threads, "storage.s.local-disk.in_flight=2"]), 180e-6, 0.01);
    assert_near(each(&[threads, "storage.s.local-disk.service=fair"]), 100e-6, 0.01);
    assert_near(each(&[threads, "storage.s.local-disk.operations=1000000 /s"]), 100e-6, 0.01);
}

#[test]
fn reads_by_one_thread_take_the_time_given_by_the_profile() {
    // System: direct reads of 100 kB with the example profile: 100 µs and 400 MB/s, of which 15 µs on a core
    // and 50 µs of the limit of 20000 operations a second. Expectation: 350 µs.
    let profile =
        format!("{:?}", repository("calibrate/profiles/example.toml").display().to_string());
    let changes = [
        IDLE,
        ("profile", profile.as_str()),
        ("storage.s", "{ local-disk = { access = \"direct\" } }"),
        ("job.loader.tf-queue.threads", "1"),
        ("job.hand_off", "\"0 s\""),
        ("job.model", "{ step = \"1 us\" }"),
    ];
    assert_near(step(&changes).0, 16.0 * 350e-6, 1e-6);
}

fn by_cause(outcome: &Outcome) -> Vec<(Cause, f64)> {
    let job = &outcome.jobs[0];
    let steps = (job.steps.len() - 1) as f64;
    let share = |cause: Cause| {
        let of = job.stalls.iter().filter(|s| s.step > 0 && s.cause == StallCause::own(cause));
        (cause, of.map(|s| s.seconds).sum::<f64>() / steps * 1e3)
    };
    Cause::ALL.map(share).into_iter().filter(|(_, ms)| *ms > 1e-6).collect()
}

#[test]
fn stalls_on_reads_are_split_into_transfer_and_waits_for_a_core() {
    // System: two threads whose reads take 1 ms of one core and nothing else; a batch of 2 every 2 ms, of which
    // 0.5 ms are computed. Expectation, as with decoding: first 1 ms of waiting for the core, of which 0.5 ms
    // are hidden by computation, then 1 ms on the core. Costs per byte give the same result as fixed costs.
    for cpu in ["fixed = \"1 ms\"", "per_byte = \"1 ns\""] {
        let disk = format!("{{ local-disk = {{ bandwidth = \"1e12 B/s\", cpu = {{ {cpu} }} }} }}");
        let changes = [
            IDLE,
            ("storage.s", disk.as_str()),
            ("dataset.d.sample_size", "\"1 MB\""),
            ("cluster.node.cores", "1"),
            ("job.batch", "2"),
            ("job.model", "{ step = \"500 us\" }"),
        ];
        let mut found = by_cause(&outcome(&changes));
        // The transfer itself, at 1 TB/s, adds a little.
        found.retain(|(_, ms)| *ms > 2e-3);
        let [(Cause::Transfer, transfer), (Cause::CpuWait, wait)] = found[..] else {
            panic!("{found:?}");
        };
        assert!((transfer - 1.0).abs() < 3e-3 && (wait - 0.5).abs() < 3e-3, "{found:?}");
    }
}

#[test]
fn compute_and_stalls_add_up_to_the_duration_of_every_step() {
    // System: all features at once, with sizes that vary. Expectation: each step's compute and stalls add up to
    // its duration.
    let changes = [
        ("cluster.node.core_speed", "[1.0, 0.9]"),
        (
            "storage.s",
            "{ local-disk = { bandwidth = \"500 MB/s\", per_stream = \"300 MB/s\", latency = { lognormal = { median = \"200 us\", p99 = \"1 ms\" } }, cpu = { fixed = \"50 us\", per_byte = \"2 ns\" } } }",
        ),
        ("dataset.d.sample_size", "{ lognormal = { mean = \"100 kB\", cv = 0.5 } }"),
        ("dataset.d.image", "{ width = 500, height = 375 }"),
        (
            "job.loader.tf-queue",
            "{ threads = 3, capacity = \"32 samples\", decode = { fixed = \"20 us\", per_byte = \"1 ns\", per_pixel = \"1 ns\" } }",
        ),
        ("job.model.jitter", "{ gamma = { cv = 0.1 } }"),
        ("job.hand_off", "\"5 us\""),
        ("job.parallel.data.copies_per_node", "2"),
    ];
    let job = outcome(&changes).jobs.remove(0);
    let mut before = 0.0;
    for (index, step) in job.steps.iter().enumerate() {
        let stalls = job.stalls.iter().filter(|stall| stall.step as usize == index);
        let sum = step.compute + stalls.map(|stall| stall.seconds).sum::<f64>();
        assert!((sum - (step.end - before)).abs() < 1e-9, "step {index}");
        before = step.end;
    }
}

#[test]
fn decode_time_depends_on_the_bytes_and_pixels_of_a_sample() {
    // System: 0.1 ms, 1 ns for each of 100 kB and 2 ns for each pixel of 500 × 400: 0.6 ms a sample; one
    // thread, steps on an accelerator. Expectation: a batch takes 16 of these, also after a stage that gathers
    // batches; samples that are no images cost nothing for pixels.
    let law = "decode = { fixed = \"100 us\", per_byte = \"1 ns\", per_pixel = \"2 ns\" }";
    let queue = format!("{{ tf-queue = {{ threads = 1, capacity = \"64 samples\", {law} }} }}");
    let stages = format!(
        "{{ stages = [{{ name = \"read\", workers = 1, per_sample = [\"read\"], buffer = 64 }}, \
         {{ name = \"decode\", workers = 1, unit = \"batch\", per_sample = [{{ {law} }}], buffer = 1 }}] }}"
    );
    let image = ("dataset.d.image", "{ width = 500, height = 400 }");
    let model = ("job.model", "{ step = \"1 us\" }");
    for loader in [&queue, &stages] {
        assert_near(step(&[image, model, ("job.loader", loader)]).0, 16.0 * 0.6e-3, 1e-3);
        assert_near(step(&[model, ("job.loader", loader)]).0, 16.0 * 0.2e-3, 1e-3);
    }
    // Samples of varying sizes cost their own bytes: on average those of the mean size.
    let sizes = ("dataset.d.sample_size", "{ gamma = { mean = \"100 kB\", cv = 0.5 } }");
    assert_near(step(&[image, model, sizes, ("job.loader", &queue)]).0, 16.0 * 0.6e-3, 0.01);
}

/// The example profile's scenario, written out by hand.
const BY_HAND: &[(&str, &str)] = &[
    ("cluster.node.cores", "2"),
    ("cluster.node.core_speed", "[1.0, 0.95]"),
    (
        "storage.disk",
        "{ local-disk = { access = \"direct\", bandwidth = \"500 MB/s\", per_stream = \"400 MB/s\", latency = \"50 us\", operations = \"20000 /s\", cpu = { fixed = \"15 us\" } } }",
    ),
    (
        "job.loader.tf-queue.decode",
        "{ fixed = \"100 us\", per_byte = \"10 ns\", per_pixel = \"5 ns\" }",
    ),
    ("job.model.step", "{ fixed = \"100 us\", per_sample = \"100 us\" }"),
    ("job.model.jitter", "{ lognormal = { cv = 0.02 } }"),
    ("job.hand_off", "\"1 us\""),
];

#[test]
fn settings_from_a_profile_equal_the_same_settings_written_by_hand() {
    let text = std::fs::read_to_string(repository("scenarios/calibrated-loader.toml"));
    let text = text.expect("a shipped scenario").replace("steps = 300", "steps = 80");
    let path = repository("scenarios/by-hand.toml").display().to_string();
    let file = ScenarioFile::parse(&path, text.clone()).expect("TOML");
    let by_profile = file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}"));
    let without: String = text
        .lines()
        .filter(|line| !line.starts_with("profile"))
        .fold(String::new(), |text, line| text + line + "\n");
    let mut by_hand = written(&without, BY_HAND);
    by_hand.remarks.clone_from(&by_profile.remarks);
    by_hand.origins.clone_from(&by_profile.origins);
    // Whether storage settings were written or come from the profile matters only in live runs.
    by_hand.storage[0].written = by_profile.storage[0].written;
    assert_eq!(by_profile, by_hand);
    let report = |scenario| json::render(&summarise(scenario, &[simulate(scenario)], 0.0));
    assert_eq!(report(&by_profile), report(&by_hand));
}
