//! How long a collective takes when nothing else is on its way: it is carried out on a network of its own.

use std::sync::Arc;

use crate::collective::Schedule;
use crate::engine::{self, Calendar, Model, Time};
use crate::fluid::Network;
use crate::sim::event::{Clock, Customer, Event};
use crate::sim::world::Service;

use super::exchange::{Around, Exchange};
use super::message::Messages;
use super::overhead::Slots;
use super::ways::Ways;

struct Idle {
    network: Network<Customer>,
    stations: Vec<Service>,
    messages: Messages,
    ways: Ways,
    exchange: Exchange,
    end: Time,
}

/// Time of a collective between ranks whose links carry nothing else [s].
pub(in crate::sim) fn idle_seconds(ways: &Ways, schedule: &Arc<Schedule>) -> f64 {
    let (mut network, mut stations) = (Network::new(), Vec::new());
    let ways = ways.alone(&mut network, &mut stations);
    let (messages, exchange) = (Messages::default(), Exchange::new(0));
    let mut idle = Idle { network, stations, messages, ways, exchange, end: Time::ZERO };
    let mut calendar = Calendar::new();
    idle.act(Time::ZERO, &mut calendar, |exchange, around| exchange.begin(around, schedule));
    engine::run(&mut idle, &mut calendar, Time::NEVER);
    idle.end.seconds()
}

impl Idle {
    fn act(
        &mut self,
        now: Time,
        calendar: &mut Calendar<Event>,
        act: impl FnOnce(&mut Exchange, &mut Around<'_, '_>),
    ) {
        let Idle { network, stations, messages, ways, exchange, end } = self;
        let (mut clock, slots) = (Clock { now, calendar }, Slots::of(stations));
        let mut around = Around { clock: &mut clock, network, messages, ways, slots };
        act(exchange, &mut around);
        for next in around.slots.admitted {
            clock.after(next.delay, Event::Waited(next.customer));
        }
        *end = now;
    }
}

impl Model for Idle {
    type Event = Event;

    fn pending(&mut self) -> Option<Time> {
        self.network.next()
    }

    fn advance(&mut self, now: Time, calendar: &mut Calendar<Event>) {
        while let Some(finished) = self.network.finish(now) {
            if let Customer::Message(m) = finished.token {
                self.act(now, calendar, |exchange, around| exchange.moved(around, m));
            }
        }
    }

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event>) {
        if let Event::Waited(Customer::Message(m)) = event {
            self.act(now, calendar, |exchange, around| exchange.waited(around, m));
        }
    }

    fn is_over(&self) -> bool {
        self.exchange.is_over()
    }
}
