//! Rows as CSV and JSON write them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One entry of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Cell {
    /// Text, as it is.
    Text(String),
    /// A finite number.
    Number(f64),
    /// Nothing to say.
    Empty,
}

/// One row, in the order of the header.
pub type Row = Vec<Cell>;

impl Cell {
    /// A number, if there is one and it is finite.
    pub fn number(value: impl Into<Option<f64>>) -> Cell {
        match value.into() {
            Some(value) if value.is_finite() => Cell::Number(value),
            _ => Cell::Empty,
        }
    }

    /// The cell as JSON has it.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Cell::Text(text) => text.as_str().into(),
            // Whole numbers without a point, as CSV has them.
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
    fn numbers_read_back_to_the_same_bits() {
        for value in [0.0, 0.1, 1.0 / 3.0, 5e-324, 1e300, -123456.789, 1e15, 0.00001] {
            let text = Cell::number(value).to_string();
            assert_eq!(text.parse::<f64>().map(f64::to_bits), Ok(f64::to_bits(value)), "{text}");
        }
    }

    #[test]
    fn what_is_not_finite_is_empty() {
        assert_eq!(Cell::number(f64::NAN), Cell::Empty);
        assert_eq!(Cell::number(f64::INFINITY).to_string(), "");
    }
}
