//! The progress of one model copy in its exchanges with parameter servers.

use std::collections::VecDeque;
use std::ops::Range;

use forebay_engine::Time;
use forebay_scenario::Members;

use crate::ids::DeviceId;

/// A model copy that exchanges gradients and parameters with servers. Each exchange has the same number of bucket parts.
#[derive(Debug, Clone)]
pub(super) struct WorkerRun {
    /// Devices for which the worker exchanges.
    pub(super) devices: Members,
    /// Number of times that the model copy has pulled all parameters.
    informed: u64,
    /// Number of completed exchanges. An exchange is complete when the servers have added all parts that this model copy pushed.
    pub(super) added: u64,
    /// Parts of the current exchange that the model copy has not pulled yet; `unsent` counts the parts that servers have not
    /// sent to it yet, `unadded` the pushed parts that servers have not added yet.
    unpulled: Countdown,
    unsent: Countdown,
    unadded: Countdown,
    /// Number of updates that had been made when the last part of the model copy's parameters was sent.
    pub(super) read: u64,
    /// Time when the model copy began to compute for the current exchange; `computed` is the time when it finished.
    pub(super) began: Time,
    pub(super) computed: Option<Time>,
    /// The device that finished last.
    pub(super) last: DeviceId,
    /// The model copy of another worker that most recently held up this one, and the time of that model copy's computation.
    pub(super) held: Option<Held>,
    /// Number of buckets that the model copy has computed for the current exchange; `queue` holds the buckets that wait to be
    /// pushed.
    made: u32,
    pub(super) queue: VecDeque<u32>,
}

/// The computation of a model copy that held up others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) by: DeviceId,
    pub(crate) began: Time,
    pub(crate) until: Time,
}

/// Counts down the parts of an exchange, and starts again for the next exchange.
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
    /// Returns a worker for `devices` before its first exchange; each exchange has `parts` parts.
    pub(super) fn new(devices: Members, parts: u32) -> WorkerRun {
        let all = Countdown { left: parts, all: parts };
        WorkerRun {
            devices,
            informed: 0,
            added: 0,
            unpulled: all,
            unsent: all,
            unadded: all,
            read: 0,
            began: Time::ZERO,
            computed: None,
            last: DeviceId::default(),
            held: None,
            made: 0,
            queue: VecDeque::new(),
        }
    }

    /// Returns the model copy as it is after `exchanges` exchanges, without parameters for the next step.
    pub(super) fn again(&self, exchanges: u64) -> WorkerRun {
        let (informed, added) = (exchanges, exchanges);
        WorkerRun { informed, added, ..WorkerRun::new(self.devices, self.unadded.all) }
    }

    /// Returns the computation for the current exchange, which has lasted until `now` if it is not over.
    pub(super) fn computation(&self, now: Time) -> Held {
        Held { by: self.last, began: self.began, until: self.computed.unwrap_or(now) }
    }

    /// Returns whether the model copy has the parameters for the computation before exchange number `round`.
    pub(super) fn may_begin(&self, round: u64) -> bool {
        round < self.informed
    }

    /// Returns whether the next `number` buckets of gradients are the last of the `buckets` that the model copy computes in a step.
    pub(super) fn makes_last(&self, number: u32, buckets: u32) -> bool {
        self.made + number == buckets
    }

    /// Records that the model copy has computed `number` more of its `buckets` buckets; returns the numbers of these new
    /// buckets.
    pub(super) fn makes(&mut self, number: u32, buckets: u32) -> Range<u32> {
        let from = self.made;
        let until = from + number;
        self.made = until % buckets;
        from..until
    }

    /// Counts one more pushed part as added by its server; returns whether the push is complete now.
    pub(super) fn count_added(&mut self) -> bool {
        let all = self.unadded.tick();
        self.added += u64::from(all);
        all
    }

    /// Counts a part as sent to the model copy, after `updates` updates of the parameters.
    pub(super) fn count_sent(&mut self, updates: u64) {
        if self.unsent.tick() {
            self.read = updates;
        }
    }

    /// Counts a part as pulled; returns whether the model copy has all parts now.
    pub(super) fn count_pulled(&mut self) -> bool {
        let all = self.unpulled.tick();
        self.informed += u64::from(all);
        all
    }
}
