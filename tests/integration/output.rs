//! Outputs that fail: full disks, missing directories, closed pipes.

use crate::support::{Place, forebay};
use std::io::Read;
use std::process::{Command, Stdio};

#[test]
fn outputs_that_cannot_be_written_are_reported_once() {
    let place = Place::new();
    place.write("file", "");
    for target in ["/dev/full", "missing/out", "file/out", "."] {
        for arguments in [
            &["run", "s.toml", "--output", target][..],
            &["run", "s.toml", "--trace", target],
            &["sweep", "s.toml", "--output", target],
        ] {
            let out = place.forebay(arguments).assert().code(2);
            let message = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
            let start = format!("forebay: cannot write {target}: ");
            assert!(message.starts_with(&start), "{arguments:?}: {message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }
    assert_eq!(place.files(), ["file", "s.toml"], "nothing half written is left");
}

#[test]
fn a_write_error_on_standard_output_is_reported() {
    let place = Place::new();
    for arguments in [&["run", "s.toml"][..], &["sweep", "s.toml"], &["schema", "scenario"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
        let out = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(arguments)
            .current_dir(place.directory())
            .stdout(full)
            .output()
            .expect("the program starts");
        assert_eq!(out.status.code(), Some(2), "{arguments:?}");
        let message = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(message.starts_with("forebay: cannot write standard output: "), "{message}");
    }
}

#[test]
fn a_closed_pipe_ends_the_program_quietly() {
    let place = Place::new();
    for arguments in [
        &["run", "s.toml"][..],
        &["run", "s.toml", "--format", "json"],
        &["sweep", "s.toml"],
        &["schema", "scenario"],
        &["completions", "bash"],
        &["man"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let out = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(arguments)
            .current_dir(place.directory())
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .expect("the program starts");
        assert_eq!(out.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&out.stderr), "", "{arguments:?}");
    }
}

#[test]
fn a_sweep_ends_quietly_when_its_reader_closes_the_pipe() {
    let place = Place::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["sweep", "s.toml"])
        .current_dir(place.directory())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut first = [0u8; 16];
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_exact(&mut first).expect("a header");
    drop(stdout);
    let out = child.wait_with_output().expect("it ends");
    assert_eq!(out.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
}

#[test]
fn an_existing_output_file_is_replaced_and_no_temporary_file_remains() {
    let place = Place::new();
    place.write("r.json", "old");
    let arguments = ["run", "s.toml", "--format", "json", "--output", "r.json"];
    place.forebay(&arguments).assert().success();
    assert!(serde_json::from_slice::<serde_json::Value>(&place.read("r.json")).is_ok());
    assert_eq!(place.files(), ["r.json", "s.toml"]);
}

#[test]
fn standard_output_is_accepted_as_an_output_file() {
    let place = Place::new();
    let out = place.forebay(&["sweep", "s.toml", "--output", "/dev/stdout"]).assert().success();
    let plain = place.forebay(&["sweep", "s.toml"]).assert().success();
    assert_eq!(out.get_output().stdout, plain.get_output().stdout);
    forebay(&["--version"]).assert().success();
}

#[test]
fn signals_end_a_run_with_code_4() {
    let place = Place::new();
    for signal in ["-HUP", "-TERM"] {
        let child = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(["run", "s.toml", "--set", "run.steps=5000000"])
            .current_dir(place.directory())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        std::thread::sleep(std::time::Duration::from_millis(500));
        let status = Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(status.expect("kill").success());
        let out = child.wait_with_output().expect("it ends");
        let message = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(4), "{message}");
        assert!(message.starts_with("forebay: interrupted: "), "{message}");
    }
}
