//! Links that follow another one's level: one of their groups is held back by that other link, their
//! leader, and leaves the rest to groups that are limited here. Such is each node's NIC where transfers go
//! on beside reads from one server: every change of the server's level changes the rate on all of them.
//!
//! A follower's level is (limit - low · leader's level) ÷ high. Those for which these three numbers are
//! equal rise alike: they are a cohort, which has one clock, and only cohorts are told of the leader's
//! level. The level that a follower itself shows is the one at which it would limit the low group too;
//! until the leader comes there, nobody need hear of it. Whatever else happens at a follower ends that first.

use super::core::Core;
use super::group::UseState;
use super::indexed_heap::NONE;
use super::link::SAME;

/// Most cohorts of one leader: beyond, looking for one takes longer than it spares.
const MOST: usize = 64;

/// Links that follow one leader alike.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cohort {
    /// Capacity [unit/ps].
    limit: f64,
    /// Capacity used per level by the group that the leader limits, and by the others.
    low: f64,
    high: f64,
    clock: u32,
    /// How many there are.
    pub(super) links: u32,
}

impl Cohort {
    /// One that nobody is in.
    pub(super) fn new(limit: f64, low: f64, high: f64) -> Cohort {
        Cohort { limit, low, high, clock: NONE, links: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.links == 0
    }

    fn is_like(&self, other: &Cohort) -> bool {
        (self.limit, self.low, self.high) == (other.limit, other.low, other.high)
    }

    /// The level under that of the leader.
    fn level(&self, leader: f64) -> f64 {
        (self.limit - self.low * leader) / self.high
    }

    /// The level at which both links limit the low group.
    fn highest(&self) -> f64 {
        self.limit / (self.low + self.high)
    }
}

impl<T: Copy> Core<T> {
    /// From now on the link of use `other` follows that of use `at` of the same group; false, with nothing
    /// done, if it must not.
    #[inline]
    pub(super) fn follow(&mut self, at: u32, other: u32) -> bool {
        let (lead, own) = (self.uses[at as usize], self.uses[other as usize]);
        let Some(cohort) = self.cohort(&lead, &own) else { return false };
        let level = self.links[lead.link as usize].level;
        let highest = cohort.highest();
        if highest <= level * (1.0 + SAME) {
            return false;
        }
        let Some(number) = self.place_in(lead.link, cohort) else { return false };
        self.uncouple(at);
        let elsewhere = self.groups[lead.group as usize].ceiling.min(highest);
        let leader = &mut self.links[lead.link as usize];
        leader.edit(lead.member, leader.members[lead.member as usize].load, elsewhere);
        let cohort = &mut leader.cohorts[number as usize];
        cohort.links += 1;
        let (clock, rate) = (cohort.clock, cohort.level(level));
        self.clocks[clock as usize].target = rate;
        let follower = &mut self.links[own.link as usize];
        follower.leader = Some((lead.link, number));
        follower.level = highest;
        self.change_clock(own.link, own.member, clock);
        true
    }

    /// What the link of use `own` would follow that of use `lead` as.
    #[inline]
    fn cohort(&self, lead: &UseState, own: &UseState) -> Option<Cohort> {
        let (g, leader) = (&self.groups[lead.group as usize], &self.links[lead.link as usize]);
        let link = &self.links[own.link as usize];
        let limited = g.home == leader.clock && leader.members[lead.member as usize].high;
        let rides = |of: u32| self.groups[self.uses[of as usize].group as usize].home == link.clock;
        let suits = limited && leader.leader.is_none() && own.coupled != NONE;
        if !suits || g.uses.len() != 2 || g.stale {
            return None;
        }
        link.as_follower(own.member, rides)
    }

    /// The number of a cohort among those of its leader; none if these are too many.
    fn place_in(&mut self, leader: u32, cohort: Cohort) -> Option<u32> {
        let cohorts = &mut self.links[leader as usize].cohorts;
        let known = cohorts.iter().position(|known| known.is_like(&cohort));
        if let Some(place) = known.or(cohorts.iter().position(|known| known.is_empty())) {
            cohorts[place] =
                Cohort { clock: cohorts[place].clock, links: cohorts[place].links, ..cohort };
            return Some(place as u32);
        }
        let place = cohorts.len();
        if place == MOST {
            return None;
        }
        let clock = self.clock(0.0);
        self.links[leader as usize].cohorts.push(Cohort { clock, ..cohort });
        Some(place as u32)
    }

    /// Those who follow a link hear of its level.
    #[inline]
    pub(super) fn lead(&mut self, link: u32) {
        for place in 0..self.links[link as usize].cohorts.len() {
            let leader = &self.links[link as usize];
            let cohort = leader.cohorts[place];
            if !cohort.is_empty() {
                self.clocks[cohort.clock as usize].target = cohort.level(leader.level);
                self.touch_clock(cohort.clock);
            }
        }
    }

    /// The links of a group's route follow none from now on, and are solved again if they did.
    #[inline]
    pub(super) fn part_all(&mut self, group: u32) {
        for at in self.groups[group as usize].uses.clone() {
            self.part(self.uses[at as usize].link);
        }
    }

    /// The link follows no other from now on; it is solved again if it did.
    #[inline]
    pub(super) fn part(&mut self, link: u32) {
        if let Some((leader, number)) = self.links[link as usize].leader.take() {
            self.links[leader as usize].cohorts[number as usize].links -= 1;
            self.go_alone(link);
        }
    }

    fn go_alone(&mut self, link: u32) {
        let l = &mut self.links[link as usize];
        let place = l.stop_following();
        let (low, level, clock) = (l.members[place as usize], l.level, l.own_clock);
        self.clocks[clock as usize].target = level;
        self.change_clock(link, place, clock);
        let elsewhere = self.elsewhere(low.of);
        if self.links[link as usize].edit(place, low.load, elsewhere) {
            self.touch_group(self.uses[low.of as usize].group);
        }
        self.enqueue(link);
        let group = self.uses[low.of as usize].group;
        self.groups[group as usize].uses.clone().for_each(|at| self.couple(at));
    }

    /// All members but the one at a place ride another clock, which is the link's.
    fn change_clock(&mut self, link: u32, but: u32, clock: u32) {
        self.links[link as usize].clock = clock;
        for place in 0..self.links[link as usize].members.len() as u32 {
            if place != but {
                let of = self.links[link as usize].members[place as usize].of;
                self.move_home(self.uses[of as usize].group, clock);
            }
        }
    }
}
