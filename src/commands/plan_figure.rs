//! The figure of `forebay plan`: the goal's figure over the values that were tried, the smallest pairs, or options by cost and speed.

use super::plan::{Planned, Row};
use crate::metric::{self, Unit as MetricUnit};
use crate::plan::{Answer, Choice, Figured};
use crate::plot::{AxisSpec, Figure, Lines, Mark, Panel, Point, Series, Style, Unit};
use crate::units;

/// Curves or options at most: more colours cannot be told apart.
const MOST: usize = 8;
/// Colour of lines that are no option.
const GREY: usize = 7;

/// Returns the figure; `None` if there is nothing to draw: options without prices, or no setting that was tried.
pub(super) fn figure(of: &Planned) -> Option<Figure> {
    let first = of.rows.first()?;
    let lines = match (&first.choice, of.unknowns.len()) {
        (Some(choice), _) => options(of, choice)?,
        (None, 2) => pairs(of, first.answer.as_ref()?)?,
        _ => values(of)?,
    };
    let title = match (&first.choice, of.goals.is_empty()) {
        (Some(_), true) => "Options by cost and speed".to_owned(),
        (Some(_), false) => format!("Options by cost and speed; goal: {}", of.goals.join(", ")),
        (None, _) => format!("{}: {}", of.scenario, of.goals.join(", ")),
    };
    Some(Figure { title, panels: vec![Panel::Lines(lines)], ..Figure::default() })
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
fn values(of: &Planned) -> Option<Lines> {
    let goal = of.shown.goals.first()?;
    let (key, _) = of.unknowns.first()?;
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
    drawn.then(|| lines(axis(key, unit), axis(&goal.wanted.text, y_unit), series, vec![mark]))
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

/// Returns the pairs of which neither value can be better.
fn pairs(of: &Planned, answer: &Answer) -> Option<Lines> {
    let of_pair = |at: &usize| {
        let tried = &answer.tried[*at];
        Some((number(tried.values.first()?)?, number(tried.values.get(1)?)?))
    };
    let all = answer.front.iter().map(of_pair).collect::<Option<Vec<_>>>()?;
    let ((_, x_unit), (_, y_unit)) = *all.first()?;
    let point = |((x, _), (y, _)): &((f64, Unit), (f64, Unit))| Point {
        x: *x,
        y: Some(*y),
        ..Point::default()
    };
    let points = all.iter().map(point).collect();
    let name = "pairs that meet the goals".to_owned();
    let series = vec![Series { name, points, index: 0, style: Style::Auto }];
    let (x, y) = (axis(&of.unknowns[0].0, x_unit), axis(&of.unknowns[1].0, y_unit));
    Some(lines(x, y, series, Vec::new()))
}

/// Returns the options by the cost of a month and by samples per second, and the front of those that no other one beats in both.
fn options(of: &Planned, choice: &Choice) -> Option<Lines> {
    let mut series = Vec::new();
    let mut front: Vec<Point> = Vec::new();
    for (index, option) in choice.options.iter().take(MOST - 1).enumerate() {
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
    Some(lines(x, axis(label, Unit::Number), series, Vec::new()))
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
