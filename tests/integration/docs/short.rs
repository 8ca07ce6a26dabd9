//! Shortened scenarios, with which slow commands of the guide run in a moment.

use std::fs;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Maximum number of replications.
const REPLICATIONS: i64 = 2;
/// Limit on the time of a verdict's trials.
const TRIALS: &str = "1 s";

/// Scenarios that are shortened, with their texts before.
pub(super) struct Shortened(Vec<(PathBuf, String)>);

impl Shortened {
    /// Shortens the scenarios that a command names, itself or by a recipe, in `directory`, to at most so many steps.
    pub(super) fn scenarios_of(words: &[String], directory: &Path, steps: i64) -> Shortened {
        let mut before = Vec::new();
        for word in words.iter().filter(|word| word.ends_with(".toml")) {
            let path = directory.join(word);
            let (path, kept) = match table(&path) {
                Some(recipe) if recipe.contains_key("data") => drawn(&recipe, &path),
                Some(scenario) if scenario.contains_key("cluster") => (path, Vec::new()),
                _ => continue,
            };
            let text = fs::read_to_string(&path).expect("a scenario");
            let short = shorten(text.parse().expect("TOML"), steps, &kept);
            fs::write(&path, short.to_string()).expect("a scenario");
            before.push((path, text));
        }
        Shortened(before)
    }

    pub(super) fn restore(self) {
        for (path, text) in self.0 {
            fs::write(path, text).expect("a scenario");
        }
    }
}

/// Returns a command that simulates a scenario with a limit on the time of its verdict's trials; others as they are.
pub(super) fn with_few_trials(command: &str, words: &[String]) -> String {
    match words.iter().any(|word| word == "run") {
        true => format!("{command} --verdict-time '{TRIALS}'"),
        false => command.to_owned(),
    }
}

fn table(path: &Path) -> Option<Table> {
    fs::read_to_string(path).ok()?.parse().ok()
}

/// Returns the scenario of a recipe, and the swept keys of which the recipe needs all values.
fn drawn(recipe: &Table, path: &Path) -> (PathBuf, Vec<String>) {
    let scenario = recipe["data"]["scenario"].as_str().expect("a scenario");
    let panels = recipe.get("panel").and_then(Value::as_array);
    let filters = panels.into_iter().flatten().filter_map(|panel| panel.get("filter"));
    let filters = filters.chain(recipe.get("filter")).filter_map(Value::as_table);
    let keys = filters.flat_map(|filter| filter.keys().map(String::as_str));
    let group = recipe.get("group").and_then(Value::as_str);
    let kept = keys.chain(group).filter(|key| recipe["x"].as_str() != Some(key));
    (path.with_file_name(scenario), kept.map(str::to_owned).collect())
}

/// Returns a scenario with at most so many steps, and few replications; of each swept key except those in `kept`, only the first and
/// the last value are left.
fn shorten(mut scenario: Table, steps: i64, kept: &[String]) -> Table {
    let jobs = scenario.get_mut("job").and_then(Value::as_array_mut);
    for job in jobs.into_iter().flatten().filter_map(Value::as_table_mut) {
        at_most(job, "steps", steps);
    }
    let run = scenario.entry("run").or_insert_with(|| Value::Table(Table::new()));
    let run = run.as_table_mut().expect("a table");
    let open = !["steps", "epochs", "duration"].iter().any(|length| run.contains_key(*length));
    if open {
        run.insert("steps".to_owned(), Value::Integer(steps));
    }
    at_most(run, "steps", steps);
    at_most(run, "epochs", 1);
    at_most(run, "replications", REPLICATIONS);
    if run.get("warm_up").is_some_and(Value::is_integer) {
        run.insert("warm_up".to_owned(), Value::String("off".to_owned()));
    }
    let axes = scenario.get_mut("sweep").and_then(Value::as_table_mut);
    for (key, values) in axes.into_iter().flatten().filter(|(key, _)| !kept.contains(key)) {
        let values = values.as_array_mut().unwrap_or_else(|| panic!("{key}"));
        values.drain(1..values.len().max(2) - 1);
    }
    scenario
}

fn at_most(table: &mut Table, key: &str, most: i64) {
    if let Some(Value::Integer(number)) = table.get_mut(key) {
        *number = (*number).min(most);
    }
}
