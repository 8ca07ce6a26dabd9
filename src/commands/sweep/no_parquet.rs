//! Stands in for Parquet in a build without it.

use crate::sweep::Row;
use std::convert::Infallible;
use std::io;

pub(super) struct Columns;

impl Columns {
    pub(super) fn new(_header: &[String], _units: &[Option<String>]) -> Columns {
        Columns
    }
}

/// No value of this type exists.
pub(super) struct ParquetRows<W>(W, Infallible);

impl<W> ParquetRows<W> {
    pub(super) fn begin(_target: W, _columns: Columns) -> io::Result<ParquetRows<W>> {
        Err(io::Error::other("this build of forebay has no Parquet: write `--format csv`"))
    }

    pub(super) fn put(&mut self, _row: &Row) -> io::Result<()> {
        match self.1 {}
    }

    pub(super) fn finish(self) -> io::Result<W> {
        match self.1 {}
    }
}
