//! Open MPI's fixed decisions: `coll_tuned_decision_fixed.c` up to 4.0, from measurements over Myrinet
//! (Pješivac-Grbović et al., *Performance analysis of MPI collective operations*, 2007).
//!
//! Two of Open MPI's algorithms are replaced here. Two binary trees replace its split binary tree, in which each
//! half of the ranks gets half of the bytes and the halves then swap their bytes. A ring replaces its neighbour
//! exchange, which sends the same number of bytes.

use super::Choice;
use crate::{Algorithm, Operation};

const KIB: u64 = 1024;

/// A decision line: number of ranks = slope · bytes + intercept. The fields are slope and intercept.
struct Line(f64, f64);

impl Line {
    fn at(&self, bytes: u64) -> f64 {
        self.0 * bytes as f64 + self.1
    }
}

/// Decision lines for long broadcasts, each with a chunk size [B]. A line applies if the broadcast has fewer ranks
/// than the line gives for its bytes. The broadcast goes along a chain if it has at least `BROADCAST_FEW` ranks or
/// the first line applies; the first line that applies then sets the chunk size, which is 8 KiB if none applies.
const BROADCAST: [(Line, u64); 3] = [
    (Line(1.6134e-6, 2.1102), 128 * KIB),
    (Line(2.3679e-6, 1.1787), 64 * KIB),
    (Line(3.2118e-6, 8.7936), 16 * KIB),
];
const BROADCAST_SMALL: u64 = 2_048;
const BROADCAST_MIDDLE: u64 = 370_728;
const BROADCAST_FEW: u64 = 13;

/// Decision lines for reductions, each with an algorithm and a chunk size [B]. A line applies if the reduction has
/// more ranks than the line gives for its bytes. The first line that applies sets algorithm and chunk size.
const REDUCE: [(Line, Algorithm, u64); 4] = [
    (Line(0.6016 / 1024.0, 1.3496), Algorithm::BinomialTree, KIB),
    (Line(0.0410 / 1024.0, 9.7128), Algorithm::Ring, KIB),
    (Line(0.0422 / 1024.0, 1.1614), Algorithm::DoubleBinaryTree, 32 * KIB),
    (Line(0.0033 / 1024.0, 1.6761), Algorithm::Ring, 32 * KIB),
];

const ALLREDUCE_SMALL: u64 = 10_000;
const REDUCE_SCATTER_SMALL: u64 = 12 * KIB;
const REDUCE_SCATTER_LARGE: u64 = 256 * KIB;
const REDUCE_SCATTER_LINE: Line = Line(0.0012, 8.0);
const ALLGATHER_SMALL: u64 = 50_000;
/// Size of the data from each rank to each other rank [B] below which more than 12 ranks use Bruck's algorithm.
const ALL_TO_ALL_SMALL: u64 = 200;

pub(super) fn choose(operation: Operation, bytes: u64, ranks: u64) -> Choice {
    match operation {
        Operation::Broadcast => broadcast(bytes, ranks),
        Operation::Reduce => reduce(bytes, ranks),
        Operation::Allreduce if bytes < ALLREDUCE_SMALL => {
            Choice::plain(Algorithm::RecursiveDoubling)
        }
        Operation::Allreduce => Choice::plain(Algorithm::Ring),
        Operation::ReduceScatter => Choice::plain(reduce_scatter(bytes, ranks)),
        Operation::Allgather => Choice::plain(allgather(bytes, ranks)),
        Operation::AllToAll if bytes / ranks.max(1) < ALL_TO_ALL_SMALL && ranks > 12 => {
            Choice::plain(Algorithm::Bruck)
        }
        Operation::AllToAll => Choice::plain(Algorithm::Flat),
    }
}

fn broadcast(bytes: u64, ranks: u64) -> Choice {
    if bytes < BROADCAST_SMALL {
        return Choice::plain(Algorithm::BinomialTree);
    }
    if bytes < BROADCAST_MIDDLE {
        return Choice::in_chunks(Algorithm::DoubleBinaryTree, KIB);
    }
    let below = |line: &Line| (ranks as f64) < line.at(bytes);
    if ranks < BROADCAST_FEW && !below(&BROADCAST[0].0) {
        return Choice::in_chunks(Algorithm::DoubleBinaryTree, 8 * KIB);
    }
    let chunk = BROADCAST.iter().find(|(line, _)| below(line)).map_or(8 * KIB, |&(_, chunk)| chunk);
    Choice::in_chunks(Algorithm::Ring, chunk)
}

fn reduce(bytes: u64, ranks: u64) -> Choice {
    if ranks < 8 && bytes < 512 {
        return Choice::plain(Algorithm::Flat);
    }
    if (ranks < 8 && bytes < 20_480) || bytes < 2_048 {
        return Choice::plain(Algorithm::BinomialTree);
    }
    let found = REDUCE.iter().find(|(line, ..)| ranks as f64 > line.at(bytes));
    let (algorithm, chunk) = found.map_or((Algorithm::Ring, 64 * KIB), |&(_, a, chunk)| (a, chunk));
    Choice::in_chunks(algorithm, chunk)
}

fn reduce_scatter(bytes: u64, ranks: u64) -> Algorithm {
    let few = bytes <= REDUCE_SCATTER_LARGE && ranks.is_power_of_two();
    let many = ranks as f64 >= REDUCE_SCATTER_LINE.at(bytes);
    if bytes <= REDUCE_SCATTER_SMALL || few || many {
        return Algorithm::HalvingDoubling;
    }
    Algorithm::Ring
}

fn allgather(bytes: u64, ranks: u64) -> Algorithm {
    match (bytes < ALLGATHER_SMALL, ranks.is_power_of_two()) {
        _ if ranks == 2 => Algorithm::RecursiveDoubling,
        (true, true) => Algorithm::RecursiveDoubling,
        (true, false) => Algorithm::Bruck,
        (false, _) => Algorithm::Ring,
    }
}
