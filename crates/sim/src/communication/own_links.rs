//! Collectives on links that nothing else uses.
//!
//! Max-min shares on such links depend on nothing but the collective itself, and its links hold nothing else up: it takes
//! the same time whenever it begins. So it is followed once, transfer by transfer, and is one event from then on: a
//! model whose layers are split over the GPUs of a node adds results up tens of thousands of times in a step.
//!
//! [`LinkUsers`] finds such links when the world is built, [`OwnLinks`] replaces the transfers, and what they would have
//! done to their links is added to these at the end.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Communicators;
use super::communicator::CommunicatorRun;
use crate::env::Env;
use crate::event::{ActivityId, Delay};
use crate::index::{CommunicatorId, Ids, JobId};
use forebay_collective::{Operation, Schedule};
use forebay_engine::fluid::{LinkId, LinkUse, Network};
use forebay_engine::{Span, Time};
use forebay_scenario::Members;

use super::idle::follow;
use super::ways::RankRoutes;

/// What is done, with how many bytes.
type Key = (Operation, u64);

/// What links did beside the flows of the network.
pub(crate) type LinkUses = BTreeMap<LinkId, LinkUse>;

/// Who uses each link.
#[derive(Debug)]
pub(crate) struct LinkUsers {
    by_link: Vec<Users>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Users {
    None,
    /// The transfers of one communicator.
    One(CommunicatorId),
    Several,
}

impl LinkUsers {
    /// Of a network, whose flows so far are of others than communicators.
    pub(crate) fn new(network: &Network<ActivityId>) -> LinkUsers {
        let mut users = LinkUsers { by_link: vec![Users::None; network.links()] };
        network.used_links().for_each(|link| users.share(link));
        users
    }

    /// Something else than a communicator uses `link`, or changes what it carries.
    pub(crate) fn share(&mut self, link: LinkId) {
        self.by_link[link.index()] = Users::Several;
    }

    /// Communicator number `communicator` uses `link`.
    pub(crate) fn claim(&mut self, link: LinkId, communicator: CommunicatorId) {
        let users = &mut self.by_link[link.index()];
        *users = match *users {
            Users::None => Users::One(communicator),
            Users::One(same) if same == communicator => *users,
            Users::One(_) | Users::Several => Users::Several,
        };
    }

    /// Whether that communicator alone uses all of these.
    pub(crate) fn is_alone(&self, links: &[LinkId], communicator: CommunicatorId) -> bool {
        links.iter().all(|link| self.by_link[link.index()] == Users::One(communicator))
    }
}

/// A collective that was followed on an idle network.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) takes: Span,
    /// What each of its links did meanwhile.
    pub(super) uses: Vec<(LinkId, LinkUse)>,
}

/// The collectives of ranks whose links nothing else uses.
#[derive(Debug)]
pub(crate) struct OwnLinks {
    members: Members,
    known: BTreeMap<Key, KnownSchedule>,
    /// The one that has begun and is not over, and since when.
    current: Option<(Key, Time)>,
}

#[derive(Debug)]
struct KnownSchedule {
    schedule: Arc<Schedule>,
    followed: Followed,
    /// How many are over whose use was not added to that of links.
    over: u32,
}

impl OwnLinks {
    /// Of these ranks.
    pub(crate) fn new(members: Members) -> OwnLinks {
        OwnLinks { members, known: BTreeMap::new(), current: None }
    }

    /// A collective begins; how long it takes.
    pub(super) fn begin(
        &mut self,
        now: Time,
        key: Key,
        schedule: &Arc<Schedule>,
        (ways, network): (&RankRoutes, &Network<ActivityId>),
    ) -> Delay {
        self.current = Some((key, now));
        let known = self.known.entry(key).or_insert_with(|| KnownSchedule {
            schedule: Arc::clone(schedule),
            followed: follow(ways, network, &self.members, schedule, Time::NEVER),
            over: 0,
        });
        Delay { span: known.followed.takes, lane: None }
    }

    /// The one that has begun is over.
    pub(super) fn end(&mut self) {
        let known = self.current.take().and_then(|(key, _)| self.known.get_mut(&key));
        if let Some(known) = known {
            known.over += 1;
        }
    }

    /// Adds what was done up to `now`; the one that has begun is over, or aborted.
    fn settle(
        &mut self,
        now: Time,
        ways: &RankRoutes,
        network: &Network<ActivityId>,
        sums: &mut LinkUses,
    ) {
        for known in self.known.values_mut() {
            let times = f64::from(std::mem::take(&mut known.over));
            add(sums, &known.followed.uses, times);
        }
        let current = self.current.take();
        if let Some((known, since)) =
            current.and_then(|(key, at)| self.known.get(&key).zip(Some(at)))
        {
            let until = Time(now.since(since).0);
            let part = follow(ways, network, &self.members, &known.schedule, until);
            add(sums, &part.uses, 1.0);
        }
    }
}

fn add(sums: &mut LinkUses, uses: &[(LinkId, LinkUse)], times: f64) {
    for (link, one) in uses.iter().filter(|_| times > 0.0) {
        let none = LinkUse { busy: 0.0, served: 0.0, flow_seconds: 0.0 };
        let sum = sums.entry(*link).or_insert(none);
        sum.busy += times * one.busy;
        sum.served += times * one.served;
        sum.flow_seconds += times * one.flow_seconds;
    }
}

impl Communicators {
    /// Adds to the links of job copy `j`, whose communicators these are, what collectives on links of their own did until now.
    pub(crate) fn settle_own_links(&mut self, env: &Env, j: JobId, of: Ids<CommunicatorRun>) {
        let Communicators { all, ways, link_uses, .. } = self;
        let Some(ways) = &ways[j] else { return };
        for c in of {
            if let Some(own) = &mut all[c].own {
                own.settle(env.now, ways, &env.network, link_uses);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_engine::fluid::{Capacity, Demand, Use};

    #[test]
    fn a_link_of_two_communicators_is_nobodys_own() {
        let mut network: Network<ActivityId> = Network::new();
        let links = [(); 3].map(|()| network.link(Capacity::Fixed(1.0)));
        let route = [Use { link: links[2], per_unit: 1.0 }].into();
        network.group(Demand { route, weight: 1.0, cap: f64::INFINITY });
        let mut users = LinkUsers::new(&network);
        users.claim(links[0], CommunicatorId::new(7));
        users.claim(links[0], CommunicatorId::new(7));
        users.claim(links[1], CommunicatorId::new(7));
        assert!(users.is_alone(&links[..2], CommunicatorId::new(7)));
        assert!(!users.is_alone(&links[..2], CommunicatorId::new(8)));
        users.claim(links[1], CommunicatorId::new(8));
        assert!(
            users.is_alone(&links[..1], CommunicatorId::new(7))
                && !users.is_alone(&links[..2], CommunicatorId::new(7))
        );
        users.claim(links[2], CommunicatorId::new(7));
        assert!(!users.is_alone(&links[2..], CommunicatorId::new(7)), "a loader reads through it");
    }
}
