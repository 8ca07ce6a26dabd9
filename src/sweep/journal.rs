//! Finished points in a file, one line each, so that a killed sweep loses none.

use super::Row;
use crate::scenario::Scenario;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;

/// Maximum length of a line that is read [B]: a point has at most a thousand jobs, whose rows take some 5 kB each.
const LONGEST: u64 = 16 << 20;

/// Finished points by [`key`]. Their rows stay in the file, because the rows of a large sweep would fill the memory.
#[derive(Debug, Default)]
pub struct Journal {
    file: Option<File>,
    /// Offset and length of each point's line [B].
    lines: BTreeMap<u128, (u64, usize)>,
    /// Whether the file holds anything but empty lines.
    holds_text: bool,
}

/// A line of the file: a finished point.
#[derive(Serialize, Deserialize)]
struct Line<R> {
    key: String,
    rows: R,
}

impl Journal {
    /// Finds the points that an earlier sweep finished. A line that was cut off is ignored.
    pub fn read(file: File) -> io::Result<Journal> {
        let mut journal = Journal::default();
        let mut reader = BufReader::new(&file);
        let (mut begin, mut bytes) = (0, Vec::new());
        loop {
            bytes.clear();
            let length = (&mut reader).take(LONGEST).read_until(b'\n', &mut bytes)?;
            if length == 0 {
                break;
            }
            journal.holds_text |= bytes.iter().any(|byte| !byte.is_ascii_whitespace());
            // A line longer than the limit comes in pieces, none of which parses.
            let line = serde_json::from_slice::<Line<Vec<Row>>>(&bytes).ok();
            if let Some(number) = line.and_then(|line| number_of(&line.key)) {
                journal.lines.insert(number, (begin, length));
            }
            begin += length as u64;
        }
        journal.file = Some(file);
        Ok(journal)
    }

    /// Returns the number of finished points.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether the file holds nothing but empty lines.
    pub fn is_empty(&self) -> bool {
        !self.holds_text
    }

    /// Returns the rows of the point with this key, if it is finished and its rows have this number of columns.
    pub fn find(&self, key: &str, columns: usize) -> Option<Vec<Row>> {
        let (begin, length) = *self.lines.get(&number_of(key)?)?;
        let mut bytes = vec![0; length];
        // A point whose line cannot be read is run again.
        self.file.as_ref()?.read_exact_at(&mut bytes, begin).ok()?;
        let line: Line<Vec<Row>> = serde_json::from_slice(&bytes).ok()?;
        let whole = line.key == key && line.rows.iter().all(|row| row.len() == columns);
        whole.then_some(line.rows)
    }

    /// Writes a finished point as one line, and flushes.
    pub fn append(to: &mut impl Write, key: &str, rows: &[Row]) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Line { key: key.to_owned(), rows })?;
        line.push(b'\n');
        to.write_all(&line)?;
        to.flush()
    }
}

/// Returns the number that a [`key`] encodes in hexadecimal.
fn number_of(key: &str) -> Option<u128> {
    u128::from_str_radix(key, 16).ok()
}

/// Returns the key of a point's result: a hash of everything that the result depends on, namely the version of the program, the
/// point's values and the whole scenario with its seed.
pub fn key(point: &str, scenario: &Scenario) -> String {
    let all = format!("{}|{point}|{scenario:?}", env!("CARGO_PKG_VERSION"));
    format!("{:032x}", fnv1a(all.as_bytes()))
}

/// Returns the 128-bit FNV-1a hash, which is the same on every machine and with every compiler.
fn fnv1a(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Cell;
    use std::io::Seek;

    /// Returns the journal in a file with these bytes.
    fn journal(bytes: &[u8]) -> Journal {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(bytes).and_then(|()| file.rewind()).expect("a file that takes a few bytes");
        Journal::read(file).expect("a readable file")
    }

    #[test]
    fn a_sweep_journal_finds_appended_points_but_no_truncated_lines() {
        let rows = vec![vec![Cell::Text("a".into()), Cell::Number(0.1), Cell::Empty]];
        let mut bytes = Vec::new();
        assert!(Journal::append(&mut bytes, "0a", &rows).is_ok());
        assert!(Journal::append(&mut bytes, "0b", &rows).is_ok());
        bytes.truncate(bytes.len() - 5);
        let journal = journal(&bytes);
        assert_eq!(journal.find("0a", 3).as_deref(), Some(&rows[..]));
        assert_eq!(journal.find("0a", 4), None, "another version had other columns");
        assert_eq!(journal.find("0b", 3), None);
        assert_eq!((journal.len(), journal.is_empty()), (1, false));
    }

    #[test]
    fn numbers_in_a_journal_are_read_back_bit_for_bit() {
        // System: numbers that a reader with a rounding error at each digit misses by one unit in the last place, and
        // neighbours of powers of two. Expectation: the same bits are read back.
        let mut numbers = vec![0.00043858523099999996, 1.0 / 3.0, 5e-324, 1e300, -0.1];
        numbers.extend((0..2000).map(|i| f64::from(i).sin() * 10f64.powi(i % 40 - 20)));
        let row: Row = numbers.iter().map(|number| Cell::Number(*number)).collect();
        let mut bytes = Vec::new();
        assert!(Journal::append(&mut bytes, "0a", std::slice::from_ref(&row)).is_ok());
        assert_eq!(journal(&bytes).find("0a", row.len()), Some(vec![row]));
    }

    #[test]
    fn a_sweep_journal_of_empty_lines_counts_as_empty() {
        assert!(journal(b"").is_empty() && journal(b"\n\n").is_empty());
        assert!(!journal(b"\n{").is_empty());
    }

    #[test]
    fn fnv1a_hashes_of_known_texts_are_the_published_values() {
        assert_eq!(fnv1a(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv1a(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
