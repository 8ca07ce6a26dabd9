//! Runs a whole scenario: data sets, page cache, processes and outcome, for each replication.

use super::check::{self, Machine, reads_files};
use super::children::{self, Assignment};
use super::fault::Failure;
use super::ledger::Common;
use super::notes;
use super::store::{Store, StoredDataset};
use super::task::{CopyOutcome, CopyTask, Event, Settings};
use forebay_report::{BurstOutcome, Outcome, Part, Resource, ResourceOutcome, World};
use forebay_scenario::{Access, Job, Override, Scenario};

/// Source text of the scenario, from which the processes of job copies parse it again.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Name of the scenario file.
    pub name: String,
    /// Text of the scenario file.
    pub text: String,
    /// The user's changes to keys of the scenario, in their order.
    pub overrides: Vec<Override>,
}

/// Checks that this machine can run the scenario.
///
/// # Errors
/// One sentence: what is missing, and what to write instead.
pub fn check(scenario: &Scenario, settings: &Settings) -> Result<(), Failure> {
    check::check(scenario, Machine::this())?;
    let files = scenario.jobs.iter().filter(|job| reads_files(scenario, job));
    let mut datasets: Vec<usize> = files.map(|job| job.dataset).collect();
    datasets.sort_unstable();
    datasets.dedup();
    match (settings.data, datasets.as_slice()) {
        (None, _) | (Some(_), [_]) => Ok(()),
        (Some(_), []) => Err(Failure::Input(
            "no job reads files, so --data cannot be used: write a `local-disk` or a `file-server` as a job's storage".to_owned(),
        )),
        (Some(_), several) => Err(Failure::Input(format!(
            "the jobs read {} data sets, but --data gives only one: leave out --data, so that all data sets are generated",
            several.len()
        ))),
    }
}

/// Runs a scenario on this machine with data sets from `store`. `outcomes` gets the outcome of each finished replication, even if
/// the run fails later.
///
/// # Errors
/// If the machine lacks something, something fails, or `settings.stop` is raised.
pub fn run(
    scenario: &Scenario,
    source: &Source,
    settings: &Settings,
    store: &mut Store,
    outcomes: &mut Vec<Outcome>,
    on: &mut dyn FnMut(Event),
) -> Result<(), Failure> {
    check(scenario, settings)?;
    let places = store.places(scenario, settings, on)?;
    let replications = scenario.run.replications;
    for replication in 0..replications {
        for place in places.iter().flatten() {
            let again = replication > 0 && place.location.access == Access::Warm;
            if !again {
                place.settle()?;
            }
        }
        // The state of limits starts anew with each replication's clock.
        let books = shared_books(scenario, &places)?;
        let mut assignments = assignments(scenario, source, &places, replication, settings.trace);
        for (_, assignment) in &mut assignments {
            let storage = scenario.jobs[assignment.part.job].storage;
            assignment.part.books = books[storage].as_ref().map(Common::path);
        }
        let parts = children::run(settings.executable, &assignments, settings.stop)?;
        let notes = notes::notes(scenario, &places, &parts);
        outcomes.push(outcome(scenario, parts, notes));
        on(Event::Finished(replication + 1, replications));
    }
    Ok(())
}

/// Returns, for each storage, the shared state of its limits; `None` if fewer than two job copies read from it under limits.
fn shared_books(
    scenario: &Scenario,
    places: &[Option<StoredDataset>],
) -> Result<Vec<Option<Common>>, Failure> {
    let of = |index: usize| {
        let jobs = scenario.jobs.iter().zip(places).filter(|(job, _)| job.storage == index);
        let paced =
            jobs.filter(|(job, place)| notes::paced(scenario, job, place.as_ref()).is_some());
        let copies: u32 = paced.map(|(job, _)| job.copies).sum();
        (copies > 1).then(Common::new).transpose()
    };
    (0..scenario.storage.len()).map(of).collect()
}

fn assignments(
    scenario: &Scenario,
    source: &Source,
    places: &[Option<StoredDataset>],
    replication: u32,
    trace: bool,
) -> Vec<(String, Assignment)> {
    let copies = scenario.jobs.iter().enumerate();
    let copies = copies.flat_map(|(job, of)| (0..of.copies).map(move |copy| (job, of, copy)));
    let assignment = |(owner, (job, of, copy)): (usize, (usize, &Job, u32))| {
        let part = CopyTask {
            job,
            copy,
            owner: owner as u64,
            replication,
            location: places[job].as_ref().map(|place| place.location.clone()),
            books: None,
            trace: trace && replication == 0,
        };
        let Source { name, text, overrides } = source.clone();
        (format!("`{}` copy {copy}", of.name), Assignment { name, text, overrides, part })
    };
    copies.enumerate().map(assignment).collect()
}

/// Estimates the bytes that readers of storage `index` still fetch when the run ends, and that are counted as read [B]: twice a mean request
/// for each reader, because a request in progress at a given instant is more often a large one.
fn under_way(scenario: &Scenario, index: usize) -> f64 {
    let jobs = scenario.jobs.iter().filter(|job| job.storage == index);
    let bytes = |job: &Job| {
        let readers = job.loader.stages.first().map_or(0.0, |stage| f64::from(stage.workers));
        let loaders = f64::from(job.copies) * f64::from(job.loaders_per_node());
        2.0 * readers * loaders * scenario.datasets[job.dataset].mean_request()
    };
    jobs.map(bytes).sum()
}

/// Returns the outcome of one replication.
fn outcome(scenario: &Scenario, parts: Vec<CopyOutcome>, notes: Vec<String>) -> Outcome {
    let ends = parts.iter().filter_map(|part| part.job.steps.last()).map(|step| step.end);
    let makespan = ends.fold(0.0, f64::max);
    let elapsed = makespan.max(f64::MIN_POSITIVE);
    let cpu: f64 = parts.iter().map(|part| part.cpu).sum();
    let resource = |of: Resource, unit, capacity: f64, served: f64, flows: f64| ResourceOutcome {
        of,
        name: of.name(scenario),
        count: 1,
        capacity,
        unit,
        utilisation: served / (capacity * elapsed),
        utilisation_max: served / (capacity * elapsed),
        mean_flows: flows / elapsed,
        served,
        burst: None,
        groups: Vec::new(),
    };
    let cores = scenario.cluster.node.usable_cores;
    let mut resources = vec![resource(Resource::node(Part::Cores), "cores", cores, cpu, cpu)];
    for (index, storage) in scenario.storage.iter().enumerate() {
        let capacity = match storage.path.measured() {
            Some(table) => table.most(),
            None => storage.path.most_over(elapsed),
        };
        let of = parts.iter().filter(|part| scenario.jobs[part.job.job].storage == index);
        let (bytes, reading) =
            of.fold((0.0, 0.0), |(b, r), part| (b + part.bytes as f64, r + part.reading));
        if capacity.is_finite() {
            let of = Resource::storage(index, Part::Bandwidth);
            let burst = storage.path.burst.map(|_| {
                let entered = storage.path.bandwidth.most() * elapsed;
                let drawn = bytes - entered - under_way(scenario, index);
                BurstOutcome { drawn: drawn.max(0.0), emptied: None }
            });
            let found = resource(of, "B/s", capacity, bytes, reading);
            resources.push(ResourceOutcome { burst, ..found });
        }
    }
    let trace = parts.iter().filter_map(|part| part.trace.clone()).reduce(|mut all, more| {
        all.append(more);
        all
    });
    let jobs = parts.into_iter().map(|part| part.job).collect();
    Outcome { world: World::Live, notes, jobs, resources, makespan, trace, ..Outcome::default() }
}
