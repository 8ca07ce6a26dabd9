//! Communicators: groups of ranks that do collectives together, one after the other, in the order in which all ranks have
//! started them.

use std::sync::Arc;

use crate::env::Env;
use crate::event::{ActivityId, Delay, Event};
use crate::index::{CommunicatorId, DeviceId, Id, IdVec, JobId};
use crate::notice::Notice;
use crate::program::Communicator;
use forebay_collective::Schedule;
use forebay_engine::{Span, Time};
use forebay_report::{ActivityName, ParallelOutcome};
use forebay_scenario::Members;

use super::Communicators;
use super::exchange::{Around, Exchange};
use super::measured::Pace;
use super::own_links::OwnLinks;
use super::plan::{Plan, Reduction};
use super::sequence::{Planned, Ranks, Sequence};
use super::timeline::SyncTracks;

/// A communicator and the progress of its ranks within a step.
#[derive(Debug)]
pub(crate) struct CommunicatorRun {
    job: JobId,
    kind: Communicator,
    ranks: Ranks,
    sequence: Sequence,
    plan: Plan,
    progress: Progress,
    exchange: Exchange,
    /// Lower bound of the bytes that all ranks together have sent [B].
    sent: f64,
    /// The collectives on links that nothing else uses, if the communicator has such links: each collective then takes as long
    /// as the first one with the same operation and bytes.
    pub(super) own: Option<OwnLinks>,
    /// Tracks in the timeline, if one is recorded.
    pub(crate) tracks: Option<SyncTracks>,
}

/// Progress of the collectives of a step.
#[derive(Debug, Default)]
struct Progress {
    /// Number of ranks that have started each collective; `last` holds, for each collective that all ranks have started, the
    /// time of the last rank's start and that rank's device.
    started: IdVec<Planned, u32>,
    last: IdVec<Planned, (Time, DeviceId)>,
    begun: u32,
    over: u32,
    /// Bytes of the current collective [B].
    bytes: u64,
    /// Pace of the current collective's transfers, if it differs from the transport's.
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
            Self::Data | Self::ExpertData => &mut books.gradients,
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
            exchange: Exchange::new((job, Some(number)), ranks.members),
            sent: 0.0,
            own: None,
            tracks: None,
        };
        communicator.restart();
        communicator
    }

    /// Returns the ports of the communicator's ranks.
    pub(crate) fn members(&self) -> Members {
        self.ranks.members
    }

    /// Records that nothing but the communicator's collectives uses the links of its ranks.
    pub(crate) fn has_own_links(&mut self) {
        self.own = Some(OwnLinks::new(self.ranks.members));
    }

    /// Returns the job copy that the communicator belongs to.
    pub(crate) fn job(&self) -> JobId {
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

    /// Returns the number of collectives of this step that are over.
    pub(crate) fn over(&self) -> u32 {
        self.progress.over
    }

    /// Returns whether all collectives of this step are over.
    pub(super) fn is_over(&self) -> bool {
        self.progress.over == self.sequence.number
    }

    /// Returns when the last rank started collective number `over` of this step, counted from 1, and on which device; `None`
    /// if not all have started it.
    pub(crate) fn started_last(&self, over: u32) -> Option<(Time, DeviceId)> {
        self.progress.last.get(Id::new(over.checked_sub(1)?)).copied()
    }

    /// Prepares for a new step.
    pub(crate) fn restart(&mut self) {
        let Sequence { given, .. } = self.sequence;
        let Progress { mut started, mut last, .. } = std::mem::take(&mut self.progress);
        started.clear();
        last.clear();
        last.resize(given, (Time::ZERO, DeviceId::new(self.ranks.devices.first)));
        started.resize(given, self.ranks.starters);
        self.progress = Progress { started, last, ..Progress::default() };
    }

    /// Cancels the current collective, so that the step can begin again.
    pub(crate) fn abort(&mut self) {
        self.exchange.abort();
        self.restart();
    }

    /// Counts that a rank on device `d` starts the collectives with these numbers; returns whether all ranks have now started
    /// at least one of them.
    fn start(&mut self, now: Time, numbers: std::ops::Range<u32>, d: DeviceId) -> bool {
        let Progress { started, last, .. } = &mut self.progress;
        let before = last.len();
        for number in numbers {
            let number = Id::new(number);
            if started.next_id() <= number {
                started.resize(number.number() + 1, 0);
            }
            started[number] += 1;
            if started[number] == self.ranks.starters {
                last.push((now, d));
            }
        }
        last.len() > before
    }

    /// Begins a new step in which all ranks start all collectives at once.
    pub(crate) fn start_all(&mut self, now: Time) {
        self.restart();
        let last = (now, DeviceId::new(self.ranks.devices.first));
        self.progress.last.resize(self.sequence.number, last);
    }

    /// Returns the operation, bytes and delays of collective number `number` of a step.
    fn planned(&self, number: u32) -> Option<&Planned> {
        let all = &self.sequence.collectives;
        all.get(number as usize % all.len().max(1))
    }

    /// Makes the next collective that all ranks have started the current one, fused with later waiting ones if they fit into
    /// the fusion buffer; returns the delay before it begins. `None` if a collective is in progress or none is waiting.
    fn next(&mut self, now: Time) -> Option<Span> {
        let Progress { begun: first, stage, .. } = self.progress;
        let waiting = self.progress.last.len() as u32;
        if stage != Stage::Idle || first == waiting {
            return None;
        }
        let (mut overhead, mut bytes, mut begun) = (Span::ZERO, 0, first);
        let operation = self.planned(first).map(|planned| planned.operation);
        while begun < waiting
            && let Some(planned) = self.planned(begun)
        {
            let (made, _) = self.progress.last[Id::new(begun)];
            let seen = (made + planned.late).max(now);
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
        (self.progress.stage, self.progress.bytes) = (Stage::Overhead, bytes);
        self.progress.begun = begun;
        Some(overhead)
    }

    /// Returns the current collective, which may be several fused into one.
    fn at_hand(&self) -> Option<Planned> {
        let last = self.planned(self.progress.begun.checked_sub(1)?)?;
        Some(Planned { bytes: self.progress.bytes, ..*last })
    }

    /// Ends the current collective.
    fn end(&mut self) {
        self.own.iter_mut().for_each(OwnLinks::end);
        (self.progress.over, self.progress.stage) = (self.progress.begun, Stage::Idle);
    }

    /// Returns the total size of the collectives that all ranks have started and that have not begun [B].
    pub(super) fn waiting(&self) -> u64 {
        let waiting = self.progress.begun..self.progress.last.len() as u32;
        waiting.filter_map(|number| self.planned(number)).map(|planned| planned.bytes).sum()
    }

    /// Returns the name of the current collective for timelines.
    pub(super) fn at_work(&self) -> Option<ActivityName> {
        match self.progress.stage {
            Stage::Idle => None,
            Stage::Overhead => Some("overhead".into()),
            Stage::Busy => self.at_hand().map(|of| self.plan.name(of.operation, of.bytes).into()),
        }
    }
}

impl Communicators {
    /// Starts the collectives with these numbers on device `d` for a rank of communicator `c`; each one begins when all ranks
    /// have started it.
    pub(crate) fn start(
        &mut self,
        env: &mut Env,
        c: CommunicatorId,
        numbers: std::ops::Range<u32>,
        d: DeviceId,
    ) {
        if self.all[c].start(env.now, numbers, d) {
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
            return self.communicator_waited(env, c);
        }
        let delay = Delay { span: overhead, lane: None };
        env.after(delay, Event::Waited(ActivityId::Communicator(c)));
    }

    /// Handles the end of a delay of communicator `c`: begins its collective after the overhead, or ends the collective
    /// itself.
    #[inline(never)]
    pub(crate) fn communicator_waited(&mut self, env: &mut Env, c: CommunicatorId) {
        let communicator = &mut self.all[c];
        if communicator.progress.stage == Stage::Busy {
            return self.end_collective(env, c);
        }
        communicator.progress.stage = Stage::Busy;
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
                communicator.progress.pace = pace;
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
        let Some(ways) = &mut self.ways[communicator.job] else { return };
        let messages = &mut self.messages;
        ways.keep(communicator.progress.pace);
        let mut around = Around { env, messages, ways, admitted: Vec::new() };
        act(&mut communicator.exchange, &mut around);
        let (over, admitted) = (communicator.exchange.is_over(), around.admitted);
        env.notices.extend(admitted.into_iter().map(Notice::CoreFree));
        if over {
            self.end_collective(env, c);
        }
    }

    /// Ends the current collective of communicator `c` and begins the next one.
    fn end_collective(&mut self, env: &mut Env, c: CommunicatorId) {
        let communicator = &mut self.all[c];
        let ranks = communicator.ranks.members.ranks;
        let volume = communicator.at_hand().map_or(0.0, |planned| planned.volume(ranks));
        communicator.sent += volume * f64::from(ranks);
        communicator.end();
        let last = communicator.is_over();
        self.trace_collective(env, c);
        self.begin_next(env, c);
        env.notices.push_back(Notice::CollectiveOver { communicator: c, last });
    }
}
