//! Computes the level of a link from its members.

use super::{Link, Member, SAME};

/// Sums over the members of one side.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side {
    pub(super) count: usize,
    /// Low side: Σ load · elsewhere; high side: Σ load.
    pub(super) sum: f64,
    /// Low side: an upper bound of `elsewhere` of its members; high side: a lower bound.
    pub(super) bound: f64,
}

pub(super) const NO_LOW: Side = Side { count: 0, sum: 0.0, bound: f64::NEG_INFINITY };

pub(super) const NO_HIGH: Side = Side { count: 0, sum: 0.0, bound: f64::INFINITY };

impl Side {
    /// Returns the side with one more member, which adds `part` to the sum and has `elsewhere` = `bound`.
    #[inline]
    pub(super) fn with(self, part: f64, bound: f64) -> Side {
        Side { count: self.count + 1, sum: self.sum + part, bound }
    }

    /// Returns the side with one member less, which takes `part` from the sum; `empty` if it was the last one.
    #[inline]
    pub(super) fn without(self, part: f64, empty: Side) -> Side {
        if self.count == 1 {
            return empty;
        }
        Side { count: self.count - 1, sum: self.sum - part, ..self }
    }
}

impl Link {
    /// Marks the sums as outdated: they are not kept while the link has no competing members, so the next solution
    /// computes them anew.
    pub(in crate::fluid) fn forget_sums(&mut self) {
        self.edits = usize::MAX / 2;
    }

    #[inline]
    pub(super) fn add(&mut self, member: Member) {
        if member.high {
            self.high.count += 1;
            self.high.sum += member.load;
            self.high.bound = self.high.bound.min(member.elsewhere);
        } else {
            self.low.count += 1;
            self.low.sum += member.load * member.elsewhere;
            self.low.bound = self.low.bound.max(member.elsewhere);
        }
    }

    #[inline]
    pub(super) fn take(&mut self, member: Member) {
        self.edits += 1;
        if member.high {
            self.high = self.high.without(member.load, NO_HIGH);
        } else {
            self.low = self.low.without(member.load * member.elsewhere, NO_LOW);
        }
    }

    /// Computes the water-filling level of the link and returns whether it changed. Appends to `crossed` the members of the link that
    /// moved between the high and the low side.
    #[inline]
    pub(in crate::fluid) fn relevel(&mut self, crossed: &mut Vec<u32>) -> bool {
        let level = self.solve(crossed);
        let same =
            level == self.level || (level - self.level).abs() <= 1e-15 * level.min(self.level);
        if !same {
            self.level = level;
        }
        !same
    }

    #[inline]
    fn solve(&mut self, crossed: &mut Vec<u32>) -> f64 {
        if self.limit.is_infinite() || self.members.is_empty() {
            return f64::INFINITY;
        }
        if let Some(level) = self.alone() {
            return level;
        }
        let level = self.level_of_sides(-1.0);
        let between =
            level * (1.0 - SAME) <= self.high.bound && level >= self.low.bound * (1.0 - SAME);
        // Sums that are updated by differences are made anew from time to time, because rounding errors add up.
        if between && self.edits <= 64 + 4 * self.members.len() {
            level
        } else {
            self.water_fill(crossed)
        }
    }

    /// Counts how often call number `settling` of `settle` computes the link's level; returns the number so far.
    #[inline]
    pub(in crate::fluid) fn visit(&mut self, settling: u64) -> u32 {
        let before = if self.visits.0 == settling { self.visits.1 } else { 0 };
        self.visits = (settling, before + 1);
        before + 1
    }

    /// Returns the level, given that each member is on the right side; `overfull` if no member is high and the low
    /// ones exceed the capacity.
    #[inline]
    pub(super) fn level_of_sides(&self, overfull: f64) -> f64 {
        if self.high.count > 0 {
            (self.limit - self.low.sum) / self.high.sum
        } else if self.low.sum <= self.limit {
            f64::INFINITY
        } else {
            overfull
        }
    }

    /// Solves for the level from scratch, by Newton's method. The level that follows from the sides is never above
    /// the level sought. So after the first pass it only rises, and members only move from high to low.
    #[cold]
    fn water_fill(&mut self, crossed: &mut Vec<u32>) -> f64 {
        let before: Vec<bool> = self.members.iter().map(|m| m.high).collect();
        self.sum_sides();
        let mut level = self.level_of_sides(-1.0);
        for member in &mut self.members {
            member.high = member.elsewhere >= level;
        }
        for _pass in 0..=self.members.len() {
            self.sum_sides();
            level = self.level_of_sides(f64::INFINITY);
            let mut moved = false;
            for member in &mut self.members {
                moved |= member.high && member.elsewhere < level;
                member.high &= member.elsewhere >= level;
            }
            if !moved {
                let changed =
                    self.members.iter().zip(&before).filter(|(m, before)| m.high != **before);
                crossed.extend(changed.map(|(member, _)| member.of));
                return level;
            }
        }
        unreachable!("every pass moves a member")
    }

    pub(super) fn sum_sides(&mut self) {
        (self.low, self.high) = (NO_LOW, NO_HIGH);
        for at in 0..self.members.len() {
            self.add(self.members[at]);
        }
        self.edits = 0;
    }

    /// Returns the level that the link allows its only member, whatever limits the member elsewhere; `None` unless
    /// there is exactly one member.
    #[inline]
    pub(in crate::fluid) fn alone(&self) -> Option<f64> {
        match self.members[..] {
            [only] => Some(self.limit / only.load),
            _ => None,
        }
    }

    /// Divides the members into high and low ones and computes the sums anew, after progressive filling has set the
    /// level and each `elsewhere`.
    pub(in crate::fluid) fn impose(&mut self) {
        let level = self.level;
        for member in &mut self.members {
            member.high = member.elsewhere >= level * (1.0 - SAME);
        }
        self.sum_sides();
    }
}
