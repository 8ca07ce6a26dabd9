//! Adds the median times of measured sizes to the law of a collective, and how far the law is from them.

use super::bootstrap;
use super::cell::{Cells, median};
use super::estimate::{KEPT, rounded};
use forebay_scenario::profile::{Fit, Parameter};
use std::collections::BTreeMap;

/// Maximum number of sizes whose times are kept; if there are more, every second, third or n-th.
const MOST: usize = 1000;
/// Name of the factor on times beyond the measured sizes.
const BEYOND: &str = "beyond";

/// Values of parameters in one draw, by name.
type Draw = BTreeMap<String, f64>;

/// Returns `fit`, a law fitted to `cells`, with the median time of each size, and with the factor on times beyond them. Without
/// equal trials, `noise` is the relative standard deviation of a time, which neighbouring sizes showed.
pub(super) fn with_measured(fit: Fit, cells: &Cells, noise: f64, draws: usize) -> Fit {
    let scatter = scatter(&fit, cells);
    let mut cells = cells.clone();
    let every = cells.cells.len().div_ceil(MOST).max(1);
    cells.keep(|index| index % every == 0);
    let medians: Vec<f64> =
        cells.cells.iter().map(|cell| median(&mut cell.values.clone())).collect();
    let all = drawn(&cells, &medians, noise, draws);
    let mut parameters = BTreeMap::new();
    let mut rows = vec![Draw::new(); all.len().min(KEPT)];
    for (index, cell) in cells.cells.iter().enumerate() {
        let (name, value) = (format!("at_{}", cell.x[0]), medians[index]);
        let ci95 = bootstrap::interval(&all, index, value);
        let unidentified = ci95.is_none().then(|| "too few trials for an interval".to_owned());
        for (row, draw) in rows.iter_mut().zip(&all) {
            row.insert(name.clone(), rounded(draw[index]));
        }
        parameters.insert(name, Parameter { value, unit: "s".to_owned(), ci95, unidentified });
    }
    let factors = bootstrap::factors(scatter, all.len().max(fit.draws.len()));
    let ci95 = [-1.0, 1.0].map(|side| rounded((side * bootstrap::NORMAL * scatter).exp()));
    let few = cells.cells.len() < 3;
    let factor = Parameter {
        value: 1.0,
        unit: "1".to_owned(),
        ci95: (!few).then_some(ci95),
        unidentified: few.then(|| "a line fits any two sizes exactly".to_owned()),
    };
    parameters.insert(BEYOND.to_owned(), factor);
    rows.resize(rows.len().max(fit.draws.len()), Draw::new());
    for (row, factor) in rows.iter_mut().zip(factors) {
        row.insert(BEYOND.to_owned(), rounded(factor));
    }
    merged(fit, parameters, &rows)
}

/// Returns bootstrap draws of the medians.
fn drawn(cells: &Cells, medians: &[f64], noise: f64, draws: usize) -> Vec<Vec<f64>> {
    // Without equal trials, deviations from neighbours are all that is known.
    let (own, freedom) = match cells.freedom >= 1.0 {
        true => (0.0, bootstrap::freedom(cells, cells.cells.len())),
        false => (noise, cells.cells.len() as f64 - 2.0),
    };
    let moved = |means: &[f64]| {
        let of = cells.cells.iter().zip(medians).zip(means);
        Some(of.map(|((cell, median), mean)| median * mean / cell.mean).collect())
    };
    bootstrap::draws(cells, own, medians, draws, freedom, moved)
}

/// Returns the standard deviation of the logarithm of measured ÷ fitted time over all sizes.
fn scatter(fit: &Fit, cells: &Cells) -> f64 {
    let Some(law) = fit.transport() else { return 0.0 };
    let off = |cell: &super::cell::Cell| {
        let fitted = law.seconds(cell.x[0], 0.0);
        let off = (median(&mut cell.values.clone()) / fitted).ln();
        if off.is_finite() { off * off } else { 0.0 }
    };
    let squares: f64 = cells.cells.iter().map(off).sum();
    (squares / cells.cells.len().max(1) as f64).sqrt()
}

/// Adds parameters and their draws to a fit. Where one of the two has fewer draws, its parameters keep their value.
fn merged(fit: Fit, more: BTreeMap<String, Parameter>, rows: &[Draw]) -> Fit {
    let names: Vec<String> = fit.parameters.keys().cloned().collect();
    let mut all = fit.parameters;
    all.extend(more);
    let count = fit.draws.len().max(rows.len());
    let draw = |index: usize| {
        let own = fit.draws.get(index);
        let value = |(name, parameter): (&String, &Parameter)| {
            let place = names.binary_search(name).ok();
            let of_law = place.and_then(|place| own?.get(place)).copied();
            let of_size = rows.get(index).and_then(|row| row.get(name)).copied();
            of_law.or(of_size).unwrap_or(parameter.value)
        };
        all.iter().map(value).collect()
    };
    let draws = (0..count).map(draw).collect();
    Fit { parameters: all, draws, ..fit }
}
