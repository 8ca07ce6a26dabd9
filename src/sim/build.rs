//! From a scenario to a world at the start of its run.
//!
//! A `Builder` adds component by component in the scenario's order, so that the places of all of them
//! follow from the scenario alone:
//!
//! - `job`: job copies and their devices; `loader`: the loader of each of their nodes; `work`: what
//!   its workers do,
//! - `cores`: how threads get a node's cores; `node`: NIC, ways to and between GPUs; `mount`: storage
//!   as a node sees it; `medium`: what a storage's kind says,
//! - `cache`: a node's page cache; `tiers`: its caches on its own storage; `staging`: what
//!   is copied there before,
//! - `recovery`: what it has against failures; `fault`: what faults slow,
//! - `sync`: what model copies do with their gradients; `ports`: the links between them; `parallel`: what the GPUs of
//!   a model copy do; `own_links`: ranks whose links nothing else uses,
//! - `background`: loads that are not ours.

mod background;
mod cache;
mod cores;
mod fault;
mod job;
mod loader;
mod medium;
mod mount;
mod node;
mod own_links;
mod parallel;
mod pieces;
mod ports;
mod recovery;
mod staging;
mod sync;
mod tiers;
mod work;

use std::collections::{BTreeMap, VecDeque};

use crate::account::Recorder;
use crate::cache::Cache;
use crate::engine::{Calendar, Time};
use crate::fluid::{Demand, GroupId, LinkId, Network, Use};
use crate::random::Streams;
use crate::scenario::{Dataset, Node, Scenario};

use super::ahead::readers;
use super::arm::Arm;
use super::background::{Endless, Load};
use super::cached::{PageCache, Units};
use super::communication::{CommunicatorRun, LinkUses, Messages};
use super::device::Device;
use super::event::{Clock, Customer, Delay, Event, Lanes};
use super::index::{HoldersId, IdVec, Slab, StationId, WorkId};
use super::limiter::Limiter;
use super::ranges::{Fetch, Fetches};
use super::read::ShardCursor;
use super::sizes::Sizes;
use super::stages::StageRun;
use super::staging::Staging;
use super::table::Table;
use super::trainer::JobRun;
use super::workers::{Work, Worker};
use super::workflow::Waiting;
use super::world::{LoaderRun, Member, Options, Resource, Service, World};
use mount::Backend;
use node::OnNode;

/// A world being built.
struct Builder<'s, 'c> {
    scenario: &'s Scenario,
    calendar: &'c mut Calendar<Event>,
    lanes: Lanes,
    network: Network<Customer>,
    stations: IdVec<Service>,
    /// What all nodes share of each storage, once it was asked for.
    shared: Vec<Option<Backend>>,
    resources: Vec<Resource>,
    /// By stage of the job at hand, the first of its operations.
    first_operations: Vec<WorkId>,
    /// The node being built.
    node: u32,
    /// What job copies share on a node, where they do.
    on_nodes: BTreeMap<u32, OnNode>,
    /// Links between GPUs and between racks.
    links: BTreeMap<sync::Place, LinkId>,
    /// How each data set is cut into units of a page cache, and how many there are in all.
    units: (Vec<Units>, u32),
    /// The same for caches of whole files.
    files: (Vec<Units>, u32),
    /// By data set, bytes of a request on average: a table of sizes is long.
    requests: Vec<f64>,
    /// Lists of which node keeps what, by storage and first of the nodes.
    lists: BTreeMap<(usize, u32), HoldersId>,
    replication: u32,
    /// By device, its node.
    device_nodes: IdVec<Device, u32>,
    parts: Parts,
}

/// The components, as they are added job copy by job copy.
#[derive(Default)]
struct Parts {
    jobs: IdVec<JobRun>,
    stagings: IdVec<Staging>,
    loaders: IdVec<LoaderRun>,
    stages: IdVec<StageRun>,
    works: IdVec<Work>,
    workers: IdVec<Worker>,
    shards: IdVec<Worker, ShardCursor>,
    tracks: IdVec<Worker, u32>,
    devices: IdVec<Device>,
    communicators: IdVec<CommunicatorRun>,
    loads: IdVec<Load>,
    caches: IdVec<PageCache>,
    node_caches: IdVec<Cache>,
    holders: IdVec<Vec<u32>>,
    limiters: IdVec<Limiter>,
    tables: IdVec<Table>,
    arms: IdVec<Arm>,
    waiting: Vec<Waiting>,
    recorder: Option<Recorder>,
}

impl World<'_> {
    /// The world of one replication before anything has happened; what comes first is planned.
    pub(super) fn new<'a>(
        scenario: &Scenario,
        replication: u32,
        options: &Options<'_>,
        calendar: &mut Calendar<Event>,
    ) -> World<'a> {
        let mut builder = Builder::new(scenario, replication, options.trace, calendar);
        builder.jobs();
        let endless = builder.backgrounds();
        if !options.every_transfer {
            builder.own_links();
        }
        let mut world = builder.world(Streams::new(scenario.run.seed, replication));
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
        for load in self.loads.ids() {
            let gap = self.gap(load, 0);
            clock.after(gap, Event::Arrived(load));
        }
        for (fault, f) in self.faults.iter().zip(self.faults.ids()) {
            for at in [fault.from, fault.until].into_iter().filter(|at| *at != Time::NEVER) {
                clock.calendar.schedule(at, Event::Turned(f));
            }
        }
        for (job, j) in self.jobs.iter().zip(self.jobs.ids()) {
            if !self.waiting.iter().any(|waiting| waiting.job == j) {
                clock.calendar.schedule(job.start, Event::JobStarted(j));
            }
        }
    }
}

impl<'s, 'c> Builder<'s, 'c> {
    fn new(
        scenario: &'s Scenario,
        replication: u32,
        trace: bool,
        calendar: &'c mut Calendar<Event>,
    ) -> Self {
        Builder {
            scenario,
            calendar,
            lanes: Lanes::default(),
            network: Network::new(),
            stations: IdVec::default(),
            shared: vec![None; scenario.storage.len()],
            resources: Vec::new(),
            first_operations: Vec::new(),
            node: 0,
            on_nodes: BTreeMap::new(),
            links: BTreeMap::new(),
            units: cache::units(&scenario.datasets, Units::new),
            files: cache::units(&scenario.datasets, Units::whole),
            requests: scenario.datasets.iter().map(Dataset::mean_request).collect(),
            lists: BTreeMap::new(),
            replication,
            device_nodes: IdVec::default(),
            parts: Parts { recorder: trace.then(Recorder::default), ..Parts::default() },
        }
    }

    /// Adds all job copies, each on nodes of its own unless they share them.
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

    /// All of it.
    fn world<'a>(self, streams: Streams) -> World<'a> {
        let faults = self.faults();
        let Builder {
            scenario,
            network,
            stations,
            resources,
            parts,
            units,
            files,
            device_nodes,
            ..
        } = self;
        let datasets = scenario.datasets.iter().zip(0..);
        let mut fetches = Fetches::default();
        if scenario.datasets.iter().any(|dataset| dataset.ranges.is_some()) {
            fetches.of = parts.workers.iter().map(|_| Fetch::default()).collect();
        }
        let is_far = super::ahead::is_far(parts.workers.len());
        let readers = if is_far { readers(&parts.loaders, &parts.stages) } else { Vec::new() };
        World {
            streams,
            network,
            stations,
            sizes: datasets.map(|(dataset, id)| Sizes::new(dataset, id)).collect(),
            units: units.0,
            files: files.0,
            node_caches: parts.node_caches,
            holders: parts.holders,
            caches: parts.caches,
            limiters: parts.limiters,
            tables: parts.tables,
            arms: parts.arms,
            unfinished: parts.jobs.len(),
            jobs: parts.jobs,
            stagings: parts.stagings,
            copies: IdVec::default(),
            loaders: parts.loaders,
            stages: parts.stages,
            works: parts.works,
            workers: parts.workers,
            shards: parts.shards,
            fetches,
            tracks: parts.tracks,
            devices: parts.devices,
            device_nodes,
            loads: parts.loads,
            requests: Slab::default(),
            messages: Messages::default(),
            communicators: parts.communicators,
            link_uses: LinkUses::new(),
            resources,
            faults: faults.into_iter().collect(),
            waiting: parts.waiting,
            hopeless: None,
            runnable: VecDeque::new(),
            segments: Vec::new(),
            recorder: parts.recorder,
            now: Time::ZERO,
            flows: 0,
            events: 0,
            stop: None,
            watch: super::watch::Watch::default(),
            progress: None,
            until: Time::NEVER,
            is_far,
            readers,
        }
    }

    /// What the node being built is made of.
    fn here(&self) -> &'s Node {
        self.scenario.cluster.node_at(self.node)
    }

    /// A delay that will be used many times.
    fn recurring(&mut self, seconds: f64) -> Delay {
        self.lanes.recurring(self.calendar, seconds)
    }

    /// One more station.
    fn station(&mut self, service: Service) -> StationId {
        self.stations.push(service)
    }

    /// Flows over the links of `route`, each of at most `cap`.
    fn group(&mut self, route: &[LinkId], cap: f64) -> GroupId {
        self.way(route.iter().map(|link| Use { link: *link, per_unit: 1.0 }).collect(), cap)
    }

    /// The same, over links that flows use by more or less than their bytes.
    fn way(&mut self, route: Vec<Use>, cap: f64) -> GroupId {
        self.network.group(Demand { route: route.into(), weight: 1.0, cap })
    }

    /// `member` is one of the like things that reports call `name`.
    fn resource(&mut self, name: &str, unit: &'static str, capacity: f64, member: Member) {
        let known = self.resources.iter().position(|r| r.name == name);
        let index = known.unwrap_or_else(|| {
            let (name, members, nodes) = (name.to_owned(), Vec::new(), Vec::new());
            self.resources.push(Resource { name, unit, capacity, members, nodes });
            self.resources.len() - 1
        });
        let resource = &mut self.resources[index];
        resource.members.push((member, capacity / resource.capacity));
        resource.nodes.push(self.node);
    }

    /// A track of `process` on the timeline, where one is recorded.
    fn track(&mut self, process: Option<u32>, name: impl FnOnce() -> String) -> Option<u32> {
        let process = process?;
        self.parts.recorder.as_mut().map(|recorder| recorder.track(process, name()))
    }
}
