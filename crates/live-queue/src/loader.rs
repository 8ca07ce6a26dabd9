//! A loader, which serves either all model copies of a node or one model copy.

use super::content::Contents;
use super::state::Item;
use forebay_engine::Time;
use forebay_metrics::{FirstBatches, Polling, Queue, Rebuilds, Requests, StageBuffer, Tuner};
use std::collections::VecDeque;
use std::ops::Range;

/// A loader of a job copy.
#[derive(Debug)]
pub struct LoaderRun {
    /// Last buffer, from which model copies take batches.
    pub queue: Queue,
    /// Contents of the samples in the last buffer, if devices copy them to a real GPU.
    pub(super) contents: Contents,
    /// Requests for batches, if the loader makes batches on request.
    pub requests: Option<Requests>,
    /// Epochs of the pipeline, if each epoch builds it anew.
    pub rebuilds: Option<Rebuilds>,
    /// The first batch of each epoch.
    pub first_batches: FirstBatches,
    /// State of polling, if threads poll instead of being woken.
    pub polling: Option<Polling>,
    /// Tuner that sets how many workers of each stage work at the same time; `None` if these
    /// numbers are not tuned.
    pub tuner: Option<Tuner>,
    /// Number of samples that the loader may read in all.
    pub quota: u64,
    /// Samples that workers have begun to read.
    pub started: u64,
    /// Samples that have been started and are not in the last buffer yet.
    pub in_progress: u64,
    /// Devices that wait for a batch, in order of arrival.
    pub(super) waiters: VecDeque<u32>,
    /// Range of this loader's stages among the stages of all loaders.
    pub(super) stages: Range<usize>,
    /// Range of this loader's workers among the workers of all loaders.
    pub workers: Range<u32>,
    /// Track of the trace that shows the level of the last buffer.
    pub level_track: Option<u32>,
}

/// A stage of one loader: the state that its workers share, and the buffer after it.
#[derive(Debug)]
pub(super) struct StageRun {
    pub(super) loader: usize,
    pub(super) buffer: StageBuffer<Item>,
}

impl LoaderRun {
    /// Returns a loader before its start, with an empty last buffer.
    pub(super) fn new(quota: u64, stages: Range<usize>, workers: Range<u32>) -> LoaderRun {
        LoaderRun {
            queue: Queue::new(1, 1, false, 0, Time::ZERO),
            contents: Contents::default(),
            requests: None,
            rebuilds: None,
            first_batches: FirstBatches::default(),
            polling: None,
            tuner: None,
            quota,
            started: 0,
            in_progress: 0,
            waiters: VecDeque::new(),
            stages,
            workers,
            level_track: None,
        }
    }

    /// Returns the next samples to read, at most `most`; `None` if the job needs no more.
    pub(super) fn next_samples(&mut self, most: u64) -> Option<Item> {
        let epoch = self.rebuilds.as_ref();
        let left = epoch.map_or(u64::MAX, |epoch| epoch.left(self.started));
        let samples = most.min(self.quota - self.started).min(left);
        if samples == 0 {
            return None;
        }
        let ready = epoch.map_or(Time::ZERO, Rebuilds::ready);
        let first = self.started;
        self.started += samples;
        self.in_progress += samples;
        Some(Item { first, samples, ready, ..Item::default() })
    }
}
