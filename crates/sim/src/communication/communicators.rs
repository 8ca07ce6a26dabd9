//! The owner of all communicators, of the routes between ranks, and of the messages in progress.

use std::ops::{Index, IndexMut};

use forebay_engine::{Fingerprint, Time};
use forebay_report::{ParallelOutcome, SyncOutcome};

use super::averages::Averages;
use super::communicator::CommunicatorRun;
use super::exchange::Messages;
use super::idle::IdleCollectives;
use super::own_links::LinkUses;
use super::servers::{ServerClock, ServerRun, ServerWorker};
use super::ways::{RankRoute, RankRoutes};
use crate::env::{Cores, Env};
use crate::ids::{
    AveragesId, CommunicatorId, DeviceId, IdVec, Ids, JobId, MessageId, Parts, ServerWorkerId,
    ServersId,
};

/// The tables of all communicators.
#[derive(Debug, Default)]
pub(crate) struct Communicators {
    pub(super) all: IdVec<CommunicatorId, CommunicatorRun>,
    /// The averages of the models of learners.
    pub(super) averages: IdVec<AveragesId, Averages>,
    /// The exchanges of job copies with their parameter servers, one for each part of a model.
    pub(super) servers: IdVec<ServersId, ServerRun>,
    /// The workers of these exchanges, by device; `workers_of` holds those of each device.
    pub(super) workers: IdVec<ServerWorkerId, ServerWorker>,
    pub(super) workers_of: IdVec<DeviceId, Ids<ServerWorkerId>>,
    /// The routes between the ranks of each job copy, if its ranks exchange anything.
    pub(super) ways: IdVec<JobId, Option<Box<RankRoutes>>>,
    pub(super) messages: Messages,
    /// Results of collectives on links that nothing else uses.
    pub(super) idle: IdleCollectives,
    /// Use of links by collectives that were not simulated transfer by transfer.
    pub(super) link_uses: LinkUses,
}

/// The progress of the exchanges of a job copy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clocks {
    /// Bytes that the ranks of each communicator have sent [B].
    sent: Vec<f64>,
    /// Number of steps that averages of models include.
    averaged: Vec<u64>,
    servers: Vec<ServerClock>,
}

impl Index<CommunicatorId> for Communicators {
    type Output = CommunicatorRun;

    #[inline(always)]
    fn index(&self, c: CommunicatorId) -> &CommunicatorRun {
        &self.all[c]
    }
}

impl Index<ServersId> for Communicators {
    type Output = ServerRun;

    fn index(&self, s: ServersId) -> &ServerRun {
        &self.servers[s]
    }
}

impl IndexMut<ServersId> for Communicators {
    fn index_mut(&mut self, s: ServersId) -> &mut ServerRun {
        &mut self.servers[s]
    }
}

impl Communicators {
    /// Returns no communicators; `known` are results of collectives on links that nothing else uses.
    pub(crate) fn new(known: IdleCollectives) -> Communicators {
        Communicators { idle: known, ..Communicators::default() }
    }

    /// Returns the ids that the next communicator and the next exchange with parameter servers get.
    pub(crate) fn next_ids(&self) -> (CommunicatorId, ServersId) {
        (self.all.next_id(), self.servers.next_id())
    }

    /// Returns the communicators and the exchanges with parameter servers from these ids on.
    pub(crate) fn ids_from(
        &self,
        (c, s): (CommunicatorId, ServersId),
    ) -> (Ids<CommunicatorId>, Ids<ServersId>) {
        (self.all.ids_from(c), self.servers.ids_from(s))
    }

    /// Adds a communicator.
    pub(crate) fn add(&mut self, communicator: CommunicatorRun) {
        self.all.push(communicator);
    }

    /// Adds an exchange with parameter servers.
    pub(crate) fn add_servers(&mut self, servers: ServerRun) {
        self.servers.push(servers);
    }

    /// Adds the routes between the ranks of the next job copy; `None` if its ranks exchange nothing.
    pub(crate) fn add_ways(&mut self, ways: Option<Box<RankRoutes>>) {
        self.ways.push(ways);
    }

    /// Returns the routes between the ranks of each job copy.
    pub(crate) fn ways(&self) -> &IdVec<JobId, Option<Box<RankRoutes>>> {
        &self.ways
    }

    /// Lets communicators `next` continue the collectives of communicator `c`; each comes with a device that takes part in both.
    pub(crate) fn continue_with(
        &mut self,
        c: CommunicatorId,
        next: impl Iterator<Item = (CommunicatorId, DeviceId)>,
    ) {
        self.all[c].then.extend(next);
    }

    /// Returns the use of links by collectives that were not simulated transfer by transfer.
    pub(crate) fn link_uses(&self) -> &LinkUses {
        &self.link_uses
    }

    /// Returns the job copy whose ranks are in communicator `c`.
    pub(crate) fn job(&self, c: CommunicatorId) -> JobId {
        self.all[c].job()
    }

    /// Returns what the exchanges of a job copy with its parameter servers have sent, and its updates; `None` if it has no
    /// servers.
    pub(crate) fn sync_outcome(&self, of: Ids<ServersId>) -> Option<SyncOutcome> {
        let mut outcome = SyncOutcome::default();
        for (books, counts) in self.servers[of].iter().map(ServerRun::books) {
            outcome.pushed = outcome.pushed.saturating_add(books.pushed);
            outcome.pulled = outcome.pulled.saturating_add(books.pulled);
            for (staleness, updates) in books.staleness.iter().filter(|_| counts) {
                outcome.updates += updates;
                *outcome.staleness.entry(*staleness).or_default() += updates;
            }
        }
        (!of.is_empty()).then_some(outcome)
    }

    /// Returns the job copy that a worker of an exchange with parameter servers belongs to.
    pub(crate) fn job_of_worker(&self, w: ServerWorkerId) -> JobId {
        self.servers[self.workers[w].servers].job()
    }

    /// Returns the exchange with parameter servers that message `m` belongs to, if it belongs to one.
    pub(crate) fn servers_of_message(&self, m: MessageId) -> Option<ServersId> {
        self.messages.servers(m)
    }

    /// Returns the job copy that message `m` belongs to.
    pub(crate) fn job_of_message(&self, m: MessageId) -> JobId {
        self.messages.job(m)
    }

    /// Returns whether message `m` carries a part of a bucket to or from a parameter server.
    pub(crate) fn is_parcel(&self, m: MessageId) -> bool {
        self.messages.communicator(m).is_none()
    }

    /// Returns the cores that message `m` uses or waits for at the moment, if it needs any.
    pub(crate) fn cores_of_message(&mut self, m: MessageId) -> Option<Cores> {
        let message = *self.messages.get(m);
        let ways = self.ways[message.job].as_ref()?;
        ways.core_seconds(&message).map(|(cores, _)| cores).filter(|_| message.is_on_core())
    }

    /// Handles the end of a delay of message `m`, which belongs to a collective.
    pub(crate) fn end_message_delay(&mut self, env: &mut Env, m: MessageId) {
        if let Some(c) = self.messages.communicator(m) {
            self.exchange(env, c, |exchange, around| exchange.end_delay(around, m));
        }
    }

    /// Handles the arrival of the bytes of message `m`, which belongs to a collective.
    pub(crate) fn end_message_transfer(&mut self, env: &mut Env, m: MessageId) {
        if let Some(c) = self.messages.communicator(m) {
            self.exchange(env, c, |exchange, around| exchange.end_transfer(around, m));
        }
    }

    /// Returns the route from rank `from` of job copy `j` to rank `to`, at the pace of the job's transport; `None` if the job's
    /// ranks exchange nothing.
    pub(crate) fn way(&mut self, env: &mut Env, j: JobId, from: u32, to: u32) -> Option<RankRoute> {
        let ways = self.ways[j].as_mut()?;
        ways.keep(None);
        Some(ways.way(&mut env.network, from, to))
    }

    /// Cancels the messages and the collectives in progress of job copy `j`, whose communicators are `communicators`; their
    /// steps will begin again.
    pub(crate) fn abort(&mut self, env: &mut Env, j: JobId, communicators: Ids<CommunicatorId>) {
        self.messages.forget(j);
        self.settle_own_links(env, communicators);
        for c in communicators {
            self.all[c].abort(env.now);
            self.trace_gradients(env, c);
            self.trace_collective(env, c);
        }
    }

    /// Begins a step of communicator `c` at `now`.
    pub(crate) fn begin_step(&mut self, now: Time, c: CommunicatorId) {
        self.all[c].begin_step(now);
    }

    /// Returns `books` plus the bytes that the ranks of these communicators have sent.
    pub(crate) fn with_sent(
        &self,
        of: Ids<CommunicatorId>,
        mut books: ParallelOutcome,
    ) -> ParallelOutcome {
        self.all[of].iter().for_each(|communicator| communicator.add_sent(&mut books));
        books
    }

    /// Adds the states of the communicators `of` before `step` to a fingerprint; returns false if a collective is in progress.
    pub(crate) fn describe(
        &self,
        of: Ids<CommunicatorId>,
        step: u64,
        to: &mut Fingerprint,
    ) -> bool {
        self.all[of].iter().all(|communicator| communicator.describe(step, to))
    }

    /// Returns the progress of the exchanges of a job copy, without those in progress. `steps` returns the number of complete
    /// steps of a device's model copy.
    pub(crate) fn clocks(&self, of: Parts, steps: &dyn Fn(DeviceId) -> u64) -> Clocks {
        Clocks {
            sent: self.all[of.communicators].iter().map(CommunicatorRun::sent).collect(),
            averaged: self.averages[of.averages].iter().map(Averages::averaged_steps).collect(),
            servers: self.servers[of.servers].iter().map(|of| of.clock(steps)).collect(),
        }
    }

    /// Sets the exchanges of a job copy, none of which is in progress, back to the progress `clocks`.
    pub(crate) fn restore(&mut self, of: Parts, clocks: &Clocks) {
        for (communicator, sent) in self.all[of.communicators].iter_mut().zip(&clocks.sent) {
            communicator.restore(*sent);
        }
        for (averages, steps) in self.averages[of.averages].iter_mut().zip(&clocks.averaged) {
            averages.restore(*steps);
        }
        for (servers, clock) in self.servers[of.servers].iter_mut().zip(&clocks.servers) {
            servers.restore(clock);
        }
    }
}

/// Tracks of a job copy's gradients in the timeline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SyncTracks {
    /// Track that shows the current collective.
    pub(crate) reduction: u32,
    /// Track that shows the bytes of buckets that are ready and whose collectives have not begun [B].
    pub(crate) waiting: u32,
}

impl Communicators {
    /// Records in the timeline how many bytes of communicator `c` wait for their collective.
    pub(super) fn trace_gradients(&mut self, env: &mut Env, c: CommunicatorId) {
        let communicator = &self.all[c];
        if let (Some(recorder), Some(tracks)) = (&mut env.recorder, communicator.tracks) {
            recorder.count(tracks.waiting, env.now, communicator.waiting() as f64);
        }
    }

    /// Records in the timeline which collective of communicator `c` is in progress from `env.now` on.
    pub(super) fn trace_collective(&mut self, env: &mut Env, c: CommunicatorId) {
        let communicator = &self.all[c];
        if let (Some(recorder), Some(tracks)) = (&mut env.recorder, communicator.tracks) {
            match communicator.at_work() {
                Some(name) => recorder.begin(tracks.reduction, env.now, name),
                None => recorder.close(tracks.reduction, env.now),
            }
        }
    }
}
