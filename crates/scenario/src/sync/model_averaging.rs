//! Settings of `[job.sync.model-averaging]`.

use super::algorithm::{self, Chosen};
use super::gradients::OfModel;
use super::measured::{self, MeasuredQuery};
use super::named::{AlgorithmName, LibraryName};
use super::transport::{self, TransportSettings};
use super::{Averaging, Bucket, Fidelity, Sync};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Amount, Count, Positive};
use crate::role::Role;
use forebay_collective::{Algorithm, Operation};
use forebay_model::law::TransportLaw;
use forebay_model::units::{Size, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Synchronous model averaging (Koliousis et al., *Crossbow*, PVLDB 12(11), 2019): each learner trains a model of
/// its own. Every few steps each learner's model is moved towards the reference model of its GPU, and the reference
/// models are averaged among GPUs. If `overlap` is true, learners go on training meanwhile.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AveragingSettings {
    /// Updates from one averaging to the next (default: 1).
    #[schemars(extend("x-role" = Role::Choice))]
    period: Field<Count<1, 1_000_000>>,
    /// Time that an averaging takes for each learner on a GPU besides moving bytes: launches of kernels, waits between streams
    /// (default: the `averaging` of this model on this GPU in the profile, which includes moving the bytes of this GPU's
    /// models; otherwise 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    latency: Field<Amount<Time>>,
    /// Whether a learner goes on training after its own correction, while others still correct their models and while the
    /// models of GPUs are averaged (default: true, as in Crossbow; false on a `model.device` that is a real GPU, on which
    /// the learners of live runs wait for each other).
    #[schemars(extend("x-role" = Role::Choice))]
    overlap: Field<bool>,
    /// Bytes of one model (default: those of the catalogue's model, in 32 bits).
    #[schemars(extend("x-role" = Role::Limit))]
    parameters: Field<Positive<Size>>,
    /// Algorithm of the allreduce that averages reference models: one of the names of `sync.allreduce.algorithm`
    /// (default: "auto").
    #[schemars(extend("x-role" = Role::Choice))]
    algorithm: Field<AlgorithmName>,
    /// Algorithm inside nodes, for "hierarchical" (default: "ring").
    #[schemars(extend("x-role" = Role::Choice))]
    inner: Field<AlgorithmName>,
    /// Algorithm across nodes, for "hierarchical" (default: "ring").
    #[schemars(extend("x-role" = Role::Choice))]
    outer: Field<AlgorithmName>,
    /// Library whose choice of algorithm "auto" follows (default: "open-mpi" with a `transport` of MPI, otherwise
    /// "nccl").
    #[schemars(extend("x-role" = Role::Choice))]
    library: Field<LibraryName>,
    /// Maximum size of the pieces in which a tree or chain forwards a model (default: the whole model).
    #[schemars(extend("x-role" = Role::Choice))]
    chunk: Field<Positive<Size>>,
    /// Transport that carries the models, and its costs in addition to the links' (default: nothing but the links).
    #[schemars(extend("x-role" = Role::Choice))]
    transport: Field<TransportSettings>,
    /// How the time of a collective is simulated: "flow": each transfer shares links with everything else;
    /// "analytic": the collective takes its time on an idle network; "auto": "flow" up to a million transfers in a
    /// step, otherwise "analytic" (default: "auto").
    #[schemars(extend("x-role" = Role::Output))]
    fidelity: Field<Fidelity>,
}

impl AveragingSettings {
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId, of: &OfModel) -> Option<Sync> {
        self.remark(check, of);
        let bytes = self.bytes(check, at, of)?;
        let written = self.latency.get().map(|latency| latency.0);
        let includes_bytes = written.is_none() && of.averaging.is_some();
        if includes_bytes && of.ranks < 2 {
            check.no_effect(self.parameters.at, "the profile says how long an averaging takes");
        }
        let transport = transport::resolve(&self.transport, check, of.latencies)?;
        let whole = Bucket { bytes, raw: bytes, tensors: 1, ready: 1.0, compress: 0.0 };
        Some(Sync {
            reduction: self.chosen().reduction(check, at)?,
            measured: self.measured(check, bytes, of.ranks)?,
            fidelity: self.fidelity.get().copied().unwrap_or(Fidelity::Auto),
            averaging: Some(Averaging {
                period: of.interval(check, at, self.period.get().map_or(1, |period| period.0))?,
                latency: written.or(of.averaging).unwrap_or(0.0),
                includes_bytes,
            }),
            overlap: self.overlap.get().copied().unwrap_or(!of.real_gpu),
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

    /// Returns the profile's measured time of allreduces as a function of size, if `transport` names a transport of
    /// the profile; otherwise `Some(None)`. `None` if the profile has no such measurement.
    fn measured(&self, check: Check<'_>, bytes: u64, ranks: u32) -> Option<Option<TransportLaw>> {
        let transport = self.transport.get().and_then(TransportSettings::profile);
        let Some(transport) = transport.filter(|_| ranks > 1) else { return Some(None) };
        let wanted = MeasuredQuery { transport, collective: "allreduce", ranks, bytes: [bytes; 2] };
        measured::law(check, wanted).map(Some)
    }

    /// Remarks on keys that have no effect because of other keys.
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
            check.no_effect(name.at, why);
        }
        check.no_effect(self.library.at, why);
        check.no_effect(self.chunk.at, why);
    }

    /// Remarks that keys about exchanges between GPUs have no effect, because there is only one GPU.
    fn remark_network(&self, check: Check<'_>) {
        let why = "models on one GPU are averaged in its memory";
        for name in [&self.algorithm, &self.inner, &self.outer] {
            check.no_effect(name.at, why);
        }
        check.no_effect(self.library.at, why);
        check.no_effect(self.chunk.at, why);
        check.no_effect(self.transport.at, why);
        check.no_effect(self.fidelity.at, why);
    }

    fn chosen(&self) -> Chosen<'_> {
        let Self { algorithm, inner, outer, library, chunk, .. } = self;
        let level = Algorithm::Ring;
        let (operation, auto) = (Operation::Allreduce, transport::auto(&self.transport));
        Chosen { operation, algorithm, inner, outer, library, chunk, level, auto }
    }
}
