//! How far predictions are off, from what the results of a file show, and the intervals that follow.

use super::fit::{Fitted, Group, Rates};
use super::predict::{Compared, known};
use super::transfer::{Transfer, Transfers};
use super::{Published, PublishedResult, Role};
use crate::stats::{mean, student_quantile};
use std::collections::BTreeMap;

/// How far predictions of a kind are off, as the logarithm of prediction over measurement.
///
/// - A model that the fit used: the fit's own results, sum of squares over degrees of freedom. From a fit with as many costs as
///   results, the same over all other fits.
/// - A model that the fit did not use: the sum of that square and of the square of the transfer error.
/// - A model that is predicted at nominal rates: the square of the transfer error of nominal rates.
///
/// The transfer error is [`Transferred`]. No result contributes to its own spread unless the fit used it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Mean square.
    pub square: f64,
    /// Degrees of freedom of the mean square: number of models that were left out, or of results beyond the fitted costs.
    pub freedom: f64,
}

/// Error of predictions of models without their own results.
///
/// It is taken from the other models of the transport at the site, each predicted without its own results and without those of the
/// model that is to be predicted. A transport with fewer than three models has none of its own: then it is the mean square of
/// those of other transports, of transports that span nodes for a transport that does, else of transports within a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transferred {
    /// Mean square, and number of models that were left out.
    pub spread: Spread,
    /// Whether it is taken from other transports.
    pub pooled: bool,
}

impl Spread {
    /// Returns the root of the mean square.
    #[must_use]
    pub fn root(&self) -> f64 {
        self.square.sqrt()
    }

    /// Returns the interval in which nine of ten measurements should lie: the factor is `exp(t · root)`, with Student's
    /// 95 % quantile `t` at the degrees of freedom.
    #[must_use]
    pub fn interval90(&self, predicted: f64) -> [f64; 2] {
        let t = student_quantile(0.95, self.freedom).unwrap_or(f64::INFINITY);
        let factor = (t * self.root()).exp();
        [predicted / factor, predicted * factor]
    }

    /// Returns the mean of squares whose sum is `squares`; `None` without degrees of freedom.
    pub(super) fn mean(squares: f64, freedom: usize) -> Option<Spread> {
        let freedom = (freedom > 0).then_some(freedom as f64)?;
        Some(Spread { square: squares / freedom, freedom })
    }

    /// Returns the spread of `other` in addition to this one, with the degrees of freedom of this one.
    pub(super) fn and(self, other: Option<Spread>) -> Spread {
        Spread { square: self.square + other.map_or(0.0, |other| other.square), ..self }
    }
}

/// Returns how far the prediction of `result` may be off; `None` if nothing in the file shows it.
pub(super) fn spread(
    published: &Published,
    result: &PublishedResult,
    fitted: &Fitted,
    transfers: &Transfers,
) -> Option<Spread> {
    let group = published.group(result);
    let spans = published.spans_nodes(result);
    let transferred = |rates| transferred(&group, spans, Some(&result.model), rates, transfers);
    match known(published, result, fitted).filter(|fit| fit.serves(&result.model)) {
        Some(fit) if fit.models.contains(&result.model) => residual(&group, fitted),
        Some(_) => Some(transferred(Rates::Fitted)?.spread.and(residual(&group, fitted))),
        None => Some(transferred(Rates::Nominal)?.spread),
    }
}

/// Returns how far the fit of `group` is off its own results; from all other fits if it has as many costs as results.
#[must_use]
pub fn residual(group: &Group, fitted: &Fitted) -> Option<Spread> {
    let own = fitted.get(group).and_then(|fit| Spread::mean(fit.squares, fit.freedom));
    own.or_else(|| {
        let others = || fitted.values().filter(|fit| fit.freedom > 0);
        let squares = others().map(|fit| fit.squares).sum();
        Spread::mean(squares, others().map(|fit| fit.freedom).sum())
    })
}

/// Returns the transfer error at `rates` of the transport `group`; without influence of the results of `model`, if one is given. `spans`
/// says whether it is of runs that span nodes.
#[must_use]
pub fn transferred(
    group: &Group,
    spans: bool,
    model: Option<&str>,
    rates: Rates,
    transfers: &Transfers,
) -> Option<Transferred> {
    let of = |one: &Transfer| {
        let own = model.and_then(|model| one.without.get(model));
        let errors: Vec<_> = own.map_or_else(|| one.without.values().collect(), |own| vec![own]);
        let square = mean(&errors.iter().map(|of| of.square(rates)).collect::<Vec<_>>())?;
        Some(Spread { square, freedom: errors.first()?.models as f64 })
    };
    if let Some(own) = transfers.get(group) {
        return Some(Transferred { spread: of(own)?, pooled: false });
    }
    let alike = |one: &&Transfer| one.spans_nodes == spans;
    let some = transfers.values().any(|one| alike(&one));
    let all: Vec<Spread> =
        transfers.values().filter(|one| !some || alike(one)).filter_map(of).collect();
    let square = mean(&all.iter().map(|of| of.square).collect::<Vec<_>>())?;
    let freedom = all.iter().map(|of| of.freedom).sum();
    Some(Transferred { spread: Spread { square, freedom }, pooled: true })
}

/// Which share of held-out results lie in their 90 % intervals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coverage {
    /// Number of results that have an interval.
    pub results: usize,
    /// Share of the results that lie inside.
    pub of_results: f64,
    /// Number of sources of these results.
    pub sources: usize,
    /// The same share where each source counts once.
    pub of_sources: f64,
}

/// Returns which share of the held-out results lie in their intervals; `None` if none has one.
#[must_use]
pub fn coverage(compared: &[Compared<'_>]) -> Option<Coverage> {
    let judges = |one: &&Compared<'_>| one.result.role() == Role::HeldOut && one.result.verified;
    let held_out = compared.iter().filter(judges);
    Coverage::of(held_out.filter_map(|one| Some((one.result.source.as_str(), one.is_inside()?))))
}

impl Coverage {
    /// Returns the coverage of results, each with its source and whether it lies inside; `None` without any.
    #[must_use]
    pub fn of<'s>(results: impl Iterator<Item = (&'s str, bool)>) -> Option<Coverage> {
        let mut sources: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (source, inside) in results {
            sources.entry(source).or_default().push(f64::from(u8::from(inside)));
        }
        let all: Vec<f64> = sources.values().flatten().copied().collect();
        let each: Vec<f64> = sources.values().filter_map(|of| mean(of)).collect();
        Some(Coverage {
            results: all.len(),
            of_results: mean(&all)?,
            sources: each.len(),
            of_sources: mean(&each)?,
        })
    }
}
