//! Metrics of a job: its speed, its stalls, and its results.

use super::Better::{Higher, Lower, Neither};
use super::{LARGEST_STALL, Metric, Unit, Value, number, reciprocal};
use crate::{
    AccuracyReport, Cause, EpochStarts, Figure, JobReport, LearnersReport, RecoveryReport,
    StallCause,
};

/// Returns the metrics of the speed of training, which are columns of sweeps.
pub(super) fn training() -> Vec<Metric> {
    vec![
        Metric::column("step_time", Unit::Seconds, Lower, |_, job| job.figures.step_time)
            .at("jobs.step_time")
            .called("Step time")
            .means("Time from the end of one step to the end of the next."),
        Metric::column("samples_per_second", Unit::SamplesPerSecond, Higher, |_, job| {
            job.figures.samples_per_second
        })
        .at("jobs.samples_per_second")
        .called("Samples per second")
        .means("Samples that one copy of the job trains on, all its ranks together."),
        Metric::column("samples_per_second_max", Unit::SamplesPerSecond, Higher, |_, job| {
            number(job.samples_per_second_max)
        })
        .at("jobs.samples_per_second_max")
        .called("Samples per second max")
        .means("Samples per second of the fastest single step."),
        Metric::column("fresh_samples_per_second", Unit::SamplesPerSecond, Higher, |_, job| {
            job.figures.fresh_samples_per_second
        })
        .at("jobs.fresh_samples_per_second")
        .called("Fresh samples per second")
        .means("Samples per second that this epoch had not trained on before: fewer where batches are repeated."),
        Metric::column("steps_per_second", Unit::StepsPerSecond, Higher, |_, job| {
            reciprocal(&job.figures.step_time)
        })
        .called("Steps per second")
        .means("One over the step time."),
        Metric::column("epoch_time", Unit::Seconds, Lower, |_, job| job.figures.epoch_time)
            .at("jobs.epoch_time")
            .called("Epoch time")
            .means("Time for one pass over the data set at the rate of fresh samples."),
        Metric::column("epochs_per_second", Unit::EpochsPerSecond, Higher, |_, job| {
            reciprocal(&job.figures.epoch_time)
        })
        .called("Epochs per second")
        .means("One over the epoch time."),
        Metric::column("accelerator_utilisation", Unit::Share, Higher, |_, job| {
            job.figures.accelerator_utilisation
        })
        .at("jobs.accelerator_utilisation")
        .called("Accelerator utilisation")
        .means("Time that accelerators compute over elapsed time, as MLPerf Storage defines it."),
        Metric::column("stall", Unit::Share, Lower, |_, job| job.figures.stall.total)
            .at("jobs.stall.total")
            .called("Stall, share of time")
            .means("Share of time that accelerators wait, all causes together."),
    ]
}

/// Returns the metrics of the first epoch and of later ones, which are columns of sweeps. The JSON has all figures of both.
pub(super) fn by_epoch() -> Vec<Metric> {
    vec![
        Metric::column("first_epoch_step_time", Unit::Seconds, Lower, |_, job| {
            job.first_epoch.as_ref().map(|of| of.step_time).unwrap_or_default()
        })
        .called("Step time, first epoch")
        .means("Step time in the first epoch, in which caches are cold; empty if the run does not go beyond it."),
        Metric::column("later_epochs_step_time", Unit::Seconds, Lower, |_, job| {
            job.later_epochs.as_ref().map(|of| of.step_time).unwrap_or_default()
        })
        .called("Step time, later epochs")
        .means("Step time after the first epoch; empty if the run does not go beyond it."),
        Metric::column("first_epoch_utilisation", Unit::Share, Higher, |_, job| {
            job.first_epoch.as_ref().map(|of| of.accelerator_utilisation).unwrap_or_default()
        })
        .called("Accelerator utilisation, first epoch")
        .means("Share of time that accelerators compute in the first epoch; empty if the run does not go beyond it."),
        Metric::column("later_epochs_utilisation", Unit::Share, Higher, |_, job| {
            job.later_epochs.as_ref().map(|of| of.accelerator_utilisation).unwrap_or_default()
        })
        .called("Accelerator utilisation, later epochs")
        .means("Share of time that accelerators compute after the first epoch; empty if the run does not go beyond it."),
    ]
}

fn of_starts(job: &JobReport, of: fn(&EpochStarts) -> Figure) -> Figure {
    job.epoch_starts.as_ref().map(of).unwrap_or_default()
}

/// Returns the metrics of the beginnings of epochs, which are columns of sweeps.
pub(super) fn epoch_starts() -> Vec<Metric> {
    vec![
        Metric::column("first_batch", Unit::Seconds, Lower, |_, job| {
            of_starts(job, |starts| starts.first_batch)
        })
        .at("jobs.epoch_starts.first_batch")
        .called("First batch")
        .means("Time that a rank waits for its first batch of an epoch, mean over epochs and ranks."),
        Metric::column("slowest_first_batch", Unit::Seconds, Lower, |_, job| {
            of_starts(job, |starts| starts.slowest_first_batch)
        })
        .at("jobs.epoch_starts.slowest_first_batch")
        .called("First batch of the slowest rank")
        .means("Time that the rank waits for its first batch of an epoch that waits longest, mean over epochs."),
        Metric::column("first_step", Unit::Seconds, Lower, |_, job| {
            of_starts(job, |starts| starts.first_step)
        })
        .at("jobs.epoch_starts.first_step")
        .called("First step of an epoch")
        .means("Duration of the first step of an epoch, with all waits."),
        Metric::column("mlperf_v1_utilisation", Unit::Share, Higher, |_, job| {
            of_starts(job, |starts| starts.mlperf_v1_utilisation)
        })
        .at("jobs.epoch_starts.mlperf_v1_utilisation")
        .called("Accelerator utilisation, MLPerf Storage v1.0")
        .means(
            "Computing over elapsed time of whole epochs, without each rank's own first step, as MLPerf Storage v1.0 counts.",
        ),
        Metric::column("mlperf_v1_samples_per_second", Unit::SamplesPerSecond, Higher, |_, job| {
            of_starts(job, |starts| starts.mlperf_v1_samples_per_second)
        })
        .at("jobs.epoch_starts.mlperf_v1_samples_per_second")
        .called("Samples per second, MLPerf Storage v1.0")
        .means("Samples of whole epochs over their duration, first steps included, as MLPerf Storage v1.0 counts."),
        Metric::column("mlperf_v2_utilisation", Unit::Share, Higher, |_, job| {
            of_starts(job, |starts| starts.mlperf_v2_utilisation)
        })
        .at("jobs.epoch_starts.mlperf_v2_utilisation")
        .called("Accelerator utilisation, MLPerf Storage from v2.0 on")
        .means("Computing over elapsed time of epochs without their first steps, as MLPerf Storage counts from v2.0 on."),
        Metric::column("mlperf_v2_samples_per_second", Unit::SamplesPerSecond, Higher, |_, job| {
            of_starts(job, |starts| starts.mlperf_v2_samples_per_second)
        })
        .at("jobs.epoch_starts.mlperf_v2_samples_per_second")
        .called("Samples per second, MLPerf Storage from v2.0 on")
        .means("Samples of epochs over their duration, both without first steps, as MLPerf Storage counts from v2.0 on."),
    ]
}

/// Returns one metric for each cause of stalls; they are columns of sweeps.
pub(super) fn stalls() -> Vec<Metric> {
    let own = Cause::ALL.into_iter().filter(|cause| *cause != Cause::Compute).map(StallCause::own);
    let all = own.chain(Cause::ALL.into_iter().map(StallCause::peer));
    let metric = |of: StallCause| {
        let why = of.cause.meaning();
        let meaning = match of.peer {
            false => format!(
                "Share of time that accelerators wait for their own input or results: {why}."
            ),
            true => format!(
                "Share of time that accelerators wait for another rank, which is held up: {why}."
            ),
        };
        Metric::new(format!("stall_{of}"), Unit::Share, Lower, Value::Stall(of))
            .at(format!("jobs.stall.{of}"))
            .called(format!("Stall by {of}, share of time"))
            .means(meaning)
    };
    all.map(metric).collect()
}

/// Returns the metrics whose values are texts. In sweeps, their columns come after the columns of all figures.
pub(super) fn texts() -> Vec<Metric> {
    vec![
        Metric::new(LARGEST_STALL, Unit::Text, Neither, Value::Text(largest_stall))
            .called("Largest stall")
            .means("The cause of stalls that takes most time; empty where nothing waits."),
        Metric::new("too_short", Unit::Text, Neither, Value::Text(|job| job.length.why.clone()))
            .at("jobs.length.why")
            .called("Why the run is too short")
            .means("Why the run is too short for a steady rate of the job; empty where it is long enough."),
        Metric::new("job", Unit::Text, Neither, Value::Text(|job| Some(job.name.clone())))
            .at("jobs.name")
            .called("Job")
            .means("Name of the job that the row is about."),
    ]
}

/// Returns the metrics of a job's results, which are columns of sweeps.
pub(super) fn results() -> Vec<Metric> {
    vec![
        Metric::column("cache_miss_share", Unit::Share, Lower, |_, job| last_misses(job))
            .called("Cache miss share")
            .means(
                "Share of the requests of the last epoch that missed the page cache or, where there is none, the nodes' tiers.",
            ),
        Metric::column("local_share", Unit::Share, Higher, |_, job| {
            job.local_share.unwrap_or_default()
        })
        .at("jobs.local_share")
        .called("Bytes read on the own node")
        .means("Share of the bytes that nodes find on their own storage, where each has a part of the data set."),
        Metric::column("time_to_accuracy", Unit::Seconds, Lower, |_, job| {
            accuracy(job, |of| of.time)
        })
        .at("jobs.time_to_accuracy.time")
        .called("Time to accuracy")
        .means("From the job's arrival until its target; the interval is that of the speed alone."),
        Metric::column("epochs_to_accuracy", Unit::Epochs, Lower, |_, job| {
            accuracy(job, |of| number(Some(of.epochs)))
        })
        .at("jobs.time_to_accuracy.epochs")
        .called("Epochs to accuracy")
        .means("Epochs of fresh samples until the target: assumed by the scenario."),
        Metric::column("staleness", Unit::Count, Lower, |_, job| staleness(job))
            .at("jobs.sync.staleness.mean")
            .called("Staleness")
            .means(
                "Updates of other ranks that a parameter server took between the parameters that an update was computed \
                 from and the update.",
            ),
        Metric::column("statistical_efficiency", Unit::Share, Higher, |_, job| {
            accuracy(job, |of| of.statistical_efficiency)
        })
        .at("jobs.time_to_accuracy.statistical_efficiency")
        .called("Statistical efficiency")
        .means("What a sample trained on is worth of a fresh one in the smallest batches."),
        Metric::column("learners", Unit::Count, Neither, |_, job| {
            learners(job, |of| number(Some(f64::from(of.per_gpu))))
        })
        .at("jobs.learners.per_gpu")
        .called("Learners")
        .means("Learners on each GPU at the end, of the first copy."),
        Metric::column("learners_gain", Unit::Ratio, Higher, |_, job| {
            learners(job, |of| number(of.gain))
        })
        .at("jobs.learners.gain")
        .called("Learners gain")
        .means("Samples per second against those of one learner on each GPU that never waits."),
        Metric::column("gpu_occupancy", Unit::Share, Higher, |_, job| {
            learners(job, |of| of.occupancy)
        })
        .at("jobs.learners.occupancy")
        .called("Part of a GPU in use")
        .means("Part of a GPU that kernels fill, averaged from the first kernel to the last."),
    ]
}

/// Returns the metrics of a job that only JSON reports have.
pub(super) fn only_json() -> Vec<Metric> {
    let count = Unit::Count;
    vec![
        Metric::json("jobs.steps", Unit::Steps, Neither, |_, job| job.figures.steps)
            .called("Steps")
            .means("Steps that the figures are about, without the warm-up."),
        Metric::json("jobs.staging.seconds", Unit::Seconds, Lower, |_, job| {
            job.staging.as_ref().map(|of| of.seconds).unwrap_or_default()
        })
        .called("Staging time")
        .means("From the job's start until the last of its nodes has the data set."),
        Metric::json("jobs.staging.bytes", Unit::Bytes, Lower, |_, job| {
            job.staging.as_ref().map(|of| of.bytes).unwrap_or_default()
        })
        .called("Bytes staged")
        .means("Bytes that are copied to all nodes of a copy of the job before its first step."),
        Metric::json("jobs.time_to_accuracy.samples", Unit::Samples, Lower, |_, job| {
            accuracy(job, |of| of.samples)
        })
        .called("Samples to accuracy")
        .means("Samples trained on until the target, repeated ones counted."),
        Metric::json(
            "jobs.time_to_accuracy.useful_samples_per_second",
            Unit::SamplesPerSecond,
            Higher,
            |_, job| accuracy(job, |of| of.useful_samples_per_second),
        )
        .called("Useful samples per second")
        .means("Samples per second, each counted as what it is worth of a fresh one."),
        Metric::json("jobs.recovery.failures", count, Lower, |_, job| {
            recovery(job, |of| of.failures)
        })
        .called("Failures")
        .means("How often a node of a copy fails, over the whole run."),
        Metric::json("jobs.recovery.lost", Unit::Seconds, Lower, |_, job| {
            recovery(job, |of| of.lost)
        })
        .called("Lost work")
        .means("Time whose work is lost by failures; with `down` it is the stall by `fault`."),
        Metric::json("jobs.recovery.down", Unit::Seconds, Lower, |_, job| {
            recovery(job, |of| of.down)
        })
        .called("Down time")
        .means("Time from failures until the job trains again."),
        Metric::json("jobs.recovery.from_start", count, Lower, |_, job| {
            recovery(job, |of| of.from_start)
        })
        .called("Restarts from step 0")
        .means("Failures that destroy a part of each checkpoint, so that a copy begins again at step 0."),
        Metric::json("jobs.recovery.read_backs", count, Neither, |_, job| {
            recovery(job, |of| of.read_backs)
        })
        .called("Checkpoints read back")
        .means("Times that a copy reads a checkpoint back after a failure, to the end."),
        Metric::json("jobs.recovery.read_back_bytes", Unit::Bytes, Lower, |_, job| {
            recovery(job, |of| of.read_back_bytes)
        })
        .called("Bytes read back")
        .means("Bytes that a copy reads back after a failure."),
        Metric::json("jobs.recovery.read_back_time", Unit::Seconds, Lower, |_, job| {
            recovery(job, |of| of.read_back_time)
        })
        .called("Time to read back")
        .means("Time for which a copy reads its checkpoint back after a failure; a part of `down`."),
        Metric::json("jobs.recovery.checkpoints", count, Neither, |_, job| {
            recovery(job, |of| of.checkpoints)
        })
        .called("Checkpoints")
        .means("Checkpoints that a copy writes, over the whole run."),
        Metric::json("jobs.recovery.checkpoint_time", Unit::Seconds, Lower, |_, job| {
            recovery(job, |of| of.checkpoint_time)
        })
        .called("Checkpoint time")
        .means(
            "From the end of a step until its checkpoint is written, without the wait for the checkpoint before.",
        ),
        Metric::json("jobs.recovery.checkpoint_bytes", Unit::Bytes, Lower, |_, job| {
            recovery(job, |of| of.checkpoint_bytes)
        })
        .called("Checkpoint size")
        .means("Bytes of a checkpoint."),
        Metric::json("jobs.recovery.checkpoint_overlap", Unit::Share, Lower, |_, job| {
            recovery(job, |of| of.checkpoint_overlap)
        })
        .called("Overlap of checkpoints")
        .means("Share of the time of writing checkpoints in which other copies write theirs."),
        Metric::json("jobs.recovery.postponed", count, Lower, |_, job| {
            recovery(job, |of| of.postponed)
        })
        .called("Postponed checkpoints")
        .means(
            "Asynchronous checkpoints before which training waits until the previous one is written.",
        ),
        Metric::json("jobs.recovery.postponed_time", Unit::Seconds, Lower, |_, job| {
            recovery(job, |of| of.postponed_time)
        })
        .called("Waits for earlier checkpoints")
        .means("Time that training waits for the previous checkpoint."),
        Metric::json("jobs.recovery.backlog", count, Lower, |_, job| {
            recovery(job, |of| of.backlog)
        })
        .called("Checkpoint backlog")
        .means("Most pending checkpoints at once: asynchronous ones that are begun and not yet written."),
        Metric::json("jobs.recovery.backlog_bytes", Unit::Bytes, Lower, |_, job| {
            recovery(job, |of| of.backlog_bytes)
        })
        .called("Memory of the backlog")
        .means("Most memory that the states of pending checkpoints take on a node."),
        Metric::json("jobs.recovery.unwritten", count, Lower, |_, job| {
            recovery(job, |of| of.unwritten)
        })
        .called("Unwritten checkpoints")
        .means("Checkpoints that are not yet written when the run ends."),
    ]
}

/// Returns the cause of stalls with the largest share, if any.
fn largest_stall(job: &JobReport) -> Option<String> {
    let shares = job.figures.stall.causes.iter().filter_map(|(of, share)| Some((of, share.mean?)));
    let largest = shares.filter(|(_, share)| *share > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
    largest.map(|(cause, _)| cause.to_string())
}

/// Returns the share of requests that missed the page cache in the last epoch, or the nodes' tiers if there is no page cache.
fn last_misses(job: &JobReport) -> Figure {
    let tiers = job.tiers.last().map(|shares| shares.miss);
    number(job.cache_miss_share.last().copied().or(tiers))
}

/// Returns a figure of the time to accuracy; an empty figure if the job has no target.
fn accuracy(job: &JobReport, of: impl Fn(&AccuracyReport) -> Figure) -> Figure {
    job.time_to_accuracy.as_ref().map(of).unwrap_or_default()
}

/// Returns a figure of the learners; an empty figure if their kernels are not described.
fn learners(job: &JobReport, of: impl Fn(&LearnersReport) -> Figure) -> Figure {
    job.learners.as_ref().map(of).unwrap_or_default()
}

/// Returns a figure of failures and checkpoints; an empty figure if they are not simulated.
fn recovery(job: &JobReport, of: impl Fn(&RecoveryReport) -> Figure) -> Figure {
    job.recovery.as_ref().map(of).unwrap_or_default()
}

/// Returns the mean staleness of updates; an empty figure if no servers have the parameters.
fn staleness(job: &JobReport) -> Figure {
    let found = job.sync.as_ref().and_then(|sync| sync.staleness.as_ref());
    found.map(|of| of.mean).unwrap_or_default()
}
