//! Tests that the shares of random demands fulfil the definition of max-min fairness.

use super::any_demand;
use crate::fluid::{Demand, max_min_shares};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn every_flow_is_at_its_cap_or_among_the_fastest_of_a_full_link(
        capacities in prop::collection::vec(prop_oneof![4 => 0.1f64..20.0, 1 => Just(0.0)], 1..6),
        demands in prop::collection::vec((any_demand(6), 0u32..4), 1..12),
    ) {
        let fits = |d: &(Demand, u32)| d.0.route.iter().all(|u| u.link.index() < capacities.len());
        let demands: Vec<(Demand, u32)> =
            demands.into_iter().map(|(d, n)| (d.normal(), n)).filter(fits).collect();
        let rates = max_min_shares(&capacities, &demands);
        let load = |link: usize| -> f64 {
            let of = |((d, n), rate): (&(Demand, u32), &f64)| {
                let uses = d.route.iter().filter(|u| u.link.index() == link);
                uses.map(|u| u.per_unit * f64::from(*n) * rate).sum::<f64>()
            };
            demands.iter().zip(&rates).map(of).sum()
        };
        for (link, capacity) in capacities.iter().enumerate() {
            prop_assert!(load(link) <= capacity * (1.0 + 1e-9) + 1e-12);
        }
        for ((d, n), &rate) in demands.iter().zip(&rates).filter(|((_, n), _)| *n > 0) {
            let level = rate / d.weight;
            let bottleneck = d.route.iter().map(|u| u.link.index()).any(|link| {
                let full = load(link) >= capacities[link] * (1.0 - 1e-9);
                let fastest = demands.iter().zip(&rates).all(|((other, _), &rate)| {
                    let shares = other.route.iter().any(|u| u.link.index() == link);
                    !shares || rate / other.weight <= level * (1.0 + 1e-9)
                });
                full && fastest
            });
            prop_assert!(rate >= d.cap * (1.0 - 1e-9) || bottleneck, "{n} of {d:?} at {rate}");
        }
    }
}
