//! How samples are packed into files, compared with calculations by hand.

use super::base::{base, changed, outcome};
use super::runs::{steady, written};
use forebay::report::{CacheRequests, Outcome};
use forebay::scenario::ScenarioFile;
use forebay::sim::{Options, run};

/// Base scenario: 20 µs to open a file, 500 + 2·10 µs to the first byte, 400 MB/s for each of four threads, 500
/// µs to decode; 16 samples of 100 kB make a batch.
const LATENCY: f64 = 0.52e-3;
const DECODE: f64 = 0.5e-3;
const MB: f64 = 1.0 / 400.0;
const ROOM: [(&str, &str); 3] = [
    ("cluster.network.nic", "\"100 GB/s\""),
    ("storage.s.file-server.bandwidth", "\"100 GB/s\""),
    ("run.steps", "500"),
];

fn packed(layout: &str) -> Outcome {
    outcome(&[&ROOM[..], &[("dataset.d.layout", layout)]].concat())
}

fn served(outcome: &Outcome, name: &str) -> f64 {
    outcome.resources.iter().find(|r| r.name == name).expect("there").served
}

/// Returns the bytes read from the storage per sample; nearly all samples begun are enqueued.
fn bytes(outcome: &Outcome) -> f64 {
    served(outcome, "node.nic") / outcome.jobs[0].samples.started as f64
}

fn near(what: &str, found: f64, expected: f64, tolerance: f64) {
    let error = found / expected - 1.0;
    assert!(error.abs() <= tolerance, "{what}: {found}, not {expected}");
}

/// Checks the mean step time against `seconds` for each sample and four threads.
fn step(what: &str, outcome: &Outcome, seconds: f64) {
    near(what, outcome.makespan / 500.0, 4.0 * seconds, 0.02);
}

#[test]
fn each_sample_of_a_raw_array_takes_one_request_without_reopening_the_file() {
    let raw = packed("{ raw = {} }");
    step("raw", &raw, LATENCY + 0.1 * MB + DECODE);
    // 8,000 samples of a data set of 1,000: each of four threads opens the file in each of eight epochs, and
    // possibly once more in the ninth.
    let opens = served(&raw, "s.operations");
    assert!((32.0..=36.0).contains(&opens), "{opens}");
    near("bytes", bytes(&raw), 100e3, 1e-3);
}

#[test]
fn lmdb_samples_are_read_in_whole_pages_without_opening_files() {
    let lmdb = packed("{ lmdb = {} }");
    step("25 pages", &lmdb, LATENCY + 0.1024 * MB + DECODE);
    assert_eq!(served(&lmdb, "s.operations"), 0.0);
    near("bytes", bytes(&lmdb), 102_400.0, 1e-3);
    near("pages of 64 KiB", bytes(&packed("{ lmdb.page = \"64 KiB\" }")), 131_072.0, 1e-3);
}

#[test]
fn tfrecord_and_webdataset_layouts_add_framing_bytes_to_every_sample() {
    // System: two epochs of shards of 40 samples, so that all are read to the end. Expectation: 16 B around a
    // TFRecord; a header and padding to 512 B around each member of a sample in a tar file.
    let of = |layout: &str| {
        let epochs = ("run.epochs", "2");
        let all = [&ROOM[..2], &[epochs, ("dataset.d.layout", layout)]].concat();
        let all = outcome(&all);
        // Each thread may have read one request ahead.
        (bytes(&all), all.makespan)
    };
    let plain = of("{ shards = { samples = 40, request = \"4 kB\" } }");
    near("plain", plain.0, 100_000.0, 1e-3);
    near("tfrecord", of("{ tfrecord = { samples = 40, request = \"4 kB\" } }").0, 100_016.0, 1e-4);
    let tar = |members: u32| {
        let more = format!("samples = 40, request = \"4 kB\", members = {members}");
        of(&format!("{{ webdataset = {{ {more} }} }}"))
    };
    near("webdataset", tar(1).0, 100_864.0, 1e-3);
    near("members", tar(100).0, 100_864.0 + 99.0 * 1024.0, 1e-3);
    assert!(tar(100).1 > 1.5 * plain.1, "headers take their time");
    // Twice the bytes where a record is as small as its frame, and the same decode time.
    let small = |layout: &str| {
        let size = ("dataset.d.sample_size", "\"16 B\"");
        bytes(&outcome(&[size, ("dataset.d.layout", layout)]))
    };
    near("small", small("{ tfrecord = { samples = 10, request = \"64 B\" } }"), 32.0, 0.05);
}

#[test]
fn parquet_row_groups_are_read_as_a_whole() {
    // System: row groups of 100 samples, 10 MB. Expectation per sample: latency and opens divided by the
    // samples that share them, the bytes read, their decompression, and decoding.
    let of = |more: &str| packed(&format!("{{ parquet = {{ row_group = 100{more} }} }}"));
    let whole = of("");
    step("whole", &whole, 0.01 * LATENCY + 0.1 * MB + DECODE);
    let opens = served(&whole, "s.operations");
    assert!((80.0..=84.0).contains(&opens), "{opens}");
    let files = served(&of(", row_groups = 5"), "s.operations");
    assert!((16.0..=20.0).contains(&files), "{files}");
    step("columns", &of(", columns = 50"), 0.5 * LATENCY + 0.1 * MB + DECODE);
    let some = of(", columns = 5, read = 0.25");
    step("some of it", &some, 0.05 * LATENCY + 0.025 * MB + DECODE);
    near("bytes of some", bytes(&some), 25e3, 0.05);
    step(
        "decompressed",
        &of(", decompress = \"10 ns\""),
        0.01 * LATENCY + 0.1 * MB + 1e-3 + DECODE,
    );
    // The first step waits for row groups; after it, samples are in the queue.
    let first = whole.jobs[0].steps[0].end;
    near("first step", first, 80e-6 + LATENCY + 10.0 * MB + 4.0 * DECODE + 1e-3, 1e-3);
    let stalls = &of(", decompress = \"10 ns\"").jobs[0].stalls;
    let decode = stalls.iter().filter(|s| s.cause.to_string() == "decode").map(|s| s.seconds);
    let all: f64 = stalls.iter().map(|stall| stall.seconds).sum();
    assert!(decode.sum::<f64>() > 0.7 * all, "decompression counts as decoding");
}

#[test]
fn every_layout_reads_each_byte_of_an_epoch_once() {
    // System: a thread reads one epoch of samples of different sizes; the last row group and file are short.
    // Expectation: the same bytes in every layout, except for padding.
    let bytes = |layout: &str| {
        let all = outcome(&[
            ("run", "{ epochs = 1, replications = 1 }"),
            ("dataset.d.samples", "992"),
            ("dataset.d.sample_size", "{ exponential = { mean = \"100 kB\" } }"),
            ("job.loader.tf-queue.threads", "1"),
            ("dataset.d.layout", layout),
        ]);
        served(&all, "node.nic")
    };
    let files = bytes("{ file-per-sample = {} }");
    near(
        "parquet",
        bytes("{ parquet = { row_group = 70, row_groups = 3, columns = 3 } }"),
        files,
        1e-9,
    );
    near("shards", bytes("{ shards = { samples = 70 } }"), files, 1e-9);
    near("tfrecord", bytes("{ tfrecord = { samples = 70 } }") - 992.0 * 16.0, files, 1e-9);
    let pages = bytes("{ lmdb = {} }");
    assert!(pages > files && pages < files + 992.0 * 4096.0, "{pages} for {files}");
}

#[test]
fn every_layout_is_cached_in_the_page_cache() {
    // System: two epochs, and a page cache that holds all data. Expectation: the second epoch is not read from
    // the storage.
    for (layout, requests) in [
        ("{ raw = {} }", 800),
        ("{ lmdb = {} }", 800),
        ("{ parquet = { row_group = 50, row_groups = 4, columns = 2 } }", 32),
    ] {
        let all = outcome(&[
            ("run", "{ epochs = 2, replications = 1 }"),
            ("dataset.d.samples", "800"),
            ("cluster.node.page_cache", "{ capacity = \"100 MB\" }"),
            ("dataset.d.layout", layout),
        ]);
        let expected = [
            CacheRequests { hits: 0, misses: requests },
            CacheRequests { hits: requests, misses: 0 },
        ];
        assert_eq!(all.jobs[0].cache, expected, "{layout}");
    }
    // Half of an array fits: the policy keeps samples one by one.
    let kept = outcome(&[
        ("run", "{ epochs = 4, replications = 1 }"),
        ("dataset.d.samples", "800"),
        ("cluster.node.page_cache", "{ capacity = \"40 MB\", policy = \"minio\" }"),
        ("dataset.d.layout", "{ raw = {} }"),
    ]);
    assert_eq!(kept.jobs[0].cache[3], CacheRequests { hits: 400, misses: 400 });
}

#[test]
fn a_raw_array_file_is_read_from_as_many_storage_targets_as_its_stripe_count() {
    // System: four threads read samples of a stripe each from one file. Expectation: on four targets they use
    // separate targets, as with separate files; on one target they share it.
    let step = |count: u32| {
        let storage = format!(
            "{{ parallel-fs = {{ targets = 4, target_bandwidth = \"100 MB/s\", stripe_count = {count}, \
             stripe_size = \"100 kB\" }} }}"
        );
        let changes = [
            ("storage.s", storage.as_str()),
            ("dataset.d.layout", "{ raw = {} }"),
            ("dataset.d.order", "\"sequential\""),
            ("job.loader.tf-queue.decode", "\"0 s\""),
        ];
        steady(&outcome(&changes), 20).step
    };
    near("one target", step(1), 16e-3, 0.01);
    near("four", step(4), 4e-3, 0.03);
}

#[test]
fn decode_time_does_not_depend_on_the_layout() {
    // System: 1 ns of decoding per byte. Expectation: as much decode work whatever the framing of a sample.
    let work = |layout: &str| {
        let scenario = changed(&[
            ("run", "{ epochs = 1, replications = 1 }"),
            ("dataset.d.samples", "960"),
            ("dataset.d.layout", layout),
            ("job.loader.tf-queue.decode", "{ per_byte = \"1 ns\" }"),
        ]);
        served(&run(&scenario, 0, &Options::default()), "node.cores")
    };
    for layout in ["{ lmdb = {} }", "{ webdataset.samples = 10 }", "{ parquet.row_group = 10 }"] {
        near(layout, work(layout), 0.096, 1e-9);
    }
}

#[test]
fn invalid_layouts_are_refused() {
    let file = ScenarioFile::parse("test.toml", base()).expect("a scenario");
    for (sets, says) in [
        (
            vec![
                "dataset.d.layout={ raw = {} }",
                "dataset.d.sample_size={ uniform = { low = \"1 B\", high = \"9 B\" } }",
            ],
            "samples that all have the same size",
        ),
        (vec!["dataset.d.layout={ parquet = {} }"], "write `row_group = 1000`"),
        (vec!["dataset.d.layout={ parquet = { row_group = 1, read = 1.5 } }"], "at most 1"),
        (vec!["dataset.d.layout={ lmdb = { page = \"1 TiB\" } }"], "64 KiB"),
        (vec!["dataset.d.layout={ hdf5 = {} }"], "parquet"),
    ] {
        let overrides: Vec<_> = sets.iter().map(|set| set.parse().expect("an override")).collect();
        let problems = file.resolve(&overrides).expect_err(sets[0]);
        assert!(problems.to_string().contains(says), "{sets:?}: {problems}");
    }
    // The largest values that can be written, all at once: no product of them overflows.
    let most =
        "{ parquet = { row_group = 1000000000000, row_groups = 1000000, columns = 100000 } }";
    let huge =
        [("dataset.d.layout", most), ("dataset.d.samples", "1000000000000"), ("run.steps", "1")];
    written(&base(), &huge);
}
