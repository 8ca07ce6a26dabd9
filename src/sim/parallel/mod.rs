//! Models that are spread over GPUs, and whose steps are followed piece by piece.
//!
//! Each device, a stage of a model copy on one GPU or on several that split its layers alike, works through the acts
//! of its stage's `program`, one after the other, and waits where one needs what is not there:
//!
//! - `run`: what a job copy keeps of that; `acts`: doing them; `waits`: what is said of waiting,
//! - `send`: activations to the next stage, gradients of them back; `swap`: what does not fit on a GPU, from and to its
//!   node's memory. Collectives are `communication`'s.

mod acts;
mod program;
mod run;
mod send;
mod swap;
mod waits;

pub(super) use program::{OfStage, Program, program};
pub(super) use run::{ParallelRun, Part};
