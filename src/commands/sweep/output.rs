//! The rows of a sweep: written in the order of the grid, and kept if the sweep is interrupted.

use super::journal::{UNFINISHED, journal_of};
use super::parquet::{Columns, ParquetRows};
use crate::cli::RowFormat;
use crate::commands::Failure;
use crate::commands::output::Pending;
use crate::input::shown;
use crate::sweep::{Cell, Row, Selection};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes rows to a file or to standard output.
pub(super) struct Output {
    body: Body,
    /// The file that is written; `None` for standard output.
    path: Option<PathBuf>,
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

/// Rows as text, line by line, or as Parquet, thousands of rows at a time.
enum Body {
    Text(RowFormat, Target),
    Parquet(Box<ParquetRows<Target>>),
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

    /// Returns standard output, or a file that is written under a temporary name which no other process uses.
    pub(super) fn shared(path: Option<&Path>) -> Result<Target, Failure> {
        let file = |path: &Path| Ok(Target::File(path.to_owned(), Pending::create(path)?));
        path.map_or(Ok(Target::Stdout), file)
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::Stdout => io::stdout().lock().write(bytes),
            Target::File(_, pending) => pending.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Target::Stdout => io::stdout().lock().flush(),
            Target::File(_, pending) => pending.flush(),
        }
    }
}

impl Output {
    /// Starts writing to `target`; `units` are those of the swept keys' numbers.
    pub(super) fn create(
        target: Target,
        format: RowFormat,
        (header, selection): (&[String], Selection),
        units: &[Option<String>],
    ) -> Result<Output, Failure> {
        let path = match &target {
            Target::Stdout => None,
            Target::File(path, _) => Some(path.clone()),
        };
        let header = selection.of(header);
        let body = match format {
            RowFormat::Csv | RowFormat::Json => Body::Text(format, target),
            RowFormat::Parquet => {
                let rows = ParquetRows::begin(target, Columns::new(&header, units));
                Body::Parquet(Box::new(rows.map_err(|error| unwritable(path.as_deref(), &error))?))
            }
        };
        let (waiting, next, points, rows) = (BTreeMap::new(), 0, 0, 0);
        let mut out = Output { body, path, header, selection, waiting, next, points, rows };
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
        if let Body::Text(RowFormat::Json, _) = self.body {
            self.write(if self.rows == 0 { b"[]\n" } else { b"\n]\n" })?;
        }
        let done = self.points;
        let path = self.path.as_deref();
        let target = match self.body {
            Body::Text(_, target) => target,
            Body::Parquet(rows) => rows.finish().map_err(|error| unwritable(path, &error))?,
        };
        let kept = match target {
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
        if let Body::Text(RowFormat::Csv, _) = self.body {
            let line = csv_line(self.header.iter().map(String::as_str));
            return self.write(&line);
        }
        Ok(())
    }

    fn write_rows(&mut self, rows: &[Row]) -> Result<(), Failure> {
        self.points += 1;
        let mut bytes = Vec::new();
        for row in rows {
            let row = self.selection.of(row);
            match &mut self.body {
                Body::Text(RowFormat::Json, _) => {
                    bytes.extend(if self.rows == 0 { "[\n" } else { ",\n" }.bytes());
                    bytes.extend(json_object(&self.header, &row).bytes());
                }
                Body::Text(..) => {
                    let cells: Vec<String> = row.iter().map(Cell::to_csv).collect();
                    bytes.extend(csv_line(cells.iter().map(String::as_str)));
                }
                Body::Parquet(rows) => {
                    let put = rows.put(&row);
                    put.map_err(|error| unwritable(self.path.as_deref(), &error))?;
                }
            }
            self.rows += 1;
        }
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Body::Text(_, target) = &mut self.body else { return Ok(()) };
        let mut written = target.write_all(bytes);
        if let Target::Stdout = target {
            // Whoever reads a pipe sees rows as they come.
            written = written.and_then(|()| target.flush());
        }
        written.map_err(|error| unwritable(self.path.as_deref(), &error))
    }
}

/// Returns the failure that the output, a file or standard output, cannot be written.
fn unwritable(path: Option<&Path>, error: &io::Error) -> Failure {
    path.map_or_else(|| Failure::stdout(error), |path| Failure::unwritable(path, error))
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
