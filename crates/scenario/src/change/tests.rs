//! Tests of changes to keys.

use super::*;
use crate::{Problems, Reading, Scenario};

/// A scenario with names that TOML and shells must quote, and amounts in all forms.
const HOSTILE: &str = r#"
name = "hostile"
run = { steps = 10 }
[cluster]
nodes = 2
node = { gpus = 1, cores = 16 }
network.nic = "10 Gbit/s"
group."old 'ones'" = { nodes = 1, node.cores = 4 }
group.more = { nodes = 1 }
[storage."a.b \"c\" * é".file-server]
bandwidth = "25 GB/s"
latency = { lognormal = { mean = "1 ms", cv = 0.5 } }
[storage.scratch.file-server]
bandwidth = ["1 GB/s", "1.5 GB/s"]
[dataset."d=1"]
samples = 100000
sample_size = { uniform = { low = "1 kB", high = "3 kB" } }
[[job]]
name = "it's $HOME #1"
dataset = "d=1"
storage = "a.b \"c\" * é"
batch = 4
loader.pytorch = { workers = 8, decode = { fixed = "1 ms", per_byte = "2 ns" } }
model = { step = "1 s 500 ms", launch = "2 ms", jitter.lognormal.cv = 0.1 }
failures = { mtbf = "10 h", restart = "1 min 15 s" }
[[job]]
name = "0"
dataset = "d=1"
storage = "scratch"
batch = 4
loader.stages = [
  { name = "read", workers = 1, buffer = "64 samples", per_sample = ["read", { decode = "3 ms" }] },
  { name = "more", workers = 2, buffer = "64 samples", per_sample = [{ compute = "1 ms" }] },
]
model.step = { fixed = "10 ms", per_sample = "1 ms" }
[[fault]]
storage = "scratch"
factor = 0.5
[[fault]]
storage = "scratch"
factor = 0.25
"#;

fn hostile() -> ScenarioFile {
    ScenarioFile::parse("hostile.toml", HOSTILE.to_owned()).unwrap_or_else(|e| panic!("{e}"))
}

fn job(index: usize) -> At {
    At { job: index, storage: 0, element: 0 }
}

/// Returns the words of a command line as [`words`] should split it: those of the shell of this machine.
fn words_of_shell(line: &str) -> Vec<String> {
    let script = format!("for word in {line}; do printf '%s\\0' \"$word\"; done");
    let out = std::process::Command::new("sh").args(["-c", &script]).output().expect("a shell");
    let text = String::from_utf8(out.stdout).expect("UTF-8");
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// Returns the words of a command line as a POSIX shell splits it.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted, mut escaped) = (Vec::new(), None, false, false);
    for c in line.chars() {
        let into: &mut String = match (c, quoted, escaped) {
            (_, false, true) => word.get_or_insert_default(),
            ('\'', ..) => {
                word.get_or_insert_default();
                quoted = !quoted;
                continue;
            }
            ('\\', false, _) => {
                escaped = true;
                continue;
            }
            (' ', false, _) => {
                words.extend(word.take());
                continue;
            }
            _ => word.get_or_insert_default(),
        };
        into.push(c);
        escaped = false;
    }
    words.extend(word);
    words
}

/// Returns the override of a pasted option.
fn pasted(line: &str) -> Result<Override, Problems> {
    match &words(line)[..] {
        [option, text] if option == "--set" => text.parse(),
        [option, text] if option == "--unset" => Override::parse_unset(text),
        other => panic!("{line}: {other:?}"),
    }
}

/// Returns the pasted texts of a change at the keys of a pattern.
fn texts(pattern: &[Part], at: At, change: &Change) -> Vec<String> {
    let file = hostile();
    let scenario = file.resolve(&[]).unwrap_or_else(|e| panic!("{e}"));
    let editor = file.editor(&[]);
    let keys = editor.keys(pattern, (&scenario, at));
    let changes = editor.changes(&keys, change, None).unwrap_or_default();
    changes.iter().map(Override::pasted).collect()
}

#[test]
fn keys_of_a_pattern_are_those_of_the_file_with_names_and_kinds_filled_in() {
    let twice = Change::Times(2.0);
    let storage = [Part::Key("storage"), Part::Name(storage_name), Part::Kind(None)];
    let below = |key: &'static str| [&storage[..], &[Part::Key(key)]].concat();
    assert_eq!(
        texts(&below("bandwidth"), job(0), &twice),
        [r#"--set 'storage."a.b \"c\" * é".file-server.bandwidth=50 GB/s'"#]
    );
    let second = At { storage: 1, ..At::default() };
    assert_eq!(
        texts(&below("bandwidth"), second, &twice),
        [r#"--set 'storage.scratch.file-server.bandwidth=["2 GB/s", "3 GB/s"]'"#]
    );
    // Groups without cores of their own have those of `cluster.node`.
    assert_eq!(
        texts(&[Part::Key("cluster.node.cores")], job(0), &twice),
        ["--set cluster.node.cores=32"]
    );
    let groups = [Part::Key("cluster.group"), Part::Each, Part::Key("node.cores")];
    assert_eq!(
        texts(&groups, job(0), &twice),
        [r#"--set 'cluster.group."old '\''ones'\''".node.cores=8'"#]
    );
    let in_job = |rest: &[Part]| [&[Part::Key("job"), Part::Name(job_name)], rest].concat();
    let restart = in_job(&[Part::Key("failures.restart")]);
    assert_eq!(
        texts(&restart, job(0), &twice),
        [r#"--set 'job."it'\''s $HOME #1".failures.restart=2 min 30 s'"#]
    );
    // A job whose name is the index of another one.
    let step = in_job(&[Part::Key("model.step")]);
    assert_eq!(
        texts(&step, job(1), &twice),
        [r#"--set 'job.0.model.step={ fixed = "20 ms", per_sample = "2 ms" }'"#]
    );
    let stages = in_job(&[Part::Key("loader.stages"), Part::Each, Part::Key("workers")]);
    assert_eq!(
        texts(&stages, job(1), &twice),
        ["--set job.0.loader.stages.read.workers=2", "--set job.0.loader.stages.more.workers=4"]
    );
    let decode = in_job(&[
        Part::Key("loader.stages"),
        Part::Each,
        Part::Key("per_sample"),
        Part::Each,
        Part::Key("decode"),
    ]);
    assert_eq!(
        texts(&decode, job(1), &Change::Times(0.5)),
        ["--set 'job.0.loader.stages.read.per_sample.1.decode=1.5 ms'"]
    );
    // The single value stands for the table with this key.
    let work = in_job(&[Part::Key("model.launch.work")]);
    assert_eq!(
        texts(&work, job(0), &Change::Times(0.5)),
        [r#"--set 'job."it'\''s $HOME #1".model.launch=1 ms'"#]
    );
    assert_eq!(
        texts(&[Part::Key("fault"), Part::Each], job(0), &Change::Unset),
        ["--unset fault.1", "--unset fault.0"]
    );
    let failures = in_job(&[Part::Key("failures")]);
    assert_eq!(
        texts(&failures, job(0), &Change::Unset),
        [r#"--unset 'job."it'\''s $HOME #1".failures'"#]
    );
    assert_eq!(texts(&failures, job(1), &Change::Unset), [""; 0], "the file does not set it");
}

#[test]
fn values_are_multiplied_in_their_own_form_and_unit() {
    let times = |value: &str, factor: f64| {
        let value = format!("x={value}").parse::<Override>().expect("a value");
        scale::scaled(&value.value().expect("it has one").0, factor)
            .map(|of| Value(of).as_written())
    };
    for (value, factor, expected) in [
        ("8", 2.0, Some("16")),
        ("1", 0.5, Some("0")),
        ("1", 1.2, Some("2")),
        ("1.5", 2.0, Some("3.0")),
        ("0.4", 0.5, Some("0.2")),
        ("25 GB/s", 2.0, Some("\"50 GB/s\"")),
        ("[1, 2]", 2.0, Some("[2, 4]")),
        ("[\"1 ms\", \"0 ms\"]", 2.0, Some("[\"2 ms\", \"0 ms\"]")),
        ("{ constant = \"3 ms\" }", 2.0, Some("{ constant = \"6 ms\" }")),
        (
            "{ lognormal = { mean = \"1 ms\", cv = 0.5 } }",
            2.0,
            Some("{ lognormal = { mean = \"2 ms\", cv = 0.5 } }"),
        ),
        (
            "{ lognormal = { median = \"1 ms\", p99 = \"9 ms\" } }",
            2.0,
            Some("{ lognormal = { median = \"2 ms\", p99 = \"18 ms\" } }"),
        ),
        (
            "{ exponential = { mean = \"1 s\" } }",
            0.5,
            Some("{ exponential = { mean = \"0.5 s\" } }"),
        ),
        (
            "{ gamma = { mean = \"1 s\", cv = 2 } }",
            0.5,
            Some("{ gamma = { mean = \"0.5 s\", cv = 2 } }"),
        ),
        (
            "{ normal = { mean = \"4 s\", sd = \"1 s\" } }",
            0.5,
            Some("{ normal = { mean = \"2 s\", sd = \"0.5 s\" } }"),
        ),
        (
            "{ uniform = { low = \"0 B\", high = \"1 kB\" } }",
            3.0,
            Some("{ uniform = { low = \"0 B\", high = \"3 kB\" } }"),
        ),
        (
            "{ pareto = { min = \"1 ms\", shape = 2.5 } }",
            2.0,
            Some("{ pareto = { min = \"2 ms\", shape = 2.5 } }"),
        ),
        (
            "{ fixed = \"1 ms\", per_pixel = \"2 ns\" }",
            0.5,
            Some("{ fixed = \"0.5 ms\", per_pixel = \"1 ns\" }"),
        ),
        ("{ every = 1.5 }", 2.0, Some("{ every = 3.0 }")),
        ("{ lognormal = { cv = 0.1 } }", 2.0, None),
        (
            "{ empirical = { file = \"sizes.csv\" } }",
            2.0,
            Some("{ empirical = { file = \"sizes.csv\", times = 2.0 } }"),
        ),
        (
            "{ empirical = { file = \"sizes.csv\", times = 2 } }",
            2.0,
            Some("{ empirical = { file = \"sizes.csv\", times = 4 } }"),
        ),
        ("{ capacity = \"1 GB\", bandwidth = \"1 GB/s\" }", 2.0, None),
        ("[1, \"auto\"]", 2.0, None),
        ("auto", 2.0, None),
        ("true", 2.0, None),
        ("0", 2.0, None),
        ("8", 1.0, None),
        ("1e308", 1e10, None),
    ] {
        assert_eq!(times(value, factor).as_deref(), expected, "{factor} times {value}");
    }
}

#[test]
fn keys_that_the_file_leaves_out_get_the_given_amount_in_their_usual_unit() {
    let editor = hostile().editor(&[]);
    let amount = |value, unit| Some(Amount { value, unit });
    let line = |key: &str, change: &Change, amount| {
        editor.change(key, change, amount).map(|change| change.pasted())
    };
    let twice = Change::Times(2.0);
    let pcie = "cluster.node.pcie";
    assert_eq!(
        line(pcie, &twice, amount(32e9, AmountUnit::Bandwidth)).as_deref(),
        Some("--set 'cluster.node.pcie=64 GB/s'")
    );
    assert_eq!(
        line("job.0.accumulation", &twice, amount(1.0, AmountUnit::Whole)).as_deref(),
        Some("--set job.0.accumulation=2")
    );
    assert_eq!(line(pcie, &twice, amount(f64::INFINITY, AmountUnit::Bandwidth)), None);
    assert_eq!(line(pcie, &twice, None), None);
    assert_eq!(line(pcie, &Change::Unset, None), None);
    let set = Change::Set("mpi".into());
    assert_eq!(line("job.0.x", &set, None).as_deref(), Some("--set job.0.x=mpi"));
    assert_eq!(line("job.0.batch", &Change::Set("4".into()), None), None, "it has it");
    assert_eq!(line("job.batch", &twice, None), None, "the key of two jobs");
}

#[test]
fn a_pasted_change_makes_the_scenario_of_the_change() {
    let file = hostile();
    let scenario = file.resolve(&[]).unwrap_or_else(|e| panic!("{e}"));
    for (key, change) in every_change(&file) {
        assert_eq!(words(&change.pasted()), words_of_shell(&change.pasted()));
        let read = pasted(&change.pasted()).unwrap_or_else(|e| panic!("{}: {e}", change.pasted()));
        let json = serde_json::to_string(&change).expect("JSON");
        let sent: Override = serde_json::from_str(&json).expect("JSON of an override");
        let [a, b, c] = [change, read, sent].map(|of| file.resolve(&[of]).ok());
        assert!(a == b && a == c, "{key}");
        assert!(a.is_none_or(|of| of != scenario), "{key} changes nothing");
    }
}

/// Returns a change by 2 of each key of a file that has a multiple, with its key.
fn every_change(file: &ScenarioFile) -> Vec<(String, Override)> {
    let (editor, scenario) = (file.editor(&[]), file.resolve(&[]));
    let settings = scenario.unwrap_or_else(|e| panic!("{}: {e}", file.name())).origins.settings();
    let twice = |of: crate::Setting| {
        Some((of.key.clone(), editor.change(&of.key, &Change::Times(2.0), None)?))
    };
    settings.into_iter().filter_map(twice).collect()
}

/// Returns the shipped scenarios.
fn shipped() -> Vec<ScenarioFile> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let paths = std::fs::read_dir(folder).expect("the folder").map(|of| of.expect("a file").path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|of| of == "toml")).collect();
    paths.sort();
    paths.iter().map(|path| ScenarioFile::open(path).unwrap_or_else(|e| panic!("{e}"))).collect()
}

/// Puts a value in TOML at a path, in which elements of lists have their name or index.
fn put(at: &mut toml::Value, path: &[String], value: &str) {
    let Some((key, rest)) = path.split_first() else {
        let table: toml::Table = format!("x = {value}").parse().expect("TOML");
        *at = table["x"].clone();
        return;
    };
    let below = match at {
        toml::Value::Table(members) => members.get_mut(key),
        toml::Value::Array(elements) => {
            let named =
                |of: &toml::Value| of.get("name").and_then(toml::Value::as_str) == Some(key);
            let index = elements.iter().position(named).or_else(|| key.parse().ok());
            index.and_then(|index| elements.get_mut(index))
        }
        _ => None,
    };
    put(below.expect("a value that is there"), rest, value);
}

/// Returns a scenario as text with its numbers rounded, since products are rounded to six digits.
fn rounded(scenario: &Scenario) -> String {
    let text = format!("{scenario:?}");
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let number = |c: char| !(c.is_ascii_digit() || ".e-".contains(c));
        let end = rest[start..].find(number).map_or(rest.len(), |end| start + end);
        out.push_str(&rest[..start]);
        match rest[start..end].parse::<f64>() {
            Ok(value) => out.push_str(&format!("{value:.4e}")),
            Err(_) => out.push_str(&rest[start..end]),
        }
        rest = &rest[end..];
    }
    out + rest
}

#[test]
fn twice_and_half_of_each_amount_of_the_shipped_scenarios_is_the_shipped_scenario() {
    // System: a seventh of the keys of the shipped scenarios whose values have multiples. Expectation: the doubled value is pasted
    // as it is changed, is that of the file edited so, and half of it gives the scenario back.
    let mut number = 0;
    for shipped in shipped() {
        // An edited text has its tables in the order of the parsed one.
        let whole: toml::Table = shipped.text().parse().expect("TOML");
        let parse = |table: &toml::Table| {
            ScenarioFile::parse(shipped.name(), table.to_string()).unwrap_or_else(|e| panic!("{e}"))
        };
        let file = parse(&whole);
        let scenario = file.resolve(&[]).unwrap_or_else(|e| panic!("{}: {e}", file.name()));
        let original = rounded(&scenario);
        for (key, twice) in every_change(&file) {
            number += 1;
            if number % 7 > 0 {
                continue;
            }
            let half =
                file.editor(std::slice::from_ref(&twice)).change(&key, &Change::Times(0.5), None);
            let both = [twice.clone(), half.unwrap_or_else(|| panic!("{}: {key}", file.name()))];
            let again =
                file.resolve(&both).unwrap_or_else(|e| panic!("{}: {key}: {e}", file.name()));
            assert_eq!(rounded(&again), original, "{}: {key}", file.name());
            let mut edited = toml::Value::Table(whole.clone());
            put(&mut edited, twice.path(), &twice.value().expect("it has one").as_written());
            let edited = parse(edited.as_table().expect("a table")).resolve(&[]).ok();
            assert_eq!(file.resolve(std::slice::from_ref(&twice)).ok(), edited, "{key}");
            let line = twice.pasted();
            assert_eq!(pasted(&line).as_ref().map(Override::value), Ok(twice.value()), "{line}");
        }
    }
    assert!(number > 500, "{number}");
}

#[test]
fn the_largest_accepted_part_of_a_change_is_taken() {
    // System: a share that may reach 1, micro-batches that must divide a batch, and nodes that must suffice. Expectation: the
    // largest accepted amount between the present and the wanted one.
    let text = HOSTILE.replace("launch = \"2 ms\"", "launch = { work = \"2 ms\", gil = 0.7 }");
    let file = ScenarioFile::parse("x.toml", text).unwrap_or_else(|e| panic!("{e}"));
    let editor = file.editor(&[]);
    let largest = |key: &str, factor: f64, amount| {
        let factors = editor.factors(key, factor, amount);
        let change = |factor| Some(vec![editor.change(key, &Change::Times(factor), amount)?]);
        let found = file.largest((&[], Reading::default()), &factors, change);
        found.map(|(changes, _)| changes[0].pasted())
    };
    let gil = "job.\"it's $HOME #1\".model.launch.gil";
    let line = "--set 'job.\"it'\\''s $HOME #1\".model.launch.gil=1.0'";
    assert_eq!(largest(gil, 2.0, None).as_deref(), Some(line));
    let nodes = "cluster.nodes";
    assert_eq!(largest(nodes, 2.0, None).as_deref(), Some("--set cluster.nodes=4"));
    let split = "job.0.parallel.pipeline.micro_batches";
    let amount = Some(Amount { value: 1.0, unit: AmountUnit::Whole });
    // Three micro-batches do not divide the batch of four, and two do.
    let two = file.editor(&["job.0.parallel.pipeline.stages=1".parse().expect("an override")]);
    assert_eq!(two.factors(split, 3.0, amount), [3.0, 2.0]);
    assert_eq!(largest("run.steps", 1e-3, None).as_deref(), Some("--set run.steps=1"));
}
