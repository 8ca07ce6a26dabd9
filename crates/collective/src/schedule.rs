//! All transfers of a collective, in phases.

use super::closed_form::Cost;
use super::part::StepCopies;
use super::run::{Run, side_by_side};
use super::transfer::{Hop, Transfer};

/// Steps that begin in the same phase.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    first: u64,
    phases: u64,
    parts: Vec<StepCopies>,
}

/// All transfers of a collective: which rank sends what to which rank, in which phase. The documentation of the crate
/// says how a schedule runs. It takes little memory however many ranks there are, because transfers are made when
/// they are asked for.
#[derive(Debug, Clone)]
pub struct Schedule {
    ranks: u32,
    switches: u32,
    stages: Vec<Stage>,
    /// Whether all ranks go from phase to phase together.
    in_step: bool,
}

impl Schedule {
    /// Creates a schedule of stages that run one after the other.
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

    /// Returns the number of ranks that take part.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Returns the number of switches; their ids follow the ids of the ranks. Each rank has a port of its own at a
    /// switch.
    #[must_use]
    pub fn switches(&self) -> u32 {
        self.switches
    }

    /// Returns the number of phases; 0 for one rank or for no bytes.
    #[must_use]
    pub fn phases(&self) -> u64 {
        self.stages.last().map_or(0, |stage| stage.first + stage.phases)
    }

    /// Returns the stage to which a phase belongs, and the phase's number within the stage.
    fn stage(&self, phase: u64) -> Option<(&Stage, u64)> {
        let after = self.stages.partition_point(|stage| stage.first <= phase);
        let stage = self.stages.get(after.checked_sub(1)?)?;
        (phase - stage.first < stage.phases).then(|| (stage, phase - stage.first))
    }

    /// Returns all transfers of a phase.
    pub fn transfers(&self, phase: u64) -> impl Iterator<Item = Transfer> + '_ {
        let stage = self.stage(phase).into_iter();
        stage.flat_map(|(stage, at)| stage.parts.iter().flat_map(move |part| part.transfers(at)))
    }

    /// Calls `told` with each transfer of a phase that a rank or switch sends or receives. (An iterator would take
    /// twice as long, and a simulation of every transfer asks for each of them twice.)
    pub fn visit(&self, phase: u64, id: u32, mut told: impl FnMut(Hop)) {
        if let Some((stage, at)) = self.stage(phase) {
            stage.parts.iter().for_each(|part| part.visit(at, id.into(), &mut told));
        }
    }

    /// Returns the phases as runs of equal phases; there are few runs however many ranks there are. Computing a run
    /// visits every rank, so keep the result for the next buffer of this length. `None` if the groups differ in size or
    /// there are several channels: the ranks do not go from phase to phase together then, and the time can be found
    /// only from the single transfers.
    #[must_use]
    pub fn runs(&self) -> Option<Vec<Run>> {
        let stages = self.stages.iter().map(|stage| side_by_side(&stage.parts, stage.first));
        self.in_step.then(|| Some(stages.collect::<Option<Vec<_>>>()?.concat()))?
    }

    /// Returns the time on an idle network under the assumption that all ranks go from phase to phase together [s].
    /// Without this assumption the ranks never take longer, and they take equally long if one rank is the most loaded
    /// in all phases. `None` if [`Schedule::runs`] returns `None`.
    #[must_use]
    pub fn in_step(&self, cost: &Cost) -> Option<f64> {
        Some(self.runs()?.iter().map(|run| run.seconds(cost)).sum())
    }
}
