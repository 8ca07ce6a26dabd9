//! Figures of the nodes of a cluster: transfers between pairs, and what each node reaches beside the others.

use crate::fit::AGAIN;
use crate::measurement::Sample;
use crate::plot::{Cell, Figure, Heat, Panel};
use crate::profile::{NODE_VALUES, Profile};
use crate::report::format::number;
use crate::stats::quantile;
use std::collections::BTreeMap;

/// Largest number of nodes of a figure.
const NODES: usize = 64;
/// Value ÷ median of the nodes that has the faintest colour; 1 has the darkest.
const FAINT: f64 = 0.5;

/// Returns the figures, with a name for the file of each.
pub(super) fn figures(profile: &Profile, samples: &[Sample]) -> Vec<(String, Figure)> {
    let figure = |title: &str, heat: Heat| Figure {
        title: title.to_owned(),
        panels: vec![Panel::Heat(heat)],
        ..Figure::default()
    };
    let pairs = pairs(samples).map(|heat| {
        ("pairs".to_owned(), figure("Transfers from node (row) to node (column) [MB/s]", heat))
    });
    let nodes = nodes(profile).map(|heat| {
        ("nodes".to_owned(), figure("What each node reaches, relative to the median of all", heat))
    });
    pairs.into_iter().chain(nodes).collect()
}

/// Returns the rate of transfers of each pair: the median of its trials, alone or together with others, whichever is faster.
fn pairs(samples: &[Sample]) -> Option<Heat> {
    let mut rates: BTreeMap<(String, String), BTreeMap<String, Vec<f64>>> = BTreeMap::new();
    for sample in samples.iter().filter(|s| s.probe == "pair" && s.excluded.is_none()) {
        let way = sample.label("way").to_owned();
        if way == "incast" || sample.labels.contains_key(AGAIN) {
            continue;
        }
        let pair = (sample.label("node").to_owned(), sample.label("to").to_owned());
        let rate = 1.0 / sample.seconds_each();
        rates.entry(pair).or_default().entry(way).or_default().push(rate);
    }
    let mut names: Vec<String> = rates.keys().flat_map(|(a, b)| [a.clone(), b.clone()]).collect();
    names.sort();
    names.dedup();
    names.truncate(NODES);
    let middle = |values: &Vec<f64>| {
        let mut values = values.clone();
        values.sort_by(f64::total_cmp);
        quantile(&values, 0.5).unwrap_or(0.0)
    };
    let rate = |from: &String, to: &String| {
        let ways = rates.get(&(from.clone(), to.clone()))?;
        ways.values().map(middle).reduce(f64::max)
    };
    let most = rates.values().flat_map(BTreeMap::values).map(middle).fold(0.0, f64::max);
    let cell = |from: &String, to: &String| {
        let text = |rate: f64| number((rate / 1e5).round() / 10.0);
        rate(from, to).map(|rate| Cell { value: rate, text: text(rate), ..Cell::default() })
    };
    let row = |from: &String| names.iter().map(|to| cell(from, to)).collect();
    (names.len() > 1).then(|| Heat {
        rows: names.clone(),
        columns: names.clone(),
        cells: names.iter().map(row).collect(),
        range: [FAINT * most, most],
        label: "to".to_owned(),
        ..Heat::default()
    })
}

/// Returns what each node reaches, relative to the median over all nodes.
fn nodes(profile: &Profile) -> Option<Heat> {
    let value = |name: &str, node: &crate::profile::NodeProfile| match name {
        "cores" => Some(node.cores).filter(|cores| *cores > 0.0),
        _ => node.value(name),
    };
    let usual = |name: &str| {
        let mut values: Vec<f64> =
            profile.node.values().filter_map(|node| value(name, node)).collect();
        values.sort_by(f64::total_cmp);
        quantile(&values, 0.5)
    };
    let columns: Vec<(&str, f64)> = std::iter::once("cores")
        .chain(NODE_VALUES.iter().map(|(name, _)| *name))
        .filter_map(|name| Some((name, usual(name)?)))
        .collect();
    let nodes: Vec<_> = profile.node.iter().take(NODES).collect();
    let cell = |name: &str, usual: f64, node| {
        let share = value(name, node)? / usual;
        let text = format!("{:.0} %", 100.0 * share);
        Some(Cell { value: share, text, ..Cell::default() })
    };
    let row = |node| columns.iter().map(|(name, usual)| cell(name, *usual, node)).collect();
    (nodes.len() > 1 && !columns.is_empty()).then(|| Heat {
        rows: nodes.iter().map(|(name, _)| (*name).clone()).collect(),
        columns: columns.iter().map(|(name, _)| (*name).to_owned()).collect(),
        cells: nodes.iter().map(|(_, node)| row(*node)).collect(),
        range: [FAINT, 1.0],
        ..Heat::default()
    })
}
