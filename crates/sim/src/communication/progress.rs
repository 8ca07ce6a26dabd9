//! The progress of a communicator's ranks through the collectives of their steps.
//!
//! Collectives are counted in rounds. A round is the collectives of one training step, or, for learners that average their models,
//! those of all steps from one average to the next.

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;

use forebay_engine::{Fingerprint, Time};

use super::sequence::Sequence;
use crate::ids::{CollectiveId, DeviceId, IdVec};

/// Progress of the collectives of each step whose collectives ranks have started. Ranks may be at different steps, but each does
/// its collectives in order.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The first step whose collectives are not all over; if there is none, the last step that ranks have reached.
    now: StepProgress,
    others: Box<Others>,
}

/// Steps that few ranks are at.
#[derive(Debug, Default)]
struct Others {
    /// The step before the present one, for whose collectives ranks may still wait.
    before: StepProgress,
    /// The steps after the present one that ranks have reached.
    later: VecDeque<StepProgress>,
}

/// Progress of the collectives of a step.
#[derive(Debug, Default)]
pub(super) struct StepProgress {
    /// Number of the round, counted from 1; 0 if no rank has started a collective yet.
    place: u64,
    /// Number of collectives in the step.
    number: u32,
    /// Number of ranks that have started each collective; `last` holds, for each collective that all ranks have started, the
    /// time of the last rank's start and that rank's device.
    started: IdVec<CollectiveId, u32>,
    last: IdVec<CollectiveId, (Time, DeviceId)>,
    begun: u32,
    over: u32,
}

impl StepProgress {
    /// Makes this the step at `place`, in which no rank has started any of `number` collectives.
    fn restart(&mut self, place: u64, number: u32) {
        self.started.clear();
        self.last.clear();
        (self.place, self.number, self.begun, self.over) = (place, number, 0, 0);
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.over == self.number
    }

    /// Returns the numbers of the collectives that all ranks have started and that have not begun.
    #[inline]
    pub(super) fn waiting(&self) -> Range<u32> {
        self.begun..self.last.len() as u32
    }

    /// Returns the number of the round, counted from 0.
    #[inline]
    pub(super) fn round(&self) -> u64 {
        self.place - 1
    }

    /// Returns the number of the last collective that has begun; `None` if none has.
    #[inline]
    pub(super) fn last_begun(&self) -> Option<u32> {
        self.begun.checked_sub(1)
    }

    /// Returns the numbers of the collectives that have begun and are not over.
    pub(super) fn at_work(&self) -> Range<u32> {
        self.over..self.begun
    }

    /// Returns when the last rank started collective number `number`.
    #[inline]
    pub(super) fn started_at(&self, number: u32) -> Time {
        self.last[CollectiveId::new(number)].0
    }

    /// Records that all collectives up to number `begun` have begun.
    #[inline]
    pub(super) fn begin(&mut self, begun: u32) {
        self.begun = begun;
    }
}

impl Progress {
    /// Prepares for new steps, none of which has begun. If the collectives of several steps form one round, the next round
    /// begins.
    pub(super) fn restart(&mut self, sequence: &Sequence) {
        self.others.later.clear();
        self.others.before.restart(0, 0);
        if sequence.each_step {
            return self.now.restart(0, 0);
        }
        self.now.restart(1, sequence.number(0));
    }

    /// Adds the progress to a fingerprint, relative to round number `round`. Returns false unless all collectives that ranks have
    /// started are over.
    pub(super) fn describe(&self, round: u64, to: &mut Fingerprint) -> bool {
        let StepProgress { place, number, begun, over, .. } = self.now;
        to.add(place.wrapping_sub(round));
        to.add_all([number, begun, over].map(u64::from));
        to.add(self.others.before.place.wrapping_sub(round));
        self.is_over() && self.others.later.is_empty()
    }

    /// Returns the progress of `round`; `None` if no rank has started any of its collectives.
    #[inline]
    fn of(&self, round: u64) -> Option<&StepProgress> {
        let place = round + 1;
        if self.now.place == place {
            return Some(&self.now);
        }
        let Others { before, later } = &*self.others;
        [before].into_iter().chain(later).find(|of| of.place == place)
    }

    /// Returns the first step whose collectives are not all over; `None` if there is none.
    #[inline]
    pub(super) fn current(&self) -> Option<&StepProgress> {
        (!self.now.is_over()).then_some(&self.now)
    }

    /// Returns the first step whose collectives are not all over, to change it; `None` if there is none.
    #[inline]
    pub(super) fn current_mut(&mut self) -> Option<&mut StepProgress> {
        (!self.now.is_over()).then_some(&mut self.now)
    }

    /// Returns whether all collectives that ranks have started are over.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.now.is_over()
    }

    /// Returns the number of collectives of `round` that are over.
    #[inline]
    pub(super) fn over(&self, round: u64) -> u32 {
        self.of(round).map_or(0, |of| of.over)
    }

    /// Returns when the last rank started collective number `number` of `round`, and on which device; `None` if not all have
    /// started it.
    pub(super) fn started_last(&self, round: u64, number: u32) -> Option<(Time, DeviceId)> {
        self.of(round)?.last.get(CollectiveId::new(number)).copied()
    }

    /// Returns what [`Progress::started_last`] returns, to change it.
    pub(super) fn started_last_mut(
        &mut self,
        round: u64,
        number: u32,
    ) -> Option<&mut (Time, DeviceId)> {
        let Others { before, later } = &mut *self.others;
        let mut all = [&mut self.now, before].into_iter().chain(later);
        let of = all.find(|of| of.place == round + 1)?;
        of.last.get_mut(CollectiveId::new(number))
    }

    /// Counts that a rank on device `d` starts the collectives `numbers` of `round`, in which there are `all` collectives;
    /// returns whether all `starters` ranks have now started at least one of them.
    #[inline]
    pub(super) fn start(
        &mut self,
        now: Time,
        (round, all): (u64, u32),
        numbers: Range<u32>,
        (d, starters): (DeviceId, u32),
    ) -> bool {
        let StepProgress { started, last, .. } = self.reach(round + 1, all);
        let before = last.len();
        for number in numbers {
            let number = CollectiveId::new(number);
            if started.next_id() <= number {
                started.resize(number.number() + 1, 0);
            }
            started[number] += 1;
            if started[number] == starters {
                last.push((now, d));
            }
        }
        last.len() > before
    }

    /// Returns the step at `place`, with `all` collectives; a rank may be the first to reach it.
    #[inline]
    fn reach(&mut self, place: u64, all: u32) -> &mut StepProgress {
        if self.now.place == place {
            return &mut self.now;
        }
        if self.now.is_over() {
            // The lists of the step before are used again.
            mem::swap(&mut self.others.before, &mut self.now);
            self.now.restart(place, all);
            return &mut self.now;
        }
        let later = &mut self.others.later;
        let known = later.iter().position(|of| of.place == place);
        let at = known.unwrap_or(later.len());
        if known.is_none() {
            later.push_back(StepProgress { place, number: all, ..StepProgress::default() });
        }
        &mut later[at]
    }

    /// Lets all ranks start all `number` collectives of the only round at once.
    pub(super) fn start_all(&mut self, number: u32, last: (Time, DeviceId)) {
        self.now.last.resize(number, last);
    }

    /// Ends the current collective.
    #[inline]
    pub(super) fn end(&mut self) {
        self.now.over = self.now.begun;
        if self.now.is_over()
            && let Some(next) = self.others.later.pop_front()
        {
            self.others.before = mem::replace(&mut self.now, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the progress of two ranks with two collectives in each step.
    fn started(progress: &mut Progress, rank: u32, round: u64, number: u32) -> bool {
        let d = DeviceId::new(rank);
        progress.start(Time::ZERO, (round, 2), number..number + 1, (d, 2))
    }

    fn run(progress: &mut Progress) -> Vec<u64> {
        let mut rounds = Vec::new();
        while let Some(of) = progress.current_mut().filter(|of| !of.waiting().is_empty()) {
            rounds.push(of.round());
            of.begin(of.waiting().start + 1);
            progress.end();
        }
        rounds
    }

    #[test]
    fn a_rank_may_start_the_collectives_of_later_steps() {
        // System: two ranks with two collectives in each step; rank 0 is up to a step ahead. Expectation: collectives begin in
        // order once both have started them, and each step's are counted apart.
        let mut progress = Progress::default();
        for number in [0, 1] {
            assert!(!started(&mut progress, 0, 7, number));
        }
        assert!(!started(&mut progress, 0, 8, 0));
        assert!(run(&mut progress).is_empty());
        assert!(started(&mut progress, 1, 7, 0));
        assert_eq!(run(&mut progress), [7]);
        assert_eq!([progress.over(7), progress.over(8)], [1, 0]);
        assert!(started(&mut progress, 1, 7, 1));
        assert!(started(&mut progress, 1, 8, 0));
        assert_eq!(run(&mut progress), [7, 8]);
        assert_eq!([progress.over(7), progress.over(8)], [2, 1]);
        assert!(!progress.is_over());
        assert!(progress.started_last(7, 1).is_some_and(|(_, d)| d == DeviceId::new(1)));
        assert!(progress.started_last(8, 1).is_none());
    }

    #[test]
    fn progress_keeps_only_steps_that_a_rank_may_still_wait_for() {
        let mut progress = Progress::default();
        for round in 0..100 {
            for (rank, number) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                started(&mut progress, rank, round, number);
                run(&mut progress);
            }
            assert_eq!(progress.over(round), 2);
            assert!(progress.others.later.is_empty(), "{round}");
        }
    }
}
