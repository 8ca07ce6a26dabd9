//! Settings of `[sweep]`, and how they are read.

use super::document::{Document, Kind, NodeId, ROOT};
use super::dotted::split_key;
use super::file::ScenarioFile;
use super::overrides::Override;
use super::problem::{Log, Problems, Source};
use super::settings::read;
use super::value::{Axis, Value};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, IgnoredAny};
use std::borrow::Cow;

/// Maximum number of keys in `[sweep]`.
const MOST_AXES: usize = 100;
/// Maximum number of values of one key.
const MOST_VALUES: usize = 100_000;

/// Placeholder for the values of a key of `[sweep]`; [`ScenarioFile::axes`] reads them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AxisSettings;

impl<'de> Deserialize<'de> for AxisSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_ignored_any(IgnoredAny).map(|_| Self)
    }
}

impl JsonSchema for AxisSettings {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Axis".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "minItems": 1, "maxItems": MOST_VALUES })
    }
}

impl ScenarioFile {
    /// Returns the axes of the sweep, one for each line of `[sweep]`, in the order of the file; none if the file has no
    /// `[sweep]`.
    ///
    /// # Errors
    /// If a key is unknown, or a value is not one that `--set` would accept for it.
    pub fn axes(&self) -> Result<Vec<Axis>, Problems> {
        self.axes_with(&[])
    }

    /// Returns the axes of the sweep, changed by the lists of values in `varied`. Each list replaces the file's values for its
    /// key, or comes after the file's axes.
    ///
    /// # Errors
    /// As [`ScenarioFile::axes`].
    pub fn axes_with(&self, varied: &[Override]) -> Result<Vec<Axis>, Problems> {
        let mut document = self.document.clone();
        for (index, varied) in varied.iter().enumerate() {
            let path = ["sweep".to_owned(), varied.key().to_owned()];
            if let Some(values) = varied.value() {
                document.set(&path, values, index);
            }
        }
        let log = Log::default();
        let sweep = document.member(ROOT, "sweep");
        let lines = sweep.map_or(&[][..], |sweep| document.children(sweep));
        if let Some(at) = sweep
            && !matches!(document.node(at).kind, Kind::Table(_))
        {
            log.value(at, "a table is expected", "write `[sweep]` and keys with lists of values");
        }
        if let Some(&line) = lines.get(MOST_AXES) {
            let what = format!("there are {} keys here", lines.len());
            log.key(line, what, format!("write at most {MOST_AXES}"));
        }
        let lines = lines.iter().take(MOST_AXES);
        let axes: Vec<_> = lines.filter_map(|&line| self.axis(&document, line, &log)).collect();
        let document = &document;
        let source = Source { file: &self.name, text: &self.text, document, overrides: varied };
        log.into_problems(&source).map_or(Ok(axes), Err)
    }

    fn axis(&self, document: &Document, line: NodeId, log: &Log) -> Option<Axis> {
        let node = document.node(line);
        let Some(path) = split_key(&node.key) else {
            log.key(line, "this is not a dotted key", "write `\"job.batch\" = [32, 64]`");
            return None;
        };
        let Kind::List(elements) = &node.kind else {
            let remedy = match node.kind {
                Kind::Table(_) => "write the whole key in quotes: `\"job.batch\" = [32, 64]`",
                _ => "write a list of values: [1, 2, 4]",
            };
            log.value(line, "a list of values is expected", remedy);
            return None;
        };
        if elements.is_empty() || elements.len() > MOST_VALUES {
            let what = format!("the list has {} values", elements.len());
            log.value(line, what, format!("write 1 to {MOST_VALUES} values"));
            return None;
        }
        let values: Vec<_> = elements.iter().map(|&e| Value(document.tree(e))).collect();
        for (value, &element) in values.iter().zip(elements) {
            if !self.accepts(&path, value, line, element, log) {
                break;
            }
        }
        Some(Axis { key: node.key.clone(), values })
    }

    /// Returns whether the key is known; records a problem if the value is refused.
    fn accepts(
        &self,
        path: &[String],
        value: &Value,
        line: NodeId,
        element: NodeId,
        log: &Log,
    ) -> bool {
        let (mut skeleton, path) = self.document.skeleton(path);
        let whole = path.is_empty() || path.first().is_some_and(|part| part == "sweep");
        if whole {
            log.key(line, "this key cannot be swept", "name a single setting: `\"job.batch\"`");
            return false;
        }
        skeleton.set(&path, value, 0);
        let problems = Log::default();
        read(&skeleton, &problems);
        let mut known = true;
        for found in problems.into_found() {
            if skeleton.node(found.at).origin.is_none() {
                continue;
            }
            if found.on_key {
                log.key(line, found.what, found.remedy);
                known = false;
            } else {
                log.value(element, found.what, found.remedy);
            }
        }
        known
    }
}
