//! Limits of a scenario as a whole: its names, its nodes, and what fits into memory.

use super::check::Check;
use super::cluster::ClusterSettings;
use super::document::{NodeId, ROOT};
use super::field::{Field, Named};
use super::job::settings::JobSettings;
use super::run::MOST_STEPS;
use super::settings::{ScenarioSettings, entries};
use super::tiers::Parts;
use super::{BatchInterval, CacheUnit, Dataset, Job, Node, Run, Stop};
use std::collections::BTreeSet;

/// Maximum number of entries in each list of a scenario: storages, data sets, jobs, background loads and faults.
pub(super) const MOST_ENTRIES: usize = 1000;
/// Keys of the lists that may have at most [`MOST_ENTRIES`] entries.
pub(super) const LISTS: [&str; 5] = ["storage", "dataset", "job", "background", "fault"];
/// Maximum number of workers and model copies of a whole scenario. Each of their threads counts, and so does each request that a
/// worker reads ahead.
const MOST_ACTORS: u64 = 10_000_000;
/// Largest number of units (files and requests) that default page caches may track.
pub(super) const MOST_ASSUMED_UNITS: u64 = 1 << 26;
/// Largest number of units (files and requests) that the caches of all nodes may track; each takes up to 12 bytes of this
/// program's memory.
const MOST_UNITS: u64 = 1 << 30;

/// Returns the problem that a list has `number` entries, which is too many, and a remedy.
pub(super) fn too_many_entries(number: usize) -> (String, String) {
    let what = format!("there are {number} entries here, and at most {MOST_ENTRIES} are read");
    (what, format!("write at most {MOST_ENTRIES}; write equal jobs as one job with `copies`"))
}

impl ScenarioSettings {
    /// Checks that no list of the scenario has too many entries; `None` if one has.
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

    /// Checks that the cluster has enough nodes: each job copy has its own nodes, or all copies share the first ones.
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
                let of_each = if nodes_each == 1 { "node" } else { "nodes" };
                let what = format!(
                    "{copies} copies on {nodes_each} {of_each} each, with the jobs before, need {used} \
                     nodes, and the cluster has {nodes}"
                );
                let remedy = "write fewer copies or nodes, more `cluster.nodes`, or `cluster.share_nodes = true` if all are on the same nodes";
                check.wrong(at, what, remedy);
                return;
            }
        }
    }

    /// Returns, for each job, the first node of its first copy.
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

    /// Checks that no name is empty, too long or has control characters, and that no two jobs and no two background loads have
    /// the same name.
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

    /// Checks that the workers, model copies and steps of a scenario fit into memory.
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
            // A worker's requests ahead count like further workers.
            let ahead = dataset.and_then(|dataset| dataset.ranges).map_or(0, |of| of.readahead);
            let workers = workers.saturating_mul(1 + u64::from(ahead));
            let workers = workers.saturating_mul(u64::from(job.loaders_per_node()));
            let inner = job.cpu.inner.map_or(1, |inner| u64::from(inner.threads));
            let launches = job.launch.as_ref().map(|launch| u64::from(launch.threads));
            let trainers = launches.map_or(1, |of| of.saturating_mul(job.gpus_per_copy()));
            let trainers = trainers.saturating_mul(u64::from(job.copies_per_node));
            let trainers = trainers.saturating_mul(u64::from(job.learners.most));
            let each = workers.saturating_mul(inner).saturating_add(trainers);
            let nodes = u64::from(job.copies) * u64::from(job.nodes);
            actors = actors.saturating_add(nodes.saturating_mul(each));
            steps += f64::from(job.copies) * steps_of(run, job, dataset);
        }
        if actors > MOST_ACTORS {
            let what = format!(
                "all jobs together have {actors} workers and model copies, requests ahead included"
            );
            let at = self.job.at.unwrap_or(ROOT);
            check.wrong(
                at,
                what,
                format!("use fewer workers and devices: all jobs together may have at most {MOST_ACTORS}"),
            );
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
    /// Checks that this program's memory can track the contents of page caches, caches on tiers and decoded samples.
    pub(super) fn check_caches(&self, check: Check<'_>, parts: Parts<'_>) {
        let shared = parts.cluster.is_some_and(|cluster| cluster.share_nodes);
        // Default page caches are left out where they would track too much.
        let keeps = |node: &Node| node.page_cache.as_ref().is_some_and(|cache| !cache.assumed);
        let paged = parts.cluster.is_some_and(|cluster| {
            keeps(&cluster.node) || cluster.groups.iter().any(|group| keeps(&group.node))
        });
        let each = units_of_node(parts, paged);
        let all = each.saturating_mul(nodes(parts, shared)).saturating_add(decoded(parts));
        if all > MOST_UNITS {
            let page_cache = self.cluster.get().and_then(ClusterSettings::page_cache);
            let page_cache = page_cache.filter(|_| paged);
            let caches = parts.storage.iter().flatten().filter(|storage| storage.cache.is_some());
            let tier = caches.map(|of| check.find(&["storage", &of.name])).next().flatten();
            let at = page_cache.or(tier).or(self.job.at).unwrap_or(ROOT);
            let what = format!("the caches would have to track {all} files and requests");
            let remedy = format!(
                "write fewer samples, larger requests or fewer nodes: at most {MOST_UNITS} in all"
            );
            check.wrong(at, what, remedy);
        }
    }
}

/// Returns the number of units that the page caches of all nodes track.
pub(super) fn page_units(parts: Parts<'_>, shared: bool) -> u64 {
    units_of_page_cache(parts).saturating_mul(nodes(parts, shared))
}

/// Returns the jobs that read through caches.
fn cached(parts: Parts<'_>) -> impl Iterator<Item = &Job> {
    let through = move |job: &&Job| {
        job.reads_through_caches(parts.storage.get(job.reads_from()).and_then(Option::as_ref))
    };
    parts.jobs.iter().flatten().filter(through)
}

/// Returns the sum of `of` over the data sets that jobs read through caches.
fn sum_of_cached(parts: Parts<'_>, of: fn(&Dataset) -> u64) -> u64 {
    let numbers: BTreeSet<usize> = cached(parts).map(|job| job.dataset).collect();
    let datasets = numbers.into_iter().filter_map(|at| parts.datasets.get(at)?.as_ref());
    datasets.map(of).fold(0, u64::saturating_add)
}

/// Returns the number of units that the page cache of one node tracks.
fn units_of_page_cache(parts: Parts<'_>) -> u64 {
    sum_of_cached(parts, |of| of.places().saturating_mul(of.units_per_place()))
}

/// Returns the number of units that all caches of one node track.
fn units_of_node(parts: Parts<'_>, page_cache: bool) -> u64 {
    let (files, pages) = (sum_of_cached(parts, Dataset::files), units_of_page_cache(parts));
    let used: BTreeSet<usize> = cached(parts).map(Job::reads_from).collect();
    let on_tiers = used.into_iter().filter_map(|at| parts.storage.get(at)?.as_ref()?.cache);
    let on_tiers = on_tiers.map(|cache| match cache.unit {
        CacheUnit::File => files,
        CacheUnit::Page => pages,
    });
    on_tiers.chain(page_cache.then_some(pages)).fold(0, u64::saturating_add)
}

/// Returns the number of nodes that have caches, at least 1.
fn nodes(parts: Parts<'_>, shared: bool) -> u64 {
    let jobs = cached(parts);
    let nodes = if shared {
        jobs.map(|job| u64::from(job.nodes)).max()
    } else {
        Some(jobs.map(|job| u64::from(job.copies) * u64::from(job.nodes)).sum())
    };
    nodes.unwrap_or(0).max(1)
}

/// Returns the maximum number of samples that all nodes together keep decoded.
fn decoded(parts: Parts<'_>) -> u64 {
    let keep = parts.jobs.iter().flatten().filter(|job| job.decoded_cache.is_some());
    keep.fold(0, |sum: u64, job| {
        let dataset = parts.datasets.get(job.dataset).and_then(Option::as_ref);
        let nodes = u64::from(job.copies) * u64::from(job.nodes);
        sum.saturating_add(dataset.map_or(0, |of| of.samples).saturating_mul(nodes))
    })
}

/// Returns the number of steps of one copy of a job, estimated before the run; 0 if it cannot be known.
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

/// Returns the user-chosen names of the tables in `field`, each with its document node.
fn named<T>(field: &Field<Named<T>>) -> impl Iterator<Item = (NodeId, &str)> {
    let members = field.get().map_or(&[][..], |named| &named.0);
    members.iter().filter_map(|(name, field)| Some((field.at?, name.as_str())))
}
