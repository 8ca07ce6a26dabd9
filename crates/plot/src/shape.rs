//! Shapes that a picture consists of, independent of the backend. Lengths are in CSS pixels.

use super::palette::{Colour, Theme};

/// A position: distance from the left and from the top [px].
pub(super) type Place = (f64, f64);

/// A shape to draw.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    /// Connected segments.
    Line { path: Vec<Place>, colour: Colour, width: f64 },
    /// A filled area.
    Area { path: Vec<Place>, colour: Colour, opacity: f64 },
    /// A filled circle.
    Dot { at: Place, radius: f64, colour: Colour },
    /// A line of text.
    Text(Text),
}

impl Shape {
    /// Returns the shape in the colours of `theme`.
    pub(super) fn painted(mut self, theme: Theme) -> Shape {
        let colour = match &mut self {
            Shape::Line { colour, .. } | Shape::Area { colour, .. } | Shape::Dot { colour, .. } => {
                colour
            }
            Shape::Text(text) => &mut text.colour,
        };
        *colour = theme.paint(*colour);
        self
    }
}

/// A line of text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Text {
    /// Position of the text: horizontally of its left end, middle or right end, according to `side`;
    /// vertically of its middle.
    pub at: Place,
    pub text: String,
    /// Height of an em [px].
    pub size: f64,
    pub bold: bool,
    pub side: Side,
    pub colour: Colour,
}

/// The part of a text that lies at the text's position: its left end, middle or right end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Middle,
    Right,
}

/// A rectangle [px].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Frame {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Frame {
    pub(super) fn width(&self) -> f64 {
        self.right - self.left
    }

    pub(super) fn height(&self) -> f64 {
        self.bottom - self.top
    }

    pub(super) fn corners(&self) -> Vec<Place> {
        vec![
            (self.left, self.top),
            (self.right, self.top),
            (self.right, self.bottom),
            (self.left, self.bottom),
        ]
    }
}

/// Returns a filled rectangle.
pub(super) fn rectangle(frame: Frame, colour: Colour, opacity: f64) -> Shape {
    Shape::Area { path: frame.corners(), colour, opacity }
}

/// Returns a straight line.
pub(super) fn segment(from: Place, to: Place, colour: Colour, width: f64) -> Shape {
    Shape::Line { path: vec![from, to], colour, width }
}

/// Cuts a path into dashes of `on` px with gaps of `off` px.
pub(super) fn dashes(path: &[Place], [on, off]: [f64; 2]) -> Vec<Vec<Place>> {
    let mut pieces = Vec::new();
    let (mut drawing, mut left) = (true, on);
    let mut piece: Vec<Place> = path.iter().take(1).copied().collect();
    for pair in path.windows(2) {
        let (mut from, to) = (pair[0], pair[1]);
        let mut length = (to.0 - from.0).hypot(to.1 - from.1);
        while length > left {
            let share = left / length;
            from = (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share);
            length -= left;
            piece.push(from);
            if drawing {
                pieces.push(std::mem::take(&mut piece));
            }
            drawing = !drawing;
            left = if drawing { on } else { off };
            piece = vec![from];
        }
        left -= length;
        piece.push(to);
    }
    if drawing && piece.len() > 1 {
        pieces.push(piece);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_and_gaps_alternate() {
        let pieces = dashes(&[(0.0, 0.0), (10.0, 0.0)], [3.0, 1.0]);
        let ends: Vec<(f64, f64)> =
            pieces.iter().map(|piece| (piece[0].0, piece[piece.len() - 1].0)).collect();
        assert_eq!(ends, [(0.0, 3.0), (4.0, 7.0), (8.0, 10.0)]);
    }
}
