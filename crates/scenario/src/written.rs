//! Keys that a scenario file and its overrides set, for reports: they say what a run was made from.

use super::document::{Document, Kind, NodeId, ROOT};

/// Maximum number of keys that are listed.
const MOST: usize = 1_000;
/// Maximum length of a value [characters]; longer values end in "…".
const LONGEST: usize = 200;

/// A key that the scenario file or an override sets.
#[derive(
    Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub struct Setting {
    /// The key, in the form that `--set` takes.
    pub key: String,
    /// Value of the key in TOML.
    pub value: String,
}

/// Returns the keys that `document` sets, in the order of the file, without those of `[sweep]`, which no run reads, and without those
/// that overrides from number `overrides` on set. A list is one value.
pub(super) fn settings(document: &Document, overrides: usize) -> Vec<Setting> {
    let mut found = Vec::new();
    for &table in document.children(ROOT) {
        if !["plan", "sweep"].contains(&&*document.node(table).key) {
            collect(document, overrides, table, &mut found);
        }
    }
    found
}

fn collect(document: &Document, overrides: usize, at: NodeId, found: &mut Vec<Setting>) {
    let later = |at: NodeId| document.node(at).origin.is_some_and(|origin| origin >= overrides);
    if found.len() == MOST || later(at) {
        return;
    }
    let tables = |&child: &NodeId| matches!(document.node(child).kind, Kind::Table(_));
    let children = document.children(at);
    let goes_on = match document.node(at).kind {
        Kind::Table(_) => !children.is_empty(),
        Kind::List(_) => !children.is_empty() && children.iter().all(tables),
        _ => false,
    };
    if goes_on {
        children.iter().for_each(|&child| collect(document, overrides, child, found));
    } else if !children.iter().any(|&child| later(child)) {
        found.push(Setting { key: document.path(at), value: shown(document, at) });
    }
}

fn shown(document: &Document, at: NodeId) -> String {
    let children = document.children(at);
    // A list of a million values is not written out first.
    if children.len() > LONGEST {
        return format!("{} values", children.len());
    }
    let text = document.tree(at).to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use crate::ScenarioFile;

    #[test]
    fn listed_settings_come_from_scenario_file_and_overrides_not_from_the_sweep() {
        let text = "name = \"x\"\n[run]\nsteps = 5\n[[job]]\nname = \"j\"\nloader.in-memory = {}\n\
                    model.step = { table = [1, 2] }\n[sweep]\n\"run.seed\" = [1, 2]\n";
        let file = ScenarioFile::parse("x.toml", text.to_owned()).expect("it is TOML");
        let change = ["run.steps=7", "job.j.batch=8"].map(|set| set.parse().expect("an override"));
        let found = super::settings(&file.changed(&change), usize::MAX);
        let found: Vec<_> = found.iter().map(|of| format!("{}={}", of.key, of.value)).collect();
        let expected = [
            "name=\"x\"",
            "run.steps=7",
            "job.j.name=\"j\"",
            "job.j.loader.in-memory={  }",
            "job.j.model.step.table=[1, 2]",
            "job.j.batch=8",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn settings_before_an_override_leave_out_what_it_and_later_ones_set() {
        // System: keys of all jobs, of one, a whole table, and one element of a list. Expectation: none of them is listed.
        let text = "[run]\nsteps = 5\n[[job]]\nname = \"a\"\nbatch = 1\nloader.in-memory = {}\n\
                    [[job]]\nname = \"b\"\nbatch = 1\nmodel.step = { table = [1, 2] }\n";
        let file = ScenarioFile::parse("x.toml", text.to_owned()).expect("it is TOML");
        let change = [
            "run.steps=7",
            "job.batch=8",
            "job.a.loader={pytorch={workers=2}}",
            "job.1.model.step.table.0=3",
        ];
        let change = change.map(|set| set.parse().expect("an override"));
        let found = super::settings(&file.changed(&change), 1);
        let found: Vec<_> = found.iter().map(|of| format!("{}={}", of.key, of.value)).collect();
        assert_eq!(found, ["run.steps=7", "job.a.name=\"a\"", "job.b.name=\"b\""]);
    }

    #[test]
    fn long_lists_and_values_of_settings_are_shortened() {
        let text = format!("a = [{}]\nb = \"{}\"\n", "1, ".repeat(1000), "x".repeat(1000));
        let file = ScenarioFile::parse("x.toml", text).expect("it is TOML");
        let found = super::settings(&file.changed(&[]), usize::MAX);
        assert_eq!(found[0].value, "1000 values");
        assert_eq!(found[1].value.chars().count(), 201);
    }
}
