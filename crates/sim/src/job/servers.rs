//! Pushes to parameter servers and pulls from them, on the same network as the data.

use forebay_engine::Span;
use forebay_report::Cause;

use super::jobs::Jobs;
use crate::communication::{Around, Exchange, Parcel, ServerWorker};
use crate::device::State;
use crate::env::{ActivityId, Delay, Env, Event, broken};
use crate::ids::{DeviceId, JobId, MessageId, ServerWorkerId, ServersId};

/// What is complete once a step of an independently training model copy has been counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    /// A part of a step of the job.
    Part,
    /// A step of the job.
    Step,
    /// The job.
    Job,
}

impl Jobs {
    /// Returns whether device `d` has all parameters for its next step.
    pub(super) fn has_parameters(&self, d: DeviceId) -> bool {
        self.communicators.has_parameters(d, self.devices[d].step())
    }

    /// Begins the wait of device `d` before it computes: for parameters from the servers, or for a checkpoint. Returns false if it
    /// need not wait; its computation then begins.
    pub(super) fn begin_pull_wait(&mut self, env: &mut Env, d: DeviceId) -> bool {
        let parts = self.jobs[self.devices[d].job].parts;
        let there = !self.recoveries.is_saving(parts.checkpoints) && self.has_parameters(d);
        if there {
            self.communicators.begin_server_exchange(env.now, d, self.devices[d].step());
        } else {
            self.devices[d].account.begin(env.now, State::AwaitingParameters);
            self.devices.trace(env, d, Cause::Communication.name());
        }
        !there
    }

    /// Lets the workers of job copy `j` pull their first parameters, if it has servers; after a failure only workers that are not
    /// too far ahead may pull.
    pub(super) fn pull_all(&mut self, env: &mut Env, j: JobId) {
        for s in self.jobs[j].parts.servers {
            let servers = &mut self.communicators[s];
            let (workers, shards) = (servers.begin_all(), servers.all());
            for worker in workers {
                for shard in shards.clone() {
                    self.pull(env, s, worker, shard);
                }
            }
        }
    }

    /// Pushes the next `made` buckets of device `d`, which have gradients of experts or of other parameters.
    pub(super) fn push_buckets(
        &mut self,
        env: &mut Env,
        d: DeviceId,
        (of_experts, made): (bool, u32),
    ) {
        for w in self.communicators.workers_of(d) {
            let ServerWorker { servers, worker, experts } = self.communicators.worker(w);
            if experts != of_experts {
                continue;
            }
            for bucket in self.communicators[servers].count_made(worker, made) {
                if let Some(before) = self.communicators[servers].queue(worker, bucket) {
                    self.push_after(env, w, before);
                }
            }
        }
    }

    fn push_after(&mut self, env: &mut Env, w: ServerWorkerId, before: Span) {
        if before.0 == 0 {
            return self.push_next(env, w);
        }
        env.after(Delay { span: before, lane: None }, Event::Waited(ActivityId::Push(w)));
    }

    /// Pushes the first bucket that waits on a worker.
    pub(crate) fn push_next(&mut self, env: &mut Env, w: ServerWorkerId) {
        let ServerWorker { servers: s, worker, .. } = self.communicators.worker(w);
        if self.has_finished(s) {
            return;
        }
        let servers = &mut self.communicators[s];
        let Some((bucket, next)) = servers.unqueue(worker) else {
            return broken("a push begins with a bucket that waits");
        };
        for shard in servers.of_bucket(bucket) {
            self.carry(env, s, Parcel { worker, shard, pulled: false, moving: true });
        }
        if let Some(before) = next {
            self.push_after(env, w, before);
        }
    }

    fn pull(&mut self, env: &mut Env, s: ServersId, worker: u32, shard: u32) {
        self.carry(env, s, Parcel { worker, shard, pulled: true, moving: true });
    }

    /// Sends a part of a bucket between a worker and a server, after all earlier parts on the same connection.
    fn carry(&mut self, env: &mut Env, s: ServersId, parcel: Parcel) {
        let finished = self.has_finished(s);
        if self.communicators.carry(env, s, parcel, finished) {
            self.take_parcels(env, s);
        }
    }

    /// Returns whether the job copy of exchange `s` with parameter servers has finished.
    fn has_finished(&self, s: ServersId) -> bool {
        self.jobs[self.communicators[s].job()].is_finished()
    }

    /// Runs `act` on message `m`, which belongs to an exchange with servers, and then handles all parts that have arrived.
    fn advance_parcel(
        &mut self,
        env: &mut Env,
        m: MessageId,
        act: impl FnOnce(&mut Exchange, &mut Around<'_>),
    ) {
        let Some(s) = self.communicators.servers_of_message(m) else {
            return broken("the message belongs to an exchange with servers");
        };
        self.communicators.on_exchange(env, s, act);
        let finished = self.has_finished(s);
        self.communicators.free_line(env, s, m, finished);
        self.take_parcels(env, s);
    }

    /// Handles the end of a delay of message `m`, which belongs to an exchange with servers.
    pub(crate) fn end_parcel_delay(&mut self, env: &mut Env, m: MessageId) {
        self.advance_parcel(env, m, |exchange, around| exchange.end_delay(around, m));
    }

    /// Handles the arrival of the bytes of message `m`, which belongs to an exchange with servers.
    pub(crate) fn end_parcel_transfer(&mut self, env: &mut Env, m: MessageId) {
        self.advance_parcel(env, m, |exchange, around| exchange.end_transfer(around, m));
    }

    /// Handles all parts that have arrived.
    fn take_parcels(&mut self, env: &mut Env, s: ServersId) {
        while let Some(parcel) = self.communicators.take_parcel(s) {
            self.communicators.trace_servers(env, s);
            if self.has_finished(s) {
                continue;
            }
            if parcel.pulled {
                self.end_pull(env, s, parcel)
            } else {
                self.end_push(env, s, parcel)
            }
        }
        self.communicators.trace_servers(env, s);
    }

    /// Handles the end of a push: the server has added the pushed part to its parameters.
    fn end_push(&mut self, env: &mut Env, s: ServersId, parcel: Parcel) {
        let Parcel { worker, shard, .. } = parcel;
        let (released, over) = self.communicators[s].add(env.now, shard, worker);
        if over && self.end_exchange(env, s, worker) {
            return;
        }
        for worker in released {
            self.pull(env, s, worker, shard);
        }
    }

    /// Ends the step of each device of a worker whose gradients the servers have added, unless other GPUs of the device still
    /// exchange; returns true if this ends the job. A checkpoint that is due begins only if a step of the job ends with that of
    /// the worker's last device, so that all its learners have done the same exchanges.
    fn end_exchange(&mut self, env: &mut Env, s: ServersId, worker: u32) -> bool {
        let servers = &self.communicators[s];
        let (j, step, devices) =
            (servers.job(), servers.exchanged(worker), servers.devices(worker));
        let mut counted = Counted::Part;
        for d in devices {
            if self.communicators.have_exchanged(d, step) {
                counted = self.count_own_step(env, j, self.devices[d].model, step);
            }
            if counted == Counted::Job {
                return true;
            }
        }
        if counted == Counted::Step {
            self.save_if_due(env, j);
        }
        false
    }

    /// Handles the end of a pull: a part of the parameters has arrived at a worker. If it was the last part, the worker's devices
    /// go on, unless other GPUs of theirs still pull.
    fn end_pull(&mut self, env: &mut Env, s: ServersId, parcel: Parcel) {
        let servers = &mut self.communicators[s];
        let (j, devices) = (servers.job(), servers.devices(parcel.worker));
        let held = self.recoveries.is_saving(self.jobs[j].parts.checkpoints);
        if !servers.count_pulled(parcel.worker) || held {
            return;
        }
        let waits = |d: &DeviceId| {
            self.devices[*d].account.state() == State::AwaitingParameters && self.has_parameters(*d)
        };
        let waiting: Vec<DeviceId> = devices.filter(waits).collect();
        // All waits end before a device begins the next exchange.
        for d in &waiting {
            self.settle_and_trace(env, *d, env.now);
        }
        for d in waiting {
            self.run_program(env, d);
        }
    }

    /// Ends `step` of model copy `model` of job copy `j`, whose model copies train by themselves; returns true if this ends the
    /// job.
    pub(super) fn end_own_step(&mut self, env: &mut Env, j: JobId, model: u32, step: u64) -> bool {
        let counted = self.count_own_step(env, j, model, step);
        if counted == Counted::Step {
            self.save_if_due(env, j);
        }
        counted == Counted::Job
    }

    /// Counts `step` of a device of model copy `model`; the model copy's step is over when all its devices have ended it.
    fn count_own_step(&mut self, env: &mut Env, j: JobId, model: u32, step: u64) -> Counted {
        let Some(samples) = self.jobs[j].count_own_step(model, step) else { return Counted::Part };
        self.record_samples(env, j, samples);
        if self.finish_if_over(env, j) { Counted::Job } else { Counted::Step }
    }
}
