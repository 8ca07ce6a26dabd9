//! Job copies whose steps repeat exactly: which ones can, in which state they rest between two steps, and how they leave repeated
//! steps out.
//!
//! A job copy rests after a step if all its devices have ended the step, none has begun the next one, and nothing else of it is in
//! progress. What it does then follows from little: from its settings, from the states of devices, communicators, checkpoints and
//! loaders that [`Jobs::rest_state`] lists, and from how often it has done some things, modulo their periods.

use forebay_engine::{Fingerprint, Span, Time};
use forebay_report::{ParallelOutcome, RecoveryOutcome};
use forebay_scenario::{BatchInterval, ENDLESS};

use super::job_run::JobRun;
use super::jobs::Jobs;
use super::program::ParallelDevice;
use crate::env::Env;
use crate::ids::{JobId, LoaderId, RangeVec};

/// What is left of a job copy's goal, if the copy goes on as in its last steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeftOfGoal {
    /// Number of whole cycles that need not be simulated, so that at least one step remains; `None` without a goal.
    pub(crate) cycles: Option<u64>,
    /// Upper bound of the number of cycles, whole or not, until the goal is reached.
    pub(crate) until_end: Option<u64>,
}

/// Totals of a job copy that grow by the same amount in each repeated cycle.
#[derive(Debug, Clone)]
pub(crate) struct JobTotals {
    /// Number of samples that each loader has started.
    started: RangeVec<LoaderId, u64>,
    pub(crate) sent: ParallelOutcome,
    pub(crate) recovery: Option<RecoveryOutcome>,
    /// Number of checkpoints that have begun.
    pub(crate) begun: usize,
}

impl Jobs {
    /// Returns whether the steps of the run can come to repeat exactly: there is one job copy, and nothing that it does is drawn, kept
    /// in caches, or tuned.
    pub(crate) fn may_repeat(&self, env: &Env) -> bool {
        let [job] = self.jobs.as_slice() else { return false };
        let plan = &job.plan;
        let drawn = plan.jitter.is_some() || plan.launch.is_some() || plan.threads.is_some();
        let apart = job.trains_apart() || job.takes_ahead() || job.learners.may_change();
        let averages = !job.parts.averages.is_empty() || !job.parts.servers.is_empty();
        let mut loaders = job.parts.loaders.iter();
        !(drawn || apart || averages) && loaders.all(|l| self.loaders.may_repeat(env, l))
    }

    /// Lets the job copy halt after each step at which it may rest; [`Jobs::take_halted`] returns it then, and
    /// [`Jobs::go_on_after_halt`] lets it go on.
    pub(crate) fn halt_after_steps(&mut self, halts: bool) {
        self.halts = halts;
    }

    /// Lets job copy `j` halt before its next step if it is to halt there, and nothing else is to be done at this instant; returns
    /// whether it does.
    #[inline]
    pub(super) fn halt(&mut self, env: &Env, j: JobId) -> bool {
        let halts = self.halts && env.notices.is_empty() && !self.loaders.is_at_work();
        if halts {
            self.halted = Some(j);
        }
        halts
    }

    /// Returns the job copy that has halted, if one has.
    #[inline]
    pub(crate) fn take_halted(&mut self) -> Option<JobId> {
        self.halted.take()
    }

    /// Lets job copy `j`, which has halted, begin its next step.
    pub(crate) fn go_on_after_halt(&mut self, env: &mut Env, j: JobId) {
        self.next_step(env, j);
    }

    /// Adds what changes first between two states of job copy `j`, and is found fast, to a fingerprint: the place of the next step in
    /// all periods, and the time until the next checkpoint, if it is due before `end`. Returns false if the job copy does not rest, or
    /// if its future depends on more.
    pub(crate) fn describe_phase(&self, end: Time, j: JobId, to: &mut Fingerprint) -> bool {
        let job = &self.jobs[j];
        let step = job.steps.completed();
        to.add(job.plan.programs.place(step));
        to.add(step % job.plan.period);
        match job.plan.batches.interval {
            BatchInterval::Every(steps) if steps.fract() == 0.0 => to.add(step % steps as u64),
            BatchInterval::Every(_) => to.add(step),
            BatchInterval::Adaptive { .. } => {}
        }
        let first = job.parts.loaders.start;
        to.add(self.loaders.level(first));
        job.rests() && self.recoveries.describe(job.parts, (end, step), to)
    }

    /// Returns the digest of the state of job copy `j`, whose phase is in `to`; `None` if the job copy does not rest, or if its future
    /// depends on more than that.
    pub(crate) fn rest_state(&self, j: JobId, mut to: Fingerprint) -> Option<[u64; 2]> {
        let (job, to) = (&self.jobs[j], &mut to);
        let step = job.steps.completed();
        let mut devices = self.devices[job.parts.devices].iter();
        let rests = job.describe(to)
            && devices.all(|device| device.describe(step, to))
            && self.communicators.describe(job.parts.communicators, step, to)
            && job.parts.loaders.iter().all(|l| self.loaders.describe(l, to));
        rests.then(|| to.digest())
    }

    /// Adds the link use of job copy `j`, which rests, up to now: of those collectives whose links nothing else uses.
    pub(crate) fn settle_own_links(&mut self, env: &Env, j: JobId) {
        self.communicators.settle_own_links(env, self.jobs[j].parts.communicators);
    }

    /// Returns the number of complete steps of job copy `j`.
    pub(crate) fn completed(&self, j: JobId) -> u64 {
        self.jobs[j].steps.completed()
    }

    /// Returns the duration of the last `cycle` steps of job copy `j`.
    pub(crate) fn span_of_last(&self, j: JobId, cycle: u64) -> Span {
        self.jobs[j].steps.span_of_last(cycle)
    }

    /// Returns the number of events in the last `cycle` steps of job copy `j`.
    pub(crate) fn events_in_last(&self, j: JobId, cycle: u64) -> u64 {
        self.jobs[j].steps.events_in_last(cycle)
    }

    /// Returns whether the last `cycle` steps of job copy `j` are exactly as the `cycle` steps before them.
    pub(crate) fn repeats(&mut self, j: JobId, cycle: u64) -> bool {
        self.jobs[j].steps.repeats(cycle)
    }

    /// Returns what is left of the goal of job copy `j` if it goes on with the last `cycle` steps.
    pub(crate) fn left_of_goal(&self, j: JobId, cycle: u64) -> LeftOfGoal {
        let job = &self.jobs[j];
        let (goal, fresh) = (job.plan.goal, job.steps.fresh_in_last(cycle));
        let of = |goal: u64, done: u64, each: u64| {
            (goal != ENDLESS && each > 0).then(|| goal.saturating_sub(done).div_ceil(each))
        };
        let (steps, fresh) = (
            of(goal.steps, job.steps.completed(), cycle),
            of(goal.fresh, job.steps.fresh(), fresh),
        );
        let until_end = steps.into_iter().chain(fresh).min();
        // The last cycle, whole or not, is simulated.
        LeftOfGoal { cycles: until_end.map(|cycles| cycles.saturating_sub(1)), until_end }
    }

    /// Returns the totals of job copy `j`, whose queues begin to record a cycle.
    pub(crate) fn begin_cycle(&mut self, now: Time, j: JobId) -> JobTotals {
        for l in self.jobs[j].parts.loaders {
            self.loaders.begin_cycle(now, l);
        }
        self.totals(j)
    }

    /// Discards the cycle that the queues of job copy `j` record.
    pub(crate) fn discard_cycle(&mut self, j: JobId) {
        for l in self.jobs[j].parts.loaders {
            self.loaders.discard_cycle(l);
        }
    }

    /// Returns the totals of job copy `j`.
    pub(crate) fn totals(&self, j: JobId) -> JobTotals {
        let JobRun { parts, ref spread, .. } = self.jobs[j];
        let started = parts.loaders.iter().map(|l| self.loaders.started(l));
        JobTotals {
            started: RangeVec::new(parts.loaders.start, started),
            sent: self.communicators.with_sent(parts.communicators, spread.books),
            recovery: self.recoveries.outcome(parts),
            begun: self.recoveries.begun(parts).len(),
        }
    }

    /// Returns how often the loaders of job copy `j` can read what they have read since `before`; `None` if there is no limit.
    pub(crate) fn times_left(&self, j: JobId, before: &JobTotals) -> Option<u64> {
        let of =
            |l: LoaderId| self.loaders.times_left(l, self.loaders.started(l) - before.started[l]);
        self.jobs[j].parts.loaders.iter().filter_map(of).min()
    }

    /// Leaves out `times` repetitions of the last `cycle` steps of job copy `j`, which end at `now` and began with the totals
    /// `before`: its goal comes nearer, and its records of steps and queues go on as if the steps had been done.
    pub(crate) fn repeat_cycle(
        &mut self,
        now: Time,
        j: JobId,
        (cycle, times): (u64, u64),
        before: &JobTotals,
    ) {
        let job = &mut self.jobs[j];
        let (goal, fresh) = (&mut job.plan.goal, job.steps.fresh_in_last(cycle));
        if goal.steps != ENDLESS {
            goal.steps -= cycle * times;
        }
        if goal.fresh != ENDLESS {
            goal.fresh -= fresh * times;
        }
        let span = job.steps.span_of_last(cycle);
        job.steps.repeat(cycle, times);
        for l in job.parts.loaders {
            let started = self.loaders.started(l) - before.started[l];
            self.loaders.repeat_cycle(now, l, (span, times), started);
        }
    }
}

impl JobTotals {
    /// Adds what was gained since `before`, `times` times, to an outcome's bytes, recoveries and times of checkpoints; each of the
    /// left-out cycles took `span`.
    pub(crate) fn extend(
        &self,
        before: &JobTotals,
        (span, times): (Span, u64),
        (sent, recovery, begun): (
            &mut Option<ParallelOutcome>,
            &mut Option<RecoveryOutcome>,
            &mut Vec<f64>,
        ),
    ) {
        if let Some(sent) = sent {
            sent.add_gained(&self.sent, &before.sent, times as f64);
        }
        if let (Some(all), Some(now), Some(before)) = (recovery, &self.recovery, &before.recovery) {
            all.add_gained(now, before, times);
        }
        let tail = begun.split_off(self.begun);
        let cycle: Vec<f64> = begun[before.begun..].to_vec();
        for again in 1..=times {
            begun.extend(cycle.iter().map(|at| at + Span(span.0 * again).seconds()));
        }
        begun.extend(tail.iter().map(|at| at + Span(span.0 * times).seconds()));
    }
}

impl JobRun {
    /// Returns whether no batch has been recorded for a step in progress.
    fn rests(&self) -> bool {
        self.meets_after(self.steps.completed()) && self.open_is_empty()
    }

    /// Adds which devices have ended steps in progress to a fingerprint. Returns false if anything is on its way between stages.
    fn describe(&self, to: &mut Fingerprint) -> bool {
        self.describe_tally(to);
        self.spread.parts.as_slice().iter().all(ParallelDevice::is_quiet)
    }
}
