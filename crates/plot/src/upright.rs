//! Draws vertical bars, one group for each named position on the x axis.

use super::lines::{LinesDrawing, TICK, whisker};
use super::palette::{Colour, INK, colour};
use super::shape::{Frame, Shape, Side, Text, rectangle};
use super::{Point, Series, Style, font};

/// Share of a named position's width that its bars fill.
const FILLED: f64 = 0.76;
/// Opacity of the bar of a run that was too short.
const PALE: f64 = 0.25;
/// Maximum width of a bar [px].
const WIDEST: f64 = 46.0;

/// Returns a bar. That of a run that was too short is pale with an outline.
pub(super) fn filled(frame: Frame, colour: Colour, short: bool) -> Vec<Shape> {
    if !short {
        return vec![rectangle(frame, colour, 1.0)];
    }
    let mut path = frame.corners();
    path.extend(path.first().copied());
    vec![rectangle(frame, colour, PALE), Shape::Line { path, colour, width: 1.0 }]
}

impl LinesDrawing<'_> {
    /// Returns all bars with their intervals, and with their values if all values fit.
    pub(super) fn upright_bars(&self, frame: &Frame) -> Vec<Shape> {
        let bars = |series: &&Series| series.style == Style::Bars;
        let all: Vec<&Series> = self.lines.series.iter().filter(bars).collect();
        let names = self.lines.categories.len().max(1) as f64;
        let width = (FILLED * frame.width() / names / all.len().max(1) as f64).min(WIDEST);
        let mut shapes = Vec::new();
        let mut values = Vec::new();
        for (number, series) in all.iter().enumerate() {
            let shift = (number as f64 - (all.len() as f64 - 1.0) / 2.0) * width;
            for point in &series.points {
                let Some(x) = self.across(point.x, frame) else { continue };
                shapes.extend(self.bar(series, point, (x + shift, width), frame));
                values.push(self.value(point, x + shift, frame));
            }
        }
        let fits = |text: &Text| font::width(&text.text, TICK, false) + 2.0 <= width.max(20.0);
        let values: Vec<Text> = values.into_iter().flatten().collect();
        if values.iter().all(fits) {
            shapes.extend(values.into_iter().map(Shape::Text));
        }
        shapes
    }

    /// Returns the shapes of one bar centred at `x`, and of the line that shows its interval.
    fn bar(
        &self,
        series: &Series,
        point: &Point,
        (x, width): (f64, f64),
        frame: &Frame,
    ) -> Vec<Shape> {
        let ends = point.y.and_then(|y| Some((self.down(0.0, frame)?, self.down(y, frame)?)));
        let Some((from, to)) = ends else { return Vec::new() };
        let inside = |y: f64| y.clamp(frame.top, frame.bottom);
        let (top, bottom) = (inside(from.min(to)), inside(from.max(to)));
        let (left, right) = (x - 0.46 * width, x + 0.46 * width);
        let mut shapes =
            filled(Frame { left, top, right, bottom }, colour(series.index), point.short);
        let band = point
            .band
            .and_then(|[low, high]| Some((self.down(low, frame)?, self.down(high, frame)?)));
        if let Some((low, high)) = band {
            shapes.extend(whisker(frame, (x, 0.18 * width), [low, high], INK));
        }
        shapes
    }

    /// Returns the value of a bar as text above it.
    fn value(&self, point: &Point, x: f64, frame: &Frame) -> Option<Text> {
        let y = point.y?;
        let top = self.down(y.max(0.0), frame)?;
        let above = point
            .band
            .and_then(|[_, high]| self.down(high, frame))
            .map_or(top, |high| high.min(top));
        let at = (x, above.max(frame.top) - 8.0);
        let text = self.lines.y.unit.write(y);
        Some(Text { at, text, size: TICK, bold: false, side: Side::Middle, colour: INK })
    }
}
