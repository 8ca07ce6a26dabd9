//! Storages with a token bucket of bytes, compared with closed forms.

use forebay::report::{BurstOutcome, Outcome, ResourceOutcome, summarise};
use forebay::scenario::ScenarioFile;

use super::runs::{Case, Draws, simulate, within, written};
use super::verdicts::{first, judged};

/// A job that reads samples of 1 MB from a server of 100 MB/s, as fast as the server gives them.
const SERVER: &str = r#"
name = "bursts"
run = { duration = "60 s", warm_up = "off", replications = 1 }
cluster = { nodes = 1, node = { cores = 64, page_cache = "none" } }
storage.s.file-server.bandwidth = "100 MB/s"
[dataset.d]
samples = 1000000
sample_size = "1 MB"
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 1
loader.tf-queue = { threads = 4, capacity = "8 samples" }
model.step = "1 us"
"#;

const BURST: &str = "storage.s.file-server.burst";
/// A bucket that is empty after 10 s at full demand, and full after 30 s without demand.
const BUCKET: (&str, &str) = (BURST, "{ bandwidth = \"400 MB/s\", bucket = \"3 GB\" }");
const EMPTY: (&str, &str) = ("storage.s.file-server.burst.level", "0");

fn outcome(changes: &[(&str, &str)]) -> Outcome {
    simulate(&written(SERVER, changes))
}

/// Returns the number of samples of the first job that were trained on by `seconds`.
fn by(outcome: &Outcome, seconds: f64) -> f64 {
    outcome.jobs[0].steps.iter().filter(|step| step.end <= seconds).count() as f64
}

fn server(outcome: &Outcome) -> &ResourceOutcome {
    outcome.resources.iter().find(|of| of.name == "s.bandwidth").expect("there")
}

fn drawn(outcome: &Outcome) -> BurstOutcome {
    server(outcome).burst.expect("a bucket")
}

#[test]
fn a_bucket_lasts_for_its_bytes_over_what_it_loses_and_then_gives_the_sustained_rate() {
    // System: a bucket of 3 GB, which loses 300 MB/s while it gives 400 MB/s and gains 100 MB/s. Expectation: 400 samples of 1 MB per second
    // for 10 s, then 100 per second; 9 GB in 60 s, all that the server could give.
    let found = outcome(&[BUCKET]);
    for (seconds, samples) in [(5.0, 2000.0), (9.9, 3960.0), (20.0, 5000.0), (60.0, 9000.0)] {
        within(by(&found, seconds), samples, 0.01, &format!("by {seconds} s"));
    }
    let server = server(&found);
    within(server.capacity, 150e6, 0.01, "the mean of what it could give");
    within(server.utilisation, 1.0, 0.01, "all of it");
    let of = drawn(&found);
    within(of.drawn, 3e9, 0.01, "the bucket");
    within(of.emptied.expect("empty"), 10.0, 0.01, "its end");
    // Half full, it lasts half as long.
    let half = outcome(&[BUCKET, ("storage.s.file-server.burst.level", "0.5")]);
    within(by(&half, 60.0), 7500.0, 0.01, "half full");
}

#[test]
fn after_a_pause_the_next_burst_lasts_for_what_the_pause_has_filled() {
    // System: a bucket that is empty at first, and a job that begins later. Expectation: a pause of t seconds fills t · 100 MB, or the whole
    // bucket, which last for a third as long.
    for (pause, lasts) in [(3.0, 1.0), (12.0, 4.0), (300.0, 10.0)] {
        let (start, end) = (format!("\"{pause} s\""), format!("\"{} s\"", pause + 20.0));
        let found = outcome(&[BUCKET, EMPTY, ("job.start", &start), ("run.duration", &end)]);
        let samples = 400.0 * lasts;
        within(by(&found, pause + lasts), samples, 0.02, &format!("a burst after {pause} s"));
        within(by(&found, pause + 20.0), samples + 100.0 * (20.0 - lasts), 0.01, "and later");
    }
}

#[test]
fn demand_below_the_sustained_rate_leaves_the_bucket_full() {
    // System: steps of 20 ms, for which the server gives 50 of its 100 MB/s. Expectation: nothing is drawn, nothing is remarked, and the long
    // run is as without a bucket.
    let slow = ("job.model.step", "\"20 ms\"");
    let scenario = written(SERVER, &[BUCKET, slow]);
    let found = simulate(&scenario);
    assert_eq!(drawn(&found).emptied, None);
    assert!(drawn(&found).drawn < 10e6, "{:?}", drawn(&found));
    within(by(&found, 60.0), by(&outcome(&[slow]), 60.0), 0.001, "steps");
    let report = summarise(&scenario, &[found], 0.0);
    assert!(!report.warnings.iter().any(|of| of.contains("token bucket")), "{:?}", report.warnings);
}

#[test]
fn a_bucket_that_stays_empty_gives_the_sustained_rate() {
    let (without, found) = (outcome(&[]), outcome(&[BUCKET, EMPTY]));
    let (steps, expected) = (&found.jobs[0].steps, &without.jobs[0].steps);
    assert_eq!(steps.len(), expected.len());
    for (step, expected) in steps.iter().zip(expected) {
        within(step.end, expected.end, 1e-9, "a step");
    }
    assert_eq!(drawn(&found).emptied, None);
}

#[test]
fn a_gate_gives_the_sustained_rate_in_the_long_run() {
    // System: 10 MB every 100 ms at 1 GB/s. Expectation: 100 MB/s over 20 s, all of it in the first 10 ms of each period. Bytes
    // that no reader takes in their period are lost.
    let gate = (BURST, "{ bandwidth = \"1 GB/s\", period = \"100 ms\" }");
    let found = outcome(&[gate, ("run.duration", "\"20 s\"")]);
    within(by(&found, 20.0), 2000.0, 0.01, "long run");
    let open = |step: &&forebay::report::StepOutcome| step.end % 0.1 < 0.0105;
    let inside = found.jobs[0].steps.iter().filter(open).count() as f64;
    within(inside, by(&found, 20.0), 0.01, "while the gate is open");
    let late = outcome(&[gate, ("job.start", "\"5 s\""), ("run.duration", "\"6.05 s\"")]);
    // Four readers share the 10 MB, so that the last four samples are half read when the gate closes.
    within(by(&late, 5.05), 8.0, 0.01, "one period's bytes after a pause");
    // Less than the gate lets through: it never closes, and reads take as long as at 1 GB/s.
    let few = [("job.model.step", "\"20 ms\""), ("run.duration", "\"20 s\"")];
    within(by(&outcome(&[&[gate], &few[..]].concat()), 20.0), 1000.0, 0.01, "half the demand");
}

/// Two jobs on a node, one that reads files of 10 kB and one that reads files of 4 MB, with a disk of 100 MB/s.
const MIXED: &str = r#"
name = "mixed"
run = { duration = "10 s", warm_up = "off", replications = 1 }
cluster = { nodes = 1, share_nodes = true, node = { cores = 64, page_cache = "none" } }
storage.s.local-disk = { bandwidth = "100 MB/s", per_stream = "250 MB/s" }
dataset.small = { samples = 1000000, sample_size = "10 kB" }
dataset.large = { samples = 1000000, sample_size = "4 MB" }
[[job]]
name = "small"
dataset = "small"
storage = "s"
batch = 1
loader.tf-queue = { threads = 1, capacity = "2 samples" }
model.step = "1 us"
[[job]]
name = "large"
dataset = "large"
storage = "s"
batch = 1
loader.tf-queue = { threads = 1, capacity = "2 samples" }
model.step = "1 us"
"#;

#[test]
fn behind_a_gate_small_reads_get_several_turns_for_each_large_one() {
    // System: a disk that serves in order, as many requests at once as reach its bandwidth. Expectation: at a steady 100 MB/s that is one
    // request, so the two readers take turns; behind a gate of the same rate, the disk itself gives 1 GB/s to four requests at once.
    let ratio = |changes: &[(&str, &str)]| {
        let found = simulate(&written(MIXED, changes));
        found.jobs[0].steps.len() as f64 / found.jobs[1].steps.len() as f64
    };
    within(ratio(&[]), 1.0, 0.1, "turns");
    let gate = ("storage.s.local-disk.burst", "{ bandwidth = \"1 GB/s\", period = \"100 ms\" }");
    let found = ratio(&[gate]);
    assert!(found > 10.0, "{found}");
}

#[test]
fn no_storage_gives_more_than_its_bucket_and_its_sustained_rate() {
    // System: buckets, levels, periods and demands from a seeded generator, with writes and reads. Expectation: at the end, the bytes that
    // the server has served are at most what the bucket held and what it has gained, and at most its burst bandwidth times the time.
    let mut draws = Draws(5);
    for _ in 0..40 {
        let sustained = draws.log_uniform(20.0, 500.0);
        let fast = sustained * draws.uniform(1.05, 20.0);
        let size = fast * draws.log_uniform(0.002, 5.0);
        let level = draws.uniform(0.0, 1.0);
        let period = if draws.whether() { ", period = \"50 ms\"" } else { "" };
        let burst = format!(
            "{{ bandwidth = \"{fast} MB/s\", bucket = \"{size} MB\", level = {level}{period} }}"
        );
        let step = format!("\"{} ms\"", draws.log_uniform(0.1, 30.0));
        let rate = format!("\"{sustained} MB/s\"");
        let scenario = written(
            SERVER,
            &[
                ("run.duration", "\"5 s\""),
                ("storage.s.file-server.bandwidth", &rate),
                ("job.model.step", &step),
                (BURST, &burst),
            ],
        );
        let found = simulate(&scenario);
        let (bucket, served) = (scenario.storage[0].path.burst.expect("a burst"), server(&found));
        let most = (bucket.content + sustained * 1e6 * 5.0).min(fast * 1e6 * 5.0);
        assert!(served.served <= most * (1.0 + 1e-6), "{burst}: {} of {most}", served.served);
        assert!(served.utilisation <= 1.0 + 1e-6, "{burst}: {}", served.utilisation);
        assert_eq!(found, simulate(&scenario), "{burst}: the same again");
    }
}

#[test]
fn each_node_has_a_bucket_for_its_own_disk() {
    // System: a job on each of two nodes with disks of 3 GB of bursts, the second job 30 s later. Expectation: both have their own 10 s.
    let disks = SERVER.replace("file-server", "local-disk");
    let changes = [
        ("storage.s.local-disk.burst", BUCKET.1),
        ("cluster.nodes", "2"),
        ("job.copies", "2"),
        ("job.stagger", "\"30 s\""),
        ("run.duration", "\"50 s\""),
    ];
    let found = simulate(&written(&disks, &changes));
    let disk = server(&found);
    assert_eq!(disk.count, 2);
    within(by(&found, 50.0), 8000.0, 0.01, "the first");
    let second = found.jobs[1].steps.len() as f64;
    within(second, 5000.0, 0.01, "the second");
    within(disk.burst.expect("buckets").emptied.expect("empty"), 10.0, 0.01, "the first bucket");
    within(disk.burst.expect("buckets").drawn, 6e9, 0.01, "both buckets");
}

#[test]
fn faults_slow_a_bucket_and_its_link() {
    // System: half the speed for the whole run. Expectation: 50 MB/s without bursts; 200 MB/s while a bucket of 3 GB, which loses 150 MB/s,
    // lasts.
    let slow = ("fault", "[{ storage = \"s\", factor = 0.5, from = \"0 s\" }]");
    within(by(&outcome(&[BUCKET, EMPTY, slow]), 60.0), 3000.0, 0.01, "without bursts");
    let found = outcome(&[BUCKET, slow]);
    within(by(&found, 20.0), 4000.0, 0.01, "while it lasts");
    within(by(&found, 60.0), 6000.0, 0.01, "in the end");
}

#[test]
fn a_run_says_that_it_lived_on_the_bucket() {
    let said = |changes: &[(&str, &str)]| {
        let scenario = written(SERVER, changes);
        let found = simulate(&scenario);
        let report = summarise(&scenario, &[found], 0.0);
        report.warnings.into_iter().filter(|of| of.contains("token bucket")).collect::<Vec<_>>()
    };
    let [found] = &said(&[BUCKET])[..] else { panic!("one remark") };
    for part in ["`s` (3 GB)", "was empty after 10", "400 MB/s", "100 MB/s in the long run"] {
        assert!(found.contains(part), "{part}: {found}");
    }
    let [found] = &said(&[BUCKET, ("run.duration", "\"6 s\"")])[..] else { panic!("one remark") };
    assert!(found.contains("lasted for the whole run (5.99 s)"), "{found}");
    let setting = "`--set storage.s.file-server.burst.level=0`";
    assert!(found.contains(setting), "{found}");
    assert_eq!(said(&[BUCKET, EMPTY]), [""; 0]);
    assert_eq!(said(&[(BURST, "{ bandwidth = \"1 GB/s\", period = \"100 ms\" }")]), [""; 0]);
}

#[test]
fn a_verdict_on_a_run_that_lives_on_its_bucket_is_one_on_the_sustained_rate() {
    // System: steps of 4 ms that need 250 MB/s, in a run of 12 s that the bucket feeds. Expectation: the bandwidth is what the job needs,
    // as without bursts, with a step of 10 ms before, and of 5 ms with twice the bandwidth.
    let changes = [("job.model.step", "\"4 ms\""), ("run.duration", "\"12 s\"")];
    let without = judged(&Case::written(SERVER, &changes)).1;
    let (report, verdict) = judged(&Case::written(SERVER, &[&changes[..], &[BUCKET]].concat()));
    let step = report.jobs[0].figures.step_time.mean.expect("steps");
    within(step, 4e-3, 0.02, "the run itself");
    let [found, expected] = [&verdict, &without].map(|verdict| first(verdict, "bandwidth"));
    within(found.after, 5e-3, 0.02, "with twice the bandwidth");
    within(found.after, expected.after, 0.02, "as without bursts");
    assert!(verdict.text.contains("10 ms"), "{}", verdict.text);
}

/// A server of 100 operations per second, with a bucket of them.
const OPENS: &str = "storage.s.file-server";
const CREDITS: (&str, &str) = (
    OPENS,
    "{ bandwidth = \"10 GB/s\", operations = \"100 /s\", burst = { operations = \"400 /s\", operations_bucket = 3000 } }",
);
const GATED: (&str, &str) = (
    OPENS,
    "{ bandwidth = \"10 GB/s\", operations = \"100 /s\", burst = { operations_bucket = 10, period = \"100 ms\" } }",
);

#[test]
fn a_bucket_of_operations_lasts_for_its_operations_over_what_it_loses() {
    // System: 3,000 operations, of which 400 a second are taken and 100 a second come in. Expectation: 400 samples a second for 10 s, then
    // 100 a second.
    let found = outcome(&[CREDITS]);
    for (seconds, samples) in [(5.0, 2000.0), (9.9, 3960.0), (20.0, 5000.0), (60.0, 9000.0)] {
        within(by(&found, seconds), samples, 0.01, &format!("by {seconds} s"));
    }
    let of = found.resources.iter().find(|of| of.name == "s.operations").expect("there");
    let burst = of.burst.expect("a bucket");
    within(burst.drawn, 3000.0, 0.01, "all operations of the bucket");
    within(burst.emptied.expect("empty"), 10.0, 0.01, "the end of the bucket");
    within(of.capacity, 150.0, 0.01, "the mean of what it could give");
    within(of.utilisation, 1.0, 0.01, "all of it");
    let scenario = written(SERVER, &[CREDITS]);
    let warnings = summarise(&scenario, &[found], 0.0).warnings;
    let said = warnings.iter().find(|of| of.contains("token bucket")).expect("a warning");
    for part in ["`s` (3 k operations)", "was empty after 9.99", "400 /s", "100 /s in the long run"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_gate_does_not_hold_back_a_reader_that_asks_for_less_than_it_allows() {
    // System: one thread that decodes for 11 ms, on four cores, behind a gate of 100 operations per second; without the gate, each operation
    // takes 10 ms. Expectation: 91 samples per second behind the gate, and 48 without. Four threads get 100 per second behind either.
    let rate = |changes: &[(&str, &str)], threads: &str| {
        let loader = format!(
            "{{ tf-queue = {{ threads = {threads}, capacity = \"8 samples\", decode = \"11 ms\" }} }}"
        );
        let all = [changes, &[("job.loader", &loader)]].concat();
        by(&outcome(&all), 60.0) / 60.0
    };
    let station = [(OPENS, "{ bandwidth = \"10 GB/s\", operations = \"100 /s\" }")];
    within(rate(&[GATED], "1"), 1.0 / 11e-3, 0.02, "behind the gate");
    within(rate(&station, "1"), 1.0 / 21e-3, 0.02, "one after the other");
    within(rate(&[GATED], "4"), 100.0, 0.01, "the gate's limit");
    within(rate(&station, "4"), 100.0, 0.01, "the station's limit");
    let busy = outcome(&[GATED]);
    let of = busy.resources.iter().find(|of| of.name == "s.operations").expect("there");
    within(of.utilisation, 1.0, 0.01, "all that the gate allows");
}

#[test]
fn a_bucket_of_operations_needs_a_limit_of_operations() {
    let free = (OPENS, "{ bandwidth = \"10 GB/s\", burst = { operations_bucket = 10 } }");
    let remarks = written(SERVER, &[free]).remarks;
    assert!(
        remarks.iter().any(|of| of.contains("nothing limits the storage's operations")),
        "{remarks:?}"
    );
}

#[test]
fn a_bucket_that_the_bandwidth_overtakes_has_no_effect() {
    let fast = ("storage.s.file-server.bandwidth", "\"500 MB/s\"");
    let scenario = written(SERVER, &[BUCKET, fast]);
    let remarks = &scenario.remarks;
    assert!(remarks.iter().any(|of| of.contains("burst` has no effect")), "{remarks:?}");
    let ends = |scenario| simulate(scenario).jobs.remove(0).steps.len();
    assert_eq!(ends(&scenario), ends(&written(SERVER, &[fast])));
}

#[test]
fn buckets_that_contradict_the_storage_are_refused() {
    let file = ScenarioFile::parse("test.toml", SERVER.to_owned()).expect("a scenario");
    let refusal = |storage: &str| {
        let set = format!("storage.s={storage}").parse().expect("an override");
        file.resolve(&[set]).expect_err("a refusal").to_string()
    };
    let fast = "bandwidth = \"400 MB/s\"";
    let rows = [
        (
            format!(
                "{{ file-server = {{ bandwidth = [\"50 MB/s\", \"100 MB/s\"], burst = {{ {fast}, bucket = \"1 GB\" }} }} }}"
            ),
            "one value for the storage's `bandwidth`",
        ),
        (
            format!("{{ file-server = {{ bandwidth = \"100 MB/s\", burst = {{ {fast} }} }} }}"),
            "the key `bucket` is missing",
        ),
        (
            "{ file-server = { bandwidth = \"100 MB/s\", burst = { bucket = \"1 GB\", level = 1 } } }"
                .to_owned(),
            "the key `bandwidth` is missing",
        ),
        (
            format!(
                "{{ file-server = {{ bandwidth = \"100 MB/s\", burst = {{ {fast}, bucket = \"1 kB\" }} }} }}"
            ),
            "empty in less than a millisecond",
        ),
        (
            format!(
                "{{ file-server = {{ bandwidth = \"100 MB/s\", burst = {{ {fast}, period = \"1 us\" }} }} }}"
            ),
            "write at least \"1 ms\"",
        ),
        (
            format!(
                "{{ parallel-fs = {{ targets = 4, target_bandwidth = \"1 GB/s\", burst = {{ {fast}, bucket = \"1 GB\" }} }} }}"
            ),
            "a storage whose bandwidth is not limited has no bursts",
        ),
        (
            format!(
                "{{ local-disk = {{ bandwidth = \"100 MB/s\", seek = \"8 ms\", burst = {{ {fast}, bucket = \"1 GB\" }} }} }}"
            ),
            "leave it out, or leave out `seek`",
        ),
    ];
    for (storage, words) in rows {
        let found = refusal(&storage);
        assert!(found.contains(words), "{storage}: {found}");
    }
}
