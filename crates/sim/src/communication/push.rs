//! Pushes to parameter servers and pulls from them, on the same network as the data.

use crate::device::{Device, State};
use crate::env::Env;
use crate::event::{ActivityId, Delay, Event};
use crate::index::{DeviceId, JobId, MessageId};
use crate::jobs::Jobs;
use crate::tally::Tally;
use forebay_engine::Span;

use super::exchange::{Around, Exchange};
use super::servers::{Parcel, ServerRun};

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
    /// Returns the exchange of job copy `j` with its parameter servers; `None` if it has none.
    pub(crate) fn servers(&self, j: JobId) -> Option<&ServerRun> {
        self.communicators.servers_of(self.jobs[j].parts.servers)
    }

    /// Returns the exchange of job copy `j` with its parameter servers, to change it; `None` if it has none.
    pub(crate) fn servers_mut(&mut self, j: JobId) -> Option<&mut ServerRun> {
        self.communicators.servers_of_mut(self.jobs[j].parts.servers)
    }

    /// Lets the model copies of job copy `j` pull their first parameters, if it has servers; after a failure only model copies
    /// that are not too far ahead may pull.
    pub(crate) fn pull_all(&mut self, env: &mut Env, j: JobId) {
        let Some(servers) = self.servers_mut(j) else { return };
        let (workers, shards) = (servers.begin_all(), servers.all());
        for worker in workers {
            for shard in shards.clone() {
                self.pull(env, j, worker, shard);
            }
        }
    }

    /// Notes that device `d` has computed a piece of a step, whose gradients its GPU pushes as soon as it has those of all its
    /// learners.
    pub(super) fn note_offer(&mut self, env: &Env, d: DeviceId, piece: u32) {
        let Device { job: j, model, .. } = self.devices[d];
        let is_last = piece as usize + 1 == self.jobs[j].plan.pieces.number();
        if let Some(servers) = self.servers_mut(j).filter(|_| is_last) {
            servers.has_computed(env.now, servers.worker_of(model), d);
        }
    }

    /// Pushes the buckets of a piece of a step whose gradients the GPU of device `d` has.
    pub(super) fn push_gradients(&mut self, env: &mut Env, d: DeviceId, piece: u32) {
        let Device { job: j, model, .. } = self.devices[d];
        let made = self.jobs[j].plan.pieces.of_exchange(piece).made;
        let Some(servers) = self.servers_mut(j) else { return };
        let worker = servers.worker_of(model);
        for bucket in servers.made(worker, made) {
            let Some(servers) = self.servers_mut(j) else { return };
            if let Some(before) = servers.queue(worker, bucket) {
                self.push_after(env, d, before);
            }
        }
    }

    fn push_after(&mut self, env: &mut Env, d: DeviceId, before: Span) {
        if before.0 == 0 {
            return self.push_next(env, d);
        }
        env.after(Delay { span: before, lane: None }, Event::Waited(ActivityId::Push(d)));
    }

    /// Pushes the first bucket that waits on device `d`.
    pub(crate) fn push_next(&mut self, env: &mut Env, d: DeviceId) {
        let Device { job: j, model, .. } = self.devices[d];
        let finished = self.jobs[j].finished;
        let Some(servers) = self.servers_mut(j).filter(|_| !finished) else { return };
        let worker = servers.worker_of(model);
        let Some((bucket, next)) = servers.unqueue(worker) else { return };
        for shard in servers.of_bucket(bucket) {
            self.carry(env, j, Parcel { worker, shard, pulled: false, moving: true });
        }
        if let Some(before) = next {
            self.push_after(env, d, before);
        }
    }

    fn pull(&mut self, env: &mut Env, j: JobId, worker: u32, shard: u32) {
        self.carry(env, j, Parcel { worker, shard, pulled: true, moving: true });
    }

    /// Sends a part of a bucket between a model copy and a server, after all earlier parts on the same connection.
    fn carry(&mut self, env: &mut Env, j: JobId, parcel: Parcel) {
        let Some(servers) = self.servers_mut(j) else { return };
        let server = servers.shard(parcel.shard).server;
        if servers.lines.enter(parcel, server) {
            self.set_out(env, j, parcel);
            self.take_parcels(env, j);
        }
    }

    fn set_out(&mut self, env: &mut Env, j: JobId, parcel: Parcel) {
        let Some(servers) = self.servers_mut(j) else { return };
        let hop = servers.set_out(parcel);
        let sent = self.on_exchange(env, j, |exchange, around| exchange.carry(around, hop));
        let (Some(m), Some(servers)) = (sent, self.servers_mut(j)) else { return };
        servers.parcels.insert(m, parcel);
        self.free_line(env, j, m);
    }

    /// Runs `act` on message `m`, which belongs to an exchange with servers, and then handles all parts that have arrived.
    fn parcel_got_on(
        &mut self,
        env: &mut Env,
        m: MessageId,
        act: impl FnOnce(&mut Exchange, &mut Around<'_>),
    ) {
        let j = self.communicators.job_of_message(m);
        self.on_exchange(env, j, act);
        self.free_line(env, j, m);
        self.take_parcels(env, j);
    }

    /// Handles the end of a delay of message `m`, which belongs to an exchange with servers.
    pub(crate) fn parcel_waited(&mut self, env: &mut Env, m: MessageId) {
        self.parcel_got_on(env, m, |exchange, around| exchange.waited(around, m));
    }

    /// Handles the arrival of the bytes of message `m`, which belongs to an exchange with servers.
    pub(crate) fn parcel_moved(&mut self, env: &mut Env, m: MessageId) {
        self.parcel_got_on(env, m, |exchange, around| exchange.moved(around, m));
    }

    /// Sends the next part on the connection of message `m` if the message's bytes have arrived.
    fn free_line(&mut self, env: &mut Env, j: JobId, m: MessageId) {
        let there = self.communicators.has_arrived(m);
        let going = there && !self.jobs[j].finished;
        let Some(servers) = self.servers_mut(j).filter(|_| going) else { return };
        if let Some(next) = servers.arrives(m) {
            self.set_out(env, j, next);
        }
    }

    fn on_exchange<R>(
        &mut self,
        env: &mut Env,
        j: JobId,
        act: impl FnOnce(&mut Exchange, &mut Around<'_>) -> R,
    ) -> Option<R> {
        self.communicators.on_exchange(env, j, self.jobs[j].parts.servers, act)
    }

    /// Handles all parts that have arrived.
    fn take_parcels(&mut self, env: &mut Env, j: JobId) {
        while let Some(parcel) = self.communicators.take_parcel(self.jobs[j].parts.servers) {
            self.trace_servers(env, j);
            if self.jobs[j].finished {
                continue;
            }
            if parcel.pulled {
                self.end_pull(env, j, parcel)
            } else {
                self.end_push(env, j, parcel)
            }
        }
        self.trace_servers(env, j);
    }

    /// Handles the end of a push: the server has added the pushed part to its parameters.
    fn end_push(&mut self, env: &mut Env, j: JobId, parcel: Parcel) {
        let Parcel { worker, shard, .. } = parcel;
        let Some(servers) = self.servers_mut(j) else { return };
        let (released, over) = servers.add(env.now, shard, worker);
        if over && self.end_exchange(env, j, worker) {
            return;
        }
        for worker in released {
            self.pull(env, j, worker, shard);
        }
    }

    /// Ends the step of all learners of GPU `worker` of job copy `j`, since the servers have added its gradients; returns true if
    /// this ends the job. A checkpoint that is due begins only if a step of the job ends with that of the GPU's last learner, so
    /// that its learners have done the same exchanges.
    fn end_exchange(&mut self, env: &mut Env, j: JobId, worker: u32) -> bool {
        let Some(servers) = self.servers(j) else { return false };
        let step = servers.exchanged(worker);
        let mut counted = Counted::Part;
        for d in self.jobs[j].devices_of_gpu(worker) {
            counted = self.count_own_step(env, j, self.devices[d].model, step);
            if counted == Counted::Job {
                return true;
            }
        }
        if counted == Counted::Step {
            self.save_if_due(env, j);
        }
        false
    }

    /// Handles the end of a pull: a part of the parameters has arrived at a GPU. If it was the last part, the GPU's learners go
    /// on.
    fn end_pull(&mut self, env: &mut Env, j: JobId, parcel: Parcel) {
        let held = self.recoveries.is_saving(self.jobs[j].parts.checkpoints);
        let Some(servers) = self.servers_mut(j) else { return };
        if !servers.pulled(parcel.worker) || held {
            return;
        }
        let learners = self.jobs[j].devices_of_gpu(parcel.worker);
        let waits = |d: &DeviceId| self.devices[*d].state == State::AwaitingParameters;
        let waiting: Vec<DeviceId> = learners.iter().filter(waits).collect();
        // All waits end before a learner begins the next exchange.
        for d in &waiting {
            self.end_parameter_wait(env, env.now, *d);
        }
        for d in waiting {
            self.run_program(env, d);
        }
    }

    /// Ends `step` of model copy `model` of job copy `j`, whose model copies train by themselves; returns true if this ends the
    /// job.
    pub(crate) fn end_own_step(&mut self, env: &mut Env, j: JobId, model: u32, step: u64) -> bool {
        let counted = self.count_own_step(env, j, model, step);
        if counted == Counted::Step {
            self.save_if_due(env, j);
        }
        counted == Counted::Job
    }

    fn count_own_step(&mut self, env: &mut Env, j: JobId, model: u32, step: u64) -> Counted {
        let job = &mut self.jobs[j];
        let samples = job.take_samples(model, step);
        let Tally::Apart(apart) = &mut job.tally else { return Counted::Part };
        job.steps.add_fresh(apart.end(model, step, samples));
        let Some(samples) = apart.whole() else { return Counted::Part };
        self.record_samples(env, j, samples);
        if self.ends(env, j) { Counted::Job } else { Counted::Step }
    }

    /// Records in the timeline how many bytes are in transfer and by how many exchanges the fastest model copy is ahead of the
    /// slowest.
    pub(crate) fn trace_servers(&mut self, env: &mut Env, j: JobId) {
        let Some(servers) = self.servers(j) else { return };
        if let (Some(recorder), Some(tracks)) = (&mut env.recorder, servers.tracks) {
            recorder.count(tracks.moving, env.now, servers.moving() as f64);
            recorder.count(tracks.ahead, env.now, servers.lead() as f64);
        }
    }
}
