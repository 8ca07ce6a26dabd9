//! The completion of flows that are due.

use super::core::{Core, DONE};
use super::group::FlowRef;
use super::{Finished, FlowId};
use crate::Time;

impl<T: Copy> Core<T> {
    /// Returns the next flow that is done at `now`, in order of start; `None` if all of them have been returned.
    #[inline(always)]
    pub(super) fn finish(&mut self, now: Time) -> Option<Finished<T>> {
        self.reach(now);
        if !self.swept && self.first_due() == now {
            if self.done.is_empty()
                && let Some(only) = self.finish_only()
            {
                return Some(only);
            }
            self.sweep();
        }
        while let Some(&(sequence, slot)) = self.done.get(self.told) {
            self.told += 1;
            if self.told == self.done.len() {
                self.done.clear();
                self.told = 0;
            }
            if self.slots[slot as usize].sequence == sequence {
                return Some(self.vacate_slot(slot));
            }
        }
        None
    }

    /// Returns the flow that is due at `now` if only one flow is due, which is nearly always the case. This avoids
    /// building the lists that `sweep` needs. `None` if several flows may be due; `sweep` then collects them.
    #[inline]
    fn finish_only(&mut self) -> Option<Finished<T>> {
        let Core { now, clocks, groups, slots, dues, .. } = self;
        let clock = dues.only_up_to(*now)?;
        let c = &mut clocks[clock as usize];
        let limit = c.ripe(*now);
        let group = c.entries.only_up_to(limit)?;
        let g = &mut groups[group as usize];
        if g.cancelled > 0 || g.head_on_clock() > limit {
            return None;
        }
        let (key, FlowRef { slot, .. }) = g.flows.pop()?;
        let s = &mut slots[slot as usize];
        g.count_out(*now, key, s.count);
        if g.head_on_clock() <= limit {
            s.key = DONE;
            self.done.push((s.sequence, slot));
            return None;
        }
        self.swept = true;
        if c.touch() {
            self.touched_clocks.push(clock);
        }
        if g.mark() {
            self.dirty.push(group);
        }
        Some(self.vacate_slot(slot))
    }

    /// Frees the slot of a flow that is done; returns what `finish` reports of the flow.
    #[inline]
    fn vacate_slot(&mut self, slot: u32) -> Finished<T> {
        let s = &mut self.slots[slot as usize];
        let flow = FlowId { slot, generation: s.sequence as u32 };
        s.sequence = 0;
        self.free.push(slot);
        Finished { token: s.token, flow, count: s.count }
    }

    /// Collects all flows that are due at `now` in `done`.
    fn sweep(&mut self) {
        self.swept = true;
        let before = self.done.len();
        self.dues.up_to(self.now, &mut self.due_clocks);
        while let Some(clock) = self.due_clocks.pop() {
            self.sweep_clock(clock);
        }
        // A flow that was due may have been cancelled since.
        let progress = self.done.len() > before || self.cancelled_at == self.now;
        assert!(progress, "an instant that was announced finishes a flow");
        if self.done.len() - self.told > 1 {
            self.done[self.told..].sort_unstable_by_key(|flow| flow.0);
        }
    }

    #[inline]
    fn sweep_clock(&mut self, clock: u32) {
        let Core { now, clocks, groups, slots, done, dirty, ripe, touched_clocks, .. } = self;
        let c = &mut clocks[clock as usize];
        let limit = c.ripe(*now);
        c.entries.up_to(limit, ripe);
        if c.touch() {
            touched_clocks.push(clock);
        }
        for &group in ripe.iter() {
            let g = &mut groups[group as usize];
            g.sweep(*now, limit, slots, done);
            if g.mark() {
                dirty.push(group);
            }
        }
        ripe.clear();
    }
}
