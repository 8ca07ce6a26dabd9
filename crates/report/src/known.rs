//! Decides whether a run was long enough and, if the scenario does not set the length of the run, when the run may end.

use super::figures::{JobReport, LengthReport};
use super::format::{count, number, seconds, share};
use super::measured::{Measured, Rule, TOLERATED, flows, ranks_may_diverge};
use super::periods::{self, Period, Recurring, Seen};
use super::sample::{Nature, Ratio, Sample, Stretch};
use super::warnings::nature;
use super::window::{Window, durations, first_epoch};
use super::{Figure, JobOutcome};
use forebay_engine::stats::mean;
use forebay_scenario::{Device, FailureTimes, Job, Scenario, Stop, WarmUp};
use std::ops::Range;

/// Stopping rule of a run whose length the scenario does not set: decides whether the throughput is known well enough.
#[derive(Debug, Clone)]
pub struct Known {
    precision: f64,
    most: u64,
    jobs: Vec<(Rule, Nature)>,
}

impl Known {
    /// Returns the stopping rule of a scenario; `None` if the scenario sets the length of its run.
    #[must_use]
    pub fn for_scenario(scenario: &Scenario) -> Option<Known> {
        let Stop::Known { precision, most } = scenario.run.stop else { return None };
        let job = |(index, job)| (Rule::of_job(scenario, index), nature(scenario, job));
        let jobs = scenario.jobs.iter().enumerate().map(job).collect();
        Some(Known { precision, most, jobs })
    }

    /// Returns the rule for a run that begins with warm caches, so that its first epoch counts.
    #[must_use]
    pub fn with_warm_caches(mut self) -> Known {
        self.jobs.iter_mut().for_each(|(rule, _)| rule.caches = false);
        self
    }

    /// Returns the number of events after which the run ends at the latest.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Returns the factor by which the run must grow until the throughput of job number `job` is known well enough; 1 if it is.
    /// `copies` are all job copies as far as they got.
    ///
    /// The throughput is known if as many samples go into the buffers as come out, also for jobs that share a storage or nodes; if the
    /// measured steps hold enough of each of the job's periods that the longest possible run holds; and if its 95 % interval is
    /// narrow enough. `None` if the run is too short to estimate the factor. If nodes cache what they read, the first epoch does not
    /// count, unless it is longer than the longest possible run.
    #[must_use]
    pub fn times_as_long(&self, job: usize, copies: &[JobOutcome]) -> Option<f64> {
        let (rule, nature) = &self.jobs[job];
        let others = rule.other_copies(copies);
        let own = copies.iter().filter(|copy| copy.job == job);
        let measured: Vec<(&JobOutcome, Measured)> =
            own.map(|copy| (copy, Measured::new(copy, rule, f64::INFINITY, &others))).collect();
        let is_shown = |(copy, of): &(&JobOutcome, Measured)| {
            of.steps.len() >= super::warnings::FEWEST_STEPS
                && of.level
                && (!of.cold || self.reach(copy, of) < first_epoch_steps(copy, rule, of))
                && of.others_balanced
                && flows(copy, of.steps.clone()).1 >= 2.0 * rule.to_replace(copy, &of.steps)
        };
        if !measured.iter().all(is_shown) || !is_balanced(&[&measured], self.precision, rule.loose)
        {
            return None;
        }
        let grown = |(copy, of): &(&JobOutcome, Measured)| {
            let needed = periods::needed(copy, &rule.periods, &of.steps, self.reach(copy, of));
            needed / copy.steps.len() as f64
        };
        let grown = measured.iter().map(grown).fold(1.0, f64::max);
        let stretches = measured.iter().map(|(copy, of)| Stretch::measured(copy, of)).collect();
        let rate =
            Sample::new(&[stretches], *nature).ratio(Ratio::Rate, |w| Some((w.samples, w.elapsed)));
        // Half-widths fall with the square root of a run's length.
        Some((half_width(&rate)? / self.precision).powi(2).max(grown))
    }

    /// Estimates how many steps a copy makes in a run of `run.most` events, from the events per step in the measured steps.
    fn reach(&self, copy: &JobOutcome, of: &Measured) -> f64 {
        let events = |end: usize| end.checked_sub(1).map_or(0, |i| copy.steps[i].events) as f64;
        let (so_far, from) = (copy.steps.len(), of.steps.start);
        let each = (events(so_far) - events(from)) / (so_far - from) as f64;
        so_far as f64 + (self.most as f64 - events(so_far)) / each
    }
}

/// Returns the number of steps of a copy's first epoch, at the rate of the measured steps if it has not ended.
fn first_epoch_steps(copy: &JobOutcome, rule: &Rule, of: &Measured) -> f64 {
    let fresh: u64 = copy.steps[of.steps.clone()].iter().map(|step| step.fresh).sum();
    rule.dataset as f64 * of.steps.len() as f64 / fresh as f64
}

/// Writes a precision in per cent: `0.5 %`.
fn percent(precision: f64) -> String {
    format!("{} %", number(100.0 * precision))
}

/// Minimum number of failures for their mean cost to count as reliable.
const FEWEST_FAILURES: u64 = 10;

/// Returns a remark for each job whose nodes fail too seldom for a run that ends when its result is known: the events of the run,
/// at least one for each step of each model copy, are over before the failures that make an average have happened.
pub(super) fn failures_out_of_reach(scenario: &Scenario) -> Vec<String> {
    let Stop::Known { most, .. } = scenario.run.stop else { return Vec::new() };
    let remark = |job: &Job| {
        let needed = failing_time(job, mtbf(job)?);
        let steps = needed / job.step.seconds(job.batch as f64);
        (job.stop.is_none() && steps * f64::from(job.ranks()) > most as f64).then(|| {
            format!(
                "Nodes of `{}` fail too seldom for this run, which ends after {} events (`run.most`): fewer than \
                 {FEWEST_FAILURES} failures make no average, and so many take about {}. Let a step stand for many (a longer \
                 `model.step`), or write a `run.duration` well above that.",
                job.name,
                count(most as f64),
                seconds(needed)
            )
        })
    };
    scenario.jobs.iter().filter_map(remark).collect()
}

/// Returns the mean time between failures of a job's node, if nodes fail at random [s].
fn mtbf(job: &Job) -> Option<f64> {
    match job.failures.as_ref()?.when {
        FailureTimes::Random { mtbf, .. } => Some(mtbf),
        FailureTimes::At(_) => None,
    }
}

/// Returns the time in which the nodes of one copy of a job fail often enough for an average, if each fails once in `mtbf` [s].
fn failing_time(job: &Job, mtbf: f64) -> f64 {
    FEWEST_FAILURES as f64 * mtbf / f64::from(job.nodes)
}

/// Returns the number of failures of a job, all copies and replications together.
fn failures(copies: &[Vec<(&JobOutcome, Measured)>]) -> u64 {
    let of =
        |(copy, _): &(&JobOutcome, Measured)| copy.recovery.as_ref().map_or(0, |of| of.failures);
    copies.iter().flatten().map(of).sum()
}

/// Returns the half-width of a figure's interval, relative to the mean; `None` if the figure has no mean or no interval.
fn half_width(figure: &Figure) -> Option<f64> {
    let Figure { mean: Some(mean), ci95: Some([low, high]), .. } = figure else { return None };
    Some((high - low) / 2.0 / mean)
}

/// Whether a figure has an interval whose half-width, relative to the mean, is at most `precision`.
fn is_narrow(figure: &Figure, precision: f64) -> bool {
    half_width(figure).is_some_and(|half| half <= precision)
}

/// Whether as many samples go into the buffers of all copies as come out, within `precision`.
fn is_balanced(copies: &[&[(&JobOutcome, Measured)]], precision: f64, loose: bool) -> bool {
    let each = copies.iter().flat_map(|copies| copies.iter());
    let (read, taken) = each.fold((0.0, 0.0), |(read, taken), (copy, measured)| {
        let (more_read, more_taken) = flows(copy, measured.steps.clone());
        (read + more_read, taken + more_taken)
    });
    loose || (read - taken).abs() <= precision * taken
}

/// Share of the time below which a job's waits for input are negligible.
const LITTLE_INPUT: f64 = 0.005;

/// Returns a sentence if the measured steps took fewer than twice the samples that the loaders hold in workers and buffers at
/// the end; otherwise `None`. In such a short run, the loaders are still filling or draining, and the long-run rate is not
/// known. If `little`, the job hardly waits for input, and only samples of large requests count: while they last, workers do not
/// read.
fn unreplaced(
    copies: &[Vec<(&JobOutcome, Measured)>],
    rule: &Rule,
    little: bool,
) -> Option<String> {
    let each = copies.iter().flatten().map(|(copy, measured)| {
        let (read, taken) = flows(copy, 0..copy.steps.len());
        let buffered = if little { 0.0 } else { read - taken };
        (buffered + rule.to_replace(copy, &measured.steps), flows(copy, measured.steps.clone()).1)
    });
    let (held, taken) = each.fold((0.0, 0.0), |(a, b), (held, taken)| (a + held, b + taken));
    (taken < 2.0 * held).then(|| {
        format!(
            "its loaders hold {} samples, and the measured steps took {}, not twice as many: run longer",
            count(held),
            count(taken)
        )
    })
}

/// Whether a job's steps take as long whatever its loaders and other jobs do meanwhile: its accelerators wait for nothing, and
/// compute by themselves.
fn is_undisturbed(job: &Job, behind: &Sample) -> bool {
    let waits = |w: &Window| w.stalls.iter().map(|(_, seconds)| seconds).sum::<f64>();
    let share = behind.ratio(Ratio::Waiting, |w| Some((waits(w), w.elapsed)));
    job.device == Device::Accelerator && share.mean.is_some_and(|waits| waits < LITTLE_INPUT)
}

/// Returns whether the measured steps of a job's copies, given by replication, are enough, and if not, why.
pub(super) fn length(
    copies: &[Vec<(&JobOutcome, Measured)>],
    (job, rule): (&Job, &Rule),
    behind: &Sample,
) -> LengthReport {
    let all = || copies.iter().flatten();
    if all().next().is_none() || behind.is_empty() {
        return LengthReport::default();
    }
    let waits = behind.ratio(Ratio::Waiting, |w| Some((w.waited_for_input(), w.elapsed)));
    let little = waits.mean.is_some_and(|waits| waits < LITTLE_INPUT);
    let unreplaced = if ranks_may_diverge(job) { None } else { unreplaced(copies, rule, little) };
    let no_interval = unreplaced.clone().or_else(|| {
        behind.lacks_batches().then(|| {
            "its steps give fewer than ten independent batches: run longer, or write `run.replications = 5`"
                .to_owned()
        })
    });
    let unseen = unseen(copies, rule);
    let cold = cold(copies, rule).filter(|_| !little);
    let known = matches!(rule.run.stop, Stop::Known { .. });
    let found = LengthReport {
        no_interval,
        unseen: cold
            .iter()
            .filter(|_| !known)
            .chain(unseen.iter().map(|of| &of.says))
            .cloned()
            .collect(),
        ..LengthReport::default()
    };
    let lost: Vec<f64> = all().filter_map(|(_, measured)| measured.lost).collect();
    let most = 2 * lost.len() > all().count();
    if let Some(part) = mean(&lost).filter(|part| most && *part > 0.0) {
        return drained(copies, part, behind, found);
    }
    if let Some(part) =
        mean(&lost).filter(|part| most && *part < 0.0 && !is_undisturbed(job, behind))
    {
        let why = format!(
            "its buffers filled: {} of what its loaders read in the measured steps stayed there, and the long run differs once \
             they are full",
            share(part / (part - 1.0))
        );
        return LengthReport { filled: true, why: Some(why), ..found };
    }
    let missing = cold
        .filter(|_| known)
        .or_else(|| missing(copies, (job, rule), behind))
        .or(unreplaced)
        .or_else(|| unseen.into_iter().find(|of| of.is_due).map(|of| of.says))
        .or_else(|| {
            let why = match rule.run.warm_up {
                WarmUp::Steps(_) => {
                    "its warm-up is more than half of the run: run longer, or write a shorter `run.warm_up`"
                }
                WarmUp::Auto | WarmUp::Off => {
                    "its step times were not steady by the middle of the run: run longer, or write `run.warm_up`"
                }
            };
            all().any(|(_, measured)| !measured.level).then(|| why.to_owned())
        });
    LengthReport { enough: missing.is_none(), why: missing, ..found }
}

/// Corrects the reports on jobs that are measured long enough, but beside another job that is not and uses the same storage or nodes.
pub(super) fn correct_for_others(scenario: &Scenario, jobs: &mut [JobReport]) {
    let enough: Vec<bool> = jobs.iter().map(|job| job.length.enough).collect();
    for (index, job) in jobs.iter_mut().enumerate().filter(|(index, _)| enough[*index]) {
        let accelerated = scenario.jobs[index].device == Device::Accelerator;
        let waits = job.figures.stall.total.mean.is_none_or(|waits| waits >= LITTLE_INPUT);
        let others = Rule::of_job(scenario, index).others;
        let Some(other) = others.into_iter().map(|(other, _)| other).find(|other| !enough[*other])
        else {
            continue;
        };
        if waits || !accelerated {
            job.length.enough = false;
            job.length.why = Some(format!(
                "`{}`, which uses the same storage or nodes, is not measured long enough",
                scenario.jobs[other].name
            ));
        }
    }
}

/// Returns the report on a job whose buffers lost this part of the samples taken.
fn drained(
    copies: &[Vec<(&JobOutcome, Measured)>],
    part: f64,
    behind: &Sample,
    found: LengthReport,
) -> LengthReport {
    // Until their content has been replaced twice, loaders still fill or drain, so the steps do not show the long-run rate.
    let turned = copies.iter().flatten().all(|(copy, measured)| {
        let ((read, before), (_, taken)) =
            (flows(copy, 0..measured.steps.start), flows(copy, measured.steps.clone()));
        taken >= 2.0 * (read - before)
    });
    let rate = behind.ratio(Ratio::Rate, |w| Some((w.samples, w.elapsed))).mean.unwrap_or(0.0);
    let why = format!(
        "its buffers drained, and {} of what it trained on had been read before the measured steps",
        share(part)
    );
    LengthReport {
        drained: true,
        why: Some(why),
        long_run_samples_per_second: turned.then_some(rate * (1.0 - part)),
        ..found
    }
}

/// Returns why the measured steps do not show the long run, apart from the job's own buffers and periods; `None` if they do.
fn missing(
    copies: &[Vec<(&JobOutcome, Measured)>],
    (job, rule): (&Job, &Rule),
    behind: &Sample,
) -> Option<String> {
    let all = || copies.iter().flatten();
    let failed = failures(copies);
    match rule.run.stop {
        _ if !is_undisturbed(job, behind) && all().any(|(_, measured)| !measured.others_balanced) => {
            Some(
                "the buffers of another job that uses the same storage or nodes filled or drained meanwhile: run longer"
                    .to_owned(),
            )
        }
        Stop::Known { .. } if mtbf(job).is_some() && (1..FEWEST_FAILURES).contains(&failed) => {
            let needed = failing_time(job, mtbf(job).unwrap_or(0.0)) / all().count() as f64;
            Some(format!(
                "its nodes failed {failed} times, and fewer than {FEWEST_FAILURES} failures make no average: so many take about {}; write \
                 a `run.duration` well above that, or a larger `run.most`",
                seconds(needed)
            ))
        }
        Stop::Known { precision, .. }
            if !is_narrow(&behind.ratio(Ratio::Rate, |w| Some((w.samples, w.elapsed))), precision) =>
        {
            Some(format!(
                "its throughput was not known to {} when `run.most` events were over: raise `run.most` or `run.precision`",
                percent(precision)
            ))
        }
        _ => None,
    }
}

/// Whether caches are cold in the measured steps of a copy, or in some of them that take longer or shorter than others.
fn is_cold((copy, measured): &(&JobOutcome, Measured), rule: &Rule) -> bool {
    let first = first_epoch(copy, rule.dataset).min(measured.steps.end);
    let time = |steps: Range<usize>| mean(durations(copy).get(steps).unwrap_or_default());
    let times = (time(measured.steps.start.min(first)..first), time(first..measured.steps.end));
    let differ = match times {
        (Some(before), Some(after)) => (before / after - 1.0).abs() > TOLERATED,
        _ => true,
    };
    measured.cold && differ
}

/// Says that caches are cold in measured steps; `None` if they are warm, or it makes no difference. A job that does not wait for
/// input does not wait for caches either, which is left to the caller.
fn cold(copies: &[Vec<(&JobOutcome, Measured)>], rule: &Rule) -> Option<String> {
    let cold = || copies.iter().flatten().filter(|of| is_cold(of, rule));
    let within = |(copy, measured): &(&JobOutcome, Measured)| {
        first_epoch(copy, rule.dataset) < measured.steps.end
    };
    cold().next().map(|_| match cold().any(within) {
        true => {
            "its first epoch, in which the page cache and other caches are cold, is among the measured steps".to_owned()
        }
        false => "no copy has read its data set once: the page cache and other caches are cold in these steps, and later epochs \
                  will find some of it there"
            .to_owned(),
    })
}

/// A period that the measured steps do not hold.
struct Unseen {
    says: String,
    /// Whether the run is too short because of that.
    is_due: bool,
}

/// Returns the periods of which the measured steps of some copy hold no whole one.
fn unseen(copies: &[Vec<(&JobOutcome, Measured)>], rule: &Rule) -> Vec<Unseen> {
    let of = |period: &Period| {
        let each = copies.iter().flatten().filter(|(_, measured)| !measured.steps.is_empty());
        let seen = |of: &&(&JobOutcome, Measured)| period.seen(of.0, &of.1.steps);
        let (copy, measured) = each.clone().find(|of| seen(of) != Seen::Whole)?;
        let partly =
            period.what != Recurring::Failure && seen(&&(*copy, measured.clone())) == Seen::Partly;
        let is_due = match rule.run.stop {
            Stop::Known { .. } => partly,
            Stop::Steps(_) | Stop::Epochs(_) | Stop::Duration(_) => {
                (partly && period.cost > TOLERATED)
                    || period.is_due(copy, &measured.steps, TOLERATED)
            }
        };
        Some(Unseen { says: period.unseen(copy, &measured.steps), is_due })
    };
    rule.periods.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::scenario;
    use forebay_scenario::{FailedNode, Failures, Resume};

    #[test]
    fn failures_that_are_rarer_than_a_run_is_long_are_remarked() {
        // System: steps of 20 ms on one node, at most a million events. Ten failures, one in `mtbf`, take 500 steps for each
        // second of `mtbf`. Expectation: a remark from 2,000 s on, unless the scenario sets the length of the run.
        let remarks = |mtbf, stop| {
            let mut scenario = scenario();
            let when = FailureTimes::Random { mtbf, shape: 1.0 };
            let resume = Resume::Position;
            let (node, nodes) = (FailedNode::Replaced, Vec::new());
            let failures = Failures { when, restart: 60.0, reads_back: false, node, nodes, resume };
            scenario.jobs[0].failures = Some(failures);
            scenario.run.stop = stop;
            failures_out_of_reach(&scenario)
        };
        let known = Stop::Known { precision: 0.005, most: 1_000_000 };
        assert_eq!(remarks(1_900.0, known).len(), 0);
        let found = remarks(2_100.0, known).concat();
        assert!(found.starts_with("Nodes of `lenet` fail too seldom"), "{found}");
        assert!(found.contains("ends after 1 M events"), "{found}");
        assert!(found.contains("take about 5 h 50 min"), "{found}");
        assert_eq!(remarks(2_100.0, Stop::Duration(3_600.0)).len(), 0);
    }
}
