//! How it is written when jobs begin and end: after others, as they arrive, after steps or epochs of their own.

use super::Job;
use super::settings::{Around, JobSettings};
use crate::check::Check;
use crate::document::NodeId;
use crate::names::choose;
use crate::{Run, Scenario, Stop};
use schemars::JsonSchema;
use std::ops::Range;

/// How the copies of a job come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// One after the other, always as long apart.
    Regular,
    /// As a Poisson process: times between them are drawn, exponential with that mean.
    Poisson,
}

impl Scenario {
    /// The nodes of all copies of the job of an index.
    #[must_use]
    pub fn nodes_of(&self, job: usize) -> Range<u32> {
        let shared = self.cluster.share_nodes;
        let used = |job: &Job| job.nodes.saturating_mul(if shared { 1 } else { job.copies });
        let before = self.jobs.iter().take(job).map(used).fold(0, u32::saturating_add);
        let first = if shared { 0 } else { before };
        first..first.saturating_add(self.jobs.get(job).map_or(0, used))
    }

    /// When each copy of `job` ends.
    #[must_use]
    pub fn stop_of(&self, job: &Job) -> Stop {
        job.stop.unwrap_or(self.run.stop)
    }
}

impl JobSettings {
    /// The jobs that must have ended before this one begins, as indices.
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

    /// When it ends, if it does not end as the run says.
    pub(super) fn stop(&self) -> Option<Stop> {
        let steps = self.steps.get().map(|steps| Stop::Steps(steps.0));
        steps.or_else(|| self.epochs.get().map(|epochs| Stop::Epochs(epochs.0)))
    }

    /// Either steps or epochs; and what others wait for ends.
    pub(super) fn check_stop(&self, check: Check<'_>, at: NodeId) {
        if let (Some(_), Some(epochs)) = (self.steps.at, self.epochs.at) {
            let at = check.blame(&[Some(epochs)], at);
            check.wrong(at, "`steps` and `epochs` contradict each other", "keep one of them");
        }
    }

    /// How copies arrive matters where there are several, at times apart.
    pub(super) fn remark_arrivals(&self, check: Check<'_>, job: &Job) {
        if job.arrivals == Arrivals::Regular {
            return;
        }
        if job.copies == 1 {
            check.no_effect(&self.arrivals, "the job has one copy");
        } else if job.stagger == 0.0 {
            check.no_effect(&self.arrivals, "without `stagger` all copies come at once");
        }
    }

    /// Where the jobs before it are written.
    pub(crate) fn after_at(&self) -> Option<NodeId> {
        self.after.at
    }
}

/// The first job, in their order, that waits for what never ends: for itself in the end, or for a job that
/// goes on as long as the run.
pub(crate) fn endless(run: Option<&Run>, jobs: &[Option<Job>]) -> Option<usize> {
    let ends = |job: &Job| {
        let stop = job.stop.or(run.map(|run| run.stop));
        !matches!(stop, Some(Stop::Duration(_) | Stop::Known { .. }))
    };
    // What waits only for jobs that end, ends too: found in as many rounds as there are jobs at most.
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
