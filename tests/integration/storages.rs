//! Parallel file systems: files striped over targets, by the pencil.

use super::runs::{simulate, steady, written};
use forebay::report::Outcome;
use forebay::scenario::ScenarioFile;

/// Files of 1 MB in order, a batch of one; four targets of 100 MB/s.
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
fn a_file_is_as_fast_as_the_targets_that_it_is_on() {
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
    // Each request of a stripe goes to one target, the next one to the next.
    let records =
        "sample_size = \"1048576 B\"\nlayout.shards = { samples = 8, request = \"1 MiB\" }";
    near("records", step(1, "targets = 4\nstripe_count = 4", records), 10.486e-3);
}

#[test]
fn readers_share_targets_and_what_all_have_in_common() {
    // System: four nodes that read files 4i to 4i + 3 at once. Expectation: each has a target of its own
    // while files lie one by one on four targets; on two, two readers share each.
    near("a target each", step(4, "targets = 4", FILE), 10e-3);
    near("two for four", step(4, "targets = 2", FILE), 20e-3);
    let all = |rate: &str| step(4, &format!("targets = 4\nbandwidth = \"{rate}\""), FILE);
    near("all together", all("100 MB/s"), 40e-3);
    // Placed by chance, some targets have two readers and some none.
    let shuffled = format!("{FILE}\norder = \"shuffled\"");
    let text = text(4, "targets = 4", &shuffled, "").replace("order = \"sequential\"\n", "");
    let by_chance = steady(&simulate(&written(&text, &[])), 20).step;
    assert!(by_chance > 15e-3 && by_chance < 30e-3, "{by_chance}");
}

#[test]
fn bytes_are_served_by_targets() {
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

#[test]
fn what_cannot_be_striped_is_refused() {
    let refused = |nodes: u32, storage: &str, more: &str| {
        let file = ScenarioFile::parse("x.toml", text(nodes, storage, FILE, more))
            .and_then(|file| file.resolve(&[]));
        file.expect_err("refused").to_string()
    };
    let stripes = refused(1, "targets = 4\nstripe_count = 5", "");
    assert!(stripes.contains("cannot be on 5 of 4 targets"), "{stripes}");
    let missing = refused(1, "stripe_count = 1", "");
    assert!(missing.contains("write `targets = 16`"), "{missing}");
    let ways = refused(1000, "targets = 1000\nstripe_count = 100", "");
    assert!(ways.contains("ways to the targets"), "{ways}");
    let load = "[[background]]\nname = \"b\"\nstorage = \"scratch\"\nstreams = { streams = 4 }";
    let load = refused(1, "targets = 4", load);
    assert!(load.contains("no load from elsewhere is simulated on the targets"), "{load}");
}
