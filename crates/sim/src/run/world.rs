//! The world: the owners of all components of one run, and the one match that dispatches events.

use forebay_engine::{self, Calendar, Model, Time};
use forebay_report::{Known, Outcome};
use forebay_scenario::{SampledNodes, Scenario, Stop};

use super::Options;
use super::build::build;
use super::resource::Resources;
use super::steady::{Running, Steady};
use super::watch::Watch;
use crate::env::{ActivityId, Env, Event, Faults, Notice, broken};
use crate::ids::{CopyId, MessageId};
use crate::job::Jobs;
use crate::storage::Site;
use crate::storage::{Background, Stagings};

/// Simulates one replication of `scenario` on all its nodes, or on those of `sample`.
pub(super) fn run_nodes(
    scenario: &Scenario,
    sample: Option<&SampledNodes>,
    replication: u32,
    options: &Options,
) -> Outcome {
    let shared = sample.map(|sample| scenario.with_share_of_storages(sample.share));
    let simulated = shared.as_ref().unwrap_or(scenario);
    let mut world = build(simulated, sample, replication, options);
    // An event at `NEVER` lies beyond the representable range of time, so the run stops just before it.
    let (until, ends) = match scenario.run.stop {
        Stop::Duration(seconds) => (Time::from_seconds(seconds), true),
        Stop::Steps(_) | Stop::Epochs(_) | Stop::Known { .. } => (Time(Time::NEVER.0 - 1), false),
    };
    let known = Known::for_scenario(scenario).filter(|_| options.until.is_none());
    let known = match options.epochs_before {
        [] => known,
        _ => known.map(Known::with_warm_caches),
    };
    let until_then = if ends { until } else { Time::NEVER };
    world.watch = Watch::new(options, until_then, known);
    if sample.is_none() {
        world.steady = Steady::new(scenario, options, until_then);
    }
    world.steady.begin(&mut world.env, &mut world.jobs);
    world.watch.events = forebay_engine::run(&mut world, until);
    if let Some(sooner) = world.steady.take_end(until) {
        world.watch.until = sooner;
        world.watch.events += forebay_engine::run(&mut world, sooner);
    }
    let ended = if ends { world.steady.end().unwrap_or(until) } else { world.env.now };
    world.finish((scenario, sample), ended, ends)
}

/// One run: the environment and all owners.
pub(super) struct World<'a> {
    pub(super) env: Env,
    pub(super) jobs: Jobs,
    pub(super) stagings: Stagings,
    pub(super) background: Background,
    pub(super) faults: Faults,
    pub(super) resources: Resources,
    pub(super) watch: Watch<'a>,
    pub(super) steady: Steady<'a>,
}

impl Model for World<'_> {
    type Event = Event;

    #[inline]
    fn calendar(&mut self) -> &mut Calendar<Event> {
        &mut self.env.calendar
    }

    #[inline]
    fn pending(&mut self) -> Option<Time> {
        self.env.network.next()
    }

    fn advance(&mut self, now: Time) {
        self.env.now = now;
        if self.jobs.loaders.prefetches() {
            self.jobs.loaders.fetch_for_flows(&self.env);
        }
        let mut more = true;
        while more && let Some(finished) = self.env.network.finish(now) {
            self.env.flows += finished.count as u64;
            self.watch.transfers += 1;
            match finished.token {
                ActivityId::Worker(w) => self.jobs.loaders.resume(&mut self.env, w),
                ActivityId::Range(r) => self.jobs.loaders.end_range_transfer(&mut self.env, r),
                ActivityId::Request(r) => self.background.end_request(r),
                ActivityId::Copy(c) => self.resume_copy(c),
                ActivityId::Step(d) => self.jobs.end_kernels(&mut self.env, d),
                ActivityId::Average(d) => self.jobs.end_correction(&mut self.env, d),
                ActivityId::Sum(d) => self.jobs.end_sum(&mut self.env, d),
                ActivityId::Launch(t) => self.jobs.end_launch(&mut self.env, t),
                ActivityId::Load(d) => self.jobs.end_batch_copy(&mut self.env, d),
                ActivityId::Message(m) => self.end_message_transfer(m),
                ActivityId::Handed { device, back } => {
                    self.jobs.end_part_flow(&mut self.env, device, back)
                }
                ActivityId::Swap(d) => self.jobs.end_swap(&mut self.env, d),
                ActivityId::Write(w) => self.jobs.end_checkpoint_transfer(&mut self.env, w),
                ActivityId::ReadBack(f) => self.jobs.end_part_read_back(&mut self.env, f),
                ActivityId::Averaged(_)
                | ActivityId::Sleeper(_)
                | ActivityId::Push(_)
                | ActivityId::Arriving { .. }
                | ActivityId::Checkpoint(_)
                | ActivityId::Restart(_)
                | ActivityId::LastNode(_)
                | ActivityId::Communicator(_)
                | ActivityId::Endless => broken("these activities transfer nothing that ends"),
            }
            self.settle();
            more = self.env.network.has_finished();
        }
    }

    fn handle(&mut self, now: Time, event: Event) {
        if self.jobs.loaders.prefetches() {
            self.jobs.loaders.fetch_for_events(&self.env, event);
        }
        self.env.now = now;
        match event {
            Event::JobStarted(j) => self.jobs.begin_job(&mut self.env, j),
            Event::Opened(ActivityId::Worker(w)) | Event::Waited(ActivityId::Worker(w)) => {
                self.jobs.loaders.resume(&mut self.env, w);
            }
            Event::Opened(ActivityId::Copy(c)) | Event::Waited(ActivityId::Copy(c)) => {
                self.resume_copy(c);
            }
            Event::Computed(w) => self.jobs.loaders.end_computation(&mut self.env, w),
            Event::Stepped(d) => self.jobs.end_work(&mut self.env, d),
            Event::Arrived(load) => self.background.begin_request(&mut self.env, load),
            Event::Served(table) => self.jobs.loaders.serve_table(&mut self.env, table),
            Event::Bucket(b) => self.env.check_bucket(b),
            Event::Begun { turns, request } => {
                self.jobs.loaders.begin_transfer(&mut self.env, turns, request);
            }
            Event::Delivered(arm) => self.jobs.loaders.end_disk_request(&mut self.env, arm),
            Event::Opened(ActivityId::Range(r)) => {
                self.jobs.loaders.end_range_operation(&mut self.env, r)
            }
            Event::Waited(ActivityId::Range(r)) => self.jobs.loaders.resume_range(&mut self.env, r),
            Event::Opened(ActivityId::Request(r)) => {
                self.background.end_request_operation(&mut self.env, r)
            }
            Event::Waited(ActivityId::Request(r)) => {
                self.background.request_bytes(&mut self.env, r)
            }
            Event::Waited(ActivityId::Sleeper(d)) => self.jobs.wake_sleeper(&mut self.env, d),
            Event::Waited(ActivityId::Launch(t)) => self.jobs.end_launch(&mut self.env, t),
            Event::Waited(ActivityId::Average(d)) => self.jobs.move_correction(&mut self.env, d),
            Event::Waited(ActivityId::Averaged(j)) => self.jobs.end_average(&mut self.env, j),
            Event::Waited(ActivityId::Message(m)) => self.end_message_delay(m),
            Event::Waited(ActivityId::Sum(d)) => self.jobs.end_compression(&mut self.env, d),
            Event::Waited(ActivityId::Push(w)) => self.jobs.push_next(&mut self.env, w),
            Event::Waited(ActivityId::Arriving { device, input }) => {
                self.jobs.arrive_part(&mut self.env, device, input);
            }
            Event::Waited(ActivityId::Communicator(c)) => {
                self.jobs.communicators.end_communicator_delay(&mut self.env, c)
            }
            Event::Waited(ActivityId::Checkpoint(c)) => {
                self.jobs.end_checkpoint_pause(&mut self.env, c)
            }
            Event::Waited(ActivityId::Restart(f)) => self.jobs.restart(&mut self.env, f),
            Event::Waited(ActivityId::LastNode(j)) => {
                self.jobs.end_step_of_last_node(&mut self.env, j)
            }
            Event::Turned(fault) => self.faults.turn(&mut self.env, fault),
            Event::Failed { failures, node } => self.jobs.fail(&mut self.env, failures, node),
            Event::Opened(_) | Event::Waited(_) => {
                broken("no other activity opens files or waits for a delay");
            }
        }
        self.settle();
    }

    fn is_over(&self) -> bool {
        self.jobs.are_over() || self.steady.has_new_end()
    }
}

impl World<'_> {
    /// Continues a stream that copies files to a node.
    fn resume_copy(&mut self, c: CopyId) {
        let storages = &mut self.jobs.loaders.storages;
        self.stagings.resume_copy(&mut Site { env: &mut self.env, storages }, c);
    }

    /// Handles the end of a message's delay: the message belongs to a collective, or goes to or from a parameter server.
    fn end_message_delay(&mut self, m: MessageId) {
        match self.jobs.communicators.is_parcel(m) {
            true => self.jobs.end_parcel_delay(&mut self.env, m),
            false => self.jobs.communicators.end_message_delay(&mut self.env, m),
        }
    }

    /// Handles the arrival of a message's bytes.
    fn end_message_transfer(&mut self, m: MessageId) {
        match self.jobs.communicators.is_parcel(m) {
            true => self.jobs.end_parcel_transfer(&mut self.env, m),
            false => self.jobs.communicators.end_message_transfer(&mut self.env, m),
        }
    }

    /// Handles everything that can happen at this instant: delivers all notices, then runs the next worker that has something to
    /// do, and so on until there is none. Then ends the run if a condition for its end is met.
    fn settle(&mut self) {
        loop {
            while let Some(notice) = self.env.notices.pop_front() {
                self.tell(notice);
            }
            if self.jobs.loaders.run_next(&mut self.env) {
                continue;
            }
            let Some(j) = self.jobs.take_halted() else { break };
            let World { env, jobs, resources, steady, .. } = self;
            steady.look(&mut Running { env, jobs, resources }, j);
            jobs.go_on_after_halt(env, j);
        }
        if self.watch.count_and_check(&self.env, &self.jobs, &self.faults) {
            self.jobs.cut_off();
        }
    }

    fn tell(&mut self, notice: Notice) {
        let World { env, jobs, stagings, .. } = self;
        match notice {
            Notice::BatchReady { loader, worker } => jobs.serve(env, loader, worker),
            Notice::CoreFree(next) => jobs.loaders.admit(env, next),
            Notice::CollectiveOver { communicator, last } => {
                jobs.go_on_after_collective(env, communicator, last);
            }
            Notice::OpOver(d) => jobs.end_op_if_on(env, d),
            Notice::Stage(of) => {
                stagings.begin(&mut Site { env, storages: &mut jobs.loaders.storages }, of);
            }
            Notice::NodeStaged(j) => {
                if stagings.are_over(jobs.all()[j].parts.stagings) {
                    jobs.end_staging(env, j);
                }
            }
            Notice::DevicePace { device, pace } => jobs.set_pace(env, device, pace),
        }
    }

    /// Returns the outcome of the run, which ended at `ended`: when the scenario says, if `ends`, or when there was nothing left to
    /// do.
    pub(super) fn finish(
        mut self,
        (scenario, sample): (&Scenario, Option<&SampledNodes>),
        ended: Time,
        ends: bool,
    ) -> Outcome {
        self.jobs.end_down(ended);
        let stopped = if self.jobs.are_over() { self.env.now } else { ended };
        self.jobs.end_transfers(stopped);
        let still = Jobs::stands_still(&self.env);
        let unfinished = match self.jobs.are_hopeless() {
            false if self.watch.ended => None,
            false if still => self.jobs.standstill(&self.env, scenario),
            false if ends => None,
            _ => self.jobs.left_over(scenario),
        };
        Outcome { unfinished, ..self.collect(scenario, sample) }
    }

    /// Returns the outcome of the run.
    fn collect(mut self, scenario: &Scenario, sample: Option<&SampledNodes>) -> Outcome {
        let World { env, jobs, stagings, resources, watch, steady, .. } = &mut self;
        jobs.close(env);
        let energy = resources.energy((env, jobs), scenario, sample);
        let outcomes = jobs.outcomes(env, stagings);
        let ends = outcomes.iter().filter_map(|job| job.steps.last()).map(|step| step.end);
        let mut outcome = Outcome {
            makespan: ends.fold(0.0, f64::max),
            jobs: outcomes,
            resources: resources.outcomes(
                &mut Site { env, storages: &mut jobs.loaders.storages },
                jobs.communicators.link_uses(),
                (scenario, sample),
            ),
            events: watch.events + env.flows + env.before,
            flows: env.flows,
            energy,
            trace: env.recorder.take().map(|recorder| recorder.finish(env.now)),
            ..Outcome::default()
        };
        steady.extend(scenario, &mut outcome);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_engine::Span;
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
            let mut world = build(&scenario, None, 0, &Options::default());
            let until = forebay_engine::Time::from_seconds(until);
            forebay_engine::run(&mut world, until);
            world.env.calendar.remove_all(|_| true);
            let now = world.env.now;
            world.env.network.cancel_all(now, |_| true);
            let outcome = world.finish((&scenario, None), now, false);
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

    #[test]
    fn a_run_that_stands_still_ends_although_buckets_are_checked() {
        // System: a storage with a token bucket, full or behind a gate, and a job whose events and transfers are taken away. Expectation:
        // the checks of the bucket cease, and the run is found to stand still.
        for burst in ["bucket = \"1 GB\"", "period = \"1 ms\""] {
            let text = SCENARIO.replace(
                "{ bandwidth = \"1 GB/s\" }",
                &format!(
                    "{{ bandwidth = \"1 GB/s\", burst = {{ bandwidth = \"2 GB/s\", {burst} }} }}"
                ),
            );
            let scenario = ScenarioFile::parse("s.toml", text).expect("a scenario");
            let scenario = scenario.resolve(&[]).expect("a scenario");
            let mut world = build(&scenario, None, 0, &Options::default());
            forebay_engine::run(&mut world, Time::from_seconds(0.105));
            let is_check = |event: &Event| matches!(event, Event::Bucket(_));
            let removed = world.env.calendar.remove_all(|event| !is_check(event));
            assert!(!removed.is_empty() && world.env.calendar.len() == 1, "{burst}");
            let now = world.env.now;
            world.env.network.cancel_all(now, |_| true);
            forebay_engine::run(&mut world, Time(Time::NEVER.0 - 1));
            assert!(world.env.now < now + Span::from_seconds(1.0), "{burst}");
            let now = world.env.now;
            let outcome = world.finish((&scenario, None), now, false);
            let found = outcome.unfinished;
            assert!(matches!(found, Some(Unfinished::Standstill { .. })), "{burst}: {found:?}");
        }
    }
}
