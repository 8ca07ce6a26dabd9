//! Tests of learners, copies and memory. Known laws are recovered from noisy trials, also at points that were not measured; what
//! trials cannot identify is reported.

use super::profile;
use crate::measurement::Sample;
use forebay_model::law::{CopyLaw, StepLaw};
use forebay_model::random::Generator;
use forebay_scenario::profile::{Fit, Host, Provenance};
use rand::{RngExt, SeedableRng};

/// Returns steps of one, two and four learners that train at the same time, five trials for each batch and number of learners.
/// Step times vary randomly by up to ±`noise`.
fn steps(
    slowdown: impl Fn(f64, f64) -> f64,
    batches: &[f64],
    noise: f64,
    seed: u64,
) -> Vec<Sample> {
    let mut generator = Generator::seed_from_u64(seed);
    let mut samples = Vec::new();
    for repeat in 0..5 {
        for &batch in batches {
            for learners in [1.0, 2.0, 4.0] {
                let each = (1e-3 + 2e-5 * batch) * slowdown(batch, learners);
                let noisy = each * (1.0 + noise * (2.0 * generator.random::<f64>() - 1.0));
                samples.push(step(batch, learners, noisy, f64::from(repeat)));
            }
        }
    }
    samples
}

fn step(batch: f64, learners: f64, seconds: f64, at: f64) -> Sample {
    let several = if learners > 1.0 { format!("-{learners}-learners") } else { String::new() };
    let device = format!("cuda-0-fp32-graph{several}");
    let labels = [("model", "lenet5"), ("device", &device), ("precision", "fp32")];
    let settings = [("batch", batch), ("learners", learners), ("gpu", 0.0), ("graph", 1.0)];
    Sample {
        probe: "step".into(),
        labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
        trial: at as u32,
        operations: 1,
        seconds,
        core_seconds: 0.0,
        observed: [("memory".to_owned(), 3e8 + 1e6 * batch)].into(),
        beside: None,
        excluded: None,
        at,
    }
}

fn fitted(samples: &[Sample]) -> forebay_scenario::profile::Profile {
    profile(samples, Provenance::default(), Host { cores: 2.0, memory: 1e9 })
}

fn sharing(samples: &[Sample]) -> Option<Fit> {
    fitted(samples).learners.remove("lenet5")?.remove("cuda-0-fp32-graph")
}

/// Returns the factor by which a step is slower beside `learners - 1` others, if each of them adds `added` to the step.
fn slowdown(added: StepLaw, batch: f64, learners: f64) -> f64 {
    1.0 + (learners - 1.0) * added.seconds(batch) / (1e-3 + 2e-5 * batch)
}

const fn added(fixed: f64, per_sample: f64) -> StepLaw {
    StepLaw { floor: 0.0, fixed, per_sample }
}

const BATCHES: [f64; 5] = [1.0, 4.0, 16.0, 64.0, 256.0];

/// System: each other learner adds 0.3 ms and 5 us for each sample, or nothing but 18 us for each sample; equal trials differ by up
/// to 3 %. Expectation: intervals contain both parameters, and predicted steps are within a few per cent at batches and numbers of
/// learners that were not measured.
#[test]
fn the_fit_recovers_what_each_learner_adds_to_the_steps_of_others() {
    for (law, seed) in [(added(3e-4, 5e-6), 1), (added(0.0, 1.8e-5), 2), (added(5e-4, 0.0), 3)] {
        let samples = steps(|b, k| slowdown(law, b, k), &BATCHES, 0.03, seed);
        let fit = sharing(&samples).expect("a fit");
        for (name, truth) in [("fixed", law.fixed), ("per_sample", law.per_sample)] {
            let found = &fit.parameters[name];
            let [low, high] = found.ci95.expect("an interval");
            assert!(low <= truth && truth <= high, "{truth}: {found:?}");
        }
        let found = fit.step().expect("a law");
        for (batch, learners) in [(2.0, 3.0), (12.0, 3.0), (48.0, 3.0), (128.0, 2.0), (8.0, 8.0)] {
            let error = slowdown(found, batch, learners) / slowdown(law, batch, learners) - 1.0;
            assert!(error.abs() < 0.05, "{law:?}, {batch}, {learners}: {error}");
        }
        assert_eq!((fit.samples, fit.range["learners"]), (75, [1.0, 4.0]));
    }
}

/// System: one learner with batches of 4, 16 and 64, two and four with batches of 4 and 32; each adds 0.3 ms and 5 us for each sample.
/// Expectation: the batch of 32 counts, against steps of one learner between 16 and 64, so that both values are found; with batches of
/// 4 and 100, which is beyond them, only the first counts.
#[test]
fn learners_are_compared_with_steps_between_the_batches_of_one_learner() {
    let law = added(3e-4, 5e-6);
    let timed = |several: [f64; 2]| {
        let all = steps(|b, k| slowdown(law, b, k), &[4.0, 16.0, 32.0, 64.0, 100.0], 0.001, 8);
        let kept = |sample: &Sample| {
            let batch = sample.setting("batch");
            let alone = [4.0, 16.0, 64.0].contains(&batch);
            if sample.setting("learners") > 1.0 { several.contains(&batch) } else { alone }
        };
        sharing(&all.into_iter().filter(kept).collect::<Vec<_>>()).expect("a fit")
    };
    let both = timed([4.0, 32.0]);
    let found = both.step().expect("a law");
    assert!((found.fixed / 3e-4 - 1.0).abs() < 0.05, "{found:?}");
    assert!((found.per_sample / 5e-6 - 1.0).abs() < 0.1, "{found:?}");
    assert!(both.parameters.values().all(|of| of.unidentified.is_none()), "{both:?}");
    assert_eq!(both.range["batch"], [4.0, 32.0]);
    let first = timed([4.0, 100.0]);
    assert!(first.parameters["fixed"].unidentified.is_some() && first.range["batch"] == [4.0, 4.0]);
}

/// System: 100 calibrations of learners that add 0.3 ms and 5 us for each sample. Expectation: the 95 % interval contains both in
/// at least 88 of them (five standard errors below 95 are 84).
#[test]
fn intervals_of_what_learners_add_contain_the_true_values() {
    let law = added(3e-4, 5e-6);
    let mut held = [0, 0];
    for seed in 0..100 {
        let samples = steps(|b, k| slowdown(law, b, k), &BATCHES, 0.03, 100 + seed);
        let refs: Vec<&Sample> = samples.iter().collect();
        let fit = super::learners::sharing(&refs, 120).expect("a fit");
        for (held, (name, truth)) in
            held.iter_mut().zip([("fixed", law.fixed), ("per_sample", law.per_sample)])
        {
            let [low, high] = fit.parameters[name].ci95.expect("an interval");
            *held += usize::from(low <= truth && truth <= high);
        }
    }
    assert!(held.iter().all(|held| *held >= 88), "{held:?}");
}

/// System: one trial in ten of four learners takes half as long again; without it, they add 0.3 ms and 5 us for each sample.
/// Expectation: the law hardly moves.
#[test]
fn disturbed_trials_hardly_move_what_learners_add() {
    let law = added(3e-4, 5e-6);
    let mut samples = steps(|b, k| slowdown(law, b, k), &BATCHES, 0.005, 4);
    let several = samples.iter_mut().filter(|sample| sample.setting("learners") == 4.0);
    several.step_by(10).for_each(|sample| sample.seconds *= 1.5);
    let found = sharing(&samples).expect("a fit").step().expect("a law");
    for batch in BATCHES {
        let error = found.seconds(batch) / law.seconds(batch) - 1.0;
        assert!(error.abs() < 0.1, "{batch}: {error}");
    }
}

/// System: learners that never slow each other down, that add 10 ns for each sample where equal trials differ by 1 %, or that always
/// share a full GPU; one batch; one learner alone. Expectation: little or nothing is added, and that is identified; k learners on a full
/// GPU take k times as long; with one batch the fit takes the addition to grow in proportion to the batch; no fit with one learner alone.
#[test]
fn additions_of_learners_that_trials_do_not_determine_are_reported_with_reasons() {
    let alone = sharing(&steps(|_, _| 1.0, &BATCHES, 0.0, 1)).expect("a fit");
    assert!(alone.parameters.values().all(|of| of.value == 0.0 && of.unidentified.is_none()));
    let little = added(0.0, 1e-8);
    let little = sharing(&steps(|b, k| slowdown(little, b, k), &BATCHES, 0.01, 1)).expect("a fit");
    assert!(little.parameters.values().all(|of| of.unidentified.is_none()), "{little:?}");
    assert!(little.step().expect("a law").seconds(256.0) < 2e-4);
    let full = sharing(&steps(|_, k| k, &BATCHES, 0.0, 1)).expect("a fit");
    let law = full.step().expect("a law");
    assert!((law.fixed / 1e-3 - 1.0).abs() < 0.01 && (law.per_sample / 2e-5 - 1.0).abs() < 0.01);
    assert!(full.parameters.values().all(|of| of.unidentified.is_none()), "{full:?}");
    let one = sharing(&steps(|_, k| k, &[16.0], 0.01, 1)).expect("a fit");
    let reason = one.parameters["fixed"].unidentified.clone().expect("a reason");
    assert!(reason.contains("0 is assumed"), "{reason}");
    assert_eq!(one.parameters["per_sample"].unidentified, None);
    assert!((one.step().expect("a law").seconds(16.0) / 1.32e-3 - 1.0).abs() < 0.02);
    let mut single = steps(|_, _| 1.0, &BATCHES, 0.0, 1);
    single.retain(|sample| sample.setting("learners") == 1.0);
    assert_eq!(sharing(&single), None);
}

/// System: additions that grow with the square root of the batch, which the law cannot represent. Expectation: a large residual,
/// and a wider interval than that of a law that holds.
#[test]
fn learners_that_violate_the_law_of_additions_have_a_large_fit_residual() {
    let curved = |b: f64, k: f64| slowdown(added(1e-4 * b.sqrt(), 0.0), b, k);
    let fit = sharing(&steps(curved, &BATCHES, 0.005, 1)).expect("a fit");
    assert!(fit.residual > 0.02, "{}", fit.residual);
    let straight = |b, k| slowdown(added(3e-4, 5e-6), b, k);
    let plain = sharing(&steps(straight, &BATCHES, 0.005, 1)).expect("a fit");
    let width = |fit: &Fit| {
        let slope = &fit.parameters["per_sample"];
        slope.ci95.map(|[low, high]| (high - low) / slope.value).expect("an interval")
    };
    assert!(width(&fit) > 5.0 * width(&plain), "{} {}", width(&fit), width(&plain));
}

/// System: copies of 4 KiB to 256 MiB, with 8 us and 25 GB/s alone, 12 us and 18 GB/s beside a step, and 8 us and 9 GB/s beside 12
/// threads that decode; trials vary by 4 %.
/// Expectation: three laws, each under its name, which are right at sizes in between.
#[test]
fn gpu_copies_alone_and_beside_other_work_are_fitted_separately() {
    let mut generator = Generator::seed_from_u64(4);
    let laws = [("", 8e-6, 25e9), ("step", 12e-6, 18e9), ("decode", 8e-6, 9e9)];
    let mut samples = Vec::new();
    for repeat in 0..6 {
        for (beside, latency, bandwidth) in laws {
            for size in [4096.0, 65536.0, 1_048_576.0, 16_777_216.0, 268_435_456.0] {
                let law = CopyLaw { latency, bandwidth };
                let noise = 1.0 + 0.04 * (generator.random::<f64>() - 0.5);
                let mut sample = step(0.0, 1.0, law.seconds(size) * noise, f64::from(repeat));
                sample.probe = "copy".into();
                sample.labels = [("memory", "pinned"), ("device", "cuda-0"), ("beside", beside)]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into();
                sample.settings = [("size".to_owned(), size)].into();
                if beside == "decode" {
                    sample.settings.insert("threads".to_owned(), 12.0);
                }
                samples.push(sample);
            }
        }
    }
    let profile = fitted(&samples);
    let of_gpu = &profile.copy["cuda-0"];
    for (beside, latency, bandwidth) in laws {
        let name = match beside {
            "" => "pinned",
            "step" => "pinned-beside-step",
            _ => "pinned-beside-decode-12",
        };
        let found = of_gpu[name].copy().expect("a law");
        let truth = CopyLaw { latency, bandwidth };
        for bytes in [16_384.0, 262_144.0, 4e6, 1e8] {
            let error = found.seconds(bytes) / truth.seconds(bytes) - 1.0;
            assert!(error.abs() < 0.03, "{name}, {bytes}: {error}");
        }
    }
    let again =
        forebay_scenario::profile::Profile::parse("p.toml", &profile.to_toml()).expect("a profile");
    assert_eq!(again, profile);
}

/// System: each learner takes 400 MB, and 2 MB for each sample, from the GPU, and reports a block of 300 MB, and 1 MB for each
/// sample; one, two and four learners. Expectation: the memory of one learner, in bytes: what was taken from the GPU, or the
/// block if that was not observed.
#[test]
fn gpu_memory_is_fitted_as_a_linear_function_of_batch_size() {
    let mut samples = steps(|_, _| 1.0, &BATCHES, 0.0, 1);
    for sample in &mut samples {
        let taken = sample.setting("learners") * (4e8 + 2e6 * sample.setting("batch"));
        sample.observed.insert("memory_taken".to_owned(), taken);
    }
    let profile = fitted(&samples);
    let fit = &profile.memory["lenet5"]["cuda-0-fp32-graph"];
    assert_eq!((fit.value("fixed"), fit.value("per_sample")), (Some(4e8), Some(2e6)));
    for sample in &mut samples {
        sample.observed.remove("memory_taken");
    }
    let fit = &fitted(&samples).memory["lenet5"]["cuda-0-fp32-graph"];
    assert_eq!((fit.value("fixed"), fit.value("per_sample")), (Some(3e8), Some(1e6)));
}
