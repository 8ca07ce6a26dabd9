//! The keys of a scenario, from its schema.

use forebay::scenario::schema;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// Entry names in tables of named entries in all scenarios here, by the key of the table.
const NAMES: [(&str, &str); 7] = [
    ("dataset", "d"),
    ("for", "NAME"),
    ("group", "g"),
    ("option", "NAME"),
    ("other", "switches"),
    ("storage", "s"),
    ("sweep", "NAME"),
];

/// A key that has a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Key {
    /// Path as an override takes it; elements of a list have the path of the list.
    pub(super) path: String,
    /// Class of the key: keys of one class share one row.
    pub(super) class: String,
}

/// Returns all keys of the schema, in order.
pub(super) fn of_schema() -> Vec<Key> {
    let schema = schema();
    let mut walk = Walk { schema: &schema, keys: BTreeMap::new() };
    walk.visit(&schema, "", "");
    walk.keys.into_iter().map(|(path, class)| Key { path, class }).collect()
}

struct Walk<'s> {
    schema: &'s Json,
    /// Class of each key, by its path.
    keys: BTreeMap<String, String>,
}

impl<'s> Walk<'s> {
    /// Adds every key with a single value below `node`, which is at `path`: follows references, kinds, lists and tables.
    fn visit(&mut self, node: &'s Json, path: &str, class: &str) {
        let (node, class) = match node["$ref"].as_str() {
            Some(to) => (self.target(to), shared(to).unwrap_or(class).to_owned()),
            None => (node, class.to_owned()),
        };
        let kinds = ["oneOf", "anyOf"].iter().filter_map(|kinds| node[kinds].as_array()).flatten();
        let inside = kinds.chain(node.get("items")).collect::<Vec<_>>();
        for of in &inside {
            self.visit(of, path, &class);
        }
        let members = node["properties"].as_object();
        for (key, member) in members.into_iter().flatten() {
            self.visit(member, &below(path, key), &below(&class, key));
        }
        let others = node.get("additionalProperties").filter(|others| others.is_object());
        if let Some(others) = others {
            let name = name_in(path);
            self.visit(others, &below(path, name), &below(&class, name));
        }
        if inside.is_empty() && members.is_none_or(|members| members.is_empty()) && others.is_none()
        {
            self.keys.entry(path.to_owned()).or_insert(class);
        }
    }

    fn target(&self, reference: &str) -> &'s Json {
        self.schema.pointer(&reference[1..]).expect("references lead somewhere")
    }
}

/// Returns the class of settings that are alike wherever they occur: distributions, and the law of decoding.
fn shared(reference: &str) -> Option<&'static str> {
    let name = reference.rsplit('/').next()?.trim_end_matches(char::is_numeric);
    ["Kinds", "LawSettings"].into_iter().find(|shared| *shared == name)
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Returns the entry name in the table of named entries at `path`.
fn name_in(path: &str) -> &'static str {
    let table = path.rsplit('.').next().unwrap_or_default();
    NAMES.iter().find(|(key, _)| *key == table).map_or("NAME", |(_, name)| name)
}
