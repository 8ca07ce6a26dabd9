//! Lets the promises of a verdict carry the uncertainty of a profile: the changes that help are simulated again on machines whose
//! parameters are drawn from what the profile's measurements allow.

use forebay_engine::stats::{mean, sd, student_975};
use forebay_scenario::profile::Profile;
use forebay_scenario::{Override, Reading};
use rayon::prelude::*;

use super::base::{Base, Budget, Extent};
use super::lever::Source;
use super::search::Found;
use super::trial::{Effect, long_run};

/// 97.5th percentile of the standard normal distribution.
const NORMAL_975: f64 = 1.959_964;

impl Base<'_> {
    /// Widens the intervals of the changes in `found` that help by what differs between machines that the measurements allow, the most
    /// promising first, as far as the events that are left go.
    pub(crate) fn widen_by_machines(&self, found: &mut Found, budget: &mut Budget) {
        let machines = self.options.machines;
        let each = machines.drawn.len() as u64 * self.events();
        if machines.drawn.len() < 2 || budget.left() < 2 * each {
            return;
        }
        let before = self.steps_on_machines(&[], budget);
        for tried in found.tried.iter_mut().filter(|tried| tried.helps()) {
            if budget.left() < each {
                return;
            }
            let after = self.steps_on_machines(&tried.lever.changes, budget);
            widen(&mut tried.effect, (&before, &after), machines.spread);
        }
    }

    /// Returns the step time with these changes on each machine [s]; `None` on one where the scenario is refused or the run is too
    /// short.
    fn steps_on_machines(&self, changes: &[Override], budget: &mut Budget) -> Vec<Option<f64>> {
        let most_events = self.events();
        let extent = Extent { steps: self.measured.end, replications: 1, most_events };
        let one = |profile: &Profile| {
            let reading = Reading { profile: Some(profile), ..self.source.reading };
            let scenario = self.scenario_from(Source { reading, ..self.source }, changes)?;
            let outcomes = self.run(&scenario, extent);
            let report = self.report_of(&scenario, &outcomes);
            let (step, _) = long_run(&report.jobs[self.job])?;
            Some((step, outcomes.iter().map(|of| of.events_of_all_steps()).sum::<u64>()))
        };
        let found: Vec<_> = self.options.machines.drawn.par_iter().map(one).collect();
        budget.spent += found.iter().flatten().map(|(_, events)| events).sum::<u64>();
        found.into_iter().map(|found| found.map(|(step, _)| step)).collect()
    }
}

/// Widens the interval of the step time and that of the gain by their spread over the drawn machines; the interval of the step time also
/// by `spread`, the spread of runs on one machine.
fn widen(effect: &mut Effect, (before, after): (&[Option<f64>], &[Option<f64>]), spread: f64) {
    let both = before.iter().zip(after).filter_map(|(before, after)| Some(((*before)?, (*after)?)));
    let both: Vec<(f64, f64)> = both.collect();
    let after: Vec<f64> = both.iter().map(|(_, after)| *after).collect();
    let gains: Vec<f64> = both.iter().map(|(before, after)| 1.0 - after / before).collect();
    let student = student_975(both.len() as f64 - 1.0).unwrap_or(NORMAL_975);
    let (Some(step), Some(of_step), Some(of_gain)) = (mean(&after), sd(&after), sd(&gains)) else {
        return;
    };
    let half = |[low, high]: [f64; 2]| (high - low) / 2.0;
    let by = (half(effect.after_interval) / effect.after)
        .hypot(student * of_step / step)
        .hypot(NORMAL_975 * spread);
    effect.after_interval = [effect.after / (1.0 + by), effect.after * (1.0 + by)];
    let by = half(effect.gain_interval).hypot(student * of_gain);
    effect.gain_interval = [effect.gain - by, effect.gain + by];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_contain_the_spread_over_machines_and_runs() {
        // System: a change that makes steps of 10 ms to 8 ms, known to 1 %; on four machines, it makes 8 % more or less of it. Expectation:
        // the interval of the step time has the standard deviation over machines (of 9.2 %, times 3.18 for four) and that of runs
        // beside the simulation's own; the gain has its own.
        let effect = || Effect {
            after: 8e-3,
            after_interval: [7.92e-3, 8.08e-3],
            gain: 0.2,
            gain_interval: [0.19, 0.21],
            others: Vec::new(),
            events: 0,
        };
        let after = [7.36e-3, 8.64e-3, 7.36e-3, 8.64e-3].map(Some);
        let before = [Some(1e-2); 4];
        let mut wide = effect();
        widen(&mut wide, (&before, &after), 0.05);
        let sd = 0.08 * (4.0_f64 / 3.0).sqrt();
        let by = 0.01_f64.hypot(3.182_446 * sd).hypot(0.098);
        assert!((wide.after_interval[1] / 8e-3 - 1.0 - by).abs() < 1e-4, "{wide:?}");
        let by = 0.01_f64.hypot(3.182_446 * 0.8 * sd);
        assert!((wide.gain_interval[0] - (0.2 - by)).abs() < 1e-4, "{wide:?}");
        // Machines on which the change is refused say nothing.
        let mut same = effect();
        widen(&mut same, (&before, &[None; 4]), 0.05);
        assert_eq!(same.after_interval, effect().after_interval);
    }
}
