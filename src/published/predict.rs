//! Predictions for published results, by simulation of their clusters.

use super::constants::Constants;
use super::fit::{Fit, Fitted, Rates};
use super::interval::spread;
use super::scenario::{alone, beyond, is_input, text};
use super::transfer::Transfers;
use super::{Cluster, Published, PublishedResult, Quantity};
use crate::scenario::{Origins, Scenario, ScenarioFile};
use crate::sim::{self, Options};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A published result beside its prediction.
#[derive(Debug, Clone)]
pub struct Compared<'p> {
    /// The result.
    pub result: &'p PublishedResult,
    /// Predicted value, in the quantity's unit.
    pub predicted: f64,
    /// Rates of the transport with which the result is predicted.
    pub rates: Rates,
    /// Interval in which nine of ten measurements should lie, in the quantity's unit: see [`super::Spread`]. `None` if nothing in the
    /// file shows how far such predictions are off.
    pub interval90: Option<[f64; 2]>,
}

impl Compared<'_> {
    /// Returns the relative error: prediction over measurement, minus 1.
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        self.predicted / self.result.measured - 1.0
    }

    /// Returns whether the measurement lies in the interval; `None` without an interval.
    #[must_use]
    pub fn is_inside(&self) -> Option<bool> {
        let [low, high] = self.interval90?;
        Some((low..=high).contains(&self.result.measured))
    }
}

/// Returns all results except inputs of predictions, each with its prediction, in the order of the file. Results for which no
/// publication gives the speed of one GPU are left out.
#[must_use]
pub fn compare<'p>(
    published: &'p Published,
    fitted: &Fitted,
    transfers: &Transfers,
) -> Vec<Compared<'p>> {
    let judged = |result: &&PublishedResult| !is_input(published, result);
    let all: Vec<&PublishedResult> = published.results.iter().filter(judged).collect();
    let compared = all.par_iter().map(|&result| {
        let (rates, constants) = chosen(published, result, fitted);
        let ready = Ready::new(published, result)?;
        let predicted = ready.predict(&constants)?;
        let spread = spread(published, result, fitted, transfers);
        let interval90 = spread.map(|spread| ready.possible(spread.interval90(predicted)));
        Some(Compared { result, predicted, rates, interval90 })
    });
    compared.collect::<Vec<_>>().into_iter().flatten().collect()
}

/// Returns the transport costs with which `result` is predicted: fitted ones if there is a fit that serves its model, otherwise
/// typical ones.
#[must_use]
pub fn constants(published: &Published, result: &PublishedResult, fitted: &Fitted) -> Constants {
    chosen(published, result, fitted).1
}

fn chosen(published: &Published, result: &PublishedResult, fitted: &Fitted) -> (Rates, Constants) {
    match known(published, result, fitted).filter(|fit| fit.serves(&result.model)) {
        Some(fit) => (Rates::Fitted, fit.constants),
        None => (Rates::Nominal, Constants::of_kind(&result.transport)),
    }
}

/// Returns the fit for the transport of `result` at its site, if there is one.
pub(super) fn known<'f>(
    published: &Published,
    result: &PublishedResult,
    fitted: &'f Fitted,
) -> Option<&'f Fit> {
    fitted.get(&published.group(result))
}

/// Returns the predicted value of `result`, in the quantity's unit; `None` if no publication gives the speed of one GPU.
#[must_use]
pub fn predict(
    published: &Published,
    result: &PublishedResult,
    constants: &Constants,
) -> Option<f64> {
    Ready::new(published, result)?.predict(constants)
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

/// By how much a run may scale better than linearly: the speed of one GPU was measured too.
const BEYOND_LINEAR: f64 = 1.05;

/// A result whose scenarios are resolved. Fits predict each result hundreds of times with other costs, and resolving a scenario
/// takes longer than simulating it.
pub(super) struct Ready<'p> {
    pub(super) result: &'p PublishedResult,
    cluster: &'p Cluster,
    /// Step time of one GPU alone [s].
    alone: f64,
    /// `None` on one GPU.
    own: Option<Box<Scenario>>,
    /// `None` on one GPU, and where the quantity is not relative.
    baseline: Option<Box<Scenario>>,
    /// Predictions by the bits of the costs: fits to nearly the same results try nearly the same costs.
    known: Mutex<BTreeMap<[u64; 5], Option<f64>>>,
}

impl<'p> Ready<'p> {
    /// Returns `result` with its scenarios; `None` if no publication gives the speed of one GPU.
    pub(super) fn new(published: &'p Published, result: &'p PublishedResult) -> Option<Ready<'p>> {
        let cluster = &published.clusters[&result.cluster];
        let alone = alone(published, result)?;
        let resolve = |gpus: u32| {
            let nominal = Constants::of_kind(&result.transport);
            let text = text(result, cluster, gpus, alone, &nominal);
            let scenario = ScenarioFile::parse(&result.series, text).ok()?.resolve(&[]).ok()?;
            // Nothing asks where the values come from, and each prediction makes a copy.
            Some(Box::new(Scenario { origins: Origins::default(), ..scenario }))
        };
        let relative = matches!(result.quantity, Quantity::Efficiency | Quantity::StepGrowth);
        let own = if result.gpus > 1 { Some(resolve(result.gpus)?) } else { None };
        let baseline = match relative && result.baseline > 1 {
            true => Some(resolve(result.baseline)?),
            false => None,
        };
        Some(Ready { result, cluster, alone, own, baseline, known: Mutex::default() })
    }

    /// Returns the predicted value, in the quantity's unit.
    pub(super) fn predict(&self, constants: &Constants) -> Option<f64> {
        let Constants { latency, inside, across, between, per_tensor } = *constants;
        let bits = [latency, inside, across, between, per_tensor].map(f64::to_bits);
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(&bits) {
            return *known;
        }
        // Without the lock: other threads may simulate the same costs meanwhile, with the same outcome.
        let predicted = self.simulate(constants);
        known().insert(bits, predicted);
        predicted
    }

    fn simulate(&self, constants: &Constants) -> Option<f64> {
        let step = self.step(self.own.as_deref(), constants)?;
        self.value(step, self.step(self.baseline.as_deref(), constants)?)
    }

    /// Returns the logarithm of prediction over measurement.
    pub(super) fn log_error(&self, constants: &Constants) -> Option<f64> {
        Some((self.predict(constants)? / self.result.measured).ln())
    }

    /// Returns the part of an interval in which runs do not scale better than linearly.
    pub(super) fn possible(&self, [low, high]: [f64; 2]) -> [f64; 2] {
        let Some(linear) = self.value(self.alone, self.alone) else { return [low, high] };
        match self.result.quantity {
            Quantity::Throughput | Quantity::Efficiency => [low, high.min(linear * BEYOND_LINEAR)],
            Quantity::StepGrowth | Quantity::EpochTime => [low.max(linear / BEYOND_LINEAR), high],
        }
    }

    /// Returns the quantity's value for these step times of the run and of its baseline [s].
    fn value(&self, step: f64, baseline: f64) -> Option<f64> {
        let result = self.result;
        let throughput = f64::from(result.gpus * result.batch) / step;
        Some(match result.quantity {
            Quantity::Throughput => throughput,
            Quantity::Efficiency => baseline / step,
            Quantity::StepGrowth => step / baseline,
            Quantity::EpochTime => result.samples? as f64 / throughput,
        })
    }

    /// Returns the simulated step time [s].
    fn step(&self, scenario: Option<&Scenario>, constants: &Constants) -> Option<f64> {
        let Some(scenario) = scenario else { return Some(self.alone) };
        let mut scenario = scenario.clone();
        constants.set(&mut scenario, beyond(self.cluster))?;
        let outcome = sim::run(&scenario, 0, &Options::default());
        let steps = &outcome.jobs.first()?.steps;
        let (first, last) = (steps.first()?, steps.last()?);
        Some((last.end - first.end) / (steps.len() - 1) as f64)
    }
}
