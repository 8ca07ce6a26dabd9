//! Files of other programs are imported.

use super::runs::repository;
use super::support::{Place, forebay};

/// A trace of `calibrate/hook/example.py`, without most of its operators.
const TRACE: &str = "tests/data/pytorch-trace.json";

fn import(options: &[&str]) -> String {
    let trace = repository(TRACE);
    let trace = trace.to_str().expect("a path");
    let arguments: Vec<&str> = ["import", "kineto", trace].iter().chain(options).copied().collect();
    let output = forebay(&arguments).assert().success().get_output().stdout.clone();
    String::from_utf8(output).expect("text")
}

#[test]
fn importing_a_pytorch_trace_reports_step_and_stall_times() {
    // 1,280 samples of 2 ms each by 2 workers: at least 64 ms a step, nearly all of it stall.
    let report: serde_json::Value =
        serde_json::from_str(&import(&["--batch", "64", "--format", "json"])).expect("JSON");
    assert_eq!(report["steps"], 17, "18 were recorded, the first is left out");
    let (mean, stall) = (report["step_time"]["mean"].as_f64(), report["stall"].as_f64());
    let (mean, stall) = (mean.expect("a time"), stall.expect("a share"));
    assert!((0.064..0.1).contains(&mean), "{mean}");
    assert!((0.9..1.0).contains(&stall), "{stall}");
    let rate = report["samples_per_second"].as_f64().expect("a rate");
    assert!((rate * mean - 64.0).abs() < 1e-9);
}

#[test]
fn an_imported_csv_row_lists_the_scenario_keys_set_on_the_command_line() {
    let text = import(&["--format", "csv", "--set", "job.batch=64", "--set", "name=a, b"]);
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("name,use,job.batch,name,steps,samples_per_second,step_time,stall")
    );
    let row = lines.next().expect("a row");
    assert!(row.starts_with(",check,64,\"a, b\",17,,"), "{row}");
}

#[test]
fn a_file_that_is_no_pytorch_trace_is_refused() {
    let place = Place::new();
    place.write("empty.json", "");
    place.write("other.json", "{\"traceEvents\": []}");
    for (name, says) in [
        ("missing.json", "cannot read missing.json: no such file"),
        ("empty.json", "not a PyTorch trace"),
        ("other.json", "the file has no steps"),
        ("s.toml", "not a PyTorch trace"),
    ] {
        let assert = place.forebay(&["import", "kineto", name]).assert().code(2);
        let error = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(error.contains(name) && error.contains(says), "{name}: {error}");
    }
    let place = place.forebay(&["import", "kineto", "s.toml", "--set", "batch"]).assert().code(2);
    assert!(String::from_utf8_lossy(&place.get_output().stderr).contains("KEY=VALUE"));
}
