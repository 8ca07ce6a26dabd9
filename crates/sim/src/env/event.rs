//! What can happen in the simulated world, and messages between its owners.

use forebay_engine::{Calendar, LaneId, Span};

use super::station::Waiting;
use crate::ids::{
    CheckpointId, CommunicatorId, CopyId, DeviceId, DiskHeadId, FailuresId, FaultId, Ids, JobId,
    LoadId, LoaderId, MessageId, RangeId, RequestId, ServerWorkerId, StagingId, TableId,
    TokenBucketId, TrainerId, TurnsId, WorkerId, WriteId,
};

/// The activity that asked a station or the network for service, or that waits for a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActivityId {
    /// A loader's worker.
    Worker(WorkerId),
    /// A request for one range of a file that a worker reads.
    Range(RangeId),
    /// A background request in progress.
    Request(RequestId),
    /// A stream that copies a data set to a node.
    Copy(CopyId),
    /// A step of a device that is simulated on the node's cores.
    Step(DeviceId),
    /// A learner that moves its model towards its GPU's reference model.
    Average(DeviceId),
    /// A device that adds up the gradients of its GPU's learners.
    Sum(DeviceId),
    /// The averaging of a job copy's reference models, while it takes time.
    Averaged(JobId),
    /// A device that sleeps between two polls for a batch.
    Sleeper(DeviceId),
    /// The host-side work (such as kernel launches) of a trainer for a step.
    Launch(TrainerId),
    /// The copy of a batch to a device.
    Load(DeviceId),
    /// A transfer of a collective.
    Message(MessageId),
    /// The delay before a GPU, a worker of an exchange with parameter servers, pushes gradients.
    Push(ServerWorkerId),
    /// The transfer of a device's activations to the next part of a model, or of their gradients to the previous part (`back`).
    Handed { device: DeviceId, back: bool },
    /// The latency of activations or gradients on their way to a device; `input` is the number of the device's input.
    Arriving { device: DeviceId, input: u16 },
    /// A transfer of a device's swapped-out data to or from its node's memory.
    Swap(DeviceId),
    /// A collective of a communicator.
    Communicator(CommunicatorId),
    /// The pause in which a job copy's state is copied aside.
    Checkpoint(CheckpointId),
    /// The transfer of a job copy's state to a storage.
    Write(WriteId),
    /// The wait of a job copy, whose simulated nodes have ended a step, for the last of its nodes that are not simulated.
    LastNode(JobId),
    /// Reading the last checkpoint of a job copy back after a failure.
    ReadBack(FailuresId),
    /// The restart of a job copy that failed.
    Restart(FailuresId),
    /// An endless background transfer.
    Endless,
}

/// Something that happens at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A job copy's start time has come.
    JobStarted(JobId),
    /// The queueing station that limits a storage's operations has finished serving an activity.
    Opened(ActivityId),
    /// The latency or other delay of an activity is over.
    Waited(ActivityId),
    /// A core of a FIFO station has done a worker's computation.
    Computed(WorkerId),
    /// A device has done its part of a step.
    Stepped(DeviceId),
    /// A background load's next request arrives.
    Arrived(LoadId),
    /// A storage modelled by a throughput table may have finished a request.
    Served(TableId),
    /// The content of a token bucket has to be checked.
    Bucket(TokenBucketId),
    /// A disk head has finished a request.
    Delivered(DiskHeadId),
    /// A storage has done what the turn of a request begins with; its bytes follow. Of the request's number, these are the lower bits.
    Begun { turns: TurnsId, request: u32 },
    /// A fault begins or ends.
    Turned(FaultId),
    /// A node of a job copy fails.
    Failed { failures: FailuresId, node: u32 },
}

/// A message from one owner to another. The world delivers notices in order, before workers and later events go on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Notice {
    /// A batch is ready for a device that waits for `loader`; `worker` has made the batch's last sample.
    BatchReady { loader: LoaderId, worker: WorkerId },
    /// A core that a message has left is free for the next waiting activity.
    CoreFree(Waiting),
    /// A collective of a communicator is over; `last` says whether it was the last one of the step.
    CollectiveOver { communicator: CommunicatorId, last: bool },
    /// The current op of a device is over.
    OpOver(DeviceId),
    /// A job copy starts with copying its data sets to its nodes; these stagings have to begin.
    Stage(Ids<StagingId>),
    /// A node of a job copy has all data that are copied to it.
    NodeStaged(JobId),
    /// Faults have changed the speed of the GPUs of `device` to the share `pace` of its normal speed.
    DevicePace { device: DeviceId, pace: f64 },
}

/// The time span from now to a future event. If the span recurs, `lane` is the calendar's lane for events scheduled this far
/// ahead, if one is available.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Delay {
    pub(crate) span: Span,
    pub(crate) lane: Option<LaneId>,
}

impl Delay {
    /// Returns a delay without a lane, for a span that does not recur.
    pub(crate) fn once(seconds: f64) -> Delay {
        Delay { span: Span::from_seconds(seconds), lane: None }
    }

    /// Returns the delay of the same work on a processor whose speed is `pace` times that for which this delay holds.
    pub(crate) fn at_pace(self, pace: f64) -> Delay {
        if pace == 1.0 { self } else { Delay::once(self.span.seconds() / pace) }
    }
}

/// The calendar's lanes for recurring delays. Events that are scheduled the same span ahead are in order of time, so their lane
/// is a FIFO queue.
#[derive(Debug, Default)]
pub(crate) struct Lanes(Vec<(Span, LaneId)>);

impl Lanes {
    /// Maximum number of lanes: beyond it, searching all lanes costs more than the calendar's heap.
    const MOST: usize = 12;

    /// Returns a delay for a span that recurs, with a lane of the calendar if one is available.
    pub(crate) fn recurring(&mut self, calendar: &mut Calendar<Event>, seconds: f64) -> Delay {
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
