//! Reads Intel MPI Benchmarks (IMB-MPI1): one table for each benchmark and number of processes.

use super::TableError;
use super::kind::Collective;
use super::row::{Row, Rows};
use super::text::{count, is_row, number, unit, words};
use crate::import::label::bare;

/// Positions of the columns in a table.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Columns {
    bytes: usize,
    time: usize,
    /// Unit of the time column [s].
    unit: f64,
    repetitions: Option<usize>,
    all: usize,
}

/// The table that the current row belongs to.
#[derive(Debug, Clone, Copy, Default)]
struct Table {
    collective: Option<Collective>,
    ranks: Option<u32>,
    columns: Option<Columns>,
    skipped: bool,
}

pub(super) fn read(text: &str, rows: &mut Rows<'_>) -> Result<(), TableError> {
    let mut table = Table::default();
    for (line, text) in (1..).zip(text.lines()) {
        let words = words(bare(text));
        match words[..] {
            ["Benchmarking", name, ..] => {
                let collective = Collective::named(name);
                table = Table { collective, skipped: collective.is_none(), ..Table::default() };
                if table.skipped {
                    rows.leave_out(format!("the benchmark `{name}`"));
                }
            }
            // `words` removes the `#` before `processes` if it starts the line.
            ["processes" | "#processes", "=", ranks, ..] => {
                table.ranks = Some(ranks_of(ranks, line)?);
            }
            [first, ..] if first.trim_start_matches('#') == "bytes" => {
                table.columns = columns_of(&words);
                if table.columns.is_none() && !table.skipped {
                    rows.leave_out("a table without the time of one operation");
                }
            }
            _ => row(line, &words, table, rows)?,
        }
    }
    Ok(())
}

fn ranks_of(word: &str, line: usize) -> Result<u32, TableError> {
    word.parse().map_err(|_| {
        let what = format!("`{word}` is no number of processes");
        TableError::at(line, what, "write a whole number")
    })
}

/// Returns the positions of the columns in a header. The time column is the column with the time of the slowest
/// rank if the header has one.
fn columns_of(words: &[&str]) -> Option<Columns> {
    let find = |begins: &str| {
        words.iter().position(|word| word.trim_start_matches('#').starts_with(begins))
    };
    let time = ["t_max[", "t[", "t_avg["].into_iter().find_map(find)?;
    let unit = unit(words[time])?;
    let repetitions = find("repetitions");
    Some(Columns { bytes: find("bytes")?, time, unit, repetitions, all: words.len() })
}

fn row(line: usize, words: &[&str], table: Table, rows: &mut Rows<'_>) -> Result<(), TableError> {
    let Some(columns) = table.columns.filter(|_| !table.skipped) else { return Ok(()) };
    if !is_row(words) {
        return Ok(());
    }
    if words.len() != columns.all {
        let what = format!("the row has {} columns, its header {}", words.len(), columns.all);
        return Err(TableError::at(line, what, "join it with the rest of the row, or remove it"));
    }
    let collective = rows.collective(line, table.collective)?;
    let ranks = rows.ranks(line, collective, table.ranks)?;
    let parts = if collective.per_rank() { f64::from(ranks) } else { 1.0 };
    rows.add(Row {
        line,
        collective: table.collective,
        ranks: table.ranks,
        bytes: number(words, columns.bytes, line)? * parts,
        seconds: number(words, columns.time, line)? * columns.unit,
        operations: columns.repetitions.map(|column| count(words, column, line)).transpose()?,
        ..Row::default()
    })
}
