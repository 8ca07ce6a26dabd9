//! Nodes that a scenario names, with their hardware from a cluster's profile.

use super::{Cluster, Group, NodeSettings};
use crate::check::Check;
use crate::document::NodeId;
use crate::number::Count;
use crate::profile::Alike;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Largest number of names.
const MOST: usize = 10_000;
/// Largest number of nodes that are unlike the others, each of which is a group.
const MOST_UNLIKE: usize = 100;

/// A number of nodes, or the names of nodes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum NodesSettings {
    Number(Count<1, 1_000_000>),
    Names(Vec<String>),
}

impl NodesSettings {
    /// Returns the number of nodes.
    pub(super) fn count(&self) -> u32 {
        match self {
            NodesSettings::Number(count) => count.small(),
            NodesSettings::Names(names) => names.len() as u32,
        }
    }
}

impl<'de> Deserialize<'de> for NodesSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrNames;

        impl<'de> Visitor<'de> for NumberOrNames {
            type Value = NodesSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 1 to 1000000, or a list of names of nodes")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
                Count::check(value).map(NodesSettings::Number)
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
                Count::check(value).map(NodesSettings::Number)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut names: Vec<String> = Vec::new();
                while let Some(name) = list.next_element::<String>()? {
                    if names.contains(&name) {
                        return Err(A::Error::custom(format!("the node {name:?} is named twice")));
                    }
                    names.push(name);
                    if names.len() > MOST {
                        return Err(A::Error::custom(format!("more than {MOST} nodes are named")));
                    }
                }
                match names.is_empty() {
                    true => Err(A::Error::custom("the list names no node")),
                    false => Ok(NodesSettings::Names(names)),
                }
            }
        }

        deserializer.deserialize_any(NumberOrNames)
    }
}

impl JsonSchema for NodesSettings {
    fn schema_name() -> Cow<'static, str> {
        "Nodes".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let number = generator.subschema_for::<Count<1, 1_000_000>>();
        json_schema!({
            "description": "a number of nodes, or a list of names of nodes that the profile has",
            "anyOf": [number, { "type": "array", "items": { "type": "string" } }],
        })
    }
}

/// Groups of the named nodes that are alike; empty if the scenario gives a number of nodes.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct NamedNodes {
    groups: Vec<Alike>,
    /// Whether the scenario itself gives cores, core speed and NIC, which then replace the profile's.
    cores_written: bool,
    speed_written: bool,
    nic_written: bool,
}

impl NamedNodes {
    /// Looks the names up in the profile; reports a problem and returns `None` if it does not have them.
    pub(super) fn find(
        check: Check<'_>,
        at: NodeId,
        names: &[String],
        base: &NodeSettings,
        nic: Option<f64>,
    ) -> Option<NamedNodes> {
        let nodes = check.profile.map(|profile| &profile.node);
        let Some((profile, nodes)) = check.profile.zip(nodes.filter(|nodes| !nodes.is_empty()))
        else {
            let what = "nodes have names only in the profile of a cluster";
            let remedy = "write `profile = \"calibration/profile.toml\"`, as `forebay calibrate --plan cluster` wrote it, or a number of nodes";
            check.wrong(at, what, remedy);
            return None;
        };
        match profile.alike(names) {
            Ok(groups) if groups.len() > MOST_UNLIKE => {
                let what = format!("{} of these nodes are unlike each other", groups.len());
                check.wrong(at, what, format!("name at most {MOST_UNLIKE} such nodes"));
                None
            }
            Ok(groups) => Some(NamedNodes {
                groups,
                cores_written: base.writes_cores(),
                speed_written: base.writes_core_speed(),
                nic_written: nic.is_some(),
            }),
            Err(unknown) => {
                let known: Vec<&str> = nodes.keys().map(String::as_str).collect();
                check.wrong(
                    at,
                    format!("the profile has no node {unknown:?}"),
                    crate::names::choose(&unknown, &known),
                );
                None
            }
        }
    }

    /// Applies the profile to a cluster: the first group of named nodes becomes the cluster's base nodes; each other one becomes a node
    /// group before those of the scenario.
    pub(super) fn apply(self, cluster: &mut Cluster) {
        let (usual, mut groups) = (cluster.clone(), Vec::new());
        for (index, alike) in self.groups.iter().enumerate() {
            let (mut node, mut nic) = (usual.node.clone(), usual.nic);
            if let (Some(cores), false) = (alike.cores, self.cores_written) {
                node.usable_cores = cores;
                node.cores = cores.ceil() as u32;
            }
            if alike.core_speed < 1.0 && !self.speed_written {
                if node.core_speed.is_empty() {
                    node.core_speed.push(1.0);
                }
                node.core_speed.iter_mut().for_each(|speed| *speed *= alike.core_speed);
            }
            if let (Some(own), false) = (alike.nic, self.nic_written) {
                nic = own;
            }
            if index == 0 {
                (cluster.node, cluster.nic) = (node, nic);
                continue;
            }
            let (name, nodes) = (alike.names.join("-"), alike.names.len() as u32);
            groups.push(Group { name, nodes, node, nic });
        }
        cluster.groups.splice(0..0, groups);
    }
}
