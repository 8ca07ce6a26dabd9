//! Files of shards: each has the rows of a part of a sweep. Tasks on many nodes write them into one directory, without locks: each
//! attempt appends to a file of its own, which is renamed when it has all points of its shard.

use crate::commands::Failure;
use crate::input::shown;
use crate::sweep::{Journal, JournalRead, Row, Shard, ShardRecord, SweepSettings};
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Ending of the file of an attempt that has not finished its shard.
const PARTIAL: &str = ".partial";
/// Ending of the file of a finished shard.
const ROWS: &str = ".rows";
const BEGIN: &str = "shard-";

/// The file of an attempt at a shard.
pub(super) struct ShardFile {
    directory: PathBuf,
    shard: Shard,
    /// The file of the finished shard.
    path: PathBuf,
    partial: PathBuf,
    journal: Journal,
}

impl ShardFile {
    /// Begins an attempt at a shard in `directory`, which is created if it is missing. Returns it with the points that earlier attempts
    /// finished; `None` if one has finished the shard.
    pub(super) fn open(
        directory: &Path,
        settings: &SweepSettings,
        record: &ShardRecord,
    ) -> Result<Option<(ShardFile, Vec<Journal>)>, Failure> {
        let unwritable = |error| Failure::unwritable(directory, &error);
        create(directory)?;
        let shard = record.shard;
        let path = directory.join(shard.file_name());
        let all = shard.len(record.points);
        let (mut earlier, begin) = (Vec::new(), attempt_begin(shard));
        for found in Found::all(directory)? {
            found.check_count(shard.count())?;
            let is_whole = found.path == path;
            let is_attempt = found.is_partial && found.name.starts_with(&begin);
            if !is_whole && !is_attempt {
                continue;
            }
            match found.read()? {
                Some(JournalRead::Journal(journal, of)) if *of == *settings => {
                    let same = journal.shard().is_some_and(|of| of.shard == shard);
                    if is_whole && same && journal.points() == all {
                        return Ok(None);
                    }
                    earlier.push(journal);
                }
                Some(JournalRead::Journal(_, of)) => {
                    return Err(other_settings(&found.path, &of, settings));
                }
                // An attempt that has just begun, that a full disk ended, or whose file has been renamed meanwhile.
                _ if found.is_partial => {}
                _ => return Err(damaged(&found.path)),
            }
        }
        let (partial, file) = create_attempt(directory, &begin).map_err(unwritable)?;
        let journal = Journal::begin(file, settings, Some(record)).map_err(unwritable)?;
        let directory = directory.to_owned();
        Ok(Some((ShardFile { directory, shard, path, partial, journal }, earlier)))
    }

    /// Appends the rows of the grid's point `point`.
    pub(super) fn append(&mut self, key: &str, point: usize, rows: &[Row]) -> Result<(), Failure> {
        let written = self.journal.append(key, point, rows);
        written.map_err(|error| Failure::unwritable(&self.partial, &error))
    }

    /// Returns the directory of all shards.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the finished points.
    pub(super) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns the message about what remains if the attempt ends now.
    pub(super) fn kept(&self) -> String {
        let (shard, directory) = (self.shard, shown(&self.directory));
        match self.journal.points() {
            0 => format!("no point of shard {shard} was finished"),
            1 => format!(
                "1 point of shard {shard} is kept in {directory}; the same command goes on with it"
            ),
            n => format!(
                "{n} points of shard {shard} are kept in {directory}; the same command goes on with them"
            ),
        }
    }

    /// Gives the file of a finished shard its name, unless another attempt was faster.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        if self.is_overtaken() {
            fs::remove_file(&self.partial).ok();
            return Ok(());
        }
        let renamed = self.journal.sync().and_then(|()| fs::rename(&self.partial, &self.path));
        match renamed {
            // `--collect` has removed this file.
            Err(_) if self.is_overtaken() => Ok(()),
            Err(error) => Err(Failure::unwritable(&self.path, &error)),
            Ok(()) => {
                self.partial = PathBuf::new();
                // Not every file system can do this.
                File::open(&self.directory).and_then(|directory| directory.sync_all()).ok();
                Ok(())
            }
        }
    }

    /// Returns whether another attempt has finished the shard.
    pub(super) fn is_overtaken(&self) -> bool {
        self.path.is_file()
    }
}

impl Drop for ShardFile {
    /// Removes a file without points.
    fn drop(&mut self) {
        if self.journal.points() == 0 && !self.partial.as_os_str().is_empty() {
            fs::remove_file(&self.partial).ok();
        }
    }
}

/// Creates the directory of shards if it is missing.
pub(super) fn create(directory: &Path) -> Result<(), Failure> {
    if fs::metadata(directory).is_ok_and(|found| !found.is_dir()) {
        return Err(Failure::Input(format!(
            "cannot sweep: {} is a file, but shards go into a directory; name another --output",
            shown(directory)
        )));
    }
    fs::create_dir_all(directory).map_err(|error| Failure::unwritable(directory, &error))
}

/// Returns into how many shards the sweep in a directory is cut; `None` if there is no shard. Shards of other settings are an error.
pub(super) fn count_in(
    directory: &Path,
    settings: &SweepSettings,
) -> Result<Option<usize>, Failure> {
    let mut count = None;
    for found in Found::all(directory)? {
        if let Some(JournalRead::Journal(_, of)) = found.read()? {
            if *of != *settings {
                return Err(other_settings(&found.path, &of, settings));
            }
            count = found.count();
        }
    }
    Ok(count)
}

/// Returns how the names of all attempts at a shard begin.
fn attempt_begin(shard: Shard) -> String {
    shard.file_name().replace(ROWS, ".")
}

/// Creates the file of an attempt, under a name that no attempt on any node uses.
fn create_attempt(directory: &Path, begin: &str) -> io::Result<(PathBuf, File)> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host: String = host.chars().filter(char::is_ascii_alphanumeric).take(32).collect();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let own = format!("{host}-{}-{:x}", std::process::id(), now.as_nanos());
    let path = directory.join(format!("{begin}{own}{PARTIAL}"));
    let file = OpenOptions::new().read(true).append(true).create_new(true).open(&path)?;
    Ok((path, file))
}

/// A file of a shard.
pub(super) struct Found {
    pub(super) path: PathBuf,
    name: String,
    pub(super) is_partial: bool,
}

impl Found {
    /// Returns the files of shards in `directory`, in the order of their names.
    pub(super) fn all(directory: &Path) -> Result<Vec<Found>, Failure> {
        let entries = fs::read_dir(directory);
        let entries = entries.map_err(|error| Failure::unreadable(directory, &error))?;
        let mut found: Vec<Found> = entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let is_partial = name.ends_with(PARTIAL);
                let is_shard = name.starts_with(BEGIN) && (is_partial || name.ends_with(ROWS));
                is_shard.then(|| Found { path: entry.path(), name, is_partial })
            })
            .collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// Reads the file; `None` if it is the file of an attempt that has been renamed or removed since it was found.
    pub(super) fn read(&self) -> Result<Option<JournalRead>, Failure> {
        // A pipe would be waited for.
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let mut options = File::options();
        options.read(true).custom_flags(flags.bits().cast_signed());
        let regular = options.open(&self.path).and_then(|file| match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is not a regular file")),
        });
        match regular.and_then(Journal::read) {
            Ok(read) => Ok(Some(read)),
            Err(error) if self.is_partial && error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::unreadable(&self.path, &error)),
        }
    }

    /// Returns the file of the finished shard of which this is an attempt.
    pub(super) fn finished(&self) -> PathBuf {
        let shard = self.name.split('.').next().unwrap_or_default();
        self.path.with_file_name(format!("{shard}{ROWS}"))
    }

    /// Returns the number of shards in the name, `shard-3-of-16.rows`.
    fn count(&self) -> Option<usize> {
        let (_, rest) = self.name.split_once("-of-")?;
        rest.split('.').next()?.parse().ok()
    }

    /// Refuses a file of a sweep that is cut into another number of shards.
    fn check_count(&self, count: usize) -> Result<(), Failure> {
        match self.count() {
            Some(other) if other != count => {
                let place = shown(&self.path);
                Err(Failure::Input(format!(
                    "cannot sweep: {place} is one of {other} shards, and not of {count}; name another --output, or remove the shards that are there"
                )))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the failure that the file of a shard is damaged.
pub(super) fn damaged(path: &Path) -> Failure {
    let place = shown(path);
    Failure::Input(format!("cannot sweep: {place} is damaged: remove it, and run its shard again"))
}

/// Returns the failure that a shard is of other settings than `now`.
pub(super) fn other_settings(path: &Path, of: &SweepSettings, now: &SweepSettings) -> Failure {
    let differences = of.differences(now).or_else(|| now.differences(of));
    let differences = differences.unwrap_or_else(|| "their settings differ".to_owned());
    Failure::Input(format!(
        "cannot sweep: {} is of other settings: {differences}; name another --output, or remove the shards that are there",
        shown(path)
    ))
}
