//! Verdicts on scenarios of several jobs.

use forebay::report::{Limit, Report, Verdict, text};
use forebay::verdict::{self, Options};

use super::{FEW_EVENTS, all_judged, first, is, limit};
use crate::cases::report_of;
use crate::runs::{Case, near};
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

/// Returns the report and all verdicts, with job number `job` chosen if there is one.
fn judged(case: &Case, job: Option<usize>) -> (Report, Vec<Verdict>) {
    all_judged(case, job, &Options { others: true, ..FEW_EVENTS })
}

/// Returns the report and the verdict on job number `job`.
fn judged_alone(case: &Case, job: usize) -> (Report, Verdict) {
    let (report, mut verdicts) = all_judged(case, Some(job), &FEW_EVENTS);
    (report, verdicts.remove(0))
}

#[test]
fn a_verdict_says_how_a_changed_limit_changes_other_jobs_on_the_same_server() {
    // System: each job gets half of a server of 100 MB/s. Expectation: with twice the bandwidth both jobs' steps take 16 ms. With two
    // workers, `j` has two of three streams, so its steps take 24 ms and those of `k` 48 ms.
    let (_, verdict) = judged_alone(&Case::written(SHARING, &[]), 0);
    for (key, own, other) in
        [("file-server.bandwidth", 0.016, 0.016), ("pytorch.workers", 0.024, 0.048)]
    {
        let of = limit(&verdict, key);
        assert!((of.after / own - 1.0).abs() < 0.04, "{key}: {of:?}");
        let [k] = &of.others[..] else { panic!("{key}: {of:?}") };
        assert_eq!(k.job, "k");
        assert!((k.before / 0.032 - 1.0).abs() < 0.04, "{key}: {k:?}");
        assert!((k.after / other - 1.0).abs() < 0.04, "{key}: {k:?}");
    }
    let said = &verdict.text;
    assert!(
        said.contains("bandwidth of `s`") && said.contains("steps of `k` 50.0 % shorter"),
        "{said}"
    );
}

#[test]
fn each_job_that_waits_has_a_verdict_on_its_own_limit() {
    // System: `j` reads from the server `s`, and `k` with 8 workers from the server `t` of 50 MB/s. Expectation: the verdict on one job
    // names its own server, a short one the other's, and both are in the text.
    let changes = [
        ("job.k.storage", "\"t\""),
        ("job.k.loader.pytorch.workers", "8"),
        ("job.j.loader.pytorch.workers", "8"),
    ];
    let (mut report, verdicts) = judged(&Case::written(SHARING, &changes), None);
    let found: Vec<(&str, &str)> =
        verdicts.iter().map(|of| (&*of.job, &*of.limits[0].resource)).collect();
    assert_eq!(found, [("k", "t.bandwidth"), ("j", "s.bandwidth")]);
    assert!(!verdicts[1].text.contains('\n'), "{}", verdicts[1].text);
    verdict::put(&mut report, verdicts);
    let page = text::render(&report, 2000, false);
    assert!(
        page.contains("`j` waits") && page.contains("is limited by bandwidth of `s`"),
        "{page}"
    );
}

#[test]
fn the_need_of_a_job_counts_what_others_on_its_server_take() {
    // System: `j` takes 16 samples of 100 kB in 4 ms, `k` in 8 ms if they never wait: 400 and 200 MB/s. The server has 100 MB/s.
    // Expectation: `j` needs 600 MB/s, in steps of a fifth, and with the changes of its needs both keep their pace.
    let changes = [("job.k.model.step", "\"8 ms\""), ("job.loader.pytorch.workers", "16")];
    let case = Case::written(SHARING, &changes);
    let (_, verdict) = judged_alone(&case, 0);
    let need = verdict.needs.iter().find(|need| need.resource == "s.bandwidth");
    let need = need.unwrap_or_else(|| panic!("{verdict:#?}"));
    assert!((0.97..1.25).contains(&(need.needed / 600e6)), "{need:?}");
    let all: Vec<_> = verdict.needs.iter().flat_map(|need| need.changes.clone()).collect();
    let report = report_of(&case.followed(&all).scenario);
    let steps: Vec<f64> =
        report.jobs.iter().map(|job| job.figures.step_time.mean.expect("steps")).collect();
    assert!(steps[0] < 4.15e-3 && steps[1] < 8.3e-3, "{steps:?}");
}

#[test]
fn a_resource_inside_nodes_is_needed_by_its_own_job_only() {
    // System: loaders that need four cores on each node, which has two; the server is fast. Expectation: each job needs four cores, in
    // steps of a fifth, and not eight.
    let changes = [
        ("storage.s.file-server.bandwidth", "\"20 GB/s\""),
        ("cluster.node.cores", "2"),
        ("job.loader.pytorch.workers", "16"),
        ("job.loader.pytorch.decode", "\"1 ms\""),
    ];
    for job in [0, 1] {
        let (_, verdict) = judged_alone(&Case::written(SHARING, &changes), job);
        let cores = verdict.needs.iter().find(|need| need.resource == "node.cores");
        let cores = cores.unwrap_or_else(|| panic!("{verdict:#?}"));
        assert!((3.9..=5.0).contains(&cores.needed), "{cores:?}");
    }
}

#[test]
fn a_verdict_is_about_the_time_while_all_jobs_run() {
    // System: `k` ends after 300 of 400 steps, so that `j` has the server for itself after that. Expectation: the verdict on `j`
    // is about the steps of 32 ms that `j` makes before `k` ends.
    let (_, verdict) = judged_alone(&Case::written(SHARING, &[("job.k.steps", "300")]), 0);
    near(verdict.limits[0].before, 0.032, "before");
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
    let (_, verdicts) = judged(&Case::written(&text, &[]), None);
    assert_eq!(verdicts.len(), 4);
    let last = &verdicts[3].text;
    assert!(last.contains("wait too: `--job NAME` gives the verdict on a job."), "{last}");
}

#[test]
fn waits_for_rare_checkpoints_are_judged_although_other_jobs_take_most_events() {
    // System: two busy readers, and a job of steps of 500 ms that writes a checkpoint for 5 s every 10 s, four in all. Expectation:
    // written aside, steps take 500 ms.
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
    let (_, verdict) = judged_alone(&Case::written(&text, &[]), 2);
    let first = first(&verdict, "checkpoint.asynchronous");
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
        ["run", "s.toml", "--set", "run={ duration = \"1 s\", replications = 1 }", "--job", "k"];
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
fn limits_of_a_job_are_not_said_to_change_jobs_that_share_nothing_with_it() {
    // System: `k` and `m` share a server, and `j` reads another one; `k` ends early, and the verdict is on `j`. Expectation: no limit of
    // `j` is said to change `m`.
    let third = SHARING.rsplit_once("[[job]]").map(|(_, job)| format!("[[job]]{job}"));
    let third = third.expect("jobs").replace("\"k\"", "\"m\"").replace("\"s\"", "\"t\"");
    let text = SHARING.replace("nodes = 2", "nodes = 3") + &third;
    let text = text.replace(
        "name = \"k\"\ndataset = \"d\"\nstorage = \"s\"",
        "name = \"k\"\ndataset = \"d\"\nstorage = \"t\"",
    );
    let changes = [("job.k.steps", "30"), ("job.j.steps", "400"), ("job.m.steps", "2000")];
    let (_, verdict) = judged_alone(&Case::written(&text, &changes), 0);
    let own = |of: &&Limit| is(of, "file-server.bandwidth") || is(of, "pytorch.workers");
    assert!(verdict.limits.iter().any(|of| own(&of)), "{}", verdict.text);
    let mut limits = verdict.limits.iter().filter(own);
    assert!(limits.all(|limit| limit.others.is_empty()), "{:?}", verdict.limits);
}
