//! Tests of `--unset key`.

use super::*;
use crate::OverrideText;

/// A scenario of which much can be removed.
const FULL: &str = r#"
name = "full"
run = { steps = 10 }
cluster = { nodes = 1, node = { gpus = 1, cores = 16 }, network.nic = "10 Gbit/s" }
[storage.nfs.file-server]
bandwidth = "2 GB/s"
cache = { on = "disk", capacity = "1 GB" }
[storage.disk.local-disk]
bandwidth = "1 GB/s"
capacity = "1 TB"
[dataset.images]
samples = 1000
sample_size = "100 kB"
[[job]]
name = "a"
dataset = "images"
storage = "nfs"
batch = 4
loader.pytorch = { workers = 8, decode = "8 ms" }
model = { step = "10 ms", jitter.lognormal.cv = 0.1 }
checkpoint = { steps = 5, bytes = "1 MB", storage = "disk" }
failures = { mtbf = "1 h", restart = "1 min" }
[[fault]]
storage = "nfs"
factor = 0.5
[[fault]]
storage = "disk"
factor = 0.25
[[background]]
name = "others"
storage = "nfs"
streams.streams = 2
"#;

fn full(text: &str) -> ScenarioFile {
    ScenarioFile::parse("full.toml", text.to_owned()).unwrap_or_else(|e| panic!("{e}"))
}

/// Returns the scenario with these options, `--set key=value` or `--unset key`, in their order.
fn with(file: &ScenarioFile, options: &[&str]) -> Result<Scenario, Problems> {
    let changes = options.iter().map(|option| match option.split_once(' ') {
        Some(("--set", text)) => OverrideText::Set(text.to_owned()).parse(),
        Some(("--unset", text)) => OverrideText::Unset(text.to_owned()).parse(),
        _ => panic!("{option}"),
    });
    file.resolve(&changes.collect::<Result<Vec<_>, _>>()?)
}

#[test]
fn a_removed_key_is_as_if_the_file_did_not_have_its_lines() {
    let lines = |of: &str| FULL.replace(of, "");
    let second = "[[fault]]\nstorage = \"disk\"\nfactor = 0.25\n";
    let both = format!("[[fault]]\nstorage = \"nfs\"\nfactor = 0.5\n{second}");
    let background = "[[background]]\nname = \"others\"\nstorage = \"nfs\"\nstreams.streams = 2\n";
    for (options, text) in [
        (
            &["--unset job.failures"][..],
            lines("failures = { mtbf = \"1 h\", restart = \"1 min\" }\n"),
        ),
        (
            &["--unset job.a.failures"],
            lines("failures = { mtbf = \"1 h\", restart = \"1 min\" }\n"),
        ),
        (&["--unset job.model.jitter"], lines(", jitter.lognormal.cv = 0.1")),
        (
            &["--unset job.checkpoint", "--unset storage.disk.local-disk.capacity"],
            lines("checkpoint = { steps = 5, bytes = \"1 MB\", storage = \"disk\" }\n")
                .replace("capacity = \"1 TB\"\n", ""),
        ),
        (
            &["--unset storage.nfs.file-server.cache"],
            lines("cache = { on = \"disk\", capacity = \"1 GB\" }\n"),
        ),
        (&["--unset background"], lines(background)),
        (&["--unset background.others"], lines(background)),
        (&["--unset fault.1"], lines(second)),
        (&["--unset fault"], lines(&both)),
        // The index is that in the list as earlier options left it.
        (&["--unset fault.0", "--unset fault.0"], lines(&both)),
        (&["--unset job.batch", "--set job.batch=8"], FULL.replace("batch = 4", "batch = 8")),
        (&["--set job.batch_interval=4", "--unset job.batch_interval"], FULL.to_owned()),
        (&["--unset run.steps", "--set run.epochs=2"], FULL.replace("steps = 10", "epochs = 2")),
    ] {
        let removed = with(&full(FULL), options).unwrap_or_else(|e| panic!("{options:?}: {e}"));
        let edited = full(&text).resolve(&[]).unwrap_or_else(|e| panic!("{options:?}: {e}"));
        assert_eq!(removed, edited, "{options:?}");
        let keys = |of: &Scenario| {
            let mut keys = of.origins.settings();
            keys.sort_by(|a, b| a.key.cmp(&b.key));
            (keys, of.origins.assumed(), of.remarks.clone())
        };
        assert_eq!(keys(&removed), keys(&edited), "{options:?}");
    }
}

#[test]
fn a_key_of_several_elements_is_removed_from_each() {
    let text = FULL
        .replace("[[fault]]\nstorage = \"nfs\"", "[[fault]]\nfrom = \"1 s\"\nstorage = \"nfs\"");
    let removed = with(&full(&text), &["--unset fault.from"]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(removed, full(FULL).resolve(&[]).unwrap_or_else(|e| panic!("{e}")));
}

#[test]
fn what_cannot_be_removed_is_refused_with_the_option_and_a_remedy() {
    let profile = FULL.replace("run = {", "profile = \"none.toml\"\nrun = {");
    for (text, options, what, remedy) in [
        (FULL, "--unset job.cpu_quota", "nothing sets `job.cpu_quota`", "leave the option out"),
        (FULL, "--unset job.failurs", "unknown key `failurs`", "did you mean `failures`?"),
        (FULL, "--unset job.b.failures", "unknown key `b`", "elements here: `a`"),
        (FULL, "--unset fault.2", "unknown key `2`", "known here"),
        (FULL, "--unset storage.nsf", "there is no storage named \"nsf\"", "did you mean `nfs`?"),
        (FULL, "--unset dataset.image", "there is no dataset named \"image\"", "`images`"),
        (FULL, "--unset sweep", "no command reads `sweep` from `--unset`", "--vary"),
        (FULL, "--unset job.batch", "`batch`, `global_batch` is missing", "64"),
        (FULL, "--unset job.dataset", "the key `dataset` is missing", "name a data set"),
        (
            FULL,
            "--unset dataset.images",
            "there is no dataset named \"images\"",
            "`[dataset.images",
        ),
        (FULL, "--unset storage.disk", "there is no storage named \"disk\"", "nfs"),
        (FULL, "--unset job", "the key `job` is missing", "write `[[job]]`"),
        (
            &profile,
            "--unset job.cpu_quota",
            "nothing sets",
            "`--unset profile` leaves the profile out",
        ),
    ] {
        let problems = with(&full(text), &[options]).expect_err(options);
        let named = problems.iter().filter(|problem| problem.file == options);
        let named: Vec<_> = named.collect();
        let said = named.iter().any(|of| of.what.contains(what) && of.remedy.contains(remedy));
        assert!(said, "{options}: {problems}");
    }
    for (text, what) in [
        ("job.batch=3", "takes a key without a value"),
        ("", "no dotted key"),
        ("job..batch", "no dotted key"),
        ("job.\"a", "no dotted key"),
    ] {
        let problems = Override::parse_unset(text).expect_err(text).to_string();
        assert!(problems.contains(what) && problems.contains("= help: "), "{problems}");
    }
}

#[test]
fn an_incomplete_key_to_remove_is_refused_with_the_whole_key() {
    let problems = with(&full(FULL), &["--unset storage.cache"]).expect_err("refused").to_string();
    assert!(
        problems.contains("write the whole key: `storage.nfs.file-server.cache`"),
        "{problems}"
    );
}

#[test]
fn removals_from_the_shipped_scenarios_are_those_of_the_parsed_text() {
    // System: one in 25 of the keys that each shipped scenario sets. Expectation: `--unset` gives the scenario of
    // the file in which the key's lines are deleted, or both are refused.
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let paths = std::fs::read_dir(folder).expect("the folder").map(|of| of.expect("a file").path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|of| of == "toml")).collect();
    paths.sort();
    let (mut accepted, mut number) = (0, 0);
    for path in paths {
        let shipped = ScenarioFile::open(&path).unwrap_or_else(|e| panic!("{e}"));
        let whole: toml::Table = shipped.text().parse().expect("TOML");
        // The order of tables is that of the parsed text in both.
        let parse = |table: &toml::Table| {
            ScenarioFile::parse(shipped.name(), table.to_string()).unwrap_or_else(|e| panic!("{e}"))
        };
        let file = parse(&whole);
        let scenario = file.resolve(&[]).unwrap_or_else(|e| panic!("{e}"));
        for setting in scenario.origins.settings() {
            number += 1;
            let parts = crate::dotted::split_key(&setting.key).expect("a key");
            if number % 25 > 0 {
                continue;
            }
            let mut without = toml::Value::Table(whole.clone());
            remove(&mut without, &parts);
            let edited = parse(without.as_table().expect("a table")).resolve(&[]).ok();
            let removed = file.resolve(&[Override::unset(setting.key.as_str())]).ok();
            accepted += usize::from(removed.is_some());
            assert_eq!(removed, edited, "{}: {}", file.name(), setting.key);
        }
    }
    assert!(number > 1000 && accepted > 15, "{accepted} of {number}");
}

/// Removes the value at a path, in which elements of lists have their name or index.
fn remove(value: &mut toml::Value, path: &[String]) {
    let Some((key, rest)) = path.split_first() else { return };
    let below = match value {
        toml::Value::Table(members) if rest.is_empty() => {
            members.remove(key).expect("there");
            return;
        }
        toml::Value::Table(members) => members.get_mut(key),
        toml::Value::Array(elements) => {
            let named =
                |of: &toml::Value| of.get("name").and_then(toml::Value::as_str) == Some(key);
            let index = elements.iter().position(named).or_else(|| key.parse().ok());
            index.and_then(|index| elements.get_mut(index))
        }
        _ => None,
    };
    remove(below.expect("there"), rest);
}
