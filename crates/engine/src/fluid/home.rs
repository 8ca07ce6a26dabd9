//! The home of a group: the clock that limits the group's rate, in whose heap the group waits for its next flow to finish.

use super::core::Core;
use super::indexed_heap::NONE;
use super::link::SAME;

impl<T: Copy> Core<T> {
    /// Moves the group to the heap of the link clock that limits its rate now, ordered there by the group's first flow to finish.
    pub(super) fn rehome(&mut self, group: u32) {
        self.freshen(group);
        let g = &mut self.groups[group as usize];
        g.touched = false;
        if g.settled == 0 {
            return self.retire(group);
        }
        let home = self.limiting_clock(group);
        self.note_ties(group, home);
        if home != self.groups[group as usize].home {
            self.groups[group as usize].head = self.head(group);
            return self.move_home(group, home);
        }
        self.refresh_head(group);
    }

    /// Files the group at its home, if it has one, under its present first flow.
    #[inline]
    pub(super) fn refresh_head(&mut self, group: u32) {
        let head = self.head(group);
        let g = &mut self.groups[group as usize];
        if g.home != NONE && head != g.head {
            g.head = head;
            let home = &mut self.clocks[g.home as usize];
            home.entries.update(&mut self.places, g.entry(group));
            if home.touch() {
                self.touched_clocks.push(g.home);
            }
        }
    }

    /// Returns the clock of the lowest level among the group's ceiling and links; among equal
    /// levels, the clock that the group rides.
    #[inline]
    fn limiting_clock(&self, group: u32) -> u32 {
        let g = &self.groups[group as usize];
        let (mut level, mut clock) = (g.ceiling, g.clock);
        let mut present = if g.home == g.clock { g.ceiling } else { f64::INFINITY };
        for u in &self.uses[g.uses.start as usize..g.uses.end as usize] {
            let link = &self.links[u.link as usize];
            if link.clock == g.home {
                present = link.level;
            }
            if link.level < level {
                (level, clock) = (link.level, link.clock);
            }
        }
        if present.is_finite() && present * (1.0 - SAME) <= level { g.home } else { clock }
    }

    /// Records ties: marks a use of the group as tied, and adds it to its link's list of ties, if
    /// the link limits the group exactly as much as the group's home does. Normally a group rides
    /// the clock of the link where it is high. A tied use is an exception: when one of the two
    /// equal levels changes, the group's home must be found again.
    fn note_ties(&mut self, group: u32, home: u32) {
        for at in self.groups[group as usize].uses.clone() {
            let u = &mut self.uses[at as usize];
            let link = &mut self.links[u.link as usize];
            if link.contended
                && !u.tied
                && link.members[u.member as usize].high != (link.clock == home)
            {
                u.tied = true;
                link.tied.push(at);
            }
        }
    }

    pub(super) fn move_home(&mut self, group: u32, home: u32) {
        let value = self.value(group);
        self.leave_home(group);
        let (now, g) = (self.now, &mut self.groups[group as usize]);
        g.home = home;
        let clock = &mut self.clocks[home as usize];
        clock.restart_if_free(now);
        g.offset = value - clock.at(now);
        clock.entries.insert(&mut self.places, g.entry(group));
        self.touch_clock(home);
    }

    /// Removes a group without active flows from its home; the group's next flow starts at a new
    /// origin.
    pub(super) fn retire(&mut self, group: u32) {
        self.leave_home(group);
        self.head(group);
        let g = &mut self.groups[group as usize];
        assert!(g.flows.is_empty(), "a group without active flows has none");
        g.offset = 0.0;
    }

    fn leave_home(&mut self, group: u32) {
        let home = std::mem::replace(&mut self.groups[group as usize].home, NONE);
        if home != NONE {
            self.clocks[home as usize].entries.remove(&mut self.places, group);
            self.touch_clock(home);
        }
    }
}
