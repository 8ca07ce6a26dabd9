//! A figure as part of an HTML page: its shapes without a frame around them, and a text for each value that readers point at.

use super::bars::BarsDrawing;
use super::clip;
use super::heat::HeatDrawing;
use super::lines::LinesDrawing;
use super::palette::dark_rules;
use super::render::{SVG_SCALE, shapes_as_svg};
use super::shape::Frame;
use super::{AxisSpec, Figure, PlotError, Unit, layout};

/// Half of the width and height of the area around a point in which its text is shown [px].
const REACH: f64 = 5.0;

/// A figure for an HTML page.
#[derive(Debug, Clone, PartialEq)]
pub struct Inline {
    /// Width and height [px].
    pub size: (u32, u32),
    /// Elements of SVG, in units of 0.1 px.
    pub shapes: String,
    /// Values of the figure, in the order in which they are drawn.
    pub hints: Vec<Hint>,
}

/// A value of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Hint {
    /// Left, top, width and height of the value's area [0.1 px].
    pub place: [i32; 4],
    /// What is there, and its value.
    pub text: String,
}

/// Returns the figure as part of an HTML page, in the colours of the light theme. [`Inline::dark_rules`] has those of the dark one.
pub fn inline(figure: &Figure) -> Result<Inline, PlotError> {
    let picture = layout::picture(figure)?;
    let hints = picture.hints.iter().map(|(frame, text)| {
        let scaled = |value: f64| (value * f64::from(SVG_SCALE)).round() as i32;
        let place = [frame.left, frame.top, frame.width(), frame.height()].map(scaled);
        Hint { place, text: text.clone() }
    });
    Ok(Inline { size: picture.size, shapes: shapes_as_svg(&picture)?, hints: hints.collect() })
}

impl Inline {
    /// Returns the view box of the shapes.
    #[must_use]
    pub fn view_box(&self) -> String {
        format!("0 0 {} {}", self.size.0 * SVG_SCALE, self.size.1 * SVG_SCALE)
    }

    /// Returns the rules of a style sheet that paint figures in the dark theme.
    #[must_use]
    pub fn dark_rules() -> String {
        dark_rules()
    }
}

/// Returns the lines of a hint that are not empty.
fn lines_of(lines: &[String]) -> String {
    let all: Vec<&str> = lines.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
    all.join("\n")
}

/// Writes a value with the name of its axis.
fn on_axis(axis: &AxisSpec, value: f64) -> String {
    match axis.label.is_empty() {
        true => axis.unit.write(value),
        false => format!("{}: {}", axis.label, axis.unit.write(value)),
    }
}

/// Writes the ends of an interval.
fn interval(band: Option<[f64; 2]>, unit: Unit) -> String {
    let written = band.map(|ends| ends.map(|end| unit.write(end)));
    written.map_or(String::new(), |[low, high]| format!(" [{low}, {high}]"))
}

fn too_short(is_short: bool) -> &'static str {
    if is_short { ", from a run that was too short" } else { "" }
}

impl LinesDrawing<'_> {
    /// Returns a text for each point that is in the frame.
    pub(super) fn hints(&self, frame: &Frame) -> Vec<(Frame, String)> {
        let mut hints = Vec::new();
        for series in &self.lines.series {
            for (point, place) in series.points.iter().zip(self.places(series, frame)) {
                let (Some((x, y)), Some(value)) = (place, point.y) else { continue };
                if !clip::holds(frame, (x, y)) {
                    continue;
                }
                let at = match self.lines.categories.get(point.x as usize) {
                    Some(name) => name.clone(),
                    None => on_axis(&self.lines.x, point.x),
                };
                let unit = self.lines.y.unit;
                let value = on_axis(&self.lines.y, value)
                    + &interval(point.band, unit)
                    + too_short(point.short);
                let (left, right) = (x - REACH, x + REACH);
                let around = Frame { left, top: y - REACH, right, bottom: y + REACH };
                hints.push((around, lines_of(&[series.name.clone(), at, value])));
            }
        }
        hints
    }
}

impl BarsDrawing<'_> {
    /// Returns a text for each part of a bar.
    pub(super) fn hints(&self, frame: &Frame) -> Vec<(Frame, String)> {
        let mut hints = Vec::new();
        for (bar, places) in self.bars.bars.iter().zip(self.places(frame)) {
            for ((part, length), place) in self.bars.parts.iter().zip(&bar.lengths).zip(places) {
                if *length > 0.0 {
                    let unit = self.bars.x.unit;
                    let value = format!("{}: {}", part.name, unit.write(*length))
                        + &interval(bar.band, unit)
                        + too_short(bar.short);
                    hints.push((place, lines_of(&[bar.name.clone(), value])));
                }
            }
        }
        hints
    }
}

impl HeatDrawing<'_> {
    /// Returns a text for each cell.
    pub(super) fn hints(&self, frame: &Frame) -> Vec<(Frame, String)> {
        let mut hints = Vec::new();
        for (row, places) in self.places(frame).into_iter().enumerate() {
            for (column, place) in places.into_iter().enumerate() {
                if let Some(Some(cell)) = self.heat.cells[row].get(column) {
                    let (row, column) = (&self.heat.rows[row], &self.heat.columns[column]);
                    let text = format!("{row}, {column}: {}{}", cell.text, too_short(cell.short));
                    hints.push((place, text));
                }
            }
        }
        hints
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lines, Panel, Point, Series};

    #[test]
    fn each_point_of_a_curve_has_a_text_with_its_name_and_values() {
        let point = |(x, y): (f64, f64)| Point {
            x,
            y: Some(y),
            band: Some([y - 0.5, y + 0.5]),
            short: false,
        };
        let axis = |label: &str, unit: Unit| AxisSpec {
            label: label.to_owned(),
            unit,
            ..AxisSpec::default()
        };
        let points = [(1.0, 2.0), (2.0, 3.0)].map(point).to_vec();
        let lines = Lines {
            x: axis("Time", Unit::Seconds),
            y: axis("Rate", Unit::Number),
            series: vec![Series { name: "<a>".to_owned(), points, ..Series::default() }],
            legend_shown: true,
            ..Lines::default()
        };
        let figure = Figure { panels: vec![Panel::Lines(lines)], ..Figure::default() };
        let found = inline(&figure).expect("a figure");
        let texts: Vec<&str> = found.hints.iter().map(|hint| hint.text.as_str()).collect();
        assert_eq!(
            texts,
            ["<a>\nTime: 1 s\nRate: 2 [1.5, 2.5]", "<a>\nTime: 2 s\nRate: 3 [2.5, 3.5]"]
        );
        assert!(found.shapes.starts_with("<polygon"), "{}", found.shapes);
        assert!(!found.shapes.contains("<svg") && !found.shapes.contains("<a>"));
    }
}
