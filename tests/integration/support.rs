//! Shared helpers of tests of the program: scratch directories and commands.

use assert_cmd::Command;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A scratch directory with a small scenario, `s.toml`, that is removed after the test.
pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    /// Creates a scratch directory.
    pub(crate) fn new() -> Place {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let place = Place { directory };
        place.write("s.toml", SCENARIO);
        place
    }

    /// Returns the path of a file in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file in the directory.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a writable directory");
    }

    /// Reads a file in the directory.
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        let path = self.path(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Returns the number of finished points in the journal of a sweep, 0 if there is none.
    pub(crate) fn points_in(&self, journal: &str) -> usize {
        let bytes = fs::read(self.path(journal)).unwrap_or_default();
        // The first line holds the settings of the sweep.
        bytes.iter().filter(|byte| **byte == b'\n').count().saturating_sub(1)
    }

    /// Returns the names of all files in the directory, in order.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).expect("a readable directory");
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<String> = entries.flatten().map(name).collect();
        names.sort();
        names
    }

    /// Returns a command of the program in the directory.
    pub(crate) fn forebay(&self, arguments: &[&str]) -> Command {
        let mut command = forebay(arguments);
        command.current_dir(self.directory.path());
        command
    }

    /// Returns the path of the directory.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// Returns a command of the program.
pub(crate) fn forebay(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(arguments).env_remove("NO_COLOR");
    command
}

/// A scenario that runs for milliseconds.
pub(crate) const SCENARIO: &str = r#"# Does the loader keep up?
name = "small"

[run]
steps = 20
warm_up = "off"
replications = 2
seed = 1

[cluster]
nodes = 2
[cluster.node]
cores = 4
gpus = 1

[storage.disk.file-server]
bandwidth = "1 GB/s"
per_stream = "100 MB/s"
latency = { lognormal = { median = "1 ms", p99 = "5 ms" } }

[dataset.digits]
samples = 1000
sample_size = "1000 B"

[[job]]
name = "lenet"
copies = 2
nodes = 1
dataset = "digits"
storage = "disk"
batch = 8
batch_interval = 1

[job.loader.tf-queue]
threads = 2
capacity = "64 samples"
decode = "50 us"

[job.model]
step = { fixed = "2 ms", per_sample = "15 us" }

[sweep]
"job.loader.tf-queue.threads" = [1, 2, 4]
"job.batch_interval" = [1, 2]
"#;
