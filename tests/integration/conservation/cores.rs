//! Random scenarios of all features by which threads share cores: the same invariants hold in all of them.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestRunner};

use super::audit;
use crate::base::changed;

type Change = (&'static str, String);

/// Returns a strategy for this change or none.
fn maybe(change: impl Strategy<Value = Vec<Change>>) -> impl Strategy<Value = Vec<Change>> {
    prop_oneof![Just(Vec::new()), change]
}

fn time() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..1500_u32).prop_map(|us| format!("\"{us} us\"")),
        (1..900_u32).prop_map(|us| format!("{{ exponential = {{ mean = \"{us} us\" }} }}")),
    ]
}

fn share() -> impl Strategy<Value = f64> {
    (0..=10_u32).prop_map(|tenths| f64::from(tenths) / 10.0)
}

fn launches() -> impl Strategy<Value = Vec<Change>> {
    (time(), 1..5_u32, any::<bool>(), share()).prop_map(|(work, threads, overlap, gil)| {
        let launch =
            format!("{{ work = {work}, threads = {threads}, overlap = {overlap}, gil = {gil:?} }}");
        vec![("job.model.launch", launch)]
    })
}

fn loaders() -> impl Strategy<Value = Vec<Change>> {
    let pin = prop_oneof![
        Just(String::new()),
        (time(), share()).prop_map(|(work, gil)| {
            format!(", pin_memory = {{ work = {work}, bandwidth = \"3 GB/s\", gil = {gil:?} }}")
        }),
    ];
    let kind = prop_oneof![Just("process"), Just("thread")];
    let pytorch = (0..5_u32, 1..4_u32, kind, share(), time(), pin, any::<[bool; 2]>()).prop_map(
        |(workers, factor, kind, gil, decode, pin, [to_device, in_order])| {
            format!(
                "{{ pytorch = {{ workers = {workers}, prefetch_factor = {factor}, worker_kind = \
                 \"{kind}\", gil = {gil:?}, ipc = \"2 GB/s\", decode = {decode}, to_device = \
                 {to_device}, in_order = {in_order}{pin} }} }}"
            )
        },
    );
    let keras = (1..5_u32, 1..4_u32, any::<bool>(), share(), time()).prop_map(
        |(workers, queue, processes, gil, decode)| {
            format!(
                "{{ keras = {{ workers = {workers}, max_queue_size = {queue}, use_multiprocessing = \
                 {processes}, gil = {gil:?}, ipc = \"2 GB/s\", decode = {decode} }} }}"
            )
        },
    );
    prop_oneof![pytorch, keras].prop_map(|loader| vec![("job.loader", loader)])
}

fn nodes() -> impl Strategy<Value = Vec<Change>> {
    let smt = (2..5_u32, 0..11_u32).prop_map(|(threads, tenths)| {
        let gain = 1.0 + f64::from(tenths) / 10.0;
        let smt = format!("{{ threads_per_core = {threads}, yield = {gain:?} }}");
        vec![("cluster.node.smt", smt)]
    });
    let memory = (1..5_u32, 1..3000_u32).prop_map(|(gb, mb)| {
        vec![
            ("cluster.node.memory_bandwidth", format!("\"{gb} GB/s\"")),
            ("job.memory_traffic", format!("\"{mb} MB/s\"")),
        ]
    });
    let pcie = (100..2000_u32).prop_map(|mb| vec![("cluster.node.pcie", format!("\"{mb} MB/s\""))]);
    let fifo = Just(vec![("cluster.node.scheduling", "\"fifo\"".to_owned())]);
    let sharing = prop_oneof![Just(Vec::new()), smt, fifo];
    (1..6_u32, sharing, maybe(memory), maybe(pcie)).prop_map(|(cores, sharing, memory, pcie)| {
        [vec![("cluster.node.cores", cores.to_string())], sharing, memory, pcie].concat()
    })
}

fn jobs() -> impl Strategy<Value = Vec<Change>> {
    let quota = (1..60_u32)
        .prop_map(|tenths| vec![("job.cpu_quota", format!("{:?}", f64::from(tenths) / 10.0))]);
    let inner = (1..6_u32, 1..=10_u32).prop_map(|(threads, tenths)| {
        let efficiency = f64::from(tenths) / 10.0;
        let inner = format!("{{ threads = {threads}, efficiency = {efficiency:?} }}");
        vec![("job.inner_threads", inner)]
    });
    let decoded = Just(vec![("dataset.d.decoded_size", "\"300 kB\"".to_owned())]);
    let places = (1..4_u32, any::<bool>(), 1..3_u32).prop_map(|(models, share, copies)| {
        vec![
            ("job.parallel", format!("{{ data = {{ copies_per_node = {models} }} }}")),
            ("job.copies", copies.to_string()),
            ("cluster.share_nodes", share.to_string()),
        ]
    });
    (maybe(quota), maybe(inner), maybe(decoded), places)
        .prop_map(|(quota, inner, decoded, places)| [quota, inner, decoded, places].concat())
}

fn runs() -> impl Strategy<Value = Vec<Change>> {
    let run = prop_oneof![
        (1..40_u32).prop_map(|steps| format!("{{ steps = {steps}, replications = 1 }}")),
        (1..20_u32).prop_map(|tenths| format!("{{ epochs = 0.{tenths:02}, replications = 1 }}")),
        (1..100_u32).prop_map(|ms| format!("{{ duration = \"{ms} ms\", replications = 1 }}")),
    ];
    run.prop_map(|run| vec![("run", run)])
}

#[test]
fn samples_bytes_and_times_are_conserved_in_random_scenarios_of_shared_cores() {
    let config = Config {
        cases: 400,
        failure_persistence: None,
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(7),
        ..Config::default()
    };
    let all = (runs(), nodes(), jobs(), maybe(launches()), maybe(loaders()));
    let result = TestRunner::new(config).run(&all, |(run, node, job, launch, loader)| {
        let changes = [run, node, job, launch, loader].concat();
        let changes: Vec<(&str, &str)> = changes.iter().map(|(k, v)| (*k, v.as_str())).collect();
        audit(&format!("{changes:?}"), &changed(&changes));
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
