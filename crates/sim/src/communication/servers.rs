//! Parameter servers, and the progress of each model copy in its exchanges with them.
//!
//! A worker is a GPU with all its learners; it pushes and pulls for all of them. If model copies are spread over GPUs, each
//! part of the model has an exchange of its own, whose workers are the GPUs that hold this part, in all model copies.
//!
//! A worker pushes each bucket in parts, one to each server, when its backward pass has made the bucket. A server adds a
//! part when the part has arrived and a core has done the work. From then on, the model copy that pushed the part may pull it
//! again as soon as the slowest model copy is no further behind than the slack allows. A model copy goes on when it has pulled
//! all parts.

use std::collections::BTreeMap;
use std::ops::Range;

use forebay_collective::{Hop, Kind};
use forebay_engine::{Span, Time};
use forebay_report::SyncOutcome;
use forebay_scenario::{BucketShare, Members};

use super::communicators::Communicators;
use super::exchange::{Exchange, Whose};
use super::parcels::{Lines, Parcel};
use super::worker::{Held, WorkerRun};
use crate::env::Env;
use crate::ids::{
    BucketId, DeviceId, IdVec, Ids, JobId, MessageId, ModelId, ServerWorkerId, ServersId, ShardId,
};

/// The state of the exchanges of a part of a job copy's model with parameter servers.
#[derive(Debug)]
pub(crate) struct ServerRun {
    job: JobId,
    ports: Ports,
    /// Number of steps from one exchange to the next.
    period: u64,
    /// Number of exchanges by which a model copy may be ahead of the slowest one.
    slack: u64,
    workers: IdVec<ModelId, WorkerRun>,
    shards: IdVec<ShardId, Shard>,
    /// The number of the first shard of each bucket, followed by the number of all shards.
    first: IdVec<BucketId, u32>,
    /// Time that the framework needs to prepare the tensors of each bucket before it is pushed.
    overhead: IdVec<BucketId, Span>,
    pub(super) exchange: Exchange,
    lines: Lines,
    /// For each message, the parcel that it carries.
    parcels: BTreeMap<MessageId, Parcel>,
    books: SyncOutcome,
    /// Whether the updates of the exchanged part count as updates of the model. Each update of a model copy counts once.
    counts: bool,
    tracks: Option<ServerTracks>,
}

/// The complete exchanges with parameter servers.
#[derive(Debug, Clone)]
pub(super) struct ServerClock {
    /// Number of complete exchanges of each worker.
    exchanges: Vec<u64>,
    /// Number of updates of each staleness.
    staleness: BTreeMap<u64, u64>,
}

/// The workers and servers of an exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    /// Ports of the workers.
    pub(crate) workers: Members,
    /// Number of workers of each model copy, which have consecutive numbers.
    pub(crate) per_copy: u32,
    /// Number of servers; `first` is the port of the first one.
    pub(crate) servers: u32,
    pub(crate) first: u32,
}

/// A worker of an exchange with parameter servers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerWorker {
    pub(crate) servers: ServersId,
    pub(crate) worker: u32,
    /// Whether the exchanged parameters belong to experts.
    pub(crate) experts: bool,
}

/// Tracks of a job copy's exchanges with servers in the timeline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerTracks {
    /// Track that shows the bytes in transfer to and from servers [B].
    pub(crate) moving: u32,
    /// Track that shows the number of exchanges by which the fastest model copy is ahead of the slowest.
    pub(crate) ahead: u32,
}

impl ServerRun {
    /// Returns the state of the exchanges of job copy `job` before the first one, between the workers and servers at `ports`;
    /// `id` is the id of the exchanges. `devices` holds the devices for which each worker exchanges, `buckets` the preparation
    /// time and the shards of each bucket.
    pub(crate) fn new(
        (job, id): (JobId, ServersId),
        (period, slack): (u64, u64),
        ports: Ports,
        devices: impl IntoIterator<Item = Members>,
        buckets: Vec<(Span, Vec<Shard>)>,
        (counts, tracks): (bool, Option<ServerTracks>),
    ) -> ServerRun {
        let (mut first, mut overhead) = (IdVec::filled(0, 1), IdVec::default());
        let mut shards = Vec::new();
        for (before, parts) in buckets {
            overhead.push(before);
            shards.extend(parts);
            first.push(shards.len() as u32);
        }
        let worker = |devices| WorkerRun::new(devices, shards.len() as u32);
        let workers: IdVec<ModelId, WorkerRun> = devices.into_iter().map(worker).collect();
        ServerRun {
            job,
            ports,
            period,
            slack,
            workers,
            shards: shards.into_iter().collect(),
            first,
            overhead,
            exchange: Exchange::new((job, Whose::Servers(id)), ports.workers),
            lines: Lines::new(ports.workers.ranks, ports.servers),
            parcels: BTreeMap::new(),
            books: SyncOutcome::default(),
            counts,
            tracks,
        }
    }

    /// Returns the job copy.
    pub(crate) fn job(&self) -> JobId {
        self.job
    }

    /// Returns the bytes and updates of the exchanges, and whether the updates count as updates of the model.
    pub(super) fn books(&self) -> (&SyncOutcome, bool) {
        (&self.books, self.counts)
    }

    /// Puts `parcel` on its connection; returns true if its transfer can begin now, false if it waits for earlier parcels.
    pub(super) fn enter(&mut self, parcel: Parcel) -> bool {
        let server = self.shards[ShardId::new(parcel.shard)].server;
        self.lines.enter(parcel, server)
    }

    /// Records that message `m` carries `parcel`.
    pub(super) fn note_message(&mut self, m: MessageId, parcel: Parcel) {
        self.parcels.insert(m, parcel);
    }

    /// Returns the parcel that message `m` has carried, and forgets the message.
    pub(super) fn take_parcel(&mut self, m: MessageId) -> Option<Parcel> {
        self.parcels.remove(&m)
    }

    /// Returns the numbers of all shards.
    pub(crate) fn all(&self) -> Range<u32> {
        0..self.shards.len() as u32
    }

    /// Returns the numbers of the shards of a bucket.
    pub(crate) fn of_bucket(&self, bucket: u32) -> Range<u32> {
        self.first[BucketId::new(bucket)]..self.first[BucketId::new(bucket + 1)]
    }

    /// Returns the devices for which `worker` exchanges.
    pub(crate) fn devices(&self, worker: u32) -> impl Iterator<Item = DeviceId> + use<> {
        self.workers[ModelId::new(worker)].devices.gpus().map(DeviceId::new)
    }

    fn worker(&mut self, worker: u32) -> &mut WorkerRun {
        &mut self.workers[ModelId::new(worker)]
    }

    /// Cancels all transfers in progress.
    pub(crate) fn abort(&mut self) {
        self.exchange.abort();
        self.lines.clear();
        self.parcels.clear();
    }

    /// Returns how many exchanges are complete, given the number of complete steps of each device. Where a model copy has several
    /// workers, some may have done one more exchange, which does not count.
    pub(super) fn clock(&self, steps: &dyn Fn(DeviceId) -> u64) -> ServerClock {
        let exchanges =
            |worker: &WorkerRun| steps(DeviceId::new(worker.devices.first)) / self.period;
        ServerClock {
            exchanges: self.workers.iter().map(exchanges).collect(),
            staleness: self.books.staleness.clone(),
        }
    }

    /// Sets the exchanges back to `clock`; no worker has parameters, and nothing is in transfer.
    pub(super) fn restore(&mut self, clock: &ServerClock) {
        for (worker, exchanges) in self.workers.iter_mut().zip(&clock.exchanges) {
            *worker = worker.again(*exchanges);
        }
        self.shards.iter_mut().for_each(|shard| shard.restart(&clock.exchanges));
        self.books.updates = clock.staleness.values().sum();
        self.books.staleness.clone_from(&clock.staleness);
    }

    /// Lets all model copies request all parameters; returns the model copies that may pull now. The same model copies may pull
    /// every shard, because all shards have the same pushes.
    pub(crate) fn begin_all(&mut self) -> Vec<u32> {
        let released = self.shards.iter_mut().map(|shard| shard.begin(self.slack));
        released.last().unwrap_or_default()
    }

    /// Returns whether `worker` has the parameters for `step`.
    fn may_begin(&self, worker: u32, step: u64) -> bool {
        self.workers[ModelId::new(worker)].may_begin(step / self.period)
    }

    /// Records that `worker` begins to compute for `step`.
    fn begin(&mut self, now: Time, worker: u32, step: u64) {
        // If several steps precede an exchange, the begin of the first one counts.
        if step.is_multiple_of(self.period) {
            let worker = self.worker(worker);
            (worker.began, worker.computed) = (now, None);
        }
    }

    /// Records that the learner on `device` has computed its gradients for an exchange of `worker`. The last learner to do so
    /// holds up the others.
    fn note_computed(&mut self, now: Time, worker: u32, device: DeviceId) {
        let worker = self.worker(worker);
        (worker.computed, worker.last) = (Some(now), device);
    }

    /// Returns whether `worker` has all its gradients for the current exchange once it has those of `made` more buckets.
    fn makes_last(&self, worker: u32, made: u32) -> bool {
        let buckets = self.overhead.len() as u32;
        self.workers[ModelId::new(worker)].makes_last(made, buckets)
    }

    /// Records that `worker` has the gradients of `made` more buckets; returns the numbers of these buckets.
    pub(crate) fn count_made(&mut self, worker: u32, made: u32) -> Range<u32> {
        let buckets = self.overhead.len() as u32;
        self.worker(worker).makes(made, buckets)
    }

    /// Queues a bucket of `worker` for its push. If no other bucket is queued, returns the preparation time before the push.
    pub(crate) fn queue(&mut self, worker: u32, bucket: u32) -> Option<Span> {
        let queue = &mut self.workers[ModelId::new(worker)].queue;
        queue.push_back(bucket);
        (queue.len() == 1).then(|| self.overhead[BucketId::new(bucket)])
    }

    /// Removes the next bucket of `worker` from the queue of pushes and returns it, with the preparation time of the bucket
    /// after it, if there is one.
    pub(crate) fn unqueue(&mut self, worker: u32) -> Option<(u32, Option<Span>)> {
        let queue = &mut self.workers[ModelId::new(worker)].queue;
        let bucket = queue.pop_front()?;
        Some((bucket, queue.front().map(|next| self.overhead[BucketId::new(*next)])))
    }

    /// Adds the part that `worker` pushed to `shard`; returns the model copies that may pull the shard now, and whether the
    /// exchange of `worker` is over.
    pub(crate) fn add(&mut self, now: Time, shard: u32, worker: u32) -> (Vec<u32>, bool) {
        let over = self.count(worker);
        let of = &mut self.shards[ShardId::new(shard)];
        let freed = of.add(worker);
        let released = of.release(self.slack);
        if freed {
            let held = self.workers[ModelId::new(worker)].computation(now);
            for other in released.iter().filter(|other| **other != worker) {
                self.workers[ModelId::new(*other)].held = Some(held);
            }
        }
        (released, over)
    }

    /// Records that a server has added one more part that `worker` pushed; returns whether it was the last part of the push.
    fn count(&mut self, worker: u32) -> bool {
        let (updates, per_copy) = (self.books.updates, self.ports.per_copy);
        let number = worker;
        let worker = self.worker(worker);
        if !worker.count_added() {
            return false;
        }
        if !number.is_multiple_of(per_copy) {
            // The first worker of each model copy counts its updates.
            return true;
        }
        let missed = updates - worker.read;
        let staleness = if self.slack == 0 { 0 } else { missed };
        self.books.updates += 1;
        *self.books.staleness.entry(staleness).or_default() += 1;
        true
    }

    /// Returns the last step of `worker`, which has completed an exchange, that ended with one.
    pub(crate) fn exchanged(&self, worker: u32) -> u64 {
        self.workers[ModelId::new(worker)].added * self.period - 1
    }

    /// Returns whether `worker` has completed the exchange at the end of `step`.
    fn has_exchanged(&self, worker: u32, step: u64) -> bool {
        self.workers[ModelId::new(worker)].added * self.period > step
    }

    /// Begins the transfer of `parcel` and returns its hop.
    pub(crate) fn set_out(&mut self, parcel: Parcel) -> Hop {
        let Parcel { worker, shard, pulled, .. } = parcel;
        let Shard { server, part, .. } = &self.shards[ShardId::new(shard)];
        let (server, part) = (self.ports.first + *server, *part);
        let port = self.ports.workers.gpu(worker);
        if !pulled {
            self.books.pushed = self.books.pushed.saturating_add(part.push);
            return Hop { from: port, to: server, bytes: part.push, kind: Kind::Copy };
        }
        self.books.pulled = self.books.pulled.saturating_add(part.pull);
        let updates = self.books.updates;
        self.worker(worker).count_sent(updates);
        Hop { from: server, to: port, bytes: part.pull, kind: Kind::Copy }
    }

    /// Records that the bytes of message `m` have left; returns the parcel whose transfer begins next on the same connection.
    /// `None` if there is none, or if this has been recorded before.
    pub(crate) fn leave_line(&mut self, m: MessageId) -> Option<Parcel> {
        let parcel = self.parcels.get_mut(&m)?;
        if !std::mem::replace(&mut parcel.moving, false) {
            return None;
        }
        let parcel = *parcel;
        let server = self.shards[ShardId::new(parcel.shard)].server;
        self.lines.leave(parcel, server)
    }

    /// Records that `worker` has got one more part; returns whether it has all parts now.
    pub(crate) fn count_pulled(&mut self, worker: u32) -> bool {
        self.worker(worker).count_pulled()
    }

    /// Returns the model copies that most recently held up the learners of `worker`, with the times of their computations: the
    /// slowest learner of `worker` itself, and a model copy of another worker.
    pub(crate) fn held(&self, now: Time, worker: u32) -> [Option<Held>; 2] {
        let worker = &self.workers[ModelId::new(worker)];
        [worker.computed.is_some().then(|| worker.computation(now)), worker.held]
    }

    /// Returns the number of exchanges by which the fastest model copy is ahead of the slowest.
    pub(crate) fn lead(&self) -> u64 {
        let added = self.workers.iter().map(|worker| worker.added);
        added.clone().max().unwrap_or(0) - added.min().unwrap_or(0)
    }

    /// Returns the bytes in transfer [B].
    pub(crate) fn moving(&self) -> u64 {
        let bytes = |parcel: &Parcel| {
            let part = self.shards[ShardId::new(parcel.shard)].part;
            if parcel.pulled { part.pull } else { part.push }
        };
        self.parcels.values().map(bytes).fold(0, u64::saturating_add)
    }
}

impl Communicators {
    /// Lets devices from `first` on exchange with parameter servers by the workers `all`, given device by device.
    pub(crate) fn add_workers<'a>(
        &mut self,
        first: DeviceId,
        all: impl IntoIterator<Item = &'a [ServerWorker]>,
    ) {
        self.workers_of.resize(first.number(), Ids::default());
        for own in all {
            let next = self.workers.next_id();
            self.workers.extend(own.iter().copied());
            self.workers_of.push(self.workers.ids_from(next));
        }
    }

    /// Returns the workers that exchange with parameter servers for device `d`; none if its job has no servers.
    #[inline]
    pub(crate) fn workers_of(&self, d: DeviceId) -> Ids<ServerWorkerId> {
        self.workers_of.get(d).copied().unwrap_or_default()
    }

    pub(crate) fn worker(&self, w: ServerWorkerId) -> ServerWorker {
        self.workers[w]
    }

    /// Returns the exchange with parameter servers and the number of each worker that exchanges for device `d`.
    pub(crate) fn exchanges_of(&self, d: DeviceId) -> impl Iterator<Item = (&ServerRun, u32)> {
        let workers = self.workers[self.workers_of(d)].iter();
        workers.map(|of| (&self.servers[of.servers], of.worker))
    }

    /// Returns whether device `d` has all parameters for `step`.
    pub(crate) fn has_parameters(&self, d: DeviceId, step: u64) -> bool {
        self.exchanges_of(d).all(|(servers, worker)| servers.may_begin(worker, step))
    }

    /// Returns whether the workers of device `d` have completed the exchange at the end of `step`.
    pub(crate) fn have_exchanged(&self, d: DeviceId, step: u64) -> bool {
        self.exchanges_of(d).all(|(servers, worker)| servers.has_exchanged(worker, step))
    }

    /// Records that device `d` begins the computation whose gradients it will push to parameter servers in `step`.
    pub(crate) fn begin_server_exchange(&mut self, now: Time, d: DeviceId, step: u64) {
        for w in self.workers_of(d) {
            let ServerWorker { servers, worker, .. } = self.workers[w];
            self.servers[servers].begin(now, worker, step);
        }
    }

    /// Records that device `d` has computed all its gradients for an exchange, which its GPU pushes.
    pub(crate) fn note_computed(&mut self, now: Time, d: DeviceId) {
        for w in self.workers_of(d) {
            let ServerWorker { servers, worker, .. } = self.workers[w];
            self.servers[servers].note_computed(now, worker, d);
        }
    }

    /// Records that device `d` has computed the next `made` buckets of its gradients of experts, or of other gradients, which it
    /// pushes.
    pub(crate) fn note_push(&mut self, now: Time, d: DeviceId, (of_experts, made): (bool, u32)) {
        for w in self.workers_of(d) {
            let ServerWorker { servers, worker, experts } = self.workers[w];
            let servers = &mut self.servers[servers];
            if experts == of_experts && servers.makes_last(worker, made) {
                servers.note_computed(now, worker, d);
            }
        }
    }

    /// Records in the timeline how many bytes are in transfer and by how many exchanges the fastest worker is ahead of the
    /// slowest.
    pub(crate) fn trace_servers(&self, env: &mut Env, s: ServersId) {
        let servers = &self.servers[s];
        if let (Some(recorder), Some(tracks)) = (&mut env.recorder, servers.tracks) {
            recorder.count(tracks.moving, env.now, servers.moving() as f64);
            recorder.count(tracks.ahead, env.now, servers.lead() as f64);
        }
    }
}

/// A server's part of a bucket.
#[derive(Debug)]
pub(crate) struct Shard {
    /// Number of the server.
    pub(crate) server: u32,
    pub(super) part: BucketShare,
    /// Number of pushes of each model copy.
    pushes: IdVec<ModelId, u64>,
    /// Minimum number of pushes over model copies; `slowest` is the number of model copies with this minimum.
    least: u64,
    slowest: u32,
    /// Model copies that have pushed and have not pulled since then, in order of their pushes.
    waiting: Vec<u32>,
}

impl Shard {
    /// Returns a shard to which none of `workers` model copies has pushed yet.
    pub(crate) fn new(server: u32, part: BucketShare, workers: u32) -> Shard {
        let pushes = IdVec::filled(0, workers);
        Shard { server, part, pushes, least: 0, slowest: workers, waiting: Vec::new() }
    }

    /// Restarts with the given number of pushes of each model copy; no model copy waits to pull.
    pub(super) fn restart(&mut self, pushes: &[u64]) {
        self.pushes = pushes.iter().copied().collect();
        self.least = pushes.iter().copied().min().unwrap_or(0);
        self.slowest = pushes.iter().filter(|of| **of == self.least).count() as u32;
        self.waiting.clear();
    }

    /// Lets all model copies request a pull; returns the model copies that may pull now.
    pub(super) fn begin(&mut self, slack: u64) -> Vec<u32> {
        self.waiting = (0..self.pushes.len() as u32).collect();
        self.release(slack)
    }

    /// Adds a push of `worker`; returns whether the minimum number of pushes has grown.
    pub(super) fn add(&mut self, worker: u32) -> bool {
        let pushes = &mut self.pushes[ModelId::new(worker)];
        *pushes += 1;
        self.waiting.push(worker);
        if *pushes > self.least + 1 {
            return false;
        }
        self.slowest -= 1;
        if self.slowest > 0 {
            return false;
        }
        self.least += 1;
        self.slowest = self.pushes.iter().filter(|of| **of == self.least).count() as u32;
        true
    }

    /// Returns the waiting model copies that may pull now, because they are at most `slack` exchanges ahead of the slowest, in
    /// the order of their pushes.
    pub(super) fn release(&mut self, slack: u64) -> Vec<u32> {
        let most = self.least.saturating_add(slack);
        let (pushes, mut released) = (&self.pushes, Vec::new());
        self.waiting.retain(|worker| {
            let waits = pushes[ModelId::new(*worker)] > most;
            if !waits {
                released.push(*worker);
            }
            waits
        });
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the model copies that may pull after each push.
    fn released(slack: u64, pushes: &[u32]) -> Vec<Vec<u32>> {
        let mut shard = Shard::new(3, BucketShare { push: 1, pull: 1 }, 3);
        let one = |worker: &u32| {
            shard.add(*worker);
            shard.release(slack)
        };
        pushes.iter().map(one).collect()
    }

    #[test]
    fn the_staleness_bound_limits_the_lead_over_the_slowest_model_copy() {
        // System: three model copies, of which 0 is fast and 2 slow. Expectation: without slack all pull when the last one has
        // pushed; with a slack of one, 0 pulls once and then waits; without a limit each pulls at once.
        let pushes = [0, 1, 2];
        assert_eq!(released(0, &pushes), [vec![], vec![], vec![0, 1, 2]]);
        assert_eq!(released(u64::MAX, &pushes), [[0], [1], [2]]);
        let ahead = released(1, &[0, 1, 0, 2]);
        assert_eq!(ahead, [vec![0], vec![1], vec![], vec![0, 2]]);
    }

    #[test]
    fn a_parameter_shard_tracks_the_fewest_pushes_of_any_worker() {
        let mut shard = Shard::new(0, BucketShare { push: 1, pull: 1 }, 4);
        let mut pushes = [0_u64; 4];
        let mut draw = 12_345_u32;
        for _ in 0..2000 {
            draw = draw.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            let worker = (draw >> 16) % 4;
            let before = *pushes.iter().min().expect("four");
            pushes[worker as usize] += 1;
            let after = *pushes.iter().min().expect("four");
            assert_eq!(shard.add(worker), after > before);
            assert_eq!(shard.least, after);
        }
    }
}
