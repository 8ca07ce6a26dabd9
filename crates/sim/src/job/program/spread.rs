//! The state of a model that is spread over GPUs.

use std::collections::VecDeque;

use forebay_engine::Time;
use forebay_engine::fluid::GroupId;
use forebay_report::ParallelOutcome;
use forebay_scenario::StepOf;

use super::op::Input;
use crate::communication::{ByCommunicator, Communicator};
use crate::env::Delay;
use crate::ids::{CommunicatorId, DeviceId, Ids, RangeVec};

/// What the devices of a job copy need to send each other activations, and to work through micro-batches.
#[derive(Debug, Default)]
pub(crate) struct Spread {
    /// Number of micro-batches in a batch.
    pub(crate) micro_batches: f64,
    /// The part of a model to which the job's step time refers.
    pub(crate) step_of: StepOf,
    /// Relative speed of the GPUs of the cluster's first nodes; step times are divided by it.
    pub(crate) speed: f64,
    /// State of each device of the job copy. Empty if each model copy is a single device that computes on whole batches.
    pub(crate) parts: RangeVec<DeviceId, ParallelDevice>,
    /// Number of GPUs of each device.
    pub(crate) ranks: u32,
    /// Bytes that each GPU sends to the next stage at a time, for a micro-batch or a whole batch [B].
    pub(crate) bytes: f64,
    /// Latency of the links inside a node, if all stages of a model copy are on one node and send over these links; otherwise
    /// they send over the routes between ranks.
    pub(crate) inside: Option<Delay>,
    /// Pairs (sending stage, receiving stage) of the stages of a model copy.
    pub(crate) neighbours: Vec<(usize, usize)>,
    pub(crate) books: ParallelOutcome,
    /// Whether reports show `books`.
    pub(crate) shown: bool,
}

/// The state of a device that is a stage of a model copy.
#[derive(Debug, Default)]
pub(crate) struct ParallelDevice {
    /// Number of the device's first GPU within the job copy.
    pub(crate) gpu: u32,
    /// Factor by which the stage takes longer on this device than on the cluster's first nodes.
    pub(crate) slowness: f64,
    /// Communicators of the device's GPUs, by kind: one for each GPU, or one for all of them.
    pub(crate) communicators: ByCommunicator<Ids<CommunicatorId>>,
    /// For each GPU, the routes from and to the node's memory; `None` if they are not limited.
    pub(crate) pcie: Vec<[Option<GroupId>; 2]>,
    /// For each [`Input::number`], the send times of the inputs that have arrived and have not been used yet.
    pub(crate) received: Vec<VecDeque<Time>>,
    /// For each [`Input::number`], the send times of the inputs whose bytes have left the other stage and have not arrived yet. One
    /// stage sends all of them, over one route, so that they arrive in order.
    pub(crate) coming: Vec<VecDeque<Time>>,
    /// Transfers of activations, and of their gradients.
    pub(crate) sending: [Sending; 2],
    /// Number of flows from and to the node's memory in progress.
    pub(crate) swapping: u32,
}

impl ParallelDevice {
    /// Returns the state of a pipeline stage that computes on whole batches. `all` are the communicators in which all model
    /// copies take part.
    fn of_whole_batches(all: Ids<CommunicatorId>) -> ParallelDevice {
        let mut communicators = ByCommunicator::default();
        communicators[Communicator::Data] = all;
        let none = vec![VecDeque::new()];
        ParallelDevice { communicators, received: none.clone(), coming: none, ..Default::default() }
    }
}

/// The transfers of a device in one direction, whose bytes leave one after the other.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    /// Inputs to be sent, each with the time when it was ready; the first is being sent.
    pub(in crate::job) waiting: VecDeque<(Time, Input)>,
    /// Number of flows of the transfer in progress.
    pub(in crate::job) flows: u32,
}

impl Spread {
    /// Returns the state of device `d`; `None` if each model copy is a single device that computes on whole batches.
    pub(in crate::job) fn get(&self, d: DeviceId) -> Option<&ParallelDevice> {
        self.parts.get(d)
    }

    /// Returns the state of device `d`, of a spread model copy.
    pub(in crate::job) fn part_of(&self, d: DeviceId) -> &ParallelDevice {
        &self.parts[d]
    }

    /// Returns the state of device `d`, to change it.
    pub(in crate::job) fn part(&mut self, d: DeviceId) -> &mut ParallelDevice {
        &mut self.parts[d]
    }

    /// Makes `devices` pipeline stages that compute on whole batches. `all` are the communicators in which all model copies take
    /// part.
    pub(crate) fn add_stages(&mut self, devices: Ids<DeviceId>, all: Ids<CommunicatorId>) {
        let parts = devices.iter().map(|_| ParallelDevice::of_whole_batches(all));
        self.parts = RangeVec::new(devices.start, parts);
    }

    /// Returns the pairs of GPU numbers in which the first GPU sends to the second, from stage to stage, in model copies of
    /// `stages` stages.
    pub(crate) fn sends(&self, stages: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        let pairs = if self.bytes > 0.0 { &self.neighbours[..] } else { &[] };
        let chains = self.parts.as_slice().chunks(stages);
        let between =
            chains.flat_map(move |of| pairs.iter().map(|(a, b)| (of[*a].gpu, of[*b].gpu)));
        between.flat_map(|(from, to)| (0..self.ranks).map(move |rank| (from + rank, to + rank)))
    }

    /// Cancels all transfers and swaps, so that the step can begin again.
    pub(in crate::job) fn abort(&mut self) {
        for part in self.parts.iter_mut() {
            part.swapping = 0;
            part.received.iter_mut().chain(&mut part.coming).for_each(VecDeque::clear);
            part.sending.iter_mut().for_each(|sending| *sending = Sending::default());
        }
    }
}
