//! Settings of `[plan]`: the question that `forebay plan` answers.
//!
//! Goals and ranges stay texts here, because this crate does not know the figures of reports.

use super::document::{Document, Kind, NodeId, ROOT};
use super::dotted::split_key;
use super::field::{Field, Named};
use super::file::ScenarioFile;
use super::overrides::Override;
use super::problem::{Log, Problem, Problems, Source};
use super::sweep::AxisSettings;
use super::value::Value;
use crate::role::Role;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// The question that `forebay plan` answers.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanSettings {
    /// A goal: a figure, a comparison and a value, such as `"stall < 2 %"`; or a list of goals (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    goal: Field<Texts>,
    /// Key whose smallest value that meets the goals is searched, with a range or a list of values if not around its present value:
    /// `"job.loader.pytorch.workers = 1..32"`; or a list of keys (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    min: Field<Texts>,
    /// Key whose largest value that meets the goals is searched, as `min` (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    max: Field<Texts>,
    /// Keys with lists of values; each value gets its own answer: `"job.batch" = [32, 64]` (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    r#for: Field<Named<AxisSettings>>,
    /// Options to choose from, by name, each with the keys that it changes: `"faster NIC" = { "cluster.network.nic" = "100 Gbit/s" }`;
    /// `{}` is the scenario as it is (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    option: Field<Named<OptionSettings>>,
    /// Key of which each value is an option, with a range or a list of values as for `min`: `"job.checkpoint.interval = 5 min..8 h"`; or a
    /// list of keys (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    among: Field<Texts>,
    /// Figure by which one of the options that meet the goals is chosen (default: cost per month, or throughput without prices).
    #[schemars(extend("x-role" = Role::Output))]
    best: Field<String>,
}

/// One text, or a list of texts.
#[derive(Debug, Clone, PartialEq)]
struct Texts;

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore;

        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Texts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a list of texts,")
            }

            fn visit_str<E: Error>(self, _: &str) -> Result<Texts, E> {
                Ok(Texts)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Texts, A::Error> {
                while seq.next_element::<Field<String>>()?.is_some() {}
                Ok(Texts)
            }
        }

        deserializer.deserialize_any(OneOrMore)
    }
}

impl JsonSchema for Texts {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Texts".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" }, "minItems": 1 },
            ],
        })
    }
}

/// Placeholder for the changes of an option; [`ScenarioFile::plan`] reads them.
#[derive(Debug, Clone, PartialEq)]
struct OptionSettings;

impl<'de> Deserialize<'de> for OptionSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        AxisSettings::deserialize(deserializer).map(|_| Self)
    }
}

impl JsonSchema for OptionSettings {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Option".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "description": "Dotted keys and their values." })
    }
}

/// A text of `[plan]` with its place in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanText {
    /// The text.
    pub text: String,
    at: NodeId,
}

/// An option of `[plan]`: a name for changes of keys.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanOption {
    /// Name, as the user chose it.
    pub name: String,
    /// The changes.
    pub changes: Vec<Override>,
}

/// The contents of `[plan]`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlanTable {
    /// Goals.
    pub goals: Vec<PlanText>,
    /// Keys whose smallest value is searched.
    pub min: Vec<PlanText>,
    /// Keys whose largest value is searched.
    pub max: Vec<PlanText>,
    /// Lists of values; each value gets its own answer.
    pub rows: Vec<Override>,
    /// Options.
    pub options: Vec<PlanOption>,
    /// Keys of which each value is an option.
    pub among: Vec<PlanText>,
    /// Figure by which options are chosen.
    pub best: Option<PlanText>,
}

impl ScenarioFile {
    /// Returns the contents of `[plan]` with these overrides; empty if there is no such table.
    ///
    /// # Errors
    /// If an entry has another form than the schema says, or a key of an option or of `for` is no dotted key.
    pub fn plan(&self, overrides: &[Override]) -> Result<PlanTable, Problems> {
        let document = self.changed(overrides);
        let log = Log::default();
        let Some(plan) = document.member(ROOT, "plan") else { return Ok(PlanTable::default()) };
        let texts =
            |key: &str| document.member(plan, key).map_or(Vec::new(), |at| texts(&document, at));
        let options = document.member(plan, "option");
        let options = options.map_or(&[][..], |at| document.children(at)).iter().map(|&at| {
            let changes = changes(&document, at, &log);
            PlanOption { name: document.node(at).key.clone(), changes }
        });
        let rows = document.member(plan, "for").map(|at| changes(&document, at, &log));
        let table = PlanTable {
            goals: texts("goal"),
            min: texts("min"),
            max: texts("max"),
            options: options.collect(),
            among: texts("among"),
            rows: rows.unwrap_or_default(),
            best: texts("best").into_iter().next(),
        };
        let source = Source { file: &self.name, text: &self.text, document: &document, overrides };
        log.into_problems(&source).map_or(Ok(table), Err)
    }

    /// Returns the problem with a text of `[plan]`, with its line.
    #[must_use]
    pub fn refuse(
        &self,
        overrides: &[Override],
        text: &PlanText,
        (what, remedy): (&str, &str),
    ) -> Problems {
        let document = self.changed(overrides);
        let log = Log::default();
        log.value(text.at, what, remedy);
        let source = Source { file: &self.name, text: &self.text, document: &document, overrides };
        let whole = || Problem::new(&self.name, what, remedy).into();
        log.into_problems(&source).unwrap_or_else(whole)
    }
}

/// Returns the text at a node, or the texts of the list there.
fn texts(document: &Document, at: NodeId) -> Vec<PlanText> {
    let one = |at: NodeId| Some(PlanText { text: document.text(at)?.to_owned(), at });
    match &document.node(at).kind {
        Kind::List(elements) => elements.iter().filter_map(|&at| one(at)).collect(),
        _ => one(at).into_iter().collect(),
    }
}

/// Returns the entries of a table as overrides: dotted keys with their values.
fn changes(document: &Document, at: NodeId, log: &Log) -> Vec<Override> {
    if !matches!(document.node(at).kind, Kind::Table(_)) {
        let remedy = "write `\"faster NIC\" = { \"cluster.network.nic\" = \"100 Gbit/s\" }`";
        log.value(at, "a table of dotted keys is expected", remedy);
        return Vec::new();
    }
    let one = |&at: &NodeId| {
        let node = document.node(at);
        let known = split_key(&node.key).is_some_and(|path| path.len() > 1);
        if !known {
            let remedy = "write the whole key in quotes: `\"job.batch\"`";
            log.key(at, "this is not a dotted key", remedy);
        }
        known.then(|| Override::new(node.key.clone(), Value(document.tree(at))))
    };
    document.children(at).iter().filter_map(one).collect()
}
