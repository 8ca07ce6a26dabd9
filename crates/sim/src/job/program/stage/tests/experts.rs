//! Tests of programs of stages with experts.

use super::*;
use crate::communication::Communicator::ExpertData;

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
    let bucket = |bytes, experts| StageBucket {
        at: 1.0,
        made: 1.0,
        bytes,
        raw: bytes,
        parameters: bytes,
        tensors: 1,
        compress: 0.0,
        late: 0.0,
        experts,
    };
    let program = stage_program(&OfStage {
        buckets: vec![vec![bucket(10, false), bucket(15, true)]],
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
    let bucket = |at, experts| StageBucket {
        at,
        made: at,
        bytes: 10,
        raw: 10,
        parameters: 10,
        tensors: 1,
        compress: 0.0,
        late: 0.0,
        experts,
    };
    let program = stage_program(&OfStage {
        buckets: vec![vec![
            bucket(0.5, false),
            bucket(0.5, true),
            bucket(1.0, false),
            bucket(1.0, true),
        ]],
        ..of_stage(&parallelism)
    });
    let awaits = |ops: &[Op]| ops.iter().filter(|op| matches!(op, Op::Await(..))).count();
    let parts: Vec<usize> =
        program.ops.split(|op| matches!(op, Op::ComputePass { .. })).map(awaits).collect();
    assert_eq!(parts, [2, 2, 2, 2, 2], "{:?}", program.ops);
}
