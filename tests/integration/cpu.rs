//! Cores: the trainer's own work on cores, and what threads share beside it, compared with closed forms.

use forebay::report::{Cause, Outcome, StallCause, summarise};
use forebay::scenario::{Override, ScenarioFile};

use super::base::{base, changed, outcome};
use super::runs::{simulate, steady};
use super::support::Place;

fn assert_near(what: &str, value: f64, expected: f64, tolerance: f64) {
    let error = value / expected - 1.0;
    assert!(error.abs() <= tolerance, "{what}: {value} instead of {expected} ({error:+.4})");
}

/// Batches in memory, so that only the trainer's work matters.
const SYNTHETIC: (&str, &str) = ("job.loader", "{ in-memory = {} }");
const LAUNCH: &str = "job.model.launch";

/// Returns the mean step time after the first 20 steps [s].
fn step(changes: &[(&str, &str)]) -> f64 {
    steady(&outcome(changes), 20).step
}

/// Returns the mean time per step that devices wait for `cause` [s].
fn stall(outcome: &Outcome, cause: Cause) -> f64 {
    let job = &outcome.jobs[0];
    let of = job.stalls.iter().filter(|stall| stall.cause == StallCause::own(cause));
    of.map(|stall| stall.seconds).sum::<f64>() / job.steps.len() as f64
}

/// Returns the error message for the base scenario with some keys changed.
pub(crate) fn refusal(changes: &[(&str, &str)]) -> String {
    let file = ScenarioFile::parse("test.toml", base()).expect("TOML");
    let overrides: Vec<Override> = changes
        .iter()
        .map(|(key, value)| format!("{key}={value}").parse().expect("an override"))
        .collect();
    file.resolve(&overrides).expect_err("contradictory").to_string()
}

#[test]
fn step_time_is_the_longer_of_kernel_launches_and_computation() {
    // System: a device of 1 ms. Expectation: the step time is the longer of launches and device time; their sum
    // where the device begins only after the launches.
    for (launch, expected) in [
        ("\"600 us\"", 1e-3),
        ("\"1500 us\"", 1.5e-3),
        ("{ work = \"1500 us\", threads = 4 }", 1.5e-3),
        ("{ work = \"600 us\", overlap = false }", 1.6e-3),
        ("\"0 s\"", 1e-3),
    ] {
        assert_near(launch, step(&[SYNTHETIC, (LAUNCH, launch)]), expected, 1e-9);
    }
    // The mean of max(X, 1 ms) of an exponential X with mean m: 1 ms + m·exp(−1 ms ÷ m).
    let drawn = r#"{ exponential = { mean = "1 ms" } }"#;
    let steps = ("run.steps", "40000");
    let expected = 1e-3 * (1.0 + (-1.0_f64).exp());
    assert_near("drawn", step(&[SYNTHETIC, (LAUNCH, drawn), steps]), expected, 0.02);
}

#[test]
fn launch_bound_step_time_falls_with_cores_even_with_data_in_memory() {
    // System: 8 threads of a framework with 10 ms of core time each per step, on n cores. Expectation: 80 ms ÷
    // min(n, 8).
    for (cores, expected) in [("1", 80e-3), ("2", 40e-3), ("5", 16e-3), ("8", 10e-3), ("40", 10e-3)]
    {
        let launch = (LAUNCH, r#"{ work = "10 ms", threads = 8 }"#);
        let value = step(&[SYNTHETIC, launch, ("cluster.node.cores", cores)]);
        assert_near(cores, value, expected, 1e-9);
    }
}

#[test]
fn kernel_launches_share_the_cores_with_the_loader() {
    // System: a thread that decodes for 1 ms per batch, and launches of 1 ms. Expectation: in parallel on two
    // cores; on one core, the sum of both times.
    let loader = r#"{ threads = 1, capacity = "1 samples", decode = "1 ms" }"#;
    let changes = [
        ("storage.s", "{ memory = {} }"),
        ("job.loader.tf-queue", loader),
        ("job.batch", "1"),
        ("job.model.step", "\"1 us\""),
        (LAUNCH, "\"1 ms\""),
    ];
    let on = |cores| step(&[&changes[..], &[("cluster.node.cores", cores)]].concat());
    assert_near("two cores", on("2"), 1e-3, 1e-6);
    // No batch is decoded beside the last step.
    assert_near("one core", on("1"), 2e-3, 0.0126);
    // Two jobs' trainers on one node's core take twice as long each.
    let two = [SYNTHETIC, (LAUNCH, "\"2 ms\""), ("job.copies", "2")];
    let shared = [("cluster.share_nodes", "true"), ("cluster.node.cores", "1")];
    assert_near("two jobs", step(&[&two[..], &shared[..]].concat()), 4e-3, 1e-6);
    assert_near("nodes of their own", step(&two), 2e-3, 1e-6);
}

#[test]
fn launch_threads_queue_for_cores_that_serve_first_come_first() {
    // System: cores that run each task to its end. Expectation: n threads of 10 ms take turns on c cores, so a step takes
    // 10 ms × ⌈n ÷ c⌉; two trainers of 2 ms on one core take turns. A launch of 1 ms waits for the core until a batch
    // of 3 ms is decoded.
    let fifo = ("cluster.node.scheduling", "\"fifo\"");
    for (cores, turns) in [("1", 8.0), ("3", 3.0), ("5", 2.0), ("8", 1.0), ("40", 1.0)] {
        let launch = (LAUNCH, r#"{ work = "10 ms", threads = 8 }"#);
        let value = step(&[SYNTHETIC, launch, fifo, ("cluster.node.cores", cores)]);
        assert_near(cores, value, 10e-3 * turns, 1e-9);
    }
    let two = [SYNTHETIC, (LAUNCH, "\"2 ms\""), ("job.copies", "2"), fifo];
    let shared = [("cluster.share_nodes", "true"), ("cluster.node.cores", "1")];
    assert_near("two jobs", step(&[&two[..], &shared[..]].concat()), 4e-3, 1e-3);
    let changes = [
        fifo,
        ("storage.s", "{ memory = {} }"),
        ("job.loader.tf-queue", r#"{ threads = 1, capacity = "1 samples", decode = "3 ms" }"#),
        ("job.batch", "1"),
        ("job.model.step", "\"1 us\""),
        (LAUNCH, "\"1 ms\""),
        ("cluster.node.cores", "1"),
    ];
    assert_near("beside a loader", step(&changes), 4e-3, 0.02);
}

#[test]
fn device_stalls_separate_kernel_launches_from_waits_for_a_core() {
    // System: two threads of 3 ms on one core, a device of 1 ms. Expectation: 6 ms a step, of which the device
    // computes 1 ms; the 3 ms of waiting for a core come first, 2 of them after the device is done.
    let launch = (LAUNCH, r#"{ work = "3 ms", threads = 2 }"#);
    let outcome = outcome(&[SYNTHETIC, launch, ("cluster.node.cores", "1")]);
    assert_near("step", outcome.makespan / 60.0, 6e-3, 1e-9);
    assert_near("launch", stall(&outcome, Cause::Launch), 3e-3, 1e-9);
    assert_near("cpu-wait", stall(&outcome, Cause::CpuWait), 2e-3, 1e-9);
    let cores = outcome.resources.iter().find(|of| of.name == "node.cores").expect("there");
    assert_near("core-seconds", cores.served, 60.0 * 6e-3, 1e-9);
}

#[test]
fn contradictory_launch_settings_are_refused() {
    let launch = (LAUNCH, "\"2 ms\"");
    let cores = ("job.model.device", "{ cpu = { threads = 2 } }");
    assert!(
        refusal(&[launch, cores])
            .contains("a step on cores already includes the trainer's own work")
    );
    assert!(refusal(&[(LAUNCH, "{ threads = 2 }")]).contains("the key `work` is missing"));
    assert!(refusal(&[(LAUNCH, "{ work = 2 }")]).contains("has no unit"));
}

/// Batches of 8 samples in memory, decoded in 1 ms of core time each; the trainer takes no time.
const WORKERS: [(&str, &str); 6] = [
    ("storage.s", "{ memory = {} }"),
    ("dataset.d.samples", "1000000"),
    ("job.batch", "8"),
    ("job.model.step", "\"1 us\""),
    ("cluster.node.cores", "64"),
    ("run.steps", "1000"),
];

/// Returns the samples per second of these workers with more keys changed.
fn rate(changes: &[(&str, &str)]) -> f64 {
    8.0 / step(&[&WORKERS[..], changes].concat())
}

fn pytorch(keys: &str) -> f64 {
    let loader = format!("{{ pytorch = {{ decode = \"1 ms\", {keys} }} }}");
    rate(&[("job.loader", loader.as_str())])
}

#[test]
fn threads_share_the_gil_and_processes_do_not() {
    // System: n workers of 1 ms a sample, which hold the GIL for a share g of their time. Expectation for
    // threads: min(n, 1 ÷ g) samples per millisecond; n for processes, and for threads that do not hold the
    // GIL.
    for n in [1_u32, 2, 4, 16] {
        for g in [0.0, 0.2, 0.5, 1.0] {
            let keys = format!("workers = {n}, worker_kind = \"thread\", gil = {g:?}");
            let expected = 1e3 * f64::from(n).min(1.0 / g);
            assert_near(&keys, pytorch(&keys), expected, 0.03);
        }
        let keys = format!("workers = {n}, worker_kind = \"process\", gil = 1.0");
        assert_near(&keys, pytorch(&keys), 1e3 * f64::from(n), 0.03);
    }
    // Keras' workers are threads by default.
    let keras = |keys: &str| {
        let loader = format!("{{ keras = {{ workers = 8, decode = \"1 ms\", {keys} }} }}");
        rate(&[("job.loader", loader.as_str())])
    };
    assert_near("threads", keras("gil = 0.5"), 2e3, 0.03);
    assert_near("processes", keras("gil = 0.5, use_multiprocessing = true"), 8e3, 0.03);
}

#[test]
fn loader_threads_pinning_thread_and_trainer_share_one_gil() {
    // System: threads that hold the GIL for half of their time; the trainer's own work of 4 ms a step holds it
    // all the time. Expectation: 8 samples need the GIL for 4 ms, so that a step takes 8 ms; with processes the
    // launches have the GIL alone, and the workers keep up with them.
    let on = |kind: &str| {
        let loader = format!(
            "{{ pytorch = {{ workers = 8, decode = \"1 ms\", worker_kind = \"{kind}\", gil = 0.5 }} }}"
        );
        let launch = (LAUNCH, "{ work = \"4 ms\", gil = 1.0 }");
        8.0 / rate(&[("job.loader", loader.as_str()), launch])
    };
    assert_near("threads", on("thread"), 8e-3, 0.03);
    assert_near("processes", on("process"), 4e-3, 0.03);
    // The pinning thread holds the GIL for 3 of its 6 ms a batch, and processes do not compete for it: 4 + 3
    // ms.
    let pin = r#"{ pytorch = { workers = 8, decode = "1 ms",
        pin_memory = { work = "3 ms", gil = 1.0 } } }"#;
    let launch = (LAUNCH, "{ work = \"4 ms\", gil = 1.0 }");
    assert_near("pinning", 8.0 / rate(&[("job.loader", pin), launch]), 7e-3, 0.03);
}

#[test]
fn worker_processes_pay_ipc_time_for_each_byte() {
    // System: 8 samples of 1 MB decoded, handed over at 1 GB/s. Expectation: 8 ms more for a batch of 8 ms with
    // processes.
    let decoded = ("dataset.d.decoded_size", "\"1 MB\"");
    let with = |keys: &str| {
        let loader = format!("{{ pytorch = {{ workers = 4, decode = \"1 ms\", {keys} }} }}");
        rate(&[("job.loader", loader.as_str()), decoded])
    };
    assert_near("nothing", with("in_order = true"), 4e3, 0.03);
    assert_near("processes", with("ipc = \"1 GB/s\""), 2e3, 0.03);
    assert_near("threads", with("ipc = \"1 GB/s\", worker_kind = \"thread\""), 4e3, 0.03);
}

#[test]
fn one_thread_pins_all_batches_in_turn() {
    // System: batches of 8 MB, enough workers. Expectation: batches are pinned one after the other at the
    // pinning thread's rate, plus its fixed work for each batch.
    let decoded = ("dataset.d.decoded_size", "\"1 MB\"");
    let with = |pin: &str| {
        let loader =
            format!("{{ pytorch = {{ workers = 16, decode = \"1 ms\", pin_memory = {pin} }} }}");
        8.0 / rate(&[("job.loader", loader.as_str()), decoded])
    };
    assert_near("bytes", with("{ bandwidth = \"2 GB/s\" }"), 4e-3, 0.01);
    assert_near("time", with("\"3 ms\""), 3e-3, 0.01);
    assert_near("both", with("{ work = \"3 ms\", bandwidth = \"2 GB/s\" }"), 7e-3, 0.01);
}

#[test]
fn host_to_device_copies_overlap_steps_only_from_pinned_memory() {
    // System: batches of 8 MB over 1 GB/s to the device, which computes for 8 ms or 10 ms. Expectation: with
    // pinned memory the longer of copy and computation; without, their sum, and the whole copy is a stall.
    let with = |keys: &str, step_time: &'static str, copies: &'static str| {
        let loader = format!(
            "{{ pytorch = {{ workers = 16, decode = \"1 ms\", to_device = true {keys} }} }}"
        );
        let changes = [
            ("job.loader", loader.as_str()),
            ("dataset.d.decoded_size", "\"1 MB\""),
            ("cluster.node.pcie", "\"1 GB/s\""),
            ("job.parallel.data.copies_per_node", copies),
        ];
        outcome(&[&WORKERS[..], &changes[..], &[("job.model.step", step_time)]].concat())
    };
    let pinned = ", pin_memory = \"10 us\"";
    for copies in ["1", "2"] {
        for (keys, step_time, expected) in [
            ("", "\"8 ms\"", 16e-3),
            ("", "\"10 ms\"", 18e-3),
            (pinned, "\"4 ms\"", 8e-3),
            (pinned, "\"10 ms\"", 10e-3),
        ] {
            let outcome = with(keys, step_time, copies);
            let what = format!("{keys} {step_time}, {copies} devices");
            assert_near(&what, steady(&outcome, 20).step, expected, 0.01);
            if keys.is_empty() {
                assert_near(&what, stall(&outcome, Cause::Copy), 8e-3, 0.01);
            }
        }
    }
}

/// Returns the samples per second of `threads` threads that decode for 1 ms a sample on `cores` cores.
fn threads(threads: u32, cores: u32, more: &[(&str, &str)]) -> f64 {
    let loader = format!(
        "{{ tf-queue = {{ threads = {threads}, capacity = \"{} samples\", decode = \"1 ms\" }} }}",
        8 * threads.max(8)
    );
    let cores = cores.to_string();
    let own = [("job.loader", loader.as_str()), ("cluster.node.cores", cores.as_str())];
    rate(&[&own[..], more].concat())
}

#[test]
fn hardware_threads_add_less_throughput_than_cores() {
    // System: 4 cores of two hardware threads, which together are 1.3 times as fast as one. Expectation: n
    // samples per millisecond for n ≤ 4 threads, then 4 + 0.3·(n − 4), and 5.2 at most.
    let smt = [("cluster.node.smt", "{ yield = 1.3 }")];
    for (n, expected) in [(2, 2.0), (4, 4.0), (6, 4.6), (8, 5.2), (12, 5.2)] {
        assert_near(&format!("{n} threads"), threads(n, 4, &smt), expected * 1e3, 0.03);
    }
    let four = [("cluster.node.smt", "{ threads_per_core = 4, yield = 2 }")];
    assert_near("4 of a core", threads(16, 4, &four), 8e3, 0.03);
    // Core speed that falls with busy cores multiplies with the yield of hardware threads.
    let slowed = [smt[0], ("cluster.node.core_speed", "[1, 0.9, 0.9, 0.5]")];
    assert_near("slowed", threads(8, 4, &slowed), 2.6e3, 0.03);
    let fifo = ("cluster.node.scheduling", "\"fifo\"");
    assert!(refusal(&[smt[0], fifo]).contains("one task at a time"));
    let much = ("cluster.node.smt", "{ yield = 2.5 }");
    assert!(refusal(&[much]).contains("cannot get 2.5 times as much done"));
}

#[test]
fn a_cpu_quota_limits_only_its_job() {
    // System: 8 threads on 16 cores. Expectation: as many samples per millisecond as the quota has cores; two
    // jobs on the node have a quota each.
    let at_every_instant = ("job.cpu_period", "\"0 s\"");
    for (quota, expected) in [("3.5", 3.5), ("0.25", 0.25), ("8", 8.0), ("12", 8.0)] {
        let keys = [("job.cpu_quota", quota), at_every_instant];
        assert_near(quota, threads(8, 16, &keys), expected * 1e3, 0.03);
    }
    let two = [
        ("job.cpu_quota", "3.5"),
        at_every_instant,
        ("job.copies", "2"),
        ("cluster.share_nodes", "true"),
    ];
    assert_near("two jobs", threads(8, 16, &two), 3.5e3, 0.03);
    let tight = [&two[..], &[("job.cpu_quota", "12")]].concat();
    assert_near("two jobs on few cores", threads(8, 4, &tight), 2e3, 0.03);
    // The quota limits training on cores too.
    let train = [
        SYNTHETIC,
        ("job.model.device", "{ cpu = { threads = 4 } }"),
        ("job.cpu_quota", "2"),
        at_every_instant,
        ("job.model.step", "\"3 ms\""),
    ];
    assert_near("training", step(&train), 6e-3, 1e-6);
    let launches = (LAUNCH, "{ work = \"3 ms\", threads = 4 }");
    let launch = [SYNTHETIC, launches, ("job.cpu_quota", "2"), at_every_instant];
    assert_near("launches", step(&launch), 6e-3, 1e-6);
    assert!(refusal(&[("job.cpu_quota", "0.001")]).contains("less than the smallest quota"));
}

#[test]
fn threads_within_a_worker_speed_up_decoding_and_compete_for_cores() {
    // System: n workers whose samples are decoded by 4 threads of efficiency e. Expectation: 4·e times as fast
    // while there are cores enough; then e samples per millisecond and core, less than without inner threads.
    for (e, text) in [(1.0, "1.0"), (0.8, "0.8")] {
        let inner = format!("{{ threads = 4, efficiency = {text} }}");
        let inner = [("job.inner_threads", inner.as_str())];
        assert_near("one worker", threads(1, 16, &inner), 4e3 * e, 0.03);
        assert_near("four workers", threads(4, 16, &inner), 16e3 * e, 0.03);
        assert_near("more than cores", threads(16, 8, &inner), 8e3 * e, 0.03);
    }
    let useless = ("job.inner_threads", "{ threads = 4, efficiency = 0 }");
    assert!(refusal(&[useless]).contains("get nothing done"));
}

#[test]
fn throughput_per_core_falls_when_memory_bandwidth_is_saturated() {
    // System: Plumber's ResNet pipeline on 16 cores (MLSys 2022): 1.8 minibatches a second per core, 1.4 with
    // all cores. Here 1 ms a sample, 1 GB/s of memory traffic per core, and a memory bandwidth of 16 · 1.4 ÷
    // 1.8 cores. Expectation: 1 sample per millisecond and core up to 12 cores, 1.4 ÷ 1.8 at 16.
    let memory = 16.0 * 1.4 / 1.8;
    let bandwidth = format!("\"{memory} GB/s\"");
    let node = [
        ("cluster.node.memory_bandwidth", bandwidth.as_str()),
        ("job.memory_traffic", "\"1 GB/s\""),
    ];
    for n in [1_u32, 4, 12, 14, 16] {
        let each = threads(n, 16, &node) / f64::from(n) / 1e3;
        assert_near(&format!("{n} cores"), each, 1.0_f64.min(memory / f64::from(n)), 0.03);
    }
    assert_near("at 16 cores", threads(16, 16, &node) / 16e3 * 1.8, 1.4, 0.03);
    // Copies to devices use memory bandwidth as well: 1 MB a sample over 2 GB/s of memory beside 10 GB/s of
    // PCIe.
    let loader = r#"{ pytorch = { workers = 16, to_device = true, pin_memory = "1 us" } }"#;
    let copies = [
        ("job.loader", loader),
        ("dataset.d.decoded_size", "\"1 MB\""),
        ("cluster.node.pcie", "\"10 GB/s\""),
        ("cluster.node.memory_bandwidth", "\"2 GB/s\""),
    ];
    assert_near("copies", rate(&copies), 2e3, 0.03);
}

#[test]
fn a_live_run_refuses_settings_that_it_does_not_emulate() {
    let place = Place::new();
    for (key, value, said) in [
        ("cluster.node.smt", "{ yield = 1.3 }", "hardware threads"),
        ("cluster.node.memory_bandwidth", "\"20 GB/s\"", "bandwidth of memory"),
        ("job.cpu_quota", "2", "quota"),
        ("job.inner_threads", "{ threads = 2 }", "inner threads"),
        (LAUNCH, "{ work = \"1 ms\", gil = 0.5 }", "interpreter's lock"),
        ("job.loader", "{ pytorch = { workers = 1, to_device = true } }", "by the trainer"),
    ] {
        let change = format!("{key}={value}");
        let fits = ["--set", "job.copies=1", "--set", "cluster.node.cores=1"];
        let mut live = place.forebay(&[&["live", "s.toml", "--set", &change][..], &fits].concat());
        let done = live.assert().code(3);
        let output = done.get_output();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(said), "{key}: {error}");
    }
}

#[test]
fn cpu_bottleneck_reports_distinguish_gil_quota_memory_and_cores() {
    // System: eight threads and cores enough, limited by the GIL, by a quota or by memory bandwidth; then too
    // few cores. Expectation: the cause is `cpu-wait`, and the advice names the limit.
    let loader = |keys: &str| {
        format!(
            "{{ pytorch = {{ workers = 8, decode = \"1 ms\", worker_kind = \"thread\", {keys} }} }}"
        )
    };
    let (locked, free) = (loader("gil = 0.8"), loader("gil = 0"));
    let memory =
        [("cluster.node.memory_bandwidth", "\"2 GB/s\""), ("job.memory_traffic", "\"1 GB/s\"")];
    let quota = [("job.cpu_quota", "2"), ("job.cpu_period", "\"0 s\"")];
    type Changes<'c> = &'c [(&'c str, &'c str)];
    let cases: [(&str, Changes, &str, &str); 4] = [
        (&locked, &[], "j.gil", "interpreter's lock"),
        (&free, &quota, "j.cpu-quota", "a larger quota"),
        (&free, &memory, "node.memory-bandwidth", "faster memory"),
        (&free, &[("cluster.node.cores", "2")], "node.cores", "more cores"),
    ];
    for (loader, more, resource, advice) in cases {
        let scenario = changed(&[&WORKERS[..], &[("job.loader", loader)], more].concat());
        let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
        let found = report.bottleneck.expect("a bottleneck");
        assert_eq!((found.cause.as_str(), found.resource.as_str()), ("cpu-wait", resource));
        assert!(found.text.contains(advice), "{}", found.text);
    }
}
