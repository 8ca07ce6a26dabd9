//! Links that follow the level of another link.
//!
//! A follower has one group that another link, its leader, limits; the follower itself limits all its other groups. An
//! example is the NIC of each node if all nodes read from one server while the NICs carry other transfers too: every
//! change of the server's level changes the rate of these transfers on all NICs.
//!
//! A follower's level is (limit - low · leader's level) ÷ high, where low is the load of the group that the leader
//! limits and high is the load of the others. Followers with the same three numbers rise alike: they form a cohort with
//! one clock, and a change of the leader's level is passed on to cohorts only. The level that a follower itself shows
//! is the one at which it would limit the low group too. Until the leader's level reaches this value, no other link
//! needs to know of the follower's level. Before any other change at a follower, the follower stops following.

use super::core::Core;
use super::group::UseState;
use super::indexed_heap::NONE;
use super::link::SAME;

/// Largest number of cohorts of one leader: with more, the search for a cohort takes longer than following saves.
const MOST: usize = 64;

/// Links that follow one leader with equal `limit`, `low` and `high`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cohort {
    /// Capacity [unit/ps].
    limit: f64,
    /// Capacity used per unit of level by the group that the leader limits (`low`), and by all others (`high`).
    low: f64,
    high: f64,
    clock: u32,
    /// Number of links in the cohort.
    pub(super) links: u32,
}

impl Cohort {
    /// Creates a cohort without links.
    pub(super) fn new(limit: f64, low: f64, high: f64) -> Cohort {
        Cohort { limit, low, high, clock: NONE, links: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.links == 0
    }

    fn is_like(&self, other: &Cohort) -> bool {
        (self.limit, self.low, self.high) == (other.limit, other.low, other.high)
    }

    /// Returns the level of the followers, given the leader's level.
    fn level(&self, leader: f64) -> f64 {
        (self.limit - self.low * leader) / self.high
    }

    /// Returns the level at which a follower would limit the low group too.
    fn highest(&self) -> f64 {
        self.limit / (self.low + self.high)
    }
}

impl<T: Copy> Core<T> {
    /// Makes one link of a group's route (use `other`) follow another one (use `at`), so that its level becomes a
    /// function of the other link's level. Returns false, with nothing changed, if the link cannot follow.
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

    /// Returns the cohort in which the link of use `own` could follow the link of use `lead`; `None` if it cannot.
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

    /// Returns the number of the leader's cohort with the `limit`, `low` and `high` of `cohort`; adds the cohort if
    /// there is none. `None` if the leader has too many cohorts.
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

    /// Updates the clocks of the links that follow `link` to its present level.
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

    /// Makes each link of a group's route stop following its leader; a link that had a leader is solved again.
    #[inline]
    pub(super) fn part_all(&mut self, group: u32) {
        for at in self.groups[group as usize].uses.clone() {
            self.part(self.uses[at as usize].link);
        }
    }

    /// Makes a link stop following its leader; the link is solved again if it had a leader.
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

    /// Makes `clock` the link's clock, and moves the groups of all members there, except the member at place `but`.
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
