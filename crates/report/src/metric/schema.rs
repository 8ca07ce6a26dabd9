//! JSON Schema of reports, with the meanings and units of the table.

use super::{Metric, all};

use serde_json::{Value as Json, json};

/// Returns the JSON Schema of a report, in which every metric is described by its row of the table. Custom keywords give its unit
/// (`x-unit`) and whether higher or lower is better (`x-better`).
#[must_use]
pub fn report_schema() -> Json {
    let mut schema = crate::schema();
    for metric in all().iter().filter(|metric| !metric.json.is_empty()) {
        if let Some(place) = place(&schema, &metric.json)
            && let Some(node) = schema.pointer_mut(&place)
        {
            describe(node, metric);
        }
    }
    schema
}

/// Writes the meaning, unit and direction of a metric into `node`, the JSON object that describes the metric in the schema.
fn describe(node: &mut Json, metric: &Metric) {
    let Some(node) = node.as_object_mut() else { return };
    node.insert("description".to_owned(), json!(metric.meaning));
    node.insert("x-unit".to_owned(), json!(metric.unit.symbol()));
    node.insert("x-better".to_owned(), json!(metric.better.word()));
}

/// Returns the JSON pointer of the schema that describes a dotted path of reports, such as `jobs.queue.occupancy`; `None` if
/// the schema has no such path. References, lists and values that may be null are followed.
fn place(schema: &Json, dotted: &str) -> Option<String> {
    // A cause of stalls may have a dot in its name.
    let (parents, last) = match dotted.split_once(".stall.") {
        Some((before, cause)) => (format!("{before}.stall"), cause),
        None => dotted.rsplit_once('.').map_or((String::new(), dotted), |(a, b)| (a.to_owned(), b)),
    };
    let mut at = String::new();
    for key in parents.split('.').filter(|key| !key.is_empty()).chain([last]) {
        at = format!("{}/properties/{key}", table(schema, &at)?);
    }
    schema.pointer(&at).map(|_| at)
}

/// Returns the JSON pointer of the object schema at the pointer `at`, following references, lists and alternatives; `None` if
/// there is none.
fn table(schema: &Json, at: &str) -> Option<String> {
    let node = schema.pointer(at)?;
    if node.get("properties").is_some() {
        return Some(at.to_owned());
    }
    if let Some(to) = node["$ref"].as_str() {
        return table(schema, to.strip_prefix('#')?);
    }
    if node.get("items").is_some() {
        return table(schema, &format!("{at}/items"));
    }
    let forms = node["anyOf"].as_array()?;
    (0..forms.len()).find_map(|form| table(schema, &format!("{at}/anyOf/{form}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Collects the dotted paths of all figures of a report. In the schema, a figure is a reference to the type `Figure`.
    fn figures(schema: &Json, at: &Json, path: &str, found: &mut BTreeSet<String>) {
        if let Some(to) = at["$ref"].as_str() {
            if to.ends_with("/Figure") {
                found.insert(path.to_owned());
                return;
            }
            return figures(schema, schema.pointer(&to[1..]).expect("a definition"), path, found);
        }
        for form in at["anyOf"].as_array().into_iter().flatten().chain(at.get("items")) {
            figures(schema, form, path, found);
        }
        for (key, member) in at["properties"].as_object().into_iter().flatten() {
            let dot = if path.is_empty() { "" } else { "." };
            figures(schema, member, &format!("{path}{dot}{key}"), found);
        }
    }

    #[test]
    fn report_schema_and_metric_table_list_the_same_metrics() {
        // System: the schema of reports, made from their types, and the table of metrics. Expectation: both have the same
        // figures.
        let schema = crate::schema();
        let mut found = BTreeSet::new();
        figures(&schema, &schema, "", &mut found);
        // `first_epoch` and `later_epochs` repeat the job's figures.
        found.retain(|path| !path.contains("first_epoch.") && !path.contains("later_epochs."));
        assert!(found.len() > 60, "{found:?}");
        for path in &found {
            assert!(all().iter().any(|of| of.json == *path), "the table has no row for {path}");
        }
        for metric in all().iter().filter(|of| !of.json.is_empty()) {
            assert!(place(&schema, &metric.json).is_some(), "a report has no {}", metric.json);
        }
    }

    #[test]
    fn the_schema_has_meaning_unit_and_direction_of_a_metric() {
        let schema = report_schema();
        let at = place(&schema, "jobs.stall.peer.cpu-wait").expect("a place");
        let node = schema.pointer(&at).expect("a node");
        assert_eq!(
            (node["x-unit"].as_str(), node["x-better"].as_str()),
            (Some("0 to 1"), Some("lower"))
        );
        assert!(node["description"].as_str().is_some_and(|text| text.contains("another rank")));
        let at = place(&schema, "jobs.queue.occupancy").expect("a place");
        assert_eq!(schema.pointer(&at).expect("a node")["x-unit"], "samples");
    }

    #[test]
    fn units_in_report_schema_comments_agree_with_the_metric_table() {
        // System: the units in brackets in the comments of a report's members, and those of the table. Expectation: they agree.
        let schema = crate::schema();
        for metric in all().iter().filter(|of| !of.json.is_empty()) {
            let at = place(&schema, &metric.json).expect("a place");
            let text = schema.pointer(&at).and_then(|of| of["description"].as_str()).unwrap_or("");
            let said = text.split('[').nth(1).and_then(|rest| rest.split(']').next());
            if let Some(said) = said {
                assert_eq!(said, metric.unit.symbol(), "{}: {text}", metric.json);
            }
        }
    }
}
