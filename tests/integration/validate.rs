//! The `forebay validate` command, with plans of a second and with rows of runs on other machines.

use super::runs::repository;
use super::support::Place;
use forebay::profile::Profile;
use forebay::scenario::{Override, ScenarioFile};
use forebay::validate::{Bound, Plan, Use, simulate, step_at_crossover};
use std::fs;
use std::time::Duration;

const SCENARIO: &str = r#"
name = "small"
profile = "profile.toml"
[run]
steps = 20
warm_up = 2
replications = 1
seed = 1
[cluster]
nodes = 1
share_nodes = true
[storage.memory.memory]
[dataset.d]
samples = 64
sample_size = "1 KiB"
[[job]]
name = "train"
dataset = "d"
storage = "memory"
batch = 4
loader.tf-queue = { threads = 1, capacity = "16 samples", decode = "100 us" }
model.step = "3 ms"
"#;

const PLAN: &str = r#"
scenario = "small.toml"
repetitions = 2
retries = 0
noise_floor = 1.0
predictions = 3
[[point]]
name = "as it is"
use = "held-out"
[[point]]
name = "longer"
use = "held-out"
set = { "job.model.step" = "5 ms" }
"#;

/// Returns a scratch directory with a scenario, a plan and the shipped profile.
fn place() -> Place {
    let place = Place::new();
    place.write("small.toml", SCENARIO);
    place.write("plan.toml", PLAN);
    let profile = repository("calibrate/profiles/example.toml");
    place.write("profile.toml", &fs::read_to_string(profile).expect("a shipped profile"));
    place
}

#[test]
fn validating_a_plan_writes_a_table_and_a_figure_and_reuses_finished_runs() {
    let place = place();
    let arguments = ["validate", "plan.toml", "--profile", "profile.toml", "--format", "json"];
    let run = || {
        let assert = place.forebay(&arguments).assert().success();
        let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")
    };
    let first = run();
    assert_eq!(first["points"].as_array().map(Vec::len), Some(2));
    assert_eq!(first["verdict"]["points"], 2);
    for point in first["points"].as_array().expect("points") {
        assert_eq!(point["runs"].as_array().map(Vec::len), Some(2));
        let predicted = point["predicted"]["median"]["samples_per_second"].as_f64();
        assert!(predicted.is_some_and(|rate| rate > 0.0));
    }
    let runs = place.read("validation/runs.jsonl");
    assert_eq!(String::from_utf8_lossy(&runs).lines().count(), 4);
    assert!(place.read("validation/parity.svg").starts_with(b"<svg"));
    // An incomplete line does not count as a run; finished runs are not repeated.
    let mut torn = runs.clone();
    torn.truncate(runs.len() - 10);
    place.write("validation/runs.jsonl", &String::from_utf8_lossy(&torn));
    assert_eq!(run()["points"].as_array().map(Vec::len), Some(2));
    let again = place.read("validation/runs.jsonl");
    assert_eq!(String::from_utf8_lossy(&again).lines().count(), 4);
    let kept = torn.iter().rposition(|byte| *byte == b'\n').expect("lines") + 1;
    assert_eq!(again[..kept], torn[..kept]);
}

#[test]
fn validation_fails_if_prediction_errors_exceed_the_tolerance() {
    let place = place();
    // The model trains 4 samples in 3 ms: 1,333 a second.
    place.write(
        "runs.csv",
        "name,job.model.step,samples_per_second\na,\"3 ms\",1333\nb,\"6 ms\",600\n",
    );
    let base = [
        "validate",
        "--measured",
        "runs.csv",
        "--scenario",
        "small.toml",
        "--profile",
        "profile.toml",
        "--predictions",
        "3",
    ];
    let with = |more: &[&'static str]| place.forebay(&[&base[..], more].concat());
    let assert = with(&["--tolerance", "0.2"]).assert().success();
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert!(text.contains("2 counted, 0 too noisy"), "{text}");
    assert!(text.contains("90 % intervals"), "{text}");
    let assert = with(&["--tolerance", "0.01"]).assert().code(1);
    let error = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(error.contains("more than --tolerance allows (1.0 %)"), "{error}");
}

#[test]
fn invalid_validation_inputs_are_refused_before_anything_runs() {
    let place = place();
    place.write("empty.toml", "scenario = \"small.toml\"\n");
    place.write("bare.toml", &SCENARIO.replace("profile = \"profile.toml\"\n", ""));
    place.write("bare-plan.toml", &PLAN.replace("small.toml", "bare.toml"));
    place.write("wrong.toml", &PLAN.replace("job.model.step", "job.model.stop"));
    place.write("runs.csv", "job.batch\n4\n");
    let profile = ["--profile", "profile.toml"];
    let measured = ["--measured", "runs.csv", "--scenario", "small.toml"];
    for (arguments, says) in [
        (vec![], "name either a plan to run on this machine"),
        (vec!["bare-plan.toml"], "give --profile FILE"),
        ([&["missing.toml"][..], &profile].concat(), "cannot read missing.toml"),
        ([&["empty.toml"][..], &profile].concat(), "the plan has no points"),
        ([&["wrong.toml"][..], &profile].concat(), "job.model.stop"),
        ([&measured[..], &profile].concat(), "neither a column `samples_per_second`"),
    ] {
        let all: Vec<&str> = ["validate"].into_iter().chain(arguments).collect();
        let assert = place.forebay(&all).assert().code(2);
        let error = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(error.contains(says), "{all:?}: {error}");
    }
    assert!(!place.path("validation").exists());
    // A file of something else is no journal whose last line was cut off.
    fs::create_dir(place.path("v")).expect("a directory");
    place.write("v/runs.jsonl", "{\"a\": 1}");
    let output = ["--profile", "profile.toml", "--output", "v"];
    let all = [&["validate", "plan.toml"][..], &output].concat();
    let assert = place.forebay(&all).assert().code(2);
    let error = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(error.contains("v/runs.jsonl: line 1 does not describe a live run"), "{error}");
    assert_eq!(place.read("v/runs.jsonl"), b"{\"a\": 1}");
}

#[test]
fn measured_rows_are_predicted_with_the_scenario_s_own_profile_or_without_any() {
    let place = place();
    place.write(
        "bare.toml",
        &SCENARIO
            .replace("profile = \"profile.toml\"\n", "")
            .replace("nodes = 1\n", "nodes = 1\nnode = { cores = 4, gpus = 1 }\n"),
    );
    // 4 samples in 3 ms.
    place.write("runs.csv", "name,job.batch,step_time\na,4,0.0031\n");
    let validate = |scenario: &str| {
        place.forebay(&[
            "validate",
            "--measured",
            "runs.csv",
            "--scenario",
            scenario,
            "--predictions",
            "2",
        ])
    };
    validate("bare.toml").assert().success();
    validate("small.toml").assert().success();
    // The scenario's own profile is used: without it there is nothing to predict from.
    fs::remove_file(place.path("profile.toml")).expect("a file");
    validate("small.toml").assert().code(2);
}

#[test]
fn the_time_of_next_that_rows_say_is_part_of_their_steps_and_of_those_of_other_rows() {
    // System: steps of 3 ms for four samples, whose loader is fast; rows that needed 1 and 3 ms in `next()`, and one that does not say it.
    // Expectation: steps of 4, 6 and, with the median of 2 ms, 5 ms; 3 ms without the column.
    let place = place();
    let steps = |rows: &str| -> Vec<f64> {
        place.write("runs.csv", rows);
        let run = ["-q", "validate", "--measured", "runs.csv", "--scenario", "small.toml"];
        let more = ["--predictions", "2", "--format", "json"];
        let arguments = [&run[..], &more].concat();
        let output = place.forebay(&arguments).assert().success().get_output().stdout.clone();
        let found: serde_json::Value = serde_json::from_slice(&output).expect("JSON");
        let points = found["points"].as_array().expect("points");
        let step = |point: &serde_json::Value| {
            1e3 * point["predicted"]["median"]["step_time"].as_f64().expect("a time")
        };
        points.iter().map(step).collect()
    };
    let found = steps("job.batch,step_time,next_time\n4,0.004,0.001\n4,0.006,0.003\n4,0.005,\n");
    for (found, expected) in found.iter().zip([4.0, 6.0, 5.0]) {
        assert!((found / expected - 1.0).abs() < 0.02, "{found} ms for {expected} ms");
    }
    let found = steps("job.batch,step_time\n4,0.004\n");
    assert!((found[0] / 3.0 - 1.0).abs() < 0.02, "{found:?}");
}

#[test]
fn measured_rows_in_other_units_and_repeated_headers_are_refused_with_line_and_column() {
    let place = place();
    for (rows, says) in [
        (
            "name,job.batch,step_time\na,4,0.0031\nb,4,3.1\n",
            "line 3, column `step_time`: 3.1 fits the predicted",
        ),
        (
            "job.batch,samples_per_second,step_time\n4,1300,3.1\n",
            "only in milliseconds; write seconds",
        ),
        ("job.batch,samples_per_second,step_time\n4,1300,0.01\n", "contradicts 1300 samples/s"),
        (
            "job.batch,job.train.batch,step_time\n4,8,0.003\n",
            "line 2, column `job.train.batch`: sets the same key as the column `job.batch`",
        ),
        (
            "job.batch,step_time,job.batch\n4,0.003,8\n",
            "line 1, column `job.batch`: is there twice",
        ),
        (
            "name,step_time\na,0.003\nname,step_time\nb,0.003\n",
            "line 3, column `step_time`: the line is another header",
        ),
    ] {
        place.write("runs.csv", rows);
        let refused = place
            .forebay(&["validate", "--measured", "runs.csv", "--scenario", "small.toml"])
            .assert()
            .code(2);
        let error = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(error.contains(says) && error.contains("runs.csv"), "{rows}: {error}");
    }
    assert!(!place.path("validation").exists());
}

#[test]
fn the_shipped_validation_plan_has_points_with_every_bottleneck() {
    // The README's claim relies on these shares, whatever the measurements.
    let path = repository("calibrate/plans/validate.toml");
    let text = fs::read_to_string(&path).expect("a plan");
    let plan = Plan::parse(&path, &text).expect("a plan");
    let profile = Profile::open(&repository("calibrate/profiles/shared-vm/profile.toml"));
    let (profile, file) = (profile.expect("a profile"), ScenarioFile::open(&plan.scenario));
    let file = file.expect("a scenario");
    let held_out = plan.points.iter().filter(|point| point.used == Use::HeldOut);
    let bounds: Vec<Bound> = held_out
        .map(|point| {
            let short = ["run.duration=\"400 ms\"".to_owned()];
            let set = point.set.iter().chain(&short).map(|text| text.parse().expect(text));
            let mut set: Vec<Override> = set.collect();
            if let Some(factor) = point.crossover {
                let step = step_at_crossover(&file, &set, &profile, factor).expect(&point.name);
                set.push(step.expect("steps").parse().expect("a change"));
            }
            let found = simulate(&file, &set, &profile, 2, None, 0.0).expect(&point.name);
            Bound::from_run(&found.predict(&profile).expect("steps").median)
        })
        .collect();
    let all = bounds.len();
    let of = |wanted| bounds.iter().filter(|bound| **bound == wanted).count();
    assert!(all >= 32, "{all}: some will be too noisy, and 24 must count");
    assert!(3 * of(Bound::Storage) >= all && 3 * of(Bound::Compute) <= all, "{bounds:?}");
    assert!(4 * of(Bound::Crossover) >= all && of(Bound::Cores) >= 6, "{bounds:?}");
}

#[test]
fn predictions_of_the_shipped_live_runs_meet_the_accuracy_claims_of_the_readme() {
    // System: the live runs behind the README's table, none of which is repeated; a third of the usual number
    // of predictions. Expectation: the required accuracy of a validation; fit points determine the pace of each
    // attempt, and predictions use it.
    let place = Place::new();
    fs::create_dir(place.path("out")).expect("a directory");
    let runs = repository("calibrate/profiles/shared-vm/runs.jsonl");
    fs::copy(runs, place.path("out/runs.jsonl")).expect("the shipped runs");
    let plan = repository("calibrate/plans/validate.toml");
    let plan = fs::read_to_string(plan).expect("the shipped plan");
    let scenario = repository("scenarios/validate.toml").display().to_string();
    let fewer = plan
        .replace("predictions = 60", "predictions = 20")
        .replace("../../scenarios/validate.toml", &scenario);
    assert_ne!(fewer, plan.replace("../../scenarios/validate.toml", &scenario));
    place.write("plan.toml", &fewer);
    let profile = repository("calibrate/profiles/shared-vm/profile.toml").display().to_string();
    let arguments =
        ["validate", "plan.toml", "--profile", &profile, "--output", "out", "--format", "json"];
    let mut command = place.forebay(&arguments);
    let done = command.timeout(Duration::from_secs(400)).assert().success();
    let found: serde_json::Value = serde_json::from_slice(&done.get_output().stdout).expect("JSON");
    let figure = |of: &serde_json::Value, name: &str| of[name].as_f64().expect(name);
    let verdict = &found["verdict"];
    assert_eq!(verdict["points"], 30);
    let mean = figure(verdict, "mean_error");
    assert!(mean < 0.02 && figure(verdict, "naive_mean_error") > 2.0 * mean, "{mean}");
    assert!(verdict["worst"][1].as_f64().is_some_and(|worst| worst < 0.12));
    assert!(figure(verdict, "coverage") > 0.8 && figure(verdict, "half_width") < 0.08);
    let points = found["points"].as_array().expect("points");
    let again = points.iter().find(|of| of["name"] == "images of 256, 1 thread, batch 32");
    let again = again.expect("a point that was run again");
    assert_eq!(again["before"].as_array().map(Vec::len), Some(1));
    assert!((figure(&again["pace"], "decode") - 1.0896).abs() < 5e-3, "{}", again["pace"]);
}

/// System: the live runs on an H200 behind the guide's table, and the profile as it is fitted now; a third of the usual number of predictions. Expectation: what the guide
/// says of them: 21 held-out points count, with a mean error of at most 4.5 %, at most 10 % at each, and a naive model at least five times as wrong; intervals hold 80 %.
#[test]
fn predictions_of_the_shipped_gpu_runs_meet_the_accuracy_claims_of_the_guide() {
    let place = Place::new();
    fs::create_dir(place.path("out")).expect("a directory");
    let runs = repository("calibrate/profiles/h200/runs.jsonl");
    fs::copy(runs, place.path("out/runs.jsonl")).expect("the shipped runs");
    let plan = repository("calibrate/plans/validate-gpu.toml");
    let plan = fs::read_to_string(plan).expect("the shipped plan");
    let scenario = repository("scenarios/validate-gpu.toml").display().to_string();
    let plan = plan.replace("../../scenarios/validate-gpu.toml", &scenario);
    let fewer = plan.replace("predictions = 60", "predictions = 20");
    assert_ne!(fewer, plan);
    place.write("plan.toml", &fewer);
    let profile = repository("calibrate/profiles/h200/profile.toml").display().to_string();
    let arguments =
        ["validate", "plan.toml", "--profile", &profile, "--output", "out", "--format", "json"];
    let mut command = place.forebay(&arguments);
    let done = command.timeout(Duration::from_secs(400)).assert().success();
    let found: serde_json::Value = serde_json::from_slice(&done.get_output().stdout).expect("JSON");
    let verdict = &found["verdict"];
    let figure = |name: &str| verdict[name].as_f64().expect(name);
    assert!(verdict["points"].as_u64().is_some_and(|points| points >= 21), "{verdict}");
    let mean = figure("mean_error");
    assert!(mean <= 0.045 && figure("naive_mean_error") > 5.0 * mean, "{verdict}");
    assert!(verdict["worst"][1].as_f64().is_some_and(|worst| worst <= 0.10), "{verdict}");
    assert!(figure("coverage") > 0.80 && figure("half_width") < 0.08, "{verdict}");
}

#[test]
fn the_predict_only_option_of_validate_executes_no_live_run() {
    let place = place();
    let before = place.files();
    let arguments = ["validate", "plan.toml", "--profile", "profile.toml", "--predict-only"];
    let done = place.forebay(&arguments).assert().success();
    let text = String::from_utf8_lossy(&done.get_output().stdout).into_owned();
    assert!(text.contains("held-out points, nothing run: storage 0"), "{text}");
    assert!(!text.contains("too noisy"), "{text}");
    assert_eq!(place.files(), before);
}

/// Arguments of a comparison with `runs.csv`, with JSON output.
const MEASURED: [&str; 11] = [
    "validate",
    "--measured",
    "runs.csv",
    "--scenario",
    "small.toml",
    "--profile",
    "profile.toml",
    "--predictions",
    "20",
    "--format",
    "json",
];

fn compared(place: &Place) -> serde_json::Value {
    let assert = place.forebay(&MEASURED).assert().success();
    serde_json::from_slice(&assert.get_output().stdout).expect("JSON")
}

/// Returns the explanation of the fit by this limit.
fn explanation<'v>(answer: &'v serde_json::Value, limit: &str) -> &'v serde_json::Value {
    let all = answer["fitted"]["explanations"].as_array().expect("explanations");
    all.iter().find(|of| of["limit"] == limit).unwrap_or_else(|| panic!("{limit}: {all:?}"))
}

#[test]
fn measured_rows_marked_for_fitting_are_fitted_and_other_rows_predicted() {
    let place = place();
    // System: steps take 1.5 times and decoding takes 2 times the values of the rows' keys. Expectation: the
    // fit finds both factors, and the other rows are predicted, which they are not without the fit.
    let rows = |used: &str| {
        format!(
            "name,use,job.model.step,job.loader.tf-queue.decode,samples_per_second\n\
             device,{used},3 ms,100 us,888.9\nloader,{used},1 ms,2 ms,250\n\
             more steps,check,6 ms,200 us,444.4\nmore decoding,check,2 ms,4 ms,125\n"
        )
    };
    place.write("runs.csv", &rows("check"));
    let without = compared(&place);
    assert!(without["fitted"].is_null());
    assert!(without["verdict"]["mean_error"].as_f64().is_some_and(|error| error > 0.3));
    place.write("runs.csv", &rows("fit"));
    let with = compared(&place);
    let by_step = explanation(&with, "step");
    let told = |name: &str| by_step[name]["value"].as_f64().expect("a factor");
    assert!((told("amount") / 1.5 - 1.0).abs() < 0.02, "{}", with["fitted"]);
    assert!((told("sample") / 2.0 - 1.0).abs() < 0.05, "{}", with["fitted"]);
    assert_eq!((&with["fitted"]["rows"], &with["verdict"]["points"]), (&2.into(), &2.into()));
    let error = with["verdict"]["mean_error"].as_f64().expect("an error");
    assert!(error < 0.03, "{error}");
    for point in with["points"].as_array().expect("points") {
        let interval = &point["predicted"]["interval"];
        let [low, high] = [0, 1].map(|end| interval[end].as_f64().expect("a rate"));
        let measured = point["runs"][0]["samples_per_second"].as_f64().expect("a rate");
        assert!(low <= measured && measured <= high, "{point}");
    }
    let text = place.forebay(&MEASURED[..9]).assert().success();
    let text = String::from_utf8_lossy(&text.get_output().stdout).into_owned();
    for part in [
        "fitted on 2 rows: 3 explanations",
        "a step takes",
        "one run would tell",
        "not told by rows",
        "(fit)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_real_pytorch_loop_is_predicted_from_two_of_its_runs() {
    // `calibrate/hook/example.py` really ran (PyTorch 2.11 on two cores); its rows for 1 and 8 workers are
    // marked for the fit. The scenario's times are guesses with large errors.
    let place = place();
    for (from, to) in
        [("calibrate/hook/example.toml", "small.toml"), ("tests/data/pytorch-runs.csv", "runs.csv")]
    {
        place.write(to, &fs::read_to_string(repository(from)).expect("a shipped file"));
    }
    let found = compared(&place);
    let fitted = explanation(&found, "step");
    assert!(fitted["amount"]["unidentified"].is_null(), "{fitted}");
    assert!(fitted["sample"]["unidentified"].is_null(), "{fitted}");
    // Samples sleep for 2 ms, where the scenario guesses 1 ms.
    let sample = fitted["sample"]["value"].as_f64().expect("a factor");
    assert!((2.0..2.6).contains(&sample), "{sample}");
    let verdict = &found["verdict"];
    assert_eq!(verdict["points"], 4);
    let error = verdict["mean_error"].as_f64().expect("an error");
    assert!(error < 0.1, "{error}");
}
