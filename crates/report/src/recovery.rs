//! What failures and checkpoints cost, and how often checkpoints are worth writing.

use super::figures::RecoveryReport;
use super::format::seconds;
use super::sample::over_replications;
use super::window::ratio;
use super::{JobOutcome, RecoveryOutcome};
use forebay_engine::stats::mean;
use forebay_model::law::RecoveryLaw;
use forebay_scenario::{Every, FailureTimes, Job, Scenario};

/// Returns the cost of failures and checkpoints of a job, from its copies, grouped by replication; `None` if they are not
/// simulated. `step` is the job's mean step time [s].
pub(super) fn recovery(
    scenario: &Scenario,
    job: &Job,
    copies: &[Vec<&JobOutcome>],
    step: Option<f64>,
) -> Option<RecoveryReport> {
    let figure = |of: fn(&RecoveryOutcome) -> Option<f64>| {
        let one = |copies: &Vec<&JobOutcome>| {
            let each = copies.iter().filter_map(|copy| of(copy.recovery.as_ref()?));
            mean(&each.collect::<Vec<_>>())
        };
        over_replications(&copies.iter().filter_map(one).collect::<Vec<_>>())
    };
    let failures = figure(|of| Some(of.failures as f64));
    failures.mean?;
    let writing = figure(|of| ratio(of.writing_seconds, of.checkpoints as f64));
    let interval = interval(job, step);
    // The measured time down per failure. It includes reading the checkpoint back, which the scenario's `restart` does not.
    let restart = figure(|of| ratio(of.down_seconds, of.failures as f64)).mean;
    let postponed = figure(|of| Some(of.postponed as f64));
    let waits = postponed.mean.is_some_and(|postponed| postponed > 0.0);
    let law = writing.mean.map(|writing| law(scenario, job, (writing, waits), restart));
    let (law, why) = match law {
        Some(Ok(law)) => (Some(law), None),
        Some(Err(why)) => (None, why),
        None => (None, None),
    };
    let best = law.map(|law| law.best_interval()).filter(|best| *best > 0.0);
    let cost = |interval: Option<f64>| Some(1.0 - 1.0 / law?.expected_time(1.0, interval?));
    Some(RecoveryReport {
        failures,
        lost: figure(|of| Some(of.lost_seconds)),
        down: figure(|of| Some(of.down_seconds)),
        from_start: figure(|of| Some(of.from_start as f64)),
        read_backs: figure(|of| Some(of.read_backs as f64)),
        read_back_bytes: figure(|of| ratio(of.read_back, of.read_backs as f64)),
        read_back_time: figure(|of| ratio(of.reading_seconds, of.read_backs as f64)),
        checkpoints: figure(|of| Some(of.checkpoints as f64)),
        checkpoint_time: writing,
        checkpoint_bytes: figure(|of| ratio(of.written, of.checkpoints as f64)),
        checkpoint_overlap: figure(|of| ratio(of.overlap_seconds, of.transfer_seconds)),
        postponed,
        postponed_time: figure(|of| Some(of.postponed_seconds)),
        backlog: figure(|of| Some(of.backlog as f64)),
        backlog_bytes: figure(|of| Some(of.backlog_bytes)),
        unwritten: figure(|of| Some(of.unwritten as f64)),
        interval,
        best_interval: best,
        interval_cost: cost(interval),
        best_cost: cost(best),
        no_best_interval: why,
    })
}

/// Returns the interval between checkpoints [s]; `None` if none are written.
fn interval(job: &Job, step: Option<f64>) -> Option<f64> {
    match job.checkpoint.as_ref()?.every {
        Every::Seconds(seconds) => Some(seconds),
        Every::Steps(steps) => Some(steps as f64 * step?),
    }
}

/// Returns the law of a job that fails, whose checkpoints take `writing` [s] to write, and which is down for `restart` [s] after a
/// failure (what the scenario says if no failure was seen). `waits`: checkpoints fall due while the previous one is being written, and
/// training waits. Without such a law, returns why, in words; `None` if the job does not fail or writes no checkpoints.
fn law(
    scenario: &Scenario,
    job: &Job,
    (writing, waits): (f64, bool),
    restart: Option<f64>,
) -> Result<RecoveryLaw, Option<String>> {
    let (failures, checkpoint) = job.failures.as_ref().zip(job.checkpoint.as_ref()).ok_or(None)?;
    if checkpoint.is_lost_with_nodes(&scenario.storage[checkpoint.storage], failures.node) {
        let why = "no interval is the best one, since a failed node takes its part of the checkpoints with it";
        return Err(Some(why.to_owned()));
    }
    let FailureTimes::Random { mtbf, shape: 1.0 } = failures.when else {
        let why = "Daly's estimate of the best interval holds only for failures at a constant rate";
        return Err(Some(why.to_owned()));
    };
    if waits {
        return Err(Some(format!(
            "checkpoints fall due while the previous one is being written, and training waits: an interval shorter than the {} \
             that writing takes brings nothing",
            seconds(writing)
        )));
    }
    let pause = if checkpoint.asynchronous { checkpoint.pause } else { writing };
    if pause <= 0.0 {
        return Err(Some(format!(
            "training waits for no checkpoint, so the shorter the interval, the less work is lost; it is bounded only by \
             the {} that a checkpoint takes to write",
            seconds(writing)
        )));
    }
    let mtbf = mtbf / f64::from(job.failing_nodes());
    // A failure during a restart adds less than a whole restart to the measured time down. The law takes such failures
    // into account itself, so it gets at least the scenario's restart time.
    let restart = restart.map_or(failures.restart, |seen| seen.max(failures.restart));
    Ok(RecoveryLaw { mtbf, checkpoint: pause, restart })
}
