//! Remarks on a cluster that does not suit the scenario's jobs: keys without effect, idle or crowded GPUs, and page caches that
//! are missing or are left out because they would not fit into this program's memory.

use super::assumed::Assumed;
use super::check::Check;
use super::document::quoted;
use super::limits::{MOST_ASSUMED_UNITS, page_units};
use super::settings::{ScenarioSettings, entries};
use super::tiers::Parts;
use super::{Cluster, Device, Job, RequestPath, Scenario, Storage};
use crate::profile::Profile;

impl ScenarioSettings {
    /// Remarks on network and GPU links that are set although no data crosses them.
    pub(super) fn remark_links(&self, check: Check<'_>, parts: Parts<'_>) {
        if check.lenient || parts.jobs.len() < entries(&self.job).len() {
            return;
        }
        let jobs = || parts.jobs.iter().flatten();
        let remote = parts.storage.iter().enumerate().any(|(index, storage)| {
            let (storage, uses) = (storage.as_ref(), parts.uses(index));
            let used = |path: fn(&Storage) -> &RequestPath| {
                storage.is_some_and(|storage| path(storage).is_remote())
            };
            (uses.reads || uses.copies_from) && used(Storage::reads)
                || uses.writes() && used(|of| &of.path)
        });
        let across = jobs().any(|job| job.nodes > 1 || job.servers().is_some());
        if !remote && !across {
            for key in ["nic", "storage_nic", "racks", "latency"] {
                let why =
                    "every job copy is on one node, and nothing reads or writes over the network";
                check.no_effect(check.find(&["cluster", "network", key]), why);
            }
        }
        let tree = parts.cluster.is_some_and(|cluster| {
            let tree = cluster.node.intra.tree;
            tree.uplink.is_finite() || tree.root.is_finite()
        });
        let several = |job: &Job| u64::from(job.copies_per_node) * job.gpus_per_copy() > 1;
        if !tree && !across && !jobs().any(several) {
            let why = "no job uses several GPUs of a node";
            check.no_effect(check.find(&["cluster", "node", "intra"]), why);
        }
    }

    /// Warns that reads and collectives do not share a NIC equally, if the profile says so and a node has both.
    pub(super) fn remark_unequal_shares(&self, check: Check<'_>, parts: Parts<'_>) {
        let Some([reads, rings]) = check.profile.and_then(Profile::unequal_shares) else { return };
        let Some(cluster) = parts.cluster.filter(|of| !check.lenient && of.storage_nic.is_none())
        else {
            return;
        };
        let jobs = || parts.jobs.iter().flatten();
        let remote = |job: &&Job| {
            let storage = parts.storage.get(job.storage).and_then(Option::as_ref);
            storage.is_some_and(|storage| storage.reads().is_remote())
        };
        let across = |job: &&Job| job.nodes > 1 && job.sync.is_some();
        let one_node_has_both = match cluster.share_nodes {
            true => jobs().any(|job| remote(&job)) && jobs().any(|job| across(&job)),
            false => jobs().any(|job| remote(&job) && across(&job)),
        };
        if one_node_has_both {
            check.remark(format!(
                "Reads and collectives share NICs equally here, and in the profile they do not: beside each other, reads have \
                 {:.0} % and all-reduce {:.0} % of the rates that equal shares give. Where both fill a NIC, the prediction is \
                 off by as much.",
                100.0 * reads,
                100.0 * rings
            ));
        }
    }

    /// Returns the cluster, without its default page caches if they would have to track too many files and requests.
    pub(super) fn bound_page_caches(&self, check: Check<'_>, parts: Parts<'_>) -> Option<Cluster> {
        let mut cluster = parts.cluster?.clone();
        let units = page_units(parts, cluster.share_nodes);
        let groups = cluster.groups.iter_mut().map(|group| &mut group.node);
        for node in [&mut cluster.node].into_iter().chain(groups) {
            if units > MOST_ASSUMED_UNITS && node.page_cache.as_ref().is_some_and(|of| of.assumed) {
                node.page_cache = None;
                let why = format!(
                    "nodes would track {units} files and requests; write `page_cache = {{}}` to simulate it"
                );
                if let Some(at) = check.find(&["cluster", "node"]) {
                    check.assume(at, "page_cache", "none", &why);
                }
            }
        }
        Some(cluster)
    }
}

impl Scenario {
    /// Returns a remark for each job that leaves GPUs of its nodes without a model.
    pub(super) fn idle_gpus(&self) -> Vec<String> {
        if self.cluster.share_nodes {
            return Vec::new();
        }
        let mut first = 0_u32;
        let mut all = Vec::new();
        for job in &self.jobs {
            let of_node =
                |node: u32| u64::from(self.cluster.node_at(first.saturating_add(node)).gpus);
            let (used, there) = (0..job.nodes).fold((0, 0), |(used, there), node| {
                (used + job.gpus_on(node), there + of_node(node))
            });
            first = first.saturating_add(job.copies.saturating_mul(job.nodes));
            if job.device == Device::Accelerator && used < there {
                all.push(format!(
                    "Job `{}` trains on {used} of the {there} GPUs of its nodes: the others are idle. \
                     `job.{}.parallel.data.copies_per_node = \"gpus\"` trains as many model copies as there is room for.",
                    job.name,
                    quoted(&job.name)
                ));
            }
        }
        all
    }

    /// Returns a remark on the first node whose jobs together need more GPUs than it has. Jobs that begin when others end are
    /// left out.
    pub(super) fn crowded_gpus(&self) -> Vec<String> {
        if !self.cluster.share_nodes {
            return Vec::new();
        }
        let trains = |job: &&Job| job.device == Device::Accelerator && job.after.is_empty();
        let jobs: Vec<&Job> = self.jobs.iter().filter(trains).collect();
        let used = |node: u32| {
            let here = jobs.iter().filter(|job| node < job.nodes);
            here.map(|job| job.gpus_on(node).saturating_mul(job.copies.into())).sum::<u64>()
        };
        let most = jobs.iter().map(|job| job.nodes).max().unwrap_or(0);
        let mut crowded = (0..most).map(|node| (used(node), self.cluster.node_at(node).gpus));
        let first = crowded.find(|(used, there)| *used > u64::from(*there));
        let told = first.map(|(used, there)| {
            format!(
                "Jobs together train on {used} GPUs of a node that has {there}: each job is simulated with GPUs of its own. \
                 Write `cluster.node.gpus = {used}`, or fewer `copies`; to share a GPU, write learners of one job \
                 (`parallel.data.learners`)."
            )
        });
        told.into_iter().collect()
    }

    /// Returns a remark for each data set that would fit into a node's memory, but that every epoch reads again because the
    /// default page cache of nodes was left out; `why` says the reason. Users who write that there is no page cache know it.
    pub(super) fn uncached(&self, why: Option<&str>) -> Vec<String> {
        let Some(why) = why else { return Vec::new() };
        let node = &self.cluster.node;
        let one = |job: &Job| {
            let (dataset, storage) = (&self.datasets[job.dataset], &self.storage[job.reads_from()]);
            let own = storage.cache.is_some();
            let passes = job.reads_data() && storage.passes_page_cache();
            let reads = passes && node.page_cache.is_none() && !own;
            let bytes = job.resident(dataset);
            let fits = node.memory.is_finite() && job.memory(dataset) + bytes <= node.memory;
            (reads && fits).then(|| {
                format!(
                    "Every epoch reads all of `{}` from `{}`, though its {} would fit into a node's memory: there is no \
                     page cache (`cluster.node.page_cache`), because {why}.",
                    dataset.name,
                    storage.name,
                    forebay_model::units::Quantity::<forebay_model::units::Size>::new(to_three_digits(bytes))
                        .map_or_else(|| format!("{bytes:.0} B"), |size| size.to_string())
                )
            })
        };
        let mut all: Vec<String> = self.jobs.iter().filter_map(one).collect();
        all.dedup();
        all
    }
}

/// Returns why the default page cache of nodes was left out, from the defaults that were used; `None` if it was not.
pub(super) fn no_page_cache(assumed: &[Assumed]) -> Option<&str> {
    let is_left_out = |of: &&Assumed| of.key == "cluster.node.page_cache" && of.value == "none";
    assumed.iter().find(is_left_out).map(|of| of.source.as_str())
}

/// Rounds a number of bytes to three digits, so that it is shown as `141 GB` and not as `140928370 kB`.
fn to_three_digits(bytes: f64) -> f64 {
    let unit = 10_f64.powf((bytes.max(1.0).log10().floor() - 2.0).max(0.0));
    (bytes / unit).round() * unit
}
