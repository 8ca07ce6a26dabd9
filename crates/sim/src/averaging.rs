//! Learners that average their models (Koliousis et al., *Crossbow*, PVLDB 12(11), 2019): each is drawn
//! towards the reference model of its GPU; when all have been, reference models are averaged among GPUs.
//!
//! What waits for what: to be drawn for the n-th time, a learner has trained its n-th steps, and the models were
//! averaged n − 1 times. It goes on to train as soon as it was drawn, while the others still train or are drawn, and
//! while models are averaged.

use std::collections::VecDeque;

use forebay_engine::Time;
use forebay_metrics::Segment;
use forebay_report::{Cause, StallCause};

use super::device::State;
use super::env::Env;
use super::event::{ActivityId, Delay, Event};
use super::index::{DeviceId, JobId};
use super::jobs::Jobs;
use super::notice::Notice;

/// How often a learner goes over the bytes of a model: it reads its own, the reference and the sum of corrections, and
/// writes the first and the last.
const OWN_PASSES: f64 = 5.0;
/// How often the average does: it reads the reference, the one before and the sum of corrections, and writes the new
/// one.
const SHARED_PASSES: f64 = 4.0;

/// What the learners of a job copy have averaged.
#[derive(Debug)]
pub(super) struct AveragingRun {
    /// Steps from one averaging to the next.
    period: u64,
    /// What a learner moves in its GPU's memory [B].
    own: f64,
    /// Time to bring a GPU's reference model up to date.
    shared: Delay,
    /// How often models were averaged among GPUs.
    over: u64,
    /// Learners that have been drawn since.
    drawn: u32,
    /// When the last of them was, and the first may be again.
    all_drawn: Time,
    /// Those who wait to be.
    waiting: VecDeque<DeviceId>,
}

impl AveragingRun {
    /// Of models of so many bytes in memory of `bandwidth` [B/s].
    pub(super) fn new(period: u64, bytes: f64, bandwidth: f64) -> AveragingRun {
        AveragingRun {
            period,
            own: OWN_PASSES * bytes,
            shared: Delay::once(SHARED_PASSES * bytes / bandwidth),
            over: 0,
            drawn: 0,
            all_drawn: Time::ZERO,
            waiting: VecDeque::new(),
        }
    }

    /// Steps of each learner that the reference models have been averaged after.
    pub(super) fn averaged_steps(&self) -> u64 {
        self.over * self.period
    }

    /// All learners have the reference model that was averaged after so many steps.
    pub(super) fn restart(&mut self, steps: u64) {
        (self.over, self.drawn) = (steps / self.period, 0);
        self.waiting.clear();
    }

    /// Whether models are averaged after so many steps.
    pub(super) fn is_due(&self, steps: u64) -> bool {
        steps.is_multiple_of(self.period)
    }

    /// Whether all learners that stand still after so many steps do.
    pub(super) fn rests_at(&self, steps: u64) -> bool {
        steps / self.period == self.over
    }

    /// The first number of steps by which every learner can stand still, if the slowest has done `completed`.
    pub(super) fn rest_after(&self, completed: u64) -> u64 {
        (completed / self.period + 2) * self.period
    }
}

impl Jobs {
    /// Device `d` has trained for a period: it is drawn to its reference model, now or when that is up to date.
    pub(super) fn average(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        if device.state != State::Averaging {
            // Its job has ended.
            return;
        }
        device.since = env.now;
        let (next, job) = (device.next, device.job);
        self.trace_device(env, d, "averaging");
        let Some(run) = &mut self.jobs[job].averaging else { return };
        if next / run.period - 1 > run.over {
            run.waiting.push_back(d);
        } else {
            self.draw_model(env, d);
        }
    }

    /// The reference model of device `d` is up to date.
    fn draw_model(&mut self, env: &mut Env, d: DeviceId) {
        let job = self.devices[d].job;
        let bytes = self.jobs[job].averaging.as_ref().map_or(0.0, |run| run.own);
        match self.gpu_of(d).and_then(|gpu| gpu.memory) {
            Some(group) => {
                env.network.start(env.now, group, bytes, ActivityId::Average(d));
            }
            None => self.drawn(env, d),
        }
    }

    /// Device `d` was drawn to its reference model, and goes on.
    pub(super) fn drawn(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        if device.state != State::Averaging {
            return;
        }
        let j = device.job;
        device.state = State::Idle;
        let start = std::mem::replace(&mut device.since, env.now);
        let cause = StallCause::own(Cause::Communication);
        self.jobs[j].steps.add_stall(Segment { start, end: env.now, cause });
        self.trace_device(env, d, "waiting");
        let parties = self.jobs[j].barrier.parties();
        let Some(run) = &mut self.jobs[j].averaging else { return };
        run.drawn += 1;
        if run.drawn == parties {
            run.all_drawn = env.now;
            self.average_among_gpus(env, j);
        }
        // What is averaged at once is so before it goes on.
        env.notices.push_back(Notice::GoOn(d));
    }

    /// All learners of job copy `j` were drawn: what they corrected is added up among GPUs, if there are several.
    fn average_among_gpus(&mut self, env: &mut Env, j: JobId) {
        match &self.jobs[j].sync {
            None => self.exchanged(env, j),
            Some(sync) => {
                let c = sync.communicator;
                self.communicators.all[c].start_all(env.now);
                self.communicators.begin_next(env, c);
            }
        }
    }

    /// Every GPU has the sum.
    pub(super) fn exchanged(&mut self, env: &mut Env, j: JobId) {
        let Some(run) = &self.jobs[j].averaging else { return };
        if run.shared.span.0 == 0 {
            return self.averaged(env, j);
        }
        env.after(run.shared, Event::Waited(ActivityId::Averaged(j)));
    }

    /// Every GPU's reference model is up to date.
    pub(super) fn averaged(&mut self, env: &mut Env, j: JobId) {
        let Some(run) = &mut self.jobs[j].averaging else { return };
        run.over += 1;
        run.drawn = 0;
        let (all_drawn, waiting) = (run.all_drawn, std::mem::take(&mut run.waiting));
        if !self.jobs[j].finished {
            self.begins_checkpoint(env, j);
        }
        for d in waiting {
            if self.devices[d].state == State::Averaging {
                self.end_wait_for_average(env.now, d, all_drawn);
                self.draw_model(env, d);
            }
        }
        self.resume_learners(env, j);
    }

    /// Device `d` waited for other learners until all were drawn, and then for the average.
    fn end_wait_for_average(&mut self, now: Time, d: DeviceId, all_drawn: Time) {
        let device = &mut self.devices[d];
        let since = std::mem::replace(&mut device.since, now);
        let steps = &mut self.jobs[device.job].steps;
        let middle = all_drawn.clamp(since, now);
        let cause = StallCause::peer(Cause::Compute);
        steps.add_stall(Segment { start: since, end: middle, cause });
        let cause = StallCause::own(Cause::Communication);
        steps.add_stall(Segment { start: middle, end: now, cause });
    }
}
