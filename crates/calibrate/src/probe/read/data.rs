//! The user's own data set: which of its files are read, and how.

use super::files::{DataFile, MOST_UNITS, Set};
use super::reader::open_data;
use crate::probe::ProbeError;
use forebay_model::input::shown;
use rustix::fs::CWD;
use std::collections::BTreeMap;
use std::fs::{self, FileType};
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Size from which on a file is assumed to hold many samples [B].
const SHARD: u64 = 64 << 20;
/// Largest number of files to look at: a data set may have a hundred million.
const MOST_FILES: usize = 50_000;
/// Largest number of classes of file sizes.
const MOST_CLASSES: usize = 4;

/// Chooses what to read of the data set at `path`: whole files, in a set for each class of size, and records of
/// `sizes` in large files. Each set has requests of at most about `bytes` together, so that it can be read once
/// to warm the page cache. Also returns a note for the user on files that are left out.
///
/// # Errors
///
/// No file at `path` can be read.
pub(super) fn sets(
    path: &Path,
    sizes: &[u64],
    bytes: u64,
) -> Result<(Vec<Set>, Option<String>), ProbeError> {
    let (files, note) = readable(path)?;
    let (shards, single): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| file.length >= SHARD);
    // Classes are powers of four of the size; the classes with most files are kept.
    let mut classes: BTreeMap<u32, Vec<DataFile>> = BTreeMap::new();
    for file in single {
        classes.entry(file.length.ilog2() / 2).or_default().push(file);
    }
    let mut classes: Vec<Vec<DataFile>> = classes.into_values().collect();
    classes.sort_by_key(|files| std::cmp::Reverse(files.len()));
    classes.truncate(MOST_CLASSES);
    let mut sets: Vec<Set> = classes.into_iter().map(|files| whole(files, bytes)).collect();
    if !shards.is_empty() {
        let records = |&size: &u64| {
            let mut set = Set::of_records(size, shards.clone());
            let most = (bytes / size).clamp(1, MOST_UNITS) as usize;
            thin(&mut set.units, most);
            set
        };
        sets.extend(sizes.iter().map(records));
    }
    Ok((sets, note))
}

/// Returns a set of whole files that have at most about `bytes` together.
fn whole(mut files: Vec<DataFile>, bytes: u64) -> Set {
    let mean = |files: &[DataFile]| {
        files.iter().map(|file| file.length).sum::<u64>() / files.len().max(1) as u64
    };
    let most = (bytes / mean(&files).max(1)).clamp(1, MOST_UNITS) as usize;
    thin(&mut files, most);
    Set::of_files(mean(&files), files)
}

/// Keeps at most `most` elements, evenly spaced.
fn thin<T>(all: &mut Vec<T>, most: usize) {
    let step = all.len().div_ceil(most.max(1)).max(1);
    let mut index = 0;
    all.retain(|_| {
        index += 1;
        (index - 1) % step == 0
    });
}

/// Returns the files below `path` that are not empty and can be read, with a note on files that cannot be read.
/// Each directory is read in order of name. Links to directories are not followed: they may lead round in
/// circles.
fn readable(path: &Path) -> Result<(Vec<DataFile>, Option<String>), ProbeError> {
    let listed = fs::read_dir(path).map_err(ProbeError::file("read", path))?;
    drop(listed);
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    let mut directories = vec![path.to_owned()];
    while let Some(directory) = directories.pop() {
        for path in entries(&directory, &mut left_out) {
            let Ok(kind) = fs::symlink_metadata(&path) else { continue };
            if kind.is_dir() {
                directories.push(path);
                continue;
            }
            // Only regular files are opened: opening a pipe would wait for a process that writes to it.
            match fs::metadata(&path) {
                Ok(at) => match (no_file(at.file_type()), at.len()) {
                    (Some(what), _) => {
                        let path = shown(&path);
                        left_out.push(ProbeError::Machine(format!("{path} is {what}, not a file")));
                    }
                    (None, 0) => {}
                    (None, length) => match try_read(&path) {
                        Ok(()) => found.push(DataFile { path, length }),
                        Err(error) => left_out.push(ProbeError::file("read", &path)(error)),
                    },
                },
                Err(error) => left_out.push(ProbeError::file("read", &path)(error)),
            }
        }
        if found.len() >= MOST_FILES {
            break;
        }
    }
    let count = left_out.len();
    let first = left_out.into_iter().next();
    match (found.is_empty(), first) {
        (false, None) => Ok((found, None)),
        (false, Some(first)) => Ok((found, Some(format!("{count} files left out: {first}")))),
        (true, Some(first)) => Err(ProbeError::Machine(format!(
            "{} has no file that can be read ({first}); name the data set's directory",
            shown(path)
        ))),
        (true, None) => Err(ProbeError::Machine(format!(
            "{} has no file with anything in it; name the data set's directory",
            shown(path)
        ))),
    }
}

/// Returns what an entry of a directory is, once links are followed, if it is no regular file: `a named pipe`. The caller has gone
/// into directories, so that one is there only through a link.
#[must_use]
pub fn no_file(kind: FileType) -> Option<&'static str> {
    match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("a link to a directory"),
        () if kind.is_fifo() => Some("a named pipe"),
        () if kind.is_socket() => Some("a socket"),
        () => Some("a device"),
    }
}

/// Opens a file and reads its first byte, because some file systems refuse access only at the first read.
fn try_read(path: &Path) -> std::io::Result<()> {
    open_data(CWD, path, false)?.read_exact(&mut [0])
}

/// Returns the entries of a directory in order of name. A directory that cannot be listed is added to
/// `left_out`.
fn entries(path: &Path, left_out: &mut Vec<ProbeError>) -> Vec<PathBuf> {
    match fs::read_dir(path) {
        Ok(entries) => {
            let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
            paths
        }
        Err(error) => {
            left_out.push(ProbeError::file("read", path)(error));
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_grouped_by_size_and_each_group_is_limited_in_bytes() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("deep")).unwrap();
        for index in 0..40 {
            fs::write(place.path().join(format!("{index:02}")), [0; 5000]).unwrap();
            fs::write(place.path().join(format!("deep/{index:02}")), [0; 100]).unwrap();
        }
        fs::write(place.path().join("empty"), []).unwrap();
        std::os::unix::net::UnixListener::bind(place.path().join("socket")).unwrap();
        std::os::unix::fs::symlink("deep", place.path().join("to-deep")).unwrap();
        std::os::unix::fs::symlink("nowhere", place.path().join("link")).unwrap();
        let (sets, note) = sets(place.path(), &[4096], 50_000).unwrap();
        let note = note.unwrap();
        assert!(
            note.starts_with("3 files left out: cannot read") && note.contains("link"),
            "{note}"
        );
        let shape: Vec<_> = sets.iter().map(|set| (set.size, set.files.len())).collect();
        assert_eq!(shape, [(100, 40), (5000, 10)]);
    }

    #[test]
    fn a_data_set_with_nothing_to_read_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let message = sets(place.path(), &[4096], 1000).unwrap_err().to_string();
        assert!(message.contains("no file with anything in it"), "{message}");
        let socket = place.path().join("socket");
        std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let message = sets(place.path(), &[4096], 1000).unwrap_err().to_string();
        assert!(message.contains("socket is a socket, not a file); name the"), "{message}");
        let missing = sets(&place.path().join("none"), &[4096], 1000).unwrap_err().to_string();
        assert!(missing.contains("cannot read"), "{missing}");
    }
}
