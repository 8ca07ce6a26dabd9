//! How model copies of a job agree on their model: after each step they add their gradients up.

mod algorithm;
mod allreduce;
mod bucketing;
mod compression;
mod cpu;
mod elastic_averaging;
mod gradients;
mod measured;
mod model_averaging;
mod named;
mod parameter_server;
mod reduce_broadcast;
mod sent;
mod servers;
mod transport;

use super::check::Check;
use super::document::NodeId;
use super::field::Field;
use allreduce::AllreduceSettings;
use elastic_averaging::ElasticAveragingSettings;
use forebay_collective::{Across, Algorithm, Choice, Collective, Fabric, Library, Operation};
use forebay_model::law::TransportLaw;
use model_averaging::AveragingSettings;
use parameter_server::ParameterServerSettings;
use reduce_broadcast::ReduceBroadcastSettings;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) use bucketing::Framework;
pub use cpu::MessageCpu;
pub use gradients::{Bucket, Parameters};
pub(super) use gradients::{Gradient, OfModel};
pub(super) use named::AlgorithmName;
pub use servers::{BucketShare, ServerPlace, Servers};
pub(super) use transport::Latencies;
pub use transport::Transport;

/// How model copies of a job agree after each step: synchronous stochastic gradient descent, by an allreduce
/// of buckets of gradients as backward makes them, or by a root, which alone has their sum; or by servers, with
/// which each may exchange by itself.
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
    /// What an allreduce of this job's ranks takes by size, where that was measured; then transport and `reduction`
    /// do not matter.
    pub measured: Option<TransportLaw>,
    /// How transfers and their time are found.
    pub fidelity: Fidelity,
    /// Transfers of a step by which that was chosen; `None` where it is written.
    pub chosen_by: Option<f64>,
    /// When models are averaged, where that is done with them in place of gradients.
    pub averaging: Option<Averaging>,
    /// What the first rank does as a root, which buckets are reduced to; `None`: every rank gets their sum.
    pub root: Option<Root>,
    /// Servers that they exchange with instead, each by itself; then `reduction` does not matter.
    pub servers: Option<Servers>,
    /// Steps from one exchange to the next: between, each model copy trains by itself.
    pub interval: u64,
    /// Whether each gets what all have compressed, which cannot be added up on its way.
    pub sparse: bool,
    /// Time of each GPU to take apart what has come of a step, compressed [s].
    pub decompress: f64,
}

/// Models that are averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Averaging {
    /// Steps from one averaging to the next.
    pub period: u64,
}

/// A root: parameters come from there before each step, gradients go there, and are applied there (Awan,
/// Hamidouche, Hashmi and Panda, *S-Caffe*, PPoPP 2017).
#[derive(Debug, Clone, PartialEq)]
pub struct Root {
    /// In the order in which forward needs them and they are broadcast.
    pub parameters: Vec<Parameters>,
    /// How each is broadcast.
    pub broadcast: Reduction,
    /// Time of the update, from the last reduction to the next broadcast [s].
    pub update: f64,
}

impl Sync {
    /// Sums of these buckets to every rank after each step, as NCCL adds them up.
    fn each_step(buckets: Vec<Bucket>, transport: Transport) -> Sync {
        Sync {
            buckets,
            buffer: 0,
            reduction: Reduction::Auto(Library::Nccl),
            transport,
            measured: None,
            fidelity: Fidelity::Auto,
            chosen_by: None,
            averaging: None,
            root: None,
            servers: None,
            interval: 1,
            sparse: false,
            decompress: 0.0,
        }
    }

    /// What is done with each bucket.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match (&self.root, self.sparse) {
            (Some(_), _) => Operation::Reduce,
            (None, true) => Operation::Allgather,
            (None, false) => Operation::Allreduce,
        }
    }

    /// Most that is reduced together: a bucket, or as many as wait together and fit into the buffer [B].
    #[must_use]
    pub fn most_together(&self) -> u64 {
        gradients::most_together(&self.buckets, self.buffer)
    }

    /// All that a step sends: what, how, and how many bytes, in order.
    pub fn sent(&self) -> impl Iterator<Item = (Operation, Reduction, u64)> + '_ {
        let out = self.root.iter().flat_map(|root| {
            let of = |of: &Parameters| (Operation::Broadcast, root.broadcast, of.bytes);
            root.parameters.iter().map(of)
        });
        let back = self.buckets.iter().map(|of| (self.operation(), self.reduction, of.bytes));
        out.chain(back)
    }
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
    /// By the number of transfers of a step; once a scenario is read, one of the others.
    Auto,
    /// Each transfer is a flow that shares links with everything else.
    Flow,
    /// It takes as long as on an idle network, whatever else goes on.
    Analytic,
}

impl Fidelity {
    /// As scenarios name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fidelity::Auto => "auto",
            Fidelity::Flow => "flow",
            Fidelity::Analytic => "analytic",
        }
    }
}

impl Reduction {
    /// The one of a name that may be written; NCCL's choice otherwise, and rings at both levels of a hierarchy.
    pub(super) fn named(name: Option<&AlgorithmName>) -> Reduction {
        match name.and_then(|name| name.0) {
            None => Reduction::Auto(Library::Nccl),
            Some(algorithm) => {
                let levels = (Algorithm::Ring, Algorithm::Ring);
                Reduction::By { algorithm, levels, chunk: None }
            }
        }
    }

    /// The collective that does `operation` with `bytes` on `fabric`; a root is the first rank.
    #[must_use]
    pub fn collective(&self, operation: Operation, bytes: u64, fabric: &Fabric) -> Collective {
        let choice = match *self {
            Reduction::Auto(library) => {
                forebay_collective::choose(library, operation, bytes, fabric)
            }
            Reduction::By { algorithm, levels: (inner, outer), chunk } => {
                // As Horovod and NCCL do: each part goes across by the ranks that have it; from a root, or where
                // nodes differ, or nothing is added up, by one of each.
                let alike = fabric.is_even() && operation == Operation::Allreduce;
                let across = if alike { Across::SameIndex } else { Across::Leaders };
                let levels = (inner, outer, across);
                let levels = (algorithm == Algorithm::Hierarchical).then_some(levels);
                let side_by_side = [Algorithm::Ring, Algorithm::DoubleBinaryTree];
                let many = side_by_side.contains(&algorithm) && fabric.nodes() > 1;
                let channels = if many { fabric.channels } else { 1 };
                Choice { algorithm, levels, chunk, channels, protocol: None, seconds: None }
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
    /// Parameters are broadcast from the first model copy, gradients reduced to it, and it alone updates.
    ReduceBroadcast(Field<ReduceBroadcastSettings>),
    /// Learners train models of their own, which are averaged every so many steps.
    ModelAveraging(Field<AveragingSettings>),
    /// Servers have the parameters: each model copy pushes its gradients, and pulls parameters.
    ParameterServer(Field<ParameterServerSettings>),
    /// Each model copy trains by itself, and every few steps exchanges parameters with a centre.
    ElasticAveraging(Field<ElasticAveragingSettings>),
}

impl SyncSettings {
    /// Whether it is written how, by what or in what pieces gradients go from one GPU to the next.
    pub(super) fn names_ways(&self) -> bool {
        match self {
            Self::Allreduce(settings) => settings.get().is_some_and(AllreduceSettings::names_ways),
            Self::ReduceBroadcast(settings) => {
                settings.get().is_some_and(ReduceBroadcastSettings::names_ways)
            }
            _ => false,
        }
    }

    /// The checked settings of the table at node `at`, of a model of which `of` is known.
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId, of: &OfModel) -> Option<Sync> {
        let inside = check.inside(at);
        match self {
            SyncSettings::Allreduce(settings) => settings.given()?.1.resolve(check, inside, of),
            SyncSettings::ReduceBroadcast(settings) => {
                settings.given()?.1.resolve(check, inside, of)
            }
            SyncSettings::ModelAveraging(settings) => {
                settings.given()?.1.resolve(check, inside, of)
            }
            SyncSettings::ParameterServer(settings) => {
                settings.given()?.1.resolve(check, inside, of)
            }
            SyncSettings::ElasticAveraging(settings) => {
                settings.given()?.1.resolve(check, inside, of)
            }
        }
    }
}
