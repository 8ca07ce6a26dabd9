//! Parallel file systems and object stores, compared with calculations by hand.

use super::runs::{simulate, steady, written};
use forebay::report::{Cause, Outcome};
use forebay::scenario::ScenarioFile;

/// Returns a job that reads files of 1 MB in order, a batch of one, from targets of 100 MB/s.
fn text(nodes: u32, storage: &str, dataset: &str, more: &str) -> String {
    format!(
        r#"# What do targets and stripes do?
name = "striped"
[run]
steps = 200
warm_up = "off"
replications = 1
[cluster]
nodes = {nodes}
node = {{ cores = 4, gpus = 1 }}
[storage.scratch.parallel-fs]
target_bandwidth = "100 MB/s"
{storage}
[dataset.d]
samples = 4000
order = "sequential"
{dataset}
[[job]]
name = "j"
dataset = "d"
storage = "scratch"
batch = 1
nodes = {nodes}
loader.tf-queue = {{ threads = 1, capacity = "1 samples" }}
model.step = "1 us"
{more}
"#
    )
}

fn run(nodes: u32, storage: &str, dataset: &str) -> Outcome {
    simulate(&written(&text(nodes, storage, dataset, ""), &[]))
}

fn step(nodes: u32, storage: &str, dataset: &str) -> f64 {
    steady(&run(nodes, storage, dataset), 20).step
}

const FILE: &str = "sample_size = \"1 MB\"";
const LARGE: &str = "sample_size = \"4194304 B\"";

fn near(what: &str, found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.01, "{what}: {found}, not {expected}");
}

#[test]
fn a_file_is_read_at_the_rate_of_its_storage_targets() {
    near("one target", step(1, "targets = 4", FILE), 10e-3);
    near("more targets", step(1, "targets = 400", FILE), 10e-3);
    near("four stripes of a file", step(1, "targets = 4\nstripe_count = 4", LARGE), 10.486e-3);
    near("two stripes", step(1, "targets = 4\nstripe_count = 2", LARGE), 20.97e-3);
    near("a file of one stripe", step(1, "targets = 4\nstripe_count = 4", FILE), 10e-3);
    let thin = "targets = 4\nstripe_count = 4\nstripe_size = \"64 KiB\"";
    near("thin stripes", step(1, thin, FILE), 2.5e-3);
    near("per stream", step(1, &format!("{thin}\nper_stream = \"50 MB/s\""), FILE), 20e-3);
    near("opens", step(1, &format!("{thin}\noperations = \"20 /s\""), FILE), 52.5e-3);
    near("latency", step(1, &format!("{thin}\nlatency = \"5 ms\""), FILE), 7.5e-3);
    // Each request of a stripe goes to one target, and the next request to the next target.
    let records =
        "sample_size = \"1048576 B\"\nlayout.shards = { samples = 8, request = \"1 MiB\" }";
    near("records", step(1, "targets = 4\nstripe_count = 4", records), 10.486e-3);
}

#[test]
fn readers_share_storage_targets_and_the_total_bandwidth() {
    // System: four nodes that read files 4i to 4i + 3 at once. Expectation: with four targets each node has a
    // target of its own; with two targets, two readers share each.
    near("a target each", step(4, "targets = 4", FILE), 10e-3);
    near("two for four", step(4, "targets = 2", FILE), 20e-3);
    let all = |rate: &str| step(4, &format!("targets = 4\nbandwidth = \"{rate}\""), FILE);
    near("all together", all("100 MB/s"), 40e-3);
    // With random order, some targets have two readers and some none.
    let shuffled = format!("{FILE}\norder = \"shuffled\"");
    let text = text(4, "targets = 4", &shuffled, "").replace("order = \"sequential\"\n", "");
    let by_chance = steady(&simulate(&written(&text, &[])), 20).step;
    assert!(by_chance > 15e-3 && by_chance < 30e-3, "{by_chance}");
}

#[test]
fn first_stripes_are_spread_over_targets_whatever_the_stripe_count() {
    // System: four nodes that read files of one stripe, 4i to 4i + 3 at once, from four targets. Expectation: a
    // target for each node where files begin on different targets, whatever the stripe count; all on one target
    // with a fixed `stripe_offset`.
    for count in [1, 3, 4] {
        let targets = format!("targets = 4\nstripe_count = {count}");
        let found = step(4, &targets, FILE);
        // With three stripes, files begin on targets 0, 3, 2, 1. (With two stripes, Lustre puts two of four on
        // one target: 0, 2, 0, 3.)
        near(&format!("{count} stripes"), found, 10e-3);
        let fixed = step(4, &format!("{targets}\nstripe_offset = 2"), FILE);
        near(&format!("{count} stripes, all from one"), fixed, 40e-3);
    }
    let word = step(4, "targets = 4\nstripe_count = 4\nstripe_offset = \"round-robin\"", FILE);
    near("by its name", word, 10e-3);
}

#[test]
fn shards_and_single_file_data_sets_begin_on_different_targets() {
    // System: four nodes that read a shard each at once, of four requests of a stripe, with files on all four
    // targets. Expectation: they begin on different targets and advance in step, so that no two use the same
    // target.
    let shards =
        "sample_size = \"1048576 B\"\nlayout.shards = { samples = 4, request = \"1 MiB\" }";
    near("shards", step(4, "targets = 4\nstripe_count = 4", shards), 10.486e-3);
    // Two jobs, each with a data set in one file of which its node reads stripe after stripe.
    let one = "sample_size = \"1048576 B\"\nlayout.raw = {}";
    let second = "[dataset.e]\nsamples = 4000\norder = \"sequential\"\n".to_owned() + one;
    let text = text(1, "targets = 2\nstripe_count = 2", one, "");
    let (all, job) = text.split_once("[[job]]").expect("a job");
    let other =
        job.replace("name = \"j\"", "name = \"k\"").replace("dataset = \"d\"", "dataset = \"e\"");
    let both = format!("{all}{second}\n[[job]]{job}[[job]]{other}")
        .replace("nodes = 1\nnode", "nodes = 2\nnode");
    let outcome = simulate(&written(&both, &[]));
    near("two files", steady(&outcome, 20).step, 10.486e-3);
}

#[test]
fn all_bytes_are_served_by_storage_targets() {
    let outcome = run(4, "targets = 4\nstripe_count = 3", LARGE);
    let target = outcome.resources.iter().find(|of| of.name == "scratch.target").expect("targets");
    let read = outcome.jobs[0].samples.enqueued as f64 * 4_194_304.0;
    assert_eq!((target.count, target.capacity), (4, 100e6));
    assert!(
        target.served >= 0.999 * read && target.served < 1.05 * read,
        "{} of {read}",
        target.served
    );
}

/// Returns the outcome of one job on an object store, with this number of workers and these keys of the data
/// set.
fn objects(workers: u32, storage: &str, dataset: &str) -> Outcome {
    let text = text(1, "", dataset, "")
        .replace("steps = 200", "epochs = 0.25")
        .replace("parallel-fs", "object-store")
        .replace("target_bandwidth = \"100 MB/s\"", storage)
        .replace(
            "threads = 1, capacity = \"1 samples\"",
            &format!("threads = {workers}, capacity = \"9 samples\""),
        );
    simulate(&written(&text, &[]))
}

#[test]
fn an_object_store_is_limited_by_connections_and_requests() {
    let step = |workers, storage: &str| steady(&objects(workers, storage, FILE), 40).step;
    near("a connection", step(1, "per_connection = \"50 MB/s\""), 20e-3);
    near("four", step(4, "per_connection = \"50 MB/s\""), 5e-3);
    near("first bytes", step(4, "per_connection = \"50 MB/s\"\nlatency = \"20 ms\""), 10e-3);
    near("all together", step(4, "per_connection = \"50 MB/s\"\nbandwidth = \"100 MB/s\""), 10e-3);
    // Below the limit no request is refused; above it no more are served, and back-off wastes some capacity.
    let limited = |more: &str| step(8, &format!("latency = \"20 ms\"\nrequests = {more}"));
    near("below", limited("\"1000 /s\""), 2.5e-3);
    let above = |burst: u32, first: &str, most: &str| {
        limited(&format!(
            "\"100 /s\"\nburst = {burst}\nretry = {{ first = \"{first}\", most = \"{most}\" }}"
        ))
    };
    let (short, capped) = (above(1, "10 ms", "10 ms"), above(20, "1 s", "1 s"));
    assert!((10e-3..11.5e-3).contains(&short), "{short}");
    assert!((9.9e-3..11.5e-3).contains(&capped), "{capped}");
    // Doubling waits leave the store idle though all workers wait for it.
    let doubled = above(20, "1 s", "20 s");
    assert!(doubled > 1.3 * capped, "{doubled} after {capped}");
    let rarely = above(1, "1 s", "1 s");
    assert!(rarely > 1.1 * capped, "nothing is saved up for those who come late: {rarely}");
    near("a burst", limited("\"10 /s\"\nburst = 1000"), 2.5e-3);
    let starved = objects(8, "requests = \"50 /s\"\nburst = 1", FILE);
    let requests = starved
        .resources
        .iter()
        .find(|of| of.name == "s.requests" || of.name.ends_with(".requests"));
    let requests = requests.expect("requests");
    assert!(requests.served >= 200.0 && requests.mean_flows > 1.0, "{requests:?}");
    let stalls = &starved.jobs[0].stalls;
    let of =
        |cause| stalls.iter().filter(|s| s.cause.cause == cause).map(|s| s.seconds).sum::<f64>();
    assert!(of(Cause::Open) > 0.9 * stalls.iter().map(|stall| stall.seconds).sum::<f64>());
    // Each range of a shard is a request.
    let ranges =
        "sample_size = \"1048576 B\"\nlayout.shards = { samples = 8, request = \"512 KiB\" }";
    let shard = steady(
        &objects(
            1,
            "requests = \"10 /s\"\nburst = 1\nretry = { first = \"1 ms\", most = \"5 ms\" }",
            ranges,
        ),
        40,
    );
    assert!(shard.step > 0.2 && shard.step < 0.24, "{}", shard.step);
}

#[test]
fn invalid_striping_and_object_store_settings_are_refused() {
    let refused = |nodes: u32, storage: &str, more: &str| {
        let file = ScenarioFile::parse("x.toml", text(nodes, storage, FILE, more))
            .and_then(|file| file.resolve(&[]));
        file.expect_err("refused").to_string()
    };
    let stripes = refused(1, "targets = 4\nstripe_count = 5", "");
    assert!(stripes.contains("cannot be on 5 of 4 targets"), "{stripes}");
    let offset = refused(1, "targets = 4\nstripe_offset = 4", "");
    assert!(offset.contains("cannot begin on target 4 of 4"), "{offset}");
    assert!(offset.contains("write 0 to 3, or \"round-robin\""), "{offset}");
    let word = refused(1, "targets = 4\nstripe_offset = \"anywhere\"", "");
    assert!(word.contains("\"round-robin\" or the number of a target"), "{word}");
    let missing = refused(1, "stripe_count = 1", "");
    assert!(missing.contains("write `targets = 16`"), "{missing}");
    let ways = refused(1000, "targets = 1000\nstripe_count = 100", "");
    assert!(ways.contains("routes to the targets"), "{ways}");
    // The largest values that can be written, all at once: no product of them overflows.
    let most = "[job.parallel.data]\ncopies_per_node = 10000\nloaders = \"per-rank\"";
    let most = text(1_000_000, "targets = 10000\nstripe_count = 10000", FILE, most)
        .replace("gpus = 1", "gpus = 10000")
        .replace("name = \"j\"", "name = \"j\"\ncopies = 1000000");
    let most = ScenarioFile::parse("x.toml", most).and_then(|file| file.resolve(&[]));
    assert!(most.expect_err("refused").to_string().contains("routes to the targets"));
    let objects = text(1, "", FILE, "").replace("parallel-fs", "object-store");
    let objects = |with: &str| {
        let text = objects.replace("target_bandwidth = \"100 MB/s\"", with);
        ScenarioFile::parse("x.toml", text).and_then(|file| file.resolve(&[]))
    };
    let endless = objects("requests = \"1 /s\"\nretry.most = \"1 us\"").expect_err("refused");
    assert!(endless.to_string().contains("retried without end"), "{endless}");
    let remarks = objects("burst = 4").expect("a scenario").remarks.join("\n");
    assert!(remarks.contains("burst` has no effect: `requests` is not set"), "{remarks}");
    let load = "[[background]]\nname = \"b\"\nstorage = \"scratch\"\nstreams = { streams = 4 }";
    let load = refused(1, "targets = 4", load);
    assert!(load.contains("background load on"), "{load}");
}
