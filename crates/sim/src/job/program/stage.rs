//! The program of a stage that works through micro-batches, on one GPU or, with tensor parallelism, on several GPUs.

use forebay_collective::Operation;
use forebay_scenario::{StageBucket, StageParameters, Swap, Turn};

use super::op::{Offered, Op, Pass, Program, Started};
use super::pass::{End, OfRoot, OfStage};
use crate::communication::Communicator::{self, Context, Data, Expert, ExpertInner, Inner, Tensor};

/// Returns the program of a stage's step.
pub(crate) fn stage_program(of: &OfStage<'_>) -> Program {
    let turns = of.parallelism.schedule.turns(of.stage, of.stages(), of.micro_batches());
    let mut program = Program::default();
    let mut needed = program.begin_broadcasts(of);
    if of.stage == 0 {
        program.ops.push(Op::TakeBatch);
    }
    if of.launches {
        program.ops.push(Op::Launch);
    }
    if of.servers {
        program.ops.push(Op::AwaitPull);
    }
    let all = of.micro_batches();
    let mut made = vec![0; of.parallelism.schedule.chunks() as usize];
    for turn in turns {
        let made = &mut made[turn.chunk];
        if turn.pass == Pass::Forward {
            program.needed = std::mem::take(&mut needed[turn.chunk]);
        }
        let next = *made + usize::from(turn.pass.makes_gradients());
        program.pass(of, turn, (*made == 0 && !of.kind.adds, next == all));
        *made = next;
    }
    program.finish(of);
    if of.launches {
        program.ops.push(Op::AwaitLaunch);
    }
    let averages = of.learners && of.kind.exchanges;
    program.ops.extend(match program.pushed.is_empty() {
        true if averages => &Op::AVERAGE[..],
        true => &[Op::EndStep],
        // The step counts when the servers have added its gradients.
        false => &[Op::GoOn],
    });
    program
}

impl Program {
    /// Adds the starts of the broadcasts of a root's parameters. Returns the waits for them, by chunk, each with the share of the
    /// chunk's first forward pass that runs before it.
    fn begin_broadcasts(&mut self, of: &OfStage<'_>) -> Vec<Vec<(f64, Op)>> {
        let begin = |program: &mut Program, chunk| {
            let all = of.broadcast(chunk).iter().map(|parameters| {
                let StageParameters { at, bytes, tensors, experts } = *parameters;
                let among = Data.for_experts(experts);
                let started = Started { tensors, ..Started::at_once(Operation::Broadcast, bytes) };
                program.start(among, started);
                (at, Op::Await(among, program.started(among) as u32))
            });
            all.collect()
        };
        (0..of.parallelism.schedule.chunks() as usize).map(|chunk| begin(self, chunk)).collect()
    }

    /// Adds the ops of a pass. `first` says whether no earlier pass has computed gradients to which this one adds, `last` whether no
    /// later pass of the step computes gradients of the chunk's weights.
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

    /// Adds the computation of a pass, cut at each point at which parameters are needed or a collective happens.
    fn compute(&mut self, of: &OfStage<'_>, Turn { pass, chunk }: Turn, last: bool) {
        let (ends, gathers) = (of.ends(pass, chunk, last), of.gathers(pass, chunk));
        let (mut at, mut ends) = (0.0, ends.into_iter().peekable());
        let mut until = |program: &mut Program, to: f64| {
            while let Some((end, op)) = ends.next_if(|(end, _)| *end <= to) {
                program.work(pass, of.share_of(pass, chunk, (at, end)));
                at = end.max(at);
                program.end(of, op);
            }
            program.work(pass, of.share_of(pass, chunk, (at, to)));
            at = to.max(at);
        };
        // The next parameters are gathered while the present ones are used.
        let together = |a: &(f64, StageBucket), b: &(f64, StageBucket)| {
            a.0 == b.0 && a.1.experts != b.1.experts
        };
        for (at, op) in std::mem::take(&mut self.needed) {
            until(self, at);
            self.ops.push(op);
        }
        let groups: Vec<&[(f64, StageBucket)]> = gathers.chunk_by(together).collect();
        let back = pass != Pass::Forward;
        let ahead = |number: usize| groups.get(number).filter(|_| of.exchanges.overlap);
        let mut coming = ahead(0).map_or(Vec::new(), |first| self.gather_all((of, back), first));
        for (number, group) in groups.iter().enumerate() {
            until(self, group[0].0);
            if !of.exchanges.overlap {
                coming = self.gather_all((of, back), group);
            }
            self.ops.append(&mut coming);
            coming = ahead(number + 1).map_or(Vec::new(), |next| self.gather_all((of, back), next));
        }
        until(self, 1.0);
        if pass.makes_gradients() && of.reduces_in_each_pass() && !of.exchanges.overlap {
            self.await_gradients();
        }
    }

    /// Adds the ops for an event that happens after a share of a pass has been computed.
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
            End::Dispatch => {
                let expert = of.parallelism.expert.as_ref();
                let bytes = expert.map_or(0, |expert| expert.bytes_of_each(of.parallelism));
                self.start(Expert, Started::at_once(Operation::AllToAll, bytes));
                self.await_all(Expert);
            }
            End::Reduce { bucket, .. } if of.averages => {
                let StageBucket { raw: bytes, tensors, late, .. } = bucket;
                let started =
                    Started { tensors, late, ..Started::at_once(Operation::Allreduce, bytes) };
                if let Some(communicator) = of.inner(&bucket) {
                    self.start(communicator, started);
                }
            }
            End::Reduce { bucket, last } => self.reduce(of, &bucket, last),
        }
    }

    /// Adds the reduction of a bucket's gradients over all ranks, each of which keeps all of the sum or a shard of it. If only
    /// groups of ranks shard states, the `last` reduction before an update is continued by sums of the shards over all groups.
    fn reduce(&mut self, of: &OfStage<'_>, bucket: &StageBucket, last: bool) {
        if of.parallelism.zero == 0 {
            return self.exchange(
                of,
                bucket,
                Started::at_once(of.exchanges.reduction, bucket.bytes),
            );
        }
        let then = of.summing(bucket, last).map(|across| {
            let number = self.started(across) as u32;
            let shards = u64::from(of.exchanges.ranks[of.reducing(bucket)].max(1));
            let bytes = bucket.bytes.div_ceil(shards);
            self.collectives[across].push(Started::at_once(Operation::Allreduce, bytes));
            number
        });
        let started = Started::at_once(Operation::ReduceScatter, bucket.bytes);
        self.exchange(of, bucket, Started { then, ..started });
    }

    /// Adds the compression of a bucket and its push to parameter servers, or `collective`, among the ranks that reduce the bucket.
    fn exchange(&mut self, of: &OfStage<'_>, bucket: &StageBucket, collective: Started) {
        let StageBucket { raw, tensors, compress, late, .. } = *bucket;
        let among = of.reducing(bucket);
        let exchange = if of.servers {
            self.pushed.push(*bucket);
            Op::Push { experts: bucket.experts, buckets: 1 }
        } else {
            let number = self.started(among) as u32;
            self.collectives[among].push(Started { tensors, late, ..collective });
            Op::Start(among, number, number + 1)
        };
        if of.sums {
            self.ops.push(Op::Offer { piece: self.offered.next_id().number() });
            self.offered.push(Offered { bytes: raw as f64, compress, exchange });
            return;
        }
        self.ops.extend(coding(compress));
        self.ops.push(exchange);
    }

    fn start(&mut self, communicator: Communicator, started: Started) {
        let number = self.started(communicator) as u32;
        self.ops.push(Op::Start(communicator, number, number + 1));
        self.collectives[communicator].push(started);
    }

    /// Returns the number of collectives that the program starts in a communicator, up to the last op added so far.
    fn started(&self, communicator: Communicator) -> usize {
        self.collectives[communicator].len()
    }

    /// Adds allgathers of the parameters of the given buckets; returns the ops that wait for these parameters.
    fn gather_all(
        &mut self,
        (of, back): (&OfStage<'_>, bool),
        buckets: &[(f64, StageBucket)],
    ) -> Vec<Op> {
        buckets.iter().flat_map(|(_, bucket)| self.gather((of, back), bucket)).collect()
    }

    /// Adds the allgather of a bucket's parameters, for backward if `back` is true; returns the ops that wait for these parameters.
    fn gather(&mut self, (of, back): (&OfStage<'_>, bool), bucket: &StageBucket) -> Vec<Op> {
        let among = of.gathering(bucket, back);
        let bytes = of.parallelism.gathered_bytes(bucket);
        let (quantise, dequantise) =
            of.parallelism.quantisation_times(bucket, of.exchanges.ranks[among]);
        self.ops.extend(coding(quantise));
        self.start(among, Started::at_once(Operation::Allgather, bytes));
        let arrived = Op::Await(among, self.started(among) as u32);
        [arrived].into_iter().chain(coding(dequantise)).collect()
    }

    fn work(&mut self, pass: Pass, share: f64) {
        if share > 0.0 {
            self.ops.push(Op::ComputePass { pass, share });
        }
    }

    /// Adds the ops at the end of the step, which wait for reduced gradients, update parameters, and exchange parameters.
    fn finish(&mut self, of: &OfStage<'_>) {
        if of.averages {
            self.await_all(Inner);
            self.await_all(ExpertInner);
            self.update(of);
            self.average(of);
            return;
        }
        if of.kind.exchanges && of.reduces_after_passes() {
            for bucket in of.buckets.iter().rev().flatten() {
                self.reduce(of, bucket, true);
            }
        }
        // Shards of gradients are complete when backward returns, also where the update waits for more steps.
        if of.kind.exchanges || of.reduces_in_each_pass() {
            self.await_reduced(of);
        }
        self.update(of);
        if of.kind.exchanges && (1..3).contains(&of.parallelism.zero) {
            let mut arrivals = Vec::new();
            for bucket in of.buckets.iter().rev().flatten() {
                let arrival = self.gather((of, false), bucket);
                let ops = if of.exchanges.overlap { &mut arrivals } else { &mut self.ops };
                ops.extend(arrival);
            }
            self.ops.append(&mut arrivals);
        }
    }

    /// Adds the swaps of an update of parameters, if the step ends with one.
    fn update(&mut self, of: &OfStage<'_>) {
        if let Some(Swap { optimizer, gradients, parameters, .. }) = of
            .parallelism
            .swap
            .get(of.stage)
            .filter(|swap| of.kind.updates && swap.optimizer + swap.gradients > 0.0)
        {
            self.ops.push(Op::Swap { out: optimizer + parameters, into: optimizer + gradients });
            self.ops.push(Op::AwaitSwap);
        }
    }

    /// Adds the average of parameters over all model copies, if the step ends with one.
    fn average(&mut self, of: &OfStage<'_>) {
        if of.kind.exchanges {
            let buckets = of.buckets.iter().rev().flatten();
            if of.learners {
                // The average begins when all learners have corrected their models.
                return buckets.for_each(|bucket| {
                    let StageBucket { bytes, tensors, .. } = *bucket;
                    let started =
                        Started { tensors, ..Started::at_once(of.exchanges.reduction, bytes) };
                    self.collectives[Data.for_experts(bucket.experts)].push(started);
                });
            }
            buckets.for_each(|bucket| self.reduce(of, bucket, true));
            self.await_reduced(of);
        }
    }

    /// Adds the wait for reduced buckets, and their decompression.
    fn await_reduced(&mut self, of: &OfStage<'_>) {
        self.await_gradients();
        let reductions = if of.reduces_in_each_pass() { of.parallelism.micro_batches } else { 1 };
        self.ops.extend(coding(f64::from(reductions) * of.exchanges.decompress));
        if let Some(OfRoot { update: seconds, copies: roots, .. }) = of.root
            && seconds > 0.0
        {
            self.ops.push(Op::Update { seconds, roots });
        }
    }

    fn await_gradients(&mut self) {
        Communicator::OF_GRADIENTS.into_iter().flatten().for_each(|kind| self.await_all(kind));
    }

    fn await_all(&mut self, communicator: Communicator) {
        match self.started(communicator) {
            0 => {}
            all => self.ops.push(Op::Await(communicator, all as u32)),
        }
    }
}

/// Returns the op in which the GPU compresses or decompresses for the given time [s], if that takes any.
fn coding(seconds: f64) -> Option<Op> {
    (seconds > 0.0).then_some(Op::Compute { share: 0.0, compress: seconds })
}

#[cfg(test)]
mod tests;
