//! Tests of runs of phases against the transfers themselves.

use super::super::{Algorithm, Collective, Cost, Kind, Operation, Run, Schedule};
use super::cases::collectives;
use super::reference::execute;

const COST: Cost = Cost { alpha: 2e-6, beta: 1e-9, gamma: 3e-10 };

/// Returns the run of one phase, counted from its transfers in the obvious way.
fn counted(schedule: &Schedule, phase: u64) -> Run {
    let ranks = schedule.ranks() as usize;
    let ends = ranks + schedule.switches() as usize;
    let (mut sent, mut received, mut reduced) = (vec![0; ends], vec![0; ends], vec![0; ends]);
    let (mut out, mut into) = (vec![0; ends], vec![0; ends]);
    let (mut transfers, mut bytes) = (0, 0);
    for transfer in schedule.transfers(phase) {
        let (from, to) = (transfer.from as usize, transfer.to as usize);
        (transfers, bytes) = (transfers + 1, bytes.max(transfer.bytes));
        (sent[from], out[from]) = (sent[from] + transfer.bytes, out[from] + 1);
        (received[to], into[to]) = (received[to] + transfer.bytes, into[to] + 1);
        reduced[to] += if transfer.kind == Kind::Reduce { transfer.bytes } else { 0 };
    }
    let most = |of: &[u64]| of[..ranks].iter().copied().max().unwrap_or(0);
    let (fan, sent, received, reduced) =
        (most(&out).max(most(&into)), most(&sent), most(&received), most(&reduced));
    Run { phase, repeat: 1, same_pairs: true, transfers, bytes, fan, sent, received, reduced }
}

/// Returns sender and receiver of each transfer of a phase.
fn pairs(schedule: &Schedule, phase: u64) -> Vec<(u32, u32)> {
    let mut pairs: Vec<_> = schedule.transfers(phase).map(|t| (t.from, t.to)).collect();
    pairs.sort_unstable();
    pairs
}

fn check(collective: &Collective) {
    let schedule = collective.schedule().expect("a case can be done");
    let Some(runs) = schedule.runs() else { return };
    let mut next = 0;
    for run in &runs {
        assert_eq!(run.phase, next, "{collective:?}");
        for phase in run.phase..run.phase + run.repeat {
            let counted = counted(&schedule, phase);
            let expected =
                Run { phase: run.phase, repeat: run.repeat, same_pairs: run.same_pairs, ..counted };
            let unequal = !collective.bytes.is_multiple_of(64);
            // Where parts differ by a byte, a run has the longest one.
            let near = |run: u64, counted: u64| run >= counted && run - counted <= 64;
            let alike = near(run.bytes, counted.bytes)
                && near(run.sent, counted.sent)
                && near(run.received, counted.received)
                && (run.transfers, run.fan) == (counted.transfers, counted.fan);
            assert!(*run == expected || unequal && alike, "{collective:?} {run:?} {counted:?}");
        }
        next += run.repeat;
        let same =
            (run.phase..next).all(|phase| pairs(&schedule, phase) == pairs(&schedule, run.phase));
        assert_eq!(run.same_pairs, same, "{collective:?} {run:?}");
    }
    assert_eq!(next, schedule.phases(), "{collective:?}");
    let (time, in_step) = (execute(&schedule, &COST), schedule.in_step(&COST).expect("has runs"));
    assert!(time <= in_step * (1.0 + 1e-9), "{collective:?} {time} {in_step}");
    let symmetric = runs.iter().all(|run| run.is_symmetric() && run.transfers == ranks(collective));
    assert!(!symmetric || time >= in_step * (1.0 - 1e-9), "{collective:?} {time} {in_step}");
}

fn ranks(collective: &Collective) -> u64 {
    collective.ranks.into()
}

#[test]
fn sequences_of_equal_phases_cover_every_phase_of_a_collective_schedule() {
    for operation in Operation::ALL {
        for ranks in [1, 2, 3, 4, 6, 7, 8, 12, 16] {
            for bytes in [0, 4_099, 720_720 * 64] {
                for collective in collectives(operation, ranks, bytes) {
                    let chunk = Some(collective.bytes.div_ceil(7).max(1));
                    check(&Collective { chunk, ..collective.clone() });
                    check(&collective);
                }
            }
        }
    }
}

#[test]
fn the_schedule_of_a_ring_allreduce_has_two_sequences_of_equal_phases() {
    // System: a length that 4,096 does not divide. Expectation: all phases alike, each the longest part.
    let ring = Collective::new(Operation::Allreduce, Algorithm::Ring, 4_096, 102_228_129);
    let runs = ring.schedule().expect("a ring").runs().expect("in step");
    let shape: Vec<_> = runs.iter().map(|r| (r.repeat, r.transfers, r.bytes, r.reduced)).collect();
    assert_eq!(shape, [(4_095, 4_096, 24_959, 24_959), (4_095, 4_096, 24_959, 0)]);
    assert!(runs.iter().all(Run::is_symmetric));
    // Even if all other parts are a byte shorter, the time is that of the longest part.
    let small = Collective { ranks: 9, bytes: 1_000, ..ring };
    let schedule = small.schedule().expect("a ring");
    let (time, in_step) = (execute(&schedule, &COST), schedule.in_step(&COST).expect("in step"));
    assert!((time / in_step - 1.0).abs() < 1e-9, "{time} {in_step}");
}

#[test]
fn a_pipelined_tree_of_a_million_chunks_has_few_sequences_of_phases() {
    // System: 8 ranks, a million chunks. Expectation: filling, one long run, emptying.
    let tree = Collective::new(Operation::Allreduce, Algorithm::DoubleBinaryTree, 8, 1 << 31);
    let tree = Collective { chunk: Some(1 << 10), ..tree };
    let runs = tree.schedule().expect("a tree").runs().expect("in step");
    let longest = runs.iter().map(|run| run.repeat).max();
    assert!(runs.len() < 20 && longest > Some(1_000_000), "{runs:?}");
}

#[test]
fn a_hierarchical_schedule_of_100000_ranks_has_a_compact_description() {
    // System: 100,000 ranks in groups of 8. Expectation: the transfers of one rank are found at once, and there are
    // few runs.
    let whole =
        Collective::new(Operation::Allreduce, Algorithm::Hierarchical, 100_000, 102_228_128);
    let (inner, outer, across) =
        (Algorithm::Ring, Algorithm::HalvingDoubling, super::super::Across::SameIndex);
    let groups = vec![8; 12_500];
    let levels = Some(super::super::Levels { groups, inner, outer, across });
    let schedule = Collective { levels, ..whole }.schedule().expect("groups of equal size");
    assert_eq!(schedule.phases(), 7 + 1 + 13 + 13 + 1 + 7);
    let mut count = 0;
    schedule.visit(3, 77_777, |_| count += 1);
    assert_eq!(count, 2);
    assert!(schedule.runs().expect("in step").len() < 40);
}

#[test]
fn a_hierarchical_allreduce_of_unequal_groups_is_not_in_lockstep() {
    let whole = Collective::new(Operation::Allreduce, Algorithm::Hierarchical, 5, 1_000);
    let (inner, outer, across) = (Algorithm::Ring, Algorithm::Ring, super::super::Across::Leaders);
    let levels = Some(super::super::Levels { groups: vec![2, 3], inner, outer, across });
    let schedule = Collective { levels, ..whole }.schedule().expect("by leaders");
    assert!(schedule.runs().is_none() && schedule.in_step(&COST).is_none());
}
