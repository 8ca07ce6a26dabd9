//! The program of each rank: what it does in a step, op by op, and the interpreter that runs all of them.
//!
//! A [`Program`] is a list of ops with the collectives that they start, made once from the job's settings by a pure function.
//! `replica` makes the program of a model copy that computes on whole batches, in one piece or cut where gradients are ready.
//! `stage` makes the program of a part of a model copy that works through micro-batches in the order of its schedule; `pass` says
//! what each pass takes, waits for and leaves. Both end with the same ops. `op` says what each op means; `interpreter` runs the ops
//! one after the other and waits where an op needs something that is not there.
//!
//! To add an op, add a variant of [`Op`] and a line in each of `interpreter`'s matches, which name all ops: how it begins, and
//! when its input is there. To add a schedule, add the order of its passes to `forebay_scenario::Schedule`. Neither depends
//! on the other features of a job.
//!
//! - `spread`: the state of a model that is spread over GPUs,
//! - `send`: transfers of activations to the next stage and of their gradients back, and swaps of what does not fit on a GPU, from
//!   and to its node's memory. Collectives are in `communication`.

mod interpreter;
mod op;
mod pass;
mod replica;
mod send;
mod spread;
mod stage;

pub(in crate::job) use op::{Input, Offered};
pub(crate) use op::{Op, Program, Programs, Started};
pub(crate) use pass::{Exchanges, OfRoot, OfStage};
pub(crate) use replica::{CutExchange, Exchange, Piece, Replica, replica};
pub(crate) use spread::{ParallelDevice, Spread};
pub(crate) use stage::stage_program;
