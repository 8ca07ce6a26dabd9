//! The figure of `forebay compare`: bars with intervals side by side, and where the time goes.

use super::compare::{Compared, One, OneJob, Shown};
use super::compare_text::currencies;
use super::run_figure::{colour_of, word};
use crate::metric::{Metric, Unit as MetricUnit};
use crate::plan::goal::with_interval;
use crate::plot::{
    self, AxisSpec, Bar, BarPart, Bars, Colour, Figure, Panel, colour, label_of, unit_of,
};
use crate::report::Cause;

/// Figures that are drawn unless others are named.
const DRAWN: [&str; 4] = ["samples_per_second", "step_time", "stall", "cost_per_month"];
/// Bars of a panel at most, and figures at most: more make a picture that no page has room for.
const MOST_BARS: usize = 40;
const MOST_FIGURES: usize = 8;
/// Width of a panel [px]: of one or two in a row, and of three in a row.
const WIDTHS: [u32; 2] = [470, 380];
/// End of an axis, relative to the largest value on it.
const ROOM: f64 = 1.03;
/// Names in a title at most.
pub(super) const MOST_NAMES: usize = 5;

/// A job of one of those that are compared, with its name in the figure.
struct Drawn<'c> {
    name: String,
    job: &'c OneJob,
}

/// Returns the figure, and what is left out of it; an error that says why there is nothing to draw. `is_asked` says that the figures
/// were named on the command line.
pub(super) fn figure(
    of: &Compared,
    is_asked: bool,
) -> Result<(Figure, Option<String>), &'static str> {
    let several = of.jobs().len() > 1;
    let each = of.compared.iter().flat_map(|one| one.jobs.iter().map(move |job| (one, job)));
    let named = |(one, job): (&One, &OneJob)| {
        if several { format!("{}, {}", one.name, job.name) } else { one.name.clone() }
    };
    let all = each.map(|(one, job)| Drawn { name: named((one, job)), job });
    let mut all: Vec<Drawn<'_>> = all.collect();
    let number = all.len();
    all.truncate(MOST_BARS);
    let known = |index: &usize| {
        let is_wanted = is_asked || DRAWN.contains(&&*of.metrics[*index].column);
        let comparable = of.metrics[*index].unit != MetricUnit::Money || currencies(of).len() < 2;
        is_wanted && comparable && all.iter().any(|one| one.job.figures[*index].mean.is_some())
    };
    let indices: Vec<usize> = (0..of.metrics.len()).filter(known).collect();
    let currency = currencies(of).first().copied().unwrap_or_default();
    let mut panels: Vec<Panel> = indices
        .iter()
        .take(MOST_FIGURES)
        .map(|index| Panel::Bars(bars(of.metrics[*index], *index, &all, currency)))
        .collect();
    let columns = match panels.len() {
        0 => return Err("no figure that is drawn is known of what is compared"),
        3 => 3,
        number => number.min(2),
    };
    panels.push(Panel::Bars(causes(&all)));
    let left_out = [
        (number > MOST_BARS).then(|| format!("{MOST_BARS} of {number} bars")),
        (indices.len() > MOST_FIGURES)
            .then(|| format!("{MOST_FIGURES} of {} figures", indices.len())),
    ];
    let left_out: Vec<String> = left_out.into_iter().flatten().collect();
    let left_out =
        (!left_out.is_empty()).then(|| format!("the figure has {}", left_out.join(" and ")));
    let width = match columns {
        1 => 0,
        columns => WIDTHS[usize::from(columns > 2)] * columns as u32,
    };
    let key = plot::signs(&panels, plot::INTERVAL);
    let names: Vec<&str> = of.compared.iter().map(|one| one.name.as_str()).collect();
    let title = match names.len() {
        ..=MOST_NAMES => format!("Compared: {}", names.join(", ")),
        number => format!("{number} compared"),
    };
    Ok((Figure { title, key, panels, columns, width, ..Figure::default() }, left_out))
}

/// Returns the bars of one figure, with their intervals and values.
fn bars(metric: &Metric, index: usize, all: &[Drawn<'_>], currency: &str) -> Bars {
    let unit = unit_of(&metric.column);
    let bar = |one: &Drawn<'_>| {
        let figure = &one.job.figures[index];
        let Some(mean) = figure.mean.filter(|mean| mean.is_finite()) else {
            let text = "-".to_owned();
            return Bar { name: one.name.clone(), lengths: vec![0.0], text, ..Bar::default() };
        };
        Bar {
            name: one.name.clone(),
            lengths: vec![mean],
            band: figure.ci95,
            text: written(metric, figure, currency),
            short: one.job.too_short.is_some(),
        }
    };
    let label = label_of(&metric.column);
    let label = match metric.unit {
        MetricUnit::Money if !label.contains('[') => format!("{label} [{currency}]"),
        _ => label,
    };
    let figures = all.iter().map(|one| &one.job.figures[index]);
    let ends = figures.flat_map(|of| of.mean.into_iter().chain(of.ci95.map(|[_, high]| high)));
    let most = ends.filter(|end| end.is_finite()).fold(0.0, f64::max);
    // Some room keeps the whiskers off the values behind the bars.
    let range = [None, (most > 0.0).then_some(ROOM * most)];
    Bars {
        x: AxisSpec { label, unit, range, ..AxisSpec::default() },
        parts: vec![BarPart { name: String::new(), colour: colour(0) }],
        bars: all.iter().map(bar).collect(),
    }
}

/// Writes a figure as the table does.
fn written(metric: &Metric, figure: &Shown, currency: &str) -> String {
    let unit = metric.unit.below_its_name();
    with_interval(figure.mean.unwrap_or_default(), figure.ci95, unit, currency)
}

/// Returns where the time of each goes: waiting by cause, and computing. A cause has what a peer's stall caused, too.
fn causes(all: &[Drawn<'_>]) -> Bars {
    let share = |job: &OneJob, cause: Cause| {
        let own = |name: &str| name.strip_prefix("peer.").unwrap_or(name) == cause.name();
        job.causes.iter().filter(|(name, _)| own(name)).map(|(_, share)| share).sum::<f64>()
    };
    let seen = |cause: &Cause| all.iter().any(|one| share(one.job, *cause) >= 5e-4);
    let causes: Vec<Cause> = Cause::ALL.into_iter().filter(seen).collect();
    let part = |cause: &Cause| BarPart { name: word(*cause).to_owned(), colour: colour_of(*cause) };
    let computing = BarPart { name: "computing".into(), colour: Colour(228, 228, 228) };
    let bar = |one: &Drawn<'_>| {
        let stalls: Vec<f64> = causes.iter().map(|cause| share(one.job, *cause)).collect();
        let rest = (1.0 - stalls.iter().sum::<f64>()).max(0.0);
        let lengths = stalls.into_iter().chain([rest]).collect();
        Bar { name: one.name.clone(), lengths, ..Bar::default() }
    };
    let label = "Share of time by what the accelerators do or wait for".to_owned();
    let range = [Some(0.0), Some(1.0)];
    Bars {
        x: AxisSpec { label, unit: plot::Unit::Share, range, ..AxisSpec::default() },
        parts: causes.iter().map(part).chain([computing]).collect(),
        bars: all.iter().map(bar).collect(),
    }
}
