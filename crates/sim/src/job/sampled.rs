//! Job copies of which only some nodes are simulated: the end of their steps, and the scaling of their outcome to all nodes.

use std::sync::Arc;

use forebay_engine::Time;
use forebay_metrics::Segment;
use forebay_report::{Cause, JobOutcome, StepOutcome};

use super::jobs::Jobs;
use crate::env::{ActivityId, BarrierWait, Delay, Env, Event, NodeSample, SampledBarrier, Waited};
use crate::ids::{DeviceId, JobId};

/// What a job copy of which only some nodes are simulated needs.
#[derive(Debug)]
pub(crate) struct SampledJob {
    /// The barrier at the end of each step.
    ends: SampledBarrier,
    /// The wait at the end of a step for the last of all nodes, and the last device that has been simulated.
    wait: Option<(BarrierWait, DeviceId)>,
    /// Number of nodes per simulated node.
    scale: f64,
}

impl SampledJob {
    /// Returns what a job copy on `all` nodes needs, of which `sample` are simulated.
    pub(crate) fn new(sample: Arc<NodeSample>, all: u32) -> SampledJob {
        let scale = f64::from(all) / f64::from(sample.simulated().max(1));
        SampledJob { ends: SampledBarrier::new(sample), wait: None, scale }
    }

    /// Begins a step at `now`.
    pub(super) fn begin_step(&mut self, now: Time) {
        self.ends.begin_step(now);
    }

    /// Cancels the step in progress, because the job copy has failed.
    pub(super) fn abort(&mut self, now: Time) {
        self.ends.abort(now);
        self.wait = None;
    }

    /// Returns the wait for the last of all nodes, if there was one at the end of the latest step.
    pub(super) fn wait(&self) -> Option<BarrierWait> {
        self.wait.map(|(wait, _)| wait)
    }

    /// Scales numbers that are sums over nodes from the simulated nodes to all nodes.
    fn scale_numbers<'a>(&self, numbers: impl IntoIterator<Item = &'a mut u64>) {
        for number in numbers {
            *number = (*number as f64 * self.scale).round() as u64;
        }
    }

    /// Scales seconds that are sums over nodes from the simulated nodes to all nodes.
    fn scale_seconds<'a>(&self, seconds: impl IntoIterator<Item = &'a mut f64>) {
        seconds.into_iter().for_each(|seconds| *seconds *= self.scale);
    }

    /// Scales the outcome of the simulated nodes to all nodes: sums over nodes grow, means over nodes stay.
    pub(super) fn scale_outcome(&self, outcome: &mut JobOutcome) {
        self.scale_steps(&mut outcome.steps);
        let queue = &mut outcome.queue;
        self.scale_numbers([
            &mut queue.capacity,
            &mut queue.initial,
            &mut queue.level,
            &mut queue.workers,
        ]);
        self.scale_numbers(&mut queue.reuse);
        self.scale_numbers(queue.ages.iter_mut().map(|(_, number)| number));
        for bin in &mut outcome.series.bins {
            self.scale_numbers([&mut bin.enqueued, &mut bin.dequeued]);
            self.scale_seconds([&mut bin.level_seconds, &mut bin.blocked_seconds]);
        }
        for of in outcome.cache.iter_mut().chain(&mut outcome.decoded) {
            self.scale_numbers([&mut of.hits, &mut of.misses]);
        }
        for of in &mut outcome.tiers {
            self.scale_numbers([&mut of.hits, &mut of.peers, &mut of.misses]);
        }
        let samples = &mut outcome.samples;
        self.scale_numbers([
            &mut samples.started,
            &mut samples.enqueued,
            &mut samples.in_progress,
            &mut samples.dequeued,
            &mut samples.overwritten,
            &mut samples.left,
            &mut samples.dropped,
            &mut samples.cleared,
        ]);
        if let Some(recovery) = &mut outcome.recovery {
            self.scale_seconds([&mut recovery.read_back]);
        }
    }

    /// Scales the steps of the simulated nodes to all nodes.
    pub(super) fn scale_steps(&self, steps: &mut [StepOutcome]) {
        for step in steps {
            let queue = &mut step.queue;
            self.scale_numbers([
                &mut step.samples,
                &mut step.fresh,
                &mut queue.started,
                &mut queue.enqueued,
                &mut queue.dequeued,
            ]);
            self.scale_seconds([
                &mut queue.level_seconds,
                &mut queue.blocked_seconds,
                &mut queue.residence_seconds,
            ]);
        }
    }
}

impl Jobs {
    /// Counts that device `d` has ended `step`; returns whether the step is over. Where only some nodes are simulated, it is over when
    /// the last of all nodes has ended it.
    pub(super) fn end_of_device(&mut self, env: &mut Env, d: DeviceId, step: u64) -> bool {
        let j = self.devices[d].job;
        let all = self.jobs[j].arrive(step);
        // Steps whose gradients are only accumulated have no barrier at their end.
        if self.jobs[j].sampled.is_none() || !self.jobs[j].meets_after(step + 1) {
            return all;
        }
        let waited = self.waited_for(d, step);
        let Some(sampled) = &mut self.jobs[j].sampled else { return all };
        sampled.ends.arrive((step, 0), (env.now, d), waited);
        let wait = all.then(|| sampled.ends.last((step, 0), env.now, &env.streams)).flatten();
        let Some(wait) = wait else {
            if all {
                sampled.wait = None;
                sampled.begin_step(env.now);
            }
            return all;
        };
        sampled.wait = Some((wait, d));
        let delay = Delay { span: wait.end().since(env.now), lane: None };
        env.after(delay, Event::Waited(ActivityId::LastNode(j)));
        false
    }

    /// Ends the step of job copy `j` when the last of all nodes has ended it.
    pub(crate) fn end_step_of_last_node(&mut self, env: &mut Env, j: JobId) {
        let Some(sampled) = &mut self.jobs[j].sampled else { return };
        sampled.begin_step(env.now);
        if let Some((_, last)) = sampled.wait {
            self.complete_step(env, j, last);
        }
    }

    /// Returns the longest wait of device `d`'s model copy in `step`, by cause; no wait where all nodes are simulated.
    pub(super) fn waited_for(&self, d: DeviceId, step: u64) -> Waited {
        let device = &self.devices[d];
        let mut waited = Waited { cause: Cause::Compute, until: Time::ZERO };
        if self.jobs[device.job].sampled.is_none() {
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
