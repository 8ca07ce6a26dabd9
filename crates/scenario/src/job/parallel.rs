//! Settings of `[job.parallel]`: over how many GPUs a model is copied and split.
//!
//! - `tensor`: ranks that split each layer; `context`: ranks that split each sequence; `expert`: model copies that hold
//!   experts together; `method`: algorithm and fidelity of the collectives of all three; `zero`: data parallel ranks that
//!   shard their state; `groups`: groups of them with the same states;
//! - `parallelism`: how a step is spread over GPUs where its passes are simulated one by one; `schedule`: the order in
//!   which stages work on micro-batches; `placement`: which GPU holds which part of the model; `buckets`: the gradients
//!   of a stage; `swap`: bytes that do not fit into a GPU's memory; `state`: which rank writes which part of a
//!   checkpoint; `rules`: checks of all these settings.

mod buckets;
mod context;
mod expert;
mod groups;
mod method;
mod parallelism;
mod placement;
pub(super) mod rules;
mod schedule;
pub(super) mod state;
mod swap;
mod tensor;
pub(super) mod transfers;
mod zero;

use super::Pipeline;
use super::copies::CopiesSettings;
use super::learners::LearnersSettings;
use super::loaders::Loaders;
use crate::check::Check;
use crate::document::NodeId;
use crate::field::{Field, List};
use crate::number::{Amount, Count, Factor, Share};
use crate::role::Role;
use context::ContextSettings;
use expert::ExpertSettings;
use forebay_model::units::Size;
use schedule::ScheduleName;
use schemars::JsonSchema;
use tensor::TensorSettings;
use zero::ZeroSettings;

pub use buckets::{StageBucket, StageParameters};
pub use context::{Context, KeyExchange};
pub use expert::{Expert, Load};
pub use method::Method;
pub use parallelism::{Parallelism, StepOf};
pub use placement::{Copies, Members};
pub use schedule::{Pass, Schedule, Turn};
pub use state::RankPart;
pub use swap::Swap;
pub use tensor::Tensor;
pub use zero::Quantisation;

/// Share of a linear layer's backward time that computing the gradients of weights takes. Backward consists of two matrix
/// products of equal size, and this is one of them.
const LINEAR: f64 = 0.5;

/// How the model is spread over GPUs.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParallelSettings {
    /// Data parallel: copies of the model (default: one on each node).
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) data: Field<DataSettings>,
    /// Pipeline parallel: the model split over GPUs (default: not split).
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) pipeline: Field<PipelineSettings>,
    /// Tensor parallel: each layer split over GPUs (default: not split).
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) tensor: Field<TensorSettings>,
    /// Context parallel: each sequence split over GPUs (default: not split).
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) context: Field<ContextSettings>,
    /// Expert parallel: the experts of a mixture-of-experts model spread over model copies (default: each copy
    /// holds all experts).
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) expert: Field<ExpertSettings>,
    /// Sharding of optimizer state, gradients or parameters over data parallel ranks, as in ZeRO, instead of full copies on each
    /// rank (default: no sharding).
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) zero: Field<ZeroSettings>,
}

/// Copies of the model.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DataSettings {
    /// Model copies on each node: one number for all nodes, a list with a number for each node, such as `[4, 4, 2]`, or
    /// "gpus", as many as the GPUs of each node allow (default: 1).
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) copies_per_node: Field<CopiesSettings>,
    /// Learners on each GPU, which share it as `model.occupancy` says; each has a model, batches and steps of its own.
    /// A number, or `{ auto = {} }` for a policy that finds the number (default: 1).
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) learners: Field<LearnersSettings>,
    /// Where loaders run: "per-node", one loader and queue for all model copies of a node, or "per-rank", a loader with its own
    /// queue and the full number of workers for each model copy, as in each process of PyTorch's DDP or of Horovod. The keys of a
    /// loader count for one loader (default: "per-rank" with `dali`, otherwise "per-node").
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) loaders: Field<Loaders>,
}

/// The model split over consecutive stages, each on a GPU of its own: `stages` or `shares`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PipelineSettings {
    /// Number of equal stages.
    #[schemars(extend("x-role" = Role::Choice))]
    stages: Field<Count<1, 10_000>>,
    /// Share of the step time that each stage takes; the shares sum to 1.
    #[schemars(extend("x-role" = Role::Limit))]
    shares: Field<List<Factor>>,
    /// Whether stages work on different batches at once (default: true).
    #[schemars(extend("x-role" = Role::Choice))]
    overlap: Field<bool>,
    /// Bytes of activations that a stage sends to the next one for a whole batch, all micro-batches together. They go over
    /// `cluster.node.intra`, or between nodes over NICs (default: 0 B; with a `schedule` and a transformer of the catalogue, the bytes of its hidden states).
    #[schemars(extend("x-role" = Role::Limit))]
    activations: Field<Amount<Size>>,
    /// Order in which stages work on micro-batches, whose forward and backward passes are then simulated one by one:
    /// "gpipe", all forward passes first; "1f1b", one backward pass after each forward pass as soon as possible;
    /// "interleaved-1f1b", 1F1B with several `chunks` on each stage; "zb-h1", 1F1B whose gradients of weights are
    /// deferred into bubbles; or "zb-v", which also has two chunks on each stage, with both ends of the model on the first
    /// (default: a batch is one piece in each stage).
    #[schemars(extend("x-role" = Role::Choice))]
    schedule: Field<ScheduleName>,
    /// With a `schedule`: number of micro-batches that each batch is cut into.
    #[schemars(extend("x-role" = Role::Choice))]
    micro_batches: Field<Count<1, 100_000>>,
    /// With "interleaved-1f1b": chunks of the model on each stage, Megatron-LM's virtual stages. Stage i of p has the
    /// model's chunks i, i + p, …, and `micro_batches` must be a multiple of p.
    #[schemars(extend("x-role" = Role::Choice))]
    chunks: Field<Count<2, 100>>,
    /// With "zb-h1" and "zb-v": share of the backward time that gradients of weights take. In linear layers this is one of two
    /// equal matrix products; in a transformer's blocks it is 24 h ÷ (48 h + 8 s), for hidden size h and sequences of length s
    /// (Qi et al. 2024, table 1) (default: 0.5).
    #[schemars(extend("x-role" = Role::Identity))]
    weight_gradients: Field<Share>,
    /// With a `schedule`: number of stages of a model copy on each node (default: all of a model copy are on one).
    #[schemars(extend("x-role" = Role::Choice))]
    stages_per_node: Field<Count<1, 10_000>>,
}

impl ParallelSettings {
    /// Returns the settings of the pipeline, if it has a schedule, to change them.
    pub(super) fn pipeline_mut(&mut self) -> Option<&mut PipelineSettings> {
        self.pipeline.value.as_mut().filter(|of| of.schedule.is_written())
    }
}

impl PipelineSettings {
    /// Sets the schedule, and `chunks` if it needs them; keeps `weight_gradients` as written.
    pub(super) fn write(&mut self, schedule: Schedule) {
        let name = match schedule {
            Schedule::Gpipe => ScheduleName::Gpipe,
            Schedule::OneForwardOneBackward => ScheduleName::OneForwardOneBackward,
            Schedule::Interleaved { .. } => ScheduleName::Interleaved,
            Schedule::ZeroBubble { .. } => ScheduleName::ZeroBubble,
            Schedule::VShaped { .. } => ScheduleName::VShaped,
        };
        self.schedule.value = Some(name);
        if let Schedule::Interleaved { chunks } = schedule {
            // `is_written` asks for a place in the file: `chunks` gets that of `schedule`.
            self.chunks = Field { at: self.schedule.at, value: Some(Count(chunks.into())) };
        }
    }

    /// Returns the number of stages.
    pub(super) fn number(&self) -> u32 {
        let shares = self.shares.get().map(|list| list.0.len() as u32);
        self.stages.get().map(|stages| stages.small()).or(shares).unwrap_or(1).max(1)
    }

    /// Returns the checked pipeline of the table at document node `at`; `None` if it is wrong.
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Pipeline> {
        self.remark(check, at);
        let choices = [("stages", self.stages.at), ("shares", self.shares.at)];
        let remedy = "write `stages = 4` or `shares = [0.5, 0.5]`";
        let overlap = !self.schedule.is_written() && self.overlap.get().copied().unwrap_or(true);
        let activations = self.activations.get().map_or(0.0, |size| size.0);
        if check.one_of(at, &choices, remedy)? == 0 {
            let stages = self.stages.get()?.small();
            let shares = vec![1.0 / f64::from(stages); stages as usize];
            return Some(Pipeline { shares, overlap, activations });
        }
        let (at, list) = self.shares.given()?;
        let shares: Vec<f64> =
            list.0.iter().map(|share| Some(share.get()?.0)).collect::<Option<_>>()?;
        let sum: f64 = shares.iter().sum();
        if (sum - 1.0).abs() > 1e-6 {
            check.wrong(
                at,
                format!("the shares sum to {sum}, not to 1"),
                "write shares that sum to 1",
            );
            return None;
        }
        let shares = shares.iter().map(|share| share / sum).collect();
        Some(Pipeline { shares, overlap, activations })
    }

    /// Checks that the keys that a schedule requires are set, and remarks on keys that have no effect.
    fn remark(&self, check: Check<'_>, at: NodeId) {
        if self.schedule.is_written() {
            let remedy = "write `micro_batches = 8`";
            check.required(at, &self.micro_batches, "micro_batches", remedy);
            check.no_effect(self.overlap.at, "`schedule` decides which stages overlap");
            self.remark_schedule(check, at);
        } else {
            let why = "no `schedule` is written";
            check.no_effect(self.micro_batches.at, why);
            check.no_effect(self.stages_per_node.at, why);
            check.no_effect(self.chunks.at, why);
            check.no_effect(self.weight_gradients.at, why);
        }
    }

    /// Checks that the keys of the chosen schedule are set, and remarks on keys that belong to other schedules.
    fn remark_schedule(&self, check: Check<'_>, at: NodeId) {
        let written = self.schedule.get().copied();
        match written {
            Some(ScheduleName::Interleaved) => {
                check.required(at, &self.chunks, "chunks", "write `chunks = 2`");
            }
            Some(ScheduleName::VShaped) => {
                check.no_effect(self.chunks.at, "stages of \"zb-v\" have two chunks");
            }
            _ => {
                let why = "only stages of \"interleaved-1f1b\" have several chunks";
                check.no_effect(self.chunks.at, why);
            }
        }
        if !matches!(written, Some(ScheduleName::ZeroBubble | ScheduleName::VShaped)) {
            let why = "only \"zb-h1\" and \"zb-v\" compute weight gradients in a pass of their own";
            check.no_effect(self.weight_gradients.at, why);
        }
    }

    /// Returns the schedule with its settings; `None` if no schedule is set.
    fn schedule(&self) -> Option<Schedule> {
        let weights = self.weight_gradients.get().map_or(LINEAR, |share| share.0);
        Some(match self.schedule.get()? {
            ScheduleName::Gpipe => Schedule::Gpipe,
            ScheduleName::OneForwardOneBackward => Schedule::OneForwardOneBackward,
            ScheduleName::Interleaved => Schedule::Interleaved {
                chunks: self.chunks.get().map_or(1, |chunks| chunks.small()),
            },
            ScheduleName::ZeroBubble => Schedule::ZeroBubble { weights },
            ScheduleName::VShaped => Schedule::VShaped { weights },
        })
    }

    /// Returns the number of stages of a model copy on each node.
    fn on_node(&self) -> u32 {
        let each = self.stages_per_node.get().filter(|_| self.schedule.is_written());
        each.map_or(self.number(), |each| each.small())
    }
}
