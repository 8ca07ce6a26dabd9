//! The program of a model copy, or of a stage of one, that computes on whole batches.

use super::op::{Handover, Input, Offered, Op};
use crate::communication::Communicator;
use crate::ids::{IdVec, OfferId, PieceId};

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
pub(crate) struct Replica {
    /// Number of the pipeline stage within its model copy; `stages` is the number of stages.
    pub(crate) stage: usize,
    pub(crate) stages: usize,
    pub(crate) launches: bool,
    pub(crate) exchange: Exchange,
    /// Whether learners of a GPU sum their gradients, so that the GPU compresses the sum.
    pub(crate) sums: bool,
}

/// Returns the program of a step. The computation is cut into `pieces`, with an exchange of gradients after each; without
/// `pieces` it is done as a whole.
pub(crate) fn replica(of: &Replica, pieces: Option<&Pieces>) -> Vec<Op> {
    let input = |stage: usize| Input { stage: stage as u32, chunk: 0, back: false };
    let mut ops = Vec::new();
    if of.stage == 0 {
        ops.push(Op::TakeBatch);
    }
    if of.launches {
        ops.push(Op::Launch);
    }
    if of.stage > 0 {
        ops.push(Op::Receive(input(of.stage)));
    }
    if of.exchange == Exchange::Servers {
        ops.push(Op::AwaitPull);
    }
    match pieces {
        None => ops.push(Op::Compute { share: 1.0, compress: 0.0 }),
        Some(pieces) => {
            for (piece, number) in pieces.all().iter().zip(0..) {
                let offers = matches!(of.exchange, Exchange::Collectives | Exchange::Servers);
                let compress = if of.sums || !offers { 0.0 } else { piece.compress };
                let share = piece.share;
                if piece.needs > 0 {
                    ops.push(Op::Await(Communicator::Data, piece.needs));
                }
                ops.push(Op::Compute { share, compress });
                if offers {
                    ops.push(Op::Offer { piece: number });
                }
            }
        }
    }
    if of.launches {
        ops.push(Op::AwaitLaunch);
    }
    if of.stage + 1 < of.stages {
        ops.push(Op::Send(input(of.stage + 1)));
    }
    match (of.exchange, pieces) {
        (Exchange::Servers, Some(_)) => ops.push(Op::GoOn),
        (Exchange::Average, _) => {
            ops.extend(Op::AVERAGE);
        }
        _ => ops.push(Op::EndStep),
    }
    ops
}

/// A piece of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Piece {
    /// Share of the step's time.
    pub(crate) share: f64,
    /// Time to compress gradients after the piece [s].
    pub(crate) compress: f64,
    /// Number of parameter buckets that must have been broadcast before the piece can begin.
    pub(crate) needs: u32,
    /// Number of gradient buckets that become ready at the end of the piece; `bytes` is their size before compression [B].
    pub(crate) made: u32,
    pub(crate) bytes: f64,
}

/// The pieces of a step that ends with an exchange. Other steps have a single piece.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pieces {
    all: IdVec<PieceId, Piece>,
    /// Number of parameter buckets that a root broadcasts; `ends` holds for each piece this number plus the number of gradient
    /// buckets that are ready at the piece's end.
    given: u32,
    ends: IdVec<PieceId, u32>,
}

impl Pieces {
    /// Creates the pieces of steps that end with an exchange. A root broadcasts `given` buckets.
    pub(crate) fn new(all: Vec<Piece>, given: u32) -> Pieces {
        let so_far = |sum: &mut u32, piece: &Piece| {
            *sum += piece.made;
            Some(*sum)
        };
        let ends = all.iter().scan(given, so_far).collect();
        Pieces { all: all.into_iter().collect(), given, ends }
    }

    /// Returns the number of parameter buckets that a root broadcasts.
    pub(crate) fn given(&self) -> u32 {
        self.given
    }

    /// Returns the pieces of a step that ends with an exchange.
    pub(crate) fn all(&self) -> &[Piece] {
        self.all.as_slice()
    }

    /// Returns what the pieces offer, one after the other. If `sums`, the GPU compresses the sum of its learners' gradients.
    pub(crate) fn offers(&self, sums: bool) -> IdVec<OfferId, Offered> {
        let offer = |(piece, end): (&Piece, &u32)| Offered {
            bytes: piece.bytes,
            compress: if sums { piece.compress } else { 0.0 },
            exchange: Handover::Buckets { first: end - piece.made, end: *end },
        };
        self.all.iter().zip(&self.ends).map(offer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPUTE: Op = Op::Compute { share: 1.0, compress: 0.0 };

    fn pieces() -> Pieces {
        let piece = |share, needs, made| Piece { share, compress: 0.0, needs, made, bytes: 0.0 };
        Pieces::new(vec![piece(0.25, 1, 0), piece(0.75, 2, 1)], 2)
    }

    const ALONE: Replica =
        Replica { stage: 0, stages: 1, launches: false, exchange: Exchange::None, sums: false };

    #[test]
    fn a_training_step_without_gradient_exchange_takes_and_processes_a_batch() {
        assert_eq!(replica(&ALONE, None), [Op::TakeBatch, COMPUTE, Op::EndStep]);
    }

    #[test]
    fn a_learner_that_averages_models_counts_its_step_and_then_corrects_its_model() {
        let of = Replica { exchange: Exchange::Average, ..ALONE };
        let after = [Op::CountStep, Op::AwaitAverage, Op::Correct, Op::AwaitOwnAverage, Op::GoOn];
        assert_eq!(replica(&of, None), [&[Op::TakeBatch, COMPUTE][..], &after].concat());
    }

    #[test]
    fn activations_of_a_whole_batch_pass_from_stage_to_stage() {
        let of = |stage| replica(&Replica { stage, stages: 3, ..ALONE }, None);
        let input = |stage| Input { stage, chunk: 0, back: false };
        let (receive, send) = (|stage| Op::Receive(input(stage)), |stage| Op::Send(input(stage)));
        assert_eq!(of(0), [Op::TakeBatch, COMPUTE, send(1), Op::EndStep]);
        assert_eq!(of(1), [receive(1), COMPUTE, send(2), Op::EndStep]);
        assert_eq!(of(2), [receive(2), COMPUTE, Op::EndStep]);
        // Trainers begin their work before the input comes.
        let launching = replica(&Replica { stage: 2, stages: 3, launches: true, ..ALONE }, None);
        let expected = [Op::Launch, receive(2), COMPUTE, Op::AwaitLaunch, Op::EndStep];
        assert_eq!(launching, expected);
    }

    #[test]
    fn a_training_step_awaits_parameters_and_offers_gradients_piece_by_piece() {
        let exchange = Exchange::Collectives;
        let of = Replica { launches: true, exchange, ..ALONE };
        let compute = |share| Op::Compute { share, compress: 0.0 };
        let expected = [
            Op::TakeBatch,
            Op::Launch,
            Op::Await(Communicator::Data, 1),
            compute(0.25),
            Op::Offer { piece: 0 },
            Op::Await(Communicator::Data, 2),
            compute(0.75),
            Op::Offer { piece: 1 },
            Op::AwaitLaunch,
            Op::EndStep,
        ];
        assert_eq!(replica(&of, Some(&pieces())), expected);
    }

    #[test]
    fn parameter_server_jobs_pull_each_step_and_push_only_in_exchange_steps() {
        let exchange = Exchange::Servers;
        let of = Replica { exchange, ..ALONE };
        let pushes = |pieces: Option<&Pieces>| {
            let ops = replica(&of, pieces);
            assert_eq!(ops[..2], [Op::TakeBatch, Op::AwaitPull]);
            let counts = ops.last() == Some(&Op::EndStep);
            (ops.iter().filter(|op| matches!(op, Op::Offer { .. })).count(), counts)
        };
        // A step that ends with an exchange counts when the servers have added its gradients.
        assert_eq!([pushes(Some(&pieces())), pushes(None)], [(2, false), (0, true)]);
    }
}
