//! Why a command ends early, and with which exit code.

use super::interrupt;
use crate::input;
use crate::input::{cut_words, shown};
use crate::live;
use crate::probe::ProbeError;
use crate::report::Unfinished;
use crate::scenario::{Problems, printable};
use crate::validate::PredictError;
use std::io;
use std::path::Path;

/// Why a command ends early.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An argument, option or file of the user cannot be used.
    #[error("forebay: {0}")]
    Input(String),
    /// The scenario has problems.
    #[error("{0}")]
    Problems(#[from] Problems),
    /// The machine lacks something that the command needs.
    #[error("forebay: {0}")]
    Machine(String),
    /// A check failed, such as the tolerance of `validate`.
    #[error("forebay: {0}")]
    Check(String),
    /// Ctrl-C or a termination signal ended the command; the text says which results were kept.
    #[error("forebay: interrupted: {0}")]
    Interrupted(String),
    /// Several independent failures, at least one.
    #[error("")]
    Several(Vec<Failure>),
    /// The reader of standard output has closed the pipe.
    #[error("")]
    ClosedPipe,
}

impl Failure {
    /// Returns the failure that `path` cannot be written.
    pub fn unwritable(path: &Path, error: &io::Error) -> Failure {
        Failure::Input(format!("cannot write {}: {}", shown(path), input::reason(error)))
    }

    /// Returns the failure that `path` cannot be read.
    pub fn unreadable(path: &Path, error: &io::Error) -> Failure {
        Failure::Input(format!("cannot read {}: {}", shown(path), input::reason(error)))
    }

    /// Returns the failure that standard output cannot be written; a closed pipe gives [`Failure::ClosedPipe`], which is no
    /// error.
    pub fn stdout(error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::Input(format!("cannot write standard output: {}", input::reason(error))),
        }
    }

    /// Returns the exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::ClosedPipe => 0,
            Failure::Input(_) | Failure::Problems(_) => 2,
            Failure::Check(_) => 1,
            Failure::Several(all) => all.iter().map(Failure::exit_code).max().unwrap_or(2),
            Failure::Machine(_) => 3,
            Failure::Interrupted(_) => interrupt::CODE,
        }
    }

    /// Returns the text for the user; empty for a closed pipe. Control characters, which names from files may contain, are
    /// escaped.
    pub fn message(&self, colour: bool) -> String {
        match self {
            Failure::Problems(problems) => problems.render(colour),
            Failure::Several(all) => {
                let each = all.iter().map(|one| one.message(colour));
                each.map(|message| message.trim_end().to_owned() + "\n").collect()
            }
            other => printable(&cut_words(&other.to_string())),
        }
    }

    /// Combines `failures` into one; returns `Ok` if there are none.
    pub(super) fn all(mut failures: Vec<Failure>) -> Result<(), Failure> {
        match failures.len() {
            0 => Ok(()),
            1 => failures.pop().map_or(Ok(()), Err),
            _ => Err(Failure::Several(failures)),
        }
    }

    /// Appends to the message what was saved before the failure.
    pub(super) fn keeping(self, kept: &str) -> Failure {
        match self {
            Failure::Input(what) => Failure::Input(format!("{}; {kept}", what.trim_end())),
            Failure::Machine(what) => Failure::Machine(format!("{what}; {kept}")),
            other => other,
        }
    }
}

impl From<ProbeError> for Failure {
    fn from(error: ProbeError) -> Failure {
        Failure::Machine(error.to_string())
    }
}

impl From<Unfinished> for Failure {
    fn from(unfinished: Unfinished) -> Failure {
        Failure::Input(format!("cannot run the scenario: {unfinished}"))
    }
}

impl From<PredictError> for Failure {
    fn from(error: PredictError) -> Failure {
        match error {
            PredictError::Problems(problems) => problems.into(),
            PredictError::Unfinished(unfinished) => unfinished.into(),
        }
    }
}

impl From<live::Failure> for Failure {
    fn from(failure: live::Failure) -> Failure {
        match failure {
            live::Failure::Input(what) => Failure::Input(what),
            live::Failure::Lacking(what) => Failure::Machine(what),
            live::Failure::Interrupted => {
                Failure::Interrupted("no replication was finished".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::EXIT_CODES;

    #[test]
    fn the_exit_codes_of_all_failures_are_exactly_the_documented_exit_codes() {
        // System: a failure of each kind, and success. Expectation: their codes are those that help and reference list.
        let of = |failure: Failure| failure.exit_code();
        let text = || "what".to_owned();
        let codes = [
            0,
            of(Failure::ClosedPipe),
            of(Failure::Check(text())),
            of(Failure::Input(text())),
            of(Failure::Several(Vec::new())),
            of(Failure::Machine(text())),
            of(Failure::Interrupted(text())),
        ];
        let listed: Vec<u8> = EXIT_CODES.iter().map(|of| of.code).collect();
        assert!(codes.iter().all(|code| listed.contains(code)), "{codes:?}");
        assert!(listed.iter().all(|code| codes.contains(code)), "{listed:?}");
    }
}
