//! The verdict names the bottleneck, and its predicted step time without this limit matches a long run without
//! it.
//!
//! `checkpoints` and `failures`: jobs that write checkpoints or fail; `constructed`: scenarios constructed with one bottleneck;
//! `exchanges`: model copies that exchange gradients seldom; `faster_steps`: loaders that bind once steps are faster; `jobs`: several
//! jobs; `later_epochs`: jobs with caches; `levers`: what levers change; `needs`: amounts that a job needs; `next`: the limit behind the
//! first one; `random`: scenarios from a seeded generator, checked by long runs in which each limit is lifted in turn.

mod checkpoints;
mod constructed;
mod exchanges;
mod failures;
mod faster_steps;
mod jobs;
mod later_epochs;
mod levers;
mod needs;
mod next;
mod random;

use forebay::report::{Outcome, Report, Verdict, summarise};
use forebay::scenario::{Scenario, Stop};
use forebay::sim;
use forebay::verdict::{self, Options};

use super::cases::case;
use super::runs::{shipped, simulate, written};
use super::support::Place;

/// Returns the report and the verdict of a scenario.
pub(crate) fn judged(scenario: &Scenario) -> (Report, Verdict) {
    let options = sim::Options::default();
    let outcomes: Vec<Outcome> =
        (0..scenario.run.replications).map(|i| sim::run(scenario, i, &options)).collect();
    let report = summarise(scenario, &outcomes, 0.0);
    let verdict = verdict::find(scenario, &outcomes, &report, &Options::default());
    (report, verdict.expect("a step was completed"))
}

/// Returns the mean step time of the first job over a run `times` as long, after its first fifth [s].
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

/// Returns an error message if the prediction for the first limit is wrong, and `None` otherwise.
fn broken(scenario: &Scenario, verdict: &Verdict) -> Option<String> {
    let limit = verdict.limits.first()?;
    let then = verdict::lifted(scenario, limit).expect("it was lifted");
    let [low, high] = limit.after_interval;
    let shown = long_step(&then, 5);
    let kept = (low * 0.99..=high * 1.01).contains(&shown);
    (!kept).then(|| format!("{}: {shown} and not {low} to {high}", limit.name))
}

#[test]
fn only_a_full_verdict_lists_gains_from_lifting_bottlenecks() {
    // System: the sample scenario with a full and a quick verdict. Expectation: JSON and text have the same
    // verdict, and only lifted limits have a predicted gain.
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

/// Ranks that wait for the slowest rank in each step, whose time varies by half.
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
fn the_step_time_predicted_without_jitter_does_not_depend_on_random_numbers() {
    // System: ranks whose steps vary. Expectation: without jitter all steps take the same time, so that a short
    // run determines it exactly, whether its own random steps were faster or slower than those of the whole
    // run.
    let scenario = written(VARYING, &[]);
    let (_, verdict) = judged(&scenario);
    let first = &verdict.limits[0];
    assert_eq!(first.lever, "jitter", "{}", verdict.text);
    let then = verdict::lifted(&scenario, first).expect("it was lifted");
    let shown = long_step(&then, 1);
    assert!((first.after / shown - 1.0).abs() < 1e-3, "{} and not {shown}", first.after);
    // The variation of the run itself makes the gain uncertain nevertheless.
    let [low, high] = first.gain_interval;
    assert!(high - low > 0.01, "{low} to {high}");
}

/// 32 jobs that need more than a server's bandwidth, while their loaders' own work also causes stalls.
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
fn the_verdict_names_a_saturated_server_although_decoding_causes_stalls() {
    // System: transfers of 32 jobs use all of 2 GB/s. Expectation: the verdict names this bandwidth first, as a
    // limit or as saturated.
    let (_, verdict) = judged(&written(FULL_SERVER, &[]));
    let limit = verdict.limits.first().is_some_and(|first| first.resource == "server.bandwidth");
    let full = verdict.limits.is_empty() && verdict.saturated == ["server.bandwidth"];
    assert!(limit || full, "{}", verdict.text);
    assert!(verdict.text.contains("bandwidth of `server`"), "{}", verdict.text);
}

#[test]
fn faults_that_begin_after_the_trial_runs_are_not_reported_as_ineffective() {
    // System: a server that is slow from the second minute on. Expectation: the verdict's short runs end
    // before; since their outcome is the same without the fault, they give no information on its effect.
    let (_, verdict) = judged(&shipped("slow-server", &[]));
    assert!(!verdict.without_effect.iter().any(|name| name.contains("fault")), "{verdict:?}");
}

#[test]
fn verdict_trials_take_under_a_fifth_of_the_events_of_the_main_run() {
    // System: forty jobs limited by a server's operations. Expectation: the verdict finds this limit with a
    // fifth of the run's own events.
    let scenario = case("t5", &[("job.copies", "40"), ("run.steps", "400")]);
    let (report, verdict) = judged(&scenario);
    let of = (verdict.events, report.events);
    assert!(of.1 > 5 * verdict::LEAST_BUDGET && of.0 * 5 < of.1, "{of:?}");
    assert_eq!(verdict.limits[0].lever, "operations", "{}", verdict.text);
}

#[test]
fn all_verdicts_together_take_at_most_the_events_of_one_replication() {
    // System: scenarios of many jobs, of few steps, of cold caches, with a fault, whose buffers only drain, and with caches, failures and
    // a job that ends early. Expectation: verdicts on all jobs together take at most as many events as one replication, or the
    // minimum for all.
    let names =
        ["split-model", "mixture-of-experts", "jobs-on-cluster", "slow-server", "queue-runs-dry"];
    let all = names.into_iter().chain(["page-cache", "workflow", "weak-strong"]);
    let cached = ("caches and failures", written(CACHED, &[]));
    for (name, scenario) in all.map(|name| (name, shipped(name, &[]))).chain([cached]) {
        let outcomes = [simulate(&scenario)];
        let report = summarise(&scenario, &outcomes, 0.0);
        let options = Options { others: true, ..Options::default() };
        let verdicts = verdict::find_all(&scenario, &outcomes, &report, &options);
        let taken: u64 = verdicts.iter().map(|verdict| verdict.events).sum();
        let most = report.events.max(verdict::LEAST_TOTAL);
        assert!(taken <= most, "{name}: {taken} of {most}");
    }
}

#[test]
fn nothing_is_tried_if_step_times_vary_more_than_any_remedy_saves() {
    // System: a server at a tenth of its speed for a third of three minutes, so that the interval of the step time is wider than all
    // waits. Expectation: the verdict takes hardly any events, says why, and names what may help.
    let scenario = shipped("slow-server", &[]);
    let (report, verdict) = judged(&scenario);
    assert!(verdict.events * 50 < report.events, "{} of {}", verdict.events, report.events);
    assert!(verdict.text.contains("vary more than a trial could save"), "{}", verdict.text);
    assert!(verdict.not_tried.iter().any(|name| name == "bandwidth of `nas`"), "{verdict:?}");
}

#[test]
fn untried_remedies_are_named_in_the_verdict() {
    // System: the README's scenario on eight nodes. Expectation: less work of decoding, for which a verdict on a short run has no events
    // left, is named as not tried, and a longer run tries it.
    let named = |steps: u64| {
        let run = format!("[run]\nsteps = {steps}\n[cluster]");
        let text = MINE.replace("[cluster]", &run).replace("nodes = 1", "nodes = 8");
        let text = text.replace("batch = 64", "nodes = 8\nbatch = 64");
        let (_, verdict) = judged(&written(&text, &[]));
        let decoding = |name: &String| name.contains("decoding");
        let tried = verdict.limits.iter().map(|limit| &limit.name).chain(&verdict.without_effect);
        (
            verdict.not_tried.iter().any(decoding),
            tried.chain(&verdict.uncertain).any(decoding),
            verdict,
        )
    };
    let (not_tried, tried, verdict) = named(30);
    assert!(not_tried && !tried, "{verdict:?}");
    assert!(verdict.text.contains("not tried within the verdict's budget"), "{}", verdict.text);
    let (not_tried, tried, verdict) = named(60);
    assert!(!not_tried && tried, "{verdict:?}");
}

/// A job of two epochs that the page cache holds and that fails every few seconds, beside a job that ends early.
const CACHED: &str = r#"
name = "cached"
[run]
replications = 1
[cluster]
nodes = 2
node = { cores = 64, gpus = 1, memory = "64 GB", page_cache = { capacity = "20 GB", bandwidth = "10 GB/s" } }
network.nic = "10 GB/s"
[storage.s.file-server]
bandwidth = "100 MB/s"
[storage.c.memory]
[dataset.d]
samples = 75000
sample_size = "100 kB"
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 16
model.step = "4 ms"
epochs = 2
loader.pytorch = { workers = 2, decode = { gamma = { mean = "1 ms", cv = 3.0 } } }
failures = { mtbf = "5 s", restart = "100 ms" }
checkpoint = { steps = 20, bytes = "1 MB", storage = "c" }
[[job]]
name = "k"
dataset = "d"
storage = "s"
batch = 16
model.step = "4 ms"
steps = 1500
loader.pytorch = { workers = 1 }
"#;

/// Four GPUs that wait for eight workers, which in turn wait for cores and for a server.
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

#[test]
fn a_run_in_which_workers_finish_no_sample_has_a_verdict_on_the_long_run() {
    // System: queues that are full at the start, and a server whose answers take an hour; four model copies of a node take 256 samples in
    // each step, from 8 threads. Expectation: a step takes 32 rounds of an hour, and workers limit it.
    let changes = [("storage.hpctmp.file-server.latency", "\"1 h\""), ("run.steps", "20")];
    let (_, verdict) = judged(&shipped("queue-runs-dry", &changes));
    let long = verdict.long_run.expect("the long run");
    assert!(!long.reached && (long.step_time / (32.0 * 3600.0) - 1.0).abs() < 0.01, "{long:?}");
    assert_eq!(verdict.limits[0].lever, "workers", "{}", verdict.text);
}

#[test]
fn a_verdict_does_not_depend_on_when_a_prefilled_queue_runs_dry() {
    // System: queues of 40,000 samples, which four model copies take out in 156 steps of 256. Expectation: whether the run ends before
    // that, soon after it, or long after it, the verdict names loader workers, and the same step time within 3 %.
    let after = |steps: &str| {
        let (_, verdict) = judged(&shipped("queue-runs-dry", &[("run.steps", steps)]));
        assert_eq!(verdict.limits[0].lever, "workers", "{steps}: {}", verdict.text);
        verdict.limits[0].after
    };
    let soon = after("175");
    for steps in ["100", "160", "300"] {
        let now = after(steps);
        assert!((now / soon - 1.0).abs() < 0.03, "{steps}: {now} and {soon}");
    }
}

#[test]
fn a_run_with_prefilled_queues_and_checkpoints_is_judged_with_its_checkpoints() {
    // System: queues that are full at the start, and a checkpoint each 0.1 s. Expectation: the verdict says what checkpoints cost.
    let checkpoint = "{ interval = \"0.1 s\", bytes = \"10 MB\", storage = \"hpctmp\" }";
    let (_, verdict) = judged(&shipped("queue-runs-dry", &[("job.lenet.checkpoint", checkpoint)]));
    assert!(verdict.text.contains("Checkpoints cost `lenet`"), "{}", verdict.text);
}
