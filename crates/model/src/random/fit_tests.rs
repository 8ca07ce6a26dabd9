//! Compares samplers with closed forms, and tests that random streams with different addresses (random-number keys) are
//! unrelated.

use super::{Generator, Purpose, Sampler, Streams};
use crate::distribution::Distribution;
use rand::Rng;
use statrs::distribution as closed;
use statrs::distribution::ContinuousCDF;
use std::sync::Arc;

const N: u64 = 40_000;

/// A distribution and its cumulative distribution function from statrs. For the truncated normal it is derived from the normal's
/// function.
struct Case(Distribution, Box<dyn Fn(f64) -> f64>);

fn case(distribution: Distribution, by: impl ContinuousCDF<f64, f64> + 'static) -> Case {
    Case(distribution, Box::new(move |x| by.cdf(x)))
}

fn truncated(mean: f64, sd: f64) -> Case {
    let by = closed::Normal::new(mean, sd).unwrap();
    let above = by.sf(0.0);
    Case(Distribution::Normal { mean, sd }, Box::new(move |x| 1.0 - by.sf(x) / above))
}

fn cases() -> Vec<Case> {
    use Distribution as D;
    vec![
        case(D::Exponential { mean: 0.25 }, closed::Exp::new(4.0).unwrap()),
        case(D::Lognormal { mu: -7.0, sigma: 1.0 }, closed::LogNormal::new(-7.0, 1.0).unwrap()),
        case(D::Gamma { shape: 3.0, scale: 2.0 }, closed::Gamma::new(3.0, 0.5).unwrap()),
        case(D::Gamma { shape: 0.3, scale: 2.0 }, closed::Gamma::new(0.3, 0.5).unwrap()),
        truncated(5.0, 1.0),
        truncated(1.0, 2.0),
        truncated(-3.0, 1.0),
        case(D::Uniform { low: 2.0, high: 7.0 }, closed::Uniform::new(2.0, 7.0).unwrap()),
        case(D::Pareto { scale: 2.0, shape: 3.5 }, closed::Pareto::new(2.0, 3.5).unwrap()),
        case(D::Pareto { scale: 2.0, shape: 0.5 }, closed::Pareto::new(2.0, 0.5).unwrap()),
    ]
}

/// Returns the Kolmogorov–Smirnov distance times the square root of the number of values. It exceeds 1.95 with probability 0.001
/// if the values follow `cdf`.
fn kolmogorov_smirnov(mut values: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len() as f64;
    let distance = values.iter().enumerate().fold(0.0, |distance: f64, (i, &value)| {
        let expected = cdf(value);
        distance.max(expected - i as f64 / n).max((i + 1) as f64 / n - expected)
    });
    distance * n.sqrt()
}

/// Returns the first sample of each of many random streams; their addresses (random-number keys) are neighbours.
fn drawn(distribution: &Distribution, address: impl Fn(u64) -> Generator) -> Vec<f64> {
    let sampler = Sampler::new(distribution);
    (0..N).map(|i| sampler.draw(&mut address(i))).collect()
}

fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn first_samples_of_neighbouring_random_streams_follow_their_distribution() {
    for seed in 0..3 {
        let streams = Streams::new(seed, 0);
        for Case(distribution, cdf) in cases() {
            let by_entity = drawn(&distribution, |i| streams.at(Purpose::Latency, 0, i, 0));
            let by_index = drawn(&distribution, |i| streams.at(Purpose::Latency, 0, 0, i));
            let by_owner = drawn(&distribution, |i| streams.at(Purpose::Latency, i, 0, 0));
            for values in [by_entity, by_index, by_owner] {
                let distance = kolmogorov_smirnov(values, &cdf);
                assert!(distance < 1.95, "{distribution:?}, seed {seed}: {distance}");
            }
        }
    }
}

#[test]
fn successive_samples_of_one_random_stream_follow_their_distribution() {
    for Case(distribution, cdf) in cases() {
        let mut generator = Streams::new(11, 0).at(Purpose::Compute, 1, 2, 3);
        let sampler = Sampler::new(&distribution);
        let values = (0..N).map(|_| sampler.draw(&mut generator)).collect();
        let distance = kolmogorov_smirnov(values, &cdf);
        assert!(distance < 1.95, "{distribution:?}: {distance}");
    }
}

/// Checks that means equal known closed forms, and that sample means are within 4 standard errors of them.
#[test]
fn means_of_distributions_match_closed_forms() {
    use Distribution as D;
    let means = [
        (D::Exponential { mean: 0.25 }, 0.25),
        (D::Lognormal { mu: 1.0, sigma: 0.5 }, 1.125_f64.exp()),
        (D::Gamma { shape: 3.0, scale: 2.0 }, 6.0),
        // A half-normal distribution: sd·√(2/π).
        (D::Normal { mean: 0.0, sd: 2.0 }, 2.0 * std::f64::consts::FRAC_2_PI.sqrt()),
        // φ(3)/Q(3) = 3.283098…
        (D::Normal { mean: -3.0, sd: 1.0 }, 0.283_098_654_932_68),
        (D::Uniform { low: 2.0, high: 7.0 }, 4.5),
        (D::Pareto { scale: 2.0, shape: 3.5 }, 2.8),
        (D::Empirical(Arc::from([1.0, 2.0, 6.0])), 3.0),
    ];
    for (distribution, mean) in means {
        let sampler = Sampler::new(&distribution);
        assert!((sampler.mean() / mean - 1.0).abs() < 1e-9, "{distribution:?}: {}", sampler.mean());
        let values = drawn(&distribution, |i| Streams::new(5, 0).at(Purpose::Delay, 0, i, 0));
        let square = average(&values.iter().map(|x| (x - mean).powi(2)).collect::<Vec<_>>());
        let error = (average(&values) - mean).abs() / (square / N as f64).sqrt();
        assert!(error < 4.0, "{distribution:?}: {error} standard errors");
    }
    assert_eq!(Sampler::new(&D::Pareto { scale: 1.0, shape: 1.0 }).mean(), f64::INFINITY);
    let far = Sampler::new(&D::Normal { mean: -30.000_001, sd: 1.0 }).mean();
    let near = Sampler::new(&D::Normal { mean: -29.999_999, sd: 1.0 }).mean();
    assert!((far / near - 1.0).abs() < 1e-5, "{far} {near}");
}

#[test]
fn values_of_an_empirical_distribution_are_equally_likely() {
    let distribution = Distribution::Empirical(Arc::from([1.0, 2.0, 3.0, 4.0]));
    let values = drawn(&distribution, |i| Streams::new(5, 0).at(Purpose::Delay, 0, i, 0));
    for value in [1.0, 2.0, 3.0, 4.0] {
        let count = values.iter().filter(|&&x| x == value).count() as f64;
        assert!((count - 10_000.0).abs() < 4.0 * 7500_f64.sqrt(), "{value}: {count}");
    }
}

#[test]
fn sampling_a_constant_does_not_advance_the_generator() {
    use Distribution as D;
    let flat = [
        D::Constant(3.0),
        D::Uniform { low: 3.0, high: 3.0 },
        D::Normal { mean: 3.0, sd: 0.0 },
        D::Lognormal { mu: 3_f64.ln(), sigma: 0.0 },
        D::Empirical(Arc::from([3.0, 3.0])),
    ];
    for distribution in flat {
        let sampler = Sampler::new(&distribution);
        let untouched = Streams::new(1, 1).at(Purpose::Jitter, 0, 0, 0);
        let mut generator = untouched.clone();
        let value = sampler.draw(&mut generator);
        assert!((value - 3.0).abs() < 1e-12 && generator == untouched, "{distribution:?}");
        assert_eq!(sampler.is_constant(), Some(value));
    }
    assert_eq!(Sampler::new(&D::Exponential { mean: 3.0 }).is_constant(), None);
    assert_eq!(Sampler::new(&D::Empirical(Arc::from([]))).is_constant(), Some(0.0));
}

/// Returns the correlation of two series of uniform values, in units of its standard error.
fn correlation(xs: &[f64], ys: &[f64]) -> f64 {
    let (mx, my) = (average(xs), average(ys));
    let products: f64 = xs.iter().zip(ys).map(|(x, y)| (x - mx) * (y - my)).sum();
    products * 12.0 / (xs.len() as f64).sqrt()
}

#[test]
fn streams_with_neighbouring_addresses_are_uncorrelated() {
    use Purpose::{Compute, Delay, SampleSize};
    let uniform = Distribution::Uniform { low: 0.0, high: 1.0 };
    let streams = Streams::new(1, 0);
    let base = drawn(&uniform, |i| streams.at(Compute, 0, i, 0));
    let others = [
        drawn(&uniform, |i| streams.at(Compute, 0, i + 1, 0)),
        drawn(&uniform, |i| streams.at(Compute, 1, i, 0)),
        drawn(&uniform, |i| streams.at(Compute, 0, i, 1)),
        drawn(&uniform, |i| streams.at(Compute, 0, 0, i)),
        drawn(&uniform, |i| streams.at(Compute, i, 0, 0)),
        drawn(&uniform, |i| streams.at(Delay, 0, i, 0)),
        drawn(&uniform, |i| streams.at(SampleSize, 0, i, 0)),
        drawn(&uniform, |i| Streams::new(1, 1).at(Compute, 0, i, 0)),
        drawn(&uniform, |i| Streams::new(2, 0).at(Compute, 0, i, 0)),
        drawn(&uniform, |i| Streams::new(i, 0).at(Compute, 0, 0, 0)),
        drawn(&uniform, |i| Streams::new(1, i as u32).at(Compute, 0, 0, 1)),
    ];
    for (which, other) in others.iter().enumerate() {
        let z = correlation(&base, other);
        assert!(z.abs() < 4.0, "{which}: {z} standard errors");
    }
}

/// Checks that flipping one bit of an address flips each bit of the first output with probability one half.
#[test]
fn each_flipped_address_bit_flips_each_output_bit_with_probability_one_half() {
    let streams = Streams::new(1, 0);
    let first = |entity, index| streams.at(Purpose::Latency, 0, entity, index).next_u64();
    for bit in 0..48 {
        let mut flips = [0u32; 64];
        for i in 0..1000 {
            let change = first(i, i ^ 5) ^ first(i ^ 1 << bit, i ^ 5);
            (0..64).for_each(|out| flips[out] += u32::from(change >> out & 1 == 1));
        }
        assert!(flips.iter().all(|flips| flips.abs_diff(500) < 80), "{bit}: {flips:?}");
    }
}

#[test]
fn the_same_address_gives_the_same_stream() {
    let streams = Streams::new(9, 4);
    assert_eq!(streams.at(Purpose::Order, 1, 2, 3), Streams::new(9, 4).at(Purpose::Order, 1, 2, 3));
    let other = Streams::new(9, 5);
    assert_ne!(streams.at(Purpose::Order, 1, 2, 3), other.at(Purpose::Order, 1, 2, 3));
    assert_ne!(streams.at(Purpose::Order, 1, 2, 3), streams.at(Purpose::Order, 1, 3, 2));
    // A data set is the same in every replication, but differs between seeds.
    let (size, seed) = (Purpose::SampleSize, Streams::new(10, 4));
    assert_eq!(streams.at(size, 1, 2, 3), other.at(size, 1, 2, 3));
    assert_ne!(streams.at(size, 1, 2, 3), seed.at(size, 1, 2, 3));
}

/// Checks recorded values: a change here changes every result, and must be listed in the change log.
#[test]
fn generated_random_numbers_equal_recorded_values() {
    use Distribution as D;
    let mut generator = Streams::new(1, 2).at(Purpose::Latency, 3, 4, 5);
    assert_eq!(generator.next_u64(), 16_818_193_558_165_851_442);
    let recorded = [
        (D::Exponential { mean: 0.25 }, [0.6892340096276304, 0.16461114176606984]),
        (D::Lognormal { mu: -7.0, sigma: 1.0 }, [0.005429688992714846, 0.002036557915862572]),
        (D::Gamma { shape: 3.0, scale: 2.0 }, [13.539945806823951, 1.5671106898543092]),
        (D::Gamma { shape: 0.3, scale: 2.0 }, [2.9267847464809864, 0.1603726967293791]),
        (D::Normal { mean: 1.0, sd: 2.0 }, [4.5682531551605345, 2.6070116152815856]),
        (D::Normal { mean: -3.0, sd: 1.0 }, [0.11642405571605133, 0.14487959934471414]),
        (D::Uniform { low: 2.0, high: 7.0 }, [6.558580498261282, 6.707462759695048]),
        (D::Pareto { scale: 2.0, shape: 3.5 }, [2.0535187591719493, 2.0347491915846434]),
        (D::Empirical(Arc::from([1.0, 2.0, 3.0, 4.0, 5.0])), [5.0, 5.0]),
    ];
    for (distribution, expected) in recorded {
        let mut generator = Streams::new(1, 2).at(Purpose::Latency, 3, 4, 5);
        let sampler = Sampler::new(&distribution);
        let drawn: [f64; 2] = std::array::from_fn(|_| sampler.draw(&mut generator));
        for (drawn, expected) in drawn.into_iter().zip(expected) {
            // The last digit of ln and exp may differ between machines.
            assert!((drawn / expected - 1.0).abs() < 1e-14, "{distribution:?}: {drawn:?}");
        }
    }
}
