//! Labels curves at their right ends.
//!
//! Names stand in one column at the right of a panel, each as near to the end of its curve as the others permit. A line in the
//! curve's colour joins both. Several panels may draw the same curves; the names are beside the panel in which they are nearest.

use super::axis::Axis;
use super::palette::{INK, colour, dash};
use super::shape::{Frame, Place, Shape, Side, Text, dashes, segment};
use super::{Lines, Series, font};

/// Size of the text, and minimum distance between two names [px].
const SIZE: f64 = 11.0;
const PITCH: f64 = 14.0;
/// Maximum distance from the end of a curve to its name, vertically [px].
const FARTHEST: f64 = 30.0;
/// Distance from the panel to the names; a sample of the curve's line before the name, and the gap after it [px].
pub(super) const GAP: f64 = 30.0;
const SAMPLE: f64 = 12.0;
const AFTER: f64 = 4.0;
/// Minimum share of the x axis that every curve must reach for curves to be labelled.
const REACHED: f64 = 0.9;
/// Maximum distance between the ends of curves that cannot be told apart there [px], and maximum number of such curves.
const TOGETHER: f64 = 1.5;
const BUNDLED: usize = 2;

/// Names of curves at the right of a panel.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Direct {
    title: String,
    names: Vec<Name>,
    /// Height of the panel [px].
    height: f64,
}

/// The name of a curve. Positions are shares of the panel's width (from the left) and height (from the bottom).
#[derive(Debug, Clone, PartialEq)]
struct Name {
    text: String,
    index: usize,
    /// Position of the curve's end.
    across: f64,
    end: f64,
    /// The curve's heights before its end, from right to left.
    before: Vec<f64>,
    /// Vertical position of the name.
    at: f64,
}

impl Direct {
    /// Returns names of at most `room` px for `curves` at the right of a panel of this height [px] that draws them; `None` if the
    /// names would be far from the ends of their curves.
    pub(super) fn fit(
        panel: &Lines,
        curves: &[&Series],
        [x, y]: [&Axis; 2],
        height: f64,
        room: f64,
    ) -> Option<Direct> {
        let own = |wanted: &&Series| panel.series.iter().find(|own| own.name == wanted.name);
        let names = curves.iter().map(|wanted| name(own(wanted)?, x, y, room));
        let mut names = names.collect::<Option<Vec<Name>>>()?;
        // Curves that end at the same point are named in the order in which they come there.
        let near = |a: f64, b: f64| (a - b).abs() * height <= TOGETHER;
        let order = |a: &Name, b: &Name| {
            let mut before = a.before.iter().zip(&b.before);
            let (a, b) = before.find(|(a, b)| !near(**a, **b)).unwrap_or((&a.end, &b.end));
            a.total_cmp(b)
        };
        names.sort_by(|a, b| a.end.total_cmp(&b.end));
        for group in names.chunk_by_mut(|a, b| near(a.end, b.end)) {
            if group.len() > BUNDLED {
                return None;
            }
            group.sort_by(order);
        }
        let lowest = PITCH / 2.0 / height;
        spread(&mut names, PITCH / height, [lowest, 1.0 - lowest]);
        let direct = Direct { title: String::new(), names, height };
        let inside = direct.names.iter().all(|name| (lowest - 1e-9..=1.0).contains(&name.at));
        (inside && direct.farthest() <= FARTHEST)
            .then(|| Direct { title: font::shortened(&panel.legend, SIZE, true, room), ..direct })
    }

    /// Returns the largest vertical distance from the end of a curve to its name [px].
    pub(super) fn farthest(&self) -> f64 {
        let distances = self.names.iter().map(|name| (name.at - name.end).abs() * self.height);
        distances.fold(0.0, f64::max)
    }

    /// Returns whether two curves end at the same point.
    pub(super) fn bundled(&self) -> bool {
        self.names.windows(2).any(|pair| (pair[1].end - pair[0].end) * self.height <= TOGETHER)
    }

    pub(super) fn has_title(&self) -> bool {
        !self.title.is_empty()
    }

    /// Returns the width of the names, including the gap before them [px].
    pub(super) fn width(&self) -> f64 {
        let names = self.names.iter().map(|name| font::width(&name.text, SIZE, false));
        GAP + names.chain([font::width(&self.title, SIZE, true)]).fold(0.0, f64::max)
    }

    /// Draws the names. The title is in the line above the panel; `head` is the height of the room there [px].
    pub(super) fn draw(&self, frame: &Frame, head: f64, shapes: &mut Vec<Shape>) {
        let left = frame.right + GAP;
        let text = |y: f64, text: &str, bold: bool| {
            let (text, side) = (text.to_owned(), Side::Left);
            Shape::Text(Text { at: (left, y), text, size: SIZE, bold, side, colour: INK })
        };
        if !self.title.is_empty() {
            shapes.push(text(frame.top - head + 8.0, &self.title, true));
        }
        let down = |share: f64| frame.bottom - share * frame.height();
        for name in &self.names {
            let from = (frame.left + name.across * frame.width() + 5.0, down(name.end));
            let corner = (left - AFTER - SAMPLE, down(name.at));
            let to = (left - AFTER, down(name.at));
            shapes.push(segment(from, corner, colour(name.index), 0.8));
            shapes.extend(sample(corner, to, name.index));
            shapes.push(text(down(name.at), &name.text, false));
        }
    }
}

/// Returns a piece of a curve's line.
fn sample(from: Place, to: Place, index: usize) -> Vec<Shape> {
    let path = vec![from, to];
    let pieces = dash(index).map_or_else(|| vec![path.clone()], |dash| dashes(&path, dash));
    let line = |path| Shape::Line { path, colour: colour(index), width: 1.8 };
    pieces.into_iter().map(line).collect()
}

/// Moves names as little as possible so that neighbours are `pitch` apart and all lie within `ends`. The names are in ascending
/// order of the ends of their curves.
fn spread(names: &mut [Name], pitch: f64, ends: [f64; 2]) {
    // Names that touch form a group, which stands around the mean of its curves' ends: the least sum of squares.
    let mut groups: Vec<(f64, usize)> = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let mut last = (name.end - number as f64 * pitch, 1);
        while let Some((lower, many)) = groups.pop_if(|(lower, _)| *lower > last.0) {
            let (a, b) = (many as f64, last.1 as f64);
            last = ((lower * a + last.0 * b) / (a + b), many + last.1);
        }
        groups.push(last);
    }
    let highest = ends[1] - names.len().saturating_sub(1) as f64 * pitch;
    let lows = groups.into_iter().flat_map(|(low, many)| std::iter::repeat_n(low, many));
    for ((number, name), low) in names.iter_mut().enumerate().zip(lows) {
        name.at = low.min(highest).max(ends[0]) + number as f64 * pitch;
    }
}

/// Returns the name of a curve; `None` unless the curve is a line that ends at the right of the panel.
fn name(series: &Series, x: &Axis, y: &Axis, room: f64) -> Option<Name> {
    let seen = series.points.iter().rev().filter(|point| point.y.is_some());
    let last = seen.clone().next().filter(|_| series.style.joins())?;
    let (across, end) = (x.place(last.x)?, y.place(last.y?)?);
    let before = seen.skip(1).filter_map(|point| y.place(point.y?)).collect();
    let inside = across >= REACHED && (-1e-6..=1.0 + 1e-6).contains(&end);
    let text = font::shortened(&series.name, SIZE, false, room);
    inside.then_some(Name { text, index: series.index, across, end, before, at: end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AxisSpec, Point, Style};

    /// Returns lines from 0 at the left to these heights in the middle and at the right.
    fn lines(heights: &[[f64; 2]]) -> Lines {
        let point = |(place, height): (usize, f64)| Point {
            x: (place as f64) / 2.0,
            y: Some(height),
            ..Point::default()
        };
        let series = |(index, [middle, end]): (usize, &[f64; 2])| Series {
            name: format!("curve {index}"),
            points: [0.0, *middle, *end].into_iter().enumerate().map(point).collect(),
            index,
            style: Style::Auto,
        };
        Lines {
            x: AxisSpec::default(),
            y: AxisSpec::default(),
            series: heights.iter().enumerate().map(series).collect(),
            marks: Vec::new(),
            labels: Vec::new(),
            legend: String::new(),
            legend_shown: true,
            categories: Vec::new(),
            shares_x: false,
        }
    }

    /// Returns the names and their distances from the lower end of a panel of 150 px.
    fn fit(heights: &[[f64; 2]]) -> Option<Vec<(String, f64)>> {
        let spec = AxisSpec { range: [Some(0.0), Some(1.0)], ..AxisSpec::default() };
        let axis = Axis::fit(&spec, &[0.0, 1.0], &[], 5, true).expect("an axis");
        let lines = lines(heights);
        let curves: Vec<&Series> = lines.series.iter().collect();
        let direct = Direct::fit(&lines, &curves, [&axis, &axis], 150.0, 100.0)?;
        Some(direct.names.into_iter().map(|of| (of.text, (of.at * 150.0).round())).collect())
    }

    fn named(names: &[(&str, f64)]) -> Option<Vec<(String, f64)>> {
        Some(names.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect())
    }

    #[test]
    fn curves_with_separate_ends_are_labelled_at_their_ends() {
        let found = fit(&[[0.1, 0.2], [0.1, 0.8], [0.1, 0.5]]);
        assert_eq!(found, named(&[("curve 0", 30.0), ("curve 2", 75.0), ("curve 1", 120.0)]));
    }

    #[test]
    fn names_of_curves_with_close_ends_move_apart_evenly_and_stay_in_the_panel() {
        // 75 and 81 px: 4 px down and up. At the upper end, the first name stays inside.
        let found = fit(&[[0.1, 0.5], [0.1, 0.54]]);
        assert_eq!(found, named(&[("curve 0", 71.0), ("curve 1", 85.0)]));
        let found = fit(&[[0.1, 1.0], [0.1, 0.96]]);
        assert_eq!(found, named(&[("curve 1", 129.0), ("curve 0", 143.0)]));
    }

    #[test]
    fn two_curves_that_end_together_are_named_in_the_order_in_which_they_arrive() {
        for [first, second] in [[0.2, 0.4], [0.4, 0.2]] {
            let found = fit(&[[first, 0.5], [second, 0.5]]).expect("two names");
            assert_eq!(found[0].0, if first < second { "curve 0" } else { "curve 1" });
        }
    }

    #[test]
    fn three_curves_that_end_together_or_names_far_from_their_ends_need_a_legend() {
        assert_eq!(fit(&[[0.1, 0.5], [0.2, 0.5], [0.3, 0.5]]), None);
        let bunch = |count: usize| (0..count).map(|n| [0.1, 0.5 + 0.015 * n as f64]).collect();
        let (few, many): (Vec<_>, Vec<_>) = (bunch(5), bunch(8));
        assert!(fit(&few).is_some() && fit(&many).is_none());
    }

    #[test]
    fn curves_that_end_before_the_right_of_the_panel_need_a_legend() {
        let spec = AxisSpec { range: [Some(0.0), Some(2.0)], ..AxisSpec::default() };
        let axis = Axis::fit(&spec, &[0.0, 1.0], &[], 5, true).expect("an axis");
        let lines = lines(&[[0.1, 0.2], [0.1, 0.8]]);
        let curves: Vec<&Series> = lines.series.iter().collect();
        assert_eq!(Direct::fit(&lines, &curves, [&axis, &axis], 150.0, 100.0), None);
    }
}
