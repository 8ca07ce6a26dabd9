//! Decides whether a run was long enough and, if the scenario does not set the length of the run, when the run may end.

use super::figures::LengthReport;
use super::format::{count, number, seconds, share};
use super::measured::{Measured, Rule, flows};
use super::sample::{Nature, Ratio, Sample};
use super::warnings::nature;
use super::{Figure, JobOutcome};
use forebay_engine::stats::mean;
use forebay_scenario::{FailureTimes, Job, QueueKind, Run, Scenario, Stop};

/// Stopping rule of a run whose length the scenario does not set: decides whether the throughput is known well enough.
#[derive(Debug, Clone)]
pub struct Known {
    precision: f64,
    most: u64,
    jobs: Vec<KnownJob>,
}

/// Settings of one job that the stopping rule depends on.
#[derive(Debug, Clone)]
struct KnownJob {
    run: Run,
    /// Number of samples in an epoch.
    dataset: u64,
    /// Whether the samples read into the job's queue and those taken out of it may differ in number: see [`Rule::loose`].
    loose: bool,
    /// How the job's steps vary.
    nature: Nature,
}

impl Known {
    /// Returns the stopping rule of a scenario; `None` if the scenario sets the length of its run.
    #[must_use]
    pub fn for_scenario(scenario: &Scenario) -> Option<Known> {
        let Stop::Known { precision, most } = scenario.run.stop else { return None };
        let job = |job: &Job| KnownJob {
            run: run_of(scenario, job),
            dataset: scenario.samples_of_epoch(job),
            loose: ranks_may_diverge(job),
            nature: nature(scenario, job),
        };
        let jobs = scenario.jobs.iter().map(job).collect();
        Some(Known { precision, most, jobs })
    }

    /// Returns the number of events after which the run ends at the latest.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Returns the factor by which the run must grow until a job's throughput is known well enough; 1 if it is. The throughput
    /// is known if as many samples go into the buffers as come out, and its 95 % interval is narrow enough. `None` if the run
    /// is too short to estimate the factor. If nodes cache what they read, the first epoch does not count.
    #[must_use]
    pub fn times_as_long(&self, job: usize, copies: &[JobOutcome]) -> Option<f64> {
        let &KnownJob { ref run, dataset, loose, nature } = &self.jobs[job];
        let rule = Rule { run, dataset, loose };
        let measured: Vec<(&JobOutcome, Measured)> =
            copies.iter().map(|copy| (copy, Measured::new(copy, rule, f64::INFINITY))).collect();
        let warm = |(_, measured): &(_, Measured)| {
            !measured.cold && measured.steps.len() >= super::warnings::FEWEST_STEPS
        };
        if !measured.iter().all(warm) || !is_balanced(&[&measured], self.precision, loose) {
            return None;
        }
        let stretches = measured.iter().map(|(copy, of)| (*copy, of.steps.clone())).collect();
        let rate =
            Sample::new(&[stretches], nature).ratio(Ratio::Rate, |w| Some((w.samples, w.elapsed)));
        // Half-widths fall with the square root of a run's length.
        Some((half_width(&rate)? / self.precision).powi(2).max(1.0))
    }
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

/// Returns the run settings that apply to one job: those of the scenario, with the job's own length if the job sets one.
pub(super) fn run_of(scenario: &Scenario, job: &Job) -> Run {
    Run { stop: scenario.stop_of(job), ..scenario.run.clone() }
}

/// Whether the samples read into a job's queue and those taken out of it may differ in number: the queue is circular, or the
/// job may fail.
pub(super) fn ranks_may_diverge(job: &Job) -> bool {
    job.queue == QueueKind::Circular || job.failures.is_some()
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
/// known.
fn unreplaced(copies: &[Vec<(&JobOutcome, Measured)>]) -> Option<String> {
    let each = copies.iter().flatten().map(|(copy, measured)| {
        let (read, taken) = flows(copy, 0..copy.steps.len());
        (read - taken, flows(copy, measured.steps.clone()).1)
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

/// Returns whether the measured steps of a job's copies, given by replication, are enough, and if not, why.
pub(super) fn length(
    copies: &[Vec<(&JobOutcome, Measured)>],
    (job, stop): (&Job, Stop),
    behind: &Sample,
) -> LengthReport {
    let all = || copies.iter().flatten();
    if all().next().is_none() || behind.is_empty() {
        return LengthReport::default();
    }
    let waits = behind.ratio(Ratio::Waiting, |w| Some((w.waited_for_input(), w.elapsed)));
    let little = waits.mean.is_some_and(|waits| waits < LITTLE_INPUT);
    let unreplaced = if little || ranks_may_diverge(job) { None } else { unreplaced(copies) };
    let no_interval = unreplaced.clone().or_else(|| {
        behind.lacks_batches().then(|| {
            "its steps give fewer than ten independent batches: run longer, or write `run.replications = 5`"
                .to_owned()
        })
    });
    let drained: Vec<f64> = all().filter_map(|(_, measured)| measured.drained).collect();
    // Until their content has been replaced twice, loaders still fill or drain, so the steps do not show the long-run rate.
    let turned = all().all(|(copy, measured)| {
        let ((read, before), (_, taken)) =
            (flows(copy, 0..measured.steps.start), flows(copy, measured.steps.clone()));
        taken >= 2.0 * (read - before)
    });
    let figure = behind.ratio(Ratio::Rate, |w| Some((w.samples, w.elapsed)));
    let found = figure.mean.unwrap_or(0.0);
    if let Some(part) = mean(&drained).filter(|_| 2 * drained.len() > all().count()) {
        let lasting = found * (1.0 - part);
        let why = format!(
            "its buffers drained, and {} of what it trained on had been read before the measured steps",
            share(part)
        );
        let long_run_samples_per_second = turned.then_some(lasting);
        return LengthReport {
            drained: true,
            enough: false,
            why: Some(why),
            long_run_samples_per_second,
            no_interval,
        };
    }
    let missing = match stop {
        // A job that does not wait for cold storage does not wait for caches either.
        _ if !little && all().any(|(_, measured)| measured.cold) => Some(
            "no copy has read its data set once, and later epochs will find some of it in caches"
                .to_owned(),
        ),
        Stop::Known { .. } if mtbf(job).is_some() && failures(copies) < FEWEST_FAILURES => {
            let needed = failing_time(job, mtbf(job).unwrap_or(0.0)) / all().count() as f64;
            Some(format!(
                "its nodes failed {} times, and fewer than {FEWEST_FAILURES} failures make no average: so many take about {}; write \
             a `run.duration` well above that, or a larger `run.most`",
                failures(copies),
                seconds(needed)
            ))
        }
        Stop::Known { precision, .. } if !is_narrow(&figure, precision) => Some(format!(
            "its throughput was not known to {} when `run.most` events were over: raise `run.most` or `run.precision`",
            percent(precision)
        )),
        _ if unreplaced.is_some() => unreplaced.clone(),
        _ if all().any(|(_, measured)| !measured.level) => {
            Some("its step times were not steady by the middle of the run: run longer, or write `run.warm_up`".to_owned())
        }
        _ => None,
    };
    LengthReport { enough: missing.is_none(), why: missing, no_interval, ..LengthReport::default() }
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
