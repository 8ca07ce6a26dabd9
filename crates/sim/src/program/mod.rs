//! The program of each rank: what it does in a step, op by op, and the interpreter that runs all of them.
//!
//! A program is a list of ops made once from the job's settings by a pure function: `replica` for a model copy whose
//! steps are whole or cut where gradients are ready, `stage` for a part of a model copy that works through
//! micro-batches in the `order` of its schedule, where `pass` says what each pass takes, waits for and leaves. `op` says
//! what each op means; `interpreter` does one after the other and waits where an op needs what is not there.
//!
//! A new op is a variant of [`Op`] and a line in each of `interpreter`'s matches, which name all ops: how it begins, and
//! when what it waits for is there. A new schedule is a function in `order` from its settings to passes. Neither asks
//! what else a job has.
//!
//! - `spread`: the state of a model that is spread over GPUs; `waits`: the causes of its waits,
//! - `send`: activations to where they are needed next, gradients of them back; `swap`: what does not fit on a GPU, from and to its
//!   node's memory. Collectives are `communication`'s.

mod interpreter;
mod op;
mod order;
mod pass;
mod replica;
mod send;
mod spread;
mod stage;
mod swap;
mod waits;

pub(super) use op::{Communicator, Op, Programs};
pub(super) use pass::OfStage;
pub(super) use replica::{Exchange, Replica, replica};
pub(super) use spread::{ParallelDevice, ParallelRun};
pub(super) use stage::{StageProgram, Started, stage_program};
