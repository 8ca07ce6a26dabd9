//! Writes files (completely or not at all), standard output and messages. Closed pipes are no errors.

use super::Failure;
use super::command_line;
use super::failure::plain;
use super::interrupt;
use crate::cli::ReportFormat;
use crate::input::{cut_words, shown};
use crate::report::{self, Report};
use crate::scenario::printable;
use comfy_table::{ContentArrangement, Table, presets};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Returns whether output to `stream` is coloured.
pub(super) fn colour(stream: &impl IsTerminal) -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let dumb = set("TERM").is_some_and(|term| term == "dumb");
    set("NO_COLOR").is_none() && !dumb && stream.is_terminal()
}

/// Returns the number of columns of the terminal; 100 if there is no terminal.
pub(super) fn width() -> usize {
    width_or(100)
}

/// Returns whether the width of the terminal is known.
pub(super) fn has_width() -> bool {
    width_or(0) > 0
}

/// Returns the number of columns of the terminal, or `usual` if there is no terminal. The variable `COLUMNS` has precedence.
fn width_or(usual: usize) -> usize {
    let written = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let asked = || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col.into());
    let sensible = |columns: &usize| (40..=400).contains(columns);
    written.filter(sensible).or_else(|| asked().filter(sensible)).unwrap_or(usual)
}

/// Writes a text for people to standard output, its lines wrapped at the width of the terminal. Control characters are escaped.
pub(super) fn text(text: &str) -> Result<(), Failure> {
    stdout(wrapped(&printable(&plain(text)), width()).as_bytes())
}

/// Prints a text for people to standard error, its lines wrapped at the width of the terminal.
pub(super) fn say_wrapped(text: &str) {
    say(&wrapped(text, width()));
}

/// Returns the text with lines of at most `width` columns. A wrapped line goes on two columns further in; a word that is longer than a
/// line, such as an address, stays whole.
pub(super) fn wrapped(text: &str, width: usize) -> String {
    let whole = |line: &str| {
        let indent = " ".repeat(line.len() - line.trim_start_matches(' ').len() + 2);
        let options = textwrap::Options::new(width)
            .subsequent_indent(&indent)
            .break_words(false)
            .word_separator(textwrap::WordSeparator::AsciiSpace)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        textwrap::fill(line, options)
    };
    text.split('\n').map(whole).collect::<Vec<_>>().join("\n")
}

/// Returns a table for the terminal, with a border around it if `framed`: at most as wide as the terminal.
pub(super) fn table(framed: bool) -> Table {
    let mut table = Table::new();
    table.load_style(if framed { presets::UTF8_BORDERS_ONLY } else { presets::NOTHING });
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(width()).unwrap_or(u16::MAX));
    table
}

/// Writes all of `bytes` to standard output.
pub(super) fn stdout(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| Failure::stdout(&error))
}

/// Writes a report to the given path or to standard output. `quiet` leaves warnings out of the text; JSON always has them.
pub(super) fn report(
    report: &Report,
    (format, path): (ReportFormat, Option<&Path>),
    quiet: bool,
) -> Result<(), Failure> {
    let colour = path.is_none() && colour(&io::stdout());
    let text = match format {
        ReportFormat::Json => {
            let (answer, command) = (report::text::answer(report), command_line::typed());
            let (answer, command) = (Some(answer), Some(command));
            report::json::render(&Report { answer, command, ..report.clone() })
        }
        ReportFormat::Text if quiet => {
            let without = Report { warnings: Vec::new(), ..report.clone() };
            report::text::render(&without, width(), colour)
        }
        ReportFormat::Text => report::text::render(report, width(), colour),
    };
    match path {
        Some(path) => {
            file(path, |to| to.write_all(text.as_bytes()))?;
            warn(quiet, &format!("wrote {}", shown(path)));
            Ok(())
        }
        None => stdout(text.as_bytes()),
    }
}

/// Prints a warning to standard error, unless `quiet` is set.
pub(super) fn warn(quiet: bool, message: &str) {
    if !quiet {
        say(&printable(&cut_words(&format!("forebay: {message}"))));
    }
}

/// Prints to standard error. Errors are ignored, because there is no other place to report them.
pub(super) fn say(message: &str) {
    if !message.is_empty() {
        writeln!(io::stderr(), "{}", message.trim_end()).ok();
    }
}

/// Checks before a long computation that its output can be written to `path`, because otherwise the results would be lost.
pub(super) fn check(path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let target = target_of(path).map_err(|error| Failure::unwritable(path, &error))?;
    let parent = directory_of(&target);
    let refuse = |kind: io::ErrorKind| Err(Failure::unwritable(path, &kind.into()));
    match fs::metadata(parent) {
        Err(error) => return Err(Failure::unwritable(path, &error)),
        Ok(found) if !found.is_dir() => return refuse(io::ErrorKind::NotADirectory),
        Ok(_) => {}
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => refuse(io::ErrorKind::IsADirectory),
        _ if target.as_os_str().as_encoded_bytes().ends_with(b"/") => {
            let name = shown(path);
            Err(Failure::Input(format!(
                "cannot write {name}: a name that ends in a slash is that of a directory; leave out the slash"
            )))
        }
        _ => Ok(()),
    }
}

/// Writes the file `path` with the function `write`. A reader sees the whole new content or the whole old one.
pub(super) fn file<F>(path: &Path, write: F) -> Result<(), Failure>
where
    F: FnOnce(&mut dyn Write) -> io::Result<()>,
{
    let mut pending = Pending::create(path)?;
    write(&mut pending).map_err(|error| Failure::unwritable(path, &error))?;
    pending.finish()
}

/// A file that appears under its name only when it is finished. Devices and pipes are written directly.
pub(super) struct Pending {
    path: PathBuf,
    temporary: Option<PathBuf>,
    file: io::BufWriter<File>,
}

impl Pending {
    /// Starts writing to a temporary file under a name that no other process uses.
    pub(super) fn create(path: &Path) -> Result<Pending, Failure> {
        Pending::create_by(path, create_anew)
    }

    /// Starts writing to a temporary file whose name ends in `ending`; it replaces one that a killed process left there. The
    /// caller ensures that no other process writes to `path`.
    pub(super) fn create_as(path: &Path, ending: &str) -> Result<Pending, Failure> {
        Pending::create_by(path, |target| create_again(target, ending))
    }

    fn create_by(
        path: &Path,
        create: impl Fn(&Path) -> io::Result<(PathBuf, File)>,
    ) -> Result<Pending, Failure> {
        let unwritable = |error| Failure::unwritable(path, &error);
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            let file = open_special(path)?;
            let file = io::BufWriter::new(file);
            return Ok(Pending { path: path.to_owned(), temporary: None, file });
        }
        let target = target_of(path).map_err(unwritable)?;
        let mut unfinished = unfinished();
        let (temporary, file) = create(&target).map_err(unwritable)?;
        unfinished.insert(temporary.clone());
        let file = io::BufWriter::new(file);
        Ok(Pending { path: target, temporary: Some(temporary), file })
    }

    /// Flushes the file and renames it to its final name.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        let flushed = self.file.flush();
        let mut unfinished = unfinished();
        let done = flushed.and_then(|()| match &self.temporary {
            Some(temporary) => fs::rename(temporary, &self.path),
            None => Ok(()),
        });
        let failed = |error| Failure::unwritable(&self.path, &error);
        if let Err(error) = done {
            // Dropping `self` takes this lock, too.
            drop(unfinished);
            return Err(failed(error));
        }
        if let Some(temporary) = self.temporary.take() {
            unfinished.remove(&temporary);
        }
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
            unfinished().remove(temporary);
        }
    }
}

/// Opens a device, a pipe or a socket for writing. A named pipe is waited for until a process reads it, or until a signal comes: an
/// ordinary open would wait on after the signal.
fn open_special(path: &Path) -> Result<File, Failure> {
    let is_pipe = fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
    let flags = if is_pipe { OFlags::NONBLOCK } else { OFlags::empty() };
    loop {
        let mut options = File::options();
        options.write(true).custom_flags(flags.bits().cast_signed());
        match options.open(path) {
            Ok(file) if is_pipe => {
                let blocking = fcntl_getfl(&file).and_then(|set| fcntl_setfl(&file, set - flags));
                blocking.map_err(|error| Failure::unwritable(path, &error.into()))?;
                return Ok(file);
            }
            Err(error) if is_pipe && error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                if interrupt::raised() {
                    let path = shown(path);
                    let what =
                        format!("nothing reads the pipe {path}, so that nothing was written to it");
                    return Err(Failure::Interrupted(what));
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return opened.map_err(|error| Failure::unwritable(path, &error)),
        }
    }
}

/// Temporary names of all files that are being written.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all temporary files, for a process that is about to end. Gives up after 200 ms, because a thread may hold the lock
/// in a system call that hangs.
pub(super) fn remove_unfinished() {
    for _ in 0..20 {
        if let Ok(unfinished) = UNFINISHED.try_lock() {
            unfinished.iter().for_each(|temporary| {
                fs::remove_file(temporary).ok();
            });
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Maximum number of symbolic links that are followed one after another, as in the kernel.
const MOST_LINKS: usize = 40;

/// Follows symbolic links from `path` to the file that will be written, which need not exist yet. The links stay in place.
pub(super) fn target_of(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..=MOST_LINKS {
        match fs::read_link(&target) {
            Ok(next) => target = directory_of(&target).join(next),
            Err(_) => return Ok(target),
        }
    }
    Err(rustix::io::Errno::LOOP.into())
}

/// Creates a temporary file beside `target` under an unused name. A file that is already there is never opened, because it
/// could be a link to any other file.
fn create_anew(target: &Path) -> io::Result<(PathBuf, File)> {
    const ATTEMPTS: u32 = 16;
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..ATTEMPTS {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ending = format!("{}-{:x}", std::process::id(), now.as_nanos());
        match create_named(target, &ending) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            other => return other,
        }
    }
    Err(last)
}

/// Creates the temporary file beside `target` whose name ends in `ending`, in place of an old one; under another name if the
/// old one cannot be removed.
fn create_again(target: &Path, ending: &str) -> io::Result<(PathBuf, File)> {
    fs::remove_file(beside(target, ending)).ok();
    match create_named(target, ending) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => create_anew(target),
        other => other,
    }
}

fn create_named(target: &Path, ending: &str) -> io::Result<(PathBuf, File)> {
    let path = beside(target, ending);
    // Fails if anything has this name, even a link.
    let file = File::create_new(&path)?;
    // The new file replaces `target`: whoever could not read that cannot read this.
    if let Ok(before) = fs::metadata(target) {
        file.set_permissions(before.permissions()).ok();
    }
    Ok((path, file))
}

/// Returns the directory that contains `path`.
pub(super) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Returns the path of a hidden file beside `path`: its name is that of `path` followed by `ending`.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    directory_of(path).join(format!(".{name}.{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_ends_in_a_slash_is_refused_before_anything_runs() {
        let place = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::symlink("new/", place.path().join("link")).expect("a link");
        for name in ["new/", "link"] {
            let refused = check(Some(&place.path().join(name))).expect_err(name).to_string();
            assert!(refused.contains("leave out the slash"), "{refused}");
        }
        check(Some(&place.path().join("new"))).expect("a file that can be written");
    }

    #[test]
    fn lines_are_wrapped_at_spaces_and_words_stay_whole() {
        let text = "one two three four\n  in: a b c d e f g\nhttps://example.org/long x\nshort\n\n│ é é é │\n";
        let expected = "one two\n  three\n  four\n  in: a b\n    c d e\n    f g\nhttps://example.org/long\n  x\nshort\n\n│ é é é │\n";
        assert_eq!(wrapped(text, 9), expected);
        assert_eq!(wrapped(text, 100), text);
        for width in 1..40 {
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&wrapped(text, width)), words(text), "{width}");
        }
    }
}
