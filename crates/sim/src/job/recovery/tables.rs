//! The tables of checkpoints and failures.

use std::collections::BTreeMap;

use forebay_engine::{Fingerprint, Span, Time};
use forebay_report::{Cause, RecoveryOutcome, SampleCounts};

use super::checkpoint::{CheckpointRun, Saved, Write, WriteOverlap, WritePlace};
use super::failures::FailureRun;
use super::restored::Restored;
use super::state::JobState;
use crate::env::Env;
use crate::ids::{
    CheckpointId, FailuresId, IdVec, Ids, LoaderId, Parts, RangeVec, RecoveryId, Slab, WriteId,
};
use crate::loader::{Cursor, Loaders};

/// The owner of checkpoints and failures.
#[derive(Debug, Default)]
pub(crate) struct Recoveries {
    /// The saved states of job copies that have checkpoints or failures.
    pub(super) all: IdVec<RecoveryId, RecoveryRun>,
    pub(super) checkpoints: IdVec<CheckpointId, CheckpointRun>,
    /// Checkpoints that are not yet written.
    pub(super) writes: Slab<WriteId, Write>,
    pub(super) failures: IdVec<FailuresId, FailureRun>,
    /// Overlap of the job copies that write checkpoints, by place.
    pub(super) overlaps: BTreeMap<WritePlace, WriteOverlap>,
}

/// The last saved state of a job copy, and what its checkpoints and failures cost.
#[derive(Debug)]
pub(crate) struct RecoveryRun {
    /// The state from which the job copy would restart.
    saved: Saved,
    /// The state in which the job copy began to train, from which it restarts if no checkpoint is left.
    initial: Saved,
    /// Largest number of steps of any saved state so far.
    furthest: u64,
    books: RecoveryOutcome,
    /// Times at which checkpoints began, in order [s].
    begun: Vec<f64>,
    /// Initial state of each loader, for restarts.
    restored: RangeVec<LoaderId, Restored>,
    /// Number of steps, done and still to be done, that repeat earlier steps because epochs begin again after failures.
    replayed: u64,
    /// Time of the last restart.
    resumed: Time,
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
    fn begin(&mut self, initial: Saved) {
        (self.saved, self.initial) = (initial.clone(), initial);
    }

    /// Returns the number of steps of the state from which the job copy would restart.
    pub(super) fn saved_steps(&self) -> u64 {
        self.saved.state.steps
    }

    /// Returns the position of each loader in the state from which the job copy would restart.
    pub(super) fn saved_cursors(&self) -> &[Cursor] {
        self.saved.state.cursors.as_slice()
    }

    /// Returns the state from which the job copy would restart.
    pub(super) fn saved_state(&self) -> &JobState {
        &self.saved.state
    }

    /// Returns the waits of a device that restarts from the saved state at `now`, one after the other, each with its end.
    pub(super) fn waits(&self, now: Time) -> [(Time, Cause); 3] {
        self.saved.waits(now)
    }

    /// Returns the number of steps, done and still to be done, that repeat earlier steps.
    pub(super) fn replayed(&self) -> u64 {
        self.replayed
    }

    /// Lets the job copy repeat `again` steps after those that the saved state repeats; returns the numbers of repeated steps
    /// before and now.
    pub(super) fn replay(&mut self, again: u64) -> (u64, u64) {
        let replayed = self.saved.state.replayed + again;
        (std::mem::replace(&mut self.replayed, replayed), replayed)
    }

    /// Records that a checkpoint began at `begun`.
    pub(super) fn note_begun(&mut self, begun: Time) {
        self.begun.push(begun.seconds());
    }

    /// Records that a checkpoint had to wait for `wait` until the one before was written.
    pub(super) fn note_postponed(&mut self, wait: Span) {
        self.books.postponed += 1;
        self.books.postponed_seconds += wait.seconds();
    }

    /// Records that `pending` checkpoints are not yet written, for which a node keeps up to `bytes` [B].
    pub(super) fn note_backlog(&mut self, pending: u64, bytes: f64) {
        self.books.backlog = self.books.backlog.max(pending);
        self.books.backlog_bytes = self.books.backlog_bytes.max(bytes);
    }

    /// Records that checkpoints were transferred for `time`, and other job copies' with them for `overlap` [s].
    pub(super) fn note_transfers(&mut self, time: Span, overlap: f64) {
        self.books.transfer_seconds += time.seconds();
        self.books.overlap_seconds += overlap;
    }

    /// Records that a checkpoint of `bytes` [B] was written in `time`. Its state `saved` becomes the one from which the job copy
    /// would restart, unless a newer one is.
    pub(super) fn note_written(&mut self, saved: Saved, bytes: f64, time: Span) {
        self.books.checkpoints += 1;
        self.books.written += bytes;
        self.books.writing_seconds += time.seconds();
        if saved.state.steps >= self.saved.state.steps {
            self.saved = saved;
        }
    }

    /// Returns the position of each loader in the state that has just been saved if that is progress: it has more steps than any
    /// state saved before.
    pub(super) fn note_progress(&mut self) -> Option<&[Cursor]> {
        let more = self.saved.state.steps > self.furthest;
        self.furthest = self.furthest.max(self.saved.state.steps);
        more.then(|| self.saved_cursors())
    }

    /// Records a failure. If it `loses` the checkpoints, because the node had a part of each, the job copy restarts from step 0.
    pub(super) fn note_failure(&mut self, loses: bool) {
        self.books.failures += 1;
        if loses && self.saved.state.steps > 0 {
            self.saved = self.initial.clone();
            self.books.from_start += 1;
            // All samples are fresh again.
            self.restored.iter_mut().for_each(Restored::forget_known);
        }
    }

    /// Records that nodes read a checkpoint of `bytes` [B] back in `time`.
    pub(super) fn note_read_back(&mut self, bytes: f64, time: Span) {
        self.books.read_backs += 1;
        self.books.read_back += bytes;
        self.books.reading_seconds += time.seconds();
    }

    /// Records that the job copy trains again from `now` on.
    pub(super) fn note_restart(&mut self, now: Time) {
        self.resumed = now;
    }

    /// Lets loader `l` read again from the saved state on; all its buffers are empty then. The job has `goal` steps of `batch`
    /// samples.
    pub(super) fn restore_loader(
        &mut self,
        now: Time,
        failures: &FailureRun,
        (loaders, l): (&mut Loaders, LoaderId),
        (goal, batch): (u64, u64),
    ) {
        let saved = &self.saved.state.cursors[l];
        let kept = failures.kept(saved, loaders[l].place);
        // The repeated samples may need one batch more than the samples that they are added to.
        let more = failures.batches(self.saved.state.steps..goal);
        self.restored[l].restore(now, (loaders, l), (saved.samples, kept), (more, batch));
    }

    /// Returns the number of samples that had left the queue of loader `l` before the last restart and were read once more after it;
    /// they do not count towards its position.
    pub(super) fn base_of(&self, l: LoaderId) -> u64 {
        self.restored[l].base()
    }

    /// Returns how many of the last `taken` samples of loader `l` had not come before; `passed` is the number of all
    /// samples that have left the loader's queue so far.
    pub(in crate::job) fn fresh(&self, l: LoaderId, passed: u64, taken: u64) -> u64 {
        self.restored[l].fresh(passed, taken)
    }

    /// Counts what a failure at `failed` cost: the time until the restart at `until`, and all time after the last saved step, which
    /// ended at `end`, except for the time that training waited for the checkpoint of that step.
    pub(super) fn lose(&mut self, (failed, until): (Time, Time), end: Time) {
        self.count_lost(failed, end);
        self.books.down_seconds += until.since(failed).seconds();
    }

    fn count_lost(&mut self, failed: Time, end: Time) {
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
        self.restored.as_slice().iter().for_each(|loader| loader.count(counts));
    }
}

impl Recoveries {
    /// Adds what a job copy needs to be checkpointed and to restart after failures, and records it in the `parts` of the job copy.
    pub(crate) fn add(
        &mut self,
        parts: &mut Parts,
        recovery: Option<RecoveryRun>,
        (checkpoint, failures): (Option<CheckpointRun>, Option<FailureRun>),
    ) {
        let of = (self.all.next_id(), self.checkpoints.next_id(), self.failures.next_id());
        self.all.extend(recovery);
        self.checkpoints.extend(checkpoint);
        self.failures.extend(failures);
        parts.recoveries = self.all.ids_from(of.0);
        parts.checkpoints = self.checkpoints.ids_from(of.1);
        parts.failures = self.failures.ids_from(of.2);
    }

    /// Returns the id of the recovery that is added next.
    pub(crate) fn next_id(&self) -> RecoveryId {
        self.all.next_id()
    }

    /// Begins the checkpoints and failures of a job copy, which begins to train for the first time in the state `initial`.
    pub(super) fn begin(&mut self, env: &mut Env, of: Parts, initial: Saved) {
        for recovery in &mut self.all[of.recoveries] {
            recovery.begin(initial.clone());
        }
        for checkpoint in &mut self.checkpoints[of.checkpoints] {
            checkpoint.schedule(env.now, 0);
        }
        for f in of.failures {
            self.begin_failures(env, f);
        }
    }

    /// Lets loader `l` of the job copy of failures `f` read again from the saved state on. The job has `goal` steps of `batch`
    /// samples.
    pub(super) fn restore_loader(
        &mut self,
        now: Time,
        f: FailuresId,
        loader: (&mut Loaders, LoaderId),
        plan: (u64, u64),
    ) {
        let failures = &self.failures[f];
        self.all[failures.recovery()].restore_loader(now, failures, loader, plan);
    }

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

    /// Adds the state of a job copy's checkpoints after `step` steps to a fingerprint, apart from checkpoints that are due after `end`.
    /// Returns false if one is being written, or if the job copy has failed, so that its future depends on more.
    pub(in crate::job) fn describe(
        &self,
        of: Parts,
        (end, step): (Time, u64),
        to: &mut Fingerprint,
    ) -> bool {
        let failed = self.of(of.recoveries).is_some_and(|recovery| recovery.books.failures > 0);
        let checkpoints = &self.checkpoints[of.checkpoints];
        !failed && checkpoints.iter().all(|checkpoint| checkpoint.describe((end, step), to))
    }

    /// Returns when the checkpoints of a job copy began, in order [s].
    pub(in crate::job) fn begun(&self, of: Parts) -> Vec<f64> {
        self.of(of.recoveries).map_or(Vec::new(), |recovery| recovery.begun.clone())
    }

    /// Returns whether the failures of a job copy that the scenario gives times for have happened.
    pub(in crate::job) fn are_shown(&self, of: Parts) -> bool {
        let shown = |recovery: &RecoveryRun| {
            let failures = &self.failures[of.failures];
            failures.iter().all(|failures| failures.are_shown(recovery.books.failures))
        };
        self.of(of.recoveries).is_none_or(shown)
    }
}
