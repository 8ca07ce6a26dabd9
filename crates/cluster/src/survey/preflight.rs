//! What the nodes agree on, and what differs, before anything is measured.

use crate::crew::Crew;
use std::collections::BTreeMap;

/// Difference between wall clocks from which on it is reported [s].
const CLOCKS: f64 = 1.0;
/// Relative difference of memory below which nodes count as equal: kernels reserve different parts of it.
const MEMORY: f64 = 0.02;

/// What nodes agree on and what differs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Comparison {
    /// Names and values of what all nodes agree on.
    pub same: Vec<(String, String)>,
    /// A line for each difference.
    pub differences: Vec<String>,
}

/// Compares the nodes of a crew.
#[must_use]
pub fn compare(crew: &Crew) -> Comparison {
    let leaders: Vec<u32> = crew.leaders().into_iter().map(|(rank, _)| rank).collect();
    let mates: Vec<(String, _)> =
        leaders.iter().filter_map(|rank| Some((crew.node(*rank), crew.mate(*rank)?))).collect();
    let mut values: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let memory: Vec<f64> = mates.iter().map(|(_, mate)| mate.facts.memory).collect();
    let least = memory.iter().copied().fold(f64::INFINITY, f64::min);
    let alike = memory.iter().all(|memory| *memory <= least * (1.0 + MEMORY));
    for (node, mate) in &mates {
        let mut add = |name: &str, value: String| {
            values.entry(name.to_owned()).or_default().push((node.clone(), value));
        };
        let memory = if alike { least } else { mate.facts.memory };
        add("cores", format!("{}", mate.facts.cores));
        add("memory", format!("{:.1} GiB", memory / f64::from(1 << 30)));
        for (name, value) in &mate.facts.named {
            add(name, value.clone());
        }
    }
    let mut found = Comparison::default();
    for (name, of_nodes) in values {
        match differing(&name, &of_nodes, mates.len()) {
            None => found.same.push((name, of_nodes[0].1.clone())),
            Some(line) => found.differences.push(line),
        }
    }
    for (node, mate) in &mates {
        if mate.wall.abs() > CLOCKS {
            found.differences.push(format!("clock: that of {node} differs by {:+.1} s", mate.wall));
        }
    }
    for (rank, count) in crew.leaders() {
        if count > 1 {
            let node = crew.node(rank);
            found
                .differences
                .push(format!("ranks: {node} has {count}; one of them measures, the others wait"));
        }
    }
    found
}

/// Returns a line that says what of a fact differs: the usual value, and the nodes with another one.
fn differing(name: &str, of_nodes: &[(String, String)], nodes: usize) -> Option<String> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (node, value) in of_nodes {
        groups.entry(value).or_default().push(node);
    }
    if groups.len() == 1 && of_nodes.len() == nodes {
        return None;
    }
    let missing = nodes - of_nodes.len();
    let mut groups: Vec<(&str, Vec<&str>)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    let listed = |(value, nodes): &(&str, Vec<&str>)| match nodes.len() {
        ..=4 => format!("{value} on {}", nodes.join(", ")),
        count => format!("{value} on {count} nodes"),
    };
    let mut parts: Vec<String> = groups.iter().map(listed).collect();
    if missing > 0 {
        parts.push(format!("none on {missing}"));
    }
    Some(format!("{name}: {}", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_said_with_the_nodes_that_have_it() {
        let of = |values: &[(&str, &str)]| {
            let own: Vec<(String, String)> =
                values.iter().map(|(node, value)| ((*node).into(), (*value).into())).collect();
            differing("MTU", &own, 3)
        };
        assert_eq!(of(&[("a", "1500"), ("b", "1500"), ("c", "1500")]), None);
        let two = of(&[("a", "1500"), ("b", "9000"), ("c", "9000")]).unwrap();
        assert_eq!(two, "MTU: 9000 on b, c; 1500 on a");
        assert_eq!(of(&[("a", "9000")]).unwrap(), "MTU: 9000 on a; none on 2");
    }
}
