//! Tests that tables made from a known law give this law again, including switches of protocol.

use super::transport::transports;
use crate::measurement::Sample;
use forebay_model::law::TransportLaw;
use forebay_model::random::{Generator, Purpose, Streams};
use forebay_scenario::profile::Fit;
use rand::RngExt;
use std::collections::BTreeMap;

fn sample(algorithm: &str, bytes: f64, seconds: f64) -> Sample {
    let labels = [("transport", "t"), ("collective", "allreduce"), ("algorithm", algorithm)];
    Sample {
        probe: "collective".into(),
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        settings: [("bytes".to_owned(), bytes), ("ranks".to_owned(), 4.0)].into(),
        trial: 0,
        operations: 1,
        seconds,
        core_seconds: 0.0,
        observed: BTreeMap::new(),
        beside: None,
        excluded: None,
        at: 0.0,
    }
}

fn fitted(samples: &[Sample]) -> Option<Fit> {
    transports(&samples.iter().collect::<Vec<_>>(), 100).remove("t")?.remove("allreduce-4")
}

/// Returns the law of a fit, without the times at measured sizes.
fn lines(fit: &Fit) -> TransportLaw {
    TransportLaw::new(fit.transport().expect("a law").ranges()).expect("a law")
}

/// Returns the names of the law's parameters.
fn names(fit: &Fit) -> Vec<&str> {
    let names = fit.parameters.keys().map(String::as_str);
    names.filter(|name| !name.starts_with("at_") && *name != "beyond").collect()
}

fn generator() -> Generator {
    Streams::new(5, 0).at(Purpose::Trial, 0, 0, 0)
}

/// Returns two trials for each power of two from 256 B on, with relative noise of up to `noise` ÷ 2.
fn table(law: impl Fn(f64) -> f64, noise: f64, generator: &mut Generator) -> Vec<Sample> {
    let sizes = (8..28).map(|power| f64::from(1u32 << power));
    let mut noisy = |size: f64| law(size) * (1.0 + noise * (generator.random::<f64>() - 0.5));
    sizes.flat_map(|size| [sample("", size, noisy(size)), sample("", size, noisy(size))]).collect()
}

#[test]
fn a_switch_of_protocol_is_found_with_the_cost_of_both_protocols() {
    // System: 5 us + 1 ns/B up to 16 KiB, 40 us + 0.1 ns/B above; trials differ by up to 4 %.
    let law = |size: f64| if size <= 16_384.0 { 5e-6 + 1e-9 * size } else { 4e-5 + 1e-10 * size };
    let fit = fitted(&table(law, 0.04, &mut generator())).expect("a fit");
    assert_eq!(names(&fit), ["alpha_1", "alpha_2", "beta_1", "beta_2", "from_2"]);
    let expected = [("alpha_1", 5e-6), ("beta_1", 1e-9), ("alpha_2", 4e-5), ("beta_2", 1e-10)];
    for (name, value) in expected {
        let found = &fit.parameters[name];
        assert!((found.value / value - 1.0).abs() < 0.1, "{name}: {found:?}");
        let [low, high] = found.ci95.expect("an interval");
        assert!(high - low < 0.3 * value, "{name}: {found:?}");
    }
    assert_eq!(fit.parameters["from_2"].ci95, Some([16_384.0, 32_768.0]));
    assert!(fit.residual < 0.02);
    let law = lines(&fit);
    assert!((law.seconds(1e8, 0.0) / 1.004e-2 - 1.0).abs() < 0.03);
}

#[test]
fn a_jump_in_cost_per_byte_before_the_two_largest_messages_is_detected() {
    // System: DeepBench's seven sizes [B]. Beyond 67 MB, for the last two sizes, a byte takes 1.8 times or half as long; times
    // vary by up to 1 %. Expectation: a border between 67 and 153 MB, and all sizes within 3 %. With at least three sizes in
    // every range, 67 MB would be on the line of the sizes beyond it, 75 % off, or 153 MB on the line below, 25 % off.
    let sizes = [4e5, 12_390_400.0, 16_777_216.0, 26_214_400.0, 67_108_864.0, 153_440_000.0, 258e6];
    let off = [0.01, -0.01, 0.005, -0.004, 0.008, -0.01, 0.01];
    for factor in [1.8, 0.5] {
        let time = |size: f64| 1e-4 + 1e-10 * size * if size > 1e8 { factor } else { 1.0 };
        let all =
            sizes.iter().zip(off).map(|(&size, off)| sample("", size, time(size) * (1.0 + off)));
        let all: Vec<Sample> = all.collect();
        let fit = fitted(&all).expect("a fit");
        assert_eq!(fit.parameters["from_2"].ci95, Some([67_108_864.0, 153_440_000.0]), "{factor}");
        let law = lines(&fit);
        assert_eq!(law.ranges().len(), 2);
        for size in sizes {
            let error = law.seconds(size, 0.0) / time(size) - 1.0;
            assert!(error.abs() < 0.03, "{factor}: {size}: {error}");
        }
    }
}

#[test]
fn noise_alone_gives_no_separate_fit_for_the_last_two_message_sizes() {
    // System: one line, seven sizes, times vary by up to 8 %. Expectation: the last two sizes have no range of their own.
    let mut generator = generator();
    let sizes = [4e5, 12_390_400.0, 16_777_216.0, 26_214_400.0, 67_108_864.0, 153_440_000.0, 258e6];
    let mut ranges = 0;
    for _ in 0..60 {
        let off = || 1.0 + 0.16 * (generator.random::<f64>() - 0.5);
        let noise: Vec<f64> = std::iter::repeat_with(off).take(sizes.len()).collect();
        let one = |(&size, off): (&f64, &f64)| sample("", size, (1e-4 + 1e-10 * size) * off);
        let all: Vec<Sample> = sizes.iter().zip(&noise).map(one).collect();
        let fit = fitted(&all).expect("a fit");
        let last = Some([67_108_864.0, 153_440_000.0]);
        ranges += fit.parameters.values().filter(|parameter| parameter.ci95 == last).count();
    }
    assert_eq!(ranges, 0, "of 60");
}

#[test]
fn intervals_from_one_trial_per_message_size_contain_the_true_cost_per_byte() {
    // System: a line, one trial of each size, which varies by up to 5 %. Expectation: deviations from the line reveal the noise,
    // so intervals contain the true value.
    let mut generator = generator();
    let (mut held, mut widths) = (0, Vec::new());
    for _ in 0..60 {
        let all = table(|size| 1e-5 + 2e-10 * size, 0.1, &mut generator);
        let one: Vec<Sample> = all.into_iter().step_by(2).collect();
        let beta = fitted(&one).expect("a fit").parameters["beta_1"].clone();
        let [low, high] = beta.ci95.expect("an interval");
        held += u32::from((low..=high).contains(&2e-10));
        widths.push((high - low) / 2e-10);
    }
    widths.sort_by(f64::total_cmp);
    let width = widths[30];
    assert!((52..=60).contains(&held) && (0.02..0.12).contains(&width), "{held} {width}");
}

#[test]
fn linear_transfer_times_are_fitted_with_one_range_despite_noise() {
    for noise in [0.0, 0.05, 0.3] {
        let fit = fitted(&table(|size| 1e-5 + 2e-10 * size, noise, &mut generator()));
        assert_eq!(names(&fit.expect("a fit")).len(), 2, "{noise}");
    }
}

#[test]
fn tree_algorithm_trials_do_not_distort_the_ring_algorithm_fit() {
    let ring = |size: f64| 1e-4 + 1e-9 * size;
    let mut all: Vec<Sample> =
        [1e4, 1e5, 1e7, 1e8].map(|size| sample("ring", size, ring(size))).into();
    all.push(sample("tree", 1e6, 3.0 * ring(1e6)));
    // This trial is slower than the tree at its size, so it is not used.
    all.push(sample("ring", 1e6, 9.0 * ring(1e6)));
    let law = lines(&fitted(&all).expect("a fit"));
    let at = |size: f64| law.seconds(size, 0.0) / ring(size);
    assert!((at(3e4) - 1.0).abs() < 0.01 && (at(5e7) - 1.0).abs() < 0.01);
    assert!((at(1e6) - 3.0).abs() < 0.01, "{}", at(1e6));
    assert_eq!(law.ranges().len(), 3);
    assert!((law.ranges()[1].from / 1e11_f64.sqrt() - 1.0).abs() < 1e-5);
}

#[test]
fn message_sizes_one_byte_apart_can_have_separate_transport_ranges() {
    // Sizes that differ by one byte, each with its own algorithm.
    let sizes = [0.0, 1.0, 2.0, 1e9, 1e9 + 1.0, 1e9 + 2.0];
    let names = ["a", "b", "c", "d", "e", "f"];
    let one = |(size, name): (&f64, &str)| sample(name, *size, 1e-3 + 1e-9 * size);
    let all: Vec<Sample> = sizes.iter().zip(names).map(one).collect();
    let law = lines(&fitted(&all).expect("a fit"));
    assert_eq!(law.ranges().len(), 6);
    for (size, range) in sizes.iter().zip(law.ranges()) {
        assert_eq!(law.range(*size), range);
    }
}

#[test]
fn a_transport_fit_from_scarce_or_invalid_samples_does_not_panic() {
    let one = fitted(&[sample("", 1e6, 1e-3)]).expect("a fit");
    assert!((one.transport().expect("a law").seconds(1e6, 0.0) - 1e-3).abs() < 1e-8);
    assert!(one.parameters.values().all(|p| p.unidentified.is_some()));
    assert_eq!(fitted(&[]), None);
    let bad = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300];
    let all: Vec<Sample> = bad.iter().flat_map(|a| bad.map(|b| sample("", *a, b))).collect();
    assert_eq!(fitted(&all), None);
    let many: Vec<Sample> = (1..3000).map(|n| sample("", f64::from(n), 1e-3)).collect();
    assert!(fitted(&many).is_some());
}

/// Draws the law of a library that changes its algorithm twice: bytes become cheaper, the fixed part larger.
fn library(generator: &mut Generator) -> impl Fn(f64) -> f64 + use<> {
    let mut within = |from: f64, to: f64| from * (to / from).powf(generator.random::<f64>());
    let ranks = within(4.0, 2048.0);
    let (alpha, beta) = (within(2e-6, 1e-5) * (1.0 + ranks.log2()), within(5e-12, 2e-9));
    let borders = [within(1e4, 3e5), within(1e6, 3e7)];
    let jumps = [within(0.8, 1.3), within(0.8, 1.3)];
    move |size| match borders.iter().filter(|border| size > **border).count() {
        0 => alpha + 3.0 * beta * size,
        1 => jumps[0] * (alpha + 3.0 * beta * borders[0] + 1.5 * beta * (size - borders[0])),
        _ => jumps[1] * (2.0 * alpha + 1.5 * beta * borders[1] + beta * (size - borders[1])),
    }
}

#[test]
fn times_between_measured_sizes_of_100_tables_are_within_3_percent() {
    // System: 100 tables of sizes of powers of two from 8 B to 1 GiB, two trials each, whose times differ by up to 2 %, of
    // libraries with two changes of algorithm at which times jump by up to 30 %. Expectation: exactly the median at each
    // measured size. With every second size left out, half of those are predicted within 3 %; beside a jump the error is about
    // the jump.
    let mut generator = generator();
    let mut errors = Vec::new();
    for _ in 0..100 {
        let law = library(&mut generator);
        let all: Vec<Sample> = (3..31)
            .flat_map(|power| [f64::from(1u32 << power); 2])
            .map(|size| {
                sample("", size, law(size) * (1.0 + 0.02 * (generator.random::<f64>() - 0.5)))
            })
            .collect();
        let measured = fitted(&all).and_then(|fit| fit.transport()).expect("a law");
        for pair in all.chunks(2) {
            let median = 0.5 * (pair[0].seconds_each() + pair[1].seconds_each());
            assert_eq!(measured.seconds(pair[0].setting("bytes"), 0.0), median);
        }
        let half: Vec<Sample> = all.chunks(4).flat_map(|four| four[..2].to_vec()).collect();
        let interpolated = fitted(&half).and_then(|fit| fit.transport()).expect("a law");
        // The last size lies beyond the measured ones.
        for four in all.chunks(4).rev().skip(1) {
            let size = four[2].setting("bytes");
            errors.push((interpolated.seconds(size, 0.0) / law(size) - 1.0).abs());
        }
    }
    errors.sort_by(f64::total_cmp);
    let (median, p95) = (errors[errors.len() / 2], errors[errors.len() * 95 / 100]);
    assert!(median <= 0.03 && p95 <= 0.3, "median {median}, 95th percentile {p95}");
}

#[test]
fn the_interval_beyond_measured_sizes_tells_how_far_the_law_is_from_them() {
    // System: times on a line, and times that leave it by a factor of 1.5 in turn, as no line can. Expectation: beyond the
    // measured sizes, the interval of the first is narrow and that of the second at least as wide as the law is wrong.
    let width = |factor: f64| {
        let off = |power: i32| if power % 2 == 0 { factor } else { 1.0 / factor };
        let sizes = (8..24).map(|power| (power, f64::from(1u32 << power)));
        let all: Vec<Sample> = sizes
            .flat_map(|(power, size)| {
                let seconds = (1e-5 + 1e-9 * size) * off(power);
                [sample("", size, seconds), sample("", size, 1.01 * seconds)]
            })
            .collect();
        let fit = fitted(&all).expect("a fit");
        let beyond = |fit: &Fit| fit.transport().expect("a law").seconds(1e9, 0.0);
        let mut drawn: Vec<f64> = (0..40).map(|index| beyond(&fit.drawn(index))).collect();
        drawn.sort_by(f64::total_cmp);
        let [low, high] = fit.parameters["beyond"].ci95.expect("an interval");
        assert!(low <= 1.0 && high >= 1.0);
        ((drawn[38] / drawn[1]).ln(), (high / low).ln())
    };
    let (narrow, wide) = (width(1.0), width(1.5));
    assert!(narrow.0 < 0.1 && narrow.1 < 0.1, "{narrow:?}");
    assert!(wide.0 > 2.0 * 1.5_f64.ln() && wide.1 > 2.0 * 1.5_f64.ln(), "{wide:?}");
}
