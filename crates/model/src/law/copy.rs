//! Time of a copy between the memories of a host and a GPU.

/// Time of a copy: `latency + bytes ÷ bandwidth`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CopyLaw {
    /// Fixed cost of each copy [s].
    pub latency: f64,
    /// Rate of long copies [B/s]; may be infinite.
    pub bandwidth: f64,
}

impl CopyLaw {
    /// Returns the time of a copy of `bytes` [s].
    #[must_use]
    pub fn seconds(&self, bytes: f64) -> f64 {
        self.latency + bytes / self.bandwidth
    }
}
