//! Loaders of job copies that fail: the position of a loader in its data that a checkpoint saves, the end of everything that a loader
//! has in progress, and its restart from a saved position.

use forebay_engine::Time;
use forebay_metrics::{BegunEpochs, Polling, Requests, StageBuffer, Tuner};
use forebay_report::SampleCounts;

use super::lineage::Passed;
use super::loader_run::LoaderProgress;
use super::loaders::Loaders;
use super::worker::Item;
use crate::env::Env;
use crate::ids::LoaderId;

/// The samples of a loader that steps have trained on, or that its circular queue has lost.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cursor {
    /// Number of samples; `batches` is the number of batches, if the loader counts batches.
    pub(crate) samples: u64,
    pub(crate) batches: u64,
    /// The samples one by one, if the job may fail.
    pub(crate) passed: Passed,
    /// The batches of the epochs that are not over, if the loader makes batches on request.
    pub(crate) begun: BegunEpochs,
}

/// The initial state of a loader's buffers, requests and pacing, to which each restart returns.
#[derive(Debug)]
pub(crate) struct InitialLoader {
    stages: Vec<StageBuffer<Item>>,
    requests: Option<Box<Requests>>,
    polling: Option<Box<Polling>>,
    tuner: Option<Box<Tuner>>,
}

impl Loaders {
    /// Returns the state of loader `l`, which has not begun to read.
    pub(crate) fn initial(&self, l: LoaderId) -> InitialLoader {
        let loader = &self.loaders[l];
        InitialLoader {
            stages: self.stages[loader.stages.all].iter().map(|of| of.buffer.clone()).collect(),
            requests: loader.requests.clone(),
            polling: loader.pacing.polling.clone(),
            tuner: loader.pacing.tuner.clone(),
        }
    }

    /// Returns the position of loader `l`, as a checkpoint saves it. `steps` returns how many steps of a model copy the checkpoint
    /// contains; `base` is the number of samples that had left the queue before a restart and were read once more.
    pub(crate) fn cursor(&mut self, l: LoaderId, base: u64, steps: impl Fn(u32) -> u64) -> Cursor {
        let loader = &mut self.loaders[l];
        let lineage = loader.lineage.as_mut();
        let passed = lineage.map_or_else(Passed::default, |lineage| lineage.settle(steps));
        let requests = loader.requests.as_mut();
        let begun = requests.and_then(|requests| requests.begun(passed.turns()));
        Cursor {
            samples: loader.queue.passed() - base,
            batches: loader.requests.as_ref().map_or(0, |requests| requests.taken()),
            passed,
            begun: begun.unwrap_or_default(),
        }
    }

    /// Sets the samples of loader `l` that steps have trained on back to `passed`; those that came later are read again.
    pub(crate) fn roll_back(&mut self, l: LoaderId, passed: &Passed) {
        if let Some(lineage) = &mut self.loaders[l].lineage {
            lineage.restart(passed);
        }
    }

    /// Stops loader `l`, whose reads have been cancelled: nobody waits for its batches, and its workers have nothing to do.
    pub(crate) fn stop(&mut self, env: &mut Env, l: LoaderId) {
        let loader = &mut self.loaders[l];
        loader.waiters.clear();
        loader.gpus.shared.iter_mut().for_each(|gpu| gpu.clear(env.now));
        for w in loader.stages.workers {
            self.stop_worker(env, w);
        }
    }

    /// Lets loader `l`, which is stopped, read again from `from` on, after it has returned to its state `initial`; `coming` samples
    /// and `more` batches come besides those that passed. Returns the work that is thrown away, and the number of samples that have
    /// left the queue in the whole run.
    pub(crate) fn restart(
        &mut self,
        now: Time,
        l: LoaderId,
        initial: &InitialLoader,
        from: Cursor,
        (coming, more): (u64, u64),
    ) -> (SampleCounts, u64) {
        let loader = &mut self.loaders[l];
        // Workers that get requests for samples of shards take the next samples of their shards, whatever their turns are.
        let by_sample = loader.source.layout.is_by_sample();
        let begun = if by_sample { from.begun } else { from.begun.renumbered() };
        if let Some(lineage) = &mut loader.lineage {
            lineage.restart(&from.passed);
            lineage.renumber(&begun.trained());
        }
        let mut thrown =
            SampleCounts { dropped: loader.progress.in_progress, ..SampleCounts::default() };
        // Samples in the queue at the start were not read; those that were not trained on are read now.
        let read = from.passed.samples.count();
        thrown.started = loader.progress.started - read;
        let quota = read.saturating_add(coming);
        loader.progress = LoaderProgress { started: read, ..LoaderProgress::new(quota) };
        thrown.cleared = loader.queue.clear(now, coming);
        loader.requests.clone_from(&initial.requests);
        loader.pacing.polling.clone_from(&initial.polling);
        loader.pacing.tuner.clone_from(&initial.tuner);
        let batch = loader.queue.batch().max(1);
        let taken = if loader.requests.is_some() { from.batches } else { from.samples / batch };
        loader.first_batches.resume(taken);
        if let Some(requests) = &mut loader.requests {
            requests.resume(from.batches, begun);
            requests.extend(from.batches.saturating_add(more));
        }
        if loader.requests.is_none() || !by_sample {
            loader.source.restart(from.passed.samples);
        }
        for (s, stage) in loader.stages.all.iter().zip(&initial.stages) {
            self.stages[s].buffer = stage.clone().coming(coming);
        }
        (thrown, loader.queue.passed())
    }
}
