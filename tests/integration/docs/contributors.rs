//! ARCHITECTURE.md and CONTRIBUTING.md: paths, modules, types and tests that they name exist, and their map of the
//! crates is that of `Cargo.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::page::{Page, pages, read, words};
use crate::runs::repository;

/// Returns the pages for contributors.
fn for_contributors() -> impl Iterator<Item = Page> {
    pages().into_iter().filter(|page| !page.path.contains('/') && page.path != "README.md")
}

/// Returns what stands between backticks.
fn ticked(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the text of all Rust files below a folder.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for path in fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            text += &sources(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text += &read(&path);
        }
    }
    text
}

/// Returns whether `CRATE::a::b` is a module of a crate, or an item that the file of the last module declares. A
/// name without a crate is a module of the program.
fn is_module(name: &str) -> bool {
    let (first, rest) = name.split_once("::").unwrap_or((name, ""));
    let library = repository(&format!("crates/{}/src", first.replace('_', "-")));
    let (mut place, parts) =
        if library.exists() { (library, rest) } else { (repository("src"), name) };
    let mut file = place.join("lib.rs");
    parts.split("::").all(|part| {
        let inside = place.join(part);
        let files = [inside.with_extension("rs"), inside.join("mod.rs")];
        match files.into_iter().find(|file| file.exists()) {
            Some(own) => {
                (file, place) = (own, inside);
                true
            }
            None => {
                let text = read(&file);
                let kinds = ["enum", "fn", "struct", "trait"];
                kinds.iter().any(|kind| text.contains(&format!("{kind} {part}")))
            }
        }
    })
}

#[test]
fn pages_for_contributors_name_only_paths_modules_and_types_that_exist() {
    let all = sources(&repository("crates")) + &sources(&repository("src"));
    for page in for_contributors() {
        let prose = page.prose();
        for name in ticked(&prose).filter(|name| !name.contains([' ', '…', '(', '<'])) {
            let is_path = name.contains('/')
                || [".md", ".rs", ".toml"].iter().any(|ending| name.ends_with(ending));
            let exists = match name {
                _ if is_path => repository(name).exists(),
                _ if name.contains("::") => is_module(name),
                // A type or one of its variants.
                _ if name.starts_with(|c: char| c.is_uppercase()) => all.contains(name),
                _ => true,
            };
            assert!(exists, "{}: `{name}` does not exist", page.path);
        }
    }
    assert!(is_module("sim::job::program::op::Op") && is_module("sweep"));
    assert!(!is_module("sim::job::program::no_such_module") && !is_module("sim::programs"));
}

#[test]
fn commands_for_contributors_name_crates_tests_and_benchmarks_that_exist() {
    let mut filters = 0;
    for page in for_contributors() {
        let prose = page.prose();
        let in_blocks = page.blocks().into_iter().flat_map(|block| block.commands());
        let commands = in_blocks.chain(ticked(&prose).map(str::to_owned));
        for command in commands.filter(|command| command.contains("cargo ")) {
            let words = words(&command);
            let after = |option: &str| {
                let at = words.iter().position(|word| word == option)?;
                words.get(at + 1)
            };
            let exists = |path: String| {
                assert!(repository(&path).exists(), "{}: `{command}`: {path}", page.path);
            };
            if let Some(library) = after("-p") {
                exists(library.replace("forebay-", "crates/"));
            }
            if let Some(bench) = after("--bench") {
                exists(format!("benches/{bench}.rs"));
            }
            let Some(test) = after("--test") else { continue };
            if after("-p").is_some() {
                continue;
            }
            exists(format!("tests/{test}/main.rs"));
            let at = words.iter().position(|word| word == test).unwrap_or_default();
            let names = words[at + 1..].iter().filter(|word| !word.starts_with('-'));
            for name in names.filter(|_| test == "integration") {
                let (module, rest) = name.split_once("::").unwrap_or((name, ""));
                let file = format!("tests/integration/{module}.rs");
                exists(file.clone());
                assert!(read(&repository(&file)).contains(rest), "{}: `{command}`", page.path);
                filters += 1;
            }
        }
    }
    assert!(filters > 5, "{filters} filters");
}

#[test]
fn the_map_of_crates_lists_the_crates_that_each_crate_uses() {
    let page = read(&repository("ARCHITECTURE.md"));
    let names = |text: &str| ticked(text).map(str::to_owned).collect::<BTreeSet<_>>();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let shown: BTreeMap<String, BTreeSet<String>> = rows
        .map(|(name, row)| (name.to_owned(), names(row.rsplit('|').nth(1).unwrap_or_default())))
        .collect();
    let used = |folder: &Path| {
        let manifest = read(&folder.join("Cargo.toml"));
        let own = manifest.split("[dependencies]").nth(1).unwrap_or_default().to_owned();
        let own = own.split("\n[").next().unwrap_or_default().to_owned();
        let ours = |line: &str| Some(line.strip_prefix("forebay-")?.split_once('.')?.0.to_owned());
        own.lines().filter_map(ours).collect::<BTreeSet<_>>()
    };
    let folders = fs::read_dir(repository("crates")).expect("crates").flatten();
    let there: BTreeMap<String, BTreeSet<String>> = folders
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), used(&entry.path())))
        .collect();
    assert_eq!(shown, there);
}
