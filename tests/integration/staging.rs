//! Staging: the time to copy a data set, the resources that it shares, and the reads after it.

use forebay::report::{Outcome, summarise, text};
use forebay::scenario::ScenarioFile;

use super::kept::{self, SHARDS, reader, served};
use super::runs::{simulate, written};

/// 400 files of 1 MB on a server of 100 MB/s, copied to a disk of 1 GB/s in the node, for a trainer whose steps
/// take no time.
const MACHINE: &str = r#"
[cluster]
nodes = 8
[cluster.node]
cores = 8
[storage.s.file-server]
bandwidth = "100 MB/s"
[storage.nvme.local-disk]
bandwidth = "1 GB/s"
capacity = "1 GB"
[storage.ram.memory]
capacity = "1 GB"
"#;

const SERVER: &str = "storage.s.file-server";

pub(crate) fn scenario() -> String {
    reader(2, MACHINE, (400, "1 MB"), "storage = \"s\"\ncopy = { to = \"nvme\" }")
}

pub(crate) fn outcome(changes: &[(&str, &str)]) -> Outcome {
    simulate(&written(&scenario(), changes))
}

/// Returns the time until the last node of the first job copy has its data set [s].
pub(crate) fn seconds(changes: &[(&str, &str)]) -> f64 {
    outcome(changes).jobs[0].staging.iter().map(|node| node.seconds).fold(0.0, f64::max)
}

pub(crate) fn assert_near(what: &str, value: f64, expected: f64) {
    kept::assert_near(what, value / expected, 1.0, 1e-3);
}

#[test]
fn staging_time_is_total_bytes_divided_by_the_bottleneck_rate() {
    // System: 400 MB in files of 1 MB, with different bottlenecks. Expectation: the bytes divided by the rate
    // of the bottleneck.
    let per_stream = (&*format!("{SERVER}.per_stream"), "\"10 MB/s\"");
    let latency = (&*format!("{SERVER}.latency"), "\"10 ms\"");
    let operations = (&*format!("{SERVER}.operations"), "\"50 /s\"");
    let streams = ("job.j.copy.streams", "5");
    let write = ("storage.nvme.local-disk.write_bandwidth", "\"80 MB/s\"");
    for (what, changes, expected) in [
        ("the server", &[] as &[(&str, &str)], 4.0),
        ("one stream", &[per_stream], 40.0),
        ("five streams", &[per_stream, streams], 8.0),
        ("each file's latency", &[latency], 4.0 + 4.0),
        ("operations", &[operations], 4.0 + 8.0),
        ("operations, and bytes meanwhile", &[operations, streams], 8.0),
        ("the NIC", &[("cluster.network.nic", "\"50 MB/s\"")], 8.0),
        ("the tier's writes", &[write], 5.0),
        ("the tier", &[("storage.nvme.local-disk.bandwidth", "\"40 MB/s\"")], 10.0),
        ("memory", &[("job.j.copy.to", "\"ram\"")], 4.0),
    ] {
        // The last files of several streams end one after the other.
        let found = seconds(changes);
        assert!((found / expected - 1.0).abs() < 0.01, "{what}: {found} instead of {expected}");
    }
}

#[test]
fn training_starts_after_staging_and_reads_only_the_staged_copy() {
    // System: 4 s from the server, and two epochs at 1 GB/s. Expectation: 4.8 s in total; the server serves
    // each byte once, the disk writes it once and reads it twice.
    let all = outcome(&[]);
    let job = &all.jobs[0];
    assert_near("start", job.start, 4.0);
    assert_near("end", all.makespan, 4.8);
    assert_near("bytes", job.staging[0].bytes, 400e6);
    assert_near("server", served(&all, "s.bandwidth"), 400e6);
    assert_near("disk", served(&all, "nvme.bandwidth"), 3.0 * 400e6);
    let without = outcome(&[("job.j.storage", "\"nvme\""), ("job.j.copy.to", "\"ram\"")]);
    assert_near("from memory", without.makespan, 0.4);
}

#[test]
fn staging_pays_one_latency_per_shard() {
    // System: shards of 50 MB, 10 ms to each first byte. Expectation: eight latencies.
    let latency = (&*format!("{SERVER}.latency"), "\"10 ms\"");
    assert_near("shards", seconds(&[SHARDS, latency]), 4.0 + 8.0 * 0.01);
}

#[test]
fn concurrent_staging_by_jobs_or_nodes_shares_the_storage_server_bandwidth() {
    // System: four copies of a job, or one job of four nodes. Expectation: four times the bytes, in parallel.
    assert_near("copies", seconds(&[("job.j.copies", "4")]), 16.0);
    assert_near("nodes", seconds(&[("job.j.nodes", "4")]), 16.0);
    // The second copy begins 2 s later, when half of the first is done; they share the server until the first
    // is complete.
    let apart = outcome(&[("job.j.copies", "2"), ("job.j.stagger", "\"2 s\"")]);
    let [first, second] = [&apart.jobs[0].staging[0], &apart.jobs[1].staging[0]];
    assert_near("first", first.seconds, 6.0);
    assert_near("second", second.seconds, 6.0);
    assert_near("second starts", apart.jobs[1].start, 8.0);
}

#[test]
fn background_load_slows_staging() {
    // System: a background load takes half of the server. Expectation: twice the time.
    let text = format!(
        "{}[[background]]\nname = \"b\"\nstorage = \"s\"\nstreams = {{ streams = 1 }}\n",
        scenario()
    );
    let found = simulate(&written(&text, &[]));
    assert_near("beside a stream", found.jobs[0].staging[0].seconds, 8.0);
}

#[test]
fn an_object_store_that_refuses_requests_delays_staging() {
    // System: an object store that serves 20 requests per second. Expectation: 400 requests take 20 s, less the
    // initial burst; refused requests are repeated within a second, so that no file is missing.
    let store = "{ object-store = { bandwidth = \"1 GB/s\", requests = \"20 /s\", \
                 retry = { most = \"1 s\" } } }";
    let all = outcome(&[("storage.s", store), ("job.j.copy.streams", "40")]);
    let staged = &all.jobs[0].staging[0];
    assert!((19.0..23.0).contains(&staged.seconds), "{}", staged.seconds);
    assert_near("bytes", staged.bytes, 400e6);
}

#[test]
fn staging_copies_exactly_the_bytes_of_an_epoch() {
    // System: random sample sizes. Expectation: the copied bytes are those that an epoch reads.
    let sizes = "{ lognormal = { median = \"1 MB\", p99 = \"5 MB\" } }";
    let all = outcome(&[
        ("run.epochs", "1"),
        ("dataset.d.sample_size", sizes),
        ("storage.nvme.local-disk.capacity", "\"1 TB\""),
    ]);
    let staged = all.jobs[0].staging[0];
    assert_near("server", served(&all, "s.bandwidth"), staged.bytes);
    assert_near("disk", served(&all, "nvme.bandwidth"), 2.0 * staged.bytes);
    assert_near("seconds", staged.seconds, staged.bytes / 100e6);
}

/// The data set of files, and a decoded one that is made from it, in shards of 80 MB.
pub(crate) const CONVERSION: [(&str, &str); 5] = [
    ("dataset.jpegs", "{ samples = 400, sample_size = \"1 MB\" }"),
    ("dataset.d.sample_size", "\"2 MB\""),
    ("dataset.d.layout", "{ shards = { samples = 40, request = \"8 MB\" } }"),
    ("job.j.copy.convert", "{ from = \"jpegs\", compute = \"20 ms\" }"),
    ("run.epochs", "1"),
];

#[test]
fn one_stream_conversion_takes_the_sum_of_read_compute_and_write_time() {
    // System: a stream takes 10 ms to read a file, 20 ms to decode it and 2 ms to write it. Expectation: 400
    // times that with one stream; with eight streams the time of the server for all files; with two cores and
    // twice the work the time of these cores.
    let found = outcome(&CONVERSION);
    assert_near("one stream", found.jobs[0].staging[0].seconds, 400.0 * 0.032);
    assert_near("bytes", found.jobs[0].staging[0].bytes, 800e6);
    assert_near("server", served(&found, "s.bandwidth"), 400e6);
    assert_near("disk", served(&found, "nvme.bandwidth"), 1600e6);
    assert_near("cores", served(&found, "node.cores"), 400.0 * 0.02);
    assert_near("an epoch", found.makespan - found.jobs[0].start, 0.8);
    // Random work keeps streams out of lockstep.
    let several = |cores: &str, mean: &str| {
        let compute = format!("{{ exponential = {{ mean = \"{mean}\" }} }}");
        let changes = [
            ("job.j.copy.streams", "8"),
            ("cluster.node.cores", cores),
            ("job.j.copy.convert.compute", compute.as_str()),
        ];
        seconds(&[&CONVERSION[..], &changes].concat())
    };
    // On cores that serve one stream after the other, eight streams keep both cores busy all the time.
    let fifo = [
        ("cluster.node.scheduling", "\"fifo\""),
        ("job.j.copy.streams", "8"),
        ("cluster.node.cores", "2"),
        ("job.j.copy.convert.compute", "\"40 ms\""),
    ];
    assert!((8.0..8.1).contains(&seconds(&[&CONVERSION[..], &fifo].concat())));
    let (by_server, by_cores) = (several("8", "20 ms"), several("2", "40 ms"));
    assert!((4.0..4.6).contains(&by_server), "{by_server}");
    assert!((7.2..9.6).contains(&by_cores), "{by_cores}");
}

#[test]
fn invalid_data_set_conversions_are_refused() {
    let file = ScenarioFile::parse("test.toml", scenario()).expect("a scenario");
    for (changes, says) in [
        (&["dataset.jpegs.samples=300"] as &[&str], "write the same number of samples for both"),
        (&["job.j.copy.convert={}"], "name the data set that is on the storage"),
        (&["job.j.copy.convert.from=\"pngs\""], "no dataset named \"pngs\""),
        (&["job.j.nodes=2", "job.j.copy.share=\"part\""], "write `share = \"all\"`"),
    ] {
        let sets = CONVERSION.iter().map(|(key, value)| format!("{key}={value}"));
        let sets = sets.chain(changes.iter().map(|&set| set.to_owned()));
        let sets: Vec<_> = sets.map(|set| set.parse().expect("an override")).collect();
        let problems = file.resolve(&sets).expect_err(says);
        assert!(problems.to_string().contains(says), "{says}: {problems}");
    }
}

#[test]
fn a_run_that_ends_during_staging_has_no_step() {
    let all = outcome(&[("run", "{ duration = \"3 s\", warm_up = \"off\", replications = 1 }")]);
    assert!(all.jobs[0].steps.is_empty() && all.jobs[0].staging.is_empty());
}

#[test]
fn reports_state_the_time_and_bytes_of_staging() {
    let scenario = written(&scenario(), &[("job.j.nodes", "2")]);
    let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
    let staging = report.jobs[0].staging.as_ref().expect("staging");
    assert_near("seconds", staging.seconds.mean.expect("a mean"), 8.0);
    assert_near("bytes", staging.bytes.mean.expect("a mean"), 800e6);
    let page = text::render(&report, 100, false);
    assert!(page.contains("Staging of `j`: 800 MB copied to `nvme` in 8 s"), "{page}");
}

#[test]
fn invalid_staging_settings_are_refused() {
    let file = ScenarioFile::parse("test.toml", scenario()).expect("a scenario");
    for (set, says) in [
        ("job.j.copy={}", "name a `local-disk` or a `memory` storage"),
        ("job.j.copy.to=\"s\"", "is already on this storage"),
        ("job.j.copy.to=\"tape\"", "no storage named \"tape\""),
        ("job.j.storage=\"nvme\"", "is already on this storage"),
        ("dataset.d.samples=2000", "2.0 GB of data sets and 0.0 GB of caches do not fit"),
        ("storage.nvme={ local-disk = { bandwidth = \"1 GB/s\" } }", "write `capacity"),
        ("storage.s.file-server.bandwidth=\"10 B/s\"", "takes 40000000 s"),
        ("dataset.d={ samples = 2000000000, sample_size = \"1 B\" }", "copied one by one"),
    ] {
        let problems = file.resolve(&[set.parse().expect("an override")]).expect_err(set);
        assert!(problems.to_string().contains(says), "{set}: {problems}");
    }
    // Each copy on a node needs space of its own.
    let shared = ["cluster.share_nodes=true", "job.j.copies=3"];
    let shared = shared.map(|set| set.parse().expect("an override"));
    let problems = file.resolve(&shared).expect_err("three copies");
    assert!(problems.to_string().contains("1.2 GB of data sets"), "{problems}");
}
