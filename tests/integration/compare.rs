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
        (&["r.json", "r.json", "--option", "a"], "name the scenario"),
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
