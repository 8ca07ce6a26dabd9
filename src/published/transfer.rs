//! Transfer of fits to models that they were not fitted on: each model of a transport is left out and predicted from the others.
//!
//! A model's results are inputs of none of its predictions here, except for the speed of one GPU. Between fitted and nominal rates
//! the other models choose: each of them is left out in turn as well, and the rates that predict it better are taken.

use super::constants::Constants;
use super::fit::{Group, Rates, costs};
use super::interval::Spread;
use super::predict::Ready;
use super::scenario::is_input;
use super::{Published, PublishedResult, Role};
use crate::stats::mean;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Minimum number of models of a transport at a site from which one is left out.
const MODELS: usize = 3;

/// Errors of the predictions of models that are left out of fits, for one transport of a site.
#[derive(Debug, Clone, PartialEq)]
pub struct Errors {
    /// Mean square of the logarithm of prediction over measurement, in which each model counts once; with fitted rates.
    pub fitted: f64,
    /// The same with nominal rates.
    pub nominal: f64,
    /// Rates whose mean absolute logarithm of prediction over measurement is smaller.
    pub better: Rates,
    /// Number of models that were left out.
    pub models: usize,
}

impl Errors {
    /// Returns the mean square with these rates.
    #[must_use]
    pub fn square(&self, rates: Rates) -> f64 {
        match rates {
            Rates::Fitted => self.fitted,
            Rates::Nominal => self.nominal,
        }
    }
}

/// Errors of a transport's models that are left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer {
    /// Whether some of its results are of several nodes.
    pub spans_nodes: bool,
    /// Errors among the other models, by the model that has no influence on them.
    pub without: BTreeMap<String, Errors>,
}

/// Errors of each transport of a site that has results of three models or more.
pub type Transfers = BTreeMap<Group, Transfer>;

/// A model of a transport, predicted from the transport's other models.
#[derive(Debug, Clone)]
pub struct LeftOut<'p> {
    /// The site.
    pub site: String,
    /// The transport.
    pub transport: &'p str,
    /// The model that was left out.
    pub model: &'p str,
    /// Errors among the other models, which chose the rates.
    pub among_others: Errors,
    /// The model's results.
    pub results: Vec<LeftOutResult<'p>>,
}

/// A result of a model that was left out.
#[derive(Debug, Clone, Copy)]
pub struct LeftOutResult<'p> {
    /// The result.
    pub result: &'p PublishedResult,
    /// Prediction with rates that were fitted to all other models, in the quantity's unit.
    pub fitted: f64,
    /// Prediction with nominal rates.
    pub nominal: f64,
    /// Prediction with the rates that the other models chose.
    pub predicted: f64,
    /// Interval in which nine of ten measurements should lie: see [`Spread`].
    pub interval90: [f64; 2],
}

/// Returns how far predictions of models that are left out of a fit are off, for each site and transport with results of at least three
/// models.
#[must_use]
pub fn transfers(published: &Published) -> Transfers {
    let groups: Vec<_> = groups(published).into_iter().collect();
    let of = groups.par_iter().map(|(group, rows)| {
        let models = Models::of(published, rows.iter());
        let fits = models.fits(|left_out| left_out.len() == 2);
        let without = |model: &str| (model.to_owned(), models.errors(&fits, Some(model)));
        let transfer = Transfer {
            spans_nodes: rows.iter().any(|row| published.spans_nodes(row.result)),
            without: models.rows.keys().map(|model| without(model)).collect(),
        };
        (group.clone(), transfer)
    });
    of.collect::<Vec<_>>().into_iter().collect()
}

/// Returns the prediction of each model from the other models of its transport, where the transport has three models or more at
/// a site.
#[must_use]
pub fn left_out(published: &Published) -> Vec<LeftOut<'_>> {
    let groups: Vec<_> = groups(published).into_iter().collect();
    let of = groups.par_iter().map(|((site, _), rows)| {
        let models = Models::of(published, rows.iter());
        let fits = models.fits(|left_out| left_out.len() == 2);
        let one = |model: &'_ str| {
            let (rows, others) = (&models.rows[model], models.without(&BTreeSet::from([model])));
            let nominal = Constants::of_kind(&rows[0].result.transport);
            let fitted = costs(published, &others);
            let among_others = models.errors(&fits, Some(model));
            let better = among_others.better;
            let transferred =
                Spread { square: among_others.square(better), freedom: among_others.models as f64 };
            let spread = match better {
                Rates::Fitted => transferred.and(fitted.residual(&others)),
                Rates::Nominal => transferred,
            };
            let results = rows.iter().filter_map(|row| {
                let (fitted, nominal) = (row.predict(&fitted.constants)?, row.predict(&nominal)?);
                let predicted = if better == Rates::Fitted { fitted } else { nominal };
                let interval90 = row.possible(spread.interval90(predicted));
                Some(LeftOutResult { result: row.result, fitted, nominal, predicted, interval90 })
            });
            LeftOut {
                site: site.clone(),
                transport: &rows[0].result.transport,
                model: &rows[0].result.model,
                results: results.collect(),
                among_others,
            }
        };
        let names: Vec<&str> = models.names().collect();
        names.par_iter().map(|model| one(model)).collect::<Vec<_>>()
    });
    of.collect::<Vec<_>>().into_iter().flatten().collect()
}

/// Returns the rates with which a fit to `rows` predicts other models.
pub(super) fn others(published: &Published, rows: &[&Ready<'_>]) -> Rates {
    let models = Models::of(published, rows.iter().copied());
    match models.rows.len() < MODELS {
        true => Rates::Fitted,
        false => models.errors(&models.fits(|left_out| left_out.len() == 1), None).better,
    }
}

/// Returns the results of each transport that has three models or more at a site.
fn groups(published: &Published) -> BTreeMap<Group, Vec<Ready<'_>>> {
    let mut groups = published.groups(|result| {
        let judges = result.verified && result.role() != Role::Input;
        judges && !is_input(published, result)
    });
    groups.retain(|_, rows| {
        let models: BTreeSet<&str> = rows.iter().map(|row| row.result.model.as_str()).collect();
        models.len() >= MODELS
    });
    groups
}

/// Results of a transport by model.
struct Models<'r, 'p> {
    published: &'p Published,
    rows: BTreeMap<&'p str, Vec<&'r Ready<'p>>>,
}

/// Fitted costs by the models that were left out.
type Fits<'p> = BTreeMap<BTreeSet<&'p str>, Constants>;

impl<'r, 'p> Models<'r, 'p> {
    fn of(published: &'p Published, all: impl Iterator<Item = &'r Ready<'p>>) -> Models<'r, 'p> {
        let mut rows: BTreeMap<&'p str, Vec<&'r Ready<'p>>> = BTreeMap::new();
        for row in all {
            rows.entry(&row.result.model).or_default().push(row);
        }
        Models { published, rows }
    }

    fn names(&self) -> impl Iterator<Item = &'p str> {
        self.rows.keys().copied()
    }

    fn without(&self, left_out: &BTreeSet<&str>) -> Vec<&'r Ready<'p>> {
        let kept = self.rows.iter().filter(|(model, _)| !left_out.contains(*model));
        kept.flat_map(|(_, rows)| rows.iter().copied()).collect()
    }

    /// Fits the results without each pair of models. (A pair of a model with itself is that model.)
    fn fits(&self, wanted: impl Fn(&BTreeSet<&str>) -> bool) -> Fits<'p> {
        let pairs = self.names().flat_map(|one| self.names().map(move |other| [one, other]));
        let sets: BTreeSet<BTreeSet<&'p str>> = pairs.map(BTreeSet::from).collect();
        let sets: Vec<_> = sets.into_iter().filter(|of| wanted(of)).collect();
        let fits = sets.into_par_iter().map(|left_out| {
            let constants = costs(self.published, &self.without(&left_out)).constants;
            (left_out, constants)
        });
        fits.collect::<Vec<_>>().into_iter().collect()
    }

    /// Returns the errors of the models other than `hidden`, each predicted without its own results and those of `hidden`.
    fn errors(&self, fits: &Fits<'p>, hidden: Option<&'p str>) -> Errors {
        let (mut fitted, mut nominal) = (Vec::new(), Vec::new());
        for (model, rows) in self.rows.iter().filter(|(model, _)| Some(**model) != hidden) {
            let left_out = hidden.into_iter().chain([*model]).collect();
            let logs = |constants: &Constants| -> Vec<f64> {
                rows.iter().filter_map(|row| row.log_error(constants)).collect()
            };
            fitted.push(logs(&fits[&left_out]));
            nominal.push(logs(&Constants::of_kind(&rows[0].result.transport)));
        }
        let over_models = |all: &[Vec<f64>], of: fn(f64) -> f64| {
            let each = all
                .iter()
                .filter_map(|logs| mean(&logs.iter().map(|log| of(*log)).collect::<Vec<_>>()));
            mean(&each.collect::<Vec<_>>()).unwrap_or_default()
        };
        let nominal_is_better = over_models(&nominal, f64::abs) < over_models(&fitted, f64::abs);
        Errors {
            fitted: over_models(&fitted, |log| log * log),
            nominal: over_models(&nominal, |log| log * log),
            better: if nominal_is_better { Rates::Nominal } else { Rates::Fitted },
            models: fitted.len(),
        }
    }
}
