//! Cases of runs that are too short, and of confidence intervals that are impossible.

use super::super::runs::written;
use super::{case, report_of};
use forebay::report::{Figure, JobReport, Report};
use forebay::scenario::Scenario;
use std::fs;

use super::super::runs::repository;

fn mean(figure: &Figure) -> f64 {
    figure.mean.expect("a mean")
}

/// Returns a case without the settings of its length.
fn of_unwritten_length(name: &str, changes: &[(&str, &str)]) -> Scenario {
    let path = repository(&format!("tests/data/cases/{name}.toml"));
    let text = fs::read_to_string(path).expect("a case");
    let lengths = ["steps = ", "warm_up = ", "replications = ", "epochs = "];
    let keeps = |line: &&str| !lengths.iter().any(|key| line.starts_with(key));
    written(&text.lines().filter(keeps).collect::<Vec<_>>().join("\n"), changes)
}

/// Returns every figure of a job with a confidence interval, by name.
fn intervals(job: &JobReport) -> Vec<(String, Figure)> {
    let figures = &job.figures;
    let mut all = vec![
        ("samples/s".to_owned(), figures.samples_per_second),
        ("fresh samples/s".to_owned(), figures.fresh_samples_per_second),
        ("step time".to_owned(), figures.step_time),
        ("epoch time".to_owned(), figures.epoch_time),
        ("busy".to_owned(), figures.accelerator_utilisation),
        ("stall".to_owned(), figures.stall.total),
        ("empty".to_owned(), job.queue.time_empty),
        ("occupancy".to_owned(), job.queue.occupancy),
    ];
    let causes = figures.stall.causes.iter();
    all.extend(causes.map(|(cause, figure)| (format!("stall {cause}"), *figure)));
    all
}

/// Checks that shares lie from 0 to 1, that other figures are not negative, and that each mean lies in its
/// interval.
fn assert_possible(report: &Report, what: &str) {
    for job in &report.jobs {
        for (name, figure) in intervals(job) {
            let (Some(mean), Some([low, high])) = (figure.mean, figure.ci95) else { continue };
            let share = name.starts_with("stall") || name == "busy" || name == "empty";
            let most = if share { 1.0 } else { f64::MAX };
            assert!(0.0 <= low && high <= most, "{what}: {name} {mean} in {low} to {high}");
            assert!(low <= mean && mean <= high, "{what}: {name} {mean} in {low} to {high}");
        }
    }
}

#[test]
fn draining_buffers_are_reported() {
    // System: forty jobs that could train on 1,219 samples/s each; the server opens 40,000 files a second.
    // Expectation: the report says that the twenty measured steps used samples read earlier, and that the run
    // is too short for the steady rate.
    let report = report_of(&case("t5", &[("job.copies", "40")]));
    let job = &report.jobs[0];
    assert!(!job.length.enough && job.length.drained, "{:?}", job.length);
    let text = forebay::report::text::render(&report, 100, false);
    assert!(text.contains("The run is too short for `hpo`"), "{text}");
}

#[test]
fn a_simulation_of_default_length_finds_steady_throughput_within_1_percent() {
    // System: the same forty jobs in a run of default length. Expectation: 1,000 samples/s for each job to 1 %.
    let scenario = of_unwritten_length("t5", &[("job.copies", "40"), ("run.precision", "0.01")]);
    let report = report_of(&scenario);
    let rate = mean(&report.jobs[0].figures.samples_per_second);
    assert!((rate / 1000.0 - 1.0).abs() < 0.01, "{rate} {:?}", report.jobs[0].length);
}

#[test]
fn reported_throughput_does_not_exceed_the_storage_limit() {
    // System: two jobs share 3,000 operations a second. Expectation: 1,500 samples/s each at most.
    let report = report_of(&case("operations-bound", &[]));
    let rate = mean(&report.jobs[0].figures.samples_per_second);
    assert!((1490.0..=1500.5).contains(&rate), "{rate}");
}

#[test]
fn confidence_intervals_of_short_runs_contain_only_possible_values() {
    for seed in 1..=30 {
        let seed = seed.to_string();
        let changes = [("run.seed", seed.as_str()), ("run.replications", "1")];
        assert_possible(&report_of(&case("neg", &changes)), &format!("seed {seed}"));
    }
    for epochs in ["1", "3"] {
        let small = [("run.epochs", epochs), ("dataset.imagenet.samples", "50000")];
        assert_possible(&report_of(&case("t3", &small)), &format!("{epochs} epochs"));
    }
}

#[test]
fn confidence_intervals_of_short_runs_allow_for_rare_unobserved_stalls() {
    // System: steps of 16 ms and a loader that is late once in a few hundred steps; five replications of 62
    // steps. Expectation: the interval contains the mean of a long run for at least 93 of 100 seeds.
    let slow = ("job.model.step", "16 ms");
    let long = case("neg", &[slow, ("run.steps", "20000"), ("run.replications", "5")]);
    let truth = mean(&report_of(&long).jobs[0].figures.step_time);
    let holds = |seed: &u32| {
        let seed = seed.to_string();
        let changes = [slow, ("run.seed", seed.as_str()), ("run.replications", "5")];
        let report = report_of(&case("neg", &changes));
        let [low, high] = report.jobs[0].figures.step_time.ci95.expect("an interval");
        low <= truth && truth <= high
    };
    let held = (100..200).filter(holds).count();
    assert!(held >= 93, "{held} of 100");
}

#[test]
fn the_readme_scenario_reaches_a_steady_state() {
    let report = report_of(&case("readme30", &[]));
    assert!(report.jobs[0].length.enough, "{:?}", report.jobs[0].length);
}

/// Returns a job with steps of 10 ms that vary, in a run of default length.
fn steady(more: &str) -> Scenario {
    steady_with("", more)
}

/// Returns the job of `steady` with `run` under `[run]`.
fn steady_with(run: &str, more: &str) -> Scenario {
    let text = format!(
        r#"# How long does it run?
name = "steady"
[run]
{run}
[cluster]
nodes = 1
[cluster.node]
cores = 8
gpus = 1
memory = "1 GB"
[storage.s.file-server]
bandwidth = "1 GB/s"
[dataset.d]
samples = 2000
sample_size = "10 kB"
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 10
loader.tf-queue = {{ threads = 4, capacity = "40 samples" }}
model = {{ step = "10 ms", jitter.lognormal.cv = 0.1 }}
{more}
"#
    );
    written(&text, &[])
}

#[test]
fn a_run_of_default_length_covers_faults_failures_and_the_second_epoch() {
    // System: a server that is slow from 200 s to 210 s; nodes that fail at 300 s; a data set of 200 steps that
    // a page cache holds. Expectation: the run ends after each of these, and the first epoch is not measured.
    let end = |more: &str| report_of(&steady(more)).makespan.mean.expect("an end");
    let fault = "[[fault]]\nstorage = \"s\"\nfrom = \"200 s\"\nuntil = \"210 s\"\nfactor = 0.5";
    let fails = "failures = { at = [\"300 s\"], restart = \"1 s\" }\ncheckpoint = { interval = \"20 s\", bytes = \"1 MB\" }";
    assert!(end("") < 100.0 && end(fault) > 210.0 && end(fails) > 300.0);
    let report = report_of(&steady(""));
    let job = &report.jobs[0];
    assert!(
        job.warm_up_steps >= 200.0 && job.length.enough,
        "{} {:?}",
        job.warm_up_steps,
        job.length
    );
}

#[test]
fn default_length_runs_extend_a_short_warm_up_to_the_first_epoch() {
    // System: a data set of 200 steps that a page cache holds, and a warm-up of ten steps. Expectation: the
    // first epoch is not measured, and the run is long enough.
    let report = report_of(&steady_with("warm_up = 10", ""));
    let job = &report.jobs[0];
    let shown = (job.warm_up_steps, &job.length);
    assert!(job.warm_up_steps >= 200.0 && job.length.enough, "{shown:?}");
    assert!(report.makespan.mean.expect("an end") < 100.0);
}

#[test]
fn jobs_with_more_gpus_than_their_shared_node_are_reported() {
    // System: two jobs that train on one GPU each, on one node of one or two GPUs. Expectation: a remark if the
    // node has only one GPU, because each job is simulated with a GPU of its own.
    let text = r#"name = "crowd"
[run]
steps = 5
[cluster]
nodes = 1
share_nodes = true
node = { cores = 8, gpus = 1 }
[storage.memory.memory]
[dataset.d]
samples = 1000
sample_size = "1 kB"
[[job]]
name = "j"
copies = 2
dataset = "d"
storage = "memory"
batch = 8
model.step = "10 ms"
loader.in-memory = {}
"#;
    let told = |gpus: &str| {
        let scenario = written(text, &[("cluster.node.gpus", gpus)]);
        scenario.remarks.iter().any(|remark| remark.contains("`cluster.node.gpus = 2`"))
    };
    assert!(told("1") && !told("2"));
}

#[test]
fn a_run_shorter_than_its_first_epoch_reports_cold_caches() {
    let text = fs::read_to_string(repository("tests/data/cases/t5.toml")).expect("a case");
    assert!(text.contains("memory"));
    // Expectation: a job that waits for input is told that later epochs read from caches; a job that hardly waits is not.
    let why = |workers: &str| {
        let workers = ("job.loader.pytorch.workers", workers);
        let most = [("run.most", "300000"), ("job.copies", "2"), workers];
        report_of(&of_unwritten_length("t5", &most)).jobs[0].length.why.clone().unwrap_or_default()
    };
    assert!(why("4").contains("later epochs"), "{}", why("4"));
    assert!(!why("16").contains("later epochs"), "{}", why("16"));
}

/// Returns the first job's mean step time [s] and share of time that it computes.
fn pace(job: &JobReport) -> (f64, f64) {
    (mean(&job.figures.step_time), mean(&job.figures.accelerator_utilisation))
}

#[test]
fn a_run_of_default_length_holds_whole_epochs_that_restart_workers() {
    // System: epochs of 781.25 steps of 50 ms, each of which starts 32 workers for 300 ms each; epochs of 100 steps of 20 ms that
    // start a worker for 500 ms. Expectation: 50 ms + (9.6 s + a first batch of 0.3 s) ÷ 781.25, and 20 ms + 516 ms ÷ 100.
    let report = report_of(&case("turn3/restart", &[]));
    let job = &report.jobs[0];
    let (step, busy) = pace(job);
    assert!((0.060..0.063).contains(&step) && (0.79..0.81).contains(&busy), "{step} {busy}");
    assert!(job.length.enough && report.events < 2_000_000, "{:?}", job.length);
    let report = report_of(&case("turn3/restart0", &[("job.loader.pytorch.workers", "1")]));
    let (step, _) = pace(&report.jobs[0]);
    assert!((step - 0.02515).abs() < 1e-5 && report.jobs[0].length.enough, "{step}");
}

#[test]
fn a_run_of_default_length_is_long_enough() {
    // System: epochs of 1,562.5 steps, and a loader that makes a batch in 128 ms; exchanges every 32 steps. Expectation: the run
    // that forebay chose is long enough, and holds exchanges.
    let report = report_of(&case("turn3/f8-auto-length", &[]));
    assert!(report.jobs[0].length.enough, "{:?}", report.jobs[0].length);
    let exchanges = [
        ("cluster.nodes", "2"),
        ("cluster.network.nic", "\"10 Gbit/s\""),
        ("job.nodes", "2"),
        ("job.accumulation", "4"),
        ("job.sync.allreduce", "{ gradients = \"100 MB\", period = 8 }"),
    ];
    let job = &report_of(&case("turn3/f8-auto-length", &exchanges)).jobs[0];
    assert!(job.length.enough && job.length.unseen.is_empty(), "{:?}", job.length);
    assert!(mean(&job.figures.steps) >= 320.0);
}

#[test]
fn what_is_rarer_than_a_run_of_default_length_is_named() {
    // System: hourly checkpoints, epochs of a million steps and failures once in three years, and at most 100,000 events. Expectation:
    // the run is long enough for the rest, and names all three.
    let rare = "checkpoint = { interval = \"1 h\", bytes = \"1 GB\" }\nfailures = { mtbf = \"1000 d\", restart = \"1 min\" }";
    let mut scenario = steady_with("most = 100000", rare);
    scenario.jobs[0].loader = steady_loader("pytorch = { workers = 1, start = \"100 s\" }");
    scenario.datasets[0].samples = 10_000_000;
    scenario.cluster.node.page_cache = None;
    let length = &report_of(&scenario).jobs[0].length;
    assert!(length.enough, "{length:?}");
    for what in ["its epochs of 1 M steps", "a checkpoint every 1 h", "fails every"] {
        assert!(length.unseen.iter().any(|of| of.contains(what)), "{what}: {length:?}");
    }
}

/// Returns the loader of a job like that of `steady`.
fn steady_loader(loader: &str) -> forebay::scenario::StageGraph {
    let text = r#"name = "l"
cluster = { nodes = 1, node = { cores = 8, gpus = 1 } }
storage.s.file-server = { bandwidth = "1 GB/s" }
dataset.d = { samples = 2000, sample_size = "10 kB" }
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 10
model.step = "10 ms"
"#;
    written(&format!("{text}loader.{loader}"), &[]).jobs.remove(0).loader
}

#[test]
fn filling_buffers_are_reported() {
    // System: queues of 2,000 samples that take the links of the exchanges until they are full, which lasts 25 steps; then steps take
    // 20 ms. Expectation: runs that end before are too short and say why; longer runs give 20 ms.
    for steps in ["20", "30"] {
        let report = report_of(&case("turn3/filling", &[("run.steps", steps)]));
        let length = &report.jobs[0].length;
        assert!(!length.enough && length.filled && !length.drained, "{length:?}");
        assert!(length.why.as_ref().is_some_and(|why| why.contains("its buffers filled")));
    }
    for steps in ["60", "100", "200"] {
        let report = report_of(&case("turn3/filling", &[("run.steps", steps)]));
        let job = &report.jobs[0];
        assert!(job.length.enough && (pace(job).0 - 0.02).abs() < 1e-4, "{:?}", job.length);
    }
}

#[test]
fn samples_of_row_groups_that_workers_hold_count_as_held() {
    // System: four workers, each with a row group of 1,000 samples, which last 125 steps. Expectation: runs in which no further row
    // group is needed are too short; the long run takes 26.85 ms.
    for steps in ["60", "100"] {
        let report = report_of(&case("turn3/parquet-short", &[("run.steps", steps)]));
        assert!(!report.jobs[0].length.enough, "{:?}", report.jobs[0].length);
    }
    let report = report_of(&of_unwritten_length("turn3/parquet-short", &[]));
    let (step, busy) = pace(&report.jobs[0]);
    assert!((step / 0.02685 - 1.0).abs() < 0.01 && (busy - 0.745).abs() < 0.01, "{step} {busy}");
    assert!(report.jobs[0].length.enough);
}

#[test]
fn a_written_run_says_that_caches_are_cold() {
    // System: 300 steps of an epoch of 1,562.5 whose files the page cache keeps. Expectation: the report says that it is cold; a run of
    // default length measures later epochs, in which the job computes 99.6 % of the time.
    let report = report_of(&case("turn3/cold", &[]));
    let text = forebay::report::text::render(&report, 200, false);
    assert!(text.contains("the page cache and other caches are cold in these steps"), "{text}");
    let report = report_of(&of_unwritten_length("turn3/cold", &[]));
    let (_, busy) = pace(&report.jobs[0]);
    assert!((busy - 0.996).abs() < 0.001 && report.jobs[0].length.enough, "{busy}");
}

#[test]
fn a_job_beside_a_queue_that_still_fills_is_not_measured_long_enough() {
    // System: two jobs on a server of 210 MB/s. One has steps of 40 ms and needs 80 MB/s; the queue of the other, of 12,000 samples, takes
    // what is left until it is full. Expectation: 100 steps are too few for either; a run of default length gives 40 ms.
    let text = r#"name = "beside"
[run]
steps = 100
[cluster]
nodes = 2
node = { cores = 8, page_cache = "none" }
[storage.nas.file-server]
bandwidth = "210 MB/s"
latency = { lognormal = { mean = "1 ms", cv = 0.3 } }
[dataset.d]
samples = 10000000
sample_size = "100 kB"
[[job]]
name = "a"
dataset = "d"
storage = "nas"
batch = 32
loader.pytorch = { workers = 2 }
model.step = "40 ms"
[[job]]
name = "b"
dataset = "d"
storage = "nas"
batch = 32
loader.tf-queue = { threads = 8, capacity = "12000 samples" }
model.step = "40 ms"
"#;
    let short = report_of(&written(text, &[]));
    let why = short.jobs[0].length.why.clone().unwrap_or_default();
    assert!(why.contains("another job") && !short.jobs[0].length.enough, "{why}");
    let long = report_of(&written(&text.replace("steps = 100", ""), &[]));
    let job = &long.jobs[0];
    assert!(
        job.length.enough && (pace(job).0 - 0.04).abs() < 2e-3,
        "{} {:?}",
        pace(job).0,
        job.length
    );
}
