//! Contents of storages and caches, and models of how storages serve requests, other than links and stations.

use forebay_model::cache::Cache;

use super::cached::{PageCache, Units};
use super::disk_head::DiskHead;
use super::ids::{
    CacheId, DatasetId, DiskHeadId, HoldersId, IdVec, LimiterId, PageCacheId, TableId,
};
use super::limiter::Limiter;
use super::sizes::Sizes;
use super::table::Table;
use super::tiers::Holders;

/// The tables of all storages.
#[derive(Debug, Default)]
pub(super) struct Storages {
    /// Sample sizes of each data set.
    pub(super) sizes: IdVec<DatasetId, Sizes>,
    /// Division of each data set into units of a page cache.
    pub(super) units: Vec<Units>,
    pub(super) caches: IdVec<PageCacheId, PageCache>,
    /// Division of each data set into units of a cache of whole files.
    pub(super) files: Vec<Units>,
    /// The nodes' caches on tiers, and their caches of decoded samples.
    pub(super) node_caches: IdVec<CacheId, Cache>,
    /// Lists with an entry for each cache unit: the rank of the node that keeps the unit, or kept it last, plus one; 0 if no
    /// node has kept it.
    pub(super) holders: IdVec<HoldersId, Holders>,
    pub(super) limiters: IdVec<LimiterId, Limiter>,
    pub(super) tables: IdVec<TableId, Table>,
    pub(super) disk_heads: IdVec<DiskHeadId, DiskHead>,
}
