//! Collectives on links that nothing else uses.
//!
//! The max-min rates of transfers on such links depend only on the collective itself, and no other flow depends on these links.
//! So the collective takes the same time whenever it begins. It is simulated once, transfer by transfer, and is a single event
//! from then on. This pays: a model with tensor parallelism inside nodes has tens of thousands of collectives in a step.
//!
//! [`LinkUsers`] finds such links when the world is built, and [`OwnLinks`] replaces the transfers. The use of links that
//! these transfers would have caused is added to the links' use at the end.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_collective::{Collective, Operation, Schedule};
use forebay_engine::Time;
use forebay_engine::fluid::{LinkId, LinkUse, Network};
use forebay_scenario::Members;

use super::communicators::Communicators;
use super::idle::{Followed, IdleCollectives, KnownTopology};
use super::ways::RankRoutes;
use crate::env::{ActivityId, Delay, Env};
use crate::ids::{CommunicatorId, Ids};

/// An operation and the bytes on which it is done [B].
type Key = (Operation, u64);

/// Use of links by transfers that were not simulated as flows of the network.
pub(crate) type LinkUses = BTreeMap<LinkId, LinkUse>;

/// The users of each link.
#[derive(Debug)]
pub(crate) struct LinkUsers {
    by_link: Vec<Users>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Users {
    None,
    /// Only the transfers of one communicator use the link.
    One(CommunicatorId),
    Several,
}

impl LinkUsers {
    /// Returns the users of a network's links before communicators are added: every link with flows is shared.
    pub(crate) fn new(network: &Network<ActivityId>) -> LinkUsers {
        let mut users = LinkUsers { by_link: vec![Users::None; network.links()] };
        network.used_links().for_each(|link| users.share(link));
        users
    }

    /// Marks `link` as shared, because something other than a communicator uses it or changes its capacity.
    pub(crate) fn share(&mut self, link: LinkId) {
        self.by_link[link.index()] = Users::Several;
    }

    /// Adds communicator `communicator` to the users of `link`.
    pub(crate) fn claim(&mut self, link: LinkId, communicator: CommunicatorId) {
        let users = &mut self.by_link[link.index()];
        *users = match *users {
            Users::None => Users::One(communicator),
            Users::One(same) if same == communicator => *users,
            Users::One(_) | Users::Several => Users::Several,
        };
    }

    /// Returns whether `communicator` is the only user of each of `links`.
    pub(crate) fn is_alone(&self, links: &[LinkId], communicator: CommunicatorId) -> bool {
        links.iter().all(|link| self.by_link[link.index()] == Users::One(communicator))
    }
}

/// The collectives of a communicator whose links nothing else uses.
#[derive(Debug)]
pub(super) struct OwnLinks {
    members: Members,
    /// The communicator's ranks and links, once a collective has begun.
    topology: Option<KnownTopology>,
    known: BTreeMap<Key, KnownCollective>,
    /// The collective in progress and its start time.
    current: Option<(Key, Time)>,
}

#[derive(Debug)]
struct KnownCollective {
    collective: Collective,
    schedule: Arc<Schedule>,
    followed: Arc<Followed>,
    /// Number of completed collectives of this kind whose link use has not been added yet.
    over: u32,
}

impl OwnLinks {
    /// Returns the collectives of `members`, none of which has begun.
    pub(super) fn new(members: Members) -> OwnLinks {
        OwnLinks { members, topology: None, known: BTreeMap::new(), current: None }
    }

    /// Begins a collective and returns its duration. `all` returns the collective and its transfers; it is called if this
    /// communicator has not had such a collective before.
    pub(super) fn begin(
        &mut self,
        now: Time,
        key: Key,
        all: impl FnOnce() -> (Collective, Arc<Schedule>),
        (results, ways, network): (&IdleCollectives, &RankRoutes, &Network<ActivityId>),
    ) -> Delay {
        self.current = Some((key, now));
        let OwnLinks { members, topology, known, .. } = self;
        let topology = topology.get_or_insert_with(|| results.topology(members, ways, network));
        let known = known.entry(key).or_insert_with(|| {
            let (collective, schedule) = all();
            let followed = results.follow(topology, (&collective, &schedule), Time::NEVER);
            KnownCollective { collective, schedule, followed, over: 0 }
        });
        Delay { span: known.followed.takes, lane: None }
    }

    /// Ends the collective in progress.
    pub(super) fn end(&mut self) {
        let known = self.current.take().and_then(|(key, _)| self.known.get_mut(&key));
        if let Some(known) = known {
            known.over += 1;
        }
    }

    /// Adds the link use of all collectives up to `now` to `sums`. For a collective in progress, only the use up to `now` is
    /// added, and the collective is dropped.
    fn settle(&mut self, now: Time, results: &IdleCollectives, sums: &mut LinkUses) {
        let Some(topology) = &self.topology else { return };
        for known in self.known.values_mut() {
            let times = f64::from(std::mem::take(&mut known.over));
            add(sums, topology, &known.followed, times);
        }
        let current = self.current.take();
        if let Some((known, since)) =
            current.and_then(|(key, at)| self.known.get(&key).zip(Some(at)))
        {
            let until = Time(now.since(since).0);
            let part = results.follow(topology, (&known.collective, &known.schedule), until);
            add(sums, topology, &part, 1.0);
        }
    }
}

fn add(sums: &mut LinkUses, topology: &KnownTopology, followed: &Followed, times: f64) {
    for (link, one) in topology.links.iter().zip(&followed.uses).filter(|_| times > 0.0) {
        let none = LinkUse { busy: 0.0, served: 0.0, flow_seconds: 0.0 };
        let sum = sums.entry(*link).or_insert(none);
        sum.busy += times * one.busy;
        sum.served += times * one.served;
        sum.flow_seconds += times * one.flow_seconds;
    }
}

impl Communicators {
    /// Lets those of the communicators `of` of a job copy whose links nothing else uses keep these links for themselves.
    pub(crate) fn keep_own_links(&mut self, of: Ids<CommunicatorId>, users: &LinkUsers) {
        for c in of {
            let communicator = &mut self.all[c];
            let Some(ways) = &self.ways[communicator.job()] else { continue };
            let links = ways.links_among(&communicator.members());
            if links.is_some_and(|links| users.is_alone(&links, c)) {
                communicator.keep_own_links();
            }
        }
    }

    /// Adds the link use up to now of those collectives of the communicators `of` whose links nothing else uses.
    pub(crate) fn settle_own_links(&mut self, env: &Env, of: Ids<CommunicatorId>) {
        let Communicators { all, idle, link_uses, .. } = self;
        for c in of {
            if let Some(own) = &mut all[c].own {
                own.settle(env.now, idle, link_uses);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_engine::fluid::{Capacity, Demand, Use};

    #[test]
    fn a_link_used_by_two_communicators_or_a_loader_is_not_exclusive() {
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
