//! A station: `c` servers, first come first served (Kendall's ·/·/c).

use std::collections::VecDeque;

use forebay_engine::fluid::GroupId;
use forebay_engine::{Integral, PS_PER_SECOND, Time};
use forebay_model::law::{TokenLaw, TokensTaken};

use super::event::{ActivityId, Delay};
use crate::ids::StationId;

/// `c` identical servers with one queue in order of arrival.
///
/// The station keeps the queue and the accounts. Its owner schedules the end of each service and calls [`Station::leave`]
/// then.
///
/// As long as no customer waits, only the first half of the struct is touched.
#[derive(Debug, Clone)]
#[repr(C)]
pub struct Station<C> {
    servers: u32,
    busy: u32,
    served: u64,
    in_service: Integral,
    in_queue: Integral,
    /// Waiting customers; empty unless all servers are busy.
    waiting: VecDeque<C>,
}

impl<C: Copy> Station<C> {
    /// Returns a station with `servers` servers, all free.
    pub fn new(servers: u32) -> Station<C> {
        Station {
            servers,
            busy: 0,
            served: 0,
            in_service: Integral::default(),
            in_queue: Integral::default(),
            waiting: VecDeque::new(),
        }
    }

    /// Adds an arriving customer; returns true if its service begins now, false if it waits.
    #[inline]
    pub fn arrive(&mut self, now: Time, activity: C) -> bool {
        let free = self.busy < self.servers;
        if free {
            self.busy += 1;
            self.in_service.up(now, 1);
        } else {
            self.waiting.push_back(activity);
            self.in_queue.up(now, 1);
        }
        free
    }

    /// Ends a service; returns the customer whose service begins now, if one waits.
    #[inline]
    pub fn leave(&mut self, now: Time) -> Option<C> {
        debug_assert!(self.busy > 0, "nobody is being served");
        self.served += 1;
        if self.busy == self.servers
            && let Some(next) = self.waiting.pop_front()
        {
            self.in_queue.down(now, 1);
            return Some(next);
        }
        self.busy -= 1;
        self.in_service.down(now, 1);
        None
    }

    /// Removes waiting customers for whom `is` returns true; those in service stay.
    pub fn forget(&mut self, now: Time, is: impl Fn(&C) -> bool) {
        let before = self.waiting.len();
        self.waiting.retain(|activity| !is(activity));
        self.in_queue.down(now, (before - self.waiting.len()) as u64);
    }

    /// Returns the number of servers.
    pub fn servers(&self) -> u32 {
        self.servers
    }

    /// Returns the number of customers served to the end.
    pub fn served(&self) -> u64 {
        self.served
    }

    /// Returns the busy time summed over the servers up to `now` [server·s].
    pub fn busy_seconds(&self, now: Time) -> f64 {
        self.in_service.up_to(now, self.busy.into()) as f64 / PS_PER_SECOND
    }

    /// Returns the integral over time of the number of customers present, waiting or in service, up to `now` [customer·s].
    pub fn present_seconds(&self, now: Time) -> f64 {
        let in_service = self.in_service.up_to(now, self.busy.into());
        let in_queue = self.in_queue.up_to(now, self.waiting.len() as u64);
        (in_service + in_queue) as f64 / PS_PER_SECOND
    }
}

/// A station, and the constant service time of its customers. It occupies one cache line, and a second one that is used only
/// while customers wait.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Service {
    pub(crate) service: Delay,
    pub(crate) queue: Station<Waiting>,
    /// Token bucket that lets customers pass in place of the service time, if there is one.
    tokens: Option<Box<Tokens>>,
}

impl Service {
    /// Returns an idle queueing station that serves each request for the time `service`.
    pub(crate) fn new(queue: Station<Waiting>, service: Delay) -> Service {
        Service { service, queue, tokens: None }
    }

    /// Returns this station with a token bucket.
    pub(crate) fn with_tokens(self, law: Option<TokenLaw>) -> Service {
        let tokens =
            law.map(|law| Box::new(Tokens { law, taken: TokensTaken::default(), emptied: None }));
        Service { tokens, ..self }
    }

    /// Returns the law of the token bucket that lets customers pass; `None` if there is none.
    pub(crate) fn tokens(&self) -> Option<&TokenLaw> {
        self.tokens.as_ref().map(|tokens| &tokens.law)
    }

    /// Returns by how many tokens the bucket holds less at `now` than at the start, and the first time at which a customer had to wait for a
    /// token [s]. `None` without a bucket, and for a gate, which runs empty in each period.
    pub(crate) fn drawn(&self, now: Time) -> Option<(f64, Option<f64>)> {
        let tokens = self.tokens.as_ref().filter(|tokens| tokens.law.period.is_none())?;
        let idle = (now.seconds() - tokens.taken.until).max(0.0);
        let drawn = tokens.taken.beyond - tokens.law.sustained * idle;
        Some((drawn, tokens.emptied))
    }

    /// Returns the entry in the station's queue for an activity that arrives at `now`. Its delay is the service time or, with a token
    /// bucket, the time until the activity gets its token.
    #[inline]
    pub(crate) fn visit(&mut self, now: Time, activity: ActivityId) -> Waiting {
        let delay = match &mut self.tokens {
            None => self.service,
            Some(tokens) => tokens.delay(now, self.service),
        };
        Waiting { activity, delay, pace: None }
    }
}

/// The token bucket of a station.
#[derive(Debug)]
struct Tokens {
    law: TokenLaw,
    taken: TokensTaken,
    /// First time at which a customer waited for a token [s].
    emptied: Option<f64>,
}

impl Tokens {
    /// Takes a token for a customer who arrives at `now`; returns how long the customer waits for it once the earlier customers have
    /// passed. A fault makes `service` longer, and the tokens rarer.
    fn delay(&mut self, now: Time, service: Delay) -> Delay {
        let pace = 1.0 / (self.law.sustained * service.span.seconds());
        let (now, before) = (now.seconds(), self.taken.until);
        let passes = self.law.take(&mut self.taken, now, pace);
        let waits = passes - now.max(before);
        if waits > 1.5 / self.law.fast {
            self.emptied.get_or_insert(now);
        }
        Delay::once(waits)
    }
}

/// How a node's cores are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cores {
    /// All activities share the cores at any time.
    Shared(GroupId),
    /// Each core is a server of a station, and does one activity after the other.
    Fifo(StationId),
    /// The same, but an activity that has a core also needs what the links of the group stand for, such as memory bandwidth. It
    /// keeps its core while it waits for them.
    Paced(StationId, GroupId),
}

impl Cores {
    /// Returns these cores for activities that use the links of `group`, among them the link of the cores.
    pub(crate) fn with(self, group: GroupId) -> Cores {
        match self {
            Cores::Shared(_) => Cores::Shared(group),
            Cores::Fifo(station) | Cores::Paced(station, _) => Cores::Paced(station, group),
        }
    }

    /// Returns the station whose servers are the cores, and the group that an activity with a core also needs, if any; `None`
    /// if activities share the cores.
    pub(crate) fn slots(self) -> Option<(StationId, Option<GroupId>)> {
        match self {
            Cores::Shared(_) => None,
            Cores::Fifo(station) => Some((station, None)),
            Cores::Paced(station, group) => Some((station, Some(group))),
        }
    }
}

/// An activity that waits for a server, and its service time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) activity: ActivityId,
    pub(crate) delay: Delay,
    /// The group over which the service is a flow, if it may take longer than `delay`.
    pub(crate) pace: Option<GroupId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_station_serves_customers_in_order_of_arrival() {
        // System: 2 servers, customers a b c d at once. Expectation: c and d wait, c goes first.
        let mut station = Station::new(2);
        let started: Vec<bool> =
            ['a', 'b', 'c', 'd'].map(|c| station.arrive(Time(0), c)).into_iter().collect();
        assert_eq!(started, [true, true, false, false]);
        assert_eq!(station.leave(Time(10)), Some('c'));
        assert_eq!(station.leave(Time(10)), Some('d'));
        assert_eq!(station.leave(Time(30)), None);
        assert_eq!(station.leave(Time(40)), None);
        assert_eq!(station.served(), 4);
        // A customer that is forgotten is not served.
        let mut other = Station::new(1);
        assert_eq!(['e', 'f', 'g'].map(|c| other.arrive(Time(0), c)), [true, false, false]);
        other.forget(Time(5), |c| *c == 'f' || *c == 'e');
        assert_eq!((other.leave(Time(10)), other.leave(Time(20))), (Some('g'), None));
        // Two servers to 30 ps, one to 40: 70 server·ps; four present to 10, two to 30, one to 40.
        assert!((station.busy_seconds(Time(50)) - 70e-12).abs() < 1e-24);
        assert!((station.present_seconds(Time(50)) - 90e-12).abs() < 1e-24);
    }
}
