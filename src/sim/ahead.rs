//! Fetches from memory what the next events will need while the present one is handled: the state of
//! hundreds of jobs fits in no cache near the core. Changes nothing that is simulated.

use crate::engine::{Calendar, prefetch};

use super::event::{Customer, Event};
use super::stages::StageRun;
use super::workers::Cores;
use super::world::{LoaderRun, World};

/// From so many workers on their state is far from the core.
const MANY: usize = 4096;

/// Whether so many workers have state that is far from the core.
pub(super) fn is_far(workers: usize) -> bool {
    workers >= MANY
}

/// The worker that an event is about.
fn worker_of(event: Option<Event>) -> Option<usize> {
    match event? {
        Event::Computed(w)
        | Event::Opened(Customer::Worker(w))
        | Event::Waited(Customer::Worker(w)) => Some(w as usize),
        _ => None,
    }
}

impl World<'_> {
    /// For the next events of the calendar: first who they are about, then what that one uses, then what
    /// this uses.
    pub(super) fn fetch_for_events(&self, calendar: &Calendar<Event>) {
        if let Some(w) = worker_of(calendar.ahead(3)) {
            self.fetch_worker(w);
        }
        if let Some(w) = worker_of(calendar.ahead(2)) {
            self.fetch_beside(w);
            self.loaders[self.workers[w].loader as usize].prefetch();
        }
        if let Some(w) = worker_of(calendar.ahead(1)) {
            let loader = &self.loaders[self.workers[w].loader as usize];
            self.fetch_station(w);
            if let Some(group) = loader.mount.group {
                self.network.prefetch(group);
            }
            let turn = loader.started * loader.nodes as u64 + loader.rank as u64;
            self.sizes[loader.source.dataset as usize].prefetch(loader.job as u64, turn);
        }
        if let Some(w) = worker_of(calendar.ahead(0))
            && let Some(group) = self.loaders[self.workers[w].loader as usize].mount.group
        {
            self.network.prefetch_flows(group);
        }
    }

    /// The same for the completion that comes after the next one.
    pub(super) fn fetch_for_flows(&self) {
        let Some((group, customer)) = self.network.foresee() else { return };
        if let Customer::Worker(w) = customer {
            self.fetch_worker(w as usize);
        }
        let Some(reader) = self.readers.get(group.index()) else { return };
        if let Some(stage) = self.stages.get(reader.stage as usize) {
            prefetch(stage);
        }
        if let Some(station) = self.stations.get(reader.station as usize) {
            prefetch(station);
        }
    }

    #[inline]
    fn fetch_worker(&self, w: usize) {
        prefetch(&self.workers[w]);
        prefetch(&self.workers[w].request);
    }

    /// What a worker that was fetched uses.
    #[inline]
    fn fetch_beside(&self, w: usize) {
        let worker = &self.workers[w];
        prefetch(&self.stages[worker.stage as usize]);
        worker.timeline.prefetch();
    }

    /// The station of a worker whose stage was fetched.
    #[inline]
    fn fetch_station(&self, w: usize) {
        if let Cores::Fifo(station) = self.stages[self.workers[w].stage as usize].cores {
            prefetch(&self.stations[station as usize]);
        }
    }
}

/// Who reads through a group of flows, and what that needs when the bytes have come: places in the world, or none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader {
    stage: u32,
    station: u32,
}

/// By group, who reads through it.
pub(super) fn readers(loaders: &[LoaderRun], stages: &[StageRun]) -> Vec<Reader> {
    let mut readers = Vec::new();
    for loader in loaders {
        let Some(group) = loader.mount.group else { continue };
        let stage = loader.stages.start;
        let station = match stages[stage as usize].cores {
            Cores::Fifo(station) => station,
            Cores::Shared(_) => u32::MAX,
        };
        if readers.len() <= group.index() {
            readers.resize(group.index() + 1, Reader { stage: u32::MAX, station: u32::MAX });
        }
        readers[group.index()] = Reader { stage, station };
    }
    readers
}

impl LoaderRun {
    /// What every sample needs of it.
    #[inline]
    fn prefetch(&self) {
        prefetch(self);
        prefetch(&self.source);
        self.queue.prefetch();
    }
}
