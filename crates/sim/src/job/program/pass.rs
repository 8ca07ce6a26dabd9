//! What each pass of a stage computes, what it waits for, and what happens after it.

use forebay_collective::Operation;
use forebay_scenario::{KeyExchange, Parallelism, StageBucket, StageParameters, Swap};

use super::op::{Input, Pass};
use crate::communication::{ByCommunicator, Communicator, StepKind};

/// The settings that the program of a stage is made from.
pub(crate) struct OfStage<'a> {
    pub(crate) parallelism: &'a Parallelism,
    pub(crate) stage: usize,
    /// Number of the model copy among the model copies that together hold all experts.
    pub(crate) expert: u32,
    /// Share of the step's time that each stage takes.
    pub(crate) shares: &'a [f64],
    /// Gradient buckets of each chunk of the stage, if other ranks have the same gradients.
    pub(crate) buckets: Vec<Vec<StageBucket>>,
    pub(crate) exchanges: Exchanges,
    /// What a root broadcasts and updates, if there is one.
    pub(crate) root: Option<OfRoot>,
    /// What the step does besides computing gradients.
    pub(crate) kind: StepKind,
    /// Whether the average is one of learners, which correct their models after their step has been counted.
    pub(crate) learners: bool,
    /// Whether learners of a GPU sum their gradients, so that the GPU compresses and exchanges the sum.
    pub(crate) sums: bool,
    /// Whether buckets are exchanged with parameter servers.
    pub(crate) servers: bool,
    /// Whether an exchange averages parameters after the update, instead of summing gradients before it. Each update then sums
    /// gradients only among the ranks that train one model together.
    pub(crate) averages: bool,
    /// Whether the stage's trainers also do host-side work on the cores of their nodes.
    pub(crate) launches: bool,
}

/// How ranks exchange the gradients and the sharded parameters of a stage.
pub(crate) struct Exchanges {
    /// The operation that reduces a bucket if gradients are not sharded.
    pub(crate) reduction: Operation,
    /// Time to decompress the gradients of a reduction [s].
    pub(crate) decompress: f64,
    /// Whether ranks compute while they exchange gradients or parameters.
    pub(crate) overlap: bool,
    /// Number of ranks in each kind of communicator.
    pub(crate) ranks: ByCommunicator<u32>,
}

/// A root's part in the steps of a stage.
pub(crate) struct OfRoot {
    /// Parameters of each chunk that the root broadcasts, in order.
    pub(crate) parameters: Vec<Vec<StageParameters>>,
    /// Time of the update [s].
    pub(crate) update: f64,
    /// Number of model copies, the first ones, that together are the root.
    pub(crate) copies: u32,
}

/// What happens after a share of a pass has been computed.
#[derive(Debug, Clone, Copy)]
pub(in crate::job) enum End {
    /// Tensor-parallel ranks sum the results of a layer.
    Sum,
    /// Context-parallel ranks begin to exchange keys and values, or the gradients of keys and values.
    BeginKeys(Operation),
    /// Context-parallel ranks wait for all exchanges of keys and values that they have begun.
    AwaitKeys,
    /// Ranks exchange tokens or the gradients of tokens in an all-to-all, to experts or back from experts.
    Dispatch,
    /// A bucket of gradients is reduced; `last` says whether no later pass of the step adds to the gradients.
    Reduce { bucket: StageBucket, last: bool },
}

impl OfStage<'_> {
    pub(in crate::job) fn stages(&self) -> usize {
        self.shares.len()
    }

    pub(in crate::job) fn micro_batches(&self) -> usize {
        self.parallelism.micro_batches as usize
    }

    fn chunks(&self) -> usize {
        self.parallelism.schedule.chunks() as usize
    }

    /// Returns the position of one of the stage's chunks among all chunks of the model.
    fn place(&self, chunk: usize) -> usize {
        self.parallelism.schedule.position(self.stage, self.stages(), chunk)
    }

    /// Returns the input of the chunk at position `place` of the model: activations from the chunk before, or gradients from
    /// the chunk after if `back` is set. `None` if the model has no chunk there.
    fn input_of(&self, place: Option<usize>, back: bool) -> Option<Input> {
        let place = place.filter(|place| *place < self.chunks() * self.stages())?;
        let (stage, chunk) = self.parallelism.schedule.holder(place, self.stages());
        Some(Input { stage: stage as u32, chunk: chunk as u32, back })
    }

    /// Returns the input that a pass on a chunk waits for: activations from the chunk before, or their gradients from the chunk
    /// after; `None` if it needs none.
    pub(in crate::job) fn input(&self, pass: Pass, chunk: usize) -> Option<Input> {
        let place = self.place(chunk);
        let (neighbour, back) = match pass {
            Pass::Forward => (place.checked_sub(1), false),
            Pass::Backward | Pass::InputGradients => (Some(place + 1), true),
            Pass::WeightGradients => return None,
        };
        self.input_of(neighbour, back)?;
        self.input_of(Some(place), back)
    }

    /// Returns what a pass on a chunk sends to another chunk; `None` if it sends nothing.
    pub(in crate::job) fn output(&self, pass: Pass, chunk: usize) -> Option<Input> {
        let place = self.place(chunk);
        match pass {
            Pass::Forward => self.input_of(Some(place + 1), false),
            Pass::Backward | Pass::InputGradients => self.input_of(place.checked_sub(1), true),
            Pass::WeightGradients => None,
        }
    }

    /// Returns the share of a micro-batch's time that a pass on one chunk of this stage takes.
    fn share(&self, pass: Pass) -> f64 {
        let forward = self.parallelism.forward;
        let weights = self.parallelism.schedule.weight_gradients();
        let part = match pass {
            Pass::Forward => forward,
            Pass::Backward => 1.0 - forward,
            Pass::InputGradients => (1.0 - forward) * (1.0 - weights),
            Pass::WeightGradients => (1.0 - forward) * weights,
        };
        let share = self.shares[self.stage] / f64::from(self.parallelism.schedule.chunks());
        part * share / f64::from(self.parallelism.ranks())
    }

    /// Returns the parameters of a chunk that a root broadcasts for the step; none if the step uses those of the step before.
    pub(in crate::job) fn broadcast(&self, chunk: usize) -> &[StageParameters] {
        let root = self.root.as_ref().filter(|_| !self.kind.adds);
        root.and_then(|root| root.parameters.get(chunk)).map_or(&[], Vec::as_slice)
    }

    /// Returns the gradient buckets of a chunk.
    pub(in crate::job) fn buckets(&self, chunk: usize) -> &[StageBucket] {
        self.buckets.get(chunk).map_or(&[], Vec::as_slice)
    }

    /// Returns the communicator whose ranks reduce the gradients of `bucket` together, and shard its states if any are sharded.
    pub(in crate::job) fn reducing(&self, bucket: &StageBucket) -> Communicator {
        let grouped = self.exchanges.ranks[Communicator::Shard] > 0;
        let kind = if grouped { Communicator::Shard } else { Communicator::Data };
        kind.for_experts(bucket.experts)
    }

    /// Returns the communicator whose ranks sum the shards of their groups, once these are `last` reduced before an update; `None`
    /// if all ranks are in one group.
    pub(in crate::job) fn summing(&self, bucket: &StageBucket, last: bool) -> Option<Communicator> {
        let kind = Communicator::Replica.for_experts(bucket.experts);
        (last && self.kind.exchanges && self.exchanges.ranks[kind] > 0).then_some(kind)
    }

    /// Returns the communicator in which a rank gathers the parameters of `bucket`, for backward if `back` is true.
    pub(in crate::job) fn gathering(&self, bucket: &StageBucket, back: bool) -> Communicator {
        match back && self.exchanges.ranks[Communicator::Secondary] > 0 {
            true => Communicator::Secondary.for_experts(bucket.experts),
            false => self.reducing(bucket),
        }
    }

    /// Returns whether buckets of gradients are reduced in each pass that computes gradients, because ranks keep only shards of
    /// them (ZeRO's stages 2 and 3).
    pub(in crate::job) fn reduces_in_each_pass(&self) -> bool {
        self.parallelism.zero >= 2
    }

    /// Returns whether gradients are reduced only after all passes of the step: a chunk's gradients wait for the passes of the
    /// stage's other chunks.
    pub(in crate::job) fn reduces_after_passes(&self) -> bool {
        let waits = !self.exchanges.overlap && !self.averages && !self.reduces_in_each_pass();
        waits && self.chunks() > 1
    }

    /// Returns whether the step's gradients are summed over ranks, with those of the steps that it adds to.
    fn reduces(&self) -> bool {
        if self.averages { self.kind.updates } else { self.kind.exchanges }
    }

    /// Returns the communicator whose ranks train one model together and sum the gradients of `bucket` at each update, where
    /// exchanges average parameters: ranks that split sequences, and for dense parameters also model copies that hold experts
    /// together. `None` if no other rank trains this part of the model.
    pub(in crate::job) fn inner(&self, bucket: &StageBucket) -> Option<Communicator> {
        let of = self.parallelism;
        let among_experts = !bucket.experts && of.expert_ranks() > 1;
        let trains_together = of.context_ranks() > 1 || among_experts;
        trains_together.then_some(Communicator::Inner.for_experts(bucket.experts))
    }

    /// Returns the events within a pass, each with the share of the pass after which it happens, in order: sums of a layer's
    /// results, exchanges of keys and values, all-to-alls of tokens, and reductions of gradient buckets. Buckets are reduced in
    /// the `last` pass that computes gradients, or in each such pass if ranks keep only shards of gradients (ZeRO's stages 2
    /// and 3).
    pub(in crate::job) fn ends(&self, pass: Pass, chunk: usize, last: bool) -> Vec<(f64, End)> {
        let sums = self.sums(pass, chunk);
        let mut ends: Vec<(f64, End)> =
            (1..=sums).map(|i| (f64::from(i) / f64::from(sums), End::Sum)).collect();
        ends.extend(self.keys(pass, chunk));
        ends.extend(self.dispatches(pass, chunk));
        let reduces = last && self.reduces() && !self.reduces_after_passes();
        if pass.makes_gradients() && (reduces || self.reduces_in_each_pass()) {
            let reduce = |of: &StageBucket| (of.at, End::Reduce { bucket: *of, last });
            ends.extend(self.buckets(chunk).iter().map(reduce));
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends
    }

    /// Returns the exchanges of keys and values in a pass among context-parallel ranks, each with the share of the pass after
    /// which it happens. The exchange for an attention block either overlaps the block's computation or precedes it. Backward
    /// exchanges keys and values again, and reduces their gradients.
    fn keys(&self, pass: Pass, chunk: usize) -> Vec<(f64, End)> {
        let context = self.parallelism.context.as_ref().filter(|context| context.ranks > 1);
        let Some(context) = context else { return Vec::new() };
        let gradients = match pass {
            Pass::Forward => false,
            Pass::Backward | Pass::InputGradients => true,
            Pass::WeightGradients => return Vec::new(),
        };
        let number = context.attentions[self.place(chunk)];
        let block = |place: u32| {
            let (begin, end) =
                (f64::from(place) / f64::from(number), f64::from(place + 1) / f64::from(number));
            let gather = (begin, End::BeginKeys(Operation::Allgather));
            let scatter = End::BeginKeys(Operation::ReduceScatter);
            let scatter = |at| gradients.then_some((at, scatter));
            match context.exchange {
                KeyExchange::Overlapped => {
                    [Some(gather), scatter(begin), Some((end, End::AwaitKeys)), None]
                }
                KeyExchange::Exposed => {
                    let after = scatter(end).map(|(at, _)| (at, End::AwaitKeys));
                    [Some(gather), Some((begin, End::AwaitKeys)), scatter(end), after]
                }
            }
        };
        (0..number).flat_map(|place| block(place).into_iter().flatten()).collect()
    }

    /// Returns the all-to-alls of a pass, each with the share of the pass after which it happens: one before and one after the
    /// computation of each layer's experts. A pass for gradients of weights has none.
    fn dispatches(&self, pass: Pass, chunk: usize) -> Vec<(f64, End)> {
        let back = match pass {
            Pass::Forward => false,
            Pass::Backward | Pass::InputGradients => true,
            Pass::WeightGradients => return Vec::new(),
        };
        let expert = self.parallelism.expert.as_ref().filter(|expert| expert.ranks > 1);
        let Some(expert) = expert else { return Vec::new() };
        let place = self.place(chunk);
        let around = |layer| {
            let (begin, end) = expert.experts_compute(place, (layer, back));
            [(begin, End::Dispatch), (end, End::Dispatch)]
        };
        (0..expert.layers[place]).flat_map(around).collect()
    }

    /// Returns the share of a micro-batch's time that this device needs for the part of a pass from `from` to `to`.
    pub(in crate::job) fn share_of(&self, pass: Pass, chunk: usize, (from, to): (f64, f64)) -> f64 {
        let back = pass != Pass::Forward;
        let time = match &self.parallelism.expert {
            Some(expert) => expert.time_of(self.expert, (self.place(chunk), back), (from, to)),
            None => to - from,
        };
        self.share(pass) * time
    }

    /// Returns how often tensor-parallel ranks sum results in a pass. A pass for gradients of weights needs no sums, because each
    /// rank has its own part of the weights.
    fn sums(&self, pass: Pass, chunk: usize) -> u32 {
        let tensor = self.parallelism.tensor.as_ref().filter(|tensor| tensor.ranks > 1);
        match pass {
            Pass::Forward | Pass::Backward | Pass::InputGradients => {
                tensor.map_or(0, |tensor| tensor.reductions[self.place(chunk)])
            }
            Pass::WeightGradients => 0,
        }
    }

    /// Returns the buckets of parameters that a pass has to gather from other ranks (ZeRO's stage 3), each with the share of
    /// the pass after which it is needed.
    pub(in crate::job) fn gathers(&self, pass: Pass, chunk: usize) -> Vec<(f64, StageBucket)> {
        if self.parallelism.zero < 3 {
            return Vec::new();
        }
        let buckets = self.buckets(chunk);
        match pass {
            Pass::Backward | Pass::InputGradients => {
                let (mut begin, mut end) = (0.0, 0.0);
                let begun = |bucket: &StageBucket| {
                    // Parameters of experts are needed at the same time as the dense ones of the same layers, which are the
                    // bucket before.
                    if !bucket.experts || bucket.made > end {
                        (begin, end) = (end, bucket.made);
                    }
                    (begin, *bucket)
                };
                buckets.iter().map(begun).collect()
            }
            // Forward begins where backward ends.
            Pass::Forward => buckets.iter().rev().map(|b| (1.0 - b.made, *b)).collect(),
            // Gradients of weights are products of activations and gradients, and need no parameters.
            Pass::WeightGradients => Vec::new(),
        }
    }

    /// Returns the bytes that a pass swaps out to the node's memory, and the bytes that it needs from there [B]. The `first` pass
    /// that computes gradients needs no gradients from the node's memory, since there are no earlier gradients to add to.
    pub(in crate::job) fn moved(&self, pass: Pass, chunk: usize, first: bool) -> (f64, f64) {
        let of = self.parallelism;
        let Some(swap) = of.swap.get(self.stage) else { return (0.0, 0.0) };
        let (stage, stages) = (self.stage as u32, self.stages() as u32);
        let held = of.schedule.in_progress(stage, stages, of.micro_batches);
        let each = swap.activations / f64::from(held);
        let part = of.weight_of_chunk(self.stage, chunk);
        let Swap { gradients, parameters, .. } = *swap;
        let (gradients, parameters) = (part * gradients, part * parameters);
        let before = if first { 0.0 } else { gradients };
        match pass {
            Pass::Forward => (each, parameters),
            Pass::Backward => (gradients, each + parameters + before),
            Pass::InputGradients => (0.0, each + parameters),
            Pass::WeightGradients => (gradients, each + before),
        }
    }
}
