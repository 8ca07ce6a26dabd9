//! Job copies and their devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_engine::Time;
use forebay_metrics::{Steps, Timeline};
use forebay_model::random::{Purpose, Sampler, Streams};
use forebay_report::{Cause, StallCause};
use forebay_scenario::{
    Arrivals, BatchInterval, Device as Processor, Distribution, ENDLESS, Goal, Job, Launch, Stop,
};

use super::Builder;
use super::cores::{OnCores, speed_alone};
use super::parallel::Stages;
use super::sync::{cut_exchange, exchange_of_whole_batches};
use crate::communication::{ByStepKind, Cycle};
use crate::device::{CpuThreads, Device, DeviceInput, Host, LaunchRun, Launching, Trainer};
use crate::env::{Delay, EpochsOfLoader, NodeSample, Service, Station};
use crate::ids::{
    DeviceId, IdVec, Ids, JobId, LoaderId, PartId, RangeVec, RankId, SimulatedNodeId, StationId,
    TrainerId,
};
use crate::job::{
    Apart, Barrier, Batches, CutExchange, Exchange, JobRun, LearnersRun, Plan, Program, Programs,
    Replica, SampledJob, Spread, Tally, Waiting, replica,
};

/// A job copy being built.
pub(in crate::run) struct JobCopy<'s> {
    pub(in crate::run) job: &'s Job,
    /// Index of the job.
    pub(in crate::run) index: usize,
    /// Id of the job copy.
    pub(in crate::run) number: JobId,
    /// The nodes that are simulated, by their numbers in the job copy.
    pub(in crate::run) nodes: Vec<u32>,
    pub(in crate::run) start: Time,
    pub(in crate::run) goal: Goal,
    /// Least known length of the time series that reports show, 0 if unknown [s]; `None` for all but the first copy of a job.
    pub(in crate::run) recorded: Option<f64>,
}

impl Builder<'_> {
    /// Adds copy number `copy` of job `index`, on nodes from `node` on.
    pub(in crate::run) fn job_copy(&mut self, index: usize, copy: u32, node: u32) {
        let job = &self.scenario.jobs[index];
        let start = job.start + self.gaps(index, copy);
        let lasts = match self.scenario.run.stop {
            Stop::Duration(end) if job.stop.is_none() && job.after.is_empty() => end - start,
            _ => 0.0,
        };
        let of = JobCopy {
            job,
            index,
            number: self.parts.jobs.next_id(),
            nodes: self.simulated(job, node),
            start: Time::from_seconds(start),
            goal: self.scenario.goal(job),
            recorded: (copy == 0).then_some(lasts),
        };
        if !job.after.is_empty() {
            let (job, after) = (of.number, job.after.clone());
            let delay = Delay::once(of.start.seconds());
            self.parts.waiting.push(Waiting { job, after, delay });
        }
        self.take_gpus(index, node, &of.nodes);
        self.node = node;
        let mut run = self.job_run(&of, index, copy);
        let staging = self.parts.stagings.stagings.next_id();
        let (loader, device) =
            (self.parts.loaders.loaders.next_id(), self.parts.devices.next_ids().0);
        let mut on_cores = Vec::new();
        let all = of.nodes.len() == job.nodes as usize;
        for rank in of.nodes.iter().copied() {
            self.node = node + rank;
            let name = format!("{}[{copy}] node {}", job.name, self.node);
            let process = self.env.recorder.as_mut().map(|recorder| recorder.process(name));
            self.staging(&of, rank);
            for place in 0..job.loaders_on(rank) {
                let number = match all {
                    true => self.parts.loaders.loaders.next_id() - loader,
                    // Nodes of a sample have equally many loaders.
                    false => rank * job.loaders_per_node() + place,
                };
                let cores = self.loader(&of, number, rank, process);
                on_cores.push((number, self.node, cores));
                self.devices(&of, number, process);
            }
        }
        self.note_gpus(job, (node, device));
        let nodes = self.node_sample(&of, (node, device));
        run.sampled = nodes.clone().map(|nodes| Box::new(SampledJob::new(nodes, job.nodes)));
        run.parts.trainers = self.trainers(&of, (node, device), &on_cores);
        let exchanges = self.parts.communicators.next_ids();
        let servers_of_job = job.sync.as_ref().filter(|sync| sync.servers.is_some());
        let mut ways_of_ranks =
            servers_of_job.map(|sync| Box::new(self.ways(&of, sync.transport, node)));
        self.servers_of_copies(&of, copy, device);
        self.recovery(&of, &mut run.parts, (node, loader), ways_of_ranks.as_deref());
        let whole = programs_of_whole_batches(job);
        if let Some(ways) = self.sync(&of, copy, (node, device), (&whole, nodes)) {
            ways_of_ranks = Some(ways);
        }
        let averages = self.averages(job, node);
        run.parts.averages = self.parts.communicators.add_averages(averages);
        let known = if job.parallelism.is_some() { ways_of_ranks.take() } else { None };
        match self.parallel(&of, copy, (node, device), known.map(|ways| *ways)) {
            None => run.plan.programs = Programs::new(cycle(job), &whole),
            Some(Stages { spread, ways, programs }) => {
                (run.spread, ways_of_ranks) = (spread, Some(Box::new(ways)));
                run.plan.programs = programs;
            }
        }
        (run.parts.communicators, run.parts.servers) = self.parts.communicators.ids_from(exchanges);
        run.parts.stagings = self.parts.stagings.stagings.ids_from(staging);
        run.parts.loaders = self.parts.loaders.loaders.ids_from(loader);
        run.parts.devices = self.parts.devices.ids_from(device);
        if run.stages() > 1 && job.parallelism.is_none() {
            run.spread.add_stages(run.parts.devices, run.parts.communicators);
        }
        if self.env.recorder.is_none() && run.waits_alone() {
            run.parts.loaders.iter().for_each(|l| self.sum_up(l));
        }
        self.parts.communicators.add_ways(ways_of_ranks);
        self.parts.jobs.push(run);
    }

    /// Lets the workers of loader `l`, which feeds one device, record only the sums of their activities instead of a timeline,
    /// if no stall needs the timeline. No stall needs it if the loader has a single stage (no worker waits for another one),
    /// the loader does not poll (devices find batches at once), and the loader notifies timelines of each wait that begins.
    fn sum_up(&mut self, l: LoaderId) {
        let loader = &self.parts.loaders[l];
        if loader.stages.all.len() > 1 || loader.pacing.polling.is_some() || !loader.waiters.tells {
            return;
        }
        let workers = loader.stages.workers;
        let workers = &mut self.parts.loaders.workers[workers];
        workers.iter_mut().for_each(|worker| worker.timeline = Timeline::summed());
    }

    /// Returns the time from the start of the first copy of job `index` to the start of copy number `copy` [s].
    fn gaps(&self, index: usize, copy: u32) -> f64 {
        let job = &self.scenario.jobs[index];
        if job.arrivals == Arrivals::Regular || job.stagger == 0.0 {
            return job.stagger * f64::from(copy);
        }
        let sampler = Sampler::new(&Distribution::Exponential { mean: job.stagger });
        let streams = Streams::new(self.scenario.run.seed, self.replication);
        let gap = |i: u32| {
            sampler.draw(&mut streams.at(Purpose::JobArrival, index as u64, 0, u64::from(i)))
        };
        (0..copy).map(gap).sum()
    }

    /// Returns the state of a job copy that has no loaders and devices yet.
    fn job_run(&mut self, of: &JobCopy, index: usize, copy: u32) -> JobRun {
        let job = of.job;
        // These are the times on the first nodes; `slowness` is the factor for nodes that differ from them.
        let node = &self.scenario.cluster.node;
        let threads = match job.device {
            Processor::Accelerator => None,
            Processor::Cpu { threads } => {
                Some(CpuThreads { number: threads, speed: speed_alone(node, threads) })
            }
        };
        let speed = if threads.is_none() { node.gpu_speed } else { 1.0 };
        let stage_times = self.stage_times(job, speed);
        let overlap = job.pipeline.as_ref().is_some_and(|p| p.overlap);
        let stages = if overlap { stage_times.len() as u64 } else { 1 };
        // A learner that trains on has at most one average less than the slowest one.
        let window = job.averaging().map_or(stages, |of| 2 * of.period);
        let spread = self.spread_inside(job);
        let models = self.ranks_of(of).saturating_mul(job.learners.first());
        let tally = match job.servers() {
            Some(servers) => {
                let parts = stage_times.len().max(1) as u32;
                Tally::Apart(Apart::new((models, parts), servers.slack != Some(0)))
            }
            None => Tally::Together(Barrier::new(
                models.saturating_mul(stage_times.len().max(1) as u32),
                window.max(job.interval()) as u32,
            )),
        };
        let plan = Plan {
            batch: job.batch,
            batches: Batches { interval: job.batch_interval, ahead: steps_ahead(job) },
            step: job.step.law(),
            stage_times,
            jitter: job.step.jitter.as_ref().map(Sampler::new),
            programs: Programs::default(),
            threads,
            launch: job.launch.as_ref().map(|launch| Box::new(launch_run(launch))),
            goal: self.goal_of(of),
            window,
            period: job.interval(),
            counts_late: job.interval() > 1 || job.averaging().is_some(),
            gate: match job.averaging() {
                Some(_) => StallCause::peer(Cause::Compute),
                None => StallCause::own(Cause::Bubble),
            },
        };
        let (learners, steps) = (LearnersRun::new(job.learners), steps_of(job, of.start));
        JobRun::new((index, copy), of.start, plan, learners, spread, tally, steps)
    }

    /// Returns the number of simulated model copies of a job copy.
    pub(in crate::run) fn ranks_of(&self, of: &JobCopy) -> u32 {
        of.nodes.iter().map(|node| of.job.copies_on(*node)).sum()
    }

    /// Returns the goal of a job copy, in the samples that its simulated nodes read.
    fn goal_of(&self, of: &JobCopy) -> Goal {
        let share = f64::from(self.ranks_of(of)) / f64::from(of.job.ranks());
        match of.goal.fresh {
            ENDLESS => of.goal,
            fresh if share == 1.0 => Goal { fresh, ..of.goal },
            fresh => Goal { fresh: (fresh as f64 * share).ceil() as u64, ..of.goal },
        }
    }

    /// Returns which nodes of a job copy are simulated, and how many nodes they represent; `None` if all are simulated. The job copy
    /// is on nodes from `first` on and has devices from `device` on.
    fn node_sample(
        &self,
        of: &JobCopy,
        (first, device): (u32, DeviceId),
    ) -> Option<Arc<NodeSample>> {
        let sample = self.sample.filter(|_| of.nodes.len() < of.job.nodes as usize)?;
        let place = |node: u32| {
            let before = of.nodes.partition_point(|known| first + *known < node);
            SimulatedNodeId::new(before as u32)
        };
        let alike = sample.alike_among(first..first + of.job.nodes).map(|range| {
            let simulated = Ids::new(place(range.start), place(range.end));
            (simulated, (range.len() - simulated.len()) as u32)
        });
        let (dataset, loader) = (&self.scenario.datasets[of.job.dataset], &of.job.loader);
        let every_step = of.job.batch_interval == BatchInterval::Every(1.0);
        let begins_anew = (loader.requests.is_some() || loader.rebuilt.is_some()) && every_step;
        let devices = self.parts.devices.ids_from(device);
        Some(Arc::new(NodeSample {
            nodes: RangeVec::new(device, self.places.nodes[devices].iter().map(|of| place(*of))),
            alike: alike.collect(),
            owner: of.number.number().into(),
            epochs: EpochsOfLoader {
                batches: begins_anew.then(|| of.job.batches_of_epoch(dataset)),
                taken: u64::from(of.job.models_per_loader()),
            },
        }))
    }

    /// Returns how the stages of a model copy on the node being built send each other the activations of whole batches.
    fn spread_inside(&mut self, job: &Job) -> Spread {
        let Some(pipeline) = &job.pipeline else { return Spread::default() };
        let latency = self.here().intra.latency;
        let inside = Some(self.recurring(latency));
        Spread { ranks: 1, bytes: pipeline.activations, inside, ..Spread::default() }
    }

    /// Returns the factor by which steps take longer on accelerators of node `node` than on those of the cluster's first nodes.
    pub(in crate::run) fn slowness(&self, job: &Job, node: u32) -> f64 {
        let cluster = &self.scenario.cluster;
        match job.device {
            Processor::Accelerator => cluster.slowness(cluster.node_at(node), job.peak),
            Processor::Cpu { .. } => 1.0,
        }
    }

    /// Returns the time of each pipeline stage before jitter, on devices of relative speed `speed`.
    fn stage_times(&mut self, job: &Job, speed: f64) -> IdVec<PartId, Delay> {
        let seconds = |share| job.step.seconds(job.batch as f64) * share / speed;
        job.shares().iter().map(|share| self.recurring(seconds(*share))).collect()
    }

    /// Adds the devices that the most recently added loader feeds; this loader has number `rank` in the job copy.
    fn devices(&mut self, of: &JobCopy, rank: u32, process: Option<u32>) {
        let l = self.parts.loaders.loaders.next_id() - 1;
        let (own, learners) = (of.job.copies_per_loader(), of.job.learners.most);
        for (copy, learner) in (0..own).flat_map(|copy| (0..learners).map(move |l| (copy, l))) {
            let gpu = rank * own + copy;
            // The first learners of all GPUs get the numbers, and thus the random samples, that they have without further
            // learners.
            let model = learner * of.job.ranks() + gpu;
            for stage in 0..of.job.shares().len() as u32 {
                let stages = of.job.shares().len() as u32;
                let program = model % of.job.programs_of_stage() * stages + stage;
                let mut device = Device::new(of.number, l, model, stage);
                (device.learner, device.program) = (learner, program);
                let ahead = steps_ahead(of.job);
                let host = (stage == 0 && ahead > 0).then(|| Host::new(ahead));
                device.input = DeviceInput::new(host);
                device.track = self.track(process, || match learners {
                    1 => format!("gpu {gpu}.{stage}"),
                    _ => format!("gpu {gpu} learner {learner}"),
                });
                self.parts.devices.add(device);
                self.places.nodes.push(self.node + of.job.node_of_stage(stage));
            }
        }
    }
}

/// Returns the maximum number of steps for which hosts take batches beyond the step in progress.
fn steps_ahead(job: &Job) -> u64 {
    job.gpu.map_or(0, |gpu| gpu.ahead.into())
}

/// Returns the programs of each stage of model copies that compute on whole batches, for each kind of step.
fn programs_of_whole_batches(job: &Job) -> ByStepKind<Vec<Program>> {
    let sync = exchange_of_whole_batches(job);
    let cut = sync.map_or_else(CutExchange::default, |sync| cut_exchange(job, sync));
    let exchange = match (job.servers(), job.averaging()) {
        (Some(_), _) => Exchange::Servers,
        (None, Some(_)) => Exchange::Average,
        (None, None) if cut.pieces.is_empty() => Exchange::None,
        (None, None) => Exchange::Collectives,
    };
    let (stages, launches, sums) = (job.shares().len(), job.launch.is_some(), job.sums_gradients());
    ByStepKind::of(cycle(job), |kind| {
        let of = |stage| Replica { stage, stages, launches, exchange, sums, kind, cut: &cut };
        (0..stages).map(|stage| replica(&of(stage))).collect()
    })
}

/// Returns when the steps of a job's model copies update parameters and end with exchanges.
pub(crate) fn cycle(job: &Job) -> Cycle {
    match job.averaging() {
        Some(averaging) => Cycle::new(averaging.period, job.accumulation),
        None => Cycle::new(job.interval(), job.accumulation),
    }
}

/// Returns the record of steps of a job that starts at `start`; at first only the initial number of learners is in use, which
/// may be fewer than the maximum.
fn steps_of(job: &Job, start: Time) -> Steps {
    let mut steps = Steps::new(start);
    steps.share_among(f64::from(job.learners.first()) / f64::from(job.learners.most));
    steps
}

fn launch_run(launch: &Launch) -> LaunchRun {
    let Launch { work, varying, taking, threads, overlap, .. } = launch;
    let varies = *varying != Distribution::Constant(0.0);
    LaunchRun {
        work: Sampler::new(work),
        varying: varies.then(|| Sampler::new(varying)),
        taking: *taking,
        threads: *threads,
        overlap: *overlap,
    }
}

impl Builder<'_> {
    /// Adds the trainers of all GPUs of a job copy if they use cores, and returns them. The job copy is on nodes from `begin` on
    /// and has devices from `first` on; `loaders` holds the number and node of each loader, and how threads get cores there. The
    /// trainers that work for the same loader on the same node have the interpreter's lock in common.
    pub(in crate::run) fn trainers(
        &mut self,
        of: &JobCopy,
        (begin, first): (u32, DeviceId),
        loaders: &[(u32, u32, OnCores)],
    ) -> Ids<TrainerId> {
        let (job, (_, all)) = (of.job, self.parts.devices.next_ids());
        if job.launch.is_none() && job.device == Processor::Accelerator {
            return self.parts.devices.trainers_from(all);
        }
        let nodes: IdVec<RankId, u32> = job.nodes_of_gpus().into_iter().collect();
        let mut known = BTreeMap::new();
        for (number, node, on_node) in loaders {
            known.insert((*number, *node), on_node.of_trainers(self, job));
        }
        let fed_by = job.copies_per_loader();
        for d in self.parts.devices.ids_from(first) {
            let device = &self.parts.devices[d];
            let (gpu, model, stage) = (device.model % job.ranks(), device.model, device.stage);
            let (_, own) = self.parts.devices.next_ids();
            // Further learners have trainers of their own on the same GPUs.
            let (gpus, numbers) = (job.stage_group(gpu, stage), job.stage_group(model, stage));
            for (place, number) in gpus.gpus().zip(numbers.gpus()) {
                let node = begin + nodes[RankId::new(place)];
                let cores = *known.entry((gpu / fed_by, node)).or_insert_with(|| {
                    self.node = node;
                    self.on_cores(of, false).of_trainers(self, job)
                });
                self.node = node;
                let (quota, turns) = (self.quota_of(of).1, self.turns_of(job));
                self.parts.devices.add_trainer(Trainer::new((d, number), cores, quota, turns));
            }
            let launching = Launching::of(self.parts.devices.trainers_from(own));
            self.parts.devices[d].launching = Some(Box::new(launching));
        }
        self.parts.devices.trainers_from(all)
    }

    /// Returns the station at which the trainers of all jobs on the node being built take turns after their work for a step, and how long
    /// a turn of this job's trainers takes; `None` if they need not.
    fn turns_of(&mut self, job: &Job) -> Option<(StationId, Delay)> {
        let serial = job.launch.as_ref().map_or(0.0, |launch| launch.serial);
        if serial == 0.0 {
            return None;
        }
        let known = self.on_nodes.get(&self.node).and_then(|node| node.turns);
        let station = known.unwrap_or_else(|| {
            // Each visit brings its own service time.
            self.station(Service::new(Station::new(1), Delay::once(0.0)))
        });
        self.on_nodes.entry(self.node).or_default().turns = Some(station);
        Some((station, Delay::once(serial)))
    }
}
