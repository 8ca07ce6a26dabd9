//! Threads that read requests one after the other.

use super::files::ALIGNMENT;
use super::{DataFile, Layout, Set, Unit};
use crate::probe::team::thread_core_seconds;
use crate::probe::{Context, ProbeError, team};
use forebay_engine::stats::quantile;
use forebay_model::random::{Purpose, Streams};
use rand::seq::SliceRandom;
use rustix::fs::{Advice, CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// How a read uses the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Past the page cache (`O_DIRECT`).
    Direct,
    /// Through the page cache, which does not hold the data.
    Cold,
    /// From the page cache.
    Warm,
}

impl Access {
    /// Returns the name in samples.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Access::Direct => "direct",
            Access::Cold => "cold",
            Access::Warm => "warm",
        }
    }
}

/// Results of the readers of a trial.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reads {
    /// Time of each request, in ascending order [s].
    pub latencies: Vec<f64>,
    /// Requests per second of all readers [1/s].
    pub rate: f64,
    /// Bytes that all readers have read [B].
    pub bytes: u64,
    /// Processor time of all readers [core-s].
    pub core_seconds: f64,
    /// Time that readers were ready but had no core [s].
    pub waited: f64,
}

impl Reads {
    /// Returns the number of requests.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.latencies.len() as u64
    }

    /// Returns the number of requests divided by the total rate of all readers [s]. Each reader stops after its
    /// own last request, at a time of its own; so the rates of readers are added up, and the end of the slowest
    /// reader is not used.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.latencies.len() as f64 / self.rate
    }

    /// Returns the observations for the sample: median and 99th percentile of the latency [s], and bytes read
    /// [B].
    #[must_use]
    pub fn observed(&self) -> BTreeMap<String, f64> {
        let at = |q| quantile(&self.latencies, q).unwrap_or(f64::NAN);
        let named =
            [("latency_p50", at(0.5)), ("latency_p99", at(0.99)), ("bytes", self.bytes as f64)];
        named.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

/// Reads requests of `set` with `readers` threads for about `context.length`, in random order. Each reader has its
/// own share of the requests and reads all of it before it reads a request again; cold reads end after one pass
/// over the share.
///
/// # Errors
///
/// A file cannot be read, or is shorter than it was.
pub fn read_units(
    set: &Set,
    access: Access,
    readers: usize,
    context: &Context<'_>,
) -> Result<Reads, ProbeError> {
    let mut order: Vec<usize> = (0..set.units.len()).collect();
    let address = Streams::new(context.seed, 0).at(Purpose::Trial, 0, 0, 1);
    order.shuffle(&mut { address });
    let open: Vec<File> = match set.layout {
        Layout::Records => {
            set.files.iter().map(|file| open(&file.path, access)).collect::<Result<_, _>>()?
        }
        Layout::FilePerSample => Vec::new(),
    };
    let team = team(readers, |reader| -> Result<Reads, ProbeError> {
        let mut buffer = Buffer::new(set.units.iter().map(|unit| unit.length).max().unwrap_or(0));
        let mut done = Reads { latencies: Vec::with_capacity(1 << 16), ..Reads::default() };
        let (rounds, first) = if access == Access::Cold || order.is_empty() {
            (1, reader)
        } else {
            // With fewer requests than readers, some readers read the same requests.
            (usize::MAX, reader % order.len())
        };
        let mine = (0..rounds).flat_map(|_| order.iter().skip(first).step_by(readers));
        let (core, start) = (thread_core_seconds(), Instant::now());
        let mut last = start;
        for &index in mine {
            done.bytes += read(set, &set.units[index], &open, access, &mut buffer)?;
            let now = Instant::now();
            done.latencies.push((now - last).as_secs_f64());
            last = now;
            if now - start >= context.length || context.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        done.core_seconds = thread_core_seconds() - core;
        let count = done.operations();
        let seconds = context.ruler.less((last - start).as_secs_f64(), count);
        done.rate = if count == 0 { 0.0 } else { count as f64 / seconds };
        done.core_seconds = context.ruler.less(done.core_seconds, count);
        Ok(done)
    })?;
    let mut all = Reads { waited: team.waited(), ..Reads::default() };
    for member in team.members {
        let reads = member.value?;
        all.latencies.extend(reads.latencies);
        all.rate += reads.rate;
        all.bytes += reads.bytes;
        all.core_seconds += reads.core_seconds;
    }
    all.latencies.sort_by(f64::total_cmp);
    Ok(all)
}

/// Reads one request: from the open file of records, or from a file that is opened for this request. Returns
/// the bytes read [B].
fn read(
    set: &Set,
    unit: &Unit,
    open_files: &[File],
    access: Access,
    buffer: &mut Buffer,
) -> Result<u64, ProbeError> {
    let at = &set.files[unit.file];
    let own;
    let file = match open_files.get(unit.file) {
        Some(file) => file,
        None => {
            own = open(&at.path, access)?;
            &own
        }
    };
    // Direct reads must be whole blocks; the last one of a file returns fewer bytes.
    let asked = if access == Access::Direct {
        unit.length.next_multiple_of(ALIGNMENT)
    } else {
        unit.length
    };
    let target = &mut buffer.bytes()[..asked as usize];
    let mut got = 0;
    while got < unit.length {
        match file.read_at(&mut target[got as usize..], unit.offset + got) {
            Ok(0) => {
                let (path, expected, found) = (at.path.clone(), at.length, unit.offset + got);
                return Err(ProbeError::Truncated { path, expected, found });
            }
            Ok(count) => got += count as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ProbeError::file("read", &at.path)(error)),
        }
    }
    Ok(unit.length)
}

/// Reads all requests of a set, so that the page cache holds them.
pub(super) fn warm(set: &Set, context: &Context<'_>) -> Result<(), ProbeError> {
    let mut buffer = Buffer::new(set.units.iter().map(|unit| unit.length).max().unwrap_or(0));
    let open: Vec<File> = match set.layout {
        Layout::Records => {
            set.files.iter().map(|file| open(&file.path, Access::Warm)).collect::<Result<_, _>>()?
        }
        Layout::FilePerSample => Vec::new(),
    };
    for unit in &set.units {
        context.go_on()?;
        read(set, unit, &open, Access::Warm, &mut buffer)?;
    }
    Ok(())
}

/// Drops files from the page cache; a file system without one has nothing to drop.
///
/// # Errors
///
/// A file cannot be opened.
pub fn drop_from_cache(files: &[DataFile]) -> Result<(), ProbeError> {
    for file in files {
        let opened = open(&file.path, Access::Cold)?;
        rustix::fs::fadvise(&opened, 0, None, Advice::DontNeed).ok();
    }
    Ok(())
}

/// Drops the requests of a set from the page cache: in each file everything from the first request on.
pub(super) fn drop_units(set: &Set) -> Result<(), ProbeError> {
    let mut from: BTreeMap<usize, u64> = BTreeMap::new();
    for unit in &set.units {
        let first = from.entry(unit.file).or_insert(unit.offset);
        *first = unit.offset.min(*first);
    }
    for (file, offset) in from {
        let opened = open(&set.files[file].path, Access::Cold)?;
        rustix::fs::fadvise(&opened, offset, None, Advice::DontNeed).ok();
    }
    Ok(())
}

/// Returns the kinds of access that the file system of `set` does not support, and why.
pub(super) fn impossible(set: &Set) -> Result<Vec<(Access, String)>, ProbeError> {
    /// `f_type` of tmpfs, from the kernel's `magic.h`.
    const TMPFS: u64 = 0x0102_1994;
    let (Some(file), Some(unit)) = (set.files.first(), set.units.first()) else {
        return Ok(vec![]);
    };
    let found = rustix::fs::statfs(&file.path);
    let found = found.map_err(|error| ProbeError::file("look at", &file.path)(error.into()))?;
    if found.f_type as u64 == TMPFS {
        let why = "these files are in memory (tmpfs); name a --directory on a disk".to_owned();
        return Ok(vec![(Access::Direct, why.clone()), (Access::Cold, why)]);
    }
    let mut buffer = Buffer::new(unit.length);
    let tried = open(&file.path, Access::Direct)
        .and_then(|opened| read(set, unit, &[opened], Access::Direct, &mut buffer));
    match tried {
        Err(ProbeError::File { source, .. }) if source.kind() == io::ErrorKind::InvalidInput => {
            Ok(vec![(Access::Direct, "the file system has no direct reads (O_DIRECT)".to_owned())])
        }
        Err(error) => Err(error),
        Ok(_) => Ok(Vec::new()),
    }
}

/// Opens a file for reading.
pub(in crate::probe) fn open(path: &Path, access: Access) -> Result<File, ProbeError> {
    open_data(CWD, path, access == Access::Direct).map_err(ProbeError::file("read", path))
}

/// Opens a data file at `path` below the directory `root`; `direct` reads bypass the page cache. Never waits: a pipe that stands in
/// the place of a data file, perhaps since its directory was listed, would otherwise block its reader until somebody writes to it.
///
/// # Errors
/// If the file cannot be opened, or is not a regular file.
pub fn open_data(root: impl AsFd, path: &Path, direct: bool) -> io::Result<File> {
    let way = if direct { OFlags::DIRECT } else { OFlags::empty() };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | way;
    let file = match openat(root, path, flags, Mode::empty()) {
        Ok(file) => file,
        // A socket, or a device that is not there.
        Err(Errno::NXIO | Errno::NODEV) => return Err(not_data("a socket or a device")),
        Err(error) => return Err(error.into()),
    };
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file.into()),
        FileType::Directory => Err(Errno::ISDIR.into()),
        FileType::Fifo => Err(not_data("a pipe")),
        _ => Err(not_data("a device")),
    }
}

fn not_data(what: &str) -> io::Error {
    io::Error::new(ErrorKind::Unsupported, format!("it is {what}, not a data file"))
}

/// Memory that direct reads may write to: it begins at a multiple of 4 KiB.
pub(in crate::probe) struct Buffer {
    memory: Vec<u8>,
    from: usize,
    length: usize,
}

impl Buffer {
    /// Allocates room for `length` bytes, rounded up to whole blocks of 4 KiB.
    pub(in crate::probe) fn new(length: u64) -> Buffer {
        let length = length.next_multiple_of(ALIGNMENT) as usize;
        // Memory is filled with ones, so that its pages exist before anything is timed.
        let memory = vec![1; length + ALIGNMENT as usize];
        let from = memory.as_ptr().align_offset(ALIGNMENT as usize).min(ALIGNMENT as usize);
        Buffer { memory, from, length }
    }

    /// Returns the aligned bytes.
    pub(in crate::probe) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.from..self.from + self.length]
    }
}
