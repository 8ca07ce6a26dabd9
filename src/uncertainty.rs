//! Predictions as intervals. Each run is simulated with parameters sampled from the uncertainty of the measurements. Its step
//! time is then varied at random, as much as repeated runs on the machine differed.
//!
//! The parameters of one law are sampled together, as one of the law's bootstrap draws: their errors are correlated, and the
//! intervals of single parameters do not show this correlation. Different laws are sampled independently.

use crate::profile::{Fit, Profile};
use crate::random::{Purpose, Sampler, Streams};
use crate::scenario::Distribution;
use std::collections::BTreeMap;

/// Returns the profile with every law's parameters sampled for run number `run`. The same seed and number give the same
/// parameters.
#[must_use]
pub fn drawn(profile: &Profile, seed: u64, run: u32) -> Profile {
    let streams = Streams::new(seed, run);
    let mut law = 0;
    let mut draw = |fit: &Fit| {
        law += 1;
        let draws = fit.draws.len();
        let place = Sampler::new(&Distribution::Uniform { low: 0.0, high: draws as f64 });
        let place = place.draw(&mut streams.at(Purpose::Parameters, law, 0, 0));
        // `place` is rounded down to the index of a draw. Run-to-run noise is no parameter of a single run, so it is not
        // sampled.
        fit.drawn((place as usize).min(draws.saturating_sub(1)))
    };
    let mut drawn = profile.clone();
    let mut all = |fits: &mut BTreeMap<String, Fit>| {
        fits.values_mut().for_each(|fit| *fit = draw(fit));
    };
    all(&mut drawn.read);
    all(&mut drawn.decode);
    all(&mut drawn.cache);
    drawn.step.values_mut().for_each(&mut all);
    for fit in [&mut drawn.queue, &mut drawn.cores].into_iter().flatten() {
        *fit = draw(fit);
    }
    let transports = drawn.transport.values_mut().flat_map(BTreeMap::values_mut);
    transports.for_each(|fit| *fit = draw(fit));
    let gpus = [&mut drawn.learners, &mut drawn.averaging, &mut drawn.copy, &mut drawn.loader];
    let gpus = gpus.into_iter().flat_map(BTreeMap::values_mut);
    gpus.flat_map(BTreeMap::values_mut).for_each(|fit| *fit = draw(fit));
    let storages = [
        &mut drawn.burst,
        &mut drawn.gate,
        &mut drawn.service,
        &mut drawn.storage,
        &mut drawn.network,
    ];
    let storages = storages.into_iter().flat_map(BTreeMap::values_mut);
    storages.for_each(|fit| *fit = draw(fit));
    drawn
}

/// Returns the ratio of the step time in run number `run`, which lasts for `seconds`, to the simulated step time: lognormal with
/// median 1, with the spread of repeated runs on the machine.
#[must_use]
pub fn slowdown(profile: &Profile, seed: u64, run: u32, seconds: f64) -> f64 {
    let sigma = spread(profile, seconds).clamp(0.0, 1.0);
    if sigma == 0.0 {
        return 1.0;
    }
    let factor = Sampler::new(&Distribution::Lognormal { mu: 0.0, sigma });
    factor.draw(&mut Streams::new(seed, run).at(Purpose::Noise, 0, 0, 0))
}

/// Returns the relative standard deviation of repeated runs that last for `seconds`. What distinguishes trials that follow each
/// other averages out over a run; the drift of the machine stays.
#[must_use]
pub fn spread(profile: &Profile, seconds: f64) -> f64 {
    let value = |name| profile.noise.as_ref().and_then(|fit| fit.value(name)).unwrap_or(0.0);
    let trials = if seconds > 0.0 { value("trial_length") / seconds } else { 1.0 };
    value("run_to_run").hypot(value("trial") * trials.min(1.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Parameter;

    fn profile(draws: &[f64], noise: f64) -> Profile {
        let of = |name: &str, value: f64, draws: &[f64]| Fit {
            parameters: [(name.to_owned(), Parameter { value, ..Parameter::default() })].into(),
            draws: draws.iter().map(|draw| vec![*draw]).collect(),
            ..Fit::default()
        };
        Profile {
            queue: Some(of("per_item", 1.0, draws)),
            cores: Some(of("speed_2", 1.0, draws)),
            noise: Some(of("run_to_run", noise, &[])),
            ..Profile::default()
        }
    }

    fn values(profile: &Profile) -> [Option<f64>; 2] {
        let value = |fit: &Option<Fit>, name| fit.as_ref().and_then(|fit| fit.value(name));
        [value(&profile.queue, "per_item"), value(&profile.cores, "speed_2")]
    }

    #[test]
    fn parameters_of_different_fits_are_sampled_independently_and_reproducibly() {
        // System: two laws with the draws 1, 2, 3. Expectation: all nine pairs occur, and sampling the same run again gives the
        // same pair.
        let profile = profile(&[1.0, 2.0, 3.0], 0.1);
        let mut seen = std::collections::BTreeSet::new();
        for run in 0..200 {
            let one = values(&drawn(&profile, 7, run));
            assert_eq!(one, values(&drawn(&profile, 7, run)));
            seen.insert(one.map(|value| value.expect("a parameter") as u64));
        }
        assert_eq!(seen.len(), 9);
    }

    #[test]
    fn fits_of_learners_and_of_their_averaging_are_sampled() {
        let plain = profile(&[1.0, 2.0, 3.0], 0.1);
        let fit = plain.queue.clone().expect("a fit");
        let fits = || [("lenet5".to_owned(), [("cuda-0".to_owned(), fit.clone())].into())].into();
        let with = Profile { learners: fits(), averaging: fits(), ..plain };
        let mut seen = [(); 2].map(|()| std::collections::BTreeSet::new());
        for run in 0..50 {
            let one = drawn(&with, 7, run);
            for (seen, fits) in seen.iter_mut().zip([&one.learners, &one.averaging]) {
                seen.insert(fits["lenet5"]["cuda-0"].value("per_item").expect("a value") as u64);
            }
        }
        assert!(seen.iter().all(|seen| seen.len() == 3), "{seen:?}");
    }

    #[test]
    fn sampling_transport_fits_does_not_change_the_samples_of_other_fits() {
        let plain = profile(&[1.0, 2.0, 3.0], 0.1);
        let fit = plain.queue.clone().expect("a fit");
        let kinds = [("allreduce-8".to_owned(), fit)].into();
        let with = Profile { transport: [("nccl".to_owned(), kinds)].into(), ..plain.clone() };
        let mut seen = std::collections::BTreeSet::new();
        for run in 0..50 {
            let one = drawn(&with, 7, run);
            assert_eq!(values(&one), values(&drawn(&plain, 7, run)));
            let value = one.transport["nccl"]["allreduce-8"].value("per_item");
            seen.insert(value.expect("a parameter") as u64);
        }
        assert_eq!(seen.len(), 3);
    }

    #[test]
    fn sampling_leaves_profiles_without_parameter_draws_or_noise_unchanged() {
        let profile = profile(&[], 0.0);
        assert_eq!(drawn(&profile, 1, 5), profile);
        assert_eq!(slowdown(&profile, 1, 5, 1.0), 1.0);
        assert_eq!(slowdown(&Profile::default(), 1, 5, 1.0), 1.0);
    }

    #[test]
    fn sampled_slowdowns_have_the_run_to_run_spread_of_the_profile() {
        let profile = profile(&[], 0.04);
        let logs: Vec<f64> = (0..4000).map(|run| slowdown(&profile, 1, run, 1.0).ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let variance = logs.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 3999.0;
        assert!(mean.abs() < 0.003 && (variance.sqrt() / 0.04 - 1.0).abs() < 0.05, "{mean}");
    }

    #[test]
    fn noise_between_trials_averages_out_over_a_run_and_drift_stays() {
        // System: trials of 0.1 s that differ by 10 %, on a machine that drifts by 3 %. Expectation: a run of 0.1 s or less has all of
        // the noise, one of 10 s a tenth of that between trials; without the parts, the whole spread is that of any run.
        let mut profile = profile(&[], 0.03);
        assert_eq!(spread(&profile, 10.0), 0.03);
        let fit = profile.noise.as_mut().expect("noise");
        for (name, value) in [("trial", 0.1), ("trial_length", 0.1)] {
            fit.parameters.insert(name.to_owned(), Parameter { value, ..Parameter::default() });
        }
        for (seconds, trial) in [(0.0, 0.1), (0.05, 0.1), (0.1, 0.1), (10.0, 0.01)] {
            let expected = 0.03_f64.hypot(trial);
            assert!((spread(&profile, seconds) - expected).abs() < 1e-12, "{seconds}");
        }
    }
}
