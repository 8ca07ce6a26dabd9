//! The shipped scenarios after NUS HPC and Salvaris et al. on storage, format and loader: each choice changes
//! throughput in the right direction, to the value of a calculation by hand.

use super::runs::{shipped, simulate, steady};
use forebay::report::summarise;

const KERAS: &str = "{ keras = { workers = 1, decode = \"7 ms\" } }";
const PYTORCH: &str = "{ pytorch = { workers = 24, decode = \"7 ms\" } }";
const TF_DATA: &str =
    "{ tf-data = { parallel_reads = 64, parallel_calls = 24, prefetch = 8, decode = \"7 ms\" } }";
const SYNTHETIC: &str = "{ in-memory = {} }";

/// Mean and maximum images per second, and speed relative to synthetic data.
#[derive(Debug, Clone, Copy)]
struct Speed {
    mean: f64,
    max: f64,
    relative: f64,
}

/// Returns the speed of `machines` virtual machines with four V100s each.
fn speed(machines: &str, storage: &str, data: &str, loader: &str, more: &[(&str, &str)]) -> Speed {
    let changes = [
        ("job.nodes", machines),
        ("job.storage", storage),
        ("job.dataset", data),
        ("job.loader", loader),
    ];
    let scenario = shipped("cloud-storage", &[&changes, more].concat());
    let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
    let job = &report.jobs[0];
    let mean = job.figures.samples_per_second.mean.expect("steps");
    let relative = job.figures.accelerator_utilisation.mean.expect("steps");
    Speed { mean, max: job.samples_per_second_max.expect("steps"), relative }
}

#[test]
fn a_single_worker_loader_starves_gpus_on_any_storage() {
    // System: 32 V100s. Expectation: one worker for each machine makes an image in 7 ms and its reading time,
    // 143 of the 1,429 a second that four GPUs take; 24 workers and tf.data keep up on an SSD.
    for storage in ["ssd", "nfs", "blob", "premium-blob"] {
        let keras = speed("8", storage, "images", KERAS, &[]);
        assert!(keras.relative < 0.101, "{storage}: {keras:?}");
        for loader in [PYTORCH, TF_DATA] {
            let other = speed("8", storage, "images", loader, &[]);
            assert!(other.mean > 5.0 * keras.mean, "{storage} {loader}: {other:?} {keras:?}");
            let most = speed("8", storage, "images", SYNTHETIC, &[]).mean;
            assert!(other.mean <= most * (1.0 + 1e-9), "{storage}: {other:?} for {most}");
        }
    }
    for loader in [PYTORCH, TF_DATA, SYNTHETIC] {
        assert!(speed("8", "ssd", "images", loader, &[]).relative > 0.999, "{loader}");
    }
}

#[test]
fn an_nfs_server_feeds_8_and_16_gpus_but_not_32() {
    // System: an NFS server of 8,000 operations and 1.2 GB a second; 357 images of 114 kB a second for each
    // GPU. Expectation: 8 and 16 GPUs are as fast as with synthetic data; 32 GPUs would take 11,429, but files
    // are limited to 8,000 a second and records to 1.2 GB/s ÷ 114 kB = 10,526; the fastest step of 32 GPUs is
    // as fast as the GPUs.
    let on = |machines: &str, data: &str| speed(machines, "nfs", data, PYTORCH, &[]);
    for data in ["images", "records"] {
        let [eight, sixteen, most] = ["2", "4", "8"].map(|machines| on(machines, data));
        assert!(eight.relative > 0.999 && sixteen.relative > 0.99, "{data}: {eight:?} {sixteen:?}");
        assert!(eight.mean < sixteen.mean && sixteen.mean < most.mean, "{data}: {most:?}");
        assert!(most.relative < 0.95, "{data}: {most:?}");
        assert!(most.max >= most.mean && eight.max >= eight.mean, "{data}: {most:?}");
    }
    let (files, records) = (on("8", "images").mean, on("8", "records").mean);
    assert!((files / 8000.0 - 1.0).abs() < 0.06, "{files}");
    assert!((records / 10_526.0 - 1.0).abs() < 0.03, "{records}");
    // More operations help only files, more bandwidth only records.
    let more = |data: &str, key: &str, value: &str| {
        let key = format!("storage.nfs.file-server.{key}");
        speed("8", "nfs", data, PYTORCH, &[(&key, value)]).mean
    };
    assert!(more("images", "operations", "\"16000 /s\"") > 1.2 * files);
    assert!(more("images", "bandwidth", "\"2.4 GB/s\"") < 1.02 * files);
    assert!(more("records", "bandwidth", "\"2.4 GB/s\"") > 1.05 * records);
    assert!(more("records", "operations", "\"16000 /s\"") < 1.02 * records);
}

#[test]
fn record_files_are_never_slower_than_image_files_and_faster_on_blob_storage() {
    // System: 16 V100s and a blob store of 20 ms a request. Expectation: a request of 1 MiB to a record file
    // reads nine images, so that latency is paid nine times less often; on a local SSD the format makes no
    // difference.
    for loader in [KERAS, PYTORCH, TF_DATA] {
        for storage in ["ssd", "nfs", "blob", "premium-blob"] {
            let of = |data: &str| speed("4", storage, data, loader, &[]).mean;
            let (files, records) = (of("images"), of("records"));
            assert!(records > 0.995 * files, "{storage} {loader}: {records} for {files}");
            if storage == "blob" {
                assert!(records > 1.8 * files, "{loader}: {records} for {files}");
            }
        }
    }
}

#[test]
fn every_setting_of_a_blob_store_changes_throughput_in_the_right_direction() {
    // System: 16 V100s on the blob store, JPEG files. Expectation: lower latency speeds up; slower connections,
    // fewer requests, less bandwidth, fewer workers and slower NICs slow down.
    let of = |key: &str, value: &str| {
        let key = format!("storage.blob.object-store.{key}");
        // At first, workers make whole batches in lockstep, so the run is longer.
        speed("4", "blob", "images", PYTORCH, &[(&key, value), ("run.steps", "200")]).mean
    };
    let as_it_is = speed("4", "blob", "images", PYTORCH, &[]).mean;
    assert!(of("latency", "\"4 ms\"") > 1.5 * as_it_is, "lower latency");
    assert!(of("per_connection", "\"10 MB/s\"") < 0.9 * as_it_is, "slower connections");
    assert!(of("requests", "\"1000 /s\"") < 1100.0, "fewer requests");
    let less = of("bandwidth", "\"100 MB/s\"");
    assert!((less / 877.0 - 1.0).abs() < 0.03, "100 MB/s are 877 images a second: {less}");
    let workers = |n: u32| {
        let loader = format!("{{ pytorch = {{ workers = {n}, decode = \"7 ms\" }} }}");
        speed("4", "blob", "images", &loader, &[]).mean
    };
    assert!(workers(6) < 0.6 * workers(12) && workers(12) < 0.6 * workers(24));
    let nic = [("cluster.network.nic", "\"1 Gbit/s\""), ("run.steps", "200")];
    let nic = speed("4", "nfs", "records", PYTORCH, &nic).mean;
    assert!((nic / (4.0 * 125e6 / 114e3) - 1.0).abs() < 0.03, "four NICs of 125 MB/s: {nic}");
}

/// Returns images per second of the four-GPU job on large photographs.
fn photographs(storage: &str, data: &str, workers: u32, queue: u32) -> f64 {
    let (workers, queue) = (workers.to_string(), queue.to_string());
    let changes = [
        ("job.storage", storage),
        ("job.dataset", data),
        ("job.loader.keras.workers", workers.as_str()),
        ("job.loader.keras.max_queue_size", queue.as_str()),
        ("job.loader.keras.decode", "\"20 ms\""),
        ("run.steps", "200"),
    ];
    steady(&simulate(&shipped("nfs-or-nvme", &changes)), 60).fresh
}

#[test]
fn throughput_of_large_photographs_is_limited_by_decoding_or_by_the_server() {
    // System: images of 500 kB, 20 ms of a core each; a server of 400 MB/s, a disk of 3 GB/s; 20 cores.
    // Expectation: a worker makes one image in 20 ms and its reading time; 20 workers make 1,000 a second from
    // the disk and 800 from the server, from files as from records; with few workers the server's latency slows
    // files.
    let near = |found: f64, expected: f64, tolerance: f64| {
        assert!((found / expected - 1.0).abs() < tolerance, "{found}, not {expected}");
    };
    near(photographs("scratch", "images", 1, 40), 1.0 / (20e-3 + 5e5 / 3e9 + 1e-4), 0.02);
    near(photographs("scratch", "images", 20, 40), 1000.0, 0.03);
    near(photographs("hpctmp", "images", 32, 40), 800.0, 0.03);
    near(photographs("hpctmp", "records", 32, 40), 800.0, 0.03);
    let few = |data: &str| photographs("hpctmp", data, 2, 40);
    assert!(few("records") > 1.1 * few("images"));
    for storage in ["hpctmp", "scratch"] {
        let [one, four, sixteen] = [1, 4, 16].map(|n| photographs(storage, "images", n, 40));
        assert!(1.9 * one < four && 1.9 * four < sixteen, "{storage}: {one} {four} {sixteen}");
        let disk = photographs("scratch", "images", 16, 40);
        assert!(photographs(storage, "images", 16, 40) <= 1.001 * disk, "{storage}");
    }
}

#[test]
fn a_longer_keras_queue_does_not_help_and_a_short_one_idles_workers() {
    // System: the same images from the disk. Expectation: 2 workers are as fast with queues of 2, 10 and 100; a
    // queue of 10 keeps at most 11 of 20 workers busy, since one more batch is submitted, and fewer while
    // finished batches wait for an earlier one.
    let [short, long, longer] =
        [2, 10, 100].map(|queue| photographs("scratch", "images", 2, queue));
    assert!((short / long - 1.0).abs() < 0.01 && (longer / long - 1.0).abs() < 0.01);
    let (bound, eleven) =
        (photographs("scratch", "images", 20, 10), photographs("scratch", "images", 11, 40));
    assert!(bound < 1.01 * eleven && bound > 0.85 * eleven, "{bound}, not {eleven}");
}
