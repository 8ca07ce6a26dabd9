//! A value times a factor, in the form and unit that it is written in.

use crate::value::Tree;
use forebay_model::units::{self, rounded, scaled_count};

use super::amount::whole;

/// Kinds of distributions, and the parameters of a kind that grow with its values. Other parameters, such as `cv`, are the shape.
const DISTRIBUTIONS: [(&str, &[&str]); 8] = [
    ("constant", &[]),
    ("exponential", &["mean"]),
    ("lognormal", &["median", "p99", "mean"]),
    ("gamma", &["mean"]),
    ("normal", &["mean", "sd"]),
    ("uniform", &["low", "high"]),
    ("pareto", &["min", "mean"]),
    ("empirical", &["times"]),
];

/// Keys of laws, whose sum is a time: those of a step, of decoding, and of kernels.
const LAWS: [&str; 5] = ["fixed", "per_sample", "per_byte", "per_pixel", "floor"];

/// Returns the value times `factor`: a number as a number of the same kind, a quantity in its own unit, a list with each of its
/// elements, a distribution with its shape kept, a law in each of its parts. `None` if the value has no such multiple, or if the
/// multiple is the same value.
pub(super) fn scaled(value: &Tree, factor: f64) -> Option<Tree> {
    let product = product(value, factor)?;
    (product != *value).then_some(product)
}

/// As [`scaled`], except that a value of zero stays zero.
fn product(value: &Tree, factor: f64) -> Option<Tree> {
    match value {
        Tree::Integer(0) => Some(Tree::Integer(0)),
        #[expect(
            clippy::cast_precision_loss,
            reason = "larger numbers than a double holds are refused"
        )]
        Tree::Integer(number) => whole(scaled_count(*number as f64, factor)?).map(|of| of.0),
        Tree::Float(number) => {
            let product = rounded(number * factor);
            product.is_finite().then_some(Tree::Float(product))
        }
        Tree::Text(text) => match units::number(text) {
            Some(0.0) => Some(value.clone()),
            _ => units::scaled(text, factor).map(Tree::Text),
        },
        Tree::List(elements) => {
            let each = elements.iter().map(|element| product(element, factor));
            each.collect::<Option<_>>().map(Tree::List)
        }
        Tree::Table(members) => table(members, factor),
        Tree::Boolean(_) | Tree::Date(_) => None,
    }
}

fn table(members: &[(String, Tree)], factor: f64) -> Option<Tree> {
    if let [(kind, inner)] = members
        && let Some((_, grows)) = DISTRIBUTIONS.iter().find(|(name, _)| name == kind)
    {
        let times = "times".to_owned();
        let inner = match inner {
            // The values of the file stay, and the factor on them grows.
            Tree::Table(parameters)
                if kind == "empirical" && parameters.iter().all(|(key, _)| *key != times) =>
            {
                let factor = (times, Tree::Float(rounded(factor)));
                Tree::Table(parameters.iter().cloned().chain([factor]).collect())
            }
            Tree::Table(parameters) => Tree::Table(grown(parameters, grows, factor)?),
            constant if kind == "constant" => product(constant, factor)?,
            _ => return None,
        };
        return Some(Tree::Table(vec![(kind.clone(), inner)]));
    }
    if let [(kind, inner)] = members
        && kind == "every"
    {
        return Some(Tree::Table(vec![(kind.clone(), product(inner, factor)?)]));
    }
    let is_law = members.iter().all(|(key, _)| LAWS.contains(&key.as_str()));
    (is_law && !members.is_empty()).then(|| grown(members, &LAWS, factor).map(Tree::Table))?
}

/// Returns the members of a table, those named in `grows` times `factor`; `None` if none is there, or one has no such multiple.
fn grown(members: &[(String, Tree)], grows: &[&str], factor: f64) -> Option<Vec<(String, Tree)>> {
    let mut any = false;
    let each = members.iter().map(|(key, value)| {
        let grows = grows.contains(&key.as_str());
        any |= grows;
        let value = if grows { product(value, factor)? } else { value.clone() };
        Some((key.clone(), value))
    });
    let all: Vec<_> = each.collect::<Option<_>>()?;
    any.then_some(all)
}
