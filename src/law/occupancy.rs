//! How much of a GPU one learner keeps busy, and what further learners beside it add.

/// A learner alone occupies `batch ÷ (batch + half_batch)` of a GPU: small batches leave multiprocessors idle,
/// large ones fill them. What is idle is what learners beside it can use: learners share the GPU as flows
/// with that cap, so that k of them train `min(k, 1 ÷ occupancy)` times as fast together as one alone
/// (A. Koliousis et al., *Crossbow: Scaling Deep Learning with Small Batch Sizes on Multi-GPU Servers*,
/// VLDB 2019, for the gain that falls as batches grow).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OccupancyLaw {
    /// Samples of a batch that keep half of the GPU busy; 0: any batch fills it.
    pub half_batch: f64,
}

impl OccupancyLaw {
    /// Share of the GPU that one learner with batches of `batch` samples keeps busy [0–1].
    #[must_use]
    pub fn occupancy(&self, batch: f64) -> f64 {
        batch / (batch + self.half_batch)
    }

    /// How many times as long a step takes beside `learners − 1` others as alone.
    #[must_use]
    pub fn slowdown(&self, batch: f64, learners: f64) -> f64 {
        (learners * self.occupancy(batch)).max(1.0)
    }

    /// Samples per second of `learners` together against those of one alone.
    #[must_use]
    pub fn gain(&self, batch: f64, learners: f64) -> f64 {
        learners / self.slowdown(batch, learners)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// System: batches of 24 fill half of the GPU. Expectation: so two learners of 24 fill it, and nothing
    /// is gained by a third; of 8, a quarter each, four do; of 240 there is room for a tenth of a learner.
    #[test]
    fn learners_add_until_the_gpu_is_full() {
        let law = OccupancyLaw { half_batch: 24.0 };
        for (batch, learners, gain) in [
            (24.0, 2.0, 2.0),
            (24.0, 3.0, 2.0),
            (8.0, 4.0, 4.0),
            (8.0, 5.0, 4.0),
            (240.0, 2.0, 1.1),
        ] {
            assert!((law.gain(batch, learners) - gain).abs() < 1e-12, "{batch}, {learners}");
            let product = law.slowdown(batch, learners) * gain;
            assert!((product - learners).abs() < 1e-12, "{batch}, {learners}");
        }
        assert_eq!(OccupancyLaw { half_batch: 0.0 }.gain(1.0, 4.0), 1.0);
    }
}
