//! What a job copy keeps of a model that is spread over GPUs.

use crate::communication::CommunicatorRun;
use crate::index::{DeviceId, Ids, JobId};
use std::collections::VecDeque;

use crate::jobs::Jobs;
use forebay_engine::Time;
use forebay_engine::fluid::GroupId;
use forebay_report::ParallelOutcome;
use forebay_scenario::StepOf;

use super::op::{Communicator, Input};

/// A job copy's model copies, each in stages, each on some GPUs.
#[derive(Debug)]
pub(crate) struct ParallelRun {
    pub(crate) stages: usize,
    /// Micro-batches of a batch.
    pub(crate) micro_batches: f64,
    /// What the job's step time is the time of.
    pub(crate) step_of: StepOf,
    /// Speed of the GPUs that step times are of.
    pub(crate) speed: f64,
    /// By device of the job copy, of which this is the first.
    pub(crate) parts: Vec<ParallelDevice>,
    pub(crate) first: DeviceId,
    /// GPUs of each device.
    pub(crate) ranks: u32,
    /// What each of them hands to the next stage for a micro-batch [B].
    pub(crate) bytes: f64,
    /// Which stage of a model copy sends to which.
    pub(crate) neighbours: Vec<(usize, usize)>,
    /// Devices that have done the step at hand.
    pub(crate) done: u32,
    pub(crate) books: ParallelOutcome,
}

/// A device: a stage of a model copy.
#[derive(Debug, Default)]
pub(crate) struct ParallelDevice {
    /// Number of its first GPU in the job copy.
    pub(crate) gpu: u32,
    /// How much longer than on the cluster's first nodes it takes there.
    pub(crate) slowness: f64,
    /// By [`Communicator`], those that its GPUs are in: one for each GPU or one for all of them.
    pub(crate) communicators: [Ids<CommunicatorRun>; Communicator::ALL.len()],
    /// By GPU, ways from the node's memory and back there, where they are limited.
    pub(crate) pcie: Vec<[Option<GroupId>; 2]>,
    /// By number of the [`Input`], when each that has come and was not taken was sent.
    pub(crate) received: Vec<VecDeque<Time>>,
    /// Activations that it sends, and gradients of them.
    pub(crate) sending: [Sending; 2],
    /// Flows from and to the node's memory.
    pub(crate) swapping: u32,
    /// When its last arithmetic of the step ended, or what it waited for to come or go then, and when all of it did.
    pub(crate) computed: Time,
    pub(crate) ended: Time,
}

/// What a device sends in one direction: one after the other.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    /// Each with when it was there to be sent; the first is on its way.
    pub(crate) waiting: VecDeque<(Time, Input)>,
    /// Flows of that.
    pub(crate) flows: u32,
}

impl ParallelRun {
    /// The same to look at.
    pub(super) fn part_of(&self, d: DeviceId) -> &ParallelDevice {
        &self.parts[(d - self.first) as usize]
    }

    /// What it keeps of device `d`.
    pub(crate) fn part(&mut self, d: DeviceId) -> &mut ParallelDevice {
        &mut self.parts[(d - self.first) as usize]
    }

    /// Who sends to whom from stage to stage, by number of the GPU.
    pub(crate) fn sends(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let pairs = if self.bytes > 0.0 { &self.neighbours[..] } else { &[] };
        let chains = self.parts.chunks(self.stages);
        let between =
            chains.flat_map(move |of| pairs.iter().map(|(a, b)| (of[*a].gpu, of[*b].gpu)));
        between.flat_map(|(from, to)| (0..self.ranks).map(move |rank| (from + rank, to + rank)))
    }

    /// A new step begins.
    pub(super) fn restart(&mut self) {
        self.done = 0;
    }

    /// Nothing is computed, sent or swapped any more: the step begins again.
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
    /// Nothing of the parts of job copy `j` is in progress any more, if it has some.
    pub(crate) fn abort_parts(&mut self, j: JobId) {
        let Some(parallel) = &mut self.jobs[j].parallel else { return };
        parallel.abort();
    }
}
