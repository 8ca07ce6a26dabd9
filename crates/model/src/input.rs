//! Reading of files that users name: never waits for a writer, and never reads beyond a limit.
//!
//! Every file that a command reads comes through this module. Endless files such as `/dev/zero` are refused. A pipe is read only
//! if it is open already. A file that is larger than its reader expects is refused, with the limit in the message, before memory
//! is used up.

mod kind;
mod outline;
mod records;
mod shown;

pub use kind::FileKind;
pub use outline::check_toml;
pub use records::Records;
pub use shown::{cut, cut_words, printable, printable_line, shell_word, shown, unsafe_to_show};

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Limit for files that people write: scenarios, plans, recipes, profiles, tables of measurements [B].
pub const WRITTEN: u64 = 16 << 20;
/// Limit for tables whose rows are plotted [B].
pub const ROWS: u64 = 256 << 20;
/// Limit for files that programs write line by line: samples, runs [B].
pub const RECORDED: u64 = 1 << 30;
/// Limit for traces, compressed or not [B].
pub const TRACED: u64 = 16 << 30;

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The operating system reports an error.
    #[error("cannot read the file: {}", words(.0))]
    System(#[from] io::Error),
    /// The file is a device, a socket, or a pipe that may have no writer.
    #[error("the input is not a regular file")]
    Special,
    /// The file is larger than the limit [B].
    #[error("the input holds more than {}", size(*.0))]
    TooLarge(u64),
    /// A part of the file is too long or too deeply nested to be kept in memory.
    #[error("the file has {0}")]
    Excess(&'static str),
    /// A row of a table is too long to be kept in memory.
    #[error(
        "the row that begins on line {line} has more than 1 MiB; close the row's quotation marks, or shorten the row"
    )]
    LongRow {
        /// Line in which the row begins, from 1.
        line: usize,
    },
    /// A TOML file has more tables or values than may be kept in memory.
    #[error("the file has more than {most} {what}")]
    Crowded {
        /// What exceeds the limit: `"tables"` or `"values"`.
        what: &'static str,
        /// Maximum number of these tables or values.
        most: usize,
        /// Byte offset of the first table or value beyond the limit.
        at: usize,
    },
    /// The file is not UTF-8 text.
    #[error("the input is not UTF-8 text from line {line}, column {column} on")]
    NotText {
        /// Line of the first invalid byte, from 1.
        line: usize,
        /// Column of the first invalid byte [characters], from 1.
        column: usize,
    },
}

impl InputError {
    /// Returns advice on how to fix the problem.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            InputError::System(error) => match error.kind() {
                ErrorKind::NotFound => "check the path; it is relative to the current directory",
                ErrorKind::PermissionDenied => "ask for permission to read it, or copy it",
                ErrorKind::IsADirectory => "name a file in this directory",
                _ => "check the path",
            }
            .to_owned(),
            InputError::Special => {
                "name a file; what comes through a pipe is read as /dev/stdin".to_owned()
            }
            InputError::TooLarge(most) => {
                format!("is this the right file? write at most {}", size(*most))
            }
            InputError::Excess(_) | InputError::LongRow { .. } => {
                "is this the right file?".to_owned()
            }
            InputError::Crowded { .. } => {
                "write fewer; write equal jobs as one job with `copies`".to_owned()
            }
            InputError::NotText { .. } => {
                "save the file as UTF-8 text; is it the right file?".to_owned()
            }
        }
    }

    /// Returns the `InputError` that a reader's error carries; wraps any other error as [`InputError::System`].
    #[must_use]
    pub fn from_reader(error: io::Error) -> InputError {
        match error.downcast::<InputError>() {
            Ok(error) => error,
            Err(error) => InputError::System(error),
        }
    }
}

/// Wraps an `InputError` as an error of a reader; [`InputError::from_reader`] unwraps it.
impl From<InputError> for io::Error {
    fn from(error: InputError) -> io::Error {
        match error {
            InputError::System(error) => error,
            other => io::Error::new(ErrorKind::FileTooLarge, other),
        }
    }
}

/// A reader that fails if its input is longer than a limit.
#[derive(Debug)]
pub struct Capped<R> {
    inner: io::Take<R>,
    most: u64,
}

impl<R: Read> Capped<R> {
    /// Returns a reader of at most `most` bytes from `inner`.
    pub fn new(inner: R, most: u64) -> Capped<R> {
        Capped { inner: inner.take(most.saturating_add(1)), most }
    }

    /// Boxes the inner reader and keeps the limit, so that readers of different types have one type.
    pub fn boxed(self) -> Capped<Box<dyn Read>>
    where
        R: 'static,
    {
        let limit = self.inner.limit();
        let inner: Box<dyn Read> = Box::new(self.inner.into_inner());
        Capped { inner: inner.take(limit), most: self.most }
    }

    /// Reads all bytes.
    ///
    /// # Errors
    /// If reading fails, or the input is longer than the limit.
    pub fn bytes(mut self) -> Result<Vec<u8>, InputError> {
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes).map_err(InputError::from_reader)?;
        Ok(bytes)
    }

    /// Reads all bytes as text.
    ///
    /// # Errors
    /// As for [`Capped::bytes`], or if the bytes are not UTF-8.
    pub fn text(self) -> Result<String, InputError> {
        as_text(self.bytes()?)
    }
}

impl<R: Read> Read for Capped<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        // The limit of `inner` is one byte more than `most`: reading that byte shows that the input is too long.
        if self.inner.limit() == 0 && read > 0 {
            return Err(InputError::TooLarge(self.most).into());
        }
        Ok(read)
    }
}

/// Opens a file of at most `most` bytes. Devices and pipes are refused, as a device may never end and opening a pipe may wait for
/// a writer. Exceptions are descriptors that are open already, such as `/dev/stdin` and a shell's `<(…)`.
///
/// # Errors
/// If the file cannot be opened, is a device or a pipe that is not open already, or is larger than `most`.
pub fn open(path: &Path, most: u64) -> Result<Capped<File>, InputError> {
    let metadata = path.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::from(ErrorKind::IsADirectory).into());
    }
    if !metadata.is_file() && !is_descriptor(path) {
        return Err(InputError::Special);
    }
    let file = File::open(path)?;
    if metadata.len() > most {
        return Err(InputError::TooLarge(most));
    }
    Ok(Capped::new(file, most))
}

/// Returns the bytes of a file of at most `most` bytes.
///
/// # Errors
/// As for [`open`], or if reading fails.
pub fn bytes(path: &Path, most: u64) -> Result<Vec<u8>, InputError> {
    open(path, most)?.bytes()
}

/// Returns the text of a file of at most `most` bytes.
///
/// # Errors
/// As for [`bytes`], or if the file is not UTF-8.
pub fn text(path: &Path, most: u64) -> Result<String, InputError> {
    open(path, most)?.text()
}

/// Converts bytes to text: UTF-8, or UTF-16 as PowerShell's `>` writes it.
///
/// # Errors
/// If the bytes are neither; the error has the position of the first byte that is not UTF-8.
pub fn as_text(bytes: Vec<u8>) -> Result<String, InputError> {
    if let Some(text) = utf16(&bytes) {
        return Ok(text);
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let good = String::from_utf8_lossy(good);
        let line = good.rsplit('\n').next().unwrap_or_default();
        let (line, column) = (good.matches('\n').count() + 1, line.chars().count() + 1);
        InputError::NotText { line, column }
    })
}

/// Returns text in UTF-16, which is recognised by zeros beside its first letters, after its mark or without it; `None` for other
/// bytes.
fn utf16(bytes: &[u8]) -> Option<String> {
    let unit = utf16_unit(bytes)?;
    let (pairs, rest) = bytes.as_chunks::<2>();
    let text: String =
        char::decode_utf16(pairs.iter().copied().map(unit)).collect::<Result<_, _>>().ok()?;
    rest.is_empty().then(|| text.trim_start_matches('\u{feff}').to_owned())
}

/// Returns whether a file that begins with these bytes is in UTF-16, with its mark or without it.
#[must_use]
pub fn is_utf16(start: &[u8]) -> bool {
    utf16_unit(start).is_some()
}

/// Returns how two bytes of UTF-16 are read; `None` for other bytes.
fn utf16_unit(bytes: &[u8]) -> Option<fn([u8; 2]) -> u16> {
    match bytes {
        [0xff, 0xfe, 1..=0x7f, 0, ..] | [1..=0x7f, 0, 1..=0x7f, 0, ..] => Some(u16::from_le_bytes),
        [0xfe, 0xff, 0, 1..=0x7f, ..] | [0, 1..=0x7f, 0, 1..=0x7f, ..] => Some(u16::from_be_bytes),
        _ => None,
    }
}

/// Returns whether a path names a descriptor that is open already. Any other pipe may have no writer, and opening it would wait
/// forever.
#[must_use]
pub fn is_descriptor(path: &Path) -> bool {
    ["/dev/fd", "/dev/stdin", "/proc/self/fd"].iter().any(|place| path.starts_with(place))
}

/// Serializes paths: as text, or as bytes if they are not UTF-8. For `#[serde(with = …)]`.
pub mod path_as_json {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    /// Writes a path.
    ///
    /// # Errors
    /// Errors of the serializer.
    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) => text.serialize(serializer),
            None => path.as_os_str().as_bytes().serialize(serializer),
        }
    }

    /// Reads a path.
    ///
    /// # Errors
    /// Errors of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(PathBuf),
            Bytes(Vec<u8>),
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Text(path) => path,
            Written::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }

    /// Serializes optional paths: as text, or as bytes if they are not UTF-8.
    pub mod optional {
        use super::{Deserialize, Deserializer, PathBuf, Serialize, Serializer};

        /// Writes a path, or null.
        ///
        /// # Errors
        /// Errors of the serializer.
        pub fn serialize<S: Serializer>(
            path: &Option<PathBuf>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            #[derive(Serialize)]
            struct Written<'a>(#[serde(with = "super")] &'a PathBuf);
            path.as_ref().map(Written).serialize(serializer)
        }

        /// Reads a path, or null.
        ///
        /// # Errors
        /// Errors of the deserializer.
        pub fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<PathBuf>, D::Error> {
            #[derive(Deserialize)]
            struct Written(#[serde(with = "super")] PathBuf);
            Ok(Option::<Written>::deserialize(deserializer)?.map(|written| written.0))
        }
    }
}

/// Formats a limit with its unit: `16 MiB`.
fn size(bytes: u64) -> String {
    let scales = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole =
        scales.iter().find(|(shift, _)| bytes >= 1 << shift && bytes.is_multiple_of(1 << shift));
    whole.map_or(format!("{bytes} B"), |(shift, unit)| format!("{} {unit}", bytes >> shift))
}

/// Returns the error's message for use within a sentence: it starts in lower case.
pub fn reason(error: &io::Error) -> String {
    let words = words(error);
    words.chars().take(1).flat_map(char::to_lowercase).chain(words.chars().skip(1)).collect()
}

/// Returns the operating system's message for an error, without its number.
pub fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_beyond_the_limit_is_refused_and_the_limit_is_reported() {
        assert_eq!(Capped::new(&b"1234"[..], 4).bytes().unwrap(), b"1234");
        let error = Capped::new(io::repeat(b'x'), 1 << 20).bytes().unwrap_err();
        assert_eq!(error.to_string(), "the input holds more than 1 MiB");
        let error = Capped::new(&b"12345"[..], 4).text().unwrap_err();
        assert_eq!(error.to_string(), "the input holds more than 4 B");
    }

    #[test]
    fn devices_directories_and_large_files_are_refused_before_they_are_read() {
        let say = |path: &Path, most| text(path, most).unwrap_err().to_string();
        assert_eq!(say(Path::new("/dev/zero"), 10), "the input is not a regular file");
        assert!(say(Path::new("/"), 10).contains("directory"));
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("sparse");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(say(&path, WRITTEN), "the input holds more than 16 MiB");
    }

    #[test]
    fn utf16_is_read_with_and_without_its_mark() {
        let text = "# size  \u{b5}s\n1 2\n";
        let units = |mark: &str| format!("{mark}{text}").encode_utf16().collect::<Vec<u16>>();
        for mark in ["\u{feff}", ""] {
            let little = units(mark).iter().flat_map(|unit| unit.to_le_bytes()).collect();
            let big = units(mark).iter().flat_map(|unit| unit.to_be_bytes()).collect();
            assert_eq!(as_text(little).unwrap(), text);
            assert_eq!(as_text(big).unwrap(), text);
        }
        assert!(as_text(b"\xff\xfea".to_vec()).is_err());
    }

    #[test]
    fn the_position_of_invalid_utf8_is_reported() {
        let error = Capped::new(&b"a = 1\nb = \xc3\xa9\xff"[..], 100).text().unwrap_err();
        let InputError::NotText { line, column } = error else { panic!("{error}") };
        assert_eq!((line, column), (2, 6));
    }
}
