//! The text of `forebay compare`.

use super::compare::{Compared, One, OneJob, Shown};
use super::diff;
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
        text += &several_currencies(of).map_or_else(String::new, |line| line + "\n");
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
    for (name, warning) in warnings(of) {
        let name = name.map_or_else(String::new, |name| format!(", `{}`", printable_line(name)));
        text += &format!("Warning{name}: {}\n", printable_line(warning));
    }
    text
}

/// Returns all warnings, each with the name of what it is about; one that all share stands once, without a name.
pub(super) fn warnings(of: &Compared) -> Vec<(Option<&str>, &str)> {
    let is_shared = |warning: &&String| {
        of.compared.len() > 1 && of.compared.iter().all(|one| one.warnings.contains(warning))
    };
    let first = of.compared.iter().take(1).flat_map(|one| &one.warnings);
    let shared = first.filter(is_shared).map(|warning| (None, warning.as_str()));
    let each = of.compared.iter().flat_map(|one| one.warnings.iter().map(move |of| (one, of)));
    let own = each.filter(|(_, warning)| !is_shared(warning));
    shared.chain(own.map(|(one, warning)| (Some(one.name.as_str()), warning.as_str()))).collect()
}

/// Says why costs in several currencies have no difference.
pub(super) fn several_currencies(of: &Compared) -> Option<String> {
    let currencies = currencies(of);
    let each = currencies.join(" and ");
    let line = format!("Costs in {each} have no difference: write all prices in one currency.");
    (currencies.len() > 1).then_some(line)
}

/// Returns the currencies of all costs, each once.
pub(super) fn currencies(of: &Compared) -> Vec<&str> {
    let mut all: Vec<&str> = of.compared.iter().filter_map(|one| one.currency.as_deref()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the table of a job: a row for each figure, and a column for each of what is compared.
fn of_job(of: &Compared, name: &str) -> String {
    let known = |index: &usize| {
        let figure = |one: &One| one.job(name)?.figures[*index].mean;
        of.compared.iter().any(|one| figure(one).is_some())
    };
    let names = of.compared.iter().map(|one| printable_line(&one.name));
    let heading: Vec<String> = std::iter::once(String::new()).chain(names).collect();
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    let mut rows = table(&heading);
    let first = of.compared.first().and_then(|one| one.job(name));
    let row = |label: String, cell: &dyn Fn(&One, &OneJob) -> Option<String>| {
        let values = of.compared.iter().map(|one| {
            one.job(name).and_then(|job| cell(one, job)).unwrap_or_else(|| "-".to_owned())
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
            let value = value(metric, &job.figures[index], first, one.currency.as_deref())?;
            Some(value.written + &value.differs.map_or_else(String::new, |by| format!("\n{by}")))
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

/// A figure in words.
pub(super) struct Written {
    /// Its mean with its interval.
    pub(super) written: String,
    /// Its difference to the first one; with a `*` if the difference is beyond chance.
    pub(super) differs: Option<String>,
}

/// Writes a figure and its difference to the first, if there is one to compare it with.
pub(super) fn value(
    metric: &Metric,
    own: &Shown,
    first: Option<&Shown>,
    currency: Option<&str>,
) -> Option<Written> {
    let mean = own.mean?;
    let unit = metric.unit.below_its_name();
    let written = with_interval(mean, own.ci95, unit, currency.unwrap_or_default());
    let before = first.and_then(|first| first.mean).filter(|before| *before != mean);
    let Some(before) = before else { return Some(Written { written, differs: None }) };
    let is_beyond = diff::are_apart(own.ci95, first.and_then(|first| first.ci95));
    let mark = if is_beyond { "*" } else { "" };
    let differs = match (metric.unit, before == 0.0) {
        (Unit::Share, _) => Some(format!("{:+.1} points{mark}", 100.0 * (mean - before))),
        (_, true) => None,
        (_, false) => Some(format!("{}{mark}", signed_share(mean / before - 1.0))),
    };
    Some(Written { written, differs })
}
