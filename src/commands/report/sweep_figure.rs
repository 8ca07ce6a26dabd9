//! The figures of a sweep: curves over the key with the most values, or heat maps where there are too many curves.

use super::sweep::{Row, Rows};
use crate::commands::keys::{number, short_names};
use crate::commands::plan_figure;
use crate::metric::Metric;
use crate::page::Block;
use crate::plan::goal::with_interval;
use crate::plot::{self, AxisSpec, Cell, Figure, Heat, Lines, Panel, Point, Scale, Series, Style};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Curves in a panel at most: more colours cannot be told apart.
const CURVES: usize = 8;
/// Panels of a figure at most.
const PANELS: usize = 6;
/// Columns of a heat map at most.
const HEAT_COLUMNS: usize = 16;
/// Rows of a heat map at most.
const HEAT_ROWS: usize = 40;
/// A curve: its name, and its rows.
#[derive(Clone)]
struct Curve<'r> {
    name: String,
    rows: Vec<&'r Row>,
}

/// The curves of a panel: rows with the same values of all keys except that on the x axis and that which tells curves apart.
struct Group<'r> {
    /// The values that its curves share, in words.
    name: String,
    curves: Vec<Curve<'r>>,
}

/// How the rows of a sweep are drawn.
struct Drawn<'r> {
    rows: &'r Rows,
    metric: &'static Metric,
    /// Index of the figure.
    figure: usize,
    /// Index of the key on the x axis.
    x: usize,
    /// Its distinct values, in the order of the file.
    values: Vec<&'r str>,
    is_number: bool,
}

/// Returns the figure with this index, and a sentence on what it leaves out.
pub(super) fn blocks(rows: &Rows, figure: usize) -> Vec<Block> {
    let values: Vec<Vec<&str>> = (0..rows.keys.len()).map(|key| rows.values(key)).collect();
    let is_number = |key: &usize| values[*key].iter().all(|text| number(text).is_some());
    let mut keys: Vec<usize> = (0..rows.keys.len()).collect();
    keys.sort_by_cached_key(|key| (!is_number(key), Reverse(values[*key].len())));
    let (x, mut others) = (keys[0], keys.split_off(1));
    others.retain(|key| values[*key].len() > 1);
    let (is_number, metric) = (is_number(&x), rows.metrics[figure]);
    let of = Drawn { rows, metric, figure, x, values: values[x].clone(), is_number };
    // Curves are told apart by the second key and by jobs, panels by the rest.
    let groups = of.groups(others.first().copied(), others.get(1..).unwrap_or_default());
    let mut panels = Vec::new();
    let mut fewer = None;
    for Group { name, curves } in groups.iter().take(PANELS) {
        let heat = (curves.len() > CURVES).then(|| of.heat(name, curves)).flatten();
        panels.push(heat.unwrap_or_else(|| {
            let shown = spread(curves);
            fewer = (shown.len() < curves.len()).then_some(curves.len()).or(fewer);
            of.lines(name, &shown)
        }));
    }
    if panels.is_empty() {
        return Vec::new();
    }
    let notes = [
        (groups.len() > PANELS)
            .then(|| format!("{PANELS} of {} combinations of the other keys", groups.len())),
        fewer.map(|all| format!("{CURVES} of {all} curves")),
    ];
    let subtitle = notes.into_iter().flatten().collect::<Vec<_>>().join("; ");
    let rest = (!subtitle.is_empty())
        .then(|| "Not everything fits into the figure; the table has every point.".to_owned());
    let title = format!("{} over `{}`", metric.label, rows.keys[x]);
    let key = plot::signs(&panels, "interval of the sweep");
    let columns = panels.len().min(2);
    let figure = Figure { title, subtitle, key, panels, columns, ..Figure::default() };
    std::iter::once(Block::Figure(Box::new(figure))).chain(rest.map(Block::Paragraph)).collect()
}

impl<'r> Drawn<'r> {
    /// Returns the rows by panel and curve, in the order of the file.
    fn groups(&self, between_curves: Option<usize>, between_groups: &[usize]) -> Vec<Group<'r>> {
        let keys: Vec<&str> = self.rows.keys.iter().map(String::as_str).collect();
        let names = short_names(&keys);
        let named = |keys: &[usize], row: &Row| {
            let one = |key: &usize| format!("{} {}", names[*key], row.at[*key]);
            keys.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        let mut groups: Vec<Group<'r>> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        let mut places_of_curves: BTreeMap<(usize, String), usize> = BTreeMap::new();
        for row in &self.rows.rows {
            let name = named(between_groups, row);
            let at = *places.entry(name.clone()).or_insert_with(|| {
                groups.push(Group { name, curves: Vec::new() });
                groups.len() - 1
            });
            let mut words: Vec<String> = Vec::new();
            words.extend((self.rows.jobs.len() > 1).then(|| row.job.clone()));
            words.extend(between_curves.map(|key| named(&[key], row)));
            let name = words.join(", ");
            let curves = &mut groups[at].curves;
            let at = *places_of_curves.entry((at, name.clone())).or_insert_with(|| {
                curves.push(Curve { name, rows: Vec::new() });
                curves.len() - 1
            });
            curves[at].rows.push(row);
        }
        groups
    }

    /// Returns the label of the y axis of a group's panel: the metric, and the values that the group's curves share.
    fn label(&self, group: &str) -> String {
        let between = if group.is_empty() { "" } else { ", " };
        format!("{}{between}{group}", self.metric.label)
    }

    fn axis(&self, label: String) -> AxisSpec {
        AxisSpec { label, unit: plot::unit_of(&self.metric.column), ..AxisSpec::default() }
    }

    fn lines(&self, group: &str, curves: &[Curve<'_>]) -> Panel {
        let style = match (self.is_number, curves.len()) {
            (true, _) => Style::Auto,
            (false, 1) => Style::Bars,
            (false, _) => Style::Points,
        };
        let one = |(index, curve): (usize, &Curve<'_>)| {
            let mut points: Vec<Point> =
                curve.rows.iter().filter_map(|row| self.point(row)).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            Series { name: curve.name.clone(), points, index, style }
        };
        let series: Vec<Series> = curves.iter().enumerate().map(one).collect();
        let values = series.iter().flat_map(|of| &of.points).map(|point| point.x);
        let scale = if self.is_number { plan_figure::scale(values) } else { Scale::Linear };
        let first = self.values.first().and_then(|text| number(text));
        let x = AxisSpec {
            label: self.rows.keys[self.x].clone(),
            unit: first.filter(|_| self.is_number).map_or(plot::Unit::Number, |(_, unit)| unit),
            scale,
            ..AxisSpec::default()
        };
        let names = self.values.iter().filter(|_| !self.is_number);
        Panel::Lines(Lines {
            x,
            y: self.axis(self.label(group)),
            legend_shown: series.len() > 1,
            series,
            categories: names.map(|&name| name.to_owned()).collect(),
            ..Lines::default()
        })
    }

    fn point(&self, row: &Row) -> Option<Point> {
        let text = &row.at[self.x];
        let x = match self.is_number {
            true => number(text)?.0,
            false => self.values.iter().position(|of| of == text)? as f64,
        };
        let (y, band) = row.figures[self.figure];
        Some(Point { x, y, band, short: self.rows.is_short(row) })
    }

    /// Returns curves as the rows of a heat map, or as its columns if they are fewer; `None` if both are too many.
    fn heat(&self, group: &str, curves: &[Curve<'_>]) -> Option<Panel> {
        let values: Vec<String> = self.values.iter().map(|&value| value.to_owned()).collect();
        let names: Vec<String> = curves.iter().map(|curve| curve.name.clone()).collect();
        let fits = |rows: usize, columns: usize| rows <= HEAT_ROWS && columns <= HEAT_COLUMNS;
        let is_upright = match (fits(names.len(), values.len()), fits(values.len(), names.len())) {
            (true, _) => false,
            (false, true) => true,
            (false, false) => return None,
        };
        let cell = |curve: &Curve<'_>, at: &str| {
            let row = curve.rows.iter().find(|row| row.at[self.x] == *at)?;
            let value = row.figures[self.figure].0?;
            let text = with_interval(value, None, self.metric.unit.below_its_name(), "");
            Some(Cell { value, text, short: self.rows.is_short(row) })
        };
        let cells: Vec<Vec<Option<Cell>>> = match is_upright {
            true => {
                let row = |at: &String| curves.iter().map(|curve| cell(curve, at)).collect();
                values.iter().map(row).collect()
            }
            false => {
                let row = |curve: &Curve<'_>| values.iter().map(|at| cell(curve, at)).collect();
                curves.iter().map(row).collect()
            }
        };
        if cells.iter().flatten().all(Option::is_none) {
            return None;
        }
        let (rows, columns) = if is_upright { (values, names) } else { (names, values) };
        let key = self.rows.keys[self.x].clone();
        let (label, row_label) =
            if is_upright { (String::new(), key) } else { (key, String::new()) };
        let bar = Some(self.axis(self.label(group)));
        Some(Panel::Heat(Heat { rows, columns, cells, label, row_label, bar, ..Heat::default() }))
    }
}

/// Returns at most [`CURVES`] of the curves, evenly spread, with the first and the last.
fn spread<T: Clone>(curves: &[T]) -> Vec<T> {
    match curves.len() <= CURVES {
        true => curves.to_vec(),
        false => {
            let last = curves.len() - 1;
            (0..CURVES).map(|at| curves[at * last / (CURVES - 1)].clone()).collect()
        }
    }
}
