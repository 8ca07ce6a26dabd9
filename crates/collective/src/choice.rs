//! The algorithm that a library chooses, by operation, size, ranks and nodes.

mod mpich;
mod nccl;
mod nccl_numbers;
mod open_mpi;

use super::request::{Across, Collective, Levels};
use super::{Algorithm, Operation};

/// A library whose choice of algorithms is modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Library {
    /// NCCL 2.20: the algorithm and protocol for which NCCL's model gives the shortest time.
    Nccl,
    /// MPICH: thresholds of Thakur, Rabenseifner and Gropp 2005.
    Mpich,
    /// Open MPI: the fixed decisions of `coll_tuned`.
    OpenMpi,
}

/// GPU generations that NCCL distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// Compute capability below 8.
    Volta,
    /// Compute capability 8.
    Ampere,
    /// Compute capability 9.
    Hopper,
}

/// The nodes, GPUs and networks that the ranks use.
#[derive(Debug, Clone, PartialEq)]
pub struct Fabric {
    /// Number of ranks.
    pub ranks: u32,
    /// Number of ranks on each node; the last node may have fewer.
    pub ranks_per_node: u32,
    /// Number of ranks on each node, in the order of the nodes, if `ranks_per_node` does not
    /// describe them; empty if it does.
    pub unequal: Vec<u32>,
    /// Bandwidth of a rank inside a node [B/s].
    pub intra: f64,
    /// Bandwidth of a node to other nodes [B/s].
    pub inter: f64,
    /// Whether the ranks of a node are connected by NVLink, not PCIe.
    pub nvlink: bool,
    /// Whether the node's switch reduces and multicasts.
    pub in_switch: bool,
    /// Generation of the GPUs.
    pub generation: Generation,
    /// Number of rings or trees that share the bytes; each uses a different NIC of a node.
    pub channels: u32,
}

/// The way in which NCCL signals to the receiver that bytes have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// A flag with each 4 bytes: lowest latency, half the bandwidth at most.
    Ll,
    /// A flag with each 120 bytes.
    Ll128,
    /// A flag with each chunk.
    Simple,
}

/// The choice of a library for one operation and size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// For [`Algorithm::Hierarchical`], in which each node is a group: the algorithm inside groups,
    /// the algorithm across groups, and the ranks that exchange data across groups.
    pub levels: Option<(Algorithm, Algorithm, Across)>,
    /// Largest chunk of a channel [B]; `None` for whole buffers.
    pub chunk: Option<u64>,
    /// Number of rings or trees that work at the same time: [`Collective::channels`].
    pub channels: u32,
    /// The protocol of NCCL; `None` for other libraries.
    pub protocol: Option<Protocol>,
    /// Time that NCCL's model expects [s]; `None` for other libraries.
    pub seconds: Option<f64>,
}

impl Library {
    /// All libraries.
    pub const ALL: [Library; 3] = [Library::Nccl, Library::Mpich, Library::OpenMpi];

    /// Returns the library's name in scenarios.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Library::Nccl => "nccl",
            Library::Mpich => "mpich",
            Library::OpenMpi => "open-mpi",
        }
    }

    /// Returns the library with this name; `None` if there is none.
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

    /// Returns the collective of this choice, with rank 0 as the root.
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
    /// Returns whether all nodes have the same number of ranks.
    #[must_use]
    pub fn is_even(&self) -> bool {
        self.unequal.is_empty() && self.ranks.is_multiple_of(self.ranks_per_node.max(1))
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        if !self.unequal.is_empty() {
            return self.unequal.len() as u32;
        }
        self.ranks.div_ceil(self.ranks_per_node.max(1))
    }

    /// Returns the number of ranks on each node.
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

/// Returns the choice of `library` for buffers of `bytes`; [`Collective::bytes`] defines the size
/// of a buffer.
#[must_use]
pub fn choose(library: Library, operation: Operation, bytes: u64, fabric: &Fabric) -> Choice {
    match library {
        Library::Nccl => nccl::choose(operation, bytes, fabric),
        Library::Mpich => mpich::choose(operation, bytes, fabric.ranks.into()),
        Library::OpenMpi => open_mpi::choose(operation, bytes, fabric.ranks.into()),
    }
}
