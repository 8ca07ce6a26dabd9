//! The ops that programs consist of.

pub(crate) use forebay_scenario::Pass;

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
    /// Pushes the next bucket of the device's gradients of experts, or of other gradients, to the parameter servers.
    Push { experts: bool },
    /// Offers the gradients of a piece of the step to the collectives of all model copies, or to the parameter servers.
    Offer { piece: u32 },
    /// Waits until an input from another stage has arrived: of a micro-batch, or of a whole batch.
    Receive(Input),
    /// Sends a result to the stage that needs it.
    Send(Input),
    /// Starts the collective with the given number in a communicator; the numbers begin anew in each step. The collective begins
    /// when all members have started it.
    Start(Communicator, u32),
    /// Waits until the given number of collectives of a communicator are over in this step.
    Await(Communicator, u32),
    /// Updates parameters for the given time [s] on devices of the first `roots` model copies; others do nothing.
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
    pub(crate) const AVERAGE: [Op; 5] =
        [Op::CountStep, Op::AwaitAverage, Op::Correct, Op::AwaitOwnAverage, Op::GoOn];
}

/// The kind of a communicator, named by what its ranks have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Communicator {
    /// Ranks of all model copies that have the same part of the model.
    Data,
    /// Ranks that split the layers of a stage (tensor parallelism).
    Tensor,
    /// Ranks that split the sequences of a model copy (context parallelism).
    Context,
    /// Ranks that together hold all experts of a stage.
    Expert,
    /// Ranks that hold the same part of the same experts, and reduce the gradients of these experts.
    ExpertData,
    /// Ranks of `Data` that shard states among themselves, where not all of them do (hybrid sharding).
    Shard,
    /// Ranks of `Data` that hold the same shards, one in each group of `Shard`.
    Replica,
    /// Ranks of `Data` that shard a second copy of the parameters (hpZ), from which backward gathers.
    Secondary,
    /// Ranks of `ExpertData` that shard states among themselves.
    ExpertShard,
    /// Ranks of `ExpertData` that hold the same shards.
    ExpertReplica,
    /// Ranks of `ExpertData` that shard a second copy of the parameters (hpZ), from which backward gathers.
    ExpertSecondary,
    /// Ranks of `Data` that train one model together, between exchanges that average parameters.
    Inner,
    /// Ranks of `ExpertData` that train one model together, between exchanges that average parameters.
    ExpertInner,
}

impl Communicator {
    /// Kinds of communicators among ranks that reduce gradients, each with the kind for gradients of experts.
    pub(crate) const OF_GRADIENTS: [[Communicator; 2]; 3] = [
        [Communicator::Data, Communicator::ExpertData],
        [Communicator::Shard, Communicator::ExpertShard],
        [Communicator::Replica, Communicator::ExpertReplica],
    ];

    /// Returns this kind's counterpart for gradients of experts if `experts` is true; otherwise this kind.
    pub(crate) fn for_experts(self, experts: bool) -> Communicator {
        match (self, experts) {
            (Communicator::Data, true) => Communicator::ExpertData,
            (Communicator::Shard, true) => Communicator::ExpertShard,
            (Communicator::Replica, true) => Communicator::ExpertReplica,
            (Communicator::Secondary, true) => Communicator::ExpertSecondary,
            (Communicator::Inner, true) => Communicator::ExpertInner,
            (kind, _) => kind,
        }
    }

    /// All kinds of communicators, in the order of their numbers.
    pub(crate) const ALL: [Communicator; 13] = [
        Communicator::Data,
        Communicator::Tensor,
        Communicator::Context,
        Communicator::Expert,
        Communicator::ExpertData,
        Communicator::Shard,
        Communicator::Replica,
        Communicator::Secondary,
        Communicator::ExpertShard,
        Communicator::ExpertReplica,
        Communicator::ExpertSecondary,
        Communicator::Inner,
        Communicator::ExpertInner,
    ];
}

/// What one stage of a model copy sends to another for a micro-batch or for a whole batch: activations, or their gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Input {
    /// The receiving stage.
    pub(crate) stage: u32,
    /// The chunk of the receiving stage that needs the input.
    pub(crate) chunk: u32,
    /// Whether the input is gradients of activations, which go backward.
    pub(crate) back: bool,
}

impl Input {
    /// Returns the index of this input among all that its stage receives.
    pub(super) fn number(self) -> usize {
        2 * self.chunk as usize + usize::from(self.back)
    }
}
