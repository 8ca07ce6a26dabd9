//! Collects the outcome of a job copy from the state that its threads share.

use super::fault::Failure;
use super::task::{CopyOutcome, CopyTask};
use forebay_engine::Time;
use forebay_engine::stats::LogHistogram;
use forebay_live_queue::{LoaderRun, State};
use forebay_metrics::{Requests, Tuner, add_steps};
use forebay_report::JobOutcome;

/// Returns the outcome of the job copy, whose start was planned for `planned`.
pub(super) fn part(
    state: &mut State,
    part: &CopyTask,
    planned: Time,
) -> Result<CopyOutcome, Failure> {
    if let Some(why) = state.failure.take() {
        return Err(Failure::Lacking(why));
    }
    let end = state.ended.unwrap_or(planned);
    Ok(CopyOutcome {
        job: job(state, part, end),
        trace: state.recorder.take().map(|recorder| recorder.finish(end)),
        reading: state.reading.seconds(),
        ..CopyOutcome::default()
    })
}

fn job(state: &mut State, part: &CopyTask, end: Time) -> JobOutcome {
    let (steps, stalls) = state.training.steps.finish(state.training.devices.len());
    let mut outcome = JobOutcome {
        job: part.job,
        copy: part.copy,
        start: state.began.seconds(),
        steps,
        stalls,
        ..JobOutcome::default()
    };
    let mut ages = LogHistogram::default();
    for l in 0..state.loaders.len() {
        outcome.queue.workers += state.deliverers(l);
        loader(&mut state.loaders[l], end, &mut outcome, &mut ages);
    }
    let loaders = state.loaders.len() as f64;
    outcome.steps.iter_mut().for_each(|step| step.queue.empty_seconds /= loaders);
    outcome.queue.ages = ages.iter().collect();
    outcome.queue.exhaustions.sort_by(|a, b| a.start.total_cmp(&b.start));
    add_steps(&outcome.steps, outcome.start, &mut outcome.series);
    outcome
}

/// Adds the measurements of one loader to the outcome.
fn loader(loader: &mut LoaderRun, end: Time, outcome: &mut JobOutcome, ages: &mut LogHistogram) {
    let totals = loader.queue.totals(end);
    loader.queue.collect(end, &mut outcome.queue);
    let deliveries = loader.requests.as_mut().map_or(Vec::new(), Requests::deliveries);
    outcome.deliveries.extend(deliveries);
    outcome.first_batches.extend(loader.first_batches.taken());
    if outcome.tuned.is_empty() {
        outcome.tuned = loader.tuner.as_ref().map_or(Vec::new(), Tuner::settled);
    }
    if let Some(of_queue) = loader.queue.ages() {
        ages.merge(of_queue);
    }
    let counts = &mut outcome.samples;
    counts.started += loader.started;
    counts.enqueued += totals.enqueued;
    counts.in_progress += loader.in_progress;
    counts.dequeued += totals.dequeued;
    counts.overwritten += loader.queue.overwritten();
    counts.left += loader.queue.left();
    if let Some(snapshots) = loader.queue.snapshots() {
        snapshots.add_to(totals, &mut outcome.series);
    }
}
