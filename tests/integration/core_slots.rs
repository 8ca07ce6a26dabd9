//! Cores with "fifo" scheduling beside settings that slow threads which have a core, compared with closed forms.

use forebay::report::{Cause, Outcome, StallCause};

use super::base::{base, changed, outcome};
use super::runs::{simulate, steady, written};

fn assert_near(what: &str, value: f64, expected: f64, tolerance: f64) {
    let error = value / expected - 1.0;
    assert!(error.abs() <= tolerance, "{what}: {value} instead of {expected} ({error:+.4})");
}

/// A quota that holds at every instant.
const FLUID: (&str, &str) = ("job.cpu_period", "\"0 s\"");
const FIFO: (&str, &str) = ("cluster.node.scheduling", "\"fifo\"");

/// Batches of 8 samples in memory, decoded in 1 ms of core time each; the trainer takes no time.
const WORKERS: [(&str, &str); 6] = [
    FIFO,
    ("storage.s", "{ memory = {} }"),
    ("dataset.d.samples", "1000000"),
    ("job.batch", "8"),
    ("job.model.step", "\"1 us\""),
    ("run.steps", "1000"),
];

/// Returns the samples per millisecond of `workers` threads on `cores` cores, with more keys changed.
fn rate(workers: u32, cores: u32, changes: &[(&str, &str)]) -> f64 {
    let loader = format!(
        "{{ tf-queue = {{ threads = {workers}, capacity = \"64 samples\", decode = \"1 ms\" }} }}"
    );
    let cores = cores.to_string();
    let machine = [("job.loader", loader.as_str()), ("cluster.node.cores", cores.as_str())];
    let found = outcome(&[&WORKERS[..], &machine, changes].concat());
    8.0 / steady(&found, 20).step / 1e3
}

/// Returns the share of all time for which devices wait for `cause`.
fn share(outcome: &Outcome, cause: Cause) -> f64 {
    let of = outcome.jobs[0].stalls.iter().filter(|of| of.cause == StallCause::own(cause));
    of.map(|stall| stall.seconds).sum::<f64>() / outcome.makespan
}

#[test]
fn threads_keep_their_cores_while_they_wait_for_memory_quota_or_lock() {
    // System: n threads on c cores that serve one after the other, with memory bandwidth or a quota for m cores,
    // or a lock that a thread needs for a share 1 ÷ m of its time. Expectation: min(n, c, m) samples in a
    // millisecond.
    let memory = |m: f64| format!("\"{m} GB/s\"");
    for (n, c, m) in [(8, 3, 2.0), (8, 3, 16.0), (2, 8, 16.0), (8, 4, 2.5), (6, 6, 1.5)] {
        let expected = f64::from(n.min(c)).min(m);
        let what = format!("{n} threads, {c} cores, {m}");
        let (bandwidth, quota) = (memory(m), m.to_string());
        let traffic = [
            ("cluster.node.memory_bandwidth", bandwidth.as_str()),
            ("job.memory_traffic", "\"1 GB/s\""),
        ];
        assert_near(&what, rate(n, c, &traffic), expected, 0.03);
        assert_near(&what, rate(n, c, &[("job.cpu_quota", quota.as_str()), FLUID]), expected, 0.03);
        let locked = format!(
            "{{ pytorch = {{ workers = {n}, worker_kind = \"thread\", gil = {:?}, decode = \"1 ms\" }} }}",
            1.0 / m
        );
        assert_near(&what, rate(n, c, &[("job.loader", locked.as_str())]), expected, 0.03);
    }
    // Two jobs on one core, of which the first may use half a core: its samples keep the core for 2 ms each,
    // those of the other job for 1 ms, in turns.
    let other = "[[job]]\nname = \"k\"\ndataset = \"d\"\nstorage = \"s\"\nbatch = 8\nsteps = 1000\n\
                 loader.tf-queue = { threads = 1, capacity = \"64 samples\", decode = \"1 ms\" }\n\
                 model.step = \"1 us\"\n";
    let loader = r#"{ tf-queue = { threads = 1, capacity = "64 samples", decode = "1 ms" } }"#;
    let more = [
        ("job.j.loader", loader),
        ("cluster.node.cores", "1"),
        ("cluster.share_nodes", "true"),
        ("job.j.cpu_quota", "0.5"),
        ("job.j.cpu_period", "\"0 s\""),
    ];
    let plain = WORKERS.map(|(key, value)| match key.strip_prefix("job.") {
        Some(of) => (format!("job.j.{of}"), value),
        None => (key.to_owned(), value),
    });
    let plain: Vec<_> = plain.iter().map(|(key, value)| (key.as_str(), *value)).collect();
    let found = simulate(&written(&format!("{}{other}", base()), &[&plain[..], &more].concat()));
    for job in &found.jobs {
        assert_near("in turns", job.steps.last().expect("steps").end, 1000.0 * 8.0 * 3e-3, 0.02);
    }
}

#[test]
fn inner_threads_queue_for_cores_one_by_one() {
    // System: a worker whose samples four threads of efficiency e decode, 0.25 ms ÷ e each, on c cores.
    // Expectation: the threads take turns, ⌈4 ÷ c⌉ of them for a sample; the wait for a core is all but the
    // last turn. Two workers' threads take turns too, as much as there are cores.
    for (e, text) in [(1.0, "1.0"), (0.8, "0.8")] {
        let inner = format!("{{ threads = 4, efficiency = {text} }}");
        let inner = [("job.inner_threads", inner.as_str())];
        for (cores, turns) in [(1, 4.0), (2, 2.0), (3, 2.0), (4, 1.0), (9, 1.0)] {
            assert_near(&format!("{cores} cores"), rate(1, cores, &inner), 4.0 * e / turns, 0.03);
        }
        assert_near("two workers", rate(2, 4, &inner), 4.0 * e, 0.03);
        assert_near("two workers, 8 cores", rate(2, 8, &inner), 8.0 * e, 0.03);
        // With memory for one of two cores, each turn takes twice as long.
        let memory = [
            inner[0],
            ("cluster.node.memory_bandwidth", "\"1 GB/s\""),
            ("job.memory_traffic", "\"1 GB/s\""),
        ];
        assert_near("slow memory", rate(1, 2, &memory), e, 0.03);
    }
    let loader = r#"{ tf-queue = { threads = 1, capacity = "8 samples", decode = "1 ms" } }"#;
    let more = [
        ("job.loader", loader),
        ("cluster.node.cores", "2"),
        ("job.inner_threads", "{ threads = 4 }"),
    ];
    let found = outcome(&[&WORKERS[..], &more].concat());
    assert_near("cpu-wait", share(&found, Cause::CpuWait), 0.5, 0.01);
    assert_near("decode", share(&found, Cause::Decode), 0.5, 0.01);
}

#[test]
fn training_threads_queue_for_cores_with_each_other_and_with_the_loader() {
    // System: steps of 3 ms, measured with n threads that have the node's c cores to themselves. Expectation:
    // 3 ms where the threads fill all turns; 3 threads on 2 cores take 2 ms each, in two turns.
    let synthetic = ("job.loader", "{ in-memory = {} }");
    let trained = |threads: u32, cores: &str, more: &[(&str, &str)]| {
        let device = format!("{{ cpu = {{ threads = {threads} }} }}");
        let job = [
            FIFO,
            ("job.model.device", device.as_str()),
            ("job.model.step", "\"3 ms\""),
            ("cluster.node.cores", cores),
        ];
        steady(&outcome(&[&[synthetic][..], &job, more].concat()), 20).step
    };
    for (threads, cores, expected) in
        [(1, "1", 3e-3), (4, "8", 3e-3), (4, "2", 3e-3), (3, "2", 4e-3), (5, "2", 3.6e-3)]
    {
        let what = format!("{threads} threads, {cores} cores");
        assert_near(&what, trained(threads, cores, &[]), expected, 1e-9);
    }
    // A quota of half of the cores in use doubles the step; the work of one thread stays the time of a step.
    assert_near("quota", trained(4, "8", &[("job.cpu_quota", "2"), FLUID]), 6e-3, 1e-6);
    // Two jobs that train with two threads each on two cores take turns.
    let shared = [("job.copies", "2"), ("cluster.share_nodes", "true")];
    assert_near("two jobs", trained(2, "2", &shared), 6e-3, 0.01);
    // One core decodes a batch for 3 ms and trains for 1 ms, in turns; the step waits for the core for 2 ms at
    // most, while the next batch is decoded.
    let changes = [
        FIFO,
        ("storage.s", "{ memory = {} }"),
        ("job.loader.tf-queue", r#"{ threads = 1, capacity = "1 samples", decode = "3 ms" }"#),
        ("job.batch", "1"),
        ("job.model.step", "\"1 ms\""),
        ("job.model.device", "{ cpu = { threads = 1 } }"),
        ("cluster.node.cores", "1"),
    ];
    let found = outcome(&changes);
    assert_near("beside a loader", steady(&found, 20).step, 4e-3, 0.02);
    let computed: f64 = found.jobs[0].steps.iter().map(|step| step.compute).sum();
    assert_near("compute", computed / found.jobs[0].steps.len() as f64, 1e-3, 1e-9);
}

#[test]
fn a_fault_of_cores_leaves_fewer_cores_to_threads_that_have_one() {
    // System: n threads on 4 cores that serve one after the other, of which a fault leaves 1.5. Expectation:
    // min(n, 1.5) samples in a millisecond, and min(n, 4) where the fault is on another node.
    for (n, nodes, expected) in
        [(8, "", 1.5), (1, "", 1.0), (3, "", 1.5), (8, ", nodes = [3]", 4.0)]
    {
        let fault = format!("[{{ node = \"cores\", factor = 0.375{nodes} }}]");
        let what = format!("{n} threads{nodes}");
        assert_near(&what, rate(n, 4, &[("fault", fault.as_str())]), expected, 0.03);
    }
    // A fault of half of the run: the first half at full speed.
    let scenario = |fault: &str| {
        let loader = r#"{ tf-queue = { threads = 4, capacity = "64 samples", decode = "1 ms" } }"#;
        let more = [("job.loader", loader), ("cluster.node.cores", "4"), ("fault", fault)];
        changed(&[&WORKERS[..], &more].concat())
    };
    let found = simulate(&scenario(r#"[{ node = "cores", factor = 0.5, from = "1 s" }]"#));
    assert_near("half", found.makespan, 1.0 + (8000.0 - 4000.0) / 2000.0, 0.01);
}
