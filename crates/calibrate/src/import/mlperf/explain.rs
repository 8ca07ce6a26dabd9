//! Where the time goes that an accelerator utilisation lacks.

use super::run::{RankSteps, Round, Run, mean};
use crate::import::dlio::beside;

/// Ranks whose steps are read at most.
pub const MOST_RANKS: u32 = 1024;

/// Points of utilisation by which parts may exceed what is lacking, because figures are printed rounded.
const ROUNDED: f64 = 0.1;

/// A part of the time that a run's utilisation lacks.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// What takes the time.
    pub what: &'static str,
    /// Points of utilisation.
    pub points: f64,
}

/// Where the time goes that a run's utilisation lacks.
#[derive(Debug, Clone, PartialEq)]
pub struct Explained {
    /// Utilisation.
    pub utilisation: f64,
    /// Parts that add up to what it lacks, in order of size.
    pub parts: Vec<Part>,
    /// Points of waiting for batches, if the run has the times of its steps.
    pub waited: Option<f64>,
    /// What the parts are known from.
    pub basis: String,
}

/// Explains a run's utilisation: by the times of each rank's steps where the run has them, otherwise by what ranks do beside computing on
/// other systems.
#[must_use]
pub fn explain(run: &Run) -> Explained {
    let of_steps: Vec<[f64; 3]> =
        run.steps.iter().filter_map(|ranks| of_epoch(run, ranks)).collect();
    let utilisation = mean(&run.utilisation);
    let lacks = 100.0 * (1.0 - utilisation);
    let [first, handing, storage] =
        [0, 1, 2].map(|index| mean(&of_steps.iter().map(|of| of[index]).collect::<Vec<_>>()));
    // What is left lies between the end of computing and the next step.
    let rest = lacks - first - handing - storage;
    if of_steps.is_empty() || rest < -ROUNDED {
        let (mut parts, basis) = by_others(run, lacks);
        parts.sort_by(|a, b| b.points.total_cmp(&a.points));
        return Explained { utilisation, parts, waited: None, basis };
    }
    let mut parts = vec![
        Part { what: "waiting for the slowest rank's first batch", points: first },
        Part { what: "taking batches from the loader", points: handing },
        Part { what: "waiting for batches", points: storage },
        Part { what: "barrier and bookkeeping between steps", points: rest.max(0.0) },
    ];
    let of_all = "from the times of each rank's steps";
    let basis = match run.accelerators > MOST_RANKS {
        true => format!("{of_all}, the first {MOST_RANKS} of {} ranks", run.accelerators),
        false => of_all.to_owned(),
    };
    parts.sort_by(|a, b| b.points.total_cmp(&a.points));
    Explained { utilisation, parts, waited: Some(storage), basis }
}

/// Returns three parts of an epoch in points of utilisation: waiting for the slowest rank's first batch, taking batches, and waiting for
/// them. `None` if the steps of ranks are missing.
fn of_epoch(run: &Run, ranks: &[RankSteps]) -> Option<[f64; 3]> {
    if ranks.len() < run.accelerators.min(MOST_RANKS) as usize {
        return None;
    }
    let firsts: Vec<f64> = ranks.iter().filter_map(|of| of.process.first().copied()).collect();
    let first = mean(&firsts);
    let slowest = firsts.iter().copied().fold(0.0, f64::max);
    let steps = ranks.iter().map(|of| of.process.len()).min().filter(|steps| *steps > 1)?;
    // Time of an epoch without the mean of the ranks' own first steps: over it utilisation is taken.
    let whole = (steps as f64 - 1.0) * run.workload.step.mean() / mean(&run.utilisation);
    let later = |of: &RankSteps| -> (f64, f64) {
        let mut loads: Vec<f64> = of.load[1..].to_vec();
        loads.sort_by(f64::total_cmp);
        let usual = loads[loads.len() / 2];
        let waited: f64 = loads.iter().map(|load| (load - 2.0 * usual).max(0.0)).sum();
        (loads.iter().sum::<f64>() - waited, waited)
    };
    let each: Vec<(f64, f64)> = ranks.iter().filter(|of| of.load.len() > 1).map(later).collect();
    let handing = mean(&each.iter().map(|of| of.0).collect::<Vec<_>>());
    let waited = mean(&each.iter().map(|of| of.1).collect::<Vec<_>>());
    let barrier = match run.round {
        Round::CountsFirst => slowest - first,
        Round::LeavesOutFirst => 0.0,
    };
    Some([barrier, handing, waited].map(|seconds| 100.0 * seconds / whole))
}

const KEEP: &str = "keep N_output.json of each rank to see the times of its steps";

/// Returns the parts of a run without its ranks' steps: what ranks do beside computing on other systems, and the rest.
fn by_others(run: &Run, lacks: f64) -> (Vec<Part>, String) {
    let step = run.workload.step.mean();
    let known = beside(&run.workload.name, step);
    let Some((beside, source)) = known else {
        let parts = vec![Part { what: "storage, host and barrier together", points: lacks }];
        return (parts, format!("and the summary does not say where they go; {KEEP}"));
    };
    let slowest = beside.slowest(run.accelerators, run.hosts, run.cores.unwrap_or(64));
    let usual = (100.0 * slowest / run.steady_step()).min(lacks);
    let rest = match run.round {
        Round::CountsFirst => "storage, the slowest rank's first batch, or a slower host",
        Round::LeavesOutFirst => "storage, or a slower host",
    };
    let parts = vec![
        Part { what: "host and barrier, as in other submitters' results", points: usual },
        Part { what: rest, points: lacks - usual },
    ];
    (parts, format!("estimated from {source}; {KEEP}"))
}

#[cfg(test)]
mod tests {
    use super::super::{RunTexts, read};
    use super::*;

    const CONFIGURATION: &str = "workload: {model: unet3d, framework: pytorch, dataset: {num_files_train: 40, record_length: 1000000}, \
                                 reader: {batch_size: 2, read_threads: 4}, train: {computation_time: 1.0, epochs: 1}}";

    fn texts() -> RunTexts {
        // Two ranks of ten steps of 1 s. First steps take 3 and 5 s; later ones wait 0.1 s for their batch, and once 2.1 s; 0.05 s go by
        // between steps.
        let output = |first: f64| {
            let load = |step: usize| match step {
                0 => first - 1.0,
                4 => 2.1,
                _ => 0.1,
            };
            let loads: Vec<f64> = (0..10).map(load).collect();
            let process: Vec<f64> = loads.iter().map(|load| load + 1.0).collect();
            format!(
                r#"{{"1": {{"load": {{"block1": {loads:?}}}, "proc": {{"block1": {process:?}}}, "compute": {{"block1": [1.0]}}}}}}"#
            )
        };
        // 5 s for the slowest first step, then 9 steps of 1.1 s and 2 s more, and 10 times 0.05 s.
        let whole: f64 = 5.0 + 9.0 * 1.1 + 2.0 + 0.5;
        let utilisation = 100.0 * (9.0 / (whole - 3.0) + 9.0 / (whole - 5.0)) / 2.0;
        let rate = 40.0 / whole;
        RunTexts {
            summary: format!(
                r#"{{"num_accelerators": 2, "num_hosts": 1, "host_cpu_count": [32], "metric": {{"train_au_percentage": [{utilisation}],
                "train_throughput_samples_per_second": [{rate}]}}}}"#
            ),
            epochs: Some(format!(r#"{{"1": {{"block1": {{"duration": "{whole:.4}"}}}}}}"#)),
            configuration: vec![CONFIGURATION.to_owned()],
            outputs: vec![output(3.0), output(5.0)],
        }
    }

    #[test]
    fn the_times_of_steps_split_what_utilisation_lacks() {
        let run = read(&texts()).expect("a run");
        assert_eq!(run.round, Round::CountsFirst);
        assert_eq!(
            (run.accelerators, run.hosts, run.cores, run.steps_of_epoch()),
            (2, 1, Some(32), 10)
        );
        let found = explain(&run);
        let points = |what: &str| {
            found
                .parts
                .iter()
                .find(|part| part.what.contains(what))
                .map(|part| part.points)
                .expect(what)
        };
        let whole = 9.0 / mean(&run.utilisation);
        assert!((points("slowest rank's first batch") - 100.0 / whole).abs() < 0.1, "{found:?}");
        assert!((points("taking batches") - 100.0 * 1.0 / whole).abs() < 1.0, "{found:?}");
        assert!((points("waiting for batches") - 100.0 * 1.9 / whole).abs() < 1.0, "{found:?}");
        let sum: f64 = found.parts.iter().map(|part| part.points).sum();
        assert!((sum - 100.0 * (1.0 - found.utilisation)).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn without_steps_other_systems_tell_how_much_is_host_and_barrier() {
        let run = read(&RunTexts { outputs: Vec::new(), ..texts() }).expect("a run");
        let found = explain(&run);
        assert_eq!(found.parts.len(), 2);
        assert!(found.basis.contains("official results"), "{}", found.basis);
        let sum: f64 = found.parts.iter().map(|part| part.points).sum();
        assert!((sum - 100.0 * (1.0 - found.utilisation)).abs() < 1e-9);
    }

    #[test]
    fn steps_of_some_ranks_or_longer_than_the_epoch_explain_nothing() {
        for change in [(|of: &mut RunTexts| drop(of.outputs.pop())) as fn(&mut RunTexts), |of| {
            of.outputs[0] = of.outputs[0].replace("0.1", "0.9")
        }] {
            let mut texts = texts();
            change(&mut texts);
            let found = explain(&read(&texts).expect("a run"));
            assert_eq!((found.parts.len(), found.waited), (2, None), "{found:?}");
        }
    }

    #[test]
    fn epochs_keep_their_own_durations() {
        let mut texts = texts();
        texts.summary = texts.summary.replace("_per_second\": [", "_per_second\": [2, ");
        texts.summary = texts.summary.replace("_percentage\": [", "_percentage\": [50, ");
        texts.epochs = Some("{\"2\": {\"block1\": {\"duration\": \"17.4\"}}}".to_owned());
        assert_eq!(read(&texts).expect("a run").durations, [None, Some(17.4)]);
    }

    #[test]
    fn the_first_batch_lies_between_the_two_figures_of_the_first_round() {
        let run = read(&texts()).expect("a run");
        // The ranks wait 2 and 4 s: 3 s in the mean. The run's figures give it within 0.1 s, because they average the ranks' utilisations.
        assert!((run.first_batch().expect("steps") - 3.0).abs() < 0.1, "{:?}", run.first_batch());
    }

    #[test]
    fn hostile_folders_are_refused_with_the_file_and_the_key() {
        let changed = |from: &'static str, to: &'static str| {
            move |of: &mut RunTexts| {
                assert!(of.outputs[0].contains(from));
                of.outputs[0] = of.outputs[0].replacen(from, to, 1);
            }
        };
        let refused = |change: &dyn Fn(&mut RunTexts)| {
            let mut texts = texts();
            change(&mut texts);
            read(&texts).expect_err("refused").to_string()
        };
        assert!(refused(&|of| of.summary = "[1".into()).starts_with("summary.json: not JSON"));
        assert!(refused(&|of| of.summary = "{}".into()).contains("`num_accelerators` is missing"));
        assert!(
            refused(&|of| of.summary =
                of.summary.replace("\"num_accelerators\": 2", "\"num_accelerators\": 1e99"))
            .contains("from 1 to 1,000,000")
        );
        assert!(
            refused(&|of| of.summary = of.summary.replace("\"num_hosts\": 1", "\"num_hosts\": 3"))
                .contains("more than the 2")
        );
        assert!(
            refused(
                &|of| of.summary = of.summary.replace("_per_second\": [", "_per_second\": [1, ")
            )
            .contains("different numbers of epochs")
        );
        assert!(
            refused(&|of| of.epochs = Some("{\"1\": {}}".into()))
                .contains("per_epoch_stats.json: epoch 1")
        );
        assert!(
            refused(&|of| of.outputs[1] = "{\"1\": {}}".into()).contains("1_output.json: epoch 1")
        );
        assert!(
            refused(&changed("[2.0", "[-2.0"))
                .contains("0_output.json: epoch 1 has -2.0 in `load`")
        );
        assert!(refused(&changed("[2.0", "[1e300")).contains("from 0 to"));
        assert!(
            refused(&|of| {
                of.configuration[0] =
                    of.configuration[0].replace("num_files_train: 40", "num_files_train: 4");
            })
            .contains("less than two steps of 2 samples on each of 2 accelerators")
        );
        assert!(refused(&|of| of.configuration.clear()).contains("configuration"));
    }

    #[test]
    fn cores_of_hosts_that_ranks_share_are_divided_again() {
        // Hammerspace's run of ten accelerators on five hosts of 128 cores says 256, 256, 128, 0, 0.
        let summary = texts()
            .summary
            .replace("\"num_hosts\": 1", "\"num_hosts\": 2")
            .replace("[32]", "[64, 0]");
        assert_eq!(read(&RunTexts { summary, ..texts() }).expect("a run").cores, Some(32));
    }
}
