//! The page of the reference: headings, and keys as lists.

use super::Examples;
use super::examples::Example;
use super::live;
use super::tables::{Key, Table, Tables, about};
use crate::scenario::{Role, default_in};
use crate::units;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// A file format on the page.
pub(super) struct Format {
    /// Heading of the chapter.
    title: &'static str,
    /// Paragraph below the heading: what the files are for.
    about: &'static str,
    /// Prefix of the headings of tables, so that no two headings of the page are the same.
    prefix: &'static str,
    /// Whether the format is that of scenario files. For tables of scenarios, the page also names the kinds of loader, storage
    /// and so on that contain the table, and whether `live` refuses the table.
    is_scenario: bool,
}

pub(super) const SCENARIO: Format = Format {
    title: "Scenario files",
    about: "What trains where on which data: read by `run`, `sweep`, `live`, `plot` and `validate`. `forebay schema scenario` \
            prints the JSON Schema that this chapter is made of, `forebay new scenario` writes a first file, and `forebay \
            explain-defaults FILE --all` shows what a file leaves to defaults. The last word in the parentheses after a key says what \
            the key is: a *limit*, an amount that can hold training back; a *choice* among ways to do the work on the same \
            hardware; part of the *identity*, which makes the question another one; or about the *output*, how long a run is, \
            how it is simulated and what is reported of it. Limits and choices are what may make a training faster.",
    prefix: "",
    is_scenario: true,
};

pub(super) const RECIPE: Format = Format {
    title: "Recipes of figures",
    about: "Which columns of which rows to draw, and how: read by `plot`. Columns are those of [rows](#columns-of-rows) and the \
            swept keys. `forebay schema recipe` prints the JSON Schema, `forebay new plot` writes a first file.",
    prefix: "recipe: ",
    is_scenario: false,
};

pub(super) const PLAN: Format = Format {
    title: "Calibration plans",
    about: "What to measure of a machine: read by `calibrate`. Probes that are not written are not run. `forebay schema plan` \
            prints the JSON Schema, `forebay new plan` writes a first file.",
    prefix: "plan: ",
    is_scenario: false,
};

pub(super) const VALIDATION: Format = Format {
    title: "Validation plans",
    about: "Which configurations of a scenario to run on this machine and to predict: read by `validate`. `forebay schema \
            validation` prints the JSON Schema.",
    prefix: "validation: ",
    is_scenario: false,
};

/// The Markdown text that has been written so far.
pub(super) struct Page {
    text: String,
}

impl Page {
    pub(super) fn new() -> Page {
        Page { text: String::new() }
    }

    pub(super) fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    pub(super) fn paragraph(&mut self, text: &str) {
        self.line(text);
        self.line("");
    }

    pub(super) fn heading(&mut self, depth: usize, text: &str) {
        self.paragraph(&format!("{} {text}", "#".repeat(depth)));
    }

    /// Returns the whole text, with one line break at its end.
    pub(super) fn finish(self) -> String {
        self.text.trim_end().to_owned() + "\n"
    }

    pub(super) fn introduction(&mut self) {
        self.line("<!-- Written by `forebay reference > docs/src/reference.md`; a test says when it is stale. -->");
        self.line("");
        self.heading(1, "Reference");
        self.paragraph(
            "Every key of every file, every column of rows, every cause of a stall and every exit code of this version of \
             forebay. `forebay reference` prints this page.",
        );
        self.paragraph(
            "A key is written with its table: `batch` of `job` is `batch = 64` below `[[job]]`, or `--set job.batch=64`. `NAME` \
             stands for a name of yours, as in `[storage.NAME.file-server]`. Of a list of *kinds* one is written, as a table of \
             that name. Examples are from the shipped scenario beside them; without one, they are values that a test was seen \
             to respond to.",
        );
    }

    /// Writes the chapter on quantities and their units.
    pub(super) fn values(&mut self) {
        self.heading(2, "Values");
        self.paragraph(
            "Quantities are texts with a unit: `\"10 Gbit/s\"`. A number without one is refused. Times may have several: `\"1 min 15 s\"`. What is counted is a number: `4`.",
        );
        for of in units::families() {
            self.line(&format!(
                "- **{}**: `\"{}\"`. From {} to {}. Units: {}.",
                of.what.split_once(' ').map_or(of.what, |(_, what)| what),
                of.example,
                of.least,
                of.most,
                of.units
            ));
        }
        self.line("");
        self.paragraph("Some keys also accept zero; their default or meaning says so.");
    }

    /// Writes the chapter of a file format, with all its tables.
    pub(super) fn file(&mut self, format: &Format, schema: &Json, examples: &Examples) {
        self.heading(2, format.title);
        self.paragraph(format.about);
        let tables = Tables::new(schema);
        for table in &tables.tables {
            self.table(format, &tables, table, examples);
        }
    }

    fn table(
        &mut self,
        format: &Format,
        tables: &Tables<'_>,
        table: &Table<'_>,
        examples: &Examples,
    ) {
        self.heading(3, &title(format, &table.path));
        let kinds = if table.kinds { " One of these kinds:" } else { "" };
        let about = format!("{}{kinds}", table.about);
        if !about.is_empty() {
            self.paragraph(about.trim_start());
        }
        let users = tables.users(&table.path);
        let concerned = if format.is_scenario { concerned(&users) } else { None };
        let simulated = format.is_scenario && users.iter().all(|of| live::is_simulated_only(of));
        let world = simulated.then(|| "Simulated only: `live` refuses it.".to_owned());
        let facts: Vec<String> =
            concerned.map(|of| format!("Concerns {of}.")).into_iter().chain(world).collect();
        if !facts.is_empty() {
            self.paragraph(&format!("*{}*", facts.join(" ")));
        }
        for key in &table.keys {
            let live = format.is_scenario && !simulated && live::is_simulated_only(&key.path);
            let example = examples.0.get(&format!("{}{}", format.prefix, key.path));
            self.key((format, tables), table, key, (example, live));
        }
        self.line("");
    }

    fn key(
        &mut self,
        (format, tables): (&Format, &Tables<'_>),
        table: &Table<'_>,
        key: &Key<'_>,
        (example, simulated_only): (Option<&Example>, bool),
    ) {
        let link =
            |words: &str, path: &str| format!("[{words}](#{})", anchor(&title(format, path)));
        let description = match about(key.node) {
            own if own.is_empty() => about(tables.target(key.node)),
            own => own,
        };
        let default = default_in(&description);
        let text = match &default {
            Some(value) => description.replace(&format!(" (default: {value})"), ""),
            None => description,
        };
        let name = &key.name;
        if table.kinds {
            let own = tables.tables.iter().any(|of| of.path == key.path);
            let place = if own { Some(key.path.as_str()) } else { tables.place_of_kind(key.node) };
            let code = format!("`{name}`");
            let shown = place.map_or_else(|| code.clone(), |path| link(&code, path));
            self.line(&format!("- **{shown}**: {}", sentence(&text)));
        } else {
            let mut words = tables.words(key.node, &link);
            if words.ends_with("table") && tables.tables.iter().any(|of| of.path == key.path) {
                words.truncate(words.len() - "table".len());
                words += &link("table", &key.path);
            }
            // Sizes and times may be random: a distribution's values have the unit of the key that it is written for.
            let shared = key.path.starts_with("distribution.") && words == "size";
            let mut facts = vec![if shared { "quantity of the key".to_owned() } else { words }];
            facts.push(match (&default, key.required) {
                (Some(value), _) => format!("default: {}", code(value)),
                (None, true) => "required".to_owned(),
                (None, false) => "optional".to_owned(),
            });
            facts.extend(Role::of(key.node).map(|role| role.name().to_owned()));
            self.line(&format!("- **`{name}`** ({}): {}", facts.join("; "), sentence(&text)));
            for (value, meaning) in tables.values(key.node) {
                self.line(&format!("  - `{value}`: {}", sentence(&meaning)));
            }
        }
        if simulated_only {
            self.line("  *Simulated only: `live` refuses it.*");
        }
        // A kind is a whole table: the shipped file shows it better than one value would.
        let plain = example
            .map(|of| Example { value: of.value.clone().filter(|_| !table.kinds), ..of.clone() });
        if let Some(shown) = plain.and_then(|of| self::example(name, &of)) {
            self.line(&format!("  {shown}"));
        }
    }
}

/// Returns the sentence that gives an example; `None` if there is neither a value nor a file.
fn example(name: &str, of: &Example) -> Option<String> {
    let value = of.value.as_ref().map(|value| format!("`{name} = {value}`"));
    let shown = of.file.as_ref().map(|path| format!("`{path}`"));
    Some(match (value, shown) {
        (Some(value), Some(shown)) => format!("Example: {value} in {shown}."),
        (Some(value), None) => format!("Example: {value}."),
        (None, Some(shown)) => format!("Example: {shown}."),
        (None, None) => return None,
    })
}

/// Returns which loaders, kinds of storage and so on may contain a table, given all paths of the table; `None` if the table is
/// not restricted to some kinds.
fn concerned(paths: &BTreeSet<String>) -> Option<String> {
    let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for path in paths {
        let parts: Vec<&str> = path.split('.').collect();
        let (what, kind) = match parts.as_slice() {
            ["job", "loader", kind, ..] => ("jobs with the loader", *kind),
            ["storage", _, kind, ..] => ("storage of the kind", *kind),
            ["dataset", _, "layout", kind, ..] => ("data sets in the layout", *kind),
            ["job", "sync", kind, ..] => ("jobs whose model copies agree by", *kind),
            _ => return None,
        };
        all.entry(what).or_default().insert(kind);
    }
    let kinds = |of: &BTreeSet<&str>| {
        of.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(", ")
    };
    let all: Vec<String> = all.iter().map(|(what, of)| format!("{what} {}", kinds(of))).collect();
    Some(all.join("; "))
}

/// Returns the heading of the table at `path`.
fn title(format: &Format, path: &str) -> String {
    match path {
        "" => format!("{}top level", format.prefix),
        "distribution" => "Distributions".to_owned(),
        path => format!("{}`{path}`", format.prefix),
    }
}

/// Returns the anchor that Markdown gives to a heading.
fn anchor(title: &str) -> String {
    let kept = title.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the text with a full stop at its end.
fn sentence(text: &str) -> String {
    let text = text.trim();
    let ended = text.is_empty() || text.ends_with(['.', ':', '?']);
    format!("{text}{}", if ended { "" } else { "." })
}

/// Formats a default: a value as code, a description in words unchanged.
fn code(value: &str) -> String {
    let words = value.split(' ').count();
    let is_number = value.starts_with(|c: char| c.is_ascii_digit()) && words <= 2;
    let is_text = value.starts_with('"') && value.ends_with('"') && value.matches('"').count() == 2;
    let is_value =
        is_number || is_text || value.starts_with(['[', '{']) || ["true", "false"].contains(&value);
    if is_value { format!("`{value}`") } else { value.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heading_anchors_follow_markdown_rules() {
        assert_eq!(anchor("`job.loader.tf-data`"), "jobloadertf-data");
        assert_eq!(anchor("plan: top level"), "plan-top-level");
    }

    #[test]
    fn default_values_are_formatted_as_code_and_descriptions_as_text() {
        assert_eq!(
            [code("2"), code("\"any\""), code("as the profile says")],
            ["`2`", "`\"any\"`", "as the profile says"]
        );
    }
}
