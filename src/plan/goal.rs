//! Goals as users write them: `stall < 2 %`, `p99 step time of train <= 60 ms`, `cost per month < $50k`.

use crate::metric::{self, Better, Metric, Unit, Value};
use crate::report::format::{self, prefixed};
use crate::report::{Cause, Figure, JobReport, Report, money};
use crate::scenario::{Money, Scenario, choose};
use crate::units::{LongTime, Power, Quantity, Size};

/// Other names of figures, with the column or place in JSON that each stands for.
const OTHER_NAMES: [(&str, &str); 33] = [
    ("accelerator_utilization", "accelerator_utilisation"),
    ("au", "accelerator_utilisation"),
    ("cost", "cost_per_month"),
    ("cost_of_a_month", "cost_per_month"),
    ("cost_of_an_epoch", "cost_per_epoch"),
    ("cost_of_an_hour", "cost.hour"),
    ("cost_of_the_run", "cost_of_run"),
    ("cost_per_hour", "cost.hour"),
    ("cost_per_run", "cost_of_run"),
    ("checkpoint_time", "recovery.checkpoint_time"),
    ("energy", "energy_per_sample"),
    ("energy_per_step", "energy.per_step"),
    ("epoch", "epoch_time"),
    ("goodput", "fresh_samples_per_second"),
    ("images_per_second", "samples_per_second"),
    ("memory", "device_memory"),
    ("month", "cost_per_month"),
    ("power", "energy.power"),
    ("rate", "samples_per_second"),
    ("samples/s", "samples_per_second"),
    ("speed", "samples_per_second"),
    ("stalls", "stall"),
    ("steps/s", "steps_per_second"),
    ("step", "step_time"),
    ("throughput", "samples_per_second"),
    ("time_of_a_step", "step_time"),
    ("time_of_an_epoch", "epoch_time"),
    ("time_to_target", "time_to_accuracy"),
    ("tta", "time_to_accuracy"),
    ("utilisation", "accelerator_utilisation"),
    ("utilization", "accelerator_utilisation"),
    ("wait", "stall"),
    ("waiting", "stall"),
];

/// Name of the share of time that goes into checkpoints, the own ones and those of other ranks together.
const CHECKPOINTS: &str = "checkpoint_share";

/// A figure of a report that a goal is about, or by which options are chosen.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The figure, as the user wrote it.
    pub text: String,
    of: Of,
    at: At,
    /// Name of the job; `None`: the job with the worst figure.
    job: Option<String>,
}

#[derive(Debug, Clone, Copy)]
enum Of {
    Metric(&'static Metric),
    Checkpoints,
}

/// Which value of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Mean,
    Median,
    P95,
    P99,
}

impl Wanted {
    /// Reads the name of a figure: a column of sweeps, a place in JSON, or a usual name, with `p95` or `p99` for a quantile, and with `of JOB`.
    ///
    /// # Errors
    /// If there is no such figure or job; what is wrong, and what to write.
    pub fn parse(text: &str, scenario: &Scenario) -> Result<Wanted, (String, String)> {
        let (words, at) = quantile(text);
        let made =
            |of: Of, job: Option<String>| Wanted { text: text.trim().to_owned(), of, at, job };
        if let Some(of) = Of::named(&words) {
            return made(of, None).checked();
        }
        if let Some((figure, job)) = words.rsplit_once(" of ")
            && let Some(of) = Of::named(figure)
        {
            let names: Vec<&str> = scenario.jobs.iter().map(|job| &*job.name).collect();
            let job = job.trim().trim_matches('`');
            return match names.contains(&job) {
                true => made(of, Some(job.to_owned())).checked(),
                false => Err((format!("there is no job named {job:?}"), choose(job, &names))),
            };
        }
        let known: Vec<&str> = names().collect();
        let remedy = choose(&normal(&words), &known);
        Err((format!("there is no figure `{}`", words.trim()), remedy))
    }

    /// Refuses a quantile of a figure that has none.
    fn checked(self) -> Result<Wanted, (String, String)> {
        let has_quantiles =
            matches!(self.of, Of::Metric(metric) if QUANTILES.contains(&&*metric.column));
        match self.at == At::Mean || has_quantiles {
            true => Ok(self),
            false => Err((
                format!("`{}` has no quantiles", self.text),
                format!("write the mean, or a quantile of one of {}", QUANTILES.join(", ")),
            )),
        }
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

    /// Returns the value in a report: that of the job that is named, or the worst of all jobs, larger ones being worse if `most`. `None` if a
    /// job does not have the figure.
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

    fn of_job(&self, report: &Report, job: &JobReport) -> Option<Figure> {
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
        let other = OTHER_NAMES.iter().find(|(other, _)| *other == name);
        let name = other.map_or(&*name, |(_, name)| name);
        if name == CHECKPOINTS {
            return Some(Of::Checkpoints);
        }
        let is = |metric: &&Metric| {
            let json = metric.json.strip_prefix("jobs.").unwrap_or(&metric.json);
            !name.is_empty() && (metric.column == name || json == name)
        };
        let figures = metric::all().iter().filter(|of| is_figure(of));
        figures.into_iter().find(is).map(Of::Metric)
    }
}

fn is_figure(metric: &Metric) -> bool {
    matches!(metric.value, Value::Job(_) | Value::Stall(_))
}

/// Returns the names of all figures, the usual ones first.
fn names() -> impl Iterator<Item = &'static str> {
    let others = OTHER_NAMES.iter().map(|(name, _)| *name).filter(|name| name.len() > 4);
    let columns = metric::all().iter().filter(|of| is_figure(of)).map(|metric| {
        let json = metric.json.strip_prefix("jobs.").unwrap_or(&metric.json);
        if metric.column.is_empty() { json } else { &*metric.column }
    });
    columns.chain([CHECKPOINTS]).chain(others)
}

/// Returns a name as columns have it: `Epoch time` is `epoch_time`.
fn normal(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c == '-' || c == '_').collect();
    let words = words.into_iter().filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_").to_lowercase()
}

/// Returns a text without the word for a quantile in it, and which one it is.
fn quantile(text: &str) -> (String, At) {
    let of = |word: &str| match word.to_lowercase().as_str() {
        "p50" | "median" => Some(At::Median),
        "p95" => Some(At::P95),
        "p99" => Some(At::P99),
        _ => None,
    };
    let at = text.split_whitespace().find_map(of).unwrap_or(At::Mean);
    let rest = text.split_whitespace().filter(|word| of(word).is_none() && *word != "mean");
    (rest.collect::<Vec<_>>().join(" "), at)
}

/// A goal: a figure that is at most or at least a value.
#[derive(Debug, Clone)]
pub struct Goal {
    /// The goal, as the user wrote it.
    pub text: String,
    /// The figure.
    pub wanted: Wanted,
    /// Whether the value is an upper limit.
    pub most: bool,
    /// The value, in the unit of reports.
    pub limit: f64,
    /// Whether the value itself does not meet the goal.
    is_strict: bool,
}

/// Comparisons: the text, whether the value is an upper limit, and whether it itself does not meet the goal.
const COMPARISONS: [(&str, bool, bool); 10] = [
    ("<=", true, false),
    (">=", false, false),
    ("≤", true, false),
    ("≥", false, false),
    ("<", true, true),
    (">", false, true),
    (" at most ", true, false),
    (" at least ", false, false),
    (" below ", true, true),
    (" above ", false, true),
];

impl Goal {
    /// Reads a goal.
    ///
    /// # Errors
    /// If it has no comparison, no such figure, or no value in the figure's unit; what is wrong, and what to write.
    pub fn parse(text: &str, scenario: &Scenario) -> Result<Goal, (String, String)> {
        let found = COMPARISONS.iter().filter_map(|of| Some((text.find(of.0)?, of)));
        let Some((at, (word, most, is_strict))) = found.min_by_key(|(at, _)| *at) else {
            let remedy = "write a figure, a comparison and a value, such as \"stall < 2 %\"";
            return Err((format!("{text:?} has no comparison"), remedy.to_owned()));
        };
        let (figure, value) = (&text[..at], text[at + word.len()..].trim());
        let wanted = Wanted::parse(figure, scenario)?;
        let limit = amount(value, wanted.unit(), scenario)
            .map_err(|remedy| (format!("{value:?} is no value of `{}`", figure.trim()), remedy))?;
        Ok(Goal { text: text.trim().to_owned(), wanted, most: *most, limit, is_strict: *is_strict })
    }

    /// Returns the figure in a report; `None` if the report does not have it.
    #[must_use]
    pub fn value(&self, report: &Report) -> Option<f64> {
        self.wanted.value(report, self.most)
    }

    /// Returns the figure in a report with its interval.
    #[must_use]
    pub fn figure(&self, report: &Report) -> Option<Figure> {
        self.wanted.figure(report, self.most)
    }

    /// Returns the index of the job in a report whose figure the goal is about; `None` for figures of the whole cluster, such as costs.
    #[must_use]
    pub fn job_in(&self, report: &Report) -> Option<usize> {
        if !self.wanted.is_of_time() {
            return None;
        }
        let named = |job: &JobReport| self.wanted.job.as_ref().is_none_or(|name| *name == job.name);
        let jobs = report.jobs.iter().enumerate().filter(|(_, job)| named(job));
        let known = jobs.filter_map(|(at, job)| Some((at, self.wanted.of_job(report, job)?.mean?)));
        let worse = |a: &(usize, f64), b: &(usize, f64)| match self.most {
            true => a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)),
            false => b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)),
        };
        known.max_by(worse).map(|(at, _)| at)
    }

    /// Returns whether this goal and another one exclude each other: a figure is to be at most this and at least that.
    #[must_use]
    pub fn excludes(&self, other: &Goal) -> bool {
        let (upper, lower) = match (self.most, other.most) {
            (true, false) => (self, other),
            (false, true) => (other, self),
            _ => return false,
        };
        let is_out = upper.limit < lower.limit
            || (upper.limit == lower.limit && (upper.is_strict || lower.is_strict));
        self.wanted.is_same(&other.wanted) && is_out
    }

    /// Returns how far a value meets the goal, in the figure's unit; below 0 if it does not.
    #[must_use]
    pub fn margin(&self, value: f64) -> f64 {
        let margin = if self.most { self.limit - value } else { value - self.limit };
        match margin == 0.0 && self.is_strict {
            true => -f64::MIN_POSITIVE,
            false => margin,
        }
    }

    /// Returns the margin below which either decision is as good, if figures need be known to a part `within`: of the value or, for
    /// shares, of all time, but at most a quarter of the way to 0 and to 1.
    #[must_use]
    pub fn tolerance(&self, within: f64) -> f64 {
        let limit = self.limit.abs();
        match self.wanted.unit() {
            Unit::Share => {
                let least = [limit, 1.0 - limit].into_iter().filter(|way| *way > 0.0);
                least.fold(within, |least, way| least.min(way / 4.0))
            }
            _ if limit > 0.0 => within * limit,
            _ => within,
        }
    }
}

/// Reads a value in the unit of a figure; what to write if it is none.
fn amount(text: &str, unit: Unit, scenario: &Scenario) -> Result<f64, String> {
    let number =
        |text: &str| text.trim().replace('_', "").parse::<f64>().ok().filter(|of| of.is_finite());
    match unit {
        Unit::Seconds => {
            text.parse::<Quantity<LongTime>>().map(Quantity::si).map_err(|error| error.to_string())
        }
        Unit::Bytes => {
            text.parse::<Quantity<Size>>().map(Quantity::si).map_err(|error| error.to_string())
        }
        Unit::Watts => {
            text.parse::<Quantity<Power>>().map(Quantity::si).map_err(|error| error.to_string())
        }
        Unit::Share => {
            let percent = text.strip_suffix('%').and_then(number).map(|value| value / 100.0);
            let share =
                percent.or_else(|| number(text)).filter(|share| (0.0..=1.0).contains(share));
            share.ok_or_else(|| "write a share of the time, such as \"2 %\"".to_owned())
        }
        Unit::Money => {
            let prices = scenario.prices.as_ref();
            let known = prices.map(|prices| prices.currency.as_str());
            let Some(currency) = known else {
                return Err(
                    "the scenario has no `[prices]`, from which costs follow: write such a table"
                        .to_owned(),
                );
            };
            let money = Money::parse(text).map_err(|what| match what.split_once(": write ") {
                Some((_, remedy)) => format!("write {remedy}"),
                None => what,
            })?;
            match money.currency == currency {
                true => Ok(money.amount),
                false => Err(format!("write it in {currency}, as the prices are")),
            }
        }
        Unit::Joules => {
            scaled(text, &[("J", 1.0), ("kJ", 1e3), ("MJ", 1e6), ("Wh", 3.6e3), ("kWh", 3.6e6)])
                .ok_or_else(|| "write an energy, such as \"5 J\" or \"2 kWh\"".to_owned())
        }
        _ => {
            let symbol = unit.symbol();
            let plain =
                [("", 1.0), ("k", 1e3), ("M", 1e6), ("/s", 1.0), ("k/s", 1e3), ("M/s", 1e6)];
            let own = [(symbol, 1.0), ("images/s", 1.0), ("tokens/s", 1.0)];
            let all: Vec<(&str, f64)> = plain.into_iter().chain(own).collect();
            scaled(text, &all)
                .ok_or_else(|| format!("write a number of {symbol}, such as \"1200\" or \"12k\""))
        }
    }
}

/// Reads a number with one of these units.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || "._+-".contains(c))).unwrap_or(text.len());
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    let unit = text[end..].trim().replace(' ', "");
    let factor = units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)?;
    Some(number * factor).filter(|value| value.is_finite())
}

/// Writes a value of a figure with its unit.
#[must_use]
pub fn written(value: f64, unit: Unit, currency: &str) -> String {
    match unit {
        Unit::Seconds => format::seconds(value),
        Unit::Bytes => format::bytes(value),
        Unit::Share => format::share(value),
        Unit::Money => money(value, currency),
        Unit::Joules | Unit::Watts => prefixed(value, unit.symbol()),
        Unit::Count | Unit::Ratio | Unit::Text => format::number(value),
        _ => format!("{} {}", format::count(value), unit.symbol()),
    }
}

/// Writes a value of a figure with its unit and its 95 % interval.
#[must_use]
pub fn with_interval(value: f64, ends: Option<[f64; 2]>, unit: Unit, currency: &str) -> String {
    let quantity = match unit {
        Unit::Seconds => format::Quantity::Seconds,
        Unit::Share => format::Quantity::Share,
        Unit::Money | Unit::Bytes | Unit::Joules | Unit::Watts => {
            let half = ends
                .map(|[low, high]| (high - low) / 2.0)
                .filter(|half| *half > 1e-3 * value.abs());
            let half = half.map(|half| format!(" ± {}", written(half, unit, currency)));
            return written(value, unit, currency) + &half.unwrap_or_default();
        }
        _ => format::Quantity::Count,
    };
    let text =
        ends.map_or_else(|| quantity.write(value), |ends| quantity.with_interval(value, ends));
    match unit {
        Unit::Seconds | Unit::Share | Unit::Count | Unit::Ratio | Unit::Text => text,
        _ => format!("{text} {}", unit.symbol()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ScenarioFile;

    fn scenario() -> Scenario {
        let text = format!("{}\n[prices]\nnode = \"$100k\"\n", crate::sweep::SCENARIO);
        let file = ScenarioFile::parse("x.toml", text).expect("TOML");
        file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}"))
    }

    proptest::proptest! {
        /// System: any text as a goal, or as its value. Expectation: it is read or refused.
        #[test]
        fn any_goal_is_read_or_refused(text in "\\PC*") {
            let scenario = scenario();
            let values = ["stall", "cost", "step time", "throughput", "energy"];
            let goals = values.iter().map(|figure| format!("{figure} < {text}"));
            for goal in goals.chain([text.clone(), format!("{text} < 2 %")]) {
                let read = Goal::parse(&goal, &scenario);
                assert!(read.is_ok_and(|of| of.limit.is_finite()) || Goal::parse(&goal, &scenario).is_err());
            }
        }
    }

    #[test]
    fn goals_are_read_with_their_units_in_several_ways_of_writing() {
        let scenario = scenario();
        for (text, most, limit) in [
            ("stall < 2 %", true, 0.02),
            ("stall < 0.02", true, 0.02),
            ("AU >= 95%", false, 0.95),
            ("accelerator utilisation at least 95 %", false, 0.95),
            ("step time < 1 min 15 s", true, 75.0),
            ("p99 step time < 60 ms", true, 0.06),
            ("step p99 <= 60 ms", true, 0.06),
            ("epoch time below 1 h", true, 3600.0),
            ("time to accuracy < 2 d", true, 172_800.0),
            ("throughput > 12k", false, 12_000.0),
            ("throughput ≥ 1_200 images/s", false, 1200.0),
            ("goodput > 5 samples/s", false, 5.0),
            ("checkpoint share < 1 %", true, 0.01),
            ("energy per sample < 5 J", true, 5.0),
            ("power < 3 kW", true, 3000.0),
            ("cost per month < $50k", true, 50_000.0),
            ("cost of an epoch < $1.50", true, 1.5),
            ("cost < $1M", true, 1e6),
            ("stall_transfer < 1 %", true, 0.01),
            ("queue_occupancy > 5", false, 5.0),
            ("device memory < 80 GB", true, 8e10),
        ] {
            let goal = Goal::parse(text, &scenario).unwrap_or_else(|why| panic!("{text}: {why:?}"));
            assert_eq!((goal.most, goal.limit), (most, limit), "{text}");
        }
        let job = scenario.jobs[0].name.clone();
        let of = Goal::parse(&format!("stall of {job} < 2 %"), &scenario).expect("a goal");
        assert_eq!(of.wanted.job, Some(job));
    }

    #[test]
    fn goals_that_cannot_be_read_say_what_to_write() {
        let scenario = scenario();
        for (text, words) in [
            ("stall", "stall < 2 %"),
            ("stal < 2 %", "stall"),
            ("< 2 %", "there is no figure"),
            ("stall < 2", "share of the time"),
            ("stall < 200 %", "share of the time"),
            ("stall < ", "share of the time"),
            ("step time < 5", "unit"),
            ("step time < 5 GB", "is a unit of a size"),
            ("throughput > fast", "write a number of samples/s"),
            ("cost < 500", "currency"),
            ("cost < 500 EUR", "write it in $"),
            ("p99 stall < 2 %", "quantile"),
            ("stall of nobody < 2 %", "there is no job named"),
        ] {
            let (what, remedy) = Goal::parse(text, &scenario).expect_err(text);
            assert!(format!("{what}: {remedy}").contains(words), "{text}: {what}: {remedy}");
        }
    }

    #[test]
    fn margins_are_positive_on_the_side_of_the_goal() {
        let scenario = scenario();
        let goal = |text: &str| Goal::parse(text, &scenario).expect("a goal");
        assert!(goal("stall < 2 %").margin(0.01) > 0.0 && goal("stall < 2 %").margin(0.02) < 0.0);
        assert_eq!(goal("stall <= 2 %").margin(0.02), 0.0);
        assert!(goal("AU > 90 %").margin(0.95) > 0.0 && goal("AU > 90 %").margin(0.85) < 0.0);
        // Shares are known to points, but to a quarter of what is left to 0 or 1; all else to a part of the value.
        let tolerance = |text: &str| goal(text).tolerance(0.01);
        assert_eq!([tolerance("AU > 50 %"), tolerance("stall < 2 %")], [0.01, 0.005]);
        assert!((tolerance("AU > 99 %") - 0.0025).abs() < 1e-12);
        assert_eq!(tolerance("epoch time < 1 h"), 36.0);
    }
}
