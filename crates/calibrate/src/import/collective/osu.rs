//! Reads OSU micro-benchmarks: `osu_latency`, and blocking collectives.

use super::TableError;
use super::kind::Collective;
use super::row::{Row, Rows};
use super::text::{count, is_row, number, unit, whole_row, words};
use crate::import::label::{are_alike, named_and_bare};

/// Positions of the columns in a table.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Columns {
    size: usize,
    time: usize,
    /// Unit of the time column [s].
    unit: f64,
    iterations: Option<usize>,
    /// Whether the results were right: `Pass` or `Fail`.
    validation: Option<usize>,
    all: usize,
}

pub(super) fn read(text: &str, rows: &mut Rows<'_>) -> Result<(), TableError> {
    let mut collective = None;
    // The columns of the current table, and the name in the label of its header.
    let mut columns = None;
    // Whether the current table is left out, until the next title.
    let mut skipped = false;
    for (line, text) in (1..).zip(text.lines()) {
        let (name, text) = named_and_bare(text);
        let words = words(text);
        if let Some(title) = title(&words) {
            collective = Collective::named(&title).filter(|_| !title.is_empty());
            skipped = collective.is_none();
            columns = None;
            if skipped {
                rows.leave_out(format!("the table `{}`", words.join(" ")));
            }
        } else if is_header(&words) {
            columns = columns_of(&words).map(|columns| (columns, name));
            if columns.is_none() && !skipped {
                rows.leave_out("a table without the time of one operation");
            }
        } else if let Some((columns, of_header)) = columns.filter(|_| !skipped)
            && is_row(&words)
            && are_alike(name, of_header)
        {
            row(line, &words, columns, collective, rows)?;
        }
    }
    Ok(())
}

/// Returns the operation that a test's title names, such as `Allreduce`; `message` for point-to-point latency; an empty
/// text for other tests: of bandwidth, one-sided (`MPI_Put`, `One Sided MPI_Get`), of OpenSHMEM or UPC. Returns `None` if
/// the line is no title.
fn title(words: &[&str]) -> Option<String> {
    let (first, rest) = words.split_first()?;
    let test = rest.iter().position(|word| *word == "Test")?;
    if *first != "OSU" {
        return None;
    }
    // `MPI`, `MPI-CUDA`, `NCCL`: messages or collectives. `MPI_Put` names a function.
    let library = rest[0].split('-').next().unwrap_or_default();
    let two_sided = ["MPI", "NCCL", "RCCL"].contains(&library);
    let name = rest[1.min(test)..test].join(" ");
    Some(match name.strip_suffix("Latency").filter(|_| two_sided) {
        Some("") => "message".to_owned(),
        Some(name) => name.to_owned(),
        None => String::new(),
    })
}

fn is_header(words: &[&str]) -> bool {
    words.first() == Some(&"Size") && words.len() > 1
}

/// Returns the positions of the columns that a header names. The name of a column either is one word or ends with a unit in
/// parentheses.
fn columns_of(words: &[&str]) -> Option<Columns> {
    let mut names: Vec<String> = vec![String::new()];
    for word in words {
        let last = names.last_mut()?;
        *last = format!("{last} {word}").trim().to_owned();
        if word.ends_with(')') || ["Size", "Iterations", "Validation"].contains(word) {
            names.push(String::new());
        }
    }
    names.retain(|name| !name.is_empty());
    let find = |begins: &str| names.iter().position(|name| name.starts_with(begins));
    // An operation is complete when the last rank is done.
    let time = ["Max Latency", "Avg Latency", "Latency"].into_iter().find_map(find)?;
    let unit = unit(&names[time])?;
    Some(Columns {
        size: find("Size")?,
        time,
        unit,
        iterations: find("Iterations"),
        validation: find("Validation"),
        all: names.len(),
    })
}

fn row(
    line: usize,
    words: &[&str],
    columns: Columns,
    said: Option<Collective>,
    rows: &mut Rows<'_>,
) -> Result<(), TableError> {
    whole_row(words, columns.all, line)?;
    let failed = columns.validation.is_some_and(|at| words[at] == "Fail");
    rows.add_mpi(Row {
        line,
        collective: said,
        bytes: number(words, columns.size, line)?,
        seconds: number(words, columns.time, line)? * columns.unit,
        operations: columns.iterations.map(|column| count(words, column, line)).transpose()?,
        excluded: failed.then(|| "validation failed".to_owned()),
        ..Row::default()
    })
}
