//! Which algorithm a library takes: by operation, size, ranks and nodes.

mod mpich;
mod nccl;
mod nccl_numbers;
mod open_mpi;

use super::request::{Across, Collective, Levels};
use super::{Algorithm, Operation};

/// Whose table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Library {
    /// NCCL 2.20: the least of the times that its model of each algorithm and protocol gives.
    Nccl,
    /// MPICH: thresholds of Thakur, Rabenseifner and Gropp 2005.
    Mpich,
    /// Open MPI, `coll_tuned`'s fixed decisions.
    OpenMpi,
}

/// GPUs by what NCCL tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// Compute capability below 8.
    Volta,
    /// 8.
    Ampere,
    /// 9.
    Hopper,
}

/// What the ranks are on.
#[derive(Debug, Clone, PartialEq)]
pub struct Fabric {
    /// How many.
    pub ranks: u32,
    /// On each node; the last one may have fewer.
    pub ranks_per_node: u32,
    /// On one node after the other, where that is not so; empty where it is.
    pub unequal: Vec<u32>,
    /// What a rank sends inside a node at most [B/s].
    pub intra: f64,
    /// What a node sends at most [B/s].
    pub inter: f64,
    /// Ranks of a node are on NVLink, not PCIe.
    pub nvlink: bool,
    /// The node's switch reduces and multicasts.
    pub in_switch: bool,
    /// Of the GPUs.
    pub generation: Generation,
    /// Number of rings or trees that share the bytes; each uses another NIC of a node.
    pub channels: u32,
}

/// How NCCL tells the receiver that bytes are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// A flag with each 4 bytes: least latency, half the bandwidth at most.
    Ll,
    /// A flag with each 120 bytes.
    Ll128,
    /// A flag with each chunk.
    Simple,
}

/// What a library takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// How.
    pub algorithm: Algorithm,
    /// What groups, one for each node, do inside and across, of [`Algorithm::Hierarchical`].
    pub levels: Option<(Algorithm, Algorithm, Across)>,
    /// Longest piece of a channel [B].
    pub chunk: Option<u64>,
    /// Number of rings or trees that work at the same time: [`Collective::channels`].
    pub channels: u32,
    /// NCCL's.
    pub protocol: Option<Protocol>,
    /// Time that NCCL's model expects [s].
    pub seconds: Option<f64>,
}

impl Library {
    /// All of them.
    pub const ALL: [Library; 3] = [Library::Nccl, Library::Mpich, Library::OpenMpi];

    /// Its name in scenarios.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Library::Nccl => "nccl",
            Library::Mpich => "mpich",
            Library::OpenMpi => "open-mpi",
        }
    }

    /// The library of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Library> {
        Self::ALL.into_iter().find(|library| library.name() == name)
    }
}

impl Choice {
    fn plain(algorithm: Algorithm) -> Choice {
        Choice { algorithm, levels: None, chunk: None, channels: 1, protocol: None, seconds: None }
    }

    fn in_chunks(algorithm: Algorithm, chunk: u64) -> Choice {
        Choice { chunk: Some(chunk), ..Choice::plain(algorithm) }
    }

    /// The collective of this choice, from root 0.
    #[must_use]
    pub fn collective(&self, operation: Operation, bytes: u64, fabric: &Fabric) -> Collective {
        let levels = self.levels.map(|(inner, outer, across)| {
            let groups = fabric.groups();
            Levels { groups, inner, outer, across }
        });
        let whole = Collective::new(operation, self.algorithm, fabric.ranks, bytes);
        let by_nodes = self.algorithm == Algorithm::DoubleBinaryTree || self.channels > 1;
        let nodes = if by_nodes { fabric.groups() } else { Vec::new() };
        Collective { chunk: self.chunk, levels, nodes, channels: self.channels, ..whole }
    }
}

impl Fabric {
    /// Whether all nodes have as many ranks.
    #[must_use]
    pub fn is_even(&self) -> bool {
        self.unequal.is_empty() && self.ranks.is_multiple_of(self.ranks_per_node.max(1))
    }

    /// How many nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        if !self.unequal.is_empty() {
            return self.unequal.len() as u32;
        }
        self.ranks.div_ceil(self.ranks_per_node.max(1))
    }

    /// Ranks of each node.
    #[must_use]
    pub fn groups(&self) -> Vec<u32> {
        if !self.unequal.is_empty() {
            return self.unequal.clone();
        }
        let size = self.ranks_per_node.max(1);
        let firsts = (0..self.ranks).step_by(size as usize);
        firsts.map(|first| size.min(self.ranks - first)).collect()
    }
}

/// What `library` takes for buffers of `bytes`, as in [`Collective::bytes`].
#[must_use]
pub fn choose(library: Library, operation: Operation, bytes: u64, fabric: &Fabric) -> Choice {
    match library {
        Library::Nccl => nccl::choose(operation, bytes, fabric),
        Library::Mpich => mpich::choose(operation, bytes, fabric.ranks.into()),
        Library::OpenMpi => open_mpi::choose(operation, bytes, fabric.ranks.into()),
    }
}
