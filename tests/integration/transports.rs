//! Published times of collectives: fitted on every second size, and predicted for the others.

use super::runs::repository;
use super::support::{Place, forebay};
use forebay::fit;
use forebay::import::collective::{Benchmark, CollectiveDefaults, read};
use forebay::measurement::Sample;
use forebay::profile::{Host, Profile, Provenance};
use std::collections::BTreeMap;
use std::fs;

const DEEPBENCH: &str = "calibrate/published/deepbench-allreduce.csv";

/// Returns the table's series by transport and ranks, each in ascending order of sizes.
fn series() -> Vec<Vec<Sample>> {
    let text = fs::read_to_string(repository(DEEPBENCH)).expect("the table");
    let wanted =
        CollectiveDefaults { transport: "deepbench".to_owned(), ..CollectiveDefaults::default() };
    let samples = read(Benchmark::DeepBench, &text, &wanted).expect("rows").samples;
    let mut series: BTreeMap<(String, u64), Vec<Sample>> = BTreeMap::new();
    for sample in samples {
        let key = (sample.label("transport").to_owned(), sample.setting("ranks") as u64);
        series.entry(key).or_default().push(sample);
    }
    let all: Vec<Vec<Sample>> = series.into_values().collect();
    let ascends = |pair: &[Sample]| pair[0].setting("bytes") < pair[1].setting("bytes");
    assert!(all.iter().all(|one| one.len() == 7 && one.windows(2).all(ascends)));
    assert_eq!(all.len(), 15, "three GPUs, five numbers of ranks");
    all
}

fn fitted(samples: &[Sample]) -> Profile {
    fit::profile(samples, Provenance::default(), Host::default())
}

#[test]
fn allreduce_times_of_held_out_message_sizes_are_interpolated() {
    // System: DeepBench's allreduce on 2 to 32 GPUs of three kinds, in which every second of seven sizes is known. Expectation:
    // half of the other sizes are predicted within 5 %. Where the same algorithm was the fastest at a size and at both of its
    // neighbours, the error is below 20 %; where it changes at one of them, as from a ring to NCCL, it is about the jump.
    let (mut errors, mut same) = (Vec::new(), Vec::new());
    for one in series() {
        let algorithms: Vec<String> = one.iter().map(|s| s.label("algorithm").to_owned()).collect();
        let (fitting, held_out): (Vec<_>, Vec<_>) =
            one.into_iter().enumerate().partition(|(index, _)| index % 2 == 0);
        let fitting: Vec<Sample> = fitting.into_iter().map(|(_, sample)| sample).collect();
        let profile = fitted(&fitting);
        let fit = profile.transport.values().flat_map(BTreeMap::values).next().expect("a fit");
        let law = fit.transport().expect("a law");
        let error = |sample: &Sample| {
            (law.seconds(sample.setting("bytes"), 0.0) / sample.seconds_each() - 1.0).abs()
        };
        for (index, sample) in &held_out {
            errors.push(error(sample));
            if algorithms[index - 1..=index + 1].iter().all(|name| *name == algorithms[*index]) {
                same.push(error(sample));
            }
        }
    }
    assert_eq!(errors.len(), 45);
    errors.sort_by(f64::total_cmp);
    let worst = same.iter().copied().fold(0.0, f64::max);
    assert!(
        errors[22] <= 0.05 && same.len() >= 15 && worst <= 0.2,
        "{}, {}, {worst}",
        errors[22],
        same.len()
    );
}

#[test]
fn fits_detect_changes_of_the_allreduce_algorithm_with_message_size() {
    // 16 GPUs on two nodes: at 64 MiB the ring was the fastest algorithm, but slower than NCCL at more than
    // twice the size. Expectation: a range of its own for this size, and NCCL's line on both sides.
    let all: Vec<Sample> = series().concat();
    let law = fitted(&all).transport["gtx-1080-ti"]["allreduce-16"].transport().expect("a law");
    let line = |size: f64| (law.range(size).alpha, law.range(size).beta);
    assert_eq!(line(26_214_400.0), line(153_440_000.0), "{law:?}");
    assert_ne!(line(67_108_864.0), line(153_440_000.0));
    assert!(law.seconds(67_108_864.0, 0.0) > law.seconds(153_440_000.0, 0.0));
    for (size, measured) in
        [(26_214_400.0, 9.22128e-3), (67_108_864.0, 56.93717e-3), (153_440_000.0, 53.91406e-3)]
    {
        let error = law.seconds(size, 0.0) / measured - 1.0;
        assert!(error.abs() < 0.03, "{size}: {error}");
    }
}

#[test]
fn importing_a_benchmark_as_a_profile_equals_fitting_imported_measurements() {
    let place = Place::new();
    let table = repository(DEEPBENCH);
    let table = table.to_str().expect("a path");
    let text = |arguments: &[&str]| {
        let output = forebay(arguments).assert().success().get_output().stdout.clone();
        String::from_utf8(output).expect("text")
    };
    place.write("samples.jsonl", &text(&["import", "deepbench", table]));
    let direct = text(&["import", "deepbench", table, "--format", "profile"]);
    let direct = Profile::parse("direct", &direct).expect("a profile");
    let output = place.forebay(&["profile", "fit", "samples.jsonl"]).assert().success();
    let fitted = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    let fitted = Profile::parse("fitted", &fitted).expect("a profile");
    assert_eq!(direct.transport, fitted.transport);
    assert_eq!(direct.transport.len(), 3);
    place.write("p.toml", &direct.to_toml());
    let shown = place.forebay(&["profile", "show", "p.toml"]).assert().success();
    let shown = String::from_utf8_lossy(&shown.get_output().stdout).into_owned();
    assert!(shown.contains("allreduce-32") && shown.contains(" ps/B"), "{shown}");
    place.forebay(&["profile", "plot", "p.toml", "--output", "figures"]).assert().success();
    assert!(place.path("figures/transport-titan-x-allreduce-32.svg").exists());
}

#[test]
fn unusable_benchmark_tables_are_refused() {
    let place = Place::new();
    place.write(
        "osu.txt",
        "# OSU MPI Allreduce Latency Test v7.0\n# Size  Avg Latency(us)\n8  1.5\n",
    );
    place.write("empty.txt", "");
    let refused = |arguments: &[&str], words: &str| {
        let assert = place.forebay(arguments).assert().code(2);
        let error = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(error.contains(words), "{arguments:?}: {error}");
    };
    refused(&["import", "osu", "osu.txt"], "cannot use osu.txt: line 3: no line before this row");
    refused(&["import", "osu", "osu.txt", "--collective", "dance"], "write one of allreduce");
    refused(&["import", "osu", "osu.txt", "--ranks", "4", "--name", " "], "--name is empty");
    refused(&["import", "imb", "empty.txt"], "cannot use empty.txt: the file has no rows");
    refused(&["import", "nccl-tests", "no.txt"], "cannot read no.txt: no such file");
    place.forebay(&["import", "osu", "osu.txt", "--ranks", "4"]).assert().success();
}
