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
use super::{Algorithm, Invalid, Operation};

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
    /// return at once. An error if the algorithm does not offer the operation, or if it is hierarchical: its steps are
    /// those of the algorithms inside and across groups.
    pub(super) fn steps(
        &self,
        algorithm: Algorithm,
        operation: Operation,
    ) -> Result<Vec<Step>, Invalid> {
        if self.shards.parts() < 2 || self.shards.bytes() == 0 {
            return Ok(Vec::new());
        }
        let steps = match operation {
            Operation::Broadcast => self.broadcast(algorithm),
            Operation::Reduce => self.reduce(algorithm),
            Operation::Allreduce => self.allreduce(algorithm),
            Operation::ReduceScatter => self.reduce_scatter(algorithm),
            Operation::Allgather => self.allgather(algorithm),
            Operation::AllToAll => self.all_to_all(algorithm),
        };
        steps.ok_or(Invalid::NotOffered { algorithm, operation })
    }

    /// Returns the steps of a broadcast; like the functions below, `None` if the algorithm does not offer it.
    fn broadcast(&self, algorithm: Algorithm) -> Option<Vec<Step>> {
        let (ranks, bytes, chunk) = (self.shards.parts(), self.shards.bytes(), self.chunk);
        let shape = match algorithm {
            Algorithm::BinomialTree => Shape::Binomial(Binomial::new(ranks, bytes, chunk)),
            Algorithm::Ring => Shape::Chain(Chain::new(ranks, bytes, chunk)),
            Algorithm::DoubleBinaryTree => Shape::TwoTree(TwoTree::new(ranks, bytes, chunk)),
            Algorithm::InSwitch => Shape::Multicast(Multicast::new(ranks, bytes, chunk, false)),
            Algorithm::ScatterAllgather => {
                return Some([vec![self.scatter()], vec![self.ring(false)]].concat());
            }
            Algorithm::HalvingDoubling => {
                let gathered = halving_doubling::allgather(&self.shards);
                return Some([vec![self.scatter()], gathered].concat());
            }
            Algorithm::Flat => Shape::Star(Star { ranks, bytes }),
            Algorithm::RecursiveDoubling | Algorithm::Bruck | Algorithm::Hierarchical => {
                return None;
            }
        };
        Some(vec![Step::new(shape)])
    }

    /// Returns the steps of a reduction: the steps of a broadcast, run backwards. Broadcasts that end with an allgather
    /// are an exception, because the allgather also sends the root data that the root has already. Run backwards, the
    /// allgather would add the root's buffer twice. Algorithms with such a broadcast reduce by a reduce-scatter and a
    /// gather.
    fn reduce(&self, algorithm: Algorithm) -> Option<Vec<Step>> {
        let scattered = match algorithm {
            Algorithm::ScatterAllgather => self.reduce_scatter(Algorithm::Ring)?,
            Algorithm::HalvingDoubling => {
                if let Some(steps) = halving_doubling::reduce(&self.shards) {
                    return Some(steps);
                }
                self.reduce_scatter(algorithm)?
            }
            Algorithm::Flat
            | Algorithm::BinomialTree
            | Algorithm::Ring
            | Algorithm::DoubleBinaryTree
            | Algorithm::InSwitch
            | Algorithm::RecursiveDoubling
            | Algorithm::Bruck
            | Algorithm::Hierarchical => {
                return Some(backwards(self.broadcast(algorithm)?, Kind::Reduce));
            }
        };
        Some([scattered, vec![self.scatter().backwards(Kind::Copy)]].concat())
    }

    /// Returns a scatter down a binomial tree; run backwards, it is a gather.
    pub(super) fn scatter(&self) -> Step {
        Step::new(Shape::Scatter(Scatter { shards: self.shards.clone() }))
    }

    fn allreduce(&self, algorithm: Algorithm) -> Option<Vec<Step>> {
        let (ranks, bytes, chunk) = (self.shards.parts(), self.shards.bytes(), self.chunk);
        let shape = match algorithm {
            Algorithm::DoubleBinaryTree => {
                Shape::NcclTrees(NcclTrees::new(ranks, &self.nodes, bytes, chunk))
            }
            Algorithm::InSwitch => Shape::Multicast(Multicast::new(ranks, bytes, chunk, true)),
            Algorithm::RecursiveDoubling => return Some(halving_doubling::exchange(&self.shards)),
            Algorithm::HalvingDoubling => return Some(halving_doubling::allreduce(&self.shards)),
            Algorithm::Ring => {
                return Some(
                    [self.reduce_scatter(algorithm)?, self.allgather(algorithm)?].concat(),
                );
            }
            Algorithm::Flat | Algorithm::BinomialTree => {
                return Some([self.reduce(algorithm)?, self.broadcast(algorithm)?].concat());
            }
            Algorithm::ScatterAllgather | Algorithm::Bruck | Algorithm::Hierarchical => {
                return None;
            }
        };
        Some(vec![Step::new(shape)])
    }

    fn reduce_scatter(&self, algorithm: Algorithm) -> Option<Vec<Step>> {
        let gathered = match algorithm {
            // The ring sends to the rank below, so that it sends to the rank above when it runs backwards.
            Algorithm::Ring => vec![self.ring(true)],
            Algorithm::HalvingDoubling => halving_doubling::allgather(&self.shards),
            Algorithm::Flat | Algorithm::InSwitch => self.allgather(algorithm)?,
            Algorithm::BinomialTree
            | Algorithm::ScatterAllgather
            | Algorithm::RecursiveDoubling
            | Algorithm::Bruck
            | Algorithm::DoubleBinaryTree
            | Algorithm::Hierarchical => return None,
        };
        Some(backwards(gathered, Kind::Reduce))
    }

    fn allgather(&self, algorithm: Algorithm) -> Option<Vec<Step>> {
        let shards = self.shards.clone();
        let shape = match algorithm {
            Algorithm::RecursiveDoubling => return Some(halving_doubling::allgather(&shards)),
            Algorithm::Ring => return Some(vec![self.ring(false)]),
            Algorithm::Bruck => Shape::BruckGather(BruckGather { shards }),
            Algorithm::InSwitch => Shape::SwitchGather(SwitchGather { shards }),
            Algorithm::Flat => Shape::Pairwise(Pairwise { shards, exchange: false }),
            Algorithm::BinomialTree
            | Algorithm::ScatterAllgather
            | Algorithm::HalvingDoubling
            | Algorithm::DoubleBinaryTree
            | Algorithm::Hierarchical => return None,
        };
        Some(vec![Step::new(shape)])
    }

    /// Returns an allgather around the ring of ranks, towards lower ranks if `down` is set.
    fn ring(&self, down: bool) -> Step {
        Step::new(Shape::Ring(Ring { shards: self.shards.clone(), down }))
    }

    fn all_to_all(&self, algorithm: Algorithm) -> Option<Vec<Step>> {
        let shards = self.shards.clone();
        let shape = match algorithm {
            Algorithm::Bruck => Shape::BruckExchange(BruckExchange { shards }),
            Algorithm::Flat => Shape::Pairwise(Pairwise { shards, exchange: true }),
            Algorithm::BinomialTree
            | Algorithm::ScatterAllgather
            | Algorithm::Ring
            | Algorithm::RecursiveDoubling
            | Algorithm::HalvingDoubling
            | Algorithm::DoubleBinaryTree
            | Algorithm::InSwitch
            | Algorithm::Hierarchical => return None,
        };
        Some(vec![Step::new(shape)])
    }
}

/// Returns the steps in reverse order, each run backwards; receivers do with the bytes what `kind` says.
pub(super) fn backwards(steps: Vec<Step>, kind: Kind) -> Vec<Step> {
    steps.into_iter().rev().map(|step| step.backwards(kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_exist_exactly_for_the_operations_that_an_algorithm_offers() {
        // System: 6 ranks, which are no power of two. Expectation: nothing stands in for a pair that has no steps of its own.
        // Steps in groups are those of other algorithms.
        let task = Task::new(6, 600, None);
        for algorithm in Algorithm::ALL {
            for operation in Operation::ALL {
                let has = algorithm.offers(operation) && algorithm != Algorithm::Hierarchical;
                let steps = task.steps(algorithm, operation);
                assert_eq!(steps.is_ok(), has, "{algorithm:?}, {operation:?}");
            }
        }
    }
}
