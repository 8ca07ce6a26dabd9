//! The end of all that a job copy has in progress, at once: its nodes failed. What it held is the next one's, and
//! nothing of it comes late.

use super::communication::CommunicatorRun;
use super::device::Device;
use super::index::{Id, IdVec, Ids, JobId};
use super::workers::Worker;

use super::event::{Clock, Customer, Event};
use super::ranges::Fetches;
use super::workers::Cores;
use super::world::World;

/// What belongs to a job copy.
struct Owner {
    job: JobId,
    workers: Ids<Worker>,
    devices: Ids<Device>,
}

impl Owner {
    /// Whether it asked for something as this customer, where messages, ranges and communicators are known.
    fn is(&self, customer: Customer, world: Known<'_>) -> bool {
        match customer {
            Customer::Worker(w) => self.workers.contains(w),
            Customer::Range(r) => self.workers.contains(world.fetches.worker(r)),
            Customer::Activations(d)
            | Customer::Step(d)
            | Customer::Sleeper(d)
            | Customer::Launch(d)
            | Customer::Average(d)
            | Customer::Sum(d)
            | Customer::Push(d)
            | Customer::Load(d)
            | Customer::Swap(d)
            | Customer::Handed { device: d, .. } => self.devices.contains(d),
            Customer::Communicator(c) => world.communicators[c].job() == self.job,
            Customer::Message(m) => world.messages.job(m) == self.job,
            Customer::Update(j) | Customer::Checkpoint(j) | Customer::Averaged(j) => j == self.job,
            // It was copied before, and begins again later.
            Customer::Copy(_) | Customer::Restart(_) | Customer::Request(_) | Customer::Endless => {
                false
            }
        }
    }

    /// Whether an event is about something that it is at.
    fn awaits(&self, event: Event, world: Known<'_>) -> bool {
        match event {
            Event::Opened(customer) | Event::Waited(customer) => self.is(customer, world),
            Event::Computed(w) => self.workers.contains(w),
            Event::Stepped(d) | Event::Launched(d) => self.devices.contains(d),
            Event::JobStarted(_)
            | Event::Arrived(_)
            | Event::Served(_)
            | Event::Delivered(_)
            | Event::Turned(_)
            | Event::Failed { .. } => false,
        }
    }
}

/// Whose messages, ranges and communicators are.
#[derive(Clone, Copy)]
struct Known<'a> {
    fetches: &'a Fetches,
    messages: &'a super::communication::Messages,
    communicators: &'a IdVec<CommunicatorRun>,
}

impl World<'_> {
    /// Ends all that job copy `j` has in progress.
    pub(super) fn abort(&mut self, clock: &mut Clock, j: JobId) {
        let owner = self.owner(j);
        let now = clock.now;
        let (fetches, messages) = (&self.fetches, &self.messages);
        let known = Known { fetches, messages, communicators: &self.communicators };
        for station in &mut self.stations {
            station.queue.forget(now, |waiting| owner.is(waiting.customer, known));
        }
        for arm in &mut self.arms {
            arm.forget(now, |customer| owner.is(*customer, known));
        }
        for t in self.tables.ids() {
            let table = &mut self.tables[t];
            table.forget(clock, t, |customer| owner.is(*customer, known));
        }
        self.network.cancel_all(now, |customer| owner.is(*customer, known));
        let awaited = clock.calendar.remove_all(|event| owner.awaits(*event, known));
        for event in awaited {
            self.leave_station(clock, event);
        }
        self.fetches.forget(owner.workers);
        self.messages.forget(j);
        self.settle_own_links(now, j);
        if let Some(sync) = &mut self.jobs[j].sync {
            sync.restart();
        }
        for c in self.jobs[j].communicators {
            self.communicators[c].abort();
            self.trace_gradients(now, c);
            self.trace_collective(now, c);
        }
        self.abort_parts(j);
        if let Some(servers) = &mut self.jobs[j].servers {
            servers.abort();
            self.trace_servers(now, j);
        }
    }

    fn owner(&self, j: JobId) -> Owner {
        let job = &self.jobs[j];
        // Loaders of a job copy are built one after the other, and so are their workers.
        let loaders = &self.loaders[job.loaders];
        let first = loaders.first().map_or(Id::default(), |loader| loader.workers.start);
        let last = loaders.last().map_or(Id::default(), |loader| loader.workers.end);
        Owner { job: j, workers: Ids::new(first, last), devices: job.devices }
    }

    /// Who was served at a station until `event` leaves it to the next.
    fn leave_station(&mut self, clock: &mut Clock, event: Event) {
        match event {
            Event::Opened(Customer::Worker(w)) => {
                if let Some(station) = self.mount_of(w).station {
                    self.served(clock, station);
                }
            }
            Event::Computed(w) => {
                let cores = self.stages[self.workers[w].stage].cores;
                self.leave_core(clock, cores);
            }
            Event::Stepped(d) => self.leave_cores(clock, d),
            Event::Launched(d) => self.leave_launch(clock.now, d),
            Event::Waited(Customer::Message(m)) => {
                if let Some(cores) = self.cores_of_message(m) {
                    self.leave_core(clock, cores);
                }
            }
            _ => {}
        }
    }

    fn leave_core(&mut self, clock: &mut Clock, cores: Cores) {
        if let Cores::Fifo(station) = cores
            && let Some(next) = self.stations[station].queue.leave(clock.now)
        {
            self.admitted(clock, next);
        }
    }
}
