//! Finished points on their way to a file, one line each, so that a killed sweep loses none.

use super::Row;
use crate::scenario::Scenario;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

/// Finished points by [`key`].
#[derive(Debug, Clone, Default)]
pub struct Journal {
    finished: BTreeMap<String, Vec<Row>>,
}

/// One line.
#[derive(Serialize, Deserialize)]
struct Line<R> {
    key: String,
    rows: R,
}

impl Journal {
    /// Reads what an earlier sweep finished. A line that was cut off counts for nothing.
    pub fn read(from: impl BufRead) -> io::Result<Journal> {
        let mut journal = Journal::default();
        for line in from.split(b'\n') {
            if let Ok(line) = serde_json::from_slice::<Line<Vec<Row>>>(&line?) {
                journal.finished.insert(line.key, line.rows);
            }
        }
        Ok(journal)
    }

    /// The rows of the point with this key, if it is finished and has rows of this width.
    pub fn find(&self, key: &str, columns: usize) -> Option<&[Row]> {
        let rows = self.finished.get(key)?;
        rows.iter().all(|row| row.len() == columns).then_some(rows)
    }

    /// Writes a finished point as one line, at once.
    pub fn append(to: &mut impl Write, key: &str, rows: &[Row]) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Line { key: key.to_owned(), rows })?;
        line.push(b'\n');
        to.write_all(&line)?;
        to.flush()
    }
}

/// What identifies a point's result: everything that it depends on, in short: the version of
/// the program, the point's values and the whole scenario with its seed.
pub fn key(point: &str, scenario: &Scenario) -> String {
    let all = format!("{}|{point}|{scenario:?}", env!("CARGO_PKG_VERSION"));
    format!("{:032x}", fnv1a(all.as_bytes()))
}

/// The 128-bit FNV-1a hash: the same on every machine and with every compiler.
fn fnv1a(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Cell;

    #[test]
    fn what_was_appended_is_found_and_a_torn_line_is_not() {
        let rows = vec![vec![Cell::Text("a".into()), Cell::Number(0.1), Cell::Empty]];
        let mut bytes = Vec::new();
        assert!(Journal::append(&mut bytes, "one", &rows).is_ok());
        assert!(Journal::append(&mut bytes, "two", &rows).is_ok());
        bytes.truncate(bytes.len() - 5);
        let journal = Journal::read(&bytes[..]).unwrap_or_default();
        assert_eq!(journal.find("one", 3), Some(&rows[..]));
        assert_eq!(journal.find("one", 4), None, "another version had other columns");
        assert_eq!(journal.find("two", 3), None);
    }

    #[test]
    fn fnv1a_of_known_text() {
        assert_eq!(fnv1a(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv1a(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
