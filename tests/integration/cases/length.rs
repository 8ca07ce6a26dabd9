//! Cases of runs that are too short, and of intervals that cannot be.

use super::super::runs::written;
use super::{case, report_of};
use forebay::report::{Figure, JobReport, Report};
use forebay::scenario::Scenario;
use std::fs;

use super::super::runs::repository;

fn mean(figure: &Figure) -> f64 {
    figure.mean.expect("a mean")
}

/// A case of which nobody says how long it runs.
fn of_unwritten_length(name: &str, changes: &[(&str, &str)]) -> Scenario {
    let path = repository(&format!("tests/data/cases/{name}.toml"));
    let text = fs::read_to_string(path).expect("a case");
    let lengths = ["steps = ", "warm_up = ", "replications = ", "epochs = "];
    let keeps = |line: &&str| !lengths.iter().any(|key| line.starts_with(key));
    written(&text.lines().filter(keeps).collect::<Vec<_>>().join("\n"), changes)
}

/// Every interval of a job with a name.
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

/// Shares lie from 0 to 1, all else is not below 0, and each mean lies in its interval.
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
fn buffers_that_drain_are_said_to_drain() {
    // System: forty jobs that could train on 1,219 samples/s each; the server opens 40,000 files a second. Expectation: the
    // twenty steps that are measured are fed by what was read before, and too few to tell what lasts.
    let report = report_of(&case("t5", &[("job.copies", "40")]));
    let job = &report.jobs[0];
    assert!(!job.length.enough && job.length.drained, "{:?}", job.length);
    let text = forebay::report::text::render(&report, 100, false);
    assert!(text.contains("The run is too short for `hpo`"), "{text}");
}

#[test]
fn a_run_of_unwritten_length_finds_the_rate_that_lasts() {
    // System: the same, whose length nobody says. Expectation: 1,000 samples/s for each job to 1 %.
    let scenario = of_unwritten_length("t5", &[("job.copies", "40"), ("run.precision", "0.01")]);
    let report = report_of(&scenario);
    let rate = mean(&report.jobs[0].figures.samples_per_second);
    assert!((rate / 1000.0 - 1.0).abs() < 0.01, "{rate} {:?}", report.jobs[0].length);
}

#[test]
fn no_work_in_progress_drains_within_the_measured_steps() {
    // System: two jobs share 3,000 operations a second. Expectation: 1,500 samples/s each at most.
    let report = report_of(&case("operations-bound", &[]));
    let rate = mean(&report.jobs[0].figures.samples_per_second);
    assert!((1490.0..=1500.5).contains(&rate), "{rate}");
}

#[test]
fn intervals_of_short_runs_are_possible() {
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
fn intervals_allow_for_stalls_that_were_not_seen() {
    // System: steps of 16 ms and a loader that is late once in a few hundred steps; five replications of 62 steps.
    // Expectation: the interval holds the mean of long runs in 93 of 100 seeds or more.
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
fn the_scenario_of_the_readme_settles() {
    let report = report_of(&case("readme30", &[]));
    assert!(report.jobs[0].length.enough, "{:?}", report.jobs[0].length);
}

/// A job of 10 ms steps that vary, whose length nobody says.
fn steady(more: &str) -> Scenario {
    steady_with("", more)
}

/// The same with something under `[run]`.
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
fn a_run_of_unwritten_length_waits_for_faults_failures_and_the_second_epoch() {
    // System: a server that is slow from 200 s to 210 s; nodes that fail at 300 s; a data set of 200 steps that a page cache
    // keeps. Expectation: the run ends behind each of these, and the first epoch is not measured.
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
fn a_written_warm_up_of_a_run_of_unwritten_length_ends_behind_the_first_epoch_too() {
    // System: a data set of 200 steps that a page cache keeps, and ten steps to leave out. Expectation: the first epoch is not
    // measured, and the run is long enough.
    let report = report_of(&steady_with("warm_up = 10", ""));
    let job = &report.jobs[0];
    let shown = (job.warm_up_steps, &job.length);
    assert!(job.warm_up_steps >= 200.0 && job.length.enough, "{shown:?}");
    assert!(report.makespan.mean.expect("an end") < 100.0);
}

#[test]
fn jobs_of_one_node_that_train_on_more_gpus_than_it_has_are_told() {
    // System: two jobs on one node of so many GPUs, each of which trains on one. Expectation: a word where there is one GPU
    // only, because each is simulated with its own.
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
fn a_run_that_ends_within_its_first_epoch_says_that_caches_are_cold() {
    let text = fs::read_to_string(repository("tests/data/cases/t5.toml")).expect("a case");
    assert!(text.contains("memory"));
    let most = [("run.most", "300000"), ("job.copies", "2")];
    let report = report_of(&of_unwritten_length("t5", &most));
    let why = report.jobs[0].length.why.as_deref().unwrap_or_default();
    assert!(why.contains("later epochs"), "{why}");
}
