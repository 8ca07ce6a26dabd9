//! Sweeps on a full disk, with planted links or shared output files, and with too large grids: no point is
//! lost, no link is followed, no file is overwritten.

use crate::support::{Place, SCENARIO};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output, Stdio};

/// Runs the program with a file size limit of `blocks` blocks of 512 B, as on a full disk.
fn on_a_full_disk(place: &Place, blocks: u32, arguments: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_forebay");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec '{program}' {arguments}");
    Command::new("sh")
        .args(["-c", &script])
        .current_dir(place.directory())
        .output()
        .expect("a shell")
}

/// Returns a scratch directory with a sweep of 60 points, whose journal takes some 5 kB for each point.
fn sixty_points() -> Place {
    let place = Place::new();
    let intervals: Vec<String> = (1..=20).map(|interval| interval.to_string()).collect();
    place.write("s.toml", &SCENARIO.replace("= [1, 2]", &format!("= [{}]", intervals.join(", "))));
    place
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Returns the error message of a refused command.
fn refused(place: &Place, arguments: &[&str]) -> String {
    let out = place.forebay(arguments).assert().code(2);
    String::from_utf8_lossy(&out.get_output().stderr).into_owned()
}

/// Returns a scratch directory with a journal with points, as an interrupted sweep leaves it.
fn interrupted() -> Place {
    let place = sixty_points();
    let out = on_a_full_disk(&place, 200, "sweep s.toml -o x.csv --threads 1");
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    place
}

#[test]
fn a_sweep_on_a_full_disk_reports_the_kept_points_and_resumes_to_the_same_bytes() {
    // System: a disk that fills during a sweep of 60 points. Expectation: the message names the file, the
    // reason, the number of kept points and the option to continue; the resumed sweep gives the bytes of an
    // uninterrupted one.
    let place = sixty_points();
    place.forebay(&["sweep", "s.toml", "-o", "ref.csv"]).assert().success();
    place.write("x.csv", "an earlier result\n");
    let out = on_a_full_disk(&place, 200, "sweep s.toml -o x.csv --threads 1");
    let message = said(&out);
    assert_eq!(out.status.code(), Some(3), "{message}");
    assert!(
        message.starts_with("forebay: cannot write x.csv.partial: file too large"),
        "{message}"
    );
    assert!(message.contains(" finished points are kept in x.csv.partial; --resume"), "{message}");
    assert_eq!(place.read("x.csv"), b"an earlier result\n");
    assert_eq!(place.files(), ["ref.csv", "s.toml", "x.csv", "x.csv.partial"]);
    place.forebay(&["sweep", "s.toml", "-o", "x.csv", "--resume"]).assert().success();
    assert!(place.read("x.csv") == place.read("ref.csv"), "resumed rows differ");
    assert_eq!(place.files(), ["ref.csv", "s.toml", "x.csv"]);
}

#[test]
fn a_sweep_whose_output_directory_vanishes_loses_no_point() {
    // System: the output directory is moved away during the sweep, as on a lost mount; permissions would not
    // stop root. Expectation: the journal, which is open, has all points.
    let place = sixty_points();
    place.forebay(&["sweep", "s.toml", "-o", "ref.csv"]).assert().success();
    let (out, moved) = (place.path("out"), place.path("moved"));
    fs::create_dir(&out).expect("a directory");
    let mut child = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["sweep", "s.toml", "-o", "out/x.csv", "--threads", "1"])
        .current_dir(place.directory())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    while place.points_in("out/x.csv.partial") == 0 {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    fs::rename(&out, &moved).expect("a directory that can be renamed");
    let ended = child.wait_with_output().expect("it ends");
    let message = said(&ended);
    assert_eq!(ended.status.code(), Some(2), "{message}");
    assert!(
        message.contains("cannot write") && message.contains("60 finished points are kept"),
        "{message}"
    );
    fs::rename(&moved, &out).expect("a directory that can be renamed");
    place.forebay(&["sweep", "s.toml", "-o", "out/x.csv", "--resume"]).assert().success();
    assert!(place.read("out/x.csv") == place.read("ref.csv"));
}

#[test]
fn symbolic_links_at_temporary_file_names_are_not_followed() {
    // System: links to a valuable file at every predictable temporary name. Expectation: the file is unchanged,
    // whether the program replaces the link, takes another name or refuses.
    let place = Place::new();
    place.write("value", "of value\n");
    for name in [".rows.csv.unfinished", ".o.json.unfinished"] {
        symlink(place.path("value"), place.path(name)).expect("a link");
    }
    place.forebay(&["sweep", "s.toml", "-o", "rows.csv"]).assert().success();
    assert!(place.read("rows.csv").starts_with(b"job."));
    // With `exec`, the shell's process number is that of the program.
    let program = env!("CARGO_BIN_EXE_forebay");
    let script =
        format!("ln -s value .o.json.$$; exec '{program}' run s.toml --format json -o o.json");
    let out = Command::new("sh").args(["-c", &script]).current_dir(place.directory()).output();
    assert!(out.expect("a shell").status.success());
    assert!(place.read("o.json").starts_with(b"{"));

    symlink(place.path("value"), place.path("rows.csv.partial")).expect("a link");
    for arguments in [&["--resume"][..], &["--force"], &[]] {
        let arguments = [&["sweep", "s.toml", "-o", "rows.csv"], arguments].concat();
        let message = refused(&place, &arguments);
        assert!(message.contains("rows.csv.partial is a symbolic link"), "{message}");
        assert!(message.contains("remove this path, or name another"), "{message}");
    }
    fs::remove_file(place.path("rows.csv.partial")).expect("a link");
    fs::hard_link(place.path("value"), place.path("rows.csv.partial")).expect("a link");
    let message = refused(&place, &["sweep", "s.toml", "-o", "rows.csv", "--force"]);
    assert!(message.contains("has a second name"), "{message}");
    assert_eq!(place.read("value"), b"of value\n");
}

#[test]
fn a_temporary_file_of_a_killed_sweep_is_replaced() {
    let place = Place::new();
    place.write(".rows.csv.unfinished", "half a row");
    place.forebay(&["sweep", "s.toml", "-o", "rows.csv"]).assert().success();
    assert_eq!(place.files(), ["rows.csv", "s.toml"]);
}

#[test]
fn a_journal_with_points_is_discarded_only_with_force() {
    let place = interrupted();
    let before = place.read("x.csv.partial");
    let message = refused(&place, &["sweep", "s.toml", "-o", "x.csv"]);
    assert!(message.contains("x.csv.partial holds finished points of an interrupted"), "{message}");
    assert!(message.contains("--resume") && message.contains("--force"), "{message}");
    assert_eq!(place.read("x.csv.partial"), before);
    place.forebay(&["sweep", "s.toml", "-o", "x.csv", "--force"]).assert().success();
    assert_eq!(place.files(), ["s.toml", "x.csv"]);
    // An empty journal is replaced without `--force`.
    place.write("x.csv.partial", "\n");
    place.forebay(&["sweep", "s.toml", "-o", "x.csv"]).assert().success();
}

#[test]
fn a_second_sweep_to_the_same_output_is_refused_at_its_start() {
    let place = Place::new();
    let journal = fs::File::create(place.path("rows.csv.partial")).expect("a file");
    journal.lock().expect("a lock");
    place.write("rows.csv", "of the first\n");
    symlink("rows.csv", place.path("other.csv")).expect("a link");
    for (output, resume) in [("rows.csv", false), ("rows.csv", true), ("other.csv", false)] {
        let all = ["sweep", "s.toml", "-o", output, "--resume"];
        let message = refused(&place, &all[..if resume { 5 } else { 4 }]);
        assert!(message.contains(&format!("another sweep writes to {output}")), "{message}");
        assert!(message.contains("wait for its end, or name another --output"), "{message}");
    }
    assert_eq!(place.read("rows.csv"), b"of the first\n");
    drop(journal);
    place.forebay(&["sweep", "s.toml", "-o", "rows.csv"]).assert().success();
}

#[test]
fn an_output_symlink_to_a_missing_file_stays_a_symlink() {
    let place = Place::new();
    fs::create_dir(place.path("results")).expect("a directory");
    symlink("results/new.csv", place.path("rows.csv")).expect("a link");
    symlink("results/new.json", place.path("o.json")).expect("a link");
    place.forebay(&["sweep", "s.toml", "-o", "rows.csv"]).assert().success();
    place.forebay(&["run", "s.toml", "--format", "json", "-o", "o.json"]).assert().success();
    for (link, file) in [("rows.csv", "results/new.csv"), ("o.json", "results/new.json")] {
        assert!(fs::symlink_metadata(place.path(link)).expect("a link").is_symlink(), "{link}");
        assert!(!place.read(file).is_empty());
    }
    symlink("missing/x.json", place.path("lost.json")).expect("a link");
    let message = refused(&place, &["run", "s.toml", "-o", "lost.json"]);
    assert!(message.starts_with("forebay: cannot write lost.json: no such file"), "{message}");
    symlink("loop.json", place.path("loop.json")).expect("a link");
    let message = refused(&place, &["run", "s.toml", "-o", "loop.json"]);
    assert!(message.starts_with("forebay: cannot write loop.json: "), "{message}");
}

#[test]
fn a_large_grid_is_checked_lazily_and_writes_its_first_rows_early() {
    // System: a million points, one of which in the middle is invalid in combination with another key's last
    // value. Expectation: the first rows are written before the other points are checked.
    let place = Place::new();
    let seeds: Vec<String> = (1..=10_000).map(|seed| seed.to_string()).collect();
    let batches: Vec<String> = (1..=100).map(|batch| batch.to_string()).collect();
    let (before, _) = SCENARIO.split_once("[sweep]").expect("a sweep");
    let before =
        before.replace("steps = 20", "steps = 2").replace("replications = 2", "replications = 1");
    let sweep = format!(
        "\"run.seed\" = [{}]\n\"job.batch_interval\" = [{}]\n",
        seeds.join(", "),
        batches.join(", ")
    );
    place.write("s.toml", &format!("{before}[sweep]\n{sweep}"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["sweep", "s.toml", "-o", "rows.csv"])
        .current_dir(place.directory())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let begin = std::time::Instant::now();
    while place.points_in("rows.csv.partial") == 0 && begin.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let some = place.points_in("rows.csv.partial") > 0;
    child.kill().expect("a child");
    child.wait().expect("it ends");
    assert!(some, "no row in a minute");
}

#[test]
fn an_invalid_point_late_in_a_sweep_keeps_the_points_before_it() {
    // System: 2,010 points, of which the last, beyond the points checked at first, is invalid: both its values
    // are valid in other combinations. Expectation: the message names it, and the points before it are kept.
    let place = Place::new();
    let batches: Vec<String> = (1..=1005).map(|batch| (batch / 32 + 1).to_string()).collect();
    let (before, _) = SCENARIO.split_once("[sweep]").expect("a sweep");
    let before =
        before.replace("steps = 20", "steps = 1").replace("replications = 2", "replications = 1");
    let both = format!(
        "\"job.loader.tf-queue.capacity\" = [\"64 samples\", \"32 samples\"]\n\"job.batch\" = [{}]\n",
        [&batches[..], &["40".to_owned()]].concat().join(", ")
    );
    place.write("s.toml", &format!("{before}[sweep]\n{both}"));
    let message = refused(&place, &["sweep", "s.toml", "-o", "rows.csv"]);
    assert!(
        message.contains("job.loader.tf-queue.capacity = \"32 samples\", job.batch = 40"),
        "{message}"
    );
    assert!(message.contains(" points are kept in rows.csv.partial; --resume"), "{message}");
    assert_eq!(place.files(), ["rows.csv.partial", "s.toml"]);
}

#[test]
fn a_grid_with_too_many_points_is_refused_with_the_limit() {
    let place = Place::new();
    let (before, _) = SCENARIO.split_once("[sweep]").expect("a sweep");
    let values: Vec<String> = (1..=1000).map(|value| value.to_string()).collect();
    let keys = [
        "run.seed",
        "job.batch",
        "job.batch_interval",
        "job.copies",
        "cluster.node.cores",
        "dataset.digits.samples",
        "job.loader.tf-queue.threads",
        "run.steps",
    ];
    let list = values.join(", ");
    let sweep: String = keys.iter().map(|key| format!("\"{key}\" = [{list}]\n")).collect();
    place.write("s.toml", &format!("{before}[sweep]\n{sweep}"));
    let message = refused(&place, &["sweep", "s.toml"]);
    assert!(message.contains("1e24 points, and at most 100000000 can be run"), "{message}");
    assert!(message.contains("fewer values"), "{message}");
}

#[test]
fn csv_cells_that_look_like_formulas_are_marked_as_text() {
    let place = Place::new();
    place.write("s.toml", &SCENARIO.replace("name = \"lenet\"", "name = \"=1+cmd|A0\""));
    let out = place.forebay(&["sweep", "s.toml", "-o", "rows.csv"]).assert().success();
    drop(out);
    let text = String::from_utf8_lossy(&place.read("rows.csv")).into_owned();
    assert!(text.contains(",'=1+cmd|A0,"), "{text}");
    let json = place.forebay(&["sweep", "s.toml", "--format", "json"]).assert().success();
    let json = String::from_utf8_lossy(&json.get_output().stdout).into_owned();
    assert!(json.contains("\"job\": \"=1+cmd|A0\""), "{json}");
    // Figures show the name unchanged.
    let recipe = "x = \"job.batch_interval\"\ny = [\"step_time\"]\ngroup = \"job\"\nstyle = \"points\"\n\
                  filter = { job = \"=1+cmd|A0\" }\n";
    place.write("r.toml", recipe);
    place.forebay(&["plot", "r.toml", "--data", "rows.csv"]).assert().success();
}
