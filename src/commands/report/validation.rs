//! The section of a validation.

use super::provenance;
use super::read::{counted, list, number, text};
use crate::commands::diff;
use crate::commands::parity::{self, Dots};
use crate::page::{Block, Cell, Column, Part, Section, Table};
use crate::report::format::{count, number as plain, rate, seconds, share, signed_share};
use crate::stats::quantile;
use serde_json::Value;

/// A point in JSON, with the medians of its runs.
struct Point<'v> {
    json: &'v Value,
    predicted: Option<f64>,
    measured: Option<f64>,
    is_held_out: bool,
}

impl Point<'_> {
    fn name(&self) -> &str {
        self.json["name"].as_str().unwrap_or_default()
    }

    fn error(&self) -> Option<f64> {
        let error = self.predicted? / self.measured? - 1.0;
        error.is_finite().then_some(error)
    }
}

fn point(json: &Value) -> Point<'_> {
    Point {
        json,
        predicted: number(json, "/predicted/median/samples_per_second"),
        measured: median(json, "samples_per_second"),
        is_held_out: json["held_out"] == true,
    }
}

/// Returns the median of a figure over the runs of a point.
fn median(json: &Value, figure: &str) -> Option<f64> {
    let mut values: Vec<f64> =
        list(json, "runs").filter_map(|run| run.get(figure)?.as_f64()).collect();
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

/// Returns the section of a validation.
pub(super) fn section(json: &Value) -> Section {
    let points: Vec<Point<'_>> = list(json, "points").map(point).collect();
    let verdict = json.get("verdict").filter(|verdict| !verdict.is_null());
    let mut warnings = Vec::new();
    let noisy = verdict.and_then(|of| number(of, "/too_noisy")).filter(|number| *number > 0.0);
    if let Some(noisy) = noisy {
        let noisy = counted(noisy, "point");
        warnings.push(format!("Too noisy to count, because their runs differ: {noisy}."));
    }
    if points.iter().filter(|point| point.is_held_out).count() == 0 {
        warnings.push("No point is held out from the fit, so the error is unknown.".to_owned());
    }
    let parts = vec![
        Part::new("Predicted and measured", parity(&points)),
        Part::new("Points", vec![table(&points)]),
        Part::new("By bottleneck", verdict.map(classes).unwrap_or_default()),
        Part::new("How sure is it?", certainty(verdict, &points)),
        Part::new("What was assumed", fitted(json)),
        provenance::origin(json),
    ];
    let title = "Predictions and measurements".to_owned();
    Section { title, answer: answer(verdict), warnings, parts }
}

/// Says how far predictions are off: on average, and at worst.
fn answer(verdict: Option<&Value>) -> Vec<String> {
    let known = verdict.and_then(|of| {
        let (name, error) = (of.pointer("/worst/0")?.as_str()?, number(of, "/worst/1")?);
        Some((number(of, "/points")?, number(of, "/mean_error")?, (name, error)))
    });
    let Some((number_of, mean, (name, error))) = known else {
        return vec!["No held-out point counts, so the error is unknown.".to_owned()];
    };
    let mut answer = vec![format!(
        "Predictions of samples per second are off by {} on average over {}, and by {} at worst, at `{name}`.",
        share(mean),
        counted(number_of, "held-out point"),
        share(error)
    )];
    if let Some(naive) = verdict.and_then(|of| number(of, "/naive_mean_error")) {
        answer.push(format!(
            "The naive model, the slowest of fetching, preparing and computing, is off by {}.",
            share(naive)
        ));
    }
    let cause = verdict.and_then(|of| of.get("worst_cause")).and_then(|of| {
        let (ours, live) = (share(of[1].as_f64()?), share(of[2].as_f64()?));
        Some((of[0].as_str()?, ours, live))
    });
    answer.extend(cause.map(|(cause, ours, live)| {
        format!("Mispredicted most there: `{cause}`, {ours} of the time where {live} was measured.")
    }));
    answer
}

fn parity(points: &[Point<'_>]) -> Vec<Block> {
    let dots = |name: &'static str, held_out: bool| {
        let dot = |point: &Point<'_>| {
            let (measured, predicted) = (point.measured?, point.predicted?);
            (measured > 0.0 && predicted > 0.0).then_some((measured, predicted))
        };
        let own = points.iter().filter(|point| point.is_held_out == held_out);
        Dots { name, points: own.filter_map(dot).collect() }
    };
    let sets = vec![dots("held out", true), dots("fit points", false)];
    if sets.iter().all(|set| set.points.is_empty()) {
        return Vec::new();
    }
    vec![Block::Figure(Box::new(parity::figure("samples per second", "points", sets)))]
}

fn table(points: &[Point<'_>]) -> Block {
    let columns = vec![
        Column::text("point"),
        Column::text("use"),
        Column::text("bound by"),
        Column::number("predicted samples/s"),
        Column::number("90 % of runs"),
        Column::number("measured"),
        Column::number("runs"),
        Column::number("error"),
        Column::number("predicted step"),
        Column::number("measured step"),
        Column::number("predicted stall"),
        Column::number("measured stall"),
    ];
    let row = |of: &Point<'_>| {
        let ends = |at: usize| number(of.json, &format!("/predicted/interval/{at}"));
        let interval = ends(0).zip(ends(1));
        let interval = interval.map(|(low, high)| format!("{} to {}", plain(low), plain(high)));
        let predicted = |figure: &str| number(of.json, &format!("/predicted/median/{figure}"));
        vec![
            Cell::from(of.name()),
            Cell::from(if of.is_held_out { "held out" } else { "fit" }),
            Cell::from(of.json["bound"].as_str().unwrap_or_default()),
            Cell::number(of.predicted, plain),
            Cell { text: interval.unwrap_or_else(|| "–".to_owned()), value: ends(0) },
            Cell::number(of.measured, plain),
            Cell::number(Some(list(of.json, "runs").count() as f64), count),
            Cell::number(of.error(), signed_share),
            Cell::number(predicted("step_time"), seconds),
            Cell::number(median(of.json, "step_time"), seconds),
            Cell::number(predicted("stall"), share),
            Cell::number(median(of.json, "stall"), share),
        ]
    };
    let rows = points.iter().map(row).collect();
    Block::Table(Table { caption: "All points".to_owned(), columns, rows })
}

fn classes(verdict: &Value) -> Vec<Block> {
    let columns = vec![
        Column::text("predicted bottleneck"),
        Column::number("points"),
        Column::number("mean error"),
        Column::number("largest error"),
        Column::number("naive model"),
    ];
    let row = |of: &Value| {
        vec![
            Cell::from(of["bound"].as_str().unwrap_or_default()),
            Cell::number(of["points"].as_f64(), count),
            Cell::number(of["mean_error"].as_f64(), share),
            Cell::number(of["worst"].as_f64(), share),
            Cell::number(of["naive_mean_error"].as_f64(), share),
        ]
    };
    let rows: Vec<Vec<Cell>> = list(verdict, "classes").map(row).collect();
    let caption = "Errors of samples per second by predicted bottleneck".to_owned();
    if rows.is_empty() { Vec::new() } else { vec![Block::Table(Table { caption, columns, rows })] }
}

fn certainty(verdict: Option<&Value>, points: &[Point<'_>]) -> Vec<Block> {
    let runs: usize = points.iter().map(|point| list(point.json, "runs").count()).sum();
    let (points, runs) = (counted(points.len() as f64, "point"), counted(runs as f64, "run"));
    let mut all = vec![format!("{points} with {runs} that were measured.")];
    if let Some(of) = verdict {
        if let (Some(coverage), Some(width)) = (number(of, "/coverage"), number(of, "/half_width"))
        {
            all.push(format!(
                "Predicted intervals that should hold 90 % of runs hold {}; their median half-width is {}.",
                share(coverage),
                share(width)
            ));
        }
        let error = number(of, "/step_time_error");
        all.extend(
            error.map(|error| format!("Step times are off by {} on average.", share(error))),
        );
        let stall = number(of, "/stall_difference");
        all.extend(
            stall.map(|of| format!("Shares of stalls are off by {} on average.", share(of))),
        );
    }
    vec![Block::List(all)]
}

/// Returns what was fitted on rows before the others were predicted.
fn fitted(json: &Value) -> Vec<Block> {
    let Some(fitted) = json.get("fitted").filter(|fitted| !fitted.is_null()) else {
        return Vec::new();
    };
    let columns = vec![
        Column::text("what limits"),
        Column::number("amount"),
        Column::text("what that is"),
        Column::number("worker's time for a sample"),
        Column::number("error left"),
        Column::text("not identified"),
    ];
    let told = |of: &Value, write: fn(f64) -> String| {
        let range = diff::interval(of).map(|ends| {
            let [low, high] = ends.map(write);
            format!(" [{low}, {high}]")
        });
        Cell::number(of["value"].as_f64(), |value| write(value) + &range.unwrap_or_default())
    };
    let row = |of: &Value| {
        let limit = of["limit"].as_str().unwrap_or_default();
        let (write, what): (fn(f64) -> String, &str) = match limit {
            "step" => (plain, "time of a step, times what scenario and profile say"),
            "batch" => (seconds, "time of the trainer for a batch, besides its step"),
            "cores" => (share, "part of the cores that threads get"),
            "crowd" => (share, "by how much each computing thread slows each other"),
            "server" => (|value| rate(value, "B"), "bandwidth of the storage"),
            "lock" => (share, "part of their work for which workers hold a common lock"),
            _ => (plain, ""),
        };
        let doubts = [("amount", "amount"), ("sample", "worker's time")];
        let doubts = doubts.iter().filter_map(|(key, name)| {
            Some(format!("{name}: {}", text(&of[*key], "/unidentified")?))
        });
        vec![
            Cell::from(limit),
            told(&of["amount"], write),
            Cell::from(what),
            told(&of["sample"], plain),
            Cell::number(of["residual"].as_f64(), share),
            Cell::from(doubts.collect::<Vec<_>>().join("; ")),
        ]
    };
    let rows = list(fitted, "explanations").map(row).collect();
    let number = number(fitted, "/rows").map(count).unwrap_or_default();
    let caption = format!(
        "Explanations fitted on {number} rows, which predictions span; a worker's time is a multiple of what scenario and profile say"
    );
    let mut blocks = vec![Block::Table(Table { caption, columns, rows })];
    let telling = json.get("telling").map(|of| super::read::texts(of, "set")).unwrap_or_default();
    if !telling.is_empty() {
        blocks.push(Block::Paragraph(format!(
            "One run would tell the explanations apart: the fastest row with `{}`.",
            telling.join("`, `")
        )));
    }
    blocks
}
