//! Recursive halving and doubling (Rabenseifner; Thakur, Rabenseifner and Gropp 2005): steps
//! around the patterns of [`super::recursive_doubling`].
//!
//! An allreduce halves its vector while distances double: half of the buffer to the rank beside, a quarter
//! to the one two away, and so on, then doubles it back the same way (MPICH,
//! `allreduce_intra_reduce_scatter_allgather.c`: "beginning with processes that are distance 1 apart"; Open
//! MPI's `redscat_allgather`; Gloo's `allreduce_halving_doubling.h`: mask `1 << i`, from i = 0). With the
//! ranks of a node beside each other, large pieces stay inside it and only small ones go across: of p ranks
//! in nodes of g, both powers of two, every rank sends 2 (1 − 1/g) n inside and 2 (1/g − 1/p) n across, so
//! that a node's network carries 2 (1 − g/p) n each way.
//!
//! A reduction to one rank halves the same way, and gathers what is left back along it.
//!
//! A reduce-scatter and an allgather of their own leave rank r with part r, or begin so, and therefore
//! meet the other way round, as in MPICH (`reduce_scatter_intra_recursive_halving.c`,
//! `allgather_intra_recursive_doubling.c`): there the farthest ranks exchange half of the buffer.

use super::part::{Shape, Step};
use super::recursive_doubling::{Doubling, Exchange, Fold, Folded, Owned, extra};
use super::scatter_allgather::Halves;
use super::shards::Shards;
use super::transfer::Kind;

/// Parts to the odd ranks, doubling among those left, the others' parts back.
pub(super) fn allgather(shards: &Shards) -> Vec<Step> {
    let joined = shards.paired(extra(shards.parts()));
    let fold = |what| Step::new(Shape::Fold(Fold { shards: shards.clone(), what }));
    let doubling = doubling(joined, Owned::ByRank);
    vec![fold(Folded::Own), doubling, fold(Folded::Others).backwards(Kind::Copy)]
}

/// Halving, then doubling.
pub(super) fn allreduce(shards: &Shards) -> Vec<Step> {
    let left = Shards::fair(shards.bytes(), shards.parts() - extra(shards.parts()));
    let doubling = doubling(left, Owned::ByReversedRank);
    around(shards, vec![doubling.clone().backwards(Kind::Reduce), doubling])
}

/// Halving as an allreduce does it, then a gather to rank 0 (MPICH, `reduce_intra_reduce_scatter_gather.c`); none
/// where ranks beyond a power of two are folded in, rank 0 among them.
pub(super) fn reduce(shards: &Shards) -> Option<Vec<Step>> {
    let (shards, owned) = (shards.clone(), Owned::ByReversedRank);
    let gather = Step::new(Shape::Halves(Halves { shards: shards.clone(), owned }));
    let power = extra(shards.parts()) == 0;
    let halving = doubling(shards, owned).backwards(Kind::Reduce);
    power.then(|| vec![halving, gather.backwards(Kind::Copy)])
}

/// All of it to and fro.
pub(super) fn exchange(shards: &Shards) -> Vec<Step> {
    let ranks = shards.parts() - extra(shards.parts());
    let exchange = Shape::Exchange(Exchange { ranks, bytes: shards.bytes() });
    around(shards, vec![Step { folded: true, ..Step::new(exchange) }])
}

fn doubling(shards: Shards, owned: Owned) -> Step {
    Step { folded: true, ..Step::new(Shape::Doubling(Doubling { shards, owned })) }
}

/// All of it to the odd ranks before, and back after.
fn around(shards: &Shards, between: Vec<Step>) -> Vec<Step> {
    let fold = Step::new(Shape::Fold(Fold { shards: shards.clone(), what: Folded::Whole }));
    let there = Step { kind: Some(Kind::Reduce), ..fold.clone() };
    [vec![there], between, vec![fold.backwards(Kind::Copy)]].concat()
}
