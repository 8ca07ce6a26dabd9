//! Storage as a tier: a place for copies of what is kept elsewhere.

use super::Storage;
use super::settings::StorageSettings;
use crate::check::Check;
use crate::document::NodeId;
use crate::field::{Field, Named};
use crate::number::Positive;
use forebay_model::law::CachePolicy;
use forebay_model::units::{Bandwidth, Size};
use schemars::JsonSchema;
use serde::Deserialize;

/// What a storage is as a tier, in each node or shared by all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tier {
    /// Bytes that it holds [B], where that is given.
    pub capacity: Option<f64>,
    /// Bandwidth of its writes together [B/s]; `None`: as that of its reads. Writes and reads share the
    /// storage: each has the part of its time that it needs.
    pub write: Option<f64>,
}

impl Tier {
    /// A tier of what is written.
    pub(super) fn new(
        capacity: &Field<Positive<Size>>,
        write: &Field<Positive<Bandwidth>>,
    ) -> Tier {
        let (capacity, write) = (capacity.get().map(|of| of.0), write.get().map(|of| of.0));
        Tier { capacity, write }
    }
}

/// What each node keeps of a storage's files on a tier of its own.
///
/// All jobs of a node share it. It is empty at the start. A request that the page cache does not
/// answer asks it first; what it does not have comes from the storage below and is written to it on
/// the way, at the rate of the slower of the two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TierCache {
    /// Index of the tier into [`crate::Scenario::storage`].
    pub on: usize,
    /// Bytes that it holds on each node [B].
    pub capacity: f64,
    /// What leaves it for something new.
    pub policy: CachePolicy,
    /// What comes and leaves as a whole.
    pub unit: CacheUnit,
    /// Whether the nodes of a job look into each other's before they read from below: then one of
    /// them at most keeps a unit.
    pub peers: bool,
}

/// What comes into a cache, and leaves it, as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheUnit {
    /// Files: of shards, the first request that misses brings all of the shard.
    File,
    /// The bytes of one request.
    Page,
}

/// What each node keeps of a storage's files on a tier of its own.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CacheSettings {
    /// Name of the tier: a `local-disk` or `memory`.
    #[schemars(required)]
    on: Field<String>,
    /// Bytes that it holds on each node (default: the tier's `capacity`).
    capacity: Field<Positive<Size>>,
    /// What leaves it for something new (default: "lru").
    policy: Field<CachePolicy>,
    /// What comes and leaves as a whole: "file", or "page", the bytes of one request (default:
    /// "file").
    unit: Field<CacheUnit>,
    /// Look into the caches of the job's other nodes before reading from below, and keep nothing that
    /// one of them keeps (default: false).
    peers: Field<bool>,
}

impl CacheSettings {
    /// The checked cache of the table at node `at`, with its tier among `all`.
    fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        names: &[&str],
        all: &[Option<Storage>],
    ) -> Option<TierCache> {
        check.required(at, &self.on, "on", "name a `local-disk` or a `memory`");
        let on = tier(check, &self.on, names, all)?;
        let of_tier = all.get(on)?.as_ref()?.tier?.capacity;
        if self.capacity.is_written() && self.capacity.get().is_none() {
            return None;
        }
        let Some(capacity) = self.capacity.get().map(|given| given.0).or(of_tier) else {
            let remedy = "write `capacity = \"150 GB\"` here, or in the tier";
            check.required(at, &self.capacity, "capacity", remedy);
            return None;
        };
        Some(TierCache {
            on,
            capacity,
            policy: self.policy.get().copied().unwrap_or(CachePolicy::Lru),
            unit: self.unit.get().copied().unwrap_or(CacheUnit::File),
            peers: self.peers.get().copied().unwrap_or(false),
        })
    }
}

/// The index of the storage in each node that a setting names.
pub(crate) fn tier(
    check: Check<'_>,
    field: &Field<String>,
    names: &[&str],
    all: &[Option<Storage>],
) -> Option<usize> {
    let index = check.reference(field, "storage", names)?;
    let storage = all.get(index)?.as_ref()?;
    if let (true, Some(at)) = (storage.path.is_remote(), field.at) {
        let what = format!("{:?} is not in the nodes", storage.name);
        check.wrong(at, what, "name a `local-disk` or a `memory`");
        return None;
    }
    Some(index)
}

/// By storage, what nodes keep of it on tiers among `all`; what is wrong has been recorded.
pub(super) fn caches(
    check: Check<'_>,
    settings: &Named<StorageSettings>,
    all: &[Option<Storage>],
) -> Vec<Option<TierCache>> {
    let names: Vec<&str> = settings.0.iter().map(|(name, _)| name.as_str()).collect();
    let one = |(_, field): &(String, Field<StorageSettings>)| {
        let (at, cache) = field.get()?.kind().cache()?.given()?;
        cache.resolve(check, at, &names, all)
    };
    settings.0.iter().map(one).collect()
}
