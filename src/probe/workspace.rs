//! Where probes write: one directory per process, recognisable, and gone afterwards.

use super::ProbeError;
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Every workspace's name begins with one of these, by what it is for; the number of its process
/// follows.
const PREFIXES: [&str; 2] = ["forebay-calibration-", "forebay-live-"];
/// The file that a living process keeps locked.
const MARKER: &str = "calibration.lock";

/// A directory that exists as long as this value.
#[derive(Debug)]
pub struct Workspace {
    path: PathBuf,
    parent: PathBuf,
    _marker: File,
}

impl Workspace {
    /// Makes a workspace in `parent`, after removing those whose processes are dead. Returns what
    /// the user should know, too.
    ///
    /// # Errors
    ///
    /// `parent` is no directory, or nothing can be written there.
    pub fn create(parent: &Path) -> Result<(Workspace, Vec<String>), ProbeError> {
        Workspace::named(PREFIXES[0], parent)
    }

    /// The same for the data of live runs.
    ///
    /// # Errors
    ///
    /// As for [`Workspace::create`].
    pub fn for_runs(parent: &Path) -> Result<(Workspace, Vec<String>), ProbeError> {
        Workspace::named(PREFIXES[1], parent)
    }

    fn named(prefix: &str, parent: &Path) -> Result<(Workspace, Vec<String>), ProbeError> {
        let notes = remove_leftovers(parent)?;
        let path = parent.join(format!("{prefix}{}", std::process::id()));
        fs::create_dir(&path).map_err(ProbeError::file("make", &path))?;
        let marked = mark(&path.join(MARKER));
        let marker = marked.map_err(|error| {
            fs::remove_dir_all(&path).ok();
            ProbeError::file("write", &path)(error)
        })?;
        Ok((Workspace { path, parent: parent.to_owned(), _marker: marker }, notes))
    }

    /// An empty directory for a probe.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn directory(&self, probe: &str) -> Result<PathBuf, ProbeError> {
        let path = self.path.join(probe);
        fs::create_dir(&path).map_err(ProbeError::file("make", &path))?;
        Ok(path)
    }

    /// Removes a probe's directory.
    pub fn clear(&self, probe: &str) {
        // What cannot be removed now is tried again at the end, and by the next run.
        fs::remove_dir_all(self.path.join(probe)).ok();
    }

    /// Checks that `needed` bytes and a margin of 5 % have room.
    ///
    /// # Errors
    ///
    /// They have not.
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
        fs::remove_dir_all(&self.path).ok();
    }
}

/// Makes the marker and locks it: the lock goes with the process, however that ends.
fn mark(path: &Path) -> std::io::Result<File> {
    let mut marker = File::create_new(path)?;
    writeln!(marker, "{} {}", std::process::id(), boot())?;
    // Where locks are not to be had, the number of the process must do.
    marker.try_lock().ok();
    Ok(marker)
}

/// Removes what dead processes of this user left in `parent`; says what it did not dare to.
fn remove_leftovers(parent: &Path) -> Result<Vec<String>, ProbeError> {
    let mut notes = Vec::new();
    let entries = fs::read_dir(parent).map_err(ProbeError::file("use the directory", parent))?;
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let named = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        let user = rustix::process::getuid().as_raw();
        let ours = fs::symlink_metadata(&path).is_ok_and(|at| at.is_dir() && at.uid() == user);
        if !named || !ours {
            continue;
        }
        let path_text = path.display();
        match alive(&path) {
            Some(false) => match fs::remove_dir_all(&path) {
                Ok(()) => notes.push(format!("removed {path_text}, left by a run that was killed")),
                Err(error) => notes.push(format!("cannot remove {path_text}: {error}")),
            },
            Some(true) => notes.push(format!("{path_text}: another run of forebay uses it")),
            None => notes.push(format!(
                "{path_text} may be another machine's: remove it if no forebay runs there"
            )),
        }
    }
    Ok(notes)
}

/// Whether the process that made this workspace is alive, as far as it can be told.
fn alive(workspace: &Path) -> Option<bool> {
    let marker = match File::open(workspace.join(MARKER)) {
        Ok(marker) => marker,
        // Killed between two system calls: then it is empty. Or not a workspace.
        Err(_) => return fs::read_dir(workspace).ok()?.next().is_none().then_some(false),
    };
    match marker.try_lock() {
        Ok(()) => Some(false),
        Err(TryLockError::WouldBlock) => Some(true),
        Err(TryLockError::Error(_)) => {
            let text = fs::read_to_string(workspace.join(MARKER)).ok()?;
            let (process, on) = text.trim().split_once(' ')?;
            let found = fs::metadata(format!("/proc/{process}"));
            let missing = found.is_err_and(|error| error.kind() == ErrorKind::NotFound);
            (on == boot()).then_some(!missing)
        }
    }
}

/// What distinguishes this run of this machine from others.
fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(path: &Path) -> usize {
        fs::read_dir(path).unwrap().count()
    }

    #[test]
    fn it_is_gone_afterwards_with_all_that_is_in_it() {
        let parent = tempfile::tempdir().unwrap();
        let (workspace, notes) = Workspace::create(parent.path()).unwrap();
        assert!(notes.is_empty());
        let probe = workspace.directory("read").unwrap();
        fs::write(probe.join("file"), "x").unwrap();
        workspace.clear("read");
        assert!(!probe.exists());
        fs::write(workspace.directory("cache").unwrap().join("file"), "x").unwrap();
        drop(workspace);
        assert_eq!(entries(parent.path()), 0);
    }

    #[test]
    fn what_a_dead_process_left_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let dead = parent.path().join("forebay-calibration-1");
        let half_made = parent.path().join("forebay-calibration-2");
        let foreign = parent.path().join("forebay-calibration-notes");
        let run = parent.path().join("forebay-live-3");
        let other = parent.path().join("data");
        for path in [&dead, &half_made, &foreign, &run, &other] {
            fs::create_dir(path).unwrap();
        }
        fs::write(dead.join(MARKER), "1 x\n").unwrap();
        fs::write(dead.join("big"), "x").unwrap();
        fs::write(foreign.join("mine.txt"), "x").unwrap();
        let (workspace, notes) = Workspace::create(parent.path()).unwrap();
        assert!(!dead.exists() && !half_made.exists() && foreign.exists() && other.exists());
        assert!(!run.exists());
        assert_eq!(notes.len(), 4, "{notes:?}");
        let (live, notes) = Workspace::for_runs(parent.path()).unwrap();
        assert!(live.path.to_string_lossy().contains("forebay-live-") && notes.len() == 2);
        let alive = alive(&workspace.path);
        assert_eq!(alive, Some(true), "this process lives");
    }

    #[test]
    fn room_is_checked_and_the_need_is_told() {
        let parent = tempfile::tempdir().unwrap();
        let (workspace, _) = Workspace::create(parent.path()).unwrap();
        workspace.room(4096).unwrap();
        let message = workspace.room(1 << 60).unwrap_err().to_string();
        assert!(message.contains("1210567579837.2 MB are needed"), "{message}");
        let missing = Workspace::create(&parent.path().join("none")).unwrap_err().to_string();
        assert!(missing.contains("cannot use the directory"), "{missing}");
    }
}
