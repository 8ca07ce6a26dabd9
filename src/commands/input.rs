//! Files that users name, read with the same care and the same limits by every command.

use super::Failure;
use crate::input::{self, Capped, InputError, WRITTEN};
pub(super) use crate::input::{RECORDED, TRACED};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Opens a file that a program recorded: rows of a sweep, runs.
pub(super) fn open(path: &Path) -> Result<Capped<File>, Failure> {
    open_within(path, RECORDED)
}

/// Opens a file of at most `most` bytes.
pub(super) fn open_within(path: &Path, most: u64) -> Result<Capped<File>, Failure> {
    input::open(path, most).map_err(|error| failure(path, error))
}

/// The text of a file that somebody wrote.
pub(super) fn text(path: &Path) -> Result<String, Failure> {
    text_within(path, WRITTEN)
}

/// The text of a file of at most `most` bytes.
pub(super) fn text_within(path: &Path, most: u64) -> Result<String, Failure> {
    input::text(path, most).map_err(|error| failure(path, error))
}

/// The text of a file that may not be there yet.
pub(super) fn text_if_there(path: &Path, most: u64) -> Result<Option<String>, Failure> {
    match input::text(path, most) {
        Ok(text) => Ok(Some(text)),
        Err(InputError::System(error)) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failure(path, error)),
    }
}

/// All that is written to our standard input, if it is text of a sensible length.
pub(super) fn standard_input() -> Result<String, Failure> {
    let read = Capped::new(io::stdin().lock(), WRITTEN).text();
    read.map_err(|error| match error {
        InputError::System(error) => Failure::Input(format!("cannot read standard input: {error}")),
        other => Failure::Input(format!("cannot use standard input: {other}; {}", other.remedy())),
    })
}

/// Why a file cannot be used, and what to do about it.
fn failure(path: &Path, error: InputError) -> Failure {
    match error {
        InputError::System(error) => Failure::unreadable(path, &error),
        InputError::NotText { line, column } => Failure::Input(format!(
            "cannot use {}:{line}:{column}: this is not text in UTF-8; {}",
            path.display(),
            error.remedy()
        )),
        other => {
            Failure::Input(format!("cannot read {}: {other}; {}", path.display(), other.remedy()))
        }
    }
}
