//! Outcomes made by hand, for the tests of the report.

use super::*;
use forebay_scenario::cluster::{Intra, IntraKind, Tree};
use forebay_scenario::storage::Bandwidth;
use forebay_scenario::*;

/// Returns a scenario with two copies of a job, whose loader of four workers limits its speed.
pub(super) fn scenario() -> Scenario {
    let stage = Stage {
        name: "enqueue".into(),
        workers: 4,
        unit: Unit::Sample,
        per_sample: vec![Operation::Read, Operation::Compute(Distribution::Constant(1e-4))],
        per_item: vec![],
        order: Order::Any,
        buffer: 100,
        ..Stage::default()
    };
    let job = Job {
        name: "lenet".into(),
        copies: 2,
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
        batch: 10,
        split: Split::Strided,
        replicas: None,
        batch_interval: BatchInterval::Every(1.0),
        loader: StageGraph::new(vec![stage]),
        queue: QueueKind::Bounded,
        prefill: 0,
        copies_per_node: 1,
        copies_each: vec![],
        loader_per_copy: false,
        pipeline: None,
        parallelism: None,
        other_schedules: Default::default(),
        sync: None,
        accumulation: 1,
        step: StepTime { fixed: 0.02, per_sample: 0.0, floor: 0.0, jitter: None },
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
    };
    let node = Node {
        cores: 8,
        usable_cores: 8.0,
        core_speed: vec![],
        smt: None,
        memory_bandwidth: f64::INFINITY,
        scheduling: Scheduling::Shared,
        gpus: 1,
        gpu_speed: 1.0,
        gpu: None,
        gpu_memory: f64::INFINITY,
        gpu_memory_bandwidth: f64::INFINITY,
        memory: f64::INFINITY,
        pcie: f64::INFINITY,
        intra: Intra {
            kind: IntraKind::Shared,
            bandwidth: f64::INFINITY,
            latency: 0.0,
            tree: Tree::NONE,
        },
        nics: 1,
        page_cache: None,
        power: None,
    };
    Scenario {
        name: "by hand".into(),
        run: Run { stop: Stop::Steps(40), warm_up: WarmUp::Off, replications: 1, seed: 3 },
        fidelity: RunFidelity::default(),
        cluster: Cluster {
            nodes: 2,
            share_nodes: false,
            node,
            groups: vec![],
            nic: f64::INFINITY,
            storage_nic: None,
            racks: None,
            latency: 0.0,
        },
        storage: vec![Storage {
            warm: None,
            name: "nfs".into(),
            kind: "file-server",
            path: RequestPath {
                bandwidth: Bandwidth::Fixed(1e9),
                latency: Distribution::Exponential { mean: 0.01 },
                ..RequestPath::unlimited(Location::Shared, Access::Cold)
            },
            written: Written::default(),
            tier: None,
            writes: WriteLimits::default(),
            cache: None,
        }],
        datasets: vec![Dataset {
            name: "digits".into(),
            samples: 300,
            sizes: SampleSizes::Drawn(Distribution::Constant(784.0)),
            decoded_size: None,
            layout: Layout::FilePerSample,
            ranges: None,
            order: SampleOrder::Shuffled,
            image: None,
        }],
        jobs: vec![job],
        background: vec![],
        faults: vec![],
        prices: None,
        achieved: vec![],
        origins: Origins::default(),
        remarks: vec![],
        notes: vec![],
    }
}

/// Returns a copy with `steps` steps of `step` seconds, from second 1 on. Each step computes for 0.02 s and waits for the rest:
/// two thirds for latency and one third for cores. Each step puts ten samples into the queue and takes ten out. Workers are held
/// up half of the time; the queue holds 50 samples and is empty for a tenth of the time.
pub(super) fn copy(steps: usize, step: f64) -> JobOutcome {
    let wait = step - 0.02;
    let (mut ends, mut stalls) = (Vec::new(), Vec::new());
    for i in 0..steps {
        let done = (i + 1) as f64;
        ends.push(StepOutcome {
            end: 1.0 + done * step,
            compute: 0.02,
            samples: 10,
            fresh: 10,
            queue: QueueTotals {
                level_seconds: 50.0 * done * step,
                empty_seconds: 0.1 * done * step,
                started: 10 * (i as u64 + 1),
                enqueued: 10 * (i as u64 + 1),
                dequeued: 10 * (i as u64 + 1),
                blocked_seconds: 4.0 * 0.5 * done * step,
                residence_seconds: 30.0 * done,
            },
            events: 0,
        });
        let of = |cause, seconds| Stall { step: i as u32, cause, seconds };
        stalls.push(of(StallCause::own(Cause::Latency), wait * 2.0 / 3.0));
        stalls.push(of(StallCause::own(Cause::CpuWait), wait / 3.0));
    }
    JobOutcome {
        start: 1.0,
        steps: ends,
        stalls,
        queue: QueueOutcome {
            capacity: 100,
            initial: 100,
            workers: 4,
            exhaustions: vec![
                Exhaustion { start: 1.5, duration: 0.1 },
                Exhaustion { start: 2.0, duration: 0.3 },
            ],
            ..QueueOutcome::default()
        },
        ..JobOutcome::default()
    }
}

/// Returns the outcome of both copies, with these step times [s].
pub(super) fn outcome(step_times: [f64; 2]) -> Outcome {
    let [a, b] = step_times.map(|step| copy(40, step));
    Outcome {
        jobs: vec![a, JobOutcome { copy: 1, ..b }],
        resources: vec![ResourceOutcome {
            of: Resource::storage(0, Part::Bandwidth),
            name: "nfs.bandwidth".into(),
            count: 1,
            capacity: 1e9,
            unit: "B/s",
            utilisation: 0.25,
            utilisation_max: 0.25,
            mean_flows: 3.0,
            served: 1.0,
            burst: None,
            groups: Vec::new(),
        }],
        makespan: 5.0,
        events: 100,
        flows: 10,
        ..Outcome::default()
    }
}
