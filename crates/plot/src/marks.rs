//! Draws reference lines and their labels.

use super::lines::{LinesDrawing, TICK};
use super::palette::{GREY, PAPER};
use super::shape::{Frame, Place, Shape, Side, Text, dashes, rectangle};
use super::{Mark, Series, clip, font};

impl LinesDrawing<'_> {
    pub(super) fn mark_line(&self, mark: &Mark, frame: &Frame) -> Vec<Shape> {
        let ends = if mark.vertical {
            self.across(mark.at, frame).map(|x| [(x, frame.top), (x, frame.bottom)])
        } else {
            self.down(mark.at, frame).map(|y| [(frame.left, y), (frame.right, y)])
        };
        let inside = ends.filter(|ends| ends.iter().all(|end| clip::holds(frame, *end)));
        let pieces = inside.map(|ends| dashes(&ends, [5.0, 3.5])).unwrap_or_default();
        pieces.into_iter().map(|path| Shape::Line { path, colour: GREY, width: 1.1 }).collect()
    }

    /// Returns the label of a reference line: above the frame for a vertical line; for a horizontal line, where it hides the
    /// least.
    pub(super) fn mark_label(&self, mark: &Mark, frame: &Frame) -> Option<Vec<Shape>> {
        if mark.label.is_empty() {
            return None;
        }
        let label = font::shortened(&mark.label, TICK, false, frame.width() - 12.0);
        let half = font::width(&label, TICK, false) / 2.0;
        let text = |at| {
            let (text, side) = (label.clone(), Side::Middle);
            Shape::Text(Text { at, text, size: TICK, bold: false, side, colour: GREY })
        };
        let ends =
            [frame.left + half + 6.0, (frame.right - half - 6.0).max(frame.left + half + 6.0)];
        if mark.vertical {
            let x = self.across(mark.at, frame)?.clamp(ends[0] - 6.0, ends[1] + 6.0);
            return Some(vec![text((x, frame.top - 8.0))]);
        }
        let y = self.down(mark.at, frame)?;
        let back = |(x, y): Place| Frame {
            left: x - half - 2.0,
            top: y - 7.0,
            right: x + half + 2.0,
            bottom: y + 7.0,
        };
        // The ends and the middle come first, then what lies between.
        let between = [0.75, 0.25, 0.875, 0.625, 0.375, 0.125];
        let xs = [1.0, 0.0, 0.5].into_iter().chain(between);
        let xs = xs.map(|part| ends[0] + part * (ends[1] - ends[0]));
        let places = xs.flat_map(|x| [(x, y - 9.0), (x, y + 9.0)]);
        let inside = places.filter(|(_, y)| *y - 7.0 >= frame.top && *y + 7.0 <= frame.bottom);
        let at = inside.min_by_key(|at| self.hidden(&back(*at), frame))?;
        Some(vec![rectangle(back(at), PAPER, 0.8), text(at)])
    }

    /// Returns how many pieces of curves the area `back` would hide.
    fn hidden(&self, back: &Frame, frame: &Frame) -> usize {
        let pieces = |series: &Series| {
            let places: Vec<Place> = self.places(series, frame).into_iter().flatten().collect();
            clip::path(&places, back).len()
        };
        self.lines.series.iter().map(pieces).sum()
    }
}
