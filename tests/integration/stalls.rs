//! The cause of every instant of a stall, in scenarios that can be calculated by hand.

use std::collections::BTreeMap;

use forebay::report::{Cause, JobOutcome, StallCause, summarise};

use super::base::{changed, outcome};
use super::runs::simulate;
use forebay::sim::{Options, run};

const MEMORY: (&str, &str) = ("storage.s", "{ memory = {} }");

/// Returns the stalls of the steps after the first `skip` by cause, per step [ms].
fn stalls(changes: &[(&str, &str)], skip: u32) -> Vec<(String, f64)> {
    let outcome = outcome(changes);
    by_cause(&outcome.jobs[0], skip)
}

fn by_cause(job: &JobOutcome, skip: u32) -> Vec<(String, f64)> {
    let steps = job.steps.len() as f64 - f64::from(skip);
    // Shorter sums are artefacts: a transfer takes a picosecond at least.
    let long = |sum: f64| sum > 1e-9 * steps;
    let mut sums: Vec<(StallCause, f64)> = Vec::new();
    for stall in job.stalls.iter().filter(|stall| stall.step >= skip) {
        match sums.iter_mut().find(|(cause, _)| *cause == stall.cause) {
            Some((_, sum)) => *sum += stall.seconds,
            None => sums.push((stall.cause, stall.seconds)),
        }
    }
    sums.sort_by_key(|(cause, _)| *cause);
    let shown = sums.into_iter().filter(|(_, sum)| long(*sum));
    shown.map(|(cause, sum)| (cause.to_string(), sum / steps * 1e3)).collect()
}

fn assert_stalls(changes: &[(&str, &str)], skip: u32, expected: &[(&str, f64)]) {
    let stalls = stalls(changes, skip);
    let near = |(a, b): (&(String, f64), &(&str, f64))| a.0 == b.0 && (a.1 - b.1).abs() < 1e-6;
    let same = stalls.len() == expected.len() && stalls.iter().zip(expected).all(near);
    assert!(same, "{changes:?}: {stalls:?} instead of {expected:?}");
}

/// One thread on a disk: 0.1 ms to open, 0.2 ms to the first byte, 1 ms of bytes, 0.3 ms to decode.
const ONE_THREAD: [(&str, &str); 4] = [
    (
        "storage.s",
        r#"{ local-disk = { bandwidth = "100 MB/s", latency = "200 us", operations = "10000 /s" } }"#,
    ),
    ("job.loader.tf-queue", r#"{ threads = 1, capacity = "64 samples", decode = "300 us" }"#),
    ("job.batch", "4"),
    ("job.model.step", "\"1 ms\""),
];

#[test]
fn stalls_with_one_loader_thread_are_split_by_the_activities_of_the_thread() {
    // System: 1.6 ms a sample, 4 samples in a step: 6.4 ms, during the first of which the trainer computes (0.1
    // open, 0.2 latency, 0.7 transfer). Expectation: the rest is attributed to the thread's activities.
    let expected = [("open", 0.3), ("latency", 0.6), ("transfer", 3.3), ("decode", 1.2)];
    assert_stalls(&ONE_THREAD, 1, &expected);
    // The first step stalls for the whole time: for the first batch of the epoch.
    let mut once = ONE_THREAD.to_vec();
    once.push(("run.steps", "1"));
    assert_stalls(&once, 0, &[("first-batch", 6.4)]);
}

#[test]
fn network_round_trips_to_a_server_count_as_latency_stalls() {
    // System: the same thread on a file server, 0.05 ms in each direction. Expectation: 0.1 ms more latency per
    // sample.
    let mut changes = ONE_THREAD.to_vec();
    changes[0].1 = r#"{ file-server = { bandwidth = "100 MB/s", latency = "200 us", operations = "10000 /s" } }"#;
    changes.push(("cluster.network.latency", "\"50 us\""));
    let expected = [("open", 0.3), ("latency", 0.9), ("transfer", 3.4), ("decode", 1.2)];
    assert_stalls(&changes, 1, &expected);
}

#[test]
fn loader_threads_that_share_one_core_cause_cpu_wait_stalls() {
    // System: 1 ms of decoding and nothing else, two threads, one core, a batch of 2 each 2 ms, of which 0.5 ms
    // is computed. Expectation (shared): both threads take 2 ms for 1 ms of work, and their wait is counted
    // first: 1 ms, 0.5 ms of it hidden by computation, then 1 ms of decoding.
    let shared = [
        MEMORY,
        ("job.loader.tf-queue", r#"{ threads = 2, capacity = "64 samples", decode = "1 ms" }"#),
        ("cluster.node.cores", "1"),
        ("job.batch", "2"),
        ("job.model.step", "\"500 us\""),
    ];
    assert_stalls(&shared, 1, &[("decode", 1.0), ("cpu-wait", 0.5)]);
    // Expectation (fifo): the thread that completes a batch has queued for 1 ms and decoded for 1 ms.
    let mut fifo = shared.to_vec();
    fifo.push(("cluster.node.scheduling", "\"fifo\""));
    assert_stalls(&fifo, 1, &[("decode", 1.0), ("cpu-wait", 0.5)]);
    // Expectation with two cores: no wait for cores, a batch each 1 ms.
    let mut two = shared.to_vec();
    two[2].1 = "2";
    assert_stalls(&two, 1, &[("decode", 0.5)]);
}

#[test]
fn stalls_are_attributed_to_the_slowest_loader_stage() {
    // System: reading takes 1 ms of latency, the next stage 0.25 ms of a core; a batch of 1 each 1 ms, of which
    // 0.25 ms is computed. Expectation: the trainer's last 0.25 ms are decoding; before that the reader was in
    // its latency for 0.75 ms, 0.25 ms of them while the trainer computed.
    const SLOW_READER: &str = r#"{ stages = [
        { name = "read", workers = 1, per_sample = ["read"], buffer = 4 },
        { name = "decode", workers = 1, per_sample = [{ compute = "250 us" }], buffer = 4 }] }"#;
    let slow = r#"{ local-disk = { bandwidth = "1e15 B/s", latency = "1 ms" } }"#;
    let common = [("job.batch", "1"), ("dataset.d.sample_size", "\"1 B\"")];
    let mut changes = common.to_vec();
    changes.extend([
        ("storage.s", slow),
        ("job.loader", SLOW_READER),
        ("job.model.step", "\"250 us\""),
    ]);
    assert_stalls(&changes, 1, &[("latency", 0.5), ("decode", 0.25)]);
    // System: reading takes 0.1 ms, the next stage 1 ms. Expectation: the whole stall is decoding.
    let fast = r#"{ local-disk = { bandwidth = "1e15 B/s", latency = "100 us" } }"#;
    let slow_decoder = SLOW_READER.replace("250 us", "1 ms");
    let mut changes = common.to_vec();
    changes.extend([
        ("storage.s", fast),
        ("job.loader", slow_decoder.as_str()),
        ("job.model.step", "\"250 us\""),
    ]);
    assert_stalls(&changes, 1, &[("decode", 0.75)]);
}

#[test]
fn stalls_are_attributed_to_the_device_copy_if_it_is_the_slowest() {
    // System: 100 kB at 100 MB/s: 1 ms a sample to the device, everything else takes no time; 0.25 ms computed.
    // Expectation: the rest is a stall for the copy.
    let loader = r#"{ stages = [
        { name = "read", workers = 1, per_sample = ["read"], buffer = 2 },
        { name = "copy", workers = 1, per_item = ["copy"], buffer = 1 }] }"#;
    let changes = [
        MEMORY,
        ("job.loader", loader),
        ("cluster.node.pcie", "\"100 MB/s\""),
        ("job.batch", "1"),
        ("job.model.step", "\"250 us\""),
    ];
    assert_stalls(&changes, 1, &[("copy", 0.75)]);
}

#[test]
fn stalls_caused_by_in_order_delivery_of_samples_lengthen_a_job() {
    // System: 8 workers with heavy-tailed delays, with in-order delivery and without. Expectation: order is a
    // cause only in order, and costs time: the same random delays take longer in order.
    let loader = |order: &str| {
        format!(
            r#"{{ stages = [{{ name = "read", workers = 8, order = "{order}", buffer = 4,
            per_sample = ["read", {{ delay = {{ lognormal = {{ mean = "1 ms", cv = 3 }} }} }}] }}] }}"#
        )
    };
    let run = |order: &str| {
        let text = loader(order);
        let changes = [MEMORY, ("job.loader", text.as_str()), ("job.batch", "4")];
        outcome(&[&changes[..], &[("run.steps", "500")]].concat()).jobs.remove(0)
    };
    let (any, ordered) = (run("any"), run("in-order"));
    let of = |job: &JobOutcome| {
        let order = StallCause::own(Cause::Order);
        job.stalls.iter().filter(|s| s.cause == order).map(|s| s.seconds).sum::<f64>()
    };
    assert_eq!(of(&any), 0.0);
    assert!(of(&ordered) > 0.0);
    assert!(ordered.steps[499].end > 1.1 * any.steps[499].end, "order costs time");
    // The worker whose item ends a wait was active itself, so part of the stall is its latency.
    assert!(by_cause(&ordered, 0).iter().any(|(cause, ms)| cause == "latency" && *ms > 0.0));
}

#[test]
fn waits_for_a_peer_on_another_node_have_the_stall_cause_of_the_peer() {
    // System: two nodes, each reading from the server through a FIFO station of 1 ms an operation: a sample for
    // each every 2 ms, 1 ms apart. A step of 0.25 ms begins on the later node when its sample arrives.
    // Expectation: that node waits 1.75 ms to open; the earlier one waits 0.75 ms to open, computes, and waits
    // for its peer, 0.75 ms for opening and 0.25 ms for computing. Stalls are the mean over both nodes.
    let changes = [
        ("storage.s", r#"{ file-server = { bandwidth = "1e15 B/s", operations = "1000 /s" } }"#),
        ("cluster.network", "{ latency = \"0 s\" }"),
        ("dataset.d.sample_size", "\"1 B\""),
        ("job.loader.tf-queue", r#"{ threads = 1, capacity = "1 samples", decode = "0 s" }"#),
        ("job.batch", "1"),
        ("job.nodes", "2"),
        ("job.model.step", "\"250 us\""),
    ];
    assert_stalls(&changes, 2, &[("open", 1.25), ("peer.open", 0.375), ("peer.compute", 0.125)]);
}

#[test]
fn jitter_makes_model_copies_wait_for_the_computation_of_slower_copies() {
    // System: 4 model copies with data in memory and jitter. Expectation: only `peer.compute`, because no copy
    // starves; it is max − mean of the copies' times.
    let changes = [
        MEMORY,
        ("job.loader.tf-queue", r#"{ threads = 4, capacity = "640 samples", decode = "0 s" }"#),
        ("job.parallel.data.copies_per_node", "4"),
        ("job.model.jitter", "{ gamma = { cv = 0.3 } }"),
    ];
    let stalls = stalls(&changes, 1);
    assert_eq!(stalls.len(), 1, "{stalls:?}");
    assert_eq!(stalls[0].0, "peer.compute");
    // The mean maximum of 4 normal variables is 1.03 σ above the mean; gamma is close to it.
    assert!((stalls[0].1 - 1.03 * 0.3).abs() < 0.06, "{stalls:?}");
}

#[test]
fn a_pipeline_without_overlap_waits_in_bubbles() {
    // System: 4 equal stages of 1 ms, data in memory, one batch at a time. Expectation: each stage works for a
    // quarter of the time, so a step of 4 ms has 3 ms of bubble per stage.
    let common = [
        MEMORY,
        ("job.loader.tf-queue", r#"{ threads = 4, capacity = "640 samples", decode = "0 s" }"#),
        ("job.model.step", "\"4 ms\""),
        ("job.parallel.pipeline", "{ stages = 4, overlap = false }"),
    ];
    assert_stalls(&common, 0, &[("bubble", 3.0)]);
}

#[test]
fn an_overlapping_pipeline_has_bubbles_only_while_filling_and_draining() {
    // System: p = 4 stages of 1 ms, s = 60 steps, data in memory. Expectation: (s + p − 1) ms in total, of
    // which each stage computes s ms, so the bubble's share is (p − 1)/(s + p − 1); no stage waits between
    // filling and draining.
    let changes = [
        MEMORY,
        ("job.loader.tf-queue", r#"{ threads = 4, capacity = "640 samples", decode = "0 s" }"#),
        ("job.model.step", "\"4 ms\""),
        ("job.parallel.pipeline", "{ stages = 4 }"),
    ];
    let job = outcome(&changes).jobs.remove(0);
    let end = job.steps[59].end;
    assert!((end - 63e-3).abs() < 1e-12, "{end}");
    let bubble: f64 = job.stalls.iter().map(|stall| stall.seconds).sum();
    assert!((bubble / end - 3.0 / 63.0).abs() < 1e-9, "{bubble}");
    assert!(job.stalls.iter().all(|stall| stall.cause == StallCause::own(Cause::Bubble)));
    let full = job.stalls.iter().filter(|stall| (1..57).contains(&stall.step));
    assert_eq!(full.map(|stall| stall.seconds).sum::<f64>(), 0.0);
    // With different shares, the longest stage sets the pace, 2 ms.
    let mut uneven = changes.to_vec();
    uneven[3].1 = "{ shares = [0.25, 0.5, 0.25] }";
    let job = outcome(&uneven).jobs.remove(0);
    let pace = (job.steps[59].end - job.steps[9].end) / 50.0;
    assert!((pace - 2e-3).abs() < 1e-12, "{pace}");
}

#[test]
fn the_loader_is_the_bottleneck_if_ranks_wait_for_peers_with_late_batches() {
    // System: 4 copies of 1 ms take 64 samples a step from 16 threads in memory, 0.35 ms each, so that four
    // rounds of 16 take 1.4 ms: the copies' batches are 0, 0, 0.05 and 0.4 ms late. Expectation: the largest
    // stall is for peers that compute, but the bottleneck is decoding, which delays them.
    let scenario = changed(&[
        MEMORY,
        ("job.parallel.data.copies_per_node", "4"),
        ("cluster.node.cores", "16"),
        ("job.loader.tf-queue", "{ threads = 16, capacity = \"64 samples\", decode = \"350 us\" }"),
    ]);
    let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
    let stall = &report.jobs[0].figures.stall;
    let decode = stall.share(StallCause::own(Cause::Decode));
    assert!(stall.share(StallCause::peer(Cause::Compute)) > 1.5 * decode, "{stall:?}");
    let found = report.bottleneck.expect("a bottleneck");
    assert_eq!(found.cause, "decode", "{}", found.text);
    assert!(found.text.contains("more loader workers (now 16"), "{}", found.text);
    // Copies whose steps differ wait for each other's computation.
    let uneven = changed(&[
        ("storage.s", "{ memory = {} }"),
        ("job.parallel.data.copies_per_node", "4"),
        ("job.loader.tf-queue.threads", "8"),
        ("job.loader.tf-queue.decode", "\"10 us\""),
        ("job.model.jitter", "{ gamma = { cv = 0.5 } }"),
    ]);
    let found = summarise(&uneven, &[simulate(&uneven)], 0.0).bottleneck.expect("a bottleneck");
    assert_eq!(found.cause, "peer.compute", "{}", found.text);
}

#[test]
fn a_trace_splits_each_wait_into_its_causes() {
    // System: the base scenario, starved. Expectation: each wait of the accelerator contains spans for its
    // causes, which add up to it; spans are sorted by time, with the wait before its causes.
    let options = Options { trace: true, ..Options::default() };
    let trace = run(&changed(&[]), 0, &options).trace.expect("asked for");
    assert!(trace.spans.is_sorted_by(|a, b| a.start <= b.start));
    let waits = trace.spans.iter().enumerate().filter(|(_, span)| span.name == "starving");
    let mut seen = 0;
    for (index, wait) in waits {
        let end = wait.start + wait.duration;
        let within: Vec<_> = trace.spans[index + 1..]
            .iter()
            .take_while(|span| span.start < end)
            .filter(|span| span.track == wait.track)
            .collect();
        let sum: f64 = within.iter().map(|span| span.duration).sum();
        assert!((sum - wait.duration).abs() < 1e-9, "{wait:?}: {within:?}");
        let named = |name: &str| within.iter().any(|span| span.name == name);
        assert!(if seen == 0 { named("first-batch") } else { named("decode") }, "{within:?}");
        seen += 1;
    }
    assert!(seen > 20, "{seen} waits");
}

/// Returns stalls by step and cause [s].
fn by_step(job: &JobOutcome) -> BTreeMap<(u32, StallCause), f64> {
    let mut sums = BTreeMap::new();
    for stall in &job.stalls {
        *sums.entry((stall.step, stall.cause)).or_default() += stall.seconds;
    }
    sums
}

/// Checks that runs with and without a trace have the same steps and, in each, the same causes; returns the
/// outcome without a trace.
fn assert_trace_changes_no_cause(changes: &[(&str, &str)]) -> JobOutcome {
    let scenario = changed(changes);
    let of = |trace| run(&scenario, 0, &Options { trace, ..Options::default() }).jobs.remove(0);
    let (plain, traced) = (of(false), of(true));
    assert_eq!(plain.steps, traced.steps);
    let (sums, expected) = (by_step(&plain), by_step(&traced));
    assert!(sums.keys().eq(expected.keys()), "{changes:?}");
    for (at, seconds) in sums {
        let difference = seconds - expected[&at];
        assert!(difference.abs() < 1e-12, "{changes:?}, {at:?}: {difference} s more");
    }
    plain
}

#[test]
fn tracing_changes_no_stall_cause() {
    // System: one device that starves. Expectation: the same causes, though a trace records when workers did
    // what, and a report only for how long.
    let disk = r#"{ local-disk = { bandwidth = "100 MB/s", latency = "200 us", operations = "10000 /s" } }"#;
    let arm = r#"{ local-disk = { bandwidth = "100 MB/s", seek = "4 ms" } }"#;
    let four = ("job.loader.tf-queue.threads", "4");
    let fifo = ("cluster.node.scheduling", "\"fifo\"");
    let fails = ("job.failures", r#"{ at = ["50 ms"], restart = "7 ms" }"#);
    for (storage, more) in [disk, arm].into_iter().flat_map(|s| [four, fifo, fails].map(|m| (s, m)))
    {
        let loader = r#"{ threads = 8, capacity = "64 samples", decode = "1 ms" }"#;
        let changes = [
            ("storage.s", storage),
            ("job.loader.tf-queue", loader),
            ("cluster.node.cores", "2"),
            ("job.batch", "8"),
            more,
        ];
        let plain = assert_trace_changes_no_cause(&changes);
        assert!(by_cause(&plain, 1).len() > 1, "{changes:?}: {:?}", by_cause(&plain, 1));
    }
    // System: epochs of a batch of 8 and one of 2, which is less than the number of workers.
    let changes = [
        ("dataset.d.samples", "10"),
        ("job.batch", "8"),
        ("job.loader", r#"{ pytorch = { workers = 4, decode = "1 ms" } }"#),
        ("run.steps", "40"),
    ];
    let plain = assert_trace_changes_no_cause(&changes);
    assert!(plain.steps.iter().any(|step| step.samples == 2), "{:?}", plain.steps);
}
