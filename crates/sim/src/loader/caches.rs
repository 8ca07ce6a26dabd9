//! The way of a read through caches: what it looks up, what it counts, and what it leaves there. Runs that begin later than at
//! the start of the first epoch find there what earlier epochs left.

use forebay_engine::fluid::GroupId;
use forebay_model::random::FileOrder;
use forebay_report::CacheRequests;

use super::loader_run::LoaderRun;
use super::loaders::Loaders;
use crate::env::{Env, broken};
use crate::ids::{LoaderId, WorkerId};
use crate::storage::{Found, Mount, Origin, bytes_of};

/// A loader, its reading order, and the number of files that it has read before the run begins.
struct Read {
    loader: LoaderId,
    order: FileOrder,
    files: u64,
}

impl Loaders {
    /// Lets each loader begin after `epochs` epochs, given by loader; returns the number of units that were looked up in caches.
    pub(crate) fn begin_after(&mut self, env: &mut Env, epochs: impl Fn(LoaderId) -> f64) -> u64 {
        let mut all = Vec::new();
        for loader in self.loaders.ids() {
            let source = &mut self.loaders[loader].source;
            let files = source.order.visits_in(epochs(loader));
            source.begin_at(files);
            all.push(Read { loader, order: source.order.clone(), files });
        }
        all.retain(|of| self.loaders[of.loader].caches.exist());
        let most = all.iter().map(|of| of.files).max().unwrap_or(0);
        let mut units = 0;
        for turn in 0..most {
            for of in all.iter_mut().filter(|of| turn < of.files) {
                let owner = self.loaders[of.loader].place.owner();
                let file = of.order.at(turn, owner, &env.streams);
                units += self.bring(env, of.loader, (file, of.order.epoch()));
            }
        }
        units
    }

    /// Does to the caches of a loader what a read of a file in an epoch does; returns the number of units that were looked up.
    fn bring(&mut self, env: &Env, loader: LoaderId, (file, epoch): (u64, u64)) -> u64 {
        let LoaderRun { source, caches, place, .. } = &self.loaders[loader];
        if let Some(decoded) = &caches.decoded {
            let (cache, bytes) = (&mut self.storages.node_caches[decoded.cache], decoded.bytes);
            if cache.look_up(file as u32) {
                return 1;
            }
            cache.insert(file as u32, bytes, |_| bytes);
        }
        let page_cache = caches.page_cache.as_deref();
        let tiers = caches.tiers.as_deref();
        let tier = tiers.and_then(|tiers| Some((tiers.rank, tiers.cache.as_ref()?)));
        let whole = page_cache.is_none() && tier.is_none_or(|(_, ways)| ways.whole);
        let (sizes, streams) = (&mut self.storages.sizes[source.dataset], &env.streams);
        let number = match whole {
            true => 1,
            false => source.requests_of((file, epoch), place.owner(), sizes, streams),
        };
        for unit in 0..number {
            let kept = page_cache.map(|used| (used.cache, used.units.of(file, unit)));
            if let Some((cache, unit)) = kept
                && self.storages.caches[cache].kept.look_up(unit)
            {
                continue;
            }
            if let Some((rank, ways)) = tier {
                ways.bring((&mut self.storages, &env.streams), rank, (file, unit));
            }
            if let Some((cache, unit)) = kept {
                self.storages.keep(&env.streams, cache, unit);
            }
        }
        number.into()
    }
}

impl Loaders {
    /// Looks up the data that worker `w` requests in `epoch` in the loader's page cache; counts the hit or miss, and returns true
    /// for a hit.
    pub(super) fn look_up(&mut self, w: WorkerId, epoch: u64) -> bool {
        let worker = &mut self.workers[w];
        let loader = &mut self.loaders[worker.loader];
        let Some(used) = &mut loader.caches.page_cache else {
            broken("only loaders behind a page cache look there");
            return false;
        };
        let hit = self.storages.caches[used.cache].kept.look_up(worker.location.unit);
        worker.origin = if hit { Origin::PageCache } else { Origin::Storage };
        let epoch = epoch as usize;
        if used.requests.len() <= epoch {
            used.requests.resize(epoch + 1, CacheRequests::default());
        }
        let found = &mut used.requests[epoch];
        *(if hit { &mut found.hits } else { &mut found.misses }) += 1;
        hit
    }

    /// Inserts the unit that worker `w` has read into the page cache.
    pub(super) fn keep(&mut self, env: &Env, w: WorkerId) {
        let worker = &self.workers[w];
        let unit = worker.location.unit;
        if worker.origin == Origin::PageCache {
            return;
        }
        let Some(used) = &self.loaders[worker.loader].caches.page_cache else {
            return broken("only loaders behind a page cache keep data there");
        };
        self.storages.keep(&env.streams, used.cache, unit);
    }

    /// Returns the route of the bytes that worker `w` reads from the page cache.
    #[cold]
    pub(super) fn way_in_cache(&self, w: WorkerId) -> Option<GroupId> {
        let loader = &self.loaders[self.workers[w].loader];
        let used = loader.caches.page_cache.as_ref()?;
        self.storages.caches[used.cache].way
    }
}

impl Loaders {
    /// Returns the mount of the storage or tier that the request of worker `w` goes to.
    #[inline]
    pub(super) fn mount_of(&self, w: WorkerId) -> &Mount {
        let worker = &self.workers[w];
        let loader = &self.loaders[worker.loader];
        match worker.origin {
            Origin::Storage | Origin::PageCache => &loader.mount,
            origin => {
                let tiers = loader.caches.tiers.as_ref();
                tiers
                    .and_then(|tiers| tiers.mount(origin, worker.location.way))
                    .unwrap_or(&loader.mount)
            }
        }
    }

    /// Determines the source of the file that worker `w` requests.
    #[cold]
    pub(super) fn find_file(&mut self, w: WorkerId) {
        let worker = &self.workers[w];
        let (file, bytes) = (worker.location.file, worker.request);
        let epoch = self.loaders[worker.loader].source.order.epoch();
        let found = self.find(w, epoch, file, 0, bytes);
        self.take_from(w, found);
    }

    /// Determines the source of request number `number` of the shard that worker `w` reads. If nodes keep whole shards, only
    /// the first request of a shard is looked up; later requests have the same source, and a first request that misses brings
    /// the whole shard.
    #[cold]
    pub(super) fn find_request(&mut self, env: &mut Env, w: WorkerId, number: u32) {
        let shard = &self.shards[w];
        let (file, epoch, unread) = (shard.file, shard.epoch, shard.unread);
        let worker = &self.workers[w];
        let (request, loader) = (worker.request, &self.loaders[worker.loader]);
        let cache = loader.caches.tiers.as_ref().and_then(|tiers| tiers.cache.as_ref());
        let whole = cache.is_none_or(|cache| cache.whole);
        let kept = cache.filter(|cache| cache.whole).map(|cache| cache.unit(file, 0));
        let found = match shard.found.filter(|_| whole) {
            Some(found) => found,
            None => {
                let (files, sizes, streams) =
                    (&self.storages.files, &mut self.storages.sizes, &env.streams);
                let all = |unit| bytes_of(files, sizes, streams, unit).max(unread);
                // The whole file is fetched, whatever part of it the page cache holds.
                let bytes = kept.map_or(request, all);
                let found = self.find(w, epoch, file, number, bytes);
                if found.origin == Origin::Filling {
                    self.workers[w].request = bytes;
                }
                found
            }
        };
        self.shards[w].found = Some(found);
        self.take_from(w, found);
    }

    fn take_from(&mut self, w: WorkerId, found: Found) {
        let worker = &mut self.workers[w];
        (worker.origin, worker.location.way) = (found.origin, found.way);
    }

    /// Returns the source of request number `number` of `file`, which asks for `bytes` bytes, and counts the request as hit,
    /// peer read or miss.
    fn find(&mut self, w: WorkerId, epoch: u64, file: u64, number: u32, bytes: f64) -> Found {
        let loader = &mut self.loaders[self.workers[w].loader];
        let Some(tiers) = &mut loader.caches.tiers else {
            return Found { origin: Origin::Storage, way: 0 };
        };
        let found = match &tiers.cache {
            None => tiers.part_with(file, bytes),
            Some(ways) => ways.look_up(
                &mut self.storages.node_caches,
                &self.storages.holders,
                ways.unit(file, number),
                bytes,
            ),
        };
        tiers.count(epoch as usize, found.origin);
        found
    }

    /// Inserts the data that worker `w` has read into its node's cache on a tier, if the data were missing there.
    #[cold]
    pub(super) fn fill(&mut self, env: &mut Env, w: WorkerId) {
        let worker = &self.workers[w];
        if worker.origin != Origin::Filling {
            return;
        }
        let loader = &self.loaders[worker.loader];
        let Some(tiers) = &loader.caches.tiers else {
            return broken("a read that fills a cache has one");
        };
        let Some(ways) = &tiers.cache else {
            return broken("a read that fills a cache has one");
        };
        let shard = &self.shards[w];
        let unit = match shard.requests.checked_sub(1) {
            None => ways.unit(worker.location.file, 0),
            Some(number) => ways.unit(shard.file, number),
        };
        ways.insert((&mut self.storages, &env.streams), tiers.rank, unit);
    }
}

impl Loaders {
    /// Looks up the next sample of worker `w` in the cache of decoded samples; counts the hit or miss, and returns true for a
    /// hit.
    #[cold]
    pub(super) fn look_up_decoded(&mut self, w: WorkerId) -> bool {
        let worker = &mut self.workers[w];
        let loader = &mut self.loaders[worker.loader];
        let Some(decoded) = &mut loader.caches.decoded else {
            broken("only loaders with a cache of decoded samples look there");
            return false;
        };
        let hit = self.storages.node_caches[decoded.cache].look_up(worker.location.file as u32);
        let epoch = loader.source.order.epoch() as usize;
        if decoded.requests.len() <= epoch {
            decoded.requests.resize(epoch + 1, CacheRequests::default());
        }
        let found = &mut decoded.requests[epoch];
        *(if hit { &mut found.hits } else { &mut found.misses }) += 1;
        worker.origin = if hit { Origin::Decoded } else { Origin::Storage };
        if hit {
            worker.item.bytes += worker.sample.size;
        }
        hit
    }

    /// Inserts the sample that worker `w` has read into the cache of decoded samples.
    #[cold]
    pub(super) fn keep_decoded(&mut self, w: WorkerId) {
        let worker = &self.workers[w];
        let Some(decoded) = &self.loaders[worker.loader].caches.decoded else {
            return broken("only loaders with a cache of decoded samples keep samples there");
        };
        let bytes = decoded.bytes;
        self.storages.node_caches[decoded.cache]
            .insert(worker.location.file as u32, bytes, |_| bytes);
    }
}
