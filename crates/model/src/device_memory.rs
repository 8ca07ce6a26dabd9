//! What a GPU holds while it trains a model: parameters, gradients, the optimizer's values, activations, and
//! what libraries take beside.
//!
//! Of n parameters and k values of the optimizer for each (Rajbhandari et al., *ZeRO: Memory Optimizations
//! Toward Training Trillion Parameter Models*, 2020, section 3.1):
//!
//! | | in 32 bits | mixed with 16 bits |
//! |---|---|---|
//! | parameters | 4 n | 2 n |
//! | gradients | 4 n | 2 n |
//! | optimizer | 4 k n | 4 n for weights in 32 bits, and 4 k n |
//!
//! Activations are the elements that the catalogue counts, with the sample itself, for each sample of a
//! batch. Of a pipeline whose stages overlap, stage i of s holds those of s − i batches, counted from 0
//! (Narayanan et al., *PipeDream*, 2019, section 3.3). Of one whose micro-batches follow a schedule, it holds those of
//! all m with GPipe, and of min(s − i, m) with 1F1B (Narayanan et al., *Efficient Large-Scale Language Model
//! Training on GPU Clusters*, 2021, section 2.2). With v interleaved chunks, each a v-th of a stage, it holds those of
//! min(2 (s − i − 1) + (v − 1) s + 1, v m) passes on a chunk, and with ZB-H1 those of min(s, m) micro-batches, which
//! gradients of weights need too (Qi et al., *Zero Bubble Pipeline Parallelism*, 2024, section 2.3). What backward needs
//! only for a moment, and what an allocator loses between blocks, is left out.
//!
//! c ranks that split sequences have a c-th of the activations each, and all parameters. e model copies that hold
//! experts together have an e-th of the experts' parameters each; activations of experts grow with the tokens of
//! the busiest copy. t ranks that split tensors have a t-th of all of that each, but for activations that all of
//! them keep (Korthikanti et al., 2022, section 4.2); norms' few parameters, which all keep too, are counted as
//! split. Data parallel ranks that shard states have an equal part each of the optimizer's from stage 1 on, of
//! gradients from stage 2 on, and of parameters at stage 3 (Rajbhandari et al., section 5).

use crate::catalogue::{Model, Precision};

/// Models that learners share where they average theirs: the reference, the one before, and the sum of corrections
/// (Koliousis et al., *Crossbow*, PVLDB 12(11), 2019).
const SHARED_MODELS: f64 = 3.0;

/// What updates parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Optimizer {
    /// Gradients alone.
    Sgd,
    /// With a running mean of them.
    Momentum,
    /// With one of their squares too.
    Adam,
}

impl Optimizer {
    /// Values that it keeps for each parameter.
    fn values(self) -> f64 {
        match self {
            Optimizer::Sgd => 0.0,
            Optimizer::Momentum => 1.0,
            Optimizer::Adam => 2.0,
        }
    }
}

/// Part of a model that one GPU has.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Portion {
    /// Parameters.
    pub parameters: f64,
    /// Elements that forward leaves of each sample for backward.
    pub activations: f64,
    /// Those of them that every rank keeps where tensors are split.
    pub whole: f64,
    /// Those of the layer that leaves most.
    pub largest: f64,
    /// Results that ranks that split tensors add up in forward.
    pub reductions: u32,
    /// Attentions, whose keys and values ranks that split sequences send each other.
    pub attentions: u32,
    /// Parameters of experts.
    pub experts: f64,
    /// Activations of experts.
    pub expert_activations: f64,
    /// Those of them that every rank keeps where tensors are split.
    pub expert_whole: f64,
    /// Layers of experts, to which tokens are dispatched.
    pub dispatches: u32,
    /// Work of the forward pass on a sample [FLOP].
    pub flops: f64,
    /// That of experts [FLOP].
    pub expert_flops: f64,
}

impl Portion {
    /// The same with another part on the same GPU.
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

/// Over how many GPUs a part of a model is spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Ranks that split tensors.
    pub tensor: u32,
    /// Ranks that split sequences.
    pub context: u32,
    /// Model copies that hold all experts together.
    pub experts: u32,
    /// Tokens, in all layers, of the one whose experts have most of them ÷ their mean.
    pub busiest: f64,
    /// Data parallel ranks, and which of their states they shard: ZeRO's stage, 0 for none.
    pub ranks: u32,
    /// See above.
    pub zero: u32,
}

impl Spread {
    /// One GPU has all of it.
    pub const NONE: Spread =
        Spread { tensor: 1, context: 1, experts: 1, busiest: 1.0, ranks: 1, zero: 0 };

    /// Bytes that one rank keeps of what ranks shard from ZeRO's stage `stage` on; `experts` is the part of `all` that belongs to experts.
    fn part(&self, stage: u32, (all, experts): (f64, f64)) -> f64 {
        if self.zero >= stage {
            all / f64::from(self.ranks)
        } else {
            all - experts + experts / f64::from(self.experts)
        }
    }

    /// Parameters and the optimizer's values of a part of a model, of which each GPU has `held` and a share `experts` of which
    /// is experts'; every byte once.
    #[must_use]
    pub fn state(&self, held: &Footprint, experts: f64) -> State {
        let mut state = State::default();
        for (stage, held) in [(3, held.parameters), (1, held.optimizer)] {
            let all = f64::from(self.tensor) * held / self.part(stage, (1.0, experts));
            if self.zero >= stage {
                state.sharded += all;
            } else {
                state.experts += all * experts;
                state.whole += all * (1.0 - experts);
            }
        }
        state
    }
}

/// Bytes of a model's state, by which ranks hold them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct State {
    /// All data parallel ranks have it.
    pub whole: f64,
    /// Each of the model copies that hold experts together has a part of it.
    pub experts: f64,
    /// Data parallel ranks shard it.
    pub sharded: f64,
}

impl State {
    /// All of it, every byte once [B].
    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.whole + self.experts + self.sharded
    }
}

/// How it is trained.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Training {
    /// In which floats.
    pub precision: Precision,
    /// By what.
    pub optimizer: Optimizer,
    /// Samples of a batch.
    pub batch: u64,
    /// What libraries take beside [B].
    pub workspace: f64,
}

/// What a GPU holds [B].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Footprint {
    /// Parameters that are computed with.
    pub parameters: f64,
    /// Their gradients.
    pub gradients: f64,
    /// What the optimizer keeps, with weights in 32 bits where those above are shorter.
    pub optimizer: f64,
    /// Activations of all batches in progress.
    pub activations: f64,
    /// What learners that average their models share: the GPU's reference model, the one before that, and the sum of
    /// their corrections.
    pub averaging: f64,
    /// What libraries take.
    pub workspace: f64,
}

impl Footprint {
    /// All of it [B].
    #[must_use]
    pub fn total(&self) -> f64 {
        self.of_learner() + self.averaging + self.workspace
    }

    /// What each learner has for itself [B].
    fn of_learner(&self) -> f64 {
        self.parameters + self.gradients + self.optimizer + self.activations
    }

    /// The same with `learners` instead of one, which average their models or not.
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

    /// Most learners, each of which holds this, that fit into `capacity` [B].
    #[must_use]
    pub fn most_learners(&self, averages: bool, capacity: f64) -> u32 {
        let none = self.of_learners(0, averages).total();
        ((capacity - none) / self.of_learner()).floor().max(0.0) as u32
    }
}

impl Training {
    /// What a GPU with `portion` over `spread` holds while so many batches are in progress.
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

/// The parts of `model` on the stages of a pipeline, each of which takes a share of the step: layers go, in
/// order, to the stage in which the middle of their work falls. One part where there is one share.
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
