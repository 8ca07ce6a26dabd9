//! The legend, at the right of a panel outside the data.

use super::font;
use super::palette::{Colour, INK};
use super::shape::{Frame, Place, Shape, Side, Text, dashes, rectangle};

/// Size of text [px].
pub(super) const SIZE: f64 = 11.0;
/// Distance from one entry to the next [px].
const PITCH: f64 = 17.0;
/// Distance from the panel to the line samples of the entries, and width of a line sample [px].
const GAP: f64 = 14.0;
const SAMPLE: f64 = 18.0;

/// An entry.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub name: String,
    pub colour: Colour,
    pub look: Look,
}

/// How the data of an entry are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Look {
    Line { line: bool, dash: Option<[f64; 2]>, dots: bool },
    Area,
}

/// A legend: a title above entries. A legend without entries is not drawn.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Legend {
    pub title: String,
    pub entries: Vec<Entry>,
}

impl Legend {
    /// Returns the width, including the gap before the legend [px].
    pub(super) fn width(&self) -> f64 {
        if self.entries.is_empty() {
            return 0.0;
        }
        let names =
            self.entries.iter().map(|entry| SAMPLE + 7.0 + font::width(&entry.name, SIZE, false));
        GAP + names.chain([font::width(&self.title, SIZE, true)]).fold(0.0, f64::max)
    }

    /// Returns the height [px].
    pub(super) fn height(&self) -> f64 {
        let title = usize::from(!self.title.is_empty() && !self.entries.is_empty());
        (self.entries.len() + title) as f64 * PITCH
    }

    /// Draws the legend at the upper right of a panel.
    pub(super) fn draw(&self, panel: &Frame, shapes: &mut Vec<Shape>) {
        let (left, mut y) = (panel.right + GAP, panel.top + PITCH / 2.0);
        if !self.title.is_empty() && !self.entries.is_empty() {
            shapes.push(words((left, y), &self.title, true));
            y += PITCH;
        }
        for entry in &self.entries {
            sample(entry, left, y, shapes);
            shapes.push(words((left + SAMPLE + 7.0, y), &entry.name, false));
            y += PITCH;
        }
    }
}

/// Draws a sample of the entry's line or area.
fn sample(entry: &Entry, left: f64, y: f64, shapes: &mut Vec<Shape>) {
    let colour = entry.colour;
    match entry.look {
        Look::Area => {
            let frame = Frame { left, top: y - 5.0, right: left + SAMPLE, bottom: y + 5.0 };
            shapes.push(rectangle(frame, colour, 1.0));
        }
        Look::Line { line, dash, dots } => {
            let path = vec![(left, y), (left + SAMPLE, y)];
            let paths = dash.map_or_else(|| vec![path.clone()], |dash| dashes(&path, dash));
            let paths = if line { paths } else { Vec::new() };
            shapes.extend(paths.into_iter().map(|path| Shape::Line { path, colour, width: 1.8 }));
            if dots {
                shapes.push(Shape::Dot { at: (left + SAMPLE / 2.0, y), radius: 2.8, colour });
            }
        }
    }
}

fn words(at: Place, text: &str, bold: bool) -> Shape {
    Shape::Text(Text { at, text: text.to_owned(), size: SIZE, bold, side: Side::Left, colour: INK })
}
