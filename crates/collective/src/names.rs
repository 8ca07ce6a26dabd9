//! Operations, algorithms, and which algorithm offers which operation.

/// An operation of all ranks together; each rank has a buffer of `bytes` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Every rank gets a copy of the root's buffer.
    Broadcast,
    /// The root gets the sum of all buffers.
    Reduce,
    /// Every rank gets the sum of all buffers.
    Allreduce,
    /// Each rank gets one part of the sum of all buffers.
    ReduceScatter,
    /// Every rank gets the parts of all ranks; `bytes` is the length of all parts together.
    Allgather,
    /// Each rank gets one part of every rank's buffer.
    AllToAll,
}

/// The way in which an operation is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// Transfers between the root and each rank in turn; without a root, between each rank and each other rank in
    /// turn (pairwise exchange).
    Flat,
    /// A binomial tree: in every phase twice as many ranks have the buffer.
    BinomialTree,
    /// A scatter of parts along a binomial tree, then an allgather around a ring (van de Geijn).
    ScatterAllgather,
    /// A ring: each rank sends to the next one (Patarasu and Yuan 2009); with a root, a chain along which chunks go.
    Ring,
    /// Exchanges between pairs at distance 1, 2, 4, …: each rank sends all data that it has so far.
    RecursiveDoubling,
    /// Recursive halving, then recursive doubling (Rabenseifner).
    HalvingDoubling,
    /// Transfers over distances 1, 2, 4, … around the ring of ranks, for any number of ranks (Bruck et al. 1997).
    Bruck,
    /// Two binary trees, each with half of the bytes (Sanders, Speck and Träff 2009).
    DoubleBinaryTree,
    /// Algorithms inside groups of ranks, then across the groups, then inside them again.
    Hierarchical,
    /// Reduction and multicast by the switch (NVLS, SHARP).
    InSwitch,
}

impl Operation {
    /// All operations.
    pub const ALL: [Operation; 6] = [
        Operation::Broadcast,
        Operation::Reduce,
        Operation::Allreduce,
        Operation::ReduceScatter,
        Operation::Allgather,
        Operation::AllToAll,
    ];

    /// Returns the name that scenarios and profiles use.
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

    /// Returns the operation with this name; `None` if there is none.
    #[must_use]
    pub fn parse(name: &str) -> Option<Operation> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Returns the bus bandwidth ÷ the algorithm bandwidth (nccl-tests, PERFORMANCE.md): the minimum number of times
    /// that the buffer must pass the busiest link.
    #[must_use]
    pub fn busbw_factor(self, ranks: u32) -> f64 {
        let others = f64::from(ranks.saturating_sub(1)) / f64::from(ranks.max(1));
        match self {
            Operation::Broadcast | Operation::Reduce => 1.0,
            Operation::Allreduce => 2.0 * others,
            Operation::ReduceScatter | Operation::Allgather | Operation::AllToAll => others,
        }
    }

    /// Whether the operation has a root: one rank that sends or receives the whole buffer.
    #[must_use]
    pub fn has_root(self) -> bool {
        matches!(self, Operation::Broadcast | Operation::Reduce)
    }
}

impl Algorithm {
    /// All algorithms.
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

    /// Returns the name that scenarios and profiles use.
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

    /// Returns the algorithm with this name; `None` if there is none.
    #[must_use]
    pub fn parse(name: &str) -> Option<Algorithm> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Whether the algorithm offers `operation`.
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

    /// Whether the algorithm is a pipeline of chunks for `operation`, so that `chunk` matters. Other algorithms gain
    /// nothing from chunks: they either keep every limiting link busy with whole buffers or parts, or cannot pass on
    /// a single chunk.
    #[must_use]
    pub fn is_pipelined(self, operation: Operation) -> bool {
        use Operation::{Allreduce, Broadcast, Reduce};
        match self {
            Algorithm::BinomialTree | Algorithm::DoubleBinaryTree | Algorithm::InSwitch => {
                matches!(operation, Broadcast | Reduce | Allreduce)
            }
            Algorithm::Ring => operation.has_root(),
            Algorithm::Flat
            | Algorithm::ScatterAllgather
            | Algorithm::RecursiveDoubling
            | Algorithm::HalvingDoubling
            | Algorithm::Bruck
            | Algorithm::Hierarchical => false,
        }
    }
}
