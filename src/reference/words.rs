//! Describes the types of keys in words.

use super::tables::{Tables, definition, forms, kind};
use serde_json::Value as Json;

impl Tables<'_> {
    /// Describes in words which values a schema node accepts; `link` makes a link to the section at a path.
    pub(super) fn words(&self, node: &Json, link: &impl Fn(&str, &str) -> String) -> String {
        if let Some(name) = definition(node) {
            let target =
                self.schema.pointer(node["$ref"].as_str().unwrap_or("#").trim_start_matches('#'));
            let Some(target) = target else { return "a value".to_owned() };
            let described =
                self.places.get(name).filter(|path| self.tables.iter().any(|of| of.path == **path));
            return match described {
                Some(path) if target["properties"].is_object() => link("table", path),
                Some(path) => self.alternatives(target, Some(path), link),
                None => self.words(target, link),
            };
        }
        self.alternatives(node, None, link)
    }

    /// Describes which values a schema node that is no reference accepts. The node's kinds are described in the section at
    /// `path`, if given.
    fn alternatives(
        &self,
        node: &Json,
        path: Option<&String>,
        link: &impl Fn(&str, &str) -> String,
    ) -> String {
        let mut all: Vec<String> = Vec::new();
        let mut put = |words: String| {
            if !all.contains(&words) {
                all.push(words);
            }
        };
        for form in forms(node) {
            match (kind(form), path) {
                (Some(_), Some(path)) => {
                    put(link(if path == "distribution" { "distribution" } else { "kind" }, path))
                }
                (Some((name, _)), None) => put(format!("`{{ {name} = … }}`")),
                (None, _) => put(self.words(form, link)),
            }
        }
        match all.is_empty() {
            true => self.single(node, link),
            false => all.join(" or "),
        }
    }

    /// Describes which values a schema node without alternatives accepts.
    fn single(&self, node: &Json, link: &impl Fn(&str, &str) -> String) -> String {
        if let Some(value) = node.get("const") {
            return format!("`{value}`");
        }
        if let Some(values) = node["enum"].as_array() {
            let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
            return match values.len() {
                0..=8 => values.join(" or "),
                _ => format!("one of {}", values.join(", ")),
            };
        }
        if let Some(quantity) = quantity(node) {
            return quantity;
        }
        let kinds = node["type"].as_array().into_iter().flatten().chain(node.get("type"));
        let kinds = kinds.filter_map(Json::as_str).filter(|kind| *kind != "null");
        let words: Vec<String> = kinds.map(|kind| self.plain(kind, node, link)).collect();
        match words.is_empty() {
            true => "any value".to_owned(),
            false => words.join(" or "),
        }
    }

    /// Describes a JSON type.
    fn plain(&self, kind: &str, node: &Json, link: &impl Fn(&str, &str) -> String) -> String {
        match kind {
            "integer" => format!("whole number{}", range(node)),
            "number" => format!("number{}", range(node)),
            "boolean" => "`true` or `false`".to_owned(),
            "string" => "text".to_owned(),
            "array" if node["items"].is_object() => {
                format!("list of {}", self.words(&node["items"], link))
            }
            "array" => "list".to_owned(),
            _ => match node.get("additionalProperties").filter(|of| of.is_object()) {
                Some(of) => format!("by name, {}", self.words(of, link)),
                None => "table".to_owned(),
            },
        }
    }

    /// Returns the named values that a key accepts, each with its meaning.
    pub(super) fn values(&self, node: &Json) -> Vec<(String, String)> {
        let node = match definition(node) {
            Some(_) => {
                self.schema.pointer(node["$ref"].as_str().unwrap_or("#").trim_start_matches('#'))
            }
            None => Some(node),
        };
        let Some(node) = node else { return Vec::new() };
        let mut all = Vec::new();
        for form in forms(node).chain(node.get("items")) {
            match form.get("const") {
                Some(value) => all.push((value.to_string(), super::tables::about(form))),
                None if kind(form).is_none() => all.extend(self.values(form)),
                None => {}
            }
        }
        all.retain(|(_, meaning)| !meaning.is_empty());
        all
    }
}

/// Returns which quantity with a unit a schema node accepts, such as `time`; `None` if the node accepts no quantity.
fn quantity(node: &Json) -> Option<String> {
    let about = node["description"].as_str().filter(|_| node["pattern"].is_string())?;
    let (what, _) = about.split_once(" with its unit")?;
    let what = what.split_once(' ').map_or(what, |(_, what)| what);
    Some(what.to_owned())
}

/// Describes the range of numbers that a schema node accepts.
fn range(node: &Json) -> String {
    let shown = |value: &Json| match value.as_f64() {
        Some(number) if number.fract() == 0.0 && number.abs() < 1e15 => format!("{number:.0}"),
        _ => value.to_string(),
    };
    let [least, most] = ["minimum", "maximum"].map(|of| node.get(of).map(shown));
    let above = node.get("exclusiveMinimum").map(shown);
    match (least, above, most) {
        (Some(least), _, Some(most)) => format!(", {least} to {most}"),
        (None, Some(above), Some(most)) => format!(" above {above}, up to {most}"),
        (Some(least), _, None) => format!(", {least} or more"),
        (None, Some(above), None) => format!(" above {above}"),
        (None, None, Some(most)) => format!(", up to {most}"),
        (None, None, None) => String::new(),
    }
}
