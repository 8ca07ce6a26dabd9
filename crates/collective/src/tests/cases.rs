//! Collectives of all kinds, for the tests.

use super::super::{Across, Algorithm, Collective, Levels, Operation};

/// Returns groupings of `ranks` ranks: equal groups of each size, from one rank to all ranks, and
/// unequal groups.
fn groups(ranks: u32) -> Vec<Vec<u32>> {
    let equal = (1..=ranks).filter(|size| ranks.is_multiple_of(*size));
    let equal = equal.map(|size| vec![size; (ranks / size) as usize]);
    let unequal = [vec![1, ranks.saturating_sub(1)], vec![ranks / 2, 1, ranks - ranks / 2 - 1]];
    let uneven = vec![3, 3, 2, ranks.saturating_sub(8)];
    let whole = |groups: &Vec<u32>| !groups.contains(&0) && groups.iter().sum::<u32>() == ranks;
    equal.chain(unequal.into_iter().filter(|_| ranks > 2)).chain([uneven]).filter(whole).collect()
}

/// Returns all valid collectives in groups, by all algorithms inside and across.
fn grouped(operation: Operation, ranks: u32, bytes: u64) -> Vec<Collective> {
    let mut all = Vec::new();
    let plain = Collective::new(operation, Algorithm::Hierarchical, ranks, bytes);
    for groups in groups(ranks) {
        for across in [Across::Leaders, Across::SameIndex] {
            for (inner, outer) in pairs() {
                let levels = Some(Levels { groups: groups.clone(), inner, outer, across });
                all.push(Collective { levels, ..plain.clone() });
            }
        }
    }
    all.retain(|collective| collective.check().is_ok());
    all
}

/// Returns pairs of algorithms, so that each is used inside and across at least once.
fn pairs() -> impl Iterator<Item = (Algorithm, Algorithm)> {
    let all = Algorithm::ALL;
    let each = (0..all.len()).flat_map(move |i| [0, 3].map(|apart| (i, (i + apart) % all.len())));
    each.map(move |(inner, outer)| (all[inner], all[outer]))
}

/// Returns all valid collectives for an operation with `ranks` ranks and `bytes`.
pub(super) fn collectives(operation: Operation, ranks: u32, bytes: u64) -> Vec<Collective> {
    let able = Algorithm::ALL.into_iter().filter(|algorithm| algorithm.offers(operation));
    let plain = able.filter(|algorithm| *algorithm != Algorithm::Hierarchical);
    let plain = plain.map(|algorithm| Collective::new(operation, algorithm, ranks, bytes));
    plain.chain(grouped(operation, ranks, bytes)).chain(on_nodes(operation, ranks, bytes)).collect()
}

/// Returns collectives by rings and trees over nodes, in one channel and in several.
fn on_nodes(operation: Operation, ranks: u32, bytes: u64) -> Vec<Collective> {
    let whole = [Operation::Allreduce, Operation::Broadcast, Operation::Reduce];
    let groups = if whole.contains(&operation) { groups(ranks) } else { Vec::new() };
    let each = groups.into_iter().flat_map(|nodes| {
        [Algorithm::DoubleBinaryTree, Algorithm::Ring].into_iter().flat_map(move |algorithm| {
            let one = Collective::new(operation, algorithm, ranks, bytes).on(nodes.clone());
            [1, 2, 5].map(|channels| Collective { channels, ..one.clone() })
        })
    });
    each.collect()
}

/// Returns the numbers of ranks that are tested.
pub(super) fn ranks() -> impl Iterator<Item = u32> {
    (1..=17).chain([64])
}

#[test]
fn test_cases_include_every_collective_algorithm() {
    for operation in Operation::ALL {
        for algorithm in Algorithm::ALL.into_iter().filter(|a| a.offers(operation)) {
            let found = collectives(operation, 12, 100);
            assert!(found.iter().any(|c| c.algorithm == algorithm), "{operation:?} {algorithm:?}");
        }
    }
    let inside = collectives(Operation::Allreduce, 12, 100);
    let inside = |algorithm| {
        let levels = inside.iter().filter_map(|c| c.levels.as_ref());
        levels.clone().any(|l| l.inner == algorithm) && levels.clone().any(|l| l.outer == algorithm)
    };
    assert!(inside(Algorithm::Ring) && inside(Algorithm::DoubleBinaryTree));
    assert!(inside(Algorithm::InSwitch) && inside(Algorithm::HalvingDoubling));
}
