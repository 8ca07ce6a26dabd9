//! The tables of checkpoints and failures.

use std::collections::BTreeMap;

use forebay_engine::Time;
use forebay_model::random::{Purpose, failed_node, time_to_failure};
use forebay_report::{RecoveryOutcome, SampleCounts};
use forebay_scenario::{FailureTimes, Resume};

use super::checkpoint::{CheckpointRun, Saved, StatePart, Write, WriteOverlap, WritePlace};
use super::restored::{EpochRun, Restored};
use crate::env::{Delay, Env, Event, broken};
use crate::ids::{
    CheckpointId, FailuresId, IdVec, Ids, JobId, LoaderId, Parts, RangeVec, RecoveryId, Slab,
    WriteId,
};

/// The owner of checkpoints and failures.
#[derive(Debug, Default)]
pub(crate) struct Recoveries {
    /// The saved states of job copies that have checkpoints or failures.
    pub(crate) all: IdVec<RecoveryId, RecoveryRun>,
    pub(crate) checkpoints: IdVec<CheckpointId, CheckpointRun>,
    /// Checkpoints that are not yet written.
    pub(in crate::job) writes: Slab<WriteId, Write>,
    pub(crate) failures: IdVec<FailuresId, FailureRun>,
    /// Overlap of the job copies that write checkpoints, by place.
    pub(in crate::job) overlaps: BTreeMap<WritePlace, WriteOverlap>,
}

/// The last saved state of a job copy, and what its checkpoints and failures cost.
#[derive(Debug)]
pub(crate) struct RecoveryRun {
    /// The state from which the job copy would restart.
    pub(in crate::job) saved: Saved,
    /// The state in which the job copy began to train, from which it restarts if no checkpoint is left.
    initial: Saved,
    /// Largest number of steps of any saved state so far.
    furthest: u64,
    pub(in crate::job) books: RecoveryOutcome,
    /// Times at which checkpoints began, in order [s].
    pub(in crate::job) begun: Vec<f64>,
    /// Initial state of each loader, for restarts.
    pub(in crate::job) restored: RangeVec<LoaderId, Restored>,
    /// Number of steps, done and still to be done, that repeat earlier steps because epochs begin again after failures.
    pub(in crate::job) replayed: u64,
    /// Time of the last restart.
    pub(in crate::job) resumed: Time,
}

/// How the nodes of a job copy fail.
#[derive(Debug)]
pub(crate) struct FailureRun {
    pub(in crate::job) job: JobId,
    pub(in crate::job) recovery: RecoveryId,
    pub(in crate::job) settings: FailureSettings,
    /// Number of parts of the last checkpoint that are being read back; `reading` is the time when that began.
    pub(in crate::job) unread: u32,
    pub(in crate::job) reading: Time,
    /// Number of failures of each node.
    number: Vec<u64>,
    /// Time since when the job has been down, and time when it will restart or begin to read the checkpoint back; `None` while
    /// the job is up.
    pub(in crate::job) down: Option<(Time, Time)>,
    pub(in crate::job) failures_without_progress: u32,
    /// Number of samples that the first loader had handed out before the last checkpointed epoch began.
    begun: u64,
}

/// When the nodes of a job copy fail, and how the job copy restarts.
#[derive(Debug)]
pub(crate) struct FailureSettings {
    pub(crate) when: FailureTimes,
    /// Node that fails at each of [`FailureTimes::At`]; empty if each is drawn.
    pub(crate) nodes: Vec<u32>,
    /// For each node, whether its failure destroys a part of each checkpoint; empty if no failure does.
    pub(crate) loses: Vec<bool>,
    pub(crate) restart: f64,
    /// The parts of a checkpoint that nodes or parameter servers read before the job trains again; empty if none are read.
    pub(crate) readers: Vec<StatePart>,
    pub(crate) resume: Resume,
    /// The size of an epoch, and whether the goal is a number of epochs.
    pub(crate) epoch: EpochRun,
}

impl FailureRun {
    /// Returns the failures of job copy `job`, which is on `nodes` nodes that fail, before the first one.
    pub(crate) fn new(
        job: JobId,
        recovery: RecoveryId,
        settings: FailureSettings,
        nodes: u32,
    ) -> FailureRun {
        FailureRun {
            job,
            recovery,
            settings,
            unread: 0,
            reading: Time::ZERO,
            number: vec![0; nodes as usize],
            down: None,
            failures_without_progress: 0,
            begun: 0,
        }
    }

    /// Returns the node that fails at time number `number` of those that the scenario gives.
    fn node(&self, env: &Env, number: usize) -> u32 {
        self.settings.nodes.get(number).copied().unwrap_or_else(|| {
            let owner = self.job.number().into();
            let mut generator = env.streams.at(Purpose::FailedNode, owner, number as u64, 0);
            failed_node(self.number.len() as u32, &mut generator)
        })
    }

    /// Returns the number of failures whose times the scenario gives.
    fn planned(&self) -> u64 {
        match &self.settings.when {
            FailureTimes::At(times) => times.len() as u64,
            FailureTimes::Random { .. } => 0,
        }
    }
}

impl RecoveryRun {
    /// Returns the recovery of a job copy before its start; `restored` is the initial state of each loader.
    pub(crate) fn new(restored: RangeVec<LoaderId, Restored>) -> RecoveryRun {
        RecoveryRun {
            saved: Saved::default(),
            initial: Saved::default(),
            furthest: 0,
            books: RecoveryOutcome::default(),
            begun: Vec::new(),
            restored,
            replayed: 0,
            resumed: Time::ZERO,
        }
    }

    /// Saves the state in which the job copy begins to train for the first time.
    pub(in crate::job) fn begin(&mut self, initial: Saved) {
        (self.saved, self.initial) = (initial.clone(), initial);
    }

    /// Makes the job copy restart from step 0, since a failed node had a part of each checkpoint.
    pub(in crate::job) fn lose_checkpoints(&mut self) {
        if self.saved.state.steps > 0 {
            self.saved = self.initial.clone();
            self.books.from_start += 1;
            // All samples are fresh again.
            self.restored.iter_mut().for_each(|loader| loader.known = 0);
        }
    }

    /// Returns how many of the last `taken` samples of loader `l` had not come before; `passed` is the number of all
    /// samples that have left the loader's queue so far.
    pub(in crate::job) fn fresh(&self, l: LoaderId, passed: u64, taken: u64) -> u64 {
        let of = &self.restored[l];
        let position = passed - of.base;
        position.saturating_sub(of.known.max(position - taken))
    }

    /// Counts the time lost by a failure at `failed`: all time after the last saved step, which ended at `end`, except for the
    /// time that training waited for the checkpoint of that step.
    pub(in crate::job) fn lose(&mut self, failed: Time, end: Time) {
        let Saved { begun, ready, ref state } = self.saved;
        if state.steps == 0 && self.books.from_start > 0 {
            // All work since the start is lost, including what earlier failures had left.
            self.books.lost_seconds = failed.since(ready).seconds() - self.books.down_seconds;
            return;
        }
        self.books.lost_seconds += failed.since(ready.max(self.resumed)).seconds();
        // What devices did after that step, while others finished it, is lost only once.
        if self.resumed <= ready {
            self.books.lost_seconds += begun.since(end).seconds();
        }
    }

    /// Adds the samples that failures threw away to `counts`.
    pub(in crate::job) fn count(&self, counts: &mut SampleCounts) {
        for loader in self.restored.as_slice() {
            counts.started += loader.counts.started;
            counts.dropped += loader.counts.dropped;
            counts.cleared += loader.counts.cleared;
        }
    }
}

impl Recoveries {
    /// Returns the recovery of a job copy; `None` if the job copy has neither checkpoints nor failures.
    #[inline]
    pub(in crate::job) fn of(&self, recoveries: Ids<RecoveryId>) -> Option<&RecoveryRun> {
        self.all[recoveries].first()
    }

    /// Returns whether a job copy waits for one of the checkpoints `of`.
    #[inline]
    pub(in crate::job) fn is_saving(&self, of: Ids<CheckpointId>) -> bool {
        self.checkpoints[of].iter().any(CheckpointRun::is_waited_for)
    }

    /// Returns the time since when a job copy has waited for one of the checkpoints `of`; `None` if it does not.
    pub(in crate::job) fn saving_since(&self, of: Ids<CheckpointId>) -> Option<Time> {
        self.checkpoints[of].iter().find_map(CheckpointRun::waited_for_since)
    }

    /// Cancels the checkpoints `of` that are not yet written, whose transfers have been cancelled.
    pub(in crate::job) fn abandon(&mut self, now: Time, of: Ids<CheckpointId>) {
        for c in of {
            self.end_writing(now, c);
            self.checkpoints[c].abandon(&mut self.writes);
        }
    }

    /// Returns what failures and checkpoints cost a job copy; `None` if it has neither.
    pub(in crate::job) fn outcome(&self, of: Parts) -> Option<RecoveryOutcome> {
        let mut books = self.of(of.recoveries)?.books;
        for checkpoint in &self.checkpoints[of.checkpoints] {
            checkpoint.close(&mut books);
        }
        Some(books)
    }

    /// Returns when the checkpoints of a job copy began, in order [s].
    pub(in crate::job) fn begun(&self, of: Parts) -> Vec<f64> {
        self.of(of.recoveries).map_or(Vec::new(), |recovery| recovery.begun.clone())
    }

    /// Returns whether the failures of a job copy that the scenario gives times for have happened.
    pub(in crate::job) fn are_shown(&self, of: Parts) -> bool {
        let shown = |recovery: &RecoveryRun| {
            let failures = &self.failures[of.failures];
            failures.iter().all(|failures| recovery.books.failures >= failures.planned())
        };
        self.of(of.recoveries).is_none_or(shown)
    }

    /// Records for the job copy of `of` that a new state has been saved, which counts as progress if it has more steps than any
    /// saved before. If epochs begin again after a failure and the goal is a number of epochs, only a state of a later epoch
    /// counts.
    pub(in crate::job) fn record_progress(&mut self, of: RecoveryId) {
        let recovery = &mut self.all[of];
        if recovery.saved.state.steps <= recovery.furthest {
            return;
        }
        recovery.furthest = recovery.saved.state.steps;
        let cursors = recovery.saved.state.cursors.as_slice();
        for failures in self.failures.iter_mut().filter(|failures| failures.recovery == of) {
            let FailureSettings { epoch, resume, .. } = &failures.settings;
            if epoch.goal && *resume == Resume::Epoch {
                let first = epoch.start_of(&cursors[0], 0, cursors.len() as u64).samples;
                if first <= failures.begun {
                    continue;
                }
                failures.begun = first;
            }
            failures.failures_without_progress = 0;
        }
    }

    /// Samples the time of the next failure of node `node` of failures `f`, and schedules the failure.
    pub(in crate::job) fn next_failure(&mut self, env: &mut Env, f: FailuresId, node: u32) {
        let failures = &mut self.failures[f];
        let FailureTimes::Random { mtbf, shape } = failures.settings.when else { return };
        let Some(number) = failures.number.get_mut(node as usize) else {
            return broken("failures are of nodes of the job");
        };
        let index = *number;
        *number += 1;
        let owner = failures.job.number().into();
        let mut generator = env.streams.at(Purpose::Failure, owner, node.into(), index);
        let wait = time_to_failure(mtbf, shape, &mut generator);
        env.after(Delay::once(wait), Event::Failed { failures: f, node });
    }

    /// Schedules the first failures of each node of failures `f`.
    pub(in crate::job) fn begin_failures(&mut self, env: &mut Env, f: FailuresId) {
        let nodes = self.failures[f].number.len() as u32;
        match self.failures[f].settings.when.clone() {
            FailureTimes::At(times) => {
                for (number, time) in times.into_iter().enumerate() {
                    let node = self.failures[f].node(env, number);
                    env.after(Delay::once(time), Event::Failed { failures: f, node });
                }
            }
            FailureTimes::Random { .. } => (0..nodes).for_each(|n| self.next_failure(env, f, n)),
        }
    }
}
