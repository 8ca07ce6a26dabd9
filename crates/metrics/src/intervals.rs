//! Sets of numbers that are added nearly in ascending order, kept as intervals.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of numbers, kept as intervals that do not touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Intervals {
    /// End of each interval, by the interval's start.
    all: BTreeMap<u64, u64>,
}

impl Intervals {
    /// Adds a range of numbers, none of which may be in the set yet.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let end = self.all.remove(&range.end).unwrap_or(range.end);
        match self.all.range_mut(..range.start).next_back() {
            Some((_, until)) if *until == range.start => *until = end,
            _ => {
                self.all.insert(range.start, end);
            }
        }
    }

    /// Adds those numbers of a range that are not in the set yet.
    pub fn cover(&mut self, range: Range<u64>) {
        let mut start = self.next_gap(range.start);
        while start < range.end {
            let next = self.all.range(start..range.end).next();
            let end = next.map_or(range.end, |(next, _)| *next);
            self.insert(start..end);
            start = self.next_gap(end);
        }
    }

    /// Returns the first number from `from` on that is not in the set.
    pub fn next_gap(&self, from: u64) -> u64 {
        let before = self.all.range(..=from).next_back();
        before.map_or(from, |(_, end)| from.max(*end))
    }

    /// Returns the numbers below the set's largest number that are not in the set.
    pub fn gaps(&self) -> Vec<u64> {
        let (mut gaps, mut at) = (Vec::new(), 0);
        for (start, end) in &self.all {
            gaps.extend(at..*start);
            at = *end;
        }
        gaps
    }

    /// Returns one more than the largest number; 0 if the set is empty.
    pub fn end(&self) -> u64 {
        self.all.last_key_value().map_or(0, |(_, end)| *end)
    }

    /// Returns the subset of the numbers below `limit`.
    pub fn below(&self, limit: u64) -> Intervals {
        let all = self.all.range(..limit).map(|(start, end)| (*start, limit.min(*end)));
        Intervals { all: all.collect() }
    }

    /// Returns how many numbers are in the set.
    pub fn count(&self) -> u64 {
        self.all.iter().map(|(start, end)| end - start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_on_interval_sets_agree_with_a_plain_list_of_numbers() {
        // System: the numbers below 200 that a rule selects, added in an order far from ascending. Expectation: the results agree
        // with a plain list of the numbers.
        for rule in [|n: u64| !n.is_multiple_of(7), |n: u64| n / 10 % 3 == 1, |_| true, |_| false] {
            let mut of = Intervals::default();
            (0..200).map(|n| n * 77 % 200).filter(|n| rule(*n)).for_each(|n| of.insert(n..n + 1));
            let all: Vec<u64> = (0..200).filter(|n| rule(*n)).collect();
            let last = all.last().copied().unwrap_or(0);
            assert_eq!(of.count(), all.len() as u64);
            assert_eq!(of.end(), all.last().map_or(0, |last| last + 1));
            assert_eq!(of.gaps(), (0..last).filter(|n| !rule(*n)).collect::<Vec<_>>());
            for n in 0..200 {
                let gap = (n..).find(|n| *n >= 200 || !rule(*n)).expect("beyond");
                assert_eq!(of.next_gap(n), gap, "{n}");
                assert_eq!(of.below(n).count(), all.iter().filter(|m| **m < n).count() as u64);
            }
        }
    }

    #[test]
    fn covering_a_range_adds_exactly_the_missing_numbers() {
        // System: sets of two intervals, and each range of the numbers below 12. Expectation: the union.
        for (start, end) in (0..12).flat_map(|start| (start..12).map(move |end| (start, end))) {
            let mut of = Intervals::default();
            [2..4, 7..8].into_iter().for_each(|run| of.insert(run));
            of.cover(start..end);
            let is_in = |n: &u64| [2, 3, 7].contains(n) || (start..end).contains(n);
            let all: Vec<u64> = (0..12).filter(is_in).collect();
            let found: Vec<u64> = (0..12).filter(|n| of.next_gap(*n) != *n).collect();
            assert_eq!(found, all, "{start} to {end}");
            assert_eq!(of.count(), all.len() as u64, "{start} to {end}");
        }
    }
}
