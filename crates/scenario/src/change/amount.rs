//! Amounts that a scenario has at keys that its file leaves out.

use crate::value::{Tree, Value};
use forebay_model::units::{
    self, Bandwidth, Batches, Power, Rate, Samples, Size, Time, rounded, scaled_count,
};

/// An amount that the resolved scenario has at a key, and how the key writes amounts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Amount {
    /// The amount [SI unit].
    pub value: f64,
    /// How the key writes it.
    pub unit: AmountUnit,
}

/// How a key writes its amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AmountUnit {
    /// A whole number: `8`.
    Whole,
    /// A number: `1.5`.
    Number,
    /// A time: `"3 ms"`.
    Time,
    /// A size: `"2 GB"`.
    Size,
    /// A bandwidth: `"10 GB/s"`.
    Bandwidth,
    /// A rate of operations: `"20 k/s"`.
    Rate,
    /// A power: `"300 W"`.
    Power,
    /// A number of samples: `"2000 samples"`.
    Samples,
    /// A number of batches: `"4 batches"`.
    Batches,
}

impl Amount {
    /// Returns the amount as the key writes it, rounded to six digits; `None` if it is not finite.
    #[must_use]
    pub fn written(self) -> Option<Value> {
        let value = self.value;
        if !value.is_finite() {
            return None;
        }
        let text = match self.unit {
            AmountUnit::Whole => return whole(value.round()),
            AmountUnit::Number if rounded(value).fract() == 0.0 && value.abs() < 1e12 => {
                return whole(rounded(value));
            }
            AmountUnit::Number => return Some(Value(Tree::Float(rounded(value)))),
            AmountUnit::Time => units::natural::<Time>(value),
            AmountUnit::Size => units::natural::<Size>(value),
            AmountUnit::Bandwidth => units::natural::<Bandwidth>(value),
            AmountUnit::Rate => units::natural::<Rate>(value),
            AmountUnit::Power => units::natural::<Power>(value),
            AmountUnit::Samples => units::natural::<Samples>(value),
            AmountUnit::Batches => units::natural::<Batches>(value),
        };
        Some(Value(Tree::Text(text?)))
    }

    /// Returns `factor` times the amount as the key writes it; `None` if that is the same amount, or not a finite one. A whole number
    /// changes by one at least.
    #[must_use]
    pub fn times(self, factor: f64) -> Option<Value> {
        let value = match self.is_counted() {
            true => scaled_count(self.value.round(), factor)?,
            false => self.value * factor,
        };
        let product = Amount { value, ..self }.written()?;
        (self.written().as_ref() != Some(&product)).then_some(product)
    }

    /// Returns whether the amount is a whole number.
    pub(super) fn is_counted(self) -> bool {
        matches!(self.unit, AmountUnit::Whole | AmountUnit::Samples | AmountUnit::Batches)
    }

    /// Returns the number that the key writes, without its unit.
    pub(super) fn number(self) -> Option<f64> {
        match self.written()?.0 {
            #[expect(clippy::cast_precision_loss, reason = "the grid is of a few digits")]
            Tree::Integer(value) => Some(value as f64),
            Tree::Float(value) => Some(value),
            Tree::Text(text) => units::number(&text),
            _ => None,
        }
    }
}

/// Returns a whole number as a value.
#[expect(
    clippy::cast_possible_truncation,
    reason = "checked to be a whole number that a double holds"
)]
pub(super) fn whole(value: f64) -> Option<Value> {
    (value.abs() < 9e15).then_some(Value(Tree::Integer(value as i128)))
}
