//! Collectives of some GPUs of a job copy: those that split a layer, or those of all model copies that have the same part
//! of a stage. One after the other, in the order in which all start them.

use crate::collective::{Cost, Fabric, Operation, Schedule, closed_form};
use crate::engine::{Span, Time};
use crate::report::ParallelOutcome;
use crate::scenario::{self, Fidelity, Members};
use crate::sim::event::{Clock, Customer, Delay, Event};
use crate::sim::program::Communicator;
use crate::sim::world::World;
use std::sync::Arc;

use super::exchange::{Around, Exchange};
use super::idle::idle_seconds;
use super::overhead::Slots;
use super::own_links::OwnLinks;
use super::plan::{MOST_FOLLOWED, Reduction};
use super::ways::Ways;

/// A group's collectives.
#[derive(Debug)]
pub(in crate::sim) struct Group {
    job: u32,
    communicator: Communicator,
    /// Devices of its ranks, in order; one device has all of them where they split its layers.
    devices: Vec<u32>,
    ranks: u32,
    /// The collectives of a step, in order; the same again and again where there is one.
    sequence: Arc<[Planned]>,
    /// By number, how many devices have started it in this step; by number, when the last did, and which.
    started: Vec<u32>,
    last: Vec<(Time, u32)>,
    /// By device, how many it has started.
    of_device: Vec<u32>,
    begun: u32,
    over: u32,
    stage: Stage,
    exchange: Exchange,
    members: Members,
    /// Where nothing else uses its links: each collective takes as long as the first that was like it.
    pub(super) own: Option<OwnLinks>,
}

/// A collective as it will be done.
#[derive(Debug, Clone)]
pub(in crate::sim) struct Planned {
    pub(in crate::sim) operation: Operation,
    pub(in crate::sim) bytes: u64,
    /// Before it, for its tensors.
    pub(in crate::sim) overhead: Span,
    pub(in crate::sim) way: Reduction,
}

/// What is done with the collective at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// There is none.
    Idle,
    Overhead,
    Busy,
}

impl Communicator {
    /// Where the bytes of its collectives are counted.
    fn sent(self, books: &mut ParallelOutcome) -> &mut f64 {
        match self {
            Self::Data => &mut books.gradients,
            Self::Tensor => &mut books.sums,
        }
    }
}

impl Planned {
    /// Bytes that each of so many ranks sends at least: 2 (n − 1) ÷ n of an allreduce's, half of that of others.
    fn volume(&self, ranks: u32) -> f64 {
        let part = 1.0 - 1.0 / f64::from(ranks.max(1));
        let twice = if self.operation == Operation::Allreduce { 2.0 } else { 1.0 };
        twice * part * self.bytes as f64
    }
}

/// How `operation` is done with `bytes` by `groups` side by side, that all are as `fabric` says.
pub(in crate::sim) fn planned(
    (operation, bytes): (Operation, u64),
    (reduction, fidelity): (scenario::Reduction, Fidelity),
    (fabric, cost): (&Fabric, &Cost),
    ways: &Ways,
    groups: &[Members],
) -> Reduction {
    let collective = reduction.collective(operation, bytes, fabric);
    // What cannot be is refused when the scenario is read.
    let Ok(schedule) = collective.schedule().map(Arc::new) else {
        return Reduction::Analytic(Delay::once(0.0));
    };
    if fidelity == Fidelity::Flow {
        return Reduction::Flow(schedule, None);
    }
    let transfers = schedule.phases().saturating_mul(u64::from(fabric.ranks));
    let seconds = match transfers.saturating_mul(groups.len() as u64) {
        0..=MOST_FOLLOWED => idle_seconds(ways, &schedule, groups),
        _ => closed_form(&collective, cost, cost).unwrap_or(0.0),
    };
    Reduction::Analytic(Delay::once(seconds))
}

impl Group {
    /// Number `number` of all, of `members` of job copy `job`, whose collectives these devices start.
    pub(in crate::sim) fn new(
        (job, number): (u32, u32),
        communicator: Communicator,
        members: Members,
        devices: Vec<u32>,
        sequence: Arc<[Planned]>,
    ) -> Group {
        Group {
            job,
            communicator,
            ranks: members.ranks,
            of_device: vec![0; devices.len()],
            devices,
            sequence,
            started: Vec::new(),
            last: Vec::new(),
            begun: 0,
            over: 0,
            stage: Stage::Idle,
            exchange: Exchange::new((job, number), members),
            members,
            own: None,
        }
    }

    /// Who they are.
    pub(in crate::sim) fn members(&self) -> Members {
        self.members
    }

    /// Nothing but this group uses its links.
    pub(in crate::sim) fn has_own_links(&mut self) {
        self.own = Some(OwnLinks::new(self.members));
    }

    /// The job copy whose group it is.
    pub(in crate::sim) fn job(&self) -> u32 {
        self.job
    }

    /// Collectives that are over in this step.
    pub(in crate::sim) fn over(&self) -> u32 {
        self.over
    }

    /// When the last device started the collective after which so many are over, and which device.
    pub(in crate::sim) fn started_last(&self, over: u32) -> Option<(Time, u32)> {
        self.last.get((over as usize).checked_sub(1)?).copied()
    }

    /// A new step begins.
    pub(in crate::sim) fn restart(&mut self) {
        (self.begun, self.over) = (0, 0);
        self.started.clear();
        self.last.clear();
        self.of_device.fill(0);
    }

    /// Nothing is at hand any more: its step begins again.
    pub(in crate::sim) fn abort(&mut self) {
        self.exchange.abort();
        self.stage = Stage::Idle;
        self.restart();
    }

    /// The collective at hand.
    fn at_hand(&self) -> Option<&Planned> {
        let number = (self.begun as usize).checked_sub(1)?;
        self.sequence.get(number % self.sequence.len().max(1))
    }
}

impl World<'_> {
    /// Device `d` starts its next collective in group `g`, which begins when all devices have started it.
    pub(in crate::sim) fn join_collective(&mut self, clock: &mut Clock, g: u32, d: u32) {
        let group = &mut self.groups[g as usize];
        let place = group.devices.partition_point(|device| *device < d);
        let number = group.of_device[place] as usize;
        group.of_device[place] += 1;
        if group.started.len() <= number {
            group.started.resize(number + 1, 0);
        }
        group.started[number] += 1;
        if group.started[number] as usize == group.devices.len() {
            group.last.push((clock.now, d));
            self.next_collective(clock, g);
        }
    }

    /// The next collective of group `g` begins, if all devices have started it.
    fn next_collective(&mut self, clock: &mut Clock, g: u32) {
        let group = &mut self.groups[g as usize];
        if group.stage != Stage::Idle || group.begun as usize == group.last.len() {
            return;
        }
        group.begun += 1;
        group.stage = Stage::Overhead;
        let overhead = group.at_hand().map_or(Span::ZERO, |planned| planned.overhead);
        if overhead == Span::ZERO {
            return self.group_waited(clock, g);
        }
        let delay = Delay { span: overhead, lane: None };
        clock.after(delay, Event::Waited(Customer::Group(g)));
    }

    /// What group `g` waited for is over.
    #[inline(never)]
    pub(in crate::sim) fn group_waited(&mut self, clock: &mut Clock, g: u32) {
        let group = &mut self.groups[g as usize];
        if group.stage == Stage::Busy {
            return self.collective_over(clock, g);
        }
        group.stage = Stage::Busy;
        match group.at_hand().map(|planned| planned.way.clone()) {
            None => self.collective_over(clock, g),
            Some(Reduction::Analytic(delay)) => {
                clock.after(delay, Event::Waited(Customer::Group(g)));
            }
            Some(Reduction::Flow(schedule, _)) if group.own.is_some() => {
                self.begin_on_own_links(clock, g, &schedule);
            }
            Some(Reduction::Flow(schedule, _)) => {
                self.group_exchange(clock, g, |exchange, around| exchange.begin(around, &schedule));
            }
        }
    }

    /// The collective at hand of group `g`, whose links nothing else uses, takes its time.
    fn begin_on_own_links(&mut self, clock: &mut Clock, g: u32, schedule: &Arc<Schedule>) {
        let group = &mut self.groups[g as usize];
        let key = group.at_hand().map(|planned| (planned.operation, planned.bytes));
        let Some(parallel) = &self.jobs[group.job as usize].parallel else { return };
        let around = (&parallel.ways, &self.network);
        if let (Some(key), Some(own)) = (key, &mut group.own) {
            let takes = own.begin(clock.now, key, schedule, around);
            if takes.span == Span::ZERO {
                return self.collective_over(clock, g);
            }
            clock.after(takes, Event::Waited(Customer::Group(g)));
        }
    }

    /// Lets a transfer of group `g` go on; the collective may be over by that.
    pub(super) fn group_exchange(
        &mut self,
        clock: &mut Clock,
        g: u32,
        act: impl FnOnce(&mut Exchange, &mut Around<'_, '_>),
    ) {
        let group = &mut self.groups[g as usize];
        let Some(parallel) = &mut self.jobs[group.job as usize].parallel else { return };
        let (network, messages) = (&mut self.network, &mut self.messages);
        let (ways, slots) = (&mut parallel.ways, Slots::of(&mut self.stations));
        let mut around = Around { clock, network, messages, ways, slots };
        act(&mut group.exchange, &mut around);
        if group.exchange.is_over() {
            self.collective_over(clock, g);
        }
    }

    fn collective_over(&mut self, clock: &mut Clock, g: u32) {
        let group = &mut self.groups[g as usize];
        let volume = group.at_hand().map_or(0.0, |planned| planned.volume(group.ranks));
        let all = volume * f64::from(group.ranks);
        (group.over, group.stage) = (group.over + 1, Stage::Idle);
        group.own.iter_mut().for_each(OwnLinks::end);
        let communicator = group.communicator;
        if let Some(parallel) = &mut self.jobs[group.job as usize].parallel {
            *communicator.sent(&mut parallel.books) += all;
        }
        self.next_collective(clock, g);
        for place in 0..self.groups[g as usize].devices.len() {
            let d = self.groups[g as usize].devices[place];
            self.wake_program(clock, d);
        }
    }
}
