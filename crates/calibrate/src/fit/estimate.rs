//! Fits a law to cells: parameters with intervals, and which parameters the data do not identify.

use super::bootstrap;
use super::cell::{Cells, median};
use super::shape::{Piece, Problem, Solution};
use forebay_scenario::profile::{Fit, Parameter};

/// A law in the form that a fit needs.
pub(super) struct Law<'a> {
    /// Sums whose maximum is the law's value.
    pub(super) pieces: &'a [Piece],
    /// The parameters that are computed from the coefficients.
    pub(super) terms: &'a [Term],
    /// Names of the settings.
    pub(super) settings: &'a [&'static str],
}

/// A parameter of a law, and the coefficient from which it is computed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Term {
    /// Name of the parameter.
    pub(super) name: &'static str,
    /// Unit of the parameter.
    pub(super) unit: &'static str,
    /// Index of the coefficient: piece and column.
    pub(super) at: (usize, usize),
    /// Whether the parameter is the reciprocal of the coefficient: a rate, while the coefficient is a time.
    pub(super) rate: bool,
    /// Explanation for the user if no trial's time depends on the parameter; empty if the law always needs the parameter.
    pub(super) unseen: &'static str,
}

/// Significant digits of values: more than any measurement has, but few enough to read.
const DIGITS: i32 = 6;
/// Number of bootstrap draws that are stored in a profile.
pub(super) const KEPT: usize = 40;
/// Largest width of an interval, relative to the value, with which a parameter counts as identified.
const WIDE: f64 = 1.0;

impl Law<'_> {
    /// Fits the law to the cells. `starts` has assignments of cells to pieces (for each cell, the index of the largest piece)
    /// from which the fit starts. Returns `None` if there is no solution, such as without cells.
    pub(super) fn fit(&self, cells: &Cells, starts: &[Vec<usize>], draws: usize) -> Option<Fit> {
        let settings: Vec<&[f64]> = cells.cells.iter().map(|cell| &cell.x[..]).collect();
        let variances = cells.cells.iter().map(|cell| cell.variance).collect();
        let needed = self.terms.iter().any(|term| term.at.0 == 0 && term.unseen.is_empty());
        // Where a law may do without all of these parameters, it may also do without each of them.
        let problem = Problem::new(self.pieces, &settings, variances).first_needed(needed);
        let problem = problem.first_thins(!needed);
        let means = cells.means();
        let (solution, misfit) = problem.best(&means, starts)?;
        let centre = self.coefficients(&solution, None);
        let again = |means: &[f64]| {
            let found = problem.refine(means, &solution.bound, solution.first, misfit)?;
            Some(self.coefficients(&found, Some(&centre)))
        };
        let freedom = bootstrap::freedom(cells, solution.size(self.pieces));
        let all = bootstrap::draws(cells, misfit, &centre, draws, freedom, again);
        let told = |piece: usize| problem.tells_apart(&solution, piece, &means);
        let estimates =
            Estimates { law: self, cells, solution: &solution, centre: &centre, all: &all };
        Some(estimates.fit(told))
    }

    /// Returns the coefficient of each term. If the solution lacks the term's piece, the coefficient is taken from `other`;
    /// without `other` it is 0.
    fn coefficients(&self, solution: &Solution, other: Option<&[f64]>) -> Vec<f64> {
        let value = |(index, term): (usize, &Term)| match &solution.pieces[term.at.0] {
            Some(found) => found[term.at.1],
            None => other.map_or(0.0, |other| other[index]),
        };
        self.terms.iter().enumerate().map(value).collect()
    }
}

/// Results of a fit, before they are converted to parameters.
struct Estimates<'a> {
    law: &'a Law<'a>,
    cells: &'a Cells,
    solution: &'a Solution,
    centre: &'a [f64],
    all: &'a [Vec<f64>],
}

impl Estimates<'_> {
    fn fit(&self, told: impl Fn(usize) -> bool) -> Fit {
        let terms = || self.law.terms.iter().enumerate();
        let parameter =
            |(index, term): (usize, &Term)| (term.name.to_owned(), self.parameter(index, &told));
        let mut columns: Vec<usize> = (0..self.law.terms.len()).collect();
        columns.sort_by_key(|index| self.law.terms[*index].name);
        let drawn = |draw: &Vec<f64>| {
            let value = |index: &usize| self.value(*index, draw[*index]);
            columns.iter().map(value).collect()
        };
        let range =
            |(index, name): (usize, &&str)| Some(((*name).to_owned(), self.cells.range(index)?));
        Fit {
            parameters: terms().map(parameter).collect(),
            samples: self.cells.count() as u64,
            residual: rounded(self.residual()),
            alone: None,
            ratios: Vec::new(),
            range: self.law.settings.iter().enumerate().filter_map(range).collect(),
            draws: self.all.iter().take(KEPT).map(drawn).collect(),
        }
    }

    /// Returns a parameter's value, given its coefficient.
    fn value(&self, index: usize, coefficient: f64) -> f64 {
        let rate = self.law.terms[index].rate;
        match (rate, coefficient) {
            // Such rates are too high to be measured.
            (true, time) if time <= 1e-18 => f64::INFINITY,
            (true, time) => rounded(1.0 / time),
            (false, value) => rounded(value),
        }
    }

    fn parameter(&self, index: usize, told: impl Fn(usize) -> bool) -> Parameter {
        let term = &self.law.terms[index];
        let value = self.value(index, self.centre[index]);
        let unit = term.unit.to_owned();
        if self.solution.pieces[term.at.0].is_none() {
            let unidentified = Some(term.unseen.to_owned());
            return Parameter { value, unit, ci95: None, unidentified };
        }
        if term.at.0 == 0 && self.solution.first & (1 << term.at.1) == 0 {
            let others: Vec<String> =
                self.partners(index).map(|i| format!("`{}`", self.law.terms[i].name)).collect();
            let unidentified = Some(format!(
                "the trials do not need it beside {}: nothing is assumed",
                others.join(" and ")
            ));
            return Parameter { value, unit, ci95: None, unidentified };
        }
        let interval = bootstrap::interval(self.all, index, self.centre[index]);
        let unidentified = if told(term.at.0) {
            self.doubt(index, interval)
        } else {
            Some(self.one_of_several(index))
        };
        let ends = |[low, high]: [f64; 2]| {
            let ends = [self.value(index, low), self.value(index, high)];
            if term.rate { [ends[1], ends[0]] } else { ends }
        };
        let ci95 = interval.map(ends);
        let limited = value.is_finite() && ci95.is_none_or(|ends| ends[1].is_finite());
        let fast = || Some("too fast for the trials to measure".to_owned());
        let unidentified = unidentified.or_else(|| if limited { None } else { fast() });
        Parameter { value, unit, ci95, unidentified }
    }

    /// Returns the indices of the other terms whose coefficients belong to the same piece of the law as term `index`.
    fn partners(&self, index: usize) -> impl Iterator<Item = usize> {
        let piece = self.law.terms[index].at.0;
        (0..self.law.terms.len()).filter(move |i| *i != index && self.law.terms[*i].at.0 == piece)
    }

    fn one_of_several(&self, index: usize) -> String {
        let others: Vec<String> =
            self.partners(index).map(|i| format!("`{}`", self.law.terms[i].name)).collect();
        format!("cannot be told apart from {}: the trials do not vary enough", others.join(" and "))
    }

    /// Returns why the data do not identify the value of a parameter; `None` if they do.
    fn doubt(&self, index: usize, interval: Option<[f64; 2]>) -> Option<String> {
        let value = self.centre[index];
        let Some([low, high]) = interval else {
            return Some("too few trials for an interval".to_owned());
        };
        if high - low <= WIDE * value {
            return None;
        }
        let together = |other: &usize| self.correlation(index, *other) < -0.7;
        Some(match self.partners(index).find(together) {
            Some(other) => format!(
                "cannot be told apart from `{}`: where one is larger, the other is smaller",
                self.law.terms[other].name
            ),
            None if value == 0.0 => "too small to measure".to_owned(),
            None => "the interval is wider than the value".to_owned(),
        })
    }

    /// Returns the correlation of the coefficients of two terms over the bootstrap draws.
    fn correlation(&self, a: usize, b: usize) -> f64 {
        let count = self.all.len() as f64;
        let mean = |i: usize| self.all.iter().map(|draw| draw[i]).sum::<f64>() / count;
        let (mean_a, mean_b) = (mean(a), mean(b));
        let product = |i: usize, j: usize| {
            let mean = |k: usize| if k == a { mean_a } else { mean_b };
            self.all.iter().map(|d| (d[i] - mean(i)) * (d[j] - mean(j))).sum::<f64>()
        };
        product(a, b) / (product(a, a) * product(b, b)).sqrt().max(f64::MIN_POSITIVE)
    }

    /// Returns the median of |measured − fitted| ÷ measured over all trials.
    fn residual(&self) -> f64 {
        let of_cell = |(index, cell): (usize, &super::cell::Cell)| {
            let fitted = self.solution.fitted(index, cell.mean);
            cell.values.iter().map(move |value| (1.0 - fitted / value).abs()).collect::<Vec<_>>()
        };
        median(&mut self.cells.cells.iter().enumerate().flat_map(of_cell).collect::<Vec<_>>())
    }
}

/// Rounds a value to six significant digits, so that a profile is easy to read and reads back exactly.
pub(super) fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let decimals = DIGITS as usize - 1;
    format!("{value:.decimals$e}").parse().unwrap_or(value)
}
