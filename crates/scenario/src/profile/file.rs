//! Reads profiles from files, and checks all of their contents.

use super::{Profile, check};
use forebay_model::input::shown;
use forebay_model::input::{self, InputError};
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// Why a file cannot be used as a profile.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub struct ProfileError {
    /// Name of the file, for messages.
    pub file: String,
    /// All problems of the file.
    pub problems: Vec<ProfileProblem>,
}

/// One thing that is wrong with a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileProblem {
    /// Line number, from 1; `None` if the problem is not about a line.
    pub line: Option<usize>,
    /// The key, as in `read.direct.parameters.latency`; empty if the problem is about the whole file.
    pub key: String,
    /// What is wrong, in words that follow the key in a sentence.
    pub what: String,
    /// How to correct the problem.
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
    /// If the file cannot be read, is larger than 16 MiB, is no TOML in UTF-8, has an unknown key, or has a value
    /// that no fit can have.
    pub fn open(path: &Path) -> Result<Profile, ProfileError> {
        let (name, text) = contents(path)?;
        Profile::parse(&name, &text)
    }

    /// Reads and checks the description of a machine in a profile; returns a profile without fits. The file's fits need not be
    /// valid.
    ///
    /// # Errors
    /// As [`Profile::open`], fits left aside.
    pub fn open_machine(path: &Path) -> Result<Profile, ProfileError> {
        let (name, text) = contents(path)?;
        let Profile { provenance, host, .. } = structure(&name, &text)?;
        checked(Profile { provenance, host, ..Profile::default() }, &name, &text)
    }

    /// Reads and checks the text of a profile; `name` stands for it in messages.
    ///
    /// # Errors
    /// As [`Profile::open`].
    pub fn parse(name: &str, text: &str) -> Result<Profile, ProfileError> {
        checked(structure(name, text)?, name, text)
    }
}

/// Returns the name of a file for messages, and its text.
fn contents(path: &Path) -> Result<(String, String), ProfileError> {
    let name = shown(path);
    let text = read(path).map_err(|(what, remedy)| problem(&name, None, what, &remedy))?;
    Ok((name, text))
}

/// Returns the profile in `text`, whose values are not checked.
fn structure(name: &str, text: &str) -> Result<Profile, ProfileError> {
    input::check_toml(text).map_err(|error| {
        problem(name, None, format!("cannot be used: {error}"), &error.remedy())
    })?;
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| line_of(text, span.start));
        let what = format!("cannot be used: {}", error.message().replace('\n', ", "));
        let remedy = "correct it, or write the profile anew with `forebay calibrate`";
        problem(name, line, what, remedy)
    })
}

/// Returns the profile if all its values are possible.
fn checked(profile: Profile, name: &str, text: &str) -> Result<Profile, ProfileError> {
    let mut problems = check::check(&profile);
    if problems.is_empty() {
        return Ok(profile);
    }
    for problem in &mut problems {
        problem.line = locate(text, &problem.key);
    }
    Err(ProfileError { file: name.to_owned(), problems })
}

/// Returns an error with one problem, about the whole file or a line of it.
fn problem(file: &str, line: Option<usize>, what: String, remedy: &str) -> ProfileError {
    let problem = ProfileProblem { line, key: String::new(), what, remedy: remedy.to_owned() };
    ProfileError { file: file.to_owned(), problems: vec![problem] }
}

/// Returns the text of a file; if the file cannot be used, returns what is wrong, and a remedy.
fn read(path: &Path) -> Result<String, (String, String)> {
    let anew = "or write a profile with `forebay calibrate`";
    let failed = |error: InputError| match &error {
        InputError::System(system) if system.kind() == ErrorKind::IsADirectory => {
            ("is a directory".to_owned(), "name a file in it".to_owned())
        }
        InputError::System(system) if system.kind() == ErrorKind::NotFound => {
            (format!("cannot be read: {system}"), format!("check the path, {anew}"))
        }
        InputError::System(system) => (format!("cannot be read: {system}"), error.remedy()),
        _ => (format!("cannot be used: {error}"), error.remedy()),
    };
    let text = input::text(path, input::WRITTEN).map_err(failed)?;
    if text.is_empty() {
        return Err(("is empty".to_owned(), "write a profile with `forebay calibrate`".to_owned()));
    }
    Ok(text)
}

/// Returns the line number of a byte of a text, from 1.
fn line_of(text: &str, byte: usize) -> usize {
    text.get(..byte).unwrap_or(text).matches('\n').count() + 1
}

/// Returns the line number of a key. If the text lacks the key, returns the line of the innermost table around it;
/// `None` if the text lacks that table too.
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
