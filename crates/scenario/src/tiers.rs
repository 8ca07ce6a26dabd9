//! Checks of tiers: data that is copied to a tier must fit there.

use super::background::BackgroundSettings;
use super::check::Check;
use super::document::NodeId;
use super::field::Field;
use super::job::remarks::remark_tier_cache;
use super::settings::{ScenarioSettings, entries};
use super::storage::Service;
use super::{Access, Cluster, Dataset, Job, Layout, Storage};

/// The resolved parts of a scenario that checks of tiers and caches need; `None` for a part that is wrong.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) cluster: Option<&'a Cluster>,
    pub(super) storage: &'a [Option<Storage>],
    pub(super) datasets: &'a [Option<Dataset>],
    pub(super) jobs: &'a [Option<Job>],
    /// For each storage, whether a profile gives values that the file leaves out.
    pub(super) measured: &'a [bool],
}

impl ScenarioSettings {
    /// Records a problem for each tier that is too small for the data copied to it. Remarks on tiers that nothing is copied to,
    /// and on caches that nothing is read through.
    pub(super) fn check_tiers(&self, check: Check<'_>, parts: Parts<'_>) {
        for (index, storage) in parts.storage.iter().enumerate() {
            let Some(storage) = storage else { continue };
            remark_access(check, parts, index, storage);
            if storage.cache.is_some() && !parts.uses(index).reads {
                let name = &storage.name;
                check.remark(format!(
                    "The cache of `storage.{name}` has no effect: no job reads from this storage."
                ));
            }
            self.check_tier(check, parts, index, storage);
            check_serving(check, parts, index, storage);
        }
        parts.jobs.iter().flatten().for_each(|job| check_reading(check, parts, job));
    }

    /// Reports the limits that storages with warm files leave out although something else than reads of these files uses them.
    /// `layout` returns the name of the layout of the data on the storage with a given name.
    pub(super) fn check_own_limits(
        &self,
        check: Check<'_>,
        parts: Parts<'_>,
        layout: impl Fn(&str) -> &'static str,
    ) {
        let settings = self.storage.get().map_or(&[][..], |all| &all.0);
        let loads = entries(&self.background).iter().filter_map(Field::get);
        let loaded: Vec<&str> = loads.filter_map(BackgroundSettings::storage).collect();
        for (index, (name, field)) in settings.iter().enumerate() {
            let storage = parts.storage.get(index).and_then(Option::as_ref);
            let used = parts.uses(index).writes() || loaded.contains(&name.as_str());
            if let (Some((at, settings)), true) = (field.given(), used)
                && storage.is_some_and(|storage| storage.warm.is_some())
            {
                settings.check_own_limits(check, check.inside(at), layout(name));
            }
        }
    }

    /// If storage `index` is a tier, checks that the data copied to the tier fits, and remarks if nothing is copied to it.
    fn check_tier(&self, check: Check<'_>, parts: Parts<'_>, index: usize, storage: &Storage) {
        let Some(tier) = storage.tier else { return };
        let Some(table) = check.find(&["storage", &storage.name]) else { return };
        let at = check.inside(table);
        let (staged, caches) = (parts.staged(index), parts.caches(index));
        let of_node = parts.cluster.map(|cluster| cluster.weakest(0..cluster.nodes).node.memory);
        let of_node = of_node.filter(|_| storage.path.is_memory());
        match tier.capacity.or(of_node) {
            None if parts.is_copied(index) && !storage.path.is_remote() => {
                let what = format!("the capacity of {:?} is not written", storage.name);
                check.wrong(at, what, "write `capacity = \"1 TB\"` for this storage");
            }
            Some(capacity) if staged + caches > capacity => {
                self.does_not_fit(check, at, [staged, caches, capacity]);
            }
            _ => {}
        }
        let uses = parts.uses(index);
        let is_priced = check.find(&["prices", "storage", &storage.name]).is_some();
        if staged + caches == 0.0 && !is_priced {
            let why = "no job copies its data set to this storage, and this storage holds no cache";
            check.no_effect(check.document.member(at, "capacity"), why);
        }
        if !uses.writes() {
            for key in ["write_bandwidth", "write_per_stream", "write_per_client"] {
                let written = check.document.member(at, key);
                check.no_effect(written, "nothing is written to this storage");
            }
        }
    }

    /// Records that `staged` and `caches` together exceed a tier's `capacity`.
    fn does_not_fit(&self, check: Check<'_>, at: NodeId, [staged, caches, capacity]: [f64; 3]) {
        let jobs = entries(&self.job).iter().filter_map(|job| job.get());
        let stages = jobs.filter_map(|job| job.copy_at());
        let capacity_at = check.document.member(at, "capacity");
        let written: Vec<Option<NodeId>> =
            [capacity_at].into_iter().chain(stages.map(Some)).collect();
        let gigabytes = |bytes: f64| bytes / 1e9;
        let what = format!(
            "{:.1} GB of data sets and {:.1} GB of caches do not fit into a tier of {:.1} GB",
            gigabytes(staged),
            gigabytes(caches),
            gigabytes(capacity)
        );
        let remedy = "write a larger `capacity`, a smaller data set or cache, or `share = \"part\"` \
                      where a job has several nodes";
        check.wrong(check.blame(&written, at), what, remedy);
    }
}

/// Checks that no data is copied to or from storage `index`, or cached on it, if the storage serves requests with a disk's arm or
/// a table of throughput: copies and caches are simulated with a bandwidth only.
fn check_serving(check: Check<'_>, parts: Parts<'_>, index: usize, storage: &Storage) {
    let own = match storage.path.service {
        Service::DiskHead { .. } => "a disk with `seek`",
        Service::Measured(_) => "a storage with a table of throughput",
        Service::Link => return,
    };
    let uses = parts.uses(index);
    let kept = |other: &Storage| other.cache.is_some_and(|cache| cache.on == index);
    if !(uses.copies_from || uses.copies_to || parts.storage.iter().flatten().any(kept)) {
        return;
    }
    let Some(at) = check.find(&["storage", &storage.name]) else { return };
    let what = format!("copies and caches on {own} are not simulated");
    check.wrong(check.inside(at), what, "write the `bandwidth` that the storage reaches, instead of a seek time or a table of throughput");
}

/// Checks that a job with a cache on a tier, or with parts of the data set on other nodes, reads whole files or shards in order.
fn check_reading(check: Check<'_>, parts: Parts<'_>, job: &Job) {
    let storage = parts.storage.get(job.reads_from()).and_then(Option::as_ref);
    let cached = storage.is_some_and(|storage| storage.cache.is_some());
    let Some(dataset) = parts.datasets.get(job.dataset).and_then(Option::as_ref) else { return };
    if let Some(storage) = storage {
        remark_tier_cache(check, storage, dataset);
    }
    let simple = matches!(dataset.layout, Layout::FilePerSample | Layout::Shards { .. });
    if !(cached || job.reads_parts()) || simple && dataset.ranges.is_none() {
        return;
    }
    let Some(at) = check.find(&["dataset", &dataset.name]) else { return };
    let what = "caches on tiers and on other nodes need files or shards that are read in order";
    let remedy = "write `layout.shards = { samples = 1000 }`, or remove the cache";
    check.wrong(at, what, remedy);
}

/// Remarks that `access` of a storage has no effect where nodes have no page cache and the profile says nothing of the storage, or
/// that the storage's limits have none where all reads come from page caches.
fn remark_access(check: Check<'_>, parts: Parts<'_>, index: usize, storage: &Storage) {
    let Some(table) = check.find(&["storage", &storage.name]).filter(|_| !check.lenient) else {
        return;
    };
    let (at, uses) = (check.inside(table), parts.uses(index));
    if !uses.any() {
        return;
    }
    let mut nodes = parts
        .cluster
        .iter()
        .flat_map(|cluster| cluster.groups.iter().map(|group| &group.node).chain([&cluster.node]));
    match storage.path.access {
        Access::Direct | Access::Cold if nodes.all(|node| node.page_cache.is_none()) => {
            let decides = check.profile.is_some() && parts.measured.get(index) == Some(&true);
            if !decides {
                check.no_effect(check.document.member(at, "access"), "nodes have no page cache");
            }
        }
        Access::Warm
            if storage.warm.is_some()
                && (uses.reads || uses.copies_from)
                && storage.written.any()
                && !uses.writes() =>
        {
            check.remark(format!(
                "The limits of `storage.{}` have no effect: with `access = \"warm\"` page caches hold all of its files.",
                storage.name
            ));
        }
        Access::Direct | Access::Cold | Access::Warm | Access::Emulated => {}
    }
}

impl Parts<'_> {
    /// Returns whether a job copies its data set to tier `index`.
    fn is_copied(&self, index: usize) -> bool {
        let staged = |job: &Job| job.staging.as_ref().is_some_and(|staging| staging.to == index);
        self.jobs.iter().flatten().any(staged)
    }

    /// Returns the size of the data that jobs keep on tier `index` [B]: data sets that they stage there, and the parts of data
    /// sets that each node keeps there. The size is for one node, or for all nodes if they share the tier.
    fn staged(&self, index: usize) -> f64 {
        let there = self.jobs.iter().flatten().filter(|job| {
            job.reads_from() == index && (job.staging.is_some() || job.reads_parts())
        });
        let each = there.filter_map(|job| {
            let dataset = self.datasets.get(job.dataset)?.as_ref()?;
            Some((job, job.resident(dataset)))
        });
        let once =
            |(job, _): (&Job, f64)| job.staging.as_ref().is_some_and(|staging| staging.shared);
        match self.cluster {
            _ if each.clone().any(once) => {
                each.fold(0.0, |sum, (job, bytes)| sum + bytes * f64::from(job.copies))
            }
            Some(cluster) if cluster.share_nodes => {
                each.fold(0.0, |sum, (job, bytes)| sum + bytes * f64::from(job.copies))
            }
            _ => each.map(|(_, bytes)| bytes).fold(0.0, f64::max),
        }
    }

    /// Returns the total capacity of all caches on tier `index` [B].
    fn caches(&self, index: usize) -> f64 {
        let caches = self.storage.iter().flatten().filter_map(|storage| storage.cache);
        let there = caches.filter(|cache| cache.on == index);
        // `sum` of no element would be −0.
        there.fold(0.0, |sum, cache| sum + cache.capacity)
    }
}
