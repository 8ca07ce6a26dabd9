//! What storages and caches keep, and what serves requests to them beside links and stations.

use forebay_model::cache::Cache;

use super::cached::{PageCache, Units};
use super::disk_head::DiskHead;
use super::index::IdVec;
use super::limiter::Limiter;
use super::sizes::Sizes;
use super::table::Table;

/// The tables of all storages.
#[derive(Debug, Default)]
pub(super) struct Storages {
    /// By data set.
    pub(super) sizes: IdVec<Sizes>,
    /// How each is cut into units of a page cache.
    pub(super) units: Vec<Units>,
    pub(super) caches: IdVec<PageCache>,
    /// By data set, the same for caches of whole files.
    pub(super) files: Vec<Units>,
    /// What nodes keep on tiers, and of decoded samples.
    pub(super) node_caches: IdVec<Cache>,
    /// By unit, one more than which node of a job keeps it, or last kept it.
    pub(super) holders: IdVec<Vec<u32>>,
    pub(super) limiters: IdVec<Limiter>,
    pub(super) tables: IdVec<Table>,
    pub(super) disk_heads: IdVec<DiskHead>,
}
