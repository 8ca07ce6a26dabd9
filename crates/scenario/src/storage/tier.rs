//! Storage as a tier: a place for copies of files that are kept on another storage.

use super::Storage;
use super::settings::StorageSettings;
use crate::check::Check;
use crate::document::NodeId;
use crate::field::{Field, Named};
use crate::number::Positive;
use crate::role::Role;
use forebay_model::law::CachePolicy;
use forebay_model::units::{Bandwidth, Size};
use schemars::JsonSchema;
use serde::Deserialize;

/// Capacity and write bandwidth of a storage as a tier, in each node or shared by all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tier {
    /// Bytes that the tier can hold [B], if that is given.
    pub capacity: Option<f64>,
    /// Bandwidth of all writes together [B/s]; `None`: the bandwidth of reads. Writes and reads share the storage's
    /// time: each of them uses the time that it needs at its own bandwidth.
    pub write: Option<f64>,
}

impl Tier {
    /// Returns the tier with the capacity and write bandwidth that are set.
    pub(super) fn new(
        capacity: &Field<Positive<Size>>,
        write: &Field<Positive<Bandwidth>>,
    ) -> Tier {
        let (capacity, write) = (capacity.get().map(|of| of.0), write.get().map(|of| of.0));
        Tier { capacity, write }
    }
}

/// Cache of a storage's files on a tier of each node.
///
/// All jobs of a node share the cache. It is empty at the start. A request that misses the page cache looks in this
/// cache first. Data that the cache lacks is read from the storage and written to the cache on the way, at the lower
/// rate of the storage and the tier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TierCache {
    /// Index of the tier into [`crate::Scenario::storage`].
    pub on: usize,
    /// Bytes that the cache can hold on each node [B].
    pub capacity: f64,
    /// Eviction policy.
    pub policy: CachePolicy,
    /// Unit that is cached and evicted as a whole.
    pub unit: CacheUnit,
    /// Whether the nodes of a job look into each other's caches before they read from the storage below; then at most
    /// one of these nodes keeps a unit.
    pub peers: bool,
}

/// Unit that is cached and evicted as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheUnit {
    /// Whole files: the first request that misses in a shard loads the whole shard into the cache.
    File,
    /// The bytes of one request.
    Page,
}

/// Cache of a storage's files on a tier of each node.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CacheSettings {
    /// Name of the tier: a `local-disk` or `memory`.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Choice))]
    on: Field<String>,
    /// Bytes that the cache can hold on each node (default: the tier's `capacity`).
    #[schemars(extend("x-role" = Role::Limit))]
    capacity: Field<Positive<Size>>,
    /// Which file or page is evicted for a new one (default: "lru").
    #[schemars(extend("x-role" = Role::Choice))]
    policy: Field<CachePolicy>,
    /// Unit that is cached and evicted as a whole: "file", or "page", the bytes of one request (default: "file").
    #[schemars(extend("x-role" = Role::Choice))]
    unit: Field<CacheUnit>,
    /// Whether the nodes of a job look into each other's caches before they read from the storage, and cache nothing
    /// that another of these nodes caches (default: false).
    #[schemars(extend("x-role" = Role::Choice))]
    peers: Field<bool>,
}

impl CacheSettings {
    /// Checks the table at document node `at` and returns the cache that it describes; the tier must be one of the
    /// storages `all`. Returns `None` if the table is invalid.
    fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        names: &[&str],
        all: &[Option<Storage>],
    ) -> Option<TierCache> {
        check.required(at, &self.on, "on", "name a storage of the kind `local-disk` or `memory`");
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

/// Returns the index of the storage that a setting names; reports a problem and returns `None` if the storage is
/// not in each node.
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
        check.wrong(at, what, "name a storage of the kind `local-disk` or `memory`");
        return None;
    }
    Some(index)
}

/// Returns, for each storage, its cache if it has one; the cache's tier must be one of the storages `all`. Problems
/// are recorded.
pub(super) fn caches(
    check: Check<'_>,
    settings: &Named<StorageSettings>,
    all: &[Option<Storage>],
) -> Vec<Option<TierCache>> {
    let names: Vec<&str> = settings.0.iter().map(|(name, _)| name.as_str()).collect();
    let one = |((_, field), storage): (&(String, Field<StorageSettings>), &Option<Storage>)| {
        let cache = field.get()?.kind().cache()?;
        let (at, settings) = cache.given()?;
        let resolved = settings.resolve(check, at, &names, all);
        if storage.as_ref().is_some_and(|storage| storage.warm.is_some()) {
            check.no_effect(cache.at, "page caches hold all files from the start");
            return None;
        }
        resolved
    };
    settings.0.iter().zip(all).map(one).collect()
}
