//! Tests with random ranks, bytes, roots, chunks and groups.

use super::super::{Across, Algorithm, Collective, Cost, Levels, Operation, closed_form};
use super::ownership;
use super::reference::execute;
use proptest::prelude::*;

fn any_operation() -> impl Strategy<Value = Operation> {
    prop::sample::select(Operation::ALL.to_vec())
}

fn any_algorithm() -> impl Strategy<Value = Algorithm> {
    prop::sample::select(Algorithm::ALL.to_vec())
}

fn any_levels() -> impl Strategy<Value = Levels> {
    let equal = (1u32..6, 1usize..6).prop_map(|(size, groups)| vec![size; groups]);
    let groups = prop_oneof![equal, prop::collection::vec(1u32..7, 1..6)];
    let across = prop::sample::select(vec![Across::Leaders, Across::SameIndex]);
    (groups, any_algorithm(), any_algorithm(), across)
        .prop_map(|(groups, inner, outer, across)| Levels { groups, inner, outer, across })
}

/// Generates valid collectives.
fn any_collective() -> impl Strategy<Value = Collective> {
    let levels = prop::option::of(any_levels());
    let numbers = (1u32..40, 0u64..200, any::<prop::sample::Index>());
    let chunk = prop::option::of(1u64..60);
    let all = (any_operation(), any_algorithm(), numbers, chunk, levels).prop_map(
        |(operation, algorithm, (ranks, bytes, root), chunk, levels)| {
            let ranks = levels.as_ref().map_or(ranks, |levels| levels.groups.iter().sum());
            let algorithm = if levels.is_some() { Algorithm::Hierarchical } else { algorithm };
            let root = root.index(ranks as usize) as u32;
            Collective {
                operation,
                algorithm,
                ranks,
                bytes,
                root,
                chunk,
                levels,
                nodes: Vec::new(),
                channels: 1,
            }
        },
    );
    all.prop_filter("can be done", |collective| collective.check().is_ok())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_global_rejects: 100_000, ..Default::default() })]

    /// Expectation: every contribution arrives once, and the transfers shown for one rank are those
    /// among all transfers.
    #[test]
    fn every_contribution_to_a_random_collective_arrives_once(collective in any_collective()) {
        ownership::check(&collective);
    }

    /// Expectation: no schedule stands still, is faster than its links, or slower than its formula.
    #[test]
    fn collective_times_lie_between_the_link_bound_and_the_closed_form(collective in any_collective(), alpha in 0.0f64..1e-3) {
        let cost = Cost { alpha, beta: 1e-9, gamma: 2e-10 };
        let schedule = collective.schedule().expect("can be done");
        let time = execute(&schedule, &cost);
        let most = closed_form(&collective, &cost, &cost).expect("can be done");
        prop_assert!(time <= most * (1.0 + 1e-9) + 1e-15, "{time} {most}");
        let in_step = schedule.in_step(&cost).unwrap_or(time);
        prop_assert!(time <= in_step * (1.0 + 1e-9) + 1e-15, "{time} {in_step}");
        let n = if collective.ranks > 1 { collective.bytes as f64 } else { 0.0 };
        let least = match collective.operation {
            Operation::Broadcast | Operation::Reduce | Operation::Allreduce => n,
            _ => (n - (n / f64::from(collective.ranks)).ceil()).max(0.0),
        };
        prop_assert!(time >= least * cost.beta * (1.0 - 1e-9), "{time} {least}");
    }

    /// Expectation: more bytes, more latency or a slower link never shorten a collective.
    #[test]
    fn more_bytes_or_slower_links_never_shorten_a_collective(collective in any_collective(), factor in 1u64..5) {
        let cost = Cost { alpha: 1e-6, beta: 1e-9, gamma: 2e-10 };
        let time = |collective: &Collective, cost: &Cost| {
            execute(&collective.schedule().expect("can be done"), cost)
        };
        // As many chunks, each of them longer.
        let chunk = collective.chunk.map(|chunk| chunk * factor);
        let longer = Collective { bytes: collective.bytes * factor, chunk, ..collective.clone() };
        let base = time(&collective, &cost);
        prop_assert!(time(&longer, &cost) >= base * (1.0 - 1e-9));
        for slower in [Cost { alpha: 2e-6, ..cost }, Cost { beta: 2e-9, ..cost }] {
            prop_assert!(time(&collective, &slower) >= base * (1.0 - 1e-9));
        }
    }
}
