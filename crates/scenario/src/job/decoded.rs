//! Settings of `job.decoded_cache`: samples that a job keeps in memory after decoding.

use super::rules::Rules;
use super::{Job, QueueKind};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::Positive;
use crate::role::Role;
use crate::{Dataset, Layout, Operation};
use forebay_model::law::CachePolicy;
use forebay_model::units::Size;
use schemars::JsonSchema;

/// Cache of decoded samples in the memory of each node of a job.
///
/// All loaders of a job copy on a node share the cache. It is empty at the start. For a sample in the cache, the worker
/// skips the read and the first computation after it, which is the decoding. A sample that is not in the cache enters
/// it once it has been read, with the size of a decoded sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecodedCache {
    /// Capacity on each node [B].
    pub capacity: f64,
    /// Which samples are evicted for new ones.
    pub policy: CachePolicy,
}

/// Cache of decoded samples in the memory of each node of a job.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DecodedSettings {
    /// Capacity on each node; a sample takes the data set's `decoded_size`.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    capacity: Field<Positive<Size>>,
    /// Which samples are evicted for new ones (default: "minio", which evicts nothing).
    #[schemars(extend("x-role" = Role::Choice))]
    policy: Field<CachePolicy>,
}

impl DecodedSettings {
    /// Returns the checked cache of the table at document node `at`; `None` if it is wrong.
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<DecodedCache> {
        let remedy = "write `capacity = \"100 GB\"`";
        let capacity = check.required(at, &self.capacity, "capacity", remedy)?.0;
        let policy = self.policy.get().copied().unwrap_or(CachePolicy::Minio);
        Some(DecodedCache { capacity, policy })
    }
}

impl Rules<'_> {
    /// Checks that decoded samples can be cached one by one. This needs a file for each sample, a queue that is not
    /// circular, and a first stage whose workers both read and decode.
    pub(super) fn check_decoded(&self, job: &Job, dataset: &Dataset) {
        let (Some(at), true) = (self.settings.decoded_cache.at, self.loader.is_some()) else {
            return;
        };
        if dataset.layout != Layout::FilePerSample {
            let what = "samples in shards are read even if they are cached decoded";
            let remedy = "write `layout.file-per-sample = {}`, or remove `decoded_cache`";
            self.check.wrong(at, what, remedy);
        }
        if job.queue == QueueKind::Circular {
            let what = "a circular queue never blocks workers, and decoded samples from the cache take them no time";
            self.check.wrong(at, what, "write `queue = \"bounded\"`, or remove `decoded_cache`");
        }
        let first = job.loader.stages.first().map_or(&[][..], |stage| &stage.per_sample);
        let mut behind = first.iter().skip_while(|operation| **operation != Operation::Read);
        let decodes = |of: &Operation| matches!(of, Operation::Decode(_) | Operation::Compute(_));
        if !behind.any(decodes) {
            let what = "the workers that read samples do not decode them";
            let remedy = "write a loader whose first stage does both, or remove `decoded_cache`";
            self.check.wrong(at, what, remedy);
        }
    }
}
