//! The run that would tell the explanations of measured rows apart.

use super::{Explained, Factors, Limit, Observed};
use crate::scenario::Scenario;
use serde::Serialize;

/// Smallest ratio of two predicted rates that one noisy run can tell apart.
const APART: f64 = 1.1;

/// A run that would tell explanations apart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Telling {
    /// Keys by which it differs from the row with the most throughput, `key=value`.
    pub set: Vec<String>,
    /// Predicted throughput by each explanation [samples/s].
    pub rates: Vec<(Limit, f64)>,
}

/// Returns the runs that may tell, cheapest first: each as keys by which it differs from a row with this scenario.
#[must_use]
pub fn candidates(scenario: &Scenario) -> Vec<Vec<String>> {
    let [job] = &scenario.jobs[..] else { return Vec::new() };
    let storage = &scenario.storage[job.reads_from()].name;
    let mut all = Vec::new();
    if scenario.cluster.node.cores > 1 {
        all.push(format!("cluster.node.cores={}", scenario.cluster.node.cores / 2));
    }
    all.push(format!("job.batch={}", 4 * job.batch));
    if job.batch >= 4 {
        all.push(format!("job.batch={}", job.batch / 4));
    }
    all.push("job.loader={ in-memory = {} }".to_owned());
    all.push(format!("storage.{storage}={{ memory = {{}} }}"));
    all.into_iter().map(|set| vec![set]).collect()
}

/// Returns the candidate that tells the most pairs of `explanations` apart; `None` if none tells any. For the keys of a candidate and
/// the changes of an explanation, `simulate` returns the figures of the run; `None` if the run is not possible.
#[must_use]
pub fn telling(
    candidates: Vec<Vec<String>>,
    explanations: &[Explained],
    simulate: impl Fn(&[String], Factors) -> Option<Observed>,
) -> Option<Telling> {
    let rates = |set: &[String]| -> Option<Vec<(Limit, f64)>> {
        let rate = |of: &Explained| Some((of.limit, simulate(set, of.best)?.samples_per_second));
        explanations.iter().map(rate).collect()
    };
    let all = candidates.into_iter().filter_map(|set| Some(Telling { rates: rates(&set)?, set }));
    let apart = |of: &Telling| {
        let far = |a: f64, b: f64| (a / b).max(b / a) > APART;
        let pairs = of
            .rates
            .iter()
            .enumerate()
            .flat_map(|(i, (_, a))| of.rates[..i].iter().filter(move |(_, b)| far(*a, *b)));
        pairs.count()
    };
    // Of candidates that tell equally many pairs apart, the first is the cheapest.
    let best = all.map(|of| (apart(&of), of)).reduce(|a, b| if b.0 > a.0 { b } else { a })?;
    (best.0 > 0).then_some(best.1)
}
