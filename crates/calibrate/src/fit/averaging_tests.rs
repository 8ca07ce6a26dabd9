//! Fits of the time of an averaging, from steps of learners with and without averaging.

use super::profile;
use crate::measurement::Sample;
use forebay_model::random::Generator;
use forebay_scenario::profile::{Fit, Host, Profile, Provenance};
use rand::{RngExt, SeedableRng};

/// Relative spread of equal trials, and seed of their random numbers.
type Noise = (f64, u64);

/// Returns six trials each of two and four learners with batches of 16 and 64, without averaging and with averaging after every
/// `period` steps, which takes `each` for each learner with batches of this size.
fn steps(each: impl Fn(f64) -> f64, period: f64, (noise, seed): Noise) -> Vec<Sample> {
    let mut generator = Generator::seed_from_u64(seed);
    let mut samples = Vec::new();
    for repeat in 0..6 {
        for (batch, learners) in [(16.0, 2.0), (64.0, 2.0), (16.0, 4.0), (64.0, 4.0)] {
            for every in [None, Some(period)] {
                let averaging = every.map_or(0.0, |every| learners * each(batch) / every);
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
        beside: None,
        excluded: None,
        at: f64::from(trial),
    }
}

fn fitted(samples: &[Sample]) -> Profile {
    profile(samples, Provenance::default(), Host { cores: 2.0, memory: 1e9 })
}

fn averaging(samples: &[Sample]) -> Option<Fit> {
    fitted(samples).averaging.remove("lenet5")?.remove("cuda-0-fp32-graph")
}

/// System: averagings that take 12 us and 0.2 us per sample for each learner, after every step or every third step; equal trials
/// differ by up to 3 %. Expectation: intervals contain both values, and the time with a batch of 32 is right to a fifth; the
/// profile reads back unchanged.
#[test]
fn the_time_of_an_averaging_is_the_time_that_it_adds_to_steps() {
    for (period, noise) in [(1.0, (0.03, 11)), (3.0, (0.01, 12))] {
        let samples = steps(|batch| 1.2e-5 + 2e-7 * batch, period, noise);
        let fit = averaging(&samples).expect("a fit");
        for (name, truth) in [("fixed", 1.2e-5), ("per_sample", 2e-7)] {
            let found = &fit.parameters[name];
            let [low, high] = found.ci95.expect("an interval");
            assert!(low <= truth && truth <= high && found.unit == "s", "{found:?}");
        }
        let found = fit.step().expect("a law").seconds(32.0);
        assert!((found / 1.84e-5 - 1.0).abs() < 0.2, "{found}");
        assert_eq!(fit.samples, 48);
        assert_eq!((fit.range["batch"], fit.range["learners"]), ([16.0, 64.0], [2.0, 4.0]));
        let profile = fitted(&samples);
        assert_eq!(Profile::parse("p.toml", &profile.to_toml()).expect("a profile"), profile);
    }
}

/// System: 100 calibrations of averagings that take 12 us and 0.2 us per sample for each learner. Expectation: the 95 % interval
/// contains both in at least 88 of them.
#[test]
fn intervals_of_the_averaging_time_contain_the_true_values() {
    let mut held = [0, 0];
    for seed in 0..100 {
        let samples = steps(|batch| 1.2e-5 + 2e-7 * batch, 1.0, (0.03, 100 + seed));
        let refs: Vec<&Sample> = samples.iter().collect();
        let fit = super::learners::averaging(&refs, 120).expect("a fit");
        for (held, (name, truth)) in held.iter_mut().zip([("fixed", 1.2e-5), ("per_sample", 2e-7)])
        {
            let [low, high] = fit.parameters[name].ci95.expect("an interval");
            *held += usize::from(low <= truth && truth <= high);
        }
    }
    assert!(held.iter().all(|held| *held >= 88), "{held:?}");
}

/// System: averagings of 12 us for each learner, but one pair of cells in which an averaging seems to take 360 us more.
/// Expectation: the outlier moves the time with either batch by less than a tenth.
#[test]
fn one_disturbed_pair_hardly_moves_the_averaging_time() {
    let mut samples = steps(|_| 1.2e-5, 1.0, (0.002, 3));
    let mut last = |sample: &mut Sample| {
        if sample.label("device").ends_with("4-learners-averaging-1")
            && sample.setting("batch") == 64.0
        {
            sample.seconds += 3.6e-4;
        }
    };
    samples.iter_mut().for_each(&mut last);
    let law = averaging(&samples).expect("a fit").step().expect("a law");
    let found = law.seconds(16.0);
    assert!((found / 1.2e-5 - 1.0).abs() < 0.1, "{law:?}");
}

/// System: averagings that take 0.3 us where equal trials differ by up to 50 %, averagings that take no time, averagings with one
/// batch, and learners that always or never average. Expectation: a reason why the values are not identified; no time is identified;
/// with one batch the time does not depend on the batch; no fit.
#[test]
fn an_averaging_time_within_the_noise_is_not_identified() {
    let noisy = averaging(&steps(|_| 3e-7, 1.0, (0.5, 5))).expect("a fit");
    assert!(noisy.parameters.values().all(|of| of.unidentified.is_some()), "{noisy:?}");
    let none = averaging(&steps(|_| 0.0, 1.0, (0.0, 6))).expect("a fit");
    assert!(none.parameters.values().all(|of| of.value == 0.0 && of.unidentified.is_none()));
    let mut one = steps(|_| 1.2e-5, 1.0, (0.002, 9));
    one.retain(|sample| sample.setting("batch") == 16.0);
    let law = averaging(&one).expect("a fit");
    assert!(law.parameters["fixed"].unidentified.is_none(), "{law:?}");
    assert!((law.value("fixed").expect("a time") / 1.2e-5 - 1.0).abs() < 0.1, "{law:?}");
    assert_eq!(law.value("per_sample"), Some(0.0));
    for averages in [true, false] {
        let mut samples = steps(|_| 1.2e-5, 1.0, (0.01, 7));
        samples.retain(|sample| sample.settings.contains_key("average_every") == averages);
        assert_eq!(averaging(&samples), None);
    }
}

/// System: the same trials with and without those that average, together with one learner alone. Expectation: the fits of steps
/// without averaging, occupancy and memory are the same.
#[test]
fn trials_with_averaging_leave_other_fits_unchanged() {
    let mut samples = steps(|_| 1.2e-5, 1.0, (0.01, 8));
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
