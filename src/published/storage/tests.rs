//! Tests of official results and their predictions.

use super::*;

fn results() -> StorageResults {
    StorageResults::parse("mlperf.toml", STORAGE).expect("results")
}

#[test]
fn official_results_agree_with_the_rounds_own_definitions() {
    // From v2.0 on, samples per second and utilisation are one number; in v1.0 the first batch lies between them.
    for system in results().systems {
        for of in system.results {
            let share = of.samples_per_second / of.fastest();
            match StorageResult::counts_first(&system.round) {
                true => assert!(share < of.utilisation + 0.002, "line {}: {share}", of.line),
                false => {
                    assert!((share - of.utilisation).abs() < 0.002, "line {}: {share}", of.line)
                }
            }
        }
    }
}

#[test]
fn the_imports_defaults_agree_with_a_fit_to_all_results() {
    let all = results();
    for (round, workload, step) in [
        ("v1.0", "unet3d", 0.323),
        ("v3.0", "unet3d", 0.162),
        ("v3.0", "retinanet", 0.0477),
        ("v1.0", "resnet50", 0.224),
        ("v1.0", "cosmoflow", 3.5e-3),
    ] {
        let (usual, source) = crate::import::dlio::beside(workload, step).expect("constants");
        let law = fit(&all, round, workload, None).expect("results");
        assert!(source.starts_with(&format!("{} official results", law.results)), "{source}");
        for (ranks, hosts) in [(1, 1), (10, 1), (24, 3)] {
            let [usual, fitted] = [usual, law.beside].map(|of| of.slowest(ranks, hosts, 64));
            let points = 100.0 * (usual - fitted) / step;
            assert!(points.abs() < 0.5, "{workload} {round}, {ranks} ranks: {usual} {fitted}");
        }
    }
}

#[test]
fn a_file_with_values_that_no_measurement_has_is_refused_with_its_line() {
    let refused = |from: &str, to: &str| {
        let text = STORAGE.replacen(from, to, 1);
        assert_ne!(text, STORAGE, "{from}");
        StorageResults::parse("mine.toml", &text).map(|_| ()).expect_err(to)
    };
    let error = refused("utilisation = 0.92200", "utilisation = 92.2");
    assert!(
        error.to_string().contains("mine.toml:") && error.what.contains("share from 0 to 1"),
        "{error}"
    );
    assert!(refused("ranks = 20,", "ranks = 0,").what.contains("`ranks` is 0"));
    assert!(refused("hosts = 1,", "hosts = 99,").what.contains("`hosts` is 99"));
    assert!(refused("[[system]]\nround", "[[systems]]\nround").what.contains("cannot be used"));
    assert!(refused("step = 0.224", "step = nan").what.contains("`step`"));
}

#[test]
fn the_fit_finds_the_constants_that_made_the_results() {
    // System: the results' own systems, with samples per second that the closed form gives for known constants. Expectation: the same
    // constants, also without one submitter.
    let all = results();
    let mut made = all.clone();
    let of = crate::import::dlio::Beside { varying: 3e-3, serial: 1.5e-3, threads: 1, work: 0.0 };
    for system in &mut made.systems {
        system.read_bandwidth = Some(1e15);
        let unchanged = system.clone();
        for result in &mut system.results {
            let start = start(&all, &unchanged, result);
            let row = law::Known { of: result, system: &unchanged, bandwidth: 1e15, start };
            result.samples_per_second = law::expected(&row, &of);
        }
    }
    for without in [None, Some("IEI")] {
        let law = fit(&made, "v1.0", "unet3d", without).expect("results");
        assert!((law.beside.varying / of.varying - 1.0).abs() < 0.02, "{law:?}");
        assert!((law.beside.serial / of.serial - 1.0).abs() < 0.02, "{law:?}");
    }
    assert!(fit(&made, "v1.0", "none", None).is_none());
}

#[test]
fn the_imports_starts_agree_with_the_medians_of_all_results() {
    use crate::import::dlio::{START_OF_RESNET50, START_OF_WORKER, START_PER_FILE};
    let all = results();
    let nobody = System { submitter: "nobody".to_owned(), ..all.systems[0].clone() };
    let found = |workload: &str| {
        let of = all.systems.iter().flat_map(|system| &system.results);
        let of = of.clone().find(|of| of.workload == workload).expect("a result");
        (of, start(&all, &nobody, of))
    };
    let near = |shipped: f64, found: f64| assert!((shipped / found - 1.0).abs() < 0.03, "{found}");
    let (of, seconds) = found("unet3d");
    // Workers start once in the five epochs of a run.
    near(START_OF_WORKER, 5.0 * seconds / f64::from(of.workers));
    let (of, seconds) = found("cosmoflow");
    near(START_PER_FILE, seconds / (f64::from(of.ranks) * f64::from(of.steps)));
    near(START_OF_RESNET50, found("resnet50").1);
}

#[test]
fn first_batches_are_predicted_from_those_of_the_systems_other_results() {
    // System: two results of U-Net3D whose first batches come at 1 and 2 GB/s. Expectation: the first is predicted at 2 GB/s, the second at
    // 1 GB/s; TensorFlow's, and the only result of a system, at the system's bandwidth.
    let all = results();
    let of = |rate: f64| {
        let one = all.systems[0].results[1].clone();
        let bytes = one.bytes_of_step() * f64::from(one.workers);
        StorageResult { first_batch_later: Some(bytes / rate), ..one }
    };
    let (slow, fast) = (of(1e9), of(2e9));
    let tensorflow = StorageResult { workload: "resnet50".to_owned(), ..slow.clone() };
    let system = System {
        results: vec![slow.clone(), fast.clone(), tensorflow.clone()],
        ..all.systems[0].clone()
    };
    let near = |of, rate: f64| {
        let found = system.bandwidth_of_first_batches(of).expect("a bandwidth");
        assert!((found / rate - 1.0).abs() < 1e-9, "{found}");
    };
    near(&slow, 2e9);
    near(&fast, 1e9);
    assert_eq!(system.bandwidth_of_first_batches(&tensorflow), None);
    let alone = System { results: vec![slow.clone()], ..system };
    assert_eq!(alone.bandwidth_of_first_batches(&slow), None);
}
