//! When nodes of a job copy fail, how long the job copy is down, and what its nodes read back before it trains again.

use std::ops::Range;

use forebay_engine::Time;
use forebay_model::random::{Purpose, failed_node, time_to_failure};
use forebay_scenario::{ENDLESS, FailureTimes, Goal, Resume};

use super::checkpoint::StatePart;
use super::restored::EpochRun;
use super::tables::{Recoveries, RecoveryRun};
use crate::env::{ActivityId, Delay, Env, Event, broken};
use crate::ids::{CheckpointId, FailuresId, Ids, JobId, RecoveryId};
use crate::loader::{Cursor, LoaderPlace};

/// Number of failures in a row without progress (a checkpoint of a later step than any before, or the job's end) after which the
/// job is assumed never to end.
const HOPELESS: u32 = 10_000;

/// How the nodes of a job copy fail.
#[derive(Debug)]
pub(crate) struct FailureRun {
    job: JobId,
    recovery: RecoveryId,
    settings: FailureSettings,
    /// Number of parts of the last checkpoint that are being read back; `reading` is the time when that began.
    unread: u32,
    reading: Time,
    /// Number of failures of each node.
    number: Vec<u64>,
    /// Time at which the job went down, and time when it will restart or begin to read the checkpoint back; `None` while
    /// the job is up.
    down: Option<(Time, Time)>,
    failures_without_progress: u32,
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

    /// Returns the recovery of the job copy.
    pub(super) fn recovery(&self) -> RecoveryId {
        self.recovery
    }

    /// Returns the position from which a loader reads again whose position in the last checkpoint is `saved`.
    pub(super) fn kept(&self, saved: &Cursor, place: LoaderPlace) -> Cursor {
        match self.settings.resume {
            Resume::Position => saved.clone(),
            Resume::Epoch => {
                let (index, loaders) = (place.rank as usize, u64::from(place.loaders));
                self.settings.epoch.start_of(saved, index, loaders)
            }
        }
    }

    /// Returns the number of batches that all model copies of a loader take in `steps`.
    pub(super) fn batches(&self, steps: Range<u64>) -> u64 {
        self.settings.epoch.batches(steps)
    }

    /// Returns whether the failures of the job copy that the scenario gives times for have happened, if `number` failures have.
    pub(super) fn are_shown(&self, number: u64) -> bool {
        number >= self.planned()
    }
}

/// What a failure of a node means for its job copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failed {
    /// The job copy was up, and stops.
    Up,
    /// The job copy was down already.
    Down,
    /// The job copy failed too often in a row without progress, and is assumed never to end.
    Hopeless,
}

impl Recoveries {
    /// Returns the job copy of failures `f`.
    pub(super) fn job_of(&self, f: FailuresId) -> JobId {
        self.failures[f].job
    }

    /// Returns the failures of all job copies.
    pub(super) fn all_failures(&self) -> Ids<FailuresId> {
        self.failures.ids()
    }

    /// Returns the time at which the job copy of failures `f` went down; `None` if it is up.
    pub(super) fn down_since(&self, f: FailuresId) -> Option<Time> {
        self.failures[f].down.map(|(since, _)| since)
    }

    /// Schedules the first failures of each node of failures `f`.
    pub(super) fn begin_failures(&mut self, env: &mut Env, f: FailuresId) {
        let nodes = self.failures[f].number.len() as u32;
        match self.failures[f].settings.when.clone() {
            FailureTimes::At(times) => {
                for (number, time) in times.into_iter().enumerate() {
                    let node = self.failures[f].node(env, number);
                    env.after(Delay::once(time), Event::Failed { failures: f, node });
                }
            }
            FailureTimes::Random { .. } => {
                (0..nodes).for_each(|n| self.schedule_next_failure(env, f, n))
            }
        }
    }

    /// Samples the time of the next failure of node `node` of failures `f`, and schedules the failure.
    fn schedule_next_failure(&mut self, env: &mut Env, f: FailuresId, node: u32) {
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

    /// Counts a failure of node `node` of failures `f`, which may destroy the checkpoints and ends what the nodes read back, and
    /// schedules the node's next failure.
    pub(super) fn fail(&mut self, env: &mut Env, f: FailuresId, node: u32) -> Failed {
        self.schedule_next_failure(env, f, node);
        let failures = &mut self.failures[f];
        let loses = failures.settings.loses.get(node as usize) == Some(&true);
        self.all[failures.recovery].note_failure(loses);
        env.network.cancel_all(env.now, |activity| *activity == ActivityId::ReadBack(f));
        failures.unread = 0;
        let restart = Delay::once(failures.settings.restart);
        let was_up = failures.down.is_none();
        let since = failures.down.map_or(env.now, |(since, _)| since);
        failures.down = Some((since, env.now + restart.span));
        failures.failures_without_progress += 1;
        match was_up {
            _ if failures.failures_without_progress > HOPELESS => Failed::Hopeless,
            true => Failed::Up,
            false => Failed::Down,
        }
    }

    /// Schedules the restart of the job copy of failures `f`, a node of which has just failed.
    pub(super) fn schedule_restart(&self, env: &mut Env, f: FailuresId) {
        let restart = Delay::once(self.failures[f].settings.restart);
        env.after(restart, Event::Waited(ActivityId::Restart(f)));
    }

    /// Lets the nodes of the job copy of failures `f` read the last checkpoint back, unless it has failed again meanwhile. Returns
    /// the time at which the job copy went down if it can train again now, because its nodes have nothing to read.
    pub(super) fn begin_restart(&mut self, env: &mut Env, f: FailuresId) -> Option<Time> {
        let failures = &mut self.failures[f];
        let (since, _) = failures.down.filter(|(_, at)| *at <= env.now)?;
        if failures.unread > 0 {
            // Two failures at the same time restart the job copy once.
            return None;
        }
        if self.all[failures.recovery].saved_steps() > 0 {
            let readers = &failures.settings.readers;
            failures.unread = StatePart::move_all(readers, env, ActivityId::ReadBack(f));
            failures.reading = env.now;
        }
        (failures.unread == 0).then_some(since)
    }

    /// Ends the transfer of one part of the checkpoint that the nodes of a job copy read back. After the last part, returns the time
    /// at which the job copy went down.
    pub(super) fn end_part_read_back(&mut self, now: Time, f: FailuresId) -> Option<Time> {
        let failures = &mut self.failures[f];
        failures.unread -= 1;
        let (since, _) = failures.down.filter(|_| failures.unread == 0)?;
        let bytes = failures.settings.readers.iter().map(|part| part.bytes).sum::<f64>();
        self.all[failures.recovery].note_read_back(bytes, now.since(failures.reading));
        Some(since)
    }

    /// Records that the job copy of failures `f` trains again from `now` on, and schedules its next checkpoint of those in
    /// `checkpoints`. If an epoch begins again, adds the steps that the job copy repeats to its `goal`.
    pub(super) fn end_restart(
        &mut self,
        now: Time,
        f: FailuresId,
        checkpoints: Ids<CheckpointId>,
        goal: &mut Goal,
    ) {
        let FailureRun { down, settings, recovery, .. } = &mut self.failures[f];
        *down = None;
        let recovery = &mut self.all[*recovery];
        recovery.note_restart(now);
        for checkpoint in &mut self.checkpoints[checkpoints] {
            checkpoint.schedule(now, recovery.saved_steps());
        }
        let again = settings.epoch.steps_again(recovery.saved_cursors(), settings.resume);
        // Applies only if the goal counts steps; if it counts fresh samples, repeated samples do not count anyway.
        if settings.epoch.goal && goal.steps != ENDLESS {
            let (before, replayed) = recovery.replay(again);
            goal.steps += replayed;
            goal.steps -= before;
        }
    }

    /// Counts what the failure of the job copy of failures `f` at `since` cost: the time until `until`, and the work since its last
    /// saved step, which ended at `end`.
    pub(super) fn lose(&mut self, f: FailuresId, (since, until): (Time, Time), end: Time) {
        let recovery: &mut RecoveryRun = &mut self.all[self.failures[f].recovery];
        recovery.lose((since, until), end);
    }

    /// Records for the job copy of `of` that a new state has been saved, which counts as progress if it has more steps than any
    /// saved before. If epochs begin again after a failure and the goal is a number of epochs, only a state of a later epoch
    /// counts.
    pub(super) fn record_progress(&mut self, of: RecoveryId) {
        let Some(cursors) = self.all[of].note_progress() else { return };
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
}
