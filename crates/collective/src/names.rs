//! Operations, algorithms, and which does which.

/// What all ranks together ask for, each with a buffer of `bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// The root's buffer, at every rank.
    Broadcast,
    /// The sum of all buffers, at the root.
    Reduce,
    /// The sum of all buffers, at every rank.
    Allreduce,
    /// The sum of all buffers, a part of it at each rank.
    ReduceScatter,
    /// All ranks' parts, at every rank; `bytes` is the whole.
    Allgather,
    /// A part of each rank's buffer to each rank.
    AllToAll,
}

/// How it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// The root with each rank in turn; without a root, each rank with each other in turn (pairwise
    /// exchange).
    Flat,
    /// Half the ranks more in every phase.
    BinomialTree,
    /// Parts along a binomial tree, then an allgather around a ring (van de Geijn).
    ScatterAllgather,
    /// Each rank to the next (Patarasu and Yuan 2009); from a root, chunks along a chain.
    Ring,
    /// Pairs at distance 1, 2, 4, … exchange what they have.
    RecursiveDoubling,
    /// Recursive halving, then recursive doubling (Rabenseifner).
    HalvingDoubling,
    /// Distances 1, 2, 4, … around the ring, for any number of ranks (Bruck et al. 1997).
    Bruck,
    /// Two binary trees, each with half of the bytes (Sanders, Speck and Träff 2009).
    DoubleBinaryTree,
    /// Inside groups, across them, inside them.
    Hierarchical,
    /// The switch reduces and multicasts (NVLS, SHARP).
    InSwitch,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 6] = [
        Operation::Broadcast,
        Operation::Reduce,
        Operation::Allreduce,
        Operation::ReduceScatter,
        Operation::Allgather,
        Operation::AllToAll,
    ];

    /// Its name in scenarios and profiles.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Operation::Broadcast => "broadcast",
            Operation::Reduce => "reduce",
            Operation::Allreduce => "allreduce",
            Operation::ReduceScatter => "reduce-scatter",
            Operation::Allgather => "allgather",
            Operation::AllToAll => "all-to-all",
        }
    }

    /// The operation of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Operation> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Busbw over algbw (nccl-tests, PERFORMANCE.md): how many times the buffer passes the busiest link
    /// at least.
    #[must_use]
    pub fn busbw_factor(self, ranks: u32) -> f64 {
        let others = f64::from(ranks.saturating_sub(1)) / f64::from(ranks.max(1));
        match self {
            Operation::Broadcast | Operation::Reduce => 1.0,
            Operation::Allreduce => 2.0 * others,
            Operation::ReduceScatter | Operation::Allgather | Operation::AllToAll => others,
        }
    }

    /// Whether one rank gives or gets it all.
    #[must_use]
    pub fn has_root(self) -> bool {
        matches!(self, Operation::Broadcast | Operation::Reduce)
    }
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 10] = [
        Algorithm::Flat,
        Algorithm::BinomialTree,
        Algorithm::ScatterAllgather,
        Algorithm::Ring,
        Algorithm::RecursiveDoubling,
        Algorithm::HalvingDoubling,
        Algorithm::Bruck,
        Algorithm::DoubleBinaryTree,
        Algorithm::Hierarchical,
        Algorithm::InSwitch,
    ];

    /// Its name in scenarios and profiles.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Flat => "flat",
            Algorithm::BinomialTree => "binomial-tree",
            Algorithm::ScatterAllgather => "scatter-allgather",
            Algorithm::Ring => "ring",
            Algorithm::RecursiveDoubling => "recursive-doubling",
            Algorithm::HalvingDoubling => "halving-doubling",
            Algorithm::Bruck => "bruck",
            Algorithm::DoubleBinaryTree => "double-binary-tree",
            Algorithm::Hierarchical => "hierarchical",
            Algorithm::InSwitch => "in-switch",
        }
    }

    /// The algorithm of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Algorithm> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Whether it can do `operation`.
    #[must_use]
    pub fn offers(self, operation: Operation) -> bool {
        use Operation::{AllToAll, Allgather, Allreduce, Broadcast, Reduce, ReduceScatter};
        match self {
            Algorithm::Flat | Algorithm::Hierarchical => true,
            Algorithm::BinomialTree | Algorithm::DoubleBinaryTree => {
                matches!(operation, Broadcast | Reduce | Allreduce)
            }
            Algorithm::ScatterAllgather => matches!(operation, Broadcast | Reduce),
            Algorithm::Ring | Algorithm::InSwitch => operation != AllToAll,
            Algorithm::RecursiveDoubling => matches!(operation, Allreduce | Allgather),
            Algorithm::HalvingDoubling => {
                matches!(operation, Broadcast | Reduce | Allreduce | ReduceScatter)
            }
            Algorithm::Bruck => matches!(operation, Allgather | AllToAll),
        }
    }

    /// Whether `chunk` matters: the others either keep every link that limits them busy with whole
    /// buffers or parts of them, or could not go on with a chunk alone.
    #[must_use]
    pub fn is_pipelined(self, operation: Operation) -> bool {
        use Operation::{Allreduce, Broadcast, Reduce};
        match self {
            Algorithm::BinomialTree | Algorithm::DoubleBinaryTree | Algorithm::InSwitch => {
                matches!(operation, Broadcast | Reduce | Allreduce)
            }
            Algorithm::Ring => operation.has_root(),
            _ => false,
        }
    }
}
