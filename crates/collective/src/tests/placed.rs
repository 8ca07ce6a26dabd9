//! Tests of the bytes that stay inside nodes and that go across, with ranks placed node by node.

use super::super::{Algorithm, Collective, Content, Kind, Operation};

const BYTES: u64 = 1 << 20;

/// Returns two numbers for each phase: the maximum number of bytes that one rank sends to others of its node, and the
/// maximum number that the ranks of one node send to other nodes.
fn loads(collective: &Collective, per_node: u32) -> Vec<[u64; 2]> {
    let schedule = collective.schedule().expect("a case can be done");
    let (ranks, nodes) = (collective.ranks, collective.ranks.div_ceil(per_node));
    let of_phase = |phase| {
        let (mut inside, mut across) = (vec![0; ranks as usize], vec![0; nodes as usize]);
        for transfer in schedule.transfers(phase) {
            let (from, to) = (transfer.from / per_node, transfer.to / per_node);
            match from == to {
                true => inside[transfer.from as usize] += transfer.bytes,
                false => across[from as usize] += transfer.bytes,
            }
        }
        [inside, across].map(|bytes| bytes.into_iter().max().unwrap_or(0))
    };
    (0..schedule.phases()).map(of_phase).collect()
}

fn sums(collective: &Collective, per_node: u32) -> [u64; 2] {
    let loads = loads(collective, per_node);
    [0, 1].map(|which| loads.iter().map(|load| load[which]).sum())
}

#[test]
fn halving_doubling_keeps_large_pieces_inside_nodes() {
    // Expectation: half of the buffer goes to the rank beside, then a quarter to the rank two away, and so on. With p
    // ranks, g on a node, a rank sends 2 (1 - 1/g) n inside, and the ranks of a node together send 2 (1 - g/p) n
    // across.
    for (ranks, per_node) in [(8, 2), (16, 4), (16, 8), (16, 2), (64, 8), (4, 4), (8, 1)] {
        let (n, p, g) = (BYTES, u64::from(ranks), u64::from(per_node));
        let all = Collective::new(Operation::Allreduce, Algorithm::HalvingDoubling, ranks, n);
        let expected = [2 * (n - n / g), 2 * (n - n * g / p)];
        assert_eq!(sums(&all, per_node), expected, "{ranks} ranks, {per_node} a node");
        let apart: Vec<u64> = loads(&all, 1).iter().map(|load| load[1]).collect();
        let halving: Vec<u64> = (1..=p.ilog2()).map(|phase| n >> phase).collect();
        let back = halving.iter().rev().copied();
        assert_eq!(apart, [halving.clone(), back.collect()].concat(), "{ranks} ranks");
    }
}

#[test]
fn halving_doubling_folds_ranks_beyond_a_power_of_two_inside_nodes() {
    // System: 12 ranks, 4 on a node: 4 pairs are folded, all inside nodes; then 8 ranks are left, 2 on each of the
    // first two nodes and 4 on the last. Expectation: the first and the last phase carry whole buffers inside nodes,
    // and the phase after the first one half of the buffer between nearest ranks.
    let all = Collective::new(Operation::Allreduce, Algorithm::HalvingDoubling, 12, BYTES);
    let loads = loads(&all, 4);
    let (first, last) = (loads[0], loads[loads.len() - 1]);
    assert_eq!([first, last], [[BYTES, 0]; 2]);
    assert_eq!(loads[1], [BYTES / 2, 0], "nearest ranks first");
}

#[test]
fn a_reduction_by_halving_keeps_large_pieces_inside_nodes() {
    // Expectation: first what an allreduce sends before it doubles; then a gather of the parts to the first rank,
    // small ones first.
    for (ranks, per_node) in [(8, 2), (16, 4), (16, 8)] {
        let (n, p, g) = (BYTES, u64::from(ranks), u64::from(per_node));
        let reduce = Collective::new(Operation::Reduce, Algorithm::HalvingDoubling, ranks, n);
        let halving = [n - n / g, n - n * g / p];
        let found = sums(&reduce, per_node);
        // In the gather, the g ranks of a node send across in the same phases, and pairs inside a node send at the
        // same time.
        assert_eq!(
            found,
            [halving[0] + n - n / g, halving[1] + n - n * g / p],
            "{ranks} {per_node}"
        );
    }
}

#[test]
fn a_binomial_tree_enters_each_node_once() {
    // Expectation: the farthest ranks come first, so that each node gets the buffer once; in each phase a node sends
    // it to one other node at most.
    for (ranks, per_node) in [(8, 2), (16, 4), (32, 8), (12, 4)] {
        let tree = Collective::new(Operation::Broadcast, Algorithm::BinomialTree, ranks, BYTES);
        let nodes = u64::from(ranks / per_node);
        let levels = u64::from(nodes.next_power_of_two().ilog2());
        let inside = u64::from(per_node.ilog2());
        assert_eq!(sums(&tree, per_node), [inside * BYTES, levels * BYTES], "{ranks} {per_node}");
    }
}

/// Returns the parent of each rank in both trees of an allreduce of two bytes, one byte for each tree.
fn parents(ranks: u32, nodes: Vec<u32>) -> [Vec<Option<u32>>; 2] {
    let trees = Collective::new(Operation::Allreduce, Algorithm::DoubleBinaryTree, ranks, 2);
    let schedule = trees.on(nodes).schedule().expect("a case can be done");
    let mut parents = [vec![None; ranks as usize], vec![None; ranks as usize]];
    let all = (0..schedule.phases()).flat_map(|phase| schedule.transfers(phase));
    for transfer in all.filter(|transfer| transfer.kind == Kind::Reduce) {
        let Content::Spans([span, _]) = transfer.content else { panic!("blocks") };
        let parent = &mut parents[span.start as usize][transfer.from as usize];
        assert_eq!(*parent, None, "one chunk goes up once");
        *parent = Some(transfer.to);
    }
    parents
}

#[test]
fn nccl_trees_match_the_diagrams_in_comments_of_nccls_source() {
    // Expectation: the figures in the comments of NCCL's trees.cc: 14 ranks, 12 ranks mirrored, and 13 ranks moved on
    // by one.
    let of = |ranks: u32, tree: usize, edges: &[(u32, u32)]| {
        let found = parents(ranks, Vec::new())[tree].clone();
        edges.iter().for_each(|(child, parent)| {
            assert_eq!(found[*child as usize], Some(*parent), "{ranks} ranks, tree {tree}");
        });
        assert_eq!(found.iter().filter(|parent| parent.is_none()).count(), 1, "one root");
    };
    of(14, 0, &[(8, 0), (4, 8), (12, 8), (2, 4), (6, 4), (10, 12), (13, 12), (1, 2), (11, 10)]);
    of(12, 1, &[(3, 11), (1, 3), (7, 3), (5, 7), (9, 7), (0, 1), (2, 1), (4, 5), (10, 9)]);
    of(13, 1, &[(9, 1), (5, 9), (0, 9), (3, 5), (7, 5), (11, 0), (2, 3), (8, 7), (12, 11)]);
}

#[test]
fn trees_over_nodes_have_chains_inside_nodes() {
    // System: 4 nodes of 3. Expectation: 0 <- 2 <- (1, 3) over nodes. A first child sends to the second rank of its
    // parent's chain, a second child to the first rank.
    let [first, second] = parents(12, vec![3; 4]);
    let expected = [None, Some(0), Some(1), Some(7), Some(3), Some(4)];
    assert_eq!(first[..6], expected);
    assert_eq!(first[6..], [Some(0), Some(6), Some(7), Some(6), Some(9), Some(10)]);
    assert_eq!(second[9..], [None, Some(9), Some(10)], "the last node is the second root");
}

#[test]
fn each_node_sends_at_most_twice_the_buffer_size_in_a_double_tree_allreduce() {
    // Expectation: a node sends half of the buffer over each edge of a tree, up or down. It has at most three edges
    // in one tree and one in the other, however many ranks it has. Trees over ranks that are no chains send more.
    for (ranks, per_node) in [(16, 4), (64, 8), (32, 8)] {
        let trees =
            Collective::new(Operation::Allreduce, Algorithm::DoubleBinaryTree, ranks, BYTES);
        let nodes = vec![per_node; (ranks / per_node) as usize];
        let sent = |of: &Collective| {
            let schedule = of.schedule().expect("a case can be done");
            let mut sent = vec![0; nodes.len()];
            let all = (0..schedule.phases()).flat_map(|phase| schedule.transfers(phase));
            for transfer in all.filter(|t| t.from / per_node != t.to / per_node) {
                sent[(transfer.from / per_node) as usize] += transfer.bytes;
            }
            sent.into_iter().max().unwrap_or(0)
        };
        let on_nodes = trees.clone().on(nodes.clone());
        assert!(sent(&on_nodes) <= 2 * BYTES, "{ranks} ranks: {}", sent(&on_nodes));
        assert!(sent(&trees) > 2 * BYTES, "{ranks} ranks: {}", sent(&trees));
    }
}
