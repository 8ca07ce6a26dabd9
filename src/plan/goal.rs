//! Goals as users write them: `stall < 2 %`, `p99 step time of train <= 60 ms`, `cost per month < $50k`.

use super::figure::Wanted;
use crate::metric::Unit;
use crate::report::format::{self, prefixed};
use crate::report::{Figure, JobReport, Report, money, money_with_half};
use crate::scenario::{Money, Scenario};
use crate::units::{LongTime, Power, Quantity, Size, share};

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
        if let Some((_, swapped)) =
            [("=>", ">="), ("=<", "<=")].iter().find(|(of, _)| text.contains(of))
        {
            return Err((format!("{text:?} has no comparison"), format!("write `{swapped}`")));
        }
        let (figure, value) = (&text[..at], text[at + word.len()..].trim());
        let wanted = Wanted::read(figure, scenario)?;
        let limit = amount(value, wanted.unit(), scenario)
            .map_err(|remedy| (format!("{value:?} is no value of `{}`", figure.trim()), remedy))?;
        let text = text.trim().replace('`', "");
        Ok(Goal { text, wanted, most: *most, limit, is_strict: *is_strict })
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

    /// Returns the margin that does not matter: the part `within` of the limit. For shares `within` counts points of all time, but at
    /// most a quarter of the way from the limit to 0 and to 1.
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
            let share = share(text).filter(|share| (0.0..=1.0).contains(share));
            let meant = text.parse::<f64>().ok().filter(|number| (1.0..=100.0).contains(number));
            share.ok_or_else(|| match meant {
                Some(percent) => {
                    format!("write a share of the time with its unit: \"{percent} %\"")
                }
                None => "write a share of the time from 0 to 100 %, such as \"2 %\" or \"0.02\""
                    .to_owned(),
            })
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
        Unit::Money => {
            let half = ends.map_or(0.0, |[low, high]| (high - low) / 2.0);
            return money_with_half(value, half, currency);
        }
        Unit::Bytes | Unit::Joules | Unit::Watts => {
            let half = ends.map_or(0.0, |[low, high]| (high - low) / 2.0);
            return prefixed_with_half(&written(value, unit, currency), value, half);
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

/// Adds the half-width of its interval to a written value, in the same unit and with as many decimals: `5.231 ± 0.012 kJ`. A half-width
/// that would be written as zero is left out.
fn prefixed_with_half(written: &str, value: f64, half: f64) -> String {
    let alone = || written.to_owned();
    let Some((number, unit)) = written.split_once(' ') else { return alone() };
    let Ok(scaled) = number.parse::<f64>() else { return alone() };
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let half = format!("{:.decimals$}", half * scaled / value);
    match half.contains(|c: char| ('1'..='9').contains(&c)) {
        true => format!("{number} ± {half} {unit}"),
        false => alone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::figure::At;
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
            let values = ["stall", "cost per epoch", "step time", "throughput", "energy"];
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
            ("step time p99 <= 60 ms", true, 0.06),
            ("p99 of step time <= 60 ms", true, 0.06),
            ("median step time < 60 ms", true, 0.06),
            ("stall < 1 %", true, 0.01),
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
            ("cost of a month < $1M", true, 1e6),
            ("cost of the run < $5", true, 5.0),
            ("cost per hour < $5", true, 5.0),
            ("cost to accuracy < $5k", true, 5000.0),
            ("energy < 5 kWh", true, 1.8e7),
            ("energy per step < 5 J", true, 5.0),
            ("accelerator utilization > 0.9", false, 0.9),
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
    fn jobs_may_have_any_name() {
        let text = crate::sweep::SCENARIO.replace("name = \"lenet\"", "name = \"NAME\"");
        assert_ne!(text, crate::sweep::SCENARIO);
        for name in ["c of d", "mean", "p99", "median", "a.b", "a month", "of", "it `x`"] {
            let text = text.replace("NAME", name);
            let file = ScenarioFile::parse("x.toml", text).expect("TOML");
            let scenario = file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}"));
            for figure in ["stall", "p95 step time", "AU"] {
                let limit = if figure.contains("time") { "0.5 s" } else { "0.5" };
                for written in [name.to_owned(), format!("`{name}`")] {
                    let goal = format!("{figure} of {written} < {limit}");
                    let goal = Goal::parse(&goal, &scenario);
                    let goal = goal.unwrap_or_else(|why| panic!("{figure} of {written}: {why:?}"));
                    assert_eq!(goal.wanted.job.as_deref(), Some(name));
                    assert_eq!(goal.wanted.at == At::P95, figure.starts_with("p95"));
                    assert!(!goal.text.contains('`'), "{}", goal.text);
                }
            }
        }
    }

    #[test]
    fn figures_without_a_better_side_can_be_goals_but_choose_no_option() {
        let scenario = scenario();
        assert!(Goal::parse("queue_occupancy > 5", &scenario).is_ok());
        let (what, remedy) = Wanted::parse("queue_occupancy", &scenario).expect_err("no side");
        assert_eq!(what, "neither more nor less of `queue_occupancy` is better");
        assert!(remedy.contains("write a goal: `queue_occupancy > …`"), "{remedy}");
        for figure in ["throughput", "cost per month", "checkpoint share", "stall"] {
            assert!(Wanted::parse(figure, &scenario).is_ok(), "{figure}");
        }
    }

    #[test]
    fn intervals_have_the_digits_of_their_values() {
        let of = |value: f64, half: f64, unit: Unit| {
            with_interval(value, Some([value - half, value + half]), unit, "$")
        };
        assert_eq!(of(0.9137, 0.002_143, Unit::Money), "$0.914 ± $0.002");
        assert_eq!(of(5.231, 0.002_143, Unit::Joules), "5.231 ± 0.002 J");
        assert_eq!(of(5231.0, 41.0, Unit::Watts), "5.231 ± 0.041 kW");
        assert_eq!(of(8e10, 0.0, Unit::Bytes), "80 GB");
        assert_eq!(of(0.0, 0.0, Unit::Joules), "0 J");
    }

    #[test]
    fn goals_that_cannot_be_read_say_what_to_write() {
        let scenario = scenario();
        for (text, words) in [
            ("stall", "stall < 2 %"),
            ("stal < 2 %", "stall"),
            ("< 2 %", "there is no figure"),
            ("stall < 2", "share of the time"),
            // 1 % or 100 %?
            ("stall < 1", "share of the time"),
            ("p90 step time < 5 ms", "write `p50`, `p95` or `p99`"),
            ("cost < $5", "cost_per_month"),
            ("wait < 2 %", "there is no figure `wait`"),
            ("stall < 200 %", "share of the time"),
            ("stall < ", "share of the time"),
            ("step time < 5", "unit"),
            ("step time < 5 GB", "is a unit of a size"),
            ("throughput > fast", "write a number of samples/s"),
            ("cost per month < 500", "currency"),
            ("cost per month < 500 EUR", "write it in $"),
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
