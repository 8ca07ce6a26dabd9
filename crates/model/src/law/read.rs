//! Time and throughput of reads from one storage.

/// A closed loop of readers: each request takes `latency` and then its bytes at `per_stream`, all
/// of them together no more than `bandwidth` and `operations`; the reader's core is busy for part
/// of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadLaw {
    /// From request to first byte [s].
    pub latency: f64,
    /// Fastest that one transfer goes [B/s].
    pub per_stream: f64,
    /// Fastest that all go together [B/s].
    pub bandwidth: f64,
    /// Most requests per second [1/s].
    pub operations: f64,
    /// Time of a core that each request costs, within the time above [core-s].
    pub cpu_fixed: f64,
    /// Time of a core that each byte costs, within the time above [core-s/B].
    pub cpu_per_byte: f64,
}

impl ReadLaw {
    /// Requests per second of `readers` that each read `size` [B] again and again [1/s].
    #[must_use]
    pub fn requests_per_second(&self, size: f64, readers: f64) -> f64 {
        let alone = self.latency + size / self.per_stream;
        (readers / alone).min(self.bandwidth / size).min(self.operations)
    }
}
