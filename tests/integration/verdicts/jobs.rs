//! Verdicts on scenarios of several jobs.

use forebay::report::{Report, Verdict, choose_job, summarise, text};
use forebay::scenario::{Scenario, Stop};
use forebay::sim;
use forebay::verdict::{self, Options};

use crate::runs::{near, shipped, written};
use crate::support::Place;

/// Two jobs whose loaders of one worker each read samples of 100 kB from a server of 100 MB/s without latency: 50 MB/s for each
/// job, 32 ms for a batch of 16 that trains in 4 ms.
const SHARING: &str = r#"# Two jobs on one server
name = "sharing"
[run]
steps = 400
warm_up = 20
replications = 1
[cluster]
nodes = 2
node = { cores = 64, gpus = 1, page_cache = "none" }
network.nic = "10 GB/s"
[storage.s.file-server]
bandwidth = "100 MB/s"
[storage.t.file-server]
bandwidth = "50 MB/s"
[dataset.d]
samples = 1000000
sample_size = "100 kB"
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 16
model.step = "4 ms"
loader.pytorch = { workers = 1 }
[[job]]
name = "k"
dataset = "d"
storage = "s"
batch = 16
model.step = "4 ms"
loader.pytorch = { workers = 1 }
"#;

/// Returns the report, and all verdicts, with job number `job` chosen if there is one.
fn judged(scenario: &Scenario, job: Option<usize>) -> (Report, Vec<Verdict>) {
    let outcomes = [sim::run(scenario, 0, &sim::Options::default())];
    let mut report = summarise(scenario, &outcomes, 0.0);
    if let Some(job) = job {
        choose_job(&mut report, scenario, job);
    }
    let options = Options { others: true, ..Options::default() };
    let verdicts = verdict::find_all(scenario, &outcomes, &report, &options);
    (report, verdicts)
}

#[test]
fn a_verdict_says_how_a_lifted_limit_changes_other_jobs_on_the_same_server() {
    // System: each job gets half of a server of 100 MB/s. Expectation: with twice the bandwidth both jobs' steps take 16 ms. With two
    // workers, `j` has two of three streams, so its steps take 24 ms and those of `k` 48 ms.
    let (_, verdicts) = judged(&written(SHARING, &[]), Some(0));
    let limit = |lever: &str| {
        let found = verdicts[0].limits.iter().find(|limit| limit.lever == lever);
        found.unwrap_or_else(|| panic!("{lever}: {:#?}", verdicts[0]))
    };
    for (lever, own, other) in [("bandwidth", 0.016, 0.016), ("workers", 0.024, 0.048)] {
        let of = limit(lever);
        assert!((of.after / own - 1.0).abs() < 0.04, "{lever}: {of:?}");
        let [k] = &of.others[..] else { panic!("{lever}: {of:?}") };
        assert_eq!(k.job, "k");
        assert!((k.before / 0.032 - 1.0).abs() < 0.04, "{lever}: {k:?}");
        assert!((k.after / other - 1.0).abs() < 0.04, "{lever}: {k:?}");
    }
    let said = &verdicts[0].text;
    assert!(
        said.contains("bandwidth of `s`") && said.contains("`k` is then 100.0 % faster"),
        "{said}"
    );
}

#[test]
fn each_job_that_waits_has_a_verdict_on_its_own_limit() {
    // System: `j` reads from the server `s`, and `k` with 8 workers from the server `t` of 50 MB/s. Expectation: the verdict on one job
    // names its own server, a short one the other's; both are in the text, and all short runs together take fewer events than
    // allowed.
    let changes = [
        ("job.k.storage", "\"t\""),
        ("job.k.loader.pytorch.workers", "8"),
        ("job.j.loader.pytorch.workers", "8"),
    ];
    let scenario = written(SHARING, &changes);
    let (mut report, verdicts) = judged(&scenario, None);
    let found: Vec<(&str, &str)> =
        verdicts.iter().map(|of| (&*of.job, &*of.limits[0].resource)).collect();
    assert_eq!(found, [("k", "t.bandwidth"), ("j", "s.bandwidth")]);
    let events: u64 = verdicts.iter().map(|of| of.events).sum();
    assert!(
        events < report.events.max(verdict::LEAST_TOTAL),
        "{events} for a run of {}",
        report.events
    );
    assert!(!verdicts[1].text.contains('\n'), "{}", verdicts[1].text);
    verdict::put(&mut report, verdicts);
    let page = text::render(&report, 2000, false);
    assert!(
        page.contains("`j` waits") && page.contains("is limited by bandwidth of `s`"),
        "{page}"
    );
}

#[test]
fn the_needs_of_jobs_that_share_a_server_add_up() {
    // System: `j` takes 16 samples of 100 kB in 4 ms, `k` in 8 ms if they never wait: 400 and 200 MB/s. The server has 100 MB/s.
    // Expectation: both verdicts say 600 MB/s for both jobs, and each job's part; with 5 % more both keep their pace, with a tenth
    // less they do not. A job that reads elsewhere has no part.
    let many = |bandwidth: &str| {
        let bandwidth = format!("\"{bandwidth}\"");
        let changes = [
            ("storage.s.file-server.bandwidth", bandwidth.as_str()),
            ("job.k.model.step", "\"8 ms\""),
            ("job.loader.pytorch.workers", "16"),
        ];
        judged(&written(SHARING, &changes), None)
    };
    let (_, verdicts) = many("100 MB/s");
    for verdict in &verdicts {
        let need = verdict.needs.iter().find(|need| need.resource == "s.bandwidth");
        let need = need.unwrap_or_else(|| panic!("{verdict:#?}"));
        assert!((need.needed / 600e6 - 1.0).abs() < 0.04, "{need:?}");
        let parts: Vec<(&str, f64)> = need.by_job.iter().map(|of| (&*of.job, of.needed)).collect();
        let [("j", j), ("k", k)] = parts[..] else { panic!("{need:?}") };
        assert!((j / 400e6 - 1.0).abs() < 0.05 && (k / 200e6 - 1.0).abs() < 0.05, "{need:?}");
    }
    let said = &verdicts[0].text;
    assert!(said.contains("(now 100 MB/s) for all jobs: `j` "), "{said}");
    let steps = |bandwidth: &str| {
        let (report, _) = many(bandwidth);
        report.jobs.iter().map(|job| job.figures.step_time.mean.expect("steps")).collect::<Vec<_>>()
    };
    let enough = steps("630 MB/s");
    assert!(enough[0] < 4.1e-3 && enough[1] < 8.2e-3, "{enough:?}");
    let scarce = steps("540 MB/s");
    assert!(scarce[0] > 4.2e-3 || scarce[1] > 8.4e-3, "{scarce:?}");
}

#[test]
fn a_resource_inside_nodes_is_needed_by_its_own_job_only() {
    // System: loaders that need four cores on each node, which has two; the server is fast. Expectation: each job needs four cores, and
    // no sum is formed.
    let changes = [
        ("storage.s.file-server.bandwidth", "\"20 GB/s\""),
        ("cluster.node.cores", "2"),
        ("job.loader.pytorch.workers", "16"),
        ("job.loader.pytorch.decode", "\"1 ms\""),
    ];
    let (_, verdicts) = judged(&written(SHARING, &changes), None);
    assert_eq!(verdicts.len(), 2);
    for verdict in &verdicts {
        let cores = verdict.needs.iter().find(|need| need.resource == "node.cores");
        let cores = cores.unwrap_or_else(|| panic!("{verdict:#?}"));
        assert!(cores.by_job.is_empty() && (cores.needed / 4.0 - 1.0).abs() < 0.06, "{cores:?}");
    }
}

#[test]
fn a_verdict_is_about_the_time_while_all_jobs_run() {
    // System: `k` ends after 300 of 400 steps, so that `j` has the server for itself after that. Expectation: the verdict on `j`
    // is about the steps of 32 ms that `j` makes before `k` ends, and its text says that it holds while all jobs run.
    let (_, verdicts) = judged(&written(SHARING, &[("job.k.steps", "300")]), Some(0));
    near(verdicts[0].limits[0].before, 0.032, "before");
    assert!(verdicts[0].text.starts_with("While all jobs run: "), "{}", verdicts[0].text);
}

#[test]
fn run_with_a_job_name_gives_the_verdict_on_that_job() {
    // System: the job that loses most is `j`. Expectation: with `--job k` the answer and the verdict are about `k` alone, and an unknown
    // name is refused with the known ones.
    let place = Place::new();
    place.write("two.toml", &SHARING.replace("workers = 1 }\n[[job]]", "workers = 1 }\n\n[[job]]"));
    let run = |options: &[&str]| {
        place.forebay(&[&["run", "two.toml"][..], options].concat()).output().expect("a run")
    };
    let out = run(&["--job", "k", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(report["verdict"]["job"], "k");
    assert_eq!(report["bottleneck"]["job"], "k");
    assert!(report.get("other_verdicts").is_none());
    let page = String::from_utf8(run(&["--job", "k"]).stdout).expect("text");
    assert!(page.starts_with("sharing: `k` starves"), "{page}");
    let refused = run(&["--job", "kk"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && error.contains("--job kk: there is no such job"),
        "{error}"
    );
    assert!(error.contains("`k`"), "{error}");
}

#[test]
fn jobs_beyond_the_first_few_are_named_without_a_verdict() {
    // System: six equal jobs on one server. Expectation: a verdict, three short ones, and the names of two more jobs.
    let job = SHARING.split("[[job]]").nth(2).expect("a job");
    let more = ["l", "m", "n", "o"]
        .map(|name| format!("[[job]]{}", job.replace("\"k\"", &format!("\"{name}\""))));
    let text = SHARING.replace("nodes = 2", "nodes = 6") + &more.concat();
    let (_, verdicts) = judged(&written(&text, &[]), None);
    assert_eq!(verdicts.len(), 4);
    let last = &verdicts[3].text;
    assert!(last.contains("wait too: `--job NAME` gives the verdict on a job."), "{last}");
}

#[test]
fn waits_for_rare_checkpoints_are_judged_although_other_jobs_take_most_events() {
    // System: two busy readers, and a job of steps of 500 ms that writes a checkpoint for 5 s every 10 s, four in all. Expectation: its
    // verdict is from short runs with at least two of them: written aside, steps take 500 ms.
    let saver = "[[job]]\nname = \"saver\"\ndataset = \"d\"\nstorage = \"ram\"\nbatch = 8\nloader.in-memory = {}\n\
                 model.step = \"500 ms\"\ncheckpoint = { interval = \"10 s\", bytes = \"5 GB\", storage = \"t\" }\n";
    let ram = "[storage.ram.memory]\n[dataset.d]\nsamples = 100000\nsample_size = \"100 kB\"\n";
    let text = SHARING
        .replace("steps = 400\nwarm_up = 20", "duration = \"65 s\"")
        .replace("nodes = 2\n", "nodes = 3\n")
        .replace("page_cache = \"none\"", "memory = \"64 GB\", page_cache = \"none\"")
        .replace("bandwidth = \"50 MB/s\"", "bandwidth = \"1 GB/s\"")
        .replace("bandwidth = \"100 MB/s\"", "bandwidth = \"8 GB/s\"");
    let (before, after) = text.split_once("[dataset.d]").expect("a data set");
    let jobs = after.split_once("[[job]]").expect("jobs").1.replace("workers = 1", "workers = 8");
    let jobs = jobs.replace("batch = 16", "batch = 64");
    let text = format!("{before}{ram}[[job]]{jobs}{saver}");
    let (report, verdicts) = judged(&written(&text, &[]), Some(2));
    assert!(report.events > 1_000_000, "{}", report.events);
    let first = &verdicts[0].limits.first().unwrap_or_else(|| panic!("{}", verdicts[0].text));
    assert_eq!(first.lever, "checkpoint-aside", "{}", verdicts[0].text);
    near(first.after, 0.5, "after");
}

#[test]
fn a_chosen_job_that_has_completed_no_step_is_said_to_have_no_verdict() {
    // System: one step of `k` takes longer than the run. Expectation: the verdict that `--job k` gives says that it is on `j`.
    let place = Place::new();
    let slow = SHARING
        .rsplit_once("model.step = \"4 ms\"")
        .map(|(a, b)| format!("{a}model.step = \"1 h\"{b}"));
    place.write("s.toml", &slow.expect("two jobs"));
    let run =
        ["run", "s.toml", "--set", "run={ duration = \"10 s\", replications = 1 }", "--job", "k"];
    for kind in ["full", "quick"] {
        let out = place.forebay(&[&run[..], &["--verdict", kind]].concat()).assert().success();
        let page = String::from_utf8_lossy(&out.get_output().stdout);
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let told =
            "`k` has completed no step, so there is no verdict on it, and this one is on `j`";
        assert!(page.contains(told), "{kind}: {page}");
    }
}

#[test]
fn a_verdict_on_a_job_that_outlasts_others_is_about_the_time_after_them() {
    // System: `k` ends after 100 of the 400 steps of `j`; then `j` has the server of 100 MB/s for itself, and takes 16 ms a step, as the
    // steps of `k` took their half before. Expectation: the verdict's step time is 16 ms and not the average, and its text says when; with
    // a server of twice the bandwidth it is 8 ms.
    let changes = [("job.k.steps", "100"), ("job.j.steps", "400")];
    let (_, verdicts) = judged(&written(SHARING, &changes), Some(0));
    let long = verdicts[0].long_run.expect("the long run");
    assert!((long.step_time / 0.016 - 1.0).abs() < 0.02 && long.reached, "{long:?}");
    assert!(verdicts[0].text.starts_with("Once other jobs have ended: "), "{}", verdicts[0].text);
    let first = &verdicts[0].limits[0];
    assert!(first.lever == "bandwidth" && (first.after / 0.008 - 1.0).abs() < 0.03, "{first:?}");
}

#[test]
fn a_promise_for_the_time_after_other_jobs_does_not_depend_on_how_long_they_share_the_server() {
    // System: `k` with 16 workers shares the server during 200 of the 600 steps of `j`, whose only worker needs 3 ms for a sample when it is
    // alone. Expectation: twice the workers halve a step, as in a run in which `k` ends with its first step. In a trial of twice
    // the workers, `j` makes its first 200 steps while `k` still runs.
    let changes = [
        ("job.k.steps", "1600"),
        ("job.k.loader.pytorch.workers", "16"),
        ("job.j.steps", "600"),
        ("job.j.loader.pytorch.decode", "\"2 ms\""),
    ];
    let scenario = written(SHARING, &changes);
    let (_, verdicts) = judged(&scenario, Some(0));
    let text = &verdicts[0].text;
    assert!(text.starts_with("Once other jobs have ended: "), "{text}");
    let first = &verdicts[0].limits[0];
    let mut alone = verdict::lifted(&scenario, first).expect("it was lifted");
    alone.jobs[1].stop = Some(Stop::Steps(1));
    let (report, _) = judged(&alone, Some(0));
    let step = report.jobs[0].figures.step_time.mean.expect("steps");
    let [low, high] = first.after_interval;
    assert!(first.lever == "workers" && (low..=high).contains(&step), "{step}: {first:?}");
}

#[test]
fn trials_without_ended_jobs_say_nothing_of_other_jobs() {
    // System: `k` and `m` share a server, and `j` reads another one; `k` ends early, and the verdict is on `j` after that. Expectation:
    // no limit of `j` is said to change `m`, although `m` is faster in all trials, in which `k` is missing.
    let third = SHARING.rsplit_once("[[job]]").map(|(_, job)| format!("[[job]]{job}"));
    let third = third.expect("jobs").replace("\"k\"", "\"m\"").replace("\"s\"", "\"t\"");
    let text = SHARING.replace("nodes = 2", "nodes = 3") + &third;
    let text = text.replace(
        "name = \"k\"\ndataset = \"d\"\nstorage = \"s\"",
        "name = \"k\"\ndataset = \"d\"\nstorage = \"t\"",
    );
    let changes = [("job.k.steps", "30"), ("job.j.steps", "400"), ("job.m.steps", "2000")];
    let (_, verdicts) = judged(&written(&text, &changes), Some(0));
    let verdict = &verdicts[0];
    assert!(verdict.text.starts_with("Once other jobs have ended: "), "{}", verdict.text);
    assert!(verdict.limits.iter().all(|limit| limit.others.is_empty()), "{:?}", verdict.limits);
}

#[test]
fn a_fault_late_in_the_run_is_not_forgotten_when_other_jobs_end_early() {
    // System: `k` ends early; in the last three quarters of the run a fault slows the server to a hundredth. Expectation: the verdict
    // is on the whole run, with its step time, and not on a shorter one without the fault.
    let text = SHARING.replacen(
        "[run]",
        "fault = [{ storage = \"s\", factor = 0.01, from = \"4 s\", until = \"1 h\" }]\n[run]",
        1,
    );
    let (report, verdicts) =
        judged(&written(&text, &[("job.k.steps", "50"), ("job.j.steps", "400")]), Some(0));
    let step = report.jobs[0].figures.step_time.mean.expect("steps");
    let verdict = &verdicts[0];
    assert!(!verdict.text.starts_with("Once other jobs"), "{}", verdict.text);
    assert!(verdict.long_run.is_none_or(|long| long.step_time > step / 2.0), "{step} {verdict:?}");
}

#[test]
fn a_verdict_on_later_epochs_is_not_compared_with_a_run_that_ends_in_the_first() {
    // System: the shipped scenario in which `mounted-blob` fills a cache in its first epoch, and outlasts a job that is copied before
    // training. Expectation: the verdict's step time is that of later epochs to 2 %, although a run without the other job that takes the
    // events of 1.5 epochs hardly leaves the first.
    let scenario = shipped("adapters", &[("run.replications", "1")]);
    let (report, verdicts) = judged(&scenario, Some(1));
    let [first, later] = [&report.jobs[1].first_epoch, &report.jobs[1].later_epochs]
        .map(|of| of.as_ref().and_then(|of| of.step_time.mean).expect("a step time"));
    let found = verdicts[0].long_run.expect("a step time").step_time;
    assert!(first > 2.0 * later, "{first} {later}");
    assert!((found / later - 1.0).abs() < 0.02, "{found}, not {later}: {}", verdicts[0].text);
}
