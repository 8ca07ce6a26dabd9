//! Time and throughput of reads from one storage.

/// Reads by a closed loop of readers. Each request takes `latency`, and then its bytes arrive at `per_stream`. All requests
/// together do not exceed `bandwidth` and `operations`, which are limits of their own, unless there is an `overhead`. The reader's core is
/// busy for part of that time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadLaw {
    /// Time from a request to its first byte [s].
    pub latency: f64,
    /// Highest throughput of one request [B/s].
    pub per_stream: f64,
    /// Highest throughput of all requests together [B/s].
    pub bandwidth: f64,
    /// Highest rate of requests [1/s].
    pub operations: f64,
    /// Time that the storage spends on each request besides its bytes, on one request after the other [s].
    pub overhead: f64,
    /// Core time for each request, included in the request's time [core-s].
    pub cpu_fixed: f64,
    /// Core time for each byte, included in the request's time [core-s/B].
    pub cpu_per_byte: f64,
}

impl ReadLaw {
    /// Returns the total request rate of `readers` readers, each of which reads `size` [B] repeatedly [1/s].
    #[must_use]
    pub fn requests_per_second(&self, size: f64, readers: f64) -> f64 {
        let alone = self.latency + size / self.per_stream;
        let served = self.overhead + size / self.bandwidth;
        (readers / alone).min(1.0 / served).min(self.operations)
    }
}

/// Reads by several nodes, each with a closed loop of readers, from a storage that they share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SharedReadLaw {
    /// The limits of a request and of the storage.
    pub read: ReadLaw,
    /// Highest throughput of the requests of one node together [B/s].
    pub per_client: f64,
}

impl SharedReadLaw {
    /// Returns the total request rate of `nodes` nodes with `readers` readers each, which read files of `size` [B] repeatedly [1/s].
    #[must_use]
    pub fn requests_per_second(&self, size: f64, nodes: f64, readers: f64) -> f64 {
        let all = self.read.requests_per_second(size, nodes * readers);
        all.min(nodes * self.per_client / size)
    }
}
