//! Keys of a scenario and their values in tables and figures.

use crate::plot::Unit;
use crate::units;

/// Returns the last part of a key.
pub(super) fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// Returns a short name for each key: its last part or, where other keys have the same, the whole key.
pub(super) fn short_names<'k>(keys: &[&'k str]) -> Vec<&'k str> {
    let is_shared = |key: &str| keys.iter().filter(|other| last(other) == last(key)).count() > 1;
    keys.iter().map(|&key| if is_shared(key) { key } else { last(key) }).collect()
}

/// Returns a value as a number and its unit on an axis.
pub(super) fn number(text: &str) -> Option<(f64, Unit)> {
    let text = text.trim_matches('"');
    if let Ok(number) = text.parse::<f64>() {
        return number.is_finite().then_some((number, Unit::Number));
    }
    let unit = match units::si_unit(text)? {
        "s" => Unit::Seconds,
        "B" => Unit::Bytes,
        "B/s" => Unit::BytesPerSecond,
        _ => Unit::Number,
    };
    Some((units::si(text)?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_the_same_last_part_keep_their_whole_names() {
        let names = short_names(&["job.batch", "storage.a.bandwidth", "storage.b.bandwidth"]);
        assert_eq!(names, ["batch", "storage.a.bandwidth", "storage.b.bandwidth"]);
    }

    #[test]
    fn only_finite_numbers_are_numbers() {
        assert_eq!(number("2 GB/s"), Some((2e9, Unit::BytesPerSecond)));
        assert_eq!((number("nan"), number("inf"), number("many")), (None, None, None));
    }
}
