//! Predictions for published results, by simulation of their clusters.

use super::constants::Constants;
use super::fit::{Fit, Fitted};
use super::scenario::{alone, is_input, text};
use super::{Published, PublishedResult, Quantity};
use crate::scenario::ScenarioFile;
use crate::sim::{self, Options};
use rayon::prelude::*;

/// A published result beside its prediction.
#[derive(Debug, Clone)]
pub struct Compared<'p> {
    /// The result.
    pub result: &'p PublishedResult,
    /// Predicted value, in the quantity's unit.
    pub predicted: f64,
    /// Whether the fit for the result's transport was withheld: the hardware does not explain the fitted rates, and the fit did
    /// not use results of this model.
    pub withheld: bool,
}

impl Compared<'_> {
    /// Returns the relative error: prediction over measurement, minus 1.
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        self.predicted / self.result.measured - 1.0
    }
}

/// Returns all results except inputs of predictions, each with its prediction, in the order of the file. Results for which no
/// publication gives the speed of one GPU are left out.
#[must_use]
pub fn compare<'p>(published: &'p Published, fitted: &Fitted) -> Vec<Compared<'p>> {
    let judged = |result: &&PublishedResult| !is_input(published, result);
    let all: Vec<&PublishedResult> = published.results.iter().filter(judged).collect();
    let compared = all.par_iter().map(|result| {
        let constants = constants(published, result, fitted);
        let withheld =
            known(published, result, fitted).is_some_and(|fit| !fit.holds_for(&result.model));
        Some(Compared { result, predicted: predict(published, result, &constants)?, withheld })
    });
    compared.collect::<Vec<_>>().into_iter().flatten().collect()
}

/// Returns the transport costs with which `result` is predicted: fitted ones if the fit holds for its model, otherwise typical
/// ones.
#[must_use]
pub fn constants(published: &Published, result: &PublishedResult, fitted: &Fitted) -> Constants {
    let known = known(published, result, fitted).filter(|fit| fit.holds_for(&result.model));
    known.map_or_else(|| Constants::of_kind(&result.transport), |fit| fit.constants)
}

/// Returns the fit for the transport of `result` at its site, if there is one.
fn known<'f>(
    published: &Published,
    result: &PublishedResult,
    fitted: &'f Fitted,
) -> Option<&'f Fit> {
    let site = published.clusters[&result.cluster].site.clone();
    fitted.get(&(site, result.transport.clone()))
}

/// Returns the predicted value of `result`, in the quantity's unit; `None` if no publication gives the speed of one GPU.
#[must_use]
pub fn predict(
    published: &Published,
    result: &PublishedResult,
    constants: &Constants,
) -> Option<f64> {
    let step = |gpus: u32| step(published, result, gpus, constants);
    let throughput = |gpus: u32| Some(f64::from(gpus * result.batch) / step(gpus)?);
    Some(match result.quantity {
        Quantity::Throughput => throughput(result.gpus)?,
        Quantity::Efficiency => step(result.baseline)? / step(result.gpus)?,
        Quantity::StepGrowth => step(result.gpus)? / step(result.baseline)?,
        Quantity::EpochTime => result.samples? as f64 / throughput(result.gpus)?,
    })
}

/// Returns the text of the scenario with which `result` is predicted; `None` if no publication gives the speed of one GPU.
#[must_use]
pub fn scenario(
    published: &Published,
    result: &PublishedResult,
    constants: &Constants,
) -> Option<String> {
    let cluster = &published.clusters[&result.cluster];
    Some(text(result, cluster, result.gpus, alone(published, result)?, constants))
}

/// Returns the simulated step time on `gpus` GPUs [s].
fn step(
    published: &Published,
    result: &PublishedResult,
    gpus: u32,
    constants: &Constants,
) -> Option<f64> {
    let seconds = alone(published, result)?;
    if gpus == 1 {
        return Some(seconds);
    }
    let cluster = &published.clusters[&result.cluster];
    let text = text(result, cluster, gpus, seconds, constants);
    let scenario = ScenarioFile::parse(&result.series, text).ok()?.resolve(&[]).ok()?;
    let outcome = sim::run(&scenario, 0, &Options::default());
    let steps = &outcome.jobs.first()?.steps;
    let (first, last) = (steps.first()?, steps.last()?);
    Some((last.end - first.end) / (steps.len() - 1) as f64)
}
