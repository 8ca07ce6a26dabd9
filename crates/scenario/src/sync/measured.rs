//! Measured times of collectives, from the scenario's profile.

use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::names::choose;
use crate::profile::Fit;
use crate::reading::time;
use forebay_model::law::TransportLaw;
use std::collections::BTreeMap;

/// Query for the profile's law of a collective.
#[derive(Debug, Clone, Copy)]
pub(super) struct MeasuredQuery<'a> {
    /// The key that names a transport of the profile.
    pub(super) transport: &'a Field<String>,
    /// The collective: `allreduce`.
    pub(super) collective: &'static str,
    pub(super) ranks: u32,
    /// Minimum and maximum number of bytes that are reduced together [B].
    pub(super) bytes: [u64; 2],
}

/// Returns the law that the scenario's profile has for a collective of this many ranks; reports a problem and
/// returns `None` if the profile has no such law.
pub(super) fn law(check: Check<'_>, wanted: MeasuredQuery<'_>) -> Option<TransportLaw> {
    let (at, name) = wanted.transport.given()?;
    let Some(profile) = check.profile else {
        let remedy = "write `profile = \"network.toml\"` first, as `forebay import` wrote it with \
                      `--format profile`";
        // A profile that cannot be read has already been reported.
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
        remark_beyond(check, &part, fit, bytes as f64);
    }
    of_fit(fit)
}

/// Remarks that a bucket of `bytes` [B] lies beyond the measured sizes, and how far the law that then holds is from these.
fn remark_beyond(check: Check<'_>, part: &str, fit: &Fit, bytes: f64) {
    let Some([low, high]) = fit.range.get("bytes") else { return };
    if (low * (1.0 - 1e-6)..=high * (1.0 + 1e-6)).contains(&bytes) {
        return;
    }
    check.in_range(part, fit, "bytes", "the size of a bucket of gradients", bytes);
    let interval = fit.parameters.get("beyond").and_then(|beyond| beyond.ci95);
    let interval = interval.map_or_else(String::new, |[low, high]| {
        format!("; 95 % of them are {low:.2} to {high:.2} times as long")
    });
    check.remark(format!(
        "beyond the measured sizes, {part} follows a law: half of its measured times differ by more than {:.1} % from it{interval}.",
        100.0 * fit.residual
    ));
}

/// Reports that the profile has no collective of this many ranks, and lists the numbers of ranks that it has. Times
/// between two numbers of ranks are not interpolated, because additional ranks may be on another node.
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
        format!(
            "write `nodes` and `copies_per_node` that make {known} ranks in all, or measure {ranks} ranks"
        )
    };
    check.wrong(at, what, remedy);
}

/// Returns the law of `fit` with negative times set to 0: sampled times may be below zero.
fn of_fit(fit: &Fit) -> Option<TransportLaw> {
    let mut fit = fit.clone();
    let times = fit.parameters.values_mut().filter(|parameter| parameter.unit != "B");
    times.for_each(|parameter| parameter.value = time(parameter.value));
    fit.transport()
}
