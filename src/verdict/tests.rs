//! Tests that each lever changes a scenario that has its limit, and names the limit, its key and its amounts.

use super::all_lifted;
use super::candidates::Subject;
use super::lever::{Kind, Lever};
use super::reference::Reference;
use crate::report::{Direction, Part, Resource};
use crate::scenario::{Fault, Faulty, FaultyLink, Scenario, ScenarioFile};
use crate::{report, sim};
use std::collections::BTreeSet;

/// A scenario with all kinds of storage, two kinds of nodes, and a job that reads, copies, checkpoints and fails.
const READING: &str = r#"
name = "reading"
run = { steps = 10 }
fault = [{ node = "cores", factor = 0.5 }]
background = [{ name = "b", storage = "s", streams = { streams = 1 } }]
[cluster]
nodes = 2
group.old = { nodes = 2, node = { gpu_speed = 0.5 } }
[cluster.node]
cores = 8
gpus = 2
memory = "64 GB"
pcie = "10 GB/s"
memory_bandwidth = "100 GB/s"
gpu_memory_bandwidth = "1 TB/s"
intra = { kind = "switch", bandwidth = "50 GB/s" }
page_cache = { capacity = "1 GB", bandwidth = "10 GB/s" }
[cluster.network]
nic = "1 GB/s"
storage_nic = "1 GB/s"
latency = "10 us"
racks = { nodes = 2, uplink = "1 GB/s" }
[storage.s.file-server]
bandwidth = "1 GB/s"
per_stream = "100 MB/s"
latency = "1 ms"
operations = "1000 /s"
write_bandwidth = "1 GB/s"
cache = { on = "t", capacity = "1 GB" }
[storage.t.local-disk]
bandwidth = "1 GB/s"
[storage.d.local-disk]
bandwidth = "1 GB/s"
seek = "1 ms"
[storage.p.parallel-fs]
targets = 2
target_bandwidth = "1 GB/s"
[storage.n.nvme-of]
bandwidth = "1 GB/s"
queues = 2
queue_bandwidth = "100 MB/s"
[storage.o.object-store]
requests = "1000 /s"
[storage.m.measured]
sizes = ["10 kB", "1 MB"]
requests = [1, 4]
throughput = [["10 MB/s", "40 MB/s"], ["100 MB/s", "400 MB/s"]]
[dataset.d]
samples = 1000
sample_size = "100 kB"
[[job]]
name = "j"
nodes = 4
dataset = "d"
storage = "s"
batch = 8
cpu_quota = 2.0
model = { step = "10 ms", jitter = { lognormal = { cv = 0.1 } }, launch = "1 ms" }
checkpoint = { steps = 5, bytes = "1 MB", pause = "1 ms" }
failures = { mtbf = "10 h", restart = "1 min" }
loader.pytorch = { workers = 2, decode = "1 ms", delay = "1 ms", worker_kind = "thread", gil = 1.0 }
"#;

/// Beginning of a scenario with ranks that have data in memory; the rest of the job is appended.
const RANKS: &str = r#"
name = "ranks"
run = { steps = 10 }
cluster = { nodes = 2, node = { cores = 8, gpus = 4 }, network = { nic = "1 GB/s", latency = "10 us" } }
storage = { m.memory = {}, f.file-server = { bandwidth = "1 GB/s" } }
dataset.d = { samples = 1000, sample_size = "1 kB" }
[[job]]
name = "j"
nodes = 2
dataset = "d"
storage = "m"
batch = 8
model.step = "10 ms"
"#;

fn read(text: &str) -> Scenario {
    let file = ScenarioFile::parse("test.toml", text.to_owned());
    let file = file.unwrap_or_else(|problems| panic!("{problems}"));
    file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}"))
}

fn all() -> Vec<Scenario> {
    let rest = [
        "loader.in-memory = {}\nsync.allreduce = { gradients = \"10 MB\", transport.tcp = { per_stream = \"1 GB/s\", \
         cpu.per_message = \"10 us\" } }",
        "loader.in-memory = {}\nsync.parameter-server = { parameters = \"10 MB\", server = { nic = \"1 GB/s\" } }",
        "loader.in-memory = {}\nsync.allreduce = { gradients = \"10 MB\", buckets = \"1 MB\", overlap = false }",
        "loader.in-memory = {}\nparallel.data.learners = 2\nmodel.occupancy = 0.2\nsync.model-averaging = { parameters = \"10 MB\", \
         latency = \"1 ms\" }",
        "loader.in-memory = {}\nsync.reduce-broadcast = { parameters = \"10 MB\", update = \"1 ms\" }",
        "loader.in-memory = {}\nparallel.pipeline = { stages = 4, schedule = \"gpipe\", micro_batches = 4 }",
        "loader.in-memory = {}\nparallel.pipeline = { shares = [0.7, 0.3] }",
        "loader.in-memory = {}\nparallel = { data.copies_per_node = 2, zero.stage = 3 }\nsync.allreduce.gradients = \"10 MB\"",
        "loader.keras = { workers = 2, generator = {} }",
        "loader.pytorch = { workers = 2, collate = \"1 ms\", ipc = \"1 GB/s\", pin_memory = \"1 ms\" }",
    ];
    let ranks = rest.iter().map(|rest| read(&format!("{RANKS}{rest}\n")));
    let one_node = RANKS.replace("nodes = 2\n", "nodes = 1\n");
    let sync = "loader.in-memory = {}\nsync.allreduce = { gradients = \"10 MB\", transport.nccl.latency_inside = \"10 us\" }";
    let splits = [
        "parallel.tensor = { ranks = 4, allreduces = 2, activations = \"1 kB\" }",
        "parallel.data.copies_per_node = 4",
    ];
    let [tensor, copies] = splits.map(|split| read(&format!("{one_node}{sync}\n{split}\n")));
    let writing = "loader.in-memory = {}\ncopies = 2\ncheckpoint = { steps = 5, bytes = \"1 GB\", storage = \"f\" }";
    let writing = read(&format!("{one_node}{writing}\n"));
    [read(READING), tensor, copies, writing].into_iter().chain(ranks).collect()
}

#[test]
fn the_bottleneck_verdict_can_lift_each_kind_of_resource_limit() {
    let all = all();
    let found = all.iter().flat_map(all_lifted).map(|lifted| lifted.lever);
    let found: BTreeSet<&str> = found.collect();
    let missing: Vec<&str> =
        Kind::ALL.iter().map(|kind| kind.row().name).filter(|name| !found.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// System: gradients, learners and servers with and without overlap. Expectation: training during exchanges is tried only where
/// training waits for exchanges, and where an exchange could begin before the end of a step.
#[test]
fn training_during_exchanges_is_tried_only_where_it_can_have_an_effect() {
    let learners = "parallel.data.learners = 2\nmodel.occupancy = 0.2\nsync.model-averaging";
    for (sync, expected) in [
        ("sync.allreduce = { gradients = \"10 MB\", buckets = \"1 MB\", overlap = false }", true),
        ("sync.allreduce = { gradients = \"10 MB\", buckets = \"1 MB\" }", false),
        ("sync.allreduce = { gradients = \"10 MB\", buckets = \"10 MB\", overlap = false }", false),
        (
            "sync.allreduce = { gradients = \"10 MB\", buckets = \"1 MB\", overlap = false, period = 2 }",
            false,
        ),
        (
            "model.catalogue = \"resnet50\"\nsync.parameter-server = { buckets = \"1 MB\", overlap = false }",
            true,
        ),
        (&format!("{learners} = {{ parameters = \"10 MB\", overlap = false }}"), true),
        (&format!("{learners} = {{ parameters = \"10 MB\" }}"), false),
    ] {
        let scenario = read(&format!("{RANKS}loader.in-memory = {{}}\n{sync}\n"));
        let lifted = super::relax::relaxed(&scenario, Lever { kind: Kind::Overlap, at: 0 });
        assert_eq!(lifted.is_some(), expected, "{sync}");
    }
}

/// System: states sharded over two nodes, with GPUs that have or do not have the memory for the states of a node's group. Expectation:
/// sharding inside nodes is tried only where it sends fewer bytes between nodes, and where the scenario with it is accepted.
#[test]
fn sharding_inside_nodes_is_tried_only_where_it_helps_and_fits() {
    let model = "model.memory = { parameters = \"10 GB\", activations = \"1 MB\" }\nsync.allreduce.gradients = \"10 GB\"";
    for (memory, zero, expected) in [
        (80, "{ stage = 3 }", true),
        (6, "{ stage = 3 }", false),
        (80, "{ stage = 3, groups = \"node\" }", false),
        (80, "{ stage = 3, groups = { size = 2 } }", false),
    ] {
        let cluster = format!("gpus = 4, gpu_memory = \"{memory} GB\"");
        let ranks = RANKS.replace("gpus = 4", &cluster);
        let parallel = format!("parallel = {{ data.copies_per_node = 4, zero = {zero} }}");
        let scenario = read(&format!("{ranks}loader.in-memory = {{}}\n{model}\n{parallel}\n"));
        let lifted = super::relax::relaxed(&scenario, Lever { kind: Kind::ShardGroups, at: 0 });
        assert_eq!(lifted.is_some(), expected, "{memory} {zero}");
        if let Some(lifted) = lifted {
            let inside = parallel.replace("stage = 3", "stage = 3, groups = \"node\"");
            let followed = read(&format!("{ranks}loader.in-memory = {{}}\n{model}\n{inside}\n"));
            assert_eq!(lifted.jobs[0].parallelism, followed.jobs[0].parallelism);
            assert_eq!(lifted.jobs[0].footprints, followed.jobs[0].footprints);
        }
    }
}

/// System: two learners, each of which adds 2 ms to the other's steps of 10 ms, and steps of half the time. Expectation: 2 ms of 5 ms
/// are occupied then, as if the step were written so.
#[test]
fn faster_steps_keep_the_time_that_other_learners_add() {
    let of = |step: &str| {
        let text = RANKS.replace("model.step = \"10 ms\"", &format!("model.step = \"{step}\""));
        let learners =
            "parallel.data.learners = 2\nmodel.occupancy = { added = { fixed = \"2 ms\" } }";
        read(&format!("{text}loader.in-memory = {{}}\n{learners}\n"))
    };
    let lifted = super::relax::relaxed(&of("10 ms"), Lever { kind: Kind::Step, at: 0 });
    assert_eq!(lifted.expect("faster steps").jobs[0].kernels, of("5 ms").jobs[0].kernels);
}

#[test]
fn the_verdict_describes_lifted_resource_limits_with_key_and_amounts() {
    let now = read(READING);
    let said = |kind, at| {
        let lever = Lever { kind, at };
        let then = super::relax::relaxed(&now, lever).expect("there is such a thing");
        [lever.words(&now), lever.key(&now), lever.resource(&now), lever.advice(&now, &then)]
    };
    let storage = |name: &str| now.storage.iter().position(|of| of.name == name).expect(name);
    assert_eq!(
        said(Kind::Operations, storage("s")),
        [
            "operations of `s`",
            "storage.s.file-server.operations",
            "s.operations",
            "2,000 /s in place of 1,000 /s"
        ]
    );
    assert_eq!(
        said(Kind::QueueDepth, storage("n")),
        [
            "the depth of I/O queues of `n`",
            "storage.n.nvme-of.queue_depth",
            "n.queue-slots",
            "256 in place of 128"
        ]
    );
    assert_eq!(
        said(Kind::Targets, storage("p")),
        [
            "storage targets of `p`",
            "storage.p.parallel-fs.target_bandwidth",
            "p.target",
            "2 GB/s in place of 1 GB/s"
        ]
    );
    assert_eq!(
        said(Kind::Workers, 0),
        ["loader workers", "job.j.loader.pytorch.workers", "j.workers", "4 in place of 2"]
    );
    assert_eq!(said(Kind::Lock, 0)[3], "processes as workers, which do not share the lock");
}

#[test]
fn no_advice_is_to_replace_an_amount_by_the_same_amount() {
    // System: every limit of every test scenario, relaxed. Expectation: where the advice is an amount in place of another, they differ, and
    // no key contains a placeholder.
    for now in all() {
        let owners = now.storage.len().max(now.jobs.len());
        for lever in
            Kind::ALL.iter().flat_map(|&kind| (0..owners).map(move |at| Lever { kind, at }))
        {
            let Some(then) = super::relax::relaxed(&now, lever) else { continue };
            let (advice, key) = (lever.advice(&now, &then), lever.key(&now));
            let same = advice.split_once(" in place of ").is_some_and(|(then, now)| then == now);
            assert!(!same, "{}: {advice} ({key})", lever.kind.row().name);
            let is_filled =
                !key.contains("{}") && !key.contains(char::is_uppercase) && !key.ends_with('.');
            assert!(is_filled || key.is_empty(), "{}: {key}", lever.kind.row().name);
        }
    }
}

#[test]
fn the_verdict_names_the_parts_of_the_transport_that_a_job_uses() {
    // System: allreduce among the GPUs of one node, of several nodes with one GPU each, and of several nodes with several GPUs each; and
    // parameter servers, which add at a rate of their own. Expectation: the verdict names the latency inside nodes, between nodes, and
    // both; with servers, not the rate at which receivers add.
    let said = |nodes: u32, gpus: u32| {
        let sync = format!(
            "parallel.data.copies_per_node = {gpus}\nsync.allreduce = {{ gradients = \"10 MB\" }}"
        );
        let text = format!("{RANKS}loader.in-memory = {{}}\n{sync}\n")
            .replace("gpus = 4", &format!("gpus = {gpus}, intra = {{ latency = \"6 us\" }}"))
            .replace("nodes = 2\ndataset", &format!("nodes = {nodes}\ndataset"));
        let (now, lever) = (read(&text), Lever { kind: Kind::TransportLatency, at: 0 });
        let then = super::relax::relaxed(&now, lever).expect("a latency");
        (lever.key(&now), lever.advice(&now, &then))
    };
    let transport = |key: &str| format!("job.j.sync.*.transport.*.{key}");
    let advice = |of: &str| of.to_owned();
    assert_eq!(said(1, 4), (transport("latency_inside"), advice("3 us in place of 6 us")));
    assert_eq!(said(2, 1), (transport("latency"), advice("5 us in place of 10 us")));
    let both = (
        transport("latency_inside and latency"),
        advice("3 us and 5 us in place of 6 us and 10 us"),
    );
    assert_eq!(said(2, 4), both);
    let servers = "loader.in-memory = {}\nsync.parameter-server = { parameters = \"10 MB\", transport.tcp = { per_stream = \"1 GB/s\", \
                   sum = \"3 GB/s\" } }";
    let of_streams = Lever { kind: Kind::TransportStream, at: 0 };
    assert_eq!(of_streams.key(&read(&format!("{RANKS}{servers}\n"))), transport("per_stream"));
}

#[test]
fn the_verdict_names_the_scenario_key_of_the_loader_preset_or_stage() {
    // System: presets and stages of a job whose name is the same as a placeholder in keys. Expectation: the placeholder is
    // replaced, the name is not.
    let key = |loader: &str, kind: Kind| {
        let named = RANKS.replace("name = \"j\"", "name = \"DECODE\"");
        Lever { kind, at: 0 }.key(&read(&format!("{named}{loader}\n")))
    };
    let queue = "loader.tf-queue = { threads = 2, capacity = \"20 samples\", decode = \"1 ms\" }";
    assert_eq!(key(queue, Kind::Workers), "job.DECODE.loader.tf-queue.threads");
    assert_eq!(key(queue, Kind::Decode), "job.DECODE.loader.tf-queue.decode");
    assert_eq!(key(queue, Kind::Prefetch), "job.DECODE.loader.tf-queue.capacity");
    let stages = "[[job.loader.stages]]\nname = \"read\"\nworkers = 2\nunit = \"sample\"\nper_sample = [\"read\"]\n\
                  buffer = \"20 samples\"";
    assert_eq!(key(stages, Kind::Workers), "job.DECODE.loader.stages.read.workers");
    assert_eq!(key(stages, Kind::Prefetch), "job.DECODE.loader.stages.read.buffer");
}

#[test]
fn micro_batches_that_a_batch_cannot_be_divided_into_are_not_advised() {
    let split = |micro: u32| {
        let pipeline = format!(
            "parallel.pipeline = {{ stages = 4, schedule = \"gpipe\", micro_batches = {micro} }}"
        );
        read(&format!("{RANKS}loader.in-memory = {{}}\n{pipeline}\n"))
    };
    let lever = Lever { kind: Kind::MicroBatches, at: 0 };
    assert!(super::relax::relaxed(&split(4), lever).is_some());
    assert!(super::relax::relaxed(&split(8), lever).is_none());
}

#[test]
fn levers_that_are_switched_have_keys_of_the_loader() {
    let of = |kind| Lever { kind, at: 0 }.key(&read(READING));
    assert_eq!(of(Kind::Order), "job.j.loader.pytorch.in_order");
    assert_eq!(of(Kind::Restart), "job.j.loader.pytorch.persistent_workers");
    assert_eq!(of(Kind::Lock), "job.j.loader.pytorch.worker_kind");
    assert_eq!(of(Kind::Jitter), "job.j.model.jitter");
}

/// A job that waits only while its server is slow, from 2 s on.
const LATE: &str = r#"
name = "late"
run = { duration = "6 s", replications = 1 }
cluster = { nodes = 1, node = { cores = 8, gpus = 1, page_cache = "none" } }
storage.s.file-server = { bandwidth = "1 GB/s" }
dataset.d = { samples = 1000000, sample_size = "100 kB" }
fault = [{ storage = "s", factor = 0.1, from = "2 s", until = "1 h" }]
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 20
loader.pytorch = { workers = 4 }
model.step = "10 ms"
"#;

#[test]
fn short_runs_of_a_job_that_waits_late_reach_its_waits() {
    // System: 200 MB/s are needed, and there are 1 GB/s for 2 s, which is 200 steps, and 100 MB/s for 4 s, which is 200 steps
    // that wait for 10 ms each. Expectation: a short run has half of the average wait, 2.5 ms a step, so at least about 267
    // steps; without the fault, a short run has few steps.
    let fewest = |text: &str| {
        let scenario = read(text);
        let outcomes = [sim::run(&scenario, 0, &sim::Options::default())];
        let report = report::summarise(&scenario, &outcomes, 0.0);
        let subject = Subject { scenario: &scenario, report: &report, job: 0, run: &report };
        Reference::new(subject, &outcomes[0]).expect("steps").fewest(4)
    };
    assert!((255..=285).contains(&fewest(LATE)), "{}", fewest(LATE));
    let healthy = LATE.replace("factor = 0.1", "factor = 1.0");
    assert!(fewest(&healthy) < 60, "{}", fewest(&healthy));
}

#[test]
fn the_verdict_doubles_a_fractional_number_of_cores_to_lift_the_core_limit() {
    let now = read(&READING.replace("cores = 8", "cores = 1.5"));
    let then = super::relax::relaxed(&now, Lever { kind: Kind::Cores, at: 0 }).expect("more cores");
    let node = &then.cluster.node;
    assert_eq!((node.cores, node.usable_cores), (3, 3.0));
    assert_eq!((now.cluster.node.core_capacity(2), node.core_capacity(2)), (1.5, 2.0));
}

/// A job on nodes 2 to 5 of eight, in racks of three, beside another job.
const PLACED: &str = r#"
name = "placed"
run = { steps = 20, replications = 1 }
[cluster]
nodes = 8
node = { cores = 8, gpus = 4 }
network = { nic = "1 GB/s", racks = { nodes = 3, uplink = "2 GB/s" } }
[storage.s.file-server]
bandwidth = "1 GB/s"
[dataset.d]
samples = 100000
sample_size = "100 kB"
[[job]]
name = "before"
nodes = 2
dataset = "d"
storage = "s"
batch = 8
loader.pytorch = { workers = 2 }
model.step = "10 ms"
[[job]]
name = "j"
nodes = 4
dataset = "d"
storage = "s"
batch = 8
loader.pytorch = { workers = 2 }
model.step = "10 ms"
"#;

#[test]
fn what_faults_leave_of_a_resource_is_that_of_the_slowest_place_of_the_job() {
    // System: random faults of NICs or uplinks of random nodes or racks; some end before the run. Expectation: the smallest product of
    // factors over the job's nodes 2 to 5, or over their racks 0 and 1; faults that hit none of them are not behind stalls.
    let mut scenario = read(PLACED);
    let outcomes = [sim::run(&scenario, 0, &sim::Options::default())];
    let report = report::summarise(&scenario, &outcomes, 0.0);
    let mut resource = report.resources.first().expect("a resource").clone();
    let mut state = 11_u64;
    let mut draw = |most: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    for _ in 0..300 {
        let uplinks = draw(2) == 0;
        let (link, of, all, own) = match uplinks {
            true => (FaultyLink::Uplink, Resource::uplink(Direction::In), 3, 0..2_u32),
            false => (FaultyLink::Nic, Resource::node(Part::Nic(Direction::In)), 8, 2..6),
        };
        scenario.faults = (0..draw(4))
            .map(|_| Fault {
                what: Faulty::Link(link),
                nodes: (0..draw(4)).map(|_| draw(all) as u32).collect(),
                gpus: Vec::new(),
                factor: (100 + draw(800)) as f64 / 1000.0,
                from: 0.0,
                until: if draw(4) == 0 { 1.0 } else { f64::INFINITY },
            })
            .collect();
        let is_on =
            |fault: &Fault, place: u32| fault.nodes.is_empty() || fault.nodes.contains(&place);
        let left: Vec<f64> = own
            .clone()
            .map(|place| {
                let lasting = scenario.faults.iter().filter(|of| of.until.is_infinite());
                lasting.filter(|of| is_on(of, place)).map(|of| of.factor).product()
            })
            .collect();
        let least = left.iter().copied().fold(f64::INFINITY, f64::min);
        let hit = scenario.faults.iter().any(|of| own.clone().any(|place| is_on(of, place)));
        let subject = Subject { scenario: &scenario, report: &report, job: 1, run: &report };
        resource.of = of;
        assert!((subject.left(&resource) - least).abs() < 1e-12, "{:?}", scenario.faults);
        // The slowest place is full, or one of which faults leave most.
        for used in [least, left.iter().copied().fold(0.0, f64::max)] {
            resource.utilisation_max.mean = Some(used);
            let found = subject.used_of_left(&resource);
            assert!((found - 1.0).abs() < 0.06, "{found} {:?}", scenario.faults);
        }
        let behind = subject.faults_behind(report::Cause::Transfer);
        assert_eq!(!behind.is_empty(), hit, "{:?}", scenario.faults);
    }
}

#[test]
fn faults_of_gpus_that_a_job_does_not_use_are_not_behind_its_stalls() {
    let text = format!("{PLACED}parallel.data.copies_per_node = 2\n");
    let behind = |fault: &str| {
        let scenario =
            read(&text.replace("[dataset.d]", &format!("[[fault]]\n{fault}\n[dataset.d]")));
        let outcomes = [sim::run(&scenario, 0, &sim::Options::default())];
        let report = report::summarise(&scenario, &outcomes, 0.0);
        let subject = Subject { scenario: &scenario, report: &report, job: 1, run: &report };
        !subject.faults_behind(report::Cause::Compute).is_empty()
    };
    let of = |places: &str| behind(&format!("node = \"gpus\"\n{places}\nfactor = 0.5"));
    assert!(of("") && of("gpus = [1, 2]") && of("nodes = [5]\ngpus = [1]"));
    assert!(!of("gpus = [2, 3]") && !of("nodes = [5]\ngpus = [2]") && !of("nodes = [1, 6]"));
}

#[test]
fn levers_on_faults_say_which_gpus_of_which_nodes_and_which_parts() {
    let words = |faults: &str, at: usize| {
        let scenario = read(&PLACED.replace("[dataset.d]", &format!("{faults}\n[dataset.d]")));
        Lever { kind: Kind::Faults, at }.words(&scenario)
    };
    let fault = |what: &str| format!("[[fault]]\n{what}\nfactor = 0.5\n");
    let gpus = |places: &str| fault(&format!("node = \"gpus\"\n{places}"));
    let [first, second] = [gpus("nodes = [0]\ngpus = [0]"), gpus("nodes = [1]\ngpus = [3]")];
    let both = format!("{first}{second}");
    for (faults, expected) in [
        (first.clone(), "the fault of GPU 0 of node 0"),
        (both.clone(), "the faults of GPU 0 of node 0 and GPU 3 of node 1"),
        (
            format!("{both}{}", gpus("nodes = [2]\ngpus = [0]")),
            "the faults of GPU 0 of nodes 0, 2 and GPU 3 of node 1",
        ),
        (
            format!("{both}{}", gpus("nodes = [4]")),
            "the faults of GPUs of node 4 and GPU 0 of node 0 and GPU 3 of node 1",
        ),
        (format!("{both}{}", gpus("")), "the faults of GPUs"),
        (gpus("gpus = [1, 2]"), "the fault of GPUs 1, 2"),
        (fault("link = \"uplink\"\nnodes = [1]"), "the fault of rack uplinks of rack 1"),
    ] {
        assert_eq!(words(&faults, 0), expected);
    }
    let [intra, nic, storage] =
        ["link = \"intra\"", "link = \"nic\"", "storage = \"s\""].map(fault);
    assert_eq!(words(&format!("{intra}{nic}"), 2), "the faults of NICs and of links between GPUs");
    let three = format!("{intra}{nic}{storage}");
    assert_eq!(words(&three, 3), "the faults of NICs and of `s` and of links between GPUs");
}

#[test]
fn levers_that_do_not_double_an_amount_have_no_factor() {
    let multiplies = |scenario: &Scenario, kind| Lever { kind, at: 0 }.multiplies(scenario);
    let now = read(READING);
    assert!(multiplies(&now, Kind::Workers) && multiplies(&now, Kind::Cores));
    assert!(!multiplies(&now, Kind::CheckpointStagger) && !multiplies(&now, Kind::Order));
    // From no workers to one; from six targets to all ten.
    let mut alone = now.clone();
    let requests = alone.jobs[0].loader.requests.as_mut().expect("requests");
    requests.ahead = 0;
    assert!(!multiplies(&alone, Kind::Workers));
    let mut striped = now;
    let at = striped.storage.iter().position(|of| of.path.targets.is_some()).expect("targets");
    for (count, whole) in [(5, true), (6, false)] {
        let targets = striped.storage[at].path.targets.as_mut().expect("targets");
        (targets.number, targets.stripe_count) = (10, count);
        assert_eq!(Lever { kind: Kind::Stripes, at }.multiplies(&striped), whole);
    }
}
