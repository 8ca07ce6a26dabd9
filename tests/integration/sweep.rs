//! Sweeps: order, determinism, interruption, resumption.

use crate::support::{Place, SCENARIO};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Returns the cells of CSV without quotes.
fn cells(csv: &[u8]) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(csv);
    reader.deserialize().map(|row| row.expect("cells")).collect()
}

#[test]
fn rows_of_a_sweep_are_in_grid_order_with_the_last_key_changing_fastest() {
    let place = Place::new();
    let out = place.forebay(&["sweep", "s.toml"]).assert().success();
    let rows = cells(&out.get_output().stdout);
    assert_eq!(
        rows[0][..4],
        ["job.loader.tf-queue.threads", "job.batch_interval", "job", "step_time"]
    );
    let points: Vec<_> = rows[1..].iter().map(|row| (row[0].as_str(), row[1].as_str())).collect();
    let expected = [("1", "1"), ("1", "2"), ("2", "1"), ("2", "2"), ("4", "1"), ("4", "2")];
    assert_eq!(points, expected);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    assert!(rows[0].len() < 20, "{:?}", rows[0]);
    let all = place.forebay(&["sweep", "s.toml", "--columns", "all"]).assert().success();
    let all = cells(&all.get_output().stdout);
    for column in ["step_time_lo", "stall_latency", "net_enqueue_rate_hi", "makespan"] {
        assert!(all[0].iter().any(|name| name == column), "{column}");
        assert_eq!(rows[0].iter().any(|name| name == column), column == "step_time_lo", "{column}");
    }
    assert!(rows[1..].iter().all(|row| row[3].parse::<f64>().is_ok_and(|time| time > 0.0)));
}

#[test]
fn rows_of_a_sweep_do_not_depend_on_the_number_of_threads() {
    let place = Place::new();
    for format in ["csv", "json"] {
        let sweep = |threads: &str| {
            let arguments = ["sweep", "s.toml", "--format", format, "--threads", threads];
            place.forebay(&arguments).assert().success().get_output().stdout.clone()
        };
        let one = sweep("1");
        assert_eq!(one, sweep("2"));
        assert_eq!(one, sweep("7"));
    }
}

#[test]
fn json_rows_have_the_columns_of_csv() {
    let place = Place::new();
    let csv = place.forebay(&["sweep", "s.toml"]).assert().success().get_output().stdout.clone();
    let out = place.forebay(&["sweep", "s.toml", "--format", "json"]).assert().success();
    let rows: Vec<serde_json::Map<String, serde_json::Value>> =
        serde_json::from_slice(&out.get_output().stdout).expect("JSON rows");
    let csv = cells(&csv);
    assert_eq!(rows.len(), csv.len() - 1);
    assert!(csv[0].iter().all(|column| rows[0].contains_key(column)));
    assert_eq!(rows[1]["job.batch_interval"], 2);
}

#[test]
fn invalid_sweep_points_are_named_before_anything_runs() {
    let place = Place::new();
    // Each value is valid; only a batch of 32 from a queue of 16 is not.
    let both = "\"job.batch\" = [8, 32]\n\"job.loader.tf-queue.capacity\" = [\"64 samples\", \"16 samples\"]\n";
    let (before, _) = SCENARIO.split_once("[sweep]").expect("a sweep");
    place.write("s.toml", &format!("{before}[sweep]\n{both}"));
    let out = place.forebay(&["sweep", "s.toml", "--output", "rows.csv"]).assert().code(2);
    let message = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
    assert!(message.contains("job.batch = 32, job.loader.tf-queue.capacity = "), "{message}");
    assert!(message.contains("1 of 4 points"), "{message}");
    assert_eq!(place.files(), ["s.toml"]);
}

#[test]
fn an_invalid_sweep_value_is_shown_before_anything_runs() {
    let place = Place::new();
    place.write("s.toml", &SCENARIO.replace("= [1, 2]", "= [1, -2]"));
    let out = place.forebay(&["sweep", "s.toml", "--output", "rows.csv"]).assert().code(2);
    let message = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
    assert!(message.contains("job.batch_interval") && message.contains("-2"), "{message}");
    assert_eq!(place.files(), ["s.toml"]);
}

#[test]
fn a_message_common_to_all_sweep_points_is_printed_once_on_standard_error() {
    // System: jobs whose nodes have four GPUs and train on one, with three batch sizes. Expectation: one remark
    // on the idle GPUs, none with `--quiet`, and only rows on standard output.
    let place = Place::new();
    place.write("s.toml", &SCENARIO.replace("gpus = 1", "gpus = 4"));
    let sweep = ["sweep", "s.toml", "--vary", "job.batch=[8, 16, 32]"];
    let said = |more: &[&str]| {
        let out = place.forebay(&[&sweep[..], more].concat()).assert().success();
        let out = out.get_output().clone();
        assert!(!String::from_utf8_lossy(&out.stdout).contains("idle"));
        String::from_utf8_lossy(&out.stderr).matches("the others are idle").count()
    };
    assert_eq!([said(&[]), said(&["--quiet"])], [1, 0]);
}

#[test]
fn sweeping_a_scenario_without_a_sweep_table_is_refused_with_an_example() {
    let place = Place::new();
    let scenario = SCENARIO.split("[sweep]").next().expect("the part before");
    place.write("s.toml", scenario);
    let out = place.forebay(&["sweep", "s.toml"]).assert().code(2);
    assert!(String::from_utf8_lossy(&out.get_output().stderr).contains("[sweep]"));
}

#[test]
fn the_vary_option_replaces_swept_keys_of_the_scenario_or_adds_keys() {
    let place = Place::new();
    let rows = |arguments: &[&str]| {
        let out = place.forebay(&[&["sweep", "s.toml"], arguments].concat()).assert().success();
        cells(&out.get_output().stdout)
    };
    let (file, replaced) = (rows(&[]), rows(&["--vary", "job.batch_interval=[3, 4, 5]"]));
    let points = |cells: &[Vec<String>]| {
        let keys = cells[0].iter().filter(|name| name.starts_with("job.")).count();
        cells[1..].iter().map(|row| row[..keys].to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(replaced[0], file[0], "the columns stay");
    let intervals: Vec<String> = points(&replaced).iter().map(|row| row.concat()).collect();
    assert_eq!(points(&replaced).len(), points(&file).len() / 2 * 3);
    assert!(intervals[0].contains('3') && !intervals.iter().any(|row| row == "1"), "{intervals:?}");

    let beside = rows(&["--vary", "job.batch=[4, 8]"]);
    assert_eq!(points(&beside).len(), points(&file).len() * 2);
    assert!(beside[0].contains(&"job.batch".to_owned()));

    for (wrong, words) in [
        ("job.btch=[1]", "did you mean `batch`"),
        ("job.batch=4", "--vary job.batch=4"),
        ("job.batch", "write `--vary key=value`"),
    ] {
        let out = place.forebay(&["sweep", "s.toml", "--vary", wrong]).assert().code(2);
        let message = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
        assert!(message.contains(words), "{wrong}: {message}");
    }
}

/// Starts a sweep of three times as many points as there are intervals up to `most`, each of which takes long.
fn start_long(place: &Place, most: u32, arguments: &[&str]) -> Child {
    let long = SCENARIO.replace("steps = 20", "steps = 4000");
    let intervals: Vec<String> = (1..most).map(|interval| interval.to_string()).collect();
    let long = long.replace("= [1, 2]", &format!("= [{}]", intervals.join(", ")));
    place.write("s.toml", &long);
    Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["sweep", "s.toml", "--threads", "2"])
        .args(arguments)
        .current_dir(place.directory())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// Waits until the journal has a few points.
fn wait_for_points(place: &Place) {
    let begin = Instant::now();
    while place.points_in("rows.csv.partial") < 3 {
        assert!(begin.elapsed() < Duration::from_secs(60), "no points in a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to a child process.
fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    let status = Command::new("kill").args([name, &id]).status().expect("kill");
    assert!(status.success());
}

#[test]
fn an_interrupted_sweep_keeps_finished_points_and_resumes() {
    let place = Place::new();
    let child = start_long(&place, 40, &["--output", "rows.csv"]);
    wait_for_points(&place);
    signal(&child, "-TERM");
    let out = child.wait_with_output().expect("it ends");
    let message = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(4), "{message}");
    assert!(message.contains("interrupted") && message.contains("rows.csv"), "{message}");
    let kept = place.read("rows.csv");
    let rows = cells(&kept);
    assert!(rows.len() > 3, "{} rows", rows.len());
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    check_resumed(&place, "-TERM");
}

#[test]
fn a_killed_sweep_loses_no_finished_point() {
    let place = Place::new();
    let mut child = start_long(&place, 40, &["--output", "rows.csv"]);
    wait_for_points(&place);
    signal(&child, "-KILL");
    child.wait().expect("it ends");
    assert!(!place.path("rows.csv").exists());
    check_resumed(&place, "-KILL");
}

/// Returns the checksum of a journal's line: 128-bit FNV-1a, after that of the first line.
fn checksum(before: u128, text: &str) -> u128 {
    let begin = if before == 0 { 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d } else { before };
    let prime = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    text.bytes().fold(begin, |hash: u128, byte| (hash ^ u128::from(byte)).wrapping_mul(prime))
}

/// Marks a row of the journal of an interrupted sweep, to check that resuming uses it; and that other settings, other values of a
/// swept key, edited lines and other files are refused.
fn check_resumed(place: &Place, how: &str) {
    let journal = String::from_utf8_lossy(&place.read("rows.csv.partial")).into_owned();
    let mut lines = journal.lines();
    let (head, point) = (lines.next().expect("settings"), lines.next().expect("a point"));
    let seal = u128::from_str_radix(&head[8..40], 16).expect("a checksum");
    let body = point[42..].replacen("lenet", "marked", 1);
    let marked = format!("{{\"sum\":\"{:032x}\",{body}", checksum(seal, &body));
    let kept = format!("{head}\n{marked}\n");
    let resume = |more: &[&str], words: &[&str]| {
        let arguments = [&["sweep", "s.toml", "--output", "rows.csv"], more].concat();
        let out = place.forebay(&arguments).assert().code(2);
        let said = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
        assert!(words.iter().all(|word| said.contains(word)), "{how}: {more:?}: {said}");
    };
    place.write("rows.csv.partial", &kept);
    resume(&["--resume", "--set", "run.seed=9"], &["`run.seed` was 1 and is 9 now"]);
    resume(&["--resume", "--unset", "run.warm_up"], &["`run.warm_up` was \"off\" and is not set"]);
    let fewer = "job.loader.tf-queue.threads=[1, 2]";
    resume(&["--resume", "--vary", fewer], &["threads = [1, 2, 4]` and is", "threads = [1, 2]`"]);
    resume(&[], &["--resume", "--force", "1 points"]);
    assert_eq!(place.read("rows.csv.partial"), kept.as_bytes(), "{how}: the points are kept");
    place.write("rows.csv.partial", &kept.replace("marked", "edited"));
    resume(&["--resume"], &["line 2 of rows.csv.partial is not as a sweep wrote it"]);
    for foreign in ["job,step_time\na,1\n", "{\"a\": 1}\n"] {
        place.write("rows.csv.partial", foreign);
        for more in [&["--resume"][..], &["--force"], &[]] {
            resume(more, &["rows.csv.partial is not the journal of a sweep"]);
        }
        assert_eq!(place.read("rows.csv.partial"), foreign.as_bytes());
    }

    // An incomplete line at the end must not matter, nor values that are swept in addition or in another order. The journal has all
    // columns.
    place.write("rows.csv.partial", &format!("{kept}{{\"sum\": \"torn"));
    let text = String::from_utf8_lossy(&place.read("s.toml")).into_owned();
    place.write("s.toml", &text.replace(", 39]", ", 39, 500]").replace("[1, 2, 4]", "[4, 1, 2]"));
    let other = ["sweep", "s.toml", "--output", "rows.csv", "--resume", "--columns", "makespan"];
    place.forebay(&other).assert().success();
    let rows = cells(&place.read("rows.csv"));
    assert_eq!(rows.len(), 121);
    assert!(rows.iter().all(|row| row.len() == 6), "{rows:?}");
    let marked = rows.iter().filter(|row| row[2] == "marked").count();
    assert_eq!(marked, 1, "{how}");
    assert_eq!(place.files(), ["rows.csv", "s.toml"], "{how}");
}

#[test]
fn an_interrupted_sweep_to_standard_output_ends_with_whole_rows() {
    let place = Place::new();
    let child = start_long(&place, 400, &[]);
    std::thread::sleep(Duration::from_millis(700));
    signal(&child, "-TERM");
    let out = child.wait_with_output().expect("it ends");
    assert_eq!(out.status.code(), Some(4));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.is_empty() || text.ends_with('\n'));
    let rows = cells(&out.stdout);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
}

#[test]
fn a_finished_sweep_leaves_only_its_output_file() {
    let place = Place::new();
    place.forebay(&["sweep", "s.toml", "--output", "rows.csv"]).assert().success();
    assert_eq!(place.files(), ["rows.csv", "s.toml"]);
    let piped = place.forebay(&["sweep", "s.toml"]).assert().success();
    assert_eq!(place.read("rows.csv"), piped.get_output().stdout);
}

#[test]
fn sweep_columns_are_selected_by_name_and_unknown_columns_are_refused() {
    let place = Place::new();
    let chosen = ["sweep", "s.toml", "--columns", "makespan,step_time"];
    let rows = cells(&place.forebay(&chosen).assert().success().get_output().stdout);
    let expected = [
        "job.loader.tf-queue.threads",
        "job.batch_interval",
        "job",
        "makespan",
        "makespan_lo",
        "makespan_hi",
        "step_time",
        "step_time_lo",
        "step_time_hi",
    ];
    assert_eq!(rows[0], expected);
    assert!(rows[1..].iter().all(|row| row.len() == expected.len()));
    let out = place.forebay(&["sweep", "s.toml", "--columns", "step_tme"]).assert().code(2);
    let said = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
    assert!(said.contains("did you mean `step_time`?"), "{said}");
}

#[test]
fn the_column_too_short_has_the_words_of_the_report() {
    // System: a few steps, fewer than the loaders hold, and many. Expectation: the column says what the report of that run says,
    // and is empty for the long run.
    let place = Place::new();
    let scenario = SCENARIO.split("[sweep]").next().expect("the part before");
    place.write("s.toml", scenario);
    let set = ["--set", "job.loader.tf-queue.threads=4", "--set", "job.batch_interval=2"];
    let sweep = ["sweep", "s.toml", "--columns", "too_short", "--vary", "run.steps=[4, 400]"];
    let rows =
        cells(&place.forebay(&[&sweep[..], &set].concat()).assert().success().get_output().stdout);
    for (row, steps) in rows[1..].iter().zip(["4", "400"]) {
        let steps = format!("run.steps={steps}");
        let run = ["run", "s.toml", "--format", "json", "--verdict", "quick", "--set", &steps];
        let out = place.forebay(&[&run[..], &set].concat()).assert().success();
        let report: serde_json::Value =
            serde_json::from_slice(&out.get_output().stdout).expect("JSON");
        let why = report["jobs"][0]["length"]["why"].as_str().unwrap_or_default();
        assert_eq!(row.last().map(String::as_str), Some(why), "{steps}");
    }
    let last: Vec<bool> = rows[1..].iter().filter_map(|row| Some(row.last()?.is_empty())).collect();
    assert_eq!(last, [false, true], "{rows:?}");
}

#[test]
fn sweep_and_plot_say_which_points_were_too_short() {
    // System: two numbers of steps, of which one is too few, swept and drawn. Expectation: a count on standard error, none with
    // `--quiet`; a hollow dot in the figure, and a note on it.
    let place = Place::new();
    let scenario = SCENARIO.split("[sweep]").next().expect("the part before");
    place.write(
        "s.toml",
        &scenario
            .replace("threads = 2", "threads = 4")
            .replace("batch_interval = 1", "batch_interval = 2"),
    );
    let sweep = ["sweep", "s.toml", "--vary", "run.steps=[4, 400]", "-o", "rows.csv"];
    let said = |arguments: &[&str]| {
        let out = place.forebay(arguments).assert().success();
        String::from_utf8_lossy(&out.get_output().stderr).into_owned()
    };
    let words = "1 of 2 points ran too short to show the long run: the column `too_short` says why";
    assert!(said(&sweep).contains(words));
    assert!(!said(&[&sweep[..], &["--quiet"]].concat()).contains("too short"));
    place.write("r.toml", "x = \"run.steps\"\ny = [\"step_time\"]\n[data]\ncsv = \"rows.csv\"\n");
    said(&["plot", "r.toml"]);
    let figure = String::from_utf8_lossy(&place.read("r.svg")).into_owned();
    assert!(figure.contains("\nrun too short to show the long run\n"), "{figure}");
    let rows = String::from_utf8_lossy(&place.read("rows.csv")).into_owned();
    let kept: Vec<&str> = rows.lines().filter(|row| !row.starts_with("4,")).collect();
    place.write("rows.csv", &(kept.join("\n") + "\n"));
    said(&["plot", "r.toml"]);
    assert!(!String::from_utf8_lossy(&place.read("r.svg")).contains("Hollow"), "{rows}");
}

#[test]
fn a_sweep_says_at_its_start_that_failures_are_too_rare_for_its_runs() {
    let place = Place::new();
    let scenario =
        SCENARIO.replace("steps = 20\n", "most = 20000\n").replace("warm_up = \"off\"\n", "");
    place.write(
        "s.toml",
        &scenario.replace(
            "[job.model]",
            "[job.failures]\nmtbf = \"720 h\"\nrestart = \"2 min\"\n[job.model]",
        ),
    );
    let out = place.forebay(&["sweep", "s.toml", "--vary", "job.batch=[8, 16]"]).assert().success();
    let said = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
    assert!(said.contains("Nodes of `lenet` fail too seldom for this run"), "{said}");
    assert!(said.contains("ends after 20,000 events"), "{said}");
}

#[test]
fn an_unknown_column_is_reported_before_the_scenario_is_read() {
    let place = Place::new();
    place.write("base.toml", "name = \"without a sweep\"\n");
    let out = place.forebay(&["sweep", "base.toml", "--columns", "foo"]).assert().code(2);
    let said = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
    assert!(said.contains("a sweep has no column `foo`"), "{said}");
}
