//! The section of a run.

use super::provenance;
use super::purchase::{self, Bought};
use super::read::{cell, counted, figure, list, number, text, texts};
use crate::commands::diff;
use crate::commands::run_figure::{self, Drawn};
use crate::input::shell_word;
use crate::metric::{self, Metric, Unit};
use crate::page::{Block, Cell, Column, Part, Section, Table};
use crate::plan::goal::written;
use crate::report::format::{count, prefixed, seconds};
use crate::report::{Cause, SeriesReport, StallCause};
use serde_json::Value;

/// Figures of a job that stand first, by their columns.
const FIRST: [&str; 5] =
    ["step_time", "samples_per_second", "accelerator_utilisation", "stall", "epoch_time"];

/// Checks a report, so that its page lacks nothing that it should have.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check(report: &Value) -> Result<(), String> {
    let is_text = |key: &str| report.get(key).is_none_or(|of| of.is_string() || of.is_null());
    if let Some(key) = ["answer", "command", "version"].into_iter().find(|key| !is_text(key)) {
        return Err(format!("`{key}` is no text"));
    }
    let mut jobs = list(report, "jobs").peekable();
    if jobs.peek().is_none() {
        return Err("it has no jobs".to_owned());
    }
    let is_figure = |of: Option<&Value>| {
        of.and_then(|of| of.get("mean")).is_some_and(|mean| mean.is_number() || mean.is_null())
    };
    for job in jobs {
        if let Some(key) = FIRST[..4].iter().find(|key| {
            let key = if **key == "stall" { "/stall/total".to_owned() } else { format!("/{key}") };
            !is_figure(job.pointer(&key))
        }) {
            return Err(format!("a job has no figure `{key}`"));
        }
    }
    Bought::of_report("", report).map(drop)
}

/// Returns the section of a report.
pub(super) fn section(report: &Value) -> Section {
    let jobs: Vec<&Value> = list(report, "jobs").collect();
    let scenario = text(report, "/scenario").unwrap_or_default();
    let world = match text(report, "/world").as_deref() {
        Some("live") => "live run",
        _ => "simulated run",
    };
    let mut answer: Vec<String> = Vec::new();
    answer.extend(text(report, "/answer"));
    let verdict = text(report, "/verdict/text").or_else(|| text(report, "/bottleneck/text"));
    let others = list(report, "other_verdicts").filter_map(|of| text(of, "/text"));
    answer.extend(verdict.into_iter().chain(others).map(|text| without_table(&text)));
    answer.extend(text(report, "/rests_on/text"));
    let mut warnings = too_short(&jobs);
    warnings.extend(texts(report, "warnings"));
    let currency = text(report, "/cost/currency").unwrap_or_default();
    let bought: Vec<Bought> =
        Bought::of_report(&scenario, report).ok().flatten().into_iter().collect();
    let parts = vec![
        Part::new("Over time", figures(&jobs)),
        Part::new("How fast", speed(report, &jobs, &currency)),
        Part::new("What would help", helps(report)),
        Part::new("All figures", all_figures(report, &jobs, &currency)),
        Part::new("Shared resources", resources(report)),
        purchase::part(&bought),
        Part::new("How sure is it?", certainty(report, &jobs)),
        provenance::assumed(report),
        provenance::scenario(report),
        provenance::origin(report),
    ];
    Section { title: format!("{scenario}: {world}"), answer, warnings, parts }
}

/// Returns the text of a verdict without its table of changes, which the page has as a table.
fn without_table(text: &str) -> String {
    let mut in_table = false;
    let keeps = |line: &&str| {
        in_table = line.starts_with("  step ") || in_table && line.starts_with("  ");
        !in_table
    };
    text.lines().filter(keeps).collect::<Vec<_>>().join("\n")
}

/// Says of each job why its run is too short.
fn too_short(jobs: &[&Value]) -> Vec<String> {
    let one = |job: &&Value| {
        let why = text(job, "/length/why").filter(|_| job["length"]["enough"] == false)?;
        let why = why.trim_end_matches('.');
        Some(format!("The run of `{}` is too short: {why}.", job["name"].as_str()?))
    };
    jobs.iter().filter_map(one).collect()
}

/// Returns the figure of the run over time, and of its stalls.
fn figures(jobs: &[&Value]) -> Vec<Block> {
    let series: Vec<SeriesReport> = jobs
        .iter()
        .map(|job| serde_json::from_value(job["series"].clone()).unwrap_or_default())
        .collect();
    let drawn: Vec<Drawn<'_>> = jobs
        .iter()
        .zip(&series)
        .map(|(job, series)| Drawn {
            name: job["name"].as_str().unwrap_or_default(),
            series,
            causes: causes(job),
            trainers: match job["device"].as_str().is_some_and(|of| of.starts_with("cpu")) {
                true => "trainers",
                false => "accelerators",
            },
        })
        .collect();
    if drawn.is_empty() {
        return Vec::new();
    }
    let mut figure = run_figure::from_series(&drawn);
    figure.title = "Steps, queue and rates over time, and what trainers wait for".to_owned();
    vec![Block::Figure(Box::new(figure))]
}

/// Returns the causes of a job's stalls with their shares of time.
fn causes(job: &Value) -> Vec<(Cause, f64)> {
    let stall = &job["stall"];
    let of = |cause: StallCause| Some((cause.cause, number(stall.get(cause.to_string())?, "")?));
    let all = Cause::ALL.into_iter().flat_map(|of| [StallCause::own(of), StallCause::peer(of)]);
    all.filter_map(of).collect()
}

/// Says what the intervals of figures are.
fn interval_is(jobs: &[&Value]) -> &'static str {
    let has_draws = |job: &&Value| job.pointer("/step_time/prediction90").is_some();
    match jobs.iter().any(has_draws) {
        true => "brackets hold 90 % of runs over draws of parameters",
        false => "± is a 95 % interval of the mean",
    }
}

/// Returns the table of jobs, and the shares of their stalls.
fn speed(report: &Value, jobs: &[&Value], currency: &str) -> Vec<Block> {
    let metrics: Vec<&Metric> = FIRST.iter().filter_map(|name| metric::of_column(name)).collect();
    let mut columns = vec![Column::text("job"), Column::number("copies")];
    columns.extend(metrics.iter().map(|metric| Column::number(&*metric.label)));
    columns.push(Column::number("99 % of steps take less than"));
    let row = |job: &&Value| {
        let mut row = vec![
            Cell::from(job["name"].as_str().unwrap_or_default()),
            Cell::number(job["copies"].as_f64(), count),
        ];
        row.extend(
            metrics
                .iter()
                .map(|metric| cell(figure(metric, report, job).as_ref(), metric.unit, currency)),
        );
        row.push(Cell::number(number(job, "/step_time/p99"), seconds));
        row
    };
    let rows = jobs.iter().map(row).collect();
    let caption = format!("Jobs: one copy each, after warm-up; {}", interval_is(jobs));
    let mut blocks = vec![Block::Table(Table { caption, columns, rows })];
    let mut stalls = Vec::new();
    for job in jobs {
        let all = job["stall"].as_object().into_iter().flatten();
        for (cause, of) in all.filter(|(cause, _)| *cause != "total") {
            if number(of, "").is_some_and(|share| share > 0.0) {
                let name = job["name"].as_str().unwrap_or_default();
                stalls.push(vec![
                    name.into(),
                    cause.as_str().into(),
                    cell(Some(of), Unit::Share, ""),
                ]);
            }
        }
    }
    if !stalls.is_empty() {
        let caption = "What trainers wait for, as shares of time".to_owned();
        let columns = vec![Column::text("job"), Column::text("cause"), Column::number("share")];
        blocks.push(Block::Table(Table { caption, columns, rows: stalls }));
    }
    blocks
}

/// Returns what the verdict tried that helps.
fn helps(report: &Value) -> Vec<Block> {
    let Some(verdict) = report.get("verdict") else { return Vec::new() };
    let columns = vec![
        Column::text("limit"),
        Column::text("change"),
        Column::number("step before"),
        Column::number("step after"),
        Column::number("saves"),
        Column::text("also"),
    ];
    let row = |of: &Value| {
        let option = |change: &Value, name: &str| {
            Some(format!("`--{name} {}`", shell_word(change.get(name)?.as_str()?)))
        };
        let change = |change: &Value| option(change, "set").or_else(|| option(change, "unset"));
        let changes: Vec<String> = list(of, "changes").filter_map(change).collect();
        let interval = |key: &str| of.get(key).and_then(diff::ends);
        let with = |pointer: &str, ends: Option<[f64; 2]>, unit: Unit| {
            Cell::number(number(of, pointer), |mean| {
                let range = ends.map(|ends| {
                    let [low, high] = ends.map(|end| written(end, unit, ""));
                    format!(" [{low}, {high}]")
                });
                written(mean, unit, "") + &range.unwrap_or_default()
            })
        };
        vec![
            Cell::from(of["name"].as_str().unwrap_or_default()),
            Cell::from(changes.join(" ")),
            with("/before", None, Unit::Seconds),
            with("/after", interval("after_interval"), Unit::Seconds),
            with("/gain", interval("gain_interval"), Unit::Share),
            Cell::from(text(of, "/also").unwrap_or_default()),
        ]
    };
    let rows: Vec<Vec<Cell>> = list(verdict, "limits").map(row).collect();
    let mut blocks = Vec::new();
    if !rows.is_empty() {
        let caption = "Changes that make steps shorter, each tried alone, with 95 % intervals";
        blocks.push(Block::Table(Table { caption: caption.to_owned(), columns, rows }));
    }
    let mut named = |key: &str, what: &str| {
        let names = texts(verdict, key);
        if !names.is_empty() {
            blocks.push(Block::Paragraph(format!("{what}: {}.", names.join("; "))));
        }
    };
    named("without_effect", "Tried, and not a limit");
    named("uncertain", "Not clear whether they help");
    named("not_tried", "Not tried");
    blocks
}

/// Returns every figure of the table of metrics that a job has.
fn all_figures(report: &Value, jobs: &[&Value], currency: &str) -> Vec<Block> {
    let table = |job: &&Value| {
        let row = |metric: &Metric| {
            let found = figure(metric, report, job)?;
            number(&found, "")?;
            let cells = [Cell::from(&*metric.label), cell(Some(&found), metric.unit, currency)];
            Some(cells.into_iter().chain([Cell::from(&*metric.meaning)]).collect::<Vec<_>>())
        };
        let rows: Vec<Vec<Cell>> = metric::all().iter().filter_map(row).collect();
        let name = job["name"].as_str().unwrap_or_default();
        let columns =
            vec![Column::text("figure"), Column::number("value"), Column::text("meaning")];
        let caption = format!("All figures of `{name}`");
        (!rows.is_empty()).then_some(Block::Table(Table { caption, columns, rows }))
    };
    jobs.iter().filter_map(table).collect()
}

fn resources(report: &Value) -> Vec<Block> {
    let columns = vec![
        Column::text("resource"),
        Column::number("number"),
        Column::number("capacity"),
        Column::number("used"),
        Column::number("most used one"),
    ];
    let row = |of: &Value| {
        let unit = of["unit"].as_str().unwrap_or_default();
        vec![
            Cell::from(of["name"].as_str().unwrap_or_default()),
            Cell::number(of["count"].as_f64(), count),
            Cell::number(of["capacity"].as_f64(), |value| prefixed(value, unit)),
            cell(of.get("utilisation"), Unit::Share, ""),
            cell(of.get("utilisation_max"), Unit::Share, ""),
        ]
    };
    let rows: Vec<Vec<Cell>> = list(report, "resources").map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let caption = "Share of the capacity that is used over the whole run".to_owned();
    vec![Block::Table(Table { caption, columns, rows })]
}

/// Says how many replications the figures rest on, and whether the run was long enough.
fn certainty(report: &Value, jobs: &[&Value]) -> Vec<Block> {
    let mut sentences = Vec::new();
    if let Some(replications) = number(report, "/replications") {
        let replications = counted(replications, "replication");
        sentences.push(format!("Figures are means over {replications}; {}.", interval_is(jobs)));
    }
    for job in jobs {
        let name = job["name"].as_str().unwrap_or_default();
        let warm_up = number(job, "/warm_up_steps").unwrap_or_default();
        let steps = number(job, "/steps").map_or_else(|| "no".to_owned(), count);
        let enough = match job["length"]["enough"].as_bool() {
            Some(true) => "the run is long enough to show the long run",
            Some(false) => "the run is too short to show the long run",
            None => "whether that is long enough is not known",
        };
        let warm_up = count(warm_up);
        sentences.push(format!("`{name}`: {steps} steps after {warm_up} of warm-up; {enough}."));
        sentences.extend(texts(&job["length"], "unseen"));
        let no_interval = text(job, "/length/no_interval");
        sentences.extend(no_interval.map(|why| format!("`{name}` has no intervals: {why}")));
    }
    if let Some(quick) = report.pointer("/verdict/quick").and_then(Value::as_bool) {
        sentences.push(match quick {
            true => "The verdict is an estimate: nothing was tried.".to_owned(),
            false => {
                "Each change of the verdict was simulated with the same random numbers.".to_owned()
            }
        });
    }
    vec![Block::List(sentences)]
}
