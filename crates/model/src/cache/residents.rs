//! Sets of units, one for each replacement policy, that pick the next unit to evict.

use std::collections::VecDeque;

use rand::RngExt;

use crate::random::Generator;

/// Marks the absence of a unit.
const NOBODY: u32 = u32::MAX;

/// A set that evicts a member picked at random; all members are equally likely.
#[derive(Debug)]
pub(super) struct Random {
    members: Vec<u32>,
    /// For each unit, its index in `members` plus one; 0 if it is not a member. The vector starts as zeros, so that the operating
    /// system allocates its pages only when they are touched.
    places: Vec<u32>,
}

impl Random {
    pub(super) fn new(units: u32) -> Random {
        Random { members: Vec::new(), places: vec![0; units as usize] }
    }

    #[inline]
    pub(super) fn has(&self, unit: u32) -> bool {
        self.places[unit as usize] != 0
    }

    pub(super) fn add(&mut self, unit: u32) {
        self.members.push(unit);
        self.places[unit as usize] = self.members.len() as u32;
    }

    pub(super) fn remove_any(&mut self, generator: &mut Generator) -> Option<u32> {
        if self.members.is_empty() {
            return None;
        }
        let at = generator.random_range(0..self.members.len());
        let unit = self.members.swap_remove(at);
        self.places[unit as usize] = 0;
        if let Some(moved) = self.members.get(at) {
            self.places[*moved as usize] = at as u32 + 1;
        }
        Some(unit)
    }
}

/// A set in order of last use: a doubly linked list whose links are stored per unit.
#[derive(Debug)]
pub(super) struct Recent {
    /// For each unit, the index of the unit that was used next after it, plus one; 0 if there is none.
    newer: Vec<u32>,
    /// For each unit, the index of the unit that was used last before it, plus one; 0 if there is none.
    older: Vec<u32>,
    here: Bits,
    oldest: u32,
    newest: u32,
}

impl Recent {
    pub(super) fn new(units: u32) -> Recent {
        let none = || vec![0; units as usize];
        Recent {
            newer: none(),
            older: none(),
            here: Bits::new(units),
            oldest: NOBODY,
            newest: NOBODY,
        }
    }

    /// Returns whether the unit is a member, and if so makes it the most recently used one.
    #[inline]
    pub(super) fn touch(&mut self, unit: u32) -> bool {
        let here = self.here.has(unit);
        if here && unit != self.newest {
            self.unlink(unit);
            self.link(unit);
        }
        here
    }

    pub(super) fn add(&mut self, unit: u32) {
        self.here.set(unit, true);
        self.link(unit);
    }

    pub(super) fn remove_oldest(&mut self) -> Option<u32> {
        let unit = self.oldest;
        if unit == NOBODY {
            return None;
        }
        self.unlink(unit);
        self.here.set(unit, false);
        Some(unit)
    }

    fn link(&mut self, unit: u32) {
        self.older[unit as usize] = self.newest.wrapping_add(1);
        self.newer[unit as usize] = 0;
        match self.newest {
            NOBODY => self.oldest = unit,
            last => self.newer[last as usize] = unit + 1,
        }
        self.newest = unit;
    }

    fn unlink(&mut self, unit: u32) {
        let (older, newer) = (self.older[unit as usize], self.newer[unit as usize]);
        match older {
            0 => self.oldest = newer.wrapping_sub(1),
            before => self.newer[before as usize - 1] = newer,
        }
        match newer {
            0 => self.newest = older.wrapping_sub(1),
            after => self.older[after as usize - 1] = older,
        }
    }
}

/// A set in order of insertion (first in, first out).
#[derive(Debug)]
pub(super) struct First {
    order: VecDeque<u32>,
    here: Bits,
}

impl First {
    pub(super) fn new(units: u32) -> First {
        First { order: VecDeque::new(), here: Bits::new(units) }
    }

    #[inline]
    pub(super) fn has(&self, unit: u32) -> bool {
        self.here.has(unit)
    }

    pub(super) fn add(&mut self, unit: u32) {
        self.order.push_back(unit);
        self.here.set(unit, true);
    }

    pub(super) fn remove_first(&mut self) -> Option<u32> {
        let unit = self.order.pop_front()?;
        self.here.set(unit, false);
        Some(unit)
    }
}

/// A bit set: one bit for each unit.
#[derive(Debug)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(units: u32) -> Bits {
        Bits(vec![0; units.div_ceil(64) as usize])
    }

    #[inline]
    fn has(&self, unit: u32) -> bool {
        self.0[unit as usize / 64] >> (unit % 64) & 1 == 1
    }

    fn set(&mut self, unit: u32, value: bool) {
        let word = &mut self.0[unit as usize / 64];
        *word = *word & !(1 << (unit % 64)) | u64::from(value) << (unit % 64);
    }
}
