//! Tests that collectives that are not valid are refused with an error that says what to choose
//! instead.

use super::super::{Across, Algorithm, Collective, Invalid, Levels, Library, Operation};

fn ring() -> Collective {
    Collective::new(Operation::Allreduce, Algorithm::Ring, 8, 1_000)
}

fn grouped(groups: Vec<u32>, inner: Algorithm, outer: Algorithm, across: Across) -> Collective {
    let levels = Some(Levels { groups, inner, outer, across });
    Collective { algorithm: Algorithm::Hierarchical, levels, ..ring() }
}

#[test]
fn collective_and_library_names_parse_back_to_the_same_variant() {
    for operation in Operation::ALL {
        assert_eq!(Operation::parse(operation.name()), Some(operation));
    }
    for algorithm in Algorithm::ALL {
        assert_eq!(Algorithm::parse(algorithm.name()), Some(algorithm));
        let kebab = algorithm.name().chars().all(|c| c.is_ascii_lowercase() || c == '-');
        assert!(kebab, "{}", algorithm.name());
    }
    assert!(Library::ALL.iter().all(|&library| Library::parse(library.name()) == Some(library)));
    assert!(Across::ALL.iter().all(|&across| Across::parse(across.name()) == Some(across)));
    assert_eq!((Library::parse("mpi"), Across::parse("all")), (None, None));
    assert_eq!((Operation::parse("Ring"), Algorithm::parse("")), (None, None));
}

#[test]
fn each_kind_of_invalid_collective_is_refused_with_a_specific_error() {
    let (flat, tree) = (Algorithm::Flat, Algorithm::BinomialTree);
    let plain = ring();
    let levels = grouped(vec![4, 4], flat, flat, Across::Leaders).levels;
    let to_all = Collective { operation: Operation::AllToAll, ..plain.clone() };
    let cases = [
        (Collective { ranks: 0, ..plain.clone() }, Invalid::Ranks(0)),
        (Collective { ranks: u32::MAX, ..plain.clone() }, Invalid::Ranks(u32::MAX)),
        (Collective { bytes: u64::MAX, ..plain.clone() }, Invalid::Bytes(u64::MAX)),
        (Collective { root: 8, ..plain.clone() }, Invalid::Root { root: 8, ranks: 8 }),
        (Collective { chunk: Some(0), ..plain.clone() }, Invalid::Chunk),
        (
            to_all.clone(),
            Invalid::NotOffered { algorithm: Algorithm::Ring, operation: Operation::AllToAll },
        ),
        (Collective { algorithm: Algorithm::Hierarchical, ..plain.clone() }, Invalid::Groups),
        (Collective { levels, ..plain }, Invalid::Groups),
        (
            grouped(vec![4, 3], flat, flat, Across::Leaders),
            Invalid::NotAll { in_groups: 7, ranks: 8 },
        ),
        (
            grouped(vec![8, 0], flat, flat, Across::Leaders),
            Invalid::NotAll { in_groups: 8, ranks: 8 },
        ),
        (grouped(vec![4, 4], flat, Algorithm::Hierarchical, Across::Leaders), Invalid::Nested),
        (grouped(vec![5, 3], flat, flat, Across::SameIndex), Invalid::SameIndex),
        (
            grouped(vec![4, 4], tree, flat, Across::SameIndex),
            Invalid::NotOffered { algorithm: tree, operation: Operation::ReduceScatter },
        ),
        (
            Collective {
                operation: Operation::AllToAll,
                ..grouped(vec![4, 4], flat, flat, Across::Leaders)
            },
            Invalid::AllToAll,
        ),
    ];
    for (collective, expected) in cases {
        assert_eq!(collective.schedule().err(), Some(expected), "{collective:?}");
    }
}

#[test]
fn errors_of_invalid_collectives_list_valid_choices() {
    let error = Collective { operation: Operation::AllToAll, ..ring() }.check().expect_err("ring");
    let expected = "the algorithm `ring` does not support the collective `all-to-all`: choose an algorithm from `flat`, `bruck`, `hierarchical`";
    assert_eq!(error.to_string(), expected);
    let error = Collective { root: 9, ..ring() }.check().expect_err("no such rank");
    assert_eq!(error.to_string(), "root 9 is not one of the 8 ranks: choose a root from 0 to 7");
}

#[test]
fn the_largest_valid_collectives_do_not_overflow() {
    for operation in Operation::ALL {
        for algorithm in Algorithm::ALL.into_iter().filter(|a| a.offers(operation)) {
            let most = Collective::new(operation, algorithm, 1 << 24, 1 << 53);
            let most = Collective { chunk: Some(1), root: (1 << 24) - 1, ..most };
            let Ok(schedule) = most.schedule() else { continue };
            for phase in [0, 1, schedule.phases() / 2, schedule.phases() - 1, u64::MAX] {
                for rank in [0, 1, (1 << 24) - 2, (1 << 24) - 1] {
                    schedule.visit(phase, rank, |t| assert!(t.bytes <= most.bytes));
                }
            }
        }
    }
}
