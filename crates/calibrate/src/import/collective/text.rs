//! Splits lines of logs into the columns of tables.

use super::TableError;

/// Returns the words of a line, without the comment signs at the beginning of the line.
pub(super) fn words(line: &str) -> Vec<&str> {
    line.trim_start_matches(['#', ' ', '\t']).split_whitespace().collect()
}

/// Returns whether a word is a number in the notation of tables.
pub(super) fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && word.parse::<f64>().is_ok()
}

/// Returns whether a line is a row of a table whose columns are all numbers; the row may be damaged.
pub(super) fn is_row(words: &[&str]) -> bool {
    let numbers = words.iter().take_while(|word| is_number(word)).count();
    numbers > 0 && (numbers == words.len() || numbers > 1)
}

/// Checks that a row has as many columns as its header.
pub(super) fn whole_row(words: &[&str], all: usize, line: usize) -> Result<(), TableError> {
    if words.len() == all {
        return Ok(());
    }
    let what = format!("the row has {} columns, its header {all}", words.len());
    Err(TableError::at(line, what, "join it with the rest of the row, or remove it"))
}

/// Returns whether a line begins with at least `count` whole numbers, as rows do.
pub(super) fn begins_with_counts(words: &[&str], count: usize) -> bool {
    words.len() >= count
        && words[..count].iter().all(|word| word.chars().all(|c| c.is_ascii_digit()))
}

/// Returns the number in a column.
pub(super) fn number(words: &[&str], column: usize, line: usize) -> Result<f64, TableError> {
    let Some(word) = words.get(column) else {
        let what = format!("the row ends after {} columns", words.len());
        return Err(TableError::at(line, what, "join it with the rest of the row, or remove it"));
    };
    word.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(|| {
        let what = format!("`{word}` in column {} is no number", column + 1);
        TableError::at(
            line,
            what,
            "another program's line may have come in between: mend or remove the row",
        )
    })
}

/// Returns the whole number in a column of operations or ranks.
pub(super) fn count(words: &[&str], column: usize, line: usize) -> Result<u64, TableError> {
    let value = number(words, column, line)?;
    if value >= 0.0 && value.fract() == 0.0 && value <= 1e15 {
        return Ok(value as u64);
    }
    let what = format!("`{}` in column {} is no count", words[column], column + 1);
    Err(TableError::at(line, what, "correct or remove the row"))
}

/// Returns the unit at the end of a column's name [s]: `(us)`, `[usec]`, `(msec)`.
pub(super) fn unit(column: &str) -> Option<f64> {
    let open = column.rfind(['(', '['])?;
    match column[open + 1..].trim_end_matches([')', ']']).trim() {
        "us" | "usec" => Some(1e-6),
        "ms" | "msec" => Some(1e-3),
        "s" | "sec" => Some(1.0),
        "ns" | "nsec" => Some(1e-9),
        _ => None,
    }
}
