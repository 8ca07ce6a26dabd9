//! A loader: its node's, or that of one model copy.

use super::state::Item;
use forebay_engine::Time;
use forebay_metrics::{Polling, Queue, Requests, StageBuffer, Tuner};
use std::collections::VecDeque;
use std::ops::Range;

/// A loader of a job copy.
#[derive(Debug)]
pub struct LoaderRun {
    /// The last buffer, which model copies take batches from.
    pub queue: Queue,
    /// What it was asked for, if it makes batches on request.
    pub requests: Option<Requests>,
    /// Who sleeps, where nobody is woken.
    pub polling: Option<Polling>,
    /// How many workers of a stage work at once, if that is tuned.
    pub tuner: Option<Tuner>,
    /// Samples that the reading may take in all.
    pub quota: u64,
    /// Samples that workers have begun to read.
    pub started: u64,
    /// Samples between the reading and the last buffer.
    pub in_progress: u64,
    /// Devices that starve, in order of arrival.
    pub(super) waiters: VecDeque<u32>,
    /// Its stages and workers among those of all loaders.
    pub(super) stages: Range<usize>,
    /// Its workers among those of all loaders.
    pub workers: Range<u32>,
    /// The track of the trace that shows how full the last buffer is.
    pub level_track: Option<u32>,
}

/// A stage of one loader: what its workers have in common, and the buffer behind it.
#[derive(Debug)]
pub(super) struct StageRun {
    pub(super) loader: usize,
    pub(super) buffer: StageBuffer<Item>,
}

impl LoaderRun {
    /// Before the start, with a last buffer that holds nothing.
    pub(super) fn new(quota: u64, stages: Range<usize>, workers: Range<u32>) -> LoaderRun {
        LoaderRun {
            queue: Queue::new(1, 1, false, 0, Time::ZERO),
            requests: None,
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

    /// The next samples of the reading, unless the job needs no more; at most so many.
    pub(super) fn next_samples(&mut self, most: u64) -> Option<Item> {
        let samples = most.min(self.quota - self.started);
        if samples == 0 {
            return None;
        }
        let first = self.started;
        self.started += samples;
        self.in_progress += samples;
        Some(Item { first, samples, ..Item::default() })
    }
}
