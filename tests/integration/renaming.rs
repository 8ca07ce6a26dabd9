//! Names are only shown: a report and its verdict do not depend on what storages, data sets, jobs and groups are called.

use super::runs::{Case, repository};
use forebay::report::{self, json, text};
use forebay::scenario::ScenarioFile;
use forebay::{sim, verdict};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Scenarios whose trials would take too long: their verdict is an estimate.
const LONG: [&str; 3] = ["adapters", "nvme-fabrics", "workflow"];

/// Shipped scenarios, and the number of steps that are simulated of each job.
const SCENARIOS: [(&str, i64); 12] = [
    ("adapters", 10),
    ("calibrated-loader", 40),
    ("checkpoints", 200),
    ("cloud-storage", 20),
    ("energy", 30),
    ("nvme-fabrics", 6),
    ("old-nodes", 12),
    ("page-cache", 40),
    ("parameter-server", 10),
    ("slow-server", 40),
    ("trainer-cores", 40),
    ("workflow", 20),
];

/// Names that look like names of resources or like parts of them, of a storage, a data set, a job or a group; several are the
/// same in all four.
const HOSTILE: [(Kind, &[&str]); 4] = [
    (Kind::Storage, &["node.nic", "rack", "server", "my.nfs", "a b.page-cache"]),
    (Kind::Dataset, &["rack", "node", "my.data", "a b"]),
    (Kind::Job, &["rack", "node.cores", "node", "server.nic", "my.job 1"]),
    (Kind::Group, &["node", "rack"]),
];

/// What has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Storage,
    Dataset,
    Job,
    Group,
}

/// For each kind of what has a name, the new name of each old one.
type Names = BTreeMap<Kind, BTreeMap<String, String>>;

/// Returns a plain name that occurs nowhere else, as long as `like`. Names are as long as each other so that the columns of tables
/// are as wide.
fn plain(kind: Kind, index: usize, like: &str) -> String {
    let letter = ["s", "d", "j", "g"][kind as usize];
    format!("q{letter}{index}{}", "q".repeat(like.len() - 3))
}

/// Returns the old names in `file`, each with its new one: a plain one, and a hostile one. Tables are read in the order of their
/// names, so new names have the order of the old ones.
fn new_names(file: &Table) -> [Names; 2] {
    let keys = |table: Option<&Value>| -> Vec<String> {
        table.and_then(Value::as_table).map_or(Vec::new(), |table| table.keys().cloned().collect())
    };
    let jobs = file["job"].as_array().expect("jobs").iter();
    let jobs: Vec<String> =
        jobs.map(|job| job["name"].as_str().expect("a name").to_owned()).collect();
    let (mut plain_names, mut hostile_names) = (Names::new(), Names::new());
    for (kind, hostile) in HOSTILE {
        let old = match kind {
            Kind::Storage => keys(file.get("storage")),
            Kind::Dataset => keys(file.get("dataset")),
            Kind::Job => jobs.clone(),
            Kind::Group => keys(file["cluster"].get("group")),
        };
        assert!(old.len() <= hostile.len(), "{old:?}");
        let mut hostile = hostile[..old.len()].to_vec();
        hostile.sort_unstable();
        let all = || old.iter().zip(&hostile).enumerate();
        let plain = all().map(|(i, (old, like))| (old.clone(), plain(kind, i, like))).collect();
        plain_names.insert(kind, plain);
        let hostile = all().map(|(_, (old, new))| (old.clone(), (*new).to_owned())).collect();
        hostile_names.insert(kind, hostile);
    }
    [plain_names, hostile_names]
}

/// Returns what a text names that stands under this key in a scenario file; `None` if it is no name.
fn named_by(key: &str) -> Option<Kind> {
    match key {
        "storage" | "to" | "on" => Some(Kind::Storage),
        "dataset" | "from" => Some(Kind::Dataset),
        "after" => Some(Kind::Job),
        _ => None,
    }
}

/// Renames what the texts in `value`, which stands under `key`, refer to.
fn refer(key: &str, value: &mut Value, names: &Names) {
    match value {
        Value::Table(table) => table.iter_mut().for_each(|(key, value)| refer(key, value, names)),
        Value::Array(all) => all.iter_mut().for_each(|value| refer(key, value, names)),
        Value::String(text) => {
            if let Some(new) = named_by(key).and_then(|kind| names[&kind].get(text)) {
                text.clone_from(new);
            }
        }
        _ => {}
    }
}

/// Returns a shipped scenario of `steps` steps with new names.
fn renamed(file: &str, (mut all, steps): (Table, i64), names: &Names) -> Case {
    let rename = |table: Option<&mut Value>, kind: Kind| {
        let Some(table) = table.and_then(Value::as_table_mut) else { return };
        let old = std::mem::take(table);
        table.extend(old.into_iter().map(|(name, value)| (names[&kind][&name].clone(), value)));
    };
    for (key, value) in &mut all {
        refer(key, value, names);
    }
    rename(all.get_mut("storage"), Kind::Storage);
    rename(all.get_mut("dataset"), Kind::Dataset);
    rename(all["cluster"].get_mut("group"), Kind::Group);
    for job in all["job"].as_array_mut().expect("jobs") {
        let job = job.as_table_mut().expect("a job");
        job.remove("epochs");
        job.remove("steps");
        let name = job["name"].as_str().expect("a name");
        let new = names[&Kind::Job][name].clone();
        job.insert("name".to_owned(), new.into());
    }
    all.remove("sweep");
    let seed = all["run"].get("seed").cloned();
    let mut run = Table::new();
    run.extend(seed.map(|seed| ("seed".to_owned(), seed)));
    run.insert("steps".to_owned(), steps.into());
    run.insert("replications".to_owned(), 1.into());
    all.insert("run".to_owned(), run.into());
    let text = toml::to_string(&all).expect("TOML");
    let read = ScenarioFile::parse(file, text);
    Case::new(read.unwrap_or_else(|problems| panic!("{problems}")), &[])
}

/// Returns the report of a run with its verdicts, as JSON and as text, without quotation marks: a name with a space or a dot has
/// some in keys and commands.
fn shown(case: &Case, quick: bool) -> [String; 2] {
    let scenario = &case.scenario;
    let outcomes = [sim::run(scenario, 0, &sim::Options::default())];
    let mut report = report::summarise(scenario, &outcomes, 0.0);
    let options = verdict::Options {
        quick,
        others: true,
        least_events: Some(500_000),
        ..verdict::Options::default()
    };
    let verdicts = verdict::find_all(case.source(), (scenario, &outcomes, &report), &options);
    verdict::put(&mut report, verdicts);
    [json::render(&report), text::render(&report, 10_000, false)]
        .map(|text| text.replace(['"', '\\', '\''], ""))
}

#[test]
fn names_change_no_byte_of_a_report_and_its_verdict() {
    // System: twelve shipped scenarios, with plain names and with names that look like names of resources. Expectation: the same
    // reports and verdicts, except for the names.
    for (name, steps) in SCENARIOS {
        let path = repository(&format!("scenarios/{name}.toml"));
        let text = std::fs::read_to_string(&path).expect("a scenario");
        let file: Table = text.parse().expect("TOML");
        let path = path.to_str().expect("a path");
        let names = new_names(&file);
        let [plain, hostile] = names.each_ref().map(|names| {
            let scenario = renamed(path, (file.clone(), steps), names);
            shown(&scenario, LONG.contains(&name))
        });
        let pairs = |kind: &Kind| names[0][kind].values().zip(names[1][kind].values());
        for (plain, hostile) in plain.into_iter().zip(hostile) {
            let back = names[0].keys().flat_map(pairs);
            let expected = back.fold(plain, |text, (plain, hostile)| text.replace(plain, hostile));
            let line = expected.lines().zip(hostile.lines()).find(|(a, b)| a != b);
            assert!(expected == hostile, "{name}: {line:#?}");
        }
    }
}
