//! Reads the column of errors of nccl-tests, whose meaning depends on the version.
//!
//! Since version 2.13 (August 2022) its header is `#wrong`, and it counts wrong results. Before, its header was `error`, and it
//! was the largest deviation of a result from the expected value, printed like `5e-07`: rounding of sums is no error.

use super::text::is_number;

/// Meaning of the column, as its header tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorColumn {
    /// Number of wrong results.
    Count,
    /// Largest deviation; a whole number without exponent is a count there too, as forks print it.
    Deviation,
}

/// Largest deviations that old versions accepted, by type; other types must agree exactly.
const ACCEPTED: [(&str, f64); 4] =
    [("half", 5e-2), ("bfloat16", 5e-2), ("float", 1e-5), ("double", 1e-12)];

impl ErrorColumn {
    pub(super) fn of_header(word: Option<&str>) -> ErrorColumn {
        match word {
            Some("error") => ErrorColumn::Deviation,
            _ => ErrorColumn::Count,
        }
    }

    /// Returns whether a value is a deviation, not a count.
    pub(super) fn is_deviation(self, word: &str) -> bool {
        self == ErrorColumn::Deviation && is_number(word) && word.contains(['e', 'E', '.'])
    }

    /// Returns why a row with this value must not be used; `None` if its results were right, or not checked (`N/A`).
    pub(super) fn excludes(self, word: &str, of_type: &str) -> Option<String> {
        let value: f64 =
            word.parse().ok().filter(|value: &f64| is_number(word) && *value != 0.0)?;
        if !self.is_deviation(word) {
            return Some(format!("{word} results were wrong"));
        }
        let accepted =
            ACCEPTED.iter().find(|(name, _)| *name == of_type).map_or(0.0, |known| known.1);
        (value > accepted).then(|| format!("results were off by {word}, too much for {of_type}"))
    }
}
