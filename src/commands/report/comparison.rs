//! The section of a comparison.

use super::provenance;
use super::purchase::{self, Bought};
use super::read::{counted, list, text};
use crate::commands::compare::{Compared, One, OneJob, Shown};
use crate::commands::compare_figure::{self, MOST_NAMES};
use crate::commands::{compare_text, diff};
use crate::metric::{self, Metric, Unit};
use crate::page::{Block, Cell, Column, Part, Section, Table};
use crate::plan::goal::with_interval;
use crate::report::format::{share, signed_share};
use serde_json::Value;

/// Reads a comparison.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(json: &Value) -> Result<Compared, String> {
    let mut compared: Compared =
        serde_json::from_value(json.clone()).map_err(|why| why.to_string())?;
    let mut jobs = compared.compared.iter().flat_map(|one| &one.jobs);
    let names: Vec<String> = jobs
        .next()
        .map_or(&[][..], |job| &job.figures)
        .iter()
        .map(|of| of.metric.clone())
        .collect();
    let is_alike = |job: &OneJob| job.figures.iter().map(|of| &of.metric).eq(&names);
    if !compared.compared.iter().flat_map(|one| &one.jobs).all(is_alike) {
        return Err("its jobs have different figures".to_owned());
    }
    if compared.compared.is_empty() {
        return Err("nothing is compared in it".to_owned());
    }
    for one in list(json, "compared") {
        Bought::of_report("", one)?;
    }
    for name in &names {
        let Some(metric) = metric::of_column(name) else {
            return Err(format!("there is no figure {name:?}"));
        };
        compared.metrics.push(metric);
    }
    Ok(compared)
}

/// Returns the section of a comparison; `json` is the same comparison, with parts of the reports that `of` leaves out.
pub(super) fn section(of: &Compared, json: &Value) -> Section {
    let parts = vec![
        Part::new("Figures", figures(of)),
        Part::new("Side by side", of.tables()),
        Part::new("What holds each back", of.limits()),
        of.costs(json),
        Part::new("How sure is it?", of.certainty()),
        Part::new(super::SCENARIO, of.settings(json)),
        Part::new("What was assumed", assumed(of, json)),
        provenance::origin(json),
    ];
    let title = match &of.compared[..] {
        few if few.len() <= MOST_NAMES => {
            let names: Vec<String> = few.iter().map(|one| format!("`{}`", one.name)).collect();
            format!("Comparison of {}", names.join(", "))
        }
        many => format!("Comparison of {}", counted(many.len() as f64, "option")),
    };
    Section { title, answer: of.answer(), warnings: warnings(of), parts }
}

fn warnings(of: &Compared) -> Vec<String> {
    let all = compare_text::warnings(of).into_iter();
    let write = |(name, warning): (Option<&str>, &str)| match name {
        Some(name) => format!("`{name}`: {warning}"),
        None => warning.to_owned(),
    };
    all.map(write).collect()
}

fn figures(of: &Compared) -> Vec<Block> {
    let Ok((mut figure, left_out)) = compare_figure::figure(of, false) else { return Vec::new() };
    figure.title = "Figures side by side, and where the time goes".to_owned();
    figure.subtitle = left_out.unwrap_or_default();
    vec![Block::Figure(Box::new(figure))]
}

impl OneJob {
    fn figure(&self, column: &str) -> Option<&Shown> {
        self.figures.iter().find(|of| of.metric == column && of.mean.is_some())
    }
}

impl Compared {
    /// Says which one is the fastest for each job, and which costs least.
    fn answer(&self) -> Vec<String> {
        let mut answer: Vec<String> =
            self.jobs().into_iter().filter_map(|job| self.fastest(job)).collect();
        answer.extend(self.cheapest());
        for one in &self.compared {
            let failed = one.failed.as_ref();
            answer.extend(failed.map(|why| format!("`{}` could not be run: {why}", one.name)));
        }
        if answer.is_empty() {
            answer.push("No step was completed.".to_owned());
        }
        answer
    }

    /// Says which one costs the least, where all costs are in one currency.
    fn cheapest(&self) -> Option<String> {
        let [currency] = compare_text::currencies(self)[..] else { return None };
        let cost = |one: &One| one.jobs.first()?.figure("cost_per_month")?.mean;
        let costs = self.compared.iter().filter_map(|one| Some((cost(one)?, &one.name)));
        let costs: Vec<(f64, &String)> = costs.collect();
        let (least, name) = costs.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let written = with_interval(*least, None, Unit::Money, currency);
        let alike = costs.iter().filter(|(cost, _)| cost == least).count();
        match (costs.len(), alike) {
            (1, _) => None,
            (all, alike) if all == alike => Some(format!("All cost the same, {written} a month.")),
            _ => Some(format!("`{name}` costs the least: {written} a month.")),
        }
    }

    /// Says which one trains a job the fastest, and whether that may be chance.
    fn fastest(&self, job: &str) -> Option<String> {
        let speed = |one: &One| {
            let figure = one.job(job)?.figure("samples_per_second")?;
            Some((one.name.clone(), figure.mean?, figure.ci95))
        };
        let speeds: Vec<_> = self.compared.iter().filter_map(speed).collect();
        let first = speeds.first()?;
        // Of equally fast ones the first is named.
        let best = speeds.iter().fold(first, |best, of| if of.1 > best.1 { of } else { best });
        let written = with_interval(best.1, best.2, Unit::SamplesPerSecond, "");
        if speeds.iter().all(|of| of.1 == best.1) {
            let all = if speeds.len() > 1 { "All train" } else { "It trains" };
            return Some(format!("{all} `{job}` at {written}."));
        }
        let more = match best.0 == first.0 {
            true => String::new(),
            false => {
                let beyond = match (diff::are_apart(best.2, first.2), best.2, first.2) {
                    (true, ..) => ", beyond chance",
                    (false, Some(_), Some(_)) => ", which may be chance",
                    _ => "",
                };
                format!(": {} against `{}`{beyond}", signed_share(best.1 / first.1 - 1.0), first.0)
            }
        };
        let is_close = |of: &&(String, f64, Option<[f64; 2]>)| {
            let both = best.2.is_some() && of.2.is_some();
            of.0 != best.0 && of.0 != first.0 && both && !diff::are_apart(best.2, of.2)
        };
        let close = speeds.iter().filter(is_close).map(|of| format!("`{}`", of.0));
        let close: Vec<String> = close.collect();
        let close = match close.is_empty() {
            true => String::new(),
            false => format!(" Its lead over {} may be chance.", close.join(", ")),
        };
        Some(format!("`{}` trains `{job}` the fastest, {written}{more}.{close}", best.0))
    }

    /// Returns a table for each job: a row for each of what is compared.
    fn tables(&self) -> Vec<Block> {
        let Some(reference) = self.compared.first() else { return Vec::new() };
        let mut blocks: Vec<Block> = self.jobs().into_iter().map(|job| self.table(job)).collect();
        if self.compared.len() > 1 {
            blocks.push(Block::Paragraph(format!(
                "Differences in brackets are to `{}`; a * marks those beyond chance, where the 95 % intervals do not overlap.",
                reference.name
            )));
        }
        blocks.extend(compare_text::several_currencies(self).map(Block::Paragraph));
        blocks
    }

    fn table(&self, job: &str) -> Block {
        let is_known = |metric: &&&Metric| {
            let mut jobs = self.compared.iter().filter_map(|one| one.job(job));
            jobs.any(|job| job.figure(&metric.column).is_some())
        };
        let metrics: Vec<&Metric> = self.metrics.iter().filter(is_known).copied().collect();
        let mut columns = vec![Column::text("name")];
        columns.extend(metrics.iter().map(|metric| Column::number(&*metric.label)));
        columns.push(Column::text("largest stall"));
        let reference = self.compared.first();
        let row = |one: &One| {
            let own = one.job(job);
            let mut row = vec![Cell::from(one.name.as_str())];
            row.extend(metrics.iter().map(|metric| {
                let figure = own.and_then(|job| job.figure(&metric.column));
                let before = reference
                    .filter(|of| metric.unit != Unit::Money || of.currency == one.currency);
                let before = before.and_then(|of| of.job(job)?.figure(&metric.column));
                value(metric, figure, before, one.currency.as_deref())
            }));
            let largest = own.and_then(|job| job.causes.first());
            let largest = largest.map(|(cause, of)| format!("{cause} {}", share(*of)));
            row.push(largest.unwrap_or_else(|| "–".to_owned()).into());
            row
        };
        let rows = self.compared.iter().map(row).collect();
        let caption = format!("Figures of `{job}`, ± 95 % interval");
        Block::Table(Table { caption, columns, rows })
    }

    fn limits(&self) -> Vec<Block> {
        let limit = |one: &One| Some(format!("`{}`: {}", one.name, one.bottleneck.as_ref()?));
        let all: Vec<String> = self.compared.iter().filter_map(limit).collect();
        if all.is_empty() { Vec::new() } else { vec![Block::List(all)] }
    }

    fn costs(&self, json: &Value) -> Part {
        let all = self.compared.iter().zip(list(json, "compared"));
        let bought = all.filter_map(|(one, json)| Bought::of_report(&one.name, json).ok()?);
        purchase::part(&bought.collect::<Vec<_>>())
    }

    fn certainty(&self) -> Vec<Block> {
        let one = |one: &One| {
            let (replications, seed) = (one.rest.get("replications")?, one.rest.get("seed")?);
            let replications = counted(replications.as_f64()?, "replication");
            Some(format!("`{}`: {replications} with seed {seed}.", one.name))
        };
        let mut all: Vec<String> = self.compared.iter().filter_map(one).collect();
        all.push("Intervals are 95 % intervals of means.".to_owned());
        for one in &self.compared {
            let short =
                one.jobs.iter().filter_map(|job| Some((&job.name, job.too_short.as_ref()?)));
            all.extend(short.map(|(job, why)| {
                format!("The run of `{job}` in `{}` is too short: {why}", one.name)
            }));
        }
        vec![Block::List(all)]
    }

    /// Returns the keys that the scenarios set, side by side.
    fn settings(&self, json: &Value) -> Vec<Block> {
        let all: Vec<&Value> = list(json, "compared").collect();
        let mut keys: Vec<&str> = Vec::new();
        for entry in all.iter().flat_map(|one| list(one, "settings")) {
            let key = entry["key"].as_str().unwrap_or_default();
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let value = |one: &Value, key: &str| {
            let found = list(one, "settings").find(|entry| entry["key"].as_str() == Some(key));
            found.and_then(|entry| text(entry, "/value"))
        };
        let mut columns = vec![Column::text("key")];
        columns.extend(self.compared.iter().map(|one| Column::text(format!("`{}`", one.name))));
        let mut rows = Vec::new();
        for key in keys {
            let values: Vec<Option<String>> = all.iter().map(|one| value(one, key)).collect();
            let is_same = values.iter().all(|value| *value == values[0]) && values.len() > 1;
            let cell = |(at, value): (usize, Option<String>)| match (is_same, at) {
                (true, 1..) => Cell::from("same"),
                _ => Cell::from(value.unwrap_or_else(|| "default".to_owned())),
            };
            let cells = values.into_iter().enumerate().map(cell);
            rows.push(std::iter::once(Cell::from(key)).chain(cells).collect());
        }
        let caption = "Keys that the scenarios set".to_owned();
        match rows.is_empty() {
            true => Vec::new(),
            false => vec![Block::Table(Table { caption, columns, rows })],
        }
    }
}

/// Returns the defaults of the first scenario or option.
fn assumed(of: &Compared, json: &Value) -> Vec<Block> {
    let both = of.compared.first().zip(list(json, "compared").next());
    both.map_or_else(Vec::new, |(one, json)| {
        let caption = format!("Defaults that `{}` took, and whose they are", one.name);
        provenance::keys(json, "assumed", &caption, true)
    })
}

/// Writes a figure with its interval and, in brackets, its difference to the first.
fn value(
    metric: &Metric,
    own: Option<&Shown>,
    first: Option<&Shown>,
    currency: Option<&str>,
) -> Cell {
    let written = own.and_then(|own| compare_text::value(metric, own, first, currency));
    let text = written.map_or_else(
        || "–".to_owned(),
        |of| of.written + &of.differs.map_or_else(String::new, |by| format!(" ({by})")),
    );
    Cell { text, value: own.and_then(|own| own.mean) }
}
