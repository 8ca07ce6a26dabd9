//! Number of learners on each GPU, and Crossbow's policy that chooses it (Koliousis et al., PVLDB 12(11), 2019): one more
//! learner on each GPU as long as this raises the throughput by more than a threshold.

use forebay_engine::Time;
use forebay_report::{LearnersOutcome, LearnersTried};
use forebay_scenario::{Learners, Tuning};

use super::jobs::Jobs;
use crate::device::State;
use crate::env::Env;
use crate::ids::JobId;

/// Value of `held_at` when no learner is held.
const NEVER: u64 = u64::MAX;

/// The learners of a job copy.
#[derive(Debug)]
pub(crate) struct LearnersRun {
    /// Current number of learners on each GPU; `most` is the maximum.
    number: u32,
    most: u32,
    /// The policy that chooses the number of learners; `None` once it has decided.
    tuning: Option<Tuning>,
    /// Time and step at which the current throughput window began.
    since: (Time, u64),
    /// Throughput measured with one learner fewer on each GPU [samples/s].
    before: Option<f64>,
    /// Number of learners on each GPU after the next change, which happens when all learners stand still.
    next: u32,
    /// Step that no learner begins before the next change of the number of learners.
    held_at: u64,
    tried: Vec<LearnersTried>,
}

impl LearnersRun {
    pub(crate) fn new(learners: Learners) -> LearnersRun {
        LearnersRun {
            number: learners.first(),
            most: learners.most,
            tuning: learners.tuning,
            since: (Time::ZERO, 0),
            before: None,
            next: learners.first(),
            held_at: NEVER,
            tried: Vec::new(),
        }
    }

    /// Returns the current number of learners on each GPU.
    #[inline]
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Returns the share of the learners that a GPU may have that are in use.
    pub(super) fn share(&self) -> f64 {
        f64::from(self.number) / f64::from(self.most)
    }

    /// Returns whether no learner begins `step` before the next change of their number.
    #[inline]
    pub(super) fn holds(&self, step: u64) -> bool {
        step >= self.held_at
    }

    /// Returns whether the policy may still change the number of learners.
    #[inline]
    pub(super) fn may_change(&self) -> bool {
        self.tuning.is_some() || self.held_at != NEVER
    }

    /// Begins a throughput window at `now`, after `completed` complete steps.
    pub(super) fn begin_window(&mut self, now: Time, completed: u64) {
        self.since = (now, completed);
    }

    /// Returns whether the throughput window ends after `completed` complete steps.
    pub(super) fn is_due(&self, completed: u64) -> bool {
        let window = |tuning: &Tuning| completed == self.since.1.saturating_add(tuning.window);
        self.held_at == NEVER && self.tuning.as_ref().is_some_and(window)
    }

    /// Returns the number of learners on each GPU to use next if the throughput is `rate` [samples/s], and whether that is
    /// final.
    fn decide(&self, rate: f64) -> (u32, bool) {
        let threshold = self.tuning.map_or(0.0, |tuning| tuning.threshold);
        let pays = self.before.is_none_or(|before| (rate - before) / before > threshold);
        match pays {
            true if self.number < self.most => (self.number + 1, false),
            true => (self.number, true),
            false => (self.number - 1, true),
        }
    }

    /// Decides on the number of learners from the throughput of the window that ends at `now`, after `completed` complete steps of
    /// `samples` samples each; returns whether the number is to change.
    fn look_at_throughput(&mut self, now: Time, (completed, samples): (u64, u64)) -> bool {
        let (since, first) = self.since;
        let samples = (completed - first) * samples;
        let rate = samples as f64 / now.since(since).seconds();
        self.tried.push(LearnersTried {
            since: since.seconds(),
            learners: self.number,
            samples_per_second: rate,
        });
        let (next, done) = self.decide(rate);
        (self.before, self.next) = (Some(rate), next);
        if done {
            self.tuning = None;
        }
        next != self.number
    }

    /// Sets the number of learners at `now`, after `completed` complete steps, to the number that was decided on, and returns it.
    pub(super) fn change(&mut self, now: Time, completed: u64) -> u32 {
        (self.number, self.held_at) = (self.next, NEVER);
        self.begin_window(now, completed);
        self.number
    }

    /// Returns the final number of learners and the numbers tried, as parts of the outcome.
    pub(super) fn outcome(&self) -> LearnersOutcome {
        LearnersOutcome {
            per_gpu: self.number,
            tried: self.tried.clone(),
            ..LearnersOutcome::default()
        }
    }
}

impl Jobs {
    /// Lets the policy of job copy `j` decide on the number of learners, from the throughput of the last window.
    pub(super) fn look_at_throughput(&mut self, env: &mut Env, j: JobId) {
        let job = &mut self.jobs[j];
        let completed = job.steps.completed();
        let samples = job.plan.batch * u64::from(job.models());
        if !job.learners.look_at_throughput(env.now, (completed, samples)) {
            return;
        }
        let window = self.jobs[j].plan.window;
        match self.averages(j).map(|averages| averages.rest_after(completed)) {
            Some(rest) => self.jobs[j].learners.held_at = rest,
            None if window > 1 => self.jobs[j].learners.held_at = completed + window,
            None => self.change_learners(env, j),
        }
    }

    /// Changes the number of learners of job copy `j` after a step or an average of models, if all learners stand still for the
    /// change; then lets the learners go on.
    pub(super) fn resume_learners(&mut self, env: &mut Env, j: JobId) {
        let job = &self.jobs[j];
        let held_at = job.learners.held_at;
        let done = || job.steps.completed() == held_at;
        let still = self.averages(j).map_or_else(done, |of| of.rests_at(held_at));
        if job.is_finished() || !still {
            return;
        }
        for d in self.jobs[j].parts.devices {
            if self.devices[d].account.state() == State::Idle {
                self.settle(d, env.now);
            }
        }
        self.change_learners(env, j);
        for d in self.jobs[j].parts.devices {
            self.try_start(env, d);
        }
    }

    /// Sets the number of learners of job copy `j` to the number that the policy decided on; all learners stand still.
    fn change_learners(&mut self, env: &mut Env, j: JobId) {
        let job = &mut self.jobs[j];
        let (number, completed) = (job.change_learners(env.now), job.steps.completed());
        for d in job.parts.devices {
            let device = &mut self.devices[d];
            let goes = device.learner < number;
            let stands = device.account.state() == State::Idle;
            if goes && !stands {
                device.account.start(env.now);
                device.go_to(completed);
            } else if !goes && stands {
                device.retire(env.now);
                self.devices.trace(env, d, "away");
            }
        }
    }
}
