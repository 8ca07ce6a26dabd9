//! How much of each resource a job needs to never wait for input, as the verdict says it.

use forebay::report::{Need, Verdict};
use forebay::verdict::Options;

use super::{all_judged, find, first, judged};
use crate::runs::Case;

/// A job on one GPU that takes 16 samples of 100 kB in 4 ms if it never waits for input: 400 MB/s, 4,000 requests/s. A worker
/// needs 1.2 ms for each sample, and a core 1 ms.
const INPUT: &str = r#"
name = "input"
[run]
steps = 600
warm_up = 100
replications = 1
[cluster]
nodes = 1
[cluster.node]
cores = 64
gpus = 1
page_cache = "none"
[cluster.network]
nic = "10 GB/s"
[storage.s.file-server]
bandwidth = "20 GB/s"
operations = "1000000 /s"
latency = "200 us"
[dataset.d]
samples = 1000000
sample_size = "100 kB"
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 16
model.step = "4 ms"
[job.loader.pytorch]
workers = 16
decode = "1 ms"
"#;

/// Returns the verdict on a changed scenario.
fn found(changes: &[(&str, &str)]) -> Verdict {
    judged(&Case::written(INPUT, changes)).1
}

fn need<'v>(verdict: &'v Verdict, resource: &str) -> &'v Need {
    let found = verdict.needs.iter().find(|need| need.resource == resource);
    found.unwrap_or_else(|| panic!("no {resource}: {:?} {}", verdict.needs, verdict.text))
}

/// Checks that a need is at least what is needed, and at most what the step between tried amounts, a fifth, leaves above it.
#[track_caller]
fn just_enough(said: f64, needed: f64, what: &str) {
    assert!((0.97..1.25).contains(&(said / needed)), "{what}: {said}, not {needed}");
}

#[test]
fn needs_do_not_depend_on_how_short_a_resource_is_or_how_long_the_run_was() {
    // System: as above, with a bandwidth of 60 to 300 MB/s and runs of 60 to 1,000 steps, the shortest of which drain buffers.
    // Expectation: 400 MB/s are needed always.
    for (bandwidth, steps) in [("60", "60"), ("60", "1000"), ("300", "60"), ("300", "1000")] {
        let verdict = found(&[
            ("storage.s.file-server.bandwidth", &format!("\"{bandwidth} MB/s\"")),
            ("run", &format!("{{ steps = {steps}, replications = 1, warm_up = \"off\" }}")),
        ]);
        let what = format!("{bandwidth} MB/s, {steps} steps");
        just_enough(need(&verdict, "s.bandwidth").needed, 400e6, &what);
    }
}

#[test]
fn a_run_shorter_than_two_rounds_of_ample_workers_is_long_enough_for_trials() {
    // System: 64 workers for steps of 20 ms, of which they need two, and checkpoints of 100 ms after every tenth of 60 steps.
    // Expectation: the verdict tries what helps, and names checkpoints.
    let verdict = found(&[
        ("job.loader.pytorch.workers", "64"),
        ("job.model.step", "\"20 ms\""),
        ("job.checkpoint", "{ steps = 10, bytes = \"2 GB\", storage = \"s\" }"),
        ("run", "{ steps = 60, replications = 1 }"),
    ]);
    assert!(!verdict.quick, "{}", verdict.text);
    first(&verdict, "checkpoint.asynchronous");
}

#[test]
fn a_job_that_no_amounts_feed_has_no_needs() {
    // System: steps of 1 us, whose input no storage of this kind can feed. Expectation: the verdict says so, without amounts.
    let verdict = found(&[
        ("job.model.step", "\"1 us\""),
        ("storage.s.file-server.bandwidth", "\"60 MB/s\""),
        ("job.loader.pytorch.decode", "\"1 us\""),
    ]);
    assert!(verdict.nothing_suffices && verdict.needs.is_empty(), "{}", verdict.text);
    let said = "No amounts of these keep `j` from waiting for input";
    assert!(verdict.text.contains(said), "{}", verdict.text);
}

#[test]
fn a_trainer_that_makes_its_own_batches_has_no_workers_now() {
    // Expectation: 5 workers in place of none.
    let verdict = found(&[("job.loader.pytorch.workers", "0")]);
    let workers = need(&verdict, "job.j.loader.pytorch.workers");
    assert_eq!(workers.capacity, 0.0, "{workers:?}");
    just_enough(workers.needed, 5.0, "workers");
}

#[test]
fn a_quick_verdict_names_the_saturated_resource() {
    // System: decoding takes most of a worker's time, and all of the server's bandwidth is used. Expectation: the quick verdict
    // names the bandwidth.
    let changes = [
        ("storage.s.file-server.bandwidth", "\"200 MB/s\""),
        ("job.loader.pytorch.decode", "\"5 ms\""),
        ("job.loader.pytorch.workers", "64"),
    ];
    let options = Options { quick: true, ..Options::default() };
    let (_, verdicts) = all_judged(&Case::written(INPUT, &changes), None, &options);
    let said = &verdicts[0].text;
    assert!(verdicts[0].quick && said.contains("Full: s.bandwidth."), "{said}");
}

#[test]
fn loader_workers_are_named_as_the_limit_when_all_data_are_cached() {
    // System: two ranks with one worker each, whose page cache holds all data after the first epoch of 400 steps. The short run compares five
    // steps, and with two workers a rank's batches come in pairs. Expectation: workers are named as the limit.
    let changes = [
        ("run", "{ steps = 405, warm_up = 10, replications = 1 }"),
        ("cluster.node.gpus", "2"),
        ("cluster.node.memory", "\"64 GB\""),
        ("cluster.node.page_cache", "{}"),
        ("dataset.d.samples", "12800"),
        ("job.parallel.data.copies_per_node", "2"),
        ("job.loader.pytorch.workers", "2"),
        ("job.loader.pytorch.decode", "{ lognormal = { mean = \"4 ms\", cv = 0.5 } }"),
    ];
    first(&found(&changes), "workers");
}

#[test]
fn the_largest_stall_is_not_named_if_another_limit_binds() {
    // System: decoding takes most of a worker's time. The server's bandwidth, or the number of workers, is the limit. Expectation:
    // it is named first, and half of the decoding gains nothing where bandwidth is the limit.
    let decode = ("job.loader.pytorch.decode", "\"5 ms\"");
    let bandwidth = ("storage.s.file-server.bandwidth", "\"300 MB/s\"");
    let full = found(&[decode, bandwidth, ("job.loader.pytorch.workers", "20")]);
    let (first_of, decoding) = (first(&full, "file-server.bandwidth"), find(&full, "decode"));
    assert!(decoding.is_none_or(|of| of.gain < first_of.gain), "{}", full.text);
    first(&found(&[decode, ("job.loader.pytorch.workers", "8")]), "workers");
}

#[test]
fn wider_striping_is_suggested_for_checkpoints_on_one_storage_target() {
    // System: a job writes a checkpoint of 4 GB every 100 steps to one of 16 targets of 500 MB/s, for 8 s. Expectation: the stripe
    // count is a limit, and two targets halve the 8 s; with all targets in the stripe, it is no limit.
    let targets = |stripes: u32| {
        format!(
            "{{ parallel-fs = {{ targets = 16, target_bandwidth = \"500 MB/s\", stripe_count = {stripes} }} }}"
        )
    };
    let checkpoint = r#"{ interval = "500 ms", bytes = "4 GB" }"#;
    let with =
        |stripes: u32| found(&[("storage.s", &targets(stripes)), ("job.checkpoint", checkpoint)]);
    let one = with(1);
    let stripes = |verdict: &Verdict| find(verdict, "stripe_count").cloned();
    let limit = stripes(&one).unwrap_or_else(|| panic!("{}", one.text));
    assert_eq!(limit.key, "storage.s.parallel-fs.stripe_count");
    assert!((0.35..0.55).contains(&limit.gain), "{}", one.text);
    assert!(stripes(&with(16)).is_none());
}

#[test]
fn a_doubled_resource_that_is_still_full_is_named_as_the_next_limit() {
    // System: a seventh, or three quarters, of the bandwidth that the job needs. Expectation: doubled, only the first is still full.
    let next = |bandwidth: &str| {
        let verdict = found(&[("storage.s.file-server.bandwidth", bandwidth)]);
        first(&verdict, "file-server.bandwidth").next.clone().unwrap_or_default()
    };
    let (short, nearly) = (next("\"60 MB/s\""), next("\"300 MB/s\""));
    assert!(short.contains("bandwidth of `s`"), "{short}");
    assert!(!nearly.contains("bandwidth of `s`"), "{nearly}");
}

#[test]
fn needs_hold_when_they_are_set_together() {
    // System: 60 MB/s, where 16 samples in 4 ms take 400 MB/s: with two workers, where 2 ms of a transfer and of decoding need six; beside a
    // background load; and with failures. Expectation: with all needs a step takes the 4 ms that it computes, and the bandwidth is 390 to 600 MB/s.
    let small = ("storage.s.file-server.bandwidth", "\"60 MB/s\"");
    let load = r#"[{ name = "b", storage = "s", streams = { streams = 1 } }]"#;
    let failures = r#"{ mtbf = "1 h", restart = "1 s" }"#;
    let beside =
        [("job.loader.pytorch.workers", "2"), ("background", load), ("job.failures", failures)];
    for change in beside {
        let case = Case::written(INPUT, &[small, change]);
        let (_, verdict) = judged(&case);
        let bandwidth = need(&verdict, "s.bandwidth").needed;
        assert!((390e6..600e6).contains(&bandwidth), "{change:?}: {}", verdict.text);
        let needs: Vec<_> = verdict.needs.iter().flat_map(|need| need.changes.clone()).collect();
        let fed = judged(&case.followed(&needs)).0;
        let step = fed.jobs[0].figures.step_time.mean.expect("steps");
        assert!(step < 4.1e-3, "{change:?}: {step}: {}", verdict.text);
    }
}

#[test]
fn a_job_whose_page_cache_keeps_its_data_needs_nothing_in_the_long_run() {
    // System: 96,000 samples that a page cache keeps, from a server of 700 operations/s, which the first epoch waits for. Expectation: no
    // needs, because later epochs wait for nothing.
    let verdict = found(&[
        ("storage.s.file-server.operations", "\"700 /s\""),
        ("cluster.node.page_cache", "{ capacity = \"20 GB\" }"),
        ("cluster.node.memory", "\"64 GB\""),
        ("dataset.d.samples", "96000"),
        ("run", "{ epochs = 2, replications = 1 }"),
    ]);
    assert!(verdict.needs.is_empty() && !verdict.nothing_suffices, "{}", verdict.text);
}
