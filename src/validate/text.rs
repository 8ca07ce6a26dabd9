//! The table of errors as text.

use super::{Bound, Class, Observed, Pace, Point, Refit, Told, Verdict};
use crate::report::format::{number, rate, seconds, share, signed_share};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets::NOTHING};
use std::fmt::Write;

/// Returns the table of all points, and the summary below it.
#[must_use]
pub fn render(points: &[Point], width: usize) -> String {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width).unwrap_or(u16::MAX))
        .set_header([
            "point",
            "bound by",
            "predicted samples/s (90 %)",
            "measured",
            "noise",
            "error",
            "naive",
            "step time",
            "stall",
            "queue",
        ]);
    for index in 2..10 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for point in points {
        table.add_row(row(point));
    }
    let mut text = format!("{table}\n");
    for line in summary(points) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Returns the fitted factors as text, with a list of the properties that no such fit can determine.
#[must_use]
pub fn refitted(refit: &Refit) -> String {
    let told = |what: &str, told: &Told| {
        let interval = told.ci95.map(|[low, high]| format!(" [{low:.3}, {high:.3}]"));
        let why = match &told.unidentified {
            None => String::new(),
            Some(why) => format!(" ? not identified: {why}"),
        };
        let interval = interval.unwrap_or_default();
        format!("{what}{:.3} times what scenario and profile say{interval}{why}\n", told.value)
    };
    let rows = if refit.rows == 1 { "row" } else { "rows" };
    format!(
        "fitted on {} {rows}, which it meets within {}\n{}{}\
         not told by rows       reading, decoding and handing over apart; shared bandwidth, operations \
         and cores; fixed and per-sample parts of a step; jitter\n",
        refit.rows,
        share(refit.residual),
        told("time of a step         ", &refit.step),
        told("worker's time, sample  ", &refit.sample),
    )
}

fn row(point: &Point) -> Vec<String> {
    let predicted = &point.predicted.median;
    let [low, high] = point.predicted.interval.map(number);
    let measured = point.measured();
    let both = |of: fn(&Observed) -> f64, write: fn(f64) -> String| {
        let live = measured.as_ref().map_or("-".to_owned(), |run| write(of(run)));
        format!("{} / {live}", write(of(predicted)))
    };
    let mark = match (point.held_out, point.counts()) {
        (false, _) => " (fit)",
        (true, false) if !point.runs.is_empty() => " (too noisy)",
        (true, _) => "",
    };
    vec![
        format!("{}{mark}", point.name),
        point.bound.name().to_owned(),
        format!("{} [{low}, {high}]", number(predicted.samples_per_second)),
        measured.as_ref().map_or("-".to_owned(), |run| number(run.samples_per_second)),
        point.noise().map_or("-".to_owned(), share),
        point.error(|run| run.samples_per_second).map_or("-".to_owned(), signed_share),
        point.naive_error().map_or("-".to_owned(), signed_share),
        both(|run| run.step_time, seconds),
        both(|run| run.stall, share),
        both(|run| run.occupancy, number),
    ]
}

fn summary(points: &[Point]) -> Vec<String> {
    if points.iter().all(|point| point.runs.is_empty()) {
        return vec![predicted(points)];
    }
    let Some(verdict) = Verdict::from_points(points) else {
        return vec![
            "no held-out point is quiet enough to count: run it again on a quieter machine"
                .to_owned(),
        ];
    };
    let (name, worst) = &verdict.worst;
    let cause = verdict.worst_cause.as_ref().map_or(String::new(), |(cause, ours, live)| {
        format!("; mispredicted most there: {cause}, {} against {}", share(*ours), share(*live))
    });
    let naive = verdict.naive_mean_error.map_or("-".to_owned(), share);
    let mut lines = vec![format!(
        "held-out points      {} counted, {} too noisy",
        verdict.points, verdict.too_noisy
    )];
    lines.extend(verdict.classes.iter().map(|of| class(of, verdict.points)));
    lines.extend([
        format!(
            "samples per second   mean error {}, worst {} ({name}{cause})",
            share(verdict.mean_error),
            share(*worst)
        ),
        format!("naive min(F, P, G)   mean error {naive}"),
        format!("step time            mean error {}", share(verdict.step_time_error)),
        format!("stall share          mean difference {}", share(verdict.stall_difference)),
        format!(
            "90 % intervals       hold {} of the runs; median half-width {}",
            share(verdict.coverage),
            share(verdict.half_width)
        ),
        format!("fastest and slowest  {}", extremes(points)),
    ]);
    lines.extend(pace(points));
    lines
}

/// Returns the line with the pace of the cores in each attempt; `None` if no fit point showed a difference from the profile.
fn pace(points: &[Point]) -> Option<String> {
    let mut paces: Vec<(usize, Pace)> =
        points.iter().map(|point| (point.before.len(), point.pace)).collect();
    paces.retain(|(_, pace)| *pace != Pace::default());
    paces.sort_by_key(|(attempt, _)| *attempt);
    paces.dedup();
    let of =
        |(_, pace): &(usize, Pace)| format!("decoding {:.2}, steps {:.2}", pace.decode, pace.step);
    let all: Vec<String> = paces.iter().map(of).collect();
    let what = "times on cores against the profile's, as fit points of an attempt show";
    (!all.is_empty()).then(|| format!("pace                 {} ({what})", all.join("; ")))
}

/// Returns the line with the predicted bottlenecks of held-out points, for a plan without any runs.
fn predicted(points: &[Point]) -> String {
    let of = |bound: Bound| points.iter().filter(|p| p.held_out && p.bound == bound).count();
    let classes = Bound::ALL.map(|bound| format!("{} {}", bound.name(), of(bound)));
    format!("held-out points, nothing run: {}", classes.join(", "))
}

/// Returns the line with the errors of the points that have the same bottleneck.
fn class(of: &Class, all: usize) -> String {
    let or_none = |error: Option<f64>| error.map_or("-".to_owned(), share);
    let wanted = of.share(all).map_or(String::new(), |(wanted, met)| {
        format!(" ({wanted}: {})", if met { "met" } else { "not met" })
    });
    format!(
        "  {:<18} {} of {all}{wanted}; mean error {}, worst {}, naive {}",
        of.bound.name(),
        of.points,
        or_none(of.mean_error),
        or_none(of.worst),
        or_none(of.naive_mean_error)
    )
}

fn extremes(points: &[Point]) -> String {
    let rates = points.iter().filter_map(|p| Some(p.measured()?.samples_per_second));
    let (low, high) = rates.fold((f64::INFINITY, 0.0_f64), |(l, h), r| (l.min(r), h.max(r)));
    format!("{} to {}", rate(low, "samples"), rate(high, "samples"))
}
