//! What each key is: a limit, a choice, part of what is asked, or part of what is said about it.
//!
//! The declaration of a key says it, as `x-role` in the JSON Schema. Limits and choices are the keys that a user may change to make
//! the same training faster.

use serde_json::Value as Json;
use std::collections::BTreeMap;

/// What a key is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// An amount that can hold training back: how much of something there is, how fast it is, or what work it takes.
    Limit,
    /// One of several ways to do the work, free to be chosen on the same hardware.
    Choice,
    /// What is trained, on what, and what it is called: with another value it is another question.
    Identity,
    /// How long a run is, how it is simulated, and what is reported of it.
    Output,
}

/// Key of the JSON Schema that holds the role of a scenario's key.
pub const ROLE: &str = "x-role";
/// Part of a path that stands for a name of the user's.
const NAME: &str = "NAME";

impl Role {
    /// Returns the role in one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Limit => "limit",
            Role::Choice => "choice",
            Role::Identity => "identity",
            Role::Output => "output",
        }
    }

    /// Returns the role that the declaration of a key states, given the key's node in the JSON Schema.
    #[must_use]
    pub fn of(node: &Json) -> Option<Role> {
        serde_json::from_value(node[ROLE].clone()).ok()
    }
}

/// Returns the role of every key of a scenario, by its path, in which `NAME` stands for a name of the user's and elements of a list
/// have the path of the list. A key inside a value, such as `mean` of a distribution, has the role of the key whose value it is.
#[must_use]
pub fn roles() -> BTreeMap<String, Role> {
    let schema = crate::schema();
    let mut walk = Walk { schema: &schema, above: Vec::new(), found: BTreeMap::new() };
    walk.visit(&schema, "", None);
    walk.found
}

/// A walk over the keys of a schema.
struct Walk<'s> {
    schema: &'s Json,
    /// Definitions around the present node.
    above: Vec<&'s str>,
    found: BTreeMap<String, Role>,
}

impl<'s> Walk<'s> {
    /// Visits the keys below `node`, the value of the key at `path`, which has this role.
    fn visit(&mut self, node: &'s Json, path: &str, role: Option<Role>) {
        if let Some(reference) = node["$ref"].as_str() {
            let target = self.schema.pointer(&reference[1..]);
            if let Some(target) = target.filter(|_| !self.above.contains(&reference)) {
                self.above.push(reference);
                self.visit(target, path, role);
                self.above.pop();
            }
        }
        let forms = ["oneOf", "anyOf"].iter().filter_map(|forms| node[forms].as_array()).flatten();
        for form in forms.chain(node.get("items")) {
            self.visit(form, path, role);
        }
        for (key, member) in node["properties"].as_object().into_iter().flatten() {
            self.key(member, &below(path, key), role);
        }
        let named = &node["additionalProperties"];
        if named.is_object() {
            self.visit(named, &below(path, NAME), role);
        }
    }

    fn key(&mut self, node: &'s Json, path: &str, around: Option<Role>) {
        let role = Role::of(node).or(around);
        if let Some(role) = role {
            self.found.entry(path.to_owned()).or_insert(role);
        }
        self.visit(node, path, role);
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables that are a value, such as the parameters of a distribution: their keys have the role of the key whose value they are.
    const VALUES: [&str; 14] = [
        "Added",
        "EmpiricalSettings",
        "Exponential",
        "Gamma",
        "KernelsSettings",
        "LawSettings",
        "Lognormal",
        "Normal",
        "Nothing",
        "Pareto",
        "Spread",
        "StepTime",
        "Tail",
        "Uniform",
    ];

    /// Adds the tables of keys in a definition of the schema. A table of which one key is written names a kind.
    fn tables<'s>(node: &'s Json, is_form: bool, found: &mut Vec<&'s Json>) {
        let keys = node["properties"].as_object().map_or(0, serde_json::Map::len);
        let is_kind = is_form && keys == 1 || node["maxProperties"] == 1;
        if keys > 0 && !is_kind {
            found.push(node);
        }
        for (key, member) in node.as_object().into_iter().flatten() {
            for form in member.as_array().into_iter().flatten() {
                tables(form, key == "oneOf", found);
            }
            if key != "$defs" {
                tables(member, false, found);
            }
        }
    }

    #[test]
    fn the_declaration_of_every_key_of_scenarios_says_its_role() {
        // System: the tables of the schema, except those that are values and those that name a kind. Expectation: each of their keys
        // has a role of its own.
        let schema = crate::schema();
        let mut wrong = Vec::new();
        let definitions = schema["$defs"].as_object().expect("definitions").iter();
        for (name, node) in definitions.chain([(&"Scenario".to_owned(), &schema)]) {
            let mut found = Vec::new();
            tables(node, false, &mut found);
            let keys = found.iter().filter_map(|table| table["properties"].as_object()).flatten();
            let is_value = VALUES.contains(&name.trim_end_matches(char::is_numeric));
            let silent = keys.filter(|(_, node)| !is_value && Role::of(node).is_none());
            wrong.extend(silent.map(|(key, _)| format!("{name}: `{key}`")));
        }
        assert!(wrong.is_empty(), "say the role, `extend(\"x-role\" = Role::…)`, of {wrong:#?}");
    }

    #[test]
    fn keys_have_the_role_that_a_user_would_give_them() {
        let roles = roles();
        for (key, role) in [
            ("cluster.node.cores", Role::Limit),
            ("storage.NAME.file-server.bandwidth", Role::Limit),
            ("storage.NAME.file-server.latency.lognormal.mean", Role::Limit),
            ("job.loader.pytorch.workers", Role::Limit),
            ("job.loader.tf-queue.decode.per_byte", Role::Limit),
            ("job.model.jitter", Role::Limit),
            ("job.failures", Role::Limit),
            ("background", Role::Limit),
            ("fault", Role::Limit),
            ("job.loader.pytorch.in_order", Role::Choice),
            ("job.checkpoint", Role::Choice),
            ("job.batch_interval", Role::Choice),
            ("job.parallel.pipeline.schedule", Role::Choice),
            ("storage.NAME.parallel-fs.stripe_offset", Role::Choice),
            ("job.batch", Role::Identity),
            ("dataset.NAME.sample_size.lognormal.cv", Role::Identity),
            ("run.steps", Role::Output),
            ("job.accuracy.epochs", Role::Output),
        ] {
            assert_eq!(roles.get(key), Some(&role), "{key}");
        }
        assert!(roles.len() > 1000, "{}", roles.len());
    }
}
