//! Runs that begin later than at the start of the first epoch: loaders have read some epochs already.
//!
//! What was read before takes no simulated time. Loaders take turns to read it, file by file, each in its own reading order. So caches
//! hold what they hold at this point of a run from the start, except that its loaders read side by side.

use forebay_model::random::FileOrder;

use super::cached;
use super::env::Env;
use super::ids::LoaderId;
use super::loader::LoaderRun;
use super::loaders::Loaders;

/// A loader, its reading order, and the number of files that it has read before the run begins.
struct Read {
    loader: LoaderId,
    order: FileOrder,
    files: u64,
}

impl Loaders {
    /// Lets each loader begin after `epochs` epochs, given by loader; returns the number of units that were looked up in caches.
    pub(super) fn begin_after(&mut self, env: &mut Env, epochs: impl Fn(LoaderId) -> f64) -> u64 {
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
    fn bring(&self, env: &mut Env, loader: LoaderId, (file, epoch): (u64, u64)) -> u64 {
        let LoaderRun { source, caches, place, .. } = &self.loaders[loader];
        if let Some(decoded) = &caches.decoded {
            let (cache, bytes) = (&mut env.storages.node_caches[decoded.cache], decoded.bytes);
            if cache.look_up(file as u32) {
                return 1;
            }
            cache.insert(file as u32, bytes, |_| bytes);
        }
        let page_cache = caches.page_cache.as_deref();
        let tiers = caches.tiers.as_deref();
        let tier = tiers.and_then(|tiers| Some((tiers.rank, tiers.cache.as_ref()?)));
        let whole = page_cache.is_none() && tier.is_none_or(|(_, ways)| ways.whole);
        let (sizes, streams) = (&mut env.storages.sizes[source.dataset], &env.streams);
        let number = match whole {
            true => 1,
            false => source.requests_of((file, epoch), place.owner(), sizes, streams),
        };
        for unit in 0..number {
            let kept = page_cache.map(|used| (used.cache, used.units.of(file, unit)));
            if let Some((cache, unit)) = kept
                && env.storages.caches[cache].kept.look_up(unit)
            {
                continue;
            }
            if let Some((rank, ways)) = tier {
                ways.bring(env, rank, file, unit);
            }
            if let Some((cache, unit)) = kept {
                cached::insert(env, cache, unit);
            }
        }
        number.into()
    }
}
