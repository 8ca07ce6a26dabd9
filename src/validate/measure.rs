//! The order in which points are run live, and which points are run again.

use super::point::median_rate;
use super::{Observed, Plan, PlanPoint};
use crate::stats::{mean, sd};
use serde::{Deserialize, Serialize};

/// One live run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveRun {
    /// Name of the point.
    pub point: String,
    /// Changes to the scenario, `key=value`.
    pub set: Vec<String>,
    /// Number of the attempt, from 0. If the runs of a point differ too much, all of them are made again in a new attempt.
    pub attempt: u32,
    /// Measured figures.
    pub observed: Observed,
}

/// The live runs of a point.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Runs {
    /// Runs of the last attempt, in the order in which they were made.
    pub last: Vec<Observed>,
    /// Median of each earlier attempt [samples/s].
    pub before: Vec<f64>,
}

impl Runs {
    /// Returns the median samples per second of an attempt. If the point had fewer attempts, returns the median of its last one.
    #[must_use]
    pub fn rate(&self, attempt: usize) -> Option<f64> {
        self.before.get(attempt).copied().or_else(|| median_rate(&self.last))
    }
}

/// Runs every point as often as the plan says: all points once, then all of them again, each time in another order, so that
/// slow changes of the machine affect all points equally. Points whose runs differ by more than the noise floor are run again
/// in a new attempt. `known` are runs that were made earlier. Returns the runs of each point, in the order of the plan.
///
/// # Errors
/// Returns the first error of `live`. The runs before the error are lost unless `live` has stored them.
pub fn measure<E>(
    plan: &Plan,
    known: &[LiveRun],
    mut live: impl FnMut(&PlanPoint, u32) -> Result<LiveRun, E>,
) -> Result<Vec<Runs>, E> {
    let mut runs = vec![Runs::default(); plan.points.len()];
    let mut noisy: Vec<usize> = (0..plan.points.len()).collect();
    for attempt in 0..=plan.retries {
        for &index in &noisy {
            let Runs { last, before } = &mut runs[index];
            before.extend(median_rate(last));
            last.clear();
        }
        for round in 0..plan.repetitions {
            for index in order(&noisy, attempt, round) {
                let point = &plan.points[index];
                let same = |run: &&LiveRun| {
                    run.point == point.name && run.set == point.set && run.attempt == attempt
                };
                let run = match known.iter().filter(same).nth(round as usize) {
                    Some(run) => run.clone(),
                    None => live(point, attempt)?,
                };
                runs[index].last.push(run.observed);
            }
        }
        noisy.retain(|&i| {
            noise(&rates(&runs[i].last)).is_some_and(|noise| noise > plan.noise_floor)
        });
    }
    Ok(runs)
}

/// Returns the points for which [`measure`] has to make live runs in the first attempt, because `known` has too few.
pub fn lacking<'p>(plan: &'p Plan, known: &'p [LiveRun]) -> impl Iterator<Item = &'p PlanPoint> {
    plan.points.iter().filter(|point| {
        let same =
            |run: &&LiveRun| run.point == point.name && run.set == point.set && run.attempt == 0;
        known.iter().filter(same).count() < plan.repetitions as usize
    })
}

/// Returns the minimum number of live runs that [`measure`] needs, without retries.
#[must_use]
pub fn least_runs(plan: &Plan) -> u64 {
    u64::from(plan.repetitions) * plan.points.len() as u64
}

/// Returns the samples per second of each run.
pub(super) fn rates(runs: &[Observed]) -> Vec<f64> {
    runs.iter().map(|run| run.samples_per_second).collect()
}

/// Returns the relative standard deviation of rates; `None` for fewer than two.
pub(super) fn noise(rates: &[f64]) -> Option<f64> {
    Some(sd(rates)? / mean(rates)?)
}

/// Returns the points in an order that differs from round to round, so that neighbours change: steps through the list by a number
/// that is coprime to the number of points.
fn order(points: &[usize], attempt: u32, round: u32) -> Vec<usize> {
    let n = points.len();
    let common = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let coprime: Vec<usize> = (1..n.max(2)).filter(|&step| common(step, n) == 1).collect();
    let turn = (attempt * 7 + round) as usize;
    let step = coprime[(turn * 5 + 3) % coprime.len()];
    (0..n).map(|i| points[(turn + i * step) % n]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::path::Path;

    fn plan(points: usize) -> Plan {
        let points = (0..points).map(|i| {
            format!(
                "[[point]]\nname = \"p{i}\"\nuse = \"held-out\"\nset.\"job.batch\" = {}\n",
                i + 1
            )
        });
        let text = format!("scenario = \"s.toml\"\n{}", points.collect::<String>());
        Plan::parse(Path::new("p.toml"), &text).expect("a plan")
    }

    fn run(point: &PlanPoint, attempt: u32, rate: f64) -> LiveRun {
        let observed = Observed { samples_per_second: rate, ..Observed::default() };
        LiveRun { point: point.name.clone(), set: point.set.clone(), attempt, observed }
    }

    #[test]
    fn each_validation_round_measures_every_point_once_in_a_new_order() {
        for n in [1, 2, 7, 24] {
            let all: Vec<usize> = (0..n).collect();
            let orders: Vec<_> = (0..5).map(|round| order(&all, 0, round)).collect();
            for order in &orders {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, all);
            }
            assert!(n < 3 || orders[0] != orders[1]);
        }
    }

    #[test]
    fn only_validation_points_with_noisy_measurements_are_measured_again() {
        let plan = plan(3);
        let made = RefCell::new(Vec::new());
        let live = |point: &PlanPoint, attempt: u32| {
            let mut made = made.borrow_mut();
            made.push((point.name.clone(), attempt));
            // The second point is noisy in its first attempt, the third one always.
            let wild = (point.name == "p1" && attempt == 0) || point.name == "p2";
            let rate = if wild && made.len().is_multiple_of(2) { 150.0 } else { 100.0 };
            Ok::<_, ()>(run(point, attempt, rate))
        };
        let runs = measure(&plan, &[], live).expect("runs");
        let count = |name: &str| made.borrow().iter().filter(|(point, _)| point == name).count();
        assert_eq!((count("p0"), count("p1"), count("p2")), (5, 10, 15));
        assert!(runs.iter().all(|runs| runs.last.len() == 5));
        let noise = |index: usize| noise(&rates(&runs[index].last)).expect("five runs");
        assert!(noise(1) < 0.01 && noise(2) > 0.1);
        assert_eq!(runs.iter().map(|runs| runs.before.len()).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn live_runs_already_measured_are_not_repeated() {
        let plan = plan(2);
        let known: Vec<LiveRun> =
            (0..3).map(|i| run(&plan.points[1], 0, 100.0 + f64::from(i))).collect();
        let mut made = 0;
        let live = |point: &PlanPoint, attempt: u32| {
            made += 1;
            Ok::<_, ()>(run(point, attempt, 100.0))
        };
        let runs = measure(&plan, &known, live).expect("runs");
        assert_eq!(made, 5 + 2);
        assert_eq!(runs[1].last[2].samples_per_second, 102.0);
        let elsewhere = Plan { points: self::plan(1).points, ..plan };
        let fails = |_: &PlanPoint, _: u32| Err("no machine");
        assert_eq!(measure(&elsewhere, &known, fails), Err("no machine"));
    }
}
