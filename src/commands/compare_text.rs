//! The text of `forebay compare`.

use super::compare::{Compared, One, OneJob, Shown};
use super::profile_text::{cells, table};
use crate::metric::{Metric, Unit};
use crate::plan::goal::with_interval;
use crate::report::format::{share, signed_share};
use crate::scenario::printable_line;

/// Returns a table for each job, with a column for each of what is compared, and a sentence on what holds each back.
pub(super) fn text(of: &Compared) -> String {
    let names = of.jobs();
    let mut text = String::new();
    for name in &names {
        if names.len() > 1 {
            text += &format!("{}\n", printable_line(name));
        }
        text += &format!("{}\n\n", of_job(of, name));
    }
    if of.compared.len() > 1 && !names.is_empty() {
        let first = of.compared.first().map_or("", |one| &one.name);
        text += &format!("Differences are to `{}`; * beyond chance.\n", printable_line(first));
        let currencies = currencies(of);
        if currencies.len() > 1 {
            let each = currencies.join(" and ");
            text +=
                &format!("Costs in {each} have no difference: write all prices in one currency.\n");
        }
    }
    for one in &of.compared {
        let name = printable_line(&one.name);
        match (&one.failed, &one.bottleneck) {
            (Some(why), _) => {
                text += &format!("`{name}` could not be run: {}\n", printable_line(why))
            }
            (None, Some(limit)) => {
                text += &format!("`{name}`: {}\n", printable_line(limit));
            }
            (None, None) => text += &format!("`{name}`: no step was completed.\n"),
        }
    }
    // A warning that all share stands once.
    for warning in shared_warnings(of) {
        text += &format!("Warning: {}\n", printable_line(warning));
    }
    for one in &of.compared {
        for warning in one.warnings.iter().filter(|of_one| !shared_warnings(of).contains(of_one)) {
            let name = printable_line(&one.name);
            text += &format!("Warning, `{name}`: {}\n", printable_line(warning));
        }
    }
    text
}

/// Returns the warnings that all of several have.
fn shared_warnings(of: &Compared) -> Vec<&String> {
    let [first, others @ ..] = &of.compared[..] else { return Vec::new() };
    let by_all = |warning: &&String| others.iter().all(|one| one.warnings.contains(warning));
    first.warnings.iter().filter(|warning| !others.is_empty() && by_all(warning)).collect()
}

/// Returns the currencies of all costs, each once.
pub(super) fn currencies(of: &Compared) -> Vec<&str> {
    let mut all: Vec<&str> = of.compared.iter().filter_map(|one| one.currency.as_deref()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn job<'o>(one: &'o One, name: &str) -> Option<&'o OneJob> {
    one.jobs.iter().find(|job| job.name == name)
}

/// Returns the table of a job: a row for each figure, and a column for each of what is compared.
fn of_job(of: &Compared, name: &str) -> String {
    let known = |index: &usize| {
        let figure = |one: &One| job(one, name)?.figures[*index].mean;
        of.compared.iter().any(|one| figure(one).is_some())
    };
    let names = of.compared.iter().map(|one| printable_line(&one.name));
    let heading: Vec<String> = std::iter::once(String::new()).chain(names).collect();
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    let mut rows = table(&heading);
    let first = of.compared.first().and_then(|one| job(one, name));
    let row = |label: String, cell: &dyn Fn(&One, &OneJob) -> Option<String>| {
        let values = of.compared.iter().map(|one| {
            job(one, name).and_then(|job| cell(one, job)).unwrap_or_else(|| "-".to_owned())
        });
        cells(&std::iter::once(label).chain(values).collect::<Vec<_>>())
    };
    for index in (0..of.metrics.len()).filter(known) {
        let metric = of.metrics[index];
        let first = first.map(|job| &job.figures[index]);
        let currency = of.compared.first().and_then(|one| one.currency.as_deref());
        rows.add_row(row(label(metric), &|one, job| {
            let same = metric.unit != Unit::Money || one.currency.as_deref() == currency;
            let first = first.filter(|_| same);
            value(metric, &job.figures[index], first, one.currency.as_deref())
        }));
    }
    rows.add_row(row("Largest stall".to_owned(), &|_, job| {
        job.causes.first().map(|(cause, of)| format!("{cause} {}", share(*of)))
    }));
    rows.to_string()
}

/// Returns the name of a figure, short.
fn label(metric: &Metric) -> String {
    let name = metric.label.strip_suffix(", share of time").unwrap_or(&metric.label);
    name.replace("Accelerator utilisation", "Utilisation")
}

/// Writes a figure with its interval and its difference to the first, if there is one to compare it with.
fn value(
    metric: &Metric,
    own: &Shown,
    first: Option<&Shown>,
    currency: Option<&str>,
) -> Option<String> {
    let mean = own.mean?;
    let unit = match metric.unit {
        // The name of the row says what there are so many of a second.
        Unit::SamplesPerSecond | Unit::StepsPerSecond | Unit::EpochsPerSecond => Unit::Count,
        unit => unit,
    };
    let written = with_interval(mean, own.ci95, unit, currency.unwrap_or_default());
    let before = first.and_then(|first| first.mean).filter(|before| *before != mean);
    let Some(before) = before else { return Some(written) };
    let beyond = match (own.ci95, first.and_then(|first| first.ci95)) {
        (Some([low, high]), Some([least, most])) => high < least || most < low,
        _ => false,
    };
    let mark = if beyond { "*" } else { "" };
    Some(match (metric.unit, before == 0.0) {
        (Unit::Share, _) => format!("{written}\n{:+.1} points{mark}", 100.0 * (mean - before)),
        (_, true) => written,
        (_, false) => format!("{written}\n{}{mark}", signed_share(mean / before - 1.0)),
    })
}
