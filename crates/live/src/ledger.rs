//! Where the state of a storage's limits is kept: in this process, or in a file that several processes update in turn.

use super::books::Books;
use super::fault::Failure;
use rustix::fs::{FlockOperation, MemfdFlags, flock, memfd_create};
use rustix::io::{pread, pwrite, retry_on_intr};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Size of a state that one read covers [B]; a larger state needs another read.
const USUAL: usize = 4096;

/// A file in memory that other processes can open while this value lives; nothing is left behind.
#[derive(Debug)]
pub(super) struct Common(OwnedFd);

impl Common {
    /// Returns an empty file.
    pub(super) fn new() -> Result<Common, Failure> {
        let made = memfd_create("forebay-books", MemfdFlags::CLOEXEC);
        let fail = |error| {
            Failure::Lacking(format!(
                "cannot create the file in memory for storage limits that jobs share: {error}"
            ))
        };
        made.map(Common).map_err(fail)
    }

    /// Returns the path by which another process of this user can open the file.
    pub(super) fn path(&self) -> PathBuf {
        let (process, file) = (std::process::id(), self.0.as_raw_fd());
        PathBuf::from(format!("/proc/{process}/fd/{file}"))
    }
}

/// The state of a storage's limits; one thread at a time changes it.
#[derive(Debug)]
pub(super) struct Ledger(Mutex<Pages>);

#[derive(Debug)]
struct Pages {
    books: Books,
    /// File that other processes share; `None` if the state is private to this process.
    file: Option<File>,
    bytes: Vec<u8>,
}

impl Ledger {
    /// Returns an empty state that is private to this process, or the shared state at a path that [`Common::path`] gave.
    pub(super) fn open(shared: Option<&Path>) -> Result<Ledger, Failure> {
        let open = |path: &Path| {
            let opened = File::options().read(true).write(true).open(path);
            opened.map_err(|error| Failure::file("open", path, error))
        };
        let file = shared.map(open).transpose()?;
        Ok(Ledger(Mutex::new(Pages { books: Books::default(), file, bytes: vec![0; USUAL] })))
    }

    /// Changes the state while no other thread or process does.
    pub(super) fn write<R>(&self, change: impl FnOnce(&mut Books) -> R) -> R {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Pages { books, file, bytes } = &mut *pages;
        let Some(file) = file else { return change(books) };
        // Operations on a file in memory fail only if memory is exhausted. Then the processes use separate states for a moment.
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

/// Reads the whole file; `None` if that fails.
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
    fn ledgers_at_the_same_path_share_their_state() {
        let common = Common::new().expect("a file in memory");
        let ledgers: Vec<Ledger> =
            (0..4).map(|_| Ledger::open(Some(&common.path())).expect("a ledger")).collect();
        std::thread::scope(|threads| {
            for ledger in &ledgers {
                threads.spawn(move || {
                    (0..500).for_each(|_| {
                        ledger.write(|books| books.operate(Time::ZERO, 1e3, None));
                    });
                });
            }
        });
        let end = ledgers[0].write(|books| books.operate(Time::ZERO, 1e3, None));
        assert!((end.seconds() - 2.001).abs() < 1e-9, "{}", end.seconds());
        let alone = Ledger::open(None).expect("a ledger");
        let end = alone.write(|books| books.operate(Time::ZERO, 1e3, None));
        assert!((end.seconds() - 0.001).abs() < 1e-9, "no books but its own");
    }
}
