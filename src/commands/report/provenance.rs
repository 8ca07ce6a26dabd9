//! What a result rests on and where it comes from, as far as its file says.

use super::SCENARIO;
use super::read::{list, number, text};
use crate::commands::diff;
use crate::page::{Block, Column, Part, Section, Table};
use crate::report::format;
use serde_json::Value;

/// Returns the keys that the scenario sets.
pub(super) fn scenario(of: &Value) -> Part {
    Part::new(SCENARIO, keys(of, "settings", "Keys that the scenario sets", false))
}

/// Returns the table of keys in the list `of.key`, with the sources of their values if `sources`.
pub(super) fn keys(of: &Value, key: &str, caption: &str, sources: bool) -> Vec<Block> {
    let mut columns = vec![Column::text("key"), Column::text("value")];
    columns.extend(sources.then(|| Column::text("whose value it is")));
    let row = |entry: &Value| {
        let part = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
        let names = ["key", "value", "source"];
        names.iter().take(columns.len()).map(|name| part(name).into()).collect()
    };
    let rows: Vec<Vec<_>> = list(of, key).map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    vec![Block::Table(Table { caption: caption.to_owned(), columns, rows })]
}

/// Returns what was assumed: the nominal number that the answer rests on, notes, and defaults.
pub(super) fn assumed(of: &Value) -> Part {
    let mut blocks = Vec::new();
    // The answer names the number that it rests on; here is its effect on the step time.
    if let Some(rests) = of.get("rests_on") {
        let ends = rests.get("step_time90").and_then(diff::ends);
        if let (Some(draws), Some(ends)) = (number(rests, "/draws"), ends) {
            let [low, high] = ends.map(format::seconds);
            blocks.push(Block::Paragraph(format!(
                "Over {draws} draws of what publications reached, a step takes {low} to {high}."
            )));
        }
    }
    let profile = list(of, "settings").find(|entry| entry["key"] == "profile");
    if let Some(profile) = profile.and_then(|entry| text(entry, "/value")) {
        blocks.push(Block::Paragraph(format!("Missing values come from the profile `{profile}`.")));
    }
    let notes = super::read::texts(of, "notes");
    if !notes.is_empty() {
        blocks.push(Block::List(notes));
    }
    blocks.extend(keys(of, "assumed", "Defaults that the run took, and whose they are", true));
    Part::new("What was assumed", blocks)
}

/// Returns the command, the version and the seed that made a result.
pub(super) fn origin(of: &Value) -> Part {
    let mut facts = Vec::new();
    facts.extend(text(of, "/version").map(|version| format!("Version of forebay: {version}.")));
    facts.extend(of.get("seed").and_then(Value::as_u64).map(|seed| format!("Seed: {seed}.")));
    let mut blocks = Vec::new();
    match text(of, "/command") {
        Some(command) => blocks
            .push(Block::Lines { label: "The command that made it".to_owned(), text: command }),
        None => facts.push("The file does not say which command made it.".to_owned()),
    }
    if !facts.is_empty() {
        blocks.push(Block::List(facts));
    }
    Part::new(ORIGIN, blocks)
}

/// Title of the part on where a result comes from.
pub(super) const ORIGIN: &str = "Where it comes from";

/// Says which file a section was made from.
pub(super) fn add_file(section: &mut Section, name: &str, text: &str) {
    let size = format::bytes(text.len() as f64);
    let block = Block::Paragraph(format!("This was made from the file `{name}` ({size})."));
    match section.parts.iter_mut().find(|part| part.title == ORIGIN) {
        Some(part) => part.blocks.push(block),
        None => section.parts.push(Part::new(ORIGIN, vec![block])),
    }
}
