//! The one shape that every kind of storage compiles to: what a request passes, from its issue to its last byte.

use super::{Access, Bandwidth, ReadCpu, RequestLimit, Targets};
use crate::Distribution;
use forebay_model::law::Throughput;
use std::sync::Arc;

/// Where a storage stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// In the main memory of each node.
    NodeMemory,
    /// In each node, beside its memory.
    Node,
    /// On servers that all nodes share, behind the nodes' NICs.
    Shared,
}

/// What the bytes of a request pass.
#[derive(Debug, Clone, PartialEq)]
pub enum Service {
    /// A link of the storage's `bandwidth`, which all transfers share; each has at most `per_stream`.
    Link,
    /// The head of a hard disk, which serves one request at a time: it moves for `seek` [s] to a request that does not
    /// begin where the one before ended, and reads as fast as a transfer that has the disk to itself.
    DiskHead {
        /// Time to move [s].
        seek: f64,
    },
    /// What was measured, by size and number of requests: with `n` requests in progress, of whatever sizes, each has
    /// an `n`-th of the storage's time, and thus an `n`-th of the throughput measured with `n` requests of its own
    /// size. Latencies and opens are part of what was measured.
    Measured(Arc<Throughput>),
}

/// The I/O queues of each node to a shared target, as NVMe over fabrics has them: a worker's requests all go
/// through the queue of its core, worker number `i` of a node through queue `i` modulo `number`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Queues {
    /// How many each node has.
    pub number: u32,
    /// Requests of a queue that are in progress at once; further ones wait in order of arrival.
    pub depth: u32,
    /// Bandwidth of a queue [B/s]; may be infinite.
    pub bandwidth: f64,
}

/// What a request to a storage passes, in this order: the station of `operations` (one server, first come first
/// served; passed by opens, or by every request), a slot of its I/O queue, the limit of requests, the latency, and its
/// bytes' service, which may be behind the node's NIC, the I/O queue and storage targets as well.
///
/// The simulator builds it, live runs enforce what of it is written, and rules, advice and the naive model read it:
/// none of them asks which kind of storage it is.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestPath {
    /// Where the storage stands.
    pub location: Location,
    /// How files are read.
    pub access: Access,
    /// Operations per second [1/s]; may be infinite.
    pub operations: f64,
    /// Whether every request is an operation; otherwise opens of files are.
    pub each_request_operates: bool,
    /// The I/O queues of each node, if it has any.
    pub queues: Option<Queues>,
    /// Requests that are served; what is beyond them is refused, and tries again.
    pub limit: Option<RequestLimit>,
    /// Time from request to first byte [s].
    pub latency: Distribution,
    /// What the bytes pass.
    pub service: Service,
    /// Bandwidth by number of concurrent transfers: of each node's storage, or of what all share.
    pub bandwidth: Bandwidth,
    /// Fastest that one transfer may go [B/s]; may be infinite.
    pub per_stream: f64,
    /// What files are striped over, if they are.
    pub targets: Option<Targets>,
    /// What a request costs the node's cores.
    pub cpu: ReadCpu,
}

impl RequestPath {
    /// A storage that nothing limits.
    #[must_use]
    pub fn unlimited(location: Location, access: Access) -> RequestPath {
        RequestPath {
            location,
            access,
            operations: f64::INFINITY,
            each_request_operates: false,
            queues: None,
            limit: None,
            latency: Distribution::Constant(0.0),
            service: Service::Link,
            bandwidth: Bandwidth::Fixed(f64::INFINITY),
            per_stream: f64::INFINITY,
            targets: None,
            cpu: ReadCpu::default(),
        }
    }

    /// Whether it is reached over the network.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        self.location == Location::Shared
    }

    /// Whether it is the nodes' main memory.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        self.location == Location::NodeMemory
    }

    /// What was measured of it, if that serves its requests.
    #[must_use]
    pub fn measured(&self) -> Option<&Arc<Throughput>> {
        match &self.service {
            Service::Measured(table) => Some(table),
            Service::Link | Service::DiskHead { .. } => None,
        }
    }

    /// Time to move a disk's head [s], if it has one.
    #[must_use]
    pub fn seek(&self) -> Option<f64> {
        match self.service {
            Service::DiskHead { seek } => Some(seek),
            Service::Link | Service::Measured(_) => None,
        }
    }

    /// Fastest that a request of `bytes` may go that has the storage to itself but for its bandwidth [B/s].
    #[must_use]
    pub fn most_of_one(&self, bytes: f64) -> f64 {
        let targets = self.targets.map(|of| of.bandwidth * f64::from(of.serving(bytes)));
        let queue = self.queues.map(|of| of.bandwidth);
        targets.into_iter().chain(queue).fold(self.per_stream, f64::min)
    }
}

impl Bandwidth {
    /// Of as many transfers as are fastest together [B/s].
    #[must_use]
    pub fn most(&self) -> f64 {
        match self {
            Bandwidth::Fixed(rate) => *rate,
            Bandwidth::ByTransfers(table) => table.iter().copied().fold(0.0, f64::max),
        }
    }

    /// Of a transfer that has the storage to itself [B/s].
    #[must_use]
    pub fn alone(&self) -> f64 {
        match self {
            Bandwidth::Fixed(rate) => *rate,
            Bandwidth::ByTransfers(table) => table.first().copied().unwrap_or(f64::INFINITY),
        }
    }
}
