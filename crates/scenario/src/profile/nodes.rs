//! What the nodes of a cluster are like, each by its name, and which of them are unlike their siblings.

use super::{Parameter, Profile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Relative difference from which on nodes are unlike each other.
pub const UNLIKE: f64 = 0.08;

/// Names and units of the values of a node, of which more is always better.
pub const NODE_VALUES: [(&str, &str); 9] = [
    ("send", "B/s"),
    ("receive", "B/s"),
    ("read", "B/s"),
    ("write", "B/s"),
    ("core", "1"),
    ("decode", "1"),
    ("copy", "1"),
    ("disk", "1"),
    ("step", "1"),
];

/// A node of a cluster.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeProfile {
    /// Number of cores that the measuring process may use there.
    pub cores: f64,
    /// Main memory that the measuring process may use there [B].
    pub memory: f64,
    /// Measured values, by the names of [`NODE_VALUES`]: `send` and `receive` to and from other nodes [B/s], `read` and `write` on the shared storage [B/s];
    /// relative to the nodes' median, `core`, the speed of one core that decodes, `decode`, the throughput of all cores, `copy`, that of
    /// copies of memory, `disk`, that of reads of the node's own disk, and `step`, the speed of training steps.
    #[serde(default)]
    pub values: BTreeMap<String, Parameter>,
}

/// Nodes that are alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Alike {
    /// Their names, in order.
    pub names: Vec<String>,
    /// Whether they are the usual ones.
    pub usual: bool,
    /// Number of cores; `None` if unknown.
    pub cores: Option<f64>,
    /// Bandwidth of the NIC [B/s]; `None` if unknown.
    pub nic: Option<f64>,
    /// Speed of a core, relative to that of the usual nodes.
    pub core_speed: f64,
}

impl NodeProfile {
    /// Returns a value; `None` if it was not measured.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<f64> {
        self.values.get(name).map(|of| of.value).filter(|value| *value > 0.0)
    }

    /// Returns the bandwidth of the node's NIC: that of its slower direction [B/s].
    #[must_use]
    pub fn nic(&self) -> Option<f64> {
        Some(self.value("send")?.min(self.value("receive")?))
    }
}

impl Profile {
    /// Returns the named nodes in groups of which all are alike: the largest group first, then in order of names. A node belongs to the
    /// usual ones if each of its values is within [`UNLIKE`] of the median over all nodes of the profile, and to a group of its own
    /// otherwise.
    ///
    /// # Errors
    /// Returns a name that the profile does not have.
    pub fn alike(&self, names: &[String]) -> Result<Vec<Alike>, String> {
        let usual = self.usual_node();
        let (mut common, mut others) = (Vec::new(), Vec::new());
        for name in names {
            let node = self.node.get(name).ok_or_else(|| name.clone())?;
            match self.is_usual(node) {
                true => common.push(name.clone()),
                false => others.push(Alike {
                    names: vec![name.clone()],
                    usual: false,
                    cores: Some(node.cores).filter(|cores| *cores > 0.0),
                    nic: node.nic(),
                    core_speed: node.value("core").map_or(1.0, |speed| speed.min(1.0)),
                }),
            }
        }
        let common = (!common.is_empty()).then_some(Alike { names: common, ..usual });
        Ok(common.into_iter().chain(others).collect())
    }

    /// Returns what the usual node is like: the median of each value over all nodes.
    #[must_use]
    pub fn usual_node(&self) -> Alike {
        let cores = median(self.node.values().map(|node| node.cores));
        let nic = median(self.node.values().filter_map(NodeProfile::nic));
        Alike { names: Vec::new(), usual: true, cores, nic, core_speed: 1.0 }
    }

    /// Returns whether a node is like the usual one in what scenarios take of it.
    fn is_usual(&self, node: &NodeProfile) -> bool {
        let usual = self.usual_node();
        let near = |own: Option<f64>, usual: Option<f64>| match (own, usual) {
            (Some(own), Some(usual)) => (own / usual - 1.0).abs() < UNLIKE,
            _ => true,
        };
        near(Some(node.cores).filter(|cores| *cores > 0.0), usual.cores)
            && near(node.nic(), usual.nic)
            && near(node.value("core"), Some(1.0))
    }
}

/// Returns the lower median of positive values; `None` if there are none.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.filter(|value| *value > 0.0).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(cores: f64, send: f64, core: f64) -> NodeProfile {
        let value =
            |value: f64, unit: &str| Parameter { value, unit: unit.into(), ..Parameter::default() };
        let values = [
            ("send", value(send, "B/s")),
            ("receive", value(1e8, "B/s")),
            ("core", value(core, "1")),
        ];
        let values = values.map(|(name, value)| (name.to_owned(), value)).into();
        NodeProfile { cores, memory: 1e9, values }
    }

    #[test]
    fn nodes_that_differ_by_eight_per_cent_are_groups_of_their_own() {
        let nodes = [
            ("a", node(8.0, 1e8, 1.0)),
            ("b", node(8.0, 0.95e8, 1.02)),
            ("c", node(8.0, 0.7e8, 1.0)),
            ("d", node(4.0, 1e8, 1.0)),
            ("e", node(8.0, 1e8, 0.9)),
        ];
        let node = nodes.into_iter().map(|(name, of)| (name.to_owned(), of)).collect();
        let profile = Profile { node, ..Profile::default() };
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let groups = profile.alike(&names(&["d", "c", "b", "a", "e"])).unwrap();
        let listed: Vec<Vec<String>> = groups.iter().map(|group| group.names.clone()).collect();
        assert_eq!(listed, [names(&["b", "a"]), names(&["d"]), names(&["c"]), names(&["e"])]);
        assert_eq!((groups[0].cores, groups[0].nic), (Some(8.0), Some(1e8)));
        assert_eq!(
            (groups[1].cores, groups[2].nic, groups[3].core_speed),
            (Some(4.0), Some(0.7e8), 0.9)
        );
        assert_eq!(profile.alike(&names(&["a", "z"])).unwrap_err(), "z");
        let alone = profile.alike(&names(&["c"])).unwrap();
        assert_eq!((alone.len(), alone[0].nic), (1, Some(0.7e8)));
    }
}
