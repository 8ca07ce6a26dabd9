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
    /// What the figure shows (default: no title).
    #[serde(default)]
    pub title: String,
    /// What the title leaves to say (default: nothing).
    #[serde(default)]
    pub subtitle: String,
    /// Where rows come from (default: the rows of `--data`).
    pub data: Option<Data>,
    /// Column of the axis below.
    #[schemars(with = "String")]
    pub x: Spanned<String>,
    /// Columns of the only panel; with several panels each has its own (default: none).
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub y: Vec<Spanned<String>>,
    /// Column whose values get a line each (default: one line for all rows).
    #[schemars(with = "Option<String>")]
    pub group: Option<Spanned<String>>,
    /// Panels, where there are several (default: one, with the columns of `y`).
    #[serde(default)]
    pub panel: Vec<PanelRecipe>,
    /// Panels side by side (default: 1).
    #[serde(default = "one")]
    pub columns: usize,
    /// Label of the axis below (default: the column's name in words).
    pub x_label: Option<String>,
    /// Label of the upright axis (default: the first column's name in words).
    pub y_label: Option<String>,
    /// Title of the legend (default: the name of the column `group` in words).
    pub group_label: Option<String>,
    /// What values of `group`, or of `x` where these are names, are called: by the value as the sweep has it, or by
    /// its kind (default: the values themselves).
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub labels: BTreeMap<Spanned<String>, String>,
    /// How values below become places (default: "linear").
    #[serde(default)]
    pub x_scale: Scale,
    /// How values of the upright axes become places (default: "linear").
    #[serde(default)]
    pub y_scale: Scale,
    /// What the axis below is measured in (default: the column's unit).
    pub x_unit: Option<Unit>,
    /// What the upright axis is measured in (default: the first column's unit).
    pub y_unit: Option<Unit>,
    /// Ends of the axis below (default: so that all values fit).
    #[schemars(with = "Option<[f64; 2]>")]
    pub x_range: Option<Spanned<[f64; 2]>>,
    /// Ends of the upright axis (default: so that all values fit).
    #[schemars(with = "Option<[f64; 2]>")]
    pub y_range: Option<Spanned<[f64; 2]>>,
    /// How values are drawn (default: "bars" where the places below are names, "lines" elsewhere).
    #[schemars(with = "Option<DrawnAs>")]
    pub style: Option<Spanned<DrawnAs>>,
    /// Whether to shade the intervals between the columns' `_lo` and `_hi` (default: false).
    #[serde(default)]
    pub band: bool,
    /// Which rows to draw: columns and the value, or one of the values, that they must have (default: all rows).
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, AcceptedValues>")]
    pub filter: Filter,
    /// Reference lines (default: none).
    #[serde(default)]
    pub line: Vec<LineRecipe>,
    /// Width of the figure [pixels] (default: 720, or 480 for each of several panels side by side).
    #[serde(default)]
    pub width: u32,
    /// Height of each panel [pixels] (default: so that it fits).
    #[serde(default)]
    pub height: u32,
    /// The file's name and text, for messages.
    #[serde(skip)]
    source: (String, String),
}

/// Where rows come from.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// A CSV file with a header, looked up beside the recipe; or `scenario` (default: none).
    csv: Option<String>,
    /// A scenario, looked up beside the recipe, whose sweep gives the rows (default: none).
    scenario: Option<String>,
    /// Changes to the scenario, `key=value` (default: none).
    #[serde(default)]
    set: Vec<String>,
    /// Whether to run the scenario once and draw it over time, rather than to sweep it (default: false).
    #[serde(default)]
    series: bool,
    /// Most points over time; neighbours are averaged (default: 1000).
    #[schemars(with = "Option<u32>")]
    points: Option<NonZeroUsize>,
    /// What to draw the distribution of, at each point of the sweep (default: none).
    distribution: Option<Distribution>,
}

/// How the values of a column are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DrawnAs {
    /// Connected from point to point.
    Lines,
    /// Each value holds up to the next point.
    Steps,
    /// Dots that nothing connects.
    Points,
    /// Upright bars from zero, a group of them for each place below.
    Bars,
}

/// What has a distribution: rows have a column of this name with its values, and `share`, of the time in which it is at
/// most that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// The part of a GPU that is in use.
    GpuOccupancy,
}

/// Most points over time that are drawn unless a recipe says otherwise.
const POINTS: usize = 1000;

/// Where rows come from, checked. Paths are as written: relative to the recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataSource<'a> {
    /// A CSV file.
    Csv(&'a str),
    /// A scenario to sweep, or to run once.
    Scenario {
        /// The scenario file.
        path: &'a str,
        /// Changes to it, `key=value`.
        set: &'a [String],
        /// Which rows it gives.
        rows: Rows,
    },
}

/// Rows of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// One for each point of its sweep and each job.
    Sweep,
    /// Several, in which something is distributed.
    Distribution(Distribution),
    /// Those of one run over time, at most so many.
    Series(usize),
}

/// One of several panels; what it does not say is as the recipe says.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PanelRecipe {
    /// Columns to draw.
    #[schemars(with = "Vec<String>")]
    pub y: Vec<Spanned<String>>,
    /// Label of the upright axis (default: as the recipe says).
    pub y_label: Option<String>,
    /// How its values become places (default: as the recipe says).
    pub y_scale: Option<Scale>,
    /// What it is measured in (default: as the recipe says).
    pub y_unit: Option<Unit>,
    /// Its ends (default: as the recipe says).
    #[schemars(with = "Option<[f64; 2]>")]
    pub y_range: Option<Spanned<[f64; 2]>>,
    /// How its values are drawn (default: as the recipe says).
    #[schemars(with = "Option<DrawnAs>")]
    pub style: Option<Spanned<DrawnAs>>,
    /// Which of the recipe's rows it draws (default: all of them).
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, AcceptedValues>")]
    pub filter: Filter,
}

/// A reference line, upright at `x` or level at `y`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LineRecipe {
    /// Place on the axis below; or `y` (default: none).
    #[schemars(with = "Option<f64>")]
    pub x: Option<Spanned<f64>>,
    /// Place on the upright axis; or `x` (default: none).
    #[schemars(with = "Option<f64>")]
    pub y: Option<Spanned<f64>>,
    /// What it stands for (default: no label).
    #[serde(default)]
    pub label: String,
    /// Which panel it is in, from 1 (default: all of them).
    pub panel: Option<usize>,
}

/// JSON Schema of a recipe, from the types that read it.
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Recipe).to_value()
}

fn one() -> usize {
    1
}

impl Recipe {
    /// Reads a recipe; `name` is what messages call it. All that is wrong with it is said at once.
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

    /// Where rows come from; `None` if the recipe leaves that to the user.
    pub fn data_source(&self) -> Result<Option<DataSource<'_>>, PlotError> {
        let Some(data) = &self.data else { return Ok(None) };
        // Only series over time have points to average.
        let rows = match (data.series, data.points, data.distribution) {
            (true, points, None) => Some(Rows::Series(points.map_or(POINTS, NonZeroUsize::get))),
            (false, None, Some(of)) => Some(Rows::Distribution(of)),
            (false, None, None) => Some(Rows::Sweep),
            _ => None,
        };
        match (&data.csv, &data.scenario, rows) {
            (Some(path), None, Some(Rows::Sweep)) if data.set.is_empty() => {
                Ok(Some(DataSource::Csv(path)))
            }
            (None, Some(path), Some(rows)) => {
                Ok(Some(DataSource::Scenario { path, set: &data.set, rows }))
            }
            _ => Err(self.problem(
                0..0,
                "[data] needs either `csv`, or `scenario` with perhaps `set` and either `series` \
                 (with perhaps `points`) or `distribution`",
            )),
        }
    }

    /// Whether each line is a distribution, of which a place below has one value.
    pub(super) fn is_distribution(&self) -> bool {
        self.data.as_ref().is_some_and(|data| data.distribution.is_some())
    }

    /// This place of the file as messages have it.
    pub(super) fn place(&self, at: Range<usize>) -> String {
        let (name, text) = &self.source;
        let place = (!at.is_empty()).then(|| format!(":{}", position(text, at.start)));
        format!("{name}{}", place.unwrap_or_default())
    }

    /// A problem at this place of the file.
    pub(super) fn problem(&self, at: Range<usize>, what: &str) -> PlotError {
        PlotError::Recipe(vec![(at.start, format!("cannot use {}: {what}", self.place(at)))])
    }
}

/// Most problems of a recipe that are looked for.
const MOST_PROBLEMS: usize = 20;

/// The recipe that a text holds, without what is wrong with it, and what that is.
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
        // Whatever is wrong is left out, to see what else is.
        let error = match Recipe::deserialize(toml::Deserializer::from(document.clone())) {
            Ok(recipe) => return (Some(recipe), wrong),
            Err(error) => error,
        };
        let missing = error.message().strip_prefix("missing field `");
        let missing = missing.and_then(|rest| rest.split('`').next()).map(str::to_owned);
        let span = error.span().unwrap_or(0..0);
        // What was left out is missing then.
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

/// Leaves out the entry whose key or value is at this place, and gives its key.
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

/// What was perhaps meant by an unknown key.
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

/// Line and column of a byte of a text.
fn position(text: &str, byte: usize) -> String {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    format!("{line}:{column}")
}
