//! The program of a stage that works through micro-batches, on one GPU or on several that split its layers.

use crate::collective::Operation;
use crate::scenario::{StageBucket, Swap};

use super::op::Communicator::{self, Context, Data, Tensor};
use super::op::{Op, Pass};
use super::order::{Turn, order};
use super::pass::{End, OfStage};

/// A stage's step.
#[derive(Debug, Default)]
pub(in crate::sim) struct StageProgram {
    pub(in crate::sim) ops: Vec<Op>,
    /// By [`Communicator`], its collectives in order.
    pub(in crate::sim) collectives: [Vec<Started>; Communicator::ALL.len()],
}

/// A collective of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::sim) struct Started {
    pub(in crate::sim) operation: Operation,
    pub(in crate::sim) bytes: u64,
    /// Tensors, each of which the framework prepares before.
    pub(in crate::sim) tensors: u32,
    /// Share of the model's step for which a framework's cycle keeps it after all have started it.
    pub(in crate::sim) late: f64,
}

impl Started {
    /// One that begins when all have started it.
    fn at_once(operation: Operation, bytes: u64) -> Started {
        Started { operation, bytes, tensors: 0, late: 0.0 }
    }
}

/// The step of a stage.
pub(in crate::sim) fn stage_program(of: &OfStage<'_>) -> StageProgram {
    let turns = order(of.parallelism.schedule, of.stage, of.stages(), of.micro_batches());
    let mut program = StageProgram::default();
    if of.stage == 0 {
        program.ops.push(Op::TakeBatch);
    }
    if of.launches {
        program.ops.push(Op::Launch);
    }
    let all = of.micro_batches();
    let mut made = vec![0; of.parallelism.schedule.chunks() as usize];
    for turn in turns {
        let made = &mut made[turn.chunk];
        let next = *made + usize::from(turn.pass.makes_gradients());
        program.pass(of, turn, (*made == 0, next == all));
        *made = next;
    }
    program.finish(of);
    if of.launches {
        program.ops.push(Op::AwaitLaunch);
    }
    program.ops.push(Op::EndStep);
    program
}

impl StageProgram {
    /// A pass, which may be the `first` or the `last` that makes gradients of its chunk.
    fn pass(&mut self, of: &OfStage<'_>, turn: Turn, (first, last): (bool, bool)) {
        let Turn { pass, chunk } = turn;
        self.ops.extend(of.input(pass, chunk).map(Op::Receive));
        let (out, into) = of.moved(pass, chunk, first);
        let moves = out > 0.0 || into > 0.0;
        if moves {
            self.ops.push(Op::Swap { out, into });
        }
        self.compute(of, turn, last);
        if moves {
            self.ops.push(Op::AwaitSwap);
        }
        self.ops.extend(of.output(pass, chunk).map(Op::Send));
    }

    /// Arithmetic up to each point at which something is needed or there.
    fn compute(&mut self, of: &OfStage<'_>, Turn { pass, chunk }: Turn, last: bool) {
        let (ends, gathers) = (of.ends(pass, chunk, last), of.gathers(pass, chunk));
        let share = of.share(pass);
        let (mut at, mut ends) = (0.0, ends.into_iter().peekable());
        let mut until = |program: &mut StageProgram, to: f64| {
            while let Some((end, op)) = ends.next_if(|(end, _)| *end <= to) {
                program.work(pass, share * (end - at));
                at = end.max(at);
                program.end(of, op);
            }
            program.work(pass, share * (to - at));
            at = to.max(at);
        };
        // The next ones come while what is there is computed with.
        let base = self.started(Data);
        if let Some((_, first)) = gathers.first() {
            self.gather(first);
        }
        for (number, (begin, _)) in gathers.iter().enumerate() {
            until(self, *begin);
            self.ops.push(Op::Await(Data, self.place_of(base, number)));
            if let Some((_, next)) = gathers.get(number + 1) {
                self.gather(next);
            }
        }
        until(self, 1.0);
    }

    /// What follows some arithmetic.
    fn end(&mut self, of: &OfStage<'_>, end: End) {
        match end {
            End::Sum => {
                let tensor = of.parallelism.tensor.as_ref();
                let bytes = tensor.map_or(0.0, |tensor| tensor.bytes);
                let bytes = (bytes / f64::from(of.parallelism.micro_batches)).round() as u64;
                self.start(Tensor, Started::at_once(Operation::Allreduce, bytes));
                self.await_all(Tensor);
            }
            End::BeginKeys(operation) => {
                let context = of.parallelism.context.as_ref();
                let bytes = context.map_or(0, |context| context.bytes_of_each(of.parallelism));
                self.start(Context, Started::at_once(operation, bytes));
            }
            End::AwaitKeys => self.await_all(Context),
            End::Reduce(StageBucket { bytes, tensors, compress, late, .. }) => {
                if compress > 0.0 {
                    self.ops.push(Op::Compute { share: 0.0, compress });
                }
                let sharded = of.parallelism.zero > 0;
                let operation = if sharded { Operation::ReduceScatter } else { of.reduction };
                self.start(Data, Started { operation, bytes, tensors, late });
            }
        }
    }

    fn start(&mut self, communicator: Communicator, started: Started) {
        self.ops.push(Op::Start(communicator, self.started(communicator) as u32));
        self.collectives[communicator as usize].push(started);
    }

    /// Collectives of a communicator that have been started.
    fn started(&self, communicator: Communicator) -> usize {
        self.collectives[communicator as usize].len()
    }

    /// How many of the data parallel ranks' collectives are over when gather number `number` of those since `base` is.
    fn place_of(&self, base: usize, number: usize) -> u32 {
        let since = self.collectives[Data as usize][base..].iter().enumerate();
        let mut gathers = since.filter(|(_, of)| of.operation == Operation::Allgather);
        let place = gathers.nth(number).map(|(place, _)| base + place + 1);
        place.unwrap_or_else(|| self.started(Data)) as u32
    }

    fn gather(&mut self, bucket: &StageBucket) {
        self.start(Data, Started::at_once(Operation::Allgather, bucket.bytes));
    }

    fn work(&mut self, pass: Pass, share: f64) {
        if share > 0.0 {
            self.ops.push(Op::ComputePass { pass, share });
        }
    }

    /// Gradients are reduced, and parameters updated.
    fn finish(&mut self, of: &OfStage<'_>) {
        self.await_all(Data);
        if of.decompress > 0.0 {
            self.ops.push(Op::Compute { share: 0.0, compress: of.decompress });
        }
        if let Some(Swap { optimizer, gradients, parameters, .. }) =
            of.parallelism.swap.get(of.stage).filter(|swap| swap.optimizer + swap.gradients > 0.0)
        {
            self.ops.push(Op::Swap { out: optimizer + parameters, into: optimizer + gradients });
            self.ops.push(Op::AwaitSwap);
        }
        if (1..3).contains(&of.parallelism.zero) {
            of.buckets.iter().rev().flatten().for_each(|bucket| self.gather(bucket));
            self.await_all(Data);
        }
    }

    fn await_all(&mut self, communicator: Communicator) {
        match self.started(communicator) {
            0 => {}
            all => self.ops.push(Op::Await(communicator, all as u32)),
        }
    }
}

#[cfg(test)]
mod tests;
