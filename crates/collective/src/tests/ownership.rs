//! Tests that follow every contribution of a rank through the schedule.

use super::super::{Block, Collective, Content, Hop, Kind, Operation, Schedule, Span, Transfer};
use super::cases::{collectives, ranks};
use std::collections::BTreeSet;

/// The ranks whose contributions are in a byte, one bit for each.
type Sum = u128;

fn part(collective: &Collective, rank: u32) -> std::ops::Range<u64> {
    let (ranks, bytes) = (u64::from(collective.ranks), collective.bytes);
    let border = |i: u64| i * (bytes / ranks) + i.min(bytes % ranks);
    border(rank.into())..border(u64::from(rank) + 1)
}

/// Returns the contributions that a rank or switch has in each byte before the collective.
fn before(collective: &Collective, id: u32) -> Vec<Sum> {
    let own = |byte: u64| match collective.operation {
        _ if id >= collective.ranks => false,
        Operation::Broadcast => id == collective.root,
        Operation::Allgather => part(collective, id).contains(&byte),
        _ => true,
    };
    let bit = |byte| if own(byte) { 1 << id.min(127) } else { 0 };
    (0..collective.bytes).map(bit).collect()
}

/// Returns the contributions that a rank must have in a byte after the collective; `None` if it
/// does not matter.
fn after(collective: &Collective, id: u32, byte: u64) -> Option<Sum> {
    let all = Sum::MAX >> (128 - collective.ranks);
    let owner = |byte| (0..collective.ranks).find(|&r| part(collective, r).contains(&byte));
    match collective.operation {
        Operation::Broadcast => Some(1 << collective.root),
        Operation::Reduce => (id == collective.root).then_some(all),
        Operation::Allreduce => Some(all),
        Operation::ReduceScatter => part(collective, id).contains(&byte).then_some(all),
        Operation::Allgather => Some(1 << owner(byte).expect("a byte has an owner")),
        Operation::AllToAll => None,
    }
}

fn bytes(spans: [Span; 2]) -> impl Iterator<Item = usize> {
    spans.into_iter().flat_map(|span| span.start as usize..(span.start + span.bytes) as usize)
}

fn spans(transfer: &Transfer) -> [Span; 2] {
    match transfer.content {
        Content::Spans(spans) => spans,
        Content::Blocks(_) => panic!("blocks are of an all-to-all"),
    }
}

/// Checks a collective in which all ranks have a common buffer: any but an all-to-all.
fn follow(collective: &Collective, schedule: &Schedule) {
    let ends = schedule.ranks() + schedule.switches();
    let mut sums: Vec<Vec<Sum>> = (0..ends).map(|id| before(collective, id)).collect();
    for phase in 0..schedule.phases() {
        let start = sums.clone();
        for transfer in schedule.transfers(phase) {
            let (from, to) = (&start[transfer.from as usize], &mut sums[transfer.to as usize]);
            let mut length = 0;
            for byte in bytes(spans(&transfer)) {
                let (sent, had) = (from[byte], to[byte]);
                let twice = transfer.kind == Kind::Reduce && sent & had != 0;
                let lost = transfer.kind == Kind::Copy && had & !sent != 0;
                assert!(sent != 0 && !twice && !lost, "{collective:?} {phase} {transfer:?} {byte}");
                to[byte] = sent | had;
                length += 1;
            }
            assert_eq!(length, transfer.bytes, "{collective:?} {phase} {transfer:?}");
        }
    }
    for (id, sums) in sums.iter().take(collective.ranks as usize).enumerate() {
        for (byte, &sum) in sums.iter().enumerate() {
            let expected = after(collective, id as u32, byte as u64);
            assert!(
                expected.is_none_or(|e| e == sum),
                "{collective:?} rank {id} byte {byte}: {sum:b}"
            );
        }
    }
}

/// Checks an all-to-all.
fn follow_blocks(collective: &Collective, schedule: &Schedule) {
    let all = 0..collective.ranks;
    let from = |origin: u32| all.clone().map(move |destination| Block { origin, destination });
    let mut held: Vec<BTreeSet<Block>> = all.clone().map(|origin| from(origin).collect()).collect();
    for phase in 0..schedule.phases() {
        let start = held.clone();
        for transfer in schedule.transfers(phase) {
            let Content::Blocks(blocks) = transfer.content else { panic!("no blocks") };
            let mut length = 0;
            for block in blocks.iter() {
                let had = start[transfer.from as usize].contains(&block);
                assert!(
                    had && held[transfer.from as usize].remove(&block),
                    "{collective:?} {block:?}"
                );
                assert!(held[transfer.to as usize].insert(block), "{collective:?} {block:?}");
                let part = part(collective, block.destination);
                length += part.end - part.start;
            }
            assert_eq!(length, transfer.bytes, "{collective:?} {phase} {transfer:?}");
        }
    }
    for (rank, held) in held.iter().enumerate() {
        let right = held.iter().all(|block| block.destination == rank as u32);
        assert!(right && held.len() == collective.ranks as usize, "{collective:?} rank {rank}");
    }
}

/// Checks that `visit` shows each rank and switch its own transfers out of all transfers of a
/// phase.
fn views_agree(schedule: &Schedule) {
    for phase in 0..schedule.phases() {
        let all: Vec<Transfer> = schedule.transfers(phase).collect();
        for id in 0..schedule.ranks() + schedule.switches() {
            let mut mine = Vec::new();
            schedule.visit(phase, id, |hop| mine.push(hop));
            let own = all.iter().filter(|t| t.from == id || t.to == id);
            let hop = |t: &Transfer| Hop { from: t.from, to: t.to, bytes: t.bytes, kind: t.kind };
            let mut expected: Vec<Hop> = own.map(hop).collect();
            mine.sort();
            expected.sort();
            assert_eq!(mine, expected, "phase {phase}, {id}");
        }
    }
}

/// Follows a collective from its beginning to its end.
pub(super) fn check(collective: &Collective) {
    let schedule = collective.schedule().expect("a case can be done");
    views_agree(&schedule);
    if collective.bytes == 0 {
        assert_eq!(schedule.phases(), 0);
    } else if collective.operation == Operation::AllToAll {
        follow_blocks(collective, &schedule);
    } else {
        follow(collective, &schedule);
    }
    assert_eq!(schedule.transfers(schedule.phases()).count(), 0);
}

#[test]
fn collectives_deliver_every_ranks_contribution_exactly_once() {
    for operation in Operation::ALL {
        for ranks in ranks().filter(|&ranks| ranks < 64) {
            for bytes in [0, u64::from(ranks) - 1, 2 * u64::from(ranks), 41] {
                let all = collectives(operation, ranks, bytes);
                all.iter().for_each(check);
            }
        }
    }
}

#[test]
fn collectives_of_64_ranks_deliver_every_contribution_exactly_once() {
    for operation in Operation::ALL {
        // Groups of 8 and of 3, 3, 2 and 56 ranks among them.
        let all = collectives(operation, 64, 70);
        let few = |c: &&Collective| c.levels.as_ref().is_none_or(|l| l.groups.len() < 9);
        all.iter().filter(few).for_each(check);
    }
}

#[test]
fn collectives_with_any_root_and_chunk_size_deliver_contributions_once() {
    for operation in [Operation::Broadcast, Operation::Reduce, Operation::Allreduce] {
        for ranks in 2..=7 {
            for collective in collectives(operation, ranks, 13) {
                for (root, chunk) in (0..ranks).flat_map(|root| [(root, 5), (root, 1)]) {
                    check(&Collective { root, chunk: Some(chunk), ..collective.clone() });
                }
            }
        }
    }
}
