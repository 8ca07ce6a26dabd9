//! What failures and checkpoints cost, and how often checkpoints are worth writing.

use super::figures::RecoveryReport;
use super::sample::over_replications;
use super::window::ratio;
use super::{JobOutcome, RecoveryOutcome};
use forebay_engine::stats::mean;
use forebay_model::law::RecoveryLaw;
use forebay_scenario::{Every, FailureTimes, Job};

/// Returns the cost of failures and checkpoints of a job, from its copies, grouped by replication; `None` if they are not simulated.
pub(super) fn recovery(job: &Job, copies: &[Vec<&JobOutcome>]) -> Option<RecoveryReport> {
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
    Some(RecoveryReport {
        failures,
        lost: figure(|of| Some(of.lost_seconds)),
        down: figure(|of| Some(of.down_seconds)),
        checkpoints: figure(|of| Some(of.checkpoints as f64)),
        checkpoint_time: writing,
        checkpoint_bytes: figure(|of| ratio(of.written, of.checkpoints as f64)),
        best_interval: writing.mean.and_then(|writing| best_interval(job, writing)),
    })
}

/// Returns the best interval by Daly's estimate for checkpoints that take `writing` [s] to write [s]; `None` unless failures come
/// at a constant rate and checkpoints are written at intervals of time.
fn best_interval(job: &Job, writing: f64) -> Option<f64> {
    let FailureTimes::Random { mtbf, shape } = job.failures.as_ref()?.when else { return None };
    let checkpoint = job.checkpoint.as_ref()?;
    if shape != 1.0 || !matches!(checkpoint.every, Every::Seconds(_)) {
        return None;
    }
    let law = RecoveryLaw {
        mtbf: mtbf / f64::from(job.failing_nodes()),
        checkpoint: if checkpoint.asynchronous { checkpoint.pause } else { writing },
        restart: 0.0,
    };
    Some(law.best_interval()).filter(|interval| *interval > 0.0)
}
