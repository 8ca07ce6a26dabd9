//! Files that users name, opened with the same care by every command.

use super::Failure;
use crate::scenario::is_descriptor;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// Opens a file. A pipe that may have no writer is not waited for, and a device never ends: only
/// what is open already, as `/dev/stdin` and a shell's `<(…)`, may be one.
pub(super) fn open(path: &Path) -> Result<File, Failure> {
    let unreadable = |error| Failure::unreadable(path, &error);
    let metadata = path.metadata().map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(unreadable(ErrorKind::IsADirectory.into()));
    }
    if !metadata.is_file() && !is_descriptor(path) {
        return Err(Failure::Input(format!(
            "cannot read {}: it is not a regular file; name a file, or give what comes through a pipe \
             as /dev/stdin",
            path.display()
        )));
    }
    File::open(path).map_err(unreadable)
}

/// The text of a file.
pub(super) fn text(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text).map_err(|error| Failure::unreadable(path, &error))?;
    Ok(text)
}
