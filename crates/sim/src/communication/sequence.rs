//! The collectives of a communicator, and its participants.

use std::sync::Arc;

use forebay_collective::Operation;
use forebay_engine::Span;
use forebay_scenario::Members;

use super::cycle::{ByStepKind, Cycle, StepKind};

/// The participants of a communicator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ranks {
    /// The communicator's ranks, by their ports within the job copy.
    pub(crate) members: Members,
    /// Ids of the devices that wait for the communicator's collectives.
    pub(crate) devices: Members,
    /// Number of participants that must start each collective: devices, or GPUs on which learners first sum their gradients.
    pub(crate) starters: u32,
}

/// The collectives of a communicator's ranks.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    pub(crate) collectives: Arc<Collectives>,
    /// Whether `collectives` are those of each step; otherwise they are those of all steps from one average of models to the next.
    pub(crate) each_step: bool,
    /// Maximum bytes of waiting collectives that are fused into one [B].
    pub(crate) fusion: u64,
}

/// The collectives of steps that follow a cycle.
#[derive(Debug, Default)]
pub(crate) struct Collectives {
    cycle: Cycle,
    of: ByStepKind<OfStep>,
}

/// The collectives of a step.
#[derive(Debug, Default)]
struct OfStep {
    /// The collectives in order; if the list has a single entry, it stands for every collective of the step.
    all: Vec<Planned>,
    number: u32,
}

impl Collectives {
    /// Returns the collectives of steps that follow `cycle`; `of` returns those of a kind of step, in order.
    pub(crate) fn new(cycle: Cycle, of: impl Fn(StepKind) -> Vec<Planned>) -> Collectives {
        let of_step = |kind| {
            let mut all = of(kind);
            let number = all.len() as u32;
            if all.windows(2).all(|pair| pair[0] == pair[1]) {
                all.truncate(1);
            }
            OfStep { all, number }
        };
        Collectives { cycle, of: ByStepKind::of(cycle, of_step) }
    }

    /// Returns the collectives of all kinds of steps, each at least once.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Planned> {
        self.of.iter().flat_map(|of| &of.all)
    }
}

impl Sequence {
    /// Returns the number of the round that the collectives of training step `step` are in: the step's own, or the only one.
    #[inline]
    pub(super) fn round(&self, step: u64) -> u64 {
        if self.each_step { step } else { 0 }
    }

    /// Returns the number of collectives in a round.
    #[inline]
    pub(super) fn number(&self, round: u64) -> u32 {
        self.of(round).number
    }

    /// Returns collective number `number` of a round; `None` if the round has no collectives.
    #[inline]
    pub(super) fn planned(&self, round: u64, number: u32) -> Option<&Planned> {
        let all = &self.of(round).all;
        all.get(number as usize % all.len().max(1))
    }

    #[inline]
    fn of(&self, round: u64) -> &OfStep {
        &self.collectives.of[self.collectives.cycle.kind(round)]
    }
}

/// A collective of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Planned {
    pub(crate) operation: Operation,
    pub(crate) bytes: u64,
    /// Time from the last rank's start of the collective until the framework notices that start; `overhead` is the time that the
    /// framework then needs for the collective's tensors.
    pub(crate) late: Span,
    pub(crate) overhead: Span,
    /// Number of the collective of the same step that continues this one in another communicator, among the ranks that now hold the
    /// same part of its result; `None` if its result is final.
    pub(crate) then: Option<u32>,
}

impl Planned {
    /// Returns the minimum number of bytes that each of `ranks` ranks sends: 2 (n − 1) ÷ n of the bytes in an allreduce, half
    /// of that in other collectives.
    pub(super) fn volume(&self, ranks: u32) -> f64 {
        let part = 1.0 - 1.0 / f64::from(ranks.max(1));
        let twice = if self.operation == Operation::Allreduce { 2.0 } else { 1.0 };
        twice * part * self.bytes as f64
    }
}
