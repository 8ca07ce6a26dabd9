//! Exit codes, messages and small commands of the program.

use crate::support::{Place, forebay};

#[test]
fn help_shows_examples_for_every_command() {
    for command in [
        "run",
        "sweep",
        "plan",
        "compare",
        "diff",
        "explain-defaults",
        "plot",
        "profile",
        "calibrate",
        "live",
        "validate",
        "import",
        "new",
        "schema",
        "reference",
        "completions",
        "man",
    ] {
        let out = forebay(&[command, "--help"]).assert().success();
        let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
        assert!(text.contains(&format!("forebay {command}")), "{text}");
        assert!(text.contains("Example"), "{text}");
    }
}

#[test]
fn wrong_usage_exits_with_code_2() {
    for arguments in [
        &["fly"][..],
        &["run"],
        &["run", "s.toml", "--threads", "0"],
        &["run", "s.toml", "--replications", "0"],
        &["sweep", "s.toml", "--resume"],
        &["completions", "cobol"],
    ] {
        let out = forebay(arguments).assert().code(2);
        assert!(out.get_output().stdout.is_empty(), "{arguments:?}");
        assert!(!out.get_output().stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn an_invalid_scenario_file_exits_with_code_2() {
    let place = Place::new();
    place.write("binary.toml", "\u{0}\u{1}\u{7f}");
    place.write("empty.toml", "");
    for name in ["missing.toml", ".", "binary.toml", "empty.toml"] {
        for command in ["run", "sweep"] {
            let out = place.forebay(&[command, name]).assert().code(2);
            let message = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
            assert!(!message.is_empty() && !message.contains("panicked"), "{name}: {message}");
            assert!(out.get_output().stdout.is_empty(), "{name}");
        }
    }
}

#[test]
fn invalid_overrides_exit_with_code_2() {
    let place = Place::new();
    for set in ["nonsense", "no.such.key=1", "job.batch=-1"] {
        place.forebay(&["run", "s.toml", "--set", set]).assert().code(2);
    }
}

#[test]
fn a_run_prints_its_report_as_text_or_json() {
    let place = Place::new();
    let out = place.forebay(&["run", "s.toml"]).assert().success();
    let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
    assert!(text.contains("lenet") && !text.contains('\u{1b}'), "no colour in a pipe: {text}");
    let out = place.forebay(&["run", "s.toml", "--format", "json"]).assert().success();
    let report: serde_json::Value =
        serde_json::from_slice(&out.get_output().stdout).expect("a report is JSON");
    assert_eq!(report["jobs"][0]["name"], "lenet");
    assert_eq!(report["seed"], 1);
}

#[test]
fn reports_depend_on_the_seed_and_not_on_the_number_of_threads() {
    let place = Place::new();
    let report = |arguments: &[&str]| {
        let all = [&["run", "s.toml", "--format", "json"], arguments].concat();
        let out = place.forebay(&all).assert().success();
        let mut report: serde_json::Value =
            serde_json::from_slice(&out.get_output().stdout).expect("a report is JSON");
        report["wall_time"].take();
        report
    };
    let one = report(&["--threads", "1"]);
    assert_eq!(one, report(&["--threads", "2"]));
    let step_time = |report: &serde_json::Value| report["jobs"][0]["step_time"]["mean"].clone();
    let other = report(&["--seed", "2"]);
    assert_eq!(other["seed"], 2);
    assert_ne!(step_time(&one), step_time(&other));
    assert_ne!(step_time(&one), step_time(&report(&["--replications", "3"])));
}

#[test]
fn a_scenario_is_read_from_standard_input() {
    let place = Place::new();
    let scenario = place.read("s.toml");
    let named = place.forebay(&["run", "s.toml", "--format", "json"]).output().expect("a run");
    let piped = place.forebay(&["run", "-", "--format", "json"]).write_stdin(scenario).assert();
    let report = |bytes: &[u8]| {
        let mut value: serde_json::Value = serde_json::from_slice(bytes).expect("JSON");
        // The recorded command names the file.
        value["command"].take();
        value["wall_time"].take();
        value
    };
    let piped = piped.success();
    assert_eq!(report(&piped.get_output().stdout), report(&named.stdout));
}

#[test]
fn a_run_writes_its_trace_plot_and_report_to_files() {
    let place = Place::new();
    let arguments = ["--trace", "t.json", "--figure", "f.svg", "--output", "r.txt"];
    let out = place.forebay(&[&["run", "s.toml"], &arguments[..]].concat()).assert().success();
    assert!(out.get_output().stdout.is_empty());
    assert_eq!(place.files(), ["f.svg", "r.txt", "s.toml", "t.json"]);
    assert!(place.read("f.svg").starts_with(b"<svg"));
    let trace: serde_json::Value = serde_json::from_slice(&place.read("t.json")).expect("JSON");
    assert!(trace.is_object() || trace.is_array());
    place.forebay(&["run", "s.toml", "--figure", "f.png"]).assert().success();
    assert!(place.read("f.png").starts_with(b"\x89PNG"));
    place.forebay(&["run", "s.toml", "--figure", "f.pdf"]).assert().code(2);
}

#[test]
fn the_printed_schema_is_json() {
    let out = forebay(&["schema", "scenario"]).assert().success();
    let schema: serde_json::Value =
        serde_json::from_slice(&out.get_output().stdout).expect("a schema is JSON");
    assert!(schema.is_object());
}

#[test]
fn explain_defaults_prints_text_or_json() {
    let scenario = crate::runs::repository("scenarios/gradients.toml");
    let scenario = scenario.to_str().expect("a path in UTF-8");
    let text = forebay(&["explain-defaults", scenario, "--all"]).assert().success();
    let text = String::from_utf8_lossy(&text.get_output().stdout).into_owned();
    let line = text.lines().find(|line| line.contains("pytorch.in_order")).expect("a line");
    assert!(line.contains(" true ") && line.contains("DataLoader(in_order=True)"), "{line}");
    let set = ["--format", "json", "--set", "job.sampler=strided"];
    let json = forebay(&[&["explain-defaults", scenario][..], &set].concat()).assert().success();
    let json: serde_json::Value = serde_json::from_slice(&json.get_output().stdout).expect("JSON");
    let keys: Vec<&str> = json["assumed"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|of| of["key"].as_str())
        .collect();
    let (left, written) = ("job.resnet50.queue", "job.resnet50.sampler");
    assert!(keys.contains(&left) && !keys.contains(&written), "{keys:?}");
}

#[test]
fn completions_and_manual_pages_cover_all_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let out = forebay(&["completions", shell]).assert().success();
        assert!(String::from_utf8_lossy(&out.get_output().stdout).contains("sweep"), "{shell}");
    }
    let out = forebay(&["man"]).assert().success();
    assert!(out.get_output().stdout.starts_with(b".ie") || !out.get_output().stdout.is_empty());
    let place = Place::new();
    place.forebay(&["man", "pages"]).assert().success();
    for page in
        ["forebay.1", "forebay-run.1", "forebay-sweep.1", "forebay-plot.1", "forebay-new-plan.1"]
    {
        let text = String::from_utf8_lossy(&place.read(&format!("pages/{page}"))).into_owned();
        assert!(text.contains(".SH NAME"), "{page}");
    }
}

#[test]
fn diff_compares_two_reports_metric_by_metric() {
    // System: a job fed by one thread, and the same job with four. Expectation: the second report is said to be faster; the step
    // time is shorter, marked as beyond chance, by the share that follows from both reports; a report does not differ from
    // itself.
    let place = Place::new();
    for (threads, file) in [("1", "before.json"), ("4", "after.json")] {
        let set = format!("job.loader.tf-queue.threads={threads}");
        let run = ["run", "s.toml", "--verdict", "quick", "--format", "json", "--output", file];
        let set = ["--set", &set, "--set", "run.steps=400"];
        place.forebay(&[&run[..], &set].concat()).assert().success();
    }
    let json = |file: &str| -> serde_json::Value {
        let text = std::fs::read_to_string(place.path(file)).expect("a report");
        serde_json::from_str(&text).expect("JSON")
    };
    let step = |file: &str| json(file)["jobs"][0]["step_time"]["mean"].as_f64().expect("a step");
    let diff = ["diff", "before.json", "after.json"];
    let out = place.forebay(&[&diff[..], &["--format", "json"]].concat()).assert().success();
    let found: serde_json::Value = serde_json::from_slice(&out.get_output().stdout).expect("JSON");
    let changes = found["changes"].as_array().expect("changes");
    let of = changes.iter().find(|of| of["metric"] == "step_time").expect("the step");
    assert_eq!(of["difference"], "real");
    let expected = step("after.json") / step("before.json") - 1.0;
    let change = of["change"].as_f64().expect("a change");
    assert!((change - expected).abs() < 1e-9 && change < -0.5, "{change} {expected}");
    let key = "job.lenet.loader.tf-queue.threads";
    let expected = serde_json::json!([{ "key": key, "before": "1", "after": "4" }]);
    assert_eq!(found["settings"], expected);
    let text = place.forebay(&diff).env("COLUMNS", "80").assert().success();
    let text = String::from_utf8_lossy(&text.get_output().stdout).into_owned();
    let row = |name: &str| text.lines().find(|line| line.contains(name)).unwrap_or_default();
    assert!(row("Step time").contains("yes") && text.contains(" ± "), "{text}");
    assert!(text.contains(&format!("\n{key}: 1 → 4\n")), "{text}");
    // The answer comes first, as a factor of the two rates.
    let rate = |file: &str| json(file)["jobs"][0]["samples_per_second"]["mean"].as_f64();
    let more = 100.0
        * (rate("after.json").zip(rate("before.json")).map(|(a, b)| a / b).expect("rates") - 1.0);
    let answer =
        format!("`lenet` is {more:.1} % faster in the second report, which is beyond chance: ");
    assert!(text.starts_with(&answer), "{answer}\n{text}");
    // In 80 columns, a figure with its two values takes one line.
    let figures = ["Samples/s", "Accelerator utilisation", "Enqueue rate"];
    assert!(figures.iter().all(|name| row(name).contains(" %")), "{text}");
    // No sample is repeated, so the rate of fresh ones is no other figure.
    assert!(
        !text.contains("Fresh samples") && text.contains("that repeat a figure above"),
        "{text}"
    );
    let same = place.forebay(&["diff", "after.json", "after.json"]).assert().success();
    let same = String::from_utf8_lossy(&same.get_output().stdout).into_owned();
    assert!(same.starts_with("`lenet` is as fast in both reports: "), "{same}");
    assert!(same.contains("\nFigures listed: 0; left out: "), "{same}");
    let all = place.forebay(&["diff", "after.json", "after.json", "--all"]).assert().success();
    let all = String::from_utf8_lossy(&all.get_output().stdout).into_owned();
    assert!(all.contains("Step time") && !all.contains("left out"), "{all}");
}

#[test]
fn diff_refuses_files_that_are_no_reports() {
    let place = Place::new();
    place.write("list.json", "[1, 2]");
    place.write("one.json", r#"{ "jobs": [{ "name": "a" }] }"#);
    place.write("other.json", r#"{ "jobs": [{ "name": "b" }] }"#);
    for (files, expected) in [
        (["s.toml", "one.json"], "not JSON"),
        (["one.json", "list.json"], "not a report"),
        (["one.json", "other.json"], "no job has the same name"),
        (["one.json", "nothing.json"], "cannot read nothing.json"),
    ] {
        let out = place.forebay(&["diff", files[0], files[1]]).assert().code(2);
        let said = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
        assert!(said.contains(expected), "{files:?}: {said}");
    }
}
