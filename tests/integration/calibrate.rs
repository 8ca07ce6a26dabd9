//! The `calibrate` command: the samples that it keeps, the files that it leaves behind, and its messages when
//! the machine fails.

use crate::support::Place;
use rustix::process::{Pid, Signal, getuid, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A plan that takes a second, and that allows other load on the machine.
const TINY: &str = r#"
budget = "60 s"
[trials]
length = "1 ms"
warm_up = 1
at_least = 3
at_most = 3
[watch]
others = 1e6
steal = 1e6
[clock]
[host]
threads = 1
[queue]
capacity = [4]
producers = [2]
consumers = [1]
batch = [1, 4]
[read]
access = ["direct", "cold", "warm"]
layout = ["file-per-sample", "records"]
size = ["4 KiB", "16 KiB"]
readers = [1, 2]
disk = "1 MiB"
[cache]
disk = "1 MiB"
"#;

/// Writes `endless.toml`: a plan of reads only, with so many trials that they do not end during a test.
fn endless(place: &Place) {
    let read = TINY.find("[read]").expect("a table");
    let cache = TINY.find("[cache]").expect("a table");
    let head = TINY[..TINY.find("[clock]").expect("a table")].replace("= 3\n", "= 60000\n");
    place.write("endless.toml", &format!("{head}{}", &TINY[read..cache]));
}

/// Returns a scratch directory with a plan and a working directory.
fn place() -> Place {
    let place = Place::new();
    place.write("tiny.toml", TINY);
    fs::create_dir(place.path("work")).expect("a directory");
    place
}

fn arguments<'a>(plan: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let all = ["calibrate", "--plan", plan, "--directory", "work", "--output", "out"];
    [&all[..], more].concat()
}

/// Starts a calibration and waits until `samples` samples are on disk.
fn start(place: &Place, more: &[&str], samples: usize) -> Child {
    let child = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(arguments("endless.toml", more))
        .current_dir(place.directory())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a process");
    let begin = Instant::now();
    while lines(place) < samples {
        assert!(begin.elapsed() < Duration::from_secs(60), "no samples");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

/// Returns the number of whole lines in the file of samples.
fn lines(place: &Place) -> usize {
    let bytes = fs::read(place.path("out/samples.jsonl")).unwrap_or_default();
    bytes.iter().filter(|&&byte| byte == b'\n').count()
}

/// Returns the exit code and the standard error of a process that ends.
fn end(child: Child) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = child.wait_with_output().expect("an end");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

fn nothing_left(place: &Place) {
    let left = fs::read_dir(place.path("work")).expect("a directory").count();
    assert_eq!(left, 0, "something is left behind");
}

fn message(place: &Place, arguments: &[&str], code: i32) -> String {
    let out = place.forebay(arguments).assert().code(code);
    let text = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
    assert!(!text.contains("panicked"), "{text}");
    text
}

#[test]
fn calibrating_a_plan_again_measures_nothing_and_prints_the_same_table() {
    let place = place();
    let out = place.forebay(&arguments("tiny.toml", &[])).assert().success();
    let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
    for part in ["clock", "queue", "warm", "no GPU here", "trials not used: warm-up", "profile"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    nothing_left(&place);
    let samples = place.read("out/samples.jsonl");
    assert!(lines(&place) > 100);
    let again = place.forebay(&arguments("tiny.toml", &[])).assert().success();
    assert!(again.get_output().stdout.starts_with(&out.get_output().stdout[..40]));
    assert_eq!(place.read("out/samples.jsonl"), samples, "nothing is measured twice");
    let profile = String::from_utf8_lossy(&place.read("out/profile.toml")).into_owned();
    assert!(profile.contains("plan = \"tiny.toml\"") && profile.contains("cores"), "{profile}");
}

#[test]
fn every_calibration_sample_states_its_settings_and_labels() {
    let place = place();
    place.forebay(&arguments("tiny.toml", &[])).assert().success();
    for line in String::from_utf8_lossy(&place.read("out/samples.jsonl")).lines() {
        let sample: forebay::measurement::Sample = serde_json::from_str(line).expect("a sample");
        let (settings, labels): (&[&str], &[&str]) = match sample.probe.as_str() {
            "read" => (&["size", "readers"], &["access", "layout"]),
            "queue" => (&["capacity", "producers", "consumers", "batch"], &[]),
            "cache" => (&["bytes"], &["order"]),
            "host" => (&["threads"], &["what"]),
            _ => (&[], &["what"]),
        };
        assert!(settings.iter().all(|name| sample.setting(name) > 0.0), "{line}");
        assert!(labels.iter().all(|name| !sample.label(name).is_empty()), "{line}");
        let why = sample.excluded.unwrap_or_default();
        // On a busy machine a short trial may end before its first operation.
        let is_empty = why == "no operation was completed";
        assert!(!why.is_empty() || sample.operations > 0, "{line}");
        assert!(sample.seconds > 0.0 && sample.at > 1e9, "{line}");
        let is_counted = why.is_empty() || sample.trial == 0;
        assert!(is_counted || is_empty || why.contains("trend"), "{line}");
    }
}

#[test]
fn shipped_calibration_plans_are_valid() {
    let place = place();
    for (plan, reads) in [("quick", "queue, read"), ("full", "queue, burst, gate, service, read")] {
        let text = message(&place, &arguments(plan, &["--only", "nothing"]), 2);
        assert!(text.contains(&format!("choose from clock, host, {reads}")), "{text}");
        assert!(!place.path("out").exists(), "refused before anything is made");
    }
}

#[test]
fn invalid_calibrations_are_refused_before_any_file_is_created() {
    let place = place();
    place.write("typo.toml", &TINY.replace("readers", "reader"));
    place.write("large.toml", &TINY.replace("disk = \"1 MiB\"", "disk = \"900 TB\""));
    let text = message(&place, &arguments("typo.toml", &[]), 2);
    for part in ["typo.toml", "line", "unknown field `reader`", "`readers`"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(message(&place, &arguments("none.toml", &[]), 2).contains("cannot read none.toml"));
    let text = message(&place, &arguments("tiny.toml", &["--budget", "5"]), 2);
    assert!(text.contains("--budget") && text.contains("needs a unit"), "{text}");
    let text = message(&place, &arguments("tiny.toml", &["--data", "none"]), 3);
    assert!(text.contains("cannot read none"), "{text}");
    let text = message(&place, &arguments("large.toml", &[]), 3);
    assert!(text.contains("MB free") && text.contains("are needed"), "{text}");
    let more = ["calibrate", "--plan", "tiny.toml", "--directory", "none", "--output", "o"];
    let text = message(&place, &more, 2);
    assert!(
        text.contains("directory none: no such file or directory; name another --dir"),
        "{text}"
    );
    fs::create_dir(place.path("c")).expect("a directory");
    place.write("c/samples.jsonl", "x\n");
    let text = message(&place, &["calibrate", "--plan", "tiny.toml", "--output", "c"], 2);
    assert!(text.contains("c/samples.jsonl has no calibration.json"), "{text}");
    assert!(text.contains("name another --output"), "{text}");
    nothing_left(&place);
}

#[test]
fn calibration_samples_of_different_plans_are_not_mixed() {
    let place = place();
    place.forebay(&arguments("tiny.toml", &["--only", "clock"])).assert().success();
    place.write("other.toml", &TINY.replace("1 ms", "2 ms"));
    let text = message(&place, &arguments("other.toml", &[]), 2);
    assert!(text.contains("samples of another plan, tiny.toml"), "{text}");
    // The same plan may add probes.
    let before = lines(&place);
    place.forebay(&arguments("tiny.toml", &["--only", "queue,clock"])).assert().success();
    assert!(lines(&place) > before);
}

#[test]
fn a_calibration_with_nothing_to_fit_keeps_the_earlier_profile() {
    let place = place();
    let short = "budget = \"0.2 s\"\n[clock]\nbudget = \"0.1 s\"\n";
    place.write("short.toml", short);
    fs::create_dir(place.path("out")).expect("a directory");
    place.write("out/profile.toml", "of an earlier calibration\n");
    let out = place.forebay(&arguments("short.toml", &[])).assert().code(1);
    let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
    assert!(text.contains("out/profile.toml is as it was"), "{text}");
    assert_eq!(place.read("out/profile.toml"), b"of an earlier calibration\n");
}

#[test]
fn an_interrupted_calibration_keeps_finished_samples() {
    let place = place();
    endless(&place);
    let child = start(&place, &[], 20);
    let other = message(&place, &arguments("endless.toml", &[]), 2);
    assert!(other.contains("another calibration is writing to out"), "{other}");
    let process = Pid::from_child(&child);
    kill_process(process, Signal::TERM).expect("a living process");
    let (code, text) = end(child);
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("samples are kept in out; the same command measures the rest"), "{text}");
    assert!(lines(&place) >= 20);
    nothing_left(&place);
}

#[test]
fn after_a_kill_the_next_calibration_resumes_and_removes_leftovers() {
    let place = place();
    endless(&place);
    let mut child = start(&place, &[], 20);
    child.kill().expect("a living process");
    child.wait().expect("an end");
    let kept = lines(&place);
    assert!(kept >= 20);
    assert_eq!(fs::read_dir(place.path("work")).expect("a directory").count(), 1);
    // The last line is incomplete, as if the kill had come in the middle of a write.
    let mut torn = place.read("out/samples.jsonl");
    torn.extend(b"{\"probe\":\"re");
    fs::write(place.path("out/samples.jsonl"), torn).expect("a writable file");
    let child = start(&place, &[], kept + 5);
    kill_process(Pid::from_child(&child), Signal::TERM).expect("a living process");
    let (code, text) = end(child);
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("left by a run that was killed"), "{text}");
    nothing_left(&place);
    for line in String::from_utf8_lossy(&place.read("out/samples.jsonl")).lines() {
        serde_json::from_str::<forebay::measurement::Sample>(line).expect("whole lines");
    }
}

#[test]
fn a_working_directory_removed_during_calibration_is_reported() {
    let place = place();
    endless(&place);
    let child = start(&place, &[], 5);
    fs::remove_dir_all(place.path("work")).expect("a directory");
    let (code, text) = end(child);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("was it removed while it was being measured?"), "{text}");
    assert!(text.contains("samples are kept in out"), "{text}");
    assert!(lines(&place) >= 5);
}

#[test]
fn a_data_file_truncated_during_calibration_is_reported() {
    let place = place();
    endless(&place);
    fs::create_dir(place.path("data")).expect("a directory");
    for index in 0..8 {
        place.write(&format!("data/{index}"), &"x".repeat(20_000));
    }
    let child = start(&place, &["--data", "data"], 5);
    for index in 0..8 {
        place.write(&format!("data/{index}"), "cut");
    }
    let (code, text) = end(child);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("where 20000 bytes were expected: it was cut"), "{text}");
    nothing_left(&place);
    assert_eq!(fs::read_dir(place.path("data")).expect("a directory").count(), 8);
}

/// Runs a calibration that cannot write files beyond `kilobytes`, as on a full disk; the shell ignores the
/// signal that would come with the limit. Returns the exit code and the standard error.
fn limited(place: &Place, kilobytes: u32, only: &str) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_forebay");
    let line = format!(
        "trap '' XFSZ; ulimit -f {kilobytes}; exec {program} calibrate --plan tiny.toml \
         --directory work --output out --only {only}"
    );
    let child = Command::new("bash")
        .args(["-c", &line])
        .current_dir(place.directory())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    end(child.expect("bash"))
}

#[test]
fn a_full_disk_is_reported_and_no_files_are_left_behind() {
    let place = place();
    let (code, text) = limited(&place, 64, "clock,read");
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("read: cannot write") && text.contains("free some space"), "{text}");
    assert!(lines(&place) >= 6, "the clock's samples are kept");
    nothing_left(&place);
}

#[test]
fn a_full_disk_leaves_no_partial_line_in_the_calibration_samples_file() {
    let place = place();
    let (code, text) = limited(&place, 2, "clock,host");
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("cannot write out/samples.jsonl: file too large"), "{text}");
    assert!(text.contains("free some space there, or name another --output"), "{text}");
    assert!(place.read("out/samples.jsonl").ends_with(b"\n"));
    nothing_left(&place);
    place.forebay(&arguments("tiny.toml", &["--only", "clock,host"])).assert().success();
}

#[test]
fn a_directory_without_write_permission_is_reported() {
    if getuid().is_root() {
        // Root may write everywhere.
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let place = place();
    fs::set_permissions(place.path("work"), fs::Permissions::from_mode(0o500)).expect("ours");
    let text = message(&place, &arguments("tiny.toml", &[]), 2);
    assert!(text.contains("permission denied; name another --directory"), "{text}");
}

/// Runs a calibration of the clock on one core while another program keeps core `hog` of the process's cores busy; returns its
/// place. With a single core both run there.
fn beside_hog(hog: usize) -> Place {
    let mask = sched_getaffinity(None).expect("an affinity mask");
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| mask.is_set(*core)).collect();
    let on = |core: usize| {
        let mut one = CpuSet::new();
        one.set(cores[core.min(cores.len() - 1)]);
        sched_setaffinity(None, &one).expect("a core of the mask");
    };
    let place = Place::new();
    fs::create_dir(place.path("work")).expect("a directory");
    place.write(
        "p.toml",
        "budget = \"60 s\"\n[trials]\nlength = \"60 ms\"\nat_least = 6\nat_most = 6\n[clock]\n",
    );
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            on(hog);
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        // A process inherits the mask of the thread that starts it.
        let run = scope.spawn(|| {
            on(0);
            place.forebay(&arguments("p.toml", &[])).assert().success();
        });
        let ended = run.join();
        over.store(true, Ordering::Relaxed);
        ended.expect("a calibration");
    });
    place
}

/// System: calibrations whose process may use one core, beside a program on another core and beside one on the same core.
/// Expectation: every trial counts but for warm-up and trends; beside the second program the profile says so, and both costs and
/// times are there.
#[test]
fn calibrations_beside_other_programs_lose_no_trials() {
    for hog in [1, 0] {
        let place = beside_hog(hog);
        let samples = place.read("out/samples.jsonl");
        for line in String::from_utf8_lossy(&samples).lines() {
            let sample: forebay::measurement::Sample =
                serde_json::from_str(line).expect("a sample");
            let why = sample.excluded.unwrap_or_default();
            assert!(why.is_empty() || why == "warm-up" || why.contains("trend"), "{line}");
        }
        let profile = String::from_utf8_lossy(&place.read("out/profile.toml")).into_owned();
        if hog == 0 {
            assert!(profile.contains("[neighbours]\nbeside = 1.0\n"), "{profile}");
        }
    }
}

/// The last line of a calibration says how far to trust it, and what nothing is known of.
#[test]
fn the_last_line_of_a_calibration_says_how_far_to_trust_it() {
    let place = place();
    for (only, expected) in
        [("clock", "no reads, decoding or steps"), ("read", "reads warm within")]
    {
        let run = arguments("tiny.toml", &["--only", only]);
        let out = place.forebay(&run).assert().success();
        let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
        let words: Vec<&str> = text.split_whitespace().collect();
        let last = words.join(" ");
        let last = last.rsplit_once("trust: ").expect("a line of trust").1;
        assert!(last.contains(expected) && !last.contains("samples are kept"), "{text}");
    }
}

#[test]
fn a_calibration_that_measures_nothing_exits_with_1_and_says_what_is_missing() {
    let place = place();
    let text = message(&place, &arguments("tiny.toml", &["--budget", "1 us"]), 1);
    for probe in ["clock", "read", "cache"] {
        let missing = format!("{probe} (time was up before its first trial)");
        assert!(text.contains(&missing), "{text}");
    }
    assert!(text.contains("give more time with --budget"), "{text}");
}

#[test]
fn a_calibration_without_the_interpreter_of_its_plan_exits_with_3_and_names_the_key() {
    for python in ["/nowhere/python", "true"] {
        let place = place();
        let plan = format!("budget = \"10 s\"\n[pytorch]\npython = \"{python}\"\n");
        place.write("pytorch.toml", &plan);
        let text = message(&place, &arguments("pytorch.toml", &[]), 3);
        assert!(text.contains("pytorch: nothing measured:") && text.contains("`python`"), "{text}");
    }
}
