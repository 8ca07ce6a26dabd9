//! Files on the shared storage: written by one rank, read by another, so that no cache of the reading node holds them.

use super::{Worker, threads};
use crate::message::{Files, Found, FromRank, Timing};
use forebay_calibrate::probe::read::{Buffer, Window, open_data};
use forebay_engine::stats::quantile;
use forebay_model::input::shown;
use forebay_model::random::{Purpose, Streams};
use rand::Rng;
use rand::seq::SliceRandom;
use rustix::fs::{Advice, CWD, fadvise};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Remedy for a file that another node does not see.
const SHARED: &str = "is it on storage that all nodes mount? --directory names another place";
/// Bytes of a write [B].
const BLOCK: usize = 1 << 20;
/// Alignment of direct reads [B].
const ALIGNMENT: u64 = 4096;

/// Returns the path of file number `index` of those of one size in a folder.
#[must_use]
pub(crate) fn path_of(folder: &Path, size: u64, index: u64) -> PathBuf {
    folder.join(size.to_string()).join(index.to_string())
}

/// Returns the message of an operation that failed.
fn failed<'a>(doing: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> String + 'a {
    move |error| {
        let remedy = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "; free some space there, name another --directory, or lower `disk` in the plan"
            }
            _ => "",
        };
        format!("cannot {doing} {}: {error}{remedy}", shown(path))
    }
}

/// Writes files of random bytes, which no file system can compress, and waits until they are stored.
pub(super) fn write(
    worker: &Worker,
    folder: &Path,
    sizes: &[(u64, u64)],
    seed: u64,
) -> Result<Found, String> {
    // An earlier attempt may have been cut off.
    remove(folder)?;
    fs::create_dir_all(folder).map_err(failed("make", folder))?;
    let begin = Instant::now();
    let (mut bytes, mut number) = (0, 0);
    let mut block = vec![0; BLOCK];
    for (size, count) in sizes {
        let of_size = folder.join(size.to_string());
        fs::create_dir(&of_size).map_err(failed("make", &of_size))?;
        for index in 0..*count {
            if worker.stopped() {
                return Err("interrupted".to_owned());
            }
            number += 1;
            let mut random = Streams::new(seed, 0).at(Purpose::Trial, u64::MAX, number, 0);
            let path = path_of(folder, *size, index);
            let mut file = File::create_new(&path).map_err(failed("write", &path))?;
            let mut left = *size;
            while left > 0 {
                let now = left.min(BLOCK as u64) as usize;
                random.fill_bytes(&mut block[..now]);
                file.write_all(&block[..now]).map_err(failed("write", &path))?;
                left -= now as u64;
            }
            file.sync_data().map_err(failed("write", &path))?;
            // The cache of the node that wrote a file would otherwise serve its own later reads.
            fadvise(&file, 0, None, Advice::DontNeed).ok();
            bytes += size;
            worker.to.send(&FromRank::Going).ok();
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    Ok(Found { count: bytes as f64, rate: bytes as f64 / seconds, seconds, ..Found::default() })
}

/// Waits until a file of this size can be read: file servers show what other nodes wrote only after a while.
pub(super) fn look(path: &Path, size: u64, patience: f64) -> Result<Found, String> {
    let begin = Instant::now();
    loop {
        let found = open_data(CWD, path, false).and_then(|file| {
            let length = file.metadata()?.len();
            file.read_exact_at(&mut [0], 0)?;
            Ok(length)
        });
        let seconds = begin.elapsed().as_secs_f64();
        match found {
            Ok(length) if length == size => return Ok(Found { seconds, ..Found::default() }),
            Ok(length) if seconds > patience => {
                return Err(format!(
                    "{} has {length} B here instead of {size} B; {SHARED}",
                    shown(path)
                ));
            }
            Err(error) if seconds > patience => {
                return Err(format!("cannot read {}: {error}; {SHARED}", shown(path)));
            }
            _ => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// How files are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub(super) streams: usize,
    pub(super) direct: bool,
    pub(super) only_open: bool,
    pub(super) seed: u64,
}

/// Requests of a stream: when each was complete, how long it took, and its bytes.
type Done = Vec<(f64, f64, u64)>;

/// Reads whole files in random order; each stream reads one after the other. Returns the figures of the window.
pub(super) fn read(
    worker: &Worker,
    files: &Files,
    how: How,
    timing: Timing,
) -> Result<Found, String> {
    let mut all: Vec<(PathBuf, u64)> = match files {
        Files::Written { folder, size, count } => {
            (0..*count).map(|index| (path_of(folder, *size, index), *size)).collect()
        }
        Files::Own(files) => files.clone(),
    };
    if all.is_empty() {
        return Err("there is no file to read".to_owned());
    }
    all.shuffle(&mut Streams::new(how.seed, 0).at(Purpose::Trial, 0, 0, 1));
    let largest = all.iter().map(|(_, size)| *size).max().unwrap_or(0);
    let end = timing.start + timing.skip + timing.length;
    let late = worker.clock.wait(timing.start);
    let one = |number: usize| {
        let mut buffer = Buffer::new(if how.only_open { 0 } else { largest });
        let mut done: Done = Vec::new();
        let mine = all.iter().cycle().skip(number % all.len()).step_by(how.streams);
        for (path, size) in mine {
            let begin = worker.clock.now();
            let got = match how.only_open {
                true => open_data(CWD, path, how.direct).map(|_| 0),
                false => whole(path, *size, how.direct, &mut buffer),
            };
            got.map_err(failed("read", path))?;
            let now = worker.clock.now();
            done.push((now, now - begin, *size));
            if now > end || worker.stopped() {
                break;
            }
        }
        Ok(done)
    };
    let done: Vec<Done> = threads(how.streams, one)?;
    let window = Window { from: timing.start + timing.skip, to: end };
    counted(&done.concat(), window, late)
}

/// Returns the figures of the requests in the window. Of a request that lies partly in the window, that share is counted: with few, long
/// requests, the number of those that end in the window would be far off.
fn counted(done: &Done, window: Window, late: f64) -> Result<Found, String> {
    let share = |(end, seconds, _): &(f64, f64, u64)| {
        let inside = end.min(window.to) - (end - seconds).max(window.from);
        if *seconds > 0.0 {
            (inside / seconds).clamp(0.0, 1.0)
        } else {
            f64::from(window.has(*end))
        }
    };
    let shares: Vec<f64> = done.iter().map(share).collect();
    let (count, length) = (shares.iter().sum::<f64>(), window.to - window.from);
    let inside = || done.iter().zip(&shares).filter(|(_, share)| **share > 0.0);
    let mut latencies: Vec<f64> = inside().map(|((_, seconds, _), _)| *seconds).collect();
    if latencies.is_empty() {
        return Err(format!("no request was under way in the {length:.1} s that count"));
    }
    latencies.sort_by(f64::total_cmp);
    let bytes: f64 = inside().map(|((_, _, size), share)| *size as f64 * share).sum();
    let weighted: f64 = inside().map(|((_, seconds, _), share)| seconds * share).sum();
    let figures = [
        ("latency_mean", weighted / count),
        ("latency_p50", quantile(&latencies, 0.5).unwrap_or(0.0)),
        ("latency_p99", quantile(&latencies, 0.99).unwrap_or(0.0)),
        ("bytes", bytes),
    ];
    let figures = figures.map(|(name, value)| (name.to_owned(), value)).into();
    Ok(Found { count, rate: count / length, seconds: length, late, figures, lines: Vec::new() })
}

/// Reads a whole file; returns its size [B].
fn whole(path: &Path, size: u64, direct: bool, buffer: &mut Buffer) -> io::Result<u64> {
    let file = open_data(CWD, path, direct)?;
    if !direct {
        fadvise(&file, 0, None, Advice::DontNeed).ok();
    }
    let asked = if direct { size.next_multiple_of(ALIGNMENT) } else { size };
    let target = &mut buffer.bytes()[..asked as usize];
    let mut got = 0;
    while got < size {
        match file.read_at(&mut target[got as usize..], got) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => got += count as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

/// Writes a file of `bytes` with each stream, and waits until all are stored.
pub(super) fn checkpoint(
    worker: &Worker,
    folder: &Path,
    streams: usize,
    bytes: u64,
    start: f64,
) -> Result<Found, String> {
    fs::create_dir_all(folder).map_err(failed("make", folder))?;
    // Random bytes, which no file system can compress.
    let mut block = vec![0; BLOCK];
    Streams::new(streams as u64, 0).at(Purpose::Trial, u64::MAX, 0, 2).fill_bytes(&mut block);
    let late = worker.clock.wait(start);
    let one = |number: usize| {
        let path = folder.join(format!("checkpoint-{number}"));
        let stored = File::create(&path).and_then(|mut file| {
            let mut left = bytes;
            while left > 0 && !worker.stopped() {
                let now = left.min(BLOCK as u64) as usize;
                file.write_all(&block[..now])?;
                left -= now as u64;
            }
            file.sync_data()
        });
        let ended = worker.clock.now();
        fs::remove_file(&path).ok();
        stored.map_err(failed("write", &path)).map(|()| ended)
    };
    let ended = threads(streams, one)?.into_iter().fold(start, f64::max);
    let (count, seconds) = ((bytes * streams as u64) as f64, ended - start);
    Ok(Found { count, rate: count / seconds, seconds, late, ..Found::default() })
}

/// Removes a folder with working files.
pub(super) fn remove(folder: &Path) -> Result<Found, String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("remove", folder)(error)),
        _ => Ok(Found::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// System: two threads whose requests take 0.4 s each, out of step; a window of 1 s, which is no multiple of that. Expectation: five
    /// requests a second, whatever the begin of the window, and latencies of 0.4 s.
    #[test]
    fn requests_at_the_edges_of_a_window_count_in_part() {
        let of = |phase: f64| (0..20).map(move |n| (phase + 0.4 * f64::from(n + 1), 0.4, 100_u64));
        let done: Done = of(0.0).chain(of(0.13)).collect();
        for begin in [1.0, 1.07, 1.2, 1.39] {
            let found = counted(&done, Window { from: begin, to: begin + 1.0 }, 0.0).unwrap();
            assert!((found.rate - 5.0).abs() < 1e-9, "{begin}: {}", found.rate);
            assert!((found.figures["bytes"] - 500.0).abs() < 1e-6);
            assert!((found.figures["latency_mean"] - 0.4).abs() < 1e-9);
        }
        assert!(counted(&done, Window { from: 90.0, to: 91.0 }, 0.0).is_err());
    }

    #[test]
    fn files_that_one_rank_wrote_are_waited_for_and_read_by_another() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let (late, writer) = (path.clone(), std::time::Duration::from_millis(300));
        let missing = look(&path, 3, 0.0).unwrap_err();
        assert!(missing.contains("cannot read"), "{missing}");
        std::thread::spawn(move || {
            std::thread::sleep(writer);
            fs::write(late, "abc").unwrap();
        });
        assert!(look(&path, 3, 10.0).unwrap().seconds >= 0.2);
        assert!(look(&path, 4, 0.0).unwrap_err().contains("has 3 B here instead of 4 B"));
    }
}
