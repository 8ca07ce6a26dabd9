//! The ops that programs consist of.

pub(crate) use forebay_scenario::Pass;

use forebay_collective::Operation;
use forebay_scenario::StageBucket;

use crate::communication::{ByCommunicator, ByStepKind, Communicator, Cycle};
use crate::ids::{IdVec, OfferId, ProgramId};

/// An operation of a rank, or a wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Op {
    /// Takes the next batch from the device's loader once the model copy may begin the step; if the trainer copies batches, has
    /// the batch copied to the device.
    TakeBatch,
    /// Begins the trainer's host-side work on the node's cores.
    Launch,
    /// Waits until all parameters for this step have been pulled from the servers.
    AwaitPull,
    /// Computes a share of a step on a whole batch, and then compresses gradients for the given time [s].
    Compute { share: f64, compress: f64 },
    /// Computes a pass or a part of one. `share` is the computation's share of the time that a micro-batch takes on all stages.
    ComputePass { pass: Pass, share: f64 },
    /// Pushes the next `buckets` buckets of the device's gradients of experts, or of other gradients, to the parameter servers.
    Push { experts: bool, buckets: u32 },
    /// Offers gradients to the device's GPU, which sums those of all its learners and exchanges the sum; `piece` is the number of
    /// the [`Offered`] in the step.
    Offer { piece: u32 },
    /// Waits until an input from another stage has arrived: of a micro-batch, or of a whole batch.
    Receive(Input),
    /// Sends a result to the stage that needs it.
    Send(Input),
    /// Starts the collectives from the first number up to, but without, the second in a communicator; the numbers begin anew in
    /// each step. A collective begins when all members have started it.
    Start(Communicator, u32, u32),
    /// Waits until the given number of collectives of a communicator are over in this step.
    Await(Communicator, u32),
    /// Updates parameters, or decompresses gradients, for the given time [s] on devices of the first `roots` model copies; others
    /// do nothing.
    Update { seconds: f64, roots: u32 },
    /// Starts to copy `out` bytes to the node's memory and `into` bytes from there [B].
    Swap { out: f64, into: f64 },
    /// Waits until the copies that the last swap started are done.
    AwaitSwap,
    /// Counts the step as done. The device goes on to its next step only after further ops.
    CountStep,
    /// Waits for the average of the reference models that follows the device's previous correction.
    AwaitAverage,
    /// Waits for the average that follows the device's last correction, unless learners go on meanwhile.
    AwaitOwnAverage,
    /// Moves the device's model towards the reference model of its GPU (a correction).
    Correct,
    /// Waits for the end of the trainer's host-side work.
    AwaitLaunch,
    /// Goes on to the next step at once. The step left behind has been counted, or counts once the parameter servers have added
    /// its gradients.
    GoOn,
    /// Ends the step, which counts.
    EndStep,
}

impl Op {
    /// The end of a step after which a learner's model is averaged with others.
    pub(in crate::job) const AVERAGE: [Op; 5] =
        [Op::CountStep, Op::AwaitAverage, Op::Correct, Op::AwaitOwnAverage, Op::GoOn];
}

/// Gradients that a device offers: the learners of a GPU sum them first, and then the GPU exchanges the sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Offered {
    /// Size of the gradients before compression [B].
    pub(in crate::job) bytes: f64,
    /// Time to compress the sum [s].
    pub(in crate::job) compress: f64,
    /// The op by which the GPU begins to exchange the sum.
    pub(in crate::job) exchange: Op,
}

/// What one stage of a model copy sends to another for a micro-batch or for a whole batch: activations, or their gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Input {
    /// The receiving stage.
    pub(crate) stage: u32,
    /// The chunk of the receiving stage that needs the input.
    pub(in crate::job) chunk: u32,
    /// Whether the input is gradients of activations, which go backward.
    pub(in crate::job) back: bool,
}

impl Input {
    /// Returns the index of this input among all that its stage receives.
    pub(in crate::job) fn number(self) -> usize {
        2 * self.chunk as usize + usize::from(self.back)
    }
}

/// The program of a rank in a kind of step, and its exchanges.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) ops: Vec<Op>,
    /// The collectives of each [`Communicator`], in order.
    pub(crate) collectives: ByCommunicator<Vec<Started>>,
    /// The buckets of a stage that are pushed to parameter servers, in order.
    pub(crate) pushed: Vec<StageBucket>,
    /// What the learners of a GPU sum first, in order.
    pub(super) offered: IdVec<OfferId, Offered>,
    /// While the program of a stage is made: the waits of the next pass for a root's parameters, each with the share of the pass
    /// before it.
    pub(super) needed: Vec<(f64, Op)>,
}

/// A collective of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Started {
    pub(crate) operation: Operation,
    pub(crate) bytes: u64,
    /// Number of tensors that the framework prepares before the collective.
    pub(crate) tensors: u32,
    /// Delay of the collective after all ranks have started it, due to the framework's cycle; as a share of the model's step
    /// time.
    pub(crate) late: f64,
    /// Number of the collective that continues this one in another communicator, if one does.
    pub(crate) then: Option<u32>,
}

impl Started {
    /// Returns a collective that begins as soon as all ranks have started it.
    pub(crate) fn at_once(operation: Operation, bytes: u64) -> Started {
        Started { operation, bytes, tensors: 0, late: 0.0, then: None }
    }
}

/// The programs of a job copy, for each kind of step, indexed by number.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    cycle: Cycle,
    of: ByStepKind<IdVec<ProgramId, Vec<Op>>>,
    /// For each program, what it offers in a step that ends with an exchange.
    offered: IdVec<ProgramId, IdVec<OfferId, Offered>>,
}

impl Programs {
    /// Returns the programs `all` of a job copy whose steps follow `cycle`.
    pub(crate) fn new(cycle: Cycle, all: &ByStepKind<Vec<Program>>) -> Programs {
        let ops = |kind| all[kind].iter().map(|program| program.ops.clone()).collect();
        let offered = all[cycle.last()].iter().map(|program| program.offered.clone()).collect();
        Programs { cycle, of: ByStepKind::of(cycle, ops), offered }
    }

    /// Returns what program number `program` offers in a step that ends with an exchange, in order.
    pub(in crate::job) fn offered(&self, program: u32) -> &IdVec<OfferId, Offered> {
        &self.offered[ProgramId::new(program)]
    }

    /// Returns the place of `step` in the cycle of kinds of steps.
    pub(in crate::job) fn place(&self, step: u64) -> u64 {
        self.cycle.place(step)
    }

    /// Returns op number `at` of program number `program` in `step`; `None` after the last op.
    #[inline(always)]
    pub(in crate::job) fn op(&self, program: u32, step: u64, at: u32) -> Option<Op> {
        self.of[self.cycle.kind(step)][ProgramId::new(program)].get(at as usize).copied()
    }
}
