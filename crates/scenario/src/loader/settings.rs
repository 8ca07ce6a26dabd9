//! Settings of loaders, and the rules for every stage graph.

use super::dali::Dali;
use super::in_memory::InMemory;
use super::keras::Keras;
use super::pytorch::Pytorch;
use super::stages::StageSettings;
use super::tf_data::TfData;
use super::tf_queue::TfQueue;
use super::{Operation, Preset, Stage, StageGraph, Unit};
use crate::check::Check;
use crate::distribution::settings::Varying;
use crate::document::NodeId;
use crate::field::{Field, List};
use crate::job::loaders::Loaders;
use crate::sync::Framework;
use crate::{Dataset, Distribution};
use forebay_model::units::Time;
use schemars::JsonSchema;
use serde::Deserialize;

/// Maximum number of workers of one node's loader.
const MOST_WORKERS: u64 = 1_000_000;

/// Kind of loader, given as a table with its name: `[job.loader.tf-queue]`, or as stages that you define:
/// `[[job.loader.stages]]`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LoaderSettings {
    /// TensorFlow 1 queue: threads that read, decode and enqueue samples.
    TfQueue(TfQueue),
    /// PyTorch's `DataLoader`: processes that make whole batches, and get requests for them in turn.
    Pytorch(Box<Pytorch>),
    /// Keras' `OrderedEnqueuer`: a pool of workers, and a queue of futures of batches.
    Keras(Keras),
    /// TensorFlow's `tf.data`: parallel reads and map calls, batching, a prefetch.
    TfData(TfData),
    /// NVIDIA's DALI: threads on the host, and a stage on the GPU.
    Dali(Dali),
    /// Synthetic data: batches that are always ready.
    InMemory(InMemory),
    /// Stages that you define, from storage to trainer.
    Stages(List<StageSettings>),
}

/// Maximum number of stages of a loader.
const MOST_STAGES: usize = 100;

/// A stage with the document nodes of its parts, for rules about several stages.
pub(super) struct Placed {
    pub(super) stage: Stage,
    /// Document node of the stage's table.
    pub(super) at: NodeId,
    /// Document node of the size of the stage's buffer.
    pub(super) buffer: Option<NodeId>,
    /// Document nodes of the stage's `per_sample` operations.
    pub(super) per_sample: Vec<NodeId>,
    /// Document nodes of the stage's `per_item` operations.
    pub(super) per_item: Vec<NodeId>,
}

/// A checked loader, with the document node of the size of its last buffer.
pub(crate) struct ResolvedLoader {
    pub(crate) graph: StageGraph,
    pub(crate) last_buffer: Option<NodeId>,
}

/// Resources of a node that matter to its loader.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnNode {
    /// Number of cores of the node.
    pub(crate) cores: u32,
    /// Number of devices that the loader feeds.
    pub(crate) devices: u32,
}

impl LoaderSettings {
    /// Returns the framework that the loader belongs to.
    pub(crate) fn framework(&self) -> Framework {
        match self {
            Self::Pytorch(_) => Framework::Pytorch,
            Self::TfQueue(_) | Self::Keras(_) | Self::TfData(_) => Framework::Tensorflow,
            Self::Dali(_) | Self::InMemory(_) | Self::Stages(_) => Framework::Unsaid,
        }
    }

    /// Returns where loaders of this kind run if the scenario does not say it, and the source of this.
    pub(crate) fn usual_place(&self) -> (Loaders, &'static str) {
        match self {
            Self::Dali(_) => {
                (Loaders::PerRank, "DALI: each Pipeline belongs to one GPU, its device_id")
            }
            Self::Keras(_) | Self::TfData(_) => (
                Loaders::PerNode,
                "tf.distribute: one input pipeline in each process, for all its GPUs",
            ),
            Self::TfQueue(_) => (Loaders::PerNode, "TensorFlow 1: one queue in each process"),
            Self::Pytorch(_) | Self::InMemory(_) | Self::Stages(_) => (Loaders::PerNode, "forebay"),
        }
    }

    /// Returns the preset of this loader.
    fn preset(&self) -> Preset {
        match self {
            Self::TfQueue(_) => Preset::TfQueue,
            Self::Pytorch(_) => Preset::Pytorch,
            Self::Keras(_) => Preset::Keras,
            Self::TfData(_) => Preset::TfData,
            Self::Dali(_) => Preset::Dali,
            Self::InMemory(_) => Preset::InMemory,
            Self::Stages(_) => Preset::Stages,
        }
    }

    /// Checks the loader at document node `at` and returns its stages on `node`, for batches of `batch` samples of
    /// `dataset`; `None` if the loader is invalid.
    pub(crate) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        batch: u64,
        node: OnNode,
        dataset: Option<&Dataset>,
    ) -> Option<ResolvedLoader> {
        let mut resolved = match self {
            Self::TfQueue(settings) => {
                let stages = settings.resolve(check, check.inside(at), dataset)?;
                let last_buffer = settings.capacity.at;
                let graph = StageGraph::new(stages);
                Some(ResolvedLoader { graph, last_buffer })
            }
            Self::Pytorch(settings) => {
                settings.resolve(check, check.inside(at), (node.devices, batch), dataset)
            }
            Self::Keras(settings) => settings.resolve(check, check.inside(at), batch, dataset),
            Self::TfData(settings) => {
                settings.resolve(check, check.inside(at), batch, node.cores, dataset)
            }
            Self::Dali(settings) => settings.resolve(check, check.inside(at), batch, dataset),
            Self::InMemory(_) => Some(InMemory::resolve()),
            Self::Stages(stages) => resolve_stages(check, check.inside(at), stages, batch, dataset),
        }?;
        resolved.graph.preset = self.preset();
        Some(resolved)
    }
}

/// Returns the operation that `make` builds from the time that is set; `Some(None)` if none is set, `None` if the
/// time is invalid.
pub(super) fn optional(
    written: &Field<Varying<Time>>,
    check: Check<'_>,
    make: fn(Distribution) -> Operation,
) -> Option<Option<Operation>> {
    match written.given() {
        Some((at, time)) => Some(Some(make(time.resolve(check, at)?))),
        None => Some(None),
    }
}

fn resolve_stages(
    check: Check<'_>,
    at: NodeId,
    settings: &List<StageSettings>,
    batch: u64,
    dataset: Option<&Dataset>,
) -> Option<ResolvedLoader> {
    if settings.0.is_empty() {
        check.wrong(at, "a loader needs at least one stage", "write `[[job.loader.stages]]`");
    }
    if settings.0.len() > MOST_STAGES {
        let what = format!("a loader of {} stages cannot be simulated", settings.0.len());
        check.wrong(at, what, format!("write at most {MOST_STAGES} stages"));
        return None;
    }
    let place = |field: &Field<StageSettings>| {
        let (at, settings) = field.given()?;
        settings.resolve(check, at, batch, dataset)
    };
    let placed: Vec<_> = settings.0.iter().map(place).collect();
    let last_buffer = settings.0.last().and_then(|field| field.get()?.buffer.at);
    let placed: Vec<Placed> = placed.into_iter().collect::<Option<_>>()?;
    check_reads(check, &placed);
    check_decodes(check, &placed);
    check_order(check, &placed, batch);
    check_names(check, &placed);
    let stages: Vec<_> = placed.into_iter().map(|placed| placed.stage).collect();
    let workers: u64 = stages.iter().map(|stage| u64::from(stage.workers)).sum();
    if workers > MOST_WORKERS {
        let what = format!("the stages have {workers} workers together");
        check.wrong(at, what, format!("write at most {MOST_WORKERS} workers in all"));
    }
    let graph = StageGraph::new(stages);
    (!graph.stages.is_empty()).then_some(ResolvedLoader { graph, last_buffer })
}

/// Checks that the first stage reads each sample once, and that no other stage reads.
fn check_reads(check: Check<'_>, stages: &[Placed]) {
    let reads = |operations: &[Operation], nodes: &[NodeId]| -> Vec<NodeId> {
        let is_read = |(operation, _): &(&Operation, _)| **operation == Operation::Read;
        operations.iter().zip(nodes).filter(is_read).map(|(_, &at)| at).collect()
    };
    for (index, placed) in stages.iter().enumerate() {
        let in_samples = reads(&placed.stage.per_sample, &placed.per_sample);
        for at in reads(&placed.stage.per_item, &placed.per_item) {
            let remedy = "write \"read\" in `per_sample` of the first stage";
            check.wrong(at, "samples can be read only one by one", remedy);
        }
        for &at in in_samples.iter().skip(usize::from(index == 0)) {
            let what = "a sample is read once, by the first stage";
            check.wrong(at, what, "remove this \"read\"");
        }
        if index == 0 && in_samples.is_empty() {
            let remedy = "write `per_sample = [\"read\"]` in it";
            check.log.key(placed.at, "the first stage does not read", remedy);
        }
    }
}

/// Checks that `decode` is an operation on single samples (in `per_sample`), and `memcpy` an operation on whole items
/// (in `per_item`).
fn check_decodes(check: Check<'_>, stages: &[Placed]) {
    for placed in stages {
        let operations = placed.stage.per_sample.iter().zip(&placed.per_sample);
        for (_, &at) in operations.filter(|(op, _)| matches!(op, Operation::Memcpy(_))) {
            check.wrong(
                at,
                "the host copies items of the stage as a whole, not sample by sample",
                "move the copy to `per_item`",
            );
        }
        let operations = placed.stage.per_item.iter().zip(&placed.per_item);
        for (_, &at) in operations.filter(|(op, _)| matches!(op, Operation::Decode(_))) {
            check.wrong(at, "samples can be decoded only one by one", "write it in `per_sample`");
        }
    }
}

/// Checks that no stage of samples follows a stage of batches, and that the buffer before each stage has room for the
/// items that this stage takes at once.
fn check_order(check: Check<'_>, stages: &[Placed], batch: u64) {
    for pair in stages.windows(2) {
        let [before, after] = pair else { continue };
        match (before.stage.unit, after.stage.unit) {
            (Unit::Batch, Unit::Sample) => {
                let remedy = "write `unit = \"batch\"` here, or `unit = \"sample\"` in the stage \
                              before";
                check.log.key(
                    after.at,
                    "a stage with `unit = \"sample\"` follows one with `unit = \"batch\"`",
                    remedy,
                );
            }
            (_, after) => check_room(check, before, if after == Unit::Batch { batch } else { 1 }),
        }
    }
}

/// Checks that a buffer has room for the items that stay in it and, in addition, for those that the next stage
/// takes at once.
fn check_room(check: Check<'_>, before: &Placed, batch: u64) {
    let Stage { unit, buffer, kept, .. } = before.stage;
    let takes = if unit == Unit::Sample { batch } else { 1 };
    if buffer >= kept.saturating_add(takes) {
        return;
    }
    let items = if unit == Unit::Sample { "samples" } else { "batches" };
    let stays = if kept > 0 { format!(", of which {kept} stay in it") } else { String::new() };
    let what = format!(
        "the buffer holds {buffer} {items}{stays}: less than the {takes} that the next stage takes from it"
    );
    let remedy = format!("write a buffer of at least \"{} {items}\"", kept.saturating_add(takes));
    check.wrong(before.buffer.unwrap_or(before.at), what, remedy);
}

fn check_names(check: Check<'_>, stages: &[Placed]) {
    for (index, placed) in stages.iter().enumerate() {
        let name = &placed.stage.name;
        check.name(placed.at, name);
        if stages.iter().take(index).any(|other| other.stage.name == *name) {
            check.log.key(placed.at, format!("two stages are named {name:?}"), "rename one");
        }
    }
}
