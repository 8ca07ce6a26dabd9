//! The rows of a sweep: written in the order of the grid, and kept if the sweep is interrupted.

use super::journal::{UNFINISHED, journal_of};
use crate::cli::RowFormat;
use crate::commands::Failure;
use crate::commands::output::{self, Pending};
use crate::input::shown;
use crate::sweep::{Cell, Row, Selection};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes rows to a file or to standard output.
pub(super) struct Output {
    target: Target,
    format: RowFormat,
    /// Names of the written columns. The journal keeps all columns, so that a resumed sweep can select other ones.
    header: Vec<String>,
    selection: Selection,
    /// Rows of finished points, by index, that wait until an earlier point is finished.
    waiting: BTreeMap<usize, Vec<Row>>,
    /// Index of the first point that is not written yet.
    next: usize,
    points: usize,
    rows: usize,
}

/// Standard output, or a file that is being written.
pub(super) enum Target {
    Stdout,
    File(PathBuf, Pending),
}

impl Target {
    /// Returns standard output, or a file of a sweep with a journal, whose lock keeps other sweeps away: the temporary file of a killed
    /// one is replaced.
    pub(super) fn kept(path: Option<&Path>) -> Result<Target, Failure> {
        let file =
            |path: &Path| Ok(Target::File(path.to_owned(), Pending::create_as(path, UNFINISHED)?));
        path.map_or(Ok(Target::Stdout), file)
    }

    /// Returns standard output, or a file to which others may write at the same time.
    pub(super) fn shared(path: Option<&Path>) -> Result<Target, Failure> {
        let file = |path: &Path| Ok(Target::File(path.to_owned(), Pending::create(path)?));
        path.map_or(Ok(Target::Stdout), file)
    }
}

impl Output {
    /// Starts writing to `target`.
    pub(super) fn create(
        target: Target,
        format: RowFormat,
        (header, selection): (&[String], Selection),
    ) -> Result<Output, Failure> {
        let header = selection.of(header);
        let (waiting, next, points, rows) = (BTreeMap::new(), 0, 0, 0);
        let mut out = Output { target, format, header, selection, waiting, next, points, rows };
        out.begin()?;
        Ok(out)
    }

    /// Takes the rows of a point, and writes all rows whose turn has come.
    pub(super) fn put(&mut self, index: usize, rows: Vec<Row>) -> Result<(), Failure> {
        self.waiting.insert(index, rows);
        while let Some(rows) = self.waiting.remove(&self.next) {
            self.next += 1;
            self.write_rows(&rows)?;
        }
        Ok(())
    }

    /// Writes the waiting rows and closes the output, which has all `points` points, or only the finished ones after an
    /// interruption. A file that was there before stays as it was unless all points are finished: it may hold all rows of an
    /// earlier sweep.
    pub(super) fn finish(mut self, points: usize) -> Result<(), Failure> {
        for rows in std::mem::take(&mut self.waiting).into_values() {
            self.write_rows(&rows)?;
        }
        if self.format == RowFormat::Json {
            self.write(if self.rows == 0 { b"[]\n" } else { b"\n]\n" })?;
        }
        let done = self.points;
        let kept = match self.target {
            Target::Stdout => format!("{done} of {points} points were written"),
            Target::File(path, _) if done == 0 && points > 0 => {
                format!("no point was finished, and {} is as it was", shown(&path))
            }
            Target::File(path, _) if done < points && path.is_file() => {
                let (partial, path) = (shown(&journal_of(&path)?), shown(&path));
                format!(
                    "{done} of {points} points are kept in {partial}, and {path} is as it was; --resume goes on"
                )
            }
            Target::File(path, pending) => {
                pending.finish()?;
                format!("{done} of {points} points are in {}; --resume goes on", shown(&path))
            }
        };
        if done < points { Err(Failure::Interrupted(kept)) } else { Ok(()) }
    }

    fn begin(&mut self) -> Result<(), Failure> {
        match self.format {
            RowFormat::Csv => {
                let line = csv_line(self.header.iter().map(String::as_str));
                self.write(&line)
            }
            RowFormat::Json => Ok(()),
        }
    }

    fn write_rows(&mut self, rows: &[Row]) -> Result<(), Failure> {
        self.points += 1;
        let mut bytes = Vec::new();
        for row in rows {
            let row = &self.selection.of(row);
            match self.format {
                RowFormat::Csv => {
                    let cells: Vec<String> = row.iter().map(Cell::to_csv).collect();
                    bytes.extend(csv_line(cells.iter().map(String::as_str)));
                }
                RowFormat::Json => {
                    bytes.extend(if self.rows == 0 { "[\n" } else { ",\n" }.bytes());
                    bytes.extend(json_object(&self.header, row).bytes());
                }
            }
            self.rows += 1;
        }
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match &mut self.target {
            Target::Stdout => output::stdout(bytes),
            Target::File(path, pending) => {
                pending.write_all(bytes).map_err(|error| Failure::unwritable(path, &error))
            }
        }
    }
}

/// Formats cells as a line of CSV.
fn csv_line<'a>(cells: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Writing to memory does not fail.
    writer.write_record(cells).ok();
    writer.into_inner().unwrap_or_default()
}

/// Formats a row as a JSON object with its keys in the order of the header.
fn json_object(header: &[String], row: &Row) -> String {
    let pair = |(name, cell): (&String, &Cell)| {
        format!("{}: {}", serde_json::Value::from(name.as_str()), cell.to_json())
    };
    let pairs: Vec<String> = header.iter().zip(row).map(pair).collect();
    format!("  {{ {} }}", pairs.join(", "))
}
