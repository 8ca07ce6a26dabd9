//! What can happen in the simulated world.

use forebay_engine::{Calendar, LaneId, Span};

use super::index::{
    CommunicatorId, CopyId, DeviceId, DiskHeadId, FaultId, JobId, LoadId, MessageId, RangeId,
    RequestId, TableId, WorkerId,
};

/// Who asked a station or the network for something, or waits for a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActivityId {
    /// A loader's worker.
    Worker(WorkerId),
    /// A request for a range of what a worker reads.
    Range(RangeId),
    /// A background request in progress.
    Request(RequestId),
    /// A stream that copies a data set to a node.
    Copy(CopyId),
    /// Activations on their way to a device.
    Activations(DeviceId),
    /// A device that is the node's cores, in a step.
    Step(DeviceId),
    /// A learner that draws its model towards its GPU's reference model.
    Average(DeviceId),
    /// A device of a GPU that adds its learners' gradients up.
    Sum(DeviceId),
    /// The reference models of a job copy, which are averaged.
    Averaged(JobId),
    /// A device that sleeps before it looks for a batch again.
    Sleeper(DeviceId),
    /// The trainer of a device, at its own work for a step.
    Launch(DeviceId),
    /// The batch of a device, on its way there.
    Load(DeviceId),
    /// A transfer of a collective.
    Message(MessageId),
    /// The gradients of a job copy, at the bucket at hand.
    Update(JobId),
    /// A device that has gradients to push, before their transfer.
    Push(DeviceId),
    /// Activations or their gradients, on their way from a part of a model to the next or the one before.
    Handed { device: DeviceId, back: bool },
    /// What a device keeps in its node's memory, on its way there or back.
    Swap(DeviceId),
    /// A collective of a communicator.
    Communicator(CommunicatorId),
    /// A job copy's state on its way to a storage.
    Checkpoint(JobId),
    /// A job copy that failed.
    Restart(JobId),
    /// An endless background transfer.
    Endless,
}

/// Something that happens at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// A job copy's start time has come.
    JobStarted(JobId),
    /// A storage's operation station has served a activity.
    Opened(ActivityId),
    /// A latency or a delay is over.
    Waited(ActivityId),
    /// A core of a FIFO station has done a worker's computation.
    Computed(WorkerId),
    /// A device has done its part of a step.
    Stepped(DeviceId),
    /// The trainer of a device has done its own work for a step.
    Launched(DeviceId),
    /// A background load's next request arrives.
    Arrived(LoadId),
    /// A table of throughput may have served a request.
    Served(TableId),
    /// The arm of a disk is done with a request.
    Delivered(DiskHeadId),
    /// A fault begins or ends.
    Turned(FaultId),
    /// A node of a job copy fails; beyond its last node: one of them.
    Failed { job: JobId, node: u32 },
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
