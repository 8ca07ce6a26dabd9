//! What training costs, by the prices of a scenario.

use super::Outcome;
use super::figures::{EnergyReport, Figure, JobReport};
use super::format::{count, seconds};
use super::sample::over_replications;
use super::text::shown;
use super::window::ratio;
use forebay_scenario::{HOURS_OF_MONTH, Priced, Prices, Purchase, Scenario};

/// Seconds of an hour.
const HOUR: f64 = 3600.0;

/// Cost of the whole cluster, with purchases spread over their lifetime.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct CostReport {
    /// Currency of all amounts, as the scenario writes it.
    pub currency: String,
    /// Cost of the cluster for an hour, energy included.
    pub hour: Figure,
    /// Cost of the cluster for a month of 730 hours, energy included.
    pub month: Figure,
    /// Cost of the cluster from the start of the run until the last step of all jobs.
    pub run: Figure,
    /// Sum of all purchases.
    pub bought: f64,
    /// What paying off the purchases costs for a month; part of `month`.
    pub bought_per_month: f64,
    /// Cost of energy for an hour; part of `hour`.
    pub energy: Figure,
    /// Time over which purchases are paid off [h].
    pub lifetime: f64,
    /// The items of the bill, energy included.
    pub items: Vec<Priced>,
    /// Sizes of what is paid for.
    pub purchase: Purchase,
}

/// What one copy of a job costs: its share of the cluster's cost.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct JobCost {
    /// Part of the cluster's cost that one copy of the job pays: its nodes over the nodes of all copies of all jobs. Idle nodes
    /// are so paid by all.
    pub share: f64,
    /// Cost of an epoch.
    pub epoch: Figure,
    /// Cost until the job reaches its target; empty without a target.
    pub to_accuracy: Figure,
}

/// What a replication shows of costs.
pub(super) struct Costing {
    /// Cost of the cluster for an hour; `None` if the power of the nodes is not known.
    hour: Option<f64>,
    /// Time of the last step [s].
    makespan: f64,
    /// For each job the time of an epoch and that to its target [s].
    times: Vec<[Option<f64>; 2]>,
}

impl Costing {
    /// Takes the costs of one replication from its outcome and from the reports on its jobs.
    pub(super) fn of(prices: &Prices, outcome: &Outcome, jobs: &[JobReport]) -> Costing {
        let power = outcome.energy.and_then(|energy| ratio(energy.total(), energy.seconds));
        let energy = match prices.kwh {
            0.0 => Some(0.0),
            kwh => power.map(|watts| kwh * watts / 1000.0),
        };
        let times = |job: &JobReport| {
            let to_accuracy = job.time_to_accuracy.as_ref();
            [job.figures.epoch_time.mean, to_accuracy.and_then(|of| of.time.mean)]
        };
        Costing {
            hour: energy.map(|energy| energy + prices.per_hour()),
            makespan: outcome.makespan,
            times: jobs.iter().map(times).collect(),
        }
    }

    /// Returns the cost of the cluster over a time [s].
    fn over(&self, time: Option<f64>) -> Option<f64> {
        Some(self.hour? * time? / HOUR).filter(|cost| cost.is_finite())
    }
}

/// Returns the costs by the scenario's prices; `None` if it has none.
pub(super) fn cost(
    scenario: &Scenario,
    energy: Option<&EnergyReport>,
    each: &[Costing],
) -> Option<CostReport> {
    let prices: &Prices = scenario.prices.as_ref()?;
    let power = energy.map(|of| of.power).unwrap_or_default();
    let energy = match prices.kwh {
        0.0 => Figure { mean: Some(0.0), ..Figure::default() },
        kwh => times(&power, kwh / 1000.0),
    };
    let fixed = prices.per_hour();
    let more = |value: f64| value + fixed;
    let hour = Figure {
        mean: energy.mean.map(more),
        ci95: energy.ci95.map(|ends| ends.map(more)),
        ..Figure::default()
    };
    let mut items = prices.items.clone();
    if let (Some(watts), Some(per_hour)) = (power.mean, energy.mean.filter(|of| *of > 0.0)) {
        let what = "kW drawn".to_owned();
        let (count, each) = (watts / 1000.0, prices.kwh);
        items.push(Priced { what, count, each, hourly: true, per_hour });
    }
    let runs: Vec<f64> = each.iter().filter_map(|run| run.over(Some(run.makespan))).collect();
    Some(CostReport {
        currency: prices.currency.clone(),
        month: times(&hour, HOURS_OF_MONTH),
        run: over_replications(&runs),
        bought: prices.bought(),
        bought_per_month: prices.bought_per_hour() * HOURS_OF_MONTH,
        energy,
        lifetime: prices.lifetime,
        items,
        purchase: prices.purchase.clone(),
        hour,
    })
}

/// Returns what one copy of job `index` costs.
pub(super) fn job_cost(
    scenario: &Scenario,
    cost: &CostReport,
    each: &[Costing],
    (index, job): (usize, &JobReport),
) -> JobCost {
    let nodes = |job: &forebay_scenario::Job| f64::from(job.nodes);
    let all: f64 = scenario.jobs.iter().map(|job| nodes(job) * f64::from(job.copies)).sum();
    let share = nodes(&scenario.jobs[index]) / all;
    let over = |which: usize, time: &Figure| {
        let hour = cost.hour.mean.unwrap_or(f64::NAN);
        let by_time = times(time, share * hour / HOUR);
        // Without energy an hour costs the same in each replication. With it, power and time go together.
        if each.len() < 2 || cost.energy.mean == Some(0.0) {
            return by_time;
        }
        let pairs = each.iter().map(|run| {
            let seconds = run.times[index][which]?;
            Some((seconds, share * run.over(Some(seconds))?))
        });
        let Some(pairs) = pairs.collect::<Option<Vec<(f64, f64)>>>() else { return by_time };
        let (seconds, costs): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        let over_runs = over_replications(&costs);
        let student = times(&over_replications(&seconds), share * hour / HOUR).ci95;
        Figure { ci95: widened(over_runs.ci95, student, by_time.ci95), ..over_runs }
    };
    let to_accuracy = job.time_to_accuracy.as_ref();
    JobCost {
        share,
        epoch: over(0, &job.figures.epoch_time),
        to_accuracy: to_accuracy.map(|of| over(1, &of.time)).unwrap_or_default(),
    }
}

/// Returns the interval `ends`, with each end moved outwards as far as `known` reaches beyond `student`: the interval of a time also
/// allows for stalls that were too rare to be seen.
fn widened(
    ends: Option<[f64; 2]>,
    student: Option<[f64; 2]>,
    known: Option<[f64; 2]>,
) -> Option<[f64; 2]> {
    let ([low, high], Some(student), Some(known)) = (ends?, student, known) else { return ends };
    Some([
        (low - (student[0] - known[0]).max(0.0)).max(0.0),
        high + (known[1] - student[1]).max(0.0),
    ])
}

/// Returns a figure times a positive factor, without quantiles.
fn times(figure: &Figure, factor: f64) -> Figure {
    let scaled = |value: f64| value * factor;
    let finite = |value: &f64| value.is_finite();
    Figure {
        mean: figure.mean.map(scaled).filter(finite),
        ci95: figure.ci95.map(|ends| ends.map(scaled)).filter(|ends| ends.iter().all(finite)),
        ..Figure::default()
    }
}

/// Largest amount that is written with an SI prefix; beyond, money has words of its own.
const BILLION: f64 = 1e9;

/// Writes an amount of money: `$1,234`, `1,234 EUR`, `$2.5 bn`.
#[must_use]
pub fn money(amount: f64, currency: &str) -> String {
    with_currency(&amount_of(amount), currency)
}

/// Writes an amount of money and the half-width of its interval, with as many decimals: `$0.914 ± $0.002`. A half-width that would be
/// written as zero is left out.
#[must_use]
pub fn money_with_half(amount: f64, half: f64, currency: &str) -> String {
    let value = money(amount, currency);
    let written = match amount.abs() {
        // Four digits are written; the half-width has the last one's unit.
        1000.0.. => {
            let unit = 10_f64.powf(amount.abs().log10().floor() - 3.0);
            let rounded = (half / unit).round() * unit;
            if rounded < BILLION { count(rounded) } else { amount_of(rounded) }
        }
        _ => {
            let number = amount_of(amount);
            let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            format!("{half:.decimals$}")
        }
    };
    let is_zero = !written.contains(|c: char| ('1'..='9').contains(&c));
    let is_small = half < 1e-3 * amount.abs();
    match is_zero || is_small || !half.is_finite() {
        true => value,
        false => format!("{value} ± {}", with_currency(&written, currency)),
    }
}

fn amount_of(amount: f64) -> String {
    match amount.abs() {
        10.0..1000.0 => format!("{amount:.1}"),
        1.0..10.0 => format!("{amount:.2}"),
        0.1..1.0 => format!("{amount:.3}"),
        BILLION.. => format!("{} bn", count_of_billions(amount / BILLION)),
        _ => count(amount),
    }
}

/// Writes a number of billions, with commas between thousands.
fn count_of_billions(number: f64) -> String {
    if number.abs() < 1000.0 {
        return count(number);
    }
    let digits = format!("{:.0}", number.abs());
    let groups: Vec<String> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| String::from_utf8_lossy(group).into_owned())
        .collect();
    let sign = if number < 0.0 { "-" } else { "" };
    format!("{sign}{}", groups.join(","))
}

fn with_currency(number: &str, currency: &str) -> String {
    match currency.chars().all(char::is_alphabetic) {
        true => format!("{number} {currency}"),
        false => format!("{currency}{number}"),
    }
}

/// Writes the time over which purchases are paid off [h]; whole years without days.
fn lifetime(hours: f64) -> String {
    let years = hours / (12.0 * HOURS_OF_MONTH);
    match years.fract() == 0.0 && years >= 1.0 {
        true => format!("{years} year{}", if years == 1.0 { "" } else { "s" }),
        false => seconds(hours * HOUR),
    }
}

/// Jobs whose costs the line names at most.
const MOST_JOBS: usize = 4;

/// Writes the costs of a run in a line.
pub(super) fn cost_line(of: &CostReport, jobs: &[JobReport]) -> String {
    let amount = |amount: f64| money(amount, &of.currency);
    let written = |figure: &Figure| shown(figure.mean, amount);
    let mut text = format!("Costs: {} an hour, {} a month", written(&of.hour), written(&of.month));
    if of.bought > 0.0 {
        text += &format!(
            " ({} of it pays off purchases of {} over {})",
            amount(of.bought_per_month),
            amount(of.bought),
            lifetime(of.lifetime)
        );
    }
    text += &format!("; the run {}", written(&of.run));
    let named = |job: &JobReport| {
        let cost = job.cost.as_ref()?;
        let target = cost.to_accuracy.mean.map(|target| format!(", its target {}", amount(target)));
        let target = target.unwrap_or_default();
        Some(format!("; an epoch of `{}` {}{target}", job.name, amount(cost.epoch.mean?)))
    };
    let named: Vec<String> = jobs.iter().filter_map(named).collect();
    text.extend(named.iter().take(MOST_JOBS).map(String::as_str));
    if named.len() > MOST_JOBS {
        text += &format!("; {} more jobs: `--format json`", named.len() - MOST_JOBS);
    }
    text + "."
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EnergyOutcome, JobOutcome, fixture, summarise};

    fn item(count: f64, each: f64, hourly: bool, per_hour: f64) -> Priced {
        Priced { what: "x".to_owned(), count, each, hourly, per_hour }
    }

    fn prices(items: Vec<Priced>, kwh: f64) -> Option<Prices> {
        Some(Prices {
            currency: "$".to_owned(),
            lifetime: 7300.0,
            items,
            kwh,
            purchase: Purchase::default(),
        })
    }

    #[track_caller]
    fn near(found: Option<f64>, expected: f64) {
        let found = found.expect("a cost");
        assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found} {expected}");
    }

    #[test]
    fn costs_follow_from_prices_and_times_by_hand() {
        // System: a price of 3.6 an hour for each of two nodes, and a purchase of 7300 over 7300 h: 8.2 an hour. Two copies of a job
        // on a node each; an epoch has 30 steps of 50 ms, and the run takes 5 s.
        let mut scenario = fixture::scenario();
        let items = vec![item(2.0, 3.6, true, 7.2), item(1.0, 7300.0, false, 1.0)];
        scenario.prices = prices(items, 0.0);
        let report = summarise(&scenario, &[fixture::outcome([0.05, 0.05])], 0.0);
        let cost = report.cost.as_ref().expect("prices");
        near(cost.hour.mean, 8.2);
        near(cost.month.mean, 5986.0);
        near(cost.run.mean, 8.2 * 5.0 / 3600.0);
        assert_eq!((cost.bought, cost.bought_per_month), (7300.0, 730.0));
        let own = report.jobs[0].cost.as_ref().expect("prices");
        assert_eq!(own.share, 0.5);
        near(own.epoch.mean, 8.2 * 0.5 * 1.5 / 3600.0);
        let line = cost_line(cost, &report.jobs);
        let expected = "Costs: $8.20 an hour, $5,986 a month ($730.0 of it pays off purchases of $7,300 over 304 days 4 h); the run \
            $0.01139; an epoch of `lenet` $0.001708.";
        assert_eq!(line, expected);
        scenario.prices = None;
        assert_eq!(summarise(&scenario, &[fixture::outcome([0.05, 0.05])], 0.0).cost, None);
    }

    #[test]
    fn costs_of_energy_are_means_over_runs_of_cost_times_time() {
        // System: 1 an hour and 0.5 a kWh. One run draws 1 kW and takes 1.5 s an epoch, the other 400 W and 3 s: 1.5 and 1.2 an hour.
        // Expectation: the mean of 1.5 x 1.5 and 1.2 x 3, not 1.35 x 2.25, with Student's interval of the two.
        let mut scenario = fixture::scenario();
        scenario.prices = prices(vec![item(1.0, 1.0, true, 1.0)], 0.5);
        let outcome = |step: f64, makespan: f64, watts: f64| Outcome {
            makespan,
            energy: Some(EnergyOutcome {
                seconds: 10.0,
                idle: 10.0 * watts,
                gpus: 0.0,
                cores: 0.0,
            }),
            ..fixture::outcome([step, step])
        };
        let outcomes = [outcome(0.05, 4.0, 1000.0), outcome(0.1, 6.0, 400.0)];
        let report = summarise(&scenario, &outcomes, 0.0);
        let cost = report.cost.as_ref().expect("prices");
        near(cost.hour.mean, 1.35);
        near(cost.energy.mean, 0.35);
        near(cost.run.mean, (1.5 * 4.0 + 1.2 * 6.0) / 2.0 / 3600.0);
        let epoch = report.jobs[0].cost.as_ref().expect("prices").epoch;
        near(epoch.mean, 0.5 * (2.25 + 3.6) / 2.0 / 3600.0);
        // Student's factor of one degree of freedom, and half the difference of the two.
        let half = 12.706_204_736 * 0.5 * 0.675 / 3600.0;
        let [low, high] = epoch.ci95.expect("an interval");
        let mean = epoch.mean.expect("a cost");
        // The time's interval is wider than Student's by stalls that so few steps may not show.
        assert!((1.0..1.01).contains(&((high - mean) / half)), "{mean} {high} {half}");
        assert_eq!(low, 0.0);
        // A run by itself: 1.5 an hour for 1.5 s.
        let report = summarise(&scenario, &outcomes[..1], 0.0);
        near(report.jobs[0].cost.as_ref().expect("prices").epoch.mean, 0.5 * 2.25 / 3600.0);
    }

    #[test]
    fn copies_of_all_jobs_pay_for_the_whole_cluster_idle_nodes_included() {
        // System: a job of three copies on two nodes each, one of two copies on one node each, in 20 nodes, with nodes shared or not.
        // Expectation: 2/8 and 1/8 for each copy, so that all copies together pay for the 20 nodes.
        for share_nodes in [false, true] {
            let mut scenario = fixture::scenario();
            scenario.cluster.nodes = 20;
            scenario.cluster.share_nodes = share_nodes;
            scenario.prices = prices(vec![item(20.0, 1.0, true, 20.0)], 0.0);
            let job = scenario.jobs[0].clone();
            scenario.jobs = vec![
                forebay_scenario::Job { copies: 3, nodes: 2, ..job.clone() },
                forebay_scenario::Job { name: "other".into(), ..job },
            ];
            let of = |job: usize, copy: u32| JobOutcome { job, copy, ..fixture::copy(40, 0.05) };
            let jobs = vec![of(0, 0), of(0, 1), of(0, 2), of(1, 0), of(1, 1)];
            let outcome = Outcome { jobs, ..fixture::outcome([0.05, 0.05]) };
            let report = summarise(&scenario, &[outcome], 0.0);
            let shares = report.jobs.iter().map(|job| job.cost.as_ref().expect("prices").share);
            assert_eq!(shares.collect::<Vec<f64>>(), [0.25, 0.125]);
            let epoch = |job: usize| report.jobs[job].cost.as_ref().expect("prices").epoch.mean;
            near(epoch(0), 20.0 * 0.25 * 1.5 / 3600.0);
            near(epoch(1), 20.0 * 0.125 * 1.5 / 3600.0);
        }
    }

    #[test]
    fn prices_of_zero_cost_nothing() {
        let mut scenario = fixture::scenario();
        scenario.prices = prices(vec![item(2.0, 0.0, true, 0.0)], 0.0);
        let report = summarise(&scenario, &[fixture::outcome([0.05, 0.05])], 0.0);
        let cost = report.cost.as_ref().expect("prices");
        assert_eq!((cost.hour.mean, cost.run.mean), (Some(0.0), Some(0.0)));
        let line = cost_line(cost, &report.jobs);
        assert_eq!(line, "Costs: $0 an hour, $0 a month; the run $0; an epoch of `lenet` $0.");
    }

    #[test]
    fn lifetimes_of_whole_years_have_no_days() {
        let written = [35_040.0, 8760.0, 7300.0].map(lifetime);
        assert_eq!(written, ["4 years", "1 year", "304 days 4 h"]);
    }

    #[test]
    fn amounts_have_their_currency_where_it_is_usually_written() {
        let written = [
            (1234.0, "$"),
            (0.5, "€"),
            (2.0, "EUR"),
            (45.67, "$"),
            (1.5e6, "CHF"),
            (2.5e9, "$"),
            (2.92e18, "$"),
            (0.913_7, "$"),
        ];
        let written = written.map(|(amount, currency)| money(amount, currency));
        let expected = [
            "$1,234",
            "€0.500",
            "2.00 EUR",
            "$45.7",
            "1.5 M CHF",
            "$2.5 bn",
            "$2,920,000,000 bn",
            "$0.914",
        ];
        assert_eq!(written, expected);
    }

    #[test]
    fn half_widths_have_the_decimals_of_their_amounts() {
        for (amount, half, expected) in [
            (0.9137, 0.002_143, "$0.914 ± $0.002"),
            (45.67, 1.26, "$45.7 ± $1.3"),
            (45.67, 0.02, "$45.7"),
            (17_630.0, 122.34, "$17,630 ± $120"),
            (0.0, 0.0, "$0"),
        ] {
            assert_eq!(money_with_half(amount, half, "$"), expected);
        }
    }
}
