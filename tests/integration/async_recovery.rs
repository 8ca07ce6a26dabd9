//! Failures and checkpoints of jobs whose model copies are out of step for a while: with parameter servers,
//! between averages, as learners. Checkpoints hold the shared state, each model copy resumes at its own step,
//! and each sample is trained on once.

use super::base::{changed, model_copies};
use super::recovery::{assert_near, assert_whole, end, stalled};
use super::runs::{simulate, written};
use forebay::law::RecoveryLaw;
use forebay::report::{Cause, JobOutcome};
use forebay::scenario::{Scenario, ScenarioFile};
use forebay::sim::{Options, run};

type Changes<'a> = &'a [(&'a str, &'a str)];
/// A function from changed keys to a scenario.
type Kind<'a> = &'a dyn Fn(Changes<'_>) -> Scenario;

/// A file server for checkpoints whose writes take almost no time.
const FAST: (&str, &str) = ("storage.c", "{ file-server = { bandwidth = \"1 TB/s\" } }");
/// A file server of 100 MB/s for checkpoints.
const SLOW: (&str, &str) = ("storage.c", "{ file-server = { bandwidth = \"100 MB/s\" } }");
const HALF: (&str, &str) = ("job.model.occupancy", "0.5");
const LEARNERS: &str = "job.parallel.data.learners";

/// Returns model copies on `nodes` nodes, one each, with steps of 100 ms, that exchange hardly a byte by
/// `sync`.
fn copies(nodes: u32, sync: &str, changes: Changes<'_>) -> Scenario {
    written(&model_copies((nodes, 1), 60, ["0 s", "0 s"], sync), changes)
}

fn servers(nodes: u32, keys: &str, changes: Changes<'_>) -> Scenario {
    copies(nodes, &format!("parameter-server]\nparameters = \"100 B\"\n{keys}"), changes)
}

fn local(nodes: u32, period: u32, changes: Changes<'_>) -> Scenario {
    let sync = format!("allreduce]\ngradients = \"100 B\"\nperiod = {period}");
    copies(nodes, &sync, changes)
}

fn job(scenario: &Scenario) -> JobOutcome {
    let found = simulate(scenario).jobs.remove(0);
    assert_whole(&found);
    found
}

/// Returns how much longer a job takes with checkpoints as in `settings` [s], and the number of checkpoints.
fn cost(of: impl Fn(Changes<'_>) -> Scenario, storage: (&str, &str), settings: &str) -> (f64, u64) {
    let plain = job(&of(&[storage]));
    let saved = job(&of(&[storage, ("job.checkpoint", settings)]));
    (end(&saved) - end(&plain), saved.recovery.expect("checkpoints").checkpoints)
}

#[test]
fn parameter_servers_write_their_shards_of_a_checkpoint_over_their_own_nics() {
    // System: servers with NICs of 1 GB/s; checkpoints of 400 MB after steps 5, …, 55 of 60. Expectation: each
    // server writes its part in 400 MB ÷ (servers · 1 GB/s) while all wait; the first server alone in 400 MB ÷
    // 1 GB/s; a storage of 100 MB/s limits every case.
    let every = |more: &str| format!("{{ steps = 5, bytes = \"400 MB\", storage = \"c\"{more} }}");
    for number in [1, 2, 4] {
        let keys = format!("servers = {number}");
        let of = |changes: Changes<'_>| servers(2, &keys, changes);
        let parts = 0.4 / f64::from(number);
        for (more, storage, expected) in [
            ("", FAST, parts),
            (", writers = \"each\"", FAST, parts),
            (", writers = \"first\"", FAST, 0.4),
            ("", SLOW, 4.0),
            (", pause = \"1 s\"", FAST, 1.0 + parts),
        ] {
            let (found, written) = cost(of, storage, &every(more));
            assert_eq!(written, 11, "{number}{more}");
            assert_near(found, 11.0 * expected, 1e-4);
        }
    }
    // Servers hold whole buckets; the first server has two of three.
    let sync =
        "parameter-server]\nparameters = \"99 B\"\nservers = 2\ntensors = 3\nbuckets = \"1 B\"";
    let whole = format!("{sync}\nserver.split = \"buckets\"");
    let thirds = cost(|changes| copies(2, &whole, changes), FAST, &every(""));
    assert_near(thirds.0, 11.0 * 0.4 * 2.0 / 3.0, 1e-4);
    // Servers on the job's nodes write over the NICs of these nodes.
    let keys = "server.placement = \"with-workers\"";
    let beside = cost(|changes| servers(2, keys, changes), FAST, &every(""));
    assert_near(beside.0, 11.0 * 0.4, 1e-4);
}

#[test]
fn pulls_and_checkpoints_share_a_parameter_servers_nic() {
    // System: two model copies that pull 100 MB each over the NIC that also writes checkpoints of 400 MB.
    // Expectation: pulls and checkpoints together take the time of their bytes, so that a checkpoint costs 400
    // MB ÷ 1 GB/s, though pulls go on meanwhile.
    let sync = "parameter-server]\nparameters = \"100 MB\"";
    let settings = r#"{ steps = 5, bytes = "400 MB", storage = "c" }"#;
    let (found, written) = cost(|changes| copies(2, sync, changes), FAST, settings);
    assert_eq!(written, 11);
    assert_near(found, 11.0 * 0.4, 1e-4);
}

#[test]
fn local_sgd_writes_checkpoints_right_after_models_are_averaged() {
    // System: local SGD that averages every 7 of 60 steps of 100 ms; a checkpoint of 500 MB at 100 MB/s is due
    // 10 steps after the last. Expectation: a wait of 5 s after each of the steps 14, 28, 42 and 56; the same
    // with gradient accumulation.
    let settings = r#"{ steps = 10, bytes = "500 MB", storage = "c" }"#;
    let (found, written) = cost(|changes| local(2, 7, changes), SLOW, settings);
    assert_eq!(written, 4);
    assert_near(found, 20.0, 1e-6);
    let saved = job(&local(2, 7, &[SLOW, ("job.checkpoint", settings)]));
    assert_near(stalled(&saved, Cause::Checkpoint), 20.0, 1e-6);
    let long: Vec<usize> =
        (1..60).filter(|of| saved.steps[*of].end - saved.steps[*of - 1].end > 1.0).collect();
    assert_eq!(long, [14, 28, 42, 56]);
    let summed =
        |changes: Changes<'_>| local(2, 1, &[changes, &[("job.accumulation", "7")]].concat());
    let (found, written) = cost(summed, SLOW, settings);
    assert_eq!(written, 4);
    assert_near(found, 20.0, 1e-6);
}

/// Returns two GPUs with two learners each, 60 steps of 100 ms, and models that are averaged in no time every
/// five steps.
fn learners(changes: Changes<'_>) -> Scenario {
    let averaged = [
        (LEARNERS, "2"),
        HALF,
        ("job.parallel.data.copies_per_node", "2"),
        ("job.sync.model-averaging", r#"{ parameters = "100 B", period = 5 }"#),
        ("storage.s", "{ memory = {} }"),
        ("job.loader", "{ in-memory = {} }"),
        ("job.model.step", "\"100 ms\""),
    ];
    changed(&[&averaged[..], changes].concat())
}

#[test]
fn the_cost_of_a_checkpoint_does_not_depend_on_the_number_of_learners() {
    // System: checkpoints of 500 MB at 100 MB/s, due 10 steps after the last, of models that are averaged every
    // 5 steps. Expectation: 5 s after steps 10, …, 50, less the step that learners compute meanwhile, whatever
    // their number.
    let settings = r#"{ steps = 10, bytes = "500 MB", storage = "c" }"#;
    for number in ["1", "2", "4"] {
        let of = |changes: Changes<'_>| learners(&[changes, &[(LEARNERS, number)]].concat());
        let (found, written) = cost(of, SLOW, settings);
        assert_eq!(written, 5, "{number}");
        assert!((25.0 - 5.0 * 0.1 - 1e-6..25.001).contains(&found), "{number}: {found}");
    }
    // Learners without averaging are in step and wait for the whole write.
    let apart = |changes: Changes<'_>| {
        let alone = [(LEARNERS, "3"), HALF, ("storage.s", "{ memory = {} }")];
        let fed = [("job.loader", "{ in-memory = {} }"), ("job.model.step", "\"100 ms\"")];
        changed(&[&alone[..], &fed, changes].concat())
    };
    let (found, written) = cost(apart, SLOW, settings);
    assert_eq!(written, 5);
    assert_near(found, 25.0, 1e-6);
}

#[test]
fn asynchronous_checkpoints_delay_training_only_by_the_configured_pause() {
    // Expectation: checkpoints written beside the training cost nothing but their pause, which asynchronous
    // model copies take before their next steps.
    let beside = r#"{ steps = 20, bytes = "100 MB", storage = "c", asynchronous = true }"#;
    let paused = beside.replace("true", "true, pause = \"300 ms\"");
    let asynchronous = "consistency = \"asynchronous\"";
    let kinds: [Kind<'_>; 4] = [
        &|changes| servers(2, "", changes),
        &|changes| servers(2, asynchronous, changes),
        &|changes| local(2, 4, changes),
        &learners,
    ];
    for (kind, of) in kinds.into_iter().enumerate() {
        let (found, written) = cost(of, SLOW, beside);
        assert_eq!(written, 2, "{kind}");
        assert!(found.abs() < 1e-4, "{kind}: {found}");
        let (found, written) = cost(of, SLOW, &paused);
        assert_eq!(written, 2, "{kind}");
        assert!((0.6 - 0.2 - 1e-6..0.6 + 1e-4).contains(&found), "{kind}: {found}");
    }
}

#[test]
fn a_failure_takes_all_model_copies_back_to_their_last_shared_state() {
    // System: 60 steps of 100 ms, averaged every 4; a checkpoint that takes no time is due 10 steps after the
    // last, and is written after steps 12 and 24. Failure at 2.75 s, restart in 2 s. Expectation: 2.75 s − 2.4
    // s lost and 2 s down; without checkpoints all 2.75 s are lost. Synchronous servers checkpoint after steps
    // 10 and 20 instead.
    let failures = ("job.failures", r#"{ at = ["2.75 s"], restart = "2 s" }"#);
    let often = ("job.checkpoint", r#"{ steps = 10, bytes = "1 B", storage = "c" }"#);
    let kinds: [(Kind<'_>, f64); 3] = [
        (&|changes| local(2, 4, changes), 0.35),
        (&|changes| servers(2, "", changes), 0.75),
        (&learners, 0.75),
    ];
    for (kind, (of, expected)) in kinds.into_iter().enumerate() {
        for (changes, lost) in [(&[FAST, often, failures][..], expected), (&[failures], 2.75)] {
            let found = job(&of(changes));
            let recovery = found.recovery.expect("failures");
            assert!((recovery.lost_seconds - lost).abs() < 1e-4, "{kind}: {recovery:?}");
            assert!((stalled(&found, Cause::Fault) - lost - 2.0).abs() < 1e-4, "{kind}");
            assert!((end(&found) - 6.0 - lost - 2.0).abs() < 1e-4, "{kind}: {}", end(&found));
            assert_eq!(found.steps.len(), 60);
        }
    }
}

/// Returns a job with steps of 1 s on one node and of 2.6 s on another, with servers as in `keys`.
fn unlike(keys: &str, changes: Changes<'_>) -> Scenario {
    let two = [
        ("cluster.nodes", "1"),
        ("cluster.group.old", "{ nodes = 1, node = { gpu_speed = 0.38461538461538464 } }"),
        ("job.model.step", "\"1 s\""),
        FAST,
    ];
    servers(2, keys, &[&two[..], changes].concat())
}

#[test]
fn after_a_failure_each_model_copy_resumes_at_its_own_step() {
    // System: model copies with steps of 1 s and 2.6 s, the first at most 4 steps ahead; a step of the report
    // is two steps of model copies. The fourth step of the report ends at 6 s, with 6 steps of the first copy
    // and 2 of the second; the checkpoint has these. Without failures the first copy waits for the second from
    // 7 s and from 8.8 s on, and step 7 of the report ends at 13 s with the second copy's fifth. Failure at 7.5
    // s, restart in 1 s. Expectation: the first copy's seventh step ends at 9.5 s, the second copy's third at
    // 11.1 s, for which the first waits; the second copy's fifth at 16.3 s.
    let keys = "consistency = { stale = 4 }";
    let of = |changes: Changes<'_>| {
        let run = ("run", "{ steps = 7, warm_up = \"off\" }");
        job(&unlike(keys, &[&[run], changes].concat()))
    };
    let ends = |job: &JobOutcome| job.steps.iter().map(|of| of.end).collect::<Vec<_>>();
    let check = |found: &JobOutcome, expected: [f64; 7]| {
        for (found, expected) in ends(found).into_iter().zip(expected) {
            assert_near(found, expected, 1e-5);
        }
    };
    check(&of(&[]), [2.0, 3.0, 5.0, 6.0, 7.8, 10.4, 13.0]);
    let saved = ("job.checkpoint", r#"{ steps = 4, bytes = "1 B", storage = "c" }"#);
    let failed = of(&[saved, ("job.failures", r#"{ at = ["7.5 s"], restart = "1 s" }"#)]);
    check(&failed, [2.0, 3.0, 5.0, 6.0, 11.1, 13.7, 16.3]);
    let recovery = failed.recovery.expect("failures");
    assert_near(recovery.lost_seconds, 1.5, 1e-5);
    // 14 batches of 8 were trained on; samples of lost batches were loaded again.
    assert_eq!(failed.steps.iter().map(|step| step.fresh).sum::<u64>(), 14 * 8);
    // Two failures with the same checkpoint: after the first, 0.5 s of work is lost again, and nothing more of
    // the other copy.
    let twice = r#"{ at = ["7.5 s", "9 s"], restart = "1 s" }"#;
    let twice = of(&[saved, ("job.failures", twice)]);
    check(&twice, [2.0, 3.0, 5.0, 6.0, 12.6, 15.2, 17.8]);
    assert_near(twice.recovery.expect("failures").lost_seconds, 2.0, 1e-5);
}

#[test]
fn after_a_failure_each_loader_resumes_at_the_batch_of_its_model_copy() {
    // System: model copies of 1 s and 2.6 s with on-request loaders; the first node is the fast one or the slow
    // one. Expectation: after the failure the first node's first batch is number 6 or 2, though it had already
    // taken one more and further batches were ready.
    let old = "{ nodes = 1, node = { gpu_speed = 0.38461538461538464 } }";
    let new = "{ nodes = 1, node = { gpu_speed = 1 } }";
    for (group, speed, expected) in [(old, "1", 6), (new, "0.38461538461538464", 2)] {
        let changes = [
            ("cluster.node.gpu_speed", speed),
            ("cluster.group.old", group),
            ("run", "{ steps = 7, warm_up = \"off\" }"),
            ("job.loader", "{ pytorch = { workers = 1, decode = \"1 ms\" } }"),
            ("job.checkpoint", r#"{ steps = 4, bytes = "1 B", storage = "c" }"#),
            ("job.failures", r#"{ at = ["7.5 s"], restart = "1 s" }"#),
        ];
        let scenario = unlike("consistency = { stale = 4 }", &changes);
        let options = Options { trace: true, ..Options::default() };
        let found = run(&scenario, 0, &options).jobs.remove(0);
        assert_eq!(found.deliveries[0].batch, expected, "{:?}", found.deliveries);
    }
}

#[test]
fn updates_lost_in_failures_do_not_count_towards_staleness() {
    // System: model copies of 1 s and 2.6 s with asynchronous servers. Expectation: as many updates are counted
    // as steps of model copies, however often the job failed.
    let of = |changes: Changes<'_>| {
        let run = ("run", "{ steps = 20, warm_up = \"off\" }");
        let found = job(&unlike("consistency = \"asynchronous\"", &[&[run], changes].concat()));
        found.sync.expect("servers")
    };
    let saved = ("job.checkpoint", r#"{ steps = 3, bytes = "1 B", storage = "c" }"#);
    let failures = ("job.failures", r#"{ at = ["7.5 s", "12 s", "30 s"], restart = "1 s" }"#);
    for changes in [&[][..], &[saved, failures], &[failures]] {
        let found = of(changes);
        assert_eq!((found.updates, found.staleness.values().sum::<u64>()), (40, 40));
    }
    // A run that ends while the job is down has the updates of its checkpoint, after three steps of two model
    // copies.
    let cut = ("run", "{ duration = \"8 s\", warm_up = \"off\" }");
    let found = of(&[saved, failures, cut]);
    assert_eq!((found.updates, found.staleness.values().sum::<u64>()), (6, 6));
}

#[test]
fn steps_after_the_saved_average_are_lost_in_a_failure() {
    // System: two nodes, steps of 1 s, 1 GB averaged every 4 steps in 1 s beside the next step. The average of
    // four steps is complete at 5 s, and saved. Failure at 6.5 s, restart in 2 s. Expectation: 2.5 s lost, back
    // to the end of the fourth step; 12 steps take 12 s + 2.5 s + 2 s.
    let sync = "model-averaging]\nparameters = \"1 GB\"\nperiod = 4\nalgorithm = \"ring\"";
    let of = |changes: Changes<'_>| {
        let fixed = [("job.model.step", "\"1 s\""), ("run.steps", "12"), FAST];
        job(&copies(2, sync, &[&fixed[..], changes].concat()))
    };
    assert_near(end(&of(&[])), 12.0, 1e-6);
    let saved = ("job.checkpoint", r#"{ steps = 4, bytes = "1 B", storage = "c" }"#);
    let failures = ("job.failures", r#"{ at = ["6.5 s"], restart = "2 s" }"#);
    let failed = of(&[saved, failures]);
    assert_near(end(&failed), 16.5, 1e-6);
    let recovery = failed.recovery.expect("failures");
    assert_near(recovery.lost_seconds, 2.5, 1e-6);
    assert_eq!(recovery.checkpoints, 2, "after 4 and 8 steps");
    assert_near(stalled(&failed, Cause::Fault), 4.5, 1e-6);
    // The steps after the saved average are lost once, however often the job goes back to it.
    let twice = of(&[saved, ("job.failures", r#"{ at = ["6.5 s", "9 s"], restart = "2 s" }"#)]);
    assert_near(end(&twice), 19.0, 1e-6);
    assert_near(twice.recovery.expect("failures").lost_seconds, 3.0, 1e-6);
    // Without overlap the job does not repeat the average, which took 1 s of the 2.5 s since the fourth step: 12 steps, two averages,
    // 1.5 s and the restart.
    let apart = ("job.sync.model-averaging.overlap", "false");
    assert_near(end(&of(&[apart])), 14.0, 1e-6);
    let failed = of(&[apart, saved, failures]);
    assert_near(end(&failed), 17.5, 1e-6);
    assert_near(failed.recovery.expect("failures").lost_seconds, 2.5, 1e-6);
}

#[test]
fn parameter_servers_with_zero_staleness_act_synchronously_under_failures() {
    // System: steps that vary, and random failures. Expectation: equal outcomes, to the picosecond.
    let changes = [
        FAST,
        ("job.model", r#"{ step = "100 ms", jitter = { gamma = { cv = 0.5 } } }"#),
        ("job.checkpoint", r#"{ steps = 5, bytes = "10 MB", storage = "c" }"#),
        ("job.failures", r#"{ mtbf = "6 s", restart = "300 ms" }"#),
    ];
    let of =
        |consistency: &str| job(&servers(3, &format!("consistency = {consistency}"), &changes));
    let (slack, synchronous) = (of("{ stale = 0 }"), of("\"synchronous\""));
    assert!(synchronous.recovery.as_ref().expect("failures").failures > 2);
    assert_eq!(slack, synchronous);
    // Each step has the samples of all model copies.
    assert!(synchronous.steps.iter().all(|step| step.samples == 24 && step.fresh == 24));
}

#[test]
fn the_tuned_number_of_learners_survives_failures() {
    // System: a policy that has found its number of learners after some 300 steps of 1 ms; failures after that,
    // or in the middle of the search. Expectation: as many learners as without failures, and no second search
    // after the first is done.
    let of = |changes: Changes<'_>| {
        let auto = [
            (LEARNERS, "{ auto = { window = 10, most = 6 } }"),
            ("job.model.occupancy", "0.3"),
            ("storage.s", "{ memory = {} }"),
            ("job.loader", "{ in-memory = {} }"),
            ("job.sync.model-averaging", r#"{ parameters = "1 MB", period = 3 }"#),
            ("job.parallel.data.copies_per_node", "2"),
            ("run.steps", "600"),
            FAST,
            ("job.checkpoint", r#"{ steps = 20, bytes = "1 B", storage = "c" }"#),
        ];
        job(&changed(&[&auto[..], changes].concat())).learners.expect("learners")
    };
    let plain = of(&[]);
    assert!((3..6).contains(&plain.per_gpu), "{plain:?}");
    let late = of(&[("job.failures", r#"{ at = ["350 ms", "500 ms"], restart = "20 ms" }"#)]);
    assert_eq!((late.per_gpu, &late.tried), (plain.per_gpu, &plain.tried));
    for at in [5.3, 10.7, 11.4, 12.1, 22.6, 27.4, 36.9] {
        let failures = format!("{{ at = [\"{at} ms\"], restart = \"1 ms\" }}");
        let early = of(&[("job.failures", failures.as_str())]);
        assert_eq!(early.per_gpu, plain.per_gpu, "{at} ms");
        assert_eq!(early.tried.len(), plain.tried.len(), "{at} ms");
    }
}

#[test]
fn times_of_asynchronous_jobs_under_failures_match_dalys_formula() {
    // System: 6,000 steps of 1 s; 5 s to write a checkpoint, 20 s to restart, one failure of the job every
    // 1,000 s: two nodes with a mean time between failures of 2,000 s each, or three of 3,000 s with a server
    // on a node of its own. Local SGD averages every 5 steps; servers are stale-synchronous. Expectation:
    // Daly's time to 2 %.
    let of = |sync: &str, mtbf: &str| {
        let failures = format!("{{ mtbf = \"{mtbf}\", restart = \"20 s\" }}");
        let changes = [
            ("job.model.step", "\"1 s\""),
            ("job.batch", "1"),
            ("run.steps", "6000"),
            SLOW,
            ("job.checkpoint", r#"{ interval = "100 s", bytes = "500 MB", storage = "c" }"#),
            ("job.failures", failures.as_str()),
        ];
        let scenario = copies(2, sync, &changes);
        let (mut time, mut failures) = (0.0, 0);
        for replication in 0..48 {
            let found = run(&scenario, replication, &Options::default()).jobs.remove(0);
            time += end(&found);
            failures += found.recovery.expect("failures").failures;
        }
        // Some 320 failures, with a standard deviation of 6 %.
        assert_near(failures as f64, time / 1000.0, 0.15);
        time / 48.0
    };
    let law = RecoveryLaw { mtbf: 1000.0, checkpoint: 5.0, restart: 20.0 };
    let local = of("allreduce]\ngradients = \"100 B\"\nperiod = 5", "2000 s");
    assert_near(local, law.expected_time(6000.0, 100.0), 0.02);
    let stale = "parameter-server]\nparameters = \"100 B\"\nconsistency = { stale = 3 }";
    assert_near(of(stale, "3000 s"), law.expected_time(6000.0, 100.0), 0.02);
}

#[test]
fn unsupported_checkpoints_of_asynchronous_jobs_are_refused() {
    let wrong = |text: String| {
        let file = ScenarioFile::parse("test.toml", text).expect("TOML");
        file.resolve(&[]).expect_err("it is wrong").to_string()
    };
    let text = model_copies((2, 1), 60, ["0 s", "0 s"], "parameter-server]\nparameters = \"1 MB\"");
    let with = |more: &str| text.replace("batch = 8", &format!("batch = 8\n{more}"));
    let own = with("checkpoint = { steps = 2, bytes = \"1 MB\" }");
    let said = wrong(own.clone());
    for words in ["servers on nodes of their own write checkpoints", "with-workers"] {
        assert!(said.contains(words), "{said}");
    }
    written(&format!("{own}server.placement = \"with-workers\"\n"), &[]);
}
