//! Samples from the distributions that a scenario may name.

use super::Generator;
use crate::distribution::Distribution;
use rand::RngExt;
use rand_distr::{Distribution as _, Exp1, Gamma, LogNormal, Pareto, StandardNormal, Uniform};
use std::sync::Arc;

/// A [`Distribution`] prepared for sampling.
#[derive(Debug, Clone)]
pub struct Sampler {
    kind: Kind,
    mean: f64,
}

#[derive(Debug, Clone)]
enum Kind {
    Constant,
    Exponential,
    Lognormal(LogNormal<f64>),
    Gamma(Gamma<f64>),
    Normal { mean: f64, sd: f64 },
    NormalTail { sd: f64, from: f64 },
    Uniform(Uniform<f64>),
    Pareto(Pareto<f64>),
    Empirical(Arc<[f64]>),
}

impl Sampler {
    /// Prepares a distribution for sampling. A distribution without spread (`sigma = 0`, a mean of 0, no values, …) becomes the
    /// constant at its mean.
    pub fn new(distribution: &Distribution) -> Sampler {
        let mean = mean(distribution);
        Sampler { kind: kind(distribution).unwrap_or(Kind::Constant), mean }
    }

    /// Returns the next sample, at least 0, in the distribution's unit. A constant does not advance the generator.
    #[inline]
    pub fn draw(&self, generator: &mut Generator) -> f64 {
        let value: f64 = match &self.kind {
            Kind::Constant => self.mean,
            Kind::Exponential => self.mean * generator.sample::<f64, _>(Exp1),
            Kind::Lognormal(lognormal) => lognormal.sample(generator),
            Kind::Gamma(gamma) => gamma.sample(generator),
            Kind::Normal { mean, sd } => normal(*mean, *sd, generator),
            Kind::NormalTail { sd, from } => sd * normal_excess(*from, generator),
            Kind::Uniform(uniform) => uniform.sample(generator),
            Kind::Pareto(pareto) => pareto.sample(generator),
            Kind::Empirical(values) => {
                values.get(generator.random_range(0..values.len())).copied().unwrap_or(self.mean)
            }
        };
        // Samples from heavy tails are limited to the largest `f64`.
        value.clamp(0.0, f64::MAX)
    }

    /// Returns the mean in the distribution's unit; infinite for a Pareto distribution with shape 1 or less.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Returns the value of a constant; `None` if samples vary.
    #[inline]
    pub fn is_constant(&self) -> Option<f64> {
        matches!(self.kind, Kind::Constant).then_some(self.mean)
    }
}

/// Returns the method that samples a distribution; `None` if the distribution has no spread.
fn kind(distribution: &Distribution) -> Option<Kind> {
    match *distribution {
        Distribution::Constant(_) => None,
        Distribution::Exponential { mean } => (mean > 0.0).then_some(Kind::Exponential),
        Distribution::Lognormal { sigma: 0.0, .. } => None,
        Distribution::Lognormal { mu, sigma } => {
            LogNormal::new(mu, sigma).ok().map(Kind::Lognormal)
        }
        Distribution::Gamma { shape, scale } => Gamma::new(shape, scale).ok().map(Kind::Gamma),
        Distribution::Normal { mean, sd } if sd > 0.0 && mean < 0.0 => {
            Some(Kind::NormalTail { sd, from: -mean / sd })
        }
        Distribution::Normal { mean, sd } => (sd > 0.0).then_some(Kind::Normal { mean, sd }),
        Distribution::Uniform { low, high } => Uniform::new(low, high).ok().map(Kind::Uniform),
        Distribution::Pareto { scale, shape } => Pareto::new(scale, shape).ok().map(Kind::Pareto),
        Distribution::Empirical(ref values) => {
            let first = values.first()?;
            let varies = values.iter().any(|value| value != first);
            varies.then(|| Kind::Empirical(Arc::clone(values)))
        }
    }
}

/// Samples a normal distribution with mean ≥ 0 until the value is not negative, which takes at most two attempts on average.
#[inline]
fn normal(mean: f64, sd: f64, generator: &mut Generator) -> f64 {
    loop {
        let z: f64 = generator.sample(StandardNormal);
        let value = mean + sd * z;
        if value >= 0.0 {
            return value;
        }
    }
}

/// Samples the amount by which a standard normal value exceeds `from` (above 0), conditional on exceeding it: rejection sampling
/// from a shifted exponential (Robert, *Simulation of truncated normal variables*, 1995), which accepts three of four samples for
/// any `from`.
fn normal_excess(from: f64, generator: &mut Generator) -> f64 {
    let rate = (from + from.hypot(2.0)) / 2.0;
    loop {
        let excess = generator.sample::<f64, _>(Exp1) / rate;
        let distance = from + excess - rate;
        if generator.random::<f64>() < (-distance * distance / 2.0).exp() {
            return excess;
        }
    }
}

/// Returns the mean of a distribution.
fn mean(distribution: &Distribution) -> f64 {
    match *distribution {
        Distribution::Constant(value) => value,
        Distribution::Exponential { mean } => mean,
        Distribution::Lognormal { mu, sigma } => (mu + sigma * sigma / 2.0).exp(),
        Distribution::Gamma { shape, scale } => shape * scale,
        Distribution::Normal { mean, sd } => truncated_mean(mean, sd),
        Distribution::Uniform { low, high } => low + (high - low) / 2.0,
        Distribution::Pareto { scale, shape } if shape > 1.0 => scale * (shape / (shape - 1.0)),
        Distribution::Pareto { .. } => f64::INFINITY,
        Distribution::Empirical(ref values) if values.is_empty() => 0.0,
        Distribution::Empirical(ref values) => {
            let n = values.len() as f64;
            values.iter().map(|value| value / n).sum()
        }
    }
}

/// Returns the mean of a normal distribution truncated at 0: `mean + sd·φ(a)/Q(a)` with `a = −mean/sd`.
fn truncated_mean(mean: f64, sd: f64) -> f64 {
    if sd <= 0.0 {
        return mean.max(0.0);
    }
    let a = -mean / sd;
    // For large `a`, φ and Q both underflow, so the asymptotic series of Mills' ratio is used.
    if a > 30.0 {
        return sd * (1.0 / a - 2.0 / a.powi(3) + 10.0 / a.powi(5));
    }
    let density = (-a * a / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let beyond = statrs::function::erf::erfc(a / std::f64::consts::SQRT_2) / 2.0;
    mean + sd * density / beyond
}
