//! The part of a GPU that the kernels of one learner occupy, and the gain in throughput from several learners.

/// Part of a GPU that a learner's kernels occupy while they run, by batch size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OccupancyLaw {
    /// All kernels of a step fill this part, independent of the batch size: learners keep their speed until the GPU is full
    /// (Koliousis et al., *Crossbow*, PVLDB 12(11), 2019).
    Constant(f64),
    /// Kernels fill the whole GPU for `batch ÷ (batch + half)` of a step, and next to nothing of it for the rest, which launches
    /// and small kernels take. If a step takes `fixed + per_sample · batch` and the GPU is idle for the fixed part, `half` is
    /// `fixed ÷ per_sample` (the n½ of Hockney and Jesshope, *Parallel Computers 2*, 1988, section 1.3). So `k` learners in step
    /// slow each other down by the factor `1 + (k - 1) · batch ÷ (batch + half)`, as measured for LeNet-5 on an H100.
    Saturating {
        /// Batch whose kernels fill the GPU for half of a step [samples].
        half: f64,
    },
}

/// Kernels of a step that fill the same part of a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KernelsLaw {
    /// Share of these kernels in the time of a step that has its GPU to itself.
    pub share: f64,
    /// Part of the GPU that these kernels fill, above 0 and at most 1.
    pub occupancy: f64,
}

/// Part of a GPU that launches and small kernels fill: so little that hundreds of learners do not slow each other down by them.
const NEXT_TO_NOTHING: f64 = 1e-6;

impl OccupancyLaw {
    /// Returns the kernels of a step with `batch` samples, one kind after the other. The shares sum to 1.
    #[must_use]
    pub fn kernels(&self, batch: f64) -> Vec<KernelsLaw> {
        match *self {
            Self::Constant(occupancy) => vec![KernelsLaw { share: 1.0, occupancy }],
            Self::Saturating { .. } => {
                let full = self.of(batch);
                let kinds = [(1.0 - full, NEXT_TO_NOTHING), (full, 1.0)];
                let kinds = kinds.into_iter().filter(|(share, _)| *share > 0.0);
                kinds.map(|(share, occupancy)| KernelsLaw { share, occupancy }).collect()
            }
        }
    }

    /// Returns the part of a GPU that batches of `batch` samples occupy on average, 0 to 1.
    #[must_use]
    pub fn of(&self, batch: f64) -> f64 {
        match *self {
            Self::Constant(part) => part,
            Self::Saturating { half } => batch / (batch + half),
        }
    }

    /// Returns the throughput of `learners` learners on a GPU ÷ the throughput of one learner, if all begin each step together.
    #[must_use]
    pub fn gain(&self, learners: f64, batch: f64) -> f64 {
        match *self {
            Self::Constant(part) => learners.min(1.0 / part),
            Self::Saturating { .. } => learners / (1.0 + (learners - 1.0) * self.of(batch)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_occupancy_saturates_with_batch_size_and_limits_learner_speedup() {
        let law = OccupancyLaw::Saturating { half: 24.0 };
        assert_eq!((law.of(24.0), law.of(72.0)), (0.5, 0.75));
        assert_eq!(OccupancyLaw::Constant(0.4).of(1e9), 0.4);
        let quarter = OccupancyLaw::Constant(0.25);
        assert_eq!((quarter.gain(2.0, 9.0), quarter.gain(8.0, 9.0)), (2.0, 4.0));
        // Two learners that fill the GPU for half of a step take one and a half times as long for twice the work.
        assert_eq!(law.gain(2.0, 24.0), 2.0 / 1.5);
    }

    #[test]
    fn kernels_fill_the_gpu_for_the_part_of_the_step_that_grows_with_the_batch() {
        let kernels = OccupancyLaw::Saturating { half: 24.0 }.kernels(72.0);
        let shares: Vec<f64> = kernels.iter().map(|of| of.share).collect();
        assert_eq!(shares, [0.25, 0.75]);
        assert!(kernels[0].occupancy < 1e-3 && kernels[1].occupancy == 1.0);
        let whole = OccupancyLaw::Saturating { half: 0.0 }.kernels(1.0);
        assert_eq!(whole, [KernelsLaw { share: 1.0, occupancy: 1.0 }]);
    }

    #[test]
    fn gpu_occupancy_is_the_share_of_step_time_that_grows_with_batch_size() {
        // System: a step takes 3 ms plus 0.5 ms for each sample. Expectation: `half` is 6 samples; in a step with 18 samples, the
        // GPU is busy for 9 of 12 ms.
        let law = OccupancyLaw::Saturating { half: 3.0 / 0.5 };
        assert_eq!(law.of(18.0), 9.0 / 12.0);
    }
}
