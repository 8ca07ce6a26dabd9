//! Files and standard output: whole or not at all, and quiet when nobody listens.

use super::Failure;
use crate::cli::ReportFormat;
use crate::report::{self, Report};
use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Whether to colour what goes to `stream`.
pub(super) fn colour(stream: &impl IsTerminal) -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let dumb = set("TERM").is_some_and(|term| term == "dumb");
    set("NO_COLOR").is_none() && !dumb && stream.is_terminal()
}

/// Columns of the terminal; 100 where there is none.
pub(super) fn width() -> usize {
    width_or(100)
}

/// Columns of the terminal, or so many where there is none. `COLUMNS` wins.
pub(super) fn width_or(usual: usize) -> usize {
    let written = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let asked = || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col.into());
    let sensible = |columns: &usize| (40..=400).contains(columns);
    written.filter(sensible).or_else(|| asked().filter(sensible)).unwrap_or(usual)
}

/// Writes all of `bytes` to standard output.
pub(super) fn stdout(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| Failure::stdout(&error))
}

/// Puts a report where it is wanted. Warnings are part of its JSON, whose readers look for what they want;
/// as text they are left out for those who want none.
pub(super) fn report(
    report: &Report,
    (format, path): (ReportFormat, Option<&Path>),
    quiet: bool,
) -> Result<(), Failure> {
    let colour = path.is_none() && colour(&io::stdout());
    let text = match format {
        ReportFormat::Json => report::json::render(report),
        ReportFormat::Text if quiet => {
            let without = Report { warnings: Vec::new(), ..report.clone() };
            report::text::render(&without, width(), colour)
        }
        ReportFormat::Text => report::text::render(report, width(), colour),
    };
    match path {
        Some(path) => file(path, |to| to.write_all(text.as_bytes())),
        None => stdout(text.as_bytes()),
    }
}

/// Prints a warning, or nothing if nobody wants it or reads it.
pub(super) fn warn(quiet: bool, message: &str) {
    if !quiet {
        say(&format!("forebay: {message}"));
    }
}

/// Prints to standard error; where that is closed, nobody can be told.
pub(super) fn say(message: &str) {
    if !message.is_empty() {
        writeln!(io::stderr(), "{}", message.trim_end()).ok();
    }
}

/// Refuses early what cannot be written later: the work before it would be lost.
pub(super) fn check(path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let parent = directory_of(path);
    let refuse = |kind: io::ErrorKind| Err(Failure::unwritable(path, &kind.into()));
    match fs::metadata(parent) {
        Err(error) => return Err(Failure::unwritable(path, &error)),
        Ok(found) if !found.is_dir() => return refuse(io::ErrorKind::NotADirectory),
        Ok(_) => {}
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => refuse(io::ErrorKind::IsADirectory),
        _ => Ok(()),
    }
}

/// Writes to `path` through `write`: a reader sees all of it or what was there before.
pub(super) fn file<F>(path: &Path, write: F) -> Result<(), Failure>
where
    F: FnOnce(&mut dyn Write) -> io::Result<()>,
{
    let mut pending = Pending::create(path)?;
    write(&mut pending).map_err(|error| Failure::unwritable(path, &error))?;
    pending.finish()
}

/// A file that appears under its name only when it is finished. Devices and pipes are written
/// as they are.
pub(super) struct Pending {
    path: PathBuf,
    temporary: Option<PathBuf>,
    file: io::BufWriter<File>,
}

impl Pending {
    /// Starts writing; under a name that no other process uses.
    pub(super) fn create(path: &Path) -> Result<Pending, Failure> {
        Pending::create_as(path, &std::process::id().to_string())
    }

    /// Starts writing; under a name that ends like this.
    pub(super) fn create_as(path: &Path, ending: &str) -> Result<Pending, Failure> {
        let special = fs::metadata(path).is_ok_and(|found| !found.is_file());
        // A link stays a link: what it points to is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let temporary = (!special).then(|| beside(&target, ending));
        let file = File::create(temporary.as_deref().unwrap_or(path))
            .map_err(|error| Failure::unwritable(path, &error))?;
        Ok(Pending { path: target, temporary, file: io::BufWriter::new(file) })
    }

    /// Gives the file its name.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        let flushed = self.file.flush();
        let done = flushed.and_then(|()| match &self.temporary {
            Some(temporary) => fs::rename(temporary, &self.path),
            None => Ok(()),
        });
        done.map_err(|error| Failure::unwritable(&self.path, &error))?;
        self.temporary = None;
        Ok(())
    }
}

impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            fs::remove_file(temporary).ok();
        }
    }
}

/// The directory that holds `path`.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A hidden name in the same directory.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    directory_of(path).join(format!(".{name}.{ending}"))
}
