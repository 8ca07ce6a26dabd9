//! Loaders whose work repeats exactly from step to step: which ones can, in which state they are, and how they leave repeated
//! steps out.

use forebay_engine::{Fingerprint, Span, Time};
use forebay_scenario::ENDLESS;

use super::loaders::Loaders;
use super::worker::{Item, Work, Worker};
use crate::env::Env;
use crate::ids::{Ids, LoaderId};

impl Loaders {
    /// Returns whether loader `l` does the same work for each batch, whatever the samples: nothing is drawn, kept or tuned, and no
    /// epoch begins anew.
    pub(crate) fn may_repeat(&self, env: &Env, l: LoaderId) -> bool {
        let loader = &self.loaders[l];
        let rests = loader.requests.is_some() || loader.pacing.rests();
        let keeps = loader.features.keeps || loader.caches.exist();
        if rests || keeps || !loader.queue.is_plain() || !loader.gpus.shared.is_empty() {
            return false;
        }
        loader.stages.all.iter().all(|s| {
            let stage = &self.stages[s];
            let works = Ids::new(stage.first_operation, stage.first_operation + stage.operations);
            self.works[works].iter().all(|work| self.is_constant(env, l, work))
        })
    }

    /// Returns whether an operation of loader `l` takes the same time and the same resources for each sample.
    fn is_constant(&self, env: &Env, l: LoaderId, work: &Work) -> bool {
        let loader = &self.loaders[l];
        match work {
            Work::Compute(draw) | Work::Delay(draw) => draw.constant.is_some(),
            Work::Decode(..) | Work::Memcpy(_) => true,
            Work::Team(team) => self.is_constant(env, l, &team.work),
            Work::Read => {
                let mount = &loader.mount;
                let tokens = mount.station.is_some_and(|s| env.stations[s].tokens().is_some());
                let sizes = self.storages.sizes.get(loader.source.dataset);
                loader.features.plain.is_some()
                    && mount.latency.is_constant()
                    && !tokens
                    && sizes.is_some_and(|sizes| sizes.constant().is_some())
            }
            // These take turns on a node's GPUs, by the number of the item.
            Work::Copy | Work::CopyStored | Work::Kernel(_) => false,
        }
    }

    /// Returns whether any worker has something to do at this instant.
    pub(crate) fn is_at_work(&self) -> bool {
        !self.runnable.is_empty()
    }

    /// Adds the state of loader `l`, none of whose workers does anything, to a fingerprint. Returns false if the future depends on
    /// more than that.
    pub(crate) fn describe(&self, l: LoaderId, to: &mut Fingerprint) -> bool {
        let loader = &self.loaders[l];
        loader.queue.describe(to);
        to.add(loader.progress.in_progress);
        to.add(loader.waiters.len() as u64);
        let mut is_all = true;
        for s in loader.stages.all {
            let buffer = &self.stages[s].buffer;
            let item = |item: &Item, to: &mut Fingerprint| {
                to.add_all([
                    item.samples.into(),
                    item.bytes.to_bits(),
                    item.worker.number().into(),
                ]);
            };
            is_all &= buffer.describe(to, item);
            for w in loader.stages.workers_of(s) {
                let worker: &Worker = &self.workers[w];
                let number = buffer.inputs().wrapping_sub(worker.item.sequence);
                item(&worker.item, to);
                let doing = [
                    worker.phase as u64,
                    worker.cursor.sample.into(),
                    worker.cursor.operation.into(),
                ];
                to.add_all(doing);
                to.add_all([
                    number,
                    worker.requests.into(),
                    worker.parts.into(),
                    worker.refusals.into(),
                ]);
            }
        }
        is_all
    }

    /// Begins to record a cycle of the queue of loader `l` at `now`.
    pub(crate) fn begin_cycle(&mut self, now: Time, l: LoaderId) {
        self.loaders[l].queue.begin_cycle(now);
    }

    /// Discards the cycle that the queue of loader `l` records.
    pub(crate) fn discard_cycle(&mut self, l: LoaderId) {
        self.loaders[l].queue.discard_cycle();
    }

    /// Returns the number of samples that loader `l` has started.
    pub(crate) fn started(&self, l: LoaderId) -> u64 {
        self.loaders[l].progress.started
    }

    /// Returns how often loader `l` may start `samples` more samples; `None` if there is no limit.
    pub(crate) fn times_left(&self, l: LoaderId, samples: u64) -> Option<u64> {
        let progress = &self.loaders[l].progress;
        (progress.quota != ENDLESS && samples > 0).then(|| progress.left() / samples)
    }

    /// Leaves out `times` repetitions of the cycle that ends at `now` and in which loader `l` has started `samples` samples.
    pub(crate) fn repeat_cycle(
        &mut self,
        now: Time,
        l: LoaderId,
        (cycle, times): (Span, u64),
        samples: u64,
    ) {
        let loader = &mut self.loaders[l];
        loader.leave_out(samples * times);
        loader.queue.repeat_cycle(now, cycle, times);
    }
}
