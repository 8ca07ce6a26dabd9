//! Data sets of live runs on disk: the user's own, or generated ones, which are kept for later runs.

use super::check::{Machine, reads_files};
use super::data::{Files, Location, generate};
use super::fault::Failure;
use super::sizes::Sizes;
use super::task::{Event, Settings};
use forebay_calibrate::probe::{ProbeError, Workspace};
use forebay_model::input::{reason, shown};
use forebay_scenario::{Access, Dataset, Job, Scenario};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Generated data sets. A later run with the same data set reuses it. All data sets are removed when this value is dropped.
#[derive(Debug, Default)]
pub struct Store {
    workspace: Option<Workspace>,
    made: Vec<(Made, PathBuf)>,
    /// Number of directories made so far.
    count: usize,
}

/// All settings that determine the bytes of a generated data set. The storage is one of them, so that readers of one storage do
/// not touch the files (and page cache) of another.
#[derive(Debug, Clone, PartialEq)]
struct Made {
    dataset: Dataset,
    index: usize,
    storage: usize,
    seed: u64,
}

/// A job's data set on disk.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StoredDataset {
    pub(super) location: Location,
    /// Number of files of the data set that are read.
    files: u64,
}

impl StoredDataset {
    pub(super) fn settle(&self) -> Result<(), Failure> {
        Files::open(&self.location)?.settle(self.files, self.location.access)
    }
}

impl Store {
    /// Returns, for each job, the job's data set on disk; `None` if the data set is in memory. Generates data sets that do not
    /// exist.
    pub(super) fn places(
        &mut self,
        scenario: &Scenario,
        settings: &Settings,
        on: &mut dyn FnMut(Event),
    ) -> Result<Vec<Option<StoredDataset>>, Failure> {
        let key = |job: &Job| reads_files(scenario, job).then_some((job.dataset, job.storage));
        let mut wanted: Vec<(usize, usize)> = scenario.jobs.iter().filter_map(key).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let found: Vec<StoredDataset> = match settings.data {
            Some(root) => wanted
                .iter()
                .map(|key| users(scenario, *key, root, settings, on))
                .collect::<Result<_, _>>()?,
            None => self.generated(scenario, &wanted, settings, on)?,
        };
        let of = |job| Some(found[wanted.binary_search(&key(job)?).ok()?].clone());
        Ok(scenario.jobs.iter().map(of).collect())
    }

    fn generated(
        &mut self,
        scenario: &Scenario,
        wanted: &[(usize, usize)],
        settings: &Settings,
        on: &mut dyn FnMut(Event),
    ) -> Result<Vec<StoredDataset>, Failure> {
        let of = |&(index, storage): &(usize, usize)| {
            let dataset = scenario.datasets[index].clone();
            Made { dataset, index, storage, seed: scenario.run.seed }
        };
        let keys: Vec<Made> = wanted.iter().map(of).collect();
        let known = |store: &Store, key: &Made| store.made.iter().any(|(made, _)| made == key);
        let missing: Vec<&Made> = keys.iter().filter(|key| !known(self, key)).collect();
        let total: u64 = missing.iter().map(|key| bytes(scenario, key.index)).sum();
        if !missing.is_empty() {
            self.make_room(total, &keys, settings.directory, on)?;
        }
        let mut done = 0;
        for key in missing {
            let mut more = |bytes| {
                done += bytes;
                on(Event::Generated(done, total));
                !settings.stop.load(Ordering::Relaxed)
            };
            self.make(scenario, key, &mut more)?;
        }
        let root =
            |key: &Made| self.made.iter().find(|(made, _)| made == key).map(|(_, root)| root);
        let roots = keys.iter().zip(wanted).filter_map(|(key, at)| Some((root(key)?, *at)));
        roots.map(|(root, at)| made(scenario, at, root, settings)).collect()
    }

    /// Makes sure that `bytes` fit into `directory`; removes data sets that are not `wanted` if necessary.
    fn make_room(
        &mut self,
        bytes: u64,
        wanted: &[Made],
        directory: &Path,
        on: &mut dyn FnMut(Event),
    ) -> Result<(), Failure> {
        let workspace = match self.workspace.take() {
            Some(workspace) => workspace,
            None => {
                let (made, notes) = Workspace::for_runs(directory).map_err(failure)?;
                notes.into_iter().for_each(|note| on(Event::Note(note)));
                made
            }
        };
        let workspace = self.workspace.insert(workspace);
        if workspace.room(bytes).is_ok() {
            return Ok(());
        }
        self.made.retain(|(made, root)| {
            let keep = wanted.contains(made);
            if !keep {
                // Directories that cannot be removed now are removed at the end.
                std::fs::remove_dir_all(root).ok();
            }
            keep
        });
        workspace.room(bytes).map_err(failure)
    }

    /// Generates a data set.
    fn make(
        &mut self,
        scenario: &Scenario,
        key: &Made,
        on_bytes: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), Failure> {
        let Some(workspace) = &self.workspace else { return Ok(()) };
        self.count += 1;
        let root = workspace.directory(&format!("data-{}", self.count)).map_err(failure)?;
        let Some(sizes) = sizes(scenario, key.index) else {
            let what = "a table of sample sizes can only be simulated";
            return Err(Failure::Lacking(what.to_owned()));
        };
        generate(&root, &key.dataset, &sizes, key.seed, on_bytes)?;
        // Only pages that have been written to disk can be dropped from the page cache.
        let opened = std::fs::File::open(&root).map_err(|e| Failure::file("open", &root, e))?;
        rustix::fs::syncfs(&opened).map_err(|e| Failure::file("write", &root, e))?;
        self.made.push((key.clone(), root));
        Ok(())
    }
}

/// Converts an error of the workspace to a failure with a remedy for live runs.
fn failure(error: ProbeError) -> Failure {
    match error {
        ProbeError::Interrupted => Failure::Interrupted,
        error if error.is_wrong_directory() => Failure::Input(error.to_string()),
        ProbeError::File { doing, path, source } => Failure::file(doing, &path, source),
        ProbeError::Space { directory, needed, free } => Failure::Lacking(format!(
            "{} has {:.1} MB free, but {:.1} MB are needed: free some space, name another --directory, or write fewer or smaller samples",
            shown(&directory),
            free as f64 / 1e6,
            needed as f64 / 1e6
        )),
        other => Failure::Lacking(other.to_string()),
    }
}

fn sizes(scenario: &Scenario, dataset: usize) -> Option<Sizes> {
    Sizes::drawn(&scenario.datasets[dataset], dataset, scenario.run.seed)
}

/// Returns the approximate size of a data set on disk [B].
fn bytes(scenario: &Scenario, index: usize) -> u64 {
    let dataset = &scenario.datasets[index];
    let stored = sizes(scenario, index)
        .map_or(0, |sizes| sizes.sum(0, dataset.samples, dataset.layout.record()));
    // Each file takes whole blocks.
    stored.saturating_add(dataset.files().saturating_mul(4096))
}

/// Returns whether `directory`, which holds the data of `storage`, is on a file server.
fn is_mounted(scenario: &Scenario, storage: usize, directory: &Path, settings: &Settings) -> bool {
    let remote = scenario.storage[storage].path.is_remote();
    let found = rustix::fs::statfs(directory);
    let local = found.is_ok_and(|found| LOCAL.contains(&found.f_type));
    remote && settings.named && !local
}

fn access(scenario: &Scenario, storage: usize, mounted: bool) -> Access {
    let path = &scenario.storage[storage].path;
    // Files that emulate another storage are kept in the page cache, so that only its limits take time.
    let emulated = path.access == Access::Emulated || path.is_remote() && !mounted;
    if emulated { Access::Warm } else { path.access }
}

/// Returns the generated data set below `root`.
fn made(
    scenario: &Scenario,
    (index, storage): (usize, usize),
    root: &Path,
    settings: &Settings,
) -> Result<StoredDataset, Failure> {
    let dataset = &scenario.datasets[index];
    let mounted = is_mounted(scenario, storage, root, settings);
    let access = access(scenario, storage, mounted);
    let (root, measured) = (root.to_owned(), dataset.image.is_some());
    let location = Location { root, users: false, access, measured, mounted };
    finish(StoredDataset { location, files: dataset.files() }, dataset)
}

/// Returns the user's data set at `root`, and notes what is left out of it; an error if it has too few files.
fn users(
    scenario: &Scenario,
    (index, storage): (usize, usize),
    root: &Path,
    settings: &Settings,
    on: &mut dyn FnMut(Event),
) -> Result<StoredDataset, Failure> {
    let dataset = &scenario.datasets[index];
    let root = root.canonicalize().map_err(|error| Failure::file("find", root, error))?;
    let mounted = is_mounted(scenario, storage, &root, settings);
    let access = access(scenario, storage, mounted);
    let location = Location { root, users: true, access, measured: true, mounted };
    let listed = Files::open(&location)?;
    let (found, files) = (listed.listed().unwrap_or(0), dataset.files());
    let left_out = listed.left_out();
    if found < files {
        let (root, name) = (shown(&location.root), &dataset.name);
        let others = left_out.map(|what| format!(" ({what})")).unwrap_or_default();
        let remedy = match found {
            0 => "name a directory with the files of a data set",
            _ => "write fewer samples",
        };
        return Err(Failure::Input(format!(
            "{root} has {found} files{others}, and `{name}` needs {files}: {remedy}"
        )));
    }
    left_out.into_iter().for_each(|what| on(Event::Note(what)));
    finish(StoredDataset { location, files }, dataset)
}

/// Checks that the files can be read with the access mode that the scenario sets.
fn finish(place: StoredDataset, dataset: &Dataset) -> Result<StoredDataset, Failure> {
    let files = Files::open(&place.location)?;
    let root = shown(&place.location.root);
    let in_memory =
        rustix::fs::fstatfs(&files.root).is_ok_and(|found| IN_MEMORY.contains(&found.f_type));
    match place.location.access {
        Access::Direct => files.try_direct().map_err(|error| {
            Failure::Lacking(format!(
                "{root} does not support direct reads ({}): name a --directory on a disk, or write `access = \"cold\"`",
                reason(&error)
            ))
        })?,
        Access::Cold if in_memory => {
            return Err(Failure::Lacking(format!(
                "{root} is in memory, where files are never cold: name a --directory on a disk, or write `access = \"warm\"`"
            )));
        }
        Access::Warm if !in_memory => {
            let needed: u64 = (0..place.files).map(|file| files.length(file)).sum();
            let memory = Machine::this().memory;
            if needed as f64 > memory {
                return Err(Failure::Lacking(format!(
                    "the data set `{}` has {:.1} GB, but only {:.1} GB of memory are available to keep it warm: write fewer samples, or `access = \"cold\"`",
                    dataset.name,
                    needed as f64 / 1e9,
                    memory / 1e9
                )));
            }
        }
        Access::Cold | Access::Warm | Access::Emulated => {}
    }
    Ok(place)
}

/// Types of file systems in memory: tmpfs and ramfs.
const IN_MEMORY: [rustix::fs::FsWord; 2] = [0x0102_1994, 0x8584_58f6];

/// Types of file systems on local disks or in memory: ext4, XFS, Btrfs, F2FS, ZFS, overlays, tmpfs, ramfs.
const LOCAL: [rustix::fs::FsWord; 8] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0x2fc1_2fc1,
    0x794c_7630,
    IN_MEMORY[0],
    IN_MEMORY[1],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_errors_are_reported_with_a_remedy_for_live_runs() {
        let place = PathBuf::from("/d");
        let space = ProbeError::Space { directory: place.clone(), needed: 2_000_000, free: 1 };
        let full = ProbeError::file("write", &place)(std::io::ErrorKind::StorageFull.into());
        for error in [space, full] {
            let said = failure(error).to_string();
            assert!(said.contains("samples") && !said.contains("plan"), "{said}");
        }
        let stale = ProbeError::file("read", &place)(std::io::Error::from_raw_os_error(116));
        assert!(failure(stale).to_string().contains("the file server has removed or replaced it"));
    }
}
