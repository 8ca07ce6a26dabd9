//! Gradients: buckets of them, as backward makes them, reduced one after the other among all model copies of
//! a job copy; the part of that which backward does not hide.

use std::sync::Arc;

use crate::account::Segment;
use crate::collective::{Operation, Schedule};
use crate::engine::{Span, Time};
use crate::report::{ActivityName, Cause, StallCause};
use crate::scenario::Members;
use crate::sim::device::State;
use crate::sim::event::{Clock, Customer, Delay, Event};
use crate::sim::workers::Cores;
use crate::sim::world::World;

use super::exchange::{Around, Exchange};
use super::message::ALL;
use super::overhead::Slots;
use super::own_links::OwnLinks;
use super::pieces::Pieces;
use super::plan::{Plan, Reduction};
use super::timeline::SyncTracks;
use super::ways::Ways;

/// What the model copies of a job copy do with their gradients.
#[derive(Debug)]
pub(in crate::sim) struct SyncRun {
    pub(in crate::sim) pieces: Pieces,
    /// Parameters from a root first, if there is one, then gradients.
    buckets: Vec<BucketRun>,
    /// Time of the update at a root, or of everyone to take apart what has come.
    pub(super) update: Span,
    /// Whether that is a root's.
    pub(super) root: bool,
    /// Most bytes of buckets that are reduced together because they wait together [B].
    buffer: u64,
    plan: Plan,
    /// What is at hand [B].
    bytes: u64,
    /// By piece, model copies that have done it in this step.
    done: Vec<u32>,
    ranks: u32,
    /// Buckets of this step that all have made, when the last of these, and how many were begun to be reduced.
    made: u32,
    made_at: Time,
    begun: u32,
    /// Those of this step that are over.
    over: u32,
    pub(super) stage: Stage,
    /// When the last model copy had computed.
    pub(super) computed: Option<Time>,
    /// When the root began its update.
    pub(super) updating: Option<Time>,
    exchange: Exchange,
    pub(in crate::sim) ways: Ways,
    /// Where nothing else uses its links: each collective takes as long as the first that was like it.
    pub(super) own: Option<OwnLinks>,
    /// Where a timeline is recorded.
    pub(in crate::sim) tracks: Option<SyncTracks>,
}

/// A bucket of gradients, or of parameters.
#[derive(Debug, Clone, Copy)]
pub(in crate::sim) struct BucketRun {
    /// What is done with it.
    pub(in crate::sim) operation: Operation,
    pub(in crate::sim) bytes: u64,
    /// Time after which it is looked at, from when all have made it, and what comes then, for its tensors.
    pub(in crate::sim) late: Span,
    pub(in crate::sim) overhead: Span,
}

impl BucketRun {
    /// It is there as soon as it is made.
    pub(in crate::sim) fn stays(&mut self) {
        (self.late, self.overhead) = (Span::ZERO, Span::ZERO);
    }
}

/// What happens to the bucket at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// There is none.
    Idle,
    Overhead,
    Reducing,
    /// All of this step are reduced.
    Over,
    /// So they are, and the root applies them.
    Updating,
}

impl SyncRun {
    /// Of all model copies of job copy `job`, whose root, if it has one, takes `update` to update.
    pub(in crate::sim) fn new(
        job: u32,
        pieces: Pieces,
        buckets: Vec<BucketRun>,
        update: Span,
        buffer: u64,
        plan: Plan,
        ways: Ways,
    ) -> SyncRun {
        let all = Members { first: 0, stride: 1, ranks: plan.fabric.ranks };
        let mut sync = SyncRun {
            done: vec![0; pieces.number()],
            root: buckets.iter().any(|bucket| bucket.operation == Operation::Broadcast),
            pieces,
            buckets,
            update,
            buffer,
            ranks: plan.fabric.ranks,
            plan,
            bytes: 0,
            made: 0,
            made_at: Time::ZERO,
            begun: 0,
            over: 0,
            stage: Stage::Idle,
            computed: None,
            updating: None,
            exchange: Exchange::new((job, ALL), all),
            ways,
            own: None,
            tracks: None,
        };
        sync.restart();
        sync
    }

    /// Its ranks.
    pub(in crate::sim) fn members(&self) -> Members {
        Members { first: 0, stride: 1, ranks: self.plan.fabric.ranks }
    }

    /// Nothing but these collectives uses the links of its ranks.
    pub(in crate::sim) fn has_own_links(&mut self) {
        self.own = Some(OwnLinks::new(self.members()));
    }

    /// Whether so many buckets of parameters have come from the root.
    pub(super) fn has_broadcast(&self, buckets: u32) -> bool {
        self.over >= buckets
    }

    /// Reference models are there to be averaged, all at once.
    pub(in crate::sim) fn offer(&mut self, now: Time) {
        self.restart();
        (self.made, self.made_at) = (self.buckets.len() as u32, now);
    }

    /// A GPU has done piece number `piece` of a step that ends with an exchange; true if all have.
    pub(super) fn did(&mut self, now: Time, piece: u32) -> bool {
        let done = &mut self.done[piece as usize];
        *done += 1;
        let all = *done == self.ranks;
        if all {
            self.made += self.pieces.of_exchange(piece).made;
            self.made_at = now;
        }
        all
    }

    /// What comes before the next bucket is reduced, if there is one; it is at hand now, with those after it
    /// that wait too and fit.
    fn next(&mut self, now: Time) -> Option<Span> {
        if self.stage != Stage::Idle || self.begun == self.made {
            return None;
        }
        self.stage = Stage::Overhead;
        let mut overhead = Span::ZERO;
        self.bytes = 0;
        let waiting = self.begun as usize..self.made as usize;
        for bucket in &self.buckets[waiting] {
            let seen = (self.made_at + bucket.late).max(now);
            let joins = self.bytes + bucket.bytes <= self.buffer && seen == now;
            if self.bytes > 0 && !joins {
                break;
            }
            let after = seen.since(now).0.saturating_add(bucket.overhead.0);
            overhead = Span(overhead.0.saturating_add(after));
            self.bytes += bucket.bytes;
            self.begun += 1;
        }
        Some(overhead)
    }

    /// The bucket at hand is reduced; whether it was the last one.
    fn reduced(&mut self) -> bool {
        self.own.iter_mut().for_each(OwnLinks::end);
        self.over = self.begun;
        let last = self.begun as usize == self.buckets.len();
        self.stage = if last { Stage::Over } else { Stage::Idle };
        last
    }

    /// Gradients that wait to be reduced, or parameters to be sent [B].
    pub(super) fn waiting(&self) -> u64 {
        let of = self.begun as usize..self.made as usize;
        self.buckets[of].iter().map(|bucket| bucket.bytes).sum()
    }

    /// What is done with the bucket at hand, as timelines name it.
    pub(super) fn at_work(&self) -> Option<ActivityName> {
        match self.stage {
            Stage::Idle | Stage::Over | Stage::Updating => None,
            Stage::Overhead => Some("overhead".into()),
            Stage::Reducing => Some(self.plan.name(self.operation(), self.bytes).into()),
        }
    }

    /// What is done with the bucket at hand.
    fn operation(&self) -> Operation {
        self.buckets[self.begun as usize - 1].operation
    }

    /// Nothing is being reduced any more.
    pub(in crate::sim) fn abort(&mut self) {
        self.exchange.abort();
        self.restart();
    }

    /// A new step begins, for which a root has all parameters.
    pub(in crate::sim) fn restart(&mut self) {
        self.done.fill(0);
        let out = self.buckets.iter().filter(|bucket| bucket.operation == Operation::Broadcast);
        self.made = out.count() as u32;
        (self.begun, self.over) = (0, 0);
        (self.stage, self.computed, self.updating) = (Stage::Idle, None, None);
    }
}

impl World<'_> {
    /// Device `d` has computed a piece of a step; its gradients of that piece are ready to be reduced.
    pub(in crate::sim) fn offer_gradients(&mut self, clock: &mut Clock, d: u32, piece: u32) {
        let j = self.devices[d as usize].job;
        if self.jobs[j as usize].learners.number > 1 {
            return self.add_to_sum(clock, d, piece);
        }
        self.did_piece(clock, j, piece);
    }

    /// A GPU of job copy `j` has the gradients of a piece.
    pub(super) fn did_piece(&mut self, clock: &mut Clock, j: u32, piece: u32) {
        let Some(sync) = &mut self.jobs[j as usize].sync else { return };
        if sync.did(clock.now, piece) {
            self.trace_gradients(clock.now, j);
            self.reduce_next(clock, j);
        }
    }

    /// What job copy `j` has to send and does not yet is at hand now.
    pub(in crate::sim) fn reduce_next(&mut self, clock: &mut Clock, j: u32) {
        let Some(sync) = &mut self.jobs[j as usize].sync else { return };
        let Some(overhead) = sync.next(clock.now) else { return };
        self.trace_gradients(clock.now, j);
        self.trace_reduction(clock.now, j);
        if overhead.0 == 0 {
            return self.reduction_waited(clock, j);
        }
        clock.after(Delay { span: overhead, lane: None }, Event::Waited(Customer::Reduction(j)));
    }

    /// What job copy `j` does with the bucket at hand has got on.
    #[inline(never)]
    pub(in crate::sim) fn reduction_waited(&mut self, clock: &mut Clock, j: u32) {
        let Some(sync) = &mut self.jobs[j as usize].sync else { return };
        match sync.stage {
            Stage::Reducing => return self.reduced(clock, j),
            Stage::Updating => return self.end_communication(clock, j),
            _ => sync.stage = Stage::Reducing,
        }
        self.trace_reduction(clock.now, j);
        let Some(sync) = &mut self.jobs[j as usize].sync else { return };
        match sync.plan.of(sync.operation(), sync.bytes, &sync.ways) {
            Reduction::Analytic(delay) => {
                clock.after(delay, Event::Waited(Customer::Reduction(j)));
            }
            Reduction::Flow(schedule, None) if sync.own.is_some() => {
                self.begin_reduction_on_own_links(clock, j, &schedule);
            }
            Reduction::Flow(schedule, pace) => {
                sync.ways.keep(pace);
                self.exchange(clock, j, |exchange, around| exchange.begin(around, &schedule));
            }
        }
    }

    /// The bucket at hand of job copy `j`, whose links nothing else uses, takes its time.
    fn begin_reduction_on_own_links(
        &mut self,
        clock: &mut Clock,
        j: u32,
        schedule: &Arc<Schedule>,
    ) {
        let Some(sync) = &mut self.jobs[j as usize].sync else { return };
        let key = (sync.operation(), sync.bytes);
        let Some(own) = &mut sync.own else { return };
        let takes = own.begin(clock.now, key, schedule, (&sync.ways, &self.network));
        if takes.span == Span::ZERO {
            return self.reduced(clock, j);
        }
        clock.after(takes, Event::Waited(Customer::Reduction(j)));
    }

    /// Lets a transfer of job copy `j` go on; the bucket may be reduced by that.
    fn exchange(
        &mut self,
        clock: &mut Clock,
        j: u32,
        act: impl FnOnce(&mut Exchange, &mut Around<'_, '_>),
    ) {
        let Some(sync) = &mut self.jobs[j as usize].sync else { return };
        let (network, messages) = (&mut self.network, &mut self.messages);
        let (ways, slots) = (&mut sync.ways, Slots::of(&mut self.stations));
        let mut around = Around { clock, network, messages, ways, slots };
        act(&mut sync.exchange, &mut around);
        let (over, admitted) = (sync.exchange.is_over(), around.slots.admitted);
        for next in admitted {
            self.admitted(clock, next);
        }
        if over {
            self.reduced(clock, j);
        }
    }

    /// The cores of a node that message `m` is at work on, if it is.
    pub(in crate::sim) fn cores_of_message(&mut self, m: u32) -> Option<Cores> {
        let message = *self.messages.get(m);
        let job = &self.jobs[message.job as usize];
        let servers = job.servers.as_ref().map(|servers| &servers.ways);
        let ways = job.sync.as_ref().map(|sync| &sync.ways).or(servers)?;
        ways.core_seconds(&message).map(|(cores, _)| cores).filter(|_| message.is_on_core())
    }

    /// Message `m` has waited.
    #[inline(never)]
    pub(in crate::sim) fn message_waited(&mut self, clock: &mut Clock, m: u32) {
        let (j, group) = self.messages.whose(m);
        if group != ALL {
            return self
                .group_exchange(clock, group, |exchange, around| exchange.waited(around, m));
        }
        if self.jobs[j as usize].servers.is_some() {
            return self.parcel_got_on(clock, m, |exchange, around| exchange.waited(around, m));
        }
        self.exchange(clock, j, |exchange, around| exchange.waited(around, m));
    }

    /// The bytes of message `m` are there.
    #[inline(never)]
    pub(in crate::sim) fn message_moved(&mut self, clock: &mut Clock, m: u32) {
        let (j, group) = self.messages.whose(m);
        if group != ALL {
            return self.group_exchange(clock, group, |exchange, around| exchange.moved(around, m));
        }
        if self.jobs[j as usize].servers.is_some() {
            return self.parcel_got_on(clock, m, |exchange, around| exchange.moved(around, m));
        }
        self.exchange(clock, j, |exchange, around| exchange.moved(around, m));
    }

    fn reduced(&mut self, clock: &mut Clock, j: u32) {
        let Some(sync) = &mut self.jobs[j as usize].sync else { return };
        let last = sync.reduced();
        self.trace_reduction(clock.now, j);
        if last && self.jobs[j as usize].averaging.is_some() {
            return self.exchanged(clock, j);
        }
        if last {
            return self.begin_update(clock, j);
        }
        self.reduce_next(clock, j);
        self.go_on_with_parameters(clock, j);
    }

    /// Whether job copy `j`, whose model copies have all computed, must wait for gradients; it does.
    pub(in crate::sim) fn awaits_gradients(&mut self, clock: &mut Clock, j: usize) -> bool {
        let Some(sync) = &mut self.jobs[j].sync else { return false };
        let over = sync.stage == Stage::Over;
        if over && sync.update == Span::ZERO {
            sync.restart();
            return false;
        }
        sync.computed = Some(clock.now);
        for d in self.jobs[j].devices.clone() {
            if self.devices[d as usize].state != State::Off {
                self.devices[d as usize].since = clock.now;
                self.trace_device(clock.now, d, Cause::Communication.name());
            }
        }
        if over {
            self.begin_update(clock, j as u32);
        }
        true
    }

    /// What backward did not hide is over.
    pub(super) fn end_communication(&mut self, clock: &mut Clock, j: u32) {
        let job = &mut self.jobs[j as usize];
        let Some(sync) = &mut job.sync else { return };
        let Some(since) = sync.computed else { return };
        let update = sync.updating.unwrap_or(clock.now);
        let cause = StallCause::own(Cause::Communication);
        for d in job.devices.clone() {
            if self.devices[d as usize].state != State::Off {
                job.steps.add_stall(Segment { start: since, end: update, cause });
            }
        }
        sync.restart();
        self.account_for_update(clock.now, j, update);
        for d in self.jobs[j as usize].devices.clone() {
            if self.devices[d as usize].state != State::Off {
                self.trace_device(clock.now, d, "waiting");
            }
        }
        self.end_of_step(clock, j as usize);
    }
}
