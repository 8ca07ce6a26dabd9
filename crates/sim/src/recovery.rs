//! Failures of nodes: a job copy stops at once, and restarts from the state of its last checkpoint, which its nodes may have to
//! read back first.
//!
//! Everything in progress ends with the failure. The steps since the checkpoint are removed from the books, and their time
//! becomes a stall caused by the fault. So each sample is trained on as often as without failures.

mod epoch;
mod restored;

use forebay_engine::Time;
use forebay_engine::fluid::FlowId;
use forebay_model::random::{Purpose, time_to_failure};
use forebay_report::{Cause, ParallelOutcome, RecoveryOutcome, SampleCounts};
use forebay_scenario::{ENDLESS, FailureTimes, Resume};

use super::checkpoint::{CheckpointRun, Saved, StatePart};
use super::device::State;
use super::env::Env;
use super::event::{ActivityId, Delay, Event};
use super::index::{DeviceId, Id, IdVec, JobId};
use super::job_run::JobRun;
use super::jobs::Jobs;
use super::launch::Launching;
use super::lineage::Trained;

pub(super) use epoch::EpochRun;
pub(super) use restored::Restored;

/// Number of failures in a row without progress (a new checkpoint or the job's end) after which the job is assumed never to
/// end.
const HOPELESS: u32 = 10_000;

/// Checkpoints and failures of a job copy.
#[derive(Debug)]
pub(super) struct RecoveryRun {
    pub(super) checkpoint: Option<CheckpointRun>,
    failures: Option<FailureRun>,
    /// The state from which the job copy would restart.
    pub(super) saved: Saved,
    pub(super) books: RecoveryOutcome,
    /// Initial state of each loader, for restarts.
    restored: IdVec<Restored>,
    /// Number of steps that repeat earlier steps because epochs begin again after failures.
    replayed: u64,
    /// Time of the last restart.
    resumed: Time,
}

/// Number of failures, and number of checkpoints, after which their mean costs are considered known.
const ENOUGH: u64 = 10;

impl RecoveryRun {
    /// Returns whether enough failures and checkpoints have happened to end a run whose length the scenario does not give.
    pub(super) fn is_shown(&self) -> bool {
        let asked = self.failures.as_ref().map_or(0, |of| match &of.when {
            FailureTimes::At(times) => times.len() as u64,
            FailureTimes::Random { .. } => ENOUGH,
        });
        let written = self.checkpoint.is_none() || self.books.checkpoints >= ENOUGH;
        self.books.failures >= asked && written
    }
}

/// How the nodes of a job copy fail.
#[derive(Debug)]
pub(super) struct FailureRun {
    pub(super) when: FailureTimes,
    pub(super) restart: f64,
    /// The parts of a checkpoint that nodes or parameter servers read before the job trains again; empty if none are read.
    pub(super) readers: Vec<StatePart>,
    /// Transfers of these parts since the last restart, of which `unread` are in progress.
    pub(super) reading: Vec<FlowId>,
    pub(super) unread: u32,
    pub(super) resume: Resume,
    /// Number of failures of each node.
    pub(super) number: Vec<u64>,
    /// Time since when the job has been down, and time when it will restart or begin to read the checkpoint back; `None` while the
    /// job is up.
    pub(super) down: Option<(Time, Time)>,
    pub(super) failures_without_progress: u32,
    /// Number of samples that the first loader had handed out before the last checkpointed epoch began.
    pub(super) begun: u64,
    /// The size of an epoch, and whether the goal is a number of epochs.
    pub(super) epoch: EpochRun,
}

impl RecoveryRun {
    pub(super) fn new(
        checkpoint: Option<CheckpointRun>,
        failures: Option<FailureRun>,
        restored: IdVec<Restored>,
    ) -> RecoveryRun {
        RecoveryRun {
            checkpoint,
            failures,
            saved: Saved::default(),
            books: RecoveryOutcome::default(),
            restored,
            replayed: 0,
            resumed: Time::ZERO,
        }
    }

    /// Returns the number of steps, done and still to be done, that repeat earlier steps.
    pub(super) fn replayed(&self) -> u64 {
        self.replayed
    }

    /// Returns whether the job waits for its state to be saved.
    pub(super) fn is_saving(&self) -> bool {
        self.checkpoint.as_ref().is_some_and(CheckpointRun::is_waited_for)
    }

    /// Records that a new state has been saved, which counts as progress. If epochs begin again after a failure and the goal
    /// is a number of epochs, only a state of a later epoch counts.
    pub(super) fn record_progress(&mut self) {
        let Some(failures) = &mut self.failures else { return };
        if failures.epoch.goal && failures.resume == Resume::Epoch {
            let loaders = self.saved.taken.len() as u64;
            let (first, _) = failures.epoch.start_of(&self.saved, 0, loaders);
            if first <= failures.begun {
                return;
            }
            failures.begun = first;
        }
        failures.failures_without_progress = 0;
    }

    /// Returns how many of the last `taken` samples of loader number `loader` had not been trained on before; `dequeued` is the
    /// number of all samples that the loader has handed out so far.
    pub(super) fn fresh(&self, loader: u32, dequeued: u64, taken: u64) -> u64 {
        let of = &self.restored[Id::new(loader)];
        let position = dequeued - of.base;
        position.saturating_sub(of.known.max(position - taken))
    }

    /// Counts the time lost by a failure at `failed`: all time after the last saved step, which ended at `end`, except for the
    /// time that training waited for the checkpoint of that step.
    fn lose(&mut self, failed: Time, end: Time) {
        let Saved { begun, ready, .. } = self.saved;
        self.books.lost_seconds += failed.since(ready.max(self.resumed)).seconds();
        // What devices did after that step, while others finished it, is lost only once.
        if self.resumed <= ready {
            self.books.lost_seconds += begun.since(end).seconds();
        }
    }

    /// Adds the samples that failures threw away to `counts`.
    pub(super) fn count(&self, counts: &mut SampleCounts) {
        for loader in &self.restored {
            counts.started += loader.counts.started;
            counts.dropped += loader.counts.dropped;
            counts.cleared += loader.counts.cleared;
        }
    }
}

impl JobRun {
    /// Sets the job copy's steps and bytes sent back to its last checkpoint, after a failure at `failed`.
    fn go_back(&mut self, failed: Time) {
        let Some(recovery) = &mut self.recovery else { return };
        self.steps.roll_back(recovery.saved.steps, self.start);
        // Only once, since the job copy may go back to the same saved state again.
        self.steps.take_back(std::mem::take(&mut recovery.saved.ahead));
        recovery.lose(failed, self.steps.last_end());
        let saved = &recovery.saved;
        self.tally.restart(&saved.own);
        self.spread.books = saved.sent;
    }
}

impl Jobs {
    /// Returns the bytes that the GPUs of job copy `j` have sent.
    pub(super) fn sent(&self, j: JobId) -> ParallelOutcome {
        let job = &self.jobs[j];
        self.communicators.with_sent(job.parts.communicators, job.spread.books)
    }

    /// Initialises recovery of job copy `j`, which begins to train for the first time, and schedules its failures.
    pub(super) fn begin_recovery(&mut self, env: &mut Env, j: JobId) {
        if self.jobs[j].recovery.is_none() {
            return;
        }
        let own = self.own_steps(j);
        let Some(recovery) = &mut self.jobs[j].recovery else { return };
        let loaders = recovery.restored.len();
        recovery.saved = Saved {
            taken: vec![(0, 0); loaders],
            trained: vec![Trained::default(); loaders],
            own,
            ..Saved::at(env.now)
        };
        if let Some(checkpoint) = &mut recovery.checkpoint {
            checkpoint.schedule(env.now, 0);
        }
        let Some(failures) = &recovery.failures else { return };
        let (when, nodes) = (failures.when.clone(), failures.number.len() as u32);
        match when {
            FailureTimes::At(times) => {
                for time in times {
                    env.after(Delay::once(time), Event::Failed { job: j, node: nodes });
                }
            }
            FailureTimes::Random { .. } => (0..nodes).for_each(|n| self.next_failure(env, j, n)),
        }
    }

    /// Samples the time of the next failure of node `node` of job copy `j`, and schedules the failure.
    fn next_failure(&mut self, env: &mut Env, j: JobId, node: u32) {
        let Some(recovery) = &mut self.jobs[j].recovery else { return };
        let Some(failures) = &mut recovery.failures else { return };
        let FailureTimes::Random { mtbf, shape } = failures.when else { return };
        let Some(number) = failures.number.get_mut(node as usize) else { return };
        let index = *number;
        *number += 1;
        let mut generator = env.streams.at(Purpose::Failure, j.number().into(), node.into(), index);
        let wait = time_to_failure(mtbf, shape, &mut generator);
        env.after(Delay::once(wait), Event::Failed { job: j, node });
    }

    /// Handles a failure of node `node` of job copy `j`.
    #[cold]
    pub(super) fn failed(&mut self, env: &mut Env, j: JobId, node: u32) {
        if self.jobs[j].finished {
            return;
        }
        self.next_failure(env, j, node);
        let Some(recovery) = &mut self.jobs[j].recovery else { return };
        recovery.books.failures += 1;
        let Some(failures) = &mut recovery.failures else { return };
        let restart = Delay::once(failures.restart);
        for flow in failures.reading.drain(..) {
            env.network.cancel(env.now, flow);
        }
        failures.unread = 0;
        let first = failures.down.is_none();
        let since = failures.down.map_or(env.now, |(since, _)| since);
        failures.down = Some((since, env.now + restart.span));
        failures.failures_without_progress += 1;
        if failures.failures_without_progress > HOPELESS {
            self.hopeless = Some(j);
            self.unfinished = 0;
            return;
        }
        if first {
            self.stop_job(env, j);
        }
        env.after(restart, Event::Waited(ActivityId::Restart(j)));
    }

    /// Stops job copy `j` and everything that it has in progress.
    fn stop_job(&mut self, env: &mut Env, j: JobId) {
        self.abandon_checkpoint(env, j);
        self.close_until(j, env.now);
        self.abort(env, j);
        for d in self.jobs[j].parts.devices {
            self.stop_device(env, d);
        }
        let job = &mut self.jobs[j];
        job.open.smaller.clear();
        job.open.fresh.clear();
        for l in job.parts.loaders {
            let loader = &mut self.loaders[l];
            loader.waiters.clear();
            loader.gpus.shared.iter_mut().for_each(|gpu| gpu.clear(env.now));
            for w in loader.stages.workers {
                self.loaders.stop_worker(env, w);
            }
        }
    }

    fn stop_device(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        if device.state == State::Starving {
            self.loaders[device.loader].queue.end_wait(env.now);
        }
        let device = &mut self.devices[d];
        if device.state == State::Busy {
            device.times.busy += env.now.since(device.since).seconds();
        }
        device.state = State::Off;
        device.launching = Launching::default();
        (device.input.holds_input, device.on_gpu.kernels) = (false, Default::default());
        (device.op.at, device.op.waits) = (0, false);
        (device.input.missing, device.input.on_batch) = (0, u64::MAX / 2);
        device.input.waits.clear();
        device.input.ahead.clear();
        self.trace_device(env, d, Cause::Fault.name());
    }

    /// Restarts job copy `j`, unless it has failed again meanwhile: lets its nodes read the last checkpoint back if they do, and
    /// then the job copy train.
    pub(super) fn restart(&mut self, env: &mut Env, j: JobId) {
        let Some(recovery) = &mut self.jobs[j].recovery else { return };
        let written = recovery.saved.steps > 0;
        let Some(failures) = &mut recovery.failures else { return };
        let Some((since, _)) = failures.down.filter(|(_, at)| *at <= env.now) else { return };
        if failures.unread > 0 {
            // Two failures at the same time restart the job copy once.
            return;
        }
        let read = |part: &StatePart| {
            Some(env.network.start(env.now, part.way?, part.bytes, ActivityId::ReadBack(j)))
        };
        if written {
            failures.reading = failures.readers.iter().filter_map(read).collect();
        }
        failures.unread = failures.reading.len() as u32;
        if failures.unread == 0 {
            self.resume(env, j, since);
        }
    }

    /// Ends the transfer of one part of the checkpoint that the nodes of job copy `j` read back.
    pub(super) fn part_read_back(&mut self, env: &mut Env, j: JobId) {
        let Some(recovery) = &mut self.jobs[j].recovery else { return };
        let Some(failures) = &mut recovery.failures else { return };
        failures.unread -= 1;
        if let (0, Some((since, _))) = (failures.unread, failures.down) {
            failures.reading.clear();
            self.resume(env, j, since);
        }
    }

    /// Lets job copy `j`, which has been down since `since`, train again from its last checkpoint.
    fn resume(&mut self, env: &mut Env, j: JobId, since: Time) {
        self.roll_back(env.now, j, since);
        for l in self.jobs[j].parts.loaders {
            self.restore_loader(env.now, j, l);
        }
        self.set_going(env, j);
    }

    /// Sets the records of job copy `j`, which has been down since `since`, back to its last checkpoint, and records the time
    /// after that checkpoint as lost.
    fn roll_back(&mut self, now: Time, j: JobId, since: Time) {
        let job = &mut self.jobs[j];
        job.go_back(since);
        let Some(recovery) = &mut job.recovery else { return };
        self.communicators.go_back(job.parts, &recovery.saved);
        let saved = &recovery.saved;
        for (d, index) in job.parts.devices.iter().zip(0..) {
            let device = &mut self.devices[d];
            let steps = saved.steps_of(device.model);
            device.next = steps;
            device.input.missing = saved.missing.get(index).copied().unwrap_or(0);
            if device.learner < job.learners.number {
                let lost = saved.waits(job.steps.last_end(), now);
                lost.into_iter().for_each(|wait| job.steps.add_stall(wait));
            }
        }
        recovery.resumed = now;
        recovery.books.down_seconds += now.since(since).seconds();
        if let Some(checkpoint) = &mut recovery.checkpoint {
            checkpoint.schedule(now, saved.steps);
        }
        let Some(failures) = &mut recovery.failures else { return };
        failures.down = None;
        let replayed = saved.replayed + failures.epoch.steps_again(saved, failures.resume);
        // Applies only if the goal counts steps; if it counts fresh samples, repeated samples do not count anyway.
        if failures.epoch.goal && job.plan.goal.steps != ENDLESS {
            job.plan.goal.steps += replayed;
            job.plan.goal.steps -= recovery.replayed;
            recovery.replayed = replayed;
        }
    }

    /// Handles the end of the run at `end` for job copies that are down: they lose the steps that were not saved.
    pub(super) fn end_down(&mut self, end: Time) {
        for job in &mut self.jobs {
            let failures = job.recovery.as_ref().and_then(|recovery| recovery.failures.as_ref());
            let down = failures.and_then(|of| of.down);
            let Some((since, _)) = down.filter(|_| !job.finished) else { continue };
            job.go_back(since);
            let Some(recovery) = &mut job.recovery else { continue };
            self.communicators.go_back(job.parts, &recovery.saved);
            for (l, saved) in job.parts.loaders.iter().zip(&recovery.saved.trained) {
                let lineage = self.loaders[l].lineage.iter_mut();
                lineage.for_each(|lineage| lineage.restart(saved, saved.samples.clone()));
            }
            recovery.books.down_seconds += end.since(since).seconds();
        }
    }
}
