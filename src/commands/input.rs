//! Reads files that users name, with the same checks and size limits for every command.

use super::Failure;
use crate::input::shown;
use crate::input::{self, Capped, FileKind, InputError};
pub(super) use crate::input::{RECORDED, TRACED, WRITTEN};
use crate::input::{ROWS, Records};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Bytes at the beginning of a file that tell its kind.
const BEGINNING: u64 = 1 << 16;

/// Opens a table of rows.
pub(super) fn rows(path: &Path) -> Result<Records<Capped<Box<dyn Read>>>, Failure> {
    open_within(path, ROWS).map(Records::new)
}

/// Opens a file of at most `most` bytes (`-`: standard input).
pub(super) fn open_within(path: &Path, most: u64) -> Result<Capped<Box<dyn Read>>, Failure> {
    if path == Path::new("-") {
        return Ok(Capped::new(Box::new(io::stdin()), most));
    }
    input::open(path, most).map(Capped::boxed).map_err(|error| failure(path, error))
}

/// Reads a TOML file; an error if it has too many tables or values to be parsed in memory.
pub(super) fn toml(path: &Path) -> Result<String, Failure> {
    let text = text(path)?;
    match input::check_toml(&text) {
        Ok(()) => Ok(text),
        Err(error) => Err(failure(path, error)),
    }
}

/// Returns the name of a file for messages; "standard input" for `-`.
pub(super) fn name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { shown(path) }
}

/// Returns the text of a file of at most `most` bytes. The path `-` stands for standard input.
pub(super) fn text_or_standard_input(path: &Path, most: u64) -> Result<String, Failure> {
    if path == Path::new("-") { standard_input_within(most) } else { text_within(path, most) }
}

/// Returns the text of a file within the size limit of files written by hand.
pub(super) fn text(path: &Path) -> Result<String, Failure> {
    text_within(path, WRITTEN)
}

/// Returns the text of a file of at most `most` bytes.
pub(super) fn text_within(path: &Path, most: u64) -> Result<String, Failure> {
    input::text(path, most).map_err(|error| failure(path, error))
}

/// Maximum size of a JSON report that is read [B]. In memory a report takes several times as much.
const REPORT: u64 = 64 << 20;

/// Reads a JSON report of jobs with names.
pub(super) fn report(path: &Path) -> Result<serde_json::Value, Failure> {
    let text = text_within(path, REPORT)?;
    let remedy = "write one with `forebay run SCENARIO --format json --output FILE`";
    let wrong =
        |what: String| Failure::Input(format!("cannot use {}: {what}; {remedy}", shown(path)));
    let report: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| wrong(format!("not JSON: {error}")))?;
    let jobs = report.get("jobs").and_then(serde_json::Value::as_array);
    let is_named = |job: &serde_json::Value| job.get("name").is_some_and(|name| name.is_string());
    match jobs.is_some_and(|jobs| jobs.iter().all(is_named)) {
        true => Ok(report),
        false => Err(wrong("not a report: there is no `jobs` with names".to_owned())),
    }
}

/// Returns the bytes of a file of at most `most` bytes.
pub(super) fn bytes_within(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    input::bytes(path, most).map_err(|error| failure(path, error))
}

/// Returns the text of a file of at most `most` bytes; `None` if there is no such file.
pub(super) fn text_if_there(path: &Path, most: u64) -> Result<Option<String>, Failure> {
    match input::text(path, most) {
        Ok(text) => Ok(Some(text)),
        Err(InputError::System(error)) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failure(path, error)),
    }
}

/// Reads standard input to its end; an error if it is no text or longer than files written by hand may be.
pub(super) fn standard_input() -> Result<String, Failure> {
    standard_input_within(WRITTEN)
}

fn standard_input_within(most: u64) -> Result<String, Failure> {
    let read = Capped::new(io::stdin().lock(), most).text();
    read.map_err(|error| match error {
        InputError::System(error) => Failure::Input(format!("cannot read standard input: {error}")),
        other => Failure::Input(format!("cannot use standard input: {other}; {}", other.remedy())),
    })
}

/// Returns the path of a file in memory that contains `text`. The file exists as long as this process; its child processes can
/// open it, too.
pub(super) fn in_memory(text: &str) -> Result<PathBuf, Failure> {
    static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let cannot = |error| {
        Failure::Machine(format!("cannot keep a file in memory: {}", input::reason(&error)))
    };
    let memory =
        memfd_create("forebay", MemfdFlags::CLOEXEC).map_err(|error| cannot(error.into()))?;
    let mut file = File::from(memory);
    file.write_all(text.as_bytes()).map_err(cannot)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    HELD.lock().unwrap_or_else(PoisonError::into_inner).push(file);
    Ok(path.into())
}

/// Returns words for the end of a refusal if a text is of another kind than `own`; otherwise an empty text.
pub(super) fn other_kind(text: &str, own: FileKind) -> String {
    let other = FileKind::of(text).filter(|kind| *kind != own);
    other.map(|kind| format!("; {}", kind.hint())).unwrap_or_default()
}

/// Returns the beginning of a file as text; empty if it cannot be read again.
pub(super) fn beginning(path: &Path) -> String {
    let mut bytes = Vec::new();
    if !is_read_once(path)
        && let Ok(file) = input::open(path, TRACED)
    {
        file.take(BEGINNING).read_to_end(&mut bytes).ok();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns whether a path can be read only once, such as a pipe.
pub(super) fn is_read_once(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Returns the failure for an error of reading: why the file cannot be used, and what to do about it.
fn failure(path: &Path, error: InputError) -> Failure {
    match error {
        InputError::System(error) => Failure::unreadable(path, &error),
        InputError::NotText { line, column } => Failure::Input(format!(
            "cannot use {}:{line}:{column}: the file is not UTF-8 text from here on; {}",
            shown(path),
            error.remedy()
        )),
        other => {
            Failure::Input(format!("cannot read {}: {other}; {}", shown(path), other.remedy()))
        }
    }
}
