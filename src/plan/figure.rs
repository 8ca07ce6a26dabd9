//! Figures of a report by their names, as users write them: `p99 step time of train`, `cost per month`.

use crate::metric::{self, Better, Metric, Unit, Value};
use crate::report::{Cause, Figure, JobReport, Report};
use crate::scenario::{Scenario, choose};

/// Usual names of figures beside their columns and labels, with the column or place in JSON of each.
const USUAL_NAMES: [(&str, &str); 5] = [
    ("au", "accelerator_utilisation"),
    ("accelerator_utilization", "accelerator_utilisation"),
    ("cost_per_hour", "cost.hour"),
    ("goodput", "fresh_samples_per_second"),
    ("throughput", "samples_per_second"),
];

/// Name of the share of time that checkpoints hold a job up, its own and those of other ranks together.
const CHECKPOINTS: &str = "checkpoint_share";

/// A figure of a report, for a goal or for the choice between options.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The figure, as the user wrote it.
    pub text: String,
    of: Of,
    pub(super) at: At,
    /// Name of the job; `None`: the job with the worst figure.
    pub(super) job: Option<String>,
}

#[derive(Debug, Clone, Copy)]
enum Of {
    Metric(&'static Metric),
    Checkpoints,
}

/// Which value of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    Mean,
    Median,
    P95,
    P99,
}

impl Wanted {
    /// Reads the name of a figure by which options are chosen, as a goal has it.
    ///
    /// # Errors
    /// If there is no such figure or job, or if neither direction of the figure is better; what is wrong, and what to write.
    pub fn parse(text: &str, scenario: &Scenario) -> Result<Wanted, (String, String)> {
        let wanted = Wanted::read(text, scenario)?;
        match wanted.of {
            Of::Metric(metric) if metric.better == Better::Neither => Err((
                format!("neither more nor less of `{}` is better", wanted.text),
                format!(
                    "choose by another figure, such as `throughput`, and write a goal: `{} > …`",
                    wanted.text
                ),
            )),
            _ => Ok(wanted),
        }
    }

    /// Reads the name of a figure: a column of sweeps, a place in JSON, the label in a report or a usual name; with `p50`, `p95` or
    /// `p99` for a quantile, and with `of JOB`.
    pub(super) fn read(text: &str, scenario: &Scenario) -> Result<Wanted, (String, String)> {
        let text = text.trim();
        let made = |(of, at): (Of, At), job: Option<String>| {
            // Messages put the text between backticks.
            Wanted { text: text.replace('`', ""), of, at, job }.checked()
        };
        if let Some(found) = figure(text) {
            return made(found, None);
        }
        // A figure or a name may itself hold " of ": `cost of an epoch of rest of it`.
        let parts = text.match_indices(" of ");
        let parts =
            parts.filter_map(|(at, of)| Some((figure(&text[..at])?, text[at + of.len()..].trim())));
        let parts: Vec<((Of, At), &str)> = parts.collect();
        let names: Vec<&str> = scenario.jobs.iter().map(|job| &*job.name).collect();
        for (found, job) in &parts {
            let plain = unquoted(job);
            if let Some(name) = names.iter().find(|name| **name == *job || **name == plain) {
                return made(*found, Some((*name).to_owned()));
            }
        }
        if let Some((_, job)) = parts.first() {
            let job = unquoted(job);
            return Err((format!("there is no job named {job:?}"), choose(job, &names)));
        }
        if let Some(word) = text.split_whitespace().find(|word| is_quantile(word)) {
            let remedy = "write `p50`, `p95` or `p99`, which reports have";
            return Err((format!("there is no quantile `{word}`"), remedy.to_owned()));
        }
        let known: Vec<&str> = names_of_figures().collect();
        let (words, _) = quantile(text);
        let remedy = choose(&normal(&words), &known);
        Err((format!("there is no figure `{}`", words.replace('`', "")), remedy))
    }

    /// Refuses a quantile of a figure that has none.
    fn checked(self) -> Result<Wanted, (String, String)> {
        let has_quantiles =
            matches!(self.of, Of::Metric(metric) if QUANTILES.contains(&&*metric.column));
        match self.at == At::Mean || has_quantiles {
            true => Ok(self),
            false => Err((
                format!("`{}` has no quantiles", self.text),
                "leave the quantile out; step times have some: `p99 step time`".to_owned(),
            )),
        }
    }

    /// Returns the name of the job, if the user wrote `of JOB`.
    #[must_use]
    pub fn job(&self) -> Option<&str> {
        self.job.as_deref()
    }

    /// Returns the unit of the figure.
    #[must_use]
    pub fn unit(&self) -> Unit {
        match self.of {
            Of::Metric(metric) => metric.unit,
            Of::Checkpoints => Unit::Share,
        }
    }

    /// Returns whether larger values are better.
    #[must_use]
    pub fn is_higher_better(&self) -> bool {
        matches!(self.of, Of::Metric(metric) if metric.better == Better::Higher)
    }

    /// Returns whether the figure follows from how fast a job is; prices and memory do not.
    #[must_use]
    pub fn is_of_time(&self) -> bool {
        !matches!(self.unit(), Unit::Money | Unit::Bytes)
    }

    /// Returns whether this is the same figure of the same job.
    #[must_use]
    pub fn is_same(&self, other: &Wanted) -> bool {
        let figure = |of: &Wanted| match of.of {
            Of::Metric(metric) => &*metric.json,
            Of::Checkpoints => CHECKPOINTS,
        };
        figure(self) == figure(other) && self.at == other.at && self.job == other.job
    }

    /// Returns the difference of values that does not matter, if figures need be known to a part `within` of values as large as `size` or, for
    /// shares, of all time.
    #[must_use]
    pub fn indifference(&self, within: f64, size: f64) -> f64 {
        match self.unit() {
            Unit::Share => within,
            _ => (within * size.abs()).max(f64::MIN_POSITIVE),
        }
    }

    /// Returns whether every replication of a scenario shows the same value.
    #[must_use]
    pub fn is_fixed(&self, scenario: &Scenario) -> bool {
        let Of::Metric(metric) = self.of else { return false };
        let draws_power = scenario.prices.as_ref().is_some_and(|prices| prices.kwh > 0.0);
        match &*metric.json {
            "cost.hour" | "cost.month" => !draws_power,
            json => json == "jobs.device_memory.total",
        }
    }

    /// Returns the value in a report: the named job's, or the worst of all jobs. Larger values are worse if `most`. `None` if a job
    /// does not have the figure.
    #[must_use]
    pub fn value(&self, report: &Report, most: bool) -> Option<f64> {
        self.figure(report, most)?.mean
    }

    /// Returns the figure in a report, of the same job as [`Wanted::value`]: its mean or quantile, and the 95 % interval of a mean.
    #[must_use]
    pub fn figure(&self, report: &Report, most: bool) -> Option<Figure> {
        let named = |job: &&JobReport| self.job.as_ref().is_none_or(|name| *name == job.name);
        let figures = report.jobs.iter().filter(named).map(|job| {
            let figure = self.of_job(report, job)?;
            Some((figure.mean?, figure))
        });
        let figures = figures.collect::<Option<Vec<(f64, Figure)>>>()?;
        let worse = |a: (f64, Figure), b: (f64, Figure)| {
            let is_worse = if most { b.0 > a.0 } else { b.0 < a.0 };
            if is_worse { b } else { a }
        };
        figures
            .into_iter()
            .reduce(worse)
            .map(|(_, of)| of)
            .filter(|of| of.mean.is_some_and(f64::is_finite))
    }

    pub(super) fn of_job(&self, report: &Report, job: &JobReport) -> Option<Figure> {
        let figure: Figure = match self.of {
            Of::Metric(metric) => metric.figure(report, job)?,
            Of::Checkpoints => {
                let causes = &job.figures.stall.causes;
                let of = causes.iter().filter(|(of, _)| of.cause == Cause::Checkpoint);
                let sum = of.filter_map(|(_, share)| share.mean).sum();
                Figure { mean: job.figures.stall.total.mean.map(|_| sum), ..Figure::default() }
            }
        };
        let quantile = |mean: Option<f64>| Figure { mean, ..Figure::default() };
        Some(match self.at {
            At::Mean => figure,
            At::Median => quantile(figure.p50),
            At::P95 => quantile(figure.p95),
            At::P99 => quantile(figure.p99),
        })
    }
}

/// Figures that have quantiles.
const QUANTILES: [&str; 2] = ["step_time", "first_batch"];

impl Of {
    fn named(text: &str) -> Option<Of> {
        let name = normal(text);
        let usual = USUAL_NAMES.iter().find(|(usual, _)| *usual == name);
        let name = usual.map_or(&*name, |(_, name)| name);
        if name == CHECKPOINTS {
            return Some(Of::Checkpoints);
        }
        let figures = || metric::all().iter().filter(|of| is_figure(of) && !name.is_empty());
        let found = figures().find(|metric| metric.column == name || place(metric) == name);
        let label =
            |metric: &&Metric| normal(metric.label.split(" [").next().unwrap_or("")) == name;
        found.or_else(|| figures().find(label)).map(Of::Metric)
    }
}

fn is_figure(metric: &Metric) -> bool {
    matches!(metric.value, Value::Job(_) | Value::Stall(_))
}

/// Returns a name without the backticks around it.
fn unquoted(name: &str) -> &str {
    name.strip_prefix('`').and_then(|name| name.strip_suffix('`')).unwrap_or(name)
}

/// Returns the place of a figure in a JSON report, without `jobs.`.
fn place(metric: &Metric) -> &str {
    metric.json.strip_prefix("jobs.").unwrap_or(&metric.json)
}

/// Returns the names of all figures, the usual ones first.
fn names_of_figures() -> impl Iterator<Item = &'static str> {
    let usual = ["au", "throughput", "goodput", CHECKPOINTS];
    let columns = metric::all().iter().filter(|of| is_figure(of));
    let columns = columns
        .map(|metric| if metric.column.is_empty() { place(metric) } else { &*metric.column });
    usual.into_iter().chain(columns)
}

/// Returns the figure with this name, and which of its values.
fn figure(text: &str) -> Option<(Of, At)> {
    let (words, at) = quantile(text);
    Some((Of::named(&words)?, at))
}

/// Returns a name as columns have it: `Epoch time` is `epoch_time`.
fn normal(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c == '-' || c == '_').collect();
    let words = words.into_iter().filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_").to_lowercase()
}

/// Returns a text without the word for a quantile in it, and which one it is: `p99 step time`, `step time p99`, `p99 of step time`.
fn quantile(text: &str) -> (String, At) {
    let of = |word: &str| match word.to_lowercase().as_str() {
        "p50" | "median" => Some(At::Median),
        "p95" => Some(At::P95),
        "p99" => Some(At::P99),
        "mean" => Some(At::Mean),
        _ => None,
    };
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let Some(place) = words.iter().position(|word| of(word).is_some()) else {
        return (words.join(" "), At::Mean);
    };
    let at = of(words.remove(place)).unwrap_or(At::Mean);
    if place == 0 && words.first() == Some(&"of") {
        words.remove(0);
    }
    (words.join(" "), at)
}

/// Returns whether a word names a quantile, of which reports have only some: `p90`.
fn is_quantile(word: &str) -> bool {
    let number = word.strip_prefix(['p', 'P']).unwrap_or("");
    !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.')
}
