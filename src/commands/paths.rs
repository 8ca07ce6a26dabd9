//! Checks, before a command starts, that its outputs can be written, and that no output would overwrite an input or another output.

use super::{Failure, input, output};
use crate::input::shown;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The files that a command reads and writes.
#[derive(Debug, Default)]
pub(super) struct Paths {
    read: Vec<Named>,
    written: Vec<Named>,
    /// Whether results are printed to standard output.
    prints: bool,
}

/// A file, with what it is to the command: `--output`, `the scenario`.
#[derive(Debug)]
struct Named {
    what: &'static str,
    path: PathBuf,
}

impl Named {
    fn shown(&self) -> String {
        format!("{} {}", self.what, input::name(&self.path))
    }
}

/// What a path leads to. Two paths that lead to the same place share their bytes.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// An existing file, by device and inode: links lead to the same place.
    Inode(u64, u64),
    /// A file that does not exist yet, in a directory without links.
    New(PathBuf),
}

impl Paths {
    /// Adds a file that is read; `-` is standard input.
    pub(super) fn reads(mut self, what: &'static str, path: impl Into<PathBuf>) -> Paths {
        self.read.push(Named { what, path: path.into() });
        self
    }

    /// Adds files that are read.
    pub(super) fn reads_all<P: Into<PathBuf>>(
        mut self,
        what: &'static str,
        paths: impl IntoIterator<Item = P>,
    ) -> Paths {
        self.read.extend(paths.into_iter().map(|path| Named { what, path: path.into() }));
        self
    }

    /// Adds a file that is written, if there is one.
    ///
    /// # Errors
    /// If it cannot be written, so that results would be lost.
    pub(super) fn writes(
        mut self,
        what: &'static str,
        path: Option<impl Into<PathBuf>>,
    ) -> Result<Paths, Failure> {
        let Some(path) = path.map(Into::into) else { return Ok(self) };
        output::check(Some(&path))?;
        self.written.push(Named { what, path });
        Ok(self)
    }

    /// Adds a file in a directory that the command may have to make first.
    pub(super) fn writes_below(mut self, what: &'static str, path: impl Into<PathBuf>) -> Paths {
        self.written.push(Named { what, path: path.into() });
        self
    }

    /// Adds standard output, if `prints`.
    pub(super) fn prints(mut self, prints: bool) -> Paths {
        self.prints = prints;
        self
    }

    /// Returns an error if two of the outputs, or an output and an input, are the same file under whatever names.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let stdout = Named { what: "standard output", path: PathBuf::from("/dev/stdout") };
        let printed = self.prints.then_some(&stdout);
        for (index, written) in self.written.iter().chain(printed).enumerate() {
            let (place, shared) = (place(&written.path), is_shared(&written.path));
            let same = |other: &&Named| place.is_some() && self::place(&other.path) == place;
            if let Some(read) = self.read.iter().filter(|_| !shared).find(same) {
                return Err(refuse(written, read, "is read"));
            }
            let later = self.written.iter().chain(printed).skip(index + 1);
            if let Some(other) = { later }.find(same) {
                return Err(refuse(other, written, "is written, too"));
            }
        }
        Ok(())
    }
}

/// Returns where `path` leads, once all links are followed; `None` for terminals and other character devices, which keep nothing
/// that could be overwritten.
fn place(path: &Path) -> Option<Place> {
    let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
    match fs::metadata(path) {
        Ok(found) if found.file_type().is_char_device() => None,
        Ok(found) => Some(Place::Inode(found.dev(), found.ino())),
        Err(_) => {
            let target = output::target_of(path).ok()?;
            let directory = output::directory_of(&target);
            let whole = fs::canonicalize(directory).or_else(|_| std::path::absolute(directory));
            Some(Place::New(whole.ok()?.join(target.file_name()?)))
        }
    }
}

/// Returns whether `path` is a pipe or socket: its reader and its writer may share it.
fn is_shared(path: &Path) -> bool {
    let shared = |found: Metadata| found.file_type().is_fifo() || found.file_type().is_socket();
    fs::metadata(path).is_ok_and(shared)
}

fn refuse(written: &Named, other: &Named, is: &str) -> Failure {
    let names = match written.path == other.path {
        true => other.what.to_owned(),
        false => other.shown(),
    };
    let remedy = match written.what.starts_with("--") {
        true => format!("name another {}", written.what),
        false => "name another file".to_owned(),
    };
    Failure::Input(format!(
        "cannot write {}: it is the same file as {names}, which {is}; {remedy}",
        if written.path == Path::new("/dev/stdout") && !written.what.starts_with("--") {
            written.what.to_owned()
        } else {
            shown(&written.path)
        }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Returns the message of a check of one input and two outputs, named relative to `at`.
    fn refusal(at: &Path, read: &str, written: [&str; 2]) -> Option<String> {
        let [output, trace] = written.map(|name| Some(at.join(name)));
        let paths = Paths::default().reads("the scenario", at.join(read));
        let paths =
            paths.writes("--output", output).and_then(|paths| paths.writes("--trace", trace));
        paths.and_then(|paths| paths.check()).err().map(|failure| failure.to_string())
    }

    #[test]
    fn outputs_under_any_name_of_an_input_or_of_each_other_are_refused() {
        // System: a file, a symbolic and a hard link to it, a link to a directory, and a link to a file that does not exist yet.
        let place = tempfile::tempdir().expect("a directory");
        let at = place.path();
        fs::write(at.join("s"), "x").expect("a file");
        fs::hard_link(at.join("s"), at.join("hard")).expect("a link");
        symlink("s", at.join("soft")).expect("a link");
        symlink("new", at.join("to-new")).expect("a link");
        fs::create_dir(at.join("sub")).expect("a directory");
        symlink("..", at.join("sub/up")).expect("a link");
        for same in ["s", "hard", "soft", "./s", "sub/../s", "sub/up/s"] {
            let said = refusal(at, "s", ["a", same]).expect(same);
            assert!(said.contains("the scenario") && said.contains("another --trace"), "{said}");
        }
        for [a, b] in [["a", "a"], ["new", "to-new"], ["new", "sub/up/new"], ["sub/../a", "a"]] {
            let said = refusal(at, "s", [a, b]).expect(a);
            assert!(said.contains("--output") && said.contains("another --trace"), "{said}");
        }
        for [a, b] in [["a", "b"], ["a", "sub/a"], ["/dev/null", "/dev/null"]] {
            assert_eq!(refusal(at, "s", [a, b]), None);
        }
    }
}
