//! Draws the key of a figure: its signs with their meanings, in lines below the titles.

use super::lines::hollow;
use super::palette::{GREY, INK, colour};
use super::shape::{Frame, Shape, Side, Text, rectangle, segment};
use super::upright::filled;
use super::{Key, Sign, font, heat};

/// Size of the text, and height of a line [px].
const SIZE: f64 = 11.0;
const LINE: f64 = 18.0;
/// Width of a sign, and distances from it to its text and from there to the next sign [px].
const SIGN: f64 = 16.0;
const AFTER: f64 = 6.0;
const BETWEEN: f64 = 18.0;

/// The key of a figure, in lines that are not wider than the figure.
pub(super) struct Lines<'a>(Vec<Vec<&'a Key>>);

impl<'a> Lines<'a> {
    /// Breaks the key into lines of at most `room` px.
    pub(super) fn new(key: &'a [Key], room: f64) -> Lines<'a> {
        let mut lines: Vec<Vec<&Key>> = Vec::new();
        let mut used = f64::INFINITY;
        for one in key {
            let width = width(one);
            if used + width > room {
                lines.push(Vec::new());
                used = 0.0;
            }
            used += width + BETWEEN;
            lines.last_mut().into_iter().for_each(|line| line.push(one));
        }
        Lines(lines)
    }

    pub(super) fn height(&self) -> f64 {
        self.0.len() as f64 * LINE
    }

    /// Draws the key with its upper left corner here.
    pub(super) fn draw(&self, (left, top): (f64, f64), shapes: &mut Vec<Shape>) {
        for (number, line) in self.0.iter().enumerate() {
            let middle = top + (number as f64 + 0.5) * LINE - 2.0;
            let mut x = left;
            for one in line {
                shapes.extend(sign(one.sign, x, middle));
                let at = (x + SIGN + AFTER, middle);
                let (text, side) = (one.text.clone(), Side::Left);
                shapes.push(Shape::Text(Text {
                    at,
                    text,
                    size: SIZE,
                    bold: false,
                    side,
                    colour: GREY,
                }));
                x += width(one) + BETWEEN;
            }
        }
    }
}

fn width(key: &Key) -> f64 {
    SIGN + AFTER + font::width(&key.text, SIZE, false)
}

/// Returns a sign whose left end is at `left` and whose middle is at height `y`.
fn sign(sign: Sign, left: f64, y: f64) -> Vec<Shape> {
    let frame = Frame { left, top: y - 5.0, right: left + SIGN, bottom: y + 5.0 };
    let middle = left + SIGN / 2.0;
    match sign {
        Sign::Hollow => hollow((middle, y), GREY).to_vec(),
        Sign::Pale => filled(frame, GREY, true),
        Sign::Outlined => heat::outlined(frame, colour(0), 0.6),
        Sign::Hatched => heat::hatched(&frame),
        Sign::Band => vec![rectangle(frame, GREY, 0.3)],
        Sign::Front => {
            let path =
                vec![(left, y + 4.0), (middle, y + 4.0), (middle, y - 4.0), (frame.right, y - 4.0)];
            vec![Shape::Line { path, colour: INK, width: 1.1 }]
        }
        Sign::Whisker => {
            let line = |from, to| segment(from, to, INK, 1.1);
            let cap = |y: f64| line((middle - 3.0, y), (middle + 3.0, y));
            vec![
                line((middle, frame.top), (middle, frame.bottom)),
                cap(frame.top),
                cap(frame.bottom),
            ]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_wider_than_the_figure_takes_several_lines() {
        let one = Key { sign: Sign::Band, text: "95 % interval of ten replications".into() };
        let key = vec![one; 3];
        let width = width(&key[0]);
        let lines = |room: f64| Lines::new(&key, room).height() / LINE;
        assert_eq!([lines(4.0 * width), lines(2.2 * width), lines(1.0)], [1.0, 2.0, 3.0]);
        assert_eq!(Lines::new(&[], 100.0).height(), 0.0);
    }
}
