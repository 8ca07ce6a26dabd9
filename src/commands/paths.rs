//! Checks, before a command starts, that its outputs can be written, and that no output would overwrite an input or another output.

use super::{Failure, input, output};
use crate::input::shown;
use std::fs::{self, Metadata};
use std::os::unix::fs::{DirEntryExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The files that a command reads and writes.
#[derive(Debug, Default)]
pub(super) struct Paths {
    read: Vec<Named>,
    /// Directories of which every file is read, at any depth.
    read_below: Vec<Named>,
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
#[derive(Debug)]
enum Place {
    /// An existing file with its path: links lead to the same inode.
    Inode(Inode, PathBuf),
    /// A file that does not exist yet, in a directory without links.
    New(PathBuf),
}

/// Device and inode of a file or directory.
type Inode = (u64, u64);

fn inode(found: &Metadata) -> Inode {
    (found.dev(), found.ino())
}

impl PartialEq for Place {
    fn eq(&self, other: &Place) -> bool {
        match (self, other) {
            (Place::Inode(one, _), Place::Inode(other, _)) => one == other,
            (Place::New(one), Place::New(other)) => one == other,
            _ => false,
        }
    }
}

impl Place {
    /// Returns whether the place is in `directory` or deeper, or a link there leads to it.
    fn is_below(&self, directory: &Path) -> bool {
        let Ok(root) = fs::metadata(directory) else { return false };
        let (path, file) = match self {
            Place::Inode(file, path) => (path, Some(*file)),
            Place::New(path) => (path, None),
        };
        let there = path.ancestors().find_map(|path| fs::canonicalize(path).ok());
        let is_root =
            |above: &Path| fs::metadata(above).is_ok_and(|found| inode(&found) == inode(&root));
        let inside = there.is_some_and(|there| there.ancestors().any(is_root));
        inside || file.is_some_and(|file| is_linked_below(directory, file))
    }
}

/// Maximum number of entries in which links are looked for: a data set may have a hundred million files.
const LOOKED_AT: usize = 100_000;

/// Returns whether an entry of `directory` or deeper leads to `file`. Links to directories are not followed, as nothing that reads
/// whole directories follows them.
fn is_linked_below(directory: &Path, file: Inode) -> bool {
    let mut pending = vec![directory.to_owned()];
    let mut left = LOOKED_AT;
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let Some(fewer) = left.checked_sub(1) else { return false };
            left = fewer;
            let kind = entry.file_type();
            let is = |test: fn(&fs::FileType) -> bool| kind.as_ref().is_ok_and(test);
            if is(fs::FileType::is_dir) {
                pending.push(entry.path());
            } else if (is(fs::FileType::is_symlink) || entry.ino() == file.1)
                && fs::metadata(entry.path()).is_ok_and(|found| inode(&found) == file)
            {
                return true;
            }
        }
    }
    false
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

    /// Adds directories of which every file is read, at any depth.
    pub(super) fn reads_below<P: Into<PathBuf>>(
        mut self,
        what: &'static str,
        directories: impl IntoIterator<Item = P>,
    ) -> Paths {
        self.read_below
            .extend(directories.into_iter().map(|path| Named { what, path: path.into() }));
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

    /// Returns an error if two of the outputs, or an output and an input, are the same file under whatever names, or if an output is
    /// among the files of a directory that is read.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let stdout = Named { what: "standard output", path: PathBuf::from("/dev/stdout") };
        let printed = self.prints.then_some(&stdout);
        for (index, written) in self.written.iter().chain(printed).enumerate() {
            let (place, shared) = (place(&written.path), is_shared(&written.path));
            let same = |other: &&Named| place.is_some() && self::place(&other.path) == place;
            if let Some(read) = self.read.iter().filter(|_| !shared).find(same) {
                return Err(refuse_same(written, read, "is read"));
            }
            let holds = |of: &&Named| place.as_ref().is_some_and(|place| place.is_below(&of.path));
            if let Some(directory) = self.read_below.iter().filter(|_| !shared).find(holds) {
                let directory = directory.shown();
                let why = format!("it is among the files of {directory}, which are read");
                return Err(refuse(written, &why));
            }
            let later = self.written.iter().chain(printed).skip(index + 1);
            if let Some(other) = { later }.find(same) {
                return Err(refuse_same(other, written, "is written, too"));
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
        Ok(found) => Some(Place::Inode(inode(&found), path.to_owned())),
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

/// Returns the failure that `written` is the same file as `other`, which `is` read or written.
fn refuse_same(written: &Named, other: &Named, is: &str) -> Failure {
    let names = match written.path == other.path {
        true => other.what.to_owned(),
        false => other.shown(),
    };
    refuse(written, &format!("it is the same file as {names}, which {is}"))
}

/// Returns the failure that `written` cannot be written, and why.
fn refuse(written: &Named, why: &str) -> Failure {
    let is_option = written.what.starts_with("--");
    let remedy = match is_option {
        true => format!("name another {}", written.what),
        false => "name another file".to_owned(),
    };
    let name = match written.path == Path::new("/dev/stdout") && !is_option {
        true => written.what.to_owned(),
        false => shown(&written.path),
    };
    Failure::Input(format!("cannot write {name}: {why}; {remedy}"))
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

    #[test]
    fn the_same_name_of_an_output_and_an_input_is_refused_in_a_whole_sentence() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("q");
        fs::write(&path, "x").expect("a file");
        let paths = Paths::default().reads("the scenario's input", &path);
        let paths = paths.writes("--output", Some(&path)).expect("a file");
        let said = paths.check().expect_err("the same file").to_string();
        let expected =
            "it is the same file as the scenario's input, which is read; name another --output";
        assert!(said.ends_with(expected), "{said}");
    }

    #[test]
    fn outputs_among_the_files_of_a_directory_that_is_read_are_refused() {
        // System: a data set with a file, links to files and directories outside, and links from outside to it. Expectation: refused
        // is what would overwrite or add a file of the data set.
        let place = tempfile::tempdir().expect("a directory");
        let at = place.path();
        for made in ["data/deep", "other"] {
            fs::create_dir_all(at.join(made)).expect("a directory");
        }
        for file in ["data/deep/f", "other/linked", "other/hard", "other/alone", "other/in/x"] {
            fs::create_dir_all(at.join(file).parent().expect("above")).expect("a directory");
            fs::write(at.join(file), "x").expect("a file");
        }
        symlink("../other/linked", at.join("data/soft")).expect("a link");
        fs::hard_link(at.join("other/hard"), at.join("data/deep/hard")).expect("a link");
        symlink("../other/in", at.join("data/followed-by-nobody")).expect("a link");
        symlink("data/deep", at.join("to-deep")).expect("a link");
        symlink("data/deep/f", at.join("to-file")).expect("a link");
        let said = |name: &str| {
            let paths = Paths::default().reads_below("--data", Some(at.join("data")));
            let paths = paths.writes_below("--output", at.join(name));
            paths.check().err().map(|failure| failure.to_string())
        };
        for name in [
            "data/deep/f",
            "data/new",
            "data/new/deeper",
            "to-deep/new/f",
            "to-file",
            "other/linked",
            "other/hard",
        ] {
            let said = said(name).expect(name);
            assert!(said.contains("among the files of --data "), "{said}");
            assert!(said.ends_with("which are read; name another --output"), "{said}");
        }
        for name in ["other/alone", "other/in/x", "new", "other/new"] {
            assert_eq!(said(name), None);
        }
    }
}
