//! Tests of closed forms against schedules that are executed event by event.

use super::super::{Across, Algorithm, Collective, Cost, Levels, Operation, closed_form};
use super::cases::{collectives, ranks};
use super::reference::execute;

/// Size of buffers [B]: divisible by every number up to 17 and by 64.
const BYTES: u64 = 720_720 * 17 * 4;
/// Costs at which a message of some kilobytes takes as long to send as its latency.
const COST: Cost = Cost { alpha: 2e-6, beta: 1e-9, gamma: 3e-10 };

fn executed(collective: &Collective) -> f64 {
    execute(&collective.schedule().expect("a case can be done"), &COST)
}

fn formula(collective: &Collective) -> f64 {
    closed_form(collective, &COST, &COST).expect("a case can be done")
}

fn plain(operation: Operation, ranks: u32, bytes: u64) -> Vec<Collective> {
    let all = collectives(operation, ranks, bytes).into_iter();
    all.filter(|collective| collective.levels.is_none()).collect()
}

/// Whether the formula is only an upper bound: for two trees that are not full, and for an allreduce by two trees.
fn bound(collective: &Collective) -> bool {
    let both = collective.operation == Operation::Allreduce;
    let tree = collective.algorithm == Algorithm::DoubleBinaryTree;
    tree && (both || !collective.ranks.is_power_of_two())
}

/// Returns the collective with whole buffers and, if it is a pipeline, in 4 and in 16 chunks.
fn in_chunks(collective: Collective) -> Vec<Collective> {
    let chunks = if collective.algorithm.is_pipelined(collective.operation) { 3 } else { 1 };
    let chunk = [None, Some(BYTES / 4), Some(BYTES / 16)].into_iter().take(chunks);
    chunk.map(|chunk| Collective { chunk, ..collective.clone() }).collect()
}

#[test]
fn collective_times_of_evenly_divided_buffers_match_the_closed_forms() {
    for operation in Operation::ALL {
        for ranks in ranks() {
            // The formula gives each channel a NIC of its own; here a rank has one link for all channels.
            let one = plain(operation, ranks, BYTES).into_iter().filter(|all| all.channels == 1);
            for collective in one.flat_map(in_chunks) {
                let (time, formula) = (executed(&collective), formula(&collective));
                let ratio = if ranks == 1 { 1.0 + time + formula } else { time / formula };
                let chains = !collective.nodes.is_empty();
                let least = match bound(&collective) {
                    true => {
                        if chains {
                            0.25
                        } else {
                            0.5
                        }
                    }
                    false => 1.0 - 1e-6,
                };
                assert!((least..=1.0 + 1e-6).contains(&ratio), "{collective:?} {time} {formula}");
            }
        }
    }
}

#[test]
fn closed_forms_are_upper_bounds_on_times_of_unevenly_divided_buffers() {
    // Expectation: formulas are upper bounds although parts differ by a byte, and chunks and halves by one.
    for operation in Operation::ALL {
        for ranks in 1..=12 {
            for (bytes, chunk) in [(1, 1), (7, 3), (4_099, 600)] {
                let all = collectives(operation, ranks, bytes);
                for collective in all.into_iter().filter(|all| all.channels == 1) {
                    for chunk in [None, Some(chunk)] {
                        let collective = Collective { chunk, ..collective.clone() };
                        let (time, formula) = (executed(&collective), formula(&collective));
                        assert!(time <= formula * (1.0 + 1e-9), "{collective:?} {time} {formula}");
                    }
                }
            }
        }
    }
}

#[test]
fn hierarchical_time_is_the_sum_of_times_inside_and_across_groups() {
    // System: equal groups, all links alike. Expectation: the times inside and across groups, one after the other, if
    // both formulas are exact.
    for operation in Operation::ALL {
        for ranks in [4, 6, 8, 12, 16] {
            for collective in collectives(operation, ranks, BYTES) {
                let Some(levels) = &collective.levels else { continue };
                let equal = levels.groups.windows(2).all(|pair| pair[0] == pair[1]);
                let tree = [levels.inner, levels.outer].contains(&Algorithm::DoubleBinaryTree);
                if equal && !tree {
                    let (time, formula) = (executed(&collective), formula(&collective));
                    assert!((time / formula - 1.0).abs() < 1e-6, "{collective:?} {time} {formula}");
                }
            }
        }
    }
}

#[test]
fn hierarchical_time_uses_the_costs_of_both_networks() {
    // System: 4 nodes of 8 ranks; a link across is ten times slower. Expectation: 7 steps of 1/8 inside,
    // 6 steps of 1/4 of 1/8 across, 7 steps inside.
    let whole = Collective::new(Operation::Allreduce, Algorithm::Hierarchical, 32, 32 << 20);
    let (inner, outer, across) = (Algorithm::Ring, Algorithm::Ring, Across::SameIndex);
    let levels = Some(Levels { groups: vec![8; 4], inner, outer, across });
    let fast = Cost { alpha: 1e-6, beta: 1e-10, gamma: 0.0 };
    let slow = Cost { alpha: 5e-6, beta: 1e-9, gamma: 0.0 };
    let time =
        closed_form(&Collective { levels, ..whole }, &fast, &slow).expect("groups of equal size");
    let eighth = f64::from(4 << 20);
    let inside = 14.0 * (1e-6 + eighth * 1e-10);
    assert!((time - inside - 6.0 * (5e-6 + eighth / 4.0 * 1e-9)).abs() < 1e-12);
}

/// Whether all ranks go from phase to phase together. Leaders of unequal groups may begin to reduce across while
/// other groups still reduce inside, which spares a latency.
fn in_step(collective: &Collective) -> bool {
    collective.schedule().expect("a case can be done").runs().is_some()
}

#[test]
fn an_allreduce_takes_no_longer_than_a_reduction_and_a_broadcast() {
    for ranks in ranks() {
        for bytes in [100, 12_252_240] {
            let all = if ranks > 17 { plain } else { collectives };
            for collective in all(Operation::Allreduce, ranks, bytes) {
                let part = |operation| {
                    let part = Collective { operation, ..collective.clone() };
                    part.check().is_ok().then(|| executed(&part))
                };
                // Only allreduces have trees over nodes.
                if !in_step(&collective) || !collective.nodes.is_empty() {
                    continue;
                }
                if let Some(both) = part(Operation::Reduce).zip(part(Operation::Broadcast)) {
                    let time = executed(&collective);
                    assert!(
                        time <= (both.0 + both.1) * (1.0 + 1e-9),
                        "{collective:?} {time} {both:?}"
                    );
                }
            }
        }
    }
}

/// Returns the collective in `chunks` chunks.
fn chunked(collective: &Collective, chunks: u64) -> Collective {
    Collective { chunk: Some(collective.bytes.div_ceil(chunks)), ..collective.clone() }
}

#[test]
fn without_latency_more_chunks_lower_the_time_to_the_pipelined_limit() {
    // System: latency 0. Expectation: the time falls with the number of chunks to its limit: the time of all bytes on
    // the busiest link, and of the reductions there.
    let free = Cost { alpha: 0.0, ..COST };
    let n = BYTES as f64;
    let limits = [
        (Operation::Broadcast, Algorithm::Ring, n * free.beta),
        (Operation::Broadcast, Algorithm::DoubleBinaryTree, n * free.beta),
        (Operation::Broadcast, Algorithm::InSwitch, n * free.beta),
        (Operation::Broadcast, Algorithm::BinomialTree, 4.0 * n * free.beta),
        (Operation::Reduce, Algorithm::Ring, n * (free.beta + free.gamma)),
        (Operation::Reduce, Algorithm::DoubleBinaryTree, n * (free.beta + free.gamma)),
        (Operation::Allreduce, Algorithm::DoubleBinaryTree, n * (2.0 * free.beta + free.gamma)),
        (Operation::Allreduce, Algorithm::InSwitch, n * free.beta),
    ];
    for (operation, algorithm, limit) in limits {
        let whole = Collective::new(operation, algorithm, 16, BYTES);
        let time = |chunks| {
            execute(&chunked(&whole, chunks).schedule().expect("a schedule"), &free) / limit
        };
        let times: Vec<f64> = [1, 4, 16, 64, 256].into_iter().map(time).collect();
        let falls = times.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-9));
        let near = (1.0 - 1e-9..1.08).contains(&times[4]);
        assert!(falls && near, "{operation:?} {algorithm:?} {times:?}");
    }
}

#[test]
fn each_additional_chunk_costs_at_most_one_latency_per_pass() {
    // System: collectives whose time depends on latency. Expectation: 2C chunks take C latencies longer than C chunks
    // at most, an allreduce 2C latencies.
    for operation in Operation::ALL {
        let whole = plain(operation, 12, BYTES).into_iter();
        for whole in whole.filter(|whole| whole.algorithm.is_pipelined(operation)) {
            let passes = if operation == Operation::Allreduce { 2.0 } else { 1.0 };
            for chunks in [1, 2, 8, 32] {
                let time = |chunks| executed(&chunked(&whole, chunks));
                let more = time(2 * chunks) - time(chunks);
                let least = passes * chunks as f64 * COST.alpha;
                assert!(more <= least * (1.0 + 1e-6), "{whole:?} {chunks} {more} {least}");
            }
        }
    }
}

#[test]
fn chunks_change_the_time_of_pipelined_algorithms_only() {
    for operation in Operation::ALL {
        for whole in plain(operation, 12, BYTES) {
            let pipelined = whole.algorithm.is_pipelined(operation);
            let differs = (executed(&chunked(&whole, 16)) / executed(&whole) - 1.0).abs() > 1e-9;
            assert_eq!(differs, pipelined, "{whole:?}");
        }
    }
}
