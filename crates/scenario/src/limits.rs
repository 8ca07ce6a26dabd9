//! What must hold for a scenario as a whole, and what fits into memory.

use super::check::Check;
use super::cluster::ClusterSettings;
use super::document::{NodeId, ROOT};
use super::field::{Field, Named};
use super::job::settings::JobSettings;
use super::run::MOST_STEPS;
use super::settings::{ScenarioSettings, entries};
use super::tiers::Parts;
use super::{BatchInterval, CacheUnit, Dataset, Job, Run, Stop};

/// Most storages, data sets, jobs and background loads, of each.
pub(super) const MOST_ENTRIES: usize = 1000;
/// What may have that many.
pub(super) const LISTS: [&str; 5] = ["storage", "dataset", "job", "background", "fault"];
/// Most workers and model copies of a whole scenario, each with all of its threads.
const MOST_ACTORS: u64 = 10_000_000;
/// Most units that page caches tell apart that are there by default.
pub(super) const MOST_ASSUMED_UNITS: u64 = 1 << 26;
/// Most units that caches tell apart: of one node, and of all; each takes up to 12 bytes of our
/// own memory.
const MOST_UNITS: u64 = 1 << 30;

/// What is wrong with so many entries, and a remedy.
pub(super) fn too_many_entries(number: usize) -> (String, String) {
    let what = format!("there are {number} entries here, and at most {MOST_ENTRIES} are read");
    (what, format!("write at most {MOST_ENTRIES}; jobs that are alike are one with `copies`"))
}

impl ScenarioSettings {
    /// `None` where there is more of something than is worth looking at.
    pub(super) fn check_amount(&self, check: Check<'_>) -> Option<()> {
        let amounts = [
            (self.storage.at, self.storage.get().map_or(0, |named| named.0.len())),
            (self.dataset.at, self.dataset.get().map_or(0, |named| named.0.len())),
            (self.job.at, entries(&self.job).len()),
            (self.background.at, entries(&self.background).len()),
            (self.fault.at, entries(&self.fault).len()),
        ];
        for (at, number) in amounts.into_iter().filter(|(_, number)| *number > MOST_ENTRIES) {
            let (what, remedy) = too_many_entries(number);
            check.wrong(at.unwrap_or(ROOT), what, remedy);
        }
        amounts.iter().all(|(_, number)| *number <= MOST_ENTRIES).then_some(())
    }

    /// Each job copy has nodes of its own, or all share the first ones.
    pub(super) fn check_nodes(&self, check: Check<'_>) {
        let Some((at, nodes)) = self.cluster.get().and_then(ClusterSettings::nodes) else {
            return;
        };
        let shared = self.cluster.get().is_some_and(ClusterSettings::share_nodes);
        let mut used = 0;
        for field in entries(&self.job) {
            let Some((job, settings)) = field.given() else { continue };
            let copies = settings.copies.get().map_or(1, |copies| copies.0);
            let nodes_each = settings.nodes.get().map_or(1, |nodes| nodes.0);
            used = if shared { used.max(nodes_each) } else { used + copies * nodes_each };
            if used > nodes {
                let at = check.blame(&[settings.copies.at, settings.nodes.at, Some(at)], job);
                let what = format!(
                    "{copies} copies on {nodes_each} nodes each, with the jobs before, need {used} \
                     nodes, and the cluster has {nodes}"
                );
                let remedy = "write fewer copies or nodes, more `cluster.nodes`, or `cluster.share_nodes = true` if all are on the same nodes";
                check.wrong(at, what, remedy);
                return;
            }
        }
    }

    /// The node that the first copy of each job begins on.
    pub(super) fn first_nodes(&self) -> Vec<u32> {
        let shared = self.cluster.get().is_some_and(ClusterSettings::share_nodes);
        let used = |field: &Field<JobSettings>| {
            let count = |field: Option<u64>| field.unwrap_or(1);
            let job = field.get();
            let copies = count(job.and_then(|job| job.copies.get()).map(|copies| copies.0));
            let nodes = count(job.and_then(|job| job.nodes.get()).map(|nodes| nodes.0));
            if shared { 0 } else { copies * nodes }
        };
        let firsts = entries(&self.job).iter().scan(0_u64, |next, field| {
            let first = *next;
            *next = next.saturating_add(used(field));
            Some(u32::try_from(first).unwrap_or(u32::MAX))
        });
        firsts.collect()
    }

    /// Names are fit to be shown, and tell things of one sort apart.
    pub(super) fn check_names(&self, check: Check<'_>) {
        let jobs = entries(&self.job).iter().filter_map(|job| job.get()?.name.given());
        let loads = entries(&self.background).iter().filter_map(|load| load.get()?.name.given());
        for names in [jobs.collect::<Vec<_>>(), loads.collect()] {
            for (index, &(at, name)) in names.iter().enumerate() {
                if names.iter().take(index).any(|(_, other)| *other == name) {
                    check.wrong(at, format!("the name {name:?} is taken"), "write another name");
                }
                check.name(at, name);
            }
        }
        if let Some((at, name)) = self.name.given() {
            check.name(at, name);
        }
        named(&self.storage)
            .chain(named(&self.dataset))
            .for_each(|(at, name)| check.name(at, name));
    }

    /// A scenario must fit into memory.
    pub(super) fn check_size(
        &self,
        check: Check<'_>,
        run: Option<&Run>,
        jobs: &[Option<Job>],
        datasets: &[Option<Dataset>],
    ) {
        let (mut actors, mut steps) = (0_u64, 0.0);
        for job in jobs.iter().flatten() {
            let workers: u64 = job.loader.stages.iter().map(|stage| u64::from(stage.workers)).sum();
            let dataset = datasets.get(job.dataset).and_then(Option::as_ref);
            // A worker has its requests beside it.
            let ahead = dataset.and_then(|dataset| dataset.ranges).map_or(0, |of| of.readahead);
            let workers = workers.saturating_mul(1 + u64::from(ahead));
            let workers = workers.saturating_mul(u64::from(job.loaders_per_node()));
            let inner = job.cpu.inner.map_or(1, |inner| u64::from(inner.threads));
            let trainers = job.launch.as_ref().map_or(1, |launch| u64::from(launch.threads));
            let trainers = trainers.saturating_mul(u64::from(job.copies_per_node));
            let trainers = trainers.saturating_mul(u64::from(job.learners.most));
            let each = workers.saturating_mul(inner).saturating_add(trainers);
            let nodes = u64::from(job.copies) * u64::from(job.nodes);
            actors = actors.saturating_add(nodes.saturating_mul(each));
            steps += f64::from(job.copies) * steps_of(run, job, dataset);
        }
        if actors > MOST_ACTORS {
            let what = format!(
                "all jobs have {actors} workers and model copies together, with their requests ahead"
            );
            let at = self.job.at.unwrap_or(ROOT);
            check.wrong(at, what, format!("write jobs with at most {MOST_ACTORS} in all"));
        }
        #[expect(clippy::cast_precision_loss, reason = "the limit is a round number")]
        let most_steps = MOST_STEPS as f64;
        if steps > most_steps {
            let written = self.run.get().map(|run| [run.steps.at, run.epochs.at, run.duration.at]);
            let at = check.blame(&written.unwrap_or_default(), self.run.at.unwrap_or(ROOT));
            let what = format!("all job copies make up to {steps:.0} steps together");
            check.wrong(
                at,
                what,
                format!("write a shorter run: at most {MOST_STEPS} steps in all"),
            );
        }
    }
}

impl ScenarioSettings {
    /// What page caches, caches on tiers and decoded samples hold can be kept in our own memory.
    pub(super) fn check_caches(&self, check: Check<'_>, parts: Parts<'_>) {
        let cluster = self.cluster.get();
        let page_cache = cluster.and_then(ClusterSettings::page_cache);
        let shared = cluster.is_some_and(ClusterSettings::share_nodes);
        let each = units_of_node(parts, page_cache.is_some());
        let all = each.saturating_mul(nodes(parts, shared)).saturating_add(decoded(parts));
        if all > MOST_UNITS {
            let caches = parts.storage.iter().flatten().filter(|storage| storage.cache.is_some());
            let tier = caches.map(|of| check.find(&["storage", &of.name])).next().flatten();
            let at = page_cache.or(tier).or(self.job.at).unwrap_or(ROOT);
            let what = format!("the caches would have to tell {all} files and requests apart");
            let remedy = format!(
                "write fewer samples, larger requests or fewer nodes: at most {MOST_UNITS} in all"
            );
            check.wrong(at, what, remedy);
        }
    }
}

/// Units that the page caches of all nodes tell apart.
pub(super) fn page_units(parts: Parts<'_>, shared: bool) -> u64 {
    units_of_page_cache(parts).saturating_mul(nodes(parts, shared))
}

/// Units that the page cache of one node tells apart.
fn units_of_page_cache(parts: Parts<'_>) -> u64 {
    let units = |dataset: &Dataset| dataset.places().saturating_mul(dataset.units_per_place());
    parts.datasets.iter().flatten().map(units).fold(0, u64::saturating_add)
}

/// Units that the caches of one node tell apart.
fn units_of_node(parts: Parts<'_>, page_cache: bool) -> u64 {
    let sum = |of: fn(&Dataset) -> u64| {
        parts.datasets.iter().flatten().map(of).fold(0, u64::saturating_add)
    };
    let files = sum(Dataset::files);
    let pages = units_of_page_cache(parts);
    let on_tiers = parts.storage.iter().flatten().filter_map(|storage| storage.cache);
    let on_tiers = on_tiers.map(|cache| match cache.unit {
        CacheUnit::File => files,
        CacheUnit::Page => pages,
    });
    on_tiers.chain(page_cache.then_some(pages)).fold(0, u64::saturating_add)
}

/// Nodes that have caches; 1 at least.
fn nodes(parts: Parts<'_>, shared: bool) -> u64 {
    let jobs = parts.jobs.iter().flatten();
    let nodes = if shared {
        jobs.map(|job| u64::from(job.nodes)).max()
    } else {
        Some(jobs.map(|job| u64::from(job.copies) * u64::from(job.nodes)).sum())
    };
    nodes.unwrap_or(0).max(1)
}

/// Samples that all nodes keep decoded, at most.
fn decoded(parts: Parts<'_>) -> u64 {
    let keep = parts.jobs.iter().flatten().filter(|job| job.decoded_cache.is_some());
    keep.fold(0, |sum: u64, job| {
        let dataset = parts.datasets.get(job.dataset).and_then(Option::as_ref);
        let nodes = u64::from(job.copies) * u64::from(job.nodes);
        sum.saturating_add(dataset.map_or(0, |of| of.samples).saturating_mul(nodes))
    })
}

/// Steps of one copy of a job, as far as they are known before it runs.
#[expect(clippy::cast_precision_loss, reason = "a limit is checked, not a number counted")]
fn steps_of(run: Option<&Run>, job: &Job, dataset: Option<&Dataset>) -> f64 {
    match (job.stop.or(run.map(|run| run.stop)), dataset) {
        (Some(Stop::Steps(steps)), _) => steps as f64,
        (Some(Stop::Epochs(epochs)), Some(dataset)) => {
            let interval = match job.batch_interval {
                BatchInterval::Every(steps) => steps,
                BatchInterval::Adaptive { max, .. } => max as f64,
            };
            let models = match job.learners.tuning {
                None => f64::from(job.models()),
                Some(_) => f64::from(job.ranks()),
            };
            epochs * dataset.samples as f64 / (job.batch as f64 * models) * interval
        }
        (Some(Stop::Duration(duration)), _) => duration / job.step_seconds().max(1e-12),
        _ => 0.0,
    }
}

/// The names of a table of names, with their nodes.
fn named<T>(field: &Field<Named<T>>) -> impl Iterator<Item = (NodeId, &str)> {
    let members = field.get().map_or(&[][..], |named| &named.0);
    members.iter().filter_map(|(name, field)| Some((field.at?, name.as_str())))
}
