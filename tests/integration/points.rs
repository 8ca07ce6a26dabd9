//! Points of sweeps: keys that change together, ranges, drawn points, conditions, and points with the same scenario.

use crate::support::{Place, SCENARIO};
use std::collections::BTreeSet;

/// Returns the scenario with these lines as its `[sweep]`.
fn with_sweep(lines: &str) -> Place {
    let place = Place::new();
    let (before, _) = SCENARIO.split_once("[sweep]").expect("a sweep");
    place.write("s.toml", &format!("{before}[sweep]\n{lines}\n"));
    place
}

/// Returns the rows of a sweep, the header first; of the columns after the job only the step time.
fn rows(place: &Place, arguments: &[&str]) -> Vec<Vec<String>> {
    let all = [&["sweep", "s.toml", "--columns", "step_time"], arguments].concat();
    let out = place.forebay(&all).assert().success();
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).from_reader(&out.get_output().stdout[..]);
    reader.deserialize().map(|row| row.expect("cells")).collect()
}

/// Returns the first `keys` cells of each row after the header.
fn values(rows: &[Vec<String>], keys: usize) -> Vec<Vec<&str>> {
    rows[1..].iter().map(|row| row[..keys].iter().map(String::as_str).collect()).collect()
}

fn refused(place: &Place, arguments: &[&str]) -> String {
    let out = place.forebay(&[&["sweep", "s.toml"], arguments].concat()).assert().code(2);
    String::from_utf8_lossy(&out.get_output().stderr).into_owned()
}

#[test]
fn keys_in_one_line_of_a_sweep_change_together() {
    let place = with_sweep("\"job.batch, job.loader.tf-queue.threads\" = [[8, 1], [16, 4]]");
    let found = rows(&place, &[]);
    assert_eq!(found[0][..3], ["job.batch", "job.loader.tf-queue.threads", "job"]);
    assert_eq!(values(&found, 2), [["8", "1"], ["16", "4"]]);
    let option = "job.batch, job.loader.tf-queue.threads=[[8, 2], [16, 4], [32, 8]]";
    let (before, _) = SCENARIO.split_once("[sweep]").expect("a sweep");
    place.write("s.toml", before);
    let varied = rows(&place, &["--vary", option]);
    assert_eq!(values(&varied, 2), [["8", "2"], ["16", "4"], ["32", "8"]]);
    assert_eq!(varied[2][3..], found[2][3..], "the same point has the same figures");
    let said = refused(&place, &["--vary", "job.batch, job.batch_interval=[[8, 1], [16]]"]);
    assert!(said.contains("2 keys are swept together here"), "{said}");
    let twice = ["--vary", "job.batch=[8]", "--vary", "job.batch, job.batch_interval=[[8, 1]]"];
    assert!(refused(&place, &twice).contains("`job.batch` is swept twice"));
}

#[test]
fn a_range_with_steps_gives_values_from_end_to_end() {
    let place = with_sweep(
        "\"job.batch\" = { from = 4, to = 64, steps = 5, scale = \"log\" }\n\
         \"storage.disk.file-server.bandwidth\" = { from = \"500 MB/s\", to = \"1 GB/s\", steps = 3 }",
    );
    let found = rows(&place, &[]);
    let column = |at: usize| {
        let all: BTreeSet<&str> = found[1..].iter().map(|row| row[at].as_str()).collect();
        all.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(column(0), ["16", "32", "4", "64", "8"]);
    assert_eq!(column(1), ["1000 MB/s", "500 MB/s", "750 MB/s"]);
    assert_eq!(found.len(), 16);
}

#[test]
fn points_are_drawn_from_all_ranges_together() {
    // System: 32 points from a whole number and two quantities, beside a list of two values. Expectation: every value of the list
    // with the same points; whole numbers stay whole; both halves of each range have as many points; another seed, other points; the
    // same seed, the same bytes.
    let lines = |sample: &str| {
        format!(
            "\"job.batch_interval\" = [1, 2]\n\"job.batch\" = {{ from = 1, to = 32 }}\n\
             \"job.loader.tf-queue.decode\" = {{ from = \"10 us\", to = \"1 ms\", scale = \"log\" }}\n\
             \"storage.disk.file-server.bandwidth\" = {{ from = \"1 GB/s\", to = \"9 GB/s\" }}\n\
             sample = {{ {sample} }}"
        )
    };
    for kind in ["sobol", "latin-hypercube"] {
        let place = with_sweep(&lines(&format!("{kind} = 32")));
        let found = rows(&place, &[]);
        assert_eq!(found.len(), 65);
        let points = values(&found, 4);
        assert_eq!(
            points[..32].iter().map(|of| &of[1..]).collect::<Vec<_>>(),
            points[32..].iter().map(|of| &of[1..]).collect::<Vec<_>>()
        );
        let number = |text: &str| {
            text.split(' ').next().unwrap_or_default().parse::<f64>().expect("a number")
        };
        for (at, middle) in [(1, 16.5), (2, 100.0), (3, 5.0)] {
            let low = points[..32].iter().filter(|point| number(point[at]) < middle).count();
            assert_eq!(low, 16, "{kind}, range {at}: {points:?}");
        }
        assert!(points.iter().all(|point| number(point[1]).fract() == 0.0));
        assert_eq!(found, rows(&place, &["--threads", "1"]));
        let other = with_sweep(&lines(&format!("{kind} = 32, seed = 1")));
        assert_ne!(found, rows(&other, &[]), "{kind}");
    }
}

#[test]
fn a_key_with_a_condition_is_swept_only_where_it_holds() {
    let place = with_sweep(
        "\"job.loader.tf-queue.threads\" = [1, 2, 4]\n\
         \"job.batch_interval\" = { values = [2, 3], when = { \"job.loader.tf-queue.threads\" = [4] } }",
    );
    let found = rows(&place, &[]);
    assert_eq!(values(&found, 2), [["1", ""], ["2", ""], ["4", "2"], ["4", "3"]]);
    for (lines, words) in [
        (
            "{ values = [2], when = { \"job.batch\" = [4] } }",
            "`job.batch` is not swept in a line above",
        ),
        ("{ values = [2], when = { \"job.loader.tf-queue.threads\" = [5] } }", "never is 5"),
        ("{ values = [2], when = {} }", "names no key"),
        (
            "{ values = [], when = { \"job.loader.tf-queue.threads\" = [4] } }",
            "write 1 to 100000 values",
        ),
        (
            "{ values = [2], wehn = { \"job.loader.tf-queue.threads\" = [4] } }",
            "`wehn` is not known here",
        ),
    ] {
        let place = with_sweep(&format!(
            "\"job.loader.tf-queue.threads\" = [1, 4]\n\"job.batch_interval\" = {lines}"
        ));
        let said = refused(&place, &[]);
        assert!(said.contains(words), "{lines}: {said}");
    }
}

#[test]
fn ranges_that_mean_nothing_are_refused_at_their_place() {
    for (lines, words) in [
        ("\"job.batch\" = { from = 1, to = 32 }", "does not say how many values"),
        ("sample = { sobol = 8 }", "there is no range to draw from"),
        ("\"job.batch\" = { from = 32, to = 1, steps = 2 }", "ends before it begins"),
        ("\"job.batch\" = { from = 0, to = 8, steps = 2, scale = \"log\" }", "begins above 0"),
        ("\"job.batch\" = { from = 1, steps = 2 }", "`to` is missing"),
        ("\"job.batch\" = { from = 1, to = 8, steps = 1 }", "a whole number from 2 to 100000"),
        ("\"job.batch\" = { from = 1, to = 8, stpes = 2 }", "`stpes` is not known here"),
        ("\"job.batch\" = { from = 1, to = 8, steps = 2, scale = \"cubic\" }", "this is no scale"),
        ("\"job.batch\" = { from = 1, to = \"8 samples\", steps = 2 }", "units of different kinds"),
        ("\"job.batch\" = { from = \"1 s\", to = \"8 s\", steps = 2 }", "job.batch"),
        (
            "\"job.batch\" = { from = \"1 s\", to = \"8 GB\", steps = 2 }",
            "units of different kinds",
        ),
        ("\"job.btch\" = { from = 1, to = 8, steps = 2 }", "did you mean `batch`"),
        (
            "\"job.batch\" = { from = 1, to = 8 }\nsample = { sobol = 70000 }",
            "a whole number from 1 to 65536",
        ),
        (
            "\"job.batch\" = { from = 1, to = 8 }\nsample = { halton = 8 }",
            "`halton` is not known here",
        ),
        ("\"job.batch\" = { from = 1, to = 8 }\nsample = 8", "a table is expected"),
        ("\"job.batch\" = { from = -1, to = 8, steps = 3 }", "job.batch"),
    ] {
        let said = refused(&with_sweep(lines), &[]);
        assert!(said.contains(words) && said.contains("s.toml:"), "{lines}: {said}");
    }
}

#[test]
fn points_with_the_same_scenario_are_run_once_and_have_a_row_each() {
    // System: the same time written in three ways, and two other values. Expectation: a row for each, with the value as written, on
    // standard output and in a file. That they are run once is tested in `commands::sweep`.
    let place = with_sweep(
        "\"job.loader.tf-queue.decode\" = [\"4 ms\", \"2 ms\", \"4000 us\", \"0.004 s\", \"3 ms\"]",
    );
    let found = rows(&place, &[]);
    assert_eq!(values(&found, 1).concat(), ["4 ms", "2 ms", "4000 us", "0.004 s", "3 ms"]);
    assert_eq!(found[1][1..], found[3][1..]);
    assert_eq!(found[1][1..], found[4][1..]);
    assert_ne!(found[1][1..], found[2][1..]);
    for threads in ["1", "2"] {
        let to = format!("rows-{threads}.csv");
        place
            .forebay(&[
                "sweep",
                "s.toml",
                "--columns",
                "step_time",
                "--threads",
                threads,
                "--output",
                &to,
            ])
            .assert()
            .success();
        let text = String::from_utf8_lossy(&place.read(&to)).into_owned();
        let expected: Vec<String> = found.iter().map(|row| row.join(",")).collect();
        assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{threads} threads");
    }
}

#[test]
fn a_sweep_with_uncertainty_has_the_intervals_of_runs_with_uncertainty() {
    // System: decoding with a calibrated cost, at two batch sizes. Expectation: the ends of step time's interval at each point are those
    // that `run --uncertainty` gives for it; the same in two shards.
    let place = Place::new();
    let scenario = crate::runs::repository("scenarios/calibrated-loader.toml");
    let scenario = scenario.to_str().expect("a path");
    let sweep = [
        "sweep",
        scenario,
        "--vary",
        "job.batch=[16, 32]",
        "--vary",
        "job.loader.tf-queue.threads=[2]",
        "--set",
        "run.steps=60",
        "--set",
        "run.warm_up=10",
        "--uncertainty",
        "20",
    ];
    let columns = ["--columns", "step_time", "--format", "json"];
    let out = place.forebay(&[&sweep[..], &columns].concat()).assert().success();
    let rows: serde_json::Value = serde_json::from_slice(&out.get_output().stdout).expect("JSON");
    for (row, batch) in rows.as_array().expect("rows").iter().zip(["16", "32"]) {
        let batch = format!("job.batch={batch}");
        let run = [
            "run",
            scenario,
            "--set",
            &batch,
            "--set",
            "run.steps=60",
            "--set",
            "run.warm_up=10",
            "--uncertainty",
            "20",
            "--format",
            "json",
        ];
        let out = place.forebay(&run).assert().success();
        let report: serde_json::Value =
            serde_json::from_slice(&out.get_output().stdout).expect("JSON");
        let step = &report["jobs"][0]["step_time"];
        assert_eq!(row["step_time"], step["mean"], "{step}");
        assert_eq!(
            [&row["step_time_lo"], &row["step_time_hi"]],
            [&step["prediction90"][0], &step["prediction90"][1]]
        );
        assert!(row["step_time_lo"].as_f64() < row["step_time_hi"].as_f64(), "{row}");
    }
    for shard in ["1/2", "2/2"] {
        place
            .forebay(&[&sweep[..], &["--shard", shard, "--output", "d"]].concat())
            .assert()
            .success();
    }
    let joined =
        place.forebay(&[&["sweep", "--collect", "d"][..], &columns].concat()).assert().success();
    assert_eq!(joined.get_output().stdout, out.get_output().stdout);
    let place = Place::new();
    assert!(refused(&place, &["--uncertainty", "20"]).contains("the scenario names no profile"));
}
