//! Rows as Parquet: compressed with Zstandard, numbers as doubles, units in the metadata of columns.

use crate::metric::{self, Unit};
use crate::sweep::{Cell, Row};
use arrow_array::builder::{Float64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

/// Number of rows that are kept in memory until they are written together.
const GROUP: usize = 4096;

/// Key of a column's unit in its metadata.
const UNIT: &str = "unit";

/// Names and units of the columns of a file.
pub(super) struct Columns(Vec<Column>);

struct Column {
    name: String,
    /// Unit of the numbers; `None` for texts.
    unit: Option<String>,
}

impl Columns {
    /// Returns the columns of rows with this header, which begins with the swept keys; `units` are those of their numbers.
    pub(super) fn new(header: &[String], units: &[Option<String>]) -> Columns {
        let column = |(at, name): (usize, &String)| {
            let unit = match units.get(at) {
                Some(unit) => unit.clone(),
                None => unit_of(name),
            };
            Column { name: name.clone(), unit }
        };
        Columns(header.iter().enumerate().map(column).collect())
    }

    fn schema(&self) -> Schema {
        let field = |column: &Column| {
            let kind = column.unit.as_ref().map_or(DataType::Utf8, |_| DataType::Float64);
            let unit = column.unit.iter().filter(|unit| !unit.is_empty());
            let metadata: HashMap<String, String> =
                unit.map(|unit| (UNIT.to_owned(), unit.clone())).collect();
            Field::new(&column.name, kind, true).with_metadata(metadata)
        };
        Schema::new(self.0.iter().map(field).collect::<Vec<_>>())
    }
}

/// Returns the unit of a figure's column, or of an end of its interval; `None` if the column has texts.
fn unit_of(name: &str) -> Option<String> {
    let figure = || ["_lo", "_hi"].iter().find_map(|end| name.strip_suffix(end));
    let found = metric::of_column(name).or_else(|| metric::of_column(figure()?))?;
    match found.unit {
        Unit::Text => None,
        Unit::Share | Unit::Count | Unit::Ratio | Unit::Money => Some("1".to_owned()),
        unit => Some(unit.symbol().to_owned()),
    }
}

/// The values of a column that are not written yet.
enum Values {
    Numbers(Float64Builder),
    Texts(StringBuilder),
}

/// A Parquet file that is being written.
pub(super) struct ParquetRows<W: Write + Send> {
    values: Vec<Values>,
    schema: Arc<Schema>,
    rows: usize,
    writer: ArrowWriter<W>,
}

impl<W: Write + Send> ParquetRows<W> {
    pub(super) fn begin(target: W, columns: Columns) -> io::Result<ParquetRows<W>> {
        let schema = Arc::new(columns.schema());
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by(concat!("forebay ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer = ArrowWriter::try_new(target, Arc::clone(&schema), Some(properties));
        let values = columns.0.iter().map(Values::of).collect();
        Ok(ParquetRows { values, schema, rows: 0, writer: writer.map_err(reason)? })
    }

    /// Takes a row, and writes the rows so far when there are many.
    pub(super) fn put(&mut self, row: &Row) -> io::Result<()> {
        for (values, cell) in self.values.iter_mut().zip(row) {
            values.put(cell);
        }
        self.rows += 1;
        if self.rows == GROUP { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> io::Result<()> {
        let columns: Vec<ArrayRef> = self.values.iter_mut().map(Values::take).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        let batch = batch.map_err(|error| reason(ParquetError::ArrowError(error.to_string())))?;
        self.rows = 0;
        // A group of rows is compressed as a whole, and then leaves the memory.
        self.writer.write(&batch).and_then(|()| self.writer.flush()).map_err(reason)
    }

    /// Writes the rest, and returns where it was written to.
    pub(super) fn finish(mut self) -> io::Result<W> {
        if self.rows > 0 {
            self.write()?;
        }
        self.writer.into_inner().map_err(reason)
    }
}

impl Values {
    fn of(column: &Column) -> Values {
        match column.unit {
            Some(_) => Values::Numbers(Float64Builder::new()),
            None => Values::Texts(StringBuilder::new()),
        }
    }

    fn put(&mut self, cell: &Cell) {
        match (self, cell) {
            (Values::Numbers(numbers), cell) => numbers.append_option(cell.si()),
            (Values::Texts(texts), Cell::Empty) => texts.append_null(),
            (Values::Texts(texts), cell) => texts.append_value(cell.to_string()),
        }
    }

    fn take(&mut self) -> ArrayRef {
        match self {
            Values::Numbers(numbers) => Arc::new(numbers.finish()),
            Values::Texts(texts) => Arc::new(texts.finish()),
        }
    }
}

/// Returns the error of the file or pipe that made Parquet fail.
fn reason(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(of) => match of.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(of) => io::Error::other(of),
        },
        error => io::Error::other(error),
    }
}
