//! Limits the size of strings and the nesting in JSON, so that reading it cannot exhaust memory.

use forebay_model::input::InputError;
use std::io::{self, Read};

/// Limit for the length of a string or number [B].
const LONGEST: usize = 1 << 20;
/// Limit for the nesting of arrays and objects.
const DEEPEST: usize = 1000;

/// Bytes that are read at once.
const CHUNK: usize = 1 << 16;
/// Values that programs write although JSON has no word for them, in lower case; a sign may come before.
const NO_NUMBERS: [&[u8]; 3] = [b"nan", b"inf", b"infinity"];
/// What stands for such a value: a text, which is no number either.
const INSTEAD: &[u8] = b"\"\"";

/// A reader of JSON that fails if a string or number is longer than 1 MiB, or if values are nested deeper than 1000 levels. A
/// parser keeps a whole string, a whole number and all open levels in memory; it skips everything else. `NaN` and `Infinity`
/// become empty strings, so that they cost their event and not the file.
pub(super) struct Bounded<R> {
    inner: R,
    /// Bytes that were read and checked, and how many of them were given away.
    ready: Vec<u8>,
    given: usize,
    /// The current number or word outside of strings, until it ends.
    token: Vec<u8>,
    /// Bytes of the current string so far.
    length: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl<R: Read> Bounded<R> {
    pub(super) fn new(inner: R) -> Bounded<R> {
        Bounded {
            inner,
            ready: Vec::new(),
            given: 0,
            token: Vec::new(),
            length: 0,
            depth: 0,
            in_string: false,
            escaped: false,
        }
    }

    /// Passes one byte of JSON on.
    fn pass(&mut self, byte: u8) {
        if self.in_string {
            self.length += 1;
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return self.ready.push(byte);
        }
        match byte {
            b'"' => (self.in_string, self.length) = (true, 0),
            b'[' | b'{' => self.depth += 1,
            b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => return self.token.push(byte),
        }
        self.end_token();
        self.ready.push(byte);
    }

    fn end_token(&mut self) {
        let plain = self.token.strip_prefix(b"-").unwrap_or(&self.token);
        let no_number = NO_NUMBERS.iter().any(|word| plain.eq_ignore_ascii_case(word));
        self.ready.extend_from_slice(if no_number { INSTEAD } else { &self.token });
        self.token.clear();
    }

    /// Reads and checks the next bytes; at the end of the file, none are ready afterwards.
    fn fill(&mut self) -> io::Result<()> {
        (self.given, self.ready) = (0, std::mem::take(&mut self.ready));
        self.ready.clear();
        let mut chunk = [0; CHUNK];
        while self.ready.is_empty() {
            let read = self.inner.read(&mut chunk)?;
            for &byte in &chunk[..read] {
                self.pass(byte);
                if self.length.max(self.token.len()) > LONGEST {
                    return Err(
                        InputError::Excess("a string or a number of more than 1 MiB").into()
                    );
                }
                if self.depth > DEEPEST {
                    return Err(InputError::Excess("more than 1000 nested values").into());
                }
            }
            if read == 0 {
                self.end_token();
                return Ok(());
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.ready.len() {
            self.fill()?;
        }
        let count = buffer.len().min(self.ready.len() - self.given);
        buffer[..count].copy_from_slice(&self.ready[self.given..self.given + count]);
        self.given += count;
        Ok(count)
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
    fn words_for_no_number_become_texts_outside_of_strings() {
        let text = r#"{"a": NaN, "b":[-Infinity,inf , nan], "NaN, inf": "Infinity", "c": null, "d": -1e5}"#;
        let mut found = String::new();
        // One byte at a time, so that words are cut.
        let bytes = text.as_bytes().chunks(1).fold(Vec::new(), |mut all, one| {
            all.push(one);
            all
        });
        let slow = bytes.into_iter().fold(Box::new(io::empty()) as Box<dyn Read>, |before, one| {
            Box::new(before.chain(one))
        });
        Bounded::new(slow).read_to_string(&mut found).expect("text");
        let expected =
            r#"{"a": "", "b":["","" , ""], "NaN, inf": "Infinity", "c": null, "d": -1e5}"#;
        assert_eq!(found, expected);
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
