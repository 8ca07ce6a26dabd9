//! How model copies of a job agree on their model: after each step they add their gradients up.

mod allreduce;
mod gradients;
mod transport;

use super::check::Check;
use super::document::NodeId;
use super::field::Field;
use crate::collective::{Across, Algorithm, Choice, Collective, Fabric, Library, Operation};
use allreduce::AllreduceSettings;
use schemars::JsonSchema;
use serde::Deserialize;

pub use gradients::Bucket;
pub(super) use gradients::{Gradient, OfModel};
pub(super) use transport::Latencies;
pub use transport::Transport;

/// How model copies of a job agree after each step: synchronous stochastic gradient descent, by an allreduce
/// of buckets of gradients as backward makes them.
#[derive(Debug, Clone, PartialEq)]
pub struct Sync {
    /// In the order in which they are ready and reduced.
    pub buckets: Vec<Bucket>,
    /// Most bytes of buckets that are reduced together because they wait together [B]; 0: each alone.
    pub buffer: u64,
    /// How each is reduced.
    pub reduction: Reduction,
    /// What carries them.
    pub transport: Transport,
    /// How transfers and their time are found.
    pub fidelity: Fidelity,
}

/// How gradients are reduced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reduction {
    /// As a library takes it, by size, ranks and nodes.
    Auto(Library),
    /// So.
    By {
        /// How.
        algorithm: Algorithm,
        /// Of [`Algorithm::Hierarchical`], how inside nodes and how across.
        levels: (Algorithm, Algorithm),
        /// Longest piece of a tree or chain [B].
        chunk: Option<u64>,
    },
}

/// How the time of a collective is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fidelity {
    /// Each transfer is a flow that shares links with everything else.
    Flow,
    /// It takes as long as on an idle network, whatever else goes on.
    Analytic,
}

impl Reduction {
    /// The allreduce of `bytes` on `fabric`.
    #[must_use]
    pub fn collective(&self, bytes: u64, fabric: &Fabric) -> Collective {
        let operation = Operation::Allreduce;
        let choice = match *self {
            Reduction::Auto(library) => {
                crate::collective::choose(library, operation, bytes, fabric)
            }
            Reduction::By { algorithm, levels: (inner, outer), chunk } => {
                // As Horovod and NCCL do: each part goes across by the ranks that have it.
                let levels = (inner, outer, Across::SameIndex);
                let levels = (algorithm == Algorithm::Hierarchical).then_some(levels);
                Choice { algorithm, levels, chunk, protocol: None, seconds: None }
            }
        };
        choice.collective(operation, bytes, fabric)
    }
}

/// How model copies agree.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SyncSettings {
    /// Gradients are added up among all model copies of a job copy, and each updates its own model.
    Allreduce(Field<AllreduceSettings>),
}

impl SyncSettings {
    /// The checked settings of the table at node `at`, of a model of which `of` is known.
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId, of: &OfModel) -> Option<Sync> {
        let SyncSettings::Allreduce(settings) = self;
        let (_, settings) = settings.given()?;
        settings.resolve(check, check.inside(at), of)
    }
}
