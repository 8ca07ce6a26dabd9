//! The steps of each algorithm for each operation, on ranks 0 to n − 1 with the root at 0.

use super::binomial_tree::Binomial;
use super::bruck::{BruckExchange, BruckGather};
use super::double_binary_tree::TwoTree;
use super::flat::{Pairwise, Star};
use super::halving_doubling;
use super::in_switch::{Multicast, SwitchGather};
use super::nccl_trees::NcclTrees;
use super::part::{Shape, Step};
use super::ring::{Chain, Ring};
use super::scatter_allgather::Scatter;
use super::shards::Shards;
use super::transfer::Kind;
use super::{Algorithm, Operation};

/// The task for which steps are made: the parts of the buffer, the chunk size and the nodes.
#[derive(Debug, Clone)]
pub(super) struct Task {
    /// The part of the buffer that belongs to each rank.
    pub(super) shards: Shards,
    pub(super) chunk: Option<u64>,
    /// Number of ranks on each node, for trees over nodes; empty if each rank is on a node of its own.
    pub(super) nodes: Vec<u32>,
}

impl Task {
    /// Creates a task in which all ranks have equal parts.
    pub(super) fn new(ranks: u64, bytes: u64, chunk: Option<u64>) -> Task {
        Task { shards: Shards::fair(bytes, ranks), chunk, nodes: Vec::new() }
    }

    /// Returns the steps of an operation by an algorithm. There are none for one rank, or for no bytes: libraries
    /// return at once.
    pub(super) fn steps(&self, algorithm: Algorithm, operation: Operation) -> Vec<Step> {
        if self.shards.parts() < 2 || self.shards.bytes() == 0 {
            return Vec::new();
        }
        match operation {
            Operation::Broadcast => self.broadcast(algorithm),
            Operation::Reduce => self.reduce(algorithm),
            Operation::Allreduce => self.allreduce(algorithm),
            Operation::ReduceScatter => backwards(self.allgather(algorithm, true), Kind::Reduce),
            Operation::Allgather => self.allgather(algorithm, false),
            Operation::AllToAll => self.all_to_all(algorithm),
        }
    }

    fn broadcast(&self, algorithm: Algorithm) -> Vec<Step> {
        let (ranks, bytes, chunk) = (self.shards.parts(), self.shards.bytes(), self.chunk);
        let shape = match algorithm {
            Algorithm::BinomialTree => Shape::Binomial(Binomial::new(ranks, bytes, chunk)),
            Algorithm::Ring => Shape::Chain(Chain::new(ranks, bytes, chunk)),
            Algorithm::DoubleBinaryTree => Shape::TwoTree(TwoTree::new(ranks, bytes, chunk)),
            Algorithm::InSwitch => Shape::Multicast(Multicast::new(ranks, bytes, chunk, false)),
            Algorithm::ScatterAllgather => {
                return [vec![self.scatter()], self.allgather(Algorithm::Ring, false)].concat();
            }
            Algorithm::HalvingDoubling => {
                return [vec![self.scatter()], halving_doubling::allgather(&self.shards)].concat();
            }
            _ => Shape::Star(Star { ranks, bytes }),
        };
        vec![Step::new(shape)]
    }

    /// Returns the steps of a reduction: the steps of a broadcast, run backwards. Broadcasts that end with an allgather
    /// are an exception, because the allgather also sends the root data that the root has already. Run backwards, the
    /// allgather would add the root's buffer twice. Algorithms with such a broadcast reduce by a reduce-scatter and a
    /// gather.
    fn reduce(&self, algorithm: Algorithm) -> Vec<Step> {
        let scattered = match algorithm {
            Algorithm::ScatterAllgather => self.steps(Algorithm::Ring, Operation::ReduceScatter),
            Algorithm::HalvingDoubling => {
                if let Some(steps) = halving_doubling::reduce(&self.shards) {
                    return steps;
                }
                self.steps(algorithm, Operation::ReduceScatter)
            }
            _ => return backwards(self.broadcast(algorithm), Kind::Reduce),
        };
        [scattered, vec![self.scatter().backwards(Kind::Copy)]].concat()
    }

    /// Returns a scatter down a binomial tree; run backwards, it is a gather.
    pub(super) fn scatter(&self) -> Step {
        Step::new(Shape::Scatter(Scatter { shards: self.shards.clone() }))
    }

    fn allreduce(&self, algorithm: Algorithm) -> Vec<Step> {
        let (ranks, bytes, chunk) = (self.shards.parts(), self.shards.bytes(), self.chunk);
        let both = |first: Operation, second: Operation| {
            [self.steps(algorithm, first), self.steps(algorithm, second)].concat()
        };
        let shape = match algorithm {
            Algorithm::DoubleBinaryTree => {
                Shape::NcclTrees(NcclTrees::new(ranks, &self.nodes, bytes, chunk))
            }
            Algorithm::InSwitch => Shape::Multicast(Multicast::new(ranks, bytes, chunk, true)),
            Algorithm::RecursiveDoubling => return halving_doubling::exchange(&self.shards),
            Algorithm::HalvingDoubling => return halving_doubling::allreduce(&self.shards),
            Algorithm::Ring => return both(Operation::ReduceScatter, Operation::Allgather),
            _ => return both(Operation::Reduce, Operation::Broadcast),
        };
        vec![Step::new(shape)]
    }

    /// Returns the steps of an allgather. `reversed` says that the caller will run the steps backwards. A ring then
    /// sends to the rank below, so that it sends to the rank above when it runs backwards.
    fn allgather(&self, algorithm: Algorithm, reversed: bool) -> Vec<Step> {
        let shards = self.shards.clone();
        let shape = match algorithm {
            Algorithm::RecursiveDoubling | Algorithm::HalvingDoubling => {
                return halving_doubling::allgather(&shards);
            }
            Algorithm::Ring => Shape::Ring(Ring { shards, down: reversed }),
            Algorithm::Bruck => Shape::BruckGather(BruckGather { shards }),
            Algorithm::InSwitch => Shape::SwitchGather(SwitchGather { shards }),
            _ => Shape::Pairwise(Pairwise { shards, exchange: false }),
        };
        vec![Step::new(shape)]
    }

    fn all_to_all(&self, algorithm: Algorithm) -> Vec<Step> {
        let shards = self.shards.clone();
        vec![Step::new(match algorithm {
            Algorithm::Bruck => Shape::BruckExchange(BruckExchange { shards }),
            _ => Shape::Pairwise(Pairwise { shards, exchange: true }),
        })]
    }
}

/// Returns the steps in reverse order, each run backwards; receivers do with the bytes what `kind` says.
pub(super) fn backwards(steps: Vec<Step>, kind: Kind) -> Vec<Step> {
    steps.into_iter().rev().map(|step| step.backwards(kind)).collect()
}
