//! `run --uncertainty`: the prediction interval of one run.

use serde_json::Value;

use super::base::one_job;
use super::runs::repository;
use super::support::{Place, forebay};

const MACHINE: &str = r#"# Where will one run lie?
name = "uncertain"
profile = "machine.toml"
[run]
steps = 60
warm_up = "off"
seed = 1
[cluster]
nodes = 1
[storage.s.local-disk]
access = "direct"
"#;

fn scenario() -> String {
    one_job(MACHINE, 10_000, 1, "[job.model]\nstep = \"100 us\"\n")
}

/// Returns a profile whose bootstrap samples have these latencies to the first byte, and whose repeated runs
/// differ by the relative deviation `noise`.
fn profile(draws: &[f64], noise: f64) -> String {
    let draws: Vec<String> = draws.iter().map(|draw| format!("[{draw:e}]")).collect();
    format!(
        "[provenance]\nmachine = \"\"\nforebay = \"\"\ndate = \"\"\nplan = \"\"\nsamples = \"\"\n\
         [host]\ncores = 4.0\nmemory = 1e9\n\
         [read.direct]\nsamples = 9\nresidual = 0.0\nrange = {{ size = [1e3, 1e6] }}\ndraws = [{}]\n\
         parameters.latency = {{ value = 1e-3, unit = \"s\" }}\n\
         [noise]\nsamples = 9\nresidual = 0.0\n\
         parameters.run_to_run = {{ value = {noise:e}, unit = \"1\" }}\n",
        draws.join(", ")
    )
}

/// Returns the report of a run in `place`, without its wall time.
fn report(place: &Place, arguments: &[&str]) -> Value {
    let arguments = [&["-q", "run", "u.toml", "--format", "json"], arguments].concat();
    let output = place.forebay(&arguments).assert().success().get_output().stdout.clone();
    let mut report: Value = serde_json::from_slice(&output).expect("JSON");
    report["wall_time"] = Value::Null;
    report
}

/// Returns the ends of a prediction interval of the only job.
fn interval(report: &Value, figure: &str) -> [f64; 2] {
    let figure = report.pointer(&format!("/jobs/0/{figure}/prediction90")).expect("an interval");
    [0, 1].map(|end| figure[end].as_f64().expect("a number"))
}

fn place(draws: &[f64], noise: f64) -> Place {
    let place = Place::new();
    place.write("u.toml", &scenario());
    place.write("machine.toml", &profile(draws, noise));
    place
}

#[test]
fn prediction_intervals_widen_with_profile_uncertainty_and_noise() {
    // System: one thread, 1 ms to the first byte and nothing else, 16 ms a batch. Expectation: bootstrap
    // samples from 0.9 to 1.1 ms give steps from 14.4 to 17.6 ms; equal samples without noise give a single
    // point; noise of 2 % gives about 1.645 · 2 % on both sides.
    let run = |draws: &[f64], noise| {
        let report = report(&place(draws, noise), &["--uncertainty", "99"]);
        let ends = interval(&report, "step_time");
        let (rate, stall) =
            (interval(&report, "samples_per_second"), interval(&report, "stall/total"));
        assert!(rate[0] <= rate[1] && stall[0] <= stall[1] && stall[1] < 1.0);
        assert!((rate[0] * ends[1] / 16.0 - 1.0).abs() < 0.01, "a rate is one over a time");
        [ends[0] / 16e-3, ends[1] / 16e-3]
    };
    let point = run(&[1e-3, 1e-3], 0.0);
    assert!((point[0] - 1.0).abs() < 0.01 && point[0] == point[1], "{point:?}");
    let narrow = run(&[0.98e-3, 1e-3, 1.02e-3], 0.0);
    assert!((narrow[0] - 0.98).abs() < 0.01 && (narrow[1] - 1.02).abs() < 0.01, "{narrow:?}");
    let wide = run(&[0.9e-3, 1e-3, 1.1e-3], 0.0);
    assert!((wide[0] - 0.9).abs() < 0.01 && (wide[1] - 1.1).abs() < 0.01, "{wide:?}");
    let noisy = run(&[1e-3], 0.02);
    let half = (noisy[1] - noisy[0]) / 2.0;
    assert!((half / 0.033 - 1.0).abs() < 0.35, "{noisy:?}");
}

#[test]
fn reports_with_uncertainty_do_not_depend_on_the_number_of_threads() {
    let place = place(&[0.9e-3, 1e-3, 1.1e-3], 0.02);
    let one = report(&place, &["--uncertainty", "24", "--threads", "1"]);
    let three = report(&place, &["--uncertainty", "24", "--threads", "3"]);
    assert_eq!(one, three);
    let other = report(&place, &["--uncertainty", "24", "--seed", "2"]);
    assert_ne!(interval(&one, "step_time"), interval(&other, "step_time"));
    assert_eq!(one["replications"], 24);
}

#[test]
fn only_reports_with_uncertainty_state_prediction_intervals() {
    let place = place(&[0.9e-3, 1e-3, 1.1e-3], 0.02);
    let run = place.forebay(&["run", "u.toml", "--uncertainty", "5"]).assert().success();
    let text = String::from_utf8_lossy(&run.get_output().stdout).into_owned();
    assert!(text.contains("(90 % of runs)") && text.contains("] samples/s"), "{text}");
    assert!(text.contains("ask for 19 or more"), "{text}");
    let plain = report(&place, &[]);
    assert!(!plain.to_string().contains("prediction90"));
}

#[test]
fn uncertainty_requires_a_profile_and_the_profile_option_overrides_the_scenario() {
    let place = place(&[1e-3], 0.0);
    let slower = profile(&[2e-3], 0.0).replace("value = 1e-3", "value = 2e-3");
    place.write("slower.toml", &slower);
    let mean = |report: &Value| report["jobs"][0]["step_time"]["mean"].as_f64().expect("a mean");
    let option = ["--profile", "slower.toml"];
    let ratio = mean(&report(&place, &option)) / mean(&report(&place, &[]));
    assert!((ratio - 2.0).abs() < 0.02, "{ratio}");
    let wrong = |arguments: &[&str], expected: &str| {
        let run = place.forebay(arguments).assert().code(2);
        let said = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
        assert!(said.contains(expected), "{said}");
    };
    wrong(&["run", "s.toml", "--uncertainty", "5"], "the scenario names no profile");
    wrong(&["run", "u.toml", "--profile", "none.toml"], "none.toml");
    wrong(&["run", "u.toml", "--uncertainty", "5", "--replications", "3"], "cannot be used with");
    wrong(&["run", "u.toml", "--uncertainty", "1"], "2..=");
    let far = report(&place, &["--set", "dataset.d.sample_size=5 MB"]);
    let warnings = far["warnings"].to_string();
    let expected = "`dataset.d.sample_size` is 5000000, and the profile's read.direct was measured \
                    from 1000 to 1000000";
    assert!(warnings.contains(expected), "{warnings}");
    place.write(
        "s.toml",
        &scenario().replace("\n[[job]]", "\n[sweep]\n\"run.seed\" = [1]\n[[job]]"),
    );
    place.forebay(&["-q", "sweep", "s.toml", "--profile", "slower.toml"]).assert().success();
}

#[test]
fn the_scenario_named_in_the_help_of_the_run_command_exists() {
    assert!(repository("scenarios/calibrated-loader.toml").exists());
    forebay(&["run", "--help"]).assert().success();
}

/// Returns the half-width of the promised step time of the first change that helps, relative to the step time.
fn promised(draws: &[f64], noise: f64) -> f64 {
    let report = report(&place(draws, noise), &["--set", "job.loader.tf-queue.decode=10 us"]);
    let limit = &report["verdict"]["limits"][0];
    let [low, high] = [0, 1].map(|end| limit["after_interval"][end].as_f64().expect("a promise"));
    (high - low) / 2.0 / limit["after"].as_f64().expect("a step time")
}

#[test]
fn promises_of_changes_carry_what_the_measurements_leave_open() {
    // System: a loader that waits for the first byte of each file, measured exactly, to 20 % and with runs that differ by 10 %.
    // Expectation: the promise of a change is exact, and as uncertain as the latency and the runs.
    let exact = promised(&[1e-3; 4], 0.0);
    assert!(exact < 0.02, "{exact}");
    let latency = promised(&[0.8e-3, 0.9e-3, 1e-3, 1.1e-3, 1.2e-3], 0.0);
    assert!((0.1..0.6).contains(&latency), "{latency}");
    let noise = promised(&[1e-3; 4], 0.1);
    assert!((0.17..0.25).contains(&noise), "{noise}");
}

#[test]
fn more_cores_are_promised_where_only_the_profile_says_how_many_there_are() {
    // System: 16 threads that decode for 4 ms on the four cores of the profile; the scenario has no `[cluster.node]`. Expectation:
    // eight cores are offered, and halve the step.
    let place = place(&[1e-3; 4], 0.0);
    let work = "job.loader.tf-queue={ threads = 16, capacity = \"64 samples\", decode = \"4 ms\" }";
    let report = report(&place, &["--set", work]);
    let limits = report["verdict"]["limits"].as_array().expect("a list");
    let cores = limits.iter().find(|limit| limit["key"] == "cluster.node.cores");
    let cores = cores.unwrap_or_else(|| panic!("no cores among {limits:?}"));
    assert_eq!(cores["changes"][0]["set"], "cluster.node.cores=8");
    let step = |name: &str| cores[name].as_f64().expect("a time");
    assert!((step("after") / step("before") - 0.5).abs() < 0.02, "{cores}");
}
