//! `--unset`: keys and tables that a run leaves out.

use super::support::Place;

/// A scenario with a fault, failures and a sweep.
const SCENARIO: &str = r#"
name = "unset"
run = { steps = 60, warm_up = "off", replications = 1 }
cluster = { nodes = 2, node.cores = 4, network.nic = "50 MB/s" }
[storage.s.file-server]
bandwidth = "100 MB/s"
[dataset.d]
samples = 160
sample_size = "100 kB"
[[job]]
name = "j"
nodes = 2
dataset = "d"
storage = "s"
batch = 8
loader.pytorch = { workers = 2 }
model = { step = "10 ms", memory = { parameters = "10 MB", activations = "1 kB" } }
checkpoint = { steps = 10, bytes = "10 MB" }
failures = { at = ["400 ms"], restart = "100 ms" }
[[fault]]
storage = "s"
factor = 0.5
[sweep]
"job.batch" = [4, 8]
"#;
/// Lines of [`SCENARIO`] with the fault.
const FAULT: &str = "[[fault]]\nstorage = \"s\"\nfactor = 0.5\n";
/// Line of [`SCENARIO`] with the failures.
const FAILURES: &str = "failures = { at = [\"400 ms\"], restart = \"100 ms\" }\n";

/// Returns what a command prints for a scenario file with this text, without its wall time and the command itself.
fn printed(text: &str, arguments: &[&str]) -> String {
    let place = Place::new();
    place.write("unset.toml", text);
    let out = place.forebay(arguments).assert().success();
    let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
    let is_result = |line: &&str| !line.contains("wall_time") && !line.contains("\"command\":");
    text.lines().filter(is_result).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_run_with_unset_keys_reports_the_same_bytes_as_the_file_without_their_lines() {
    let removed = SCENARIO.replace(FAULT, "").replace(FAILURES, "");
    let unset = ["--unset", "fault.0", "--unset", "job.j.failures"];
    for command in [
        &["run", "unset.toml", "--format", "json", "--verdict", "quick"][..],
        &["sweep", "unset.toml", "-q", "--columns", "all"],
        &["explain-defaults", "unset.toml"],
    ] {
        let with_option = printed(SCENARIO, &[command, &unset].concat());
        assert_eq!(with_option, printed(&removed, command), "{command:?}");
        assert_ne!(with_option, printed(SCENARIO, command), "{command:?}");
    }
}

#[test]
fn set_and_unset_are_applied_in_the_order_of_the_command_line() {
    // Settings are listed in the order of the file, where a key that is set again comes last.
    let json = ["run", "unset.toml", "--format", "json", "--verdict", "quick"];
    let of = |options: &[&str]| {
        let text = printed(SCENARIO, &[&json[..], options].concat());
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        report["jobs"].clone()
    };
    let again = ["--unset", "job.batch", "--set", "job.batch=4", "--set=job.queue=bounded"];
    assert_eq!(of(&again), of(&["--set", "job.batch=4", "--set", "job.queue=bounded"]));
    let undone = ["--set", "job.queue=circular", "--unset", "job.queue"];
    assert_eq!(of(&undone), of(&[]));
    let place = Place::new();
    place.write("unset.toml", SCENARIO);
    let late = ["run", "unset.toml", "--set", "job.batch=4", "--unset", "job.batch"];
    let out = place.forebay(&late).assert().code(2);
    let said = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
    assert!(said.contains("--unset job.batch") && said.contains("= help: "), "{said}");
}

#[test]
fn a_live_run_leaves_unset_keys_out_in_each_of_its_processes() {
    // System: a live job with failures, which only simulations have, and with a name that TOML must quote. Expectation: refused with
    // the failures, and run without them.
    let place = Place::new();
    let live = r#"
name = "live"
run = { steps = 2, replications = 1 }
cluster = { nodes = 1, share_nodes = true, node = { cores = 1, gpus = 1 } }
[storage.d.local-disk]
bandwidth = "1 GB/s"
[dataset.s]
samples = 16
sample_size = "4 KiB"
layout.file-per-sample = {}
[[job]]
name = "it's a \"job\" = 1"
dataset = "s"
storage = "d"
batch = 2
model.step = "1 ms"
loader.pytorch = { workers = 1 }
failures = { mtbf = "1 d", restart = "1 s" }
"#;
    place.write("live.toml", live);
    place.forebay(&["live", "live.toml", "-q"]).assert().code(3);
    let unset = r#"job."it's a \"job\" = 1".failures"#;
    place.forebay(&["live", "live.toml", "-q", "--unset", unset]).assert().success();
}

#[test]
fn a_recipe_draws_a_scenario_without_its_unset_keys() {
    let place = Place::new();
    let figure = |scenario: &str, unset: &str| {
        place.write("unset.toml", scenario);
        let data = format!("[data]\nscenario = \"unset.toml\"\nseries = true\n{unset}");
        place.write(
            "a.toml",
            &format!("title = \"t\"\nx = \"time\"\n{data}[[panel]]\ny = [\"step_time\"]\n"),
        );
        place.forebay(&["plot", "a.toml", "-q"])
    };
    let drawn = |scenario: &str, unset: &str| {
        figure(scenario, unset).assert().success();
        place.read("a.svg")
    };
    let unset = "unset = [\"job.failures\"]\n";
    let without = drawn(&SCENARIO.replace(FAILURES, ""), "");
    assert!(drawn(SCENARIO, unset) == without && drawn(SCENARIO, "") != without);
    let out = figure(SCENARIO, "unset = [\"job.none\"]\n").assert().code(2);
    let said = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
    assert!(said.contains("--unset job.none"), "{said}");
}
