//! Where data sets are kept.

mod file_server;
mod local_disk;
mod measured;
mod memory;
mod nvme_of;
mod object_store;
mod parallel_fs;
mod path;
pub(super) mod settings;
pub(super) mod tier;

pub use path::{Location, Queues, RequestPath, Service};
pub use tier::{CacheUnit, Tier, TierCache};

/// A storage and its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Storage {
    /// Name, as jobs refer to it.
    pub name: String,
    /// The table that it is written as: `file-server` of `[storage.NAME.file-server]`.
    pub kind: &'static str,
    /// What a request to it passes.
    pub path: RequestPath,
    /// Which of its limits the scenario writes.
    pub written: Written,
    /// What it is as a tier, where it can be one.
    pub tier: Option<Tier>,
    /// What each node keeps of it on a tier, if it does.
    pub cache: Option<TierCache>,
}

/// Which limits of a storage the scenario itself writes: the live world enforces them. The others are
/// the profile's, and the machine has them by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Bandwidth of all transfers.
    pub bandwidth: bool,
    /// Bandwidth of one transfer.
    pub per_stream: bool,
    /// Time to the first byte.
    pub latency: bool,
    /// Operations per second.
    pub operations: bool,
    /// I/O queues.
    pub queues: bool,
}

impl Written {
    /// Whether any limit is written.
    #[must_use]
    pub fn any(self) -> bool {
        self.bandwidth || self.per_stream || self.latency || self.operations || self.queues
    }
}

/// How many requests an object store serves, and how refused ones come again.
///
/// A bucket of `burst` requests fills at `rate`; a request takes one out or is refused. After its
/// `n`-th refusal it waits for a time between nothing and `first · 2ⁿ⁻¹`, at most `most`, all equally
/// likely: exponential back-off with full jitter, as the SDKs of object stores do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestLimit {
    /// Requests per second [1/s].
    pub rate: f64,
    /// Requests that may come at once.
    pub burst: f64,
    /// Longest wait after the first refusal [s].
    pub first: f64,
    /// Longest wait after any [s].
    pub most: f64,
}

/// The storage targets of a parallel file system, and how files lie on them: each on `stripe_count` of
/// them, one after the other, from the one on that `stripe_offset` says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Targets {
    /// How many.
    pub number: u32,
    /// Bandwidth of each [B/s].
    pub bandwidth: f64,
    /// Targets that a file is on, at most; up to `number`.
    pub stripe_count: u32,
    /// Bytes on one before the next [B].
    pub stripe_size: f64,
    /// Where files begin.
    pub stripe_offset: StripeOffset,
}

/// On which target a file begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StripeOffset {
    /// As Lustre's `lod_ost_alloc_rr` (`lod_qos.c`) has them: each on the one after the last of the file before; when
    /// all targets have had their turn, the next round begins one target further on ("slowly precess the next
    /// start"), but where one target is left over in each round, which moves the start by itself. Files that are on
    /// all targets each begin one further on.
    RoundRobin,
    /// All on this one, as `lfs setstripe --stripe-index` has it.
    Target(u32),
}

/// After so many files, and so many for each target, Lustre's allocator begins anew at a target that it draws. Here it
/// begins one further on, so that what some stripe counts prefer for a while is even in the long run.
const RESEED: u64 = 2_000;
const RESEED_EACH: u64 = 30;

impl Targets {
    /// The target that file number `file` begins on, in the order in which files were made.
    #[must_use]
    pub fn first(&self, file: u64) -> u64 {
        let (number, count) = (u64::from(self.number), u64::from(self.stripe_count));
        match self.stripe_offset {
            StripeOffset::Target(target) => u64::from(target) % number,
            StripeOffset::RoundRobin => {
                let round = (RESEED / number + RESEED_EACH) * number;
                let (seed, file) = (file / round, file % round);
                let moved = match number % count {
                    _ if count == 1 => 0,
                    _ if count == number => file,
                    1 => 0,
                    _ => (file * count).saturating_sub(1) / number,
                };
                (seed + file * count + moved) % number
            }
        }
    }

    /// Targets that serve a request of `bytes` together.
    #[must_use]
    pub fn serving(&self, bytes: f64) -> u32 {
        let stripes = (bytes / self.stripe_size).ceil();
        // Floats saturate.
        (stripes as u32).clamp(1, self.stripe_count)
    }
}

impl Storage {
    /// Whether reads go through the node's page cache, which begins empty: of files that it mounts, or that it keeps
    /// on a tier.
    #[must_use]
    pub fn passes_page_cache(&self) -> bool {
        self.cache.is_some() || self.path.access == Access::Cold
    }
}

/// How files are read.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Past the page cache.
    Direct,
    /// Through the page cache, which holds nothing of them at the start.
    Cold,
    /// Out of the page cache, which holds all of them.
    Warm,
}

impl Access {
    /// Name, in scenarios and profiles.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }
}

/// Time of a core that a request costs. It is part of the request's time: a request that is alone
/// takes latency plus bytes ÷ per-stream cap, or its core-seconds if they are more.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ReadCpu {
    /// For each request [core-s].
    pub fixed: f64,
    /// For each byte [core-s/B].
    pub per_byte: f64,
}

/// Aggregate bandwidth [B/s], which may depend on how many transfers run at once.
#[derive(Debug, Clone, PartialEq)]
pub enum Bandwidth {
    /// The same for any number; may be infinite.
    Fixed(f64),
    /// `table[n − 1]` with `n` transfers, the last entry with more; saturating and falling curves
    /// are allowed. Not empty.
    ByTransfers(Box<[f64]>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(number: u32, stripe_count: u32, stripe_offset: StripeOffset) -> Targets {
        Targets { number, bandwidth: 1.0, stripe_count, stripe_size: 1.0, stripe_offset }
    }

    #[test]
    fn files_begin_on_all_targets_equally_often_whatever_the_stripe_count() {
        // System: files made one after the other, until each target was where the allocator began anew. Expectation:
        // as many begin on each; of the first files, what Lustre's state machine gives.
        for (number, count) in (1..=13).flat_map(|n| (1..=n).map(move |count| (n, count))) {
            let of = targets(number, count, StripeOffset::RoundRobin);
            let mut begun = vec![0_u64; number as usize];
            let each = u64::from(number);
            let files = (RESEED / each + RESEED_EACH) * each * each;
            (0..files).for_each(|file| begun[of.first(file) as usize] += 1);
            assert!(begun.iter().all(|files| *files == begun[0]), "{count} of {number}: {begun:?}");
        }
        let first = |number, count| {
            let of = targets(number, count, StripeOffset::RoundRobin);
            (0..7).map(|file| of.first(file)).collect::<Vec<u64>>()
        };
        assert_eq!(first(10, 1), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(first(10, 10), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(first(10, 2), [0, 2, 4, 6, 8, 0, 3]);
        assert_eq!(first(6, 4), [0, 4, 3, 1, 0, 5, 3]);
        assert_eq!(first(12, 8), [0, 8, 5, 1, 10, 7, 3]);
        assert_eq!(first(10, 9), [0, 9, 8, 7, 6, 5, 4]);
    }

    #[test]
    fn files_begin_where_it_is_written() {
        let of = targets(10, 4, StripeOffset::Target(7));
        assert!((0..50).all(|file| of.first(file) == 7));
    }
}
