//! Job copies: what their ranks do in a step, when steps begin and end, and how they recover from failures.

mod averages;
mod batches;
mod causes;
mod compute;
mod gradients;
mod job_run;
mod jobs;
mod learners;
mod outcome;
mod program;
mod recovery;
mod repeat;
mod sampled;
mod servers;
mod standstill;
mod steps;
mod tally;
mod waits;
mod workflow;

pub(crate) use job_run::{Batches, JobRun, Plan};
pub(crate) use jobs::Jobs;
pub(crate) use learners::LearnersRun;
pub(crate) use program::{
    CutExchange, Exchange, Exchanges, OfRoot, OfStage, Op, ParallelDevice, Piece, Program,
    Programs, Replica, Spread, Started, replica, stage_program,
};
pub(crate) use recovery::{
    CheckpointRun, CheckpointSettings, EpochRun, FailureRun, FailureSettings, Recoveries,
    RecoveryRun, Restored, StatePart, WritePlace,
};
pub(crate) use repeat::JobTotals;
pub(crate) use sampled::SampledJob;
pub use tally::Barrier;
pub(crate) use tally::{Apart, Tally};
pub(crate) use workflow::Waiting;
