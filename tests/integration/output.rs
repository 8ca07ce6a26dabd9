//! Outputs that fail: full disks, missing directories, closed pipes.

use crate::support::{Place, forebay};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

#[test]
fn outputs_that_cannot_be_written_are_reported_once() {
    let place = Place::new();
    place.write("file", "");
    for target in ["/dev/full", "missing/out", "file/out", "new/", "."] {
        for arguments in [
            &["run", "s.toml", "--output", target][..],
            &["run", "s.toml", "--trace", target],
            &["sweep", "s.toml", "--output", target],
        ] {
            let code = if target == "/dev/full" { 3 } else { 2 };
            let out = place.forebay(arguments).assert().code(code);
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
        assert_eq!(out.status.code(), Some(3), "{arguments:?}");
        let message = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(message.starts_with("forebay: cannot write standard output: "), "{message}");
    }
}

#[test]
fn a_file_that_outgrows_the_limit_of_the_shell_is_reported() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_forebay");
    let script = format!("ulimit -f 1; exec '{program}' run s.toml --format json --output r.json");
    let out = Command::new("sh").args(["-c", &script]).current_dir(place.directory()).output();
    let out = out.expect("a shell");
    let message = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(3), "{message}");
    assert!(message.starts_with("forebay: cannot write r.json: "), "{message}");
    assert_eq!(place.files(), ["s.toml"]);
}

#[test]
fn no_output_replaces_an_input_or_another_output() {
    // System: every command with files, its outputs named as one of its inputs, or as each other, also by links and by redirecting
    // standard output. Expectation: refused, both named, every file as it was.
    let place = Place::new();
    let profile = super::runs::repository("calibrate/profiles/example.toml");
    let profile = std::fs::read_to_string(profile).expect("a shipped profile");
    place.write("p.toml", &profile);
    place.write("samples.jsonl", "x\n");
    place.write("rows.csv", "job.batch,step_time\n4,0.001\n8,0.001\n");
    place.write("fig.svg", "x = \"job.batch\"\ny = [\"step_time\"]\n[data]\ncsv = \"rows.csv\"\n");
    place.write("a.toml", &String::from_utf8_lossy(&place.read("fig.svg")));
    std::fs::create_dir(place.path("b")).expect("a directory");
    place.write(
        "b/a.toml",
        &String::from_utf8_lossy(&place.read("fig.svg")).replace("rows", "../rows"),
    );
    std::fs::hard_link(place.path("s.toml"), place.path("hard.toml")).expect("a link");
    std::os::unix::fs::symlink("s.toml", place.path("soft.toml")).expect("a link");
    place.write("s.toml.partial", &String::from_utf8_lossy(&place.read("s.toml")));
    place.write("points.json", "job.batch,step_time\n4,0.001\n");
    place.write("profile.toml", "budget = \"1 s\"\n[clock]\n");
    place.write("swept.svg", &profile);
    place.write(
        "swept.toml",
        "x = \"profile\"\ny = [\"step_time\"]\n[data]\nscenario = \"profiles.toml\"\n",
    );
    let (before_sweep, _) = crate::support::SCENARIO.split_once("[sweep]").expect("a sweep");
    place.write(
        "profiles.toml",
        &format!("{before_sweep}[sweep]\nprofile = [\"p.toml\", \"swept.svg\", \"p.toml\"]\n"),
    );
    place
        .write("plan.toml", "scenario = \"s.toml\"\n[[point]]\nname = \"p\"\nuse = \"held-out\"\n");
    std::fs::create_dir(place.path("data")).expect("a directory");
    ["data/1", "data/2", "data/3"].iter().for_each(|name| place.write(name, "of value"));
    std::os::unix::fs::symlink("data/2", place.path("data-2")).expect("a link");
    let before: Vec<_> = place
        .files()
        .into_iter()
        .filter(|name| !["b", "data"].contains(&name.as_str()))
        .chain(["data/1", "data/2", "data/3"].map(str::to_owned))
        .map(|name| (place.read(&name), name))
        .collect();
    let commands = [
        "run s.toml -o s.toml",
        "run s.toml -o ./b/../s.toml",
        "run s.toml -o soft.toml",
        "run s.toml --trace hard.toml",
        "run soft.toml -o s.toml",
        "run s.toml --profile p.toml --trace p.toml",
        "run s.toml --uncertainty 2 --profile p.toml -o p.toml",
        "run s.toml --set 'profile=\"p.toml\"' -o p.toml",
        "run s.toml -o new --trace ./new",
        "run s.toml --figure new.svg --trace new.svg",
        "run - -o s.toml < s.toml",
        "run s.toml >> s.toml",
        "run s.toml --trace rows.csv >> rows.csv",
        "sweep s.toml -o s.toml",
        "sweep s.toml.partial -o s.toml",
        "sweep s.toml --profile p.toml -o p.toml",
        "sweep s.toml --vary 'profile=[\"p.toml\"]' -o p.toml",
        "sweep s.toml --set 'profile=\"p.toml\"' -o p.toml",
        "diff points.json rows.csv 1<> points.json",
        "diff points.json rows.csv >> rows.csv",
        "profile show p.toml >> p.toml",
        "profile diff swept.svg p.toml >> p.toml",
        "plot swept.toml",
        "live s.toml --data data -o data/1",
        "live s.toml --data data -o data-2",
        "live s.toml --data data --trace data/3",
        "live s.toml --data data >> data/3",
        "calibrate --plan profile.toml --data data >> data/3",
        "calibrate --plan profile.toml --data data -o data/new",
        "validate plan.toml --predict-only --profile p.toml >> plan.toml",
        "validate plan.toml --predict-only --profile p.toml >> s.toml",
        "validate plan.toml --predict-only --profile p.toml 1<> p.toml",
        "explain-defaults s.toml -o s.toml",
        "profile fit samples.jsonl -o samples.jsonl",
        "profile fit samples.jsonl --like p.toml -o p.toml",
        "plot fig.svg",
        "plot a.toml b/a.toml --output c",
        "plot a.toml a.toml",
        "live s.toml -o s.toml",
        "live s.toml --trace s.toml",
        "published p.toml --figure p.toml",
        "validate --measured points.json --scenario s.toml --profile p.toml -o .",
        "calibrate --plan profile.toml -o .",
        "import osu rows.csv >> rows.csv",
        "new plot --yes --scenario s.toml --force -o s.toml",
    ];
    for command in commands {
        let script = format!("'{}' {command}", env!("CARGO_BIN_EXE_forebay"));
        let out = Command::new("sh").args(["-c", &script]).current_dir(place.directory()).output();
        let out = out.expect("a shell");
        let message = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{command}: {message}");
        let published = command.starts_with("published");
        let said = ["the same file as", "among the files of --data data"];
        let said = said.iter().any(|part| message.contains(part));
        assert!(said || published, "{command}: {message}");
        assert!(!message.contains(",,"), "{command}: {message}");
        for (bytes, name) in &before {
            assert!(place.read(name) == *bytes, "{command} changed {name}");
        }
    }
    for command in ["run s.toml -o /dev/null --trace /dev/null", "run s.toml -o /dev/stdout"] {
        place.forebay(&command.split(' ').collect::<Vec<_>>()).assert().success();
    }
}

#[test]
fn no_text_is_wider_than_a_narrow_terminal() {
    // System: every command that prints a table, on terminals of 60 to 100 columns. Expectation: only words without a space, such as
    // addresses, and options to be pasted are longer than a line.
    let place = Place::new();
    let profile = super::runs::repository("calibrate/profiles/example.toml");
    let profile = profile.display().to_string();
    place.write("rows.csv", "job.batch,step_time\n4,0.001\n8,0.001\n");
    place.write("few.toml", &super::scaling::of_clusters(&["dgx1-p100-nccl1"]));
    let measured = [
        "validate",
        "--measured",
        "rows.csv",
        "--predictions",
        "2",
        "--scenario",
        "s.toml",
        "--profile",
        &profile,
    ];
    let all = [60, 80, 100];
    // These take seconds.
    let one = [60];
    for (arguments, widths) in [
        (&["doctor"][..], &all[..]),
        (&["profile", "show", &profile], &all),
        (&["profile", "diff", &profile, &profile], &all),
        (&["explain-defaults", "s.toml"], &all),
        (&["published", "few.toml"], &one),
        (&measured, &one),
        (&["run", "s.toml"], &one),
        (&["--help"], &all),
        (&["validate", "--help"], &all),
    ] {
        for &width in widths {
            let mut command = place.forebay(arguments);
            let out = command.env("COLUMNS", width.to_string()).assert().success();
            let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
            for line in text.lines().filter(|line| line.chars().count() > width) {
                if line.contains("  --set ") {
                    continue;
                }
                let longest = line.split(' ').map(|word| word.chars().count()).max();
                assert!(longest > Some(width / 2), "{arguments:?}, {width}: {line}");
            }
        }
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
fn an_existing_output_file_is_replaced_with_its_permissions_and_no_temporary_file_remains() {
    let place = Place::new();
    place.write("r.json", "old");
    let own = fs::Permissions::from_mode(0o600);
    fs::set_permissions(place.path("r.json"), own).expect("ours");
    let arguments = ["run", "s.toml", "--format", "json", "--output", "r.json"];
    place.forebay(&arguments).assert().success();
    assert!(serde_json::from_slice::<serde_json::Value>(&place.read("r.json")).is_ok());
    assert_eq!(place.files(), ["r.json", "s.toml"]);
    let mode = fs::metadata(place.path("r.json")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
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
        // Signals that whoever runs the tests ignores, as `nohup` does, would stay ignored.
        let child = Command::new("env")
            .args(["--default-signal", env!("CARGO_BIN_EXE_forebay")])
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
