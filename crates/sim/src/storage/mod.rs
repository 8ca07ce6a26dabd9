//! Storages: contents of data sets, storages and caches, models of how storages serve requests other than links and stations,
//! and routes to them. How workers use them is in `loader::read`. Copying of data sets to nodes, and background loads, are owners
//! of their own.

mod background;
mod caches;
mod disk_head;
mod limiter;
mod mount;
mod sizes;
mod source;
mod staging;
mod table;
mod turns;

use forebay_model::cache::Cache;

use crate::env::{ActivityId, Env};
use crate::ids::{
    CacheId, DatasetId, DiskHeadId, HoldersId, IdVec, LimiterId, LoaderId, PageCacheId, TableId,
    TurnsId,
};

pub(crate) use background::{Background, Endless, Load};
pub(crate) use caches::{
    CacheUse, CacheWays, Decoded, Found, Holders, Origin, PageCache, Tiers, Units, bytes_of,
};
pub(crate) use disk_head::{DiskHead, Spot};
pub(crate) use limiter::Limiter;
pub(crate) use mount::{First, IoQueues, Mount, RequestLatency, Routes, ServiceModel, Striped};
pub(crate) use sizes::Sizes;
pub(crate) use source::{ShardCursor, Source};
pub(crate) use staging::{Conversion, Files, Staging, Stagings};
pub(crate) use table::Table;
pub(crate) use turns::{StorageClient, Turn, Turns};

/// The tables of all storages.
#[derive(Debug, Default)]
pub(crate) struct Storages {
    /// Sample sizes of each data set.
    pub(crate) sizes: IdVec<DatasetId, Sizes>,
    /// Division of each data set into units of a page cache.
    pub(crate) units: Vec<Units>,
    pub(crate) caches: IdVec<PageCacheId, PageCache>,
    /// Division of each data set into units of a cache of whole files.
    pub(crate) files: Vec<Units>,
    /// The nodes' caches on tiers, and their caches of decoded samples.
    pub(crate) node_caches: IdVec<CacheId, Cache>,
    /// Lists with an entry for each cache unit: the rank of the node that keeps the unit, or kept it last, plus one; 0 if no
    /// node has kept it.
    pub(crate) holders: IdVec<HoldersId, Holders>,
    pub(crate) limiters: IdVec<LimiterId, Limiter>,
    pub(crate) tables: IdVec<TableId, Table>,
    pub(crate) disk_heads: IdVec<DiskHeadId, DiskHead>,
    pub(crate) turns: IdVec<TurnsId, Turns>,
    /// The client of storages that each loader reads for.
    pub(crate) clients: IdVec<LoaderId, StorageClient>,
}

impl Storages {
    /// Removes the requests of each activity for which `is` returns true from disk heads and from tables of measured throughput.
    pub(crate) fn forget(&mut self, env: &mut Env, is: impl Fn(&ActivityId) -> bool) {
        for head in &mut self.disk_heads {
            head.forget(env.now, &is);
        }
        for t in self.tables.ids() {
            self.tables[t].forget((env.now, &mut env.calendar), t, &is);
        }
    }
}

/// The environment with the storages, for owners that keep neither.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    pub(crate) env: &'a mut Env,
    pub(crate) storages: &'a mut Storages,
}
