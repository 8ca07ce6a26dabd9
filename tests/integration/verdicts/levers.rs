//! Levers change exactly what the keys set that advice names.

use crate::runs::written;
use forebay::verdict::all_lifted;

/// Keys below `job.j.loader`, and their values.
type Keys = &'static [(&'static str, &'static str)];

/// A job on one node; `{loader}` stands for its loader.
const JOB: &str = r#"
name = "levers"
[run]
steps = 10
[cluster]
nodes = 1
node = { gpus = 1, cores = 8, pcie = "1 GB/s" }
[storage.s.file-server]
bandwidth = "1 GB/s"
[dataset.d]
samples = 1000
sample_size = "100 kB"
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 8
model.step = "10 ms"
loader = {loader}
"#;

#[test]
fn a_relaxed_loader_is_the_loader_with_the_named_key_changed() {
    // System: each kind of loader, with all of its stages. Expectation: twice the workers, twice the prefetched batches, half of each kind
    // of work, and processes in place of threads give the same job as the scenario with other values of the keys that the advice names.
    let pytorch = "{ pytorch = { workers = 4, prefetch_factor = 3, decode = \"2 ms\", collate = \"1 ms\", pin_memory = { bandwidth = \"1 GB/s\" }, ipc = \"1 GB/s\" } }";
    let keras =
        "{ keras = { workers = 4, max_queue_size = 5, decode = \"2 ms\", collate = \"1 ms\" } }";
    let dali =
        "{ dali = { readers = 2, threads = 4, prefetch_queue_depth = 3, decode = \"2 ms\" } }";
    let on_gpu = "{ dali = { readers = 2, threads = 4, gpu = { decode = \"200 us\" } } }";
    let data = "{ tf-data = { parallel_reads = 2, parallel_calls = 16, prefetch = 3, decode = \"2 ms\", collate = \"1 ms\", shuffle = \"100 samples\" } }";
    let queue = "{ tf-queue = { threads = 4, capacity = \"100 samples\", decode = \"2 ms\" } }";
    let threads = "{ pytorch = { workers = 4, worker_kind = \"thread\", gil = 0.5, decode = \"2 ms\", pin_memory = { work = \"1 ms\", gil = 1.0 }, ipc = \"1 GB/s\" } }";
    let keras_threads =
        "{ keras = { workers = 4, gil = 0.5, decode = \"2 ms\", ipc = \"1 GB/s\" } }";
    let none = "{ pytorch = { workers = 0, decode = \"2 ms\", ipc = \"1 GB/s\" } }";
    let cases: [(&str, &str, Keys); 22] = [
        (none, "workers", &[("pytorch.workers", "1")]),
        (pytorch, "collate", &[("pytorch.collate", "\"500 us\"")]),
        (pytorch, "hand-over", &[("pytorch.ipc", "\"2 GB/s\"")]),
        (pytorch, "pinning", &[("pytorch.pin_memory.bandwidth", "\"2 GB/s\"")]),
        (data, "collate", &[("tf-data.collate", "\"500 us\"")]),
        (threads, "pinning", &[("pytorch.pin_memory.work", "\"500 us\"")]),
        (threads, "gil", &[("pytorch.worker_kind", "\"process\"")]),
        (keras_threads, "gil", &[("keras.use_multiprocessing", "true")]),
        (pytorch, "workers", &[("pytorch.workers", "8")]),
        (pytorch, "prefetch", &[("pytorch.prefetch_factor", "6")]),
        (pytorch, "decode", &[("pytorch.decode", "\"1 ms\"")]),
        (keras, "workers", &[("keras.workers", "8")]),
        (keras, "prefetch", &[("keras.max_queue_size", "10")]),
        (keras, "decode", &[("keras.decode", "\"1 ms\"")]),
        (dali, "workers", &[("dali.readers", "4"), ("dali.threads", "8")]),
        (dali, "prefetch", &[("dali.prefetch_queue_depth", "6")]),
        (dali, "decode", &[("dali.decode", "\"1 ms\"")]),
        (on_gpu, "decode", &[("dali.gpu.decode", "\"100 us\"")]),
        (data, "workers", &[("tf-data.parallel_reads", "4"), ("tf-data.parallel_calls", "32")]),
        (data, "prefetch", &[("tf-data.prefetch", "6")]),
        (queue, "workers", &[("tf-queue.threads", "8")]),
        (queue, "prefetch", &[("tf-queue.capacity", "\"200 samples\"")]),
    ];
    for (loader, lever, keys) in cases {
        let text = JOB.replace("{loader}", loader);
        let lifted = all_lifted(&written(&text, &[])).into_iter().find(|of| of.lever == lever);
        let lifted = lifted.unwrap_or_else(|| panic!("{loader}: no {lever}"));
        let keys: Vec<(String, &str)> =
            keys.iter().map(|(key, value)| (format!("job.j.loader.{key}"), *value)).collect();
        let keys: Vec<(&str, &str)> = keys.iter().map(|(key, value)| (&**key, *value)).collect();
        let set = written(&text, &keys);
        assert_eq!(lifted.scenario.jobs[0].loader, set.jobs[0].loader, "{loader}: {lever}");
    }
}

#[test]
fn a_lock_is_lifted_only_where_there_is_one() {
    // System: threads that hold no lock; a generator, whose processes would repeat each other's samples; a loader without workers.
    // Expectation: no verdict tries processes in place of threads, or more prefetched batches for the loader without workers.
    let levers = |loader: &str| -> Vec<&'static str> {
        all_lifted(&written(&JOB.replace("{loader}", loader), &[]))
            .iter()
            .map(|of| of.lever)
            .collect()
    };
    let free = "{ pytorch = { workers = 4, worker_kind = \"thread\", ipc = \"1 GB/s\" } }";
    let generator = "{ keras = { workers = 4, gil = 1.0, generator = {} } }";
    for loader in [free, generator] {
        assert!(!levers(loader).contains(&"gil"), "{loader}");
    }
    assert!(!levers("{ pytorch = { workers = 0 } }").contains(&"prefetch"));
}
