//! Settings of `[job.sync.allreduce]`.

use super::algorithm::{self, Chosen};
use super::bucketing::{BucketSize, Bucketing};
use super::compression::{self, Coding, CompressionSettings};
use super::elastic_averaging::MOST_STEPS;
use super::gradients::{self, Gradient, OfModel, fused};
use super::measured::{self, MeasuredQuery};
use super::named::{AlgorithmName, LibraryName};
use super::sent::{MOST_TENSORS, Precision, Sent};
use super::transport::{self, TransportSettings};
use super::{Bucket, Fidelity, Sync};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Amount, Count, Positive, Share};
use crate::role::Role;
use forebay_collective::{Algorithm, Operation};
use forebay_model::law::TransportLaw;
use forebay_model::units::{Size, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Gradients are added up among all model copies of a job copy; learners on the same GPU first add up theirs on
/// that GPU.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AllreduceSettings {
    /// Bytes of all gradients (default: those of the catalogue's model).
    #[schemars(extend("x-role" = Role::Limit))]
    gradients: Field<Positive<Size>>,
    /// Number of tensors of equal size that hold the gradients (default: not set, and buckets are cut anywhere).
    #[schemars(extend("x-role" = Role::Identity))]
    tensors: Field<Count<1, MOST_TENSORS>>,
    /// Floating-point format in which the gradients of the catalogue's model are reduced: "fp32" or "fp16" (default:
    /// that of `model.precision`).
    #[schemars(extend("x-role" = Role::Choice))]
    precision: Field<Precision>,
    /// Share of a step's time that backward takes, for gradients that are not the catalogue's (default: 2/3).
    #[schemars(extend("x-role" = Role::Identity))]
    backward: Field<Share>,
    /// Bytes of gradients that form a bucket, which is reduced as soon as backward has filled it, or "all": one
    /// bucket for all gradients (default: "25 MiB", and the first at 1 MiB, as PyTorch does, with `loader.pytorch`,
    /// otherwise "all").
    #[schemars(extend("x-role" = Role::Choice))]
    buckets: Field<BucketSize>,
    /// Tensor fusion: at regular times, reduce together the gradients that are ready, as Horovod does (default: not
    /// so).
    #[schemars(extend("x-role" = Role::Choice))]
    fusion: Field<FusionSettings>,
    /// Whether gradients are reduced while backward goes on; with `parallel.zero`, also whether parameters are gathered
    /// ahead, while those gathered before are used. Without, nothing that ranks send each other is hidden by computing,
    /// as with DeepSpeed's `overlap_comm = false` (default: true).
    #[schemars(extend("x-role" = Role::Choice))]
    overlap: Field<bool>,
    /// Updates from one averaging of parameters to the next, with nothing sent in between: local SGD (S. U. Stich,
    /// *Local SGD Converges Fast and Communicates Little*, ICLR 2019) (default: 1).
    #[schemars(extend("x-role" = Role::Choice))]
    period: Field<Count<1, MOST_STEPS>>,
    /// Compression of gradients before they are sent (default: none).
    #[schemars(extend("x-role" = Role::Choice))]
    compression: Field<CompressionSettings>,
    /// Algorithm of the collective: "ring", "binomial-tree", "recursive-doubling", "halving-doubling",
    /// "double-binary-tree", "hierarchical", "flat", "in-switch", or "auto" (default: "ring" with a `transport` of
    /// Gloo, gRPC or TCP, otherwise "auto").
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
    /// Maximum size of the pieces in which a tree or chain forwards a buffer (default: whole buckets).
    #[schemars(extend("x-role" = Role::Choice))]
    chunk: Field<Positive<Size>>,
    /// Transport that carries the gradients, and its costs in addition to the links' (default: nothing but the
    /// links).
    #[schemars(extend("x-role" = Role::Choice))]
    transport: Field<TransportSettings>,
    /// How the time of a collective is simulated: "flow": each transfer shares links with everything else;
    /// "analytic": the collective takes its time on an idle network; "auto": "flow" up to a million transfers in a
    /// step, otherwise "analytic" (default: "auto").
    #[schemars(extend("x-role" = Role::Output))]
    fidelity: Field<Fidelity>,
}

/// Defaults of Horovod's `HOROVOD_FUSION_THRESHOLD` and `HOROVOD_CYCLE_TIME` since version 0.21 [B, s]; before, they
/// were 64 MiB and 5 ms.
const FUSION_BUFFER: u64 = 128 << 20;
const FUSION_CYCLE: f64 = 1e-3;

/// Horovod's tensor fusion.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FusionSettings {
    /// Maximum number of bytes that are reduced together (default: 128 MiB).
    #[schemars(extend("x-role" = Role::Choice))]
    buffer: Field<Positive<Size>>,
    /// Time from one search for ready gradients to the next (default: 1 ms).
    #[schemars(extend("x-role" = Role::Choice))]
    cycle: Field<Amount<Time>>,
}

impl AllreduceSettings {
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId, of: &OfModel) -> Option<Sync> {
        self.remark(check, of);
        let gradients = self.sent().gradients(check, at, of)?;
        let transport = transport::resolve(&self.transport, check, of.latencies)?;
        let coding = compression::resolve(&self.compression, check)?;
        let mut buckets = self.buckets(check, at, &gradients, of);
        let mut decompress = 0.0;
        if let Some(coding) = &coding {
            self.refuse_sparse(check, at, coding);
            coding.compress(&mut buckets);
            decompress = coding.decompress(&buckets);
            coding.gather(&mut buckets, of.ranks);
        }
        let measured = self.measured(check, &buckets, of.ranks)?;
        let sparse = coding.is_some_and(|coding| coding.sparse);
        Some(Sync {
            buffer: self.buffer(),
            reduction: self.chosen(sparse).reduction(check, at)?,
            measured,
            fidelity: self.fidelity.get().copied().unwrap_or(Fidelity::Auto),
            interval: of.interval(check, at, self.period())?,
            sparse,
            decompress,
            parameters: of.parameters,
            overlap: self.overlap.get() != Some(&false),
            ..Sync::each_step(buckets, transport)
        })
    }

    pub(super) fn names_ways(&self) -> bool {
        let carried = self.transport.is_written() || self.fidelity.is_written();
        carried || self.fusion.is_written() || self.chosen(false).is_written()
    }

    /// Returns the number of updates from one exchange to the next.
    fn period(&self) -> u64 {
        self.period.get().map_or(1, |period| period.0)
    }

    fn refuse_sparse(&self, check: Check<'_>, at: NodeId, coding: &Coding) {
        let profile = self.transport.get().and_then(TransportSettings::profile);
        if let (true, Some(profile)) = (coding.sparse, profile) {
            let what = "the profile measured allreduces, but sparse gradients use allgather";
            let remedy =
                "write `compression.quantised`, or `latency` and `per_stream` instead of `profile`";
            check.wrong(profile.at.unwrap_or(at), what, remedy);
        }
    }

    fn sent(&self) -> Sent<'_> {
        let Self { gradients, tensors, precision, backward, .. } = self;
        Sent { key: "gradients", bytes: gradients, tensors, precision, backward }
    }

    /// Returns the profile's measured time of allreduces as a function of size, if `transport` names a transport of
    /// the profile; otherwise `Some(None)`. `None` if the profile has no such measurement.
    fn measured(
        &self,
        check: Check<'_>,
        buckets: &[Bucket],
        ranks: u32,
    ) -> Option<Option<TransportLaw>> {
        let transport = self.transport.get().and_then(TransportSettings::profile);
        let Some(transport) = transport.filter(|_| ranks > 1) else { return Some(None) };
        let least = buckets.iter().map(|bucket| bucket.bytes).min()?;
        let bytes = [least, gradients::most_together(buckets, self.buffer())];
        let wanted = MeasuredQuery { transport, collective: "allreduce", ranks, bytes };
        measured::law(check, wanted).map(Some)
    }

    /// Remarks on keys that have no effect because of other keys.
    fn remark(&self, check: Check<'_>, of: &OfModel) {
        self.sent().remark(check, of);
        if self.period() > 1 {
            check.no_effect(self.overlap.at, "parameters are averaged after the step");
        }
        let Some(measured) = self.transport.get().filter(|kind| kind.profile().is_some()) else {
            let sparse = matches!(self.compression.get(), Some(CompressionSettings::Sparse(_)));
            return algorithm::remark(check, &[self.chosen(sparse)]);
        };
        let why = "the profile says how long a collective takes";
        measured.remark(check);
        for name in [&self.algorithm, &self.inner, &self.outer] {
            check.no_effect(name.at, why);
        }
        check.no_effect(self.library.at, why);
        check.no_effect(self.chunk.at, why);
    }

    fn chosen(&self, sparse: bool) -> Chosen<'_> {
        let Self { algorithm, inner, outer, library, chunk, .. } = self;
        let level = Algorithm::Ring;
        let operation = if sparse { Operation::Allgather } else { Operation::Allreduce };
        let auto = transport::auto(&self.transport);
        Chosen { operation, algorithm, inner, outer, library, chunk, level, auto }
    }

    /// Returns the maximum number of bytes that fusion reduces together [B]; 0 without fusion.
    fn buffer(&self) -> u64 {
        let Some(fusion) = self.fusion.get() else { return 0 };
        fusion.buffer.get().map_or(FUSION_BUFFER, |size| size.0.round() as u64)
    }

    /// Remarks on keys that have no effect because there is only one bucket.
    fn remark_one(&self, check: Check<'_>, buckets: &[Bucket], of: &OfModel) {
        let [one] = buckets else { return };
        let measured = self.transport.get().is_some_and(|of| of.profile().is_some());
        let costs = self.transport.get().is_some_and(TransportSettings::counts_tensors);
        if !measured && !costs {
            check.no_effect(self.tensors.at, "all gradients are reduced together");
        }
        let after = one.ready >= 1.0 && !of.shards_gradients;
        if after && self.period() == 1 && self.overlap.get() == Some(&true) {
            check.no_effect(self.overlap.at, "all gradients are reduced together, after backward");
        }
    }

    /// Returns buckets of the size that the key `buckets` sets; if the key is not set, of the default size of the
    /// job's framework.
    fn bucketed(
        &self,
        check: Check<'_>,
        at: NodeId,
        gradients: &[Gradient],
        of: &OfModel,
    ) -> Vec<Bucket> {
        let written = self.buckets.get().copied();
        let (bucketing, [value, source]) = Bucketing::new(written, of.framework, self.period() > 1);
        if !self.buckets.is_written() {
            check.assume(at, "buckets", value, source);
        }
        let divisible = self.sent().divisible(of);
        let bytes = gradients.iter().map(|gradient| gradient.bytes).sum::<f64>();
        if let (Some(at), true) =
            (self.buckets.at, divisible.is_some() && bucketing.too_many(bytes))
        {
            let what = format!("{bytes:.1e} B would be in more than {MOST_TENSORS} buckets");
            check.wrong(at, what, "write larger `buckets`: \"25 MiB\"");
            return Vec::new();
        }
        let buckets = bucketing.buckets(gradients, divisible);
        if let (Some(BucketSize::Bytes(_)), [_]) = (written, &buckets[..]) {
            let why = match gradients {
                [_] if divisible.is_none() => "all gradients are one tensor, which is not split",
                _ => "all gradients fit into one bucket",
            };
            check.no_effect(self.buckets.at, why);
        }
        buckets
    }

    fn buckets(
        &self,
        check: Check<'_>,
        at: NodeId,
        gradients: &[Gradient],
        of: &OfModel,
    ) -> Vec<Bucket> {
        if let (Some(at), true) = (self.buckets.at, self.fusion.is_written()) {
            check.wrong(
                at,
                "gradients are reduced either by buckets or by fusion",
                "remove one of them",
            );
        }
        let buckets = match self.fusion.get() {
            Some(fusion) => {
                let cycle = fusion.cycle.get().map_or(FUSION_CYCLE, |time| time.0);
                let share = if of.step > 0.0 { cycle / of.step } else { 0.0 };
                fused(gradients, self.buffer() as f64, share)
            }
            None => self.bucketed(check, at, gradients, of),
        };
        self.remark_one(check, &buckets, of);
        buckets
    }
}
