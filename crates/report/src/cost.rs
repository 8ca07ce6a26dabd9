//! What training costs, by the prices of a scenario.

use super::figures::{EnergyReport, Figure, JobReport};
use super::format::count;
use super::text::shown;
use forebay_scenario::{HOURS_OF_MONTH, Priced, Prices, Scenario};

/// Seconds of an hour.
const HOUR: f64 = 3600.0;

/// What the whole cluster costs, with purchases spread over the time in which they are paid off.
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
    /// Cost of energy for an hour; part of `hour`.
    pub energy: Figure,
    /// Time over which purchases are paid off [h].
    pub lifetime: f64,
    /// What is paid for, energy included.
    pub items: Vec<Priced>,
}

/// What one copy of a job costs: the part of the cluster's cost that its nodes are of the nodes of all jobs.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct JobCost {
    /// Part of the cluster's cost that one copy of the job pays: its nodes over the nodes of all copies of all jobs.
    pub share: f64,
    /// Cost of an epoch.
    pub epoch: Figure,
    /// Cost until the job reaches its target; empty without a target.
    pub to_accuracy: Figure,
}

/// Returns the costs by the scenario's prices; `None` if it has none.
pub(super) fn cost(
    scenario: &Scenario,
    energy: Option<&EnergyReport>,
    makespan: &Figure,
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
    Some(CostReport {
        currency: prices.currency.clone(),
        month: times(&hour, HOURS_OF_MONTH),
        run: times(makespan, hour.mean.unwrap_or(f64::NAN) / HOUR),
        bought: prices.bought(),
        energy,
        lifetime: prices.lifetime,
        items,
        hour,
    })
}

/// Returns what one copy of job `index` costs.
pub(super) fn job_cost(
    scenario: &Scenario,
    cost: &CostReport,
    (index, job): (usize, &JobReport),
) -> JobCost {
    let nodes = |job: &forebay_scenario::Job| f64::from(job.nodes);
    let all: f64 = scenario.jobs.iter().map(|job| nodes(job) * f64::from(job.copies)).sum();
    let share = nodes(&scenario.jobs[index]) / all;
    let hour = cost.hour.mean.unwrap_or(f64::NAN);
    let over = |time: &Figure| times(time, share * hour / HOUR);
    let to_accuracy = job.time_to_accuracy.as_ref();
    JobCost {
        share,
        epoch: over(&job.figures.epoch_time),
        to_accuracy: to_accuracy.map(|of| over(&of.time)).unwrap_or_default(),
    }
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

/// Writes an amount of money: `$1,234`, `1,234 EUR`.
#[must_use]
pub fn money(amount: f64, currency: &str) -> String {
    let number = match amount.abs() {
        10.0..1000.0 => format!("{amount:.1}"),
        1.0..10.0 => format!("{amount:.2}"),
        _ => count(amount),
    };
    match currency.chars().all(char::is_alphabetic) {
        true => format!("{number} {currency}"),
        false => format!("{currency}{number}"),
    }
}

/// Writes the costs of a run in sentences.
pub(super) fn cost_line(of: &CostReport, jobs: &[JobReport]) -> String {
    let written = |figure: &Figure| shown(figure.mean, |amount| money(amount, &of.currency));
    let mut text = format!("Costs: {} an hour, {} a month", written(&of.hour), written(&of.month));
    if of.bought > 0.0 {
        text += &format!(
            ", of it {} to buy, spread over {} h",
            money(of.bought, &of.currency),
            count(of.lifetime)
        );
    }
    for job in jobs {
        let Some(cost) = &job.cost else { continue };
        text += &format!("; an epoch of `{}` {}", job.name, written(&cost.epoch));
        if cost.to_accuracy.mean.is_some() {
            text += &format!(", its target {}", written(&cost.to_accuracy));
        }
    }
    text + "."
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, summarise};

    #[test]
    fn costs_follow_from_prices_and_times_by_hand() {
        // System: a price of 3.6 an hour for each of two nodes, and a purchase of 7300 over 7300 h. Expectation: 8.2 an hour; a job
        // copy on one of one node in use pays for all of them, for the time that an epoch takes.
        let mut scenario = fixture::scenario();
        let item = |count: f64, each: f64, hourly: bool, per_hour: f64| Priced {
            what: "x".to_owned(),
            count,
            each,
            hourly,
            per_hour,
        };
        let items = vec![item(2.0, 3.6, true, 7.2), item(1.0, 7300.0, false, 1.0)];
        let currency = "$".to_owned();
        scenario.prices = Some(Prices { currency, lifetime: 7300.0, items, kwh: 0.0 });
        let report = summarise(&scenario, &[fixture::outcome([0.05, 0.05])], 0.0);
        let cost = report.cost.as_ref().expect("prices");
        let near = |found: Option<f64>, expected: f64| {
            assert!(
                (found.expect("a cost") / expected - 1.0).abs() < 1e-12,
                "{found:?} {expected}"
            );
        };
        near(cost.hour.mean, 8.2);
        near(cost.month.mean, 8.2 * 730.0);
        near(cost.run.mean, 8.2 * report.makespan.mean.expect("steps") / 3600.0);
        assert_eq!(cost.bought, 7300.0);
        let job = &report.jobs[0];
        let own = job.cost.as_ref().expect("prices");
        let nodes = f64::from(scenario.jobs[0].nodes);
        let all: f64 = scenario.jobs.iter().map(|job| f64::from(job.nodes * job.copies)).sum();
        near(Some(own.share), nodes / all);
        let epoch = job.figures.epoch_time.mean.expect("an epoch");
        near(own.epoch.mean, 8.2 * own.share * epoch / 3600.0);
        assert!(cost_line(cost, &report.jobs).starts_with("Costs: $8.20 an hour, $5,986 a month"));
        scenario.prices = None;
        assert_eq!(summarise(&scenario, &[fixture::outcome([0.05, 0.05])], 0.0).cost, None);
    }

    #[test]
    fn amounts_have_their_currency_where_it_is_usually_written() {
        let written = [(1234.0, "$"), (0.5, "€"), (2.0, "EUR"), (45.67, "$"), (1.5e6, "CHF")];
        let written = written.map(|(amount, currency)| money(amount, currency));
        assert_eq!(written, ["$1,234", "€0.5", "2.00 EUR", "$45.7", "1.5 M CHF"]);
    }
}
