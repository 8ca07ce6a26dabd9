//! Settings of `[job.sync.reduce-broadcast]`.

use super::algorithm::{self, Chosen};
use super::gradients::{Gradient, OfModel, Parameters, filled};
use super::named::{AlgorithmName, LibraryName};
use super::sent::{MOST_TENSORS, Precision, Sent};
use super::transport::{self, TransportSettings};
use super::{Bucket, Fidelity, Root, Sync};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Amount, Count, Positive, Share};
use crate::role::Role;
use forebay_collective::{Algorithm, Operation};
use forebay_model::units::{Size, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// The first model copy of a job copy is the root: before each step its parameters are broadcast, after the step
/// gradients are reduced to it, and it updates the parameters (Caffe; OSU-Caffe and S-Caffe: Awan et al. 2017).
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReduceBroadcastSettings {
    /// Bytes of all parameters; gradients have as many bytes (default: those of the catalogue's model).
    #[schemars(extend("x-role" = Role::Limit))]
    parameters: Field<Positive<Size>>,
    /// Number of tensors of equal size that hold the parameters (default: 1).
    #[schemars(extend("x-role" = Role::Identity))]
    tensors: Field<Count<1, MOST_TENSORS>>,
    /// Floating-point format in which the parameters and gradients of the catalogue's model are sent: "fp32" or
    /// "fp16" (default: that of `model.precision`).
    #[schemars(extend("x-role" = Role::Choice))]
    precision: Field<Precision>,
    /// Share of a step's time that backward takes, for parameters that are not the catalogue's (default: 2/3).
    #[schemars(extend("x-role" = Role::Identity))]
    backward: Field<Share>,
    /// What is sent together: "packed": one buffer for all parameters and one for all gradients; "per-layer": a
    /// buffer for each layer of the catalogue's model, or for each tensor (default: "packed").
    #[schemars(extend("x-role" = Role::Choice))]
    buffers: Field<Buffers>,
    /// Whether parameters are broadcast while forward goes on, each layer waiting for its own parameters, and
    /// gradients are reduced while backward goes on, as in S-Caffe (default: true; never for packed buffers).
    #[schemars(extend("x-role" = Role::Choice))]
    overlap: Field<bool>,
    /// Time of the update at the root, while the other model copies wait (default: 0 s, the step's time includes the
    /// update).
    #[schemars(extend("x-role" = Role::Limit))]
    update: Field<Amount<Time>>,
    /// Algorithm that broadcasts the parameters: "flat", "binomial-tree", "scatter-allgather", "ring" (a chain),
    /// "halving-doubling", "double-binary-tree", "hierarchical", "in-switch", or "auto" (default: "auto").
    #[schemars(extend("x-role" = Role::Choice))]
    broadcast: Field<AlgorithmName>,
    /// Algorithm that reduces the gradients: one of the names of `broadcast` (default: "auto").
    #[schemars(extend("x-role" = Role::Choice))]
    reduce: Field<AlgorithmName>,
    /// Algorithm inside nodes, for "hierarchical" (default: "binomial-tree").
    #[schemars(extend("x-role" = Role::Choice))]
    inner: Field<AlgorithmName>,
    /// Algorithm across nodes, for "hierarchical" (default: "binomial-tree").
    #[schemars(extend("x-role" = Role::Choice))]
    outer: Field<AlgorithmName>,
    /// Library whose choice of algorithm "auto" follows (default: "open-mpi" with a `transport` of MPI, otherwise
    /// "nccl").
    #[schemars(extend("x-role" = Role::Choice))]
    library: Field<LibraryName>,
    /// Maximum size of the pieces in which a tree or chain forwards a buffer (default: whole buffers).
    #[schemars(extend("x-role" = Role::Choice))]
    chunk: Field<Positive<Size>>,
    /// Transport that carries parameters and gradients, and its costs in addition to the links' (default: nothing
    /// but the links).
    #[schemars(extend("x-role" = Role::Choice))]
    transport: Field<TransportSettings>,
    /// How the time of a collective is simulated: "flow": each transfer shares links with everything else;
    /// "analytic": the collective takes its time on an idle network; "auto": "flow" up to a million transfers in a
    /// step, otherwise "analytic" (default: "auto").
    #[schemars(extend("x-role" = Role::Output))]
    fidelity: Field<Fidelity>,
}

/// How parameters and gradients are packed into buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Buffers {
    /// One buffer for all parameters, and one for all gradients.
    Packed,
    /// One buffer for each entry of the table of layers, which may be layers or single tensors.
    PerLayer,
}

impl ReduceBroadcastSettings {
    pub(super) fn names_ways(&self) -> bool {
        let carried = self.transport.is_written() || self.fidelity.is_written();
        carried || self.both().iter().any(Chosen::is_written)
    }

    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId, of: &OfModel) -> Option<Sync> {
        self.remark(check, of);
        let gradients = self.sent().gradients(check, at, of)?;
        transport::refuse_profile(&self.transport, check);
        let transport = transport::resolve(&self.transport, check, of.latencies)?;
        let reduction = self.chosen(Operation::Reduce, &self.reduce).reduction(check, at);
        let broadcast = self.chosen(Operation::Broadcast, &self.broadcast).reduction(check, at)?;
        let update = self.update.get().map_or(0.0, |time| time.0);
        let parameters = self.parameters(&gradients);
        Some(Sync {
            reduction: reduction?,
            fidelity: self.fidelity.get().copied().unwrap_or(Fidelity::Auto),
            root: Some(Root { parameters, broadcast, update }),
            interval: of.accumulation,
            overlap: self.overlaps(),
            ..Sync::each_step(self.buckets(&gradients), transport)
        })
    }

    fn sent(&self) -> Sent<'_> {
        let Self { parameters, tensors, precision, backward, .. } = self;
        Sent { key: "parameters", bytes: parameters, tensors, precision, backward }
    }

    fn chosen<'s>(
        &'s self,
        operation: Operation,
        algorithm: &'s Field<AlgorithmName>,
    ) -> Chosen<'s> {
        let Self { inner, outer, library, chunk, .. } = self;
        let level = Algorithm::BinomialTree;
        let auto = transport::library(&self.transport);
        Chosen { operation, algorithm, inner, outer, library, chunk, level, auto }
    }

    fn both(&self) -> [Chosen<'_>; 2] {
        let both = [(Operation::Broadcast, &self.broadcast), (Operation::Reduce, &self.reduce)];
        both.map(|(operation, name)| self.chosen(operation, name))
    }

    /// Remarks on keys that have no effect because of other keys.
    fn remark(&self, check: Check<'_>, of: &OfModel) {
        self.sent().remark(check, of);
        algorithm::remark(check, &self.both());
        if !self.is_per_layer() {
            check.no_effect(self.overlap.at, "packed gradients are sent as a whole");
        }
        if !self.overlaps() && (self.parameters.is_written() || of.gradients.is_empty()) {
            check.no_effect(self.backward.at, "nothing is sent during the backward pass");
        }
    }

    fn is_per_layer(&self) -> bool {
        self.buffers.get() == Some(&Buffers::PerLayer)
    }

    fn overlaps(&self) -> bool {
        self.is_per_layer() && self.overlap.get() != Some(&false)
    }

    fn buckets(&self, gradients: &[Gradient]) -> Vec<Bucket> {
        let least = if self.is_per_layer() { 0.0 } else { f64::INFINITY };
        filled(gradients, least, least)
    }

    /// Returns the parameters in the order in which forward needs them, the reverse of backward's order.
    fn parameters(&self, gradients: &[Gradient]) -> Vec<Parameters> {
        if !self.is_per_layer() {
            return gradients
                .iter()
                .copied()
                .reduce(|a, b| a.joined(&b))
                .iter()
                .map(Gradient::parameters)
                .collect();
        }
        let needed = |of: &Parameters| if self.overlaps() { of.needed } else { 0.0 };
        let of = |gradient: &Gradient| {
            let parameters = gradient.parameters();
            Parameters { needed: needed(&parameters), ..parameters }
        };
        gradients.iter().rev().map(of).collect()
    }
}
