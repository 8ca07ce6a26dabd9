//! `forebay compare`: scenarios, options and reports side by side.

use super::support::{Place, SCENARIO};

/// Returns what a comparison prints as JSON.
fn json(place: &Place, arguments: &[&str]) -> serde_json::Value {
    let all = [&["compare", "--quiet", "--format", "json"], arguments].concat();
    let out = place.forebay(&all).assert().success();
    serde_json::from_slice(&out.get_output().stdout).expect("JSON")
}

/// Returns the mean of a figure of the first job of one that is compared.
fn mean(found: &serde_json::Value, at: usize, metric: &str) -> Option<f64> {
    let figures = found["compared"][at]["jobs"][0]["figures"].as_array()?;
    figures.iter().find(|figure| figure["metric"] == metric)?["mean"].as_f64()
}

const OPTIONS: [&str; 4] =
    ["--option", "as it is", "--option", "more=job.loader.tf-queue.threads=16,job.batch=16"];

#[test]
fn options_scenarios_and_reports_of_the_same_runs_have_the_same_figures() {
    let place = Place::new();
    place.write(
        "more.toml",
        &SCENARIO.replace("threads = 2", "threads = 16").replace("batch = 8", "batch = 16"),
    );
    for (name, output) in [("s.toml", "s.json"), ("more.toml", "more.json")] {
        let run = ["run", name, "--verdict", "quick", "--format", "json", "--output", output];
        place.forebay(&run).assert().success();
    }
    let options = json(&place, &[&["s.toml"], &OPTIONS[..]].concat());
    let files = json(&place, &["s.toml", "more.toml"]);
    let reports = json(&place, &["s.json", "more.json"]);
    for metric in ["samples_per_second", "step_time", "stall"] {
        for at in [0, 1] {
            let value = mean(&options, at, metric);
            assert!(value.is_some(), "{metric}: {options}");
            assert_eq!(
                [mean(&files, at, metric), mean(&reports, at, metric)],
                [value; 2],
                "{metric}"
            );
        }
    }
    assert_eq!(options["compared"][0]["name"], "as it is");
    assert_eq!([&files["compared"][1]["name"], &reports["compared"][1]["name"]], ["more", "more"]);
    let text = place.forebay(&[&["compare", "s.toml"], &OPTIONS[..]].concat()).assert().success();
    let text = String::from_utf8_lossy(&text.get_output().stdout).into_owned();
    for words in ["as it is", "more", "Largest stall", "Differences are to `as it is`"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn costs_stand_beside_figures_where_there_are_prices() {
    let place = Place::new();
    let prices = format!("{SCENARIO}\n[prices]\ncore = \"1 EUR/h\"\n");
    place.write("s.toml", &prices);
    let more = ["--option", "as it is", "--option", "cores=cluster.node.cores=8"];
    let found = json(&place, &[&["s.toml"], &more[..]].concat());
    // Two nodes of four cores, for 730 hours.
    assert_eq!(mean(&found, 0, "cost_per_month"), Some(8.0 * 730.0));
    assert_eq!(mean(&found, 1, "cost_per_month"), Some(16.0 * 730.0));
    let text = place.forebay(&[&["compare", "s.toml"], &more[..]].concat()).assert().success();
    let text = String::from_utf8_lossy(&text.get_output().stdout).into_owned();
    assert!(text.contains("5,840 EUR") && text.contains("+100.0 %"), "{text}");
}

#[test]
fn an_option_that_is_refused_leaves_the_others_and_the_exit_code_says_so() {
    let place = Place::new();
    let options = ["--option", "as it is", "--option", "broken=cluster.node.cores=-1"];
    let all = [&["compare", "s.toml", "--quiet", "--format", "json"], &options[..]].concat();
    let out = place.forebay(&all).assert().code(2);
    let found: serde_json::Value = serde_json::from_slice(&out.get_output().stdout).expect("JSON");
    assert!(mean(&found, 0, "step_time").is_some());
    assert!(
        found["compared"][1]["failed"].as_str().is_some_and(|why| why.contains("cores")),
        "{found}"
    );
}

#[test]
fn comparisons_that_cannot_be_made_are_refused_with_what_to_write() {
    let place = Place::new();
    place.write("r.json", "{ \"jobs\": [{ \"name\": \"a\" }] }");
    place.write("n.json", "[1, 2]");
    for (arguments, words) in [
        (&["s.toml"][..], "write `--option NAME=KEY=VALUE`"),
        (&["s.toml", "r.json"], "name only reports"),
        (&["r.json", "r.json", "--option", "a"], "leave out `--option`, or name the scenarios"),
        (&["r.json", "r.json", "--set", "job.batch=9"], "leave out `--set`"),
        (&["r.json", "r.json", "--unset", "job.batch"], "leave out `--unset`"),
        (&["r.json", "r.json", "--threads", "1"], "leave out `--threads`"),
        (&["-", "-"], "standard input can be read only once"),
        (&["s.toml", "s.toml", "--figure", "f.gif"], "name it .svg or .png"),
        (&["s.toml", "s.toml", "--figure", "s.toml"], "s.toml"),
        (&["s.toml", "s.toml", "--option", "a"], "leave out `--option`"),
        (&["n.json", "r.json"], "not a report"),
        (&["missing.json", "r.json"], "missing.json"),
        (&["missing.toml", "s.toml"], "missing.toml"),
        (&["s.toml", "--option", "a", "--columns", "step_tme"], "step_time"),
    ] {
        let out = place.forebay(&[&["compare"], arguments].concat()).assert().code(2);
        let message = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
        assert!(
            message.contains(words) && !message.contains("panicked"),
            "{arguments:?}: {message}"
        );
    }
}

/// Returns what a comparison prints as text, with any exit code, and its messages.
fn text(place: &Place, arguments: &[&str]) -> (String, String) {
    let out = place.forebay(&[&["compare"], arguments].concat()).output().expect("an end");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&out.stdout), text(&out.stderr))
}

#[test]
fn a_scenario_from_standard_input_is_read_once_for_all_options() {
    let place = Place::new();
    let all = [&["compare", "-", "--quiet", "--format", "json"], &OPTIONS[..]].concat();
    let out = place.forebay(&all).write_stdin(SCENARIO).assert().success();
    let found: serde_json::Value = serde_json::from_slice(&out.get_output().stdout).expect("JSON");
    let file = json(&place, &[&["s.toml"], &OPTIONS[..]].concat());
    assert!(mean(&found, 1, "step_time").is_some(), "{found}");
    // The recorded commands differ.
    assert_eq!(found["compared"], file["compared"]);
}

#[test]
fn sentences_of_reports_and_failures_take_one_line() {
    // System: reports whose verdict has a table below its sentence, and an option that is refused with its place and help.
    // Expectation: the sentence only, and no line break that is written as `\u{a}`.
    let place = Place::new();
    let run = ["run", "s.toml", "--format", "json", "--output", "s.json"];
    place.forebay(&run).assert().success();
    let report: serde_json::Value = serde_json::from_slice(&place.read("s.json")).expect("JSON");
    let verdict = report["verdict"]["text"].as_str().expect("a verdict");
    assert!(verdict.lines().count() > 1, "{verdict}");
    let (found, _) = text(&place, &["s.json", "s.json"]);
    let first = verdict.lines().next().expect("a sentence");
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat(&found).contains(&flat(first)) && !found.contains("u{a}"), "{found}");
    let second = flat(verdict.lines().last().expect("a table"));
    assert!(!flat(&found).contains(&second), "{found}");
    let (found, _) =
        text(&place, &["s.toml", "--option", "a", "--option", "b=cluster.node.cores=-1"]);
    assert!(found.contains("`b` could not be run: cluster.node.cores: "), "{found}");
    assert!(!found.contains("u{a}") && !found.contains("-->"), "{found}");
}

#[test]
fn costs_in_two_currencies_have_no_difference() {
    let place = Place::new();
    for (name, price) in [("a.toml", "$1 /h"), ("b.toml", "2 EUR/h"), ("c.toml", "$2 /h")] {
        place.write(name, &format!("{SCENARIO}\n[prices]\ncore = \"{price}\"\n"));
    }
    let costs = ["--columns", "cost_per_month"];
    let (found, _) = text(&place, &[&["a.toml", "b.toml"], &costs[..]].concat());
    assert!(!found.contains("+100"), "{found}");
    let flat = found.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("Costs in $ and EUR have no difference"), "{found}");
    let (found, _) = text(&place, &[&["a.toml", "c.toml"], &costs[..]].concat());
    assert!(found.contains("+100.0 %"), "{found}");
    // A figure draws no costs of two currencies side by side.
    let (_, said) =
        text(&place, &[&["a.toml", "b.toml", "--figure", "f.svg"], &costs[..]].concat());
    assert!(said.contains("f.svg was not drawn: "), "{said}");
}

#[test]
fn warnings_of_reports_stand_below_the_table_and_in_the_json() {
    // System: a run too short for a checkpoint, beside one with many. Expectation: the warning of the first only, by its name.
    let place = Place::new();
    let checkpoint = |interval: &str| {
        format!(
            "{SCENARIO}\n[job.checkpoint]\ninterval = \"{interval}\"\nbytes = \"1 kB\"\nstorage = \"disk\"\n"
        )
    };
    place.write("rare.toml", &checkpoint("1 h"));
    place.write("often.toml", &checkpoint("10 ms"));
    let found = json(&place, &["rare.toml", "often.toml"]);
    let warning = found["compared"][0]["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("checkpoint"), "{warning}");
    let (found, _) = text(&place, &["rare.toml", "often.toml"]);
    let flat = found.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("Warning, `rare`: "), "{found}");
    let mut again = place.forebay(&["run", "rare.toml", "--format", "json", "--output", "r.json"]);
    again.output().expect("an end");
    let report: serde_json::Value = serde_json::from_slice(&place.read("r.json")).expect("JSON");
    assert!(report["warnings"].as_array().is_some_and(|all| all.iter().any(|one| one == warning)));
}

#[test]
fn a_file_that_is_named_twice_has_two_names() {
    let place = Place::new();
    let found = json(&place, &["s.toml", "s.toml"]);
    let names = [&found["compared"][0]["name"], &found["compared"][1]["name"]];
    assert_eq!(names, ["s.toml", "s.toml (2)"]);
}

#[test]
fn too_many_options_are_refused_before_anything_is_simulated() {
    let place = Place::new();
    let options: Vec<String> = (0..51).map(|number| format!("--option=o{number}")).collect();
    let mut arguments = vec!["compare", "s.toml", "--set", "run.steps=100000000"];
    arguments.extend(options.iter().map(String::as_str));
    let mut command = place.forebay(&arguments);
    let out = command.timeout(std::time::Duration::from_secs(30)).assert().code(2);
    let message = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
    assert!(message.contains("51 are compared, and at most 50"), "{message}");
}

#[test]
fn a_figure_has_bars_of_the_compared_figures_and_of_causes() {
    let place = Place::new();
    place.write("s.toml", &format!("{SCENARIO}\n[prices]\ncore = \"$1 /h\"\n"));
    let drawn = |more: &[&str]| {
        let all = [&["compare", "s.toml", "--figure", "f.svg"], &OPTIONS[..], more].concat();
        place.forebay(&all).assert().success();
        String::from_utf8_lossy(&place.read("f.svg")).into_owned()
    };
    let usual = drawn(&[]);
    for words in
        ["as it is", "more", "95 % interval", "Step time", "computing", "Compared: as it is, more"]
    {
        assert!(usual.contains(words), "{words}: {usual}");
    }
    // Two options in four figures and in the causes.
    assert_eq!(usual.matches("\nas it is\n").count(), 5, "{usual}");
    assert!(!usual.contains("NaN"), "{usual}");
    let one = drawn(&["--columns", "epoch_time"]);
    assert_eq!(one.matches("\nas it is\n").count(), 2, "{one}");
    let png = [&["compare", "s.toml", "--figure", "f.png"], &OPTIONS[..]].concat();
    place.forebay(&png).assert().success();
    assert!(place.read("f.png").starts_with(b"\x89PNG"));
}
