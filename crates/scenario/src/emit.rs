//! A scenario file with changed keys, as a text.

use super::document::{Document, Kind, NodeId, ROOT, quoted};
use super::file::ScenarioFile;
use super::overrides::{Edit, Override};
use super::value::Value;
use std::ops::Range;

impl ScenarioFile {
    /// Returns this scenario file's text with these overrides. If the file has all keys that change, only their values are replaced.
    /// Otherwise the text is written anew, and only the comments at its beginning stay. `without` names top-level tables to leave
    /// out, such as `sweep`.
    #[must_use]
    pub fn emit(&self, overrides: &[Override], without: &[&str]) -> String {
        let is_there = |name: &&&str| self.document.member(ROOT, name).is_some();
        if !without.iter().any(|name| is_there(&name))
            && let Some(text) = self.spliced(overrides)
        {
            return text;
        }
        let is_head = |line: &&str| line.trim_start().starts_with('#') || line.trim().is_empty();
        let head: Vec<&str> = self.text.lines().take_while(is_head).collect();
        let mut text = head.join("\n");
        if !text.trim().is_empty() {
            text.push('\n');
        }
        let document = self.changed(overrides);
        let kept = document.children(ROOT).iter().copied();
        let kept = kept.filter(|&id| !without.contains(&&*document.node(id).key));
        write_table(&document, &kept.collect::<Vec<_>>(), "", &mut text);
        text
    }

    /// Returns the text with the values of keys replaced where they stand; `None` if a key is removed, or not in the file.
    fn spliced(&self, overrides: &[Override]) -> Option<String> {
        let mut places: Vec<(Range<usize>, String)> = Vec::new();
        for change in overrides {
            let Edit::Set(value) = change.edit() else { return None };
            let found = self.document.find(change.path());
            if found.is_empty() {
                return None;
            }
            for id in found {
                let node = self.document.node(id);
                let whole = matches!(node.kind, Kind::Table(_) | Kind::List(_));
                if node.span.is_empty() || whole {
                    return None;
                }
                places.retain(|(span, _)| *span != node.span);
                places.push((node.span.clone(), value.as_written()));
            }
        }
        places.sort_by_key(|(span, _)| span.start);
        let mut text = self.text.clone();
        for (span, value) in places.into_iter().rev() {
            text.replace_range(span, &value);
        }
        Some(text)
    }
}

/// Writes the members of a table: first its values, then its tables under headings.
fn write_table(document: &Document, members: &[NodeId], path: &str, text: &mut String) {
    let below = |id: NodeId| {
        let key = quoted(&document.node(id).key);
        if path.is_empty() { key } else { format!("{path}.{key}") }
    };
    let is_table = |id: NodeId| matches!(document.node(id).kind, Kind::Table(_));
    let is_list_of_tables = |id: NodeId| {
        let elements = document.children(id);
        matches!(document.node(id).kind, Kind::List(_))
            && !elements.is_empty()
            && elements.iter().all(|&element| is_table(element))
    };
    // Tables that hold only values fit into a line, as they are usually written.
    let is_short = |id: NodeId| {
        let flat = document.children(id).iter().all(|&of| !is_table(of) && !is_list_of_tables(of));
        flat && !path.is_empty() && document.children(id).len() <= 4
    };
    let (tables, values): (Vec<NodeId>, Vec<NodeId>) =
        members.iter().partition(|&&id| (is_table(id) && !is_short(id)) || is_list_of_tables(id));
    for id in values {
        let value = Value(document.tree(id)).as_written();
        text.push_str(&format!("{} = {value}\n", quoted(&document.node(id).key)));
    }
    for id in tables {
        let heading = below(id);
        match is_list_of_tables(id) {
            true => {
                for &element in document.children(id) {
                    text.push_str(&format!("\n[[{heading}]]\n"));
                    write_table(document, document.children(element), &heading, text);
                }
            }
            false => {
                text.push_str(&format!("\n[{heading}]\n"));
                write_table(document, document.children(id), &heading, text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{FLETCHER, fletcher};
    use super::*;

    fn emitted(changes: &[&str], without: &[&str]) -> String {
        let changes: Vec<Override> =
            changes.iter().map(|text| text.parse().expect("a key")).collect();
        let (text, before) = (fletcher().emit(&changes, without), fletcher().resolve(&changes));
        let again = ScenarioFile::parse("b.toml", text.clone()).expect(&text);
        let after = again.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
        assert_eq!(before.expect("a scenario"), after, "{text}");
        assert_eq!(again.axes().expect("axes").is_empty(), without.contains(&"sweep"));
        text
    }

    #[test]
    fn values_of_written_keys_are_replaced_and_all_else_stays() {
        let text = emitted(&["job.batch=32", "cluster.network.nic=25 Gbit/s"], &[]);
        let differs = FLETCHER.lines().zip(text.lines()).filter(|(before, after)| before != after);
        let after: Vec<&str> =
            differs.map(|(_, after)| after.split('#').next().unwrap_or("").trim()).collect();
        assert_eq!(after, ["nic = \"25 Gbit/s\"", "batch = 32"]);
    }

    #[test]
    fn a_scenario_with_keys_that_its_file_lacks_is_written_anew_with_its_question() {
        let text = emitted(&["cluster.node.power.idle=300 W", "job.batch=32"], &["sweep"]);
        let question = fletcher().question().expect("a question").to_owned();
        assert!(text.starts_with(&format!("# {question}")), "{text}");
        assert!(text.contains("[[job]]\n") && !text.contains("[sweep]"), "{text}");
    }

    #[test]
    fn every_kind_of_table_is_read_back_as_written() {
        for (changes, unset) in [
            (&["job.loader={ pytorch = { workers = 4 } }"][..], None),
            (
                &[
                    "storage.hpctmp={ parallel-fs = { targets = 4, target_bandwidth = \"1 GB/s\" } }",
                ],
                None,
            ),
            (&["cluster.group.old={ nodes = 2, node = { gpus = 1, cores = 8 } }"], None),
            (
                &[
                    "fault=[{ storage = \"hpctmp\", from = \"1 s\", until = \"2 s\", factor = 0.1 }]",
                ],
                None,
            ),
            (&["prices.gpu=$1.20 /h", "prices.\"other\".\"a b\"=$5"], None),
            (&["run.seed=7"], Some("cluster.network.nic")),
            (&[], Some("cluster.network.nic")),
        ] {
            let changes = changes.iter().map(|text| text.parse::<Override>().expect("a key"));
            let unset = unset.map(|key| Override::parse_unset(key).expect("a key"));
            let changes: Vec<Override> = changes.chain(unset).collect();
            let before = fletcher().resolve(&changes);
            let before = before.unwrap_or_else(|problems| panic!("{changes:?}: {problems}"));
            let text = fletcher().emit(&changes, &["sweep"]);
            let again = ScenarioFile::parse("b.toml", text.clone()).expect(&text).resolve(&[]);
            assert_eq!(Ok(before), again, "{text}");
        }
    }
}
