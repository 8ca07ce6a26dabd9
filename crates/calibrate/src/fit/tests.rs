//! Tests that unidentified parameters are reported and that invalid samples do no harm.

use super::profile;
use crate::measurement::Sample;
use forebay_model::law::{DecodeLaw, ReadLaw, StepLaw};
use forebay_scenario::profile::{Fit, Host, Profile, Provenance};
use proptest::prelude::*;

fn sample(probe: &str, labels: &[(&str, &str)], settings: &[(&str, f64)], each: f64) -> Sample {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Sample {
        probe: probe.to_owned(),
        labels: labels.iter().map(owned).collect(),
        settings: settings.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        trial: 0,
        operations: 10,
        seconds: 10.0 * each,
        core_seconds: 5.0 * each,
        observed: [].into(),
        beside: None,
        excluded: None,
        at: 0.0,
    }
}

/// Adds a little noise that is the same in each run.
fn wobble(samples: &mut [Sample]) {
    for (index, sample) in samples.iter_mut().enumerate() {
        let factor = 1.0 + 0.01 * ((index * 7919 % 101) as f64 / 50.0 - 1.0);
        sample.seconds *= factor;
        sample.core_seconds *= factor;
        sample.trial = index as u32;
        sample.at = index as f64;
    }
}

fn reads(law: ReadLaw, readers: &[f64]) -> Vec<Sample> {
    let mut samples = Vec::new();
    for _ in 0..4 {
        for size in [4096.0, 65536.0, 1_048_576.0, 8_388_608.0] {
            for readers in readers {
                let each = 1.0 / law.requests_per_second(size, *readers);
                let settings = [("size", size), ("readers", *readers)];
                let labels = [("access", "direct"), ("layout", "records")];
                samples.push(sample("read", &labels, &settings, each));
            }
        }
    }
    wobble(&mut samples);
    samples
}

const READ: ReadLaw = ReadLaw {
    latency: 1e-4,
    per_stream: 1e9,
    bandwidth: 2e9,
    operations: 40e3,
    overhead: 0.0,
    cpu_fixed: 0.0,
    cpu_per_byte: 0.0,
};

/// System: steps of LeNet-5 on an H100, whose smallest batch takes longer than the second. Expectation: between the two largest
/// batches a step takes what lies between, not what the smallest takes; the reason why the line is not identified is said.
#[test]
fn a_step_grows_from_the_largest_batch_that_the_floor_binds() {
    let mut samples = Vec::new();
    for _ in 0..8 {
        for (batch, each) in [(16.0, 187e-6), (64.0, 175e-6), (256.0, 303e-6)] {
            let labels = [("model", "lenet5"), ("device", "cuda-0-fp32-graph")];
            samples.push(sample("step", &labels, &[("batch", batch)], each));
        }
    }
    wobble(&mut samples);
    let profile = fitted(&samples);
    let fit = &profile.step["lenet5"]["cuda-0-fp32-graph"];
    let law = fit.step().expect("a law");
    for (batch, between) in [(128.0, [210e-6, 225e-6]), (256.0, [300e-6, 306e-6])] {
        let time = law.seconds(batch);
        assert!((between[0]..between[1]).contains(&time), "{batch}: {time}, {law:?}");
    }
    // Measured batches have their own times, those between them lie on lines.
    for (batch, time) in [(16.0, 187e-6), (64.0, 175e-6), (128.0, 217.7e-6), (256.0, 303e-6)] {
        let found = law.seconds(batch) * fit.step_ratio(batch);
        assert!((found / time - 1.0).abs() < 0.01, "{batch}: {found}");
    }
    let why = fit.parameters["fixed"].unidentified.as_deref().expect("a reason");
    assert!(why.contains("measure larger batches"), "{why}");
}

/// System: steps of LeNet-5 on an H200, far from any line: 188 us in batches of 16, 176 us in batches of 64. Expectation: the draws
/// of the law lie as much above it as below it.
#[test]
fn drawn_step_laws_lie_around_a_law_that_fits_badly() {
    let mut samples = Vec::new();
    for _ in 0..6 {
        for (batch, each) in [(16.0, 188e-6), (64.0, 176e-6), (128.0, 236e-6), (256.0, 301e-6)] {
            let labels = [("model", "lenet5"), ("device", "cuda-0-fp32-graph")];
            samples.push(sample("step", &labels, &[("batch", batch)], each));
        }
    }
    wobble(&mut samples);
    let profile = fitted(&samples);
    let fit = &profile.step["lenet5"]["cuda-0-fp32-graph"];
    let seconds = |fit: &Fit, batch: f64| fit.step().expect("a law").seconds(batch);
    for batch in [16.0, 64.0, 128.0, 256.0] {
        let drawn = (0..fit.draws.len()).map(|draw| seconds(&fit.drawn(draw), batch));
        let mut drawn: Vec<f64> = drawn.collect();
        drawn.sort_by(f64::total_cmp);
        let middle = drawn[drawn.len() / 2] / seconds(fit, batch);
        assert!((middle - 1.0).abs() < 0.025, "{batch}: {middle}");
    }
}

/// System: a disk that spends 80 us on each request and then transfers its bytes at 800 MB/s, one request after the other; a disk whose
/// limits of requests and of bytes are limits of their own. Expectation: the overhead and the bandwidth of the first; none of the second.
#[test]
fn a_disk_that_serves_one_request_after_the_other_has_an_overhead() {
    let in_turn = ReadLaw {
        bandwidth: 8e8,
        operations: f64::INFINITY,
        overhead: 8e-5,
        latency: 2e-4,
        ..READ
    };
    let apart = ReadLaw { bandwidth: 8e8, operations: 12_500.0, latency: 2e-4, ..READ };
    let found = |law| fitted(&reads(law, &[1.0, 2.0, 4.0, 8.0])).read["direct"].clone();
    let fit = found(in_turn);
    assert!(close(&fit, "overhead", 8e-5) && close(&fit, "bandwidth", 8e8), "{fit:?}");
    assert!(!fit.parameters.contains_key("operations"), "{fit:?}");
    let fit = found(apart);
    assert!(close(&fit, "operations", 12_500.0) && close(&fit, "bandwidth", 8e8), "{fit:?}");
    assert!(!fit.parameters.contains_key("overhead"), "{fit:?}");
}

/// System: a disk that serves 500 requests or 100 MB per second, whatever the number of readers, as throttles and quotas do.
/// Expectation: this limit is identified; the time of a single request is not, and a reason is given.
#[test]
fn a_disk_limit_that_bounds_every_read_trial_is_identified() {
    let requests = ReadLaw { operations: 500.0, bandwidth: f64::INFINITY, ..READ };
    let bytes = ReadLaw { operations: f64::INFINITY, bandwidth: 1e8, ..READ };
    for (law, sizes, name, limit) in [
        (requests, 4096.0..=65536.0, "operations", 500.0),
        (bytes, 65536.0..=1_048_576.0, "bandwidth", 1e8),
    ] {
        let mut samples = reads(law, &[4.0, 8.0]);
        samples.retain(|sample| sizes.contains(&sample.setting("size")));
        let fit = &fitted(&samples).read["direct"];
        let found = &fit.parameters[name];
        assert!((found.value / limit - 1.0).abs() < 0.01, "{name}: {found:?}");
        assert_eq!(found.unidentified, None, "{name}");
        for (other, value) in [("latency", 0.0), ("per_stream", f64::INFINITY)] {
            let other = &fit.parameters[other];
            assert_eq!(other.value, value, "{name}");
            assert!(other.unidentified.as_ref().expect("a reason").contains("fewer readers"));
        }
    }
}

fn decodes(points: &[(f64, f64)]) -> Vec<Sample> {
    let law = DecodeLaw { fixed: 1e-4, per_byte: 1e-8, per_pixel: 4e-9 };
    let decode = |(bytes, pixels): &(f64, f64)| {
        let settings = [("bytes", *bytes), ("pixels", *pixels), ("resize", 0.0), ("threads", 1.0)];
        let mut one = sample("decode", &[("format", "jpeg")], &settings, 0.0);
        one.core_seconds = 10.0 * law.core_seconds(*bytes, *pixels);
        one.seconds = one.core_seconds;
        one
    };
    let mut samples: Vec<Sample> = (0..5).flat_map(|_| points.iter().map(decode)).collect();
    wobble(&mut samples);
    samples
}

fn steps(batches: &[f64]) -> Vec<Sample> {
    let law = StepLaw { floor: 0.0, fixed: 1e-3, per_sample: 1e-4 };
    let labels = [("model", "lenet5"), ("device", "cpu-1")];
    let step = |batch: &f64| {
        let settings = [("batch", *batch), ("threads", 1.0)];
        sample("step", &labels, &settings, law.seconds(*batch))
    };
    let mut samples: Vec<Sample> = (0..5).flat_map(|_| batches.iter().map(step)).collect();
    wobble(&mut samples);
    samples
}

/// System: decoding of which each second trial ran beside others, and took a tenth longer. Expectation: the profile has the
/// parameters as found, in between, those alone, and how often each held.
#[test]
fn parameters_are_told_alone_and_as_found_beside_others() {
    let one = |trial: u32, bytes: f64| {
        let beside = trial % 2 == 1;
        let slower = if beside { 1.1 } else { 1.0 };
        let settings = [("bytes", bytes), ("pixels", 8e5 / bytes.sqrt()), ("threads", 1.0)];
        let mut of = sample("decode", &[("format", "jpeg")], &settings, 0.0);
        of.core_seconds = slower * (1e-4 + 1e-8 * bytes) * of.operations as f64;
        of.seconds = 1.5 * of.core_seconds;
        of.beside = beside.then(|| "others kept cores busy: 1.0 cores".to_owned());
        of.observed = [("others".to_owned(), if beside { 1.0 } else { 0.0 })].into();
        of.observed.insert("waited".to_owned(), of.seconds - of.core_seconds);
        Sample { at: f64::from(trial), trial, ..of }
    };
    let all = |count: u32| -> Vec<Sample> {
        (0..count).flat_map(|trial| [1e4, 4e4, 9e4, 2e5].map(|bytes| one(trial, bytes))).collect()
    };
    let profile = fitted(&all(20));
    let neighbours = profile.neighbours.clone().expect("others were there");
    assert_eq!((neighbours.beside, neighbours.others), (0.5, 0.5));
    assert!((neighbours.waited - 1.0 / 3.0).abs() < 1e-5, "{neighbours:?}");
    let fit = &profile.decode["jpeg"];
    let alone = fit.alone.clone().expect("half of the trials ran alone");
    assert_eq!(alone.share, 0.5);
    assert!((alone.values["per_byte"] / 1e-8 - 1.0).abs() < 0.01, "{alone:?}");
    assert!((fit.parameters["per_byte"].value / 1.05e-8 - 1.0).abs() < 0.02, "{fit:?}");
    let text = profile.to_toml();
    let again = Profile::parse("p.toml", &text);
    assert_eq!(again.as_ref(), Ok(&profile), "{text}");
    let alone: Vec<Sample> = all(20).into_iter().filter(|of| of.beside.is_none()).collect();
    let quiet = fitted(&alone);
    assert_eq!((quiet.neighbours, &quiet.decode["jpeg"].alone), (None, &None));
}

fn fitted(samples: &[Sample]) -> Profile {
    profile(samples, Provenance::default(), Host { cores: 2.0, memory: 1e9 })
}

/// Returns why a parameter is not identified; empty if it is identified.
fn why(fit: &Fit, name: &str) -> String {
    fit.parameters[name].unidentified.clone().unwrap_or_default()
}

fn close(fit: &Fit, name: &str, truth: f64) -> bool {
    (fit.value(name).unwrap() / truth - 1.0).abs() < 0.05
}

#[test]
fn read_limits_that_no_trial_reached_are_infinite_and_reported() {
    let all = &fitted(&reads(READ, &[1.0, 2.0, 4.0, 8.0])).read["direct"];
    for (name, truth) in
        [("latency", 1e-4), ("per_stream", 1e9), ("bandwidth", 2e9), ("operations", 40e3)]
    {
        assert!(close(all, name, truth) && why(all, name).is_empty(), "{name} {all:?}");
    }
    let alone = &fitted(&reads(READ, &[1.0])).read["direct"];
    for name in ["bandwidth", "operations"] {
        assert_eq!(alone.value(name), Some(f64::INFINITY));
        assert_eq!(alone.parameters[name].ci95, None);
        assert!(why(alone, name).contains("no trial was bound"), "{}", why(alone, name));
    }
    let free = ReadLaw { operations: f64::INFINITY, ..READ };
    let free = &fitted(&reads(free, &[1.0, 2.0, 4.0, 8.0])).read["direct"];
    assert!(why(free, "operations").contains("number of requests"), "{free:?}");
    assert!(close(free, "bandwidth", 2e9) && why(free, "bandwidth").is_empty(), "{free:?}");
}

#[test]
fn reads_of_one_size_do_not_separate_latency_from_stream_bandwidth() {
    let mut samples = reads(READ, &[1.0, 2.0]);
    samples.retain(|sample| sample.setting("size") == 65536.0);
    let fit = &fitted(&samples).read["direct"];
    assert!(why(fit, "latency").contains("cannot be told apart from `per_stream`"), "{fit:?}");
    let law = fit.read().unwrap();
    let expected = READ.requests_per_second(65536.0, 1.0);
    assert!((law.requests_per_second(65536.0, 1.0) / expected - 1.0).abs() < 0.02);
}

#[test]
fn bytes_proportional_to_pixels_identify_only_the_total_decoding_cost() {
    let points =
        [64.0, 128.0, 256.0, 512.0, 1024.0].map(|side: f64| (0.25 * side * side, side * side));
    let fit = &fitted(&decodes(&points)).decode["jpeg"];
    for (name, other) in [("per_byte", "per_pixel"), ("per_pixel", "per_byte")] {
        assert!(
            why(fit, name).contains(&format!("from `{other}`: bytes are proportional to pixels")),
            "{fit:?}"
        );
        assert!(fit.value(name).unwrap() > 0.0);
    }
    // The total cost of bytes and pixels is known.
    let law = fit.decode().unwrap();
    let truth = 1e-4 + 1e-8 * 65536.0 + 4e-9 * 262_144.0;
    assert!((law.core_seconds(65536.0, 262_144.0) / truth - 1.0).abs() < 0.02, "{law:?}");
    assert!(fit.draws.iter().all(|draw| draw.len() == 3) && fit.draws.len() == 40);
    // Images of several qualities distinguish the two costs.
    let apart: Vec<(f64, f64)> =
        points.iter().flat_map(|(b, p)| [0.3, 1.0, 3.0].map(|q| (q * b, *p))).collect();
    let fit = &fitted(&decodes(&apart)).decode["jpeg"];
    assert!(close(fit, "per_byte", 1e-8) && why(fit, "per_byte").is_empty(), "{fit:?}");
    assert!(close(fit, "per_pixel", 4e-9) && why(fit, "per_pixel").is_empty(), "{fit:?}");
}

#[test]
fn measurements_at_one_batch_size_determine_only_its_step_time() {
    let one = &fitted(&steps(&[32.0])).step["lenet5"]["cpu-1"];
    assert!(why(one, "fixed").contains("cannot be told apart from `per_sample`"), "{one:?}");
    assert!((one.step().unwrap().seconds(32.0) / 4.2e-3 - 1.0).abs() < 0.02);
    let line = &fitted(&steps(&[8.0, 16.0, 32.0, 64.0])).step["lenet5"]["cpu-1"];
    assert!(close(line, "per_sample", 1e-4), "{line:?}");
    assert_eq!(line.value("floor"), Some(0.0));
    assert!(why(line, "floor").contains("no batch was small enough"), "{line:?}");
}

#[test]
fn reads_of_each_file_layout_are_fitted_separately() {
    let mut samples = reads(READ, &[1.0, 2.0]);
    let mut files = reads(ReadLaw { latency: 1e-3, ..READ }, &[1.0, 2.0]);
    for sample in &mut files {
        sample.labels.insert("layout".into(), "file-per-sample".into());
    }
    let alone = fitted(&files);
    samples.extend(files);
    let both = fitted(&samples);
    assert!(close(&both.read["direct"], "latency", 1e-4));
    assert!(close(&both.read["direct-file-per-sample"], "latency", 1e-3));
    assert!(close(&alone.read["direct"], "latency", 1e-3));
}

#[test]
fn relative_core_speed_queue_item_cost_and_run_to_run_noise_are_fitted() {
    let points = [(10_000.0, 40_000.0), (40_000.0, 160_000.0)];
    let mut samples = decodes(&points);
    let mut two = decodes(&points);
    let mut many = decodes(&points);
    // Two threads run at 0.8 times the speed of one, and eight get as much done as two threads of 0.7 times that speed.
    for (of, threads, speed) in [(&mut two, 2.0, 0.8), (&mut many, 8.0, 0.7)] {
        for sample in of.iter_mut() {
            sample.settings.insert("threads".into(), threads);
            sample.seconds /= 2.0 * speed;
        }
    }
    samples.extend(two);
    samples.extend(many);
    let settings = [("capacity", 64.0), ("producers", 1.0), ("consumers", 1.0)];
    samples.extend((0..5).map(|_| sample("queue", &[], &settings, 2e-7)));
    let profile = fitted(&samples);
    let cores = profile.cores.unwrap();
    assert!(close(&cores, "speed_2", 0.8), "{cores:?}");
    assert!(close(&cores, "speed_8", 0.7), "{cores:?}");
    assert!(close(&profile.queue.unwrap(), "per_item", 1e-7));
    let noise = profile.noise.unwrap();
    let [drift, trial] = ["run_to_run", "trial"].map(|name| noise.value(name).unwrap());
    assert!((0.003..0.01).contains(&drift.hypot(trial)), "{drift} and {trial}");
}

#[test]
fn a_machine_that_drifts_differs_from_run_to_run_and_one_whose_trials_vary_at_random_does_not() {
    // System: 12 kinds of steps, each with 16 trials of 0.1 s in turns. On one machine, trials differ by ±5 % at random, on the other
    // the machine slows down by 10 % from the first to the last. Expectation: all of the first is noise between trials; all of
    // the second is drift, a standard deviation of 10 % ÷ √12.
    let noise = |value: &dyn Fn(usize, usize) -> f64| {
        let kinds = (0..16).flat_map(|round| (1..=12).map(move |kind| (round, kind)));
        let trial = |(index, (round, kind)): (usize, (usize, usize))| {
            let batch = kind as f64;
            let seconds = batch * value(round, kind);
            let labels = [("model", "lenet5"), ("device", "cpu-1")];
            let mut one = sample("step", &labels, &[("batch", batch), ("threads", 1.0)], seconds);
            (one.operations, one.seconds, one.at) = (1, seconds, index as f64);
            one
        };
        let fit = fitted(&kinds.enumerate().map(trial).collect::<Vec<_>>()).noise.unwrap();
        ["run_to_run", "trial"].map(|name| fit.value(name).unwrap())
    };
    // Numbers from -0.5 to 0.5 that look random (SplitMix64).
    let random = |round: usize, kind: usize| {
        let mixed = ((16 * kind + round) as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
    };
    let [drift, trial] = noise(&|round, kind| 0.1 * (1.0 + 0.1 * random(round, kind)));
    assert!(drift < 0.01 && (0.025..0.033).contains(&trial), "{drift} and {trial}");
    let [drift, trial] = noise(&|round, _| 0.1 * (1.0 + 0.1 * (round as f64 / 15.0 - 0.5)));
    assert!((0.027..0.033).contains(&drift) && trial < 0.008, "{drift} and {trial}");
}

#[test]
fn fitted_step_time_jitter_is_the_median_over_trials() {
    let mut samples = steps(&[8.0, 16.0, 32.0, 64.0]);
    for (index, sample) in samples.iter_mut().enumerate() {
        sample.observed.insert("jitter".into(), if index == 3 { 5.0 } else { 0.02 });
    }
    let fit = &fitted(&samples).step["lenet5"]["cpu-1"];
    assert_eq!(fit.value("jitter"), Some(0.02));
    assert!(fit.draws.iter().all(|draw| draw.len() == 4));
}

#[test]
fn excluded_samples_do_not_influence_the_fitted_profile() {
    let samples = reads(READ, &[1.0, 2.0, 4.0]);
    let mut more = samples.clone();
    for sample in &samples {
        let seconds = 30.0 * sample.seconds;
        more.push(Sample { seconds, excluded: Some("load".into()), ..sample.clone() });
    }
    assert_eq!(fitted(&more), fitted(&samples));
    for sample in &mut more {
        sample.excluded = None;
    }
    assert_ne!(fitted(&more), fitted(&samples));
}

#[test]
fn equal_samples_give_identical_profiles_that_can_be_parsed() {
    let mut samples = reads(READ, &[1.0, 2.0, 8.0]);
    samples.extend(steps(&[1.0, 2.0, 4.0, 8.0]));
    samples.extend(decodes(&[(1e4, 4e4), (2e4, 5e4), (9e4, 1e5), (1e5, 1e6)]));
    let text = fitted(&samples).to_toml();
    assert_eq!(text, fitted(&samples).to_toml());
    assert_eq!(Profile::parse("p.toml", &text), Ok(fitted(&samples)));
}

#[test]
fn few_or_invalid_samples_give_valid_profiles() {
    let all = [reads(READ, &[1.0, 2.0]), steps(&[1.0, 8.0]), decodes(&[(1e4, 4e4)])].concat();
    assert_eq!(fitted(&[]).fits(), []);
    for one in &all {
        let profile = fitted(std::slice::from_ref(one));
        assert!(profile.fits().iter().all(|(_, fit)| fit.samples == 1 && fit.draws.is_empty()));
        assert_eq!(Profile::parse("p.toml", &profile.to_toml()), Ok(profile));
        let same = fitted(&vec![one.clone(); 9]);
        assert_eq!(Profile::parse("p.toml", &same.to_toml()), Ok(same));
    }
    let strange = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, 1e308, 5e-324];
    for value in strange {
        let mut bad = all.clone();
        for (index, sample) in bad.iter_mut().enumerate() {
            match index % 4 {
                0 => sample.seconds = value,
                1 => sample.core_seconds = value,
                2 => sample.settings.values_mut().for_each(|setting| *setting = value),
                _ => sample.at = value,
            }
        }
        let profile = fitted(&bad);
        assert_eq!(Profile::parse("p.toml", &profile.to_toml()), Ok(profile), "{value}");
    }
}

prop_compose! {
    fn any_sample()(
        probe in prop::sample::select(vec!["read", "decode", "step", "queue", "cache", ""]),
        label in prop::sample::select(vec!["direct", "jpeg", "x/y", ""]),
        settings in prop::collection::vec(prop_oneof![0.0..1e7f64, any::<f64>(), Just(1.0)], 4),
        seconds in prop_oneof![1e-9..1e3f64, any::<f64>()],
        core_seconds in prop_oneof![1e-9..1e3f64, any::<f64>()],
        operations in prop_oneof![1u64..1000, any::<u64>()],
        at in any::<f64>(),
    ) -> Sample {
        let names: [&str; 4] = match probe {
            "read" => ["size", "readers", "a", "b"],
            "decode" => ["bytes", "pixels", "resize", "threads"],
            "queue" => ["capacity", "producers", "consumers", "a"],
            _ => ["batch", "threads", "a", "b"],
        };
        let settings: Vec<(&str, f64)> = names.into_iter().zip(settings).collect();
        let labels = ["access", "format", "model", "device", "layout"].map(|name| (name, label));
        let one = sample(probe, &labels, &settings, 1.0);
        Sample { seconds, core_seconds, operations, at, ..one }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn any_samples_give_a_profile_that_can_be_parsed_without_panic(
        samples in prop::collection::vec(any_sample(), 0..25)
    ) {
        let profile = fitted(&samples);
        prop_assert_eq!(Profile::parse("p.toml", &profile.to_toml()), Ok(profile));
    }
}

/// System: reads behind a throttle of 44 MB/s, where a lone reader of small requests waits for ticks of the kernel's clock.
/// Expectation: the fit has the bandwidth and the wait as `latency`; it needs neither a limit of a stream nor of requests.
#[test]
fn a_limit_that_no_trial_needs_is_left_out_of_the_fit_of_reads() {
    let mut samples = Vec::new();
    for _ in 0..4 {
        for size in [32_768.0, 262_144.0, 1_048_576.0] {
            for readers in [1.0, 2.0, 4.0] {
                let each = f64::max(size / 44e6, 2.7e-3 / readers);
                let settings = [("size", size), ("readers", readers)];
                let labels = [("access", "direct"), ("layout", "records")];
                samples.push(sample("read", &labels, &settings, each));
            }
        }
    }
    wobble(&mut samples);
    let fit = fitted(&samples).read["direct"].clone();
    let of = |name: &str| fit.parameters[name].clone();
    assert!((of("bandwidth").value / 44e6 - 1.0).abs() < 0.01, "{fit:?}");
    assert!((of("latency").value / 2.7e-3 - 1.0).abs() < 0.02, "{fit:?}");
    for name in ["per_stream", "operations"] {
        assert!(of(name).value.is_infinite() && of(name).unidentified.is_some(), "{fit:?}");
    }
}

/// System: decoding and steps beside programs on both cores, where a thread gets half of a core, two threads a quarter of one
/// each. Expectation: steps cost what they take on a core of their own, and the speed of cores says what threads get; the same
/// with a quota of half a core in place of the programs, which the number of cores says.
#[test]
fn waits_for_cores_are_speeds_of_cores_and_no_cost_of_steps() {
    let one = |probe: &str, threads: f64, share: f64, beside: bool, trial: u32| {
        let labels: &[(&str, &str)] = match probe {
            "decode" => &[("format", "jpeg")],
            _ => &[("model", "lenet5"), ("device", "cpu-1")],
        };
        let size = f64::from(1 + trial % 3);
        let settings = [
            ("bytes", 1e4 * size),
            ("pixels", 5e4 * size),
            ("resize", 80.0),
            ("threads", threads),
            ("batch", 8.0 * size),
        ];
        let cost = 1e-3 * size * (1.0 + 1e-3 * f64::from(trial % 7));
        let mut of = sample(probe, labels, &settings, cost / share / threads);
        of.core_seconds = 10.0 * cost;
        of.observed = [("waited".to_owned(), of.core_seconds * (1.0 / share - 1.0))].into();
        of.beside = beside.then(|| "others kept cores busy: 1.5 cores".to_owned());
        Sample { at: f64::from(trial), trial, ..of }
    };
    let all = |beside: bool| -> Vec<Sample> {
        let both = |trial| {
            let two = if beside { 0.25 } else { 0.5 };
            [
                one("decode", 1.0, 0.5, beside, trial),
                one("decode", 2.0, two, beside, trial),
                one("step", 1.0, 0.5, beside, trial),
            ]
        };
        (0..21).flat_map(both).collect()
    };
    let step =
        |profile: &Profile| profile.step["lenet5"]["cpu-1"].step().expect("a law").seconds(16.0);
    let found = fitted(&all(true));
    let speed = |name: &str| found.cores.as_ref().expect("speeds").parameters[name].value;
    assert!((speed("speed_1") - 0.5).abs() < 1e-3 && (speed("speed_2") - 0.25).abs() < 1e-3);
    assert!((step(&found) / 2e-3 - 1.0).abs() < 0.01, "{}", step(&found));
    let host = Host { cores: 0.5, memory: 1e9 };
    let held = profile(&all(false), Provenance::default(), host);
    assert!((step(&held) / 2e-3 - 1.0).abs() < 0.01, "{}", step(&held));
    assert_eq!(held.cores, None, "no trial had more threads than the cores");
}
