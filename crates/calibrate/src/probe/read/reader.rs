//! Threads that read requests one after the other.

use super::count::{self, Counter, Limits, Window};
use super::files::ALIGNMENT;
use super::{DataFile, Layout, Set, Unit};
use crate::probe::team::thread_core_seconds;
use crate::probe::{Context, ProbeError, Trial, team};
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
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
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
    /// Time of each request that counts, in ascending order [s].
    pub latencies: Vec<f64>,
    /// Requests per second of all readers [1/s].
    pub rate: f64,
    /// Bytes of the requests that count [B].
    pub bytes: u64,
    /// Processor time of the requests that count [core-s].
    pub core_seconds: f64,
    /// Time that readers were ready but had no core during the requests that count [s].
    pub waited: f64,
    /// Length of the window in which requests count [s].
    pub window: f64,
}

impl Reads {
    /// Returns the number of requests.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.latencies.len() as u64
    }

    /// Returns the number of requests divided by the total rate of all readers [s].
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.latencies.len() as f64 / self.rate
    }

    /// Returns the trial in which `readers` threads did these reads.
    pub(in crate::probe) fn trial(&self, readers: usize) -> Trial {
        Trial {
            operations: self.operations(),
            seconds: self.seconds(),
            core_seconds: self.core_seconds,
            threads: readers,
            waited: self.waited,
            observed: self.observed(),
            ..Trial::default()
        }
    }

    /// Returns the observations for the sample: median and 99th percentile of the latency [s], bytes read [B], and length of
    /// the window [s].
    #[must_use]
    pub fn observed(&self) -> BTreeMap<String, f64> {
        let at = |q| quantile(&self.latencies, q).unwrap_or(f64::NAN);
        let named = [
            ("latency_p50", at(0.5)),
            ("latency_p99", at(0.99)),
            ("bytes", self.bytes as f64),
            ("window", self.window),
        ];
        named.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

/// A completed request of a reader. It is small, because reads from memory are millions per second.
struct Done {
    /// Time of completion since the origin of the trial [s].
    at: f64,
    /// Time of the request [s].
    seconds: f32,
    /// Number of the request in its set.
    unit: u32,
}

/// What one reader has done.
#[derive(Default)]
struct Read {
    done: Vec<Done>,
    /// Time from the reader's start to its last completion [s].
    seconds: f64,
    core_seconds: f64,
}

/// Reads requests of `set` with `readers` threads, in random order. Each reader has its own share of the requests and reads all of
/// it before it reads a request again; cold reads end after one pass over the share. Requests count that end within a window, which
/// is as long as `context` allows and the unrest of the throughput demands.
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
    let counters: Vec<Counter> = (0..readers).map(|_| Counter::default()).collect();
    let (over, running) = (AtomicBool::new(false), AtomicUsize::new(readers));
    let window: Mutex<Option<Window>> = Mutex::new(None);
    let origin = Instant::now();
    let one = |reader: usize| -> Result<Read, ProbeError> {
        let mut buffer = Buffer::new(set.units.iter().map(|unit| unit.length).max().unwrap_or(0));
        let mut mine = Read { done: Vec::with_capacity(1 << 16), ..Read::default() };
        let (rounds, first) = if access == Access::Cold || order.is_empty() {
            (1, reader)
        } else {
            // With fewer requests than readers, some readers read the same requests.
            (usize::MAX, reader % order.len())
        };
        let units = (0..rounds).flat_map(|_| order.iter().skip(first).step_by(readers));
        let (core, start) = (thread_core_seconds(), Instant::now());
        let mut last = start;
        for &index in units {
            read(set, &set.units[index], &open, access, &mut buffer)?;
            let now = Instant::now();
            let (at, seconds) = ((now - origin).as_secs_f64(), (now - last).as_secs_f32());
            mine.done.push(Done { at, seconds, unit: index as u32 });
            counters[reader].set(mine.done.len() as u64);
            last = now;
            if over.load(Ordering::Relaxed) || context.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        mine.seconds = (last - start).as_secs_f64();
        mine.core_seconds = thread_core_seconds() - core;
        Ok(mine)
    };
    let team = team(readers + 1, |member| {
        if member < readers {
            let mine = one(member);
            running.fetch_sub(1, Ordering::Relaxed);
            return mine;
        }
        let limits =
            Limits { length: context.length, longest: context.longest, noise: context.noise };
        // Where a reader has ended, because its share is read or because it failed, the others alone do not show the throughput.
        let ended = || running.load(Ordering::Relaxed) < readers;
        let found = count::watch(&counters, origin, limits, ended);
        over.store(found.is_some() || access != Access::Cold, Ordering::Relaxed);
        *window.lock().unwrap_or_else(PoisonError::into_inner) = found;
        Ok(Read::default())
    })?;
    let window = window.into_inner().unwrap_or_else(PoisonError::into_inner);
    let waited: f64 = team.members[..readers].iter().map(|member| member.waited).sum();
    let reads =
        team.members.into_iter().map(|member| member.value).collect::<Result<Vec<_>, _>>()?;
    Ok(counted(set, &reads[..readers], window, waited, context))
}

/// Returns the results of the requests that end within `window`; without a window, or if none ends in it, those of all requests,
/// with the rates of the readers added up, as each of them ends at a time of its own.
fn counted(
    set: &Set,
    reads: &[Read],
    window: Option<Window>,
    waited: f64,
    context: &Context<'_>,
) -> Reads {
    let done = || reads.iter().flat_map(|read| &read.done);
    let window = window.filter(|window| done().any(|done| window.has(done.at)));
    let has = |done: &&Done| window.is_none_or(|window| window.has(done.at));
    let mut latencies: Vec<f64> = done().filter(has).map(|done| f64::from(done.seconds)).collect();
    latencies.sort_by(f64::total_cmp);
    let (count, all) = (latencies.len() as f64, done().count() as f64);
    let rate = |seconds: f64, count: f64, readers: f64| {
        let seconds = context.ruler.less(seconds, (count / readers) as u64);
        if count == 0.0 { 0.0 } else { count / seconds }
    };
    let rate = match window {
        Some(window) => {
            let seen = window.rate(done().map(|done| done.at));
            rate(count / seen, count, reads.len() as f64)
        }
        None => reads.iter().map(|read| rate(read.seconds, read.done.len() as f64, 1.0)).sum(),
    };
    let longest = reads.iter().map(|read| read.seconds).fold(0.0, f64::max);
    let share = count / all.max(1.0);
    let cores: f64 = reads.iter().map(|read| read.core_seconds).sum();
    Reads {
        rate,
        bytes: done().filter(has).map(|done| set.units[done.unit as usize].length).sum(),
        core_seconds: context.ruler.less(share * cores, latencies.len() as u64),
        waited: share * waited,
        window: window.map_or(longest, |window| window.to - window.from),
        latencies,
    }
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
pub(in crate::probe) fn drop_units(set: &Set) -> Result<(), ProbeError> {
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
pub(in crate::probe) fn impossible(set: &Set) -> Result<Vec<(Access, String)>, ProbeError> {
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
#[derive(Debug)]
pub struct Buffer {
    memory: Vec<u8>,
    from: usize,
    length: usize,
}

impl Buffer {
    /// Allocates room for `length` bytes, rounded up to whole blocks of 4 KiB.
    #[must_use]
    pub fn new(length: u64) -> Buffer {
        let length = length.next_multiple_of(ALIGNMENT) as usize;
        // Memory is filled with ones, so that its pages exist before anything is timed.
        let memory = vec![1; length + ALIGNMENT as usize];
        let from = memory.as_ptr().align_offset(ALIGNMENT as usize).min(ALIGNMENT as usize);
        Buffer { memory, from, length }
    }

    /// Returns the aligned bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.from..self.from + self.length]
    }
}
