//! Prefetches from memory what the next events will need while the current one is handled, since the state of hundreds of jobs
//! fits in no cache near the core. Prefetching changes nothing that is simulated.

use forebay_engine::fluid::GroupId;
use forebay_engine::prefetch;

use super::loader_run::LoaderRun;
use super::loaders::Loaders;
use super::stages::StageRun;
use crate::env::{ActivityId, Env, Event};
use crate::ids::{IdVec, LoaderId, StageId, StationId, WorkerId};
use crate::storage::First;

/// Minimum number of workers whose state does not fit the CPU's caches.
const MANY: usize = 4096;

/// Returns the worker of an event that follows a wait, so that the worker's state is in no cache by now.
fn worker_of(event: Option<Event>) -> Option<WorkerId> {
    match event? {
        Event::Computed(w) | Event::Waited(ActivityId::Worker(w)) => Some(w),
        _ => None,
    }
}

impl Loaders {
    /// Returns whether prefetching pays.
    #[inline(always)]
    pub(crate) fn prefetches(&self) -> bool {
        self.readers.is_some()
    }

    /// Turns prefetching on for the rest of the run, if there are so many workers that prefetching pays.
    pub(crate) fn look_ahead(&mut self) {
        if self.workers.len() >= MANY {
            self.readers = Some(readers(&self.loaders, &self.stages));
        }
    }

    /// Prefetches state for the events that follow the present one, in its lane or outside of lanes. The further ahead an event is, the
    /// earlier is what is prefetched: first the worker, then its stage, timeline and loader, then its station, route and next sample
    /// size, and last, in two steps, the links and flows of the route.
    pub(crate) fn fetch_for_events(&self, env: &Env, present: Event) {
        // A lane holds events of one kind.
        if worker_of(Some(present)).is_none() {
            return;
        }
        if let Some(w) = worker_of(env.calendar.peek_event(8)) {
            self.fetch_worker(w);
        }
        if let Some(w) = worker_of(env.calendar.peek_event(4)) {
            self.fetch_beside(w);
            self.loaders[self.workers[w].loader].prefetch();
        }
        if let Some(w) = worker_of(env.calendar.peek_event(2)) {
            let loader = &self.loaders[self.workers[w].loader];
            self.fetch_station(env, w);
            if let Some(group) = loader.mount.group {
                env.network.prefetch(group);
            }
            let turn = loader.place.in_job(loader.progress.started);
            self.storages.sizes[loader.source.dataset].prefetch(loader.place.owner(), turn);
        }
        if let Some(group) = self.starts_flow(env.calendar.peek_event(1)) {
            env.network.prefetch_links(group);
        }
        if let Some(group) = self.starts_flow(env.calendar.peek_event(0)) {
            env.network.prefetch_flows(group);
        }
    }

    /// Returns the group in which an event is likely to start a flow; `None` if it is not.
    #[inline]
    fn starts_flow(&self, event: Option<Event>) -> Option<GroupId> {
        let loader = &self.loaders[self.workers[worker_of(event)?].loader];
        let reads = matches!(event, Some(Event::Waited(_))) || loader.reads_at_once();
        loader.mount.group.filter(|_| reads)
    }

    /// Prefetches the state that will be needed at the second of the next two flow completions.
    pub(crate) fn fetch_for_flows(&self, env: &Env) {
        let Some((group, activity)) = env.network.peek_second() else { return };
        if let ActivityId::Worker(w) = activity {
            self.fetch_worker(w);
        }
        let reader = self.readers.as_ref().and_then(|readers| readers.get(group.index()));
        let Some(reader) = reader else { return };
        let Some(reader) = reader else { return };
        prefetch(&self.stages[reader.stage]);
        if let Some(station) = reader.station {
            prefetch(&env.stations[station]);
        }
    }

    #[inline]
    fn fetch_worker(&self, w: WorkerId) {
        prefetch(&self.workers[w]);
        prefetch(&self.workers[w].sample);
    }

    /// Prefetches the stage and the timeline of worker `w`, which itself was prefetched before.
    #[inline]
    fn fetch_beside(&self, w: WorkerId) {
        let worker = &self.workers[w];
        prefetch(&self.stages[worker.stage]);
        worker.timeline.prefetch(&self.pages);
    }

    /// Fetches the station of worker `w` into the CPU cache; the worker's stage is there already.
    #[inline]
    fn fetch_station(&self, env: &Env, w: WorkerId) {
        if let Some((station, _)) = self.stages[self.workers[w].stage].cores.slots() {
            prefetch(&env.stations[station]);
        }
    }
}

/// The stage that reads through a group of flows, and the station of the stage's cores, if it has one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader {
    stage: StageId,
    station: Option<StationId>,
}

/// Returns for each group of flows the stage that reads through it.
fn readers(
    loaders: &IdVec<LoaderId, LoaderRun>,
    stages: &IdVec<StageId, StageRun>,
) -> Vec<Option<Reader>> {
    let mut readers = Vec::new();
    for loader in loaders {
        let Some(group) = loader.mount.group else { continue };
        let stage = loader.stages.first();
        let station = stages[stage].cores.slots().map(|(station, _)| station);
        if readers.len() <= group.index() {
            readers.resize(group.index() + 1, None);
        }
        readers[group.index()] = Some(Reader { stage, station });
    }
    readers
}

impl LoaderRun {
    /// Returns whether the bytes of a read may begin to flow when the read begins.
    #[inline]
    pub(super) fn reads_at_once(&self) -> bool {
        !matches!(self.features.plain, Some(First::Operation | First::Latency))
    }

    /// Prefetches the fields of the loader that every sample needs.
    #[inline]
    fn prefetch(&self) {
        prefetch(self);
        prefetch(&self.source);
        self.queue.prefetch();
    }
}
