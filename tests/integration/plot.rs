//! Figures drawn from recipes.

use crate::support::Place;
use forebay::plot::{Lines, Panel, Recipe, Series, Table, build};

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

/// Returns the error message for the recipe with `from` replaced by `to`.
fn refused(from: &str, to: &str) -> String {
    let place = place();
    assert!(RECIPE.contains(from));
    place.write("r.toml", &RECIPE.replace(from, to));
    let out = place.forebay(&["plot", "r.toml"]).assert().code(2);
    assert!(!place.path("r.svg").exists());
    String::from_utf8_lossy(&out.get_output().stderr).into_owned()
}

#[test]
fn a_recipe_is_drawn_as_svg_and_png_reproducibly() {
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
fn figures_are_written_beside_their_recipes() {
    let place = place();
    place.forebay(&["plot", "r.toml"]).assert().success();
    assert!(place.path("r.svg").exists() && !place.path("r.png").exists());
}

#[test]
fn plot_legends_show_the_kind_of_a_swept_loader_instead_of_its_table() {
    // System: rows of a sweep over loaders, which are tables. Expectation: the legend has their kinds, and a
    // filter by kind keeps only the rows of this kind; two tables of one kind are written in full.
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
fn unknown_recipe_keys_are_refused_with_their_position() {
    let message = refused("band = true", "bend = true");
    assert!(message.starts_with("forebay: cannot use r.toml:7:1"), "{message}");
    assert!(message.contains("bend"), "{message}");
}

#[test]
fn missing_columns_are_refused_with_a_list_of_existing_columns() {
    let message = refused("y = [\"step_time\"]", "y = [\"steptime\"]");
    assert!(message.starts_with("forebay: cannot use r.toml:3:6"), "{message}");
    assert!(message.contains("did you mean \"step_time\""), "{message}");
    assert!(message.contains("threads, interval, job"), "{message}");
}

#[test]
fn recipes_with_non_numeric_columns_no_rows_or_no_data_file_are_refused() {
    let message = refused("y = [\"step_time\"]", "y = [\"note\"]");
    assert!(message.contains("\"note\" does not hold numbers"), "{message}");
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
fn labels_for_values_missing_in_the_data_are_refused() {
    let message = refused("[data]", "labels = { 2 = \"two\", 3 = \"three\" }\n[data]");
    assert!(message.starts_with("forebay: cannot use r.toml:8:"), "{message}");
    assert!(message.contains("no value \"3\" to rename; there are 1, 2"), "{message}");
}

#[test]
fn rows_without_usable_values_are_reported() {
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
fn plotting_infinite_nan_or_extreme_values_causes_no_panic() {
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
fn figures_are_drawn_from_sweeps_and_from_time_series_of_runs() {
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
fn figures_are_drawn_from_the_csv_file_of_a_sweep() {
    let place = place();
    place.forebay(&["sweep", "s.toml", "--output", "swept.csv"]).assert().success();
    let recipe = "x = \"job.batch_interval\"\ny = [\"step_time\"]\nband = true\n\
                  group = \"job.loader.tf-queue.threads\"\n";
    place.write("r.toml", recipe);
    place.forebay(&["plot", "r.toml"]).assert().code(2);
    place.forebay(&["plot", "r.toml", "--data", "swept.csv"]).assert().success();
}

#[test]
fn named_pipes_are_refused_without_blocking() {
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

/// Returns the lines of each panel of the figure of a recipe and rows, or the error message.
fn figure(recipe: &str, rows: &str) -> Result<Vec<Lines>, String> {
    let recipe = Recipe::parse("r.toml", recipe).map_err(|error| error.to_string())?;
    let table = Table::read(rows.as_bytes()).map_err(|error| error.to_string())?;
    let figure = build(&recipe, &table).map_err(|error| error.to_string())?;
    let lines = |panel| match panel {
        Panel::Lines(lines) => lines,
        Panel::Bars(_) | Panel::Heat(_) => panic!("lines"),
    };
    Ok(figure.panels.into_iter().map(lines).collect())
}

/// Returns names, colour indices and x positions of a panel's lines.
fn drawn(lines: &Lines) -> Vec<(&str, usize, Vec<f64>)> {
    let places = |series: &Series| series.points.iter().map(|point| point.x).collect();
    lines.series.iter().map(|of| (of.name.as_str(), of.index, places(of))).collect()
}

/// Returns a recipe with two panels of lines by job, the first for job "a" and the second for the jobs
/// `second`.
fn panels(second: &str) -> String {
    format!(
        "x = \"x\"\ngroup = \"job\"\n[[panel]]\ny = [\"y\"]\nfilter.job = \"a\"\n[[panel]]\ny = [\"y\"]\n\
         filter.job = {second}\n"
    )
}

#[test]
fn each_panel_may_filter_its_own_rows() {
    // System: rows of three jobs, a panel for the first and one for all but the second. Expectation: each panel
    // draws its own jobs' lines; a job has the same colour in both; the legend, which only the first panel
    // shows, has exactly the drawn jobs; a panel whose filter leaves no rows is refused with its filter.
    let rows = "job,x,y\na,1,10\na,2,20\nn,9,90\nb,3,30\n";
    let found = figure(&panels("[\"b\", \"a\"]"), rows).expect("a figure");
    assert_eq!(drawn(&found[0]), [("a", 0, vec![1.0, 2.0]), ("b", 1, vec![])]);
    assert_eq!(drawn(&found[1]), [("a", 0, vec![1.0, 2.0]), ("b", 1, vec![3.0])]);
    assert_eq!([&found[0], &found[1]].map(|of| of.legend_shown), [true, false]);
    let other = figure(&panels("\"b\""), rows).expect("a figure");
    assert_eq!(drawn(&other[0])[1], ("b", 1, vec![]));
    assert_eq!(drawn(&other[1]), [("b", 1, vec![3.0])]);
    let error = figure(&panels("\"c\""), rows).expect_err("refused");
    assert!(error.starts_with("cannot use r.toml:8:"), "{error}");
    let why = "no rows to draw in panel 2: the filter leaves none; `job` is a, b, n, and never c";
    assert!(error.contains(why), "{error}");
}

#[test]
fn stacked_panels_share_one_x_axis() {
    // System: x values that are names, different in each panel's rows; x values that are quantities, in another
    // unit in each panel. Expectation: an x position has the same name in both panels, that of the labels under
    // the last panel.
    for [a, b] in [["memory", "disk"], ["2 ms", "1 s"]] {
        let rows = format!("job,x,y\na,{a},10\nb,{b},20\nn,none,30\n");
        let found = figure(&panels("\"b\""), &rows).expect("a figure");
        for lines in &found {
            assert_eq!(lines.categories, [a, b]);
        }
        assert_eq!(drawn(&found[0])[0], ("a", 0, vec![0.0]));
        assert_eq!(drawn(&found[1])[0], ("b", 1, vec![1.0]));
    }
}

#[test]
fn loaders_of_one_kind_in_different_panels_get_different_legend_names() {
    // System: two loaders of one kind, one in each panel's rows. Expectation: two different names, not the kind
    // for both.
    let recipe = panels("\"b\"").replace("group = \"job\"", "group = \"loader\"");
    let row = |job: &str, workers: u32| {
        format!("{job},\"{{ \"\"keras\"\" = {{ \"\"workers\"\" = {workers} }} }}\",1,2\n")
    };
    let rows = format!("job,loader,x,y\n{}{}", row("a", 1), row("b", 2));
    let found = figure(&recipe, &rows).expect("a figure");
    let name = |panel: usize, line: usize| found[panel].series[line].name.as_str();
    assert!(name(0, 0).contains("= 1") && name(0, 1).contains("= 2"), "{}", name(0, 0));
    assert_eq!((name(0, 1), found[1].series[0].index), (name(1, 0), 1));
}

#[test]
fn all_errors_of_several_recipes_are_reported_at_once() {
    // System: a recipe with two unknown keys and a value of the wrong kind, a second one with two missing
    // columns, a label of a missing value and a line in a missing panel, and a third without its columns.
    // Expectation: each error is reported with its position and a remedy, and nothing is drawn.
    let place = place();
    place.write(
        "a.toml",
        &RECIPE.replace("band = true", "bend = true\ncolums = 2\nwidth = \"wide\""),
    );
    place.write("b.toml", "x = \"interval\"\n[data]\ncsv = \"rows.csv\"\n");
    let wrong = RECIPE
        .replace("x = \"interval\"", "x = \"intervall\"\nlabels = { 7 = \"seven\" }")
        .replace("[\"step_time\"]", "[\"step_tim\", \"step_time\"]")
        .replace("x = 3\n", "x = 3\npanel = 4\n");
    place.write("c.toml", &wrong);
    let said = |recipes: &[&str]| {
        let arguments = [&["plot"], recipes].concat();
        let out = place.forebay(&arguments).assert().code(2);
        String::from_utf8_lossy(&out.get_output().stderr).into_owned()
    };
    let message = said(&["a.toml", "b.toml", "r.toml"]);
    for part in [
        "cannot use a.toml:7:1: ",
        "did you mean `band`?",
        "cannot use a.toml:8:1: ",
        "did you mean `columns`?",
        "cannot use a.toml:9:9: ",
        "cannot use b.toml: say which columns to draw",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let message = said(&["c.toml"]);
    for part in [
        "c.toml:2:5: there is no column \"intervall\" (did you mean \"interval\"?)",
        "there is no column \"step_tim\"",
        "there is no value \"7\" to rename",
        "there is no such panel: they are 1 to 1",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(place.files().iter().filter(|name| name.ends_with("svg")).count(), 0);
}

#[test]
fn values_that_a_log_axis_cannot_show_are_reported_with_file_and_line() {
    // System: values that a logarithmic axis cannot show. Expectation: a message with the figure, the recipe's
    // line and a remedy.
    let place = place();
    place.write("rows.csv", "interval,threads,step_time\n1,1,0\n");
    place.write("r.toml", &RECIPE.replace("band = true", "band = false"));
    let out = place.forebay(&["plot", "r.toml"]).assert().code(2);
    let message = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
    assert!(message.starts_with("forebay: cannot draw r.svg: "), "{message}");
    assert!(message.contains("\"Step time\" (r.toml:3:6)"), "{message}");
    assert!(message.contains("a \"linear\" scale"), "{message}");
}

#[test]
fn all_errors_of_a_recipe_are_reported_in_file_order() {
    // System: a range in per cent, two missing columns, and a filter that leaves no rows. Expectation: all
    // errors at once, in file order, with rounded numbers.
    let rows = "x,stall,n\n1,0.99992886990282,a\n2,0.5,b\n";
    let recipe = "x = \"x\"\ny_range = [0, 350]\ny = [\"stall\", \"gone\"]\ngroup = \"missing\"\n\
                  [data]\ncsv = \"rows.csv\"\n";
    let error = figure(recipe, rows).expect_err("a recipe with three problems");
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 3, "{error}");
    let expected = "r.toml:2:11: `y_range = [0, 350]` would end at 35000 % and no value is above 100 %: shares are written \
                    as fractions of 1; write [0, 3.5]";
    assert!(lines[0].contains(expected), "{error}");
    assert!(lines[1].contains("r.toml:3:") && lines[1].contains("gone"), "{error}");
    assert!(lines[2].contains("r.toml:4:") && lines[2].contains("missing"), "{error}");
    let filtered = recipe.replace(", \"gone\"", "").replace("group = \"missing\"\n", "")
        + "[filter]\nn = \"c\"\n";
    let error = figure(&filtered, rows).expect_err("a recipe with two problems");
    assert!(error.contains("350") && error.contains("the filter leaves none"), "{error}");
}

#[test]
fn an_axis_range_of_0_to_100_for_fractions_is_refused_with_the_right_range() {
    let recipe = |range: &str| {
        format!("x = \"x\"\ny = [\"stall\"]\ny_range = {range}\n[data]\ncsv = \"rows.csv\"\n")
    };
    let rows = "x,stall\n1,0.25\n2,0.5\n";
    let error = figure(&recipe("[0, 100]"), rows).expect_err("refused");
    assert!(
        error.starts_with("cannot use r.toml:3:11: `y_range = [0, 100]` would end at 10000 %"),
        "{error}"
    );
    assert!(error.contains("write [0, 1], or `y_unit = \"number\"`"), "{error}");
    for range in ["[0, 1]", "[0, 1.5]", "[0.2, 0.6]"] {
        assert!(figure(&recipe(range), rows).is_ok(), "{range}");
    }
}

#[test]
fn too_many_lines_in_a_figure_are_refused_with_the_limit() {
    let rows: String = (0..300).map(|row| format!("{row},1,{row}\n")).collect();
    let recipe = "x = \"x\"\ny = [\"y\"]\ngroup = \"g\"\n[data]\ncsv = \"rows.csv\"\n";
    let error = figure(recipe, &format!("g,x,y\n{rows}")).expect_err("refused");
    assert!(
        error.starts_with("cannot use r.toml:3:9: 300 values give 300 lines, and at most 200"),
        "{error}"
    );
    assert!(error.contains("choose some of them by `filter`"), "{error}");
}

#[test]
fn drawing_time_grows_linearly_with_the_rows() {
    // System: 150,000 rows, each with an x value of its own, once numbers and once names. Expectation: a
    // figure; comparing every row with every other would take half a minute in a debug build.
    for name in ["", "a"] {
        let rows: String = (0..150_000).map(|row| format!("{name}{row},{}\n", row % 7)).collect();
        let recipe = "x = \"x\"\ny = [\"y\"]\n[data]\ncsv = \"rows.csv\"\n";
        let begin = std::time::Instant::now();
        let found = figure(recipe, &format!("x,y\n{rows}")).expect("a figure");
        assert_eq!(found[0].series[0].points.len(), 150_000);
        assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
    }
}

#[test]
fn escape_sequences_in_plotted_files_do_not_reach_the_terminal() {
    // System: column names, cells and recipes with terminal escape sequences. Expectation: messages show them
    // escaped.
    let place = place();
    place.write("rows.csv", "interval,\u{1b}[31mred\u{7},step_time\n1,2,\u{1b}]0;title\u{7}\n");
    place.write("r.toml", "x = \"nothing\"\ny = [\"step_time\"]\n[data]\ncsv = \"rows.csv\"\n");
    place.write("t.toml", "x = \"interval\"\ny = [\"step_time\"]\n\"\\u001b[2J\" = 1\n");
    place.write("u.toml", "x = \"interval\"\ny = [\"step_time\"] # \u{1b}[2J\n");
    let bench = place.path("deepbench.csv");
    place.write("deepbench.csv", "size,\u{1b}[2J\n1,\u{1b}[2J\n");
    place.write("plan.toml", "\"\\u001b[2J\" = 1\n");
    let bench = bench.display().to_string();
    for arguments in [
        &["plot", "r.toml"][..],
        &["plot", "t.toml"],
        &["plot", "u.toml"],
        &["calibrate", "--plan", "plan.toml"],
        &["import", "deepbench", &bench],
    ] {
        let out = place.forebay(arguments).assert().code(2);
        let message = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
        let raw = message.chars().any(|c| c.is_control() && c != '\n');
        assert!(!raw && !message.is_empty(), "{arguments:?}: {message:?}");
    }
}

#[test]
fn a_recipe_that_is_not_toml_is_reported_once_with_help_as_a_scenario_is() {
    let place = place();
    place.write("bad.toml", "title = \"unfinished\nx = 1\n");
    let out = place.forebay(&["plot", "bad.toml"]).assert().code(2);
    let plot = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
    let out = place.forebay(&["run", "bad.toml"]).assert().code(2);
    assert_eq!(plot, String::from_utf8_lossy(&out.get_output().stderr));
    assert!(plot.starts_with("error: this is not TOML") && plot.contains("help: "), "{plot}");
    assert_eq!(plot.matches("basic string").count(), 1, "{plot}");
}
