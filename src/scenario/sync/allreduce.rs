//! How `[job.sync.allreduce]` is written.

use super::gradients::{Gradient, OfModel, even, filled, fused};
use super::transport::{self, TransportSettings};
use super::{Bucket, Fidelity, Reduction, Sync};
use crate::collective::{Algorithm, Library, Operation};
use crate::scenario::check::Check;
use crate::scenario::document::NodeId;
use crate::scenario::field::Field;
use crate::scenario::number::{Amount, Count, Positive, Share};
use crate::units::{Size, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Most tensors, and most buckets.
const MOST_TENSORS: u64 = 100_000;

/// Gradients are added up among all model copies of a job copy.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct AllreduceSettings {
    /// Bytes of all gradients (default: those of the catalogue's model).
    gradients: Field<Positive<Size>>,
    /// Tensors that they are in, of equal size (default: 1).
    tensors: Field<Count<1, MOST_TENSORS>>,
    /// In which floats the catalogue's gradients are reduced: "fp32" or "fp16" (default: "fp32").
    precision: Field<Precision>,
    /// Share of a step that backward takes, of gradients that are given (default: 2/3).
    backward: Field<Share>,
    /// Reduce gradients when so many bytes are there, while backward goes on, as PyTorch does (default:
    /// all together).
    buckets: Field<Positive<Size>>,
    /// Reduce every so often what is there, as Horovod does (default: not so).
    fusion: Field<FusionSettings>,
    /// Reduce while backward goes on (default: true).
    overlap: Field<bool>,
    /// How: "ring", "binomial-tree", "recursive-doubling", "halving-doubling", "double-binary-tree",
    /// "hierarchical", "flat", "in-switch", or "auto" (default: "auto").
    algorithm: Field<AlgorithmName>,
    /// Of "hierarchical": how inside nodes (default: "ring").
    inner: Field<AlgorithmName>,
    /// Of "hierarchical": how across nodes (default: "ring").
    outer: Field<AlgorithmName>,
    /// Whose choice "auto" is (default: "nccl").
    library: Field<LibraryName>,
    /// Longest piece that goes through a tree on its own (default: whole buckets).
    chunk: Field<Positive<Size>>,
    /// What carries them (default: nothing but the links).
    transport: Field<TransportSettings>,
    /// Whether each transfer shares links with everything else: "flow", or takes its time on an idle
    /// network: "analytic" (default: "flow").
    fidelity: Field<Fidelity>,
}

/// Floats that are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Precision {
    /// Of 32 bits.
    Fp32,
    /// Of 16 bits.
    Fp16,
}

/// Horovod's tensor fusion.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FusionSettings {
    /// Most that is reduced together (default: 64 MiB).
    buffer: Field<Positive<Size>>,
    /// Time from one look to the next (default: 5 ms).
    cycle: Field<Amount<Time>>,
}

/// An algorithm, or the choice of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum AlgorithmName {
    Auto,
    Flat,
    BinomialTree,
    ScatterAllgather,
    Ring,
    RecursiveDoubling,
    HalvingDoubling,
    Bruck,
    DoubleBinaryTree,
    Hierarchical,
    InSwitch,
}

/// Whose tables choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum LibraryName {
    Nccl,
    Mpich,
    OpenMpi,
}

impl AlgorithmName {
    fn algorithm(self) -> Option<Algorithm> {
        Some(match self {
            Self::Auto => return None,
            Self::Flat => Algorithm::Flat,
            Self::BinomialTree => Algorithm::BinomialTree,
            Self::ScatterAllgather => Algorithm::ScatterAllgather,
            Self::Ring => Algorithm::Ring,
            Self::RecursiveDoubling => Algorithm::RecursiveDoubling,
            Self::HalvingDoubling => Algorithm::HalvingDoubling,
            Self::Bruck => Algorithm::Bruck,
            Self::DoubleBinaryTree => Algorithm::DoubleBinaryTree,
            Self::Hierarchical => Algorithm::Hierarchical,
            Self::InSwitch => Algorithm::InSwitch,
        })
    }
}

impl AllreduceSettings {
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId, of: &OfModel) -> Option<Sync> {
        self.remark(check, of);
        let gradients = self.gradients(check, at, of)?;
        let transport = transport::resolve(&self.transport, check, of.latencies)?;
        Some(Sync {
            buckets: self.buckets(check, &gradients, of),
            buffer: self.buffer(),
            reduction: self.reduction(check)?,
            transport,
            fidelity: self.fidelity.get().copied().unwrap_or(Fidelity::Flow),
        })
    }

    /// What is written beside something that makes it idle.
    fn remark(&self, check: Check<'_>, of: &OfModel) {
        if self.gradients.is_written() {
            check.no_effect(&self.precision, "`gradients` says how many bytes are sent");
        } else if !of.gradients.is_empty() {
            check.no_effect(&self.tensors, "the catalogue knows the model's layers");
            check.no_effect(&self.backward, "the catalogue knows the model's layers");
        }
        match self.algorithm.get() {
            None | Some(AlgorithmName::Auto) => {
                check.no_effect(&self.chunk, "the library says how long pieces are");
            }
            Some(_) => check.no_effect(&self.library, "`algorithm` says how"),
        }
        if self.algorithm.get() != Some(&AlgorithmName::Hierarchical) {
            check.no_effect(&self.inner, "`algorithm` is not \"hierarchical\"");
            check.no_effect(&self.outer, "`algorithm` is not \"hierarchical\"");
        }
    }

    fn gradients(&self, check: Check<'_>, at: NodeId, of: &OfModel) -> Option<Vec<Gradient>> {
        let backward = self.backward.get().map_or(2.0 / 3.0, |share| share.0);
        if self.gradients.is_written() || of.gradients.is_empty() {
            let remedy = "write `gradients = \"102 MB\"`";
            let bytes = check.required(at, &self.gradients, "gradients", remedy)?.0;
            let tensors = self.tensors.get().map_or(1, |tensors| tensors.small());
            return Some(even(bytes, tensors, backward));
        }
        let part = if self.precision.get() == Some(&Precision::Fp16) { 0.5 } else { 1.0 };
        let halved = |gradient: &Gradient| Gradient { bytes: part * gradient.bytes, ..*gradient };
        Some(of.gradients.iter().map(halved).collect())
    }

    /// What is reduced together at most [B].
    fn buffer(&self) -> u64 {
        let Some(fusion) = self.fusion.get() else { return 0 };
        fusion.buffer.get().map_or(64 << 20, |size| size.0.round() as u64)
    }

    fn buckets(&self, check: Check<'_>, gradients: &[Gradient], of: &OfModel) -> Vec<Bucket> {
        if let (Some(at), true) = (self.buckets.at, self.fusion.is_written()) {
            check.wrong(
                at,
                "gradients are reduced either by buckets or by fusion",
                "remove one of them",
            );
        }
        let mut buckets = match self.fusion.get() {
            Some(fusion) => {
                let cycle = fusion.cycle.get().map_or(5e-3, |time| time.0);
                let share = if of.step > 0.0 { cycle / of.step } else { 0.0 };
                fused(gradients, self.buffer() as f64, share)
            }
            None => filled(gradients, self.buckets.get().map_or(f64::INFINITY, |size| size.0)),
        };
        if self.overlap.get() == Some(&false) {
            buckets.iter_mut().for_each(|bucket| bucket.ready = bucket.ready.max(1.0));
        }
        buckets
    }

    /// How the ranks inside nodes or across them reduce.
    fn level(&self, check: Check<'_>, name: &Field<AlgorithmName>) -> Option<Algorithm> {
        let Some((at, name)) = name.given() else {
            return (!name.is_written()).then_some(Algorithm::Ring);
        };
        let algorithm = name.algorithm().filter(|algorithm| *algorithm != Algorithm::Hierarchical);
        if algorithm.is_none() {
            check.wrong(
                at,
                "a level has an algorithm of its own",
                "write \"ring\" or \"halving-doubling\"",
            );
        }
        algorithm
    }

    fn reduction(&self, check: Check<'_>) -> Option<Reduction> {
        let chunk = self.chunk.get().map(|size| (size.0.round() as u64).max(1));
        match self.algorithm.given() {
            None if self.algorithm.is_written() => None,
            None | Some((_, AlgorithmName::Auto)) => {
                Some(Reduction::Auto(match self.library.get() {
                    None | Some(LibraryName::Nccl) => Library::Nccl,
                    Some(LibraryName::Mpich) => Library::Mpich,
                    Some(LibraryName::OpenMpi) => Library::OpenMpi,
                }))
            }
            Some((at, name)) => {
                let algorithm = name.algorithm()?;
                if !algorithm.offers(Operation::Allreduce) {
                    let what = format!("`{}` does no allreduce", algorithm.name());
                    check.wrong(at, what, "write \"ring\", \"halving-doubling\" or \"auto\"");
                    return None;
                }
                let inner = self.level(check, &self.inner)?;
                let outer = self.level(check, &self.outer)?;
                Some(Reduction::By { algorithm, levels: (inner, outer), chunk })
            }
        }
    }
}
