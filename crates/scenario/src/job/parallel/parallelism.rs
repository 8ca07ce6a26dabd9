//! How a step is spread over GPUs, where its forward and backward passes are simulated one by one.

use super::context::Context;
use super::expert::Expert;
use super::groups::GroupSettings;
use super::schedule::Schedule;
use super::swap::Swap;
use super::tensor::Tensor;
use super::zero::{Quantisation, ZeroSettings};
use super::{ParallelSettings, PipelineSettings};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::job::model::ModelSettings;
use crate::job::settings::JobSettings;
use crate::job::{Job, Pipeline};
use forebay_model::device_memory::{Spread, portions};
use forebay_model::law::StepLaw;
use schemars::JsonSchema;

/// Whether a step time is the time of a whole batch or of one micro-batch, where a batch is cut into micro-batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepOf {
    /// The whole batch of a model copy: each of m micro-batches takes an m-th of the time.
    #[default]
    Batch,
    /// One micro-batch, as a function of its samples.
    MicroBatch,
}

impl StepOf {
    /// Returns the time of one of the `micro_batches` micro-batches that `batch` samples are cut into [s].
    #[must_use]
    pub fn micro_batch(self, law: &StepLaw, batch: f64, micro_batches: f64) -> f64 {
        match self {
            Self::Batch => law.seconds(batch) / micro_batches,
            Self::MicroBatch => law.seconds(batch / micro_batches),
        }
    }
}

/// How a step of a model copy is spread over GPUs, where its forward and backward passes are simulated one by one.
#[derive(Debug, Clone, PartialEq)]
pub struct Parallelism {
    /// Order in which stages work on micro-batches.
    pub schedule: Schedule,
    /// Micro-batches of each batch.
    pub micro_batches: u32,
    /// Whether the job's step time is the time of the whole batch or of one micro-batch.
    pub step_of: StepOf,
    /// Share of a step's time that the forward pass takes.
    pub forward: f64,
    /// Activations that a stage sends to the next one for each batch; as many bytes come back as gradients [B].
    pub activations: f64,
    /// Number of GPUs of a model copy on each node; nodes are filled in the order of the stages.
    pub gpus_per_node: u32,
    /// Ranks that split each layer, if any.
    pub tensor: Option<Tensor>,
    /// Ranks that split each sequence, if any.
    pub context: Option<Context>,
    /// Model copies that hold experts together, if any.
    pub expert: Option<Expert>,
    /// Stage of ZeRO, which says what data parallel ranks shard; 0 if they shard nothing.
    pub zero: u32,
    /// Number of model copies whose ranks shard states among themselves, where not all of them do.
    pub shard_copies: Option<u32>,
    /// Number of model copies whose ranks shard a second copy of the parameters, from which backward gathers, if they do.
    pub secondary_copies: Option<u32>,
    /// Quantisation of the parameters that data parallel ranks gather, if any.
    pub quantised: Option<Quantisation>,
    /// Share of the parameters that each chunk of the model has, in the model's order.
    pub weights: Vec<f64>,
    /// For each stage, the bytes that do not fit on its GPU and are kept in the node's memory; empty if everything
    /// fits.
    pub swap: Vec<Swap>,
}

impl Parallelism {
    /// Returns the number of ranks that split each layer.
    #[must_use]
    pub fn tensor_ranks(&self) -> u32 {
        self.tensor.as_ref().map_or(1, |tensor| tensor.ranks)
    }

    /// Returns the number of ranks that split each sequence.
    #[must_use]
    pub fn context_ranks(&self) -> u32 {
        self.context.as_ref().map_or(1, |context| context.ranks)
    }

    /// Returns the number of model copies that hold all experts together.
    #[must_use]
    pub fn expert_ranks(&self) -> u32 {
        self.expert.as_ref().map_or(1, |expert| expert.ranks)
    }

    /// Returns the number of GPUs of a stage of a model copy.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.tensor_ranks().saturating_mul(self.context_ranks())
    }

    /// Returns the largest share of the batch whose activations stage number `stage` holds at once.
    pub(crate) fn in_progress(&self, stage: u32, stages: u32) -> f64 {
        let most = self.schedule.in_progress(stage, stages, self.micro_batches);
        f64::from(most) / f64::from(self.micro_batches) / f64::from(self.schedule.chunks())
    }

    /// Returns the positions in the model of the chunks of stage number `stage`.
    fn positions(&self, stage: usize) -> impl Iterator<Item = usize> {
        self.schedule.positions(stage, self.stages())
    }

    /// Returns the share of the parameters that stage number `stage` has, in all its chunks.
    pub(crate) fn weight(&self, stage: usize) -> f64 {
        self.positions(stage).map(|position| self.weights[position]).sum()
    }

    /// Returns the share of the parameters of stage number `stage` that its chunk number `chunk` has.
    #[must_use]
    pub fn weight_of_chunk(&self, stage: usize, chunk: usize) -> f64 {
        let all = self.weight(stage);
        if all > 0.0 {
            self.weights[self.schedule.position(stage, self.stages(), chunk)] / all
        } else {
            1.0 / f64::from(self.schedule.chunks())
        }
    }

    /// Returns the share of the model's parameters that each GPU of stage number `stage` holds.
    #[must_use]
    pub fn share_of_gpu(&self, stage: usize) -> f64 {
        let experts = self.experts_of(stage);
        let held = 1.0 - experts + experts / f64::from(self.expert_ranks());
        self.weight(stage) * held / f64::from(self.tensor_ranks())
    }

    /// Returns the share of the parameters of stage number `stage` that belongs to experts.
    #[must_use]
    pub fn experts_of(&self, stage: usize) -> f64 {
        let Some(expert) = &self.expert else { return 0.0 };
        let shares = self.positions(stage).map(|position| expert.parameters[position]);
        let of = |(chunk, share)| self.weight_of_chunk(stage, chunk) * share;
        shares.enumerate().map(of).sum()
    }

    /// Returns the number of stages of a model copy.
    pub(crate) fn stages(&self) -> usize {
        self.weights.len() / self.schedule.chunks() as usize
    }

    /// Returns the number of ranks of each kind of parallelism, over which the model's memory is divided, for a job with
    /// `ranks` model copies.
    pub(crate) fn spread(&self, ranks: u32) -> Spread {
        Spread {
            tensor: self.tensor_ranks(),
            context: self.context_ranks(),
            experts: self.expert_ranks(),
            busiest: self.expert.as_ref().map_or(1.0, |expert| expert.most_in_all()),
            ranks: self.sharding_copies(ranks).saturating_mul(self.context_ranks()),
            secondary: self.secondary_copies.map_or(0, |copies| copies * self.context_ranks()),
            zero: self.zero,
        }
    }

    /// Returns the pipeline bubble: the share of time that equal stages wait for each other, if nothing else holds them
    /// up.
    #[must_use]
    pub fn bubble(&self) -> f64 {
        self.schedule.bubble(self.stages() as u32, self.micro_batches, self.forward)
    }
}

impl Job {
    /// Returns whether a model copy is split over stages or GPUs, or its passes are simulated one by one.
    #[must_use]
    pub fn is_split(&self) -> bool {
        self.pipeline.is_some() || self.parallelism.is_some()
    }

    /// Returns the time of a step of one model copy over its whole batch on one device, before jitter [s].
    #[must_use]
    pub fn step_seconds(&self) -> f64 {
        let (of, micro) = self
            .parallelism
            .as_ref()
            .map_or((StepOf::Batch, 1.0), |of| (of.step_of, f64::from(of.micro_batches)));
        of.micro_batch(&self.step.law(), self.batch as f64, micro) * micro
    }

    /// Returns the share of a step's time that each stage takes.
    #[must_use]
    pub fn shares(&self) -> &[f64] {
        self.pipeline.as_ref().map_or(&[1.0], |pipeline| &pipeline.shares)
    }
}

impl JobSettings {
    /// Returns how a step is spread over GPUs; `None` if no setting asks to simulate its passes one by one. There are `copies`
    /// model copies, `on_node` of them on a node.
    pub(crate) fn parallelism(
        &self,
        check: Check<'_>,
        pipeline: Option<&Pipeline>,
        batch: u64,
        (on_node, copies): (u32, u32),
    ) -> Option<Parallelism> {
        let none = ParallelSettings::default();
        let parallel = self.parallel.get().unwrap_or(&none);
        let model = self.model.get();
        let out_of_core = model.is_some_and(|model| model.out_of_core.get() == Some(&true));
        let scheduled = parallel.pipeline.given().filter(|(_, of)| of.schedule.is_written());
        let others =
            [parallel.tensor.at, parallel.context.at, parallel.expert.at, parallel.zero.at];
        if scheduled.is_none() && others.iter().all(Option::is_none) && !out_of_core {
            return None;
        }
        if let (None, Some((at, _))) = (scheduled, parallel.pipeline.given()) {
            refuse_unscheduled(check, at);
        }
        let settings = scheduled.map(|(_, settings)| settings);
        let schedule = settings.and_then(PipelineSettings::schedule).unwrap_or(Schedule::Gpipe);
        let stages = pipeline.map_or(&[1.0][..], |pipeline| &pipeline.shares);
        let (shares, batch) = (schedule.chunk_shares(stages), batch as f64);
        let tensor = match parallel.tensor.given() {
            Some((at, tensor)) => Some(tensor.resolve(check, at, model, (&shares, batch))?),
            None => None,
        };
        let context = match parallel.context.given() {
            Some((at, context)) => Some(context.resolve(check, at, model, (&shares, batch))?),
            None => None,
        };
        let expert = match parallel.expert.given() {
            Some((at, expert)) => Some(expert.resolve(check, at, model, (&shares, batch))?),
            None => None,
        };
        let zero = parallel.zero.get();
        // If the stage is missing or wrong, stage 3 stands in for it, so that other errors are reported too.
        let stage = parallel.zero.given().map_or(0, |(at, zero)| {
            let stage = check.required(at, &zero.stage, "stage", "write `stage = 3`");
            stage.map_or(3, |stage| stage.small())
        });
        let context_ranks = context.as_ref().map_or(1, |context| context.ranks);
        let group = |key: fn(&ZeroSettings) -> &Field<GroupSettings>| {
            zero.and_then(|zero| key(zero).get()?.copies(on_node, context_ranks))
        };
        let shard_copies = group(|zero| &zero.groups).filter(|of| *of < copies);
        let sharing = shard_copies.unwrap_or(copies);
        let secondary_copies = group(|zero| &zero.secondary).filter(|of| *of < sharing);
        let hidden = model.and_then(ModelSettings::hidden_bytes).unwrap_or(0.0) * batch;
        let written = settings.and_then(|of| of.activations.get());
        Some(Parallelism {
            schedule,
            micro_batches: settings.and_then(|of| of.micro_batches.get()).map_or(1, |m| m.small()),
            step_of: model.map_or(StepOf::default(), ModelSettings::step_of),
            forward: model.map_or(1.0 / 3.0, ModelSettings::forward),
            activations: written.map_or(hidden, |size| size.0),
            gpus_per_node: self.gpus_per_node(),
            tensor,
            context,
            expert,
            zero: stage,
            shard_copies,
            secondary_copies,
            quantised: zero.and_then(|zero| zero.quantisation(check)),
            weights: weights(model, &shares),
            swap: Vec::new(),
        })
    }

    /// Returns whether data parallel ranks keep only shards of gradients (ZeRO's stages 2 and 3).
    pub(crate) fn shards_gradients(&self) -> bool {
        let zero = self.parallel.get().and_then(|parallel| parallel.zero.get());
        zero.and_then(|zero| zero.stage.get()).is_some_and(|stage| stage.small() >= 2)
    }

    /// Returns the number of nodes that a model copy is on.
    pub(crate) fn nodes_per_copy(&self) -> u32 {
        self.stages().saturating_mul(self.ranks_of_stage()).div_ceil(self.gpus_per_node())
    }

    /// Returns the number of GPUs of a model copy on each node: `ranks_per_node` if it is set, so that a stage may be on
    /// several nodes; otherwise the GPUs of the stages that share a node.
    fn gpus_per_node(&self) -> u32 {
        let parallel = self.parallel.get();
        let ranks = parallel.and_then(|parallel| parallel.tensor.get()?.ranks_per_node.get());
        let pipeline = parallel.and_then(|parallel| parallel.pipeline.get());
        let stages = pipeline.map_or(1, PipelineSettings::on_node);
        ranks.map_or(stages.saturating_mul(self.ranks_of_stage()), |ranks| ranks.small()).max(1)
    }

    /// Returns the number of GPUs of a stage of a model copy: tensor parallel ranks × context parallel ranks.
    pub(crate) fn ranks_of_stage(&self) -> u32 {
        let tensor = self.parallel.get().and_then(|parallel| parallel.tensor.get());
        let tensor = tensor.and_then(|tensor| tensor.ranks.get()).map_or(1, |ranks| ranks.small());
        tensor.saturating_mul(self.context_ranks())
    }

    /// Returns the number of ranks that split each sequence.
    pub(crate) fn context_ranks(&self) -> u32 {
        let context = self.parallel.get().and_then(|parallel| parallel.context.get());
        context.and_then(|context| context.ranks.get()).map_or(1, |ranks| ranks.small())
    }
}

fn refuse_unscheduled(check: Check<'_>, at: NodeId) {
    let what = "a `pipeline` without a `schedule` has one GPU for each stage and no forward and backward passes, which \
                `tensor`, `context`, `expert`, `zero` and `out_of_core` divide";
    check.wrong(at, what, "write `schedule = \"1f1b\"` and `micro_batches = 8`");
}

/// Returns the share of the parameters that each chunk of the model has; the chunk's share of the time if the
/// parameters are not known.
fn weights(model: Option<&ModelSettings>, shares: &[f64]) -> Vec<f64> {
    let Some(model) = model.and_then(ModelSettings::known) else { return shares.to_vec() };
    let all = (model.parameters() as f64).max(1.0);
    portions(&model, shares).iter().map(|part| part.parameters / all).collect()
}

impl Job {
    /// Returns the bytes that each GPU of a stage holds of a model of `bytes` bytes, by stage [B].
    #[must_use]
    pub fn model_on_each_gpu(&self, bytes: f64) -> Vec<f64> {
        match &self.parallelism {
            Some(of) => (0..of.stages()).map(|stage| bytes * of.share_of_gpu(stage)).collect(),
            None => vec![bytes],
        }
    }
}
