//! Settings of a scenario file, and how they become a [`Scenario`].

use super::assumed::Origins;
use super::background::BackgroundSettings;
use super::check::Check;
use super::cluster::ClusterSettings;
use super::dataset::{self, DatasetSettings};
use super::document::{Document, ROOT};
use super::dotted::split_key;
use super::fault::FaultSettings;
use super::fidelity::FidelitySettings;
use super::field::{Field, List, Named};
use super::file::ScenarioFile;
use super::idle;
use super::job::settings::{Around, JobSettings};
use super::job::workflow::endless;
use super::misplaced::with_tables_in_place;
use super::overrides::Override;
use super::plan::PlanSettings;
use super::prices::{Bought, PricesSettings};
use super::problem::{Log, Problem, Problems, Source};
use super::reader::Reader;
use super::reading::Reading;
use super::run::RunSettings;
use super::storage::settings::{self as storage, StorageSettings};
use super::sweep::AxisSettings;
use super::tiers::Parts;
use crate::role::Role;

use super::{
    Background, Cluster, Dataset, Fault, Job, Layout, Operation, Run, RunFidelity, Scenario, Stage,
    Storage,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// A scenario: training jobs on a cluster, and the question of how fast they train.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "forebay scenario")]
pub(super) struct ScenarioSettings {
    /// Name, for reports and figures.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) name: Field<String>,
    /// File with the measurements of a machine, looked up beside the scenario: its values are the defaults of keys that the
    /// scenario leaves out (default: none).
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) profile: Field<String>,
    /// Length, replications and seed of the run (default: one replication, until the throughput of every job is known to 0.5 %).
    #[schemars(extend("x-role" = Role::Output))]
    pub(super) run: Field<RunSettings>,
    /// What a run simulates, and what it leaves out (default: all nodes; steps that repeat exactly are left out).
    #[schemars(extend("x-role" = Role::Output))]
    pub(super) fidelity: Field<FidelitySettings>,
    /// Nodes and their network.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) cluster: Field<ClusterSettings>,
    /// Storages that data sets are read from, by name.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) storage: Field<Named<StorageSettings>>,
    /// Data sets that jobs read, by name.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) dataset: Field<Named<DatasetSettings>>,
    /// Training jobs.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) job: Field<List<JobSettings>>,
    /// Loads on storages that do not come from the jobs (default: nobody).
    #[schemars(extend("x-role" = Role::Limit))]
    pub(super) background: Field<List<BackgroundSettings>>,
    /// Faults: parts of the cluster that are slower than they should be, for a while (default: nothing).
    #[schemars(extend("x-role" = Role::Limit))]
    pub(super) fault: Field<List<FaultSettings>>,
    /// Keys whose numbers were measured rather than taken from data sheets or guessed, such as `["cluster.network.nic"]`: `forebay run` then
    /// does not simulate them with what publications reached (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    pub(super) achieved: Field<List<String>>,
    /// Prices of the cluster, from which reports say what it costs to train (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    pub(super) prices: Field<PricesSettings>,
    /// What `forebay plan` is to decide. Only `plan` and `compare` read it (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    pub(super) plan: Field<PlanSettings>,
    /// Values that `forebay sweep` gives to keys: a list (`"job.batch" = [32, 64]`), a range (`{ from = 32, to = 512, steps = 5, scale = "log" }`), or
    /// values with a condition (`{ values = [2, 8], when = { "job.batch" = [32] } }`). Keys that change together stand in one line, with
    /// commas. `sample` draws points from ranges without `steps`: `{ sobol = 64 }` or `{ latin-hypercube = 100, seed = 1 }`. Only `sweep`
    /// reads it (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    pub(super) sweep: Field<Named<AxisSettings>>,
}

/// Returns the JSON Schema of a scenario file, made from the types that read it.
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(ScenarioSettings).to_value()
}

/// Reads the settings of a document; mistakes are recorded, and the values with mistakes are missing from the settings.
pub(super) fn read(document: &Document, log: &Log) -> Option<ScenarioSettings> {
    ScenarioSettings::deserialize(Reader::new(document, ROOT, log)).ok()
}

impl ScenarioFile {
    /// Returns the scenario that the file describes, with these overrides.
    ///
    /// # Errors
    /// If anything is wrong or contradictory in the file, in the overrides, or in the files of values that they name; reports all
    /// of it.
    pub fn resolve(&self, overrides: &[Override]) -> Result<Scenario, Problems> {
        self.resolve_as(overrides, Reading::default())
    }

    /// Returns the scenario that the file describes, with these overrides, read with the options `reading`.
    ///
    /// # Errors
    /// As [`ScenarioFile::resolve`].
    pub fn resolve_as(
        &self,
        overrides: &[Override],
        reading: Reading<'_>,
    ) -> Result<Scenario, Problems> {
        let document = self.changed(overrides);
        let log = Log::default();
        let scenario = self.examine((&document, overrides), reading, &log);
        let problems = log.number();
        for job in log.take_too_large() {
            let remedy = self.remedy(&job, (&document, overrides), reading, problems);
            log.value(job.at, &job.what, remedy);
        }
        let source = Source { file: &self.name, text: &self.text, document: &document, overrides };
        let (remarks, notes) = (log.take_remarks(), log.take_notes());
        let assumed = log.take_assumed();
        let why_uncached = idle::no_page_cache(&assumed).map(str::to_owned);
        // The defaults of a scenario that is refused are not needed.
        let origins = match log.is_empty() {
            true => Origins::new(document.clone(), assumed),
            false => Origins::default(),
        };
        let scenario = scenario.map(|scenario| Scenario { remarks, notes, origins, ..scenario });
        match (log.into_problems(&source), scenario) {
            (Some(problems), _) => {
                let problems = self.by_removals(problems, overrides, reading);
                Err(self.with_whole_keys(problems, overrides, reading))
            }
            (None, Some(mut scenario)) => {
                if !reading.live {
                    let remarks = [
                        scenario.idle_gpus(),
                        scenario.crowded_gpus(),
                        scenario.small_page_caches(),
                        scenario.uncached(why_uncached.as_deref()),
                    ];
                    scenario.remarks.extend(remarks.concat());
                }
                Ok(scenario)
            }
            (None, None) => {
                let what = "the scenario is invalid, but no reason was found";
                Err(Problem::new(&self.name, what, "report this as a bug of forebay").into())
            }
        }
    }
}

impl ScenarioFile {
    /// Reads a document and records its problems; returns the scenario if nothing is missing.
    pub(super) fn examine(
        &self,
        (document, overrides): (&Document, &[Override]),
        reading: Reading<'_>,
        log: &Log,
    ) -> Option<Scenario> {
        let corrected = with_tables_in_place(document, log);
        let document = corrected.as_ref().unwrap_or(document);
        let named = match reading.profile {
            Some(_) => None,
            None => self.named_profile(document, log),
        };
        let unread = named.as_ref().is_some_and(Option::is_none);
        let named = named.flatten();
        self.check_overrides(document, overrides, log);
        document.old_names().for_each(|remark| log.remark(remark.clone()));
        let check = Check {
            document,
            log,
            directory: &self.directory,
            values: &self.values,
            profile: reading.profile.or(named.as_deref()),
            // Values that an unreadable profile would have given are not reported as missing.
            lenient: reading.live || unread,
        };
        read(document, log).and_then(|settings| settings.resolve(check))
    }
}

/// Returns the names that the user has given to the tables in `settings`.
fn names<T>(settings: &Named<T>) -> Vec<&str> {
    settings.0.iter().map(|(name, _)| name.as_str()).collect()
}

/// Returns the values of all `parts`; `None` if a part is `None` because it is invalid.
fn all<T>(parts: Vec<Option<T>>) -> Option<Vec<T>> {
    parts.into_iter().collect()
}

impl ScenarioSettings {
    fn resolve(&self, check: Check<'_>) -> Option<Scenario> {
        self.check_missing(check);
        self.check_amount(check)?;
        let run = match self.run.at {
            None => Some(Run::default()),
            Some(_) => self.run.given().and_then(|(at, run)| run.resolve(check, at)),
        };
        let cluster = self.cluster.given().and_then(|(at, cluster)| cluster.resolve(check, at));
        let (no_storage, no_dataset) = (Named::default(), Named::default());
        let storage_settings = self.storage.get().unwrap_or(&no_storage);
        let dataset_settings = self.dataset.get().unwrap_or(&no_dataset);
        let datasets = dataset::resolve(check, dataset_settings);
        let storage_names = names(storage_settings);
        let dataset_names = names(dataset_settings);
        let layout = |storage: &str| self.layout_on(storage, &dataset_names, &datasets);
        let storage = storage::resolve(check, storage_settings, layout);
        let measured = storage::asks_profile(storage_settings);
        let job_names: Vec<_> = entries(&self.job)
            .iter()
            .map(|job| job.get()?.name.get().map(String::as_str))
            .collect();
        let around = Around {
            cluster: cluster.as_ref(),
            first_node: 0,
            storage_names: &storage_names,
            storage: &storage,
            dataset_names: &dataset_names,
            datasets: &datasets,
            job_names: &job_names,
            measured: &measured,
        };
        let jobs: Vec<_> = entries(&self.job)
            .iter()
            .zip(self.first_nodes())
            .map(|(field, first_node)| {
                let (at, job) = field.given()?;
                job.resolve(check, at, Around { first_node, ..around })
            })
            .collect();
        let background = self.background(check, &storage_names, &storage);
        let achieved = achieved(&self.achieved, check);
        self.check_order(check, run.as_ref(), &jobs);
        self.check_nodes(check);
        self.check_names(check);
        self.check_size(check, run.as_ref(), &jobs, &datasets);
        let on = cluster.as_ref();
        let parts = Parts {
            cluster: on,
            storage: &storage,
            datasets: &datasets,
            jobs: &jobs,
            measured: &measured,
        };
        let faults = self.faults(check, &storage_names, parts);
        self.check_tiers(check, parts);
        self.check_own_limits(check, parts, layout);
        self.check_warm(check, parts);
        self.check_caches(check, parts);
        self.remark_links(check, parts);
        self.remark_unequal_shares(check, parts);
        let bounded = self.bound_page_caches(check, parts);
        let slowed = bounded.map(|cluster| Self::slow_copies(check, parts, cluster));
        let (cluster, storage, datasets, jobs) =
            (slowed?, all(storage)?, all(datasets)?, all(jobs)?);
        let bought =
            Bought { cluster: &cluster, storage: &storage, datasets: &datasets, jobs: &jobs };
        let prices = match self.prices.given() {
            None if self.prices.is_written() => return None,
            None => None,
            Some((at, prices)) => Some(prices.resolve(check, at, bought)?),
        };
        let scenario = Scenario {
            name: self.name.get()?.clone(),
            run: run?,
            fidelity: RunFidelity::default(),
            prices,
            cluster,
            storage,
            datasets,
            jobs,
            background: all(background)?,
            faults: all(faults)?,
            achieved: achieved?,
            remarks: Vec::new(),
            notes: Vec::new(),
            origins: Origins::default(),
        };
        let fidelity = self.fidelity.get().map(|fidelity| fidelity.resolve(check, &scenario));
        Some(Scenario { fidelity: fidelity.unwrap_or_default(), ..scenario })
    }

    /// Returns the name of the layout in which jobs read data from `storage`: "records" if at least one of the data sets there
    /// has records.
    fn layout_on(
        &self,
        storage: &str,
        names: &[&str],
        datasets: &[Option<Dataset>],
    ) -> &'static str {
        let jobs = entries(&self.job).iter().filter_map(|field| field.get()?.reads_on(storage));
        let there = jobs.filter_map(|dataset| {
            let index = names.iter().position(|name| *name == dataset)?;
            datasets.get(index)?.as_ref()
        });
        let layouts = there.map(|dataset| dataset.layout.name());
        layouts.max().unwrap_or(Layout::FilePerSample.name())
    }

    fn background(
        &self,
        check: Check<'_>,
        names: &[&str],
        storage: &[Option<Storage>],
    ) -> Vec<Option<Background>> {
        let resolve = |field: &Field<BackgroundSettings>| {
            let (at, load) = field.given()?;
            load.resolve(check, at, names, storage)
        };
        entries(&self.background).iter().map(resolve).collect()
    }

    fn faults(&self, check: Check<'_>, names: &[&str], parts: Parts<'_>) -> Vec<Option<Fault>> {
        let resolve = |field: &Field<FaultSettings>| {
            let (at, fault) = field.given()?;
            fault.resolve(check, at, names, parts)
        };
        entries(&self.fault).iter().map(resolve).collect()
    }

    /// Returns the cluster with the bandwidth of copies to devices that the profile measured beside as many decoding threads as the
    /// jobs have on a node. Nodes keep a bandwidth that the scenario writes.
    fn slow_copies(check: Check<'_>, parts: Parts<'_>, mut cluster: Cluster) -> Cluster {
        let Some(profile) = check.profile else { return cluster };
        let datasets = |job: &Job| parts.datasets.get(job.dataset)?.as_ref();
        let jobs = parts.jobs.iter().flatten().filter(|job| job.copies_to_devices());
        let decoders =
            jobs.filter_map(|job| Some(decoders(job, datasets(job)?))).max().unwrap_or(0);
        let written = |path: &[&str]| check.find(path).is_some();
        if decoders == 0 || written(&["cluster", "node", "pcie"]) {
            return cluster;
        }
        let groups = cluster.groups.iter_mut();
        let groups = groups.filter(|of| !written(&["cluster", "group", &of.name, "node", "pcie"]));
        for node in [&mut cluster.node].into_iter().chain(groups.map(|group| &mut group.node)) {
            // More threads than cores do not decode at the same time.
            if let Some(slow) = profile.copy_bandwidth(decoders.min(node.cores)) {
                node.pcie = slow;
            }
        }
        cluster
    }

    /// Checks that every job that waits for other jobs eventually begins.
    fn check_order(&self, check: Check<'_>, run: Option<&Run>, jobs: &[Option<Job>]) {
        let Some(index) = endless(run, jobs) else { return };
        let settings = entries(&self.job).get(index).and_then(Field::get);
        let at = settings.and_then(JobSettings::after_at).or(self.job.at).unwrap_or(ROOT);
        let what =
            "the job never begins: a job that it waits for never ends, or waits for this one";
        let remedy = "name jobs that end by `steps` or `epochs` and do not wait for this one";
        check.wrong(at, what, remedy);
    }

    fn check_missing(&self, check: Check<'_>) {
        check.required(ROOT, &self.name, "name", "write `name = \"my-scenario\"` first");
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
}

/// Returns the elements of an array; an empty slice if the array is missing.
pub(super) fn entries<T>(field: &Field<List<T>>) -> &[Field<T>] {
    field.get().map_or(&[], |list| &list.0)
}

/// Returns the number of threads that decode images for one job copy on a node.
fn decoders(job: &Job, dataset: &Dataset) -> u32 {
    let decodes = |stage: &&Stage| {
        let mut work = stage.per_sample.iter().chain(&stage.per_item);
        work.any(|operation| matches!(operation, Operation::Decode(_)))
    };
    let workers = job.loader.stages.iter().filter(decodes).map(|stage| stage.workers);
    dataset.image.map_or(0, |_| workers.sum::<u32>().saturating_mul(job.loaders_per_node()))
}

/// Returns the keys, each as `--set` takes it for one job or storage; `None` if the list is wrong. That a key is not set is no mistake,
/// because a change may remove it.
fn achieved(field: &Field<List<String>>, check: Check<'_>) -> Option<Vec<String>> {
    let Some((_, list)) = field.given() else {
        return (!field.is_written()).then(Vec::new);
    };
    let (mut found, mut not_set) = (Vec::new(), Vec::new());
    for entry in &list.0 {
        let key = entry.get()?;
        let at = split_key(key).map_or_else(Vec::new, |path| check.document.find(&path));
        if at.is_empty() {
            not_set.push(key.as_str());
        }
        found.extend(at.into_iter().map(|id| check.document.path(id)));
    }
    if let Some(first) = not_set.first() {
        let more = not_set.len() - 1;
        let others = if more > 0 { format!(" and {more} more keys") } else { String::new() };
        let verb = if more > 0 { "are not set: they have" } else { "which is not set: it has" };
        let comma = if more > 0 { " that" } else { "," };
        check.remark(format!("`achieved` names `{first}`{others}{comma} {verb} no effect."));
    }
    Some(found)
}
