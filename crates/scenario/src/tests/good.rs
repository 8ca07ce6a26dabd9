//! Tests: files without mistakes resolve to the values that they state.

use super::*;
use crate::cluster::{Intra, IntraKind, Tree};
use crate::storage::{Bandwidth, Written};

#[test]
fn the_example_scenario_is_read_with_the_expected_settings() {
    let scenario = resolved(&[]).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(scenario.name, "fletcher-lenet");
    let run = Run { stop: Stop::Steps(500), warm_up: WarmUp::Auto, replications: 5, seed: 1 };
    assert_eq!(scenario.run, run);
    assert_eq!(
        scenario.cluster,
        Cluster {
            nodes: 16,
            share_nodes: false,
            node: Node {
                cores: 20,
                usable_cores: 20.0,
                core_speed: vec![],
                smt: None,
                scheduling: Scheduling::Shared,
                gpus: 4,
                gpu_speed: 1.0,
                gpu: None,
                gpu_memory: f64::INFINITY,
                gpu_memory_bandwidth: f64::INFINITY,
                memory: 256.0 * f64::from(1 << 30),
                memory_bandwidth: f64::INFINITY,
                pcie: 12e9,
                intra: Intra {
                    kind: IntraKind::Shared,
                    bandwidth: 20e9,
                    latency: 10e-6,
                    tree: Tree::NONE,
                },
                nics: 1,
                page_cache: Some(PageCache {
                    capacity: 256.0 * f64::from(1 << 30),
                    policy: None,
                    bandwidth: f64::INFINITY,
                    assumed: true,
                }),
                power: None,
            },
            groups: vec![],
            nic: 1.25e9,
            storage_nic: None,
            racks: None,
            latency: 5e-6,
        }
    );
    let sigma = 10_f64.ln() / 2.326_347_874_040_841;
    assert_eq!(
        scenario.storage,
        [Storage {
            name: "hpctmp".to_owned(),
            kind: "file-server",
            warm: None,
            path: RequestPath {
                bandwidth: Bandwidth::Fixed(2e9),
                per_stream: 400e6,
                latency: Distribution::Lognormal { mu: 0.92e-3_f64.ln(), sigma },
                operations: 1e5,
                ..RequestPath::unlimited(Location::Shared, Access::Cold)
            },
            written: Written {
                per_client: false,
                bandwidth: true,
                per_stream: true,
                latency: true,
                operations: true,
                queues: false,
                burst: false,
            },
            tier: Some(Tier { capacity: None, write: None }),
            writes: WriteLimits::default(),
            cache: None,
        }]
    );
    assert_eq!(
        scenario.datasets,
        [Dataset {
            name: "mnist".to_owned(),
            samples: 60_000,
            sizes: SampleSizes::Drawn(Distribution::Constant(784.0)),
            decoded_size: None,
            layout: Layout::FilePerSample,
            ranges: None,
            order: SampleOrder::Shuffled,
            image: None,
        }]
    );
    assert_eq!(scenario.jobs, [fletcher_job()]);
    assert_eq!(scenario.background, []);
}

fn fletcher_job() -> Job {
    Job {
        name: "lenet".to_owned(),
        copies: 16,
        nodes: 1,
        after: vec![],
        start: 0.0,
        stagger: 0.0,
        arrivals: Arrivals::Regular,
        stop: None,
        dataset: 0,
        storage: 0,
        staging: None,
        decoded_cache: None,
        batch: 64,
        split: Split::Strided,
        replicas: None,
        batch_interval: BatchInterval::Every(1.0),
        loader: StageGraph {
            stages: vec![Stage {
                name: "enqueue".to_owned(),
                workers: 8,
                unit: Unit::Sample,
                per_sample: vec![
                    Operation::Read,
                    Operation::Compute(Distribution::Constant(50e-6)),
                ],
                per_item: vec![],
                order: Order::Any,
                buffer: 2000,
                ..Stage::default()
            }],
            requests: None,
            rebuilt: None,
            generator: None,
            process_copies: None,
            taking: 0.0,
            preset: Preset::TfQueue,
        },
        queue: QueueKind::Bounded,
        prefill: 0,
        copies_per_node: 4,
        copies_each: vec![],
        loader_per_copy: false,
        pipeline: None,
        parallelism: None,
        other_schedules: Default::default(),
        sync: None,
        accumulation: 1,
        step: StepTime { fixed: 2e-3, per_sample: 15.6e-6, floor: 0.0, jitter: None },
        peak: None,
        device: Device::Accelerator,
        gpu: None,
        launch: None,
        catalogue: None,
        footprints: vec![],
        worker_memory: 0.0,
        hand_off: 0.0,
        cpu: CpuUse::default(),
        accuracy: None,
        learners: Learners::ONE,
        kernels: vec![],
        checkpoint: None,
        failures: None,
    }
}

#[test]
fn the_question_of_a_scenario_is_read_from_its_first_comment() {
    let question =
        "How many enqueue threads keep LeNet fed while sixteen jobs share one file server?";
    assert_eq!(fletcher().question(), Some(question));
}

#[test]
fn sweep_axes_have_the_order_of_the_scenario_file() {
    let axes = fletcher().axes().unwrap_or_else(|problems| panic!("{problems}"));
    let keys: Vec<_> = axes.iter().flat_map(|axis| axis.keys.iter().map(String::as_str)).collect();
    assert_eq!(keys, ["job.loader.tf-queue.threads", "job.batch_interval"]);
    let values: Vec<_> = axes[0].values.iter().map(|of| of[0].as_f64()).collect();
    assert_eq!(values, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0].map(Some));
}
