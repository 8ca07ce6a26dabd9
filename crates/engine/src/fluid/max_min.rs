//! Weighted max-min fair rates by progressive filling, as the textbook defines them.
//!
//! Bertsekas and Gallager, *Data Networks*, 2nd ed., section 6.5.2, with weights and coefficients.
//! This implementation is slow; the network's solver is tested against it.

use super::Demand;

/// Returns the rate of one flow of each demand [unit of work/s]. `capacity` has the capacity of
/// each link [unit/s], by the link's index; `demands` has each demand with its number of flows. A
/// demand without flows has rate zero.
pub fn max_min_shares(capacity: &[f64], demands: &[(Demand, u32)]) -> Vec<f64> {
    let mut rates: Vec<Option<f64>> =
        demands.iter().map(|&(_, count)| (count == 0).then_some(0.0)).collect();
    while rates.iter().any(Option::is_none) {
        let levels: Vec<f64> = (0..capacity.len())
            .map(|link| fill_level(link, capacity[link], demands, &rates))
            .collect();
        let reach = |demand: &Demand| {
            let links = demand.route.iter().filter(|u| u.per_unit > 0.0);
            links.map(|u| levels[u.link.index()]).fold(demand.cap / demand.weight, f64::min)
        };
        let open = || demands.iter().zip(&rates).filter(|(_, rate)| rate.is_none());
        let lowest = open().map(|((demand, _), _)| reach(demand)).fold(f64::INFINITY, f64::min);
        for ((demand, _), rate) in demands.iter().zip(&mut rates) {
            if rate.is_none() && reach(demand) <= lowest {
                *rate = Some(demand.weight * lowest);
            }
        }
    }
    rates.into_iter().flatten().collect()
}

/// Returns the rate ÷ weight at which the demands that have no rate yet would fill the link;
/// infinite if no such demand uses the link.
fn fill_level(link: usize, capacity: f64, demands: &[(Demand, u32)], rates: &[Option<f64>]) -> f64 {
    let (mut left, mut slope) = (capacity, 0.0);
    for ((demand, count), rate) in demands.iter().zip(rates) {
        for u in demand.route.iter().filter(|u| u.link.index() == link) {
            let per_rate = u.per_unit * f64::from(*count);
            match rate {
                Some(rate) => left -= per_rate * rate,
                None => slope += per_rate * demand.weight,
            }
        }
    }
    if slope > 0.0 { left.max(0.0) / slope } else { f64::INFINITY }
}
