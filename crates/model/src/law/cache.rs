//! Hit rates of a cache that is smaller than the set read through it, in the second pass over the set.
//!
//! A set of equal items is read once into an empty cache, and then once more. `kept` is the size of the cache divided by the size
//! of the set.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Replacement policy: which data a full cache evicts for new data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CachePolicy {
    /// Least recently used: evicts the data used longest ago.
    Lru,
    /// Random: evicts any data; all are equally likely.
    Random,
    /// First in, first out: evicts the data inserted first.
    Fifo,
    /// Evicts nothing: data stay once inserted, and a full cache accepts no new data (CoorDL's MinIO).
    Minio,
}

/// Order of the second pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassOrder {
    /// Same order as in the first pass.
    Cyclic,
    /// A random order, independent of the first pass.
    Shuffled,
}

impl CachePolicy {
    /// Policies that a probe with two passes can tell apart.
    pub const TOLD: [CachePolicy; 3] = [CachePolicy::Lru, CachePolicy::Random, CachePolicy::Minio];

    /// Returns the policy's name in scenarios and profiles.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CachePolicy::Lru => "lru",
            CachePolicy::Random => "random",
            CachePolicy::Fifo => "fifo",
            CachePolicy::Minio => "minio",
        }
    }

    /// Returns the hit rate of the second pass, 0 to 1, for a cache that holds the share `kept` of the set.
    #[must_use]
    pub fn hits(self, order: PassOrder, kept: f64) -> f64 {
        if kept >= 1.0 {
            return 1.0;
        }
        if kept <= 1e-3 {
            return 0.0;
        }
        let hits = match (self, order) {
            (CachePolicy::Minio, _) => kept,
            (CachePolicy::Lru | CachePolicy::Fifo, PassOrder::Cyclic) => 0.0,
            // An item hits if fewer than `kept` other items were used since its last use: (1 − u)(1 − v) ≥ 1 − kept, where u is
            // the share of the first pass that came after the item, and v the share of the second pass before it.
            (CachePolicy::Lru, PassOrder::Shuffled) => kept + (1.0 - kept) * (1.0 - kept).ln(),
            (CachePolicy::Fifo, PassOrder::Shuffled) => fifo_shuffled(kept),
            (CachePolicy::Random, PassOrder::Shuffled) => random_shuffled(kept),
            (CachePolicy::Random, PassOrder::Cyclic) => random_cyclic(kept),
        };
        hits.clamp(0.0, 1.0)
    }
}

/// Returns the hits of FIFO in shuffled order. Let M be the number of misses after q requests of the second pass, both divided by
/// the number of items. Then kept − M items of the first pass are still in the cache, so that dM/dq = 1 − kept + M until none of
/// them is left.
fn fifo_shuffled(kept: f64) -> f64 {
    let gone = -(1.0 - kept).ln();
    let misses = if gone < 1.0 {
        kept + 1.0 - gone
    } else {
        kept - 1.0 + (1.0 - kept) * std::f64::consts::E
    };
    1.0 - misses
}

/// Returns the hits of random replacement in shuffled order. Let M be the number of misses after q requests of the second pass,
/// both divided by the number of items. An item of the cache has survived M misses with probability e^(−M/kept), so that dM/dq =
/// 1 − kept·e^(−M/kept) for 0 ≤ q ≤ 1.
fn random_shuffled(kept: f64) -> f64 {
    -kept * (1.0 - kept + kept * (-1.0 / kept).exp()).ln()
}

/// Returns the hits of random replacement in cyclic order. Misses of the second pass evict as in shuffled order. In addition,
/// item q, which was the q-th of the first pass too, must have survived the evictions by later items of the first pass; these
/// evict once the cache is full.
fn random_cyclic(kept: f64) -> f64 {
    let first = (-(1.0 - kept) / kept).exp();
    let early = first / std::f64::consts::E + 1.0 - first;
    -kept * (early - (-1.0 / kept).exp() * (1.0 - kept) / kept).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::random::{Purpose, Streams};
    use rand::seq::SliceRandom;

    const ALL: [CachePolicy; 4] =
        [CachePolicy::Lru, CachePolicy::Random, CachePolicy::Fifo, CachePolicy::Minio];

    /// Returns the hit rate of a second pass over `items` items through a cache with room for `most` items.
    fn simulated(policy: CachePolicy, order: PassOrder, items: u32, most: usize) -> f64 {
        let streams = Streams::new(1, 0);
        let evictions = streams.at(Purpose::Eviction, 0, 0, 0);
        let mut cache = Cache::new(policy, most as f64, items, evictions);
        let mut read = |item: u32| {
            let hit = cache.look_up(item);
            cache.insert(item, 1.0, |_| 1.0);
            hit
        };
        let mut all: Vec<u32> = (0..items).collect();
        all.iter().for_each(|&item| {
            read(item);
        });
        if order == PassOrder::Shuffled {
            all.shuffle(&mut streams.at(Purpose::Trial, 0, 0, 0));
        }
        all.iter().filter(|&&item| read(item)).count() as f64 / f64::from(items)
    }

    #[test]
    fn cache_hit_formulas_match_simulated_policies() {
        // System: 2,000 items through a cache for 10, 35, 65 and 90 % of them. Expectation: the hits of a simulation of the
        // policy, up to chance.
        for policy in ALL {
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
    fn a_cache_that_holds_all_data_always_hits() {
        for policy in ALL {
            for order in [PassOrder::Cyclic, PassOrder::Shuffled] {
                assert_eq!((policy.hits(order, 1.0), policy.hits(order, 0.0)), (1.0, 0.0));
                let many: Vec<f64> =
                    (0..=100).map(|i| policy.hits(order, f64::from(i) / 100.0)).collect();
                assert!(many.is_sorted(), "{policy:?} {order:?}");
            }
        }
    }
}
