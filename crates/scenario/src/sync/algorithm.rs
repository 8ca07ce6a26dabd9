//! How a scenario file states the algorithm of a collective.

use super::Reduction;
use super::named::{AlgorithmName, LibraryName, Name};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::Positive;
use forebay_collective::{Algorithm, Operation};
use forebay_model::units::Size;

/// The keys of a sync table that state how an operation is done.
#[derive(Clone, Copy)]
pub(super) struct Chosen<'s> {
    pub(super) operation: Operation,
    pub(super) algorithm: &'s Field<AlgorithmName>,
    pub(super) inner: &'s Field<AlgorithmName>,
    pub(super) outer: &'s Field<AlgorithmName>,
    pub(super) library: &'s Field<LibraryName>,
    pub(super) chunk: &'s Field<Positive<Size>>,
    /// Default algorithm of each level of a hierarchy: inside nodes and across nodes.
    pub(super) level: Algorithm,
    /// How the operation is done if none of these keys is set, and the source of this default.
    pub(super) auto: (Reduction, &'static str),
}

impl Chosen<'_> {
    /// Returns whether any of these keys is set.
    pub(super) fn is_written(&self) -> bool {
        let named = [self.algorithm, self.inner, self.outer].into_iter().any(Field::is_written);
        named || self.library.is_written() || self.chunk.is_written()
    }

    fn named(&self) -> Option<Algorithm> {
        self.algorithm.get().and_then(|name| name.0)
    }

    /// Returns whether the chosen algorithm sends a buffer in pieces, so that `chunk` makes a difference.
    fn is_pipelined(&self) -> bool {
        let of = |algorithm: Algorithm| {
            algorithm == Algorithm::Hierarchical || algorithm.is_pipelined(self.operation)
        };
        self.named().is_some_and(of)
    }

    /// Returns the algorithm of one level, inside nodes or across nodes; reports a problem and returns `None` if it
    /// is hierarchical or "auto".
    fn level(&self, check: Check<'_>, name: &Field<AlgorithmName>) -> Option<Algorithm> {
        let Some((at, name)) = name.given() else {
            return (!name.is_written()).then_some(self.level);
        };
        let algorithm = name.0.filter(|algorithm| *algorithm != Algorithm::Hierarchical);
        if algorithm.is_none() {
            let what = "a level of \"hierarchical\" needs a plain algorithm";
            check.wrong(at, what, "write \"ring\" or \"halving-doubling\"");
        }
        algorithm
    }

    /// Returns how the operation is done by default, and records this default as an assumption.
    fn assumed(&self, check: Check<'_>, at: NodeId) -> Reduction {
        let (reduction, source) = self.auto;
        if !self.library.is_written() {
            match reduction {
                Reduction::Auto(library) => {
                    check.assume(at, "algorithm", "auto", source);
                    check.assume(at, "library", library.name(), source);
                }
                Reduction::By { algorithm, .. } => {
                    check.assume(at, "algorithm", algorithm.name(), source);
                }
            }
        }
        reduction
    }

    pub(super) fn reduction(&self, check: Check<'_>, at: NodeId) -> Option<Reduction> {
        let chunk = self.chunk.get().map(|size| (size.0.round() as u64).max(1));
        match self.algorithm.given() {
            None if self.algorithm.is_written() => None,
            None | Some((_, Name(None))) => Some(
                self.library
                    .get()
                    .map_or_else(|| self.assumed(check, at), |library| Reduction::Auto(library.0)),
            ),
            Some((at, Name(Some(algorithm)))) => {
                let algorithm = *algorithm;
                if !algorithm.offers(self.operation) {
                    let (name, what) = (algorithm.name(), self.operation.name());
                    let remedy = "write \"ring\", \"halving-doubling\" or \"auto\"";
                    check.wrong(
                        at,
                        format!("the algorithm `{name}` does not support `{what}`"),
                        remedy,
                    );
                    return None;
                }
                let inner = self.level(check, self.inner)?;
                let outer = self.level(check, self.outer)?;
                Some(Reduction::By { algorithm, levels: (inner, outer), chunk })
            }
        }
    }
}

/// Remarks on keys that have no effect because of other keys. The operations `all` share one set of keys.
pub(super) fn remark(check: Check<'_>, all: &[Chosen<'_>]) {
    let Some(first) = all.first() else { return };
    if all.iter().all(|one| one.named().is_none()) {
        check.no_effect(first.chunk.at, "the library chooses the chunk size");
    } else if !all.iter().any(Chosen::is_pipelined) {
        check.no_effect(first.chunk.at, "the algorithm does not work in chunks");
    }
    if all.iter().all(|one| one.named().is_some()) {
        check.no_effect(first.library.at, "the algorithm is written");
    }
    if all.iter().all(|one| one.named() != Some(Algorithm::Hierarchical)) {
        check.no_effect(first.inner.at, "the algorithm is not \"hierarchical\"");
        check.no_effect(first.outer.at, "the algorithm is not \"hierarchical\"");
    }
}
