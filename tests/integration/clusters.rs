//! `calibrate` of a cluster: two processes on this machine's loopback, as two nodes.

use crate::support::Place;
use std::fs;
use std::process::{Child, Command, Output, Stdio};

/// A plan that takes some ten seconds.
const SMALL: &str = r#"
budget = "2 min"
[trials]
length = "2 ms"
at_least = 3
at_most = 3
[clock]
[cluster]
disk = "1 MiB"
size = ["16 KiB"]
streams = [1, 2]
window = "100 ms"
before = "50 ms"
trials = 2
rounds = 1
allreduce = ["16 KiB", "256 KiB"]
checkpoint = "1 MiB"
"#;

/// Starts rank `rank` of two.
fn rank(place: &Place, rank: u32, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.current_dir(place.path("")).arg("calibrate").args(arguments);
    command.env("FOREBAY_RANK", rank.to_string()).env("FOREBAY_RANKS", "2");
    command.env("FOREBAY_NODE", ["a", "b"][rank as usize]).env("TMPDIR", place.path(""));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("a process")
}

/// Runs both ranks with these arguments; returns how each ended.
fn both(place: &Place, arguments: &[&str]) -> [Output; 2] {
    let second = rank(place, 1, arguments);
    let first = rank(place, 0, arguments);
    [first, second].map(|child| child.wait_with_output().expect("an end"))
}

fn said(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}

/// System: a calibration of two ranks, then the same command again, and a scenario with the profile. Expectation: every probe has samples,
/// and probes of both nodes have some of each; no file is left on the storage; the second command measures nothing; all commands end with
/// exit code 0.
#[test]
fn two_ranks_calibrate_each_other_their_storage_and_their_collectives() {
    let place = Place::new();
    fs::create_dir(place.path("shared")).expect("a directory");
    fs::write(place.path("plan.toml"), SMALL).expect("a plan");
    let arguments = ["--plan", "plan.toml", "--directory", "shared", "-o", "out"];
    let [first, second] = both(&place, &arguments);
    assert_eq!(first.status.code(), Some(0), "{}", said(&first));
    assert_eq!(second.status.code(), Some(0), "{}", said(&second));
    let text = said(&first);
    for part in [
        "2 nodes agree on",
        "each node writes at most 64 files into",
        "tcp allreduce-2",
        "the profile in out/profile.toml",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(fs::read_dir(place.path("shared")).expect("a directory").count(), 0);
    let samples = fs::read_to_string(place.path("out/samples.jsonl")).expect("samples");
    for probe in [
        "node",
        "clock",
        "pair",
        "ping",
        "shared-read",
        "shared-open",
        "shared-write",
        "beside",
        "drift",
    ] {
        for node in ["a", "b"] {
            let has = |line: &&str| {
                line.contains(&format!("\"probe\":\"{probe}\""))
                    && line.contains(&format!("\"node\":\"{node}\""))
            };
            // A pair sends its short messages from one end, and a trial by one node is of one.
            let one_node = ["ping", "drift"].contains(&probe) && node == "b";
            assert!(one_node || samples.lines().any(|line| has(&line)), "{probe} of {node}");
        }
    }
    let profile = fs::read_to_string(place.path("out/profile.toml")).expect("a profile");
    for table in
        ["[network.nic]", "[node.a]", "[node.b]", "[transport.tcp.allreduce-2]", "[storage.write]"]
    {
        assert!(profile.contains(table), "{table}");
    }
    // A secret is nowhere but in the rendezvous, which is gone.
    assert!(!place.path("out/rendezvous").exists());

    let before = samples.lines().count();
    let [again, _] = both(&place, &arguments);
    assert_eq!(again.status.code(), Some(0), "{}", said(&again));
    let samples = fs::read_to_string(place.path("out/samples.jsonl")).expect("samples");
    let repeated = |line: &&str| !line.contains("\"again\"");
    assert_eq!(samples.lines().filter(repeated).count(), before, "nothing was missing");

    let show = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .current_dir(place.path(""))
        .args(["profile", "show", "out/profile.toml"])
        .output()
        .expect("an end");
    assert!(said(&show).contains("network.nic"), "{}", said(&show));
    let scenario = "name = \"x\"\nprofile = \"out/profile.toml\"\nrun.steps = 5\nstorage.s.file-server = {}\n\
        dataset.d = { samples = 100, sample_size = \"16 KiB\" }\ncluster.nodes = [\"a\", \"b\"]\n[[job]]\nname = \"j\"\n\
        nodes = 2\ndataset = \"d\"\nstorage = \"s\"\nbatch = 4\nmodel.step = \"1 ms\"\n\
        loader.tf-queue = { threads = 1, capacity = \"8 samples\" }\n";
    fs::write(place.path("mine.toml"), scenario).expect("a scenario");
    for arguments in [
        &["run", "mine.toml"][..],
        &["profile", "nodes", "out/profile.toml", "--scenario", "mine.toml"],
        &["profile", "plot", "out/profile.toml", "--output", "figures"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .current_dir(place.path(""))
            .args(arguments)
            .output()
            .expect("an end");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
    }
    assert!(place.path("figures/pairs.svg").exists() && place.path("figures/nodes.svg").exists());
}

#[test]
fn a_plan_for_a_cluster_without_a_launcher_says_how_to_start_it() {
    let place = Place::new();
    let alone = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .current_dir(place.path(""))
        .args(["calibrate", "--plan", "cluster"])
        .output()
        .expect("an end");
    assert_eq!(alone.status.code(), Some(2));
    assert!(said(&alone).contains("srun --ntasks-per-node=1"), "{}", said(&alone));
    let check = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["calibrate", "--check", "calibrate/profiles/example.toml"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("an end");
    assert_eq!(check.status.code(), Some(2));
    assert!(said(&check).contains("has no nodes"), "{}", said(&check));
}

#[test]
fn two_ranks_on_one_node_are_refused() {
    let place = Place::new();
    fs::create_dir(place.path("shared")).expect("a directory");
    fs::write(place.path("plan.toml"), SMALL).expect("a plan");
    let arguments = ["--plan", "plan.toml", "--directory", "shared", "-o", "out"];
    let start = |number: u32| {
        Command::new(env!("CARGO_BIN_EXE_forebay"))
            .current_dir(place.path(""))
            .arg("calibrate")
            .args(arguments)
            .envs([("FOREBAY_RANK", number.to_string()), ("FOREBAY_RANKS", "2".to_owned())])
            .env("FOREBAY_NODE", "same")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process")
    };
    let (second, first) = (start(1), start(0));
    let first = first.wait_with_output().expect("an end");
    second.wait_with_output().expect("an end");
    assert_eq!(first.status.code(), Some(2), "{}", said(&first));
    assert!(said(&first).contains("all ranks are on one node, same"), "{}", said(&first));
}
