//! What answers rest on, in words.

use super::draws::DRAWS;
use super::nominal::Nominal;
use super::reached::Unit;
use crate::report::format::seconds;
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
    let range = number.range;
    let [short, long] = of.step_time90.map(seconds);
    let limited = match of.draws_with_limit {
        DRAWS => "in all draws".to_owned(),
        most if 2 * most > DRAWS => "in most draws".to_owned(),
        some => format!("in {some} of {DRAWS} draws"),
    };
    let of_it = if range.unit == Unit::Share { " of it" } else { "" };
    format!(
        "This rests on {}: over what {} publications reached {}, {}{of_it}, a step takes {short} to {long}, limited by {} {limited}. \
         Measure it with {}.",
        named(number),
        of.sources,
        range.how,
        range.unit.words(of.reached90),
        of.limit_of_draws,
        of.measure,
    )
}

/// Returns a number with its noun and where it comes from.
fn named(number: &Nominal) -> String {
    let (noun, unset) = (&number.range.noun, number.unset);
    let unset = if unset { "; the transport of gradients is not set" } else { "" };
    match (&number.value, number.range.unit) {
        (Some(value), Unit::Share) => format!("{value} of {noun} (data sheet{unset})"),
        (Some(value), _) => format!("{value} as {noun} (not measured)"),
        (None, _) => format!("{noun}, which is not set"),
    }
}
