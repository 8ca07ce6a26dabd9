//! All transfers of a collective, in phases.

use super::closed_form::Cost;
use super::part::StepCopies;
use super::run::{Run, side_by_side};
use super::transfer::{Hop, Transfer};

/// Parts that begin in the same phase.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    first: u64,
    phases: u64,
    parts: Vec<StepCopies>,
}

/// Who sends what to whom, in which phase: the module says how it runs. Takes little memory however
/// many ranks there are; transfers are made when they are asked for.
#[derive(Debug, Clone)]
pub struct Schedule {
    ranks: u32,
    switches: u32,
    stages: Vec<Stage>,
    /// No rank is ahead of another.
    in_step: bool,
}

impl Schedule {
    /// Stages one after the other.
    pub(super) fn new(ranks: u32, stages: Vec<Vec<StepCopies>>, in_step: bool) -> Schedule {
        let mut schedule = Schedule { ranks, switches: 0, stages: Vec::new(), in_step };
        for parts in stages.into_iter().filter(|parts| !parts.is_empty()) {
            schedule.push(parts);
        }
        schedule
    }

    fn push(&mut self, parts: Vec<StepCopies>) {
        let first = self.phases();
        let phases = parts.iter().map(StepCopies::phases).max().unwrap_or(0);
        for part in parts.iter().filter(|part| part.pattern().switch()) {
            let end = (part.place.switch + part.place.copies) as u32;
            self.switches = self.switches.max(end - self.ranks);
        }
        if phases > 0 {
            self.stages.push(Stage { first, phases, parts });
        }
    }

    /// How many ranks take part.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// How many switches; their ids follow those of ranks. Each rank has a port of its own there.
    #[must_use]
    pub fn switches(&self) -> u32 {
        self.switches
    }

    /// How many phases; none for one rank or no bytes.
    #[must_use]
    pub fn phases(&self) -> u64 {
        self.stages.last().map_or(0, |stage| stage.first + stage.phases)
    }

    /// The stage of a phase, and the phase in it.
    fn stage(&self, phase: u64) -> Option<(&Stage, u64)> {
        let after = self.stages.partition_point(|stage| stage.first <= phase);
        let stage = self.stages.get(after.checked_sub(1)?)?;
        (phase - stage.first < stage.phases).then(|| (stage, phase - stage.first))
    }

    /// All transfers of a phase.
    pub fn transfers(&self, phase: u64) -> impl Iterator<Item = Transfer> + '_ {
        let stage = self.stage(phase).into_iter();
        stage.flat_map(|(stage, at)| stage.parts.iter().flat_map(move |part| part.transfers(at)))
    }

    /// Tells what it takes to carry out those of a phase that a rank or switch sends or gets. (An iterator would take twice as long,
    /// and a simulation of every transfer asks for each of them twice.)
    pub fn visit(&self, phase: u64, id: u32, mut told: impl FnMut(Hop)) {
        if let Some((stage, at)) = self.stage(phase) {
            stage.parts.iter().for_each(|part| part.visit(at, id.into(), &mut told));
        }
    }

    /// The phases in short, equal ones together: few however many ranks there are. Takes a look at each
    /// rank for each of them, so keep it for the next buffer of this length. `None` where groups differ,
    /// so that ranks are not in step and only single transfers tell the time.
    #[must_use]
    pub fn runs(&self) -> Option<Vec<Run>> {
        let stages = self.stages.iter().map(|stage| side_by_side(&stage.parts, stage.first));
        self.in_step.then(|| Some(stages.collect::<Option<Vec<_>>>()?.concat()))?
    }

    /// Time on an idle network if all ranks went from phase to phase together [s]: never shorter than
    /// they take, and equal where the most loaded rank is so in all phases.
    #[must_use]
    pub fn in_step(&self, cost: &Cost) -> Option<f64> {
        Some(self.runs()?.iter().map(|run| run.seconds(cost)).sum())
    }
}
