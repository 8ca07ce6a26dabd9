//! What the profile has measured of collectives.

use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::names::choose;
use crate::profile::Fit;
use crate::reading::time;
use forebay_model::law::TransportLaw;
use std::collections::BTreeMap;

/// What is wanted of the profile.
#[derive(Debug, Clone, Copy)]
pub(super) struct MeasuredQuery<'a> {
    /// Its name of a transport.
    pub(super) transport: &'a Field<String>,
    /// The collective: `allreduce`.
    pub(super) collective: &'static str,
    pub(super) ranks: u32,
    /// The smallest and the largest of what is reduced together [B].
    pub(super) bytes: [u64; 2],
}

/// The law of a collective that the scenario's profile has measured among so many ranks.
pub(super) fn law(check: Check<'_>, wanted: MeasuredQuery<'_>) -> Option<TransportLaw> {
    let (at, name) = wanted.transport.given()?;
    let Some(profile) = check.profile else {
        let remedy = "write `profile = \"network.toml\"` first, as `forebay import` wrote it with \
                      `--format profile`";
        // One that cannot be read was told of.
        if check.find(&["profile"]).is_none() {
            check.wrong(at, "the scenario names no profile", remedy);
        }
        return None;
    };
    let Some(kinds) = profile.transport.get(name) else {
        let names: Vec<&str> = profile.transport.keys().map(String::as_str).collect();
        let remedy = if names.is_empty() {
            "fit measurements first: `forebay import nccl-tests FILE --format profile`".to_owned()
        } else {
            choose(name, &names)
        };
        check.wrong(at, format!("the profile has no transport {name:?}"), remedy);
        return None;
    };
    let kind = format!("{}-{}", wanted.collective, wanted.ranks);
    let Some(fit) = kinds.get(&kind) else {
        refuse_ranks(check, at, wanted, kinds);
        return None;
    };
    let part = format!("transport.{name}.{kind}");
    for bytes in wanted.bytes {
        check.in_range(&part, fit, "bytes", "the size of a bucket of gradients", bytes as f64);
    }
    of_fit(fit)
}

/// Nothing between two numbers of ranks is made up: they may be on one node more.
fn refuse_ranks(
    check: Check<'_>,
    at: NodeId,
    wanted: MeasuredQuery<'_>,
    kinds: &BTreeMap<String, Fit>,
) {
    let MeasuredQuery { collective, ranks, .. } = wanted;
    let ranks_of = |kind: &String| kind.strip_prefix(collective)?.strip_prefix('-')?.parse().ok();
    let mut known: Vec<u32> = kinds.keys().filter_map(ranks_of).collect();
    known.sort_unstable();
    let known: Vec<String> = known.iter().map(u32::to_string).collect();
    let what = format!("the profile has no {collective} of {ranks} ranks");
    let remedy = if known.is_empty() {
        format!("measure and import {collective}")
    } else {
        let known = known.join(", ");
        format!("write `nodes` and `copies_per_node` of {known} ranks in all, or measure {ranks}")
    };
    check.wrong(at, what, remedy);
}

/// Draws of times may stray below zero.
fn of_fit(fit: &Fit) -> Option<TransportLaw> {
    let mut fit = fit.clone();
    let times = fit.parameters.values_mut().filter(|parameter| parameter.unit != "B");
    times.for_each(|parameter| parameter.value = time(parameter.value));
    fit.transport()
}
