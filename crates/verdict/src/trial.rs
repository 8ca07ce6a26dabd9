//! A trial: the scenario with a lever's changes, simulated with the same random numbers and compared with the base run over the same
//! steps of the job.

use forebay_engine::stats::{mean, t_interval};
use forebay_report::{JobReport, OtherJob, Outcome, Report};
use forebay_scenario::{Override, Scenario};
use std::ops::Range;

use super::base::{Base, Extent, steps_of};
use super::numbers::{FINE, GROUPS, LEAST, MOST_LONGER, ROUGH, WORTH};

/// What a trial shows.
#[derive(Debug, Clone)]
pub(crate) struct Effect {
    /// Step time with the changes [s].
    pub(crate) after: f64,
    /// Its 95 % interval [s].
    pub(crate) after_interval: [f64; 2],
    /// Share of the step time that the changes save.
    pub(crate) gain: f64,
    /// Its 95 % interval.
    pub(crate) gain_interval: [f64; 2],
    /// Effects on other jobs.
    pub(crate) others: Vec<OtherJob>,
    /// Events of the trial.
    pub(crate) events: u64,
}

impl Effect {
    /// Returns the half-width of the step time's interval, relative to the step time.
    pub(crate) fn half_width(&self) -> f64 {
        let [low, high] = self.after_interval;
        (high - low) / 2.0 / self.after
    }
}

impl Base<'_> {
    /// Tries changes; `None` if the scenario is refused with them, or makes too few steps to compare.
    pub(crate) fn try_changes(&self, changes: &[Override], extent: Extent) -> Option<Effect> {
        let scenario = self.scenario_with(changes)?;
        let outcomes = self.run(&scenario, extent);
        self.effect(&scenario, &outcomes)
    }

    /// Lets a trial go on until its step time is known: a job that waits less, or in bursts, may vary more than it does in the base run.
    pub(crate) fn made_certain(
        &self,
        first: Effect,
        changes: &[Override],
        extent: Extent,
        most_events: u64,
    ) -> Effect {
        let most_events = most_events.min(MOST_LONGER * self.events());
        let (mut effect, mut steps) = (first, extent.steps);
        while effect.half_width() > 2.0 * FINE && 2 * effect.events < most_events {
            // Half-widths fall with the square root of a run's length.
            let times = (effect.half_width() / FINE).powi(2).clamp(2.0, MOST_LONGER as f64);
            let times = times.min(most_events as f64 / effect.events as f64);
            steps = (steps as f64 * times) as usize;
            let Some(longer) = self.try_changes(changes, Extent { steps, ..extent }) else { break };
            effect = Effect { events: effect.events + longer.events, ..longer };
        }
        effect
    }

    /// Returns what runs of a scenario show beside the base run; `None` if they are too short to show anything.
    fn effect(&self, scenario: &Scenario, outcomes: &[Outcome]) -> Option<Effect> {
        let report = self.report_of(scenario, outcomes);
        let shown = &report.jobs[self.job];
        let (after, after_interval) = long_run(shown)?;
        // Runs that are compared step by step tell small differences; longer ones those that come seldom.
        let both = self.gain(shown, outcomes).into_iter().chain(self.unpaired(shown));
        let [gain, half] = both.min_by(|a, b| a[1].total_cmp(&b[1]))?;
        Some(Effect {
            after,
            after_interval,
            gain,
            gain_interval: [gain - half, gain + half],
            others: self.others(&report, outcomes),
            events: outcomes.iter().map(Outcome::events_of_all_steps).sum(),
        })
    }

    /// Returns the share of a step's time that the runs save over the same steps as in the base run, and the half-width of its interval;
    /// `None` if there are no such steps.
    fn gain(&self, shown: &JobReport, outcomes: &[Outcome]) -> Option<[f64; 2]> {
        let warm_up = shown.warm_up_steps.ceil() as usize;
        let from = self.measured.start.max(warm_up);
        let range = from..self.measured.end.min(steps_of(outcomes, self.job));
        if range.len() < GROUPS {
            return None;
        }
        let pairs = paired(&self.outcomes[..outcomes.len()], outcomes, self.job, range);
        let before = mean(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>())?;
        let then = mean(&pairs.iter().map(|pair| pair.1).collect::<Vec<_>>())?;
        let saved: Vec<f64> = pairs.iter().map(|(before, after)| before - after).collect();
        let [low, high] = t_interval(&saved).filter(|_| saved.len() > 2)?;
        // Where buffers drain in the trial, it saves less in the long run.
        let lasting = then * long_run(shown)?.0 / shown.figures.step_time.mean?;
        Some([1.0 - lasting / before, (high - low) / 2.0 / before])
    }

    /// Returns the same from the step times of the whole runs.
    fn unpaired(&self, shown: &JobReport) -> Option<[f64; 2]> {
        let ((before, of_before), (after, of_after)) = (long_run(self.shown())?, long_run(shown)?);
        let half = |[low, high]: [f64; 2]| (high - low) / 2.0;
        Some([1.0 - after / before, half(of_before).hypot(half(of_after)) / before])
    }

    /// Returns the effects on other jobs, as far as they are certain.
    fn others(&self, report: &Report, outcomes: &[Outcome]) -> Vec<OtherJob> {
        let base = &self.outcomes[..outcomes.len()];
        let of = |other: usize| {
            let steps = steps_of(base, other).min(steps_of(outcomes, other));
            let from = (self.report.jobs[other].warm_up_steps.ceil() as usize)
                .max(report.jobs[other].warm_up_steps.ceil() as usize);
            let pairs = paired(base, outcomes, other, from.min(steps)..steps);
            let before = mean(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>())?;
            let after = mean(&pairs.iter().map(|pair| pair.1).collect::<Vec<_>>())?;
            let saved: Vec<f64> = pairs.iter().map(|(before, after)| before - after).collect();
            let [low, high] = t_interval(&saved).filter(|_| saved.len() > 2)?;
            let (gain, half) = (1.0 - after / before, (high - low) / 2.0 / before);
            let gain_interval = [gain - half, gain + half];
            let is_sure = gain_interval[0] > WORTH || gain_interval[1] < -WORTH;
            is_sure.then(|| OtherJob {
                job: report.jobs[other].name.clone(),
                before,
                after,
                gain,
                gain_interval,
            })
        };
        (0..report.jobs.len()).filter(|other| *other != self.job).filter_map(of).collect()
    }
}

/// Returns a job's step time in the long run and its interval, as its report shows them; `None` if the report has no step.
pub(crate) fn long_run(shown: &JobReport) -> Option<(f64, [f64; 2])> {
    let step = shown.figures.step_time.mean?;
    let slower =
        match (shown.length.long_run_samples_per_second, shown.figures.samples_per_second.mean) {
            // Buffers drained: in the long run, steps are as fast as samples come.
            (Some(lasting), Some(rate)) if lasting > 0.0 => (rate / lasting).max(1.0),
            _ => 1.0,
        };
    let after = step * slower;
    let half = match shown.figures.step_time.ci95 {
        Some([low, high]) => ((high - low) / 2.0 * slower).max(LEAST * after),
        None => ROUGH * after,
    };
    Some((after, [(after - half).max(0.0), after + half]))
}

/// Returns the share of time that a job waits for input, and the half-width of its 95 % interval.
pub(crate) fn input_waits(report: &Report, job: usize) -> [f64; 2] {
    let stall = &report.jobs[job].figures.stall;
    let input = stall.causes.iter().filter(|(of, _)| of.cause.is_input());
    let waits: f64 = input.filter_map(|(_, share)| share.mean).sum();
    // Without an interval the half-width is as large as the waits themselves.
    let half = |[low, high]: [f64; 2]| (high - low) / 2.0;
    let part = stall.total.ci95.zip(stall.total.mean).map(|(ci, total)| half(ci) / total);
    [waits, if waits > 0.0 { waits * part.unwrap_or(1.0) } else { 0.0 }]
}

/// Returns the mean step times of groups of consecutive steps, in the base run and in the trial.
fn paired(base: &[Outcome], then: &[Outcome], job: usize, range: Range<usize>) -> Vec<(f64, f64)> {
    if range.is_empty() {
        return Vec::new();
    }
    let number = (GROUPS / base.len().max(1)).max(1).min(range.len());
    let length = range.len() / number;
    let groups = (0..number)
        .map(|i| range.end - (number - i) * length..range.end - (number - 1 - i) * length);
    let groups: Vec<Range<usize>> = groups.collect();
    let each = base.iter().zip(then).flat_map(|(base, then)| {
        groups.iter().filter_map(move |group| {
            Some((mean_step(base, job, group)?, mean_step(then, job, group)?))
        })
    });
    each.collect()
}

/// Returns the mean step time over a range of steps, and over the copies of a job [s].
fn mean_step(outcome: &Outcome, job: usize, range: &Range<usize>) -> Option<f64> {
    let one = |copy: &forebay_report::JobOutcome| {
        let last = copy.steps.get(range.end - 1)?.end;
        let before = match range.start {
            0 => copy.start,
            start => copy.steps.get(start - 1)?.end,
        };
        Some((last - before) / range.len() as f64)
    };
    let copies = outcome.jobs.iter().filter(|copy| copy.job == job);
    let each: Option<Vec<f64>> = copies.map(one).collect();
    mean(&each?)
}
