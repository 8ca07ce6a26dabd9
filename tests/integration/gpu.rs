//! Machines with and without a GPU: messages and exit codes of commands. None of them panics.

use super::support::Place;
use serde_json::Value;

fn doctor(place: &Place, environment: &[(&str, &str)]) -> Value {
    let mut command = place.forebay(&["doctor", "--format", "json"]);
    command.envs(environment.iter().copied());
    let output = command.assert().success().get_output().stdout.clone();
    serde_json::from_slice(&output).expect("JSON")
}

/// Returns whether steps can be trained on a GPU here; the test is skipped in this case.
#[expect(clippy::print_stderr, reason = "whoever reads the test's output is told")]
fn has_gpu(place: &Place) -> bool {
    let has = doctor(place, &[])["cuda_missing"].is_null();
    if has {
        eprintln!("skipped: there is a GPU");
    }
    has
}

#[test]
fn doctor_lists_available_and_missing_hardware_and_libraries() {
    let place = Place::new();
    let found = doctor(&place, &[]);
    assert!(found["cores"].as_f64().is_some_and(|cores| cores > 0.0), "{found}");
    let probes = found["probes"].as_array().expect("probes");
    let can_train = probes.iter().any(|probe| probe == "step on cuda");
    assert_eq!(can_train, found["cuda_missing"].is_null(), "{found}");
    assert!(probes.iter().any(|probe| probe == "read"));
    let text = place.forebay(&["doctor"]).assert().success().get_output().stdout.clone();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(
        text.contains("NVIDIA driver: ") && text.contains("probes that can run: clock"),
        "{text}"
    );
    // What is missing does not keep anyone from simulating.
    let lacks = text.contains("probes that cannot: ");
    assert_eq!(
        lacks,
        text.contains("simulating (`run`, `sweep`, `plot`) needs nothing of what is missing"),
        "{text}"
    );
}

#[test]
fn doctor_reports_a_library_file_that_cannot_be_opened() {
    let place = Place::new();
    place.write("libcudnn.so.9", "nonsense");
    let here = place.directory().display().to_string();
    let found = doctor(&place, &[("FOREBAY_CUDA_LIBS", &here)]);
    let libraries = found["libraries"].as_array().expect("libraries");
    let cudnn = libraries.iter().find(|of| of["name"] == "cuDNN").expect("cuDNN");
    let missing = cudnn["missing"].as_str().expect("a reason");
    assert!(missing.contains("libcudnn.so.9 cannot be opened"), "{missing}");
    assert_eq!(found["folders"][0], here.as_str());
}

/// Compiles a library that has every function of cuDNN that forebay uses, and that reports `version`; returns whether this machine
/// has a C compiler.
fn stand_in_for_cudnn(place: &Place, file: &str, version: u32) -> bool {
    let functions = super::runs::repository("crates/calibrate/src/probe/gpu/call/functions.rs");
    let text = std::fs::read_to_string(functions).expect("the functions");
    let names = text.lines().filter_map(|line| line.trim().split_once('('));
    let names = names.map(|(name, _)| name).filter(|name| name.starts_with("cudnn"));
    let body: String =
        names.map(|name| format!("long {name}(void) {{ return {version}; }}\n")).collect();
    assert!(body.contains("cudnnGetVersion") && body.contains("cudnnConvolutionForward"), "{body}");
    place.write("cudnn.c", &body);
    let compiled = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-Wl,-soname,libcudnn.so.9", "-o", file, "cudnn.c"])
        .current_dir(place.directory())
        .status();
    compiled.is_ok_and(|status| status.success())
}

/// System: cuDNN 9.1 in the folder that the user names, and another version under the name without a version where the system's
/// loader finds it. Expectation: the named one is used.
#[test]
#[expect(clippy::print_stderr, reason = "whoever reads the test's output is told")]
fn cuda_libraries_in_the_named_folder_are_used_before_those_of_the_system() {
    let place = Place::new();
    for folder in ["named", "system"] {
        std::fs::create_dir(place.path(folder)).expect("a folder");
    }
    let made = [("named/libcudnn.so.9", 90_100), ("system/libcudnn.so", 90_200)]
        .map(|(file, version)| stand_in_for_cudnn(&place, file, version));
    if made != [true; 2] {
        eprintln!("skipped: there is no C compiler");
        return;
    }
    let [named, system] = ["named", "system"].map(|of| place.path(of).display().to_string());
    let found = doctor(&place, &[("FOREBAY_CUDA_LIBS", &named), ("LD_LIBRARY_PATH", &system)]);
    let libraries = found["libraries"].as_array().expect("libraries");
    let cudnn = libraries.iter().find(|of| of["name"] == "cuDNN").expect("cuDNN");
    assert_eq!(cudnn["version"], "9.1.0", "{cudnn}");
}

/// Without a driver, the machine lacks the requested GPU: exit code 3 with a message, and no panic.
#[test]
fn calibrating_a_gpu_without_a_driver_exits_with_code_3() {
    let place = Place::new();
    if has_gpu(&place) {
        return;
    }
    // The plan's probes of cores may take a moment.
    let plan = ["calibrate", "--plan", "gpu", "--output", "o", "--budget", "2 s"];
    let ended = place.forebay(&plan).assert().code(3);
    let said = String::from_utf8_lossy(&ended.get_output().stderr).into_owned();
    for probe in ["step: ", "copy: ", "collective: "] {
        assert!(said.contains(probe), "{probe}: {said}");
    }
    assert!(said.contains("driver") && !said.contains("panicked"), "{said}");
    let table = String::from_utf8_lossy(&ended.get_output().stdout).into_owned();
    assert!(!table.contains("stopped"), "rows of trials that could not begin: {table}");
}

#[test]
fn calibrating_a_cpu_and_gpu_plan_without_a_gpu_measures_only_the_cpu() {
    let place = Place::new();
    if has_gpu(&place) {
        return;
    }
    let plan = "budget = \"1 min\"\n[trials]\nlength = \"1 ms\"\nat_least = 6\nat_most = 6\n[watch]\n\
                others = 1e6\nsteal = 1e6\n[step]\nmodel = [\"lenet5\"]\nbatch = [1]\n\
                device = [\"cpu\", \"cuda:0\"]\n";
    place.write("p.toml", plan);
    let ended = place.forebay(&["calibrate", "--plan", "p.toml", "--output", "o"]).assert().code(0);
    let said = String::from_utf8_lossy(&ended.get_output().stderr).into_owned();
    assert!(said.contains("cuda:0 not measured"), "{said}");
    let samples = String::from_utf8(place.read("o/samples.jsonl")).expect("text");
    assert!(samples.contains("cpu-1") && !samples.contains("cuda"), "{samples}");
    let only = ["calibrate", "--plan", "p.toml", "--output", "p", "--device", "cuda:0"];
    place.forebay(&only).assert().code(3);
}

#[test]
fn invalid_calibration_devices_and_precisions_are_refused() {
    let place = Place::new();
    let refused = |arguments: &[&str], said: &str| {
        let ended = place.forebay(arguments).assert().code(2);
        let text = String::from_utf8_lossy(&ended.get_output().stderr).into_owned();
        assert!(text.contains(said), "{text}");
    };
    refused(&["calibrate", "--device", "cuda:x"], "`cuda:x`: write `cpu`, `cuda:0`");
    place.write("p.toml", "budget = \"1 s\"\n");
    refused(&["calibrate", "--plan", "p.toml", "--device", "cpu"], "add a table `[step]`");
    place.write(
        "q.toml",
        "budget = \"1 s\"\n[step]\nmodel=[\"lenet5\"]\nbatch=[1]\nprecision=[\"fp8\"]\n",
    );
    refused(&["calibrate", "--plan", "q.toml"], "unknown word `fp8`");
}
