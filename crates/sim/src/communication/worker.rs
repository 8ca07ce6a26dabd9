//! Where a model copy is with the servers.

use std::collections::VecDeque;
use std::ops::Range;

use forebay_engine::Time;

/// A model copy that exchanges with servers, time and again, as many parts of buckets each time.
#[derive(Debug, Clone)]
pub(super) struct WorkerRun {
    /// How often it has pulled all parameters.
    informed: u64,
    /// Exchanges that are over: all that it pushed is added.
    pub(super) added: u64,
    /// Steps that it has done.
    pub(super) finished: u64,
    /// Parts of this exchange that are not pulled, not on their way here, and not added.
    unpulled: Countdown,
    unsent: Countdown,
    unadded: Countdown,
    /// Updates before the last of its parameters were sent.
    pub(super) read: u64,
    /// When it began to compute for this exchange, and when it was done with that.
    pub(super) began: Time,
    pub(super) computed: Option<Time>,
    /// Whom it waited for last.
    pub(super) held: Option<Held>,
    /// Fresh samples by step of those in progress.
    fresh: VecDeque<(u64, u64)>,
    /// Buckets that it has made for this exchange, and those that wait to be pushed.
    made: u32,
    pub(super) queue: VecDeque<u32>,
}

/// What held up others: the computing of a model copy for an exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) by: u32,
    pub(crate) began: Time,
    pub(crate) until: Time,
}

/// Counts the parts of an exchange, then those of the next.
#[derive(Debug, Clone, Copy)]
struct Countdown {
    left: u32,
    all: u32,
}

impl Countdown {
    /// One more; whether it was the last.
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
    /// One that exchanges so many parts each time, before the first.
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

    /// One that has done `finished` steps and so many exchanges, and has no parameters for the next.
    pub(super) fn again(&self, finished: u64, exchanges: u64) -> WorkerRun {
        let (informed, added) = (exchanges, exchanges);
        WorkerRun { informed, added, finished, ..WorkerRun::new(self.unadded.all) }
    }

    /// Whether it has the parameters for what comes before exchange number `round`.
    pub(super) fn may_begin(&self, round: u64) -> bool {
        round < self.informed
    }

    /// It has made so many more of all `buckets`: which.
    pub(super) fn makes(&mut self, number: u32, buckets: u32) -> Range<u32> {
        let from = self.made;
        let until = from + number;
        self.made = until % buckets;
        from..until
    }

    /// One more part of what it pushed is added; whether that was all.
    pub(super) fn adds(&mut self) -> bool {
        let all = self.unadded.tick();
        self.added += u64::from(all);
        all
    }

    /// One more part is on its way to it, after so many updates.
    pub(super) fn sends(&mut self, updates: u64) {
        if self.unsent.tick() {
            self.read = updates;
        }
    }

    /// One more part is there; whether it has all now.
    pub(super) fn pulls(&mut self) -> bool {
        let all = self.unpulled.tick();
        self.informed += u64::from(all);
        all
    }

    /// It has taken fresh samples for `step`.
    pub(super) fn add_fresh(&mut self, step: u64, samples: u64) {
        self.fresh.push_back((step, samples));
    }

    /// It has done `step`: the fresh samples of that.
    pub(super) fn finish(&mut self, step: u64) -> u64 {
        self.finished = step + 1;
        let mut sum = 0;
        while let Some((_, samples)) = self.fresh.pop_front_if(|(of, _)| *of <= step) {
            sum += samples;
        }
        sum
    }
}
