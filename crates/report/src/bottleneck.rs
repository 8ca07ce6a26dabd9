//! Finds the bottleneck: what to change first.

use super::figures::{Bottleneck, JobReport, Report, ResourceReport};
use super::format::share;
use super::{Cause, Direction, Owner, Part, Resource, StallCause};
use forebay_scenario::{BatchInterval, Device, Job, Operation, Scenario};

/// The resource in which learners of a GPU average their models, or add up their gradients.
const GPU_MEMORY: Resource = Resource::node(Part::GpuMemory);
const CORES: Resource = Resource::node(Part::Cores);

/// Share of the time below which stalls are ignored, because they are not worth a change.
const NEGLIGIBLE: f64 = 0.05;

/// Utilisation from which a shared resource counts as full.
const FULL: f64 = 0.9;

/// What is responsible for a cause of stalls: a shared resource, or something whose use reports do not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carrier {
    Shared(Resource),
    /// Latency of the storage with this index.
    Latency(usize),
    /// Throughput of a single stream of the storage with this index.
    PerStream(usize),
    /// Workers of the job's loader.
    Workers,
    /// Delivery of the job's samples in order.
    Order,
    /// The job's loader, which starts anew.
    Loader,
    /// Pipeline of the job's stages.
    Pipeline,
    Accelerators,
    /// Whatever connects the job's model copies.
    Network,
    /// Time that averages of models take on a GPU besides moving bytes.
    Averaging,
    SlowestRank,
    Faults,
}

impl Carrier {
    /// Returns the name that reports show for the carrier of a stall of the job with index `job`.
    fn name(self, scenario: &Scenario, job: usize) -> String {
        let storage = |index: usize, part| format!("{}.{part}", scenario.storage[index].name);
        let of_job = |part| format!("{}.{part}", scenario.jobs[job].name);
        match self {
            Self::Shared(resource) => resource.name(scenario),
            Self::Latency(index) => storage(index, "latency"),
            Self::PerStream(index) => storage(index, "per_stream"),
            Self::Workers => of_job("workers"),
            Self::Order => of_job("order"),
            Self::Loader => of_job("loader"),
            Self::Pipeline => of_job("pipeline"),
            Self::Accelerators => "accelerators".to_owned(),
            Self::Network => "network".to_owned(),
            Self::Averaging => "averaging".to_owned(),
            Self::SlowestRank => "slowest rank".to_owned(),
            Self::Faults => "faults".to_owned(),
        }
    }
}

/// Returns the bottleneck of the job whose trainers lose the most time to stalls; `None` if no job has completed a step.
pub(super) fn bottleneck(
    scenario: &Scenario,
    jobs: &[JobReport],
    resources: &[ResourceReport],
) -> Option<Bottleneck> {
    let lost = |(index, job): &(usize, &JobReport)| {
        let described = &scenario.jobs[*index];
        job.figures.stall.total.mean.unwrap_or(0.0) * f64::from(described.copies) * ranks(described)
    };
    let trained = jobs.iter().enumerate().filter(|(_, job)| !job.figures.is_empty());
    // Of jobs that lose the same time the first one wins.
    let (index, job) = trained.rev().max_by(|a, b| lost(a).total_cmp(&lost(b)))?;
    of_job(scenario, (index, job), resources)
}

/// Makes the report's bottleneck that of job number `job`. Returns false, without effect, if the job has completed no step.
pub fn choose_job(report: &mut Report, scenario: &Scenario, job: usize) -> bool {
    let found = of_job(scenario, (job, &report.jobs[job]), &report.resources);
    let Some(found) = found else { return false };
    report.bottleneck = Some(Bottleneck { chosen: true, ..found });
    true
}

/// Begins the text of the report's bottleneck with the sentence that it is not that of job number `job`, which the user has chosen,
/// because this job has completed no step.
pub fn say_without_step(report: &mut Report, job: usize) {
    let Some(of) = &mut report.bottleneck else { return };
    of.text = format!(
        "`{}` has completed no step, so there is no verdict on it, and this one is on `{}`: run longer.\n{}",
        report.jobs[job].name, of.job, of.text
    );
}

/// Returns the bottleneck of the job with this index and report; `None` if it has completed no step.
fn of_job(
    scenario: &Scenario,
    (index, job): (usize, &JobReport),
    resources: &[ResourceReport],
) -> Option<Bottleneck> {
    let context = Context { scenario, index, described: &scenario.jobs[index], job, resources };
    let total = job.figures.stall.total.mean?;
    let models = ranks(context.described);
    let largest = job.figures.stall.largest(models).filter(|_| total >= NEGLIGIBLE);
    let Some((of, part)) = largest else {
        return Some(context.by_compute());
    };
    let carrier = context.carrier(of);
    let advice = context.advice(of, carrier);
    let found = format!(
        "{} of the {}' time in `{}` goes into {}{}",
        share(part),
        job.trainers(),
        job.name,
        context.words(of),
        context.followers(of),
    );
    Some(Bottleneck {
        job: job.name.clone(),
        cause: of.to_string(),
        resource: carrier.name(scenario, index),
        share: part,
        text: format!("{found}: {advice}{}.", context.interval_hint(of)),
        finding: found + ".",
        chosen: false,
    })
}

/// Idle share of a GPU up to which one more learner would gain nothing.
const NEARLY_FULL: f64 = 0.1;

/// Returns the number of ranks of a job copy: its model copies, which all start each step together.
fn ranks(job: &Job) -> f64 {
    f64::from(job.models())
}

/// Returns the utilisation of the most used of similar resources; 0 if it is not known.
fn use_of(resource: &ResourceReport) -> f64 {
    resource.utilisation_max.mean.unwrap_or(0.0)
}

/// Returns a hint that more learners may help, because part of each GPU is idle; an empty text if GPUs are nearly full.
fn idle_part(described: &Job, job: &JobReport) -> String {
    let learners = job.learners.as_ref().filter(|_| described.is_open_to_learners());
    let idle = learners.and_then(|of| Some((of.per_gpu, 1.0 - of.occupancy.mean?)));
    let hint = |(number, idle)| {
        format!(", or more learners (now {number}): {} of each GPU is idle", share(idle))
    };
    idle.filter(|(_, idle)| *idle > NEARLY_FULL).map(hint).unwrap_or_default()
}

/// The scenario and the results from which the bottleneck's resource and the advice are chosen.
struct Context<'a> {
    scenario: &'a Scenario,
    /// Index of the job.
    index: usize,
    described: &'a Job,
    job: &'a JobReport,
    resources: &'a [ResourceReport],
}

impl Context<'_> {
    /// Returns the bottleneck of a job that hardly waits.
    fn by_compute(&self) -> Bottleneck {
        let job = self.job;
        let part = job.figures.accelerator_utilisation.mean.unwrap_or(0.0);
        let trainers = job.trainers();
        let carrier = self.computes_on();
        let faster = if carrier == Carrier::Accelerators { "of them" } else { "cores" };
        let found = format!("The {trainers} of `{}` compute {} of the time", job.name, share(part));
        Bottleneck {
            job: job.name.clone(),
            cause: Cause::Compute.name().to_owned(),
            resource: carrier.name(self.scenario, self.index),
            share: part,
            text: format!(
                "{found}: only faster or more {faster} would speed it up{}.",
                idle_part(self.described, job)
            ),
            finding: found + ".",
            chosen: false,
        }
    }

    /// Returns what computes the job's steps.
    fn computes_on(&self) -> Carrier {
        match self.described.device {
            Device::Cpu { .. } => Carrier::Shared(CORES),
            Device::Accelerator => Carrier::Accelerators,
        }
    }

    fn storage(&self) -> &str {
        &self.scenario.storage[self.described.reads_from()].name
    }

    /// Returns a part of the storage that the job reads from.
    fn of_storage(&self, part: Part) -> Resource {
        Resource::storage(self.described.reads_from(), part)
    }

    /// Returns what is responsible for a cause of stalls.
    fn carrier(&self, of: StallCause) -> Carrier {
        let reads = self.described.reads_from();
        match of.cause {
            _ if of.peer => Carrier::SlowestRank,
            Cause::Open => Carrier::Shared(self.of_storage(Part::Operations)),
            Cause::Latency => self.own().map_or(Carrier::Latency(reads), Carrier::Shared),
            Cause::Transfer => self.own().map_or_else(|| self.busiest_link(), Carrier::Shared),
            Cause::Decode => Carrier::Workers,
            Cause::CpuWait => Carrier::Shared(self.busiest_of_cores()),
            Cause::Throttled => Carrier::Shared(Resource::job(self.index, Part::CpuQuota)),
            Cause::Launch => Carrier::Shared(CORES),
            Cause::Order => Carrier::Order,
            Cause::Restart | Cause::FirstBatch => Carrier::Loader,
            Cause::Copy | Cause::Swap => Carrier::Shared(Resource::node(Part::Pcie(Direction::In))),
            Cause::Bubble => Carrier::Pipeline,
            Cause::Communication => self.carrier_of_models(),
            Cause::Checkpoint => {
                let to = self.described.checkpoint.as_ref().map_or(reads, |of| of.storage);
                Carrier::Shared(Resource::storage(to, Part::Bandwidth))
            }
            Cause::Fault => Carrier::Faults,
            Cause::Compute => self.computes_on(),
        }
    }

    /// Returns what model copies wait for when they synchronise: the network, the GPUs' memory, or the averages' own time on a
    /// GPU, whichever is in use for the largest share of the time.
    fn carrier_of_models(&self) -> Carrier {
        if !self.described.uses_gpu_memory() {
            return Carrier::Network;
        }
        let between = |of: &&ResourceReport| match of.of.part {
            Part::Intra(_) | Part::Uplink(_) => true,
            Part::Nic(_) => of.of.owner == Owner::Node,
            _ => false,
        };
        let network = self.resources.iter().filter(between).map(use_of);
        let network = (Carrier::Network, network.fold(0.0, f64::max));
        let network = Some(network).filter(|_| self.described.ranks() > 1);
        let inside = [
            (Carrier::Shared(GPU_MEMORY), self.use_of(GPU_MEMORY)),
            (Carrier::Averaging, self.share_of_averaging()),
        ];
        let busier = |a: (Carrier, f64), b: (Carrier, f64)| if b.1 > a.1 { b } else { a };
        let busiest = network.into_iter().chain(inside).reduce(busier);
        busiest.map_or(Carrier::Network, |(carrier, _)| carrier)
    }

    /// Returns the share of a step that averagings take on a GPU besides moving bytes.
    fn share_of_averaging(&self) -> f64 {
        let Some((averaging, step)) =
            self.described.averaging().zip(self.job.figures.step_time.mean)
        else {
            return 0.0;
        };
        let latency = averaging.latency * f64::from(self.described.learners.most);
        latency / averaging.period as f64 / step
    }

    /// Returns the storage's disk arm or, without one, its table of measured rates; `None` if the storage has neither.
    fn own(&self) -> Option<Resource> {
        let there = |of: &Resource| self.resources.iter().any(|resource| resource.of == *of);
        [Part::Arm, Part::Measured].map(|part| self.of_storage(part)).into_iter().find(there)
    }

    /// Returns the storage's bandwidth or the NICs, whichever is busier, if that resource is full; otherwise the throughput limit
    /// of one stream.
    fn busiest_link(&self) -> Carrier {
        let bandwidth = self.of_storage(Part::Bandwidth);
        let nic = Resource::node(Part::Nic(Direction::In));
        let busier = if self.use_of(nic) > self.use_of(bandwidth) { nic } else { bandwidth };
        match self.use_of(busier) >= FULL {
            true => Carrier::Shared(busier),
            false => Carrier::PerStream(self.described.reads_from()),
        }
    }

    /// Returns the busiest resource among those that threads on cores wait for: cores, the interpreter's lock, the CPU quota and
    /// memory bandwidth.
    fn busiest_of_cores(&self) -> Resource {
        let others = [
            Resource::job(self.index, Part::Gil),
            Resource::job(self.index, Part::CpuQuota),
            Resource::node(Part::MemoryBandwidth),
        ];
        let busier = |a: Resource, b: Resource| if self.use_of(b) > self.use_of(a) { b } else { a };
        others.into_iter().fold(CORES, busier)
    }

    /// Returns the highest utilisation among resources of this sort; 0 if there is none.
    fn use_of(&self, of: Resource) -> f64 {
        self.resources.iter().find(|resource| resource.of == of).map_or(0.0, use_of)
    }

    /// Returns the cause of a wait in words, such as `waiting for cores`.
    fn words(&self, of: StallCause) -> String {
        let storage = self.storage();
        let words = match of.cause {
            Cause::Open => format!("opening files on `{storage}`"),
            Cause::Latency if self.delays() => {
                format!("request latency of `{storage}` and delays of the loader")
            }
            Cause::Latency => format!("request latency of `{storage}`"),
            Cause::Transfer => format!("transfers from `{storage}`"),
            Cause::Decode => "decoding".to_owned(),
            Cause::CpuWait => "waiting for cores".to_owned(),
            Cause::Throttled => "waiting for the next period of the CPU quota".to_owned(),
            Cause::Order => "samples held back behind a slower one".to_owned(),
            Cause::Restart => "restarting the loader".to_owned(),
            Cause::FirstBatch => "the first batch of an epoch".to_owned(),
            Cause::Copy => "copies to the device".to_owned(),
            Cause::Launch if self.takes_turns() => {
                "the trainers' own work on the host, and the turns that they take there".to_owned()
            }
            Cause::Launch => "the trainer's own work".to_owned(),
            Cause::Communication => "communication that training does not hide".to_owned(),
            Cause::Bubble => "pipeline bubbles".to_owned(),
            Cause::Swap => "swapping over PCIe".to_owned(),
            Cause::Checkpoint => "writing checkpoints".to_owned(),
            Cause::Fault => "faults and recovery from them".to_owned(),
            Cause::Compute => "computing".to_owned(),
        };
        if of.peer {
            format!("waiting for a slower rank, which is held up by {words}")
        } else {
            words
        }
    }

    /// Returns a clause on the share of time that ranks wait for a late rank to compute; an empty text if that share is
    /// negligible.
    fn followers(&self, of: StallCause) -> String {
        let computing = StallCause::peer(Cause::Compute);
        let part = self.job.figures.stall.share(computing);
        if of == computing || of.cause == Cause::Communication || part < NEGLIGIBLE {
            return String::new();
        }
        format!(", and {} into waiting for model copies that it delays", share(part))
    }

    /// Returns what to change, as a clause to be read after a colon.
    fn advice(&self, of: StallCause, carrier: Carrier) -> String {
        let part = match carrier {
            Carrier::Shared(resource) => Some(resource.part),
            _ => None,
        };
        match of.cause {
            Cause::Open => "pack samples into shards, or raise the storage's operation rate".into(),
            Cause::Latency | Cause::Transfer if part == Some(Part::Arm) => {
                "larger requests, shards that fewer workers read, or a solid-state disk help"
                    .into()
            }
            Cause::Transfer if part == Some(Part::Measured) => {
                "requests of another size or number (see the storage's table), or fewer bytes, help".into()
            }
            Cause::Latency => format!("more loader workers (now {}) hide it", self.workers()),
            Cause::Transfer if matches!(carrier, Carrier::PerStream(_)) => {
                format!("more loader workers (now {}) or a faster stream help", self.workers())
            }
            Cause::Transfer | Cause::Checkpoint => format!(
                "raise the capacity of `{}` or move fewer bytes",
                carrier.name(self.scenario, self.index)
            ),
            Cause::Decode => format!(
                "more loader workers (now {}; each uses one core at most) or cheaper decoding help",
                self.workers()
            ),
            Cause::CpuWait if part == Some(Part::Gil) => {
                "processes as workers, or less work under the interpreter's lock, help".into()
            }
            Cause::CpuWait if part == Some(Part::CpuQuota) => "a larger quota helps".into(),
            Cause::CpuWait if part == Some(Part::MemoryBandwidth) => {
                "fewer bytes moved for each sample, or faster memory, help".into()
            }
            Cause::CpuWait => "more cores per node or cheaper decoding help".into(),
            Cause::Throttled => "a larger quota helps".into(),
            Cause::Order => "unordered delivery or more workers help".into(),
            Cause::Restart => "keep workers, or the pipeline, alive between epochs".into(),
            Cause::FirstBatch => "longer epochs, fewer workers that read at once or a faster storage help".into(),
            Cause::Launch if self.takes_turns() => {
                "fewer trainers on a node, faster cores, larger batches or fewer launches a step help".into()
            }
            Cause::Launch => "faster cores, larger batches or fewer launches a step help".into(),
            Cause::Copy => "a faster host link or smaller decoded samples help".into(),
            Cause::Communication if part == Some(Part::GpuMemory) && self.described.sums_gradients() => {
                "more `gpu_memory_bandwidth` or fewer learners, whose gradients are added up there, help".into()
            }
            Cause::Communication if part == Some(Part::GpuMemory) => {
                "a longer `period` or more `gpu_memory_bandwidth` helps".into()
            }
            Cause::Communication if carrier == Carrier::Averaging => {
                "a longer `period`, fewer learners or a shorter `latency` of averages helps".into()
            }
            Cause::Communication if self.described.averaging().is_some() => {
                "a longer `period` or a faster network helps".into()
            }
            Cause::Communication => "a faster network or fewer bytes per step help".into(),
            Cause::Bubble if self.described.parallelism.is_some() => {
                "more micro-batches, or fewer or more even stages, help".into()
            }
            Cause::Bubble => "balance the stages or let them overlap".into(),
            Cause::Swap => {
                "a smaller batch or model, more device memory or a faster host link helps".into()
            }
            Cause::Fault => {
                "fewer failures help, or checkpoints that are written more often or faster".into()
            }
            Cause::Compute => "balance the ranks, or even out their step times".into(),
        }
    }

    /// Whether the loader itself delays samples: its workers poll, or one of its stages has a delay.
    fn delays(&self) -> bool {
        let stages = self.described.loader.stages.iter();
        let mut work = stages.flat_map(|stage| stage.per_sample.iter().chain(&stage.per_item));
        self.described.loader.generator.is_some()
            || work.any(|operation| matches!(operation, Operation::Delay(_)))
    }

    /// Whether the trainers of a node take turns in their work on the host.
    fn takes_turns(&self) -> bool {
        self.described.launch.as_ref().is_some_and(|launch| launch.serial > 0.0)
    }

    /// Returns the number of the loader's workers on each node, all stages together.
    fn workers(&self) -> u64 {
        self.described.loader.stages.iter().map(|stage| u64::from(stage.workers)).sum()
    }

    /// Returns a hint on the batch interval that would end starvation; an empty text if the wait is not for input, or if the
    /// job sets no batch interval.
    fn interval_hint(&self, of: StallCause) -> String {
        let input = of.cause.is_input()
            && !matches!(of.cause, Cause::Order | Cause::Restart | Cause::FirstBatch | Cause::Copy);
        let BatchInterval::Every(now) = self.described.batch_interval else {
            return String::new();
        };
        let slower = self.job.figures.accelerator_utilisation.mean.map_or(1.0, |busy| 1.0 / busy);
        let wanted = (now * slower - 1e-9).ceil();
        if input && wanted > now && wanted.is_finite() {
            format!(", or a batch interval of {wanted} (now {now})")
        } else {
            String::new()
        }
    }
}

#[cfg(test)]
mod tests;
