//! Why a command ends early, and with which exit code.

use super::interrupt;
use crate::input;
use crate::input::{cut_words, shown};
use crate::live;
use crate::probe::ProbeError;
use crate::report::Unfinished;
use crate::scenario::{Problems, printable};
use crate::validate::PredictError;
use rustix::io::Errno;
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

/// Errors of the operating system that no other argument mends: a full disk or quota, a limit on sizes of files, a device that
/// fails, no descriptor, no memory.
const LACKS: [Errno; 7] =
    [Errno::NOSPC, Errno::DQUOT, Errno::FBIG, Errno::IO, Errno::MFILE, Errno::NFILE, Errno::NOMEM];

impl Failure {
    /// Returns the failure that `path` cannot be written.
    pub fn unwritable(path: &Path, error: &io::Error) -> Failure {
        Failure::system(error, format!("cannot write {}: {}", shown(path), input::reason(error)))
    }

    /// Returns the failure that `path` cannot be read.
    pub fn unreadable(path: &Path, error: &io::Error) -> Failure {
        Failure::system(error, format!("cannot read {}: {}", shown(path), input::reason(error)))
    }

    /// Returns the failure that standard output cannot be written; a closed pipe gives [`Failure::ClosedPipe`], which is no
    /// error.
    pub fn stdout(error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => {
                let what = format!("cannot write standard output: {}", input::reason(error));
                Failure::system(error, what)
            }
        }
    }

    /// Returns the failure `what` that the operating system reports: the machine's if it lacks space, memory or descriptors or if a
    /// device fails, otherwise that of the path or file that was named.
    fn system(error: &io::Error, what: String) -> Failure {
        match error
            .raw_os_error()
            .is_some_and(|code| LACKS.map(Errno::raw_os_error).contains(&code))
        {
            true => Failure::Machine(what),
            false => Failure::Input(what),
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
            Failure::Problems(problems) => plain(&problems.render(colour)),
            Failure::Several(all) => {
                let each = all.iter().map(|one| one.message(colour));
                each.map(|message| message.trim_end().to_owned() + "\n").collect()
            }
            other => printable(&cut_words(&plain(&other.to_string()))),
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

/// How parsers say which type of this program they were to read, and what that is in a file.
const TYPES: [(&str, &str); 7] = [
    ("expected internally tagged enum ", "expected a table"),
    ("expected adjacently tagged enum ", "expected a table"),
    ("expected newtype struct ", "expected a value"),
    ("expected tuple struct ", "expected a list"),
    ("expected unit struct ", "expected nothing"),
    ("expected struct ", "expected a table"),
    ("expected enum ", "expected one of its words"),
];

/// How parsers say which kind of number they expected, and what it is in words.
const NUMBERS: [(&str, &str); 12] = [
    ("f64", "a number"),
    ("f32", "a number"),
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u64", "a whole number of at least 0"),
    ("usize", "a whole number of at least 0"),
    ("i8", "a whole number from -128 to 127"),
    ("i16", "a whole number from -32768 to 32767"),
    ("i32", "a whole number from -2147483648 to 2147483647"),
    ("i64", "a whole number"),
    ("isize", "a whole number"),
];

/// Returns a message without the names of types and the numbers of errors that libraries write into theirs.
pub(super) fn plain(message: &str) -> String {
    let mut text = message.to_owned();
    let name =
        |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    for (words, plain) in TYPES {
        while let Some(at) = text.find(words) {
            let end = at + words.len();
            text.replace_range(at..end + name(&text[end..]), plain);
        }
    }
    text = text.replace("unknown variant `", "unknown word `");
    for (of, plain) in NUMBERS {
        let words = format!("expected {of}");
        let ends = |at: &usize| name(&text[at + words.len()..]) == 0;
        let found: Vec<usize> = text.match_indices(&words).map(|(at, _)| at).filter(ends).collect();
        for at in found.into_iter().rev() {
            text.replace_range(at + "expected ".len()..at + words.len(), plain);
        }
    }
    while let Some(at) = text.find(" (os error ") {
        let Some(length) = text[at..].find(')') else { break };
        text.replace_range(at..=at + length, "");
    }
    // `DriverError(CUDA_ERROR_NO_DEVICE, "…")`
    while let Some(at) = text.find("Error(") {
        let begin = text[..at].rfind(|c: char| !c.is_alphanumeric()).map_or(0, |before| before + 1);
        text.replace_range(begin..at + "Error".len(), "");
    }
    text
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
    fn messages_have_no_names_of_types() {
        for (message, expected) in [
            (
                "invalid type: integer `5`, expected struct Sample at line 1",
                "invalid type: integer `5`, expected a table at line 1",
            ),
            ("expected internally tagged enum Kind", "expected a table"),
            (
                "invalid type: string \"\", expected f64\n",
                "invalid type: string \"\", expected a number\n",
            ),
            (
                "invalid value: integer `-1`, expected u64 at line 1 column 9",
                "invalid value: integer `-1`, expected a whole number of at least 0 at line 1 column 9",
            ),
            (
                "expected u8, expected u8",
                "expected a whole number from 0 to 255, expected a whole number from 0 to 255",
            ),
            ("expected u640 or i64x", "expected u640 or i64x"),
            ("unknown variant `a`, expected `b` or `c`", "unknown word `a`, expected `b` or `c`"),
            (
                "cannot: No such file or directory (os error 2); x",
                "cannot: No such file or directory; x",
            ),
            (
                "no start: DriverError(CUDA_ERROR_NO_DEVICE, \"none\")",
                "no start: (CUDA_ERROR_NO_DEVICE, \"none\")",
            ),
            ("as it is", "as it is"),
        ] {
            assert_eq!(plain(message), expected);
        }
    }

    #[test]
    fn a_full_disk_is_the_machines_failure_and_a_missing_folder_the_users() {
        let of = |code: Errno| {
            let error = io::Error::from_raw_os_error(code.raw_os_error());
            let all =
                [Failure::unwritable, Failure::unreadable].map(|make| make(Path::new("x"), &error));
            let codes = all.each_ref().map(Failure::exit_code);
            assert_eq!([codes[0]; 2], [codes[1], Failure::stdout(&error).exit_code()]);
            codes[0]
        };
        assert_eq!([Errno::NOSPC, Errno::DQUOT, Errno::FBIG, Errno::IO].map(of), [3; 4]);
        assert_eq!([Errno::NOENT, Errno::ACCESS, Errno::ISDIR, Errno::ROFS].map(of), [2; 4]);
    }

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
