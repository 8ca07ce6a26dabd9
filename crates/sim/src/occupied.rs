//! How much of a GPU its learners' kernels keep busy, over time.

use forebay_engine::Time;
use forebay_report::Occupancy;

/// What is in use of a GPU: on a link that all share, the sum of what each can use, or all of it.
#[derive(Debug)]
pub(super) struct Occupied {
    /// The part that kernels of its loader fill, and how many run.
    loader: (f64, u32),
    /// By sort of kernels, the part of the GPU that one learner's fill, and how many learners are at it.
    sorts: Vec<(f64, u32)>,
    /// Since when that is so; `None` before the first.
    since: Option<Time>,
    seconds: Occupancy,
}

impl Occupied {
    /// Nothing yet, by learners whose kernels fill these parts of the GPU, and a loader's.
    pub(super) fn new(parts: impl Iterator<Item = f64>, loader: f64) -> Occupied {
        Occupied {
            loader: (loader, 0),
            sorts: parts.map(|part| (part, 0)).collect(),
            since: None,
            seconds: Occupancy::default(),
        }
    }

    /// A learner begins with kernels of a sort.
    pub(super) fn enter(&mut self, now: Time, sort: u32) {
        self.pass(now);
        self.sorts[sort as usize].1 += 1;
    }

    /// It ends them.
    pub(super) fn leave(&mut self, now: Time, sort: u32) {
        self.pass(now);
        self.sorts[sort as usize].1 -= 1;
    }

    /// Its loader begins with a kernel.
    pub(super) fn begin(&mut self, now: Time) {
        self.pass(now);
        self.loader.1 += 1;
    }

    /// It ends one.
    pub(super) fn end(&mut self, now: Time) {
        self.pass(now);
        self.loader.1 -= 1;
    }

    /// Whatever was at it is off.
    pub(super) fn clear(&mut self, now: Time) {
        self.pass(now);
        self.loader.1 = 0;
        self.sorts.iter_mut().for_each(|(_, number)| *number = 0);
    }

    fn pass(&mut self, now: Time) {
        let since = self.since.replace(now).unwrap_or(now);
        let all = self.sorts.iter().chain([&self.loader]);
        let sum: f64 = all.map(|(part, number)| part * f64::from(*number)).sum();
        self.seconds.add(sum.min(1.0), now.since(since).seconds());
    }

    /// Until the last change.
    pub(super) fn seconds(&self) -> Occupancy {
        self.seconds
    }
}
