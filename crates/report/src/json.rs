//! The report as JSON, for programs.

use super::Report;
use schemars::generate::SchemaSettings;

/// Writes the report as indented JSON that ends with a line break. Keys have a fixed order, and floats have the shortest form
/// that reads back as the same number. A value that was not observed or is not finite is written as `null`.
pub fn render(report: &Report) -> String {
    // Writing JSON fails only for keys that are not strings, and a report has none.
    let text = serde_json::to_string_pretty(report).unwrap_or_default();
    text + "\n"
}

/// Returns the JSON Schema of the report, made from the types that it consists of.
#[must_use]
pub fn schema() -> serde_json::Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    generator.into_root_schema_for::<Report>().to_value()
}
