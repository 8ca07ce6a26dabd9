//! Recursive halving and doubling (Rabenseifner; Thakur, Rabenseifner and Gropp 2005): steps
//! around the patterns of [`super::recursive_doubling`].

use super::part::{Shape, Step};
use super::recursive_doubling::{Doubling, Exchange, Fold, Folded, extra};
use super::shards::Shards;
use super::transfer::Kind;

/// Parts to the odd ranks, doubling among those left, the others' parts back.
pub(super) fn allgather(shards: &Shards) -> Vec<Step> {
    let joined = shards.paired(extra(shards.parts()));
    let fold = |what| Step::new(Shape::Fold(Fold { shards: shards.clone(), what }));
    let doubling = doubling(joined);
    vec![fold(Folded::Own), doubling, fold(Folded::Others).backwards(Kind::Copy)]
}

/// Halving, then doubling.
pub(super) fn allreduce(shards: &Shards) -> Vec<Step> {
    let left = Shards::fair(shards.bytes(), shards.parts() - extra(shards.parts()));
    let doubling = doubling(left);
    around(shards, vec![doubling.clone().backwards(Kind::Reduce), doubling])
}

/// All of it to and fro.
pub(super) fn exchange(shards: &Shards) -> Vec<Step> {
    let ranks = shards.parts() - extra(shards.parts());
    let exchange = Shape::Exchange(Exchange { ranks, bytes: shards.bytes() });
    around(shards, vec![Step { folded: true, ..Step::new(exchange) }])
}

fn doubling(shards: Shards) -> Step {
    Step { folded: true, ..Step::new(Shape::Doubling(Doubling { shards })) }
}

/// All of it to the odd ranks before, and back after.
fn around(shards: &Shards, between: Vec<Step>) -> Vec<Step> {
    let fold = Step::new(Shape::Fold(Fold { shards: shards.clone(), what: Folded::Whole }));
    let there = Step { kind: Some(Kind::Reduce), ..fold.clone() };
    [vec![there], between, vec![fold.backwards(Kind::Copy)]].concat()
}
