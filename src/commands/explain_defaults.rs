//! `forebay explain-defaults`: lists the defaults that a run uses where its scenario gives no value.

use super::paths::Paths;
use super::points::Opened;
use super::{Failure, output};
use crate::cli::{ExplainDefaults, ReportFormat};
use crate::scenario::Assumed;
use serde_json::json;

pub(super) fn execute(explain: &ExplainDefaults) -> Result<(), Failure> {
    let paths = Paths::default().writes("--output", explain.output.as_ref())?;
    let paths = paths.prints(explain.output.is_none());
    let opened =
        Opened::from_arguments(&explain.scenario.scenario, &explain.scenario.options, Vec::new())?;
    let scenario = opened.resolve()?;
    opened.read_by(paths).check()?;
    let assumed = scenario.origins.assumed();
    let text = match explain.format {
        ReportFormat::Text if explain.output.is_none() && output::has_width() => narrow(&assumed),
        ReportFormat::Text => table(&assumed),
        ReportFormat::Json => format!("{:#}\n", json!({ "assumed": assumed })),
    };
    match &explain.output {
        Some(path) => output::file(path, |to| to.write_all(text.as_bytes())),
        None => output::stdout(text.as_bytes()),
    }
}

/// Formats keys, values and sources as a table of three columns.
fn table(assumed: &[Assumed]) -> String {
    let row = |of: &Assumed| [of.key.clone(), of.value.clone(), of.source.clone()];
    let heading = ["key", "value", "source"].map(str::to_owned);
    let rows: Vec<[String; 3]> = std::iter::once(heading).chain(assumed.iter().map(row)).collect();
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).min(WIDEST)
    };
    let (keys, values) = (width(0), width(1));
    let line =
        |[key, value, source]: &[String; 3]| format!("{key:keys$}  {value:values$}  {source}\n");
    rows.iter().map(line).collect()
}

/// Formats the same table for a terminal, which would break its lines anywhere.
fn narrow(assumed: &[Assumed]) -> String {
    let mut table = output::table(false);
    table.set_header(["key", "value", "source"]);
    for of in assumed {
        table.add_row([&of.key, &of.value, &of.source]);
    }
    format!("{table}\n")
}

/// Maximum width of a column [characters]. A longer cell moves the rest of its row out of alignment.
const WIDEST: usize = 60;
