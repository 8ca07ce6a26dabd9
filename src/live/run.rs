//! A whole scenario: data sets, page cache, processes, outcome; replication after replication.

use super::check::{self, Machine, reads_files};
use super::children::{self, Assignment};
use super::data::{Files, Location, generate};
use super::job::{Part, PartOutcome};
use super::sizes::Sizes;
use super::{Failure, notes};
use crate::probe::{ProbeError, Workspace};
use crate::report::{Outcome, ResourceOutcome, World};
use crate::scenario::storage::Bandwidth;
use crate::scenario::{Access, Dataset, Job, Scenario, StorageKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// How to run.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// Where working files may be made.
    pub directory: &'a Path,
    /// The user's own data set.
    pub data: Option<&'a Path>,
    /// Whether the user has named one of them: it may be a mount of a file server.
    pub named: bool,
    /// Record a timeline of the first replication.
    pub trace: bool,
    /// This program.
    pub executable: &'a Path,
    /// Ends the run early when it becomes true.
    pub stop: &'a AtomicBool,
}

/// The scenario as the processes of job copies read it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Name of its file.
    pub name: String,
    /// Its text.
    pub text: String,
    /// The user's changes to it, as `key=value`.
    pub overrides: Vec<String>,
}

/// What happens meanwhile.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Something that the user should know.
    Note(String),
    /// So many bytes of so many have been generated.
    Generated(u64, u64),
    /// So many replications of so many have been finished.
    Finished(u32, u32),
}

/// Refuses what this machine cannot run.
///
/// # Errors
/// One sentence: what is missing, and what to write instead.
pub fn check(scenario: &Scenario, settings: &Settings) -> Result<(), Failure> {
    check::check(scenario, Machine::this(), settings.named)?;
    let files = scenario.jobs.iter().filter(|job| reads_files(scenario, job));
    let mut datasets: Vec<usize> = files.map(|job| job.dataset).collect();
    datasets.sort_unstable();
    datasets.dedup();
    match (settings.data, datasets.as_slice()) {
        (None, _) | (Some(_), [_]) => Ok(()),
        (Some(_), []) => Err(Failure::Input(
            "no job reads files: --data needs a `local-disk` or a `file-server`".to_owned(),
        )),
        (Some(_), several) => Err(Failure::Input(format!(
            "jobs read {} data sets, and --data is one: leave it out, so that all are generated",
            several.len()
        ))),
    }
}

/// Runs a scenario on this machine. The outcomes of finished replications are kept in `outcomes`
/// whatever happens.
///
/// # Errors
/// If the machine lacks something, something fails, or `settings.stop` is raised.
pub fn run(
    scenario: &Scenario,
    source: &Source,
    settings: &Settings,
    outcomes: &mut Vec<Outcome>,
    on: &mut dyn FnMut(Event),
) -> Result<(), Failure> {
    check(scenario, settings)?;
    let generated = Generated::new(scenario, settings, on)?;
    let places: Vec<Option<Place>> = scenario.jobs.iter().map(|job| generated.of(job)).collect();
    let replications = scenario.run.replications;
    for replication in 0..replications {
        for place in places.iter().flatten() {
            let again = replication > 0 && place.location.access == Access::Warm;
            if !again {
                place.settle()?;
            }
        }
        let assignments = assignments(scenario, source, &places, replication, settings.trace);
        let parts = children::run(settings.executable, &assignments, settings.stop)?;
        outcomes.push(outcome(scenario, parts, notes::of(scenario, &places)));
        on(Event::Finished(replication + 1, replications));
    }
    Ok(())
}

/// A job's data set on disk.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    pub(super) location: Location,
    /// Files of it that are read.
    files: u64,
}

impl Place {
    fn settle(&self) -> Result<(), Failure> {
        Files::open(&self.location)?.settle(self.files, self.location.access)
    }
}

/// The data sets on disk; those that we made vanish with this.
struct Generated<'s> {
    scenario: &'s Scenario,
    /// By data set and storage.
    places: Vec<((usize, usize), Place)>,
    _workspace: Option<Workspace>,
}

impl<'s> Generated<'s> {
    fn new(
        scenario: &'s Scenario,
        settings: &Settings,
        on: &mut dyn FnMut(Event),
    ) -> Result<Generated<'s>, Failure> {
        let mut all = Generated { scenario, places: Vec::new(), _workspace: None };
        let files = scenario.jobs.iter().filter(|job| reads_files(scenario, job));
        let mut wanted: Vec<(usize, usize)> = files.map(|job| (job.dataset, job.storage)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        if let Some(root) = settings.data {
            for key in wanted {
                let place = users(scenario, key, root)?;
                all.places.push((key, place));
            }
            return Ok(all);
        }
        if wanted.is_empty() {
            return Ok(all);
        }
        let (workspace, notes) = Workspace::create(settings.directory).map_err(failure)?;
        notes.into_iter().for_each(|note| on(Event::Note(note)));
        let total: u64 = wanted.iter().map(|&(dataset, _)| bytes(scenario, dataset)).sum();
        workspace.room(total).map_err(failure)?;
        let mut done = 0;
        for key in wanted {
            let root =
                workspace.directory(&format!("data-{}-{}", key.0, key.1)).map_err(failure)?;
            let mut more = |bytes| {
                done += bytes;
                on(Event::Generated(done, total));
                !settings.stop.load(Ordering::Relaxed)
            };
            let place = made(scenario, key, root, &mut more)?;
            all.places.push((key, place));
        }
        all._workspace = Some(workspace);
        Ok(all)
    }

    fn of(&self, job: &Job) -> Option<Place> {
        let key = (job.dataset, job.storage);
        let found = self.places.iter().find(|(of, _)| *of == key);
        found.filter(|_| reads_files(self.scenario, job)).map(|(_, place)| place.clone())
    }
}

fn failure(error: ProbeError) -> Failure {
    match error {
        ProbeError::Interrupted => Failure::Interrupted,
        other => Failure::Lacking(other.to_string()),
    }
}

fn sizes(scenario: &Scenario, dataset: usize) -> Option<Sizes> {
    Sizes::drawn(&scenario.datasets[dataset], dataset, scenario.run.seed)
}

/// Bytes that a data set takes on disk, about [B].
fn bytes(scenario: &Scenario, index: usize) -> u64 {
    let dataset = &scenario.datasets[index];
    let stored = sizes(scenario, index).map_or(0, |sizes| sizes.sum(0, dataset.samples));
    // A file takes whole blocks.
    stored.saturating_add(dataset.files().saturating_mul(4096))
}

fn access(scenario: &Scenario, storage: usize) -> Access {
    match scenario.storage[storage].kind {
        StorageKind::LocalDisk { access, .. } => access,
        StorageKind::FileServer { .. } | StorageKind::Memory { .. } => Access::Cold,
    }
}

/// Generates a data set below `root`.
fn made(
    scenario: &Scenario,
    (index, storage): (usize, usize),
    root: PathBuf,
    on_bytes: &mut dyn FnMut(u64) -> bool,
) -> Result<Place, Failure> {
    let dataset = &scenario.datasets[index];
    let Some(sizes) = sizes(scenario, index) else {
        return Err(Failure::Lacking("a table of sample sizes can only be simulated".to_owned()));
    };
    generate(&root, dataset, &sizes, scenario.run.seed, on_bytes)?;
    let access = access(scenario, storage);
    let measured = dataset.image.is_some();
    let place = Place {
        location: Location { root, users: false, access, measured },
        files: dataset.files(),
    };
    finish(place, dataset)
}

/// The user's data set at `root`.
fn users(
    scenario: &Scenario,
    (index, storage): (usize, usize),
    root: &Path,
) -> Result<Place, Failure> {
    let dataset = &scenario.datasets[index];
    let root = root.canonicalize().map_err(|error| Failure::file("find", root, error))?;
    let access = access(scenario, storage);
    let location = Location { root, users: true, access, measured: true };
    let (found, files) = (Files::open(&location)?.listed().unwrap_or(0), dataset.files());
    if found < files {
        return Err(Failure::Input(format!(
            "{} has {found} files, and `{}` needs {files}: write fewer samples",
            location.root.display(),
            dataset.name
        )));
    }
    finish(Place { location, files }, dataset)
}

/// Checks that the files can be read as the scenario says; what was written is on the disk then.
fn finish(place: Place, dataset: &Dataset) -> Result<Place, Failure> {
    let files = Files::open(&place.location)?;
    let root = place.location.root.display();
    let in_memory =
        rustix::fs::fstatfs(&files.root).is_ok_and(|found| IN_MEMORY.contains(&found.f_type));
    match place.location.access {
        Access::Direct => files.try_direct().map_err(|error| {
            Failure::Lacking(format!(
                "{root} takes no direct reads ({error}): name a --directory on a disk, or write \
                 `access = \"cold\"`"
            ))
        })?,
        Access::Cold if in_memory => {
            return Err(Failure::Lacking(format!(
                "{root} is in memory, where nothing is ever cold: name a --directory on a disk, or \
                 write `access = \"warm\"`"
            )));
        }
        Access::Warm if !in_memory => {
            let needed: u64 = (0..place.files).map(|file| files.length(file)).sum();
            let memory = Machine::this().memory;
            if needed > memory {
                return Err(Failure::Lacking(format!(
                    "`{}` has {:.1} GB, and {:.1} GB of memory are left to keep it warm: write \
                     fewer samples, or `access = \"cold\"`",
                    dataset.name,
                    needed as f64 / 1e9,
                    memory as f64 / 1e9
                )));
            }
        }
        Access::Cold | Access::Warm => {}
    }
    // Only what is on the disk can be dropped from memory.
    rustix::fs::syncfs(&files.root).map_err(|e| Failure::file("write", &place.location.root, e))?;
    Ok(place)
}

/// Types of file systems that are in memory: tmpfs and ramfs.
const IN_MEMORY: [rustix::fs::FsWord; 2] = [0x0102_1994, 0x8584_58f6];

fn assignments(
    scenario: &Scenario,
    source: &Source,
    places: &[Option<Place>],
    replication: u32,
    trace: bool,
) -> Vec<(String, Assignment)> {
    let copies = scenario.jobs.iter().enumerate();
    let copies = copies.flat_map(|(job, of)| (0..of.copies).map(move |copy| (job, of, copy)));
    let assignment = |(owner, (job, of, copy)): (usize, (usize, &Job, u32))| {
        let part = Part {
            job,
            copy,
            owner: owner as u64,
            replication,
            location: places[job].as_ref().map(|place| place.location.clone()),
            trace: trace && replication == 0,
        };
        let Source { name, text, overrides } = source.clone();
        (format!("`{}` copy {copy}", of.name), Assignment { name, text, overrides, part })
    };
    copies.enumerate().map(assignment).collect()
}

/// One replication's outcome.
fn outcome(scenario: &Scenario, parts: Vec<PartOutcome>, notes: Vec<String>) -> Outcome {
    let ends = parts.iter().filter_map(|part| part.job.steps.last()).map(|step| step.end);
    let makespan = ends.fold(0.0, f64::max);
    let elapsed = makespan.max(f64::MIN_POSITIVE);
    let cpu: f64 = parts.iter().map(|part| part.cpu).sum();
    let resource = |name: String, unit, capacity: f64, served: f64, flows: f64| ResourceOutcome {
        name,
        count: 1,
        capacity,
        unit,
        utilisation: served / (capacity * elapsed),
        utilisation_max: served / (capacity * elapsed),
        mean_flows: flows / elapsed,
        served,
    };
    let cores = f64::from(scenario.cluster.node.cores);
    let mut resources = vec![resource("node.cores".to_owned(), "cores", cores, cpu, cpu)];
    for (index, storage) in scenario.storage.iter().enumerate() {
        let capacity = bandwidth(&storage.kind);
        let of = parts.iter().filter(|part| scenario.jobs[part.job.job].storage == index);
        let (bytes, reading) =
            of.fold((0.0, 0.0), |(b, r), part| (b + part.bytes as f64, r + part.reading));
        if capacity.is_finite() {
            let name = format!("{}.bandwidth", storage.name);
            resources.push(resource(name, "B/s", capacity, bytes, reading));
        }
    }
    let trace = parts.iter().filter_map(|part| part.trace.clone()).reduce(|mut all, more| {
        all.append(more);
        all
    });
    let jobs = parts.into_iter().map(|part| part.job).collect();
    Outcome { world: World::Live, notes, jobs, resources, makespan, trace, ..Outcome::default() }
}

fn bandwidth(kind: &StorageKind) -> f64 {
    let (StorageKind::Memory { bandwidth, .. }
    | StorageKind::LocalDisk { bandwidth, .. }
    | StorageKind::FileServer { bandwidth, .. }) = kind;
    match bandwidth {
        Bandwidth::Fixed(bandwidth) => *bandwidth,
        Bandwidth::ByTransfers(table) => table.iter().copied().fold(0.0, f64::max),
    }
}
