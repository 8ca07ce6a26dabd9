//! Reads Intel MPI Benchmarks (IMB-MPI1): one table for each benchmark and number of processes.

use super::TableError;
use super::kind::Collective;
use super::row::{Row, Rows};
use super::text::{count, is_row, number, unit, whole_row, words};
use crate::import::label::{are_alike, named_and_bare};

/// Positions of the columns in a table.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Columns {
    bytes: usize,
    time: usize,
    /// Unit of the time column [s].
    unit: f64,
    repetitions: Option<usize>,
    /// Deviation of the results, if they were checked; 0 where they were right.
    defects: Option<usize>,
    all: usize,
}

/// The table that the current row belongs to.
#[derive(Debug, Clone, Copy, Default)]
struct Table<'a> {
    collective: Option<Collective>,
    ranks: Option<u32>,
    columns: Option<Columns>,
    /// The name in the label of the header.
    name: &'a str,
    skipped: bool,
}

pub(super) fn read(text: &str, rows: &mut Rows<'_>) -> Result<(), TableError> {
    let mut table = Table::default();
    for (line, text) in (1..).zip(text.lines()) {
        let (name, text) = named_and_bare(text);
        let words = words(text);
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
                (table.columns, table.name) = (columns_of(&words), name);
                if table.columns.is_none() && !table.skipped {
                    rows.leave_out("a table without the time of one operation");
                }
            }
            _ if are_alike(name, table.name) => row(line, &words, table, rows)?,
            _ => {}
        }
    }
    Ok(())
}

fn ranks_of(word: &str, line: usize) -> Result<u32, TableError> {
    // With `-map`, the order of the ranks follows: `4; rank order (rowwise):`.
    word.trim_end_matches(';').parse().map_err(|_| {
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
    let (repetitions, defects) = (find("repetitions"), find("defects"));
    Some(Columns { bytes: find("bytes")?, time, unit, repetitions, defects, all: words.len() })
}

fn row(
    line: usize,
    words: &[&str],
    table: Table<'_>,
    rows: &mut Rows<'_>,
) -> Result<(), TableError> {
    let Some(columns) = table.columns.filter(|_| !table.skipped) else { return Ok(()) };
    if !is_row(words) {
        return Ok(());
    }
    whole_row(words, columns.all, line)?;
    let defects = columns.defects.map(|column| number(words, column, line)).transpose()?;
    rows.add_mpi(Row {
        line,
        collective: table.collective,
        ranks: table.ranks,
        bytes: number(words, columns.bytes, line)?,
        seconds: number(words, columns.time, line)? * columns.unit,
        operations: columns.repetitions.map(|column| count(words, column, line)).transpose()?,
        excluded: defects.filter(|of| *of > 0.0).map(|of| format!("results were off by {of}")),
        ..Row::default()
    })
}
