//! The network: `systems` by hand, `rounding`, and random ones beside an `oracle` and with a
//! `certificate`.

mod certificate;
mod oracle;
mod rounding;
mod systems;

use super::{Demand, LinkId, Network, Use};
use proptest::prelude::*;

/// In the unit of time [ps].
const SECOND: u64 = 1_000_000_000_000;

/// Links with what a unit of work uses of each.
fn demand(route: &[(LinkId, f64)], weight: f64, cap: f64) -> Demand {
    Demand {
        route: route.iter().map(|&(link, per_unit)| Use { link, per_unit }).collect(),
        weight,
        cap,
    }
}

/// Links used alike, without cap.
fn plain(route: &[LinkId]) -> Demand {
    demand(&route.iter().map(|&l| (l, 1.0)).collect::<Vec<_>>(), 1.0, f64::INFINITY)
}

/// Runs to the end; all completions in the order told.
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

/// Of routes over so many links.
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
