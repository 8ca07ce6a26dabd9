//! Cases about advice: what a verdict says to change, and what that brings in runs with the change.

use super::{judged, kept};
use crate::verdicts::{find, first, limit, thoroughly_judged};
use forebay::report::{Need, Verdict};
use forebay::scenario::OverrideText;

/// Returns the options that a limit or a need changes.
fn set(changes: &[OverrideText]) -> String {
    let each = changes.iter().map(|of| of.parse().expect("an override").pasted());
    each.collect::<Vec<_>>().join(" ")
}

/// Returns the need of this name.
#[track_caller]
fn need<'v>(verdict: &'v Verdict, name: &str) -> &'v Need {
    let found = verdict.needs.iter().find(|need| need.name == name);
    found.unwrap_or_else(|| panic!("no {name}: {}", verdict.text))
}

/// Checks that a value differs by at most this part from an expected one.
#[track_caller]
fn about(found: f64, expected: f64, part: f64, verdict: &Verdict) {
    assert!((found / expected - 1.0).abs() <= part, "{found}, not {expected}: {}", verdict.text);
}

#[test]
fn other_jobs_go_on_as_long_as_the_one_that_is_judged() {
    // System: forty jobs of ten steps on a server of 100 operations a second. Expectation: with twice the operations a step takes
    // 800 ms, not the few milliseconds that the last job's steps take once the others have ended.
    let (_, verdict) = judged("turn3/few-steps", &[]);
    let first = first(&verdict, "operations");
    about(first.after, 0.8, 0.01, &verdict);
}

#[test]
fn cores_of_a_group_are_advised_by_the_groups_own_key() {
    // System: a group of nodes with 10 cores beside nodes with 64. Expectation: the group's key, and not the one of the cluster.
    let (_, verdict) = judged("turn3/group-cores", &[("run.most", "100_000")]);
    let cores = limit(&verdict, "node.cores");
    assert_eq!(set(&cores.changes), "--set cluster.group.old.node.cores=20", "{}", verdict.text);
    assert!(!verdict.limits.iter().any(|of| of.key == "cluster.node.cores"), "{}", verdict.text);
}

#[test]
fn the_verdict_on_a_run_with_cold_caches_says_that_they_are_cold() {
    // System: 300 steps, less than an epoch, from a server whose files the page cache keeps. Expectation: the long run, in which
    // accelerators compute nearly all the time, and not the first steps, which wait for the server.
    let (report, verdict) = judged("turn3/cold", &[]);
    let long = verdict.long_run.expect("known");
    let asked = report.jobs[0].figures.step_time.mean.expect("steps");
    assert!(long.step_time < 0.8 * asked, "{asked}: {}", verdict.text);
    assert!(long.accelerator_utilisation > 0.95, "{}", verdict.text);
    assert!(verdict.text.contains("In the long run"), "{}", verdict.text);
}

#[test]
fn needs_beside_a_fault_are_nominal_amounts() {
    // System: a server of 1 GB/s that a fault slows to 600 MB/s. Expectation: 1.71 GB/s, of which the fault leaves what is needed; and no
    // workers.
    let (_, verdict) = judged("turn3/needs-fault", &[]);
    about(need(&verdict, "bandwidth of `s`").needed, 1.71e9, 0.06, &verdict);
    assert_eq!(verdict.needs.len(), 1, "{}", verdict.text);
}

#[test]
fn needs_name_the_cores_that_two_jobs_share() {
    // System: two jobs on 24 cores. Expectation: for the second one 19 workers, and 30 cores so that the first one is no slower.
    let (_, verdict) = judged("turn3/needs-shared-cores", &[]);
    about(need(&verdict, "loader workers").needed, 19.0, 0.12, &verdict);
    about(need(&verdict, "cores").needed, 30.0, 0.12, &verdict);
}

#[test]
fn restarts_that_cost_a_tenth_of_the_time_are_not_called_useless() {
    // System: 64 nodes that fail every four hours, restart in ten minutes and read 980 GB each from 60 GB/s. Expectation: a step is shorter
    // without failures and with half of them, the text says what they cost, and restarts, half of which save 2 %, are not called useless.
    let verdict = thoroughly_judged(&kept("turn3/failures-restart", &[("run.replications", "1")]));
    about(limit(&verdict, "job.failures").gain, 0.125, 0.3, &verdict);
    about(limit(&verdict, "failures.mtbf").gain, 0.065, 0.4, &verdict);
    assert!(verdict.text.contains("and failures 1"), "{}", verdict.text);
    let useless = "restarts after failures".to_owned();
    assert!(!verdict.without_effect.contains(&useless), "{verdict:?}");
}

#[test]
fn needs_of_tf_data_name_calls_apart_from_reads() {
    let (_, verdict) = judged("turn3/tfdata-needs", &[]);
    about(need(&verdict, "parallel reads of the loader").needed, 7.0, 0.15, &verdict);
    about(need(&verdict, "parallel calls of the loader").needed, 26.0, 0.1, &verdict);
}

#[test]
fn samples_out_of_order_are_advised_where_order_holds_up_a_loader() {
    // System: `tf.data` from an object store whose latency varies by ten times. Expectation: without order a step takes 50 ms.
    let (_, verdict) = judged("turn3/f3-order", &[("run.most", "1_000_000")]);
    let first = first(&verdict, "deterministic");
    about(first.after, 0.05, 0.01, &verdict);
}

#[test]
fn needs_of_cores_are_in_the_unit_of_the_file() {
    // System: four cores of two threads, which yield 1.25. Expectation: 8 cores, as the file counts them.
    let (_, verdict) = judged("turn3/smt-cores", &[]);
    let cores = find(&verdict, "node.cores").unwrap_or_else(|| panic!("{}", verdict.text));
    assert_eq!(set(&cores.changes), "--set cluster.node.cores=8");
    about(need(&verdict, "cores").needed, 8.0, 0.13, &verdict);
}

#[test]
fn advice_says_what_it_does_to_other_jobs() {
    // System: two jobs behind one NIC. Expectation: twice the workers of `a` make steps of `b` take 96 ms in place of 64.
    let (_, verdict) = judged("turn3/alone-hurts-other", &[]);
    let workers = limit(&verdict, "workers");
    let other = workers.others.iter().find(|of| of.job == "b").expect("an effect");
    about(other.after / other.before, 1.5, 0.05, &verdict);
    assert!(verdict.text.contains("(steps of `b` 49.5 % longer)"), "{}", verdict.text);
}

#[test]
fn a_longer_queue_of_keras_is_tried() {
    // System: ten batches in Keras' queue. Expectation: 20 give 40 ms a step.
    let (_, verdict) = judged("turn3/kq4", &[("run.replications", "1")]);
    let queue = limit(&verdict, "max_queue_size");
    assert_eq!(set(&queue.changes), "--set job.j.loader.keras.max_queue_size=20");
    about(queue.after, 0.04, 0.02, &verdict);
}

#[test]
fn faster_nics_are_advised_over_short_epochs() {
    // System: epochs of few steps, whose ends empty the loader. Expectation: twice the NICs save a third.
    let (_, verdict) = judged("turn3/short-epochs", &[("run.most", "1_000_000")]);
    let first = first(&verdict, "nic");
    about(first.gain, 0.33, 0.06, &verdict);
}

#[test]
fn fewer_exchanges_are_tried_by_both_of_their_keys() {
    // System: gradients exchanged over slow NICs in each step. Expectation: 727 ms a step with accumulation over two batches, 857 with
    // a period of two steps.
    let (_, verdict) = judged("turn3/timm-1659", &[]);
    about(limit(&verdict, "accumulation").after, 0.727, 0.03, &verdict);
    about(limit(&verdict, "period").after, 0.857, 0.03, &verdict);
}

#[test]
fn a_schedule_with_chunks_is_tried_with_its_number_of_chunks() {
    let (_, verdict) = judged("turn3/zb-21", &[]);
    let chunks = verdict.limits.iter().find(|of| set(&of.changes).ends_with("chunks=4"));
    let chunks = chunks.unwrap_or_else(|| panic!("{}", verdict.text));
    assert!(set(&chunks.changes).starts_with("--set job.gpt.parallel.pipeline.schedule="));
    about(chunks.after, 0.507, 0.01, &verdict);
}

#[test]
fn trials_of_averaging_last_beyond_their_transient() {
    // System: model copies that average over slow NICs. Expectation: about 700 ms with twice the NICs, as in long runs.
    let (_, verdict) = judged("turn3/elastic-verdict", &[]);
    about(limit(&verdict, "network.nic").after, 0.7, 0.02, &verdict);
}

#[test]
fn a_verdict_on_constant_times_rests_on_times_that_vary() {
    // System: workers in lockstep. Expectation: 143.8 ms a step if times vary by 5 %, in place of 204.8, which the text says.
    let verdict = thoroughly_judged(&kept("turn3/lockstep", &[("run.replications", "1")]));
    about(verdict.in_step.expect("in step"), 0.2048, 0.01, &verdict);
    about(verdict.long_run.expect("known").step_time, 0.1433, 0.02, &verdict);
    about(need(&verdict, "loader workers").needed, 30.0, 0.2, &verdict);
    assert!(verdict.text.contains("in step"), "{}", verdict.text);
}

#[test]
fn a_trial_starts_the_workers_of_each_epoch() {
    // System: a loader without workers. Expectation: a first worker, which starts in each epoch, gives 25.15 ms and not 20.
    let (_, verdict) = judged("turn3/restart0", &[]);
    let worker = limit(&verdict, "workers");
    assert!(set(&worker.changes).ends_with("workers=1"), "{}", verdict.text);
    about(worker.after, 0.02515, 0.03, &verdict);
}
