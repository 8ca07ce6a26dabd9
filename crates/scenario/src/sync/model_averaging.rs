//! How `[job.sync.model-averaging]` is written.

use super::algorithm::{self, Chosen};
use super::gradients::OfModel;
use super::measured::{self, MeasuredQuery};
use super::named::{AlgorithmName, LibraryName};
use super::transport::{self, TransportSettings};
use super::{Averaging, Bucket, Fidelity, Sync};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Count, Positive};
use forebay_collective::{Algorithm, Operation};
use forebay_model::law::TransportLaw;
use forebay_model::units::Size;
use schemars::JsonSchema;
use serde::Deserialize;

/// Synchronous model averaging (Koliousis et al., *Crossbow*, PVLDB 12(11), 2019): learners go their own
/// ways; every so many steps each is drawn towards the reference model of its GPU, and reference models are averaged
/// among GPUs while learners go on.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AveragingSettings {
    /// Steps from one averaging to the next (default: 1).
    period: Field<Count<1, 1_000_000>>,
    /// Bytes of a model (default: those of the catalogue's, in 32 bits).
    parameters: Field<Positive<Size>>,
    /// How reference models are averaged: as `sync.allreduce.algorithm` (default: "auto").
    algorithm: Field<AlgorithmName>,
    /// Of "hierarchical": how inside nodes (default: "ring").
    inner: Field<AlgorithmName>,
    /// Of "hierarchical": how across nodes (default: "ring").
    outer: Field<AlgorithmName>,
    /// Whose choice "auto" is (default: "open-mpi" with a `transport` of MPI,
    /// otherwise "nccl").
    library: Field<LibraryName>,
    /// Longest piece that goes through a tree on its own (default: the whole model).
    chunk: Field<Positive<Size>>,
    /// What carries them (default: nothing but the links).
    transport: Field<TransportSettings>,
    /// Whether each transfer shares links with everything else: "flow", or a collective takes its time on an idle
    /// network: "analytic", or the first of these up to a million transfers in a step: "auto" (default: "auto").
    fidelity: Field<Fidelity>,
}

impl AveragingSettings {
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId, of: &OfModel) -> Option<Sync> {
        self.remark(check, of);
        let bytes = self.bytes(check, at, of)?;
        let transport = transport::resolve(&self.transport, check, of.latencies)?;
        let whole = Bucket { bytes, raw: bytes, tensors: 1, ready: 1.0, compress: 0.0 };
        Some(Sync {
            reduction: self.chosen().reduction(check, at)?,
            measured: self.measured(check, bytes, of.ranks)?,
            fidelity: self.fidelity.get().copied().unwrap_or(Fidelity::Auto),
            averaging: Some(Averaging { period: self.period.get().map_or(1, |period| period.0) }),
            ..Sync::each_step(vec![whole], transport)
        })
    }

    fn bytes(&self, check: Check<'_>, at: NodeId, of: &OfModel) -> Option<u64> {
        let known: f64 = of.gradients.iter().map(|gradient| gradient.bytes).sum();
        if !self.parameters.is_written() && known > 0.0 {
            return Some(known.round() as u64);
        }
        let remedy = "write `parameters = \"102 MB\"`";
        let bytes = check.required(at, &self.parameters, "parameters", remedy)?.0;
        Some(bytes.round() as u64)
    }

    /// What the profile says of allreduces, if it is asked; `None` if that is wrong.
    fn measured(&self, check: Check<'_>, bytes: u64, ranks: u32) -> Option<Option<TransportLaw>> {
        let transport = self.transport.get().and_then(TransportSettings::profile);
        let Some(transport) = transport.filter(|_| ranks > 1) else { return Some(None) };
        let wanted = MeasuredQuery { transport, collective: "allreduce", ranks, bytes: [bytes; 2] };
        measured::law(check, wanted).map(Some)
    }

    /// What is written beside something that makes it idle.
    fn remark(&self, check: Check<'_>, of: &OfModel) {
        if of.ranks < 2 {
            return self.remark_network(check);
        }
        let Some(measured) = self.transport.get().filter(|kind| kind.profile().is_some()) else {
            return algorithm::remark(check, &[self.chosen()]);
        };
        let why = "the profile says how long a collective takes";
        measured.remark(check);
        for name in [&self.algorithm, &self.inner, &self.outer] {
            check.no_effect(name, why);
        }
        check.no_effect(&self.library, why);
        check.no_effect(&self.chunk, why);
    }

    /// What is written of exchanges between GPUs, where there is one.
    fn remark_network(&self, check: Check<'_>) {
        let why = "models on one GPU are averaged in its memory";
        for name in [&self.algorithm, &self.inner, &self.outer] {
            check.no_effect(name, why);
        }
        check.no_effect(&self.library, why);
        check.no_effect(&self.chunk, why);
        check.no_effect(&self.transport, why);
        check.no_effect(&self.fidelity, why);
    }

    fn chosen(&self) -> Chosen<'_> {
        let Self { algorithm, inner, outer, library, chunk, .. } = self;
        let level = Algorithm::Ring;
        let (operation, auto) = (Operation::Allreduce, transport::auto(&self.transport));
        Chosen { operation, algorithm, inner, outer, library, chunk, level, auto }
    }
}
