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
    received: Vec<VecDeque<Time>>,
    /// For each [`Input::number`], the send times of the inputs whose bytes have left the other stage and have not arrived yet. One
    /// stage sends all of them, over one route, so that they arrive in order.
    coming: Vec<VecDeque<Time>>,
    /// Transfers of activations, and of their gradients.
    sending: [Sending; 2],
    /// Number of flows from and to the node's memory in progress.
    swapping: u32,
}

impl ParallelDevice {
    /// Returns the state of a device that is not in use: its first GPU is number `gpu` of the job copy, its steps take `slowness`
    /// times as long, its GPUs swap over the routes `pcie`, and there are `inputs` kinds of inputs from other stages.
    pub(crate) fn new(
        (gpu, slowness): (u32, f64),
        pcie: Vec<[Option<GroupId>; 2]>,
        inputs: usize,
    ) -> ParallelDevice {
        let none = vec![VecDeque::new(); inputs];
        let (received, coming) = (none.clone(), none);
        ParallelDevice { gpu, slowness, pcie, received, coming, ..ParallelDevice::default() }
    }

    /// Returns the state of a pipeline stage that computes on whole batches. `all` are the communicators in which all model
    /// copies take part.
    fn of_whole_batches(all: Ids<CommunicatorId>) -> ParallelDevice {
        let mut communicators = ByCommunicator::default();
        communicators[Communicator::Data] = all;
        let alone = ParallelDevice::new((0, 0.0), Vec::new(), 1);
        ParallelDevice { communicators, ..alone }
    }

    /// Returns whether an input has arrived and has not been used yet.
    pub(in crate::job) fn has_received(&self, input: Input) -> bool {
        !self.received[input.number()].is_empty()
    }

    /// Uses an input that has arrived.
    pub(in crate::job) fn use_input(&mut self, input: Input) {
        self.received[input.number()].pop_front();
    }

    /// Returns when the next input of this kind was sent, if it has arrived or is on its way.
    pub(in crate::job) fn sent(&self, input: Input) -> Option<Time> {
        let number = input.number();
        self.received[number].front().or_else(|| self.coming[number].front()).copied()
    }

    /// Receives an input that is there at once, at `now`.
    pub(super) fn receive(&mut self, now: Time, input: Input) {
        self.received[input.number()].push_back(now);
    }

    /// Records that the bytes of an input that was ready at `sent` are on their way to this device.
    pub(super) fn expect(&mut self, sent: Time, input: Input) {
        self.coming[input.number()].push_back(sent);
    }

    /// Receives the first input on its way with this [`Input::number`].
    pub(super) fn receive_expected(&mut self, number: u16) {
        let sent = self.coming[usize::from(number)].pop_front();
        self.received[usize::from(number)].extend(sent);
    }

    /// Queues `input`, ready at `now`, to be sent; returns whether its transfer begins now.
    pub(super) fn queue(&mut self, now: Time, input: Input) -> bool {
        let waiting = &mut self.sending[usize::from(input.back)].waiting;
        waiting.push_back((now, input));
        waiting.len() == 1
    }

    /// Returns the input that is being sent, or will be sent next, in a direction.
    pub(super) fn next_to_send(&self, back: bool) -> Option<Input> {
        self.sending[usize::from(back)].waiting.front().map(|(_, input)| *input)
    }

    /// Returns the inputs for other stages that have not been sent whole, each with the time at which it was ready.
    pub(in crate::job) fn unsent(&self) -> impl Iterator<Item = (Time, Input)> {
        self.sending.iter().flat_map(|sending| sending.waiting.iter().copied())
    }

    /// Begins the transfer of the next input in a direction with `flows` flows.
    pub(super) fn begin_flows(&mut self, back: bool, flows: u32) {
        self.sending[usize::from(back)].flows = flows;
    }

    /// Ends a flow of the transfer in a direction; returns whether it was the last one.
    pub(super) fn end_flow(&mut self, back: bool) -> bool {
        let sending = &mut self.sending[usize::from(back)];
        sending.flows -= 1;
        sending.flows == 0
    }

    /// Ends the transfer in a direction, and returns its input with the time when it was ready, and whether more inputs wait.
    pub(super) fn end_sending(&mut self, back: bool) -> Option<((Time, Input), bool)> {
        let waiting = &mut self.sending[usize::from(back)].waiting;
        let sent = waiting.pop_front()?;
        Some((sent, !waiting.is_empty()))
    }

    /// Adds `flows` flows from and to the node's memory.
    pub(super) fn add_swaps(&mut self, flows: u32) {
        self.swapping += flows;
    }

    /// Ends a flow from or to the node's memory; returns whether it was the last one.
    pub(super) fn end_swap(&mut self) -> bool {
        self.swapping -= 1;
        self.swapping == 0
    }

    /// Returns whether the device swaps.
    pub(in crate::job) fn is_swapping(&self) -> bool {
        self.swapping > 0
    }

    /// Returns whether nothing is on its way to or from the device.
    pub(in crate::job) fn is_quiet(&self) -> bool {
        self.swapping == 0
            && self.received.iter().chain(&self.coming).all(VecDeque::is_empty)
            && self.sending.iter().all(|sending| sending.waiting.is_empty() && sending.flows == 0)
    }

    /// Cancels all transfers and swaps.
    fn abort(&mut self) {
        self.swapping = 0;
        self.received.iter_mut().chain(&mut self.coming).for_each(VecDeque::clear);
        self.sending = Default::default();
    }
}

/// The transfers of a device in one direction, whose bytes leave one after the other.
#[derive(Debug, Default)]
struct Sending {
    /// Inputs to be sent, each with the time when it was ready; the first is being sent.
    waiting: VecDeque<(Time, Input)>,
    /// Number of flows of the transfer in progress.
    flows: u32,
}

impl Spread {
    /// Counts that one GPU sends activations, or their gradients, to another stage.
    pub(super) fn count_sent(&mut self) {
        self.books.activations += self.bytes;
    }

    /// Counts that each GPU of a device swaps `bytes` [B].
    pub(super) fn count_swapped(&mut self, bytes: f64) {
        self.books.swapped += f64::from(self.ranks) * bytes;
    }

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
        self.parts.iter_mut().for_each(ParallelDevice::abort);
    }
}
