//! Files that users name: each is read with a limit, and errors in it are reported with their position.

use super::support::{Place, forebay};
use std::fs::File;
use std::io::Write;

/// Returns the error message of a command that exits with this code.
fn refused(place: &Place, arguments: &[&str], code: i32) -> String {
    let done = place.forebay(arguments).assert().code(code);
    String::from_utf8_lossy(&done.get_output().stderr).into_owned()
}

#[test]
fn every_command_refuses_device_files_and_oversized_files() {
    // System: an endless device, and a sparse file of a tebibyte. Expectation: both are refused at once, the
    // file with the limit that it exceeds.
    let place = Place::new();
    File::create(place.path("huge")).and_then(|file| file.set_len(1 << 40)).expect("a file");
    place.write("profile.toml", &profile());
    place.write("report.json", "{ \"jobs\": [] }");
    let commands: [&[&str]; 19] = [
        &["diff", "report.json"],
        &["run"],
        &["sweep"],
        &["explain-defaults"],
        &["plan"],
        &["compare", "--option", "a"],
        &["live"],
        &["plot"],
        &["published"],
        &["validate", "--profile", "profile.toml"],
        &["validate", "--profile", "profile.toml", "--scenario", "s.toml", "--measured"],
        &["validate", "--measured", "s.toml", "--scenario", "s.toml", "--profile"],
        &["calibrate", "--plan"],
        &["profile", "show"],
        &["profile", "fit"],
        &["import", "dlio"],
        &["import", "kineto"],
        &["import", "osu"],
        &["import", "nccl-tests"],
    ];
    for command in commands {
        for (file, expected) in [("/dev/zero", "not a regular file"), ("huge", "holds more than ")]
        {
            let dlio = ["--accelerators", "1", "--bandwidth", "1 GB/s"];
            let more: &[&str] = if command[1..] == ["dlio"] { &dlio } else { &[] };
            let said = refused(&place, &[command, &[file], more].concat(), 2);
            assert!(said.contains(expected), "{command:?} {file}: {said}");
        }
    }
}

fn profile() -> String {
    let path = super::runs::repository("calibrate/profiles/example.toml");
    std::fs::read_to_string(path).expect("a shipped profile")
}

#[test]
fn a_compressed_trace_that_expands_without_limit_is_refused() {
    // System: a compressed trace of a few kilobytes, with an event whose name has 8 MB, or with nested lists.
    // Expectation: it is refused as soon as the limit is exceeded, with the limit.
    let place = Place::new();
    let trace = |begin: &str, more: u8| {
        let file = File::create(place.path("t.json.gz")).expect("a file");
        let mut gz = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        gz.write_all(begin.as_bytes()).expect("written");
        gz.write_all(&vec![more; 8 << 20]).expect("written");
        gz.finish().expect("written");
    };
    for (begin, more, expected) in [
        (r#"{"traceEvents": [{"name": ""#, b'a', "more than 1 MiB"),
        (r#"{"traceEvents": [{"ts": 1"#, b'0', "more than 1 MiB"),
        (r#"{"traceEvents": [{"tid": "#, b'[', "more than 1000 nested values"),
    ] {
        trace(begin, more);
        let said = refused(&place, &["import", "kineto", "t.json.gz"], 2);
        assert!(said.contains(expected) && said.contains("t.json.gz"), "{said}");
    }
}

#[test]
fn an_earlier_calibration_record_that_is_a_device_file_is_refused() {
    let place = Place::new();
    std::fs::create_dir(place.path("out")).expect("a directory");
    std::os::unix::fs::symlink("/dev/zero", place.path("out/calibration.json")).expect("a link");
    let said = refused(&place, &["calibrate", "--output", "out"], 2);
    assert!(said.contains("out/calibration.json") && said.contains("regular file"), "{said}");
}

#[test]
fn invalid_utf8_is_reported_with_file_line_and_column() {
    let place = Place::new();
    std::fs::write(place.path("bad"), b"a = 1\nb = \xff\n").expect("written");
    for command in [
        &["published", "bad"][..],
        &["plot", "bad"],
        &["calibrate", "--plan", "bad"],
        &["import", "osu", "bad"],
        &["import", "dlio", "bad", "--accelerators", "1", "--bandwidth", "1 GB/s"],
    ] {
        let said = refused(&place, command, 2);
        assert!(said.contains("bad:2:5: the file is not UTF-8 text"), "{command:?}: {said}");
    }
}

#[test]
fn errors_in_a_dlio_workload_are_reported_with_file_and_line() {
    let place = Place::new();
    let workload = "dataset:\n  num_files_train: 10\n  record_length: 1000\nreader:\n  batch_size: 4\n  read_threads: 2\n\
                    train:\n  computation_time: 0.1\n";
    place.write("base.yaml", workload);
    place.write("more.yaml", "reader:\n  # none\n  batch_size: -4\n");
    place.write("long.yaml", "reader:\n  read_threads: 4000000000\n");
    place.write("no.yaml", "reader:\n  a: }\n");
    let import = |files: &[&str]| {
        let more = ["--accelerators", "1", "--bandwidth", "1 GB/s"];
        refused(&place, &[&["import", "dlio"], files, &more].concat(), 2)
    };
    let said = import(&["base.yaml", "more.yaml"]);
    assert!(said.contains("more.yaml:3: `reader.batch_size` is -4"), "{said}");
    let said = import(&["base.yaml", "++workload.reader.batch_size=0"]);
    assert!(said.contains("++workload.reader.batch_size=0: `reader.batch_size` is 0"), "{said}");
    let said = import(&["base.yaml", "no.yaml"]);
    assert!(said.contains("no.yaml:2"), "{said}");
    // Values that only the scenario refuses are reported by the file and key that they came from.
    let said = import(&["base.yaml", "long.yaml"]);
    assert!(said.contains("long.yaml:2: `reader.read_threads`"), "{said}");
    assert!(!said.contains("the imported scenario:"), "{said}");
}

#[test]
fn too_many_jobs_are_refused_at_once() {
    // System: 50,000 jobs. Expectation: refused before the jobs are read, with one message that names the
    // limit.
    let place = Place::new();
    let text =
        "name = \"x\"\n[cluster]\nnodes = 1\n".to_owned() + &"[[job]]\nbatch = 1\n".repeat(50_000);
    place.write("jobs.toml", &text);
    let said = refused(&place, &["run", "jobs.toml"], 2);
    assert!(said.contains("50000 entries") && said.contains("at most 1000"), "{said}");
    assert_eq!(said.matches("error:").count(), 1, "{said}");
}

#[test]
fn more_job_copies_than_fit_into_memory_are_refused_before_the_run() {
    // System: a million copies of a job, in a process that may use 2 GB. Expectation: a message with the needed
    // and the available memory, at once.
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_forebay");
    let set = "--set cluster.share_nodes=true --set job.copies=1000000";
    let line = format!("ulimit -v 2000000; exec {program} run s.toml {set}");
    let shell = std::process::Command::new("sh")
        .args(["-c", &line])
        .current_dir(place.directory())
        .output();
    let output = shell.expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("`small` needs about") && said.contains("this process may use 1"),
        "{said}"
    );
}

#[test]
fn a_string_where_a_table_is_needed_is_refused_with_the_right_notation() {
    let place = Place::new();
    let set = |transport: &str| {
        let sync = "job.sync={ allreduce = { gradients = \"1 MB\" } }";
        let transport = format!("job.sync.allreduce.transport={transport}");
        place.forebay(&["run", "s.toml", "--set", sync, "--set", &transport]).assert()
    };
    let said = set("\"nccl\"").code(2).get_output().stderr.clone();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("write `transport = { nccl = {} }`"), "{said}");
    set("{ nccl = {} }").success();
}

#[test]
fn operation_rates_are_accepted_in_the_notation_of_reports() {
    let place = Place::new();
    for rate in ["40 k/s", "40 k /s", "40000 /s"] {
        let set = format!("storage.disk.file-server.operations=\"{rate}\"");
        let done = place.forebay(&["run", "s.toml", "--set", &set, "--format", "json"]);
        let out = { done }.assert().success().get_output().stdout.clone();
        let report: serde_json::Value = serde_json::from_slice(&out).expect("a report");
        let all = report["resources"].as_array().expect("resources").clone();
        let found = all.iter().find(|one| one["name"] == "disk.operations").expect("operations");
        assert_eq!(found["capacity"], 40000.0, "{rate}");
    }
}

#[test]
fn quiet_runs_print_no_warnings() {
    // System: a scenario with a remark. Expectation: `-q` omits it from the text and from standard error; JSON
    // has it, for programs.
    let place = Place::new();
    let set = ["run", "s.toml", "--set", "job.batch_interval=1", "--set", "run.steps=2"];
    let text = |more: &[&str]| {
        let out = place.forebay(&[&set[..], more].concat()).assert().success().get_output().clone();
        assert!(out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    assert!(text(&[]).contains("Warning:"), "{}", text(&[]));
    assert!(!text(&["-q"]).contains("Warning:"), "{}", text(&["-q"]));
    assert!(text(&["-q", "--format", "json"]).contains("\"warnings\": [\n"));
}

#[test]
fn help_paragraphs_are_filled_up_to_the_terminal_width() {
    // Paragraphs wrapped both in the source and by the terminal would have lines of a few words.
    let all = forebay(&["--help"]).assert().success().get_output().stdout.clone();
    let all = String::from_utf8_lossy(&all).into_owned();
    let commands = all.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = commands.take_while(|line| !line.is_empty());
    let names: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"validate") && names.contains(&"published"), "{names:?}");
    for name in names {
        let out = forebay(&["help", name]).env("COLUMNS", "80").assert().success();
        let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let prose = |line: &str| !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
        for pair in lines.windows(2).filter(|pair| prose(pair[0]) && prose(pair[1])) {
            let next = pair[1].split_whitespace().next().map_or(0, str::len);
            assert!(
                pair[0].len() + 1 + next > 80,
                "{name}: {:?} could go on with {:?}",
                pair[0],
                pair[1]
            );
        }
    }
}

#[test]
fn manual_pages_omit_internal_commands() {
    let place = Place::new();
    place.forebay(&["man", "pages"]).assert().success();
    let pages = std::fs::read_dir(place.path("pages")).expect("pages");
    let names: Vec<String> =
        pages.flatten().map(|page| page.file_name().to_string_lossy().into_owned()).collect();
    assert!(names.contains(&"forebay-live.1".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("live-part")), "{names:?}");
}

#[test]
fn internal_commands_are_never_offered() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let out = place.forebay(&["completions", shell]).assert().success();
        let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
        assert!(!text.contains("live-part") && !text.contains("live__part"), "{shell}");
    }
    for arguments in [
        &["live-par"][..],
        &["live-part", "x"],
        &["live-parts"],
        &["help", "live-part"],
        &["--help"],
        &["li"],
    ] {
        let out = place.forebay(arguments).assert();
        let out = out.get_output();
        let said = [&out.stdout[..], &out.stderr].concat();
        let said =
            String::from_utf8_lossy(&said).replace(&format!("'{}'", arguments.join("' '")), "");
        assert!(
            !said.contains("'live-part'") || arguments.contains(&"live-part"),
            "{arguments:?}: {said}"
        );
    }
}
