//! The progress of a model copy with parameter servers.

use std::collections::VecDeque;
use std::ops::Range;

use forebay_engine::Time;

/// A model copy that exchanges the same number of bucket parts with servers in each exchange.
#[derive(Debug, Clone)]
pub(super) struct WorkerRun {
    /// Number of times that it has pulled all parameters.
    informed: u64,
    /// Number of exchanges that are over: everything that it pushed in them has been added.
    pub(super) added: u64,
    /// Number of steps that it has done.
    pub(super) finished: u64,
    /// Parts of the current exchange that are not pulled yet; `unsent` counts those not sent to it yet, `unadded` those of its
    /// pushes not added yet.
    unpulled: Countdown,
    unsent: Countdown,
    unadded: Countdown,
    /// Number of updates before the last part of its parameters was sent.
    pub(super) read: u64,
    /// Time when it began to compute for the current exchange, and time when it had finished that.
    pub(super) began: Time,
    pub(super) computed: Option<Time>,
    /// The model copy that it waited for last.
    pub(super) held: Option<Held>,
    /// Fresh samples of each step in progress.
    fresh: VecDeque<(u64, u64)>,
    /// Number of buckets that it has made for the current exchange; `queue` holds the buckets that wait to be pushed.
    made: u32,
    pub(super) queue: VecDeque<u32>,
}

/// The computation of a model copy that held up others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) by: u32,
    pub(crate) began: Time,
    pub(crate) until: Time,
}

/// Counts down the parts of an exchange, then those of the next one.
#[derive(Debug, Clone, Copy)]
struct Countdown {
    left: u32,
    all: u32,
}

impl Countdown {
    /// Counts one part; returns whether it was the last one.
    fn tick(&mut self) -> bool {
        self.left -= 1;
        let last = self.left == 0;
        if last {
            self.left = self.all;
        }
        last
    }
}

impl WorkerRun {
    /// Returns a model copy that exchanges `parts` parts each time, before its first exchange.
    pub(super) fn new(parts: u32) -> WorkerRun {
        let all = Countdown { left: parts, all: parts };
        WorkerRun {
            informed: 0,
            added: 0,
            finished: 0,
            unpulled: all,
            unsent: all,
            unadded: all,
            read: 0,
            began: Time::ZERO,
            computed: None,
            held: None,
            fresh: VecDeque::new(),
            made: 0,
            queue: VecDeque::new(),
        }
    }

    /// Returns a model copy that has done `finished` steps and `exchanges` exchanges, and has no parameters for the next one.
    pub(super) fn again(&self, finished: u64, exchanges: u64) -> WorkerRun {
        let (informed, added) = (exchanges, exchanges);
        WorkerRun { informed, added, finished, ..WorkerRun::new(self.unadded.all) }
    }

    /// Returns whether it has the parameters for the computation before exchange number `round`.
    pub(super) fn may_begin(&self, round: u64) -> bool {
        round < self.informed
    }

    /// Records that it has made `number` more of all `buckets` buckets; returns the numbers of these buckets.
    pub(super) fn makes(&mut self, number: u32, buckets: u32) -> Range<u32> {
        let from = self.made;
        let until = from + number;
        self.made = until % buckets;
        from..until
    }

    /// Counts a part of its push as added; returns whether that completes the push.
    pub(super) fn adds(&mut self) -> bool {
        let all = self.unadded.tick();
        self.added += u64::from(all);
        all
    }

    /// Counts a part as sent to it, after `updates` updates.
    pub(super) fn sends(&mut self, updates: u64) {
        if self.unsent.tick() {
            self.read = updates;
        }
    }

    /// Counts a part as pulled; returns whether it has all parts now.
    pub(super) fn pulls(&mut self) -> bool {
        let all = self.unpulled.tick();
        self.informed += u64::from(all);
        all
    }

    /// Records that it has taken `samples` fresh samples for `step`.
    pub(super) fn add_fresh(&mut self, step: u64, samples: u64) {
        self.fresh.push_back((step, samples));
    }

    /// Records that it has done `step`; returns the fresh samples of that step.
    pub(super) fn finish(&mut self, step: u64) -> u64 {
        self.finished = step + 1;
        let mut sum = 0;
        while let Some((_, samples)) = self.fresh.pop_front_if(|(of, _)| *of <= step) {
            sum += samples;
        }
        sum
    }
}
