//! A scenario file as it is written, and how it becomes a [`Scenario`].

use super::background::BackgroundSettings;
use super::check::Check;
use super::cluster::ClusterSettings;
use super::dataset::{self, DatasetSettings};
use super::document::{Document, NodeId, ROOT};
use super::field::{Field, List, Named};
use super::file::ScenarioFile;
use super::job::settings::{Around, JobSettings};
use super::problem::{Log, Problem, Problems, Source};
use super::reader::Reader;
use super::run::{MOST_STEPS, RunSettings};
use super::storage::settings::{self as storage, StorageSettings};
use super::sweep::AxisSettings;
use super::value::Override;
use super::{Background, Job, Run, Scenario, Stop};
use schemars::JsonSchema;
use serde::Deserialize;

/// Most storages, data sets, jobs and background loads, of each.
const MOST_ENTRIES: usize = 1000;
/// Most workers and model copies of a whole scenario.
const MOST_ACTORS: u64 = 10_000_000;

/// A scenario: training jobs on a cluster, and the question of how fast they train.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "forebay scenario")]
pub(super) struct ScenarioSettings {
    /// Name, for reports and figures.
    #[schemars(required)]
    name: Field<String>,
    /// How long to run, how often, from which seed.
    #[schemars(required)]
    run: Field<RunSettings>,
    /// The machines.
    #[schemars(required)]
    cluster: Field<ClusterSettings>,
    /// Where data sets are kept, by name.
    #[schemars(required)]
    storage: Field<Named<StorageSettings>>,
    /// What is read, by name.
    #[schemars(required)]
    dataset: Field<Named<DatasetSettings>>,
    /// Who trains.
    #[schemars(required)]
    job: Field<List<JobSettings>>,
    /// Who else uses the storage.
    background: Field<List<BackgroundSettings>>,
    /// Values that `forebay sweep` gives to keys: `"job.batch" = [32, 64]`. Only `sweep` reads it.
    sweep: Field<Named<AxisSettings>>,
}

/// JSON Schema of a scenario file, from the types that read it.
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(ScenarioSettings).to_value()
}

/// Reads the settings of a document; what is wrong is recorded and missing from them.
pub(super) fn read(document: &Document, log: &Log) -> Option<ScenarioSettings> {
    ScenarioSettings::deserialize(Reader { document, at: ROOT, log }).ok()
}

impl ScenarioFile {
    /// The scenario that the file describes, with these changes.
    ///
    /// # Errors
    /// With everything that is wrong or contradictory in the file, in the changes, and in the files
    /// of values that they name.
    pub fn resolve(&self, overrides: &[Override]) -> Result<Scenario, Problems> {
        let mut document = self.document.clone();
        for (index, change) in overrides.iter().enumerate() {
            document.set(change.path(), change.value(), index);
        }
        let log = Log::default();
        let check = Check { document: &document, log: &log, directory: &self.directory };
        let scenario = read(&document, &log).and_then(|settings| settings.resolve(check));
        let source = Source { file: &self.name, text: &self.text, document: &document, overrides };
        match (log.into_problems(&source), scenario) {
            (Some(problems), _) => Err(problems),
            (None, Some(scenario)) => Ok(scenario),
            (None, None) => {
                let what = "it is wrong in a way that has no message";
                Err(Problem::new(&self.name, what, "report this as a bug of forebay").into())
            }
        }
    }
}

/// The names of what is written in a table of names.
fn names<T>(settings: &Named<T>) -> Vec<&str> {
    settings.0.iter().map(|(name, _)| name.as_str()).collect()
}

/// The parts of a list that are right, or `None` where one is wrong.
fn all<T>(parts: Vec<Option<T>>) -> Option<Vec<T>> {
    parts.into_iter().collect()
}

impl ScenarioSettings {
    fn resolve(&self, check: Check<'_>) -> Option<Scenario> {
        self.check_missing(check);
        self.check_amount(check);
        let run = self.run.given().and_then(|(at, run)| run.resolve(check, at));
        let cluster = self.cluster.given().and_then(|(at, cluster)| cluster.resolve(check, at));
        let (no_storage, no_dataset) = (Named::default(), Named::default());
        let storage_settings = self.storage.get().unwrap_or(&no_storage);
        let dataset_settings = self.dataset.get().unwrap_or(&no_dataset);
        let storage = storage::resolve(check, storage_settings);
        let datasets = dataset::resolve(check, dataset_settings);
        let storage_names = names(storage_settings);
        let around = Around {
            cluster: cluster.as_ref(),
            storage_names: &storage_names,
            storage: &storage,
            dataset_names: &names(dataset_settings),
            datasets: &datasets,
        };
        let jobs: Vec<_> = entries(&self.job)
            .iter()
            .map(|field| field.given().and_then(|(at, job)| job.resolve(check, at, around)))
            .collect();
        let background = self.background(check, &storage_names);
        self.check_nodes(check);
        self.check_names(check);
        self.check_size(check, run.as_ref(), &jobs, &datasets);
        Some(Scenario {
            name: self.name.get()?.clone(),
            run: run?,
            cluster: cluster?,
            storage: all(storage)?,
            datasets: all(datasets)?,
            jobs: all(jobs)?,
            background: all(background)?,
        })
    }

    fn background(&self, check: Check<'_>, storage: &[&str]) -> Vec<Option<Background>> {
        entries(&self.background)
            .iter()
            .map(|field| field.given().and_then(|(at, load)| load.resolve(check, at, storage)))
            .collect()
    }

    fn check_missing(&self, check: Check<'_>) {
        check.required(ROOT, &self.name, "name", "write `name = \"my-scenario\"` first");
        check.required(ROOT, &self.run, "run", "write `[run]` with `steps = 500`");
        check.required(ROOT, &self.cluster, "cluster", "write `[cluster]` with `nodes = 16`");
        let remedy = "write `[storage.NAME.file-server]` with `bandwidth = \"2 GB/s\"`";
        check.required(ROOT, &self.storage, "storage", remedy);
        let remedy = "write `[dataset.NAME]` with `samples` and `sample_size`";
        check.required(ROOT, &self.dataset, "dataset", remedy);
        check.required(ROOT, &self.job, "job", "write `[[job]]`");
        if let Some((at, jobs)) = self.job.given()
            && jobs.0.is_empty()
        {
            check.wrong(at, "there is no job", "write `[[job]]`");
        }
    }

    fn check_amount(&self, check: Check<'_>) {
        let too_many = |at: Option<NodeId>, number: usize| {
            if let (Some(at), true) = (at, number > MOST_ENTRIES) {
                let what = format!("there are {number} entries here");
                check.wrong(at, what, format!("write at most {MOST_ENTRIES}; jobs have `copies`"));
            }
        };
        too_many(self.storage.at, self.storage.get().map_or(0, |named| named.0.len()));
        too_many(self.dataset.at, self.dataset.get().map_or(0, |named| named.0.len()));
        too_many(self.job.at, entries(&self.job).len());
        too_many(self.background.at, entries(&self.background).len());
    }

    /// Each job copy has nodes of its own.
    fn check_nodes(&self, check: Check<'_>) {
        let Some((at, nodes)) = self.cluster.get().and_then(ClusterSettings::nodes) else {
            return;
        };
        let mut used = 0;
        for field in entries(&self.job) {
            let Some((job, settings)) = field.given() else { continue };
            let copies = settings.copies.get().map_or(1, |copies| copies.0);
            let nodes_each = settings.nodes.get().map_or(1, |nodes| nodes.0);
            used += copies * nodes_each;
            if used > nodes {
                let at = check.blame(&[settings.copies.at, settings.nodes.at, Some(at)], job);
                let what = format!(
                    "{copies} copies on {nodes_each} nodes each, with the jobs before, need {used} \
                     nodes, and the cluster has {nodes}"
                );
                let remedy = "write fewer copies or nodes, or more `cluster.nodes`";
                check.wrong(at, what, remedy);
                return;
            }
        }
    }

    fn check_names(&self, check: Check<'_>) {
        let jobs = entries(&self.job).iter().filter_map(|job| job.get()?.name.given());
        let loads = entries(&self.background).iter().filter_map(|load| load.get()?.name.given());
        for names in [jobs.collect::<Vec<_>>(), loads.collect()] {
            for (index, &(at, name)) in names.iter().enumerate().take(MOST_ENTRIES) {
                if name.trim().is_empty() {
                    check.wrong(at, "the name is empty", "write a name");
                } else if names.iter().take(index).any(|(_, other)| *other == name) {
                    check.wrong(at, format!("the name {name:?} is taken"), "write another name");
                }
            }
        }
    }

    /// A scenario must fit into memory.
    fn check_size(
        &self,
        check: Check<'_>,
        run: Option<&Run>,
        jobs: &[Option<Job>],
        datasets: &[Option<super::Dataset>],
    ) {
        let (mut actors, mut steps) = (0_u64, 0.0);
        for job in jobs.iter().flatten() {
            let workers: u64 = job.loader.stages.iter().map(|stage| u64::from(stage.workers)).sum();
            let each = workers + u64::from(job.copies_per_node);
            let nodes = u64::from(job.copies) * u64::from(job.nodes);
            actors = actors.saturating_add(nodes.saturating_mul(each));
            let dataset = datasets.get(job.dataset).and_then(Option::as_ref);
            steps += f64::from(job.copies) * steps_of(run, job, dataset);
        }
        if actors > MOST_ACTORS {
            let what = format!("all jobs have {actors} workers and model copies together");
            let at = self.job.at.unwrap_or(ROOT);
            check.wrong(at, what, format!("write jobs with at most {MOST_ACTORS} in all"));
        }
        #[expect(clippy::cast_precision_loss, reason = "the limit is a round number")]
        let most_steps = MOST_STEPS as f64;
        if steps > most_steps {
            let written = self.run.get().map(|run| [run.steps.at, run.epochs.at]);
            let at = check.blame(&written.unwrap_or_default(), self.run.at.unwrap_or(ROOT));
            let what = format!("all job copies make {steps:.0} steps together");
            check.wrong(
                at,
                what,
                format!("write fewer steps or epochs: at most {MOST_STEPS} in all"),
            );
        }
    }
}

/// Steps of one copy of a job, as far as they are known before it runs.
#[expect(clippy::cast_precision_loss, reason = "a limit is checked, not a number counted")]
fn steps_of(run: Option<&Run>, job: &Job, dataset: Option<&super::Dataset>) -> f64 {
    match (run.map(|run| run.stop), dataset) {
        (Some(Stop::Steps(steps)), _) => steps as f64,
        (Some(Stop::Epochs(epochs)), Some(dataset)) => {
            let interval = match job.batch_interval {
                super::BatchInterval::Every(steps) => steps,
                super::BatchInterval::Adaptive { max, .. } => max as f64,
            };
            let models = f64::from(job.nodes) * f64::from(job.copies_per_node);
            epochs * dataset.samples as f64 / (job.batch as f64 * models) * interval
        }
        _ => 0.0,
    }
}

fn entries<T>(field: &Field<List<T>>) -> &[Field<T>] {
    field.get().map_or(&[], |list| &list.0)
}
