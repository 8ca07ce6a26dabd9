//! The program of a stage that works through micro-batches, on one GPU or on several that split its layers.

use crate::collective::Operation;
use crate::scenario::{Parallelism, Schedule, StageBucket, Swap};

use super::op::Communicator::{self, Data, Tensor};
use super::op::{Op, Pass};

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

/// What a program is made of.
pub(in crate::sim) struct OfStage<'a> {
    pub(in crate::sim) parallelism: &'a Parallelism,
    pub(in crate::sim) stage: usize,
    /// Share of the step of each stage.
    pub(in crate::sim) shares: &'a [f64],
    /// Its gradients, where there is someone to reduce them with, and by which operation if they are not sharded.
    pub(in crate::sim) buckets: Vec<StageBucket>,
    pub(in crate::sim) reduction: Operation,
    /// Time to decompress what has come of a step [s].
    pub(in crate::sim) decompress: f64,
    /// Whether its trainer works on the node's cores, too.
    pub(in crate::sim) launches: bool,
}

/// The step of a stage.
pub(in crate::sim) fn stage_program(of: &OfStage<'_>) -> StageProgram {
    let order = order(of.parallelism.schedule, of.stage, of.shares.len(), of.micro_batches());
    let last = order.len().saturating_sub(1);
    let mut program = StageProgram::default();
    if of.stage == 0 {
        program.ops.push(Op::TakeBatch);
    }
    if of.launches {
        program.ops.push(Op::Launch);
    }
    let mut backwards = 0;
    for (place, pass) in order.into_iter().enumerate() {
        program.pass(of, pass, (backwards == 0, place == last));
        backwards += u32::from(pass.is_back());
    }
    program.finish(of);
    if of.launches {
        program.ops.push(Op::AwaitLaunch);
    }
    program.ops.push(Op::EndStep);
    program
}

/// The passes of a stage, in order.
fn order(schedule: Schedule, stage: usize, stages: usize, all: usize) -> Vec<Pass> {
    let ahead = match schedule {
        Schedule::Gpipe => all,
        Schedule::OneForwardOneBackward => (stages - 1 - stage).min(all),
    };
    let (first, rest) = (vec![Pass::Forward; ahead], all - ahead);
    let turns = [Pass::Forward, Pass::Backward].repeat(rest);
    [first, turns, vec![Pass::Backward; ahead]].concat()
}

/// What follows some arithmetic of a pass.
#[derive(Debug, Clone, Copy)]
enum End {
    /// Ranks that split a layer add its results up.
    Sum,
    /// A bucket of gradients is reduced.
    Reduce(StageBucket),
}

impl OfStage<'_> {
    fn micro_batches(&self) -> usize {
        self.parallelism.micro_batches as usize
    }

    /// Whether another stage is on that side.
    fn has_next(&self, pass: Pass) -> bool {
        match pass {
            Pass::Forward => self.stage + 1 < self.shares.len(),
            Pass::Backward => self.stage > 0,
        }
    }

    fn receives(&self, pass: Pass) -> bool {
        match pass {
            Pass::Forward => self.stage > 0,
            Pass::Backward => self.stage + 1 < self.shares.len(),
        }
    }

    /// Share of a micro-batch's time that a pass takes here.
    fn share(&self, pass: Pass) -> f64 {
        let forward = self.parallelism.forward;
        let part = if pass.is_back() { 1.0 - forward } else { forward };
        part * self.shares[self.stage] / f64::from(self.parallelism.tensor_ranks())
    }

    /// By share of a pass, what follows the arithmetic up to there: sums of a layer's results, and buckets of gradients to
    /// reduce, in the `last` backward pass, or in each where ranks keep only shards of them (ZeRO's stages 2 and 3).
    fn ends(&self, pass: Pass, last: bool) -> Vec<(f64, End)> {
        let tensor = self.parallelism.tensor.as_ref().filter(|tensor| tensor.ranks > 1);
        let sums = tensor.map_or(0, |tensor| tensor.reductions[self.stage]);
        let mut ends: Vec<(f64, End)> =
            (1..=sums).map(|i| (f64::from(i) / f64::from(sums), End::Sum)).collect();
        if pass.is_back() && (last || self.parallelism.zero >= 2) {
            ends.extend(self.buckets.iter().map(|bucket| (bucket.at, End::Reduce(*bucket))));
            ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        ends
    }

    /// Where parameters are needed that other ranks have, as shares of a pass, with their bytes.
    fn gathers(&self, pass: Pass) -> Vec<(f64, StageBucket)> {
        if self.parallelism.zero < 3 {
            return Vec::new();
        }
        match pass {
            Pass::Backward => {
                let begins = [0.0].into_iter().chain(self.buckets.iter().map(|bucket| bucket.at));
                begins.zip(self.buckets.iter().copied()).collect()
            }
            // Forward begins where backward ends.
            Pass::Forward => self.buckets.iter().rev().map(|b| (1.0 - b.at, *b)).collect(),
        }
    }

    /// Bytes that a pass sends to the node's memory, and needs from there.
    fn moved(&self, pass: Pass, first: bool) -> (f64, f64) {
        let Some(swap) = self.parallelism.swap.get(self.stage) else { return (0.0, 0.0) };
        let (stage, stages) = (self.stage as u32, self.shares.len() as u32);
        let of = self.parallelism;
        let each =
            swap.activations / f64::from(of.schedule.in_progress(stage, stages, of.micro_batches));
        match pass {
            Pass::Forward => (each, swap.parameters),
            Pass::Backward => {
                let before = if first { 0.0 } else { swap.gradients };
                (swap.gradients, each + swap.parameters + before)
            }
        }
    }
}

impl StageProgram {
    fn pass(&mut self, of: &OfStage<'_>, pass: Pass, (first, last): (bool, bool)) {
        if of.receives(pass) {
            self.ops.push(Op::Receive(pass));
        }
        let (out, into) = of.moved(pass, first);
        let moves = out > 0.0 || into > 0.0;
        if moves {
            self.ops.push(Op::Swap { out, into });
        }
        self.compute(of, pass, last);
        if moves {
            self.ops.push(Op::AwaitSwap);
        }
        if of.has_next(pass) {
            self.ops.push(Op::Send(pass));
        }
    }

    /// Arithmetic up to each point at which something is needed or there.
    fn compute(&mut self, of: &OfStage<'_>, pass: Pass, last: bool) {
        let (share, ends, gathers) = (of.share(pass), of.ends(pass, last), of.gathers(pass));
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
            of.buckets.iter().for_each(|bucket| self.gather(bucket));
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
mod tests {
    use super::*;
    use crate::scenario::StepOf;
    use Pass::{Backward, Forward};

    fn compute(pass: Pass, share: f64) -> Op {
        Op::ComputePass { pass, share }
    }

    fn parallelism(schedule: Schedule, micro_batches: u32, zero: u32) -> Parallelism {
        Parallelism {
            schedule,
            micro_batches,
            step_of: StepOf::Batch,
            forward: 0.25,
            activations: 0.0,
            gpus_per_node: 1,
            tensor: None,
            zero,
            weights: vec![1.0],
            swap: Vec::new(),
        }
    }

    #[test]
    fn schedules_are_the_published_ones() {
        // Narayanan et al. (2021), figures 3 and 4: four stages, the first of which has three forward passes ahead.
        let of = |stage| order(Schedule::OneForwardOneBackward, stage, 4, 5);
        assert_eq!(of(3), [Forward, Backward].repeat(5));
        let first = [vec![Forward; 3], [Forward, Backward].repeat(2), vec![Backward; 3]].concat();
        assert_eq!(of(0), first);
        let gpipe = order(Schedule::Gpipe, 2, 4, 3);
        assert_eq!(gpipe, [vec![Forward; 3], vec![Backward; 3]].concat());
        // Fewer micro-batches than stages.
        assert_eq!(order(Schedule::OneForwardOneBackward, 0, 4, 1), [Forward, Backward]);
    }

    fn buckets() -> Vec<StageBucket> {
        let bucket = |at, bytes| StageBucket { at, bytes, tensors: 1, compress: 0.0, late: 0.0 };
        vec![bucket(0.5, 10), bucket(1.0, 30)]
    }

    fn made(zero: u32, micro: u32) -> StageProgram {
        let parallelism = parallelism(Schedule::Gpipe, micro, zero);
        stage_program(&OfStage {
            parallelism: &parallelism,
            stage: 0,
            shares: &[1.0],
            buckets: buckets(),
            reduction: Operation::Allreduce,
            decompress: 0.0,
            launches: false,
        })
    }

    #[test]
    fn gradients_are_asked_for_when_they_are_there() {
        let ops = made(0, 2).ops;
        let expected = [
            Op::TakeBatch,
            compute(Forward, 0.25),
            compute(Forward, 0.25),
            compute(Backward, 0.75),
            compute(Backward, 0.375),
            Op::Start(Data, 0),
            compute(Backward, 0.375),
            Op::Start(Data, 1),
            Op::Await(Data, 2),
            Op::EndStep,
        ];
        assert_eq!(ops, expected);
    }

    #[test]
    fn shards_are_exchanged_as_often_as_their_stage_says() {
        // Rajbhandari et al., section 7: as many bytes as an allreduce's two halves, and half as many more at stage 3.
        let of = |zero| made(zero, 1).collectives[Data as usize].clone();
        let bytes = |zero| of(zero).iter().map(|started| started.bytes).sum::<u64>();
        assert_eq!([bytes(0), bytes(1), bytes(2), bytes(3)], [40, 80, 80, 120]);
        use Operation::{Allgather, ReduceScatter};
        let operations = |zero| -> Vec<(Operation, u64)> {
            of(zero).iter().map(|started| (started.operation, started.bytes)).collect()
        };
        let scattered = [(ReduceScatter, 10), (ReduceScatter, 30)];
        assert_eq!(operations(1), [&scattered[..], &[(Allgather, 10), (Allgather, 30)]].concat());
        // Forward needs first what backward makes last; the next is fetched while one is used.
        let expected = [
            (Allgather, 30),
            (Allgather, 10),
            (Allgather, 10),
            (Allgather, 30),
            (ReduceScatter, 10),
            (ReduceScatter, 30),
        ];
        assert_eq!(operations(3), expected);
        let waits: Vec<u32> = made(3, 1)
            .ops
            .iter()
            .filter_map(|op| if let Op::Await(Data, n) = op { Some(*n) } else { None })
            .collect();
        assert_eq!(waits, [1, 2, 3, 4, 6]);
    }

    #[test]
    fn sharded_gradients_are_reduced_after_each_micro_batch() {
        // Rajbhandari et al., section 5.2: who has a shard of the gradients gets them as soon as they are made.
        let number = |zero, operation| {
            let all = made(zero, 3).collectives;
            let of = all[Data as usize].iter().filter(|of| of.operation == operation);
            let bytes: u64 = of.map(|of| of.bytes).sum();
            bytes / 40
        };
        use Operation::{Allgather, ReduceScatter};
        assert_eq!([1, 2, 3].map(|zero| number(zero, ReduceScatter)), [1, 3, 3]);
        // Parameters are gathered once a step, or for each pass.
        assert_eq!([1, 2, 3].map(|zero| number(zero, Allgather)), [1, 1, 6]);
    }

    #[test]
    fn all_of_a_step_is_computed_once() {
        for (zero, micro) in [(0, 1), (1, 3), (3, 2)] {
            let of = |op: &Op| if let Op::ComputePass { share, .. } = op { *share } else { 0.0 };
            let sum: f64 = made(zero, micro).ops.iter().map(of).sum();
            assert!((sum - f64::from(micro)).abs() < 1e-12, "{zero} {micro}: {sum}");
        }
    }

    #[test]
    fn what_does_not_fit_comes_and_goes_with_its_use() {
        let mut parallelism = parallelism(Schedule::Gpipe, 2, 0);
        let swap = Swap { activations: 8.0, optimizer: 5.0, gradients: 3.0, parameters: 2.0 };
        parallelism.swap = vec![swap];
        let of = OfStage {
            parallelism: &parallelism,
            stage: 0,
            shares: &[1.0],
            buckets: vec![],
            reduction: Operation::Allreduce,
            decompress: 0.0,
            launches: false,
        };
        let moves: Vec<(f64, f64)> = stage_program(&of)
            .ops
            .iter()
            .filter_map(|op| match op {
                Op::Swap { out, into } => Some((*out, *into)),
                _ => None,
            })
            .collect();
        assert_eq!(moves, [(4.0, 2.0), (4.0, 2.0), (3.0, 6.0), (3.0, 9.0), (7.0, 8.0)]);
    }
}
