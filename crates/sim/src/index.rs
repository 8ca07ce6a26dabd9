//! Typed indices of the simulator's tables.
//!
//! An [`Id<Device>`] identifies one device and indexes every table with one entry for each device; an id of another kind, such
//! as an `Id<Worker>`, cannot index these tables. [`Ids<Device>`] is a range of consecutive ids, [`IdVec<Device, T>`] a table
//! with a `T` for each device.

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Add, Index, IndexMut, Sub};

use forebay_model::cache::Cache;

use super::background::{Load, Request};
use super::cached::PageCache;
use super::communication::{CommunicatorRun, Message};
use super::device::Device;
use super::disk_head::DiskHead;
use super::fault::FaultRun;
use super::job_run::JobRun;
use super::limiter::Limiter;
use super::loader::LoaderRun;
use super::ranges::Range;
use super::sizes::Sizes;
use super::stages::StageRun;
use super::staging::{Copying, Staging};
use super::station::Service;
use super::table::Table;
use super::worker::{Work, Worker};

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

/// A table with a `T` for each `K`, indexed by the `K`'s id.
pub(super) struct IdVec<K, T = K> {
    all: Vec<T>,
    of: PhantomData<fn() -> K>,
}

impl<K, T> IdVec<K, T> {
    /// Adds a `T` for the next `K` and returns its id.
    pub(super) fn push(&mut self, one: T) -> Id<K> {
        let id = self.next_id();
        self.all.push(one);
        id
    }

    /// Returns the id that the next `T` to be pushed will get.
    pub(super) fn next_id(&self) -> Id<K> {
        Id::new(self.all.len() as u32)
    }

    /// Returns the ids from `first` to the last of the table.
    pub(super) fn ids_from(&self, first: Id<K>) -> Ids<K> {
        Ids::new(first, self.next_id())
    }

    /// Returns the ids of all `K`s.
    pub(super) fn ids(&self) -> Ids<K> {
        self.ids_from(Id::new(0))
    }

    /// Returns the number of `T`s.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns whether the table is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Iterates over all `T`s, in order of their ids.
    pub(super) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.all.iter()
    }

    /// Iterates over all `T`s mutably, in order of their ids.
    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.all.iter_mut()
    }
}

impl<K, T> Index<Id<K>> for IdVec<K, T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, id: Id<K>) -> &T {
        &self.all[id.index()]
    }
}

impl<K, T> IndexMut<Id<K>> for IdVec<K, T> {
    #[inline(always)]
    fn index_mut(&mut self, id: Id<K>) -> &mut T {
        &mut self.all[id.index()]
    }
}

impl<K, T> Index<Ids<K>> for IdVec<K, T> {
    type Output = [T];

    fn index(&self, ids: Ids<K>) -> &[T] {
        &self.all[ids.start.index()..ids.end.index()]
    }
}

impl<K, T> IndexMut<Ids<K>> for IdVec<K, T> {
    fn index_mut(&mut self, ids: Ids<K>) -> &mut [T] {
        &mut self.all[ids.start.index()..ids.end.index()]
    }
}

impl<K, T> FromIterator<T> for IdVec<K, T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> IdVec<K, T> {
        IdVec { all: all.into_iter().collect(), of: PhantomData }
    }
}

impl<K, T> Extend<T> for IdVec<K, T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, more: I) {
        self.all.extend(more);
    }
}

impl<'a, K, T> IntoIterator for &'a IdVec<K, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> std::slice::Iter<'a, T> {
        self.all.iter()
    }
}

impl<'a, K, T> IntoIterator for &'a mut IdVec<K, T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> std::slice::IterMut<'a, T> {
        self.all.iter_mut()
    }
}

impl<K, T> Default for IdVec<K, T> {
    fn default() -> IdVec<K, T> {
        IdVec { all: Vec::new(), of: PhantomData }
    }
}

impl<K, T: Clone> Clone for IdVec<K, T> {
    fn clone(&self) -> IdVec<K, T> {
        IdVec { all: self.all.clone(), of: PhantomData }
    }
}

impl<K, T: fmt::Debug> fmt::Debug for IdVec<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}

/// A table whose entries are added and removed: a new entry takes the slot of a removed one.
#[derive(Debug)]
pub(super) struct Slab<T> {
    all: IdVec<T>,
    free: Vec<Id<T>>,
}

impl<T> Slab<T> {
    /// Adds an entry and returns its id.
    pub(super) fn add(&mut self, one: T) -> Id<T> {
        match self.free.pop() {
            Some(id) => {
                self.all[id] = one;
                id
            }
            None => self.all.push(one),
        }
    }

    /// Removes `id`; its value stays readable until the next `add` reuses the slot.
    pub(super) fn remove(&mut self, id: Id<T>) {
        self.free.push(id);
    }

    /// Removes all entries for which `applies` is true.
    pub(super) fn remove_if(&mut self, applies: impl Fn(&T) -> bool) {
        let gone: Vec<Id<T>> = self.all_if(applies);
        self.free.extend(gone);
    }

    /// Returns the ids of all entries for which `applies` is true.
    pub(super) fn all_if(&self, applies: impl Fn(&T) -> bool) -> Vec<Id<T>> {
        let free: BTreeSet<Id<T>> = self.free.iter().copied().collect();
        let is = |id: &Id<T>| !free.contains(id) && applies(&self.all[*id]);
        self.all.ids().into_iter().filter(is).collect()
    }
}

impl<T> Index<Id<T>> for Slab<T> {
    type Output = T;

    fn index(&self, id: Id<T>) -> &T {
        &self.all[id]
    }
}

impl<T> IndexMut<Id<T>> for Slab<T> {
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        &mut self.all[id]
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { all: IdVec::default(), free: Vec::new() }
    }
}

pub(super) type DiskHeadId = Id<DiskHead>;
pub(super) type CacheId = Id<Cache>;
pub(super) type CommunicatorId = Id<CommunicatorRun>;
pub(super) type CopyId = Id<Copying>;
pub(super) type DatasetId = Id<Sizes>;
pub(super) type DeviceId = Id<Device>;
pub(super) type FaultId = Id<FaultRun>;
/// Id of a list that records, for each cache unit, the node that keeps the unit.
pub(super) type HoldersId = Id<Vec<u32>>;
pub(super) type JobId = Id<JobRun>;
pub(super) type LimiterId = Id<Limiter>;
pub(super) type LoadId = Id<Load>;
pub(super) type LoaderId = Id<LoaderRun>;
pub(super) type MessageId = Id<Message>;
pub(super) type PageCacheId = Id<PageCache>;
pub(super) type RangeId = Id<Range>;
pub(super) type RequestId = Id<Request>;
pub(super) type StagingId = Id<Staging>;
pub(super) type StageId = Id<StageRun>;
pub(super) type StationId = Id<Service>;
pub(super) type TableId = Id<Table>;
pub(super) type WorkId = Id<Work>;
pub(super) type WorkerId = Id<Worker>;
