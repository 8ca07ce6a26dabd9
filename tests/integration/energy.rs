//! Energy of runs, compared with calculations by hand: it grows with the components at work and with time.

use forebay::report::{EnergyOutcome, Outcome, summarise, text};
use forebay::scenario::ScenarioFile;

use super::base::{base, changed};
use super::runs::{near, simulate};

const POWER: (&str, &str) =
    ("cluster.node.power", r#"{ idle = "100 W", gpu = "200 W", core = "10 W" }"#);

/// Eight nodes, 50 steps of 10 ms on one GPU of one node, data in memory.
const FED: [(&str, &str); 5] = [
    ("storage.s", "{ memory = {} }"),
    ("job.loader", "{ in-memory = {} }"),
    ("job.model.step", "\"10 ms\""),
    ("run.steps", "50"),
    POWER,
];

fn outcome(changes: &[(&str, &str)]) -> Outcome {
    simulate(&changed(&[&FED[..], changes].concat()))
}

fn energy(changes: &[(&str, &str)]) -> EnergyOutcome {
    outcome(changes).energy.expect("all is said")
}

#[test]
fn nodes_draw_idle_power_all_the_time_and_gpus_draw_power_while_computing() {
    // Expectation: eight nodes draw 100 W for 0.5 s; each GPU that computes throughout draws 200 W.
    for (changes, gpus) in [
        (&[][..], 1.0),
        (&[("job.nodes", "4")], 4.0),
        (&[("job.parallel.data.copies_per_node", "4")], 4.0),
    ] {
        let found = energy(changes);
        near(found.seconds, 0.5, "time");
        near(found.idle, 8.0 * 100.0 * 0.5, "idle");
        near(found.gpus, gpus * 200.0 * 0.5, "GPUs");
        assert_eq!(found.cores, 0.0);
    }
    // Three overlapping stages of 10 ÷ 3 ms each: together the GPU work of one step.
    let pipeline = energy(&[("job.parallel", "{ pipeline = { stages = 3 } }")]);
    near(pipeline.gpus, 50.0 * 0.01 * 200.0, "stages");
    // A step of half the duration halves the energy of GPUs and of idling.
    let fast = energy(&[("cluster.node.gpu_speed", "2")]);
    near(fast.gpus, 50.0, "fast GPUs");
    near(fast.idle, 200.0, "and soon over");
}

#[test]
fn cores_draw_power_while_decoding_or_training() {
    // System: 800 samples of 5 ms of decoding, and about a batch more that is read ahead; then steps of 10 ms
    // on two threads. Expectation: 10 W for each core-second.
    let loader = r#"{ tf-queue = { threads = 4, capacity = "32 samples", decode = "5 ms" } }"#;
    for scheduling in ["\"shared\"", "\"fifo\""] {
        let found = energy(&[("job.loader", loader), ("cluster.node.scheduling", scheduling)]);
        assert!((40.0..43.0).contains(&found.cores), "{scheduling}: {found:?}");
        near(found.gpus, 100.0, scheduling);
    }
    let trained = energy(&[("job.model.device", "{ cpu = { threads = 2 } }")]);
    near(trained.cores, 2.0 * 0.5 * 10.0, "training");
    assert_eq!(trained.gpus, 0.0);
}

#[test]
fn stalls_cost_idle_power_and_lost_work_costs_full_power() {
    // System: a loader that doubles the step time; then a failure in the middle of the 41st step, without a
    // checkpoint. Expectation: with the slow loader GPUs use as much energy as before, and nodes twice as much;
    // the energy of lost work counts.
    let slow = r#"{ tf-queue = { threads = 1, capacity = "32 samples", decode = "1.25 ms" } }"#;
    let waits = energy(&[("job.loader", slow)]);
    near(waits.gpus, 100.0, "GPUs");
    assert!((790.0..830.0).contains(&waits.idle), "{waits:?}");
    let failure = ("job.failures", r#"{ at = ["405 ms"], restart = "100 ms" }"#);
    let failed = energy(&[failure]);
    near(failed.gpus, 200.0 * (0.5 + 0.405), "work done and lost");
    near(failed.idle, 800.0 * (0.5 + 0.405 + 0.1), "time");
}

#[test]
fn groups_of_nodes_draw_their_own_power() {
    // System: two more nodes, with 50 W idle and GPUs of 400 W, which train too. Expectation: each kind of node
    // draws its own power.
    let group = r#"{ old = { nodes = 2, node = { power = { idle = "50 W", gpu = "400 W" } } } }"#;
    let found = energy(&[("cluster.group", group), ("job.nodes", "10")]);
    near(found.idle, (8.0 * 100.0 + 2.0 * 50.0) * 0.5, "idle");
    near(found.gpus, (8.0 * 200.0 + 2.0 * 400.0) * 0.5, "GPUs");
    // Powers that the group does not set are those of the other nodes.
    let group = r#"{ old = { nodes = 2, node = { power = { gpu = "400 W" } } } }"#;
    let found = energy(&[("cluster.group", group), ("job.nodes", "10")]);
    near(found.idle, 10.0 * 100.0 * 0.5, "idle");
}

#[test]
fn decoding_kernels_draw_gpu_power() {
    // System: 16 samples decoded for 0.1 ms each on the GPU beside each step of 10 ms. Expectation: the GPU
    // draws power for both.
    let dali = r#"{ dali = { threads = 2, gpu = { decode = "100 us" } } }"#;
    let found = energy(&[("job.loader", dali), ("run.steps", "200")]);
    let both = 200.0 * 200.0 * 11.6e-3;
    assert!((0.99 * both..1.02 * both).contains(&found.gpus), "{found:?} {both}");
}

#[test]
fn reports_state_energy_per_step_and_per_sample() {
    let scenario = changed(&FED);
    let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
    let of = report.energy.as_ref().expect("energy");
    let mean = |figure: forebay::report::Figure| figure.mean.expect("a value");
    near(mean(of.total), 500.0, "all");
    near(mean(of.power), 1000.0, "watts");
    near(mean(of.per_step), 10.0, "a step");
    near(mean(of.per_sample), 10.0 / 16.0, "a sample");
    let page = text::render(&report, 200, false);
    let expected = "Energy: 500 J at 1 kW on average, 80.0 % of it idle, 20.0 % by GPUs at work";
    assert!(page.contains(expected), "{page}");
    // No energy is reported if the power of some nodes is unknown.
    let group = "{ old = { nodes = 2, node = { cores = 4 } } }";
    let without = [&FED[..4], &[("cluster.group", group)]].concat();
    assert!(simulate(&changed(&without)).energy.is_none());
}

#[test]
fn invalid_power_settings_are_reported() {
    let file = ScenarioFile::parse("test.toml", base()).expect("a scenario");
    for (set, says) in [
        ("cluster.node.power={ gpu = \"1 W\" }", "`idle` is missing"),
        ("cluster.node.power={ idle = \"3 s\" }", "but a power is expected"),
        ("cluster.node.power={ idle = \"-3 W\" }", "power"),
        ("cluster.node.power={ idle = \"3 W\", gpus = \"1 W\" }", "did you mean `gpu`"),
    ] {
        let problems = file.resolve(&[set.parse().expect("an override")]).expect_err(set);
        assert!(problems.to_string().contains(says), "{set}: {problems}");
    }
}

#[test]
fn an_occupancy_of_one_does_not_change_gpu_energy_of_decompression_or_update() {
    // System: 2 GPUs that decompress 10 MB at 1 GB/s after each of 50 steps, or a root that updates for 10 ms.
    // Expectation: with `occupancy` GPUs use as much energy as without.
    let apart = r#"{ allreduce = { gradients = "20 MB",
        compression = { quantised = { ratio = 0.5, decompress = "1 GB/s" } } } }"#;
    let root = r#"{ reduce-broadcast = { parameters = "20 MB", update = "10 ms" } }"#;
    for sync in [apart, root] {
        let copies = [("job.sync", sync), ("job.parallel.data.copies_per_node", "2")];
        let alone = energy(&copies);
        assert!(alone.gpus > 1.2 * 2.0 * 50.0 * 0.01 * 200.0, "{sync}: {alone:?}");
        let shared = energy(&[&copies[..], &[("job.model.occupancy", "1")]].concat());
        near(shared.gpus, alone.gpus, sync);
    }
}

#[test]
fn nodes_of_parameter_servers_draw_power_like_other_nodes() {
    // System: one GPU, and two parameter servers on nodes of their own or on the GPU's node, each of which adds
    // 10 MB at 1 GB/s to its parameters after each of 50 steps, on one core. Expectation: with nodes of their
    // own, two more idle nodes; the energy of cores is equal.
    let of = |place: &str| {
        let sync = format!(
            r#"{{ parameter-server = {{ parameters = "20 MB", servers = 2,
            server = {{ placement = "{place}", update = "1 GB/s" }} }} }}"#
        );
        energy(&[("job.sync", &sync)])
    };
    let (own, beside) = (of("own"), of("with-workers"));
    near(own.idle, 10.0 * 100.0 * own.seconds, "idle");
    near(beside.idle, 8.0 * 100.0 * beside.seconds, "beside");
    assert!((9.8..=10.0 + 1e-9).contains(&own.cores), "{own:?}");
    assert!((own.cores - beside.cores).abs() < 0.11, "{own:?} {beside:?}");
}
