//! Recursive halving and doubling (Rabenseifner; Thakur, Rabenseifner and Gropp 2005): steps built from the patterns of
//! [`super::recursive_doubling`].
//!
//! In an allreduce, each rank first sends half of its buffer to the adjacent rank, then a quarter to the rank at
//! distance 2, and so on. The blocks then double again along the same pairs in reverse order (MPICH,
//! `allreduce_intra_reduce_scatter_allgather.c`: "beginning with processes that are distance 1 apart"; Open MPI's
//! `redscat_allgather`; Gloo's `allreduce_halving_doubling.h`: mask `1 << i`, from i = 0). If the ranks of a node are
//! adjacent, large pieces stay inside the node and only small ones go across nodes: with p ranks in nodes of g ranks,
//! both powers of two, every rank sends 2 (1 − 1/g) n inside and 2 (1/g − 1/p) n across, so that a node's network
//! carries 2 (1 − g/p) n each way.
//!
//! A reduction to one rank halves in the same way, and then gathers the parts back along the same pairs.
//!
//! A separate reduce-scatter must end with part r on rank r, and a separate allgather must begin in this state. In
//! both, the pairs therefore meet in the opposite order, as in MPICH (`reduce_scatter_intra_recursive_halving.c`,
//! `allgather_intra_recursive_doubling.c`): the farthest ranks exchange half of the buffer.

use super::part::{Shape, Step};
use super::recursive_doubling::{Doubling, Exchange, Fold, Folded, Owned, extra};
use super::scatter_allgather::Halves;
use super::shards::Shards;
use super::transfer::Kind;

/// Returns the steps of an allgather: the even ranks of the first pairs send their parts to the odd ones, the
/// remaining ranks run recursive doubling, and the even ranks then get all other parts back.
pub(super) fn allgather(shards: &Shards) -> Vec<Step> {
    let joined = shards.paired(extra(shards.parts()));
    let fold = |what| Step::new(Shape::Fold(Fold { shards: shards.clone(), what }));
    let doubling = doubling(joined, Owned::ByRank);
    vec![fold(Folded::Own), doubling, fold(Folded::Others).backwards(Kind::Copy)]
}

/// Returns the steps of an allreduce: halving, then doubling.
pub(super) fn allreduce(shards: &Shards) -> Vec<Step> {
    let left = Shards::fair(shards.bytes(), shards.parts() - extra(shards.parts()));
    let doubling = doubling(left, Owned::ByReversedRank);
    around(shards, vec![doubling.clone().backwards(Kind::Reduce), doubling])
}

/// Returns the steps of a reduction to rank 0: halving as in an allreduce, then a gather (MPICH,
/// `reduce_intra_reduce_scatter_gather.c`). `None` if ranks beyond a power of two are folded in, because rank 0 would
/// then be among the folded ranks and could not receive the parts.
pub(super) fn reduce(shards: &Shards) -> Option<Vec<Step>> {
    let (shards, owned) = (shards.clone(), Owned::ByReversedRank);
    let gather = Step::new(Shape::Halves(Halves { shards: shards.clone(), owned }));
    let power = extra(shards.parts()) == 0;
    let halving = doubling(shards, owned).backwards(Kind::Reduce);
    power.then(|| vec![halving, gather.backwards(Kind::Copy)])
}

/// Returns the steps of an allreduce in which pairs exchange whole buffers.
pub(super) fn exchange(shards: &Shards) -> Vec<Step> {
    let ranks = shards.parts() - extra(shards.parts());
    let exchange = Shape::Exchange(Exchange { ranks, bytes: shards.bytes() });
    around(shards, vec![Step { folded: true, ..Step::new(exchange) }])
}

fn doubling(shards: Shards, owned: Owned) -> Step {
    Step { folded: true, ..Step::new(Shape::Doubling(Doubling { shards, owned })) }
}

/// Adds a step before and a step after `between`. Before, the even ranks of the first pairs send the whole buffer to
/// the odd ranks, which add it to their own; after, the even ranks get the whole buffer back.
fn around(shards: &Shards, between: Vec<Step>) -> Vec<Step> {
    let fold = Step::new(Shape::Fold(Fold { shards: shards.clone(), what: Folded::Whole }));
    let there = Step { kind: Some(Kind::Reduce), ..fold.clone() };
    [vec![there], between, vec![fold.backwards(Kind::Copy)]].concat()
}
