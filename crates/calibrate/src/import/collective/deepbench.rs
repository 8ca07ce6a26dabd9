//! Reads DeepBench's all-reduce: the output of its programs, and its tables of results as CSV.

use super::TableError;
use super::kind::Collective;
use super::row::{Row, Rows};
use super::text::{begins_with_counts, number, unit, words};
use crate::import::label::bare;

/// Size of a float [B].
const FLOAT: f64 = 4.0;

/// Reads the output of DeepBench's programs: a title, `Num Ranks: N`, a header, and rows with floats, bytes and times.
pub(super) fn read(text: &str, rows: &mut Rows<'_>) -> Result<(), TableError> {
    let mut algorithm = String::new();
    let mut ranks = None;
    // Column and unit of the time: the time of the slowest rank, or the only time.
    let mut time = None;
    for (line, text) in (1..).zip(text.lines()) {
        let text = bare(text);
        let words = words(text);
        if let [name @ .., "AllReduce"] = &words[..] {
            (algorithm, ranks, time) = (name.join(" "), None, None);
        } else if let ["Num", "Ranks:", number, ..] = words[..] {
            ranks = Some(number.parse().map_err(|_| {
                let what = format!("`{number}` is no number of ranks");
                TableError::at(line, what, "write a whole number")
            })?);
        } else if text.contains("# of floats") {
            time = Some(time_column(text, line)?);
        } else if let Some((column, unit)) = time
            && begins_with_counts(&words, 2)
        {
            rows.add(Row {
                line,
                collective: Some(Collective::AllReduce),
                ranks,
                bytes: number(&words, 1, line)?,
                seconds: number(&words, column, line)? * unit,
                labels: &[("algorithm", &algorithm)],
                ..Row::default()
            })?;
        }
    }
    Ok(())
}

/// Returns the column of the time and its unit [s]. After the columns for floats and bytes, a table has either one column of
/// times, or two for the mean and the maximum, of which the maximum is used.
fn time_column(header: &str, line: usize) -> Result<(usize, f64), TableError> {
    let columns: Vec<&str> = header.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
    let time = columns.iter().rposition(|column| column.contains("Time"));
    let found = time.and_then(|time| Some((time, unit(columns[time])?)));
    found.ok_or_else(|| {
        let what = "the header has no time with its unit";
        TableError::at(line, what, "give the output of DeepBench as it was printed")
    })
}

/// Returns whether the first line that is neither empty nor a comment is a CSV header.
pub(super) fn is_csv(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines.next().is_some_and(|line| line.contains(',') && line.contains("milliseconds"))
}

/// Reads a table of results with the columns `ranks`, `floats` or `bytes`, and `milliseconds`. Optional columns are `algorithm`,
/// and `machine`, which names the transport.
pub(super) fn read_csv(text: &str, rows: &mut Rows<'_>) -> Result<(), TableError> {
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let damaged = |error: &csv::Error| {
        let line = error.position().map(|position| position.line() as usize);
        TableError {
            line,
            what: format!("not CSV: {error}"),
            remedy: "give each row as many columns as the header".to_owned(),
        }
    };
    let headers = reader.headers().map_err(|error| damaged(&error))?.clone();
    let find = |name: &str| headers.iter().position(|header| header == name);
    let need = |name: &str| {
        find(name).ok_or_else(|| TableError {
            line: None,
            what: format!("the file has no column `{name}`"),
            remedy: "name the columns ranks, floats or bytes, milliseconds".to_owned(),
        })
    };
    let ranks = need("ranks")?;
    let milliseconds = need("milliseconds")?;
    let (size, each) = match find("bytes") {
        Some(bytes) => (bytes, 1.0),
        None => (need("floats")?, FLOAT),
    };
    for record in reader.records() {
        let record = record.map_err(|error| damaged(&error))?;
        let line = record.position().map_or(0, |position| position.line() as usize);
        let words: Vec<&str> = record.iter().collect();
        let text = |name: &str| find(name).map_or("", |column| words[column]);
        let mut labels = vec![("algorithm", text("algorithm"))];
        if !text("machine").is_empty() {
            labels.push(("transport", text("machine")));
        }
        rows.add(Row {
            line,
            collective: Some(Collective::AllReduce),
            ranks: u32::try_from(super::text::count(&words, ranks, line)?).ok(),
            bytes: number(&words, size, line)? * each,
            seconds: number(&words, milliseconds, line)? * 1e-3,
            labels: &labels,
            ..Row::default()
        })?;
    }
    Ok(())
}
