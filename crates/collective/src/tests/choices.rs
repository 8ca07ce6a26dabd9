//! Tests of the libraries' choices: thresholds as their sources have them.

use super::super::{
    Across, Algorithm, Choice, Fabric, Generation, Library, Operation, Protocol, choose,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn on(ranks: u32, ranks_per_node: u32) -> Fabric {
    Fabric {
        ranks,
        ranks_per_node,
        unequal: vec![],
        intra: 230e9,
        inter: 92e9,
        nvlink: true,
        in_switch: false,
        generation: Generation::Ampere,
        channels: 12,
    }
}

fn taken(library: Library, operation: Operation, bytes: u64, ranks: u32) -> Algorithm {
    choose(library, operation, bytes, &on(ranks, 1)).algorithm
}

#[test]
fn mpich_algorithm_choices_match_the_mpich_paper() {
    use Algorithm::*;
    use Operation::*;
    let cases = [
        (Broadcast, 12_287, 64, BinomialTree),
        (Broadcast, 12_288, 64, HalvingDoubling),
        (Broadcast, 12_288, 63, ScatterAllgather),
        (Broadcast, MIB, 7, BinomialTree),
        (Broadcast, 512 * KIB, 64, ScatterAllgather),
        (Reduce, 2_048, 16, BinomialTree),
        (Reduce, 2_049, 16, HalvingDoubling),
        (Allreduce, 2_048, 16, RecursiveDoubling),
        (Allreduce, 2_049, 16, HalvingDoubling),
        (ReduceScatter, 512 * KIB - 1, 16, HalvingDoubling),
        (ReduceScatter, 512 * KIB, 16, Flat),
        (Allgather, 512 * KIB - 1, 16, RecursiveDoubling),
        (Allgather, 512 * KIB, 16, Ring),
        (Allgather, 80 * KIB - 1, 15, Bruck),
        (Allgather, 80 * KIB, 15, Ring),
        (AllToAll, 256 * 8, 8, Bruck),
        (AllToAll, 257 * 8, 8, Flat),
        (AllToAll, 7, 7, Flat),
    ];
    for (operation, bytes, ranks, expected) in cases {
        let found = taken(Library::Mpich, operation, bytes, ranks);
        assert_eq!(found, expected, "{operation:?} {bytes} {ranks}");
    }
}

#[test]
fn open_mpi_algorithm_and_chunk_choices_match_open_mpis_source() {
    use Algorithm::*;
    use Operation::*;
    let cases = [
        (Allreduce, 9_999, 16, RecursiveDoubling, None),
        (Allreduce, 10_000, 16, Ring, None),
        (Broadcast, 2_047, 16, BinomialTree, None),
        (Broadcast, 2_048, 16, DoubleBinaryTree, Some(KIB)),
        (Broadcast, 370_728, 12, DoubleBinaryTree, Some(8 * KIB)),
        (Broadcast, 8 * MIB, 12, Ring, Some(128 * KIB)),
        (Broadcast, 8 * MIB, 20, Ring, Some(64 * KIB)),
        (Broadcast, 8 * MIB, 30, Ring, Some(16 * KIB)),
        (Broadcast, 8 * MIB, 64, Ring, Some(8 * KIB)),
        (Reduce, 511, 7, Flat, None),
        (Reduce, 512, 7, BinomialTree, None),
        (Reduce, 2_048, 16, BinomialTree, Some(KIB)),
        (Reduce, 64 * KIB, 16, Ring, Some(KIB)),
        (Reduce, 64 * KIB, 9, DoubleBinaryTree, Some(32 * KIB)),
        (Reduce, MIB, 16, Ring, Some(32 * KIB)),
        (Reduce, 64 * MIB, 16, Ring, Some(64 * KIB)),
        (ReduceScatter, 12 * KIB, 9, HalvingDoubling, None),
        (ReduceScatter, 200 * KIB, 9, Ring, None),
        (ReduceScatter, 256 * KIB, 16, HalvingDoubling, None),
        (ReduceScatter, 13_000, 24, HalvingDoubling, None),
        (ReduceScatter, 13_000, 23, Ring, None),
        (Allgather, MIB, 2, RecursiveDoubling, None),
        (Allgather, 49_999, 16, RecursiveDoubling, None),
        (Allgather, 49_999, 15, Bruck, None),
        (Allgather, 50_000, 16, Ring, None),
        (AllToAll, 199 * 16, 16, Bruck, None),
        (AllToAll, 200 * 16, 16, Flat, None),
    ];
    for (operation, bytes, ranks, algorithm, chunk) in cases {
        let found = choose(Library::OpenMpi, operation, bytes, &on(ranks, 1));
        assert_eq!((found.algorithm, found.chunk), (algorithm, chunk), "{operation:?} {bytes}");
    }
}

fn nccl(operation: Operation, bytes: u64, fabric: &Fabric) -> Choice {
    choose(Library::Nccl, operation, bytes, fabric)
}

#[test]
fn nccl_takes_trees_for_short_and_rings_for_long_allreduces() {
    // System: 16 nodes of 8 GPUs. Expectation: LL first, Simple last; trees while latency counts.
    let fabric = on(128, 8);
    let short = nccl(Operation::Allreduce, 8 * KIB, &fabric);
    assert_eq!(
        (short.algorithm, short.protocol),
        (Algorithm::DoubleBinaryTree, Some(Protocol::Ll))
    );
    let long = nccl(Operation::Allreduce, 4096 * MIB, &fabric);
    assert_eq!((long.algorithm, long.protocol), (Algorithm::Ring, Some(Protocol::Simple)));
    let protocols: Vec<_> =
        (10..33).map(|i| nccl(Operation::Allreduce, 1 << i, &fabric).protocol).collect();
    assert!(protocols.is_sorted() && protocols.contains(&Some(Protocol::Ll128)), "{protocols:?}");
}

#[test]
fn nccl_ring_times_match_the_cost_model_in_nccls_source() {
    // System: one node of 8 Ampere GPUs, 1 GiB. Expectation, by hand: 8.4 µs and 14
    // steps of 3.4 µs; 230 GB/s of busbw are 230 · 8/14 GB/s of algbw.
    let found = nccl(Operation::Allreduce, 1024 * MIB, &on(8, 8));
    let expected = (8.4 + 14.0 * 3.4) * 1e-6 + 1_073_741_824.0 / (230e9 * 8.0 / 14.0);
    assert_eq!((found.algorithm, found.protocol), (Algorithm::Ring, Some(Protocol::Simple)));
    assert!((found.seconds.expect("a model") / expected - 1.0).abs() < 1e-12);
}

#[test]
fn nccl_takes_in_switch_reduction_for_long_allreduces_if_available() {
    let fabric = Fabric { in_switch: true, generation: Generation::Hopper, ..on(8, 8) };
    assert_eq!(nccl(Operation::Allreduce, 256 * MIB, &fabric).algorithm, Algorithm::InSwitch);
    assert_ne!(nccl(Operation::Allreduce, KIB, &fabric).algorithm, Algorithm::InSwitch);
    assert_eq!(nccl(Operation::Broadcast, 256 * MIB, &fabric).algorithm, Algorithm::Ring);
    let none = Fabric { in_switch: false, ..fabric.clone() };
    assert_eq!(nccl(Operation::Allreduce, 256 * MIB, &none).algorithm, Algorithm::Ring);
    let nodes = Fabric { ranks: 16, inter: 300e9, intra: 300e9, ..fabric };
    let levels = nccl(Operation::Allreduce, 256 * MIB, &nodes).levels;
    let expected = (Algorithm::InSwitch, Algorithm::DoubleBinaryTree, Across::SameIndex);
    assert_eq!(levels, Some(expected));
}

#[test]
fn every_fabric_property_changes_the_times_of_nccls_cost_model() {
    let base = on(64, 8);
    let seconds = |fabric: &Fabric, bytes| {
        nccl(Operation::Allreduce, bytes, fabric).seconds.expect("a model")
    };
    let slow_net = Fabric { inter: 10e9, ..base.clone() };
    let slow_node = Fabric { intra: 10e9, ..base.clone() };
    assert!(seconds(&slow_net, 64 * MIB) > 2.0 * seconds(&base, 64 * MIB));
    assert!(seconds(&slow_node, 64 * MIB) > 2.0 * seconds(&base, 64 * MIB));
    let pcie = Fabric { nvlink: false, ..base.clone() };
    assert!(seconds(&pcie, KIB) > seconds(&base, KIB));
    let volta = Fabric { generation: Generation::Volta, ..base.clone() };
    assert!(seconds(&volta, 512 * MIB) > seconds(&base, 512 * MIB));
    let few = Fabric { channels: 1, ..base.clone() };
    assert!(seconds(&few, MIB) > seconds(&base, MIB));
    let spread = Fabric { ranks_per_node: 1, ..base.clone() };
    assert!(seconds(&spread, KIB) != seconds(&base, KIB));
}

#[test]
fn libraries_choose_a_valid_algorithm_for_every_collective() {
    let libraries = [Library::Nccl, Library::Mpich, Library::OpenMpi];
    for library in libraries {
        for operation in Operation::ALL {
            for (ranks, per_node) in [(1, 1), (2, 1), (8, 8), (12, 8), (16, 8), (17, 1), (64, 4)] {
                for bytes in [0, 1, 300, 5_000, 100_000, 10_000_000, 1 << 40] {
                    for in_switch in [false, true] {
                        let fabric = Fabric { in_switch, ..on(ranks, per_node) };
                        let choice = choose(library, operation, bytes, &fabric);
                        let collective = choice.collective(operation, bytes, &fabric);
                        assert_eq!(collective.check(), Ok(()), "{library:?} {collective:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn nccl_times_of_short_buffers_match_the_cost_model_in_nccls_source() {
    let near = |found: Choice, micros: f64, bytes: u64, gigabytes: f64| {
        let expected = micros * 1e-6 + bytes as f64 / (gigabytes * 1e9);
        let found = found.seconds.expect("a model");
        assert!((found / expected - 1.0).abs() < 1e-12, "{found} {expected}");
    };
    // A ring in LL, 2 nodes of 8: 14 steps inside, each as long as a post of 1 µs, and one step across; a quarter of
    // the network's busbw.
    let ring = nccl(Operation::Allgather, KIB, &on(16, 8));
    near(ring, 6.6 + 14.0 * 1.0 + 2.7, KIB, 92.0 / 4.0 * 16.0 / 15.0);
    // A ring in LL128 on a node of 8: 7 steps; 8 channels of 20 GB/s.
    let ring = nccl(Operation::Allgather, 2_850_000, &Fabric { channels: 8, ..on(8, 8) });
    assert_eq!(ring.protocol, Some(Protocol::Ll128));
    near(ring, 14.0 + 7.0 * 1.9, 2_850_000, 8.0 * 20.0 * 8.0 / 7.0);
    // A tree in LL, 16 nodes of 8: 7 steps inside and 4 across, up and down; 20.4 GB/s at most, 0.7 of
    // which at 8 KiB, half of that each way.
    let tree = nccl(Operation::Allreduce, 8 * KIB, &on(128, 8));
    near(tree, 6.8 + 2.0 * (7.0 * 0.6 + 4.0 * 5.0), 8 * KIB, 20.4 * 0.7 * 0.5);
}

#[test]
fn nccl_chunk_sizes_cover_all_channels_and_shrink_for_short_buffers() {
    let whole = nccl(Operation::Allreduce, 1024 * MIB, &on(8, 8));
    assert_eq!(whole.chunk, Some(12 * 512 * KIB));
    let short = nccl(Operation::Allgather, KIB, &on(16, 8));
    assert_eq!((short.protocol, short.chunk), (Some(Protocol::Ll), Some(12 * 32 * KIB)));
    // The depth of the tree is 8, and chunks are halved while there are few of them for it: each of 2 channels has 64
    // chunks of 512 KiB from 64 MiB on, 64 of 256 KiB at 32 MiB, 32 of 128 KiB at 8 MiB, and 8 of 64 KiB at 1 MiB.
    let fabric = Fabric { nvlink: false, channels: 2, inter: 20e9, ..on(256, 1) };
    let simple = (20..28).map(|i| nccl(Operation::Allreduce, 1 << i, &fabric));
    let chunk = |choice: Choice| {
        assert_eq!(choice.protocol, Some(Protocol::Simple));
        assert_eq!(choice.algorithm, Algorithm::DoubleBinaryTree);
        assert_eq!(choice.channels, 2);
        choice.chunk.expect("a tree has chunks") / KIB
    };
    assert_eq!(simple.map(chunk).collect::<Vec<_>>(), [64, 64, 64, 128, 128, 256, 512, 512]);
}
