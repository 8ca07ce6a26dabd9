//! Where probes write: one directory per process, recognisable, and gone afterwards.
//!
//! A workspace holds a marker, which says whose it is and is locked as long as its process lives. It is
//! made under a hidden name and gets its own only when the marker is locked, so that nobody ever sees a
//! workspace of a living process without its lock. Whether a lock counts depends on who made it: within
//! one run of one machine locks are seen by all; of another machine's a file system may show none.

use super::ProbeError;
use forebay_model::input;
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Every workspace's name begins with one of these, by what it is for; its process and its machine
/// follow.
const PREFIXES: [&str; 2] = ["forebay-calibration-", "forebay-live-"];
/// What the names of workspaces that are being made begin with.
const HIDDEN: &str = ".forebay-new-";
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
        let here = Identity::here();
        let notes = remove_leftovers(parent, &here)?;
        let new = New::make(parent, &here)?;
        Ok((new.publish(prefix, parent, &here)?, notes))
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
        remove(&self.path).ok();
    }
}

/// Removes a workspace, its marker last: if this process is killed meanwhile, the next one knows whose the rest is.
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

/// A workspace that nobody else sees yet.
struct New {
    path: PathBuf,
    name: String,
}

impl New {
    fn make(parent: &Path, here: &Identity) -> Result<New, ProbeError> {
        /// Tells the workspaces of this process apart.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = match COUNT.fetch_add(1, Ordering::Relaxed) {
            0 => here.tag(),
            number => format!("{}-{number}", here.tag()),
        };
        let path = parent.join(format!("{HIDDEN}{name}"));
        // A dead process may have had our number.
        fs::remove_dir_all(&path).ok();
        fs::create_dir(&path).map_err(ProbeError::file("make", &path))?;
        Ok(New { path, name })
    }

    /// Locks it and gives it its name.
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

/// Makes the marker and locks it: the lock goes with the process, however that ends.
fn mark(path: &Path, here: &Identity) -> std::io::Result<File> {
    let mut marker = File::create_new(path)?;
    writeln!(marker, "{}", here.line())?;
    // Where locks are not to be had, the number of the process must do.
    marker.try_lock().ok();
    Ok(marker)
}

/// Removes what dead processes of this user left in `parent`; says what it did not dare to.
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

/// Time after which a process that was making a workspace has made it, or is dead: it takes milliseconds.
const MADE_BY_THEN: Duration = Duration::from_hours(24);

/// Removes a workspace that was never made if its process is surely dead; says what was done. One that is being made right
/// now may have no marker yet, or one without a lock.
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
        // Its process was killed before it wrote whose it is. What holds anything else stays.
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

/// Removes a workspace if its process is dead; says what was done, or why it was not.
fn remove_if_dead(path: &Path, here: &Identity) -> Option<String> {
    let shown = input::shown(path);
    match state(path, here) {
        // The marker stays locked until all is gone: nobody else takes it for theirs meanwhile.
        State::Dead(_marker) => match remove(path) {
            Ok(()) => Some(format!("removed {shown}, left by a run that was killed")),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => Some(format!("cannot remove {shown}: {error}")),
        },
        State::Alive => Some(format!("{shown}: another run of forebay uses it")),
        State::Elsewhere => Some(elsewhere(path)),
        State::Gone => None,
        State::Foreign => Some(format!("{shown} is no workspace of forebay's: it is left alone")),
    }
}

fn elsewhere(path: &Path) -> String {
    let shown = input::shown(path);
    format!("{shown} may be another machine's: remove it if no forebay runs there")
}

/// What is known of the process that made a workspace.
#[derive(Debug)]
enum State {
    /// It is dead; its marker, locked by us, or as it is where there are no locks.
    Dead(File),
    Alive,
    /// It ran on another machine, where it may live.
    Elsewhere,
    /// The workspace has just been removed.
    Gone,
    /// It has no marker that we could read.
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
    /// This run of the machine.
    boot: String,
    /// The machine, whatever its runs; a number, so that its name stays its own.
    machine: String,
    /// In which the number of the process counts: containers have numbers of their own.
    numbers: String,
}

/// Whether this process can see the locks and the number of the one that made a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kin {
    /// We see its number.
    Twin,
    /// We see its locks, but not its number: it is in another container.
    SameKernel,
    /// It ran before this machine was started anew, so that it is dead.
    EarlierBoot,
    /// It runs on another machine.
    Stranger,
}

impl Identity {
    fn here() -> Identity {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let (id, name) = (read("/etc/machine-id"), read("/proc/sys/kernel/hostname"));
        // Nodes that start from one image may have the same.
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

    /// The line of a marker.
    fn line(&self) -> String {
        let or_none = |text: &str| if text.is_empty() { "-" } else { text }.to_owned();
        let [boot, machine, numbers] =
            [&self.boot, &self.machine, &self.numbers].map(|of| or_none(of));
        format!("{} {boot} {machine} {numbers}", self.process)
    }

    /// What the line of a marker says.
    fn parse(line: &str) -> Option<Identity> {
        let mut fields = line.split_whitespace();
        let process = fields.next()?.parse().ok()?;
        // Earlier versions wrote no more than the boot.
        let mut field = || fields.next().unwrap_or("-").to_owned();
        Some(Identity { process, boot: field(), machine: field(), numbers: field() })
    }

    /// Part of a workspace's name: no other process that lives anywhere has the same.
    fn tag(&self) -> String {
        format!("{}-{:08x}", self.process, self.place() as u32)
    }

    /// A number for where process numbers count.
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

    /// Whether there is a process of its number.
    fn runs(&self) -> bool {
        let found = fs::metadata(format!("/proc/{}", self.process));
        !found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    /// Whether a name that [`Identity::tag`] gave is that of a dead process beside us.
    fn is_dead_twin(&self, tag: &str) -> bool {
        let mut parts = tag.split('-');
        let process = parts.next().and_then(|number| number.parse().ok());
        let of = |process| Identity { process, ..self.clone() };
        let twin = process.map(of).filter(|twin| tag.starts_with(&twin.tag()));
        twin.is_some_and(|twin| !twin.runs())
    }
}

/// FNV-1a: the same in every version of the program, which the standard library's hash is not.
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

    /// A workspace that somebody left, or seems to have left.
    fn left(parent: &Path, name: &str, marker: &str) -> PathBuf {
        let path = parent.join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join(MARKER), format!("{marker}\n")).unwrap();
        fs::write(path.join("big"), "x").unwrap();
        path
    }

    #[test]
    fn what_a_dead_process_left_is_removed_and_nothing_else() {
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
    fn a_workspace_is_locked_before_it_has_its_name() {
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
    fn what_was_being_made_by_a_dead_process_beside_us_is_removed() {
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
    fn what_was_being_made_before_the_machine_started_anew_is_removed() {
        // System: processes of an earlier boot were killed before they gave their workspaces a name: with a marker, with an
        // empty one and without. Expectation: all go once they are surely dead, and what may be alive or foreign stays.
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
    fn starts_at_once_in_one_directory_leave_each_other_alone() {
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
