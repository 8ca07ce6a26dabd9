//! What answers rest on, in words.

use super::draws::DRAWS;
use super::nominal::Nominal;
use crate::report::format::{count, seconds};
use crate::report::{Bottleneck, RestsOn};

/// Returns what a bottleneck is called here.
pub(super) fn limit(of: &Bottleneck) -> String {
    let known = [
        ("node.nic", "NICs"),
        ("node.intra", "links inside nodes"),
        ("node.cores", "cores"),
        ("network", "communication"),
    ];
    match known.into_iter().find(|(start, _)| of.resource.starts_with(start)) {
        _ if of.cause == "compute" => "computing".to_owned(),
        Some((_, name)) => name.to_owned(),
        None => of.resource.clone(),
    }
}

/// Returns the sentence that follows the answer.
pub(super) fn sentence(number: &Nominal, of: &RestsOn) -> String {
    let [low, high] = of.share90.map(|share| count((100.0 * share).round()));
    let [short, long] = of.step_time90.map(seconds);
    let unset = if number.unset { "; the transport of gradients is not set" } else { "" };
    let limited = match of.draws_with_limit {
        DRAWS => "in all draws".to_owned(),
        most if 2 * most > DRAWS => "in most draws".to_owned(),
        some => format!("in {some} of {DRAWS} draws"),
    };
    format!(
        "This rests on {} of {} (data sheet{unset}): over what {} publications reached by {}, {low} to {high} % of it, a step takes \
         {short} to {long}, limited by {} {limited}. Measure it with {}.",
        number.value,
        noun(number.key),
        of.sources,
        number.range.by,
        of.limit_of_draws,
        of.measure,
    )
}

/// Returns what a number is a number of.
pub(super) fn noun(key: &str) -> &'static str {
    match key {
        "cluster.node.intra.bandwidth" => "links between the GPUs of a node",
        "cluster.network.storage_nic" => "NIC for storage",
        _ => "NIC",
    }
}
