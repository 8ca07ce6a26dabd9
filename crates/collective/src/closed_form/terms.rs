//! The formulas for each operation and algorithm.

use super::Cost;
use crate::nccl_trees::NcclTrees;
use crate::pattern::log_up;
use crate::recursive_doubling::extra;
use crate::shards::chunks;
use crate::{Algorithm, Invalid, Operation};

/// Numbers that formulas share.
pub(super) struct Terms<'a> {
    /// Number of ranks p, and its binary logarithm, rounded up.
    p: f64,
    l: f64,
    ranks: u64,
    bytes: u64,
    n: f64,
    /// Length of the longest and of the shortest part that belongs to a rank [B].
    part: f64,
    least: f64,
    chunk: Option<u64>,
    cost: Cost,
    /// Number of ranks on each node, for trees over nodes.
    nodes: &'a [u32],
}

impl<'a> Terms<'a> {
    pub(super) fn new(ranks: u64, bytes: u64, chunk: Option<u64>, cost: &Cost) -> Terms<'a> {
        let (p, n, part) = (ranks as f64, bytes as f64, bytes.div_ceil(ranks) as f64);
        let (l, least) = (log_up(ranks) as f64, (bytes / ranks) as f64);
        Terms { p, l, ranks, bytes, n, part, least, chunk, cost: *cost, nodes: &[] }
    }

    /// Returns the terms with ranks on nodes; `nodes` has the number of ranks on each.
    pub(super) fn on(self, nodes: &'a [u32]) -> Terms<'a> {
        Terms { nodes, ..self }
    }

    /// Returns the terms with other lengths of the longest and the shortest part [B].
    pub(super) fn of_parts(self, part: f64, least: f64) -> Terms<'a> {
        Terms { part, least, ..self }
    }

    /// Returns the time of one message [s].
    fn send(&self, bytes: f64) -> f64 {
        self.cost.alpha + bytes * self.cost.beta
    }

    fn add(&self, bytes: f64) -> f64 {
        bytes * self.cost.gamma
    }

    /// Returns the number of bytes in all parts except one of the longest [B].
    fn others(&self) -> f64 {
        self.n - self.part
    }

    /// Returns the time of an operation by an algorithm [s]; an error if the algorithm does not offer the operation, or is
    /// one in groups, whose time is that of other algorithms.
    pub(super) fn seconds(
        &self,
        algorithm: Algorithm,
        operation: Operation,
    ) -> Result<f64, Invalid> {
        if self.ranks < 2 || self.bytes == 0 {
            return Ok(0.0);
        }
        let seconds = match operation {
            Operation::Broadcast => self.broadcast(algorithm),
            Operation::Reduce => self.reduce(algorithm),
            Operation::Allreduce => self.allreduce(algorithm),
            Operation::ReduceScatter => self.reduce_scatter(algorithm),
            Operation::Allgather => self.allgather(algorithm),
            Operation::AllToAll => self.all_to_all(algorithm),
        };
        seconds.ok_or(Invalid::NotOffered { algorithm, operation })
    }

    fn all_to_all(&self, algorithm: Algorithm) -> Option<f64> {
        match algorithm {
            Algorithm::Bruck => Some(self.bruck()),
            Algorithm::Flat => Some((self.p - 1.0) * self.send(self.part)),
            Algorithm::BinomialTree
            | Algorithm::ScatterAllgather
            | Algorithm::Ring
            | Algorithm::RecursiveDoubling
            | Algorithm::HalvingDoubling
            | Algorithm::DoubleBinaryTree
            | Algorithm::InSwitch
            | Algorithm::Hierarchical => None,
        }
    }

    fn allreduce(&self, algorithm: Algorithm) -> Option<f64> {
        Some(match algorithm {
            Algorithm::RecursiveDoubling => {
                let levels = f64::from(self.ranks.ilog2());
                self.folded(levels * (self.send(self.n) + self.add(self.n)))
            }
            Algorithm::HalvingDoubling => self.folded(self.halved_and_doubled()),
            Algorithm::DoubleBinaryTree => self.two_trees_both_ways(),
            Algorithm::InSwitch => self.broadcast(algorithm)?,
            Algorithm::Ring => self.reduce_scatter(algorithm)? + self.allgather(algorithm)?,
            Algorithm::Flat | Algorithm::BinomialTree => {
                self.reduce(algorithm)? + self.broadcast(algorithm)?
            }
            Algorithm::ScatterAllgather | Algorithm::Bruck | Algorithm::Hierarchical => {
                return None;
            }
        })
    }

    fn reduce_scatter(&self, algorithm: Algorithm) -> Option<f64> {
        match algorithm {
            Algorithm::InSwitch => Some(self.allgather(algorithm)? + self.add(self.part)),
            Algorithm::HalvingDoubling => {
                Some(self.allgather(Algorithm::RecursiveDoubling)? + self.add(self.doubled()))
            }
            Algorithm::Flat | Algorithm::Ring => {
                Some(self.allgather(algorithm)? + self.add((self.p - 1.0) * self.part))
            }
            Algorithm::BinomialTree
            | Algorithm::ScatterAllgather
            | Algorithm::RecursiveDoubling
            | Algorithm::Bruck
            | Algorithm::DoubleBinaryTree
            | Algorithm::Hierarchical => None,
        }
    }

    fn chunks(&self) -> f64 {
        chunks(self.bytes, self.chunk) as f64
    }

    /// Returns the number of chunks in each of the two trees.
    fn half_chunks(&self) -> f64 {
        chunks(self.bytes.div_ceil(2), self.chunk) as f64
    }

    fn height(&self) -> f64 {
        f64::from((self.ranks - 1).ilog2())
    }

    fn broadcast(&self, algorithm: Algorithm) -> Option<f64> {
        let chunk = self.send((self.n / self.chunks()).ceil());
        Some(match algorithm {
            Algorithm::BinomialTree => {
                (self.chunks() - 1.0) * self.cost.alpha + self.l * self.send(self.n)
            }
            Algorithm::Ring => (self.p - 2.0 + self.chunks()) * chunk,
            Algorithm::InSwitch => (1.0 + self.chunks()) * chunk,
            Algorithm::DoubleBinaryTree => {
                (self.half_chunks() + self.height()) * self.send(self.two_halves())
            }
            Algorithm::ScatterAllgather => self.scatter() + self.allgather(Algorithm::Ring)?,
            Algorithm::HalvingDoubling => {
                self.scatter() + self.allgather(Algorithm::RecursiveDoubling)?
            }
            Algorithm::Flat => (self.p - 1.0) * self.send(self.n),
            Algorithm::RecursiveDoubling | Algorithm::Bruck | Algorithm::Hierarchical => {
                return None;
            }
        })
    }

    /// Returns the time of a reduction [s]: that of a broadcast, and that of adding.
    fn reduce(&self, algorithm: Algorithm) -> Option<f64> {
        let chunk = self.add((self.n / self.chunks()).ceil());
        let added = match algorithm {
            Algorithm::BinomialTree => self.add(self.l * self.n),
            Algorithm::Ring => (self.p - 2.0 + self.chunks()) * chunk,
            Algorithm::InSwitch => self.chunks() * chunk,
            Algorithm::DoubleBinaryTree => {
                (self.half_chunks() + self.height()) * self.add(self.two_halves())
            }
            Algorithm::ScatterAllgather => self.add((self.p - 1.0) * self.part),
            Algorithm::HalvingDoubling => self.add(self.doubled()),
            Algorithm::Flat => self.add((self.p - 1.0) * self.n),
            Algorithm::RecursiveDoubling | Algorithm::Bruck | Algorithm::Hierarchical => {
                return None;
            }
        };
        Some(self.broadcast(algorithm)? + added)
    }

    /// Returns the bytes of two chunks, one from each of the two trees.
    fn two_halves(&self) -> f64 {
        2.0 * ((self.n / 2.0).ceil() / self.half_chunks()).ceil()
    }

    /// Returns the time of an allreduce by two trees [s]. The phases of the way up and those of the way down overlap.
    fn two_trees_both_ways(&self) -> f64 {
        let trees = NcclTrees::new(self.ranks, self.nodes, self.bytes, self.chunk);
        let (chunks, depth) = (self.half_chunks(), trees.height() as f64);
        let busy = (chunks + depth - 1.0) * self.two_halves();
        // A rank receives half a chunk from each of two children and two parents, and adds the halves from the
        // children; if it is in a chain, it has one child more.
        let (moved, added) = if self.nodes.is_empty() { (2.0, 1.0) } else { (2.5, 1.5) };
        let phases = chunks + 2.0 * depth - 1.0;
        phases * self.cost.alpha + moved * busy * self.cost.beta + self.add(added * busy)
    }

    /// Returns the time of a scatter of parts from the root [s].
    fn scatter(&self) -> f64 {
        self.l * self.cost.alpha + self.others() * self.cost.beta
    }

    fn allgather(&self, algorithm: Algorithm) -> Option<f64> {
        // The bytes whose transfers follow one another are those that one rank receives, and, for ranks beyond a power of
        // two, those that fold them in and return the result to them.
        let after = |phases: f64, bytes: f64| phases * self.cost.alpha + bytes * self.cost.beta;
        match algorithm {
            Algorithm::RecursiveDoubling => Some(after(self.doublings(), self.doubled())),
            Algorithm::Bruck => Some(after(self.l, self.handed_on())),
            Algorithm::InSwitch => Some(self.send(self.part) + self.send(self.n - self.least)),
            Algorithm::Flat | Algorithm::Ring => {
                Some(after(self.p - 1.0, (self.p - 1.0) * self.part))
            }
            Algorithm::BinomialTree
            | Algorithm::ScatterAllgather
            | Algorithm::HalvingDoubling
            | Algorithm::DoubleBinaryTree
            | Algorithm::Hierarchical => None,
        }
    }
}

/// Formulas for algorithms in which the distance doubles: recursive doubling, with ranks beyond a power of two folded
/// in, and Bruck's algorithms.
impl Terms<'_> {
    /// Returns the number of phases of an allgather by doubling.
    fn doublings(&self) -> f64 {
        let fold = if extra(self.ranks) > 0 { 2.0 } else { 0.0 };
        fold + f64::from(self.ranks.ilog2())
    }

    /// Returns the bytes whose transfers follow one another in an allgather by doubling [B]: a folded rank's part, the
    /// blocks that double, and at the end all other parts, which the folded rank gets back.
    fn doubled(&self) -> f64 {
        let pairs = extra(self.ranks);
        let block = |phase: u32| ((1 << phase) + pairs.min(1 << phase)) as f64 * self.part;
        let doubling: f64 = (0..self.ranks.ilog2()).map(|phase| block(phase).min(self.n)).sum();
        let fold = if pairs > 0 { self.part + self.n - self.least } else { 0.0 };
        doubling + fold
    }

    /// Returns the bytes that each rank sends in Bruck's allgather [B]. In each phase a rank sends all parts that it
    /// has, or as many as the receiver still lacks, if these are fewer.
    fn handed_on(&self) -> f64 {
        let parts = |phase: u64| (1 << phase).min(self.ranks - (1 << phase)) as f64;
        (0..log_up(self.ranks)).map(|phase| (parts(phase) * self.part).min(self.n)).sum()
    }

    /// Returns the time of an allreduce by doubling, or by halving and doubling, that takes `inside` among a power of two
    /// of ranks [s]. Before the allreduce of the other ranks, each folded rank sends its whole buffer to its partner; afterwards the partner sends the result back.
    fn folded(&self, inside: f64) -> f64 {
        let fold = if extra(self.ranks) > 0 { 1.0 } else { 0.0 };
        fold * (2.0 * self.send(self.n) + self.add(self.n)) + inside
    }

    /// Returns the time of an allreduce by halving and doubling among a power of two of ranks [s].
    fn halved_and_doubled(&self) -> f64 {
        let levels = f64::from(self.ranks.ilog2());
        let power = self.ranks - extra(self.ranks);
        let part = self.bytes.div_ceil(power) as f64;
        let block = |phase| ((1u64 << phase) as f64 * part).min(self.n);
        let bytes: f64 = (0..power.ilog2()).map(block).sum();
        2.0 * (levels * self.cost.alpha + bytes * self.cost.beta) + self.add(bytes)
    }

    /// Returns the time of Bruck's all-to-all [s]: phase k carries the parts whose distance to their destination has
    /// bit k.
    fn bruck(&self) -> f64 {
        let ways = |phase: u64| {
            let (bit, whole) = (1u64 << phase, 2u64 << phase);
            self.ranks / whole * bit + (self.ranks % whole).saturating_sub(bit)
        };
        let phases = 0..log_up(self.ranks);
        phases.map(|phase| self.send(ways(phase) as f64 * self.part)).sum()
    }
}
