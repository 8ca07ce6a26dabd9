//! What can happen in the simulated world.

use crate::engine::{Calendar, LaneId, Span, Time};

/// Who asked a station or the network for something, or waits for a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Customer {
    /// A loader's worker.
    Worker(u32),
    /// A request for a range of what a worker reads.
    Range(u32),
    /// A background request in progress.
    Request(u32),
    /// A stream that copies a data set to a node.
    Copy(u32),
    /// Activations on their way to a device.
    Activations(u32),
    /// A device that is the node's cores, in a step.
    Step(u32),
    /// A learner that draws its model towards its GPU's reference model.
    Average(u32),
    /// A device of a GPU that adds its learners' gradients up.
    Sum(u32),
    /// The reference models of a job copy, which are averaged.
    Averaged(u32),
    /// A device that sleeps before it looks for a batch again.
    Sleeper(u32),
    /// The trainer of a device, at its own work for a step.
    Launch(u32),
    /// The batch of a device, on its way there.
    Load(u32),
    /// A transfer of a collective.
    Message(u32),
    /// The gradients of a job copy, at the bucket at hand.
    Update(u32),
    /// A device that has gradients to push, before their transfer.
    Push(u32),
    /// Activations or their gradients, on their way from a part of a model to the next or the one before.
    Handed { device: u32, back: bool },
    /// What a device keeps in its node's memory, on its way there or back.
    Swap(u32),
    /// A collective of a communicator.
    Communicator(u32),
    /// A job copy's state on its way to a storage.
    Checkpoint(u32),
    /// A job copy that failed.
    Restart(u32),
    /// An endless background transfer.
    Endless,
}

/// Something that happens at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// A job copy's start time has come.
    JobStarted(u32),
    /// A storage's operation station has served a customer.
    Opened(Customer),
    /// A latency or a delay is over.
    Waited(Customer),
    /// A core of a FIFO station has done a worker's computation.
    Computed(u32),
    /// A device has done its part of a step.
    Stepped(u32),
    /// The trainer of a device has done its own work for a step.
    Launched(u32),
    /// A background load's next request arrives.
    Arrived(u32),
    /// A table of throughput may have served a request.
    Served(u32),
    /// The arm of a disk is done with a request.
    Delivered(u32),
    /// A fault begins or ends.
    Turned(u32),
    /// A node of a job copy fails; beyond its last node: one of them.
    Failed { job: u32, node: u32 },
}

/// The present: the instant and the calendar to plan in.
pub(super) struct Clock<'a> {
    pub(super) now: Time,
    pub(super) calendar: &'a mut Calendar<Event>,
}

impl Clock<'_> {
    /// Plans `event` at the end of `delay`.
    #[inline(always)]
    pub(super) fn after(&mut self, delay: Delay, event: Event) {
        let at = self.now + delay.span;
        match delay.lane {
            Some(lane) => self.calendar.schedule_in(lane, at, event),
            None => self.calendar.schedule(at, event),
        }
    }
}

/// A span, and the lane of the calendar for it where it is always the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Delay {
    pub(super) span: Span,
    pub(super) lane: Option<LaneId>,
}

impl Delay {
    /// A span drawn for this once.
    pub(super) fn once(seconds: f64) -> Delay {
        Delay { span: Span::from_seconds(seconds), lane: None }
    }
}

/// Lanes for delays that recur: events that lie the same span ahead are in order by themselves.
#[derive(Debug, Default)]
pub(super) struct Lanes(Vec<(Span, LaneId)>);

impl Lanes {
    /// Beyond this many, looking at all lanes costs more than the calendar's heap.
    const MOST: usize = 12;

    /// A delay that will be used many times.
    pub(super) fn recurring(&mut self, calendar: &mut Calendar<Event>, seconds: f64) -> Delay {
        let span = Span::from_seconds(seconds);
        let known = self.0.iter().find(|(s, _)| *s == span).map(|(_, lane)| *lane);
        if known.is_none() && self.0.len() == Self::MOST {
            return Delay { span, lane: None };
        }
        let lane = known.unwrap_or_else(|| {
            let lane = calendar.lane();
            self.0.push((span, lane));
            lane
        });
        Delay { span, lane: Some(lane) }
    }
}
