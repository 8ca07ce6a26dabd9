//! Signals: the first is handled within a second, whatever the program does; the second ends the program with a
//! message.

use crate::support::{Place, SCENARIO};
use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Time limit for handling the first signal: it takes up to a second, and longer on a busy machine.
const SOON: Duration = Duration::from_secs(4);

fn start(place: &Place, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(arguments)
        .current_dir(place.directory())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// Waits until the program handles signals: a signal in its first milliseconds would end it like any other
/// program.
fn wait_for_handler(child: &Child) {
    let handles = || {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
        // Bit 14: SIGTERM.
        u64::from_str_radix(caught.trim(), 16).is_ok_and(|caught| caught & (1 << 14) != 0)
    };
    let begin = Instant::now();
    while !handles() && begin.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Sends a signal to a child process.
fn send(child: &Child, signal: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args([signal, &id]).status().expect("kill").success());
}

/// Sends a signal twice, a millisecond apart; the child may have ended by then.
fn send_twice(child: &Child, signal: &str) {
    let one = format!("kill {signal} {}", child.id());
    let both = format!("{one}; sleep 0.001; {one} 2> /dev/null || true");
    assert!(Command::new("sh").args(["-c", &both]).status().expect("a shell").success());
}

/// Returns the output and the standard error of a child, which must end soon.
fn ended(mut child: Child) -> (Output, String) {
    let begin = Instant::now();
    // The input is kept open, because its end would end the command as well.
    let _input = child.stdin.take();
    let out = child.wait_with_output().expect("it ends");
    assert!(begin.elapsed() < SOON, "it took {:?}", begin.elapsed());
    let message = String::from_utf8_lossy(&out.stderr).into_owned();
    (out, message)
}

/// Returns a scratch directory with a sweep of a million points, each of which takes a while.
fn large() -> Place {
    let place = Place::new();
    let list = |most: u32| (1..=most).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let (before, _) = SCENARIO.split_once("[sweep]").expect("a sweep");
    let sweep =
        format!("\"run.seed\" = [{}]\n\"job.batch_interval\" = [{}]\n", list(10_000), list(100));
    place.write(
        "s.toml",
        &format!("{}[sweep]\n{sweep}", before.replace("copies = 2", "copies = 200")),
    );
    place
}

#[test]
fn a_signal_during_the_check_of_a_large_grid_ends_the_sweep() {
    let place = large();
    for arguments in [&["sweep", "s.toml"][..], &["sweep", "s.toml", "-o", "rows.csv"]] {
        let mut child = start(&place, arguments);
        // The rows are read and dropped, so that a full pipe does not block the command.
        let mut rows = child.stdout.take().expect("a pipe");
        let reader = std::thread::spawn(move || rows.read_to_end(&mut Vec::new()));
        wait_for_handler(&child);
        std::thread::sleep(Duration::from_millis(300));
        send(&child, "-TERM");
        let (out, message) = ended(child);
        reader.join().expect("a reader").expect("rows");
        assert_eq!(out.status.code(), Some(4), "{arguments:?}: {message}");
        assert!(message.starts_with("forebay: interrupted: "), "{arguments:?}: {message}");
    }
}

#[test]
fn a_signal_during_a_wait_for_input_ends_the_command() {
    let place = Place::new();
    for arguments in
        [&["run", "-"][..], &["sweep", "-"], &["plot", "/dev/stdin"], &["published", "/dev/stdin"]]
    {
        let child = start(&place, arguments);
        wait_for_handler(&child);
        send(&child, "-TERM");
        let (out, message) = ended(child);
        assert_eq!(out.status.code(), Some(4), "{arguments:?}: {message}");
        assert_eq!(message, "forebay: interrupted: nothing more was written\n", "{arguments:?}");
    }
}

#[test]
fn a_signal_during_the_set_up_of_a_large_run_ends_the_run() {
    // System: 400,000 job copies, whose set-up takes longer than a signal may wait. Expectation: the signal is
    // handled within a second (longer on a busy machine), whenever it arrives.
    let place = Place::new();
    let set =
        ["job.copies=400000", "cluster.share_nodes=true", "run.replications=1", "run.steps=1"];
    let set = set.iter().flat_map(|set| ["--set", *set]);
    let arguments: Vec<&str> =
        ["run", "s.toml", "--verdict", "quick"].into_iter().chain(set).collect();
    for delay in [200, 1500] {
        let mut child = start(&place, &arguments);
        wait_for_handler(&child);
        std::thread::sleep(Duration::from_millis(delay));
        assert_eq!(child.try_wait().expect("a child"), None, "it is being built");
        let begin = Instant::now();
        send(&child, "-TERM");
        let (out, message) = ended(child);
        assert!(begin.elapsed() < Duration::from_millis(2500), "{:?}", begin.elapsed());
        assert_eq!(out.status.code(), Some(4), "{message}");
        assert!(message.starts_with("forebay: interrupted: "), "{message}");
        assert!(out.stdout.is_empty(), "there is no report of what has not begun");
    }
}

#[test]
fn a_signal_during_a_verdict_keeps_the_report_and_ends_with_code_4() {
    // System: a run whose verdict takes longer than a signal may wait. The thread that waits for the end of `--verdict-time` is
    // there once the trials begin. Expectation: the report comes within a second, with an estimate as its verdict.
    let place = Place::new();
    let arguments = ["run", "s.toml", "--format", "json", "--verdict-time", "1 h"];
    let child = start(&place, &[&arguments[..], &["--set", "run.steps=20000"]].concat());
    let names = || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).expect("threads");
        let threads = threads.flatten().map(|thread| thread.path().join("comm"));
        threads.filter_map(|name| std::fs::read_to_string(name).ok()).collect::<Vec<_>>()
    };
    let begin = Instant::now();
    while !names().iter().any(|name| name.trim() == "verdict time") {
        assert!(begin.elapsed() < Duration::from_secs(60), "the verdict has not begun");
        std::thread::sleep(Duration::from_millis(2));
    }
    send(&child, "-TERM");
    let (out, message) = ended(child);
    assert_eq!(out.status.code(), Some(4), "{message}");
    assert!(
        message.ends_with("forebay: interrupted: the report is whole but for its verdict\n"),
        "{message}"
    );
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).expect("a report");
    let verdict = report["verdict"].to_string();
    assert!(verdict.contains("trials were interrupted"), "{verdict}");
}

#[test]
fn two_signals_at_once_count_as_one() {
    // System: two signals as sent by `timeout`, one to the child and one to its group. Expectation: the command
    // ends as after one signal, with a message and the finished points; rows of an earlier sweep are as they were.
    let place = Place::new();
    let long = SCENARIO.replace("steps = 20", "steps = 4000");
    let seeds: Vec<String> = (1..400).map(|seed| seed.to_string()).collect();
    place.write("s.toml", &long.replace("= [1, 2]", &format!("= [{}]", seeds.join(", "))));
    let earlier = "of an earlier sweep\n";
    for is_there in [false, true] {
        std::fs::remove_file(place.path("rows.csv.partial")).ok();
        if is_there {
            place.write("rows.csv", earlier);
        }
        let child = start(&place, &["sweep", "s.toml", "-o", "rows.csv"]);
        let begin = Instant::now();
        while place.points_in("rows.csv.partial") == 0 && begin.elapsed() < Duration::from_secs(60)
        {
            std::thread::sleep(Duration::from_millis(2));
        }
        send_twice(&child, "-TERM");
        let (out, message) = ended(child);
        assert_eq!(out.status.code(), Some(4), "{message}");
        let said = match is_there {
            true => {
                " points are kept in rows.csv.partial, and rows.csv is as it was; --resume goes on"
            }
            false => " points are in rows.csv; --resume goes on",
        };
        assert!(message.contains(said), "{message}");
        assert!(place.read("rows.csv").ends_with(b"\n"));
        assert_eq!(place.read("rows.csv") == earlier.as_bytes(), is_there);
    }
}

#[test]
fn a_signal_ends_a_wait_for_the_reader_of_a_named_pipe() {
    // System: reports into a pipe that nobody reads, and that a process reads. Expectation: a signal ends the first ones; the
    // reader gets the whole report.
    let place = Place::new();
    place.write("l.toml", super::machine_limits::LIVE);
    let made = Command::new("mkfifo").arg(place.path("pipe")).status();
    assert!(made.is_ok_and(|status| status.success()));
    let run = ["run", "s.toml", "--verdict", "quick", "--format", "json", "-o", "pipe"];
    let live = ["live", "l.toml", "--set", "cluster.node.cores=1", "--trace", "pipe"];
    let children = [&run[..], &live].map(|arguments| (start(&place, arguments), arguments));
    // Both runs end within a fraction of a second.
    std::thread::sleep(Duration::from_secs(1));
    for (mut child, arguments) in children {
        assert_eq!(child.try_wait().expect("a child"), None, "{arguments:?} waits");
        send(&child, "-TERM");
        let (out, message) = ended(child);
        assert_eq!(out.status.code(), Some(4), "{arguments:?}: {message}");
        assert!(message.contains("nothing reads the pipe pipe"), "{arguments:?}: {message}");
    }
    let child = start(&place, &run);
    let report = std::fs::read(place.path("pipe")).expect("a report");
    assert!(serde_json::from_slice::<serde_json::Value>(&report).is_ok());
    assert_eq!(ended(child).0.status.code(), Some(0));
}

#[test]
fn a_second_signal_ends_a_blocked_command_with_a_message() {
    // System: a run whose report is never read, so that writing blocks. Expectation: the first signal produces
    // a message on the blocked report, the second ends the run with a message.
    let place = Place::new();
    let jobs: String = (0..200)
        .map(|job| {
            let (_, job_text) = SCENARIO.split_once("[[job]]").expect("a job");
            let (job_text, _) = job_text.split_once("[sweep]").expect("a sweep");
            format!(
                "[[job]]{}",
                job_text.replace("lenet", &format!("job{job}")).replace("copies = 2", "copies = 1")
            )
        })
        .collect();
    let (before, _) = SCENARIO.split_once("[[job]]").expect("a job");
    place.write("s.toml", &format!("{}{jobs}", before.replace("nodes = 2", "nodes = 200")));
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let mut child = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["run", "s.toml", "--format", "json", "--verdict", "quick"])
        .current_dir(place.directory())
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // The first byte shows that the run is over; then the pipe fills.
    reader.read_exact(&mut [0]).expect("a report");
    std::thread::sleep(Duration::from_millis(100));
    send(&child, "-TERM");
    let mut said = child.stderr.take().expect("a pipe");
    let mut first = [0; 64];
    let length = said.read(&mut first).expect("a message");
    let first = String::from_utf8_lossy(&first[..length]).into_owned();
    assert!(first.starts_with("forebay: interrupted: the report of what was finished"), "{first}");
    // More than a second after the first signal.
    std::thread::sleep(Duration::from_millis(1100));
    send(&child, "-TERM");
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("a message");
    assert_eq!(child.wait().expect("it ends").code(), Some(4));
    assert!(rest.contains("forebay: interrupted again, and ended at once: "), "{rest}");
}

#[test]
fn a_signal_ignored_at_the_start_stays_ignored() {
    // System: a sweep under `nohup`. Expectation: it survives SIGHUP, and ends by SIGTERM.
    let place = large();
    let text = String::from_utf8(place.read("s.toml")).expect("text");
    place.write("s.toml", &text.replace("copies = 200", "copies = 2"));
    let mut child = Command::new("nohup")
        .arg(env!("CARGO_BIN_EXE_forebay"))
        .args(["sweep", "s.toml", "-o", "rows.csv"])
        .current_dir(place.directory())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("nohup starts it");
    wait_for_handler(&child);
    send(&child, "-HUP");
    // A signal that is not ignored is handled within half a second.
    std::thread::sleep(Duration::from_millis(800));
    assert_eq!(child.try_wait().expect("a child"), None, "it has ended");
    send(&child, "-TERM");
    let (out, message) = ended(child);
    assert_eq!(out.status.code(), Some(4), "{message}");
    assert!(message.contains("interrupted: "), "{message}");
}
