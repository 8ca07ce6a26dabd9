//! Checks that rows can be drawn as a recipe asks.

use super::{Below, passing, style_asked};
use crate::groups::Groups;
use crate::recipe::{DrawnAs, PanelRecipe, Recipe};
use crate::{PlotError, Table, Unit, unit_of};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use toml::Spanned;

/// Checks that no line mixes the distributions of several points of a sweep.
pub(super) fn check_distributions(
    recipe: &Recipe,
    table: &Table,
    below: &Below,
    groups: &Groups,
) -> Result<(), PlotError> {
    if !recipe.is_distribution() {
        return Ok(());
    }
    // A repeated position of the first row shows that the line has a second distribution.
    let again = |rows: &[usize]| {
        let (first, rest) = rows.split_first()?;
        let again = rest.iter().find(|row| below.places[**row] == below.places[*first])?;
        Some([*first, *again])
    };
    let Some(rows) = groups.iter().find_map(|(_, rows)| again(rows)) else { return Ok(()) };
    let differs = |(column, name): (usize, &String)| {
        let [a, b] = rows.map(|row| table.text(row, column));
        (a != b && name != "share").then(|| format!("`{name}`"))
    };
    let differ: Vec<String> = table.columns().iter().enumerate().filter_map(differs).collect();
    let what = format!(
        "a line would have more than one distribution: they differ in {}; write that as `group`, or choose one by \
         `filter`",
        differ.join(", ")
    );
    Err(recipe.problem(recipe.x.span(), &what))
}

/// Checks that no curve has several rows at one position that differ in a swept setting.
pub(super) fn check_repeats(
    recipe: &Recipe,
    table: &Table,
    below: &Below,
    groups: &Groups,
    panel: &PanelRecipe,
) -> Result<(), PlotError> {
    let style = style_asked(recipe, panel);
    let points = matches!(style, Some(DrawnAs::Points | DrawnAs::Pareto));
    if recipe.is_distribution() || points {
        return Ok(());
    }
    let named = |name: &str| {
        let group = recipe.group.as_ref().is_some_and(|group| group.get_ref() == name);
        group || recipe.x.get_ref() == name
    };
    let swept: Vec<usize> = (0..table.columns().len())
        .filter(|column| {
            let name = table.columns()[*column].as_str();
            name.contains('.') || name == "job"
        })
        .filter(|column| !named(&table.columns()[*column]))
        .collect();
    for (_, rows) in groups {
        let mut seen: HashMap<u64, usize> = HashMap::new();
        for row in rows {
            let Some(place) = below.places[*row] else { continue };
            let first = *seen.entry(place.to_bits()).or_insert(*row);
            let differs =
                |column: &&usize| table.text(*row, **column) != table.text(first, **column);
            let differ: Vec<String> = swept
                .iter()
                .filter(differs)
                .map(|column| format!("`{}`", table.columns()[*column]))
                .collect();
            if !differ.is_empty() && style == Some(DrawnAs::Heat) {
                let what = format!(
                    "a cell would have several values: its rows differ in {}; choose one of its values by `filter`",
                    differ.join(", ")
                );
                return Err(recipe.problem(recipe.x.span(), &what));
            }
            if !differ.is_empty() {
                let what = format!(
                    "a line would have several values at one x: its rows differ in {}; write one of these as `group`, choose \
                     one of its values by `filter`, or write `style = \"points\"`",
                    differ.join(", ")
                );
                return Err(recipe.problem(recipe.x.span(), &what));
            }
        }
    }
    Ok(())
}

/// Returns the problems with the ranges of axes, for the columns that exist.
pub(super) fn ranges(recipe: &Recipe, table: &Table, panels: &[PanelRecipe]) -> Vec<PlotError> {
    let all_rows = || (0..table.len()).collect();
    let passing = |filter| passing(recipe, table, filter, "").unwrap_or_else(|_| all_rows());
    let common = passing(&recipe.filter);
    let largest = |column: &Spanned<String>, rows: &BTreeSet<usize>| {
        let (values, _) = table.numbers(table.find(column.get_ref())?)?;
        let values = rows.iter().filter_map(|row| values[*row]).filter(|value| value.is_finite());
        Some(values.fold(0.0, f64::max))
    };
    let mut wrong = Vec::new();
    if let (Some(range), Some(largest)) = (&recipe.x_range, largest(&recipe.x, &common)) {
        let unit = recipe.x_unit.unwrap_or(unit_of(recipe.x.get_ref()));
        wrong.extend(check_range(recipe, range, "x", unit, largest));
    }
    for panel in panels {
        let Some(range) = panel.y_range.as_ref().or(recipe.y_range.as_ref()) else { continue };
        let rows = &common & &passing(&panel.filter);
        let largest = panel.y.iter().filter_map(|column| largest(column, &rows)).reduce(f64::max);
        let first = panel.y.first().map_or("", |column| column.get_ref());
        let unit = panel.y_unit.or(recipe.y_unit).unwrap_or(unit_of(first));
        wrong.extend(largest.and_then(|largest| check_range(recipe, range, "y", unit, largest)));
    }
    wrong
}

/// Reports a range of shares that ends far above all values: it was probably meant in per cent.
fn check_range(
    recipe: &Recipe,
    range: &Spanned<[f64; 2]>,
    axis: &str,
    unit: Unit,
    largest: f64,
) -> Option<PlotError> {
    let [low, high] = *range.get_ref();
    if unit != Unit::Share || high <= 1.0 || largest > 0.05 * high {
        return None;
    }
    let what = format!(
        "`{axis}_range = [{}, {}]` would end at {} % and no value is above {} %: shares are written as fractions of 1; write \
         [{}, {}], or `{axis}_unit = \"number\"` if these are no shares",
        rounded(low),
        rounded(high),
        rounded(100.0 * high),
        rounded(100.0 * largest),
        rounded(low / 100.0),
        rounded(high / 100.0)
    );
    Some(recipe.problem(range.span(), &what))
}

/// Formats a number with three significant digits.
fn rounded(value: f64) -> String {
    let magnitude = value.abs().log10().floor();
    if magnitude >= 6.0 || magnitude < -4.0 && value != 0.0 {
        return format!("{value:.2e}");
    }
    let text = format!("{value:.*}", (2.0 - magnitude).clamp(0.0, 6.0) as usize);
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Reports keys that the styles of the panels need, and keys that have no effect on them.
pub(super) fn check_styles(recipe: &Recipe, panels: &[PanelRecipe]) -> Vec<PlotError> {
    let style = |panel: &PanelRecipe| style_asked(recipe, panel);
    let has = |wanted: DrawnAs| panels.iter().any(|panel| style(panel) == Some(wanted));
    let only = |wanted: DrawnAs| panels.iter().all(|panel| style(panel) == Some(wanted));
    let mut wrong: Vec<(Range<usize>, String)> = Vec::new();
    let heat = panels.iter().find(|panel| style(panel) == Some(DrawnAs::Heat));
    if let (Some(panel), None) = (heat, &recipe.group) {
        let at = panel.style.as_ref().or(recipe.style.as_ref()).map_or(0..0, Spanned::span);
        let what = "a heat map needs the column of its rows: write it as `group`";
        wrong.push((at, what.to_owned()));
    }
    if only(DrawnAs::Heat) {
        let mut without_effect = |key: &str, at: Option<Range<usize>>| {
            let what = format!("`{key}` has no effect on a heat map: leave it out");
            wrong.extend(at.map(|at| (at, what)));
        };
        without_effect(
            "band",
            recipe.band.as_ref().filter(|_| recipe.has_bands()).map(Spanned::span),
        );
        without_effect("x_range", recipe.x_range.as_ref().map(Spanned::span));
    }
    for line in &recipe.line {
        let of_heat = match line.panel {
            Some(number) => {
                let panel = number.checked_sub(1).and_then(|index| panels.get(index));
                panel.and_then(style) == Some(DrawnAs::Heat)
            }
            None => only(DrawnAs::Heat),
        };
        let at = line.x.as_ref().or(line.y.as_ref()).map_or(0..0, Spanned::span);
        if of_heat {
            let what = "a heat map has no reference lines: leave the [[line]] out, or name another `panel`";
            wrong.push((at, what.to_owned()));
        }
    }
    if !has(DrawnAs::Pareto) {
        let better = [("x_better", &recipe.x_better), ("y_better", &recipe.y_better)];
        let better = better.into_iter().filter_map(|(key, of)| Some((key, of.as_ref()?.span())));
        let names = recipe.names.first().map(|name| ("names", name.span()));
        wrong.extend(better.chain(names).map(|(key, at)| {
            let what =
                format!("`{key}` is for fronts: leave it out, or write `style = \"pareto\"`");
            (at, what)
        }));
    }
    if let Some(interval) = recipe.interval.as_ref().filter(|_| !recipe.has_bands()) {
        let what = "`interval` names the intervals that `band = true` draws: write that, too, or leave `interval` out";
        wrong.push((interval.span(), what.to_owned()));
    }
    wrong.into_iter().map(|(at, what)| recipe.problem(at, &what)).collect()
}
