//! Builds the heat map of a panel: columns by `x`, rows by `group`.

use super::{ends, find, is_short, numbers};
use crate::groups::{Groups, shown};
use crate::recipe::{PanelRecipe, Recipe};
use crate::{AxisSpec, Cell, Heat, PlotError, Table, Unit, label_of, unit_of};
use std::collections::HashMap;
use toml::Spanned;

/// Maximum number of rows and of columns: more cells cannot be told apart.
const MOST_NAMES: usize = 100;

/// Returns the heat map of a panel with the style "heat".
pub(super) fn heat(
    recipe: &Recipe,
    table: &Table,
    groups: &Groups,
    panel: &PanelRecipe,
) -> Result<Heat, PlotError> {
    let [column] = &panel.y[..] else {
        let at = panel.y.get(1).map_or(0..0, Spanned::span);
        let what = "a heat map draws one column: write a [[panel]] for each";
        return Err(recipe.problem(at, what));
    };
    let x = find(recipe, table, &recipe.x)?;
    let used: Vec<usize> = groups.iter().flat_map(|(_, rows)| rows).copied().collect();
    let all = table.distinct(x);
    let mut names: Vec<(&str, String)> = all.iter().copied().zip(shown(recipe, &all)).collect();
    names.retain(|(text, _)| used.iter().any(|row| table.text(*row, x) == *text));
    if ordered(names.iter().map(|(text, _)| *text)) {
        names.sort_by(|a, b| quantity(a.0).total_cmp(&quantity(b.0)));
    }
    let by = recipe.group.as_ref().map(|group| find(recipe, table, group)).transpose()?;
    let raw = |rows: &Vec<usize>| match (by, rows.first()) {
        (Some(by), Some(row)) => table.text(*row, by),
        _ => "",
    };
    let mut groups: Vec<(&str, &String, &Vec<usize>)> =
        groups.iter().map(|(name, rows)| (raw(rows), name, rows)).collect();
    // As on an axis, numbers grow upwards.
    if ordered(groups.iter().map(|(text, ..)| *text)) {
        groups.sort_by(|a, b| quantity(b.0).total_cmp(&quantity(a.0)));
    }
    for (axis, key, number) in [
        ("columns", &recipe.x, names.len()),
        ("rows", recipe.group.as_ref().unwrap_or(&recipe.x), groups.len()),
    ] {
        if number > MOST_NAMES {
            let what = format!(
                "`{}` gives a heat map {number} {axis}, and at most {MOST_NAMES} are drawn; choose some by `filter`",
                key.get_ref()
            );
            return Err(recipe.problem(key.span(), &what));
        }
    }
    let values = numbers(recipe, table, column)?;
    let unit = panel.y_unit.or(recipe.y_unit).unwrap_or(unit_of(column.get_ref()));
    let cell = |row: usize| {
        let value = values[row].filter(|value| value.is_finite())?;
        Some(Cell { value, text: written(unit, value), short: is_short(table, row) })
    };
    let cells = groups.iter().map(|(_, _, rows)| {
        let at: HashMap<&str, usize> =
            rows.iter().rev().map(|row| (table.text(*row, x), *row)).collect();
        names.iter().map(|(name, _)| cell(*at.get(name)?)).collect()
    });
    let label = panel.y_label.clone().or_else(|| recipe.y_label.clone());
    let bar = AxisSpec {
        label: label.unwrap_or_else(|| label_of(column.get_ref())),
        unit,
        scale: panel.y_scale.unwrap_or(recipe.y_scale),
        range: ends(panel.y_range.as_ref().or(recipe.y_range.as_ref())),
        place: recipe.place(column.span()),
    };
    let group = recipe.group.as_ref().map(|group| label_of(group.get_ref()));
    Ok(Heat {
        cells: cells.collect(),
        rows: groups.iter().map(|(_, name, _)| (*name).clone()).collect(),
        columns: names.into_iter().map(|(_, name)| name).collect(),
        label: recipe.x_label.clone().unwrap_or_else(|| label_of(recipe.x.get_ref())),
        row_label: recipe.group_label.clone().or(group).unwrap_or_default(),
        bar: Some(bar),
        ..Heat::default()
    })
}

/// Returns whether all names are numbers, or quantities of one unit.
fn ordered<'t>(names: impl Iterator<Item = &'t str>) -> bool {
    let mut unit = None;
    names.into_iter().all(|name| {
        let (_, own) = name.split_once(' ').unwrap_or((name, ""));
        quantity(name).is_finite() && *unit.get_or_insert(own) == own
    })
}

/// Returns the number at the beginning of a name; not a number if there is none.
fn quantity(name: &str) -> f64 {
    let number = name.split_once(' ').map_or(name, |(number, _)| number);
    number.parse().unwrap_or(f64::NAN)
}

/// Formats a value for a cell: shares from 1 % on as whole per cents.
fn written(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Share if value.abs() >= 0.00995 => unit.write((100.0 * value).round() / 100.0),
        _ => unit.write(value),
    }
}
