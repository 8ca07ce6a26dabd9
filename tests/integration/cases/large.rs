//! Cases with many GPUs, nodes and jobs.

use forebay::report::Outcome;
use forebay::scenario::Scenario;
use forebay::sim::{self, IdleCollectives, Options, Progress};

use super::{case, report_of};
use crate::runs::written;

/// Changed keys and their values.
type Changes<'a> = &'a [(&'a str, &'a str)];

/// Case t4 with every transfer as a flow and with fewer nodes, micro-batches and steps.
const SMALL: [(&str, &str); 9] = [
    ("cluster.nodes", "8"),
    ("job.nodes", "8"),
    ("run.steps", "3"),
    ("run.warm_up", "off"),
    ("job.batch", "8"),
    ("job.parallel.pipeline.micro_batches", "8"),
    ("job.sync.allreduce.fidelity", "flow"),
    ("job.parallel.tensor.fidelity", "flow"),
    ("job.parallel.tensor.allreduces", "16"),
];

/// Returns two outcomes: with one transfer simulated for all alike where a collective has its links to itself,
/// and with every transfer of every collective.
fn both(scenario: &Scenario) -> [Outcome; 2] {
    [false, true].map(|every_transfer| {
        sim::run(scenario, 0, &Options { every_transfer, ..Options::default() })
    })
}

#[track_caller]
fn close(one: f64, other: f64, what: &str) {
    let scale = one.abs().max(other.abs()).max(1e-3);
    assert!((one - other).abs() <= 1e-9 * scale, "{what}: {one}, not {other}");
}

/// Checks that two outcomes have equal steps, stalls and utilisation of resources.
#[track_caller]
fn same([one, other]: &[Outcome; 2], what: &str) {
    assert_eq!(one.jobs.len(), other.jobs.len(), "{what}");
    for (one, other) in one.jobs.iter().zip(&other.jobs) {
        assert_eq!(one.steps.len(), other.steps.len(), "{what}");
        for (one, other) in one.steps.iter().zip(&other.steps) {
            close(one.end, other.end, &format!("{what}: end of a step"));
            close(one.compute, other.compute, &format!("{what}: computed"));
        }
        let waited = |of: &forebay::report::JobOutcome| {
            let mut sums = std::collections::BTreeMap::new();
            for stall in &of.stalls {
                *sums.entry(stall.cause.to_string()).or_insert(0.0) += stall.seconds;
            }
            sums
        };
        let (one, other) = (waited(one), waited(other));
        for cause in one.keys().chain(other.keys()) {
            let of = |sums: &std::collections::BTreeMap<String, f64>| {
                sums.get(cause).copied().unwrap_or(0.0)
            };
            close(of(&one), of(&other), &format!("{what}: {cause}"));
        }
    }
    for (one, other) in one.resources.iter().zip(&other.resources) {
        let what = format!("{what}: {}", one.name);
        close(one.utilisation, other.utilisation, &what);
        close(one.utilisation_max, other.utilisation_max, &what);
        close(one.mean_flows, other.mean_flows, &what);
    }
}

#[test]
fn merging_identical_transfers_on_exclusive_links_changes_no_result() {
    // System: two model copies of four stages of eight GPUs. Expectation: steps, stalls and link utilisation as
    // with every transfer, of which many times fewer are simulated; also where nodes differ, steps vary,
    // checkpoints use the NICs, links are slower for a while, and nodes fail in the middle of a collective.
    let jitter = ("job.model.jitter", "{ lognormal = { cv = 0.2 } }");
    let slow = ("cluster.group.old", "{ nodes = 4, node = { gpu_speed = 0.5 } }");
    let fault =
        "[{ link = \"intra\", nodes = [1], factor = 0.25, from = \"100 ms\", until = \"300 ms\" }]";
    let changed: [(&str, Changes<'_>); 7] = [
        ("alone", &[]),
        ("unequal parts", &[("job.parallel.tensor.activations", "\"20999999 B\"")]),
        ("jitter", &[jitter]),
        ("nodes of two kinds", &[("cluster.nodes", "4"), slow, jitter]),
        ("checkpoints", &[("job.checkpoint.interval", "100 ms"), ("job.checkpoint.bytes", "1 GB")]),
        ("a slow link", &[("fault", fault)]),
        (
            "failures",
            &[
                ("job.checkpoint", "{ steps = 1, bytes = \"1 MB\", storage = \"lustre\" }"),
                ("job.failures", "{ mtbf = \"3 s\", restart = \"10 ms\" }"),
                ("run.steps", "12"),
            ],
        ),
    ];
    for (what, changes) in changed {
        let found = both(&case("t4", &[&SMALL[..], changes].concat()));
        same(&found, what);
        let [one, other] = found.map(|outcome| outcome.flows);
        assert!(6 * one < other, "{what}: {one} of {other} transfers were followed");
    }
}

#[test]
fn collectives_known_from_earlier_runs_change_no_outcome() {
    // System: runs of systems that differ in their links, messages, ranks and lengths share what they learn about collectives.
    // Expectation: each outcome is the same as without earlier runs.
    let changed: [Changes<'_>; 8] = [
        &[],
        &[("run.steps", "4")],
        &[("cluster.nodes", "4"), ("job.nodes", "4")],
        &[("cluster.node.intra.bandwidth", "\"100 GB/s\"")],
        &[("job.parallel.tensor.activations", "\"3 MB\"")],
        &[("job.parallel.tensor.ranks", "4")],
        &[("job.sync.allreduce.transport", "{ nccl = { latency = \"9 us\" } }")],
        &[],
    ];
    let collectives = IdleCollectives::default();
    for changes in changed {
        let scenario = case("t4", &[&SMALL[..], changes].concat());
        let run = |collectives| {
            let options = Options { collectives, ..Options::default() };
            format!("{:?}", sim::run(&scenario, 0, &options))
        };
        assert!(run(Some(&collectives)) == run(None), "{changes:?}");
    }
}

#[test]
fn merging_identical_transfers_changes_no_link_byte_count_under_failures() {
    // System: allreduces take most of the time, and nodes fail. Expectation: failures occur, and the links have
    // served the same bytes as with every transfer.
    let changes = [
        ("job.checkpoint", "{ steps = 1, bytes = \"1 MB\", storage = \"lustre\" }"),
        ("job.failures", "{ mtbf = \"20 s\", restart = \"10 ms\" }"),
        ("job.parallel.tensor.activations", "\"2 GB\""),
        ("run.steps", "12"),
    ];
    let found = both(&case("t4", &[&SMALL[..], &changes].concat()));
    same(&found, "sums of seconds");
    let failures = |of: &Outcome| of.jobs[0].recovery.map_or(0, |of| of.failures);
    assert!(failures(&found[0]) > 2, "{}", failures(&found[0]));
}

#[test]
fn pipeline_stages_and_tensor_allreduces_share_links() {
    // System: two stages of four GPUs on each node, with large activations that use the same GPU ports as the
    // allreduces. Expectation: the same outcome as with every transfer, and every transfer is simulated.
    let changes = [
        ("job.parallel.tensor.ranks", "4"),
        ("job.parallel.pipeline.stages_per_node", "2"),
        ("job.parallel.pipeline.activations", "\"2 GB\""),
        ("job.sync.allreduce.fidelity", "analytic"),
    ];
    let found = both(&case("t4", &[&SMALL[..], &changes].concat()));
    same(&found, "stages on a node");
    assert_eq!(found[0].flows, found[1].flows);
}

/// Returns model copies on four of eight nodes, whose gradients go over NICs.
fn copies(jobs: &str, changes: Changes<'_>) -> Scenario {
    let text = format!(
        r#"name = "copies"
[run]
steps = 6
warm_up = "off"
[cluster]
nodes = 8
node = {{ cores = 8, gpus = 2 }}
network = {{ nic = "1 GB/s", latency = "10 us" }}
[storage.memory.memory]
[storage.server.file-server]
bandwidth = "2 GB/s"
[dataset.d]
samples = 120000
sample_size = "1 MB"
{jobs}"#
    );
    written(&text, changes)
}

fn job(name: &str, storage: &str, loader: &str) -> String {
    format!(
        "[[job]]\nname = \"{name}\"\nnodes = 4\ndataset = \"d\"\nstorage = \"{storage}\"\nbatch = 32\n\
         model = {{ step = \"20 ms\", jitter = {{ gamma = {{ cv = 0.1 }} }} }}\n\
         loader = {{ {loader} }}\nsync.allreduce = {{ gradients = \"100 MB\", buckets = \"25 MB\", tensors = 100 }}\n"
    )
}

#[test]
fn identical_gradient_transfers_are_merged_only_on_exclusive_nics() {
    // System: gradients over NICs that samples use too, or gradients of another job, or nothing else.
    // Expectation: the same outcome as with every transfer; fewer transfers are simulated only without other
    // traffic.
    let memory = job("m", "memory", "in-memory = {}");
    let reads = job("r", "server", "pytorch = { workers = 4, decode = \"1 ms\" }");
    let two = format!("{memory}{}", memory.replace("\"m\"", "\"n\""));
    let together = [("cluster.share_nodes", "true")];
    let cases: [(&str, &str, Changes<'_>, bool); 4] = [
        ("alone", &memory, &[], true),
        ("two jobs on nodes of their own", &two, &[], true),
        ("two jobs on the same nodes", &two, &together, false),
        ("samples over the NICs", &reads, &[], false),
    ];
    for (what, jobs, changes, alone) in cases {
        let found = both(&copies(jobs, changes));
        same(&found, what);
        let [one, other] = found.map(|outcome| outcome.flows);
        assert_eq!(one < other, alone, "{what}: {one} of {other}");
    }
}

#[test]
fn network_fidelity_defaults_to_analytic_above_a_million_transfers_per_step() {
    // System: gradients in a ring of n ranks, 2 (n - 1) phases of n transfers, in four buckets. Expectation:
    // `flow` up to a million transfers in a step and `analytic` above, with a remark and in JSON; a written
    // fidelity is kept.
    let of = |ranks: u32, more: &str| {
        let gradients = format!(
            "gradients = \"100 MB\", buckets = \"25 MB\", tensors = 100, algorithm = \"ring\"{more}"
        );
        let ring = format!("{{ {gradients} }}");
        let ranks = ranks.to_string();
        let changes =
            [("cluster.nodes", &ranks[..]), ("job.nodes", &ranks), ("job.sync.allreduce", &ring)];
        let scenario = copies(&job("m", "memory", "in-memory = {}"), &changes);
        let sync = scenario.jobs[0].sync.as_ref().expect("it is written");
        let said = scenario.remarks.join("\n").contains("are timed as on an idle network");
        (sync.fidelity.name(), said)
    };
    assert_eq!(of(350, ""), ("flow", false), "8 x 349 x 350 transfers");
    assert_eq!(of(360, ""), ("analytic", true), "8 x 359 x 360 transfers");
    assert_eq!(of(360, ", fidelity = \"auto\""), ("analytic", true));
    assert_eq!(of(360, ", fidelity = \"flow\""), ("flow", false));
    assert_eq!(of(4, ", fidelity = \"analytic\""), ("analytic", false));
    let scenario = case("t4", &[("run.steps", "1"), ("run.warm_up", "off")]);
    let outcome = sim::run(&scenario, 0, &Options::default());
    let report = forebay::report::summarise(&scenario, &[outcome], 0.0);
    let job = &report.jobs[0];
    assert_eq!(job.sync.as_ref().and_then(|sync| sync.fidelity), Some("flow"));
    assert_eq!(job.parallel.and_then(|parallel| parallel.sum_fidelity), Some("flow"));
}

#[test]
fn a_step_on_512_gpus_takes_fewer_than_a_million_simulation_events() {
    // System: case t4, every transfer a flow: 18 million transfers of allreduces in a step. Expectation: a
    // hundred times fewer are simulated, so that twenty steps take seconds.
    let flows = [
        ("job.sync.allreduce.fidelity", "flow"),
        ("job.parallel.tensor.fidelity", "flow"),
        ("run.steps", "1"),
        ("run.warm_up", "off"),
    ];
    let outcome = sim::run(&case("t4", &flows), 0, &Options::default());
    assert!(outcome.events < 1_000_000, "{} events", outcome.events);
    let used = outcome.resources.iter().find(|of| of.name == "node.intra").expect("it is limited");
    assert!(used.utilisation > 0.05, "links did what sums need: {}", used.utilisation);
}

#[test]
fn a_run_ends_at_its_limit_of_events() {
    // System: forty jobs whose files are read from a server, cut off at half of their events. Expectation: the
    // end of a transfer counts as one event, as in the outcome.
    let changes = [("job.copies", "40"), ("run.steps", "20"), ("run.warm_up", "off")];
    let scenario = case("t5", &changes);
    let all = sim::run(&scenario, 0, &Options::default()).events;
    let options = Options { most_events: Some(all / 2), ..Options::default() };
    let events = sim::run(&scenario, 0, &options).events;
    assert!((all / 2..all / 2 + all / 50).contains(&events), "{events} of {all}");
}

#[test]
fn a_run_may_reach_its_limit_of_events_at_the_instant_of_its_last_step() {
    // System: four ranks whose last messages end at the same instant, which ends the last step; the run is cut off after each
    // number of events of that step. Expectation: it ends there, with the same number of events at most as without a limit.
    let text = r#"
name = "together"
fidelity.steady_state = "simulate"
run = { steps = 600, warm_up = "off" }
cluster = { nodes = 4, node = { gpus = 1, cores = 4 }, network.nic = "1 GB/s" }
storage.m.memory = {}
dataset.d = { samples = 1000, sample_size = "1 kB" }
[[job]]
name = "j"
nodes = 4
dataset = "d"
storage = "m"
batch = 8
loader.in-memory = {}
model.step = "1 ms"
sync.allreduce = { gradients = "10 MB", algorithm = "ring" }
"#;
    let scenario = written(text, &[]);
    let every = |most_events| Options { every_transfer: true, most_events, ..Options::default() };
    let all = sim::run(&scenario, 0, &every(None));
    assert!(all.events > 2000, "runs are checked from some number of events on: {}", all.events);
    for most in all.events - 60..=all.events {
        let cut = sim::run(&scenario, 0, &every(Some(most)));
        assert!(cut.events <= all.events && cut.makespan <= all.makespan, "{most}");
    }
}

#[test]
fn a_run_reports_its_progress() {
    let flows = [("run.steps", "2"), ("run.warm_up", "off")];
    let progress = Progress::default();
    let options = Options { progress: Some(&progress), ..Options::default() };
    let outcome = sim::run(&case("t4", &flows), 0, &options);
    let told = (progress.share(), progress.seconds(), progress.events());
    assert!((0.45..=1.0).contains(&told.0), "{told:?}");
    assert!(told.1 > 0.5 * outcome.makespan && told.1 <= outcome.makespan, "{told:?}");
    assert!(told.2 >= 65_536 && told.2 <= 2 * outcome.events, "{told:?}");
    progress.reset();
    assert_eq!((progress.share(), progress.events()), (0.0, 0));
}

#[test]
fn reports_omit_epochs_that_only_the_data_loader_has_begun() {
    // System: case t3 with fewer samples, whose readers are ahead of its last step. Expectation: three epochs
    // in the report on tiers.
    let changes = [("dataset.imagenet.samples", "100001")];
    let report = report_of(&case("t3", &changes));
    let job = &report.jobs[0];
    assert_eq!(job.tiers.len(), 3, "{:?}", job.tiers);
    let text = forebay::report::text::render(&report, 100, false);
    assert!(text.contains("in epoch 3.") && !text.contains("epoch 4"), "{text}");
    assert!(text.contains("The first epoch of `resnet` takes"), "{text}");
    assert!(text.contains("makespan"), "{text}");
}

#[test]
fn text_reports_label_values_per_job_copy_and_totals_of_all_job_copies() {
    let report = report_of(&case("t5", &[("job.copies", "3"), ("run.warm_up", "10")]));
    let text = forebay::report::text::render(&report, 120, false);
    for gone in ["fresh/s", "busiest", "flows", "if never held up", "-0.0 "] {
        assert!(!text.contains(gone), "{gone}: {text}");
    }
    for there in ["samples/s each", "all copies", "each: of one copy of the job", "most used"] {
        assert!(text.contains(there), "{there}: {text}");
    }
    let json = forebay::report::json::render(&report);
    assert!(!json.contains("-0.0,") && !json.contains("-0.0\n"), "{json}");
}

#[test]
fn random_failures_suppress_the_warning_that_workers_may_run_in_lockstep() {
    let lockstep = |changes: Changes<'_>| {
        let few = [("run.steps", "3"), ("job.parallel.pipeline.micro_batches", "4")];
        let report = report_of(&case("t4", &[&few[..], changes].concat()));
        report.warnings.iter().any(|warning| warning.contains("Nothing in this scenario varies"))
    };
    let working = ("job.loader", "{ pytorch = { workers = 4, decode = \"1 ms\" } }");
    let expected = ("job.failures", "{ at = [\"1 h\"], restart = \"10 min\" }");
    assert!(!lockstep(&[working]), "its nodes fail at random");
    assert!(lockstep(&[working, expected]));
    assert!(!lockstep(&[expected]), "no worker of data in memory does anything");
}
