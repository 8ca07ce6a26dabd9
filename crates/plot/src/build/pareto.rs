//! Builds a scatter of two columns with the front of the points that no other one beats in both.

use super::{find, is_short, legend, numbers, y_axis};
use crate::groups::{Groups, called, kind};
use crate::recipe::{Direction, PanelRecipe, Recipe};
use crate::{AxisSpec, Label, Lines, PlotError, Point, Scale, Series, Style, Table, label_of};
use forebay_report::metric::{Better, of_column};
use toml::Spanned;

/// Returns the panel with the style "pareto"; `x` is its x axis, with the position of each row.
pub(super) fn lines(
    recipe: &Recipe,
    table: &Table,
    (x, places): (&AxisSpec, &[Option<f64>]),
    groups: &Groups,
    panel: &PanelRecipe,
) -> Result<Lines, PlotError> {
    let [column] = &panel.y[..] else {
        let at = panel.y.get(1).map_or(0..0, Spanned::span);
        let what = "a front compares `x` with one column: write a [[panel]] for each";
        return Err(recipe.problem(at, what));
    };
    if table.numbers(find(recipe, table, &recipe.x)?).is_none() {
        let what = format!(
            "a front needs numbers on both axes, and the column \"{}\" does not hold any; write another `x`, or `style = \
             \"points\"`",
            recipe.x.get_ref()
        );
        return Err(recipe.problem(recipe.x.span(), &what));
    }
    let x_better = better(recipe, &recipe.x, ("x", recipe.x_better.as_ref()));
    let y_better = better(recipe, column, ("y", recipe.y_better.as_ref()));
    let (x_better, y_better) = match (x_better, y_better) {
        (Ok(x), Ok(y)) => (x, y),
        (x, y) => return Err(PlotError::all([x.err(), y.err()].into_iter().flatten())),
    };
    let ys = numbers(recipe, table, column)?;
    let bands = super::bands(recipe, table, column)?;
    let point = |row: usize| {
        let (x, y) = (places[row]?, ys[row]?);
        let point = Point { x, y: Some(y), band: bands(row), short: is_short(table, row) };
        (x.is_finite() && y.is_finite()).then_some(point)
    };
    let mut series = Vec::new();
    let mut candidates = Vec::new();
    for (name, rows) in groups {
        let points = rows.iter().filter_map(|row| Some((*row, point(*row)?)));
        let points: Vec<(usize, Point)> = points.collect();
        // What a run that is too short reached is no offer.
        candidates.extend(points.iter().filter(|(_, point)| !point.short).copied());
        let points = points.into_iter().map(|(_, point)| point).collect();
        series.push(Series {
            name: name.clone(),
            points,
            style: Style::Points,
            ..Series::default()
        });
    }
    let front = front(candidates, x_better, y_better);
    let bare = |(_, point): &(usize, Point)| Point { band: None, ..*point };
    let points = front.iter().map(bare).collect();
    series.insert(0, Series { points, style: Style::Front, ..Series::default() });
    let named = names(recipe, table)?;
    let label = |(row, point): &(usize, Point)| {
        let text = name(recipe, table, &named, *row);
        Label { x: point.x, y: point.y.unwrap_or_default(), text }
    };
    let labels = front.iter().map(label).filter(|label| !label.text.is_empty()).collect();
    let (mut x, mut y) = (x.clone(), y_axis(recipe, panel));
    let all = || series.iter().flat_map(|series| &series.points).map(|point| point.x);
    x.range = with_room(
        x.scale,
        x.range,
        all().fold(f64::INFINITY, f64::min),
        all().fold(f64::NEG_INFINITY, f64::max),
    );
    for (axis, better) in [(&mut x, x_better), (&mut y, y_better)] {
        let word = if better == Direction::Lower { "lower" } else { "higher" };
        axis.label = format!("{} ({word} is better)", axis.label);
    }
    Ok(Lines {
        x,
        y,
        series,
        marks: Vec::new(),
        labels,
        legend: legend(recipe),
        legend_shown: true,
        categories: Vec::new(),
        shares_x: false,
    })
}

/// Part of the x axis that is left free at either end, so that dots are not at the border.
const ROOM: f64 = 0.04;

/// Returns the ends of the x axis: those that the recipe sets, and beyond the points elsewhere. A logarithmic axis has room anyway.
fn with_room(scale: Scale, range: [Option<f64>; 2], low: f64, high: f64) -> [Option<f64>; 2] {
    let room = ROOM * (high - low);
    if scale == Scale::Log || !(room > 0.0 && room.is_finite()) {
        return range;
    }
    // Few axes begin below zero.
    let low = if low >= 0.0 { (low - room).max(0.0) } else { low - room };
    [range[0].or(Some(low)), range[1].or(Some(high + room))]
}

/// Returns which values of a column are better: as the recipe says or, without that, the table of metrics.
fn better(
    recipe: &Recipe,
    column: &Spanned<String>,
    (axis, asked): (&str, Option<&Spanned<Direction>>),
) -> Result<Direction, PlotError> {
    let known = of_column(column.get_ref()).map(|metric| metric.better);
    match (asked, known) {
        (Some(asked), _) => Ok(*asked.get_ref()),
        (None, Some(Better::Higher)) => Ok(Direction::Higher),
        (None, Some(Better::Lower)) => Ok(Direction::Lower),
        (None, Some(Better::Neither) | None) => {
            let what = format!(
                "nothing says which values of `{}` are better: write `{axis}_better = \"lower\"` or \"higher\"",
                column.get_ref()
            );
            Err(recipe.problem(column.span(), &what))
        }
    }
}

/// Returns the points that no other one beats, ordered so that steps through them first go across and then up or down. Of equal
/// points the first one is kept.
fn front(
    mut points: Vec<(usize, Point)>,
    x_better: Direction,
    y_better: Direction,
) -> Vec<(usize, Point)> {
    let cost = |value: f64, better| if better == Direction::Lower { value } else { -value };
    let place =
        |point: &Point| (cost(point.x, x_better), cost(point.y.unwrap_or_default(), y_better));
    points.sort_by(|(_, a), (_, b)| {
        let (a, b) = (place(a), place(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let mut best = f64::INFINITY;
    points.retain(|(_, point)| {
        let y = place(point).1;
        let is_on = y < best;
        best = best.min(y);
        is_on
    });
    points
}

/// Returns the columns that name points: those of the recipe, or the groups, or all swept keys with several values.
fn names(recipe: &Recipe, table: &Table) -> Result<Vec<usize>, PlotError> {
    if !recipe.names.is_empty() {
        return recipe.names.iter().map(|name| find(recipe, table, name)).collect();
    }
    if let Some(group) = &recipe.group {
        return Ok(vec![find(recipe, table, group)?]);
    }
    let swept = |column: &usize| {
        let name = &table.columns()[*column];
        (name.contains('.') || name == "job") && table.distinct(*column).len() > 1
    };
    Ok((0..table.columns().len()).filter(swept).collect())
}

/// Returns the name of a row: its values in these columns. A bare number is preceded by the last word of its column.
fn name(recipe: &Recipe, table: &Table, columns: &[usize], row: usize) -> String {
    let part = |column: &usize| {
        let text = table.text(row, *column);
        if let Some(label) = called(recipe, text) {
            return label.to_owned();
        }
        match text.parse::<f64>() {
            Ok(_) => format!("{} {text}", label_of(&table.columns()[*column]).to_lowercase()),
            Err(_) => kind(text).unwrap_or(text).to_owned(),
        }
    };
    columns.iter().map(part).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_has_the_points_that_no_other_one_beats_in_both() {
        // System: random points on a coarse grid, so that some are equal or share a coordinate. Expectation: as by comparing each
        // with each; of equal points one is kept.
        let mut state = 7_u64;
        let mut draw = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 60) as f64
        };
        for number in 1..40 {
            let point = |_| Point { x: draw(), y: Some(draw()), ..Point::default() };
            let points: Vec<Point> = (0..number).map(point).collect();
            for x_better in [Direction::Lower, Direction::Higher] {
                for y_better in [Direction::Lower, Direction::Higher] {
                    let all = points.iter().copied().enumerate().collect();
                    let mut found: Vec<(f64, f64)> = front(all, x_better, y_better)
                        .iter()
                        .map(|(_, point)| (point.x, point.y.unwrap_or_default()))
                        .collect();
                    let least = |a: f64, b: f64, better| match better {
                        Direction::Lower => a <= b,
                        Direction::Higher => a >= b,
                    };
                    let at = |point: &Point| (point.x, point.y.unwrap_or_default());
                    let beats = |a: (f64, f64), b: (f64, f64)| {
                        least(a.0, b.0, x_better) && least(a.1, b.1, y_better) && a != b
                    };
                    let mut expected: Vec<(f64, f64)> = points
                        .iter()
                        .map(at)
                        .filter(|own| !points.iter().any(|other| beats(at(other), *own)))
                        .collect();
                    let order = |a: &(f64, f64), b: &(f64, f64)| {
                        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
                    };
                    expected.sort_by(order);
                    expected.dedup();
                    found.sort_by(order);
                    assert_eq!(found, expected, "{points:?}");
                }
            }
        }
    }
}
