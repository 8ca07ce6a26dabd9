//! Rows, and how CSV and JSON represent their cells.

use crate::scenario::Value;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One entry of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Cell {
    /// Text, without quotes or escapes.
    Text(String),
    /// A finite number.
    Number(f64),
    /// No value.
    Empty,
}

/// One row, in the order of the header.
pub type Row = Vec<Cell>;

impl Cell {
    /// Returns the cell of a number; empty if there is none or it is not finite.
    pub fn number(value: impl Into<Option<f64>>) -> Cell {
        match value.into() {
            Some(value) if value.is_finite() => Cell::Number(value),
            _ => Cell::Empty,
        }
    }

    /// Returns the cell for CSV. A spreadsheet would run text that begins with `=`, `+`, `-` or `@` as a formula, so such text
    /// gets an apostrophe in front. Numbers stay numbers.
    pub fn to_csv(&self) -> String {
        let text = self.to_string();
        let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
        let number = text.parse::<f64>().is_ok();
        if formula && !number { format!("'{text}") } else { text }
    }

    /// Returns the number of the cell, a quantity in SI units; `None` for other texts.
    pub fn si(&self) -> Option<f64> {
        match self {
            Cell::Number(value) => Some(*value),
            Cell::Text(text) => Value::from(text.as_str()).as_f64(),
            Cell::Empty => None,
        }
    }

    /// Returns the cell for JSON.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Cell::Text(text) => text.as_str().into(),
            // Whole numbers are written without a decimal point, as in CSV.
            Cell::Number(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
                (*value as i64).into()
            }
            Cell::Number(value) => (*value).into(),
            Cell::Empty => serde_json::Value::Null,
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Text(text) => f.write_str(text),
            Cell::Number(value) if *value == 0.0 => f.write_str("0"),
            Cell::Number(value) if (1e-5..1e15).contains(&value.abs()) => write!(f, "{value}"),
            Cell::Number(value) => write!(f, "{value:e}"),
            Cell::Empty => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_sweep_cells_are_parsed_back_to_the_same_bits() {
        for value in [0.0, 0.1, 1.0 / 3.0, 5e-324, 1e300, -123456.789, 1e15, 0.00001] {
            let text = Cell::number(value).to_string();
            assert_eq!(text.parse::<f64>().map(f64::to_bits), Ok(f64::to_bits(value)), "{text}");
        }
    }

    #[test]
    fn formulas_get_an_apostrophe_in_csv_and_numbers_do_not() {
        let text = |text: &str| Cell::Text(text.to_owned()).to_csv();
        assert_eq!(text("=cmd|' /C calc'!A0"), "'=cmd|' /C calc'!A0");
        assert_eq!([text("+a"), text("-a"), text("@a")], ["'+a", "'-a", "'@a"]);
        assert_eq!([text("a=b"), text("-5"), text("+1e3")], ["a=b", "-5", "+1e3"]);
        assert_eq!(Cell::Number(-0.5).to_csv(), "-0.5");
        assert_eq!(Cell::Number(-1e-9).to_csv(), "-1e-9");
    }

    #[test]
    fn numbers_that_are_not_finite_give_empty_cells() {
        assert_eq!(Cell::number(f64::NAN), Cell::Empty);
        assert_eq!(Cell::number(f64::INFINITY).to_string(), "");
    }
}
