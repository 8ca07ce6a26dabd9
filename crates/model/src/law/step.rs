//! Time of a training step by batch size.

/// Step time: `max(floor, fixed + per_sample · batch)`. Small batches are bound by kernel launches, large ones by arithmetic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepLaw {
    /// Minimum step time [s].
    pub floor: f64,
    /// Cost that does not depend on the batch [s].
    pub fixed: f64,
    /// Cost per sample [s].
    pub per_sample: f64,
}

impl StepLaw {
    /// Returns the time of one step with `batch` samples [s].
    #[must_use]
    pub fn seconds(&self, batch: f64) -> f64 {
        self.floor.max(self.fixed + self.per_sample * batch)
    }
}
