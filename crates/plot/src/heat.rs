//! Draws a panel of a heat map: a table whose cells are the darker, the larger their values are.

use super::layout::Margins;
use super::lines::{LABEL_LINE, TICK, TICK_LINE, tick_text};
use super::naming::LONGEST_NAME;
use super::palette::{INK, PAPER, colour};
use super::shape::{Frame, Shape, Side, Text, rectangle};
use super::{Heat, PlotError, font};

/// Height of a row [px].
const ROW: f64 = 26.0;
/// Gap between cells [px].
const GAP: f64 = 1.0;
/// Opacity of the smallest and of the largest value.
const OPACITY: [f64; 2] = [0.08, 0.92];
/// Opacity from which on text is in the colour of the paper.
const DARK: f64 = 0.55;

/// A heat map whose names fit.
pub(super) struct HeatDrawing<'a> {
    heat: &'a Heat,
    rows: Vec<String>,
    columns: Vec<String>,
}

impl<'a> HeatDrawing<'a> {
    /// Shortens the names for a cell of width `cell` [px].
    pub(super) fn new(heat: &'a Heat, cell: f64) -> Result<Self, PlotError> {
        if heat.rows.is_empty() || heat.columns.is_empty() {
            return Err(PlotError::NoData("the heat map has no cells".into()));
        }
        let short = |room: f64| move |name: &String| font::shortened(name, TICK, false, room);
        let rows: Vec<String> = heat.rows.iter().map(short(LONGEST_NAME * cell)).collect();
        let left = widest(&rows);
        let room = (cell - left) / heat.columns.len() as f64 - 2.0 * GAP;
        let columns = heat.columns.iter().map(short(room.max(8.0))).collect();
        Ok(HeatDrawing { heat, rows, columns })
    }

    pub(super) fn height(&self) -> f64 {
        self.rows.len() as f64 * ROW
    }

    pub(super) fn margins(&self) -> Margins {
        Margins {
            left: widest(&self.rows) + 10.0,
            top: 6.0,
            right: 6.0,
            bottom: TICK_LINE + LABEL_LINE,
        }
    }

    pub(super) fn draw(&self, frame: &Frame, shapes: &mut Vec<Shape>) {
        let width = frame.width() / self.columns.len() as f64;
        let row_height = frame.height() / self.rows.len() as f64;
        for (index, name) in self.rows.iter().enumerate() {
            let middle = frame.top + (index as f64 + 0.5) * row_height;
            shapes.push(tick_text((frame.left - 7.0, middle), name, Side::Right));
            for (column, cell) in self.heat.cells[index].iter().enumerate() {
                let Some((value, text)) = cell else { continue };
                let left = frame.left + column as f64 * width;
                let place = Frame {
                    left: left + GAP,
                    top: middle - row_height / 2.0 + GAP,
                    right: left + width - GAP,
                    bottom: middle + row_height / 2.0 - GAP,
                };
                let opacity = self.opacity(*value);
                shapes.push(rectangle(place, colour(0), opacity));
                let room = width - 4.0 * GAP;
                shapes.push(Shape::Text(Text {
                    at: (left + width / 2.0, middle),
                    text: font::shortened(text, TICK, false, room),
                    size: TICK,
                    bold: false,
                    side: Side::Middle,
                    colour: if opacity > DARK { PAPER } else { INK },
                }));
            }
        }
        for (column, name) in self.columns.iter().enumerate() {
            let middle = frame.left + (column as f64 + 0.5) * width;
            shapes.push(tick_text((middle, frame.bottom + 0.6 * TICK_LINE), name, Side::Middle));
        }
        shapes.push(Shape::Text(Text {
            at: (0.5 * (frame.left + frame.right), frame.bottom + TICK_LINE + 0.6 * LABEL_LINE),
            text: self.heat.label.clone(),
            size: TICK,
            bold: false,
            side: Side::Middle,
            colour: INK,
        }));
    }

    /// Returns how dark a value is.
    fn opacity(&self, value: f64) -> f64 {
        let [low, high] = self.heat.range;
        let share = if high > low { ((value - low) / (high - low)).clamp(0.0, 1.0) } else { 1.0 };
        OPACITY[0] + share * (OPACITY[1] - OPACITY[0])
    }
}

fn widest(names: &[String]) -> f64 {
    names.iter().map(|name| font::width(name, TICK, false)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Figure, Panel, svg};

    #[test]
    fn larger_values_are_darker_and_missing_ones_leave_a_gap() {
        let heat = Heat {
            rows: vec!["a".into(), "b".into()],
            columns: vec!["x".into(), "y".into()],
            cells: vec![
                vec![Some((0.0, "none".into())), Some((10.0, "all".into()))],
                vec![None, Some((5.0, "half".into()))],
            ],
            range: [0.0, 10.0],
            label: "what".into(),
        };
        let drawing = HeatDrawing::new(&heat, 400.0).unwrap();
        assert_eq!([0.0, 10.0].map(|value| drawing.opacity(value)), OPACITY);
        assert!((drawing.opacity(5.0) - 0.5).abs() < 1e-9);
        let panels = vec![Panel::Heat(heat.clone())];
        let text = svg(&Figure { panels, ..Figure::default() }).unwrap();
        assert!(["none", "all", "half", "what"].iter().all(|word| text.contains(word)));
        let empty = vec![Panel::Heat(Heat { rows: Vec::new(), ..heat })];
        assert!(svg(&Figure { panels: empty, ..Figure::default() }).is_err());
    }
}
