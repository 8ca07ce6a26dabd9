//! Verdicts on jobs whose model copies exchange gradients or models only after several steps.

use super::judged;
use crate::runs::Case;
use forebay::report::Verdict;

/// Four model copies that average 4 GB of parameters every 20 steps around a ring of NICs with 1 GB/s.
const RARE: &str = r#"
name = "rare"
[run]
steps = 200
warm_up = "off"
replications = 1
[cluster]
nodes = 4
node = { cores = 16, gpus = 4, intra = { kind = "switch", bandwidth = "100 GB/s", latency = "5 us" } }
network = { nic = "1 GB/s", latency = "1 ms" }
[storage.memory.memory]
[dataset.d]
samples = 1000000
sample_size = "8 kB"
[[job]]
name = "j"
dataset = "d"
storage = "memory"
nodes = 4
batch = 16
loader.in-memory = {}
model.step = "400 ms"
[job.sync.allreduce]
gradients = "4 GB"
period = 20
algorithm = "ring"
"#;

/// Returns the step time that the verdict promises for the limit with this key [s]; `None` if it does not say that this helps.
fn promised(verdict: &Verdict, key: &str) -> Option<f64> {
    verdict.limits.iter().find(|limit| limit.key == key).map(|limit| limit.after)
}

#[test]
fn trials_of_a_verdict_cover_whole_periods_between_exchanges() {
    // System: steps of 400 ms, or of 137.5 ms in four stages, and rings of 6 s, or of 4 × 1 GB over the same NICs, every 20
    // steps. Expectation: with NICs twice as fast a step takes 150 ms less, and with a period twice as long too.
    let stages =
        ("job.parallel.pipeline", "{ stages = 4, schedule = \"1f1b\", micro_batches = 8 }");
    let ring = 6.0 * (1.0 + 1e-3);
    for (changes, step) in [(vec![], 0.4), (vec![stages], 0.1375)] {
        let (report, verdict) = judged(&Case::written(RARE, &changes));
        let found = report.jobs[0].figures.step_time.mean.expect("steps");
        assert!((found - step - ring / 20.0).abs() < 2e-3, "{found}");
        let half = step + ring / 40.0;
        let nic = promised(&verdict, "cluster.network.nic").expect("NICs help");
        assert!((nic - half).abs() < 0.01 * half, "{nic}, not {half}");
        if let Some(period) = promised(&verdict, "job.j.sync.allreduce.period") {
            assert!((period - half).abs() < 0.01 * half, "{period}, not {half}");
        }
    }
}

#[test]
fn the_advice_on_exchanges_names_the_keys_of_the_job() {
    // System: the same bytes at each step, through parameter servers, a root, or allreduces. Expectation: only an allreduce has a
    // period; the others accumulate gradients. Servers and a root have parameters.
    let texts = [
        (
            "sync.allreduce]\ngradients = \"4 GB\"\nalgorithm = \"ring\"",
            "sync.allreduce.period",
            "sync.allreduce.gradients",
        ),
        (
            "sync.parameter-server]\nparameters = \"4 GB\"",
            "accumulation",
            "sync.parameter-server.parameters",
        ),
        (
            "sync.reduce-broadcast]\nparameters = \"4 GB\"",
            "accumulation",
            "sync.reduce-broadcast.parameters",
        ),
    ];
    for (sync, period, bytes) in texts {
        let start = RARE.split("[job.sync.allreduce]").next().expect("text");
        let (_, verdict) = judged(&Case::written(&format!("{start}[job.{sync}\n"), &[]));
        let keys: Vec<&str> = verdict.limits.iter().map(|limit| limit.key.as_str()).collect();
        let known = |key: &str| keys.contains(&format!("job.j.{key}").as_str());
        assert!(known(period) && known(bytes), "{sync}: {keys:?}");
    }
}

#[test]
fn links_that_are_hardly_used_are_not_named_as_the_next_limit() {
    // System: four stages, whose rings leave the links between the GPUs of a node idle. Expectation: the links inside nodes are not named, since they are used for less than 1 %.
    let stages =
        ("job.parallel.pipeline", "{ stages = 4, schedule = \"1f1b\", micro_batches = 8 }");
    for steps in ["40", "200", "400"] {
        let (_, verdict) = judged(&Case::written(RARE, &[stages, ("run.steps", steps)]));
        let nic = verdict.limits.iter().find(|limit| limit.key == "cluster.network.nic");
        let next = nic.expect("NICs help").next.clone().unwrap_or_default();
        assert!(!next.contains("links between"), "{steps} steps: {next}");
    }
}
