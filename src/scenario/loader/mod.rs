//! What a loader does, in stages: the common language of every preset and of both worlds.

mod decode;
mod in_memory;
mod keras;
mod pytorch;
mod requests;
pub(super) mod settings;
mod stages;
mod tf_data;
mod tf_queue;

use super::Distribution;
use crate::law::DecodeLaw;

pub use requests::{Dealt, NextEpoch, Replaced, Requests};

/// A chain of stages from storage to trainer. Never empty; the first stage is the only one that
/// reads.
#[derive(Debug, Clone, PartialEq)]
pub struct StageGraph {
    /// The stages, from storage to trainer.
    pub stages: Vec<Stage>,
    /// Where the first stage makes the batches that it is asked for, and no others. Then its items
    /// are batches, and no worker ever waits for room or its turn.
    pub requests: Option<Requests>,
}

/// A pool of identical workers and the buffer that they fill.
///
/// A worker takes an item's input (the first stage: the next samples of the epoch), carries out
/// `per_sample` for each of the item's samples one after the other, then `per_item` once, then puts
/// the item into the buffer, waiting there while it is full. Only then it takes its next input.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Name, for reports and traces.
    pub name: String,
    /// Workers, each with one item at a time.
    pub workers: u32,
    /// What an item of this stage is. A stage of batches after one of samples gathers `batch`
    /// samples for each item.
    pub unit: Unit,
    /// Work for each sample of an item.
    pub per_sample: Vec<Operation>,
    /// Work for an item as a whole.
    pub per_item: Vec<Operation>,
    /// Order in which items enter the buffer.
    pub order: Order,
    /// Items of this stage that fit into its buffer; at least 1. Where the trainer takes samples
    /// from the last buffer, at least one batch.
    pub buffer: u64,
}

/// What an item of a stage is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// One sample.
    Sample,
    /// One batch of the job's size.
    Batch,
}

/// Order in which finished items enter a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// As they finish.
    Any,
    /// As their inputs were taken: a finished item waits, with its worker, for those before it.
    InOrder,
}

/// One piece of work.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Read one sample from the job's storage (first stage, `per_sample` only).
    Read,
    /// Use a core of the node [core-seconds].
    Compute(Distribution),
    /// Turn the stored sample into a tensor (`per_sample` only): core-seconds by its stored bytes,
    /// and its pixels where it is an image.
    Decode(DecodeLaw),
    /// Do nothing for a time [s]: a remote service, a sleep.
    Delay(Distribution),
    /// Copy the item's decoded bytes to the device over the PCIe link of its GPU.
    Copy,
}
