//! Profiles and their differences as tables.

use super::{cluster, output};
use crate::law::CachePolicy;
use crate::profile::{Change, Fit, Neighbours, Parameter, Profile, ThroughputTable, Verdict};
use crate::report::format::{bytes, number, prefixed, rate, seconds, share, signed_share};
use crate::scenario::printable_line;
use comfy_table::{Cell, CellAlignment, Table};
use std::collections::BTreeMap;

/// Returns parameters in order of their names, those of one kind by their numbers: `at_8` before `at_1024`.
pub(super) fn by_number(parameters: &BTreeMap<String, Parameter>) -> Vec<(&String, &Parameter)> {
    let mut all: Vec<_> = parameters.iter().collect();
    all.sort_by_key(|(name, _)| {
        let start = name.trim_end_matches(|c: char| c.is_ascii_digit());
        (start, name[start.len()..].parse::<u64>().unwrap_or(0))
    });
    all
}

/// Returns a profile as text: a table of parameters, notes, ranges of the measurements and provenance.
pub(super) fn show(profile: &Profile) -> String {
    let mut rows = table(&["fit", "parameter", "value", "95 % interval", "residual", "trials"]);
    let mut notes = String::new();
    for (path, fit) in profile.fits() {
        let path = printable_line(&path.join("."));
        for (index, (name, parameter)) in by_number(&fit.parameters).into_iter().enumerate() {
            let first = |text: String| if index == 0 { text } else { String::new() };
            let mark = if parameter.unidentified.is_some() { " ?" } else { "" };
            rows.add_row(cells(&[
                first(path.clone()),
                printable_line(name),
                format!("{}{mark}", shown(parameter.value, &parameter.unit)),
                interval(parameter),
                first(share(fit.residual)),
                first(fit.samples.to_string()),
            ]));
            if let Some(why) = &parameter.unidentified {
                notes += &format!("? {path}.{}: {}\n", printable_line(name), printable_line(why));
            }
        }
    }
    let alone: String = profile.fits().iter().map(|(path, fit)| alone(path, fit)).collect();
    let tables: String = profile.throughput.iter().map(|(name, of)| throughput(name, of)).collect();
    let measured: String = profile.fits().iter().map(|(path, fit)| range(path, fit)).collect();
    let neighbours = profile.neighbours.as_ref().map(neighbours).unwrap_or_default();
    let nodes = match profile.node.is_empty() {
        true => String::new(),
        false => {
            let beside = cluster::beside(profile).unwrap_or_default();
            format!("{}\n{beside}", cluster::nodes(profile))
        }
    };
    format!("{rows}\n\n{nodes}{notes}{neighbours}{alone}{measured}{tables}{}", provenance(profile))
}

/// Returns a line that says what others took during the measurement.
pub(super) fn neighbours(of: &Neighbours) -> String {
    let Neighbours { beside, others, waited, throttled } = of;
    format!(
        "{} of the trials ran beside others: on average {} cores were busy with others and {} held back by a quota, and threads \
         got none in {} of the time that they wanted one\n",
        share(*beside),
        number(*others),
        number(*throttled),
        share(*waited)
    )
}

/// Returns a line with the parameters of a fit alone; empty if all of its trials ran alone.
fn alone(path: &[String], fit: &Fit) -> String {
    // A fit without a trial alone has nothing to show: the line on neighbours says how they were.
    let Some(alone) = fit.alone.as_ref().filter(|alone| alone.share > 0.0) else {
        return String::new();
    };
    let path = printable_line(&path.join("."));
    let value = |(name, value): (&String, &f64)| {
        let unit = fit.parameters.get(name).map_or("", |of| &of.unit);
        format!("{} {}", printable_line(name), shown(*value, unit))
    };
    let values: Vec<String> = alone.values.iter().map(value).collect();
    match values.is_empty() {
        true => format!("{path} alone: {} of its trials, too few\n", share(alone.share)),
        false => {
            format!("{path} alone ({} of its trials): {}\n", share(alone.share), values.join(", "))
        }
    }
}

/// Returns a line that summarises a throughput table: its sizes, numbers of readers and largest throughput.
fn throughput(name: &str, of: &ThroughputTable) -> String {
    let most = of.rates.iter().flatten().copied().fold(0.0, f64::max);
    let (sizes, readers) = (of.sizes.len(), of.readers.len());
    let (name, most) = (printable_line(name), rate(most, "B"));
    format!("throughput.{name}: {sizes} sizes by {readers} numbers of readers, {most} at most\n")
}

/// Returns a line with the fitted size and eviction policy of the page cache; empty if the page cache was not measured.
pub(super) fn page_cache(profile: &Profile) -> String {
    let doubts = |fit: &Fit| fit.parameters.get("size")?.unidentified.clone();
    match (profile.page_cache(), profile.cache.values().next()) {
        (Some((policy, size)), _) => {
            let (size, name) = (bytes(size), policy.name());
            let words = match policy {
                CachePolicy::Lru => "drops what was used longest ago",
                CachePolicy::Random => "drops at random",
                CachePolicy::Fifo => "drops what came first",
                CachePolicy::Minio => "keeps what came first",
            };
            format!("page cache: holds {size} of samples and {words} ({name})\n")
        }
        (None, Some(fit)) => {
            let why = doubts(fit).unwrap_or_default();
            format!("page cache: policy and size not identified: {}\n", printable_line(&why))
        }
        (None, None) => String::new(),
    }
}

/// Returns the differences between two profiles as a table.
pub(super) fn diff(changes: &[Change]) -> String {
    let mut rows = table(&["fit", "parameter", "before", "after", "change", "difference"]);
    let value = |parameter: &Option<Parameter>| {
        parameter.as_ref().map_or("-".to_owned(), |p| shown(p.value, &p.unit))
    };
    for change in changes {
        let relative = change.relative.map(signed_share);
        rows.add_row(cells(&[
            printable_line(&change.fit),
            printable_line(&change.parameter),
            value(&change.before),
            value(&change.after),
            relative.unwrap_or_else(|| "-".to_owned()),
            verdict(change.verdict).to_owned(),
        ]));
    }
    let beyond = changes.iter().filter(|change| change.verdict == Verdict::Beyond).count();
    let of = changes.len();
    format!(
        "{rows}\n\n{beyond} of {of} parameters differ for real: each value lies outside of the other's \
         95 % interval.\n"
    )
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Same => "none",
        Verdict::Beyond => "real",
        Verdict::Within => "chance",
        Verdict::Unknown => "unknown",
        Verdict::Gone => "gone",
        Verdict::New => "new",
    }
}

/// Formats a value with its unit, scaled to be readable.
pub(super) fn shown(value: f64, unit: &str) -> String {
    if value.is_infinite() {
        return "no limit".to_owned();
    }
    match unit {
        "s" => seconds(value),
        "core-s" => of_core(value),
        "core-s/B" => format!("{}/B", of_core(value)),
        "s/B" => format!("{}/B", seconds(value)),
        "B" => bytes(value),
        "B/s" => rate(value, "B"),
        "1/s" => format!("{}/s", prefixed(value, "")),
        "1" => share(value),
        other => format!("{} {}", number(value), printable_line(other)),
    }
}

/// Formats a core time: `3 core-ms`.
fn of_core(value: f64) -> String {
    seconds(value).replacen(' ', " core-", 1)
}

/// Formats the 95 % interval of a parameter. If both ends have the same unit, the unit appears once.
pub(super) fn interval(parameter: &Parameter) -> String {
    let Some([low, high]) = parameter.ci95.map(|ends| ends.map(|e| shown(e, &parameter.unit)))
    else {
        return "-".to_owned();
    };
    let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_owned());
    let number = low.split(' ').next().unwrap_or_default();
    if unit(&low) == unit(&high) {
        format!("{number} … {high}")
    } else {
        format!("{low} … {high}")
    }
}

/// Returns a line with the ranges of settings that were measured; outside of them, the law extrapolates.
pub(super) fn range(path: &[String], fit: &Fit) -> String {
    let text = |(name, [low, high]): (&String, &[f64; 2])| {
        let (low, high) = (prefixed(*low, ""), prefixed(*high, ""));
        if low == high {
            format!("{} {low}", printable_line(name))
        } else {
            format!("{} {low} … {high}", printable_line(name))
        }
    };
    let all: Vec<String> = fit.range.iter().map(text).collect();
    match all.is_empty() {
        true => String::new(),
        false => {
            format!("{} was measured with {}\n", printable_line(&path.join(".")), all.join(", "))
        }
    }
}

fn provenance(profile: &Profile) -> String {
    let from = &profile.provenance;
    let mut text = String::new();
    for (what, value) in [
        ("machine", &from.machine),
        ("date", &from.date),
        ("plan", &from.plan),
        ("samples", &from.samples),
        ("forebay", &from.forebay),
    ] {
        if !value.is_empty() {
            text += &format!("{what}: {}\n", printable_line(value));
        }
    }
    for (what, version) in &from.versions {
        text += &format!("{}: {}\n", printable_line(what), printable_line(version));
    }
    let host = &profile.host;
    if host.cores > 0.0 {
        text +=
            &format!("{} cores, {} of memory\n", number(host.cores), prefixed(host.memory, "B"));
    }
    text
}

pub(super) fn table(header: &[&str]) -> Table {
    let mut table = output::table(true);
    table.set_header(cells(&header.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()));
    table
}

/// Makes table cells: the first two columns, names, are left-aligned, the other ones right-aligned.
pub(super) fn cells(texts: &[String]) -> Vec<Cell> {
    let side = |index: usize| if index < 2 { CellAlignment::Left } else { CellAlignment::Right };
    texts.iter().enumerate().map(|(i, text)| Cell::new(text).set_alignment(side(i))).collect()
}
