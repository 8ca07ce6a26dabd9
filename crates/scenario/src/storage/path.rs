//! The common form into which every kind of storage is compiled: the resources that a request passes, from its issue
//! to its last byte.

use super::{Access, Bandwidth, Burst, ReadCpu, RequestLimit, Targets};
use crate::Distribution;
use forebay_model::law::{Throughput, TokenLaw};
use std::sync::Arc;

/// Where a storage is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// The storage is the main memory of each node.
    NodeMemory,
    /// The storage is in each node, beside the main memory.
    Node,
    /// The storage is on servers that all nodes share, behind the nodes' NICs.
    Shared,
}

/// A link with the storage's `bandwidth`, which all transfers share; each transfer gets at most `per_stream`.
#[derive(Debug, Clone, PartialEq)]
pub enum Service {
    /// A link of the storage's `bandwidth`, which all transfers share; each transfer gets at most `per_stream`.
    Link,
    /// The head of a hard disk, which serves one request at a time. It seeks before a request that does not begin where the
    /// previous request ended, and reads as fast as a transfer that has the disk to itself.
    DiskHead {
        /// Seek time [s].
        seek: f64,
    },
    /// A table of measured throughput by size and number of requests. With `n` requests in progress, of whatever
    /// sizes, each gets 1/`n` of the storage's time, and thus 1/`n` of the throughput that was measured with `n`
    /// requests of its own size. The measured throughput includes latencies and opens.
    Measured(Arc<Throughput>),
}

/// How requests share a storage's bandwidth; for each storage target, if files are striped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sharing {
    /// All requests get the same bandwidth, as connections over a link do.
    Fair,
    /// Requests are served in order of arrival: the bytes of `in_flight` requests arrive at once, and others wait until it is their
    /// turn. Small requests beside large ones then get little more than one turn for each of theirs.
    InOrder {
        /// Number of requests whose bytes arrive at once; `None`: as many as reach the full bandwidth.
        in_flight: Option<u32>,
    },
    /// Clients take turns. A client, which is a job copy on a node, has a queue of its own in order of arrival, and the next turn is that
    /// of the client whose last turn began longest ago.
    RoundRobin {
        /// Number of turns that are served at once; `None`: as many as reach the full bandwidth.
        in_flight: Option<u32>,
        /// Bytes of a request that are served in a turn; the rest waits at its place in its client's queue [B]. May be infinite.
        piece: f64,
    },
}

impl Sharing {
    /// Returns the bytes that are served in a turn of a client [B], if clients take turns.
    #[must_use]
    pub fn piece(self) -> Option<f64> {
        match self {
            Sharing::Fair | Sharing::InOrder { .. } => None,
            Sharing::RoundRobin { piece, .. } => Some(piece),
        }
    }
}

/// I/O queues from each node to a shared target, as in NVMe over fabrics. All requests of a worker go through the
/// queue of its core: worker number `i` of a node uses queue `i` modulo `number`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Queues {
    /// Number of queues of each node.
    pub number: u32,
    /// Maximum number of requests of a queue in progress at once; further requests wait in order of arrival.
    pub depth: u32,
    /// Bandwidth of a queue [B/s]; may be infinite.
    pub bandwidth: f64,
}

/// The resources that a request to a storage passes, in this order: a slot of its I/O queue; the server of operations (first
/// come, first served, at `operations` per second); the rate limit of requests; the latency; and the service of its bytes,
/// which may also pass the node's NIC, the I/O queue and storage targets.
///
/// The simulator is built from this path. Live runs enforce the limits in it that the scenario file sets. The checks of a
/// scenario, the advice and the naive model read the path too. None of these users depends on the kind of storage.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestPath {
    /// Where the storage is.
    pub location: Location,
    /// How files are read.
    pub access: Access,
    /// Operations per second [1/s]; may be infinite. Behind I/O queues every request is an operation; elsewhere only file opens
    /// are operations.
    pub operations: f64,
    /// I/O queues of each node, if it has any.
    pub queues: Option<Queues>,
    /// Rate limit of requests; requests beyond it are refused and retried.
    pub limit: Option<RequestLimit>,
    /// Time from request to first byte [s].
    pub latency: Distribution,
    /// What serves the bytes.
    pub service: Service,
    /// Bandwidth of all transfers together, by the number of concurrent transfers: for the storage in each node, or for the
    /// storage that all nodes share. With a `burst`, the sustained one: what the bucket gains, and what the storage gives in the long run.
    pub bandwidth: Bandwidth,
    /// Token bucket from which the storage gives more than its `bandwidth` for a while, if it has one.
    pub burst: Option<Burst>,
    /// Token bucket from which the storage serves more than `operations` per second for a while, if it has one.
    pub operation_burst: Option<TokenLaw>,
    /// Highest bandwidth of one transfer [B/s]; may be infinite.
    pub per_stream: f64,
    /// Highest bandwidth of all transfers of one node together [B/s]; may be infinite. Only storages that nodes share have it.
    pub per_client: f64,
    /// Storage targets over which files are striped; `None`: files are not striped.
    pub targets: Option<Targets>,
    /// Time that the storage spends on each request besides its bytes while the request has its turn [s]; 0 where requests have no turns.
    pub overhead: f64,
    /// How reads by loaders share the links; a table of measured throughput and a disk head have their own ways.
    pub sharing: Sharing,
    /// Core time that a request costs the node.
    pub cpu: ReadCpu,
}

impl RequestPath {
    /// Returns a request path without any limits, to a storage at `location`.
    #[must_use]
    pub fn unlimited(location: Location, access: Access) -> RequestPath {
        RequestPath {
            location,
            access,
            operations: f64::INFINITY,
            queues: None,
            limit: None,
            latency: Distribution::Constant(0.0),
            service: Service::Link,
            bandwidth: Bandwidth::Fixed(f64::INFINITY),
            burst: None,
            operation_burst: None,
            per_stream: f64::INFINITY,
            per_client: f64::INFINITY,
            targets: None,
            overhead: 0.0,
            sharing: Sharing::Fair,
            cpu: ReadCpu::default(),
        }
    }

    /// Returns whether the storage is reached over the network.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        self.location == Location::Shared
    }

    /// Returns whether the storage is the nodes' main memory.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        self.location == Location::NodeMemory
    }

    /// Returns the table of measured throughput; `None` if the storage has no such table.
    #[must_use]
    pub fn measured(&self) -> Option<&Arc<Throughput>> {
        match &self.service {
            Service::Measured(table) => Some(table),
            Service::Link | Service::DiskHead { .. } => None,
        }
    }

    /// Returns the seek time of the disk head [s]; `None` if the storage has no disk head.
    #[must_use]
    pub fn seek(&self) -> Option<f64> {
        match self.service {
            Service::DiskHead { seek } => Some(seek),
            Service::Link | Service::Measured(_) => None,
        }
    }

    /// Returns the highest bandwidth of all transfers together at any time, bursts included [B/s].
    #[must_use]
    pub fn peak(&self) -> f64 {
        self.burst.map_or(self.bandwidth.most(), |burst| burst.bandwidth)
    }

    /// Returns the highest mean bandwidth of all transfers together over the first `seconds` of a run [B/s].
    #[must_use]
    pub fn most_over(&self, seconds: f64) -> f64 {
        let sustained = self.bandwidth.most();
        self.burst.map_or(sustained, |burst| burst.most_over(sustained, seconds))
    }

    /// Returns the number of requests that the storage, or each of its targets, serves at once; `None` if it serves all. Unless it is set,
    /// as many as reach the full bandwidth, which is that of a burst if there is one, over NICs of `nic` [B/s] if the storage is remote.
    #[must_use]
    pub fn in_flight(&self, nic: f64) -> Option<u32> {
        let (Sharing::InOrder { in_flight } | Sharing::RoundRobin { in_flight, .. }) = self.sharing
        else {
            return None;
        };
        let nic = if self.is_remote() { nic } else { f64::INFINITY };
        let queue = self.queues.map_or(f64::INFINITY, |of| of.bandwidth);
        let most_of_one = self.per_stream.min(self.per_client).min(queue).min(nic);
        let needed = match (self.targets, self.burst) {
            (Some(targets), _) => {
                Bandwidth::Fixed(targets.bandwidth).transfers_for_most(most_of_one)
            }
            (None, Some(burst)) => {
                Bandwidth::Fixed(burst.bandwidth).transfers_for_most(most_of_one)
            }
            (None, None) => self.bandwidth.transfers_for_most(most_of_one),
        };
        Some(in_flight.unwrap_or(needed))
    }

    /// Returns the maximum bandwidth of a request of `bytes` bytes while no other request is in progress [B/s]: the minimum of
    /// the bandwidths of one transfer, of the I/O queue and of the targets. The storage's `bandwidth` does not matter.
    #[must_use]
    pub fn most_of_one(&self, bytes: f64) -> f64 {
        let targets = self.targets.map(|of| of.bandwidth * f64::from(of.serving(bytes)));
        let queue = self.queues.map(|of| of.bandwidth);
        targets.into_iter().chain(queue).fold(self.per_stream.min(self.per_client), f64::min)
    }
}

impl Bandwidth {
    /// Returns the highest total bandwidth over all numbers of transfers [B/s].
    #[must_use]
    pub fn most(&self) -> f64 {
        match self {
            Bandwidth::Fixed(rate) => *rate,
            Bandwidth::ByTransfers(table) => table.iter().copied().fold(0.0, f64::max),
        }
    }

    /// Returns the smallest number of transfers, each of at most `per_stream` [B/s], that reach the highest total bandwidth;
    /// `u32::MAX` if nothing limits it.
    #[must_use]
    pub fn transfers_for_most(&self, per_stream: f64) -> u32 {
        let most = self.most();
        if most.is_infinite() {
            return u32::MAX;
        }
        let by_table = match self {
            Bandwidth::Fixed(_) => 1,
            Bandwidth::ByTransfers(table) => {
                1 + table.iter().position(|rate| *rate >= most).unwrap_or(0)
            }
        };
        // The conversion of a float to an integer saturates.
        let by_stream = (most / per_stream).ceil() as u32;
        by_stream.max(by_table as u32)
    }

    /// Returns the bandwidth of a transfer that has the storage to itself [B/s].
    #[must_use]
    pub fn alone(&self) -> f64 {
        match self {
            Bandwidth::Fixed(rate) => *rate,
            Bandwidth::ByTransfers(table) => table.first().copied().unwrap_or(f64::INFINITY),
        }
    }
}
