//! Places names beside points.

use super::lines::{LinesDrawing, TICK};
use super::palette::{INK, PAPER};
use super::shape::{Frame, Place, Shape, Side, Text, rectangle};
use super::{Label, clip, font};

/// Distance from a point to its name, horizontally and vertically [px].
const ASIDE: f64 = 8.0;
const ABOVE: f64 = 9.0;
/// Height of a name [px].
const HEIGHT: f64 = 13.0;
/// Maximum width of a name, as a share of the panel's width.
const WIDEST: f64 = 0.4;
/// Number of points that names should not hide at most: more of them hide each other.
const POINTS: usize = 2000;

impl LinesDrawing<'_> {
    /// Returns the names of points, each where it hides least. A name that would hide another one is left out.
    pub(super) fn point_labels(&self, frame: &Frame) -> Vec<Shape> {
        if self.lines.labels.is_empty() {
            return Vec::new();
        }
        let places: Vec<Vec<Option<Place>>> =
            self.lines.series.iter().map(|series| self.places(series, frame)).collect();
        let dots: Vec<Place> = places.iter().flatten().flatten().copied().take(POINTS).collect();
        let curves: Vec<Vec<Place>> = (self.lines.series.iter().zip(&places))
            .filter(|(series, _)| series.style.joins())
            .map(|(_, places)| places.iter().flatten().copied().collect())
            .collect();
        let mut taken: Vec<Frame> = Vec::new();
        let mut shapes = Vec::new();
        for label in &self.lines.labels {
            let Some((text, own)) = self.beside(label, frame) else { continue };
            let free = own.into_iter().filter(|(_, back)| {
                inside(back, frame) && !taken.iter().any(|other| overlap(back, other))
            });
            let hides = |back: &Frame| {
                let dots = dots.iter().filter(|at| clip::holds(back, **at)).count();
                let curves = curves.iter().map(|path| clip::path(path, back).len()).sum::<usize>();
                2 * dots + curves
            };
            let Some((at, back)) = free.min_by_key(|(_, back)| hides(back)) else { continue };
            shapes.push(rectangle(back, PAPER, 0.75));
            shapes.push(Shape::Text(Text {
                at,
                text,
                size: TICK,
                bold: false,
                side: Side::Middle,
                colour: INK,
            }));
            taken.push(back);
        }
        shapes
    }

    /// Returns a label's text, and its possible positions with the areas that it would hide.
    fn beside(&self, label: &Label, frame: &Frame) -> Option<(String, Vec<(Place, Frame)>)> {
        let (x, y) = (self.across(label.x, frame)?, self.down(label.y, frame)?);
        let text = font::shortened(&label.text, TICK, false, WIDEST * frame.width());
        let half = font::width(&text, TICK, false) / 2.0;
        let aside = half + ASIDE;
        let steps = [
            (aside, ABOVE),
            (aside, -ABOVE),
            (-aside, -ABOVE),
            (-aside, ABOVE),
            (aside, 0.0),
            (-aside, 0.0),
            (0.0, -ABOVE - 4.0),
            (0.0, ABOVE + 4.0),
        ];
        let place = |(dx, dy): (f64, f64)| {
            let at = (x + dx, y + dy);
            let (left, right) = (at.0 - half, at.0 + half);
            (at, Frame { left, top: at.1 - HEIGHT / 2.0, right, bottom: at.1 + HEIGHT / 2.0 })
        };
        clip::holds(frame, (x, y)).then(|| (text, steps.map(place).to_vec()))
    }
}

fn inside(back: &Frame, frame: &Frame) -> bool {
    back.left >= frame.left
        && back.right <= frame.right
        && back.top >= frame.top
        && back.bottom <= frame.bottom
}

fn overlap(a: &Frame, b: &Frame) -> bool {
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AxisSpec, Lines, Point, Series, Style};

    #[test]
    fn names_of_points_hide_neither_each_other_nor_the_frame() {
        // System: points in a corner, next to each other, and apart, all with names. Expectation: names are inside the frame, and no
        // two overlap; the point apart has its name beside it.
        let at = [(0.0, 0.0), (10.0, 10.0), (10.0, 9.9), (10.0, 9.8), (5.0, 2.0)];
        let point = |(x, y): (f64, f64)| Point { x, y: Some(y), ..Point::default() };
        let points = at.map(point).to_vec();
        let label = |(x, y): (f64, f64)| Label { x, y, text: format!("{x} and {y}") };
        let lines = Lines {
            x: AxisSpec::default(),
            y: AxisSpec::default(),
            series: vec![Series { points, style: Style::Points, ..Series::default() }],
            marks: Vec::new(),
            labels: at.map(label).to_vec(),
            legend: String::new(),
            legend_shown: true,
            categories: Vec::new(),
            shares_x: false,
        };
        let frame = Frame { left: 50.0, top: 0.0, right: 450.0, bottom: 200.0 };
        let drawing = LinesDrawing::new(&lines, &[0.0, 10.0], 400.0, 200.0).expect("a panel");
        let shapes = drawing.point_labels(&frame);
        let texts: Vec<&Text> = shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Text(text) => Some(text),
                _ => None,
            })
            .collect();
        let back = |text: &Text| {
            let half = font::width(&text.text, TICK, false) / 2.0;
            let (x, y) = text.at;
            Frame { left: x - half, top: y - 6.5, right: x + half, bottom: y + 6.5 }
        };
        let backs: Vec<Frame> = texts.iter().map(|text| back(text)).collect();
        assert!(backs.iter().all(|back| inside(back, &frame)), "{backs:?}");
        for (index, one) in backs.iter().enumerate() {
            assert!(backs[..index].iter().all(|other| !overlap(one, other)), "{backs:?}");
        }
        assert!(texts.len() >= 3 && texts.iter().any(|text| text.text == "5 and 2"), "{texts:?}");
    }
}
