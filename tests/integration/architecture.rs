//! The map in `lib.rs` is true, and so are its invariants: read off the source text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::runs::repository;

/// Every module with the modules that its row of the map names.
fn map() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(repository("src/lib.rs")).expect("lib.rs");
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | [`"));
    let ticked = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        (cells[0].trim_end_matches([' ', '`', ']']).to_owned(), ticked(cells[2]))
    })
    .collect()
}

/// The Rust files below `folder`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()) {
        if entry.is_dir() {
            files.extend(sources(&entry));
        } else if entry.extension().is_some_and(|e| e == "rs") {
            files.push(entry);
        }
    }
    files.sort();
    files
}

/// (module, path, text without comments and tests) of every source file below `src/`.
fn modules() -> Vec<(String, String, String)> {
    let src = repository("src");
    let code = |text: String| -> String {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let text = lines.collect::<Vec<_>>().join("\n");
        text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned()
    };
    sources(&src)
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&src).expect("below src").to_string_lossy().into_owned();
            let module = name.split('/').next().unwrap_or_default().trim_end_matches(".rs");
            (module.to_owned(), name.clone(), code(fs::read_to_string(&path).expect("text")))
        })
        .filter(|(module, path, _)| module != "lib" && module != "main" && !path.contains("test"))
        .collect()
}

/// Names that follow `crate::` in a text.
fn named(text: &str) -> BTreeSet<String> {
    let parts = text.split("crate::").skip(1);
    let name = |part: &str| {
        part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
    };
    parts.map(name).collect()
}

#[test]
fn modules_name_only_what_the_map_says() {
    let map = map();
    let declared: BTreeSet<String> = modules().into_iter().map(|(module, ..)| module).collect();
    assert_eq!(map.keys().cloned().collect::<BTreeSet<_>>(), declared, "the map has every module");
    for (module, path, text) in modules() {
        assert!(!text.contains("crate::{"), "{path}: write each `crate::module` out");
        assert!(!text.contains("super::super"), "{path}: write `crate::module`");
        let allowed = &map[&module];
        for other in named(&text) {
            let known = module == "commands" || other == module || allowed.contains(&other);
            assert!(known, "{path} names `{other}`, which its row of the map does not");
        }
    }
}

#[test]
fn the_map_says_no_more_than_is_true() {
    for (module, allowed) in map() {
        let used: BTreeSet<String> = modules()
            .iter()
            .filter(|(of, ..)| *of == module)
            .flat_map(|(.., text)| named(text))
            .collect();
        for other in allowed {
            assert!(used.contains(&other), "`{module}` does not use `{other}`");
        }
    }
}

#[test]
fn crates_stay_behind_their_doors() {
    let doors: [(&str, &[&str]); 16] = [
        ("cudarc::", &["probe/gpu/call/"]),
        ("libloading::", &["probe/gpu/call/"]),
        ("nvml_wrapper", &["probe/gpu/survey.rs"]),
        ("pulp", &["probe/cpu/product.rs"]),
        ("zune_jpeg", &["probe/image/"]),
        ("fast_image_resize", &["probe/image/"]),
        ("jpeg_encoder", &["probe/image/"]),
        (
            "toml::",
            &[
                "scenario/file.rs",
                "plot/",
                "profile/",
                "published/",
                "probe/plan.rs",
                "validate/plan.rs",
            ],
        ),
        ("clap", &["cli.rs", "cli/", "commands/"]),
        ("plotters", &["plot/"]),
        ("rayon", &["commands/", "published/", "sweep/", "verdict/"]),
        ("indicatif", &["commands/"]),
        ("signal_hook", &["commands/"]),
        ("comfy_table", &["report/", "commands/", "validate/"]),
        ("rand_distr", &["random/"]),
        ("annotate_snippets", &["scenario/problem"]),
    ];
    for (_, path, text) in modules() {
        for (what, allowed) in doors {
            let inside = allowed.iter().any(|door| path.starts_with(door));
            let used = text.lines().any(|line| line.contains(what) && !line.contains('"'));
            assert!(inside || !used, "{path} uses {what}");
        }
    }
}

#[test]
fn runs_are_pure() {
    let impure =
        ["HashMap", "HashSet", "StdRng", "rand::rng()", "ThreadRng", "\nstatic ", "thread_local"];
    let outside = ["commands", "plot", "cli"];
    // Measuring is looking at the clock.
    let clocks = ["SystemTime", "Instant"];
    for (module, path, text) in modules() {
        let prints = ["println!", "print!(", "eprintln!", "stdout()", "stderr()"];
        let may_print = ["commands", "plot", "cli"].contains(&module.as_str());
        assert!(may_print || !prints.iter().any(|p| text.contains(p)), "{path} prints");
        if outside.contains(&module.as_str()) {
            continue;
        }
        for word in impure {
            assert!(!text.contains(word), "{path} has `{word}`");
        }
        let looks = clocks.iter().any(|clock| text.contains(clock));
        assert!(
            !looks || ["probe", "live"].contains(&module.as_str()),
            "{path} looks at the wall clock"
        );
    }
}

#[test]
fn unsafe_code_is_in_one_place() {
    for (_, path, text) in modules() {
        let inside = path.starts_with("probe/gpu/call/");
        let has =
            text.contains("unsafe {") || text.contains("unsafe fn") || text.contains("unsafe impl");
        assert!(inside || !has, "{path} has unsafe code");
        assert!(inside || !text.contains("unsafe_code"), "{path} allows unsafe code");
    }
}

/// Files of the simulator with their text.
fn simulator() -> impl Iterator<Item = (String, String)> {
    modules().into_iter().filter(|(module, ..)| module == "sim").map(|(_, path, text)| (path, text))
}

#[test]
fn the_simulators_world_only_routes_events() {
    // Expectation: what happens to a component is in its owner's files; the world has one short file.
    for (path, text) in simulator() {
        let is_world = path == "sim/world.rs";
        assert!(is_world || !text.contains("for World<"), "{path}");
        assert!(is_world || !text.contains("impl World<"), "{path}");
        assert!(!is_world || text.lines().count() < 300, "{path}");
    }
}

#[test]
fn owners_in_the_simulator_know_none_above_them() {
    // System: jobs own loaders and communicators, the world owns jobs and the others. Expectation: those below are told what
    // to do, and tell what happened by notices; they name neither jobs' owner nor the world, nor each other.
    let below = ["Loaders", "Communicators", "Stagings", "Background", "Faults"];
    let mut seen = BTreeSet::new();
    for (path, text) in simulator() {
        let Some(owner) = below.iter().find(|owner| text.contains(&format!("impl {owner} {{")))
        else {
            continue;
        };
        seen.insert(*owner);
        let others = below.iter().filter(|other| *other != owner);
        for other in others.chain(&["Jobs", "World"]) {
            let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            assert!(!words.into_iter().any(|word| word == *other), "{path}: {owner} names {other}");
        }
    }
    assert_eq!(seen.len(), below.len(), "{seen:?}");
}

#[test]
fn the_simulators_tables_are_indexed_by_typed_ids() {
    // Expectation: a table of an owner is an `IdVec`, which a raw number cannot index.
    for (path, text) in simulator().filter(|(path, _)| path != "sim/index.rs") {
        for table in ["jobs", "devices", "loaders", "stages", "workers", "stagings", "copies"] {
            let raw = text.lines().find(|line| {
                line.contains(&format!("self.{table}[")) && line.contains(" as usize]")
            });
            assert!(raw.is_none(), "{path}: {raw:?}");
        }
    }
}
