//! The table of errors as text.

use super::{Bound, Class, Explained, Limit, Observed, Pace, Point, Refit, Telling, Told, Verdict};
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

/// Largest residual of a fit that the noise of single runs explains.
const NOISE: f64 = 0.05;

/// Returns the fitted explanations as text, the run that would tell them apart, and a list of the properties that no such fit can
/// determine.
#[must_use]
pub fn refitted(refit: &Refit, telling: Option<&Telling>) -> String {
    let Refit { rows, explanations } = refit;
    let left = refit.best().residual;
    let of_rows = if *rows == 1 { "row" } else { "rows" };
    let mut text = String::new();
    if left > NOISE {
        text += &format!(
            "No explanation meets the {rows} rows of the fit: the best one leaves {}, more than equal runs differ by. Something that \
             the scenario leaves out differs between them; predictions are worth little.\n",
            share(left)
        );
    }
    match &explanations[..] {
        [only] => {
            text += &format!("fitted on {rows} {of_rows}, which it meets within {}\n", share(left));
            text += &alone(only);
        }
        several => {
            let most = several.iter().map(|of| of.residual).fold(0.0, f64::max);
            text += &format!(
                "fitted on {rows} {of_rows}: {} explanations meet them within {}, and the rows cannot tell which holds; predictions \
                 span them\n",
                several.len(),
                share(most)
            );
            several.iter().for_each(|of| text += &beside(of));
        }
    }
    if let Some(Telling { set, rates }) = telling {
        let rates: Vec<String> = rates
            .iter()
            .map(|(limit, rate)| format!("{} {}", noun(*limit), number(*rate)))
            .collect();
        text += &format!(
            "one run would tell: the fastest row with `{}` ({} samples/s)\n",
            set.join("`, `"),
            rates.join(", ")
        );
    }
    text + "not told by rows       reading, decoding and handing over apart; fixed and per-sample parts of a step; jitter\n"
}

/// Returns what `next()` costs for each batch [s] as text.
#[must_use]
pub fn next_time_text(time: f64) -> String {
    let time = seconds(time);
    format!(
        "next() of a batch       {time} of the loop's thread, as measured; part of every prediction\n"
    )
}

/// Returns the only explanation as text.
fn alone(of: &Explained) -> String {
    let sample = told("worker's time, sample  ", &of.sample, &times);
    match of.limit {
        Limit::Step => told("time of a step         ", &of.amount, &times) + &sample,
        Limit::Batch => told("trainer, each batch    ", &of.amount, &seconds) + &sample,
        Limit::Cores => told("cores of the threads   ", &of.amount, &share) + &sample,
        Limit::Crowd => told("slowing by each thread ", &of.amount, &share) + &sample,
        Limit::Server => told("bandwidth of storage   ", &of.amount, &rate_of_bytes) + &sample,
        Limit::Lock => told("common lock of workers ", &of.amount, &share) + &sample,
    }
}

/// Returns one of several explanations as text.
fn beside(of: &Explained) -> String {
    let amount = |write: &dyn Fn(f64) -> String| {
        let interval =
            of.amount.ci95.map(|[low, high]| format!(" [{}, {}]", write(low), write(high)));
        format!("{}{}", write(of.amount.value), interval.unwrap_or_default())
    };
    let what = match of.limit {
        Limit::Step => {
            format!("a step takes {} times what scenario and profile say", amount(&number))
        }
        Limit::Batch => {
            format!("each batch takes the trainer {} besides its step", amount(&seconds))
        }
        Limit::Cores => format!("threads get {} of the cores", amount(&share)),
        Limit::Crowd => format!("each computing thread slows each other by {}", amount(&share)),
        Limit::Server => format!("the storage gives {}", amount(&rate_of_bytes)),
        Limit::Lock => format!("workers hold a common lock for {} of their work", amount(&share)),
    };
    format!(
        "  {:<6}  {what}; a worker takes {} times as long for a sample\n",
        noun(of.limit),
        number(of.sample.value)
    )
}

fn noun(limit: Limit) -> &'static str {
    match limit {
        Limit::Step => "step",
        Limit::Batch => "batch",
        Limit::Cores => "cores",
        Limit::Crowd => "crowd",
        Limit::Server => "server",
        Limit::Lock => "lock",
    }
}

fn times(value: f64) -> String {
    format!("{value:.3}")
}

fn rate_of_bytes(value: f64) -> String {
    rate(value, "B")
}

fn told(what: &str, told: &Told, write: &dyn Fn(f64) -> String) -> String {
    let interval = told.ci95.map(|[low, high]| format!(" [{}, {}]", write(low), write(high)));
    let why = match &told.unidentified {
        None => String::new(),
        Some(why) => format!(" ? not identified: {why}"),
    };
    let interval = interval.unwrap_or_default();
    let of = if what.contains("time") { " times what scenario and profile say" } else { "" };
    format!("{what}{}{of}{interval}{why}\n", write(told.value))
}

fn row(point: &Point) -> Vec<String> {
    let predicted = &point.predicted.median;
    let [low, high] = point.predicted.interval.map(number);
    let measured = point.measured();
    let both = |of: fn(&Observed) -> f64, write: fn(f64) -> String| {
        let live = measured.as_ref().map_or("-".to_owned(), |run| write(of(run)));
        format!("{} / {live}", write(of(predicted)))
    };
    let mark = match (point.held_out, point.is_too_noisy()) {
        (false, _) => " (fit)",
        (true, true) => " (too noisy)",
        (true, false) => "",
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
    if points.iter().all(|point| !point.held_out || point.runs.is_empty()) {
        return vec![
            "no row that the fit did not use was measured, so the error is unknown".to_owned(),
        ];
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
