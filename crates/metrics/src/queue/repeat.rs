//! Repetition of a cycle that is not simulated: a queue records one cycle, and adds what further ones contribute to its metrics.

use forebay_engine::{Span, Time};
use forebay_report::{Exhaustion, QueueTotals};

use super::Queue;
use super::accounts::Accounts;

/// A recorded cycle of a queue.
#[derive(Debug)]
pub(super) struct RecordedCycle {
    /// Totals and number of exhaustions at the start of the cycle.
    begin: QueueTotals,
    exhaustions: usize,
    /// The queue's states, in order of time; recorded only if the queue takes snapshots.
    states: Vec<State>,
}

/// A state of a queue, up to `until`.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    pub(super) until: Time,
    pub(super) accounts: Accounts,
    pub(super) level: u64,
    pub(super) blocked: u32,
    pub(super) waiting: u32,
}

/// What repetitions that were not simulated add to the duration and the totals of a queue.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LeftOut {
    pub(super) span: Span,
    pub(super) totals: QueueTotals,
}

impl RecordedCycle {
    /// Records the state that ends now.
    pub(super) fn record(&mut self, state: State) {
        // Several changes may happen at one instant; only the state before the first of them has lasted.
        if self.states.last().is_none_or(|last| last.until < state.until) {
            self.states.push(state);
        }
    }

    /// Returns the totals at `at` in the cycle, before any change at that instant.
    fn totals(&self, at: Time) -> QueueTotals {
        let next = self.states.partition_point(|state| state.until < at);
        let state = self.states[next.min(self.states.len() - 1)];
        state.accounts.totals(at, state.level, state.blocked, state.waiting)
    }
}

impl Queue {
    /// Begins to record a cycle at `now`.
    pub fn begin_cycle(&mut self, now: Time) {
        let begin = self.totals(now);
        self.recorded = Some(Box::new(RecordedCycle {
            begin,
            exhaustions: self.exhaustions.len(),
            states: Vec::new(),
        }));
        if self.snapshots.is_some() {
            // With a snapshot time of zero, the queue records its state at each change.
            self.next_snapshot = Time::ZERO;
        }
    }

    /// Discards the cycle that is being recorded.
    pub fn discard_cycle(&mut self) {
        self.recorded = None;
        if let Some(snapshots) = &self.snapshots {
            self.next_snapshot = Time(snapshots.next().0 - self.left_out().span.0);
        }
    }

    /// Adds `times` repetitions of the recorded cycle, which ends at `now`, to the totals, exhaustions and snapshots of the queue. The
    /// caller's clock does not advance: it continues at `now`.
    pub fn repeat_cycle(&mut self, now: Time, cycle: Span, times: u64) {
        self.snapshot_up_to(now);
        let Some(recorded) = self.recorded.take() else { return };
        let gained = self.totals(now).since(recorded.begin);
        let span = Span(cycle.0 * times);
        if let Some(snapshots) = &mut self.snapshots {
            while snapshots.next() <= now + span {
                let again = snapshots.next().since(now).0.div_ceil(cycle.0.max(1));
                let at = Time(snapshots.next().0 - again * cycle.0);
                let mut totals = recorded.totals(at);
                totals += gained.times(again);
                snapshots.take(totals);
            }
            self.next_snapshot = Time(snapshots.next().0 - span.0);
        }
        let one: Vec<Exhaustion> = self.exhaustions[recorded.exhaustions..].to_vec();
        for again in 1..=times {
            let later = Span(cycle.0 * again).seconds();
            let moved = |of: &Exhaustion| Exhaustion { start: of.start + later, ..*of };
            self.exhaustions.extend(one.iter().map(moved));
        }
        self.left_out = Some(Box::new(LeftOut { span, totals: gained.times(times) }));
    }

    /// Returns the number of samples that the repetitions put into the queue.
    pub fn left_out_samples(&self) -> u64 {
        self.left_out().totals.enqueued
    }

    /// Returns whether the queue is a bounded one of equal batches, so that its totals describe a repeated cycle completely.
    pub fn is_plain(&self) -> bool {
        self.circular.is_none() && self.batches.is_none()
    }

    /// Adds everything to a fingerprint that decides what a [plain](Queue::is_plain) queue does next.
    pub fn describe(&self, to: &mut forebay_engine::Fingerprint) {
        to.add_all([self.level, self.capacity, self.batch, self.kept]);
        to.add_all([self.blocked, self.waiting, self.ready.into()].map(u64::from));
        to.add(self.growth.is_some_and(|growth| growth.filled).into());
        self.stamps.describe(to);
    }

    /// Reduces the number of samples that the loader still puts in by `samples`.
    pub fn shorten(&mut self, samples: u64) {
        if self.last != u64::MAX {
            self.last -= samples.min(self.last);
        }
    }
}
