//! Unreadable data for `calibrate --data` and `live --data`: a message with path and remedy, and no files left
//! behind.

use super::support::Place;
use rustix::process::getuid;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PLAN: &str = r#"
budget = "2 min"
trials = { length = "2 ms", warm_up = 0, at_least = 2, at_most = 2 }
watch = { others = 1.0, steal = 1.0 }
[read]
access = ["cold", "warm"]
layout = ["file-per-sample"]
size = ["4 KiB"]
readers = [1]
disk = "1 MiB"
"#;

const LIVE: &str = r#"
name = "own"
[run]
steps = 3
warm_up = "off"
replications = 1
[cluster]
nodes = 1
node.cores = 1
[storage.disk.local-disk]
access = "emulated"
bandwidth = "2 GB/s"
[dataset.d]
samples = 8
sample_size = "20 kB"
[[job]]
name = "j"
dataset = "d"
storage = "disk"
batch = 4
model.step = "1 ms"
loader.tf-queue = { threads = 1, capacity = "8 samples" }
"#;

const CALIBRATE: [&str; 9] = [
    "calibrate",
    "--plan",
    "plan.toml",
    "--directory",
    "work",
    "--output",
    "out",
    "--data",
    "data",
];
const RUN: [&str; 6] = ["live", "live.toml", "--directory", "work", "--data", "data"];

/// Returns a scratch directory with eight readable files in `data`, a plan, a scenario, and an empty working
/// directory.
fn place() -> Place {
    let place = Place::new();
    place.write("plan.toml", PLAN);
    place.write("live.toml", LIVE);
    for directory in ["data", "work"] {
        fs::create_dir(place.path(directory)).expect("a directory");
    }
    for index in 0..8 {
        place.write(&format!("data/{index}"), &"x".repeat(20_000));
    }
    place
}

fn nothing_left(place: &Place) {
    assert_eq!(fs::read_dir(place.path("work")).expect("a directory").count(), 0);
}

/// Returns the exit code and the output of a command, which must end within a minute.
fn said(place: &Place, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = place.forebay(arguments);
    let output = command.timeout(Duration::from_secs(60)).output().expect("it ends in time");
    let text = [output.stdout, output.stderr].concat();
    nothing_left(place);
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// Starts a run that would go on, changes its data, and returns its exit code and standard error when it ends
/// by itself.
fn disturbed(place: &Place, arguments: &[&str], change: impl Fn()) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(arguments).current_dir(place.directory());
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("a process");
    let begin = Instant::now();
    while !begun(place, &child) && begin.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(20));
    }
    // By then a job's process has listed its files; the run does not end before.
    std::thread::sleep(Duration::from_secs(2));
    change();
    let (code, text) = end(child);
    nothing_left(place);
    (code, text)
}

/// Returns whether trials have been made, or a job copy's process runs.
fn begun(place: &Place, child: &Child) -> bool {
    let samples = fs::read_to_string(place.path("out/samples.jsonl")).unwrap_or_default();
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let children = fs::read_to_string(children).unwrap_or_default();
    samples.lines().count() > 4 || !children.trim().is_empty()
}

fn end(mut child: Child) -> (Option<i32>, String) {
    let begin = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().expect("an end");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Returns the arguments of a calibration and of a live run that do not end by themselves.
fn endless(place: &Place) -> [Vec<&'static str>; 2] {
    let plan = PLAN.replace("at_least = 2, at_most = 2", "at_least = 60000, at_most = 60000");
    place.write("plan.toml", &plan);
    [CALIBRATE.to_vec(), [&RUN[..], &["--set", "run.steps=100000000"]].concat()]
}

#[test]
fn unreadable_files_are_left_out_of_a_calibration_and_named() {
    let place = place();
    symlink("nowhere", place.path("data/dangling")).expect("a link");
    let pipe = Command::new("mkfifo").arg(place.path("data/pipe")).status();
    assert!(pipe.is_ok_and(|status| status.success()));
    fs::create_dir(place.path("data/directory")).expect("a directory");
    // This file opens and has a length, but reading it fails.
    let broken = "/sys/class/net/lo/speed";
    let fails = fs::read(broken).is_err() && fs::File::open(broken).is_ok();
    if fails {
        symlink(broken, place.path("data/broken")).expect("a link");
    }
    let (code, text) = said(&place, &CALIBRATE);
    assert_eq!(code, Some(0), "{text}");
    let count = 2 + usize::from(fails);
    let expected = format!("{count} files left out: cannot read data/");
    assert!(text.contains(&expected), "{text}");
    assert!(fails || text.contains("data/dangling"), "{text}");
}

#[test]
fn a_calibration_without_any_readable_file_fails() {
    let place = place();
    fs::remove_dir_all(place.path("data")).expect("a directory");
    fs::create_dir(place.path("data")).expect("a directory");
    symlink("nowhere", place.path("data/dangling")).expect("a link");
    let (code, text) = said(&place, &CALIBRATE);
    assert_eq!(code, Some(3), "{text}");
    assert!(
        text.contains("cannot read data/dangling: no such file or directory; was it"),
        "{text}"
    );
}

#[test]
fn a_live_run_names_an_unreadable_file() {
    let place = place();
    symlink("nowhere", place.path("data/9")).expect("a link");
    let (code, text) = said(&place, &RUN);
    assert_eq!(code, Some(3), "{text}");
    assert!(
        text.contains("data/9: no such file or directory") && text.contains("remove"),
        "{text}"
    );
    let broken = "/sys/class/net/lo/speed";
    if fs::read(broken).is_err() && fs::File::open(broken).is_ok() {
        fs::remove_file(place.path("data/9")).expect("a link");
        fs::remove_file(place.path("data/0")).expect("a file");
        symlink(broken, place.path("data/0")).expect("a link");
        let (code, text) = said(&place, &RUN);
        assert_eq!(code, Some(3), "{text}");
        assert!(text.contains("data/0: invalid argument; is the disk"), "{text}");
    }
}

#[test]
fn a_file_replaced_by_a_directory_during_a_run_is_named() {
    for index in 0..2 {
        let place = place();
        let arguments = &endless(&place)[index];
        let (code, text) = disturbed(&place, arguments, || {
            for index in 0..8 {
                let path = place.path(&format!("data/{index}"));
                fs::remove_file(&path).and_then(|()| fs::create_dir(&path)).expect("ours");
            }
        });
        assert_eq!(code, Some(3), "{text}");
        // Between removal and creation, the file does not exist.
        let named = ["is a directory; was something else put in its place", "no such file"];
        assert!(text.contains("data/") && named.iter().any(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn a_live_run_names_a_file_truncated_during_the_run() {
    let place = place();
    let arguments = &endless(&place)[1];
    let (code, text) = disturbed(&place, arguments, || {
        (0..8).for_each(|index| place.write(&format!("data/{index}"), "cut"));
    });
    assert_eq!(code, Some(3), "{text}");
    let cut = "is shorter than when the run began";
    assert!(text.contains("data/") && text.contains(cut), "{text}");
    assert!(text.contains("start again when nobody writes there"), "{text}");
}

#[test]
fn files_without_read_permission_are_reported_by_name() {
    if getuid().is_root() {
        // Root may read everything.
        return;
    }
    let place = place();
    let forbid = |index: usize| {
        let path = place.path(&format!("data/{index}"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o000)).expect("ours");
    };
    forbid(0);
    let (code, text) = said(&place, &CALIBRATE);
    assert!(code == Some(0) && text.contains("1 files left out"), "{text}");
    let (code, text) = said(&place, &RUN);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("data/0: permission denied; ask for permission"), "{text}");
    (1..8).for_each(forbid);
    let (code, text) = said(&place, &CALIBRATE);
    assert!(code == Some(3) && text.contains("permission denied; ask for permission"), "{text}");
}
