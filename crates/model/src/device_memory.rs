//! Memory of a GPU that trains a model: parameters, gradients, optimizer state, activations, and memory that libraries allocate.
//!
//! With n parameters and k optimizer values for each parameter (Rajbhandari et al., *ZeRO: Memory Optimizations Toward Training
//! Trillion Parameter Models*, 2020, section 3.1):
//!
//! | | in 32 bits | mixed with 16 bits |
//! |---|---|---|
//! | parameters | 4 n | 2 n |
//! | gradients | 4 n | 2 n |
//! | optimizer | 4 k n | 4 n for weights in 32 bits, and 4 k n |
//!
//! Activations are the elements that the catalogue counts, plus the sample itself, for each sample in a batch. A pipeline
//! stage holds the activations of several batches or micro-batches; their number depends on the schedule. Let i be the stage,
//! counted from 0, s the number of stages and m the number of micro-batches.
//!
//! - Stages that overlap batches: s − i batches (Narayanan et al., *PipeDream*, 2019, section 3.3).
//! - GPipe: all m micro-batches. 1F1B: min(s − i, m) micro-batches (Narayanan et al., *Efficient Large-Scale Language Model
//!   Training on GPU Clusters*, 2021, section 2.2).
//! - v interleaved chunks, each a v-th of a stage: min(2 (s − i − 1) + (v − 1) s + 1, v m) passes through a chunk.
//! - ZB-H1: min(s, m) micro-batches, as the gradients of weights need their activations too (Qi et al., *Zero Bubble Pipeline
//!   Parallelism*, 2024, section 2.3). ZB-V, two chunks of half a stage each: min(2 s, m + min(m, i + 1)) passes through a chunk
//!   (section 6).
//!
//! Temporary memory of the backward pass and fragmentation in the allocator are left out.
//!
//! Parallelism divides this memory. With context parallelism over c ranks, each rank holds 1/c of the activations and all
//! parameters. With expert parallelism over e model copies, each copy holds 1/e of the experts' parameters; the activations of
//! experts grow with the tokens of the busiest copy. With tensor parallelism over t ranks, each rank holds 1/t of everything
//! except the activations that all ranks keep whole (Korthikanti et al., 2022, section 4.2). The few parameters of norms are
//! counted as split, although all ranks keep them. Data-parallel ranks that shard states hold an equal part each: of the
//! optimizer state from ZeRO stage 1, of gradients from stage 2, and of parameters at stage 3 (Rajbhandari et al., section 5).
//! With hybrid sharding these are the ranks of a group. A secondary partition of the parameters (hpZ of ZeRO++: Wang et al., 2023,
//! section 3.2) comes on top.

use crate::catalogue::{Model, Precision};

/// Number of models that learners with model averaging share on a GPU: the reference model, the previous one, and the sum of
/// corrections (Koliousis et al., *Crossbow*, PVLDB 12(11), 2019).
const SHARED_MODELS: f64 = 3.0;

/// Optimizer that updates the parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Optimizer {
    /// Plain SGD: no state.
    Sgd,
    /// SGD with momentum: a running mean of the gradients.
    Momentum,
    /// Adam: running means of the gradients and of their squares.
    Adam,
}

impl Optimizer {
    /// Returns the number of values that the optimizer keeps for each parameter.
    fn values(self) -> f64 {
        match self {
            Optimizer::Sgd => 0.0,
            Optimizer::Momentum => 1.0,
            Optimizer::Adam => 2.0,
        }
    }
}

/// Part of a model on one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Portion {
    /// Number of parameters.
    pub parameters: f64,
    /// Elements that the forward pass keeps for the backward pass, for each sample.
    pub activations: f64,
    /// The part of `activations` that every rank keeps whole under tensor parallelism.
    pub whole: f64,
    /// Largest number of elements that a single layer keeps for the backward pass, for each sample.
    pub largest: f64,
    /// Number of layers whose results tensor-parallel ranks all-reduce in the forward pass.
    pub reductions: u32,
    /// Number of attention layers; in each, context-parallel ranks send each other their keys and values.
    pub attentions: u32,
    /// Number of parameters that belong to experts.
    pub experts: f64,
    /// The part of `activations` that belongs to experts.
    pub expert_activations: f64,
    /// The part of `expert_activations` that every rank keeps whole under tensor parallelism.
    pub expert_whole: f64,
    /// Number of layers before which tokens are dispatched to experts.
    pub dispatches: u32,
    /// Work of the forward pass for one sample [FLOP].
    pub flops: f64,
    /// Work of the forward pass in experts for one sample [FLOP].
    pub expert_flops: f64,
}

impl Portion {
    /// Adds another part of the model that is on the same GPU.
    pub fn add(&mut self, other: &Portion) {
        self.parameters += other.parameters;
        self.activations += other.activations;
        self.whole += other.whole;
        self.largest = self.largest.max(other.largest);
        self.reductions += other.reductions;
        self.attentions += other.attentions;
        self.experts += other.experts;
        self.expert_activations += other.expert_activations;
        self.expert_whole += other.expert_whole;
        self.dispatches += other.dispatches;
        self.flops += other.flops;
        self.expert_flops += other.expert_flops;
    }
}

/// Degrees of parallelism: over how many GPUs a part of a model is spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Number of tensor-parallel ranks.
    pub tensor: u32,
    /// Number of context-parallel ranks, which split sequences.
    pub context: u32,
    /// Number of expert-parallel model copies, which together hold all experts.
    pub experts: u32,
    /// Load imbalance between experts: tokens of the model copy that gets the most, over all layers, ÷ mean tokens of a copy.
    pub busiest: f64,
    /// Number of data-parallel ranks that shard states among themselves.
    pub ranks: u32,
    /// Number of data-parallel ranks that shard a second copy of the parameters among themselves; 0 if there is none.
    pub secondary: u32,
    /// ZeRO stage, which determines the states that data-parallel ranks shard; 0 to shard nothing.
    pub zero: u32,
}

impl Spread {
    /// No parallelism: one GPU holds everything.
    pub const NONE: Spread =
        Spread { tensor: 1, context: 1, experts: 1, busiest: 1.0, ranks: 1, secondary: 0, zero: 0 };

    /// Returns the number of bytes that one rank holds of a state. The state has `all` bytes, `experts` of which belong to
    /// experts, and data-parallel ranks shard it from ZeRO stage `stage` on.
    fn part(&self, stage: u32, (all, experts): (f64, f64)) -> f64 {
        if self.zero < stage {
            return all - experts + experts / f64::from(self.experts);
        }
        let sharded = |ranks: u32| match self.experts_are_distinct(ranks) {
            false => all / f64::from(ranks),
            true => {
                let apart = f64::from(self.experts * self.context);
                (all - experts) / f64::from(ranks) + experts / apart
            }
        };
        let second = stage == 3 && self.secondary > 0;
        sharded(self.ranks) + if second { sharded(self.secondary) } else { 0.0 }
    }

    /// Returns whether each expert is held by at most one model copy of a group of `ranks` ranks.
    fn experts_are_distinct(&self, ranks: u32) -> bool {
        ranks < self.experts * self.context
    }

    /// Returns the footprint of a GPU whose states are spread as `other` says, if it is `held` with this spread. The share
    /// `experts` of the parameters belongs to experts.
    #[must_use]
    pub fn respread(&self, held: &Footprint, experts: f64, other: &Spread) -> Footprint {
        let times = |stage| other.part(stage, (1.0, experts)) / self.part(stage, (1.0, experts));
        Footprint {
            parameters: held.parameters * times(3),
            gradients: held.gradients * times(2),
            optimizer: held.optimizer * times(1),
            ..*held
        }
    }

    /// Returns the size of the parameters and the optimizer state of a part of a model, over all GPUs. A byte that several ranks
    /// hold is counted once. Each GPU holds `held`; the share `experts` of the part's parameters belongs to experts.
    #[must_use]
    pub fn state(&self, held: &Footprint, experts: f64) -> State {
        let mut state = State::default();
        for (stage, held) in [(3, held.parameters), (1, held.optimizer)] {
            let all = f64::from(self.tensor) * held / self.part(stage, (1.0, experts));
            if self.zero >= stage && self.experts_are_distinct(self.ranks) {
                state.experts += all * experts;
                state.sharded += all * (1.0 - experts);
            } else if self.zero >= stage {
                state.sharded += all;
            } else {
                state.experts += all * experts;
                state.whole += all * (1.0 - experts);
            }
        }
        state
    }
}

/// Size of a model's parameters and optimizer state, in three parts that ranks hold in different ways.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct State {
    /// Bytes that every data-parallel rank holds [B].
    pub whole: f64,
    /// Bytes of experts, which are divided among expert-parallel model copies [B].
    pub experts: f64,
    /// Bytes that data-parallel ranks shard [B].
    pub sharded: f64,
}

impl State {
    /// Returns the size of the whole state, every byte counted once [B].
    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.whole + self.experts + self.sharded
    }
}

/// Settings of training that determine memory use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Training {
    /// Floating-point format.
    pub precision: Precision,
    /// Optimizer.
    pub optimizer: Optimizer,
    /// Samples in a batch.
    pub batch: u64,
    /// Memory that libraries allocate [B].
    pub workspace: f64,
}

/// Memory use of a GPU, by purpose [B].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Footprint {
    /// Parameters in the format of the matrix products [B].
    pub parameters: f64,
    /// Gradients [B].
    pub gradients: f64,
    /// Optimizer state, including 32-bit weights if the parameters are in a shorter format [B].
    pub optimizer: f64,
    /// Activations of all batches in progress [B].
    pub activations: f64,
    /// Memory that learners with model averaging share: the GPU's reference model, the previous one, and the sum of corrections
    /// [B].
    pub averaging: f64,
    /// Memory that libraries allocate [B].
    pub workspace: f64,
}

impl Footprint {
    /// Returns the total [B].
    #[must_use]
    pub fn total(&self) -> f64 {
        self.of_learner() + self.averaging + self.workspace
    }

    /// Returns the memory that each learner needs for itself [B].
    fn of_learner(&self) -> f64 {
        self.parameters + self.gradients + self.optimizer + self.activations
    }

    /// Returns the footprint of a GPU with `learners` learners instead of one. `averages` says whether they average their models.
    #[must_use]
    pub fn of_learners(&self, learners: u32, averages: bool) -> Footprint {
        let each = f64::from(learners);
        Footprint {
            parameters: each * self.parameters,
            gradients: each * self.gradients,
            optimizer: each * self.optimizer,
            activations: each * self.activations,
            averaging: if averages { SHARED_MODELS * self.parameters } else { 0.0 },
            workspace: self.workspace,
        }
    }

    /// Returns the largest number of learners, each with this footprint, that fit into `capacity` [B].
    #[must_use]
    pub fn most_learners(&self, averages: bool, capacity: f64) -> u32 {
        let none = self.of_learners(0, averages).total();
        ((capacity - none) / self.of_learner()).floor().max(0.0) as u32
    }
}

impl Training {
    /// Returns the footprint of a GPU that holds `portion` under `spread` while `batches` batches are in progress.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "sizes are estimates")]
    pub fn footprint(&self, portion: &Portion, batches: f64, spread: &Spread) -> Footprint {
        let ranks = f64::from(spread.tensor);
        let parameters = (portion.parameters / ranks, portion.experts / ranks);
        let activations = portion.whole + (portion.activations - portion.whole) / ranks;
        let (experts, whole) = (portion.expert_activations, portion.expert_whole);
        let more = (whole + (experts - whole) / ranks) * (spread.busiest - 1.0);
        let activations = (activations + more) / f64::from(spread.context);
        let bytes = self.precision.bytes();
        let weights = if bytes < 4.0 { 1.0 } else { 0.0 };
        Footprint {
            parameters: bytes * spread.part(3, parameters),
            gradients: bytes * spread.part(2, parameters),
            optimizer: 4.0 * (weights + self.optimizer.values()) * spread.part(1, parameters),
            activations: bytes * activations * self.batch as f64 * batches,
            averaging: 0.0,
            workspace: self.workspace,
        }
    }
}

/// Returns the parts of `model` on the stages of a pipeline. Each stage takes the given share of a step's work; layers go, in
/// order, to the stage in which the middle of their work falls. Returns one part if there are no shares.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "sizes are estimates")]
pub fn portions(model: &Model, shares: &[f64]) -> Vec<Portion> {
    let mut portions = vec![Portion::default(); shares.len().max(1)];
    portions[0].activations = model.input.elements() as f64;
    let ends: Vec<f64> =
        shares.iter().scan(0.0, |end, share| Some(*end + share).inspect(|e| *end = *e)).collect();
    let (total, mut done) = (model.flops().max(1) as f64, 0.0);
    for layer in &model.layers {
        let flops = layer.flops as f64;
        let middle = (done + 0.5 * flops) / total;
        let stage = ends.iter().take_while(|end| **end <= middle).count().min(portions.len() - 1);
        let (part, activations) = (&mut portions[stage], layer.activations as f64);
        part.parameters += layer.parameters as f64;
        part.activations += activations;
        part.whole += layer.whole as f64;
        part.largest = part.largest.max(activations);
        part.reductions += u32::from(layer.reduced > 0);
        part.attentions += u32::from(layer.keys_values > 0);
        part.flops += flops;
        if let Some(experts) = layer.experts {
            part.experts += layer.parameters as f64;
            part.expert_activations += activations;
            part.expert_whole += layer.whole as f64;
            part.expert_flops += flops;
            part.dispatches += u32::from(experts.dispatched > 0);
        }
        done += flops;
    }
    portions
}

#[cfg(test)]
mod tests;
