//! The usual changes, done in O(1): more or less flows in a group that was active and still is,
//! where at most one link of its route is contended, nobody changes sides by it, and nobody
//! else must be told.
//!
//! Links that a group has alone are told of such changes only when somebody is to look at them.

use super::core::Core;
use super::group::Path;
use super::riders::NONE;

impl Core {
    /// Takes the simple ones of the groups that started or lost flows.
    #[inline]
    pub(super) fn recount_all(&mut self) {
        while let Some(&group) = self.dirty.last() {
            if !self.recount(group) {
                return;
            }
            self.dirty.pop();
        }
    }

    /// False, with nothing done, if it is not that simple.
    #[inline]
    fn recount(&mut self, group: u32) -> bool {
        let g = &self.groups[group as usize];
        let (before, after) = (g.settled, g.active);
        if before == 0 || after == 0 {
            return false;
        }
        if before != after {
            if !g.path.known {
                self.find_path(group);
            }
            if !self.relimit(group, f64::from(after)) {
                return false;
            }
            let value = self.value(group);
            let g = &mut self.groups[group as usize];
            g.add_up(self.now, value, value);
            g.settled = after;
            g.stale = true;
        }
        self.groups[group as usize].dirty = false;
        self.refresh_head(group);
        true
    }

    /// Finds what limits so many flows of the group, if it is what limits it now.
    #[inline]
    fn relimit(&mut self, group: u32, flows: f64) -> bool {
        let g = &self.groups[group as usize];
        let (home, hub, (beside, clock)) = (g.home, g.path.hub, g.beside(flows));
        if !g.path.plain {
            return false;
        }
        let mut level = beside;
        if hub == NONE {
            if home != clock {
                return false;
            }
        } else {
            let u = &self.uses[hub as usize];
            let link = &mut self.links[u.link as usize];
            let (before, here) = (link.level, link.clock == home);
            if !(here || home == clock) || !link.recount(u.member, u.load * flows, beside, here) {
                return false;
            }
            if here {
                level = link.level;
            } else if link.level != before {
                self.publish(u.link);
            }
        }
        self.clocks[home as usize].target = level;
        self.touch_clock(home);
        true
    }

    fn find_path(&mut self, group: u32) {
        let g = &self.groups[group as usize];
        let mut path = Path { known: true, plain: true, ..Path::UNKNOWN };
        for at in g.uses.clone() {
            let u = &self.uses[at as usize];
            let link = &self.links[u.link as usize];
            path.plain &= link.is_fixed();
            if link.contended {
                path.plain &= path.hub == NONE;
                path.hub = at;
            } else if link.limit / u.load < path.limit / path.load {
                (path.limit, path.load, path.clock) = (link.limit, u.load, link.clock);
            }
        }
        self.groups[group as usize].path = path;
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
