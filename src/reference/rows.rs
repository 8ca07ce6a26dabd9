//! The chapters on columns, causes of stalls and exit codes.

use super::page::Page;
use crate::cli::EXIT_CODES;
use crate::metric::{Better, Metric, Value};
use crate::report::{Cause, StallCause};

/// Writes the chapter on columns of rows.
pub(super) fn columns(page: &mut Page, all: &[Metric]) {
    page.heading(2, "Columns of rows");
    page.paragraph(
        "What `sweep` writes and `plot` draws. Each figure has its mean, and in `NAME_lo` and `NAME_hi` the ends of its 95 % \
         interval, which are empty where a run allows none. `--columns` chooses among them; swept keys and `job` come always.",
    );
    let is = |of: &Metric, wanted: MetricList| !of.column.is_empty() && place(of) == wanted;
    let sections = [
        ("Figures", MetricList::Figure),
        ("Shares of time by cause of stall", MetricList::Stall),
        ("Names and axes", MetricList::Other),
    ];
    for (title, wanted) in sections {
        page.heading(3, title);
        let own: Vec<&Metric> = all.iter().filter(|of| is(of, wanted)).collect();
        if wanted == MetricList::Stall {
            stalls(page, &own);
            continue;
        }
        for of in own {
            let json = (!of.json.is_empty()).then(|| format!(" In JSON: `{}`.", of.json));
            let (column, json) = (&of.column, json.unwrap_or_default());
            page.line(&format!("- **`{column}`** ({}): {}{json}", facts(of), of.meaning));
        }
        page.line("");
    }
}

/// Writes the columns of the causes of stalls.
fn stalls(page: &mut Page, all: &[&Metric]) {
    page.paragraph(
        "All are shares of time, from 0 to 1, and lower is better; [causes of stalls](#causes-of-stalls) says what each means and \
         what to do about it. In JSON: `jobs.stall.CAUSE`. A wait for the rank's own input or results:",
    );
    let peer = |of: &&&Metric| matches!(of.value, Value::Stall(StallCause { peer: true, .. }));
    let list = |all: Vec<&&Metric>| {
        let names: Vec<String> = all.iter().map(|of| format!("`{}`", of.column)).collect();
        names.join(", ") + "."
    };
    page.paragraph(&list(all.iter().filter(|of| !peer(of)).collect()));
    page.paragraph("A wait for another rank, which the cause holds up:");
    page.paragraph(&list(all.iter().filter(peer).collect()));
}

/// Writes the chapter on figures that only JSON reports have.
pub(super) fn only_json(page: &mut Page, all: &[Metric]) {
    page.heading(2, "Figures of JSON reports");
    page.paragraph(
        "What `run --format json` has beside the columns of rows; lists such as `jobs` have an entry for each. `forebay schema \
         report` prints the JSON Schema of all of it.",
    );
    for of in all.iter().filter(|of| of.column.is_empty()) {
        page.line(&format!("- **`{}`** ({}): {}", of.json, facts(of), of.meaning));
    }
    page.line("");
}

/// Writes the chapter on causes of stalls.
pub(super) fn causes(page: &mut Page) {
    page.heading(2, "Causes of stalls");
    page.paragraph(
        "Every instant that an accelerator waits is charged to one cause: what the work that ends the wait was doing, or was \
         queueing for, at that instant. That need not be the bottleneck. `peer.` before a cause means that the wait was for \
         another rank, which that cause held up.",
    );
    for cause in Cause::ALL {
        page.line(&format!("- **`{}`**: {}.", cause.name(), cause.meaning()));
        page.line(&format!("  *What to do:* {}", cause.remedy()));
    }
    page.line("");
}

/// Writes the chapter on exit codes.
pub(super) fn exit_codes(page: &mut Page) {
    page.heading(2, "Exit codes");
    for code in EXIT_CODES {
        page.line(&format!("- **{}**: {}. {}", code.code, code.meaning, code.remedy));
    }
    page.line("");
}

/// The list of the reference in which a metric appears.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MetricList {
    Figure,
    Stall,
    Other,
}

fn place(of: &Metric) -> MetricList {
    match of.value {
        Value::Job(_) | Value::Resource(_) => MetricList::Figure,
        Value::Stall(_) => MetricList::Stall,
        Value::Text(_) | Value::Row => MetricList::Other,
    }
}

/// Returns the unit of a metric, and whether higher or lower values are better.
fn facts(of: &Metric) -> String {
    let unit = of.unit.symbol();
    match of.better {
        Better::Higher => format!("{unit}, higher is better"),
        Better::Lower => format!("{unit}, lower is better"),
        Better::Neither => unit.to_owned(),
    }
}
