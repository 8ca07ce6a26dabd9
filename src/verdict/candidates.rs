//! Candidates for the bottleneck, from the report of a run, the most promising first.

use crate::report::format::share;
use crate::report::{Cause, JobFigures, JobReport, Report, StallCause};
use crate::scenario::{Job, Scenario};

use super::checkpoints;
use super::failure_free::FEWEST_FAILURES;
use super::lever::{Kind, Lever};
use super::relax::relaxed;
use super::transport;

/// Minimum share of a job's time at which a cause of stalls is considered.
pub(super) const NOTED: f64 = 0.05;
/// Minimum utilisation at which a resource is considered.
pub(super) const USED: f64 = 0.7;
/// Minimum utilisation at which a resource counts as full.
pub(super) const FULL: f64 = 0.95;
/// Minimum share of time spent computing at which the step time is considered.
const COMPUTING: f64 = 0.9;
/// Promise of removing a fault behind at least half of the waits, in addition to the share of these waits.
const FAULT: f64 = 2.0;
/// Ratio of the estimated saving of a lever to that of the lever before it, among the levers for one cause of stalls: later
/// levers are less likely to help.
const NEXT: f64 = 0.65;

/// Minimum estimated saving of a lever on resources that are hardly used, as a share of the cause's time. Equal resources may be used one
/// after another, such as the NICs of a chain of nodes: each is hardly used, and yet they are the limit. With this saving they come before
/// levers on gradients.
const SERIAL: f64 = 0.05;

/// A lever and its promise: an estimate of the share of time that relaxing it may save. A full resource has a promise of more
/// than 1, so that it comes first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) lever: Lever,
    pub(super) promise: f64,
    /// Utilisation of the lever's resource; 0 if only a cause of stalls proposed the lever.
    pub(super) used: f64,
    /// Whether the limit takes effect only at times, so that a short run may not show it.
    pub(super) rare: bool,
}

/// A job: its scenario, and the report of its run.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) scenario: &'a Scenario,
    /// Report of the run with which short runs are compared.
    pub(super) report: &'a Report,
    /// Index of the job.
    pub(super) job: usize,
    /// Report of the run that the verdict is on.
    pub(super) run: &'a Report,
}

impl<'a> Subject<'a> {
    pub(super) fn described(&self) -> &'a Job {
        &self.scenario.jobs[self.job]
    }

    pub(super) fn shown(&self) -> &'a JobReport {
        &self.report.jobs[self.job]
    }

    /// Returns the share of time that the job's accelerators wait.
    pub(super) fn waiting(&self) -> f64 {
        self.shown().figures.stall.total.mean.unwrap_or(0.0)
    }

    /// Returns a sentence on what the job waits for in the first epoch, if that is not what it waits for in later ones.
    pub(super) fn first_epoch(&self) -> Option<String> {
        let job = self.shown();
        let models = f64::from(self.described().models());
        let largest = |of: &JobFigures| of.stall.largest(models).filter(|(_, part)| *part >= NOTED);
        let (first, later) = (job.first_epoch.as_ref()?, job.later_epochs.as_ref()?);
        let (cause, part) = largest(first)?;
        let other = largest(later).is_none_or(|(later, _)| later.cause != cause.cause);
        other.then(|| {
            format!(
                "In the first epoch `{}` waits {} of the time, most of it for `{cause}` ({}).",
                job.name,
                share(first.stall.total.mean.unwrap_or(0.0)),
                share(part)
            )
        })
    }

    /// Returns whether later reads of the same data may be faster, because a cache keeps the data.
    pub(super) fn keeps(&self) -> bool {
        let job = self.described();
        let storage = &self.scenario.storage[job.reads_from()];
        self.scenario.keeps_pages(job, &self.scenario.cluster.node)
            || job.reads_data() && (storage.cache.is_some() || job.decoded_cache.is_some())
    }

    /// Returns the figures of the epochs that short runs are compared in: the later ones, if caches make them differ from the first.
    fn compared(&self) -> &'a JobFigures {
        let later = self.shown().later_epochs.as_ref().filter(|_| self.keeps());
        later.unwrap_or(&self.shown().figures)
    }

    /// Returns the share of the run's time in which the job trains: above 0, and 1 if the report does not say it.
    fn presence(&self) -> f64 {
        let (job, makespan) = (self.shown(), self.report.makespan.mean);
        let steps = job.figures.steps.mean.map(|steps| steps + job.warm_up_steps);
        let time = steps.zip(job.figures.step_time.mean).map(|(steps, time)| steps * time);
        let share = time.zip(makespan).map(|(time, makespan)| time / makespan);
        share.filter(|share| *share > 0.0 && *share < 1.0).unwrap_or(1.0)
    }

    /// Returns the number of accelerators, on average, that the job loses to waits.
    pub(super) fn lost(&self) -> f64 {
        let job = self.described();
        self.waiting() * f64::from(job.copies) * f64::from(job.models())
    }

    /// Returns the candidates for the job's bottleneck, the most promising first. If `draining`, buffers hid waits for the
    /// loader, so causes of stalls in the loader are considered even without waits. `later`: the report of a run in later epochs, if
    /// caches make the first epoch differ.
    pub(super) fn candidates(&self, draining: bool, later: Option<&Report>) -> Vec<Candidate> {
        let mut found: Vec<Candidate> = Vec::new();
        // Resources are used most while caches are empty. Only a run in later epochs shows how much they are used then.
        let all = match later {
            Some(later) => &later.resources[..],
            None if self.keeps() && self.shown().later_epochs.is_some() => &[],
            None => &self.report.resources,
        };
        for cause in Cause::ALL {
            let share = self.share(cause);
            let share = if draining && is_of_loader(cause) { share.max(NOTED) } else { share };
            if share >= NOTED {
                for lever in self.faults_behind(cause) {
                    // What a fault slows is full, too; the fault comes first.
                    let first = if share >= self.waiting() / 2.0 { FAULT } else { 0.0 };
                    add(&mut found, (lever, lever.is_rare(self.scenario)), first + share);
                }
                let levers = self.of_cause(cause).into_iter().zip(0..);
                for (lever, place) in levers {
                    let rare = lever.is_rare(self.scenario) || is_of_recovery(cause);
                    let likely = self.likely(lever).unwrap_or(NEXT.powi(place));
                    let likely = match self.used(all, lever) {
                        None => likely,
                        Some(used) if used <= 0.0 => 0.0,
                        Some(used) => likely.min((used / self.presence() / share).max(SERIAL)),
                    };
                    add(&mut found, (lever, rare), share * likely);
                }
            }
        }
        for resource in all {
            let used = self.used_of_left(resource);
            if used >= USED {
                for lever in self.of_resource(resource.of) {
                    let known = found.iter().find(|of| of.lever == lever);
                    let lever_of =
                        (lever, known.map_or(lever.is_rare(self.scenario), |of| of.rare));
                    add(&mut found, lever_of, if used >= FULL { 1.0 + used } else { used / 2.0 });
                    found.iter_mut().filter(|of| of.lever == lever).for_each(|of| of.used = used);
                }
            }
        }
        // Workers are never blocked before a full resource either, but more of them do not help.
        let full = all.is_empty() || found.iter().any(|of| of.used >= FULL);
        if !full && self.never_blocked() {
            let waits = Cause::ALL.into_iter().filter(|of| is_of_loader(*of) || *of == Cause::Copy);
            self.promise_at_least(&mut found, Kind::Workers, waits.map(|of| self.share(of)).sum());
        }
        // Workers that are fast enough, and wait for room, still leave trainers waiting: the buffer is too small for batches that
        // take long. A model copy that waits for a batch delays its peers too.
        if self.would_fill() {
            let waits = Cause::ALL.into_iter().filter(|of| {
                is_of_loader(*of) || matches!(of, Cause::Order | Cause::Copy | Cause::Compute)
            });
            self.promise_at_least(&mut found, Kind::Prefetch, waits.map(|of| self.share(of)).sum());
        }
        let busy = self.compared().accelerator_utilisation.mean.unwrap_or(0.0);
        if busy >= COMPUTING && !draining {
            for lever in self.faults_behind(Cause::Compute) {
                add(&mut found, (lever, lever.is_rare(self.scenario)), FAULT + busy);
            }
            add(&mut found, (Lever { kind: Kind::Step, at: self.job }, false), busy);
        }
        found.retain(|candidate| relaxed(self.scenario, candidate.lever).is_some());
        found.sort_by(|a, b| b.promise.total_cmp(&a.promise));
        found
    }

    /// Adds the lever of this kind of the job, or raises its promise, to the share of time `waits` that it may save, if that is worth
    /// a trial.
    fn promise_at_least(&self, found: &mut Vec<Candidate>, kind: Kind, waits: f64) {
        let lever = Lever { kind, at: self.job };
        let known = found.iter().find(|of| of.lever == lever).map_or(0.0, |of| of.promise);
        if waits >= NOTED && waits > known {
            add(found, (lever, false), waits - known);
        }
    }

    /// Returns whether the loader would fill its last buffer if trainers did not wait: it has the rate, and the limit is how far it
    /// gets ahead.
    fn would_fill(&self) -> bool {
        let queue = &self.shown().queue;
        let rates = queue.unblocked_enqueue_rate.mean.zip(queue.unstalled_dequeue_rate.mean);
        rates.is_some_and(|(into, out)| into > out / FULL)
    }

    /// Returns whether the workers of the loader hardly ever wait for room in its last buffer: the limit is before it.
    fn never_blocked(&self) -> bool {
        let queue = &self.shown().queue;
        let rates = queue.enqueue_rate.mean.zip(queue.unblocked_enqueue_rate.mean);
        rates.is_some_and(|(rate, unblocked)| rate >= FULL * unblocked)
    }

    /// Returns the share of time lost to stalls with a cause, whether the rank's own or a peer's.
    pub(super) fn share(&self, cause: Cause) -> f64 {
        let stall = &self.compared().stall;
        stall.share(StallCause::own(cause)) + stall.share(StallCause::peer(cause))
    }

    /// Returns the levers that may shorten stalls with a cause, the likeliest first.
    pub(super) fn of_cause(&self, cause: Cause) -> Vec<Lever> {
        use Kind as K;
        let (job, reads) = (self.job, self.described().reads_from());
        let kinds: &[Kind] = match cause {
            Cause::Open => &[K::Operations, K::Workers, K::PageCache, K::Background, K::TierCache],
            Cause::Latency => &[
                K::Workers,
                K::Latency,
                K::Requests,
                K::Delay,
                K::Seek,
                K::NetworkLatency,
                K::Prefetch,
                K::PageCache,
                K::TierCache,
                K::Order,
                K::Polling,
            ],
            Cause::Transfer => &[
                K::Bandwidth,
                K::Nic,
                K::StorageNic,
                K::Stripes,
                K::Targets,
                K::QueueBandwidth,
                K::Queues,
                K::PerStream,
                K::Workers,
                K::Seek,
                K::Measured,
                K::PageCache,
                K::PageCacheRate,
                K::Background,
                K::Uplink,
                K::TierCache,
                K::TierWrite,
                K::Order,
            ],
            Cause::Decode => {
                &[K::Workers, K::Decode, K::Pinning, K::Collate, K::HandOver, K::Order, K::Prefetch]
            }
            Cause::CpuWait => &[
                K::Cores,
                K::Lock,
                K::Quota,
                K::MemoryBandwidth,
                K::Decode,
                K::HandOver,
                K::Launch,
            ],
            Cause::Order => &[K::Order, K::Workers, K::Prefetch],
            Cause::Restart => &[K::Restart, K::Prefetch],
            Cause::Copy => &[K::Pcie, K::MemoryBandwidth],
            Cause::Launch => &[K::Launch, K::Cores, K::Lock],
            Cause::Communication => &[
                K::Nic,
                K::Intra,
                K::Uplink,
                K::ServerNic,
                K::ServerCores,
                K::TransportStream,
                K::TransportLatency,
                K::Gradients,
                K::Period,
                K::Pcie,
                K::GpuMemory,
                K::MessageCpu,
                K::RootUpdate,
                K::Overlap,
                K::ShardGroups,
                K::Averaging,
            ],
            Cause::Bubble => &[K::MicroBatches, K::Schedule, K::Chunks, K::Balance, K::Intra],
            Cause::Swap => &[K::Pcie],
            Cause::Checkpoint => return checkpoints::levers(self),
            Cause::Fault if self.fails_seldom() => &[],
            Cause::Fault => &[K::CheckpointOften, K::RestartTime, K::Failures],
            Cause::Compute => &[K::EqualNodes, K::RootUpdate, K::Jitter],
        };
        let lever = |&kind: &Kind| {
            let at = if kind.is_of_storage() { reads } else { job };
            Lever { kind, at }
        };
        kinds.iter().filter(|kind| self.has_waits_of(**kind)).map(lever).collect()
    }

    /// Returns whether the job's exchanges wait for the end of a step (for [`Kind::Overlap`]), or its averages take time of their own (for
    /// [`Kind::Averaging`]); true for all other levers.
    fn has_waits_of(&self, kind: Kind) -> bool {
        let sync = self.described().sync.as_ref();
        match kind {
            Kind::Overlap => sync.is_some_and(|sync| !sync.overlap),
            Kind::ShardGroups => self.described().saved_by_groups() > 0.0,
            Kind::Averaging => {
                sync.and_then(|sync| sync.averaging).is_some_and(|of| of.latency > 0.0)
            }
            _ => true,
        }
    }

    /// Returns whether the job has failed too seldom in the run to show what helps against failures.
    pub(super) fn fails_seldom(&self) -> bool {
        let failures = self.shown().recovery.as_ref().and_then(|of| of.failures.mean);
        failures.is_none_or(|failures| failures < FEWEST_FAILURES as f64)
    }

    /// Returns the estimated share of the stalls with a cause that the lever halves; `None` if the scenario does not show it.
    fn likely(&self, lever: Lever) -> Option<f64> {
        // A larger cache avoids reads altogether, while other levers at most halve the time that reads take.
        let saved = self.misses_saved(lever).map(|saved| 2.0 * saved);
        let job = self.described();
        if matches!(lever.kind, Kind::Overlap | Kind::Averaging) {
            return Some(1.0);
        }
        if lever.kind == Kind::ShardGroups {
            return Some((2.0 * job.saved_by_groups()).min(1.0));
        }
        saved.or_else(|| transport::share_of_transfer(job, &self.scenario.cluster, lever.kind))
    }

    /// Returns the estimated share of a cache's misses that disappear if the lever enlarges the cache; `None` for a lever of something
    /// else. A cache is taken to miss the part of the data set that it cannot hold.
    fn misses_saved(&self, lever: Lever) -> Option<f64> {
        let capacity = match lever.kind {
            Kind::PageCache => self.scenario.cluster.node.page_cache.as_ref()?.capacity,
            Kind::TierCache => self.scenario.storage[lever.at].cache?.capacity,
            _ => return None,
        };
        let dataset = &self.scenario.datasets[self.described().dataset];
        let held = capacity / (dataset.samples as f64 * dataset.mean_size());
        let missed = |held: f64| (1.0 - held).max(0.0);
        Some(if held < 1.0 { 1.0 - missed(2.0 * held) / missed(held) } else { 0.0 })
    }
}

fn add(found: &mut Vec<Candidate>, (lever, rare): (Lever, bool), promise: f64) {
    match found.iter_mut().find(|candidate| candidate.lever == lever) {
        Some(known) => {
            known.promise += promise;
            known.rare &= rare;
        }
        None => found.push(Candidate { lever, promise, used: 0.0, rare }),
    }
}

/// Returns whether stalls with a cause come only now and then, with checkpoints and failures.
fn is_of_recovery(cause: Cause) -> bool {
    matches!(cause, Cause::Checkpoint | Cause::Fault)
}

/// Returns whether a cause of stalls is part of the workers' work for each sample. Draining buffers hide such stalls.
pub(super) fn is_of_loader(cause: Cause) -> bool {
    match cause {
        Cause::Open | Cause::Latency | Cause::Transfer | Cause::Decode | Cause::CpuWait => true,
        Cause::Order
        | Cause::Restart
        | Cause::Copy
        | Cause::Launch
        | Cause::Communication
        | Cause::Bubble
        | Cause::Swap
        | Cause::Checkpoint
        | Cause::Fault
        | Cause::Compute => false,
    }
}
