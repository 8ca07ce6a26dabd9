//! Fits of the time of an averaging, from steps of learners with and without averaging.

use super::profile;
use crate::measurement::Sample;
use forebay_model::random::Generator;
use forebay_scenario::profile::{Fit, Host, Profile, Provenance};
use rand::{RngExt, SeedableRng};

/// Relative spread of equal trials, and seed of their random numbers.
type Noise = (f64, u64);

/// Returns six trials each of two and four learners with batches of 16 and 64, without averaging and with averaging after every
/// `period` steps, which takes `latency` with so many learners.
fn steps(latency: impl Fn(f64) -> f64, period: f64, (noise, seed): Noise) -> Vec<Sample> {
    let mut generator = Generator::seed_from_u64(seed);
    let mut samples = Vec::new();
    for repeat in 0..6 {
        for (batch, learners) in [(16.0, 2.0), (64.0, 2.0), (16.0, 4.0), (64.0, 4.0)] {
            for every in [None, Some(period)] {
                let averaging = every.map_or(0.0, |every| latency(learners) / every);
                let seconds = 1e-4 + 2e-6 * batch + averaging;
                let factor = 1.0 + noise * (2.0 * generator.random::<f64>() - 1.0);
                samples.push(step((batch, learners, every), seconds * factor, repeat));
            }
        }
    }
    samples
}

fn step((batch, learners, every): (f64, f64, Option<f64>), seconds: f64, trial: u32) -> Sample {
    let averaging = every.map(|every| format!("-averaging-{every}")).unwrap_or_default();
    let device = format!("cuda-0-fp32-graph-{learners}-learners{averaging}");
    let labels = [("model", "lenet5"), ("device", &device), ("precision", "fp32")];
    let settings = [("batch", batch), ("learners", learners), ("gpu", 0.0), ("graph", 1.0)];
    let every = every.map(|every| ("average_every", every));
    Sample {
        probe: "step".into(),
        labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        settings: settings.into_iter().chain(every).map(|(n, v)| (n.to_owned(), v)).collect(),
        trial,
        operations: 1,
        seconds,
        core_seconds: 0.0,
        observed: [("memory".to_owned(), 3e8 + 1e6 * batch)].into(),
        excluded: None,
        at: f64::from(trial),
    }
}

fn fitted(samples: &[Sample]) -> Profile {
    profile(samples, Provenance::default(), Host { cores: 2.0, memory: 1e9 })
}

fn latency(samples: &[Sample]) -> Option<Fit> {
    fitted(samples).averaging.remove("lenet5")?.remove("cuda-0-fp32-graph")
}

/// System: averagings of 50 us after every step or every third step; equal trials differ by up to 3 %. Expectation: the value is
/// right to a fifth and its interval contains 50 us; the profile reads back unchanged.
#[test]
fn the_time_of_an_averaging_is_the_time_that_it_adds_to_steps() {
    for (period, noise) in [(1.0, (0.03, 1)), (3.0, (0.01, 2))] {
        let samples = steps(|_| 5e-5, period, noise);
        let fit = latency(&samples).expect("a fit");
        let found = &fit.parameters["latency"];
        let [low, high] = found.ci95.expect("an interval");
        assert!((found.value / 5e-5 - 1.0).abs() < 0.2, "{found:?}");
        assert!(low <= 5e-5 && 5e-5 <= high && found.unidentified.is_none(), "{found:?}");
        assert_eq!((found.unit.as_str(), fit.samples), ("s", 48));
        assert_eq!((fit.range["batch"], fit.range["learners"]), ([16.0, 64.0], [2.0, 4.0]));
        let profile = fitted(&samples);
        assert_eq!(Profile::parse("p.toml", &profile.to_toml()).expect("a profile"), profile);
    }
}

/// System: 100 calibrations of averagings of 50 us. Expectation: the 95 % interval contains 50 us in at least 88 of them.
#[test]
fn intervals_of_the_averaging_time_contain_the_true_value() {
    let held = (0..100).filter(|&seed| {
        let samples = steps(|_| 5e-5, 1.0, (0.03, 100 + seed));
        let refs: Vec<&Sample> = samples.iter().collect();
        let fit = super::averaging::latency(&refs, 120).expect("a fit");
        let [low, high] = fit.parameters["latency"].ci95.expect("an interval");
        low <= 5e-5 && 5e-5 <= high
    });
    assert!(held.count() >= 88);
}

/// System: averagings of 40 us, but one pair of cells in which an averaging seems to take 400 us; then averagings that take 30 us
/// with two learners and 60 us with four. Expectation: the outlier moves the value by less than a tenth; the second spread shows in
/// the interval and the residual.
#[test]
fn one_disturbed_pair_hardly_moves_the_averaging_time() {
    let mut samples = steps(|_| 4e-5, 1.0, (0.002, 3));
    let mut last = |sample: &mut Sample| {
        if sample.label("device").ends_with("4-learners-averaging-1")
            && sample.setting("batch") == 64.0
        {
            sample.seconds += 3.6e-4;
        }
    };
    samples.iter_mut().for_each(&mut last);
    let found = latency(&samples).expect("a fit").parameters["latency"].value;
    assert!((found / 4e-5 - 1.0).abs() < 0.1, "{found}");
    let grows = latency(&steps(|learners| 1.5e-5 * learners, 1.0, (0.002, 4))).expect("a fit");
    let [low, high] = grows.parameters["latency"].ci95.expect("an interval");
    assert!(low < 4e-5 && high > 5e-5 && grows.residual > 0.02, "{grows:?}");
}

/// System: averagings that take 1 us where equal trials differ by up to 20 %, averagings that take no time, and learners that
/// always or never average. Expectation: a reason why the value is not identified, or no fit.
#[test]
fn an_averaging_time_within_the_noise_is_not_identified() {
    let why = |fit: Option<Fit>| fit?.parameters["latency"].unidentified.clone();
    let noisy = why(latency(&steps(|_| 1e-6, 1.0, (0.2, 5)))).expect("a reason");
    assert!(
        ["the interval is wider than the value", "too small to measure"].contains(&noisy.as_str())
    );
    let none = why(latency(&steps(|_| 0.0, 1.0, (0.0, 6)))).expect("a reason");
    assert_eq!(none, "too small to measure");
    for averages in [true, false] {
        let mut samples = steps(|_| 5e-5, 1.0, (0.01, 7));
        samples.retain(|sample| sample.settings.contains_key("average_every") == averages);
        assert_eq!(latency(&samples), None);
    }
}

/// System: the same trials with and without those that average, together with one learner alone. Expectation: the fits of steps
/// without averaging, occupancy and memory are the same.
#[test]
fn trials_with_averaging_leave_other_fits_unchanged() {
    let mut samples = steps(|_| 5e-5, 1.0, (0.01, 8));
    for trial in 0..6 {
        for batch in [16.0, 64.0] {
            let mut alone = step((batch, 1.0, None), 1e-4 + 1e-6 * batch, trial);
            alone.labels.insert("device".to_owned(), "cuda-0-fp32-graph".to_owned());
            samples.push(alone);
        }
    }
    let all = fitted(&samples);
    samples.retain(|sample| !sample.settings.contains_key("average_every"));
    let plain = fitted(&samples);
    assert_eq!((&all.learners, &all.memory), (&plain.learners, &plain.memory));
    assert!(!plain.learners.is_empty() && !plain.memory.is_empty());
    for (device, fit) in &plain.step["lenet5"] {
        assert_eq!(all.step["lenet5"].get(device), Some(fit), "{device}");
    }
}
