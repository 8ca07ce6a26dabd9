//! Relaxes limits of nodes and of the network.

use crate::scenario::{Cluster, Node};

use super::FACTOR;
use crate::verdict::lever::Kind;

/// Relaxes one limit of all nodes, or of the network.
pub(super) fn lift(cluster: &mut Cluster, kind: Kind) {
    match kind {
        Kind::Nic => {
            cluster.nic *= FACTOR;
            cluster.groups.iter_mut().for_each(|group| group.nic *= FACTOR);
        }
        Kind::StorageNic => cluster.storage_nic = cluster.storage_nic.map(|nic| nic * FACTOR),
        Kind::Uplink => {
            if let Some(racks) = &mut cluster.racks {
                racks.uplink *= FACTOR;
            }
        }
        Kind::NetworkLatency => cluster.latency /= FACTOR,
        Kind::EqualNodes => replace_slow(cluster),
        _ => {
            lift_node(&mut cluster.node, kind);
            cluster.groups.iter_mut().for_each(|group| lift_node(&mut group.node, kind));
        }
    }
}

fn lift_node(node: &mut Node, kind: Kind) {
    match kind {
        Kind::Intra => {
            node.intra.bandwidth *= FACTOR;
            node.intra.tree.uplink *= FACTOR;
            node.intra.tree.root *= FACTOR;
        }
        Kind::Pcie => node.pcie *= FACTOR,
        Kind::Cores => {
            node.usable_cores *= FACTOR;
            node.cores = node.usable_cores.ceil() as u32;
        }
        Kind::MemoryBandwidth => node.memory_bandwidth *= FACTOR,
        Kind::GpuMemory => node.gpu_memory_bandwidth *= FACTOR,
        Kind::PageCache => {
            if let Some(cache) = &mut node.page_cache {
                // The node's memory limits the page cache, too.
                node.memory *= FACTOR;
                cache.capacity *= FACTOR;
            }
        }
        Kind::PageCacheRate => {
            if let Some(cache) = &mut node.page_cache {
                cache.bandwidth *= FACTOR;
            }
        }
        _ => {}
    }
}

/// Gives every node the properties of the fastest node, except for numbers of GPUs and NICs and for sizes of memory.
fn replace_slow(cluster: &mut Cluster) {
    let all = std::iter::once(&cluster.node).chain(cluster.groups.iter().map(|of| &of.node));
    let key = |node: &Node| (node.gpu_speed, node.usable_cores);
    let best = all.max_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal));
    let Some(best) = best.cloned() else { return };
    let nic = cluster.groups.iter().map(|group| group.nic).fold(cluster.nic, f64::max);
    let as_best = |node: &mut Node| {
        let (gpus, nics, gpu_memory, memory) = (node.gpus, node.nics, node.gpu_memory, node.memory);
        *node = Node { gpus, nics, gpu_memory, memory, ..best.clone() };
    };
    as_best(&mut cluster.node);
    cluster.nic = nic;
    for group in &mut cluster.groups {
        as_best(&mut group.node);
        group.nic = nic;
    }
}
