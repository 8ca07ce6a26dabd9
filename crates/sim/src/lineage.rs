//! Tracks which samples a loader hands out, one by one, if its job may fail.
//!
//! Queues only count samples, and samples of several workers come in the order in which they are ready. After a failure, exactly
//! the samples that were not trained on must come again. So samples are known here by their positions in the loader's reading
//! order: file after file.

mod queued;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use forebay_metrics::Intervals;
use forebay_scenario::Job;

use super::read::Source;
use queued::Queued;

/// Maximum number of recorded samples.
const MOST_RECORDED: usize = 1_000_000;

/// The samples of a loader, tracked one by one from reading to the end of the step that trains on them.
#[derive(Debug)]
pub(super) struct Lineage {
    /// For each item that was gathered from several items: the turns (numbers of reads) at which its samples were read. The key
    /// is the turn of the item's first sample.
    gathered: BTreeMap<u64, Vec<Range<u64>>>,
    /// Position of the sample read at each turn, for samples of data sets of shards that are not in the queue yet. Workers read
    /// several shards at once, so the order of turns is not the order of positions.
    located: BTreeMap<u64, u64>,
    /// Positions of samples that can be taken from the loader's queue.
    queue: Queued,
    /// Positions of samples taken for steps that may not be complete, each with its model copy and step; `keeps` says whether
    /// this list is needed.
    recent: VecDeque<(u32, u64, Range<u64>)>,
    keeps: bool,
    /// Positions of all samples that are not to come again: those of complete steps, and those that a circular queue lost, where
    /// newer samples overwrote them before any trainer took them. If samples are recorded, `record` holds the positions of the
    /// samples of complete steps in the order of training, as often as each was trained on.
    passed: Intervals,
    record: Option<Vec<u64>>,
}

/// The samples of a loader that its job had trained on, or that its queue had lost, when the job's state was saved.
#[derive(Debug, Clone, Default)]
pub(super) struct Passed {
    pub(super) samples: Intervals,
    /// Length of the record when the state was saved.
    recorded: usize,
}

impl Lineage {
    /// Returns the lineage of the samples of a loader of `job` before the loader reads; `recorded` says whether samples are
    /// recorded.
    pub(super) fn new(job: &Job, recorded: bool) -> Lineage {
        Lineage {
            gathered: BTreeMap::new(),
            located: BTreeMap::new(),
            queue: Queued::new(job),
            recent: VecDeque::new(),
            keeps: job.checkpoint.is_some() || recorded,
            passed: Intervals::default(),
            record: recorded.then(Vec::new),
        }
    }

    /// Records that read number `turn` reads the sample at position `sample` of the data set.
    pub(super) fn locate(&mut self, turn: u64, sample: u64) {
        self.located.insert(turn, sample);
    }

    /// Records that an item is gathered from `parts`, each given by its first turn and its number of samples.
    pub(super) fn gather(&mut self, parts: impl Iterator<Item = (u64, u32)>) {
        let all = parts.flat_map(|(first, samples)| self.take_item(first, samples.into()));
        let all: Vec<Range<u64>> = all.collect();
        if let Some(run) = all.first() {
            self.gathered.insert(run.start, all);
        }
    }

    fn take_item(&mut self, first: u64, samples: u64) -> Vec<Range<u64>> {
        let alone = || std::iter::once(first..first + samples).collect();
        self.gathered.remove(&first).unwrap_or_else(alone)
    }

    /// Records that an item of `samples` samples, read from turn `first` on, is put into the queue.
    pub(super) fn put(&mut self, first: u64, samples: u64, source: &Source) {
        match self.gathered.remove(&first) {
            None => self.put_run(first..first + samples, source),
            Some(runs) => runs.into_iter().for_each(|run| self.put_run(run, source)),
        }
    }

    /// Records that the samples read at the turns of `run` are put into the queue, in this order.
    fn put_run(&mut self, run: Range<u64>, source: &Source) {
        // For files that are read one by one, only the samples left over from before a restart are out of order.
        let shuffled = if self.located.is_empty() { source.left_until() } else { run.end };
        let from = shuffled.clamp(run.start, run.end);
        for turn in run.start..from {
            let sample = self.located.remove(&turn).unwrap_or_else(|| source.place(turn));
            self.push(sample..sample + 1);
        }
        self.push(from..run.end);
    }

    fn push(&mut self, run: Range<u64>) {
        let Lineage { queue, passed, keeps, .. } = self;
        queue.put(run, |lost| {
            if *keeps {
                passed.insert(lost..lost + 1);
            }
        });
    }

    /// Records that `samples` samples are taken for `step` of model copy `model`; `step` is the step number of the device that
    /// takes them.
    pub(super) fn take(&mut self, model: u32, step: u64, samples: u64) {
        let Lineage { queue, recent, keeps, .. } = self;
        queue.take(samples, |run| {
            if *keeps {
                recent.push_back((model, step, run));
            }
        });
    }

    /// Moves the samples of completed steps to the list of passed samples; `steps` returns the number of complete steps of each
    /// model copy. Returns all samples that were trained on in complete steps, or that the queue lost.
    pub(super) fn settle(&mut self, steps: impl Fn(u32) -> u64) -> Passed {
        for (model, step, run) in std::mem::take(&mut self.recent) {
            if step >= steps(model) {
                self.recent.push_back((model, step, run));
                continue;
            }
            if let Some(record) = &mut self.record {
                record.extend(run.clone().take(MOST_RECORDED - record.len()));
            }
            self.passed.cover(run);
        }
        let recorded = self.record.as_ref().map_or(0, Vec::len);
        Passed { samples: self.passed.clone(), recorded }
    }

    /// Restarts from the saved state, with nothing in progress.
    pub(super) fn restart(&mut self, saved: &Passed) {
        self.gathered.clear();
        self.located.clear();
        self.queue.clear();
        self.recent.clear();
        self.passed.clone_from(&saved.samples);
        self.record.iter_mut().for_each(|record| record.truncate(saved.recorded));
    }

    /// Lets all samples of the saved state come again, except for the samples `kept`.
    pub(super) fn repeat_after(&mut self, kept: Intervals) {
        self.passed = kept;
    }

    /// Takes the record of samples of complete steps; empty if samples are not recorded.
    pub(super) fn record(&mut self) -> Vec<u64> {
        self.record.take().unwrap_or_default()
    }
}
