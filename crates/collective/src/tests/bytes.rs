//! Tests of the bytes that are sent: as many as textbooks say, and no more.

use super::super::{Algorithm, Collective, Kind, Operation};
use super::cases::ranks;

/// Size of buffers [B]: divisible by every number up to 17 and by 64.
const BYTES: u64 = 720_720 * 17 * 4;

/// Bytes of one collective: the sum sent by all ranks, the maximum sent by one rank, and the maximum reduced by
/// one rank.
#[derive(Debug, PartialEq, Eq)]
struct Sent {
    all: u64,
    most: u64,
    reduced: u64,
}

fn sent(operation: Operation, algorithm: Algorithm, ranks: u64) -> Sent {
    let collective = Collective::new(operation, algorithm, ranks as u32, BYTES);
    let schedule = collective.schedule().expect("a case can be done");
    let (mut out, mut reduced) = (vec![0; ranks as usize + 1], vec![0; ranks as usize + 1]);
    for phase in 0..schedule.phases() {
        for transfer in schedule.transfers(phase) {
            out[transfer.from as usize] += transfer.bytes;
            if transfer.kind == Kind::Reduce {
                reduced[transfer.to as usize] += transfer.bytes;
            }
        }
    }
    // A switch is no rank.
    out.truncate(ranks as usize);
    reduced.truncate(ranks as usize);
    let most = |of: &[u64]| of.iter().copied().max().unwrap_or(0);
    Sent { all: out.iter().sum(), most: most(&out), reduced: most(&reduced) }
}

/// Returns the bytes that an algorithm sends by the textbook; `None` if they depend on more than the number of
/// ranks.
fn textbook(operation: Operation, algorithm: Algorithm, p: u64) -> Option<Sent> {
    use Algorithm::*;
    use Operation::*;
    let (n, part, power) = (BYTES, BYTES / p, p.is_power_of_two());
    let (log, others) = (u64::from(p.next_power_of_two().ilog2()), (p - 1) * part);
    let same = |each: u64, reduced: u64| Sent { all: p * each, most: each, reduced };
    Some(match (operation, algorithm) {
        (Broadcast, Flat) => Sent { all: (p - 1) * n, most: (p - 1) * n, reduced: 0 },
        (Broadcast, BinomialTree) => Sent { all: (p - 1) * n, most: log * n, reduced: 0 },
        (Broadcast, Ring) => Sent { all: (p - 1) * n, most: n, reduced: 0 },
        (Broadcast, DoubleBinaryTree) => Sent { all: (p - 1) * n, most: n, reduced: 0 },
        (Broadcast, InSwitch) => Sent { all: n, most: n, reduced: 0 },
        (Reduce, Flat) => Sent { all: (p - 1) * n, most: n, reduced: (p - 1) * n },
        (Reduce, BinomialTree) => Sent { all: (p - 1) * n, most: n, reduced: log * n },
        (Reduce, Ring | DoubleBinaryTree) => Sent { all: (p - 1) * n, most: n, reduced: n },
        (Reduce, InSwitch) => Sent { all: (p - 1) * n, most: n, reduced: n },
        (Allreduce, Ring) => same(2 * others, others),
        (Allreduce, HalvingDoubling) if power => same(2 * others, others),
        (Allreduce, RecursiveDoubling) if power => same(log * n, log * n),
        (Allreduce, InSwitch) => same(n, 0),
        (Allreduce, DoubleBinaryTree) if p > 5 => {
            // The busiest rank has two children in one tree, and a parent in each tree.
            Sent { all: 2 * (p - 1) * n, most: 2 * n, reduced: n }
        }
        (ReduceScatter, Flat | Ring) => same(others, others),
        (ReduceScatter, HalvingDoubling) if power => same(others, others),
        (ReduceScatter, InSwitch) => same(others, part),
        (Allgather, Flat | Ring | Bruck) => same(others, 0),
        (Allgather, RecursiveDoubling) if power => same(others, 0),
        (Allgather, InSwitch) => same(part, 0),
        (AllToAll, Flat) => same(others, 0),
        (AllToAll, Bruck) if power => same(log * n / 2, 0),
        _ => return None,
    })
}

#[test]
fn bytes_sent_by_collectives_match_textbook_formulas() {
    let mut compared = 0;
    for operation in Operation::ALL {
        for algorithm in Algorithm::ALL.into_iter().filter(|a| a.offers(operation)) {
            for p in ranks().filter(|&p| p > 1).map(u64::from) {
                if let Some(expected) = textbook(operation, algorithm, p) {
                    let found = sent(operation, algorithm, p);
                    assert_eq!(found, expected, "{operation:?} {algorithm:?} {p}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 300, "{compared}");
}

#[test]
fn bytes_sent_by_a_scatter_allgather_broadcast_match_tree_plus_ring() {
    // System: 16 ranks. Expectation: a part passes as many edges of the binomial tree as it has levels above its
    // rank, 32 in all (half of 16 · 4); then each rank sends 15 parts around the ring.
    let found = sent(Operation::Broadcast, Algorithm::ScatterAllgather, 16);
    assert_eq!(found.all, 32 * (BYTES / 16) + 15 * BYTES);
    assert_eq!(found.most, 15 * (BYTES / 16) + 15 * (BYTES / 16));
}

#[test]
fn busbw_factors_equal_the_most_bytes_sent_by_a_rank_over_the_buffer_size() {
    // Expectation: the factors of nccl-tests are the least number of buffers that a rank must send or receive.
    for (operation, algorithm) in [
        (Operation::Allreduce, Algorithm::Ring),
        (Operation::ReduceScatter, Algorithm::Ring),
        (Operation::Allgather, Algorithm::Ring),
        (Operation::AllToAll, Algorithm::Flat),
        (Operation::Broadcast, Algorithm::Ring),
        (Operation::Reduce, Algorithm::Ring),
    ] {
        for ranks in [2, 3, 8, 17] {
            let most = sent(operation, algorithm, ranks).most as f64 / BYTES as f64;
            assert!((most - operation.busbw_factor(ranks as u32)).abs() < 1e-12, "{operation:?}");
        }
    }
    assert_eq!(Operation::Allreduce.busbw_factor(1), 0.0);
    assert_eq!(Operation::Allreduce.busbw_factor(0), 0.0);
}
