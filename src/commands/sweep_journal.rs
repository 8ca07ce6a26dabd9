//! The journal of a sweep: a file beside the output that holds finished points, and whose lock keeps other sweeps from the same
//! output.

use super::{Failure, output};
use crate::input::shown;
use crate::sweep::{Journal, Row};
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What to do with finished points of an earlier sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Earlier {
    /// Keep the finished points, and run only the other points.
    Resume,
    /// Discard the finished points.
    Force,
    /// Refuse a sweep that would discard finished points.
    Refuse,
}

/// The journal file, locked, so that no other sweep writes to the same output.
pub(super) struct JournalFile {
    path: PathBuf,
    file: File,
    points: usize,
}

impl JournalFile {
    /// Opens the journal of a sweep to `output`, or creates it. Returns it with the points that an earlier sweep finished.
    pub(super) fn open(output: &Path, wanted: Earlier) -> Result<(JournalFile, Journal), Failure> {
        let target = output::target_of(output);
        let target = target.map_err(|error| Failure::unwritable(output, &error))?;
        let mut path = target.into_os_string();
        path.push(".partial");
        let path = PathBuf::from(path);
        let file = lock(output, &path)?;
        let unreadable = |error| Failure::unreadable(&path, &error);
        let earlier = Journal::read(file.try_clone().map_err(unreadable)?).map_err(unreadable)?;
        if wanted == Earlier::Refuse && !earlier.is_empty() {
            return Err(refuse(&path, earlier.len()));
        }
        let mut journal = JournalFile { path, file, points: 0 };
        let (begun, earlier) = match wanted {
            // A line that was cut off is ended here; empty lines are ignored.
            Earlier::Resume => (journal.file.write_all(b"\n"), earlier),
            Earlier::Force | Earlier::Refuse => (journal.file.set_len(0), Journal::default()),
        };
        journal.points = earlier.len();
        begun.map_err(|error| Failure::unwritable(&journal.path, &error))?;
        Ok((journal, earlier))
    }

    /// Appends the rows of a point.
    pub(super) fn append(&mut self, key: &str, rows: &[Row]) -> Result<(), Failure> {
        let written = Journal::append(&mut self.file, key, rows);
        written.map_err(|error| Failure::unwritable(&self.path, &error))?;
        self.points += 1;
        Ok(())
    }

    /// Returns the message about what remains if the sweep ends now.
    pub(super) fn kept(&self) -> String {
        if self.is_empty() {
            return "no point was finished".to_owned();
        }
        let (path, points) = (shown(&self.path), points_of(self.points));
        format!("{points} kept in {path}; --resume goes on with them")
    }

    /// Returns the message about what remains, for a sweep that may end at any time.
    pub(super) fn always_kept(&self) -> String {
        let path = shown(&self.path);
        format!("finished points are kept in {path}; --resume goes on with them")
    }

    /// Returns whether the journal has no point.
    pub(super) fn is_empty(&self) -> bool {
        self.points == 0
    }

    /// Removes the journal, because all its rows are in the output.
    pub(super) fn remove(mut self) -> Result<(), Failure> {
        let removed = fs::remove_file(&self.path);
        removed.map_err(|error| Failure::unwritable(&self.path, &error))?;
        // Another sweep may have created the file again: dropping `self` must not remove it.
        self.path = PathBuf::new();
        Ok(())
    }
}

impl Drop for JournalFile {
    /// Removes a journal without points.
    fn drop(&mut self) {
        if self.is_empty() && !self.path.as_os_str().is_empty() {
            fs::remove_file(&self.path).ok();
        }
    }
}

fn points_of(points: usize) -> String {
    match points {
        1 => "1 finished point is".to_owned(),
        _ => format!("{points} finished points are"),
    }
}

/// Returns the failure of a sweep that would discard the points of an interrupted one.
fn refuse(path: &Path, points: usize) -> Failure {
    let path = shown(path);
    Failure::Input(format!(
        "cannot sweep: {path} holds finished points of an interrupted sweep ({points} points); write --resume to continue with these points, or --force to discard them"
    ))
}

/// Opens the file at `path`, without following a symbolic link there, and locks it.
fn lock(output: &Path, path: &Path) -> Result<File, Failure> {
    // Each attempt fails only if another sweep ends and removes the file between opening and locking.
    const ATTEMPTS: u32 = 16;
    for _ in 0..ATTEMPTS {
        let file = open(path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let (output, path) = (shown(output), shown(path));
                let what = format!("another sweep writes to {output} and holds {path}");
                let remedy = "wait for its end, or name another --output";
                return Err(Failure::Input(format!("cannot sweep: {what}; {remedy}")));
            }
            // A file system without locks is used without locking.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        if is_at(&file, path) {
            return Ok(file);
        }
    }
    let error = io::Error::other("other sweeps keep creating and removing it");
    Err(Failure::unwritable(path, &error))
}

fn open(path: &Path) -> Result<File, Failure> {
    let foreign = |what: &str| {
        let path = shown(path);
        Failure::Input(format!(
            "cannot sweep: {path} {what}, but a sweep must store its finished points there; remove this path, or name another --output"
        ))
    };
    let unwritable = |error| Failure::unwritable(path, &error);
    if let Ok(found) = fs::symlink_metadata(path) {
        if found.is_symlink() {
            return Err(foreign("is a symbolic link, which is not followed"));
        }
        if !found.is_file() {
            return Err(foreign("is not a regular file"));
        }
    }
    // The check above serves the message; these flags also hold if the file is replaced after it.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).custom_flags(flags.bits().cast_signed());
    let file = options.open(path).map_err(unwritable)?;
    let found = file.metadata().map_err(unwritable)?;
    if !found.is_file() {
        return Err(foreign("is not a regular file"));
    }
    if found.nlink() > 1 {
        return Err(foreign("has a second name (a hard link)"));
    }
    Ok(file)
}

/// Returns whether `path` still names this open file.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |of: fs::Metadata| (of.dev(), of.ino());
    let (open, named) = (file.metadata().map(place), fs::symlink_metadata(path).map(place));
    matches!((open, named), (Ok(open), Ok(named)) if open == named)
}
