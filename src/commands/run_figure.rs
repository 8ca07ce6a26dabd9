//! The figure of a run: its jobs' metrics over time, and their causes of stalls.

use super::{Failure, output, step_times};
use crate::metric::OVER_TIME;
use crate::plot::{self, AxisSpec, Bar, BarPart, Bars, Figure, Lines, Panel, Point, Series};
use crate::plot::{Colour, label_of, unit_of};
use crate::report::{self, Cause, JobReport, Outcome, Report, SeriesReport, StallCause, text};
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

/// Draws the figure of a run and writes it to `path`. The step times are those of `outcome`, the first replication.
pub(super) fn write(
    path: &Path,
    kind: Kind,
    report: &Report,
    outcome: Option<&Outcome>,
) -> Result<(), Failure> {
    save(path, kind, &figure(report, outcome))
}

/// Columns of the time series that each panel below the step times draws.
const PANELS: [&[&str]; 2] = [&["queue_occupancy"], &["enqueue_rate", "dequeue_rate"]];

/// Maximum number of points of a curve: with more, the boundaries of bins would be visible as noise.
pub(super) const POINTS: usize = 120;

/// Returns the figure of a run with four panels: step times, queue, rates, and causes of stalls. Its title is the report's first
/// sentence.
fn figure(report: &Report, outcome: Option<&Outcome>) -> Figure {
    let jobs = &report.jobs[..report.jobs.len().min(JOBS)];
    let steps = outcome.map(|outcome| step_times::curves(jobs, outcome)).unwrap_or_default();
    let notes = [limit(report), step_times::note(&steps), left_out(report.jobs.len())];
    let notes: Vec<String> = notes.into_iter().flatten().collect();
    let series = steps.into_iter().map(|curve| curve.series).collect();
    let drawn: Vec<Drawn<'_>> = jobs.iter().map(Drawn::of).collect();
    let title = text::headline(report).replace('`', "");
    Figure { title, subtitle: capitalised(&notes.join("; ")), ..over_time(&drawn, series) }
}

/// What the figure of a run shows of a job.
pub(super) struct Drawn<'a> {
    pub(super) name: &'a str,
    pub(super) series: &'a SeriesReport,
    /// Share of time that trainers wait, by cause.
    pub(super) causes: Vec<(Cause, f64)>,
    /// Plural noun for the devices that train: `accelerators` or `trainers`.
    pub(super) trainers: &'static str,
}

impl Drawn<'_> {
    fn of(job: &JobReport) -> Drawn<'_> {
        let share = |(of, figure): &(StallCause, report::Figure)| Some((of.cause, figure.mean?));
        let causes = job.figures.stall.causes.iter().filter_map(share).collect();
        Drawn { name: &job.name, series: &job.series, causes, trainers: job.trainers() }
    }
}

/// Returns the figure of a run from its series in a file, in which step times are means over bins, for the first jobs.
pub(super) fn from_series(jobs: &[Drawn<'_>]) -> Figure {
    let all = jobs.len();
    let jobs = &jobs[..all.min(JOBS)];
    let steps = lines(jobs, &["step_time"], false).series;
    let subtitle = capitalised(&left_out(all).unwrap_or_default());
    Figure { subtitle, ..over_time(jobs, steps) }
}

/// Returns the panels: step times, queue, rates, and causes of stalls.
fn over_time(jobs: &[Drawn<'_>], step_times: Vec<Series>) -> Figure {
    let step_times = panel(step_times, "step_time", false);
    let rest = PANELS.iter().enumerate().map(|(index, columns)| {
        let mut lines = lines(jobs, columns, index + 1 == PANELS.len());
        // The queue has the names of the panel above it.
        lines.legend_shown = index > 0;
        lines
    });
    let seen = |lines: &Lines| {
        let points = lines.series.iter().flat_map(|series| &series.points);
        points.filter_map(|point| point.y).any(f64::is_finite)
    };
    let drawn = std::iter::once(step_times).chain(rest).filter(seen);
    let mut panels: Vec<Panel> = drawn.map(Panel::Lines).collect();
    panels.push(Panel::Bars(bars(jobs)));
    Figure { panels, columns: 1, ..Figure::default() }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns the most important limit that the verdict found, in words.
fn limit(report: &Report) -> Option<String> {
    let limit = report.verdict.as_ref()?.limits.first()?;
    Some(format!("limited by {}", limit.name.replace('`', "")))
}

/// Returns a note on the jobs that are not drawn.
fn left_out(jobs: usize) -> Option<String> {
    (jobs > JOBS).then(|| format!("{JOBS} of {jobs} jobs"))
}

/// Returns a panel with a line for each job and column.
fn lines(jobs: &[Drawn<'_>], columns: &[&str], last: bool) -> Lines {
    let mut series = Vec::new();
    for job in jobs {
        let (times, values) = super::over_time::points(job.series, POINTS);
        for ((column, _), values) in OVER_TIME.iter().zip(&values) {
            if !columns.contains(column) {
                continue;
            }
            let point = |(x, y): (&f64, &Option<f64>)| Point { x: *x, y: *y, ..Point::default() };
            let points = times.iter().zip(values).map(point).collect();
            let what = column.trim_end_matches("_rate").to_owned();
            let name = match (jobs.len(), columns.len()) {
                (_, 1) => job.name.to_owned(),
                (1, _) => what,
                _ => format!("{}, {what}", job.name),
            };
            let index = series.len();
            series.push(Series { name, points, index, ..Series::default() });
        }
    }
    let mut lines = panel(series, columns.first().copied().unwrap_or(""), last);
    if columns.len() > 1 {
        lines.y.label = "Samples per second into and out of the queue".into();
    }
    lines
}

/// Returns a panel of curves over time. Its y axis begins at zero, so that the noise of a steady run does not look like events.
fn panel(series: Vec<Series>, column: &str, last: bool) -> Lines {
    let axis = |column: &str| AxisSpec {
        label: label_of(column),
        unit: unit_of(column),
        ..AxisSpec::default()
    };
    let mut y = axis(column);
    y.range = [Some(0.0), None];
    Lines {
        x: axis("time"),
        y,
        series,
        marks: Vec::new(),
        labels: Vec::new(),
        legend: String::new(),
        legend_shown: true,
        categories: Vec::new(),
        shares_x: !last,
    }
}

/// Returns the colour of a cause: blue for storage, green for the processor, warm colours for everything else.
pub(super) fn colour_of(cause: Cause) -> Colour {
    match cause {
        Cause::Open => Colour(0, 68, 116),
        Cause::Latency => Colour(0, 114, 178),
        Cause::Transfer => Colour(86, 180, 233),
        Cause::Decode => Colour(0, 158, 115),
        Cause::CpuWait => Colour(128, 206, 184),
        Cause::Throttled => Colour(64, 118, 104),
        Cause::Order => Colour(158, 148, 20),
        Cause::Restart => Colour(240, 228, 66),
        Cause::Copy => Colour(230, 159, 0),
        Cause::FirstBatch => Colour(196, 224, 240),
        Cause::Launch => Colour(170, 190, 90),
        Cause::Communication => Colour(213, 94, 0),
        Cause::Bubble => Colour(204, 121, 167),
        Cause::Swap => Colour(148, 82, 122),
        Cause::Checkpoint => Colour(90, 60, 40),
        Cause::Fault => Colour(38, 38, 38),
        Cause::Compute => Colour(150, 150, 150),
    }
}

/// Returns the name of a cause beside the part of a bar that is the job's own computing: as a cause, `compute` is a wait for a rank that
/// computes.
pub(super) fn word(cause: Cause) -> &'static str {
    match cause {
        Cause::Compute => "waiting for siblings",
        other => other.name(),
    }
}

/// Returns a bar for each job: shares of time by cause of stalls. A cause's share includes stalls that a peer's stall caused.
fn bars(jobs: &[Drawn<'_>]) -> Bars {
    let share = |job: &Drawn<'_>, cause: Cause| {
        job.causes.iter().filter(|(of, _)| *of == cause).map(|(_, share)| share).sum::<f64>()
    };
    let seen = |cause: &Cause| jobs.iter().any(|job| share(job, *cause) >= 5e-4);
    let causes: Vec<Cause> = Cause::ALL.into_iter().filter(seen).collect();
    let part = |cause: &Cause| BarPart { name: word(*cause).to_owned(), colour: colour_of(*cause) };
    let computing = BarPart { name: "computing".into(), colour: Colour(228, 228, 228) };
    let bar = |job: &Drawn<'_>| {
        let stalls: Vec<f64> = causes.iter().map(|cause| share(job, *cause)).collect();
        let rest = (1.0 - stalls.iter().sum::<f64>()).max(0.0);
        let lengths = stalls.into_iter().chain([rest]).collect();
        Bar { name: job.name.to_owned(), lengths, ..Bar::default() }
    };
    let alike = jobs.iter().all(|job| job.trainers == "accelerators");
    let who = if alike { "accelerators" } else { "trainers" };
    let label = format!("Share of time that {who} wait, by cause");
    let range = [Some(0.0), Some(1.0)];
    Bars {
        x: AxisSpec { label, unit: plot::Unit::Share, range, ..AxisSpec::default() },
        parts: causes.iter().map(part).chain([computing]).collect(),
        bars: jobs.iter().map(bar).collect(),
    }
}
