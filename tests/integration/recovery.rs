//! Failures of nodes and checkpoints: their costs, and that no sample is lost or trained on twice.

use forebay::law::RecoveryLaw;
use forebay::report::{Cause, JobOutcome, StallCause, summarise};
use forebay::scenario::{Override, Scenario, ScenarioFile};
use forebay::sim::{Options, run};

use super::base::{base, changed};
use super::runs::simulate;

/// Data in memory and no decoding: each step takes 1 s.
const FED: [(&str, &str); 4] = [
    ("storage.s", "{ memory = {} }"),
    ("job.loader.tf-queue.decode", "\"0 s\""),
    ("job.model.step", "\"1 s\""),
    ("run.steps", "600"),
];

/// A file server for checkpoints at 100 MB/s.
const SERVER: (&str, &str) = ("storage.c", "{ file-server = { bandwidth = \"100 MB/s\" } }");

pub(crate) fn fed(changes: &[(&str, &str)]) -> Scenario {
    changed(&[&FED[..], &[SERVER], changes].concat())
}

pub(crate) fn job(scenario: &Scenario) -> JobOutcome {
    simulate(scenario).jobs.remove(0)
}

pub(crate) fn end(job: &JobOutcome) -> f64 {
    job.steps.last().expect("a step").end
}

pub(crate) fn stalled(job: &JobOutcome, cause: Cause) -> f64 {
    let of = job.stalls.iter().filter(|stall| stall.cause == StallCause::own(cause));
    of.map(|stall| stall.seconds).sum()
}

/// Checks that every instant of every step has one cause, and that all samples are accounted for.
#[track_caller]
pub(crate) fn assert_whole(job: &JobOutcome) {
    let mut start = job.start;
    for (index, step) in job.steps.iter().enumerate() {
        let of = job.stalls.iter().filter(|stall| stall.step as usize == index);
        let sum = step.compute + of.map(|stall| stall.seconds).sum::<f64>();
        assert!((sum - (step.end - start)).abs() < 1e-9 * step.end, "step {index}: {sum}");
        start = step.end;
    }
    let of = job.samples;
    assert_eq!(of.started, of.enqueued + of.in_progress + of.dropped, "{of:?}");
    let taken = of.dequeued + of.overwritten + of.left + of.cleared;
    assert_eq!(job.queue.initial + of.enqueued, taken, "{of:?}");
}

#[track_caller]
pub(crate) fn assert_near(value: f64, expected: f64, tolerance: f64) {
    assert!((value / expected - 1.0).abs() <= tolerance, "{value} instead of {expected}");
}

pub(crate) const EVERY_100: (&str, &str) =
    ("job.checkpoint", r#"{ interval = "100 s", bytes = "500 MB", storage = "c" }"#);

#[test]
fn a_failure_costs_the_lost_work_and_the_restart() {
    // System: 600 steps of 1 s, checkpoints of 5 s, one failure at 250 s, restart in 30 s. Expectation: the
    // second checkpoint was complete at 210 s, so that 40 s are lost; the next is due 100 s after the restart.
    let failure = ("job.failures", r#"{ at = ["250 s"], restart = "30 s" }"#);
    let found = job(&fed(&[EVERY_100, failure]));
    let recovery = found.recovery.expect("failures");
    assert_eq!(recovery.failures, 1);
    assert_near(recovery.lost_seconds, 40.0, 1e-3);
    assert_near(recovery.down_seconds, 30.0, 1e-3);
    assert_near(stalled(&found, Cause::Fault), 70.0, 1e-3);
    assert_near(end(&found), 625.0 + 70.0, 1e-4);
    assert_eq!(found.steps.len(), 600);
    assert_whole(&found);
    // Without a checkpoint all work is lost; a later failure costs more; another failure while the job is down
    // costs only time.
    let of = |settings: &str| job(&fed(&[("job.failures", settings)]));
    assert_near(end(&of(r#"{ at = ["250 s"], restart = "30 s" }"#)), 600.0 + 280.0, 1e-4);
    assert_near(end(&of(r#"{ at = ["350 s"], restart = "30 s" }"#)), 600.0 + 380.0, 1e-4);
    let twice = of(r#"{ at = ["250 s", "260 s"], restart = "30 s" }"#);
    assert_near(end(&twice), 600.0 + 290.0, 1e-4);
    assert_eq!(twice.recovery.expect("failures").failures, 2);
    assert_whole(&twice);
}

#[test]
fn an_unfinished_checkpoint_is_not_used_for_recovery() {
    // System: the same steps; checkpoints are written in 50 s beside the training. Expectation: a checkpoint
    // begun at 100 s counts for a failure at 160 s, but not for one at 140 s, which loses all work.
    let checkpoint = r#"{ steps = 100, bytes = "5 GB", storage = "c", asynchronous = true }"#;
    let lost = |at: &str| {
        let failures = format!("{{ at = [\"{at}\"], restart = \"10 s\" }}");
        let changes = [("job.checkpoint", checkpoint), ("job.failures", failures.as_str())];
        let found = job(&fed(&changes));
        assert_whole(&found);
        found.recovery.expect("failures").lost_seconds
    };
    assert_near(lost("140 s"), 140.0, 1e-3);
    assert_near(lost("160 s"), 60.0, 1e-3);
}

/// Two epochs of 992 samples that are read and decoded, with failures in both.
const EPOCHS: [(&str, &str); 5] = [
    ("run", "{ epochs = 2, warm_up = \"off\", replications = 1 }"),
    ("storage.c", "{ file-server = { bandwidth = \"100 MB/s\" } }"),
    ("job.checkpoint", r#"{ steps = 10, bytes = "100 kB", storage = "c" }"#),
    ("dataset.d.samples", "992"),
    ("job.failures", r#"{ at = ["80 ms", "240 ms", "700 ms"], restart = "50 ms" }"#),
];

#[test]
fn resuming_at_the_checkpoint_position_loses_and_repeats_no_sample() {
    // System: loaders of several kinds, batches of 16, 62 of them in an epoch. Expectation: the counted steps
    // train on each epoch's samples once, and samples that a loader reads again were dropped before.
    let pytorch = ("job.loader", r#"{ pytorch = { workers = 3, decode = "500 us" } }"#);
    let keras = ("job.loader", r#"{ keras = { workers = 3, decode = "500 us" } }"#);
    let ordered = r#"{ stages = [
        { name = "read", workers = 3, per_sample = ["read"], buffer = 8, order = "in-order" },
        { name = "decode", workers = 4, per_sample = [{ decode = "500 us" }], buffer = 64 }] }"#;
    let shards = r#"{ shards = { samples = 100, request = "100 kB" } }"#;
    let cases: [&[(&str, &str)]; 8] = [
        &[],
        &[pytorch],
        &[keras],
        &[("job.loader", ordered)],
        &[("dataset.d.layout", shards)],
        &[pytorch, ("job.nodes", "2")],
        &[("job.nodes", "2"), ("job.parallel.data.copies_per_node", "2")],
        &[("job.batch_interval", "3")],
    ];
    for case in cases {
        let scenario = changed(&[&EPOCHS[..], case].concat());
        let (failing, plain) = (job(&scenario), {
            let mut scenario = scenario.clone();
            scenario.jobs[0].failures = None;
            job(&scenario)
        });
        let recovery = failing.recovery.expect("failures");
        assert!(recovery.failures >= 2 && recovery.lost_seconds > 0.0, "{case:?}: {recovery:?}");
        let counts = |job: &JobOutcome| -> Vec<(u64, u64)> {
            job.steps.iter().map(|step| (step.samples, step.fresh)).collect()
        };
        assert_eq!(counts(&failing), counts(&plain), "{case:?}");
        let fresh: u64 = failing.steps.iter().map(|step| step.fresh).sum();
        assert_eq!(fresh, 2 * 992, "{case:?}");
        assert!(end(&failing) > end(&plain) + 0.05 * recovery.failures as f64, "{case:?}");
        assert_whole(&failing);
    }
}

#[test]
fn resuming_at_the_start_of_the_epoch_repeats_samples() {
    // System: 62 steps in an epoch; a failure in the first, after the checkpoint of step 20. Expectation: with
    // `resume = "epoch"` these 20 steps are repeated and are not fresh; the epochs are complete nevertheless.
    let pytorch = ("job.loader", r#"{ pytorch = { workers = 3, decode = "500 us" } }"#);
    for loader in [&[][..], &[pytorch]] {
        let of = |resume: &str| {
            let failures =
                format!("{{ at = [\"170 ms\"], restart = \"50 ms\", resume = \"{resume}\" }}");
            let more = [("job.failures", failures.as_str())];
            job(&changed(&[&EPOCHS[..4], &more, loader].concat()))
        };
        let (position, epoch) = (of("position"), of("epoch"));
        assert_eq!(position.steps.len(), 124);
        let again = epoch.steps.len() - 124;
        assert!(again >= 10 && again.is_multiple_of(10), "{again} steps again");
        let stale: u64 = epoch.steps.iter().map(|step| step.samples - step.fresh).sum();
        assert_eq!(stale, 16 * again as u64);
        let fresh: u64 = epoch.steps.iter().map(|step| step.fresh).sum();
        assert_eq!(fresh, 2 * 992);
        assert!(end(&epoch) > end(&position));
        assert_whole(&epoch);
    }
}

#[test]
fn a_failure_aborts_gradients_in_flight() {
    // System: two nodes that reduce gradients, or send them to a root and parameters back, for a good part of
    // each step, and fail repeatedly in the middle of it. Expectation: all steps are done, at the usual pace
    // between failures.
    let layers = "tensors = 4, backward = 0.5, buffers = \"per-layer\"";
    let syncs = [
        r#"{ allreduce = { gradients = "5 GB" } }"#.to_owned(),
        r#"{ allreduce = { gradients = "5 GB", fidelity = "analytic" } }"#.to_owned(),
        r#"{ reduce-broadcast = { parameters = "2 GB" } }"#.to_owned(),
        r#"{ reduce-broadcast = { parameters = "2 GB", update = "300 ms" } }"#.to_owned(),
        format!("{{ reduce-broadcast = {{ parameters = \"2 GB\", {layers} }} }}"),
    ];
    for sync in &syncs {
        let changes = [
            ("job.nodes", "2"),
            ("job.sync", sync.as_str()),
            ("run.steps", "100"),
            ("job.checkpoint", r#"{ steps = 10, bytes = "1 MB", storage = "c" }"#),
        ];
        let plain = job(&fed(&changes));
        assert!(end(&plain) > 110.0, "{sync}: {} s", end(&plain));
        for at in [r#""20.3 s", "61.9 s", "90 s""#, r#""30.1 s", "61.2 s", "88.6 s""#] {
            let failures = format!("{{ at = [{at}], restart = \"10 ms\" }}");
            let more = [("job.failures", failures.as_str())];
            let failing = job(&fed(&[&changes[..], &more].concat()));
            assert_eq!((plain.steps.len(), failing.steps.len()), (100, 100), "{sync}");
            let recovery = failing.recovery.expect("failures");
            let expected = end(&plain) + recovery.lost_seconds + recovery.down_seconds;
            assert_near(end(&failing), expected, 1e-3);
            assert_near(recovery.down_seconds, 0.03, 1e-6);
            assert_whole(&failing);
        }
    }
}

#[test]
fn random_failures_lose_no_sample_with_any_loader() {
    // System: epochs with three loaders on one to three nodes, with failures at any time, in bursts too, with
    // synchronous or asynchronous checkpoints. Expectation: as many fresh samples as without failures, every
    // instant of a step has its cause, and all samples are accounted for.
    let loaders = [
        r#"{ pytorch = { workers = 2, decode = { gamma = { mean = "500 us", cv = 0.5 } } } }"#,
        r#"{ tf-queue = { threads = 5, capacity = "64 samples", decode = "300 us" } }"#,
        r#"{ stages = [
            { name = "read", workers = 3, per_sample = ["read"], buffer = 32, order = "in-order" },
            { name = "batch", workers = 2, unit = "batch", per_item = [{ compute = "1 ms" }],
              buffer = 2, order = "in-order" }] }"#,
    ];
    for case in 0..60 {
        let seed = case.to_string();
        let nodes = (1 + case % 3).to_string();
        let checkpoint = format!(
            "{{ steps = {}, bytes = \"{} MB\", storage = \"c\", asynchronous = {} }}",
            1 + case % 7,
            case % 5 + 1,
            case % 2 == 0
        );
        let failures = format!(
            "{{ mtbf = \"{} ms\", shape = {}, restart = \"{} ms\", resume = \"{}\" }}",
            400 + 150 * (case % 4),
            [0.7, 1.0, 3.0][case % 3],
            case % 4 * 7,
            if case % 4 == 3 { "epoch" } else { "position" }
        );
        let changes = [
            ("run", "{ epochs = 2, warm_up = \"off\", replications = 1 }"),
            ("run.seed", seed.as_str()),
            ("storage.c", "{ file-server = { bandwidth = \"1 GB/s\" } }"),
            ("dataset.d.samples", "960"),
            ("job.loader", loaders[case / 3 % 3]),
            ("job.nodes", nodes.as_str()),
            ("job.checkpoint", checkpoint.as_str()),
            ("job.failures", failures.as_str()),
        ];
        let found = simulate(&changed(&changes)).whole();
        let Ok(mut outcome) = found else { panic!("{case}: {changes:?}") };
        let found = outcome.jobs.remove(0);
        let fresh: u64 = found.steps.iter().map(|step| step.fresh).sum();
        assert_eq!(fresh, 2 * 960, "{case}: {changes:?}");
        assert_whole(&found);
    }
}

#[test]
fn mean_run_time_with_random_failures_matches_the_formula_of_daly() {
    // System: 20,000 steps of 1 s on two nodes that fail every 2,000 s each, so that the job fails every 1,000
    // s; 5 s to write a checkpoint, 20 s to restart. Expectation: J. T. Daly (2006), M e^(R/M) (e^((τ+δ)/M) −
    // 1) T/τ, to 2 % (600 failures have a standard error of 1 %).
    for interval in [40.0, 100.0, 300.0] {
        let checkpoint =
            format!(r#"{{ interval = "{interval} s", bytes = "500 MB", storage = "c" }}"#);
        let scenario = fed(&[
            ("run.steps", "20000"),
            ("job.nodes", "2"),
            ("job.batch", "1"),
            ("job.checkpoint", checkpoint.as_str()),
            ("job.failures", r#"{ mtbf = "2000 s", restart = "20 s" }"#),
        ]);
        let ends = (0..24).map(|r| {
            let found = run(&scenario, r, &Options::default()).jobs.remove(0);
            assert_eq!(found.steps.len(), 20_000);
            end(&found)
        });
        let mean = ends.sum::<f64>() / 24.0;
        let law = RecoveryLaw { mtbf: 1000.0, checkpoint: 5.0, restart: 20.0 };
        assert_near(mean, law.expected_time(20_000.0, interval), 0.02);
    }
}

#[test]
fn failure_rate_restart_time_and_weibull_shape_change_the_run_time() {
    let of = |failures: &str| {
        let scenario = fed(&[
            ("run.steps", "5000"),
            ("job.checkpoint", r#"{ interval = "100 s", bytes = "500 MB", storage = "c" }"#),
            ("job.failures", failures),
        ]);
        let ends = (0..8).map(|r| end(&run(&scenario, r, &Options::default()).jobs[0]));
        ends.sum::<f64>() / 8.0
    };
    let often = of(r#"{ mtbf = "500 s", restart = "20 s" }"#);
    let seldom = of(r#"{ mtbf = "5000 s", restart = "20 s" }"#);
    let slow = of(r#"{ mtbf = "500 s", restart = "60 s" }"#);
    assert!(seldom > 5245.0 && often > 1.05 * seldom && slow > 1.04 * often, "{seldom} {often}");
    // With shape 20, the failure rate rises steeply with age: a failure hardly comes before half of the 500 s, so
    // that a checkpoint exists by then.
    let aged = of(r#"{ mtbf = "500 s", restart = "20 s", shape = 20 }"#);
    assert!((aged / often - 1.0).abs() > 0.002, "{aged} {often}");
}

#[test]
fn reported_failure_stalls_are_the_sum_of_lost_work_and_down_time() {
    let mut scenario = fed(&[
        ("run.steps", "3000"),
        ("run.replications", "3"),
        EVERY_100,
        ("job.failures", r#"{ mtbf = "500 s", restart = "20 s" }"#),
    ]);
    scenario.run.replications = 3;
    let outcomes: Vec<_> = (0..3).map(|r| run(&scenario, r, &Options::default())).collect();
    let report = summarise(&scenario, &outcomes, 0.0);
    let job = &report.jobs[0];
    let of = job.recovery.as_ref().expect("it fails");
    let total = report.makespan.mean.expect("an end");
    let share = |cause| job.figures.stall.share(StallCause::own(cause));
    let (lost, down) = (of.lost.mean.expect("lost"), of.down.mean.expect("down"));
    assert_near(share(Cause::Fault) * total, lost + down, 0.02);
    let utilised = job.figures.accelerator_utilisation.mean.expect("a share");
    assert!((job.figures.stall.total.mean.expect("a share") + utilised - 1.0).abs() < 1e-9);
    let best = RecoveryLaw { mtbf: 500.0, checkpoint: 5.0, restart: 0.0 }.best_interval();
    assert_near(of.best_interval.expect("an interval"), best, 1e-3);
    let text = forebay::report::text::render(&report, 2000, false);
    let line = text.lines().find(|line| line.starts_with("Recovery of")).expect("a line");
    assert!(line.contains("checkpoints of 500 MB, each written in 5 s"), "{line}");
}

#[test]
fn a_run_that_ends_while_the_job_is_down_counts_only_saved_steps() {
    // System: steps of 1 s, a checkpoint after 100 s, a failure at 150 s, the run's end at 160 s, within 30 s
    // of downtime. Expectation: 100 steps, 45 s of work lost and 10 s down.
    let failures = r#"{ at = ["150 s"], restart = "30 s" }"#;
    let end = ("run", "{ duration = \"160 s\", warm_up = \"off\", replications = 1 }");
    let changes = [EVERY_100, ("job.failures", failures), end];
    let found = job(&fed(&changes));
    assert_eq!(found.steps.len(), 100);
    let recovery = found.recovery.expect("failures");
    assert_near(recovery.lost_seconds, 45.0, 1e-3);
    assert_near(recovery.down_seconds, 10.0, 1e-3);
}

#[test]
fn a_failure_aborts_the_current_step() {
    // System: steps of 10 s; a failure at 12 s with an immediate restart. Expectation: the current step begins
    // again at 12 s, and the aborted step's end at 20 s has no effect.
    let failures = r#"{ at = ["12 s"], restart = "0 s" }"#;
    let changes = [
        ("job.model.step", "\"10 s\""),
        ("run.steps", "3"),
        ("job.checkpoint", r#"{ steps = 1, bytes = "1 B", storage = "c" }"#),
        ("job.failures", failures),
    ];
    let found = job(&fed(&changes));
    let down = found.recovery.expect("failures").down_seconds;
    assert_eq!(down, 0.0);
    assert_near(end(&found), 30.0 + 2.0, 1e-6);
}

#[test]
fn a_job_that_fails_faster_than_it_progresses_is_an_error() {
    let scenario = fed(&[("job.failures", r#"{ mtbf = "20 s", restart = "1 s" }"#)]);
    let error = simulate(&scenario).whole().expect_err("600 s without a failure never come");
    assert!(error.to_string().contains("fails too often to make progress"), "{error}");
    // A run of a fixed duration would end before, and fails too.
    let changes = [
        ("run", "{ duration = \"60 s\", warm_up = \"off\", replications = 1 }"),
        ("job.failures", r#"{ mtbf = "10 us", restart = "0 s" }"#),
    ];
    let error = simulate(&fed(&changes)).whole().expect_err("it never trains");
    assert!(error.to_string().contains("fails too often to make progress"), "{error}");
}

#[test]
fn a_job_resuming_at_the_epoch_start_fails_if_no_epoch_ever_ends() {
    // System: epochs of 62 steps of 1 ms with a failure every 4 ms and `resume = "epoch"`, with an immediate
    // checkpoint after each step; a run long enough for 50,000 failures. Expectation: an error, but none with
    // `resume = "position"`.
    let found = |resume: &str| {
        let failures = format!("{{ mtbf = \"4 ms\", restart = \"0 s\", resume = \"{resume}\" }}");
        let changes = [
            ("run", "{ duration = \"200 s\", warm_up = \"off\", replications = 1 }"),
            ("dataset.d.samples", "992"),
            ("job.loader", "{ in-memory = {} }"),
            ("job.epochs", "2"),
            ("job.checkpoint", r#"{ steps = 1, bytes = "1 B", storage = "c" }"#),
            ("job.failures", failures.as_str()),
            ("job.model.step", "\"1 ms\""),
        ];
        simulate(&fed(&changes)).whole()
    };
    assert_eq!(found("position").expect("it gets on").jobs[0].steps.len(), 124);
    let error = found("epoch").expect_err("no epoch ever ends");
    assert!(error.to_string().contains("fails too often to make progress"), "{error}");
}

#[test]
fn resumed_epochs_train_on_all_their_samples() {
    // System: epochs of 3,100 samples, which batches of 32 on three loaders do not divide, on one or two model
    // copies for each node, each batch used once or 2.5 times; one failure at many different times.
    // Expectation: the job ends, all samples of each epoch are trained on, with at most two steps of them in
    // excess.
    let pytorch = r#"{ pytorch = { workers = 2, decode = "1 us" } }"#;
    for case in 0..48_u32 {
        let at =
            format!("{{ at = [\"{} ms\"], restart = \"1 ms\", resume = \"epoch\" }}", 7 + 5 * case);
        let copies = (1 + case % 2).to_string();
        let changes = [
            ("run", "{ epochs = 3, warm_up = \"off\", replications = 1 }"),
            ("dataset.d.samples", "3100"),
            ("job.batch", "32"),
            ("job.nodes", "3"),
            ("job.loader", [r#"{ in-memory = {} }"#, pytorch][case as usize / 2 % 2]),
            ("job.parallel.data.copies_per_node", copies.as_str()),
            ("job.batch_interval", ["1", "2.5"][case as usize / 4 % 2]),
            ("job.checkpoint", r#"{ steps = 5, bytes = "1 B", storage = "c" }"#),
            ("job.failures", at.as_str()),
            ("job.model.step", "\"3 ms\""),
        ];
        let Ok(mut outcome) = simulate(&fed(&changes)).whole() else {
            panic!("{case}: {changes:?}")
        };
        let found = outcome.jobs.remove(0);
        let fresh: u64 = found.steps.iter().map(|step| step.fresh).sum();
        let step = 32 * 3 * u64::from(1 + case % 2);
        // Where loaders make batches on request, each has a third of an epoch's samples, rounded down.
        let needed = 3 * [3100, 3099][case as usize / 2 % 2];
        assert!((needed..=needed + 2 * step).contains(&fresh), "{case}: {fresh} {changes:?}");
        assert_whole(&found);
    }
}

#[test]
fn a_restart_resumes_at_any_position_in_uneven_shards() {
    // System: shards of 100 samples, one of which has 11, in another order with each seed; restarts in all of
    // four epochs. Expectation: all samples of each epoch, as often as without failures.
    for case in 0..24_u32 {
        let (seed, at) = ((1 + case % 6).to_string(), 50 + 37 * (case / 6));
        let failures = format!("{{ at = [\"{at} ms\", \"{} ms\"], restart = \"1 ms\" }}", at + 111);
        let changes = [
            ("run", "{ epochs = 4, warm_up = \"off\", replications = 1 }"),
            ("run.seed", seed.as_str()),
            ("dataset.d.samples", "1111"),
            ("dataset.d.layout", r#"{ shards = { samples = 100, request = "1 MB" } }"#),
            ("job.checkpoint", r#"{ steps = 1, bytes = "1 B", storage = "c" }"#),
            ("job.failures", failures.as_str()),
            ("job.model.step", "\"1 ms\""),
        ];
        let found = job(&fed(&changes));
        assert_eq!(found.recovery.expect("failures").failures, 2, "{case}");
        assert_eq!(found.steps.len(), (4_usize * 1111).div_ceil(16), "{case}");
        assert_whole(&found);
    }
}

#[test]
fn invalid_failure_and_checkpoint_settings_are_reported() {
    let again = ("job.failures", r#"{ at = ["1 s"], restart = "1 s", resume = "epoch" }"#);
    let cases: [(&[(&str, &str)], &str); 9] = [
        (
            &[("job.failures", r#"{ at = [], restart = "1 s" }"#)],
            "the list of failure times is empty",
        ),
        (&[again, ("job.accuracy", "{ epochs = 2 }")], "the key `usefulness` is missing"),
        (&[("job.checkpoint", r#"{ bytes = "1 GB" }"#)], "one of the keys `interval`, `steps`"),
        (&[("job.checkpoint", "{ steps = 5 }")], "the model's parameters are not known"),
        (&[("job.checkpoint", r#"{ steps = 5, bytes = "1 B", storage = "x" }"#)], "no storage"),
        (&[("job.failures", r#"{ mtbf = "1 h" }"#)], "`restart` is missing"),
        (&[("job.failures", r#"{ restart = "1 s" }"#)], "one of the keys `mtbf`, `at`"),
        (&[("job.failures", r#"{ at = ["2 s", "1 s"], restart = "1 s" }"#)], "is not later than"),
        (
            &[("job.failures", r#"{ mtbf = "1 h", shape = 0.001, restart = "1 s" }"#)],
            "the shape 0.001 is out of range",
        ),
    ];
    let file = ScenarioFile::parse("test.toml", base()).expect("TOML");
    for (changes, expected) in cases {
        let overrides: Vec<Override> = changes
            .iter()
            .map(|(key, value)| format!("{key}={value}").parse().expect("an override"))
            .collect();
        let said = file.resolve(&overrides).expect_err("it is wrong").to_string();
        assert!(said.contains(expected), "{said}\ninstead of {expected}");
    }
}
