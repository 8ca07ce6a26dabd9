//! Where probes and live runs write: each process has a directory of its own (a workspace), which is
//! recognisable by its name and removed at the end.
//!
//! A workspace contains a marker file, which names its process and is locked as long as the process lives. A
//! workspace is made under a hidden name and gets its final name only when the marker is locked, so that nobody
//! ever sees a workspace of a living process without its lock. A missing lock does not always prove that the
//! process is dead: within one boot of one machine every process sees all locks, but a file system may not show
//! the locks of another machine.

use super::ProbeError;
use forebay_model::input;
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
        fs::create_dir(&path).map_err(ProbeError::file("make", &path))?;
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
            ProbeError::file("write", &path)(error)
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
    let entries = fs::read_dir(parent).map_err(ProbeError::file("use the directory", parent))?;
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

/// Which process on which machine made a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    process: u32,
    /// Boot of the machine, by its `boot_id`.
    boot: String,
    /// The machine, the same in all its boots; a hash, so that its name is not disclosed.
    machine: String,
    /// PID namespace in which the number of the process is valid: containers have PID namespaces of their own.
    numbers: String,
}

/// How the process that made a workspace is related to this process: whether this process can see the other
/// process's locks and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kin {
    /// The same PID namespace: we see its locks and its number.
    Twin,
    /// The same boot, but another container: we see its locks, but not its number.
    SameKernel,
    /// An earlier boot of this machine: the process is dead.
    EarlierBoot,
    /// Another machine: we may not even see its locks.
    Stranger,
}

impl Identity {
    fn here() -> Identity {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let (id, name) = (read("/etc/machine-id"), read("/proc/sys/kernel/hostname"));
        // Nodes that start from one image may have the same machine ID; only the host name tells them apart.
        let unknown = id.is_empty() || name.is_empty() || name.starts_with("localhost");
        let machine =
            if unknown { String::new() } else { format!("{:016x}", fingerprint(&(id + &name))) };
        let numbers = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let numbers = numbers.to_string_lossy();
        Identity {
            process: std::process::id(),
            boot: read("/proc/sys/kernel/random/boot_id"),
            machine,
            numbers: numbers.chars().filter(char::is_ascii_digit).collect(),
        }
    }

    /// Formats the line in a workspace's marker file.
    fn line(&self) -> String {
        let or_none = |text: &str| if text.is_empty() { "-" } else { text }.to_owned();
        let [boot, machine, numbers] =
            [&self.boot, &self.machine, &self.numbers].map(|of| or_none(of));
        format!("{} {boot} {machine} {numbers}", self.process)
    }

    /// Parses the line in a workspace's marker file; `None` if the line does not begin with the number of a
    /// process.
    fn parse(line: &str) -> Option<Identity> {
        let mut fields = line.split_whitespace();
        let process = fields.next()?.parse().ok()?;
        // Markers of earlier versions end after the boot.
        let mut field = || fields.next().unwrap_or("-").to_owned();
        Some(Identity { process, boot: field(), machine: field(), numbers: field() })
    }

    /// Returns the part of a workspace's name that no other living process on any machine has.
    fn tag(&self) -> String {
        format!("{}-{:08x}", self.process, self.place() as u32)
    }

    /// Returns a hash of the PID namespace, boot and machine in which the number of the process is valid.
    fn place(&self) -> u64 {
        fingerprint(&format!("{} {} {}", self.boot, self.machine, self.numbers))
    }

    fn seen_from(&self, here: &Identity) -> Kin {
        let same = |own: &str, other: &str| own == other && own != "-" && !own.is_empty();
        match (same(&self.boot, &here.boot), same(&self.machine, &here.machine)) {
            (true, _) if same(&self.numbers, &here.numbers) => Kin::Twin,
            (true, _) => Kin::SameKernel,
            (false, true) => Kin::EarlierBoot,
            (false, false) => Kin::Stranger,
        }
    }

    /// Returns whether a process with this number exists.
    fn runs(&self) -> bool {
        let found = fs::metadata(format!("/proc/{}", self.process));
        !found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    /// Returns whether `tag`, made by [`Identity::tag`], is that of a dead process in our own PID namespace.
    fn is_dead_twin(&self, tag: &str) -> bool {
        let mut parts = tag.split('-');
        let process = parts.next().and_then(|number| number.parse().ok());
        let of = |process| Identity { process, ..self.clone() };
        let twin = process.map(of).filter(|twin| tag.starts_with(&twin.tag()));
        twin.is_some_and(|twin| !twin.runs())
    }
}

/// Returns the FNV-1a hash of a text. It is the same in every version of the program, which the standard
/// library's hash is not.
fn fingerprint(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(path: &Path) -> usize {
        fs::read_dir(path).unwrap().count()
    }

    #[test]
    fn a_dropped_workspace_is_removed_with_its_contents() {
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

    /// Makes a workspace as if another process had left it.
    fn left(parent: &Path, name: &str, marker: &str) -> PathBuf {
        let path = parent.join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join(MARKER), format!("{marker}\n")).unwrap();
        fs::write(path.join("big"), "x").unwrap();
        path
    }

    #[test]
    fn only_workspaces_of_dead_processes_are_removed() {
        let (place, here) = (tempfile::tempdir().unwrap(), Identity::here());
        let parent = place.path();
        let of = |of: Identity| of.line();
        let dead = left(parent, "forebay-calibration-1", &of(here.clone()));
        let earlier = Identity { boot: "b".into(), ..here.clone() };
        let rebooted = left(parent, "forebay-live-2", &of(earlier.clone()));
        let old_version = left(parent, "forebay-live-3", &format!("3 {}", here.boot));
        let stranger =
            left(parent, "forebay-live-4", &of(Identity { machine: "m".into(), ..earlier }));
        let unknown = left(parent, "forebay-live-5", "5 another-boot");
        let foreign = parent.join("forebay-calibration-notes");
        let other = parent.join("data");
        for path in [&foreign, &other] {
            fs::create_dir(path).unwrap();
        }
        fs::write(foreign.join("mine.txt"), "x").unwrap();
        let (workspace, notes) = Workspace::create(parent).unwrap();
        assert!(!dead.exists() && !rebooted.exists() && !old_version.exists());
        assert!(stranger.exists() && unknown.exists() && foreign.exists() && other.exists());
        assert_eq!(notes.len(), 6, "{notes:?}");
        let theirs = notes.iter().filter(|note| note.contains("may be another machine's")).count();
        assert_eq!(theirs, 2, "{notes:?}");
        let (live, notes) = Workspace::for_runs(parent).unwrap();
        assert!(live.path.to_string_lossy().contains("forebay-live-") && notes.len() == 4);
        assert!(matches!(state(&workspace.path, &here), State::Alive), "this process lives");
    }

    #[test]
    fn a_new_workspace_is_not_removed_before_its_process_has_locked_it() {
        // System: one process has made a workspace and not locked it yet; another one starts. Expectation: the
        // second one leaves it alone, and both have their workspaces.
        let (place, here) = (tempfile::tempdir().unwrap(), Identity::here());
        let new = New::make(place.path(), &here).unwrap();
        let (second, notes) = Workspace::for_runs(place.path()).unwrap();
        assert!(new.path.exists() && notes.is_empty(), "{notes:?}");
        let first = new.publish(PREFIXES[1], place.path(), &here).unwrap();
        let (_third, notes) = Workspace::for_runs(place.path()).unwrap();
        assert_eq!(notes.len(), 2, "both are in use: {notes:?}");
        assert!(first.path.exists() && second.path.exists());
    }

    #[test]
    fn unfinished_workspaces_of_dead_processes_are_removed() {
        let (place, here) = (tempfile::tempdir().unwrap(), Identity::here());
        // No process has this number: it is larger than Linux's largest.
        let dead = Identity { process: 1 << 30, ..here.clone() };
        let elsewhere = Identity { boot: "b".into(), ..dead.clone() };
        let ours = New::make(place.path(), &dead).unwrap();
        let theirs = New::make(place.path(), &elsewhere).unwrap();
        remove_leftovers(place.path(), &here).unwrap();
        assert!(!ours.path.exists() && theirs.path.exists());
    }

    /// Makes a directory look as if nothing had changed in it for days.
    fn age(path: &Path) {
        let days_ago = std::time::SystemTime::now() - 3 * MADE_BY_THEN;
        File::open(path).unwrap().set_modified(days_ago).unwrap();
    }

    #[test]
    fn unfinished_workspaces_of_an_earlier_boot_are_removed() {
        // System: processes of an earlier boot were killed before they gave their workspaces a name. One
        // workspace has a marker, one an empty marker, one none. Expectation: each workspace is removed once
        // its process is surely dead; workspaces of processes that may be alive and foreign directories stay.
        let (place, here) = (tempfile::tempdir().unwrap(), Identity::here());
        let parent = place.path();
        let earlier = Identity { boot: "b".into(), ..here.clone() };
        let stranger = Identity { machine: "m".into(), ..earlier.clone() };
        let name = |number: u32| format!("{HIDDEN}{number}-0123abcd");
        let marked = left(parent, &name(1), &earlier.line());
        let bare: Vec<PathBuf> = (2..5).map(|number| parent.join(name(number))).collect();
        bare.iter().for_each(|path| fs::create_dir(path).unwrap());
        fs::write(bare[1].join(MARKER), "").unwrap();
        bare[..2].iter().for_each(|path| age(path));
        let theirs = left(parent, &name(6), &stranger.line());
        let foreign = parent.join(name(7));
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("mine.txt"), "x").unwrap();
        let alive = left(parent, &name(8), &earlier.line());
        let lock = File::open(alive.join(MARKER)).unwrap();
        lock.try_lock().unwrap();
        [&theirs, &foreign, &alive].into_iter().for_each(|path| age(path));
        let (_workspace, notes) = Workspace::create(parent).unwrap();
        assert!(!marked.exists() && !bare[0].exists() && !bare[1].exists(), "{notes:?}");
        assert!(bare[2].exists(), "its process may be writing its marker right now");
        assert!(theirs.exists() && foreign.exists() && alive.exists());
        let removed = notes.iter().filter(|note| note.contains("left by a run that was killed"));
        assert_eq!((removed.count(), notes.len()), (3, 4), "{notes:?}");
    }

    #[test]
    fn workspaces_created_concurrently_do_not_remove_each_other() {
        let place = tempfile::tempdir().unwrap();
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..50 {
                        let (workspace, _) = Workspace::for_runs(place.path()).unwrap();
                        fs::write(workspace.directory("d").unwrap().join("f"), "x").unwrap();
                        assert!(workspace.path.join(MARKER).exists());
                    }
                });
            }
        });
        assert_eq!(entries(place.path()), 0);
    }

    #[test]
    fn too_little_space_is_reported_with_the_needed_space() {
        let parent = tempfile::tempdir().unwrap();
        let (workspace, _) = Workspace::create(parent.path()).unwrap();
        workspace.room(4096).unwrap();
        let message = workspace.room(1 << 60).unwrap_err().to_string();
        assert!(message.contains("1210567579837.2 MB are needed"), "{message}");
        let missing = Workspace::create(&parent.path().join("none")).unwrap_err().to_string();
        assert!(missing.contains("cannot use the directory"), "{missing}");
    }
}
