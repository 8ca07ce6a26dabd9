//! Limits the length of each row of a CSV file, since a parser keeps whole rows in memory.

use super::InputError;
use std::io::{self, Read};

/// Limit for the length of a row [B]; a row with a thousand columns has some 20 kB.
const LONGEST: usize = 1 << 20;

/// A reader of CSV that fails if a row is longer than 1 MiB, since a parser keeps whole rows in memory.
#[derive(Debug)]
pub struct Records<R> {
    inner: R,
    /// Line of the next byte, and line in which its row begins, both from 1.
    line: usize,
    first: usize,
    /// Bytes of the row read so far.
    length: usize,
    place: CellState,
}

/// State of the CSV cell before the next byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellState {
    Start,
    Plain,
    Quoted,
    /// After a quotation mark in a quoted cell: it ends the cell, or is the first half of an escaped quotation mark.
    Mark,
}

impl<R: Read> Records<R> {
    /// Returns a reader that checks the rows of `inner`.
    pub fn new(inner: R) -> Records<R> {
        Records { inner, line: 1, first: 1, length: 0, place: CellState::Start }
    }

    /// Updates line, row length and quoting for one byte.
    fn pass(&mut self, byte: u8) {
        self.length += 1;
        self.line += usize::from(byte == b'\n');
        self.place = match (self.place, byte) {
            (CellState::Quoted, b'"') => CellState::Mark,
            (CellState::Start | CellState::Mark, b'"') | (CellState::Quoted, _) => {
                CellState::Quoted
            }
            (_, b',') => CellState::Start,
            (_, b'\n' | b'\r') => {
                (self.first, self.length) = (self.line, 0);
                CellState::Start
            }
            _ => CellState::Plain,
        };
    }
}

impl<R: Read> Read for Records<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        for &byte in &buffer[..read] {
            self.pass(byte);
            if self.length > LONGEST {
                return Err(InputError::LongRow { line: self.first }.into());
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<u64, String> {
        let mut records = Records::new(text.as_bytes());
        io::copy(&mut records, &mut io::sink()).map_err(|error| error.to_string())
    }

    #[test]
    fn long_files_of_short_rows_are_accepted() {
        // A quotation mark within a plain cell starts no quoted text; two in a quoted cell stand for one.
        let text = "a,5\" disk,\"x, \"\"y\"\"\n\"\n".repeat(100_000);
        assert_eq!(read(&text), Ok(text.len() as u64));
        let text = "a\rb\r".repeat(LONGEST);
        assert_eq!(read(&text), Ok(text.len() as u64));
    }

    #[test]
    fn the_first_line_of_an_oversized_csv_row_is_reported() {
        let long = "1".repeat(LONGEST + 1);
        let said = read(&format!("a,b\n1,2\n3,{long}")).unwrap_err();
        assert!(said.contains("the row that begins on line 3 has more than 1 MiB"), "{said}");
        // A quotation mark that is never closed makes the rest of the file one cell.
        let said = read(&format!("a,b\n1,\"2\n{}", "3,4\n".repeat(LONGEST))).unwrap_err();
        assert!(said.contains("begins on line 2"), "{said}");
    }
}
