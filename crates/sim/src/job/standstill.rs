//! Runs in which nothing is left to happen although jobs have work left: what they wait for, as a report for developers.

use std::fmt::Write as _;

use forebay_report::Unfinished;
use forebay_scenario::Scenario;

use super::job_run::JobRun;
use super::jobs::Jobs;
use crate::env::{ActivityId, Env};
use crate::ids::JobId;

/// At most this many job copies, and parts of each kind for each job copy, are listed.
const MAX_LISTED: usize = 20;

impl Jobs {
    /// Returns whether nothing is left to happen. Events and transfers beyond the end of the clock are left.
    pub(crate) fn stands_still(env: &Env) -> bool {
        env.calendar.is_empty()
            && env.network.count(|activity| *activity != ActivityId::Endless) == 0
    }

    /// Returns the report of a run in which nothing is left to happen; `None` if all jobs are finished.
    pub(crate) fn standstill(&self, env: &Env, scenario: &Scenario) -> Option<Unfinished> {
        let open = |j: &JobId| !self.jobs[*j].is_finished();
        let all: Vec<JobId> = self.jobs.ids().iter().filter(open).collect();
        let first = *all.first().filter(|_| !self.are_over())?;
        let name = |run: &JobRun| scenario.jobs[run.job].name.clone();
        let mut state = String::new();
        for j in all.iter().take(MAX_LISTED) {
            let run = &self.jobs[*j];
            // Writing to a string cannot fail.
            let _ = writeln!(
                state,
                "job {:?}, copy {}: {} steps complete",
                name(run),
                run.copy,
                run.steps.completed()
            );
            self.describe(*j, &mut state);
        }
        if all.len() > MAX_LISTED {
            let _ = writeln!(state, "and {} more job copies", all.len() - MAX_LISTED);
        }
        let at = format!("{:.6}", env.now.seconds());
        Some(Unfinished::Standstill { job: name(&self.jobs[first]), at, state })
    }

    /// Adds lines on what the parts of job copy `j` do.
    fn describe(&self, j: JobId, state: &mut String) {
        let parts = self.jobs[j].parts;
        for d in parts.devices.iter().take(MAX_LISTED) {
            let device = &self.devices[d];
            let op =
                self.op_of(d).map_or("the end of its program".to_owned(), |op| format!("{op:?}"));
            let waits = if device.op.waits() { "waits for the input of" } else { "is at" };
            let _ = writeln!(
                state,
                "  device {} (stage {}): {:?}, {waits} {op} of step {}",
                device.model,
                device.stage,
                device.account.state(),
                device.step()
            );
        }
        for (number, l) in parts.loaders.iter().take(MAX_LISTED).enumerate() {
            let _ = writeln!(
                state,
                "  loader {number}: {} samples in its queue, workers {}",
                self.loaders.level(l),
                self.loaders.phases(l).join(", ")
            );
        }
        for c in parts.communicators.iter().take(MAX_LISTED) {
            let communicator = &self.communicators[c];
            let _ = writeln!(
                state,
                "  communicator {}: {}, {} B wait",
                c.number(),
                if communicator.at_work().is_some() { "in a collective" } else { "idle" },
                communicator.waiting()
            );
        }
    }
}
