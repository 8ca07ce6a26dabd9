//! Reads the text output of nccl-tests.

use super::TableError;
use super::kind::Collective;
use super::ranks::Ranks;
use super::row::{Row, Rows};
use super::text::{begins_with_counts, is_number, number, whole_row, words};
use crate::import::label::{are_alike, named_and_bare};

/// Names of the programs of nccl-tests. A name that contains another name comes before it, because the first match counts.
const PROGRAMS: [(&str, Collective); 9] = [
    ("all_reduce_perf", Collective::AllReduce),
    ("reduce_scatter_perf", Collective::ReduceScatter),
    ("all_gather_perf", Collective::AllGather),
    ("alltoall_perf", Collective::AllToAll),
    ("broadcast_perf", Collective::Broadcast),
    ("sendrecv_perf", Collective::SendReceive),
    ("reduce_perf", Collective::Reduce),
    ("gather_perf", Collective::Gather),
    ("scatter_perf", Collective::Scatter),
];
/// Texts in the line before a table (`STARTING`) and in the line after a table (`CONCLUDED`).
const STARTING: &str = "Collective test starting";
const CONCLUDED: &str = "Collective test concluded";
/// Note on a table with deviations.
const DEVIATIONS: &str = "the column `error` is the largest deviation of a result, as nccl-tests printed until August 2022, \
                          not a number of wrong results";
/// Largest accepted relative error of a ratio of printed figures, beyond their rounding.
const RATIO: f64 = 0.05;
/// Rounding of a printed bandwidth [GB/s].
const ROUNDING: f64 = 0.005;

/// Returns the operation of the program of nccl-tests that a line names; `None` if the line names no such program.
pub(super) fn program(line: &str) -> Option<Collective> {
    PROGRAMS.iter().find(|(name, _)| line.contains(name)).map(|(_, collective)| *collective)
}

/// Columns of a table: positions of the time columns, out of place and in place (`times`), and the number of all columns (`all`).
/// After each time column come the columns of two bandwidths and of errors.
#[derive(Debug, Clone, PartialEq)]
struct Columns {
    times: Vec<usize>,
    errors: ErrorColumn,
    /// Column of the elements' type.
    type_of: Option<usize>,
    /// Column of the operation that reduces; blank in rows of collectives that reduce nothing.
    reduction: Option<usize>,
    all: usize,
}

/// Number of columns of each half of a row: time, two bandwidths, errors.
const HALF: usize = 4;
/// What stands for a time that was not measured.
const NO_TIME: &str = "N/A";

impl Columns {
    /// Returns whether the first half of a row is blank, as with an in-place run only.
    fn lacks_half(&self, words: &[&str]) -> bool {
        self.times.len() == 2 && words.len() + HALF == self.all
    }
}

/// State of the table that is being read.
#[derive(Debug, Default)]
struct Table {
    collective: Option<Collective>,
    ranks: Ranks,
    columns: Option<Columns>,
    /// The name in the label of the header.
    name: String,
    /// Whether the table was printed by an unknown program; its rows are then left out.
    skipped: bool,
}

pub(super) fn read(text: &str, rows: &mut Rows<'_>) -> Result<(), TableError> {
    let mut table = Table::default();
    // Older versions name the program only after the table.
    let is_end =
        |(line, text): (usize, &str)| text.contains(CONCLUDED).then(|| (line, program(text)));
    let ends: Vec<_> = (1..).zip(text.lines()).filter_map(is_end).collect();
    for (line, raw) in (1..).zip(text.lines()) {
        let (name, bare) = named_and_bare(raw);
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
            if table.ranks.are_closed() {
                // The program that was named before has ended.
                table.collective = None;
            }
            table.ranks = Ranks::default();
        } else if words.first() == Some(&"Rank") && words.contains(&"device") {
            table.ranks.read(line, &words);
        } else if words.len() > 2 && words[..2] == ["size", "count"] {
            table.columns = Some(columns_of(&words, line)?);
            name.clone_into(&mut table.name);
            let later = || ends.get(ends.partition_point(|(end, _)| *end <= line));
            table.collective = table.collective.or_else(|| later()?.1);
        } else if begins_with_counts(&words, 2) && are_alike(name, &table.name) {
            row(line, words, &mut table, rows)?;
        }
    }
    Ok(())
}

fn columns_of(words: &[&str], line: usize) -> Result<Columns, TableError> {
    let is_time = |(index, word): (usize, &&str)| (*word == "time").then_some(index);
    let times: Vec<usize> = words.iter().enumerate().filter_map(is_time).collect();
    let follows = |time: &usize| words.get(time + 1..time + 3) == Some(&["algbw", "busbw"]);
    if !times.is_empty() && times.iter().all(follows) {
        let find = |name: &str| words.iter().position(|word| *word == name);
        return Ok(Columns {
            errors: ErrorColumn::of_header(words.get(times[0] + 3).copied()),
            times,
            type_of: find("type"),
            reduction: find("redop"),
            all: words.len(),
        });
    }
    let what = "the header has no columns `time algbw busbw`";
    Err(TableError::at(line, what, "give the output of nccl-tests as it was printed"))
}

fn row(
    line: usize,
    mut words: Vec<&str>,
    table: &mut Table,
    rows: &mut Rows<'_>,
) -> Result<(), TableError> {
    let Some(columns) = table.columns.as_ref().filter(|_| !table.skipped) else { return Ok(()) };
    if let Some(blank) = columns.reduction.filter(|at| words.get(*at).is_some_and(|w| is_number(w)))
    {
        words.insert(blank, "");
    }
    if columns.lacks_half(&words) {
        rows.leave_out("halves of rows without a time");
        words.splice(columns.times[0]..columns.times[0], [NO_TIME; HALF]);
    }
    // With `-S`, the time of day follows the columns.
    whole_row(&words, columns.all.max(words.len()), line)?;
    table.ranks.close();
    let said = table.ranks.number(rows)?;
    let collective = rows.collective(line, table.collective)?;
    let ranks = rows.ranks(line, collective, said)?;
    for (half, time) in columns.times.iter().enumerate() {
        if words[*time] == NO_TIME {
            rows.leave_out("halves of rows without a time");
            continue;
        }
        let value = |offset: usize| number(&words, time + offset, line);
        let (bytes, seconds) = (number(&words, 0, line)?, value(0)? * 1e-6);
        check_bandwidth(line, [bytes, seconds, value(1)?])?;
        check_ratio(line, collective, ranks, [value(1)?, value(2)?])?;
        let of_type = columns.type_of.and_then(|at| words.get(at)).copied().unwrap_or_default();
        let error = words.get(time + 3).copied().unwrap_or_default();
        rows.add(Row {
            line,
            collective: Some(collective),
            ranks: Some(ranks),
            bytes,
            seconds,
            labels: &[("buffers", if half == 0 { "out-of-place" } else { "in-place" })],
            excluded: columns.errors.excludes(error, of_type),
            ..Row::default()
        })?;
        if columns.errors.is_deviation(error) {
            rows.note(DEVIATIONS);
        }
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
    let accepted = RATIO + ROUNDING / algorithm + ROUNDING / bus;
    let off = ((bus / algorithm) / expected - 1.0).abs();
    if algorithm <= 0.0 || bus <= 0.0 || ranks < 2 || off < accepted {
        return Ok(());
    }
    let name = collective.name();
    let what = format!(
        "busbw is {:.3} of algbw, where `{name}` of {ranks} ranks has {expected:.3}",
        bus / algorithm
    );
    Err(TableError::at(line, what, "correct --collective or --ranks, or mend the row"))
}

/// Checks that the size [B], the time [s] and the algorithm bandwidth [GB/s] of a row agree.
fn check_bandwidth(line: usize, [bytes, seconds, algorithm]: [f64; 3]) -> Result<(), TableError> {
    let found = bytes / seconds * 1e-9;
    if algorithm <= 0.0
        || seconds <= 0.0
        || (found / algorithm - 1.0).abs() < RATIO + ROUNDING / algorithm
    {
        return Ok(());
    }
    let what = format!("algbw is {algorithm} GB/s, where the row's size and time give {found:.2}");
    Err(TableError::at(line, what, "mend or remove the row"))
}

/// Meaning of the column of errors. Since version 2.13 (August 2022) its header is `#wrong`, and it counts wrong results. Before, its
/// header was `error`, and it was the largest deviation of a result from the expected value, printed like `5e-07`: rounding of
/// sums is no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorColumn {
    /// Number of wrong results.
    Count,
    /// Largest deviation; a whole number without exponent is a count there too, as forks print it.
    Deviation,
}

/// Largest deviations that old versions accepted, by type; other types must agree exactly.
const ACCEPTED: [(&str, f64); 4] =
    [("half", 5e-2), ("bfloat16", 5e-2), ("float", 1e-5), ("double", 1e-12)];

impl ErrorColumn {
    fn of_header(word: Option<&str>) -> ErrorColumn {
        match word {
            Some("error") => ErrorColumn::Deviation,
            _ => ErrorColumn::Count,
        }
    }

    /// Returns whether a value is a deviation, not a count.
    fn is_deviation(self, word: &str) -> bool {
        self == ErrorColumn::Deviation && is_number(word) && word.contains(['e', 'E', '.'])
    }

    /// Returns why a row with this value must not be used; `None` if its results were right, or not checked (`N/A`).
    fn excludes(self, word: &str, of_type: &str) -> Option<String> {
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
