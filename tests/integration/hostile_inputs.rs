//! Inputs that would fill the memory or the terminal: refused with file, position and remedy, within 700 MB of
//! address space.

use super::runs::repository;
use super::support::Place;
use std::fs::File;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Returns the output of the program with 700 MB of address space, part of which its code and threads need.
fn within_little_memory(place: &Place, arguments: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_forebay");
    let script = format!("ulimit -v 700000; exec '{program}' {arguments}");
    Command::new("sh")
        .args(["-c", &script])
        .env("RAYON_NUM_THREADS", "2")
        .current_dir(place.directory())
        .output()
        .expect("a shell")
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Writes a text followed by `zeros` bytes of zeros, which take no space on the disk.
fn sparse(place: &Place, name: &str, begin: &str, zeros: u64) {
    let mut file = File::create(place.path(name)).expect("a file");
    file.write_all(begin.as_bytes()).expect("written");
    file.set_len(begin.len() as u64 + zeros).expect("a length");
}

const RECIPE: &str = "x = \"job.batch\"\ny = [\"step_time\"]\n";

#[test]
fn a_huge_table_cell_is_refused_with_its_line() {
    // System: tables with a cell of 200 MB, or of 8 MB in a file that may have 16 MB. Expectation: a message
    // with file, line and remedy; a file of 300 MB is no journal.
    let place = Place::new();
    place.write("r.toml", RECIPE);
    sparse(&place, "rows.csv", "job.batch,step_time\n1,2\n3,", 200 << 20);
    sparse(&place, "few.csv", "job.batch,step_time\n1,2\n3,\"", 8 << 20);
    let profile = repository("calibrate/profiles/example.toml");
    let profile = profile.display();
    for (arguments, file) in [
        ("plot r.toml --data rows.csv".to_owned(), "rows.csv"),
        (format!("validate --measured few.csv --scenario s.toml --profile '{profile}'"), "few.csv"),
    ] {
        let out = within_little_memory(&place, &arguments);
        assert_eq!(out.status.code(), Some(2), "{arguments}: {}", said(&out));
        assert!(said(&out).contains(file), "{}", said(&out));
        assert!(
            said(&out).contains("the row that begins on line 3 has more than 1 MiB"),
            "{}",
            said(&out)
        );
        assert!(said(&out).contains("quotation marks"), "{}", said(&out));
    }
    sparse(&place, "rows.csv.partial", "{\"key\": \"", 300 << 20);
    let out = within_little_memory(&place, "sweep s.toml -o rows.csv --resume --threads 1");
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert!(said(&out).contains("is not the journal of a sweep"), "{}", said(&out));
}

#[test]
fn a_table_with_too_many_rows_or_bytes_is_refused() {
    let place = Place::new();
    place.write("r.toml", RECIPE);
    let rows = "job.batch,step_time,a,b,c,d,e\n".to_owned() + &"1,2,,,,,\n".repeat(1_000_001);
    place.write("rows.csv", &rows);
    let out = within_little_memory(&place, "plot r.toml --data rows.csv");
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert!(said(&out).contains("rows.csv: the file has more than 1000000 rows"), "{}", said(&out));
    sparse(&place, "rows.csv", "job.batch\n", 300 << 20);
    let out = within_little_memory(&place, "plot r.toml --data rows.csv");
    assert!(said(&out).contains("rows.csv: the input holds more than 256 MiB"), "{}", said(&out));
}

#[test]
fn files_with_too_many_values_are_refused_before_parsing() {
    // System: 400,000 jobs, a list of two million tables, tables by dotted keys, a list of eight million
    // numbers, each in less than 16 MiB. Expectation: a message with the limit and the line.
    let place = Place::new();
    let begin = "name = \"x\"\n[cluster]\nnodes = 1\n";
    let jobs = "[[job]]\nbatch = 1\nname = \"a\"\n".repeat(400_000);
    let dotted: String = (0..700_000).map(|i| format!("a{i}.b.c.d.e.f = 1\n")).collect();
    let list = format!("x = [{}]\n", "{a=1},".repeat(2_500_000));
    let numbers = format!("x = [{}]\n", "1,".repeat(8_000_000));
    place.write("r.toml", &format!("{RECIPE}[data]\nscenario = \"x.toml\"\n"));
    place
        .write("plan.toml", "scenario = \"x.toml\"\n[[point]]\nname = \"p\"\nuse = \"held-out\"\n");
    for (more, expected) in [
        (jobs, "more than 100000 tables"),
        (dotted, "more than 100000 tables"),
        (list, "more than 100000 tables"),
        (numbers, "more than 500000 values"),
    ] {
        place.write("x.toml", &format!("{begin}{more}"));
        for arguments in [
            "run x.toml",
            "run - < x.toml",
            "plot r.toml",
            "plot x.toml",
            "published x.toml",
            "profile show x.toml",
            "run s.toml --profile x.toml",
            "validate x.toml --profile s.toml",
            "calibrate --plan x.toml --output out",
        ] {
            let out = within_little_memory(&place, arguments);
            assert_eq!(out.status.code(), Some(2), "{arguments}: {}", said(&out));
            assert!(said(&out).contains(expected), "{arguments}: {}", said(&out));
            assert!(said(&out).contains("fewer"), "{arguments}: {}", said(&out));
        }
    }
}

/// Returns the output of a command to which a file is piped.
fn piped(place: &Place, file: &str, arguments: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_forebay");
    let script = format!("cat '{file}' | '{program}' {arguments}");
    let out = Command::new("sh").args(["-c", &script]).current_dir(place.directory()).output();
    out.expect("a shell")
}

#[test]
fn a_profile_is_read_from_a_pipe() {
    // System: a profile through a pipe, for commands that read it once, for each point, or in other processes.
    // Expectation: the same output as from a file.
    let place = Place::new();
    let profile = std::fs::read_to_string(repository("calibrate/profiles/example.toml"));
    place.write("profile.toml", &profile.expect("a shipped profile"));
    place.write("l.toml", super::machine_limits::LIVE);
    place.write(
        "plan.toml",
        "scenario = \"l.toml\"\nrepetitions = 1\nretries = 0\nnoise_floor = 1.0\npredictions = 2\n\
         [[point]]\nname = \"p\"\nuse = \"held-out\"\n",
    );
    place.write("rows.csv", "job.batch,step_time\n4,0.001\n8,0.001\n");
    for arguments in [
        "profile show",
        "profile diff profile.toml",
        "run s.toml -q --verdict quick --profile",
        "run s.toml -q --uncertainty 2 --profile",
        "sweep s.toml -q --profile",
        "validate plan.toml -q --predict-only --profile",
        "validate --measured rows.csv -q --predictions 2 --scenario l.toml --profile",
    ] {
        let from_pipe = piped(&place, "profile.toml", &format!("{arguments} /dev/stdin"));
        assert!(from_pipe.status.success(), "{arguments}: {}", said(&from_pipe));
        let from_file = piped(&place, "/dev/null", &format!("{arguments} profile.toml"));
        // The wall time differs, and with it the end of its line.
        let text = |out: &Output| {
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            let lines = text.lines();
            lines.take_while(|line| !line.contains(" simulated until ")).collect::<String>()
        };
        assert!(!text(&from_pipe).is_empty(), "{arguments}");
        assert_eq!(text(&from_pipe), text(&from_file), "{arguments}");
    }
    for arguments in [
        "validate plan.toml -q --profile /dev/stdin",
        "live l.toml -q --set cluster.node.cores=1 --set profile=/dev/stdin",
    ] {
        let out = piped(&place, "profile.toml", arguments);
        let refused = said(&out).contains("may use");
        assert!(out.status.success() || refused, "{arguments}: {}", said(&out));
    }
    let endless = piped(&place, "/dev/zero", "profile show /dev/stdin");
    assert_eq!(endless.status.code(), Some(2));
    assert!(
        said(&endless).contains("/dev/stdin: cannot be used: the input holds more than 16 MiB")
    );
}

#[test]
fn every_command_refuses_a_named_pipe_without_blocking() {
    let place = Place::new();
    let made = Command::new("mkfifo").arg(place.path("fifo")).status();
    assert!(made.expect("mkfifo").success());
    place.write("r.toml", RECIPE);
    for arguments in [
        &["run", "fifo"][..],
        &["plot", "fifo"],
        &["plot", "r.toml", "--data", "fifo"],
        &["published", "fifo"],
        &["profile", "show", "fifo"],
        &["run", "s.toml", "--profile", "fifo"],
        &["import", "kineto", "fifo"],
        &["import", "osu", "fifo"],
    ] {
        let out = place.forebay(arguments).assert().code(2).get_output().clone();
        assert!(
            said(&out).contains("the input is not a regular file"),
            "{arguments:?}: {}",
            said(&out)
        );
        assert!(said(&out).contains("/dev/stdin"), "{arguments:?}: {}", said(&out));
    }
}

#[test]
fn import_and_plot_commands_read_standard_input() {
    let place = Place::new();
    let data = |name: &str| repository(&format!("tests/data/{name}")).display().to_string();
    let dlio = std::fs::read_dir(repository("tests/data/dlio")).expect("a directory");
    let dlio = dlio
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|e| e == "yaml"));
    place.write("r.toml", RECIPE);
    place.write("rows.csv", "job.batch,step_time\n4,0.001\n8,0.001\n");
    for (file, command) in [
        (data("pytorch-trace.json"), "import kineto FILE --format json"),
        (data("nccl-allreduce-4.txt"), "import nccl-tests FILE"),
        (dlio.expect("a workload").display().to_string(), "import dlio FILE --hosts 1"),
        ("rows.csv".to_owned(), "plot r.toml -q --output . --data FILE"),
    ] {
        let from_pipe = piped(&place, &file, &command.replace("FILE", "-"));
        assert!(from_pipe.status.success(), "{command}: {}", said(&from_pipe));
        let from_file = piped(&place, "/dev/null", &command.replace("FILE", &format!("'{file}'")));
        let figures = |out: &Output| {
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            text.lines().filter(|line| !line.starts_with('#')).collect::<String>()
        };
        assert_eq!(figures(&from_pipe), figures(&from_file), "{command}");
    }
    place.write("no.json", "{");
    let out = piped(&place, "no.json", "import kineto -");
    assert!(said(&out).starts_with("forebay: cannot use standard input: "), "{}", said(&out));
}

#[test]
fn control_characters_in_file_names_are_escaped_in_messages() {
    // System: existing and missing files, directories and options with a line break and an escape sequence in
    // their names. Expectation: each message shows them escaped.
    let place = Place::new();
    let odd = "a\nforebay: \u{1b}[31mred";
    place.write(&format!("{odd}.toml"), "name = 1\n[[");
    place.write(&format!("{odd}.csv"), "a,b\n1\n");
    place.write("r.toml", RECIPE);
    place
        .write("csv.toml", &format!("{RECIPE}[data]\ncsv = \"a\\nforebay: \\u001b[31mred.csv\"\n"));
    place.write("gone.toml", &format!("{RECIPE}[data]\nscenario = \"a\\nb\\u001b.toml\"\n"));
    let (toml, csv) = (format!("{odd}.toml"), format!("{odd}.csv"));
    let (none, inside) = (format!("{odd}.none"), format!("{odd}/x"));
    let dlio = format!("++a={odd}");
    let commands: [&[&str]; 27] = [
        &["run", &toml],
        &["run", &none],
        &["run", "s.toml", "--output", &inside],
        &["run", "s.toml", "--figure", &none],
        &["run", "s.toml", "--set", &toml],
        &["run", "s.toml", "--profile", &toml],
        &["run", "s.toml", "--profile", &none],
        &["sweep", "s.toml", "--output", &inside],
        &["plot", &toml],
        &["plot", &none],
        &["plot", "csv.toml"],
        &["plot", "gone.toml"],
        &["plot", "r.toml", "--data", &csv],
        &["plot", "r.toml", "--data", "s.toml", "--output", &inside],
        &["published", &toml],
        &["profile", "show", &none],
        &["profile", "fit", &csv],
        &["validate", &toml, "--profile", "s.toml"],
        &["calibrate", "--plan", &toml],
        &["calibrate", "--data", &none],
        &["import", "kineto", &toml],
        &["import", "osu", &toml],
        &["import", "dlio", &toml],
        &["import", "dlio", "s.toml", &dlio],
        &["live", &toml],
        &[odd],
        &["run", "s.toml", "--format", odd],
    ];
    for arguments in commands {
        let out = place.forebay(arguments).output().expect("a process");
        assert!(!out.status.success(), "{arguments:?}");
        let said = said(&out);
        assert!(!said.contains('\u{1b}'), "{arguments:?}: {said:?}");
        assert!(!said.lines().any(|line| line.starts_with("forebay: \\u{1b}[31mred")), "{said}");
    }
}

#[test]
fn long_values_are_shortened_in_messages() {
    let place = Place::new();
    let long = "9".repeat(3000);
    place.write(
        "long.toml",
        &format!("name = \"x\"\n[run]\nsteps = {long}\nseed = \"{long}\"\n[job.{long}]\n"),
    );
    place.write("rows.csv", &format!("job.batch,step_time\n1,x{long}\n"));
    let set = |key: &str| format!("{key}={long}");
    let sets =
        ["run.steps", "cluster.nodes", "job.model.step", "dataset.digits.x", "name"].map(set);
    let mut commands: Vec<Vec<&str>> =
        sets.iter().map(|set| vec!["run", "s.toml", "--set", set]).collect();
    commands.extend([
        vec!["run", "long.toml"],
        vec!["run", "s.toml", "--threads", &long],
        vec!["run", "s.toml", "--set", &long],
        vec![&long],
        vec!["import", "osu", "s.toml", "--collective", &long],
        vec!["calibrate", "--budget", &long],
        vec!["published", "--scenario", &long],
        vec!["validate", "--measured", "rows.csv", "--scenario", "s.toml", "--profile", "s.toml"],
    ]);
    for arguments in commands {
        let out = place.forebay(&arguments).output().expect("a process");
        let said = said(&out);
        let (command, most) = (arguments[0].get(..20).unwrap_or(arguments[0]), "9".repeat(81));
        assert!(!out.status.success(), "{command}");
        assert!(!said.contains(&most), "{command} {:?}: {said}", arguments.get(2));
    }
}

#[test]
fn an_error_in_writing_help_text_to_standard_output_is_reported() {
    let place = Place::new();
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["-h"],
        &["help", "run"],
        &["run", "--help"],
        &["schema", "profile"],
        &["completions", "bash"],
        &["man"],
        &["doctor"],
        &["explain-defaults", "s.toml"],
    ] {
        let full = File::options().write(true).open("/dev/full").expect("/dev/full");
        let out = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(arguments)
            .current_dir(place.directory())
            .stdout(full)
            .stderr(Stdio::piped())
            .output()
            .expect("the program starts");
        let message = said(&out);
        assert_eq!(out.status.code(), Some(3), "{arguments:?}: {message}");
        let expected = "forebay: cannot write standard output: no space left on device\n";
        assert_eq!(message, expected, "{arguments:?}");
    }
    let out = place.forebay(&["--help"]).assert().success().get_output().clone();
    assert!(!out.stdout.contains(&0x1b) && out.stderr.is_empty(), "no colour in a pipe");
}
