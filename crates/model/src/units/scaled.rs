//! Quantities times a factor, in the units that they are written in.

use super::{
    Batches, Dimension, FAMILIES, Quantity, Samples, Time, joined, parts, split, sum_of_times,
};

/// Number of significant digits of a product that is not a whole number: more than any unit of hardware is known to.
const DIGITS: usize = 6;
/// Units in which rates are read but not written: nobody says `80 /ms` for `80 k/s`.
const UNUSUAL: [&str; 4] = ["/ms", "/us", "/min", "/h"];
/// Largest number up to which every whole number is a double.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Returns a quantity times `factor` in its own units: `"50 GB/s"` for twice `"25 GB/s"`, `"2 min 30 s"` for twice
/// `"1 min 15 s"`. A number of samples or batches stays whole, and changes by one at least. `None` if the text is no quantity, or if
/// the product is the same quantity or not a finite one.
#[must_use]
pub fn scaled(text: &str, factor: f64) -> Option<String> {
    let (number, name) = split(text).ok()?;
    let unit = joined(name);
    if is_counted(text) {
        return counted(scaled_count(number, factor)?, &unit);
    }
    if FAMILIES.iter().flat_map(|(_, units)| *units).any(|of| of.name == unit) {
        let product = rounded(number * factor);
        return (product.is_finite() && product != number).then(|| format!("{product} {name}"));
    }
    let whole = sum_of_times(text, Time::UNITS).ok()??;
    let units = parts(text).ok()??.into_iter().map(|(_, unit)| unit);
    let product = rounded(whole * factor);
    (product.is_finite() && product != whole).then(|| in_parts(product, units.collect()))
}

/// Returns the number of a quantity in its unit: 25 for `"25 GB/s"`; `None` for a time in several units, and for other texts.
#[must_use]
pub fn number(text: &str) -> Option<f64> {
    number_and_unit(text).map(|(number, _)| number)
}

/// Returns the number of a quantity and its unit as written: 25 and `GB/s`; `None` for a time in several units, and for other texts.
#[must_use]
pub fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let (number, name) = split(text).ok()?;
    let unit = joined(name);
    let known = FAMILIES.iter().flat_map(|(_, units)| *units).any(|of| of.name == unit);
    known.then_some((number, name))
}

/// Returns whether a text is a number of samples or batches.
#[must_use]
pub fn is_counted(text: &str) -> bool {
    let unit = split(text).map(|(_, name)| joined(name)).unwrap_or_default();
    [Samples::UNITS, Batches::UNITS].concat().iter().any(|of| of.name == unit)
}

/// Returns a whole number times `factor`, rounded; one more or one less if that is `number` itself. `None` if `factor` is 1, or if
/// the product is negative or not finite.
#[must_use]
pub fn scaled_count(number: f64, factor: f64) -> Option<f64> {
    let product = (number * factor).round();
    let changed = match product == number {
        true if factor > 1.0 => number + 1.0,
        true if factor < 1.0 => number - 1.0,
        true => return None,
        false => product,
    };
    (0.0..EXACT).contains(&changed).then_some(changed)
}

/// Rounds a number to the digits that are written; a whole number stays as it is.
#[must_use]
pub fn rounded(value: f64) -> f64 {
    if value.fract() == 0.0 && value.abs() < EXACT {
        return value;
    }
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

/// Returns a quantity of `value` SI units, rounded, in the unit of `D` that gives the shortest text with a number from 1 to below
/// 1000; `None` if it is not finite.
#[must_use]
pub fn natural<D: Dimension>(value: f64) -> Option<String> {
    if D::WHOLE {
        return counted(value.round(), D::UNITS.first()?.name);
    }
    let quantity = Quantity::<D>::new(rounded(value))?;
    let in_unit = |unit: &super::Unit| {
        let number = rounded(value * unit.denominator / unit.numerator);
        let is_usual = !UNUSUAL.contains(&unit.name) && (1.0..1000.0).contains(&number);
        is_usual.then(|| format!("{number} {}", unit.name))
    };
    let shortest = D::UNITS.iter().filter_map(in_unit).min_by_key(String::len);
    Some(shortest.unwrap_or_else(|| quantity.to_string()))
}

/// Returns a number of samples or batches, with its unit in the singular or plural.
fn counted(number: f64, unit: &str) -> Option<String> {
    let pairs = [["sample", "samples"], ["batch", "batches"]];
    let pair = pairs.into_iter().find(|pair| pair.contains(&unit))?;
    number.is_finite().then(|| format!("{number} {}", pair[usize::from(number != 1.0)]))
}

/// Returns a time [s] as a sum of numbers of these units, the largest unit first; only the last number may be a fraction.
fn in_parts(seconds: f64, units: Vec<&str>) -> String {
    let (mut rest, mut parts) = (seconds, Vec::new());
    for (at, name) in units.iter().enumerate() {
        let Some(unit) = Time::UNITS.iter().find(|unit| unit.name == *name) else { continue };
        let number = rest * unit.denominator / unit.numerator;
        let is_last = at + 1 == units.len();
        // A number that rounding left just below a whole one is that one.
        let number = if is_last { rounded(number) } else { (number + 1e-9).floor() };
        rest = (rest - number * unit.numerator / unit.denominator).max(0.0);
        if number > 0.0 || is_last && parts.is_empty() {
            parts.push(format!("{number} {name}"));
        }
    }
    parts.join(" ")
}
