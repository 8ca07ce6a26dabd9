//! Figures by recipe.

use crate::support::Place;
use forebay::plot::{Panel, Recipe, Table, build};

const ROWS: &str = "\
threads,interval,job,step_time,step_time_lo,step_time_hi,note
1,1,lenet,0.1,0.09,0.11,a
1,2,lenet,0.05,0.04,0.06,a
1,4,lenet,0.025,0.02,0.03,b
2,1,lenet,0.05,0.045,0.055,b
2,2,lenet,0.025,0.02,0.03,c
2,4,lenet,,,,c
";

const RECIPE: &str = r#"title = "Step time"
x = "interval"
y = ["step_time"]
group = "threads"
x_scale = "log"
y_scale = "log"
band = true
[data]
csv = "rows.csv"
[[line]]
x = 3
label = "knee"
"#;

fn place() -> Place {
    let place = Place::new();
    place.write("rows.csv", ROWS);
    place.write("r.toml", RECIPE);
    place
}

/// What a recipe that differs in `from` is told.
fn refused(from: &str, to: &str) -> String {
    let place = place();
    assert!(RECIPE.contains(from));
    place.write("r.toml", &RECIPE.replace(from, to));
    let out = place.forebay(&["plot", "r.toml"]).assert().code(2);
    assert!(!place.path("r.svg").exists());
    String::from_utf8_lossy(&out.get_output().stderr).into_owned()
}

#[test]
fn a_recipe_gives_svg_and_png_of_the_same_bytes_each_time() {
    let place = place();
    let draw = |directory: &str| {
        let arguments = ["plot", "r.toml", "--format", "both", "--output", directory];
        place.forebay(&arguments).assert().success();
        let read = |kind: &str| place.read(&format!("{directory}/r.{kind}"));
        (read("svg"), read("png"))
    };
    let (svg, png) = draw("a");
    assert_eq!((svg.clone(), png.clone()), draw("b/c"));
    let text = String::from_utf8_lossy(&svg).into_owned();
    for words in ["Step time", "Interval", "Threads", "knee", "100 ms"] {
        assert!(text.contains(words), "{words}");
    }
    assert!(!text.contains("NaN") && !text.contains("inf"));
    assert!(png.starts_with(b"\x89PNG"));
}

#[test]
fn figures_lie_beside_their_recipes() {
    let place = place();
    place.forebay(&["plot", "r.toml"]).assert().success();
    assert!(place.path("r.svg").exists() && !place.path("r.png").exists());
}

#[test]
fn swept_tables_are_named_by_their_kind() {
    // System: rows of a sweep over loaders, which are tables. Expectation: the legend has their kinds, and
    // a filter by kind lets only that through; two tables of one kind are told apart in full.
    let rows = |second: &str| {
        let row = |loader: &str, y: &str| format!("\"{}\",1,{y}\n", loader.replace('"', "\"\""));
        let one = row("{ \"keras\" = { \"workers\" = 1 } }", "3");
        format!("loader,x,y\n{one}{}", row(second, "7"))
    };
    let drawn = |rows: String, filter: &str| {
        let place = place();
        place.write("rows.csv", &rows);
        let recipe = "x = \"x\"\ny = [\"y\"]\ngroup = \"loader\"\n[data]\ncsv = \"rows.csv\"\n";
        place.write("r.toml", &format!("{recipe}{filter}"));
        place.forebay(&["plot", "r.toml"]).assert().success();
        String::from_utf8_lossy(&place.read("r.svg")).into_owned()
    };
    let pytorch = "{ \"pytorch\" = { \"workers\" = 24 } }";
    let both = drawn(rows(pytorch), "");
    assert!(both.contains("\nkeras\n") && both.contains("\npytorch\n"), "{both}");
    let named = drawn(
        rows(pytorch),
        "[labels]\nkeras = \"slow\"\n\"{ pytorch = { workers = 24 } }\" = \"fast\"\n",
    );
    assert!(named.contains("\nslow\n") && named.contains("\nfast\n"), "{named}");
    let one = drawn(rows(pytorch), "[filter]\nloader = \"pytorch\"\n");
    assert!(!one.contains("keras") && one != both, "{one}");
    let alike = drawn(rows("{ \"keras\" = { \"workers\" = 2 } }"), "");
    assert!(alike.contains("workers"), "{alike}");
}

#[test]
fn unknown_keys_are_refused_with_their_place() {
    let message = refused("band = true", "bend = true");
    assert!(message.starts_with("forebay: cannot use r.toml:7:1"), "{message}");
    assert!(message.contains("bend"), "{message}");
}

#[test]
fn missing_columns_are_named_with_those_that_exist() {
    let message = refused("y = [\"step_time\"]", "y = [\"steptime\"]");
    assert!(message.starts_with("forebay: cannot use r.toml:3:6"), "{message}");
    assert!(message.contains("did you mean \"step_time\""), "{message}");
    assert!(message.contains("threads, interval, job"), "{message}");
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let message = refused("y = [\"step_time\"]", "y = [\"note\"]");
    assert!(message.contains("\"note\" is not numbers"), "{message}");
    let message = refused("[data]", "filter = { job = \"nobody\" }\n[data]");
    assert!(message.contains("no rows"), "{message}");
    let message = refused("csv = \"rows.csv\"", "csv = \"missing.csv\"");
    assert!(message.contains("cannot read missing.csv"), "{message}");
    let message = refused("csv = \"rows.csv\"", "scenario = \"s.toml\"\ncsv = \"rows.csv\"");
    assert!(message.contains("[data]"), "{message}");
    let message = refused("y = [\"step_time\"]", "");
    assert!(message.contains("[[panel]]"), "{message}");
    let message = refused("label = \"knee\"", "y = 3");
    assert!(message.contains("[[line]]"), "{message}");
}

#[test]
fn labels_of_values_that_there_are_not_are_refused() {
    let message = refused("[data]", "labels = { 2 = \"two\", 3 = \"three\" }\n[data]");
    assert!(message.starts_with("forebay: cannot use r.toml:8:"), "{message}");
    assert!(message.contains("no value \"3\" to call so; there are 1, 2"), "{message}");
}

#[test]
fn rows_without_usable_values_are_said() {
    for rows in ["interval,threads,step_time\n1,1,\n", "interval,threads,step_time\n1,1,0\n"] {
        let place = place();
        place.write("rows.csv", rows);
        place.write("r.toml", &RECIPE.replace("band = true", "band = false"));
        let out = place.forebay(&["plot", "r.toml"]).assert().code(2);
        let message = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
        assert!(message.contains("no usable values for the axis \"Step time\""), "{message}");
    }
    for rows in ["", "interval,threads,step_time\n", "interval,threads\n1\n", "\u{0}"] {
        let place = place();
        place.write("rows.csv", rows);
        place.forebay(&["plot", "r.toml"]).assert().code(2);
    }
}

#[test]
fn extreme_values_do_no_harm() {
    let rows = "interval,threads,step_time\n1e-300,1,1e300\n1e300,1,1e-300\nnan,2,inf\n5,2,-1e308\n6,2,1e308\n";
    for scale in ["linear", "log"] {
        let place = place();
        place.write("rows.csv", rows);
        let recipe = RECIPE
            .replace("band = true", "band = false")
            .replace("\"log\"", &format!("\"{scale}\""));
        place.write("r.toml", &recipe);
        let out = place.forebay(&["plot", "r.toml", "--format", "both"]).assert();
        let message = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
        assert!(!message.contains("panicked"), "{message}");
        assert!(matches!(out.get_output().status.code(), Some(0 | 2)), "{message}");
    }
}

#[test]
fn data_may_come_from_a_sweep_or_from_a_run_over_time() {
    let place = place();
    let sweep = RECIPE
        .replace("csv = \"rows.csv\"", "scenario = \"s.toml\"\nset = [\"run.replications=1\"]")
        .replace("x = \"interval\"", "x = \"job.batch_interval\"")
        .replace("\"threads\"", "\"job.loader.tf-queue.threads\"")
        .replace("band = true", "");
    place.write("swept.toml", &sweep);
    let series = "x = \"time\"\ny = [\"step_time\"]\n[data]\nscenario = \"s.toml\"\nseries = true\n\
                  points = 8\n";
    place.write("series.toml", series);
    place.forebay(&["plot", "swept.toml", "series.toml"]).assert().success();
    assert!(place.path("swept.svg").exists() && place.path("series.svg").exists());
}

#[test]
fn rows_of_a_sweep_can_be_drawn_from_its_file() {
    let place = place();
    place.forebay(&["sweep", "s.toml", "--output", "swept.csv"]).assert().success();
    place.write("r.toml", "x = \"job.batch_interval\"\ny = [\"step_time\"]\nband = true\n");
    place.forebay(&["plot", "r.toml"]).assert().code(2);
    place.forebay(&["plot", "r.toml", "--data", "swept.csv"]).assert().success();
}

#[test]
fn a_pipe_that_nobody_writes_to_is_refused_not_waited_for() {
    let place = place();
    let made = std::process::Command::new("mkfifo").arg(place.path("pipe")).status();
    assert!(made.is_ok_and(|status| status.success()));
    place.write("r.toml", "x = \"a\"\ny = [\"b\"]\n");
    for arguments in [
        &["plot", "pipe"][..],
        &["plot", "/dev/zero"],
        &["plot", "r.toml", "--data", "pipe"],
        &["profile", "show", "pipe"],
        &["profile", "fit", "pipe"],
        &["calibrate", "--plan", "pipe"],
        &["import", "kineto", "pipe", "--batch", "1"],
    ] {
        let mut command = place.forebay(arguments);
        let assert = command.timeout(std::time::Duration::from_secs(30)).assert().code(2);
        let message = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(message.contains("is not a regular file"), "{arguments:?}: {message}");
        assert!(message.contains("name a file"), "{arguments:?}: {message}");
    }
}

#[test]
fn a_panel_may_draw_rows_of_its_own() {
    // System: rows of two jobs, a panel for each. Expectation: each draws its own job's line alone, on an axis of its own;
    // a panel that leaves no rows is refused.
    let rows = vec![["a", "1", "10"], ["a", "2", "20"], ["b", "3", "30"]];
    let rows = rows.into_iter().map(|row| row.map(str::to_owned).to_vec()).collect();
    let table = Table::new(["job", "x", "y"].map(str::to_owned).to_vec(), rows);
    let recipe = |last: &str| {
        let text = format!(
            "x = \"x\"\ngroup = \"job\"\n[[panel]]\ny = [\"y\"]\nfilter.job = \"a\"\n[[panel]]\ny = [\"y\"]\n\
             filter.job = \"{last}\"\n"
        );
        Recipe::parse("r.toml", &text).unwrap_or_else(|error| panic!("{error}"))
    };
    let figure = build(&recipe("b"), &table).unwrap_or_else(|error| panic!("{error}"));
    let lines: Vec<(String, Vec<f64>)> = figure
        .panels
        .iter()
        .map(|panel| {
            let Panel::Lines(lines) = panel else { panic!("lines") };
            assert_eq!(lines.series.len(), 1);
            let points = lines.series[0].points.iter().map(|point| point.x).collect();
            (lines.series[0].name.clone(), points)
        })
        .collect();
    assert_eq!(lines, [("a".to_owned(), vec![1.0, 2.0]), ("b".to_owned(), vec![3.0])]);
    let error = build(&recipe("c"), &table).map(|_| ()).expect_err("refused").to_string();
    assert!(error.contains("the filter leaves none"), "{error}");
}
