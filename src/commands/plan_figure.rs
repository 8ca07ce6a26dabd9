//! The figure of `forebay plan`: the goal's figure over the values that were tried, the smallest pairs, or options by cost and speed.

use super::plan::{Planned, Row};
use crate::metric::{self, Unit as MetricUnit};
use crate::plan::{Choice, Figured};
use crate::plot::{AxisSpec, Figure, Lines, Mark, Panel, Point, Series, Style, Unit};
use crate::units;

/// Curves or options at most: more colours cannot be told apart.
const MOST: usize = 8;
/// Colour of lines that are no option.
const GREY: usize = 7;

/// Rows with options at most: each is a panel.
const PANELS: usize = 6;

/// Returns the figure, and what is left out of it; an error that says why there is nothing to draw.
pub(super) fn figure(of: &Planned) -> Result<(Figure, Option<String>), &'static str> {
    let has_options = of.rows.iter().any(|row| row.choice.is_some());
    let title = match (has_options, of.goals.is_empty()) {
        (true, true) => "Options by cost and speed".to_owned(),
        (true, false) => format!("Options by cost and speed; goal: {}", of.goals.join(", ")),
        (false, _) => format!("{}: {}", of.scenario, of.goals.join(", ")),
    };
    let (panels, left_out) = match (has_options, of.unknowns.len()) {
        (true, _) => rows_of_options(of)?,
        (false, 2) => (vec![pairs(of)?], more_rows(of.rows.len(), MOST)),
        (false, _) => (vec![values(of)?], more_rows(of.rows.len(), MOST)),
    };
    let panels = panels.into_iter().map(Panel::Lines).collect();
    Ok((Figure { title, panels, ..Figure::default() }, left_out))
}

/// Returns how many of the rows of `--for` are drawn, if not all are.
fn more_rows(rows: usize, most: usize) -> Option<String> {
    (rows > most).then(|| format!("the figure has the first {most} of {rows} rows"))
}

/// Returns a panel of options for each row of `--for`.
fn rows_of_options(of: &Planned) -> Result<(Vec<Lines>, Option<String>), &'static str> {
    if of.currency.is_none() {
        return Err("options are drawn by cost, and the scenario has no `[prices]`");
    }
    let drawn = of.rows.iter().take(PANELS);
    let panels = drawn.filter_map(|row| options(of, row, row.choice.as_ref()?));
    let panels: Vec<Lines> = panels.collect();
    if panels.is_empty() {
        return Err("no option has both a cost and a throughput");
    }
    let most = of.rows.iter().filter_map(|row| Some(row.choice.as_ref()?.options.len())).max();
    let most = most.filter(|most| *most >= MOST);
    let shown = MOST - 1;
    let left_out = most.map(|most| {
        format!("the figure has {shown} of {most} options: the best, the front, and then the first")
    });
    let both = left_out.into_iter().chain(more_rows(of.rows.len(), PANELS));
    let both: Vec<String> = both.collect();
    Ok((panels, (!both.is_empty()).then(|| both.join("; "))))
}

fn lines(x: AxisSpec, y: AxisSpec, series: Vec<Series>, marks: Vec<Mark>) -> Lines {
    Lines {
        x,
        y,
        series,
        marks,
        labels: Vec::new(),
        legend: String::new(),
        legend_shown: true,
        categories: Vec::new(),
        shares_x: false,
    }
}

fn axis(label: &str, unit: Unit) -> AxisSpec {
    AxisSpec { label: label.to_owned(), unit, ..AxisSpec::default() }
}

fn dot(x: f64, of: &Figured) -> Point {
    Point { x, y: Some(of.mean), band: of.ci95, ..Point::default() }
}

/// Returns the figure of the first goal over the tried values, a curve for each row.
fn values(of: &Planned) -> Result<Lines, &'static str> {
    let nothing = "no value could be tried";
    let goal = of.shown.goals.first().ok_or(nothing)?;
    let (key, _) = of.unknowns.first().ok_or(nothing)?;
    let mut series = Vec::new();
    let mut unit = Unit::Number;
    for (index, row) in of.rows.iter().take(MOST).enumerate() {
        let Some(answer) = &row.answer else { continue };
        let points = answer.tried.iter().filter_map(|tried| {
            let (x, of_value) = number(tried.values.first()?)?;
            unit = of_value;
            Some(dot(x, tried.figures.first()?))
        });
        let points: Vec<Point> = points.collect();
        series.push(Series { name: named(of, row), points, index, style: Style::Auto });
    }
    let y_unit = match goal.wanted.unit() {
        MetricUnit::Seconds => Unit::Seconds,
        MetricUnit::Bytes => Unit::Bytes,
        MetricUnit::Share => Unit::Share,
        _ => Unit::Number,
    };
    let mark = Mark { at: goal.limit, vertical: false, label: goal.text.clone() };
    let drawn = series.iter().any(|series| !series.points.is_empty());
    let (x, y) = (axis(key, unit), axis(&goal.wanted.text, y_unit));
    if drawn {
        Ok(lines(x, y, series, vec![mark]))
    } else {
        Err("no value that was tried is a number")
    }
}

/// Returns a name for a row's curve.
fn named(of: &Planned, row: &Row) -> String {
    let mut words: Vec<String> =
        row.at.iter().map(|(key, value)| format!("{} {value}", last(key))).collect();
    words.extend(row.option.clone());
    if words.is_empty() { of.scenario.clone() } else { words.join(", ") }
}

fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// Returns the smallest pairs that meet the goals, a curve for each row.
fn pairs(of: &Planned) -> Result<Lines, &'static str> {
    let mut series = Vec::new();
    let mut units = [Unit::Number; 2];
    for (index, row) in of.rows.iter().take(MOST).enumerate() {
        let Some(answer) = &row.answer else { continue };
        let pair = |at: &usize| {
            let values = &answer.tried.get(*at)?.values;
            let ((x, x_unit), (y, y_unit)) = (number(values.first()?)?, number(values.get(1)?)?);
            units = [x_unit, y_unit];
            Some(Point { x, y: Some(y), ..Point::default() })
        };
        let points: Vec<Point> = answer.front.iter().filter_map(pair).collect();
        let name = match of.rows.len() {
            1 => "pairs that meet the goals".to_owned(),
            _ => named(of, row),
        };
        if !points.is_empty() {
            series.push(Series { name, points, index, style: Style::Auto });
        }
    }
    if series.is_empty() {
        return Err("no pair of numbers meets the goals");
    }
    let (x, y) = (axis(&of.unknowns[0].0, units[0]), axis(&of.unknowns[1].0, units[1]));
    Ok(lines(x, y, series, Vec::new()))
}

/// Returns the options of a row by the cost of a month and by samples per second, and the front of those that no other one beats in
/// both. If there are too many, the best and the front come first.
fn options(of: &Planned, row: &Row, choice: &Choice) -> Option<Lines> {
    let mut order: Vec<usize> = (0..choice.options.len()).collect();
    let place = |at: &usize| match (choice.best == Some(*at), choice.options[*at].on_front) {
        (true, _) => 0,
        (false, Some(true)) => 1,
        (false, _) => 2,
    };
    order.sort_by_key(place);
    order.truncate(MOST - 1);
    order.sort_unstable();
    let mut series = Vec::new();
    let mut front: Vec<Point> = Vec::new();
    for (index, option) in order.iter().map(|at| &choice.options[*at]).enumerate() {
        let (Some(cost), Some(speed)) = (&option.cost_per_month, &option.samples_per_second) else {
            continue;
        };
        let point = dot(cost.mean, speed);
        if option.on_front == Some(true) {
            front.push(Point { band: None, ..point });
        }
        let name = option.name.clone();
        series.push(Series { name, points: vec![point], index, style: Style::Points });
    }
    if series.is_empty() {
        return None;
    }
    front.sort_by(|a, b| a.x.total_cmp(&b.x));
    if front.len() > 1 {
        let name = "front".to_owned();
        series.insert(0, Series { name, points: front, index: GREY, style: Style::Line });
    }
    let currency = of.currency.as_deref().unwrap_or_default();
    let x = axis(&format!("Cost of a month [{currency}]"), Unit::Number);
    let label = metric::of_column("samples_per_second").map_or("", |of| &of.label);
    let label = match row.at.is_empty() {
        true => label.to_owned(),
        false => format!("{label} ({})", named(of, row)),
    };
    Some(lines(x, axis(&label, Unit::Number), series, Vec::new()))
}

/// Returns a value as a number and its unit on an axis.
fn number(text: &str) -> Option<(f64, Unit)> {
    let text = text.trim_matches('"');
    if let Ok(number) = text.parse() {
        return Some((number, Unit::Number));
    }
    let unit = match units::si_unit(text)? {
        "s" => Unit::Seconds,
        "B" => Unit::Bytes,
        "B/s" => Unit::BytesPerSecond,
        _ => Unit::Number,
    };
    Some((units::si(text)?, unit))
}
