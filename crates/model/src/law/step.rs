//! Time of a training step by batch.

/// `max(floor, fixed + per_sample · batch)`: below the knee a device is bound by launches, above
/// it by arithmetic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepLaw {
    /// Shortest step [s].
    pub floor: f64,
    /// Cost that does not depend on the batch [s].
    pub fixed: f64,
    /// Cost per sample [s].
    pub per_sample: f64,
}

impl StepLaw {
    /// Time of one step over `batch` samples [s].
    #[must_use]
    pub fn seconds(&self, batch: f64) -> f64 {
        self.floor.max(self.fixed + self.per_sample * batch)
    }
}
