//! The usual changes, done in O(1): more or less flows in a group where at most one link of its
//! route is contended, nobody changes sides by it, and nobody else must be told.
//!
//! Links that a group has alone are told of such changes only when somebody is to look at them.

use super::core::Core;
use super::group::{Path, Route, UseState};
use super::indexed_heap::NONE;

impl<T: Copy> Core<T> {
    /// Takes the simple ones of the groups that started or lost flows.
    #[inline]
    pub(super) fn recheck_all(&mut self) {
        while let Some(group) = self.dirty.pop() {
            if !self.recheck(group) {
                return self.dirty.push(group);
            }
        }
    }

    /// False, with nothing done, if it is not that simple.
    #[inline]
    fn recheck(&mut self, group: u32) -> bool {
        let g = &mut self.groups[group as usize];
        let (before, after) = (g.settled, g.active);
        if before == after {
            g.dirty = false;
            self.refresh_head(group);
            return true;
        }
        if before == 0 {
            return self.enter(group);
        }
        if g.route == Route::Unknown {
            self.find_path(group);
        }
        if after == 0 { self.exit(group) } else { self.readjust(group) }
    }

    /// The group goes on with more or less flows, limited by what limits it now.
    #[inline]
    fn readjust(&mut self, group: u32) -> bool {
        let Core { groups, links, clocks, places, touched_clocks, .. } = self;
        let g = &mut groups[group as usize];
        let flows = f64::from(g.active);
        let (home, hub, (beside, own)) = (g.home, g.path.hub, g.beside(flows));
        if g.route == Route::Other || (hub == NONE && home != own) {
            return false;
        }
        let (mut level, mut moved) = (beside, NONE);
        if hub != NONE {
            let link = &mut links[hub as usize];
            let (before, here) = (link.level, link.clock == home);
            if !(here || home == own)
                || !link.recheck(g.member, g.path.hub_load * flows, beside, here)
            {
                return false;
            }
            if here {
                level = link.level;
            }
            if link.level != before && !(here && link.cohorts.is_empty()) {
                moved = hub;
            }
        }
        let clock = &mut clocks[home as usize];
        clock.target = level;
        g.settled = g.active;
        g.dirty = false;
        g.stale = true;
        if clock.touch() {
            touched_clocks.push(home);
        }
        if g.cancelled > 0 {
            self.refresh_head(group);
        } else {
            g.follow_head(group, clock, places);
        }
        if moved != NONE {
            self.publish(moved);
        }
        true
    }

    /// From now on so many flows are active.
    fn resettle(&mut self, group: u32, flows: u32) {
        let g = &mut self.groups[group as usize];
        g.settled = flows;
        g.dirty = false;
        g.stale = false;
    }

    /// The group has flows again, on links where nobody is or several compete.
    fn enter(&mut self, group: u32) -> bool {
        if !self.knows_path(group) {
            self.find_path(group);
        }
        let g = &self.groups[group as usize];
        let (hub, uses, after) = (g.hub, g.uses.clone(), g.active);
        let (beside, mut home) = g.beside(f64::from(after));
        let links = &self.links;
        let mut through = uses.clone().map(|at| &links[self.uses[at as usize].link as usize]);
        if g.route == Route::Other
            || through.any(|link| !link.contended && !link.members.is_empty())
        {
            return false;
        }
        if hub != NONE {
            let u = &mut self.uses[hub as usize];
            let link = &mut self.links[u.link as usize];
            let (through, before) = (u.link, link.level);
            let Some((place, high)) = link.try_join(hub, u.load * f64::from(after), beside) else {
                return false;
            };
            u.member = place;
            self.groups[group as usize].member = place;
            home = if high { link.clock } else { home };
            if link.level != before {
                self.publish(through);
            }
        }
        self.resettle(group, after);
        self.groups[group as usize].contended = u32::from(hub != NONE);
        for at in uses.filter(|&at| at != hub) {
            self.enter_alone(at, f64::from(after), hub != NONE);
        }
        self.groups[group as usize].head = self.head(group);
        self.move_home(group, home);
        true
    }

    /// The group uses a link where nobody is; a hub must hear of the level there.
    fn enter_alone(&mut self, at: u32, flows: f64, coupled: bool) {
        let u = &mut self.uses[at as usize];
        let link = &mut self.links[u.link as usize];
        let load = u.load * flows;
        u.member = link.join(self.now, at, load, f64::INFINITY);
        link.set_load_alone(u.member, load);
        self.clocks[link.clock as usize].target = link.level;
        if coupled {
            self.couple(at);
        }
    }

    /// The group has no flows any more, and where several compete, several still do.
    fn exit(&mut self, group: u32) -> bool {
        let g = &self.groups[group as usize];
        let (hub, uses, home) = (g.hub, g.uses.clone(), g.home);
        if g.route == Route::Other {
            return false;
        }
        if hub != NONE {
            let u = self.uses[hub as usize];
            let link = &mut self.links[u.link as usize];
            let before = link.level;
            if link.members.len() < 3 || !link.try_leave(u.member, link.clock == home) {
                return false;
            }
            if link.level != before {
                self.publish(u.link);
            }
            self.vacate(hub);
        }
        self.resettle(group, 0);
        self.groups[group as usize].contended = 0;
        for at in uses.filter(|&at| at != hub) {
            let u = self.uses[at as usize];
            self.links[u.link as usize].leave(self.now, u.member);
            self.vacate(at);
            self.uncouple(at);
        }
        self.retire(group);
        true
    }

    /// Whether the path of a group without flows, which nobody tells of changes, is as it was found.
    #[inline]
    fn knows_path(&self, group: u32) -> bool {
        let g = &self.groups[group as usize];
        let turns = |u: &UseState| self.links[u.link as usize].turns;
        let uses = &self.uses[g.uses.start as usize..g.uses.end as usize];
        g.route != Route::Unknown && g.turns == uses.iter().map(turns).sum::<u64>()
    }

    fn find_path(&mut self, group: u32) {
        let g = &self.groups[group as usize];
        let (mut path, mut plain, mut turns, mut hub) = (Path::FREE, true, 0, NONE);
        for at in g.uses.clone() {
            let u = &self.uses[at as usize];
            let link = &self.links[u.link as usize];
            plain &= link.is_fixed();
            turns += link.turns;
            if link.contended {
                plain &= hub == NONE;
                (hub, path.hub, path.hub_load) = (at, u.link, u.load);
            } else if link.limit / u.load < path.limit / path.load {
                (path.limit, path.load, path.clock) = (link.limit, u.load, link.clock);
            }
        }
        let g = &mut self.groups[group as usize];
        g.route = match plain {
            true if path.limit / path.load < g.ceiling => Route::Plain,
            true => Route::Capped,
            false => Route::Other,
        };
        (g.path, g.turns, g.hub) = (path, turns, hub);
        if hub != NONE {
            g.member = self.uses[hub as usize].member;
        }
    }

    /// Tells the links that the group has alone how many flows are active.
    #[inline]
    pub(super) fn freshen(&mut self, group: u32) {
        let g = &mut self.groups[group as usize];
        if !g.stale {
            return;
        }
        g.stale = false;
        for at in g.uses.clone() {
            let u = &self.uses[at as usize];
            let link = &mut self.links[u.link as usize];
            if !link.contended {
                link.set_load_alone(u.member, u.load * f64::from(g.settled));
                self.clocks[link.clock as usize].target = link.level;
            }
        }
    }

    /// Tells all that the members of a link have alone.
    pub(super) fn freshen_members(&mut self, link: u32) {
        for place in 0..self.links[link as usize].members.len() {
            let at = self.links[link as usize].members[place].of;
            self.freshen(self.uses[at as usize].group);
        }
    }
}
