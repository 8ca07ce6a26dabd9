//! The usual changes of the number of flows in a group, done in O(1). They apply if at most one
//! link of the group's route is contended, no group begins or ceases to be limited by that link,
//! and no other link must be updated to a new level.
//!
//! An uncontended link of the route is updated only when its level is needed; until then the group
//! is stale.

use super::core::Core;
use super::group::{Path, Route, UseState};
use super::indexed_heap::NONE;

impl<T: Copy> Core<T> {
    /// Handles the groups in `dirty` whose change is simple, up to the first one whose change is
    /// not.
    #[inline]
    pub(super) fn recheck_all(&mut self) {
        while let Some(group) = self.dirty.pop() {
            if !self.recheck(group) {
                return self.dirty.push(group);
            }
        }
    }

    /// Handles the change of one group; returns false, with nothing changed, if the change is not
    /// simple.
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

    /// Changes the number of flows of a group that stays active, if the same link or cap limits it
    /// as before. Otherwise returns false, with nothing changed.
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

    /// Records that the links of the group's route now calculate with `flows` active flows.
    fn resettle(&mut self, group: u32, flows: u32) {
        let g = &mut self.groups[group as usize];
        g.settled = flows;
        g.dirty = false;
        g.stale = false;
    }

    /// Makes a group active, on links that are either empty or contended. Returns false, with
    /// nothing changed, if the change is not simple.
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

    /// Makes a group the first member of a link that was empty. `coupled` says whether the group's
    /// route has a hub (a contended link), to which the level of this link must be passed on.
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

    /// Makes a group inactive after its last flow has ended, if the hub, the contended link of its
    /// route, stays contended. Returns false, with nothing changed, if the change is not simple.
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

    /// Whether the path of an inactive group is still valid. Links do not notify an inactive group
    /// when they become or cease to be contended, so the counts of these changes are compared.
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

    /// Updates the uncontended links of a stale group's route to its number of active flows.
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

    /// Calls `freshen` for the group of each member of a link.
    pub(super) fn freshen_members(&mut self, link: u32) {
        for place in 0..self.links[link as usize].members.len() {
            let at = self.links[link as usize].members[place].of;
            self.freshen(self.uses[at as usize].group);
        }
    }
}
