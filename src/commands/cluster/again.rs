//! Compares a calibration with an earlier one: whether a node or the shared storage has become worse.

use crate::fit::{Behind, read_trials};
use crate::measurement::Sample;
use crate::profile::{NODE_VALUES, NodeProfile, Parameter, Profile, UNLIKE};
use crate::report::format::{rate, share};
use std::collections::BTreeMap;

/// Returns a line for each figure that is worse than before: by at least 8 %, and with intervals that do not meet. Speeds of nodes that were
/// measured alone, and so one after the other where they share a machine, must also have been found `behind` twice.
pub(super) fn worse(
    before: &Profile,
    now: &Profile,
    samples: &[Sample],
    behind: &[Behind],
) -> Vec<String> {
    let mut found = Vec::new();
    for (name, earlier) in &before.node {
        let Some(own) = now.node.get(name) else {
            found.push(format!("{name}: it does not take part"));
            continue;
        };
        if own.cores < (1.0 - UNLIKE) * earlier.cores {
            found.push(format!("{name}: {} cores instead of {}", own.cores, earlier.cores));
        }
        let alike = heaviest(before) == heaviest(now);
        let of_node = of_node(name, earlier, own).into_iter();
        let counts = |quantity: &str| match NODE_VALUES.iter().find(|(name, _)| *name == quantity) {
            Some((_, "1")) => behind.iter().any(|of| of.node == *name && of.quantity == quantity),
            _ => quantity != "read" || alike,
        };
        found.extend(of_node.filter(|(quantity, _)| counts(quantity)).map(|of| of.1));
    }
    found.extend(of_storage(before, samples));
    found
}

/// Returns a line for each value of a node that has fallen, with its name.
fn of_node(name: &str, before: &NodeProfile, now: &NodeProfile) -> Vec<(&'static str, String)> {
    let fall = |(quantity, unit): &(&'static str, &'static str)| {
        let (was, is) = (before.values.get(*quantity)?, now.values.get(*quantity)?);
        // Speeds are relative to the other nodes, whose median is 1 in both.
        let less = 1.0 - is.value / was.value;
        let text = || match *unit {
            "B/s" => format!(
                "{name}: {quantity} {} instead of {} ({} less)",
                rate(is.value, "B"),
                rate(was.value, "B"),
                share(less)
            ),
            _ => format!("{name}: {quantity} {} less, compared with the other nodes", share(less)),
        };
        (less >= UNLIKE && apart(was, is)).then(|| (*quantity, text()))
    };
    NODE_VALUES.iter().filter_map(fall).collect()
}

/// Returns whether two intervals do not meet; values without an interval tell nothing.
fn apart(was: &Parameter, is: &Parameter) -> bool {
    was.ci95.zip(is.ci95).is_some_and(|(was, is)| is[1] < was[0])
}

/// Returns the largest files and most threads of the reads in a profile, of which each node's own reads are.
fn heaviest(profile: &Profile) -> Option<[f64; 2]> {
    let range = &profile.shared_reads()?.1.range;
    Some([range.get("size")?[1], range.get("streams")?[1]])
}

/// Returns which reads of the shared storage by all nodes together are slower than the profile predicts.
fn of_storage(before: &Profile, samples: &[Sample]) -> Vec<String> {
    let Some((access, fit)) = before.shared_reads() else { return Vec::new() };
    let Some(law) = fit.shared_read() else { return Vec::new() };
    let trials = read_trials(samples, access);
    let most = trials.iter().map(|of| of.nodes).fold(0.0, f64::max);
    let mut kinds: BTreeMap<[u64; 2], Vec<f64>> = BTreeMap::new();
    for of in trials.iter().filter(|of| of.nodes == most) {
        kinds.entry([of.size as u64, of.streams as u64]).or_default().push(of.rate);
    }
    let mut found = Vec::new();
    for ([size, streams], mut rates) in kinds {
        let [size, streams] = [size, streams].map(|of| of as f64);
        rates.sort_by(f64::total_cmp);
        let Some(middle) = crate::stats::quantile(&rates, 0.5) else { continue };
        let predicted = law.requests_per_second(size, most, streams);
        let less = 1.0 - middle / predicted;
        // Even the best trial falls short of the prediction by more than the fit's own error.
        let best = rates.last().copied().unwrap_or(middle) / predicted;
        if less >= UNLIKE && 1.0 - best > fit.residual {
            found.push(format!(
                "storage: {most} nodes read files of {} at {} instead of {} ({} less)",
                crate::report::format::bytes(size),
                rate(middle * size, "B"),
                rate(predicted * size, "B"),
                share(less)
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Fit;

    fn node(read: f64, cores: f64) -> NodeProfile {
        let value = Parameter {
            value: read,
            unit: "B/s".into(),
            ci95: Some([0.98 * read, 1.02 * read]),
            unidentified: None,
        };
        NodeProfile { cores, memory: 1e9, values: [("read".to_owned(), value)].into() }
    }

    fn cluster(nodes: &[(&str, NodeProfile)]) -> Profile {
        let node = nodes.iter().map(|(name, of)| ((*name).to_owned(), of.clone())).collect();
        Profile { node, ..Profile::default() }
    }

    /// Trials of reads by two nodes, with the rates of both; the last one may have lost a node.
    fn reads(rates: &[f64], lost: bool) -> Vec<Sample> {
        let sample = |(trial, rate): (usize, &f64), node: &str| Sample {
            probe: "shared-read".into(),
            labels: [("access", "direct"), ("node", node)]
                .map(|(a, b)| (a.into(), b.into()))
                .into(),
            settings: [("nodes", 2.0), ("streams", 4.0), ("size", 1e6)]
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
            trial: trial as u32,
            operations: 100,
            seconds: 100.0 / rate,
            core_seconds: 0.0,
            observed: BTreeMap::new(),
            beside: None,
            excluded: None,
            at: 0.0,
        };
        let both = |of: (usize, &f64)| ["a", "b"].map(|node| sample(of, node));
        let mut all: Vec<Sample> = rates.iter().enumerate().flat_map(both).collect();
        if lost {
            all.pop();
        }
        all
    }

    #[test]
    fn a_storage_that_became_slower_is_named_and_a_lost_node_is_no_slower_storage() {
        let bandwidth = Parameter { value: 200e6, unit: "B/s".into(), ..Parameter::default() };
        let fit = Fit {
            parameters: [("bandwidth".to_owned(), bandwidth)].into(),
            residual: 0.02,
            ..Fit::default()
        };
        let before = Profile { storage: [("direct".to_owned(), fit)].into(), ..Profile::default() };
        let worse = |samples: &[Sample]| worse(&before, &Profile::default(), samples, &[]);
        assert_eq!(worse(&reads(&[99.0, 100.0, 98.0], false)), Vec::<String>::new());
        assert_eq!(worse(&reads(&[100.0, 99.0], true)), Vec::<String>::new());
        let found = worse(&reads(&[80.0, 81.0, 79.0], false));
        assert_eq!(found.len(), 1, "{found:?}");
        let expected = "storage: 2 nodes read files of 1 MB at 160 MB/s instead of 200 MB/s (20";
        assert!(found[0].starts_with(expected), "{}", found[0]);
    }

    #[test]
    fn nodes_that_became_slower_lost_cores_or_are_gone_are_named() {
        let before =
            cluster(&[("a", node(1e8, 8.0)), ("b", node(1e8, 8.0)), ("c", node(1e8, 8.0))]);
        assert_eq!(worse(&before, &before, &[], &[]), Vec::<String>::new());
        let now = cluster(&[("a", node(0.8e8, 8.0)), ("b", node(0.96e8, 4.0))]);
        let found = worse(&before, &now, &[], &[]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("a: read 80 MB/s instead of 100 MB/s (20"), "{}", found[0]);
        assert!(found[1].starts_with("b: 4 cores instead of 8"), "{}", found[1]);
        assert!(found[2].starts_with("c: it does not take part"), "{}", found[2]);
    }
}
