//! Tests of programs of steps that accumulate gradients, or exchange parameters only after several updates.

use super::*;

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
