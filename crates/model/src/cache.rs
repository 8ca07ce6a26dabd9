//! Caches: what of a storage's data a node keeps, and what it throws out for something else.
//!
//! A cache holds units (files, or chunks of shards) up to a number of bytes. Which policy a page cache
//! follows depends on the reading: under a fresh permutation of files every epoch Linux behaves like
//! random replacement, with shards read through like least-recently-used (Mohan et al., *Analyzing and
//! mitigating data stalls in DNN training*, VLDB 2021, sections 4.3 and 7.1: miss shares there).

mod residents;
#[cfg(test)]
mod tests;

use crate::law::CachePolicy;
use crate::random::Generator;
use residents::{First, Random, Recent};

/// Units of data within a number of bytes.
///
/// A unit takes four to twelve bytes of our own memory, whether it is in the cache or not.
#[derive(Debug)]
pub struct Cache {
    capacity: f64,
    used: f64,
    kept: Kept,
}

/// Those that are in the cache.
#[derive(Debug)]
enum Kept {
    Random(Random, Generator),
    Lru(Recent),
    Fifo(First),
    Minio(First),
}

impl Cache {
    /// An empty cache of `capacity` [B] for units `0..units`; `generator` picks what leaves at random.
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

    /// Bytes in the cache.
    #[must_use]
    pub fn used(&self) -> f64 {
        self.used
    }

    /// Whether a unit that is asked for is there.
    #[inline]
    pub fn look_up(&mut self, unit: u32) -> bool {
        match &mut self.kept {
            Kept::Random(kept, _) => kept.has(unit),
            Kept::Lru(kept) => kept.touch(unit),
            Kept::Fifo(kept) | Kept::Minio(kept) => kept.has(unit),
        }
    }

    /// Whether a unit of `bytes` that is not there would be taken in.
    #[must_use]
    pub fn takes(&self, bytes: f64) -> bool {
        let full = matches!(self.kept, Kept::Minio(_)) && self.used + bytes > self.capacity;
        bytes <= self.capacity && !full
    }

    /// Takes a unit of `bytes` in, and throws out what has to leave for it; `bytes_of` knows how large
    /// that is. A unit that is there already, or is larger than the cache, changes nothing.
    pub fn insert(&mut self, unit: u32, bytes: f64, mut bytes_of: impl FnMut(u32) -> f64) {
        if bytes > self.capacity || self.look_up(unit) {
            return;
        }
        while self.used + bytes > self.capacity {
            let Some(out) = self.evict() else { return };
            // Sums of sizes are rounded.
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
