//! Labels curves at their right ends, if the labels do not overlap.

use super::axis::Axis;
use super::lines::are_named;
use super::palette::{Colour, INK, colour};
use super::shape::{Frame, Shape, Side, Text, segment};
use super::{Lines, Series, Style, font};

/// Size of the text, and minimum distance between two names [px].
const SIZE: f64 = 11.0;
const PITCH: f64 = 14.0;
/// Maximum distance from the end of a curve to its name [px].
const FARTHEST: f64 = 18.0;
/// Distance from the panel to the curves' labels [px].
const GAP: f64 = 14.0;
/// Minimum share of the x axis that every curve must reach for curves to be labelled.
const REACHED: f64 = 0.9;
/// Minimum distance between the ends of two curves, so that each can be seen [px].
const APART: f64 = 4.0;

/// Names of curves at the right of a panel.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Direct {
    title: String,
    names: Vec<Name>,
}

/// The name of a curve. Positions are shares of the panel's width (from the left) and height (from the bottom).
#[derive(Debug, Clone, PartialEq)]
struct Name {
    text: String,
    colour: Colour,
    /// Position of the curve's end.
    across: f64,
    end: f64,
    /// Vertical position of the name.
    at: f64,
}

impl Direct {
    /// Returns names of at most `room` px for the curves of a panel of this height [px]; `None` if a legend is needed instead, or
    /// the curves need no names.
    pub(super) fn fit(lines: &Lines, x: &Axis, y: &Axis, height: f64, room: f64) -> Option<Direct> {
        let curves = || lines.series.iter().filter(|series| series.style != Style::Dots);
        let joined = curves().all(|series| series.style.joins());
        if !are_named(lines) || !joined {
            return None;
        }
        let names = curves().map(|series| name(series, x, y, room));
        let mut names = names.collect::<Option<Vec<Name>>>()?;
        names.sort_by(|a, b| a.end.total_cmp(&b.end));
        if names.windows(2).any(|pair| (pair[1].end - pair[0].end) * height < APART) {
            return None;
        }
        let pitch = PITCH / height;
        let lowest = PITCH / 2.0 / height;
        let mut free = lowest;
        for name in &mut names {
            name.at = name.end.max(free);
            free = name.at + pitch;
        }
        // The title takes the first line.
        let title = usize::from(!lines.legend.is_empty()) as f64;
        let mut top = 1.0 - lowest - title * pitch;
        for name in names.iter_mut().rev() {
            name.at = name.at.min(top);
            top = name.at - pitch;
        }
        let far = |name: &Name| (name.at - name.end).abs() * height > FARTHEST;
        let below = names.first().is_some_and(|name| name.at < lowest - 1e-9);
        if below || names.iter().any(far) {
            return None;
        }
        Some(Direct { title: font::shortened(&lines.legend, SIZE, true, room), names })
    }

    /// Returns the width of the names, including the gap before them [px].
    pub(super) fn width(&self) -> f64 {
        let names = self.names.iter().map(|name| font::width(&name.text, SIZE, false));
        GAP + names.chain([font::width(&self.title, SIZE, true)]).fold(0.0, f64::max)
    }

    pub(super) fn draw(&self, frame: &Frame, shapes: &mut Vec<Shape>) {
        let left = frame.right + GAP;
        let down = |share: f64| frame.bottom - share * frame.height();
        let text = |y: f64, text: &str, bold: bool| {
            let (text, side) = (text.to_owned(), Side::Left);
            Shape::Text(Text { at: (left, y), text, size: SIZE, bold, side, colour: INK })
        };
        if !self.title.is_empty() {
            shapes.push(text(frame.top + PITCH / 2.0, &self.title, true));
        }
        for name in &self.names {
            let from = (frame.left + name.across * frame.width() + 5.0, down(name.end));
            shapes.push(segment(from, (left - 3.0, down(name.at)), name.colour, 1.0));
            shapes.push(text(down(name.at), &name.text, false));
        }
    }
}

/// Returns the name of a curve; `None` unless the curve ends at the right of the panel.
fn name(series: &Series, x: &Axis, y: &Axis, room: f64) -> Option<Name> {
    let last = series.points.iter().rev().find(|point| point.y.is_some())?;
    let (across, end) = (x.place(last.x)?, y.place(last.y?)?);
    let inside = across >= REACHED && (-1e-6..=1.0 + 1e-6).contains(&end);
    let text = font::shortened(&series.name, SIZE, false, room);
    let colour = colour(series.index);
    inside.then_some(Name { text, colour, across, end, at: end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AxisSpec, Point};

    /// Returns lines from 0 that end at these values.
    fn lines(ends: &[f64], legend: &str) -> Lines {
        let series = |(index, end): (usize, &f64)| Series {
            name: format!("curve {index}"),
            points: [0.0, 1.0].map(|x| Point { x, y: Some(x * end), band: None }).to_vec(),
            index,
            style: Style::Auto,
        };
        Lines {
            x: AxisSpec::default(),
            y: AxisSpec::default(),
            series: ends.iter().enumerate().map(series).collect(),
            marks: Vec::new(),
            legend: legend.into(),
            legend_shown: true,
            categories: Vec::new(),
            shares_x: false,
        }
    }

    fn fit(ends: &[f64], legend: &str) -> Option<Direct> {
        let spec = AxisSpec { range: [Some(0.0), Some(1.0)], ..AxisSpec::default() };
        let axis = Axis::fit(&spec, &[0.0, 1.0], &[], 5, true).expect("an axis");
        Direct::fit(&lines(ends, legend), &axis, &axis, 150.0, 100.0)
    }

    #[test]
    fn curves_with_separate_ends_are_labelled_at_their_ends() {
        let direct = fit(&[0.2, 0.8, 0.5], "").expect("room");
        let at: Vec<(&str, f64)> =
            direct.names.iter().map(|of| (of.text.as_str(), of.at)).collect();
        assert_eq!(at, [("curve 0", 0.2), ("curve 2", 0.5), ("curve 1", 0.8)]);
    }

    #[test]
    fn names_of_close_curves_move_apart_and_names_that_do_not_fit_need_a_legend() {
        let direct = fit(&[0.5, 0.55], "").expect("room");
        let apart = direct.names[1].at - direct.names[0].at;
        assert!((apart * 150.0 - PITCH).abs() < 1e-9, "{apart}");
        // With more names than fit near the ends of their curves, or equal ends, there are no names.
        assert_eq!(fit(&[0.5, 0.53, 0.56, 0.59, 0.62], ""), None);
        assert_eq!(fit(&[0.5, 0.5], ""), None);
    }

    #[test]
    fn names_of_curves_leave_the_first_line_to_the_title() {
        let direct = fit(&[0.95, 0.2], "Workers").expect("room");
        assert!((1.0 - direct.names[1].at) * 150.0 >= 1.5 * PITCH - 1e-9);
    }

    #[test]
    fn a_single_curve_is_not_labelled_with_a_name() {
        assert_eq!(fit(&[0.5], ""), None);
    }
}
