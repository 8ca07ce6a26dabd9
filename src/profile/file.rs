//! Profiles in files: read whole, checked whole.

use super::{Profile, check};
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// Largest file that is read [B].
const LARGEST: u64 = 16 << 20;

/// Why a file is no profile.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub struct ProfileError {
    /// The file.
    pub file: String,
    /// All that is wrong with it.
    pub problems: Vec<ProfileProblem>,
}

/// One thing that is wrong with a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileProblem {
    /// Line, from 1; none where it is no matter of a line.
    pub line: Option<usize>,
    /// The key, as in `read.direct.parameters.latency`; empty if it is the whole file.
    pub key: String,
    /// What is wrong, read after the key.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let line = problem.line.map(|line| format!(":{line}")).unwrap_or_default();
            let key =
                if problem.key.is_empty() { String::new() } else { format!("`{}` ", problem.key) };
            let end = if index + 1 < self.problems.len() { "\n" } else { "" };
            let ProfileProblem { what, remedy, .. } = problem;
            write!(f, "{}{line}: {key}{what}; {remedy}{end}", self.file)?;
        }
        Ok(())
    }
}

impl Profile {
    /// Reads and checks a profile.
    ///
    /// # Errors
    /// If the file cannot be read, is larger than 16 MiB, is no TOML in UTF-8, has an unknown key,
    /// or a value that no fit has.
    pub fn open(path: &Path) -> Result<Profile, ProfileError> {
        let name = path.display().to_string();
        let failed = |(what, remedy): (String, &str)| problem(&name, None, what, remedy);
        let bytes = read(path).map_err(failed)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| failed(("is not text in UTF-8".to_owned(), "is this the right file?")))?;
        Profile::parse(&name, &text)
    }

    /// Reads and checks the text of a profile; `name` stands for it in messages.
    ///
    /// # Errors
    /// As [`Profile::open`].
    pub fn parse(name: &str, text: &str) -> Result<Profile, ProfileError> {
        let profile: Profile = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| line_of(text, span.start));
            let what = format!("cannot be used: {}", error.message().replace('\n', ", "));
            let remedy = "correct it, or write the profile anew with `forebay calibrate`";
            problem(name, line, what, remedy)
        })?;
        let mut problems = check::check(&profile);
        if problems.is_empty() {
            return Ok(profile);
        }
        for problem in &mut problems {
            problem.line = locate(text, &problem.key);
        }
        Err(ProfileError { file: name.to_owned(), problems })
    }
}

/// An error about the whole file or a line of it.
fn problem(file: &str, line: Option<usize>, what: String, remedy: &str) -> ProfileError {
    let problem = ProfileProblem { line, key: String::new(), what, remedy: remedy.to_owned() };
    ProfileError { file: file.to_owned(), problems: vec![problem] }
}

/// The bytes of a file, or what is wrong with a remedy.
fn read(path: &Path) -> Result<Vec<u8>, (String, &'static str)> {
    let failed = |error: std::io::Error| {
        let remedy = match error.kind() {
            ErrorKind::NotFound => "check the path, or write a profile with `forebay calibrate`",
            ErrorKind::PermissionDenied => "ask for permission to read it, or copy it",
            _ => "check the path",
        };
        (format!("cannot be read: {error}"), remedy)
    };
    // Opening a pipe that nobody writes to would wait for ever.
    let metadata = path.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(("is a directory".to_owned(), "name a file in it"));
    }
    if !metadata.is_file() {
        return Err((
            "is not a regular file".to_owned(),
            "name a file; write what comes through a pipe to one",
        ));
    }
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 {
        0 => Err(("is empty".to_owned(), "write a profile with `forebay calibrate`")),
        length if length > LARGEST => {
            Err((format!("holds more than {} MiB", LARGEST >> 20), "is this the right file?"))
        }
        _ => Ok(bytes),
    }
}

/// Line of a byte of a text, from 1.
fn line_of(text: &str, byte: usize) -> usize {
    text.get(..byte).unwrap_or(text).matches('\n').count() + 1
}

/// Line of a key, or of the nearest table around it that is there.
fn locate(text: &str, key: &str) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let mut table = root.get_ref();
    let mut found = None;
    for name in key.split('.') {
        let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref().as_ref() == name)
        else {
            break;
        };
        found = Some(line_of(text, key.span().start));
        let DeValue::Table(inner) = value.get_ref() else { break };
        table = inner;
    }
    found
}
