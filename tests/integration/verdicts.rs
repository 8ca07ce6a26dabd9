//! The verdict names the bottleneck, and its predicted step time without this limit matches a long run without
//! it.
//!
//! `checkpoints` and `failures`: jobs that write checkpoints or fail; `constructed`: scenarios constructed with one bottleneck;
//! `exchanges`: model copies that exchange gradients seldom; `faster_steps`: loaders that bind once steps are faster; `jobs`: several
//! jobs; `later_epochs`: jobs with caches; `levers`: what is not advised; `needs`: amounts that a job needs; `next`: the limit behind
//! the first one; `random`: scenarios from a seeded generator, checked by long runs in which each limit is lifted in turn.

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

use forebay::report::{Limit, Report, Verdict, choose_job, json, summarise};
use forebay::scenario::{Scenario, Stop};
use forebay::sim;
use forebay::verdict::{self, Machines, Options};

use super::runs::Case;
use super::support::Place;

/// Verdicts on small systems, which need few events.
pub(crate) const FEW_EVENTS: Options = Options {
    machines: Machines { drawn: &[], spread: 0.0 },
    draws: &[],
    quick: false,
    others: false,
    stop: None,
    collectives: None,
    least_events: Some(2_500_000),
    told: None,
    late: None,
};

/// Returns the report and the verdict of a case.
pub(crate) fn judged(case: &Case) -> (Report, Verdict) {
    let (report, mut verdicts) = all_judged(case, None, &FEW_EVENTS);
    assert!(verdicts.len() == 1, "a step was completed");
    (report, verdicts.remove(0))
}

/// Returns the verdict of a case that needs as many events as a user's verdict has.
pub(crate) fn thoroughly_judged(case: &Case) -> Verdict {
    all_judged(case, None, &Options::default()).1.remove(0)
}

/// Returns the report and all verdicts of a case, with job number `job` chosen if there is one.
fn all_judged(case: &Case, job: Option<usize>, options: &Options) -> (Report, Vec<Verdict>) {
    let scenario = &case.scenario;
    let of = sim::Options::default();
    let outcomes: Vec<_> =
        (0..scenario.run.replications).map(|i| sim::run(scenario, i, &of)).collect();
    let mut report = summarise(scenario, &outcomes, 0.0);
    if let Some(job) = job {
        choose_job(&mut report, scenario, job);
    }
    let verdicts = verdict::find_all(case.source(), (scenario, &outcomes, &report), options);
    (report, verdicts)
}

/// Returns whether the path of a limit's key in the schema is `key`, or ends with it.
pub(crate) fn is(limit: &Limit, key: &str) -> bool {
    limit.lever.strip_suffix(key).is_some_and(|above| above.is_empty() || above.ends_with('.'))
}

/// Returns the first limit whose key ends like this.
pub(crate) fn find<'v>(verdict: &'v Verdict, key: &str) -> Option<&'v Limit> {
    verdict.limits.iter().find(|limit| is(limit, key))
}

/// Returns the first limit whose key ends like this.
#[track_caller]
pub(crate) fn limit<'v>(verdict: &'v Verdict, key: &str) -> &'v Limit {
    find(verdict, key).unwrap_or_else(|| panic!("no {key}: {}", verdict.text))
}

/// Checks that the key of the first limit ends like this, and returns the limit.
#[track_caller]
pub(crate) fn first<'v>(verdict: &'v Verdict, key: &str) -> &'v Limit {
    let first = verdict.limits.first().unwrap_or_else(|| panic!("no limit: {}", verdict.text));
    assert!(is(first, key), "{}, not {key}: {}", first.lever, verdict.text);
    first
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
fn broken(case: &Case, verdict: &Verdict) -> Option<String> {
    let limit = verdict.limits.first()?;
    let [low, high] = limit.after_interval;
    let shown = long_step(&case.followed(&limit.changes).scenario, 5);
    let kept = (low * 0.98..=high * 1.02).contains(&shown);
    (!kept).then(|| format!("{}: {shown} and not {low} to {high}", limit.name))
}

/// Returns the largest number of events that a verdict may take on a run of this number.
fn most_events(run: u64) -> u64 {
    verdict::LEAST_EVENTS.max(20 * run)
}

#[test]
fn only_a_full_verdict_lists_gains_from_changing_limits() {
    // System: the sample scenario with a full and a quick verdict. Expectation: JSON and text have the same
    // verdict, and only limits that were changed have a predicted gain.
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

#[test]
fn a_time_limit_ends_the_trials_and_the_report_says_so() {
    // System: the sample scenario. Expectation: without time the verdict is an estimate that names the option; with more than it takes,
    // the report is the same as without the option.
    let place = Place::new();
    let shown = |options: &[&str]| {
        let run = [&["run", "s.toml", "-q"][..], options].concat();
        let out = place.forebay(&run).assert().success();
        String::from_utf8_lossy(&out.get_output().stdout).into_owned()
    };
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let none = words(&shown(&["--verdict-time", "0 s"]));
    assert!(none.contains("`--verdict-time` ended before the first trial"), "{none}");
    let verdict = |options: &[&str]| shown(options).split("\n\n").next().map(str::to_owned);
    assert_eq!(verdict(&["--verdict-time", "10 min"]), verdict(&[]));
    let wrong = place.forebay(&["run", "s.toml", "--verdict-time", "30"]).assert().code(2);
    let said = String::from_utf8_lossy(&wrong.get_output().stderr).into_owned();
    assert!(said.contains("--verdict-time") && said.contains("a time needs a unit"), "{said}");
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
    let case = Case::written(VARYING, &[]);
    let (_, verdict) = judged(&case);
    let without = limit(&verdict, "job.model.jitter");
    let shown = long_step(&case.followed(&without.changes).scenario, 1);
    assert!((without.after / shown - 1.0).abs() < 1e-3, "{} and not {shown}", without.after);
    // The variation of the run itself makes the gain uncertain nevertheless.
    let [low, high] = without.gain_interval;
    assert!(high - low > 0.01, "{low} to {high}");
}

/// Eight jobs that need more than a server's bandwidth, while their loaders' own work also causes stalls.
const FULL_SERVER: &str = r#"# How many jobs does this file server carry?
name = "full-server"
[run]
steps = 100
replications = 1
[cluster]
nodes = 8
node = { gpus = 1, cores = 16, memory = "64 GiB", page_cache = "none" }
network.nic = "10 Gbit/s"
[storage.server.file-server]
bandwidth = "500 MB/s"
latency = { lognormal = { median = "2 ms", p99 = "20 ms" } }
operations = "5000 /s"
[dataset.images]
samples = 1281167
sample_size = "110 kB"
[[job]]
name = "resnet"
copies = 8
dataset = "images"
storage = "server"
batch = 64
loader.pytorch = { workers = 8, decode = "6 ms" }
model.step = "80 ms"
"#;

#[test]
fn the_verdict_names_a_saturated_server_although_decoding_causes_stalls() {
    // System: transfers of eight jobs use all of 500 MB/s. Expectation: the verdict names this bandwidth first.
    let (_, verdict) = judged(&Case::written(FULL_SERVER, &[]));
    let first = first(&verdict, "file-server.bandwidth");
    assert_eq!(first.resource, "server.bandwidth");
    assert!(verdict.text.contains("bandwidth of `server`"), "{}", verdict.text);
}

#[test]
fn a_fault_of_a_part_of_the_run_is_not_reported_as_ineffective() {
    // System: a server that is slow from the second minute on, and a GPU of another job. Expectation: some fault helps, or may help.
    let (_, verdict) = judged(&Case::shipped("slow-server", &[("job.single.copies", "2")]));
    let mut known = verdict.limits.iter().map(|limit| &limit.name).chain(&verdict.uncertain);
    assert!(known.any(|name| name.contains("fault")), "{verdict:?}");
}

#[test]
fn a_verdict_takes_at_most_the_events_of_twenty_base_runs() {
    // System: a job of few events, and eight whose run takes as many as a verdict may always take. Expectation: verdicts keep to the
    // larger of that number and twenty times the events of the run.
    for case in [Case::written(VARYING, &[("run.steps", "200")]), Case::written(FULL_SERVER, &[])] {
        let (report, verdict) = judged(&case);
        let most = most_events(report.events);
        assert!(verdict.events <= most, "{} of {most}: {}", verdict.events, verdict.text);
    }
}

#[test]
fn a_verdict_does_not_depend_on_the_number_of_threads() {
    // System: a job with several limits, and one on a server with others. Expectation: 1 and 4 threads find the same bytes.
    let shared = [("job.copies", "4"), ("run.steps", "40")];
    for case in [Case::written(MINE, &[("run.steps", "60")]), Case::written(FULL_SERVER, &shared)] {
        let [one, four] = [1, 4].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let (mut report, verdict) = pool.expect("threads").install(|| judged(&case));
            verdict::put(&mut report, vec![verdict]);
            json::render(&report)
        });
        assert_eq!(one, four);
    }
}

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

/// A change that leaves few copies of the job of `queue-runs-dry`.
const FEW: (&str, &str) = ("job.lenet.copies", "2");

#[test]
fn a_run_in_which_workers_finish_no_sample_has_a_verdict_on_the_long_run() {
    // System: queues that are full at the start, and a server whose answers take an hour; four model copies of a node take 256 samples in
    // each step, from 8 threads. Expectation: a step takes 32 rounds of an hour, and workers limit it.
    let changes = [("storage.hpctmp.file-server.latency", "\"1 h\""), ("run.steps", "20"), FEW];
    let (_, verdict) = judged(&Case::shipped("queue-runs-dry", &changes));
    let long = verdict.long_run.expect("the long run");
    assert!((long.step_time / (32.0 * 3600.0) - 1.0).abs() < 0.01, "{long:?}");
    first(&verdict, "tf-queue.threads");
}

#[test]
fn a_verdict_does_not_depend_on_when_a_prefilled_queue_runs_dry() {
    // System: queues of 40,000 samples, which four model copies take out in 156 steps of 256. Expectation: whether the run ends before
    // that, soon after it, or long after it, the verdict names loader workers, and the same step time within 3 %.
    let after = |steps: &str| {
        let (_, verdict) = judged(&Case::shipped("queue-runs-dry", &[("run.steps", steps), FEW]));
        first(&verdict, "tf-queue.threads").after
    };
    let soon = after("175");
    for steps in ["100", "160", "300"] {
        let now = after(steps);
        assert!((now / soon - 1.0).abs() < 0.03, "{steps}: {now} and {soon}");
    }
}

#[test]
fn a_run_with_prefilled_queues_and_checkpoints_is_judged_with_its_checkpoints() {
    // System: queues that are full at the start, and a checkpoint each 0.1 s. Expectation: the step time of the verdict is that of the run
    // after queues have run dry, with its checkpoints.
    let checkpoint = "{ interval = \"0.1 s\", bytes = \"10 MB\", storage = \"hpctmp\" }";
    let case = Case::shipped("queue-runs-dry", &[("job.lenet.checkpoint", checkpoint), FEW]);
    let (_, verdict) = judged(&case);
    let found = verdict.long_run.expect("the long run").step_time;
    let long = long_step(&case.with(&[("run.steps", "1200")]).scenario, 1);
    assert!((found / long - 1.0).abs() < 0.03, "{found}, not {long}: {}", verdict.text);
}
