//! Tests of settings that the example scenario does not use.

use super::*;
use crate::storage::Bandwidth;

/// Returns the example with `more` put before its last table.
fn with(more: &str) -> Scenario {
    let text = FLETCHER.replace("[sweep]", &format!("{more}\n[sweep]"));
    let file = ScenarioFile::parse("a.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
    file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn every_distribution_has_the_parameters_that_its_sampler_needs() {
    use Distribution::*;
    let variance = 1.25_f64.ln();
    let sigma = variance.sqrt();
    for (text, expected) in [
        ("\"3 kB\"", Constant(3000.0)),
        ("{ constant = \"3 kB\" }", Constant(3000.0)),
        ("{ exponential = { mean = \"3 kB\" } }", Exponential { mean: 3000.0 }),
        (
            "{ lognormal = { mean = \"3 kB\", cv = 0.5 } }",
            Lognormal { mu: 3000_f64.ln() - variance / 2.0, sigma },
        ),
        ("{ gamma = { mean = \"3 kB\", cv = 0.5 } }", Gamma { shape: 4.0, scale: 750.0 }),
        ("{ normal = { mean = \"3 kB\", sd = \"1 kB\" } }", Normal { mean: 3000.0, sd: 1000.0 }),
        ("{ uniform = { low = \"0 B\", high = \"3 kB\" } }", Uniform { low: 0.0, high: 3000.0 }),
        ("{ pareto = { min = \"1 kB\", shape = 3 } }", Pareto { scale: 1000.0, shape: 3.0 }),
        ("{ pareto = { mean = \"3 kB\", shape = 3 } }", Pareto { scale: 2000.0, shape: 3.0 }),
    ] {
        let scenario = with(&format!("[dataset.x]\nsamples = 10\nsample_size = {text}"));
        let SampleSizes::Drawn(sizes) = &scenario.datasets[1].sizes else { panic!("drawn") };
        assert!(near(sizes, &expected), "{text}: {sizes:?}, not {expected:?}");
        if !matches!(expected, Uniform { .. } | Pareto { scale: 1000.0, .. }) {
            assert!((sizes.mean() - 3000.0).abs() < 1e-6, "{text}: mean {}", sizes.mean());
        }
    }
}

/// Returns whether two distributions have the same parameters to 1e-12.
fn near(a: &Distribution, b: &Distribution) -> bool {
    match (a, b) {
        (Distribution::Lognormal { mu, sigma }, Distribution::Lognormal { mu: m, sigma: s }) => {
            (mu - m).abs() < 1e-12 && (sigma - s).abs() < 1e-12
        }
        _ => a == b,
    }
}

#[test]
fn file_server_memory_and_local_disk_storages_are_parsed() {
    let scenario = with(
        "[storage.ram.memory]\n[storage.disk.local-disk]\nbandwidth = [\"1 GB/s\", \"1.8 GB/s\"]",
    );
    assert_eq!(scenario.storage[1].name, "ram");
    let memory = RequestPath::unlimited(Location::NodeMemory, Access::Warm);
    assert_eq!(scenario.storage[1].path, memory);
    let disk = RequestPath {
        bandwidth: Bandwidth::ByTransfers([1e9, 1.8e9].into()),
        sharing: Sharing::InOrder { in_flight: None },
        ..RequestPath::unlimited(Location::Node, Access::Cold)
    };
    assert_eq!(scenario.storage[2].path, disk);
    let kinds: Vec<&str> = scenario.storage.iter().map(|storage| storage.kind).collect();
    assert_eq!(kinds, ["file-server", "memory", "local-disk"]);
}

#[test]
fn settings_of_nvme_over_fabrics_storage_are_read() {
    let scenario = with(
        "[storage.pool.nvme-of]\nbandwidth = \"12 GB/s\"\nqueues = 4\nqueue_bandwidth = \"2 GB/s\"\n\
         latency = \"80 us\"\noperations = \"400 k/s\"\naccess = \"direct\"",
    );
    let expected = RequestPath {
        bandwidth: Bandwidth::Fixed(12e9),
        queues: Some(Queues { number: 4, depth: 128, bandwidth: 2e9 }),
        latency: Distribution::Constant(80e-6),
        operations: 4e5,
        ..RequestPath::unlimited(Location::Shared, Access::Direct)
    };
    assert_eq!((scenario.storage[1].kind, &scenario.storage[1].path), ("nvme-of", &expected));
}

#[test]
fn data_set_layout_order_and_decoded_size_are_read() {
    let scenario = with(
        "[dataset.x]\nsamples = 10\nsample_size = \"1 MB\"\ndecoded_size = \"6 MB\"\n\
         layout.shards = { samples = 3 }\norder = \"sequential\"",
    );
    let dataset = &scenario.datasets[1];
    let layout =
        Layout::Shards { samples_per_shard: 3, request: 1_048_576.0, record: Framing::NONE };
    assert_eq!((dataset.layout, dataset.order), (layout, SampleOrder::Sequential));
    assert_eq!(dataset.decoded_size, Some(6e6));
}

#[test]
fn stream_and_request_background_loads_are_parsed() {
    let scenario = with(
        "[[background]]\nname = \"a\"\nstorage = \"hpctmp\"\nstreams = { streams = 4, cap = \"1 MB/s\" }\n\
         [[background]]\nname = \"b\"\nstorage = \"hpctmp\"\nrequests = { rate = \"60 /min\", size = \"1 MiB\" }",
    );
    let size = Distribution::Constant(1_048_576.0);
    let loads: Vec<_> = scenario.background.into_iter().map(|load| load.load).collect();
    let streams = BackgroundLoad::Streams { streams: 4, cap: 1e6 };
    assert_eq!(loads, [streams, BackgroundLoad::Requests { rate: 1.0, size }]);
}

#[test]
fn step_time_jitter_and_pipeline_settings_are_parsed() {
    let more = "[job.parallel.pipeline]\nshares = [1.0]\noverlap = false";
    let job = with(more).jobs.remove(0);
    assert_eq!(
        job.pipeline,
        Some(Pipeline { shares: vec![1.0], overlap: false, activations: 0.0 })
    );
    let text =
        FLETCHER.replace("[job.model]\n", "[job.model]\njitter = { gamma = { cv = 0.1 } }\n");
    let file = ScenarioFile::parse("a.toml", text).expect("TOML");
    let step = file.resolve(&[]).unwrap_or_else(|p| panic!("{p}")).jobs.remove(0).step;
    let jitter = step.jitter.expect("written");
    assert!((jitter.mean() - 1.0).abs() < 1e-12, "{jitter:?}");
    let short = resolved(&["job.model.step=3 ms"]).expect("right").jobs.remove(0).step;
    assert_eq!(short, StepTime { fixed: 3e-3, per_sample: 0.0, floor: 0.0, jitter: None });
}
