//! The reference page is up to date, and describes every key.
//!
//! `FOREBAY_WRITE=1 cargo test --test integration reference` regenerates the examples of keys and
//! `docs/src/reference.md`.

use super::every_key;
use super::runs::repository;
use super::support::{Place, forebay};
use forebay::reference::examples::{Example, SHIPPED};
use forebay::reference::live::SIMULATED_ONLY;
use forebay::reference::{Examples, Tables, markdown};
use forebay::scenario::Override;
use forebay::{plot, probe, scenario, validate};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// Largest length of an example value.
const LONGEST: usize = 60;

/// A file format: the prefix of its keys, its schema, and its shipped files.
struct Format {
    prefix: &'static str,
    schema: serde_json::Value,
    files: Vec<String>,
}

fn formats() -> [Format; 4] {
    let (plans, validations): (Vec<_>, Vec<_>) =
        files("calibrate/plans").into_iter().partition(|path| !path.contains("validate"));
    [
        Format { prefix: "", schema: scenario::schema(), files: files("scenarios") },
        Format { prefix: "recipe: ", schema: plot::schema(), files: files("plots") },
        Format { prefix: "plan: ", schema: probe::schema(), files: plans },
        Format { prefix: "validation: ", schema: validate::schema(), files: validations },
    ]
}

/// Shipped files that provide examples first, because they are simple and well known to readers.
const FIRST: [&str; 8] = [
    "fletcher-lenet",
    "nfs-or-nvme",
    "cloud-storage",
    "gradients",
    "split-model",
    "checkpoints",
    "batch-interval",
    "quick",
];

/// Returns the TOML files of a folder of the repository, in an order that does not depend on their contents.
fn files(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(repository(folder)).expect("a folder").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut files: Vec<String> = names.filter(|name| name.ends_with(".toml")).collect();
    let first = |name: &str| FIRST.iter().position(|of| name.strip_suffix(".toml") == Some(of));
    files.sort_by_key(|name| (first(name).unwrap_or(FIRST.len()), name.clone()));
    files.iter().map(|name| format!("{folder}/{name}")).collect()
}

/// Calls `found` with every key of a file, by its path in the reference, and its value.
fn visit(
    tables: &Tables<'_>,
    value: &toml::Value,
    path: &[&str],
    found: &mut dyn FnMut(String, &toml::Value),
) {
    if let Some(canonical) = tables.canonical(path).filter(|_| !path.is_empty()) {
        found(canonical, value);
    }
    match value {
        toml::Value::Table(members) => {
            for (key, member) in members {
                visit(tables, member, &[path, &[key]].concat(), found);
            }
        }
        toml::Value::Array(list) => {
            for element in list.iter().filter(|element| element.is_table()) {
                visit(tables, element, path, &mut *found);
            }
        }
        _ => {}
    }
}

/// Returns the value as it is written in a file if it fits in a line, and `None` otherwise.
fn short(value: &toml::Value) -> Option<String> {
    let text = value.to_string();
    (!value.is_table() && text.len() <= LONGEST && !text.contains('\n')).then_some(text)
}

/// Returns an example of every key: from the first shipped file that has it, or otherwise a value to which a
/// row of `every_key` responds.
fn examples() -> Examples {
    let mut all: BTreeMap<String, Example> = BTreeMap::new();
    for format in formats() {
        let tables = Tables::new(&format.schema);
        for path in &format.files {
            let text = fs::read_to_string(repository(path)).expect("a file");
            let file: toml::Table = text.parse().expect("TOML");
            visit(&tables, &toml::Value::Table(file), &[], &mut |key, value| {
                let value = short(value);
                let there = all.entry(format!("{}{key}", format.prefix));
                let example = there.or_insert_with(|| Example { value: None, file: None });
                // A file with a short value is better than one without.
                if example.file.is_none() || example.value.is_none() && value.is_some() {
                    *example = Example { value, file: Some(path.clone()) };
                }
            });
        }
        for key in tables.keys() {
            let there = all.entry(format!("{}{}", format.prefix, key.path));
            there.or_insert_with(|| Example { value: None, file: None });
        }
        if format.prefix.is_empty() {
            for (parts, value) in every_key::examples() {
                let parts: Vec<&str> = parts.split('.').collect();
                let key = tables.canonical(&parts);
                let missing = key.and_then(|key| all.get_mut(&key)).filter(|of| of.value.is_none());
                if let Some(example) = missing.filter(|of| of.file.is_none()) {
                    example.value = format!("k={value}")
                        .parse::<Override>()
                        .ok()
                        .and_then(|of| of.value().map(ToString::to_string));
                }
            }
        }
    }
    all.retain(|_, of| of.value.as_ref().is_none_or(|value| value.len() <= LONGEST));
    Examples(all)
}

/// Checks that a file of the repository has the wanted text, or writes it if `FOREBAY_WRITE` is set.
fn fresh(path: &str, wanted: &str) {
    let place: PathBuf = repository(path);
    if std::env::var_os("FOREBAY_WRITE").is_some() {
        fs::create_dir_all(place.parent().expect("a folder")).expect("a folder");
        fs::write(&place, wanted).expect("a writable file");
    }
    let there = fs::read_to_string(&place).unwrap_or_default();
    let differs = there.lines().zip(wanted.lines()).find(|(a, b)| a != b);
    let how = "FOREBAY_WRITE=1 cargo test --test integration reference";
    assert!(there == wanted, "{path} is stale: write it anew with `{how}`; {differs:?}");
}

#[test]
fn the_committed_reference_page_is_up_to_date() {
    // System: the committed examples of keys and reference page. Expectation: they match the shipped files, the
    // tables of `every_key`, the schemas and the table of metrics.
    let examples = examples();
    fresh("src/reference/examples.tsv", &examples.to_text());
    fresh("docs/src/reference.md", &markdown(&examples));
}

#[test]
fn the_reference_command_prints_or_writes_the_reference_page() {
    let wanted = markdown(&Examples::parse(SHIPPED));
    let out = forebay(&["reference"]).assert().success();
    assert_eq!(String::from_utf8_lossy(&out.get_output().stdout), wanted);
    let place = Place::new();
    place.forebay(&["reference", "--output", "r.md"]).assert().success().stdout("");
    assert_eq!(place.read("r.md"), wanted.into_bytes());
    place.forebay(&["reference", "--output", "no/r.md"]).assert().code(2);
}

#[test]
fn every_key_in_the_reference_has_an_example_a_type_and_a_default_or_is_required() {
    // Expectation: every key of scenarios except labels, tables and kinds has an example value; every key has a
    // meaning.
    let (shipped, schema) = (Examples::parse(SHIPPED), scenario::schema());
    let tables = Tables::new(&schema);
    let sections: BTreeSet<&str> = tables.tables.iter().map(|table| table.path.as_str()).collect();
    let kinds = tables.tables.iter().filter(|table| table.kinds).flat_map(|table| &table.keys);
    let kinds: BTreeSet<&str> = kinds.map(|key| key.path.as_str()).collect();
    let page = markdown(&shipped);
    let (mut keys, mut missing) = (BTreeSet::new(), Vec::new());
    for key in tables.keys() {
        keys.insert(key.path.as_str());
        let inside = |of: &&str| **of == key.path || of.starts_with(&format!("{}.", key.path));
        let is_table = sections.iter().any(inside);
        // A label has no effect to show.
        let example = &shipped.0[&key.path];
        // Kinds and tables that are described elsewhere have their examples there.
        let leads = ["[table]", "[kind]"].map(|to| format!("- **`{}`** ({to}(#", key.name));
        let is_table = is_table
            || kinds.contains(key.path.as_str())
            || leads.iter().any(|of| page.contains(of));
        if !is_table && key.name != "name" && example.value.is_none() && example.file.is_none() {
            missing.push(key.path.as_str());
        }
    }
    assert!(missing.is_empty(), "no example: {missing:?}");
    assert!(keys.len() > 300, "{}", keys.len());
    for of in SIMULATED_ONLY {
        let is_live = |key: &&str| !forebay::reference::live::is_simulated_only(key);
        let found =
            keys.iter().any(|key| !is_live(key) && key.split('.').count() >= of.split('.').count());
        assert!(found, "no key is `{of}`");
    }
    for line in page.lines().filter(|line| line.starts_with("- **")) {
        let (_, meaning) = line.split_once(": ").unwrap_or_else(|| panic!("no meaning: {line}"));
        assert!(!meaning.trim().is_empty(), "no meaning: {line}");
    }
    for key in every_key::examples().into_iter().map(|(key, _)| key) {
        let parts: Vec<&str> = key.split('.').collect();
        let canonical = tables.canonical(&parts).unwrap_or_else(|| panic!("`{key}` is nowhere"));
        assert!(
            keys.contains(canonical.as_str())
                || canonical == "sweep.NAME"
                || canonical.ends_with(".NAME"),
            "{key}: {canonical}"
        );
    }
}

#[test]
fn links_of_the_reference_have_targets_and_headings_are_unique() {
    let page = markdown(&Examples::parse(SHIPPED));
    let anchor = |title: &str| -> String {
        let kept = title.to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    let mut headings = BTreeSet::new();
    for line in page.lines().filter(|line| line.starts_with('#')) {
        let title = line.trim_start_matches('#').trim();
        assert!(headings.insert(anchor(title)), "twice: {title}");
    }
    let links = page.split("](#").skip(1).filter_map(|rest| rest.split(')').next());
    for link in links {
        assert!(headings.contains(link), "nowhere: #{link}");
    }
}

/// A scenario that `live` accepts.
const LIVE: &str = r#"
name = "live"
run = { steps = 2, replications = 1 }
cluster = { nodes = 1, share_nodes = true, node = { cores = 1, gpus = 1 } }
[storage.d.local-disk]
bandwidth = "1 GB/s"
[dataset.s]
samples = 16
sample_size = "4 KiB"
layout.file-per-sample = {}
[[job]]
name = "j"
dataset = "s"
storage = "d"
batch = 2
model.step = "1 ms"
loader.pytorch = { workers = 1 }
"#;

/// For each key or table of keys that only simulations support: changes to [`LIVE`] that write it.
const WRITTEN: [(&str, &[&str]); 37] = [
    (
        "background",
        &[
            "storage={ d = { file-server = { bandwidth = \"1 GB/s\" } } }",
            "background=[{ name = \"b\", storage = \"d\", streams = { streams = 1 } }]",
        ],
    ),
    ("cluster.group", &["cluster.group={ g = { nodes = 1 } }"]),
    ("cluster.node.memory_bandwidth", &["cluster.node.memory_bandwidth=1 GB/s"]),
    ("cluster.node.smt", &["cluster.node.smt={ yield = 1.3 }"]),
    (
        "dataset.NAME.layout.*.readahead",
        &["dataset.s.layout={ file-per-sample = { request = \"1 KiB\", readahead = 2 } }"],
    ),
    (
        "dataset.NAME.layout.file-per-sample.request",
        &["dataset.s.layout.file-per-sample.request=1 KiB"],
    ),
    ("dataset.NAME.layout.lmdb", &["dataset.s.layout={ lmdb = {} }"]),
    ("dataset.NAME.layout.parquet", &["dataset.s.layout={ parquet = { row_group = 4 } }"]),
    ("fault", &["fault=[{ storage = \"d\", factor = 0.5 }]"]),
    (
        "job.after",
        &[
            "job=[{ name = \"i\", dataset = \"s\", storage = \"d\", batch = 2, model.step = \"1 ms\", loader.pytorch.workers = 1 }, { name = \"j\", after = [\"i\"], dataset = \"s\", storage = \"d\", batch = 2, model.step = \"1 ms\", loader.pytorch.workers = 1 }]",
        ],
    ),
    ("job.arrivals", &["job.arrivals=poisson", "job.stagger=1 s", "job.copies=2"]),
    (
        "job.checkpoint",
        &["job.checkpoint={ interval = \"1 s\", bytes = \"1 MB\", storage = \"d\" }"],
    ),
    ("job.cpu_period", &["job.cpu_period=10 ms", "job.cpu_quota=0.5"]),
    ("job.cpu_quota", &["job.cpu_quota=0.5"]),
    (
        "job.decoded_cache",
        &["job.decoded_cache={ capacity = \"1 MB\" }", "job.loader.pytorch.decode=1 ms"],
    ),
    ("job.failures", &["job.failures={ mtbf = \"1 d\", restart = \"1 s\" }"]),
    ("job.inner_threads", &["job.inner_threads={ threads = 2 }", "job.loader.pytorch.decode=1 ms"]),
    ("job.loader.*.gil", &["job.loader.pytorch.gil=0.5", "job.loader.pytorch.worker_kind=thread"]),
    (
        "job.loader.dali.gpu",
        &["job.loader={ dali = { threads = 1, gpu = { decode = \"1 ms\" } } }"],
    ),
    ("job.model.launch.gil", &["job.model.launch={ work = \"1 ms\", gil = 0.5 }"]),
    (
        "job.model.out_of_core",
        &[
            "cluster.node={ cores = 1, gpus = 1, gpu_memory = \"700 MB\", pcie = \"10 GB/s\", memory = \"64 GB\" }",
            "job.model={ catalogue = \"resnet50\", step = \"1 ms\", out_of_core = true }",
        ],
    ),
    (
        "job.parallel.context",
        &[
            "job.parallel.context={ ranks = 2, attentions = 1, keys_values = \"1 MB\" }",
            "cluster.node.gpus=2",
        ],
    ),
    (
        "job.parallel.data.learners.auto",
        &["job.parallel.data.learners={ auto = {} }", "job.model.occupancy=0.4"],
    ),
    (
        "job.parallel.expert",
        &[
            "job.parallel={ data.copies_per_node = 2, expert = { ranks = 2, layers = 1, dispatched = \"1 MB\", parameters = 0.5, time = 0.5 } }",
            "cluster.node.gpus=2",
        ],
    ),
    ("job.parallel.pipeline", &["job.parallel.pipeline={ stages = 2 }", "cluster.node.gpus=2"]),
    (
        "job.parallel.tensor",
        &[
            "job.parallel.tensor={ ranks = 2, allreduces = 2, activations = \"1 MB\" }",
            "cluster.node.gpus=2",
        ],
    ),
    (
        "job.parallel.zero",
        &[
            "job.parallel={ data.copies_per_node = 2, zero.stage = 1 }",
            "job.sync={ allreduce = { gradients = \"1 MB\" } }",
            "cluster.node.gpus=2",
        ],
    ),
    (
        "job.copy",
        &[
            "storage={ d = { local-disk = { bandwidth = \"1 GB/s\" } }, t = { local-disk = { bandwidth = \"1 GB/s\", capacity = \"1 GB\" } } }",
            "job.copy={ to = \"t\" }",
        ],
    ),
    ("job.sync.allreduce", &["job.sync={ allreduce = { gradients = \"1 MB\" } }"]),
    (
        "job.sync.elastic-averaging",
        &["job.sync={ elastic-averaging = { parameters = \"1 MB\", period = 2 } }"],
    ),
    ("job.sync.parameter-server", &["job.sync={ parameter-server = { parameters = \"1 MB\" } }"]),
    ("job.sync.reduce-broadcast", &["job.sync={ reduce-broadcast = { parameters = \"1 MB\" } }"]),
    (
        "storage.NAME.*.cache",
        &[
            "storage={ d = { file-server = { bandwidth = \"1 GB/s\", cache = { on = \"t\", capacity = \"1 MB\" } } }, t = { local-disk = { bandwidth = \"1 GB/s\" } } }",
        ],
    ),
    ("storage.NAME.local-disk.seek", &["storage.d.local-disk.seek=8 ms"]),
    (
        "storage.NAME.measured",
        &[
            "storage={ d = { measured = { sizes = [\"1 KiB\"], requests = [1], throughput = [[\"1 MB/s\"]] } } }",
        ],
    ),
    (
        "storage.NAME.object-store.requests",
        &["storage={ d = { object-store = { requests = \"10 /s\" } } }"],
    ),
    (
        "storage.NAME.parallel-fs",
        &["storage={ d = { parallel-fs = { targets = 1, target_bandwidth = \"1 GB/s\" } } }"],
    ),
];

#[test]
fn keys_marked_as_simulated_only_are_refused_by_the_live_command() {
    // System: a scenario that `live` runs, and one more key with its prerequisites. Expectation: exit code 3,
    // missing on this machine.
    let place = Place::new();
    place.write("live.toml", LIVE);
    place.forebay(&["live", "live.toml", "-q"]).assert().success();
    let mut wrong = Vec::new();
    for (key, changes) in WRITTEN {
        assert!(SIMULATED_ONLY.contains(&key), "`{key}` is not in the list");
        let changes = changes.iter().flat_map(|change| ["--set", change]);
        let arguments: Vec<&str> = ["live", "live.toml", "-q"].into_iter().chain(changes).collect();
        let out = place.forebay(&arguments).output().expect("a run");
        if out.status.code() != Some(3) {
            wrong.push(format!(
                "{key}: {:?} {}",
                out.status.code(),
                String::from_utf8_lossy(&out.stderr)
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), WRITTEN.len(), wrong.join("\n"));
    assert_eq!(WRITTEN.len(), SIMULATED_ONLY.len());
}
