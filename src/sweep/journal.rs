//! Finished points in a file, one line each, so that a killed sweep loses none.

use super::settings::hex;
use super::{Row, Shard, SweepSettings};
use crate::scenario::Scenario;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::unix::fs::FileExt;

/// Maximum length of a line that is read [B]: a point has at most a thousand jobs, whose rows take some 5 kB each.
const LONGEST: u64 = 16 << 20;

/// Finished points by [`key`], and by their index. Their rows stay in the file, because the rows of a large sweep would fill the memory.
///
/// The first line holds the settings of the sweep, each further one a finished point. Every line begins with a checksum of the rest
/// of it, that of a point also of the first line: a line that was edited, or comes from another sweep, is noticed.
#[derive(Debug, Default)]
pub struct Journal {
    file: Option<File>,
    /// Place of each point's line, by its key.
    lines: BTreeMap<u128, Place>,
    /// Place of each point's line, by its index in the grid.
    points: BTreeMap<usize, Place>,
    /// Checksum of the first line.
    seal: u128,
    /// Length of all whole lines [B].
    length: u64,
    shard: Option<Box<ShardRecord>>,
}

/// Offset and length of a line [B].
type Place = (u64, usize);

/// Header of a shard's file beside the settings, so that shards can be joined without the scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRecord {
    /// Which shard the file has.
    pub shard: Shard,
    /// Number of points of the whole sweep.
    pub points: usize,
    /// Number of swept keys, which are the first columns.
    pub keys: usize,
    /// Names of all columns.
    pub header: Vec<String>,
    /// Unit of the numbers of each swept key; `None` if not all of its values are numbers.
    pub units: Vec<Option<String>>,
    /// Words of the command that makes a shard of this sweep, without `--shard`.
    pub command: Vec<String>,
}

/// What a file in the place of a journal is.
#[derive(Debug)]
pub enum JournalRead {
    /// Nothing, or the beginning of a first line.
    Empty,
    /// A journal, and the settings of its sweep.
    Journal(Journal, Box<SweepSettings>),
    /// A journal whose line of this number, from 1, was changed after a sweep wrote it.
    Edited(usize),
    /// A journal of a version of forebay that recorded no settings.
    Earlier,
    /// Something that no sweep wrote.
    Foreign,
}

/// The first line of the file.
#[derive(Serialize, Deserialize)]
struct First<S, P> {
    sweep: S,
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    shard: Option<P>,
}

/// A line of the file: a finished point.
#[derive(Serialize, Deserialize)]
struct Line<R> {
    key: String,
    /// Index of the point in the grid.
    #[serde(default)]
    point: usize,
    rows: R,
}

/// Begin of each line.
const SEALED: &str = "{\"sum\":\"";

impl Journal {
    /// Finds the points that an earlier sweep finished. A last line that was cut off is ignored.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(file: File) -> io::Result<JournalRead> {
        let mut journal = Journal::default();
        let mut file = file;
        file.rewind()?;
        let mut reader = BufReader::new(&file);
        let mut bytes = Vec::new();
        let mut next = |bytes: &mut Vec<u8>| {
            bytes.clear();
            (&mut reader).take(LONGEST).read_until(b'\n', bytes)
        };
        let length = next(&mut bytes)?;
        if bytes.iter().all(u8::is_ascii_whitespace) && length < LONGEST as usize {
            // What follows empty lines cannot be a journal's first line.
            return Ok(if next(&mut bytes)? == 0 {
                JournalRead::Empty
            } else {
                JournalRead::Foreign
            });
        }
        if bytes.last() != Some(&b'\n') && SEALED.as_bytes().iter().zip(&bytes).all(|(a, b)| a == b)
        {
            return Ok(JournalRead::Empty);
        }
        let first = sealed(&bytes, 0).and_then(|(seal, text)| {
            journal.seal = seal;
            serde_json::from_str::<First<SweepSettings, Box<ShardRecord>>>(&text).ok()
        });
        let Some(First { sweep, shard }) = first else {
            let earlier = serde_json::from_slice::<Line<Vec<Row>>>(&bytes).is_ok();
            let edited = bytes.starts_with(SEALED.as_bytes());
            return Ok(match (edited, earlier) {
                (true, _) => JournalRead::Edited(1),
                (false, true) => JournalRead::Earlier,
                (false, false) => JournalRead::Foreign,
            });
        };
        let mut begin = length as u64;
        for number in 2.. {
            let length = next(&mut bytes)?;
            if length == 0 || bytes.last() != Some(&b'\n') && length < LONGEST as usize {
                break;
            }
            let line = sealed(&bytes, journal.seal);
            let line =
                line.and_then(|(_, text)| serde_json::from_str::<Line<Vec<Row>>>(&text).ok());
            let point = line.and_then(|line| Some((number_of(&line.key)?, line.point)));
            let Some((key, point)) = point else {
                return Ok(JournalRead::Edited(number));
            };
            journal.add(key, point, (begin, length));
            begin += length as u64;
        }
        (journal.file, journal.length, journal.shard) = (Some(file), begin, shard);
        Ok(JournalRead::Journal(journal, Box::new(sweep)))
    }

    /// Begins a journal in an empty file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin(
        mut file: File,
        settings: &SweepSettings,
        shard: Option<&ShardRecord>,
    ) -> io::Result<Journal> {
        let (seal, length) = write_sealed(&mut file, &First { sweep: settings, shard }, 0)?;
        let shard = shard.cloned().map(Box::new);
        Ok(Journal { file: Some(file), seal, length: length as u64, shard, ..Journal::default() })
    }

    fn add(&mut self, key: u128, point: usize, place: Place) {
        self.lines.insert(key, place);
        self.points.insert(point, place);
    }

    /// Returns the length of all whole lines [B].
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns what the file of a shard says beside the settings.
    pub fn shard(&self) -> Option<&ShardRecord> {
        self.shard.as_deref()
    }

    /// Returns the number of finished points.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether no point was finished.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns the number of points of the grid that are finished: of several points with the same scenario, a file of a shard has each.
    pub fn points(&self) -> usize {
        self.points.len()
    }

    /// Returns the rows of the grid's point `index`, if it is finished and its rows have this number of columns.
    pub fn at(&self, index: usize, columns: usize) -> Option<Vec<Row>> {
        let line = self.line(*self.points.get(&index)?)?;
        let whole = line.point == index && line.rows.iter().all(|row| row.len() == columns);
        whole.then_some(line.rows)
    }

    /// Returns the rows of a point with this key, if it is finished and its rows have this number of columns. Their swept values are
    /// those of any point with the same scenario.
    pub fn find(&self, key: &str, columns: usize) -> Option<Vec<Row>> {
        let line = self.line(*self.lines.get(&number_of(key)?)?)?;
        let whole = line.key == key && line.rows.iter().all(|row| row.len() == columns);
        whole.then_some(line.rows)
    }

    fn line(&self, (begin, length): Place) -> Option<Line<Vec<Row>>> {
        let mut bytes = vec![0; length];
        // A point whose line cannot be read is run again.
        self.file.as_ref()?.read_exact_at(&mut bytes, begin).ok()?;
        let (_, text) = sealed(&bytes, self.seal)?;
        serde_json::from_str(&text).ok()
    }

    /// Writes the rows of the grid's point `point` as one line, and flushes.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(&mut self, key: &str, point: usize, rows: &[Row]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let line = Line { key: key.to_owned(), point, rows };
        let (_, length) = write_sealed(file, &line, self.seal)?;
        if let Some(key) = number_of(key) {
            self.add(key, point, (self.length, length));
        }
        self.length += length as u64;
        Ok(())
    }

    /// Makes sure that the file is on its disk.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_all)
    }
}

/// Writes a JSON object as a line with its checksum, and returns the checksum and the length of the line [B].
fn write_sealed(
    to: &mut impl Write,
    object: &impl Serialize,
    seal: u128,
) -> io::Result<(u128, usize)> {
    let text = serde_json::to_string(object)?;
    let rest = text.strip_prefix('{').unwrap_or(&text);
    let sum = fnv1a_from(seal, rest.as_bytes());
    // One write: a process that is killed leaves no line that looks whole.
    let line = format!("{SEALED}{}\",{rest}\n", hex(sum));
    to.write_all(line.as_bytes())?;
    to.flush()?;
    Ok((sum, line.len()))
}

/// Returns the checksum of a line and the object in it; `None` if the line is not as a sweep wrote it.
fn sealed(line: &[u8], seal: u128) -> Option<(u128, String)> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (sum, rest) = line.strip_prefix(SEALED)?.split_once("\",")?;
    let sum = number_of(sum)?;
    (fnv1a_from(seal, rest.as_bytes()) == sum).then(|| (sum, format!("{{{rest}")))
}

/// Returns the number that a [`key`] encodes in hexadecimal.
fn number_of(key: &str) -> Option<u128> {
    u128::from_str_radix(key, 16).ok()
}

/// Returns the key of a point's result: a hash of everything that the result depends on, namely the version of the program and the
/// whole scenario with its seed. If parameters are sampled, `sampled` says how often and from what, because the scenario has only the
/// parameters as measured.
pub fn key(scenario: &Scenario, sampled: Option<&str>) -> String {
    let all = format!("{}|{sampled:?}|{scenario:?}", env!("CARGO_PKG_VERSION"));
    hex(fnv1a(all.as_bytes()))
}

/// Returns the 128-bit FNV-1a hash, which is the same on every machine and with every compiler.
pub(super) fn fnv1a(bytes: &[u8]) -> u128 {
    fnv1a_from(0, bytes)
}

/// Returns the hash of `bytes` that come after others, whose hash is `before`; 0 if none do.
fn fnv1a_from(before: u128, bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let begin = if before == 0 { OFFSET } else { before };
    bytes.iter().fold(begin, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Cell;
    use std::io::Seek;

    /// Returns what a file with these bytes is.
    fn read(bytes: &[u8]) -> JournalRead {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(bytes).and_then(|()| file.rewind()).expect("a file that takes a few bytes");
        Journal::read(file).expect("a readable file")
    }

    /// Returns the journal of a sweep with these points.
    fn written(version: &str, points: &[(&str, &[Row])]) -> Vec<u8> {
        let text = format!(
            "{{\"forebay\":\"{version}\",\"settings\":[],\"axes\":[],\"files\":{{}},\"first\":\"\"}}"
        );
        let settings: SweepSettings = serde_json::from_str(&text).expect("settings");
        let mut file = tempfile::tempfile().expect("a temporary file");
        let copy = file.try_clone().expect("a second handle");
        let mut journal = Journal::begin(copy, &settings, None).expect("a few bytes");
        for (point, (key, rows)) in points.iter().enumerate() {
            journal.append(key, point, rows).expect("a few bytes");
            assert_eq!(journal.find(key, rows[0].len()).as_deref(), Some(*rows), "as written");
            assert_eq!(journal.at(point, rows[0].len()).as_deref(), Some(*rows), "as written");
        }
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("a readable file");
        bytes
    }

    fn journal(bytes: &[u8]) -> Journal {
        match read(bytes) {
            JournalRead::Journal(journal, ..) => journal,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_sweep_journal_finds_appended_points_but_no_truncated_lines() {
        let rows = vec![vec![Cell::Text("a".into()), Cell::Number(0.1), Cell::Empty]];
        let whole = written("1", &[("0a", &rows)]);
        let mut bytes = written("1", &[("0a", &rows), ("0b", &rows)]);
        bytes.truncate(bytes.len() - 5);
        let JournalRead::Journal(journal, _) = read(&bytes) else { panic!("a journal") };
        let length = journal.length();
        assert_eq!(journal.find("0a", 3).as_deref(), Some(&rows[..]));
        assert_eq!(journal.find("0a", 4), None, "another version had other columns");
        assert_eq!(journal.find("0b", 3), None);
        assert_eq!((journal.len(), journal.is_empty(), length), (1, false, whole.len() as u64));
    }

    #[test]
    fn numbers_in_a_journal_are_read_back_bit_for_bit() {
        // System: numbers that a reader with a rounding error at each digit misses by one unit in the last place, and
        // neighbours of powers of two. Expectation: the same bits are read back.
        let mut numbers = vec![0.00043858523099999996, 1.0 / 3.0, 5e-324, 1e300, -0.1];
        numbers.extend((0..2000).map(|i| f64::from(i).sin() * 10f64.powi(i % 40 - 20)));
        let row: Row = numbers.iter().map(|number| Cell::Number(*number)).collect();
        let bytes = written("1", &[("0a", std::slice::from_ref(&row))]);
        assert_eq!(journal(&bytes).find("0a", row.len()), Some(vec![row]));
    }

    #[test]
    fn edited_and_foreign_lines_of_a_sweep_journal_are_noticed() {
        // System: a journal of two points, of which each byte is changed in turn; a line of another sweep; other files.
        let rows = vec![vec![Cell::Number(12.5)]];
        let bytes = written("1", &[("0a", &rows), ("0b", &rows)]);
        for at in 0..bytes.len() - 1 {
            let mut edited = bytes.clone();
            edited[at] = if edited[at] == b'7' { b'8' } else { b'7' };
            assert!(!matches!(read(&edited), JournalRead::Journal(..)), "byte {at}");
        }
        let other = written("2", &[("0c", &rows)]);
        let from = other.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
        let mixed = [&bytes[..], &other[from..]].concat();
        assert!(matches!(read(&mixed), JournalRead::Edited(4)), "{:?}", read(&mixed));
        assert!(matches!(read(b"a,b\n1,2\n"), JournalRead::Foreign));
        assert!(matches!(read(b"{\"key\":\"0a\",\"rows\":[]}\n"), JournalRead::Earlier));
        for empty in [&b""[..], b"\n", &bytes[..20]] {
            assert!(matches!(read(empty), JournalRead::Empty), "{empty:?}");
        }
    }

    #[test]
    fn fnv1a_hashes_of_known_texts_are_the_published_values() {
        assert_eq!(fnv1a(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv1a(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
