//! How long collectives take on an idle network, by formula.
//!
//! The network is full duplex and each rank has a link out and a link in. With p ranks, n bytes, C
//! chunks of n/C, and L = ⌈log₂ p⌉:
//!
//! | | time | source |
//! |---|---|---|
//! | flat broadcast | (p − 1)(α + nβ) | Pješivac-Grbović et al. 2007 |
//! | chain | (p − 2 + C)(α + n/C β) | the same |
//! | binomial tree | (L − 1 + C)α + L n β | Thakur et al. 2005 for C = 1; each further chunk adds a phase |
//! | scatter, then ring | (L + p − 1)α + 2 (p − 1)/p n β | Thakur et al. |
//! | scatter, then doubling | 2Lα + 2 (p − 1)/p n β | Thakur et al. |
//! | two trees | (C + H)(α + n/C β), H = ⌊log₂(p − 1)⌋ | Sanders et al. 2009; one phase here is two of their steps |
//! | two trees, allreduce | (C + 2D − 1)α + 2 (C + D − 1) n/C β + (C + D − 1) n/C γ, D edges from the root to the lowest leaf | the same; up and down overlap |
//! | ring allgather | (p − 1)(α + n/p β) | Thakur et al. |
//! | doubling, Bruck | Lα + (p − 1)/p n β | Thakur et al. |
//! | ring allreduce | 2(p − 1)α + 2 (p − 1)/p n β + (p − 1)/p n γ | Patarasu and Yuan 2009 |
//! | doubling allreduce | L(α + n(β + γ)) | Thakur et al. |
//! | halving, doubling | 2Lα + 2 (p − 1)/p n β + (p − 1)/p n γ | Thakur et al. |
//! | pairwise exchange | (p − 1)(α + n/p β) | Thakur et al. |
//! | Bruck's exchange | L α + L n/2 β | Thakur et al. |
//! | in the switch | (C + 1)(α + n/C β) | each chunk goes up in one phase and down in the next |
//!
//! (Pješivac-Grbović et al., *Performance analysis of MPI collective operations*, 2007; Thakur,
//! Rabenseifner and Gropp, *Optimization of collective communication operations in MPICH*, 2005, whose
//! costs stand in the comments of MPICH's sources too; Patarasu and Yuan, *Bandwidth optimal all-reduce
//! algorithms for clusters of workstations*, 2009.)
//!
//! Reductions take as long as broadcasts, plus γ for each byte reduced on the rank that reduces the most. If there are
//! ranks beyond a power of two, the time for folding them in is added.
//!
//! The formulas are exact if all parts have the same length. Two cases are only upper bounds: two trees that are not
//! full, and an allreduce by two trees. For an allreduce by two trees over nodes with several ranks, D includes the
//! edges of the chains inside nodes. A rank in a chain has one child more, so the factor of β is 5/2 instead of 2 and
//! the factor of γ is 3/2 instead of 1. With one channel, α, β and γ are then each the greater of the values inside
//! nodes and across nodes.

mod terms;

use super::pattern::log_up;
use super::{Across, Algorithm, Collective, Invalid, Levels, Operation};
use terms::Terms;

/// Costs of a transfer: latency, time per byte sent, and time per byte reduced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Latency of each transfer [s].
    pub alpha: f64,
    /// Time for a byte over a link [s/B].
    pub beta: f64,
    /// Time to reduce a byte [s/B].
    pub gamma: f64,
}

/// Returns the time of a collective on an idle network [s], by the formulas of textbooks. `inner` is the cost of the
/// network inside groups or nodes, `outer` the cost of the network across them. A collective without groups and without
/// nodes uses `outer` alone.
///
/// # Errors
/// Reports why the collective is not valid, as [`Collective::check`] does.
pub fn closed_form(collective: &Collective, inner: &Cost, outer: &Cost) -> Result<f64, Invalid> {
    collective.check()?;
    let channels = collective.used_channels();
    Ok(match &collective.levels {
        Some(levels) => grouped(collective, levels, inner, outer)?,
        None if channels == 1 => whole(
            collective,
            (collective.bytes, collective.chunk),
            &cost(collective, inner, outer),
        )?,
        // Channels share the links inside a node, and each has its own NIC. The slower of the two levels decides.
        None => {
            let chunk = collective.chunk.map(|chunk| chunk.saturating_mul(channels));
            let inside = whole(collective, (collective.bytes, chunk), inner)?;
            let each = collective.bytes.div_ceil(channels);
            inside.max(whole(collective, (each, collective.chunk), outer)?)
        }
    })
}

/// Returns the time of a collective without groups [s], with `bytes` in chunks of `chunk`, over links that are all
/// alike.
fn whole(
    collective: &Collective,
    (bytes, chunk): (u64, Option<u64>),
    cost: &Cost,
) -> Result<f64, Invalid> {
    let terms = Terms::new(collective.ranks.into(), bytes, chunk, cost);
    terms.on(&collective.nodes).seconds(collective.algorithm, collective.operation)
}

/// Returns the one cost by which all transfers of a collective without groups are computed: `outer`, or, if the
/// collective has `nodes`, the greater of `inner` and `outer` in each field.
fn cost(collective: &Collective, inner: &Cost, outer: &Cost) -> Cost {
    if collective.nodes.is_empty() {
        return *outer;
    }
    Cost {
        alpha: inner.alpha.max(outer.alpha),
        beta: inner.beta.max(outer.beta),
        gamma: inner.gamma.max(outer.gamma),
    }
}

/// Returns the time of a collective in groups [s]: inside the slowest group, then across groups, then inside again.
fn grouped(
    collective: &Collective,
    levels: &Levels,
    inner: &Cost,
    outer: &Cost,
) -> Result<f64, Invalid> {
    let (bytes, chunk) = (collective.bytes, collective.chunk);
    let size = levels.groups.iter().copied().max().map_or(1, u64::from);
    let (groups, ranks) = (levels.groups.len() as u64, u64::from(collective.ranks));
    let terms = |ranks, bytes, cost| Terms::new(ranks, bytes, chunk, cost);
    let part = bytes.div_ceil(ranks) as f64;
    if collective.operation == Operation::AllToAll {
        // Inside a group, a message has what one rank has for all ranks of one index; across groups, what a group has
        // for one rank.
        let inside = terms(size, bytes, inner).of_parts(groups as f64 * part, 0.0);
        let across = terms(groups, bytes, outer).of_parts(size as f64 * part, 0.0);
        let each = [inside, across].map(|t| t.seconds(Algorithm::Flat, Operation::AllToAll));
        return each.into_iter().sum();
    }
    let (inside, across) = levels.operations(collective.operation);
    let same = levels.across == Across::SameIndex;
    let mut outside = terms(groups, if same { bytes.div_ceil(size) } else { bytes }, outer);
    let mut gather = 0.0;
    if matches!(across, Operation::Allgather | Operation::ReduceScatter) && bytes > 0 {
        outside = outside.of_parts(part * size as f64, smallest(collective, levels));
        gather = log_up(size) as f64 * inner.alpha + (size - 1) as f64 * part * inner.beta;
    }
    let mut sizes: Vec<u64> = levels.groups.iter().map(|&size| size.into()).collect();
    sizes.dedup();
    // All sizes are tried: three ranks may take longer than four, because one of the three is folded in.
    let slowest = |op: Operation| {
        let mut each =
            sizes.iter().map(|&size| terms(size, bytes, inner).seconds(levels.inner, op));
        each.try_fold(0.0, |slowest: f64, seconds| Ok(slowest.max(seconds?)))
    };
    let inside: f64 = inside.into_iter().map(slowest).sum::<Result<f64, Invalid>>()?;
    Ok(inside + outside.seconds(levels.outer, across)? + gather)
}

/// Returns a lower bound for the number of bytes that belong to the smallest group's ranks [B].
fn smallest(collective: &Collective, levels: &Levels) -> f64 {
    let least = levels.groups.iter().copied().min().unwrap_or(0);
    f64::from(least) * (collective.bytes / u64::from(collective.ranks)) as f64
}
