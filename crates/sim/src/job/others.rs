//! The nodes of a job copy that are not simulated: when the last of them ends a step, and why the others wait for it.

use std::sync::Arc;

use forebay_engine::Time;
use forebay_metrics::Segment;
use forebay_report::{Cause, JobOutcome, StepOutcome};

use super::jobs::Jobs;
use crate::env::{ActivityId, Delay, Env, Event, NodesOfJob, Others, WaitForOthers, Waited};
use crate::ids::{DeviceId, JobId};

/// The nodes of a job copy that are not simulated.
#[derive(Debug)]
pub(crate) struct OthersOfJob {
    /// The ends of steps, at which all nodes meet.
    ends: Others,
    /// The wait at the end of a step for the last of all nodes, once all simulated nodes are there; with the device that was the last.
    wait: Option<(WaitForOthers, DeviceId)>,
    /// Number of nodes for each simulated one.
    times: f64,
}

impl OthersOfJob {
    /// Returns the nodes of a job copy on `all` nodes that are not simulated.
    pub(crate) fn new(of: Arc<NodesOfJob>, all: u32) -> OthersOfJob {
        let times = f64::from(all) / f64::from(of.simulated().max(1));
        OthersOfJob { ends: Others::new(of), wait: None, times }
    }

    /// Lets the nodes set out for the next step at `now`.
    pub(super) fn begin_step(&mut self, now: Time) {
        self.ends.begin_step(now);
    }

    /// Forgets the step in progress, because the job copy has failed.
    pub(super) fn abort(&mut self, now: Time) {
        self.ends.abort(now);
        self.wait = None;
    }

    /// Returns the wait for the last of all nodes, if it is going on or has just ended.
    pub(super) fn wait(&self) -> Option<WaitForOthers> {
        self.wait.map(|(wait, _)| wait)
    }
}

impl Jobs {
    /// Counts that device `d` has ended `step`; returns whether the step is over. Where nodes are not simulated, it is not over before
    /// the last of them has ended it.
    pub(super) fn end_of_device(&mut self, env: &mut Env, d: DeviceId, step: u64) -> bool {
        let j = self.devices[d].job;
        let all = self.jobs[j].arrive(step);
        // Within a round of several steps nodes do not wait for each other.
        if self.jobs[j].others.is_none() || !self.jobs[j].meets_after(step + 1) {
            return all;
        }
        let waited = self.waited_for(d, step);
        let Some(others) = &mut self.jobs[j].others else { return all };
        others.ends.arrive((step, 0), (env.now, d), waited);
        let wait = all.then(|| others.ends.last((step, 0), env.now, &env.streams)).flatten();
        let Some(wait) = wait else {
            if all {
                others.wait = None;
                others.begin_step(env.now);
            }
            return all;
        };
        others.wait = Some((wait, d));
        let delay = Delay { span: wait.end().since(env.now), lane: None };
        env.after(delay, Event::Waited(ActivityId::Others(j)));
        false
    }

    /// Ends the step of job copy `j`, which the last of all nodes has ended.
    pub(crate) fn end_step_of_others(&mut self, env: &mut Env, j: JobId) {
        let Some(others) = &mut self.jobs[j].others else { return };
        others.begin_step(env.now);
        if let Some((_, last)) = others.wait {
            self.complete_step(env, j, last);
        }
    }

    /// Returns what the model copy of device `d` waited for longest in `step`; this is not looked for where all nodes are simulated.
    pub(super) fn waited_for(&self, d: DeviceId, step: u64) -> Waited {
        let device = &self.devices[d];
        let mut waited = Waited { cause: Cause::Compute, until: Time::ZERO };
        if self.jobs[device.job].others.is_none() {
            return waited;
        }
        let mut sums: Vec<(Cause, f64)> = Vec::new();
        let waits = self.devices[d - device.stage].input.waits().filter(|(of, _)| *of == step);
        for (_, Segment { start, end, cause }) in waits {
            let seconds = end.since(start).seconds();
            match sums.iter_mut().find(|(of, _)| *of == cause.cause) {
                Some((_, sum)) => *sum += seconds,
                None => sums.push((cause.cause, seconds)),
            }
            waited.until = waited.until.max(end);
        }
        let longest = sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        waited.cause = longest.map_or(Cause::Compute, |(cause, _)| cause);
        waited
    }
}

impl OthersOfJob {
    /// Makes the outcome of the simulated nodes that of all nodes: what is summed over nodes grows, means over nodes stay.
    pub(super) fn include(&self, outcome: &mut JobOutcome) {
        let times = self.times;
        let grow = |number: &mut u64| *number = (*number as f64 * times).round() as u64;
        self.include_steps(&mut outcome.steps);
        let queue = &mut outcome.queue;
        [&mut queue.capacity, &mut queue.initial, &mut queue.level, &mut queue.workers]
            .into_iter()
            .chain(&mut queue.reuse)
            .chain(queue.ages.iter_mut().map(|(_, number)| number))
            .for_each(grow);
        for bin in &mut outcome.series.bins {
            [&mut bin.enqueued, &mut bin.dequeued].into_iter().for_each(grow);
            [&mut bin.level_seconds, &mut bin.blocked_seconds]
                .into_iter()
                .for_each(|of| *of *= times);
        }
        for of in outcome.cache.iter_mut().chain(&mut outcome.decoded) {
            [&mut of.hits, &mut of.misses].into_iter().for_each(grow);
        }
        for of in &mut outcome.tiers {
            [&mut of.hits, &mut of.peers, &mut of.misses].into_iter().for_each(grow);
        }
        let samples = &mut outcome.samples;
        [
            &mut samples.started,
            &mut samples.enqueued,
            &mut samples.in_progress,
            &mut samples.dequeued,
            &mut samples.overwritten,
            &mut samples.left,
            &mut samples.dropped,
            &mut samples.cleared,
        ]
        .into_iter()
        .for_each(grow);
        if let Some(recovery) = &mut outcome.recovery {
            recovery.read_back *= times;
        }
    }

    /// Makes the steps of the simulated nodes those of all nodes.
    pub(super) fn include_steps(&self, steps: &mut [StepOutcome]) {
        let grow = |number: &mut u64| *number = (*number as f64 * self.times).round() as u64;
        for step in steps {
            let queue = &mut step.queue;
            [
                &mut step.samples,
                &mut step.fresh,
                &mut queue.started,
                &mut queue.enqueued,
                &mut queue.dequeued,
            ]
            .into_iter()
            .for_each(grow);
            [&mut queue.level_seconds, &mut queue.blocked_seconds, &mut queue.residence_seconds]
                .into_iter()
                .for_each(|of| *of *= self.times);
        }
    }
}
