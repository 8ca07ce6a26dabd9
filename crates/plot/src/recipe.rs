//! Recipes: TOML files that say which columns to draw, and how.

use super::filter::{AcceptedValues, Filter};
use super::{PlotError, Scale, Unit};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// A figure recipe: which columns of which rows to draw, and how.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "forebay figure recipe")]
pub struct Recipe {
    /// Title of the figure (default: no title).
    #[serde(default)]
    pub title: String,
    /// Subtitle below the title (default: none).
    #[serde(default)]
    pub subtitle: String,
    /// Source of the rows (default: the rows of `--data`).
    pub data: Option<Data>,
    /// Column for the x axis.
    #[schemars(with = "String")]
    pub x: Spanned<String>,
    /// Columns to draw, if there is one panel; with several panels each has its own (default: none).
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub y: Vec<Spanned<String>>,
    /// Column whose values distinguish the lines: one line for each value (default: one line for all rows).
    #[schemars(with = "Option<String>")]
    pub group: Option<Spanned<String>>,
    /// Panels, if there are several (default: one, with the columns of `y`).
    #[serde(default)]
    pub panel: Vec<PanelRecipe>,
    /// Number of panels side by side (default: 1).
    #[serde(default = "one")]
    pub columns: usize,
    /// Label of the x axis (default: the column's name in words).
    pub x_label: Option<String>,
    /// Label of the y axis (default: the first column's name in words).
    pub y_label: Option<String>,
    /// Title of the legend (default: the name of the column `group` in words).
    pub group_label: Option<String>,
    /// Labels for values of `group`, or of `x` if its values are names. The key is the value as in the sweep, or its kind
    /// (default: the values themselves).
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub labels: BTreeMap<Spanned<String>, String>,
    /// Scale of the x axis (default: "linear").
    #[serde(default)]
    pub x_scale: Scale,
    /// Scale of the y axes (default: "linear").
    #[serde(default)]
    pub y_scale: Scale,
    /// Unit of the x axis (default: the column's unit).
    pub x_unit: Option<Unit>,
    /// Unit of the y axis (default: the first column's unit).
    pub y_unit: Option<Unit>,
    /// Lower and upper end of the x axis (default: so that all values fit).
    #[schemars(with = "Option<[f64; 2]>")]
    pub x_range: Option<Spanned<[f64; 2]>>,
    /// Lower and upper end of the y axis (default: so that all values fit).
    #[schemars(with = "Option<[f64; 2]>")]
    pub y_range: Option<Spanned<[f64; 2]>>,
    /// How values are drawn (default: "bars" if the values of `x` are names, otherwise "lines").
    #[schemars(with = "Option<DrawnAs>")]
    pub style: Option<Spanned<DrawnAs>>,
    /// Whether to draw the intervals between the columns with `_lo` and `_hi` appended to their names: shaded around lines, as thin
    /// lines at bars and points (default: false).
    #[serde(default)]
    #[schemars(with = "bool")]
    pub band: Option<Spanned<bool>>,
    /// What the intervals of `band` are, in words for the figure's key (default: "95 % interval").
    #[schemars(with = "Option<String>")]
    pub interval: Option<Spanned<String>>,
    /// Which values of `x` are better, with the style "pareto" (default: as for the column in reports).
    #[schemars(with = "Option<Direction>")]
    pub x_better: Option<Spanned<Direction>>,
    /// Which values of `y` are better, with the style "pareto" (default: as for the column in reports).
    #[schemars(with = "Option<Direction>")]
    pub y_better: Option<Spanned<Direction>>,
    /// Columns whose values name the dots on the front, with the style "pareto" (default: `group` or, without it, all swept keys).
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub names: Vec<Spanned<String>>,
    /// Which rows to draw: columns, each with the value or the list of values that it may have (default: all rows).
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, AcceptedValues>")]
    pub filter: Filter,
    /// Reference lines (default: none).
    #[serde(default)]
    pub line: Vec<LineRecipe>,
    /// Width of the figure [pixels] (default: 720, or 480 for each of several panels side by side).
    #[serde(default)]
    pub width: u32,
    /// Height of each panel [pixels] (default: 320, or 150 for each of several panels).
    #[serde(default)]
    pub height: u32,
    /// The recipe file's name and text, for messages.
    #[serde(skip)]
    source: (String, String),
}

/// Source of the rows.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// A CSV file with a header; the path is relative to the recipe. Alternative to `scenario` (default: none).
    csv: Option<String>,
    /// A scenario file whose sweep gives the rows; the path is relative to the recipe (default: none).
    scenario: Option<String>,
    /// Changes to the scenario, `key=value` (default: none).
    #[serde(default)]
    set: Vec<String>,
    /// Keys to remove from the scenario before the changes of `set`, as `--unset` does (default: none).
    #[serde(default)]
    unset: Vec<String>,
    /// Keys to sweep, with their values, as `--vary` of `sweep` takes them; they are added to the scenario's `[sweep]` or replace the
    /// same keys there (default: none).
    #[serde(default)]
    vary: Vec<String>,
    /// Whether to run the scenario once and draw it over time, instead of running its sweep (default: false).
    #[serde(default)]
    series: bool,
    /// Largest number of points over time; neighbouring points are averaged (default: 1000).
    #[schemars(with = "Option<u32>")]
    points: Option<NonZeroUsize>,
    /// Quantity whose distribution to draw, at each point of the sweep (default: none).
    distribution: Option<Distribution>,
}

impl Data {
    /// Whether nothing here changes a scenario.
    fn changes_nothing(&self) -> bool {
        self.set.is_empty() && self.unset.is_empty() && self.vary.is_empty()
    }
}

/// How the values of a column are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DrawnAs {
    /// A line that connects the points.
    Lines,
    /// Steps: each value holds up to the next point.
    Steps,
    /// Dots without a line between them.
    Points,
    /// Vertical bars from zero, one group for each value of `x`.
    Bars,
    /// A heat map: a cell for each value of `x` (across) and of `group` (down), the darker, the larger its value.
    Heat,
    /// Dots with the front of those that no other one beats in both `x` and `y`; the dots on the front have names.
    Pareto,
}

/// Which values of an axis are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Smaller values are better.
    Lower,
    /// Larger values are better.
    Higher,
}

/// A quantity whose distribution can be drawn. Rows have a column of this name with its values, and a column `share` with the
/// share of time in which the quantity is at most this value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// The part of a GPU that is occupied by kernels.
    GpuOccupancy,
}

/// Default limit for the number of points over time.
const POINTS: usize = 1000;

/// Source of the rows, after checks. Paths are as in the recipe: relative to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataSource<'a> {
    /// A CSV file.
    Csv(&'a str),
    /// A scenario to sweep, or to run once.
    Scenario {
        /// The scenario file.
        path: &'a str,
        /// Changes to the scenario, `key=value`.
        set: &'a [String],
        /// Keys to remove before these changes.
        unset: &'a [String],
        /// Keys with lists of values to sweep, as `--vary` reads them.
        vary: &'a [String],
        /// Kind of rows to make from the scenario.
        rows: Rows,
    },
}

/// The kind of rows that a scenario gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// One row for each job at each point of the scenario's sweep.
    Sweep,
    /// Rows of a distribution for each point of the scenario's sweep.
    Distribution(Distribution),
    /// Rows of one run over time; the number is the maximum number of rows.
    Series(usize),
}

/// One of several panels; settings that it leaves out are as in the recipe.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PanelRecipe {
    /// Columns to draw.
    #[schemars(with = "Vec<String>")]
    pub y: Vec<Spanned<String>>,
    /// Label of the y axis (default: as in the recipe).
    pub y_label: Option<String>,
    /// Scale of the y axis (default: as in the recipe).
    pub y_scale: Option<Scale>,
    /// Unit of the y axis (default: as in the recipe).
    pub y_unit: Option<Unit>,
    /// Lower and upper end of the y axis (default: as in the recipe).
    #[schemars(with = "Option<[f64; 2]>")]
    pub y_range: Option<Spanned<[f64; 2]>>,
    /// How values are drawn (default: as in the recipe).
    #[schemars(with = "Option<DrawnAs>")]
    pub style: Option<Spanned<DrawnAs>>,
    /// Which of the recipe's rows to draw (default: all of them).
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, AcceptedValues>")]
    pub filter: Filter,
}

/// A reference line: vertical at `x` or horizontal at `y`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LineRecipe {
    /// Position of a vertical line on the x axis; write either `x` or `y` (default: none).
    #[schemars(with = "Option<f64>")]
    pub x: Option<Spanned<f64>>,
    /// Position of a horizontal line on the y axis; write either `x` or `y` (default: none).
    #[schemars(with = "Option<f64>")]
    pub y: Option<Spanned<f64>>,
    /// Label of the line (default: no label).
    #[serde(default)]
    pub label: String,
    /// Number of the panel that shows the line, from 1 (default: all panels).
    pub panel: Option<usize>,
}

/// Returns the JSON Schema of a recipe, generated from the types that parse it.
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Recipe).to_value()
}

fn one() -> usize {
    1
}

impl Recipe {
    /// Parses a recipe; `name` is its name in messages. All problems are reported at once.
    pub fn parse(name: &str, text: &str) -> Result<Recipe, PlotError> {
        let (mut recipe, mut wrong) = read(name, text);
        if let Some(recipe) = &mut recipe {
            recipe.source = (name.to_owned(), text.to_owned());
            if recipe.y.is_empty() == recipe.panel.is_empty() && wrong.is_empty() {
                let what = "say which columns to draw, either `y = [\"step_time\"]` for one panel or a \
                            [[panel]] table with `y` for each of several";
                wrong.push(recipe.problem(0..0, what));
            }
            wrong.extend(recipe.data_source().err());
        }
        match recipe {
            Some(recipe) if wrong.is_empty() => Ok(recipe),
            _ => Err(PlotError::all(wrong)),
        }
    }

    /// Returns the source of the rows; `None` if the recipe leaves it to the command line.
    pub fn data_source(&self) -> Result<Option<DataSource<'_>>, PlotError> {
        let Some(data) = &self.data else { return Ok(None) };
        // `points` is valid only for series over time, as only their points are averaged.
        let rows = match (data.series, data.points, data.distribution) {
            (true, points, None) => Some(Rows::Series(points.map_or(POINTS, NonZeroUsize::get))),
            (false, None, Some(of)) => Some(Rows::Distribution(of)),
            (false, None, None) => Some(Rows::Sweep),
            _ => None,
        };
        match (&data.csv, &data.scenario, rows) {
            (Some(path), None, Some(Rows::Sweep)) if data.changes_nothing() => {
                Ok(Some(DataSource::Csv(path)))
            }
            (None, Some(path), Some(rows)) if !data.series || data.vary.is_empty() => {
                let (set, unset, vary) = (&data.set, &data.unset, &data.vary);
                Ok(Some(DataSource::Scenario { path, set, unset, vary, rows }))
            }
            _ => Err(self.problem(
                0..0,
                "[data] needs either `csv`, or `scenario`, optionally with `set` or `unset`, and with either `series` (and `points`), or \
                 `vary` or `distribution`",
            )),
        }
    }

    /// Returns whether intervals are drawn.
    pub(super) fn has_bands(&self) -> bool {
        self.band.as_ref().is_some_and(|band| *band.get_ref())
    }

    /// Returns whether each line is a distribution, which has one value at each position on the x axis.
    pub(super) fn is_distribution(&self) -> bool {
        self.data.as_ref().is_some_and(|data| data.distribution.is_some())
    }

    /// Formats a position in the recipe for messages.
    pub(super) fn place(&self, at: Range<usize>) -> String {
        let (name, text) = &self.source;
        let place = (!at.is_empty()).then(|| format!(":{}", position(text, at.start)));
        format!("{name}{}", place.unwrap_or_default())
    }

    /// Returns an error for a problem at this position in the recipe.
    pub(super) fn problem(&self, at: Range<usize>, what: &str) -> PlotError {
        PlotError::Recipe(vec![(at.start, format!("cannot use {}: {what}", self.place(at)))])
    }
}

/// Maximum number of problems reported for a recipe.
const MOST_PROBLEMS: usize = 20;

/// Parses a recipe and returns it with its problems; `None` in place of the recipe if it has any.
fn read(name: &str, text: &str) -> (Option<Recipe>, Vec<PlotError>) {
    let told = |mut error: toml::de::Error| {
        error.set_input(Some(text));
        let (at, near) = (error.span().unwrap_or(0..0).start, nearest(&error));
        let (place, what) = (position(text, at), error.to_string());
        PlotError::Recipe(vec![(
            at,
            format!("cannot use {name}:{place}: {}{near}", what.trim_end()),
        )])
    };
    let (mut document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return (None, errors.into_iter().take(MOST_PROBLEMS).map(told).collect());
    }
    let (mut wrong, mut removed) = (Vec::new(), Vec::new());
    while wrong.len() < MOST_PROBLEMS {
        // Each invalid entry is removed, to find further problems.
        let error = match Recipe::deserialize(toml::Deserializer::from(document.clone())) {
            Ok(recipe) => return (Some(recipe), wrong),
            Err(error) => error,
        };
        let missing = error.message().strip_prefix("missing field `");
        let missing = missing.and_then(|rest| rest.split('`').next()).map(str::to_owned);
        let span = error.span().unwrap_or(0..0);
        // A removed entry is reported as missing later; that is no further problem.
        if missing.is_none_or(|missing| !removed.contains(&missing)) {
            wrong.push(told(error));
        }
        match remove(document.get_mut(), &span) {
            Some(key) => removed.push(key),
            None => break,
        }
    }
    (None, wrong)
}

/// Removes the entry whose key or value is at this position, and returns its key.
fn remove(table: &mut DeTable<'_>, at: &Range<usize>) -> Option<String> {
    let is_there = |(key, value): &(&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| {
        let element = |element: &Spanned<DeValue<'_>>| element.span() == *at;
        let list = value.get_ref().as_array();
        let inside = list.is_some_and(|list| list.iter().any(element));
        inside || key.span() == *at || value.span() == *at
    };
    let found = table.iter().find(is_there).map(|(key, _)| key.clone());
    if let Some(key) = found {
        table.remove(&key);
        return Some(key.into_inner().into_owned());
    }
    table.iter_mut().find_map(|(_, value)| match value.get_mut() {
        DeValue::Table(table) => remove(table, at),
        DeValue::Array(list) => list.iter_mut().find_map(|value| match value.get_mut() {
            DeValue::Table(table) => remove(table, at),
            _ => None,
        }),
        _ => None,
    })
}

/// Returns a hint with the known key that is most similar to an unknown one.
fn nearest(error: &toml::de::Error) -> String {
    let mut quoted = error.message().split('`').skip(1).step_by(2);
    let (true, Some(unknown)) = (error.message().starts_with("unknown field"), quoted.next())
    else {
        return String::new();
    };
    let distance = |known: &&str| strsim::damerau_levenshtein(unknown, known);
    let nearest = quoted.min_by_key(distance).filter(|known| distance(known) <= 3);
    nearest.map_or_else(String::new, |known| format!("; did you mean `{known}`?"))
}

/// Returns line and column of a byte offset in a text.
fn position(text: &str, byte: usize) -> String {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    format!("{line}:{column}")
}
