//! Builds the world at the start of a run from a scenario.
//!
//! A `Builder` adds component by component in the scenario's order, so that the ids of all components follow from the scenario
//! alone:
//!
//! - `job`: job copies, their devices, and the trainers of their GPUs; `loader`: their loaders, and the operations of workers,
//! - `cores`: how threads get a node's cores; `node`: NICs, and routes between and to GPUs; `mount`: a storage as a node sees it,
//!   and its request path for one client,
//! - `caches`: a node's page cache, and its caches on its own storage; `staging`: copying of data sets before training, and
//!   background loads,
//! - `recovery`: checkpoints and failures; `fault`: the components that faults slow,
//! - `sync`: synchronisation of model copies, and steps cut where gradients are ready; `servers`: their exchanges with parameter
//!   servers; `ports`: the links of ranks, and communicators whose links nothing else uses; `parallel`: models spread over GPUs;
//!   `layout`: which of these GPUs have collectives with each other.

mod caches;
mod cores;
mod fault;
mod job;
mod layout;
mod loader;
mod mount;
mod node;
mod parallel;
mod ports;
mod recovery;
mod servers;
mod staging;
mod sync;

use std::collections::BTreeMap;

use forebay_engine::Time;
use forebay_engine::fluid::{Demand, GroupId, LinkId, Use};
use forebay_metrics::Recorder;
use forebay_model::random::Streams;
use forebay_report::Resource;
use forebay_scenario::{Job, Node, SampledNodes, Scenario};

use super::resource::{Member, ResourceRun, Resources};
use super::steady::Steady;
use super::watch::Watch;
use super::world::World;
use super::{LOOK_UPS_IN_EVENT, Options};
use crate::communication::Communicators;
use crate::device::Devices;
use crate::env::{ActivityId, Delay, DeviceGpu, Env, Faults, Lanes, Service};
use crate::ids::{DeviceId, IdVec, JobId, LoaderId, StationId, WorkId};
use crate::job::{JobRun, Jobs, Recoveries, Waiting};
use crate::loader::{Fetch, Loaders};
use crate::storage::{Background, Endless, Sizes, Stagings};
use caches::DataSets;
use mount::Backend;
use node::OnNode;

/// A world being built.
struct Builder<'s> {
    scenario: &'s Scenario,
    /// The nodes to simulate; `None`: all.
    sample: Option<&'s SampledNodes>,
    env: Env,
    lanes: Lanes,
    /// Components of each storage that all nodes share; `None` until the storage has been built.
    shared: Vec<Option<Backend>>,
    resources: Vec<ResourceRun>,
    /// The first operation of each stage of the current job.
    first_operations: Vec<WorkId>,
    /// Number of the node being built.
    node: u32,
    /// Components of each node that the job copies on it share.
    on_nodes: BTreeMap<u32, OnNode>,
    /// Links between GPUs and between racks.
    links: BTreeMap<sync::LinkPlace, LinkId>,
    data: DataSets,
    replication: u32,
    /// Number of checkpoint files of the job copies built so far.
    checkpoint_files: u64,
    places: DevicePlaces,
    parts: Parts,
}

/// Where devices are.
#[derive(Default)]
struct DevicePlaces {
    /// Node of each device.
    nodes: IdVec<DeviceId, u32>,
    /// The GPUs of each device, if a fault slows GPUs.
    gpus: BTreeMap<DeviceId, Vec<DeviceGpu>>,
}

/// The components that belong to job copies, collected while the job copies are added.
#[derive(Default)]
struct Parts {
    jobs: IdVec<JobId, JobRun>,
    stagings: Stagings,
    loaders: Loaders,
    devices: Devices,
    communicators: Communicators,
    recoveries: Recoveries,
    background: Background,
    waiting: Vec<Waiting>,
}

/// Returns the world of one replication before anything has happened; the first events are scheduled.
///
/// If only the nodes of `sample` are simulated, storages that nodes share have only these nodes' share of their size.
pub(super) fn build<'a>(
    scenario: &Scenario,
    sample: Option<&SampledNodes>,
    replication: u32,
    options: &Options<'_>,
) -> World<'a> {
    let mut builder = Builder::new((scenario, sample), replication, options.trace);
    let known = options.collectives.cloned().unwrap_or_default();
    builder.parts.communicators = Communicators::new(known);
    builder.jobs();
    let endless = builder.backgrounds();
    if !options.every_transfer {
        builder.own_links();
    }
    let mut world = builder.world();
    world.jobs.end_with(options.until);
    let env = &mut world.env;
    for load in endless {
        let Endless { group, streams } = load;
        env.network.start_many(Time::ZERO, group, f64::INFINITY, streams, ActivityId::Endless);
    }
    if !options.epochs_before.is_empty() {
        let jobs = &mut world.jobs;
        let all = jobs.loaders.loaders.iter();
        let owners: IdVec<LoaderId, usize> =
            all.map(|loader| jobs.all()[loader.place.job].job).collect();
        let before = |l| options.epochs_before.get(owners[l]).copied().unwrap_or(0.0);
        env.before = jobs.loaders.begin_after(env, before) / LOOK_UPS_IN_EVENT;
        // Data that jobs copy before training have been copied.
        jobs.skip_stagings();
    }
    env.begin_buckets();
    world.background.begin(env);
    world.faults.begin(env);
    world.jobs.begin(env);
    world
}

impl<'s> Builder<'s> {
    fn new(
        (scenario, sample): (&'s Scenario, Option<&'s SampledNodes>),
        replication: u32,
        trace: bool,
    ) -> Self {
        let mut env = Env::new(Streams::new(scenario.run.seed, replication));
        env.recorder = trace.then(Recorder::default);
        Builder {
            scenario,
            sample,
            env,
            lanes: Lanes::default(),
            shared: vec![None; scenario.storage.len()],
            resources: Vec::new(),
            first_operations: Vec::new(),
            node: 0,
            on_nodes: BTreeMap::new(),
            links: BTreeMap::new(),
            data: DataSets::new(scenario),
            replication,
            checkpoint_files: 0,
            places: DevicePlaces::default(),
            parts: Parts::default(),
        }
    }

    /// Adds all job copies. Each gets its own nodes, unless the cluster's nodes are shared by jobs.
    fn jobs(&mut self) {
        let mut node = 0;
        for (index, job) in self.scenario.jobs.iter().enumerate() {
            self.operations(job);
            for copy in 0..job.copies {
                self.job_copy(index, copy, node);
                node += if self.scenario.cluster.share_nodes { 0 } else { job.nodes };
            }
        }
    }

    /// Returns the world with all components.
    fn world<'a>(self) -> World<'a> {
        let faults = self.faults();
        let Builder { scenario, env, resources, parts, data, places, .. } = self;
        let datasets = scenario.datasets.iter().zip(0..);
        let mut loaders = parts.loaders;
        loaders.devices = parts.devices.ids().len();
        if scenario.datasets.iter().any(|dataset| dataset.ranges.is_some()) {
            loaders.fetches.of = loaders.workers.iter().map(|_| Fetch::default()).collect();
        }
        if scenario.jobs.iter().any(|job| job.cpu.inner.is_some()) {
            loaders.threads = IdVec::filled(0, loaders.workers.len() as u32);
        }
        loaders.work = IdVec::filled(0.0, loaders.workers.len() as u32);
        loaders.look_ahead();
        loaders.storages.sizes = datasets.map(|(dataset, id)| Sizes::new(dataset, id)).collect();
        (loaders.storages.units, loaders.storages.files) = (data.units.0, data.files.0);
        let jobs = Jobs::new(
            parts.jobs,
            parts.devices,
            (loaders, parts.communicators),
            parts.recoveries,
            parts.waiting,
        );
        World {
            env,
            jobs,
            stagings: parts.stagings,
            background: parts.background,
            faults: Faults { all: faults.into_iter().collect(), gpus: places.gpus },
            resources: Resources {
                all: resources,
                device_nodes: places.nodes,
                ..Resources::default()
            },
            watch: Watch::new(&Options::default(), Time::NEVER, None),
            steady: Steady::default(),
        }
    }

    /// Returns which nodes of a job copy of `job` are simulated, as numbers within the job copy, whose first node is node `first` of
    /// the cluster.
    fn simulated(&self, job: &Job, first: u32) -> Vec<u32> {
        let all = first..first + job.nodes;
        match self.sample {
            None => (0..job.nodes).collect(),
            Some(sample) => sample.among(&all).iter().map(|node| node - first).collect(),
        }
    }

    /// Returns the settings of the node being built.
    fn here(&self) -> &'s Node {
        self.scenario.cluster.node_at(self.node)
    }

    /// Returns a constant delay of `seconds` for many events, with a lane of the calendar if one is free.
    fn recurring(&mut self, seconds: f64) -> Delay {
        self.lanes.recurring(&mut self.env.calendar, seconds)
    }

    /// Adds a station.
    fn station(&mut self, service: Service) -> StationId {
        self.env.stations.push(service)
    }

    /// Adds a group of flows over the links of `route`; each flow has a rate of at most `cap` [B/s].
    fn group(&mut self, route: &[LinkId], cap: f64) -> GroupId {
        self.way(route.iter().map(|link| Use { link: *link, per_unit: 1.0 }).collect(), cap)
    }

    /// Adds a group of flows over `route`, where each link may carry more or less than one byte for each byte of a flow; each
    /// flow has a rate of at most `cap`.
    fn way(&mut self, route: Vec<Use>, cap: f64) -> GroupId {
        self.env.network.group(Demand { route: route.into(), weight: 1.0, cap })
    }

    /// Adds `member` to the resource `of`.
    fn resource(&mut self, of: Resource, unit: &'static str, capacity: f64, member: Member) {
        let known = self.resources.iter().position(|r| r.of == of);
        let index = known.unwrap_or_else(|| {
            let (members, nodes, left_out) = (Vec::new(), Vec::new(), Vec::new());
            self.resources.push(ResourceRun { of, unit, capacity, members, nodes, left_out });
            self.resources.len() - 1
        });
        let resource = &mut self.resources[index];
        resource.members.push((member, capacity / resource.capacity));
        resource.nodes.push(self.node);
    }

    /// Adds a track of `process` to the timeline, if one is recorded.
    fn track(&mut self, process: Option<u32>, name: impl FnOnce() -> String) -> Option<u32> {
        let process = process?;
        self.env.recorder.as_mut().map(|recorder| recorder.track(process, name()))
    }
}
