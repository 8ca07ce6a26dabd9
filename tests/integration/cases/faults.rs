//! Cases about faults: those of single GPUs, and faults as the limit that verdicts name.

use super::super::runs::{Draws, within, written};
use super::judged;
use super::{case, report_of};
use crate::verdicts::{first, limit as limit_of};
use forebay::scenario::ScenarioFile;
use forebay::sim::{self, Options};

/// Two jobs on the same nodes, with data in memory.
const SHARED: &str = r#"
name = "g"
run = { steps = 10, warm_up = "off", replications = 1 }
cluster = { nodes = 2, share_nodes = true, node = { gpus = 8, cores = 64 } }
storage.m.memory = {}
dataset.d = { samples = 100_000, sample_size = "1 kB" }
[[job]]
name = "a"
nodes = 2
dataset = "d"
storage = "m"
batch = 8
loader.in-memory = {}
model.step = "10 ms"
[[job]]
name = "b"
nodes = 2
dataset = "d"
storage = "m"
batch = 8
loader.in-memory = {}
model.step = "10 ms"
"#;

#[test]
fn a_fault_of_single_gpus_slows_the_jobs_that_train_on_them() {
    // System: two jobs on the same nodes, with random numbers of GPUs on each: job `a` takes the first of them, job `b` the next.
    // Models may be split over GPUs. Some GPUs of one node, or of both, are slow by a random factor. Expectation: a job's steps
    // take 10 ms ÷ factor if one of its GPUs is slow, since all its GPUs make each step together, and 10 ms otherwise.
    let mut draws = Draws(7);
    for _ in 0..240 {
        let [a, b] = [1 + draws.below(4), 1 + draws.below(4)];
        let slow = draws.below(8);
        let node = draws.below(2);
        let factor = (100 + draws.below(800)) as f64 / 1000.0;
        let others = draws.whether();
        let nodes = if others { "[0, 1]".to_owned() } else { format!("[{node}]") };
        let split = draws.below(3) == 0;
        let parallel = |copies: u64| match split {
            true => "{ data.copies_per_node = 1, pipeline.shares = [0.5, 0.5] }".to_owned(),
            false => format!("{{ data.copies_per_node = {copies} }}"),
        };
        let scenario = written(
            SHARED,
            &[
                ("job.a.parallel", &parallel(a)),
                ("job.b.parallel", &parallel(b)),
                (
                    "fault",
                    &format!(
                        "[{{ node = \"gpus\", nodes = {nodes}, gpus = [{slow}], factor = {factor} }}]"
                    ),
                ),
            ],
        );
        let [a, b] = if split { [2, 2] } else { [a, b] };
        let outcome = sim::run(&scenario, 0, &Options::default());
        for (job, first, number) in [(0, 0, a), (1, a, b)] {
            let copies = outcome.jobs.iter().filter(|copy| copy.job == job);
            let end = copies.flat_map(|copy| &copy.steps).map(|step| step.end).fold(0.0, f64::max);
            let place = slow.checked_sub(first).filter(|place| *place < number);
            let slowed = |time: f64| if place.is_some() { time / factor } else { time };
            let expected = match split {
                false => slowed(0.01),
                // Two stages of 5 ms work on different batches; the other one is ahead or behind once.
                true => slowed(0.005) + 0.005 / 10.0,
            };
            within(end / 10.0, expected, 1e-3, &format!("{job} {a} {b} {slow} {factor} {split}"));
        }
    }
}

/// A learner job whose loader decodes on the GPU: kernels, sums of gradients and averages share the GPUs.
const KERNELS: &str = r#"
name = "k"
run = { steps = 40, warm_up = "off", replications = 1 }
cluster = { nodes = 1, node = { gpus = 4, cores = 64, gpu_memory_bandwidth = "100 GB/s" } }
storage.m.memory = {}
dataset.d = { samples = 100_000, sample_size = "1 kB" }
[[job]]
name = "j"
dataset = "d"
storage = "m"
batch = 8
loader.in-memory = {}
model = { step = "10 ms", occupancy = 0.3 }
parallel.data = { copies_per_node = 2, learners = 2 }
sync.allreduce = { gradients = "400 MB", backward = 0.5 }
"#;

#[test]
fn a_fault_of_all_gpus_by_number_is_one_of_the_node() {
    // System: two learners on each of two GPUs, which sum gradients in the GPUs' memory or average models there. Expectation: a
    // fault that names both GPUs takes as long as one that names none. A fault of one GPU takes at most as long, and longer than no
    // fault. A fault of GPUs that the job does not use changes nothing, and a remark says so.
    let averaging = "{ model-averaging = { parameters = \"400 MB\", period = 2 } }";
    for sync in ["{ allreduce = { gradients = \"400 MB\", backward = 0.5 } }", averaging] {
        let with = |fault: &str| {
            let scenario = written(KERNELS, &[("job.0.sync", sync), ("fault", fault)]);
            (sim::run(&scenario, 0, &Options::default()).makespan, scenario.remarks)
        };
        let of = |gpus: &str| format!("[{{ node = \"gpus\", {gpus}factor = 0.5 }}]");
        let (none, all) = (with("[]").0, with(&of("")).0);
        within(all, 2.0 * none, 0.02, "all");
        assert_eq!(with(&of("gpus = [0, 1], ")).0, all);
        let (one, remarks) = with(&of("gpus = [1], "));
        assert!(1.2 * none < one && one <= all, "{none} {one} {all}");
        assert!(!remarks.iter().any(|of| of.contains("fault")), "{remarks:?}");
        let (idle, remarks) = with(&of("gpus = [2, 3], "));
        assert_eq!(idle, none);
        assert!(remarks.iter().any(|of| of.contains("no job uses these GPUs")), "{remarks:?}");
    }
}

#[test]
fn a_fault_of_gpus_that_do_not_exist_is_refused() {
    let file = ScenarioFile::parse("g.toml", SHARED.to_owned()).expect("a scenario");
    for (fault, expected) in [
        (
            "{ node = \"gpus\", gpus = [8], factor = 0.5 }",
            "there is no GPU 8: numbers go from 0 to 7",
        ),
        ("{ node = \"cores\", gpus = [0], factor = 0.5 }", "applies only to faults of GPUs"),
        ("{ link = \"pcie\", gpus = [0], factor = 0.5 }", "applies only to faults of GPUs"),
        ("{ node = \"gpus\", gpus = [], factor = 0.5 }", "the list is empty"),
    ] {
        let change = format!("fault=[{fault}]").parse().expect("an override");
        let problems = file.resolve(&[change]).expect_err(fault).to_string();
        assert!(problems.contains(expected), "{fault}: {problems}");
    }
}

#[test]
fn verdicts_name_the_fault_that_limits_a_job() {
    // System: four nodes, one with a NIC at a twentieth of its speed: 420 ms a step. Expectation: not twice the NICs (222 ms),
    // but the fault: 53.9 ms without it.
    let (_, verdict) = judged("turn3/slow-nic", &FEW);
    within(first(&verdict, "fault").after, 0.0539, 0.03, "without the fault");
}

#[test]
fn needs_beside_a_fault_count_what_it_leaves() {
    // System: a fault leaves 150 MB/s of 1 GB/s, and the job takes 256 MB/s. Expectation: with the fault, 1.71 GB/s would do, in steps of
    // a fifth; more workers change nothing.
    let (_, verdict) = judged("turn3/needs-fault", &[]);
    first(&verdict, "fault");
    let needed = verdict.needs.iter().find(|need| need.resource == "s.bandwidth");
    let needed = needed.expect("a need").needed / (256e6 / 0.15);
    assert!((0.97..1.25).contains(&needed), "{needed} of what is needed");
    assert!(
        verdict.needs.iter().all(|need| !need.resource.ends_with("workers")),
        "{:?}",
        verdict.needs
    );
}

/// The case `slow-nic` with an eighth of its samples, and an eighth of what they need.
const FEW: [(&str, &str); 7] = [
    ("run.steps", "40"),
    ("run.replications", "1"),
    ("job.batch", "4"),
    ("job.loader.pytorch.workers", "8"),
    ("cluster.node.cores", "8"),
    ("storage.s.file-server.bandwidth", "\"500 MB/s\""),
    ("storage.s.file-server.latency", "\"2 ms\""),
];

#[test]
fn verdicts_name_the_fault_of_any_part_of_the_cluster() {
    // System: one part of a job's cluster is slow. Expectation: the verdict names the fault, and what a step takes without it;
    // no change saves more.
    let gpus = ("cluster.node.intra", "{ kind = \"switch\", bandwidth = \"10 GB/s\" }");
    let racks = ("cluster.network.racks", "{ nodes = 2, uplink = \"20 GB/s\" }");
    let pcie = ("cluster.node.pcie", "\"2 GB/s\"");
    let to_device = ("job.loader.pytorch.to_device", "true");
    let long = ("run.steps", "150");
    let limit = |changes: &[(&str, &str)], fault: &str| {
        let fault = [("fault", fault)];
        judged("turn3/slow-nic", &[&FEW[..], changes, &fault].concat()).1
    };
    for (fault, more) in [
        ("{ node = \"gpus\", nodes = [1], factor = 0.2 }", &[][..]),
        ("{ node = \"gpus\", nodes = [1], gpus = [3], factor = 0.2 }", &[]),
        ("{ node = \"cores\", nodes = [0, 3], factor = 0.1 }", &[]),
        ("{ storage = \"s\", factor = 0.05 }", &[]),
        ("{ link = \"intra\", nodes = [1], factor = 0.02 }", &[gpus]),
        ("{ link = \"uplink\", nodes = [1], factor = 0.01 }", &[racks]),
        ("{ link = \"pcie\", nodes = [1], factor = 0.005 }", &[pcie, to_device, long]),
    ] {
        let verdict = limit(more, &format!("[{fault}]"));
        let found = limit_of(&verdict, "fault");
        assert!(found.gain > verdict.limits[0].gain - 0.01, "{}", verdict.text);
        let sound = [&FEW[..], more, &[("fault", "[]")]].concat();
        let sound = report_of(&case("turn3/slow-nic", &sound));
        let sound = sound.jobs[0].figures.step_time.mean.expect("steps");
        within(found.after, sound, 0.02, fault);
    }
    // With a fault of the storage and one of a NIC, the verdict names the one of the NIC, which limits the job.
    let both =
        "[{ storage = \"s\", factor = 0.9 }, { link = \"nic\", nodes = [2], factor = 0.05 }]";
    let verdict = limit(&[], both);
    let keys: Vec<&str> = verdict.limits.iter().map(|limit| limit.key.as_str()).collect();
    assert_eq!(keys.first(), Some(&"fault.1"), "{}", verdict.text);
}
