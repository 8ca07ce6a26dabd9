//! Pushes to servers and pulls from them, on the same network as the data.

use crate::account::Segment;
use crate::engine::{Span, Time};
use crate::report::{Cause, StallCause};
use crate::sim::device::{Device, State};
use crate::sim::event::{Clock, Customer, Delay, Event};
use crate::sim::index::{DeviceId, JobId, MessageId};
use crate::sim::world::World;

use super::exchange::{Around, Exchange};
use super::message::Stage;
use super::overhead::CoreSlots;
use super::servers::Parcel;

impl World<'_> {
    /// The model copies of job copy `j` pull the first parameters, if servers have them; after a failure those that are
    /// not too far ahead.
    pub(in crate::sim) fn pull_all(&mut self, clock: &mut Clock, j: JobId) {
        let Some(servers) = &mut self.jobs[j].servers else { return };
        let (workers, shards) = (servers.begin_all(), servers.all());
        for worker in workers {
            for shard in shards.clone() {
                self.pull(clock, j, worker, shard);
            }
        }
    }

    /// Device `d` has computed a piece of a step, and pushes the buckets that are ready then.
    pub(in crate::sim) fn push_gradients(&mut self, clock: &mut Clock, d: DeviceId, piece: u32) {
        let device = &self.devices[d];
        let (j, worker) = (device.job, device.model);
        let Some(servers) = &mut self.jobs[j].servers else { return };
        for bucket in servers.did(clock.now, worker, device.next, piece) {
            let Some(servers) = &mut self.jobs[j].servers else { return };
            if let Some(before) = servers.queue(worker, bucket) {
                self.push_after(clock, d, before);
            }
        }
    }

    fn push_after(&mut self, clock: &mut Clock, d: DeviceId, before: Span) {
        if before.0 == 0 {
            return self.push_next(clock, d);
        }
        clock.after(Delay { span: before, lane: None }, Event::Waited(Customer::Push(d)));
    }

    /// Device `d` pushes the first bucket that waits for that.
    pub(in crate::sim) fn push_next(&mut self, clock: &mut Clock, d: DeviceId) {
        let device = &self.devices[d];
        let (j, worker) = (device.job, device.model);
        let job = &mut self.jobs[j];
        let Some(servers) = job.servers.as_mut().filter(|_| !job.finished) else { return };
        let Some((bucket, next)) = servers.unqueue(worker) else { return };
        for shard in servers.of_bucket(bucket) {
            self.carry(clock, j, Parcel { worker, shard, pulled: false, moving: true });
        }
        if let Some(before) = next {
            self.push_after(clock, d, before);
        }
    }

    fn pull(&mut self, clock: &mut Clock, j: JobId, worker: u32, shard: u32) {
        self.carry(clock, j, Parcel { worker, shard, pulled: true, moving: true });
    }

    /// A part of a bucket is to go, behind those on its way between the same two.
    fn carry(&mut self, clock: &mut Clock, j: JobId, parcel: Parcel) {
        let Some(servers) = &mut self.jobs[j].servers else { return };
        let server = servers.shard(parcel.shard).server;
        if servers.lines.enter(parcel, server) {
            self.set_out(clock, j, parcel);
            self.take_parcels(clock, j);
        }
    }

    fn set_out(&mut self, clock: &mut Clock, j: JobId, parcel: Parcel) {
        let Some(servers) = &mut self.jobs[j].servers else { return };
        let hop = servers.set_out(parcel);
        let sent = self.on_exchange(clock, j, |exchange, around| exchange.carry(around, hop));
        let (Some(m), Some(servers)) = (sent, &mut self.jobs[j].servers) else { return };
        servers.parcels.insert(m, parcel);
        self.free_line(clock, j, m);
    }

    /// Message `m` of job copy `j`, which exchanges with servers, gets on by `act`.
    pub(super) fn parcel_got_on(
        &mut self,
        clock: &mut Clock,
        m: MessageId,
        act: impl FnOnce(&mut Exchange, &mut Around<'_, '_>),
    ) {
        let j = self.messages.job(m);
        self.on_exchange(clock, j, act);
        self.free_line(clock, j, m);
        self.take_parcels(clock, j);
    }

    /// If the bytes of message `m` are there now, the next ones set out.
    fn free_line(&mut self, clock: &mut Clock, j: JobId, m: MessageId) {
        let there = self.messages.get(m).stage >= Stage::Receiving;
        let job = &mut self.jobs[j];
        let Some(servers) = job.servers.as_mut().filter(|_| there && !job.finished) else { return };
        if let Some(next) = servers.arrives(m) {
            self.set_out(clock, j, next);
        }
    }

    fn on_exchange<R>(
        &mut self,
        clock: &mut Clock,
        j: JobId,
        act: impl FnOnce(&mut Exchange, &mut Around<'_, '_>) -> R,
    ) -> Option<R> {
        let job = &mut self.jobs[j];
        let (servers, ways) = (job.servers.as_mut()?, job.ways.as_mut()?);
        let (network, messages) = (&mut self.network, &mut self.messages);
        let slots = CoreSlots::of(&mut self.stations);
        let mut around = Around { clock, network, messages, ways, slots };
        let done = act(&mut servers.exchange, &mut around);
        for next in around.slots.admitted {
            self.admitted(clock, next);
        }
        Some(done)
    }

    /// What has arrived is made use of.
    fn take_parcels(&mut self, clock: &mut Clock, j: JobId) {
        while let Some(servers) = &mut self.jobs[j].servers
            && let Some(m) = servers.exchange.take_arrived(&mut self.messages)
            && let Some(parcel) = servers.parcels.remove(&m)
        {
            self.trace_servers(clock.now, j);
            if self.jobs[j].finished {
                continue;
            }
            if parcel.pulled {
                self.end_pull(clock, j, parcel)
            } else {
                self.end_push(clock, j, parcel)
            }
        }
        self.trace_servers(clock.now, j);
    }

    /// A server has added what was pushed.
    fn end_push(&mut self, clock: &mut Clock, j: JobId, parcel: Parcel) {
        let Parcel { worker, shard, .. } = parcel;
        let Some(servers) = &mut self.jobs[j].servers else { return };
        let (released, over) = servers.add(clock.now, shard, worker);
        if over {
            let step = servers.exchanged(worker);
            if self.end_own_step(clock, j, worker, step) {
                return;
            }
        }
        for worker in released {
            self.pull(clock, j, worker, shard);
        }
    }

    /// A model copy has got a part of the parameters; with the last one it goes on.
    fn end_pull(&mut self, clock: &mut Clock, j: JobId, parcel: Parcel) {
        let job = &mut self.jobs[j];
        let Some(servers) = &mut job.servers else { return };
        let d = job.devices.start + parcel.worker;
        let all = servers.pulled(parcel.worker);
        if all && self.devices[d].state == State::Uninformed && !job.is_held() {
            self.end_parameter_wait(clock.now, d);
            self.run_program(clock, d);
        }
    }

    /// Model copy `worker` of job copy `j` has done `step`; true if the job is over by that.
    pub(in crate::sim) fn end_own_step(
        &mut self,
        clock: &mut Clock,
        j: JobId,
        worker: u32,
        step: u64,
    ) -> bool {
        let job = &mut self.jobs[j];
        let samples = job.take_samples(worker, step);
        let Some(servers) = &mut job.servers else { return false };
        job.steps.add_fresh(servers.finish(worker, step, samples));
        let Some(samples) = servers.whole() else { return false };
        self.record_samples(clock.now, j, samples);
        if self.ends(clock, j) {
            return true;
        }
        let job = &self.jobs[j];
        if job.recovery.is_some() && job.has_state() {
            self.begins_checkpoint(clock, j);
        }
        false
    }

    /// What the model copies of job copy `j`, which exchange with servers, waited for a checkpoint that was begun at
    /// `since`: those that were to begin a step go on.
    pub(in crate::sim) fn end_saving_by_servers(
        &mut self,
        clock: &mut Clock,
        j: JobId,
        since: Time,
    ) {
        for d in self.jobs[j].devices {
            let Device { state, model, next, since: from, .. } = self.devices[d];
            let job = &self.jobs[j];
            let informed = job.servers.as_ref().is_some_and(|of| of.may_begin(model, next));
            match state {
                State::Idle if !job.is_beyond(next) => {}
                State::Uninformed if informed => {}
                _ => continue,
            }
            if from < since {
                self.end_parameter_wait(since, d);
            }
            let (start, cause) = (from.max(since), StallCause::own(Cause::Checkpoint));
            let wait = Segment { start, end: clock.now, cause };
            self.jobs[j].steps.add_stall(wait);
            self.devices[d].since = clock.now;
            match state {
                State::Idle => self.try_start(clock, d),
                _ => self.run_program(clock, d),
            }
        }
    }

    /// The timeline says what is on its way, and how far model copies are apart.
    pub(in crate::sim) fn trace_servers(&mut self, now: Time, j: JobId) {
        let Some(servers) = &self.jobs[j].servers else { return };
        if let (Some(recorder), Some(tracks)) = (&mut self.recorder, servers.tracks) {
            recorder.count(tracks.moving, now, servers.moving() as f64);
            recorder.count(tracks.ahead, now, servers.lead() as f64);
        }
    }
}
