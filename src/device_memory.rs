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
//! c ranks that split sequences have a c-th of the activations each, and all parameters. t ranks that split tensors have a t-th of all of that each, but for activations that all of them keep
//! (Korthikanti et al., 2022, section 4.2); norms' few parameters, which all keep too, are counted as split. Data
//! parallel ranks that shard states have an equal part each of the optimizer's from stage 1 on, of gradients from
//! stage 2 on, and of parameters at stage 3 (Rajbhandari et al., section 5).

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
    }
}

/// Over how many GPUs a part of a model is spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// Ranks that split tensors.
    pub tensor: u32,
    /// Ranks that split sequences.
    pub context: u32,
    /// Data parallel ranks, and which of their states they shard: ZeRO's stage, 0 for none.
    pub ranks: u32,
    /// See above.
    pub zero: u32,
}

impl Spread {
    /// One GPU has all of it.
    pub const NONE: Spread = Spread { tensor: 1, context: 1, ranks: 1, zero: 0 };

    /// Of what data parallel ranks share from `stage` on, the part that one has.
    fn part(&self, stage: u32) -> f64 {
        if self.zero >= stage { 1.0 / f64::from(self.ranks) } else { 1.0 }
    }

    /// Parameters and the optimizer's values of a part of a model, of which each GPU has `held`, every byte once: what
    /// all data parallel ranks have, and what they shard [B].
    #[must_use]
    pub fn state(&self, held: &Footprint) -> (f64, f64) {
        let (tensor, ranks) = (f64::from(self.tensor), f64::from(self.ranks));
        let states = [(3, tensor * held.parameters), (1, tensor * held.optimizer)];
        let (sharded, whole): (Vec<_>, Vec<_>) =
            states.into_iter().partition(|(stage, _)| self.zero >= *stage);
        let sum = |of: Vec<(u32, f64)>| of.iter().map(|(_, bytes)| bytes).sum::<f64>();
        (sum(whole), ranks * sum(sharded))
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
        let parameters = portion.parameters / ranks;
        let activations = portion.whole + (portion.activations - portion.whole) / ranks;
        let activations = activations / f64::from(spread.context);
        let bytes = self.precision.bytes();
        let weights = if bytes < 4.0 { 1.0 } else { 0.0 };
        Footprint {
            parameters: bytes * parameters * spread.part(3),
            gradients: bytes * parameters * spread.part(2),
            optimizer: 4.0 * (weights + self.optimizer.values()) * parameters * spread.part(1),
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
        done += flops;
    }
    portions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::model;

    const MIB: f64 = 1_048_576.0;

    fn training(precision: Precision, optimizer: Optimizer, batch: u64) -> Training {
        Training { precision, optimizer, batch, workspace: 0.0 }
    }

    fn whole(name: &str, training: &Training) -> Footprint {
        let model = model(name).expect("known");
        training.footprint(&portions(&model, &[1.0])[0], 1.0, &Spread::NONE)
    }

    #[test]
    fn footprints_are_the_published_ones() {
        // MMAction2's model zoo, column gpu_mem (torch.cuda.max_memory_allocated, MiB), SGD with momentum in 32
        // bits: configs/recognition/tsn/tsn_r50_1x1x3_100e_kinetics400_rgb, 32 clips of 3 images on a GPU,
        // tsn_r50_video_1x1x8_100e_kinetics400_rgb, 32 of 8, tsn_r101_1x1x5_50e_mmit_rgb, 16 of 5, and
        // tsm/tsm_mobilenetv2_dense_1x1x8_100e_kinetics400_rgb, 8 of 8.
        let momentum = Optimizer::Momentum;
        for (name, images, published) in [
            ("resnet50", 96, 8344.0),
            ("resnet50", 256, 21_558.0),
            ("resnet101", 80, 10_467.0),
            ("mobilenetv2", 64, 3385.0),
        ] {
            let found = whole(name, &training(Precision::Fp32, momentum, images)).total() / MIB;
            assert!((found / published - 1.0).abs() < 0.1, "{name}: {found}, not {published} MiB");
        }
        // Hugging Face, "Model training anatomy" and "Methods and tools for efficient training on a single GPU":
        // BERT-large, sequences of 512 tokens, AdamW in 32 bits, batch 1: 8681 MiB in nvidia-smi, of which 1343 are the
        // context and kernels. (Batch 4: 14,949 MiB, of which 84 % are told: an allocator's blocks are no footprint.)
        let bert =
            Training { workspace: 1343.0 * MIB, ..training(Precision::Fp32, Optimizer::Adam, 1) };
        let found = whole("bert-large", &bert).total() / MIB;
        assert!((found / 8681.0 - 1.0).abs() < 0.1, "bert-large: {found}, not 8681 MiB");
        // ZeRO, section 3.1: the states of GPT-2 with 1.5 G parameters take at least 24 GB.
        let states = whole("gpt2-xl", &training(Precision::Fp16, Optimizer::Adam, 0)).total();
        assert!((states / 24e9 - 1.0).abs() < 0.1, "gpt2-xl: {states} B, not 24 GB");
    }

    #[test]
    fn each_part_is_what_the_table_says() {
        let portion = Portion { parameters: 10.0, activations: 6.0, ..Portion::default() };
        let of = |precision, optimizer| {
            let training = training(precision, optimizer, 3);
            let made = training.footprint(&portion, 2.0, &Spread::NONE);
            [made.parameters, made.gradients, made.optimizer, made.activations]
        };
        assert_eq!(of(Precision::Fp32, Optimizer::Sgd), [40.0, 40.0, 0.0, 144.0]);
        assert_eq!(of(Precision::Tf32, Optimizer::Momentum), [40.0, 40.0, 40.0, 144.0]);
        assert_eq!(of(Precision::Bf16, Optimizer::Sgd), [20.0, 20.0, 40.0, 72.0]);
        assert_eq!(of(Precision::Fp16, Optimizer::Adam), [20.0, 20.0, 120.0, 72.0]);
    }

    #[test]
    fn shards_of_states_are_the_published_ones() {
        // ZeRO, figure 1: 7.5 G parameters on 64 ranks, Adam in mixed precision: 120, 31.4, 16.6 and 1.9 GB.
        let portion = Portion { parameters: 7.5e9, ..Portion::default() };
        let training = training(Precision::Fp16, Optimizer::Adam, 1);
        for (zero, published) in [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.9)] {
            let spread = Spread { ranks: 64, zero, ..Spread::NONE };
            let found = training.footprint(&portion, 1.0, &spread).total() / 1e9;
            assert!((found - published).abs() < 0.05, "stage {zero}: {found}, not {published} GB");
        }
    }

    #[test]
    fn a_state_is_the_same_however_it_is_spread() {
        // System: 1,000 parameters with Adam in mixed precision: 2 and 12 bytes each. Expectation: 14,000 bytes on any
        // GPUs, of which ranks shard the optimizer's from stage 1 on, and all at stage 3.
        let portion = Portion { parameters: 1000.0, ..Portion::default() };
        let training = training(Precision::Fp16, Optimizer::Adam, 1);
        for (tensor, ranks) in [(1, 1), (4, 1), (1, 8), (2, 4)] {
            for (zero, sharded) in [(0, 0.0), (1, 12e3), (2, 12e3), (3, 14e3)] {
                let spread = Spread { tensor, ranks, zero, ..Spread::NONE };
                let found = spread.state(&training.footprint(&portion, 1.0, &spread));
                assert_eq!(found, (14e3 - sharded, sharded), "{spread:?}");
            }
        }
    }

    #[test]
    fn ranks_that_split_tensors_share_what_they_do_not_all_keep() {
        // Korthikanti et al., section 4.2: s·b·h·(10 + 24/t + 5·a·s/(h·t)) bytes of a block, less dropout's masks,
        // 2·s·h + a·s²/t. GPT-3: 96 blocks of 12,288 values and 96 heads, 2048 tokens; t = 8.
        let model = model("gpt3-175b").expect("known");
        let (s, h, a, t) = (2048.0, 12_288.0, 96.0, 8.0);
        let block = s * h * (10.0 + 24.0 / t + 5.0 * a * s / (h * t)) - 2.0 * s * h - a * s * s / t;
        let portion = portions(&model, &[1.0])[0];
        let spread = Spread { tensor: 8, ..Spread::NONE };
        let training = training(Precision::Bf16, Optimizer::Adam, 1);
        let found = training.footprint(&portion, 1.0, &spread);
        let off = found.activations / (96.0 * block) - 1.0;
        assert!(
            (0.0..0.01).contains(&off),
            "{off}: beside blocks there are little more than logits"
        );
        assert_eq!(portion.reductions, 2 * 96);
        let one = training.footprint(&portion, 1.0, &Spread::NONE);
        assert_eq!(found.parameters, one.parameters / 8.0);
        assert_eq!(found.optimizer, one.optimizer / 8.0);
    }

    #[test]
    fn a_gpu_holds_all_experts_and_what_those_taken_leave() {
        // System: Mixtral 8x7B, 46,702,792,704 parameters; Adam in mixed precision, one sequence. Expectation: 16 bytes for
        // each parameter, and two bytes for each element that the catalogue counts. A sum after attention and one after
        // experts in each of 32 blocks.
        let mixtral = model("mixtral-8x7b").expect("known");
        let held = whole("mixtral-8x7b", &training(Precision::Bf16, Optimizer::Adam, 1));
        assert_eq!(held.parameters + held.gradients + held.optimizer, 16.0 * 46_702_792_704.0);
        let elements = mixtral.activations() + mixtral.input.elements();
        assert_eq!(held.activations, 2.0 * elements as f64);
        assert_eq!(portions(&mixtral, &[1.0])[0].reductions, 2 * 32);
    }

    #[test]
    fn stages_have_every_layer_once() {
        // System: GPT-2 on four stages. Expectation: what all have is the model, each about a quarter of its blocks.
        let model = model("gpt2").expect("known");
        let [one, four] = [&[1.0][..], &[0.25; 4]].map(|shares| portions(&model, shares));
        let sum = |of: fn(&Portion) -> f64| four.iter().map(of).sum::<f64>();
        assert_eq!(sum(|p| p.parameters), one[0].parameters);
        assert_eq!(sum(|p| p.activations), one[0].activations);
        assert_eq!(one[0].parameters, 124_439_808.0);
        for stage in &four[1..3] {
            let share = stage.activations / one[0].activations;
            assert!((0.15..0.3).contains(&share), "{share}");
        }
        // A stage that takes all leaves nothing to those after it.
        assert_eq!(portions(&model, &[1.0, 0.0])[1], Portion::default());
    }
}
