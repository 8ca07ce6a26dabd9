//! Steady miss shares against closed forms and fix-points, and the order in which units leave.

use super::Cache;
use crate::law::CachePolicy;
use crate::random::{Permutation, Purpose, Streams};

const UNITS: u32 = 20_000;

/// Share of misses over the last of some epochs, each a fresh permutation of all units of one byte,
/// with room for `share` of them.
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

/// The root in (0, 1] of m = 1 − ((1 − e^(−m/x)) ÷ (m/x))², by bisection.
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
fn miss_shares_are_those_of_theory() {
    // System: 20,000 files in a fresh permutation each epoch, room for x of them. Expectation: the
    // closed forms (minio, lru) and the fix-point (random) of that reading.
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
fn first_in_first_out_is_between_random_and_lru() {
    // Recorded by an independent Monte Carlo of the same reading: 0.9197 at 35 %, 0.5993 at 65 %.
    assert!((miss_share(CachePolicy::Fifo, 0.35) - 0.9197).abs() < 0.01);
    assert!((miss_share(CachePolicy::Fifo, 0.65) - 0.5993).abs() < 0.01);
}

/// What is left of five units of 4 B after 0, 1, 2, 0, 3, 4 came into a cache of 12 B.
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
fn units_leave_in_the_order_of_the_policy() {
    assert_eq!(survivors(CachePolicy::Lru), [0, 3, 4]);
    assert_eq!(survivors(CachePolicy::Fifo), [2, 3, 4]);
    assert_eq!(survivors(CachePolicy::Minio), [0, 1, 2]);
    assert_eq!(survivors(CachePolicy::Random).len(), 3);
}

#[test]
fn sizes_count() {
    // System: 10 B, units of their number in bytes. Expectation: 7 needs the room of 2, 3 and 4, the
    // oldest ones first; 11 never fits and throws nothing out.
    let generator = Streams::new(1, 0).at(Purpose::Eviction, 0, 0, 0);
    let mut cache = Cache::new(CachePolicy::Lru, 10.0, 12, generator);
    for unit in [2, 3, 4, 7, 11] {
        cache.insert(unit, f64::from(unit), f64::from);
    }
    let here: Vec<u32> = (0..12).filter(|unit| cache.look_up(*unit)).collect();
    assert_eq!((here, cache.used()), (vec![7], 7.0));
}
