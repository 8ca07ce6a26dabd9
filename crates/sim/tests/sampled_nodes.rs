//! Runs of samples of nodes, compared with runs of all nodes.
//!
//! `cargo test --release -p forebay-sim --test sampled_nodes -- --ignored --nocapture` simulates all twenty scenarios, and shows the
//! error of each in a table. It takes some minutes.

use std::io::Write;

use forebay_report::{Report, summarise};
use forebay_scenario::{Override, Scenario, ScenarioFile, Stop};
use forebay_sim::{Options, run};
use rayon::prelude::*;

/// Nodes of four GPUs whose loaders make about as many samples as the GPUs train on.
const KNEE: &str = r#"
name = "nodes"
run = { steps = 300, replications = 1 }
storage.nfs.file-server = { bandwidth = "1 TB/s", latency = "4 ms" }
dataset.images = { samples = 100_000_000, sample_size = "110 kB" }
[cluster]
nodes = 128
network.nic = "25 Gbit/s"
node = { gpus = 4, cores = 16 }
[[job]]
name = "train"
dataset = "images"
storage = "nfs"
nodes = 128
batch = 16
loader.pytorch = { workers = 8, decode = { lognormal = { mean = "8 ms", cv = 0.5 } } }
model.step = "100 ms"
parallel.data = { copies_per_node = 4, loaders = "per-node" }
"#;

/// A scenario: what it shows, its number of nodes, its size of sample, and the keys in which it differs from [`KNEE`].
struct Case {
    name: &'static str,
    nodes: u32,
    sample: u32,
    changes: &'static [&'static str],
}

const CASES: [Case; 20] = [
    Case {
        name: "starves by decoding",
        nodes: 128,
        sample: 32,
        changes: &["job.model.step=60 ms"],
    },
    Case {
        name: "starves by bandwidth",
        nodes: 256,
        sample: 32,
        changes: &["storage.nfs.file-server.bandwidth=10 GB/s"],
    },
    Case {
        name: "starves by operations",
        nodes: 256,
        sample: 32,
        changes: &["storage.nfs.file-server.operations=100000 /s"],
    },
    Case { name: "busy", nodes: 512, sample: 64, changes: &["job.model.step=200 ms"] },
    Case {
        name: "busy, steps vary",
        nodes: 256,
        sample: 32,
        changes: &["job.model.step=200 ms", "job.model.jitter={ lognormal = { cv = 0.05 } }"],
    },
    Case { name: "at the knee", nodes: 256, sample: 32, changes: &[] },
    Case {
        name: "at the knee, 512 nodes",
        nodes: 512,
        sample: 64,
        changes: &["job.model.step=98 ms"],
    },
    Case {
        name: "at the knee, decoding varies widely",
        nodes: 256,
        sample: 32,
        changes: &["job.loader.pytorch.decode={ lognormal = { mean = \"8 ms\", cv = 1.0 } }"],
    },
    Case {
        name: "a slow GPU",
        nodes: 128,
        sample: 32,
        changes: &[
            "job.model.step=150 ms",
            "fault=[{ node = \"gpus\", nodes = [5], gpus = [1], factor = 0.8 }]",
        ],
    },
    Case {
        name: "three nodes with half of their cores",
        nodes: 128,
        sample: 32,
        changes: &["fault=[{ node = \"cores\", nodes = [7, 40, 99], factor = 0.25 }]"],
    },
    Case {
        name: "a quarter of the nodes is old",
        nodes: 128,
        sample: 32,
        changes: &["cluster.nodes=96", "cluster.group.old={ nodes = 32, node.gpu_speed = 0.7 }"],
    },
    Case {
        name: "a part of the data in page caches",
        nodes: 64,
        sample: 32,
        changes: &[
            "dataset.images.samples=400000",
            "cluster.node.memory=64 GB",
            "cluster.node.page_cache={ capacity = \"20 GB\" }",
            "storage.nfs.file-server={ bandwidth = \"3 GB/s\", latency = \"4 ms\" }",
        ],
    },
    Case {
        name: "all data in page caches",
        nodes: 64,
        sample: 32,
        changes: &[
            "dataset.images.samples=200000",
            "cluster.node.memory=256 GB",
            "cluster.node.page_cache={}",
            "storage.nfs.file-server={ bandwidth = \"3 GB/s\", latency = \"4 ms\" }",
        ],
    },
    Case {
        name: "checkpoints of one rank",
        nodes: 128,
        sample: 32,
        changes: &[
            "job.checkpoint={ steps = 20, bytes = \"1 GB\" }",
            "storage.nfs.file-server.bandwidth=12 GB/s",
        ],
    },
    Case {
        name: "checkpoints of all ranks",
        nodes: 256,
        sample: 32,
        changes: &[
            "job.checkpoint={ steps = 20, bytes = \"40 GB\", writers = \"each\" }",
            "storage.nfs.file-server.bandwidth=25 GB/s",
        ],
    },
    Case {
        name: "failures",
        nodes: 64,
        sample: 16,
        changes: &[
            "job.checkpoint={ steps = 20, bytes = \"1 GB\" }",
            "job.failures={ mtbf = \"10 min\", restart = \"1 s\" }",
        ],
    },
    Case {
        name: "allreduce",
        nodes: 256,
        sample: 32,
        changes: &[
            "job.model.step=150 ms",
            "job.sync.allreduce={ gradients = \"100 MB\", buckets = \"25 MB\", fidelity = \"analytic\" }",
        ],
    },
    Case {
        name: "allreduce at the knee, steps vary",
        nodes: 128,
        sample: 32,
        changes: &[
            "job.model.jitter={ lognormal = { cv = 0.05 } }",
            "job.sync.allreduce={ gradients = \"100 MB\", buckets = \"25 MB\", fidelity = \"analytic\" }",
        ],
    },
    Case {
        name: "object store with limited requests",
        nodes: 128,
        sample: 32,
        changes: &[
            "storage.s3.object-store={ latency = { lognormal = { mean = \"20 ms\", cv = 1.0 } }, requests = \"35000 /s\", bandwidth = \"100 GB/s\" }",
            "job.storage=s3",
            "job.loader.pytorch.workers=24",
        ],
    },
    Case {
        name: "short epochs",
        nodes: 64,
        sample: 16,
        changes: &["dataset.images.samples=100000"],
    },
];

impl Case {
    fn scenario(&self, sample: Option<u32>) -> Scenario {
        let file = ScenarioFile::parse("nodes.toml", KNEE.to_owned()).expect("TOML");
        let nodes = [format!("cluster.nodes={}", self.nodes), format!("job.nodes={}", self.nodes)];
        let sample = sample.map(|nodes| format!("fidelity.nodes={nodes}"));
        let changes = self.changes.iter().map(|change| (*change).to_owned());
        let all: Vec<Override> = nodes
            .into_iter()
            .chain(changes)
            .chain(sample)
            .map(|change| change.parse().unwrap_or_else(|problem| panic!("{change}: {problem}")))
            .collect();
        file.resolve(&all).unwrap_or_else(|problems| panic!("{}: {problems}", self.name))
    }

    fn report(&self, sample: Option<u32>) -> Report {
        let scenario = self.scenario(sample);
        let outcome = run(&scenario, 0, &Options::default());
        summarise(&scenario, &[outcome], 0.0)
    }
}

/// How a sample compares with all nodes.
struct Compared {
    /// Relative difference of the step times, and difference of the shares of stalls.
    step_time: f64,
    stall: f64,
    /// Half-width of the sampling error, and whether it holds the difference.
    error: f64,
    holds: bool,
    /// Whether the largest causes of stalls are the same.
    cause: bool,
}

fn compare(case: &Case) -> Compared {
    let [full, sampled] = [None, Some(case.sample)].map(|sample| case.report(sample));
    let time = |report: &Report| report.jobs[0].figures.step_time.mean.expect("a step time");
    let stall = |report: &Report| report.jobs[0].figures.stall.total.mean.expect("a share");
    let cause = |report: &Report| {
        let causes = report.jobs[0].figures.stall.causes.iter();
        let most =
            causes.max_by(|a, b| a.1.mean.unwrap_or(0.0).total_cmp(&b.1.mean.unwrap_or(0.0)));
        most.filter(|(_, figure)| figure.mean.unwrap_or(0.0) > 0.05).map(|(cause, _)| *cause)
    };
    let step_time = time(&sampled) / time(&full) - 1.0;
    let error = sampled.sampled.as_ref().and_then(|of| of.step_time[0]).expect("an error");
    let [low, high] = sampled.jobs[0].figures.step_time.ci95.unwrap_or([time(&sampled); 2]);
    Compared {
        step_time,
        stall: stall(&sampled) - stall(&full),
        error,
        holds: (low..=high).contains(&time(&full)) || step_time.abs() < 1e-4,
        cause: cause(&sampled) == cause(&full),
    }
}

#[test]
#[ignore = "takes some minutes: docs/src/develop.md has the command"]
fn twenty_samples_have_the_step_times_and_stalls_of_all_nodes() {
    let all: Vec<Compared> = CASES.par_iter().map(compare).collect();
    let mut table = Vec::new();
    for (case, of) in CASES.iter().zip(&all) {
        let marks = [(of.holds, "outside"), (of.cause, "other cause")];
        let marks: Vec<&str> = marks.iter().filter(|(is, _)| !is).map(|(_, mark)| *mark).collect();
        table.push(format!(
            "{:<38}{:>4} of {:>3} nodes: step time {:>+6.2} %, ± {:>5.2} %, stalls {:>+5.2} points {}",
            case.name,
            case.sample,
            case.nodes,
            100.0 * of.step_time,
            100.0 * of.error,
            100.0 * of.stall,
            marks.join(", ")
        ));
    }
    let table = table.join("\n");
    let _ = writeln!(std::io::stdout(), "{table}");
    let wrong =
        all.iter().filter(|of| of.step_time.abs() > 0.015 || of.stall.abs() > 0.015).count();
    assert_eq!(wrong, 0, "{table}");
    assert!(all.iter().filter(|of| of.holds).count() >= 17, "{table}");
    assert!(all.iter().filter(|of| of.cause).count() >= 18, "{table}");
}

#[test]
fn samples_have_the_step_times_of_all_nodes() {
    // System: jobs on 64 nodes that starve, are at the knee, exchange gradients, or have a slow GPU, shorter than in the table above.
    // Expectation: step times of 16 nodes for all are within 3 %, and sums over nodes are those of all.
    for index in [0, 5, 8, 17] {
        let case = Case { nodes: 64, sample: 16, ..CASES[index] };
        let [full, sampled] = [None, Some(16)].map(|sample| {
            let mut scenario = case.scenario(sample);
            scenario.run.stop = Stop::Steps(100);
            let outcome = run(&scenario, 0, &Options::default());
            let report = summarise(&scenario, std::slice::from_ref(&outcome), 0.0);
            (outcome, report)
        });
        let time = |of: &Report| of.jobs[0].figures.step_time.mean.expect("a step time");
        let apart = time(&sampled.1) / time(&full.1) - 1.0;
        assert!(apart.abs() < 0.03, "{}: {apart}", case.name);
        assert_eq!(sampled.0.jobs[0].steps[7].samples, full.0.jobs[0].steps[7].samples);
        for (of, all) in sampled.0.resources.iter().zip(&full.0.resources) {
            assert_eq!((of.of, of.count), (all.of, all.count), "{}", case.name);
            assert!((of.capacity / all.capacity - 1.0).abs() < 1e-9, "{}: {}", case.name, of.name);
            assert!((of.served / all.served - 1.0).abs() < 0.05, "{}: {}", case.name, of.name);
        }
        assert!(sampled.0.events < full.0.events, "{}", case.name);
    }
}

#[test]
fn a_sample_gives_the_same_bytes_whatever_the_number_of_threads() {
    let case = Case { nodes: 64, sample: 16, ..CASES[5] };
    let mut scenario = case.scenario(Some(16));
    scenario.run.stop = Stop::Steps(20);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| run(&scenario, 0, &Options::default()))
    };
    assert_eq!(with(1), with(4));
}

#[test]
fn a_node_that_nothing_is_like_is_always_in_the_sample() {
    // System: a GPU of one node is at half its speed. Expectation: all steps take twice the time, also where 16 of 64 nodes are simulated.
    let case = Case {
        nodes: 64,
        sample: 16,
        changes: &[
            "job.model.step=200 ms",
            "fault=[{ node = \"gpus\", nodes = [37], gpus = [3], factor = 0.5 }]",
        ],
        ..CASES[8]
    };
    let mut scenario = case.scenario(Some(16));
    scenario.run.stop = Stop::Steps(20);
    let outcome = run(&scenario, 0, &Options::default());
    let steps = &outcome.jobs[0].steps;
    let mean = (steps[19].end - steps[4].end) / 15.0;
    assert!((mean - 0.4).abs() < 1e-6, "{mean}");
}

#[test]
fn nodes_meet_only_where_a_round_of_steps_ends() {
    // System: gradients are added up over four steps, within which nodes do not wait for each other. Expectation: all steps are complete,
    // and take as long as those of all nodes.
    let case = Case {
        nodes: 64,
        sample: 16,
        changes: &[
            "job.accumulation=4",
            "job.sync.allreduce={ gradients = \"1 MB\", fidelity = \"analytic\" }",
        ],
        ..CASES[5]
    };
    let ends = [None, Some(16)].map(|sample| {
        let mut scenario = case.scenario(sample);
        scenario.run.stop = Stop::Steps(80);
        let outcome = run(&scenario, 0, &Options::default());
        assert_eq!(outcome.unfinished, None);
        assert_eq!(outcome.jobs[0].steps.len(), 80);
        outcome.jobs[0].steps[79].end
    });
    assert!((ends[1] / ends[0] - 1.0).abs() < 0.03, "{ends:?}");
}

#[test]
fn loads_from_outside_take_the_same_part_of_a_storage() {
    // System: requests and endless transfers from outside, beside a job that reads from the same server. Expectation: the server is used
    // as much as beside all nodes.
    for load in [
        "background=[{ name = \"b\", storage = \"nfs\", requests = { rate = \"400 /s\", size = \"10 MB\" } }]",
        "background=[{ name = \"b\", storage = \"nfs\", streams = { streams = 4, cap = \"1 GB/s\" } }]",
    ] {
        let used = [None, Some(16)].map(|sample| {
            let case = Case { nodes: 64, sample: 16, ..CASES[5] };
            let file = ScenarioFile::parse("nodes.toml", KNEE.to_owned()).expect("TOML");
            let mut changes = vec![
                "cluster.nodes=64".to_owned(),
                "job.nodes=64".to_owned(),
                "storage.nfs.file-server.bandwidth=20 GB/s".to_owned(),
                load.to_owned(),
            ];
            changes.extend(sample.map(|_| format!("fidelity.nodes={}", case.sample)));
            let changes: Vec<Override> =
                changes.iter().map(|change| change.parse().expect("an override")).collect();
            let mut scenario = file.resolve(&changes).unwrap_or_else(|of| panic!("{of}"));
            scenario.run.stop = Stop::Steps(60);
            let outcome = run(&scenario, 0, &Options::default());
            let server = outcome.resources.iter().find(|of| of.name == "nfs.bandwidth");
            server.expect("the server").utilisation
        });
        assert!((used[1] / used[0] - 1.0).abs() < 0.05, "{load}: {used:?}");
    }
}
