//! Bandwidth of copies to devices where the profile gives it, and where loaders decode images meanwhile.

use super::check::Check;
use super::settings::ScenarioSettings;
use super::tiers::Parts;
use super::{Cluster, Dataset, Job, Operation, Stage};

impl ScenarioSettings {
    /// Returns the cluster, whose copies to devices are as slow as the profile says for the number of threads that decode images
    /// for them. Nodes keep a bandwidth that the scenario gives.
    pub(super) fn slow_copies(check: Check<'_>, parts: Parts<'_>, mut cluster: Cluster) -> Cluster {
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
