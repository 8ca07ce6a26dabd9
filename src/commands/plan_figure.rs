//! The figure of `forebay plan`: the goals' figures over the values that were tried, the smallest pairs, or options by cost and speed;
//! without prices, options by the figure that decides.

use super::keys::{last, number};
use super::planned::{Planned, Row, ShownGoal};
use crate::metric;
use crate::plan::{Choice, Figured, Rank, Standing};
use crate::plot::{self, AxisSpec, Figure, Lines, Mark, Panel, Point, Scale, Series, Style, Unit};

/// Curves or options at most: more colours cannot be told apart.
const MOST: usize = 8;
/// Colour of lines that are no option.
const GREY: usize = 7;

/// Rows with options at most: each is a panel.
const PANELS: usize = 6;

/// Returns the figure, and what is left out of it; an error that says why there is nothing to draw.
pub(super) fn figure(of: &Planned) -> Result<(Figure, Option<String>), &'static str> {
    let has_options = of.rows.iter().any(|row| row.choice.is_some());
    let goals: Vec<&str> = of.goals.iter().map(|goal| goal.goal.as_str()).collect();
    let goals = goals.join(", ");
    let by = match (&of.currency, &of.best) {
        (None, Some(best)) => best.figure.clone(),
        _ => {
            let (cost, speed) = axes(of);
            format!("{} and {}", cost.unwrap_or("cost"), speed.unwrap_or("speed"))
        }
    };
    let title = match (has_options, goals.is_empty()) {
        (true, true) => format!("Options by {by}"),
        (true, false) => format!("Options by {by}; goal: {goals}"),
        (false, _) => format!("{}: {goals}", of.scenario),
    };
    let (panels, left_out) = match (has_options, of.unknowns.len()) {
        (true, _) => rows_of_options(of)?,
        (false, 2) => (vec![pairs(of)?], more_rows(of.rows.len(), MOST)),
        (false, 3..) => return Err("combinations of three or more keys have no figure"),
        (false, _) => {
            let each = of.goals.iter().enumerate();
            let panels = each.map(|(index, goal)| values(of, index, goal));
            (panels.collect::<Result<_, _>>()?, more_rows(of.rows.len(), MOST))
        }
    };
    let panels: Vec<Panel> = panels.into_iter().map(Panel::Lines).collect();
    let key = plot::signs(&panels, plot::INTERVAL);
    Ok((Figure { title, key, panels, ..Figure::default() }, left_out))
}

/// Returns how many of the rows of `--for` are drawn, if not all are.
fn more_rows(rows: usize, most: usize) -> Option<String> {
    (rows > most).then(|| format!("the figure has the first {most} of {rows} rows"))
}

/// Returns a panel of options for each row of `--for`.
fn rows_of_options(of: &Planned) -> Result<(Vec<Lines>, Option<String>), &'static str> {
    let drawn = of.rows.iter().take(PANELS);
    let panels = drawn.filter_map(|row| options(of, row, row.choice.as_ref()?));
    let panels: Vec<Lines> = panels.collect();
    if panels.is_empty() {
        return Err("no option has figures to draw");
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
    Lines { x, y, series, marks, legend_shown: true, ..Lines::default() }
}

fn axis(label: &str, unit: Unit) -> AxisSpec {
    AxisSpec { label: label.to_owned(), unit, ..AxisSpec::default() }
}

fn dot(x: f64, of: &Figured) -> Point {
    Point { x, y: Some(of.mean), band: of.ci95, ..Point::default() }
}

/// Returns the figure of goal `index` over the tried values, a curve for each row.
fn values(of: &Planned, index: usize, goal: &ShownGoal) -> Result<Lines, &'static str> {
    let key = &of.unknowns.first().ok_or("no value could be tried")?.key;
    let mut series = Vec::new();
    let mut unit = Unit::Number;
    for (number_of_row, row) in of.rows.iter().take(MOST).enumerate() {
        let Some(answer) = &row.answer else { continue };
        let points = answer.tried.iter().filter_map(|tried| {
            let (x, of_value) = number(tried.values.first()?)?;
            unit = of_value;
            Some(dot(x, tried.figures.get(index)?))
        });
        let points: Vec<Point> = points.collect();
        let (name, index) = (named(of, row), number_of_row);
        series.push(Series { name, points, index, style: Style::Auto });
    }
    let goal_line = Mark { at: goal.limit, vertical: false, label: goal.goal.clone() };
    let found = match &of.rows[..] {
        [Row { answer: Some(answer), .. }] => answer.found.map(|at| &answer.tried[at].values[0]),
        _ => None,
    };
    let found = found.and_then(|value| Some((number(value)?.0, format!("answer: {value}"))));
    let found = found.map(|(at, label)| Mark { at, vertical: true, label });
    let drawn = series.iter().any(|series| !series.points.is_empty());
    let (mut x, y) = (axis(key, unit), axis(&goal.figure.figure, Unit::from(goal.figure.unit)));
    x.scale = scale(series.iter().flat_map(|of| &of.points).map(|point| point.x));
    if drawn {
        Ok(lines(x, y, series, std::iter::once(goal_line).chain(found).collect()))
    } else {
        Err("no value that was tried is a number")
    }
}

/// Ratio of the largest to the smallest value on an axis above which it is logarithmic.
const WIDE: f64 = 30.0;

/// Returns a logarithmic scale if values differ by more than a factor of [`WIDE`], otherwise a linear one.
pub(super) fn scale(values: impl Iterator<Item = f64> + Clone) -> Scale {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(0.0, f64::max);
    if low > 0.0 && high / low >= WIDE { Scale::Log } else { Scale::Linear }
}

/// Part of an axis that is left free at either end, so that dots are not on the frame.
const ROOM: f64 = 0.05;

/// Returns the ends of an axis beyond values.
fn around(values: impl Iterator<Item = f64> + Clone) -> [Option<f64>; 2] {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(f64::NEG_INFINITY, f64::max);
    let room = ROOM * (high - low);
    (room > 0.0).then_some([low - room, high + room]).map_or([None; 2], |ends| ends.map(Some))
}

/// Returns a name for a row's curve.
fn named(of: &Planned, row: &Row) -> String {
    let mut words: Vec<String> =
        row.at.iter().map(|(key, value)| format!("{} {value}", last(key))).collect();
    words.extend(row.option.clone());
    if words.is_empty() { of.scenario.clone() } else { words.join(", ") }
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
    let (x, y) = (axis(&of.unknowns[0].key, units[0]), axis(&of.unknowns[1].key, units[1]));
    Ok(lines(x, y, series, Vec::new()))
}

/// Returns the figure that decides, as the cost or as the speed by which options are drawn, if it is neither the cost of a month nor
/// throughput.
fn axes(of: &Planned) -> (Option<&str>, Option<&str>) {
    match of.best.as_ref().filter(|best| !best.is_usual()) {
        Some(best) if best.unit == metric::Unit::Money => (Some(&best.figure), None),
        Some(best) => (None, Some(&best.figure)),
        None => (None, None),
    }
}

/// Returns the options of a row by the cost of a month and by samples per second, and the front of those that no other one beats in
/// both; without prices, as bars of the figure that decides. If there are too many, the best and the front come first.
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
    if of.currency.is_none() {
        return bars(of, row, order.iter().map(|at| &choice.options[*at]));
    }
    let (cost_name, speed_name) = axes(of);
    let mut series = Vec::new();
    let mut front: Vec<Point> = Vec::new();
    for (index, option) in order.iter().map(|at| &choice.options[*at]).enumerate() {
        let best = option.best.as_ref();
        let cost = if cost_name.is_some() { best } else { option.cost_per_month.as_ref() };
        let speed = if speed_name.is_some() { best } else { option.samples_per_second.as_ref() };
        let (Some(cost), Some(speed)) = (cost, speed) else { continue };
        let point = dot(cost.mean, speed);
        // The front is that of the cost of a month and of speed.
        if option.on_front == Some(true) && cost_name.is_none() && speed_name.is_none() {
            front.push(Point { band: None, ..point });
        }
        let standing = match option.place {
            Rank::Best => " (chosen)",
            Rank::Misses => " (misses a goal)",
            Rank::Worse | Rank::Undecided | Rank::Failed => "",
        };
        let name = format!("{}{standing}", option.name);
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
    let cost_name = cost_name.unwrap_or("Cost of a month");
    let mut x = axis(&format!("{cost_name} [{currency}]"), Unit::Number);
    x.range = around(series.iter().flat_map(|of| &of.points).map(|point| point.x));
    let label = metric::of_column("samples_per_second").map_or("", |of| &of.label);
    let label = speed_name.unwrap_or(label);
    let label = match row.at.is_empty() {
        true => label.to_owned(),
        false => format!("{label} ({})", named(of, row)),
    };
    let unit = of.best.as_ref().filter(|_| speed_name.is_some());
    let unit = unit.map_or(Unit::Number, |best| Unit::from(best.unit));
    Some(lines(x, axis(&label, unit), series, Vec::new()))
}

/// Returns options as bars of the figure that decides.
fn bars<'c>(of: &Planned, row: &Row, options: impl Iterator<Item = &'c Standing>) -> Option<Lines> {
    let best = of.best.as_ref()?;
    let known = options.filter_map(|option| Some((option.name.clone(), option.best.as_ref()?)));
    let (categories, figures): (Vec<String>, Vec<&Figured>) = known.unzip();
    let points = figures.iter().enumerate().map(|(x, figure)| dot(x as f64, figure)).collect();
    let label = match row.at.is_empty() {
        true => best.figure.clone(),
        false => format!("{} ({})", best.figure, named(of, row)),
    };
    let series = vec![Series { points, style: Style::Bars, ..Series::default() }];
    let y = axis(&label, Unit::from(best.unit));
    let drawn = lines(AxisSpec::default(), y, series, Vec::new());
    (!categories.is_empty()).then_some(Lines { categories, legend_shown: false, ..drawn })
}
