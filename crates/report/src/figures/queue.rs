//! Figures of the last buffer of a loader.

use super::Figure;

/// The loader's last buffer of a job copy, all its nodes together, after the warm-up.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct QueueReport {
    /// Capacity [samples].
    pub capacity: u64,
    /// Mean number of samples in the queue over time [samples].
    pub occupancy: Figure,
    /// Number of exhaustions for each copy: a trainer had to wait because the queue had run empty after it had held a batch.
    pub exhaustions: Figure,
    /// Duration of an exhaustion [s], over the whole run.
    pub exhaustion_duration: Figure,
    /// Share of time in which a trainer waited for the queue.
    pub time_empty: Figure,
    /// Rate at which loaders put samples into the queue [samples/s].
    pub enqueue_rate: Figure,
    /// Rate at which trainers took samples out of the queue [samples/s].
    pub dequeue_rate: Figure,
    /// Samples put in, per second in which workers were not held up by a full queue [samples/s].
    pub unblocked_enqueue_rate: Figure,
    /// Samples taken out, per second in which no trainer waited for the queue [samples/s]: what the trainers would take if they
    /// were never starved.
    pub unstalled_dequeue_rate: Figure,
    /// Unblocked enqueue rate − unstalled dequeue rate [samples/s]: negative where the queue runs
    /// dry, positive where it fills.
    pub net_enqueue_rate: Figure,
    /// Time from the job's start to the first exhaustion of a queue that was full at the start [s], mean over the copies whose
    /// queue ran dry.
    pub time_to_exhaustion: Figure,
    /// Share of the copies whose queue ran dry, among those whose queue was full at the start.
    pub exhausted_copies: Figure,
    /// Time that a sample spends in the queue [s].
    pub waiting_time: Figure,
    /// Circular queues: age of samples when read [s], over the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age: Option<Figure>,
    /// Circular queues: how often samples were read before they were overwritten, whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reuse: Option<ReuseReport>,
}

/// How often samples of a circular queue were read.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct ReuseReport {
    /// Mean number of reads (a lower bound where the histogram's last entry is not empty).
    pub mean: Option<f64>,
    /// Samples by number of reads; the last entry counts all that were read at least that often.
    pub histogram: Vec<u64>,
}

/// Queue and steps over time, in bins. Bins in which a quantity was not observed hold `None`.
#[derive(
    Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub struct SeriesReport {
    /// Middle of each bin, since the start of the run [s].
    pub time: Vec<f64>,
    /// Mean number of samples in the queue [samples].
    pub occupancy: Vec<Option<f64>>,
    /// Rate at which loaders put samples into the queue [samples/s].
    pub enqueue_rate: Vec<Option<f64>>,
    /// Samples put in, per second in which workers were not held up by a full queue [samples/s].
    pub unblocked_enqueue_rate: Vec<Option<f64>>,
    /// Rate at which trainers took samples out of the queue [samples/s].
    pub dequeue_rate: Vec<Option<f64>>,
    /// Unblocked enqueue rate − dequeue rate [samples/s].
    pub net_enqueue_rate: Vec<Option<f64>>,
    /// Mean duration of the steps that ended within the bin [s].
    pub step_time: Vec<Option<f64>>,
}
