//! Gradients: buckets of them, as backward makes them, reduced one after the other among all model copies of
//! a job copy; the part of that which backward does not hide.

use crate::account::Segment;
use crate::engine::{Span, Time};
use crate::report::{Cause, StallCause};
use crate::sim::event::{Clock, Customer, Delay, Event};
use crate::sim::world::World;

use super::exchange::{Around, Exchange};
use super::plan::{Plan, Reduction};
use super::ways::Ways;

/// What the model copies of a job copy do with their gradients.
#[derive(Debug)]
pub(in crate::sim) struct SyncRun {
    /// Pieces of a step: share of its time, and buckets that are ready after it.
    pieces: Vec<(f64, u32)>,
    buckets: Vec<BucketRun>,
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
    stage: Stage,
    /// When the last model copy had computed.
    computed: Option<Time>,
    exchange: Exchange,
    ways: Ways,
}

/// A bucket of gradients.
#[derive(Debug, Clone, Copy)]
pub(in crate::sim) struct BucketRun {
    pub(in crate::sim) bytes: u64,
    /// Time after which it is looked at, from when all have made it, and what comes then, for its tensors.
    pub(in crate::sim) late: Span,
    pub(in crate::sim) overhead: Span,
}

/// What happens to the bucket at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// There is none.
    Idle,
    Overhead,
    Reducing,
    /// All of this step are reduced.
    Over,
}

impl SyncRun {
    /// Of `ranks` model copies of job copy `job`.
    pub(in crate::sim) fn new(
        job: u32,
        ranks: u32,
        pieces: Vec<(f64, u32)>,
        buckets: Vec<BucketRun>,
        buffer: u64,
        plan: Plan,
        ways: Ways,
    ) -> SyncRun {
        SyncRun {
            done: vec![0; pieces.len()],
            pieces,
            buckets,
            buffer,
            plan,
            bytes: 0,
            ranks,
            made: 0,
            made_at: Time::ZERO,
            begun: 0,
            stage: Stage::Idle,
            computed: None,
            exchange: Exchange::new(job),
            ways,
        }
    }

    /// Share of a step's time that piece number `piece` takes.
    pub(in crate::sim) fn share(&self, piece: usize) -> f64 {
        self.pieces[piece].0
    }

    /// Whether no piece comes after number `piece`.
    pub(in crate::sim) fn is_last(&self, piece: usize) -> bool {
        piece + 1 == self.pieces.len()
    }

    /// A model copy has done piece number `piece`.
    fn did(&mut self, now: Time, piece: usize) {
        self.done[piece] += 1;
        if self.done[piece] == self.ranks {
            self.made += self.pieces[piece].1;
            self.made_at = now;
        }
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
        let last = self.begun as usize == self.buckets.len();
        self.stage = if last { Stage::Over } else { Stage::Idle };
        last
    }

    /// A new step begins.
    fn restart(&mut self) {
        self.done.fill(0);
        (self.made, self.begun) = (0, 0);
        (self.stage, self.computed) = (Stage::Idle, None);
    }
}

impl World<'_> {
    /// Device `d` has done a piece of a step, and has what gradients come with it.
    pub(in crate::sim) fn made_gradients(&mut self, clock: &mut Clock, d: u32) {
        let device = &self.devices[d as usize];
        let (j, piece) = (device.job, device.piece);
        let Some(sync) = &mut self.jobs[j as usize].sync else { return };
        sync.did(clock.now, piece as usize);
        self.reduce_next(clock, j);
    }

    fn reduce_next(&mut self, clock: &mut Clock, j: u32) {
        let Some(sync) = &mut self.jobs[j as usize].sync else { return };
        let Some(overhead) = sync.next(clock.now) else { return };
        if overhead.0 == 0 {
            return self.reduction_waited(clock, j);
        }
        clock.after(Delay { span: overhead, lane: None }, Event::Waited(Customer::Reduction(j)));
    }

    /// What job copy `j` does with the bucket at hand has got on.
    #[inline(never)]
    pub(in crate::sim) fn reduction_waited(&mut self, clock: &mut Clock, j: u32) {
        let Some(sync) = &mut self.jobs[j as usize].sync else { return };
        if sync.stage == Stage::Reducing {
            return self.reduced(clock, j);
        }
        sync.stage = Stage::Reducing;
        match sync.plan.of(sync.bytes, &sync.ways) {
            Reduction::Analytic(delay) => {
                clock.after(delay, Event::Waited(Customer::Reduction(j)));
            }
            Reduction::Flow(schedule) => {
                self.exchange(clock, j, |exchange, around| exchange.begin(around, &schedule));
            }
        }
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
        act(&mut sync.exchange, &mut Around { clock, network, messages, ways: &mut sync.ways });
        if sync.exchange.is_over() {
            self.reduced(clock, j);
        }
    }

    /// Message `m` has waited.
    #[inline(never)]
    pub(in crate::sim) fn message_waited(&mut self, clock: &mut Clock, m: u32) {
        let j = self.messages.job(m);
        self.exchange(clock, j, |exchange, around| exchange.waited(around, m));
    }

    /// The bytes of message `m` are there.
    #[inline(never)]
    pub(in crate::sim) fn message_moved(&mut self, clock: &mut Clock, m: u32) {
        let j = self.messages.job(m);
        self.exchange(clock, j, |exchange, around| exchange.moved(around, m));
    }

    fn reduced(&mut self, clock: &mut Clock, j: u32) {
        let Some(sync) = &mut self.jobs[j as usize].sync else { return };
        let over = sync.reduced();
        match sync.computed.filter(|_| over) {
            Some(since) => self.end_communication(clock, j, since),
            None => self.reduce_next(clock, j),
        }
    }

    /// Whether job copy `j`, whose model copies have all computed, must wait for gradients; it does.
    pub(in crate::sim) fn awaits_gradients(&mut self, now: Time, j: usize) -> bool {
        let Some(sync) = &mut self.jobs[j].sync else { return false };
        let over = sync.stage == Stage::Over;
        if over {
            sync.restart();
        } else {
            sync.computed = Some(now);
            for d in self.jobs[j].devices.clone() {
                self.devices[d as usize].since = now;
                self.trace_device(now, d, Cause::Communication.name());
            }
        }
        !over
    }

    /// What backward did not hide is over.
    fn end_communication(&mut self, clock: &mut Clock, j: u32, since: Time) {
        let job = &mut self.jobs[j as usize];
        let cause = StallCause::own(Cause::Communication);
        for _ in job.devices.clone() {
            job.steps.add_stall(Segment { start: since, end: clock.now, cause });
        }
        if let Some(sync) = &mut job.sync {
            sync.restart();
        }
        for d in self.jobs[j as usize].devices.clone() {
            self.trace_device(clock.now, d, "waiting");
        }
        self.end_of_step(clock, j as usize);
    }
}
