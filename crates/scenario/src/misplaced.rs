//! Tables of the top level that are written below the heading of another table, such as `storage.nfs…` below `[cluster]`: TOML
//! then makes them a part of that table.

use super::document::{Document, Kind, NodeId, ROOT, quoted};
use super::problem::Log;

/// Tables that every scenario has at its top level.
const TABLES: [&str; 3] = ["cluster", "storage", "dataset"];

/// Records a problem for each misplaced table, and returns the document with these tables where they belong, so that the rest of
/// the scenario is read as it is meant. `None` if no table is misplaced.
pub(super) fn with_tables_in_place(document: &Document, log: &Log) -> Option<Document> {
    let missing = || TABLES.into_iter().filter(|key| document.member(ROOT, key).is_none());
    let found: Vec<NodeId> = missing().filter_map(|key| misplaced(document, key)).collect();
    if found.is_empty() {
        return None;
    }
    let mut corrected = document.clone();
    for id in found {
        let node = document.node(id);
        let above = document.path(node.parent);
        let entry = document.children(id).first();
        let entry = entry.map_or("NAME".to_owned(), |&entry| quoted(&document.node(entry).key));
        let key = &node.key;
        let heading = if key == "cluster" { key.clone() } else { format!("{key}.{entry}…") };
        log.key(
            id,
            format!("`{key}` stands below `[{above}]` and so is a part of it"),
            format!("move it above `[{above}]`, or give it a heading of its own: `[{heading}]`"),
        );
        corrected.lift(id);
    }
    Some(corrected)
}

/// Returns the table `key` in a table that other headings of the file name, but not as the name of an entry: a storage may be
/// called `dataset`.
fn misplaced(document: &Document, key: &str) -> Option<NodeId> {
    let of_file = |id: &NodeId| document.node(*id).origin.is_none();
    let mut open: Vec<NodeId> = ["cluster", "run"]
        .into_iter()
        .filter_map(|name| document.member(ROOT, name))
        .chain(
            ["storage", "dataset"]
                .into_iter()
                .filter_map(|name| document.member(ROOT, name))
                .flat_map(|named| document.children(named).iter().copied()),
        )
        .collect();
    while let Some(table) = open.pop() {
        let found = document.member(table, key).filter(of_file);
        let found = found.filter(|&id| matches!(document.node(id).kind, Kind::Table(_)));
        if found.is_some() {
            return found;
        }
        open.extend(document.children(table));
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::ScenarioFile;

    const SCENARIO: &str = r#"
name = "x"
[cluster]
nodes = 1
node = { gpus = 1, cores = 16 }
storage.disk.local-disk = { bandwidth = "1 GB/s" }
[dataset.small]
samples = 100
sample_size = "10 kB"
[[job]]
name = "a"
dataset = "small"
storage = "disk"
batch = 4
loader.pytorch = { workers = 8, decode = "8 ms" }
model.step = "10 ms"
"#;

    fn problems(text: &str) -> String {
        let file = ScenarioFile::parse("x.toml", text.to_owned()).expect("TOML");
        file.resolve(&[]).expect_err("a misplaced table").to_string()
    }

    #[test]
    fn a_storage_below_the_heading_of_the_cluster_is_the_only_problem() {
        let found = problems(SCENARIO);
        assert_eq!(found.matches("error:").count(), 1, "{found}");
        assert!(found.contains("cluster.storage: `storage` stands below `[cluster]`"), "{found}");
        assert!(found.contains("move it above `[cluster]`"), "{found}");
        assert!(found.contains("`[storage.disk…]`"), "{found}");
    }

    #[test]
    fn other_mistakes_in_a_misplaced_table_are_reported_too() {
        let found = problems(&SCENARIO.replace("1 GB/s", "1 GB"));
        assert_eq!(found.matches("error:").count(), 2, "{found}");
    }

    #[test]
    fn a_data_set_below_the_heading_of_a_storage_is_found() {
        let storage = "storage.disk.local-disk = { bandwidth = \"1 GB/s\" }\n";
        let text = SCENARIO.replace(storage, "[storage.disk.local-disk]\nbandwidth = \"1 GB/s\"\n");
        let text = text.replace(
            "[dataset.small]\nsamples = 100\nsample_size = \"10 kB\"",
            "dataset.small = { samples = 100, sample_size = \"10 kB\" }",
        );
        let found = problems(&text);
        assert_eq!(found.matches("error:").count(), 1, "{found}");
        assert!(found.contains("move it above `[storage.disk.local-disk]`"), "{found}");
    }
}
