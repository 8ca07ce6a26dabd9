//! Part of a GPU that learners' and loaders' kernels keep busy, over time.

use forebay_engine::Time;
use forebay_model::law::Sharing;
use forebay_report::Occupancy;
use forebay_scenario::Kernels;

use super::ids::{IdVec, KernelsId};

/// Occupancy of a GPU over time. The kernels of all users of the GPU are flows over one link. The occupancy is the sum of the
/// parts of the GPU that the running kernels fill, at most 1. It is less than this sum if learners slow each other down before
/// the GPU is full.
#[derive(Debug)]
pub(super) struct Occupied {
    /// Part of the GPU that one kernel of the loader fills, and number of its kernels running.
    loader: (f64, u32),
    /// For each kind of learners' kernels: the part of the GPU that one learner's kernels fill, and the number of learners
    /// running them.
    sorts: IdVec<KernelsId, (f64, u32)>,
    /// Part that one learner's kernels fill, if learners slow each other down before the GPU is full.
    mutual: Option<f64>,
    /// Time of the last change; `None` before the first one.
    since: Option<Time>,
    seconds: Occupancy,
}

impl Occupied {
    /// Returns the occupancy of an unused GPU. `kernels` holds the kinds of learners' kernels, and `loader` the part of the GPU
    /// that a kernel of the loader fills.
    pub(super) fn new(kernels: &[Kernels], loader: f64) -> Occupied {
        let mutual = kernels.iter().find(|of| of.sharing == Sharing::Mutual);
        Occupied {
            loader: (loader, 0),
            sorts: kernels.iter().map(|of| (of.occupancy, 0)).collect(),
            mutual: mutual.map(|of| of.occupancy),
            since: None,
            seconds: Occupancy::default(),
        }
    }

    /// Records that one learner begins kernels of kind `sort`.
    pub(super) fn enter(&mut self, now: Time, sort: KernelsId) {
        self.pass(now);
        self.sorts[sort].1 += 1;
    }

    /// Records that one learner's kernels of kind `sort` end.
    pub(super) fn leave(&mut self, now: Time, sort: KernelsId) {
        self.pass(now);
        self.sorts[sort].1 -= 1;
    }

    /// Records that a kernel of the loader begins.
    pub(super) fn begin(&mut self, now: Time) {
        self.pass(now);
        self.loader.1 += 1;
    }

    /// Records that a kernel of the loader ends.
    pub(super) fn end(&mut self, now: Time) {
        self.pass(now);
        self.loader.1 -= 1;
    }

    /// Ends all kernels.
    pub(super) fn clear(&mut self, now: Time) {
        self.pass(now);
        self.loader.1 = 0;
        self.sorts.iter_mut().for_each(|(_, number)| *number = 0);
    }

    fn pass(&mut self, now: Time) {
        let since = self.since.replace(now).unwrap_or(now);
        let part = |(part, number): &(f64, u32)| part * f64::from(*number);
        let sum: f64 = self.sorts.iter().map(part).sum();
        let learners = match self.mutual {
            Some(one) if sum > one => sum / (1.0 + sum - one),
            _ => sum,
        };
        let used = (learners + part(&self.loader)).min(1.0);
        self.seconds.add(used, now.since(since).seconds());
    }

    /// Returns the time spent at each level of occupancy, up to the last change.
    pub(super) fn seconds(&self) -> Occupancy {
        self.seconds
    }
}
