//! Typed indices of the simulator's tables.
//!
//! An [`Id<Device>`] identifies one device and indexes every table with one entry for each device; an id of another kind, such
//! as an `Id<Worker>`, cannot index these tables. [`Ids<Device>`] is a range of consecutive ids, [`IdVec<Device, T>`] a table
//! with a `T` for each device.

mod slab;
mod table;

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Add, Sub};

use forebay_model::cache::Cache;

use super::background::{Load, Request};
use super::cached::PageCache;
use super::checkpoint::{CheckpointRun, Write};
use super::communication::{CommunicatorRun, Message, RankLinks, ServerRun, ServerWorker};
use super::device::Device;
use super::disk_head::DiskHead;
use super::fault::FaultRun;
use super::gpus::Sort;
use super::job_run::JobRun;
use super::launch::Trainer;
use super::limiter::Limiter;
use super::loader::LoaderRun;
use super::ranges::Range;
use super::read::Routes;
use super::recovery::{FailureRun, RecoveryRun};
use super::sizes::Sizes;
use super::stages::StageRun;
use super::staging::{Copying, Staging};
use super::station::Service;
use super::table::Table;
use super::tiers::Holders;
use super::worker::{Work, Worker};

pub(super) use slab::Slab;
pub(super) use table::{IdVec, RangeVec};

/// Identifies one `K` by its number, counted from 0.
pub(super) struct Id<K> {
    number: u32,
    of: PhantomData<fn() -> K>,
}

impl<K> Id<K> {
    /// Returns the id with number `number`.
    pub(super) const fn new(number: u32) -> Id<K> {
        Id { number, of: PhantomData }
    }

    /// Returns the id's number.
    pub(super) const fn number(self) -> u32 {
        self.number
    }

    const fn index(self) -> usize {
        self.number as usize
    }
}

/// Returns the id `by` places after this one.
impl<K> Add<u32> for Id<K> {
    type Output = Id<K>;

    #[inline(always)]
    fn add(self, by: u32) -> Id<K> {
        Id::new(self.number + by)
    }
}

/// Returns the id `by` places before this one.
impl<K> Sub<u32> for Id<K> {
    type Output = Id<K>;

    #[inline(always)]
    fn sub(self, by: u32) -> Id<K> {
        Id::new(self.number - by)
    }
}

/// Returns by how many places this id comes after `first`.
impl<K> Sub for Id<K> {
    type Output = u32;

    #[inline(always)]
    fn sub(self, first: Id<K>) -> u32 {
        self.number - first.number
    }
}

impl<K> Clone for Id<K> {
    #[inline(always)]
    fn clone(&self) -> Id<K> {
        *self
    }
}

impl<K> Copy for Id<K> {}

impl<K> Default for Id<K> {
    fn default() -> Id<K> {
        Id::new(0)
    }
}

impl<K> PartialEq for Id<K> {
    #[inline(always)]
    fn eq(&self, other: &Id<K>) -> bool {
        self.number == other.number
    }
}

impl<K> Eq for Id<K> {}

impl<K> PartialOrd for Id<K> {
    fn partial_cmp(&self, other: &Id<K>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for Id<K> {
    fn cmp(&self, other: &Id<K>) -> std::cmp::Ordering {
        self.number.cmp(&other.number)
    }
}

impl<K> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

/// A range of consecutive ids of `K`s.
pub(super) struct Ids<K> {
    pub(super) start: Id<K>,
    /// The id one after the last.
    pub(super) end: Id<K>,
}

impl<K> Ids<K> {
    /// Returns the range from `start` up to, but without, `end`.
    pub(super) const fn new(start: Id<K>, end: Id<K>) -> Ids<K> {
        Ids { start, end }
    }

    /// Returns the number of ids.
    pub(super) const fn len(self) -> usize {
        self.end.index().saturating_sub(self.start.index())
    }

    /// Returns whether the range holds no id.
    pub(super) const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the first id; `None` if the range holds no id.
    pub(super) fn first(self) -> Option<Id<K>> {
        self.iter().next()
    }

    /// Returns whether `id` is in the range.
    pub(super) fn contains(self, id: Id<K>) -> bool {
        self.start <= id && id < self.end
    }

    /// Iterates over all ids of the range, in order.
    #[inline(always)]
    pub(super) fn iter(self) -> IdIter<K> {
        (self.start.number..self.end.number).map(Id::new)
    }
}

impl<K> Clone for Ids<K> {
    fn clone(&self) -> Ids<K> {
        *self
    }
}

impl<K> Copy for Ids<K> {}

impl<K> Default for Ids<K> {
    fn default() -> Ids<K> {
        Ids::new(Id::new(0), Id::new(0))
    }
}

impl<K> fmt::Debug for Ids<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}..{:?}", self.start, self.end)
    }
}

/// Iterator over the ids of consecutive `K`s.
pub(super) type IdIter<K> = std::iter::Map<std::ops::Range<u32>, fn(u32) -> Id<K>>;

impl<K> IntoIterator for Ids<K> {
    type Item = Id<K>;
    type IntoIter = IdIter<K>;

    #[inline(always)]
    fn into_iter(self) -> IdIter<K> {
        self.iter()
    }
}

/// A model copy of a job copy; it has no state of its own, only a number.
pub(super) enum ModelCopy {}

/// A unit of a cache; it has no state of its own, only a number.
pub(super) enum CacheUnit {}

pub(super) type DiskHeadId = Id<DiskHead>;
pub(super) type CacheId = Id<Cache>;
pub(super) type CheckpointId = Id<CheckpointRun>;
pub(super) type CommunicatorId = Id<CommunicatorRun>;
pub(super) type CopyId = Id<Copying>;
pub(super) type DatasetId = Id<Sizes>;
pub(super) type DeviceId = Id<Device>;
pub(super) type FailuresId = Id<FailureRun>;
pub(super) type FaultId = Id<FaultRun>;
/// Id of a list that records, for each cache unit, the node that keeps the unit.
pub(super) type HoldersId = Id<Holders>;
pub(super) type JobId = Id<JobRun>;
pub(super) type KernelsId = Id<Sort>;
pub(super) type LimiterId = Id<Limiter>;
pub(super) type LoadId = Id<Load>;
pub(super) type LoaderId = Id<LoaderRun>;
pub(super) type MessageId = Id<Message>;
/// Number of a model copy of a job copy.
pub(super) type ModelId = Id<ModelCopy>;
pub(super) type PageCacheId = Id<PageCache>;
pub(super) type RangeId = Id<Range>;
pub(super) type RecoveryId = Id<RecoveryRun>;
pub(super) type RequestId = Id<Request>;
/// Number of a rank of a job copy: of a GPU or a server.
pub(super) type RankId = Id<RankLinks>;
/// Number of one of the alternative routes of a mount.
pub(super) type RouteId = Id<Routes>;
pub(super) type ServersId = Id<ServerRun>;
pub(super) type ServerWorkerId = Id<ServerWorker>;
pub(super) type StagingId = Id<Staging>;
pub(super) type StageId = Id<StageRun>;
pub(super) type StationId = Id<Service>;
pub(super) type TableId = Id<Table>;
pub(super) type TrainerId = Id<Trainer>;
/// Number of a unit of a cache.
pub(super) type UnitId = Id<CacheUnit>;
pub(super) type WorkId = Id<Work>;
pub(super) type WorkerId = Id<Worker>;
pub(super) type WriteId = Id<Write>;
