//! Settings of jitter: a random factor with mean 1, of any distribution.

use super::Distribution;
use super::empirical::{EmpiricalSettings, read};
use super::settings::{gamma, lognormal, pareto, spread};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::Factor;
use forebay_model::units::Time;
use schemars::JsonSchema;
use serde::Deserialize;

/// Maximum coefficient of variation of a uniform factor with mean 1: the factor then ranges from 0 to 2, so it is
/// never negative.
const MOST_UNIFORM: f64 = 0.577;
/// Maximum coefficient of variation of a normal factor with mean 1: truncation at 0 then changes the mean by at most
/// 0.1 %.
const MOST_NORMAL: f64 = 0.3;

/// A random factor with mean 1.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Jitter {
    /// Lognormal factor with mean 1.
    Lognormal(Spread),
    /// Gamma factor with mean 1.
    Gamma(Spread),
    /// Normal factor with mean 1.
    Normal(Spread),
    /// Uniform factor with mean 1.
    Uniform(Spread),
    /// Exponential factor with mean 1.
    Exponential(Nothing),
    /// Pareto factor with mean 1.
    Pareto(Tail),
    /// Values from a file, such as measured step times, divided by their mean.
    Empirical(EmpiricalSettings),
}

/// How far a factor varies around 1.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spread {
    /// Standard deviation divided by mean.
    #[schemars(required)]
    cv: Field<Factor>,
}

/// How heavy the tail of a factor is.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tail {
    /// Tail index, above 1.
    #[schemars(required)]
    shape: Field<Factor>,
}

/// No parameters: the mean of 1 alone determines the distribution.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// Returns a lognormal factor with mean 1 and standard deviation `cv`; `None` if `cv` is too small to matter.
pub(crate) fn factor(cv: f64) -> Option<Distribution> {
    (cv >= 1e-3).then(|| lognormal(1.0, cv.min(100.0)))
}

impl Jitter {
    /// Checks the value at document node `at` and returns the distribution of the factor; `None` if the value is
    /// invalid.
    pub(crate) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Distribution> {
        let at = check.inside(at);
        match self {
            Self::Lognormal(kind) => Some(lognormal(1.0, spread(check, at, &kind.cv)?)),
            Self::Gamma(kind) => gamma(1.0, spread(check, at, &kind.cv)?),
            Self::Normal(kind) => {
                let sd = kind.at_most(check, at, MOST_NORMAL)?;
                Some(Distribution::Normal { mean: 1.0, sd })
            }
            Self::Uniform(kind) => {
                let half = 3_f64.sqrt() * kind.at_most(check, at, MOST_UNIFORM)?;
                Some(Distribution::Uniform { low: 1.0 - half, high: 1.0 + half })
            }
            Self::Exponential(Nothing {}) => Some(Distribution::Exponential { mean: 1.0 }),
            Self::Pareto(kind) => {
                let shape = check.required(at, &kind.shape, "shape", "write `shape = 2.5`")?.0;
                pareto(check, kind.shape.at.unwrap_or(at), shape, |shape| {
                    Some((shape - 1.0) / shape)
                })
            }
            Self::Empirical(kind) => {
                check.no_effect(kind.times.at, "the values are divided by their mean");
                let values = read::<Time>(kind, check, at)?;
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                Some(Distribution::Empirical(values.iter().map(|value| value / mean).collect()))
            }
        }
    }
}

impl Spread {
    /// Returns the coefficient of variation if it is at most `most`; otherwise reports a problem and returns
    /// `None`.
    fn at_most(&self, check: Check<'_>, table: NodeId, most: f64) -> Option<f64> {
        let cv = spread(check, table, &self.cv)?;
        if cv > most {
            let what = format!(
                "with a coefficient of variation of {cv} some sampled times would be negative"
            );
            let remedy = format!("write at most {most}, or `gamma = {{ cv = {cv} }}`");
            check.wrong(self.cv.at.unwrap_or(table), what, remedy);
            return None;
        }
        Some(cv)
    }
}
