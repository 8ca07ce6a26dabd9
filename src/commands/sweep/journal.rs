//! The journal of a sweep: a file beside the output that holds finished points, and whose lock keeps other sweeps from the same
//! output.

use crate::commands::{Failure, output};
use crate::input::shown;
use crate::sweep::{Journal, JournalRead, Row, SweepSettings};
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
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
    journal: Journal,
}

/// Returns the path of the journal of a sweep to `output`.
pub(super) fn journal_of(output: &Path) -> Result<PathBuf, Failure> {
    let target = output::target_of(output);
    let target = target.map_err(|error| Failure::unwritable(output, &error))?;
    let mut path = target.into_os_string();
    path.push(".partial");
    Ok(PathBuf::from(path))
}

/// Ending of the temporary file in which the rows of a sweep stand until all are there.
pub(super) const UNFINISHED: &str = "unfinished";

/// Returns the files that a sweep to `output` writes beside it.
pub(super) fn files_beside(output: &Path) -> Result<[PathBuf; 2], Failure> {
    let target = output::target_of(output);
    let target = target.map_err(|error| Failure::unwritable(output, &error))?;
    Ok([journal_of(output)?, output::beside(&target, UNFINISHED)])
}

impl JournalFile {
    /// Opens the journal of a sweep with these settings to `output`, or creates it. Returns it with the points that an earlier sweep
    /// finished.
    pub(super) fn open(
        output: &Path,
        wanted: Earlier,
        settings: &SweepSettings,
    ) -> Result<(JournalFile, Journal), Failure> {
        let path = journal_of(output)?;
        let file = lock(output, &path)?;
        let unreadable = |error| Failure::unreadable(&path, &error);
        let read = || Journal::read(file.try_clone()?);
        let kept = kept(&path, read().map_err(unreadable)?, wanted, settings)?;
        let begun = match kept {
            // A last line that was cut off goes.
            Some(earlier) => file.set_len(earlier.length()).and_then(|()| {
                // The file is read twice: one journal grows while points of the other are taken.
                match read()? {
                    JournalRead::Journal(journal, _) => Ok((journal, earlier)),
                    _ => Err(io::Error::other("it changed while it was read")),
                }
            }),
            None => file.set_len(0).and_then(|()| {
                let journal = Journal::begin(file.try_clone()?, settings, None)?;
                Ok((journal, Journal::default()))
            }),
        };
        match begun {
            Ok((journal, earlier)) => Ok((JournalFile { path, journal }, earlier)),
            Err(error) => Err(Failure::unwritable(&path, &error)),
        }
    }

    /// Appends the rows of the grid's point `point`.
    pub(super) fn append(&mut self, key: &str, point: usize, rows: &[Row]) -> Result<(), Failure> {
        let written = self.journal.append(key, point, rows);
        written.map_err(|error| Failure::unwritable(&self.path, &error))
    }

    /// Returns the finished points.
    pub(super) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns the message about what remains if the sweep ends now.
    pub(super) fn kept(&self) -> String {
        if self.is_empty() {
            return "no point was finished".to_owned();
        }
        let (path, points) = (shown(&self.path), points_of(self.journal.len()));
        format!("{points} kept in {path}; --resume goes on with them")
    }

    /// Returns the message about what remains, for a sweep that may end at any time.
    pub(super) fn always_kept(&self) -> String {
        let path = shown(&self.path);
        format!("finished points are kept in {path}; --resume goes on with them")
    }

    /// Returns whether the journal has no point.
    pub(super) fn is_empty(&self) -> bool {
        self.journal.is_empty()
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

/// Returns the journal at `path` to continue; `None` if a new one is to be begun. Returns an error if a journal would be discarded that is not to be, or cannot be continued, or if no sweep wrote the file.
fn kept(
    path: &Path,
    found: JournalRead,
    wanted: Earlier,
    settings: &SweepSettings,
) -> Result<Option<Journal>, Failure> {
    let place = shown(path);
    let refuse = |what: String| Err(Failure::Input(format!("cannot sweep: {what}")));
    let anew = "write --force to discard its points and begin anew";
    match (found, wanted) {
        (JournalRead::Empty, _) => Ok(None),
        (JournalRead::Foreign, _) => refuse(format!(
            "{place} is not the journal of a sweep, but a sweep must store its finished points there; remove this file, or name another --output"
        )),
        (_, Earlier::Force) => Ok(None),
        (JournalRead::Earlier, _) => refuse(format!(
            "{place} was written by another version of forebay, and does not say with which settings; {anew}"
        )),
        (JournalRead::Edited(line), _) => {
            refuse(format!("line {line} of {place} is not as a sweep wrote it; {anew}"))
        }
        (JournalRead::Journal(journal, ..), Earlier::Refuse) if journal.is_empty() => Ok(None),
        (JournalRead::Journal(journal, ..), Earlier::Refuse) => {
            let points = journal.len();
            refuse(format!(
                "{place} holds finished points of an interrupted sweep ({points} points); write --resume to continue with these points, or --force to discard them"
            ))
        }
        (JournalRead::Journal(journal, earlier), Earlier::Resume) => {
            match earlier.differences(settings) {
                None => Ok(Some(journal)),
                Some(_) if journal.is_empty() => Ok(None),
                Some(differences) => refuse(format!(
                    "--resume would lose the finished points in {place}, which are of other settings: {differences}; resume with the earlier settings, name another --output, or write --force to discard these points"
                )),
            }
        }
    }
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
