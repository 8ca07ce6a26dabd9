//! Ends all activities in progress of a job copy at once, because one of its nodes failed. The cores, slots and bandwidth that
//! the job copy held pass to other activities, and none of the job copy's scheduled events happens later.

use super::tables::Recoveries;
use crate::communication::Communicators;
use crate::env::{ActivityId, Env, Event};
use crate::ids::{DeviceId, Ids, JobId, Parts, WorkerId};
use crate::job::jobs::Jobs;
use crate::loader::Fetches;

/// A job copy, its parts, and its loaders' workers.
struct Owner {
    job: JobId,
    parts: Parts,
    workers: Ids<WorkerId>,
}

impl Owner {
    /// Returns whether `activity` belongs to the job copy; `world` knows the owners of messages, ranges, communicators
    /// and checkpoints being written.
    fn is(&self, activity: ActivityId, world: Owners<'_>) -> bool {
        match activity {
            ActivityId::Worker(w) => self.workers.contains(w),
            ActivityId::Range(r) => self.workers.contains(world.fetches.worker(r)),
            ActivityId::Step(d)
            | ActivityId::Sleeper(d)
            | ActivityId::Average(d)
            | ActivityId::Sum(d)
            | ActivityId::Load(d)
            | ActivityId::Swap(d)
            | ActivityId::Handed { device: d, .. }
            | ActivityId::Arriving { device: d, .. } => self.parts.devices.contains(d),
            ActivityId::Launch(t) => self.parts.trainers.contains(t),
            ActivityId::Push(w) => world.communicators.job_of_worker(w) == self.job,
            ActivityId::Communicator(c) => world.communicators.job(c) == self.job,
            ActivityId::Message(m) => world.communicators.job_of_message(m) == self.job,
            ActivityId::Checkpoint(c) => self.parts.checkpoints.contains(c),
            ActivityId::Write(w) => {
                self.parts.checkpoints.contains(world.recoveries.checkpoint_of(w))
            }
            ActivityId::ReadBack(f) => self.parts.failures.contains(f),
            ActivityId::Averaged(j) | ActivityId::LastNode(j) => j == self.job,
            // Copies end before the job copy trains, and a restart must still come.
            ActivityId::Copy(_)
            | ActivityId::Restart(_)
            | ActivityId::Request(_)
            | ActivityId::Endless => false,
        }
    }

    /// Returns whether `event` continues an activity that the job copy has in progress.
    fn awaits(&self, event: Event, world: Owners<'_>) -> bool {
        match event {
            Event::Opened(activity) | Event::Waited(activity) => self.is(activity, world),
            Event::Computed(w) => self.workers.contains(w),
            Event::Stepped(d) => self.parts.devices.contains(d),
            Event::JobStarted(_)
            | Event::Arrived(_)
            | Event::Served(_)
            | Event::Delivered(_)
            | Event::Begun { .. }
            | Event::Turned(_)
            | Event::Bucket(_)
            | Event::Failed { .. } => false,
        }
    }
}

/// The tables that know the owners of messages, ranges, communicators and checkpoints being written.
#[derive(Clone, Copy)]
struct Owners<'a> {
    fetches: &'a Fetches,
    communicators: &'a Communicators,
    recoveries: &'a Recoveries,
}

impl Jobs {
    /// Aborts everything that job copy `j` has in progress.
    pub(in crate::job) fn abort(&mut self, env: &mut Env, j: JobId) {
        let owner = self.owner(j);
        let now = env.now;
        let known = Owners {
            fetches: &self.loaders.fetches,
            communicators: &self.communicators,
            recoveries: &self.recoveries,
        };
        for station in &mut env.stations {
            station.queue.forget(now, |waiting| owner.is(waiting.activity, known));
        }
        self.loaders.storages.forget(env, |activity| owner.is(*activity, known));
        let mut cancelled = Vec::new();
        env.network.cancel_all(now, |activity| {
            let is = owner.is(*activity, known);
            cancelled.extend(is.then_some(*activity));
            is
        });
        for turns in &mut self.loaders.storages.turns {
            turns.forget(env, |activity| owner.is(*activity, known));
        }
        let awaited = env.calendar.remove_all(|event| owner.awaits(*event, known));
        for event in awaited {
            self.leave_station(env, event);
        }
        for activity in cancelled {
            self.leave_paced(env, activity);
        }
        self.loaders.leave_queues(env, owner.workers);
        self.loaders.fetches.forget(owner.workers);
        let parts = owner.parts;
        self.recoveries.abandon(now, parts.checkpoints);
        self.communicators.abort(env, j, parts.communicators);
        self.jobs[j].spread.abort();
        if let Some(sampled) = &mut self.jobs[j].sampled {
            sampled.abort(now);
        }
        for s in parts.servers {
            self.communicators[s].abort();
            self.communicators.trace_servers(env, s);
        }
    }

    fn owner(&self, j: JobId) -> Owner {
        let job = &self.jobs[j];
        Owner { job: j, parts: job.parts, workers: self.loaders.workers_of(job.parts.loaders) }
    }

    /// Frees the server that was busy until `event`, and gives it to the next activity in the queue.
    fn leave_station(&mut self, env: &mut Env, event: Event) {
        match event {
            Event::Opened(ActivityId::Worker(w)) => self.loaders.leave_operations(env, w),
            Event::Opened(ActivityId::Range(r)) => {
                self.loaders.leave_operations(env, self.loaders.fetches.worker(r));
            }
            // The request was about to take the slot that it has been given.
            Event::Waited(ActivityId::Worker(w)) => self.loaders.give_slot_back(env, w),
            Event::Waited(ActivityId::Range(r)) => self.loaders.give_slot_of_range_back(env, r),
            Event::Computed(w) => {
                let cores = self.loaders.cores_of(w);
                self.loaders.leave_core(env, cores);
            }
            Event::Stepped(d) => self.leave_cores(env, d),
            Event::Waited(ActivityId::Launch(t)) => {
                if let Some(next) = self.devices.leave_core(env, t) {
                    self.loaders.admit(env, next);
                }
            }
            Event::Waited(ActivityId::Message(m)) => {
                if let Some(cores) = self.communicators.cores_of_message(m) {
                    self.loaders.leave_core(env, cores);
                }
            }
            _ => {}
        }
    }

    /// Frees the core that a cancelled flow of `activity` used, if it used one as its server, and gives it to the next activity
    /// in the queue.
    fn leave_paced(&mut self, env: &mut Env, activity: ActivityId) {
        let cores = match activity {
            ActivityId::Worker(w) => self.loaders.is_on_core(w).then(|| self.loaders.cores_of(w)),
            ActivityId::Launch(t) => Some(self.devices.cores_of_trainer(t)),
            ActivityId::Message(m) => self.communicators.cores_of_message(m),
            ActivityId::Step(d) => return self.leave_cores(env, d),
            _ => None,
        };
        if let Some(cores) = cores {
            self.loaders.leave_core(env, cores);
        }
    }

    /// Frees the cores of threads of the step of device `d`, which are cancelled.
    fn leave_cores(&mut self, env: &mut Env, d: DeviceId) {
        if self.trains_on_cores(d) {
            self.devices.end_threads(env, d);
        }
    }
}
