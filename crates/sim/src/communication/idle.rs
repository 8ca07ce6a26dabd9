//! Duration of a collective when nothing else is in progress: the collective is simulated on a separate, otherwise idle
//! network.

use std::sync::Arc;

use forebay_collective::Schedule;
use forebay_engine::{self, Calendar, Model, Span, Time};
use forebay_model::random::Streams;
use forebay_scenario::Members;

use super::exchange::{Around, Exchange};
use super::idle_results::Followed;
use super::message::{Messages, Whose};
use super::ways::{RankRoutes, Topology};
use crate::env::Env;
use crate::event::{ActivityId, Event};
use crate::ids::{CommunicatorId, IdVec, Ids, JobId};
use crate::invariant::broken;

struct Idle {
    env: Env,
    messages: Messages,
    ways: RankRoutes,
    /// The exchange of each communicator.
    exchanges: IdVec<CommunicatorId, Exchange>,
    end: Time,
}

/// Returns the time of a collective [s] if all `groups` of ranks do it at the same time, and nothing else uses the links.
pub(crate) fn idle_seconds(ways: &RankRoutes, schedule: &Arc<Schedule>, groups: &[Members]) -> f64 {
    let mut env = nothing();
    let ways = ways.alone(&mut env.network, &mut env.stations);
    let exchanges = exchanges(groups);
    let messages = Messages::default();
    let mut idle = Idle { env, messages, ways, exchanges, end: Time::ZERO };
    idle.run(schedule, Time::NEVER);
    idle.end.seconds()
}

/// Simulates a collective of all ranks of `topology` from time zero to `until`.
pub(super) fn follow(topology: &Topology, schedule: &Arc<Schedule>, until: Time) -> Followed {
    let mut env = nothing();
    let ways = topology.routes(&mut env.network);
    let all = Members::new(0, 1, schedule.ranks());
    let (exchanges, messages) = (exchanges(&[all]), Messages::default());
    let mut idle = Idle { env, messages, ways, exchanges, end: Time::ZERO };
    idle.run(schedule, until);
    let at = if until == Time::NEVER { idle.end } else { until };
    let uses = topology.links().map(|link| idle.env.network.usage(at, link)).collect();
    Followed { takes: Span(idle.end.0), uses }
}

/// Returns an environment in which nothing else runs and no random numbers are sampled.
fn nothing() -> Env {
    Env::new(Streams::new(0, 0))
}

/// Returns an exchange for each of `groups`; all groups belong to one job copy.
fn exchanges(groups: &[Members]) -> IdVec<CommunicatorId, Exchange> {
    let ids = Ids::new(CommunicatorId::new(0), CommunicatorId::new(groups.len() as u32));
    let whose = ids.iter().map(|c| (JobId::default(), Whose::Communicator(c)));
    whose.zip(groups).map(|(whose, members)| Exchange::new(whose, *members)).collect()
}

impl Idle {
    /// Begins all exchanges and runs them up to `until`.
    fn run(&mut self, schedule: &Arc<Schedule>, until: Time) {
        for c in self.exchanges.ids() {
            let begin = |exchange: &mut Exchange, around: &mut Around<'_>| {
                exchange.begin(around, schedule);
            };
            self.act(Some(c), begin);
        }
        forebay_engine::run(self, until);
    }

    fn act(
        &mut self,
        communicator: Option<CommunicatorId>,
        act: impl FnOnce(&mut Exchange, &mut Around<'_>),
    ) {
        let Some(c) = communicator else {
            return broken("every message belongs to a collective");
        };
        let Idle { env, messages, ways, exchanges, end } = self;
        let mut around = Around { env, messages, ways, admitted: Vec::new() };
        act(&mut exchanges[c], &mut around);
        let admitted = around.admitted;
        *end = env.now;
        for next in admitted {
            env.after(next.delay, Event::Waited(next.activity));
        }
    }
}

impl Model for Idle {
    type Event = Event;

    fn calendar(&mut self) -> &mut Calendar<Event> {
        &mut self.env.calendar
    }

    fn pending(&mut self) -> Option<Time> {
        self.env.network.next()
    }

    fn advance(&mut self, now: Time) {
        self.env.now = now;
        while let Some(finished) = self.env.network.finish(now) {
            if let ActivityId::Message(m) = finished.token {
                let communicator = self.messages.communicator(m);
                self.act(communicator, |exchange, around| exchange.moved(around, m));
            }
        }
    }

    fn handle(&mut self, now: Time, event: Event) {
        self.env.now = now;
        if let Event::Waited(ActivityId::Message(m)) = event {
            let communicator = self.messages.communicator(m);
            self.act(communicator, |exchange, around| exchange.waited(around, m));
        }
    }

    fn is_over(&self) -> bool {
        self.exchanges.iter().all(Exchange::is_over)
    }
}
