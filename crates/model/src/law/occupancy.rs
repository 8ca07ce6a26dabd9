//! The part of a GPU that the kernels of one learner occupy, and the gain in throughput from several learners.

/// Part of a GPU that a learner's kernels occupy while they run, by batch size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OccupancyLaw {
    /// A fixed part, independent of the batch size.
    Constant(f64),
    /// `batch ÷ (batch + half)`: a batch of `half` samples occupies half of the GPU. If a step takes `fixed + per_sample · batch`
    /// and the GPU is idle for the fixed part, `half` is `fixed ÷ per_sample` (the n½ of Hockney and Jesshope, *Parallel
    /// Computers 2*, 1988, section 1.3).
    Saturating {
        /// Batch that occupies half of the GPU [samples].
        half: f64,
    },
}

impl OccupancyLaw {
    /// Returns the part of a GPU that batches of `batch` samples occupy, 0 to 1.
    #[must_use]
    pub fn of(&self, batch: f64) -> f64 {
        match *self {
            Self::Constant(part) => part,
            Self::Saturating { half } => batch / (batch + half),
        }
    }
}

/// Returns the throughput of `learners` learners on a GPU ÷ the throughput of one learner. The kernels of each learner occupy the
/// part `occupancy` of the GPU. Each learner keeps its speed until the GPU is full (Koliousis et al., *Crossbow*, PVLDB 12(11),
/// 2019).
#[must_use]
pub fn learners_gain(learners: f64, occupancy: f64) -> f64 {
    learners.min(1.0 / occupancy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_occupancy_saturates_with_batch_size_and_limits_learner_speedup() {
        let law = OccupancyLaw::Saturating { half: 24.0 };
        assert_eq!((law.of(24.0), law.of(72.0)), (0.5, 0.75));
        assert_eq!(OccupancyLaw::Constant(0.4).of(1e9), 0.4);
        assert_eq!((learners_gain(2.0, 0.25), learners_gain(8.0, 0.25)), (2.0, 4.0));
    }

    #[test]
    fn gpu_occupancy_is_the_share_of_step_time_that_grows_with_batch_size() {
        // System: a step takes 3 ms plus 0.5 ms for each sample. Expectation: `half` is 6 samples; in a step with 18 samples, the
        // GPU is busy for 9 of 12 ms.
        let law = OccupancyLaw::Saturating { half: 3.0 / 0.5 };
        assert_eq!(law.of(18.0), 9.0 / 12.0);
    }
}
