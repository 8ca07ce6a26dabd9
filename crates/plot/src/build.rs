//! Builds a figure from a recipe and rows of data.

mod checks;
mod heat;
mod pareto;

use super::filter::Filter;
use super::groups::{Groups, check_labels, groups, kind, shown, within};
use super::lines::dotted;
use super::recipe::{DrawnAs, LineRecipe, PanelRecipe, Recipe};
use super::{
    AxisSpec, Figure, INTERVAL, Lines, Mark, Panel, PlotError, Point, Scale, Series, Style, Table,
    signs,
};
use super::{label_of, unit_of};
use checks::{check_distributions, check_repeats, check_styles, ranges};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use toml::Spanned;

/// Maximum number of lines in a panel: more cannot be told apart, and their legend does not fit.
const MOST_LINES: usize = 200;

/// Draws the columns that `recipe` names from the rows of `table`. All problems with names and ranges are reported at once.
pub fn build(recipe: &Recipe, table: &Table) -> Result<Figure, PlotError> {
    let only = [PanelRecipe { y: recipe.y.clone(), ..PanelRecipe::default() }];
    let panels = if recipe.panel.is_empty() { &only[..] } else { &recipe.panel };
    let names = check(recipe, table, panels);
    let mut ranges = ranges(recipe, table, panels);
    ranges.extend(check_styles(recipe, panels));
    let drawn = names.and_then(|()| drawn(recipe, table, panels));
    if drawn.is_err() || !ranges.is_empty() {
        return Err(PlotError::all(drawn.err().into_iter().chain(ranges)));
    }
    let table = drawn?;
    // The positions on the x axis and the names of lines are the same in all panels, as panels share the axis and the legend.
    let (below, groups) = (Below::new(recipe, &table, panels)?, groups(recipe, &table)?);
    let rows = panels.len().div_ceil(recipe.columns.max(1));
    let is_alone = |panel: &PanelRecipe| {
        matches!(style_asked(recipe, panel), Some(DrawnAs::Heat | DrawnAs::Pareto))
    };
    let is_joined = !panels.iter().any(is_alone);
    let panel = |(index, panel): (usize, &PanelRecipe)| {
        let own = passing(recipe, &table, &panel.filter, "")?;
        let groups = within(&groups, &own);
        check_distributions(recipe, &table, &below, &groups)?;
        check_repeats(recipe, &table, &below, &groups, panel)?;
        let axis = (&below.spec, &below.places[..]);
        let mut lines = match style_asked(recipe, panel) {
            Some(DrawnAs::Heat) => {
                return heat::heat(recipe, &table, &groups, panel).map(Panel::Heat);
            }
            Some(DrawnAs::Pareto) => pareto::lines(recipe, &table, axis, &groups, panel)?,
            _ => lines(recipe, &table, &below, &groups, panel)?,
        };
        lines.marks = marks(recipe, index, panels.len())?;
        // If each panel draws one column, the legend of the first panel is valid for all panels.
        lines.legend_shown = index == 0 || panel.y.len() > 1 || panels[0].y.len() > 1;
        lines.shares_x = recipe.columns <= 1 && index + 1 < rows && is_joined;
        Ok(Panel::Lines(lines))
    };
    let mut panels = all(panels.iter().enumerate().map(panel))?;
    share_names(&mut panels);
    let (title, subtitle) = (recipe.title.clone(), recipe.subtitle.clone());
    let (columns, width, panel_height) = (recipe.columns, recipe.width, recipe.height);
    let interval = recipe.interval.as_ref().map_or(INTERVAL, |text| text.get_ref());
    let key = signs(&panels, interval);
    Ok(Figure { title, subtitle, key, panels, columns, width, panel_height, ..Figure::default() })
}

/// Returns all results if none is an error; otherwise returns all errors.
fn all<T>(results: impl Iterator<Item = Result<T, PlotError>>) -> Result<Vec<T>, PlotError> {
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(one) => found.push(one),
            Err(error) => wrong.push(error),
        }
    }
    if wrong.is_empty() { Ok(found) } else { Err(PlotError::all(wrong)) }
}

/// Checks that every column, label and panel that the recipe names exists.
fn check(recipe: &Recipe, table: &Table, panels: &[PanelRecipe]) -> Result<(), PlotError> {
    let filters = panels.iter().map(|panel| &panel.filter).chain([&recipe.filter]);
    let named = filters.flat_map(BTreeMap::keys).chain(&recipe.group).chain([&recipe.x]);
    let named = named.chain(&recipe.names);
    let named = named.map(|name| find(recipe, table, name).map(drop));
    let drawn = panels.iter().flat_map(|panel| &panel.y);
    let drawn = drawn.map(|column| find(recipe, table, column).map(drop));
    let marks = (0..panels.len()).map(|panel| marks(recipe, panel, panels.len()).map(drop));
    let labels = check_labels(recipe, table);
    all(named.chain(drawn).chain(labels).chain(marks)).map(drop)
}

/// Returns the rows that are drawn in at least one panel.
fn drawn(recipe: &Recipe, table: &Table, panels: &[PanelRecipe]) -> Result<Table, PlotError> {
    let mut table = table.clone();
    let kept = passing(recipe, &table, &recipe.filter, "")?;
    table.retain(|_, row| kept.contains(&row));
    let mut kept = BTreeSet::new();
    for (index, panel) in panels.iter().enumerate() {
        let place = format!(" in panel {}", index + 1);
        kept.extend(passing(recipe, &table, &panel.filter, &place)?);
    }
    table.retain(|_, row| kept.contains(&row));
    Ok(table)
}

/// Returns the rows that `filter` selects; an error with `place` (such as `in panel 2`) if there are none.
fn passing(
    recipe: &Recipe,
    table: &Table,
    filter: &Filter,
    place: &str,
) -> Result<BTreeSet<usize>, PlotError> {
    let mut rows: BTreeSet<usize> = (0..table.len()).collect();
    let nothing =
        |at, why: &str| Err(recipe.problem(at, &format!("there are no rows to draw{place}{why}")));
    if rows.is_empty() {
        return nothing(0..0, "");
    }
    for (name, wanted) in filter {
        let column = find(recipe, table, name)?;
        let holds = |row: &usize| {
            let text = table.text(*row, column);
            wanted.holds(text) || kind(text).is_some_and(|kind| wanted.holds(kind))
        };
        let there: BTreeSet<&str> = rows.iter().map(|row| table.text(*row, column)).collect();
        rows.retain(holds);
        if rows.is_empty() {
            let (some, more) = (MOST_NAMED, there.len() > MOST_NAMED);
            let mut there = there.into_iter().take(some).collect::<Vec<_>>().join(", ");
            there.push_str(if more { ", …" } else { "" });
            let why = format!(": the filter leaves none; `{}` is {there}", name.get_ref());
            return nothing(name.span(), &format!("{why}, and never {wanted}"));
        }
    }
    Ok(rows)
}

/// Maximum number of values that a message lists.
pub(super) const MOST_NAMED: usize = 50;

/// Gives series of the same name the same colour in all panels. Adds to the first panel's legend the series that only panels
/// without a legend draw.
fn share_names(panels: &mut [Panel]) {
    let mut names: Vec<String> = Vec::new();
    let lines = panels.iter_mut().filter_map(|panel| match panel {
        Panel::Lines(lines) => Some(lines),
        Panel::Bars(_) | Panel::Heat(_) => None,
    });
    let mut panels: Vec<&mut Lines> = lines.collect();
    let of_own = |series: &&mut Series| series.style != Style::Front;
    for series in panels.iter_mut().flat_map(|lines| &mut lines.series).filter(of_own) {
        let known = names.iter().position(|name| *name == series.name);
        series.index = known.unwrap_or(names.len());
        if known.is_none() {
            names.push(series.name.clone());
        }
    }
    let [first, others @ ..] = &mut panels[..] else { return };
    for series in others.iter().filter(|of| !of.legend_shown).flat_map(|lines| &lines.series) {
        let known = first.series.iter().any(|of| of.name == series.name);
        if !known && series.style != Style::Front {
            let line = series.style == Style::Auto && !dotted(series);
            let style = if line { Style::Line } else { series.style };
            first.series.push(Series { points: Vec::new(), style, ..series.clone() });
        }
    }
}

/// The x axis and each row's position on it.
struct Below {
    spec: AxisSpec,
    places: Vec<Option<f64>>,
    categories: Vec<String>,
}

impl Below {
    fn new(recipe: &Recipe, table: &Table, panels: &[PanelRecipe]) -> Result<Below, PlotError> {
        let column = find(recipe, table, &recipe.x)?;
        let name = recipe.x.get_ref();
        let label = recipe.x_label.clone().unwrap_or_else(|| label_of(name));
        let range = ends(recipe.x_range.as_ref());
        let unit = recipe.x_unit.unwrap_or(unit_of(name));
        let place = recipe.place(recipe.x.span());
        let mut spec = AxisSpec { label, unit, scale: recipe.x_scale, range, place };
        let bars = panels.iter().any(|panel| style_asked(recipe, panel) == Some(DrawnAs::Bars));
        if let Some((places, unit)) = table.numbers(column).filter(|_| !bars) {
            if !unit.is_empty() {
                spec.label = format!("{} [{unit}]", spec.label);
            }
            return Ok(Below { spec, places, categories: Vec::new() });
        }
        let names = table.distinct(column);
        let at: HashMap<&str, usize> = names.iter().copied().zip(0..).collect();
        let place = |row| at.get(table.text(row, column)).map(|place| *place as f64);
        let places = (0..table.len()).map(place).collect();
        let categories = shown(recipe, &names);
        Ok(Below { spec, places, categories })
    }
}

/// Returns the style that the recipe sets for a panel, if any.
fn style_asked(recipe: &Recipe, panel: &PanelRecipe) -> Option<DrawnAs> {
    panel.style.as_ref().or(recipe.style.as_ref()).map(|style| *style.get_ref())
}

/// Returns the style of a panel's curves. Named positions have no order that a line could follow, so bars or points are drawn.
fn style(
    recipe: &Recipe,
    panel: &PanelRecipe,
    below: &Below,
    scale: Scale,
) -> Result<Style, PlotError> {
    let named = !below.categories.is_empty();
    match (style_asked(recipe, panel), scale) {
        (Some(DrawnAs::Bars), Scale::Log) => {
            let at = panel.style.as_ref().or(recipe.style.as_ref()).map_or(0..0, Spanned::span);
            let what = "bars begin at zero, which a logarithmic axis cannot show: leave out `y_scale`, or write `style = \
                        \"points\"`";
            Err(recipe.problem(at, what))
        }
        (Some(DrawnAs::Bars), Scale::Linear) => Ok(Style::Bars),
        (Some(DrawnAs::Lines), _) => Ok(Style::Auto),
        (Some(DrawnAs::Steps), _) => Ok(Style::Steps),
        (Some(DrawnAs::Points | DrawnAs::Heat | DrawnAs::Pareto), _) => Ok(Style::Points),
        (None, Scale::Linear) if named => Ok(Style::Bars),
        (None, Scale::Log) if named => Ok(Style::Points),
        (None, _) => Ok(Style::Auto),
    }
}

/// Returns one panel with its series.
fn lines(
    recipe: &Recipe,
    table: &Table,
    below: &Below,
    groups: &Groups,
    panel: &PanelRecipe,
) -> Result<Lines, PlotError> {
    if groups.len() * panel.y.len() > MOST_LINES {
        let what = format!(
            "{} values give {} lines, and at most {MOST_LINES} are drawn; choose some of them by `filter`, or group by \
             another column",
            groups.len(),
            groups.len() * panel.y.len()
        );
        let at = recipe.group.as_ref().map_or(0..0, Spanned::span);
        return Err(recipe.problem(at, &what));
    }
    let mut series = Vec::new();
    let scale = panel.y_scale.unwrap_or(recipe.y_scale);
    let style = style(recipe, panel, below, scale)?;
    let columns = all(panel.y.iter().map(|column| points(recipe, table, below, column)))?;
    for (column, points_of) in panel.y.iter().zip(columns) {
        for (group, rows) in groups {
            let label = name_of(column.get_ref(), panel);
            let name = match (panel.y.len(), group.as_str()) {
                (1, group) => group.to_owned(),
                (_, "") => label,
                (_, group) => format!("{label}, {group}"),
            };
            let mut points: Vec<Point> = rows.iter().filter_map(|row| points_of[*row]).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            series.push(Series { name, points, style, ..Series::default() });
        }
    }
    let (y, legend) = (y_axis(recipe, panel), legend(recipe));
    let (x, categories) = (below.spec.clone(), below.categories.clone());
    let (marks, labels, legend_shown, shares_x) = (Vec::new(), Vec::new(), true, false);
    Ok(Lines { x, y, series, marks, labels, legend, legend_shown, categories, shares_x })
}

/// Returns the y axis of a panel.
fn y_axis(recipe: &Recipe, panel: &PanelRecipe) -> AxisSpec {
    let first = panel.y.first().map_or("", |column| column.get_ref());
    let label = panel.y_label.clone().or_else(|| recipe.y_label.clone());
    AxisSpec {
        label: label.unwrap_or_else(|| label_of(first)),
        unit: panel.y_unit.or(recipe.y_unit).unwrap_or(unit_of(first)),
        scale: panel.y_scale.unwrap_or(recipe.y_scale),
        range: ends(panel.y_range.as_ref().or(recipe.y_range.as_ref())),
        place: panel.y.first().map_or_else(String::new, |column| recipe.place(column.span())),
    }
}

/// Returns the title of the legend.
fn legend(recipe: &Recipe) -> String {
    let group = recipe.group.as_ref().map(|group| label_of(group.get_ref()));
    recipe.group_label.clone().or(group).unwrap_or_default()
}

/// Column in which sweeps say why a run was too short to show the long run; empty for a run that was long enough.
const SHORT: &str = "too_short";

fn is_short(table: &Table, row: usize) -> bool {
    table.find(SHORT).is_some_and(|column| !table.text(row, column).trim().is_empty())
}

/// Returns a column's name in the legend. If all columns of the panel are stalls, the name is only the cause.
fn name_of(column: &str, panel: &PanelRecipe) -> String {
    let stalls = panel.y.iter().all(|column| column.get_ref().starts_with("stall_"));
    let cause = column.strip_prefix("stall_").filter(|_| stalls);
    cause.map_or_else(|| label_of(column), str::to_owned)
}

/// Returns the ends of an axis that the recipe sets.
fn ends(range: Option<&Spanned<[f64; 2]>>) -> [Option<f64>; 2] {
    range.map_or([None; 2], |range| range.get_ref().map(Some))
}

/// Returns the point of every row for one column; `None` for rows without a position.
fn points(
    recipe: &Recipe,
    table: &Table,
    below: &Below,
    column: &Spanned<String>,
) -> Result<Vec<Option<Point>>, PlotError> {
    let ys = numbers(recipe, table, column)?;
    let bands = bands(recipe, table, column)?;
    let point = |row: usize| {
        let short = is_short(table, row);
        Some(Point { x: below.places[row]?, y: ys[row], band: bands(row), short })
    };
    Ok((0..table.len()).map(point).collect())
}

/// Returns the values of a column.
fn numbers(
    recipe: &Recipe,
    table: &Table,
    name: &Spanned<String>,
) -> Result<Vec<Option<f64>>, PlotError> {
    let index = find(recipe, table, name)?;
    table.numbers(index).map(|(values, _)| values).ok_or_else(|| {
        let named = name.get_ref();
        let what = format!(
            "the column \"{named}\" does not hold numbers; draw one that does, or write it as `group`"
        );
        recipe.problem(name.span(), &what)
    })
}

/// Returns the interval of each row for one column: that between the columns with `_lo` and `_hi` appended, if the recipe asks for
/// intervals.
fn bands(
    recipe: &Recipe,
    table: &Table,
    column: &Spanned<String>,
) -> Result<impl Fn(usize) -> Option<[f64; 2]>, PlotError> {
    let end = |suffix: &&str| {
        let name = format!("{}{suffix}", column.get_ref());
        numbers(recipe, table, &Spanned::new(column.span(), name))
    };
    let ends = if recipe.has_bands() { &["_lo", "_hi"][..] } else { &[] };
    let mut ends = all(ends.iter().map(end))?.into_iter();
    let (lows, highs) = (ends.next(), ends.next());
    Ok(move |row: usize| {
        let at = |ends: &Option<Vec<Option<f64>>>| ends.as_ref().and_then(|ends| ends[row]);
        at(&lows).zip(at(&highs)).map(|(low, high)| [low, high])
    })
}

/// Returns the reference lines of a panel.
fn marks(recipe: &Recipe, panel: usize, panels: usize) -> Result<Vec<Mark>, PlotError> {
    let mark = |line: &LineRecipe| {
        let (at, vertical) = match (&line.x, &line.y) {
            (Some(x), None) => (x, true),
            (None, Some(y)) => (y, false),
            _ => return Err(recipe.problem(0..0, "a [[line]] needs either `x` or `y`")),
        };
        if line.panel.is_some_and(|wanted| wanted == 0 || wanted > panels) {
            let what = format!("there is no such panel: they are 1 to {panels}");
            return Err(recipe.problem(at.span(), &what));
        }
        // A vertical line through all panels is labelled only in the first one.
        let named = panel == 0 || !vertical || line.panel.is_some();
        let label = if named { line.label.clone() } else { String::new() };
        let here = line.panel.is_none_or(|wanted| wanted == panel + 1);
        Ok(here.then_some(Mark { at: *at.get_ref(), vertical, label }))
    };
    recipe.line.iter().filter_map(|line| mark(line).transpose()).collect()
}

/// Returns the index of a column; an error that lists the columns if it does not exist.
pub(super) fn find(
    recipe: &Recipe,
    table: &Table,
    name: &Spanned<String>,
) -> Result<usize, PlotError> {
    let wanted = name.get_ref();
    table.find(wanted).ok_or_else(|| {
        let all = table.columns();
        let plain = |column: &&String| !column.ends_with("_lo") && !column.ends_with("_hi");
        let names: Vec<&str> = all.iter().filter(plain).map(String::as_str).collect();
        let distance = |column: &&&str| strsim::damerau_levenshtein(wanted, column);
        let nearest = names.iter().min_by_key(distance).filter(|column| distance(column) <= 3);
        let hint = nearest.map_or(String::new(), |column| format!(" (did you mean \"{column}\"?)"));
        let what = format!("there is no column \"{wanted}\"{hint}; there are {}", names.join(", "));
        recipe.problem(name.span(), &what)
    })
}
