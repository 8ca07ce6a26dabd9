//! Prediction of a single run: intervals found from several runs, each with its own sampled parameters.

use super::figures::{Figure, JobReport, Report};
use super::{Outcome, summarise};
use forebay_engine::stats::mean;
use forebay_scenario::Scenario;

/// One simulated run of a prediction, with its own sampled parameters.
pub struct Predicted {
    /// Scenario that was simulated.
    pub scenario: Scenario,
    /// Results of the simulation.
    pub outcome: Outcome,
    /// Factor by which the run's steps take longer than simulated; it represents the variation between equal runs.
    pub slowdown: f64,
}

/// Returns a report on all `runs` of `scenario`; its figures have intervals that hold 90 % of single runs.
///
/// A slowdown lengthens each step of a run by its factor; accelerators wait for the additional time.
pub fn predict(scenario: &Scenario, runs: &[Predicted], wall_time: f64) -> Report {
    let outcomes: Vec<Outcome> = runs.iter().map(|run| run.outcome.clone()).collect();
    let mut report = summarise(scenario, &outcomes, wall_time);
    let single: Vec<(Report, f64)> = runs
        .iter()
        .map(|run| {
            (summarise(&run.scenario, std::slice::from_ref(&run.outcome), 0.0), run.slowdown)
        })
        .collect();
    for (index, job) in report.jobs.iter_mut().enumerate() {
        let over = |of: fn(&JobReport) -> Option<f64>, noisy: fn(f64, f64) -> f64| {
            let one = |(report, slowdown): &(Report, f64)| {
                Some(noisy(of(report.jobs.get(index)?)?, *slowdown))
            };
            interval(single.iter().filter_map(one).collect())
        };
        let set = |figure: &mut Figure, interval| figure.prediction90 = interval;
        let rate = over(|job| job.figures.samples_per_second.mean, |rate, slow| rate / slow);
        let fresh = over(|job| job.figures.fresh_samples_per_second.mean, |rate, slow| rate / slow);
        let step = over(|job| job.figures.step_time.mean, |time, slow| time * slow);
        let stall = over(
            |job| job.figures.stall.total.mean,
            |share, slow| (1.0 - (1.0 - share) / slow).max(0.0),
        );
        set(&mut job.figures.samples_per_second, rate);
        set(&mut job.figures.fresh_samples_per_second, fresh);
        set(&mut job.figures.step_time, step);
        set(&mut job.figures.stall.total, stall);
    }
    // Each run had its own capacities: the report shows their mean.
    for resource in &mut report.resources {
        let of = runs.iter().flat_map(|run| &run.outcome.resources);
        let all: Vec<f64> = of.filter(|r| r.of == resource.of).map(|r| r.capacity).collect();
        resource.capacity = mean(&all).unwrap_or(resource.capacity);
    }
    if runs.len() < FEWEST {
        report.warnings.push(format!(
            "With {} runs an interval cannot hold 90 % of them: ask for {FEWEST} or more.",
            runs.len()
        ));
    }
    report
}

/// Minimum number of runs for which the interval from the smallest to the largest value holds 90 % of single runs.
const FEWEST: usize = 19;

/// Returns the interval in which one more run lies with a probability of 90 %, given the values of n earlier, equal runs:
/// from order statistic number 0.05 (n + 1) to order statistic number 0.95 (n + 1) (Wilks, 1941). If n is below 19, the
/// interval reaches from the smallest to the largest value, and the probability is lower.
fn interval(mut values: Vec<f64>) -> Option<[f64; 2]> {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len().max(1) as f64;
    let at = |share: f64| {
        let place = (share * (n + 1.0)).clamp(1.0, n) - 1.0;
        let (below, above) =
            (values.get(place.floor() as usize)?, values.get(place.ceil() as usize)?);
        Some(below + (above - below) * place.fract())
    };
    Some([at(0.05)?, at(0.95)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn prediction_intervals_end_at_the_right_order_statistics() {
        let values: Vec<f64> = (1..=19).rev().map(f64::from).collect();
        assert_eq!(interval(values), Some([1.0, 19.0]));
        let values: Vec<f64> = (1..=39).map(f64::from).collect();
        assert_eq!(interval(values), Some([2.0, 38.0]));
        assert_eq!(interval(vec![3.0]), Some([3.0, 3.0]));
        assert_eq!(interval(vec![]), None);
    }

    #[test]
    fn prediction_intervals_reach_the_values_of_the_slowest_simulation() {
        // System: equal runs with steps of 0.05 s of which 0.02 s are computed, one of them 10 % slower. Expectation: the
        // intervals reach from the value of the equal runs to that of the slower run.
        let scenario = fixture::scenario();
        let outcome = fixture::outcome([0.05, 0.05]);
        let run =
            |slowdown| Predicted { scenario: scenario.clone(), outcome: outcome.clone(), slowdown };
        let runs: Vec<_> = [1.0, 1.0, 1.1, 1.0].map(run).into();
        let report = predict(&scenario, &runs, 0.0);
        let figures = &report.jobs[0].figures;
        let near = |figure: &Figure, expected: [f64; 2]| {
            let found = figure.prediction90.expect("an interval");
            assert!((found[0] / expected[0] - 1.0).abs() < 1e-9, "{found:?} {expected:?}");
            assert!((found[1] / expected[1] - 1.0).abs() < 1e-9, "{found:?} {expected:?}");
        };
        near(&figures.step_time, [0.05, 0.055]);
        near(&figures.stall.total, [0.6, 1.0 - 0.4 / 1.1]);
        let rate = figures.samples_per_second.mean.expect("a rate");
        near(&figures.samples_per_second, [rate / 1.1, rate]);
        assert_eq!(figures.accelerator_utilisation.prediction90, None);
    }
}
