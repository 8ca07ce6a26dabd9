//! Styles of figures: lines, steps, points, bars, heat maps and fronts; labels at curves, keys, subtitles, themes.

use crate::support::Place;
use forebay::plot::{self, Figure, Heat, Lines, Panel, Recipe, Sign, Style, Table, Theme};

/// Rows of two loaders on three storages.
const STORAGES: &str = "\
storage,loader,busy,busy_lo,busy_hi
ssd,keras,0.1,0.08,0.12
nfs,keras,0.2,0.18,0.22
blob,keras,0.4,0.3,0.5
ssd,pytorch,0.8,0.7,0.9
nfs,pytorch,0.6,0.5,0.7
blob,pytorch,0.3,0.2,0.4
";

const BY_STORAGE: &str = "x = \"storage\"\ny = [\"busy\"]\ngroup = \"loader\"\n";

fn figure(recipe: &str, rows: &str) -> Result<Figure, String> {
    let recipe = Recipe::parse("r.toml", recipe).map_err(|error| error.to_string())?;
    let table = Table::read(rows.as_bytes()).map_err(|error| error.to_string())?;
    plot::build(&recipe, &table).map_err(|error| error.to_string())
}

fn panel(figure: &Figure) -> &Lines {
    match &figure.panels[0] {
        Panel::Lines(lines) => lines,
        Panel::Bars(_) | Panel::Heat(_) => panic!("a panel of bars in parts"),
    }
}

fn svg(figure: &Figure) -> String {
    plot::svg(figure).expect("a picture")
}

/// Returns how many SVG elements of this name have this colour.
fn parts(svg: &str, name: &str, colour: &str) -> usize {
    svg.lines()
        .filter(|line| line.starts_with(&format!("<{name}")) && line.contains(colour))
        .count()
}

#[test]
fn text_on_the_x_axis_gives_bars_and_numbers_give_lines_by_default() {
    // System: values by storage, and by number of workers. Expectation: no line connects storages, which have
    // no order.
    let bars = figure(BY_STORAGE, STORAGES).expect("bars");
    assert!(panel(&bars).series.iter().all(|series| series.style == Style::Bars));
    let picture = svg(&bars);
    assert_eq!(parts(&picture, "polyline", "#0072B2"), 0, "{picture}");
    // Three bars of each loader, and its sample in the legend.
    assert_eq!(parts(&picture, "polygon", "#0072B2"), 4, "{picture}");
    let lines = figure(&format!("{BY_STORAGE}style = \"lines\"\n"), STORAGES).expect("lines");
    assert!(parts(&svg(&lines), "polyline", "#0072B2") > 0);
    let rows = "workers,busy\n1,0.1\n2,0.2\n";
    let numbers = figure("x = \"workers\"\ny = [\"busy\"]\n", rows).expect("lines");
    assert_eq!(panel(&numbers).series[0].style, Style::Auto);
    let named = figure("x = \"workers\"\ny = [\"busy\"]\nstyle = \"bars\"\n", rows).expect("bars");
    assert_eq!(panel(&named).categories, ["1", "2"]);
}

#[test]
fn bars_start_at_zero_and_show_values_and_intervals() {
    // System: bars between 0.3 and 0.4 in a wide figure. Expectation: the axis begins at 0; each bar is
    // labelled with its value, and with `band` has a line from one end of the interval to the other, with two
    // caps.
    let rows = "storage,busy,busy_lo,busy_hi\na,0.35,0.3,0.4\nb,0.39,0.38,0.4\n";
    let recipe = "x = \"storage\"\ny = [\"busy\"]\ny_unit = \"share\"\n";
    let plain = svg(&figure(recipe, rows).expect("bars"));
    assert!(
        plain.contains("\n0\n") && plain.contains("\n35 %\n") && plain.contains("\n39 %\n"),
        "{plain}"
    );
    let banded = svg(&figure(&format!("{recipe}band = true\n"), rows).expect("bars"));
    let lines = |picture: &str| picture.matches("<polyline").count();
    // Two bars, and the sign in the key.
    assert_eq!(lines(&banded) - lines(&plain), 9);
    assert!(banded.contains("\n95 % interval\n"), "{banded}");
    // No area is shaded: bars have no line that it could surround.
    assert_eq!(banded.matches("<polygon").count(), plain.matches("<polygon").count());
}

#[test]
fn bars_on_a_logarithmic_axis_are_refused() {
    let recipe = format!("{BY_STORAGE}style = \"bars\"\ny_scale = \"log\"\n");
    let message = figure(&recipe, STORAGES).expect_err("no zero");
    assert!(message.contains("r.toml:4:9") && message.contains("bars begin at zero"), "{message}");
    let points = figure(&format!("{BY_STORAGE}y_scale = \"log\"\n"), STORAGES).expect("points");
    assert!(panel(&points).series.iter().all(|series| series.style == Style::Points));
}

#[test]
fn step_plots_hold_each_value_until_the_next_point() {
    // System: a distribution that rises from 0 to 1 between two x values. Expectation: a path with a corner
    // below the second point, unlike a straight line.
    let rows = "x,y\n0,0\n1,1\n";
    let draw = |style: &str| {
        svg(&figure(&format!("x = \"x\"\ny = [\"y\"]\nstyle = \"{style}\"\n"), rows)
            .expect("a curve"))
    };
    let path = |picture: &str| {
        let line =
            picture.lines().find(|line| line.contains("polyline") && line.contains("#0072B2"));
        let points = line.and_then(|line| line.split("points=\"").nth(1)).unwrap_or("");
        points.split('"').next().unwrap_or("").split_whitespace().map(str::to_owned).collect()
    };
    let (steps, line): (Vec<String>, Vec<String>) = (path(&draw("steps")), path(&draw("lines")));
    assert_eq!((steps.len(), line.len()), (3, 2), "{steps:?} {line:?}");
    let at = |place: &str| place.split_once(',').map(|(x, y)| (x.to_owned(), y.to_owned()));
    let (corner, first, last) = (at(&steps[1]), at(&steps[0]), at(&steps[2]));
    assert_eq!(corner.clone().map(|at| at.1), first.map(|at| at.1), "{steps:?}");
    assert_eq!(corner.map(|at| at.0), last.map(|at| at.0), "{steps:?}");
}

#[test]
fn line_plots_but_not_scatter_plots_refuse_several_values_at_one_x() {
    // System: a sweep over two keys, one of which the recipe names. Expectation: an error that names the other;
    // as points, or with a filter, the rows are drawn.
    let rows = "job.workers,job.batch,stall\n1,32,0.5\n1,64,0.6\n2,32,0.2\n2,64,0.3\n";
    let recipe = "x = \"job.workers\"\ny = [\"stall\"]\n";
    let message = figure(recipe, rows).expect_err("two values at each place");
    assert!(message.contains("`job.batch`") && message.contains("`filter`"), "{message}");
    for more in
        ["style = \"points\"\n", "group = \"job.batch\"\n", "[filter]\n\"job.batch\" = 32\n"]
    {
        let drawn = figure(&format!("{recipe}{more}"), rows);
        assert!(drawn.is_ok(), "{more}: {drawn:?}");
    }
}

#[test]
fn only_curves_that_end_far_apart_are_labelled_at_their_ends() {
    // System: two curves that end far from each other, and three that end at the same point; heights are in
    // tenths of pixels. Expectation: the first two are labelled beside their ends, at different heights; the
    // others have a legend with samples of their lines.
    let recipe = "x = \"x\"\ny = [\"y\"]\ngroup = \"of\"\n";
    let apart = "of,x,y\nlow,1,1\nlow,2,1\nhigh,1,1\nhigh,2,9\n";
    let bundle = "of,x,y\na,1,1\na,2,5\nb,1,2\nb,2,5\nc,1,3\nc,2,5\n";
    let height = |picture: &str, name: &str| -> f64 {
        let lines: Vec<&str> = picture.lines().collect();
        let at = lines.iter().position(|line| *line == name).expect("the name");
        let y = lines[at - 1].split(" y=\"").nth(1).and_then(|rest| rest.split('"').next());
        y.and_then(|y| y.parse().ok()).expect("a height")
    };
    let picture = svg(&figure(recipe, apart).expect("two curves"));
    assert!(height(&picture, "low") - height(&picture, "high") > 1000.0, "{picture}");
    let picture = svg(&figure(recipe, bundle).expect("three curves"));
    let pitch = height(&picture, "b") - height(&picture, "a");
    assert!((pitch - 170.0).abs() <= 10.0, "{pitch}");
}

#[test]
fn curves_that_end_together_in_one_panel_are_named_beside_another() {
    // System: three curves that end at the same point in the upper panel, and apart in the lower one. Expectation:
    // one name each, at the height of the lower panel.
    let rows = "of,x,y,z\na,1,1,1\na,2,5,1\nb,1,2,1\nb,2,5,5\nc,1,3,1\nc,2,5,9\n";
    let recipe = "x = \"x\"\ngroup = \"of\"\n[[panel]]\ny = [\"y\"]\n[[panel]]\ny = [\"z\"]\n";
    let picture = svg(&figure(recipe, rows).expect("two panels"));
    let height = |name: &str| -> f64 {
        let lines: Vec<&str> = picture.lines().collect();
        let named: Vec<usize> = (0..lines.len()).filter(|at| lines[*at] == name).collect();
        assert_eq!(named.len(), 1, "{name}: {picture}");
        let y = lines[named[0] - 1].split(" y=\"").nth(1).and_then(|rest| rest.split('"').next());
        y.and_then(|y| y.parse().ok()).expect("a height")
    };
    let heights = ["Y", "Z", "c", "b", "a"].map(height);
    assert!(heights.is_sorted(), "{heights:?}");
}

#[test]
fn an_automatic_theme_adds_the_dark_colours_for_dark_pages() {
    // System: a figure in all three themes. Expectation: the light figure, with a style sheet that replaces each
    // colour which the dark figure does not have by one that it has.
    let light = figure(BY_STORAGE, STORAGES).expect("bars");
    let [dark, auto] = [Theme::Dark, Theme::Auto].map(|theme| Figure { theme, ..light.clone() });
    let [light, dark, auto] = [&light, &dark, &auto].map(svg);
    let (head, rest) = auto.split_once("<style>").expect("a style sheet");
    let (style, body) = rest.split_once("</style>\n").expect("an end");
    assert_eq!(format!("{head}{body}"), light);
    assert!(style.contains("@media (prefers-color-scheme: dark)"), "{style}");
    let colours = |text: &str| -> Vec<String> {
        let after = text.split('#').skip(1).filter_map(|part| part.get(..6));
        after.map(str::to_owned).collect()
    };
    for (old, new) in colours(&light).into_iter().zip(colours(&dark)).filter(|(a, b)| a != b) {
        let rule = format!("=\"#{old}\"]{{fill:#{new}}}");
        assert!(style.contains(&rule), "{rule}: {style}");
    }
}

#[test]
fn a_subtitle_is_below_the_title_and_moves_the_plot_down() {
    let draw = |more: &str| {
        let recipe = format!("title = \"What is found\"\n{more}{BY_STORAGE}");
        svg(&figure(&recipe, STORAGES).expect("a picture"))
    };
    let (without, with) = (draw(""), draw("subtitle = \"How it was found\"\n"));
    assert!(with.contains("\nHow it was found\n") && !without.contains("How it was"), "{with}");
    let height = |picture: &str| -> u32 {
        let height = picture.split("height=\"").nth(1).and_then(|rest| rest.split('"').next());
        height.and_then(|height| height.parse().ok()).expect("a height")
    };
    assert_eq!(height(&with) - height(&without), 18);
}

#[test]
fn the_dark_theme_changes_only_colours() {
    let light = figure(BY_STORAGE, STORAGES).expect("bars");
    let dark = Figure { theme: Theme::Dark, ..light.clone() };
    let (light, dark) = (svg(&light), svg(&dark));
    assert!(light.contains("#FFFFFF") && !dark.contains("#FFFFFF"), "{dark}");
    let colourless = |picture: &str| {
        let colour = |part: &str| part.get(6..).unwrap_or("").to_owned();
        let mut parts = picture.split('#');
        let first = parts.next().unwrap_or("").to_owned();
        parts.fold(first, |text, part| text + &colour(part))
    };
    assert_eq!(colourless(&light), colourless(&dark));
}

#[test]
fn plot_accepts_a_theme_option() {
    let place = Place::new();
    place.write("rows.csv", STORAGES);
    place.write("r.toml", &format!("{BY_STORAGE}[data]\ncsv = \"rows.csv\"\n"));
    let draw = |theme: &str| {
        place.forebay(&["plot", "r.toml", "--theme", theme]).assert().success();
        place.read("r.svg")
    };
    assert_ne!(draw("light"), draw("dark"));
    place.forebay(&["plot", "r.toml", "--theme", "grey"]).assert().code(2);
}

/// Rows of two keys, one with a run that was too short and one without a value.
const GRID: &str = "\
job.workers,job.batch,stall,stall_lo,stall_hi,too_short
2,32,0.5,0.4,0.6,
10,32,0.25,0.2,0.3,
2,8,0.125,0.1,0.2,too few steps
10,8,,,,
";

const HEAT: &str =
    "x = \"job.workers\"\ngroup = \"job.batch\"\ny = [\"stall\"]\nstyle = \"heat\"\n";

fn heat(figure: &Figure) -> &Heat {
    match &figure.panels[0] {
        Panel::Heat(heat) => heat,
        Panel::Bars(_) | Panel::Lines(_) => panic!("no heat map"),
    }
}

/// Returns the signs in the key of a figure.
fn signs(figure: &Figure) -> Vec<Sign> {
    figure.key.iter().map(|key| key.sign).collect()
}

#[test]
fn heat_maps_order_numbers_and_mark_missing_values_and_short_runs() {
    // System: two keys with two numeric values each, neither in order. Expectation: columns grow to the right and rows upwards; each
    // value is in its cell; the cells without a value and of the run that was too short have signs in the key, in words.
    let drawn = figure(HEAT, GRID).expect("a heat map");
    let map = heat(&drawn);
    assert_eq!((map.columns.join(" "), map.rows.join(" ")), ("2 10".into(), "32 8".into()));
    let values: Vec<Option<f64>> =
        map.cells.iter().flatten().map(|cell| cell.as_ref().map(|cell| cell.value)).collect();
    assert_eq!(values, [Some(0.5), Some(0.25), Some(0.125), None]);
    let short = map.cells.iter().flatten().flatten().filter(|cell| cell.short);
    assert_eq!(short.map(|cell| cell.value).collect::<Vec<_>>(), [0.125]);
    assert_eq!(signs(&drawn), [Sign::Outlined, Sign::Hatched]);
    let picture = svg(&drawn);
    for words in ["50 %", "25 %", "13 %", "no value", "run too short to show the long run", "Batch"]
    {
        assert!(picture.contains(&format!("\n{words}\n")), "{words}: {picture}");
    }
    let names = figure(HEAT, &GRID.replace("2,", "b,").replace("10,", "a,")).expect("a heat map");
    assert_eq!(heat(&names).columns, ["b", "a"]);
}

#[test]
fn heat_maps_that_cannot_be_drawn_are_refused_with_line_and_remedy() {
    let more = |more: &str| format!("{HEAT}{more}");
    for (recipe, place, words) in [
        (HEAT.replace("group = \"job.batch\"\n", ""), "r.toml:3:9", "write it as `group`"),
        (
            HEAT.replace("[\"stall\"]", "[\"stall\", \"stall_lo\"]"),
            "r.toml:3:15",
            "write a [[panel]] for each",
        ),
        (more("band = true\n"), "r.toml:5:8", "leave it out"),
        (more("x_range = [0, 1]\n"), "r.toml:5:11", "leave it out"),
        (more("[[line]]\ny = 1\n"), "r.toml:6:5", "leave the [[line]] out"),
        (more("x_better = \"lower\"\n"), "r.toml:5:12", "write `style = \"pareto\"`"),
        (more("names = [\"job.batch\"]\n"), "r.toml:5:10", "write `style = \"pareto\"`"),
        (more("interval = \"range\"\n"), "r.toml:5:12", "`band = true`"),
        (HEAT.replace("[\"stall\"]", "[\"too_short\"]"), "r.toml:3:6", "does not hold numbers"),
    ] {
        let message = figure(&recipe, GRID).expect_err("refused");
        assert!(message.contains(&format!("cannot use {place}: ")), "{place}: {message}");
        assert!(message.contains(words) && message.lines().count() == 1, "{words}: {message}");
    }
    let twice = format!("{GRID}10,8,0.5,0.4,0.6,\n").replace("job.batch,", "job.batch,job.nodes,");
    let twice: String = (twice.lines().enumerate())
        .map(|(row, line)| match row {
            0 => format!("{line}\n"),
            _ => format!(
                "{}\n",
                line.replacen(",8,", &format!(",8,{row},"), 1).replacen(",32,", ",32,1,", 1)
            ),
        })
        .collect();
    let message = figure(HEAT, &twice).expect_err("two values for a cell");
    assert!(message.contains("`job.nodes`") && message.contains("`filter`"), "{message}");
}

/// Rows of purchases: the second one is beaten by the first, and the last one by none, but its run was too short.
const PURCHASES: &str = "\
storage.disk,job.nodes,cost_per_month,samples_per_second,samples_per_second_lo,samples_per_second_hi,too_short
2 GB/s,1,100,50,45,55,
1 GB/s,2,150,40,38,42,
1 GB/s,3,200,90,80,99,
1 GB/s,4,300,200,150,250,too few steps
";

const PARETO: &str = "x = \"cost_per_month\"\ny = [\"samples_per_second\"]\nstyle = \"pareto\"\n";

#[test]
fn a_front_has_the_points_that_none_beats_and_names_them() {
    // System: cost, which is better low, against throughput, which is better high. Expectation: the front has the points that none
    // beats in both and that ran long enough, named by their swept keys; axes and key say what they show.
    let drawn = figure(&format!("{PARETO}band = true\n"), PURCHASES).expect("a front");
    let lines = panel(&drawn);
    let front = lines.series.iter().find(|series| series.style == Style::Front);
    let front = front.map(|front| front.points.iter().map(|point| point.x).collect());
    assert_eq!(front, Some(vec![100.0, 200.0]));
    let labels: Vec<&str> = lines.labels.iter().map(|label| label.text.as_str()).collect();
    assert_eq!(labels, ["2 GB/s, nodes 1", "1 GB/s, nodes 3"]);
    assert!(lines.x.label.ends_with("(lower is better)"), "{}", lines.x.label);
    assert!(lines.y.label.ends_with("(higher is better)"), "{}", lines.y.label);
    assert_eq!(signs(&drawn), [Sign::Front, Sign::Whisker, Sign::Hollow]);
    let picture = svg(&drawn);
    for words in ["2 GB/s, nodes 1", "1 GB/s, nodes 3", "front: no other point is better in both"] {
        assert!(picture.contains(&format!("\n{words}\n")), "{words}: {picture}");
    }
    assert!(!picture.contains("nodes 2"), "{picture}");
    let other = format!("{PARETO}x_better = \"higher\"\nnames = [\"job.nodes\"]\n");
    let other = figure(&other, PURCHASES).expect("a front");
    let labels: Vec<&str> = panel(&other).labels.iter().map(|of| of.text.as_str()).collect();
    assert_eq!(labels, ["nodes 3"]);
}

#[test]
fn fronts_that_cannot_be_drawn_are_refused_with_line_and_remedy() {
    let x = |column: &str| PARETO.replace("cost_per_month", column);
    for (recipe, place, words) in [
        (x("job.nodes"), "r.toml:1:5", "write `x_better = \"lower\"`"),
        (x("job.node"), "r.toml:1:5", "did you mean \"job.nodes\""),
        (x("too_short"), "r.toml:1:5", "a front needs numbers on both axes"),
        (
            PARETO.replace("cond\"]", "cond\", \"job.nodes\"]"),
            "r.toml:2:28",
            "write a [[panel]] for each",
        ),
        (format!("{PARETO}names = [\"disk\"]\n"), "r.toml:4:10", "there is no column \"disk\""),
        (format!("{PARETO}x_better = \"less\"\n"), "r.toml:4:12", "lower"),
    ] {
        let message = figure(&recipe, PURCHASES).expect_err("refused");
        assert!(message.contains(place) && message.contains(words), "{words}: {message}");
    }
}

#[test]
fn values_of_runs_that_were_too_short_are_drawn_apart_and_the_key_says_so() {
    // System: rows, one of which was too short, in three styles. Expectation: one point is marked, and the key has its sign with
    // words; without such a row there is no key.
    let words = "run too short to show the long run";
    for (style, sign) in [("lines", Sign::Hollow), ("points", Sign::Hollow), ("bars", Sign::Pale)] {
        let recipe =
            format!("x = \"job.nodes\"\ny = [\"samples_per_second\"]\nstyle = \"{style}\"\n");
        let drawn = figure(&recipe, PURCHASES).expect("a figure");
        let points = panel(&drawn).series.iter().flat_map(|series| &series.points);
        assert_eq!(points.filter(|point| point.short).count(), 1, "{style}");
        assert_eq!(signs(&drawn), [sign]);
        let long = figure(&recipe, &PURCHASES.replace("too few steps", "")).expect("a figure");
        assert!(long.key.is_empty());
        let [with, without] = [&drawn, &long].map(svg);
        assert!(with.contains(&format!("\n{words}\n")) && !without.contains(words), "{with}");
    }
}

#[test]
fn a_recipe_may_vary_keys_beside_those_of_the_scenario() {
    let place = Place::new();
    let recipe = "x = \"job.batch_interval\"\ngroup = \"job.batch\"\ny = [\"stall\"]\nstyle = \"heat\"\n[data]\n\
                  scenario = \"s.toml\"\nvary = [\"job.batch=[8, 16]\"]\n\
                  set = [\"run.replications=1\", \"job.loader.tf-queue.threads=2\"]\n[filter]\n\
                  \"job.loader.tf-queue.threads\" = 2\n";
    place.write("r.toml", recipe);
    place.forebay(&["plot", "r.toml"]).assert().success();
    let picture = String::from_utf8_lossy(&place.read("r.svg")).into_owned();
    assert!(picture.contains("\n8\n") && picture.contains("\n16\n"), "{picture}");
    place.write("r.toml", &recipe.replace("[8, 16]", "[]"));
    place.forebay(&["plot", "r.toml"]).assert().code(2);
    place.write("r.toml", &recipe.replace("[data]", "[data]\nseries = true"));
    let out = place.forebay(&["plot", "r.toml"]).assert().code(2);
    let message = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
    assert!(message.contains("[data] needs") && message.contains("`vary`"), "{message}");
}
