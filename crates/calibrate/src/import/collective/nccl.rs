//! Reads the text output of nccl-tests.

use super::TableError;
use super::kind::Collective;
use super::row::{Row, Rows};
use super::text::{bare, begins_with_counts, is_number, number, words};

/// Names of the programs of nccl-tests. A name that contains another name comes before it, because the first match counts.
const PROGRAMS: [(&str, Collective); 9] = [
    ("all_reduce_perf", Collective::AllReduce),
    ("reduce_scatter_perf", Collective::ReduceScatter),
    ("all_gather_perf", Collective::AllGather),
    ("alltoall_perf", Collective::AllToAll),
    ("broadcast_perf", Collective::Broadcast),
    ("sendrecv_perf", Collective::Message),
    ("reduce_perf", Collective::Reduce),
    ("gather_perf", Collective::Gather),
    ("scatter_perf", Collective::Scatter),
];
/// Texts in the line before a table (`STARTING`) and in the line after a table (`CONCLUDED`).
const STARTING: &str = "Collective test starting";
const CONCLUDED: &str = "Collective test concluded";
/// Smallest algorithm bandwidth for which the ratio of the bandwidths is checked [GB/s]. Lower bandwidths are too coarse for the
/// check, as only two decimals are printed.
const TELLING: f64 = 2.0;
/// Largest accepted relative error of the ratio of the bandwidths.
const RATIO: f64 = 0.05;

/// Returns the operation of the program of nccl-tests that a line names; `None` if the line names no such program.
pub(super) fn program(line: &str) -> Option<Collective> {
    PROGRAMS.iter().find(|(name, _)| line.contains(name)).map(|(_, collective)| *collective)
}

/// Columns of a table: positions of the time columns, out of place and in place (`times`), and the number of all columns (`all`).
/// After each time column come the columns of two bandwidths and of a count of errors.
#[derive(Debug, Clone, PartialEq)]
struct Columns {
    times: Vec<usize>,
    all: usize,
}

/// State of the table that is being read.
#[derive(Debug, Default)]
struct Table {
    collective: Option<Collective>,
    ranks: u32,
    columns: Option<Columns>,
    /// Whether the table was printed by an unknown program; its rows are then left out.
    skipped: bool,
}

pub(super) fn read(text: &str, rows: &mut Rows<'_>) -> Result<(), TableError> {
    let mut table = Table::default();
    for (line, raw) in (1..).zip(text.lines()) {
        let bare = bare(raw);
        let words = words(bare);
        if bare.contains(STARTING) {
            table = Table { collective: program(bare), ..Table::default() };
            table.skipped = table.collective.is_none();
            if table.skipped {
                rows.leave_out(format!("the table of `{}`", words.last().unwrap_or(&"")));
            }
        } else if bare.contains(CONCLUDED) {
            (table.collective, table.skipped) = (None, false);
        } else if let Some(found) = program(bare) {
            table.collective = Some(found);
        } else if words.first() == Some(&"Using") {
            table.ranks = 0;
        } else if words.first() == Some(&"Rank") && words.contains(&"device") {
            // Groups run independently and alike, so only the ranks of the first group count.
            let other = words.get(2) == Some(&"Group") && words.get(3) != Some(&"0");
            table.ranks = table.ranks.saturating_add(u32::from(!other));
        } else if words.len() > 2 && words[..2] == ["size", "count"] {
            table.columns = Some(columns_of(&words, line)?);
            // Older versions name the program only after the table.
            let later = || text.lines().skip(line).find(|later| later.contains(CONCLUDED));
            table.collective = table.collective.or_else(|| program(later()?));
        } else if begins_with_counts(&words, 2) {
            row(line, &words, &table, rows)?;
        }
    }
    Ok(())
}

fn columns_of(words: &[&str], line: usize) -> Result<Columns, TableError> {
    let is_time = |(index, word): (usize, &&str)| (*word == "time").then_some(index);
    let times: Vec<usize> = words.iter().enumerate().filter_map(is_time).collect();
    let follows = |time: &usize| words.get(time + 1..time + 3) == Some(&["algbw", "busbw"]);
    if !times.is_empty() && times.iter().all(follows) {
        return Ok(Columns { times, all: words.len() });
    }
    let what = "the header has no columns `time algbw busbw`";
    Err(TableError::at(line, what, "give the output of nccl-tests as it was printed"))
}

fn row(line: usize, words: &[&str], table: &Table, rows: &mut Rows<'_>) -> Result<(), TableError> {
    let Some(columns) = table.columns.as_ref().filter(|_| !table.skipped) else { return Ok(()) };
    // With `-S`, the time of day follows the columns.
    if words.len() < columns.all {
        let what = format!("the row has {} columns, its header {}", words.len(), columns.all);
        return Err(TableError::at(line, what, "join it with the rest of the row, or remove it"));
    }
    let collective = rows.collective(line, table.collective)?;
    let ranks = rows.ranks(line, collective, (table.ranks > 0).then_some(table.ranks))?;
    for (half, time) in columns.times.iter().enumerate() {
        let value = |offset: usize| number(words, time + offset, line);
        check_ratio(line, collective, ranks, [value(1)?, value(2)?])?;
        let wrong = words.get(time + 3).filter(|word| is_number(word) && word.parse() != Ok(0.0));
        rows.add(Row {
            line,
            collective: Some(collective),
            ranks: Some(ranks),
            bytes: number(words, 0, line)?,
            seconds: value(0)? * 1e-6,
            labels: &[("buffers", if half == 0 { "out-of-place" } else { "in-place" })],
            excluded: wrong.map(|count| format!("{count} results were wrong")),
            ..Row::default()
        })?;
    }
    Ok(())
}

/// Checks that the ratio of both bandwidths in a row agrees with the operation and the number of ranks.
pub(super) fn check_ratio(
    line: usize,
    collective: Collective,
    ranks: u32,
    [algorithm, bus]: [f64; 2],
) -> Result<(), TableError> {
    let expected = collective.bus_factor(f64::from(ranks));
    if algorithm < TELLING || ranks < 2 || ((bus / algorithm) / expected - 1.0).abs() < RATIO {
        return Ok(());
    }
    let name = collective.name();
    let what = format!(
        "busbw is {:.3} of algbw, where `{name}` of {ranks} ranks has {expected:.3}",
        bus / algorithm
    );
    Err(TableError::at(line, what, "correct --collective or --ranks, or mend the row"))
}
