//! Draws a panel of a heat map: a table whose cells are the darker, the larger their values are.

use super::axis::Axis;
use super::clip;
use super::layout::Margins;
use super::lines::{LABEL, LABEL_LINE, TICK, TICK_LINE, nothing, tick_text};
use super::naming::LONGEST_NAME;
use super::palette::{Colour, GREY, INK, PAPER, colour};
use super::shape::{Frame, Place, Shape, Side, Text, rectangle, segment};
use super::{Cell, Heat, PlotError, Scale, font};

/// Height of a row [px].
const ROW: f64 = 26.0;
/// Gap between cells [px].
const GAP: f64 = 1.0;
/// Opacity of the smallest and of the largest value.
const OPACITY: [f64; 2] = [0.08, 0.92];
/// Opacity from which on text is in the colour of the paper. The contrast of either colour is at least 3.5 there, in both themes.
const DARK: f64 = 0.78;
/// Width of the border of a cell whose run was too short [px].
const BORDER: f64 = 3.5;
/// Distance between the strokes of hatching [px].
const HATCH: f64 = 7.0;
/// Width and height of the colour bar; height of its line with the ticks [px].
const BAR: [f64; 2] = [190.0, 9.0];
const BAR_LINE: f64 = 34.0;
/// Number of steps of the colour bar.
const STEPS: usize = 38;

/// A heat map whose names fit and whose colours are fixed.
pub(super) struct HeatDrawing<'a> {
    pub(super) heat: &'a Heat,
    rows: Vec<String>,
    columns: Vec<String>,
    /// Axis of the colours.
    axis: Axis,
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
        let [low, high] = heat.range;
        let axis = match &heat.bar {
            None => Axis { scale: Scale::Linear, low, high, ticks: Vec::new(), minor: Vec::new() },
            Some(bar) => {
                let values = heat.cells.iter().flatten().flatten().map(|cell| cell.value);
                let axis = Axis::fit(bar, &values.collect::<Vec<_>>(), &[], 3, false);
                axis.ok_or_else(|| nothing(bar))?
            }
        };
        Ok(HeatDrawing { heat, rows, columns, axis })
    }

    pub(super) fn height(&self) -> f64 {
        self.rows.len() as f64 * ROW
    }

    pub(super) fn margins(&self) -> Margins {
        let bar = if self.heat.bar.is_some() { BAR_LINE } else { 6.0 };
        let rows = if self.heat.row_label.is_empty() { 0.0 } else { LABEL_LINE };
        Margins {
            left: widest(&self.rows) + 10.0,
            top: bar + rows,
            right: 6.0,
            bottom: TICK_LINE + LABEL_LINE,
        }
    }

    /// Returns the place of each cell of each row.
    pub(super) fn places(&self, frame: &Frame) -> Vec<Vec<Frame>> {
        let width = frame.width() / self.columns.len() as f64;
        let row_height = frame.height() / self.rows.len() as f64;
        let of_row = |row: usize| {
            let top = frame.top + row as f64 * row_height;
            let of_column = |column: usize| {
                let left = frame.left + column as f64 * width;
                Frame {
                    left: left + GAP,
                    top: top + GAP,
                    right: left + width - GAP,
                    bottom: top + row_height - GAP,
                }
            };
            (0..self.columns.len()).map(of_column).collect()
        };
        (0..self.rows.len()).map(of_row).collect()
    }

    pub(super) fn draw(&self, frame: &Frame, shapes: &mut Vec<Shape>) {
        let width = frame.width() / self.columns.len() as f64;
        let row_height = frame.height() / self.rows.len() as f64;
        let places = self.places(frame);
        for (index, name) in self.rows.iter().enumerate() {
            let middle = frame.top + (index as f64 + 0.5) * row_height;
            shapes.push(tick_text((frame.left - 7.0, middle), name, Side::Right));
            for (cell, place) in self.heat.cells[index].iter().zip(&places[index]) {
                match cell {
                    Some(cell) => self.cell(cell, *place, shapes),
                    None if self.heat.bar.is_some() => shapes.extend(hatched(place)),
                    None => {}
                }
            }
        }
        for (column, name) in self.columns.iter().enumerate() {
            let middle = frame.left + (column as f64 + 0.5) * width;
            shapes.push(tick_text((middle, frame.bottom + 0.6 * TICK_LINE), name, Side::Middle));
        }
        let below = frame.bottom + TICK_LINE + 0.6 * LABEL_LINE;
        let label = (0.5 * (frame.left + frame.right), below);
        let size = if self.heat.bar.is_some() { LABEL } else { TICK };
        shapes.push(words(label, &self.heat.label, size, Side::Middle));
        let above = (frame.left - widest(&self.rows) - 7.0, frame.top - 0.5 * LABEL_LINE);
        if !self.heat.row_label.is_empty() {
            shapes.push(words(above, &self.heat.row_label, LABEL, Side::Left));
        }
        self.bar(frame, shapes);
    }

    /// Draws a cell, with its text if that fits.
    fn cell(&self, cell: &Cell, place: Frame, shapes: &mut Vec<Shape>) {
        let opacity = self.opacity(cell.value);
        let inner = if cell.short { 2.0 * BORDER } else { 2.0 };
        match cell.short {
            true => shapes.extend(outlined(place, colour(0), opacity)),
            false => shapes.push(rectangle(place, colour(0), opacity)),
        }
        if font::width(&cell.text, TICK, false) > place.width() - inner {
            return;
        }
        shapes.push(Shape::Text(Text {
            at: ((place.left + place.right) / 2.0, (place.top + place.bottom) / 2.0),
            text: cell.text.clone(),
            size: TICK,
            bold: false,
            side: Side::Middle,
            colour: if opacity > DARK && !cell.short { PAPER } else { INK },
        }));
    }

    /// Draws the colour bar at the right end of the line above the cells, with its label at the left.
    fn bar(&self, frame: &Frame, shapes: &mut Vec<Shape>) {
        let Some(spec) = &self.heat.bar else { return };
        let top = frame.top - self.margins().top + 4.0;
        let width = BAR[0].min(0.5 * frame.width());
        let bar =
            Frame { left: frame.right - width, top, right: frame.right, bottom: top + BAR[1] };
        // Each step lies over all before it: parts side by side would have seams.
        let mut before = 0.0;
        for number in 0..STEPS {
            let left = bar.left + number as f64 * bar.width() / STEPS as f64;
            let opacity = opacity_of((number as f64 + 0.5) / STEPS as f64);
            let more = 1.0 - (1.0 - opacity) / (1.0 - before);
            shapes.push(rectangle(Frame { left, ..bar }, colour(0), more));
            before = opacity;
        }
        let mut free = f64::NEG_INFINITY;
        for tick in &self.axis.ticks {
            let Some(share) = self.axis.place(tick.at) else { continue };
            let x = bar.left + share.clamp(0.0, 1.0) * bar.width();
            let half = font::width(&tick.label, TICK, false) / 2.0;
            // The label of the last tick stays within the panel.
            let middle = x.min(frame.right - half + 6.0);
            if middle - half < free {
                continue;
            }
            free = middle + half + 4.0;
            shapes.push(segment((x, bar.bottom), (x, bar.bottom + 3.0), INK, 0.9));
            shapes.push(tick_text((middle, bar.bottom + 10.0), &tick.label, Side::Middle));
        }
        let left = frame.left - widest(&self.rows) - 7.0;
        let label = font::shortened(&spec.label, LABEL, false, bar.left - 14.0 - left);
        shapes.push(words((left, top + BAR[1] / 2.0), &label, LABEL, Side::Left));
    }

    /// Returns how dark a value is.
    fn opacity(&self, value: f64) -> f64 {
        opacity_of(self.axis.place(value).map_or(1.0, |share| share.clamp(0.0, 1.0)))
    }
}

/// Returns the opacity of the colour at this part of the colour bar.
fn opacity_of(share: f64) -> f64 {
    OPACITY[0] + share * (OPACITY[1] - OPACITY[0])
}

/// Returns a cell of which only the border has a colour, with a thin outline so that pale colours are seen.
pub(super) fn outlined(place: Frame, colour: Colour, opacity: f64) -> Vec<Shape> {
    let border = BORDER.min(place.width() / 4.0).min(place.height() / 4.0);
    let inner = Frame {
        left: place.left + border,
        top: place.top + border,
        right: place.right - border,
        bottom: place.bottom - border,
    };
    let mut path = place.corners();
    path.extend(path.first().copied());
    let line = Shape::Line { path, colour, width: 0.8 };
    vec![rectangle(place, colour, opacity), rectangle(inner, PAPER, 1.0), line]
}

/// Returns the strokes of a hatched cell.
pub(super) fn hatched(place: &Frame) -> Vec<Shape> {
    let height = place.height();
    let strokes = ((place.width() + height) / HATCH).floor().max(0.0) as usize;
    let stroke = |number: usize| {
        let x = place.left + (number as f64 + 0.5) * HATCH;
        let path: [Place; 2] = [(x, place.top), (x - height, place.bottom)];
        clip::path(&path, place)
    };
    let lines = (0..=strokes.min(2000)).flat_map(stroke);
    lines.map(|path| Shape::Line { path, colour: GREY, width: 0.6 }).collect()
}

fn words(at: Place, text: &str, size: f64, side: Side) -> Shape {
    Shape::Text(Text { at, text: text.to_owned(), size, bold: false, side, colour: INK })
}

fn widest(names: &[String]) -> f64 {
    names.iter().map(|name| font::width(name, TICK, false)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AxisSpec, Figure, Panel, svg};

    fn cell(value: f64, text: &str) -> Option<Cell> {
        Some(Cell { value, text: text.into(), ..Cell::default() })
    }

    fn heat() -> Heat {
        Heat {
            rows: vec!["a".into(), "b".into()],
            columns: vec!["x".into(), "y".into()],
            cells: vec![vec![cell(0.0, "none"), cell(10.0, "all")], vec![None, cell(5.0, "half")]],
            range: [0.0, 10.0],
            label: "what".into(),
            ..Heat::default()
        }
    }

    fn picture(heat: Heat) -> Result<String, PlotError> {
        svg(&Figure { panels: vec![Panel::Heat(heat)], ..Figure::default() })
    }

    #[test]
    fn larger_values_are_darker_and_missing_ones_leave_a_gap() {
        let heat = heat();
        let drawing = HeatDrawing::new(&heat, 400.0).unwrap();
        assert_eq!([0.0, 10.0].map(|value| drawing.opacity(value)), OPACITY);
        assert!((drawing.opacity(5.0) - 0.5).abs() < 1e-9);
        let text = picture(heat.clone()).unwrap();
        assert!(["none", "all", "half", "what"].iter().all(|word| text.contains(word)));
        assert!(!text.contains("<polyline"));
        assert!(picture(Heat { rows: Vec::new(), ..heat }).is_err());
    }

    #[test]
    fn a_colour_bar_has_label_and_ticks_and_missing_cells_are_hatched() {
        let bar = AxisSpec { label: "Stalls".into(), ..AxisSpec::default() };
        let text = picture(Heat { bar: Some(bar), row_label: "Rows".into(), ..heat() }).unwrap();
        for word in ["\nStalls\n", "\nRows\n", "\n0\n", "\n10\n"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        let hatching = hatched(&Frame { left: 0.0, top: 0.0, right: 20.0, bottom: 10.0 });
        assert!(hatching.len() >= 3, "{hatching:?}");
        assert!(text.matches("<polyline").count() > hatching.len(), "{text}");
    }

    #[test]
    fn a_value_that_does_not_fit_into_its_cell_is_left_out() {
        let mut heat = heat();
        heat.cells[0][0] = cell(0.0, &"wide ".repeat(100));
        assert!(!picture(heat).unwrap().contains("wide"));
    }
}
