//! From a world at the end of its run to the outcome.

use crate::account::add_steps;
use crate::engine::Time;
use crate::fluid::{LinkId, LinkUse};
use crate::report::{
    CacheRequests, JobOutcome, LearnersOutcome, Outcome, QueueOutcome, ResourceOutcome,
    SampleCounts, Series, StagingOutcome, TierRequests, TrainedSample,
};
use crate::scenario::Scenario;
use crate::stats::LogHistogram;

use super::index::LoaderId;
use super::staging::Staging;
use super::trainer::JobRun;
use super::world::{Member, Resource, World};

impl World<'_> {
    /// What the run showed.
    pub(super) fn collect(mut self, scenario: &Scenario) -> Outcome {
        let now = self.now;
        self.jobs.ids().iter().for_each(|j| self.settle_own_links(now, j));
        let energy = self.energy(scenario, now);
        for j in self.jobs.ids() {
            if !self.jobs[j].finished {
                self.close_open(j);
            }
        }
        let mut jobs = std::mem::take(&mut self.jobs);
        let outcomes: Vec<JobOutcome> = jobs.iter_mut().map(|job| self.job(now, job)).collect();
        let resources = std::mem::take(&mut self.resources);
        let ends = outcomes.iter().filter_map(|job| job.steps.last()).map(|step| step.end);
        Outcome {
            makespan: ends.fold(0.0, f64::max),
            jobs: outcomes,
            resources: resources.into_iter().map(|r| self.resource(now, r)).collect(),
            events: self.events + self.flows,
            flows: self.flows,
            energy,
            trace: self.recorder.take().map(|recorder| recorder.finish(now)),
            ..Outcome::default()
        }
    }

    fn job(&mut self, now: Time, job: &mut JobRun) -> JobOutcome {
        let trained = self.trained_on(job);
        let (steps, stalls) = job.steps.finish(job.devices.len());
        let mut outcome = JobOutcome {
            job: job.job,
            copy: job.copy,
            start: job.start.seconds(),
            staging: self.staged(job),
            steps,
            stalls,
            trained,
            ..JobOutcome::default()
        };
        outcome.learners = self.learners(job);
        let (mut ages, nodes) = (LogHistogram::default(), job.loaders.len() as f64);
        for l in job.loaders {
            self.loader(now, l, &mut outcome, &mut ages);
        }
        outcome.parallel = job.parallel.as_ref().map(|parallel| parallel.books);
        if let Some(recovery) = &job.recovery {
            recovery.count(&mut outcome.samples);
            outcome.recovery = Some(recovery.books);
        }
        outcome.sync = job.servers.take().map(|servers| servers.books);
        outcome.steps.iter_mut().for_each(|step| step.queue.empty_seconds /= nodes);
        outcome.queue.ages = ages.iter().collect();
        outcome.queue.exhaustions.sort_by(|a, b| a.start.total_cmp(&b.start));
        add_steps(&outcome.steps, outcome.start, &mut outcome.series);
        outcome
    }

    /// The very samples of the steps of a job copy that are over, where they are recorded.
    fn trained_on(&mut self, job: &JobRun) -> Vec<TrainedSample> {
        let mut all = Vec::new();
        for loader in &mut self.loaders[job.loaders] {
            let Some(lineage) = &mut loader.lineage else { continue };
            lineage.settle(|model| job.steps_of(model));
            let (source, number) = (&mut loader.source, u64::from(loader.job.number()));
            all.extend(lineage.record().into_iter().map(|place| {
                let (epoch, sample) = source.sample(place, number, &self.streams);
                TrainedSample { epoch, sample }
            }));
        }
        all
    }

    /// What the learners of a job copy did with its GPUs, where that was looked at.
    fn learners(&self, job: &JobRun) -> Option<LearnersOutcome> {
        let loaders = &self.loaders[job.loaders];
        let mut gpus = loaders.iter().flat_map(|loader| &loader.gpus).peekable();
        gpus.peek()?;
        let mut outcome = job.learners.outcome();
        for gpu in gpus {
            outcome.occupancy += gpu.occupied.seconds();
            outcome.inputs = outcome.inputs.max(gpu.inputs.made());
            outcome.activations = outcome.activations.max(gpu.activations.made());
        }
        Some(outcome)
    }

    /// What was copied to the nodes of a job.
    fn staged(&self, job: &JobRun) -> Vec<StagingOutcome> {
        let all = &self.stagings[job.stagings];
        let one = |staging: &Staging| {
            let seconds = staging.ended?.since(staging.began).seconds();
            Some(StagingOutcome { seconds, bytes: staging.bytes })
        };
        all.iter().filter_map(one).collect()
    }

    fn loader(
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
        // Where batches are made on request, those wait who might be asked.
        let stage = match &mut loader.requests {
            Some(requests) => {
                outcome.deliveries.append(&mut requests.deliveries());
                loader.stages.start
            }
            None => loader.stages.end - 1,
        };
        queue.workers += loader.workers_of(stage).len() as u64;
        if let Some(of_queue) = loader.queue.ages() {
            ages.merge(of_queue);
        }
        if let Some(used) = &loader.cached {
            add_requests(&mut outcome.cache, &used.requests);
        }
        if let (Some(tuner), true) = (&loader.tuner, outcome.tuned.is_empty()) {
            outcome.tuned = tuner.settled();
        }
        if let Some(decoded) = &loader.decoded {
            add_requests(&mut outcome.decoded, &decoded.requests);
        }
        if let Some(tiers) = &loader.tiers {
            add_tiers(&mut outcome.tiers, &tiers.requests);
            outcome.local += tiers.read;
        }
        let counts: &mut SampleCounts = &mut outcome.samples;
        counts.started += loader.started;
        counts.enqueued += totals.enqueued;
        counts.in_progress += loader.in_progress;
        counts.dequeued += totals.dequeued;
        counts.overwritten += loader.queue.overwritten();
        counts.left += loader.queue.left();
        if let Some(snapshots) = loader.queue.snapshots() {
            let series: &mut Series = &mut outcome.series;
            snapshots.add_to(totals, series);
        }
    }

    /// What one of like resources has done up to `now`, with its capacity relative to `capacity`, the first's.
    pub(super) fn use_of(
        &mut self,
        now: Time,
        (member, relative): (Member, f64),
        capacity: f64,
    ) -> LinkUse {
        match member {
            Member::Link(link) => self.link_use(now, link),
            Member::Limiter(limiter) => self.limiters[limiter].usage(),
            Member::Arm(arm) => self.arms[arm].usage(now),
            Member::Table(table) => self.tables[table].usage(now),
            Member::Station(station) => {
                let queue = &mut self.stations[station].queue;
                let busy = queue.busy_seconds(now);
                // A server serves its part of the capacity while it is busy.
                let served = busy * capacity * relative / f64::from(queue.servers());
                LinkUse { busy, served, flow_seconds: queue.present_seconds(now) }
            }
        }
    }

    /// What a link has done, with what was followed beside the network.
    fn link_use(&self, now: Time, link: LinkId) -> LinkUse {
        let mut all = self.network.usage(now, link);
        if let Some(beside) = self.link_uses.get(&link) {
            all.busy += beside.busy;
            all.served += beside.served;
            all.flow_seconds += beside.flow_seconds;
        }
        all
    }

    fn resource(&mut self, now: Time, resource: Resource) -> ResourceOutcome {
        let elapsed = now.seconds().max(f64::MIN_POSITIVE);
        let capacity = resource.capacity;
        let use_of = |member: &(Member, f64)| self.use_of(now, *member, capacity);
        let uses: Vec<LinkUse> = resource.members.iter().map(use_of).collect();
        let count = uses.len().max(1) as f64;
        let utilisation = |served: f64| served / (resource.capacity * elapsed);
        // As much as one with the first's capacity would have served.
        let shares: Vec<f64> = uses
            .iter()
            .zip(&resource.members)
            .map(|(u, (_, relative))| u.served / relative)
            .collect();
        let served: f64 = uses.iter().map(|u| u.served).sum();
        ResourceOutcome {
            name: resource.name,
            count: uses.len() as u32,
            capacity: resource.capacity,
            unit: resource.unit,
            utilisation: utilisation(shares.iter().sum::<f64>() / count),
            utilisation_max: utilisation(shares.iter().copied().fold(0.0, f64::max)),
            mean_flows: uses.iter().map(|u| u.flow_seconds).sum::<f64>() / count / elapsed,
            served,
        }
    }
}

/// Adds requests to those of the same epoch.
fn add_requests(sums: &mut Vec<CacheRequests>, requests: &[CacheRequests]) {
    sums.resize(sums.len().max(requests.len()), CacheRequests::default());
    for (sum, requests) in sums.iter_mut().zip(requests) {
        sum.hits += requests.hits;
        sum.misses += requests.misses;
    }
}

/// The same of those that went to tiers.
fn add_tiers(sums: &mut Vec<TierRequests>, requests: &[TierRequests]) {
    sums.resize(sums.len().max(requests.len()), TierRequests::default());
    for (sum, requests) in sums.iter_mut().zip(requests) {
        sum.hits += requests.hits;
        sum.peers += requests.peers;
        sum.misses += requests.misses;
    }
}
