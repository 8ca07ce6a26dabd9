//! A collective in progress: its transfers start as their senders and receivers get to them.

use std::sync::Arc;

use crate::env::Env;
use crate::event::{ActivityId, Delay, Event};
use crate::index::{CommunicatorId, JobId, MessageId};
use crate::worker::{Cores, Waiting};
use forebay_collective::{Hop, Schedule};
use forebay_scenario::Members;

use super::message::{Messages, Stage};
use super::ways::RankRoutes;

/// Not at any phase yet.
const NOWHERE: u64 = u64::MAX;

/// From here on down: switches, by their number.
const SWITCHES: u32 = u32::MAX;

/// A collective of some ranks of a job copy, and the rules of [`forebay_collective`]: a transfer of phase p
/// starts when its sender and its receiver have finished all their own transfers of earlier phases.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The job copy and its group.
    whose: (JobId, Option<CommunicatorId>),
    /// Its ranks among the ports of the ways.
    members: Members,
    schedule: Option<Arc<Schedule>>,
    /// By rank, then switch: the phase that it is at, and its own transfers there that are open.
    parties: Vec<Party>,
    /// Parties that have transfers left.
    unfinished: u32,
    /// Transfers that have arrived at this instant, and were not accounted for.
    arrived: Vec<MessageId>,
    /// Scratch space for the transfers of a party.
    own: Vec<Hop>,
}

#[derive(Debug, Clone, Copy)]
struct Party {
    phase: u64,
    open: u32,
}

/// What a step of an exchange needs of the world.
pub(super) struct Around<'a> {
    pub(super) env: &'a mut Env,
    pub(super) messages: &'a mut Messages,
    pub(super) ways: &'a mut RankRoutes,
    /// Who got a core that a message left.
    pub(super) admitted: Vec<Waiting>,
}

impl Exchange {
    /// None yet, of group `group` of job copy `job`.
    pub(super) fn new(whose: (JobId, Option<CommunicatorId>), members: Members) -> Exchange {
        Exchange {
            whose,
            members,
            schedule: None,
            parties: Vec::new(),
            unfinished: 0,
            arrived: Vec::new(),
            own: Vec::new(),
        }
    }

    /// Which port a party of a schedule has.
    fn port(&self, party: u32) -> u32 {
        match party.checked_sub(self.members.ranks) {
            None => self.members.gpu(party),
            Some(switch) => SWITCHES - switch,
        }
    }

    /// The party that has a port.
    fn party(&self, port: u32) -> u32 {
        self.members.rank_of(port).unwrap_or_else(|| self.members.ranks + (SWITCHES - port))
    }

    /// Whether nothing is on its way.
    pub(super) fn is_over(&self) -> bool {
        self.schedule.is_none()
    }

    /// Nothing is on its way any more.
    pub(super) fn abort(&mut self) {
        self.schedule = None;
        self.arrived.clear();
    }

    /// Begins a collective, all ranks at once; the one before must be over.
    pub(super) fn begin(&mut self, around: &mut Around<'_>, schedule: &Arc<Schedule>) {
        let parties = schedule.ranks() + schedule.switches();
        self.parties.clear();
        self.parties.resize(parties as usize, Party { phase: NOWHERE, open: 0 });
        self.unfinished = parties;
        self.schedule = Some(Arc::clone(schedule));
        for id in 0..parties {
            self.enter(around, schedule, id, 0);
        }
        self.settle(around);
    }

    /// Begins a transfer that belongs to no collective; its message. Nothing of a collective may be on its way.
    pub(super) fn carry(&mut self, around: &mut Around<'_>, hop: Hop) -> MessageId {
        self.start(around, hop)
    }

    /// Such a transfer that has arrived, if one has; its message is no more.
    pub(super) fn take_arrived(&mut self, messages: &mut Messages) -> Option<MessageId> {
        let m = self.arrived.pop()?;
        messages.remove(m);
        Some(m)
    }

    /// Message `m` has waited for its latency, a core has done its work, or its receiver has its sum.
    pub(super) fn waited(&mut self, around: &mut Around<'_>, m: MessageId) {
        match around.messages.get(m).stage {
            Stage::Sending | Stage::Receiving => {
                self.leave_core(around, m);
                self.paid(around, m);
            }
            Stage::Latency | Stage::Bytes => self.send(around, m),
            Stage::Sum => self.arrived.push(m),
        }
        self.settle(around);
    }

    /// The bytes of message `m` are there, or shared cores have done its work.
    pub(super) fn moved(&mut self, around: &mut Around<'_>, m: MessageId) {
        match around.messages.get(m).stage {
            Stage::Sending | Stage::Receiving => self.paid(around, m),
            Stage::Latency | Stage::Bytes | Stage::Sum => self.pay(around, m, Stage::Receiving),
        }
        self.settle(around);
    }

    /// Lets everyone go on whose transfers have arrived.
    fn settle(&mut self, around: &mut Around<'_>) {
        let Some(schedule) = self.schedule.take() else { return };
        while let Some(m) = self.arrived.pop() {
            let message = around.messages.remove(m);
            for id in [message.from, message.to].map(|port| self.party(port)) {
                let party = &mut self.parties[id as usize];
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

    /// Party `id` gets to the first phase from `phase` on in which it has transfers.
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
                self.parties[id as usize] = Party { phase, open: own.len() as u32 };
                for hop in &own {
                    let other = if hop.from == id { hop.to } else { hop.from };
                    if self.parties[other as usize].phase == phase {
                        self.start(around, *hop);
                    }
                }
            }
        }
        self.own = own;
    }

    fn start(&mut self, around: &mut Around<'_>, hop: Hop) -> MessageId {
        let hop = Hop { from: self.port(hop.from), to: self.port(hop.to), ..hop };
        let m = around.messages.add(self.whose, hop);
        self.pay(around, m, Stage::Sending);
        m
    }

    /// Message `m` needs a core of its sender's or its receiver's node, if it costs them any time.
    fn pay(&mut self, around: &mut Around<'_>, m: MessageId, stage: Stage) {
        let message = around.messages.get(m);
        message.stage = stage;
        let now = around.env.now;
        match around.ways.core_seconds(message) {
            None => self.paid(around, m),
            Some((Cores::Shared(group), seconds)) => {
                around.env.network.start(now, group, seconds, ActivityId::Message(m));
            }
            Some((Cores::Fifo(station), seconds)) => {
                let (activity, delay) = (ActivityId::Message(m), Delay::once(seconds));
                if around.env.stations[station].queue.arrive(now, Waiting { activity, delay }) {
                    around.env.after(delay, Event::Waited(activity));
                }
            }
        }
    }

    /// Message `m`, whose work is done, leaves its core to the next.
    fn leave_core(&mut self, around: &mut Around<'_>, m: MessageId) {
        let message = around.messages.get(m);
        if let Some((Cores::Fifo(station), _)) = around.ways.core_seconds(message) {
            let next = around.env.stations[station].queue.leave(around.env.now);
            around.admitted.extend(next);
        }
    }

    /// Cores have done what message `m` needs of them at one of its ends.
    fn paid(&mut self, around: &mut Around<'_>, m: MessageId) {
        match around.messages.get(m).stage {
            Stage::Receiving => self.sum(around, m),
            _ => self.wait(around, m),
        }
    }

    /// Message `m` waits for its latency, if there is any.
    fn wait(&mut self, around: &mut Around<'_>, m: MessageId) {
        let message = around.messages.get(m);
        message.stage = Stage::Latency;
        let latency = around.ways.way(&mut around.env.network, message.from, message.to).latency;
        if latency.span.0 == 0 {
            self.send(around, m);
        } else {
            around.env.after(latency, Event::Waited(ActivityId::Message(m)));
        }
    }

    /// The bytes of message `m` begin to flow, if they need any time.
    fn send(&mut self, around: &mut Around<'_>, m: MessageId) {
        let message = around.messages.get(m);
        message.stage = Stage::Bytes;
        let (from, to, bytes) = (message.from, message.to, message.bytes);
        let way = around.ways.way(&mut around.env.network, from, to);
        match way.group.filter(|_| bytes > 0) {
            None => self.pay(around, m, Stage::Receiving),
            Some(group) => {
                let now = around.env.now;
                around.env.network.start(now, group, bytes as f64, ActivityId::Message(m));
            }
        }
    }

    /// The receiver of message `m` adds it to its own, if that needs any time.
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
