//! Tests of stage programs: what they compute, start, wait for and swap.

use super::*;
use crate::communication::Communicator::ExpertData;
use crate::communication::{ByCommunicator, Cycle};
use crate::job::program::op::Input;
use crate::job::program::pass::Exchanges;
use Pass::{Backward, Forward};
use forebay_scenario::{Parallelism, Schedule, StepOf};

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
        context: None,
        expert: None,
        zero,
        shard_copies: None,
        secondary_copies: None,
        quantised: None,
        weights: vec![1.0],
        swap: Vec::new(),
    }
}

/// Returns a bucket of `bytes` bytes of gradients, of experts or dense, that is made at the share `at` of backward.
fn bucket(at: f64, bytes: u64, experts: bool) -> StageBucket {
    StageBucket {
        at,
        made: at,
        bytes,
        raw: bytes,
        parameters: bytes,
        tensors: 1,
        compress: 0.0,
        late: 0.0,
        experts,
    }
}

fn buckets() -> Vec<StageBucket> {
    vec![bucket(0.5, 10, false), bucket(1.0, 30, false)]
}

/// Returns how gradients that are not compressed are summed over all ranks, while these compute if `overlap` is true.
fn exchanges(overlap: bool) -> Exchanges {
    let (reduction, ranks) = (Operation::Allreduce, ByCommunicator::default());
    Exchanges { reduction, decompress: 0.0, overlap, ranks }
}

/// Returns the settings of the only stage of a model copy that exchanges nothing, in a job whose steps all update parameters.
fn of_stage(parallelism: &Parallelism) -> OfStage<'_> {
    OfStage {
        parallelism,
        stage: 0,
        expert: 0,
        shares: &[1.0],
        buckets: Vec::new(),
        exchanges: exchanges(true),
        root: None,
        launches: false,
        kind: Cycle::EACH_STEP.kind(0),
        servers: false,
        learners: false,
        sums: false,
        averages: false,
    }
}

fn made(zero: u32, micro: u32) -> Program {
    in_step(zero, micro, (Cycle::EACH_STEP, false), 0)
}

/// Returns the program of `step` of a cycle, in which exchanges average parameters if `averages` is true.
fn in_step(zero: u32, micro: u32, (cycle, averages): (Cycle, bool), step: u64) -> Program {
    let parallelism = parallelism(Schedule::Gpipe, micro, zero);
    stage_program(&OfStage {
        buckets: vec![buckets()],
        kind: cycle.kind(step),
        averages,
        ..of_stage(&parallelism)
    })
}

#[test]
fn collectives_start_as_soon_as_gradients_are_ready() {
    let ops = made(0, 2).ops;
    let expected = [
        Op::TakeBatch,
        compute(Forward, 0.25),
        compute(Forward, 0.25),
        compute(Backward, 0.75),
        compute(Backward, 0.375),
        Op::Start(Data, 0, 1),
        compute(Backward, 0.375),
        Op::Start(Data, 1, 2),
        Op::Await(Data, 2),
        Op::EndStep,
    ];
    assert_eq!(ops, expected);
}

#[test]
fn zero_stages_exchange_the_published_volumes() {
    // System: ZeRO stages 0 to 3, one micro-batch. Expectation (Rajbhandari et al., section 7): stages 1 and 2 exchange as many
    // bytes as an allreduce's two halves, and stage 3 half as many more.
    let of = |zero| made(zero, 1).collectives[Data].clone();
    let bytes = |zero| of(zero).iter().map(|started| started.bytes).sum::<u64>();
    assert_eq!([bytes(0), bytes(1), bytes(2), bytes(3)], [40, 80, 80, 120]);
    use Operation::{Allgather, ReduceScatter};
    let operations = |zero| -> Vec<(Operation, u64)> {
        of(zero).iter().map(|started| (started.operation, started.bytes)).collect()
    };
    let scattered = [(ReduceScatter, 10), (ReduceScatter, 30)];
    assert_eq!(operations(1), [&scattered[..], &[(Allgather, 10), (Allgather, 30)]].concat());
    // Forward needs first what backward makes last; the next bucket is gathered while the present one is used.
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
    // System: ZeRO stages 1 to 3, three micro-batches. Expectation (Rajbhandari et al., section 5.2): from stage 2 on, the
    // rank that holds a shard of the gradients gets them as soon as they are computed.
    let number = |zero, operation| {
        let all = made(zero, 3).collectives;
        let of = all[Data].iter().filter(|of| of.operation == operation);
        let bytes: u64 = of.map(|of| of.bytes).sum();
        bytes / 40
    };
    use Operation::{Allgather, ReduceScatter};
    assert_eq!([1, 2, 3].map(|zero| number(zero, ReduceScatter)), [1, 3, 3]);
    // Parameters are gathered once in a step, or for each pass at stage 3.
    assert_eq!([1, 2, 3].map(|zero| number(zero, Allgather)), [1, 1, 6]);
}

#[test]
fn compute_passes_of_a_step_add_up_to_the_work_of_all_micro_batches() {
    for (zero, micro) in [(0, 1), (1, 3), (3, 2)] {
        let of = |op: &Op| if let Op::ComputePass { share, .. } = op { *share } else { 0.0 };
        let sum: f64 = made(zero, micro).ops.iter().map(of).sum();
        assert!((sum - f64::from(micro)).abs() < 1e-12, "{zero} {micro}: {sum}");
    }
}

/// Returns a way to do collectives.
fn method() -> forebay_scenario::Method {
    use forebay_collective::Algorithm::Flat;
    let reduction =
        forebay_scenario::Reduction::By { algorithm: Flat, levels: (Flat, Flat), chunk: None };
    let fidelity = forebay_scenario::Fidelity::Flow;
    forebay_scenario::Method { reduction, fidelity, chosen_by: None }
}

/// Returns the program of one of two equal stages, with the gradients of each chunk in one bucket.
fn of_two(schedule: Schedule, stage: usize, micro: u32, zero: u32) -> Program {
    let chunks = 2 * schedule.chunks() as usize;
    let weights = vec![1.0 / chunks as f64; chunks];
    let parallelism = Parallelism { weights, ..parallelism(schedule, micro, zero) };
    let own = |chunk| vec![bucket(1.0, 10 + chunk, false)];
    stage_program(&OfStage {
        stage,
        shares: &[0.5, 0.5],
        buckets: (0..u64::from(schedule.chunks())).map(own).collect(),
        ..of_stage(&parallelism)
    })
}

#[test]
fn interleaved_chunks_send_activations_around_the_ring_of_stages() {
    // System: chunks 0 and 2 of the model on the first stage, 1 and 3 on the second. Expectation: no stage sends activations
    // to the first stage's first chunk, and the second stage's last chunk sends none. Between chunks 1 and 2, bytes go from
    // the last stage to the first.
    let schedule = Schedule::Interleaved { chunks: 2 };
    let named = |op: &Op| match op {
        Op::Receive(input) => Some((false, *input)),
        Op::Send(input) => Some((true, *input)),
        _ => None,
    };
    let of = |stage| -> Vec<(bool, Input)> {
        of_two(schedule, stage, 2, 0).ops.iter().filter_map(named).collect()
    };
    let input = |stage, chunk, back| Input { stage, chunk, back };
    let number = |stage, what| of(stage).iter().filter(|of| **of == what).count();
    for (stage, what) in [
        (0, (true, input(1, 0, false))),
        (1, (false, input(1, 0, false))),
        (1, (true, input(0, 1, false))),
        (0, (false, input(0, 1, false))),
        (0, (true, input(1, 1, false))),
        (1, (false, input(1, 1, false))),
        (1, (true, input(0, 1, true))),
        (0, (true, input(1, 0, true))),
        (1, (true, input(0, 0, true))),
    ] {
        assert_eq!(number(stage, what), 2, "{stage} {what:?}");
    }
    // Three borders between chunks, two micro-batches, forward and backward; each transfer is sent and received.
    assert_eq!(of(0).len() + of(1).len(), 3 * 2 * 2 * 2);
}

#[test]
fn chunks_reduce_gradients_after_their_last_backward_pass() {
    // System: two micro-batches on two chunks of the first stage. Expectation: the second chunk's gradients are reduced after
    // its second backward pass, before the first chunk's backward passes.
    let program = of_two(Schedule::Interleaved { chunks: 2 }, 0, 2, 0);
    let bytes: Vec<u64> = program.collectives[Data].iter().map(|of| of.bytes).collect();
    assert_eq!(bytes, [11, 10]);
    let after = |start: usize| {
        let starts =
            program.ops.iter().enumerate().filter(|(_, op)| matches!(op, Op::Start(Data, ..)));
        let at = starts.map(|(at, _)| at).nth(start).expect("it is started");
        let rest = program.ops[at..].iter();
        rest.filter(|op| matches!(op, Op::ComputePass { pass: Backward, .. })).count()
    };
    assert_eq!([after(0), after(1)], [2, 0]);
}

#[test]
fn zb_h1_reduces_gradients_after_weight_gradient_passes() {
    // System: ZB-H1 on the second of two stages, where the pass for gradients of weights comes one micro-batch later.
    // Expectation: this pass takes a part of backward's time. Gradients are reduced after the last such pass, or after each
    // one from ZeRO's stage 2 on.
    let schedule = Schedule::ZeroBubble { weights: 0.25 };
    let weights = compute(Pass::WeightGradients, 0.75 * 0.25 * 0.5);
    let inputs = compute(Pass::InputGradients, 0.75 * 0.75 * 0.5);
    let forward = compute(Forward, 0.25 * 0.5);
    let computed = |op: &Op| matches!(op, Op::ComputePass { .. } | Op::Start(..));
    let of = |zero| -> Vec<Op> {
        of_two(schedule, 1, 3, zero).ops.into_iter().filter(computed).collect()
    };
    let turns = [forward, inputs, forward, inputs, weights, forward, inputs, weights];
    assert_eq!(of(0), [&turns[..], &[weights, Op::Start(Data, 0, 1)]].concat());
    let reduced = of(2)
        .windows(2)
        .filter(|of| of[0] == weights && matches!(of[1], Op::Start(Data, ..)))
        .count();
    assert_eq!(reduced, 3);
}

#[test]
fn only_passes_that_use_parameters_gather_them() {
    // System: ZeRO stage 3, two micro-batches. Expectation: on each chunk a gather for each forward pass and for each backward
    // pass or pass for gradients of inputs; none in passes for gradients of weights.
    let gathers = |schedule: Schedule| {
        let of = of_two(schedule, 1, 2, 3).collectives;
        of[Data].iter().filter(|of| of.operation == Operation::Allgather).count()
    };
    assert_eq!(gathers(Schedule::OneForwardOneBackward), 4);
    assert_eq!(gathers(Schedule::ZeroBubble { weights: 0.5 }), 4);
    assert_eq!(gathers(Schedule::Interleaved { chunks: 2 }), 8);
}

#[test]
fn data_beyond_gpu_memory_are_swapped_around_each_use() {
    let mut parallelism = parallelism(Schedule::Gpipe, 2, 0);
    let swap = Swap { activations: 8.0, optimizer: 5.0, gradients: 3.0, parameters: 2.0 };
    parallelism.swap = vec![swap];
    let of = OfStage { buckets: vec![], ..of_stage(&parallelism) };
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

#[test]
fn swapped_bytes_are_proportional_to_the_number_of_passes_using_the_data() {
    // System: for each micro-batch (or part of one on a chunk) in progress, 8 bytes of activations do not fit on the GPU, and
    // 2 bytes of parameters do not. Expectation: activations go out once, and come in once for each kind of backward pass;
    // parameters come in for each pass except those for gradients of weights.
    let moved = |schedule: Schedule| {
        let chunks = schedule.chunks();
        let held = schedule.in_progress(0, 2, 4);
        let swap = Swap { activations: 8.0 * f64::from(held), parameters: 2.0, ..Swap::default() };
        let count = 2 * chunks as usize;
        let parallelism = Parallelism {
            weights: vec![1.0 / count as f64; count],
            swap: vec![swap; 2],
            ..parallelism(schedule, 4, 0)
        };
        let of = OfStage { shares: &[0.5, 0.5], ..of_stage(&parallelism) };
        stage_program(&of).ops.iter().fold((0.0, 0.0), |(all, back), op| match op {
            Op::Swap { out, into } => (all + out, back + into),
            _ => (all, back),
        })
    };
    assert_eq!(moved(Schedule::OneForwardOneBackward), (32.0, 32.0 + 16.0));
    assert_eq!(moved(Schedule::Interleaved { chunks: 2 }), (64.0, 64.0 + 16.0));
    assert_eq!(moved(Schedule::ZeroBubble { weights: 0.5 }), (32.0, 64.0 + 16.0));
}

#[test]
fn without_overlap_gradients_are_reduced_while_nothing_is_computed() {
    // System: two chunks on the first of two stages, two micro-batches, without overlap. Expectation: the gradients of both chunks
    // are reduced after the last pass; from ZeRO's stage 2 on, those of a pass are awaited before the next one begins, and at stage 3
    // parameters are gathered only when they are needed.
    let ready = || buckets().into_iter().map(|of| StageBucket { at: 1.0, ..of }).collect();
    let of = |zero| -> Vec<Op> {
        let weights = vec![0.25; 4];
        let schedule = Schedule::Interleaved { chunks: 2 };
        let parallelism = Parallelism { weights, ..parallelism(schedule, 2, zero) };
        let program = stage_program(&OfStage {
            shares: &[0.5, 0.5],
            buckets: vec![ready(), ready()],
            exchanges: exchanges(false),
            ..of_stage(&parallelism)
        });
        let of_data = |op: &Op| {
            matches!(op, Op::ComputePass { .. } | Op::Start(Data, ..) | Op::Await(Data, _))
        };
        program.ops.into_iter().filter(of_data).collect()
    };
    let after = |ops: &[Op]| {
        let last = ops.iter().rposition(|op| matches!(op, Op::ComputePass { .. }));
        ops[last.expect("it computes") + 1..].to_vec()
    };
    let starts: Vec<Op> = (0..4).map(|number| Op::Start(Data, number, number + 1)).collect();
    assert_eq!(after(&of(0)), [&starts[..], &[Op::Await(Data, 4)]].concat());
    assert_eq!(of(0).iter().filter(|op| matches!(op, Op::Start(..))).count(), 4);
    for zero in [2, 3] {
        let mut started = 0;
        for op in of(zero) {
            match op {
                Op::Start(_, _, end) => started = end,
                Op::Await(_, number) => assert_eq!(number, started, "ZeRO {zero}"),
                _ => {}
            }
        }
        let ops = of(zero);
        let computes = |op: &Op| matches!(op, Op::ComputePass { .. });
        let before = ops.windows(2).filter(|pair| computes(&pair[1])).map(|pair| pair[0]);
        let hidden = before.filter(|op| matches!(op, Op::Start(..))).count();
        assert_eq!(hidden, 0, "ZeRO {zero}");
    }
}

#[test]
fn accumulated_gradients_are_reduced_in_the_last_step_only() {
    // System: two buckets, one micro-batch, gradients of three steps added up. Expectation: only the third step reduces; shards
    // of gradients are reduced in each step (ZeRO's stage 2), and the parameters gathered after the third.
    use Operation::{Allgather, Allreduce, ReduceScatter};
    let of = |zero, step| -> Vec<Operation> {
        let program = in_step(zero, 1, (Cycle::new(3, 3), false), step);
        program.collectives[Data].iter().map(|started| started.operation).collect()
    };
    assert_eq!([of(0, 0), of(0, 1), of(0, 2)], [vec![], vec![], vec![Allreduce; 2]]);
    let last = [[ReduceScatter; 2], [Allgather; 2]].concat();
    assert_eq!([of(1, 1), of(1, 2)], [vec![], last.clone()]);
    assert_eq!([of(2, 1), of(2, 2)], [vec![ReduceScatter; 2], last]);
    assert_eq!(of(3, 1), of(3, 2));
}

#[test]
fn parameters_are_averaged_after_the_passes_of_the_last_step() {
    // System: two buckets, one micro-batch, an average after two updates. Expectation: nothing is exchanged in the first step,
    // and in the second step everything after the last pass.
    let ops = |step| in_step(0, 1, (Cycle::new(2, 1), true), step).ops;
    let passes = [Op::TakeBatch, compute(Forward, 0.25), compute(Backward, 0.375)];
    let rest = [compute(Backward, 0.375)];
    let passes = [&passes[..], &rest].concat();
    let average = [Op::Start(Data, 0, 1), Op::Start(Data, 1, 2), Op::Await(Data, 2)];
    assert_eq!(ops(0), [&passes[..], &[Op::EndStep]].concat());
    assert_eq!(ops(1), [&passes[..], &average, &[Op::EndStep]].concat());
}

#[test]
fn ranks_that_train_one_model_together_sum_gradients_at_each_update() {
    // System: model copies of two context parallel ranks; gradients of two steps are added up for an update, and parameters
    // averaged after two updates. Expectation: the ranks sum their gradients in every second step, as backward makes them.
    let started = |step| {
        let cycle = Cycle::new(4, 2);
        let mut parallelism = parallelism(Schedule::Gpipe, 1, 0);
        parallelism.context = Some(forebay_scenario::Context {
            ranks: 2,
            bytes: 0.0,
            attentions: vec![0],
            exchange: forebay_scenario::KeyExchange::Exposed,
            method: method(),
        });
        let program = stage_program(&OfStage {
            buckets: vec![buckets()],
            kind: cycle.kind(step),
            averages: true,
            ..of_stage(&parallelism)
        });
        [Inner, Data].map(|kind| program.collectives[kind].len())
    };
    assert_eq!([started(0), started(1), started(2), started(3)], [[0, 0], [2, 0], [0, 0], [2, 2]]);
}

#[test]
fn all_to_alls_surround_the_computation_of_experts() {
    // System: two layers whose experts compute in half of the time and hold 30 of 40 bytes of parameters. The model copy's
    // experts get 1.5 times the mean number of tokens in the first layer, and half of it in the second. Expectation: each pass
    // has two all-to-alls for each layer, around a computation in proportion to the tokens; backward has them in the opposite
    // order.
    let expert = forebay_scenario::Expert {
        ranks: 2,
        layers: vec![2],
        bytes: 80.0,
        parameters: vec![0.75],
        time: vec![0.5],
        load: forebay_scenario::Load::Busiest(1.5),
        method: method(),
    };
    let parallelism = Parallelism { expert: Some(expert), ..parallelism(Schedule::Gpipe, 1, 0) };
    let program = stage_program(&OfStage {
        buckets: vec![vec![bucket(1.0, 10, false), bucket(1.0, 15, true)]],
        ..of_stage(&parallelism)
    });
    let dispatched =
        |number| [Op::Start(Expert, number, number + 1), Op::Await(Expert, number + 1)];
    let mut expected = vec![Op::TakeBatch];
    for (pass, time, shares) in
        [(Forward, 0.25, [0.25, 0.375, 0.25, 0.125]), (Backward, 0.75, [0.125, 0.25, 0.375, 0.25])]
    {
        for (place, share) in (0..).zip(shares) {
            let before = if pass == Forward { place > 0 } else { true };
            let number = if pass == Forward { place } else { place + 5 } - 1;
            if before {
                expected.extend(dispatched(number as u32));
            }
            expected.push(compute(pass, time * share));
        }
        if pass == Forward {
            expected.extend(dispatched(3));
        }
    }
    expected.extend([Op::Start(Data, 0, 1), Op::Start(ExpertData, 0, 1)]);
    expected.extend([Op::Await(Data, 1), Op::Await(ExpertData, 1), Op::EndStep]);
    assert_eq!(program.ops, expected);
    let all = &program.collectives[Expert];
    assert_eq!(all.len(), 8);
    assert!(all.iter().all(|of| (of.operation, of.bytes) == (Operation::AllToAll, 120)));
}

#[test]
fn expert_and_dense_parameters_of_a_layer_are_gathered_together() {
    // System: ZeRO stage 3 with two buckets of dense parameters and two of experts, one pair for each half of the layers.
    // Expectation: a pass awaits both buckets of a pair before it computes that half, forward and backward.
    let parallelism = parallelism(Schedule::Gpipe, 1, 3);
    let program = stage_program(&OfStage {
        buckets: vec![vec![
            bucket(0.5, 10, false),
            bucket(0.5, 10, true),
            bucket(1.0, 10, false),
            bucket(1.0, 10, true),
        ]],
        ..of_stage(&parallelism)
    });
    let awaits = |ops: &[Op]| ops.iter().filter(|op| matches!(op, Op::Await(..))).count();
    let parts: Vec<usize> =
        program.ops.split(|op| matches!(op, Op::ComputePass { .. })).map(awaits).collect();
    assert_eq!(parts, [2, 2, 2, 2, 2], "{:?}", program.ops);
}
