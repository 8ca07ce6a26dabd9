//! Settings of distributions, such as `"3 ms"` or `{ lognormal = { median = "2 ms", p99 = "9 ms" } }`.

use super::Distribution;
use super::empirical::{self, EmpiricalSettings};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Amount, Factor, Positive};
use forebay_model::units::Dimension;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;

/// 99 % quantile of the standard normal distribution.
const Z99: f64 = 2.326_347_874_040_841;

/// A quantity that is constant or sampled from a distribution.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(bound = "D: Dimension", transparent)]
pub(crate) struct Varying<D>(Kinds<D>);

/// The kinds of distributions.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", bound = "D: Dimension")]
#[schemars(bound = "D: Dimension")]
enum Kinds<D> {
    /// The same value every time.
    Constant(Amount<D>),
    /// Exponential distribution.
    Exponential(Exponential<D>),
    /// Lognormal distribution, by median and 99 % quantile, or by mean and coefficient of variation.
    Lognormal(Lognormal<D>),
    /// Gamma distribution.
    Gamma(Gamma<D>),
    /// Normal distribution; values below zero are sampled again.
    Normal(Normal<D>),
    /// Uniform distribution.
    Uniform(Uniform<D>),
    /// Pareto distribution (type I), by minimum or by mean.
    Pareto(Pareto<D>),
    /// Values from a file, all equally likely.
    Empirical(EmpiricalSettings),
}

/// Exponential distribution.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound = "D: Dimension")]
#[schemars(bound = "D: Dimension")]
struct Exponential<D> {
    /// Mean.
    #[schemars(required)]
    mean: Field<Positive<D>>,
}

/// Lognormal distribution: `median` and `p99`, or `mean` and `cv`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound = "D: Dimension")]
#[schemars(bound = "D: Dimension")]
struct Lognormal<D> {
    /// Median.
    median: Field<Positive<D>>,
    /// 99 % quantile.
    p99: Field<Positive<D>>,
    /// Mean.
    mean: Field<Positive<D>>,
    /// Standard deviation divided by mean.
    cv: Field<Factor>,
}

/// Gamma distribution.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound = "D: Dimension")]
#[schemars(bound = "D: Dimension")]
struct Gamma<D> {
    /// Mean.
    #[schemars(required)]
    mean: Field<Positive<D>>,
    /// Standard deviation divided by mean.
    #[schemars(required)]
    cv: Field<Factor>,
}

/// Normal distribution, truncated at zero.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound = "D: Dimension")]
#[schemars(bound = "D: Dimension")]
struct Normal<D> {
    /// Mean before truncation.
    #[schemars(required)]
    mean: Field<Amount<D>>,
    /// Standard deviation before truncation.
    #[schemars(required)]
    sd: Field<Positive<D>>,
}

/// Uniform distribution.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound = "D: Dimension")]
#[schemars(bound = "D: Dimension")]
struct Uniform<D> {
    /// Minimum.
    #[schemars(required)]
    low: Field<Amount<D>>,
    /// Maximum.
    #[schemars(required)]
    high: Field<Positive<D>>,
}

/// Pareto distribution: `shape`, and `min` or `mean`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound = "D: Dimension")]
#[schemars(bound = "D: Dimension")]
struct Pareto<D> {
    /// Minimum.
    min: Field<Positive<D>>,
    /// Mean.
    mean: Field<Positive<D>>,
    /// Tail index, above 1.
    #[schemars(required)]
    shape: Field<Factor>,
}

impl<D: Dimension> Varying<D> {
    /// Checks the value at document node `at` and returns its distribution; `None` if the value is invalid.
    pub(crate) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Distribution> {
        let at = check.inside(at);
        match &self.0 {
            Kinds::Constant(value) => Some(Distribution::Constant(value.0)),
            Kinds::Exponential(kind) => {
                let mean = check.required(at, &kind.mean, "mean", mean_remedy::<D>())?.0;
                Some(Distribution::Exponential { mean })
            }
            Kinds::Lognormal(kind) => kind.resolve(check, at),
            Kinds::Gamma(kind) => {
                let mean = check.required(at, &kind.mean, "mean", mean_remedy::<D>());
                let cv = spread(check, at, &kind.cv);
                gamma(mean?.0, cv?)
            }
            Kinds::Normal(kind) => {
                let mean = check.required(at, &kind.mean, "mean", mean_remedy::<D>());
                let sd = check.required(at, &kind.sd, "sd", "write the standard deviation");
                Some(Distribution::Normal { mean: mean?.0, sd: sd?.0 })
            }
            Kinds::Uniform(kind) => kind.resolve(check, at),
            Kinds::Pareto(kind) => kind.resolve(check, at),
            Kinds::Empirical(kind) => {
                Some(Distribution::Empirical(empirical::resolve::<D>(kind, check, at)?))
            }
        }
    }
}

fn mean_remedy<D: Dimension>() -> String {
    format!("write `mean = \"{}\"`", D::EXAMPLE)
}

pub(super) fn gamma(mean: f64, cv: f64) -> Option<Distribution> {
    Some(Distribution::Gamma { shape: 1.0 / (cv * cv), scale: mean * cv * cv })
}

pub(super) fn lognormal(mean: f64, cv: f64) -> Distribution {
    let variance = (cv * cv).ln_1p();
    Distribution::Lognormal { mu: mean.ln() - variance / 2.0, sigma: variance.sqrt() }
}

/// Returns the coefficient of variation if samplers support it (0.001 to 100); otherwise reports a problem and
/// returns `None`.
pub(super) fn spread(check: Check<'_>, table: NodeId, cv: &Field<Factor>) -> Option<f64> {
    check.required(table, cv, "cv", "write `cv = 0.5`: standard deviation divided by mean");
    let (at, cv) = cv.given()?;
    if !(1e-3..=100.0).contains(&cv.0) {
        check.wrong(at, format!("{} is out of range", cv.0), "write a number from 0.001 to 100");
        return None;
    }
    Some(cv.0)
}

impl<D: Dimension> Lognormal<D> {
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Distribution> {
        let remedy = "write `median` and `p99`, or `mean` and `cv`";
        let choices = [("median", self.median.at), ("mean", self.mean.at)];
        if check.one_of(at, &choices, remedy)? == 1 {
            if let Some(p99) = self.p99.at {
                check.log.key(p99, "`p99` and `mean` contradict each other", remedy);
                return None;
            }
            let cv = spread(check, at, &self.cv);
            return Some(lognormal(self.mean.get()?.0, cv?));
        }
        if let Some(cv) = self.cv.at {
            check.log.key(cv, "`cv` and `median` contradict each other", remedy);
            return None;
        }
        let p99 = check.required(at, &self.p99, "p99", remedy)?.0;
        let median = self.median.get()?.0;
        if p99 <= median {
            let at = check.blame(&[self.p99.at, self.median.at], at);
            check.wrong(at, "`p99` is not above `median`", "write a larger `p99`, or a constant");
            return None;
        }
        Some(Distribution::Lognormal { mu: median.ln(), sigma: (p99 / median).ln() / Z99 })
    }
}

impl<D: Dimension> Uniform<D> {
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Distribution> {
        let low = check.required(at, &self.low, "low", "write the least value");
        let high = check.required(at, &self.high, "high", "write the greatest value");
        let (low, high) = (low?.0, high?.0);
        if high <= low {
            let at = check.blame(&[self.high.at, self.low.at], at);
            check.wrong(at, "`high` is not above `low`", "write a larger `high`, or a constant");
            return None;
        }
        Some(Distribution::Uniform { low, high })
    }
}

impl<D: Dimension> Pareto<D> {
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Distribution> {
        let by = check.one_of(
            at,
            &[("min", self.min.at), ("mean", self.mean.at)],
            "write `min` or `mean`",
        );
        let shape = check.required(at, &self.shape, "shape", "write `shape = 2.5`")?.0;
        let scale = |shape: f64| match by {
            Some(0) => self.min.get().map(|min| min.0),
            Some(_) => self.mean.get().map(|mean| mean.0 * (shape - 1.0) / shape),
            None => None,
        };
        pareto(check, self.shape.at.unwrap_or(at), shape, scale)
    }
}

/// Returns the Pareto distribution with this `shape` and the minimum `scale(shape)`; reports a problem at document
/// node `at` and returns `None` if the shape is so small that the mean is infinite.
pub(super) fn pareto(
    check: Check<'_>,
    at: NodeId,
    shape: f64,
    scale: impl Fn(f64) -> Option<f64>,
) -> Option<Distribution> {
    if shape <= 1.01 {
        let what = format!("with the shape {shape} the mean is infinite, or nearly so");
        check.wrong(at, what, "write a shape above 1.01");
        return None;
    }
    Some(Distribution::Pareto { scale: scale(shape)?, shape })
}

impl<D: Dimension> JsonSchema for Varying<D> {
    fn schema_name() -> Cow<'static, str> {
        format!("Varying{}", D::SCHEMA).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let constant = generator.subschema_for::<Amount<D>>();
        let kinds = generator.subschema_for::<Kinds<D>>();
        json_schema!({
            "description": format!("{}, the same every time or drawn", D::WHAT),
            "anyOf": [constant, kinds],
        })
    }
}
