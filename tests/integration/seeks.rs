//! Hard disks: the cost of seeks, compared with calculations by hand.

use super::base::{base, changed};
use super::runs::{simulate, steady};
use super::support::{Place, SCENARIO};
use forebay::report::{Outcome, summarise};
use forebay::scenario::{Scenario, ScenarioFile};

/// Returns a scenario with `readers` readers of samples of 100 kB from disks of 100 MB/s with seeks of 8 ms, in
/// batches of 10.
fn scenario(readers: u32, changes: &[(&str, &str)]) -> Scenario {
    let loader = format!("{{ threads = {readers}, capacity = \"10 samples\", decode = \"0 s\" }}");
    let disk = "{ local-disk = { bandwidth = \"100 MB/s\", seek = \"8 ms\" } }";
    let all = [
        ("storage.s", disk),
        ("dataset.d.samples", "10000"),
        ("job.batch", "10"),
        ("job.loader.tf-queue", &loader),
        ("job.model.step", "\"1 us\""),
        ("run.steps", "200"),
    ];
    changed(&[&all[..], changes].concat())
}

fn outcome(readers: u32, changes: &[(&str, &str)]) -> Outcome {
    simulate(&scenario(readers, changes))
}

/// Returns the time per sample [ms].
fn sample(readers: u32, changes: &[(&str, &str)]) -> f64 {
    steady(&outcome(readers, changes), 20).step * 100.0
}

fn near(what: &str, found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() < tolerance, "{what}: {found}, not {expected}");
}

const SEQUENTIAL: (&str, &str) = ("dataset.d.order", "\"sequential\"");
const LAYOUT: &str = "dataset.d.layout";

#[test]
fn reads_in_random_order_pay_a_seek_each() {
    // System: files in a new random order. Expectation: a seek of 8 ms and a transfer of 1 ms each, whatever
    // the number of readers.
    near("one", sample(1, &[]), 9.0, 0.01);
    near("four", sample(4, &[]), 9.0, 0.01);
    near("an array", sample(2, &[(LAYOUT, "{ raw = {} }")]), 9.0, 0.01);
    let all = outcome(4, &[]);
    let arm = all.resources.iter().find(|r| r.name == "s.arm").expect("there");
    near("busy", arm.utilisation, 1.0, 0.01);
    near("in line", arm.mean_flows, 4.0, 0.02);
    let report = summarise(&scenario(4, &[]), std::slice::from_ref(&all), 0.0);
    let found = report.bottleneck.expect("a bottleneck");
    assert_eq!((found.resource.as_str(), found.cause.as_str()), ("s.arm", "latency"));
    assert!(found.text.contains("a solid-state disk"), "{}", found.text);
    let of = |name: &str| -> f64 {
        let stalls = all.jobs[0].stalls.iter().filter(|s| s.cause.to_string() == name);
        stalls.map(|stall| stall.seconds).sum()
    };
    assert!(of("latency") > 8.0 * of("transfer"), "{} {}", of("latency"), of("transfer"));
}

#[test]
fn sequential_reads_pay_no_seek() {
    near("files as they lie", sample(1, &[SEQUENTIAL]), 1.0, 0.01);
    near("in line for them", sample(4, &[SEQUENTIAL]), 1.0, 0.01);
    near("an array", sample(1, &[SEQUENTIAL, (LAYOUT, "{ raw = {} }")]), 1.0, 0.01);
    // Shards of 10 MB in requests of 1 MB: a seek for each shard, or for each request where four shards are
    // read in turns.
    let shards = (LAYOUT, "{ shards = { samples = 100, request = \"1 MB\" } }");
    near("a stream", sample(1, &[shards]), 1.08, 0.02);
    near("four streams", sample(4, &[shards]), 1.8, 0.02);
    near("one as it lies", sample(1, &[shards, SEQUENTIAL]), 1.0, 0.01);
    // Column chunks that are adjacent, and some with unread columns in between.
    let columns = |read: &str| {
        let layout = format!("{{ parquet = {{ row_group = 100, columns = 4, read = {read} }} }}");
        outcome(1, &[(LAYOUT, &layout), ("run.steps", "500")]).makespan * 1e3 / 5000.0
    };
    near("all columns", columns("1"), 1.08, 0.02);
    near("some columns", columns("0.5"), 0.82, 0.02);
    // Ten requests for a sample, four of them ahead.
    let large = ("dataset.d.sample_size", "\"1 MB\"");
    let ahead = (LAYOUT, "{ file-per-sample = { request = \"100 kB\", readahead = 4 } }");
    near("ahead", sample(1, &[large, ahead]), 18.0, 0.01);
}

#[test]
fn jobs_on_a_node_share_a_disk_arm() {
    // System: two copies of a job on a node, each reads its files in order, half an epoch apart. Expectation: a
    // seek for each file; none where each has a disk of its own.
    let two = [SEQUENTIAL, ("job.copies", "2"), ("job.stagger", "\"5 s\"")];
    let shared =
        outcome(1, &[&two[..], &[("cluster.share_nodes", "true"), ("run.steps", "1000")]].concat());
    let first = &shared.jobs[0].steps;
    near("shared", (first[999].end - first[899].end) * 1e3 / 1000.0, 18.0, 0.01);
    near("apart", sample(1, &two), 1.0, 0.01);
}

#[test]
fn hard_disks_read_random_files_at_the_measured_rate() {
    // Mohan et al., VLDB 2021, table 3: 15 to 50 MB/s of random reads of ImageNet's files, 110 kB on average,
    // from hard disks. Expectation: that range, with seeks of 1.5 to 6 ms between queued requests and a
    // bandwidth of 150 MB/s.
    let rate = |seek: &str| {
        let disk = format!("{{ local-disk = {{ bandwidth = \"150 MB/s\", seek = \"{seek}\" }} }}");
        let size = ("dataset.d.sample_size", "{ lognormal = { mean = \"110 kB\", cv = 0.5 } }");
        110.0 / sample(8, &[("storage.s", &disk), size])
    };
    let (slow, fast) = (rate("6 ms"), rate("1.5 ms"));
    assert!(slow > 15.0 && slow < 18.0, "{slow}");
    assert!(fast > 45.0 && fast < 50.0, "{fast}");
}

#[test]
fn seek_times_are_refused_for_warm_reads_and_live_runs() {
    let file = ScenarioFile::parse("test.toml", base()).expect("a scenario");
    let resolve = |disk: &str| {
        let set = format!("storage.s={{ local-disk = {{ {disk} }} }}");
        file.resolve(&[set.parse().expect("an override")])
    };
    let warm = resolve("bandwidth = \"1 GB/s\", seek = \"8 ms\", access = \"warm\"");
    assert!(warm.expect_err("refused").to_string().contains("need no seeks"));
    let list =
        resolve("bandwidth = [\"1 GB/s\", \"2 GB/s\"], seek = \"8 ms\"").expect("a scenario");
    assert!(
        list.remarks.iter().any(|remark| remark.contains("only the first")),
        "{:?}",
        list.remarks
    );
    let place = Place::new();
    let (from, to) =
        (SCENARIO.find("[storage").expect("there"), SCENARIO.find("[dataset").expect("there"));
    let disk = "[storage.disk.local-disk]\nbandwidth = \"100 MB/s\"\nseek = \"8 ms\"\n";
    place.write("s.toml", &format!("{}{disk}{}", &SCENARIO[..from], &SCENARIO[to..]));
    let sets = ["live", "s.toml", "--set", "job.copies=1", "--set", "cluster.node.cores=1"];
    let live = place.forebay(&sets).assert().code(3);
    let error = String::from_utf8_lossy(&live.get_output().stderr).into_owned();
    assert!(error.contains("leave out `seek`"), "{error}");
}
