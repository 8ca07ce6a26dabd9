//! A node's cores, and the other resources that its threads share: a CPU quota, an interpreter's lock, memory bandwidth.

use std::collections::BTreeMap;

use forebay_engine::fluid::{Capacity, Demand, GroupId, LinkId, Use};
use forebay_report::{Part, Resource};
use forebay_scenario::{
    Burst, CpuUse, Device as Processor, Faulty, Job, Node, Scheduling, ServerPlace, Servers, Stage,
};

use super::Builder;
use super::job::JobCopy;
use super::mount::Coupled;
use crate::communication::{IdleCores, Overhead};
use crate::env::{Cores, Delay, Service, Station, TokenBucket};
use crate::ids::TokenBucketId;
use crate::run::resource::Member;

/// How the threads of one loader and of its trainers get a node's cores.
pub(in crate::run) struct OnCores {
    /// How threads get the cores if they share no other resource.
    plain: Cores,
    /// The link that models the cores, if threads share them or go at varying speed; `None` if each core is a server of a FIFO
    /// station and nothing slows its service.
    link: Option<LinkId>,
    quota: Option<LinkId>,
    lock: Option<LinkId>,
    memory: Option<LinkId>,
}

impl Builder<'_> {
    /// Returns how a loader of a job copy gets cores on the node being built; `coupled` says whether transfers use the cores too.
    pub(in crate::run) fn on_cores(&mut self, copy: &JobCopy, coupled: bool) -> OnCores {
        let job = copy.job;
        let (plain, link) = self.cores(job, threads_of(job), coupled || shares_more(job));
        let memory = (job.cpu.traffic > 0.0).then(|| self.memory()).flatten();
        let (quota, _) = self.quota_of(copy);
        let locks = job.loader.stages.iter().any(|stage| stage.lock > 0.0)
            || job.launch.as_ref().is_some_and(|launch| launch.lock > 0.0);
        let lock = locks.then(|| {
            let link = self.env.network.link(Capacity::Fixed(1.0));
            let lock = Resource::job(copy.index, Part::Gil);
            self.resource(lock, "thread", 1.0, Member::Link(link));
            link
        });
        OnCores { plain, link, quota, lock, memory }
    }

    /// Returns the cores of the node being built, for `threads` threads of `job`; also returns the link of the cores if threads
    /// share them or go at varying speed. As long as each thread can have a core of its own, a FIFO station gives the same times
    /// as shared cores, and needs no computation of rates. A station does not suffice if busy cores slow each other, or if
    /// threads also share other resources (`shared`).
    pub(in crate::run) fn cores(
        &mut self,
        job: &Job,
        threads: u32,
        shared: bool,
    ) -> (Cores, Option<LinkId>) {
        if let Some(known) = self.on_nodes.entry(self.node).or_default().cores {
            return known;
        }
        // Other jobs may add threads to the node.
        let threads = if self.scenario.cluster.share_nodes { u32::MAX } else { threads };
        let made = self.new_cores(job, threads, shared);
        self.on_nodes.entry(self.node).or_default().cores = Some(made);
        made
    }

    fn new_cores(&mut self, job: &Job, threads: u32, shared: bool) -> (Cores, Option<LinkId>) {
        let node = self.here();
        if node.scheduling == Scheduling::Fifo && self.paces(job) {
            let service = Delay::once(0.0);
            let station = self.station(Service::new(Station::new(node.cores), service));
            let link = self.core_link(node, node.cores);
            return (Cores::Paced(station, self.group(&[link], 1.0)), Some(link));
        }
        let taken = self.scenario.faults.iter().any(|fault| fault.what == Faulty::Cores);
        let slowed = taken || node.core_speed.iter().any(|speed| *speed != 1.0);
        if node.scheduling == Scheduling::Fifo || threads <= node.cores && !slowed && !shared {
            return (self.core_slots(node), None);
        }
        let link = self.core_link(node, threads);
        (Cores::Shared(self.group(&[link], 1.0)), Some(link))
    }

    /// Returns whether something slows threads of `job` that have a core of the node being built, or threads of other jobs there.
    fn paces(&self, job: &Job) -> bool {
        let faulty = |nodes: &[u32]| nodes.is_empty() || nodes.contains(&self.node);
        let mut faults = self.scenario.faults.iter();
        let jobs = match self.scenario.cluster.share_nodes {
            true => &self.scenario.jobs[..],
            false => std::slice::from_ref(job),
        };
        faults.any(|fault| fault.what == Faulty::Cores && faulty(&fault.nodes))
            || jobs.iter().any(|job| job.cpu.quota.is_finite() || waits_on_core(job))
    }

    /// Returns a FIFO station with one server for each core of `node`.
    fn core_slots(&mut self, node: &Node) -> Cores {
        self.slots(Resource::node(Part::Cores), node.cores)
    }

    /// Adds a FIFO station with `cores` servers, one for each core, to the resource `of`.
    fn slots(&mut self, of: Resource, cores: u32) -> Cores {
        // Each visit brings its own service time.
        let service = Delay::once(0.0);
        let station = self.station(Service::new(Station::new(cores), service));
        self.resource(of, "cores", f64::from(cores), Member::Station(station));
        Cores::Fifo(station)
    }

    /// Adds a link for the cores of a node that `threads` threads share.
    fn core_link(&mut self, node: &Node, threads: u32) -> LinkId {
        let by_threads = (1..=node.most_threads()).map(|threads| node.core_capacity(threads));
        let capacity = match node.most_threads() {
            1 => node.usable_cores,
            _ => by_threads.fold(0.0, f64::max),
        };
        let link = self.env.network.link(shared_cores(node, threads));
        self.resource(Resource::node(Part::Cores), "cores", capacity, Member::Link(link));
        link
    }

    /// Returns the CPU quota of a job copy on the node being built, if it has one: its link and, if it has periods, its token bucket.
    pub(in crate::run) fn quota_of(
        &mut self,
        copy: &JobCopy,
    ) -> (Option<LinkId>, Option<TokenBucketId>) {
        let CpuUse { quota, period, .. } = copy.job.cpu;
        let known = self.on_nodes.get(&self.node).and_then(|node| node.quotas.get(&copy.number));
        if quota.is_infinite() || known.is_some() {
            return known.map_or((None, None), |(link, bucket)| (Some(*link), *bucket));
        }
        let link = self.env.network.link(Capacity::Fixed(quota));
        let of = Resource::job(copy.index, Part::CpuQuota);
        self.resource(of, "cores", quota, Member::Link(link));
        let bucket = period.and_then(|period| self.gate(copy, link, period));
        let quotas = &mut self.on_nodes.entry(self.node).or_default().quotas;
        quotas.insert(copy.number, (link, bucket));
        (Some(link), bucket)
    }

    /// Adds the token bucket of a CPU quota with periods, whose link is `link`, unless the node has no more cores than the quota.
    fn gate(&mut self, copy: &JobCopy, link: LinkId, period: f64) -> Option<TokenBucketId> {
        let (quota, cores) = (copy.job.cpu.quota, f64::from(self.here().cores));
        let of_period = quota * period;
        let gate =
            Burst { bandwidth: cores, bucket: of_period, content: of_period, period: Some(period) };
        let bucket = TokenBucket::new(link, quota, gate);
        (quota < cores).then(|| self.env.buckets.push(bucket))
    }

    /// Returns the core-seconds of a job copy's messages, and the cores that spend them. The job copy is on nodes from `first`
    /// on; its messages and its loaders share the cores of these nodes. Returns `None` if neither messages nor updates at
    /// servers take core time.
    pub(in crate::run) fn overhead(&mut self, copy: &JobCopy, first: u32) -> Option<Overhead> {
        let job = copy.job;
        let cost = job.sync.as_ref().map(|sync| sync.transport.cpu)?;
        let update = job.servers().map_or(0.0, |servers| 1.0 / servers.update);
        if cost.is_none() && update == 0.0 {
            return None;
        }
        let (mut cores, mut idle) = (Vec::new(), BTreeMap::new());
        for (node, ranks) in (first..).zip(job.ranks_by_node()) {
            self.node = node;
            let own = (!cost.is_none()).then(|| self.message_cores(copy));
            cores.extend(std::iter::repeat_n(own, ranks as usize));
            idle.extend(own.map(|own| (own, idle_cores(self.here(), job))));
        }
        if let Some(servers) = job.servers() {
            cores.extend(self.server_cores(copy, servers, first));
        }
        let servers = job.ranks_by_node().sum();
        Some(Overhead { cost, update, servers, cores, idle })
    }

    /// Returns the cores of each parameter server of a job copy, which is on nodes from `first` on.
    fn server_cores(
        &mut self,
        copy: &JobCopy,
        servers: &Servers,
        first: u32,
    ) -> Vec<Option<Cores>> {
        let mut of = |number: u32| match servers.place {
            ServerPlace::Own { cores, .. } => {
                self.node = first;
                self.slots(Resource::server(Part::Cores), cores)
            }
            ServerPlace::WithWorkers => {
                self.node = first + number % copy.job.nodes;
                self.message_cores(copy)
            }
        };
        (0..servers.number()).map(|number| Some(of(number))).collect()
    }

    /// Returns how messages of a job copy get cores of the node being built.
    fn message_cores(&mut self, copy: &JobCopy) -> Cores {
        let job = copy.job;
        let (plain, link) = self.cores(job, u32::MAX, true);
        let Some(link) = link else { return plain };
        let (quota, _) = self.quota_of(copy);
        let route: Vec<LinkId> = [link].into_iter().chain(quota).collect();
        plain.with(self.group(&route, 1.0))
    }

    /// Returns the link that models the memory bandwidth of the node being built; `None` if the bandwidth is unlimited.
    pub(in crate::run) fn memory(&mut self) -> Option<LinkId> {
        let bandwidth = self.here().memory_bandwidth;
        if bandwidth.is_infinite() {
            return None;
        }
        let known = self.on_nodes.get(&self.node).and_then(|node| node.memory);
        if known.is_some() {
            return known;
        }
        let link = self.own_link(Resource::node(Part::MemoryBandwidth), bandwidth);
        self.on_nodes.entry(self.node).or_default().memory = Some(link);
        Some(link)
    }
}

impl OnCores {
    /// Returns how the workers of `stage` of `job` get cores.
    pub(in crate::run) fn of_stage(
        &self,
        builder: &mut Builder,
        job: &Job,
        stage: &Stage,
    ) -> Cores {
        self.with(builder, stage.lock, job.cpu.traffic)
    }

    /// Returns how the trainers of `job` get cores.
    pub(in crate::run) fn of_trainers(&self, builder: &mut Builder, job: &Job) -> Cores {
        self.with(builder, job.launch.as_ref().map_or(0.0, |launch| launch.lock), 0.0)
    }

    /// Returns how threads get cores if they hold the lock for the share `lock` of their time and move `traffic` bytes in
    /// memory per core-second. Threads that wait for the lock or for memory still occupy their cores.
    fn with(&self, builder: &mut Builder, lock: f64, traffic: f64) -> Cores {
        let Some(link) = self.link else { return self.plain };
        let uses =
            [(Some(link), 1.0), (self.quota, 1.0), (self.lock, lock), (self.memory, traffic)];
        let used = |(link, per_unit): (Option<LinkId>, f64)| Some(Use { link: link?, per_unit });
        let route = uses.into_iter().filter_map(used).collect();
        self.plain.with(builder.env.network.group(Demand { route, weight: 1.0, cap: 1.0 }))
    }

    /// Returns the group of flows over `route` that also use a core; `None` if the cores are a FIFO station. Transfers and
    /// threads that compete for cores get equal shares of a core.
    pub(in crate::run) fn coupled(
        &self,
        builder: &mut Builder,
        route: Vec<Use>,
        coupled: Coupled,
    ) -> Option<GroupId> {
        let Coupled { cpu, alone } = coupled;
        if self.plain.slots().is_some() {
            return None;
        }
        let cores = [Some(self.link?), self.quota].into_iter().flatten();
        let cores = cores.map(|link| Use { link, per_unit: cpu });
        let route = route.into_iter().chain(cores).collect();
        Some(builder.env.network.group(Demand { route, weight: 1.0 / cpu, cap: 1.0 / alone }))
    }
}

/// Returns the cores of a node as they are when only messages of `job` use them.
fn idle_cores(node: &Node, job: &Job) -> IdleCores {
    match node.scheduling {
        Scheduling::Fifo => IdleCores::Slots { cores: node.cores, quota: job.cpu.quota },
        Scheduling::Shared => {
            IdleCores::Shared { cores: shared_cores(node, u32::MAX), quota: job.cpu.quota }
        }
    }
}

/// Returns the total capacity of a node's cores, by the number of threads that share them (at most `threads`).
fn shared_cores(node: &Node, threads: u32) -> Capacity {
    match node.most_threads() {
        1 => Capacity::Fixed(node.usable_cores),
        most => {
            let threads = 1..=most.min(threads.max(1));
            Capacity::ByFlows(threads.map(|threads| node.core_capacity(threads)).collect())
        }
    }
}

/// Returns whether threads of a job share more than cores, so that a station does not suffice.
fn shares_more(job: &Job) -> bool {
    job.cpu.quota.is_finite()
        || messages_use_cores(job)
        || job.cpu.inner.is_some()
        || waits_on_core(job)
}

/// Returns whether threads of a job may have to wait for memory or for an interpreter's lock while they have a core.
fn waits_on_core(job: &Job) -> bool {
    job.cpu.traffic > 0.0
        || job.launch.as_ref().is_some_and(|launch| launch.lock > 0.0)
        || job.loader.stages.iter().any(|stage| stage.lock > 0.0)
}

/// Returns the speed of each of `threads` threads that have the node's cores to themselves, relative to one undisturbed core.
pub(in crate::run) fn speed_alone(node: &Node, threads: u32) -> f64 {
    (node.core_capacity(threads) / f64::from(threads)).min(1.0)
}

/// Returns whether the exchange of a job's gradients needs cores of the nodes.
fn messages_use_cores(job: &Job) -> bool {
    let beside =
        |servers: &Servers| servers.place == ServerPlace::WithWorkers && servers.update.is_finite();
    job.sync.as_ref().is_some_and(|sync| !sync.transport.cpu.is_none())
        || job.servers().is_some_and(beside)
}

/// Returns the number of threads of a job's loaders and trainers on one node; unlimited if messages use the cores too.
fn threads_of(job: &Job) -> u32 {
    if messages_use_cores(job) {
        return u32::MAX;
    }
    let workers = job.loader.stages.iter().fold(0, |sum, stage| stage.workers.saturating_add(sum));
    let workers = workers.saturating_mul(job.loaders_per_node());
    let workers = workers.saturating_mul(job.cpu.inner.map_or(1, |inner| inner.threads));
    let threads = match job.device {
        Processor::Accelerator => job.launch.as_ref().map_or(0, |launch| launch.threads),
        Processor::Cpu { threads } => threads,
    };
    let gpus = job.copies_per_node.saturating_mul(job.gpus_per_copy() as u32);
    let trainers = gpus.saturating_mul(job.learners.most);
    workers.saturating_add(threads.saturating_mul(trainers))
}
