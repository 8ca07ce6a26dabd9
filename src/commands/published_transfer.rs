//! `forebay published --table transfer`: predicts each model from the other models of its transport.

use super::published::{cells, table};
use crate::published::{LeftOut, LeftOutResult, Rates};
use crate::report::format::share;
use crate::stats::mean;
use serde_json::json;

/// Predictions of a result of a model that was left out, of which errors are printed.
type Prediction = fn(&LeftOutResult<'_>) -> f64;
const CHOSEN: Prediction = |of| of.predicted;
const FITTED: Prediction = |of| of.fitted;
const NOMINAL: Prediction = |of| of.nominal;

/// Returns the mean of the absolute relative errors of some predictions.
fn error<'r, 'p: 'r>(
    all: impl Iterator<Item = &'r LeftOutResult<'p>>,
    predicted: Prediction,
) -> f64 {
    let errors = all.map(|of| (predicted(of) / of.result.measured - 1.0).abs());
    mean(&errors.collect::<Vec<_>>()).unwrap_or(f64::NAN)
}

fn is_inside(of: &LeftOutResult<'_>) -> bool {
    let [low, high] = of.interval90;
    (low..=high).contains(&of.result.measured)
}

pub(super) fn word(rates: Rates) -> &'static str {
    match rates {
        Rates::Fitted => "fitted",
        Rates::Nominal => "nominal",
    }
}

pub(super) fn text(all: &[LeftOut<'_>]) -> String {
    let mut rows = table(&[
        "site and transport",
        "left out",
        "results",
        "rates",
        "error",
        "if fitted",
        "if nominal",
        "inside",
    ]);
    for of in all {
        let inside = of.results.iter().filter(|one| is_inside(one)).count();
        rows.add_row(cells(&[
            format!("{} {}", of.site, of.transport),
            of.model.to_owned(),
            of.results.len().to_string(),
            word(of.among_others.better).to_owned(),
            share(error(of.results.iter(), CHOSEN)),
            share(error(of.results.iter(), FITTED)),
            share(error(of.results.iter(), NOMINAL)),
            inside.to_string(),
        ]));
    }
    let results = || all.iter().flat_map(|of| &of.results);
    let inside: Vec<f64> = results().map(|of| f64::from(u8::from(is_inside(of)))).collect();
    let together = match mean(&inside) {
        Some(inside) => format!(
            "All {} results: mean error {}; {} with fitted rates throughout, {} with nominal ones. {} lie in their 90 % intervals.\n",
            results().count(),
            share(error(results(), CHOSEN)),
            share(error(results(), FITTED)),
            share(error(results(), NOMINAL)),
            share(inside),
        ),
        None => "No transport has results of three models at one site.\n".to_owned(),
    };
    format!(
        "{rows}\n\n\
         Each model is predicted from the other models of its transport, wherever a site has three; marks of `fit` do not count.\n\
         rates       that predict each of the other models better, which is left out in turn as well\n\
         error       mean absolute error with these rates, with rates fitted to all other models, with those of the links\n\
         inside      results in their 90 % interval\n\n{together}"
    )
}

pub(super) fn as_json(all: &[LeftOut<'_>]) -> serde_json::Value {
    let result = |of: &LeftOutResult<'_>| {
        json!({
            "series": of.result.series, "gpus": of.result.gpus, "unit": of.result.quantity.unit(),
            "measured": of.result.measured, "predicted": of.predicted, "fitted": of.fitted, "nominal": of.nominal,
            "interval90": of.interval90,
        })
    };
    let left_out = |of: &LeftOut<'_>| {
        let among = &of.among_others;
        json!({
            "site": of.site, "transport": of.transport, "model": of.model, "rates": word(among.better),
            "mean_error": error(of.results.iter(), CHOSEN), "mean_error_if_fitted": error(of.results.iter(), FITTED),
            "mean_error_if_nominal": error(of.results.iter(), NOMINAL),
            "among_others": {
                "models": among.models, "root_mean_square_log_if_fitted": among.fitted.sqrt(),
                "root_mean_square_log_if_nominal": among.nominal.sqrt(),
            },
            "results": of.results.iter().map(result).collect::<Vec<_>>(),
        })
    };
    json!({ "left_out": all.iter().map(left_out).collect::<Vec<_>>() })
}
