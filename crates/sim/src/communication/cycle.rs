//! The steps from one exchange between model copies to the next, and what sets them apart.

use std::array;
use std::ops::{Index, IndexMut};

/// What a step does besides computing gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepKind {
    /// Whether the step adds its gradients to those of the step before.
    pub(crate) adds: bool,
    /// Whether the step ends with an update of the parameters.
    pub(crate) updates: bool,
    /// Whether the step ends with an exchange between model copies.
    pub(crate) exchanges: bool,
}

impl StepKind {
    /// Number of combinations of the three properties of a step.
    const ALL: usize = 8;

    #[inline]
    fn number(self) -> usize {
        usize::from(self.adds) + 2 * usize::from(self.updates) + 4 * usize::from(self.exchanges)
    }
}

/// When a job copy's steps update parameters and end with exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cycle {
    /// Number of steps from one exchange to the next; a multiple of `accumulation`.
    interval: u64,
    /// Number of steps whose gradients are added up before parameters are updated.
    accumulation: u64,
}

impl Default for Cycle {
    fn default() -> Self {
        Cycle::EACH_STEP
    }
}

impl Cycle {
    /// The cycle of a job copy in which every step updates parameters and ends with an exchange.
    pub(crate) const EACH_STEP: Cycle = Cycle { interval: 1, accumulation: 1 };

    /// Returns a cycle of `interval` steps, with an update after every `accumulation` steps.
    pub(crate) fn new(interval: u64, accumulation: u64) -> Cycle {
        Cycle { interval, accumulation: accumulation.min(interval) }
    }

    /// Returns the number of steps from the last exchange to `step`.
    pub(crate) fn place(self, step: u64) -> u64 {
        step % self.interval
    }

    /// Returns the kind of step number `step`, counted from 0.
    #[inline]
    pub(crate) fn kind(self, step: u64) -> StepKind {
        if self.interval == 1 {
            return StepKind { adds: false, updates: true, exchanges: true };
        }
        let done = step % self.interval + 1;
        StepKind {
            adds: !(done - 1).is_multiple_of(self.accumulation),
            updates: done.is_multiple_of(self.accumulation),
            exchanges: done == self.interval,
        }
    }

    /// Returns the kind of the steps that end with an exchange.
    pub(crate) fn last(self) -> StepKind {
        self.kind(self.interval - 1)
    }

    /// Returns for each kind of step that occurs the first step of that kind.
    fn first_of_each(self) -> impl Iterator<Item = u64> {
        let mut first = vec![0, 1, self.accumulation - 1, self.interval - 1];
        first.retain(|step| *step < self.interval);
        first.sort_unstable();
        first.dedup_by_key(|step| self.kind(*step).number());
        first.into_iter()
    }
}

/// A table with a `T` for each kind of step, indexed by the kind.
#[derive(Debug, Clone)]
pub(crate) struct ByStepKind<T>([T; StepKind::ALL]);

impl<T: Default> Default for ByStepKind<T> {
    fn default() -> Self {
        ByStepKind(array::from_fn(|_| T::default()))
    }
}

impl<T: Default> ByStepKind<T> {
    /// Returns a table with `of` each kind of step that occurs in `cycle`; the entries of the other kinds are empty.
    pub(crate) fn of(cycle: Cycle, of: impl Fn(StepKind) -> T) -> ByStepKind<T> {
        let mut table = ByStepKind::default();
        for kind in cycle.first_of_each().map(|step| cycle.kind(step)) {
            table[kind] = of(kind);
        }
        table
    }
}

impl<T> ByStepKind<T> {
    /// Returns the entries of all kinds of steps.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

impl<T> Index<StepKind> for ByStepKind<T> {
    type Output = T;

    #[inline]
    fn index(&self, kind: StepKind) -> &T {
        &self.0[kind.number()]
    }
}

impl<T> IndexMut<StepKind> for ByStepKind<T> {
    fn index_mut(&mut self, kind: StepKind) -> &mut T {
        &mut self.0[kind.number()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(cycle: Cycle, steps: u64) -> String {
        let letter = |step| match cycle.kind(step) {
            StepKind { exchanges: true, .. } => 'X',
            StepKind { updates: true, .. } => 'U',
            StepKind { adds: true, .. } => '+',
            _ => '-',
        };
        (0..steps).map(letter).collect()
    }

    #[test]
    fn steps_update_after_accumulation_and_exchange_after_the_interval() {
        assert_eq!(shown(Cycle::EACH_STEP, 3), "XXX");
        assert_eq!(shown(Cycle::new(3, 1), 6), "UUXUUX");
        assert_eq!(shown(Cycle::new(3, 3), 6), "-+X-+X");
        assert_eq!(shown(Cycle::new(6, 3), 12), "-+U-+X-+U-+X");
        // The first step after an update begins new gradients.
        assert!(!Cycle::new(6, 3).kind(3).adds && Cycle::new(6, 3).kind(5).adds);
    }

    #[test]
    fn tables_have_an_entry_for_each_kind_of_step_that_occurs() {
        for (interval, accumulation) in [(1, 1), (2, 1), (2, 2), (5, 5), (6, 2), (6, 3), (12, 1)] {
            let cycle = Cycle::new(interval, accumulation);
            let table = ByStepKind::of(cycle, Some);
            let kinds = (0..interval).map(|step| cycle.kind(step));
            kinds.for_each(|kind| assert_eq!(table[kind], Some(kind), "{cycle:?}"));
        }
    }
}
