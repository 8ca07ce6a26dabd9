//! A collective in progress: each transfer starts when its sender and its receiver have reached the transfer's phase.

use std::sync::Arc;

use forebay_collective::{Hop, Kind, Schedule};
use forebay_scenario::Members;

use super::ways::RankRoutes;
use crate::env::{ActivityId, Cores, Delay, Env, Event, Waiting};
use crate::ids::{CommunicatorId, IdVec, JobId, MessageId, PartyId, ServersId, Slab};

/// Value of a party's phase before the party has entered its first phase.
const NOWHERE: u64 = u64::MAX;

/// Port of the first switch; the ports of further switches count down from here.
const SWITCHES: u32 = u32::MAX;

/// A collective of some ranks of a job copy, by the rules of [`forebay_collective`]: a transfer of phase p starts when its
/// sender and its receiver have finished all their own transfers of earlier phases.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The job copy that the exchange belongs to, and its communicator or its servers.
    whose: (JobId, Whose),
    /// The ranks that take part, by their ports in the routes.
    members: Members,
    schedule: Option<Arc<Schedule>>,
    /// The participants of the schedule: first the ranks, then the switches. Each party has a current phase and a number of
    /// unfinished transfers in that phase.
    parties: IdVec<PartyId, Party>,
    /// Number of parties that have transfers left.
    unfinished: u32,
    /// Messages that have arrived at this instant and whose senders and receivers have not gone on yet.
    arrived: Vec<MessageId>,
    /// Scratch space for the transfers of a party.
    own: Vec<Hop>,
}

#[derive(Debug, Clone, Copy)]
struct Party {
    phase: u64,
    open: u32,
}

/// The parts of the world that an exchange acts on.
pub(crate) struct Around<'a> {
    pub(super) env: &'a mut Env,
    pub(super) messages: &'a mut Messages,
    pub(super) ways: &'a mut RankRoutes,
    /// Activities that have been given a core that a message has freed.
    pub(super) admitted: Vec<Waiting>,
}

impl Exchange {
    /// Returns an exchange with no collective in progress; `whose` is its job copy, and its communicator or its servers.
    pub(super) fn new(whose: (JobId, Whose), members: Members) -> Exchange {
        Exchange {
            whose,
            members,
            schedule: None,
            parties: IdVec::default(),
            unfinished: 0,
            arrived: Vec::new(),
            own: Vec::new(),
        }
    }

    /// Returns the port of a party: of a rank, or of a switch.
    fn port(&self, party: u32) -> u32 {
        match party.checked_sub(self.members.ranks) {
            None => self.members.gpu(party),
            Some(switch) => SWITCHES - switch,
        }
    }

    /// Returns the party at `port`.
    fn party(&self, port: u32) -> u32 {
        self.members.rank_of(port).unwrap_or_else(|| self.members.ranks + (SWITCHES - port))
    }

    /// Returns whether no collective is in progress.
    pub(super) fn is_over(&self) -> bool {
        self.schedule.is_none()
    }

    /// Cancels the collective in progress.
    pub(super) fn abort(&mut self) {
        self.schedule = None;
        self.arrived.clear();
    }

    /// Begins a collective on all ranks at once; the previous collective must be over.
    pub(super) fn begin(&mut self, around: &mut Around<'_>, schedule: &Arc<Schedule>) {
        let parties = schedule.ranks() + schedule.switches();
        self.parties.clear();
        self.parties.resize(parties, Party { phase: NOWHERE, open: 0 });
        self.unfinished = parties;
        self.schedule = Some(Arc::clone(schedule));
        for id in 0..parties {
            self.enter(around, schedule, id, 0);
        }
        self.settle(around);
    }

    /// Begins a transfer between two ports that belongs to no collective, and returns its message. No collective may be in
    /// progress.
    pub(crate) fn carry(&mut self, around: &mut Around<'_>, hop: Hop) -> MessageId {
        let m = around.messages.add(self.whose, hop);
        self.pay(around, m, Stage::Sending);
        m
    }

    /// Removes a message that belongs to no collective and has arrived, and returns its id, if there is one.
    pub(super) fn take_arrived(&mut self, messages: &mut Messages) -> Option<MessageId> {
        let m = self.arrived.pop()?;
        messages.remove(m);
        Some(m)
    }

    /// Goes on with message `m` after its latency, the work of a core, or the sum at its receiver.
    pub(crate) fn end_delay(&mut self, around: &mut Around<'_>, m: MessageId) {
        match around.messages.get(m).stage {
            Stage::Sending | Stage::Receiving => {
                self.leave_core(around, m);
                self.paid(around, m);
            }
            Stage::Latency | Stage::Bytes => self.after_latency(around, m),
            Stage::Sum => self.arrived.push(m),
        }
        self.settle(around);
    }

    /// Goes on with message `m` after the arrival of its bytes, or after work on cores that it shared or did at varying speed.
    pub(crate) fn end_transfer(&mut self, around: &mut Around<'_>, m: MessageId) {
        match around.messages.get(m).stage {
            Stage::Sending | Stage::Receiving => {
                self.leave_core(around, m);
                self.paid(around, m);
            }
            Stage::Latency | Stage::Bytes | Stage::Sum => self.after_bytes(around, m),
        }
        self.settle(around);
    }

    /// Accounts for all messages that have arrived, and lets their senders and receivers go on.
    fn settle(&mut self, around: &mut Around<'_>) {
        // Messages that are carried one by one belong to no collective.
        let Some(schedule) = self.schedule.take() else { return };
        while let Some(m) = self.arrived.pop() {
            let message = around.messages.remove(m);
            for id in [message.from, message.to].map(|port| self.party(port)) {
                let party = &mut self.parties[PartyId::new(id)];
                party.open -= 1;
                if party.open == 0 {
                    let next = party.phase + 1;
                    self.enter(around, &schedule, id, next);
                }
            }
        }
        if self.unfinished > 0 {
            self.schedule = Some(schedule);
        }
    }

    /// Moves party `id` to the first phase from `phase` on in which it has transfers, and starts the transfers whose other party
    /// has reached that phase too.
    fn enter(&mut self, around: &mut Around<'_>, schedule: &Schedule, id: u32, phase: u64) {
        let mut own = std::mem::take(&mut self.own);
        own.clear();
        let busy = (phase..schedule.phases()).find(|phase| {
            schedule.visit(*phase, id, |hop| own.push(hop));
            !own.is_empty()
        });
        match busy {
            None => self.unfinished -= 1,
            Some(phase) => {
                self.parties[PartyId::new(id)] = Party { phase, open: own.len() as u32 };
                for hop in &own {
                    let other = if hop.from == id { hop.to } else { hop.from };
                    if self.parties[PartyId::new(other)].phase == phase {
                        self.start(around, *hop);
                    }
                }
            }
        }
        self.own = own;
    }

    fn start(&mut self, around: &mut Around<'_>, hop: Hop) -> MessageId {
        self.carry(around, Hop { from: self.port(hop.from), to: self.port(hop.to), ..hop })
    }

    /// Begins the core work of message `m` on its sender's or its receiver's node, if the message needs any.
    fn pay(&mut self, around: &mut Around<'_>, m: MessageId, stage: Stage) {
        let message = around.messages.get(m);
        message.stage = stage;
        let now = around.env.now;
        match around.ways.core_seconds(message) {
            None => self.paid(around, m),
            Some((Cores::Shared(group), seconds)) => {
                around.env.network.start(now, group, seconds, ActivityId::Message(m));
            }
            Some((cores, seconds)) => {
                let (activity, delay) = (ActivityId::Message(m), Delay::once(seconds));
                if let Some(slots) = cores.slots() {
                    around.env.take_core(slots, activity, delay);
                }
            }
        }
    }

    /// Gives the core of message `m`, whose work is done, to the next activity.
    fn leave_core(&mut self, around: &mut Around<'_>, m: MessageId) {
        let message = around.messages.get(m);
        let cores = around.ways.core_seconds(message).and_then(|(cores, _)| cores.slots());
        if let Some((station, _)) = cores {
            let next = around.env.stations[station].queue.leave(around.env.now);
            around.admitted.extend(next);
        }
    }

    /// Continues message `m` after the core work at its sender's or its receiver's node.
    fn paid(&mut self, around: &mut Around<'_>, m: MessageId) {
        let message = *around.messages.get(m);
        match message.stage {
            Stage::Receiving => self.sum(around, m),
            _ if message.is_sent_first() => self.send(around, m),
            _ => self.wait(around, m),
        }
    }

    fn after_latency(&mut self, around: &mut Around<'_>, m: MessageId) {
        match around.messages.get(m).is_sent_first() {
            true => self.pay(around, m, Stage::Receiving),
            false => self.send(around, m),
        }
    }

    fn after_bytes(&mut self, around: &mut Around<'_>, m: MessageId) {
        match around.messages.get(m).is_sent_first() {
            true => self.wait(around, m),
            false => self.pay(around, m, Stage::Receiving),
        }
    }

    /// Begins the latency of message `m`, if there is any.
    fn wait(&mut self, around: &mut Around<'_>, m: MessageId) {
        let message = around.messages.get(m);
        message.stage = Stage::Latency;
        let latency = around.ways.way(&mut around.env.network, message.from, message.to).latency;
        if latency.span.0 == 0 {
            self.after_latency(around, m);
        } else {
            around.env.after(latency, Event::Waited(ActivityId::Message(m)));
        }
    }

    /// Begins the transfer of the bytes of message `m`, if it takes any time.
    fn send(&mut self, around: &mut Around<'_>, m: MessageId) {
        let message = around.messages.get(m);
        message.stage = Stage::Bytes;
        let (from, to, bytes) = (message.from, message.to, message.bytes);
        let way = around.ways.way(&mut around.env.network, from, to);
        match way.group.filter(|_| bytes > 0) {
            None => self.after_bytes(around, m),
            Some(group) => {
                let now = around.env.now;
                around.env.network.start(now, group, bytes as f64, ActivityId::Message(m));
            }
        }
    }

    /// Begins the addition of message `m` to its receiver's own data, if the message is reduced and that takes any time.
    fn sum(&mut self, around: &mut Around<'_>, m: MessageId) {
        let message = around.messages.get(m);
        let seconds = around.ways.sum(message.bytes);
        if !message.reduces || seconds == 0.0 {
            return self.arrived.push(m);
        }
        message.stage = Stage::Sum;
        around.env.after(Delay::once(seconds), Event::Waited(ActivityId::Message(m)));
    }
}

/// What a message belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Whose {
    /// A collective of a communicator.
    Communicator(CommunicatorId),
    /// An exchange with parameter servers.
    Servers(ServersId),
}

/// A transfer of an exchange.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    /// The job copy that sends the message.
    pub(super) job: JobId,
    whose: Whose,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) bytes: u64,
    /// Whether the receiver adds the bytes to its own data.
    pub(super) reduces: bool,
    pub(super) stage: Stage,
}

impl Message {
    /// Returns whether the message uses a core or waits for one.
    pub(super) fn is_on_core(self) -> bool {
        matches!(self.stage, Stage::Sending | Stage::Receiving)
    }

    /// Returns whether the bytes leave before the latency passes.
    pub(super) fn is_sent_first(self) -> bool {
        matches!(self.whose, Whose::Servers(_))
    }

    /// Returns whether the bytes of a message that is sent first have left the links.
    pub(super) fn has_left(self) -> bool {
        !matches!(self.stage, Stage::Sending | Stage::Bytes)
    }
}

/// The next thing that a message waits for. A message of a collective passes through these stages in order: its latency is mostly
/// the work of beginning it. The bytes of a message to or from a parameter server leave first, and arrive a latency later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The message waits for a core of its sender's node, or uses it.
    Sending,
    /// The message waits for its latency to pass.
    Latency,
    /// The bytes of the message are being transferred.
    Bytes,
    /// The message waits for a core of its receiver's node, or uses it.
    Receiving,
    /// The receiver adds the bytes to its own data.
    Sum,
}

/// All messages in progress, of all jobs.
#[derive(Debug, Default)]
pub(super) struct Messages {
    all: Slab<MessageId, Message>,
}

impl Messages {
    /// Adds a message of job copy `job`, and returns its id.
    pub(super) fn add(&mut self, (job, whose): (JobId, Whose), hop: Hop) -> MessageId {
        let Hop { from, to, bytes, kind } = hop;
        let reduces = kind == Kind::Reduce;
        let stage = Stage::Sending;
        let message = Message { job, whose, from, to, bytes, reduces, stage };
        self.all.add(message)
    }

    /// Returns the job copy that message `m` belongs to.
    pub(super) fn job(&self, m: MessageId) -> JobId {
        self.all[m].job
    }

    /// Returns the communicator that message `m` belongs to, if it belongs to one.
    pub(super) fn communicator(&self, m: MessageId) -> Option<CommunicatorId> {
        match self.all[m].whose {
            Whose::Communicator(communicator) => Some(communicator),
            Whose::Servers(_) => None,
        }
    }

    /// Returns the parameter servers whose exchange message `m` belongs to, if it belongs to one.
    pub(super) fn servers(&self, m: MessageId) -> Option<ServersId> {
        match self.all[m].whose {
            Whose::Communicator(_) => None,
            Whose::Servers(servers) => Some(servers),
        }
    }

    pub(super) fn get(&mut self, m: MessageId) -> &mut Message {
        &mut self.all[m]
    }

    /// Removes all messages of job copy `job`.
    pub(super) fn forget(&mut self, job: JobId) {
        self.all.remove_if(|message| message.job == job);
    }

    /// Removes message `m`, which has arrived, and returns it.
    pub(super) fn remove(&mut self, m: MessageId) -> Message {
        self.all.remove(m);
        self.all[m]
    }
}
