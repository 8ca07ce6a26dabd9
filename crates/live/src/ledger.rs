//! Where the books of a storage are kept: in this process, or in a file that several write in turn.

use super::Failure;
use super::books::Books;
use rustix::fs::{FlockOperation, MemfdFlags, flock, memfd_create};
use rustix::io::{pread, pwrite, retry_on_intr};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Longest books that are read at once [B]; longer ones take another read.
const USUAL: usize = 4096;

/// A file in memory that other processes reach as long as this value lives; nothing stays behind.
#[derive(Debug)]
pub(super) struct Common(OwnedFd);

impl Common {
    /// An empty one.
    pub(super) fn new() -> Result<Common, Failure> {
        let made = memfd_create("forebay-books", MemfdFlags::CLOEXEC);
        let fail = |error| Failure::Lacking(format!("cannot share limits between jobs: {error}"));
        made.map(Common).map_err(fail)
    }

    /// How another process of this user finds it.
    pub(super) fn path(&self) -> PathBuf {
        let (process, file) = (std::process::id(), self.0.as_raw_fd());
        PathBuf::from(format!("/proc/{process}/fd/{file}"))
    }
}

/// The books, one writer at a time.
#[derive(Debug)]
pub(super) struct Ledger(Mutex<Pages>);

#[derive(Debug)]
struct Pages {
    books: Books,
    /// Where they are shared with other processes.
    file: Option<File>,
    bytes: Vec<u8>,
}

impl Ledger {
    /// Empty books of this process, or those at the path that [`Common::path`] gave.
    pub(super) fn open(shared: Option<&Path>) -> Result<Ledger, Failure> {
        let open = |path: &Path| {
            let opened = File::options().read(true).write(true).open(path);
            opened.map_err(|error| Failure::file("open", path, error))
        };
        let file = shared.map(open).transpose()?;
        Ok(Ledger(Mutex::new(Pages { books: Books::default(), file, bytes: vec![0; USUAL] })))
    }

    /// Changes the books while nobody else does.
    pub(super) fn write<R>(&self, change: impl FnOnce(&mut Books) -> R) -> R {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Pages { books, file, bytes } = &mut *pages;
        let Some(file) = file else { return change(books) };
        // A file in memory takes locks, reads and writes as long as there is memory; without, the
        // processes have books of their own for a moment.
        retry_on_intr(|| flock(&*file, FlockOperation::LockExclusive)).ok();
        if let Some(length) = read(file, bytes) {
            *books = Books::decode(&bytes[..length]);
        }
        let result = change(books);
        books.encode(bytes);
        retry_on_intr(|| pwrite(&*file, bytes, 0)).ok();
        flock(&*file, FlockOperation::Unlock).ok();
        result
    }
}

/// Reads all of the file; `None` if that fails.
fn read(file: &File, bytes: &mut Vec<u8>) -> Option<usize> {
    bytes.resize(bytes.capacity().max(USUAL), 0);
    loop {
        let length = retry_on_intr(|| pread(file, &mut bytes[..], 0)).ok()?;
        if length < bytes.len() {
            return Some(length);
        }
        bytes.resize(2 * length, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_engine::Time;

    #[test]
    fn ledgers_at_the_same_path_are_one() {
        let common = Common::new().expect("a file in memory");
        let ledgers: Vec<Ledger> =
            (0..4).map(|_| Ledger::open(Some(&common.path())).expect("a ledger")).collect();
        std::thread::scope(|threads| {
            for ledger in &ledgers {
                threads.spawn(move || {
                    (0..500).for_each(|_| {
                        ledger.write(|books| books.operate(Time::ZERO, 1e3));
                    });
                });
            }
        });
        let end = ledgers[0].write(|books| books.operate(Time::ZERO, 1e3));
        assert!((end.seconds() - 2.001).abs() < 1e-9, "{}", end.seconds());
        let alone = Ledger::open(None).expect("a ledger");
        let end = alone.write(|books| books.operate(Time::ZERO, 1e3));
        assert!((end.seconds() - 0.001).abs() < 1e-9, "no books but its own");
    }
}
