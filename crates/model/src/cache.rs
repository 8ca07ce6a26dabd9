//! Caches: which units of a storage's data a node keeps, and which units it evicts to make room.
//!
//! A cache holds units (files, or chunks of shards) up to a number of bytes. Which policy describes a page cache depends on the
//! access pattern. When files are read in a fresh permutation every epoch, Linux behaves like random replacement; when shards are
//! read through, it behaves like least-recently-used (Mohan et al., *Analyzing and mitigating data stalls in DNN training*, VLDB
//! 2021, sections 4.3 and 7.1, which report miss shares).

mod residents;
#[cfg(test)]
mod tests;

use crate::law::CachePolicy;
use crate::random::Generator;
use residents::{First, Random, Recent};

/// A simulated cache: a set of units of data whose sizes add up to at most a number of bytes.
///
/// Each unit takes four to twelve bytes of the simulator's own memory, whether it is in the cache or not.
#[derive(Debug)]
pub struct Cache {
    capacity: f64,
    used: f64,
    kept: Kept,
}

/// The units in the cache, in the data structure that the replacement policy needs.
#[derive(Debug)]
enum Kept {
    Random(Random, Generator),
    Lru(Recent),
    Fifo(First),
    Minio(First),
}

impl Cache {
    /// Returns an empty cache of `capacity` [B] for units `0..units`. `generator` picks the victims of random replacement.
    #[must_use]
    pub fn new(policy: CachePolicy, capacity: f64, units: u32, generator: Generator) -> Cache {
        let kept = match policy {
            CachePolicy::Random => Kept::Random(Random::new(units), generator),
            CachePolicy::Lru => Kept::Lru(Recent::new(units)),
            CachePolicy::Fifo => Kept::Fifo(First::new(units)),
            CachePolicy::Minio => Kept::Minio(First::new(units)),
        };
        Cache { capacity, used: 0.0, kept }
    }

    /// Returns the bytes in the cache.
    #[must_use]
    pub fn used(&self) -> f64 {
        self.used
    }

    /// Returns whether a requested unit is in the cache. Under least-recently-used this counts as a use of the unit.
    #[inline]
    pub fn look_up(&mut self, unit: u32) -> bool {
        match &mut self.kept {
            Kept::Random(kept, _) => kept.has(unit),
            Kept::Lru(kept) => kept.touch(unit),
            Kept::Fifo(kept) | Kept::Minio(kept) => kept.has(unit),
        }
    }

    /// Returns whether the cache would accept a unit of `bytes` that is not in it.
    #[must_use]
    pub fn takes(&self, bytes: f64) -> bool {
        let full = matches!(self.kept, Kept::Minio(_)) && self.used + bytes > self.capacity;
        bytes <= self.capacity && !full
    }

    /// Inserts a unit of `bytes` and evicts other units until it fits; `bytes_of` returns the size of an evicted unit. Nothing
    /// changes if the unit is in the cache already, is larger than the cache, or (policy `Minio`) does not fit beside the units
    /// in it.
    pub fn insert(&mut self, unit: u32, bytes: f64, mut bytes_of: impl FnMut(u32) -> f64) {
        if bytes > self.capacity || self.look_up(unit) {
            return;
        }
        while self.used + bytes > self.capacity {
            let Some(out) = self.evict() else { return };
            // Sums of sizes are rounded, so the difference could be slightly negative.
            self.used = (self.used - bytes_of(out)).max(0.0);
        }
        self.used += bytes;
        match &mut self.kept {
            Kept::Random(kept, _) => kept.add(unit),
            Kept::Lru(kept) => kept.add(unit),
            Kept::Fifo(kept) | Kept::Minio(kept) => kept.add(unit),
        }
    }

    fn evict(&mut self) -> Option<u32> {
        match &mut self.kept {
            Kept::Random(kept, generator) => kept.remove_any(generator),
            Kept::Lru(kept) => kept.remove_oldest(),
            Kept::Fifo(kept) => kept.remove_first(),
            Kept::Minio(_) => None,
        }
    }
}
