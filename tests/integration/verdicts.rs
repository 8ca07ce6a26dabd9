//! The verdict names what binds, and what it promises of lifting it is what a long run with it lifted shows.
//!
//! `constructed`: scenarios made so that one thing binds; `random`: scenarios from a seeded generator, judged by a
//! long run with each thing lifted in turn.

mod constructed;
mod random;

use forebay::report::{Outcome, Report, Verdict, summarise};
use forebay::scenario::{Scenario, Stop};
use forebay::sim;
use forebay::verdict::{self, Options};

use super::cases::case;
use super::runs::{shipped, written};
use super::support::Place;

/// A run and what is said of it.
pub(crate) fn judged(scenario: &Scenario) -> (Report, Verdict) {
    let options = sim::Options::default();
    let outcomes: Vec<Outcome> =
        (0..scenario.run.replications).map(|i| sim::run(scenario, i, &options)).collect();
    let report = summarise(scenario, &outcomes, 0.0);
    let verdict = verdict::find(scenario, &outcomes, &report, &Options::default());
    (report, verdict.expect("a step was completed"))
}

/// Mean time of a step of the first job over a run `times` as long, behind its first fifth [s].
fn long_step(scenario: &Scenario, times: u64) -> f64 {
    let mut long = scenario.clone();
    let Stop::Steps(steps) = long.run.stop else { panic!("a number of steps") };
    long.run.stop = Stop::Steps(steps * times);
    let outcome = sim::run(&long, 0, &sim::Options::default());
    let copies: Vec<_> = outcome.jobs.iter().filter(|copy| copy.job == 0).collect();
    let of = |steps: &[forebay::report::StepOutcome]| {
        let (first, last) = (steps.len() / 5, steps.len() - steps.len() / 20);
        (steps[last - 1].end - steps[first].end) / (last - 1 - first) as f64
    };
    copies.iter().map(|copy| of(&copy.steps)).sum::<f64>() / copies.len() as f64
}

/// What is wrong with the promise of the first limit, if anything is.
fn broken(scenario: &Scenario, verdict: &Verdict) -> Option<String> {
    let limit = verdict.limits.first()?;
    let then = verdict::lifted(scenario, limit).expect("it was lifted");
    let [low, high] = limit.after_interval;
    let shown = long_step(&then, 5);
    let kept = (low * 0.99..=high * 1.01).contains(&shown);
    (!kept).then(|| format!("{}: {shown} and not {low} to {high}", limit.name))
}

#[test]
fn a_run_lifts_what_may_bind_unless_it_is_to_be_quick() {
    // System: the sample scenario, judged both ways. Expectation: the report for programs and the one for people say
    // the same, and only what was lifted is promised anything.
    let place = Place::new();
    let shown = |options: &[&str]| {
        let out =
            place.forebay(&[&["run", "s.toml"][..], options].concat()).output().expect("a run");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).expect("text")
    };
    for (kind, quick) in [("full", false), ("quick", true)] {
        let json = shown(&["--verdict", kind, "--format", "json"]);
        let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let verdict = &report["verdict"];
        assert_eq!(verdict["quick"], quick, "{verdict}");
        assert_eq!(verdict["limits"].as_array().expect("a list").is_empty(), quick, "{verdict}");
        assert_eq!(report["bottleneck"]["text"], verdict["text"]);
        let said = verdict["text"].as_str().expect("words");
        assert_eq!(said.contains("An estimate"), quick, "{said}");
        let first = said.split_whitespace().take(6).collect::<Vec<_>>().join(" ");
        assert!(shown(&["--verdict", kind]).contains(&first), "{first}");
    }
}

/// Ranks that wait for the slowest of them in each step, whose time varies by half.
const VARYING: &str = r#"
name = "varying"
[run]
steps = 3000
warm_up = 100
replications = 1
[cluster]
nodes = 8
[cluster.node]
cores = 8
gpus = 1
[cluster.network]
nic = "10 GB/s"
[storage.m.memory]
[dataset.d]
samples = 1000000
sample_size = "1 kB"
[[job]]
name = "j"
nodes = 8
dataset = "d"
storage = "m"
batch = 8
model = { step = "20 ms", jitter.gamma.cv = 0.5 }
loader.in-memory = {}
sync.allreduce = { gradients = "1 MB" }
"#;

#[test]
fn a_step_without_jitter_is_promised_as_it_is_whatever_the_short_run_drew() {
    // System: ranks whose steps vary. Expectation: without jitter all steps take the same time, so that a short run shows
    // it exactly: that its own draws were faster or slower than those of the whole run says nothing of it.
    let scenario = written(VARYING, &[]);
    let (_, verdict) = judged(&scenario);
    let first = &verdict.limits[0];
    assert_eq!(first.lever, "jitter", "{}", verdict.text);
    let then = verdict::lifted(&scenario, first).expect("it was lifted");
    let shown = long_step(&then, 1);
    assert!((first.after / shown - 1.0).abs() < 1e-3, "{} and not {shown}", first.after);
    // What the run itself varies by makes the gain uncertain all the same.
    let [low, high] = first.gain_interval;
    assert!(high - low > 0.01, "{low} to {high}");
}

/// 32 jobs that read more from a server than its bandwidth, though their loaders' own work shows as well.
const FULL_SERVER: &str = r#"# How many jobs does this file server carry?
name = "full-server"
[run]
steps = 200
replications = 1
[cluster]
nodes = 48
node = { gpus = 1, cores = 16, memory = "64 GiB", page_cache = "none" }
network.nic = "10 Gbit/s"
[storage.server.file-server]
bandwidth = "2 GB/s"
latency = { lognormal = { median = "2 ms", p99 = "20 ms" } }
operations = "20000 /s"
[dataset.images]
samples = 1281167
sample_size = "110 kB"
[[job]]
name = "resnet"
copies = 32
dataset = "images"
storage = "server"
batch = 64
loader.pytorch = { workers = 8, decode = "6 ms" }
model.step = "80 ms"
"#;

#[test]
fn a_full_server_is_named_though_decoding_is_what_is_waited_for_last() {
    // System: transfers of 32 jobs use all of 2 GB/s. Expectation: the verdict names that bandwidth, as a limit or as
    // full, and nothing else before it.
    let (_, verdict) = judged(&written(FULL_SERVER, &[]));
    let limit = verdict.limits.first().is_some_and(|first| first.resource == "server.bandwidth");
    let full = verdict.limits.is_empty() && verdict.saturated == ["server.bandwidth"];
    assert!(limit || full, "{}", verdict.text);
    assert!(verdict.text.contains("bandwidth of `server`"), "{}", verdict.text);
}

#[test]
fn faults_that_a_short_run_did_not_reach_are_not_said_to_have_no_effect() {
    // System: a server that is slow from the second minute on. Expectation: short runs end before; without the fault they are
    // the same, which says nothing of it.
    let (_, verdict) = judged(&shipped("slow-server", &[]));
    assert!(!verdict.without_effect.iter().any(|name| name == "faults"), "{verdict:?}");
}

#[test]
fn short_runs_of_a_verdict_take_a_small_part_of_the_run() {
    // System: forty jobs whose server's operations bind. Expectation: that is found with a fifth of the run's own events.
    let scenario = case("t5", &[("job.copies", "40"), ("run.steps", "400")]);
    let (report, verdict) = judged(&scenario);
    let of = (verdict.events, report.events);
    assert!(of.1 > 5 * verdict::LEAST_BUDGET && of.0 * 5 < of.1, "{of:?}");
    assert_eq!(verdict.limits[0].lever, "operations", "{}", verdict.text);
}

#[test]
fn what_may_help_and_was_not_tried_is_named() {
    // System: the README's. Expectation: the server's latency, for which a verdict on a run of this length has no events
    // left, is named, and a run that is long enough tries it.
    let named = |run: &str| {
        let (_, verdict) =
            judged(&written(&MINE.replace("[cluster]", &format!("{run}[cluster]")), &[]));
        let latency = |name: &String| name.contains("latency");
        let tried = verdict.limits.iter().map(|limit| &limit.name).chain(&verdict.without_effect);
        (
            verdict.not_tried.iter().any(latency),
            tried.chain(&verdict.uncertain).any(latency),
            verdict,
        )
    };
    let (not_tried, tried, verdict) = named("");
    assert!(not_tried && !tried, "{verdict:?}");
    assert!(verdict.text.contains("not tried within the verdict's budget"), "{}", verdict.text);
    let (not_tried, tried, verdict) = named("[run]\nsteps = 4000\n");
    assert!(!not_tried && tried, "{verdict:?}");
}

/// Four GPUs that wait for eight workers, which wait for cores, and for a server.
const MINE: &str = r#"
name = "mine"
storage.nfs.file-server = { bandwidth = "1 GB/s", latency = "4 ms", operations = "5000 /s" }
dataset.images = { samples = 1281167, sample_size = "110 kB" }
[cluster]
nodes = 1
network.nic = "10 Gbit/s"
node = { gpus = 4, cores = 32, memory = "128 GiB", page_cache = "none" }
[[job]]
name = "resnet"
dataset = "images"
storage = "nfs"
batch = 64
loader.pytorch = { workers = 8, decode = { lognormal = { mean = "8 ms", cv = 0.5 } } }
model.step = "167 ms"
parallel.data.copies_per_node = 4
"#;
