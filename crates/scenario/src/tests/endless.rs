//! Tests: scenarios that would take for ever are refused before they begin.

use super::wrong;

/// Returns a scenario of a job on one node, with these lines added to the data set, the node and the job.
fn scenario(dataset: &str, node: &str, job: &str) -> String {
    format!(
        "name = \"endless\"\n[run]\nsteps = 5\n[cluster]\nnodes = 1\n\
         [cluster.node]\ncores = 4\ngpus = 1\n{node}\n\
         [storage.s.local-disk]\nbandwidth = \"1 GB/s\"\n\
         [dataset.d]\nsamples = 1000\nsample_size = \"1 MB\"\n{dataset}\n\
         [[job]]\nname = \"j\"\ndataset = \"d\"\nstorage = \"s\"\nbatch = 8\nmodel.step = \"1 ms\"\n{job}\n\
         loader.tf-queue = {{ threads = 2, capacity = \"64 samples\", decode = \"1 ms\" }}\n"
    )
}

/// Checks that the text has an error with these words, or no error if there are no words.
fn assert_said(text: &str, words: &str) {
    let shown = wrong(text);
    assert!(shown.contains(words) && (words.is_empty() == shown.is_empty()), "{words}\n{shown}");
    assert!(shown.matches("error:").count() <= 1, "{text}\n{shown}");
}

#[test]
fn row_groups_that_decompress_for_more_than_a_million_seconds_are_refused() {
    // System: 10 samples of 1 MB. Expectation: the limit of 1e6 s is reached at 0.1 s for a byte.
    for (decompress, words) in [
        ("1e7 s", "dataset.d.layout.parquet.decompress: decompressing a row group takes 1.0e14 s"),
        ("0.11 s", "at most 1e6 s a row group"),
        ("0.09 s", ""),
    ] {
        let layout =
            format!("layout.parquet = {{ row_group = 10, decompress = \"{decompress}\" }}");
        assert_said(&scenario(&layout, "", ""), words);
    }
}

#[test]
fn memory_traffic_that_slows_cores_beyond_the_limit_is_refused() {
    for (traffic, words) in [
        ("1e12 B/s", "job.j.memory_traffic: memory slows a busy core by a factor of 1e12"),
        ("1.1e6 B/s", "at most 1e6 times `cluster.node.memory_bandwidth`"),
        ("0.9e6 B/s", ""),
    ] {
        let job = format!("memory_traffic = \"{traffic}\"");
        assert_said(&scenario("", "memory_bandwidth = \"1 B/s\"", &job), words);
    }
}

#[test]
fn samples_that_take_more_than_a_million_requests_are_refused() {
    // System: samples of 10 MB. Expectation: 1e6 requests of 10 B are the most; a row group's columns
    // share its bytes.
    for (layout, words) in [
        (
            "file-per-sample = { request = \"1 B\" }",
            "d.layout.file-per-sample.request: a mean sample",
        ),
        ("raw = { request = \"9 B\" }", "takes 1.11e6 requests"),
        (
            "shards = { samples = 10, request = \"1 B\" }",
            "a mean sample may take at most 1e6 requests",
        ),
        ("tfrecord = { samples = 10, request = \"1 B\" }", "1.00e7 requests"),
        ("webdataset = { samples = 10, request = \"1 B\" }", "1.00e7 requests"),
        ("shards = { samples = 10, request = \"10 B\" }", ""),
        ("file-per-sample = { request = \"10 B\" }", ""),
        ("parquet = { row_group = 1, columns = 100000 }", ""),
    ] {
        let text = scenario(&format!("layout.{layout}"), "", "").replace("1 MB", "10 MB");
        assert_said(&text, words);
    }
    let columns = "layout.parquet = { row_group = 10, columns = 10001 }";
    let text = scenario(columns, "", "").replace("1 MB", "1 kB");
    assert_said(&text, "layout.parquet.columns: a mean request is for less than a byte");
    assert_said(&text.replace("10001", "10000"), "");
}
