//! Why a probe ends early.

use forebay_model::input::{self, InputError};
use std::io;
use std::path::{Path, PathBuf};

/// Why a probe ends early; the message is shown after "forebay: ".
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A file or directory cannot be used.
    #[error("cannot {doing} {}: {}{}", input::shown(path), input::reason(source), remedy(source))]
    File {
        /// Verb for the operation that failed: `read`, `write`, `make`.
        doing: &'static str,
        /// File or directory that cannot be used.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A directory for working files cannot be used.
    #[error(
        "cannot use the directory {}: {}{}",
        input::shown(directory),
        input::reason(source),
        directory_remedy(source)
    )]
    Directory {
        /// The directory that the user named, or the usual one.
        directory: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file of the results cannot be written.
    #[error(
        "cannot write {}: {}{}",
        input::shown(path),
        input::reason(source),
        results_remedy(source)
    )]
    Results {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file became shorter while it was being measured.
    #[error(
        "{} ends at byte {found}, where {expected} bytes were expected: it was cut while it was \
         being measured; start again when nobody writes there",
        input::shown(path)
    )]
    Truncated {
        /// Path of the file.
        path: PathBuf,
        /// Size when the probe first looked [B].
        expected: u64,
        /// Size of the file now [B].
        found: u64,
    },
    /// The file system has too little free space.
    #[error(
        "{} has {:.1} MB free, but {:.1} MB are needed: free some space, name another --directory, or \
         lower `disk` in the plan",
        input::shown(directory), *free as f64 / 1e6, *needed as f64 / 1e6
    )]
    Space {
        /// Directory that needs the space.
        directory: PathBuf,
        /// Space needed, including a margin [B].
        needed: u64,
        /// Free space [B].
        free: u64,
    },
    /// The operating system refuses to start more threads.
    #[error(
        "cannot start {threads} threads: {}; write smaller numbers of threads in the plan, or raise `ulimit -u`",
        input::reason(source)
    )]
    Threads {
        /// Number of threads asked for.
        threads: usize,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The machine lacks something that the probe needs, or a part of the machine fails; the text names it.
    #[error("{0}")]
    Machine(String),
    /// The probe's time ended before its first trial.
    #[error("the probe used up its time during preparation: write a longer `budget` in the plan")]
    Time,
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
}

impl ProbeError {
    /// Returns a function for `map_err` that turns an I/O error into [`ProbeError::File`]: `doing` (such as
    /// `read`) failed on `path`.
    pub fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ProbeError {
        let path = path.to_owned();
        move |source| ProbeError::File { doing, path, source }
    }

    /// Returns a function for `map_err` that turns an I/O error into [`ProbeError::Directory`].
    pub(super) fn directory(directory: &Path) -> impl Fn(io::Error) -> ProbeError {
        move |source| ProbeError::Directory { directory: directory.to_owned(), source }
    }

    /// Returns a function for `map_err` that turns an I/O error into [`ProbeError::Results`].
    pub(super) fn results(path: &Path) -> impl Fn(io::Error) -> ProbeError {
        move |source| ProbeError::Results { path: path.to_owned(), source }
    }

    /// Returns whether the directory for working files is not there, no directory or not to be written, so that only another
    /// directory helps.
    #[must_use]
    pub fn is_wrong_directory(&self) -> bool {
        let ProbeError::Directory { source, .. } = self else { return false };
        matches!(
            source.kind(),
            io::ErrorKind::NotFound
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::ReadOnlyFilesystem
        )
    }

    /// Returns the error that the file `path` cannot be read or is refused, for example because it is too
    /// large.
    pub fn input(path: &Path, error: InputError) -> ProbeError {
        match error {
            InputError::System(source) => ProbeError::file("read", path)(source),
            other => ProbeError::Machine(format!(
                "cannot read {}: {other}; {}",
                input::shown(path),
                other.remedy()
            )),
        }
    }
}

/// Returns the remedy that ends a message about a directory that cannot be used.
fn directory_remedy(error: &io::Error) -> &'static str {
    match is_full(error) {
        true => "; free some space there, or name another --directory",
        false => "; name another --directory",
    }
}

/// Returns the remedy that ends a message about results that cannot be written.
fn results_remedy(error: &io::Error) -> &'static str {
    match is_full(error) {
        true => "; free some space there, or name another --output",
        false => "; name another --output",
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Returns what the user can do about an I/O error, as the end of a message.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; was it removed while it was being measured?",
        io::ErrorKind::PermissionDenied => "; ask for permission, or name another directory",
        io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory | io::ErrorKind::Unsupported => {
            "; was something else put in its place while it was being measured?"
        }
        io::ErrorKind::StaleNetworkFileHandle => {
            "; the file server has removed or replaced it: start again, and mount the file system anew if \
             that does not help"
        }
        io::ErrorKind::ReadOnlyFilesystem => "; name another --directory",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "; free some space, name another --directory, or lower `disk` in the plan"
        }
        _ => "; is the disk or the mount in order? `dmesg` may say more",
    }
}
