//! Cases about reads and caches: page caches that hold files from the start, that are bypassed, or that do not exist, and
//! synthetic data.

use super::super::runs::{Draws, within, written};
use super::{case, refusal, report_of, resolved};
use forebay::report::Report;
use forebay::scenario::Scenario;
use forebay::sim::{self, Options};

/// Returns the mean step times in the first epoch and in later ones [s].
fn epochs(report: &Report) -> [f64; 2] {
    let job = &report.jobs[0];
    [&job.first_epoch, &job.later_epochs].map(|figures| {
        figures.as_ref().and_then(|figures| figures.step_time.mean).expect("steps in both")
    })
}

#[test]
fn access_decides_in_which_epochs_a_disk_is_read() {
    // System: batches of 40 files of 100 kB for steps of 20 ms. Four workers read from a disk of 50 MB/s, which serves one file after
    // the other in 2 ms, and decode a file in 1 ms beside the next ones' reads; all fits into memory. Expectation: four batches
    // every 160 · 2 ms from the disk, the last four in 20 ms each beside it; a step of 20 ms from memory, after 40 ms for the first
    // batch of an epoch. "warm": no read goes to the disk; "cold": those of the first epoch do; "direct" and "emulated": all do.
    let disk = (25.0 * 160.0 * 0.002 + 4.0 * 0.02) / 100.0;
    let memory = (40.0 * 0.001 + 100.0 * 0.02) / 100.0;
    let access = |how: &str| {
        report_of(&case("turn3/f16-access", &[("storage.disk.local-disk.access", how)]))
    };
    for (how, [first, later]) in [
        ("warm", [memory, memory]),
        ("cold", [disk, memory]),
        ("direct", [disk, disk]),
        ("emulated", [disk, disk]),
    ] {
        let found = epochs(&access(how));
        within(found[0], first, 0.02, &format!("{how}, first"));
        within(found[1], later, 0.02, &format!("{how}, later"));
    }
    let remarks =
        |how: &str| case("turn3/f16-access", &[("storage.disk.local-disk.access", how)]).remarks;
    assert!(remarks("warm")[0].contains("The limits of `storage.disk` have no effect"));
    for how in ["cold", "direct", "emulated"] {
        assert_eq!(remarks(how), [""; 0], "{how}");
    }
}

#[test]
fn access_has_no_effect_on_nodes_without_page_cache() {
    let without = |how| {
        let scenario = case(
            "turn3/f16-access",
            &[("storage.disk.local-disk.access", how), ("cluster.node.page_cache", "none")],
        );
        let [first, later] = epochs(&report_of(&scenario));
        within(later, first, 0.05, how);
        scenario.remarks
    };
    assert!(without("cold")[0].contains("`storage.disk.local-disk.access` has no effect"));
    assert!(without("direct")[0].contains("nodes have no page cache"));
    let warm = [("storage.disk.local-disk.access", "warm"), ("cluster.node.page_cache", "none")];
    assert!(refusal("turn3/f16-access", &warm).contains("the node has no page cache"));
    let small = [("storage.disk.local-disk.access", "warm"), ("cluster.node.memory", "300 MB")];
    assert!(refusal("turn3/f16-access", &small).contains("the data set in memory"));
    let small = [
        ("storage.disk.local-disk.access", "warm"),
        ("cluster.node.page_cache", "{ capacity = \"300 MB\" }"),
    ];
    assert!(refusal("turn3/f16-access", &small).contains("the page cache holds 300 MB of 400 MB"));
}

/// A loader whose reads alone take time, on a node with memory.
const READER: &str = r#"
name = "r"
run = { steps = 12, warm_up = "off", replications = 1 }
cluster = { nodes = 1, node = { gpus = 1, cores = 8, memory = "64 GiB" } }
[storage.s.local-disk]
bandwidth = "50 MB/s"
[dataset.d]
samples = 48
sample_size = "100 kB"
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 8
loader.tf-queue = { threads = 1, capacity = "8 samples" }
model.step = "1 us"
"#;

#[test]
fn reads_with_any_access_take_the_time_of_disk_or_page_cache() {
    // System: one thread reads `n` files of `b` bytes in each of two epochs, from a disk with a latency and a bandwidth of a
    // stream, or from a page cache of its own bandwidth; steps take no time. Expectation, for random parameters: the run ends
    // when the last file is read, n·(latency + b ÷ disk) for an epoch from the disk, n·b ÷ cache for one from the page cache.
    let mut draws = Draws(16);
    for round in 0..240 {
        let (bytes, disk) = (draws.uniform(1e4, 1e6).round(), draws.uniform(1e7, 1e9).round());
        let (cache, latency) =
            (draws.uniform(1e9, 1e10).round(), draws.uniform(0.0, 2e6).round() / 1e9);
        let (access, of) =
            [("cold", 1.0), ("warm", 0.0), ("direct", 2.0), ("emulated", 2.0)][round % 4];
        let layout = ["{ file-per-sample = {} }", "{ shards = { samples = 8 } }"][round / 4 % 2];
        let shards = layout.contains("shards");
        let request = if shards { bytes * 8.0 } else { bytes };
        let layout =
            layout.replace("samples = 8", &format!("samples = 8, request = \"{request} B\""));
        let scenario = written(
            READER,
            &[
                ("storage.s.local-disk.bandwidth", &format!("\"{disk} B/s\"")),
                ("storage.s.local-disk.latency", &format!("\"{} ns\"", latency * 1e9)),
                ("storage.s.local-disk.access", &format!("\"{access}\"")),
                ("cluster.node.page_cache", &format!("{{ bandwidth = \"{cache} B/s\" }}")),
                ("dataset.d.sample_size", &format!("\"{bytes} B\"")),
                ("dataset.d.layout", &layout),
            ],
        );
        let makespan = sim::run(&scenario, 0, &Options::default()).makespan;
        let requests = if shards { 6.0 } else { 48.0 };
        let (from_disk, from_cache) =
            (latency * requests + 48.0 * bytes / disk, 48.0 * bytes / cache);
        let expected = of * from_disk + (2.0 - of) * from_cache + 1e-6;
        let what = format!("{access} {layout} {bytes} {disk} {cache} {latency}");
        within(makespan, expected, 1e-3, &what);
    }
}

#[test]
fn warm_files_of_a_remote_target_do_not_cross_the_network() {
    let remote = [
        ("storage.s", "{ nvme-of = { bandwidth = \"50 MB/s\", queues = 2, access = \"warm\" } }"),
        ("cluster.network.nic", "\"10 MB/s\""),
        ("job.0.loader.tf-queue.decode", "\"1 ms\""),
    ];
    let warm = sim::run(&written(READER, &remote), 0, &Options::default());
    within(warm.makespan, 96.0 * 1e-3, 1e-2, "warm");
    assert!(warm.resources.iter().all(|of| !of.name.contains("nic") || of.served == 0.0));
}

#[test]
fn a_node_without_page_cache_needs_no_memory_to_track_it() {
    // System: 400 million files for three nodes. Expectation: it runs, 100 ms a step, and needs the memory of a small run; with a
    // page cache, the caches would track 1.2 billion files.
    let scenario = case("turn3/page-cache-none", &[("run.steps", "20"), ("run.replications", "1")]);
    let report = report_of(&scenario);
    within(report.jobs[0].figures.step_time.mean.expect("steps"), 0.1, 1e-3, "step");
    assert!(sim::memory(&scenario).world < 1e7);
    assert!(
        refusal("turn3/page-cache-none", &[("cluster.node.page_cache", "{ capacity = \"1 GB\" }")])
            .contains("would have to track 1200000000 files")
    );
    let direct = |access: &str| -> Result<Scenario, String> {
        let changes = [
            (
                "storage.fs",
                format!("{{ local-disk = {{ bandwidth = \"100 GB/s\", access = \"{access}\" }} }}"),
            ),
            ("cluster.node.page_cache", "{ capacity = \"1 GB\" }".to_owned()),
        ];
        let changes = changes.each_ref().map(|(key, value)| (*key, value.as_str()));
        resolved("turn3/page-cache-none", &changes)
    };
    assert!(direct("cold").is_err());
    // Nothing that bypasses the page cache is tracked.
    let bypassed = direct("direct").expect("a scenario");
    assert!(sim::memory(&bypassed).world < 1e7);
}

#[test]
fn synthetic_data_need_no_memory_and_have_no_first_epoch() {
    let all = case("turn3/f15-synthetic", &[]);
    let report = report_of(&all);
    assert!(report.jobs[0].first_epoch.is_none() && report.jobs[0].later_epochs.is_none());
    within(report.jobs[0].figures.step_time.mean.expect("steps"), 0.78, 1e-3, "step");
    // 140.9 GB of data, and nodes of 64 GiB.
    let large = report_of(&case("turn3/f17-synthetic-refused", &[]));
    within(large.jobs[0].figures.step_time.mean.expect("steps"), 0.78, 1e-3, "step");
    // Reading the same data is refused.
    let reads = [("job.loader", "{ tf-queue = { threads = 1, capacity = \"64 samples\" } }")];
    assert!(refusal("turn3/f17-synthetic-refused", &reads).contains("the data set in memory"));
    // Nothing is tracked either, however many samples there are.
    let many = case("turn3/f15-synthetic", &[("dataset.d.samples", "4000000000")]);
    assert!(many.remarks.iter().all(|remark| !remark.contains("Every epoch reads")));
    assert!(sim::memory(&many).world < 1e7);
}

#[test]
fn write_bandwidth_has_an_effect_on_a_storage_for_checkpoints_only() {
    let unused = |changes: &[(&str, &str)]| {
        case("turn3/checkpoint-nvme", changes)
            .remarks
            .iter()
            .any(|of| of.contains("write_bandwidth"))
    };
    assert!(unused(&[]));
    let nvme = ("job.checkpoint.storage", "nvme");
    assert!(!unused(&[nvme]));
    // Each of 64 nodes writes its part of 980 GB at 6 GB/s; without the key at the disk's 12 GB/s.
    let time = |bandwidth: &str| {
        let short = [("run.steps", "100"), ("run.replications", "1")];
        let written = [nvme, ("storage.nvme.local-disk", bandwidth)];
        let report = report_of(&case("turn3/checkpoint-nvme", &[short, written].concat()));
        let recovery = report.jobs[0].recovery.as_ref().expect("checkpoints");
        recovery.checkpoint_time.mean.expect("a checkpoint")
    };
    let both = "{ bandwidth = \"12 GB/s\", write_bandwidth = \"6 GB/s\" }";
    within(time(both), 980.0 / 64.0 / 6.0, 1e-3, "write_bandwidth");
    within(time("{ bandwidth = \"12 GB/s\" }"), 980.0 / 64.0 / 12.0, 1e-3, "bandwidth");
}

/// Returns the samples per second of each job.
fn rates(scenario: &Scenario) -> Vec<f64> {
    let report = report_of(scenario);
    report.jobs.iter().map(|job| job.figures.samples_per_second.mean.expect("steps")).collect()
}

#[test]
fn small_requests_beside_large_ones_wait_for_their_turn_at_a_disk() {
    // System: a reader of files of 30 kB, which it decodes in 0.4 ms, beside six of 400 kB, which are decoded in 1 ms, on a disk of
    // 115.9 MB/s. Measured behind a kernel's throttle: 66 to 70 and 281 samples/s. Expectation: within 20 % and 3 %. The throttle
    // lets the bytes of 100 ms pass at once, in which small files get one turn more, which is not modelled. In fair shares, small
    // files would come as fast as their own reader can.
    let found = rates(&case("turn3/two-sizes", &[]));
    within(found[0], 68.0, 0.20, "small");
    within(found[1], 281.0, 0.03, "large");
    let fair = [("storage.disk.local-disk.service", "fair")];
    let fair = rates(&case("turn3/two-sizes", &fair));
    assert!(fair[0] > 250.0, "{fair:?}");
    // The core time of reads, which profiles have, changes no order.
    let cpu = "{ fixed = \"14 us\", per_byte = \"101 ps\" }";
    let cpu = rates(&case("turn3/two-sizes", &[("storage.disk.local-disk.cpu", cpu)]));
    within(cpu[0], found[0], 0.05, "small, with core time");
    within(cpu[1], found[1], 0.02, "large, with core time");
}

#[test]
fn each_reader_gets_one_turn_per_round_if_a_disk_serves_in_order() {
    // System: readers that always wait, one of 10 kB files and four of 100 kB files, at 100 MB/s, one request at once. Expectation: a
    // round takes 4.1 ms and serves one request of each. In fair shares each gets 20 MB/s.
    let text = r#"
name = "turns"
run = { duration = "4 s", warm_up = "off", replications = 1 }
cluster = { nodes = 1, share_nodes = true, node = { cores = 64, page_cache = "none" } }
storage.s.local-disk = { bandwidth = "100 MB/s" }
dataset.small = { samples = 1600, sample_size = "10 kB" }
dataset.large = { samples = 1600, sample_size = "100 kB" }
[[job]]
name = "small"
dataset = "small"
storage = "s"
batch = 8
loader.tf-queue = { threads = 1, capacity = "8 samples" }
model.step = "1 us"
[[job]]
name = "large"
dataset = "large"
storage = "s"
batch = 8
loader.tf-queue = { threads = 4, capacity = "8 samples" }
model.step = "1 us"
"#;
    let in_order = rates(&written(text, &[]));
    within(in_order[0], 1.0 / 4.1e-3, 0.02, "small");
    within(in_order[1], 4.0 / 4.1e-3, 0.02, "large");
    let fair = rates(&written(text, &[("storage.s.local-disk.service", "fair")]));
    within(fair[0], 2000.0, 0.02, "fair");
}
