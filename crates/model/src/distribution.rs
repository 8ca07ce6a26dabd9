//! Distributions of quantities that may vary.

use std::sync::Arc;

/// A non-negative random quantity in SI units (seconds, bytes, core-seconds).
///
/// Every variant holds the parameters that its sampler needs, already derived from the file's settings (median and p99, mean and
/// coefficient of variation, …) and already checked.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Always the same value.
    Constant(f64),
    /// Exponential with this mean.
    Exponential {
        /// Mean.
        mean: f64,
    },
    /// Lognormal: `exp(mu + sigma·Z)`.
    Lognormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Gamma; its mean is `shape·scale`.
    Gamma {
        /// Shape.
        shape: f64,
        /// Scale.
        scale: f64,
    },
    /// Normal, truncated at zero: values below zero are resampled.
    Normal {
        /// Mean before truncation.
        mean: f64,
        /// Standard deviation before truncation.
        sd: f64,
    },
    /// Uniform on `[low, high)`.
    Uniform {
        /// Minimum.
        low: f64,
        /// Upper bound, itself excluded.
        high: f64,
    },
    /// Pareto (type I): `scale · U^(-1/shape)`.
    Pareto {
        /// Minimum.
        scale: f64,
        /// Tail index; the mean is infinite at or below 1.
        shape: f64,
    },
    /// One of these values; all are equally likely.
    Empirical(Arc<[f64]>),
}

impl Distribution {
    /// Returns the distribution of this quantity times `factor` (positive).
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Distribution {
        match self {
            Self::Constant(value) => Self::Constant(value * factor),
            Self::Exponential { mean } => Self::Exponential { mean: mean * factor },
            Self::Lognormal { mu, sigma } => {
                Self::Lognormal { mu: mu + factor.ln(), sigma: *sigma }
            }
            Self::Gamma { shape, scale } => Self::Gamma { shape: *shape, scale: scale * factor },
            Self::Normal { mean, sd } => Self::Normal { mean: mean * factor, sd: sd * factor },
            Self::Uniform { low, high } => Self::Uniform { low: low * factor, high: high * factor },
            Self::Pareto { scale, shape } => Self::Pareto { scale: scale * factor, shape: *shape },
            Self::Empirical(values) => Self::Empirical(values.iter().map(|v| v * factor).collect()),
        }
    }

    /// Returns the mean before truncation [SI unit].
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Exponential { mean } | Self::Normal { mean, .. } => *mean,
            Self::Lognormal { mu, sigma } => (mu + sigma * sigma / 2.0).exp(),
            Self::Gamma { shape, scale } => shape * scale,
            Self::Uniform { low, high } => f64::midpoint(*low, *high),
            Self::Pareto { scale, shape } if *shape > 1.0 => scale * shape / (shape - 1.0),
            Self::Pareto { .. } => f64::INFINITY,
            #[expect(clippy::cast_precision_loss, reason = "files of values are far below 2^53")]
            Self::Empirical(values) => values.iter().sum::<f64>() / values.len() as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Distribution as D;

    #[test]
    fn a_scaled_quantity_has_a_scaled_mean() {
        let all = [
            D::Constant(3.0),
            D::Exponential { mean: 3.0 },
            D::Lognormal { mu: 1.0, sigma: 0.5 },
            D::Gamma { shape: 2.0, scale: 3.0 },
            D::Normal { mean: 3.0, sd: 0.1 },
            D::Uniform { low: 1.0, high: 2.0 },
            D::Pareto { scale: 1.0, shape: 3.0 },
            D::Empirical([1.0, 5.0].into()),
        ];
        for quantity in all {
            let ratio = quantity.scaled(2.5).mean() / quantity.mean();
            assert!((ratio - 2.5).abs() < 1e-12, "{quantity:?}: {ratio}");
        }
    }
}
