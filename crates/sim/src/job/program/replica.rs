//! The program of a model copy, or of a stage of one, that computes on whole batches.

use super::op::{Input, Offered, Op, Program, Started};
use crate::communication::Communicator::Data;
use crate::communication::StepKind;

/// How a model copy exchanges the gradients that it has computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// The model copy exchanges no gradients within the step; it may exchange models between steps.
    None,
    /// The model copy reduces its gradients with all model copies, in collectives.
    Collectives,
    /// The model copy exchanges gradients and parameters with parameter servers.
    Servers,
    /// The model copy moves its model towards an average of models, after its step has been counted.
    Average,
}

/// The settings from which a model copy's program is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replica<'a> {
    /// Number of the pipeline stage within its model copy; `stages` is the number of stages.
    pub(crate) stage: usize,
    pub(crate) stages: usize,
    pub(crate) launches: bool,
    pub(crate) exchange: Exchange,
    /// Whether learners of a GPU sum their gradients, so that the GPU compresses the sum.
    pub(crate) sums: bool,
    /// What the step does besides computing gradients.
    pub(crate) kind: StepKind,
    /// How an exchange cuts the step.
    pub(crate) cut: &'a CutExchange,
}

/// The exchange of gradients at the end of a step, and the pieces that it cuts the step's computation into.
#[derive(Debug, Clone, Default)]
pub(crate) struct CutExchange {
    /// The pieces of the step, whose shares sum to 1; none if model copies exchange no gradients.
    pub(crate) pieces: Vec<Piece>,
    /// The broadcasts of a root's parameters before a step with new parameters.
    pub(crate) broadcasts: Vec<Started>,
    /// Time of the update at the root, or of the decompression of gradients [s], and the number of model copies that do it.
    pub(crate) update: (f64, u32),
}

/// A piece of a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece {
    /// Share of the step's time.
    pub(crate) share: f64,
    /// Time to compress gradients after the piece [s].
    pub(crate) compress: f64,
    /// Number of parameter buckets that must have been broadcast before the piece can begin.
    pub(crate) needs: u32,
    /// The reductions of the gradient buckets that become ready at the end of the piece; `bytes` is the size of these buckets before
    /// compression [B].
    pub(crate) made: Vec<Started>,
    pub(crate) bytes: f64,
}

/// Returns the program of a step.
pub(crate) fn replica(of: &Replica<'_>) -> Program {
    let mut program = Program::default();
    let (broadcasts, exchanges) = (of.broadcasts(), of.exchanges_gradients());
    if !broadcasts.is_empty() {
        let start = program.start_all(broadcasts);
        program.ops.push(start);
    }
    if of.stage == 0 {
        program.ops.push(Op::TakeBatch);
    }
    if of.launches {
        program.ops.push(Op::Launch);
    }
    let input = |stage: usize| Input { stage: stage as u32, chunk: 0, back: false };
    if of.stage > 0 {
        program.ops.push(Op::Receive(input(of.stage)));
    }
    if of.exchange == Exchange::Servers {
        program.ops.push(Op::AwaitPull);
    }
    if !broadcasts.is_empty() || exchanges {
        of.cut.pieces.iter().for_each(|piece| program.piece(of, piece));
    } else {
        program.ops.push(Op::Compute { share: 1.0, compress: 0.0 });
    }
    if of.launches {
        program.ops.push(Op::AwaitLaunch);
    }
    if of.stage + 1 < of.stages {
        program.ops.push(Op::Send(input(of.stage + 1)));
    }
    program.finish_batch(of);
    program
}

impl Replica<'_> {
    /// Returns the broadcasts of a root's parameters for the step; none if it uses those of the step before.
    fn broadcasts(&self) -> &[Started] {
        if self.kind.adds { &[] } else { &self.cut.broadcasts }
    }

    fn exchanges_gradients(&self) -> bool {
        self.kind.exchanges && matches!(self.exchange, Exchange::Collectives | Exchange::Servers)
    }
}

impl Program {
    /// Adds the computation of a piece of the step, and the exchange of the gradients that are ready then.
    fn piece(&mut self, of: &Replica<'_>, piece: &Piece) {
        let Piece { share, compress, needs, ref made, bytes } = *piece;
        if !of.broadcasts().is_empty() && needs > 0 {
            self.ops.push(Op::Await(Data, needs));
        }
        let exchanges = of.exchanges_gradients();
        let own = if of.sums || !exchanges { 0.0 } else { compress };
        self.ops.push(Op::Compute { share, compress: own });
        if !exchanges || made.is_empty() {
            return;
        }
        let exchange = match of.exchange {
            Exchange::Servers => Op::Push { experts: false, buckets: made.len() as u32 },
            _ => self.start_all(made),
        };
        if !of.sums {
            return self.ops.push(exchange);
        }
        self.ops.push(Op::Offer { piece: self.offered.next_id().number() });
        self.offered.push(Offered { bytes, compress, exchange });
    }

    /// Adds collectives; returns the op that starts them.
    fn start_all(&mut self, all: &[Started]) -> Op {
        let first = self.collectives[Data].len() as u32;
        self.collectives[Data].extend(all);
        Op::Start(Data, first, first + all.len() as u32)
    }

    /// Adds the ops at the end of the step, which wait for reduced gradients and update parameters.
    fn finish_batch(&mut self, of: &Replica<'_>) {
        match of.exchange {
            Exchange::Servers if of.kind.exchanges => return self.ops.push(Op::GoOn),
            Exchange::Average if of.kind.exchanges => {
                // The average begins when all learners have corrected their models.
                of.cut.pieces.iter().for_each(|piece| self.collectives[Data].extend(&piece.made));
                return self.ops.extend(Op::AVERAGE);
            }
            Exchange::Collectives if of.kind.exchanges => {
                self.ops.push(Op::Await(Data, self.collectives[Data].len() as u32));
                let (seconds, roots) = of.cut.update;
                if seconds > 0.0 {
                    self.ops.push(Op::Update { seconds, roots });
                }
            }
            _ => {}
        }
        self.ops.push(Op::EndStep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::communication::Cycle;
    use forebay_collective::Operation;

    const COMPUTE: Op = Op::Compute { share: 1.0, compress: 0.0 };

    fn cut() -> CutExchange {
        let piece = |share, needs, made| Piece { share, compress: 0.0, needs, made, bytes: 0.0 };
        let reduction = Started::at_once(Operation::Reduce, 8);
        let pieces = vec![piece(0.25, 1, vec![]), piece(0.75, 2, vec![reduction])];
        let broadcasts = vec![Started::at_once(Operation::Broadcast, 4); 2];
        CutExchange { pieces, broadcasts, update: (0.5, 1) }
    }

    fn alone(cut: &CutExchange) -> Replica<'_> {
        let (exchange, kind) = (Exchange::None, Cycle::EACH_STEP.kind(0));
        Replica { stage: 0, stages: 1, launches: false, exchange, sums: false, kind, cut }
    }

    #[test]
    fn a_training_step_without_gradient_exchange_takes_and_processes_a_batch() {
        let whole = CutExchange::default();
        assert_eq!(replica(&alone(&whole)).ops, [Op::TakeBatch, COMPUTE, Op::EndStep]);
    }

    #[test]
    fn a_learner_that_averages_models_counts_its_step_and_then_corrects_its_model() {
        let whole = CutExchange::default();
        let of = Replica { exchange: Exchange::Average, ..alone(&whole) };
        let after = [Op::CountStep, Op::AwaitAverage, Op::Correct, Op::AwaitOwnAverage, Op::GoOn];
        assert_eq!(replica(&of).ops, [&[Op::TakeBatch, COMPUTE][..], &after].concat());
    }

    #[test]
    fn activations_of_a_whole_batch_pass_from_stage_to_stage() {
        let whole = CutExchange::default();
        let of = |stage| replica(&Replica { stage, stages: 3, ..alone(&whole) }).ops;
        let input = |stage| Input { stage, chunk: 0, back: false };
        let (receive, send) = (|stage| Op::Receive(input(stage)), |stage| Op::Send(input(stage)));
        assert_eq!(of(0), [Op::TakeBatch, COMPUTE, send(1), Op::EndStep]);
        assert_eq!(of(1), [receive(1), COMPUTE, send(2), Op::EndStep]);
        assert_eq!(of(2), [receive(2), COMPUTE, Op::EndStep]);
        // Trainers begin their work before the input comes.
        let launching = Replica { stage: 2, stages: 3, launches: true, ..alone(&whole) };
        let expected = [Op::Launch, receive(2), COMPUTE, Op::AwaitLaunch, Op::EndStep];
        assert_eq!(replica(&launching).ops, expected);
    }

    #[test]
    fn a_training_step_awaits_parameters_and_exchanges_gradients_piece_by_piece() {
        let cut = cut();
        let exchange = Exchange::Collectives;
        let of = Replica { launches: true, exchange, ..alone(&cut) };
        let compute = |share| Op::Compute { share, compress: 0.0 };
        let expected = [
            Op::Start(Data, 0, 2),
            Op::TakeBatch,
            Op::Launch,
            Op::Await(Data, 1),
            compute(0.25),
            Op::Await(Data, 2),
            compute(0.75),
            Op::Start(Data, 2, 3),
            Op::AwaitLaunch,
            Op::Await(Data, 3),
            Op::Update { seconds: 0.5, roots: 1 },
            Op::EndStep,
        ];
        assert_eq!(replica(&of).ops, expected);
    }

    #[test]
    fn parameter_server_jobs_pull_each_step_and_push_only_in_exchange_steps() {
        let cut = CutExchange { broadcasts: vec![], ..cut() };
        let pushes = |step| {
            let kind = Cycle::new(2, 1).kind(step);
            let of = Replica { exchange: Exchange::Servers, kind, ..alone(&cut) };
            let ops = replica(&of).ops;
            assert_eq!(ops[..2], [Op::TakeBatch, Op::AwaitPull]);
            let counts = ops.last() == Some(&Op::EndStep);
            (ops.iter().filter(|op| matches!(op, Op::Push { .. })).count(), counts)
        };
        // A step that ends with an exchange counts when the servers have added its gradients.
        assert_eq!([pushes(1), pushes(0)], [(1, false), (0, true)]);
    }
}
