//! Communicators: groups of ranks that do collectives together, one after the other, in the order in which all ranks have
//! started them.

use std::sync::Arc;

use forebay_collective::Schedule;
use forebay_engine::{Fingerprint, Span, Time};
use forebay_report::{ActivityName, Cause, ParallelOutcome};
use forebay_scenario::Members;

use super::communicators::{Communicators, SyncTracks};
use super::exchange::{Around, Exchange, Whose};
use super::kind::Communicator;
use super::own_links::OwnLinks;
use super::plan::{Pace, Plan, Reduction};
use super::progress::Progress;
use super::sequence::{Planned, Ranks, Sequence};
use crate::env::{
    ActivityId, BarrierWait, Delay, Env, Event, Notice, SampledBarrier, Waited, broken,
};
use crate::ids::{CommunicatorId, DeviceId, JobId};

/// A communicator and the progress of its ranks.
#[derive(Debug)]
pub(crate) struct CommunicatorRun {
    job: JobId,
    kind: Communicator,
    ranks: Ranks,
    sequence: Sequence,
    plan: Plan,
    progress: Progress,
    current: Current,
    exchange: Exchange,
    /// Lower bound of the bytes that all ranks together have sent [B].
    sent: f64,
    /// The collectives on links that nothing else uses, if the communicator has such links: each collective then takes as long
    /// as the first one with the same operation and bytes.
    pub(super) own: Option<OwnLinks>,
    /// Communicators that continue collectives of this one ([`Planned::then`]), each with a device that takes part in both.
    pub(super) then: Vec<(CommunicatorId, DeviceId)>,
    /// When the last rank starts each collective, where only some of the ranks are simulated.
    pub(crate) barrier: Option<Box<SampledBarrier>>,
    /// The latest wait for a rank that is not simulated.
    wait: Option<BarrierWait>,
    /// Tracks in the timeline, if one is recorded.
    pub(crate) tracks: Option<SyncTracks>,
}

/// The collective in progress.
#[derive(Debug, Default)]
struct Current {
    /// Its size, which may be that of several collectives fused into one [B].
    bytes: u64,
    /// Pace of its transfers, if it differs from the transport's.
    pace: Option<Pace>,
    stage: Stage,
}

/// The stage of the current collective.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// There is no current collective.
    #[default]
    Idle,
    Overhead,
    Busy,
}

impl Communicator {
    /// Returns the counter of `books` to which the bytes of this communicator's collectives are added.
    fn sent(self, books: &mut ParallelOutcome) -> &mut f64 {
        match self {
            Self::Data
            | Self::ExpertData
            | Self::Shard
            | Self::ExpertShard
            | Self::Replica
            | Self::ExpertReplica
            | Self::Secondary
            | Self::ExpertSecondary
            | Self::Inner
            | Self::ExpertInner => &mut books.gradients,
            Self::Tensor => &mut books.sums,
            Self::Context => &mut books.keys_values,
            Self::Expert => &mut books.tokens,
        }
    }
}

impl CommunicatorRun {
    /// Creates a communicator of job copy `job`; `number` is the communicator's id.
    pub(crate) fn new(
        (job, number): (JobId, CommunicatorId),
        kind: Communicator,
        ranks: Ranks,
        sequence: Sequence,
        plan: Plan,
    ) -> CommunicatorRun {
        let mut communicator = CommunicatorRun {
            job,
            kind,
            ranks,
            sequence,
            plan,
            progress: Progress::default(),
            current: Current::default(),
            exchange: Exchange::new((job, Whose::Communicator(number)), ranks.members),
            sent: 0.0,
            own: None,
            then: Vec::new(),
            barrier: None,
            wait: None,
            tracks: None,
        };
        communicator.restart();
        communicator
    }

    /// Returns the ports of the communicator's ranks.
    pub(crate) fn members(&self) -> Members {
        self.ranks.members
    }

    /// Returns whether the communicator's collectives average models, if its job averages the models of learners.
    pub(crate) fn averages_models(&self) -> bool {
        matches!(self.kind, Communicator::Data | Communicator::ExpertData)
    }

    /// Records that nothing but the communicator's collectives uses the links of its ranks.
    pub(crate) fn keep_own_links(&mut self) {
        self.own = Some(OwnLinks::new(self.ranks.members));
    }

    /// Returns the job copy that the communicator belongs to.
    pub(super) fn job(&self) -> JobId {
        self.job
    }

    /// Adds the bytes that the communicator's ranks have sent to `books`.
    pub(super) fn add_sent(&self, books: &mut ParallelOutcome) {
        *self.kind.sent(books) += self.sent;
    }

    /// Returns the bytes that the communicator's ranks have sent [B].
    pub(super) fn sent(&self) -> f64 {
        self.sent
    }

    /// Sets the bytes that the communicator's ranks have sent to `sent` [B].
    pub(super) fn restore(&mut self, sent: f64) {
        self.sent = sent;
    }

    /// Returns the devices that wait for the communicator's collectives.
    pub(crate) fn devices(&self) -> impl Iterator<Item = DeviceId> + use<> {
        self.ranks.devices.gpus().map(DeviceId::new)
    }

    /// Returns the number of collectives of `step` that are over.
    #[inline]
    pub(crate) fn over(&self, step: u64) -> u32 {
        self.progress.over(self.sequence.round(step))
    }

    /// Returns whether all collectives that ranks have started are over.
    pub(crate) fn is_over(&self) -> bool {
        self.progress.is_over()
    }

    /// Returns when the last simulated rank started collective number `over` of `step`, counted from 1, and on which device; `None`
    /// if not all have started it.
    pub(crate) fn started_last(&self, step: u64, over: u32) -> Option<(Time, DeviceId)> {
        let last = self.progress.started_last(self.sequence.round(step), over.checked_sub(1)?)?;
        let wait = self.wait.filter(|wait| wait.end() == last.0);
        Some(wait.map_or(last, |wait| (wait.start(), last.1)))
    }

    /// Adds the state of the communicator before `step` to a fingerprint; returns false if a collective is in progress.
    pub(super) fn describe(&self, step: u64, to: &mut Fingerprint) -> bool {
        let rests = self.current.stage == Stage::Idle && self.exchange.is_over();
        self.progress.describe(self.sequence.round(step), to) && rests
    }

    /// Prepares for new steps, none of which has begun.
    pub(crate) fn restart(&mut self) {
        self.current = Current::default();
        self.progress.restart(&self.sequence);
    }

    /// Cancels the current collective, so that the step can begin again.
    pub(super) fn abort(&mut self, now: Time) {
        self.exchange.abort();
        self.barrier.iter_mut().for_each(|barrier| barrier.abort(now));
        self.wait = None;
        self.restart();
    }

    /// Counts that a rank on device `d`, after what it has `waited` for, starts the collectives of `step` with these numbers; returns
    /// whether all ranks have now started at least one of them. If ranks are not simulated, the last one of all starts them later.
    fn start(
        &mut self,
        env: &Env,
        (step, numbers): (u64, std::ops::Range<u32>),
        (d, waited): (DeviceId, Waited),
    ) -> bool {
        let (now, round) = (env.now, self.sequence.round(step));
        let all = (round, self.sequence.number(round));
        let begun = self.progress.start(now, all, numbers.clone(), (d, self.ranks.starters));
        let Some(barrier) = &mut self.barrier else { return begun };
        for number in numbers {
            barrier.arrive((round, number), (now, d), waited);
            let Some(last) = self.progress.started_last_mut(round, number) else { continue };
            if let Some(wait) = barrier.last((round, number), now, &env.streams) {
                last.0 = wait.end();
                self.wait = Some(wait);
            }
        }
        begun
    }

    /// Begins a step at `now`: starts of collectives by ranks that are not simulated are drawn from here on.
    pub(super) fn begin_step(&mut self, now: Time) {
        self.barrier.iter_mut().for_each(|barrier| barrier.begin_step(now));
    }

    /// Returns the latest wait for a rank that is not simulated. Of several buckets, waits for earlier ones are no longer known.
    pub(crate) fn barrier_wait(&self) -> Option<BarrierWait> {
        self.wait
    }

    /// Begins a new step in which all ranks start all collectives at once.
    pub(crate) fn start_all(&mut self, now: Time) {
        self.restart();
        let last = (now, DeviceId::new(self.ranks.devices.first));
        self.progress.start_all(self.sequence.number(0), last);
    }

    /// Makes the next collective that all ranks have started the current one, fused with later waiting ones if they fit into
    /// the fusion buffer; returns the delay before it begins. `None` if a collective is in progress or none is waiting.
    fn next(&mut self, now: Time) -> Option<Span> {
        let step = self.progress.current_mut()?;
        let (round, waiting) = (step.round(), step.waiting());
        if self.current.stage != Stage::Idle || waiting.is_empty() {
            return None;
        }
        let planned = |number| self.sequence.planned(round, number);
        let (mut overhead, mut bytes, mut begun) = (Span::ZERO, 0, waiting.start);
        let operation = planned(begun).map(|planned| planned.operation);
        while begun < waiting.end
            && let Some(planned) = planned(begun)
        {
            let seen = (step.started_at(begun) + planned.late).max(now);
            let alike = seen == now && operation == Some(planned.operation);
            let joins = bytes + planned.bytes <= self.sequence.fusion && alike;
            if bytes > 0 && !joins {
                break;
            }
            let after = seen.since(now).0.saturating_add(planned.overhead.0);
            overhead = Span(overhead.0.saturating_add(after));
            bytes += planned.bytes;
            begun += 1;
        }
        (self.current.stage, self.current.bytes) = (Stage::Overhead, bytes);
        step.begin(begun);
        Some(overhead)
    }

    /// Returns the current collective, which may be several fused into one.
    #[inline]
    fn at_hand(&self) -> Option<Planned> {
        let step = self.progress.current()?;
        let last = self.sequence.planned(step.round(), step.last_begun()?)?;
        Some(Planned { bytes: self.current.bytes, ..*last })
    }

    /// Returns the current collective's step and, for it and each collective fused with it, the number of the collective that
    /// continues it.
    fn continued(&self) -> Option<(u64, Vec<u32>)> {
        let step = self.progress.current().filter(|_| !self.then.is_empty())?;
        let round = step.round();
        let then = |number| self.sequence.planned(round, number)?.then;
        Some((round, step.at_work().filter_map(then).collect()))
    }

    /// Ends the current collective.
    #[inline]
    fn end(&mut self) {
        self.own.iter_mut().for_each(OwnLinks::end);
        self.current.stage = Stage::Idle;
        self.progress.end();
    }

    /// Returns the total size of the collectives that all ranks have started and that have not begun [B].
    pub(crate) fn waiting(&self) -> u64 {
        let Some(step) = self.progress.current() else { return 0 };
        let planned = |number| self.sequence.planned(step.round(), number);
        step.waiting().filter_map(planned).map(|planned| planned.bytes).sum()
    }

    /// Returns the name of the current collective for timelines.
    pub(crate) fn at_work(&self) -> Option<ActivityName> {
        match self.current.stage {
            Stage::Idle => None,
            Stage::Overhead => Some("overhead".into()),
            Stage::Busy => self.at_hand().map(|of| self.plan.name(of.operation, of.bytes).into()),
        }
    }
}

impl Communicators {
    /// Starts collectives on device `d`, after what it has waited for, for a rank of communicator `c`; they are given by their
    /// step and their numbers in it. Each one begins when all ranks have started it.
    pub(crate) fn start(
        &mut self,
        env: &mut Env,
        c: CommunicatorId,
        of: (u64, std::ops::Range<u32>),
        d: (DeviceId, Waited),
    ) {
        if self.all[c].start(env, of, d) {
            self.trace_gradients(env, c);
            self.begin_next(env, c);
        }
    }

    /// Begins the next collective of communicator `c` that all ranks have started, unless another one is in progress.
    pub(crate) fn begin_next(&mut self, env: &mut Env, c: CommunicatorId) {
        let Some(overhead) = self.all[c].next(env.now) else { return };
        self.trace_gradients(env, c);
        self.trace_collective(env, c);
        if overhead == Span::ZERO {
            return self.end_communicator_delay(env, c);
        }
        let delay = Delay { span: overhead, lane: None };
        env.after(delay, Event::Waited(ActivityId::Communicator(c)));
    }

    /// Handles the end of a delay of communicator `c`: begins its collective after the overhead, or ends the collective
    /// itself.
    #[inline(never)]
    pub(crate) fn end_communicator_delay(&mut self, env: &mut Env, c: CommunicatorId) {
        let communicator = &mut self.all[c];
        if communicator.current.stage == Stage::Busy {
            return self.end_collective(env, c);
        }
        communicator.current.stage = Stage::Busy;
        self.trace_collective(env, c);
        let communicator = &mut self.all[c];
        let at_hand = communicator.at_hand();
        let ways = self.ways[communicator.job].as_deref_mut();
        let (Some(planned), Some(ways)) = (at_hand, ways) else {
            return self.end_collective(env, c);
        };
        match communicator.plan.reduction_of(planned.operation, planned.bytes, ways) {
            Reduction::Analytic(delay) => {
                env.after(delay, Event::Waited(ActivityId::Communicator(c)));
            }
            Reduction::Flow(schedule, None) if communicator.own.is_some() => {
                self.begin_on_own_links(env, c, &schedule);
            }
            Reduction::Flow(schedule, pace) => {
                communicator.current.pace = pace;
                self.exchange(env, c, |exchange, around| exchange.begin(around, &schedule));
            }
        }
    }

    /// Begins the current collective of communicator `c`, whose links nothing else uses, as a single delay.
    fn begin_on_own_links(&mut self, env: &mut Env, c: CommunicatorId, schedule: &Arc<Schedule>) {
        let communicator = &mut self.all[c];
        let key = communicator.at_hand().map(|planned| (planned.operation, planned.bytes));
        let ways = self.ways[communicator.job].as_deref();
        if let (Some(key), Some(own), Some(ways)) = (key, &mut communicator.own, ways) {
            let plan = &communicator.plan;
            let all = || (plan.collective(key.0, key.1), Arc::clone(schedule));
            let takes = own.begin(env.now, key, all, (&self.idle, ways, &env.network));
            if takes.span == Span::ZERO {
                return self.end_collective(env, c);
            }
            env.after(takes, Event::Waited(ActivityId::Communicator(c)));
        }
    }

    /// Runs `act` on the current collective of communicator `c`, and ends the collective if that was its last event.
    pub(super) fn exchange(
        &mut self,
        env: &mut Env,
        c: CommunicatorId,
        act: impl FnOnce(&mut Exchange, &mut Around<'_>),
    ) {
        let communicator = &mut self.all[c];
        let Some(ways) = &mut self.ways[communicator.job] else {
            return broken("the ranks of a collective have routes to each other");
        };
        let messages = &mut self.messages;
        ways.keep(communicator.current.pace);
        let mut around = Around { env, messages, ways, admitted: Vec::new() };
        act(&mut communicator.exchange, &mut around);
        let (over, admitted) = (communicator.exchange.is_over(), around.admitted);
        env.notices.extend(admitted.into_iter().map(Notice::CoreFree));
        if over {
            self.end_collective(env, c);
        }
    }

    /// Starts the collectives of a step with these numbers in the communicators that continue those of communicator `c`.
    fn go_on(&mut self, env: &mut Env, c: CommunicatorId, (step, numbers): (u64, &[u32])) {
        let then = std::mem::take(&mut self.all[c].then);
        for number in numbers {
            for (next, d) in &then {
                let of = (step, *number..*number + 1);
                let waited = Waited { cause: Cause::Communication, until: env.now };
                self.start(env, *next, of, (*d, waited));
            }
        }
        self.all[c].then = then;
    }

    /// Ends the current collective of communicator `c` and begins the next one.
    fn end_collective(&mut self, env: &mut Env, c: CommunicatorId) {
        let communicator = &mut self.all[c];
        let ranks = communicator.ranks.members.ranks;
        let volume = communicator.at_hand().map_or(0.0, |planned| planned.volume(ranks));
        communicator.sent += volume * f64::from(ranks);
        let continued = communicator.continued();
        communicator.end();
        let last = communicator.is_over();
        if last {
            communicator.begin_step(env.now);
        }
        self.trace_collective(env, c);
        self.begin_next(env, c);
        if let Some((step, numbers)) = continued {
            self.go_on(env, c, (step, &numbers));
        }
        env.notices.push_back(Notice::CollectiveOver { communicator: c, last });
    }
}
