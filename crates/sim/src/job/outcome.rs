//! The outcome of job copies at the end of a run, or so far.

use forebay_engine::Time;
use forebay_engine::stats::LogHistogram;
use forebay_metrics::add_steps;
use forebay_report::{CacheRequests, JobOutcome, LearnersOutcome, TrainedSample};

use super::job_run::JobRun;
use super::jobs::Jobs;
use crate::env::Env;
use crate::ids::DeviceId;
use crate::storage::Stagings;

impl Jobs {
    /// Accounts for what devices and communicators were doing when the run ended.
    pub(crate) fn close(&mut self, env: &mut Env) {
        for j in self.jobs.ids() {
            self.communicators.settle_own_links(env, self.jobs[j].parts.communicators);
        }
        for j in self.jobs.ids() {
            if !self.jobs[j].is_finished() {
                self.close_open(j);
            }
        }
    }

    /// Returns the outcome of each job copy.
    pub(crate) fn outcomes(&mut self, env: &mut Env, stagings: &Stagings) -> Vec<JobOutcome> {
        let mut jobs = std::mem::take(&mut self.jobs);
        jobs.iter_mut().map(|job| self.outcome_of(env, stagings, job)).collect()
    }

    fn outcome_of(&mut self, env: &mut Env, stagings: &Stagings, job: &mut JobRun) -> JobOutcome {
        let trained = self.trained_on(env, job);
        let (steps, stalls) = job.steps.finish(job.parts.devices.len());
        let mut outcome = JobOutcome {
            job: job.job,
            copy: job.copy,
            start: job.start().seconds(),
            staging: stagings.outcome(job.parts.stagings),
            steps,
            stalls,
            trained,
            ..JobOutcome::default()
        };
        outcome.learners = self.learners(job);
        let (mut ages, nodes) = (LogHistogram::default(), job.parts.loaders.len() as f64);
        // The queue of a job copy that starts after the run's end exists from that start on.
        let now = env.now.max(job.start());
        for l in job.parts.loaders {
            self.loaders.add_outcome(now, l, &mut outcome, &mut ages);
        }
        let sent = self.communicators.with_sent(job.parts.communicators, job.spread.books);
        outcome.parallel = job.spread.shown.then_some(sent);
        if let Some(recovery) = self.recoveries.of(job.parts.recoveries) {
            recovery.count(&mut outcome.samples);
        }
        outcome.recovery = self.recoveries.outcome(job.parts);
        outcome.checkpoints = self.recoveries.begun(job.parts);
        outcome.sync = self.communicators.sync_outcome(job.parts.servers);
        outcome.steps.iter_mut().for_each(|step| step.queue.empty_seconds /= nodes);
        outcome.queue.ages = ages.iter().collect();
        outcome.queue.exhaustions.sort_by(|a, b| a.start.total_cmp(&b.start));
        if let Some(sampled) = &job.sampled {
            sampled.scale_outcome(&mut outcome);
        }
        add_steps(&outcome.steps, outcome.start, &mut outcome.series);
        outcome
    }

    /// Returns each sample that the completed steps of a job copy trained on, if such samples are recorded; otherwise an empty
    /// list.
    fn trained_on(&mut self, env: &Env, job: &JobRun) -> Vec<TrainedSample> {
        let loaders = job.parts.loaders.iter();
        loaders.flat_map(|l| self.loaders.trained_on(env, l, |model| job.steps_of(model))).collect()
    }

    /// Returns how the learners of a job copy used its GPUs; `None` if its GPUs are not simulated as shared.
    fn learners(&self, job: &JobRun) -> Option<LearnersOutcome> {
        let loaders = &self.loaders[job.parts.loaders];
        let mut gpus = loaders.iter().flat_map(|loader| loader.gpus.shared.iter()).peekable();
        gpus.peek()?;
        let mut outcome = job.learners.outcome();
        for gpu in gpus {
            gpu.add_to(&mut outcome);
        }
        Some(outcome)
    }
}

impl Jobs {
    /// Returns whether every job copy trains, and its failures at given times have happened.
    pub(crate) fn have_shown_all(&self) -> bool {
        let shown = |job: &JobRun| {
            let recovery = self.recoveries.are_shown(job.parts);
            job.is_finished() || job.steps.completed() > 0 && recovery
        };
        self.jobs.iter().all(shown)
    }

    /// Returns the part of a job copy's outcome so far from which the necessary length of the run is estimated.
    pub(crate) fn so_far(&self, job: &JobRun) -> JobOutcome {
        let loaders = &self.loaders[job.parts.loaders];
        let keeps = loaders.iter().any(|loader| loader.caches.exist());
        let mut steps = job.steps.so_far(job.parts.devices.len());
        if let Some(sampled) = &job.sampled {
            sampled.scale_steps(&mut steps);
        }
        JobOutcome {
            job: job.job,
            start: job.start().seconds(),
            steps,
            cache: if keeps { vec![CacheRequests::default()] } else { Vec::new() },
            recovery: self.recoveries.outcome(job.parts),
            checkpoints: self.recoveries.begun(job.parts),
            ..JobOutcome::default()
        }
    }
}

impl Jobs {
    /// Returns the time that a GPU has computed as device `d` up to `now` [s]; if the device consists of several GPUs, the time
    /// for each of them. If several learners share the GPU, excludes the time that is simulated as flows on the GPU.
    pub(crate) fn gpu_seconds(&self, now: Time, d: DeviceId) -> f64 {
        let device = &self.devices[d];
        if self.jobs[device.job].plan.threads.is_some() {
            return 0.0;
        }
        if !self.loaders[device.loader].gpus.shared.is_empty() {
            return device.account.updated();
        }
        device.account.computed(now) + device.account.updated()
    }
}
