//! The world: all components of one run, and the one match on what happens.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;

use crate::account::{Polling, Queue, Recorder, Requests, Segment, Tuner};
use crate::cache::Cache;
use crate::engine::{self, Calendar, Model, Time};
use crate::fluid::{GroupId, LinkId, Network};
use crate::random::Streams;
use crate::report::{Known, Outcome, Unfinished};
use crate::scenario::{Scenario, Stop};

use super::ahead::Reader;
use super::arm::Arm;
use super::background::{Load, Request};
use super::cached::{CacheUse, PageCache, Units};
use super::communication::{CommunicatorRun, LinkUses, Messages};
use super::decoded::Decoded;
use super::device::Device;
use super::event::{Clock, Customer, Delay, Event};
use super::fault::FaultRun;
use super::gpus::Gpu;
use super::index::{
    ArmId, DeviceId, IdVec, Ids, JobId, LimiterId, Slab, StageId, StationId, TableId, WorkerId,
};
use super::limiter::Limiter;
use super::lineage::Lineage;
use super::progress::Progress;
use super::ranges::Fetches;
use super::read::{First, Mount, ShardCursor, Source};
use super::sizes::Sizes;
use super::stages::StageRun;
use super::staging::{Copying, Staging};
use super::station::Station;
use super::table::Table;
use super::tiers::Tiers;
use super::trainer::JobRun;
use super::watch::Watch;
use super::workers::{Cores, Waiting, Work, Worker};
use super::workflow;

/// What to do beside simulating.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// Record a timeline.
    pub trace: bool,
    /// Follow every transfer of every collective, also on links that nothing else uses, where following one of a kind
    /// gives the time of all.
    pub every_transfer: bool,
    /// Told now and then how far the run has come.
    pub progress: Option<&'a Progress>,
    /// Ends the run early when it becomes true; the outcome then holds what was complete.
    pub stop: Option<&'a AtomicBool>,
    /// Ends the run early after so many [`Outcome::events`], likewise.
    pub most_events: Option<u64>,
}

/// Simulates one replication of `scenario`: a pure function of the scenario and the replication's
/// number (as long as nobody interrupts).
pub fn run(scenario: &Scenario, replication: u32, options: &Options) -> Outcome {
    let mut calendar = Calendar::new();
    let mut world = World::new(scenario, replication, options, &mut calendar);
    // What would end at `NEVER` was cut off by the range of time.
    let (until, ends) = match scenario.run.stop {
        Stop::Duration(seconds) => (Time::from_seconds(seconds), true),
        Stop::Steps(_) | Stop::Epochs(_) | Stop::Known { .. } => (Time(Time::NEVER.0 - 1), false),
    };
    (world.stop, world.progress) = (options.stop, options.progress);
    world.until = if matches!(scenario.run.stop, Stop::Duration(_)) { until } else { Time::NEVER };
    world.watch.known = Known::of(scenario);
    world.watch.most = options.most_events.unwrap_or(u64::MAX);
    world.events = engine::run(&mut world, &mut calendar, until);
    let ended = if matches!(scenario.run.stop, Stop::Duration(_)) { until } else { world.now };
    world.end_down(ended);
    let unfinished = if (ends || world.watch.ended) && world.hopeless.is_none() {
        None
    } else {
        world.left_over(scenario)
    };
    Outcome { unfinished, ..world.collect(scenario) }
}

/// The components of one run.
pub(super) struct World<'a> {
    pub(super) streams: Streams,
    pub(super) network: Network<Customer>,
    pub(super) stations: IdVec<Service>,
    /// By data set.
    pub(super) sizes: IdVec<Sizes>,
    /// How each is cut into units of a page cache.
    pub(super) units: Vec<Units>,
    pub(super) caches: IdVec<PageCache>,
    /// By data set, the same for caches of whole files.
    pub(super) files: Vec<Units>,
    /// What nodes keep on tiers, and of decoded samples.
    pub(super) node_caches: IdVec<Cache>,
    /// By unit, one more than which node of a job keeps it, or last kept it.
    pub(super) holders: IdVec<Vec<u32>>,
    pub(super) limiters: IdVec<Limiter>,
    pub(super) tables: IdVec<Table>,
    pub(super) arms: IdVec<Arm>,
    pub(super) jobs: IdVec<JobRun>,
    pub(super) stagings: IdVec<Staging>,
    /// Streams that copy files to nodes.
    pub(super) copies: IdVec<Copying>,
    pub(super) loaders: IdVec<LoaderRun>,
    pub(super) stages: IdVec<StageRun>,
    /// By stage of a job; its copies share them.
    pub(super) works: IdVec<Work>,
    pub(super) workers: IdVec<Worker>,
    /// By worker, for data sets in shards.
    pub(super) shards: IdVec<Worker, ShardCursor>,
    /// What is fetched in several requests.
    pub(super) fetches: Fetches,
    /// By worker, where a timeline is recorded.
    pub(super) tracks: IdVec<Worker, u32>,
    pub(super) devices: IdVec<Device>,
    /// By device, its node.
    pub(super) device_nodes: IdVec<Device, u32>,
    pub(super) loads: IdVec<Load>,
    pub(super) requests: Slab<Request>,
    pub(super) messages: Messages,
    pub(super) communicators: IdVec<CommunicatorRun>,
    /// What links did in collectives that were not followed transfer by transfer.
    pub(super) link_uses: LinkUses,
    pub(super) resources: Vec<Resource>,
    pub(super) faults: IdVec<FaultRun>,
    /// Job copies that wait for others to end.
    pub(super) waiting: Vec<workflow::Waiting>,
    /// A job copy that fails more often than it gets on.
    pub(super) hopeless: Option<JobId>,
    /// Workers that have something to do at this instant.
    pub(super) runnable: VecDeque<WorkerId>,
    /// Scratch space for causes.
    pub(super) segments: Vec<Segment>,
    pub(super) recorder: Option<Recorder>,
    pub(super) unfinished: usize,
    pub(super) now: Time,
    pub(super) flows: u64,
    pub(super) events: u64,
    pub(super) stop: Option<&'a AtomicBool>,
    pub(super) watch: Watch,
    pub(super) progress: Option<&'a Progress>,
    /// When the run ends, if it has not before.
    pub(super) until: Time,
    /// Whether state is far from the core, so that it pays to fetch it ahead.
    pub(super) is_far: bool,
    /// Then, by group of flows, who reads through it.
    pub(super) readers: Vec<Option<Reader>>,
}

/// A station and the service time of its customers, where that is always the same: one cache line,
/// and one for those who wait.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Service {
    pub(super) service: Delay,
    pub(super) queue: Station<Waiting>,
}

/// A loader of a job copy, its node's or one of its ranks'. What every sample needs comes first, in a few cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct LoaderRun {
    pub(super) job: JobId,
    /// Which loader of the job copy, of how many.
    pub(super) rank: u32,
    pub(super) nodes: u32,
    /// Whether anything keeps what is read: a page cache, a tier, or samples as decoding leaves them.
    pub(super) keeps: bool,
    /// What reading a sample begins with where each is a file of its own that one request brings from the
    /// storage, past nothing that keeps, divides or delays it in a way of its own.
    pub(super) plain: Option<First>,
    /// Whether workers may have to rest though there is input: how many work is tuned, or they sleep.
    pub(super) rests: bool,
    /// Whether it is known which samples it hands out: there is a lineage.
    pub(super) followed: bool,
    /// Samples that the reading may take in all.
    pub(super) quota: u64,
    pub(super) started: u64,
    pub(super) in_progress: u64,
    /// What it was asked for, if it makes batches on request.
    pub(super) requests: Option<Box<Requests>>,
    pub(super) mount: Mount,
    pub(super) source: Source,
    /// Devices that starve, in order of arrival.
    pub(super) waiters: VecDeque<DeviceId>,
    /// The node's page cache, if the loader reads through one.
    pub(super) cached: Option<Box<CacheUse>>,
    pub(super) queue: Queue,
    /// How much longer than on the cluster's first nodes steps take on its accelerators.
    pub(super) slowness: f64,
    /// Tiers that its reads pass, if any.
    pub(super) tiers: Option<Box<Tiers>>,
    /// Decoded samples that its node keeps, if it does.
    pub(super) decoded: Option<Box<Decoded>>,
    /// Who sleeps, where nobody is woken.
    pub(super) polling: Option<Box<Polling>>,
    /// How many of its workers work at once, if that is tuned.
    pub(super) tuner: Option<Box<Tuner>>,
    /// Way between the node's GPUs, where it is limited.
    pub(super) intra: Option<GroupId>,
    /// Way to each GPU, where it is limited.
    pub(super) pcie: Vec<GroupId>,
    /// The GPU of each model copy, where the loader uses it too.
    pub(super) gpus: Vec<Gpu>,
    /// How much longer than on the cluster's first nodes its own kernels take there.
    pub(super) kernel_slowness: f64,
    /// Share of their speed that faults leave these kernels.
    pub(super) kernel_pace: f64,
    pub(super) decoded_size: Option<f64>,
    /// Its stages and workers, as ranges of the world's.
    pub(super) stages: Ids<StageRun>,
    pub(super) workers: Ids<Worker>,
    /// First worker of each stage.
    pub(super) first_worker: Vec<WorkerId>,
    pub(super) level_track: Option<u32>,
    /// Bytes of a batch that its trainers copy to their devices themselves, if they do.
    pub(super) load: Option<f64>,
    /// How its trainers get the node's cores.
    pub(super) trainer: Cores,
    /// Which samples it has handed out, where its job may fail.
    pub(super) lineage: Option<Box<Lineage>>,
    /// Whether its workers, no more than the samples of a full batch, are told of each wait that begins.
    pub(super) tells: bool,
}

const _: () =
    assert!(std::mem::offset_of!(LoaderRun, queue) % 64 == 32, "its second half begins a line");

impl LoaderRun {
    /// The workers of stage `s`.
    pub(super) fn workers_of(&self, s: StageId) -> Ids<Worker> {
        let index = (s - self.stages.start) as usize;
        let end = self.first_worker.get(index + 1).copied().unwrap_or(self.workers.end);
        Ids::new(self.first_worker[index], end)
    }
}

/// A shared resource as reports name it: like ones of like nodes together.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) name: String,
    pub(super) unit: &'static str,
    /// Of the first.
    pub(super) capacity: f64,
    /// Each, with its capacity relative to that of the first.
    pub(super) members: Vec<(Member, f64)>,
    /// Of each the node that it is on, or the rack, where it is on one.
    pub(super) nodes: Vec<u32>,
}

/// One of the like things that a resource is made of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Member {
    Link(LinkId),
    Station(StationId),
    Limiter(LimiterId),
    Table(TableId),
    Arm(ArmId),
}

impl Model for World<'_> {
    type Event = Event;

    #[inline]
    fn pending(&mut self) -> Option<Time> {
        let next = self.network.next();
        if self.is_far {
            self.fetch_for_flows();
        }
        next
    }

    fn advance(&mut self, now: Time, calendar: &mut Calendar<Event>) {
        let mut clock = Clock { now, calendar };
        self.now = now;
        let mut more = true;
        while more && let Some(finished) = self.network.finish(now) {
            self.flows += finished.count as u64;
            match finished.token {
                Customer::Worker(w) => self.resume(&mut clock, w),
                Customer::Range(r) => self.range_moved(&mut clock, r),
                Customer::Request(r) => self.end_request(r),
                Customer::Copy(c) => self.resume_copy(&mut clock, c),
                Customer::Activations(d) => self.handed_over(&mut clock, d),
                Customer::Step(d) => self.kernels_ended(&mut clock, d),
                Customer::Average(d) => self.drawn(&mut clock, d),
                Customer::Sum(d) => self.summed(&mut clock, d),
                Customer::Launch(d) => self.launched(&mut clock, d),
                Customer::Load(d) => self.loaded(&mut clock, d),
                Customer::Message(m) => self.message_moved(&mut clock, m),
                Customer::Handed { device, back } => self.handed_part(&mut clock, device, back),
                Customer::Swap(d) => self.swapped(&mut clock, d),
                Customer::Checkpoint(j) => self.checkpoint_moved(&mut clock, j),
                Customer::Averaged(_)
                | Customer::Sleeper(_)
                | Customer::Update(_)
                | Customer::Push(_)
                | Customer::Restart(_)
                | Customer::Communicator(_)
                | Customer::Endless => {}
            }
            self.settle(&mut clock);
            more = self.network.has_finished();
        }
    }

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event>) {
        if self.is_far {
            self.fetch_for_events(calendar);
        }
        let mut clock = Clock { now, calendar };
        self.now = now;
        match event {
            Event::JobStarted(j) => self.begin_job(&mut clock, j),
            Event::Opened(Customer::Worker(w)) | Event::Waited(Customer::Worker(w)) => {
                self.resume(&mut clock, w);
            }
            Event::Opened(Customer::Copy(c)) | Event::Waited(Customer::Copy(c)) => {
                self.resume_copy(&mut clock, c);
            }
            Event::Computed(w) => self.computed(&mut clock, w),
            Event::Stepped(d) => self.stepped(&mut clock, d),
            Event::Launched(d) => self.launched(&mut clock, d),
            Event::Arrived(load) => self.arrived(&mut clock, load),
            Event::Served(table) => self.serve_table(&mut clock, table),
            Event::Delivered(arm) => self.delivered(&mut clock, arm),
            Event::Waited(Customer::Range(r)) => self.range_waited(&mut clock, r),
            Event::Opened(Customer::Request(r)) => self.request_opened(&mut clock, r),
            Event::Waited(Customer::Request(r)) => self.request_bytes(&mut clock, r),
            Event::Waited(Customer::Activations(d)) => self.hand_over_bytes(&mut clock, d),
            Event::Waited(Customer::Sleeper(d)) => self.awake(&mut clock, d),
            Event::Waited(Customer::Averaged(j)) => self.averaged(&mut clock, j),
            Event::Waited(Customer::Message(m)) => self.message_waited(&mut clock, m),
            Event::Waited(Customer::Sum(d)) => self.compressed(&mut clock, d),
            Event::Waited(Customer::Update(j)) => self.end_communication(&mut clock, j),
            Event::Waited(Customer::Push(d)) => self.push_next(&mut clock, d),
            Event::Waited(Customer::Handed { device, back }) => {
                self.hand_part(&mut clock, device, back);
            }
            Event::Waited(Customer::Communicator(c)) => self.communicator_waited(&mut clock, c),
            Event::Waited(Customer::Checkpoint(j)) => self.checkpoint_paused(&mut clock, j),
            Event::Waited(Customer::Restart(j)) => self.restart(&mut clock, j),
            Event::Turned(fault) => self.turn(&mut clock, fault),
            Event::Failed { job, node } => self.failed(&mut clock, job, node),
            // Nobody opens a file for others or waits for them, and endless transfers have begun.
            Event::Opened(_) | Event::Waited(_) => {}
        }
        self.settle(&mut clock);
    }

    fn is_over(&self) -> bool {
        self.unfinished == 0
    }
}

impl World<'_> {
    /// The first job that has work left, if nobody interrupted it.
    fn left_over(&self, scenario: &Scenario) -> Option<Unfinished> {
        let name = |run: &JobRun| scenario.jobs[run.job].name.clone();
        if let Some(j) = self.hopeless {
            return Some(Unfinished::Failing { job: name(&self.jobs[j]) });
        }
        let first = self.jobs.iter().find(|job| !job.finished).filter(|_| !self.is_over());
        first.map(|run| Unfinished::TooLong { job: name(run) })
    }

    /// Lets everyone act who can at this instant.
    fn settle(&mut self, clock: &mut Clock) {
        while let Some(w) = self.runnable.pop_front() {
            self.run_worker(clock, w);
        }
        self.watch.handled += 1;
        if self.watch.handled >= self.watch.next {
            self.look();
        }
    }
}
