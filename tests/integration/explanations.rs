//! Logs of runs with a known cause, explained by the fit of `forebay validate --measured`.

use forebay::profile::Profile;
use forebay::scenario::{Override, Problems, Scenario, ScenarioFile};
use forebay::validate::{
    Explanation, Factors, Limit, Observed, Refit, candidates, figures, refit, resolve, simulate,
    telling,
};
use rayon::prelude::*;
use std::convert::Infallible;

/// Workers that need 9 ms for a sample, 8 ms of it on one of eight cores, and steps of 10 ms for 8 samples: nothing but the workers
/// limits seven of them.
const SCENARIO: &str = r#"
name = "log"
[run]
steps = 24
warm_up = 8
replications = 1
[cluster]
nodes = 1
node = { gpus = 1, cores = 8 }
[storage.disk.local-disk]
bandwidth = "2 GB/s"
latency = "1 ms"
[dataset.d]
samples = 20000
sample_size = "200 kB"
[[job]]
name = "net"
dataset = "d"
storage = "disk"
batch = 8
model.step = "10 ms"
loader.pytorch = { workers = 1, decode = { lognormal = { mean = "8 ms", cv = 0.3 } }, persistent_workers = true }
"#;

/// A log: what holds, and the limit that shows in the rows with many workers; `None`: the workers themselves.
type Log = (&'static str, Factors, Option<Limit>);

/// Returns twelve logs: six causes alone, and six pairs.
fn logs() -> Vec<Log> {
    let as_written = Factors::default();
    let slow = Factors { sample: 1.5, ..as_written };
    vec![
        ("step", Factors { step: 2.0, ..as_written }, Some(Limit::Step)),
        ("cores", Factors { cores: 0.4, ..as_written }, Some(Limit::Cores)),
        ("server", Factors { server: 80e6, ..as_written }, Some(Limit::Server)),
        ("lock", Factors { lock: 0.31, ..as_written }, Some(Limit::Lock)),
        ("batch", Factors { batch: 10e-3, ..as_written }, Some(Limit::Batch)),
        ("latency", Factors { sample: 2.0, ..as_written }, None),
        ("latency, step", Factors { step: 2.0, ..slow }, Some(Limit::Step)),
        ("latency, cores", Factors { cores: 0.5, ..slow }, Some(Limit::Cores)),
        ("latency, server", Factors { server: 80e6, ..slow }, Some(Limit::Server)),
        ("latency, lock", Factors { lock: 0.25, ..slow }, Some(Limit::Lock)),
        ("latency, batch", Factors { batch: 10e-3, ..slow }, Some(Limit::Batch)),
        ("cores, step", Factors { cores: 0.4, step: 1.5, ..as_written }, Some(Limit::Cores)),
    ]
}

fn overrides(set: &[String]) -> Result<Vec<Override>, Problems> {
    set.iter().map(|text| text.parse()).collect()
}

fn scenario(set: &[String]) -> Option<Scenario> {
    let file = ScenarioFile::parse("log.toml", SCENARIO.to_owned()).expect("TOML");
    resolve(&file, &overrides(set).ok()?, &Profile::default()).ok()
}

/// Returns the figures of a run with these keys and changes; `None` if it is not possible.
fn run(set: &[String], factors: Factors) -> Option<Observed> {
    figures(&factors.applied(scenario(set)?)).expect("a short run")
}

/// Returns the keys of a run with so many workers.
fn workers(number: u32) -> Vec<String> {
    vec![format!("job.loader.pytorch.workers={number}")]
}

/// Fits rows of these keys, which were run under `truth`; throughput is all that was logged, 1 % off.
fn fitted(rows: &[Vec<String>], truth: Factors) -> Refit {
    let scenarios: Vec<Scenario> = rows.iter().map(|set| scenario(set).expect("a row")).collect();
    let measured = rows.iter().zip([1.01, 0.99, 1.01, 0.99]).map(|(set, off)| {
        let found = run(set, truth).expect("a row");
        let (rate, step) = (found.samples_per_second * off, found.step_time / off);
        let unknown = f64::NAN;
        Observed { samples_per_second: rate, step_time: step, stall: unknown, ..found }
    });
    let measured: Vec<Observed> = measured.collect();
    let bytes: Vec<f64> = measured.iter().map(|row| row.samples_per_second * 200e3).collect();
    let simulate = |all: &[Factors]| {
        let of = |factors: &Factors| {
            let each = |scenario: &Scenario| figures(&factors.applied(scenario.clone()));
            scenarios.iter().map(|scenario| each(scenario).expect("a short run")).collect()
        };
        Ok::<_, Infallible>(all.par_iter().map(of).collect())
    };
    let found = refit(&measured, &Explanation::all(&measured, &bytes), simulate);
    found.expect("nothing fails").expect("rows")
}

fn limits(refit: &Refit) -> Vec<Limit> {
    refit.explanations.iter().map(|of| of.limit).collect()
}

/// Returns what is wrong with the answer to a log of 1 and 8 workers; empty if nothing is. The truth must be among the explanations
/// that are kept, the interval for 16 workers on 16 cores must hold what comes, and the run that is proposed must rule out some of the
/// others, but not the truth.
fn wrong((name, truth, limit): &Log) -> Vec<String> {
    let rows = [workers(1), workers(8)];
    let found = fitted(&rows, *truth);
    let kept = limits(&found);
    let mut wrong = Vec::new();
    let mut check = |is_right: bool, what: String| {
        if !is_right {
            wrong.push(format!("{name}: {what}"));
        }
    };
    match limit {
        Some(limit) => check(kept.contains(limit), format!("kept {kept:?}")),
        None => {
            check(kept == [Limit::Step], format!("kept {kept:?}, though workers are the limit"))
        }
    }
    let sample = found.best().sample.value / truth.sample;
    check(
        limit == &Some(Limit::Server) || (0.9..1.1).contains(&sample),
        format!("a sample takes {sample}"),
    );
    let more = [workers(16), vec!["cluster.node.cores=16".to_owned()]].concat();
    let file = ScenarioFile::parse("log.toml", SCENARIO.to_owned()).expect("TOML");
    let set = overrides(&more).expect("keys");
    let predicted =
        simulate(&file, &set, &Profile::default(), 60, Some(&found), 0.0).expect("a run");
    let [low, high] = predicted.predict(&Profile::default()).expect("steps").interval;
    let comes = run(&more, *truth).expect("a run").samples_per_second;
    check(
        (0.98 * low..=1.02 * high).contains(&comes),
        format!("{comes} is not in {low} to {high}"),
    );
    if kept.len() > 1 {
        let proposed = candidates(&scenario(&rows[1]).expect("a row"));
        let with = |set: &[String], factors| run(&[&rows[1], set].concat(), factors);
        let told = telling(proposed, &found.explanations, with);
        let Some(told) = told else {
            check(false, "no run would tell".to_owned());
            return wrong;
        };
        let further = [&rows[1][..], &told.set].concat();
        let then = limits(&fitted(&[rows[0].clone(), rows[1].clone(), further], *truth));
        let holds = limit.is_none_or(|limit| then.contains(&limit));
        check(
            holds && then.len() < kept.len(),
            format!("{:?}: {kept:?} became {then:?}", told.set),
        );
    }
    wrong
}

#[test]
fn twelve_logs_keep_their_true_explanation_and_the_proposed_run_tells_it_from_others() {
    let wrong: Vec<String> = logs().par_iter().flat_map_iter(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
