//! Checks the source text against the module map in `lib.rs` and its invariants.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::runs::repository;

/// A module's row in the map.
struct Row {
    /// The folder below `crates/`; empty for the program itself.
    folder: String,
    /// Modules that the module may name.
    names: BTreeSet<String>,
}

/// Returns every module with its row in the map.
fn map() -> BTreeMap<String, Row> {
    let text = fs::read_to_string(repository("src/lib.rs")).expect("lib.rs");
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | [`"));
    let ticked = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        let module = cells[0].trim_end_matches([' ', '`', ']']).to_owned();
        (module, Row { folder: cells[1].trim().to_owned(), names: ticked(cells[3]) })
    })
    .collect()
}

/// Returns the Rust files below `folder`.
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

/// A source file without comments and tests.
struct Source {
    /// Folder below `crates/`; empty for the program itself.
    folder: String,
    /// The module to which the file belongs.
    module: String,
    /// Path below the folder of the modules, such as `sim/run/world.rs`.
    path: String,
    text: String,
}

/// Returns every source file of the program and of the crates, except tests.
fn modules() -> Vec<Source> {
    let crates = fs::read_dir(repository("crates")).expect("crates");
    let mut folders: Vec<String> = crates
        .map(|folder| folder.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    folders.sort();
    let all = folders.iter().flat_map(|folder| sources_of(folder)).chain(sources_of(""));
    all.filter(|source| !source.path.contains("test")).collect()
}

/// Returns the source files of a crate. A file outside the folder and file of any module belongs to the module
/// with the crate's name.
fn sources_of(folder: &str) -> Vec<Source> {
    let src = repository(&format!("crates/{folder}/src").replace("crates//", ""));
    let (map, root) = (map(), folder.replace('-', "_"));
    let code = |text: String| -> String {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let text = lines.collect::<Vec<_>>().join("\n");
        text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned()
    };
    let source = |file: PathBuf| {
        let path = file.strip_prefix(&src).expect("below src").to_string_lossy().into_owned();
        let first = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        let is_module = map.get(first).is_some_and(|row| row.folder == folder && first != root);
        let (module, path) = if is_module || !map.contains_key(&root) {
            (first.to_owned(), path.clone())
        } else {
            (root.clone(), format!("{root}/{path}"))
        };
        let text = code(fs::read_to_string(&file).expect("text"));
        Source { folder: folder.to_owned(), module, path, text }
    };
    let files = sources(&src).into_iter().map(source);
    files.filter(|source| source.module != "lib" && source.module != "main").collect()
}

/// Returns the modules that a file names: behind `crate::`, or behind the name of another crate.
fn named(source: &Source, map: &BTreeMap<String, Row>) -> BTreeSet<String> {
    let word = |text: &str| -> String {
        text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut names = BTreeSet::new();
    let mut add = |folder: &str, rest: &str| {
        let rest = rest.strip_prefix("::").unwrap_or_default();
        let list = rest.strip_prefix('{').and_then(|list| list.split_once('}'));
        for next in list.map_or(rest, |(list, _)| list).split(", ").map(str::trim_start).map(word) {
            let is_module = map.get(&next).is_some_and(|row| row.folder == folder);
            let root = folder.replace('-', "_");
            names.insert(if folder.is_empty() || is_module { next } else { root });
            if list.is_none() {
                break;
            }
        }
    };
    for part in source.text.split("crate::").skip(1) {
        add(&source.folder, &format!("::{part}"));
    }
    for part in source.text.split("forebay_").skip(1) {
        let name = word(part);
        add(&name.replace('_', "-"), &part[name.len()..]);
    }
    names
}

#[test]
fn modules_use_only_modules_listed_in_the_architecture_map() {
    let map = map();
    let declared: BTreeSet<String> = modules().into_iter().map(|source| source.module).collect();
    assert_eq!(map.keys().cloned().collect::<BTreeSet<_>>(), declared, "the map has every module");
    for source in modules() {
        let Source { module, path, text, .. } = &source;
        assert!(!text.contains("super::super"), "{path}: write `crate::module`");
        let allowed = &map[module].names;
        for other in named(&source, &map) {
            let known = module == "commands" || other == *module || allowed.contains(&other);
            assert!(known, "{path} names `{other}`, which its row of the map does not");
        }
    }
}

#[test]
fn the_architecture_map_lists_only_dependencies_that_exist() {
    let (map, modules) = (map(), modules());
    for (module, row) in &map {
        let files = modules.iter().filter(|source| source.module == *module);
        let used: BTreeSet<String> = files.flat_map(|source| named(source, &map)).collect();
        for other in &row.names {
            assert!(used.contains(other), "`{module}` does not use `{other}`");
        }
    }
}

#[test]
fn external_crates_are_used_only_in_their_wrapper_modules() {
    let doors: [(&str, &[&str]); 21] = [
        ("maud", &["page/"]),
        ("cudarc::", &["probe/gpu/call/"]),
        ("libloading::", &["probe/gpu/call/"]),
        ("nvml_wrapper", &["probe/gpu/survey.rs"]),
        ("pulp", &["networks/cpu/product.rs", "networks/cpu/dots.rs"]),
        ("zune_jpeg", &["image/decoder.rs"]),
        ("fast_image_resize", &["image/decoder.rs"]),
        ("jpeg_encoder", &["image/generator.rs"]),
        (
            "toml::",
            &[
                "ranges/mod.rs",
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
        (
            "rayon",
            &[
                "commands/",
                "plan/",
                "published/",
                "ranges/",
                "sim/run/mod.rs",
                "sweep/",
                "verdict/",
            ],
        ),
        ("indicatif", &["commands/"]),
        ("signal_hook", &["commands/"]),
        ("comfy_table", &["report/", "commands/", "validate/"]),
        ("rand_distr", &["random/"]),
        ("annotate_snippets", &["scenario/problem"]),
        ("getrandom", &["cluster/secret.rs"]),
        ("hmac", &["cluster/secret.rs"]),
        ("sha2", &["cluster/secret.rs"]),
        ("if_addrs", &["cluster/facts.rs"]),
    ];
    for Source { path, text, .. } in modules() {
        for (what, allowed) in doors {
            let inside = allowed.iter().any(|door| path.starts_with(door));
            let used = text.lines().any(|line| line.contains(what) && !line.contains('"'));
            assert!(inside || !used, "{path} uses {what}");
        }
    }
}

#[test]
fn simulation_code_uses_no_clock_randomness_globals_or_printing() {
    let impure =
        ["HashMap", "HashSet", "StdRng", "rand::rng()", "ThreadRng", "\nstatic ", "thread_local"];
    let outside = ["commands", "plot", "cli"];
    // Only modules that measure may read the clock.
    let clocks = ["SystemTime", "Instant"];
    for Source { module, path, text, .. } in modules() {
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
            !looks || ["cluster", "probe", "live"].contains(&module.as_str()),
            "{path} looks at the wall clock"
        );
    }
}

#[test]
fn unsafe_code_exists_only_in_the_gpu_call_module() {
    for Source { path, text, .. } in modules() {
        let inside = path.starts_with("probe/gpu/call/");
        let has =
            text.contains("unsafe {") || text.contains("unsafe fn") || text.contains("unsafe impl");
        assert!(inside || !has, "{path} has unsafe code");
        assert!(inside || !text.contains("unsafe_code"), "{path} allows unsafe code");
    }
}

/// Returns the simulator's source files with their text.
fn simulator() -> impl Iterator<Item = (String, String)> {
    modules().into_iter().filter(|of| of.module == "sim").map(|of| (of.path, of.text))
}

#[test]
fn the_struct_that_dispatches_simulation_events_is_in_one_short_file() {
    // Expectation: the behaviour of a component is in its owner's files; the world has one short file.
    for (path, text) in simulator() {
        let is_world = path == "sim/run/world.rs";
        assert!(is_world || !text.contains("for World<"), "{path}");
        assert!(is_world || !text.contains("impl World<"), "{path}");
        assert!(!is_world || text.lines().count() < 300, "{path}");
    }
}

#[test]
fn simulator_components_do_not_refer_to_their_owners_or_to_each_other() {
    // System: jobs own devices, loaders and communicators; the world owns jobs and the other components. Expectation:
    // components are called by their owners and report by notices; they name neither the owner of jobs nor the
    // world nor each other.
    let below = ["Devices", "Loaders", "Communicators", "Stagings", "Background", "Faults"];
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

/// The floors of the simulator, as folders of its sources, from the lowest to the highest.
const FLOORS: [&str; 8] =
    ["ids", "env", "storage", "device", "loader", "communication", "job", "run"];

/// Returns the first names of the paths that a file writes behind `root`, such as `crate::`.
fn imported(text: &str, root: &str) -> BTreeSet<String> {
    let words = |part: &str| -> Vec<String> {
        let list = part.strip_prefix('{').and_then(|list| list.split_once("};"));
        let first = |path: &str| {
            path.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
        };
        list.map_or_else(|| vec![first(part)], |(list, _)| list.split(',').map(first).collect())
    };
    text.split(root).skip(1).flat_map(words).collect()
}

/// Returns the floors that a file of the simulator names.
fn floors_named(text: &str) -> BTreeSet<usize> {
    imported(text, "crate::")
        .iter()
        .filter_map(|word| FLOORS.iter().position(|floor| *floor == word))
        .collect()
}

#[test]
fn a_floor_of_the_simulator_names_only_floors_below_it() {
    // System: each file of the simulator stands in the folder of its floor. Expectation: it names its own floor and lower
    // ones; what happens below is told upwards by notices.
    assert_eq!(
        floors_named("use crate::env::{Env, Time};\nuse crate::{ids, job::Jobs};"),
        [0, 1, 6].into()
    );
    let mut seen = BTreeSet::new();
    for (path, text) in simulator().filter(|(path, _)| path != "sim/lib.rs") {
        let folder = path.split('/').nth(1).unwrap_or_default();
        let floor = FLOORS.iter().position(|floor| *floor == folder);
        let Some(floor) = floor else { panic!("{path} stands on no floor") };
        seen.insert(floor);
        for other in floors_named(&text) {
            assert!(other <= floor, "{path} names `{}`, which is above it", FLOORS[other]);
        }
    }
    assert_eq!(seen.len(), FLOORS.len());
}

#[test]
fn only_the_account_of_a_device_adds_its_time_to_the_steps_of_its_job() {
    // System: the simulator's files. Expectation: one of them adds waits and computation, so that each instant of a device counts
    // once.
    let adds = |text: &str| ["add_stall", "add_compute"].iter().any(|name| text.contains(name));
    let all: Vec<String> =
        simulator().filter(|(_, text)| adds(text)).map(|(path, _)| path).collect();
    assert_eq!(all, ["sim/device/account.rs"]);
}

#[test]
fn files_of_live_runs_import_each_other_in_no_circle() {
    // System: the files of the crate, and the imports between them. Expectation: files that import none that is left can be taken away
    // until none is left.
    let files = modules().into_iter().filter(|of| of.module == "live" && of.path != "live/lib.rs");
    let name = |path: &str| path.trim_start_matches("live/").trim_end_matches(".rs").to_owned();
    let files = files.map(|of| (name(&of.path), imported(&of.text, "super::")));
    let mut left: BTreeMap<String, BTreeSet<String>> =
        files.filter(|(name, _)| !name.contains('/')).collect();
    while !left.is_empty() {
        let is_last =
            |imported: &BTreeSet<String>| !imported.iter().any(|of| left.contains_key(of));
        let free = left.iter().filter(|(_, imported)| is_last(imported));
        let free: Vec<String> = free.map(|(name, _)| name.clone()).collect();
        assert!(!free.is_empty(), "a circle of imports in {left:?}");
        left.retain(|name, _| !free.contains(name));
    }
}

/// Maximum number of fields of a struct of the simulator: more do not describe one thing.
const MOST_FIELDS: usize = 15;

/// Maximum number of lines of a source file: a chapter that can be read at once.
const MOST_LINES: usize = 600;

/// Returns the name and the number of fields of each struct in a source text.
fn structs(text: &str) -> Vec<(&str, usize)> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let is_field = |line: &&str| {
        let field = line.strip_prefix("    ").unwrap_or_default();
        let public = field.strip_prefix("pub").map(|rest| {
            let rest = rest.strip_prefix('(').and_then(|scope| scope.split_once(')'));
            rest.map_or(field, |(_, rest)| rest).trim_start()
        });
        let field = public.unwrap_or(field).trim_start_matches("pub ");
        let name = field.trim_start_matches(is_name);
        !field.starts_with(' ') && name.len() < field.len() && name.starts_with(": ")
    };
    let all = text.split("struct ").skip(1);
    all.filter_map(|of| {
        let (head, rest) = of.split_once('\n')?;
        let fields = rest.split("\n}").next().unwrap_or_default().lines().filter(is_field);
        head.ends_with('{')
            .then(|| (head.split(|c| !is_name(c)).next().unwrap_or(head), fields.count()))
    })
    .collect()
}

#[test]
fn structs_of_the_simulator_have_few_fields() {
    let counted = structs(
        "pub struct Pair<T> {\n    /// A.\n    pub(super) a: T,\n    pub b: T,\n    c: u8,\n}",
    );
    assert_eq!(counted, [("Pair", 3)], "fields of any visibility are counted");
    for (path, text) in simulator() {
        for (name, fields) in structs(&text) {
            assert!(fields <= MOST_FIELDS, "{path}: `{name}` has {fields} fields");
        }
    }
}

#[test]
fn source_files_are_short() {
    for file in ["crates", "src"].iter().flat_map(|folder| sources(&repository(folder))) {
        let lines = fs::read_to_string(&file).expect("text").lines().count();
        assert!(lines <= MOST_LINES, "{}: {lines} lines", file.display());
    }
}

#[test]
fn the_simulators_tables_are_indexed_by_typed_ids() {
    // Expectation: a raw number indexes no table; the types that turn ids into places are the only exception.
    let index_types = ["sim/ids/", "sim/communication/kind.rs"];
    for (path, text) in simulator() {
        let may = index_types.iter().any(|prefix| path.starts_with(prefix));
        let raw = text.lines().find(|line| line.contains(" as usize]") && !line.contains("vec!["));
        assert!(may || raw.is_none(), "{path}: {raw:?}");
    }
}
