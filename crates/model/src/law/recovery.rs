//! What failures and checkpoints cost: J. T. Daly, *A higher order estimate of the optimum checkpoint interval
//! for restart dumps*, Future Generation Computer Systems 22 (2006).

/// A job that fails at random times, at a constant rate, and continues from its last checkpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecoveryLaw {
    /// Mean time between failures of the job as a whole [s].
    pub mtbf: f64,
    /// Time to write a checkpoint, during which the job does no other work [s].
    pub checkpoint: f64,
    /// Time from a failure until the job works again [s].
    pub restart: f64,
}

impl RecoveryLaw {
    /// Returns the expected time for `work` [s] with a checkpoint after every `interval` [s] of work. Failures occur during
    /// checkpoints and restarts too.
    #[must_use]
    pub fn expected_time(&self, work: f64, interval: f64) -> f64 {
        let Self { mtbf, checkpoint, restart } = *self;
        let each = ((interval + checkpoint) / mtbf).exp_m1();
        mtbf * (restart / mtbf).exp() * each * work / interval
    }

    /// Returns the interval between checkpoints for which the expected time is close to its minimum [s].
    #[must_use]
    pub fn best_interval(&self) -> f64 {
        let share = self.checkpoint / (2.0 * self.mtbf);
        if share >= 1.0 {
            return self.mtbf;
        }
        let young = (2.0 * self.checkpoint * self.mtbf).sqrt();
        young * (1.0 + share.sqrt() / 3.0 + share / 9.0) - self.checkpoint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAW: RecoveryLaw = RecoveryLaw { mtbf: 3600.0, checkpoint: 60.0, restart: 120.0 };

    #[test]
    fn without_failures_checkpoints_are_the_only_overhead() {
        let law = RecoveryLaw { mtbf: 1e12, ..LAW };
        assert!((law.expected_time(1000.0, 100.0) / 1600.0 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn the_computed_checkpoint_interval_nearly_minimises_expected_time() {
        let best = LAW.best_interval();
        let time = |interval: f64| LAW.expected_time(1.0, interval);
        let least = (1..1000).map(|i| time(f64::from(i) * 3.0)).fold(f64::INFINITY, f64::min);
        assert!(time(best) < least * 1.0005, "{best}");
        assert!(time(best / 2.0) > least * 1.02 && time(best * 2.0) > least * 1.02);
        assert_eq!(RecoveryLaw { checkpoint: 7200.0, ..LAW }.best_interval(), 3600.0);
    }
}
