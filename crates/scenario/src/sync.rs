//! How the model copies of a job keep their models in agreement: usually by adding up their gradients after each
//! step.

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

/// How the model copies of a job exchange gradients or parameters. One way is synchronous stochastic gradient
/// descent: as soon as backward has made a bucket of gradients, the bucket is reduced by an allreduce, or to a root,
/// which alone gets the sum. The other way is through servers, with which each model copy may exchange by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Sync {
    /// Buckets of gradients, in the order in which they are ready and reduced.
    pub buckets: Vec<Bucket>,
    /// Maximum number of bytes of waiting buckets that are fused into one reduction [B]; 0 if each bucket is reduced
    /// by itself.
    pub buffer: u64,
    /// How each bucket is reduced.
    pub reduction: Reduction,
    /// Transport that carries the buckets.
    pub transport: Transport,
    /// Measured time of an allreduce among this job's ranks by size, if the profile has it; then `transport` and
    /// `reduction` do not matter.
    pub measured: Option<TransportLaw>,
    /// How transfers and their time are simulated.
    pub fidelity: Fidelity,
    /// Number of transfers in a step, from which `fidelity` was chosen; `None` if the scenario states the fidelity.
    pub chosen_by: Option<f64>,
    /// How models are averaged, if the job averages models instead of adding up gradients.
    pub averaging: Option<Averaging>,
    /// Role of the first rank as the root to which buckets are reduced; `None` if every rank gets the sum.
    pub root: Option<Root>,
    /// Parameter servers, if there are any: each model copy exchanges gradients or parameters with them by itself,
    /// and `reduction` does not matter.
    pub servers: Option<Servers>,
    /// Steps from one exchange to the next; in between, each model copy trains by itself.
    pub interval: u64,
    /// Whether each rank gathers the compressed gradients of all ranks, because sparse gradients cannot be added up
    /// on their way.
    pub sparse: bool,
    /// Time that a GPU needs to decompress one rank's gradients of a step, or the sum of all ranks' gradients [s].
    pub decompress: f64,
    /// Bytes of all parameters in the format in which the model computes [B]; `None` if they are not known, and are taken to be
    /// as many as those of the gradients.
    pub parameters: Option<f64>,
    /// Whether training goes on during exchanges: backward after a bucket of gradients is ready, or the next step after a learner has
    /// corrected its model.
    pub overlap: bool,
}

/// How models are averaged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Averaging {
    /// Steps from one averaging to the next.
    pub period: u64,
    /// Time that an averaging takes for each learner on a GPU [s].
    pub latency: f64,
    /// Whether `latency` includes moving the bytes of the GPU's models.
    pub includes_bytes: bool,
}

/// A root rank: it broadcasts the parameters before each step, gradients are reduced to it, and it applies them
/// (Awan, Hamidouche, Hashmi and Panda, *S-Caffe*, PPoPP 2017).
#[derive(Debug, Clone, PartialEq)]
pub struct Root {
    /// Parameters in the order in which they are broadcast, which is the order in which forward needs them.
    pub parameters: Vec<Parameters>,
    /// How the parameters are broadcast.
    pub broadcast: Reduction,
    /// Time of the update, from the last reduction to the next broadcast [s].
    pub update: f64,
}

impl Sync {
    /// Returns settings under which every rank gets the sums of `buckets` after each step, by NCCL's choice of
    /// algorithm.
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
            parameters: None,
            overlap: true,
        }
    }

    /// Returns the share of a step after which the exchange of a bucket can begin. It exceeds 1 where a framework's cycle ends after
    /// the step.
    #[must_use]
    pub fn ready(&self, bucket: &Bucket) -> f64 {
        if self.overlap { bucket.ready } else { bucket.ready.max(1.0) }
    }

    /// Returns the number of ranks whose gradients each of `ranks` GPUs decompresses in a step: all but its own if they are sparse,
    /// otherwise 1, the sum.
    #[must_use]
    pub fn received(&self, ranks: u32) -> f64 {
        if self.sparse { f64::from(ranks.saturating_sub(1)) } else { 1.0 }
    }

    /// Returns the bytes of parameters for each byte of gradients before compression.
    #[must_use]
    pub fn parameters_per_gradient(&self) -> f64 {
        let gradients: f64 = self.buckets.iter().map(|bucket| bucket.raw as f64).sum();
        // Buckets are whole bytes: a difference of less than one in each is none.
        let same = |all: &f64| (all - gradients).abs() <= self.buckets.len() as f64;
        let other = self.parameters.filter(|all| !same(all) && gradients > 0.0);
        other.map_or(1.0, |all| all / gradients)
    }

    /// Returns the collective operation for each bucket: a reduce with a root, an allgather of sparse gradients,
    /// otherwise an allreduce.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match (&self.root, self.sparse) {
            (Some(_), _) => Operation::Reduce,
            (None, true) => Operation::Allgather,
            (None, false) => Operation::Allreduce,
        }
    }

    /// Returns the maximum number of bytes that are reduced together: the largest bucket, or as many waiting buckets
    /// as fit into the buffer [B].
    #[must_use]
    pub fn most_together(&self) -> u64 {
        gradients::most_together(&self.buckets, self.buffer)
    }

    /// Returns every collective of a step in order: its operation, how it is done, and its bytes.
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
    /// Gradients are reduced by the algorithm that a library chooses for their size, the number of ranks and the
    /// number of nodes.
    Auto(Library),
    /// Gradients are reduced by the given algorithm.
    By {
        /// Algorithm of the collective.
        algorithm: Algorithm,
        /// Algorithms inside nodes and across nodes, for [`Algorithm::Hierarchical`].
        levels: (Algorithm, Algorithm),
        /// Maximum size of the pieces in which a tree or chain forwards a buffer [B]; `None`: the whole buffer.
        chunk: Option<u64>,
    },
}

/// How the time of a collective is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fidelity {
    /// "flow" up to a million transfers in a step, otherwise "analytic"; replaced by one of these when the scenario
    /// is read.
    Auto,
    /// Each transfer is a flow that shares links with everything else.
    Flow,
    /// Each collective takes as long as on an idle network, whatever other traffic there is.
    Analytic,
}

impl Fidelity {
    /// Returns the fidelity's name in scenario files.
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
    /// Returns the reduction by the algorithm `name`, with rings at both levels of a hierarchy; NCCL's choice if
    /// `name` is `None` or "auto".
    pub(super) fn named(name: Option<&AlgorithmName>) -> Reduction {
        match name.and_then(|name| name.0) {
            None => Reduction::Auto(Library::Nccl),
            Some(algorithm) => {
                let levels = (Algorithm::Ring, Algorithm::Ring);
                Reduction::By { algorithm, levels, chunk: None }
            }
        }
    }

    /// Returns the collective that does `operation` with `bytes` bytes on `fabric`; its root, if it has one, is the
    /// first rank.
    #[must_use]
    pub fn collective(&self, operation: Operation, bytes: u64, fabric: &Fabric) -> Collective {
        let choice = match *self {
            Reduction::Auto(library) => {
                forebay_collective::choose(library, operation, bytes, fabric)
            }
            Reduction::By { algorithm, levels: (inner, outer), chunk } => {
                // As in Horovod and NCCL, each part of an allreduce crosses between nodes from every rank that has
                // it. If nodes differ, or for any other operation, one leader of each node sends across.
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

/// How model copies exchange gradients or parameters.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SyncSettings {
    /// Gradients are added up among all model copies of a job copy, and each model copy updates its own model.
    Allreduce(Field<AllreduceSettings>),
    /// Parameters are broadcast from the first model copy, gradients are reduced to it, and it alone updates the
    /// parameters.
    ReduceBroadcast(Field<ReduceBroadcastSettings>),
    /// Each learner trains a model of its own, and the models are averaged every few steps.
    ModelAveraging(Field<AveragingSettings>),
    /// Parameter servers hold the parameters: each model copy pushes its gradients to them and pulls parameters
    /// from them.
    ParameterServer(Field<ParameterServerSettings>),
    /// Each model copy trains by itself, and every few steps exchanges parameters with a centre, a model that all
    /// share.
    ElasticAveraging(Field<ElasticAveragingSettings>),
}

impl SyncSettings {
    /// Returns whether the settings state how gradients are sent between GPUs: a transport, an algorithm, a
    /// fidelity or fusion.
    pub(super) fn names_ways(&self) -> bool {
        match self {
            Self::Allreduce(settings) => settings.get().is_some_and(AllreduceSettings::names_ways),
            Self::ReduceBroadcast(settings) => {
                settings.get().is_some_and(ReduceBroadcastSettings::names_ways)
            }
            _ => false,
        }
    }

    /// Returns whether model copies exchange the parameters of models of their own through servers.
    pub(super) fn moves_own_models(&self) -> bool {
        matches!(self, Self::ElasticAveraging(_))
    }

    /// Checks the settings of the table at document node `at` for the model that `of` describes, and returns them;
    /// `None` if they are wrong.
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
