//! GPU memory that a job's model takes, and checks that it fits.

use super::model::ModelSettings;
use super::rules::Rules;
use super::{Device, Job, Parallelism, Pipeline, Schedule};
use crate::Node;
use crate::check::Check;
use crate::field::Field;
use crate::fitting::{TooLarge, size};
use crate::number::{Amount, Positive};
use crate::role::Role;
use forebay_model::catalogue::Precision;
use forebay_model::device_memory::{Footprint, Optimizer, Portion, Spread, Training, portions};
use forebay_model::units::Size;
use schemars::JsonSchema;
use serde::Deserialize;

/// GPU memory that training takes.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemorySettings {
    /// Bytes of all parameters in 32 bits (default: those of the catalogue's model).
    #[schemars(extend("x-role" = Role::Identity))]
    parameters: Field<Positive<Size>>,
    /// Bytes of activations that a sample's forward pass leaves for backward (default: those of the
    /// catalogue's model).
    #[schemars(extend("x-role" = Role::Identity))]
    activations: Field<Amount<Size>>,
    /// Bytes that libraries and the device's context take in addition (default: 0 B).
    #[schemars(extend("x-role" = Role::Identity))]
    workspace: Field<Amount<Size>>,
}

impl Job {
    /// Returns the memory footprint of the stage whose GPUs hold the most bytes; `None` if the model's memory is not
    /// known.
    #[must_use]
    pub fn footprint(&self) -> Option<Footprint> {
        let fuller = |a: &&Footprint, b: &&Footprint| a.total().total_cmp(&b.total());
        self.footprints.iter().max_by(fuller).copied()
    }
}

impl ModelSettings {
    /// Returns the memory footprint of a GPU of each stage; empty if the steps run on cores, or the model's memory is
    /// not known.
    pub(super) fn footprints(
        &self,
        check: Check<'_>,
        device: Device,
        batch: u64,
        ((pipeline, parallelism), spread): ((Option<&Pipeline>, Option<&Parallelism>), Spread),
    ) -> Vec<Footprint> {
        if device != Device::Accelerator {
            self.remark_memory(check, "the steps run on cores");
            return Vec::new();
        }
        let shares = pipeline.map_or(&[1.0][..], |pipeline| &pipeline.shares);
        let overlap = pipeline.is_some_and(|pipeline| pipeline.overlap);
        let schedule = parallelism.map_or(Schedule::Gpipe, |of| of.schedule);
        let Some(mut chunks) = self.portions(check, &schedule.chunk_shares(shares)) else {
            return Vec::new();
        };
        if let Some(expert) = parallelism.and_then(|of| of.expert.as_ref()) {
            for (part, share) in chunks.iter_mut().zip(&expert.parameters) {
                part.experts = share * part.parameters;
            }
        }
        let portions = of_stages(&chunks, schedule, shares.len());
        let none = MemorySettings::default();
        let memory = self.memory.get().unwrap_or(&none);
        let training = Training {
            precision: self.precision(),
            optimizer: self.optimizer.get().copied().unwrap_or(Optimizer::Momentum),
            batch,
            workspace: memory.workspace.get().map_or(0.0, |size| size.0),
        };
        let stages = portions.len() as u32;
        let batches = |stage: u32| match parallelism {
            Some(of) => of.in_progress(stage, stages),
            None if overlap => f64::from(stages - stage),
            None => 1.0,
        };
        let of = |(i, part): (u32, &Portion)| training.footprint(part, batches(i), &spread);
        (0..).zip(&portions).map(of).collect()
    }

    /// Returns the bytes of all parameters in the model's precision; `None` if they are not known.
    pub(super) fn parameter_bytes(&self) -> Option<f64> {
        let written = self.memory.get().and_then(|memory| memory.parameters.get());
        let elements = match written {
            Some(size) => size.0 / 4.0,
            None => self.known()?.parameters() as f64,
        };
        Some(elements * self.precision().bytes())
    }

    /// Returns the memory of each chunk of the model, given the share of a step that each chunk takes; `None` if the
    /// model's memory is not known.
    fn portions(&self, check: Check<'_>, shares: &[f64]) -> Option<Vec<Portion>> {
        let known = self.known();
        let Some((at, memory)) = self.memory.given() else {
            if known.is_none() && !self.memory.is_written() {
                self.remark_memory(check, "how much GPU memory the model needs is not known");
            }
            return known.map(|model| portions(&model, shares));
        };
        if known.is_none() {
            check.required(at, &memory.parameters, "parameters", "write `parameters = \"102 MB\"`");
            let remedy = "write `activations = \"89 MB\"`, for each sample";
            check.required(at, &memory.activations, "activations", remedy);
        }
        let parameters = memory.parameters.get().map(|size| size.0 / 4.0);
        let elements = memory.activations.get().map(|size| size.0 / self.precision().bytes());
        let of_catalogue = known.map(|model| portions(&model, shares));
        let mut all = of_catalogue.unwrap_or_else(|| vec![Portion::default(); shares.len()]);
        for (part, share) in all.iter_mut().zip(shares) {
            part.parameters = parameters.map_or(part.parameters, |all| all * share);
            if let Some(all) = elements {
                let before = part.activations.max(1.0);
                part.activations = all * share;
                part.whole *= part.activations / before;
                part.expert_activations *= part.activations / before;
                part.expert_whole *= part.activations / before;
            }
        }
        Some(all)
    }

    fn remark_memory(&self, check: Check<'_>, why: &str) {
        check.no_effect(self.optimizer.at, why);
        check.no_effect(self.memory.at, why);
        if !self.efficiency.is_written() && self.known().is_none() {
            check.no_effect(self.precision.at, why);
        }
    }
}

/// Returns the memory of each of `stages` stages, where chunk number i is on stage number i modulo `stages`.
fn of_stages(chunks: &[Portion], schedule: Schedule, stages: usize) -> Vec<Portion> {
    let of = |stage| {
        let mut positions = schedule.positions(stage, stages);
        let mut all = positions.next().map_or_else(Portion::default, |first| chunks[first]);
        positions.for_each(|position| all.add(&chunks[position]));
        all
    };
    (0..stages).map(of).collect()
}

impl Rules<'_> {
    /// Moves the part of the model that does not fit into GPU memory to the nodes' memory, if `model.out_of_core` is
    /// true.
    pub(super) fn keep_outside(&self, job: &mut Job) {
        let Some(cluster) = self.around.cluster else { return };
        let node = cluster.weakest(self.nodes(job)).node;
        self.swap(job, &node);
    }

    /// Checks that the memory footprint of each GPU of the job fits into the GPU's memory.
    pub(super) fn check_device_memory(&self, job: &Job, node: &Node) {
        let capacity = node.gpu_memory;
        let Some(full) = job.footprint() else { return self.remark_gpu(job) };
        let swapped = job.parallelism.as_ref().is_some_and(|of| !of.swap.is_empty());
        if full.total() <= capacity || (swapped && full.workspace < capacity) {
            return;
        }
        let memory = self.check.find(&["cluster", "node", "gpu_memory"]);
        let gpu = self.check.find(&["cluster", "node", "gpu"]);
        let at = self.check.blame(&[self.settings.batch_at(), memory, gpu], self.at);
        let written = self.settings.model.get();
        let precision = written.map_or_else(Precision::default, ModelSettings::precision);
        let what = format!(
            "`{}` needs {} of GPU memory in {} ({} of them activations), but a GPU has {}",
            job.name,
            size(full.total()),
            precision.name(),
            size(full.activations),
            size(capacity)
        );
        self.check.log.too_large(TooLarge {
            at,
            job: self.at,
            what,
            batches: self.smaller_batches(job, capacity),
            kinds: self.other_changes(job, capacity),
            least_batch: self.least_batch(job),
            needed: full.total(),
        });
    }

    /// Remarks that `gpu_memory` has no effect on a model whose memory is not known.
    fn remark_gpu(&self, job: &Job) {
        if let Some(at) = self.check.find(&["cluster", "node", "gpu_memory"]) {
            let key = self.check.document.path(at);
            self.check.remark(format!(
                "`{key}` has no effect on `{}`: the GPU memory that the job's model needs is not known; write `model.memory`.",
                job.name
            ));
        }
    }
}
