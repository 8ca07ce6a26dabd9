//! Shards: equal parts of a sweep, made by tasks that may be killed, run twice or run at the same time, and joined.

use crate::support::{Place, SCENARIO};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Returns what a sweep without shards writes.
fn undivided(place: &Place, format: &str) -> Vec<u8> {
    let sweep = ["sweep", "s.toml", "--columns", "all", "--format", format];
    place.forebay(&sweep).assert().success().get_output().stdout.clone()
}

/// Makes a shard in the directory `d`.
fn make(place: &Place, shard: &str) {
    place
        .forebay(&["sweep", "s.toml", "--shard", shard, "--output", "d", "--quiet"])
        .assert()
        .success();
}

fn collect(place: &Place, format: &str) -> Vec<u8> {
    let collect = ["sweep", "--collect", "d", "--columns", "all", "--format", format, "--quiet"];
    place.forebay(&collect).assert().success().get_output().stdout.clone()
}

/// Returns the message of a command that ends with this exit code.
fn said(place: &Place, code: i32, arguments: &[&str]) -> String {
    let out = place.forebay(arguments).assert().code(code);
    String::from_utf8_lossy(&out.get_output().stderr).into_owned()
}

/// Returns the names of the files in `d`.
fn names(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.path("d")).expect("a directory").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn joined_shards_are_the_bytes_of_an_undivided_sweep() {
    let place = Place::new();
    let expected = ["csv", "json", "parquet"].map(|format| (format, undivided(&place, format)));
    for count in [1, 3, 7] {
        for number in (1..=count).rev() {
            make(&place, &format!("{number}/{count}"));
        }
        for (format, rows) in &expected {
            assert!(collect(&place, format) == *rows, "{count} shards as {format}");
        }
        assert_eq!(names(&place).len(), count);
        fs::remove_dir_all(place.path("d")).expect("a directory");
    }
}

#[test]
fn a_task_of_an_array_makes_the_shard_of_its_number() {
    let place = Place::new();
    let shard = ["sweep", "s.toml", "--output", "d", "--quiet", "--shard"];
    for index in ["4", "5"] {
        let mut task = place.forebay(&[&shard[..], &["auto"]].concat());
        let ends = [("MIN", "4"), ("MAX", "5"), ("STEP", "1"), ("COUNT", "2"), ("ID", index)];
        for (name, value) in ends {
            task.env(format!("SLURM_ARRAY_TASK_{name}"), value);
        }
        task.assert().success();
    }
    assert_eq!(names(&place), ["shard-1-of-2.rows", "shard-2-of-2.rows"]);
    assert!(collect(&place, "csv") == undivided(&place, "csv"));
    let mut task = place.forebay(&[&shard[..], &["auto"]].concat());
    let out = task.env_remove("SLURM_ARRAY_TASK_ID").assert().code(2);
    let said = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
    assert!(said.contains("this is no task of an array"), "{said}");
}

#[test]
fn missing_shards_are_named_with_the_command_that_makes_just_them() {
    let place = Place::new();
    for shard in ["1/4", "3/4"] {
        let values = ["--vary", "job.batch=[4, 8]", "--set", "job.model.step={ fixed = \"1 ms\" }"];
        place
            .forebay(
                &[&["sweep", "s.toml", "--shard", shard, "--output", "d"], &values[..]].concat(),
            )
            .assert()
            .success();
    }
    let message = said(&place, 1, &["sweep", "--collect", "d", "--output", "rows.csv"]);
    assert!(message.contains("2 of 4 shards are missing in d: 2, 4"), "{message}");
    assert!(!place.path("rows.csv").exists());
    let command = message.lines().find(|line| line.contains("for shard in")).expect("a command");
    let program = env!("CARGO_BIN_EXE_forebay");
    let done = Command::new("sh")
        .args(["-ec", &command.replace("forebay sweep", &format!("'{program}' sweep"))])
        .current_dir(place.directory())
        .output()
        .expect("a shell");
    assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
    place.forebay(&["sweep", "--collect", "d", "--output", "rows.csv"]).assert().success();
    assert_eq!(String::from_utf8_lossy(&place.read("rows.csv")).lines().count(), 1 + 12);
    let message = said(&place, 2, &["sweep", "--collect", "."]);
    assert!(message.contains("has no shards"), "{message}");
}

#[test]
fn shards_of_other_settings_or_numbers_are_not_joined() {
    let place = Place::new();
    make(&place, "1/2");
    let shard = ["sweep", "s.toml", "--output", "d", "--shard"];
    let message = said(&place, 2, &[&shard[..], &["2/3"]].concat());
    assert!(message.contains("shard-1-of-2.rows is one of 2 shards, and not of 3"), "{message}");
    let other = ["1/2", "--set", "run.seed=9"];
    let message = said(&place, 2, &[&shard[..], &other].concat());
    assert!(message.contains("`run.seed` was 1 and is 9 now"), "{message}");
    place
        .forebay(&["sweep", "s.toml", "--output", "e", "--shard", "2/2", "--set", "run.seed=9"])
        .assert()
        .success();
    fs::copy(place.path("e/shard-2-of-2.rows"), place.path("d/shard-2-of-2.rows")).expect("a copy");
    let message = said(&place, 2, &["sweep", "--collect", "d"]);
    assert!(message.contains("shard-2-of-2.rows is of other settings: `run.seed`"), "{message}");
    let text =
        String::from_utf8_lossy(&place.read("d/shard-1-of-2.rows")).replace("lenet", "lenot");
    place.write("d/shard-1-of-2.rows", &text);
    let message = said(&place, 2, &["sweep", "--collect", "d"]);
    assert!(message.contains("shard-1-of-2.rows is damaged: remove it"), "{message}");
    let message = said(&place, 2, &[&shard[..], &["1/2"]].concat());
    assert!(message.contains("run its shard again"), "{message}");
}

/// Starts an attempt at a shard of a sweep whose points take long.
fn start(place: &Place, shard: &str) -> Child {
    let long = SCENARIO.replace("steps = 20", "steps = 4000");
    let intervals: Vec<String> = (1..30).map(|interval| interval.to_string()).collect();
    place.write("s.toml", &long.replace("= [1, 2]", &format!("= [{}]", intervals.join(", "))));
    Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["sweep", "s.toml", "--threads", "1", "--shard", shard, "--output", "d"])
        .current_dir(place.directory())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// Returns the number of finished points in all attempts.
fn points(place: &Place) -> usize {
    let Ok(entries) = fs::read_dir(place.path("d")) else { return 0 };
    let points = |entry: fs::DirEntry| {
        let bytes = fs::read(entry.path()).unwrap_or_default();
        bytes.iter().filter(|byte| **byte == b'\n').count().saturating_sub(1)
    };
    entries.flatten().map(points).sum()
}

fn wait_for_points(place: &Place, least: usize) {
    let begin = Instant::now();
    while points(place) < least {
        assert!(begin.elapsed() < Duration::from_secs(60), "no points in a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_killed_attempt_at_a_shard_loses_no_point_and_two_attempts_do_no_harm() {
    // System: an attempt that is killed after some points, then two attempts at the same time. Expectation: the points of the first
    // are not run again; all three leave one file, with each point once; the rows are those of an undivided sweep.
    let place = Place::new();
    let mut killed = start(&place, "1/2");
    wait_for_points(&place, 4);
    killed.kill().and_then(|()| killed.wait()).expect("it ends");
    let kept = points(&place);
    let both = [start(&place, "1/2"), start(&place, "1/2")];
    for attempt in both {
        let out = attempt.wait_with_output().expect("it ends");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    let whole = String::from_utf8_lossy(&place.read("d/shard-1-of-2.rows")).into_owned();
    assert!(kept >= 4 && whole.lines().count() == 1 + 44, "{kept}: {}", whole.lines().count());
    assert!(start(&place, "2/2").wait().expect("it ends").success());
    let message = said(&place, 0, &["sweep", "s.toml", "--shard", "1/2", "--output", "d"]);
    assert!(message.contains("shard 1/2 is in d already"), "{message}");
    let collect = ["sweep", "--collect", "d", "--columns", "all", "--output", "rows.csv"];
    place.forebay(&collect).assert().success();
    assert!(place.read("rows.csv") == undivided(&place, "csv"));
    assert_eq!(names(&place), ["shard-1-of-2.rows", "shard-2-of-2.rows"], "leftovers are removed");
}

#[test]
fn an_interrupted_shard_says_how_to_go_on() {
    let place = Place::new();
    let child = start(&place, "2/2");
    wait_for_points(&place, 2);
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(killed.expect("kill").success());
    let out = child.wait_with_output().expect("it ends");
    let message = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(4), "{message}");
    assert!(message.contains("points of shard 2/2 are kept in d"), "{message}");
    let message = said(&place, 1, &["sweep", "--collect", "d"]);
    assert!(message.contains("2 of 2 shards are missing in d: 1, 2 ("), "{message}");
}

#[test]
fn links_and_pipes_among_shards_are_not_followed() {
    let place = Place::new();
    make(&place, "1/1");
    let rows = place.path("d/shard-1-of-1.rows");
    fs::rename(&rows, place.path("elsewhere")).expect("a file");
    std::os::unix::fs::symlink(place.path("elsewhere"), &rows).expect("a link");
    let message = said(&place, 2, &["sweep", "--collect", "d"]);
    assert!(message.contains("cannot read d/shard-1-of-1.rows"), "{message}");
    fs::remove_file(&rows).expect("a link");
    let made = Command::new("mkfifo").arg(&rows).status().expect("mkfifo");
    assert!(made.success());
    let message = said(&place, 2, &["sweep", "--collect", "d"]);
    assert!(message.contains("not a regular file"), "{message}");
}

/// Writes a program `sbatch` that runs the tasks of an array here, one after the other.
fn with_sbatch(place: &Place) -> String {
    place.write(
        "sbatch",
        "#!/bin/sh\nset -e\nfor script; do :; done\nn=$(sed -n 's/^#SBATCH --array=1-//p' \"$script\")\n\
         for i in $(seq \"$n\"); do SLURM_ARRAY_TASK_ID=$i sh \"$script\" >&2; done\necho 17\n",
    );
    let path = place.path("sbatch");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a file");
    format!("{}:{}", place.directory().display(), std::env::var("PATH").unwrap_or_default())
}

#[test]
fn an_array_job_of_slurm_makes_all_shards() {
    let place = Place::new();
    let path = with_sbatch(&place);
    let sweep = ["sweep", "s.toml", "--slurm", "--output", "a b", "--set", "job.batch=4"];
    let message = said(&place, 0, &sweep);
    assert!(message.contains("array.sh (1 task)"), "small sweeps are one task: {message}");
    let mut submit =
        place.forebay(&[&sweep[..], &["--tasks", "3", "--submit", "--threads", "2"]].concat());
    let out = submit.env("PATH", path).assert().success();
    let message = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
    assert!(message.contains("as job 17") && message.contains("--collect"), "{message}");
    let script = String::from_utf8_lossy(&place.read("a b/array.sh")).into_owned();
    for line in
        ["#SBATCH --array=1-3", "#SBATCH --cpus-per-task=2", "#SBATCH --requeue", "--shard auto/3"]
    {
        assert!(script.contains(line), "{line}: {script}");
    }
    let rows = place.forebay(&["sweep", "--collect", "a b"]).assert().success();
    let expected = place.forebay(&["sweep", "s.toml", "--set", "job.batch=4"]).assert().success();
    assert_eq!(rows.get_output().stdout, expected.get_output().stdout);
    fs::remove_file(place.path("a b/shard-2-of-3.rows")).expect("a shard");
    let message = said(&place, 1, &["sweep", "--collect", "a b"]);
    assert!(message.contains("sbatch --array=2 'a b/array.sh'"), "{message}");
    // Another sweep into the same directory would mix with this one.
    let other =
        ["sweep", "s.toml", "--slurm", "--output", "a b", "--set", "job.batch=8", "--tasks", "3"];
    assert!(
        said(&place, 2, &other).contains("is of other settings: `job.lenet.batch` was 4 and is 8")
    );
    let more = [&sweep[..], &["--tasks", "5"]].concat();
    assert!(
        said(&place, 2, &more).contains("has some of 3 shards, so that the array needs 3 tasks")
    );
    for shard in ["1", "3"] {
        fs::remove_file(place.path(&format!("a b/shard-{shard}-of-3.rows"))).expect("a shard");
    }
    assert!(said(&place, 2, &other).contains("array.sh is of another sweep"));
    let message = said(&place, 1, &["sweep", "--collect", "a b"]);
    assert!(message.contains("no task of a b/array.sh has begun a shard"), "{message}");
    assert!(
        said(&place, 2, &["sweep", "s.toml", "--slurm", "--output", "s.toml"])
            .contains("is a file")
    );
    let nowhere = place
        .forebay(&[&sweep[..], &["--submit"]].concat())
        .env("PATH", "/nowhere")
        .assert()
        .code(3);
    let message = String::from_utf8_lossy(&nowhere.get_output().stderr).into_owned();
    assert!(message.contains("cannot start sbatch"), "{message}");
}
