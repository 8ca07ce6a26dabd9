//! Tests that 95 % intervals contain the true value as often as they should: 200 synthetic measurements of each law, with noise,
//! outliers and slow drift.

use super::{laws, others, transport};
use crate::measurement::Sample;
use forebay_model::law::{DecodeLaw, ReadLaw, SizeRange, StepLaw, TransportLaw};
use forebay_model::random::Generator;
use forebay_scenario::profile::Fit;
use rand::{RngExt, SeedableRng};

/// Number of bootstrap draws for an interval in these tests.
const DRAWS: usize = 120;
/// Number of synthetic measurements of each law.
const RUNS: u64 = 200;

/// Disturbances of a series of synthetic trials: noise of 1–3 %, 5 % outliers that are up to three times slower, and a drift over
/// the whole series. The drift is at most as large as the noise. The fit knows none of these numbers.
struct Disturbance {
    generator: Generator,
    noise: f64,
    drift: f64,
    phase: f64,
}

impl Disturbance {
    fn new(seed: u64) -> Disturbance {
        let mut generator = Generator::seed_from_u64(seed);
        let noise = generator.random_range(0.01..0.03);
        let drift = noise * generator.random_range(0.0..1.0);
        let phase = generator.random_range(0.0..1.0);
        Disturbance { generator, noise, drift, phase }
    }

    /// Returns the factor by which a trial is slower; `at` is the share of the series that has passed.
    fn factor(&mut self, at: f64) -> f64 {
        let (a, b): (f64, f64) = (self.generator.random(), self.generator.random());
        let normal = (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos();
        let outlier: f64 = self.generator.random();
        let slower = if outlier < 0.05 { 1.0 + 2.0 * self.generator.random::<f64>() } else { 1.0 };
        let drift = self.drift * (std::f64::consts::TAU * (at + self.phase)).sin();
        (1.0 + self.noise * normal + drift) * slower
    }

    /// Returns trials of all `points`, `repeats` of each, in random order. `law` returns an operation's wall time and core time.
    fn samples(
        &mut self,
        names: &[&str],
        points: &[Vec<f64>],
        repeats: usize,
        law: impl Fn(&[f64]) -> (f64, f64),
    ) -> Vec<Sample> {
        let mut order: Vec<usize> = (0..points.len() * repeats).map(|i| i % points.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.generator.random_range(0..=i));
        }
        let count = order.len() as f64;
        let mut samples = Vec::new();
        for (trial, point) in order.into_iter().enumerate() {
            let (seconds, cores) = law(&points[point]);
            let factors = [self.factor(trial as f64 / count), self.factor(trial as f64 / count)];
            let settings = names.iter().map(|n| (*n).to_owned()).zip(points[point].clone());
            samples.push(Sample {
                probe: String::new(),
                labels: [].into(),
                settings: settings.collect(),
                trial: trial as u32,
                operations: 100,
                seconds: 100.0 * seconds * factors[0],
                core_seconds: 100.0 * cores * factors[1],
                observed: [].into(),
                beside: None,
                excluded: None,
                at: trial as f64,
            });
        }
        samples
    }
}

/// Returns, for each true value, the share of runs whose interval contains it.
fn coverage(
    truth: &[(&str, f64)],
    mut fit: impl FnMut(&mut Disturbance) -> Fit,
) -> Vec<(String, f64)> {
    let mut held = vec![0; truth.len()];
    for seed in 0..RUNS {
        let fit = fit(&mut Disturbance::new(seed));
        for ((name, value), held) in truth.iter().zip(&mut held) {
            let ci95 = fit.parameters.get(*name).and_then(|p| p.ci95);
            if ci95.is_some_and(|[low, high]| low <= *value && *value <= high) {
                *held += 1;
            }
        }
    }
    let share =
        |((name, _), held): (&(&str, f64), u64)| ((*name).to_owned(), held as f64 / RUNS as f64);
    truth.iter().zip(held).map(share).collect()
}

fn assert_honest(shares: &[(String, f64)]) {
    assert!(shares.iter().all(|(_, share)| (0.9..=0.99).contains(share)), "{shares:?}");
}

#[test]
fn intervals_of_step_parameters_contain_the_true_values() {
    let law = StepLaw { floor: 4e-3, fixed: 1e-3, per_sample: 1e-4 };
    let points: Vec<Vec<f64>> = (0..12).map(|i| vec![f64::from(1 << i)]).collect();
    let truth = [("floor", law.floor), ("fixed", law.fixed), ("per_sample", law.per_sample)];
    assert_honest(&coverage(&truth, |disturbance| {
        let samples = disturbance.samples(&["batch"], &points, 6, |x| (law.seconds(x[0]), 1.0));
        laws::step(&samples.iter().collect::<Vec<_>>(), DRAWS).unwrap()
    }));
}

#[test]
fn intervals_of_decoding_parameters_contain_the_true_values() {
    let law = DecodeLaw { fixed: 1e-4, per_byte: 1.2e-8, per_pixel: 4e-9 };
    let sizes = [64.0, 128.0, 256.0, 512.0, 1024.0];
    let point = |side: f64, quality: f64| vec![side * side * quality, side * side, 1.0];
    let points: Vec<Vec<f64>> =
        sizes.iter().flat_map(|side| [0.1, 0.3, 0.9].map(|q| point(*side, q))).collect();
    let truth = [("fixed", law.fixed), ("per_byte", law.per_byte), ("per_pixel", law.per_pixel)];
    assert_honest(&coverage(&truth, |disturbance| {
        let cost = |x: &[f64]| law.core_seconds(x[0], x[1]);
        let names = ["bytes", "pixels", "threads"];
        let samples = disturbance.samples(&names, &points, 5, |x| (cost(x), cost(x)));
        laws::decode(&samples.iter().collect::<Vec<_>>(), DRAWS).unwrap()
    }));
}

#[test]
fn intervals_of_read_parameters_contain_the_true_values() {
    let law = ReadLaw {
        latency: 8e-5,
        per_stream: 1.2e9,
        bandwidth: 2e9,
        operations: 60e3,
        overhead: 0.0,
        cpu_fixed: 8e-6,
        cpu_per_byte: 1e-10,
    };
    let sizes = [4096.0, 16384.0, 65536.0, 262_144.0, 1_048_576.0, 4_194_304.0];
    let points: Vec<Vec<f64>> = sizes
        .iter()
        .flat_map(|size| [1.0, 2.0, 4.0, 8.0, 16.0].map(|readers| vec![*size, readers]))
        .collect();
    let truth = [
        ("latency", law.latency),
        ("per_stream", law.per_stream),
        ("bandwidth", law.bandwidth),
        ("operations", law.operations),
        ("cpu_fixed", law.cpu_fixed),
        ("cpu_per_byte", law.cpu_per_byte),
    ];
    assert_honest(&coverage(&truth, |disturbance| {
        let time = |x: &[f64]| {
            let cores = law.cpu_fixed + law.cpu_per_byte * x[0];
            (1.0 / law.requests_per_second(x[0], x[1]), cores)
        };
        let samples = disturbance.samples(&["size", "readers"], &points, 4, time);
        laws::read(&samples.iter().collect::<Vec<_>>(), DRAWS).unwrap()
    }));
}

#[test]
fn intervals_of_transport_parameters_contain_the_true_values() {
    let ranges = [
        SizeRange { from: 0.0, alpha: 5e-6, beta: 1e-9, gamma: 0.0 },
        SizeRange { from: 32_769.0, alpha: 6e-5, beta: 1e-10, gamma: 0.0 },
    ];
    let law = TransportLaw::new(&ranges).unwrap();
    let points: Vec<Vec<f64>> = (8..28).map(|power| vec![f64::from(1 << power)]).collect();
    let truth = [("alpha_1", 5e-6), ("beta_1", 1e-9), ("alpha_2", 6e-5), ("beta_2", 1e-10)];
    assert_honest(&coverage(&truth, |disturbance| {
        let samples =
            disturbance.samples(&["bytes"], &points, 5, |x| (law.seconds(x[0], 0.0), 1.0));
        transport::fit(&samples.iter().collect::<Vec<_>>(), DRAWS).unwrap()
    }));
}

#[test]
fn intervals_of_queue_cost_and_noise_contain_the_true_values() {
    let points: Vec<Vec<f64>> = [1.0, 2.0, 4.0].map(|n| vec![64.0, n, 1.0]).to_vec();
    let names = ["capacity", "producers", "consumers"];
    assert_honest(&coverage(&[("per_item", 2e-7)], |disturbance| {
        let samples = disturbance.samples(&names, &points, 8, |_| (1.0, 2e-7));
        others::queue(&samples.iter().collect::<Vec<_>>(), DRAWS).unwrap()
    }));
}
