//! From a scenario to a world at the start of its run.

use std::collections::{BTreeMap, VecDeque};

use crate::account::{Queue, Recorder};
use crate::engine::{Calendar, Time};
use crate::fluid::{Capacity, Demand, GroupId, LinkId, Network, Use};
use crate::random::{Purpose, Sampler, Streams};
use crate::scenario::storage::Bandwidth;
use crate::scenario::{
    BackgroundLoad, Device as Processor, Distribution, Goal, Job, Node, Operation, Order,
    QueueKind, ReadCpu, Scenario, Scheduling, Stage, StorageKind, Unit,
};

use super::background::{Endless, Load};
use super::event::{Clock, Customer, Delay, Event, Lanes};
use super::read::{Mount, RequestLatency, ShardCursor, Source};
use super::sizes::Sizes;
use super::stages::StageRun;
use super::station::Station;
use super::trainer::{CpuThreads, Device, JobRun, stage_seconds};
use super::workers::{Cores, Draw, Work, Worker};
use super::world::{LoaderRun, Member, Resource, Service, World};

/// A world being built.
struct Builder<'s, 'c> {
    scenario: &'s Scenario,
    calendar: &'c mut Calendar<Event>,
    lanes: Lanes,
    network: Network<Customer>,
    stations: Vec<Service>,
    /// What all nodes share of each storage, once it was asked for.
    shared: Vec<Option<Backend>>,
    resources: Vec<Resource>,
    /// By stage of the job at hand, the first of its operations.
    first_operations: Vec<u32>,
    /// The node being built.
    node: u32,
    /// What job copies share on a node, where they do.
    on_nodes: BTreeMap<u32, OnNode>,
}

/// What job copies on a node share.
#[derive(Debug, Default)]
struct OnNode {
    cores: Option<(Cores, Option<LinkId>)>,
    nic: Option<LinkId>,
    /// Disks and memory, by storage.
    disks: BTreeMap<usize, Backend>,
}

/// Where a storage's requests and bytes go.
#[derive(Debug, Clone)]
struct Backend {
    station: Option<u32>,
    link: Option<LinkId>,
}

/// What a storage's kind says, in one shape.
struct Medium<'s> {
    bandwidth: &'s Bandwidth,
    per_stream: f64,
    latency: Option<&'s Distribution>,
    operations: f64,
    remote: bool,
    cpu: ReadCpu,
}

/// What is left of a storage's times when a request's core-seconds are taken out of them.
#[derive(Debug, Clone, Copy, Default)]
struct Rest {
    /// To be added to the latency [s].
    latency: f64,
    /// Core-seconds apart from the bytes' way.
    cpu: ReadCpu,
    /// Core-seconds per byte that are spent while the bytes are on their way, and the time per byte
    /// of a request that is alone.
    coupled: Option<(f64, f64)>,
}

impl Medium<'_> {
    /// Takes a request's core-seconds, which are part of its time, out of latency and time per byte.
    /// Where one of the two is all core-seconds and more, the other makes up for that in requests of
    /// `size`. Bytes whose way cannot be as fast as what would be left of it keep a core busy while
    /// they are on it, if that is mostly a core's work or the latency cannot make up for it.
    fn take_cpu(&mut self, size: f64) -> Rest {
        let cpu = self.cpu;
        if cpu == ReadCpu::default() {
            return Rest::default();
        }
        let latency = self.latency.map_or(0.0, Distribution::mean);
        let (mut fixed, mut per_byte) = (latency - cpu.fixed, 1.0 / self.per_stream);
        if fixed < 0.0 {
            per_byte += fixed / size;
            fixed = 0.0;
        }
        let least = 1.0 / self.most();
        // What a core's part of the time per byte cannot be taken out of.
        let (alone, missing) = (per_byte.max(least), least - (per_byte.max(least) - cpu.per_byte));
        let mostly = cpu.per_byte > alone.max(least) / 2.0 || missing * size > fixed;
        if mostly && cpu.per_byte > 0.0 && missing > 0.0 {
            let alone = per_byte.max(cpu.per_byte);
            self.per_stream = 1.0 / alone;
            let cpu_alone = ReadCpu { per_byte: 0.0, ..cpu };
            let coupled = Some((cpu.per_byte, alone.max(least)));
            return Rest { latency: fixed - latency, cpu: cpu_alone, coupled };
        }
        if missing > 0.0 {
            fixed -= missing * size;
        }
        per_byte -= cpu.per_byte;
        if per_byte < 0.0 {
            fixed += per_byte * size;
        }
        // No time per byte at all is a stream without cap.
        self.per_stream = if per_byte > 0.0 { 1.0 / per_byte } else { f64::INFINITY };
        Rest { latency: fixed.max(0.0) - latency, cpu, coupled: None }
    }

    /// Fastest that all transfers go together [B/s].
    fn most(&self) -> f64 {
        match self.bandwidth {
            Bandwidth::Fixed(rate) => *rate,
            Bandwidth::ByTransfers(table) => table.iter().copied().fold(0.0, f64::max),
        }
    }
}

impl World<'_> {
    pub(super) fn new<'a>(
        scenario: &Scenario,
        replication: u32,
        trace: bool,
        calendar: &mut Calendar<Event>,
    ) -> World<'a> {
        let mut builder = Builder {
            scenario,
            calendar,
            lanes: Lanes::default(),
            network: Network::new(),
            stations: Vec::new(),
            shared: vec![None; scenario.storage.len()],
            resources: Vec::new(),
            first_operations: Vec::new(),
            node: 0,
            on_nodes: BTreeMap::new(),
        };
        let recorder = trace.then(Recorder::default);
        let mut parts = Parts { recorder, ..Parts::default() };
        let mut node = 0;
        for (index, job) in scenario.jobs.iter().enumerate() {
            builder.operations(job, &mut parts.works);
            for copy in 0..job.copies {
                builder.job_copy(index, job, copy, node, &mut parts);
                node += if scenario.cluster.share_nodes { 0 } else { job.nodes };
            }
        }
        let endless = builder.backgrounds(&mut parts.loads);
        let Builder { network, stations, resources, .. } = builder;
        let datasets = scenario.datasets.iter().zip(0..);
        let sizes = datasets.map(|(dataset, id)| Sizes::new(dataset, id)).collect();
        let mut world = World {
            streams: Streams::new(scenario.run.seed, replication),
            network,
            stations,
            sizes,
            unfinished: parts.jobs.len(),
            jobs: parts.jobs,
            loaders: parts.loaders,
            stages: parts.stages,
            works: parts.works,
            workers: parts.workers,
            shards: parts.shards,
            tracks: parts.tracks,
            devices: parts.devices,
            loads: parts.loads,
            requests: Vec::new(),
            free_requests: Vec::new(),
            resources,
            runnable: VecDeque::new(),
            segments: Vec::new(),
            recorder: parts.recorder,
            now: Time::ZERO,
            flows: 0,
            events: 0,
            stop: None,
            handled: 0,
        };
        world.plan_start(calendar, &endless);
        world
    }

    fn plan_start(&mut self, calendar: &mut Calendar<Event>, endless: &[Endless]) {
        for load in endless {
            self.network.start_many(
                Time::ZERO,
                load.group,
                f64::INFINITY,
                load.streams,
                Customer::Endless,
            );
        }
        let mut clock = Clock { now: Time::ZERO, calendar };
        for load in 0..self.loads.len() as u32 {
            let gap = self.gap(load, 0);
            clock.after(gap, Event::Arrived(load));
        }
        for (j, job) in self.jobs.iter().enumerate() {
            clock.calendar.schedule(job.start, Event::JobStarted(j as u32));
        }
    }
}

/// The components, as they are added job copy by job copy.
#[derive(Default)]
struct Parts {
    jobs: Vec<JobRun>,
    loaders: Vec<LoaderRun>,
    stages: Vec<StageRun>,
    works: Vec<Work>,
    workers: Vec<Worker>,
    shards: Vec<ShardCursor>,
    tracks: Vec<u32>,
    devices: Vec<Device>,
    loads: Vec<Load>,
    recorder: Option<Recorder>,
}

impl Builder<'_, '_> {
    fn job_copy(&mut self, index: usize, job: &Job, copy: u32, node: u32, parts: &mut Parts) {
        let j = parts.jobs.len() as u32;
        let start = Time::from_seconds(job.start + job.stagger * copy as f64);
        let shares = job.pipeline.as_ref().map_or(&[1.0][..], |p| &p.shares);
        let node_of = &self.scenario.cluster.node;
        let threads = match job.device {
            Processor::Accelerator => None,
            Processor::Cpu { threads } => {
                Some(CpuThreads { number: threads, speed: speed_alone(node_of, threads) })
            }
        };
        let speed = if threads.is_none() { node_of.gpu_speed } else { 1.0 };
        let stage_times = shares
            .iter()
            .map(|share| stage_seconds(&job.step, job.batch, *share) / speed)
            .map(|seconds| self.lanes.recurring(self.calendar, seconds))
            .collect();
        let overlap = job.pipeline.as_ref().is_some_and(|p| p.overlap);
        let window = if overlap { shares.len() as u64 } else { 1 };
        let target = self.scenario.goal(job);
        let mut run = JobRun::new(
            index,
            copy,
            start,
            job.batch,
            job.batch_interval,
            stage_times,
            job.step.jitter.as_ref().map(Sampler::new),
            target.steps,
            window,
            job.copies_per_node * job.nodes,
        );
        run.fresh_target = target.fresh;
        run.threads = threads;
        if let Some(pipeline) = &job.pipeline {
            let latency = self.scenario.cluster.node.intra.latency;
            run.activations = pipeline.activations;
            run.hand_over = self.lanes.recurring(self.calendar, latency);
        }
        let (first_loader, first_device) = (parts.loaders.len() as u32, parts.devices.len() as u32);
        for rank in 0..job.nodes {
            self.node = node + rank;
            let l = parts.loaders.len() as u32;
            let name = format!("{}[{copy}] node {}", job.name, node + rank);
            let process = parts.recorder.as_mut().map(|recorder| recorder.process(name));
            self.loader(job, j, rank, start, &target, copy == 0, process, parts);
            for model in 0..job.copies_per_node {
                for stage in 0..shares.len() as u32 {
                    let model = rank * job.copies_per_node + model;
                    let mut device = Device::new(j, l, model, stage);
                    device.track = track(parts, process, || format!("gpu {model}.{stage}"));
                    parts.devices.push(device);
                }
            }
        }
        run.loaders = first_loader..parts.loaders.len() as u32;
        run.devices = first_device..parts.devices.len() as u32;
        parts.jobs.push(run);
    }

    #[expect(clippy::too_many_arguments, reason = "one call, all of different types")]
    fn loader(
        &mut self,
        job: &Job,
        j: u32,
        rank: u32,
        start: Time,
        target: &Goal,
        first_copy: bool,
        process: Option<u32>,
        parts: &mut Parts,
    ) {
        let l = parts.loaders.len() as u32;
        let dataset = &self.scenario.datasets[job.dataset];
        let (first_stage, first) = (parts.stages.len() as u32, parts.workers.len() as u32);
        let (mut mount, route, rest) =
            self.mount(job.storage, Client::Node(dataset.mean_request()));
        let (cores, link) = self.cores(threads_of(job), rest.coupled.is_some());
        if let (Some((cpu, alone)), Some(link)) = (rest.coupled, link) {
            mount.group = Some(self.coupled(route, link, cpu, 1.0 / alone));
            // Where the line is much slower than a core, what takes longer than alone waits for it.
            mount.alone = if cpu > alone / 2.0 { alone } else { 0.0 };
        }
        let mut first_worker = Vec::new();
        for (index, stage) in job.loader.stages.iter().enumerate() {
            first_worker.push(parts.workers.len() as u32);
            let s = parts.stages.len() as u32;
            let run = self.stage(job, index, l, first_stage, cores);
            parts.stages.push(run);
            for i in 0..stage.workers {
                let track = track(parts, process, || format!("{} {i}", stage.name));
                parts.tracks.extend(track);
                parts.shards.push(ShardCursor::default());
                parts.workers.push(Worker { stage: s, loader: l, ..Worker::default() });
            }
        }
        let last = &job.loader.stages[job.loader.stages.len() - 1];
        let capacity = last.buffer * samples_of(last, job);
        let circular = job.queue == QueueKind::Circular;
        let mut queue = Queue::new(capacity, job.batch, circular, job.prefill, start);
        // Reports show the first copy's series.
        if first_copy {
            queue.record(start);
        }
        let pcie = self.pcie(job);
        let intra = self.intra(job);
        let level_track = track(parts, process, || "queue".to_owned());
        parts.loaders.push(LoaderRun {
            job: j,
            rank,
            nodes: job.nodes,
            source: Source::new(dataset, job.dataset),
            mount,
            intra,
            pcie,
            decoded_size: dataset.decoded_size,
            queue,
            stages: first_stage..parts.stages.len() as u32,
            workers: first..parts.workers.len() as u32,
            first_worker,
            quota: target.quota,
            started: 0,
            in_progress: 0,
            waiters: VecDeque::new(),
            level_track,
        });
    }

    fn stage(&self, job: &Job, index: usize, l: u32, first: u32, cores: Cores) -> StageRun {
        let stages = &job.loader.stages;
        let stage = &stages[index];
        let previous = index.checked_sub(1).map(|i| &stages[i]);
        let gathers = previous.is_some_and(|p| p.unit == Unit::Sample && stage.unit == Unit::Batch);
        StageRun {
            loader: l,
            previous: previous.map(|_| first + index as u32 - 1),
            next: (index + 1 < stages.len()).then_some(first + index as u32 + 1),
            first_operation: self.first_operations[index],
            operations: operations_of(stage, job) as u32,
            per_sample: stage.per_sample.len() as u32,
            cores,
            ordered: stage.order == Order::InOrder,
            samples: samples_of(stage, job) as u32,
            takes: if gathers { job.batch as usize } else { 1 },
            capacity: stage.buffer as usize,
            buffer: VecDeque::new(),
            idle: VecDeque::new(),
            blocked: VecDeque::new(),
            inputs: 0,
            outputs: 0,
            held: Default::default(),
        }
    }

    /// Adds the operations of the stages of `job`, for all of its copies.
    fn operations(&mut self, job: &Job, works: &mut Vec<Work>) {
        let image = self.scenario.datasets[job.dataset].image;
        let pixels = image.map_or(0.0, |image| image.pixels());
        self.first_operations.clear();
        for (index, stage) in job.loader.stages.iter().enumerate() {
            self.first_operations.push(works.len() as u32);
            for (list, base) in [(&stage.per_sample, 0), (&stage.per_item, 128)] {
                let salts = (index * 256 + base) as u64..;
                works.extend(list.iter().zip(salts).map(|(op, salt)| self.work(op, salt, pixels)));
            }
            if job.hand_off > 0.0 {
                let delay = |seconds| self.lanes.recurring(self.calendar, seconds);
                works.push(Work::constant(job.hand_off, delay, (index * 256 + 255) as u64));
            }
        }
    }

    fn work(&mut self, operation: &Operation, index: u64, pixels: f64) -> Work {
        let mut draw = |distribution: &Distribution, purpose| {
            let delay = |seconds| self.lanes.recurring(self.calendar, seconds);
            Draw::new(Sampler::new(distribution), delay, purpose, index)
        };
        match operation {
            Operation::Read => Work::Read,
            Operation::Decode(law) => Work::Decode(*law, pixels),
            Operation::Compute(distribution) => Work::Compute(draw(distribution, Purpose::Compute)),
            Operation::Delay(distribution) => Work::Delay(draw(distribution, Purpose::Delay)),
            Operation::Copy => Work::Copy,
        }
    }

    /// The cores of one more node, for so many threads. As long as each can have a core of its own,
    /// sharing and slots are the same, and slots are had without solving for rates; not so where
    /// busy cores slow each other.
    fn cores(&mut self, threads: u32, coupled: bool) -> (Cores, Option<LinkId>) {
        if !self.scenario.cluster.share_nodes {
            return self.new_cores(threads, coupled);
        }
        if let Some(known) = self.on_nodes.entry(self.node).or_default().cores {
            return known;
        }
        // Others may come.
        let made = self.new_cores(u32::MAX, coupled);
        self.on_nodes.entry(self.node).or_default().cores = Some(made);
        made
    }

    fn new_cores(&mut self, threads: u32, coupled: bool) -> (Cores, Option<LinkId>) {
        let node = &self.scenario.cluster.node;
        let slowed = node.core_speed.iter().any(|speed| *speed != 1.0);
        let capacity = f64::from(node.cores);
        if node.scheduling == Scheduling::Fifo || threads <= node.cores && !slowed && !coupled {
            // Each visit brings its own service time.
            let service = Delay::once(0.0);
            self.stations.push(Service { queue: Station::new(node.cores), service });
            let station = self.stations.len() as u32 - 1;
            self.resource("node.cores", "cores", capacity, Member::Station(station));
            return (Cores::Fifo(station), None);
        }
        let by_threads: Box<[f64]> = if slowed {
            (1..=node.cores).map(|busy| f64::from(busy) * speed_of(node, busy)).collect()
        } else {
            Box::new([capacity])
        };
        let capacity = by_threads.iter().copied().fold(0.0, f64::max);
        let link = self.network.link(match &by_threads[..] {
            [one] => Capacity::Fixed(*one),
            _ => Capacity::ByFlows(by_threads),
        });
        self.resource("node.cores", "cores", capacity, Member::Link(link));
        (Cores::Shared(self.group(&[link], 1.0)), Some(link))
    }

    /// The way of bytes that use `cpu` core-seconds each on the cores `link`, where their threads
    /// count as others do: alike by the share of a core, of which `cap` [B/s] is the most.
    fn coupled(&mut self, route: Vec<LinkId>, link: LinkId, cpu: f64, cap: f64) -> GroupId {
        let bytes = route.into_iter().map(|link| Use { link, per_unit: 1.0 });
        let route = bytes.chain([Use { link, per_unit: cpu }]).collect();
        self.network.group(Demand { route, weight: 1.0 / cpu, cap })
    }

    /// The way between the GPUs of one more node, where anything goes that way.
    fn intra(&mut self, job: &Job) -> Option<GroupId> {
        let bandwidth = self.scenario.cluster.node.intra.bandwidth;
        let used = job.pipeline.as_ref().is_some_and(|pipeline| pipeline.activations > 0.0);
        (used && bandwidth.is_finite()).then(|| {
            let link = self.network.link(Capacity::Fixed(bandwidth));
            self.resource("node.intra", "B/s", bandwidth, Member::Link(link));
            self.group(&[link], f64::INFINITY)
        })
    }

    /// The way to the first GPU of each model copy on one more node.
    fn pcie(&mut self, job: &Job) -> Vec<GroupId> {
        let bandwidth = self.scenario.cluster.node.pcie;
        let copies = job.loader.stages.iter().any(|stage| {
            stage.per_sample.iter().chain(&stage.per_item).any(|op| *op == Operation::Copy)
        });
        if !copies || bandwidth.is_infinite() {
            return Vec::new();
        }
        let mut link = || {
            let link = self.network.link(Capacity::Fixed(bandwidth));
            self.resource("node.pcie", "B/s", bandwidth, Member::Link(link));
            self.group(&[link], f64::INFINITY)
        };
        (0..job.copies_per_node).map(|_| link()).collect()
    }

    /// Storage `index` as one more client sees it.
    fn mount(&mut self, index: usize, client: Client) -> (Mount, Vec<LinkId>, Rest) {
        let mut medium = medium(&self.scenario.storage[index].kind);
        let rest = match client {
            Client::Node(request) => medium.take_cpu(request),
            Client::Background => Rest::default(),
        };
        let backend = match (&self.shared[index], medium.remote || client == Client::Background) {
            (Some(backend), true) => backend.clone(),
            (None, true) => {
                let backend = self.backend(index, &medium);
                self.shared[index] = Some(backend.clone());
                backend
            }
            (_, false) => self.disk(index, &medium),
        };
        let mut route: Vec<LinkId> = backend.link.into_iter().collect();
        let nic = self.scenario.cluster.nic;
        if medium.remote && client != Client::Background && nic.is_finite() {
            route.push(self.nic(nic));
        }
        let limited = !route.is_empty() || medium.per_stream.is_finite();
        let mount = Mount {
            station: backend.station,
            latency: self.latency(&medium, rest.latency),
            group: limited.then(|| self.group(&route, medium.per_stream)),
            cpu: rest.cpu,
            alone: 0.0,
        };
        (mount, route, rest)
    }

    /// The storage of the node being built.
    fn disk(&mut self, index: usize, medium: &Medium) -> Backend {
        let known = self.on_nodes.get(&self.node).and_then(|node| node.disks.get(&index));
        if let Some(known) = known {
            return known.clone();
        }
        let made = self.backend(index, medium);
        if self.scenario.cluster.share_nodes {
            let node = self.on_nodes.entry(self.node).or_default();
            node.disks.insert(index, made.clone());
        }
        made
    }

    /// The NIC of the node being built.
    fn nic(&mut self, bandwidth: f64) -> LinkId {
        if let Some(known) = self.on_nodes.get(&self.node).and_then(|node| node.nic) {
            return known;
        }
        let link = self.network.link(Capacity::Fixed(bandwidth));
        self.resource("node.nic", "B/s", bandwidth, Member::Link(link));
        if self.scenario.cluster.share_nodes {
            self.on_nodes.entry(self.node).or_default().nic = Some(link);
        }
        link
    }

    /// Latency with what comes on top of what the storage's kind says, which may be less than 0.
    fn latency(&mut self, medium: &Medium, more: f64) -> RequestLatency {
        let round_trip = if medium.remote { 2.0 * self.scenario.cluster.latency } else { 0.0 };
        let round_trip = round_trip + more;
        let sampler = Sampler::new(medium.latency.unwrap_or(&Distribution::Constant(0.0)));
        match sampler.is_constant().map(|latency| latency + round_trip) {
            None => RequestLatency::Drawn(Box::new(sampler), round_trip),
            Some(seconds) if seconds <= 0.0 => RequestLatency::None,
            Some(seconds) => RequestLatency::Constant(self.lanes.recurring(self.calendar, seconds)),
        }
    }

    /// The storage's own station and link.
    fn backend(&mut self, index: usize, medium: &Medium) -> Backend {
        let name = &self.scenario.storage[index].name;
        let station = medium.operations.is_finite().then(|| {
            let service = self.lanes.recurring(self.calendar, 1.0 / medium.operations);
            self.stations.push(Service { queue: Station::new(1), service });
            self.stations.len() as u32 - 1
        });
        if let Some(station) = station {
            let name = format!("{name}.operations");
            self.resource(&name, "1/s", medium.operations, Member::Station(station));
        }
        let (capacity, most) = match medium.bandwidth {
            Bandwidth::Fixed(rate) => (Capacity::Fixed(*rate), *rate),
            Bandwidth::ByTransfers(table) => {
                let most = table.iter().copied().fold(0.0, f64::max);
                (Capacity::ByFlows(table.clone()), most)
            }
        };
        let link = most.is_finite().then(|| self.network.link(capacity));
        if let Some(link) = link {
            self.resource(&format!("{name}.bandwidth"), "B/s", most, Member::Link(link));
        }
        Backend { station, link }
    }

    fn backgrounds(&mut self, loads: &mut Vec<Load>) -> Vec<Endless> {
        let mut endless = Vec::new();
        for background in &self.scenario.background {
            let storage = background.storage;
            match &background.load {
                BackgroundLoad::Streams { streams, cap } => {
                    let medium = medium(&self.scenario.storage[storage].kind);
                    let cap = cap.min(medium.per_stream);
                    let (mount, ..) = self.mount(storage, Client::Background);
                    let link = self.shared[storage].as_ref().and_then(|backend| backend.link);
                    if mount.group.is_some() {
                        let route: Vec<LinkId> = link.into_iter().collect();
                        let group = self.group(&route, cap);
                        endless.push(Endless { group, streams: *streams });
                    }
                }
                BackgroundLoad::Requests { rate, size } => loads.push(Load {
                    gap: Sampler::new(&Distribution::Exponential { mean: 1.0 / rate }),
                    size: Sampler::new(size),
                    mount: self.mount(storage, Client::Background).0,
                    arrived: 0,
                }),
            }
        }
        endless
    }

    fn group(&mut self, route: &[LinkId], cap: f64) -> GroupId {
        let route = route.iter().map(|link| Use { link: *link, per_unit: 1.0 }).collect();
        self.network.group(Demand { route, weight: 1.0, cap })
    }

    fn resource(&mut self, name: &str, unit: &'static str, capacity: f64, member: Member) {
        let known = self.resources.iter().position(|r| r.name == name);
        let index = known.unwrap_or_else(|| {
            let (name, members) = (name.to_owned(), Vec::new());
            self.resources.push(Resource { name, unit, capacity, members });
            self.resources.len() - 1
        });
        self.resources[index].members.push(member);
    }
}

/// Who uses a storage.
#[derive(Clone, Copy, PartialEq)]
enum Client {
    /// A node, over its NIC where the storage is remote, with requests of this mean size [B].
    Node(f64),
    /// A background load, from elsewhere.
    Background,
}

fn medium(kind: &StorageKind) -> Medium<'_> {
    match kind {
        StorageKind::Memory { bandwidth } => Medium {
            bandwidth,
            per_stream: f64::INFINITY,
            latency: None,
            operations: f64::INFINITY,
            remote: false,
            cpu: ReadCpu::default(),
        },
        StorageKind::LocalDisk { bandwidth, per_stream, latency, operations, cpu, .. } => Medium {
            bandwidth,
            per_stream: *per_stream,
            latency: Some(latency),
            operations: *operations,
            remote: false,
            cpu: *cpu,
        },
        StorageKind::FileServer { bandwidth, per_stream, latency, operations, cpu } => Medium {
            bandwidth,
            per_stream: *per_stream,
            latency: Some(latency),
            operations: *operations,
            remote: true,
            cpu: *cpu,
        },
    }
}

/// Speed of each core while so many are busy.
fn speed_of(node: &Node, busy: u32) -> f64 {
    let at = busy.saturating_sub(1) as usize;
    node.core_speed.get(at).or(node.core_speed.last()).copied().unwrap_or(1.0)
}

/// Speed of each of so many threads that have the cores to themselves.
fn speed_alone(node: &Node, threads: u32) -> f64 {
    let busy = threads.min(node.cores);
    let capacity = f64::from(busy) * speed_of(node, busy);
    (capacity / f64::from(threads)).min(1.0)
}

/// Threads of a job's loader and trainer on one node.
fn threads_of(job: &Job) -> u32 {
    let workers: u32 = job.loader.stages.iter().map(|stage| stage.workers).sum();
    match job.device {
        Processor::Accelerator => workers,
        Processor::Cpu { threads } => {
            workers.saturating_add(threads.saturating_mul(job.copies_per_node))
        }
    }
}

/// Operations for an item of the stage, that of handing it on included.
fn operations_of(stage: &Stage, job: &Job) -> usize {
    stage.per_sample.len() + stage.per_item.len() + usize::from(job.hand_off > 0.0)
}

fn samples_of(stage: &Stage, job: &Job) -> u64 {
    match stage.unit {
        Unit::Sample => 1,
        Unit::Batch => job.batch,
    }
}

fn track(parts: &mut Parts, process: Option<u32>, name: impl FnOnce() -> String) -> Option<u32> {
    let process = process?;
    parts.recorder.as_mut().map(|recorder| recorder.track(process, name()))
}
