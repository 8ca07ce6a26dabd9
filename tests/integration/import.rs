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
        ("s.toml", "it looks like a scenario: `forebay run` reads it"),
    ] {
        let assert = place.forebay(&["import", "kineto", name]).assert().code(2);
        let error = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(error.contains(name) && error.contains(says), "{name}: {error}");
    }
    let place = place.forebay(&["import", "kineto", "s.toml", "--set", "batch"]).assert().code(2);
    assert!(String::from_utf8_lossy(&place.get_output().stderr).contains("KEY=VALUE"));
}

/// Returns standard output and standard error of a successful import of a file with this text.
fn imported(name: &str, text: &[u8], arguments: &[&str]) -> [String; 2] {
    let place = Place::new();
    std::fs::write(place.path(name), text).expect("a file");
    let all: Vec<&str> = [&["import"], arguments].concat();
    let assert = place.forebay(&all).assert().success();
    let output = assert.get_output();
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

#[test]
fn waits_that_a_trace_does_not_show_are_not_known_in_any_format() {
    let step = |number: u32| {
        format!(
            r#"{{"ph": "X", "name": "ProfilerStep#{number}", "pid": 1, "tid": 1, "ts": {number}00, "dur": 100}}"#
        )
    };
    let list = format!("[{}]", [1, 2, 3].map(step).join(","));
    let kineto = |format: &str| {
        imported("t.json", list.as_bytes(), &["kineto", "t.json", "--format", format])[0].clone()
    };
    assert!(kineto("text").contains("not known: the trace has no DataLoader spans"));
    let json: serde_json::Value = serde_json::from_str(&kineto("json")).expect("JSON");
    assert!(json["stall"].is_null() && json["steps"] == 2, "{json}");
    assert!(kineto("csv").lines().nth(1).expect("a row").ends_with(','));
    let place = Place::new();
    place.write("t.json", &format!("[{}]", step(1)));
    let refused = place.forebay(&["import", "kineto", "t.json"]).assert().code(2);
    let error = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(error.contains("has 1 whole step") && error.contains("write --warm-up 0"), "{error}");
    place.forebay(&["import", "kineto", "t.json", "--warm-up", "0"]).assert().success();
}

const OLD_NCCL: &str = "# Rank 0 Pid 1 on a device 0\n# Rank 1 Pid 1 on a device 1\n\
    # size count type redop time algbw busbw error time algbw busbw error\n\
    1048576 2 float sum 100.0 10.49 10.49 1e-07 101.0 10.38 10.38 1e+00\n\
    # Collective test concluded: all_reduce_perf\n";

#[test]
fn imports_say_what_a_column_means_and_read_utf16() {
    let utf16: Vec<u8> =
        format!("\u{feff}{OLD_NCCL}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    for bytes in [OLD_NCCL.as_bytes(), &utf16] {
        let [samples, said] = imported("n.txt", bytes, &["nccl-tests", "n.txt"]);
        assert_eq!(samples.lines().count(), 2);
        assert_eq!(samples.matches("\"excluded\"").count(), 1, "{samples}");
        assert!(said.contains("`error` is the largest deviation"), "{said}");
        assert!(said.contains("1 of 2 samples are not used in fits"), "{said}");
    }
}

#[test]
fn a_file_of_a_wrong_kind_is_refused_with_the_command_that_reads_it() {
    let place = Place::new();
    place.write("trace.json", "{\"traceEvents\": []}");
    place.write("rccl.json", "[{\"size\": 8, \"algBw\": 1.0, \"busBw\": 1.0}]");
    place.write("nccl.txt", OLD_NCCL);
    place.write("osu.txt", "# OSU MPI Latency Test v5.8\n# Size  Latency (us)\n8  1.5\n");
    place.write("db.csv", "# a comment\nranks,bytes,milliseconds\n8,1024,0.15\n");
    place.write(
        "datagen.yaml",
        "workflow:\n  generate_data: True\n  train: False\ndataset:\n  format: npz\n",
    );
    for (arguments, says) in [
        (vec!["run", "trace.json"], "`forebay import kineto` reads it"),
        (vec!["run", "datagen.yaml"], "`forebay import dlio` reads it"),
        (vec!["run", "nccl.txt"], "`forebay import nccl-tests` reads it"),
        (
            vec!["import", "nccl-tests", "rccl.json"],
            "JSON of rccl-tests, which forebay does not read",
        ),
        (vec!["import", "nccl-tests", "osu.txt"], "`forebay import osu` reads it"),
        (vec!["import", "osu", "nccl.txt"], "`forebay import nccl-tests` reads it"),
        (vec!["import", "imb", "trace.json"], "`forebay import kineto` reads it"),
        (vec!["import", "dlio", "trace.json"], "`forebay import kineto` reads it"),
        (vec!["import", "kineto", "osu.txt"], "`forebay import osu` reads it"),
        (vec!["import", "nccl-tests", "db.csv"], "`forebay import deepbench` reads it"),
        (vec!["import", "dlio", "db.csv"], "`forebay import deepbench` reads it"),
        (vec!["import", "kineto", "db.csv"], "`forebay import deepbench` reads it"),
        (vec!["plot", "trace.json"], "this is not a recipe"),
        (vec!["import", "dlio", "datagen.yaml"], "datagen.yaml:3: `workflow.train` is false"),
    ] {
        let refused = place.forebay(&arguments).assert().code(2);
        let error = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(error.contains(says), "{arguments:?}: {error}");
        assert!(error.lines().count() < 8, "{error}");
    }
}
