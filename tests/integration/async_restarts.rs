//! Failures at any instant of jobs whose model copies are out of step for a while: each sample is trained on as
//! often as without failures.

use super::base::changed;
use super::recovery::{assert_whole, end};
use super::runs::simulate;
use forebay::report::JobOutcome;
use forebay::scenario::Scenario;

const HALF: (&str, &str) = ("job.model.occupancy", "0.5");
const LEARNERS: &str = "job.parallel.data.learners";

/// Two epochs of 992 samples that are read and decoded, on two nodes.
const EPOCHS: [(&str, &str); 5] = [
    ("run", "{ epochs = 2, warm_up = \"off\", replications = 1 }"),
    ("storage.c", "{ file-server = { bandwidth = \"100 MB/s\" } }"),
    ("dataset.d.samples", "992"),
    ("job.nodes", "2"),
    ("job.checkpoint", r#"{ steps = 3, bytes = "100 kB", storage = "c" }"#),
];
const JITTER: (&str, &str) = ("job.model.jitter", "{ gamma = { cv = 0.5 } }");
const TWO: (&str, &str) = ("job.parallel.data.copies_per_node", "2");
const AVERAGING: &str = "job.sync.model-averaging";
const MEMORY: (&str, &str) = ("cluster.node.gpu_memory_bandwidth", "\"100 GB/s\"");
const PARAMETER_SERVER: &str = "job.sync.parameter-server";

/// Returns named configurations of model copies that are out of step.
fn kinds() -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
    let fifo = [("cluster.node.scheduling", "\"fifo\""), ("cluster.node.cores", "2")];
    let pytorch = ("job.loader", r#"{ pytorch = { workers = 3, decode = "500 us" } }"#);
    let ring = r#"{ gradients = "5 MB", period = 4 }"#;
    let averaged = r#"{ parameters = "5 MB", period = 3 }"#;
    let elastic = "job.sync.elastic-averaging";
    vec![
        ("local SGD", vec![("job.sync.allreduce", ring), JITTER]),
        ("local SGD of four", vec![("job.sync.allreduce", ring), TWO, JITTER, pytorch]),
        (
            "accumulation",
            vec![
                ("job.sync.allreduce", r#"{ gradients = "5 MB", tensors = 3 }"#),
                ("job.accumulation", "3"),
            ],
        ),
        (
            "synchronous servers",
            vec![(PARAMETER_SERVER, r#"{ parameters = "5 MB", servers = 2 }"#), TWO, JITTER],
        ),
        (
            "synchronous servers, each third step",
            vec![(PARAMETER_SERVER, r#"{ parameters = "5 MB" }"#), ("job.accumulation", "3")],
        ),
        (
            "asynchronous servers",
            vec![
                (PARAMETER_SERVER, r#"{ parameters = "5 MB", consistency = "asynchronous" }"#),
                TWO,
                JITTER,
            ],
        ),
        (
            "asynchronous servers, on request",
            vec![
                (PARAMETER_SERVER, r#"{ parameters = "5 MB", consistency = "asynchronous" }"#),
                JITTER,
                pytorch,
            ],
        ),
        (
            "stale servers whose cores are few",
            vec![
                (
                    PARAMETER_SERVER,
                    r#"{ parameters = "5 MB", tensors = 4, buckets = "1 MB", consistency = { stale = 2 },
                    servers = 3, server = { cores = 1, update = "10 GB/s" },
                    transport.tcp = { per_tensor = "50 us", cpu = { per_message = "20 us" } } }"#,
                ),
                TWO,
                JITTER,
            ],
        ),
        (
            "servers on the cores of loaders",
            [
                &fifo[..],
                &[
                    (
                        PARAMETER_SERVER,
                        r#"{ parameters = "5 MB", consistency = { stale = 1 }, servers = 2,
                        server = { placement = "with-workers", update = "5 GB/s" } }"#,
                    ),
                    JITTER,
                ],
            ]
            .concat(),
        ),
        (
            "elastic averaging",
            vec![(elastic, r#"{ parameters = "5 MB", period = 3 }"#), TWO, JITTER],
        ),
        (
            "elastic averaging in step",
            vec![
                (elastic, r#"{ parameters = "5 MB", period = 3, consistency = "synchronous" }"#),
                JITTER,
            ],
        ),
        (
            "servers, with launches and batches on their way",
            vec![
                (PARAMETER_SERVER, r#"{ parameters = "5 MB", consistency = "asynchronous" }"#),
                ("cluster.node.pcie", "\"1 GB/s\""),
                ("job.model.launch", r#"{ work = "700 us", threads = 2, overlap = false }"#),
                (
                    "job.loader",
                    r#"{ pytorch = { workers = 3, decode = "300 us", ipc = "1 GB/s", to_device = true } }"#,
                ),
            ],
        ),
        ("learners", vec![(LEARNERS, "3"), HALF, JITTER]),
        ("averaged learners", vec![(LEARNERS, "2"), HALF, (AVERAGING, averaged), JITTER, MEMORY]),
        (
            "averaged after each step",
            vec![(AVERAGING, r#"{ parameters = "5 MB" }"#), TWO, JITTER, MEMORY, pytorch],
        ),
        (
            "as many as are worth it, each by itself",
            vec![
                (LEARNERS, "{ auto = { window = 4, most = 3 } }"),
                ("job.model.occupancy", "0.3"),
                JITTER,
            ],
        ),
        (
            "as many as are worth it, averaged",
            vec![
                (LEARNERS, "{ auto = { window = 4, most = 3 } }"),
                ("job.model.occupancy", "0.3"),
                (AVERAGING, averaged),
                JITTER,
                MEMORY,
            ],
        ),
    ]
}

/// Returns the number of all samples trained on, and of the fresh ones.
fn samples(job: &JobOutcome) -> (u64, u64) {
    let of = job.steps.iter();
    of.fold((0, 0), |(all, fresh), step| (all + step.samples, fresh + step.fresh))
}

/// Returns the outcomes of `scenario` without failures and with them.
fn with_failures(name: &str, scenario: &Scenario) -> [JobOutcome; 2] {
    let mut plain = scenario.clone();
    plain.jobs[0].failures = None;
    let Ok(mut outcome) = simulate(scenario).whole() else { panic!("{name}: it never ends") };
    let found = outcome.jobs.remove(0);
    assert_whole(&found);
    [simulate(&plain).jobs.remove(0), found]
}

#[test]
fn failures_lose_and_repeat_no_sample_of_any_model_copy() {
    // Expectation: as many steps, samples and fresh samples in total as without failures; each instant of a
    // step has its cause; the job is down for as long as the restarts take. Where the number of learners
    // changes, a step has more or fewer samples: all samples of the epochs, and at most one step in excess.
    for (name, kind) in kinds() {
        for at in [r#""31.7 ms", "90.3 ms""#, r#""23.05 ms", "27 ms", "64.4 ms""#] {
            let failures = format!("{{ at = [{at}], restart = \"10 ms\" }}");
            let more = [("job.failures", failures.as_str())];
            let scenario = changed(&[&EPOCHS[..], &kind, &more].concat());
            let [plain, failed] = with_failures(name, &scenario);
            if name.starts_with("as many") {
                let (_, fresh) = samples(&failed);
                assert!((1984..1984 + 6 * 16).contains(&fresh), "{name}: {fresh}");
                continue;
            }
            assert_eq!(failed.steps.len(), plain.steps.len(), "{name}");
            assert_eq!(samples(&failed), samples(&plain), "{name}");
            let recovery = failed.recovery.as_ref().expect("failures");
            assert!(recovery.checkpoints > 2, "{name}: {recovery:?}");
            let down = if at.contains("27 ms") { 13.95e-3 + 0.01 } else { 0.02 };
            assert!((recovery.down_seconds - down).abs() < 1e-9, "{name}: {recovery:?}");
            assert!(end(&failed) > 0.99 * end(&plain) + down, "{name}");
        }
    }
}

#[test]
fn jobs_with_failures_at_any_instant_finish_with_all_samples() {
    // System: each kind with random failures, in bursts, restarted at once; state is saved whenever possible.
    // Expectation: the run ends with all its samples, and a second run is identical.
    for (case, (name, kind)) in kinds().into_iter().enumerate() {
        for seed in ["1", "2", "3"] {
            let shape = ["0.7", "1", "3"][case % 3];
            let failures = format!("{{ mtbf = \"50 ms\", shape = {shape}, restart = \"0 s\" }}");
            let beside = case % 2 == 0;
            let often = format!(
                "{{ steps = 1, bytes = \"1 kB\", storage = \"c\", asynchronous = {beside} }}"
            );
            let more = [
                ("run.seed", seed),
                ("job.failures", failures.as_str()),
                ("job.checkpoint", often.as_str()),
            ];
            let scenario = changed(&[&EPOCHS[..], &kind, &more].concat());
            let [plain, found] = with_failures(name, &scenario);
            let recovery = found.recovery.as_ref().expect("failures");
            assert!(recovery.failures > 0, "{name}: {recovery:?}");
            if !name.starts_with("as many") {
                assert_eq!(samples(&found), samples(&plain), "{name}");
            }
            assert_eq!(simulate(&scenario), simulate(&scenario), "{name}");
        }
    }
}

#[test]
fn resuming_at_the_epoch_start_repeats_samples_of_asynchronous_model_copies() {
    // System: each kind, one failure after a checkpoint, and `resume = "epoch"`. Expectation: repeated samples
    // are not fresh: as many fresh samples as without the failure, up to two steps in excess, and more samples
    // in total.
    for (name, kind) in kinds().into_iter().filter(|(name, _)| !name.starts_with("as many")) {
        let failures = r#"{ at = ["90 ms"], restart = "1 ms", resume = "epoch" }"#;
        let more = [("job.failures", failures)];
        let scenario = changed(&[&EPOCHS[..], &kind, &more].concat());
        let [plain, found] = with_failures(name, &scenario);
        let ((all, fresh), (plain_all, plain_fresh)) = (samples(&found), samples(&plain));
        let step = plain.steps[0].samples;
        assert!((plain_fresh..=plain_fresh + 2 * step).contains(&fresh), "{name}: {fresh}");
        assert!(all > plain_all, "{name}: {all}");
    }
}
