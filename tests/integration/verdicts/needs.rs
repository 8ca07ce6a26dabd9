//! How much of each resource a job needs to never wait for input, as the verdict says it.

use forebay::report::{Need, Verdict, summarise};
use forebay::scenario::Scenario;
use forebay::sim;
use forebay::verdict::{self, Options};

use super::judged;
use crate::runs::written;

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

/// Returns the verdict and the mean step time [s] of a changed scenario.
fn found(changes: &[(&str, &str)]) -> (Verdict, f64) {
    let (report, verdict) = judged(&written(INPUT, changes));
    (verdict, report.jobs[0].figures.step_time.mean.expect("steps"))
}

fn quick(scenario: &Scenario) -> Verdict {
    let outcomes = [sim::run(scenario, 0, &sim::Options::default())];
    let report = summarise(scenario, &outcomes, 0.0);
    let options = Options { quick: true, ..Options::default() };
    verdict::find(scenario, &outcomes, &report, &options).expect("a step was completed")
}

#[test]
fn the_reported_resource_need_is_just_enough_to_end_waits_for_input() {
    // System: one of the server's bandwidth, its operations, the node's cores and the workers is far too small. Expectation: the
    // verdict says the amount that 16 samples in 4 ms need; with it a step takes 4 ms, and with nine tenths of it, 4 ms ÷ 0.9.
    for (key, small, needed, unit) in [
        ("storage.s.file-server.bandwidth", "\"60 MB/s\"", 400e6, " B/s"),
        ("storage.s.file-server.operations", "\"700 /s\"", 4000.0, " /s"),
        ("cluster.node.cores", "1", 4.0, ""),
        ("job.loader.pytorch.workers", "1", 4.82, ""),
    ] {
        let (verdict, _) = found(&[(key, small)]);
        let [Need { needed: said, .. }] = verdict.needs[..] else {
            panic!("{key}: {:?}", verdict.needs)
        };
        // Workers and cores are whole.
        let whole = |value: f64| if unit.is_empty() { value.ceil() } else { value };
        assert!((whole(said) / whole(needed) - 1.0).abs() < 0.02, "{key}: {said}, not {needed}");
        assert!(
            verdict.text.contains("For input to keep up on average, `j` needs at least"),
            "{}",
            verdict.text
        );
        let value = |of: f64| match unit {
            "" => format!("{}", of.round()),
            unit => format!("\"{of}{unit}\""),
        };
        let (after, step) = found(&[(key, &value(1.02 * whole(said)))]);
        assert!(step < 4.1e-3, "{key}: {step} with the needed amount");
        assert!(after.needs.is_empty(), "{key}: {:?}", after.needs);
        let (_, step) =
            found(&[(key, &value(if unit.is_empty() { whole(said) - 1.0 } else { 0.9 * said }))]);
        assert!(step > 1.07 * 4e-3, "{key}: {step} with less than the needed amount");
    }
}

#[test]
fn resource_needs_are_not_reported_beside_background_loads_failures_or_jobs_that_begin_later() {
    // System: too little bandwidth, beside nothing, a background load, failures, and a job that begins when this one has ended.
    // Expectation: only the job that is alone has needs.
    let small = ("storage.s.file-server.bandwidth", "\"60 MB/s\"");
    let load = r#"[{ name = "b", storage = "s", streams = { streams = 1 } }]"#;
    let failures = r#"{ mtbf = "1 h", restart = "1 s" }"#;
    assert!(!found(&[small]).0.needs.is_empty());
    assert_eq!(found(&[small, ("background", load)]).0.needs, []);
    assert_eq!(found(&[small, ("job.failures", failures)]).0.needs, []);
    let second = INPUT.split("[[job]]").nth(1).expect("a job");
    let second = second.replace("name = \"j\"", "name = \"k\"\nafter = [\"j\"]");
    let both = format!("{}[[job]]{second}", INPUT.replace("nodes = 1", "nodes = 2"));
    assert_eq!(judged(&written(&both, &[small])).1.needs, []);
}

#[test]
fn a_job_with_a_page_cache_needs_more_in_its_first_epoch_than_later() {
    // System: as above, with 96,000 samples that a page cache keeps, and operations for 700 or 3,000 samples/s. Expectation: the
    // first epoch needs the 4,000 operations/s of 16 samples in 4 ms, and later epochs none; with the said amount the first
    // epoch's steps take 4 ms.
    let cached = |operations: &str| {
        found(&[
            ("storage.s.file-server.operations", operations),
            ("cluster.node.page_cache", "{ capacity = \"20 GB\" }"),
            ("cluster.node.memory", "\"64 GB\""),
            ("dataset.d.samples", "96000"),
            ("run", "{ epochs = 2, replications = 1 }"),
        ])
    };
    for small in ["\"700 /s\"", "\"3000 /s\""] {
        let (verdict, _) = cached(small);
        let [Need { needed, .. }] = verdict.first_epoch_needs[..] else { panic!("{verdict:?}") };
        assert!((needed / 4000.0 - 1.0).abs() < 0.02, "{needed}");
        assert!(verdict.needs.is_empty(), "{:?}", verdict.needs);
        assert!(verdict.text.contains("while caches are empty: operations"), "{}", verdict.text);
    }
}

#[test]
fn needs_do_not_depend_on_how_short_a_resource_is_or_how_long_the_run_was() {
    // System: as above, with a bandwidth of 60 to 300 MB/s and runs of 60 to 2,000 steps, the shortest of which drain buffers.
    // Expectation: 400 MB/s are needed always.
    for (bandwidth, steps) in [("60", "60"), ("60", "2000"), ("300", "60"), ("300", "2000")] {
        let (verdict, _) = found(&[
            ("storage.s.file-server.bandwidth", &format!("\"{bandwidth} MB/s\"")),
            ("run", &format!("{{ steps = {steps}, replications = 1, warm_up = \"off\" }}")),
        ]);
        let need = verdict.needs.iter().find(|need| need.resource == "s.bandwidth");
        let needed = need.unwrap_or_else(|| panic!("{}", verdict.text)).needed;
        assert!((needed / 400e6 - 1.0).abs() < 0.03, "{bandwidth} MB/s, {steps} steps: {needed}");
    }
}

#[test]
fn what_jobs_on_one_server_need_is_said_whatever_its_bandwidth() {
    // System: twenty copies of this job and twelve of one whose samples are 6 MB, two in 70 ms, on one server. Expectation: what
    // the sizes say, 20 times 400 MB/s and 12 times 171 MB/s.
    let second = "[dataset.e]\nsamples = 4000\nsample_size = \"6 MB\"\n[[job]]\nname = \"k\"\ncopies = 12\ndataset = \"e\"\n\
                  storage = \"s\"\nbatch = 2\nmodel.step = \"70 ms\"\n[job.loader.pytorch]\nworkers = 4\ndecode = \"20 ms\"\n";
    let both = INPUT
        .replace("nodes = 1", "nodes = 32")
        .replace("name = \"j\"", "name = \"j\"\ncopies = 20")
        .replace("steps = 600\nwarm_up = 100", "duration = \"4 s\"")
        + second;
    for bandwidth in ["2 GB/s", "4 GB/s", "7 GB/s"] {
        let scenario =
            written(&both, &[("storage.s.file-server.bandwidth", &format!("\"{bandwidth}\""))]);
        let (_, verdict) = judged(&scenario);
        let need = verdict.needs.iter().find(|need| need.resource == "s.bandwidth");
        let needed = need.unwrap_or_else(|| panic!("{bandwidth}: {}", verdict.text)).needed;
        let expected = 20.0 * 400e6 + 12.0 * 12e6 / 0.07;
        assert!((needed / expected - 1.0).abs() < 0.03, "{bandwidth}: {needed}");
    }
}

#[test]
fn a_run_shorter_than_two_rounds_of_ample_workers_is_long_enough_for_trials() {
    // System: 64 workers for steps of 20 ms, of which they need two, and checkpoints of 100 ms after every tenth of 60 steps.
    // Expectation: the verdict tries what helps, and names checkpoints.
    let (verdict, _) = found(&[
        ("job.loader.pytorch.workers", "64"),
        ("job.model.step", "\"20 ms\""),
        ("job.checkpoint", "{ steps = 10, bytes = \"2 GB\", storage = \"s\" }"),
        ("run", "{ steps = 60, replications = 1 }"),
    ]);
    assert!(!verdict.quick, "{}", verdict.text);
    assert_eq!(verdict.limits[0].lever, "checkpoint-aside", "{}", verdict.text);
}

#[test]
fn needs_beyond_anything_that_can_be_bought_are_said_without_an_amount() {
    // System: steps of 1 us, whose input no storage of this kind can feed.
    let (verdict, _) = found(&[
        ("job.model.step", "\"1 us\""),
        ("storage.s.file-server.bandwidth", "\"60 MB/s\""),
        ("job.loader.pytorch.decode", "\"1 us\""),
    ]);
    let text = &verdict.text;
    assert!(text.contains("over 100 times the bandwidth of `s` (now 60 MB/s)"), "{text}");
}

#[test]
fn a_trainer_that_makes_its_own_batches_has_no_workers_now() {
    let (verdict, _) = found(&[("job.loader.pytorch.workers", "0")]);
    assert!(verdict.text.contains("loader workers 5 (now 0)"), "{}", verdict.text);
}

#[test]
fn a_quick_verdict_names_the_saturated_resource_and_the_needed_amount() {
    // System: decoding takes most of a worker's time, and all of the server's bandwidth is used. Expectation: the quick verdict
    // names the bandwidth, and how much of it is needed.
    let slow = [
        ("storage.s.file-server.bandwidth", "\"200 MB/s\""),
        ("job.loader.pytorch.decode", "\"5 ms\""),
    ];
    let verdict = quick(&written(INPUT, &[slow[0], slow[1], ("job.loader.pytorch.workers", "64")]));
    assert_eq!(verdict.saturated, ["s.bandwidth"], "{}", verdict.text);
    assert!(
        verdict.text.contains("Full, and on the path of the input of `j`: bandwidth of `s`"),
        "{}",
        verdict.text
    );
    assert!(verdict.text.contains("bandwidth of `s` 4"), "{}", verdict.text);
}

#[test]
fn copying_uncached_data_to_nodes_is_suggested_if_a_server_is_the_bottleneck() {
    // System: a server's bandwidth limits a job of 100 GB of data. Expectation: copying the data set to the nodes is suggested, with
    // its size, unless the page cache keeps the data set.
    let small = ("storage.s.file-server.bandwidth", "\"60 MB/s\"");
    let text = found(&[small]).0.text;
    assert!(
        text.contains("copying the data set to storage in each node") && text.contains("100 GB"),
        "{text}"
    );
    let memory = ("cluster.node.memory", "\"1 TB\"");
    let cached = found(&[small, memory, ("cluster.node.page_cache", "{}")]).0.text;
    assert!(!cached.contains("copying the data set"), "{cached}");
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
    let (verdict, _) = found(&changes);
    assert_eq!(verdict.limits.first().map(|limit| &*limit.lever), Some("workers"), "{verdict:?}");
}

#[test]
fn the_verdict_says_when_the_largest_stall_is_not_the_limit() {
    // System: decoding takes most of a worker's time. The server's bandwidth, or the number of workers, is the limit. Expectation:
    // only where bandwidth is the limit, the verdict says that the largest stall is not.
    let decode = ("job.loader.pytorch.decode", "\"5 ms\"");
    let bandwidth = ("storage.s.file-server.bandwidth", "\"300 MB/s\"");
    let note = "The largest stall is `decode`, but relieving it helps less";
    let (full, _) = found(&[decode, bandwidth, ("job.loader.pytorch.workers", "20")]);
    assert_eq!(full.limits[0].lever, "bandwidth", "{}", full.text);
    assert!(full.text.contains(note), "{}", full.text);
    let (few, _) = found(&[decode, ("job.loader.pytorch.workers", "8")]);
    assert_eq!(few.limits[0].lever, "workers", "{}", few.text);
    assert!(!few.text.contains(note), "{}", few.text);
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
        |stripes: u32| found(&[("storage.s", &targets(stripes)), ("job.checkpoint", checkpoint)]).0;
    let one = with(1);
    let stripes =
        |verdict: &Verdict| verdict.limits.iter().find(|limit| limit.lever == "stripes").cloned();
    let limit = stripes(&one).unwrap_or_else(|| panic!("{}", one.text));
    assert_eq!(limit.key, "storage.s.parallel-fs.stripe_count");
    assert!((0.35..0.55).contains(&limit.gain), "{}", one.text);
    assert!(stripes(&with(16)).is_none());
}

#[test]
fn the_reported_needs_are_enough_together_if_bandwidth_and_workers_are_short() {
    // System: 60 MB/s and two workers, where 16 samples in 4 ms take 400 MB/s and, with 0.25 ms for a transfer at that rate, six
    // workers. Expectation: both are named, although workers now wait for the full server. With a quarter more of both a step takes
    // 4 ms; with the bandwidth alone it does not.
    let (bandwidth, workers) = ("storage.s.file-server.bandwidth", "job.loader.pytorch.workers");
    let (verdict, _) = found(&[(bandwidth, "\"60 MB/s\""), (workers, "2")]);
    let need = |resource: &str| {
        let found = verdict.needs.iter().find(|need| need.resource == resource);
        found.unwrap_or_else(|| panic!("{}", verdict.text)).needed
    };
    let enough = format!("\"{} B/s\"", 1.25 * need("s.bandwidth"));
    assert_eq!(need("j.workers"), 6.0, "{}", verdict.text);
    let (_, step) = found(&[(bandwidth, &enough), (workers, "2")]);
    assert!(step > 6e-3, "{step} with bandwidth alone");
    let (_, step) = found(&[(bandwidth, &enough), (workers, "8")]);
    assert!(step < 4.1e-3, "{step} with both");
}

#[test]
fn a_doubled_resource_that_is_still_full_is_named_as_the_next_limit() {
    // System: a seventh, or three quarters, of the bandwidth that the job needs. Expectation: doubled, only the first is still full.
    let next = |bandwidth: &str| {
        let (verdict, _) = found(&[("storage.s.file-server.bandwidth", bandwidth)]);
        assert_eq!(verdict.limits[0].lever, "bandwidth", "{}", verdict.text);
        verdict.limits[0].next.clone()
    };
    assert_eq!(next("\"60 MB/s\"").as_deref(), Some("still bandwidth of `s`"));
    assert_ne!(next("\"300 MB/s\"").as_deref(), Some("still bandwidth of `s`"));
}

#[test]
fn the_cost_of_decoding_images_is_told_in_time_for_each_image() {
    // System: a profile says that decoding an image of 500 × 375 pixels and 100 kB takes 0.1 + 1 + 0.9375 ms of a core; four
    // workers, a quarter of what is needed. Expectation: advice on decoding names that time and half of it.
    let changes = [
        ("profile", "\"calibrate/profiles/example.toml\""),
        ("dataset.d.image", "{ width = 500, height = 375 }"),
        ("job.loader.pytorch.workers", "4"),
        ("job.loader.pytorch.decode", "\"decode\""),
    ];
    let (verdict, _) = found(&changes);
    let told = "1.019 ms for each image in place of 2.038 ms for each image";
    assert!(verdict.text.contains(told), "{}", verdict.text);
}
