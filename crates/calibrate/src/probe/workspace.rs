//! Where probes and live runs write: each process has a directory of its own (a workspace), which is
//! recognisable by its name and removed at the end.
//!
//! A workspace contains a marker file, which names its process and is locked as long as the process lives. A
//! workspace is made under a hidden name and gets its final name only when the marker is locked, so that nobody
//! ever sees a workspace of a living process without its lock. A missing lock does not always prove that the
//! process is dead: within one boot of one machine every process sees all locks, but a file system may not show
//! the locks of another machine.

mod identity;

use super::ProbeError;
use forebay_model::input;
use identity::{Identity, Kin};
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Prefixes of the names of workspaces for calibrations and for live runs. In a name, the number of the process
/// and a number for the machine follow the prefix.
const PREFIXES: [&str; 2] = ["forebay-calibration-", "forebay-live-"];
/// Beginning of the names of workspaces that are still being made.
const HIDDEN: &str = ".forebay-new-";
/// Name of the marker file, which a living process keeps locked.
const MARKER: &str = "calibration.lock";

/// A directory that exists as long as this value.
#[derive(Debug)]
pub struct Workspace {
    path: PathBuf,
    parent: PathBuf,
    _marker: File,
}

impl Workspace {
    /// Makes a workspace for a calibration in `parent`, after removing the workspaces of dead processes. Also
    /// returns notes for the user.
    ///
    /// # Errors
    ///
    /// `parent` is no directory, or nothing can be written there.
    pub fn create(parent: &Path) -> Result<(Workspace, Vec<String>), ProbeError> {
        Workspace::named(PREFIXES[0], parent)
    }

    /// Makes a workspace for the data of live runs in `parent`, after removing the workspaces of dead
    /// processes. Also returns notes for the user.
    ///
    /// # Errors
    ///
    /// As for [`Workspace::create`].
    pub fn for_runs(parent: &Path) -> Result<(Workspace, Vec<String>), ProbeError> {
        Workspace::named(PREFIXES[1], parent)
    }

    fn named(prefix: &str, parent: &Path) -> Result<(Workspace, Vec<String>), ProbeError> {
        let here = Identity::here();
        let notes = remove_leftovers(parent, &here)?;
        let new = New::make(parent, &here)?;
        Ok((new.publish(prefix, parent, &here)?, notes))
    }

    /// Makes an empty directory for a probe.
    ///
    /// # Errors
    ///
    /// The directory cannot be made.
    pub fn directory(&self, probe: &str) -> Result<PathBuf, ProbeError> {
        let path = self.path.join(probe);
        fs::create_dir(&path).map_err(ProbeError::file("make", &path))?;
        Ok(path)
    }

    /// Removes a probe's directory.
    pub fn clear(&self, probe: &str) {
        // What cannot be removed now is removed together with the workspace, or by the next run.
        fs::remove_dir_all(self.path.join(probe)).ok();
    }

    /// Checks that `needed` bytes and a margin of 5 % are free.
    ///
    /// # Errors
    ///
    /// Fewer bytes are free.
    pub fn room(&self, needed: u64) -> Result<(), ProbeError> {
        let needed = needed + needed / 20;
        let found = rustix::fs::statvfs(&self.path);
        let found = found.map_err(|error| ProbeError::file("look at", &self.path)(error.into()))?;
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        if free < needed {
            return Err(ProbeError::Space { directory: self.parent.clone(), needed, free });
        }
        Ok(())
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        remove(&self.path).ok();
    }
}

/// Removes a workspace, the marker file last: if this process is killed meanwhile, the marker file still tells
/// the next process which process made the workspace.
fn remove(path: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == MARKER {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    fs::remove_dir_all(path)
}

/// A workspace under its hidden name, before its marker file is locked.
struct New {
    path: PathBuf,
    name: String,
}

impl New {
    fn make(parent: &Path, here: &Identity) -> Result<New, ProbeError> {
        /// Number of workspaces that this process has made; their names must differ.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = match COUNT.fetch_add(1, Ordering::Relaxed) {
            0 => here.tag(),
            number => format!("{}-{number}", here.tag()),
        };
        let path = parent.join(format!("{HIDDEN}{name}"));
        // A dead process that had our number may have left such a directory.
        fs::remove_dir_all(&path).ok();
        fs::create_dir(&path).map_err(ProbeError::directory(parent))?;
        Ok(New { path, name })
    }

    /// Locks the workspace's marker file and gives the workspace its final name.
    fn publish(
        self,
        prefix: &str,
        parent: &Path,
        here: &Identity,
    ) -> Result<Workspace, ProbeError> {
        let path = parent.join(format!("{prefix}{}", self.name));
        let marked = mark(&self.path.join(MARKER), here)
            .and_then(|marker| fs::rename(&self.path, &path).map(|()| marker));
        let marker = marked.map_err(|error| {
            fs::remove_dir_all(&self.path).ok();
            ProbeError::directory(parent)(error)
        })?;
        Ok(Workspace { path, parent: parent.to_owned(), _marker: marker })
    }
}

/// Makes the marker file and locks it. The system releases the lock when the process ends, however it ends.
fn mark(path: &Path, here: &Identity) -> std::io::Result<File> {
    let mut marker = File::create_new(path)?;
    writeln!(marker, "{}", here.line())?;
    // A file system without locks refuses; the process is then known only by its number in the marker.
    marker.try_lock().ok();
    Ok(marker)
}

/// Removes the workspaces that dead processes of this user left in `parent`. Returns notes on what was removed
/// and what was left alone.
fn remove_leftovers(parent: &Path, here: &Identity) -> Result<Vec<String>, ProbeError> {
    let mut notes = Vec::new();
    let entries = fs::read_dir(parent).map_err(ProbeError::directory(parent))?;
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let user = rustix::process::getuid().as_raw();
        let ours = fs::symlink_metadata(&path).is_ok_and(|at| at.is_dir() && at.uid() == user);
        if !ours {
            continue;
        }
        if let Some(tag) = name.strip_prefix(HIDDEN) {
            notes.extend(remove_if_never_made(&path, tag, here));
        } else if PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            notes.extend(remove_if_dead(&path, here));
        }
    }
    Ok(notes)
}

/// Age from which on an unfinished workspace is taken to belong to a dead process, because making a workspace
/// takes milliseconds.
const MADE_BY_THEN: Duration = Duration::from_hours(24);

/// Removes an unfinished workspace if its process is surely dead; returns a note on what was done. A workspace
/// that another process is making right now may have no marker file yet, or a marker file without a lock.
fn remove_if_never_made(path: &Path, tag: &str, here: &Identity) -> Option<String> {
    let changed = fs::metadata(path).and_then(|at| at.modified()).ok();
    let old = changed.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > MADE_BY_THEN);
    let removed = format!("removed {}, left by a run that was killed", input::shown(path));
    if here.is_dead_twin(tag) {
        return fs::remove_dir_all(path).is_ok().then_some(removed);
    }
    let marker = path.join(MARKER);
    let made = fs::read_to_string(&marker).ok().as_deref().and_then(Identity::parse);
    match (made, state(path, here)) {
        (Some(made), State::Dead(_marker)) if old || made.seen_from(here) == Kin::EarlierBoot => {
            remove(path).is_ok().then_some(removed)
        }
        // The process was killed before it wrote its identity to the marker. A directory with anything else in
        // it stays.
        (None, State::Foreign) if old => {
            if fs::metadata(&marker).is_ok_and(|at| at.len() == 0) {
                fs::remove_file(&marker).ok();
            }
            fs::remove_dir(path).is_ok().then_some(removed)
        }
        (_, State::Elsewhere) if old => Some(elsewhere(path)),
        _ => None,
    }
}

/// Removes a workspace if its process is dead. Returns a note on what was done, or on why the workspace was
/// left alone.
fn remove_if_dead(path: &Path, here: &Identity) -> Option<String> {
    let shown = input::shown(path);
    match state(path, here) {
        // The marker stays locked until everything is removed, so that no other process removes the workspace
        // meanwhile.
        State::Dead(_marker) => match remove(path) {
            Ok(()) => Some(format!("removed {shown}, left by a run that was killed")),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => Some(format!("cannot remove {shown}: {error}")),
        },
        State::Alive => Some(format!("{shown}: another run of forebay uses it")),
        State::Elsewhere => Some(elsewhere(path)),
        State::Gone => None,
        State::Foreign => Some(format!("{shown} is not a workspace of forebay: it is left alone")),
    }
}

fn elsewhere(path: &Path) -> String {
    let shown = input::shown(path);
    format!("{shown} may be another machine's: remove it if no forebay runs there")
}

/// State of the process that made a workspace, as far as it is known.
#[derive(Debug)]
enum State {
    /// The process is dead. The value is the workspace's marker file, which we have locked unless the file
    /// system has no locks.
    Dead(File),
    Alive,
    /// The process ran on another machine, where it may still live.
    Elsewhere,
    /// The workspace has just been removed.
    Gone,
    /// The workspace has no marker file that we can read.
    Foreign,
}

fn state(workspace: &Path, here: &Identity) -> State {
    let path = workspace.join(MARKER);
    let opened = File::open(&path).and_then(|marker| Ok((marker, fs::read_to_string(&path)?)));
    let (marker, text) = match opened {
        Ok(opened) => opened,
        Err(_) if workspace.exists() => return State::Foreign,
        Err(_) => return State::Gone,
    };
    let Some(made) = Identity::parse(&text) else { return State::Foreign };
    match (marker.try_lock(), made.seen_from(here)) {
        (Err(TryLockError::WouldBlock), _) => State::Alive,
        (_, Kin::Stranger) => State::Elsewhere,
        (_, Kin::EarlierBoot) => State::Dead(marker),
        (Ok(()), Kin::SameKernel | Kin::Twin) => State::Dead(marker),
        (Err(TryLockError::Error(_)), Kin::Twin) if !made.runs() => State::Dead(marker),
        (Err(TryLockError::Error(_)), Kin::Twin) => State::Alive,
        (Err(TryLockError::Error(_)), Kin::SameKernel) => State::Elsewhere,
    }
}

#[cfg(test)]
mod tests;
