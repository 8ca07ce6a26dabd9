//! Which samples a loader has handed out, one by one, where its job may fail.
//!
//! Queues count samples; those that several workers make come in the order in which they are ready. So that what comes
//! again after a failure is what was not trained on and nothing else, samples are known here by their places in the
//! loader's reading: file after file.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use forebay_metrics::Intervals;

use super::read::Source;

/// Most samples that are recorded.
const MOST_RECORDED: usize = 1_000_000;

/// The samples of a loader between their reading and the end of their steps.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    /// Of an item that was made of several, by the turn at which its first sample was read, the turns of all of them.
    gathered: BTreeMap<u64, Vec<Range<u64>>>,
    /// By turn, samples of shards that are not in the queue yet: workers read several files at once.
    located: BTreeMap<u64, u64>,
    /// Samples that can be taken.
    queue: VecDeque<Range<u64>>,
    /// Samples that can be taken before these and are none that were read: the queue was full at the start.
    unread: u64,
    /// Runs of the batches that were taken for steps that may not be over, each with its model copy and step; kept if
    /// anyone will ask for them.
    recent: VecDeque<(u32, u64, Range<u64>)>,
    keeps: bool,
    /// All samples of steps that are over, and the same in order where they are recorded.
    trained: Intervals,
    record: Option<Vec<u64>>,
}

/// What a loader's job had trained on when its state was saved.
#[derive(Debug, Clone, Default)]
pub(super) struct Trained {
    pub(super) samples: Intervals,
    /// Of the record, the first so many.
    recorded: usize,
}

impl Lineage {
    /// None yet but those that are in the queue at the start, of a job that is saved or not, `recorded` or not.
    pub(super) fn new(prefill: u64, saved: bool, recorded: bool) -> Lineage {
        let record = recorded.then(Vec::new);
        Lineage { unread: prefill, keeps: saved || recorded, record, ..Lineage::default() }
    }

    /// What is read at this `turn` is this `sample`.
    pub(super) fn locate(&mut self, turn: u64, sample: u64) {
        self.located.insert(turn, sample);
    }

    /// An item is made of these, of which each has so many samples from a turn on.
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

    /// An item of so many samples, which has its first one from turn `first`, is put into the queue.
    pub(super) fn put(&mut self, first: u64, samples: u64, source: &Source) {
        match self.gathered.remove(&first) {
            None => self.put_run(first..first + samples, source),
            Some(runs) => runs.into_iter().for_each(|run| self.put_run(run, source)),
        }
    }

    /// What was read at these turns, one after the other, is put into the queue.
    fn put_run(&mut self, run: Range<u64>, source: &Source) {
        // Of files that are read one by one, only those that were left before are not in order.
        let shuffled = if self.located.is_empty() { source.left_until() } else { run.end };
        let from = shuffled.clamp(run.start, run.end);
        for turn in run.start..from {
            let sample = self.located.remove(&turn).unwrap_or_else(|| source.place(turn));
            self.push(sample..sample + 1);
        }
        self.push(from..run.end);
    }

    fn push(&mut self, run: Range<u64>) {
        match self.queue.back_mut() {
            _ if run.is_empty() => {}
            Some(last) if last.end == run.start => last.end = run.end,
            _ => self.queue.push_back(run),
        }
    }

    /// So many samples are taken for `step` of model copy `model`, as its device counts them.
    pub(super) fn take(&mut self, model: u32, step: u64, mut samples: u64) {
        let unread = samples.min(self.unread);
        self.unread -= unread;
        samples -= unread;
        while let Some(run) = self.queue.front_mut().filter(|_| samples > 0) {
            let number = samples.min(run.end - run.start);
            if self.keeps {
                self.recent.push_back((model, step, run.start..run.start + number));
            }
            (run.start, samples) = (run.start + number, samples - number);
            if run.is_empty() {
                self.queue.pop_front();
            }
        }
    }

    /// So many `steps` of each model copy are over; what was trained on in them.
    pub(super) fn settle(&mut self, steps: impl Fn(u32) -> u64) -> Trained {
        for (model, step, run) in std::mem::take(&mut self.recent) {
            if step >= steps(model) {
                self.recent.push_back((model, step, run));
                continue;
            }
            if let Some(record) = &mut self.record {
                record.extend(run.clone().take(MOST_RECORDED - record.len()));
            }
            self.trained.insert(run);
        }
        let recorded = self.record.as_ref().map_or(0, Vec::len);
        Trained { samples: self.trained.clone(), recorded }
    }

    /// Nothing is in progress any more, and only so much was trained on, of which `kept` is not to come again.
    pub(super) fn restart(&mut self, saved: &Trained, kept: Intervals) {
        self.gathered.clear();
        self.located.clear();
        self.queue.clear();
        self.unread = 0;
        self.recent.clear();
        self.trained = kept;
        self.record.iter_mut().for_each(|record| record.truncate(saved.recorded));
    }

    /// The samples of steps that are over, if they are recorded.
    pub(super) fn record(&mut self) -> Vec<u64> {
        self.record.take().unwrap_or_default()
    }
}
