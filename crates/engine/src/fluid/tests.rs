//! Tests of the network: `systems` that are solved by hand, `rounding` of instants, random networks
//! beside a slow `oracle`, and random demands with a `certificate` of fairness.

mod certificate;
mod oracle;
mod rounding;
mod systems;

use super::{Demand, LinkId, Network, Use};
use proptest::prelude::*;

/// One second [ps].
const SECOND: u64 = 1_000_000_000_000;

/// Returns a demand on links, each with the capacity that a unit of work uses there.
fn demand(route: &[(LinkId, f64)], weight: f64, cap: f64) -> Demand {
    Demand {
        route: route.iter().map(|&(link, per_unit)| Use { link, per_unit }).collect(),
        weight,
        cap,
    }
}

/// Returns a demand without cap, which uses one unit of each link per unit of work.
fn plain(route: &[LinkId]) -> Demand {
    demand(&route.iter().map(|&l| (l, 1.0)).collect::<Vec<_>>(), 1.0, f64::INFINITY)
}

/// Runs the network to its end; returns instant [ps] and token of all completions, in their order.
fn drain(net: &mut Network<u32>) -> Vec<(u64, u32)> {
    let mut told = Vec::new();
    while let Some(at) = net.next() {
        let before = told.len();
        while let Some(flow) = net.finish(at) {
            told.push((at.0, flow.token));
        }
        assert!(told.len() > before, "an announced instant finishes a flow");
    }
    told
}

/// Generates demands with routes over up to `links` links.
fn any_demand(links: usize) -> impl Strategy<Value = Demand> {
    let coefficient = prop_oneof![3 => Just(1.0), 1 => 0.1f64..3.0];
    let route = prop::collection::vec((0..links, coefficient), 0..4);
    let weight = prop_oneof![3 => Just(1.0), 1 => Just(2.0), 1 => 0.1f64..3.0];
    let cap = prop_oneof![3 => Just(f64::INFINITY), 2 => 0.1f64..10.0, 1 => Just(2.0)];
    (route, weight, cap).prop_map(|(route, weight, cap)| {
        let route: Vec<_> = route.into_iter().map(|(l, a)| (LinkId::new(l), a)).collect();
        demand(&route, weight, cap)
    })
}
