//! The report for programs.

use super::Report;
use schemars::generate::SchemaSettings;

/// The report as indented JSON, keys in a fixed order, floats in the shortest form that reads back
/// as the same number; `null` for what was not observed or is not finite. Ends with a line break.
pub fn render(report: &Report) -> String {
    // A report has string keys only, which is all that could fail.
    let text = serde_json::to_string_pretty(report).unwrap_or_default();
    text + "\n"
}

/// JSON Schema of the report, from the types that it is made of.
#[must_use]
pub fn schema() -> serde_json::Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    generator.into_root_schema_for::<Report>().to_value()
}
