//! What answers rest on, in words.

use super::draws::DRAWS;
use super::nominal::Nominal;
use super::reached::Unit;
use crate::report::format::seconds;
use crate::report::{Bottleneck, RestsOn};

/// Returns what limits a job that computes for the share `busy` of its time: what most of the time goes into.
pub(super) fn limit(of: &Bottleneck, busy: f64) -> String {
    let known = [
        ("node.nic", "NICs"),
        ("node.intra", "links inside nodes"),
        ("node.cores", "cores"),
        ("network", "communication"),
    ];
    match known.into_iter().find(|(start, _)| of.resource.starts_with(start)) {
        _ if of.cause == "compute" || busy >= of.share => "computing".to_owned(),
        _ if of.cause.contains("checkpoint") => "writing checkpoints".to_owned(),
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
    let (key, noun) = (&number.key, &number.range.noun);
    let unset = number.unset.map_or_else(String::new, |why| format!("; {why}"));
    match (&number.value, number.range.unit) {
        (Some(value), Unit::Share) if key.starts_with("cluster.") => {
            format!("{value} of {noun} (data sheet{unset})")
        }
        (Some(value), Unit::Share) => format!("`{key}` = {value} (data sheet)"),
        (Some(value), _) => format!("`{key}` = {value} ({noun}, not measured)"),
        (None, _) => format!("{noun}, `{key}`, which is not set"),
    }
}
