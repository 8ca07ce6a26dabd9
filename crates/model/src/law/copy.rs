//! Time of a copy between the host's memory and a GPU's.

/// `latency + bytes ÷ bandwidth`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CopyLaw {
    /// Cost of any copy [s].
    pub latency: f64,
    /// Rate of long copies [B/s]; may be infinite.
    pub bandwidth: f64,
}

impl CopyLaw {
    /// Time of a copy of `bytes` [s].
    #[must_use]
    pub fn seconds(&self, bytes: f64) -> f64 {
        self.latency + bytes / self.bandwidth
    }
}
