//! Numbers of NCCL's model: `src/graph/tuning.cc` of NCCL 2.20 (Copyright NVIDIA, BSD-3-Clause).
//! Protocols are in the order LL, LL128, Simple; generations Volta, Ampere, Hopper; nodes 1, 2, more.

/// Latency of each algorithm on top of the latency of its steps, by protocol [µs].
pub(super) const BASE_TREE: [f64; 3] = [6.8, 14.0, 0.0];
pub(super) const BASE_RING: [f64; 3] = [6.6, 14.0, 8.4];

/// Latency of a step over NVLink, over PCIe and over the network [µs].
pub(super) const STEP_TREE: [[f64; 3]; 3] = [[0.6, 1.25, 28.0], [1.0, 1.9, 28.0], [5.0, 8.5, 28.0]];
pub(super) const STEP_RING: [[f64; 3]; 3] = [[0.6, 1.9, 3.4], [1.0, 2.5, 5.7], [2.7, 4.0, 14.0]];
/// Latency of all steps inside the switch, and of a step of a tree between switches [µs].
pub(super) const STEP_SWITCH: f64 = 23.0;
pub(super) const STEP_SWITCH_TREE: f64 = 14.0;
/// Latency of posting to the network [µs]: over several nodes, a ring's step inside a node takes at least this
/// time, or at least three times this time with the protocol Simple.
pub(super) const POST: f64 = 1.0;

/// Largest bandwidth of the protocol LL [GB/s]. For one node, the table is by GPU generation. For several nodes
/// (`MOST_LL_NODES`), it is by number of nodes, with Intel's processors.
pub(super) const MOST_LL: [f64; 3] = [39.0, 87.7, 87.7];
pub(super) const MOST_LL_NODES: [f64; 3] = [39.0, 39.0, 20.4];
/// Largest bandwidth of a channel, by GPU generation; for trees also by number of nodes [GB/s].
pub(super) const MOST_RING_LL128: [f64; 3] = [20.0, 20.0, 36.7];
pub(super) const MOST_TREE_LL128: [[f64; 3]; 3] = [[20.0; 3], [20.0; 3], [36.7, 36.7, 29.0]];
pub(super) const MOST_TREE: [[f64; 3]; 3] =
    [[26.5, 18.5, 10.0], [24.0, 23.6, 17.8], [38.7, 41.4, 36.0]];

/// Share of its bandwidth that a tree reaches, at 64 B, 128 B, … 256 MiB, by protocol.
pub(super) const TREE_SHARE: [[f64; 23]; 3] = [
    [
        1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8,
        0.9, 1.0, 1.0, 1.0, 1.0,
    ],
    [
        1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9,
        0.9, 0.9, 0.9, 1.0, 1.0,
    ],
    [
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8,
        0.7, 0.7, 0.8, 0.9, 0.9,
    ],
];

/// Largest chunk of a channel, by protocol [B]: one step of the channel's buffer, without the flags.
pub(super) const CHUNK: [u64; 3] = [32_768, 576_000, 524_288];
