//! Jobs that begin after other jobs, or at random arrival times, and end on their own.

use forebay::report::{JobOutcome, Outcome};
use forebay::scenario::{Override, ScenarioFile};

use super::runs::{simulate, written};

/// Three jobs of 50 steps of 10 ms on data in memory.
const JOBS: &str = r#"
name = "workflow"
[run]
steps = 50
warm_up = "off"
replications = 1
[cluster]
nodes = 40
[cluster.node]
cores = 8
gpus = 1
[storage.s.memory]
[dataset.d]
samples = 1600
sample_size = "1 kB"
[[job]]
name = "prepare"
dataset = "d"
storage = "s"
batch = 16
loader.in-memory = {}
model.step = "10 ms"
[[job]]
name = "learn"
dataset = "d"
storage = "s"
batch = 16
loader.in-memory = {}
model.step = "10 ms"
[[job]]
name = "apply"
dataset = "d"
storage = "s"
batch = 16
loader.in-memory = {}
model.step = "10 ms"
"#;

fn outcome(changes: &[(&str, &str)]) -> Outcome {
    simulate(&written(JOBS, changes))
}

fn end(job: &JobOutcome) -> f64 {
    job.steps.last().expect("a step").end
}

#[track_caller]
fn assert_near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-6, "{value} instead of {expected}");
}

#[test]
fn a_job_begins_when_all_jobs_listed_as_predecessors_have_ended() {
    // System: jobs of 0.5 s each; `learn` in three copies, the last of which begins 0.2 s late; `apply` begins
    // 0.1 s after all others. Expectation: 0–0.5, 0.5–1.2, 1.3–1.8 s; without `after`, all jobs run
    // concurrently.
    let chain = [
        ("job.learn.after", r#"["prepare"]"#),
        ("job.learn.copies", "3"),
        ("job.learn.stagger", "\"100 ms\""),
        ("job.apply.after", r#"["prepare", "learn"]"#),
        ("job.apply.start", "\"100 ms\""),
    ];
    let found = outcome(&chain);
    let starts: Vec<f64> = found.jobs.iter().map(|job| job.start).collect();
    for (start, expected) in starts.iter().zip([0.0, 0.5, 0.6, 0.7, 1.3]) {
        assert_near(*start, expected);
    }
    for job in &found.jobs {
        assert_near(end(job) - job.start, 0.5);
        assert_near(job.steps[0].end - job.start, 0.01);
    }
    assert_near(found.makespan, 1.8);
    assert_near(outcome(&[]).makespan, 0.5);
}

#[test]
fn jobs_end_after_their_own_steps_or_epochs() {
    let found = outcome(&[("job.prepare.steps", "20"), ("job.learn.epochs", "2.5")]);
    let steps: Vec<usize> = found.jobs.iter().map(|job| job.steps.len()).collect();
    assert_eq!(steps, [20, 250, 50]);
    // In a run of a fixed duration they end before it does.
    let changes = [
        ("run.duration", "\"1 s\""),
        ("job.prepare.steps", "20"),
        ("job.learn.after", r#"["prepare"]"#),
    ];
    let found = outcome(&changes);
    let steps: Vec<usize> = found.jobs.iter().map(|job| job.steps.len()).collect();
    assert_eq!((steps[0], found.jobs[1].start), (20, 0.2));
    assert!(steps[1].abs_diff(80) <= 1 && steps[2].abs_diff(100) <= 1, "{steps:?}");
}

#[test]
fn staging_time_of_a_job_excludes_the_wait_for_its_predecessor() {
    // System: `learn` first copies 16 MB to its node, at 16 MB/s, after 0.5 s of `prepare`. Expectation: its
    // first step ends at 1.51 s.
    let changes = [
        ("dataset.d.sample_size", "\"10 kB\""),
        ("storage.slow", "{ file-server = { bandwidth = \"16 MB/s\" } }"),
        ("storage.nvme", "{ local-disk = { bandwidth = \"1 GB/s\", capacity = \"1 GB\" } }"),
        ("job.learn.storage", "\"slow\""),
        ("job.learn.stage", "{ to = \"nvme\" }"),
        ("job.learn.after", r#"["prepare"]"#),
    ];
    let job = outcome(&changes).jobs.remove(1);
    assert!((job.staging[0].seconds - 1.0).abs() < 0.01, "{:?}", job.staging);
    assert!((job.steps[0].end - 1.51).abs() < 0.02, "{}", job.steps[0].end);
}

#[test]
fn job_copies_arrive_as_a_poisson_process() {
    // System: 31 copies, 100 ms apart on average. Expectation: gaps with this mean and standard deviation over
    // replications; regular arrivals have equal gaps.
    let changes = [
        ("job.prepare.copies", "31"),
        ("job.prepare.stagger", "\"100 ms\""),
        ("job.prepare.steps", "1"),
    ];
    let gaps = |more: &[(&str, &str)]| -> Vec<f64> {
        let scenario = written(JOBS, &[&changes[..], more].concat());
        let of = |replication| {
            let options = forebay::sim::Options::default();
            let jobs = forebay::sim::run(&scenario, replication, &options).jobs;
            let starts: Vec<f64> = jobs.iter().take(31).map(|job| job.start).collect();
            starts.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<f64>>()
        };
        (0..40).flat_map(of).collect()
    };
    assert!(gaps(&[]).iter().all(|gap| (gap - 0.1).abs() < 1e-9));
    let drawn = gaps(&[("job.prepare.arrivals", "\"poisson\"")]);
    let mean = drawn.iter().sum::<f64>() / 1200.0;
    let deviation = (drawn.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 1200.0).sqrt();
    assert!((mean - 0.1).abs() < 0.009 && (deviation - 0.1).abs() < 0.012, "{mean} {deviation}");
}

#[test]
fn poisson_arrivals_of_simultaneous_copies_are_reported_as_ineffective() {
    let told = |changes: &[(&str, &str)]| {
        let poisson = ("job.prepare.arrivals", "\"poisson\"");
        written(JOBS, &[&[poisson], changes].concat()).remarks.join("\n")
    };
    let (copies, stagger) = (("job.prepare.copies", "3"), ("job.prepare.stagger", "\"1 s\""));
    assert!(told(&[stagger]).contains("the job has one copy"));
    assert!(told(&[copies]).contains("without `stagger` all copies arrive at once"));
    assert!(!told(&[copies, stagger]).contains("arrivals"));
}

#[test]
fn a_job_with_a_prefilled_queue_may_start_after_the_end_of_the_run() {
    let changes = [
        ("job.learn.start", "\"100 s\""),
        ("job.learn.prefill", "\"8 samples\""),
        (
            "job.learn.loader",
            "{ tf-queue = { threads = 1, capacity = \"16 samples\", decode = \"1 ms\" } }",
        ),
        ("run", "{ duration = \"1 s\", warm_up = \"off\", replications = 1 }"),
    ];
    let outcome = simulate(&written(JOBS, &changes));
    let late = outcome.jobs.iter().find(|job| job.start > 1.0).expect("the job");
    assert!(late.steps.is_empty() && late.samples.dequeued == 0, "{:?}", late.samples);
}

#[test]
fn jobs_that_never_begin_are_refused() {
    let cases: [(&[(&str, &str)], &str); 6] = [
        (&[("job.learn.after", r#"["learn"]"#)], "the job never begins"),
        (
            &[("job.learn.after", r#"["apply"]"#), ("job.apply.after", r#"["learn"]"#)],
            "the job never begins",
        ),
        (
            &[("job.learn.after", r#"["prepare"]"#), ("run.duration", "\"1 s\"")],
            "the job never begins",
        ),
        (&[("job.learn.after", r#"["aply"]"#)], "did you mean `apply`?"),
        (&[("job.learn.steps", "5"), ("job.learn.epochs", "5")], "contradict each other"),
        (&[("job.learn.arrivals", "\"often\"")], "poisson"),
    ];
    let file = ScenarioFile::parse("test.toml", JOBS.to_owned()).expect("TOML");
    for (changes, expected) in cases {
        let overrides: Vec<Override> = changes
            .iter()
            .map(|(key, value)| format!("{key}={value}").parse().expect("an override"))
            .collect();
        let said = file.resolve(&overrides).expect_err("it is wrong").to_string();
        assert!(said.contains(expected), "{said}\ninstead of {expected}");
    }
}
