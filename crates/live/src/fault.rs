//! Why live runs fail; and what the operating system reports for files, each with a remedy.

use forebay_model::input::{self, shown};
use std::io::{Error, ErrorKind};
use std::path::Path;

/// Why a live run could not start or finish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The user's input is invalid.
    #[error("{0}")]
    Input(String),
    /// The machine lacks something that the scenario needs, or failed.
    #[error("{0}")]
    Lacking(String),
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    /// Returns the failure to report if the system refuses to start the threads or the process of `what`.
    pub fn threads(what: &str, error: &Error) -> Failure {
        Failure::Lacking(format!(
            "cannot start threads for {what}: {}; raise `ulimit -u`, or write fewer workers or `copies`",
            input::words(error)
        ))
    }

    /// Returns the failure to report if an operation on `path` fails; `what` names the operation, such as `open` or `read`.
    pub(super) fn file(what: &str, path: &Path, error: impl Into<Error>) -> Failure {
        Failure::Lacking(format!("cannot {what} {}: {}", shown(path), words(&error.into())))
    }
}

/// Returns the reason why a file cannot be used, without the error number, and a remedy.
pub(super) fn words(error: &Error) -> String {
    let words = input::words(error);
    let remedy = match error.kind() {
        ErrorKind::NotFound => {
            "was it removed, or is it a link to nothing? put it back, or remove the link"
        }
        ErrorKind::PermissionDenied => "ask for permission to read it, or copy the data set",
        ErrorKind::IsADirectory | ErrorKind::NotADirectory | ErrorKind::Unsupported => {
            "was something else put in its place? start again when nobody writes there"
        }
        ErrorKind::StaleNetworkFileHandle => {
            "the file server has removed or replaced it: start again, and mount the file system anew if that \
             does not help"
        }
        ErrorKind::ReadOnlyFilesystem => "name another --directory",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "free some space, name another --directory, or write fewer samples"
        }
        _ => "is the disk or the mount in order? `dmesg` may say more",
    };
    let lower = words.chars().take(1).flat_map(char::to_lowercase);
    format!("{}; {remedy}", lower.chain(words.chars().skip(1)).collect::<String>())
}
