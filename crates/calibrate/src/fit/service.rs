//! Fits the order in which a storage serves requests of different size, from the rates of one reader of small requests beside several of
//! large ones.

use super::bootstrap;
use super::estimate::rounded;
use super::others::plain;
use crate::measurement::Sample;
use forebay_engine::stats::mean;
use forebay_model::law::MixedReaders;
use forebay_scenario::profile::{Fit, SERVED_ALL};
use std::collections::BTreeMap;

/// Share of the highest throughput from which on the readers fill the storage.
const FULL: f64 = 0.9;
/// Smallest number of cells with a full storage.
const FEWEST: usize = 2;
/// A small request that waits for others takes longer the more readers there are. Below this power of their number, it waits mostly for a
/// latency.
const GROWTH: f64 = 0.5;
/// Root mean square error of a ratio above which no order explains the ratios [relative].
const UNLIKE: f64 = 0.5;

/// A trial.
#[derive(Debug, Clone, Copy)]
struct Mix {
    readers: MixedReaders,
    /// Small requests per second of the small reader [1/s].
    small: f64,
    /// Bytes per second of all readers [B/s].
    bytes: f64,
    /// Logarithm of the small reader's requests ÷ those of one large reader.
    ratio: f64,
}

impl Mix {
    fn new(sample: &Sample) -> Option<Mix> {
        let [small, large] = ["small", "large"].map(|name| sample.observed.get(name).copied());
        let (small, large) = (small?, large?);
        let [size, beside, readers] = ["size", "large", "readers"].map(|key| sample.setting(key));
        let ratio = (small / (large / readers)).ln();
        let known =
            ratio.is_finite() && size > 0.0 && size < beside && (1.0..1e4).contains(&readers);
        known.then_some(Mix {
            readers: MixedReaders { large: readers as u32, size: size / beside },
            small,
            bytes: small * size + large * beside,
            ratio,
        })
    }
}

/// Trials with the same number of large readers.
#[derive(Debug)]
struct Mixes {
    trials: Vec<Mix>,
    /// Mean logarithm of the ratio.
    ratio: f64,
    /// For each number of requests in service, from one on, the logarithm of the ratio that the law says.
    laws: Vec<f64>,
}

impl Mixes {
    fn new(trials: Vec<Mix>) -> Mixes {
        let law = |at_once| trials[0].readers.small_per_large(at_once).ln();
        let laws = (1..=trials[0].readers.large + 1).map(law).collect();
        let ratio = mean_of(&trials, |mix| mix.ratio);
        Mixes { trials, ratio, laws }
    }

    fn law(&self, at_once: usize) -> f64 {
        self.laws[at_once.min(self.laws.len()) - 1]
    }
}

fn mean_of(trials: &[Mix], of: impl Fn(&Mix) -> f64) -> f64 {
    mean(&trials.iter().map(of).collect::<Vec<_>>()).unwrap_or(f64::NAN)
}

/// Fits the number of requests that are served at once, in order of arrival; [`SERVED_ALL`] if nobody waits. `None` without trials.
pub(super) fn service(samples: &[&Sample], draws: usize) -> Option<Fit> {
    let mut groups: BTreeMap<u32, Vec<Mix>> = BTreeMap::new();
    for mix in samples.iter().filter_map(|sample| Mix::new(sample)) {
        groups.entry(mix.readers.large).or_default().push(mix);
    }
    let all: Vec<Mixes> = groups.into_values().map(Mixes::new).collect();
    if all.is_empty() {
        return None;
    }
    let filled = filled(&all);
    let doubt = doubt(filled.as_deref());
    let cells = filled.unwrap_or_else(|| all.iter().collect());
    let ratios: Vec<f64> = cells.iter().map(|cell| cell.ratio).collect();
    let (value, error) = best(&cells, &ratios);
    let mut fit =
        plain(&["in_flight".to_owned()], "requests", &[value], &drawn(&cells, value, draws));
    fit.samples = all.iter().map(|cell| cell.trials.len() as u64).sum();
    fit.residual = rounded(error);
    let unlike = format!(
        "no order of service explains the rates: the nearest is off by {:.0} %",
        100.0 * error
    );
    let parameter = fit.parameters.get_mut("in_flight")?;
    let doubt = doubt.map(str::to_owned).or((error > UNLIKE).then_some(unlike));
    parameter.unidentified = doubt.or(parameter.unidentified.take());
    Some(fit)
}

/// Returns why the rates do not tell the order of service, if they do not; `filled` are the cells whose readers fill the storage.
fn doubt(filled: Option<&[&Mixes]>) -> Option<&'static str> {
    match filled {
        None => Some(
            "the readers do not fill the storage; write more `readers` or larger requests in the plan's [service]",
        ),
        Some(cells) if wait_for_latency(cells) => Some(
            "small requests wait for their latency rather than for others; write a larger `small` in the plan's [service]",
        ),
        Some(_) => None,
    }
}

/// Returns bootstrap draws of the number of requests in service, which is fitted as `value`. Each draw moves every trial by the scatter of
/// one, and every cell by the error of the law at one.
fn drawn(cells: &[&Mixes], value: f64, draws: usize) -> Vec<Vec<f64>> {
    let scatter = |cell: &&Mixes| {
        let mean = cell.ratio;
        cell.trials.iter().map(move |mix| mix.ratio - mean).collect::<Vec<_>>()
    };
    let scatter: Vec<f64> = cells.iter().flat_map(scatter).collect();
    let errors: Vec<f64> = cells.iter().map(|cell| cell.ratio - cell.law(value as usize)).collect();
    let most = cells.iter().map(|cell| cell.trials.len()).max().unwrap_or(0);
    let scatter = bootstrap::moved(&scatter, most * cells.len(), draws);
    let errors = bootstrap::moved(&errors, cells.len(), draws);
    let draw = |(scatter, errors): (&Vec<f64>, &Vec<f64>)| {
        let of = cells.iter().zip(scatter.chunks(most)).zip(errors);
        let ratio = |((cell, scatter), error): ((&&Mixes, &[f64]), &f64)| {
            cell.ratio + mean(&scatter[..cell.trials.len()]).unwrap_or(0.0) + error
        };
        vec![best(cells, &of.map(ratio).collect::<Vec<_>>()).0]
    };
    scatter.iter().zip(&errors).map(draw).collect()
}

/// Returns the number of requests served at once that explains the cells' ratios best, and the root mean square error of their logarithms.
/// If that is the number of all readers, no request waits, and the number is [`SERVED_ALL`].
fn best(cells: &[&Mixes], ratios: &[f64]) -> (f64, f64) {
    let most = cells.iter().map(|cell| cell.laws.len()).max().unwrap_or(1);
    let error = |at_once: usize| {
        let square = |(cell, ratio): (&&Mixes, &f64)| (ratio - cell.law(at_once)).powi(2);
        cells.iter().zip(ratios).map(square).sum::<f64>()
    };
    let best = (1..=most).min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap_or(most);
    let value = if best == most { SERVED_ALL } else { best as f64 };
    (value, (error(best) / cells.len() as f64).sqrt())
}

/// Returns the cells whose readers fill the storage; `None` if these are too few.
fn filled(cells: &[Mixes]) -> Option<Vec<&Mixes>> {
    let bytes = |cell: &Mixes| mean_of(&cell.trials, |mix| mix.bytes);
    let most = cells.iter().map(bytes).fold(0.0, f64::max);
    let full: Vec<&Mixes> = cells.iter().filter(|cell| bytes(cell) >= FULL * most).collect();
    (full.len() >= FEWEST).then_some(full)
}

/// Returns whether small requests take hardly longer beside more readers.
fn wait_for_latency(cells: &[&Mixes]) -> bool {
    let [first, .., last] = cells else { return false };
    let seconds = |cell: &Mixes| 1.0 / mean_of(&cell.trials, |mix| mix.small);
    let readers = |cell: &Mixes| f64::from(cell.trials[0].readers.large + 1);
    (seconds(last) / seconds(first)).ln() < GROWTH * (readers(last) / readers(first)).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [f64; 2] = [32.0 * 1024.0, 400.0 * 1024.0];

    /// Four trials with one, three and six large readers, at 44 MB/s, with so many requests in service and a latency, and noise.
    fn samples(at_once: u32, latency: f64, noise: f64) -> Vec<Sample> {
        let mut all = Vec::new();
        for large in [1_u32, 3, 6] {
            let ratio = MixedReaders { large, size: SIZES[0] / SIZES[1] }.small_per_large(at_once);
            let n = f64::from(large);
            // A large reader's rate, from the bandwidth.
            let each = 44e6 / (ratio * SIZES[0] + n * SIZES[1]);
            let small = 1.0 / (1.0 / (ratio * each) + latency);
            for trial in 0..4_u32 {
                let off = 1.0 + noise * f64::from((trial * 7 + large * 3) % 5 * 2) / 4.0 - noise;
                let observed = [("small", small * off), ("large", n * each)];
                let settings = [("size", SIZES[0]), ("large", SIZES[1]), ("readers", n)];
                all.push(Sample {
                    probe: "service".to_owned(),
                    labels: [("access".to_owned(), "direct".to_owned())].into(),
                    settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
                    trial,
                    operations: 1,
                    seconds: 1.0 / small,
                    core_seconds: 0.0,
                    observed: observed.map(|(name, value)| (name.to_owned(), value)).into(),
                    beside: None,
                    excluded: None,
                    at: f64::from(trial),
                });
            }
        }
        all
    }

    fn fitted(samples: &[Sample]) -> Fit {
        service(&samples.iter().collect::<Vec<_>>(), 200).expect("a fit")
    }

    #[test]
    fn the_number_of_requests_in_service_is_found_with_an_interval() {
        // System: storages that serve one to four requests at once, or all; rates that scatter by 10 %. Expectation: these numbers, in
        // intervals that hold nothing twice as large, and no doubt.
        for (at_once, value) in [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (64, SERVED_ALL)] {
            let fit = fitted(&samples(at_once, 0.0, 0.1));
            let found = &fit.parameters["in_flight"];
            assert_eq!((found.value, &found.unidentified), (value, &None), "{at_once}");
            let [low, high] = found.ci95.expect("an interval");
            assert!(low <= value && value <= high && high < 2.0 * low, "{at_once}: {found:?}");
            assert_eq!(fit.samples, 12);
        }
    }

    #[test]
    fn rates_that_do_not_tell_the_order_of_service_are_said_to_be_so() {
        let doubt = |samples: &[Sample]| {
            fitted(samples).parameters["in_flight"].unidentified.clone().expect("a doubt")
        };
        // A latency of 200 ms hides up to 65 ms of waiting.
        assert!(doubt(&samples(1, 0.2, 0.0)).contains("wait for their latency"));
        // Throughput that grows with the number of readers.
        let mut free = samples(1, 0.0, 0.0);
        for sample in &mut free {
            let faster = sample.settings["readers"];
            sample.observed.values_mut().for_each(|rate| *rate *= faster);
        }
        assert!(doubt(&free).contains("do not fill the storage"));
        // Small requests that come more seldom than large ones.
        let mut odd = samples(1, 0.0, 0.0);
        odd.iter_mut().for_each(|sample| *sample.observed.get_mut("small").expect("there") *= 0.2);
        assert!(doubt(&odd).contains("no order of service explains"));
        assert_eq!(service(&[], 200), None);
    }
}
