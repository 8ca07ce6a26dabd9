//! Cycles of a job that repeat exactly: a queue notes its course over one of them, and what later ones add follows from it.

use forebay_engine::{Span, Time};
use forebay_report::{Exhaustion, QueueTotals};

use super::Queue;
use super::accounts::Accounts;

/// The course of a queue over a cycle.
#[derive(Debug)]
pub(super) struct Course {
    /// Totals and number of exhaustions at the start of the cycle.
    begin: QueueTotals,
    exhaustions: usize,
    /// Each state in which the queue was, in order of time; kept only if the queue records its history.
    states: Vec<State>,
}

/// A state in which a queue was until an instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    pub(super) until: Time,
    pub(super) accounts: Accounts,
    pub(super) level: u64,
    pub(super) blocked: u32,
    pub(super) waiting: u32,
}

/// What cycles that were left out add to the times and totals of a queue.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LeftOut {
    pub(super) span: Span,
    pub(super) totals: QueueTotals,
}

impl Course {
    /// Adds the state in which the queue was until now.
    pub(super) fn note(&mut self, state: State) {
        // Of several changes at one instant, the first one ends the state that counts there.
        if self.states.last().is_none_or(|last| last.until < state.until) {
            self.states.push(state);
        }
    }

    /// Returns the totals at an instant of the cycle, before anything changes at that instant.
    fn totals(&self, at: Time) -> QueueTotals {
        let next = self.states.partition_point(|state| state.until < at);
        let state = self.states[next.min(self.states.len() - 1)];
        state.accounts.totals(at, state.level, state.blocked, state.waiting)
    }
}

impl Queue {
    /// Notes the course of the queue over the cycle that begins at `now`.
    pub fn begin_cycle(&mut self, now: Time) {
        let begin = self.totals(now);
        self.course = Some(Box::new(Course {
            begin,
            exhaustions: self.exhaustions.len(),
            states: Vec::new(),
        }));
        if self.snapshots.is_some() {
            // Each change of the queue is noted as if it were time for a snapshot.
            self.next_snapshot = Time::ZERO;
        }
    }

    /// Forgets the cycle that began with [`Queue::begin_cycle`].
    pub fn forget_cycle(&mut self) {
        self.course = None;
        if let Some(snapshots) = &self.snapshots {
            self.next_snapshot = Time(snapshots.next().0 - self.left_out().span.0);
        }
    }

    /// Adds `times` repetitions of the cycle that began with [`Queue::begin_cycle`] and ends at `now`, to the totals, exhaustions and
    /// history of the queue. For the caller, time does not move: later instants count as if the repetitions had not been.
    pub fn repeat_cycle(&mut self, now: Time, cycle: Span, times: u64) {
        self.snapshot_up_to(now);
        let Some(course) = self.course.take() else { return };
        let gained = self.totals(now).since(course.begin);
        let span = Span(cycle.0 * times);
        if let Some(snapshots) = &mut self.snapshots {
            while snapshots.next() <= now + span {
                let again = snapshots.next().since(now).0.div_ceil(cycle.0.max(1));
                let at = Time(snapshots.next().0 - again * cycle.0);
                let mut totals = course.totals(at);
                totals += gained.times(again);
                snapshots.take(totals);
            }
            self.next_snapshot = Time(snapshots.next().0 - span.0);
        }
        let one: Vec<Exhaustion> = self.exhaustions[course.exhaustions..].to_vec();
        for again in 1..=times {
            let later = Span(cycle.0 * again).seconds();
            let moved = |of: &Exhaustion| Exhaustion { start: of.start + later, ..*of };
            self.exhaustions.extend(one.iter().map(moved));
        }
        self.left_out = Some(Box::new(LeftOut { span, totals: gained.times(times) }));
    }

    /// Returns the number of samples that repetitions would have put into the queue.
    pub fn left_out_samples(&self) -> u64 {
        self.left_out().totals.enqueued
    }

    /// Whether a repeated cycle of the queue follows from its totals alone: it is bounded, and all its batches are alike.
    pub fn is_plain(&self) -> bool {
        self.circular.is_none() && self.batches.is_none()
    }

    /// Adds the state of a plain queue, as far as the future depends on it, to a fingerprint.
    pub fn describe(&self, to: &mut forebay_engine::Fingerprint) {
        to.add_all([self.level, self.capacity, self.batch, self.kept]);
        to.add_all([self.blocked, self.waiting, self.ready.into()].map(u64::from));
        to.add(self.growth.is_some_and(|growth| growth.filled).into());
        self.stamps.describe(to);
    }

    /// Shortens the input by `samples` samples: so many fewer are put in before the loader has read everything.
    pub fn shorten(&mut self, samples: u64) {
        if self.last != u64::MAX {
            self.last -= samples.min(self.last);
        }
    }
}
