//! A quantity that may vary.

mod empirical;
pub(super) mod settings;

pub(super) use empirical::FilesOfValues;
use std::sync::Arc;

/// A non-negative random quantity in SI units (seconds, bytes, core-seconds).
///
/// Every variant holds the parameters that its sampler needs, already derived from what the file
/// said (median and p99, mean and coefficient of variation, …) and already checked.
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
    /// Normal, truncated at zero: values below zero are drawn again.
    Normal {
        /// Mean before truncation.
        mean: f64,
        /// Standard deviation before truncation.
        sd: f64,
    },
    /// Uniform on `[low, high)`.
    Uniform {
        /// Least value.
        low: f64,
        /// Supremum.
        high: f64,
    },
    /// Pareto (type I): `scale · U^(-1/shape)`.
    Pareto {
        /// Least value.
        scale: f64,
        /// Tail index; the mean is infinite at or below 1.
        shape: f64,
    },
    /// One of these values, each as likely.
    Empirical(Arc<[f64]>),
}

impl Distribution {
    /// Mean of what is drawn, before truncation [SI unit].
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
