//! The state of a model that is spread over GPUs.

use crate::communication::CommunicatorRun;
use crate::index::{DeviceId, Ids, JobId};
use std::collections::VecDeque;

use crate::jobs::Jobs;
use forebay_engine::Time;
use forebay_engine::fluid::GroupId;
use forebay_report::ParallelOutcome;
use forebay_scenario::StepOf;

use super::op::{Communicator, Input};

/// The model copies of a job copy, each of which is divided into stages on one or several GPUs.
#[derive(Debug)]
pub(crate) struct ParallelRun {
    pub(crate) stages: usize,
    /// Number of micro-batches in a batch.
    pub(crate) micro_batches: f64,
    /// The part of a model to which the job's step time refers.
    pub(crate) step_of: StepOf,
    /// Relative speed of the GPUs of the cluster's first nodes; step times are divided by it.
    pub(crate) speed: f64,
    /// State of each device of the job copy; `first` is the first of these devices.
    pub(crate) parts: Vec<ParallelDevice>,
    pub(crate) first: DeviceId,
    /// Number of GPUs of each device.
    pub(crate) ranks: u32,
    /// Bytes that each GPU sends to the next stage for a micro-batch [B].
    pub(crate) bytes: f64,
    /// Pairs (sending stage, receiving stage) of the stages of a model copy.
    pub(crate) neighbours: Vec<(usize, usize)>,
    /// Number of devices that have done the current step.
    pub(crate) done: u32,
    pub(crate) books: ParallelOutcome,
}

/// The state of a device that is a stage of a model copy.
#[derive(Debug, Default)]
pub(crate) struct ParallelDevice {
    /// Number of the device's first GPU within the job copy.
    pub(crate) gpu: u32,
    /// Factor by which the stage takes longer on this device than on the cluster's first nodes.
    pub(crate) slowness: f64,
    /// Communicators of the device's GPUs, indexed by [`Communicator`]: one for each GPU, or one for all of them.
    pub(crate) communicators: [Ids<CommunicatorRun>; Communicator::ALL.len()],
    /// For each GPU, the routes from and to the node's memory; `None` if they are not limited.
    pub(crate) pcie: Vec<[Option<GroupId>; 2]>,
    /// For each [`Input::number`], the send times of the inputs that have arrived and have not been used yet.
    pub(crate) received: Vec<VecDeque<Time>>,
    /// Transfers of activations, and of their gradients.
    pub(crate) sending: [Sending; 2],
    /// Number of flows from and to the node's memory in progress.
    pub(crate) swapping: u32,
    /// Time when the step's last computation, or a later swap, ended; `ended` is the time when the device's whole step ended.
    pub(crate) computed: Time,
    pub(crate) ended: Time,
}

/// The transfers of a device in one direction, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    /// Inputs to be sent, each with the time when it was ready; the first is being sent.
    pub(crate) waiting: VecDeque<(Time, Input)>,
    /// Number of flows of the transfer in progress.
    pub(crate) flows: u32,
}

impl ParallelRun {
    /// Returns the state of device `d`.
    pub(super) fn part_of(&self, d: DeviceId) -> &ParallelDevice {
        &self.parts[(d - self.first) as usize]
    }

    /// Returns the state of device `d`, to change it.
    pub(crate) fn part(&mut self, d: DeviceId) -> &mut ParallelDevice {
        &mut self.parts[(d - self.first) as usize]
    }

    /// Returns the pairs of GPU numbers in which the first GPU sends to the second, from stage to stage.
    pub(crate) fn sends(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let pairs = if self.bytes > 0.0 { &self.neighbours[..] } else { &[] };
        let chains = self.parts.chunks(self.stages);
        let between =
            chains.flat_map(move |of| pairs.iter().map(|(a, b)| (of[*a].gpu, of[*b].gpu)));
        between.flat_map(|(from, to)| (0..self.ranks).map(move |rank| (from + rank, to + rank)))
    }

    /// Prepares for a new step.
    pub(super) fn restart(&mut self) {
        self.done = 0;
    }

    /// Cancels all transfers and swaps, so that the step can begin again.
    fn abort(&mut self) {
        self.restart();
        for part in &mut self.parts {
            part.swapping = 0;
            part.received.iter_mut().for_each(VecDeque::clear);
            part.sending.iter_mut().for_each(|sending| *sending = Sending::default());
        }
    }
}

impl Jobs {
    /// Cancels the transfers and swaps of job copy `j`, if its model copies are spread over GPUs.
    pub(crate) fn abort_parts(&mut self, j: JobId) {
        let Some(parallel) = &mut self.jobs[j].parallel else { return };
        parallel.abort();
    }
}
