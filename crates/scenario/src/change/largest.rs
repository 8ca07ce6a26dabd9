//! The largest part of a change that a scenario accepts.

use super::{Amount, Editor};
use crate::Scenario;
use crate::file::ScenarioFile;
use crate::overrides::Override;
use crate::reading::Reading;
use crate::value::Tree;
use forebay_model::units;

/// Maximum number of factors that are tried one by one, for which refusals may come in any order: a number that must divide a
/// batch. Of more factors, accepted ones are taken to be the smaller changes.
const ONE_BY_ONE: usize = 64;
/// Significant digits of the amounts between the present and the wanted one.
const DIGITS: i32 = 2;

impl Editor {
    /// Returns the factors from `factor` to 1, without 1, whose products at a key are round: whole numbers, or amounts of two digits in
    /// the file's unit. The first is `factor` itself. `amount` is what the scenario has at a key that the file leaves out.
    #[must_use]
    pub fn factors(&self, key: &str, factor: f64, amount: Option<Amount>) -> Vec<f64> {
        let (number, is_whole) = match self.value(key).map(|value| value.0) {
            #[expect(clippy::cast_precision_loss, reason = "the grid is of a few digits")]
            Some(Tree::Integer(number)) => (Some(number as f64), true),
            Some(Tree::Float(number)) => (Some(number), false),
            Some(Tree::Text(text)) => (units::number(&text), units::is_counted(&text)),
            Some(_) => (None, false),
            None => (amount.and_then(Amount::number), amount.is_some_and(Amount::is_counted)),
        };
        let number = number.filter(|number| number.is_finite() && *number > 0.0);
        let round = match number {
            Some(number) => round_between(number, number * factor, is_whole),
            None => round_between(1.0, factor, false),
        };
        let factors = round.into_iter().map(|round| round / number.unwrap_or(1.0));
        std::iter::once(factor).chain(factors).collect()
    }
}

impl ScenarioFile {
    /// Returns the overrides for the first of `factors`, from the largest change to the smallest, with which the scenario is accepted
    /// after `overrides`, and the scenario that they make; `None` if it accepts none of them. `changes` returns the overrides for a
    /// factor, or `None` if it changes nothing.
    pub fn largest(
        &self,
        (overrides, reading): (&[Override], Reading<'_>),
        factors: &[f64],
        changes: impl Fn(f64) -> Option<Vec<Override>>,
    ) -> Option<(Vec<Override>, Scenario)> {
        // Only whether there are problems is asked: what resolving adds to a refusal reads the file again.
        let is_accepted = |factor: &f64| {
            let all = changes(*factor).map(|changes| [overrides, &changes].concat());
            all.is_some_and(|all| self.problems(&all, reading).is_empty())
        };
        let chosen = if factors.len() <= ONE_BY_ONE {
            factors.iter().position(is_accepted)?
        } else if is_accepted(&factors[0]) {
            0
        } else {
            factors.partition_point(|factor| !is_accepted(factor))
        };
        let changes = changes(*factors.get(chosen)?)?;
        let scenario = self.resolve_as(&[overrides, &changes].concat(), reading).ok()?;
        Some((changes, scenario))
    }
}

/// Returns the round numbers strictly between `from` and `to`, the one nearest to `to` first.
fn round_between(from: f64, to: f64, is_whole: bool) -> Vec<f64> {
    let (low, high) = (from.min(to), from.max(to));
    let mut all = Vec::new();
    if !(low > 0.0 && high.is_finite() && high / low < 1e6) {
        return all;
    }
    if is_whole && high - low <= ONE_BY_ONE as f64 {
        let mut number = low.floor() + 1.0;
        while number < high {
            all.push(number);
            number += 1.0;
        }
    } else {
        let mut decade = low.log10().floor() as i32;
        while 10_f64.powi(decade) < high {
            let all_of_decade =
                (10_i32.pow(DIGITS as u32 - 1)..10_i32.pow(DIGITS as u32)).map(|digits| {
                    // The text gives the double nearest to the decimal number.
                    let text = format!("{digits}e{}", decade - DIGITS + 1);
                    text.parse().unwrap_or(f64::from(digits))
                });
            let whole = |number: &f64| !is_whole || number.fract() == 0.0;
            all.extend(
                all_of_decade.filter(|number| *number > low && *number < high).filter(whole),
            );
            decade += 1;
        }
    }
    if to > from {
        all.reverse();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_numbers_between_two_amounts_begin_at_the_wanted_one() {
        assert_eq!(round_between(4.0, 8.0, true), [7.0, 6.0, 5.0]);
        assert_eq!(round_between(8.0, 4.0, true), [5.0, 6.0, 7.0]);
        assert_eq!(round_between(0.95, 1.2, false), [1.1, 1.0, 0.99, 0.98, 0.97, 0.96]);
        assert_eq!(round_between(1000.0, 1300.0, true), [1200.0, 1100.0]);
        assert_eq!(round_between(1.0, f64::INFINITY, false), [0.0; 0]);
    }
}
