//! Metrics of the last buffer before the trainer.

use super::Better::{Higher, Lower, Neither};
use super::{Metric, Unit};
use crate::Figure;

/// Returns the metrics of the queue that are columns of sweeps.
pub(super) fn columns() -> Vec<Metric> {
    vec![
        Metric::column("queue_occupancy", Unit::Samples, Neither, |_, job| job.queue.occupancy)
            .at("jobs.queue.occupancy")
            .called("Samples in the queue")
            .means("Samples in the queue, averaged over time."),
        Metric::column("exhaustions", Unit::Count, Lower, |_, job| job.queue.exhaustions)
            .at("jobs.queue.exhaustions")
            .called("Queue exhaustions")
            .means("How often the queue ran empty under a waiting trainer after it had held a batch, for each copy."),
        Metric::column("time_empty", Unit::Share, Lower, |_, job| job.queue.time_empty)
            .at("jobs.queue.time_empty")
            .called("Queue empty, share of time")
            .means("Share of time in which a trainer waits for the queue."),
        Metric::column("enqueue_rate", Unit::SamplesPerSecond, Higher, |_, job| job.queue.enqueue_rate)
            .at("jobs.queue.enqueue_rate")
            .called("Enqueue rate, samples per second")
            .means("Samples that loaders put into the queue."),
        Metric::column("unblocked_enqueue_rate", Unit::SamplesPerSecond, Higher, |_, job| {
            job.queue.unblocked_enqueue_rate
        })
        .at("jobs.queue.unblocked_enqueue_rate")
        .called("Unblocked enqueue rate, samples per second")
        .means("Samples that loaders would put in if the queue were never full."),
        Metric::column("dequeue_rate", Unit::SamplesPerSecond, Higher, |_, job| job.queue.dequeue_rate)
            .at("jobs.queue.dequeue_rate")
            .called("Dequeue rate, samples per second")
            .means("Samples that trainers take out of the queue."),
        Metric::column("unstalled_dequeue_rate", Unit::SamplesPerSecond, Higher, |_, job| {
            job.queue.unstalled_dequeue_rate
        })
        .at("jobs.queue.unstalled_dequeue_rate")
        .called("Unstalled dequeue rate, samples per second")
        .means("Samples that trainers would take out if they never waited for the queue."),
        Metric::column("net_enqueue_rate", Unit::SamplesPerSecond, Higher, |_, job| {
            job.queue.net_enqueue_rate
        })
        .at("jobs.queue.net_enqueue_rate")
        .called("Net enqueue rate, samples per second")
        .means(
            "Unblocked enqueue rate minus unstalled dequeue rate: negative where loaders are slower than trainers, so that \
             the queue drains.",
        ),
        Metric::column("time_to_exhaustion", Unit::Seconds, Higher, |_, job| {
            job.queue.time_to_exhaustion
        })
        .at("jobs.queue.time_to_exhaustion")
        .called("Time to exhaustion")
        .means(
            "From a job's start until a queue that was full then first runs empty, over the copies in which it does.",
        ),
        Metric::column("exhausted_copies", Unit::Share, Lower, |_, job| job.queue.exhausted_copies)
            .at("jobs.queue.exhausted_copies")
            .called("Copies whose queue ran dry")
            .means("Share of the copies with a full queue at their start in which it runs empty."),
    ]
}

/// Returns the metrics of the queue that only JSON reports have.
pub(super) fn only_json() -> Vec<Metric> {
    vec![
        Metric::json("jobs.queue.exhaustion_duration", Unit::Seconds, Lower, |_, job| {
            job.queue.exhaustion_duration
        })
        .called("Duration of an exhaustion")
        .means("How long the queue stays empty under a waiting trainer, over the whole run."),
        Metric::json("jobs.queue.waiting_time", Unit::Seconds, Neither, |_, job| {
            job.queue.waiting_time
        })
        .called("Time in the queue")
        .means("Time that a sample spends in the queue."),
        Metric::json("jobs.queue.age", Unit::Seconds, Lower, |_, job| {
            job.queue.age.unwrap_or_else(Figure::default)
        })
        .called("Age of samples")
        .means("Circular queues: how long a sample has been in the queue when it is read, over the whole run."),
    ]
}
