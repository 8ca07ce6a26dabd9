//! Compares steady miss shares with closed forms and fixed points, and checks the order in which units are evicted.

use super::Cache;
use crate::law::CachePolicy;
use crate::random::{Permutation, Purpose, Streams};

const UNITS: u32 = 20_000;

/// Returns the share of misses over the epochs after warm-up. Each epoch reads all units (1 B each) in a fresh permutation; the
/// cache has room for `share` of them.
fn miss_share(policy: CachePolicy, share: f64) -> f64 {
    let streams = Streams::new(7, 0);
    let generator = streams.at(Purpose::Eviction, 0, 0, 0);
    let mut cache = Cache::new(policy, share * f64::from(UNITS), UNITS, generator);
    let (epochs, settled) = (40, 15);
    let mut misses = 0;
    for epoch in 0..epochs {
        let order = Permutation::new(streams.at(Purpose::Order, 0, epoch, 0), UNITS.into());
        for place in 0..u64::from(UNITS) {
            let unit = order.at(place) as u32;
            let hit = cache.look_up(unit);
            misses += u64::from(!hit && epoch >= settled);
            cache.insert(unit, 1.0, |_| 1.0);
        }
    }
    misses as f64 / f64::from(UNITS) / (epochs - settled) as f64
}

/// Solves m = 1 − ((1 − e^(−m/x)) ÷ (m/x))² for m in (0, 1] by bisection: the miss share of random replacement.
fn random_replacement(x: f64) -> f64 {
    let excess = |m: f64| {
        let r = m / x;
        m - 1.0 + ((1.0 - (-r).exp()) / r).powi(2)
    };
    let (mut low, mut high) = (1e-9, 1.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if excess(middle) < 0.0 { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

fn least_recently_used(x: f64) -> f64 {
    1.0 - (x + (1.0 - x) * (1.0 - x).ln())
}

#[test]
fn simulated_cache_miss_ratios_match_theory() {
    // System: 20,000 files in a fresh permutation each epoch, a cache with room for a share x of them. Expectation: the miss
    // shares of theory for this access pattern, by closed forms (minio, lru) and a fixed point (random).
    for x in [0.1, 0.25, 0.35, 0.5, 0.65, 0.8, 0.9] {
        for (policy, expected) in [
            (CachePolicy::Minio, 1.0 - x),
            (CachePolicy::Lru, least_recently_used(x)),
            (CachePolicy::Random, random_replacement(x)),
        ] {
            let found = miss_share(policy, x);
            assert!((found - expected).abs() < 0.005, "{policy:?} {x}: {found} not {expected}");
        }
    }
}

#[test]
fn fifo_miss_ratios_match_an_independent_simulation() {
    // Reference values come from an independent Monte Carlo simulation of the same access pattern: 0.9197 at 35 %, 0.5993 at
    // 65 %.
    assert!((miss_share(CachePolicy::Fifo, 0.35) - 0.9197).abs() < 0.01);
    assert!((miss_share(CachePolicy::Fifo, 0.65) - 0.5993).abs() < 0.01);
}

/// Returns which of five units of 4 B are in a cache of 12 B after the requests 0, 1, 2, 0, 3, 4.
fn survivors(policy: CachePolicy) -> Vec<u32> {
    let generator = Streams::new(1, 0).at(Purpose::Eviction, 0, 0, 0);
    let mut cache = Cache::new(policy, 12.0, 5, generator);
    for unit in [0, 1, 2, 0, 3, 4] {
        if !cache.look_up(unit) {
            cache.insert(unit, 4.0, |_| 4.0);
        }
    }
    assert!(cache.used() == 12.0);
    (0..5).filter(|unit| cache.look_up(*unit)).collect()
}

#[test]
fn cached_units_are_evicted_in_the_order_of_the_policy() {
    assert_eq!(survivors(CachePolicy::Lru), [0, 3, 4]);
    assert_eq!(survivors(CachePolicy::Fifo), [2, 3, 4]);
    assert_eq!(survivors(CachePolicy::Minio), [0, 1, 2]);
    assert_eq!(survivors(CachePolicy::Random).len(), 3);
}

#[test]
fn cached_units_are_evicted_until_a_larger_unit_fits() {
    // System: a cache of 10 B; unit n has n bytes. Expectation: to fit unit 7, units 2, 3 and 4 are evicted, oldest first; unit
    // 11 is larger than the cache and evicts nothing.
    let generator = Streams::new(1, 0).at(Purpose::Eviction, 0, 0, 0);
    let mut cache = Cache::new(CachePolicy::Lru, 10.0, 12, generator);
    for unit in [2, 3, 4, 7, 11] {
        cache.insert(unit, f64::from(unit), f64::from);
    }
    let here: Vec<u32> = (0..12).filter(|unit| cache.look_up(*unit)).collect();
    assert_eq!((here, cache.used()), (vec![7], 7.0));
}
