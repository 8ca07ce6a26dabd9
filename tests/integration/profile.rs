//! The `forebay profile` command: fit, show, diff, plot.

use crate::support::{Place, forebay};
use std::fmt::Write;

/// Returns a line of a file of samples.
fn line(probe: &str, labels: &str, settings: &str, each: f64, trial: u32) -> String {
    let (seconds, cores) = (100.0 * each, 40.0 * each);
    format!(
        "{{\"probe\":\"{probe}\",\"labels\":{{{labels}}},\"settings\":{{{settings}}},\
         \"trial\":{trial},\"operations\":100,\"seconds\":{seconds:e},\
         \"core_seconds\":{cores:e},\"at\":{trial}}}\n"
    )
}

/// Returns samples of a machine whose disk reads at most `bandwidth` [B/s].
fn samples(bandwidth: f64) -> String {
    let mut text = String::new();
    let mut add = |probe: &str, labels: &str, settings: &str, each: f64| {
        let trial = text.lines().count() as u32;
        // A little reproducible noise.
        let each = each * (1.0 + 0.01 * (f64::from(trial * 7919 % 101) / 50.0 - 1.0));
        text.write_str(&line(probe, labels, settings, each, trial)).expect("memory");
    };
    for _ in 0..4 {
        for size in [4096.0, 65536.0, 1_048_576.0, 8_388_608.0] {
            for readers in [1.0, 2.0, 4.0, 8.0] {
                let alone: f64 = 1e-4 + size / 1e9;
                let rate = (readers / alone).min(bandwidth / size).min(60e3);
                let labels = "\"access\":\"direct\",\"layout\":\"records\"";
                add("read", labels, &format!("\"size\":{size},\"readers\":{readers}"), 1.0 / rate);
            }
        }
        for batch in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0] {
            let time = f64::max(2e-3, 5e-4 + 1e-4 * batch);
            let labels = "\"model\":\"lenet5\",\"device\":\"cpu-1\"";
            add("step", labels, &format!("\"batch\":{batch},\"threads\":1"), time);
        }
        for side in [128.0, 256.0, 512.0] {
            for ratio in [0.1, 0.3] {
                for threads in [1.0, 2.0] {
                    let pixels = side * side;
                    let work = 1e-4 + 1e-8 * ratio * pixels + 4e-9 * pixels;
                    let settings = format!(
                        "\"bytes\":{},\"pixels\":{pixels},\"resize\":0,\"threads\":{threads}",
                        ratio * pixels
                    );
                    let each = work / if threads > 1.0 { 1.7 } else { 1.0 };
                    add("decode", "\"format\":\"jpeg\"", &settings, each);
                }
            }
        }
        for capacity in [16.0, 64.0] {
            let settings = format!("\"capacity\":{capacity},\"producers\":2,\"consumers\":1");
            add("queue", "", &settings, 3e-7);
        }
    }
    text
}

fn place() -> Place {
    let place = Place::new();
    place.write("samples.jsonl", &samples(2e9));
    let fit = ["profile", "fit", "samples.jsonl", "--output", "p.toml"];
    place.forebay(&fit).assert().success();
    place
}

fn stdout(place: &Place, arguments: &[&str]) -> String {
    let out = place.forebay(arguments).assert().success();
    String::from_utf8_lossy(&out.get_output().stdout).into_owned()
}

/// Returns the error message of a refused command.
fn refused(place: &Place, arguments: &[&str]) -> String {
    let out = place.forebay(arguments).assert().code(2);
    assert!(out.get_output().stdout.is_empty(), "{arguments:?}");
    String::from_utf8_lossy(&out.get_output().stderr).into_owned()
}

#[test]
fn profile_show_prints_fitted_parameters_with_units_and_intervals() {
    let place = place();
    let text = stdout(&place, &["profile", "show", "p.toml"]);
    for words in [
        "read.direct",
        "bandwidth",
        "GB/s",
        "step.lenet5.cpu-1",
        "floor",
        "core-us",
        "…",
        "speed_2",
        "run_to_run",
        "samples: samples.jsonl",
        "read.direct was measured with readers 1 … 8",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let json = stdout(&place, &["profile", "show", "p.toml", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let bandwidth = json["read"]["direct"]["parameters"]["bandwidth"]["value"].as_f64();
    assert!((bandwidth.expect("a value") / 2e9 - 1.0).abs() < 0.02, "{bandwidth:?}");
    // The same samples give the same bytes, and `--like` keeps the description of the machine, whatever the fits are.
    let before = place.read("p.toml");
    assert_eq!(stdout(&place, &["profile", "fit", "samples.jsonl"]).into_bytes(), before);
    let like =
        String::from_utf8(before).expect("text").replace("machine = \"\"", "machine = \"m\"");
    let other = like.replace("latency = {", "another_parameter = {");
    assert_ne!(other, like);
    place.write("like.toml", &other);
    place.forebay(&["profile", "show", "like.toml"]).assert().failure();
    let again = stdout(&place, &["profile", "fit", "samples.jsonl", "--like", "like.toml"]);
    assert!(again.contains("machine = \"m\""));
}

/// One job that reads 1 MiB a step from a storage with the profile's throughput, for a trainer whose steps take
/// no time.
const READER: &str = r#"name = "reader"
profile = "p.toml"
[run]
steps = 400
warm_up = 40
[cluster]
nodes = 1
node.cores = 8
[storage.s.measured]
profile = "direct"
[dataset.d]
samples = 1000
sample_size = "1 MiB"
layout.raw = {}
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 1
loader.tf-queue = { threads = 4, capacity = "64 samples", decode = "0 s" }
model.step = "1 us"
"#;

#[test]
fn a_storage_with_a_profile_has_the_measured_throughput() {
    let place = place();
    assert!(
        stdout(&place, &["profile", "show", "p.toml"]).contains("4 sizes by 4 numbers of readers")
    );
    let rate = |set: &[&str]| {
        place.write("r.toml", READER);
        let set: Vec<&str> = set.iter().flat_map(|change| ["--set", change]).collect();
        let run = [&["-q", "run", "r.toml", "--format", "json"], &set[..]].concat();
        let report: serde_json::Value = serde_json::from_str(&stdout(&place, &run)).expect("JSON");
        report["jobs"][0]["samples_per_second"]["mean"].as_f64().expect("a rate")
    };
    // The samples were made with 100 us and 1 GB/s for one reader, 2 GB/s for all.
    let alone = 1.0 / (1e-4 + 1_048_576.0 / 1e9);
    for (set, expected) in [
        (&["job.loader.tf-queue.threads=1"][..], alone),
        (&["job.loader.tf-queue.threads=2"], f64::min(2.0 * alone, 2e9 / 1_048_576.0)),
        (&[], 2e9 / 1_048_576.0),
        (&["dataset.d.sample_size=4 KiB"], 4.0 / (1e-4 + 4096.0 / 1e9)),
    ] {
        let found = rate(set);
        assert!((found / expected - 1.0).abs() < 0.02, "{set:?}: {found}, not {expected}");
    }
    let refused = |from: &str, to: &str| {
        place.write("r.toml", &READER.replace(from, to));
        refused(&place, &["run", "r.toml"])
    };
    let none = refused("profile = \"p.toml\"\n", "");
    assert!(none.contains("storage.s.measured.profile: the scenario names no profile"), "{none}");
    let warm = refused("\"direct\"", "\"warm\"");
    assert!(warm.contains("the profile has no throughput of warm reads"), "{warm}");
    let twice = refused("\"direct\"", "\"direct\"\nfile = \"t.csv\"");
    assert!(twice.contains("contradict each other"), "{twice}");
}

#[test]
fn an_incomplete_throughput_table_is_refused() {
    let place = place();
    let whole = String::from_utf8(place.read("p.toml")).expect("text");
    let (before, table) = whole.split_once("[throughput.direct]").expect("a table");
    for (from, to, says) in [
        (
            "readers = [1.0, 2.0,",
            "readers = [2.0, 1.0,",
            "`throughput.direct.readers` is not an ascending list",
        ),
        ("sizes = [4096.0,", "sizes = [", "`throughput.direct.rates` does not have one throughput"),
        (
            "sizes = [4096.0,",
            "sizes = [-1.0,",
            "`throughput.direct.sizes` is not an ascending list",
        ),
    ] {
        assert!(table.contains(from), "{table}");
        place.write("b.toml", &format!("{before}[throughput.direct]{}", table.replace(from, to)));
        let said = refused(&place, &["profile", "show", "b.toml"]);
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn profile_diff_separates_real_differences_from_chance() {
    let place = place();
    place.write("slow.jsonl", &samples(1e9));
    place.forebay(&["profile", "fit", "slow.jsonl", "--output", "slow.toml"]).assert().success();
    let text = stdout(&place, &["profile", "diff", "p.toml", "slow.toml"]);
    let row = text.lines().find(|line| line.contains("bandwidth")).expect("a row");
    assert!(row.contains("-50.") && row.contains("real"), "{text}");
    let same = stdout(&place, &["profile", "diff", "p.toml", "p.toml", "--format", "json"]);
    let same: serde_json::Value = serde_json::from_str(&same).expect("JSON");
    let all = same.as_array().expect("changes");
    assert!(all.len() == 17 && all.iter().all(|change| change["verdict"] == "same"));
}

#[test]
fn every_fit_of_a_profile_is_plotted_even_if_the_measured_samples_are_missing() {
    let place = place();
    stdout(&place, &["profile", "plot", "p.toml", "--output", "f", "--format", "both"]);
    let names = ["cores", "decode-jpeg", "queue", "read-direct", "step-lenet5-cpu-1"];
    for name in names {
        assert!(place.read(&format!("f/{name}.svg")).starts_with(b"<svg"), "{name}");
        assert!(place.read(&format!("f/{name}.png")).starts_with(b"\x89PNG"), "{name}");
    }
    let with = place.read("f/read-direct.svg").len();
    std::fs::remove_file(place.path("samples.jsonl")).expect("a file");
    let out = place.forebay(&["profile", "plot", "p.toml", "--output", "f"]).assert().success();
    let warned = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
    assert!(warned.contains("samples are not there"), "{warned}");
    assert!(place.read("f/read-direct.svg").len() < with);
}

#[test]
fn invalid_profiles_and_samples_are_refused_with_code_2() {
    let place = place();
    let broken = String::from_utf8(place.read("p.toml")).expect("text").replace("[host]", "[hots]");
    place.write("broken.toml", &broken);
    place.write("binary.jsonl", "\u{0}\u{1}\n");
    place.write("empty.jsonl", "");
    assert!(refused(&place, &["profile", "show", "missing.toml"]).contains("missing.toml"));
    assert!(refused(&place, &["profile", "show", "broken.toml"]).contains("unknown field `hots`"));
    assert!(refused(&place, &["profile", "diff", "p.toml", "s.toml"]).contains("s.toml:"));
    assert!(refused(&place, &["profile", "plot", "s.toml"]).contains("s.toml:"));
    assert!(refused(&place, &["profile", "fit", "binary.jsonl"]).contains("line 1 is no sample"));
    assert!(refused(&place, &["profile", "fit", "empty.jsonl"]).contains("no usable samples"));
    // A killed calibration leaves an incomplete last line.
    let whole = String::from_utf8(place.read("samples.jsonl")).expect("text");
    place.write("cut.jsonl", &whole[..whole.len() - 9]);
    let out = place.forebay(&["profile", "fit", "cut.jsonl"]).assert().success();
    let warned = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
    assert!(warned.contains("the last line was cut off"), "{warned}");
}

#[test]
fn the_profile_schema_is_json() {
    let out = forebay(&["schema", "profile"]).assert().success();
    let schema: serde_json::Value =
        serde_json::from_slice(&out.get_output().stdout).expect("a schema is JSON");
    assert!(schema["properties"]["provenance"].is_object());
}
