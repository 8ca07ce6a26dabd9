//! Random scenarios: the same invariants hold in all of them.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestRunner};

use super::audit;
use crate::runs::written;

/// Returns a strategy for the text of a random valid scenario.
fn scenarios() -> impl Strategy<Value = String> {
    let time = || {
        prop_oneof![
            (1..3000_u32).prop_map(|us| format!("\"{us} us\"")),
            (1..900_u32).prop_map(|us| format!("{{ exponential = {{ mean = \"{us} us\" }} }}")),
            (1..900_u32)
                .prop_map(|us| format!("{{ lognormal = {{ mean = \"{us} us\", cv = 1.2 }} }}")),
        ]
    };
    let size = prop_oneof![
        3 => (1..300_u32).prop_map(|kb| format!("\"{kb} kB\"")),
        1 => (1..300_u32).prop_map(|kb| format!("{{ exponential = {{ mean = \"{kb} kB\" }} }}")),
    ];
    let bandwidth = prop_oneof![
        (50..3000_u32).prop_map(|mb| format!("\"{mb} MB/s\"")),
        prop::collection::vec(50..3000_u32, 1..5).prop_map(|table| {
            let list: Vec<String> = table.iter().map(|mb| format!("\"{mb} MB/s\"")).collect();
            format!("[{}]", list.join(", "))
        }),
    ];
    let storage = (bandwidth, time(), 0..3_u8, 20..900_u32, 500..50_000_u32, any::<[bool; 2]>())
        .prop_map(|(bandwidth, latency, kind, stream, operations, given)| {
            let mut rest = format!(", latency = {latency}");
            if given[0] {
                rest += &format!(", per_stream = \"{stream} MB/s\"");
            }
            if given[1] {
                rest += &format!(", operations = \"{operations} /s\"");
            }
            match kind {
                0 => format!("{{ memory = {{ bandwidth = {bandwidth} }} }}"),
                1 => format!("{{ local-disk = {{ bandwidth = {bandwidth}{rest} }} }}"),
                _ => format!("{{ file-server = {{ bandwidth = {bandwidth}{rest} }} }}"),
            }
        });
    let layout = prop_oneof![
        Just("{ file-per-sample = {} }".to_owned()),
        (1..120_u32, 1..900_u32).prop_map(|(n, kib)| {
            format!("{{ shards = {{ samples = {n}, request = \"{kib} KiB\" }} }}")
        }),
        (1..120_u32, 1..900_u32, 1..4_u32).prop_map(|(n, kib, members)| {
            let with = format!("samples = {n}, request = \"{kib} KiB\", members = {members}");
            format!("{{ webdataset = {{ {with} }} }}")
        }),
        Just("{ lmdb = {} }".to_owned()),
        (1..900_u32, 1..6_u32).prop_map(|(kb, ahead)| {
            let with = format!("request = \"{kb} kB\", readahead = {ahead}");
            format!("{{ file-per-sample = {{ {with} }} }}")
        }),
        (1..120_u32, 1..4_u32, 1..4_u32, 1..11_u32, 0..20_u32).prop_map(
            |(n, per, columns, read, ns)| {
                let read = f64::from(read) / 10.0;
                format!(
                    "{{ parquet = {{ row_group = {n}, row_groups = {per}, columns = {columns}, \
                 read = {read}, decompress = \"{ns} ns\" }} }}"
                )
            }
        ),
    ];
    let order = || prop_oneof![Just("any"), Just("in-order")];
    let stages =
        (1..6_u32, 1..6_u32, 1..4_u32, 0..12_u32, 0..20_u32, order(), order(), time(), time());
    let loader = move |batch: u32| {
        prop_oneof![
            (1..12_u32, 0..60_u32, time()).prop_map(move |(threads, more, decode)| {
                let capacity = batch + more;
                let text = format!(
                    "{{ tf-queue = {{ threads = {threads}, capacity = \"{capacity} samples\", \
                     decode = {decode} }} }}"
                );
                (text, capacity, false)
            }),
            stages.clone().prop_map(move |(a, b, c, small, more, o, p, t, u)| {
                let (first, last) = (1 + small, batch + more);
                let text = format!(
                    "{{ stages = [{{ name = \"a\", workers = {a}, per_sample = [\"read\"], order = \
                     \"{o}\", buffer = {first} }}, {{ name = \"b\", workers = {b}, per_sample = \
                     [{{ delay = {t} }}, {{ compute = {u} }}], order = \"{p}\", buffer = {last} }}, \
                     {{ name = \"c\", workers = {c}, per_item = [\"copy\"], order = \"{o}\", buffer \
                     = {last} }}] }}"
                );
                (text, last, false)
            }),
            stages.clone().prop_map(move |(a, b, c, small, more, o, p, t, u)| {
                let (first, last) = (batch + small, 1 + more % 4);
                let text = format!(
                    "{{ stages = [{{ name = \"a\", workers = {a}, per_sample = [\"read\", {{ compute \
                     = {t} }}], order = \"{o}\", buffer = {first} }}, {{ name = \"b\", workers = {b}, \
                     unit = \"batch\", per_item = [{{ compute = {u} }}], order = \"{p}\", buffer = \
                     {last} }}, {{ name = \"c\", workers = {c}, unit = \"batch\", per_item = \
                     [\"copy\"], buffer = {last} }}] }}"
                );
                (text, last * batch, true)
            }),
        ]
    };
    let run = prop_oneof![
        (1..40_u32).prop_map(|steps| format!("steps = {steps}")),
        (1..40_u32).prop_map(|steps| format!("steps = {steps}")),
        (1..20_u32).prop_map(|tenths| format!("epochs = {}", f64::from(tenths) / 10.0)),
        (1..200_u32).prop_map(|ms| format!("duration = \"{ms} ms\"")),
    ];
    let job = (1..12_u32).prop_flat_map(move |batch| {
        let interval = prop_oneof![
            3 => Just("1".to_owned()),
            1 => (10..50_u32).prop_map(|tenths| format!("{}", f64::from(tenths) / 10.0)),
            1 => (1..6_u32).prop_map(move |max| {
                format!("{{ adaptive = {{ level = \"{batch} samples\", max = {max} }} }}")
            }),
        ];
        let parallel = (1..3_u32, 1..4_u32, any::<bool>());
        (
            Just(batch),
            loader(batch),
            interval,
            parallel,
            1..4_u32,
            1..3_u32,
            any::<[bool; 3]>(),
            (1..5000_u32, 0..3000_u32),
        )
    });
    let cluster = (1..6_u32, any::<bool>(), 50..2000_u32, any::<[bool; 2]>());
    (run, cluster, storage, size, layout, job, 40..400_u32).prop_map(
        |(run, (cores, fifo, nic, limited), storage, size, layout, job, samples)| {
            let (batch, (loader, capacity, batches), interval, parallel, nodes, copies, has, times) = job;
            let (models, stages, overlap) = parallel;
            let circular = has[0] && !batches && !interval.contains("adaptive");
            let prefill = match (has[1], batches) {
                (false, _) => String::new(),
                (true, true) => "prefill = \"full\"".to_owned(),
                (true, false) => format!("prefill = \"{} samples\"", capacity / 2),
            };
            let scheduling = if fifo { "fifo" } else { "shared" };
            let nic = if limited[0] { format!("nic = \"{nic} MB/s\"\n") } else { String::new() };
            let pcie = if limited[1] { "pcie = \"700 MB/s\"\n" } else { "" };
            let queue = if circular { "circular" } else { "bounded" };
            let jitter = if has[2] { "jitter = { gamma = { cv = 0.5 } }\n" } else { "" };
            let (step, stagger) = times;
            format!(
                "name = \"random\"\n[run]\n{run}\nreplications = 1\nwarm_up = \"off\"\n[cluster]\n\
                 nodes = 8\n[cluster.node]\ncores = {cores}\nscheduling = \"{scheduling}\"\ngpus = 6\n\
                 {pcie}[cluster.network]\n{nic}latency = \"7 us\"\n[storage]\ns = {storage}\n\
                 [dataset.d]\nsamples = {samples}\nsample_size = {size}\nlayout = {layout}\n[[job]]\n\
                 name = \"j\"\nnodes = {nodes}\ncopies = {copies}\nstagger = \"{stagger} us\"\n\
                 dataset = \"d\"\nstorage = \"s\"\nbatch = {batch}\nbatch_interval = {interval}\n\
                 queue = \"{queue}\"\n{prefill}\nloader = {loader}\nmodel.step = \"{step} us\"\n\
                 model.{jitter_line}parallel.data.copies_per_node = {models}\n\
                 parallel.pipeline = {{ stages = {stages}, overlap = {overlap} }}\n",
                jitter_line = if jitter.is_empty() { "step_note" } else { jitter }
            )
            .replace("model.step_note", "")
        },
    )
}

/// Returns a strategy for scenarios with learners in place of pipelines: a fixed number or a tuning policy, in
/// step, averaged, or with one model.
fn with_learners() -> impl Strategy<Value = String> {
    let learners = prop_oneof![
        3 => (1..5_u32).prop_map(|number| number.to_string()),
        1 => (1..8_u32, 1..5_u32).prop_map(|(window, most)| {
            format!("{{ auto = {{ window = {window}, most = {most} }} }}")
        }),
    ];
    let averaging = prop_oneof![
        1 => Just(String::new()),
        3 => (1..5_u32, 1..2000_u32).prop_map(|(period, kb)| {
            // Averaging stays off the links, whose bytes of data are checked.
            let keys = format!("period = {period}, parameters = \"{kb} kB\"");
            format!("sync.model-averaging = {{ {keys}, fidelity = \"analytic\" }}\n")
        }),
        2 => (1..5_u32, 1..2000_u32, any::<bool>()).prop_map(|(tensors, kb, root)| {
            let (kind, of) = match root {
                true => ("reduce-broadcast", "buffers = \"per-layer\", parameters"),
                false => ("allreduce", "buckets = \"300 kB\", gradients"),
            };
            let keys = format!("tensors = {tensors}, {of} = \"{kb} kB\"");
            format!("sync.{kind} = {{ {keys}, fidelity = \"analytic\" }}\n")
        }),
    ];
    let occupancy = prop_oneof![
        (1..11_u32).prop_map(|tenths| format!("{}", f64::from(tenths) / 10.0)),
        (1..10_u32).prop_map(|tenths| {
            let share = f64::from(tenths) / 10.0;
            let other = 1.0 - share;
            format!(
                "{{ kernels = [{{ share = {share}, occupancy = 0.3 }}, {{ share = {other}, \
                 occupancy = 0.9 }}] }}"
            )
        }),
    ];
    let launch = prop_oneof![
        2 => Just(String::new()),
        1 => any::<bool>().prop_map(|overlap| {
            format!("model.launch = {{ work = \"300 us\", overlap = {overlap} }}\n")
        }),
    ];
    let memory = prop_oneof![Just(""), Just("gpu_memory_bandwidth = \"1 GB/s\"\n")];
    (scenarios(), learners, averaging, occupancy, launch, memory).prop_map(
        |(text, learners, averaging, occupancy, launch, memory)| {
            let lines = text.lines().filter(|line| !line.starts_with("parallel.pipeline"));
            let tuned = learners.contains("auto");
            let lines = lines.map(|line| match line {
                line if tuned && line.starts_with("batch_interval") => "batch_interval = 1".into(),
                "gpus = 6" => format!("gpus = 6\n{memory}").trim_end().to_owned(),
                line => line.to_owned(),
            });
            // The number of launches would depend on the number of learners that a policy finds.
            let none = tuned || text.contains("fifo");
            let launch = if none { String::new() } else { launch };
            let text = lines.collect::<Vec<String>>().join("\n");
            format!(
                "{text}\nparallel.data.learners = {learners}\nmodel.occupancy = {occupancy}\n\
                 {launch}{averaging}"
            )
        },
    )
}

/// Returns a strategy for scenarios in which nodes fail, with checkpoints or without.
fn with_failures() -> impl Strategy<Value = String> {
    let times = proptest::collection::btree_set(1..200_u32, 1..4);
    let checkpoint = prop_oneof![
        1 => Just(String::new()),
        3 => (1..9_u32, 0..4_usize).prop_map(|(steps, busy)| {
            let busy = [
                "",
                ", asynchronous = true",
                ", asynchronous = true, when_busy = \"queue\"",
                ", asynchronous = true, when_busy = \"together\"",
            ][busy];
            // Not on `s`, whose bytes are checked.
            format!("checkpoint = {{ steps = {steps}, bytes = \"1 kB\", storage = \"c\"{busy} }}\n")
        }),
    ];
    // Checkpoints that failed nodes take with them, or not, written in no time or in some ms.
    let storage = prop_oneof![
        Just("memory = {}"),
        Just("file-server = { bandwidth = \"100 kB/s\" }"),
        Just("local-disk = { bandwidth = \"100 kB/s\" }"),
    ];
    (scenarios(), times, 0..20_u32, any::<bool>(), (checkpoint, storage)).prop_map(
        |(text, times, restart, epoch, (checkpoint, storage))| {
            let at: Vec<String> = times.iter().map(|ms| format!("\"{ms} ms\"")).collect();
            let resume = if epoch && !text.contains("adaptive") { "epoch" } else { "position" };
            let text = text.replace("[dataset.d]", &format!("c = {{ {storage} }}\n[dataset.d]"));
            format!(
                "{text}failures = {{ at = [{}], restart = \"{restart} ms\", resume = \"{resume}\" }}\n\
                 {checkpoint}",
                at.join(", ")
            )
        },
    )
}

fn balances(strategy: &impl Strategy<Value = String>, cases: u32) {
    let config = Config {
        cases,
        failure_persistence: None,
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(7),
        ..Config::default()
    };
    let result = TestRunner::new(config).run(strategy, |text| {
        audit("random", &written(&text, &[]));
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn samples_bytes_and_times_are_conserved_in_random_scenarios() {
    balances(&scenarios(), 400);
}

#[test]
fn samples_bytes_and_times_are_conserved_in_random_scenarios_with_learners() {
    balances(&with_learners(), 300);
}

#[test]
fn samples_bytes_and_times_are_conserved_in_random_scenarios_with_failures() {
    balances(&with_failures(), 400);
}
