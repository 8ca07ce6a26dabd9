//! The figure of a run: its jobs' metrics over time, and their causes of stalls.

use super::{Failure, output, over_time};
use crate::metric::OVER_TIME;
use crate::plot::{self, AxisSpec, Bar, BarPart, Bars, Figure, Lines, Panel, Point, Series};
use crate::plot::{Colour, label_of, unit_of};
use crate::report::{Cause, JobReport, Report};
use std::path::Path;

/// Maximum number of jobs that are drawn: more colours cannot be told apart.
const JOBS: usize = 6;

/// Format of a picture, given by its file name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Svg,
    Png,
}

/// Returns the format for the extension of `path`; an error if it is neither `.svg` nor `.png`.
pub(super) fn kind(path: &Path) -> Result<Kind, Failure> {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    match extension.as_deref() {
        Some("svg") => Ok(Kind::Svg),
        Some("png") => Ok(Kind::Png),
        _ => {
            let what = format!("cannot draw {}: name it .svg or .png", crate::input::shown(path));
            Err(Failure::Input(what))
        }
    }
}

/// Draws a figure and writes it to `path`.
pub(super) fn save(path: &Path, kind: Kind, figure: &Figure) -> Result<(), Failure> {
    let picture = match kind {
        Kind::Svg => plot::svg(figure).map(String::into_bytes),
        Kind::Png => plot::png(figure),
    };
    let cannot =
        |error| Failure::Input(format!("cannot draw {}: {error}", crate::input::shown(path)));
    let picture = picture.map_err(cannot)?;
    output::file(path, |to| to.write_all(&picture))
}

/// Draws the figure of a run and writes it to `path`.
pub(super) fn write(path: &Path, kind: Kind, report: &Report) -> Result<(), Failure> {
    save(path, kind, &figure(report))
}

/// Columns of the time series that each panel draws.
const PANELS: [&[&str]; 3] =
    [&["step_time"], &["queue_occupancy"], &["enqueue_rate", "dequeue_rate"]];

/// Maximum number of points of a curve: with more, the boundaries of bins would be visible as noise.
const POINTS: usize = 120;

/// Returns the figure of a run with four panels: step time, queue, rates, and causes of stalls.
fn figure(report: &Report) -> Figure {
    let jobs = &report.jobs[..report.jobs.len().min(JOBS)];
    let panel = |(index, columns): (usize, &&[&str])| {
        let mut lines = lines(jobs, columns, index + 1 == PANELS.len());
        // The second panel has the same legend as the first.
        lines.legend_shown = index != 1;
        let seen = |point: &Point| point.y.is_some_and(f64::is_finite);
        let any = lines.series.iter().any(|series| series.points.iter().any(seen));
        any.then_some(Panel::Lines(lines))
    };
    let mut panels: Vec<Panel> = PANELS.iter().enumerate().filter_map(panel).collect();
    panels.push(Panel::Bars(bars(jobs)));
    let left_out = report.jobs.len() - jobs.len();
    let more = if left_out > 0 { format!(" (first {JOBS} jobs)") } else { String::new() };
    let title = format!("{}{more}", report.scenario);
    Figure { title, panels, columns: 1, ..Figure::default() }
}

/// Returns a panel with a line for each job and column.
fn lines(jobs: &[JobReport], columns: &[&str], last: bool) -> Lines {
    let mut series = Vec::new();
    for job in jobs {
        let (times, values) = over_time::points(&job.series, POINTS);
        for ((column, _), values) in OVER_TIME.iter().zip(&values) {
            if !columns.contains(column) {
                continue;
            }
            let point = |(x, y): (&f64, &Option<f64>)| Point { x: *x, y: *y, band: None };
            let points = times.iter().zip(values).map(point).collect();
            let what = column.trim_end_matches("_rate").to_owned();
            let name = match (jobs.len(), columns.len()) {
                (_, 1) => job.name.clone(),
                (1, _) => what,
                _ => format!("{}, {what}", job.name),
            };
            let index = series.len();
            series.push(Series { name, points, index, ..Series::default() });
        }
    }
    let axis = |column: &str| AxisSpec {
        label: label_of(column),
        unit: unit_of(column),
        ..AxisSpec::default()
    };
    let mut y = axis(columns.first().copied().unwrap_or(""));
    // The axis begins at zero, so that the noise of a steady run does not look like events.
    y.range = [Some(0.0), None];
    if columns.len() > 1 {
        y.label = "Samples per second into and out of the queue".into();
    }
    Lines {
        x: axis("time"),
        y,
        series,
        marks: Vec::new(),
        legend: String::new(),
        legend_shown: true,
        categories: Vec::new(),
        shares_x: !last,
    }
}

/// Returns the colour of a cause: blue for storage, green for the processor, warm colours for everything else.
fn colour_of(cause: Cause) -> Colour {
    match cause {
        Cause::Open => Colour(0, 68, 116),
        Cause::Latency => Colour(0, 114, 178),
        Cause::Transfer => Colour(86, 180, 233),
        Cause::Decode => Colour(0, 158, 115),
        Cause::CpuWait => Colour(128, 206, 184),
        Cause::Order => Colour(158, 148, 20),
        Cause::Restart => Colour(240, 228, 66),
        Cause::Copy => Colour(230, 159, 0),
        Cause::Launch => Colour(170, 190, 90),
        Cause::Communication => Colour(213, 94, 0),
        Cause::Bubble => Colour(204, 121, 167),
        Cause::Swap => Colour(148, 82, 122),
        Cause::Checkpoint => Colour(90, 60, 40),
        Cause::Fault => Colour(38, 38, 38),
        Cause::Compute => Colour(150, 150, 150),
    }
}

/// Returns a bar for each job: shares of time by cause of stalls. A cause's share includes stalls that a peer's stall caused.
fn bars(jobs: &[JobReport]) -> Bars {
    let share = |job: &JobReport, cause: Cause| {
        let all = job.figures.stall.causes.iter().filter(|(of, _)| of.cause == cause);
        all.filter_map(|(_, figure)| figure.mean).sum::<f64>()
    };
    let seen = |cause: &Cause| jobs.iter().any(|job| share(job, *cause) >= 5e-4);
    let causes: Vec<Cause> = Cause::ALL.into_iter().filter(seen).collect();
    let part = |cause: &Cause| BarPart { name: cause.name().to_owned(), colour: colour_of(*cause) };
    let training = BarPart { name: "training".into(), colour: Colour(228, 228, 228) };
    let bar = |job: &JobReport| {
        let stalls: Vec<f64> = causes.iter().map(|cause| share(job, *cause)).collect();
        let rest = (1.0 - stalls.iter().sum::<f64>()).max(0.0);
        Bar { name: job.name.clone(), lengths: stalls.into_iter().chain([rest]).collect() }
    };
    let alike = jobs.iter().all(|job| job.trainers() == "accelerators");
    let who = if alike { "accelerators" } else { "trainers" };
    let label = format!("Share of time that {who} wait, by cause");
    let range = [Some(0.0), Some(1.0)];
    Bars {
        x: AxisSpec { label, unit: plot::Unit::Share, range, ..AxisSpec::default() },
        parts: causes.iter().map(part).chain([training]).collect(),
        bars: jobs.iter().map(bar).collect(),
    }
}
