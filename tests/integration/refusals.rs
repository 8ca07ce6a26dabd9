//! Unsupported settings of live runs are refused before anything starts, with a remedy.

use super::runs::written;
use forebay::live::{self, Settings};
use forebay::scenario::{Distribution, SampleSizes, Scenario};
use std::path::Path;
use std::sync::atomic::AtomicBool;

const SCENARIO: &str = r#"# What can this machine not do?
name = "refused"
[run]
steps = 5
warm_up = "off"
[cluster]
nodes = 2
share_nodes = true
node = { cores = 1, gpus = 2 }
[storage.disk.local-disk]
bandwidth = "1 GB/s"
[storage.nvme.local-disk]
bandwidth = "1 GB/s"
capacity = "1 GB"
[storage.server.file-server]
bandwidth = "1 GB/s"
[storage.ram.memory]
capacity = "1 GB"
[dataset.d]
samples = 100
sample_size = "1 kB"
[[job]]
name = "j"
dataset = "d"
storage = "disk"
batch = 4
model.step = "1 ms"
loader.tf-queue = { threads = 2, capacity = "8 samples" }
"#;

/// Returns the error message if the scenario is refused, and `None` otherwise.
fn refusal(scenario: &Scenario, data: Option<&Path>) -> Option<String> {
    let (directory, stop) = (std::env::temp_dir(), AtomicBool::new(false));
    let settings = Settings {
        directory: &directory,
        data,
        named: false,
        trace: false,
        executable: Path::new("forebay"),
        stop: &stop,
    };
    live::check(scenario, &settings).err().map(|failure| failure.to_string())
}

fn refused(changes: &[(&str, &str)], remedy: &str) {
    let said = refusal(&written(SCENARIO, changes), None);
    let said = said.unwrap_or_else(|| panic!("{changes:?} is not refused"));
    assert!(said.contains(remedy), "{changes:?}: {said}");
}

#[test]
fn live_runs_accept_the_unmodified_test_scenario() {
    assert_eq!(refusal(&written(SCENARIO, &[]), None), None);
}

#[test]
fn live_runs_refuse_resources_that_the_machine_lacks() {
    refused(&[("cluster.node.cores", "99999")], "write `cluster.node.cores = ");
    refused(&[("cluster.node.scheduling", "\"fifo\"")], "`cluster.node.scheduling = \"shared\"`");
    let load = "[{ name = \"b\", storage = \"server\", streams = { streams = 1 } }]";
    refused(&[("background", load)], "leave out `background`");
    let copies = [("job.copies", "2"), ("cluster.share_nodes", "false")];
    refused(&copies, "write `cluster.share_nodes = true`");
    refused(&[("job.loader.tf-queue.threads", "4096")], "write fewer workers or `copies`");
    refused(&[("job.nodes", "2")], "write `nodes = 1`");
    let pipeline = "{ pipeline = { stages = 2 } }";
    refused(&[("job.parallel", pipeline)], "leave out `parallel.pipeline`");
    let gpu = "{ dali = { threads = 1, gpu = { decode = \"1 ms\" } } }";
    refused(&[("job.loader", gpu)], "leave out `loader.dali.gpu`");
    let cores = [("job.model.device", "{ cpu = { threads = 1 } }")];
    refused(&cores, "write `model.catalogue = \"lenet5\"`");
}

#[test]
fn live_runs_refuse_storage_that_they_do_not_emulate() {
    let targets = "{ parallel-fs = { targets = 2, target_bandwidth = \"1 GB/s\" } }";
    refused(&[("storage.disk", targets)], "write `file-server`");
    let requests = "{ object-store = { bandwidth = \"1 GB/s\", requests = \"100 /s\" } }";
    refused(&[("storage.disk", requests)], "write `file-server`");
    refused(&[("storage.disk.local-disk.seek", "\"8 ms\"")], "leave out `seek`");
    let table =
        "{ measured = { sizes = [\"1 kB\"], requests = [1], throughput = [[\"1 MB/s\"]] } }";
    refused(&[("storage.disk", table)], "write `local-disk` or `file-server`");
    let cached = "{ file-server = { bandwidth = \"1 GB/s\", cache = { on = \"nvme\", capacity = \"1 MB\" } } }";
    refused(&[("storage.disk", cached)], "leave out the cache of `disk`");
    refused(&[("job.copy", "{ to = \"nvme\" }")], "leave out `copy`");
    let kept = ("job.decoded_cache", "{ capacity = \"1 MB\" }");
    let decode = ("job.loader.tf-queue.decode", "\"1 us\"");
    refused(&[kept, decode], "leave out `decoded_cache`");
    let sync = ("job.sync", "{ allreduce = { gradients = \"1 MB\" } }");
    refused(&[sync], "leave out `sync`");
}

#[test]
fn live_runs_refuse_layouts_that_they_do_not_generate() {
    refused(&[("dataset.d.layout", "{ lmdb = {} }")], "write `layout.shards");
    let parquet = "{ parquet = { row_group = 10 } }";
    refused(&[("dataset.d.layout", parquet)], "write `layout.shards");
    let ranges = "{ file-per-sample = { request = \"100 B\" } }";
    refused(&[("dataset.d.layout", ranges)], "leave out `request` and `readahead`");
    let image = ("dataset.d.image", "{ width = 64, height = 48 }");
    let decode = ("job.loader.tf-queue.decode", "{ per_byte = \"1 ns\" }");
    let shards = ("dataset.d.layout", "{ shards = { samples = 10 } }");
    refused(&[image, decode, shards], "write `layout.file-per-sample = {}`");
    let memory = ("job.storage", "\"ram\"");
    refused(&[image, decode, memory], "`local-disk` with `access = \"warm\"`");
    let mut scenario = written(SCENARIO, &[]);
    scenario.datasets[0].sizes =
        SampleSizes::Table { table: [1e3].into(), job_stride: 0, sample_stride: 1 };
    let said = refusal(&scenario, None).expect("refused");
    assert!(said.contains("write `sample_size`"), "{said}");
    scenario.datasets[0].sizes = SampleSizes::Drawn(Distribution::Constant(1e3));
    assert_eq!(refusal(&scenario, None), None);
}

#[test]
fn live_runs_refuse_user_data_for_several_data_sets_or_for_memory_storage() {
    let data = Some(Path::new("data"));
    assert_eq!(refusal(&written(SCENARIO, &[]), data), None);
    let said = refusal(&written(SCENARIO, &[("job.storage", "\"ram\"")]), data).expect("refused");
    assert!(said.contains("`local-disk` or a `file-server`"), "{said}");
    let other = "[dataset.e]\nsamples = 100\nsample_size = \"1 kB\"\n[[job]]\nname = \"k\"\n\
                 dataset = \"e\"\nstorage = \"disk\"\nbatch = 4\nmodel.step = \"1 ms\"\n\
                 loader.tf-queue = { threads = 2, capacity = \"8 samples\" }\n";
    let said = refusal(&written(&format!("{SCENARIO}{other}"), &[]), data).expect("refused");
    assert!(said.contains("leave out --data, so that all data sets are generated"), "{said}");
}
