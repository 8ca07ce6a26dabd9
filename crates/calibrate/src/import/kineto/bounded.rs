//! Limits the size of strings and the nesting in JSON, so that reading it cannot exhaust memory.

use forebay_model::input::InputError;
use std::io::{self, Read};

/// Limit for the length of a string or number [B].
const LONGEST: usize = 1 << 20;
/// Limit for the nesting of arrays and objects.
const DEEPEST: usize = 1000;

/// A reader of JSON that fails if a string or number is longer than 1 MiB, or if values are nested deeper than 1000 levels. A
/// parser keeps a whole string, a whole number and all open levels in memory; it skips everything else.
pub(super) struct Bounded<R> {
    inner: R,
    /// Bytes of the current string or number so far.
    length: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl<R: Read> Bounded<R> {
    pub(super) fn new(inner: R) -> Bounded<R> {
        Bounded { inner, length: 0, depth: 0, in_string: false, escaped: false }
    }

    /// Updates the length of the current string or number and the depth of nesting for one byte of JSON.
    fn pass(&mut self, byte: u8) {
        self.length += 1;
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => (self.in_string, self.length) = (false, 0),
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => (self.in_string, self.length) = (true, 0),
            b'[' | b'{' => (self.depth, self.length) = (self.depth + 1, 0),
            b']' | b'}' => (self.depth, self.length) = (self.depth.saturating_sub(1), 0),
            b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => self.length = 0,
            _ => {}
        }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        for &byte in &buffer[..read] {
            self.pass(byte);
            if self.length > LONGEST {
                return Err(InputError::Excess("a string or a number of more than 1 MiB").into());
            }
            if self.depth > DEEPEST {
                return Err(InputError::Excess("more than 1000 nested values").into());
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<u64, String> {
        let mut bounded = Bounded::new(text.as_bytes());
        io::copy(&mut bounded, &mut io::sink()).map_err(|error| error.to_string())
    }

    #[test]
    fn long_json_files_of_short_values_are_accepted() {
        let event = r#"{"name": "a\"b\\", "ts": [1.5, {}]},"#;
        let text = event.repeat(100_000);
        assert_eq!(read(&text), Ok(text.len() as u64));
    }

    #[test]
    fn oversized_strings_and_numbers_and_deeply_nested_json_are_refused() {
        let (long, deep) = ("1".repeat(LONGEST + 2), "[".repeat(DEEPEST + 1));
        assert!(read(&format!("[\"{long}\"]")).unwrap_err().contains("1 MiB"));
        assert!(read(&format!("[\"{}\"]", "\\\"".repeat(LONGEST))).unwrap_err().contains("1 MiB"));
        assert!(read(&long).unwrap_err().contains("1 MiB"));
        assert!(read(&deep).unwrap_err().contains("1000 nested values"));
    }
}
