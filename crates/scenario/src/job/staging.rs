//! Settings of `job.copy`: how a data set is copied to the nodes before the first step.

use super::convert::{Convert, ConvertSettings};
use super::pace::SamplePath;
use super::rules::{MOST_WAYS, Rules};
use super::{Job, settings::Around};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::Count;
use crate::role::Role;
use crate::{Cluster, Dataset, Operation};
use schemars::JsonSchema;

/// Longest time that copying to one node may take [s].
const LONGEST_COPY: f64 = 1e6;
/// Largest number of streams, over all nodes of all copies of a job.
const MOST_STREAMS: u64 = 1_000_000;
/// Largest number of files that all copies of a job may copy, counted together.
const MOST_FILES: u64 = 1_000_000_000;

/// How a job copies its data set to its nodes before it starts.
///
/// Each node copies the files in stored order, up to `streams` of them concurrently. A file costs one operation and one
/// request at its storage, whatever its size. Its bytes pass the storage and the node's tier at the same time, at the
/// rate of the slower of the two. If the target is a storage that all nodes share, each node copies a part of the
/// files, so that each file is copied once: the file is read as a whole, and then written with one operation and one
/// request at the target, over the node's NIC. Training begins, and the time of the first step is measured, from when
/// the last node has copied its files. Page caches keep nothing of the copied bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Staging {
    /// Index of the storage that the data set is copied to, in [`crate::Scenario::storage`].
    pub to: usize,
    /// Whether all nodes share the storage that the data set is copied to.
    pub shared: bool,
    /// Number of files that a node copies concurrently.
    pub streams: u32,
    /// Whether each node copies all of the data set or a part of it.
    pub share: Share,
    /// How the data set is made from another one during the copy; `None` if it is copied as it is.
    pub convert: Option<Convert>,
}

/// Which part of the data set each node of a job holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// The whole data set.
    All,
    /// An equal part of the data set for each node: of `n` nodes, node `i` holds every `n`-th file, beginning with file
    /// number `i`. If `job.replicas` is r, a node also holds the parts of the r − 1 nodes before it, so that each file
    /// is on r nodes. The node reads all other files from the nodes that hold them, over both NICs.
    Part,
}

/// How a job copies its data set to its nodes before it starts.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StagingSettings {
    /// Name of the storage that the data set is copied to and then read from: a `local-disk` or `memory` in each node,
    /// or a storage that all nodes share.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) to: Field<String>,
    /// Number of files that a node copies concurrently (default: 1).
    #[schemars(extend("x-role" = Role::Limit))]
    streams: Field<Count<1, 10_000>>,
    /// Share of the data set that each node copies: "all", or "part", an equal part for each node. With "part", a node
    /// reads the other files from the nodes that hold them (default: "all").
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) share: Field<Share>,
    /// Make the data set from another one on the way: `{ from = "jpegs", compute = "5 ms" }` (default:
    /// copy it as it is).
    #[schemars(extend("x-role" = Role::Identity))]
    convert: Field<ConvertSettings>,
}

impl StagingSettings {
    /// Returns the checked settings of the table at document node `at`; `None` if they are wrong.
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        around: Around<'_>,
    ) -> Option<Staging> {
        let remedy = "name a `local-disk` or a `memory` storage, or a storage that nodes share";
        check.required(at, &self.to, "to", remedy);
        let to = check.reference(&self.to, "storage", around.storage_names)?;
        let shared = around.storage.get(to)?.as_ref()?.path.is_remote();
        if let (Some(at), true) = (self.share.at, shared) {
            let path = check.document.path(at);
            check.remark(format!("`{path}` has no effect: all nodes share the storage."));
        }
        Some(Staging {
            to,
            shared,
            streams: self.streams.get().map_or(1, |streams| streams.small()),
            share: self.share.get().copied().unwrap_or(Share::All),
            convert: match self.convert.given() {
                Some((at, convert)) => Some(convert.resolve(check, at, around)?),
                None => None,
            },
        })
    }
}

impl Job {
    /// Returns whether the job's loaders read its data set. Synthetic data are made without it.
    #[must_use]
    pub fn reads_data(&self) -> bool {
        let mut stages = self.loader.stages.iter();
        stages.any(|stage| {
            let mut work = stage.per_sample.iter().chain(&stage.per_item);
            work.any(|operation| *operation == Operation::Read)
        })
    }

    /// Returns the index of the storage that the job's loaders read from, in [`crate::Scenario::storage`].
    #[must_use]
    pub fn reads_from(&self) -> usize {
        self.staging.as_ref().map_or(self.storage, |staging| staging.to)
    }
}

impl Rules<'_> {
    /// Checks that loaders that read from other nodes of their job have at most `MOST_WAYS` routes to these nodes.
    pub(super) fn check_peers(&self, job: &Job) {
        let storage = self.around.storage.get(job.reads_from()).and_then(Option::as_ref);
        let Some(storage) = storage else { return };
        let asks = storage.cache.is_some_and(|cache| cache.peers);
        if job.nodes == 1 || !(asks || job.reads_parts()) {
            return;
        }
        let loaders = u64::from(job.copies).saturating_mul(u64::from(job.loaders()));
        let ways = loaders.saturating_mul(u64::from(job.nodes));
        if ways > MOST_WAYS {
            let of_storage = self.check.find(&["storage", &storage.name]);
            let at = [self.settings.copy.at, of_storage, self.settings.nodes.at];
            let what = format!("{loaders} loaders have {ways} routes to each other's nodes");
            let remedy = format!("write fewer nodes, or no peers: at most {MOST_WAYS} routes");
            self.check.wrong(self.check.blame(&at, self.at), what, remedy);
        }
    }

    /// Checks that the data set is not copied to where it already is, and that the copy needs no more time, streams and
    /// files than can be simulated.
    pub(super) fn check_staging(&self, job: &Job, dataset: &Dataset, cluster: &Cluster) {
        let Some(staging) = &job.staging else { return };
        let made = dataset;
        let dataset = self.check_convert(job, dataset);
        let at = self.settings.copy.at.unwrap_or(self.at);
        // A conversion may write its files to the shared storage that it reads from.
        if staging.to == job.storage && !(staging.shared && staging.convert.is_some()) {
            let what = "the data set is already on this storage";
            self.check.wrong(at, what, "name another storage in the nodes, or remove `copy`");
        }
        if staging.share == Share::Part && job.nodes == 1 {
            self.check.remark(format!(
                "`share = \"part\"` of `{}` has no effect: the job's only node gets the whole data set.",
                job.name
            ));
        }
        let Some(storage) = self.around.storage.get(job.storage).and_then(Option::as_ref) else {
            return;
        };
        let nodes = if staging.shared { f64::from(job.nodes) } else { 1.0 };
        let samples = job.resident(dataset) / dataset.mean_size() / nodes;
        let to = self.around.storage.get(staging.to).and_then(Option::as_ref);
        let written = to
            .filter(|_| staging.shared)
            .map_or(0.0, |storage| SamplePath { job, dataset: made, storage, cluster }.written());
        let each = SamplePath { job, dataset, storage, cluster }.transfer() + written;
        let compute = staging.convert.as_ref().map_or(0.0, |convert| convert.compute.mean());
        let threads = staging.streams.min(cluster.node.cores);
        let seconds = samples * (each / f64::from(staging.streams) + compute / f64::from(threads));
        if seconds > LONGEST_COPY {
            let what = format!("copying the data set to a node takes {seconds:.0} s");
            let remedy =
                "write more `streams`, more bandwidth or a smaller data set: at most 1e6 s";
            self.check.wrong(at, what, remedy);
        }
        let nodes = u64::from(job.nodes).saturating_mul(u64::from(job.copies));
        let streams = nodes.saturating_mul(u64::from(staging.streams));
        if streams > MOST_STREAMS {
            let what = format!("{streams} streams would copy at once");
            let remedy = format!("write fewer `streams` or nodes: at most {MOST_STREAMS} in all");
            self.check.wrong(at, what, remedy);
        }
        let times = match job.parts() {
            Some(parts) => u64::from(job.copies).saturating_mul(parts.each),
            None if staging.shared => u64::from(job.copies),
            None => nodes,
        };
        let written = if staging.shared { made.files() } else { 0 };
        let files = dataset.files().max(written).saturating_mul(times);
        if files > MOST_FILES {
            let what = format!("{files} files would have to be copied one by one");
            let remedy =
                format!("write shards, or fewer samples or nodes: at most {MOST_FILES} files");
            self.check.wrong(at, what, remedy);
        }
    }
}
