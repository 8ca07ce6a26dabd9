//! The part of a GPU that the kernels of one learner occupy, and the gain in throughput from several learners.

/// Part of a GPU that a learner's kernels occupy while they run, by batch size, and what that means for other learners.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OccupancyLaw {
    /// A fixed part, independent of the batch size. Learners share the GPU as [`Sharing::UntilFull`] says.
    Constant(f64),
    /// `batch ÷ (batch + half)`. If a step takes `fixed + per_sample · batch` and the GPU is idle for the fixed part, `half` is
    /// `fixed ÷ per_sample` (the n½ of Hockney and Jesshope, *Parallel Computers 2*, 1988, section 1.3). Learners share the GPU
    /// as [`Sharing::Mutual`] says.
    Saturating {
        /// Batch that occupies half of the GPU [samples].
        half: f64,
    },
}

/// How learners on one GPU, each of which occupies the part `o` of it, slow each other down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Each learner keeps its speed until the GPU is full: `k` learners gain `min(k, 1 ÷ o)` (Koliousis et al., *Crossbow*, PVLDB
    /// 12(11), 2019). So it is if all kernels of a step fill the same part of the GPU.
    UntilFull,
    /// Each learner slows each other one by the part that it occupies: a step beside `k - 1` learners takes `1 + (k - 1) · o`
    /// times as long as alone. So it is if kernels fill the GPU for the part `o` of a step and launches and small kernels take the
    /// rest. Measured for LeNet-5 and ResNet-50 on an H100: with `fixed + per_sample · batch` added by each other learner, off by
    /// 1.3 % on average and 4.4 % at most, for two to eight learners (`calibrate/profiles/h100`).
    Mutual,
}

impl Sharing {
    /// Returns the throughput of `learners` learners ÷ the throughput of one, if each occupies the part `occupancy`.
    #[must_use]
    pub fn gain(self, learners: f64, occupancy: f64) -> f64 {
        match self {
            Sharing::UntilFull => learners.min(1.0 / occupancy),
            Sharing::Mutual => learners / (1.0 + (learners - 1.0) * occupancy),
        }
    }
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

    /// Returns how learners of this law share a GPU.
    #[must_use]
    pub fn sharing(&self) -> Sharing {
        match self {
            Self::Constant(_) => Sharing::UntilFull,
            Self::Saturating { .. } => Sharing::Mutual,
        }
    }

    /// Returns the throughput of `learners` learners ÷ the throughput of one, all with batches of `batch` samples.
    #[must_use]
    pub fn gain(&self, learners: f64, batch: f64) -> f64 {
        self.sharing().gain(learners, self.of(batch))
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
        // Two learners that each occupy half of the GPU take one and a half times as long for twice the work.
        assert_eq!(law.gain(2.0, 24.0), 2.0 / 1.5);
    }

    #[test]
    fn gpu_occupancy_is_the_share_of_step_time_that_grows_with_batch_size() {
        // System: a step takes 3 ms plus 0.5 ms for each sample. Expectation: `half` is 6 samples; in a step with 18 samples, the
        // GPU is busy for 9 of 12 ms.
        let law = OccupancyLaw::Saturating { half: 3.0 / 0.5 };
        assert_eq!(law.of(18.0), 9.0 / 12.0);
    }
}
