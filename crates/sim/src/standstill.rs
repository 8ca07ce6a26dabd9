//! Runs in which nothing is left to happen although jobs have work left: what they wait for, as a report for developers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use forebay_report::Unfinished;
use forebay_scenario::Scenario;

use super::env::Env;
use super::event::ActivityId;
use super::ids::JobId;
use super::job_run::JobRun;
use super::jobs::Jobs;

/// At most this many job copies, and parts of each kind for each job copy, are listed.
const MAX_LISTED: usize = 20;

impl Jobs {
    /// Returns whether nothing is left to happen. Events and transfers beyond the end of the clock are left.
    pub(super) fn stands_still(env: &Env) -> bool {
        env.calendar.is_empty()
            && env.network.count(|activity| *activity != ActivityId::Endless) == 0
    }

    /// Returns the report of a run in which nothing is left to happen; `None` if all jobs are finished.
    pub(super) fn standstill(&self, env: &Env, scenario: &Scenario) -> Option<Unfinished> {
        let open = |j: &JobId| !self.jobs[*j].finished;
        let all: Vec<JobId> = self.jobs.ids().iter().filter(open).collect();
        let first = *all.first().filter(|_| self.unfinished > 0)?;
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
            let waits = if device.op.waits { "waits for the input of" } else { "is at" };
            let _ = writeln!(
                state,
                "  device {} (stage {}): {:?}, {waits} {op} of step {}",
                device.model, device.stage, device.state, device.next
            );
        }
        for (number, l) in parts.loaders.iter().take(MAX_LISTED).enumerate() {
            let loader = &self.loaders[l];
            let mut phases = BTreeMap::<String, u32>::new();
            for worker in &self.loaders.workers[loader.stages.workers] {
                *phases.entry(format!("{:?}", worker.phase)).or_default() += 1;
            }
            let phases: Vec<String> =
                phases.into_iter().map(|(phase, number)| format!("{number} {phase}")).collect();
            let _ = writeln!(
                state,
                "  loader {number}: {} samples in its queue, workers {}",
                loader.queue.level(),
                phases.join(", ")
            );
        }
        for c in parts.communicators.iter().take(MAX_LISTED) {
            let communicator = &self.communicators.all[c];
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

#[cfg(test)]
mod tests {
    use crate::Options;
    use crate::build::build;
    use forebay_report::Unfinished;
    use forebay_scenario::ScenarioFile;

    const SCENARIO: &str = r#"
name = "s"
run.steps = 20
cluster = { nodes = 2, node.cores = 4 }
storage.s.file-server = { bandwidth = "1 GB/s" }
dataset.d = { samples = 1000, sample_size = "100 kB" }
[[job]]
name = "train"
nodes = 2
dataset = "d"
storage = "s"
batch = 8
loader.tf-queue = { threads = 2, capacity = "16 samples", decode = "1 ms" }
model.step = "10 ms"
sync.allreduce.gradients = "10 MB"
"#;

    #[test]
    fn a_run_whose_events_are_lost_is_an_internal_error_that_says_what_waits() {
        // System: a job whose events and transfers are taken away in the middle of the run, or at its start. Expectation: not a job
        // that takes too long, but an error that names the job, its devices and its workers, and what they do.
        let scenario = ScenarioFile::parse("s.toml", SCENARIO.to_owned()).expect("a scenario");
        let scenario = scenario.resolve(&[]).expect("a scenario");
        for (until, steps) in [(0.0, 0), (0.105, 4)] {
            let mut world = build(&scenario, 0, &Options::default());
            let until = forebay_engine::Time::from_seconds(until);
            forebay_engine::run(&mut world, until);
            world.env.calendar.remove_all(|_| true);
            let now = world.env.now;
            world.env.network.cancel_all(now, |_| true);
            let outcome = world.finish(&scenario, now, false);
            let Some(Unfinished::Standstill { job, state, .. }) = outcome.unfinished else {
                panic!("{:?}", outcome.unfinished)
            };
            assert_eq!(job, "train");
            let complete: u32 = state
                .split("copy 0: ")
                .nth(1)
                .and_then(|rest| rest.split(' ').next())
                .and_then(|number| number.parse().ok())
                .expect("a number of steps");
            assert!(complete >= steps, "{state}");
            for part in
                ["device 0 (stage 0)", "of step ", "loader 1: ", "workers 2 ", "communicator"]
            {
                assert!(state.contains(part), "{part}: {state}");
            }
        }
    }
}
