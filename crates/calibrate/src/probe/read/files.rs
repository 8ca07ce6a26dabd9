//! Files to read, and the read requests into them.

use super::Layout;
use crate::probe::{Context, ProbeError};
use forebay_model::random::{Purpose, Streams};
use rand::Rng;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Alignment of requests in record files [B], which direct reads need.
pub(super) const ALIGNMENT: u64 = 4096;
/// Largest number of files of one size: making files takes time.
const MOST_FILES: u64 = 2048;
/// Largest number of different requests in a set.
pub(super) const MOST_UNITS: u64 = 1 << 18;

/// Files of one layout and requests of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Set {
    /// Layout of samples in the files.
    pub layout: Layout,
    /// Size of a request [B]; for the user's own files, their mean size.
    pub size: u64,
    /// The files.
    pub files: Vec<DataFile>,
    /// The requests.
    pub units: Vec<Unit>,
}

/// A file that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Size when the probe first looked [B].
    pub length: u64,
}

/// A read request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// Index of the file in the set.
    pub file: usize,
    /// Offset of the request in the file [B].
    pub offset: u64,
    /// Length of the request [B].
    pub length: u64,
}

impl Set {
    /// Returns a set in which every request is a whole file.
    pub(super) fn of_files(size: u64, files: Vec<DataFile>) -> Set {
        let unit = |(file, at): (usize, &DataFile)| Unit { file, offset: 0, length: at.length };
        let units = files.iter().enumerate().map(unit).collect();
        Set { layout: Layout::FilePerSample, size, files, units }
    }

    /// Returns the part of the set for warm reads: the first quarter of the requests, but at most `bytes`
    /// together, and at least one request.
    #[must_use]
    pub(super) fn warm_part(&self, bytes: u64) -> Set {
        let most = (bytes / self.size.max(1)) as usize;
        self.only(..(self.units.len() / 4).min(most).max(1).min(self.units.len()))
    }

    /// Returns the part of the set for reads from the disk: all requests after the first quarter. The
    /// first quarter is left to warm reads, which would otherwise have to be warmed again each time.
    #[must_use]
    pub(in crate::probe) fn cold_part(&self) -> Set {
        self.only(self.units.len() / 4..)
    }

    /// Returns the set with only the requests in `range`.
    fn only(&self, range: impl std::slice::SliceIndex<[Unit], Output = [Unit]>) -> Set {
        let units = self.units[range].to_vec();
        Set { layout: self.layout, size: self.size, files: self.files.clone(), units }
    }

    /// Returns a set of requests of one size, one after the other in large files.
    pub(super) fn of_records(size: u64, files: Vec<DataFile>) -> Set {
        let stride = size.next_multiple_of(ALIGNMENT);
        let mut units = Vec::new();
        for (file, at) in files.iter().enumerate() {
            let most = MOST_UNITS / files.len() as u64;
            let count = (at.length / stride).min(most);
            // If a file has room for more requests than allowed, they are spread over the whole file.
            let step = (at.length / stride / count.max(1)) * stride;
            units.extend((0..count).map(|i| Unit { file, offset: i * step, length: size }));
        }
        Set { layout: Layout::Records, size, files, units }
    }
}

/// Writes one large file; returns a set of requests into it for each size.
pub(in crate::probe) fn records(
    context: &Context<'_>,
    bytes: u64,
    sizes: impl Iterator<Item = u64>,
) -> Result<Vec<Set>, ProbeError> {
    let path = context.directory.join("records");
    let file = write(context, &path, bytes, 0)?;
    file.sync_data().map_err(ProbeError::file("write", &path))?;
    let files = vec![DataFile { path, length: bytes }];
    Ok(sizes.map(|size| Set::of_records(size, files.clone())).collect())
}

/// Writes files of one size, about `bytes` together; returns a set in which every request is one of these
/// files.
pub(super) fn one_each(context: &Context<'_>, bytes: u64, size: u64) -> Result<Set, ProbeError> {
    let directory = context.directory.join(size.to_string());
    fs::create_dir(&directory).map_err(ProbeError::file("make", &directory))?;
    let count = (bytes / size.next_multiple_of(ALIGNMENT)).clamp(1, MOST_FILES);
    let mut files = Vec::new();
    for index in 0..count {
        let path = directory.join(index.to_string());
        write(context, &path, size, index + 1)?;
        files.push(DataFile { path, length: size });
    }
    // Data that is not on disk cannot be dropped from the cache. One call writes all files: thousands of calls
    // for one file each take minutes on some file systems.
    let at = File::open(&directory).map_err(ProbeError::file("read", &directory))?;
    let synced = rustix::fs::syncfs(&at);
    synced.map_err(|error| ProbeError::file("write", &directory)(error.into()))?;
    Ok(Set::of_files(size, files))
}

/// Makes a file of random bytes, which no file system can compress.
pub(in crate::probe) fn write(
    context: &Context<'_>,
    path: &Path,
    bytes: u64,
    index: u64,
) -> Result<File, ProbeError> {
    const BLOCK: u64 = 1 << 20;
    let mut generator = Streams::new(context.seed, 0).at(Purpose::Trial, u64::MAX, index, 0);
    let mut file = File::create_new(path).map_err(ProbeError::file("write", path))?;
    let mut block = vec![0; bytes.min(BLOCK) as usize];
    let mut left = bytes;
    while left > 0 {
        context.go_on()?;
        let now = left.min(BLOCK) as usize;
        generator.fill_bytes(&mut block[..now]);
        file.write_all(&block[..now]).map_err(ProbeError::file("write", path))?;
        left -= now as u64;
    }
    Ok(file)
}
