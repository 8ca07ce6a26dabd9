//! The section of a sweep: its rows as a table, and its figures over the swept keys.

use super::provenance::ORIGIN;
use super::read::{counted, value_cell, with_range};
use super::sweep_figure;
use crate::commands::diff;
use crate::metric::{self, Better, Metric, Unit};
use crate::page::{Block, Cell, Column, Part, Section, Table as PageTable};
use crate::plan::goal::with_interval;
use crate::plot::Table;
use crate::report::format::share;
use std::collections::{BTreeMap, BTreeSet};

/// Figures that are drawn if they are among the columns.
const DRAWN: [&str; 3] = ["samples_per_second", "accelerator_utilisation", "step_time"];

/// Rows of a page at most: browsers are slow with more.
const ROWS: usize = 5_000;

/// A row of a sweep.
pub(super) struct Row {
    /// Values of the swept keys, in their order.
    pub(super) at: Vec<String>,
    pub(super) job: String,
    /// Mean and interval of each figure.
    pub(super) figures: Vec<(Option<f64>, Option<[f64; 2]>)>,
    /// Other columns.
    texts: Vec<String>,
}

/// The rows of a sweep.
pub(super) struct Rows {
    pub(super) keys: Vec<String>,
    pub(super) metrics: Vec<&'static Metric>,
    /// Names of the other columns.
    texts: Vec<String>,
    pub(super) rows: Vec<Row>,
    /// Names of jobs, each once.
    pub(super) jobs: Vec<String>,
    /// Number of rows of the file, of which the page has the first ones.
    all: usize,
}

/// Returns the section of the rows of a sweep.
pub(super) fn section(table: &Table) -> Section {
    let rows = Rows::read(table);
    let keys: Vec<String> = rows.keys.iter().map(|key| format!("`{key}`")).collect();
    let title = match keys.is_empty() {
        true => "Sweep".to_owned(),
        false => format!("Sweep over {}", keys.join(", ")),
    };
    let origin = "Rows of a sweep do not say which scenario, seed and version made them. `forebay sweep SCENARIO --output FILE` makes rows; \
                  the same scenario and version give the same rows again."
        .to_owned();
    let parts = vec![
        Part::new("Figures over the swept keys", rows.figures()),
        Part::new("All points", rows.table()),
        Part::new("How sure is it?", rows.certainty()),
        Part::new("What was assumed", rows.assumed()),
        Part::new(ORIGIN, vec![Block::Paragraph(origin)]),
    ];
    Section { title, answer: rows.answer(), warnings: rows.warnings(), parts }
}

impl Rows {
    fn read(table: &Table) -> Rows {
        let columns = table.columns();
        let job = columns.iter().position(|name| name == "job").unwrap_or(0);
        let find = |name: &str| columns.iter().position(|column| column == name);
        let mut metrics = Vec::new();
        let mut texts = Vec::new();
        for (at, name) in columns.iter().enumerate().skip(job + 1) {
            let base = name.strip_suffix("_lo").or_else(|| name.strip_suffix("_hi"));
            if base.is_some_and(|base| metric::of_column(base).is_some()) {
                continue;
            }
            match metric::of_column(name).filter(|of| of.is_swept()) {
                Some(metric) => {
                    let ends = find(&format!("{name}_lo")).zip(find(&format!("{name}_hi")));
                    metrics.push((metric, at, ends));
                }
                None => texts.push(at),
            }
        }
        let number = |row: usize, at: usize| {
            table.text(row, at).parse::<f64>().ok().filter(|number| number.is_finite())
        };
        let of_row = |row: usize| Row {
            at: (0..job).map(|at| table.text(row, at).to_owned()).collect(),
            job: table.text(row, job).to_owned(),
            figures: metrics
                .iter()
                .map(|(_, at, ends)| {
                    let ends =
                        ends.and_then(|(low, high)| Some([number(row, low)?, number(row, high)?]));
                    let ends = ends.filter(|[low, high]| low <= high);
                    (number(row, *at), ends)
                })
                .collect(),
            texts: texts.iter().map(|at| table.text(row, *at).to_owned()).collect(),
        };
        let rows: Vec<Row> = (0..table.len().min(ROWS)).map(of_row).collect();
        let mut jobs: Vec<String> = Vec::new();
        for row in &rows {
            if !jobs.contains(&row.job) {
                jobs.push(row.job.clone());
            }
        }
        Rows {
            keys: columns[..job].to_vec(),
            metrics: metrics.into_iter().map(|(metric, ..)| metric).collect(),
            texts: texts.into_iter().map(|at| columns[at].clone()).collect(),
            rows,
            jobs,
            all: table.len(),
        }
    }

    /// Writes where a row lies.
    fn place(&self, row: &Row) -> String {
        let pairs = self.keys.iter().zip(&row.at).filter(|(_, value)| !value.is_empty());
        pairs.map(|(key, value)| format!("`{key} = {value}`")).collect::<Vec<_>>().join(", ")
    }

    /// Says with which values each job is the best and the worst, by the first figure of which more or less is better.
    fn answer(&self) -> Vec<String> {
        let by_name = DRAWN
            .iter()
            .filter_map(|name| self.metrics.iter().position(|metric| metric.column == *name));
        let mut judged = by_name.chain(0..self.metrics.len());
        let judged = judged.find(|at| self.metrics[*at].better != Better::Neither);
        let Some(at) = judged else {
            return vec![format!("{} points were simulated.", self.rows.len())];
        };
        let metric = self.metrics[at];
        let mut answer = Vec::new();
        for job in &self.jobs {
            let own = self.rows.iter().filter(|row| row.job == *job);
            let known: Vec<(&Row, f64, Option<[f64; 2]>)> =
                own.filter_map(|row| Some((row, row.figures[at].0?, row.figures[at].1))).collect();
            let sign = if metric.better == Better::Higher { 1.0 } else { -1.0 };
            // Of equal points the first is named.
            let order =
                |a: &&(&Row, f64, _), b: &&(&Row, f64, _)| (sign * b.1).total_cmp(&(sign * a.1));
            let (Some(best), Some(worst)) =
                (known.iter().min_by(order), known.iter().rev().max_by(order))
            else {
                answer.push(format!("`{job}` completed no step at any point."));
                continue;
            };
            let write = |of: &(&Row, f64, Option<[f64; 2]>)| {
                let place = self.place(of.0);
                let at = if place.is_empty() { place } else { format!(" with {place}") };
                written(of.1, of.2, metric.unit) + &at
            };
            let number = known.len();
            // Points whose intervals overlap with that of the best one may be as good.
            let overlaps = |of: &&(&Row, f64, Option<[f64; 2]>)| match (of.2, best.2) {
                (Some(_), Some(_)) => !diff::are_apart(of.2, best.2),
                _ => of.1 == best.1,
            };
            let alike = match known.iter().filter(overlaps).count().saturating_sub(1) {
                0 => String::new(),
                1 => " (one other point is not told apart from it)".to_owned(),
                more => format!(" ({more} other points are not told apart from it)"),
            };
            answer.push(match number {
                1 => format!("`{job}`: {} {}.", lower(&metric.label), write(best)),
                _ => format!(
                    "Of {number} points, `{job}` has the best {} at {}{alike}; the worst is {}.",
                    lower(&metric.label),
                    write(best),
                    write(worst)
                ),
            });
        }
        answer
    }

    fn warnings(&self) -> Vec<String> {
        let (shown, all) = (self.rows.len(), self.all);
        let cut =
            format!("The page has the first {shown} of {all} rows. Select rows to see the others.");
        let cut = (shown < all).then_some(cut);
        cut.into_iter().chain(self.shorts()).collect()
    }

    /// Says at how many rows the run is too short, and why.
    fn shorts(&self) -> Vec<String> {
        let Some(at) = self.texts.iter().position(|name| name == "too_short") else {
            return Vec::new();
        };
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for row in &self.rows {
            if !row.texts[at].is_empty() {
                *reasons.entry(row.texts[at].as_str()).or_default() += 1;
            }
        }
        let all = self.rows.len();
        let warning = |(why, number): (&str, usize)| {
            format!(
                "The run is too short at {number} of {all} rows: {}.",
                why.trim_end_matches('.')
            )
        };
        // Reasons that contain numbers differ from row to row: the warning gives the first, the table all.
        if reasons.len() > 3 {
            let number: usize = reasons.values().sum();
            let first = reasons.keys().next().copied().unwrap_or_default();
            let column = metric::of_column("too_short").map_or("too_short", |of| &of.label);
            let first = format!("the column \"{column}\" says why, such as: {first}");
            return vec![warning((first.as_str(), number))];
        }
        reasons.into_iter().map(warning).collect()
    }

    fn certainty(&self) -> Vec<Block> {
        let points = self.rows.len();
        let without = self.rows.iter().filter(|row| {
            row.figures.iter().any(|(mean, _)| mean.is_some())
                && row.figures.iter().all(|(_, ends)| ends.is_none())
        });
        let rows = counted(points as f64, "row");
        let mut all = vec![format!(
            "{rows}. What stands behind ± or in brackets is the interval that the sweep wrote: a 95 % interval of the mean or, where \
             parameters were drawn, what holds 90 % of single runs."
        )];
        let number = without.count();
        if number > 0 {
            let part = share(number as f64 / points as f64);
            all.push(format!(
                "{number} rows ({part}) have no interval: too few steps or replications."
            ));
        }
        vec![Block::List(all)]
    }

    fn assumed(&self) -> Vec<Block> {
        let text = "Rows do not say which defaults a run took: `forebay explain-defaults SCENARIO` lists them.";
        vec![Block::Paragraph(text.to_owned())]
    }

    fn table(&self) -> Vec<Block> {
        let mut columns: Vec<Column> = self.keys.iter().map(Column::text).collect();
        let several = self.jobs.len() > 1 || self.keys.is_empty();
        columns.extend(several.then(|| Column::text("job")));
        columns.extend(self.metrics.iter().map(|metric| Column::number(&*metric.label)));
        let label = |name: &String| {
            metric::of_column(name).map_or_else(|| name.clone(), |of| of.label.to_string())
        };
        columns.extend(self.texts.iter().map(|name| Column::text(label(name))));
        let row = |row: &Row| {
            let mut cells: Vec<Cell> = row.at.iter().map(|text| value_cell(text)).collect();
            cells.extend(several.then(|| Cell::from(row.job.as_str())));
            let figure = |(metric, (mean, ends)): (&&Metric, &(Option<f64>, Option<[f64; 2]>))| {
                Cell::number(*mean, |mean| written(mean, *ends, metric.unit.below_its_name()))
            };
            cells.extend(self.metrics.iter().zip(&row.figures).map(figure));
            cells.extend(row.texts.iter().map(|text| Cell::from(text.as_str())));
            cells
        };
        let rows: Vec<Vec<Cell>> = self.rows.iter().map(row).collect();
        let job = match &self.jobs[..] {
            [one] if !several => format!(" of `{one}`"),
            _ => String::new(),
        };
        let caption = format!("Every point{job}, with its intervals");
        let kept = self.keys.len() + usize::from(several);
        let (table, same) = without_same(PageTable { caption, columns, rows }, kept);
        let mut blocks = vec![Block::Table(table)];
        if !same.is_empty() {
            blocks.push(Block::Paragraph(format!("The same at every point: {}.", same.join("; "))));
        }
        blocks
    }

    fn figures(&self) -> Vec<Block> {
        let drawn: Vec<usize> = DRAWN
            .iter()
            .filter_map(|name| self.metrics.iter().position(|metric| metric.column == *name))
            .collect();
        let drawn = if drawn.is_empty() { (0..self.metrics.len().min(2)).collect() } else { drawn };
        if self.keys.is_empty() || self.rows.len() < 2 {
            return Vec::new();
        }
        drawn.into_iter().flat_map(|at| sweep_figure::blocks(self, at)).collect()
    }

    /// Returns whether the run of a row was too short to show the long run.
    pub(super) fn is_short(&self, row: &Row) -> bool {
        let at = self.texts.iter().position(|name| name == "too_short");
        at.is_some_and(|at| !row.texts[at].is_empty())
    }

    /// Returns the distinct values of a key, in the order of the file.
    pub(super) fn values(&self, key: usize) -> Vec<&str> {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let values = self.rows.iter().map(|row| row.at[key].as_str());
        values.filter(|value| seen.insert(value)).collect()
    }
}

/// Removes the columns, except the first `kept`, that have the same cell in every row; returns the table, and what these
/// columns have.
fn without_same(mut table: PageTable, kept: usize) -> (PageTable, Vec<String>) {
    let mut same = Vec::new();
    let Some(first) = table.rows.first().cloned().filter(|_| table.rows.len() > 1) else {
        return (table, same);
    };
    for at in (kept..table.columns.len()).rev() {
        let text = &first[at].text;
        if table.rows.iter().all(|row| row[at].text == *text) {
            let column = table.columns.remove(at);
            table.rows.iter_mut().for_each(|row| drop(row.remove(at)));
            let value = if text.is_empty() || text == "–" { "none" } else { text };
            same.push(format!("{}: {value}", column.name));
        }
    }
    same.reverse();
    (table, same)
}

/// Distance of a mean from the middle of its interval, relative to the interval's width, above which both ends are written.
const OFF: f64 = 0.02;

/// Writes a figure with its interval: as ± if the mean is in the middle. Rows do not say in which currency money is.
fn written(mean: f64, ends: Option<[f64; 2]>, unit: Unit) -> String {
    let unit = if unit == Unit::Money { Unit::Count } else { unit };
    let is_off = |[low, high]: &[f64; 2]| (mean - (low + high) / 2.0).abs() > OFF * (high - low);
    match ends.filter(is_off) {
        Some(ends) => with_range(mean, ends, unit, ""),
        None => with_interval(mean, ends, unit, ""),
    }
}

/// Returns a label with a small first letter, as within a sentence.
fn lower(label: &str) -> String {
    let mut letters = label.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
