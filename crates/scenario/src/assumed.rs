//! Defaults that a scenario uses for keys that its file does not set: each key, its value, and the source of the default.
//!
//! For every table in the file, the walk over the schema records each key that the table leaves out and whose description states
//! a default. So no code that uses a default can forget to record it. If a default's value depends on other keys, the code that
//! uses the default records the value itself ([`super::check::Check::assume`]).

mod sources;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value as Json};

use super::document::{Document, Kind, NodeId, ROOT};
use super::written::{self, Setting};

/// A key that the scenario file does not set, and the default used for it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Assumed {
    /// The key, in the form that `--set` takes.
    pub key: String,
    /// Default value of the key.
    pub value: String,
    /// Source of the default, such as a framework.
    pub source: String,
}

/// Where the values of a scenario come from. Comparisons ignore it: two scenarios with the same values are equal, no matter which
/// of the values are defaults. In JSON it is the lists [`Origins::settings`] and [`Origins::assumed`].
#[derive(Clone, Default)]
pub struct Origins(Option<Arc<Read>>);

/// What a scenario was read from.
struct Read {
    document: Document,
    /// Defaults that the code that uses them recorded.
    recorded: Vec<Assumed>,
}

/// The lists that [`Origins`] is in JSON.
#[derive(serde::Serialize, schemars::JsonSchema)]
struct Lists {
    /// Keys that the scenario file and overrides set, at most 1,000.
    settings: Vec<Setting>,
    /// Default values that the run used for settings that the scenario does not set.
    assumed: Vec<Assumed>,
}

impl Origins {
    pub(super) fn new(document: Document, recorded: Vec<Assumed>) -> Origins {
        Origins(Some(Arc::new(Read { document, recorded })))
    }

    /// Returns the keys that the file and overrides set, in the order of the file; at most 1,000.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        self.settings_before(usize::MAX)
    }

    /// Returns the keys that the file and the first `overrides` overrides set, without those that later overrides set, in the order
    /// of the file; at most 1,000.
    #[must_use]
    pub fn settings_before(&self, overrides: usize) -> Vec<Setting> {
        self.0.as_ref().map_or(Vec::new(), |read| written::settings(&read.document, overrides))
    }

    /// Returns the defaults of other keys, in the order of the schema.
    #[must_use]
    pub fn assumed(&self) -> Vec<Assumed> {
        // Computed only where it is asked for: the schema takes several milliseconds, longer than many a run.
        self.0.as_ref().map_or(Vec::new(), |read| assumptions(&read.document, &read.recorded))
    }
}

/// Shows nothing of the file: results of equal scenarios are found by what `Debug` shows of the scenario.
impl std::fmt::Debug for Origins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Origins")
    }
}

impl PartialEq for Origins {
    fn eq(&self, _: &Origins) -> bool {
        true
    }
}

impl serde::Serialize for Origins {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Lists { settings: self.settings(), assumed: self.assumed() }.serialize(serializer)
    }
}

impl schemars::JsonSchema for Origins {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Lists::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Lists::json_schema(generator)
    }
}

/// Returns the defaults of all keys that `document` leaves out. A default in `recorded` replaces the schema's default for the
/// same key.
fn assumptions(document: &Document, recorded: &[Assumed]) -> Vec<Assumed> {
    static SCHEMA: OnceLock<Json> = OnceLock::new();
    let schema = SCHEMA.get_or_init(super::settings::schema);
    let mut walk = Walk { schema, document, found: Vec::new() };
    walk.value(schema, ROOT, "");
    let mut recorded: BTreeMap<&str, &Assumed> =
        recorded.iter().map(|assumed| (assumed.key.as_str(), assumed)).collect();
    let found = walk.found.into_iter();
    let mut found: Vec<Assumed> = found
        .map(|assumed| recorded.remove(assumed.key.as_str()).cloned().unwrap_or(assumed))
        .collect();
    found.extend(recorded.into_values().cloned());
    found
}

/// Returns the default that a description in the schema states: `5` for `(default: 5)`.
#[must_use]
pub fn default_in(description: &str) -> Option<String> {
    const BEGIN: &str = "(default: ";
    let words = description.split_whitespace().collect::<Vec<_>>().join(" ");
    // The default comes last: a description may have an example in parentheses before it.
    let inside = words.rsplit_once(BEGIN)?.1;
    let end = closing(inside)?;
    Some(inside[..end].to_owned())
}

/// Returns the position in `text` of the closing parenthesis whose opening parenthesis lies before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut open = 1;
    text.char_indices().find_map(|(at, c)| {
        open += i32::from(c == '(') - i32::from(c == ')');
        (open == 0).then_some(at)
    })
}

/// A walk through the schema and a document side by side.
struct Walk<'a> {
    schema: &'a Json,
    document: &'a Document,
    found: Vec<Assumed>,
}

impl<'a> Walk<'a> {
    /// Walks through the value at document node `at` and its schema `of` in parallel, and records defaults. `class` is the path
    /// of the value's key without the names that users give to tables.
    fn value(&mut self, of: &'a Json, at: NodeId, class: &str) {
        let of = self.target(of);
        if let Some(properties) = of["properties"].as_object() {
            return self.table(properties, at, class);
        }
        if of["additionalProperties"].is_object() {
            return self.each(&of["additionalProperties"], at, class);
        }
        if let Some(items) = of.get("items") {
            return self.each(items, at, class);
        }
        let forms = ["oneOf", "anyOf"].iter().filter_map(|forms| of[forms].as_array()).flatten();
        let mut fitting = forms.filter(|form| self.fits(form, at));
        if let Some(form) = fitting.next() {
            self.value(form, at, class);
        }
    }

    fn each(&mut self, of: &'a Json, at: NodeId, class: &str) {
        for child in self.document.children(at) {
            self.value(of, *child, class);
        }
    }

    fn table(&mut self, properties: &'a Map<String, Json>, at: NodeId, class: &str) {
        for (key, property) in properties {
            let class = if class.is_empty() { key.clone() } else { format!("{class}.{key}") };
            if let Some(written) = self.document.member(at, key) {
                self.value(property, written, &class);
            } else if let Some(value) = property["description"].as_str().and_then(default_in) {
                let source = sources::source(&class, &value).to_owned();
                self.found.push(Assumed { key: key_in(self.document, at, key), value, source });
            }
        }
    }

    /// Returns whether the value at document node `at` fits the alternative `form` of a schema.
    fn fits(&self, form: &'a Json, at: NodeId) -> bool {
        let form = self.target(form);
        match &self.document.node(at).kind {
            Kind::Table(members) => form["properties"].as_object().is_some_and(|properties| {
                members
                    .iter()
                    .all(|&member| properties.contains_key(self.document.node(member).key.as_str()))
            }),
            Kind::List(_) => form.get("items").is_some(),
            _ => false,
        }
    }

    fn target(&self, node: &'a Json) -> &'a Json {
        let reference = node["$ref"].as_str();
        reference.and_then(|to| self.schema.pointer(&to[1..])).unwrap_or(node)
    }
}

/// Returns the full path of `key` in the table at document node `table`, in the form that `--set` takes.
pub(super) fn key_in(document: &Document, table: NodeId, key: &str) -> String {
    if table == ROOT { key.to_owned() } else { format!("{}.{key}", document.path(table)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_values_are_extracted_from_key_descriptions() {
        let of = |text| default_in(text);
        assert_eq!(of("Steps (default: 5).").as_deref(), Some("5"));
        assert_eq!(of("A kind (of some) (default: \"a\n(b)\").").as_deref(), Some("\"a (b)\""));
        assert_eq!(of("Steps."), None);
    }
}
