//! Tracks each sample that a loader hands out, in jobs that may fail.
//!
//! Queues only count samples, and samples of several workers come in the order in which they are ready. After a failure, exactly
//! the samples that were not trained on must come again. So samples are known here by their positions in the loader's reading
//! order: file after file.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use forebay_metrics::{Cycle, Intervals};
use forebay_scenario::{Job, Layout, QueueKind};

use crate::storage::Source;

/// Maximum number of recorded samples.
const MOST_RECORDED: usize = 1_000_000;

/// The samples of a loader, tracked one by one from reading to the end of the step that trains on them.
#[derive(Debug)]
pub(crate) struct Lineage {
    /// For each item that was gathered from several items: the turns (numbers of reads) at which its samples were read. The key
    /// is the turn of the item's first sample.
    gathered: BTreeMap<u64, Vec<Range<u64>>>,
    /// Position of the sample read at each turn, for samples of data sets of shards that are not in the queue yet. Workers read
    /// several shards at once, so the order of turns is not the order of positions.
    located: BTreeMap<u64, u64>,
    /// The samples by their positions.
    positions: Track,
    /// The samples of batches made on request by their turns, if turns are not positions.
    turns: Option<Track>,
    /// Positions of the samples of complete steps in the order of training, once for each time that a sample was trained on; `None`
    /// if they are not recorded.
    record: Option<Vec<u64>>,
}

/// The samples of a loader that its job had trained on, or that its queue had lost, when the job's state was saved.
#[derive(Debug, Clone, Default)]
pub(crate) struct Passed {
    /// The positions of the samples.
    pub(crate) samples: Intervals,
    /// The turns at which the samples were read, if turns are not positions.
    turns: Option<Intervals>,
    /// Length of the record when the state was saved.
    recorded: usize,
}

impl Passed {
    /// Returns the turns at which the samples of batches made on request were read.
    pub(crate) fn turns(&self) -> &Intervals {
        self.turns.as_ref().unwrap_or(&self.samples)
    }

    /// Returns the samples among these at positions below `limit`.
    pub(crate) fn below(&self, limit: u64) -> Passed {
        Passed { samples: self.samples.below(limit), ..self.clone() }
    }
}

impl Lineage {
    /// Returns the lineage of the samples of a loader of `job` before the loader reads from a data set of this layout;
    /// `recorded` says whether samples are recorded.
    pub(crate) fn new(job: &Job, layout: Layout, recorded: bool) -> Lineage {
        let keeps = job.checkpoint.is_some() || recorded;
        let by_turn = job.loader.requests.is_some() && !layout.is_by_sample();
        Lineage {
            gathered: BTreeMap::new(),
            located: BTreeMap::new(),
            positions: Track::new(job, keeps),
            turns: by_turn.then(|| Track::new(job, keeps)),
            record: recorded.then(Vec::new),
        }
    }

    /// Records that read number `turn` reads the sample at position `sample` of the data set.
    #[inline(never)]
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
    #[inline(never)]
    pub(super) fn put(&mut self, first: u64, samples: u64, source: &Source) {
        if let Some(turns) = &mut self.turns {
            turns.put(first..first + samples);
        }
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
            self.positions.put(sample..sample + 1);
        }
        self.positions.put(from..run.end);
    }

    /// Records that `samples` samples are taken for `step` of model copy `model`; `step` is the step number of the device that
    /// takes them.
    pub(crate) fn take(&mut self, model: u32, step: u64, samples: u64) {
        for track in [&mut self.positions].into_iter().chain(&mut self.turns) {
            track.take(model, step, samples);
        }
    }

    /// Moves the samples of completed steps to the list of passed samples; `steps` returns the number of complete steps of each
    /// model copy. Returns all samples that were trained on in complete steps, or that the queue lost.
    pub(crate) fn settle(&mut self, steps: impl Fn(u32) -> u64) -> Passed {
        let record = &mut self.record;
        let samples = self.positions.settle(&steps, |run| {
            if let Some(record) = record {
                record.extend(run.take(MOST_RECORDED - record.len()));
            }
        });
        let turns = self.turns.as_mut().map(|turns| turns.settle(&steps, |_| ()));
        Passed { samples, turns, recorded: self.record.as_ref().map_or(0, Vec::len) }
    }

    /// Restarts from the saved state, with nothing in progress.
    pub(crate) fn restart(&mut self, saved: &Passed) {
        self.gathered.clear();
        self.located.clear();
        self.positions.restart(&saved.samples);
        self.record.iter_mut().for_each(|record| record.truncate(saved.recorded));
    }

    /// Restarts from a state whose samples were read at `turns`, if turns are not positions.
    pub(crate) fn renumber(&mut self, turns: &Intervals) {
        if let Some(of) = &mut self.turns {
            of.restart(turns);
        }
    }

    /// Takes the record of samples of complete steps; empty if samples are not recorded.
    pub(crate) fn take_record(&mut self) -> Vec<u64> {
        self.record.take().unwrap_or_default()
    }
}

/// Samples from a loader's queue to the end of the step that trains on them, each known by a number.
#[derive(Debug)]
pub(super) struct Track {
    queue: Queued,
    /// Samples taken for steps that may not be complete, with their model copy and step; `keeps` says whether this list is
    /// needed.
    recent: VecDeque<(u32, u64, Range<u64>)>,
    keeps: bool,
    /// All samples that are not to come again: those of complete steps, and those that a circular queue lost, where newer samples
    /// overwrote them before any trainer took them.
    passed: Intervals,
}

impl Track {
    /// Returns the track of the samples of a loader of `job`; `keeps` says whether it is needed which ones have passed.
    pub(super) fn new(job: &Job, keeps: bool) -> Track {
        let (recent, passed) = (VecDeque::new(), Intervals::default());
        Track { queue: Queued::new(job), recent, keeps, passed }
    }

    /// Records that the samples of `run` are put into the queue, in this order.
    pub(super) fn put(&mut self, run: Range<u64>) {
        let Track { queue, passed, keeps, .. } = self;
        queue.put(run, |lost| {
            if *keeps {
                passed.insert(lost..lost + 1);
            }
        });
    }

    /// Records that `samples` samples are taken for `step` of model copy `model`.
    pub(super) fn take(&mut self, model: u32, step: u64, samples: u64) {
        let Track { queue, recent, keeps, .. } = self;
        queue.take(samples, |run| {
            if *keeps {
                recent.push_back((model, step, run));
            }
        });
    }

    /// Lets the samples of complete steps pass, and calls `trained` with each run of them; `steps` returns the number of complete
    /// steps of each model copy. Returns all samples that have passed.
    pub(super) fn settle(
        &mut self,
        steps: impl Fn(u32) -> u64,
        mut trained: impl FnMut(Range<u64>),
    ) -> Intervals {
        for (model, step, run) in std::mem::take(&mut self.recent) {
            if step >= steps(model) {
                self.recent.push_back((model, step, run));
                continue;
            }
            trained(run.clone());
            self.passed.cover(run);
        }
        self.passed.clone()
    }

    /// Begins again after the samples `passed`, with an empty queue.
    pub(super) fn restart(&mut self, passed: &Intervals) {
        self.queue.clear();
        self.recent.clear();
        self.passed.clone_from(passed);
    }
}

/// The samples in a loader's queue, in the order in which trainers take them.
#[derive(Debug)]
pub(super) enum Queued {
    /// A sample leaves the queue when it is taken. The first `unread` samples were never read, because the queue was filled at
    /// the start.
    Bounded { unread: u64, samples: VecDeque<Range<u64>> },
    /// A sample stays until a new one overwrites it, and may be taken several times.
    Circular { capacity: u64, slots: Cycle<Slot> },
}

/// A slot of a circular queue.
#[derive(Debug)]
pub(super) struct Slot {
    /// Position of the sample; `None` if it was never read, because the queue was filled at the start.
    sample: Option<u64>,
    is_taken: bool,
}

impl Queued {
    /// Returns the samples in the queue of a loader of `job` at the start: those that the job prefills.
    pub(super) fn new(job: &Job) -> Queued {
        match job.queue {
            QueueKind::Bounded => Queued::Bounded { unread: job.prefill, samples: VecDeque::new() },
            QueueKind::Circular => {
                let (capacity, mut slots) = (job.queue_capacity(), Cycle::default());
                for _ in 0..job.prefill {
                    slots.put(Slot { sample: None, is_taken: false }, capacity);
                }
                Queued::Circular { capacity, slots }
            }
        }
    }

    /// Puts the samples of `run` into the queue, in this order; calls `lost` with each sample that is overwritten before it was
    /// taken.
    pub(super) fn put(&mut self, run: Range<u64>, mut lost: impl FnMut(u64)) {
        match self {
            Queued::Bounded { samples, .. } => match samples.back_mut() {
                _ if run.is_empty() => {}
                Some(last) if last.end == run.start => last.end = run.end,
                _ => samples.push_back(run),
            },
            Queued::Circular { capacity, slots } => {
                for sample in run {
                    let slot = Slot { sample: Some(sample), is_taken: false };
                    let old = slots.put(slot, *capacity).filter(|old| !old.is_taken);
                    old.and_then(|old| old.sample).into_iter().for_each(&mut lost);
                }
            }
        }
    }

    /// Takes the next `number` samples; calls `taken` with each run of samples that were read.
    pub(super) fn take(&mut self, mut number: u64, mut taken: impl FnMut(Range<u64>)) {
        match self {
            Queued::Bounded { unread, samples } => {
                let first = number.min(*unread);
                *unread -= first;
                number -= first;
                while let Some(run) = samples.front_mut().filter(|_| number > 0) {
                    let part = number.min(run.end - run.start);
                    taken(run.start..run.start + part);
                    (run.start, number) = (run.start + part, number - part);
                    if run.is_empty() {
                        samples.pop_front();
                    }
                }
            }
            Queued::Circular { slots, .. } => {
                for _ in 0..number {
                    let slot = slots.read();
                    slot.is_taken = true;
                    slot.sample.into_iter().for_each(|sample| taken(sample..sample + 1));
                }
            }
        }
    }

    /// Removes all samples.
    pub(super) fn clear(&mut self) {
        match self {
            Queued::Bounded { unread, samples } => {
                *unread = 0;
                samples.clear();
            }
            Queued::Circular { slots, .. } => slots.clear(),
        }
    }
}
