//! Limits the length of each row of a CSV file, since a parser keeps whole rows in memory.

use super::InputError;
use std::io::{self, Read};

/// Longest row [B]: one with a thousand columns has some 20 kB.
const LONGEST: usize = 1 << 20;

/// A reader of CSV that ends with an error where a row is longer than a mebibyte: a parser keeps rows as a whole.
#[derive(Debug)]
pub struct Records<R> {
    inner: R,
    /// Line of the next byte, and of the first of its row, from 1.
    line: usize,
    first: usize,
    /// Bytes of the row so far.
    length: usize,
    place: CellState,
}

/// Where in a cell the next byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellState {
    Start,
    Plain,
    Quoted,
    /// After a quotation mark in a quoted cell: it ends the cell, or is the first of two.
    Mark,
}

impl<R: Read> Records<R> {
    /// Reads the rows of `inner`.
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
    fn long_files_of_short_rows_pass() {
        // A quotation mark within a plain cell begins nothing; in a quoted one two are one.
        let text = "a,5\" disk,\"x, \"\"y\"\"\n\"\n".repeat(100_000);
        assert_eq!(read(&text), Ok(text.len() as u64));
        let text = "a\rb\r".repeat(LONGEST);
        assert_eq!(read(&text), Ok(text.len() as u64));
    }

    #[test]
    fn a_long_row_is_told_by_its_first_line() {
        let long = "1".repeat(LONGEST + 1);
        let said = read(&format!("a,b\n1,2\n3,{long}")).unwrap_err();
        assert!(said.contains("a row from line 3 on has more than 1 MiB"), "{said}");
        // A quotation mark that is never closed makes the rest one cell.
        let said = read(&format!("a,b\n1,\"2\n{}", "3,4\n".repeat(LONGEST))).unwrap_err();
        assert!(said.contains("from line 2 on"), "{said}");
    }
}
