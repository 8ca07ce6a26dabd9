//! The order in which storages serve reads of different size, compared with closed forms.

use forebay::fit;
use forebay::law::MixedReaders;
use forebay::measurement::Sample;
use forebay::profile::{Host, Provenance, SERVED_ALL};
use forebay::report::Outcome;

use super::runs::{simulate, within, written};
use super::support::Place;

/// Two jobs that always wait for their storage, each on a node of its own: files of 100 kB for one, and of 10 kB for the other.
const MIXED: &str = r#"
name = "service"
run = { duration = "10 s", warm_up = "off", replications = 1 }
cluster = { nodes = 2, node = { cores = 64, page_cache = "none" } }
storage.s = {}
dataset.large = { samples = 1000000, sample_size = "100 kB" }
dataset.small = { samples = 1000000, sample_size = "10 kB" }
[[job]]
name = "large"
dataset = "large"
storage = "s"
batch = 1
loader.tf-queue = { threads = 1, capacity = "2 samples" }
model.step = "1 us"
[[job]]
name = "small"
dataset = "small"
storage = "s"
batch = 1
loader.tf-queue = { threads = 1, capacity = "2 samples" }
model.step = "1 us"
"#;

/// All kinds of storage that have an order of service, with 100 MB/s.
const KINDS: [&str; 4] = [
    r#"{ local-disk = { bandwidth = "100 MB/s""#,
    r#"{ file-server = { bandwidth = "100 MB/s""#,
    r#"{ nvme-of = { queues = 2, bandwidth = "100 MB/s""#,
    r#"{ parallel-fs = { targets = 1, target_bandwidth = "100 MB/s""#,
];

const SIX: (&str, &str) = ("job.large.loader.tf-queue.threads", "6");
/// Both jobs on one node, so that they share its disk.
const ONE_NODE: [(&str, &str); 2] = [("cluster.nodes", "1"), ("cluster.share_nodes", "true")];

fn outcome(storage: &str, keys: &str, changes: &[(&str, &str)]) -> Outcome {
    let storage = format!("{storage}, {keys} }} }}");
    simulate(&written(
        MIXED,
        &[&[("storage.s", storage.as_str())], &ONE_NODE[..], changes].concat(),
    ))
}

/// Returns how many samples the large and the small job get per second, after a check that they get the whole bandwidth.
fn rates(storage: &str, keys: &str, changes: &[(&str, &str)]) -> [f64; 2] {
    let found = outcome(storage, keys, changes);
    let [large, small] = [0, 1].map(|job: usize| found.jobs[job].steps.len() as f64 / 10.0);
    within(large * 100e3 + small * 10e3, 100e6, 0.01, &format!("the whole bandwidth, {keys}"));
    [large, small]
}

fn ratio(storage: &str, keys: &str, changes: &[(&str, &str)]) -> f64 {
    let [large, small] = rates(storage, keys, changes);
    small / large
}

#[test]
fn every_storage_with_turns_serves_requests_in_order_or_clients_in_turn_or_all_at_once() {
    // System: one reader of small files, 10 kB, beside six of large ones, 100 kB, which fill a storage. Expectation, in small requests for
    // one of a large reader: 1 in order of arrival, 10 if all share the bandwidth fairly, and 6 if clients take turns, because then the
    // small reader gets every other turn.
    for storage in KINDS {
        for (service, small) in [("in-order", 1.0), ("fair", 10.0), ("round-robin", 6.0)] {
            let keys = format!("service = \"{service}\"");
            let keys = match service {
                "round-robin" => format!("{keys}, piece = \"1 MB\""),
                _ => keys,
            };
            within(6.0 * ratio(storage, &keys, &[SIX]), small, 0.02, &format!("{storage}, {keys}"));
        }
    }
}

#[test]
fn without_a_written_order_only_disks_serve_in_order_of_arrival() {
    for (storage, small) in KINDS.into_iter().zip([1.0, 10.0, 10.0, 10.0]) {
        within(ratio(storage, "latency = \"0 s\"", &[]), small, 0.02, storage);
    }
}

#[test]
fn a_client_has_as_many_turns_as_another_whatever_the_number_of_its_readers() {
    // System: files of 10 kB for both jobs; six readers of one job, one of the other. Expectation: 6 files for 1 in order of arrival; as many
    // for both jobs if clients take turns, whether the clients are jobs on one node or on two.
    let equal = ("job.small.dataset", "large");
    for (service, six) in [("in-order", 6.0), ("round-robin", 1.0)] {
        for nodes in [
            [("cluster.nodes", "1"), ("cluster.share_nodes", "true")],
            [("cluster.nodes", "2"), ("cluster.share_nodes", "false")],
        ] {
            let keys = format!("service = \"{service}\"");
            let storage = format!("{}, {keys} }} }}", KINDS[1]);
            let changes = [&[("storage.s", storage.as_str()), SIX, equal], &nodes[..]].concat();
            let found = simulate(&written(MIXED, &changes));
            let [six_readers, one] = [0, 1].map(|job: usize| found.jobs[job].steps.len() as f64);
            within(six_readers / one, six, 0.02, &format!("{service}, {nodes:?}"));
        }
    }
}

#[test]
fn nodes_of_one_job_are_clients_of_their_own() {
    // System: a job on two nodes whose loaders share the work, and a job on one node, all with the same files and as many readers.
    // Expectation: turns for each node, so twice as many for the first job.
    let two = [
        ("storage.s", r#"{ file-server = { bandwidth = "100 MB/s", service = "round-robin" } }"#),
        ("cluster.nodes", "3"),
        ("job.large.nodes", "2"),
        ("job.small.dataset", "large"),
        ("job.small.loader.tf-queue.threads", "8"),
    ];
    let found = simulate(&written(MIXED, &two));
    let [of_two, of_one] =
        [2.0, 1.0].map(|nodes: f64| nodes * found.jobs[2 - nodes as usize].steps.len() as f64);
    within(of_two / of_one, 2.0, 0.02, "two nodes");
}

#[test]
fn a_turn_lasts_for_a_piece_and_the_rest_of_the_request_waits_for_the_next() {
    // System: one reader of 10 kB files and one of 100 kB files. Expectation: small files for each large one as many as it has pieces, and
    // one if a piece is more than a file. Pieces of 30 kB leave a last one of 10 kB.
    let pieces = [("200 kB", 1.0), ("50 kB", 2.0), ("30 kB", 4.0), ("10 kB", 10.0)];
    for storage in KINDS {
        for (piece, small) in pieces {
            let keys = format!("service = \"round-robin\", piece = \"{piece}\"");
            within(ratio(storage, &keys, &[]), small, 0.02, &format!("{storage}, {keys}"));
        }
    }
    // Without `piece`, Lustre's clients ask for 1 MiB at once: 4.2 MB in four pieces and a bit.
    let large = ("dataset.large.sample_size", "\"4 MiB\"");
    for (storage, turns) in [(KINDS[1], 1.0), (KINDS[3], 4.0)] {
        let storage = format!("{storage}, service = \"round-robin\" }} }}");
        let found = simulate(&written(MIXED, &[("storage.s", storage.as_str()), large]));
        let [large, small] = [0, 1].map(|job: usize| found.jobs[job].steps.len() as f64);
        within(small / large, turns, 0.02, &storage);
    }
}

#[test]
fn more_requests_in_flight_let_small_ones_pass_large_ones() {
    // System: one small reader beside two large ones. Expectation: as many small requests as a large reader has in order of arrival, one at
    // a time; with three at once nobody waits, and all get the same bandwidth: ten times as many.
    let two = ("job.large.loader.tf-queue.threads", "2");
    for storage in KINDS {
        for service in ["in-order", "round-robin"] {
            let keys = format!("service = \"{service}\", in_flight = 3");
            within(2.0 * ratio(storage, &keys, &[two]), 10.0, 0.02, &format!("{storage}, {keys}"));
        }
    }
}

#[test]
fn as_many_requests_as_fill_a_server_over_slow_nics_are_served_at_once() {
    // System: a server of 100 MB/s, four nodes with NICs of 25 MB/s and a reader each. Expectation: all of the bandwidth in each order;
    // a quarter if only one request is served at once.
    let nodes = [
        ("cluster.nodes", "5"),
        ("cluster.network", "{ nic = \"25 MB/s\" }"),
        ("job.large.nodes", "4"),
        ("storage.other", "{ memory = {} }"),
        ("job.small.storage", "other"),
    ];
    let cases = [("in-order", "", 100e6), ("in-order", ", in_flight = 1", 25e6)];
    for (service, in_flight, rate) in
        cases.into_iter().chain([("round-robin", "", 100e6), ("fair", "", 100e6)])
    {
        let storage = format!("{}, service = \"{service}\"{in_flight} }} }}", KINDS[1]);
        let found =
            simulate(&written(MIXED, &[&[("storage.s", storage.as_str())], &nodes[..]].concat()));
        let bytes = 4.0 * found.jobs[0].steps.len() as f64 * 100e3 / 10.0;
        within(bytes, rate, 0.02, &storage);
    }
}

#[test]
fn each_target_serves_its_own_requests_in_order() {
    // System: four targets of 25 MB/s, files of one stripe on them in turn, 64 readers. Expectation: nearly the whole bandwidth of all
    // targets, although shuffled files leave one idle at times, and at each target a small file for each large one.
    let storage = r#"{ parallel-fs = { targets = 4, target_bandwidth = "25 MB/s""#;
    let eight = ["large", "small"].map(|job| (format!("job.{job}.loader.tf-queue.threads"), "32"));
    let changes: Vec<(&str, &str)> =
        eight.iter().map(|(key, number)| (key.as_str(), *number)).collect();
    let found = |keys: &str| {
        let found = outcome(storage, keys, &changes);
        let [large, small] = [0, 1].map(|job: usize| found.jobs[job].steps.len() as f64 / 10.0);
        (large * 100e3 + small * 10e3, small / large)
    };
    for (service, ratio) in [("in-order", 1.0), ("round-robin", 10.0), ("fair", 10.0)] {
        let piece = if service == "round-robin" { ", piece = \"10 kB\"" } else { "" };
        let (bytes, small) = found(&format!("service = \"{service}\"{piece}"));
        within(bytes, 100e6, 0.04, service);
        within(small, ratio, 0.05, service);
    }
    // All files on one target: a quarter of it, as a single target gives.
    let (bytes, small) = found("service = \"in-order\", stripe_offset = 1");
    within(bytes, 25e6, 0.02, "one target");
    within(small, 1.0, 0.05, "one target");
}

#[test]
fn ranges_of_large_files_wait_for_their_turn_like_other_requests() {
    // System: the large files are read in ranges of 20 kB, one after another. Expectation: in order of arrival a small file for each range;
    // in turns of 10 kB two for each range.
    let ranges = [("dataset.large.layout", r#"{ file-per-sample = { request = "20 kB" } }"#)];
    for storage in KINDS {
        let ratio = |keys: &str| ratio(storage, keys, &ranges);
        within(ratio("service = \"in-order\""), 5.0, 0.03, storage);
        let pieces = "service = \"round-robin\", piece = \"10 kB\"";
        within(ratio(pieces), 10.0, 0.03, storage);
    }
}

#[test]
fn slots_of_io_queues_are_free_again_after_requests_that_waited_for_their_turn() {
    // System: one I/O queue with a slot for each node, 1 ms to the first byte. Expectation: a small file in 1 ms + 0.1 ms and a large one in
    // 1 ms + 1 ms, when both jobs have their own node and one waits for the other's bytes at most.
    let storage = r#"{ nvme-of = { bandwidth = "100 MB/s", queues = 1, queue_depth = 1, latency = "1 ms", service = "in-order" } }"#;
    let found = simulate(&written(MIXED, &[("storage.s", storage)]));
    let [large, small] = [0, 1].map(|job: usize| found.jobs[job].steps.len() as f64 / 10.0);
    assert!((1.0 / (2.1e-3 + 1e-6)..=1.0 / 2e-3).contains(&large), "{large}");
    assert!((1.0 / 2.1e-3..=1.0 / 1.1e-3).contains(&small), "{small}");
}

#[test]
fn a_job_that_fails_leaves_its_turns_to_others_and_takes_them_again() {
    // System: two jobs with the same files, 1,000 per second together in turns of a tenth of a file; one, with six readers, fails at 4 s and
    // restarts after 3 s.
    // Expectation: the other has half of the turns for 7 s, and all of them for 3 s.
    let failure = [
        SIX,
        ("job.large.failures", r#"{ at = ["4 s"], restart = "3 s" }"#),
        ("job.small.dataset", "large"),
    ];
    for storage in KINDS {
        let keys = "service = \"round-robin\", piece = \"10 kB\"";
        let found = outcome(storage, keys, &failure);
        within(found.jobs[1].steps.len() as f64, 6500.0, 0.01, storage);
    }
}

#[test]
fn storages_that_faults_slow_keep_the_order_of_service() {
    let slow = ("fault", "[{ storage = \"s\", factor = 0.5, from = \"0 s\" }]");
    for service in ["in-order", "round-robin"] {
        let found = outcome(KINDS[1], &format!("service = \"{service}\""), &[slow]);
        for job in &found.jobs {
            within(job.steps.len() as f64, 50e6 / 110e3 * 10.0, 0.01, service);
        }
    }
}

#[test]
fn live_and_simulated_clients_take_the_same_turns() {
    // System: six readers of files of 20 kB beside one of 10 kB files, with 1 MB/s, in turns of 10 kB or in order of arrival; a live run
    // holds reads of files in memory to this. Expectation: the small job gets as large a share live as in the simulation, 2 for a large
    // file, and 1 for 6.
    let text = MIXED
        .replace("cluster = { nodes = 2,", "cluster = { nodes = 1, share_nodes = true,")
        .replace("cores = 64", "cores = 1")
        .replace("duration = \"10 s\"", "duration = \"3 s\"")
        .replace(
            "samples = 1000000, sample_size = \"100 kB\"",
            "samples = 200, sample_size = \"20 kB\"",
        )
        .replace("samples = 1000000", "samples = 200")
        .replacen("threads = 1", "threads = 6", 1);
    let place = Place::new();
    for (keys, expected) in [
        ("service = \"round-robin\", piece = \"10 kB\"", 2.0),
        ("service = \"in-order\"", 1.0 / 6.0),
    ] {
        let storage = format!("{{ file-server = {{ bandwidth = \"1 MB/s\", {keys} }} }}");
        place.write(
            "service.toml",
            &text.replace("storage.s = {}", &format!("storage.s = {storage}")),
        );
        let ratio = |world: &str| {
            let done =
                place.forebay(&[world, "service.toml", "--format", "json"]).assert().success();
            let report: serde_json::Value =
                serde_json::from_slice(&done.get_output().stdout).expect("a report");
            let steps = |job: usize| report["jobs"][job]["steps"]["mean"].as_f64().expect("steps");
            steps(1) / steps(0)
        };
        within(ratio("run"), expected, 0.02, &format!("simulated, {keys}"));
        within(ratio("live"), expected, 0.2, &format!("live, {keys}"));
    }
}

/// Sizes that vary by 10 %: readers of equal files fall into step.
const VARYING: [(&str, &str); 2] = [
    ("dataset.large.sample_size", r#"{ uniform = { low = "90 kB", high = "110 kB" } }"#),
    ("dataset.small.sample_size", r#"{ uniform = { low = "9 kB", high = "11 kB" } }"#),
];

#[test]
fn mixed_readers_get_what_the_law_of_the_calibration_says() {
    // System: one reader of 10 kB files beside three or six of 100 kB files whose sizes vary by 10 %, one to seven requests at once. Expectation: what
    // the law says by which a calibration finds this number.
    for large in [3, 6] {
        for at_once in 1..=7 {
            let number = large.to_string();
            let readers = ("job.large.loader.tf-queue.threads", number.as_str());
            let keys = format!("service = \"in-order\", in_flight = {at_once}");
            let found =
                f64::from(large) * ratio(KINDS[0], &keys, &[readers, VARYING[0], VARYING[1]]);
            let law = MixedReaders { large, size: 0.1 }.small_per_large(at_once);
            within(found, law, 0.03, &format!("{large} readers, {at_once} at once"));
        }
    }
}

/// Returns what the probe `service` of a cluster's shared storage measures where one node reads small files beside one, three and six readers
/// of large ones on another node, with this storage.
fn probed(storage: &str, keys: &str) -> Vec<Sample> {
    let mut samples = Vec::new();
    for readers in [1.0, 3.0, 6.0_f64] {
        let threads = readers.to_string();
        let threads = ("job.large.loader.tf-queue.threads", threads.as_str());
        let storage = format!("{storage}, {keys} }} }}");
        let changes = [("storage.s", storage.as_str()), threads, VARYING[0], VARYING[1]];
        let found = simulate(&written(MIXED, &changes));
        let [large, small] = [0, 1].map(|job: usize| found.jobs[job].steps.len() as f64 / 10.0);
        // Trials are never equal.
        for (trial, off) in [0.97, 1.0, 1.03].into_iter().enumerate() {
            let settings = [("size", 10e3), ("large", 100e3), ("readers", readers)];
            let observed = [("small", small * off), ("large", large)];
            samples.push(Sample {
                probe: "service".to_owned(),
                labels: [("access", "shared"), ("node", "n1")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
                settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
                trial: trial as u32,
                operations: 1000,
                seconds: 1000.0 / small,
                core_seconds: 0.0,
                observed: observed.map(|(name, value)| (name.to_owned(), value)).into(),
                beside: None,
                excluded: None,
                at: readers,
            });
        }
    }
    samples
}

/// System: the trials of a cluster's probe `service`, made by simulations of storages that two nodes share, with each order of service.
/// Expectation: the fit finds the order with which the trials were made, and its interval holds no other; nothing is told of an order that
/// has no number of requests in service, which is turns of clients.
#[test]
fn the_probe_of_shared_storage_tells_the_order_with_which_it_serves() {
    let fitted = |storage: &str, keys: &str| {
        let profile = fit::profile(&probed(storage, keys), Provenance::default(), Host::default());
        profile.service["shared"].parameters["in_flight"].clone()
    };
    for storage in [KINDS[1], KINDS[3]] {
        for (keys, truth) in [
            ("service = \"in-order\", in_flight = 1", 1.0),
            ("service = \"in-order\", in_flight = 3", 3.0),
            ("service = \"fair\"", SERVED_ALL),
        ] {
            let found = fitted(storage, keys);
            assert_eq!((found.value, &found.unidentified), (truth, &None), "{storage}, {keys}");
            let [low, high] = found.ci95.expect("an interval");
            assert!(truth < 1.5 * low && high < 1.5 * truth, "{storage}, {keys}: {found:?}");
        }
        let turns = fitted(storage, "service = \"round-robin\", piece = \"1 MB\"");
        assert!(turns.unidentified.is_some(), "{storage}: {turns:?}");
    }
}
