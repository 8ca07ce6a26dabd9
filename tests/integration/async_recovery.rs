//! Failures and checkpoints of jobs whose model copies go their own ways for a while: with servers, between averages, as
//! learners. What they share is saved, each goes on at its own step, and each sample is trained on once.

use super::base::{changed, model_copies};
use super::recovery::{assert_near, assert_whole, end, stalled};
use super::runs::{simulate, written};
use forebay::law::RecoveryLaw;
use forebay::report::{Cause, JobOutcome};
use forebay::scenario::{Scenario, ScenarioFile};
use forebay::sim::{Options, run};

type Changes<'a> = &'a [(&'a str, &'a str)];
/// A scenario but for some keys.
type Kind<'a> = &'a dyn Fn(Changes<'_>) -> Scenario;

/// A file server for checkpoints, as fast as it gets.
const FAST: (&str, &str) = ("storage.c", "{ file-server = { bandwidth = \"1 TB/s\" } }");
/// One of 100 MB/s.
const SLOW: (&str, &str) = ("storage.c", "{ file-server = { bandwidth = \"100 MB/s\" } }");
const HALF: (&str, &str) = ("job.model.occupancy", "0.5");
const LEARNERS: &str = "job.parallel.data.learners";

/// Model copies on so many nodes, one each, with steps of 100 ms and hardly a byte to exchange by `sync`.
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

/// By how much longer a job takes with a checkpoint that is written as `settings` say, and how many there are.
fn cost(of: impl Fn(Changes<'_>) -> Scenario, storage: (&str, &str), settings: &str) -> (f64, u64) {
    let plain = job(&of(&[storage]));
    let saved = job(&of(&[storage, ("job.checkpoint", settings)]));
    (end(&saved) - end(&plain), saved.recovery.expect("checkpoints").checkpoints)
}

#[test]
fn servers_write_what_they_have_over_their_own_nics() {
    // System: servers with NICs of 1 GB/s, 400 MB after steps 5, …, 55 of 60. Expectation: each writes its part in
    // 400 MB ÷ (servers · 1 GB/s), while all wait; the first alone in 400 MB ÷ 1 GB/s; a storage of 100 MB/s binds all.
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
    // Whole buckets, of which the first server has two of three.
    let sync =
        "parameter-server]\nparameters = \"99 B\"\nservers = 2\ntensors = 3\nbuckets = \"1 B\"";
    let whole = format!("{sync}\nserver.split = \"buckets\"");
    let thirds = cost(|changes| copies(2, &whole, changes), FAST, &every(""));
    assert_near(thirds.0, 11.0 * 0.4 * 2.0 / 3.0, 1e-4);
    // On the job's nodes over theirs.
    let keys = "server.placement = \"with-workers\"";
    let beside = cost(|changes| servers(2, keys, changes), FAST, &every(""));
    assert_near(beside.0, 11.0 * 0.4, 1e-4);
}

#[test]
fn pulls_and_checkpoints_share_a_servers_nic() {
    // System: two model copies that pull 100 MB each over the NIC by which 400 MB are written. Expectation: both together
    // take what their bytes do, so that a checkpoint costs 400 MB ÷ 1 GB/s, though pulls go on meanwhile.
    let sync = "parameter-server]\nparameters = \"100 MB\"";
    let settings = r#"{ steps = 5, bytes = "400 MB", storage = "c" }"#;
    let (found, written) = cost(|changes| copies(2, sync, changes), FAST, settings);
    assert_eq!(written, 11);
    assert_near(found, 11.0 * 0.4, 1e-4);
}

#[test]
fn an_average_is_written_when_there_is_one() {
    // System: local SGD that averages every 7 of 60 steps of 100 ms; 500 MB at 100 MB/s are due 10 steps after the last.
    // Expectation: 5 s after each of the steps 14, 28, 42 and 56, all of it a wait; likewise of accumulated gradients.
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

/// Two GPUs with two learners each, steps of 100 ms, models that are averaged in no time every five of 60 steps.
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
fn the_reference_model_of_learners_is_written_once() {
    // System: 500 MB at 100 MB/s, due 10 steps after the last, of models that are averaged every 5. Expectation: 5 s after
    // steps 10, …, 50, but for the step that learners are at meanwhile, whatever their number.
    let settings = r#"{ steps = 10, bytes = "500 MB", storage = "c" }"#;
    for number in ["1", "2", "4"] {
        let of = |changes: Changes<'_>| learners(&[changes, &[(LEARNERS, number)]].concat());
        let (found, written) = cost(of, SLOW, settings);
        assert_eq!(written, 5, "{number}");
        assert!((25.0 - 5.0 * 0.1 - 1e-6..25.001).contains(&found), "{number}: {found}");
    }
    // Learners that go their own ways are in step, and wait for all of it.
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
fn asynchronous_checkpoints_hide() {
    // Expectation: written beside the training they cost nothing but their pause, which asynchronous model copies take
    // before their next steps.
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
fn a_failure_takes_all_back_to_what_they_shared() {
    // System: 60 steps of 100 ms, averaged every 4; a checkpoint that takes no time is due 10 steps after the last, and
    // comes after 12 and 24. Failure at 2.75 s, restarted in 2 s. Expectation: 2.75 s − 2.4 s lost and 2 s down; without
    // checkpoints all of it. The same of synchronous servers, where it comes after 10 and 20 steps.
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

/// Steps of 1 s on a node and of 2.6 s on another, with servers as `keys` say.
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
fn each_model_copy_goes_on_at_its_own_step() {
    // System: model copies of 1 s and 2.6 s, the first at most 4 steps ahead; a step of the report is two of theirs. The
    // fourth is over at 6 s, with 6 steps of the first and 2 of the second, which a checkpoint has. Without failures the
    // first waits for the second from 7 s on and from 8.8 s on, and step 7 is over at 13 s, the second's fifth. Failure at
    // 7.5 s, restarted in 1 s. Expectation: the seventh of the first is over at 9.5 s, the third of the second at 11.1 s,
    // for which the first waits; the second's fifth at 16.3 s.
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
    // 14 batches of 8 were trained on; what was taken for the lost ones was taken again.
    assert_eq!(failed.steps.iter().map(|step| step.fresh).sum::<u64>(), 14 * 8);
    // Twice from the same checkpoint: 0.5 s of work after the first, nothing more of the others' is lost.
    let twice = r#"{ at = ["7.5 s", "9 s"], restart = "1 s" }"#;
    let twice = of(&[saved, ("job.failures", twice)]);
    check(&twice, [2.0, 3.0, 5.0, 6.0, 12.6, 15.2, 17.8]);
    assert_near(twice.recovery.expect("failures").lost_seconds, 2.0, 1e-5);
}

#[test]
fn each_loader_goes_on_where_its_model_copy_was() {
    // System: as before, with loaders on request; the first node is the fast one or the slow one. Expectation: after the
    // failure its first batch is number 6 or 2, though one more had been taken, and more were ready.
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
fn staleness_counts_the_updates_that_count() {
    // System: as before, asynchronous. Expectation: as many updates as steps of model copies count, however often the job
    // failed.
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
    // A run that ends while the job is down has those of its checkpoint, after three steps of two.
    let cut = ("run", "{ duration = \"8 s\", warm_up = \"off\" }");
    let found = of(&[saved, failures, cut]);
    assert_eq!((found.updates, found.staleness.values().sum::<u64>()), (6, 6));
}

#[test]
fn what_learners_did_after_the_average_that_is_saved_is_lost_too() {
    // System: two nodes, steps of 1 s, 1 GB averaged every 4 in 1 s beside the next step. The average of four steps is
    // there at 5 s, and saved. Failure at 6.5 s, restarted in 2 s. Expectation: 2.5 s lost, back to the end of the fourth
    // step; 12 steps take 12 s + 2.5 s + 2 s.
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
    // Lost once, however often the job goes back to it.
    let twice = of(&[saved, ("job.failures", r#"{ at = ["6.5 s", "9 s"], restart = "2 s" }"#)]);
    assert_near(end(&twice), 19.0, 1e-6);
    assert_near(twice.recovery.expect("failures").lost_seconds, 3.0, 1e-6);
}

#[test]
fn without_slack_servers_are_synchronous_however_often_nodes_fail() {
    // System: steps that vary, and failures as they come. Expectation: the same, to the picosecond.
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
    // And each step is one of all: as many samples.
    assert!(synchronous.steps.iter().all(|step| step.samples == 24 && step.fresh == 24));
}

#[test]
fn the_number_of_learners_that_was_found_is_kept() {
    // System: a policy that has found its number after some 300 steps of 1 ms; failures then, and in the midst of its
    // search. Expectation: as many learners as without failures, and after it is done it does not search again.
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
fn they_fail_as_daly_says() {
    // System: 6,000 steps of 1 s; 5 s to write a checkpoint, 20 s to restart, a failure of the job every 1,000 s: two nodes
    // of 2,000 s each, or with a server on a node of its own three of 3,000 s. Local SGD averages every 5 steps; servers
    // are stale-synchronous. Expectation: Daly's time to 2 %.
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
        // Some 320, of which chance makes 6 %.
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
fn what_is_not_simulated_of_them_is_said() {
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
    let failures = "failures = { at = [\"1 s\"], restart = \"1 s\" }";
    let iterable = with(failures)
        .replace("loader.in-memory = {}", "loader.pytorch = { workers = 2, iterable = true }");
    assert!(wrong(iterable).contains("its workers have files of their own"));
}
