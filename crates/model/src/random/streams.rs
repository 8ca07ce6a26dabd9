//! Random number generators, each determined by an address: purpose, owner, entity and index.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// The generator of all random numbers: xoshiro256++ (Blackman and Vigna, 2021). It is named explicitly, so that no library
/// release replaces it.
pub type Generator = Xoshiro256PlusPlus;

/// What random numbers are for; two purposes never share a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// Size of a sample; owner: data set, entity: sample. The same in every replication, because the data set is the same.
    SampleSize = 1,
    /// Order of an epoch; owner: job copy, entity: epoch.
    Order = 2,
    /// Request latency; owner: job copy, entity: ordinal of the sample, index: request.
    Latency = 3,
    /// Core-seconds of an operation; owner: job copy, entity: ordinal of the sample, index: stage and operation.
    Compute = 4,
    /// Time of a delay operation; owner, entity and index as for `Compute`.
    Delay = 5,
    /// Jitter of a step; owner: job copy, entity: model copy, index: step.
    Jitter = 6,
    /// Inter-arrival time of a background load; owner: the load, entity: ordinal of the request.
    Arrival = 7,
    /// Size of a background request; owner and entity as for `Arrival`.
    RequestSize = 8,
    /// Latency of a background request; owner and entity as for `Arrival`.
    RequestLatency = 9,
    /// Choices of a measurement, such as the order of trials and the offsets of reads; owner: probe, entity: round or trial.
    Trial = 10,
    /// Which of a law's bootstrap samples a run uses; owner: the law.
    Parameters = 11,
    /// Random deviation of a run from other runs with the same settings.
    Noise = 12,
    /// Random eviction from a cache; owner: the cache.
    Eviction = 13,
    /// Back-off time of a refused request; owner: job copy, entity: ordinal of the sample, index: request and attempt.
    BackOff = 14,
    /// Core-seconds of a trainer's thread; owner, entity and index as for `Jitter`.
    Launch = 15,
    /// Latency of a file that is staged (copied) to a node; owner: the node's staging, entity: the file.
    StagingLatency = 20,
    /// Back-off time of a staged file whose request was refused; owner and entity as for `StagingLatency`, index: attempt.
    StagingBackOff = 21,
    /// Random eviction from a cache on a storage tier; owner: the cache.
    TierEviction = 22,
    /// Core-seconds to convert a sample during staging; entity: the sample.
    StagingCompute = 23,
    /// Time until a node fails; owner: job copy, entity: node, index: number of the failure.
    Failure = 30,
    /// Time from the start of one job copy to the start of the next; owner: job, index: copy.
    JobArrival = 31,
    /// Which node fails at a time that the scenario gives; owner: job copy, entity: number of the failure.
    FailedNode = 32,
    /// Arrival of the last of the nodes that are not simulated; owner: job copy, entity: step, index: range of nodes that are alike.
    LastNode = 33,
}

impl Purpose {
    /// Returns whether the random numbers for this purpose differ between replications.
    fn varies(self) -> bool {
        !matches!(self, Purpose::SampleSize)
    }
}

/// All streams of one replication: a few keys, which determine the generator of every address.
///
/// The address is folded into 64 bits by two 64 × 64 → 128-bit multiplications whose halves are XORed (the "mum" step of Wang
/// Yi's wyhash), with keys that SplitMix64 derives from seed and replication. SplitMix64 then spreads these 64 bits over the
/// generator's state, as its authors recommend. Among a hundred million addresses of one run, two share a generator by accident
/// with probability 3e-4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    /// Keys for random numbers that are the same in every replication.
    fixed: Keys,
    /// Keys for all other random numbers.
    varying: Keys,
}

impl Streams {
    /// Returns the streams of one replication of a run with seed `seed`.
    pub fn new(seed: u64, replication: u32) -> Streams {
        let fixed = splitmix(splitmix(seed ^ 0x666f_7265_6261_7900));
        let varying = splitmix(fixed ^ splitmix(u64::from(replication)));
        Streams { fixed: Keys::new(fixed), varying: Keys::new(varying) }
    }

    /// Returns the generator of an address. The same address always gives the same generator.
    #[inline]
    pub fn at(&self, purpose: Purpose, owner: u64, entity: u64, index: u64) -> Generator {
        let keys = if purpose.varies() { &self.varying } else { &self.fixed };
        Generator::seed_from_u64(keys.hash(purpose as u64, owner, entity, index))
    }
}

/// Keys that hash addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Keys([u64; 4]);

impl Keys {
    /// Derives the keys from one number.
    fn new(seed: u64) -> Keys {
        let word = |i: u64| splitmix(seed.wrapping_add(i.wrapping_mul(GOLDEN)));
        Keys([word(1), word(2), word(3), word(4)])
    }

    /// Hashes an address to 64 bits.
    #[inline]
    fn hash(&self, purpose: u64, owner: u64, entity: u64, index: u64) -> u64 {
        let [a, b, c, d] = self.0;
        let place = mum(entity ^ a, index ^ b);
        let scope = mum(owner ^ c, purpose.wrapping_mul(GOLDEN) ^ d);
        mum(place ^ d, scope.rotate_left(32) ^ a)
    }
}

/// 2^64 divided by the golden ratio, odd: the increment of SplitMix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Multiplies `a` and `b` and returns the XOR of the product's two halves.
#[inline]
fn mum(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Returns one output of SplitMix64 (Steele, Lea and Flood, 2014) from the state `x`.
fn splitmix(x: u64) -> u64 {
    let mut z = x.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
