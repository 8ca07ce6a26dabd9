//! Settings for the start and end of jobs: jobs start after other jobs, at regular or at random times, and end after
//! their own number of steps or epochs.

use super::Job;
use super::settings::{Around, JobSettings};
use crate::check::Check;
use crate::document::NodeId;
use crate::names::choose;
use crate::{Run, Scenario, Stop};
use schemars::JsonSchema;
use std::ops::Range;

/// At what times the copies of a job start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Copies start one after the other, at equal intervals.
    Regular,
    /// Copies start as a Poisson process: the times between starts are sampled from an exponential distribution with
    /// mean `stagger`.
    Poisson,
}

impl Scenario {
    /// Returns the nodes of all copies of the job with the index `job`.
    #[must_use]
    pub fn nodes_of(&self, job: usize) -> Range<u32> {
        let shared = self.cluster.share_nodes;
        let used = |job: &Job| job.nodes.saturating_mul(if shared { 1 } else { job.copies });
        let before = self.jobs.iter().take(job).map(used).fold(0, u32::saturating_add);
        let first = if shared { 0 } else { before };
        first..first.saturating_add(self.jobs.get(job).map_or(0, used))
    }

    /// Returns when each copy of `job` ends.
    #[must_use]
    pub fn stop_of(&self, job: &Job) -> Stop {
        job.stop.unwrap_or(self.run.stop)
    }
}

impl JobSettings {
    /// Returns the indices of the jobs that must have ended before this one begins.
    pub(super) fn predecessors(&self, check: Check<'_>, around: Around<'_>) -> Vec<usize> {
        let Some((_, list)) = self.after.given() else { return Vec::new() };
        let index = |at: NodeId, name: &str| {
            let index = around.job_names.iter().position(|other| *other == Some(name));
            if index.is_none() {
                let names: Vec<&str> = around.job_names.iter().flatten().copied().collect();
                check.wrong(at, format!("there is no job named {name:?}"), choose(name, &names));
            }
            index
        };
        let found = list.0.iter().filter_map(|name| name.given());
        found.filter_map(|(at, name)| index(at, name)).collect()
    }

    /// Returns when each copy of the job ends; `None` if the run's setting applies.
    pub(super) fn stop(&self) -> Option<Stop> {
        let steps = self.steps.get().map(|steps| Stop::Steps(steps.0));
        steps.or_else(|| self.epochs.get().map(|epochs| Stop::Epochs(epochs.0)))
    }

    /// Checks that `steps` and `epochs` are not both set.
    pub(super) fn check_stop(&self, check: Check<'_>, at: NodeId) {
        if let (Some(_), Some(epochs)) = (self.steps.at, self.epochs.at) {
            let at = check.blame(&[Some(epochs)], at);
            check.wrong(at, "`steps` and `epochs` contradict each other", "keep one of them");
        }
    }

    /// Remarks that `arrivals` has no effect if the job has one copy, or no `stagger`.
    pub(super) fn remark_arrivals(&self, check: Check<'_>, job: &Job) {
        if job.arrivals == Arrivals::Regular {
            return;
        }
        if job.copies == 1 {
            check.no_effect(self.arrivals.at, "the job has one copy");
        } else if job.stagger == 0.0 {
            check.no_effect(self.arrivals.at, "without `stagger` all copies arrive at once");
        }
    }

    /// Returns the document node of `after`, if it is set.
    pub(crate) fn after_at(&self) -> Option<NodeId> {
        self.after.at
    }
}

/// Returns the index of the first job that can never begin: it waits, directly or through other jobs, for itself or for
/// a job that goes on as long as the run.
pub(crate) fn endless(run: Option<&Run>, jobs: &[Option<Job>]) -> Option<usize> {
    let ends = |job: &Job| {
        let stop = job.stop.or(run.map(|run| run.stop));
        !matches!(stop, Some(Stop::Duration(_) | Stop::Known { .. }))
    };
    // A job that waits only for jobs that end, ends too. All such jobs are found in at most as many rounds as there are
    // jobs.
    let mut ending: Vec<bool> = vec![false; jobs.len()];
    let begins = |ending: &[bool], job: &Job| job.after.iter().all(|&of| ending[of]);
    loop {
        let next: Vec<bool> = jobs
            .iter()
            .map(|job| job.as_ref().is_none_or(|job| ends(job) && begins(&ending, job)))
            .collect();
        if next == ending {
            break;
        }
        ending = next;
    }
    jobs.iter().position(|job| job.as_ref().is_some_and(|job| !begins(&ending, job)))
}
