//! Settings of `[fidelity]`: what a run simulates.

use super::check::Check;
use super::field::Field;
use super::number::Count;
use super::{RunFidelity, Scenario, SteadyState};
use crate::role::Role;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Number of nodes in a sample.
type Nodes = Count<4, 1_000_000>;

/// What a run simulates.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FidelitySettings {
    /// Nodes that are simulated: "all"; "auto", all of few nodes, or a sample of many that represents the others; or the size of the
    /// sample. The report then says how far the step time of the whole cluster may be from that of the sample (default: "all").
    #[schemars(extend("x-role" = Role::Output))]
    nodes: Field<NodesWritten>,
    /// "skip": once the steps of a job repeat exactly, later repetitions are not simulated; results are as if they were, and the report
    /// says which steps these are. Only in runs with a length, of a single job copy in which nothing is drawn, cached or tuned.
    /// "simulate": every step is simulated (default: "skip").
    #[schemars(extend("x-role" = Role::Output))]
    steady_state: Field<SteadyState>,
}

/// Which nodes are simulated, as written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum NodesWritten {
    All,
    Auto,
    Number(Nodes),
}

impl FidelitySettings {
    /// Returns what a run of `scenario` simulates. Refuses a sample that cannot represent all nodes.
    pub(super) fn resolve(&self, check: Check<'_>, scenario: &Scenario) -> RunFidelity {
        let steady_state = self.steady_state.get().copied().unwrap_or_default();
        RunFidelity { nodes: self.nodes(check, scenario), steady_state }
    }

    /// Returns the number of nodes that are simulated; `None` if all are.
    fn nodes(&self, check: Check<'_>, scenario: &Scenario) -> Option<u32> {
        let (at, nodes) = self.nodes.given()?;
        let is_all = |wanted: u32| {
            let sampled = scenario.sampled(wanted, 0.0).nodes.len() as u32;
            wanted >= scenario.cluster.nodes || sampled >= scenario.nodes_in_use()
        };
        match nodes {
            NodesWritten::All => None,
            NodesWritten::Number(nodes) => {
                let wanted = nodes.small();
                let Some(why) = scenario.why_not_sampled(wanted).filter(|_| !is_all(wanted)) else {
                    return Some(wanted).filter(|wanted| !is_all(*wanted));
                };
                let what = format!("a sample of {wanted} nodes cannot represent all: {why}");
                check.wrong(at, what, "write more nodes, or `nodes = \"all\"`");
                None
            }
            NodesWritten::Auto => {
                let mut sizes =
                    scenario.sizes_for_auto().filter(|wanted| !is_all(*wanted)).peekable();
                let why = scenario.why_not_sampled(*sizes.peek()?);
                let found = sizes.find(|wanted| scenario.why_not_sampled(*wanted).is_none());
                if let (None, Some(why)) = (found, why) {
                    check.remark(format!("All nodes are simulated (`fidelity.nodes`): {why}."));
                }
                found
            }
        }
    }
}

impl<'de> Deserialize<'de> for NodesWritten {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrNumber;

        impl Visitor<'_> for WordOrNumber {
            type Value = NodesWritten;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"all\", \"auto\" or a number of nodes from 4 to 1000000")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<NodesWritten, E> {
                match text {
                    "all" => Ok(NodesWritten::All),
                    "auto" => Ok(NodesWritten::Auto),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<NodesWritten, E> {
                Nodes::check(value).map(NodesWritten::Number)
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<NodesWritten, E> {
                Nodes::check(value).map(NodesWritten::Number)
            }
        }

        deserializer.deserialize_any(WordOrNumber)
    }
}

impl JsonSchema for NodesWritten {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SimulatedNodes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "enum": ["all", "auto"] }, { "type": "integer", "minimum": 4 }],
        })
    }
}
