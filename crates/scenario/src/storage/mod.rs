//! Storages, on which data sets are kept.

mod burst;
mod file_server;
mod local_disk;
mod measured;
mod memory;
mod nvme_of;
mod object_store;
mod parallel_fs;
mod path;
mod service;
pub(super) mod settings;
mod shared;
pub(super) mod tier;

pub use burst::Burst;
pub use path::{Location, Queues, RequestPath, Service, Sharing};
pub use tier::{CacheUnit, Tier, TierCache};

/// A storage and its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Storage {
    /// Name, as jobs refer to it.
    pub name: String,
    /// Kind of the storage, given by the name of its table in the scenario file: `file-server` for
    /// `[storage.NAME.file-server]`.
    pub kind: &'static str,
    /// Resources that a request to the storage passes.
    pub path: RequestPath,
    /// Resources that a read passes if the nodes' page caches hold all files of the storage from the start, in place of those of
    /// `path`; only set with [`Access::Warm`].
    pub warm: Option<RequestPath>,
    /// Which limits of the storage the scenario file sets.
    pub written: Written,
    /// Capacity and write bandwidth as a tier, if the storage can be one.
    pub tier: Option<Tier>,
    /// Limits of writes that differ from those of reads.
    pub writes: WriteLimits,
    /// Cache of the storage's files on a tier of each node, if there is one.
    pub cache: Option<TierCache>,
}

/// Limits of writes to a storage that nodes share, where they differ from those of reads.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct WriteLimits {
    /// Highest bandwidth of one writer [B/s]; `None`: that of one transfer.
    pub per_stream: Option<f64>,
    /// Highest bandwidth of all writers of one node together [B/s], which reads do not share; `None`: reads and writes share what the node
    /// has.
    pub per_client: Option<f64>,
}

/// Which limits of a storage the scenario file itself sets; live runs enforce only these limits. All other limits come from
/// the profile, and the machine of a live run has them anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Whether the file sets the bandwidth of all transfers.
    pub bandwidth: bool,
    /// Whether the file sets the bandwidth of one transfer.
    pub per_stream: bool,
    /// Whether the file sets the bandwidth of one node's transfers together.
    pub per_client: bool,
    /// Whether the file sets the time to the first byte.
    pub latency: bool,
    /// Whether the file sets the operations per second.
    pub operations: bool,
    /// Whether the file sets the I/O queues.
    pub queues: bool,
    /// Whether the file sets the token bucket of bytes.
    pub burst: bool,
}

impl Written {
    /// Returns whether the file sets any limit.
    #[must_use]
    pub fn any(self) -> bool {
        self.bandwidth
            || self.per_stream
            || self.per_client
            || self.latency
            || self.operations
            || self.queues
            || self.burst
    }
}

/// Rate limit of requests to an object store, and how refused requests are retried.
///
/// A token bucket of at most `burst` tokens fills at `rate`; a request takes a token, or is refused if there is
/// none. After its `n`-th refusal a request waits for a time sampled uniformly between 0 and `first · 2ⁿ⁻¹`, or
/// `most` if that is less: exponential back-off with full jitter, as the SDKs of object stores do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestLimit {
    /// Requests per second [1/s].
    pub rate: f64,
    /// Capacity of the token bucket: number of requests that are served in a burst.
    pub burst: f64,
    /// Tokens in the bucket when a run begins: as many as it holds.
    pub tokens: f64,
    /// Maximum wait after the first refusal [s].
    pub first: f64,
    /// Maximum wait after any refusal [s].
    pub most: f64,
}

/// The storage targets of a parallel file system, and how files are striped over them: each file lies on
/// `stripe_count` targets, one after the other, beginning with the target that `stripe_offset` determines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Targets {
    /// Number of targets.
    pub number: u32,
    /// Bandwidth of each target [B/s].
    pub bandwidth: f64,
    /// Maximum number of targets that a file is striped over; at most `number`.
    pub stripe_count: u32,
    /// Stripe size: bytes of a file on one target before the file goes on to the next target [B].
    pub stripe_size: f64,
    /// Target on which each file begins.
    pub stripe_offset: StripeOffset,
}

/// Target on which a file begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StripeOffset {
    /// As Lustre's `lod_ost_alloc_rr` (`lod_qos.c`) places files: each file begins on the target after the last target of the
    /// previous file. When all targets have had their turn, the next round begins one target further on ("slowly precess the
    /// next start"), unless each round leaves one target over, which moves the start by itself. If each file is on all
    /// targets, each file begins one target further on than the previous file.
    RoundRobin,
    /// All files begin on this target, as `lfs setstripe --stripe-index` sets it.
    Target(u32),
}

/// Number of files after which Lustre's allocator starts again at a random target: `RESEED`, plus `RESEED_EACH` for each
/// target. This model starts again one target further on instead: some stripe counts prefer some targets for a while, but in
/// the long run all targets are used evenly.
const RESEED: u64 = 2_000;
const RESEED_EACH: u64 = 30;

impl Targets {
    /// Returns the target that file number `file` begins on; files are numbered in the order in which they were
    /// created.
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

    /// Returns the number of targets that together serve a request of `bytes` bytes.
    #[must_use]
    pub fn serving(&self, bytes: f64) -> u32 {
        let stripes = (bytes / self.stripe_size).ceil();
        // The conversion of a float to an integer saturates.
        (stripes as u32).clamp(1, self.stripe_count)
    }
}

impl Storage {
    /// Returns the resources that a read passes.
    #[must_use]
    pub fn reads(&self) -> &RequestPath {
        self.warm.as_ref().unwrap_or(&self.path)
    }

    /// Returns whether reads go through the node's page cache, which is empty at the start: true if `access` is "cold" (for
    /// files that the node mounts), or if the storage has a cache on a tier.
    #[must_use]
    pub fn passes_page_cache(&self) -> bool {
        self.cache.is_some() || self.path.access == Access::Cold
    }

    /// Returns whether the files that are read from the storage are in each node's memory: in its main memory, or in its page
    /// cache from the start.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.path.is_memory() || self.warm.is_some()
    }
}

/// How files are read.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Reads bypass the page cache.
    Direct,
    /// Reads go through the page cache, which holds none of the files at the start.
    Cold,
    /// Reads come from the page cache, which holds all of the files from the start.
    Warm,
    /// Reads bypass the page cache in the simulated world. Live runs keep the files in the page cache, and hold reads to the
    /// limits that the scenario sets, so that a storage of other speed than the machine's own can be run.
    Emulated,
}

impl Access {
    /// Returns the name under which profiles have measurements of such reads. Live runs keep the files of an emulated storage in
    /// the page cache.
    #[must_use]
    pub fn measured(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Cold => "cold",
            Self::Warm | Self::Emulated => "warm",
        }
    }
}

/// Core time that a request costs. It is part of the request's time: a request that is alone takes latency plus
/// bytes ÷ per-stream cap, or its core-seconds if they are more.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ReadCpu {
    /// Core time for each request [core-s].
    pub fixed: f64,
    /// Core time for each byte [core-s/B].
    pub per_byte: f64,
}

/// Aggregate bandwidth [B/s], which may depend on how many transfers run at once.
#[derive(Debug, Clone, PartialEq)]
pub enum Bandwidth {
    /// The same bandwidth for any number of transfers; may be infinite.
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
        // System: files are created one after the other, until the allocator has started again once at each target.
        // Expectation: equally many files begin on each target, and the first files begin where Lustre's state
        // machine places them.
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
    fn files_begin_on_the_target_that_the_scenario_sets() {
        let of = targets(10, 4, StripeOffset::Target(7));
        assert!((0..50).all(|file| of.first(file) == 7));
    }
}
