//! Limits of a process on its machine: every command reports and accepts the same. Limits that need root, such
//! as control group quotas and another user's process limit, are tested by `tests/robustness/limits.sh`.

use super::runs::repository;
use super::support::Place;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;

/// Runs the program on the first available core only; returns its output.
fn on_one_core(place: &Place, arguments: &[&str]) -> std::process::Output {
    let all = sched_getaffinity(None).expect("a mask");
    let mut one = CpuSet::new();
    let first = (0..CpuSet::MAX_CPU).find(|core| all.is_set(*core));
    one.set(first.expect("a core"));
    sched_setaffinity(None, &one).expect("a mask");
    let output = place.forebay(arguments).output().expect("a process");
    sched_setaffinity(None, &all).expect("a mask");
    output
}

pub(crate) const LIVE: &str = r#"
name = "l"
[run]
steps = 3
warm_up = "off"
replications = 1
[cluster]
nodes = 1
share_nodes = true
node = {}
[storage.m.memory]
[dataset.d]
samples = 64
sample_size = "1 KiB"
[[job]]
name = "j"
dataset = "d"
storage = "m"
batch = 4
loader.tf-queue = { threads = 1, capacity = "16 samples", decode = "10 us" }
model.step = "1 ms"
"#;

#[test]
fn every_command_respects_the_cpu_affinity_mask() {
    // System: a process that may use one core. Expectation: doctor reports 1; live accepts 1 core and refuses
    // 1.5 and 2 with code 3; a plan whose points need 2 cores is predicted with a warning, and refused before
    // its first run.
    let place = Place::new();
    place.write("l.toml", LIVE);
    let profile = std::fs::read_to_string(repository("calibrate/profiles/example.toml"));
    place.write("profile.toml", &profile.expect("a shipped profile"));
    place.write(
        "plan.toml",
        "scenario = \"l.toml\"\nrepetitions = 1\nretries = 0\npredictions = 2\n[[point]]\nname = \"p\"\nuse = \"held-out\"\n",
    );
    let doctor = on_one_core(&place, &["doctor", "--format", "json"]);
    let said: Value = serde_json::from_slice(&doctor.stdout).expect("JSON");
    assert!(said["cores"].as_f64().is_some_and(|cores| cores <= 1.0), "{said}");
    let cores = said["cores"].to_string();
    let cores = cores.trim_end_matches(".0");
    let live = |number: &str| {
        let set = format!("cluster.node.cores={number}");
        let output = on_one_core(&place, &["live", "l.toml", "--set", &set]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(live(cores).0, Some(0), "{}", live(cores).1);
    for number in ["1.5", "2"] {
        let (code, said) = live(number);
        assert_eq!(code, Some(3), "{said}");
        let expected = format!("has {number} cores, and this process may use {cores}: write");
        assert!(said.contains(&expected), "{said}");
    }
    // The profile's machine has two cores.
    let plan = ["validate", "plan.toml", "--profile", "profile.toml"];
    let predicted = on_one_core(&place, &[&plan[..], &["--predict-only"]].concat());
    let said = String::from_utf8_lossy(&predicted.stderr).into_owned();
    assert!(
        predicted.status.success() && said.contains("point \"p\" cannot be run here"),
        "{said}"
    );
    assert!(said.contains("has 2 cores, and this process may use"), "{said}");
    let quiet = on_one_core(&place, &[&plan[..], &["--predict-only", "-q"]].concat());
    assert!(quiet.status.success() && quiet.stderr.is_empty());
    let run = on_one_core(&place, &plan);
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.code() == Some(3) && said.contains("has 2 cores"), "{said}");
}

#[test]
fn fractional_core_counts_give_proportional_decoding_throughput() {
    // System: two workers that each compute for 1 ms a sample, on 1.5 cores, as a setting or from the profile's
    // machine. Expectation: 1500 samples a second in both cases.
    let place = Place::new();
    place.write("l.toml", LIVE);
    let profile = std::fs::read_to_string(repository("calibrate/profiles/example.toml"));
    let profile = profile.expect("a shipped profile").replace("cores = 2.0", "cores = 1.5");
    place.write("profile.toml", &profile);
    let rate = |more: &[&str]| {
        let loader =
            "job.loader.tf-queue={ threads = 2, capacity = \"16 samples\", decode = \"1 ms\" }";
        let set = ["run", "l.toml", "--format", "json", "--set", loader, "--set", "run.steps=400"];
        let out = place.forebay(&[&set[..], more].concat()).assert().success();
        let report: Value = serde_json::from_slice(&out.get_output().stdout).expect("JSON");
        report["jobs"][0]["samples_per_second"]["mean"].as_f64().expect("a rate")
    };
    let speed = "cluster.node.core_speed=[1.0]";
    let written = rate(&["--set", "cluster.node.cores=1.5"]);
    let measured = rate(&["--profile", "profile.toml", "--set", speed]);
    assert!((written / 1500.0 - 1.0).abs() < 0.02, "{written}");
    assert!((measured / written - 1.0).abs() < 0.01, "{measured}");
    let quarter = rate(&["--set", "cluster.node.cores=0.25"]);
    assert!((quarter / 250.0 - 1.0).abs() < 0.02, "{quarter}");
    let fifo = "cluster.node={ cores = 1.5, scheduling = \"fifo\" }";
    let out = place.forebay(&["run", "l.toml", "--set", fifo]).assert().code(2);
    let said = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
    assert!(
        said.contains("needs a whole number of cores") && said.contains("scheduling"),
        "{said}"
    );
}

#[test]
fn directories_with_names_outside_utf8_are_accepted() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    place.write("l.toml", &LIVE.replace("m.memory]", "m.local-disk]\naccess = \"warm\""));
    let odd = std::ffi::OsStr::from_bytes(b"w\xff");
    std::fs::create_dir(place.directory().join(odd)).expect("a directory");
    let set = ["live", "l.toml", "--set", "cluster.node.cores=1", "--directory"];
    place.forebay(&set).arg(odd).assert().success();
    let calibrate = ["calibrate", "--only", "clock", "--budget", "1 s", "--data"];
    std::fs::write(place.directory().join(odd).join("f"), "x").expect("a file");
    let run = || {
        let done = place.forebay(&calibrate).arg(odd).output().expect("a process");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        // Beside other programs, a trend may exclude all trials of a second.
        assert!(done.status.success() || said.contains("nothing measured of clock"), "{said}");
    };
    run();
    // The same calibration resumes: its samples identify their data by the bytes of the directory's name.
    run();
}
