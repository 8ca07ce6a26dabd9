//! The ops of which programs are made.

/// What a rank does next, or waits for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Op {
    /// Takes the next batch from its loader, once its model copy may begin the step, and has it copied to the device
    /// where the trainer does that.
    TakeBatch,
    /// Waits for the activations of a whole batch from the stage before.
    ReceiveBatch,
    /// Sends those of a whole batch to the next stage.
    SendBatch,
    /// Begins the trainer's own work on the node's cores.
    Launch,
    /// Waits until all parameters of this exchange are pulled from the servers.
    AwaitPull,
    /// Computes a share of a step on a whole batch, and then compresses gradients for so long [s].
    Compute { share: f64, compress: f64 },
    /// Computes a share of what a micro-batch takes on all stages.
    ComputePass { pass: Pass, share: f64 },
    /// Has the gradients of a piece of the step for the collectives of all model copies.
    Offer { piece: u32 },
    /// Pushes the gradients of a piece of the step to the servers.
    Push { piece: u32 },
    /// Waits for the input of its next pass of that kind.
    Receive(Input),
    /// Sends what it computed to where it is needed.
    Send(Input),
    /// Starts the step's collective of this number in a communicator; it begins when all members have started it.
    Start(Communicator, u32),
    /// Waits until so many of the step's collectives in a communicator are over.
    Await(Communicator, u32),
    /// Starts to copy bytes to the node's memory and from there [B].
    Swap { out: f64, into: f64 },
    /// Waits for these copies.
    AwaitSwap,
    /// Waits for the trainer's own work.
    AwaitLaunch,
    /// Has done its step.
    EndStep,
}

/// A set of ranks that have collectives with each other, named by what they have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Communicator {
    /// Ranks of all model copies that have the same part of the model.
    Data,
    /// Ranks that split the layers of a stage.
    Tensor,
    /// Ranks that split the sequences of a model copy.
    Context,
    /// Ranks that hold all experts of a stage together.
    Expert,
    /// Ranks with the same experts, and the same part of each, which reduce their gradients.
    ExpertData,
}

impl Communicator {
    /// All kinds, in the order of their numbers.
    pub(crate) const ALL: [Communicator; 5] = [
        Communicator::Data,
        Communicator::Tensor,
        Communicator::Context,
        Communicator::Expert,
        Communicator::ExpertData,
    ];
}

/// What is computed with a micro-batch on a chunk of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    Forward,
    /// All gradients.
    Backward,
    /// Gradients of the chunk's input.
    InputGradients,
    /// Gradients of its weights, where they are a pass of their own.
    WeightGradients,
}

impl Pass {
    /// The name in timelines.
    pub(super) fn name(self) -> &'static str {
        match self {
            Pass::Forward => "forward",
            Pass::Backward => "backward",
            Pass::InputGradients => "input gradients",
            Pass::WeightGradients => "weight gradients",
        }
    }

    /// Whether gradients of weights are there after it.
    pub(super) fn makes_gradients(self) -> bool {
        match self {
            Pass::Forward | Pass::InputGradients => false,
            Pass::Backward | Pass::WeightGradients => true,
        }
    }
}

/// What a stage of the same model copy sends for a micro-batch: activations, or gradients of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Input {
    /// Where it is needed.
    pub(crate) stage: u32,
    /// For which chunk of that stage.
    pub(crate) chunk: u32,
    /// Whether it is gradients.
    pub(crate) back: bool,
}

impl Input {
    /// Its place among all that one stage receives.
    pub(super) fn number(self) -> usize {
        2 * self.chunk as usize + usize::from(self.back)
    }
}

/// The programs of a job copy: of each one for a step that ends with an exchange, and one for the steps between.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    exchange: Vec<Vec<Op>>,
    between: Vec<Vec<Op>>,
    /// Steps from one exchange to the next.
    interval: u64,
}

impl Programs {
    /// Programs by number; the same for every step where `interval` is 1.
    pub(crate) fn new(exchange: Vec<Vec<Op>>, between: Vec<Vec<Op>>, interval: u64) -> Programs {
        Programs { exchange, between, interval }
    }

    /// Op number `at` of program number `program` in `step`.
    #[inline]
    pub(super) fn op(&self, program: u32, step: u64, at: u32) -> Option<Op> {
        let exchanges = self.interval == 1 || (step + 1).is_multiple_of(self.interval);
        let programs = if exchanges { &self.exchange } else { &self.between };
        programs[program as usize].get(at as usize).copied()
    }
}
