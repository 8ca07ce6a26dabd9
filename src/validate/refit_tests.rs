//! Tests that the fit recovers known factors from synthetic rows.

use super::{Explained, Explanation, Factors, Observed, refit};
use crate::random::{Generator, Purpose, Streams};
use rand::RngExt;
use std::convert::Infallible;

/// A job with an unlimited buffer between loader and device, so that the slower of the two determines its rate.
#[derive(Clone, Copy)]
struct Config {
    workers: f64,
    batch: f64,
}

/// Time of a worker for a sample with factor 1 [s]; [`STEP`] is the time of the device for a step.
const SAMPLE: f64 = 4e-3;
const STEP: f64 = 30e-3;

fn simulated(of: Config, factors: Factors) -> Observed {
    let (load, step) = (factors.sample * SAMPLE / of.workers, factors.step * STEP / of.batch);
    let step_time = load.max(step) * of.batch;
    Observed {
        samples_per_second: of.batch / step_time,
        step_time,
        stall: 1.0 - step * of.batch / step_time,
        ..Observed::default()
    }
}

/// Returns the figures as a measurement gives them: with noise of 1 %, and with the stall only if `stalls` is set.
fn measured(of: Config, truth: Factors, stalls: bool, generator: &mut Generator) -> Observed {
    let found = simulated(of, truth);
    let noise = 1.0 + 0.035 * (generator.random::<f64>() - 0.5);
    let stall = if stalls { found.stall } else { f64::NAN };
    let (rate, time) = (found.samples_per_second * noise, found.step_time / noise);
    Observed { samples_per_second: rate, step_time: time, stall, ..found }
}

fn fitted(configs: &[Config], truth: Factors, stalls: bool, seed: u64) -> Explained {
    let mut generator = Streams::new(seed, 0).at(Purpose::Trial, 0, 0, 0);
    let rows: Vec<Observed> =
        configs.iter().map(|of| measured(*of, truth, stalls, &mut generator)).collect();
    let simulate = |factors: &[Factors]| {
        let all = |f: &Factors| configs.iter().map(|of| Some(simulated(*of, *f))).collect();
        Ok::<_, Infallible>(factors.iter().map(all).collect())
    };
    by_step(&rows, simulate)
}

/// Returns the explanation by the step.
fn by_step(
    rows: &[Observed],
    simulate: impl Fn(&[Factors]) -> Result<Vec<Vec<Option<Observed>>>, Infallible>,
) -> Explained {
    let found = refit(rows, &[Explanation::step()], simulate).expect("nothing fails");
    found.expect("rows").best().clone()
}

/// Returns changes of the step and of the worker's time for a sample alone.
fn changed(step: f64, sample: f64) -> Factors {
    Factors { step, sample, ..Factors::default() }
}

fn configs(all: &[(u32, u32)]) -> Vec<Config> {
    let config = |&(workers, batch): &(u32, u32)| Config {
        workers: f64::from(workers),
        batch: f64::from(batch),
    };
    all.iter().map(config).collect()
}

/// Workers and batch of configurations, half of them limited by the loader, half by the device.
const MIXED: [(u32, u32); 6] = [(1, 16), (2, 32), (2, 64), (8, 8), (16, 16), (32, 16)];

#[test]
fn refit_recovers_step_and_sample_time_factors_from_mixed_bottlenecks() {
    for (step, sample) in [(1.0, 1.0), (1.5, 0.7), (0.4, 3.0)] {
        let truth = changed(step, sample);
        let found = fitted(&configs(&MIXED), truth, false, 1);
        for (told, truth) in [(&found.amount, step), (&found.sample, sample)] {
            assert!((told.value / truth - 1.0).abs() < 0.02, "{truth}: {told:?}");
            assert_eq!(told.unidentified, None, "{truth}");
        }
        assert!(found.residual < 0.02, "{}", found.residual);
        // Configurations that the fit has not used.
        for held_out in configs(&[(3, 64), (24, 8)]) {
            let [here, there] = [found.best, truth].map(|f| simulated(held_out, f));
            let error = here.samples_per_second / there.samples_per_second - 1.0;
            assert!(error.abs() < 0.02, "{error}");
        }
    }
}

#[test]
fn refit_confidence_intervals_contain_the_true_factor_in_90_percent_of_fits() {
    let truth = changed(1.3, 0.8);
    let (mut inside, mut widths) = ([0; 2], 0.0);
    const DRAWS: u64 = 40;
    for seed in 0..DRAWS {
        let found = fitted(&configs(&MIXED), truth, false, seed);
        for (k, (told, truth)) in [(&found.amount, 1.3), (&found.sample, 0.8)].iter().enumerate() {
            let [low, high] = told.ci95.expect("an interval");
            inside[k] += u64::from(low <= *truth && *truth <= high);
            widths += (high / low - 1.0) / (2 * DRAWS) as f64;
        }
    }
    assert!(inside.iter().all(|count| *count >= DRAWS * 9 / 10), "{inside:?}");
    assert!(widths < 0.12, "{widths}");
}

#[test]
fn refit_factors_that_no_row_depends_on_are_unchanged_and_reported() {
    let device = configs(&[(16, 8), (32, 16), (64, 8)]);
    let found = fitted(&device, changed(1.5, 1.0), false, 2);
    assert!((found.amount.value / 1.5 - 1.0).abs() < 0.02 && found.amount.unidentified.is_none());
    let why = found.sample.unidentified.expect("a reason");
    assert!(why.contains("no row depends") && (found.sample.value - 1.0).abs() < 0.01, "{why}");
    assert!(found.draws.iter().all(|draw| (draw.sample / found.sample.value - 1.0).abs() < 1e-9));
    let loader = configs(&[(1, 16), (1, 32), (2, 64)]);
    let found = fitted(&loader, changed(1.0, 2.0), false, 3);
    assert!((found.sample.value / 2.0 - 1.0).abs() < 0.03 && found.sample.unidentified.is_none());
    assert!(found.amount.unidentified.is_some_and(|why| why.contains("at most")));
}

#[test]
fn a_single_row_identifies_both_refit_factors_only_if_it_has_a_stall() {
    let one = configs(&[(8, 16)]);
    let truth = changed(1.0, 6.0);
    let found = fitted(&one, truth, false, 4);
    assert!(
        found.amount.unidentified.is_some() && found.sample.unidentified.is_some(),
        "{found:?}"
    );
    let found = fitted(&one, truth, true, 4);
    assert!(found.sample.unidentified.is_none(), "{found:?}");
    assert!((found.sample.value / 6.0 - 1.0).abs() < 0.05, "{found:?}");
    assert!((found.amount.value - 1.0).abs() < 0.05, "{found:?}");
}

#[test]
fn an_outlier_row_hardly_changes_the_refit_factors() {
    let configs = configs(&MIXED);
    let truth = changed(1.5, 0.7);
    let mut rows: Vec<Observed> = configs.iter().map(|of| simulated(*of, truth)).collect();
    rows[0].samples_per_second /= 3.0;
    let simulate = |factors: &[Factors]| {
        let all = |f: &Factors| configs.iter().map(|of| Some(simulated(*of, *f))).collect();
        Ok::<_, Infallible>(factors.iter().map(all).collect())
    };
    let found = by_step(&rows, simulate);
    assert!((found.amount.value / 1.5 - 1.0).abs() < 0.05, "{found:?}");
    assert!((found.sample.value / 0.7 - 1.0).abs() < 0.1, "{found:?}");
}

#[test]
fn a_refit_without_measurement_rows_gives_no_result() {
    let none = |_: &[Factors]| Ok::<_, Infallible>(Vec::new());
    assert_eq!(refit(&[], &[Explanation::step()], none).expect("nothing fails"), None);
}
