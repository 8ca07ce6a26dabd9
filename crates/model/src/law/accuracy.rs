//! Epochs to reach a target, by batch size, and the worth of samples that are trained on repeatedly.

/// Passes over the data (epochs) that training needs to reach a target.
#[derive(Debug, Clone, PartialEq)]
pub enum EpochsLaw {
    /// A fixed number of epochs, independent of the batch size.
    Fixed(f64),
    /// `least · (1 + batch ÷ critical_batch)`. In small batches each sample counts in full. A batch of the critical size needs
    /// twice as many epochs; beyond it, larger batches save hardly any steps (McCandlish et al., *An Empirical Model of
    /// Large-Batch Training*, 2018, arXiv 1812.06162).
    Critical {
        /// Epochs in the limit of small batches.
        least: f64,
        /// Batch that needs twice as many epochs [samples].
        critical_batch: f64,
    },
    /// Pairs (batch [samples], epochs) in ascending order of batch, not empty. Epochs are interpolated linearly; beyond the ends
    /// they are those of the nearest pair.
    Table(Vec<(f64, f64)>),
}

impl EpochsLaw {
    /// Returns the number of epochs that reach the target accuracy with batches of `batch` samples.
    #[must_use]
    pub fn epochs(&self, batch: f64) -> f64 {
        match self {
            Self::Fixed(epochs) => *epochs,
            Self::Critical { least, critical_batch } => least * (1.0 + batch / critical_batch),
            Self::Table(rows) => between(rows, batch),
        }
    }

    /// Returns the smallest number of epochs that any batch needs.
    #[must_use]
    pub fn least(&self) -> f64 {
        match self {
            Self::Fixed(epochs) => *epochs,
            Self::Critical { least, .. } => *least,
            Self::Table(rows) => rows.iter().map(|row| row.1).fold(f64::INFINITY, f64::min),
        }
    }
}

fn between(rows: &[(f64, f64)], batch: f64) -> f64 {
    let above = rows.partition_point(|row| row.0 < batch);
    match (above.checked_sub(1).and_then(|below| rows.get(below)), rows.get(above)) {
        (Some(low), Some(high)) => low.1 + (high.1 - low.1) * (batch - low.0) / (high.0 - low.0),
        (Some(end), None) | (None, Some(end)) => end.1,
        (None, None) => f64::NAN,
    }
}

/// Returns the number of fresh samples that are worth as much for training as `samples` samples, `fresh` of which are fresh and
/// the others repeats. A repeat is worth `usefulness` of a fresh sample (Choi et al., *Faster Neural Network Training with Data
/// Echoing*, 2019, arXiv 1907.05550, measure this worth).
#[must_use]
pub fn useful_samples(samples: f64, fresh: f64, usefulness: f64) -> f64 {
    fresh + usefulness * (samples - fresh)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_critical_batch_size_needs_twice_the_least_epochs_and_steps() {
        // System: at least 20 epochs, critical batch 1,000. Expectation: E(B) = 20 (1 + B/1000); the number of steps E·N/B falls
        // to 20·N/1000 and no further.
        let law = EpochsLaw::Critical { least: 20.0, critical_batch: 1000.0 };
        assert_eq!((law.epochs(0.0), law.epochs(250.0), law.epochs(1000.0)), (20.0, 25.0, 40.0));
        assert_eq!(law.least(), 20.0);
        let steps = |batch: f64| law.epochs(batch) / batch;
        assert!((steps(1000.0) - 2.0 * steps(1e9)).abs() < 1e-5 * steps(1e9));
    }

    #[test]
    fn epochs_are_interpolated_linearly_between_tabulated_batch_sizes() {
        let table = EpochsLaw::Table(vec![(64.0, 30.0), (128.0, 28.0), (512.0, 40.0)]);
        let cases = [(32.0, 30.0), (64.0, 30.0), (96.0, 29.0), (128.0, 28.0), (320.0, 34.0)];
        for (batch, epochs) in cases {
            assert_eq!(table.epochs(batch), epochs, "at {batch}");
        }
        assert_eq!((table.epochs(512.0), table.epochs(1e6), table.least()), (40.0, 40.0, 28.0));
    }

    #[test]
    fn a_repeated_sample_counts_as_a_given_fraction_of_a_fresh_sample() {
        assert_eq!(useful_samples(500.0, 100.0, 0.0), 100.0);
        assert_eq!(useful_samples(500.0, 100.0, 1.0), 500.0);
        assert_eq!(useful_samples(500.0, 100.0, 0.5625), 325.0);
    }
}
