//! What loaders have done, as parts of the outcome of their job copies.

use forebay_engine::Time;
use forebay_engine::stats::LogHistogram;
use forebay_report::{
    CacheRequests, JobOutcome, QueueOutcome, QueueTotals, SampleCounts, Series, TierRequests,
    TrainedSample,
};

use super::loaders::Loaders;
use crate::env::Env;
use crate::ids::LoaderId;

impl Loaders {
    /// Returns the numbers of samples that loader `l` has started, and that entered and left its queue up to `now`.
    pub(crate) fn totals(&mut self, now: Time, l: LoaderId) -> QueueTotals {
        let loader = &mut self.loaders[l];
        QueueTotals { started: loader.started(), ..loader.queue.totals(now) }
    }

    /// Returns each sample of loader `l` that complete steps trained on, if such samples are recorded; otherwise an empty list.
    /// `steps` returns the number of complete steps of a model copy.
    pub(crate) fn trained_on(
        &mut self,
        env: &Env,
        l: LoaderId,
        steps: impl Fn(u32) -> u64,
    ) -> Vec<TrainedSample> {
        let loader = &mut self.loaders[l];
        let Some(lineage) = &mut loader.lineage else { return Vec::new() };
        lineage.settle(steps);
        let (source, number) = (&mut loader.source, loader.place.owner());
        let sample = |place| {
            let (epoch, sample) = source.sample(place, number, &env.streams);
            TrainedSample { epoch, sample }
        };
        lineage.take_record().into_iter().map(sample).collect()
    }

    /// Adds what loader `l` has done up to `now` to the outcome of its job copy, and the ages of its samples to `ages`.
    pub(crate) fn add_outcome(
        &mut self,
        now: Time,
        l: LoaderId,
        outcome: &mut JobOutcome,
        ages: &mut LogHistogram,
    ) {
        let loader = &mut self.loaders[l];
        let totals = loader.queue.totals(now);
        let queue: &mut QueueOutcome = &mut outcome.queue;
        loader.queue.collect(now, queue);
        // If batches are made on request, the workers of the first stage are those that wait for requests.
        let stage = match &mut loader.requests {
            Some(requests) => {
                outcome.deliveries.append(&mut requests.deliveries());
                loader.stages.first()
            }
            None => loader.stages.last(),
        };
        queue.workers += loader.stages.workers_of(stage).len() as u64;
        outcome.first_batches.extend(loader.first_batches.taken());
        if let Some(of_queue) = loader.queue.ages() {
            ages.merge(of_queue);
        }
        if let Some(used) = &loader.caches.page_cache {
            add_requests(&mut outcome.cache, &used.requests);
        }
        if let (Some(tuner), true) = (&loader.pacing.tuner, outcome.tuned.is_empty()) {
            outcome.tuned = tuner.settled();
        }
        if let Some(decoded) = &loader.caches.decoded {
            add_requests(&mut outcome.decoded, &decoded.requests);
        }
        if let Some(tiers) = &loader.caches.tiers {
            add_tiers(&mut outcome.tiers, &tiers.requests);
            outcome.local += tiers.read;
        }
        let counts: &mut SampleCounts = &mut outcome.samples;
        counts.started += loader.started();
        counts.enqueued += totals.enqueued;
        counts.in_progress += loader.progress.in_progress;
        counts.dequeued += totals.dequeued;
        counts.overwritten += loader.queue.overwritten();
        counts.left += loader.queue.left();
        if let Some(snapshots) = loader.queue.snapshots() {
            let series: &mut Series = &mut outcome.series;
            snapshots.add_to(totals, series);
        }
    }
}

/// Adds the hits and misses of each epoch to the sums.
fn add_requests(sums: &mut Vec<CacheRequests>, requests: &[CacheRequests]) {
    sums.resize(sums.len().max(requests.len()), CacheRequests::default());
    for (sum, requests) in sums.iter_mut().zip(requests) {
        sum.hits += requests.hits;
        sum.misses += requests.misses;
    }
}

/// Adds the hits, peer reads and misses at tiers in each epoch to the sums.
fn add_tiers(sums: &mut Vec<TierRequests>, requests: &[TierRequests]) {
    sums.resize(sums.len().max(requests.len()), TierRequests::default());
    for (sum, requests) in sums.iter_mut().zip(requests) {
        sum.hits += requests.hits;
        sum.peers += requests.peers;
        sum.misses += requests.misses;
    }
}
