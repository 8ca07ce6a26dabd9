//! How much of a GPU the kernels of one learner fill, and what several learners gain by that.

/// Part of a GPU that a learner's kernels keep busy while they run, by its batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OccupancyLaw {
    /// So much, whatever the batch.
    Constant(f64),
    /// `batch ÷ (batch + half)`: with `half` samples it is half of the GPU. Where work of `fixed + per_sample ·
    /// batch` leaves the GPU idle for the fixed part, `half` is `fixed ÷ per_sample` (the n½ of Hockney and
    /// Jesshope, *Parallel Computers 2*, 1988, section 1.3).
    Saturating {
        /// Batch that fills half of it [samples].
        half: f64,
    },
}

impl OccupancyLaw {
    /// Part of a GPU that batches of `batch` samples fill, 0 to 1.
    #[must_use]
    pub fn of(&self, batch: f64) -> f64 {
        match *self {
            Self::Constant(part) => part,
            Self::Saturating { half } => batch / (batch + half),
        }
    }
}

/// How many times as much `learners` on a GPU get done as one whose kernels fill the part `occupancy` of it: each
/// has its own speed until the GPU is full (Koliousis et al., *Crossbow*, PVLDB 12(11), 2019).
#[must_use]
pub fn learners_gain(learners: f64, occupancy: f64) -> f64 {
    learners.min(1.0 / occupancy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_half_batch_fills_half_and_learners_fill_the_rest() {
        let law = OccupancyLaw::Saturating { half: 24.0 };
        assert_eq!((law.of(24.0), law.of(72.0)), (0.5, 0.75));
        assert_eq!(OccupancyLaw::Constant(0.4).of(1e9), 0.4);
        assert_eq!((learners_gain(2.0, 0.25), learners_gain(8.0, 0.25)), (2.0, 4.0));
    }

    #[test]
    fn a_step_with_a_fixed_part_works_at_full_rate_for_the_rest() {
        // System: 3 ms and 0.5 ms a sample. Expectation: half is 6 samples, and the share of a step of 18 that is
        // work is 9 of 12 ms.
        let law = OccupancyLaw::Saturating { half: 3.0 / 0.5 };
        assert_eq!(law.of(18.0), 9.0 / 12.0);
    }
}
