//! What a job copy keeps of a model that is spread over GPUs.

use crate::sim::communication::CommunicatorRun;
use crate::sim::index::{DeviceId, Ids, JobId};
use std::collections::VecDeque;

use crate::engine::Time;
use crate::fluid::GroupId;
use crate::report::ParallelOutcome;
use crate::scenario::StepOf;
use crate::sim::jobs::Jobs;

use super::op::{Communicator, Input};

/// A job copy's model copies, each in stages, each on some GPUs.
#[derive(Debug)]
pub(in crate::sim) struct ParallelRun {
    pub(in crate::sim) stages: usize,
    /// Micro-batches of a batch.
    pub(in crate::sim) micro_batches: f64,
    /// What the job's step time is the time of.
    pub(in crate::sim) step_of: StepOf,
    /// Speed of the GPUs that step times are of.
    pub(in crate::sim) speed: f64,
    /// By device of the job copy, of which this is the first.
    pub(in crate::sim) parts: Vec<Part>,
    pub(in crate::sim) first: DeviceId,
    /// GPUs of each device.
    pub(in crate::sim) ranks: u32,
    /// What each of them hands to the next stage for a micro-batch [B].
    pub(in crate::sim) bytes: f64,
    /// Which stage of a model copy sends to which.
    pub(in crate::sim) neighbours: Vec<(usize, usize)>,
    /// Devices that have done the step at hand.
    pub(in crate::sim) done: u32,
    pub(in crate::sim) books: ParallelOutcome,
}

/// A device: a stage of a model copy.
#[derive(Debug, Default)]
pub(in crate::sim) struct Part {
    /// Number of its first GPU in the job copy.
    pub(in crate::sim) gpu: u32,
    /// How much longer than on the cluster's first nodes it takes there.
    pub(in crate::sim) slowness: f64,
    /// By [`Communicator`], those that its GPUs are in: one for each GPU or one for all of them.
    pub(in crate::sim) communicators: [Ids<CommunicatorRun>; Communicator::ALL.len()],
    /// By GPU, ways from the node's memory and back there, where they are limited.
    pub(in crate::sim) pcie: Vec<[Option<GroupId>; 2]>,
    /// By number of the [`Input`], when each that has come and was not taken was sent.
    pub(in crate::sim) received: Vec<VecDeque<Time>>,
    /// Activations that it sends, and gradients of them.
    pub(in crate::sim) sending: [Sending; 2],
    /// Flows from and to the node's memory.
    pub(in crate::sim) swapping: u32,
    /// When its last arithmetic of the step ended, or what it waited for to come or go then, and when all of it did.
    pub(in crate::sim) computed: Time,
    pub(in crate::sim) ended: Time,
}

/// What a device sends in one direction: one after the other.
#[derive(Debug, Default)]
pub(in crate::sim) struct Sending {
    /// Each with when it was there to be sent; the first is on its way.
    pub(in crate::sim) waiting: VecDeque<(Time, Input)>,
    /// Flows of that.
    pub(in crate::sim) flows: u32,
}

impl ParallelRun {
    /// The same to look at.
    pub(super) fn part_of(&self, d: DeviceId) -> &Part {
        &self.parts[(d - self.first) as usize]
    }

    /// What it keeps of device `d`.
    pub(in crate::sim) fn part(&mut self, d: DeviceId) -> &mut Part {
        &mut self.parts[(d - self.first) as usize]
    }

    /// Who sends to whom from stage to stage, by number of the GPU.
    pub(in crate::sim) fn sends(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
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
    pub(in crate::sim) fn abort_parts(&mut self, j: JobId) {
        let Some(parallel) = &mut self.jobs[j].parallel else { return };
        parallel.abort();
    }
}
