//! What a cache keeps of a set that is larger than it: hits of a second pass.
//!
//! A set of equal items is read once into an empty cache, and then once more; `kept` is the cache's
//! size over that of the set.

use serde::{Deserialize, Serialize};

/// Which item makes room for a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CachePolicy {
    /// The one that was used longest ago.
    Lru,
    /// Any of them.
    Random,
    /// None: what came first stays (as MinIO does).
    Keep,
}

/// In which order the second pass goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassOrder {
    /// That of the first one.
    Cyclic,
    /// Any other.
    Shuffled,
}

impl CachePolicy {
    /// All of them.
    pub const ALL: [CachePolicy; 3] = [CachePolicy::Lru, CachePolicy::Random, CachePolicy::Keep];

    /// Its name in profiles.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CachePolicy::Lru => "lru",
            CachePolicy::Random => "random",
            CachePolicy::Keep => "keep",
        }
    }

    /// Share of the second pass that comes out of a cache of `kept` of the set: 0 to 1.
    #[must_use]
    pub fn hits(self, order: PassOrder, kept: f64) -> f64 {
        if kept >= 1.0 {
            return 1.0;
        }
        if kept <= 1e-3 {
            return 0.0;
        }
        let hits = match (self, order) {
            (CachePolicy::Keep, _) => kept,
            (CachePolicy::Lru, PassOrder::Cyclic) => 0.0,
            // Fewer than `kept` other items since its last use: (1 − u)(1 − v) ≥ 1 − kept, where u
            // of the first pass came after it and v of the second before it.
            (CachePolicy::Lru, PassOrder::Shuffled) => kept + (1.0 - kept) * (1.0 - kept).ln(),
            (CachePolicy::Random, PassOrder::Shuffled) => random_shuffled(kept),
            (CachePolicy::Random, PassOrder::Cyclic) => random_cyclic(kept),
        };
        hits.clamp(0.0, 1.0)
    }
}

/// Each of M misses so far has left an item with e^(−M/kept): dM/dq = 1 − kept·e^(−M/kept) over the
/// second pass, 0 ≤ q ≤ 1.
fn random_shuffled(kept: f64) -> f64 {
    -kept * (1.0 - kept + kept * (-1.0 / kept).exp()).ln()
}

/// The same where item q was the q-th of the first pass too, and has outlived what came after it
/// there and made others leave: that which came once the cache was full.
fn random_cyclic(kept: f64) -> f64 {
    let first = (-(1.0 - kept) / kept).exp();
    let early = first / std::f64::consts::E + 1.0 - first;
    -kept * (early - (-1.0 / kept).exp() * (1.0 - kept) / kept).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Generator, Purpose, Streams};
    use rand::RngExt;
    use rand::seq::SliceRandom;
    use std::collections::VecDeque;

    /// Reads an item through a cache whose items are in order of use, the oldest first; whether it
    /// was there.
    fn read(
        cache: &mut VecDeque<u32>,
        item: u32,
        most: usize,
        policy: CachePolicy,
        generator: &mut Generator,
    ) -> bool {
        let at = cache.iter().position(|&kept| kept == item);
        if let (Some(at), CachePolicy::Lru) = (at, policy) {
            cache.remove(at);
            cache.push_back(item);
        }
        if at.is_some() {
            return true;
        }
        let room = match policy {
            _ if cache.len() < most => true,
            CachePolicy::Keep => false,
            CachePolicy::Lru => cache.pop_front().is_some(),
            CachePolicy::Random => cache.remove(generator.random_range(0..most)).is_some(),
        };
        if room {
            cache.push_back(item);
        }
        false
    }

    /// Hits of a second pass over `items` through a cache of `most`.
    fn simulated(policy: CachePolicy, order: PassOrder, items: u32, most: usize) -> f64 {
        let mut generator = Streams::new(1, 0).at(Purpose::Trial, 0, 0, 0);
        let mut all: Vec<u32> = (0..items).collect();
        let mut cache = VecDeque::new();
        for &item in &all {
            read(&mut cache, item, most, policy, &mut generator);
        }
        if order == PassOrder::Shuffled {
            all.shuffle(&mut generator);
        }
        let hits = all.iter().filter(|&&i| read(&mut cache, i, most, policy, &mut generator));
        hits.count() as f64 / f64::from(items)
    }

    #[test]
    fn formulas_are_what_policies_do() {
        // System: 2,000 items through a cache of 10, 35, 65 and 90 % of them. Expectation: the hits
        // of the policy itself, up to chance.
        for policy in CachePolicy::ALL {
            for order in [PassOrder::Cyclic, PassOrder::Shuffled] {
                for most in [200, 700, 1300, 1800] {
                    let found = simulated(policy, order, 2000, most);
                    let expected = policy.hits(order, most as f64 / 2000.0);
                    let difference = (found - expected).abs();
                    assert!(difference < 0.035, "{policy:?} {order:?} {most}: {found} {expected}");
                }
            }
        }
    }

    #[test]
    fn a_cache_that_holds_all_always_hits() {
        for policy in CachePolicy::ALL {
            for order in [PassOrder::Cyclic, PassOrder::Shuffled] {
                assert_eq!((policy.hits(order, 1.0), policy.hits(order, 0.0)), (1.0, 0.0));
                let many: Vec<f64> =
                    (0..=100).map(|i| policy.hits(order, f64::from(i) / 100.0)).collect();
                assert!(many.is_sorted(), "{policy:?} {order:?}");
            }
        }
    }
}
