//! NCCL's model: latency and bandwidth of each algorithm and protocol (`ncclTopoTuneModel` and `ncclTopoGetAlgoTime`
//! in `src/graph/tuning.cc`, NCCL 2.20), and the choice of the shortest time.
//!
//! NCCL's tree is a chain inside each node and two binary trees across nodes. A broadcast with NCCL's ring algorithm
//! is a chain. NCCL's NVLS uses the switch inside each node; with several nodes, each part of the buffer crosses the
//! nodes along two trees. NCCL has no all-to-all; frameworks make one from pairs of sends and receives.

use super::nccl_numbers as numbers;
use super::{Choice, Fabric, Generation, Protocol};
use crate::{Across, Algorithm, Operation};

/// Algorithms that NCCL distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NcclAlgorithm {
    Tree,
    Ring,
    Switch,
}

pub(super) fn choose(operation: Operation, bytes: u64, fabric: &Fabric) -> Choice {
    if operation == Operation::AllToAll {
        return Choice::plain(Algorithm::Flat);
    }
    let ways = [NcclAlgorithm::Tree, NcclAlgorithm::Ring, NcclAlgorithm::Switch].into_iter();
    let all = ways.flat_map(|way| {
        let protocols = [Protocol::Ll, Protocol::Ll128, Protocol::Simple];
        protocols.into_iter().map(move |protocol| (way, protocol))
    });
    let model = |(way, protocol)| Model { operation, bytes: bytes as f64, fabric, way, protocol };
    let timed = all.map(model).filter_map(|model| Some((model.seconds()?, model)));
    let least = timed.min_by(|(one, _), (other, _)| one.total_cmp(other));
    least.map_or(Choice::plain(Algorithm::Ring), |(seconds, model)| model.choice(bytes, seconds))
}

/// The model of one algorithm with one protocol.
struct Model<'a> {
    operation: Operation,
    bytes: f64,
    fabric: &'a Fabric,
    way: NcclAlgorithm,
    protocol: Protocol,
}

impl Model<'_> {
    fn nodes(&self) -> f64 {
        f64::from(self.fabric.nodes())
    }

    fn ranks(&self) -> f64 {
        f64::from(self.fabric.ranks)
    }

    /// Returns the number of ranks on each node, rounded down as NCCL does.
    fn per_node(&self) -> f64 {
        (self.ranks() / self.nodes()).floor()
    }

    /// Returns the index into tables whose entries are for one node, two nodes, and more nodes.
    fn few(&self) -> usize {
        (self.fabric.nodes().max(1) as usize - 1).min(2)
    }

    fn allowed(&self) -> bool {
        let simple = self.protocol == Protocol::Simple;
        let all = self.operation == Operation::Allreduce;
        let one_node = self.fabric.nodes() == 1;
        let scattered = matches!(self.operation, Operation::ReduceScatter | Operation::Allgather);
        let way = match self.way {
            NcclAlgorithm::Ring => true,
            NcclAlgorithm::Tree => all,
            NcclAlgorithm::Switch => {
                let inside = self.fabric.in_switch && self.fabric.ranks_per_node > 1;
                inside && simple && (all || (scattered && one_node))
            }
        };
        way && (self.protocol != Protocol::Ll128 || self.fabric.nvlink)
    }

    fn seconds(&self) -> Option<f64> {
        if !self.allowed() || self.fabric.ranks < 2 {
            return None;
        }
        let time = self.latency() * 1e-6 + self.bytes / (self.bandwidth() * 1e9);
        time.is_finite().then_some(time)
    }

    /// Returns the number of steps of a ring, and how many of them go across nodes.
    fn steps(&self) -> (f64, f64) {
        let (ranks, nodes) = (self.ranks(), self.nodes());
        match self.operation {
            Operation::Allreduce if nodes > 1.0 => (2.0 * (ranks - 1.0), 2.0 * nodes),
            Operation::Allreduce => (2.0 * (ranks - 1.0), 0.0),
            Operation::ReduceScatter | Operation::Allgather => (ranks - 1.0, nodes - 1.0),
            Operation::Broadcast | Operation::Reduce | Operation::AllToAll => (ranks, nodes),
        }
    }

    /// Returns the latency of the algorithm [µs].
    fn latency(&self) -> f64 {
        let (protocol, hardware) = (self.protocol as usize, usize::from(!self.fabric.nvlink));
        match self.way {
            NcclAlgorithm::Ring => self.ring_latency(protocol, hardware),
            NcclAlgorithm::Tree => {
                let inside = (self.per_node() - 1.0) * numbers::STEP_TREE[hardware][protocol];
                let across = self.nodes().log2().floor() * numbers::STEP_TREE[2][protocol];
                numbers::BASE_TREE[protocol] + 2.0 * (inside + across)
            }
            NcclAlgorithm::Switch => {
                let levels = self.nodes().log2().floor();
                numbers::STEP_SWITCH + 2.0 * levels * numbers::STEP_SWITCH_TREE
            }
        }
    }

    fn ring_latency(&self, protocol: usize, hardware: usize) -> f64 {
        let (steps, across) = self.steps();
        let many = self.fabric.nodes() > 1;
        let base = numbers::BASE_RING[protocol];
        if self.operation.has_root() {
            // Each step of the chain waits for a whole chunk, so that Simple has the latency of a tree here, as in
            // NCCL.
            let table = if protocol == 2 { &numbers::STEP_TREE } else { &numbers::STEP_RING };
            return base + steps * table[if many { 2 } else { hardware }][protocol];
        }
        let posts = if protocol == 2 { 3.0 } else { 1.0 };
        let post = if many { posts * numbers::POST } else { 0.0 };
        let inside = numbers::STEP_RING[hardware][protocol].max(post);
        let all = base + (steps - across) * inside + across * numbers::STEP_RING[2][protocol];
        all * self.plateau()
    }

    /// Returns the factor by which a ring's latency grows: above 1 for long allreduces over several nodes with the
    /// protocol Simple, which take longer to begin; otherwise 1.
    fn plateau(&self) -> f64 {
        let each = self.bytes / (f64::from(self.fabric.channels.max(1)) * self.ranks());
        let simple = self.protocol == Protocol::Simple && self.operation == Operation::Allreduce;
        match self.fabric.generation {
            _ if !simple || self.fabric.nodes() < 2 || each < 64.0 => 1.0,
            Generation::Volta => 1.9,
            Generation::Ampere | Generation::Hopper => 1.4,
        }
    }

    /// Returns the algorithm bandwidth [GB/s].
    fn bandwidth(&self) -> f64 {
        let across = self.fabric.nodes() > 1;
        let bus = if across { self.fabric.intra.min(self.fabric.inter) } else { self.fabric.intra };
        let bus = bus / 1e9;
        match self.way {
            NcclAlgorithm::Ring => self.ring_bus(bus) * self.ranks() / self.steps().0,
            NcclAlgorithm::Tree => self.tree_bus(bus) * self.share() * 0.5,
            NcclAlgorithm::Switch if self.fabric.nodes() > 2 => bus / 2.0 * 5.0 / 6.0,
            NcclAlgorithm::Switch => bus * 5.0 / 6.0,
        }
    }

    fn channels(&self) -> f64 {
        f64::from(self.fabric.channels.max(1))
    }

    fn most_ll(&self) -> f64 {
        match self.few() {
            0 => numbers::MOST_LL[self.fabric.generation as usize],
            few => numbers::MOST_LL_NODES[few],
        }
    }

    fn ring_bus(&self, bus: f64) -> f64 {
        let reduces = matches!(self.operation, Operation::Allreduce | Operation::Reduce);
        let wide = self.fabric.nodes() > 1 || reduces;
        match self.protocol {
            Protocol::Ll => self.most_ll().min(bus / if wide { 4.0 } else { 3.0 }),
            Protocol::Ll128 => {
                let share = if self.ranks() < 2.0 * self.nodes() { 0.7 } else { 0.92 };
                let most = numbers::MOST_RING_LL128[self.fabric.generation as usize];
                (bus * share).min(self.channels() * most)
            }
            Protocol::Simple => bus,
        }
    }

    fn tree_bus(&self, bus: f64) -> f64 {
        let generation = self.fabric.generation as usize;
        let most = numbers::MOST_TREE[generation][self.few()];
        let tree = (bus * 0.92).min(self.channels() * most);
        match self.protocol {
            Protocol::Ll => (tree / 3.8).min(self.most_ll()),
            Protocol::Ll128 => {
                let share = if self.fabric.nodes() == 1 { 7.0 / 9.0 } else { 120.0 / 128.0 };
                let most = numbers::MOST_TREE_LL128[generation][self.few()];
                (tree * share).min(self.channels() * most)
            }
            Protocol::Simple => tree,
        }
    }

    /// Returns the share of the tree's bandwidth that a buffer of this size reaches.
    fn share(&self) -> f64 {
        let doublings = (self.bytes / 64.0).max(1.0).log2().floor() as usize;
        numbers::TREE_SHARE[self.protocol as usize].get(doublings).copied().unwrap_or(1.0)
    }

    fn choice(&self, bytes: u64, seconds: f64) -> Choice {
        let many = self.fabric.nodes() > 1;
        let grouped = many && self.fabric.ranks_per_node > 1;
        let equal = self.fabric.is_even();
        let tree = Algorithm::DoubleBinaryTree;
        let (algorithm, levels) = match self.way {
            NcclAlgorithm::Ring => (Algorithm::Ring, None),
            // The trees go over nodes; inside a node, the ranks are a chain.
            NcclAlgorithm::Tree => (tree, None),
            NcclAlgorithm::Switch if grouped => {
                let across = if equal { Across::SameIndex } else { Across::Leaders };
                (Algorithm::Hierarchical, Some((Algorithm::InSwitch, tree, across)))
            }
            NcclAlgorithm::Switch => (Algorithm::InSwitch, None),
        };
        let channels = match (algorithm, many) {
            (Algorithm::Ring | Algorithm::DoubleBinaryTree, true) => self.used_channels(),
            _ => 1,
        };
        let chunk = Some(self.chunk(bytes) / u64::from(channels));
        let protocol = Some(self.protocol);
        Choice { algorithm, levels, chunk, channels, protocol, seconds: Some(seconds) }
    }

    /// Returns the number of channels that give each thread enough to do (`getChannnelThreadInfo` in
    /// `src/enqueue.cc`).
    fn used_channels(&self) -> u32 {
        let ranks = if self.way == NcclAlgorithm::Ring { self.ranks() } else { 1.0 };
        let least = match self.protocol {
            Protocol::Ll => 8.0 * 512.0 * ranks,
            Protocol::Ll128 => 8.0 * 640.0,
            Protocol::Simple => 64.0 * 512.0,
        };
        (self.bytes / least).clamp(1.0, self.channels()) as u32
    }

    /// Returns the chunk of all channels together [B]. With the protocol Simple, a tree's chunk is halved, down to a
    /// limit, while the buffer has few chunks compared with the depth of the tree (`src/enqueue.cc`).
    fn chunk(&self, bytes: u64) -> u64 {
        let channels = u64::from(self.fabric.channels.max(1));
        let mut chunk = numbers::CHUNK[self.protocol as usize];
        if self.way == NcclAlgorithm::Tree && self.protocol == Protocol::Simple {
            let depth = (self.per_node() - 1.0 + self.nodes().log2().ceil()) as u64;
            for (chunks, least) in [(8 * depth, 131_072), (4 * depth, 65_536), (depth, 32_768)] {
                while bytes / (channels * chunk) < chunks && chunk > least {
                    chunk /= 2;
                }
            }
        }
        chunk * channels
    }
}
