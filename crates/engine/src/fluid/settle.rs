//! Finds the levels of links again after a change, for those links whose level the change can
//! affect.
//!
//! If the level of a link changes, its groups may reach another level there. For the other links of
//! a group's route, this is the level that the group reaches elsewhere. Each of these links is
//! solved again if the level reached elsewhere was below the link's own level before the change, or
//! is below it now. The state in which nothing changes any more is max-min fair, because every
//! group is at its ceiling or at a full link where no other group has a higher level (Charny, Clark
//! and Jain, "Congestion control with explicit rate indication", ICC 1995).

use super::Capacity;
use super::core::Core;
use super::group::Route;
use super::indexed_heap::NONE;

impl<T: Copy> Core<T> {
    /// Brings levels, clocks and due instants up to date after all changes since the last call.
    pub(super) fn settle(&mut self) {
        self.swept = false;
        if self.queue.is_empty() {
            self.recheck_all();
        }
        if self.unsettled() {
            self.solve();
        }
        while let Some(clock) = self.touched_clocks.pop() {
            self.refresh_clock(clock);
        }
    }

    /// Handles all changes that the fast paths have left.
    #[inline(never)]
    fn solve(&mut self) {
        while let Some(group) = self.dirty.pop() {
            self.apply(group);
        }
        self.relevel_queued();
        while let Some(group) = self.touched_groups.pop() {
            self.rehome(group);
        }
    }

    #[inline]
    pub(super) fn touch_group(&mut self, group: u32) {
        let g = &mut self.groups[group as usize];
        if !g.touched {
            g.touched = true;
            self.touched_groups.push(group);
        }
    }

    #[inline]
    pub(super) fn touch_clock(&mut self, clock: u32) {
        if self.clocks[clock as usize].touch() {
            self.touched_clocks.push(clock);
        }
    }

    #[inline]
    pub(super) fn enqueue(&mut self, link: u32) {
        let l = &mut self.links[link as usize];
        if !l.queued {
            l.queued = true;
            self.queue.push(link);
        }
    }

    pub(super) fn set_capacity(&mut self, link: u32, capacity: Capacity) {
        self.part(link);
        self.freshen_members(link);
        let mut flows = 0;
        for &(group, _) in &self.links[link as usize].users {
            let g = &mut self.groups[group as usize];
            g.route = Route::Unknown;
            flows += u64::from(g.settled);
        }
        self.links[link as usize].set_capacity(capacity, flows);
        self.enqueue(link);
        self.contend(link);
        if let [only] = self.links[link as usize].members[..] {
            self.touch_group(self.uses[only.of as usize].group);
        }
    }

    /// Updates the links of the group's route to its number of active flows.
    #[inline]
    fn apply(&mut self, group: u32) {
        let g = &mut self.groups[group as usize];
        g.dirty = false;
        let (before, after) = (g.settled, g.active);
        if before == after {
            return self.refresh_head(group);
        }
        self.part_all(group);
        self.freshen(group);
        let g = &mut self.groups[group as usize];
        g.settled = after;
        if before > 0 && after > 0 {
            self.reload(group, before, after);
            return self.refresh_head(group);
        }
        self.touch_group(group);
        let uses = self.groups[group as usize].uses.clone();
        for at in uses.clone() {
            let link = self.uses[at as usize].link;
            if !self.links[link as usize].contended {
                self.freshen_members(link);
            }
        }
        for at in uses {
            let u = self.uses[at as usize];
            self.links[u.link as usize].count(before, after);
            if before == 0 {
                self.join(at, u.load * f64::from(after));
            } else {
                self.leave(at);
            }
            self.enqueue(u.link);
        }
    }

    /// Changes the number of flows on links where the group is a member already. The links that it
    /// has alone come first, because they decide which level the group reaches elsewhere.
    #[inline]
    fn reload(&mut self, group: u32, before: u32, after: u32) {
        let flows = f64::from(after);
        let g = &self.groups[group as usize];
        let (uses, home, contended) = (g.uses.clone(), g.home, g.contended > 0);
        for at in uses.clone() {
            let u = &self.uses[at as usize];
            let link = &mut self.links[u.link as usize];
            link.count(before, after);
            if !link.contended {
                link.set_load_alone(u.member, u.load * flows);
                self.publish(u.link);
            }
        }
        let mut settled = false;
        for at in uses.filter(|_| contended) {
            let u = self.uses[at as usize];
            if self.links[u.link as usize].contended {
                let elsewhere = self.elsewhere(at);
                let link = &mut self.links[u.link as usize];
                let high = link.edit(u.member, u.load * flows, elsewhere);
                settled |= high && link.clock == home;
                self.enqueue(u.link);
            }
        }
        // A group that is high on the link of its home stays there, unless solving shows that it
        // changed sides.
        if !settled {
            self.touch_group(group);
        }
    }

    fn join(&mut self, at: u32, load: f64) {
        let (u, elsewhere) = (self.uses[at as usize], self.elsewhere(at));
        let link = &mut self.links[u.link as usize];
        self.uses[at as usize].member = link.join(self.now, at, load, elsewhere);
        self.groups[u.group as usize].contended += u32::from(link.contended);
        self.contend(u.link);
        self.recouple(u.group);
    }

    fn leave(&mut self, at: u32) {
        let u = self.uses[at as usize];
        let link = &mut self.links[u.link as usize];
        link.leave(self.now, u.member);
        self.groups[u.group as usize].contended -= u32::from(link.contended);
        self.vacate(at);
        self.recouple(u.group);
        self.contend(u.link);
    }

    /// Updates the recorded places after the member of use `at` has left its link: the link's last
    /// member has moved to the free place.
    #[inline]
    pub(super) fn vacate(&mut self, at: u32) {
        let u = &mut self.uses[at as usize];
        let (place, link) = (std::mem::replace(&mut u.member, NONE), u.link);
        if let Some(moved) = self.links[link as usize].members.get(place as usize) {
            let u = &mut self.uses[moved.of as usize];
            u.member = place;
            let g = &mut self.groups[u.group as usize];
            if g.hub == moved.of {
                g.member = place;
            }
        }
    }

    /// Updates whether groups compete at the link. If they do, the level that each member reaches
    /// elsewhere must be up to date; it is not kept for a member without competitors.
    fn contend(&mut self, link: u32) {
        let l = &self.links[link as usize];
        let contended = l.members.len() > 1 && l.limit.is_finite();
        if contended == l.contended {
            return;
        }
        self.freshen_members(link);
        let l = &mut self.links[link as usize];
        l.contended = contended;
        l.turns += 1;
        l.forget_sums();
        for place in 0..self.links[link as usize].members.len() {
            let at = self.links[link as usize].members[place].of;
            let group = self.uses[at as usize].group;
            let g = &mut self.groups[group as usize];
            g.contended = if contended { g.contended + 1 } else { g.contended - 1 };
            self.touch_group(group);
            self.recouple(group);
            self.refresh_member(at);
        }
    }

    /// Updates the links' lists of coupled uses: each use of the group is in the list of its link
    /// if the group has another contended link, and only then.
    fn recouple(&mut self, group: u32) {
        self.part_all(group);
        let g = &mut self.groups[group as usize];
        g.route = Route::Unknown;
        let contended = g.contended;
        for at in g.uses.clone() {
            let u = &self.uses[at as usize];
            let link = &self.links[u.link as usize];
            let elsewhere = contended > u32::from(link.contended && u.member != NONE);
            if elsewhere && u.member != NONE {
                self.couple(at);
            } else {
                self.uncouple(at);
            }
        }
    }

    #[inline]
    pub(super) fn couple(&mut self, at: u32) {
        let u = &mut self.uses[at as usize];
        if u.coupled == NONE {
            let coupled = &mut self.links[u.link as usize].coupled;
            u.coupled = coupled.len() as u32;
            coupled.push(at);
        }
    }

    #[inline]
    pub(super) fn uncouple(&mut self, at: u32) {
        let u = &mut self.uses[at as usize];
        if u.coupled != NONE {
            let place = std::mem::replace(&mut u.coupled, NONE);
            let coupled = &mut self.links[u.link as usize].coupled;
            coupled.swap_remove(place as usize);
            if let Some(&moved) = coupled.get(place as usize) {
                self.uses[moved as usize].coupled = place;
            }
        }
    }

    /// Returns the level that the group of use `at` reaches on the rest of its route.
    #[inline]
    pub(super) fn elsewhere(&self, at: u32) -> f64 {
        let link = self.uses[at as usize].link;
        let g = &self.groups[self.uses[at as usize].group as usize];
        let level = |at: u32| self.links[self.uses[at as usize].link as usize].level;
        if g.uses.len() == 2 {
            // By far the most common route.
            return g.ceiling.min(level(g.uses.start + g.uses.end - 1 - at));
        }
        let mut least = g.ceiling;
        for u in &self.uses[g.uses.start as usize..g.uses.end as usize] {
            let level = self.links[u.link as usize].level;
            if u.link != link && level < least {
                least = level;
            }
        }
        least
    }

    /// Updates the level that the member of use `at` reaches elsewhere, and queues the member's link to
    /// be solved again.
    #[inline]
    fn refresh_member(&mut self, at: u32) {
        let u = self.uses[at as usize];
        self.part(u.link);
        self.freshen(u.group);
        let elsewhere = self.elsewhere(at);
        let link = &mut self.links[u.link as usize];
        let old = link.members[u.member as usize];
        if old.elsewhere == elsewhere {
            return;
        }
        let high = link.edit(u.member, old.load, elsewhere);
        let rides = self.groups[u.group as usize].home == link.clock;
        self.enqueue(u.link);
        if high != rides {
            self.touch_group(u.group);
        }
    }

    fn relevel_queued(&mut self) {
        self.settlings += 1;
        let mut next = 0;
        while let Some(&link) = self.queue.get(next) {
            next += 1;
            let l = &mut self.links[link as usize];
            l.queued = false;
            if l.visit(self.settlings) > self.patience {
                self.queue.drain(..next);
                return self.fill(link);
            }
            self.relevel(link);
        }
        self.queue.clear();
    }

    #[inline]
    fn relevel(&mut self, link: u32) {
        let l = &mut self.links[link as usize];
        let changed = l.relevel(&mut self.crossed);
        while let Some(at) = self.crossed.pop() {
            let group = self.uses[at as usize].group;
            self.part_all(group);
            self.touch_group(group);
        }
        if changed {
            while let Some(at) = self.links[link as usize].tied.pop() {
                self.uses[at as usize].tied = false;
                self.touch_group(self.uses[at as usize].group);
            }
            self.publish(link);
            self.propagate(link);
        }
    }

    /// Makes the link's level the target of its clock, and updates the clocks of the links that
    /// follow it.
    #[inline]
    pub(super) fn publish(&mut self, link: u32) {
        let l = &self.links[link as usize];
        let clock = l.clock;
        let c = &mut self.clocks[clock as usize];
        c.target = l.level;
        if !c.entries.is_empty() {
            self.touch_clock(clock);
        }
        self.lead(link);
    }

    /// Passes the link's level on to the other contended links of its members' routes.
    #[inline]
    fn propagate(&mut self, link: u32) {
        let mut place = 0;
        while let Some(&at) = self.links[link as usize].coupled.get(place) {
            let group = self.uses[at as usize].group;
            place += 1;
            for other in self.groups[group as usize].uses.clone() {
                let through = self.uses[other as usize].link;
                if other == at || !self.links[through as usize].contended {
                    continue;
                }
                if self.follow(at, other) {
                    // The use has left the list, and the last one has its place now.
                    place -= 1;
                } else {
                    self.refresh_member(other);
                }
            }
        }
    }

    fn refresh_clock(&mut self, clock: u32) {
        let due = self.clocks[clock as usize].refresh(self.now);
        self.set_due(clock, due);
    }
}
